/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace_record.c: where `kvmft trace --kvmclock` gets the guest's pvclock record from.
 *
 * Preferably from the guest itself: from a capture made in it, or from the `pvclock=` line of
 * `kvmft guest-offset`. The host sees a record only when KVM writes one, which a quiet guest makes
 * it do every five minutes, or never (newer kernels). So that is the last resort, with a message
 * about what is being waited for, and how to avoid it.
 */
#include "trace.h"

#include <inttypes.h>
#include <strings.h>

#include "kvmft/guest_time.h"
#include "kvmft/clock.h"

#define WAIT_MS	    100
#define WAIT_KB	    256
#define FIRST_WORD  1000  /* ms of silence before we say that we wait */
#define NEXT_WORDS  30000

static int record_add(struct trace *t, const struct pvclock *pv, uint32_t vcpu, bool all)
{
	struct trace_vm *v = &t->kvmclock;
	const struct trace_pvclock r = { .pv = *pv, .vcpu = vcpu, .all = all };

	if (array_add(&v->record, &v->nrecord, &v->record_cap, &r, sizeof(r)))
		return err_set(t->err, ENOMEM, "out of memory");
	return 0;
}

/* ---- given by hand ---- */

static int record_by_hand(struct trace *t)
{
	struct pvclock pv;
	int ret = params_pvclock(t->c->pvclock, &pv, t->err);

	if (ret)
		return ret;
	if (!(pv.flags & PVCLOCK_TSC_STABLE))
		t->note("the record is one CPU's alone (not stable): a guest's clock may be ahead of "
			"what is shown");
	return record_add(t, &pv, t->kvmclock.vm->n_vcpus ? t->kvmclock.vm->vcpu[0].id : 0, true);
}

/* ---- from a capture made in the guest ---- */

static int records_of(struct trace *t, const struct capture *cap)
{
	const struct vm *vm = t->kvmclock.vm;
	int ret = 0;

	if (cap->side == CAP_SIDE_HOST)
		return err_usage(t->err, "option --guest-capture: %s was recorded on a host",
				 cap->path);
	if (cap->uuid && vm->uuid && strcasecmp(cap->uuid, vm->uuid))
		return err_set(t->err, EINVAL,
			       "%s was recorded in VM %s, but --kvmclock names %s (%s)", cap->path,
			       cap->uuid, vm->sel, vm->uuid);
	for (size_t i = 0; i < cap->npvclock && !ret; i++) {
		struct pvclock pv = cap->pvclock[i].pv;

		pv.flags &= (uint8_t)~PVCLOCK_GUEST_STOPPED;
		if (!pvclock_check(&pv))
			ret = record_add(t, &pv, cap_vcpu_of_cpu(cap, cap->pvclock[i].cpu), false);
	}
	if (!ret && !t->kvmclock.nrecord)
		return err_set(
			t->err, ENODATA,
			"%s holds no pvclock record (a guest without kprobes, or without kvmclock)",
			cap->path);
	return ret;
}

static int record_from_capture(struct trace *t)
{
	struct capture *cap = NULL;
	int ret = capture_open_dir(t->c->guest_capture, &cap, t->err);

	if (ret)
		return ret;
	ret = records_of(t, cap);
	capture_close(cap);
	return ret;
}

/* ---- from KVM, when it writes one ---- */

struct wait {
	struct kevent_list events;
	struct kinst *k;
	struct fmt *fmt;
	int *raw;
	struct live *live;
	struct trace_kvm_event ev;
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
	ret = ret ?: trace_pvclock_resolve(&w->ev, w->fmt, t->err);
	ret = ret ?: session_raw_open(w->k, &t->cpus, &w->raw, t->err);
	ret = ret ?: session_live_open(w->k, &t->cpus, w->raw, &w->live, t->err);
	ret = ret ?: kinst_tracing(w->k, true, t->err);
	return ret ?: kinst_events_enable(w->k, t->err);
}

static int wait_look(struct trace *t, struct wait *w)
{
	struct trace_pvclock r;
	struct live_item item;
	int ret = live_read(w->live, true); /* one kind of event: order does not matter */

	if (ret < 0)
		return err_why(t->err, ret, "cannot read the ring");
	ret = 0;
	while (!ret && live_next(w->live, &item)) {
		if (item.kind != R_EVENT ||
		    !trace_pvclock_event(&t->kvmclock, &w->ev, w->fmt, &item.rec, &r) ||
		    pvclock_check(&r.pv))
			continue;
		t->kvmclock.nrecord = 0; /* the newest counts */
		ret = record_add(t, &r.pv, r.vcpu, false);
		w->found = true;
	}
	return ret;
}

static void wait_say(struct trace *t, uint64_t ms)
{
	t->note("waiting for %s to get a pvclock record from KVM (event kvm_pvclock_update, every 300 s "
		"or, with newer kernels, perhaps never): %" PRIu64
		" s so far; to start at once, give --pvclock as `kvmft guest-offset` prints it in "
		"the guest, or --guest-capture DIR",
		t->kvmclock.vm->name ?: t->kvmclock.vm->sel, ms / 1000);
}

static bool has_ended(const struct vm *vm)
{
	struct vm_task task;
	uint64_t start;
	int ret = vm_task_read(NULL, vm->pid, &task, &start);

	return ret == -ESRCH || ret == -ENOENT ||
	       (!ret && vm->start_time && start != vm->start_time);
}

static int wait_ticks(struct trace *t, struct wait *w)
{
	uint64_t say = FIRST_WORD, ms;
	int ret = 0;

	while (!ret && !t->end && !w->found) {
		if (has_ended(t->kvmclock.vm))
			return err_set(t->err, ESRCH,
				       "%s ended before it got a pvclock record: nothing was traced",
				       t->kvmclock.vm->name ?: t->kvmclock.vm->sel);
		ret = trace_wait(t, WAIT_MS);
		ret = ret ?: wait_look(t, w);
		ms = trace_elapsed_ms(t);
		if (!ret && ms >= say && !w->found && !t->end) {
			wait_say(t, ms);
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

static int record_from_kvm(struct trace *t)
{
	struct kvmft_err undo = { .text = "" };
	struct wait w = { .found = false };
	int ret;

	t->begin_ns = util_now_ns();
	ret = wait_setup(t, &w);
	ret = ret ?: wait_ticks(t, &w);
	live_free(w.live);
	session_raw_close(w.raw, t->cpus.n);
	fmt_free(w.fmt);
	if (kinst_destroy(w.k, &undo) && undo.text[0])
		t->note("%s", undo.text);
	kevent_list_free(&w.events);
	return ret;
}

int trace_record_get(struct trace *t)
{
	if (t->c->pvclock)
		return record_by_hand(t);
	if (t->c->guest_capture)
		return record_from_capture(t);
	return record_from_kvm(t);
}
