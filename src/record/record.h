/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record.h: the parts of a recording.
 *
 * record.c         the order in which things are set up and undone
 * what.c           which side, events and threads; threads that appear later
 * ring.c           the instance and its size; CPUs, also those that come up later
 * out.c            ... or standard output: -o -
 * place.c          the capture's place: -o, or --output-dir with its lock and its retention; the
 *                  process that cleans up after a recorder that was killed
 * guard.c          environment, modules, privileges
 * store.c          the capture: limits, segments, and what becomes of old ones
 * stacks.c         the kernel's stacks at events, --stacks; names of a guest's functions, --symbols
 * sdt.c            markers of programs, --sdt
 * net_id.c         addresses and ports of packets, -e net-id
 * marker.c         markers of programs in trace_marker, --marker
 * facts.c          what goes into the capture besides events
 * sched.c          switches of VMs' threads, in the default events
 * clocks.c         ... and of clocks that need a trace or a probe to be read
 * loss.c           the ring's counters: what was produced, stored and lost, and where
 * flight.c         the flight recorder: triggers, writing the ring out, orders of another process
 * trigger.c        ... and the trigger that no event is: an exit that lasts long
 * helper.c         processes beside the recorder
 * child.c          COMMAND
 * met.c            the QEMUs that were met
 * came.c           VMs that are made while it records
 * look.c           the process that looks at others for a recorder that may not
 * qemu.c           --qemu, and the process that speaks to QEMU
 * qemu_keep.c      what that process does
 * small.c          instead of these, in the small build
 * loop.c           the wait: signals, time, child, limits
 */
#ifndef KVMFT_RECORD_RECORD_H
#define KVMFT_RECORD_RECORD_H

#include <signal.h>
#include <sys/resource.h>

#include "kvmft/capture.h"
#include "kvmft/drain.h"
#include "kvmft/guest_clock.h"
#include "kvmft/kernel.h"
#include "kvmft/ksyms.h"
#include "kvmft/monitor.h"
#include "kvmft/record.h"
#include "kvmft/sandbox.h"
#include "kvmft/stream.h"
#include "kvmft/vm.h"

/* What COMMAND gets back of the things that we change for ourselves. */
struct record_env {
	mode_t umask;
	struct rlimit nofile;
	cpu_set_t *affinity; /* NULL = was not changed */
	size_t affinity_size;
	bool has_nofile;
};

#define RECORD_END_FILES	(128u << 10) /* names of tasks, written together with the data */
#define RECORD_SMALLEST_SEGMENT (64u << 10)
#define RECORD_LEAST_ROOM	(RECORD_END_FILES + RECORD_SMALLEST_SEGMENT)

#define RECORD_CLOCKS 3 /* local, global, perf */

/* A process of ours, and pipes to it. */
struct record_helper {
	int pid; /* 0 = none */
	int to, from;
};

#define RECORD_NO_HELPER   { .to = -1, .from = -1 }
#define RECORD_PATIENCE_MS 10000 /* with one that should answer or end */

/* Counters of a CPU's ring, as they were last read. */
struct record_seen {
	uint64_t dropped; /* by a full ring that keeps the oldest; not flagged in the data */
	uint64_t now;	  /* ring's clock */
	uint64_t taken;	  /* sub-buffers, of the whole recording */
	uint64_t flushed; /* events read, when it was flushed last */
	/* A flight recorder's: when it was last written out, and a second ago. */
	uint64_t overrun, overrun_now;
};

#define RECORD_WATCH_KB 16

struct record_flight {
	struct kinst *watch;   /* user space watches here for the trigger; NULL = the kernel does */
	struct kevent_list on; /* the event, and its filter */
	/* of trigger.c: its synthetic event ("" = none), how long in clock units, its trigger */
	char synth[64];
	uint64_t bound;
	char bound_text[128];
	bool armed, fired;
	bool marker;	  /* the trigger is what programs write to trace_marker: ... */
	int marker_fd;	  /* ... trace_pipe of watch */
	char text[64];	  /* ... the last one that counted */
	uint64_t stopped; /* TSC when an order stopped the ring; 0: the trigger did, or nothing */
	char by[CAPW_ORIGIN_SIZE]; /* whose trigger made that order; "" = nobody's, or ours */
};

/*
 * Trace clocks and TSC, read before there was a capture to write them to: width UINT64_MAX = not
 * read.
 */
struct record_clocks {
	struct kclock_sample first[RECORD_CLOCKS];
};

struct record {
	const struct record_config *c;
	note_fn *note;
	struct kvmft_err *err;
	struct record_env env;
	enum cap_side side;
	struct ktracefs *t;
	struct ktsc_facts tsc;
	struct kevent_list events;
	struct kinst *k;
	struct capw *w;
	size_t ncpu_max;	    /* possible CPUs */
	size_t ncpu;		    /* of which this many are recorded: drain[], seen[] */
	struct drain_cpu *drain;    /* room for ncpu_max; an entry never moves */
	struct record_seen *seen;
	struct drain_store store;
	struct capw_removed removed; /* under the store's lock, ... */
	struct capw_kept kept;	     /* ... as this */
	pthread_mutex_t meta_lock;  /* of later below: threads add to it */
	struct sbuf later;	    /* records waiting to be written to meta */
	unsigned int segments_told; /* in meta */
	uint64_t rotate_ns, flush_ns; /* 0 = never */
	bool rotate_flushed;	      /* what belongs to the old segment was requested */
	struct {
		uint64_t ns, events;
	} progress; /* as told last */
	struct {
		uint64_t most_kb; /* of ring on each CPU, by the memory that there was */
		uint64_t held; /* ns that full rings reached back; UINT64_MAX: none is full */
		bool asked, told;
		bool cut; /* less was written out than requested */
	} before;
	uint64_t live_ns;	    /* util_now_ns() when all events were on */
	struct vm_list *vms;	    /* as last scanned */
	struct kpids {
		int32_t *v;
		size_t n, cap;
	} tids;			    /* --vm, --vcpu and -p: in set_event_pid */
	struct u64map tasks_told; /* threads in meta: id, and a hash of what was recorded */
	struct {
		bool want;
		int loadavg;	    /* /proc/loadavg */
		uint32_t id_max;    /* where the kernel's thread ids begin again */
		uint32_t newest;    /* thread, when the filter was written */
		unsigned int armed; /* bits: events that the filter is for */
		bool cpus;	    /* cpu_idle has a filter, too */
		uint32_t *vmm;	    /* PIDs, of all VMs so far */
		size_t nvmm, vmm_cap;
	} sched;
	bool tgids; /* the kernel notes the process of every thread, for us */
	struct record_clocks clocks;
	struct sbuf line;	    /* meta record under construction */
	struct record_flight flight;
	struct record_sdt *sdt;	    /* NULL without --sdt */
	struct kprobes *net_id;	    /* NULL without -e net-id */
	bool want_net_id;
	struct record_stacks {
		struct kevent_list ev;	/* --stacks */
		uint32_t id;		/* of ftrace:kernel_stack */
		int kallsyms;		/* open, while names may still be read; -1 */
	} stacks;
	struct {
		int modules;		/* /proc/modules, open; -1 */
		struct sbuf text;	/* to be written */
		struct ksyms at_begin;	/* modules alone */
	} symbols;			/* --symbols */
	enum record_marker marker;
	bool copying;		    /* the kernel copies markers into the instance */
	struct {
		struct stream_out *stream; /* NULL: to a directory */
		int signals;
		_Atomic bool ending;	   /* what still waits for the reader is requested */
		bool told;
		uint64_t since, bytes;
	} out;
	struct record_helper watch, look;
	bool blind; /* kvmft-look was killed, or does not answer */
	struct {
		char text[sizeof("snapshot ") + CAPW_ORIGIN_SIZE];
		size_t len;
	} order;		    /* the beginning of a line */
	struct record_qemu {
		struct record_helper keeper; /* that speaks to QEMU */
		struct sbuf facts;	     /* records for meta, a line each */
	} qemu;
	struct {
		uint32_t *v;
		size_t n, cap;
	} met;			    /* PIDs of QEMUs in meta */
	uint64_t lost;		    /* events, all CPUs; known after the end */
	uint64_t stored;	    /* events in the capture */
	uint64_t did_not_fit;	    /* part of lost: kept out by a limit or a failure */
	bool stand_in;		    /* in tids for lack of a vCPU that has run */
	bool store_ready, tracing, started;
	const char *end_reason;
	struct record_place {
		int dir; /* that the capture is in; --output-dir: locked while it is open */
		char *shown;	   /* prefix of its name in messages */
		struct capw_name name;
	} place;
	unsigned int confined;	    /* enum sandbox_layer */
	struct vm_watch newcomers;  /* VMs that appear while it records */
	struct record_came {
		uint32_t pid, fd;   /* its PID-FD */
		unsigned int looks; /* at it */
		uint64_t due;	    /* the next one, util_now_ns() */
		size_t vcpus;	    /* at the last one */
		struct u64map told; /* vCPUs in meta: id, and its thread or 0 */
	} *came;		    /* not completely known yet */
	size_t ncame, came_cap;
};

/* ---- what.c ---- */

int record_side(struct record *r);
int record_events(struct record *r);
int record_tids(struct record *r);
/* Do events come from threads of which /proc may not tell before they end? */
bool record_wants_tgids(const struct record *r);
/*
 * Threads that have appeared since; cheap if there is no filter by thread. With --vcpu it costs a
 * look through debugfs, which is left out if all have threads, unless thorough.
 */
int record_tids_again(struct record *r, bool thorough);

/* ---- qemu.c and sdt.c: what `make SMALL=1` leaves out ---- */

/*
 * Each may be NULL; small.c has tables that only refuse the options. 0 or -errno with r->err set.
 */
struct record_extra {
	/* The options, before anything is made. */
	int (*check)(const struct record_config *c, struct kvmft_err *err);
	/* Switches off what killed recorders have left on, and reports it. */
	void (*leftovers)(note_fn *note);
	/*
	 * QEMU: finds them, and checks whether they have the events. SDT: makes uprobes, adds to
	 * r->events.
	 */
	int (*start)(struct record *r);
	/*
	 * The name of an event and its format text in the capture: *format is the caller's, before
	 * and after. 0 or -ENOMEM.
	 */
	int (*name)(const struct record *r, const struct kevent *e, const char **sys,
		    const char **name, char **format);
	int (*facts)(struct record *r); /* into the capture */
	int (*on)(struct record *r);	/* switches on; what is on goes into the capture */
	int (*end)(struct record *r);	/* once; harmless if nothing was begun */
};

extern const struct record_extra record_qemu, record_sdt, record_net_id;

/* ---- stacks.c: --stacks ---- */

/* Adds its events to those to record. */
int record_stacks_events(struct record *r);
/* In r->k, before tracing is on and before privileges are dropped. */
int record_stacks_arm(struct record *r);
/* The format of the stacks, into meta. */
int record_stacks_facts(struct record *r);
/* At the end: names of the addresses that occur in the data. */
int record_stacks_names(struct record *r);
void record_stacks_free(struct record *r);

/* ---- stacks.c: --symbols ---- */

/* Before the capture is made, and before privileges are dropped. */
int record_symbols_read(struct record *r);
int record_symbols_write(struct record *r);
/* Which modules are gone. */
int record_symbols_end(struct record *r);
void record_symbols_free(struct record *r);

/* ---- marker.c ---- */

/*
 * Whose markers, by option and COMMAND (NULL: none; else NULL-terminated); before anything is made.
 */
int record_marker_check(struct record *r, char **argv);
int record_marker_ready(struct record *r); /* can this kernel? With the instance there. */
int record_marker_facts(struct record *r);
/*
 * While the instance copies, tracing must be on: call after it is switched on, and before it is
 * off.
 */
int record_marker_start(struct record *r);
void record_marker_stop(struct record *r);
/* --trigger marker[=TEXT]: armed in an instance of its own; 1: somebody has written one. */
bool record_trigger_is_marker(const struct record *r);
int record_marker_arm(struct record *r);
int record_marker_seen(struct record *r);
void record_marker_disarm(struct record *r); /* before that instance goes */

/* ---- ring.c ---- */

int record_affinity(struct record *r);	/* --cpus, before any thread */
int record_nofile(struct record *r);
int record_instance(struct record *r);
/* KiB in the line of /proc/meminfo that begins with this; false: there is none. */
bool record_meminfo(const char *name, uint64_t *kb);
/*
 * Opens what is needed to record the online CPUs: before privileges are dropped, because the pipes
 * of many CPUs may need them.
 */
int record_cpus_open(struct record *r);
/* The same for those that were not online before, and starts their threads. */
int record_cpus(struct record *r);
uint64_t record_ring_bytes(const struct record *r); /* of one CPU */

/* ---- store.c ---- */

int record_store_check(struct record *r); /* the options, before anything is made */
int record_store_open(struct record *r);
/* From any thread: a record for meta. Frees it. */
void record_store_add(struct record *r, struct sbuf *line);
/* Writes the records left by threads to meta. */
int record_store_news(struct record *r);
/* Flight recorder: a segment is completely written, and an old one may be removed. 0 or -errno. */
int record_store_written(struct record *r, unsigned int segment);
/* Is there room for a segment of r->flight.by? Old ones that others' triggers made are removed. */
bool record_store_room(struct record *r);
/* The space reserved for the names of tasks may be used. */
void record_store_no_more_data(struct record *r);
void record_store_close(struct record *r);

/* ---- out.c: -o - ---- */

bool record_to_stream(const struct record_config *c);
/* Options that go with it, before anything is made. */
int record_stream_check(const struct record_config *c, struct kvmft_err *err);
int record_stream_create(struct record *r);
int record_stream_start(struct record *r); /* after privileges were dropped */
int record_stream_tick(struct record *r);  /* once a second */
void record_stream_ending(struct record *r);
int record_stream_end(struct record *r);
/* An error of the stream, with its text; others, and 0, unchanged. */
int record_stream_error(struct record *r, int ret);
void record_stream_free(struct record *r);

/* ---- place.c ---- */

/* Options that exclude each other: 0 or -EINVAL. Quiet if cron reads the output. */
int record_place_options(struct record_config *c, struct kvmft_err *err);
/*
 * Opens the directory, finds a name and checks for room. Creates nothing. 0 or -errno with r->err
 * set.
 */
int record_place_open(struct record *r);
void record_place_free(struct record *r);

/* ---- guard.c ---- */

/* Refuses variables that would load foreign code; command ends with NULL. */
int record_environment(char **command, struct kvmft_err *err);
/* --load-modules: 0 if nothing is missing (any more), or -errno with r->err set. */
int record_modules(struct record *r);
/*
 * Drops what is not needed from here on, for this thread and those started later. After the capture
 * and the instance exist and COMMAND was forked, before the draining threads.
 */
int record_confine(struct record *r, pid_t child);
/*
 * The same for its helpers. dir: where it may create and remove files (borrowed), by Landlock,
 * which hides /proc/PID/fd of others; NULL = no Landlock. 0 or -errno with err set.
 */
int record_confine_helper(enum sandbox_calls calls, const struct sandbox_dir *dir, size_t ndir,
			  struct kvmft_err *err);
int record_confine_watch(const struct record *r, struct kvmft_err *err);
int record_confine_qemu(struct kvmft_err *err); /* qemu_keep.c */

/* ---- facts.c: each appends to meta; 0 or -errno with r->err set ---- */

int record_put(struct record *r); /* r->line as one record */
int record_facts_begin(struct record *r);	/* before tracing starts */
int record_facts_event(struct record *r, const struct kevent *e);
/* A file of names of the capture, unless --min-free forbids it; what: in the note that says so. */
int record_put_names(struct record *r, const char *name, const char *text, const char *what);
int record_facts_cpus(struct record *r);
int record_facts_vms(struct record *r, bool end); /* after it started, and again at the end */
/*
 * A VM that appeared since: what is not recorded yet. told: vCPUs that are, and their threads; 0:
 * unknown so far.
 */
int record_facts_came(struct record *r, const struct vm *vm, struct u64map *told);
int record_facts_bracket(struct record *r);
int record_facts_tasks(struct record *r);
int record_facts_end(struct record *r);

/* ---- sched.c ---- */

/* In r->k, if the default events are wanted. */
int record_sched_arm(struct record *r);
/* Its threads have to be followed, too. */
int record_sched_vmm(struct record *r, uint32_t pid);
int record_sched_again(struct record *r);
void record_sched_free(struct record *r);

/* ---- came.c: VMs that appear while it records, and may be gone at its end ---- */

/*
 * Before anything is looked at, and before privileges are dropped. If debugfs does not report them,
 * none appear.
 */
void record_came_open(struct record *r);
/* After the first look at all VMs: those that had only just begun are looked at again. */
int record_came_begin(struct record *r);
/* Takes what debugfs reports, and looks at what is due. */
int record_came_take(struct record *r);
/* When that has to be called again, util_now_ns(); 0: not before debugfs reports one. */
uint64_t record_came_due(const struct record *r);
void record_came_free(struct record *r);

/* ---- clocks.c: as above ---- */

/* In the new instance, with the clock that it starts with, before anything else uses it. */
void record_clocks_first(struct record *r);
/* Before tracing starts; g: the guest's clock, NULL on a host. */
int record_clocks_begin(struct record *r, const struct kguest_clock *g);
/* When the ring has been read completely: it is used for this. */
int record_clocks_end(struct record *r);

/* ---- loss.c ---- */

int record_loss_begin(struct record *r);
/* For struct drain_store: from the draining threads. */
void record_loss_look(void *record, struct drain_cpu *c);
uint64_t record_loss_events(void *record, const void *subbuf);
int record_loss_join(void *record, void *subbuf, const void *more);
/* Final counters into meta and into r, and a message for each CPU that lost events. */
int record_loss_end(struct record *r);

/* ---- flight.c ---- */

int record_flight_check(struct record *r);
/* Before tracing is on. */
int record_flight_arm(struct record *r);
/* Did the trigger fire since the last call? 1, 0 or -errno. */
int record_flight_fired(struct record *r);
/* Writes the ring out as a segment of its own. */
int record_flight_dump(struct record *r, const char *why);
void record_flight_free(struct record *r);

void record_before_tick(struct record *r); /* --before */
/* ---- trigger.c: --trigger exit-longer=DURATION ---- */

bool record_trigger_is_longer(const struct record *r);
int record_trigger_longer_check(struct record *r); /* the option, before anything is made */
int record_trigger_longer_arm(struct record *r);   /* in r->k, before tracing is on */
int record_trigger_longer_again(struct record *r); /* the ring was off and is to be switched on */
/* That many ns in units of the ring's clock; 0 if it has no unit of time. */
uint64_t record_ticks(const struct record *r, uint64_t ns);
void record_trigger_free(struct record *r);	   /* after r->k is gone */

/* ---- child.c ---- */

struct record_child {
	struct record_helper p; /* to releases it; from reports that exec failed */
	int status;		/* of waitpid(), once it has ended: p.pid is 0 then */
};

/* Forks COMMAND, which waits until record_child_release(). 0 or -errno. */
int record_child_fork(struct record *r, char **argv, struct record_child *c);
void record_child_release(struct record_child *c);
/* After its end: 0, or -errno with err set if the command could not be run at all. */
int record_child_error(struct record_child *c, const char *name, struct kvmft_err *err);
/* Notes a bad end of it: what was recorded may not be what was wanted. */
void record_child_tell(const struct record_child *c, const char *name, note_fn *note);
/* Never lets it run (set-up failed), or ends it (SIGTERM) and reaps it, unless it goes on. */
void record_child_end(struct record *r, struct record_child *c, const char *name);

/* ---- flight.c: orders ---- */

/* Takes the pending orders. 0, with r->end_reason if one ends it, or -errno. */
int record_control_take(struct record *r, struct record_child *c);
void record_control_tell(const struct record *r, enum record_news what, int status);

/* ---- met.c ---- */

/* Begins the record of a QEMU: everything but its version. */
void record_met_line(struct sbuf *line, uint32_t pid, const struct mon_program *p);
/* Such a record was written by somebody else. */
void record_met_told(struct record *r, const char *line);
/* Appends the record of process pid, if it is a QEMU, to line. 0 or -errno. */
int record_met_look(uint32_t pid, struct sbuf *line);
/* Writes the record of process pid, if it is a QEMU, and was not written yet. 0 or -errno. */
int record_met(struct record *r, uint32_t pid);
/* The same for COMMAND and its children; begin: it was released just now. */
int record_met_command(struct record *r, const struct record_child *c, bool begin);

/* ---- look.c: what is read about other processes, by a helper that may do so ---- */

/* On a host; after record_side() and before record_confine(). 0 or -errno with r->err set. */
int record_look_start(struct record *r);
void record_look_end(struct record *r);
int record_look_vms(struct record *r, struct vm_list **list,
		    struct kvmft_err *err); /* vm_scan_told() */
/* vm_scan_made_by() */
int record_look_made_by(struct record *r, uint32_t tid, struct vm_list **list,
			struct kvmft_err *err);
int record_look_tasks(struct record *r, uint32_t pid, vm_task_fn fn,
		      void *ctx);					 /* vm_tasks_walk() */
int record_look_qemu(struct record *r, uint32_t pid, struct sbuf *line); /* record_met_look() */
int record_look_children(struct record *r, uint32_t pid,
			 char **text); /* "ID ID ...", to be freed */

/* ---- helper.c ---- */

/* The life of a forked process. */
typedef void record_helper_fn(struct record *r, int in, int out, void *arg);
/* 0 or -errno with r->err set. */
int record_helper_start(struct record *r, struct record_helper *h, record_helper_fn *fn, void *arg);
/* Closes the pipes, and waits for its end for so long; false: it has not ended. */
bool record_helper_ends(struct record_helper *h, unsigned int ms);
/* Until it ends; a note says what is waited for if that takes a while. */
void record_helper_end(struct record *r, struct record_helper *h, const char *name);
/* Makes the forked process independent of the recorder: only these n of its files stay open. */
void record_detach(const char *name, const int *keep, size_t n);

/* ---- place.c: the watcher ---- */

/* After record_place_open(). */
int record_watch_start(struct record *r);
/* Messages to the watcher, each once, in this order. */
enum record_stage {
	RECORD_LIVE = 'l', /* it records: the capture takes its name */
	RECORD_DONE = 'd', /* it is complete: what it replaces is removed */
};
/* 0 or -errno with r->err set. */
int record_watch_tell(struct record *r, enum record_stage stage);
/* The instance is gone: the watcher has nothing left to do. */
void record_watch_end(struct record *r);

/* ---- qemu_keep.c ---- */

/*
 * The life of the forked process: prepares, then obeys in (QEMU_KEEP_ON, QEMU_KEEP_END, end of
 * file) and answers on out, in lines: 'M' and a record for the capture, 'N' and a note, 'E', a
 * digit (exit code) and what has failed; and '.', the end of an answer.
 */
record_helper_fn qemu_keep_main;
#define QEMU_KEEP_ON  '1'
#define QEMU_KEEP_END 'q'

/* ---- loop.c ---- */

/* Blocks the signals that end a recording; before any thread or child exists. */
int record_signals_block(void);
/*
 * Waits until a signal, the duration, the command's exit or a limit ends the recording, meanwhile
 * reads clocks and looks for new CPUs and threads, and sets r->end_reason. 0 or -errno.
 */
int record_wait(struct record *r, struct record_child *c);

#endif
