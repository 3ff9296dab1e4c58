/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * what.c: which side is recorded, which events, and of which threads.
 *
 * --vm, --vcpu and -p become the kernel's own filter by thread, set_event_pid. The kernel adds
 * children of its members by itself (event-fork); what it cannot know, such as a vCPU thread made
 * between our look and its switch, is looked for once a second.
 */
#include "record.h"
#include "kvmft/event_sets.h"

static const char *const side_names[] = {
	[CAP_SIDE_HOST] = "host",
	[CAP_SIDE_GUEST] = "guest",
	[CAP_SIDE_BOTH] = "host and guest",
};

const char *const record_as_choices[] = {
	[RECORD_AS_HOST] = "host", [RECORD_AS_GUEST] = "guest", [RECORD_AS_BOTH] = "both", NULL,
};

int record_side(struct record *r)
{
	static const unsigned int as[] = {
		[RECORD_AS_HOST] = KFEAT_HOST,
		[RECORD_AS_GUEST] = KFEAT_GUEST,
		[RECORD_AS_BOTH] = KFEAT_HOST | KFEAT_GUEST,
	};
	unsigned int sides = r->c->as < 0 ? 0 : as[r->c->as];
	const char *why = "as asked for";
	int ret = r->c->vms.n ? vm_scan(NULL, &r->vms, r->err) : 0;

	if (ret)
		return ret;
	sides = sides ?: kmachine_sides(NULL, &r->tsc, &why);
	r->side = (sides & KFEAT_HOST ? CAP_SIDE_HOST : 0) |
		  (sides & KFEAT_GUEST ? CAP_SIDE_GUEST : 0);
	if (!r->c->quiet && r->c->as < 0)
		r->note("recording this machine as a %s: %s (see --as)",
			side_names[r->side], why);
	return 0;
}

/* The default sets include events of kernels of any age; what this one lacks is left out. */
static int events_add_known(struct record *r, const char *const *set)
{
	bool any = false;
	int ret = 0;

	for (; *set && !ret; set++) {
		_cleanup_free_ char *spec = strdup(*set);
		char *colon = spec ? strchr(spec, ':') : NULL;
		char *filter = colon ? strchr(colon, '/') : NULL;

		if (!colon)
			return -ENOMEM;
		*colon = 0;
		if (filter) {
			*filter++ = 0;
			filter[strcspn(filter, "/")] = 0;
		}
		if (!kevent_exists(r->t, spec, colon + 1))
			continue;
		any = true; /* it may have been requested by name already */
		if (!kevent_list_has(&r->events, spec, colon + 1))
			ret = kevent_list_add(&r->events, spec, colon + 1, filter);
	}
	return !ret && !any ? -ENOENT : ret;
}

int record_events(struct record *r)
{
	bool host = r->side & CAP_SIDE_HOST, guest = r->side & CAP_SIDE_GUEST;
	bool want_default = !r->c->events.n, want_mem = false, want_net = false,
	     want_io = false;
	int ret = 0;

	for (size_t i = 0; i < r->c->events.n && !ret; i++) {
		if (!strcmp(r->c->events.v[i], "none"))
			continue;
		if (!strcmp(r->c->events.v[i], "default"))
			want_default = true;
		else if (!strcmp(r->c->events.v[i], "mem"))
			want_mem = true;
		else if (!strcmp(r->c->events.v[i], "io"))
			want_io = true;
		else if (!strcmp(r->c->events.v[i], "net"))
			want_net = true;
		else if (!strcmp(r->c->events.v[i], "net-id"))
			want_net = r->want_net_id = true;
		else
			ret = kevent_expand(r->t, r->c->events.v[i], &r->events, r->err);
	}
	if (ret)
		return ret;
	if (host && (want_default || want_mem || want_net || want_io)) {
		ret = kevent_kvm_check(r->t, r->err);
		if (ret)
			return ret;
	}
	if (want_default) {
		ret = host ? events_add_known(r, event_set_host) : 0;
		r->sched.want = host;
		if (!ret && guest)
			ret = events_add_known(r, event_set_guest);
		if (ret)
			return err_lack(r->err, -ret,
					"none of the default %s events exists here: %s",
					side_names[r->side], strerror(-ret));
	}
	if (want_mem)
		ret = events_add_known(r, event_set_mem);
	if (ret)
		return err_lack(r->err, -ret, "none of the events of mem exists here: %s",
				strerror(-ret));
	if (want_io && host)
		ret = events_add_known(r, event_set_io);
	if (ret)
		return err_lack(r->err, -ret, "none of the events of io exists here: %s",
				strerror(-ret));
	if (want_net && host)
		ret = events_add_known(r, event_set_net_host);
	if (!ret && want_net && guest)
		ret = events_add_known(r, event_set_net_guest);
	if (ret)
		return err_lack(r->err, -ret, "none of the events of net exists here: %s",
				strerror(-ret));
	/* Rare, and without them a change of a guest's clock would go unnoticed. */
	if (host && kevent_exists(r->t, "kvm", "kvm_write_tsc_offset"))
		ret = events_add_known(r, event_set_clock);
	return ret == -ENOENT ? 0 : ret;
}

/* ---- threads ---- */

/*
 * KVM's events come from threads of VMs, which /proc names. For all others only the kernel's own
 * table does, which costs the traced side at each switch and us at the end: it has a place for each
 * thread that ever ran, four million of them on a usual machine.
 */
bool record_wants_tgids(const struct record *r)
{
	if (r->side & CAP_SIDE_GUEST || r->marker != RECORD_MARKER_NONE)
		return true;
	for (size_t i = 0; i < r->events.n; i++)
		if (strcmp(r->events.v[i].sys, "kvm"))
			return true;
	return false;
}

/* 1 if it is new, 0 if it was there, or -errno. */
static int tid_note(struct record *r, uint32_t tid)
{
	const int32_t v = (int32_t)tid;

	for (size_t i = 0; i < r->tids.n; i++)
		if (r->tids.v[i] == v)
			return 0;
	if (array_add(&r->tids.v, &r->tids.n, &r->tids.cap, &v, sizeof(v)))
		return err_set(r->err, ENOMEM, "out of memory");
	return 1;
}

/* Once the instance exists, the kernel gets it at once; before, all of them together. */
static int tid_add(struct record *r, uint32_t tid)
{
	int ret = tid_note(r, tid);

	if (ret <= 0 || !r->k)
		return MIN(ret, 0);
	ret = kinst_pid_add(r->k, (int32_t)tid, r->err);
	if (!ret && r->flight.watch)
		ret = kinst_pid_add(r->flight.watch, (int32_t)tid, r->err);
	if (ret != -ESRCH)
		return ret;
	r->err->text[0] = '\0'; /* it existed and is gone */
	return 0;
}

static int tid_of_task(const struct vm_task *t, void *ctx)
{
	return tid_add(ctx, t->tid);
}

static int tids_of_process(struct record *r, uint32_t pid)
{
	return record_look_tasks(r, pid, tid_of_task, r);
}

static int vcpu_wanted(const struct record *r, uint32_t id, bool *wanted)
{
	uint64_t n;

	*wanted = false;
	for (size_t i = 0; i < r->c->vcpus.n; i++) {
		if (parse_u64(r->c->vcpus.v[i], &n) || n > UINT32_MAX)
			return err_usage(r->err, "option --vcpu: '%s' is not a vcpu_id",
					 r->c->vcpus.v[i]);
		*wanted |= n == id;
	}
	return 0;
}

static int tids_of_vcpus(struct record *r, const struct vm *vm)
{
	int ret = 0;

	for (size_t i = 0; i < vm->n_vcpus && !ret; i++) {
		bool wanted;

		ret = vcpu_wanted(r, vm->vcpu[i].id, &wanted);
		if (!ret && wanted && vm->vcpu[i].tid)
			ret = tid_add(r, vm->vcpu[i].tid);
	}
	return ret;
}

static int pid_of(struct record *r, const char *text, uint32_t *pid)
{
	uint64_t v;

	if (parse_u64(text, &v) || !v || v > INT32_MAX)
		return err_usage(r->err, "option --pid: '%s' is not a process id", text);
	*pid = (uint32_t)v;
	return 0;
}

/* Each --vcpu must exist now: a typing error must not become a capture without events. */
static int vcpus_check(struct record *r)
{
	for (size_t i = 0; i < r->c->vcpus.n; i++) {
		bool found = false, bad;
		uint64_t id;

		if (parse_u64(r->c->vcpus.v[i], &id) || id > UINT32_MAX)
			return vcpu_wanted(r, 0, &bad);
		for (size_t k = 0; k < r->c->vms.n && !found; k++) {
			const struct vm *vm;

			if (vm_list_find(r->vms, r->c->vms.v[k], &vm, NULL))
				continue;
			for (size_t c = 0; c < vm->n_vcpus; c++)
				found |= vm->vcpu[c].id == id;
		}
		if (!found)
			return err_set(r->err, ENOENT, "no vCPU %s in %s (see kvmft list)",
				       r->c->vcpus.v[i], r->c->vms.v[0]);
	}
	return 0;
}

static int tids_of_vm(struct record *r, const char *sel, bool again)
{
	const struct vm *vm;
	int ret = vm_list_find(r->vms, sel, &vm, again ? NULL : r->err);

	if (ret)
		return again ? 0 : ret;
	if (r->c->vcpus.n)
		return tids_of_vcpus(r, vm);
	ret = tids_of_process(r, vm->pid);
	if (ret == -ESRCH)
		return again ? 0 : err_why(r->err, ESRCH, "no process %s", sel);
	return ret;
}

static int tids_look(struct record *r, bool again)
{
	int ret = 0;

	for (size_t i = 0; i < r->c->vms.n && !ret; i++)
		ret = tids_of_vm(r, r->c->vms.v[i], again);
	for (size_t i = 0; i < r->c->pids.n && !ret; i++) {
		uint32_t pid = 0;

		ret = pid_of(r, r->c->pids.v[i], &pid);
		ret = ret ?: tids_of_process(r, pid);
		if (ret == -ESRCH)
			ret = again ? 0 : err_why(r->err, ESRCH, "no process %s", r->c->pids.v[i]);
	}
	return ret;
}

int record_tids(struct record *r)
{
	int ret;

	if (r->c->vcpus.n && !r->c->vms.n)
		return err_usage(r->err, "option --vcpu needs --vm: which machine's?");
	ret = vcpus_check(r);
	ret = ret ?: tids_look(r, false);
	/*
	 * A vCPU that never ran has no thread yet. An empty filter would mean everything, so the
	 * watcher, which sleeps, stands in for it.
	 */
	if (!ret && r->c->vcpus.n && !r->tids.n)
		ret = MIN(tid_note(r, (uint32_t)r->watch.pid), 0);
	r->stand_in = r->tids.n == 1 && r->tids.v[0] == r->watch.pid;
	return ret;
}

int record_tids_again(struct record *r, bool thorough)
{
	int ret;

	if (!r->tids.n ||
	    (r->c->vcpus.n && !thorough && r->tids.n >= r->c->vcpus.n && !r->stand_in))
		return 0;
	if (r->c->vcpus.n) {
		struct vm_list *now = NULL;

		/* Which thread runs a vCPU is only in debugfs. */
		if (record_look_vms(r, &now, NULL) || r->blind) {
			vm_list_free(now);
			return 0;
		}
		vm_list_free(r->vms);
		r->vms = now;
	}
	ret = tids_look(r, true);
	r->stand_in &= r->tids.n == 1;
	return ret;
}
