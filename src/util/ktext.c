/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kvmft/ktext.h"

/* "field: TYPE NAME;\toffset:8;\tsize:8;" of the line that declares NAME. */
static bool page_field(const char *text, const char *name, unsigned int *off, unsigned int *size)
{
	size_t n = strlen(name);
	const char *p = text, *semi;

	while ((p = strstr(p, "field:"))) {
		semi = strchr(p, ';');
		if (!semi)
			return false;
		if ((size_t)(semi - p) > n + 1 && !memcmp(semi - n, name, n) &&
		    (semi[-(long)n - 1] == ' '))
			return sscanf(semi, "; offset:%9u; size:%9u;", off, size) == 2;
		p = semi;
	}
	return false;
}

bool ktext_page(const char *text, struct ktext_page *p)
{
	unsigned int commit, clen, data, dlen;

	if (!page_field(text, "commit", &commit, &clen) || !page_field(text, "data", &data, &dlen))
		return false;
	if (commit != 8 || (clen != 4 && clen != 8) || data < 8 + clen || data > 64)
		return false;
	*p = (struct ktext_page){ .long_size = clen, .header = data, .size = data + dlen };
	return true;
}

int ktext_chosen(const char *text, char *buf, size_t size)
{
	const char *from = strchr(text, '[');
	const char *to = from ? strchr(from, ']') : NULL;

	if (!to || to == from + 1 || (size_t)(to - from - 1) >= size)
		return -EINVAL;
	memcpy(buf, from + 1, (size_t)(to - from - 1));
	buf[to - from - 1] = '\0';
	return 0;
}

int ktext_number(const char *text, const char *name, uint64_t *v)
{
	size_t len = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, len) || line[len] != ':')
			continue;
		line += len + 1;
		line += strspn(line, " ");
		if (!take_u64(&line, UINT64_MAX, v))
			return *line >= '0' && *line <= '9' ? -ERANGE : -EINVAL;
		return *line && *line != '\n' ? -EINVAL : 0;
	}
	return -ENOENT;
}
