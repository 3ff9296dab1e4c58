/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracedat_blocks.c: the metadata blocks of a trace.dat, byte for byte the same in v6 and v7. */
#include "kvmft/ktext.h"
#include "tracedat.h"

struct cursor td_cursor(const struct td *t, const uint8_t *p, size_t n)
{
	return (struct cursor){ .p = p, .left = n, .swap = t->swap };
}

/* The word "NAME" NUL before a block. */
static int expect(struct cursor *cur, const char *word, size_t n)
{
	const uint8_t *p;

	if (cur_bytes(cur, n, &p))
		return -ENODATA;
	return memcmp(p, word, n) ? -EBADMSG : 0;
}

/* u64 length and that many bytes, as a NUL-terminated copy. */
static int text64(struct cursor *cur, char **out, size_t *len)
{
	const uint8_t *p;
	uint64_t n;

	if (cur_u64(cur, &n) || n > cur->left || cur_bytes(cur, (size_t)n, &p))
		return -ENODATA;
	*out = malloc((size_t)n + 1);
	if (!*out)
		return -ENOMEM;
	memcpy(*out, p, (size_t)n);
	(*out)[n] = '\0';
	*len = (size_t)n;
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
		t->c->page_header = p.header;
		if (p.long_size != t->c->long_size)
			cap_note(t->c, "header_page and the file header differ in sizeof(long)");
	} else if (n) {
		cap_note(t->c, "header_page: not understood");
	}
	ret = expect(cur, "header_event", sizeof("header_event"));
	return ret ?: text64(cur, &event, &n);
}

/* One format; its event name is in its first line. */
static int one_format(struct td *t, struct cursor *cur, const char *sys)
{
	_cleanup_free_ char *text = NULL, *name = NULL;
	size_t n;
	int ret = text64(cur, &text, &n);

	if (ret)
		return ret;
	if (!str_starts(text, "name: ")) {
		cap_note(t->c, "a format of %s has no name", sys);
		return 0;
	}
	name = strndup(text + 6, strcspn(text + 6, "\n"));
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
