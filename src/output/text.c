/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * text.c: one line per event, in columns:
 *   SIDE  TASK-TID  [CPU|vN]  TIME  SYSTEM:EVENT: FIELDS
 */
#include "kvmft/output.h"
#include "kvmft/put.h"

/* ---- colours of a time line, by side and by kind of event ---- */

#define CYAN   "36"
#define GREEN  "32"
#define YELLOW "33"
#define BLUE   "34"
#define PURPLE "35"
#define BOLD   "1"
#define ALARM  "1;31"

static const char *const sides[] = { CYAN, GREEN, YELLOW, PURPLE, BLUE }; /* the host first */

/* By the beginning of the line after its time; the first that fits. */
static const struct kind {
	const char *begins, *sgr;
} kinds[] = {
	{ "kvm:kvm_exit", BOLD },   { "kvm:kvm_entry", BOLD },	   { "LOST", ALARM },
	{ "DAMAGED", ALARM },	    { "EPOCH", PURPLE },	   { "kvm:kvm_inj_virq", YELLOW },
	{ "kvm:kvm_apic", YELLOW }, { "kvm:kvm_set_irq", YELLOW }, { "kvm:kvm_msi_set", YELLOW },
	{ "irq", YELLOW },	    { "timer:", YELLOW },	   { "kvm:kvm_hv_timer", YELLOW },
	{ "sched:", BLUE },	    { "block:", GREEN },	   { "qemu:", PURPLE },
};

void out_paint(struct sbuf *b, size_t from, size_t label, size_t head, size_t side)
{
	const struct kind *k = kinds, *end = kinds + ARRAY_SIZE(kinds);
	size_t at = from + head, len;

	if (at >= b->len || !sbuf_room(b, 1))
		return;
	b->s[b->len] = '\0';
	while (k < end && strncmp(b->s + at, k->begins, strlen(k->begins)) != 0)
		k++;
	len = strcspn(b->s + at, " \n");
	/* From the end, because inserting the first would move the second. */
	if (k < end)
		screen_paint(b, at, at + len, k->sgr);
	screen_paint(b, from, from + label,
		     sides[side ? 1 + (side - 1) % (ARRAY_SIZE(sides) - 1) : 0]);
}

#define DATE_WIDTH 29 /* 2026-11-21 06:42:39.123456789 */
#define LABEL_CUT  20 /* longer labels end in ~, unless that makes two of them equal */
#define MAX_LABEL  sizeof(((struct tl_source *)0)->label)

/* A label, a name of 15 bytes and three numbers: text_head() writes no more. */
#define HEAD_ROOM (MAX_LABEL + 200 + PUT_SLACK)

/*
 * The columns before the time are the same for all events of a thread on a CPU: they are kept,
 * direct-mapped, until a task gets another name or a column another width.
 */
#define HEAD_BITS  10
#define HEADS	   (1u << HEAD_BITS)
#define HEAD_TEXT  96
#define HEAD_USUAL 48

struct head {
	const struct tl_source *src; /* NULL: none yet */
	int32_t tid;
	uint32_t cpu, renames, len;
	char text[HEAD_TEXT];
};

/*
 * Times of neighbours differ only in their last digits: this is what precedes the last LOW_DIGITS
 * of the LOW_SPAN times that begin with that of `from`, a time or, of OUT_CLOCK_NS, a host TSC.
 */
#define LOW_DIGITS 8
#define LOW_SPAN   100000000u

struct high {
	uint64_t from, span; /* span is in the unit of from; 0: none yet */
	uint32_t len;
	char text[PUT_SLACK];
};

/*
 * Columns are as wide as their contents. The first lines are held back until there are this many,
 * or no more: then each of their columns gets the width of its widest text, and of the longest one
 * that can be foreseen. A task whose name is longer than all before it widens its column from there
 * on.
 */
#define EARLY_LINES 512
#define EARLY_BYTES (128u << 10)

enum column { COL_LABEL, COL_TASK, COL_CPU, COL_TIME, COLUMNS };
_Static_assert(COLUMNS <= ARRAY_SIZE(((struct out *)NULL)->kept), "struct out");

struct early {
	struct {
		uint8_t len;
		char text[DATE_WIDTH + 1 + MAX_LABEL + PUT_SLACK];
	} column[COLUMNS];
	char mark;     /* of the time: text_mark() */
	size_t side;   /* index of its source */
	/* where the rest of the line begins in o->line; it ends where the next one begins */
	size_t body;
};

struct heads {
	struct head head[HEADS];
	char slack[PUT_SLACK];
	struct high high;
	/* of this event; no local variable, as its address leaves the printer */
	uint64_t time;
	uint64_t khz_inverse; /* of OUT_CLOCK_NS; 0: another clock */
	char date[32 + PUT_SLACK]; /* of this second; "" = none yet */
	time_t second;
	size_t width[COLUMNS];
	/* bytes of a label that are shown; the last one is ~ if there are more */
	size_t label_cut;
	unsigned int cpu_digits; /* of the hosts */
	struct early *early;	/* the first lines; NULL: they are written */
	size_t nearly;
	bool plain; /* nothing is added to what a print format gives */
	const struct out *longer; /* of --long: before the label a date, behind the CPU flags */
};

/* ---- what stands in the columns ---- */

static char *text_date(struct heads *all, uint64_t ns, char *p);

static char *text_label(struct heads *all, const struct tl_item *i, char *p)
{
	size_t n = strnlen(i->src->label, MAX_LABEL);
	uint64_t day;

	if (all->longer && all->longer->day) {
		memset(p, ' ', DATE_WIDTH + 1);
		if (out_clock_value(all->longer->day, i->host, -1, &day))
			text_date(all, day, p);
		p[DATE_WIDTH] = ' ';
		p += DATE_WIDTH + 1;
	}

	if (n <= all->label_cut)
		return put_mem(p, i->src->label, n);
	p = put_mem(p, i->src->label, str_cut(i->src->label, all->label_cut - 1));
	*p++ = '~';
	return p;
}

static char *text_task(const struct tl_item *i, char *p)
{
	const char *name;

	if (i->kind == TL_EVENT && i->tid >= 0) {
		name = tl_comm(i->src, i->tid);
		p = put_mem(p, name, strnlen(name, 15));
	}
	*p++ = '-';
	return i->kind == TL_EVENT && i->tid >= 0 ? put_sdec(p, i->tid) : p;
}

static char *text_cpu(const struct heads *all, const struct tl_item *i, char *p)
{
	*p++ = '[';
	if (i->src->guest || (i->src->qemu && i->vcpu >= 0)) {
		*p++ = 'v';
		p = put_sdec(p, i->vcpu);
	} else if (i->cpu == TL_NO_CPU) {
		memset(p, '-', all->cpu_digits);
		p += all->cpu_digits;
	} else {
		p = put_dec_fixed(p, i->cpu, MAX(put_dec_len(i->cpu), all->cpu_digits));
	}
	*p++ = ']';
	if (all->longer && i->kind == TL_EVENT && !i->src->qemu) {
		*p++ = ' ';
		fmt_context(tl_fmt(i), i->rec, p);
		p += FMT_CONTEXT;
	}
	return p;
}

/* ---- columns ---- */

static void heads_forget(struct heads *all)
{
	for (size_t k = 0; k < HEADS; k++)
		all->head[k].src = NULL;
	all->high.span = 0;
}

/* Pads the text at from to the width of its column, which a longer one widens from here on. */
static char *column_end(struct heads *all, enum column c, char *from, char *p)
{
	size_t n = (size_t)(p - from);

	if (n > all->width[c]) {
		all->width[c] = n;
		heads_forget(all);
	}
	memset(p, ' ', all->width[c] - n);
	return from + all->width[c];
}

static char *text_who(struct heads *all, const struct tl_item *i, char *p)
{
	p = column_end(all, COL_LABEL, p, text_label(all, i, p));
	*p++ = ' ';
	p = column_end(all, COL_TASK, p, text_task(i, p));
	*p++ = ' ';
	p = column_end(all, COL_CPU, p, text_cpu(all, i, p));
	*p++ = ' ';
	return p;
}

static inline size_t head_slot(const struct tl_item *i)
{
	return near_slot((uint32_t)i->tid, i->cpu, HEAD_BITS);
}

static inline bool head_fits(const struct head *h, const struct tl_item *i)
{
	return h->src == i->src && h->tid == i->tid && h->cpu == i->cpu &&
	       h->renames == i->src->renames;
}

/* text_who() of an event, known from here on. */
static char *text_who_kept(struct heads *all, const struct tl_item *i, char *p)
{
	struct head *h = &all->head[head_slot(i)];
	char *end;

	if (head_fits(h, i))
		return put_blocks(p, h->text, h->len, HEAD_USUAL);
	end = text_who(all, i, p);
	h->src = NULL;
	if ((size_t)(end - p) > sizeof(h->text))
		return end;
	*h = (struct head){ .src = i->src, .tid = i->tid, .cpu = i->cpu,
			    .renames = i->src->renames, .len = (uint32_t)(end - p) };
	memcpy(h->text, p, h->len);
	return end;
}

/* ---- times ---- */

static unsigned int value_len(uint64_t v, bool cycles)
{
	return cycles ? put_dec_len(v) : put_dec_len(v / 1000000000u) + 10;
}

/* Seconds and nanoseconds, or cycles, right-aligned. */
static char *text_value(struct heads *all, char *p, uint64_t v, bool cycles)
{
	uint64_t front = cycles ? v : v / 1000000000u;
	unsigned int n = value_len(v, cycles);

	if (n < all->width[COL_TIME]) {
		memset(p, ' ', all->width[COL_TIME] - n);
		p += all->width[COL_TIME] - n;
	} else if (n > all->width[COL_TIME] && !all->early) {
		all->width[COL_TIME] = n;
		all->high.span = 0;
	}
	p = put_dec_fixed(p, front, cycles ? n : n - 10);
	if (!cycles) {
		*p++ = '.';
		p = put_dec_fixed(p, v % 1000000000u, 9);
	}
	return p;
}

/* text_value(), whose first digits are to be known from here on. */
static char *text_value_keep(struct out *o, char *p, uint64_t v, bool cycles)
{
	struct heads *all = o->priv;
	char *end = text_value(all, p, v, cycles);
	size_t len = (size_t)(end - p) - MIN((size_t)(end - p), (size_t)LOW_DIGITS);
	struct high *h = &all->high;

	h->span = 0;
	/* Small numbers of cycles have blanks where others have zeros. */
	if ((cycles && v < LOW_SPAN) || len > sizeof(h->text))
		return end;
	h->from = v - v % LOW_SPAN;
	h->span = LOW_SPAN;
	if (all->khz_inverse) { /* it is a multiple of 100 ms */
		h->from = o->clock.base + h->from / 1000000u * o->clock.khz;
		h->span = LOW_SPAN / 1000000u * o->clock.khz;
	}
	h->len = (uint32_t)len;
	memcpy(h->text, p, len);
	return end;
}

/* Date and time of the day, local; the last one made is kept, since a second has many events. */
static char *text_date(struct heads *all, uint64_t ns, char *p)
{
	time_t second = (time_t)(ns / 1000000000u);
	struct tm tm;

	if (!all->date[0] || all->second != second) {
		all->second = second;
		if (!localtime_r(&second, &tm) ||
		    strftime(all->date, sizeof(all->date), "%Y-%m-%d %H:%M:%S", &tm) !=
			    DATE_WIDTH - 10)
			return text_value(all, p, ns, false);
	}
	p = put_mem(p, all->date, DATE_WIDTH - 10);
	*p++ = '.';
	return put_dec_fixed(p, ns % 1000000000u, 9);
}

static bool in_cycles(const struct out *o)
{
	return o->clock.kind == OUT_CLOCK_HOST_TSC || o->clock.kind == OUT_CLOCK_GUEST_TSC;
}

/* In the place of a time. */
static char *text_right(struct heads *all, char *p, const char *text)
{
	size_t n = strlen(text), blanks = all->width[COL_TIME] - MIN(all->width[COL_TIME], n);

	if (n > all->width[COL_TIME] && !all->early) {
		all->width[COL_TIME] = n;
		all->high.span = 0;
	}
	memset(p, ' ', blanks);
	return put_mem(p + blanks, text, n);
}

static char *text_time(struct out *o, const struct tl_item *i, char *p)
{
	struct heads *all = o->priv;
	uint64_t v = i->host;

	if (i->host < tl_from(o->t))
		return text_right(all, p, "before");
	if (o->clock.kind == OUT_CLOCK_HOST_TSC || out_item_time(o, i, &v)) {
		if (o->clock.kind == OUT_CLOCK_REALTIME)
			return text_date(all, v, p);
		return text_value_keep(o, p, v, in_cycles(o));
	}
	if (out_clock_before_vm(&o->clock, i->host, i->vm == (int64_t)o->clock.vm ? i->vcpu : -1))
		return text_right(all, p, "before the VM");
	return text_right(all, p, "?");
}

/* A stamp that could not be converted is at its neighbour's place: say so. */
static char text_mark(const struct tl_item *i)
{
	return i->unplaced ? '?' : ' ';
}

/* ---- the first lines ---- */

/* The line that begins at from, with colours. */
static void text_paint(struct out *o, size_t from, size_t side)
{
	const struct heads *all = o->priv;
	size_t head = COLUMNS + 1; /* blanks and a mark between them */

	for (unsigned int c = 0; c < COLUMNS; c++)
		head += all->width[c];
	out_paint(&o->line, from, all->width[COL_LABEL], head, side);
}

/* All of them are known, and written; more may follow. */
static void early_end(struct out *o, bool more)
{
	struct heads *all = o->priv;
	struct sbuf bodies = o->line;
	struct early *early = all->early;

	o->line = (struct sbuf){ .error = bodies.error };
	all->early = NULL;
	for (size_t k = 0; k < all->nearly; k++)
		all->width[COL_TIME] =
			MAX(all->width[COL_TIME], (size_t)early[k].column[COL_TIME].len);
	if (more) {
		/* Widths of what will come: names of sides, numbers of CPUs, the last stamp. */
		for (size_t i = 0; i < tl_sources(o->t); i++) {
			const struct tl_source *s = tl_source(o->t, i);
			size_t n = strnlen(s->label, MAX_LABEL);
			uint64_t end, v;

			all->width[COL_LABEL] = MAX(all->width[COL_LABEL], MIN(n, all->label_cut));
			for (size_t k = 0; k < s->cap->nstream; k++) {
				uint32_t cpu = s->cap->stream[k].cpu;
				size_t digits =
					s->guest ? 1 + put_dec_len(cap_vcpu_of_cpu(s->cap, cpu))
						 : all->cpu_digits;

				all->width[COL_CPU] = MAX(all->width[COL_CPU], digits + 2);
			}
			if (s->qemu || o->clock.kind == OUT_CLOCK_REALTIME ||
			    tl_source_end(o->t, s, &end) <= 0 ||
			    !out_clock_value(&o->clock, end, -1, &v))
				continue;
			all->width[COL_TIME] =
				MAX(all->width[COL_TIME], (size_t)value_len(v, in_cycles(o)));
		}
	}
	for (size_t k = 0; k < all->nearly; k++) {
		size_t end = k + 1 < all->nearly ? early[k + 1].body : bodies.len;
		size_t from = o->line.len;

		for (unsigned int c = 0; c < COLUMNS; c++) {
			int width = (int)all->width[c];

			sbuf_addf(&o->line, "%*.*s%c", c == COL_TIME ? width : -width,
				  early[k].column[c].len, early[k].column[c].text,
				  c == COL_TIME ? early[k].mark : ' ');
		}
		sbuf_addc(&o->line, ' ');
		sbuf_add_mem(&o->line, bodies.s + early[k].body, end - early[k].body);
		if (o->color)
			text_paint(o, from, early[k].side);
	}
	heads_forget(all);
	free(early);
	sbuf_free(&bodies);
}

/* ---- lines ---- */

/* Everything before the event. */
static __attribute__((noinline)) void text_head(struct out *o, const struct tl_item *i)
{
	struct heads *all = o->priv;
	struct sbuf *b = &o->line;
	size_t len = 0;
	const char *title = i->ev ? fmt_title(i->ev, &len) : "";
	char *p;

	all->longer = o->longer ? o : NULL;
	if (all->early && (all->nearly == EARLY_LINES || b->len >= EARLY_BYTES))
		early_end(o, true);
	if (!sbuf_room(b, HEAD_ROOM + len))
		return;
	p = b->s + b->len;
	if (all->early) {
		struct early *e = &all->early[all->nearly++];
		char *end[COLUMNS];

		end[COL_LABEL] = text_label(all, i, e->column[COL_LABEL].text);
		end[COL_TASK] = text_task(i, e->column[COL_TASK].text);
		end[COL_CPU] = text_cpu(all, i, e->column[COL_CPU].text);
		end[COL_TIME] = text_time(o, i, e->column[COL_TIME].text);
		for (unsigned int c = 0; c < COLUMNS; c++) {
			e->column[c].len = (uint8_t)(end[c] - e->column[c].text);
			all->width[c] =
				c == COL_TIME ? 0 : MAX(all->width[c], (size_t)e->column[c].len);
		}
		e->mark = text_mark(i);
		e->side = i->src->index;
		e->body = o->line.len;
	} else {
		p = i->kind == TL_EVENT && !i->src->qemu && !o->longer ?
			    text_who_kept(all, i, p) : text_who(all, i, p);
		p = text_time(o, i, p);
		*p++ = text_mark(i);
		*p++ = ' ';
	}
	if (len)
		p = put_padded(p, title, len);
	b->len = (size_t)(p - b->s);
	*p = '\0';
}

static __attribute__((noinline)) void text_rip(struct out *o, const struct tl_item *i, size_t from)
{
	static const char *const names[] = { "rip 0x", "rip: 0x", "PC: 0x", "pc 0x" };
	_cleanup_(sbuf_free) struct sbuf name = { 0 };
	struct sbuf *b = &o->line;
	const struct ksyms *syms;
	size_t at = 0;
	uint64_t rip;

	if (!guest_rip(o->rips, tl_hostmap(o->t), i, &rip, &syms) || b->error)
		return;
	sbuf_add(&name, " (");
	ksyms_name(syms, rip, &name);
	sbuf_addc(&name, ')');
	/* After the number, wherever the print format of that kernel has it. */
	for (size_t k = 0; k < ARRAY_SIZE(names) && !at; k++) {
		const char *p = memmem(b->s + from, b->len - from, names[k], strlen(names[k]));
		char *end = p ? (char *)p + strlen(names[k]) : NULL;

		if (p && strtoull(p + strlen(names[k]), &end, 16) == rip &&
		    end > p + strlen(names[k]))
			at = (size_t)(end - b->s);
	}
	at = at ?: b->len;
	if (name.error || !sbuf_room(b, name.len + 1)) {
		b->error = -ENOMEM;
		return;
	}
	memmove(b->s + at + name.len, b->s + at, b->len - at + 1);
	memcpy(b->s + at, name.s, name.len);
	b->len += name.len;
}

static void text_gap(struct out *o, const struct tl_item *i)
{
	const char *of = i->src->qemu ? "QEMU" : "CPU";
	struct sbuf *b = &o->line;
	char ns[32];

	if (i->kind == TL_DAMAGE) {
		sbuf_addf(b,
			  "DAMAGED: sub-buffer %llu of this CPU is unusable, its rest is left out",
			  (unsigned long long)i->lost);
		return;
	}
	if (i->gap == GAP_OFF)
		sbuf_add(b, "NOT RECORDED on this CPU while the ring was written out,");
	else if (i->gap == GAP_REMOVED)
		sbuf_add(b, "NOT RECORDED on this CPU: removed with an older segment, or overwritten,");
	else if (i->gap == GAP_UNREAD)
		sbuf_add(b, "PERHAPS NOT RECORDED on this CPU: the recording was cut short,");
	else if (i->gap)
		sbuf_add(b, "NOT RECORDED on this CPU: overwritten in the flight recorder's ring,");
	else if (i->lost)
		sbuf_addf(b, "LOST %llu EVENTS of this %s", (unsigned long long)i->lost, of);
	else
		sbuf_addf(b, "LOST EVENTS of this %s, their number is unknown", of);
	if (o->clock.khz)
		sbuf_addf(b, " within %s",
			  str_ns(ns, sizeof(ns), tsc_cycles_to_ns(i->width, o->clock.khz)));
	else
		sbuf_addf(b, " within %llu cycles", (unsigned long long)i->width);
}

static void text_line_end(struct out *o, const struct tl_source *src)
{
	struct heads *all = o->priv;
	const char *last;

	if (o->color && !all->early && o->line.len) {
		last = memrchr(o->line.s, '\n', o->line.len);
		text_paint(o, last ? (size_t)(last + 1 - o->line.s) : 0, src->index);
	}
	sbuf_addc(&o->line, '\n');
}

static void put_epoch(struct out *o, const struct out_epoch *e)
{
	struct sbuf *b = &o->line;

	if (e->e->has_map)
		sbuf_addf(b, " TSC offset %lld", (long long)e->e->map.offset);
	if (e->e->has_map && e->e->map.ratio)
		sbuf_addf(b, ", ratio %llu/%u", (unsigned long long)e->e->map.ratio,
			  e->e->map.frac);
	if (e->e->has_pv)
		sbuf_addf(b, "%s pvclock record %u", e->e->has_map ? "," : "", e->e->pv.version);
	if (e->e->doubtful)
		sbuf_add(b, " (in doubt)");
	text_line_end(o, e->src);
}

static void epoch_head(struct out *o, const struct out_epoch *e)
{
	struct tl_item i = { .kind = TL_GAP, .src = e->src, .host = e->host, .cpu = TL_NO_CPU,
			     .vm = (int64_t)e->vm, .vcpu = e->vcpu };

	text_head(o, &i);
}

/* Only changes: the first epoch holds from before the recording. */
static void text_epoch(struct out *o, const struct out_epoch *e)
{
	if (e->first)
		return;
	epoch_head(o, e);
	if (e->src->guest)
		sbuf_add(&o->line, "EPOCH of this vCPU's clock:");
	else
		sbuf_addf(&o->line, "EPOCH of the clock of vCPU %u of %s:", e->vcpu,
			  tl_hostmap(o->t)->vm[e->vm].label);
	put_epoch(o, e);
}

static void text_epochs_before(struct out *o, size_t n)
{
	const struct out_epoch *last = NULL;
	size_t changes = 0;

	for (size_t k = 0; k < n; k++) {
		changes += !o->epoch[k].first;
		last = o->epoch[k].first ? last : &o->epoch[k];
	}
	if (!last)
		return;
	if (changes == 1) {
		text_epoch(o, last);
		return;
	}
	epoch_head(o, last);
	sbuf_addf(&o->line, "%zu EPOCHS of vCPUs' clocks began, the last of this one:", changes);
	put_epoch(o, last);
}

static __attribute__((noinline)) void text_slow(struct out *o, const struct tl_item *i)
{
	struct heads *all = o->priv;

	text_head(o, i);
	if (i->kind == TL_EVENT) {
		size_t from = o->line.len;

		if (i->ev)
			tl_print(i, &o->line);
		else
			sbuf_addf(&o->line, "event-%u: (no format in the capture, %u bytes)",
				  i->rec->id, i->rec->len);
		if (i->device)
			sbuf_addf(&o->line, " device=%s", i->device);
		if (o->rips)
			text_rip(o, i, from);
	} else {
		text_gap(o, i);
	}
	text_line_end(o, i->src);
	all->plain = !o->color && !o->rips && !o->longer;
}

/* The last digits of the time, if those before them are known. */
static inline bool text_low(struct out *o, const struct tl_item *i, uint64_t *low)
{
	struct heads *all = o->priv;
	uint64_t v = i->host;

	if (!all->khz_inverse && o->clock.kind != OUT_CLOCK_HOST_TSC) {
		if (o->clock.kind == OUT_CLOCK_REALTIME || !out_item_time(o, i, &all->time))
			return false;
		v = all->time;
	}
	v -= all->high.from;
	if (v >= all->high.span)
		return false;
	*low = all->khz_inverse ? tsc_khz_divide(v * 1000000u, o->clock.khz, all->khz_inverse) : v;
	return true;
}

/* The usual line, of which only the time's last digits and fields are new. False: none. */
static inline bool text_quick(struct out *o, const struct tl_item *i)
{
	struct heads *all = o->priv;
	const struct head *h = &all->head[head_slot(i)];
	struct sbuf *b = &o->line;
	uint64_t low;
	size_t room;
	char *p;

	if (!i->usual || !all->plain || !head_fits(h, i) || !text_low(o, i, &low))
		return false;
	room = fmt_titled_room(i->ev, i->rec);
	if (!room || !sbuf_has_room(b, HEAD_ROOM + room))
		return false;
	p = put_blocks(b->s + b->len, h->text, h->len, HEAD_USUAL);
	__builtin_memcpy(p, all->high.text, sizeof(all->high.text));
	p += all->high.len;
	put_word(p, put_dec_word((uint32_t)low));
	p = put_mem(p + LOW_DIGITS, "  ", 2);
	fmt_print_titled(i->ev, i->rec, p, b);
	put_mem(b->s + b->len++, "\n", 2);
	return true;
}

static void out_text_item(struct out *o, const struct tl_item *i)
{
	if (!text_quick(o, i))
		text_slow(o, i);
}

/* Long labels are cut, if they still tell their sources apart. */
static size_t label_cut(const struct timeline *t)
{
	for (size_t i = 1; i < tl_sources(t); i++)
		for (size_t k = 0; k < i; k++)
			if (!strncmp(tl_source(t, i)->label, tl_source(t, k)->label, LABEL_CUT - 1))
				return MAX_LABEL;
	return LABEL_CUT;
}

static void text_begin(struct out *o)
{
	struct heads *all = xcalloc(1, sizeof(*all));

	o->priv = all;
	if (o->clock.kind == OUT_CLOCK_NS && o->clock.khz <= UINT32_MAX && !o->clock.line.mult)
		all->khz_inverse = tsc_khz_inverse(o->clock.khz);
	all->label_cut = label_cut(o->t);
	all->cpu_digits = 1;
	for (size_t i = 0; i < tl_sources(o->t); i++)
		for (size_t k = 0;
		     k < tl_source(o->t, i)->cap->nstream && !tl_source(o->t, i)->guest; k++)
			all->cpu_digits = MAX(all->cpu_digits,
					      put_dec_len(tl_source(o->t, i)->cap->stream[k].cpu));
	for (unsigned int c = 0; c < COLUMNS; c++)
		all->width[c] = o->kept[c];
	if (!all->width[COL_TIME]) /* else it continues: they are known */
		all->early = xcalloc(EARLY_LINES, sizeof(*all->early));
}

static void text_end(struct out *o)
{
	struct heads *all = o->priv;

	if (all->early)
		early_end(o, o->goes_on && all->nearly);
	for (unsigned int c = 0; c < COLUMNS; c++)
		o->kept[c] = all->width[c];
	free(all);
	o->priv = NULL;
}

const struct out_format out_text = {
	.name = "text",
	.begin = text_begin,
	.end = text_end,
	.item = out_text_item,
	.epoch = text_epoch,
	.epochs_before = text_epochs_before,
};
