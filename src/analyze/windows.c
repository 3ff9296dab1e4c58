/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * windows.c: entry..exit windows per vCPU, the events in them, and the slack they leave.
 *
 * Per vCPU one small state machine, fed in host TSC order. The host stream comes first among equal
 * stamps, so an event stamped exactly like an entry is inside; one stamped exactly like an exit is
 * taken as inside too.
 */
#include "kvmft/windows.h"

#include <errno.h>

#define RECENT 64 /* vCPUs found without the map */

struct windows {
	const struct hostmap *map;
	const struct fmt_event *entry, *exit;
	struct win_vcpu *v;
	size_t n, cap;
	struct u64map by_key; /* vm << 32 | vcpu → index */
	struct {
		uint64_t key;
		size_t at; /* index + 1 */
	} recent[RECENT];
	uint64_t blind_until; /* host events were lost up to here: no window is known */
};

static struct win_vcpu *win_at(struct windows *w, size_t vm, uint32_t vcpu)
{
	uint64_t key = (uint64_t)vm << 32 | vcpu, at;
	size_t r = (vm * 7 + vcpu) % RECENT;
	struct win_vcpu *v;

	if (w->recent[r].at && w->recent[r].key == key)
		return &w->v[w->recent[r].at - 1];
	w->recent[r].key = key;
	if (u64map_get(&w->by_key, key, &at)) {
		w->recent[r].at = at + 1;
		return &w->v[at];
	}
	w->recent[r].at = 0;
	v = array_grow(&w->v, w->n, &w->cap, sizeof(*v));
	if (!v || u64map_put(&w->by_key, key, w->n))
		return NULL;
	v->vm = vm;
	v->vcpu = vcpu;
	w->n++;
	return v;
}

int win_new(const struct timeline *t, struct windows **out)
{
	struct windows *w = calloc(1, sizeof(*w));

	*out = w;
	if (!w)
		return -ENOMEM;
	w->map = tl_hostmap(t);
	w->entry = fmt_find(w->map->fmt, "kvm", "kvm_entry");
	w->exit = fmt_find(w->map->fmt, "kvm", "kvm_exit");
	return 0;
}

static void slack(int64_t *field, bool *has, int64_t value)
{
	if (!*has || value < *field)
		*field = value;
	*has = true;
}

static void outside_by(struct win_stats *s, int64_t distance)
{
	if (distance > s->outside_max)
		s->outside_max = distance;
}

/* Events since the last exit were outside; now the next entry is known, so is their distance. */
static void win_settle_outside(struct win_vcpu *v, bool entered, uint64_t entry)
{
	int64_t to_exit, to_entry;

	if (!v->any_out)
		return;
	to_exit = (int64_t)v->pending_after;
	to_entry = entered ? (int64_t)(entry - v->last_out) : INT64_MAX;
	/* Too late by to_exit, or too early by to_entry: the nearer one is blamed. */
	if (to_exit <= to_entry)
		slack(&v->s.late, &v->s.has_late, -to_exit);
	else
		slack(&v->s.early, &v->s.has_early, -to_entry);
	outside_by(&v->s, MIN(to_exit, to_entry));
	v->any_out = false;
	v->pending_after = 0;
}

static void win_entry(struct win_vcpu *v, uint64_t t)
{
	/* entry after entry: the first one failed or its exit was not traced; no slack from it. */
	win_settle_outside(v, true, t);
	v->state = WIN_IN_GUEST;
	v->entry = t;
	v->any_in = false;
}

static void win_exit(struct win_vcpu *v, uint64_t t)
{
	if (v->state == WIN_IN_GUEST && v->any_in) {
		slack(&v->s.early, &v->s.has_early, (int64_t)(v->first_in - v->entry));
		slack(&v->s.late, &v->s.has_late, (int64_t)(t - v->last_in));
	}
	v->state = WIN_OUT;
	v->exit = t;
	v->has_exit = true;
	v->any_in = false;
}

static void win_guest_event(struct win_vcpu *v, const struct tl_item *i)
{
	if (v->state == WIN_UNKNOWN || i->unplaced) {
		v->s.unchecked++;
		return;
	}
	v->s.checked++;
	if (v->state == WIN_IN_GUEST) {
		v->s.inside++;
		if (!v->any_in)
			v->first_in = i->host;
		v->last_in = i->host;
		v->any_in = true;
		return;
	}
	if (i->host == v->exit) {
		v->s.inside++;
		slack(&v->s.late, &v->s.has_late, 0);
		return;
	}
	v->s.outside++;
	v->pending_after = MAX(v->pending_after, i->host - v->exit);
	v->last_out = i->host;
	v->any_out = true;
}

/* Forgets the windows of a vCPU: entries or exits of it may have been lost. */
static void win_forget(struct win_vcpu *v)
{
	v->state = WIN_UNKNOWN;
	v->any_in = false;
	v->any_out = false;
	v->pending_after = 0;
}

/*
 * Lost host events may have been entries and exits of any vCPU, whichever CPU lost them. Lost guest
 * events cost nothing: those that are left are still inside or outside.
 */
static void win_gap(struct windows *w, const struct tl_item *i)
{
	if (i->src->guest)
		return;
	w->blind_until = MAX(w->blind_until, i->host + i->width);
	for (size_t k = 0; k < w->n; k++)
		win_forget(&w->v[k]);
}

int win_feed(struct windows *w, const struct tl_item *i)
{
	struct win_vcpu *v;

	if (i->kind != TL_EVENT) {
		win_gap(w, i);
		return 0;
	}
	if (i->vcpu < 0 || i->vm < 0)
		return 0;
	if (!i->src->guest && (!i->ev || (i->ev != w->entry && i->ev != w->exit)))
		return 0;
	v = win_at(w, (size_t)i->vm, (uint32_t)i->vcpu);
	if (!v)
		return -ENOMEM;
	if (w->blind_until && i->host <= w->blind_until) {
		v->s.unchecked += i->src->guest;
		win_forget(v);
	} else if (i->src->guest)
		win_guest_event(v, i);
	else if (i->ev == w->entry)
		win_entry(v, i->host);
	else
		win_exit(v, i->host);
	return 0;
}

void win_finish(struct windows *w)
{
	for (size_t k = 0; k < w->n; k++)
		win_settle_outside(&w->v[k], false, 0);
}

size_t win_count(const struct windows *w)
{
	return w->n;
}

const struct win_vcpu *win_vcpu(const struct windows *w, size_t i)
{
	return &w->v[i];
}

void win_total(const struct windows *w, int64_t vm, struct win_stats *s)
{
	*s = (struct win_stats){ 0 };
	for (size_t k = 0; k < w->n; k++) {
		const struct win_stats *v = &w->v[k].s;

		if (vm >= 0 && w->v[k].vm != (size_t)vm)
			continue;
		s->checked += v->checked;
		s->inside += v->inside;
		s->outside += v->outside;
		s->unchecked += v->unchecked;
		if (v->has_early)
			slack(&s->early, &s->has_early, v->early);
		if (v->has_late)
			slack(&s->late, &s->has_late, v->late);
		outside_by(s, v->outside_max);
	}
}

void win_free(struct windows *w)
{
	if (!w)
		return;
	free(w->v);
	u64map_free(&w->by_key);
	free(w);
}
