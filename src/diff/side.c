/* SPDX-License-Identifier: GPL-2.0-or-later */
/* side.c: one recording: its exits from the report engine's pieces, its latencies case by case. */
#include "kvmft/diff.h"
#include "kvmft/events.h"

struct piece {
	struct diff_set *set;
	struct diff_key *key;
	struct diff_cell *cell;
	size_t slice;
};

static void piece_time(void *ctx, uint64_t ns, uint32_t n)
{
	struct piece *p = ctx;

	diff_key_time(p->key, p->cell, ns, n);
}

static int piece_add(void *ctx, struct report *r, const struct report_piece *rp)
{
	struct report_row row = { .key = rp->key };
	struct piece *p = ctx;
	bool is_new;

	p->key = diff_set_key(p->set, rp->key, &is_new);
	p->cell = p->key ? diff_key_cell(p->key, p->slice) : NULL;
	if (!p->cell)
		return -ENOMEM;
	if (is_new) {
		report_row_name(r, &row, p->key->name);
		p->key->halts = report_key_halts(r, rp->key);
	}
	p->key->events = true;
	p->key->n += rp->samples;
	p->cell->n += rp->samples;
	p->cell->timed += rp->timed;
	p->cell->time += (double)rp->time;
	for (int i = 0; i < REPORT_PARTS; i++)
		p->cell->part[i] += (double)rp->part[i];
	report_piece_times(r, rp, piece_time, p);
	return 0;
}

static int side_cut(void *ctx, struct report *r, uint64_t n)
{
	struct diff_side *s = ctx;
	struct piece p = { .set = &s->exits, .slice = diff_set_slice(&s->exits, n) };
	struct report_sums sums;
	int ret;

	s->filter.vm = report_vm_named(r);
	ret = report_take(r, &s->filter, piece_add, &p, &sums);
	s->exits.guest[p.slice] += (double)sums.guest_time;
	for (int i = 0; i < REPORT_PARTS; i++)
		s->exits.part[i][p.slice] += (double)sums.part_time[i];
	return ret;
}

static void side_count(struct diff_side *s)
{
	struct report_vcpu v;
	bool other = false;

	for (size_t i = 0; i < s->exits.nkey; i++)
		s->samples += s->exits.key[i]->n;
	for (size_t vm = 0; vm < report_vms(s->r); vm++) {
		bool any = false;

		for (size_t i = 0; i < report_vcpus(s->r); i++) {
			report_vcpu(s->r, i, &v);
			any |= v.samples && v.vm == (int64_t)vm &&
			       report_matches(s->r, &s->filter, i);
		}
		s->vms += any;
	}
	for (size_t i = 0; i < report_vcpus(s->r); i++) {
		report_vcpu(s->r, i, &v);
		if (!v.samples || !report_matches(s->r, &s->filter, i))
			continue;
		s->vcpus++;
		other |= v.vm < 0;
	}
	s->vms += other;
}

int diff_exits(struct diff_side *s, const struct report_opts *o, struct kvmft_err *err)
{
	struct report_opts ro = *o;
	int ret;

	ro.every = DIFF_SLICE;
	ro.cut = side_cut;
	ro.ctx = s;
	ro.percentiles = true;
	s->filter = (struct report_filter){ .vm = -1, .vcpu = -1 };
	ret = report_new(s->cap, s->fmt, &ro, &s->r, err);
	ret = ret ?: report_walk(s->r, err);
	if (ret)
		return ret;
	s->parts = ro.split && !report_needs(s->r);
	report_span(s->r, &s->span);
	diff_set_end(&s->exits, s->span.length);
	side_count(s);
	return 0;
}

/* Who ran instead adds nothing to the time that was stolen. */
int diff_latency(void *side, enum lat_table_id id, const struct lat_case *c)
{
	struct diff_side *s = side;
	uint64_t from = c->end - MIN(c->end, s->span.begin);
	size_t slice = diff_set_slice(&s->latency, (uint64_t)((unsigned __int128)from * 1000000 /
							      s->cap->tsc_khz / DIFF_SLICE));
	bool is_new;

	for (unsigned int i = 0; i < LAT_STAGES && id != LAT_T_STEALER; i++) {
		struct diff_key *k;
		struct diff_cell *cell;

		if (!(c->known >> i & 1))
			continue;
		k = diff_set_key(&s->latency, (uint64_t)id * LAT_STAGES + i, &is_new);
		cell = k ? diff_key_cell(k, slice) : NULL;
		if (!cell)
			return -ENOMEM;
		k->kind = DIFF_LATENCY;
		k->lat = lat_table_kind(id);
		k->events = i == 0;
		k->n++;
		cell->n++;
		cell->timed++;
		cell->time += (double)c->stage_time[i];
		diff_key_time(k, cell, c->stage_time[i], 1);
	}
	return 0;
}

void diff_latency_end(struct diff_side *s, const struct lat *l)
{
	bool sched = event_format(s->fmt, EV_SWITCH) && event_format(s->fmt, EV_WAKEUP);

	for (unsigned int id = 0; id < LAT_TABLES; id++)
		/* the stages of all groups of a table are one key each */
		for (unsigned int i = 0; i < LAT_STAGES; i++) {
			const struct lat_desc *d = lat_table(l, (enum lat_table_id)id)->desc;
			uint64_t at;
			struct diff_key *k;

			if (!u64map_get(&s->latency.at, (uint64_t)id * LAT_STAGES + i, &at))
				continue;
			k = s->latency.key[at];
			k->group = d->name;
			snprintf(k->name, sizeof(k->name), "%s %s", d->name, d->stage[i]);
		}
	for (unsigned int k = 0; k < LAT_KINDS; k++)
		s->answers[k] = lat_answers(l)[k] && (k != LAT_SCHED || sched);
	diff_set_end(&s->latency, s->exits.length);
}

void diff_side_free(struct diff_side *s)
{
	report_free(s->r);
	diff_set_free(&s->exits);
	diff_set_free(&s->latency);
}
