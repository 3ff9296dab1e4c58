/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * database.c: captures as an SQLite database: its tables, and who and what the captures are about.
 * The tables of events are in database_events.c, conclusions below.
 */
#include "database.h"
#include "kvmft/guest_time.h"

#include <strings.h>

/* ---- what was concluded from events: windows, chains, spikes, exits ---- */

int db_window(void *db, const struct win_vcpu *v, uint64_t exit)
{
	struct db *d = db;

	if (db_vm_of(d, (int64_t)v->vm) != (int64_t)v->vm) /* a second capture of the same guest */
		return 0;
	db_put_vcpu(d, (int64_t)v->vm, v->vcpu);
	db_put_stamp(d, v->entry, (int64_t)v->vm, v->vcpu);
	db_put_stamp(d, exit, (int64_t)v->vm, v->vcpu);
	sq_s64(d->sq, (int64_t)v->in);
	return db_add(d, DB_WINDOWS);
}

void db_latency(struct db *d, const struct lat *l)
{
	d->lat = l;
}

/* A group's number in the walk. */
static int64_t chain_type(enum lat_table_id id, uint32_t group)
{
	return (int64_t)id << 32 | group;
}

/* After the walk: the names of the types of chains, which become better until then. */
static int db_chain_types(struct db *d)
{
	int ret = 0;

	for (unsigned int id = 0; d->lat && id < LAT_TABLES && !ret; id++) {
		const struct lat_table *t = lat_table(d->lat, (enum lat_table_id)id);
		_cleanup_free_ const char **name = calloc(t->ngroup + 1, sizeof(*name));

		if (!name)
			return -ENOMEM;
		for (size_t i = 0; i < t->ngroup; i++)
			name[t->group[i].order] = t->group[i].name;
		for (size_t i = 0; i < t->ngroup && !ret; i++) {
			sq_null(d->sq);
			sq_str(d->sq, name[i]);
			ret = sq_add(d->sq, d->table[DB_CHAIN_TYPES],
				     chain_type((enum lat_table_id)id, (uint32_t)i));
		}
	}
	return ret;
}

int db_case(void *db, enum lat_table_id id, const struct lat_case *c)
{
	struct db *d = db;
	const struct lat_table *t = lat_table(d->lat, id);
	int64_t chain = (int64_t)sq_rows(d->table[DB_CHAINS]) + 1;
	int ret;

	sq_null(d->sq);
	sq_str(d->sq, t->desc->name);
	db_put_vcpu(d, c->vm, c->vcpu);
	sq_known(d->sq, c->group < t->ngroup, chain_type(id, c->group));
	sq_str(d->sq, c->what);
	db_put_stamp(d, c->begin, c->vm, c->vcpu);
	db_put_stamp(d, c->end, c->vm, c->vcpu);
	sq_s64(d->sq, (int64_t)c->time);
	sq_str(d->sq, t->desc->cause[c->cause]);
	ret = db_add(d, DB_CHAINS);
	for (unsigned int s = 1; s < LAT_STAGES && !ret; s++) {
		if (!(c->known >> s & 1))
			continue;
		sq_s64(d->sq, chain);
		sq_str(d->sq, t->desc->stage[s]);
		sq_s64(d->sq, (int64_t)c->stage_time[s]);
		ret = db_add(d, DB_STAGES);
	}
	return ret;
}

static int put_spike(struct db *d, const struct blame_spike *s)
{
	int64_t spike = (int64_t)sq_rows(d->table[DB_SPIKES]) + 1;
	int ret;

	sq_null(d->sq);
	db_put_vcpu(d, s->vm, s->vcpu);
	sq_str(d->sq, blame_whats[s->what].name);
	sq_str(d->sq, s->of);
	db_put_stamp(d, s->begin, s->vm, s->vcpu);
	db_put_stamp(d, s->end, s->vm, s->vcpu);
	db_put_cycles(d, s->end - s->begin);
	sq_str(d->sq, blame_causes[s->cause].name);
	db_put_cycles(d, s->cause_time);
	sq_s64(d->sq, s->sure);
	ret = db_add(d, DB_SPIKES);
	for (size_t i = 0; i < s->nparts && !ret; i++) {
		sq_s64(d->sq, spike);
		sq_str(d->sq, blame_causes[s->part[i].cause].name);
		sq_str(d->sq, s->part[i].name);
		db_put_cycles(d, s->part[i].time);
		ret = db_add(d, DB_PARTS);
	}
	return ret;
}

int db_spikes(struct db *d, const struct blame *b)
{
	int ret = 0;

	for (size_t i = 0; i < blame_spikes(b) && !ret; i++)
		ret = put_spike(d, blame_spike(b, i));
	return ret;
}

void db_span(struct db *d, uint64_t from, uint64_t to)
{
	d->from = from;
	d->to = to;
}

/* A stamp of the host's trace, on the time line. */
static bool host_tsc(const struct db *d, uint64_t ts, uint64_t *host)
{
	const struct hostmap *m = tl_hostmap(d->t);
	uint64_t width;

	*host = ts;
	return !m->own || own_tsc_place(m->own, ts, host, &width);
}

int db_sample(void *db, const struct report *r, const struct report_sample *s)
{
	struct db *d = db;
	const struct hostmap_thread *th = hostmap_thread(tl_hostmap(d->t), s->tid);
	int64_t vm = th && th->vm != HOSTMAP_END ? (int64_t)th->vm : -1;
	int64_t vcpu = s->vcpu < 0 && th ? (int64_t)th->vcpu : s->vcpu;
	char name[REPORT_NAME];
	uint64_t from = 0, to = 0;
	bool known = host_tsc(d, s->from, &from), ended = s->timed && host_tsc(d, s->to, &to);

	/* As `kvmft report --from --to` counts: an exit whose entry came later is in neither. */
	if (!known || from < d->from || (ended ? to : from) > d->to)
		return 0;
	db_put_vcpu(d, vm, vcpu);
	sq_s64(d->sq, s->tid);
	report_key_name(r, s->key, name);
	sq_str(d->sq, name);
	db_put_stamp(d, from, vm, vcpu);
	if (ended)
		db_put_stamp(d, to, vm, vcpu);
	else
		sq_null(d->sq);
	sq_known(d->sq, s->timed, (int64_t)report_ns(r, s->timed ? s->to - s->from : 0));
	for (size_t k = 0; k < REPORT_PARTS; k++)
		sq_known(d->sq, s->timed && !report_lacks(r, s->key, (enum report_part)k),
			 (int64_t)report_ns(r, s->part[k]));
	return db_add(d, DB_EXITS);
}

#define DB_VERSION 1

static const struct {
	const char *name, *columns;
} tables[DB_TABLES] = {
	[DB_INFO] = { "info", "name TEXT, value" },
	[DB_NOTES] = { "notes", "text TEXT" },
	[DB_SOURCES] = { "sources",
			 "source INTEGER PRIMARY KEY, side TEXT, name TEXT, path TEXT, "
			 "kernel TEXT, trace_clock TEXT, complete INTEGER, produced INTEGER, "
			 "stored INTEGER, lost INTEGER, damaged INTEGER, unplaced INTEGER" },
	[DB_VMS] = { "vms", "vm INTEGER PRIMARY KEY, name TEXT, uuid TEXT, pid INTEGER" },
	[DB_VCPUS] = { "vcpus", "vm INTEGER, vcpu INTEGER, tid INTEGER" },
	[DB_CPUS] = { "cpus", "source INTEGER, cpu INTEGER, stored INTEGER, gaps INTEGER" },
	[DB_LOSSES] = { "losses", "source INTEGER, cpu INTEGER, kind TEXT, ts INTEGER, "
				  "until INTEGER, lost INTEGER" },
	[DB_EPOCHS] = { "epochs", "vm INTEGER, vcpu INTEGER, ts INTEGER, tsc_offset INTEGER, "
				  "tsc_ratio INTEGER, tsc_frac INTEGER, pvclock_version INTEGER, "
				  "doubtful INTEGER" },
	[DB_ALIGNMENT] = { "alignment",
			   "vm INTEGER, vcpu INTEGER, checked INTEGER, inside INTEGER, "
			   "outside INTEGER, unchecked INTEGER, early_cycles INTEGER, "
			   "late_cycles INTEGER" },
	[DB_WINDOWS] = { "windows", "vm INTEGER, vcpu INTEGER, ts INTEGER, exit INTEGER, "
				    "events INTEGER" },
	[DB_EXITS] = { "exits",
		       "vm INTEGER, vcpu INTEGER, tid INTEGER, reason TEXT, ts INTEGER, "
		       "entry INTEGER, time INTEGER, kernel INTEGER, user INTEGER, poll INTEGER, "
		       "blocked INTEGER, runnable INTEGER, preempted INTEGER" },
	[DB_CHAINS] = { "chain_rows",
			"chain INTEGER PRIMARY KEY, analysis TEXT, vm INTEGER, vcpu INTEGER, "
			"type INTEGER, what TEXT, ts INTEGER, until INTEGER, time INTEGER, "
			"cause TEXT" },
	[DB_CHAIN_TYPES] = { "chain_types", "type INTEGER PRIMARY KEY, name TEXT" },
	[DB_STAGES] = { "stages", "chain INTEGER, stage TEXT, time INTEGER" },
	[DB_SPIKES] = { "spikes", "spike INTEGER PRIMARY KEY, vm INTEGER, vcpu INTEGER, kind TEXT, "
				  "what TEXT, ts INTEGER, until INTEGER, time INTEGER, cause TEXT, "
				  "cause_time INTEGER, sure INTEGER" },
	[DB_PARTS] = { "parts", "spike INTEGER, cause TEXT, name TEXT, time INTEGER" },
	[DB_OTHER] = { "other_events", PLACE ", event TEXT, number INTEGER, text TEXT" },
};

bool db_own_table(const char *name)
{
	for (size_t i = 0; i < DB_TABLES; i++)
		if (!strcasecmp(name, tables[i].name))
			return true;
	return false;
}

int db_add(struct db *d, enum db_table t)
{
	return sq_add(d->sq, d->table[t], (int64_t)sq_rows(d->table[t]) + 1);
}

void db_put_stamp(struct db *d, uint64_t host, int64_t vm, int64_t vcpu)
{
	uint64_t v = 0;
	bool known = out_clock_value(&d->clock, host, vm == (int64_t)d->clock.vm ? vcpu : -1, &v);

	sq_known(d->sq, known, (int64_t)v);
}

void db_put_cycles(struct db *d, uint64_t cycles)
{
	sq_s64(d->sq, (int64_t)(d->khz ? tsc_cycles_to_ns(cycles, d->khz) : cycles));
}

int64_t db_vm_of(const struct db *d, int64_t vm)
{
	return vm < 0 ? vm : (int64_t)tl_hostmap(d->t)->vm[vm].of;
}

void db_put_vcpu(struct db *d, int64_t vm, int64_t vcpu)
{
	sq_known(d->sq, vm >= 0, db_vm_of(d, vm));
	sq_known(d->sq, vcpu >= 0, vcpu);
}

void db_put_place(struct db *d, const struct tl_item *i)
{
	uint64_t v = 0;
	bool known =
		!i->unplaced && out_clock_value(&d->clock, i->host,
						i->vm == (int64_t)d->clock.vm ? i->vcpu : -1, &v);

	sq_null(d->sq); /* the id */
	sq_known(d->sq, known, (int64_t)v);
	sq_s64(d->sq, (int64_t)i->src->index);
	sq_known(d->sq, i->cpu != TL_NO_CPU, i->cpu);
	db_put_vcpu(d, i->vm, i->vcpu);
	sq_s64(d->sq, i->tid);
	sq_str(d->sq, tl_comm(i->src, i->tid));
}

static int put_loss(struct db *d, const struct tl_item *i)
{
	sq_s64(d->sq, (int64_t)i->src->index);
	sq_known(d->sq, i->cpu != TL_NO_CPU, i->cpu);
	sq_str(d->sq, i->kind == TL_GAP ? "gap" : "damage");
	db_put_stamp(d, i->host, i->vm, i->vcpu);
	db_put_stamp(d, i->host + i->width, i->vm, i->vcpu);
	sq_known(d->sq, i->kind == TL_GAP && i->lost, (int64_t)i->lost);
	return db_add(d, DB_LOSSES);
}

int db_item(struct db *d, const struct tl_item *i)
{
	struct cpu_count *c = u64map_elem(&d->by_cpu, (uint64_t)i->src->index << 32 | i->cpu,
					  &d->cpu, &d->cpu_cap, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->source = i->src->index;
	c->cpu = i->cpu;
	c->stored += i->kind == TL_EVENT;
	c->gaps += i->kind != TL_EVENT;
	return i->kind == TL_EVENT ? db_put_event(d, i) : put_loss(d, i);
}

/* ---- who there is ---- */

static int put_source(struct db *d, const struct tl_source *s)
{
	struct tl_loss loss;

	tl_loss(s, &loss);
	sq_s64(d->sq, (int64_t)s->index);
	sq_str(d->sq, tl_side(s));
	sq_str(d->sq, s->label);
	sq_str(d->sq, s->cap->path);
	sq_str(d->sq, s->cap->uname);
	sq_str(d->sq, s->cap->clock);
	sq_s64(d->sq, s->cap->complete);
	sq_known(d->sq, !loss.unknown, (int64_t)(s->events + loss.total));
	sq_s64(d->sq, (int64_t)s->events);
	sq_known(d->sq, !loss.unknown, (int64_t)loss.total);
	sq_s64(d->sq, (int64_t)s->damaged);
	sq_s64(d->sq, (int64_t)s->unplaced);
	return sq_add(d->sq, d->table[DB_SOURCES], (int64_t)s->index);
}

static int put_cpu(struct db *d, const struct cpu_count *c)
{
	sq_s64(d->sq, (int64_t)c->source);
	sq_known(d->sq, c->cpu != TL_NO_CPU, c->cpu);
	sq_s64(d->sq, (int64_t)c->stored);
	sq_s64(d->sq, (int64_t)c->gaps);
	return db_add(d, DB_CPUS);
}

static int put_epochs(struct db *d, size_t vm)
{
	const struct epoch_vm *e = tl_hostmap(d->t)->vm[vm].epochs;
	int ret = 0;

	for (size_t i = 0; e && i < e->n; i++) {
		const struct epoch_vcpu *v = e->vcpus[i];

		for (size_t k = 0; k < v->n && !ret; k++) {
			const struct epoch *x = &v->v[k];
			bool scaled = x->has_map && x->map.ratio;

			db_put_vcpu(d, (int64_t)vm, v->id);
			if (k)
				db_put_stamp(d, x->from, (int64_t)vm, v->id);
			else
				sq_null(d->sq); /* it held before the recording */
			sq_known(d->sq, x->has_map, (int64_t)x->map.offset);
			sq_known(d->sq, scaled, (int64_t)x->map.ratio);
			sq_known(d->sq, scaled, x->map.frac);
			sq_known(d->sq, x->has_pv, x->pv.version);
			sq_s64(d->sq, x->doubtful);
			ret = db_add(d, DB_EPOCHS);
		}
	}
	return ret;
}

static int put_vm(struct db *d, size_t i)
{
	const struct hostmap *m = tl_hostmap(d->t);
	const struct hostmap_vm *vm = &m->vm[i];
	const struct hostmap_thread *th;
	int ret;

	sq_null(d->sq);
	sq_str(d->sq, vm->label);
	sq_str(d->sq, vm->cap ? vm->cap->uuid : NULL);
	sq_known(d->sq, vm->pid, vm->pid);
	ret = sq_add(d->sq, d->table[DB_VMS], (int64_t)i);
	if (ret)
		return ret;
	hostmap_each_thread(m, i, th) {
		db_put_vcpu(d, (int64_t)i, th->vcpu);
		sq_s64(d->sq, th->tid);
		ret = db_add(d, DB_VCPUS);
		if (ret)
			return ret;
	}
	return put_epochs(d, i);
}

static int put_alignment(struct db *d, const struct win_vcpu *v)
{
	db_put_vcpu(d, (int64_t)v->vm, v->vcpu);
	sq_s64(d->sq, (int64_t)v->s.checked);
	sq_s64(d->sq, (int64_t)v->s.inside);
	sq_s64(d->sq, (int64_t)v->s.outside);
	sq_s64(d->sq, (int64_t)v->s.unchecked);
	sq_known(d->sq, v->s.has_early, v->s.early);
	sq_known(d->sq, v->s.has_late, v->s.late);
	return db_add(d, DB_ALIGNMENT);
}

static int put_info(struct db *d, const char *name, const char *text, uint64_t v)
{
	sq_str(d->sq, name);
	if (text)
		sq_str(d->sq, text);
	else
		sq_known(d->sq, v, (int64_t)v);
	return db_add(d, DB_INFO);
}

static int put_infos(struct db *d)
{
	int ret = put_info(d, "version", NULL, DB_VERSION);

	ret = ret ?: put_info(d, "clock", out_clock_names[d->clock.kind], 0);
	ret = ret ?: put_info(d, "unit", out_clock_unit(&d->clock), 0);
	ret = ret ?: put_info(d, "time_unit", d->khz ? "ns" : "cycles", 0);
	ret = ret ?: put_info(d, "tsc_khz", NULL, tl_source(d->t, 0)->cap->unit_ns ? 0 : d->khz);
	return ret ?: put_info(d, "base", NULL, d->clock.kind == OUT_CLOCK_NS ? d->clock.base : 0);
}

int db_walked(struct db *d, const struct windows *w)
{
	const struct hostmap *m = tl_hostmap(d->t);
	int ret = put_infos(d);

	for (size_t i = 0; i < tl_sources(d->t) && !ret; i++)
		ret = put_source(d, tl_source(d->t, i));
	for (size_t i = 0; i < d->by_cpu.n && !ret; i++)
		ret = put_cpu(d, &d->cpu[i]);
	for (size_t i = 0; i < m->nvm && !ret; i++)
		ret = m->vm[i].of == i && !m->vm[i].empty ? put_vm(d, i) : 0;
	for (size_t i = 0; w && i < win_count(w) && !ret; i++)
		ret = put_alignment(d, win_vcpu(w, i));
	return ret ?: db_chain_types(d);
}

int db_note(struct db *d, const char *text)
{
	sq_str(d->sq, text);
	return db_add(d, DB_NOTES);
}

/* ---- beginning and end ---- */

static int create(struct db *d)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = 0;

	for (size_t i = 0; i < DB_TABLES && !ret; i++) {
		sbuf_reset(&b);
		sbuf_addf(&b, "CREATE TABLE %s(%s)", tables[i].name, tables[i].columns);
		ret = b.error ?: sq_table(d->sq, tables[i].name, b.s, &d->table[i]);
	}
	return ret;
}

int db_new(int fd, const struct timeline *t, const struct out_clock *clock, struct db **out)
{
	struct db *d = calloc(1, sizeof(*d));
	int ret;

	*out = d;
	if (!d)
		return -ENOMEM;
	d->t = t;
	d->clock = *clock;
	d->khz = tl_source(t, 0)->cap->tsc_khz;
	d->to = UINT64_MAX;
	ret = evinfos_init(&d->infos, t);
	ret = ret ?: sq_new(fd, &d->sq);
	return ret ?: create(d);
}

const char *db_lacks(const struct db *d)
{
	return d->left_out
		       ? "an event has more fields than a table has columns: the rest is left out"
		       : NULL;
}

int db_finish(struct db *d)
{
	int ret = 0;

	if (db_lacks(d))
		ret = db_note(d, db_lacks(d));
	if (!ret && d->ntype == DB_TYPES_MAX)
		ret = db_note(d,
			      "there are more types of events than tables can be made for: the "
			      "rest is in other_events");
	ret = ret ?: db_views(d);
	return ret ?: sq_finish(d->sq);
}

uint64_t db_rows(const struct db *d)
{
	uint64_t n = 0;

	for (size_t i = 0; i < DB_TABLES; i++)
		n += sq_rows(d->table[i]);
	return n + db_event_rows(d);
}

void db_free(struct db *d)
{
	if (!d)
		return;
	free(d->cpu);
	u64map_free(&d->by_cpu);
	db_types_free(d);
	evinfos_free(&d->infos);
	sq_free(d->sq);
	free(d);
}
