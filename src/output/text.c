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

/* A label, a name of 15 bytes and three numbers: text_head() writes no more. */
#define HEAD_ROOM (sizeof(((struct tl_source *)0)->label) + 160)

/* The head is columns of a few bytes each: written behind one another into room made before. */
static char *put(char *p, const char *text, size_t max)
{
	size_t n = strnlen(text, max);

	memcpy(p, text, n);
	return p + n;
}

static char *put_digits(char *p, uint64_t v, unsigned int digits)
{
	for (unsigned int i = digits; i--; v /= 10)
		p[i] = (char)('0' + v % 10);
	return p + digits;
}

static char *put_u64(char *p, uint64_t v)
{
	unsigned int digits = 1;

	for (uint64_t rest = v; rest >= 10; rest /= 10)
		digits++;
	return put_digits(p, v, digits);
}

static char *put_s64(char *p, int64_t v)
{
	if (v < 0)
		*p++ = '-';
	return put_u64(p, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

static char *pad(char *p, char *from, size_t width)
{
	size_t n = (size_t)(p - from);

	if (n >= width)
		return p;
	memset(p, ' ', width - n);
	return from + width;
}

static char *pad_left(char *p, char *from, size_t width)
{
	size_t n = (size_t)(p - from);

	if (n >= width)
		return p;
	memmove(from + width - n, from, n);
	memset(from, ' ', width - n);
	return from + width;
}

static char *text_time(const struct out *o, const struct tl_item *i, char *p)
{
	char *from = p;
	uint64_t v;

	if (!out_item_time(o, i, &v)) {
		*p++ = '?';
	} else if (o->clock.kind == OUT_CLOCK_HOST_TSC || o->clock.kind == OUT_CLOCK_GUEST_TSC) {
		p = put_u64(p, v);
	} else {
		p = put_u64(p, v / 1000000000u);
		*p++ = '.';
		p = put_digits(p, v % 1000000000u, 9);
	}
	/* A stamp that could not be converted stands at its neighbour's place: say so. */
	if (i->unplaced)
		*p++ = '?';
	return pad_left(p, from, TIME_WIDTH);
}

static char *text_cpu(const struct tl_item *i, char *p)
{
	char *from = p;

	*p++ = '[';
	if (i->src->guest) {
		*p++ = 'v';
		p = put_s64(p, i->vcpu);
	} else {
		p = put_digits(p, i->cpu, i->cpu > 999 ? 4 : 3);
	}
	*p++ = ']';
	return pad(p, from, 6);
}

/* Everything before the event. */
static void text_head(struct out *o, const struct tl_item *i)
{
	struct sbuf *b = &o->line;
	char *p, *from;

	if (!sbuf_room(b, HEAD_ROOM))
		return;
	p = from = b->s + b->len;
	p = put(p, i->src->label, sizeof(i->src->label));
	p = from = pad(p, from, (size_t)o->label_width + 1);
	if (i->kind == TL_EVENT)
		p = put(p, tl_comm(i->src, i->tid), 15);
	*p++ = '-';
	if (i->kind == TL_EVENT)
		p = put_s64(p, i->tid);
	p = pad(p, from, TASK_WIDTH);
	*p++ = ' ';
	p = text_cpu(i, p);
	p = text_time(o, i, p);
	p = put(p, "  ", 2);
	b->len = (size_t)(p - b->s);
	*p = '\0';
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

/* Only changes: the first epoch holds from before the recording. */
static int text_epoch(struct out *o, const struct out_epoch *e)
{
	struct sbuf *b = &o->line;

	if (e->first)
		return 0;
	text_head(o, &(struct tl_item){ .kind = TL_GAP, .src = e->src, .host = e->host,
					.vm = (int64_t)e->src->vm, .vcpu = e->vcpu });
	sbuf_add(b, "EPOCH of this vCPU's clock:");
	if (e->e->has_map)
		sbuf_addf(b, " TSC offset %lld", (long long)e->e->map.offset);
	if (e->e->has_map && e->e->map.ratio)
		sbuf_addf(b, ", ratio %llu/%u", (unsigned long long)e->e->map.ratio, e->e->map.frac);
	if (e->e->has_pv)
		sbuf_addf(b, "%s pvclock record %u", e->e->has_map ? "," : "", e->e->pv.version);
	if (e->e->doubtful)
		sbuf_add(b, " (in doubt)");
	sbuf_addc(b, '\n');
	return 0;
}

static int text_item(struct out *o, const struct tl_item *i)
{
	struct sbuf *b = &o->line;

	text_head(o, i);
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
	.epoch = text_epoch,
};
