/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wait.c: spikes that no latency analysis measures: tasks of the guest that wait for a CPU, vCPUs
 * that stand still, and times between two events.
 */
#include "priv.h"
#include "kvmft/util.h"

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

void blame_wait_span(struct blame *b, const struct tl_item *i)
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
static void measured(struct blame *b, enum event_role r, const struct tl_item *i)
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

void blame_wait_guest(struct blame *b, enum event_role r, const struct tl_item *i)
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
	case EV_NOISE_NMI: measured(b, r, i); break;
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

static void kicked(struct blame *b, const struct tl_item *i)
{
	int64_t target;
	uint64_t at;

	if (i->vm >= 0 && blame_kick(i, &target) &&
	    u64map_get(&b->left_at, (uint64_t)i->vm << 32 | (uint32_t)target, &at))
		b->left[at].kicked = true; /* even if forgotten: its next exit clears it */
}

/* A vCPU that was left for anything but idling, and is entered again. */
void blame_wait_host(struct blame *b, enum event_role r, const struct tl_item *i)
{
	struct blame_found f = { .what = BLAME_STALL, .vm = i->vm, .vcpu = i->vcpu };
	const struct hostmap_thread *th;
	struct blame_left *l, left;
	struct blame_spike *s;
	struct exit_why why;
	uint64_t at;

	switch (r) {
	case EV_ACCEPT: kicked(b, i); return;
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
void blame_wait_forget(struct blame *b, const struct tl_item *gap)
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
