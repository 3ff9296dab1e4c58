/* SPDX-License-Identifier: GPL-2.0-or-later */
/* trace.c: printing events live, from its configuration to its result. */
#include "kvmft/live.h"

#include <poll.h>
#include <strings.h>

#include "kvmft/output.h"
#include "kvmft/put.h"
#include "kvmft/vm.h"

#define TRACE_TICK_MS 50 /* reading interval, and so the re-order window */

enum trace_time {
	TRACE_SINCE_START, /* seconds of the TSC since tracing began */
	TRACE_UNITS,	   /* the unchanged stamp: cycles, or a count */
	TRACE_NS,	   /* the stamp is ns */
	TRACE_KVMCLOCK,
	TRACE_REALTIME,	   /* date and time of the day, by the TSC */
};

struct trace_comms {
	struct trace_comm {
		char name[32];
		uint64_t tick; /* when it was looked up */
	} *v;
	size_t n, cap;
	struct u64map by_tid;
	uint64_t asked; /* tick of the last look at the kernel's own list */
};

/* The VM of --kvmclock. */
struct trace_vm {
	struct vm *vm;		/* in trace.vms */
	struct epoch_vm *epochs;
	struct u64map vcpu_of;	/* thread → vCPU id */
	bool hides_pvclock, hides_offset; /* we wanted these events, not the user */
	struct trace_pvclock {
		bool all; /* counts for all vCPUs */
		uint32_t vcpu;
		struct pvclock pv;
	} *record;
	size_t nrecord, record_cap;
	uint64_t unknown;	/* stamps that could not be converted */
};

/* Why the ticks ended. */
enum trace_end { TRACE_GOING, TRACE_SIGNAL, TRACE_DURATION, TRACE_COUNT, TRACE_READER_GONE };

struct trace {
	const struct trace_config *c;
	note_fn *note;
	struct kvmft_err *err;
	struct ktracefs *t;
	struct kinst *k;
	struct kevent_list events;
	struct fmt *fmt;
	struct kcpus cpus;
	struct live *live;
	struct vm_list *vms;
	int32_t *tids; /* --vm and -p */
	size_t ntids, tids_cap;

	enum trace_time time;
	const char *clock;	/* of the instance */
	/* Of the clock since the start: rate, and when tracing began. */
	uint64_t khz, start;
	struct trace_vm kvmclock;
	/* TSC and CLOCK_REALTIME at about the last event: the latter is steered */
	struct clock_bracket wall;

	struct trace_comms comms;
	struct sbuf line;	/* text of this tick */
	struct sbuf shown;	/* ... cut to the width of the terminal */
	struct screen_cut cut;
	int task_width, time_width; /* of the columns, as wide as their contents so far */
	int signal_fd;
	uint64_t begin_ns;	/* CLOCK_MONOTONIC, for the duration */
	uint64_t tick, printed;
	enum trace_end end;
};

/* Milliseconds of CLOCK_MONOTONIC since tracing (or waiting) began; ends it at --duration. */
static uint64_t trace_elapsed_ms(struct trace *t)
{
	uint64_t ns = util_now_ns() - t->begin_ns;

	if (!t->end && t->c->duration.set && ns >= t->c->duration.v)
		t->end = TRACE_DURATION;
	return ns / 1000000;
}

/* Waits at most ms for a signal or the loss of the reader. */
static int trace_wait(struct trace *t, unsigned int ms)
{
	struct pollfd p[2] = { { .fd = t->signal_fd, .events = POLLIN },
			       { .fd = STDOUT_FILENO } }; /* POLLERR: the reader is gone */

	if (poll(p, 2, (int)ms) < 0 && errno != EINTR)
		return err_why(t->err, errno, "cannot wait");
	if (p[0].revents)
		t->end = TRACE_SIGNAL;
	else if (p[1].revents & POLLERR)
		t->end = TRACE_READER_GONE;
	return 0;
}

/*
 * ---- --kvmclock: host TSC to the kvmclock of one VM ----
 *
 * TSC offsets come from debugfs, the pvclock record from the guest or from KVM; both may change
 * while tracing, which kvm_write_tsc_offset and kvm_pvclock_update report. These two are recorded
 * even if the user did not ask for them, and are fed to the VM's epochs in time order, before
 * anything later is printed.
 */

/* How many fields EV_PVCLOCK has; those of EV_TSC_OFFSET. */
enum { PV_FIELDS = 7 };
enum { WR_VCPU, WR_PREV, WR_NEXT, WR_FIELDS };

static int add_hidden(struct trace *t, const char *name, bool *hidden)
{
	int ret;

	*hidden = !kevent_list_has(&t->events, "kvm", name);
	if (!*hidden)
		return 0;
	ret = kevent_list_add(&t->events, "kvm", name, NULL);
	return ret ? err_set(t->err, -ret, "out of memory") : 0;
}

/* Finds the VM and adds its clock events to t->events. Before the instance is made. */
static int kvmclock_prepare(struct trace *t)
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

/* TSC offsets and record, once the clock events are being recorded. */
static int kvmclock_begin(struct trace *t)
{
	struct trace_vm *v = &t->kvmclock;
	int ret = check_fields(t->fmt, EV_PVCLOCK, PV_FIELDS, t->err);

	ret = ret ?: check_fields(t->fmt, EV_TSC_OFFSET, WR_FIELDS, t->err);
	if (ret)
		return ret;
	v->epochs = epoch_vm_new(t->start);
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

/* Looks at an event before it is printed. False: the user did not ask for it. */
static bool kvmclock_feed(struct trace *t, const struct rec *rec)
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

static bool kvmclock_value(struct trace *t, uint64_t ts, int32_t tid, uint64_t *ns)
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
		return err_usage(t->err, "option --pvclock: %s was recorded on a host",
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
		ret = vm_task_read(vm->pid, &task, &start);
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
				"guest-offset` prints it in the guest, or a capture made there",
				name, ms / 1000);
			say = MAX(say + NEXT_WORDS, ms);
		}
	}
	if (!ret && !w->found)
		return err_set(
			t->err, ETIMEDOUT,
			"no pvclock record of %s came within %" PRIu64
			" s, so nothing was traced: give --pvclock as `kvmft guest-offset` prints "
			"it in the guest, or a capture made there",
			t->kvmclock.vm->sel, trace_elapsed_ms(t) / 1000);
	if (!ret && trace_elapsed_ms(t) >= FIRST_WORD)
		t->note("the pvclock record is there");
	return ret;
}

/* From the options, or from the VM's kvm_pvclock_update, which is waited for. */
static int record_get(struct trace *t)
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

/*
 * The instance has the trace clock that is shown, so that the kernel itself does the work; only
 * seconds since the start and a guest's kvmclock are computed here, from x86-tsc, or the former
 * from mono_raw if there is no such clock.
 */

#define TSC_CLOCK "x86-tsc"

/* Checks the options; sets t->time and t->clock. */
static int clock_choose(struct trace *t)
{
	const struct trace_config *c = t->c;
	bool wall = c->clock && !strcmp(c->clock, "realtime");
	struct ktsc_facts f;
	int ret;

	t->clock = c->tsc || c->kvmclock ? TSC_CLOCK : kclock_default();
	if (c->clock && !wall)
		t->clock = c->clock;
	ret = ktracefs_clock_check(t->t, t->clock, t->err);
	if (ret)
		return ret;
	if (wall)
		t->time = TRACE_REALTIME;
	else if (c->kvmclock)
		t->time = TRACE_KVMCLOCK;
	else if (!c->tsc && !c->clock)
		t->time = TRACE_SINCE_START;
	else
		t->time = clock_trace_is_ns(t->clock) ? TRACE_NS : TRACE_UNITS;
	t->khz = 1000000; /* of ns */
	if ((t->time != TRACE_SINCE_START && !wall) || strcmp(t->clock, TSC_CLOCK))
		return 0;
	ktsc_facts_read(t->t, &f);
	t->khz = f.khz;
	return t->khz ? 0
		      : err_lack(t->err, ENODATA,
				 "cannot tell how fast the TSC runs: use --tsc, "
				 "or --clock mono_raw");
}

/* A bracket in the clock of stamps. */
static uint64_t stamp_of(const struct trace *t, const struct clock_bracket *b)
{
	return strcmp(t->clock, TSC_CLOCK) ? b->mono_raw : b->tsc;
}

/* ---- what is traced, and the instance for it ---- */

#define SUBBUF_KB 64u

static int tids_add(struct trace *t, uint32_t pid, const char *what)
{
	uint32_t *tid = NULL;
	size_t n = 0;
	int ret = vm_thread_ids(NULL, pid, &tid, &n);

	if (ret)
		return err_why(t->err, ret, "no process %s", what);
	for (size_t i = 0; i < n; i++)
		xarray_add(&t->tids, &t->ntids, &t->tids_cap, &tid[i], sizeof(*t->tids));
	free(tid);
	return 0;
}

static int setup_tids(struct trace *t)
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

static int setup_instance(struct trace *t)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	size_t known = t->ntids;
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
	/* Threads that began after they were listed, and before the instance could see it. */
	if (!ret && known) {
		array_sort(t->tids, known, tid_cmp);
		ret = setup_tids(t);
	}
	for (size_t i = known; known && i < t->ntids && !ret; i++)
		if (!bsearch(&t->tids[i], t->tids, known, sizeof(*t->tids), tid_cmp))
			ret = kinst_pid_add(t->k, t->tids[i], t->err);
	ret = ret ?: kinst_events_add(t->k, &t->events, t->err);
	ret = ret ?: session_formats(t->t, &t->events, &t->fmt, t->err);
	return ret ?: live_open(t->k, &t->cpus, true, &t->live, t->err);
}

/* As `kvmft merge` prints it, without the side: TASK-TID  [CPU]  TIME  SYSTEM:EVENT: FIELDS */

#define COMMS_MAX   65536		   /* then all are forgotten */
#define COMMS_TICKS (2000 / TRACE_TICK_MS) /* a name is trusted this long: exec changes it */

static void trace_comms_free(struct trace_comms *c)
{
	free(c->v);
	u64map_free(&c->by_tid);
	*c = (struct trace_comms){ 0 };
}

static struct trace_comm *comm_slot(struct trace_comms *c, int32_t tid)
{
	struct trace_comm *m;
	uint64_t at;

	if (u64map_get(&c->by_tid, (uint32_t)tid, &at))
		return &c->v[at];
	if (c->n >= COMMS_MAX)
		trace_comms_free(c);
	m = array_grow(&c->v, c->n, &c->cap, sizeof(*m));
	if (!m || u64map_put(&c->by_tid, (uint32_t)tid, c->n))
		return NULL;
	c->n++;
	return m;
}

/* The kernel remembers names of some threads that are gone: "TID NAME". Once a tick is enough. */
static void comms_from_kernel(struct trace *t)
{
	_cleanup_free_ char *text = NULL;
	char *save, *line, *end;

	if (t->comms.asked == t->tick || ktracefs_text(t->t, "saved_cmdlines", &text))
		return;
	t->comms.asked = t->tick;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		long tid = strtol(line, &end, 10);
		struct trace_comm *m;

		if (end == line || *end != ' ' || tid <= 0 || tid > INT32_MAX)
			continue;
		m = comm_slot(&t->comms, (int32_t)tid);
		if (!m || m->name[0])
			continue;
		snprintf(m->name, sizeof(m->name), "%.31s", end + strspn(end, " "));
		str_printable(m->name);
	}
}

/* From /proc while the thread lives; afterwards the last known name stays. */
static const char *comm_get(struct trace *t, int32_t tid)
{
	struct trace_comm *m;
	char name[32];

	if (tid == 0)
		return "<idle>";
	m = comm_slot(&t->comms, tid);
	if (!m)
		return "<...>";
	if (m->tick && t->tick - m->tick < COMMS_TICKS)
		return m->name;
	m->tick = t->tick;
	if (!file_read_line(AT_FDCWD, TEXTF("/proc/%" PRId32 "/comm", tid), name, sizeof(name))) {
		str_printable(name);
		memcpy(m->name, name, sizeof(name));
	} else if (!m->name[0]) {
		comms_from_kernel(t);
		m = comm_slot(&t->comms, tid); /* the array may have moved */
		if (m && !m->name[0])
			strcpy(m->name, "<...>");
	}
	return m ? m->name : "<...>";
}

/* The time of day, as merge with --clock realtime has it, of a stamp of x86-tsc or mono_raw. */
static bool line_day(struct trace *t, uint64_t ts, char *text, size_t size)
{
	int64_t cycles = (int64_t)(ts - stamp_of(t, &t->wall));
	char date[32];
	time_t second;
	struct tm tm;
	uint64_t v;

	/* Read again once a second. */
	if ((!t->wall.tsc || cycles > (int64_t)(t->khz * 1000)) && kbracket_read(8, &t->wall))
		return false;
	cycles = (int64_t)(ts - stamp_of(t, &t->wall));
	v = t->wall.real + (uint64_t)((__int128)cycles * 1000000 / (__int128)t->khz);
	v += t->c->clock_offset.set ? t->c->clock_offset.v : 0;
	second = (time_t)(v / 1000000000u);
	if (!localtime_r(&second, &tm) || !strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm))
		return false;
	snprintf(text, size, "%s.%09" PRIu64, date, v % 1000000000u);
	return true;
}

static void line_time(struct trace *t, const struct live_item *i, int32_t tid)
{
	char text[48] = "?";
	bool known = true;
	uint64_t v = i->ts;

	if (t->time == TRACE_KVMCLOCK)
		known = kvmclock_value(t, i->ts, tid, &v);
	else if (t->time == TRACE_REALTIME)
		known = line_day(t, i->ts, text, sizeof(text));
	else if (t->time == TRACE_SINCE_START)
		v = tsc_cycles_to_ns(i->ts > t->start ? i->ts - t->start : 0, t->khz);
	/* Wraps on purpose: offsets are two's complement. */
	v += t->c->clock_offset.set ? t->c->clock_offset.v : 0;
	if (known && t->time == TRACE_UNITS)
		snprintf(text, sizeof(text), "%" PRIu64, v);
	else if (known && t->time != TRACE_REALTIME)
		snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64, v / 1000000000u,
			 v % 1000000000u);
	t->time_width = MAX(t->time_width, (int)strlen(text));
	sbuf_addf(&t->line, "%*s  ", t->time_width, text);
}

/* Appends the line of an item to t->line; false if it is not to be shown. */
static bool line_add(struct trace *t, const struct live_item *i)
{
	const struct fmt_event *ev = NULL;
	size_t from = t->line.len, what;
	char task[64] = "-", day[48], context[FMT_CONTEXT + 1] = "";
	int32_t tid = -1;
	uint32_t last;

	if (i->kind == R_EVENT) {
		if (t->time == TRACE_KVMCLOCK && !kvmclock_feed(t, &i->rec))
			return false;
		tid = fmt_pid(t->fmt, &i->rec);
		snprintf(task, sizeof(task), "%s-%" PRId32, comm_get(t, tid), tid);
		ev = fmt_by_id(t->fmt, i->rec.id);
	}
	/* What precedes the time. Wider ones are not waited for: a column grows when it must. */
	last = t->cpus.n ? t->cpus.cpu[t->cpus.n - 1] : 0;
	t->task_width = MAX(t->task_width, (int)strlen(task));
	if (t->c->longer && t->time == TRACE_SINCE_START)
		sbuf_addf(&t->line, "%s ", line_day(t, i->ts, day, sizeof(day)) ? day : "?");
	sbuf_addf(&t->line, "%-*s [%0*u] ", t->task_width, task, (int)put_dec_len(last), i->cpu);
	if (t->c->longer && i->kind == R_EVENT)
		fmt_context(t->fmt, &i->rec, context);
	if (t->c->longer)
		sbuf_addf(&t->line, "%-*s ", FMT_CONTEXT, context);
	line_time(t, i, tid);
	what = t->line.len;
	if (i->kind == R_DAMAGE) {
		sbuf_add(&t->line, "DAMAGED: a sub-buffer of this CPU could not be read");
	} else if (i->kind != R_EVENT && i->lost) {
		sbuf_addf(&t->line, "LOST %" PRIu64 " EVENTS of this CPU", i->lost);
	} else if (i->kind != R_EVENT) {
		sbuf_add(&t->line, "LOST EVENTS of this CPU, their number is unknown");
	} else if (ev) {
		sbuf_add(&t->line, fmt_sys(ev));
		sbuf_addc(&t->line, ':');
		sbuf_add(&t->line, fmt_name(ev));
		sbuf_add(&t->line, ": ");
		fmt_print(ev, &i->rec, &t->line);
	} else {
		sbuf_addf(&t->line, "event-%u: (no format, %u bytes)", i->rec.id, i->rec.len);
	}
	sbuf_addc(&t->line, '\n');
	if (t->c->color)
		out_paint(&t->line, from, 0, what - from, 0);
	return true;
}

/* Rings are read every tick; a reader that has gone is noticed even without events. */

#define FLUSH_AT (256u << 10)

static int loop_flush(struct trace *t)
{
	const struct sbuf *line = &t->line;
	enum session_write how;
	int ret;

	t->cut.width = t->c->width;
	if (t->c->width) {
		line = &t->shown;
		screen_cut(&t->cut, t->line.s, t->line.len, &t->shown);
	}
	if (line->error)
		return err_set(t->err, ENOMEM, "out of memory");
	ret = session_write(t->signal_fd, line->s, line->len, &how, t->err);
	if (how == SESSION_SIGNAL)
		t->end = TRACE_SIGNAL;
	else if (how == SESSION_READER_GONE)
		t->end = TRACE_READER_GONE;
	sbuf_reset(&t->line);
	sbuf_reset(&t->shown);
	return ret;
}

/* 1: there is more to read at once. */
static int loop_read(struct trace *t, bool last)
{
	int more = live_read(t->live, last), ret;
	const struct live_item *item;

	if (more < 0)
		return err_why(t->err, more, "cannot read the ring");
	ret = 0;
	while (!ret && t->end != TRACE_COUNT && t->end != TRACE_READER_GONE &&
	       (item = live_next(t->live))) {
		if (line_add(t, item) && item->kind == R_EVENT)
			t->printed++;
		if (t->c->count.set && t->printed >= t->c->count.v)
			t->end = TRACE_COUNT;
		if (t->line.len >= FLUSH_AT)
			ret = loop_flush(t);
	}
	ret = ret ?: loop_flush(t);
	return ret ?: more;
}

/* Never faster than the tick: between two reads late events find their place. */
static int trace_loop(struct trace *t)
{
	uint64_t next = 0, end = UINT64_MAX;
	int ret = 0;

	if (t->c->duration.set)
		end = (t->c->duration.v + 999999) / 1000000;
	while (!t->end) {
		uint64_t now = trace_elapsed_ms(t), when;

		t->tick++;
		next = MAX(next + TRACE_TICK_MS, now);
		when = MIN(next, end);
		ret = trace_wait(t, (unsigned int)(when > now ? when - now : 0));
		if (!ret && !t->end)
			ret = loop_read(t, false);
		if (ret < 0)
			return ret;
	}
	/* Everything that the ring still holds; not wanted if enough was printed. */
	ret = kinst_events_disable(t->k);
	if (ret)
		return err_why(t->err, ret, "cannot disable the events");
	if (t->end == TRACE_COUNT || t->end == TRACE_READER_GONE)
		return 0;
	do {
		ret = loop_read(t, true);
	} while (ret > 0 && t->end != TRACE_COUNT && t->end != TRACE_READER_GONE);
	return MIN(ret, 0);
}

static int trace_prepare(struct trace *t)
{
	int ret = t->signal_fd = session_signals(t->err); /* before there is something to undo */

	ret = ret < 0 ? ret : ktracefs_open(NULL, KTRACEFS_MOUNT, &t->t, t->err);
	if (ret)
		return ret;
	kreset_leftovers(t->t, t->note);
	ret = clock_choose(t);
	if (!ret && (t->c->vms.n || t->c->kvmclock)) {
		/* For the TSC offsets; a machine without debugfs is reported by the VM list. */
		vm_debugfs_mount();
		ret = vm_scan(NULL, &t->vms, t->err);
	}
	for (size_t i = 0; i < t->c->events.n && !ret; i++)
		ret = kevent_expand(t->t, t->c->events.v[i], &t->events, t->err);
	if (!ret && t->time == TRACE_KVMCLOCK)
		ret = kvmclock_prepare(t);
	/* While there is no instance: who reads a capture ends where memory is out. */
	if (!ret && t->time == TRACE_KVMCLOCK && t->c->guest_capture)
		ret = record_get(t);
	ret = ret ?: setup_tids(t);
	ret = ret ?: setup_instance(t);
	if (!ret && t->time == TRACE_KVMCLOCK && !t->c->guest_capture)
		ret = record_get(t);
	return ret;
}

static int trace_result(struct trace *t)
{
	const struct live_totals *n = live_totals(t->live);
	/* No line shows those that were lost last, because nothing came after them. */
	uint64_t lost = t->end == TRACE_COUNT ? n->lost
					      : MAX(n->lost, session_lost(t->k, &t->cpus, NULL));
	/* At the end the kernel's counters show what a gap in the stream does not. */
	bool unknown = n->lost_unknown && t->end == TRACE_COUNT;

	if (t->end == TRACE_READER_GONE)
		return KVMFT_OK;
	if (n->late)
		t->note("%" PRIu64 " events came too late to be put in order", n->late);
	if (t->kvmclock.unknown)
		t->note("%" PRIu64 " times could not be converted and are shown as ?",
			 t->kvmclock.unknown);
	if (n->damaged)
		t->note("%" PRIu64 " sub-buffers could not be read", n->damaged);
	if (lost || unknown)
		t->note("%" PRIu64
			"%s events were lost: fewer events, a filter, or a larger -b help",
			lost, unknown ? " or more" : "");
	return lost || unknown || n->damaged ? KVMFT_INCOMPLETE : KVMFT_OK;
}

int trace_run(const struct trace_config *c, note_fn *note, struct kvmft_err *err)
{
	struct trace t = { .c = c, .note = note, .err = err, .signal_fd = -1 };
	int ret = trace_prepare(&t);

	if (!ret) {
		struct clock_bracket b;

		t.begin_ns = util_now_ns();
		/* As early as any event from here on. */
		t.start = kbracket_read(1, &b) ? 0 : stamp_of(&t, &b);
		ret = kinst_tracing(t.k, true, t.err);
		ret = ret ?: kinst_events_enable(t.k, t.err);
		/* After kvm_write_tsc_offset is on, so that no change falls in between. */
		if (!ret && t.time == TRACE_KVMCLOCK)
			ret = kvmclock_begin(&t);
	}
	ret = ret ?: trace_loop(&t);
	ret = ret ?: trace_result(&t);
	live_free(t.live);
	kinst_end(t.k, t.note);
	epoch_vm_free(t.kvmclock.epochs);
	u64map_free(&t.kvmclock.vcpu_of);
	free(t.kvmclock.record);
	trace_comms_free(&t.comms);
	fmt_free(t.fmt);
	vm_list_free(t.vms);
	kevent_list_free(&t.events);
	kcpus_free(&t.cpus);
	ktracefs_close(t.t);
	util_close_fd(&t.signal_fd);
	sbuf_free(&t.line);
	sbuf_free(&t.shown);
	free(t.tids);
	return ret;
}
