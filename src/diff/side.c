/* SPDX-License-Identifier: GPL-2.0-or-later */
/* side.c: one recording: its exits from the report engine's pieces, its latencies case by case. */
#include "kvmft/diff.h"
#include "kvmft/events.h"

/*
 * Sums of many things by slices of time.
 *
 * The length of a recording may be known only at its end. So slices begin short; when there are too
 * many, each pair is joined.
 */

#define OTHERS UINT64_MAX

static void cell_add(struct diff_cell *to, const struct diff_cell *from)
{
	to->n += from->n;
	to->timed += from->timed;
	to->time += from->time;
	for (size_t i = 0; i < REPORT_PARTS; i++)
		to->part[i] += from->part[i];
	for (size_t i = 0; i < DIFF_BUCKETS; i++)
		to->count[i] += from->count[i];
}

static void key_halve(struct diff_key *k)
{
	for (size_t i = 0; i < DIFF_SLICES; i += 2) {
		struct diff_cell *a = k->slice[i], *b = k->slice[i + 1];

		k->slice[i] = k->slice[i + 1] = NULL;
		if (a && b) {
			cell_add(a, b);
			free(b);
		}
		k->slice[i / 2] = a ?: b;
	}
}

static void slices_halve(double v[DIFF_SLICES])
{
	for (size_t i = 0; i < DIFF_SLICES; i += 2) {
		double sum = v[i] + v[i + 1];

		v[i] = v[i + 1] = 0;
		v[i / 2] = sum;
	}
}

size_t diff_set_slice(struct diff_set *s, uint64_t n)
{
	while (s->shift < 63 && n >> s->shift >= DIFF_SLICES) {
		s->shift++;
		for (size_t i = 0; i < s->nkey; i++)
			key_halve(s->key[i]);
		slices_halve(s->guest);
		slices_halve(s->ops);
		for (int p = 0; p < REPORT_PARTS; p++)
			slices_halve(s->part[p]);
	}
	return (size_t)MIN(n >> s->shift, (uint64_t)DIFF_SLICES - 1);
}

struct diff_key *diff_set_key(struct diff_set *s, uint64_t number, bool *is_new)
{
	struct diff_key **slot, *k;
	uint64_t at;

	*is_new = false;
	if (u64map_get(&s->at, number, &at))
		return s->key[at];
	if (s->nkey >= DIFF_KEYS && number != OTHERS)
		return diff_set_key(s, OTHERS, is_new);
	slot = xarray_grow(&s->key, s->nkey, &s->cap, sizeof(*slot));
	*slot = k = xcalloc(1, sizeof(*k));
	k->times = xcalloc(1, sizeof(*k->times));
	xu64map_put(&s->at, number, s->nkey);
	s->nkey++;
	*is_new = number != OTHERS;
	strcpy(k->name, "(others)");
	return k;
}

struct diff_cell *diff_key_cell(struct diff_key *k, size_t slice)
{
	if (!k->slice[slice])
		k->slice[slice] = xcalloc(1, sizeof(struct diff_cell));
	return k->slice[slice];
}

void diff_key_time(struct diff_key *k, struct diff_cell *c, uint64_t ns, uint32_t n)
{
	unsigned int i = loghist_index(ns);

	k->times->min = k->times->n ? MIN(k->times->min, ns) : ns;
	k->times->max = MAX(k->times->max, ns);
	k->times->n += n;
	*loghist_bucket(&k->times->rows, i) += n;
	c->count[i / 4] += n;
}

void diff_set_end(struct diff_set *s, uint64_t length_ns)
{
	uint64_t last;

	(void)diff_set_slice(s, length_ns ? (length_ns - 1) / DIFF_SLICE : 0);
	s->length = length_ns;
	s->slice = (uint64_t)DIFF_SLICE << MIN(s->shift, 40u);
	s->n = length_ns ? (size_t)MIN((length_ns - 1) / s->slice + 1, (uint64_t)DIFF_SLICES) : 0;
	for (size_t i = 0; i < s->n; i++) {
		last = length_ns - MIN(length_ns, i * s->slice);
		s->ns[i] = (double)MIN(s->slice, last);
		s->seconds[i] = s->ns[i] / 1e9;
	}
}

void diff_set_free(struct diff_set *s)
{
	for (size_t i = 0; i < s->nkey; i++) {
		for (size_t k = 0; k < DIFF_SLICES; k++)
			free(s->key[i]->slice[k]);
		loghist_free(s->key[i]->times);
		free(s->key[i]->times);
		free(s->key[i]);
	}
	free(s->key);
	u64map_free(&s->at);
}

/*
 * How the recorded machines differ, as far as the captures say.
 *
 * What only one of the captures says is no difference between the machines, but between recorders.
 */

#define VCPUS 512 /* of a VM, whose clocks are compared */

/* Both values, where they are known; kept if they differ. */
static void fact_add(struct diff *d, const char *name, const char *before, const char *after)
{
	struct diff_fact *f;

	if (!before || !after || !strcmp(before, after))
		return;
	f = xarray_grow(&d->fact, d->nfact, &d->fact_cap, sizeof(*f));
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->value[0] = xstrdup(before);
	f->value[1] = xstrdup(after);
	d->nfact++;
}
#define NUMBER(v) ((v) ? TEXTF("%" PRIu64, (uint64_t)(v)) : NULL)

static const char *param_value(const struct capture *c, const struct cap_param *p)
{
	for (size_t i = 0; i < c->nparam; i++)
		if (!strcmp(c->param[i].module, p->module) && !strcmp(c->param[i].name, p->name))
			return c->param[i].value;
	return NULL;
}

/* ---- vCPUs ---- */

/* "2 vCPUs of vm1" for each VM, so that VMs with other PIDs can be compared. */
static char *vms_text(const struct capture *c)
{
	struct sbuf b = { 0 };

	for (size_t i = 0; i < c->nvm; i++) {
		const struct cap_vm *vm = &c->vm[i];
		struct u64map ids = { 0 };

		for (size_t k = 0; k < vm->nvcpu; k++)
			xu64map_put(&ids, vm->vcpu[k].id, 0);
		sbuf_addf(&b, "%s%zu", i ? ", " : "", ids.n);
		u64map_free(&ids);
		if (vm->name)
			sbuf_addf(&b, " of %s", vm->name);
	}
	if (!b.s)
		sbuf_add(&b, "none");
	return xsbuf_take(&b);
}

static void diff_vcpu(struct diff *d, const char *vm, const struct cap_vcpu *a,
		      const struct cap_vcpu *b)
{
	if (!a->has_offset || !b->has_offset)
		return;
	fact_add(d, TEXTF("TSC ratio of %.24s/%u", vm, a->id),
		 TEXTF("%" PRIu64 "/2^%u", a->ratio, a->frac),
		 TEXTF("%" PRIu64 "/2^%u", b->ratio, b->frac));
	fact_add(d, TEXTF("TSC offset of %.24s/%u", vm, a->id), TEXTF("%" PRId64, (int64_t)a->offset),
		 TEXTF("%" PRId64, (int64_t)b->offset));
}

/* The same VM: another one's TSC offset differs in any case. */
static void diff_offsets(struct diff *d, const struct cap_vm *a, const struct cap_vm *b)
{
	if (strcmp(a->id, b->id) || (a->uuid && b->uuid && strcmp(a->uuid, b->uuid)))
		return;
	for (size_t i = 0; i < MIN(a->nvcpu, (size_t)VCPUS); i++)
		for (size_t k = 0; k < MIN(b->nvcpu, (size_t)VCPUS); k++)
			if (a->vcpu[i].id == b->vcpu[k].id) {
				diff_vcpu(d, a->name ?: a->id, &a->vcpu[i], &b->vcpu[k]);
				break;
			}
}

void diff_machines(struct diff *d)
{
	const struct capture *a = d->side[0].cap, *b = d->side[1].cap;

	fact_add(d, "kernel", a->uname, b->uname);
	fact_add(d, "CPU vendor", a->vendor, b->vendor);
	fact_add(d, "hypervisor", a->hypervisor, b->hypervisor);
	fact_add(d, "CPUs recorded", NUMBER(a->nstream), NUMBER(b->nstream));
	/* Each boot measures the TSC a little differently. */
	if (MAX(a->tsc_khz, b->tsc_khz) - MIN(a->tsc_khz, b->tsc_khz) >
	    MAX(a->tsc_khz, b->tsc_khz) / 1000)
		fact_add(d, "TSC kHz", NUMBER(a->tsc_khz), NUMBER(b->tsc_khz));
	fact_add(d, "clocksource", a->clocksource, b->clocksource);
	fact_add(d, "trace clock", a->clock, b->clock);
	fact_add(d, "kvmft", a->tool, b->tool);
	for (size_t i = 0; i < a->nparam; i++)
		fact_add(d, TEXTF("%s.%s", a->param[i].module, a->param[i].name), a->param[i].value,
			 param_value(b, &a->param[i]));
	if (a->nvm && b->nvm) {
		_cleanup_free_ char *before = vms_text(a), *after = vms_text(b);

		fact_add(d, "vCPUs", before, after);
	}
	for (size_t i = 0; i < a->nvm; i++)
		for (size_t k = 0; k < b->nvm; k++)
			diff_offsets(d, &a->vm[i], &b->vm[k]);
}

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
	struct piece *p = ctx;
	bool is_new;

	p->key = diff_set_key(p->set, rp->key, &is_new);
	p->cell = diff_key_cell(p->key, p->slice);
	if (is_new) {
		report_key_name(r, rp->key, p->key->name);
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

int diff_exits(struct diff_side *s, const struct report_opts *o, struct kvmft_err *err)
{
	struct report_opts ro = *o;
	_cleanup_free_ bool *seen = NULL;
	struct report_vcpu v;
	int ret;

	ro.every = DIFF_SLICE;
	ro.cut = side_cut;
	ro.ctx = s;
	ro.percentiles = true;
	ro.held = !ro.has_from;
	s->filter = (struct report_filter){ .vm = -1, .vcpu = -1 };
	ret = report_new(s->cap, s->fmt, &ro, &s->r, err);
	ret = ret ?: report_walk(s->r, err);
	if (ret)
		return ret;
	s->parts = ro.split && !report_needs(s->r);
	report_span(s->r, &s->span);
	diff_set_end(&s->exits, s->span.length);
	for (size_t i = 0; i < s->exits.nkey; i++)
		s->samples += s->exits.key[i]->n;
	seen = xcalloc(report_hostmap(s->r)->nvm + 1, 1); /* the last: of no VM */
	for (size_t i = 0; i < report_vcpus(s->r); i++) {
		size_t vm;

		report_vcpu(s->r, i, &v);
		if (!v.samples || !report_matches(s->r, &s->filter, i))
			continue;
		vm = v.vm < 0 ? report_hostmap(s->r)->nvm : (size_t)v.vm;
		s->vcpus++;
		s->vms += !seen[vm];
		seen[vm] = true;
	}
	return 0;
}

/* Who ran instead adds nothing to the time that was stolen. */
void diff_latency(void *side, enum lat_table_id id, const struct lat_case *c)
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
		cell = diff_key_cell(k, slice);
		k->kind = DIFF_LATENCY;
		k->lat = lat_table_kind(id);
		k->events = i == 0;
		k->n++;
		cell->n++;
		cell->timed++;
		cell->time += (double)c->stage_time[i];
		diff_key_time(k, cell, c->stage_time[i], 1);
	}
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

void diff_side_op(struct diff_side *s, uint64_t tsc)
{
	struct diff_set *e = &s->exits;
	uint64_t from = tsc - MIN(tsc, s->span.begin), at = s->op_end;
	uint64_t ns = (uint64_t)((unsigned __int128)from * 1000000 / s->cap->tsc_khz);

	if (ns >= e->length)
		return;
	if (at >= ns)
		e->ops[ns / e->slice]++;
	/* Its part of each slice that it lasted in: so are its exits there. */
	for (uint64_t next; at < ns; at = next) {
		next = MIN(ns, (at / e->slice + 1) * e->slice);
		e->ops[at / e->slice] += (double)(next - at) / (double)(ns - s->op_end);
	}
	s->op_end = ns;
	s->ops++;
}

static void key_add(struct diff_key *to, size_t at, struct diff_key *from)
{
	for (size_t i = 0; at + i < DIFF_SLICES; i++)
		if (from->slice[i])
			cell_add(diff_key_cell(to, at + i), from->slice[i]);
	to->n += from->n;
	loghist_merge(to->times, from->times);
}

static struct diff_key *key_named(struct diff_set *s, const struct diff_key *like)
{
	struct diff_key **slot, *k;

	for (size_t i = 0; i < s->nkey; i++)
		if (!strcmp(s->key[i]->name, like->name))
			return s->key[i];
	slot = xarray_grow(&s->key, s->nkey, &s->cap, sizeof(*slot));
	*slot = k = xcalloc(1, sizeof(*k));
	s->nkey++;
	*k = (struct diff_key){ .kind = like->kind,
				.group = like->group, .events = like->events,
				.halts = like->halts, .lat = like->lat,
				.times = xcalloc(1, sizeof(*k->times)) };
	strcpy(k->name, like->name);
	return k;
}

void diff_side_total(struct diff_side *s, const char *name)
{
	struct diff_key like = { .kind = DIFF_EXITS, .events = true }, *all;
	size_t n = s->exits.nkey;

	snprintf(like.name, sizeof(like.name), "%s", name);
	all = key_named(&s->exits, &like);
	for (size_t i = 0; i < n; i++)
		key_add(all, 0, s->exits.key[i]);
}

/* After diff_set_end(), where slices differ in length. */
static void set_halve(struct diff_set *s)
{
	s->shift++;
	s->slice *= 2;
	s->n = (s->n + 1) / 2;
	for (size_t i = 0; i < s->nkey; i++)
		key_halve(s->key[i]);
	for (int p = 0; p < REPORT_PARTS; p++)
		slices_halve(s->part[p]);
	slices_halve(s->guest);
	slices_halve(s->ops);
	slices_halve(s->ns);
	slices_halve(s->seconds);
}

static void set_add(struct diff_set *to, struct diff_set *from)
{
	while (to->shift != from->shift || to->n + from->n > DIFF_SLICES) {
		if (to->shift <= from->shift)
			set_halve(to);
		if (from->shift < to->shift)
			set_halve(from);
	}
	for (size_t i = 0; i < from->nkey; i++)
		key_add(key_named(to, from->key[i]), to->n, from->key[i]);
	for (size_t i = 0; i < from->n; i++, to->n++) {
		for (int p = 0; p < REPORT_PARTS; p++)
			to->part[p][to->n] = from->part[p][i];
		to->guest[to->n] = from->guest[i];
		to->ops[to->n] = from->ops[i];
		to->ns[to->n] = from->ns[i];
		to->seconds[to->n] = from->seconds[i];
	}
	to->length += from->length;
}

void diff_side_add(struct diff_side *s, struct diff_side *more)
{
	set_add(&s->exits, &more->exits);
	set_add(&s->latency, &more->latency);
	s->samples += more->samples;
	s->ops += more->ops;
	s->grain = MAX(s->grain, more->grain);
	s->vms = MAX(s->vms, more->vms);
	s->vcpus = MAX(s->vcpus, more->vcpus);
	s->parts &= more->parts;
	for (unsigned int k = 0; k < LAT_KINDS; k++)
		s->answers[k] &= more->answers[k];
	s->more++;
}

void diff_side_free(struct diff_side *s)
{
	report_free(s->r);
	diff_set_free(&s->exits);
	diff_set_free(&s->latency);
}
