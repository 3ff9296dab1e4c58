/* SPDX-License-Identifier: GPL-2.0-or-later */
/* trace.c: `kvmft trace`, events live, one per line, in the requested clock. */
#include "cmds.h"
#include "kvmft/live.h"
#include "kvmft/kernel.h"
#include "kvmft/record.h"

struct trace_opts {
	struct trace_config c;
	struct page_opts page;
	struct sides_config sides;
	const char *format;
};

/*
 * What is kept of each side while guests are followed: enough for a second of more events than
 * anybody reads, and no more, because what is kept is walked again and again.
 */
#define FOLLOW_SEGMENT "16M"
#define FOLLOW_KEEP    4
#define FOLLOW_FLUSH   200000000ull
#define GUEST_WORDS    "--flush 200ms --rotate " FOLLOW_SEGMENT

/* Of merge those that can go on. */
static const char *const trace_formats[] = { "text", "json", NULL };

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
	OPTION(0, "long", OPT_FLAG, struct trace_opts, c.longer, NULL,
	       "also the context of each event (interrupts off, hardirq ...), and the time of day\n"
	       "beside seconds since the start"),
	OPTION(0, "clock-offset", OPT_BITS, struct trace_opts, c.clock_offset, "N",
	       "add this to every time: cycles or ns; signed, unsigned or hex (without --clock: of the\n"
	       "clock perf)"),
	OPTION(0, "kvmclock", OPT_STR, struct trace_opts, c.kvmclock, "SEL",
	       "show the kvmclock of this VM"),
	OPTION(0, "pvclock", OPT_STR, struct trace_opts, c.pvclock,
	       "TSC,SYSTEM_TIME,MUL,SHIFT[,FLAGS]",
	       "the VM's pvclock record, as `kvmft guest-offset` prints it there; or a capture made\n"
	       "in it, which has that"),
	OPTION('N', "count", OPT_U64, struct trace_opts, c.count, "COUNT",
	       "end after this many events"),
	OPTION('d', "duration", OPT_DURATION, struct trace_opts, c.duration, "DURATION",
	       "end after this time: 250ms, 10s, 5m"),
	OPTION('b', "buffer-size", OPT_SIZE, struct trace_opts, c.buffer, "SIZE",
	       "kernel ring per CPU (default: 4M, less when memory is short)"),
	OPTION(0, "guest", OPT_LIST, struct trace_opts, sides.guests, "NAME[=COMMAND]",
	       "trace this guest, too, as kvmft record does: both sides on one timeline"),
	SIDES_OPTIONS(struct trace_opts, sides),
	OPTION_LISTED(0, "format", OPT_WORD, struct trace_opts, format, "FORMAT", trace_formats,
		      "with --guest: how to print (default: text)"),
	OPT_END,
};

/* ---- with guests: recorded into memory, and merged meanwhile ---- */

/* The command line of the process that reads. */
static int merge_words(const struct trace_opts *o, struct remote_words *w)
{
	const char *clock = o->c.tsc ? "host-tsc" : o->c.clock;
	char count[32];
	const char *const words[] = {
		"kvmft trace", /* in whose name it speaks */
		"merge", "--follow", "--naming",
		"of what `kvmft record --guest` writes, by kvmft merge HOST GUEST=SEL",
		clock ? "--clock" : NULL, clock, o->format ? "--format" : NULL, o->format,
		"--color", color_names[MAX(o->page.color, 0)], o->page.wide ? "--wide" : NULL,
		o->c.longer ? "--long" : NULL, o->c.count.set ? "--count" : NULL,
		o->c.count.set ? count : NULL,
	};
	int ret = 0;

	snprintf(count, sizeof(count), "%" PRIu64, o->c.count.v);
	for (size_t i = 0; i < ARRAY_SIZE(words) && !ret; i++)
		ret = words[i] ? remote_words_add(w, words[i]) : 0;
	return ret ?: remote_words_add(w, "--");
}

static int trace_guests(struct trace_opts *o, struct kvmft_err *err)
{
	struct record_config host = {
		.clock = kclock_default(), .rotate = FOLLOW_SEGMENT, .as = -1,
		.profile = -1,
		.events = o->c.events, .vms = o->c.vms, .pids = o->c.pids, .buffer = o->c.buffer,
		.duration = o->c.duration, .flush = { true, FOLLOW_FLUSH },
		.keep = { true, FOLLOW_KEEP }, .quiet = true,
	};
	struct remote_words w = { 0 };
	struct str_list *l = &o->sides.options;
	const char *words = GUEST_WORDS;
	char *none = NULL;
	const char *const *clock = out_clock_names;
	_cleanup_(sbuf_free) struct sbuf names = { 0 };
	int ret;

	if (!record_sides)
		return err_lack(err, ENOTSUP, "this small build has no --guest: use the whole kvmft");
	if (o->c.kvmclock || o->c.pvclock || o->c.clock_offset.set)
		return err_usage(err, "with --guest all times are on one timeline: --clock "
				 "kvmclock shows the guest's kvmclock; --kvmclock, --pvclock "
				 "and --clock-offset are for the host alone");
	while (o->c.clock && *clock && strcmp(*clock, o->c.clock))
		sbuf_addf(&names, " %s", *clock++);
	if (o->c.clock && !*clock)
		return err_usage(err, "option --clock: with --guest it is one of%s", names.s ?: "");
	o->sides.temp = true;
	ret = merge_words(o, &w) ? err_set(err, ENOMEM, "out of memory") : 0;
	/* Before the user's own options, which take precedence. */
	xarray_add(&l->v, &l->n, &l->cap, &words, sizeof(words));
	memmove(l->v + 1, l->v, (l->n - 1) * sizeof(*l->v));
	l->v[0] = words;
	o->sides.reader = &w;
	ret = ret ?: record_sides(&o->sides, &host, &none, cli_note, err);
	remote_words_free(&w);
	return ret;
}

static int trace_cmd(void *opts, int argc __unused_arg, char **argv __unused_arg,
		     struct kvmft_err *err)
{
	struct trace_opts *o = opts;
	const struct trace_config *c = &o->c;
	const char *with = o->sides.options.n ? "guest-options" :
			   o->sides.timeout.set ? "guest-timeout" : o->sides.push ? "push" :
			   o->format ? "format" : NULL;

	if (o->sides.guests.n)
		return trace_guests(o, err);
	if (with)
		return err_usage(err, "option --%s goes with --guest", with);
	if (!c->events.n)
		return err_usage(err, "what to trace? give -e EVENT, for instance -e kvm:kvm_exit on a "
				 "host, -e sched:sched_switch in a guest (-e 'kvm:*' for all of kvm)");
	if (c->count.set && !c->count.v)
		return err_usage(err, "option --count: must be at least 1");
	if (c->tsc + !!c->clock + !!c->kvmclock > 1)
		return err_usage(err, "--tsc, --clock and --kvmclock exclude each other");
	if (c->pvclock && !c->kvmclock)
		return err_usage(err, "option --pvclock: it goes with --kvmclock SEL");
	if (c->pvclock && !strchr(c->pvclock, ',')) {
		o->c.guest_capture = c->pvclock;
		o->c.pvclock = NULL;
	}
	/* To seconds since the start nobody knows an offset; those of guests are from perf. */
	if (o->c.clock_offset.set && !o->c.tsc && !o->c.clock && !o->c.kvmclock)
		o->c.clock = "perf";
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
		"  kvmft trace -e 'kvm:kvm_msr/ecx==0x11/' --kvmclock vm1 --pvclock guest\n"
		"  kvmft trace -e kvm:kvm_exit --guest vm1 --guest-options '-e sched:*'\n"
		"  kvmft trace -e sched:sched_wakeup --clock perf \\\n"
		"        --clock-offset $(kvmft guest-offset --clock perf)      in a guest",
	.opts = trace_options,
	.groups = "event vm pid duration count guest clock format\n"
		  "clocks: tsc clock-offset kvmclock pvclock\n"
		  "guests: guest-options guest-timeout push\n"
		  "ring and output: buffer-size long",
	.opts_size = sizeof(struct trace_opts),
	PAGE_AT(struct trace_opts, page),
	.run = trace_cmd,
};
