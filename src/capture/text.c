/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * text.c: kernel text files as both capture formats carry them.
 */
#include "reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A decimal word at *p; moves behind it. */
static bool take_number(char **p, int32_t *v)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(*p, &end, 10);
	if (end == *p || errno || n < 0 || n > INT32_MAX)
		return false;
	*v = (int32_t)n;
	*p = end + strspn(end, " ");
	return true;
}

int cap_parse_cmdlines(struct capture *c, char *text)
{
	char *save, *line;

	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		int32_t tid;
		int ret;

		if (!take_number(&line, &tid) || !*line)
			continue;
		ret = cap_task_add(c, tid, 0, line, false);
		if (ret)
			return ret;
	}
	return 0;
}

int cap_parse_tgids(struct capture *c, char *text)
{
	char *save, *line;

	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		int32_t tid, tgid;
		int ret;

		if (!take_number(&line, &tid) || !take_number(&line, &tgid))
			continue;
		ret = cap_task_add(c, tid, tgid, NULL, false);
		if (ret)
			return ret;
	}
	return 0;
}

int cap_set_printk(struct capture *c, const char *text, size_t len)
{
	if (!len || c->printk)
		return 0;
	if (len > CAP_MAX_TEXT || memchr(text, 0, len)) {
		cap_note(c, "printk formats: no text, or too long");
		return 0;
	}
	c->printk = strndup(text, len);
	if (!c->printk)
		return -ENOMEM;
	c->printk_len = len;
	return 0;
}

int cap_parse_clock(char **slot, const char *text)
{
	const char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
	_cleanup_free_ char *word = NULL;

	if (close)
		word = strndup(open + 1, (size_t)(close - open) - 1);
	else
		word = strndup(text, strcspn(text, " \n"));
	if (!word)
		return -ENOMEM;
	return *word ? cap_set_str(slot, word) : 0;
}

/* "field: TYPE NAME;\toffset:8;\tsize:8;" of the line that declares NAME. */
static bool header_field(const char *text, const char *name, unsigned int *off,
			 unsigned int *size)
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

bool cap_parse_header_page(const char *text, uint32_t *long_size, uint32_t *header,
			   uint32_t *size)
{
	unsigned int commit, clen, data, dlen;

	if (!header_field(text, "commit", &commit, &clen) ||
	    !header_field(text, "data", &data, &dlen))
		return false;
	if (commit != 8 || (clen != 4 && clen != 8) || data < 8 + clen || data > 64)
		return false;
	*long_size = clen;
	*header = data;
	*size = data + dlen;
	return true;
}

void cap_parse_stats(const char *text, struct cap_cpustat *st)
{
	const struct {
		const char *name;
		uint64_t *val;
	} known[] = {
		{ "entries", &st->entries },
		{ "overrun", &st->overrun },
		{ "commit overrun", &st->commit_overrun },
		{ "dropped events", &st->dropped },
		{ "read events", &st->read },
	};
	const char *p = text;
	size_t i;

	for (; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		const char *colon = strchr(p, ':');
		char num[32];
		size_t n;

		if (!colon)
			break;
		for (i = 0; i < ARRAY_SIZE(known); i++) {
			if (strlen(known[i].name) != (size_t)(colon - p) ||
			    memcmp(p, known[i].name, (size_t)(colon - p)))
				continue;
			n = strspn(colon + 1, " ");
			snprintf(num, sizeof(num), "%.*s",
				 (int)strspn(colon + 1 + n, "0123456789") % 31, colon + 1 + n);
			if (!parse_u64(num, known[i].val))
				st->valid = true;
		}
	}
}
