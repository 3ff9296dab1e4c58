/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * text.c: one line per event, fixed width:
 *   SIDE  TASK-TID  [CPU|vN]  TIME  SYSTEM:EVENT: FIELDS
 */
#include "kvmft/output.h"

#include <errno.h>
#include <string.h>

#define TASK_WIDTH 24
#define TIME_WIDTH 17

static void pad(struct sbuf *b, size_t from, size_t width)
{
	while (b->len - from < width)
		sbuf_addc(b, ' ');
}

/* Right-aligns what was added since `from`. */
static void pad_left(struct sbuf *b, size_t from, size_t width)
{
	size_t n = b->len - from, gap = n < width ? width - n : 0;

	for (size_t i = 0; i < gap; i++)
		sbuf_addc(b, ' ');
	if (!gap || b->error)
		return;
	memmove(b->s + from + gap, b->s + from, n);
	memset(b->s + from, ' ', gap);
}

static void add_zero_padded(struct sbuf *b, uint64_t v, int digits)
{
	char s[24];
	int n = digits;

	s[n] = 0;
	while (n-- > 0) {
		s[n] = (char)('0' + v % 10);
		v /= 10;
	}
	sbuf_add_mem(b, s, (size_t)digits);
}

static void text_time(struct out *o, const struct tl_item *i)
{
	struct sbuf *b = &o->line;
	size_t from = b->len;
	uint64_t v;

	if (!out_clock_value(&o->clock, i->host, i->vm == (int64_t)o->clock.vm ? i->vcpu : -1, &v)) {
		sbuf_add(b, "?");
	} else if (o->clock.kind == OUT_CLOCK_HOST_TSC || o->clock.kind == OUT_CLOCK_GUEST_TSC) {
		sbuf_add_u64(b, v);
	} else {
		sbuf_add_u64(b, v / 1000000000u);
		sbuf_addc(b, '.');
		add_zero_padded(b, v % 1000000000u, 9);
	}
	/* A stamp that could not be converted stands at its neighbour's place: say so. */
	if (i->unplaced)
		sbuf_addc(b, '?');
	pad_left(b, from, TIME_WIDTH);
}

static void text_cpu(struct sbuf *b, const struct tl_item *i)
{
	size_t from = b->len;

	sbuf_addc(b, '[');
	if (i->src->guest) {
		sbuf_addc(b, 'v');
		sbuf_add_s64(b, i->vcpu);
	} else {
		add_zero_padded(b, i->cpu, i->cpu > 999 ? 4 : 3);
	}
	sbuf_addc(b, ']');
	pad(b, from, 6);
}

static void text_event(struct out *o, const struct tl_item *i)
{
	struct sbuf *b = &o->line;

	if (!i->ev) {
		sbuf_addf(b, "event-%u: (no format in the capture, %u bytes)", i->rec->id, i->rec->len);
		return;
	}
	sbuf_add(b, fmt_sys(i->ev));
	sbuf_addc(b, ':');
	sbuf_add(b, fmt_name(i->ev));
	sbuf_add(b, ": ");
	fmt_print(i->src->fmt, i->ev, i->rec, b);
}

static void text_gap(struct out *o, const struct tl_item *i)
{
	struct sbuf *b = &o->line;
	char ns[32];

	if (i->kind == TL_DAMAGE) {
		sbuf_addf(b, "DAMAGED: sub-buffer %llu of this CPU is unusable, its rest is left out",
			  (unsigned long long)i->lost);
		return;
	}
	if (i->lost)
		sbuf_addf(b, "LOST %llu EVENTS of this CPU", (unsigned long long)i->lost);
	else
		sbuf_add(b, "LOST EVENTS of this CPU, their number is unknown");
	if (o->clock.khz)
		sbuf_addf(b, " within %s",
			  str_ns(ns, sizeof(ns), out_cycles_to_ns(i->width, o->clock.khz)));
	else
		sbuf_addf(b, " within %llu cycles", (unsigned long long)i->width);
}

static int text_item(struct out *o, const struct tl_item *i)
{
	struct sbuf *b = &o->line;
	size_t from = b->len;

	sbuf_add(b, i->src->label);
	pad(b, from, (size_t)o->label_width + 1);
	from = b->len;
	if (i->kind == TL_EVENT) {
		sbuf_add(b, tl_comm(i->src, i->tid));
		sbuf_addc(b, '-');
		sbuf_add_s64(b, i->tid);
	} else {
		sbuf_add(b, "-");
	}
	pad(b, from, TASK_WIDTH);
	sbuf_addc(b, ' ');
	text_cpu(b, i);
	text_time(o, i);
	sbuf_add(b, "  ");
	if (i->kind == TL_EVENT)
		text_event(o, i);
	else
		text_gap(o, i);
	sbuf_addc(b, '\n');
	return 0;
}

const struct out_format out_text = {
	.name = "text",
	.help = "one line per event",
	.item = text_item,
};
