/* SPDX-License-Identifier: GPL-2.0-or-later */
/* blaming.c: the two walks of blame, over a pairing. */
#include "kvmft/results.h"

/*
 * What both sides did at some moments.
 *
 * Events of the moment's VM: its vCPUs' threads, its VMM's, and its guest. The last few items are
 * kept as copies, so that a story can begin with what led to it; only what is requested is printed.
 */

#define STORY_LINES 60u /* of one moment: the beginning; then the end */
#define REC_MAX	    4096u
#define STORIES_TOLD 1 /* the rest of the time line is of no moment */

struct kept {
	struct tl_item item;
	struct rec rec;
	uint8_t data[REC_MAX];
};

struct teller {
	const struct story *c;
	FILE *f;
	size_t size;
	struct out out;
	uint64_t lines, after;
	bool begun, ended, marked;
};

struct stories {
	struct timeline *line;
	const struct out_clock *clock;
	bool color;
	uint64_t context;
	struct kept *ring;
	size_t nring, at;
	struct teller *t; /* n of them, by their beginnings; the first `met` have begun */
	size_t n, met;
	struct teller **open; /* of those the nopen that have not ended */
	size_t nopen;
};

/* The VM that an item is of, -1: of none. */
static int64_t item_vm(const struct stories *s, const struct tl_item *i)
{
	return i->vm >= 0 ? i->vm : hostmap_task_vm(tl_hostmap(s->line), i->tid);
}

static int teller_end(struct teller *t)
{
	int ret = out_end(&t->out);

	t->ended = true;
	if (fclose(t->f) || !t->c->to->text)
		memory_out();
	t->f = NULL;
	return ret;
}

static int teller_item(struct stories *s, struct teller *t, const struct tl_item *i)
{
	int ret = 0;

	if (i->host < t->c->begin)
		return 0;
	if (!t->begun) {
		t->f = xmem(open_memstream(&t->c->to->text, &t->size));
		t->begun = true;
		out_begin(&t->out, s->line, out_formats[0], s->clock, t->f);
		t->out.color = s->color;
		t->out.nepoch = 0; /* changes of clocks are not part of a story */
		for (size_t j = 0; j < s->nring && !ret; j++) {
			const struct kept *k =
				&s->ring[(s->at + s->context - s->nring + j) % s->context];

			if (item_vm(s, &k->item) == t->c->vm || t->c->vm < 0)
				ret = out_item(&t->out, &k->item);
		}
	}
	if (ret)
		return ret;
	if (t->c->vm >= 0 && item_vm(s, i) != t->c->vm)
		return 0;
	if (i->host > t->c->end && t->after++ >= s->context)
		return teller_end(t);
	if (i->host < t->c->end && t->lines++ >= STORY_LINES) {
		t->c->to->left_out++;
		return 0;
	}
	if (t->c->to->left_out && !t->marked)
		out_left_out(&t->out);
	t->marked = t->c->to->left_out;
	return out_item(&t->out, i);
}

/* An item for all whose moment it may be of; those that end with it are no longer asked. */
static int stories_item(void *stories, const struct tl_item *i)
{
	struct stories *s = stories;
	size_t left = 0;
	int ret = 0;

	while (s->met < s->n && s->t[s->met].c->begin <= i->host)
		s->open[s->nopen++] = &s->t[s->met++];
	for (size_t j = 0; j < s->nopen && !ret; j++) {
		struct teller *t = s->open[j];

		ret = teller_item(s, t, i);
		s->open[left] = t;
		left += !t->ended;
	}
	s->nopen = left;
	if (!ret && s->context && i->kind == TL_EVENT && i->rec->len <= REC_MAX) {
		struct kept *k = &s->ring[s->at];

		s->at = (s->at + 1) % s->context;
		s->nring = MIN(s->nring + 1, (size_t)s->context);
		k->item = *i;
		k->rec = *i->rec;
		memcpy(k->data, i->rec->data, i->rec->len);
		k->rec.data = k->data;
		k->item.rec = &k->rec;
	}
	return ret ?: s->nopen || s->met < s->n ? 0 : STORIES_TOLD;
}

COMPARE(by_begin, struct teller, ORDER(x->c->begin, y->c->begin));

int stories_tell(const struct story *v, size_t n, struct timeline *t, const struct out_clock *clock,
		 bool color, uint64_t context)
{
	struct stories s = {
		.t = xcalloc(n + 1, sizeof(*s.t)), .open = xcalloc(n + 1, sizeof(*s.open)),
		.n = n, .line = t, .clock = clock, .color = color,
		.ring = xcalloc(context ?: 1, sizeof(*s.ring)), .context = context,
	};
	int ret;

	for (size_t i = 0; i < n; i++)
		s.t[i].c = &v[i];
	array_sort(s.t, n, by_begin);
	ret = n ? tl_walk(t, TL_ITEM(stories_item, &s)) : 0;
	ret = ret == STORIES_TOLD ? 0 : ret;
	for (size_t i = 0; i < n; i++)
		if (s.t[i].begun && !s.t[i].ended) {
			int end = teller_end(&s.t[i]);

			ret = ret ?: end;
		}
	free(s.ring);
	free(s.open);
	free(s.t);
	return ret;
}

#define PAGE_SPIKES  30u
#define PAGE_LEAD_MS 1000u /* what a vCPU does at the beginning of a window may have begun before */

int blaming_begin(struct blaming *m)
{
	return view_start(m->v) ?: blame_new(m->v->p->t, &m->o, &m->b, m->v->err);
}

int blaming_find(struct blaming *m)
{
	int ret = view_walk(m->v, TL_FEED(blame_find, m->b));

	if (!ret)
		blame_found(m->b);
	return err_why(m->v->err, ret, "cannot read the captures");
}

struct lat_bound *lat_bounds(const struct pairing *p, const struct windows *w)
{
	struct lat_bound *b = xcalloc(p->map->nvm + 1, sizeof(*b));
	const uint64_t khz = p->host.cap->tsc_khz;

	for (size_t i = 0; i < p->nguest; i++) {
		size_t vm = p->guest[i].vm, of = p->map->vm[vm].of;
		struct win_stats s;

		win_total(w, (int64_t)vm, &s);
		b[vm].guest = true;
		b[vm].uncertain = ns_or_cycles(p->map->vm[vm].uncertain, khz);
		b[of].uncertain = MAX(b[of].uncertain, b[vm].uncertain);
		b[vm].known =
			s.has_early && s.has_late && s.early >= 0 && s.late >= 0 && !s.outside;
		if (!b[vm].known)
			continue;
		b[vm].early = ns_or_cycles((uint64_t)s.early, khz);
		b[vm].late = ns_or_cycles((uint64_t)s.late, khz);
	}
	return b;
}

/* For blame_judge(): by VM, to be freed. */
static uint64_t *offs_of(const struct pairing *p, const struct lat_bound *bound)
{
	uint64_t *off = xcalloc(p->map->nvm + 1, sizeof(*off)), khz = p->host.cap->tsc_khz;

	for (size_t i = 0; i < p->map->nvm; i++) {
		const struct lat_bound *o = &bound[p->map->vm[i].of];
		uint64_t most = MAX(MAX(o->early, o->late), o->uncertain);

		most = khz ? (uint64_t)((unsigned __int128)most * khz / 1000000) : most;
		off[i] = !o->guest ? 0 : o->known ? most : UINT64_MAX;
	}
	return off;
}

void blaming_judge(const struct pairing *p, const struct windows *w, struct blame_spike *s,
		   size_t n)
{
	_cleanup_free_ struct lat_bound *bound = lat_bounds(p, w);
	_cleanup_free_ uint64_t *off = offs_of(p, bound);

	for (size_t i = 0; i < n; i++)
		if (s[i].vm < (int64_t)p->map->nvm)
			blame_judge(&s[i], off);
}

int blaming_explain(struct blaming *m)
{
	_cleanup_free_ uint64_t *off = NULL;
	const struct pairing *p = m->v->p;
	int before = tl_error(p->t);
	uint64_t from, to;
	int ret = 0;

	if (m->v->prove != VIEW_PROVE_NOT) {
		m->bound = lat_bounds(p, m->v->w);
		off = offs_of(p, m->bound);
		for (size_t i = 0; m->v->vm >= 0 && i < p->map->nvm; i++)
			if (p->map->vm[i].of != (size_t)m->v->vm)
				m->bound[i] = (struct lat_bound){ 0 };
	}
	if (blame_window(m->b, &from, &to)) {
		ret = view_again(m->v, MAX(from, m->v->from), to);
		ret = ret ?: blame_again(m->b, m->v->err);
		ret = ret ?: tl_walk(p->t, TL_FEED(blame_explain, m->b));
		ret = ret || before ? ret : tl_error(p->t);
		ret = ret ?: blame_explained(m->b, off);
	}
	return err_why(m->v->err, ret, "cannot read the captures a second time");
}

void blaming_free(struct blaming *m)
{
	free(m->bound);
	blame_free(m->b);
}

/* ---- for pages ---- */

/* Both walks, by a view of their own; m->b has no spikes where there are none. */
static int both_walks(struct blaming *m, struct view *v, const struct view *of, size_t top,
		      bool judge)
{
	uint64_t lead = (of->p->host.cap->tsc_khz ?: 2000000) * PAGE_LEAD_MS;
	struct kvmft_err lacks = { .text = "" };
	int ret, before = tl_error(of->p->t);

	*v = *of;
	*m = (struct blaming){
		.v = v, .o = { .vm = -1, .vcpu = -1, .top = top, .from = v->from, .to = v->to },
	};
	v->prove = judge ? VIEW_PROVE : VIEW_PROVE_NOT;
	v->from -= MIN(v->from, lead);
	v->w = NULL;
	if (v->p->alone || v->p->nlater)
		return 0;
	v->err = &lacks;
	ret = blaming_begin(m);
	v->err = of->err;
	if (ret && ret != -ENOTSUP && lacks.code != KVMFT_LACKING)
		*v->err = lacks;
	else if (ret)
		ret = 0; /* captures without the events that spikes are found by: a page without
			  * them */
	else
		ret = blaming_find(m);
	if (!ret && !before)
		ret = err_why(v->err, tl_error(v->p->t), "cannot read the captures a second time");
	if (!ret && m->b && blame_spikes(m->b))
		ret = blaming_explain(m);
	tl_stop(v->p->t);
	win_free(v->w);
	return ret;
}

int blaming_json(const struct view *view, char **json)
{
	struct blaming m;
	struct view v;
	int ret = both_walks(&m, &v, view, PAGE_SPIKES, true);

	*json = NULL;
	if (!ret && m.b && blame_spikes(m.b)) {
		const struct blame_view bv = {
			.blame = m.b, .t = v.p->t, .clock = &v.clock, .bound = m.bound
		};
		struct sbuf b = { 0 };

		blame_print(&bv, "json", &b);
		*json = xsbuf_take(&b);
	}
	blaming_free(&m);
	return ret;
}

int blaming_spikes(const struct view *view, size_t top, bool judge, struct blame **spikes)
{
	struct blaming m;
	struct view v;
	int ret = both_walks(&m, &v, view, top, judge);

	*spikes = m.b;
	m.b = NULL;
	blaming_free(&m);
	return ret;
}
