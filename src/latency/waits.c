/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * waits.c: what halts of vCPUs waited for: the source of the interrupt that was accepted first
 * since; or went in at their end, or was pending when they began.
 *
 * A device is a disk, or of the network, by what the thread that raised its interrupt had done
 * since it slept, or who woke it. One that does the one and never the other is that also where
 * nothing tells.
 */
#include "kvmft/exit_names.h"
#include "priv.h"

enum { DID_DISK = 1, DID_NET = 2 };
enum { FOR_DISK, FOR_NET, FOR_TIMER, FOR_VCPU, FOR_UNKNOWN, FOR_DEVICE };

#define VOTES_LEAST 5u
#define OF_CPU	    (1ull << 32) /* of interrupts */

const struct lat_desc lat_desc_wait = {
	.name = "wait",
	.kind = LAT_WAIT,
	.title = "halts of vCPUs, by what they waited for",
	.key = "Waited for",
	.stage = { "total" },
	.stage_help = { "from the exit, for HLT, to the next entry" },
	.cause = (const char *const[LAT_CAUSES]){ "" },
	.count = { "waits", "interrupt: for an interrupt whose device is not known",
		   "unknown: for nothing that was recorded", "cut: cut by lost events",
		   "open: open at the end" },
};

static uint64_t *did_of(struct lat *l, const struct lat_in *in)
{
	bool thread = in->i->tid > 0 && !lat_in_interrupt(in);

	return xu64map_at(&l->did, thread ? (uint32_t)in->i->tid : OF_CPU | in->i->cpu);
}

uint8_t lat_wait_did(struct lat *l, const struct lat_in *in)
{
	return l->o.want[LAT_WAIT] ? (uint8_t)*did_of(l, in) : 0;
}

struct lat_device *lat_wait_device(struct lat *l, const struct lat_vcpu *v,
				   const struct irq_chain *c)
{
	uint64_t key = (uint64_t)v->vm << 42 ^ (uint64_t)v->id << 10 ^ c->vector;

	return xu64map_elem(&l->device_at, key, &l->device, &l->device_cap, sizeof(*l->device));
}

void lat_wait_accept(struct lat *l, const struct lat_vcpu *v, const struct irq_chain *c)
{
	struct lat_device *d = lat_wait_device(l, v, c);

	d->n++;
	d->disk += c->did == DID_DISK;
	d->net += c->did == DID_NET;
}

static unsigned int waited_for(const struct lat *l, const struct lat_vcpu *v,
			       const struct irq_chain *c, const struct lat_device *d)
{
	if (v->kicked && (!c || v->kicked < c->t_accept))
		return FOR_VCPU;
	if (!c)
		return FOR_UNKNOWN;
	switch (c->source) {
	case SRC_IPI: return FOR_VCPU;
	case SRC_STIMER: return FOR_TIMER;
	case SRC_SYNIC: return FOR_DEVICE;
	case SRC_UNKNOWN:
		return l->recorded & EVID_RAISE && l->irqs->is_timer(c->vector) ? FOR_TIMER
										: FOR_DEVICE;
	default: break;
	}
	if (d->net <= d->n / 10 &&
	    (c->did == DID_DISK || (d->n >= VOTES_LEAST && d->disk >= d->n - d->n / 3)))
		return FOR_DISK;
	if (d->disk <= d->n / 10 &&
	    (c->did == DID_NET || (d->n >= VOTES_LEAST && d->net >= d->n - d->n / 3)))
		return FOR_NET;
	return FOR_DEVICE;
}

void lat_waits_ran(struct lat *l, size_t vm, uint32_t vcpu, uint64_t id, const char *who)
{
	struct lat_wait *w = &lat_vcpu_get(l, vm, vcpu)->wait;
	struct lat_case k = { .begin = w->begin, .end = w->end, .vm = (int64_t)vm, .vcpu = vcpu,
			      .time = lat_span(l, w->end - w->begin) };
	struct lat_group *g;

	if (!w->end)
		return;
	g = lat_group_get(l, LAT_T_WAIT, k.vm, w->key ^ id << 32, &k.group);
	snprintf(g->name, sizeof(g->name), "%.20s%s%.40s", who, who[0] ? ": " : "", w->name);
	g->rest = w->key == FOR_UNKNOWN;
	snprintf(k.what, sizeof(k.what), "vCPU %u for %s", vcpu, g->name);
	lat_case_add(l, LAT_T_WAIT, g, &k);
	w->end = 0;
}

static void wait_over(struct lat *l, struct lat_vcpu *v, uint64_t t)
{
	static const char *const names[] = { "disk", "net", "timer", "another vCPU", "unknown" };
	static const char *const from[] = { "", " (MSI)", " (line)", "", " (irqfd)", " (SynIC)", "" };
	const struct irq_chain *c, *found = NULL, *in = NULL, *pending = NULL;
	const struct lat_device *d;
	unsigned int what;
	struct lat_wait *w = &v->wait;
	char who[24] = "";

	for (int i = lat_chain_next(v, -1); i >= 0; i = lat_chain_next(v, i)) {
		c = &v->chain[i];
		if (c->t_accept > v->halt && (!found || c->t_accept < found->t_accept))
			found = c;
		if (c->injected && c->t_inject > v->halt)
			in = c;
		else if (!c->entered && (!pending || c->t_accept < pending->t_accept))
			pending = c;
	}
	/* Where none is seen to go in, those of before still look as if they were pending. */
	c = l->recorded & (EVID_INJECT | EVID_TAKES) ? found ?: in ?: pending : NULL;
	d = c ? lat_wait_device(l, v, c) : NULL;
	what = waited_for(l, v, c, d);
	if (!lat_wanted(l, (int64_t)v->vm, v->id))
		return;
	lat_waits_ran(l, v->vm, v->id, 0, LAT_NOT_SEEN);
	lat_count(l, v, LAT_T_WAIT, HALT_ALL);
	*w = (struct lat_wait){ .begin = v->halt, .end = t, .key = what };
	if (what != FOR_DEVICE) {
		lat_count_add(l, v->vm, v->id, LAT_T_WAIT, HALT_UNKNOWN, what == FOR_UNKNOWN);
		snprintf(w->name, sizeof(w->name), "%s", names[what]);
	} else if (d->name[0]) {
		w->key |= hash_bytes(&l->group_key, d->name, strlen(d->name)) << 4;
		snprintf(w->name, sizeof(w->name), "%s%s", d->name, from[c->source]);
	} else {
		lat_count(l, v, LAT_T_WAIT, HALT_DEVICE);
		w->key |= (uint64_t)c->vector << 4 | (uint64_t)v->id << 14;
		snprintf(w->name, sizeof(w->name), "interrupt %u%s of vCPU %u", c->vector,
			 from[c->source], v->id);
	}
	if (l->o.waits_by == WAITS_BY_VCPU)
		snprintf(who, sizeof(who), "vCPU %u", v->id);
	if (l->o.waits_by != WAITS_BY_PROCESS)
		lat_waits_ran(l, v->vm, v->id, who[0] ? v->id + 1ull : 0, who);
}

void lat_wait_host(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	uint64_t did;

	/* What interrupts of a CPU did is over when something else runs there. */
	if (!lat_in_interrupt(in))
		*xu64map_at(&l->did, OF_CPU | in->i->cpu) = 0;
	did = *did_of(l, in);
	switch (in->kind) {
	case EV_RQ_COMPLETE: *did_of(l, in) = did | DID_DISK; break;
	case EV_NET_START:
	case EV_NET_RECEIVE:
	case EV_SKB_COPY: *did_of(l, in) = did | DID_NET; break;
	case EV_WAKING: *xu64map_at(&l->did, (uint32_t)in->f[0]) |= did; break;
	case EV_SWITCH: *did_of(l, in) = event_task_sleeps(in->f[1]) ? 0 : did; break;
	case EV_ENTRY:
	case EV_NESTED_EXIT:
	case EV_EXIT:
		if (!v)
			break;
		if (in->kind == EV_ENTRY && v->halt)
			wait_over(l, v, in->t);
		v->kicked = v->halt = 0;
		if (in->kind == EV_EXIT && (in->f[3] & ~LAT_EXIT_LOG_FULL) == EXIT_KIND_HALT)
			v->halt = in->t;
		break;
	default: break;
	}
}
