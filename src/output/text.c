/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * text.c: one line per event, fixed width:
 *   SIDE  TASK-TID  [CPU|vN]  TIME  SYSTEM:EVENT: FIELDS
 */
#include "kvmft/output.h"
#include "kvmft/put.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define TASK_WIDTH 24
#define TIME_WIDTH 17
#define DATE_WIDTH 29 /* 2026-11-21 06:42:39.123456789 */

/* A label, a name of 15 bytes and three numbers: text_head() writes no more. */
#define HEAD_ROOM (sizeof(((struct tl_source *)0)->label) + 160 + PUT_SLACK)

/*
 * The columns in front of the time are the same for all events of a thread on a CPU: they are kept,
 * direct-mapped, until a task gets another name.
 */
#define HEADS	  256
#define HEAD_TEXT 96

struct head {
	const struct tl_source *src; /* NULL: none yet */
	int64_t vcpu;
	int32_t tid;
	uint32_t cpu, renames, len;
	char text[HEAD_TEXT];
};

/*
 * Times of neighbours differ in their last digits only: what stands before the last LOW_DIGITS of all
 * times in base .. base + LOW_SPAN - 1.
 */
#define LOW_DIGITS 8
#define LOW_SPAN   100000000u

struct high {
	uint64_t base; /* only if len */
	uint32_t len;
	char text[PUT_SLACK];
};

struct heads {
	struct head head[HEADS];
	char slack[PUT_SLACK];
	struct high high;
	uint64_t time; /* of this event; not a local variable: its address leaves the function that prints */
	char date[32 + PUT_SLACK]; /* of this second; "" = none yet */
	time_t second;
};

static char *pad(char *p, char *from, size_t width)
{
	size_t n = (size_t)(p - from);

	if (n >= width)
		return p;
	memset(p, ' ', width - n);
	return from + width;
}

static char *text_cpu(const struct tl_item *i, char *p)
{
	char *from = p;

	*p++ = '[';
	if (i->src->guest || (i->src->qemu && i->vcpu >= 0)) {
		*p++ = 'v';
		p = put_sdec(p, i->vcpu);
	} else if (i->cpu == TL_NO_CPU) {
		p = put_mem(p, "---", 3);
	} else {
		p = put_dec_fixed(p, i->cpu, i->cpu > 999 ? 4 : 3);
	}
	*p++ = ']';
	return pad(p, from, 6);
}

static char *text_who(const struct out *o, const struct tl_item *i, char *p)
{
	const char *name;
	char *from = p;

	p = put_mem(p, i->src->label, strnlen(i->src->label, sizeof(i->src->label)));
	p = from = pad(p, from, (size_t)o->label_width + 1);
	if (i->kind == TL_EVENT && i->tid >= 0) {
		name = tl_comm(i->src, i->tid);
		p = put_mem(p, name, strnlen(name, 15));
	}
	*p++ = '-';
	if (i->kind == TL_EVENT && i->tid >= 0)
		p = put_sdec(p, i->tid);
	p = pad(p, from, TASK_WIDTH);
	*p++ = ' ';
	return text_cpu(i, p);
}

static inline size_t head_slot(const struct tl_item *i)
{
	return ((uint32_t)i->tid * 31 + i->cpu) % HEADS;
}

static inline bool head_fits(const struct head *h, const struct tl_item *i)
{
	return h->src == i->src && h->tid == i->tid && h->cpu == i->cpu && h->vcpu == i->vcpu &&
	       h->renames == i->src->renames;
}

/* text_who() of an event, known from here on. */
static char *text_who_kept(const struct out *o, const struct tl_item *i, char *p)
{
	struct heads *all = o->priv;
	struct head *h = &all->head[head_slot(i)];
	char *end;

	if (head_fits(h, i))
		return put_padded(p, h->text, h->len);
	end = text_who(o, i, p);
	h->src = NULL;
	if ((size_t)(end - p) > sizeof(h->text))
		return end;
	*h = (struct head){ .src = i->src, .tid = i->tid, .cpu = i->cpu, .vcpu = i->vcpu,
			    .renames = i->src->renames, .len = (uint32_t)(end - p) };
	memcpy(h->text, p, h->len);
	return end;
}

/* Seconds and nanoseconds, or cycles, right-aligned. */
static char *text_value(char *p, uint64_t v, bool cycles, bool doubt)
{
	uint64_t front = cycles ? v : v / 1000000000u;
	unsigned int n = put_dec_len(front), all = n + (cycles ? 0 : 10) + doubt;

	if (all < TIME_WIDTH) {
		memset(p, ' ', TIME_WIDTH);
		p += TIME_WIDTH - all;
	}
	p = put_dec_fixed(p, front, n);
	if (!cycles) {
		*p++ = '.';
		p = put_dec_fixed(p, v % 1000000000u, 9);
	}
	/* A stamp that could not be converted stands at its neighbour's place: say so. */
	if (doubt)
		*p++ = '?';
	return p;
}

/* text_value() without doubt, whose first digits are to be known from here on. */
static char *text_value_keep(struct heads *all, char *p, uint64_t v, bool cycles)
{
	char *end = text_value(p, v, cycles, false);
	size_t len = (size_t)(end - p) - LOW_DIGITS;
	struct high *h = &all->high;

	/* Small numbers of cycles have blanks where others have zeros. */
	h->len = (cycles && v < LOW_SPAN) || len > sizeof(h->text) ? 0 : (uint32_t)len;
	h->base = v - v % LOW_SPAN;
	memcpy(h->text, p, h->len);
	return end;
}

/* Date and time of the day, local; the last one made is kept, since a second has many events. */
static char *text_date(struct out *o, uint64_t ns, bool doubt, char *p)
{
	struct heads *all = o->priv;
	time_t second = (time_t)(ns / 1000000000u);
	struct tm tm;

	*p++ = ' ';
	if (!all->date[0] || all->second != second) {
		all->second = second;
		if (!localtime_r(&second, &tm) ||
		    strftime(all->date, sizeof(all->date), "%Y-%m-%d %H:%M:%S", &tm) != DATE_WIDTH - 10)
			return text_value(p, ns, false, doubt);
	}
	p = put_mem(p, all->date, DATE_WIDTH - 10);
	*p++ = '.';
	p = put_dec_fixed(p, ns % 1000000000u, 9);
	if (doubt)
		*p++ = '?';
	return p;
}

static char *text_time(struct out *o, const struct tl_item *i, char *p)
{
	bool cycles = o->clock.kind == OUT_CLOCK_HOST_TSC || o->clock.kind == OUT_CLOCK_GUEST_TSC;
	uint64_t v = i->host;

	if (o->clock.kind == OUT_CLOCK_HOST_TSC || out_item_time(o, i, &v)) {
		if (o->clock.kind == OUT_CLOCK_REALTIME)
			return text_date(o, v, i->unplaced, p);
		return i->unplaced ? text_value(p, v, cycles, true) : text_value_keep(o->priv, p, v, cycles);
	}
	memset(p, ' ', TIME_WIDTH);
	p[TIME_WIDTH - 1] = '?';
	if (i->unplaced)
		p[TIME_WIDTH - 2] = '?';
	return p + TIME_WIDTH;
}

/* Everything before the event. */
static __attribute__((noinline)) void text_head(struct out *o, const struct tl_item *i)
{
	struct sbuf *b = &o->line;
	size_t len = 0;
	const char *title = i->ev ? fmt_title(i->ev, &len) : "";
	char *p;

	if (!sbuf_room(b, HEAD_ROOM + len))
		return;
	p = b->s + b->len;
	p = i->kind == TL_EVENT ? text_who_kept(o, i, p) : text_who(o, i, p);
	p = text_time(o, i, p);
	p = put_mem(p, "  ", 2);
	if (len)
		p = put_padded(p, title, len);
	b->len = (size_t)(p - b->s);
	*p = '\0';
}

static inline void text_event(struct out *o, const struct tl_item *i)
{
	if (i->ev)
		tl_print(i, &o->line);
	else
		sbuf_addf(&o->line, "event-%u: (no format in the capture, %u bytes)", i->rec->id,
			  i->rec->len);
	if (i->device)
		sbuf_addf(&o->line, " device=%s", i->device);
}

static void text_gap(struct out *o, const struct tl_item *i)
{
	const char *of = i->src->qemu ? "QEMU" : "CPU";
	struct sbuf *b = &o->line;
	char ns[32];

	if (i->kind == TL_DAMAGE) {
		sbuf_addf(b, "DAMAGED: sub-buffer %llu of this CPU is unusable, its rest is left out",
			  (unsigned long long)i->lost);
		return;
	}
	if (i->lost)
		sbuf_addf(b, "LOST %llu EVENTS of this %s", (unsigned long long)i->lost, of);
	else
		sbuf_addf(b, "LOST EVENTS of this %s, their number is unknown", of);
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

/*
 * text_head() of an event, where all of it is known but the last digits of the time: mostly it is. False: nothing
 * was written.
 */
static inline bool text_head_kept(struct out *o, const struct tl_item *i)
{
	struct heads *all = o->priv;
	const struct head *h = &all->head[head_slot(i)];
	struct sbuf *b = &o->line;
	uint64_t low = i->host;
	const char *title;
	size_t len;
	char *p;

	if (i->kind != TL_EVENT || !i->ev || i->unplaced || !head_fits(h, i))
		return false;
	if (o->clock.kind != OUT_CLOCK_HOST_TSC) {
		if (o->clock.kind == OUT_CLOCK_REALTIME || !out_item_time(o, i, &all->time))
			return false;
		low = all->time;
	}
	low -= all->high.base;
	title = fmt_title(i->ev, &len);
	if (!all->high.len || low >= LOW_SPAN || HEAD_ROOM + len >= b->cap - b->len || b->error)
		return false;
	p = put_padded(b->s + b->len, h->text, h->len);
	__builtin_memcpy(p, all->high.text, sizeof(all->high.text));
	p += all->high.len;
	put_word(p, put_dec_word((uint32_t)low));
	p = put_mem(p + LOW_DIGITS, "  ", 2);
	p = put_padded(p, title, len);
	b->len = (size_t)(p - b->s);
	return true;
}

static __attribute__((noinline)) void text_rare(struct out *o, const struct tl_item *i)
{
	text_head(o, i);
	if (i->kind == TL_EVENT)
		text_event(o, i);
	else
		text_gap(o, i);
}

static int text_item(struct out *o, const struct tl_item *i)
{
	if (text_head_kept(o, i))
		text_event(o, i);
	else
		text_rare(o, i);
	sbuf_addc(&o->line, '\n');
	return 0;
}

static int text_begin(struct out *o)
{
	o->priv = calloc(1, sizeof(struct heads));
	return o->priv ? 0 : -ENOMEM;
}

static int text_end(struct out *o)
{
	free(o->priv);
	o->priv = NULL;
	return 0;
}

const struct out_format out_text = {
	.name = "text",
	.help = "one line per event",
	.begin = text_begin,
	.end = text_end,
	.item = text_item,
	.epoch = text_epoch,
};
