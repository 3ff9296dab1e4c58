/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * database.c: captures as an SQLite database. Each type of event has a table of its own with its
 * fields as columns, made when the first one comes; the view `events` is all of them.
 */
#include "kvmft/database.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "evinfo.h"
#include "kvmft/json.h"
#include "kvmft/own_tsc.h"
#include "kvmft/sqlite.h"

#define DB_VERSION 1
#define TYPES_MAX  480	/* SQLite takes 500 parts of a view; others go to other_events */
#define FIELDS_MAX 1000 /* of a type; what is more is left out, with a note */

enum db_table {
	DB_INFO, DB_NOTES, DB_SOURCES, DB_VMS, DB_VCPUS, DB_CPUS, DB_LOSSES, DB_EPOCHS,
	DB_ALIGNMENT, DB_WINDOWS, DB_EXITS, DB_CHAINS, DB_STAGES, DB_SPIKES, DB_PARTS, DB_OTHER,
	DB_TABLES
};

/* What each event begins with. */
#define PLACE "id INTEGER PRIMARY KEY, ts INTEGER, source INTEGER, cpu INTEGER, vm INTEGER, " \
	      "vcpu INTEGER, tid INTEGER, task TEXT"
#define PLACES "id, ts, source, cpu, vm, vcpu, tid, task"

static const struct {
	const char *name, *columns;
} tables[DB_TABLES] = {
	[DB_INFO] = { "info", "name TEXT, value" },
	[DB_NOTES] = { "notes", "text TEXT" },
	[DB_SOURCES] = { "sources", "source INTEGER PRIMARY KEY, side TEXT, name TEXT, path TEXT, "
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
	[DB_ALIGNMENT] = { "alignment", "vm INTEGER, vcpu INTEGER, checked INTEGER, inside INTEGER, "
			   "outside INTEGER, unchecked INTEGER, early_cycles INTEGER, "
			   "late_cycles INTEGER" },
	[DB_WINDOWS] = { "windows", "vm INTEGER, vcpu INTEGER, ts INTEGER, exit INTEGER, "
			 "events INTEGER" },
	[DB_EXITS] = { "exits", "vm INTEGER, vcpu INTEGER, tid INTEGER, reason TEXT, ts INTEGER, "
		       "entry INTEGER, time INTEGER, kernel INTEGER, user INTEGER, poll INTEGER, "
		       "blocked INTEGER, runnable INTEGER, preempted INTEGER" },
	[DB_CHAINS] = { "chains", "chain INTEGER PRIMARY KEY, analysis TEXT, vm INTEGER, "
			"vcpu INTEGER, type TEXT, what TEXT, ts INTEGER, until INTEGER, "
			"time INTEGER, cause TEXT" },
	[DB_STAGES] = { "stages", "chain INTEGER, stage TEXT, time INTEGER" },
	[DB_SPIKES] = { "spikes", "spike INTEGER PRIMARY KEY, vm INTEGER, vcpu INTEGER, kind TEXT, "
			"what TEXT, ts INTEGER, until INTEGER, time INTEGER, cause TEXT, "
			"cause_time INTEGER, sure INTEGER" },
	[DB_PARTS] = { "parts", "spike INTEGER, cause TEXT, name TEXT, time INTEGER" },
	[DB_OTHER] = { "other_events", PLACE ", event TEXT, number INTEGER, text TEXT" },
};

static const char timeline_view[] =
	"CREATE VIEW timeline AS SELECT id, ts, s.name AS side, cpu, v.name AS vm, vcpu, tid, task, "
	"event FROM events e LEFT JOIN sources s ON s.source = e.source "
	"LEFT JOIN vms v ON v.vm = e.vm";

/* The table of a type of event, of all sources. */
struct event_table {
	char *event, *name;
	struct sq_table *t;
	struct event_column {
		char *name;
		bool number, text; /* by the captures, which may differ */
	} *column;
	size_t n, cap;
	bool reason; /* the first column is the name of an exit */
};

/* A type of event of one source: where the columns of its table are among its fields. */
struct event_plan {
	const struct event_table *table; /* NULL: in DB_OTHER */
	const struct evinfo *info;
	const struct fmt_field **field; /* by column; NULL: it has none such */
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
	int64_t id; /* of the last event */
	struct u64map by_cpu; /* source << 32 | CPU → index into cpu */
	struct cpu_count {
		size_t source;
		uint32_t cpu;
		uint64_t stored, gaps;
	} *cpu;
	size_t cpu_cap;
	const struct lat *lat;
	uint64_t from, to;
	size_t left_out; /* columns */
};

/* ---- values ---- */

static int add(struct db *d, enum db_table t)
{
	return sq_add(d->sq, d->table[t], (int64_t)sq_rows(d->table[t]) + 1);
}

/* A moment in the clock of all stamps; vm is its VM's number, or -1. */
static void put_stamp(struct db *d, uint64_t host, int64_t vm, int64_t vcpu)
{
	uint64_t v = 0;
	bool known = out_clock_value(&d->clock, host, vm == (int64_t)d->clock.vm ? vcpu : -1, &v);

	sq_known(d->sq, known, (int64_t)v);
}

/* Cycles of the host as a length of time: ns, or as they are. */
static void put_cycles(struct db *d, uint64_t cycles)
{
	sq_s64(d->sq, (int64_t)(d->khz ? tsc_cycles_to_ns(cycles, d->khz) : cycles));
}

/* The VM that a number of the host map stands for. */
static int64_t vm_of(const struct db *d, int64_t vm)
{
	return vm < 0 ? vm : (int64_t)tl_hostmap(d->t)->vm[vm].of;
}

static void put_vcpu(struct db *d, int64_t vm, int64_t vcpu)
{
	sq_known(d->sq, vm >= 0, vm_of(d, vm));
	sq_known(d->sq, vcpu >= 0, vcpu);
}

static void put_place(struct db *d, const struct tl_item *i)
{
	uint64_t v = 0;
	bool known = !i->unplaced &&
		     out_clock_value(&d->clock, i->host,
				     i->vm == (int64_t)d->clock.vm ? i->vcpu : -1, &v);

	sq_null(d->sq); /* the id */
	sq_known(d->sq, known, (int64_t)v);
	sq_s64(d->sq, (int64_t)i->src->index);
	sq_known(d->sq, i->cpu != TL_NO_CPU, i->cpu);
	put_vcpu(d, i->vm, i->vcpu);
	sq_s64(d->sq, i->tid);
	sq_str(d->sq, tl_comm(i->src, i->tid));
}

/* ---- tables of events ---- */

static bool name_taken(const struct db *d, const char *name)
{
	if (!strcasecmp(name, "events") || !strcasecmp(name, "timeline") ||
	    !strncasecmp(name, "sqlite_", 7) || !*name)
		return true;
	for (size_t i = 0; i < DB_TABLES; i++)
		if (!strcasecmp(name, tables[i].name))
			return true;
	for (size_t i = 0; i < d->ntype; i++)
		if (d->type[i]->name && !strcasecmp(name, d->type[i]->name))
			return true;
	return false;
}

/* The event's own name; with its system in front, and a number behind, where that is taken. */
static char *table_name(const struct db *d, const struct fmt_event *ev)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_add(&b, fmt_name(ev));
	for (size_t n = 0; !b.error; n++) {
		str_printable(b.s);
		if (!name_taken(d, b.s))
			return sbuf_take(&b);
		sbuf_reset(&b);
		sbuf_addf(&b, "%s_%s", n || strncasecmp(fmt_sys(ev), "sqlite", 6) ? fmt_sys(ev) :
			  "event", fmt_name(ev));
		if (n)
			sbuf_addf(&b, "_%zu", n);
	}
	return NULL;
}

/* "cpu_" where all events have a column "cpu". */
static int column_name(const char *field, char **name)
{
	static const char *const taken[] = { "id", "ts", "source", "cpu", "vm", "vcpu", "tid",
					     "task", "reason" };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_add(&b, field);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (!strcasecmp(field, taken[i]))
			sbuf_addc(&b, '_');
	*name = sbuf_take(&b);
	if (!*name)
		return -ENOMEM;
	str_printable(*name);
	return 0;
}

static ssize_t column_find(const struct event_table *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcasecmp(t->column[i].name, name))
			return (ssize_t)i;
	return -1;
}

static int column_add(struct db *d, struct event_table *t, const char *field, bool text)
{
	struct event_column new = { 0 };
	int ret = column_name(field, &new.name);
	ssize_t at = ret ? -1 : column_find(t, new.name);

	if (ret)
		return ret;
	if (at < 0 && t->n < FIELDS_MAX) {
		ret = array_add(&t->column, &t->n, &t->cap, &new, sizeof(new));
		at = ret ? -1 : (ssize_t)t->n - 1;
	} else {
		d->left_out += at < 0;
	}
	if (at < 0 || t->column[at].name != new.name)
		free(new.name);
	if (at >= 0) {
		t->column[at].text |= text;
		t->column[at].number |= !text;
	}
	return ret;
}

static int columns_of(struct db *d, struct event_table *t, const struct fmt_event *ev)
{
	const char *field;
	int ret = 0;

	if (fmt_is_stack(ev))
		return column_add(d, t, "stack", true);
	for (size_t k = fmt_common_fields(ev); !ret && (field = fmt_field_name(ev, k)); k++) {
		const struct fmt_field *f = fmt_field_at(ev, k);

		ret = column_add(d, t, field, f->is_string || f->is_array || f->is_dynamic);
	}
	return ret;
}

/* Its columns are the fields of all captures that have such an event. */
static int table_create(struct db *d, struct event_table *t, const struct tl_item *i)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = columns_of(d, t, i->ev);

	for (size_t s = 0; s < tl_sources(d->t) && !ret; s++) {
		const struct fmt_event *ev = fmt_find(tl_source(d->t, s)->fmt, fmt_sys(i->ev),
						      fmt_name(i->ev));

		ret = ev && ev != i->ev ? columns_of(d, t, ev) : 0;
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
	if (ret || b.error)
		return ret ? ret : b.error;
	t->t = sq_table(d->sq, t->name, b.s);
	return t->t ? 0 : -ENOMEM;
}

static int type_find(struct db *d, const struct evinfo *e, const struct tl_item *i,
		     const struct event_table **out)
{
	struct event_table **slot, *t;

	*out = NULL;
	for (size_t k = 0; k < d->ntype; k++)
		if (!strcmp(d->type[k]->event, e->name)) {
			*out = d->type[k];
			return 0;
		}
	if (d->ntype >= TYPES_MAX)
		return 0;
	slot = array_grow(&d->type, d->ntype, &d->type_cap, sizeof(*slot));
	*slot = t = slot ? calloc(1, sizeof(*t)) : NULL;
	if (!t)
		return -ENOMEM;
	d->ntype++;
	*out = t;
	t->event = strdup(e->name);
	t->name = table_name(d, i->ev);
	t->reason = e->role == EV_EXIT || e->role == EV_NESTED_EXIT;
	return t->event && t->name ? table_create(d, t, i) : -ENOMEM;
}

static int plan_fields(struct event_plan *p, const struct fmt_event *ev)
{
	const char *field;

	p->field = calloc(p->table->n + 1, sizeof(*p->field));
	if (!p->field)
		return -ENOMEM;
	for (size_t k = fmt_common_fields(ev); (field = fmt_field_name(ev, k)); k++) {
		char *name;
		ssize_t at;

		if (column_name(field, &name))
			return -ENOMEM;
		at = column_find(p->table, name);
		free(name);
		if (at >= 0 && !p->field[at])
			p->field[at] = fmt_field_at(ev, k);
	}
	return 0;
}

static int plan_of(struct db *d, const struct tl_item *i, const struct event_plan **out)
{
	uint64_t type = tl_type(i);
	size_t n = d->by_type.n;
	struct event_plan *p;
	int ret;

	if (d->last && d->last_type == type) {
		*out = d->last;
		return 0;
	}
	p = u64map_elem(&d->by_type, type, &d->plan, &d->plan_cap, sizeof(*p));
	if (!p)
		return -ENOMEM;
	*out = d->last = p;
	d->last_type = type;
	if (d->by_type.n == n)
		return 0;
	p->info = evinfo_get(&d->infos, i);
	ret = p->info ? type_find(d, p->info, i, &p->table) : -ENOMEM;
	return ret || !p->table ? ret : plan_fields(p, i->ev);
}

/* Arrays are texts of JSON. */
static int put_numbers(struct db *d, const struct fmt *f, const struct fmt_value *v)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const char *sep = "[";

	for (uint32_t k = 0; k < v->len; k++, sep = ",") {
		sbuf_add(&b, sep);
		sbuf_add_u64(&b, fmt_element(f, v, k));
	}
	sbuf_add(&b, v->len ? "]" : "[]");
	sq_str(d->sq, b.s);
	return b.error;
}

static int put_value(struct db *d, const struct fmt *f, const struct fmt_field *field,
		     const struct rec *rec)
{
	struct fmt_value v;

	fmt_value(f, field, rec, &v);
	switch (v.kind) {
	case FMT_SIGNED:
	case FMT_UNSIGNED:
	case FMT_POINTER: sq_s64(d->sq, (int64_t)v.num); break;
	case FMT_STRING: sq_str_mem(d->sq, v.p, v.len); break;
	case FMT_NUMBERS: return put_numbers(d, f, &v);
	case FMT_ABSENT: sq_null(d->sq); break;
	}
	return 0;
}

/* Innermost first, with ; between them. */
static int put_stack(struct db *d, const struct tl_item *i)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct fmt_value v;

	fmt_stack(i->ev, i->rec, &v);
	for (uint32_t k = 0; k < v.len && !b.error; k++) {
		if (k)
			sbuf_addc(&b, ';');
		fmt_stack_name(i->ev, &v, k, &b);
	}
	sq_str(d->sq, b.s ? b.s : "");
	return b.error;
}

static int put_fields(struct db *d, const struct event_plan *p, const struct tl_item *i)
{
	char reason[EXIT_NAME_MAX];
	int ret = 0;

	if (p->table->reason)
		sq_str(d->sq, evinfo_reason(&d->infos, p->info, i, reason, sizeof(reason)) ?
				      reason : NULL);
	if (p->info->is_stack)
		return put_stack(d, i);
	for (size_t k = 0; k < p->table->n && !ret; k++) {
		if (p->field[k])
			ret = put_value(d, tl_fmt(i), p->field[k], i->rec);
		else
			sq_null(d->sq);
	}
	return ret;
}

/* An event without a format, or of one type too many. */
static int put_other(struct db *d, const struct event_plan *p, const struct tl_item *i)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (i->ev)
		tl_print(i, &b);
	sq_str(d->sq, p ? p->info->name : NULL);
	sq_s64(d->sq, i->rec->id);
	sq_str(d->sq, b.s);
	return b.error ? b.error : sq_add(d->sq, d->table[DB_OTHER], d->id);
}

static int put_event(struct db *d, const struct tl_item *i)
{
	const struct event_plan *p = NULL;
	int ret = i->ev ? plan_of(d, i, &p) : 0;

	if (ret)
		return ret;
	d->id++;
	put_place(d, i);
	if (!p || !p->table)
		return put_other(d, p, i);
	ret = put_fields(d, p, i);
	return ret ? ret : sq_add(d->sq, p->table->t, d->id);
}

static int put_loss(struct db *d, const struct tl_item *i)
{
	sq_s64(d->sq, (int64_t)i->src->index);
	sq_known(d->sq, i->cpu != TL_NO_CPU, i->cpu);
	sq_str(d->sq, i->kind == TL_GAP ? "gap" : "damage");
	put_stamp(d, i->host, i->vm, i->vcpu);
	put_stamp(d, i->host + i->width, i->vm, i->vcpu);
	sq_known(d->sq, i->kind == TL_GAP && i->lost, (int64_t)i->lost);
	return add(d, DB_LOSSES);
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
	return i->kind == TL_EVENT ? put_event(d, i) : put_loss(d, i);
}

/* ---- what was concluded ---- */

int db_window(void *db, const struct win_vcpu *v, uint64_t exit)
{
	struct db *d = db;

	if (vm_of(d, (int64_t)v->vm) != (int64_t)v->vm) /* a second capture of the same guest */
		return 0;
	put_vcpu(d, (int64_t)v->vm, v->vcpu);
	put_stamp(d, v->entry, (int64_t)v->vm, v->vcpu);
	put_stamp(d, exit, (int64_t)v->vm, v->vcpu);
	sq_s64(d->sq, (int64_t)v->in);
	return add(d, DB_WINDOWS);
}

void db_latency(struct db *d, const struct lat *l)
{
	d->lat = l;
}

int db_case(void *db, enum lat_table_id id, const struct lat_case *c)
{
	struct db *d = db;
	const struct lat_table *t = lat_table(d->lat, id);
	int64_t chain = (int64_t)sq_rows(d->table[DB_CHAINS]) + 1;
	int ret;

	sq_null(d->sq);
	sq_str(d->sq, t->desc->name);
	put_vcpu(d, c->vm, c->vcpu);
	sq_str(d->sq, c->group < t->ngroup ? t->group[c->group].name : NULL);
	sq_str(d->sq, c->what);
	put_stamp(d, c->begin, c->vm, c->vcpu);
	put_stamp(d, c->end, c->vm, c->vcpu);
	sq_s64(d->sq, (int64_t)c->time);
	sq_str(d->sq, t->desc->cause[c->cause]);
	ret = add(d, DB_CHAINS);
	for (unsigned int s = 1; s < LAT_STAGES && !ret; s++) {
		if (!(c->known >> s & 1))
			continue;
		sq_s64(d->sq, chain);
		sq_str(d->sq, t->desc->stage[s]);
		sq_s64(d->sq, (int64_t)c->stage_time[s]);
		ret = add(d, DB_STAGES);
	}
	return ret;
}

static int put_spike(struct db *d, const struct blame_spike *s)
{
	int64_t spike = (int64_t)sq_rows(d->table[DB_SPIKES]) + 1;
	int ret;

	sq_null(d->sq);
	put_vcpu(d, s->vm, s->vcpu);
	sq_str(d->sq, blame_whats[s->what].name);
	sq_str(d->sq, s->of);
	put_stamp(d, s->begin, s->vm, s->vcpu);
	put_stamp(d, s->end, s->vm, s->vcpu);
	put_cycles(d, s->end - s->begin);
	sq_str(d->sq, blame_causes[s->cause].name);
	put_cycles(d, s->cause_time);
	sq_s64(d->sq, s->sure);
	ret = add(d, DB_SPIKES);
	for (size_t i = 0; i < s->nparts && !ret; i++) {
		sq_s64(d->sq, spike);
		sq_str(d->sq, blame_causes[s->part[i].cause].name);
		sq_str(d->sq, s->part[i].name);
		put_cycles(d, s->part[i].time);
		ret = add(d, DB_PARTS);
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

/* A stamp of the host's trace as it is on the time line. */
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

	if (!known || from < d->from || from > d->to)
		return 0;
	put_vcpu(d, vm, vcpu);
	sq_s64(d->sq, s->tid);
	report_key_name(r, s->key, name);
	sq_str(d->sq, name);
	put_stamp(d, from, vm, vcpu);
	if (ended)
		put_stamp(d, to, vm, vcpu);
	else
		sq_null(d->sq);
	sq_known(d->sq, s->timed, (int64_t)report_ns(r, s->timed ? s->to - s->from : 0));
	for (size_t k = 0; k < REPORT_PARTS; k++)
		sq_known(d->sq, s->timed, (int64_t)report_ns(r, s->part[k]));
	return add(d, DB_EXITS);
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
	return add(d, DB_CPUS);
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

			put_vcpu(d, (int64_t)vm, v->id);
			if (k)
				put_stamp(d, x->from, (int64_t)vm, v->id);
			else
				sq_null(d->sq); /* it held before the recording */
			sq_known(d->sq, x->has_map, (int64_t)x->map.offset);
			sq_known(d->sq, scaled, (int64_t)x->map.ratio);
			sq_known(d->sq, scaled, x->map.frac);
			sq_known(d->sq, x->has_pv, x->pv.version);
			sq_s64(d->sq, x->doubtful);
			ret = add(d, DB_EPOCHS);
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
		put_vcpu(d, (int64_t)i, th->vcpu);
		sq_s64(d->sq, th->tid);
		ret = add(d, DB_VCPUS);
		if (ret)
			return ret;
	}
	return put_epochs(d, i);
}

static int put_alignment(struct db *d, const struct win_vcpu *v)
{
	put_vcpu(d, (int64_t)v->vm, v->vcpu);
	sq_s64(d->sq, (int64_t)v->s.checked);
	sq_s64(d->sq, (int64_t)v->s.inside);
	sq_s64(d->sq, (int64_t)v->s.outside);
	sq_s64(d->sq, (int64_t)v->s.unchecked);
	sq_known(d->sq, v->s.has_early, v->s.early);
	sq_known(d->sq, v->s.has_late, v->s.late);
	return add(d, DB_ALIGNMENT);
}

static int put_info(struct db *d, const char *name, const char *text, uint64_t v)
{
	sq_str(d->sq, name);
	if (text)
		sq_str(d->sq, text);
	else
		sq_known(d->sq, v, (int64_t)v);
	return add(d, DB_INFO);
}

static int put_infos(struct db *d)
{
	int ret = put_info(d, "version", NULL, DB_VERSION);

	ret = ret ? ret : put_info(d, "clock", out_clock_names[d->clock.kind], 0);
	ret = ret ? ret : put_info(d, "unit", out_clock_unit(&d->clock), 0);
	ret = ret ? ret : put_info(d, "time_unit", d->khz ? "ns" : "cycles", 0);
	ret = ret ? ret : put_info(d, "tsc_khz", NULL, d->khz);
	ret = ret ? ret : put_info(d, "base", NULL, d->clock.kind == OUT_CLOCK_NS ? d->clock.base : 0);
	return ret;
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
	return ret;
}

int db_note(struct db *d, const char *text)
{
	sq_str(d->sq, text);
	return add(d, DB_NOTES);
}

/* ---- beginning and end ---- */

static int create(struct db *d)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	for (size_t i = 0; i < DB_TABLES; i++) {
		sbuf_reset(&b);
		sbuf_addf(&b, "CREATE TABLE %s(%s)", tables[i].name, tables[i].columns);
		d->table[i] = b.error ? NULL : sq_table(d->sq, tables[i].name, b.s);
		if (!d->table[i])
			return -ENOMEM;
	}
	return 0;
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
	ret = ret ? ret : sq_new(fd, &d->sq);
	return ret ? ret : create(d);
}

static void view_part(struct sbuf *b, const char *event, const char *table)
{
	sbuf_add(b, " SELECT " PLACES ", '");
	for (; *event; event++) {
		if (*event == '\'')
			sbuf_addc(b, '\'');
		sbuf_addc(b, *event);
	}
	sbuf_add(b, "' AS event FROM ");
	sq_quote(b, table);
}

static int views(struct db *d)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret;

	sbuf_add(&b, "CREATE VIEW events AS");
	for (size_t i = 0; i < d->ntype; i++) {
		view_part(&b, d->type[i]->event, d->type[i]->name);
		sbuf_add(&b, " UNION ALL");
	}
	sbuf_add(&b, " SELECT " PLACES ", event FROM other_events");
	ret = b.error ? b.error : sq_view(d->sq, "events", b.s);
	return ret ? ret : sq_view(d->sq, "timeline", timeline_view);
}

const char *db_lacks(const struct db *d)
{
	return d->left_out ? "an event has more fields than a table has columns: the rest is left out"
			   : NULL;
}

int db_finish(struct db *d)
{
	int ret = 0;

	if (db_lacks(d))
		ret = db_note(d, db_lacks(d));
	if (!ret && d->ntype == TYPES_MAX)
		ret = db_note(d, "there are more types of events than tables are made: the rest is in "
				 "other_events");
	ret = ret ? ret : views(d);
	return ret ? ret : sq_finish(d->sq);
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

static void type_free(struct event_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->column[i].name);
	free(t->column);
	free(t->event);
	free(t->name);
	free(t);
}

void db_free(struct db *d)
{
	if (!d)
		return;
	free(d->cpu);
	u64map_free(&d->by_cpu);
	for (size_t i = 0; i < d->ntype; i++)
		type_free(d->type[i]);
	free(d->type);
	for (size_t i = 0; i < d->by_type.n; i++)
		free(d->plan[i].field);
	free(d->plan);
	u64map_free(&d->by_type);
	evinfos_free(&d->infos);
	sq_free(d->sq);
	free(d);
}
