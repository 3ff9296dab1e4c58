/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * latency_stories.c: what both sides did during each of the worst cases.
 *
 * Events of the case's VM: its vCPUs' threads, its VMM's, and its guest. The last few items are
 * kept as copies, so that a story can begin with what led to it; nothing is printed but what is
 * asked for.
 */
#include "latency_stories.h"

#include <errno.h>
#include <string.h>

#define STORY_LINES 60u /* of one case: the beginning; then the end */
#define REC_MAX	    4096u

struct kept {
	struct tl_item item;
	struct rec rec;
	uint8_t data[REC_MAX];
};

struct teller {
	const struct lat_case *c;
	struct lat_story *story;
	FILE *f;
	size_t size;
	struct out out;
	uint64_t lines, after;
	bool begun, ended;
};

struct stories {
	struct lat_view *v;
	const struct hostmap *map;
	uint64_t context;
	struct kept *ring;
	size_t nring, at;
	struct teller *t;
	size_t n;
};

/* The VM that an item is of, -1: of none. */
static int64_t item_vm(const struct stories *s, const struct tl_item *i)
{
	return i->vm >= 0 ? i->vm : hostmap_task_vm(s->map, i->tid);
}

static void keep(struct stories *s, const struct tl_item *i)
{
	struct kept *k;

	if (!s->context || i->kind != TL_EVENT || i->rec->len > REC_MAX)
		return;
	k = &s->ring[s->at];
	s->at = (s->at + 1) % s->context;
	s->nring = MIN(s->nring + 1, (size_t)s->context);
	k->item = *i;
	k->rec = *i->rec;
	memcpy(k->data, i->rec->data, i->rec->len);
	k->rec.data = k->data;
	k->item.rec = &k->rec;
}

static int teller_begin(struct stories *s, struct teller *t)
{
	int ret;

	t->f = open_memstream(&t->story->text, &t->size);
	if (!t->f)
		return -ENOMEM;
	t->begun = true;
	ret = out_begin(&t->out, s->v->t, out_formats[0], s->v->clock, t->f);
	t->out.color = s->v->color;
	t->out.nepoch = 0; /* changes of clocks are no part of a story */
	for (size_t i = 0; i < s->nring && !ret; i++) {
		const struct kept *k = &s->ring[(s->at + s->context - s->nring + i) % s->context];

		if (item_vm(s, &k->item) == t->c->vm || t->c->vm < 0)
			ret = out_item(&t->out, &k->item);
	}
	return ret;
}

static int teller_end(struct teller *t)
{
	int ret = out_end(&t->out);

	t->ended = true;
	if (fclose(t->f) && !ret)
		ret = -ENOMEM;
	t->f = NULL;
	return ret;
}

static int teller_item(struct stories *s, struct teller *t, const struct tl_item *i)
{
	int ret = 0;

	if (t->ended || i->host < t->c->begin)
		return 0;
	if (!t->begun)
		ret = teller_begin(s, t);
	if (ret)
		return ret;
	if (t->c->vm >= 0 && item_vm(s, i) != t->c->vm)
		return 0;
	if (i->host > t->c->end && t->after++ >= s->context)
		return teller_end(t);
	if (t->lines++ >= STORY_LINES) {
		t->story->left_out++;
		return 0;
	}
	return out_item(&t->out, i);
}

static int walk(struct stories *s, struct timeline *again)
{
	const struct tl_item *i;
	size_t open = s->n;
	int ret;

	while (open && (ret = tl_next(again, &i)) > 0) {
		open = 0;
		ret = 0;
		for (size_t k = 0; k < s->n && !ret; k++) {
			ret = teller_item(s, &s->t[k], i);
			open += !s->t[k].ended;
		}
		if (ret)
			return ret;
		keep(s, i);
	}
	return open ? ret : 0;
}

static int tellers(struct stories *s)
{
	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		const struct lat_table *t = lat_table(s->v->lat, (enum lat_table_id)id);

		if (!s->v->want[lat_table_kind((enum lat_table_id)id)] || !t->nworst ||
		    id == LAT_T_STEALER)
			continue;
		s->v->story[id] = calloc(t->nworst, sizeof(*s->v->story[id]));
		if (!s->v->story[id])
			return -ENOMEM;
		for (size_t i = 0; i < t->nworst; i++) {
			s->t[s->n].c = &t->worst[i];
			s->t[s->n++].story = &s->v->story[id][i];
		}
	}
	return 0;
}

int stories_tell(struct lat_view *v, struct pairing *again, uint64_t context)
{
	struct stories s = { .v = v, .map = again->map, .context = context };
	size_t n = 1;
	int ret = -ENOMEM;

	for (unsigned int id = 0; id < LAT_TABLES; id++)
		n += lat_table(v->lat, (enum lat_table_id)id)->nworst;
	s.ring = calloc(context ? context : 1, sizeof(*s.ring));
	s.t = calloc(n, sizeof(*s.t));
	if (s.ring && s.t)
		ret = tellers(&s);
	ret = ret ? ret : walk(&s, again->t);
	for (size_t i = 0; i < s.n; i++)
		if (s.t[i].begun && !s.t[i].ended) {
			int end = teller_end(&s.t[i]);

			ret = ret ? ret : end;
		}
	free(s.ring);
	free(s.t);
	return ret;
}

void stories_free(struct lat_view *v)
{
	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		for (size_t i = 0;
		     v->story[id] && i < lat_table(v->lat, (enum lat_table_id)id)->nworst; i++)
			free(v->story[id][i].text);
		free(v->story[id]);
		v->story[id] = NULL;
	}
}
