/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace.c: `kvmft trace`, events as they happen, one line each, in the clock asked for.
 */
#include "kvmft/trace.h"
#include "cmds.h"
#include "options.h"

struct trace_opts {
	struct trace_config c;
	struct page_opts page;
};

static const struct opt trace_options[] = {
	OPTION('e', "event", OPT_EVENTS, struct trace_opts, c.events, "EVENT[/FILTER/]",
	       "sys:event, sys:*, sys or event, with a kernel filter between slashes"),
	OPTION(0, "vm", OPT_LIST, struct trace_opts, c.vms, "SEL",
	       "only this VM's threads: UUID, name, PID or PID-FD"),
	OPTION('p', "pid", OPT_LIST, struct trace_opts, c.pids, "PID",
	       "only this process (all its threads and their children)"),
	OPTION(0, "tsc", OPT_FLAG, struct trace_opts, c.tsc, NULL,
	       "show TSC cycles instead of seconds since the start"),
	OPTION(0, "clock", OPT_STR, struct trace_opts, c.clock, "CLOCK",
	       "show this trace clock of the kernel: mono_raw, mono, boot, local, perf, x86-tsc, ...;\n"
	       "or realtime: date and time of the day"),
	OPTION(0, "clock-offset", OPT_BITS, struct trace_opts, c.clock_offset, "N",
	       "add this to every time: cycles or ns; signed, unsigned or hex"),
	OPTION(0, "kvmclock", OPT_STR, struct trace_opts, c.kvmclock, "SEL",
	       "show the kvmclock of this VM"),
	OPTION(0, "guest-capture", OPT_STR, struct trace_opts, c.guest_capture, "DIR",
	       "take the VM's pvclock record from a capture made in it"),
	OPTION(0, "pvclock", OPT_STR, struct trace_opts, c.pvclock,
	       "TSC,SYSTEM_TIME,MUL,SHIFT[,FLAGS]",
	       "the VM's pvclock record, as `kvmft guest-offset` says in it"),
	OPTION('N', "count", OPT_U64, struct trace_opts, c.count, "COUNT",
	       "end after this many events"),
	OPTION('d', "duration", OPT_DURATION, struct trace_opts, c.duration, "DURATION",
	       "end after this time: 250ms, 10s, 5m"),
	OPTION('b', "buffer-size", OPT_SIZE, struct trace_opts, c.buffer, "SIZE",
	       "kernel ring per CPU (default: 4M, less when memory is short)"),
	OPTION_CHOICE(0, "color", struct trace_opts, page.color, "WHEN", color_names, COLOR_HELP),
	OPTION(0, "wide", OPT_FLAG, struct trace_opts, page.wide, NULL, WIDE_HELP),
	OPT_END,
};

static int trace_cmd(void *opts, int argc __unused_arg, char **argv __unused_arg,
		     struct kvmft_err *err)
{
	struct trace_opts *o = opts;

	o->c.color = page_color(&o->page);
	o->c.width = page_width(&o->page);
	return trace_run(&o->c, cli_note, err);
}

const struct cmd cmd_trace = {
	.name = "trace",
	.summary = "print events live, in time order, in the clock asked for",
	.description =
		"Prints until Ctrl-C, SIGTERM, the count or the duration. Times are seconds since the start\n"
		"unless --tsc, --clock or --kvmclock asks for another clock.",
	.examples =
		"  kvmft trace -e kvm:kvm_exit --vm vm1 -N 20\n"
		"  kvmft trace -e kvm:kvm_userspace_exit --clock realtime\n"
		"  kvmft trace -e 'kvm:kvm_msr/ecx==0x11/' --kvmclock vm1 --guest-capture guest\n"
		"  kvmft trace -e sched:sched_wakeup --clock perf \\\n"
		"        --clock-offset $(kvmft guest-offset --clock perf)      in a guest",
	.opts = trace_options,
	.opts_size = sizeof(struct trace_opts),
	.run = trace_cmd,
};
