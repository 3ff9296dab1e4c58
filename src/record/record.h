/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record.h: the parts of a recording. All that return int: 0 or -errno with r->err set, unless they
 * say more.
 *
 * record.c   the order in which things are set up and undone; what is waited for
 * what.c     which side, events and threads; threads that appear later
 * ring.c     the instance, its size, CPUs and clocks; what it lost
 * flight.c   the flight recorder, its triggers and orders; markers of programs
 * store.c    the capture's place and limits, or standard output: -o -
 * facts.c    what goes into the capture besides events; VMs that appear
 * stacks.c   the kernel's stacks at events, --stacks; names of a guest's functions, --symbols
 * cost.c     what an exit cost
 * helpers.c  processes beside the recorder; the QEMUs that were met
 * qemu.c     --qemu, and the process that speaks to QEMU
 * probes.c   --sdt, -e net-id and --guest-processes
 * small.c    instead of these two, in the small build
 */
#pragma once

#include <sys/resource.h>

#include "kvmft/capture.h"
#include "kvmft/drain.h"
#include "kvmft/kernel.h"
#include "kvmft/ksyms.h"
#include "kvmft/qemu.h"
#include "kvmft/record.h"
#include "kvmft/sandbox.h"
#include "kvmft/stream.h"
#include "kvmft/vm.h"

/* What COMMAND gets back of the things that we change for ourselves. */
struct record_env {
	mode_t umask;
	struct rlimit nofile;
	bool has_nofile;
};

#define RECORD_CLOCKS 3 /* local, global, perf */

/* A process of ours, and pipes to it. */
struct record_helper {
	const char *name;
	const char *task; /* that an answer is awaited for; NULL: only for RECORD_PATIENCE_MS */
	int pid;	  /* 0 = none */
	int to, from;
};

#define RECORD_PATIENCE_MS 10000

struct record_child {
	struct record_helper p; /* to releases it; from reports that exec failed */
	int status;		/* of waitpid(), once it has ended: p.pid is 0 then */
};

/* Counters of a CPU's ring, as they were last read. */
struct record_seen {
	uint64_t dropped; /* by a full ring that keeps the oldest; not flagged in the data */
	uint64_t now;	  /* ring's clock */
	uint64_t taken;	  /* sub-buffers, of the whole recording */
	uint64_t flushed; /* events read, when it was flushed last */
	/* A flight recorder's: when it was last written out, and a second ago. */
	uint64_t overrun, overrun_now;
};

struct record_flight {
	struct kinst *watch;   /* user space watches here for the trigger; NULL = the kernel does */
	struct kevent_list on; /* the event, and its filter */
	/* of flight.c: its synthetic event ("" = none), how long in clock units, its trigger */
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
	size_t ncpu_max;	 /* possible CPUs */
	size_t ncpu;		 /* of which this many are recorded: drain[], seen[] */
	struct drain_cpu *drain; /* room for ncpu_max; an entry never moves */
	struct record_seen *seen;
	struct drain_store store;
	struct capw_removed removed;  /* under the store's lock, ... */
	struct capw_kept kept;	      /* ... as this */
	pthread_mutex_t meta_lock;    /* of later below: threads add to it */
	struct sbuf later;	      /* records waiting to be written to meta */
	unsigned int segments_told;   /* in meta */
	uint64_t rotate_ns, flush_ns; /* 0 = never */
	bool rotate_flushed;	      /* what belongs to the old segment was requested */
	struct {
		uint64_t ns, events;
	} progress; /* as told last */
	struct {
		uint64_t most_kb; /* of ring on each CPU, by the memory that there was */
		uint64_t held;	  /* ns that full rings reached back; UINT64_MAX: none is full */
		bool asked, told;
		bool cut; /* less was written out than requested */
	} before;
	uint64_t live_ns;    /* util_now_ns() when all events were on */
	struct vm_list *vms; /* as last scanned */
	struct kpids {
		int32_t *v;
		size_t n, cap;
	} tids;			  /* --vm, --vcpu and -p: in set_event_pid */
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
	/* Trace clocks and TSC, read before there was a capture; width UINT64_MAX = not read. */
	struct kclock_sample clocks[RECORD_CLOCKS];
	uint64_t cycles; /* from these readings to those at the end; 0: not known */
	struct sbuf line; /* meta record under construction */
	struct record_flight flight;
	struct record_sdt *sdt; /* NULL without --sdt */
	struct kprobes *net_id; /* NULL without -e net-id */
	struct kprobes *cr3;	/* NULL without --guest-processes */
	bool want_net_id;
	struct record_stacks {
		struct kevent_list ev; /* --stacks */
		bool user;	       /* --stacks user: of programs, at each event */
		uint32_t id;	       /* of ftrace:kernel_stack */
		int kallsyms;	       /* open, while names may still be read; -1 */
	} stacks;
	struct {
		int modules;	       /* /proc/modules, open; -1 */
		struct sbuf text;      /* to be written */
		struct ksyms at_begin; /* modules alone */
	} symbols;		       /* --symbols */
	enum { RECORD_MARKER_NONE, RECORD_MARKER_COMMAND, RECORD_MARKER_ALL } marker;
	bool marker_wanted; /* by -e */
	bool copying; /* the kernel copies markers into the instance */
	struct {
		struct stream_out *stream; /* NULL: to a directory */
		int signals;
		_Atomic bool ending; /* what still waits for the reader is requested */
		bool told;
		uint64_t since, bytes;
	} out;
	struct record_helper watch, look;
	bool blind; /* kvmft-look was killed, or does not answer */
	struct {
		char text[sizeof("snapshot ") + CAPW_ORIGIN_SIZE];
		size_t len;
	} order; /* the beginning of a line */
	struct record_qemu {
		struct record_helper keeper; /* that speaks to QEMU */
		struct sbuf facts;	     /* records for meta, a line each */
	} qemu;
	struct {
		uint32_t *v;
		size_t n, cap;
	} met;		      /* PIDs of QEMUs in meta */
	uint64_t lost;	      /* events, all CPUs; known after the end */
	uint64_t stored;      /* events in the capture */
	bool stand_in;	      /* in tids for lack of a vCPU that has run */
	bool store_ready, tracing, started;
	const char *end_reason;
	struct record_place {
		int dir;     /* that the capture is in; -o DIR/: locked while it is open */
		char *shown; /* prefix of its name in messages */
		bool limited; /* in time or size */
		uint64_t min_free; /* what is left on the disk: as asked for, or a share of it */
		struct capw_name name;
	} place;
	unsigned int confined;	   /* enum sandbox_layer */
	struct vm_watch newcomers; /* VMs that appear while it records */
	struct record_came {
		uint32_t pid, fd;   /* its PID-FD */
		unsigned int looks; /* at it */
		uint64_t due;	    /* the next one, util_now_ns() */
		size_t vcpus;	    /* at the last one */
		struct u64map told; /* vCPUs in meta: id, and its thread or 0 */
	} * came;		    /* not completely known yet */
	size_t ncame, came_cap;
};

/* ---- what.c ---- */

int record_side(struct record *r);
int record_events(struct record *r);
int record_tids(struct record *r);
/*
 * Threads that have appeared since; cheap if there is no filter by thread. With --vcpu it costs a
 * look through debugfs, which is left out if all have threads, unless thorough.
 */
int record_tids_again(struct record *r, bool thorough);

int record_sched_arm(struct record *r); /* in r->k, if the default events are wanted */
int record_sched_vmm(struct record *r, uint32_t pid); /* its threads have to be followed, too */
int record_sched_again(struct record *r);
void record_sched_free(struct record *r);

/* ---- qemu.c and probes.c: what `make SMALL=1` leaves out ---- */

/* Each may be NULL; small.c has tables that only refuse the options. */
struct record_extra {
	int (*check)(struct record *r); /* the options, before anything is made */
	/* Switches off what killed recorders have left on, and reports it. */
	void (*leftovers)(note_fn *note);
	/* QEMU: finds them, and whether they have the events. Probes: makes them, for r->events. */
	int (*start)(struct record *r);
	/* An event's name and format text in the capture: *format is the caller's. 0 or -ENOMEM. */
	int (*name)(const struct record *r, const struct kevent *e, const char **sys,
		    const char **name, char **format);
	int (*facts)(struct record *r); /* into the capture */
	int (*on)(struct record *r);	/* switches on; what is on goes into the capture */
	int (*end)(struct record *r);	/* once; harmless if nothing was begun */
};

extern const struct record_extra record_qemu, record_probes;

/* ---- cost.c ---- */

void record_cost_note(const struct record *r); /* at the end */

/* ---- stacks.c ---- */

int record_stacks_events(struct record *r); /* adds to those to record */
int record_stacks_arm(struct record *r);    /* before tracing is on and privileges are dropped */
int record_stacks_facts(struct record *r);
int record_stacks_names(struct record *r); /* of the addresses that occur in the data */
void record_stacks_free(struct record *r);

int record_symbols_read(struct record *r); /* before the capture, and privileges are dropped */
int record_symbols_write(struct record *r);
int record_symbols_end(struct record *r); /* which modules are gone */
void record_symbols_free(struct record *r);

/* ---- ring.c ---- */

void record_nofile(struct record *r);
int record_instance(struct record *r);
/* KiB in the line of /proc/meminfo that begins with this; false: there is none. */
bool record_meminfo(const char *name, uint64_t *kb);
/* Opens what recording the online CPUs needs, while privileges allow that many pipes. */
int record_cpus_open(struct record *r);
/* The same for those that were not online before, and starts their threads. */
int record_cpus(struct record *r);
uint64_t record_ring_bytes(const struct record *r); /* of one CPU */

/* Clocks, into the capture: before tracing starts; g: the guest's clock, NULL on a host. */
int record_clocks_begin(struct record *r, const struct kguest_clock *g);
int record_clocks_end(struct record *r); /* with the ring, when it has been read completely */

int record_loss_begin(struct record *r);
/* For struct drain_store: from the draining threads. */
void record_loss_look(void *record, struct drain_cpu *c);
uint64_t record_loss_events(void *record, const void *subbuf);
int record_loss_join(void *record, void *subbuf, const void *more);
/* Final counters into meta and into r, and a message for each CPU that lost events. */
int record_loss_end(struct record *r);

/* ---- flight.c ---- */

int record_flight_check(struct record *r);
int record_flight_arm(struct record *r);  /* before tracing is on */
int record_flight_tick(struct record *r); /* did the trigger fire? Then the ring is written out */
/* Writes the ring out as a segment of its own. */
int record_flight_dump(struct record *r, const char *why);
void record_flight_free(struct record *r);
void record_trigger_free(struct record *r); /* after r->k is gone */
void record_before_tick(struct record *r);  /* --before */

/* Takes the pending orders; one may set r->end_reason. */
int record_control_take(struct record *r, struct record_child *c);
void record_control_tell(const struct record *r, enum record_news what, int status);

#define RECORD_MARKER "marker" /* the set of -e */
/* Whose markers, by -e and COMMAND (NULL: none); before anything is made. */
int record_marker_check(struct record *r, char **argv);
int record_marker_ready(struct record *r); /* can this kernel? With the instance there. */
int record_marker_facts(struct record *r);
/* While the instance copies, tracing must be on: after it is switched on, and before it is off. */
void record_marker_stop(struct record *r);

/* ---- store.c ---- */

bool record_to_stream(const struct record_config *c);
/* Options that exclude each other. Quiet if cron reads the output. */
int record_place_check(struct record_config *c, struct kvmft_err *err);
/* Opens the directory, finds a name and checks for room. Creates nothing. */
int record_place_open(struct record *r);
int record_capture_create(struct record *r);
void record_place_free(struct record *r);

int record_store_check(struct record *r); /* the options, before anything is made */
int record_store_open(struct record *r);
/* From any thread: a record for meta. Frees it. */
void record_store_add(struct record *r, struct sbuf *line);
int record_store_news(struct record *r); /* writes the records left by threads to meta */
/* Flight recorder: a segment is completely written, and an old one may be removed. */
int record_store_written(struct record *r, unsigned int segment);
/* Is there room for a segment of r->flight.by? Old ones that others' triggers made are removed. */
bool record_store_room(struct record *r);
void record_store_close(struct record *r);

int record_stream_tick(struct record *r); /* once a second */
int record_stream_end(struct record *r);
/* An error of the stream, with its text; others, and 0, unchanged. */
int record_stream_error(struct record *r, int ret);

/* ---- facts.c: each appends to meta ---- */

int record_put(struct record *r);	  /* r->line as one record */
int record_facts_begin(struct record *r); /* before tracing starts */
int record_facts_event(struct record *r, const struct kevent *e);
/* A file of names of the capture, unless --min-free forbids it; what: in the note that says so. */
int record_put_names(struct record *r, const char *name, const char *text, const char *what);
int record_facts_cpus(struct record *r);
int record_facts_vms(struct record *r, bool end); /* after it started, and again at the end */
int record_facts_bracket(struct record *r);
int record_facts_tasks(struct record *r);
int record_facts_end(struct record *r);

/*
 * VMs that appear while it records, and may be gone at its end: before anything is looked at, and
 * before privileges are dropped. If debugfs does not report them, none appear.
 */
int record_came_open(struct record *r);
int record_came_begin(struct record *r); /* after the first look at all VMs */
/* Takes what debugfs reports, and looks at what is due. */
int record_came_take(struct record *r);
void record_came_free(struct record *r);

/* ---- helpers.c ---- */

/* The life of a forked process. */
typedef void record_helper_fn(struct record *r, int in, int out, void *arg);
int record_helper_start(struct record *r, struct record_helper *h, record_helper_fn *fn, void *arg);
/* Until it ends; a note says what is waited for if that takes a while. */
void record_helper_end(struct record *r, struct record_helper *h);
/* Makes the forked process independent of the recorder: only these n of its files stay open. */
void record_detach(const char *name, const int *keep, size_t n);

/* What such a process answers. */
struct record_answer {
	int ret;
	struct kvmft_err err;
	size_t len; /* of the text that follows */
};
int record_answer(int out, int result, const struct kvmft_err *err, const struct sbuf *text);
/* Asks it, and waits. *text, NUL-terminated, is to be freed. -EPIPE: gone; -ETIMEDOUT: late. */
int record_ask(const struct record *r, const struct record_helper *h, const void *question,
	       size_t n, struct record_answer *a, char **text);

/* Forks COMMAND, which waits until record_child_release(). */
int record_child_fork(struct record *r, char **argv, struct record_child *c);
int record_child_release(struct record *r, struct record_child *c);
/* After its end: could it be run at all? Notes a bad end: see what was recorded with care. */
int record_child_result(struct record *r, const struct record_child *c);
/* Never lets it run (set-up failed), or ends it (SIGTERM) and reaps it, unless it goes on. */
void record_child_end(struct record *r, struct record_child *c);

/* What is read about other processes; on a host by a helper that may do so. */
int record_look_start(struct record *r); /* after record_side(), before record_confine() */
void record_look_end(struct record *r);
/* tid: those that this thread made; 0: all */
int record_look_vms(struct record *r, uint32_t tid, struct vm_list **list, struct kvmft_err *err);
int record_look_tasks(struct record *r, uint32_t pid, vm_task_fn fn, void *ctx);

/* Begins the record of a QEMU: everything but its version. */
void record_met_line(struct sbuf *line, uint32_t pid, const struct mon_program *p);
/* Such a record was written by somebody else. */
void record_met_told(struct record *r, const char *line);
/* Writes the record of process pid, if it is a QEMU, and was not written yet. */
int record_met(struct record *r, uint32_t pid);
/* The same for COMMAND and its children; begin: it was released just now. */
int record_met_command(struct record *r, const struct record_child *c, bool begin);

int record_watch_start(struct record *r); /* after record_place_open() */
/* Messages to the watcher, each once, in this order. */
enum record_stage {
	RECORD_LIVE = 'l', /* it records: the capture takes its name */
	RECORD_DONE = 'd', /* it is complete: what it replaces is removed */
};
int record_watch_tell(struct record *r, enum record_stage stage);
/* The instance is gone: the watcher has nothing left to do. */
void record_watch_end(struct record *r);

/* ---- record.c ---- */

/*
 * Drops what is not needed from here on, for this thread and those started later. After the capture
 * and the instance exist and COMMAND was forked, before the draining threads.
 */
int record_confine(struct record *r, pid_t child);
/* For its helpers, by Landlock, which hides /proc/PID/fd, files only in dir; NULL: without. */
int record_confine_helper(enum sandbox_calls calls, const struct sandbox_dir *dir, size_t ndir,
			  struct kvmft_err *err);
int record_confine_watch(const struct record *r, struct kvmft_err *err);
int record_confine_qemu(struct kvmft_err *err); /* qemu.c */
