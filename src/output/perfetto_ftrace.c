/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto_ftrace.c: events as Perfetto's own recorder writes them: FtraceEventBundle, one CPU's
 * events each. Field numbers are those of perfetto's protos/perfetto/trace/ftrace.
 */
#include "perfetto.h"

#include <malloc.h>

enum {
	/* TracePacket */
	FTRACE_EVENTS = 1,
	/* FtraceEventBundle */
	BUNDLE_CPU = 1,
	BUNDLE_EVENT = 2,
	BUNDLE_LOST = 3,
	BUNDLE_DESCRIPTOR = 11,
	/* FtraceEvent */
	EVENT_TIME = 1,
	EVENT_PID = 2,
	/* GenericFtraceEvent and its Field */
	GENERIC_NAME = 1,
	GENERIC_FIELD = 2,
	FIELD_NAME = 1,
	FIELD_STRING = 3,
	FIELD_INT = 4,
	FIELD_UINT = 5,
	/* FtraceEvent */
	GENERIC = 327,
	HRTIMER_ENTRY = 553,
};

#define MAX_CPUS    1024	/* trace processor refuses a trace with more */
#define BUNDLE	    (64u << 10) /* bytes of events kept of a CPU */
#define ALL_PENDING (2u << 20)	/* what all CPUs together keep */
#define NUMBER_ROOM (2 + PB_VARINT_MAX)

/* ---- the bundle ---- */

bool pf_has_cpu(const struct tl_item *i)
{
	return i->cpu < MAX_CPUS;
}

struct pf_cpu *pf_cpu(struct pf *p, const struct tl_item *i)
{
	uint64_t key = (uint64_t)i->src->index << 32 | i->cpu;
	struct pf_cpu *c = xu64map_elem(&p->cpu_of, key, &p->cpu, &p->cpu_cap, sizeof(*c));

	if (!c->m) {
		c->m = p->of[i->src->index];
		c->cpu = i->cpu;
	}
	return c;
}

static void bundle_flush(struct pf *p, struct pf_cpu *c)
{
	if (c->event.len || c->event.error) {
		struct sbuf *b = c->m->to, *head = &p->scratch;
		size_t packet, n;

		/* The head of the bundle is made apart, so that what is long is copied once. */
		sbuf_reset(head);
		pb_u64(head, BUNDLE_CPU, c->cpu);
		if (c->lost)
			pb_u64(head, BUNDLE_LOST, 1);
		n = head->len + c->event.len;
		packet = 1 + pb_varint_len(n) + n;
		if (c->m->id)
			packet += 2 + pb_varint_len(c->m->id);
		pb_varint(b, PF_PACKET << 3 | PB_BYTES);
		pb_varint(b, packet);
		if (c->m->id)
			pb_u64(b, 98, c->m->id);
		pb_varint(b, FTRACE_EVENTS << 3 | PB_BYTES);
		pb_varint(b, n);
		sbuf_add_mem(b, head->s, head->len);
		sbuf_add_mem(b, c->event.s, c->event.len);
		c->event.len = 0;
		c->lost = false;
		if (head->error || c->event.error)
			memory_out();
	}
}

/* What a capture of very many CPUs must not do: keep that much of each. */
void pf_ftrace_flush(struct out *o, struct pf *p)
{
#ifdef M_TRIM_THRESHOLD
	/* It is soon needed again: new pages would cost more than what is written. */
	(void)mallopt(M_TRIM_THRESHOLD, 4 * ALL_PENDING);
#endif
	for (size_t i = 0; i < p->cpu_of.n; i++) {
		bundle_flush(p, &p->cpu[i]);
		sbuf_free(&p->cpu[i].event);
		if (o->line.len > (256u << 10))
			out_flush(o);
	}
	p->pending = 0;
}

void pf_ftrace_lost(struct out *o __unused_arg, struct pf *p, struct pf_cpu *c)
{
	bundle_flush(p, c);
	c->lost = true;
	memset(c->entered, 0, sizeof(c->entered));
	u64map_free(&p->entered);
}

/* ---- one event ---- */

char *pf_put_text(char *q, uint32_t number, const uint8_t *s, size_t n)
{
	uint64_t all = 0;
	size_t i = 0;

	q = pb_put_varint(q, number << 3 | PB_BYTES);
	q = pb_put_varint(q, n);
	memcpy(q, s, n);
	for (; i + sizeof(all) <= n; i += sizeof(all))
		all |= load_u64(s + i);
	for (; i < n; i++)
		all |= s[i];
	if (all & 0x8080808080808080) /* not ASCII */
		pb_fix_text(q, n);
	return q + n;
}

/* "0x1 0x1ff"; of bytes "01 ff" */
char *pf_put_array(char *q, uint32_t number, const struct fmt_value *v)
{
	static const char digit[] = "0123456789abcdef";
	char text[PF_ARRAY_ROOM], *t = text;

	for (uint32_t i = 0; v->elem == 1 && i < v->len && i < PF_SHOWN; i++) {
		if (i)
			*t++ = ' ';
		*t++ = digit[v->p[i] >> 4];
		*t++ = digit[v->p[i] & 15];
	}
	for (uint32_t i = 0; v->elem > 1 && i < v->len && i < PF_SHOWN; i++)
		t += snprintf(t, (size_t)(text + sizeof(text) - t), i ? " 0x%llx" : "0x%llx",
			      (unsigned long long)fmt_element(v, i));
	return pf_put_text(q, number, (const uint8_t *)text, (size_t)(t - text));
}

static char *put_field(char *q, const struct pf_type *t, const struct pf_field *fld,
		       const struct rec *rec)
{
	struct fmt_value v;

	fmt_value(fld->at, rec, &v);
	switch (v.kind) {
	case FMT_ABSENT: return q;
	case FMT_STRING: return pf_put_text(q, fld->number, v.p, v.len);
	case FMT_NUMBERS:
		if (t->form != PF_TYPED)
			return pf_put_array(q, fld->number, &v);
		for (uint32_t i = 0; i < v.len && i < PF_SHOWN; i++) {
			q = pb_put_varint(q, fld->number << 3 | PB_VARINT);
			q = pb_put_varint(q, fmt_element(&v, i));
		}
		return q;
	default:
		q = pb_put_varint(q, (uint64_t)fld->number << 3 | PB_VARINT);
		return pb_put_varint(q, v.num);
	}
}

/* Time and thread, before the message: the order that trace processor reads fastest. */
static char *put_event_head(char *q, struct pf *p, const struct tl_item *i)
{
	*q++ = PB_TAG(EVENT_TIME, PB_VARINT);
	q = pb_put_varint(q, p->now + p->add);
	*q++ = PB_TAG(EVENT_PID, PB_VARINT);
	return pb_put_varint(q, (uint32_t)i->tid);
}

static void pf_put_event(struct pf *p, struct pf_cpu *c, const struct pf_type *t,
			 const struct tl_item *i)
{
	const size_t most = 128 + t->nfield * NUMBER_ROOM +
			    t->nfield * MAX((size_t)i->rec->len, (size_t)PF_ARRAY_ROOM);
	struct sbuf *b = &c->event;
	char *q, *event, *message;

	if (!sbuf_room(b, most))
		memory_out();
	q = b->s + b->len;
	*q++ = PB_TAG(BUNDLE_EVENT, PB_BYTES);
	event = q++;
	q = put_event_head(q, p, i);
	q = pb_put_varint(q, (uint64_t)t->number << 3 | PB_BYTES);
	message = q++;
	for (size_t k = 0; k < t->nfield; k++)
		q = put_field(q, t, &t->field[k], i->rec);
	q = pb_put_len(message, q);
	q = pb_put_len(event, q);
	b->len = (size_t)(q - b->s);
}

/* ---- with names and values: for which no message can be described, or is not enough ---- */

static void put_generic(struct pf *p, struct pf_cpu *c, const struct tl_item *i)
{
	struct sbuf *b = &c->event;
	bool stack = i->ev && fmt_is_stack(i->ev);
	size_t event = pb_begin(b, BUNDLE_EVENT), mark, one;
	struct fmt_value v;

	pb_u64(b, EVENT_TIME, p->now + p->add);
	pb_u64(b, EVENT_PID, (uint32_t)i->tid);
	mark = pb_begin(b, GENERIC);
	pb_str(b, GENERIC_NAME, i->ev ? fmt_name(i->ev) : "(no format)");
	for (size_t k = i->ev ? fmt_common_fields(i->ev) : 0;
	     i->ev && !stack && fmt_field_at(i->ev, k); k++) {
		fmt_value(fmt_field_at(i->ev, k), i->rec, &v);
		if (v.kind == FMT_ABSENT)
			continue;
		one = pb_begin(b, GENERIC_FIELD);
		pb_str(b, FIELD_NAME, fmt_field_name(i->ev, k));
		switch (v.kind) {
		case FMT_SIGNED: pb_s64(b, FIELD_INT, (int64_t)v.num); break;
		case FMT_STRING: pb_str_mem(b, FIELD_STRING, v.p, v.len); break;
		case FMT_NUMBERS:
			if (sbuf_room(b, PF_ARRAY_ROOM))
				b->len = (size_t)(pf_put_array(b->s + b->len, FIELD_STRING, &v) -
						  b->s);
			break;
		default: pb_u64(b, FIELD_UINT, v.num); break;
		}
		pb_end(b, one);
	}
	if (stack) {
		size_t field = pb_begin(b, GENERIC_FIELD);

		sbuf_reset(&p->scratch);
		fmt_print(i->ev, i->rec, &p->scratch);
		pb_str(b, FIELD_NAME, PF_STACK);
		pb_str_mem(b, FIELD_STRING, p->scratch.s, p->scratch.len);
		pb_end(b, field);
	}
	if (i->unplaced) {
		one = pb_begin(b, GENERIC_FIELD);
		pb_str(b, FIELD_NAME, "unplaced");
		pb_u64(b, FIELD_INT, 1);
		pb_end(b, one);
	}
	pb_end(b, mark);
	pb_end(b, event);
}

/* The same of a thread: some end without an exit (exit_group), and their numbers come again. */
static bool is_thread_unpaired(struct pf *p, struct pf_cpu *c, const struct pf_type *t,
			       const struct tl_item *i)
{
	enum { LEFT_OPEN = 8, THREADS = 65536 };
	unsigned int k = t->pair - 1u;
	uint64_t n = 0, key = (uint64_t)i->src->index << 40 | (uint64_t)k << 32 | (uint32_t)i->tid;
	bool *none = &c->m->no_exits[k];

	c->m->exits[k] |= t->ends;
	if (*none)
		return true;
	(void)u64map_take(&p->entered, key, &n);
	if (p->entered.n > THREADS)
		u64map_free(&p->entered);
	if (t->ends)
		n -= n > 0;
	else
		n++;
	*none = n > (c->m->exits[k] ? LEFT_OPEN : 1);
	if (n)
		xu64map_put(&p->entered, key, n);
	return *none;
}

/* Entries without exits would nest without end: from the second on they are only events. */
static bool is_unpaired(struct pf *p, struct pf_cpu *c, const struct pf_type *t,
			const struct tl_item *item)
{
	enum { NESTED = 2 };
	unsigned int i = t->pair - 1u;

	if (!t->pair)
		return false;
	if (i >= PF_OF_THREADS)
		return is_thread_unpaired(p, c, t, item);
	if (t->ends && c->entered[i])
		c->entered[i]--;
	else if (!t->ends && c->entered[i] == (t->number == HRTIMER_ENTRY ? NESTED : 1))
		c->no_exits[i] = true;
	else if (!t->ends)
		c->entered[i]++;
	return c->no_exits[i];
}

void pf_ftrace(struct out *o, struct pf *p, struct pf_cpu *c, const struct pf_type *t,
	       const struct tl_item *i)
{
	uint64_t now = p->now + p->add;
	size_t was = c->event.cap;

	if (now < c->last) /* the clock was set: differences cannot go back */
		bundle_flush(p, c);
	c->last = now;
	if (t && !i->unplaced && is_unpaired(p, c, t, i))
		t = pf_type_own(p, i);
	if (!t || i->unplaced || t->form == PF_GENERIC) {
		put_generic(p, c, i);
	} else {
		if (t->form == PF_DESCRIBED && !t->described) {
			pf_describe(t, &c->event, BUNDLE_DESCRIPTOR);
			((struct pf_type *)t)->described = true;
		}
		if (t->info->is_stack) {
			const struct sbuf *text = fmt_stack_text(i->ev, i->rec);
			struct sbuf *b = &c->event;
			char head[64], *q = put_event_head(head, p, i);
			size_t field, message, nhead;

			if (!text || !sbuf_room(b, sizeof(head) + 4 * PB_VARINT_MAX + text->len))
				memory_out();
			/* All lengths are known before: what is long is copied once. */
			q = pb_put_varint(q, (uint64_t)t->number << 3 | PB_BYTES);
			nhead = (size_t)(q - head);
			field = 1 + pb_varint_len(text->len) + text->len;
			message = nhead + pb_varint_len(field) + field;
			q = b->s + b->len;
			*q++ = PB_TAG(BUNDLE_EVENT, PB_BYTES);
			q = pb_put_varint(q, message);
			memcpy(q, head, sizeof(head));
			q = pb_put_varint(q + nhead, field);
			q = pf_put_text(q, 1, (const uint8_t *)text->s, text->len);
			b->len = (size_t)(q - b->s);
		} else {
			pf_put_event(p, c, t, i);
		}
	}
	if (c->event.len >= BUNDLE)
		bundle_flush(p, c);
	p->pending += c->event.cap - was;
	if (p->pending >= ALL_PENDING)
		pf_ftrace_flush(o, p);
}
