/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracedat_blocks.c: the metadata blocks of a trace.dat, byte for byte the same in v6 and v7. */
#include "kvmft/ktext.h"
#include "tracedat.h"

/* The word "NAME" NUL before a block. */
static int expect(struct cursor *cur, const char *word, size_t n)
{
	const uint8_t *p;

	if (cur_bytes(cur, n, &p))
		return -ENODATA;
	return memcmp(p, word, n) ? -EBADMSG : 0;
}

/* u64 length and that many bytes */
static int bytes64(struct cursor *cur, const char **p, size_t *len)
{
	const uint8_t *at;
	uint64_t n;

	if (cur_u64(cur, &n) || n > cur->left || cur_bytes(cur, (size_t)n, &at))
		return -ENODATA;
	*p = (const char *)at;
	*len = (size_t)n;
	return 0;
}

/* The same as a NUL-terminated copy. */
static int text64(struct cursor *cur, char **out, size_t *len)
{
	const char *p;
	int ret = bytes64(cur, &p, len);

	if (ret)
		return ret;
	*out = malloc(*len + 1);
	if (!*out)
		return -ENOMEM;
	memcpy(*out, p, *len);
	(*out)[*len] = '\0';
	return 0;
}

int td_header_info(struct td *t, struct cursor *cur)
{
	_cleanup_free_ char *page = NULL, *event = NULL;
	struct ktext_page p;
	size_t n;
	int ret = expect(cur, "header_page", sizeof("header_page"));

	ret = ret ?: text64(cur, &page, &n);
	if (ret)
		return ret;
	/* Files of very old kernels lack the text: then the layout follows from sizeof(long). */
	if (ktext_page(page, &p)) {
		/* The file's header has the recorder's sizeof(long), or that of `convert`. */
		t->c->page_header = p.header;
		t->c->long_size = p.long_size;
	} else if (n) {
		cap_note(t->c, "header_page: not understood");
	}
	ret = expect(cur, "header_event", sizeof("header_event"));
	return ret ?: text64(cur, &event, &n);
}

/* One format; its event name is in its first line. */
static int one_format(struct td *t, struct cursor *cur, const char *sys)
{
	static const char begin[] = "name: ";
	const size_t at = sizeof(begin) - 1;
	_cleanup_free_ char *name = NULL;
	const char *text, *eol;
	size_t n;
	int ret = bytes64(cur, &text, &n);

	if (ret)
		return ret;
	if (n < at || memcmp(text, begin, at) != 0) {
		cap_note(t->c, "a format of %s has no name", sys);
		return 0;
	}
	eol = memchr(text + at, '\n', n - at);
	name = strndup(text + at, (size_t)((eol ?: text + n) - text) - at);
	return name ? cap_format_add(t->c, sys, name, text, n) : -ENOMEM;
}

int td_ftrace_events(struct td *t, struct cursor *cur)
{
	uint32_t n;
	int ret = 0;

	if (cur_u32(cur, &n))
		return -ENODATA;
	while (n-- && !ret) /* each takes 8 bytes or ends the loop */
		ret = one_format(t, cur, "ftrace");
	return ret;
}

int td_event_formats(struct td *t, struct cursor *cur)
{
	uint32_t systems, n;
	const char *sys;
	int ret = 0;

	if (cur_u32(cur, &systems))
		return -ENODATA;
	while (systems-- && !ret) {
		if (cur_str(cur, &sys) || cur_u32(cur, &n))
			return -ENODATA;
		while (n-- && !ret)
			ret = one_format(t, cur, sys);
	}
	return ret;
}

int td_printk(struct td *t, struct cursor *cur)
{
	const uint8_t *p;
	uint32_t n;

	if (cur_u32(cur, &n) || cur_bytes(cur, n, &p))
		return -ENODATA;
	return cap_set_printk(t->c, (const char *)p, n);
}

int td_kallsyms(struct td *t, struct cursor *cur)
{
	const uint8_t *p;
	uint32_t n;

	if (cur_u32(cur, &n) || cur_bytes(cur, n, &p))
		return -ENODATA;
	return cap_set_kallsyms(t->c, (const char *)p, n);
}

int td_cmdlines(struct td *t, struct cursor *cur)
{
	_cleanup_free_ char *text = NULL;
	size_t n;
	int ret = text64(cur, &text, &n);

	return ret ?: cap_parse_cmdlines(t->c, text);
}
