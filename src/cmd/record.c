/* SPDX-License-Identifier: GPL-2.0-or-later */
/* record.c: `kvmft record`, host or guest into a capture directory. */
#include "cmds.h"
#include "kvmft/kernel.h"
#include "kvmft/record.h"

/* The recording of this machine first: most options belong to it. */
struct record_options {
	struct record_config c;
	struct sides_config sides;
	bool remote;
	const char *blame;
};

static const struct opt record_options[] = {
	OPTION('o', "output", OPT_STR, struct record_config, output, "CAPTURE",
	       "capture directory to make (default: kvmft.data, the old one moves to kvmft.data.old);\n"
	       "-: a stream to standard output, for kvmft receive; DIR/: for cron, the next capture\n"
	       "in DIR, named by its time; one recorder at a time"),
	OPTION('e', "event", OPT_EVENTS, struct record_config, events, "EVENT[/FILTER/]",
	       "sys:event, sys:*, sys or event, with a kernel filter between slashes;\n"
	       "sets: 'default'; 'mem': why vCPUs waited for memory;\n"
	       "'io': what the VMM's threads waited for; 'net': where\n"
	       "packets were; 'net-id': also their addresses and ports;\n"
	       "'marker': what COMMAND, or without one any program, writes to trace_marker (always\n"
	       "of a qemu-system-* as COMMAND); 'none'"),
	OPTION_CHOICE(0, "profile", struct record_config, profile, "HOW", record_profile_choices,
		      "how much, with what -e names: 'lean': exits, entries, injections; 'default'; or\n"
		      "'full': all sets, and all events of KVM (default: default, without -e)"),
	OPTION(0, "stacks", OPT_EVENTS, struct record_config, stacks, "EVENT[/FILTER/]",
	       "also these events, and with each (for which FILTER is true) the kernel's stack\n"
	       "at that moment; 'user': with all events that of the program, as the VMM"),
	OPTION(0, "symbols", OPT_FLAG, struct record_config, symbols, NULL,
	       "in a guest: keep its functions' names and addresses, for those in the host's events"),
	OPTION(0, "guest-processes", OPT_FLAG, struct record_config, guest_processes, NULL,
	       "AMD: also which address space of its guest each exit was in"),
	OPTION(0, "sdt", OPT_LIST, struct record_config, sdt, "BINARY[:PROVIDER[:MARKER]]",
	       "also the SDT markers of this program or library (QEMU: back end dtrace); with\n"
	       ",argN:string or ,argN:hex behind it, and /FILTER/"),
	OPTION(0, "vm", OPT_LIST, struct record_config, vms, "SEL",
	       "only this VM's threads: UUID, name, PID or PID-FD"),
	OPTION('p', "pid", OPT_LIST, struct record_config, pids, "PID",
	       "only this process (all its threads and their children)"),
	OPTION('v', "vcpu", OPT_LIST, struct record_config, vcpus, "N",
	       "only this vCPU (its vcpu_id) of --vm"),
	OPTION(0, "qemu", OPT_LIST, struct record_config, qemu, "PATTERN",
	       "switch on trace events of QEMU meanwhile; * and ? are wildcards, 'default'\n"
	       "is a useful set, - in front leaves events out"),
	OPTION(0, "monitor", OPT_LIST, struct record_config, monitors, "SOCKET",
	       "--qemu: use this monitor, QMP or HMP (default: of the QEMUs of --vm, or of all)"),
	OPTION('b', "buffer-size", OPT_SIZE, struct record_config, buffer, "SIZE",
	       "kernel ring per CPU (default: 8M, less when memory is short)"),
	OPTION(0, "clock", OPT_STR, struct record_config, clock, "CLOCK",
	       "trace clock (default: x86-tsc; mono_raw on arm64)"),
	OPTION('d', "duration", OPT_DURATION, struct record_config, duration, "DURATION",
	       "stop after this time: 250ms, 10s, 5m"),
	OPTION(0, "max-size", OPT_SIZE, struct record_config, max_size, "SIZE",
	       "stop when the capture holds this much event data"),
	OPTION(0, "min-free", OPT_SIZE, struct record_config, min_free, "SIZE",
	       "stop before the file system has less free than this"),
	OPTION(0, "flush", OPT_DURATION, struct record_config, flush, "DURATION",
	       "write out what is in the ring this often, so that no more is lost when the\n"
	       "recorder is killed (default: 1s; 0: only when the ring is half full)"),
	OPTION(0, "sync", OPT_FLAG, struct record_config, sync, NULL,
	       "and sync to the disk each time, in case the machine dies"),
	OPTION(0, "rotate", OPT_STR, struct record_config, rotate, "SIZE|DURATION",
	       "begin a new segment at this size (100M) or after this time (10m)"),
	OPTION(0, "keep", OPT_U64, struct record_config, keep, "N",
	       "keep the last N segments only; with -o DIR/: the last N captures"),
	OPTION(0, "flight-recorder", OPT_FLAG, struct record_config, flight, NULL,
	       "keep the last events in the kernel's ring; write them out on SIGUSR1, on\n"
	       "--trigger, and at the end"),
	OPTION(0, "trigger", OPT_STR, struct record_config, trigger, "EVENT[/FILTER/]",
	       "a flight recorder: write the ring out when this event happens, or with\n"
	       "exit-longer=DURATION[/FILTER/] when an exit lasts longer, or with\n"
	       "marker[=TEXT] when a program writes (TEXT) to trace_marker"),
	OPTION(0, "before", OPT_DURATION, struct record_config, before, "DURATION",
	       "a flight recorder: how far the ring must reach back; it grows until it does"),
	OPTION_CHOICE(0, "as", struct record_config, as, "WHAT", record_as_choices,
		      "what this machine is: a KVM host, a guest, both (default: detected)"),
	OPTION(0, "guest", OPT_LIST, struct record_options, sides.guests, "NAME[=COMMAND]",
	       "record this guest, too, into a session directory with both: COMMAND runs a\n"
	       "program there (default: 'ssh root@NAME')"),
	OPTION(0, "guest-command", OPT_STR, struct record_options, sides.command, "COMMAND",
	       "run this in guests once all sides record; the recording ends\n"
	       "when it has ended in all"),
	SIDES_OPTIONS(struct record_options, sides),
	OPTION_MAYBE(0, "blame", OPT_STR, struct record_options, blame, "OPTIONS",
	       "flight recorder, with --guest: when all sides have written out their rings, print\n"
	       "what kvmft blame says of the last second before that, or with these options:\n"
	       "--blame='--last 5s --than 1ms'"),
	OPTION(0, "on-over", OPT_STR, struct record_options, sides.on_over, "COMMAND",
	       "... and run this by sh each time their --budget was exceeded"),
	/* What --guest runs in a guest: options and orders come from standard input. */
	{ .name = "remote",
	  .type = OPT_FLAG,
	  .offset = offsetof(struct record_options, remote),
	  .help = "recorded by another kvmft",
	  .flags = OPT_HIDDEN },
	OPTION(0, "force", OPT_FLAG, struct record_config, force, NULL,
	       "replace an existing capture; allow a ring larger than 5 % of the memory"),
	OPT_END,
};

/* The cursor stays at the beginning of the line, so that whatever comes next replaces it. */
static void show_progress(const struct record_progress *p)
{
	char bytes[32], ends[64] = "^C ends";

	if (p->waits_for)
		snprintf(ends, sizeof(ends), "waits for %.40s", p->waits_for);
	else if (p->left_ns != UINT64_MAX)
		snprintf(ends, sizeof(ends), "%llu s left",
			 (unsigned long long)((p->left_ns + 999999999) / 1000000000));
	fprintf(stderr, "\033[K%llu s: %llu events/s, %llu lost, %s %s; %s\r",
		(unsigned long long)(p->elapsed_ns / 1000000000),
		(unsigned long long)p->per_second, (unsigned long long)p->lost,
		str_bytes(bytes, sizeof(bytes), p->bytes), p->sent ? "sent" : "on disk", ends);
}

/* A line for each side; the cursor goes back to the first one. */
static void show_sides(const char *const *lines, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "\033[K%s%s", lines[i], i + 1 < n ? "\n" : "\r");
	if (n > 1)
		fprintf(stderr, "\033[%zuA", n - 1);
}

static int record_sides_cmd(struct record_options *o, char **argv, struct kvmft_err *err)
{
	bool shown = !o->c.quiet && !argv[0] && isatty(STDERR_FILENO);
	_cleanup_(sbuf_free) struct sbuf blame = { 0 };
	int ret;

	if (!record_sides)
		return err_lack(err, ENOTSUP, "this small build has no --guest: use the whole kvmft");
	o->sides.flight = o->c.flight;
	o->sides.before = o->c.before;
	if (o->blame && !o->c.flight)
		return err_usage(err, "option --blame needs --flight-recorder");
	if (o->blame) {
		static const char *const side[] = { "host", "GUEST=SEL" };
		_cleanup_(sbuf_free) struct sbuf naming = { 0 };

		(void)setenv("KVMFT_PAGER", "", 1);
		/* What is run when all have written their rings, and its words for a named VM. */
		sbuf_add(&naming, "kvmft blame");
		for (size_t i = 0; i < ARRAY_SIZE(side); i++) {
			_cleanup_(sbuf_free) struct sbuf path = { 0 };

			sbuf_addf(&path, "%s/%s", o->c.output ?: SIDES_DEFAULT, side[i]);
			sbuf_addc(&naming, ' ');
			sbuf_add_word(&naming, path.s ?: "");
		}
		sbuf_add(&blame, "'kvmft record' blame -q --top 3 --naming ");
		sbuf_add_word(&blame, naming.s ?: "");
		sbuf_addf(&blame, " %s --", o->blame);
		if (blame.error)
			return err_set(err, ENOMEM, "out of memory");
		o->sides.after_snapshot = blame.s;
	}
	o->sides.show = shown ? show_sides : NULL;
	ret = record_sides(&o->sides, &o->c, argv, shown ? cli_note_over : cli_note, err);
	if (shown)
		fputs("\033[J", stderr);
	return ret;
}

/* The terminal belongs to COMMAND if there is one. */
static int record_here(struct record_config *c, int argc, char **argv, struct kvmft_err *err)
{
	bool shown = !c->quiet && !argc && !c->control.on && isatty(STDERR_FILENO);
	int ret;

	c->progress = shown ? show_progress : NULL;
	ret = record_run(c, argv, shown ? cli_note_over : cli_note, err);
	if (shown)
		fputs("\033[K", stderr);
	return ret;
}

static int record_words(struct remote_words *w, struct kvmft_err *err)
{
	struct record_options o;
	int first = cli_parse(&cmd_record, &o, (int)w->n, w->v, err), ret;

	if (first <= 0 || first == CLI_VERSION)
		return first < 0 ? first : err_usage(err, "--guest-options: --help cannot be one "
		                                          "of them");
	o.c.output = "-";
	o.c.control = (struct record_control){ .on = true, .fd = STDIN_FILENO };
	o.c.flight |= o.c.before.set || o.c.trigger;
	if (o.remote || o.sides.guests.n)
		ret = err_usage(err, "a guest's recording has no --remote and no --guest");
	else
		ret = record_here(&o.c, (int)w->n - first, w->v + first, err);
	cli_free(&cmd_record, &o);
	return ret;
}

static int record_remote(struct kvmft_err *err)
{
	struct remote_words w = { 0 };
	int ret;

	if (isatty(STDIN_FILENO))
		return err_usage(err, "--remote is for kvmft record --guest, which runs it: to record "
				 "this machine leave it out");
	ret = remote_words_add(&w, "record") ? err_set(err, ENOMEM, "out of memory")
					     : remote_get(STDIN_FILENO, &w, err);
	if (w.drop) {
		char path[256];
		ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
		char *base;

		/* It was copied there for this alone. */
		path[MAX(n, (ssize_t)0)] = '\0';
		base = strrchr(path, '/');
		/* Not one that somebody has installed. */
		if (base && !strncmp(base, "/kvmft-", 7) &&
		    strspn(base + 7, "0123456789abcdef") == 32 && !unlink(path)) {
			*base = '\0';
			(void)!rmdir(path); /* made for it, and empty */
		}
	}
	if (!ret && w.spool)
		ret = remote_spool(w.spool, err);
	ret = ret ?: record_words(&w, err);
	remote_words_free(&w);
	return ret;
}

static int record_cmd(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	struct record_options *o = opts;

	if (o->remote)
		return record_remote(err);
	o->c.flight |= o->c.before.set || o->c.trigger;
	if (o->sides.guests.n)
		return record_sides_cmd(o, argv, err);
	if (o->sides.options.n || o->sides.command || o->sides.push ||
	    o->sides.timeout.set || o->blame || o->sides.on_over)
		return err_usage(err, "options for guests go with --guest NAME");
	return record_here(&o->c, argc, argv, err);
}

static void record_defaults(void *opts)
{
	((struct record_options *)opts)->c.clock = kclock_default();
}

const struct cmd cmd_record = {
	.name = "record",
	.summary = "capture host or guest into a capture directory",
	.args = "[-- COMMAND...]",
	.description =
		"Records until Ctrl-C, SIGTERM, the duration, or the end of COMMAND. Run it on the host\n"
		"and in the guest, then bring both captures to one place: kvmft merge HOST GUEST.",
	.examples =
		"  kvmft record -o run --guest vm1='ssh root@vm1' -d 10s    the host and a guest\n"
		"  kvmft record -o host -d 10s          the KVM events of this host, 10 seconds\n"
		"  kvmft record -o guest -- fio job     in a guest, while fio runs\n"
		"  kvmft record -e default -e sched:sched_switch    switches of all threads",
	.opts = record_options,
	.groups = "output event vm pid duration guest flight-recorder trigger symbols max-size\n"
		  "whom, and what else: vcpu as profile guest-processes stacks sdt "
		  "qemu monitor\n"
		  "the ring and the disk: buffer-size clock flush sync "
		  "min-free rotate keep before force\n"
		  "guests: guest-command guest-options guest-timeout push "
		  "blame on-over",
	.opts_size = sizeof(struct record_options),
	.quiet = offsetof(struct record_options, c.quiet),
	.defaults = record_defaults,
	.run = record_cmd,
	.options_first = true,
	.max_args = -1,
};
