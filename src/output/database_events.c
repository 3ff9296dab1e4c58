/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * database_events.c: each type of event has a table of its own with its fields as columns, made
 * with the first event; the view `events` is all of them.
 */
#include "database.h"

#include <strings.h>

#include "kvmft/json.h"

#define FIELDS_MAX 1000 /* of a type; the rest is left out, with a note */

static const char chains_view[] =
	"CREATE VIEW chains AS SELECT chain, analysis, vm, vcpu, t.name AS type, what, ts, until, "
	"time, cause FROM chain_rows AS c LEFT JOIN chain_types AS t ON t.type = c.type";
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

static bool name_taken(const struct db *d, const char *name)
{
	if (!strcasecmp(name, "events") || !strcasecmp(name, "timeline") ||
	    !strcasecmp(name, "chains") || !strncasecmp(name, "sqlite_", 7) || !*name ||
	    db_own_table(name))
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
	for (size_t n = 0; !b.error; n++) {
		str_printable(b.s);
		if (!name_taken(d, b.s))
			return sbuf_take(&b);
		sbuf_reset(&b);
		sbuf_addf(&b, "%s_%s",
			  n || strncasecmp(fmt_sys(ev), "sqlite", 6) ? fmt_sys(ev) : "event",
			  fmt_name(ev));
		if (n)
			sbuf_addf(&b, "_%zu", n);
	}
	return NULL;
}

/* "cpu_" if all events have a column "cpu"; "reason" is a column of exits alone. */
static int column_name(const struct event_table *t, const char *field, char **name)
{
	static const char *const taken[] = { "id",   "ts",  "source", "cpu",   "vm",
					     "vcpu", "tid", "task",   "reason" };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_add(&b, field);
	for (size_t i = 0; i < ARRAY_SIZE(taken) - !t->reason; i++)
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
	int ret = column_name(t, field, &new.name);
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
		const struct fmt_event *ev =
			fmt_find(tl_source(d->t, s)->fmt, fmt_sys(i->ev), fmt_name(i->ev));

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
		return ret ?: b.error;
	return sq_table(d->sq, t->name, b.s, &t->t);
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
	if (d->ntype >= DB_TYPES_MAX)
		return 0;
	slot = array_grow(&d->type, d->ntype, &d->type_cap, sizeof(*slot));
	t = slot ? calloc(1, sizeof(*t)) : NULL;
	if (!t)
		return -ENOMEM;
	*slot = t;
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

		if (column_name(p->table, field, &name))
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
static int put_numbers(struct db *d, const struct fmt_value *v)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const char *sep = "[";

	for (uint32_t k = 0; k < v->len; k++, sep = ",") {
		sbuf_add(&b, sep);
		sbuf_add_u64(&b, fmt_element(v, k));
	}
	sbuf_add(&b, v->len ? "]" : "[]");
	sq_str(d->sq, b.s);
	return b.error;
}

static int put_value(struct db *d, const struct fmt_field *field, const struct rec *rec)
{
	struct fmt_value v;

	fmt_value(field, rec, &v);
	switch (v.kind) {
	case FMT_SIGNED:
	case FMT_UNSIGNED:
	case FMT_POINTER: sq_s64(d->sq, (int64_t)v.num); break;
	case FMT_STRING: sq_str_mem(d->sq, v.p, v.len); break;
	case FMT_NUMBERS: return put_numbers(d, &v);
	case FMT_ABSENT: sq_null(d->sq); break;
	}
	return 0;
}

/* Innermost first, separated by ;. */
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
	sq_str(d->sq, b.s ?: "");
	return b.error;
}

static int put_fields(struct db *d, const struct event_plan *p, const struct tl_item *i)
{
	char reason[EXIT_NAME_MAX];
	int ret = 0;

	if (p->table->reason)
		sq_str(d->sq, evinfo_reason(&d->infos, p->info, i, reason, sizeof(reason)) ? reason
											   : NULL);
	if (p->info->is_stack)
		return put_stack(d, i);
	for (size_t k = 0; k < p->table->n && !ret; k++) {
		if (p->field[k])
			ret = put_value(d, p->field[k], i->rec);
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
	return b.error ?: sq_add(d->sq, d->table[DB_OTHER], d->id);
}

int db_put_event(struct db *d, const struct tl_item *i)
{
	const struct event_plan *p = NULL;
	int ret = i->ev ? plan_of(d, i, &p) : 0;

	if (ret)
		return ret;
	d->id++;
	db_put_place(d, i);
	if (!p || !p->table)
		return put_other(d, p, i);
	ret = put_fields(d, p, i);
	return ret ?: sq_add(d->sq, p->table->t, d->id);
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

int db_views(struct db *d)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret;

	sbuf_add(&b, "CREATE VIEW events AS");
	for (size_t i = 0; i < d->ntype; i++) {
		view_part(&b, d->type[i]->event, d->type[i]->name);
		sbuf_add(&b, " UNION ALL");
	}
	sbuf_add(&b, " SELECT " PLACES ", event FROM other_events");
	ret = b.error ?: sq_view(d->sq, b.s);
	ret = ret ?: sq_view(d->sq, timeline_view);
	return ret ?: sq_view(d->sq, chains_view);
}

uint64_t db_event_rows(const struct db *d)
{
	uint64_t n = 0;

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

void db_types_free(struct db *d)
{
	for (size_t i = 0; i < d->ntype; i++)
		type_free(d->type[i]);
	free(d->type);
	for (size_t i = 0; i < d->by_type.n; i++)
		free(d->plan[i].field);
	free(d->plan);
	u64map_free(&d->by_type);
}
