/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stories.c: what both sides did at some moments.
 *
 * Events of the moment's VM: its vCPUs' threads, its VMM's, and its guest. The last few items are
 * kept as copies, so that a story can begin with what led to it; only what is requested is printed.
 */
#include "stories.h"

#define STORY_LINES 60u /* of one moment: the beginning; then the end */
#define REC_MAX	    4096u

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

	t->f = open_memstream(&t->c->to->text, &t->size);
	if (!t->f)
		return -ENOMEM;
	t->begun = true;
	ret = out_begin(&t->out, s->line, out_formats[0], s->clock, t->f);
	t->out.color = s->color;
	t->out.nepoch = 0; /* changes of clocks are not part of a story */
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
	if ((fclose(t->f) || !t->c->to->text) && !ret)
		ret = -ENOMEM;
	t->f = NULL;
	return ret;
}

static int teller_item(struct stories *s, struct teller *t, const struct tl_item *i)
{
	int ret = 0;

	if (i->host < t->c->begin)
		return 0;
	if (!t->begun)
		ret = teller_begin(s, t);
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
		ret = out_left_out(&t->out);
	t->marked = t->c->to->left_out;
	return ret ?: out_item(&t->out, i);
}

/* An item for all whose moment it may be of; those that end with it are no longer asked. */
static int tell(struct stories *s, const struct tl_item *i)
{
	size_t left = 0;
	int ret = 0;

	while (s->met < s->n && s->t[s->met].c->begin <= i->host)
		s->open[s->nopen++] = &s->t[s->met++];
	for (size_t k = 0; k < s->nopen && !ret; k++) {
		struct teller *t = s->open[k];

		ret = teller_item(s, t, i);
		s->open[left] = t;
		left += !t->ended;
	}
	s->nopen = left;
	return ret;
}

static int walk(struct stories *s)
{
	const struct tl_item *i;
	int ret = 0;

	while ((s->nopen || s->met < s->n) && (ret = tl_next(s->line, &i)) > 0) {
		ret = tell(s, i);
		if (ret)
			break;
		keep(s, i);
	}
	return ret;
}

static int by_begin(const void *a_, const void *b_)
{
	const struct teller *a = a_, *b = b_;

	return ORDER(a->c->begin, b->c->begin);
}

int stories_tell(const struct story *v, size_t n, struct timeline *t, const struct out_clock *clock,
		 bool color, uint64_t context)
{
	struct stories s = {
		.t = calloc(n + 1, sizeof(*s.t)), .open = calloc(n + 1, sizeof(*s.open)),
		.n = n, .line = t, .clock = clock, .color = color,
		.ring = calloc(context ?: 1, sizeof(*s.ring)), .context = context,
	};
	int ret = s.ring && s.t && s.open ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !ret; i++)
		s.t[i].c = &v[i];
	if (!ret)
		qsort(s.t, n, sizeof(*s.t), by_begin);
	ret = ret ?: walk(&s);
	for (size_t i = 0; s.t && i < n; i++)
		if (s.t[i].begun && !s.t[i].ended) {
			int end = teller_end(&s.t[i]);

			ret = ret ?: end;
		}
	free(s.ring);
	free(s.open);
	free(s.t);
	return ret;
}
