/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * monitor.h: QEMU's monitors: where they are, talking to them, and QEMU's trace events through
 * them.
 *
 * There are two kinds: QMP (JSON, for programs) and HMP (a command line for people). Each serves
 * one client at a time, on a unix socket that QEMU listens on. What they send is trusted as little
 * as possible: every wait has a deadline, every reply a bound, and all text that reaches err or the
 * caller is printable.
 */
#pragma once

#include "kvmft/vm.h"

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
int mon_qemu_scan(const struct vm_roots *roots, struct vm_list **list,
		  struct kvmft_err *err) __must_check;

/*
 * The QEMU that sel names: as vm_list_find(), also by PID-FD. *vm is borrowed from list. With sel
 * NULL, the only one; -EEXIST with the candidates in err if there are several.
 */
int mon_qemu_find(const struct vm_roots *roots, const struct vm_list *list, const char *sel,
		  const struct vm **vm, struct kvmft_err *err) __must_check;

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
int mon_program_read(const struct vm_roots *roots, uint32_t pid,
		     struct mon_program *m) __must_check;
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
/*
 * Connects to the first monitor of a running QEMU that answers, QMP before HMP. Its socket is
 * looked for as QEMU sees it: from its root and its working directory. err names each that failed.
 */
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
