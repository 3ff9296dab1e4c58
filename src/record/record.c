/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record.c: a recording from its options to its end.
 *
 * Order matters here. The kernel is asked about everything that can fail (events, filters, clock)
 * before the output exists; the instance records only when all is ready; TSC offsets are read once
 * kvm_write_tsc_offset is being recorded, so that no change falls in between; and whatever happens,
 * everything is undone by record_undo().
 */
#include "record.h"

#include <sys/stat.h>

/* ---- setting up and undoing ---- */

/* What the small build may lack. */
static int extra(struct record *r, int (*fn)(struct record *r))
{
	return fn ? fn(r) : 0;
}

static int record_start(struct record *r)
{
	int ret;

	r->started = true;
	r->tracing = true;
	/*
	 * Enabling takes some time for each event; what is recorded begins with all of them at
	 * once.
	 */
	ret = kinst_events_enable(r->k, r->err);
	/* Not sooner: a ring that is off does not let its readers sleep. */
	ret = ret ?: record_stream_start(r);
	ret = ret ?: record_cpus(r);
	if (ret)
		return ret;
	meta_begin(&r->line, "begin");
	meta_u64(&r->line, "tsc", krdtsc_now());
	ret = kinst_tracing(r->k, true, r->err);
	if (ret)
		return ret;
	r->live_ns = util_now_ns();
	ret = capw_meta(r->w, &r->line);
	if (ret)
		return err_why(r->err, ret, "cannot write meta");
	ret = record_marker_start(r);
	ret = ret ?: record_facts_vms(r, false);
	ret = ret ?: record_came_begin(r);
	ret = ret ?: record_tids_again(r, true);
	ret = ret ?: extra(r, record_qemu.on);
	return ret ?: record_watch_tell(r, RECORD_LIVE);
}

/* An event whose handler was running when it was disabled may come last of all. */
static bool ring_is_empty(struct record *r)
{
	struct kstats s;

	for (size_t i = 0; i < r->ncpu; i++)
		if (!kinst_stats(r->k, r->drain[i].cpu, &s, NULL) && s.entries)
			return false;
	return true;
}

/*
 * So that what is recorded ends with all events at once. If a full disk does not take the line,
 * more important ones will fail.
 */
static void record_off(struct record *r)
{
	if (kinst_tracing(r->k, false, NULL))
		return;
	meta_begin(&r->line, "stop");
	meta_u64(&r->line, "tsc", krdtsc_now());
	(void)!capw_meta(r->w, &r->line);
}

/*
 * Recording off, then the events (a ring that is off still costs), then empty it. The threads end
 * before the events, which take time one by one, because a ring that is off does not let its
 * readers sleep.
 */
static int record_stop(struct record *r)
{
	int ret = 0, off = 0;

	record_marker_stop(r);
	if (r->tracing)
		record_off(r);
	record_stream_ending(r);
	drain_join(r->drain, r->ncpu);
	if (r->tracing)
		off = kinst_events_disable(r->k);
	r->tracing = false;
	if (off && !r->err->text[0])
		err_why(r->err, off, "cannot disable the events");
	if (r->c->flight)
		return off;
	for (int i = 0; i < 3 && !ret; i++) {
		ret = drain_finish(r->drain, r->ncpu);
		if (ret || ring_is_empty(r))
			break;
		usleep(1000);
	}
	for (size_t i = 0; ret && i < r->ncpu; i++)
		if (r->drain[i].error) {
			if (r->out.stream && r->drain[i].error_is_write)
				return record_stream_error(r, r->drain[i].error);
			err_set(r->err, -r->drain[i].error,
				"cannot %s the data of CPU %u: %s; what was "
				"written before can be read",
				r->drain[i].error_is_write ? "write" : "read", r->drain[i].cpu,
				strerror(-r->drain[i].error));
			break;
		}
	return off ?: ret;
}

static void sweep_leftovers(struct record *r)
{
	struct kreset leftovers = { 0 };

	if (kreset_sweep(r->t, false, &leftovers, NULL) == 0 && leftovers.instances && !r->c->quiet)
		r->note("removed %u instance(s) that a killed kvmft had left", leftovers.instances);
	kreset_free(&leftovers);
	if (record_qemu.leftovers)
		record_qemu.leftovers(r->note);
}

static int count_cpus(struct record *r)
{
	struct kcpus possible = { 0 };
	int ret = kcpus_read(KCPU_POSSIBLE, &possible);

	if (ret)
		return err_why(r->err, ret, "cannot read the list of CPUs");
	r->ncpu_max = possible.n;
	kcpus_free(&possible);
	return 0;
}

/* ---- phases: entered in this order, left in reverse ---- */

static int enter_tracefs(struct record *r)
{
	return ktracefs_open(NULL, KTRACEFS_MOUNT, &r->t, r->err);
}

static void leave_tracefs(struct record *r)
{
	ktracefs_close(r->t);
}

/* The watcher goes before that: it may still have to give the capture its name. */
static void leave_place(struct record *r)
{
	capw_close(r->w);
	record_stream_free(r);
	record_place_free(r);
}

static int enter_machine(struct record *r)
{
	int ret = ktsc_facts_read(r->t, &r->tsc);

	if (ret)
		return err_why(r->err, ret, "cannot read CPU facts");
	sweep_leftovers(r);
	/* For the TSC offsets; a machine without debugfs is reported in the VM list, not here. */
	if (vm_debugfs_mount(NULL, NULL))
		errno = 0;
	ret = count_cpus(r);
	return ret ?: record_nofile(r);
}

static int enter_came(struct record *r)
{
	record_came_open(r);
	return 0;
}

static void leave_tids(struct record *r)
{
	free(r->tids.v);
	vm_list_free(r->vms);
}

static int enter_qemu(struct record *r)
{
	return extra(r, record_qemu.start);
}

static int qemu_facts(struct record *r)
{
	return extra(r, record_qemu.facts);
}

static int enter_probes(struct record *r)
{
	int ret = extra(r, record_sdt.start);

	return ret ?: extra(r, record_net_id.start);
}

static void leave_probes(struct record *r)
{
	(void)!extra(r, record_net_id.end);
	(void)!extra(r, record_sdt.end);
}

static void leave_qemu(struct record *r)
{
	(void)!extra(r, record_qemu.end);
	free(r->met.v);
}

static int enter_events(struct record *r)
{
	int ret = ktracefs_clock_check(r->t, r->c->clock, r->err);

	ret = ret ?: record_events(r);
	return ret ?: record_stacks_events(r);
}

static void leave_events(struct record *r)
{
	kevent_list_free(&r->events);
}

static void leave_instance(struct record *r)
{
	struct kvmft_err err = { .text = "" };

	if (kinst_destroy(r->k, &err) && err.text[0])
		r->note("%s", err.text);
}

static int enter_capture(struct record *r)
{
	return record_to_stream(r->c) ? record_stream_create(r)
				      : capw_create(&r->place.name, &r->w, r->err);
}

static void leave_facts(struct record *r)
{
	u64map_free(&r->tasks_told);
	sbuf_free(&r->line);
}

/*
 * What may fail because of the kernel comes before the capture is made. leave() may be called
 * without enter().
 */
static const struct phase {
	int (*enter)(struct record *r);
	void (*leave)(struct record *r);
} phases[] = {
	{ enter_tracefs, leave_tracefs },
	{ record_place_open, leave_place },
	{ record_watch_start, record_watch_end },
	{ enter_machine, NULL },
	{ record_side, NULL },
	{ record_look_start, record_look_end },
	{ enter_came, record_came_free },
	{ record_tids, leave_tids },
	{ record_modules, NULL },
	{ enter_qemu, leave_qemu },
	{ enter_events, leave_events },
	{ enter_probes, leave_probes },
	{ record_flight_check, record_trigger_free },
	{ record_instance, leave_instance },
	{ record_sched_arm, record_sched_free },
	{ record_stacks_arm, record_stacks_free },
	{ record_symbols_read, record_symbols_free },
	{ record_marker_ready, NULL },
	{ record_flight_arm, record_flight_free },
	{ enter_capture, NULL },
	{ record_store_open, record_store_close },
	{ record_cpus_open, NULL },
	{ record_facts_begin, leave_facts },
	{ record_symbols_write, NULL },
	{ qemu_facts, NULL },
};

static int record_prepare(struct record *r)
{
	int ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(phases) && !ret; i++)
		ret = phases[i].enter(r);
	return ret;
}

static int facts_vms_end(struct record *r)
{
	return record_facts_vms(r, true);
}

/*
 * At the end; those that only help to read it are left out on a full disk, where the last line
 * matters more.
 */
static const struct {
	int (*write)(struct record *r);
	bool helps;
} last_facts[] = {
	{ record_came_take, false },
	{ facts_vms_end, false },
	{ record_store_news, false },
	{ record_loss_end, false },
	{ record_facts_bracket, false },
	{ record_clocks_end, true },
	{ record_facts_tasks, true },
	{ record_stacks_names, true },
	{ record_symbols_end, true },
	{ record_facts_end, false },
	{ record_stream_end, false },
};

/* Even after a full disk as much as possible is written; the first error counts. */
static int record_finish(struct record *r)
{
	bool off = r->c->flight && !(r->c->trigger && r->flight.fired);
	int first, ret;

	record_marker_stop(r);
	if (off && r->tracing) /* at the end, unless the trigger's was what was wanted */
		off = !kinst_tracing(r->k, false, NULL);
	first = off ? record_flight_dump(r, "end") : 0;
	ret = record_stop(r);
	first = first ?: extra(r, record_qemu.end);
	first = first ?: ret;
	for (size_t i = 0; i < ARRAY_SIZE(last_facts); i++) {
		if (first && last_facts[i].helps)
			continue;
		ret = last_facts[i].write(r);
		first = first ?: ret;
	}
	return first;
}

/* It was recorded, as far as it could be written. */
static bool is_disk_error(int ret)
{
	return ret == -ENOSPC || ret == -EDQUOT || ret == -EIO || ret == -EFBIG || ret == -EPIPE ||
	       ret == -ECANCELED;
}

static int record_result(struct record *r)
{
	bool incomplete = (r->lost && !r->c->allow_lost) || r->before.cut || r->blind;
	uint64_t bytes = 0;
	char size[32];

	for (size_t i = 0; i < r->ncpu; i++)
		bytes += r->drain[i].bytes;
	if (!r->c->quiet || incomplete)
		r->note("%s: %llu events, %s, %llu lost (%s)", capw_path(r->w),
			 (unsigned long long)r->stored, str_bytes(size, sizeof(size), bytes),
			 (unsigned long long)r->lost, r->end_reason);
	return incomplete ? KVMFT_INCOMPLETE : KVMFT_OK;
}

/*
 * The previous capture of that name, and old ones: they are removed when the new one is complete.
 */
static void record_replaced(struct record *r, int ret)
{
	struct kvmft_err first = *r->err;

	if (!ret && (r->c->force || r->c->keep_captures.set) && record_watch_tell(r, RECORD_DONE))
		r->note("%s", r->err->text);
	else if (ret && r->place.name.aside[0])
		r->note("the old capture is kept as %s%s", r->place.shown,
			r->place.name.aside);
	*r->err = first;
}

int record_run(struct record_config *c, char **argv, note_fn *note, struct kvmft_err *err)
{
	bool command = argv[0] != NULL;
	struct record r = {
		.c = c,
		.note = note,
		.err = err,
		.place = { .dir = -1 },
		.store = { .wake_fd = -1 },
		.newcomers = { .fd = -1 },
		.out = { .signals = -1 },
		.watch = RECORD_NO_HELPER,
		.look = RECORD_NO_HELPER,
		.qemu = { .keeper = RECORD_NO_HELPER },
		.sched = { .loadavg = -1 },
		.stacks = { .kallsyms = -1 },
		.symbols = { .modules = -1 },
	};
	struct record_child child = { .p = RECORD_NO_HELPER };
	int ret, exit_code = KVMFT_FAILED;
	bool live = false;

	/* Wrong options are reported before anything is cleaned up or started. */
	ret = record_place_options(c, err);
	ret = ret ?: record_stream_check(c, err);
	ret = ret ?: record_environment(argv, err);
	ret = ret ?: record_store_check(&r);
	ret = ret ?: record_marker_check(&r, command ? argv : NULL);
	ret = ret || !record_qemu.check ? ret : record_qemu.check(c, err);
	ret = ret || !record_sdt.check ? ret : record_sdt.check(c, err);
	ret = ret || !record_net_id.check ? ret : record_net_id.check(c, err);
	if (ret)
		return ret;
	/*
	 * A directory without rights for its owner would be closed to us, who gave up the right to
	 * ignore that.
	 */
	r.env.umask = umask(077);
	ret = record_signals_block();
	if (ret)
		return err_why(err, ret, "cannot block signals");
	ret = record_affinity(&r);
	ret = ret ?: record_prepare(&r);
	if (!ret && command)
		ret = record_child_fork(&r, argv, &child);
	ret = ret ?: record_confine(&r, child.p.pid);
	ret = ret ?: record_start(&r);
	live = !ret;
	if (live) {
		if (!c->control.on) {
			record_child_release(&child);
			ret = record_met_command(&r, &child, true);
		}
		record_control_tell(&r, RECORD_NEWS_LIVE, 0);
		if (!c->quiet && !command && !c->duration.set && isatty(STDERR_FILENO))
			note("recording into %s, Ctrl-C ends it", capw_path(r.w));
		ret = ret ?: record_wait(&r, &child);
	}
	if (!ret && command)
		ret = record_child_error(&child, argv[0], err);
	if (!ret && command)
		record_child_tell(&child, argv[0], note);
	record_child_end(&r, &child, argv[0]);
	if (r.started) {
		struct kvmft_err first = *err;
		int fin = record_finish(&r);

		r.started = false;
		if (ret)
			*err = first; /* what ended the recording says more than what followed */
		ret = ret ?: fin;
		if (live && is_disk_error(ret)) /* else there is no capture */
			err->code = KVMFT_INCOMPLETE;
	}
	if (r.w)
		capw_why(capw_dirfd(r.w), ret, err);
	record_replaced(&r, ret);
	if (!ret)
		exit_code = record_result(&r);
	if (r.started)
		record_stop(&r);
	for (size_t i = ARRAY_SIZE(phases); i-- > 0;)
		if (phases[i].leave)
			phases[i].leave(&r);
	free(r.env.affinity);
	return ret ?: exit_code;
}
