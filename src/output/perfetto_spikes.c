/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto_spikes.c: what came late in the guests, and why: a slice for each spike, named by its
 * cause, with where its time went as arguments.
 *
 *	vCPUs of vm1	spikes		side by side where they overlap
 */
#include "perfetto.h"
#include "kvmft/blame.h"

#define ROWS 64u /* side by side: more than any guest has at once that are told of */

COMPARE_BY(by_begin, struct blame_spike *, ->begin);

static uint64_t khz_of(const struct out *o)
{
	return tl_hostmap(o->t)->cap->tsc_khz;
}

static void put_notes(const struct out *o, const struct blame_spike *s, struct sbuf *b)
{
	const char *unit = khz_of(o) ? "ns" : "cycles";
	char name[2 * BLAME_NAME];

	pf_note_str(b, "late", blame_whats[s->what].name);
	if (s->of[0])
		pf_note_str(b, "of", s->of);
	pf_note_u64(b, "vcpu", (uint64_t)s->vcpu);
	pf_note_str(b, "cause", blame_causes[s->cause].help);
	if (!s->sure && s->cause > CAUSE_LOST)
		pf_note_str(b, "sure", "no");
	for (size_t i = 0; i < s->nparts; i++) {
		const struct blame_part *p = &s->part[i];

		snprintf(name, sizeof(name), "%s%s%s, %s", blame_causes[p->cause].name,
			 p->name[0] ? ": " : "", p->name, unit);
		pf_note_u64(b, name, khz_of(o) ? tsc_cycles_to_ns(p->time, khz_of(o)) : p->time);
	}
}

static int put_spike(struct out *o, struct pf *p, const struct blame_spike *s, uint32_t row)
{
	_cleanup_(sbuf_free) struct sbuf notes = { 0 };
	struct pf_event e = { .type = PF_BEGIN, .name = blame_causes[s->cause].name,
			      .notes = &notes };
	uint64_t begin, end;
	struct pf_track *t;
	int ret;

	if (!out_clock_value(&o->clock, s->begin, s->vcpu, &begin) ||
	    !out_clock_value(&o->clock, s->end, s->vcpu, &end))
		return 0;
	t = pf_track(o, p, PF_SPIKES, tl_hostmap(o->t)->vm[s->vm].of, row);
	if (!t)
		return -ENOMEM;
	put_notes(o, s, &notes);
	if (notes.error)
		return -ENOMEM;
	p->now = begin;
	ret = pf_put(o, p, t, &e);
	p->now = end;
	return ret ?: pf_put(o, p, t, &(struct pf_event){ .type = PF_END });
}

/* The first row that is free then; ROWS: none. */
static uint32_t row_of(uint64_t *busy, uint64_t begin)
{
	uint32_t row = 0;

	while (row < ROWS && busy[row] > begin)
		row++;
	return row;
}

int out_perfetto_spikes(struct out *o, const struct blame_spike *spikes, size_t n)
{
	size_t nvm = tl_hostmap(o->t)->nvm;
	_cleanup_free_ const struct blame_spike **s = calloc(n + 1, sizeof(*s));
	_cleanup_free_ uint64_t(*busy)[ROWS] = calloc(nvm + 1, sizeof(*busy));
	struct pf *p = o->priv;
	uint64_t now = p->now;
	int ret = s && busy ? 0 : -ENOMEM;

	for (size_t i = 0; s && i < n; i++)
		s[i] = &spikes[i];
	if (!ret && n)
		qsort(s, n, sizeof(*s), by_begin);
	for (size_t i = 0; i < n && !ret; i++) {
		uint64_t *of;
		uint32_t row;

		if (s[i]->vm < 0 || (size_t)s[i]->vm >= nvm)
			continue;
		of = busy[tl_hostmap(o->t)->vm[s[i]->vm].of];
		row = row_of(of, s[i]->begin);
		if (row == ROWS)
			continue;
		of[row] = s[i]->end;
		ret = put_spike(o, p, s[i], row);
	}
	p->now = now;
	return ret;
}
