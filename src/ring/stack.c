/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stack.c: ftrace:kernel_stack, the kernel's stack at the event before it on its CPU.
 *
 * The record is as long as its stack, but the format declares a fixed number of addresses, and its
 * print format treats those as pointers to functions. So it is read and printed here.
 */
#include "fmt_plan.h"

/* What the kernel stores for a frame of its own function tracer. */
#define TRAMPOLINE INT32_MAX
#define BETWEEN	   " <- "

/* Texts of stacks: the same ones come again and again. */
#define TEXT_BITS 9

struct fmt_stack_text {
	const struct fmt_event *e; /* NULL: empty */
	struct sbuf addresses, text;
};

bool fmt_is_stack(const struct fmt_event *e)
{
	return e->is_stack;
}

void fmt_stack(const struct fmt_event *e, const struct rec *rec, struct fmt_value *v)
{
	struct fmt_stack_fields *s = &e->lazy->f->stack;
	const struct fmt *f = e->lazy->f;
	uint64_t says;
	uint32_t i;

	if (s->of != e) { /* a capture has one such event */
		s->of = e;
		s->has_size = fmt_field(e, "size", &s->size);
		s->has_caller = fmt_field(e, "caller", &s->caller);
	}
	*v = (struct fmt_value){ .kind = FMT_NUMBERS, .elem = f->long_size == 4 ? 4 : 8 };
	if (!s->has_caller || s->caller.is_dynamic || s->caller.off > rec->len)
		return;
	v->p = rec->data + s->caller.off;
	v->len = (rec->len - s->caller.off) / v->elem;
	if (s->has_size && fmt_u64(&s->size, rec, &says))
		v->len = (int64_t)says < 0 ? 0 : (uint32_t)MIN(says, (uint64_t)v->len);
	/* Older kernels end a stack with an address of all ones. */
	for (i = 0; i < v->len; i++)
		if (v->elem == 8 ? load_u64(v->p + i * 8ull) == UINT64_MAX
				 : load_u32(v->p + i * 4ull) == UINT32_MAX)
			break;
	v->len = i;
}

/* Bits of common_flags, the same since Linux 2.6.28; NMI since 4.6. */
unsigned int fmt_level(const struct fmt *f, const struct rec *rec)
{
	uint8_t flags = fmt_flags(f, rec);

	return flags & 0x40 ? 3 : flags & 0x08 ? 2 : flags & 0x10 ? 1 : 0;
}

void fmt_context(const struct fmt *f, const struct rec *rec, char text[FMT_CONTEXT + 1])
{
	uint8_t flags = fmt_flags(f, rec), depth = fmt_preempt(f, rec) & 0xf;

	/* IRQS_OFF 0x01, BH_OFF 0x80; NEED_RESCHED 0x04, PREEMPT_RESCHED 0x20 */
	text[0] = ".bdD"[(flags & 1) << 1 | flags >> 7];
	text[1] = ".npN"[(flags >> 2 & 1) | (flags >> 4 & 2)];
	/* HARDIRQ 0x08, SOFTIRQ 0x10, NMI 0x40 */
	text[2] = flags & 0x40 ? (flags & 8 ? 'Z' : 'z') : ".hsH"[flags >> 3 & 3];
	text[3] = ".123456789abcdef"[depth];
	text[4] = '\0';
}

void fmt_stack_name(const struct fmt_event *e, const struct fmt_value *v, uint32_t i,
		    struct sbuf *out)
{
	struct fmt *f = e->lazy->f;
	uint64_t addr = fmt_element(v, i);
	size_t len;
	const char *text = f->syms_tried || !f->of ? NULL : capture_kallsyms(f->of, &len);
	const struct ksym *s;

	if (text)
		(void)!ksyms_parse(&f->syms, text, len);
	f->syms_tried = true;
	s = ksyms_find(&f->syms, addr);
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

/* Its slot. Stacks that share one by intent are printed as often as they come, no more. */
static size_t slot_of(const uint8_t *p, size_t n)
{
	const uint64_t odd = 0x9e3779b97f4a7c15;
	uint64_t sum = 0, by = odd;

	for (; n >= 8; n -= 8, p += 8, by += 2 * odd)
		sum += load_u64(p) * by;
	if (n)
		sum += load_u32(p) * by;
	return sum >> (64 - TEXT_BITS);
}

const struct sbuf *fmt_stack_text(const struct fmt_event *e, const struct rec *rec)
{
	struct fmt *f = e->lazy->f;
	struct fmt_stack_text *t;
	struct fmt_value v;
	size_t n;

	fmt_stack(e, rec, &v);
	n = (size_t)v.len * v.elem;
	if (!f->stack_text)
		f->stack_text = xcalloc(1u << TEXT_BITS, sizeof(*f->stack_text));
	t = &f->stack_text[slot_of(v.p, n)];
	if (t->e == e && t->addresses.len == n && (!n || !memcmp(t->addresses.s, v.p, n)))
		return &t->text;
	t->e = NULL;
	sbuf_reset(&t->addresses);
	sbuf_reset(&t->text);
	sbuf_add_mem(&t->addresses, (const char *)v.p, n);
	for (uint32_t i = 0; i < v.len; i++) {
		if (i)
			sbuf_add(&t->text, BETWEEN);
		fmt_stack_name(e, &v, i, &t->text);
	}
	if (!v.len)
		sbuf_addc(&t->text, '-');
	if (t->addresses.error || t->text.error)
		memory_out();
	t->e = e;
	return &t->text;
}

void fmt_stacks_free(struct fmt *f)
{
	for (size_t i = 0; f->stack_text && i < 1u << TEXT_BITS; i++) {
		sbuf_free(&f->stack_text[i].addresses);
		sbuf_free(&f->stack_text[i].text);
	}
	free(f->stack_text);
	ksyms_free(&f->syms);
	u64map_free(&f->printk);
}
