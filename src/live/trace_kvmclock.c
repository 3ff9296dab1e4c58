/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace_kvmclock.c: host TSC to the kvmclock of one VM, live.
 *
 * TSC offsets come from debugfs, the pvclock record from the guest or from KVM; both may change
 * while tracing, which kvm_write_tsc_offset and kvm_pvclock_update report. These two are recorded
 * even if the user did not ask for them, and are fed to the VM's epochs in time order, before
 * anything later is printed.
 */
#include "trace.h"

#include <strings.h>

#include "kvmft/clock.h"

/* How many fields EV_PVCLOCK has; those of EV_TSC_OFFSET. */
enum { PV_FIELDS = 7 };
enum { WR_VCPU, WR_PREV, WR_NEXT, WR_FIELDS };

/* ---- setting up ---- */

static int add_hidden(struct trace *t, const char *name, bool *hidden)
{
	int ret;

	*hidden = !kevent_list_has(&t->events, "kvm", name);
	if (!*hidden)
		return 0;
	ret = kevent_list_add(&t->events, "kvm", name, NULL);
	return ret ? err_set(t->err, -ret, "out of memory") : 0;
}

int trace_kvmclock_prepare(struct trace *t)
{
	struct trace_vm *v = &t->kvmclock;
	const struct vm *found;
	int ret = vm_list_find(t->vms, t->c->kvmclock, &found, t->err);

	ret = ret ?: kevent_kvm_check(t->t, t->err);
	if (ret)
		return ret;
	v->vm = &t->vms->vm[found - t->vms->vm]; /* of a list that is ours */
	if (!v->vm->has_debugfs)
		return err_lack(t->err, ENOENT, "cannot get the TSC offset of %s: %s", v->vm->sel,
				t->vms->debugfs_text ?: "it has no directory in debugfs");
	ret = add_hidden(t, event_name(EV_PVCLOCK), &v->hides_pvclock);
	return ret ?: add_hidden(t, event_name(EV_TSC_OFFSET), &v->hides_offset);
}

static int check_fields(const struct fmt *fmt, enum event_role role, size_t n,
			struct kvmft_err *err)
{
	uint8_t have = event_find(fmt, role, 0)->have;

	if (have >= n)
		return 0;
	return err_lack(err, ENOENT, "event kvm:%s of this kernel has no field %.*s",
			event_name(role), EVENT_FIELD(event_field(role, have)));
}

static int read_maps(struct trace *t)
{
	struct trace_vm *v = &t->kvmclock;
	bool differ = false;
	struct tsc_map map, first = { 0 };
	int ret = vm_reread_clocks(NULL, v->vm);

	if (ret)
		return err_why(t->err, ret, "cannot read the TSC offset of %s", v->vm->sel);
	for (size_t i = 0; i < v->vm->n_vcpus; i++) {
		const struct vm_vcpu *c = &v->vm->vcpu[i];
		const char *problem = NULL;

		map = (struct tsc_map){ .offset = c->tsc_offset, .ratio = c->tsc_ratio,
					.frac = (uint8_t)c->tsc_frac_bits };
		if (!c->has_offset)
			problem = "debugfs does not say it";
		else if (c->in_guest_mode)
			problem = "a nested guest runs in it all the time, try again";
		else if (c->ratio_state == VM_RATIO_REFUSED || c->ratio_state == VM_RATIO_UNKNOWN ||
			 tsc_map_check(&map))
			problem = "its TSC scaling ratio makes no sense";
		if (problem)
			return err_set(t->err, ENODATA, "no TSC offset of vCPU %u of %s: %s", c->id,
				       v->vm->sel, problem);
		ret = epoch_vm_read(v->epochs, c->id, c->tsc_after, &map);
		if (!ret && c->tid)
			ret = u64map_put(&v->vcpu_of, c->tid, c->id);
		if (ret)
			return err_set(t->err, -ret, "out of memory");
		if (!i)
			first = map;
		differ |= !tsc_map_equal(&first, &map);
	}
	if (!v->epochs->n)
		return err_set(t->err, ENODATA, "%s has no vCPU", v->vm->sel);
	if (differ)
		t->note("the vCPUs of %s have different TSC offsets: events of other threads are shown "
			"in the clock of vCPU %u",
			v->vm->sel, v->epochs->vcpus[0]->id);
	return 0;
}

int trace_kvmclock_begin(struct trace *t)
{
	struct trace_vm *v = &t->kvmclock;
	int ret = check_fields(t->fmt, EV_PVCLOCK, PV_FIELDS, t->err);

	ret = ret ?: check_fields(t->fmt, EV_TSC_OFFSET, WR_FIELDS, t->err);
	if (ret)
		return ret;
	v->epochs = epoch_vm_new(t->start);
	if (!v->epochs)
		return err_set(t->err, ENOMEM, "out of memory");
	ret = read_maps(t);
	for (size_t i = 0; i < v->nrecord && !ret; i++) {
		struct trace_pvclock *r = &v->record[i];
		const struct epoch_vcpu *c = epoch_vm_or_first(v->epochs, r->vcpu);
		uint64_t guest;

		/* One that starts in the future is of another VM, or of an earlier life of this. */
		if (epoch_result_usable(epoch_host_to_guest(c, t->start, &guest)) &&
		    (int64_t)(guest - r->pv.tsc_timestamp) < 0)
			return err_set(
				t->err, ERANGE,
				"the pvclock record is not one of %s as it runs now: its time stamp %" PRIu64
				" lies ahead of the guest's TSC %" PRIu64,
				v->vm->sel, r->pv.tsc_timestamp, guest);
		if (r->all)
			r->pv.flags |= PVCLOCK_TSC_STABLE;
		ret = epoch_vm_pvclock(v->epochs, r->vcpu, t->start, &r->pv);
		err_why(t->err, ret, "cannot use the pvclock record");
	}
	return ret;
}

/* ---- while tracing ---- */

/* The thread belongs to the VM's process; an unknown thread may have been created since. */
static bool of_this_vm(const struct trace_vm *v, int32_t tid)
{
	if (tid <= 0)
		return false;
	if (u64map_get(&v->vcpu_of, (uint32_t)tid, NULL))
		return true;
	return access(TEXTF("/proc/%" PRIu32 "/task/%" PRId32, v->vm->pid, tid), F_OK) == 0;
}

/* The fields of a kvm_pvclock_update; false if it is not one of this VM. */
static bool pvclock_event(const struct trace_vm *v, const struct fmt *fmt, const struct rec *rec,
			  struct trace_pvclock *out)
{
	const struct event_type *e = event_type_of(fmt_by_id(fmt, rec->id));

	if (e->role != EV_PVCLOCK || !of_this_vm(v, fmt_pid(fmt, rec)))
		return false;
	*out = (struct trace_pvclock){ .vcpu = (uint32_t)event_u64(e, 0, rec),
				       .pv = event_pvclock(e, rec) };
	return true;
}

static void feed_offset(struct trace *t, const struct event_type *e, const struct rec *rec)
{
	struct trace_vm *v = &t->kvmclock;
	const struct epoch_vcpu *c;
	uint64_t x[WR_FIELDS];

	if (!of_this_vm(v, fmt_pid(t->fmt, rec)))
		return;
	for (size_t i = 0; i < WR_FIELDS; i++)
		if (!fmt_u64(&e->f[i], rec, &x[i]))
			return;
	/*
	 * A software KVM prints offsets that it never applies. debugfs has the one in force: an
	 * event that it contradicts, and that would change what we hold, is not trusted.
	 */
	c = epoch_vm_find(v->epochs, (uint32_t)x[WR_VCPU]);
	if (c && c->n && c->v[c->n - 1].has_map && !vm_reread_clocks(NULL, v->vm))
		for (size_t i = 0; i < v->vm->n_vcpus; i++) {
			const struct vm_vcpu *now = &v->vm->vcpu[i];

			if (now->id == (uint32_t)x[WR_VCPU] && now->has_offset &&
			    !now->in_guest_mode && now->tsc_offset != x[WR_NEXT] &&
			    now->tsc_offset == c->v[c->n - 1].map.offset)
				return;
		}
	if (epoch_vm_write_offset(v->epochs, (uint32_t)x[WR_VCPU], rec->ts, x[WR_PREV], x[WR_NEXT]))
		t->note("a change of the TSC offset of vCPU %" PRIu64
			" could not be taken in: times "
			"after it are wrong",
			x[WR_VCPU]);
}

bool trace_kvmclock_feed(struct trace *t, const struct rec *rec)
{
	const struct event_type *e = event_type_of(fmt_by_id(t->fmt, rec->id));
	struct trace_vm *v = &t->kvmclock;
	struct trace_pvclock r;

	if (e->role == EV_PVCLOCK) {
		/* If one is refused, the previous record stays in force. */
		if (pvclock_event(v, t->fmt, rec, &r) &&
		    epoch_vm_pvclock(v->epochs, r.vcpu, rec->ts, &r.pv))
			t->note("a pvclock record of vCPU %u could not be taken in", r.vcpu);
		return !v->hides_pvclock;
	}
	if (e->role == EV_TSC_OFFSET) {
		feed_offset(t, e, rec);
		return !v->hides_offset;
	}
	return true;
}

bool trace_kvmclock_value(struct trace *t, uint64_t ts, int32_t tid, uint64_t *ns)
{
	struct trace_vm *v = &t->kvmclock;
	uint64_t id;
	bool known = tid > 0 && u64map_get(&v->vcpu_of, (uint32_t)tid, &id);

	if (epoch_result_usable(epoch_host_to_kvmclock(
		    epoch_vm_or_first(v->epochs, known ? (int64_t)id : -1), ts, ns)))
		return true;
	v->unknown++;
	return false;
}

/*
 * Where `kvmft trace --kvmclock` gets the guest's pvclock record from.
 *
 * Preferably from the guest itself: from a capture made in it, or from the `pvclock=` line of
 * `kvmft guest-offset`. The host sees a record only when KVM writes one, which a quiet guest makes
 * it do every five minutes, or never (newer kernels). So that is the last resort, with a message
 * about what is being waited for, and how to avoid it.
 */

#define WAIT_MS	    100
#define WAIT_KB	    256
#define FIRST_WORD  1000  /* ms of silence before we say that we wait */
#define NEXT_WORDS  30000

static void record_add(struct trace *t, const struct pvclock *pv, uint32_t vcpu, bool all)
{
	struct trace_vm *v = &t->kvmclock;
	const struct trace_pvclock r = { .pv = *pv, .vcpu = vcpu, .all = all };

	xarray_add(&v->record, &v->nrecord, &v->record_cap, &r, sizeof(r));
}

static int records_of(struct trace *t, const struct capture *cap)
{
	const struct vm *vm = t->kvmclock.vm;

	if (cap->side == CAP_SIDE_HOST)
		return err_usage(t->err, "option --guest-capture: %s was recorded on a host",
				 cap->path);
	if (cap->uuid && vm->uuid && strcasecmp(cap->uuid, vm->uuid))
		return err_set(t->err, EINVAL,
			       "%s was recorded in VM %s, but --kvmclock names %s (%s)", cap->path,
			       cap->uuid, vm->sel, vm->uuid);
	for (size_t i = 0; i < cap->npvclock; i++) {
		struct pvclock pv = cap->pvclock[i].pv;

		pv.flags &= (uint8_t)~PVCLOCK_GUEST_STOPPED;
		if (!pvclock_check(&pv))
			record_add(t, &pv, cap_vcpu_of_cpu(cap, cap->pvclock[i].cpu), false);
	}
	if (!t->kvmclock.nrecord)
		return err_set(
			t->err, ENODATA,
			"%s holds no pvclock record (a guest without kprobes, or without kvmclock)",
			cap->path);
	return 0;
}

/* ---- from KVM, when it writes one ---- */

struct wait {
	struct kevent_list events;
	struct kinst *k;
	struct fmt *fmt;
	struct live *live;
	bool found;
};

static int wait_setup(struct trace *t, struct wait *w)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	uint32_t *tid = NULL;
	size_t n = 0;
	int ret = kevent_list_add(&w->events, "kvm", "kvm_pvclock_update", NULL);

	ret = ret ?: vm_thread_ids(NULL, t->kvmclock.vm->pid, &tid, &n);
	if (ret)
		return err_why(t->err, ret, "cannot look for the threads of %s",
			       t->kvmclock.vm->sel);
	c.clock = t->clock;
	c.buffer_kb = WAIT_KB;
	c.pid = (const int32_t *)tid; /* thread ids are positive: the same bits */
	c.npid = n;
	c.event_fork = true;
	ret = kinst_create(t->t, &c, &w->k, t->err);
	free(tid);
	ret = ret ?: kinst_events_add(w->k, &w->events, t->err);
	ret = ret ?: session_formats(t->t, &w->events, &w->fmt, t->err);
	ret = ret ?: check_fields(w->fmt, EV_PVCLOCK, PV_FIELDS, t->err);
	ret = ret ?: live_open(w->k, &t->cpus, true, &w->live, t->err);
	ret = ret ?: kinst_tracing(w->k, true, t->err);
	return ret ?: kinst_events_enable(w->k, t->err);
}

static int wait_look(struct trace *t, struct wait *w)
{
	struct trace_pvclock r;
	const struct live_item *item;
	int ret = live_read(w->live, true); /* one kind of event: order does not matter */

	if (ret < 0)
		return err_why(t->err, ret, "cannot read the ring");
	while ((item = live_next(w->live))) {
		if (item->kind != R_EVENT ||
		    !pvclock_event(&t->kvmclock, w->fmt, &item->rec, &r) ||
		    pvclock_check(&r.pv))
			continue;
		t->kvmclock.nrecord = 0; /* the newest counts */
		record_add(t, &r.pv, r.vcpu, false);
		w->found = true;
	}
	return 0;
}

static int wait_ticks(struct trace *t, struct wait *w)
{
	const struct vm *vm = t->kvmclock.vm;
	const char *name = vm->name ?: vm->sel;
	uint64_t say = FIRST_WORD, ms, start;
	struct vm_task task;
	int ret = 0;

	while (!ret && !t->end && !w->found) {
		ret = vm_task_read(NULL, vm->pid, &task, &start);
		if (ret == -ESRCH || ret == -ENOENT ||
		    (!ret && vm->start_time && start != vm->start_time))
			return err_set(
				t->err, ESRCH,
				"%s ended before it got a pvclock record: nothing was traced",
				name);
		ret = trace_wait(t, WAIT_MS);
		ret = ret ?: wait_look(t, w);
		ms = trace_elapsed_ms(t);
		if (!ret && ms >= say && !w->found && !t->end) {
			t->note("waiting for %s to get a pvclock record from KVM (event "
				"kvm_pvclock_update, every 300 s or, with newer kernels, perhaps never): "
				"%" PRIu64 " s so far; to start at once, give --pvclock as `kvmft "
				"guest-offset` prints it in the guest, or --guest-capture DIR",
				name, ms / 1000);
			say = MAX(say + NEXT_WORDS, ms);
		}
	}
	if (!ret && !w->found)
		return err_set(
			t->err, ETIMEDOUT,
			"no pvclock record of %s came within %" PRIu64
			" s, so nothing was traced: give --pvclock as `kvmft guest-offset` prints "
			"it in the guest, or --guest-capture",
			t->kvmclock.vm->sel, trace_elapsed_ms(t) / 1000);
	if (!ret && trace_elapsed_ms(t) >= FIRST_WORD)
		t->note("the pvclock record is there");
	return ret;
}

int trace_record_get(struct trace *t)
{
	struct wait w = { .found = false };
	int ret;

	if (t->c->pvclock) {
		struct pvclock pv;

		ret = params_pvclock(t->c->pvclock, &pv, t->err);
		if (ret)
			return ret;
		if (!(pv.flags & PVCLOCK_TSC_STABLE))
			t->note("the record is one CPU's alone (not stable): a guest's clock may be ahead of "
				"what is shown");
		record_add(t, &pv, t->kvmclock.vm->n_vcpus ? t->kvmclock.vm->vcpu[0].id : 0, true);
		return 0;
	}
	if (t->c->guest_capture) {
		struct capture *cap = NULL;

		ret = capture_open_dir(t->c->guest_capture, &cap, t->err);
		if (ret)
			return ret;
		ret = records_of(t, cap);
		capture_close(cap);
		return ret;
	}
	t->begin_ns = util_now_ns();
	ret = wait_setup(t, &w);
	ret = ret ?: wait_ticks(t, &w);
	live_free(w.live);
	fmt_free(w.fmt);
	kinst_end(w.k, t->note);
	kevent_list_free(&w.events);
	return ret;
}
