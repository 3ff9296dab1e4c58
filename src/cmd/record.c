/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record.c: `kvmft record`, host or guest into a capture directory.
 *
 * Order matters here. The kernel is asked about everything that can fail (events, filters, clock)
 * before the output exists; the instance records only when all is ready; TSC offsets are read
 * after kvm_write_tsc_offset is being recorded, so that no change falls in between; and whatever
 * happens, the way back runs through record_undo().
 */
#include "record.h"
#include "cmds.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct opt record_options[] = {
	OPTION('o', "output", OPT_STR, struct record_opts, output, "CAPTURE",
	       "capture directory to make (default: kvmft.data, the old one moves to kvmft.data.old)"),
	OPTION(0, "output-dir", OPT_STR, struct record_opts, output_dir, "DIR",
	       "for cron: the next capture in DIR, named by its time; one recorder at a time"),
	OPTION(0, "keep-captures", OPT_U64, struct record_opts, keep_captures, "N",
	       "with --output-dir: remove the oldest, so that N are left with the new one"),
	OPTION('e', "event", OPT_LIST, struct record_opts, events, "EVENT[/FILTER/]",
	       "sys:event, sys:*, sys or event, with a kernel filter between slashes;\n"
	       "'default' stands for the default set, 'none' for no event"),
	OPTION(0, "sdt", OPT_LIST, struct record_opts, sdt, "BINARY[:PROVIDER[:MARKER]]",
	       "also the SDT markers of this program or library (QEMU: back end dtrace); with\n"
	       ",argN:string or ,argN:hex behind it, and /FILTER/"),
	OPTION_CHOICE(0, "marker", struct record_opts, marker, "WHOSE", record_marker_choices,
		      "also what COMMAND, or all programs, write to trace_marker, as QEMU does with\n"
		      "back end ftrace (default: command for a qemu-system-*, else none)"),
	OPTION(0, "vm", OPT_LIST, struct record_opts, vms, "SEL",
	       "only this VM's threads: UUID, name, PID or PID-FD"),
	OPTION('p', "pid", OPT_LIST, struct record_opts, pids, "PID",
	       "only this process (all its threads and their children)"),
	OPTION(0, "vcpu", OPT_LIST, struct record_opts, vcpus, "N",
	       "only this vCPU (its vcpu_id) of --vm"),
	OPTION(0, "qemu", OPT_LIST, struct record_opts, qemu, "PATTERN",
	       "switch trace events of QEMU on meanwhile, with * and ? as wildcards; 'default'\n"
	       "stands for a useful set, - in front leaves events out"),
	OPTION(0, "qmp", OPT_LIST, struct record_opts, qmp, "SOCKET",
	       "--qemu: speak QMP to this socket (default: the QEMUs of --vm, or all)"),
	OPTION(0, "hmp", OPT_LIST, struct record_opts, hmp, "SOCKET",
	       "--qemu: speak HMP, the monitor for people, to this socket"),
	OPTION('b', "buffer-size", OPT_SIZE, struct record_opts, buffer, "SIZE",
	       "kernel ring per CPU (default: 8M, less when memory is short)"),
	OPTION(0, "clock", OPT_STR, struct record_opts, clock, "CLOCK",
	       "trace clock (default: x86-tsc)"),
	OPTION('d', "duration", OPT_DURATION, struct record_opts, duration, "DURATION",
	       "stop after this time: 250ms, 10s, 5m"),
	OPTION(0, "max-size", OPT_SIZE, struct record_opts, max_size, "SIZE",
	       "stop when the capture holds this much event data"),
	OPTION(0, "min-free", OPT_SIZE, struct record_opts, min_free, "SIZE",
	       "stop before the file system has less free than this"),
	OPTION(0, "flush", OPT_DURATION, struct record_opts, flush, "DURATION",
	       "write out what is in the ring this often, so that no more is lost when the\n"
	       "recorder is killed (default: 1s; 0: only when the ring is half full)"),
	OPTION(0, "sync", OPT_FLAG, struct record_opts, sync, NULL,
	       "and have it on the disk, for the case that the machine dies"),
	OPTION(0, "rotate", OPT_STR, struct record_opts, rotate, "SIZE|DURATION",
	       "begin a new segment at this size (100M) or after this time (10m)"),
	OPTION(0, "keep", OPT_U64, struct record_opts, keep, "N",
	       "keep the last N segments only"),
	OPTION(0, "flight-recorder", OPT_FLAG, struct record_opts, flight, NULL,
	       "keep the last events in the kernel's ring; write them out on SIGUSR1, on\n"
	       "--trigger, and at the end"),
	OPTION(0, "trigger", OPT_STR, struct record_opts, trigger, "EVENT[/FILTER/]",
	       "flight recorder: write the ring out when this event happens, or with\n"
	       "exit-longer=DURATION[/FILTER/] when an exit lasts longer"),
	OPTION(0, "overwrite", OPT_FLAG, struct record_opts, overwrite, NULL,
	       "when the ring is full lose the oldest events instead of the newest"),
	OPTION(0, "allow-lost", OPT_FLAG, struct record_opts, allow_lost, NULL,
	       "exit 0 even when events were lost"),
	OPTION(0, "cpus", OPT_STR, struct record_opts, cpus, "LIST",
	       "CPUs that kvmft itself may run on: 0-3,8"),
	OPTION(0, "host", OPT_FLAG, struct record_opts, host, NULL,
	       "record as a KVM host (default: told by the machine)"),
	OPTION(0, "guest", OPT_FLAG, struct record_opts, guest, NULL,
	       "record as a guest"),
	OPTION(0, "force", OPT_FLAG, struct record_opts, force, NULL,
	       "replace an existing capture; take a ring larger than 5 % of the memory"),
	OPTION(0, "load-modules", OPT_FLAG, struct record_opts, load_modules, NULL,
	       "load a missing kvm_intel, kvm_amd or kvm (guest: msr)"),
	OPTION('q', "quiet", OPT_FLAG, struct record_opts, quiet, NULL,
	       "say nothing unless something is wrong"),
	OPT_END,
};

/* ---- setting up and undoing ---- */

static int record_start(struct record *r)
{
	int ret;

	r->started = true;
	r->tracing = true;
	/* Enabling takes its time for each event; what is recorded begins with all of them at once. */
	ret = kinst_events_enable(r->k, r->err);
	/* Not sooner: a ring that is off does not let its readers sleep. */
	ret = ret ? ret : record_cpus(r);
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
		return err_set(r->err, -ret, "cannot write meta: %s", strerror(-ret));
	ret = record_marker_start(r);
	if (ret)
		return ret;
	ret = record_facts_vms(r, false);
	ret = ret ? ret : record_tids_again(r, true);
	ret = ret ? ret : record_qemu_on(r);
	return ret ? ret : record_watch_tell(r, RECORD_LIVE);
}

/* An event whose handler was running when its event was disabled may come last of all. */
static bool ring_is_empty(struct record *r)
{
	struct kstats s;

	for (size_t i = 0; i < r->ncpu; i++)
		if (!kinst_stats(r->k, r->drain[i].cpu, &s, NULL) && s.entries)
			return false;
	return true;
}

/*
 * So that what is recorded ends with all events at once. Where a full disk does not take the line, others will
 * fail that matter more.
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
 * Recording off, then the events (a ring that is off still costs), then empty it. The threads end before the
 * events, which take their time one by one: a ring that is off does not let its readers sleep.
 */
static int record_stop(struct record *r)
{
	int ret = 0, off = 0;

	record_marker_stop(r);
	if (r->tracing)
		record_off(r);
	drain_join(r->drain, r->ncpu);
	if (r->tracing)
		off = kinst_events_disable(r->k);
	r->tracing = false;
	if (off && !r->err->text[0])
		err_set(r->err, -off, "cannot disable the events: %s", strerror(-off));
	if (r->o->flight)
		return off;
	for (int i = 0; i < 3 && !ret; i++) {
		ret = drain_finish(r->drain, r->ncpu);
		if (ret || ring_is_empty(r))
			break;
		usleep(1000);
	}
	for (size_t i = 0; ret && i < r->ncpu; i++)
		if (r->drain[i].error) {
			err_set(r->err, -r->drain[i].error, "cannot %s the data of CPU %u: %s; what was "
				"written before is readable",
				r->drain[i].error_is_write ? "write" : "read", r->drain[i].cpu,
				strerror(-r->drain[i].error));
			break;
		}
	return off ? off : ret;
}

static void record_undo(struct record *r)
{
	struct kvmft_err err = { .text = "" };

	if (r->started)
		record_stop(r);
	(void)!record_qemu_end(r);
	record_store_close(r);
	record_flight_free(r);
	if (kinst_destroy(r->k, &err) && err.text[0])
		cli_note("%s", err.text);
	record_trigger_free(r);
	record_sdt_free(r);
	record_look_end(r);
	record_watch_end(r);
	capw_close(r->w);
	record_place_free(r);
	vm_list_free(r->vms);
	kevent_list_free(&r->events);
	ktracefs_close(r->t);
	free(r->tids.v);
	u64map_free(&r->tasks_told);
	free(r->met.v);
	free(r->env.affinity);
	sbuf_free(&r->line);
}

static void sweep_leftovers(struct record *r)
{
	struct kreset leftovers = { 0 };

	if (kreset_sweep(r->t, false, &leftovers, NULL) == 0 && leftovers.instances && !r->o->quiet)
		cli_note("removed %u instance(s) that a killed kvmft had left", leftovers.instances);
	kreset_free(&leftovers);
	record_qemu_leftovers();
}

static int count_cpus(struct record *r)
{
	struct kcpus possible = { 0 };
	int ret = kcpus_read(KCPU_POSSIBLE, &possible);

	if (ret)
		return err_set(r->err, -ret, "cannot read the list of CPUs: %s", strerror(-ret));
	r->ncpu_max = possible.n;
	kcpus_free(&possible);
	return 0;
}

static int record_prepare(struct record *r)
{
	int ret;

	ret = ktracefs_open(NULL, KTRACEFS_MOUNT, &r->t, r->err);
	ret = ret ? ret : record_place_open(r);
	ret = ret ? ret : record_watch_start(r);
	if (ret)
		return ret;
	ret = ktsc_facts_read(r->t, &r->tsc);
	if (ret)
		return err_set(r->err, -ret, "cannot read CPU facts: %s", strerror(-ret));
	sweep_leftovers(r);
	/* For the TSC offsets; a machine without debugfs is told in the VM list, not here. */
	if (vm_debugfs_mount(NULL, NULL))
		errno = 0;
	ret = count_cpus(r);
	ret = ret ? ret : record_nofile(r);
	ret = ret ? ret : record_side(r);
	ret = ret ? ret : record_look_start(r);
	ret = ret ? ret : record_tids(r);
	ret = ret ? ret : record_modules(r);
	ret = ret ? ret : record_qemu_start(r);
	ret = ret ? ret : ktracefs_clock_check(r->t, r->o->clock, r->err);
	ret = ret ? ret : record_events(r);
	ret = ret ? ret : record_sdt_prepare(r);
	ret = ret ? ret : record_flight_check(r);
	ret = ret ? ret : record_instance(r);
	ret = ret ? ret : record_marker_ready(r);
	ret = ret ? ret : record_flight_arm(r);
	ret = ret ? ret : capw_create(&r->place.name, &r->w, r->err);
	ret = ret ? ret : record_store_open(r);
	ret = ret ? ret : record_cpus_open(r);
	ret = ret ? ret : record_facts_begin(r);
	return ret ? ret : record_qemu_facts(r);
}

/* Even after a full disk as much as possible is written down; the first error counts. */
static int record_finish(struct record *r)
{
	int (*const step[])(struct record *) = {
		record_store_news, record_loss_end, record_facts_bracket, record_clocks_end,
		record_facts_tasks, record_facts_end,
	};
	bool off = r->o->flight && !(r->o->trigger && r->flight.fired);
	int first, ret;

	record_marker_stop(r);
	if (off && r->tracing) /* at the end, unless the trigger's was what was wanted */
		off = !kinst_tracing(r->k, false, NULL);
	first = off ? record_flight_dump(r, "end") : 0;
	ret = record_stop(r);
	first = first ? first : record_qemu_end(r);
	first = first ? first : ret;
	ret = record_facts_vms(r, true);
	first = first ? first : ret;
	for (size_t i = 0; i < ARRAY_SIZE(step); i++) {
		/* Clocks and names are nice to have; on a full disk the last line matters more. */
		if (first && (step[i] == record_facts_tasks || step[i] == record_clocks_end))
			continue;
		ret = step[i](r);
		first = first ? first : ret;
	}
	return first;
}

/* It was recorded, as far as it could be written. */
static bool is_disk_error(int ret)
{
	return ret == -ENOSPC || ret == -EDQUOT || ret == -EIO || ret == -EFBIG;
}

static int record_result(struct record *r)
{
	bool incomplete = r->lost && !r->o->allow_lost;
	uint64_t bytes = 0;
	char size[32];

	for (size_t i = 0; i < r->ncpu; i++)
		bytes += r->drain[i].bytes;
	if (!r->o->quiet || incomplete)
		cli_note("%s: %llu events, %s, %llu lost (%s)", capw_path(r->w),
			 (unsigned long long)r->stored, str_bytes(size, sizeof(size), bytes),
			 (unsigned long long)r->lost, r->end_reason);
	return incomplete ? KVMFT_INCOMPLETE : KVMFT_OK;
}

/* What had the name of the capture before, and old ones: they go when the new one is complete. */
static void record_replaced(struct record *r, int ret)
{
	struct kvmft_err first = *r->err;

	if (!ret && (r->o->force || r->o->keep_captures.set) && record_watch_tell(r, RECORD_DONE))
		cli_note("%s", r->err->text);
	else if (ret && r->place.name.aside[0])
		cli_note("what it was to replace is there as %s%s", r->place.shown, r->place.name.aside);
	*r->err = first;
}

static int record_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct record_opts *o = opts;
	struct record r = {
		.o = o, .err = err, .watch = { .to = -1, .from = -1 }, .place = { .dir = -1 },
		.store = { .wake_fd = -1 }, .qemu = { .to = -1, .from = -1 }, .look = { .to = -1, .from = -1 },
	};
	struct record_child child = { .go = -1, .failed = -1 };
	int ret, exit_code = KVMFT_FAILED;

	/* What is wrong with the options is told before anything is swept or started. */
	if (o->host && o->guest)
		return err_usage(err, "--host and --guest exclude each other");
	ret = record_place_options(opts, err);
	ret = ret ? ret : record_environment(argv, err);
	ret = ret ? ret : record_store_check(&r);
	ret = ret ? ret : record_marker_check(&r, argc ? argv : NULL);
	ret = ret ? ret : record_qemu_check(o, err);
	if (ret)
		return ret;
	/* A folder without rights for its owner would be closed to us, who gave up passing over them. */
	r.env.umask = umask(077);
	ret = record_signals_block();
	if (ret)
		return err_set(err, -ret, "cannot block signals: %s", strerror(-ret));
	ret = record_affinity(&r);
	ret = ret ? ret : record_prepare(&r);
	if (!ret && argc)
		ret = record_child_fork(&r, argv, &child);
	if (!ret)
		ret = record_confine(&r, child.pid);
	if (!ret)
		ret = record_start(&r);
	if (!ret) {
		record_child_release(&child);
		ret = record_met_command(&r, &child, true);
		if (!o->quiet && !argc && !o->duration.set && isatty(STDERR_FILENO))
			cli_note("recording into %s, Ctrl-C ends it", capw_path(r.w));
		ret = ret ? ret : record_wait(&r, &child);
	}
	if (!ret && argc)
		ret = record_child_error(&child, argv[0], err);
	if (!ret && argc)
		record_child_tell(&child, argv[0]);
	record_child_end(&child);
	if (r.started) {
		struct kvmft_err first = *err;
		int fin = record_finish(&r);

		r.started = false;
		if (ret)
			*err = first; /* what ended the recording tells more than what followed */
		ret = ret ? ret : fin;
		if (is_disk_error(ret))
			err->code = KVMFT_INCOMPLETE;
	}
	record_replaced(&r, ret);
	if (!ret)
		exit_code = record_result(&r);
	record_undo(&r);
	return ret ? ret : exit_code;
}

static void record_defaults(void *opts)
{
	((struct record_opts *)opts)->clock = "x86-tsc";
}

const struct cmd cmd_record = {
	.name = "record",
	.summary = "capture host or guest into a capture directory",
	.args = "[-- COMMAND...]",
	.description = "Records until Ctrl-C, SIGTERM, the duration, or the end of COMMAND. Run it on the host\n"
		       "and in the guest, then bring both captures to one place: kvmft merge HOST GUEST.",
	.examples = "  kvmft record -o host -d 10s          the KVM events of this host, 10 seconds\n"
		    "  kvmft record -o guest -- fio job     in a guest, while fio runs\n"
		    "  kvmft record --vm vm1 -e default -e 'sched:sched_switch'",
	.opts = record_options,
	.opts_size = sizeof(struct record_opts),
	.defaults = record_defaults,
	.run = record_run,
	.options_first = true,
	.min_args = 0,
	.max_args = -1,
};
