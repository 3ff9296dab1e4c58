/* SPDX-License-Identifier: GPL-2.0-or-later */
/* blaming.c: the two walks of blame, over a pairing. */
#include "blaming.h"
#include "kvmft/blame_output.h"
#include "sink.h"

#define PAGE_SPIKES  30u
#define PAGE_LEAD_MS 1000u /* what a vCPU does at the beginning of a window may have begun before */

int blaming_begin(struct blaming *m)
{
	int ret;

	if (m->to)
		tl_window(m->p->t, m->from, m->to);
	ret = tl_start(m->p->t, m->err);
	ret = ret ?: blame_new(m->p->t, &m->o, &m->b, m->err);
	if (!ret && !m->unjudged && win_new(m->p->t, &m->w))
		ret = err_set(m->err, ENOMEM, "out of memory");
	return ret;
}

int blaming_find(struct blaming *m)
{
	const struct tl_item *item;
	int ret;

	while ((ret = tl_next(m->p->t, &item)) > 0) {
		ret = m->w ? win_feed(m->w, item) : 0;
		ret = ret ?: blame_find(m->b, item);
		if (ret)
			break;
	}
	if (m->w)
		win_finish(m->w);
	ret = ret ?: blame_found(m->b);
	return err_why(m->err, ret, "cannot read the captures");
}

int blaming_again(const struct blaming *m, uint64_t from, uint64_t to)
{
	tl_stop(m->p->t);
	tl_window(m->p->t, from, to);
	return tl_start(m->p->t, m->err);
}

static uint64_t off_of(const struct pairing *p, const struct lat_bound *bound, size_t vm)
{
	const struct lat_bound *o = &bound[p->map->vm[vm].of];
	uint64_t khz = p->host.cap->tsc_khz, off = MAX(MAX(o->early, o->late), o->uncertain);

	if (!o->guest)
		return 0;
	if (!o->known)
		return UINT64_MAX;
	return khz ? (uint64_t)((unsigned __int128)off * khz / 1000000) : off;
}

/* For blame_judge(): by VM, to be freed. */
static int offs_of(const struct pairing *p, const struct windows *w, struct lat_bound **bound,
		   uint64_t **off, struct kvmft_err *err)
{
	int ret = sink_bounds(p, w, bound, err);

	*off = calloc(p->map->nvm + 1, sizeof(**off));
	if (!ret && !*off)
		ret = err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; !ret && i < p->map->nvm; i++)
		(*off)[i] = off_of(p, *bound, i);
	return ret;
}

int blaming_judge(const struct pairing *p, const struct windows *w, struct blame_spike *s, size_t n,
		  struct kvmft_err *err)
{
	_cleanup_free_ struct lat_bound *bound = NULL;
	_cleanup_free_ uint64_t *off = NULL;
	int ret = offs_of(p, w, &bound, &off, err);

	for (size_t i = 0; !ret && i < n; i++)
		if (s[i].vm < (int64_t)p->map->nvm)
			blame_judge(&s[i], off);
	return ret;
}

int blaming_explain(struct blaming *m)
{
	_cleanup_free_ uint64_t *off = NULL;
	const struct tl_item *item;
	int before = tl_error(m->p->t);
	uint64_t from, to;
	int ret = m->w ? offs_of(m->p, m->w, &m->bound, &off, m->err) : 0;

	if (!ret && blame_window(m->b, &from, &to)) {
		ret = blaming_again(m, MAX(from, m->from), to);
		ret = ret ?: blame_again(m->b, m->err);
		while (!ret && (ret = tl_next(m->p->t, &item)) > 0)
			ret = blame_explain(m->b, item);
		ret = ret || before ? ret : tl_error(m->p->t);
		ret = ret ?: blame_explained(m->b, off);
	}
	return err_why(m->err, ret, "cannot read the captures a second time");
}

void blaming_free(struct blaming *m)
{
	free(m->bound);
	blame_free(m->b);
	win_free(m->w);
}

/* ---- for pages ---- */

static int print_json(const struct blaming *m, const struct out_clock *clock, char **json)
{
	const struct blame_view v = {
		.blame = m->b, .t = m->p->t, .clock = clock, .bound = m->bound,
	};
	size_t size;
	FILE *f = open_memstream(json, &size);
	int ret = f ? blame_print(&v, "json", f) : -ENOMEM;

	if (f && (fclose(f) || !*json) && !ret)
		ret = -ENOMEM;
	return err_why(m->err, ret, "cannot list the spikes");
}

/* Both walks, with bounds around what is requested; m->b has no spikes where there are none. */
static int both_walks(struct blaming *m, struct pairing *p, uint64_t from, uint64_t to, size_t top,
		      bool judge, struct kvmft_err *err)
{
	uint64_t lead = (p->host.cap->tsc_khz ?: 2000000) * PAGE_LEAD_MS;
	struct kvmft_err lacks = { .text = "" };
	int ret;

	*m = (struct blaming){
		.p = p, .err = &lacks, .from = from - MIN(from, lead), .to = to, .unjudged = !judge,
		.o = { .vm = -1, .vcpu = -1, .top = top, .from = from, .to = to },
	};
	if (p->alone || p->nlater)
		return 0;
	ret = blaming_begin(m);
	m->err = err;
	if (ret && ret != -ENOTSUP && lacks.code != KVMFT_LACKING)
		*err = lacks;
	else if (ret)
		ret = 0; /* captures without the events that spikes are found by: a page without
			  * them */
	else
		ret = blaming_find(m);
	if (!ret && m->b && blame_spikes(m->b))
		ret = blaming_explain(m);
	tl_stop(p->t);
	return ret;
}

int blaming_json(struct pairing *p, const struct out_clock *clock, uint64_t from, uint64_t to,
		 char **json, struct kvmft_err *err)
{
	struct blaming m;
	int ret = both_walks(&m, p, from, to, PAGE_SPIKES, true, err);

	*json = NULL;
	if (!ret && m.b && blame_spikes(m.b))
		ret = print_json(&m, clock, json);
	blaming_free(&m);
	return ret;
}

int blaming_spikes(struct pairing *p, uint64_t from, uint64_t to, size_t top, bool judge,
		   struct blame **spikes, struct kvmft_err *err)
{
	struct blaming m;
	int ret = both_walks(&m, p, from, to, top, judge, err);

	*spikes = m.b;
	m.b = NULL;
	blaming_free(&m);
	return ret;
}
