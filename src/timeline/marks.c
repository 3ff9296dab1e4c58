/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * marks.c: how far each stream was given out, for a time line of captures that still grow.
 *
 * Such a time line is made anew, from what the captures are by then, and goes on where the one
 * before it stopped. Stamps of one CPU ascend, whatever became of its files in the meantime: old
 * segments may be gone, the last sub-buffer may hold more. So a stamp, and how many things with it
 * were given out, is a place that stays.
 */

#include "priv.h"

struct tl_marks {
	struct u64map at; /* of a source and its CPU in mark[] */
	struct tl_mark **mark;
	size_t n, cap;
};

int tl_marks_new(struct tl_marks **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void tl_marks_free(struct tl_marks *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++)
		free(m->mark[i]);
	free(m->mark);
	u64map_free(&m->at);
	free(m);
}

/* Its address stays: streams have it. */
struct tl_mark *tl_mark_of(struct tl_marks *m, const struct tl_source *src, uint32_t cpu)
{
	const uint64_t key = (uint64_t)src->id << 32 | cpu;
	struct tl_mark *mark;
	uint64_t at;

	if (u64map_get(&m->at, key, &at))
		return m->mark[at];
	mark = calloc(1, sizeof(*mark));
	if (mark)
		mark->segment = src->read_to;
	if (!mark || u64map_put(&m->at, key, m->n) ||
	    array_add(&m->mark, &m->n, &m->cap, &mark, sizeof(mark))) {
		u64map_del(&m->at, key);
		free(mark);
		return NULL;
	}
	return mark;
}

bool tl_mark_passed(struct tl_mark_skip *s, uint64_t stamp)
{
	if (!s->mark || s->resumed)
		return false;
	if (s->mark->n && stamp < s->mark->stamp)
		return true;
	if (s->mark->n > s->skipped && stamp == s->mark->stamp) {
		s->skipped++;
		return true;
	}
	s->resumed = true;
	return false;
}

void tl_mark_given(struct tl_mark *m, uint64_t stamp)
{
	m->n = m->n && m->stamp == stamp ? m->n + 1 : 1;
	m->stamp = stamp;
}

void tl_mark_behind(struct tl_stream *s)
{
	struct tl_mark *m = s->skip.mark;

	m->next = s->ended ? 0 : s->stamp;
	if (s->ended)
		m->segment = s->src->cap->last_segment;
}

void tl_follow(struct timeline *t, struct tl_marks *m, uint64_t to)
{
	t->marks = m;
	t->from = 0;
	t->to = to;
	/* What was removed before the first of these time lines is not missing in them. */
	for (size_t i = 0; i < t->nsrc && !t->inherited; i++) {
		struct tl_source *s = t->src[i];

		s->followed = !s->cap->trimmed;
		s->read_to = s->cap->first_segment;
	}
}

void tl_follow_no_end(struct timeline *t)
{
	for (size_t i = 0; i < t->nsrc; i++)
		t->src[i]->no_end = !t->src[i]->cap->complete;
}

int tl_inherit(struct timeline *t, const struct timeline *before)
{
	int ret = hostmap_inherit(t->map, before->map);

	t->inherited = true;
	t->markers = tl_markers(before);
	/* Some of those before may be gone; the others are in the same order. */
	for (size_t i = 0, k = 0; i < t->nsrc && !ret; i++) {
		while (k < before->nsrc && before->src[k]->id != t->src[i]->id)
			k++;
		if (k == before->nsrc)
			break;
		t->src[i]->events = before->src[k]->events;
		t->src[i]->gaps = before->src[k]->gaps;
		t->src[i]->lost = before->src[k]->lost;
		t->src[i]->lost_unknown = before->src[k]->lost_unknown;
		t->src[i]->damaged = before->src[k]->damaged;
		t->src[i]->unplaced = before->src[k]->unplaced;
		t->src[i]->error = before->src[k]->error;
		t->src[i]->followed = before->src[k]->followed;
		t->src[i]->missed = before->src[k]->missed;
		t->src[i]->read_to = before->src[k]->cap->last_segment;
		ret = comms_inherit(t->src[i]->comms, before->src[k]->comms);
	}
	return ret;
}
