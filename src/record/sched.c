/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sched.c: when threads of VMs have a CPU, and when CPUs are idle: in the default events of a host.
 *
 * The kernel's filter lets only switches and wake-ups of the VMMs' threads through; others cost its
 * evaluation. (set_event_pid would also take KVM's events from vhost, irqfd and interrupts.) The
 * filter is a few ranges of thread ids: those that there are, and those that the kernel gives out
 * next, for threads that come later. When many of these have gone to others, it is written anew.
 */
#include "record.h"

#include <fcntl.h>
#include <sched.h>

#define RANGES	  16u  /* each costs every switch of the machine some ns */
#define IDS_BEGIN 300u /* RESERVED_PIDS: where ids begin again */
#define LONG_BITS (8 * sizeof(long))
#define IDS_AHEAD 32768u /* nothing starts more threads between two looks */

static const struct {
	const char *sys, *name, *field[2];
} events[] = {
	{ "sched", "sched_switch", { "prev_pid", "next_pid" } },
	{ "sched", "sched_wakeup", { "pid", NULL } },
	{ "power", "cpu_idle", { "cpu_id", NULL } },
};
#define IDLE (ARRAY_SIZE(events) - 1)

struct ranges {
	struct range {
		uint32_t from, to;
	} * v;
	size_t n, cap;
};

/* ---- ranges, and the filter that they are ---- */

COMPARE_BY(range_cmp, struct range, .from);

static int range_add(struct ranges *l, uint64_t from, uint64_t to)
{
	const struct range x = { (uint32_t)from, (uint32_t)to };

	return array_add(&l->v, &l->n, &l->cap, &x, sizeof(x));
}

/* The next one becomes a part of it, with what is between them. */
static void range_extend(struct ranges *l, size_t i)
{
	l->v[i].to = MAX(l->v[i].to, l->v[i + 1].to);
	l->n--;
	memmove(&l->v[i + 1], &l->v[i + 2], (l->n - i - 1) * sizeof(*l->v));
}

/* Without those that touch; then, while they are too many, the two with the least between them. */
static void ranges_join(struct ranges *l)
{
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), range_cmp);
	for (size_t i = 0; i + 1 < l->n;)
		if (l->v[i + 1].from <= (uint64_t)l->v[i].to + 1)
			range_extend(l, i);
		else
			i++;
	while (l->n > RANGES) {
		size_t least = 0;

		for (size_t i = 1; i + 1 < l->n; i++)
			if (l->v[i + 1].from - l->v[i].to < l->v[least + 1].from - l->v[least].to)
				least = i;
		range_extend(l, least);
	}
}

/* By bisection: a thread that is not in them costs twice the logarithm of their number. */
static void ranges_text(struct sbuf *b, const char *field, const struct range *v, size_t n)
{
	if (n == 1) {
		sbuf_addf(b, "%s >= %u && %s <= %u", field, v->from, field, v->to);
		return;
	}
	sbuf_addf(b, "(%s < %u && (", field, v[n / 2].from);
	ranges_text(b, field, v, n / 2);
	sbuf_addf(b, ")) || (%s >= %u && (", field, v[n / 2].from);
	ranges_text(b, field, v + n / 2, n - n / 2);
	sbuf_add(b, "))");
}

/* In the instance, and in the list of what is recorded. */
static int filter_set(struct record *r, size_t i, const struct ranges *l)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct kevent_list one = { 0 };
	int ret;

	for (size_t f = 0; f < ARRAY_SIZE(events[i].field) && events[i].field[f] && l->n; f++) {
		sbuf_add(&b, f ? " || (" : "(");
		ranges_text(&b, events[i].field[f], l->v, l->n);
		sbuf_add(&b, ")");
	}
	if (!l->n && r->started)
		sbuf_add(&b, "0"); /* none from now on */
	ret = b.error ?: kevent_list_add(&one, events[i].sys, events[i].name, b.s);
	ret = ret ? err_set(r->err, -ret, "out of memory") : kinst_events_add(r->k, &one, r->err);
	kevent_list_free(&one);
	if (!ret && !r->started && kevent_list_add(&r->events, events[i].sys, events[i].name, b.s))
		ret = err_set(r->err, ENOMEM, "out of memory");
	return ret;
}

/* ---- whose ids ---- */

/* The newest thread's; 0: unknown. */
static uint32_t newest_id(const struct record *r)
{
	char text[128], *last;
	ssize_t n = pread(r->sched.loadavg, text, sizeof(text) - 1, 0);

	text[MAX(n, (ssize_t)0)] = '\0';
	last = strrchr(text, ' ');
	return last ? (uint32_t)strtoul(last + 1, NULL, 10) : 0;
}

static uint32_t ids_ahead(const struct record *r)
{
	return MIN(r->sched.id_max / 8, IDS_AHEAD);
}

static int task_add(const struct vm_task *t, void *ctx)
{
	return range_add(ctx, t->tid, t->tid);
}

/* The threads of all VMMs, and the ids that come next. */
static int ids_find(struct record *r, struct ranges *l)
{
	uint32_t newest = newest_id(r), ahead = ids_ahead(r), end = newest + ahead;
	int ret = range_add(l, newest + 1, end);

	if (!ret && end >= r->sched.id_max)
		ret = range_add(l, IDS_BEGIN, IDS_BEGIN + end - r->sched.id_max);
	for (size_t i = 0; i < r->sched.nvmm && !ret; i++) {
		ret = record_look_tasks(r, r->sched.vmm[i], task_add, l);
		ret = ret == -ESRCH ? 0 : ret;
	}
	ranges_join(l);
	r->sched.newest = newest;
	return ret;
}

int record_sched_vmm(struct record *r, uint32_t pid)
{
	for (size_t i = 0; i < r->sched.nvmm; i++)
		if (r->sched.vmm[i] == pid)
			return 0;
	if (r->sched.loadavg < 0 || !pid)
		return 0;
	if (array_add(&r->sched.vmm, &r->sched.nvmm, &r->sched.vmm_cap, &pid, sizeof(pid)))
		return err_set(r->err, ENOMEM, "out of memory");
	if (!r->sched.cpus)
		return 0;
	r->sched.cpus = false; /* its vCPUs may run where no other VM's may */
	return filter_set(r, IDLE, &(struct ranges){ 0 });
}

/* Where vCPUs may run; none: anywhere. */
static int cpus_find(struct record *r, const struct vm_list *list, struct ranges *l)
{
	unsigned long one[CAPTURE_MAX_CPUS / LONG_BITS], all[ARRAY_SIZE(one)] = { 0 };
	int ret = 0;

	for (size_t i = 0; i < list->n; i++)
		for (size_t k = 0; k < list->vm[i].n_vcpus; k++) {
			memset(one, 0, sizeof(one));
			if (list->vm[i].vcpu[k].tid)
				(void)!sched_getaffinity((pid_t)list->vm[i].vcpu[k].tid,
							 sizeof(one), (cpu_set_t *)one);
			for (size_t w = 0; w < ARRAY_SIZE(one); w++)
				all[w] |= one[w];
		}
	for (uint32_t c = 0; c < CAPTURE_MAX_CPUS && c < r->ncpu_max && !ret; c++)
		if (all[c / LONG_BITS] >> c % LONG_BITS & 1)
			ret = range_add(l, c, c);
	ranges_join(l);
	if (l->n == 1 && !l->v[0].from && l->v[0].to + 1 >= r->ncpu_max)
		l->n = 0;
	return ret;
}

/* ---- the recorder's ---- */

static int arm(struct record *r, const struct vm_list *list)
{
	const struct ranges all = { 0 };
	struct ranges ids = { 0 }, cpus = { 0 };
	bool some = !r->tids.n; /* otherwise the instance has a filter by thread already */
	int ret = some ? ids_find(r, &ids) : 0;

	ret = ret ?: cpus_find(r, list, &cpus);
	err_why(r->err, ret, "cannot look at the threads of VMs");
	for (size_t i = 0; i < ARRAY_SIZE(events) && !ret; i++) {
		/* What was asked for by name has its own filter. An idle CPU's thread is 0. */
		if (kevent_list_has(&r->events, events[i].sys, events[i].name) ||
		    !kevent_exists(r->t, events[i].sys, events[i].name) || (i == IDLE && !some))
			continue;
		ret = filter_set(r, i, i == IDLE ? &cpus : some ? &ids : &all);
		r->sched.armed |= !ret && some && i != IDLE ? 1u << i : 0;
		r->sched.cpus |= !ret && i == IDLE && cpus.n;
	}
	free(ids.v);
	free(cpus.v);
	return ret;
}

/* Without these events the rest is as good as it was before there was a filter. */
int record_sched_arm(struct record *r)
{
	struct vm_list *list = NULL;
	char text[32];
	int ret;

	if (!r->sched.want)
		return 0;
	r->sched.loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	if (!file_read_line(AT_FDCWD, "/proc/sys/kernel/pid_max", text, sizeof(text)))
		r->sched.id_max = (uint32_t)strtoul(text, NULL, 10);
	ret = newest_id(r) && r->sched.id_max
		      ? record_look_vms(r, &list, r->err)
		      : err_set(r->err, ENODATA, "cannot read /proc/loadavg");
	for (size_t i = 0; !ret && i < list->n; i++)
		ret = record_sched_vmm(r, list->vm[i].pid);
	ret = ret ?: arm(r, list);
	vm_list_free(list);
	if (ret == -ENOMEM || !ret)
		return ret;
	r->note("switches of VMs' threads are not recorded (-e default -e sched:sched_switch -e "
		"sched:sched_wakeup takes those of all): %.*s",
		(int)strcspn(r->err->text, "\n"), r->err->text);
	r->err->text[0] = '\0';
	return 0;
}

/* Once a second: have many of the ids ahead been given out? */
int record_sched_again(struct record *r)
{
	uint32_t gone = newest_id(r) - r->sched.newest;
	struct ranges ids = { 0 };
	int ret;

	gone += gone > INT32_MAX ? r->sched.id_max : 0; /* they began again */
	if (!r->sched.armed || gone < ids_ahead(r) / 8 || r->blind)
		return 0;
	ret = ids_find(r, &ids);
	for (size_t i = 0; !ret && i < ARRAY_SIZE(events) && !r->blind; i++)
		if (r->sched.armed & 1u << i)
			ret = filter_set(r, i, &ids);
	free(ids.v);
	return err_why(r->err, ret, "cannot follow the threads of VMs");
}

void record_sched_free(struct record *r)
{
	util_close_fd(&r->sched.loadavg);
	free(r->sched.vmm);
}
