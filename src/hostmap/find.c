/* SPDX-License-Identifier: GPL-2.0-or-later */
/* find.c: what the VMs of a host map are called, and which one the user means. */
#include <strings.h>

#include "priv.h"
#include "kvmft/vmsel.h"

#define LISTED_MAX 640 /* bytes of candidates in one message */

const char *const hostmap_basis_names[] = {
	[HOSTMAP_RECORDED] = "recorded", [HOSTMAP_BY_PROCESS] = "process",
	[HOSTMAP_BY_WAKES] = "wakeups",	 [HOSTMAP_BY_IDS] = "thread-ids",
	[HOSTMAP_BY_USER] = "given",	 [HOSTMAP_BY_GUEST] = "guest-events",
};

COMPARE_BY(tid_cmp, int32_t, );

void hostmap_vm_tids(const struct hostmap *m, size_t vm, struct sbuf *out)
{
	_cleanup_free_ int32_t *tid = NULL;
	const struct hostmap_thread *t;
	size_t n = 0, last;

	hostmap_each_thread(m, m->vm[vm].of, t)
		n++;
	tid = xcalloc(n + 1, sizeof(*tid));
	n = 0;
	hostmap_each_thread(m, m->vm[vm].of, t)
		tid[n++] = t->tid;
	array_sort(tid, n, tid_cmp);
	sbuf_add(out, "tids:");
	for (size_t i = 0; i < n; i = last + 1) {
		for (last = i; last + 1 < n && tid[last + 1] == tid[last] + 1; last++)
			;
		sbuf_addf(out, "%s%" PRId32, i ? "," : "", tid[i]);
		if (last > i)
			sbuf_addf(out, "%c%" PRId32, last == i + 1 ? ',' : '-', tid[last]);
	}
}

/* Names of sides that are not VMs, and prefixes of selectors. */
static const char *const reserved[] = {
	"host", "guest", "qemu", "name", "uuid", "pid", "tids", NULL
};

/*
 * Name, UUID, PID-FD, trace-cmd's guests without a name by their first thread; else the PID; else
 * its threads, or the first of them if there are many.
 */
void hostmap_vm_label(struct hostmap *m, size_t vm)
{
	struct hostmap_vm *v = &m->vm[vm];
	const struct cap_vm *cap = v->cap;
	bool poses = cap && cap->name && str_poses_as(cap->name, reserved);
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (cap && !cap->name && !cap->uuid && cap->trace_id && cap->nvcpu && cap->vcpu[0].tid) {
		snprintf(v->label, sizeof(v->label), "guest-%d", cap->vcpu[0].tid);
	} else if (cap && (cap->name || cap->uuid || cap->id)) {
		/* With name= it can still be selected: see vmsel_name(). */
		snprintf(v->label, sizeof(v->label), "%s%.*s", poses ? "name=" : "",
			 poses ? 58 : 63,
			 cap->name ?: cap->uuid ?: cap->id);
		str_printable(v->label); /* it may end within a character */
	} else if (v->pid > 0) {
		snprintf(v->label, sizeof(v->label), "pid:%d", v->pid);
	} else {
		hostmap_vm_tids(m, vm, &b);
		snprintf(v->label, sizeof(v->label), "%.60s", b.s ?: "tids:");
		if (b.len > 60)
			*strrchr(v->label, ',') = 0;
	}
}

/* A VM of its own, not another capture's entry, nor one whose threads all went to others. */
static bool is_listed(const struct hostmap *m, size_t vm)
{
	return m->vm[vm].of == vm && !m->vm[vm].empty;
}

COMPARE(label_cmp, const struct hostmap_vm *, strcmp((*x)->label, (*y)->label));

void hostmap_tell_apart(struct hostmap *m)
{
	_cleanup_free_ struct hostmap_vm **v = xcalloc(m->nvm + 1, sizeof(*v));
	size_t n = 0, next;

	for (size_t i = 0; i < m->nvm; i++)
		if (is_listed(m, i) && m->vm[i].cap && m->vm[i].cap->id)
			v[n++] = &m->vm[i];
	array_sort(v, n, label_cmp);
	for (size_t i = 0; i < n; i = next) {
		for (next = i + 1; next < n && !label_cmp(&v[i], &v[next]); next++)
			;
		for (size_t k = i; next > i + 1 && k < next; k++)
			snprintf(v[k]->label, sizeof(v[k]->label), "%.63s", v[k]->cap->id);
	}
}

static void list_one(const struct hostmap *m, size_t vm, struct sbuf *out)
{
	const struct hostmap_vm *v = &m->vm[vm];

	if (v->cap && v->cap->id && v->cap->name) {
		sbuf_addf(out, "%s (%s)", v->cap->id, v->cap->name);
		return;
	}
	sbuf_add(out, v->label);
	if (v->pid > 0) {
		sbuf_add(out, " (");
		hostmap_vm_tids(m, vm, out);
		sbuf_add(out, ")");
	}
}

void hostmap_list(const struct hostmap *m, struct sbuf *out)
{
	size_t begin = out->len, left = 0;

	for (size_t i = 0; i < m->nvm; i++) {
		if (!is_listed(m, i))
			continue;
		if (out->len - begin > LISTED_MAX) {
			left++;
			continue;
		}
		if (out->len > begin)
			sbuf_add(out, ", ");
		list_one(m, i, out);
	}
	if (left)
		sbuf_addf(out, " and %zu more", left);
	if (out->len == begin)
		sbuf_add(out, "none");
}

/* ---- selecting ---- */

static bool is_called(const struct hostmap_vm *v, const char *sel)
{
	const struct cap_vm *cap = v->cap;
	const char *name = vmsel_name(sel);
	uint32_t pid;

	if (cap &&
	    ((cap->uuid && !strcasecmp(cap->uuid, name)) || (cap->id && !strcmp(cap->id, sel)) ||
	     (cap->name && (!strcmp(cap->name, sel) || !strcmp(cap->name, name)))))
		return true;
	if (!strcmp(v->label, sel))
		return true;
	return v->pid > 0 && vmsel_pid(sel, &pid) && pid == (uint32_t)v->pid;
}

/* Takes the threads away from the VMs that they were assigned to. */
static size_t vcpus_regroup(struct hostmap *m, const int32_t *tid, size_t n,
			    enum hostmap_basis basis)
{
	size_t vm = hostmap_vm_add(m, NULL, 0);

	m->vm[vm].basis = basis;
	for (size_t i = 0; i < n; i++) {
		uint64_t at = 0;

		if (u64map_get(&m->by_tid, (uint32_t)tid[i], &at))
			m->thread[at].vm = vm;
	}
	hostmap_chain(m);
	for (size_t i = 0; i < m->nvm; i++)
		m->vm[i].empty = !m->vm[i].cap && m->vm[i].threads == HOSTMAP_END;
	for (size_t i = 0; i < m->nvm; i++)
		if (!m->vm[i].cap && !m->vm[i].paired && m->vm[i].of == i)
			hostmap_vm_label(m, i);
	hostmap_build(m);
	return vm;
}

ssize_t hostmap_take_threads(struct hostmap *m, const int32_t *tid, size_t n,
			     enum hostmap_basis basis, struct kvmft_err *err)
{
	size_t of_vm = HOSTMAP_END, same = 0, all = 0;
	const struct hostmap_thread *t;

	for (size_t i = 0; i < n; i++) {
		t = hostmap_thread(m, tid[i]);
		if (!t)
			return err_set(err, ENOENT,
				       "thread %d made no kvm_entry in %s: it runs no vCPU there",
				       tid[i], m->cap->path);
		same += !i || t->vm == of_vm;
		of_vm = t->vm;
	}
	if (of_vm != HOSTMAP_END)
		hostmap_each_thread(m, of_vm, t)
			all++;
	if (same == n && all == n && of_vm != HOSTMAP_END)
		return (ssize_t)of_vm;
	for (size_t i = 0; i < n; i++) {
		t = hostmap_thread(m, tid[i]);
		if (t->vm != HOSTMAP_END && m->vm[t->vm].paired)
			return err_set(
				err, EBUSY,
				"thread %d runs a vCPU of %s, which has a guest capture already",
				tid[i], m->vm[t->vm].label);
	}
	return (ssize_t)vcpus_regroup(m, tid, n, basis);
}

void hostmap_adopt(struct hostmap *m, size_t vm, size_t from)
{
	for (size_t i = 0; i < m->nthread; i++)
		if (m->thread[i].vm == from)
			m->thread[i].vm = vm;
	m->vm[vm].basis = m->vm[from].basis;
	m->vm[from].empty = true;
	hostmap_build(m);
}

static ssize_t find_by_threads(struct hostmap *m, const char *sel, struct kvmft_err *err)
{
	_cleanup_free_ int32_t *tid = NULL;
	size_t n;
	int ret = vmsel_tids(sel, &tid, &n);

	if (ret == -ENOENT)
		return ret;
	if (ret == -ENOMEM)
		memory_out();
	if (ret)
		return err_usage(err, "'%s' is not a list of thread ids such as tids:137,138", sel);
	return hostmap_take_threads(m, tid, n, HOSTMAP_BY_USER, err);
}

/* Whose thread it is the number of, or the first one of the list; -1: nobody's. */
static ssize_t owner_of(const struct hostmap *m, const char *sel)
{
	_cleanup_free_ int32_t *tid = NULL;
	const struct hostmap_thread *t = NULL;
	uint32_t one;
	size_t n;

	if (vmsel_pid(sel, &one))
		t = hostmap_thread(m, (int32_t)one);
	else if (!vmsel_tids(sel, &tid, &n))
		t = hostmap_thread(m, tid[0]);
	return t && t->vm != HOSTMAP_END ? (ssize_t)m->vm[t->vm].of : -1;
}

ssize_t hostmap_find_vm(struct hostmap *m, const char *sel, struct kvmft_err *err)
{
	const ssize_t owner = owner_of(m, sel);
	struct sbuf b = { 0 };
	ssize_t found = -1;
	uint32_t tid;
	int ret;

	for (size_t i = 0; i < m->nvm; i++) {
		if (!is_listed(m, i) || !is_called(&m->vm[i], sel))
			continue;
		/* Anybody may call a VM like the threads of another one. */
		if (found >= 0 || (owner >= 0 && owner != (ssize_t)i)) {
			_cleanup_(sbuf_free) struct sbuf buf = { 0 };

			for (size_t k = 0; k < m->nvm; k++)
				if (is_listed(m, k) &&
				    (is_called(&m->vm[k], sel) || (ssize_t)k == owner)) {
					sbuf_add(&buf, buf.len ? ", " : "");
					list_one(m, k, &buf);
				}
			return err_set(err, ENOTUNIQ, "VM '%s' is ambiguous in %s: %s", sel,
				       m->cap->path, buf.s ?: "");
		}
		found = (ssize_t)i;
	}
	if (found < 0 && vmsel_pid(sel, &tid))
		found = owner;
	if (found < 0)
		found = find_by_threads(m, sel, err);
	if (found != -ENOENT || err->text[0])
		return found;
	hostmap_list(m, &b);
	ret = err_set(err, ENOENT, "no VM '%s' in %s (it has: %s)", sel, m->cap->path, b.s ?: "");
	sbuf_free(&b);
	return ret;
}

const char *hostmap_floating(const struct hostmap *m)
{
	for (size_t i = 0; m && i < m->nthread; i++)
		if (m->thread[i].floats && m->thread[i].vm != HOSTMAP_END)
			return m->vm[m->thread[i].vm].label;
	return NULL;
}
