/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto_machine.c: the host and its guests as machines of a Perfetto trace, each with CPUs,
 * tasks and clocks of its own. Field numbers are those of perfetto's protos/perfetto/trace:
 * trace_packet.proto, ps/process_tree.proto, remote_clock_sync.proto, generic_kernel, and of
 * protos/perfetto/common: system_info.proto, trace_attributes.proto.
 *
 * All stamps of a guest are on the host's time line, exactly. So what the trace calls BOOTTIME of a
 * guest is the host's, which a RemoteClockSync of equal readings states: nothing is left to
 * assumption. What the guest's own clocks read at some moments, such as its TSC at the beginning of
 * each epoch, is also there, in the table clock_snapshot.
 */
#include "perfetto.h"

#include <ctype.h>

#include "kvmft/hostmap.h"

enum {
	/* TracePacket */
	PROCESS_TREE = 2,
	SYSTEM_INFO = 45,
	MACHINE_ID = 98,
	CLOCK_SYNC = 107,
	TASK_RENAME = 120,
	ATTRIBUTES = 126,
	/* SystemInfo and Utsname */
	INFO_UTSNAME = 1,
	INFO_CPUS = 8,
	INFO_NAME = 17,
	UTS_SYSNAME = 1,
	UTS_RELEASE = 3,
	UTS_MACHINE = 4,
	/* ProcessTree and its Process and Thread */
	TREE_PROCESS = 1,
	TREE_THREAD = 2,
	PROCESS_PID = 1,
	PROCESS_CMDLINE = 3,
	PROCESS_IS_COMM = 9,
	THREAD_TID = 1,
	THREAD_NAME = 2,
	THREAD_TGID = 3,
	/* GenericKernelTaskRenameEvent */
	RENAME_TID = 1,
	RENAME_COMM = 2,
	/* RemoteClockSync and its SyncedClocks; ClockSnapshot and its Clock */
	SYNCED_CLOCKS = 1,
	SYNC_CLIENT = 2,
	SYNC_HOST = 3,
	SNAPSHOT_CLOCK = 1,
	CLOCK_ID = 1,
	CLOCK_TIME = 2,
	/* TraceAttributes and its Attribute */
	ATTRIBUTE = 1,
	ATTRIBUTE_KEY = 1,
	ATTRIBUTE_LONG = 2,
	ATTRIBUTE_STRING = 3,
};

enum { REALTIME = 1, MONOTONIC = 3, MONOTONIC_RAW = 5, BOOTTIME = 6, TSC = 9 }; /* BuiltinClock */

#define MS_NS 1000000

/* Begins a packet of that machine; ends with pb_end(m->to, mark). */
static size_t pf_packet(struct pf_machine *m)
{
	size_t mark = pb_begin(m->to, PF_PACKET);

	if (m->id)
		pb_u64(m->to, MACHINE_ID, m->id);
	return mark;
}

/* ---- who there is ---- */

void pf_machines_init(struct out *o, struct pf *p)
{
	const struct hostmap *map = tl_hostmap(o->t);
	size_t n = tl_sources(o->t);

	p->machine = xcalloc(n + 1, sizeof(*p->machine));
	p->of = xcalloc(n + 1, sizeof(struct pf_machine *));
	for (size_t i = 0; i < n; i++) {
		struct tl_source *s = tl_source(o->t, i);
		struct pf_machine *m = s->qemu ? p->machine : NULL;

		/* An earlier capture of the same guest. */
		for (size_t k = 0; s->guest && !s->alone && k < p->nmachine && !m; k++)
			if (p->machine[k].src->guest &&
			    map->vm[p->machine[k].src->vm].of == map->vm[s->vm].of)
				m = &p->machine[k];
		if (!m) {
			m = &p->machine[p->nmachine];
			*m = (struct pf_machine){ .id = (uint32_t)p->nmachine, .src = s,
						  .remote = p->nmachine, .to = &o->line };
			p->nmachine++;
		}
		p->of[i] = m;
	}
}

void pf_machines_free(struct pf *p)
{
	free(p->machine);
	free(p->of);
}

/* ---- tasks ---- */

static void put_process(struct sbuf *b, int32_t pid, const char *name)
{
	size_t mark = pb_begin(b, TREE_PROCESS);

	pb_s64(b, PROCESS_PID, pid);
	if (name) {
		pb_str(b, PROCESS_CMDLINE, name);
		pb_u64(b, PROCESS_IS_COMM, 1);
	}
	pb_end(b, mark);
}

static void pf_put_thread(struct sbuf *b, int32_t tid, int32_t tgid, const char *name)
{
	size_t mark = pb_begin(b, TREE_THREAD);

	pb_s64(b, THREAD_TID, tid);
	if (name)
		pb_str(b, THREAD_NAME, name);
	pb_s64(b, THREAD_TGID, tgid);
	pb_end(b, mark);
}

/* Names that are known from elsewhere than the events, and whose threads they are. */
static void put_tasks(struct out *o, struct pf_machine *m)
{
	const struct capture *cap = m->src->cap;
	size_t begin = m->to->len, packet = pf_packet(m), mark = pb_begin(m->to, PROCESS_TREE);
	bool empty;
	const struct hostmap *map = tl_hostmap(o->t);
	const struct hostmap_thread *th;

	/* VMMs and their vCPUs are known in every capture of a host. */
	for (size_t v = 0; !m->remote && !m->src->guest && v < map->nvm; v++) {
		const struct hostmap_vm *vm = &map->vm[v];

		if (vm->of != v || vm->pid <= 0)
			continue;
		put_process(m->to, vm->pid, vm->cap ? vm->cap->vmm : NULL);
		hostmap_each_thread(map, v, th) {
			char name[32];

			snprintf(name, sizeof(name), "vCPU %u", th->vcpu);
			if (th->tid > 0 && th->tid != vm->pid)
				pf_put_thread(m->to, th->tid, vm->pid, name);
		}
	}
	for (size_t i = 0; i < cap->ntask; i++) {
		const struct cap_task *t = &cap->task[i];

		if (t->tid > 0 && t->tgid == t->tid)
			put_process(m->to, t->tgid, t->comm);
		else if (t->tid > 0 && t->tgid > 0)
			pf_put_thread(m->to, t->tid, t->tgid, t->comm);
	}
	empty = m->to->len == mark;
	pb_end(m->to, mark);
	pb_end(m->to, packet);
	if (empty && !m->to->error)
		m->to->len = begin;
	for (size_t i = 0; i < cap->ntask; i++) {
		const struct cap_task *t = &cap->task[i];

		if (t->tid <= 0 || t->tgid > 0 || !t->comm)
			continue;
		packet = pf_packet(m);
		mark = pb_begin(m->to, TASK_RENAME);
		pb_s64(m->to, RENAME_TID, t->tid);
		pb_str(m->to, RENAME_COMM, t->comm);
		pb_end(m->to, mark);
		pb_end(m->to, packet);
	}
}

/* ---- clocks ---- */

struct reading {
	uint32_t clock;
	uint64_t value;
};

static void put_readings(struct sbuf *b, uint64_t boot, const struct reading *r, size_t n)
{
	size_t mark = pb_begin(b, SNAPSHOT_CLOCK);

	pb_u64(b, CLOCK_ID, BOOTTIME);
	pb_u64(b, CLOCK_TIME, boot);
	pb_end(b, mark);
	for (size_t i = 0; i < n; i++) {
		mark = pb_begin(b, SNAPSHOT_CLOCK);
		pb_u64(b, CLOCK_ID, r[i].clock);
		pb_u64(b, CLOCK_TIME, r[i].value);
		pb_end(b, mark);
	}
}

/*
 * What a guest's clocks read at a time of the trace, as a synchronisation. That takes two readings,
 * each with the delay on the way between; without one, it is 0.
 */
static void put_clocks(struct pf_machine *m, uint64_t t, const struct reading *r, size_t n)
{
	size_t packet, mark, one, inner;

	if (t < m->synced) /* readers do not use a clock any more that goes back */
		return;
	m->synced = t;
	packet = pf_packet(m);
	mark = pb_begin(m->to, CLOCK_SYNC);
	for (int k = 0; k < 2; k++) {
		one = pb_begin(m->to, SYNCED_CLOCKS);
		inner = pb_begin(m->to, SYNC_CLIENT);
		put_readings(m->to, t, r, k ? 0 : n);
		pb_end(m->to, inner);
		inner = pb_begin(m->to, SYNC_HOST);
		put_readings(m->to, t, NULL, 0);
		pb_end(m->to, inner);
		pb_end(m->to, one);
	}
	pb_end(m->to, mark);
	pb_end(m->to, packet);
}

/* The vCPU whose TSC stands for the machine's; NULL: nothing is known about it. */
static const struct epoch_vcpu *pf_clock_vcpu(const struct out *o, const struct pf_machine *m)
{
	const struct epoch_vm *vm;

	if (!m->src->guest || m->src->alone)
		return NULL;
	vm = tl_hostmap(o->t)->vm[m->src->vm].epochs;
	return vm && vm->n ? vm->vcpus[0] : NULL;
}

/* The place of `t` on the trace's time line. False: the output's clock shows nothing there. */
static bool trace_time(const struct out *o, const struct pf *p, uint64_t host, uint64_t *t)
{
	if (!out_clock_value(&o->clock, host, -1, t))
		return false;
	*t += p->add;
	return *t && *t <= INT64_MAX;
}

/* The guest's own readings of its clocks, at the first place before t where there are any. */
static void put_guest_readings(struct out *o, struct pf *p, struct pf_machine *m, uint64_t t)
{
	const struct capture *cap = m->src->cap;
	const struct clock_bracket *b = cap->bracket;
	struct reading r[4];
	uint64_t lo, hi, at;

	if (m->read || !cap->nbracket || !m->src->gtime)
		return;
	if (!epoch_result_usable(guest_time_tsc_to_host(m->src->gtime, pf_clock_vcpu(o, m),
							b->tsc + b->width / 2, &lo, &hi)) ||
	    !trace_time(o, p, lo, &at)) {
		m->read = true;
		return;
	}
	if (at > t)
		return;
	m->read = true;
	r[0] = (struct reading){ TSC, b->tsc + b->width / 2 };
	r[1] = (struct reading){ MONOTONIC, b->mono };
	r[2] = (struct reading){ MONOTONIC_RAW, b->mono_raw };
	r[3] = (struct reading){ REALTIME, b->real };
	put_clocks(m, at, r, ARRAY_SIZE(r));
}

void pf_machine_epoch(struct out *o, struct pf *p, const struct out_epoch *e)
{
	struct pf_machine *m = p->of[e->src->index];
	const struct epoch_vcpu *v = pf_clock_vcpu(o, m);
	uint64_t t;

	if (!m->remote || !v || v->id != e->vcpu || !e->e->has_map || e->first ||
	    !trace_time(o, p, e->host, &t))
		return;
	put_guest_readings(o, p, m, t);
	put_clocks(m, t, &(struct reading){ TSC, tsc_to_guest(&e->e->map, e->host) }, 1);
}

void pf_machines_end(struct out *o, struct pf *p)
{
	for (size_t i = 0; i < p->nmachine; i++)
		if (p->machine[i].remote)
			put_guest_readings(o, p, &p->machine[i], UINT64_MAX);
}

/* ---- attributes ---- */

static size_t pf_attribute(struct sbuf *b, const char *key)
{
	size_t mark = pb_begin(b, ATTRIBUTE);

	pb_str(b, ATTRIBUTE_KEY, key);
	return mark;
}

static void pf_put_number(struct sbuf *b, const char *key, int64_t v)
{
	size_t mark = pf_attribute(b, key);

	pb_s64(b, ATTRIBUTE_LONG, v);
	pb_end(b, mark);
}

void pf_machine_alignment(struct out *o, const struct out_alignment *a)
{
	struct pf_machine *m = ((struct pf *)o->priv)->of[a->src->index];
	size_t packet, mark, text;

	packet = pf_packet(m);
	mark = pb_begin(m->to, ATTRIBUTES);
	text = pf_attribute(m->to, "kvmft.alignment");
	pb_str(m->to, ATTRIBUTE_STRING, a->text);
	pb_end(m->to, text);
	pf_put_number(m->to, "kvmft.events_checked", (int64_t)a->checked);
	pf_put_number(m->to, "kvmft.events_outside", (int64_t)a->outside);
	if (a->bounded) { /* of the guest's stamps: how far they may be too late, too early */
		pf_put_number(m->to, "kvmft.slack_early_ns", a->early_ns);
		pf_put_number(m->to, "kvmft.slack_late_ns", a->late_ns);
	}
	pb_end(m->to, mark);
	pb_end(m->to, packet);
}

void pf_machines_head(struct out *o, struct pf *p)
{
	for (size_t i = 0; i < p->nmachine; i++) {
		struct pf_machine *m = &p->machine[i];
		const struct capture *cap = m->src->cap;
		size_t packet = pf_packet(m);
		size_t mark = pb_begin(m->to, SYSTEM_INFO);
		const char *release = cap->uname;
		size_t uts;

		/* "Linux 6.1.0 #1 SMP": the first word that begins with a digit is the release. */
		while (release && *release && !isdigit((unsigned char)*release)) {
			release += strcspn(release, " ");
			release += strspn(release, " ");
		}
		if (release && *release) {
			uts = pb_begin(m->to, INFO_UTSNAME);
			pb_str(m->to, UTS_SYSNAME, "Linux");
			pb_str_mem(m->to, UTS_RELEASE, release, strcspn(release, " "));
			if (cap->arch)
				pb_str(m->to, UTS_MACHINE, cap->arch);
			pb_end(m->to, uts);
		}
		if (cap->ncpu)
			pb_u64(m->to, INFO_CPUS, cap->ncpu);
		pb_str(m->to, INFO_NAME, m->src->label);
		pb_end(m->to, mark);
		pb_end(m->to, packet);
		put_tasks(o, m);
		if (m->remote) {
			uint64_t host = o->clock.base + (o->clock.khz ?: MS_NS);
			uint64_t t;
			uint64_t tsc = 0;
			const struct epoch_vcpu *v = pf_clock_vcpu(o, m);
			bool known;

			/* 1 ms after the begin: readers take a reading of 0 for none. */
			if (!trace_time(o, p, host, &t))
				t = p->add + MS_NS;
			known = v && epoch_result_usable(epoch_host_to_guest(v, host, &tsc)) &&
				!(tsc >> 63);
			put_clocks(m, t, &(struct reading){ TSC, tsc }, known);
		}
	}
}
