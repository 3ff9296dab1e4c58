/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace_setup.c: what is traced, and the instance for it.
 */
#include "trace.h"

#include <errno.h>
#include <string.h>

#define SUBBUF_KB	   64u
#define DEFAULT_BUFFER_KB  4096u
#define MIN_BUFFER_KB	   512u
#define FREE_MEMORY_SHARE  20u /* the rings of all CPUs take no more than 1/20 of what is free */

int trace_setup_vms(struct trace *t)
{
	if (!t->o->vms.n && !t->o->kvmclock)
		return 0;
	/* For the TSC offsets; a machine without debugfs is told by the VM list. */
	if (vm_debugfs_mount(NULL, NULL))
		errno = 0;
	return vm_scan(NULL, &t->vms, t->err);
}

int trace_setup_events(struct trace *t)
{
	int ret = 0;

	for (size_t i = 0; i < t->o->events.n && !ret; i++)
		ret = kevent_expand(t->t, t->o->events.v[i], &t->events, t->err);
	return ret;
}

static int tids_add(struct trace *t, const struct vm *vm, const char *what)
{
	uint32_t *tid = NULL;
	size_t n = 0;
	int ret;

	ret = vm_thread_ids(NULL, vm, VM_TIDS_PROCESS, &tid, &n);
	if (ret)
		return err_set(t->err, -ret, "no process %s: %s", what, strerror(-ret));
	for (size_t i = 0; i < n && !ret; i++) {
		int32_t *slot = array_grow(&t->tids, t->ntids, &t->tids_cap, sizeof(*slot));

		if (slot) {
			*slot = (int32_t)tid[i];
			t->ntids++;
		} else {
			ret = err_set(t->err, ENOMEM, "out of memory");
		}
	}
	free(tid);
	return ret;
}

int trace_setup_tids(struct trace *t)
{
	int ret = 0;

	for (size_t i = 0; i < t->o->vms.n && !ret; i++) {
		const struct vm *vm;

		ret = vm_list_find(t->vms, t->o->vms.v[i], &vm, t->err);
		if (!ret)
			ret = tids_add(t, vm, t->o->vms.v[i]);
	}
	for (size_t i = 0; i < t->o->pids.n && !ret; i++) {
		struct vm process = { 0 };
		uint64_t pid;

		if (parse_u64(t->o->pids.v[i], &pid) || !pid || pid > INT32_MAX)
			return err_usage(t->err, "option --pid: '%s' is not a process id",
					 t->o->pids.v[i]);
		process.pid = (uint32_t)pid;
		ret = tids_add(t, &process, t->o->pids.v[i]);
	}
	return ret;
}

static uint64_t default_buffer_kb(size_t ncpu)
{
	long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	uint64_t share;

	if (pages <= 0 || size <= 0)
		return MIN_BUFFER_KB;
	share = (uint64_t)pages * (uint64_t)size / 1024 / FREE_MEMORY_SHARE / MAX(ncpu, (size_t)1);
	return MAX(MIN(share, (uint64_t)DEFAULT_BUFFER_KB), (uint64_t)MIN_BUFFER_KB);
}

int trace_setup_instance(struct trace *t)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	int ret;

	ret = kcpus_read(KCPU_POSSIBLE, &t->cpus);
	if (ret)
		return err_set(t->err, -ret, "cannot read the list of CPUs: %s", strerror(-ret));
	c.clock = t->clock;
	c.subbuf_kb = SUBBUF_KB;
	/* Overwrite: only then does the ring itself say where events are missing. */
	c.overwrite = true;
	c.buffer_kb = default_buffer_kb(t->cpus.n);
	if (t->o->buffer.set)
		c.buffer_kb = MAX(t->o->buffer.v / 1024, (uint64_t)1);
	c.pid = t->tids;
	c.npid = t->ntids;
	c.event_fork = t->ntids != 0;
	ret = kinst_create(t->t, &c, &t->k, t->err);
	if (!ret)
		ret = kinst_events_add(t->k, &t->events, t->err);
	if (!ret)
		ret = trace_formats(t->t, &t->events, &t->fmt, t->err);
	return ret ? ret : trace_raw_open(t->k, &t->cpus, &t->raw, &t->live, t->err);
}

/* ---- formats ---- */

static int format_read(struct ktracefs *t, const struct kevent *e, struct cap_format *f,
		       struct kvmft_err *err)
{
	int ret = kevent_format(t, e->sys, e->name, &f->text);

	if (ret)
		return err_set(err, -ret, "cannot read the format of %s:%s: %s", e->sys, e->name,
			       strerror(-ret));
	f->len = strlen(f->text);
	f->sys = e->sys; /* borrowed: fmt_load() copies */
	f->name = e->name;
	return 0;
}

int trace_formats(struct ktracefs *t, const struct kevent_list *list, struct fmt **fmt,
		  struct kvmft_err *err)
{
	struct capture cap = {
		.long_size = sizeof(long),
		.big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
	};
	int ret = 0;

	cap.format = calloc(MAX(list->n, (size_t)1), sizeof(*cap.format));
	if (!cap.format)
		return err_set(err, ENOMEM, "out of memory");
	for (; cap.nformat < list->n && !ret; cap.nformat++)
		ret = format_read(t, &list->v[cap.nformat], &cap.format[cap.nformat], err);
	if (!ret)
		ret = fmt_load(&cap, fmt, err);
	for (size_t i = 0; i < cap.nformat; i++)
		free(cap.format[i].text);
	free(cap.format);
	return ret;
}

/* ---- descriptors ---- */

void trace_raw_close(int *raw, size_t n)
{
	for (size_t i = 0; raw && i < n; i++)
		if (raw[i] >= 0)
			close(raw[i]);
	free(raw);
}

int trace_raw_open(struct kinst *k, const struct kcpus *cpus, int **raw, struct live **live,
		   struct kvmft_err *err)
{
	int ret;

	*raw = malloc(MAX(cpus->n, (size_t)1) * sizeof(**raw));
	if (!*raw)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < cpus->n; i++)
		(*raw)[i] = -1;
	ret = live_new(kinst_subbuf_size(k), live);
	for (size_t i = 0; i < cpus->n && !ret; i++) {
		(*raw)[i] = kinst_raw_open(k, cpus->cpu[i], true, err);
		if ((*raw)[i] < 0)
			return (*raw)[i];
		ret = live_add_cpu(*live, cpus->cpu[i], (*raw)[i]);
	}
	return ret ? err_set(err, -ret, "cannot read the ring: %s", strerror(-ret)) : 0;
}
