/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * comms.c: tid → name. The kernel's saved_cmdlines has few entries, so sched_switch and
 * sched_wakeup, where they were recorded, correct and complete it as the walk goes on.
 */
#include "comms.h"

#include <errno.h>
#include <string.h>

#define COMM_LEN 16

struct comm {
	char name[COMM_LEN];
};

struct learn {
	const struct fmt_event *ev;
	struct fmt_field pid, comm;
};

struct tl_comms {
	const struct fmt *fmt;
	struct comm *v;
	size_t n, cap;
	struct u64map by_tid;
	struct learn learn[4];
};

static const struct {
	const char *name, *pid, *comm;
} learn_from[] = {
	{ "sched_switch", "next_pid", "next_comm" },
	{ "sched_switch", "prev_pid", "prev_comm" },
	{ "sched_wakeup", "pid", "comm" },
	{ "sched_wakeup_new", "pid", "comm" },
};

static int comms_set(struct tl_comms *c, int32_t tid, const char *name)
{
	uint64_t at;
	struct comm *m;

	if (tid <= 0 || !name[0])
		return 0;
	if (u64map_get(&c->by_tid, (uint32_t)tid, &at)) {
		m = &c->v[at];
	} else {
		m = array_grow(&c->v, c->n, &c->cap, sizeof(*m));
		if (!m || u64map_put(&c->by_tid, (uint32_t)tid, c->n))
			return -ENOMEM;
		c->n++;
	}
	strncpy(m->name, name, COMM_LEN - 1);
	return 0;
}

int comms_new(const struct capture *cap, const struct fmt *fmt, struct tl_comms **out)
{
	struct tl_comms *c = calloc(1, sizeof(*c));
	int ret = 0;

	*out = c;
	if (!c)
		return -ENOMEM;
	c->fmt = fmt;
	for (size_t i = 0; i < cap->ntask && !ret; i++)
		if (cap->task[i].comm)
			ret = comms_set(c, cap->task[i].tid, cap->task[i].comm);
	for (size_t i = 0; i < ARRAY_SIZE(learn_from); i++) {
		c->learn[i].ev = fmt_find(fmt, "sched", learn_from[i].name);
		if (c->learn[i].ev && (!fmt_field(c->learn[i].ev, learn_from[i].pid, &c->learn[i].pid) ||
				       !fmt_field(c->learn[i].ev, learn_from[i].comm, &c->learn[i].comm)))
			c->learn[i].ev = NULL;
	}
	return ret;
}

int comms_feed(struct tl_comms *c, const struct rec *rec)
{
	char name[COMM_LEN];
	uint64_t pid;
	int ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(c->learn) && !ret; i++) {
		const struct learn *l = &c->learn[i];

		if (l->ev && fmt_id(l->ev) == rec->id && fmt_u64(c->fmt, &l->pid, rec, &pid) &&
		    fmt_str(c->fmt, &l->comm, rec, name, sizeof(name)))
			ret = comms_set(c, (int32_t)pid, name);
	}
	return ret;
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
