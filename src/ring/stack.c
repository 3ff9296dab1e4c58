/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stack.c: ftrace:kernel_stack, the kernel's stack at the event before it on its CPU.
 *
 * The record is as long as its stack, but the format declares a fixed number of addresses, and its
 * print format treats those as pointers to functions. So it is read and printed here.
 */
#include "fmt_priv.h"

/* What the kernel stores for a frame of its own function tracer. */
#define TRAMPOLINE INT32_MAX
#define BETWEEN	   " <- "

bool fmt_is_stack(const struct fmt_event *e)
{
	return e->is_stack;
}

/* Older kernels end a stack with an address of all ones. */
static uint32_t up_to_end_mark(const struct fmt *f, const struct fmt_value *v)
{
	uint64_t mark = v->elem == 8 ? UINT64_MAX : UINT32_MAX;
	uint32_t i;

	for (i = 0; i < v->len; i++)
		if (fmt_element(f, v, i) == mark)
			break;
	return i;
}

void fmt_stack(const struct fmt_event *e, const struct rec *rec, struct fmt_value *v)
{
	const struct fmt *f = e->lazy->f;
	struct fmt_field size, caller;
	uint64_t says;

	*v = (struct fmt_value){ .kind = FMT_NUMBERS, .elem = f->long_size == 4 ? 4 : 8 };
	if (!fmt_field(e, "caller", &caller) || caller.is_dynamic || caller.off > rec->len)
		return;
	v->p = rec->data + caller.off;
	v->len = (rec->len - caller.off) / v->elem;
	if (fmt_field(e, "size", &size) && fmt_u64(f, &size, rec, &says))
		v->len = (int64_t)says < 0 ? 0 : (uint32_t)MIN(says, (uint64_t)v->len);
	v->len = up_to_end_mark(f, v);
}

static const struct ksyms *symbols(struct fmt *f)
{
	size_t len;
	const char *text = f->syms_tried || !f->of ? NULL : capture_kallsyms(f->of, &len);

	if (text)
		(void)!ksyms_parse(&f->syms, text, len);
	f->syms_tried = true;
	return &f->syms;
}

/* Bits of common_flags, the same since Linux 2.6.28; NMI since 4.6. */
unsigned int fmt_level(const struct fmt *f, const struct rec *rec)
{
	uint8_t flags = fmt_flags(f, rec);

	return flags & 0x40 ? 3 : flags & 0x08 ? 2 : flags & 0x10 ? 1 : 0;
}

void fmt_stack_name(const struct fmt_event *e, const struct fmt_value *v, uint32_t i,
		    struct sbuf *out)
{
	struct fmt *f = e->lazy->f;
	uint64_t addr = fmt_element(f, v, i);
	const struct ksym *s = ksyms_find(symbols(f), addr);

	if (s) {
		sbuf_add(out, s->name);
		if (*s->module)
			sbuf_addf(out, " [%s]", s->module);
	} else if (addr == TRAMPOLINE) {
		sbuf_add(out, "[FTRACE TRAMPOLINE]");
	} else {
		sbuf_add(out, "0x");
		sbuf_add_hex(out, addr);
	}
}

void fmt_print_stack(const struct fmt_event *e, const struct rec *rec, struct sbuf *out)
{
	struct fmt_value v;

	fmt_stack(e, rec, &v);
	for (uint32_t i = 0; i < v.len; i++) {
		if (i)
			sbuf_add(out, BETWEEN);
		fmt_stack_name(e, &v, i, out);
	}
	if (!v.len)
		sbuf_addc(out, '-');
}
