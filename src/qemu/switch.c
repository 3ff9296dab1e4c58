/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * switch.c: what the states and properties of QEMU's trace events mean, in plain words; and the way
 * back to former states.
 */
#include "kvmft/qemu_switch.h"

static const char *nearest(const struct mon_events *events, const char *name)
{
	const char *best = NULL;
	unsigned int best_d = 4;

	for (size_t i = 0; i < events->n; i++) {
		unsigned int d = str_distance(events->v[i].name, name);

		if (d < best_d) {
			best = events->v[i].name;
			best_d = d;
		}
	}
	return best;
}

/* "NAME_trans" or "NAME_exec": what property "tcg" made of NAME. */
static bool is_tcg(const struct mon_events *events, const char *name)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_addf(&b, "%s_exec", name);
	return b.s && mon_events_get(events, b.s);
}

static int unknown(const struct mon_events *events, const char *name, struct kvmft_err *err)
{
	const char *near = nearest(events, name);

	if (!events->n)
		return err_set(err, ENOENT, "this QEMU has no trace events at all");
	if (is_tcg(events, name))
		return err_set(
			err, ENOENT,
			"%s has property tcg, so there are two events in its place: %s_trans when the "
			"guest's code is translated, %s_exec when it runs",
			name, name, name);
	if (near)
		return err_set(err, ENOENT, "this QEMU has no event %s (did you mean %s?)", name,
			       near);
	return err_set(err, ENOENT, "this QEMU has no event %s (see kvmft qemu events)", name);
}

static void note_many(const struct mon_switch *s, size_t n, size_t compiled_out, size_t vcpu,
		      struct sbuf *notes)
{
	if (!n)
		sbuf_addf(notes, "no event matches '%s'\n", s->pattern);
	if (compiled_out && s->on)
		sbuf_addf(notes,
			  "'%s': %zu of %zu events stay off: they were compiled out of this QEMU\n",
			  s->pattern, compiled_out, n);
	if (vcpu && s->on)
		sbuf_addf(notes,
			  "'%s': %zu event%s property vcpu: on or off for all vCPUs at once\n",
			  s->pattern, vcpu, vcpu == 1 ? " has" : "s have");
}

static int check_one(const struct mon_events *events, const struct mon_switch *s,
		     struct sbuf *notes, struct kvmft_err *err)
{
	bool wild = mon_is_pattern(s->pattern);
	const struct mon_event *e = wild ? NULL : mon_events_get(events, s->pattern);
	size_t n = 0, compiled_out = 0, vcpu = 0;

	if (!wild && !e)
		return unknown(events, s->pattern, err);
	if (e && e->state == MON_UNAVAILABLE && s->on)
		return err_set(
			err, ENOTSUP,
			"%s was compiled out of this QEMU (property disable, or back end nop): nothing "
			"can switch it on",
			s->pattern);
	for (size_t i = 0; i < events->n; i++) {
		const struct mon_event *m = &events->v[i];

		if (!str_glob(s->pattern, m->name))
			continue;
		n++;
		compiled_out += m->state == MON_UNAVAILABLE;
		vcpu += m->vcpu;
	}
	note_many(s, n, compiled_out, vcpu, notes);
	return 0;
}

int qemu_check(const struct mon_events *events, const struct mon_switches *s, struct sbuf *notes,
	       struct kvmft_err *err)
{
	int ret = 0;

	for (size_t i = 0; i < s->n && !ret; i++)
		ret = check_one(events, &s->v[i], notes, err);
	return ret;
}

int qemu_apply(struct monitor *m, const struct mon_events *events, const struct mon_switch *s,
	       struct kvmft_err *err)
{
	int ret = 0;

	/* QEMU takes '?' for a wildcard only if there is also a '*'. */
	if (!strchr(s->pattern, '?') || strchr(s->pattern, '*'))
		return monitor_set(m, s->pattern, s->on, err);
	for (size_t i = 0; i < events->n && !ret; i++)
		if (events->v[i].state != MON_UNAVAILABLE &&
		    str_glob(s->pattern, events->v[i].name))
			ret = monitor_set(m, events->v[i].name, s->on, err);
	return ret;
}

int qemu_restore(struct monitor *m, const struct mon_events *before, const struct mon_events *now,
		 struct kvmft_err *err)
{
	struct kvmft_err why = { .text = "" };
	int first = 0;

	for (size_t i = 0; i < now->n; i++) {
		const struct mon_event *e = &now->v[i], *was = mon_events_get(before, e->name);
		int ret;

		if (!was || was->state == e->state || was->state == MON_UNAVAILABLE)
			continue;
		ret = monitor_set(m, e->name, was->state == MON_ENABLED, first ? &why : err);
		first = first ?: ret;
		if (ret && ret != -EREMOTEIO) /* the connection has failed: so will the others */
			break;
	}
	return first;
}
