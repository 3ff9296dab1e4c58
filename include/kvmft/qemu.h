/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qemu.h: QEMU: its trace events, traces of its back ends, its monitors. */
#pragma once

#include "kvmft/util.h"
#include "kvmft/vm.h"

/*
 * Trace events as QEMU declares them in a file trace-events-all: names, properties,
 * arguments and print formats; and values printed by such a format, or found again in a text.
 *
 * Syntax of a declaration (docs/devel/tracing.rst and scripts/tracetool in QEMU's source):
 *
 * 	[PROPERTY...] NAME([TYPE ARG, ...| void]) ["FORMAT" MACRO ..., ] "FORMAT" MACRO ...
 *
 * Only the file of the very build that wrote a trace fits: numbers of formats 0 to 3 are positions
 * in it, and argument types are found nowhere else. A file may come from anyone: what cannot be
 * read is left out and noted; formats are interpreted here and never reach the C library's printf.
 */

#define QEV_MAX_ARGS 12 /* 10 of a declaration, and what vcpu and tcg add in front */
#define QEV_MAX_FILE (16u << 20)

enum qev_prop {
	QEV_DISABLE = 1 << 0,	/* compiled out: back end nop */
	QEV_VCPU = 1 << 1,	/* has a vCPU before its arguments */
	QEV_TCG = 1 << 2,	/* declared as one event, made into two: */
	QEV_TCG_TRANS = 1 << 3, /* ... NAME_trans, when the guest's code is translated */
	QEV_TCG_EXEC = 1 << 4,	/* ... NAME_exec, when it is executed */
};

enum qev_kind { QEV_UNSIGNED, QEV_SIGNED, QEV_POINTER, QEV_STRING };

struct qev_arg {
	char *type, *name; /* as declared: "const char *", "path" */
	enum qev_kind kind;
	uint8_t size;	   /* bytes on x86-64; strings: 0 */
};

struct qev {
	char *name;
	char *format;	     /* macros replaced, escapes undone; "" if there is none */
	bool format_usable;  /* it fits the arguments */
	unsigned int props;  /* enum qev_prop */
	uint32_t line;	     /* of its declaration */
	struct qev_arg arg[QEV_MAX_ARGS];
	size_t nargs;
};

struct qevents;

/*
 * Reads declarations. Lines that declare nothing become notes. -EFBIG; -ENODATA with err: the text
 * declares no event. name: for messages.
 */
int qevents_parse(const char *text, size_t len, const char *name, struct qevents **out,
		  struct kvmft_err *err) __must_check;
/* The same from a plain file; own: for a name that is not the user's, see file_open_regular(). */
int qevents_load(const char *path, bool own, struct qevents **out,
		 struct kvmft_err *err) __must_check;
void qevents_free(struct qevents *q); /* NULL is fine */
/* In the order of the file, which is that of their numbers; NULL past the last. */
const struct qev *qevents_at(const struct qevents *q, uint64_t i);
size_t qevents_count(const struct qevents *q);
/* name need not end with a NUL; NULL: no such event. Of several, the first. */
const struct qev *qevents_find(const struct qevents *q, const char *name, size_t len);
/* The i-th line that could not be read, as a line of text; NULL past the last. */
const char *qevents_note(const struct qevents *q, size_t i);
/* What the events were read from. */
const char *qevents_name(const struct qevents *q);

/* "disable", "vcpu", ... by bit number; NULL past the last. */
const char *qev_prop_name(unsigned int bit);
extern const char *const qev_kind_names[]; /* "unsigned", "signed", "pointer", "string" */

/* ---- values ---- */

/* An argument: a number, sign-extended when signed; of a string the bytes, not NUL-terminated. */
struct qev_value {
	uint64_t num;
	const char *s; /* NULL: a number */
	uint32_t len;
};

/*
 * Appends the values as printf() would with the event's format on x86-64: conversions d i u x X o c
 * s p, flags, width and precision up to 4096 in total, sizes hh h l ll j z t. Without a usable
 * format, NAME=VALUE pairs. Text is appended as it is: the caller must make it printable.
 */
void qev_print(const struct qev *e, const struct qev_value *v, size_t n, struct sbuf *out);

/*
 * The reverse: the values that were printed as text by the event's format; strings point into text.
 * False if the text does not fit the format (a cut line, another build of QEMU). A conversion
 * yields what it shows: %x of a negative int comes back sign-extended, a cut string as what is
 * left.
 */
bool qev_scan(const struct qev *e, const char *text, size_t len, struct qev_value *v);

/*
 * What QEMU's trace back ends write, one reader each behind one interface.
 *
 * 	simple	binary, formats 0, 2, 3 and 4			CLOCK_MONOTONIC
 * 	log	lines of stderr or -D FILE, old, ISO 8601 and without time	CLOCK_REALTIME
 * 	syslog	lines as syslogd and journalctl write them		CLOCK_REALTIME
 * 	ust	text of babeltrace and babeltrace2			CLOCK_REALTIME
 *
 * QEMU promises stability for none of them. Files may come from anyone: sizes are checked before
 * they are used, anything that is not an event is counted, and a cut end is no failure.
 */

enum qtrace_format { QTRACE_AUTO, QTRACE_SIMPLE, QTRACE_LOG, QTRACE_SYSLOG, QTRACE_UST };
extern const char *const qtrace_format_names[]; /* by enum qtrace_format, NULL-terminated */

enum qtrace_clock { QTRACE_NO_CLOCK, QTRACE_MONO, QTRACE_REALTIME };

#define QTRACE_MAX_LINE (64u << 10)
#define QTRACE_MAX_RAW	64

enum qtrace_kind {
	QTRACE_EVENT,
	QTRACE_LOST, /* `lost` events were dropped between the event before it and ns; 0: unknown */
};

/*
 * One thing of a trace, in the order of the file; pointers are valid until the next qtrace_next().
 */
struct qtrace_item {
	enum qtrace_kind kind;
	enum qtrace_clock clock; /* QTRACE_NO_CLOCK: the line has no time */
	uint64_t ns; /* the clock showed ns .. ns + unit - 1: unit is what the format resolves */
	uint64_t unit;
	int32_t tid;	 /* thread, or process in formats without threads; 0 = unknown */
	int32_t cpu;	 /* -1 = unknown */
	const char *name;
	uint32_t name_len;
	const struct qev *ev; /* NULL: not declared in the trace-events-all */
	/* Values of ev's arguments, when has_args. */
	bool has_args;
	struct qev_value arg[QEV_MAX_ARGS];
	/* Text formats: what follows the name, any bytes but newline. NULL: none. */
	const char *text;
	uint32_t text_len;
	/*
	 * simple without a declaration: the arguments as numbers; which are strings is not known.
	 */
	uint64_t raw[QTRACE_MAX_RAW];
	uint32_t nraw;
	uint64_t lost;
};

/* What was seen so far, or is known from the start. */
struct qtrace_stats {
	enum qtrace_format format;
	unsigned int version; /* simple: of the format */
	uint64_t events, lost_records, lost;
	uint64_t undeclared;  /* events that the trace-events-all lacks */
	uint64_t misfits;     /* events whose arguments do not fit their declaration */
	uint64_t foreign;     /* lines that are not events */
	uint64_t folded;      /* syslog: lines left out as repetitions */
	bool truncated;	      /* the end is cut */
	const char *damage;   /* why reading stopped early; NULL: it did not */
};

struct qtrace_options {
	enum qtrace_format format;
	const struct qevents *events; /* borrowed; NULL: none at hand */
	/*
	 * A moment near the trace, CLOCK_REALTIME ns: for time stamps without date or year; 0:
	 * when the file was last written.
	 */
	uint64_t near;
};

struct qtrace;

/*
 * Opens a trace; format QTRACE_AUTO looks at its beginning. Must be a regular file. -errno with
 * err: -ENODATA: no known format.
 */
int qtrace_open(const char *path, const struct qtrace_options *o, struct qtrace **out,
		struct kvmft_err *err) __must_check;
/* 1; 0 at the end; -errno of a failed read. */
int qtrace_next(struct qtrace *t, struct qtrace_item *item) __must_check;
/* To the beginning; the figures start at 0. */
int qtrace_rewind(struct qtrace *t) __must_check;
const struct qtrace_stats *qtrace_stats(const struct qtrace *t);
void qtrace_close(struct qtrace *t); /* NULL is fine */

/*
 * "NAME text" as the ftrace back end writes it to a trace marker: fills name, ev, args and text of
 * *item. False: NAME is not declared in events.
 */
bool qtrace_marker(const struct qevents *events, const char *text, size_t len,
		   struct qtrace_item *item);

/*
 * QEMU's monitors: where they are, talking to them, and QEMU's trace events through
 * them.
 *
 * There are two kinds: QMP (JSON, for programs) and HMP (a command line for people). Each serves
 * one client at a time, on a unix socket that QEMU listens on. What they send is trusted as little
 * as possible: every wait has a deadline, every reply a bound, and all text that reaches err or the
 * caller is printable.
 */

#define MON_MAX_REPLY	(16u << 20) /* bytes of one reply */
#define MON_MAX_EVENTS	200000	    /* QEMU has 5000 */
#define MON_TIMEOUT_NS	5000000000ull

enum mon_kind { MON_QMP, MON_HMP };

/* ---- where monitors are ---- */

/* A monitor as given on a QEMU command line. */
struct mon_place {
	enum mon_kind kind;
	char *spelling; /* the option, for messages: "-qmp unix:/run/a.sock,server=on" */
	char *path;	/* of a unix socket, as QEMU was given it; NULL = not a unix socket */
	char *why_not;	/* why others cannot connect to it; NULL = no reason known */
	bool abstract;	/* path is a name in the abstract namespace */
	int fd;		/* a listening socket that QEMU inherited (fd=N); else -1 */
};

struct mon_places {
	struct mon_place *v; /* n of them, in the order of the command line */
	size_t n, cap;
};

/*
 * Finds the monitors in a QEMU command line: NUL-separated, the last NUL may be missing. Known are
 * -qmp, -qmp-pretty, -monitor and -mon with -chardev, in all their spellings. 0 or -ENOMEM.
 */
int mon_cmdline_parse(const char *args, size_t len, struct mon_places *p) __must_check;
void mon_places_free(struct mon_places *p);

/*
 * The QEMU processes of this machine, also those without KVM: each vm has pid, start_time, vmm, and
 * name and uuid of the command line; its sel is the PID. As vm_scan() otherwise.
 */
int mon_qemu_scan(struct vm_list **list, struct kvmft_err *err) __must_check;

/*
 * The QEMU that sel names: as vm_list_find(), also by PID-FD. *vm is borrowed from list. With sel
 * NULL, the only one; -EEXIST with the candidates in err if there are several.
 */
int mon_qemu_find(const struct vm_list *list, const char *sel, const struct vm **vm,
		  struct kvmft_err *err) __must_check;

/*
 * What a QEMU is. backends is a list, "log,simple"; found says how each was recognized:
 * 	log:text	a text in the program that only this back end brings
 * 	dtrace:note	a note about a marker of provider qemu in the program
 * 	ust:library	a library that the process has loaded
 */
struct mon_program {
	struct sbuf path;
	struct sbuf version; /* "7.2.22 (Debian 1:7.2+dfsg)"; empty: this is not QEMU's program */
	struct sbuf backends, found;
};

/*
 * Looks at the file that process pid runs, and at the process. The file may be changed while it is
 * read; what was found is added even if the result is -errno. m: mon_program_free().
 */
int mon_program_read(uint32_t pid, struct mon_program *m) __must_check;
void mon_program_free(struct mon_program *m);

/* ---- one monitor ---- */

struct monitor;

/*
 * Connects to the socket called path (abstract: in the abstract namespace) and waits for its
 * greeting; this, and each reply later, may take timeout_ns. name goes before the text in err.
 * -errno with err set: -ETIMEDOUT if it serves another client. *m: monitor_close().
 */
int monitor_open(enum mon_kind kind, const char *path, bool abstract, uint64_t timeout_ns,
		 struct monitor **m, struct kvmft_err *err) __must_check;
void monitor_close(struct monitor *m);

enum mon_kind monitor_kind(const struct monitor *m);
/* "QMP /run/a.sock": for messages. */
const char *monitor_name(const struct monitor *m);
/* Its socket, for poll(): readable when QEMU sends something unasked, or went away. */
int monitor_fd(const struct monitor *m);
/*
 * The process that made the socket, according to the kernel: QEMU, or whatever started it; 0 =
 * unknown.
 */
uint32_t monitor_pid(const struct monitor *m);
/* Discards what came unasked. 0, or -ECONNRESET if QEMU has closed the connection. */
int monitor_idle(struct monitor *m) __must_check;

/* Each answer from now on may take timeout_ns. */
void monitor_patience(struct monitor *m, uint64_t timeout_ns);
/* All answers from now on together may take ns: each of thousands could be slow. */
void monitor_within(struct monitor *m, uint64_t ns);

/* Adds QEMU's version, "7.2.22 (Debian 1:7.2+dfsg)". */
int monitor_version(struct monitor *m, struct sbuf *out, struct kvmft_err *err) __must_check;
/* Runs a command line of HMP, also through QMP, and adds what it prints, with \n only. */
int monitor_human(struct monitor *m, const char *line, struct sbuf *out,
		  struct kvmft_err *err) __must_check;

/* ---- trace events ---- */

enum mon_state {
	MON_UNAVAILABLE, /* compiled out (property "disable", or back end nop); not shown by HMP */
	MON_DISABLED,
	MON_ENABLED,
	MON_STATES,
};
extern const char *const mon_state_names[MON_STATES]; /* "unavailable", "disabled", "enabled" */

struct mon_event {
	char *name;
	enum mon_state state;
	bool vcpu; /* property "vcpu": its state is kept for each vCPU */
};

struct mon_events {
	struct mon_event *v; /* n of them, by name */
	size_t n, cap;
};

/* All events and their states. */
int monitor_events(struct monitor *m, struct mon_events *list, struct kvmft_err *err) __must_check;
void mon_events_free(struct mon_events *list);
/* An event by its name, or NULL. */
struct mon_event *mon_events_get(const struct mon_events *list, const char *name);
/*
 * Switches the events that pattern matches, as QEMU understands it: a text without '*' is the name
 * of one event. Events that are compiled out are left out. -EREMOTEIO if QEMU refuses.
 */
int monitor_set(struct monitor *m, const char *pattern, bool on,
		struct kvmft_err *err) __must_check;

/* ---- patterns, as QEMU has them ---- */

struct mon_switch {
	char *pattern;
	bool on;
};

/* In order: of two that match an event, the later one counts. */
struct mon_switches {
	struct mon_switch *v;
	size_t n, cap;
};

bool mon_is_pattern(const char *text); /* has it a wildcard? */
/* Letters, digits, '_', '*', '?', and not empty: what event names consist of. */
bool mon_pattern_ok(const char *text);
/* Adds a copy of one. 0, -ENOMEM, or -EINVAL if it cannot name events. */
int mon_switches_add(struct mon_switches *s, const char *pattern, bool on,
		     struct kvmft_err *err) __must_check;
/*
 * Adds the lines of a file in the syntax of `-trace events=FILE`: one pattern per line, '#' begins
 * a comment line, '-' in front switches off. file is its name for err, which gives the line.
 */
int mon_switches_add_text(struct mon_switches *s, const char *text, size_t n, const char *file,
			  struct kvmft_err *err) __must_check;
void mon_switches_free(struct mon_switches *s);
/* What s does to an event: 1 = on, 0 = off, -1 = nothing matches it. */
int mon_switches_get(const struct mon_switches *s, const char *name);

/*
 * Switching the trace events of a running QEMU: which QEMU, switching, and what to
 * switch back if the kvmft that switched it was killed.
 */

/* ---- which QEMU, and a connection to it ---- */

/* What options say: at most one of vm and monitor, a socket. */
struct qemu_target {
	const char *vm, *monitor;
	uint64_t timeout_ns; /* for each answer; 0: MON_TIMEOUT_NS */
};

struct qemu {
	struct monitor *m;
	uint32_t pid; /* 0 = unknown */
	char *name;   /* of the VM; NULL = unknown */
};

/*
 * Connects to the first monitor of a running QEMU that answers, QMP before HMP. Its socket is
 * looked for as QEMU sees it: from its root and its working directory. err names each that failed.
 */
int qemu_open(const struct qemu_target *t, struct qemu *q, struct kvmft_err *err) __must_check;
void qemu_close(struct qemu *q);

/* ---- switch.c: switching, for `set` and for `record --qemu` ---- */

/*
 * Checks whether QEMU can do what s says. -ENOENT for an event that it does not know, -ENOTSUP for
 * one to be switched on that was compiled out; anything worth mentioning is added to notes, one per
 * line.
 */
int qemu_check(const struct mon_events *events, const struct mon_switches *s, struct sbuf *notes,
	       struct kvmft_err *err) __must_check;
/* Does what s says to the events that QEMU has. */
int qemu_apply(struct monitor *m, const struct mon_events *events, const struct mon_switch *s,
	       struct kvmft_err *err) __must_check;
/*
 * Switches back the events whose state in now differs from that in before; those that only one of
 * them has are left alone. All are tried; the first failure is returned.
 */
int qemu_restore(struct monitor *m, const struct mon_events *before, const struct mon_events *now,
		 struct kvmft_err *err) __must_check;

/* ---- what to switch off if the kvmft that switched it on was killed ---- */

/*
 * Opens our directory of these notes, which only we can write to; make: create it if it is missing.
 * A descriptor that the caller owns, or -errno.
 */
int qemu_left_place(bool make);
/* Adds the line of a QEMU; lines "on EVENT" follow. */
void qemu_left_add(struct sbuf *text, const struct qemu *q, const struct qemu_target *t);
/* Keeps text under the name of this process, until qemu_left_done(). */
int qemu_left_write(const struct sbuf *text, struct kvmft_err *err) __must_check;
void qemu_left_done(void);
/*
 * Switches off what processes that are gone left on; each answer of a QEMU may take timeout_ns.
 * Adds a line to out for each QEMU, with the names of the events. dry_run only looks. 0, or the
 * first failure with err set: then the file stays, to be tried again.
 */
int qemu_left_sweep(bool dry_run, uint64_t timeout_ns, struct sbuf *out,
		    struct kvmft_err *err) __must_check;
