/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cmds.h: the commands, one per file in this folder, and what they share. A new one is that file
 * and a line here.
 */
#pragma once

#include "kvmft/cli.h"
#include "kvmft/many.h"
#include "kvmft/results.h"
#include "kvmft/sides.h"

/*
 * All commands, in the order in which help shows them. `make SMALL=1` has those marked any: what
 * must run on the traced machine. What only looks at captures, or does arithmetic, is marked whole.
 */
#define COMMANDS(any, whole) \
	any(check) \
	any(record) \
	whole(receive) \
	any(snapshot) \
	whole(report) \
	whole(merge) \
	whole(latency) \
	whole(blame) \
	whole(boot) \
	whole(diff) \
	whole(export) \
	whole(verify) \
	whole(clock) \
	whole(advise) \
	any(list) \
	whole(convert) \
	any(trace) \
	any(exits) \
	any(stuck) \
	whole(qemu) \
	any(guest_offset) \
	any(reset)

#define DECLARE(name) extern const struct cmd cmd_##name;
COMMANDS(DECLARE, DECLARE)
#undef DECLARE

/* `kvmft diff --predict RULE`: an exit code, or -errno with err. path: BEFORE and AFTER. */
int advise_predict(const char *rule, const char *sel, char **path, FILE *f, struct kvmft_err *err);

/* qemu_left_sweep(); NULL: the small build leaves QEMUs to a whole kvmft. */
extern int (*const reset_qemu)(bool dry_run, uint64_t timeout_ns, struct sbuf *out,
			       struct kvmft_err *err);

/* sides_temp_sweep(); NULL: the small build makes no sessions. */
extern unsigned int (*const reset_sessions)(bool dry_run, struct sbuf *text);

/* captures_session(); NULL: the small build reads no recordings. */
extern int (*const stuck_session)(struct operands *o, const char **input, struct kvmft_err *err);

/* sides_record(); NULL: the small build records the machine that it is on. */
extern int (*const record_sides)(const struct sides_config *s, struct record_config *host,
				 char **argv, note_fn *note, struct kvmft_err *err);

/* `kvmft check --prove`: an exit code, or -errno with err; NULL: the small build. */
extern int (*const check_prove)(bool as_json, const char *output, struct kvmft_err *err);

/* ---- options that several commands have, for a member of that type in their struct ---- */

/* ---- of struct view_opts, in a member v ---- */

#define VIEW_CLOCKS_OPTIONS(st)                                                         \
	OPTION(0, "tsc-offset", OPT_BITS, st, v.pair.tsc_offset, "N",                   \
	       "the guest's TSC offset, instead of what the captures say"),             \
		OPTION(0, "tsc-ratio", OPT_STR, st, v.pair.tsc_ratio, "R/F",            \
		       "the guest's TSC scaling ratio and its fraction bits"),          \
		OPTION(0, "solve", OPT_FLAG, st, v.pair.solve, NULL,                    \
		       "find the TSC offset in the events, whatever the captures say")
#define VIEW_WINDOW_OPTIONS(st)                                             \
	OPTION(0, "from", OPT_STR, st, v.from, "T", WINDOW_HELP_FROM),      \
		OPTION(0, "to", OPT_STR, st, v.to, "T", WINDOW_HELP_TO)
#define VIEW_CLOCK_OPTION(st)                                               \
	OPTION_CHOICE(0, "clock", st, v.clock, "CLOCK", out_clock_names,    \
		      "clock of all times (default: ns since the recording began)")
#define VIEW_TRACES_OPTIONS(st, text)                                                      \
	OPTION(0, "qemu", OPT_LIST, st, v.qemu, "FILE[:FORMAT[:VM]]",                       \
	       text "; FILE:events: the trace-events-all\n"                                 \
		    "of that QEMU, also for markers in HOST (default: of /usr/share/qemu)")
/* For other programs of kvmft, where a VM cannot be named as here. */
#define VIEW_NAMING_OPTION(st)                   \
	{ .name = "naming",                      \
	  .type = OPT_STR,                       \
	  .offset = offsetof(st, v.naming),      \
	  .arg = "TEXT",                         \
	  .help = "how a VM is named",           \
	  .flags = OPT_HIDDEN }

/* struct spans_opts */
#define SPANS_OPTIONS(st, m)                                                                  \
	OPTION(0, "from-event", OPT_STR, st, m.from, "EVENT",                                 \
	       "the time from this event, [SYSTEM:]NAME[/FILTER/] of either side, ..."),      \
		OPTION(0, "to-event", OPT_STR, st, m.to, "EVENT", "... to the next of these"), \
		OPTION('k', "key", OPT_STR, st, m.key, "FIELD[=FIELD]",                         \
		       "only where this field of both has the same value; of the second, after =\n" \
		       "(default: of the same thread or, failing that, the last of the VM)")

/* const char * */
#define VM_OPTION(st, m) \
	OPTION(0, "vm", OPT_STR, st, m, "SEL", "only this VM: UUID, name, PID or PID-FD")

/* int format, an index of names */
#define FORMAT_OPTION(st, names) \
	OPTION_CHOICE(0, "format", st, format, "FORMAT", names, "how to print (default: text)")

/* struct sides_config */
#define SIDES_OPTIONS(st, m)                                                                      \
	OPTION(0, "guest-options", OPT_LIST, st, m.options, "[NAME:]OPTIONS",                     \
	       "options of record in guests, or in the one called NAME: '-e sched:*'"),                 \
	OPTION(0, "guest-timeout", OPT_DURATION, st, m.timeout, "DURATION",                       \
	       "give up on a guest that sends nothing for that long at its start (default: 60s)"),        \
	OPTION_MAYBE(0, "push", OPT_STR, st, m.push, "FILE",                                      \
		     "copy a static kvmft into guests that have none, and remove it afterwards\n"   \
		     "(default: kvmft-static-MACHINE beside this kvmft)")

/* For the process that reads what is being recorded: see captures_live(). */
#define LIVE_OPTION(st, m)                                                                         \
	{ .name = "live",                                                                          \
	  .type = OPT_FLAG,                                                                        \
	  .offset = offsetof(st, m),                                                               \
	  .help = "the capture is still being recorded",                                           \
	  .flags = OPT_HIDDEN }

/* In a command: where --color and --wide are, a struct page_opts. */
#define PAGE_AT(st, m) .color = offsetof(st, m.color), .wide = offsetof(st, m.wide)
/* A command whose options begin with struct sink_file file and struct view_opts v; ... */
#define READS(st)                                                        \
	.opts_size = sizeof(st), .reader = true, PAGE_AT(st, file.page_opts), \
	.quiet = offsetof(st, v.quiet), .khz = offsetof(st, v.khz)
/* ... and one that prints, to that file, and keeps nothing else. */
#define PRINTS(st) READS(st), .output = sink_file_open, .release = sink_file_close

/* struct qemu_target */
#define QEMU_TARGET_OPTIONS(st, member)                                                            \
	OPTION(0, "vm", OPT_STR, st, member.vm, "SEL",                                             \
	       "the QEMU of this VM: UUID, name, PID or PID-FD (default: the only one)"),          \
	OPTION(0, "monitor", OPT_STR, st, member.monitor, "SOCKET",                                \
	       "use the monitor on this socket, QMP or HMP")

/* ---- where results go (sink.c) ---- */

/* -o and --force, and what a terminal shows: first in the options of commands that have them. */
struct sink_file {
	const char *path; /* NULL = standard output */
	bool force;
	struct page_opts page_opts;
	struct outfile *out;
	struct page page;
};

/* As .defaults, where struct sink_file and struct view_opts come first and there is no --clock. */
void view_defaults(void *opts);

/* As struct cmd's output and release, for commands with one file. */
int sink_file_open(void *opts, int argc, struct kvmft_err *err) __must_check;
int sink_file_close(void *opts);

/* The exit code of a command whose output ended so, or -errno: `| head` has seen enough. */
int sink_exit(int ret, bool complete);

/* What has to be said about a result, in its place for that or by cli_note(). */
struct sink_remarks {
	char *v[16]; /* more are left out */
	size_t n;
};

void sink_remark(struct sink_remarks *r, const char *fmt, ...) __printf(2, 3);
void sink_remarks_tell(const struct sink_remarks *r);
void sink_remarks_free(struct sink_remarks *r);

/* Writes the result to f, if making it went well. 0 or -errno with err. */
int sink_print(const struct sbuf *b, FILE *f, struct kvmft_err *err) __must_check;
/* ... on standard output, through a pager if that is a terminal; not in a sandbox. */
int sink_show(const struct sbuf *b, struct kvmft_err *err) __must_check;
/* Is there a capture at the default place? 0 or -ENOENT. */
int sink_input_check(const char *path, struct kvmft_err *err) __must_check;
/* --vcpu: -1 = not. */
int only_vcpu(const struct opt_u64 *given, int64_t *vcpu, struct kvmft_err *err) __must_check;
/* What SPANS_OPTIONS() took: both events, or none. -EINVAL with err. */
int spans_check(const struct spans_opts *o, struct kvmft_err *err) __must_check;
int top_check(const struct opt_u64 *top, struct kvmft_err *err) __must_check; /* --top: not 0 */

/* ---- captures in the place of a session's directory (captures.c) ---- */

/* HOST GUEST[=SEL]... in the place of the operand `at`, if that is a session and there is one. */
int captures_at(struct operands *o, int at, struct kvmft_err *err) __must_check;
/* The same for an option: *input becomes the host. *s is to be freed; n = 0: no session. */
int captures_host(struct operands *o, const char **input, struct session *s,
		  struct kvmft_err *err) __must_check;
/* A copy of text that lives as long as the operands. */
const char *captures_word(struct operands *o, const char *text);
/* Likewise, with the session's guests before the operands. */
int captures_session(struct operands *o, const char **input, struct kvmft_err *err) __must_check;
/* .sessions of commands whose operands are HOST GUEST... */
int captures_first(void *opts, struct operands *o, struct kvmft_err *err) __must_check;

/*
 * The captures that a path stands for: itself, if it is one or not a directory; else all hosts'
 * captures below it, sorted by name; sessions: or whole sessions. Links are not followed. *list
 * gets texts that live as long as the operands.
 */
int captures_below(struct operands *o, const char *path, bool sessions, struct str_list *list,
	      struct kvmft_err *err) __must_check;

/* What the program that reads is told, beside its name and --live. */
struct captures_live {
	const char *format, *sel; /* sel: only this VM; NULL: all */
	const struct page_opts *page;
	const char *more[3]; /* further words; NULL: none */
};
/* Records this host's default events as `host` says, and has command `name` read them. */
int captures_live(const char *name, struct record_config *host, const struct captures_live *l,
		  struct kvmft_err *err) __must_check;
/* For a short one of those: returns when it has ended. */
int captures_wait(const char *path, struct kvmft_err *err) __must_check;

/* Whether a path is a directory, and not a capture: a session, or a tree of them. */
bool captures_tree(const char *path);

/* ---- the results of many captures, and their sum (many_print.c) ---- */

struct many_doc {
	const char *format; /* one of cli_formats */
	FILE *f;
	const char *title;   /* heading of the first column of the sum */
	const char *what;    /* ... and of the next: what is counted, "Samples" */
	const char *times;   /* what the sum of all times is called */
	const char *of;	     /* what is counted, in JSON: "samples" */
	enum report_key key; /* by which the sum is sorted */
	uint64_t top;	     /* rows of the sum in text; 0: all */
};

/*
 * All results, and their sum: text; JSON lines, an object for each capture; or CSV with a first
 * column for the capture. An exit code, or -errno with err: none gave a result.
 */
int many_print(struct many *m, const struct many_doc *d, struct kvmft_err *err) __must_check;

/* ---- what report.c and latency.c have for each other ---- */

struct process_opts {
	char **captures; /* the host's, and the guests' */
	size_t nguest;
	const char *vm, *format;
	const struct opt_u64 *khz;
	const struct page *page;
	size_t top;
	int waits;  /* enum lat_waits_by + 1; 0: not these */
	bool tasks; /* of guests' own recordings, which else only tell names */
};

/* Whether the captures can tell what guests ran; and what must be known of all before the walk. */
int process_check(const struct pairing *p, const struct processes *s, bool tasks,
		  struct kvmft_err *err);
int process_learn(struct view *v, struct processes *s);

/* An exit code, or -errno with err. */
int report_waits(const struct process_opts *o, struct kvmft_err *err);
