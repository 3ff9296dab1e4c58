/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * find.c: the first walk. Spikes come from the latency analyses, as each of their cases ends, and
 * from what is seen besides. The longest are kept, somewhat more than are wanted; when there is no
 * room the rest is dropped, and of those that count as the same all but the longest.
 */
#include "priv.h"
#include "kvmft/util.h"

static bool blame_wants(const struct blame *b, enum blame_what what)
{
	return b->o.spans.from ? what == BLAME_EVENT : !b->o.what || b->o.what >> what & 1;
}

/* How far it is from the requested moment. */
static uint64_t spike_distance(const struct blame *b, uint64_t begin, uint64_t end)
{
	if (begin > b->o.at)
		return begin - b->o.at;
	return end < b->o.at ? b->o.at - end : 0;
}

static int spike_worse(const void *a, const void *b)
{
	const struct blame_spike *x = a, *y = b;

	return ORDER(y->end - y->begin, x->end - x->begin) ?: ORDER(x->begin, y->begin)
		?: ORDER(x->what, y->what);
}

static int worse_of(const void *a, const void *b)
{
	return spike_worse(*(struct blame_spike *const *)a, *(struct blame_spike *const *)b);
}

/* Both are on one vCPU, and overlap by more than half of the longer one. */
static bool same_spike(const struct blame_spike *x, const struct blame_spike *y)
{
	uint64_t lo = MAX(x->begin, y->begin), hi = MIN(x->end, y->end);
	uint64_t longer = MAX(x->end - x->begin, y->end - y->begin);

	return x->vm == y->vm && x->vcpu == y->vcpu && hi > lo && hi - lo > longer / 2;
}

/* The index of the first middle that is not before `at`. */
static size_t middles_from(const struct blame_middle *m, size_t n, uint64_t at)
{
	return COUNT_BEFORE(i, n, m[i].at < at);
}

/* Keeps the longest; those that count as the same are absorbed by the longest of them. */
static void spikes_compact(struct blame *b)
{
	size_t n = 0, gone = b->n;
	struct blame_spike **kept = b->ranked, **fresh = b->ranked + b->sorted;
	struct blame_spike **sorted = fresh, **end = b->ranked + b->n;

	/* Of those that are equal, what came first goes first. */
	if (fresh < end)
		array_sort(fresh, (size_t)(end - fresh), worse_of);
	for (size_t i = 0; i < b->n; i++) {
		bool is_old = fresh == end || (kept < sorted && spike_worse(*kept, *fresh) <= 0);

		b->merged[i] = is_old ? *kept++ : *fresh++;
	}
	for (size_t i = 0; i < b->n; i++) {
		struct blame_spike *s = b->merged[i];
		size_t k;
		const struct blame_middle *m = b->middle;

		/*
		 * The longest of the n kept spikes that counts as the same as s; n: none does. A
		 * spike that overlaps more than half of a longer one contains its middle.
		 */
		k = n;
		for (size_t q = middles_from(m, n, s->begin); q < n && m[q].at <= s->end; q++)
			if (m[q].i < k && same_spike(b->ranked[m[q].i], s))
				k = m[q].i;

		if (k == n && n < b->keep) {
			struct blame_middle *middle = b->middle;
			uint64_t at = s->begin + (s->end - s->begin) / 2;
			size_t after = middles_from(middle, n, at);

			memmove(&middle[after + 1], &middle[after], (n - after) * sizeof(*middle));
			middle[after] = (struct blame_middle){ at, n };
			b->ranked[n++] = s;
			continue;
		}
		if (k < n) {
			b->ranked[k]->also[s->what]++;
			for (unsigned int j = 0; j < BLAME_WHATS; j++)
				b->ranked[k]->also[j] += s->also[j];
		}
		b->ranked[--gone] = s;
	}
	b->n = b->sorted = n;
	if (n == b->keep)
		b->least = b->ranked[n - 1]->end - b->ranked[n - 1]->begin;
}

/* What is found about a spike. Most are not kept, and a spike with its parts is large. */
struct blame_found {
	enum blame_what what;
	int32_t tid;
	int64_t vm, vcpu;
	uint64_t begin, end;
};

/* NULL, or the spike that is kept, of which the caller writes `of`. */
static struct blame_spike *blame_add(struct blame *b, const struct blame_found *f)
{
	uint64_t length = f->end - f->begin, grain = tl_hostmap(b->t)->cap->grain;
	const struct capture *c = tl_source(b->t, 0)->cap;
	size_t at = COUNT_BEFORE(i, c->npause, c->pause[i] <= f->begin);

	/* The flight recorder wrote its ring out meanwhile: what happened then is not known. */
	if (at < c->npause && c->pause[at] < f->end)
		return NULL;
	if (f->end < f->begin || !blame_wants(b, f->what) ||
	    (b->o.vm >= 0 && f->vm != b->o.vm) || (b->o.vcpu >= 0 && f->vcpu != b->o.vcpu) ||
	    f->end < b->o.from || f->begin > b->o.to ||
	    (b->o.has_at && spike_distance(b, f->begin, f->end) > b->o.near))
		return NULL;
	b->measured++;
	if ((grain && length <= grain && f->what != BLAME_MOMENT) || !length || length < b->o.than)
		return NULL;
	b->count[f->what]++;
	if (length < b->least)
		return NULL;
	if (b->n == b->cap)
		spikes_compact(b);
	*b->ranked[b->n] = (struct blame_spike){
		.what = f->what, .vm = f->vm, .vcpu = f->vcpu, .tid = f->tid,
		.begin = f->begin, .grain = grain, .end = f->end,
	};
	return b->ranked[b->n++];
}

/* ---- what latency measures ---- */

static const int what_of[LAT_TABLES] = {
	[LAT_T_IRQ] = BLAME_IRQ, [LAT_T_SCHED] = -1,	      [LAT_T_STEALER] = -1,
	[LAT_T_IO] = BLAME_IO,	 [LAT_T_TIMER] = BLAME_TIMER, [LAT_T_HRTIMER] = BLAME_HRTIMER,
	[LAT_T_MEM] = -1,	 [LAT_T_NET_RX] = -1,	      [LAT_T_NET_TX] = -1,
	[LAT_T_TASK] = -1,	 [LAT_T_HANDLER] = -1,	      [LAT_T_WAIT] = -1,
};

/* ns as cycles of the host's TSC, if its rate is known. */
static uint64_t blame_cycles(const struct blame *b, uint64_t time)
{
	return b->khz ? (uint64_t)((unsigned __int128)time * b->khz / 1000000u) : time;
}

static uint64_t away_stage(const struct blame *b, const struct lat_case *c, const char *name,
			   const struct lat_desc *d)
{
	for (unsigned int s = 0; s < LAT_STAGES; s++)
		if (d->stage[s] && !strcmp(d->stage[s], name))
			return c->known >> s & 1 ? blame_cycles(b, c->stage_time[s]) : 0;
	return 0;
}

static void lat_ends(void *ctx, enum lat_table_id id, const struct lat_case *c)
{
	struct blame *b = ctx;
	const struct lat_table *t = lat_table(b->lat, id);
	struct blame_found f = {
		.vm = c->vm, .vcpu = c->vcpu, .begin = c->begin, .end = c->end,
	};
	struct blame_spike *s;
	const char *name;

	if (id == LAT_T_MEM)
		blame_fault(b, c);
	if (id == LAT_T_MEM || what_of[id] < 0)
		return;
	f.what = (enum blame_what)what_of[id];
	s = blame_add(b, &f);
	if (!s)
		return;
	if (s->what == BLAME_IO) {
		uint64_t submit = away_stage(b, c, "submit", t->desc);
		uint64_t host = away_stage(b, c, "host", t->desc), left;

		/* From the doorbell to the interrupt no vCPU holds up a request. */
		if (host) {
			s->away_from = s->begin + MIN(submit, s->end - s->begin);
			s->away_to = s->away_from + MIN(host, s->end - s->away_from);
			left = s->away_to - s->away_from;
			for (unsigned int k = 0; k < BLAME_AWAY; k++) {
				s->away[k] =
					MIN(away_stage(b, c, blame_away[k].stage, t->desc), left);
				left -= s->away[k];
			}
		}
	}
	if (s->what == BLAME_TIMER || s->what == BLAME_HRTIMER)
		s->accepted =
			s->begin + MIN(away_stage(b, c, "expire", t->desc), s->end - s->begin);
	name = c->what[0] ? c->what : t->group[c->group].name;
	memcpy(s->of, name, strnlen(name, sizeof(s->of) - 1));
}

/* ---- the walk ---- */

/*
 * What no latency analysis measures: tasks of the guest that wait for a CPU, vCPUs that stand
 * still, and times between two events.
 */

#define TID_MAX	  (1 << 22) /* PID_MAX_LIMIT of linux/threads.h: a higher number is not a task */
#define HALTS_MAX 4096u      /* places where a guest halts; it has two or three */

/* Delivery mode "remote read", which KVM uses for nothing but KVM_HC_KICK_CPU (asm/apicdef.h). */
#define DM_MASK 0x700u
#define DM_KICK 0x300u

int64_t blame_vcpu_of(const struct blame *b, const struct tl_item *i, uint64_t cpu, int64_t other)
{
	uint64_t v;

	return u64map_get(&b->vcpu_of, (uint64_t)i->src->index << 32 | (uint32_t)cpu, &v)
		       ? (int64_t)v
		       : other;
}

static bool is_task(int32_t tid)
{
	return tid > 0 && tid <= TID_MAX;
}

/* Of a task of the guest: tid is in 1..TID_MAX. */
static struct blame_wait *wait_of(struct blame *b, const struct tl_item *i, int32_t tid)
{
	uint64_t key = (uint64_t)i->vm << 32 | (uint32_t)tid;
	struct blame_wait *w = xu64map_elem(&b->wait_at, key, &b->wait, &b->wait_cap, sizeof(*w));

	if (w->gen != b->guest_gen[i->vm])
		*w = (struct blame_wait){ .gen = b->guest_gen[i->vm] };
	return w;
}

static void task_switch(struct blame *b, const struct tl_item *i)
{
	int32_t prev = (int32_t)tl_field(i, 0), next = (int32_t)tl_field(i, 2);
	bool sleeps = event_task_sleeps(tl_field(i, 1));
	struct blame_wait *w;

	if (is_task(prev)) {
		w = wait_of(b, i, prev);
		w->since = sleeps ? 0 : i->host;
		w->vcpu = i->vcpu;
		w->ready = true;
	}
	if (is_task(next)) {
		w = wait_of(b, i, next);
		if (w->since) {
			struct blame_found f = { .what = w->ready ? BLAME_READY : BLAME_WAKEUP,
						 .vm = i->vm, .vcpu = w->vcpu, .tid = next,
						 .begin = w->since,
						 .end = i->host };
			struct blame_spike *at;

			w->since = 0;
			at = blame_add(b, &f);
			if (at)
				snprintf(at->of, sizeof(at->of), "%.40s-%d", tl_comm(i->src, next),
					 next);
		}
	}
}

/* Any item, if spans are wanted. */
static void blame_wait_span(struct blame *b, const struct tl_item *i)
{
	struct blame_found f;
	struct blame_spike *at;
	struct span s;

	if (!spans_feed(b->spans, i, &s))
		return;
	if (s.vm < 0 || s.vcpu < 0) {
		b->homeless++;
		return;
	}
	f.what = BLAME_EVENT;
	f.tid = s.by_guest ? s.tid : 0;
	f.vm = s.vm;
	f.vcpu = s.vcpu;
	f.begin = s.begin;
	f.end = s.end;
	at = blame_add(b, &f);
	if (at)
		snprintf(at->of, sizeof(at->of), "%s to %s", s.from, fmt_name(i->ev));
}

/* They report how long it was when it is over. A thread's sample is about that thread. */
static void latency_measured(struct blame *b, enum event_role r, const struct tl_item *i)
{
	bool timer = r == EV_TIMERLAT || r == EV_TIMERLAT_ENTRY;
	uint64_t length = blame_cycles(b, tl_field(i, 0)), more = tl_field(i, 1);
	struct blame_found f = {
		.what = timer ? BLAME_TIMERLAT : BLAME_NOISE, .vm = i->vm, .vcpu = i->vcpu,
		.begin = i->host - MIN(length, i->host), .end = i->host,
	};
	struct blame_spike *at;
	char text[32] = "";

	if ((timer && more) || r == EV_NOISE_SAMPLE)
		f.tid = i->tid;
	at = blame_add(b, &f);
	if (!at)
		return;
	if (r == EV_NOISE_IRQ)
		fmt_str(&event_type_of(i->ev)->f[1], i->rec, text, sizeof(text));
	if (timer)
		snprintf(at->of, sizeof(at->of), "in its %s", more ? "thread" : "interrupt");
	else if (r == EV_NOISE_SAMPLE)
		snprintf(at->of, sizeof(at->of), "to %.40s-%d", tl_comm(i->src, i->tid), i->tid);
	else if (r == EV_NOISE_THREAD)
		snprintf(at->of, sizeof(at->of), "by %.40s-%d", tl_comm(i->src, (int32_t)more),
			 (int32_t)more);
	else if (r == EV_NOISE_SOFTIRQ)
		snprintf(at->of, sizeof(at->of), "by softirq %u", (uint32_t)more);
	else
		snprintf(at->of, sizeof(at->of), "by %s", text[0] ? text : "an NMI");
}

/* ---- both sides ---- */

static void blame_wait_guest(struct blame *b, enum event_role r, const struct tl_item *i)
{
	if (i->vm < 0 || i->vcpu < 0 || i->unplaced ||
	    i->host < MAX(b->lost_to, b->guest_lost[i->vm]))
		return;
	blame_vcpu_learn(b, i);
	switch (r) {
	case EV_SWITCH: task_switch(b, i); break;
	case EV_WAKEUP:
	case EV_WAKEUP_NEW: {
		int32_t tid = (int32_t)tl_field(i, 0);
		struct blame_wait *w = is_task(tid) ? wait_of(b, i, tid) : NULL;

		/* A task that is awake is not woken again. */
		if (!w || w->since)
			return;
		w->since = i->host;
		w->vcpu = blame_vcpu_of(b, i, tl_field(i, 1), i->vcpu);
		w->ready = false;
		break;
	}
	case EV_TIMERLAT:
	case EV_TIMERLAT_ENTRY:
	case EV_NOISE_SAMPLE:
	case EV_NOISE_THREAD:
	case EV_NOISE_IRQ:
	case EV_NOISE_SOFTIRQ:
	case EV_NOISE_NMI: latency_measured(b, r, i); break;
	default: break;
	}
}

/*
 * A guest with paravirtual spinlocks halts when it has spun for long, and whoever releases the lock
 * kicks it. Its kernel has a place for that halt alone, which hardly anything but a kick ends.
 */
static uint64_t halt_key(const struct blame *b, int64_t vm, uint64_t rip)
{
	const uint64_t both[] = { (uint64_t)vm, rip };

	return hash_bytes(&b->halt_key, both, sizeof(both));
}

bool blame_lock_halt(const struct blame *b, int64_t vm, uint64_t rip)
{
	uint64_t v;

	return rip && u64map_get(&b->halts, halt_key(b, vm, rip), &v) &&
	       (v & UINT32_MAX) > (v >> 33);
}

bool blame_kick(const struct tl_item *i, int64_t *target)
{
	*target = (int64_t)(uint32_t)tl_field(i, 0);
	return (tl_field(i, 2) & DM_MASK) == DM_KICK;
}

static void vcpu_kicked(struct blame *b, const struct tl_item *i)
{
	int64_t target;
	uint64_t at;

	if (i->vm >= 0 && blame_kick(i, &target) &&
	    u64map_get(&b->left_at, (uint64_t)i->vm << 32 | (uint32_t)target, &at))
		b->left[at].kicked = true; /* even if forgotten: its next exit clears it */
}

/* A vCPU that was left for anything but idling, and is entered again. */
static void blame_wait_host(struct blame *b, enum event_role r, const struct tl_item *i)
{
	struct blame_found f = { .what = BLAME_STALL, .vm = i->vm, .vcpu = i->vcpu };
	const struct hostmap_thread *th;
	struct blame_left *l, left;
	struct blame_spike *s;
	struct exit_why why;
	uint64_t at;

	switch (r) {
	case EV_ACCEPT: vcpu_kicked(b, i); return;
	case EV_SWITCH: /* one that can run, and leaves its CPU idle, must have been forced to */
		th = hostmap_thread(b->map, (int32_t)tl_field(i, 0));
		if (th && th->vm < b->nlimited && !tl_field(i, 2) &&
		    !event_task_sleeps(tl_field(i, 1)))
			b->limited[th->vm] = true;
		return;
	case EV_WAKEUP: /* from there on a halted vCPU waits for a CPU */
		th = hostmap_thread(b->map, (int32_t)tl_field(i, 0));
		if (th && !i->src->index &&
		    u64map_get(&b->left_at, (uint64_t)th->vm << 32 | th->vcpu, &at))
			b->left[at].woken = i->host;
		return;
	case EV_ENTRY:
	case EV_EXIT:
	case EV_INJECT:
	case EV_INJECT_FAULT:
	case EV_EOI:
	case EV_PV_EOI: break;
	default: return;
	}
	if (i->vm < 0 || i->vcpu < 0)
		return;
	l = xu64map_elem(&b->left_at, (uint64_t)i->vm << 32 | (uint32_t)i->vcpu, &b->left,
			 &b->left_cap, sizeof(*l));
	if (r == EV_EOI || r == EV_PV_EOI) { /* by the vCPU itself, whatever its APIC's id */
		l->serves = 0;
		return;
	}
	if (r == EV_INJECT || r == EV_INJECT_FAULT) {
		l->injected = (uint32_t)tl_field(i, 0) + 1;
		l->vector = r == EV_INJECT ? l->injected : l->vector;
		return;
	}
	if (r == EV_EXIT) {
		why = exit_why(&i->src->exits, tl_field(i, 0), tl_field(i, 1));
		blame_window_ends(b, l, i, exit_kind(why), tl_field(i, 2));
		*l = (struct blame_left){
			.exit = i->host, .rip = tl_field(i, 2), .cpu = i->cpu,
			.halted = exit_is_halt(why), .gen = b->gen,
			.serves = exit_is_halt(why) ? 0 : l->serves,
		};
		return;
	}
	left = *l;
	*l = (struct blame_left){
		.entry = i->host, .cpu = i->cpu, .injected = left.injected, .gen = b->gen,
		.serves = left.gen == b->gen ? left.vector ?: left.serves : 0,
	};
	if (!left.exit || left.gen != b->gen)
		return;
	blame_exit_ends(b, &left, i);
	if (left.halted) {
		uint64_t key = halt_key(b, i->vm, left.rip), *v, had;

		if (left.rip) {
			if (u64map_get(&b->halts, key, &had) ||
			    b->kept[i->vm].halts++ < HALTS_MAX) {
				v = xu64map_at(&b->halts, key);
				*v += (1ull << 32) + left.kicked;
			}
		}
	}
	if (left.halted && !left.kicked && !left.woken)
		return;
	f.begin = left.halted && !left.kicked ? left.woken : left.exit;
	f.end = i->host;
	s = blame_add(b, &f); /* its name is left to blame_found() */
	if (s)
		s->served = left.serves;
}

/* Events were lost: waits may have ended in between. */
static void blame_wait_forget(struct blame *b, const struct tl_item *gap)
{
	if (gap->src->qemu || (gap->gap == GAP_OFF && !gap->src->guest))
		return;
	if (b->alone) /* another CPU may have had the end of what waits, until then */
		b->lost_to = MAX(b->lost_to, gap->host + gap->width);
	if (!gap->src->guest)
		b->gen++;
	else if (gap->vm >= 0) {
		b->guest_gen[gap->vm]++;
		b->guest_lost[gap->vm] = MAX(b->guest_lost[gap->vm], gap->host + gap->width);
	}
}

int blame_new(const struct timeline *t, const struct blame_opts *o, struct blame **out,
	      struct kvmft_err *err)
{
	struct blame *b = xcalloc(1, sizeof(*b));
	struct lat_opts lo = {
		.vm = o->vm, .vcpu = o->vcpu, .each = lat_ends, .ctx = b, .cases_only = true,
		.named_from = &b->least,
	};
	int ret;

	*out = NULL;
	b->o = *o;
	b->t = t;
	b->map = tl_hostmap(t);
	b->alone = tl_source(t, 0)->guest;
	b->khz = tl_source(t, 0)->cap->tsc_khz;
	b->keep = MIN(MAX(o->top * 4, (size_t)64), (size_t)BLAME_TOP_MAX * 4);
	b->cap = b->keep * 2;
	b->v = xcalloc(b->cap, sizeof(*b->v));
	b->ranked = xcalloc(b->cap, sizeof(struct blame_spike *));
	b->merged = xcalloc(b->cap, sizeof(struct blame_spike *));
	b->middle = xcalloc(b->keep, sizeof(*b->middle));
	lo.want[LAT_IRQ] = blame_wants(b, BLAME_IRQ);
	lo.want[LAT_IO] = blame_wants(b, BLAME_IO);
	lo.want[LAT_TIMER] = blame_wants(b, BLAME_TIMER) || blame_wants(b, BLAME_HRTIMER);
	lo.want[LAT_MEM] = blame_knows_faults(b);
	/* Only so that it is never an error if one of the others is unavailable. */
	lo.want[LAT_SCHED] = true;
	b->nlimited = b->map->nvm;
	b->limited = xcalloc(b->map->nvm + 1, sizeof(*b->limited));
	b->guest_gen = xcalloc(b->map->nvm + 1, sizeof(*b->guest_gen));
	b->guest_lost = xcalloc(b->map->nvm + 1, sizeof(*b->guest_lost));
	b->kept = xcalloc(b->map->nvm + 1, sizeof(*b->kept));
	b->has = xcalloc(b->map->nvm + 1, sizeof(*b->has));
	b->seen = xcalloc(tl_sources(t), sizeof(*b->seen));
	hash_key_init(&b->halt_key);
	for (size_t i = 0; i < b->cap; i++)
		b->ranked[i] = &b->v[i];
	ret = lat_new(t, &lo, &b->lat, err);
	if (!ret && o->spans.from)
		ret = spans_new(t, &b->o.spans, b->o.vm, &b->spans, err);
	if (ret)
		blame_free(b);
	else
		*out = b;
	return ret;
}

void blame_find(void *blame, const struct tl_item *i)
{
	struct blame *b = blame;
	enum event_role r = blame_role(i);

	lat_feed(b->lat, i);
	if (b->spans)
		blame_wait_span(b, i);
	if (r)
		b->seen[i->src->index][r] = true;
	if (i->kind != TL_EVENT)
		blame_wait_forget(b, i);
	else if (i->src->guest)
		blame_wait_guest(b, r, i);
	else if (r != EV_NONE)
		blame_wait_host(b, r, i);
}

/* The nearest first; of equally near ones the longest. */
static int by_distance(const void *x, const void *y, void *ctx)
{
	const struct blame_spike *p = x, *q = y;
	uint64_t dp = spike_distance(ctx, p->begin, p->end),
		 dq = spike_distance(ctx, q->begin, q->end);

	return ORDER(dp, dq) ?: spike_worse(p, q);
}

bool blame_stretch(struct blame *b, size_t vm, uint32_t vcpu, uint64_t begin, uint64_t end)
{
	if (b->n == b->cap)
		return false;
	b->by_reason = !b->o.has_at; /* not of a moment of --at */
	b->v[b->n++] = (struct blame_spike){
		.what = BLAME_MOMENT, .vm = (int64_t)vm, .vcpu = vcpu, .begin = begin, .end = end,
	};
	return true;
}

void blame_found(struct blame *b)
{
	struct blame_spike *v;
	bool holes, eois;
	const struct tl_source *s;
	uint32_t host;

	lat_finish(b->lat);
	/* What the rules are, and what the captures have for them, by the first walk. */
	s = tl_source(b->t, 0);
	host = s->guest ? 0 : evidence_recorded(s->cap, s->fmt, false, b->seen[0]);
	/* That there is no hypervisor, only kvmft's captures of x86 say: they name the vendor. */
	b->below = !s->guest && (!s->cap->vendor || !*s->cap->vendor || s->cap->is_perfdata ||
				 (s->cap->hypervisor && *s->cap->hypervisor));
	for (uint32_t isa = 0; isa < ARRAY_SIZE(b->late); isa++)
		b->late[isa] = event_exit_late(s->cap, isa);
	for (unsigned int c = CAUSE_LOST + 1; c < BLAME_CAUSES; c++)
		b->rule[c] = evidence_rule("blame", blame_causes[c].name);
	b->request = evidence_rule("blame", "request");
	b->io = evidence_rule("blame", "io");
	b->io_wake = evidence_rule("blame", "halt-wake of io");
	b->asleep = evidence_rule("blame", "asleep");
	b->fetch = evidence_rule("blame", "page fetched");
	b->halt = evidence_rule("blame", "halt");
	b->awake = evidence_rule("blame", "awake");
	b->late_exit = evidence_rule("blame", "late exit");
	b->long_exit = evidence_rule("blame", "long exit");
	for (size_t vm = 0; vm < b->map->nvm; vm++)
		b->has[vm] |= host;
	for (size_t i = 0; i < tl_sources(b->t); i++) {
		s = tl_source(b->t, i);
		if (s->guest)
			b->has[b->map->vm[s->vm].of] |=
				evidence_recorded(s->cap, s->fmt, true, b->seen[i]);
	}
	spikes_compact(b);
	/* From now on v is in order; stalls get their names, of which most were not kept. */
	v = xcalloc(b->cap, sizeof(*v));
	/* Events are missing, and nobody knows where; or who had a request is not known. */
	holes = b->map->holes;
	holes |= !capture_all_cpus(tl_source(b->t, 0)->cap);
	for (size_t i = !b->alone; i < tl_sources(b->t) && !holes; i++)
		holes = tl_missing(tl_source(b->t, i));
	eois = b->seen[0][EV_EOI] || b->seen[0][EV_PV_EOI];
	for (size_t i = 0; i < b->n; i++) {
		v[i] = *b->ranked[i];
		v[i].holes = holes || (v[i].what == BLAME_IO && v[i].away_to == v[i].away_from);
		if (v[i].what == BLAME_STALL)
			snprintf(v[i].of, sizeof(v[i].of),
				 v[i].served && eois ? "vCPU %u, in the handler of vector %u"
						     : "vCPU %u",
				 (unsigned int)v[i].vcpu, v[i].served - 1);
	}
	free(b->v);
	b->v = v;
	if (b->o.has_at && !b->n && !b->spans) {
		/* Nothing was late there: what each vCPU did is reported all the same. */
		for (size_t i = 0; i < lat_vcpus(b->lat) && b->n < b->cap; i++) {
			struct lat_times t;

			lat_vcpu_times(b->lat, i, &t);
			if ((b->o.vm >= 0 && (int64_t)t.vm != b->o.vm) ||
			    (b->o.vcpu >= 0 && t.vcpu != b->o.vcpu) || !t.last ||
			    t.last < b->o.at || t.first > b->o.at)
				continue;
			(void)blame_stretch(b, t.vm, t.vcpu,
					    MAX(b->o.at - MIN(b->o.at, b->o.near), t.first),
					    MIN(b->o.at + b->o.near, t.last));
		}
	}
	if (b->o.has_at && b->n)
		qsort_r(b->v, b->n, sizeof(*b->v), by_distance, b);
	b->n = MIN(b->n, b->o.top);
}

/* ---- results ---- */

size_t blame_spikes(const struct blame *b)
{
	return b->n;
}

const struct blame_spike *blame_spike(const struct blame *b, size_t i)
{
	return &b->v[i];
}

uint64_t blame_count(const struct blame *b, enum blame_what what)
{
	return b->count[what];
}

uint64_t blame_measured(const struct blame *b)
{
	return b->measured;
}

uint64_t blame_spans_open(const struct blame *b)
{
	return b->spans ? spans_count(b->spans, SPANS_OPEN) : 0;
}

bool blame_spans_unmet(const struct blame *b, struct sbuf *why)
{
	if (b->measured || spans_unmet(b->spans, why))
		return !b->measured;
	if (b->homeless)
		sbuf_addf(why, "all %llu are between events of no vCPU: `kvmft latency` has them",
			  (unsigned long long)b->homeless);
	else
		sbuf_addf(why, "no two of '%s' and '%s' follow each other in what is looked at",
			  b->o.spans.from, b->o.spans.to);
	return true;
}

/* Whether a guest's capture has events of that role. */
static bool guest_has(const struct blame *b, enum event_role role)
{
	for (size_t i = 0; i < tl_sources(b->t); i++)
		if (tl_source(b->t, i)->guest && event_format(tl_source(b->t, i)->fmt, role))
			return true;
	return false;
}

const char *blame_lacks(const struct blame *b, enum blame_what what)
{
	const struct lat *l = b->found ?: b->lat;

	if (b->alone && (what == BLAME_TIMER || what == BLAME_IRQ || what == BLAME_STALL))
		return "the host was not recorded: `kvmft record` on the host";
	switch (what) {
	case BLAME_TIMER: return lat_left_out(l, LAT_TIMER);
	case BLAME_IRQ: return lat_left_out(l, LAT_IRQ);
	case BLAME_IO: return lat_left_out(l, LAT_IO);
	case BLAME_HRTIMER:
		return guest_has(b, EV_HRTIMER_START) && guest_has(b, EV_HRTIMER_EXPIRE)
			       ? lat_left_out(l, LAT_TIMER)
			       : "needs a capture of the guest, with timer:hrtimer_start and "
				 "timer:hrtimer_expire_entry (`kvmft record` in the guest has them)";
	case BLAME_WAKEUP:
	case BLAME_READY:
		return guest_has(b, EV_SWITCH) && guest_has(b, EV_WAKEUP)
			       ? NULL
			       : "needs a capture of the guest, with sched:sched_switch and "
				 "sched:sched_wakeup (`kvmft record` in the guest has them)";
	case BLAME_TIMERLAT:
		return guest_has(b, EV_TIMERLAT) || guest_has(b, EV_TIMERLAT_ENTRY)
			       ? NULL
			       : "needs a capture of the guest, with osnoise:timerlat_sample while its "
				 "timerlat tracer runs (there: `kvmft record -e default -e 'osnoise:*'`)";
	case BLAME_NOISE:
		return guest_has(b, EV_NOISE_SAMPLE) || guest_has(b, EV_NOISE_THREAD) ||
				       guest_has(b, EV_NOISE_IRQ) || guest_has(b, EV_NOISE_SOFTIRQ)
			       ? NULL
			       : "needs a capture of the guest, with osnoise:* while its osnoise or "
				 "timerlat tracer runs (there: `kvmft record -e default -e 'osnoise:*'`)";
	default: return NULL;
	}
}

bool blame_saw_vcpu(const struct blame *b, int64_t vcpu)
{
	const struct lat *l = b->found ?: b->lat;
	struct lat_times t;

	for (size_t i = 0; i < lat_vcpus(l); i++) {
		lat_vcpu_times(l, i, &t);
		if (vcpu < 0 || t.vcpu == vcpu)
			return true;
	}
	return false;
}

const char *blame_note(const struct blame *b, size_t i)
{
	const struct lat *l = b->found ?: b->lat;
	const char *note = lat_note(l, i);

	return !note && b->remedy.len && (!i || lat_note(l, i - 1)) ? b->remedy.s : note;
}

void blame_free(struct blame *b)
{
	if (!b)
		return;
	lat_free(b->lat);
	lat_free(b->found);
	spans_free(b->spans);
	free(b->v);
	free(b->ranked);
	free(b->merged);
	free(b->part);
	free(b->middle);
	u64map_free(&b->wait_at);
	free(b->wait);
	u64map_free(&b->fault);
	u64map_free(&b->empty);
	u64map_free(&b->first);
	sbuf_free(&b->remedy);
	free(b->has);
	free(b->seen);
	u64map_free(&b->left_at);
	free(b->left);
	free(b->limited);
	free(b->guest_gen);
	free(b->guest_lost);
	free(b->kept);
	u64map_free(&b->halts);
	u64map_free(&b->vcpu_of);
	free(b->vcpu);
	u64map_free(&b->vcpu_at);
	free(b->cpu);
	free(b->order);
	free(b->active);
	free(b);
}
