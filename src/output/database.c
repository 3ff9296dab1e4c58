/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * database.c: captures as an SQLite database: events, conclusions from them, and who and what the
 * captures are about.
 */
#include "kvmft/results.h"
#include "evinfo.h"
#include "kvmft/sqlite.h"

#include <strings.h>

#define DB_TYPES_MAX 480 /* SQLite takes 500 parts of a view; others go to other_events */

enum db_table {
	DB_INFO, DB_NOTES, DB_SOURCES, DB_VMS, DB_VCPUS, DB_CPUS, DB_LOSSES, DB_EPOCHS,
	DB_ALIGNMENT, DB_WINDOWS, DB_EXITS, DB_CHAINS, DB_CHAIN_TYPES, DB_STAGES, DB_SPIKES,
	DB_PARTS, DB_OTHER,
	DB_TABLES
};

/* The first columns of each event. */
#define PLACE                                                                           \
	"id INTEGER PRIMARY KEY, ts INTEGER, source INTEGER, cpu INTEGER, vm INTEGER, " \
	"vcpu INTEGER, tid INTEGER, task TEXT"
#define PLACES "id, ts, source, cpu, vm, vcpu, tid, task"

/* The table of a type of event, of all sources. */
struct event_table {
	char *event, *name;
	struct sq_table *t;
	struct event_column {
		char *name;
		bool number, text; /* from the captures, which may differ */
	} * column;
	size_t n, cap;
	bool reason; /* the first column is the name of an exit */
};

/* A type of event of one source: where the columns of its table are among its fields. */
struct event_plan {
	const struct event_table *table; /* NULL: in DB_OTHER */
	const struct evinfo *info;
	const struct fmt_field **field; /* by column; NULL: it has none */
};

struct db {
	struct sq *sq;
	const struct timeline *t;
	struct out_clock clock;
	uint64_t khz;
	struct sq_table *table[DB_TABLES];
	struct evinfos infos;
	struct event_table **type;
	size_t ntype, type_cap;
	struct u64map by_type; /* tl_type() → index into plan */
	struct event_plan *plan;
	size_t plan_cap;
	uint64_t last_type;
	const struct event_plan *last;
	int64_t id;	      /* of the last event */
	struct u64map by_cpu; /* source << 32 | CPU → index into cpu */
	struct cpu_count {
		size_t source;
		uint32_t cpu;
		uint64_t stored, gaps;
	} * cpu;
	size_t cpu_cap;
	const struct lat *lat;
	uint64_t from, to;
	size_t left_out; /* columns */
	int error;	 /* the first one */
};

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

/* The values put so far as the next row of t, or as that with this id. */
static void db_add_at(struct db *d, struct sq_table *t, int64_t id)
{
	int ret = sq_add(d->sq, t, id);

	d->error = d->error ?: ret;
}

static void db_add(struct db *d, enum db_table t)
{
	db_add_at(d, d->table[t], (int64_t)sq_rows(d->table[t]) + 1);
}

/* A moment in the clock of all stamps; vm is its VM's number, or -1. */
static void db_put_stamp(struct db *d, uint64_t host, int64_t vm, int64_t vcpu)
{
	uint64_t v = 0;
	bool known = out_clock_value(&d->clock, host, vm == (int64_t)d->clock.vm ? vcpu : -1, &v);

	sq_known(d->sq, known, (int64_t)v);
}

/* Cycles of the host as a length of time: ns, or as they are where tsc_khz is not known. */
static void db_put_cycles(struct db *d, uint64_t cycles)
{
	sq_s64(d->sq, (int64_t)(d->khz ? tsc_cycles_to_ns(cycles, d->khz) : cycles));
}

/* The database's number of a VM of the host map; -1 stays -1. */
static int64_t db_vm_of(const struct db *d, int64_t vm)
{
	return vm < 0 ? vm : (int64_t)tl_hostmap(d->t)->vm[vm].of;
}

static void db_put_vcpu(struct db *d, int64_t vm, int64_t vcpu)
{
	sq_known(d->sq, vm >= 0, db_vm_of(d, vm));
	sq_known(d->sq, vcpu >= 0, vcpu);
}

/*
 * ---- events ----
 *
 * Each type has a table of its own with its fields as columns, made with the first event; the view
 * `events` is all of them.
 */

#define FIELDS_MAX 1000 /* of a type; the rest is left out, with a note */

static const char chains_view[] =
	"CREATE VIEW chains AS SELECT chain, analysis, vm, vcpu, t.name AS type, what, ts, until, "
	"time, cause FROM chain_rows AS c LEFT JOIN chain_types AS t ON t.type = c.type";
static const char timeline_view[] =
	"CREATE VIEW timeline AS SELECT id, ts, s.name AS side, cpu, v.name AS vm, vcpu, tid, task, "
	"event FROM events e LEFT JOIN sources s ON s.source = e.source "
	"LEFT JOIN vms v ON v.vm = e.vm";

static bool name_taken(const struct db *d, const char *name)
{
	if (!strcasecmp(name, "events") || !strcasecmp(name, "timeline") ||
	    !strcasecmp(name, "chains") || !strncasecmp(name, "sqlite_", 7) || !*name)
		return true;
	for (size_t i = 0; i < DB_TABLES; i++)
		if (!strcasecmp(name, tables[i].name))
			return true;
	for (size_t i = 0; i < d->ntype; i++)
		if (d->type[i]->name && !strcasecmp(name, d->type[i]->name))
			return true;
	return false;
}

/* The event's own name; if that is taken, with its system in front, or a number after it. */
static char *table_name(const struct db *d, const struct fmt_event *ev)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_add(&b, fmt_name(ev));
	for (size_t n = 0;; n++) {
		xsbuf_text(&b);
		str_printable(b.s);
		if (!name_taken(d, b.s))
			return xsbuf_take(&b);
		sbuf_reset(&b);
		sbuf_addf(&b, "%s_%s",
			  n || strncasecmp(fmt_sys(ev), "sqlite", 6) ? fmt_sys(ev) : "event",
			  fmt_name(ev));
		if (n)
			sbuf_addf(&b, "_%zu", n);
	}
}

/* "cpu_" if all events have a column "cpu"; "reason" is a column of exits alone. */
static char *column_name(const struct event_table *t, const char *field)
{
	static const char *const taken[] = { "id",   "ts",  "source", "cpu",   "vm",
					     "vcpu", "tid", "task",   "reason" };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char *name;

	sbuf_add(&b, field);
	for (size_t i = 0; i < ARRAY_SIZE(taken) - !t->reason; i++)
		if (!strcasecmp(field, taken[i]))
			sbuf_addc(&b, '_');
	name = xsbuf_take(&b);
	str_printable(name);
	return name;
}

static ssize_t column_find(const struct event_table *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcasecmp(t->column[i].name, name))
			return (ssize_t)i;
	return -1;
}

static void column_add(struct db *d, struct event_table *t, const char *field, bool text)
{
	struct event_column new = { .name = column_name(t, field) };
	ssize_t at = column_find(t, new.name);

	if (at < 0 && t->n < FIELDS_MAX) {
		xarray_add(&t->column, &t->n, &t->cap, &new, sizeof(new));
		at = (ssize_t)t->n - 1;
	} else {
		d->left_out += at < 0;
	}
	if (at < 0 || t->column[at].name != new.name)
		free(new.name);
	if (at >= 0) {
		t->column[at].text |= text;
		t->column[at].number |= !text;
	}
}

static void columns_of(struct db *d, struct event_table *t, const struct fmt_event *ev)
{
	const char *field;

	if (fmt_is_stack(ev)) {
		column_add(d, t, "stack", true);
		return;
	}
	for (size_t k = fmt_common_fields(ev); (field = fmt_field_name(ev, k)); k++) {
		const struct fmt_field *f = fmt_field_at(ev, k);

		column_add(d, t, field, f->is_string || f->is_array || f->is_dynamic);
	}
}

/* NULL: there are too many. */
static const struct event_table *type_find(struct db *d, const struct evinfo *e,
					   const struct tl_item *i)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct event_table **slot, *t;
	int ret;

	for (size_t k = 0; k < d->ntype; k++)
		if (!strcmp(d->type[k]->event, e->name))
			return d->type[k];
	if (d->ntype >= DB_TYPES_MAX)
		return NULL;
	slot = xarray_grow(&d->type, d->ntype, &d->type_cap, sizeof(*slot));
	*slot = t = xcalloc(1, sizeof(*t));
	d->ntype++;
	t->event = xstrdup(e->name);
	t->name = table_name(d, i->ev);
	t->reason = e->role == EV_EXIT || e->role == EV_NESTED_EXIT;
	/* Its columns are the fields of all captures that have such an event. */
	columns_of(d, t, i->ev);
	for (size_t s = 0; s < tl_sources(d->t); s++) {
		const struct fmt_event *ev =
			fmt_find(tl_source(d->t, s)->fmt, fmt_sys(i->ev), fmt_name(i->ev));

		if (ev && ev != i->ev)
			columns_of(d, t, ev);
	}
	sbuf_add(&b, "CREATE TABLE ");
	sq_quote(&b, t->name);
	sbuf_add(&b, "(" PLACE);
	if (t->reason)
		sbuf_add(&b, ", reason TEXT");
	for (size_t k = 0; k < t->n; k++) {
		sbuf_add(&b, ", ");
		sq_quote(&b, t->column[k].name);
		if (t->column[k].text != t->column[k].number)
			sbuf_add(&b, t->column[k].text ? " TEXT" : " INTEGER");
	}
	sbuf_addc(&b, ')');
	ret = sq_table(d->sq, t->name, xsbuf_text(&b), &t->t);
	d->error = d->error ?: ret;
	return t;
}

static const struct event_plan *plan_of(struct db *d, const struct tl_item *i)
{
	uint64_t type = tl_type(i);
	size_t n = d->by_type.n;
	struct event_plan *p;

	if (d->last && d->last_type == type)
		return d->last;
	p = xu64map_elem(&d->by_type, type, &d->plan, &d->plan_cap, sizeof(*p));
	d->last = p;
	d->last_type = type;
	if (d->by_type.n == n)
		return p;
	p->info = evinfo_get(&d->infos, i);
	p->table = type_find(d, p->info, i);
	if (p->table) {
		const char *field;

		p->field = xcalloc(p->table->n + 1, sizeof(*p->field));
		for (size_t k = fmt_common_fields(i->ev); (field = fmt_field_name(i->ev, k)); k++) {
			_cleanup_free_ char *name = column_name(p->table, field);
			ssize_t at = column_find(p->table, name);

			if (at >= 0 && !p->field[at])
				p->field[at] = fmt_field_at(i->ev, k);
		}
	}
	return p;
}

static void db_put_fields(struct db *d, const struct event_plan *p, const struct tl_item *i)
{
	char reason[EXIT_NAME_MAX];

	if (p->table->reason)
		sq_str(d->sq, evinfo_reason(p->info, i, reason, sizeof(reason)) ? reason
											   : NULL);
	if (p->info->is_stack) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };
		struct fmt_value v;

		/* Innermost first, separated by ;. */
		fmt_stack(i->ev, i->rec, &v);
		for (uint32_t k = 0; k < v.len; k++) {
			if (k)
				sbuf_addc(&b, ';');
			fmt_stack_name(i->ev, &v, k, &b);
		}
		sq_str(d->sq, xsbuf_text(&b));
		return;
	}
	for (size_t k = 0; k < p->table->n; k++) {
		if (p->field[k]) {
			const struct fmt_field *field = p->field[k];
			struct fmt_value v;

			fmt_value(field, i->rec, &v);
			switch (v.kind) {
			case FMT_SIGNED:
			case FMT_UNSIGNED:
			case FMT_POINTER: sq_s64(d->sq, (int64_t)v.num); break;
			case FMT_STRING: sq_str_mem(d->sq, v.p, v.len); break;
			case FMT_NUMBERS: {
				_cleanup_(sbuf_free) struct sbuf b = { 0 };
				const char *sep = "[";

				/* Arrays are texts of JSON. */
				for (uint32_t j = 0; j < v.len; j++, sep = ",") {
					sbuf_add(&b, sep);
					sbuf_add_u64(&b, fmt_element(&v, j));
				}
				sbuf_add(&b, v.len ? "]" : "[]");
				sq_str(d->sq, xsbuf_text(&b));
				break;
			}
			case FMT_ABSENT: sq_null(d->sq); break;
			}
		} else
			sq_null(d->sq);
	}
}

/* ---- what was concluded from events: windows, chains, spikes, exits ---- */

void db_window(void *db, const struct win_vcpu *v, uint64_t exit)
{
	struct db *d = db;

	if (db_vm_of(d, (int64_t)v->vm) != (int64_t)v->vm) /* a second capture of the same guest */
		return;
	db_put_vcpu(d, (int64_t)v->vm, v->vcpu);
	db_put_stamp(d, v->entry, (int64_t)v->vm, v->vcpu);
	db_put_stamp(d, exit, (int64_t)v->vm, v->vcpu);
	sq_s64(d->sq, (int64_t)v->in);
	db_add(d, DB_WINDOWS);
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

void db_case(void *db, enum lat_table_id id, const struct lat_case *c)
{
	struct db *d = db;
	const struct lat_table *t = lat_table(d->lat, id);
	int64_t chain = (int64_t)sq_rows(d->table[DB_CHAINS]) + 1;

	sq_null(d->sq);
	sq_str(d->sq, t->desc->name);
	db_put_vcpu(d, c->vm, c->vcpu);
	sq_known(d->sq, c->group < t->ngroup, chain_type(id, c->group));
	sq_str(d->sq, c->what);
	db_put_stamp(d, c->begin, c->vm, c->vcpu);
	db_put_stamp(d, c->end, c->vm, c->vcpu);
	sq_s64(d->sq, (int64_t)c->time);
	sq_str(d->sq, lat_word_text(t->desc->cause[c->cause]));
	db_add(d, DB_CHAINS);
	for (unsigned int s = 1; s < LAT_STAGES; s++) {
		if (!(c->known >> s & 1))
			continue;
		sq_s64(d->sq, chain);
		sq_str(d->sq, t->desc->stage[s]);
		sq_s64(d->sq, (int64_t)c->stage_time[s]);
		db_add(d, DB_STAGES);
	}
}

void db_spikes(struct db *d, const struct blame *b)
{
	for (size_t i = 0; i < blame_spikes(b); i++) {
		const struct blame_spike *s = blame_spike(b, i);
		int64_t spike = (int64_t)sq_rows(d->table[DB_SPIKES]) + 1;

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
		db_add(d, DB_SPIKES);
		for (size_t k = 0; k < s->nparts; k++) {
			sq_s64(d->sq, spike);
			sq_str(d->sq, blame_causes[s->part[k].cause].name);
			sq_str(d->sq, s->part[k].name);
			db_put_cycles(d, s->part[k].time);
			db_add(d, DB_PARTS);
		}
	}
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
	sq_known(d->sq, s->timed, (int64_t)report_time(r, s->timed ? s->to - s->from : 0));
	for (size_t k = 0; k < REPORT_PARTS; k++)
		sq_known(d->sq, s->timed && !report_lacks(r, s->key, (enum report_part)k),
			 (int64_t)report_time(r, s->part[k]));
	db_add(d, DB_EXITS);
	return d->error;
}

int db_item(void *db, const struct tl_item *i)
{
	struct db *d = db;
	struct cpu_count *c = xu64map_elem(&d->by_cpu, (uint64_t)i->src->index << 32 | i->cpu,
					  &d->cpu, &d->cpu_cap, sizeof(*c));

	c->source = i->src->index;
	c->cpu = i->cpu;
	c->stored += i->kind == TL_EVENT;
	c->gaps += i->kind != TL_EVENT;
	if (i->kind == TL_EVENT) {
		const struct event_plan *p = i->ev ? plan_of(d, i) : NULL;
		uint64_t v = 0;
		bool known;

		if (d->error)
			return d->error;
		d->id++;
		known = !i->unplaced &&
			out_clock_value(&d->clock, i->host,
					i->vm == (int64_t)d->clock.vm ? i->vcpu : -1, &v);
		sq_null(d->sq); /* the id */
		sq_known(d->sq, known, (int64_t)v);
		sq_s64(d->sq, (int64_t)i->src->index);
		sq_known(d->sq, i->cpu != TL_NO_CPU, i->cpu);
		db_put_vcpu(d, i->vm, i->vcpu);
		sq_s64(d->sq, i->tid);
		sq_str(d->sq, tl_comm(i->src, i->tid));
		if (!p || !p->table) {
			_cleanup_(sbuf_free) struct sbuf b = { 0 };

			/* An event without a format, or of one type too many. */
			if (i->ev)
				tl_print(i, &b);
			sq_str(d->sq, p ? p->info->name : NULL);
			sq_s64(d->sq, i->rec->id);
			sq_str(d->sq, b.s);
			db_add_at(d, d->table[DB_OTHER], d->id);
			return b.error ?: d->error;
		}
		db_put_fields(d, p, i);
		db_add_at(d, p->table->t, d->id);
		return d->error;
	}
	sq_s64(d->sq, (int64_t)i->src->index);
	sq_known(d->sq, i->cpu != TL_NO_CPU, i->cpu);
	sq_str(d->sq, i->kind == TL_GAP ? "gap" : "damage");
	db_put_stamp(d, i->host, i->vm, i->vcpu);
	db_put_stamp(d, i->host + i->width, i->vm, i->vcpu);
	sq_known(d->sq, i->kind == TL_GAP && tl_gap_counted(i), (int64_t)i->lost);
	db_add(d, DB_LOSSES);
	return d->error;
}

/* ---- who there is ---- */

static void put_vm(struct db *d, size_t i)
{
	const struct hostmap *m = tl_hostmap(d->t);
	const struct hostmap_vm *vm = &m->vm[i];
	const struct hostmap_thread *th;
	const struct epoch_vm *e;

	sq_null(d->sq);
	sq_str(d->sq, vm->label);
	sq_str(d->sq, vm->cap ? vm->cap->uuid : NULL);
	sq_known(d->sq, vm->pid, vm->pid);
	db_add_at(d, d->table[DB_VMS], (int64_t)i);
	hostmap_each_thread(m, i, th) {
		db_put_vcpu(d, (int64_t)i, th->vcpu);
		sq_s64(d->sq, th->tid);
		db_add(d, DB_VCPUS);
	}
	e = tl_hostmap(d->t)->vm[i].epochs;
	for (size_t j = 0; e && j < e->n; j++) {
		const struct epoch_vcpu *v = e->vcpus[j];

		for (size_t k = 0; k < v->n; k++) {
			const struct epoch *x = &v->v[k];
			bool scaled = x->has_map && x->map.ratio;

			db_put_vcpu(d, (int64_t)i, v->id);
			if (k)
				db_put_stamp(d, x->from, (int64_t)i, v->id);
			else
				sq_null(d->sq); /* it held before the recording */
			sq_known(d->sq, x->has_map, (int64_t)x->map.offset);
			sq_known(d->sq, scaled, (int64_t)x->map.ratio);
			sq_known(d->sq, scaled, x->map.frac);
			sq_known(d->sq, x->has_pv, x->pv.version);
			sq_s64(d->sq, x->doubtful);
			db_add(d, DB_EPOCHS);
		}
	}
}

static void put_info(struct db *d, const char *name, const char *text, uint64_t v)
{
	sq_str(d->sq, name);
	if (text)
		sq_str(d->sq, text);
	else
		sq_known(d->sq, v, (int64_t)v);
	db_add(d, DB_INFO);
}

void db_walked(struct db *d, const struct windows *w)
{
	const struct hostmap *m = tl_hostmap(d->t);

	put_info(d, "version", NULL, DB_VERSION);
	put_info(d, "clock", out_clock_names[d->clock.kind], 0);
	put_info(d, "unit", out_clock_unit(&d->clock), 0);
	put_info(d, "time_unit", d->khz ? "ns" : "cycles", 0);
	put_info(d, "tsc_khz", NULL, tl_source(d->t, 0)->cap->unit_ns ? 0 : d->khz);
	put_info(d, "base", NULL, d->clock.kind == OUT_CLOCK_NS ? d->clock.base : 0);
	for (size_t i = 0; i < tl_sources(d->t); i++) {
		const struct tl_source *s = tl_source(d->t, i);
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
		db_add_at(d, d->table[DB_SOURCES], (int64_t)s->index);
	}
	for (size_t i = 0; i < d->by_cpu.n; i++) {
		const struct cpu_count *c = &d->cpu[i];

		sq_s64(d->sq, (int64_t)c->source);
		sq_known(d->sq, c->cpu != TL_NO_CPU, c->cpu);
		sq_s64(d->sq, (int64_t)c->stored);
		sq_s64(d->sq, (int64_t)c->gaps);
		db_add(d, DB_CPUS);
	}
	for (size_t i = 0; i < m->nvm; i++)
		if (m->vm[i].of == i && !m->vm[i].empty)
			put_vm(d, i);
	for (size_t i = 0; w && i < m->nvm; i++)
		win_each_vcpu(w, i, v) {
			db_put_vcpu(d, (int64_t)v->vm, v->vcpu);
			sq_s64(d->sq, (int64_t)v->s.checked);
			sq_s64(d->sq, (int64_t)v->s.inside);
			sq_s64(d->sq, (int64_t)v->s.outside);
			sq_s64(d->sq, (int64_t)v->s.unchecked);
			sq_known(d->sq, v->s.has_early, v->s.early);
			sq_known(d->sq, v->s.has_late, v->s.late);
			db_add(d, DB_ALIGNMENT);
		}
	/* After the walk: the names of the types of chains, which become better until then. */
	for (unsigned int id = 0; d->lat && id < LAT_TABLES; id++) {
		const struct lat_table *t = lat_table(d->lat, (enum lat_table_id)id);
		_cleanup_free_ const char **name = xcalloc(t->ngroup + 1, sizeof(*name));

		for (size_t i = 0; i < t->ngroup; i++)
			name[t->group[i].order] = t->group[i].name;
		for (size_t i = 0; i < t->ngroup; i++) {
			sq_null(d->sq);
			sq_str(d->sq, name[i]);
			db_add_at(d, d->table[DB_CHAIN_TYPES],
				  chain_type((enum lat_table_id)id, (uint32_t)i));
		}
	}
}

void db_note(struct db *d, const char *text)
{
	sq_str(d->sq, text);
	db_add(d, DB_NOTES);
}

/* ---- beginning and end ---- */

int db_new(int fd, const struct timeline *t, const struct out_clock *clock, struct db **out)
{
	struct db *d = xcalloc(1, sizeof(*d));
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret;

	*out = d;
	d->t = t;
	d->clock = *clock;
	d->khz = tl_source(t, 0)->cap->tsc_khz;
	d->to = UINT64_MAX;
	ret = sq_new(fd, &d->sq);
	for (size_t i = 0; i < DB_TABLES && !ret; i++) {
		sbuf_reset(&b);
		sbuf_addf(&b, "CREATE TABLE %s(%s)", tables[i].name, tables[i].columns);
		ret = sq_table(d->sq, tables[i].name, xsbuf_text(&b), &d->table[i]);
	}
	return ret;
}

const char *db_lacks(const struct db *d)
{
	return d->left_out
		       ? "an event has more fields than a table has columns: the rest is left out"
		       : NULL;
}

int db_finish(struct db *d)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret;

	if (db_lacks(d))
		db_note(d, db_lacks(d));
	if (d->ntype == DB_TYPES_MAX)
		db_note(d, "there are more types of events than tables can be made for: the "
			   "rest is in other_events");
	sbuf_add(&b, "CREATE VIEW events AS");
	for (size_t i = 0; i < d->ntype; i++) {
		const char *event = d->type[i]->event;

		sbuf_add(&b, " SELECT " PLACES ", '");
		for (; *event; event++) {
			if (*event == '\'')
				sbuf_addc(&b, '\'');
			sbuf_addc(&b, *event);
		}
		sbuf_add(&b, "' AS event FROM ");
		sq_quote(&b, d->type[i]->name);
		sbuf_add(&b, " UNION ALL");
	}
	sbuf_add(&b, " SELECT " PLACES ", event FROM other_events");
	ret = d->error ?: sq_view(d->sq, xsbuf_text(&b));
	ret = ret ?: sq_view(d->sq, timeline_view);
	ret = ret ?: sq_view(d->sq, chains_view);
	return ret ?: sq_finish(d->sq);
}

uint64_t db_rows(const struct db *d)
{
	uint64_t n = 0;

	for (size_t i = 0; i < DB_TABLES; i++)
		n += sq_rows(d->table[i]);
	for (size_t i = 0; i < d->ntype; i++)
		n += sq_rows(d->type[i]->t);
	return n;
}

void db_free(struct db *d)
{
	if (!d)
		return;
	free(d->cpu);
	u64map_free(&d->by_cpu);
	for (size_t i = 0; i < d->ntype; i++) {
		struct event_table *t = d->type[i];

		for (size_t k = 0; k < t->n; k++)
			free(t->column[k].name);
		free(t->column);
		free(t->event);
		free(t->name);
		free(t);
	}
	free(d->type);
	for (size_t i = 0; i < d->by_type.n; i++)
		free(d->plan[i].field);
	free(d->plan);
	u64map_free(&d->by_type);
	evinfos_free(&d->infos);
	sq_free(d->sq);
	free(d);
}
