/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace.c: `kvmft trace`, events as they happen, one line each, in the clock asked for.
 */
#include "trace.h"
#include "cmds.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const struct opt trace_options[] = {
	OPTION('e', "event", OPT_LIST, struct trace_opts, events, "EVENT[/FILTER/]",
	       "sys:event, sys:*, sys or event, with a kernel filter between slashes"),
	OPTION(0, "vm", OPT_LIST, struct trace_opts, vms, "SEL",
	       "only this VM's threads: UUID, name, PID or PID-FD"),
	OPTION('p', "pid", OPT_LIST, struct trace_opts, pids, "PID",
	       "only this process (all its threads and their children)"),
	OPTION(0, "tsc", OPT_FLAG, struct trace_opts, tsc, NULL,
	       "show TSC cycles instead of seconds since the start"),
	OPTION(0, "clock", OPT_STR, struct trace_opts, clock, "CLOCK",
	       "show this trace clock of the kernel: mono_raw, mono, boot, local, perf, x86-tsc, ..."),
	OPTION(0, "clock-offset", OPT_BITS, struct trace_opts, clock_offset, "N",
	       "add this to every time: cycles or ns; signed, unsigned or hex"),
	OPTION(0, "kvmclock", OPT_STR, struct trace_opts, kvmclock, "SEL",
	       "show the kvmclock of this VM"),
	OPTION(0, "guest-capture", OPT_STR, struct trace_opts, guest_capture, "DIR",
	       "take the VM's pvclock record from a capture made in it"),
	OPTION(0, "pvclock", OPT_STR, struct trace_opts, pvclock, "TSC,SYSTEM_TIME,MUL,SHIFT[,FLAGS]",
	       "the VM's pvclock record, as `kvmft guest-offset` says in it"),
	OPTION('N', "count", OPT_U64, struct trace_opts, count, "COUNT",
	       "end after this many events"),
	OPTION('d', "duration", OPT_DURATION, struct trace_opts, duration, "DURATION",
	       "end after this time: 250ms, 10s, 5m"),
	OPTION('b', "buffer-size", OPT_SIZE, struct trace_opts, buffer, "SIZE",
	       "kernel ring per CPU (default: 4M, less when memory is short)"),
	OPT_END,
};

static int trace_prepare(struct trace *t)
{
	int ret;

	if (!t->o->events.n)
		return err_usage(t->err, "what to trace? give -e EVENT, for instance -e kvm:kvm_exit on a "
					 "host, -e sched:sched_switch in a guest (-e 'kvm:*' for all of kvm)");
	if (t->o->count.set && !t->o->count.v)
		return err_usage(t->err, "option --count: 0 events are none");
	ret = ktracefs_open(NULL, KTRACEFS_MOUNT, &t->t, t->err);
	if (ret)
		return ret;
	session_sweep(t->t);
	ret = trace_clock_choose(t);
	ret = ret ? ret : trace_setup_vms(t);
	ret = ret ? ret : trace_setup_events(t);
	if (!ret && t->time == TRACE_KVMCLOCK)
		ret = trace_kvmclock_prepare(t);
	ret = ret ? ret : trace_setup_tids(t);
	ret = ret ? ret : trace_setup_instance(t);
	if (!ret)
		ret = t->signal_fd = session_signals(t->err);
	ret = MIN(ret, 0);
	if (!ret && t->time == TRACE_KVMCLOCK)
		ret = trace_record_get(t);
	return ret;
}

static int trace_start(struct trace *t)
{
	int ret;

	t->begin_ns = util_now_ns();
	t->start = krdtsc_now();
	ret = kinst_tracing(t->k, true, t->err);
	if (!ret)
		ret = kinst_events_enable(t->k, t->err);
	/* After kvm_write_tsc_offset is on, so that no change falls in between. */
	if (!ret && t->time == TRACE_KVMCLOCK)
		ret = trace_kvmclock_begin(t);
	return ret;
}

/* Events that were lost and are in no line, because nothing came after them. */
static uint64_t lost_by_counters(struct trace *t)
{
	uint64_t lost = 0;

	if (t->end == TRACE_COUNT || t->end == TRACE_READER_GONE)
		return 0;
	for (size_t i = 0; i < t->cpus.n; i++) {
		struct kstats s;

		if (kinst_stats(t->k, t->cpus.cpu[i], &s, NULL) == 0)
			lost += s.overrun + s.commit_overrun + s.dropped;
	}
	return lost;
}

static int trace_result(struct trace *t)
{
	const struct live_totals *n = live_totals(t->live);
	uint64_t lost = MAX(n->lost, lost_by_counters(t));
	/* At the end the kernel's counters know what a gap in the stream does not say. */
	bool unknown = n->lost_unknown && t->end == TRACE_COUNT;

	if (t->end == TRACE_READER_GONE)
		return KVMFT_OK;
	if (n->late)
		cli_note("%" PRIu64 " events came too late to be put in order", n->late);
	if (t->kvmclock.unknown)
		cli_note("%" PRIu64 " times could not be converted and are shown as ?",
			 t->kvmclock.unknown);
	if (n->damaged)
		cli_note("%" PRIu64 " sub-buffers could not be read", n->damaged);
	if (lost || unknown)
		cli_note("%" PRIu64 "%s events were lost: fewer events, a filter, or a larger -b help",
			 lost, unknown ? " or more" : "");
	return lost || unknown || n->damaged ? KVMFT_INCOMPLETE : KVMFT_OK;
}

static void trace_undo(struct trace *t)
{
	struct kvmft_err err = { .text = "" };

	live_free(t->live);
	session_raw_close(t->raw, t->cpus.n);
	if (kinst_destroy(t->k, &err) && err.text[0])
		cli_note("%s", err.text);
	trace_kvmclock_free(&t->kvmclock);
	trace_comms_free(&t->comms);
	fmt_free(t->fmt);
	vm_list_free(t->vms);
	kevent_list_free(&t->events);
	kcpus_free(&t->cpus);
	ktracefs_close(t->t);
	if (t->signal_fd >= 0)
		close(t->signal_fd);
	sbuf_free(&t->line);
	free(t->tids);
}

static int trace_run(void *opts, int argc __unused_arg, char **argv __unused_arg,
		     struct kvmft_err *err)
{
	struct trace t = { .o = opts, .err = err, .signal_fd = -1 };
	int ret = trace_prepare(&t);

	if (!ret)
		ret = trace_start(&t);
	if (!ret)
		ret = trace_loop(&t);
	if (!ret)
		ret = trace_result(&t);
	trace_undo(&t);
	return ret;
}

const struct cmd cmd_trace = {
	.name = "trace",
	.summary = "print events live, in time order, in the clock asked for",
	.description = "Prints until Ctrl-C, SIGTERM, the count or the duration. Times are seconds since the start\n"
		       "unless --tsc, --clock or --kvmclock asks for another clock.",
	.examples = "  kvmft trace -e kvm:kvm_exit --vm vm1 -N 20\n"
		    "  kvmft trace -e 'kvm:kvm_msr/ecx==0x11/' --kvmclock vm1 --guest-capture guest\n"
		    "  kvmft trace -e sched:sched_wakeup --clock perf \\\n"
		    "        --clock-offset $(kvmft guest-offset --clock perf)      in a guest",
	.opts = trace_options,
	.opts_size = sizeof(struct trace_opts),
	.run = trace_run,
	.min_args = 0,
	.max_args = 0,
};
