/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * comms.c: tid → name. The kernel's saved_cmdlines has few entries, so sched_switch and
 * sched_wakeup, if recorded, correct and complete it as the walk proceeds.
 */
#include "kvmft/hostmap.h"
#include "kvmft/events.h"

/* Which of their fields are the pid and the name. */
static const struct {
	enum event_role role;
	size_t pid, comm;
} learn_from[] = {
	{ EV_SWITCH, 2, 3 },
	{ EV_SWITCH, 0, 4 },
	{ EV_WAKEUP, 0, 2 },
	{ EV_WAKEUP_NEW, 0, 2 },
};

/* Whether that is new. */
static bool comms_set(struct tl_comms *c, int32_t tid, const char *name)
{
	size_t n = str_cut(name, COMM_LEN - 1);
	struct comm *m;

	if (tid <= 0 || !name[0])
		return false;
	m = xu64map_elem(&c->by_tid, (uint32_t)tid, &c->v, &c->cap, sizeof(*m));
	m->tid = tid;
	c->near[(uint32_t)tid % COMMS_NEAR] = (uint32_t)(m - c->v) + 1;
	if (!strncmp(m->name, name, n) && !m->name[n])
		return false;
	memset(m->name, 0, sizeof(m->name));
	memcpy(m->name, name, n);
	return true;
}

struct tl_comms *comms_new(const struct capture *cap, const struct fmt *fmt)
{
	struct tl_comms *c = xcalloc(1, sizeof(*c));

	c->fmt = fmt;
	if (cap->ntask)
		xdone(u64map_reserve(&c->by_tid, cap->ntask));
	for (size_t i = 0; i < cap->ntask; i++)
		if (cap->task[i].comm)
			(void)comms_set(c, cap->task[i].tid, cap->task[i].comm);
	for (size_t i = 0; i < ARRAY_SIZE(learn_from); i++)
		comms_also(c, event_format(fmt, learn_from[i].role));
	return c;
}

void comms_also(struct tl_comms *c, const struct fmt_event *ev)
{
	if (ev)
		c->ids |= 1ull << (fmt_id(ev) % 64);
}

/* Most events name a task as the last one did. */
static bool comms_known(struct tl_comms *c, const struct fmt_field *comm, const struct rec *rec,
			uint64_t pid)
{
	const char *name = (const char *)rec->data + comm->off;
	uint32_t at = c->near[pid % COMMS_NEAR];
	const struct comm *m = &c->v[at - 1];

	if (!at || m->tid != (int32_t)pid || comm->is_dynamic || comm->size != COMM_LEN ||
	    comm->off + (uint32_t)COMM_LEN > rec->len)
		return false;
	return !memcmp(m->name, name, COMM_LEN) || !strncmp(m->name, name, COMM_LEN - 1);
}

bool comms_learn(struct tl_comms *c, const struct rec *rec)
{
	const struct event_type *e = event_type_of(fmt_by_id(c->fmt, rec->id));
	char name[COMM_LEN];
	bool changed = false;
	uint64_t pid;

	for (size_t i = 0; i < ARRAY_SIZE(learn_from); i++) {
		const struct fmt_field *comm = &e->f[learn_from[i].comm];

		/* The idle task's name is never asked for: it is the most frequent one. */
		if (e->role != learn_from[i].role ||
		    !fmt_u64(&e->f[learn_from[i].pid], rec, &pid) || !pid ||
		    comms_known(c, comm, rec, pid) || !fmt_str(comm, rec, name, sizeof(name)))
			continue;
		changed |= comms_set(c, (int32_t)pid, name);
	}
	return changed;
}

/*
 * What the older one has learned is newer than what was noted when the recording began, which is
 * all that the new one has.
 */
void comms_inherit(struct tl_comms *c, const struct tl_comms *from)
{
	for (size_t i = 0; i < from->by_tid.n; i++)
		(void)comms_set(c, from->v[i].tid, from->v[i].name);
}

const char *comms_get(const struct tl_comms *c, int32_t tid)
{
	uint64_t at;

	if (tid == 0)
		return "<idle>";
	return u64map_get(&c->by_tid, (uint32_t)tid, &at) ? c->v[at].name : "<...>";
}

void comms_free(struct tl_comms *c)
{
	if (!c)
		return;
	free(c->v);
	u64map_free(&c->by_tid);
	free(c);
}
