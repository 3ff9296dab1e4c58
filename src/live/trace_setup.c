/* SPDX-License-Identifier: GPL-2.0-or-later */
/* trace_setup.c: what is traced, and the instance for it. */
#include "trace.h"

#define SUBBUF_KB 64u

int trace_setup_vms(struct trace *t)
{
	if (!t->c->vms.n && !t->c->kvmclock)
		return 0;
	/* For the TSC offsets; a machine without debugfs is reported by the VM list. */
	if (vm_debugfs_mount(NULL, NULL))
		errno = 0;
	return vm_scan(NULL, &t->vms, t->err);
}

int trace_setup_events(struct trace *t)
{
	int ret = 0;

	for (size_t i = 0; i < t->c->events.n && !ret; i++)
		ret = kevent_expand(t->t, t->c->events.v[i], &t->events, t->err);
	return ret;
}

static int tids_add(struct trace *t, uint32_t pid, const char *what)
{
	uint32_t *tid = NULL;
	size_t n = 0;
	int ret = vm_thread_ids(NULL, pid, &tid, &n);

	if (ret)
		return err_why(t->err, ret, "no process %s", what);
	for (size_t i = 0; i < n && !ret; i++) {
		ret = array_add(&t->tids, &t->ntids, &t->tids_cap, &tid[i], sizeof(*t->tids));
		if (ret)
			err_set(t->err, ENOMEM, "out of memory");
	}
	free(tid);
	return ret;
}

int trace_setup_tids(struct trace *t)
{
	int ret = 0;

	for (size_t i = 0; i < t->c->vms.n && !ret; i++) {
		const struct vm *vm;

		ret = vm_list_find(t->vms, t->c->vms.v[i], &vm, t->err);
		ret = ret ?: tids_add(t, vm->pid, t->c->vms.v[i]);
	}
	for (size_t i = 0; i < t->c->pids.n && !ret; i++) {
		uint64_t pid;

		if (parse_u64(t->c->pids.v[i], &pid) || !pid || pid > INT32_MAX)
			return err_usage(t->err, "option --pid: '%s' is not a process id",
					 t->c->pids.v[i]);
		ret = tids_add(t, (uint32_t)pid, t->c->pids.v[i]);
	}
	return ret;
}

COMPARE_BY(tid_cmp, int32_t, );

/* Threads that began before the instance could see them begin, and after they were listed. */
static int tids_again(struct trace *t)
{
	size_t known = t->ntids;
	int ret;

	if (!known)
		return 0;
	qsort(t->tids, known, sizeof(*t->tids), tid_cmp);
	ret = trace_setup_tids(t);
	for (size_t i = known; i < t->ntids && !ret; i++)
		if (!bsearch(&t->tids[i], t->tids, known, sizeof(*t->tids), tid_cmp))
			ret = kinst_pid_add(t->k, t->tids[i], t->err);
	return ret;
}

int trace_setup_instance(struct trace *t)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	int ret = kcpus_read(KCPU_POSSIBLE, &t->cpus);

	if (ret)
		return err_why(t->err, ret, "cannot read the list of CPUs");
	c.clock = t->clock;
	c.subbuf_kb = SUBBUF_KB;
	/* Overwrite mode: only then does the ring itself show where events are missing. */
	c.overwrite = true;
	c.buffer_kb = session_buffer_kb(t->cpus.n);
	if (t->c->buffer.set)
		c.buffer_kb = MAX(t->c->buffer.v / 1024, (uint64_t)1);
	c.pid = t->tids;
	c.npid = t->ntids;
	c.event_fork = t->ntids != 0;
	ret = kinst_create(t->t, &c, &t->k, t->err);
	ret = ret ?: tids_again(t);
	ret = ret ?: kinst_events_add(t->k, &t->events, t->err);
	ret = ret ?: session_formats(t->t, &t->events, &t->fmt, t->err);
	ret = ret ?: session_raw_open(t->k, &t->cpus, &t->raw, t->err);
	return ret ?: session_live_open(t->k, &t->cpus, t->raw, &t->live, t->err);
}
