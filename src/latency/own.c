/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * own.c: what a guest's recording tells without its host's: how long its tasks waited for a CPU,
 * and how long its handlers ran. How much of that its vCPUs had no CPU, the host alone knows.
 */

#include "priv.h"

const struct lat_desc lat_desc_task = {
	.name = "task",
	.kind = LAT_SCHED,
	.title = "how long tasks that could run waited for a CPU",
	.key = "Task",
	.stage = { "total", "preempted", "waiting", "stolen" },
	.stage_help = { "from the wake-up, or from losing the CPU, to running",
			"after another task took its CPU", "from the wake-up to a CPU",
			"... of all this: the host ran something else" },
	.parts = 1u << 1 | 1u << 2,
	.cause = (const char *const[LAT_CAUSES]){ "" },
	.count = { "waits", "cut: cut by lost events", "open: open at the end" },
};

const struct lat_desc lat_desc_handler = {
	.name = "handler",
	.kind = LAT_IRQ,
	.title = "how long handlers of interrupts ran, with those that interrupted them",
	.key = "Handler",
	.stage = { "total", "stolen" },
	.stage_help = { "from the handler's beginning to its end",
			"... of all this: the host ran something else" },
	.cause = (const char *const[LAT_CAUSES]){ "" },
	.count = { "handled", "cut: cut by lost events", "open: open at the end",
		   "no_begin: ends without a beginning" },
};

enum { WAITS, WAIT_CUT, WAIT_OPEN };
enum { HANDLED, HANDLER_CUT, HANDLER_OPEN, HANDLER_STRAY };

/* A task that was seen: since when it waits for a CPU. */
struct lat_task {
	uint64_t since; /* 0: it does not, or nothing is known of it */
	bool ready;	/* it lost its CPU, and was not woken */
	bool listed;	/* in lat_tasks.open */
	uint32_t vcpu;
};

struct lat_tasks {
	struct lat_task *v;
	size_t cap;
	struct u64map at; /* tid → index */
	size_t *open, nopen, open_cap; /* those that waited since the last gap */
};

void lat_tasks_new(struct lat *l)
{
	l->tasks = xcalloc(1, sizeof(*l->tasks));
}

void lat_tasks_free(struct lat *l)
{
	if (!l->tasks)
		return;
	u64map_free(&l->tasks->at);
	free(l->tasks->v);
	free(l->tasks->open);
	free(l->tasks);
}

/* NULL: it is idle. */
static struct lat_task *task_of(struct lat *l, uint64_t tid)
{
	return tid && tid <= LAT_TID_MAX ? xu64map_elem(&l->tasks->at, tid, &l->tasks->v,
							&l->tasks->cap, sizeof(struct lat_task))
					 : NULL;
}

static void add_case(struct lat *l, enum lat_table_id id, uint64_t key, const char *name,
		     struct lat_case *k)
{
	struct lat_group *g;

	if (!lat_wanted(l, k->vm, k->vcpu))
		return;
	l->table[id].count[0]++;
	g = lat_group_get(l, id, k->vm, key, &k->group);
	snprintf(g->name, sizeof(g->name), "%s", name);
	snprintf(k->what, sizeof(k->what), "%s on CPU %u", name, (unsigned int)k->vcpu);
	k->time = lat_span(l, k->end - k->begin);
	lat_case_add(l, id, g, k);
}

static void task_waits(struct lat_tasks *t, struct lat_task *w, uint64_t since, uint32_t vcpu)
{
	size_t at = (size_t)(w - t->v);

	if (!w->listed)
		xarray_add(&t->open, &t->nopen, &t->open_cap, &at, sizeof(at));
	w->listed = true;
	w->since = since;
	w->vcpu = vcpu;
}

static void task_event(struct lat *l, const struct lat_in *in)
{
	struct lat_task *w = task_of(l, in->f[0]);
	uint32_t vcpu = (uint32_t)in->i->vcpu;

	if (w && in->kind == EV_WAKEUP && !w->since) {
		w->ready = false;
		if (in->has & 2)
			vcpu = cap_vcpu_of_cpu(in->i->src->cap, (uint32_t)in->f[1]);
		task_waits(l->tasks, w, in->t, vcpu);
	}
	if (in->kind != EV_SWITCH)
		return;
	if (w) {
		w->ready = true;
		task_waits(l->tasks, w, event_task_sleeps(in->f[1]) ? 0 : in->t, vcpu);
	}
	w = task_of(l, in->f[2]);
	if (w) {
		struct lat_case k = {
			.vm = in->i->vm, .vcpu = w->vcpu, .begin = w->since, .end = in->t
		};
		char name[LAT_NAME];

		if (!w->since)
			return;
		w->since = 0;
		lat_stage(&k, w->ready ? 1 : 2, lat_span(l, k.end - k.begin));
		snprintf(name, sizeof(name), "%.40s-%u", tl_comm(in->i->src, (int32_t)in->f[2]),
			 (unsigned int)in->f[2]);
		add_case(l, LAT_T_TASK, in->f[2], name, &k);
	}
}

/* ---- handlers ---- */

static void handlers_over(struct lat *l, struct lat_vcpu *v, unsigned int how)
{
	lat_count_add(l, v->vm, v->id, LAT_T_HANDLER, how, v->nhandlers);
	v->nhandlers = 0;
}

static void handler_ends(struct lat *l, struct lat_vcpu *v, const struct lat_in *in,
			 enum event_role begin)
{
	const struct lat_own *o = v->nhandlers ? &v->own[v->nhandlers - 1] : NULL;
	struct lat_case k = { .vm = (int64_t)v->vm, .vcpu = v->id, .end = in->t };

	if (!o || o->kind != begin || o->number != (uint32_t)in->f[0]) {
		lat_count(l, v, LAT_T_HANDLER, HANDLER_STRAY);
		handlers_over(l, v, HANDLER_CUT);
		return;
	}
	v->nhandlers--;
	k.begin = o->t;
	add_case(l, LAT_T_HANDLER, (uint64_t)o->kind << 32 | o->number, o->name, &k);
}

void lat_own_guest(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	v->first = v->first ?: in->t;
	v->last = in->t;
	if (in->i->unplaced)
		return;
	switch (in->kind) {
	case EV_SWITCH: v->has_last = false; /* fall through */
	case EV_WAKEUP:
		if (l->o.want[LAT_SCHED])
			task_event(l, in);
		return;
	case EV_IRQ_ENTRY:
	case EV_SOFTIRQ_ENTRY:
	case EV_VECTOR_ENTRY: {
		struct lat_own *o;
		char name[24] = "";

		if (v->nhandlers ==
		    ARRAY_SIZE(v->own)) /* nothing nests as deep: what was there is over */
			handlers_over(l, v, HANDLER_CUT);
		o = &v->own[v->nhandlers++];
		*o = (struct lat_own){ .t = in->t, .kind = in->kind, .number = (uint32_t)in->f[0] };
		if (in->kind == EV_VECTOR_ENTRY) {
			const char *event = fmt_name(in->i->ev);

			snprintf(o->name, sizeof(o->name), "%.*s",
				 (int)MIN(strlen(event) - strlen("_entry"), sizeof(o->name) - 1),
				 event);
			return;
		}
		if (in->kind == EV_IRQ_ENTRY)
			lat_decode_text(l->dec[in->i->src->index], in, name, sizeof(name));
		snprintf(o->name, sizeof(o->name), "%s %u%s%s",
			 in->kind == EV_IRQ_ENTRY ? "irq" : "softirq", o->number,
			 name[0] ? " " : "", name);
		/* A request's completion, if it follows before the CPU does anything else. */
		if (in->kind == EV_IRQ_ENTRY) {
			v->last_device = (struct irq_chain){ .t_source = in->t,
							     .t_handler = in->t,
							     .irq = (int32_t)in->f[0] };
			memcpy(v->last_device.name, name, sizeof(v->last_device.name));
			v->has_last = true;
		}
		return;
	}
	case EV_IRQ_EXIT: handler_ends(l, v, in, EV_IRQ_ENTRY); return;
	case EV_SOFTIRQ_EXIT: handler_ends(l, v, in, EV_SOFTIRQ_ENTRY); return;
	case EV_VECTOR_EXIT: handler_ends(l, v, in, EV_VECTOR_ENTRY); return;
	default: return;
	}
}

void lat_tasks_over(struct lat *l, bool cut)
{
	for (; l->tasks && l->tasks->nopen; l->tasks->nopen--) {
		struct lat_task *w = &l->tasks->v[l->tasks->open[l->tasks->nopen - 1]];

		lat_count_add(l, tl_source(l->t, 0)->vm, w->vcpu, LAT_T_TASK,
			      cut ? WAIT_CUT : WAIT_OPEN, w->since != 0);
		w->since = 0;
		w->listed = false;
	}
	for (size_t i = 0; l->tasks && i < l->nheard; i++)
		handlers_over(l, l->heard[i], cut ? HANDLER_CUT : HANDLER_OPEN);
}

/* The second is for times between both sides, which are off by the alignment. */
#define DESC(across)                                                                        \
	{                                                                                   \
		.name = "event", .kind = LAT_EVENT,                                         \
		.title = "how long it took from one event to the other", .key = "Events",   \
		.stage = { "total" }, .stage_help = { "from --from-event to --to-event" },  \
		.crosses = (across), .cause = (const char *const[LAT_CAUSES]){ "" },        \
		.count = { "begun", "again: begun again before their end",                  \
			   "no_begin: ends without a beginning", "cut: cut by lost events", \
			   "open: open at the end" },                                       \
	}
const struct lat_desc lat_desc_event[2] = { DESC(0), DESC(1) };

void lat_event_feed(struct lat *l, const struct tl_item *i)
{
	struct lat_case k = { 0 };
	struct lat_group *g;
	const char *side;
	struct span s;

	if (!spans_feed(l->spans, i, &s) || !lat_wanted(l, s.vm, s.vcpu))
		return;
	k.vm = s.vm;
	k.vcpu = s.vcpu;
	k.begin = s.begin;
	k.end = s.end;
	k.time = lat_span(l, s.end - s.begin);
	if (s.across)
		l->table[LAT_T_EVENT].desc = &lat_desc_event[1];
	g = lat_group_get(l, LAT_T_EVENT, s.vm, s.types, &k.group);
	side = s.across || l->alone ? "" : s.by_guest ? "guest: " : "host: ";
	snprintf(g->name, sizeof(g->name), "%s%.*s to %.*s", side, LAT_NAME / 2 - 6, s.from,
		 LAT_NAME / 2 - 6, fmt_name(i->ev));
	snprintf(k.what, sizeof(k.what), "%.40s-%d", s.comm, s.tid);
	lat_case_add(l, LAT_T_EVENT, g, &k);
}

void lat_event_finish(struct lat *l)
{
	_cleanup_(sbuf_free) struct sbuf why = { 0 };
	struct lat_table *t = &l->table[LAT_T_EVENT];

	if (!l->spans)
		return;
	for (unsigned int c = 0; c < SPANS_COUNTS; c++)
		t->count[c] = spans_count(l->spans, c);
	if (!t->ngroup && spans_unmet(l->spans, &why)) {
		lat_note_add(l, why.s);
		l->left_out[LAT_EVENT] = l->note[l->nnote - 1];
	}
}
