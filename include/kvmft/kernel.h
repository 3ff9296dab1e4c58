/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kernel.h: everything that kvmft asks of, and sets in, the running kernel: tracefs and a
 * private instance in it, events and filters, kprobes, kernel variables, the TSC, modules, and
 * the removal of what a killed kvmft left behind. src/kernel is the only room that includes
 * <tracefs.h> and <libkmod.h>, and neither shows here.
 *
 * Two promises hold for the whole room. Nothing outside an instance or a probe group of
 * kvmft's own is ever written, with the one exception of lines added to kprobe_events and
 * uprobe_events, which are taken back. And every failure that a user can mend says what to do: the
 * err argument, which may always be NULL, then holds one line and exit code KVMFT_LACKING.
 *
 * The objects below are not thread-safe; descriptors they hand out may be used from any thread.
 */
#pragma once

#include "kvmft/clock.h"
#include "kvmft/util.h"

/* ---- where tracefs is ---- */

struct ktracefs;

#define KTRACEFS_MOUNT 1u /* mount tracefs if it is not mounted and we may */

/*
 * Finds tracefs: dir when it is not NULL (tests: any directory will do), else
 * /sys/kernel/tracing, else /sys/kernel/debug/tracing. With KTRACEFS_MOUNT it is mounted on
 * /sys/kernel/tracing when absent, and stays mounted (see ktracefs_mounted()). It also points
 * libtracefs, which keeps one directory per process, at the place found: use one at a time.
 * *out is to be freed with ktracefs_close(). -EPERM or -EACCES (not root), -EPERM (lockdown),
 * -ENOENT (kernel without tracefs, or not mounted), -ENOMEM.
 */
int ktracefs_open(const char *dir, unsigned int flags, struct ktracefs **out,
		  struct kvmft_err *err) __must_check;
void ktracefs_close(struct ktracefs *t); /* NULL is fine */
const char *ktracefs_path(const struct ktracefs *t);
int ktracefs_dirfd(const struct ktracefs *t);	 /* borrowed */
bool ktracefs_mounted(const struct ktracefs *t); /* this call mounted it */

/* A file of the top level, whole (at most max bytes); *out is the caller's. Length or -errno. */
ssize_t ktracefs_read(const struct ktracefs *t, const char *file, size_t max,
		      char **out) __must_check;
bool ktracefs_has(const struct ktracefs *t, const char *file);

/* The same as 0 or -errno: events/header_page, saved_cmdlines and the like. */
int ktracefs_text(const struct ktracefs *t, const char *file, char **text) __must_check;

/*
 * Is name a trace clock of this kernel? 0, or -EINVAL with the list of its clocks ("no x86-tsc"
 * means: not an x86 kernel).
 */
int ktracefs_clock_check(const struct ktracefs *t, const char *name,
			 struct kvmft_err *err) __must_check;
/*
 * The trace clock that aligns: x86-tsc; on arm64, whose counter is not a trace clock, mono_raw, a
 * line over it.
 */
const char *kclock_default(void);

/* ---- CPUs ---- */

struct kcpus {
	uint32_t *cpu; /* ascending */
	size_t n, cap;
};

enum kcpu_set { KCPU_POSSIBLE, KCPU_PRESENT, KCPU_ONLINE };

int kcpus_read(enum kcpu_set set, struct kcpus *c) __must_check;
/* "0-3,8"; -EINVAL for anything else, -ERANGE above 8191. */
int kcpus_parse(const char *text, struct kcpus *c) __must_check;
void kcpus_free(struct kcpus *c);

/* ---- events ---- */

struct kevent {
	char *sys, *name;
	char *filter; /* NULL = none */
};

struct kevent_list {
	struct kevent *v;
	size_t n, cap;
};

/*
 * Splits "sys:event/filter/", "sys:*", "sys", "event"; the filter is what is between the first and
 * the last '/'. *sys is NULL for a bare word. Pure. The three are the caller's.
 */
int kevent_parse_spec(const char *spec, char **sys, char **name, char **filter,
		      struct kvmft_err *err) __must_check;
/*
 * Adds the events that spec means on this machine to list, each once; naming an event again with a
 * filter replaces the filter. Wildcards may be anywhere in system and event. A bare word is a
 * system, else an event that exists in one system only (a pattern: in any). The events of one call
 * are added sorted by name. -ENOENT: unknown, with up to three near names, or the reason why the
 * system is absent; -EINVAL: malformed or ambiguous.
 */
int kevent_expand(const struct ktracefs *t, const char *spec, struct kevent_list *list,
		  struct kvmft_err *err) __must_check;
/* Adds one event without asking the kernel. */
int kevent_list_add(struct kevent_list *list, const char *sys, const char *name,
		    const char *filter) __must_check;
bool kevent_list_has(const struct kevent_list *list, const char *sys, const char *name);
void kevent_list_free(struct kevent_list *list);

bool kevent_exists(const struct ktracefs *t, const char *sys, const char *name);
/* The format text; the caller's. */
int kevent_format(const struct ktracefs *t, const char *sys, const char *name,
		  char **text) __must_check;
/* The event's number in that text; -EBADMSG, or -ERANGE if no record could hold it. */
int kevent_format_id(const char *text, uint32_t *id) __must_check;
/* 0, or -ENOENT with the reason why there are no kvm events (module not loaded, ...). */
int kevent_kvm_check(const struct ktracefs *t, struct kvmft_err *err) __must_check;

/* ---- an instance of our own ---- */

struct kinst;

struct kinst_config {
	const char *clock;	/* trace clock; NULL = leave the kernel's default */
	uint64_t buffer_kb;	/* per CPU; 0 = leave */
	uint32_t subbuf_kb;	/* sub-buffer; 0 = leave; also left if the kernel has no such
				 * knob */
	int buffer_percent;	/* 0..100, when a blocked splice wakes up; -1 = leave */
	bool overwrite;		/* full ring: lose the oldest (true) or the newest */
	bool record_cmd;	/* let the kernel note names ... */
	bool record_tgid;	/* ... and process ids of the tasks seen */
	bool event_fork;	/* children of the pids below are followed */
	bool dead_man;		/* recording stops and memory is freed when this process dies */
	const int32_t *pid;	/* only these threads' events; NULL = all. Borrowed for the call */
	size_t npid;
	const char *cpumask;	/* hex mask as in tracing_cpumask; NULL = all CPUs */
};

#define KINST_CONFIG_DEFAULT                                                                       \
	{                                                                                          \
		.buffer_percent = -1, .overwrite = true, .record_cmd = true, .dead_man = true,     \
	}

/*
 * Makes the instance kvmft.PID.STARTTIME.N and configures it in the only order that works:
 * tracing off, sub-buffer size, buffer size, clock (read back), options, pids. Nothing records
 * until kinst_tracing(k, true) and kinst_events_enable(). On failure nothing is left.
 * t is borrowed and must outlive the instance. *out goes to kinst_destroy().
 */
int kinst_create(struct ktracefs *t, const struct kinst_config *c, struct kinst **out,
		 struct kvmft_err *err) __must_check;
/*
 * Stops, disables, closes and removes it; waits up to 2 s while somebody has a file of it open,
 * then -EBUSY, and err names who (PID and command). k is freed in every case; NULL is fine.
 * Descriptors from kinst_raw_open() must be closed before.
 */
int kinst_destroy(struct kinst *k, struct kvmft_err *err);
/* The same at the end of a command: if it fails, that is only noted. */
void kinst_end(struct kinst *k, note_fn *note);

/*
 * Its trace clock from here on, read back; NULL leaves it. What the ring holds is lost, even if the
 * clock is the one that it has. The kernel waits for an RCU grace period, some 20 ms. -EINVAL: no
 * such clock.
 */
int kinst_set_clock(struct kinst *k, const char *clock, struct kvmft_err *err) __must_check;

const char *kinst_name(const struct kinst *k);
const char *kinst_clock(const struct kinst *k);		/* as read back */
uint32_t kinst_subbuf_size(const struct kinst *k);	/* bytes, header included */
uint64_t kinst_buffer_kb(const struct kinst *k);	/* per CPU, as read back */
/* Resizes a ring that may be on; if it grows, its contents stay. */
int kinst_buffer_set(struct kinst *k, uint64_t kb, struct kvmft_err *err) __must_check;
int kinst_dirfd(const struct kinst *k);			/* borrowed */

int kinst_tracing(struct kinst *k, bool on, struct kvmft_err *err) __must_check;
/* Is it on? 1, 0 (a trigger may have switched it off) or -errno. */
int kinst_tracing_get(const struct kinst *k) __must_check;
/* Empties the ring and zeroes its counters. */
int kinst_clear(struct kinst *k) __must_check;
/* Adds a thread to set_event_pid. */
int kinst_pid_add(struct kinst *k, int32_t pid, struct kvmft_err *err) __must_check;

/*
 * Takes note of the events (copied) and sets their filters; may be called again for more. A
 * refused filter: -EINVAL, and err holds several lines: what failed, then the kernel's own
 * text with its caret.
 */
int kinst_events_add(struct kinst *k, const struct kevent_list *list,
		     struct kvmft_err *err) __must_check;
/* Enables exactly the events noted; all or none. */
int kinst_events_enable(struct kinst *k, struct kvmft_err *err) __must_check;
/* Disables all of them; continues after a failure and returns the first. */
int kinst_events_disable(struct kinst *k);

/* Does this kernel have triggers on the event? */
bool kinst_has_trigger(const struct kinst *k, const char *sys, const char *name);
/* Writes one line to an event's trigger file ("hist:keys=...", "!hist:..."). */
int kinst_trigger(struct kinst *k, const char *sys, const char *name, const char *text,
		  struct kvmft_err *err) __must_check;
/*
 * Sets a trigger and notes it: kinst_destroy() removes all noted ones, newest first. An instance
 * whose triggers refer to each other's variables could not be removed otherwise.
 */
int kinst_trigger_add(struct kinst *k, const char *sys, const char *name, const char *text,
		      struct kvmft_err *err) __must_check;
/* Removes a trigger that kinst_trigger_add() set with this text. */
int kinst_trigger_remove(struct kinst *k, const char *sys, const char *name, const char *text,
			 struct kvmft_err *err) __must_check;

#define KHIST_PAIRS 16
#define KHIST_TEXT  1024 /* bytes of one entry */

/* "{ common_pid: 156, exit_reason: 120 } hitcount: 2000": keys first. */
struct khist_entry {
	struct khist_pair {
		const char *name;
		uint64_t v;
	} pair[KHIST_PAIRS];
	size_t nkeys, n;
};

/* Valid during the call; non-zero stops the walk and becomes its result. */
typedef int (*khist_fn)(void *ctx, const struct khist_entry *e);

/*
 * The walk over a hist file: over the block whose trigger begins like this. Only the totals are
 * public.
 */
struct khist {
	uint64_t hits, entries, dropped; /* out: as the block's totals say */
	const char *keys;		 /* "pid,reason", more may follow: ":vals=lat"; borrowed */
	khist_fn fn;
	void *ctx;
	struct khist_entry e;
	char text[KHIST_TEXT];
	size_t used;
	bool have, found, in_block, in_totals;
};

void khist_begin(struct khist *h, const char *keys, khist_fn fn, void *ctx);
/*
 * Feeds one line without its newline, and the end. 0; what fn returned; -EBADMSG for something that
 * no kernel writes; khist_end(): -ENOENT if there was no block with these keys.
 */
int khist_line(struct khist *h, const char *line) __must_check;
int khist_end(struct khist *h) __must_check;
bool khist_get(const struct khist_entry *e, const char *name, uint64_t *v);
/* Feeds the event's hist file, in constant memory. Errors of the above, or -errno. */
int kinst_hist_walk(struct kinst *k, const char *sys, const char *name,
		    struct khist *h) __must_check;

/*
 * A filter for a field lat that is a difference of two stamps: it must not be negative, which as
 * u64 is longer than any time. Seen once in an emulated machine: -728 ms with mono_raw.
 */
#define KSYNTH_LAT_SANE "lat < 0x8000000000000000"

/*
 * A synthetic event of our own: synthetic/kvmft_PID_STARTTIME with these fields ("int pid; u64
 * lat"), which triggers of any instance may raise. name receives the event's name. n: 0, or the
 * number of another one of this process. -ENOENT: this kernel has none. To be removed after all
 * triggers that use it.
 */
int ksynth_add(struct ktracefs *t, unsigned int n, const char *fields, char *name, size_t size,
	       struct kvmft_err *err) __must_check;
int ksynth_remove(struct ktracefs *t, const char *name);

/* per_cpu/cpuN/trace_pipe_raw, read-only, close-on-exec; the caller closes. fd or -errno. */
int kinst_raw_open(struct kinst *k, uint32_t cpu, bool nonblock,
		   struct kvmft_err *err) __must_check;
/*
 * Can this kernel copy what is written to the top-level trace_marker into an instance? Switch that
 * on after tracing and off before it: while an instance copies but does not record, the kernel
 * refuses everybody's markers (Linux 6.18, tracing_mark_write()).
 */
bool kinst_can_copy_markers(const struct kinst *k);
int kinst_copy_markers(struct kinst *k, bool on, struct kvmft_err *err) __must_check;
/*
 * For a child between fork and exec: a mount namespace in which every tracefs has this instance's
 * trace_marker and trace_marker_raw in place of the top-level ones, and /dev/null for tracing_on. 0
 * or -errno (-EPERM: not root); then the namespace may be half made.
 */
int kinst_private_marker(const struct kinst *k) __must_check;
/* The CPUs that have a per_cpu directory, ascending. */
int kinst_cpus(const struct kinst *k, struct kcpus *c) __must_check;
/* Any file of the instance, whole; *out is the caller's. Length or -errno. */
ssize_t kinst_read(const struct kinst *k, const char *file, size_t max, char **out) __must_check;

struct kstats {
	uint64_t entries, overrun, commit_overrun, bytes, dropped, read;
	/*
	 * When it was read, in the units of the ring's clock: exact with a clock that does not
	 * count ns, else cut to microseconds (now_step 1000). 0 if the kernel does not say.
	 */
	uint64_t now, now_step;
	uint64_t oldest; /* stamp of the first event in the ring, in the same units; 0 = not
			  * known */
};

/* Parses per_cpu/cpuN/stats by name. -EINVAL unless entries, overrun and read events are there. */
int kstats_parse(const char *text, struct kstats *s) __must_check;
/* s or text may be NULL; *text is the caller's. */
int kinst_stats(const struct kinst *k, uint32_t cpu, struct kstats *s, char **text) __must_check;
/* "64 (expanded: 1408)" or "1408": the KB that the file means now. Pure. */
int kbuffer_kb_parse(const char *text, uint64_t *kb) __must_check;

/*
 * Can this kernel record its stack at an event of the instance: with the event's trigger
 * stacktrace, or only with the option of that name, at all events?
 */
enum kstacks { KSTACKS_NONE, KSTACKS_OPTION, KSTACKS_TRIGGER };
enum kstacks kinst_stacks(const struct kinst *k, const char *sys, const char *name);
/* One of these two options: stacks of programs are `userstacktrace`. */
int kinst_stacks_of_all(struct kinst *k, const char *option, struct kvmft_err *err) __must_check;

/* ---- kernel symbols, kprobes, and variables read through them ---- */

/*
 * Which of n names are in kallsyms (path; NULL = /proc/kallsyms), in one pass. Addresses may be
 * hidden. Returns their number, or -errno.
 */
int kallsyms_find(const char *path, const char *const *name, size_t n, bool *present) __must_check;

struct kprobes; /* the probes of this process: group kvmft_PID_STARTTIME */

/* -ENOTSUP: kernel without kprobe events; -EPERM: lockdown. *out goes to kprobes_close(). */
int kprobes_open(struct ktracefs *t, struct kprobes **out, struct kvmft_err *err) __must_check;
const char *kprobes_group(const struct kprobes *p);
/*
 * Adds group/name on a function ("do_sys_openat2", "vprintk_emit+4"), with fetch arguments
 * ("a=@tsc_khz:u32"; NULL = none). name: letters, digits, _, at most 63. -EPERM: lockdown; else the
 * kernel's error, with an explanation.
 */
int kprobe_add(struct kprobes *p, const char *name, const char *func, const char *args,
	       struct kvmft_err *err) __must_check;
int kprobe_remove(struct kprobes *p, const char *name);
/* Removes all of them; the first failure is returned, p is freed in every case; NULL is fine. */
int kprobes_close(struct kprobes *p);

/*
 * Probes at events of the kernel: another event is made of each, with what its fields lead to. The
 * same object again. -ENOTSUP: kernel without them, or without their filters; -EPERM: lockdown.
 */
int eprobes_open(struct ktracefs *t, struct kprobes **out, struct kvmft_err *err) __must_check;
/*
 * Adds group/name at event sys/event, with arguments and a filter ("a=$skbaddr:x64 b=+8($skbaddr):u32
 * if len > 8"). -ENOTSUP: a kernel without them; else as kprobe_add().
 */
int eprobe_add(struct kprobes *p, const char *name, const char *sys, const char *event,
	       const char *args, struct kvmft_err *err) __must_check;

/*
 * ---- probes in programs and libraries ----
 *
 * The same object, opened for uprobe_events: kprobes_group() and kprobes_close() serve both.
 */

enum kuprobe_can {
	KUPROBE_GUARD = 1 << 0,	   /* counts up the semaphore of a guarded marker (Linux 4.20) */
	KUPROBE_APPEND = 1 << 1,   /* several probes under one event name (Linux 5.5) */
	KUPROBE_CONSTANT = 1 << 2, /* constants as arguments (Linux 5.5) */
};

/*
 * *can receives what this kernel's uprobes can do. -ENOTSUP: kernel without them; -EPERM: lockdown.
 */
int uprobes_open(struct ktracefs *t, struct kprobes **out, unsigned int *can,
		 struct kvmft_err *err) __must_check;

struct kuprobe {
	const char *name; /* of the event: letters, digits, _, at most 63 */
	int fd;		  /* the file to probe, open for reading */
	const char *path; /* its name in messages */
	uint64_t offset;  /* of the instruction in the file, bytes */
	uint64_t guard;	  /* of the 16-bit counter that switches it on; 0 = none */
	const char *args; /* "arg1=%di:s32 arg2=...", NULL = none */
	bool again; /* another place of an event added before, with the same arguments */
};

/*
 * Adds one. The kernel gets the file by its descriptor, so the file that was read is the one that
 * is probed. Errors of the kernel come with an explanation.
 */
int uprobe_add(struct kprobes *p, const struct kuprobe *u, struct kvmft_err *err) __must_check;

struct kread_arg {
	const char *where; /* "symbol" or "symbol+8" */
	const char *type;  /* u8..u64, s8..s64, x8..x64 */
	uint64_t value;	   /* out; sN sign-extended to 64 bits */
	bool present;	   /* out */
};

/*
 * Reads kernel variables without touching a module, perf or BPF: one kprobe with fetch arguments in
 * an instance of its own, set off by a system call of this process. Arguments are fetched in the
 * order given, in one shot when there are at most 100 (and 3 KB of definition), so that a version
 * counter named first and last brackets what is between. If the kernel refuses one of them,
 * neighbours with the same symbol still share one shot. Unknown symbols are not present. Returns
 * how many are, or -errno (-ENOTSUP: no kprobes).
 */
int kread_symbols(struct ktracefs *t, struct kread_arg *arg, size_t n,
		  struct kvmft_err *err) __must_check;
/* Its pure half: finds " NAME=VALUE" in a line of trace. -ENOENT, -EINVAL ("(fault)"). */
int kread_parse_field(const char *line, const char *name, uint64_t *value) __must_check;

/* ---- TSC and clocks ---- */

struct ktsc_facts {
	bool present;	   /* a TSC, or its equivalent on arm64 */
	bool arm64;	   /* it is the system counter, CNTVCT_EL0 */
	uint64_t khz;	   /* 0 = unknown */
	char source[40];   /* "kprobe tsc_khz", "dmesg refined", "dmesg detected", "cpuid 0x15",
			      "hypervisor cpuid 0x40000010", "cntfrq_el0", "measured"; "" = unknown */
	bool exact;	   /* it is the number that the kernel itself computes with */
	bool constant, nonstop; /* CPU flags */
	/*
	 * The boot log says that sched_clock() is stable, and nothing since has denied it:
	 * local_clock(), and with it the trace clocks global and perf, is sched_clock() (local) +
	 * sched_offset ns (kernel: sched_clock_cpu()).
	 */
	bool sched_stable;
	int64_t sched_offset;
	char clocksource[32];
	char vendor[16];   /* "GenuineIntel", "AuthenticAMD", ... */
	bool hypervisor;   /* we are a guest */
	char hv_signature[16]; /* "KVMKVMKVM", ...; "" = none */
};

/*
 * KFEAT_HOST, KFEAT_GUEST or both: what this machine is, whether or not a VM runs at the moment. A
 * guest is recognized by KVM's signature, and a guest that is also a host by KVM's device (root:
 * NULL = "/"), on arm64 by the device alone. *why, if not NULL: in words.
 */
unsigned int kmachine_sides(const char *root, const struct ktsc_facts *f, const char **why);

/*
 * The frequency of an x86's TSC comes from the boot log, else from the kernel's own variable (not
 * if t is NULL), else from CPUID, else it is measured; that of an arm64's counter from CNTFRQ_EL0.
 * Unknown things stay 0 or "".
 */
void ktsc_facts_read(struct ktracefs *t, struct ktsc_facts *f);
/* "tsc: Refined TSC clocksource calibration: 3792.873 MHz" and "tsc: Detected ... MHz". */
int ktsc_parse_log(const char *line, uint64_t *khz, bool *refined) __must_check;

/* The tightest of tries (at least 1) readings of all clocks. -ENOTSUP without a TSC. */
int kbracket_read(unsigned int tries, struct clock_bracket *b) __must_check;
/* Ordered read of the TSC, CNTVCT_EL0 on arm64; 0 on machines without one. Cycles. */
uint64_t krdtsc_now(void);

/* The kernel log, oldest first, one line per record as "text" without its prefix. */
int klog_read(char **text, struct kvmft_err *err) __must_check;
typedef void klog_fn(const char *line, void *arg);
/* Calls fn for each line of the text that contains needle, with (the beginning of) the line. */
void klog_find_in(const char *text, const char *needle, klog_fn *fn, void *arg);

/* Offsets of sched_clock(), from the boot log. */
struct klog_sched {
	bool has_kvm; /* "kvm-clock: using sched offset of N cycles" (ns despite the word) */
	int64_t kvm_sched_clock_offset;
	bool has_kernel;	  /* "sched_clock: Marking stable (A, B)->(C, D)": D */
	int64_t kernel_sched_offset;
	bool unstable;		  /* "sched_clock: Marking unstable" or "TSC found unstable" */
};

void klog_parse_sched(const char *text, struct klog_sched *s);

/* ---- modules ---- */

enum kmodule_state {
	KMODULE_UNKNOWN,   /* not known here */
	KMODULE_LOADED,
	KMODULE_BUILTIN,
	KMODULE_AVAILABLE, /* on disk, not loaded */
	KMODULE_ABSENT,
};

/* Ignores the environment; works without /proc/modules. */
enum kmodule_state kmodule_state_get(const char *name);
const char *kmodule_state_text(enum kmodule_state s);
/*
 * Calls fn for each readable parameter of a loaded module, in no particular order. 0 (also if there
 * is none), -errno, or what fn returned.
 */
int kmodule_params(const char *module, int (*fn)(void *ctx, const char *name, const char *value),
		   void *ctx) __must_check;
/* "libkmod" or "/proc and /lib/modules": what the answers are based on. */
const char *kmodule_backend(void);

/* ---- what a killed kvmft left ---- */

/* An owner in a name; sep is '.' (instances, with a trailing number) or '_' (groups). Pure. */
struct kowner {
	int32_t pid;
	uint64_t start; /* field 22 of /proc/PID/stat, clock ticks since boot */
	uint32_t seq;
};

struct kreset {
	/* Removed, or found with dry_run; a synthetic event counts as a probe. */
	unsigned int instances, probes;
	unsigned int live;		/* belong to a running kvmft: left alone */
	unsigned int busy;		/* dead owner, but in use by somebody: left alone */
	struct sbuf text;		/* one line per thing found; for kreset_free() */
};

/*
 * Removes instances kvmft.PID.STARTTIME.N with their triggers, and probe groups and synthetic
 * events kvmft_PID_STARTTIME, whose process is gone. Names that only look similar are never
 * touched. The first failure is returned, but the sweep continues. only: what this one left, even
 * if others are gone, too; NULL: all.
 */
int kreset_sweep(struct ktracefs *t, const struct kowner *only, bool dry_run, struct kreset *r,
		 struct kvmft_err *err);
void kreset_free(struct kreset *r);
/* What a killed kvmft left is removed and noted (NULL: not); failures are left to `kvmft reset`. */
void kreset_leftovers(struct ktracefs *t, note_fn *note);

int kowner_self(struct kowner *o) __must_check;
int kowner_parse(const char *name, char sep, struct kowner *o) __must_check;
int kowner_format(const struct kowner *o, char sep, char *buf, size_t size) __must_check;
bool kowner_alive(const struct kowner *o);
/* Of instances whose process is alive: (*list)[*n], each once, to be freed. 0 or -errno. */
int kowners_alive(struct ktracefs *t, struct kowner **list, size_t *n) __must_check;

/* ---- features, for `kvmft check` ---- */

enum kfeat_state { KFEAT_HAVE, KFEAT_LACK, KFEAT_UNKNOWN };

struct kfeat_result {
	const char *name;    /* "tracefs", "x86-tsc", ... */
	const char *purpose; /* what kvmft uses it for */
	unsigned int need;   /* KFEAT_HOST | KFEAT_GUEST: cannot do without; 0 = optional */
	unsigned int use;    /* the same two: can use it; 0: not on this architecture */
	enum kfeat_state state;
	char detail[256];    /* what was found */
	char remedy[256];    /* what to do; "" if there is nothing to fix */
};

#define KFEAT_HOST  1u
#define KFEAT_GUEST 2u

struct kfeat_env {
	struct ktracefs *t;	/* NULL: there is none, */
	const char *no_tracefs; /* and this is why; may be NULL */
	const char *root;	/* root of sys and proc; NULL = "/" (tests: a fixture tree) */
};

size_t kfeat_count(void);
/* Probe number i < kfeat_count(). Sets nothing in the kernel. */
int kfeat_probe(const struct kfeat_env *e, size_t i, struct kfeat_result *r) __must_check;
/* By name; false also when unknown. */
bool kfeat_have(struct ktracefs *t, const char *name);

/*
 * The trace clocks of this kernel beside its TSC, and the line behind its mono_raw.
 *
 * local, global and perf cannot be read from user space. A marker written to an instance that uses
 * such a clock can be: its stamp lies between two readings of the TSC.
 */

/* The clock showed ns at some TSC within [tsc, tsc + width]. */
struct kclock_sample {
	uint64_t tsc, width, ns;
};

/*
 * The tightest of tries (1 to 256) readings of trace clock `clock`, which must count ns. They are
 * made in k, an instance of our own in which nothing else may be recorded meanwhile: its clock is
 * `clock` from here on, which empties its ring if that is a change, and the markers stay in it
 * until the clock is set again (kinst_set_clock()). -EINVAL: no such clock here; -ENOTSUP: no TSC,
 * no trace_marker or no option raw; -ENODATA: the kernel printed no readable stamp.
 */
int kclock_sample(struct kinst *k, const char *clock, unsigned int tries, struct kclock_sample *out,
		  struct kvmft_err *err) __must_check;

/* Stamp of marker number n in the text of `trace` with option raw. Pure. -ENOENT: none. */
int kclock_parse_marker(const char *text, uint64_t n, uint64_t *ts) __must_check;

/* ---- the line of CLOCK_MONOTONIC_RAW, as the kernel keeps it ---- */

struct kmono_raw {
	struct mono_raw line; /* over cycles of the current clocksource */
	const char *symbol;   /* where it was read; static text */
};

/* The smallest mask of a counter that never wraps: arm64's has 56 bits or more. */
#define KCYCLES_MASK_MIN ((1ull << 56) - 1)

/*
 * What the kernel shows to all processes for reading clocks: the first record that fits, which the
 * caller has to verify. -ENOENT: none; -EAGAIN: it keeps changing.
 */
typedef bool kmono_raw_fits_fn(const struct kmono_raw *r, const void *arg);
/* The same in n words of such a page. Pure. */
int kvvar_find(const uint64_t *word, size_t n, struct kmono_raw *r, kmono_raw_fits_fn *fits,
	       const void *arg) __must_check;

/*
 * The variables to read through a kprobe, for those who read more in the same shot. The result is
 * consistent in itself, no more: mono_raw_learn() checks it.
 */
#define KTK_ARGS 84
/* Fills arg[KTK_ARGS]; the texts live in where[KTK_ARGS]. */
void kmono_raw_args(struct kread_arg *arg, char (*where)[32]);
/* After kread_symbols(): 0, -ENOENT, -EAGAIN. Pure. */
int kmono_raw_take(const struct kread_arg *arg, struct kmono_raw *r) __must_check;

/*
 * What a guest knows about its own clock, read inside the guest.
 *
 * With these numbers the ns trace clocks of a guest become kvmclock, and kvmclock becomes guest TSC
 * (include/kvmft/clock.h), without perf_event_open and without the host's help.
 */

#define KGUEST_MAX_PVCLOCK 64 /* records of the kernel's static array; CPUs above are elsewhere */

struct kguest_clock {
	bool kvm_guest;	     /* the hypervisor says that it is KVM */
	bool sched_known;    /* sched_is_tsc below is certain */
	bool sched_is_tsc;   /* no kvmclock in use: sched_clock() is the TSC */
	bool has_kvm_offset; /* kvm_sched_clock_offset, ns */
	int64_t kvm_offset;
	const char *kvm_source; /* "kprobe" or "dmesg"; static text */
	bool has_kernel_offset; /* __sched_clock_offset, ns */
	int64_t kernel_offset;
	const char *kernel_source;
	struct cpu_pvclock pv[KGUEST_MAX_PVCLOCK];
	size_t npv;
	bool has_raw; /* read, not yet checked: see mono_raw_learn() */
	struct kmono_raw raw;
	char why[256]; /* why kprobes could not be used; "" if they could */
};

/*
 * Fills *g from kernel variables through one kprobe, or from the boot log if that is not possible.
 * What was found is in the flags. t is borrowed.
 */
void kguest_clock_read(struct ktracefs *t, struct kguest_clock *g);

/* ---- the line of this machine's CLOCK_MONOTONIC_RAW, read and checked ---- */

struct mono_raw_line {
	struct mono_raw raw;
	bool over_kvmclock; /* its cycles are kvmclock ns, not TSC cycles */
	char source[48];    /* "vvar", "kprobe tk_core" */
};

/*
 * Reads what the kernel shows to each process, or else uses what g (NULL: not a guest) has read, or
 * else reads the kernel's timekeeper; accepts it only if it agrees with clock_gettime() now.
 * False: not available, or it does not agree. t is borrowed.
 */
bool mono_raw_learn(struct ktracefs *t, const char *clocksource, const struct kguest_clock *g,
		    struct mono_raw_line *m) __must_check;
