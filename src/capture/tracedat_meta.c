/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracedat_meta.c: the metadata blocks of a trace.dat, from a capture. */
#include "tracedat_write.h"

static void put_text64(struct sbuf *b, const char *text, size_t n)
{
	tdw_put_u64(b, n);
	sbuf_add_mem(b, text, n);
}

/* As in the kernel's events/header_page and events/header_event. */
static void put_header_info(const struct tdw_spec *s, struct sbuf *b)
{
	static const char event[] = "# compressed entry header\n"
				    "\ttype_len    :    5 bits\n"
				    "\ttime_delta  :   27 bits\n"
				    "\tarray       :   32 bits\n"
				    "\n"
				    "\tpadding     : type == 29\n"
				    "\ttime_extend : type == 30\n"
				    "\ttime_stamp : type == 31\n"
				    "\tdata max type_len  == 28\n";
	char page[512];
	int n = snprintf(page, sizeof(page),
			 "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
			 "\tfield: local_t commit;\toffset:8;\tsize:%u;\tsigned:1;\n"
			 "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
			 "\tfield: char data;\toffset:%u;\tsize:%u;\tsigned:1;\n",
			 s->g.long_size, s->g.header, s->g.size - s->g.header);

	sbuf_add_mem(b, "header_page", 12);
	put_text64(b, page, (size_t)n);
	sbuf_add_mem(b, "header_event", 13);
	put_text64(b, event, sizeof(event) - 1);
}

static bool is_ftrace(const struct cap_format *f)
{
	return !strcmp(f->sys, "ftrace");
}

static void put_ftrace(const struct tdw_spec *s, struct sbuf *b)
{
	const struct capture *c = s->cap;
	uint32_t n = 0;

	for (size_t i = 0; i < c->nformat; i++)
		n += is_ftrace(&c->format[i]);
	tdw_put_u32(b, n);
	for (size_t i = 0; i < c->nformat; i++)
		if (is_ftrace(&c->format[i]))
			put_text64(b, c->format[i].text, c->format[i].len);
}

/* By system; within one as recorded: both are arrays of pointers into the same array. */
static int format_cmp(const void *x, const void *y)
{
	const struct cap_format *a = *(const struct cap_format *const *)x;
	const struct cap_format *b = *(const struct cap_format *const *)y;

	return strcmp(a->sys, b->sys) ?: ORDER(a, b);
}

static void put_formats(const struct tdw_spec *s, struct sbuf *b)
{
	const struct capture *c = s->cap;
	_cleanup_free_ const struct cap_format **f = calloc(c->nformat + 1, sizeof(*f));
	uint32_t systems = 0, count;
	size_t n = 0, k;

	if (!f) {
		b->error = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < c->nformat; i++)
		if (!is_ftrace(&c->format[i]))
			f[n++] = &c->format[i];
	qsort(f, n, sizeof(*f), format_cmp);
	for (size_t i = 0; i < n; i++)
		systems += !i || strcmp(f[i]->sys, f[i - 1]->sys);
	tdw_put_u32(b, systems);
	for (size_t i = 0; i < n; i = k) {
		for (k = i, count = 0; k < n && !strcmp(f[k]->sys, f[i]->sys); k++)
			count++;
		sbuf_add_mem(b, f[i]->sys, strlen(f[i]->sys) + 1);
		tdw_put_u32(b, count);
		for (size_t m = i; m < k; m++)
			put_text64(b, f[m]->text, f[m]->len);
	}
}

/* "tid comm" lines: the only names that trace-cmd has. */
static void put_cmdlines(const struct tdw_spec *s, struct sbuf *b)
{
	const struct capture *c = s->cap;
	_cleanup_(sbuf_free) struct sbuf text = { 0 };

	for (size_t i = 0; i < c->ntask; i++)
		if (c->task[i].tid > 0 && c->task[i].comm && c->task[i].comm[0])
			sbuf_addf(&text, "%d %s\n", c->task[i].tid, c->task[i].comm);
	if (text.error)
		b->error = text.error;
	else
		put_text64(b, text.s ?: "", text.len);
}

void tdw_block(const struct tdw_spec *s, enum tdw_block block, struct sbuf *b)
{
	const char *text;
	size_t len = 0;

	switch (block) {
	case TDW_HEADER_INFO: put_header_info(s, b); break;
	case TDW_FTRACE: put_ftrace(s, b); break;
	case TDW_FORMATS: put_formats(s, b); break;
	case TDW_KALLSYMS:
		text = capture_kallsyms(s->cap, &len);
		tdw_put_u32(b, (uint32_t)len);
		sbuf_add_mem(b, text, len);
		break;
	case TDW_PRINTK:
		tdw_put_u32(b, (uint32_t)s->cap->printk_len);
		sbuf_add_mem(b, s->cap->printk, s->cap->printk_len);
		break;
	case TDW_CMDLINES: put_cmdlines(s, b); break;
	case TDW_BLOCKS: break;
	}
}
