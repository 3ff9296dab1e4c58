/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mem_table.c: stalls for memory by kind, and by vCPU, guest task, address, host thread and time.
 */
#include "mem.h"

#include <strings.h>

/*
 * What the move of a VM to another VMM, here or on another host, cost its vCPUs: the
 * rounds in which their writes were logged, the time in which they ran nowhere, and the stalls for
 * memory that they had afterwards.
 *
 * A round begins when a page is write-protected that was in this round already: the VMM asks what
 * was written once a round, and protects what it is told.
 *
 * A VM has come from another one that has its UUID, or its name, if its TSC goes on from where the
 * other's was, which that of a VM that was started anew does not.
 */

#define SEEN_MAX   (1u << 20) /* words of 64 pages, of a round */
#define ROUNDS_MAX 40u	      /* later ones are one row */

static const char *mem_kind_name(enum mem_kind kind);

enum row { ROW_ROUND, ROW_BLACKOUT, ROW_GUEST, ROW_AFTER };

static struct lat_group *row(struct lat *l, int64_t vm, enum row kind, uint32_t n, uint32_t *at)
{
	return lat_group_get(l, LAT_T_MEM_MOVE, vm, (uint64_t)kind << 32 | n, at);
}

/* ---- rounds ---- */

/* word: NULL if there is no room for it. */
static void mem_find_word(struct mem_move *m, uint64_t at)
{
	if (m->word && m->at == at)
		return;
	m->word = NULL;
	if (m->seen.n >= SEEN_MAX && !u64map_get(&m->seen, at, NULL))
		return;
	m->word = xu64map_at(&m->seen, at);
	m->at = at;
}

void mem_move_protected(struct lat *l, int64_t vm, uint64_t gfn)
{
	struct mem_move *m = &l->mem->move[vm];
	uint64_t bit = 1ull << (gfn & 63);

	mem_find_word(m, gfn >> 6);
	if (m->word && (!m->round || *m->word & bit)) {
		m->round++;
		u64map_free(&m->seen);
		m->word = NULL;
		mem_find_word(m, gfn >> 6);
	}
	if (m->word)
		*m->word |= bit;
}

/* ---- a vCPU that comes ---- */

static bool same_guest(const struct lat *l, size_t a, size_t b)
{
	const struct cap_vm *x = l->map->vm[a].cap, *y = l->map->vm[b].cap;

	if (!x || !y)
		return false;
	if (x->uuid && y->uuid)
		return !strcasecmp(x->uuid, y->uuid);
	return x->name && y->name && !strcmp(x->name, y->name);
}

static bool tsc_of(const struct lat *l, const struct lat_vcpu *v, uint64_t host, uint64_t *tsc)
{
	return epoch_result_usable(epoch_host_to_guest(
		epoch_vm_find(l->map->vm[v->vm].epochs, v->id), host, tsc));
}

/* The vCPU that it was before the move; NULL: it did not move. */
static const struct lat_vcpu *came_from(const struct lat *l, const struct lat_vcpu *v,
					const struct lat_in *in)
{
	const struct lat_vcpu *last = NULL;
	uint64_t before, now;

	if (v->host && v->host != in->i->src)
		return v->exit && v->base != VS_GUEST ? v : NULL;
	for (size_t vm = 0; vm < l->map->nvm && l->map->vm[v->vm].cap && !v->entries; vm++) {
		const struct lat_vcpu *a;

		if (vm == v->vm || !same_guest(l, vm, v->vm) ||
		    !u64map_get(&l->vcpu_at, (uint64_t)vm << 32 | v->id, &before))
			continue;
		a = l->vcpu[before];
		if (a->exit && a->base != VS_GUEST && a->base != VS_UNKNOWN &&
		    (!last || a->exit > last->exit))
			last = a;
	}
	if (!last || !tsc_of(l, last, last->exit, &before) || !tsc_of(l, v, in->t, &now))
		return NULL;
	return (int64_t)(now - before) >= 0 ? last : NULL;
}

/* A host's CLOCK_REALTIME at a TSC value, by the nearest reading. */
static bool day_of(const struct tl_source *s, uint64_t tsc, int64_t *ns)
{
	const struct capture *cap = s->cap;
	uint64_t best = UINT64_MAX;

	for (size_t i = 0; i < cap->nbracket && cap->tsc_khz; i++) {
		const struct clock_bracket *b = &cap->bracket[i];
		uint64_t off = tsc > b->tsc ? tsc - b->tsc : b->tsc - tsc;
		__int128 span = (__int128)off * 1000000 / cap->tsc_khz;

		if (off >= best || !b->real)
			continue;
		best = off;
		*ns = (int64_t)(b->real + (tsc > b->tsc ? span : -span));
	}
	return best != UINT64_MAX;
}

/* How long it ran nowhere, by CLOCK_REALTIME of both hosts. */
static bool by_day(const struct lat_vcpu *from, const struct lat_in *in, uint64_t *ns)
{
	uint64_t left = from->exit, came = in->t;
	const struct tl_source *a = from->host, *b = in->i->src;
	int64_t x, y;

	if ((a->link && !migrate_from_line(a->link, left, &left)) ||
	    (b->link && !migrate_from_line(b->link, came, &came)) || !day_of(a, left, &x) ||
	    !day_of(b, came, &y) || y < x)
		return false;
	*ns = (uint64_t)(y - x);
	return true;
}

static void blackout(struct lat *l, const struct lat_vcpu *v, enum row kind, struct lat_case *c)
{
	struct lat_group *g = row(l, c->vm, kind, v->id, &c->group);

	snprintf(g->name, sizeof(g->name), "%s, vCPU %u",
		 kind == ROW_GUEST ? "of it in its TSC" : "blackout", v->id);
	snprintf(c->what, sizeof(c->what), "%s", g->name);
	l->table[LAT_T_MEM_MOVE].count[0]++;
	lat_case_add(l, LAT_T_MEM_MOVE, g, c);
}

/* Before the entry is taken for one. */
void mem_move_entry(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	const struct lat_vcpu *from = l->o.mem_by >> MEM_BY_move & 1 ? came_from(l, v, in) : NULL;
	struct lat_case c = { .vm = (int64_t)v->vm, .vcpu = v->id, .end = in->t };
	bool other_host = v->host && v->host != in->i->src;
	uint64_t ns;

	if (!from || !lat_wanted(l, c.vm, v->id))
		return;
	l->mem->move[v->vm].arrived = true;
	c.begin = MIN(from->exit, in->t);
	c.time = lat_span(l, in->t - c.begin);
	/* The guest's TSC shows only what it was set to on the other side. */
	if (!other_host || !by_day(from, in, &ns)) {
		blackout(l, v, other_host ? ROW_GUEST : ROW_BLACKOUT, &c);
		return;
	}
	blackout(l, v, ROW_GUEST, &c);
	c.time = l->khz ? ns : c.time;
	blackout(l, v, ROW_BLACKOUT, &c);
}

/* ---- stalls ---- */

static struct lat_group *row_of(struct lat *l, const struct lat_case *c, uint32_t *at)
{
	enum mem_kind kind = (enum mem_kind)c->kind;
	const struct mem_move *m = &l->mem->move[c->vm];
	struct lat_group *g = NULL;

	if (kind == MEM_DIRTY && m->round) {
		g = row(l, c->vm, ROW_ROUND, MIN(m->round, ROUNDS_MAX), at);
		snprintf(g->name, sizeof(g->name), "round %u%s", MIN(m->round, ROUNDS_MAX),
			 m->round < ROUNDS_MAX ? "" : " and later");
	} else if (m->arrived) {
		g = row(l, c->vm, ROW_AFTER, (uint32_t)kind, at);
		snprintf(g->name, sizeof(g->name), "then %s", mem_kind_name(kind));
	}
	return g;
}

void mem_move_free(struct lat *l)
{
	for (size_t i = 0; l->mem->move && i < l->map->nvm; i++)
		u64map_free(&l->mem->move[i].seen);
	free(l->mem->move);
}

enum { ST_TOTAL, ST_KVM, ST_ASLEEP, ST_OFFCPU, ST_VMM, ST_AGAIN, ST_TOLD };

const struct lat_desc lat_desc_mem = {
	.name = "mem",
	.kind = LAT_MEM,
	.title = "vCPUs that waited for memory, by why",
	.key = "Kind",
	.stage = { "total", "kernel", "asleep", "off-cpu", "vmm", "again", "told" },
	.stage_help = { "from the exit to the entry", "KVM and the host's memory management ran",
			"the vCPU's thread slept in the kernel, or in the VMM",
			"it wanted a CPU and had none", "in the VMM",
			"in the guest, until it faulted for the same page again",
			"of pages that others fetch meanwhile, no part of the total: from when the guest "
			"was told that one is not there to when it is" },
	.parts = 1u << ST_KVM | 1u << ST_ASLEEP | 1u << ST_OFFCPU | 1u << ST_VMM | 1u << ST_AGAIN,
	.cause = (const char *const[LAT_CAUSES]){ "" },
	.count = { "stalls", "measured", "unknown: of unknown cause", "cut: cut by lost events",
		   "open: open at the end", "device: accesses to devices, no stalls",
		   "forgotten: pages taken, forgotten for lack of room",
		   "told: async page faults that the guest was told of",
		   "told_alone: ... and of which the beginning or the end was not seen" },
};

/* By enum mem_kind: why, and the causes of the same stalls in other tables. */
static const char *const mem_kinds[LAT_CAUSES] = {
	"unknown", "touch: first touch", "map: mapped first", "split: huge page split",
	"collapse: huge page collapse", "copy_on_write: copy-on-write", "dirty_log: dirty log",
	"access_log: access log", "userfaultfd", "swap_in: swap-in", "file: file read",
	"compaction", "reclaim", "migration: page migration", "refault_vmm: refault, VMM",
	"refault_host: refault, host", "mapped_already: mapped already", "nx: NX huge page",
	"writeback", "fetched: fetched meanwhile",
};
static const char *const no_kind[LAT_CAUSES] = { "" };

/* The stalls of LAT_T_MEM once more. */
#define BY(id_, name_, title_, key_, kinds_)                                               \
	const struct lat_desc lat_desc_mem_##id_ = {                                       \
		.name = name_, .kind = LAT_MEM, .title = title_, .key = key_,              \
		.stage = { "total" },                                                      \
		.stage_help = { "from the exit to the entry" },                            \
		.cause = kinds_,                                                           \
		.count = { "stalls" },                                                     \
		.in_order = MEM_BY_##id_ >= MEM_BY_time,                                   \
	}
BY(vcpu, "mem-vcpu", "the same by vCPU", "vCPU", mem_kinds);
BY(task, "mem-task", "the same by the guest's task", "Guest task", mem_kinds);
BY(gpa, "mem-gpa", "the same by address of the guest", "Guest addresses", mem_kinds);
BY(thread, "mem-thread", "which host thread had taken the page, or was waited for", "Host thread",
   mem_kinds);
BY(time, "mem-time", "the same by time", "From", mem_kinds);
BY(move, "mem-move", "rounds of the dirty log; of VMs that moved, blackout and then", "What",
   no_kind);

static const char *mem_kind_name(enum mem_kind kind)
{
	return kind == MEM_UNKNOWN ? "(unknown)" : lat_word_text(mem_kinds[kind]);
}

const char *lat_mem_kind(uint32_t kind)
{
	return kind != MEM_UNKNOWN && kind < MEM_KINDS ? mem_kind_name(kind) : NULL;
}

const char *const lat_mem_by_names[] = { "vcpu", "task", "gpa", "thread", "time", "move", NULL };

_Static_assert(MEM_KINDS <= LAT_CAUSES, "kinds are causes");
_Static_assert(LAT_T_MEM_MOVE - LAT_T_MEM_VCPU == MEM_BY_move, "order of tables");

/* Once more, in another table: its total only, and not among the worst. */
static void mem_add(struct lat *l, enum lat_table_id id, struct lat_group *g,
		    const struct lat_case *c)
{
	l->table[id].count[0]++;
	g->cause[c->kind]++;
	g->cause_time[c->kind] += c->time;
	if (!g->end || c->time > g->longest) {
		g->longest = c->time;
		g->begin = c->begin;
		g->end = c->end;
	}
	lat_stage_add(g, ST_TOTAL, c->time);
}

/* 1, 2 or 5 times a power of ten, so that there are 10 to 25 of them. */
static uint64_t slice_of(const struct lat *l)
{
	uint64_t whole = l->stop == UINT64_MAX || l->stop <= l->begin ?
				 0 :
				 lat_span(l, l->stop - l->begin),
		 s = 1;

	if (!whole)
		return l->khz ? 1000000000u : 1ull << 32;
	for (unsigned int i = 0; whole / s > 25; i++)
		s = i % 3 == 1 ? s / 2 * 5 : s * 2;
	return s;
}

static void stalls_others(struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s,
			  const struct lat_case *c)
{
	uint32_t by = l->o.mem_by, at;
	struct lat_case k = *c;
	struct lat_group *g;

	if (by >> MEM_BY_vcpu & 1)
		mem_add(l, LAT_T_MEM_VCPU,
			lat_group_named(l, LAT_T_MEM_VCPU, c->vm, (uint64_t)c->vcpu, &at,
					"%" PRId64, c->vcpu),
			c);
	if (by >> MEM_BY_task & 1)
		mem_add(l, LAT_T_MEM_TASK, lat_hit_group(l, LAT_T_MEM_TASK, v, c->begin, &k), c);
	if (by >> MEM_BY_gpa & 1) {
		uint64_t grain = l->o.grain ?: LAT_GRAIN, n = s->addr / grain;
		bool known = s->tdp && s->has_addr;

		g = lat_group_named(l, LAT_T_MEM_GPA, c->vm, known ? n : UINT64_MAX >> 11, &at,
				    known ? "0x%" PRIx64 "-0x%" PRIx64 : "(not known)", n * grain,
				    n * grain + grain - 1);
		g->rest = !known;
		mem_add(l, LAT_T_MEM_GPA, g, c);
	}
	if (by >> MEM_BY_thread & 1) {
		/* Who took the page; or who woke the vCPU, if it slept. */
		bool taken = s->was_taken && s->by.vm >= 0;
		int32_t tid = s->filler ?: taken ? s->by.tid : s->waker;

		if (s->filler || taken || (s->slept && s->waker > 0))
			mem_add(l, LAT_T_MEM_THREAD,
				lat_group_named(l, LAT_T_MEM_THREAD, -1,
						(uint64_t)v->host->index << 32 | (uint32_t)tid, &at,
						"%.15s-%d", tl_comm(v->host, tid), tid),
				c);
	}
	if (by >> MEM_BY_time & 1) {
		uint64_t n, from;

		l->mem->slice = l->mem->slice ?: slice_of(l);
		n = lat_span(l, c->end - l->begin) / l->mem->slice;
		from = n * l->mem->slice;
		mem_add(l, LAT_T_MEM_TIME,
			lat_group_named(l, LAT_T_MEM_TIME, c->vm, n, &at,
					l->khz ? "%" PRIu64 ".%06" PRIu64 " s" : "%" PRIu64,
					l->khz ? from / 1000000000u : from,
					from % 1000000000u / 1000),
			c);
	}
	g = by >> MEM_BY_move & 1 ? row_of(l, c, &at) : NULL;
	if (g)
		mem_add(l, LAT_T_MEM_MOVE, g, c);
}

void mem_spent(const struct lat_vcpu *v, struct mem_stall *s)
{
	uint64_t at[VS_STATES];

	lat_times_at(v, s->end, at);
	for (unsigned int i = 0; i < VS_STATES; i++)
		s->spent[i] = at[i] - s->base[i];
	s->slept = lat_slept(v, s->end) - s->base_slept;
	s->waker = v->waker;
}

void mem_measured(struct lat *l, const struct lat_vcpu *v, const struct mem_stall *s)
{
	enum mem_kind kind = mem_kind(l, v, s);
	struct lat_case c = {
		.begin = s->begin, .end = s->end, .vm = (int64_t)v->vm, .vcpu = v->id,
		.time = lat_span(l, s->end - s->begin), .kind = kind,
	};
	struct lat_group *g = lat_group_named(l, LAT_T_MEM, c.vm, kind, &c.group, "%s",
					      mem_kind_name(kind));
	uint64_t user, more, kernel;

	lat_count(l, v, LAT_T_MEM, MEM_MEASURED);
	if (kind == MEM_UNKNOWN)
		lat_count(l, v, LAT_T_MEM, MEM_NOT_TOLD);
	g->rest = kind == MEM_UNKNOWN;
	/* Sleep counts as what the thread did before. */
	user = s->spent[VS_USER] - MIN(s->spent[VS_USER], s->slept);
	more = s->slept - MIN(s->slept, s->spent[VS_USER]);
	kernel = s->spent[VS_KERNEL] + s->spent[VS_HALTED];
	lat_stage(&c, ST_KVM, lat_span(l, kernel - MIN(kernel, more)));
	lat_stage(&c, ST_ASLEEP, lat_span(l, s->slept));
	lat_stage(&c, ST_OFFCPU, lat_span(l, s->spent[VS_WAITING] + s->spent[VS_PREEMPTED]));
	if (s->spent[VS_USER])
		lat_stage(&c, ST_VMM, lat_span(l, user));
	if (s->again)
		lat_stage(&c, ST_AGAIN, lat_span(l, s->spent[VS_GUEST]));
	if (!lat_case_told(l, LAT_T_MEM, c.time))
		c.what[0] = '\0';
	else if (s->has_addr)
		snprintf(c.what, sizeof(c.what), "%s, 0x%" PRIx64 " of vCPU %u",
			 mem_kind_name(kind), s->addr, v->id);
	else
		snprintf(c.what, sizeof(c.what), "%s, vCPU %u", mem_kind_name(kind), v->id);
	lat_case_add(l, LAT_T_MEM, g, &c);
	stalls_others(l, v, s, &c);
}

void mem_told(struct lat *l, const struct lat_vcpu *v, const struct lat_in *in)
{
	uint64_t key = (uint64_t)v->vm << 32 | (uint32_t)in->f[0], since;
	bool ready = in->kind == EV_ASYNC_READY, full = l->mem->told.n == SEEN_MAX;
	bool begun = u64map_take(&l->mem->told, key, &since);
	bool told = ready && begun && since >= l->mem->told_from;
	struct lat_group *g;
	uint32_t at;

	if (!ready && !full)
		xu64map_put(&l->mem->told, key, in->t);
	if (ready || begun || full)
		lat_count(l, v, LAT_T_MEM, told ? MEM_TOLD : MEM_TOLD_ALONE);
	if (!told || !lat_wanted(l, (int64_t)v->vm, v->id))
		return;
	g = lat_group_named(l, LAT_T_MEM, (int64_t)v->vm, MEM_ASYNC, &at, "%s",
			    mem_kind_name(MEM_ASYNC));
	lat_stage_add(g, ST_TOLD, lat_span(l, in->t - since));
}

void lat_mem_notes(struct lat *l)
{
	const struct lat_mem *m = l->mem;

	if (!m->has[EV_MMIO])
		lat_note_add(l, "the host capture has no kvm:kvm_mmio: accesses to devices "
				"count as stalls for memory; it is in kvmft record's default "
				"events");
	if (!m->has[EV_SPTE] || !m->has[EV_PAGE_ALLOC] || !m->has[EV_UNMAP])
		lat_note_add(l, "the host capture lacks events that tell why memory had to be "
				"waited for: record them with `kvmft record -e default -e mem`");
}
