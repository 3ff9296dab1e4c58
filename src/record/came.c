/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * came.c: VMs that are made while a recording runs.
 *
 * Neither the first look nor what is left at the end shows them. debugfs reports when one is made,
 * which at that moment is little more than a name: its vCPUs follow, and their threads when they
 * run. So it is looked at a few more times, at ever longer intervals. On a machine where no VM is
 * made, the recorder is not woken.
 */
#include "record.h"

/* Between looks, ms. */
static const unsigned int wait_ms[] = { 0, 10, 30, 100, 300, 1000, 3000, 10000 };

#define MAX_CAME 4096 /* number looked at at the same time */

void record_came_open(struct record *r)
{
	r->newcomers.fd = -1;
	if (r->side & CAP_SIDE_HOST)
		(void)!vm_watch_open(NULL, &r->newcomers);
}

static struct record_came *came_find(struct record *r, uint32_t pid, uint32_t fd)
{
	for (size_t i = 0; i < r->ncame; i++)
		if (r->came[i].pid == pid && r->came[i].fd == fd)
			return &r->came[i];
	return NULL;
}

static struct record_came *came_add(struct record *r, uint32_t pid, uint32_t fd)
{
	const struct record_came c = { .pid = pid, .fd = fd, .due = util_now_ns() };

	if (r->ncame >= MAX_CAME || array_add(&r->came, &r->ncame, &r->came_cap, &c, sizeof(c)))
		return NULL;
	return &r->came[r->ncame - 1];
}

static void came_drop(struct record *r, size_t i)
{
	u64map_free(&r->came[i].told);
	r->came[i] = r->came[--r->ncame];
}

/* One of the list, some of which is recorded. */
static int came_known(struct record *r, const struct vm *vm)
{
	struct record_came *c = came_add(r, vm->dir_pid, vm->fd);

	for (size_t i = 0; c && i < vm->n_vcpus; i++)
		if (u64map_put(&c->told, vm->vcpu[i].id, vm->vcpu[i].tid))
			return err_set(r->err, ENOMEM, "out of memory");
	return 0;
}

static bool all_known(const struct vm *vm)
{
	for (size_t i = 0; i < vm->n_vcpus; i++)
		if (!vm->vcpu[i].tid)
			return false;
	return vm->n_vcpus > 0;
}

static const struct vm *of_list(const struct vm_list *list, uint32_t pid, uint32_t fd)
{
	for (size_t i = 0; list && i < list->n; i++)
		if (list->vm[i].dir_pid == pid && list->vm[i].fd == fd)
			return &list->vm[i];
	return NULL;
}

int record_came_begin(struct record *r)
{
	uint32_t pid, fd;
	int ret = 0, more = 0;

	for (size_t i = 0; r->newcomers.fd >= 0 && r->vms && i < r->vms->n && !ret; i++)
		if (r->vms->vm[i].has_debugfs && !all_known(&r->vms->vm[i]))
			ret = came_known(r, &r->vms->vm[i]);
	/* What was made before the first look is recorded if it still exists. */
	while (!ret && r->newcomers.fd >= 0 && (more = vm_watch_next(&r->newcomers, &pid, &fd)) > 0)
		if (!of_list(r->vms, pid, fd))
			(void)came_add(r, pid, fd);
	return ret;
}

/* It was gone before it could be looked at. */
static int came_and_went(struct record *r, const struct record_came *c)
{
	char sel[32];
	const struct vm vm = { .sel = sel, .pid = c->pid, .dir_pid = c->pid, .fd = c->fd };
	struct u64map none = { 0 };

	snprintf(sel, sizeof(sel), "%u-%u", c->pid, c->fd);
	return record_facts_came(r, &vm, &none);
}

/* *done: there is nothing more to learn. */
static int came_look(struct record *r, struct record_came *c, bool *done)
{
	struct vm_list *list = NULL;
	const struct vm *vm;
	int ret = record_look_made_by(r, c->pid, &list, r->err);

	if (ret)
		return ret;
	vm = of_list(list, c->pid, c->fd);
	*done = !vm || (all_known(vm) && vm->n_vcpus == c->vcpus);
	if (vm)
		ret = record_facts_came(r, vm, &c->told);
	else if (!c->looks)
		ret = came_and_went(r, c);
	c->vcpus = vm ? vm->n_vcpus : 0;
	*done |= ++c->looks == ARRAY_SIZE(wait_ms);
	if (!*done)
		c->due = util_now_ns() + wait_ms[c->looks] * 1000000ull;
	vm_list_free(list);
	return ret;
}

/* More of them than the kernel could report. */
static int came_all(struct record *r)
{
	struct vm_list *list = NULL;
	int ret = record_look_vms(r, &list, r->err);

	for (size_t i = 0; !ret && i < list->n; i++)
		if (!of_list(r->vms, list->vm[i].dir_pid, list->vm[i].fd) &&
		    !came_find(r, list->vm[i].dir_pid, list->vm[i].fd))
			(void)came_add(r, list->vm[i].dir_pid, list->vm[i].fd);
	vm_list_free(list);
	return ret;
}

int record_came_take(struct record *r)
{
	uint32_t pid, fd;
	int ret = 0, more = 0;

	while (r->newcomers.fd >= 0 && (more = vm_watch_next(&r->newcomers, &pid, &fd)) > 0)
		(void)came_add(r, pid, fd);
	if (more == -EOVERFLOW)
		ret = came_all(r);
	for (size_t i = r->ncame; i-- && !ret;) {
		bool done = false;

		if (r->came[i].due > util_now_ns())
			continue;
		ret = came_look(r, &r->came[i], &done);
		if (done)
			came_drop(r, i);
	}
	return ret;
}

uint64_t record_came_due(const struct record *r)
{
	uint64_t due = 0;

	for (size_t i = 0; i < r->ncame; i++)
		due = due ? MIN(due, r->came[i].due) : r->came[i].due;
	return due;
}

void record_came_free(struct record *r)
{
	while (r->ncame)
		came_drop(r, r->ncame - 1);
	free(r->came);
	vm_watch_close(&r->newcomers);
}
