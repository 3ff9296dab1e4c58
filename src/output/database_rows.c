/* SPDX-License-Identifier: GPL-2.0-or-later */
/* database_rows.c: what was concluded from events: windows, chains, spikes, exits. */
#include "database.h"
#include "kvmft/guest_time.h"

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

int db_chain_types(struct db *d)
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
