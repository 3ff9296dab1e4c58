/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hostmap.h: who is who in a host capture: which thread runs which vCPU of which VM, and what each
 * vCPU's clock was at any time of the capture.
 *
 * Built in one unordered pass over the host's sub-buffers, before the timeline is walked: the
 * events that matter here are rare, but any of them may be at the end of the file.
 */
#pragma once

#include "kvmft/capture.h"
#include "kvmft/clock.h"
#include "kvmft/ring.h"

/* From the trace clock of a capture to the TSC of its machine, and of its host. */

/* ---- clocks that a capture read together with the TSC (its `time` and `clock` records) ---- */

enum cap_clock {
	CAP_CLOCK_MONO_RAW,
	CAP_CLOCK_MONO,
	CAP_CLOCK_BOOT,
	CAP_CLOCK_REALTIME,
	CAP_CLOCK_LOCAL, /* trace clocks, sampled at the beginning and end of the recording */
	CAP_CLOCK_GLOBAL,
	CAP_CLOCK_PERF,
};

struct cap_pieces {
	struct clock_sample *v; /* what pieces borrows */
	struct clock_pieces pieces;
};

/*
 * Lines between the capture's readings of a clock. The TSC's nominal rate is as the capture says,
 * or else measured with mono_raw. -ENODATA: fewer than two readings (one is enough if the recorder
 * did not end); -ENOTSUP: no TSC rate; -EINVAL: readings that contradict each other; -ENOMEM. To be
 * freed with cap_pieces_free(), also after a failure.
 */
int cap_pieces_init(struct cap_pieces *p, const struct capture *cap,
		    enum cap_clock clock) __must_check;
void cap_pieces_free(struct cap_pieces *p);

/* The minimum and maximum of kvmclock at a guest TSC, ns. False: unknown. */
typedef bool cap_kvmclock(const void *arg, uint64_t tsc, uint64_t *lo, uint64_t *hi);
/*
 * The line of CLOCK_MONOTONIC_RAW from the capture's kernel. It must agree with each of the
 * capture's readings of that clock: a file may say anything. If the line is over kvmclock, that is
 * asked; NULL: such a line is not used.
 */
bool cap_raw_line(const struct capture *cap, cap_kvmclock *kvmclock, const void *arg,
		  struct mono_raw *raw) __must_check;

/* ---- from the trace clock of a capture to the TSC of the recorded machine ---- */

/* By its link, over the TSC of that machine or, in struct guest_time, kvmclock. */
struct own_tsc {
	struct clock_link link;
	struct clock_sample *v; /* what the link's pieces borrow */
};

/* -ENOTSUP with err: what is missing and how to get it; -ENOMEM. err may be NULL. */
int own_tsc_init(struct own_tsc *o, const struct capture *cap, struct kvmft_err *err) __must_check;
void own_tsc_free(struct own_tsc *o); /* NULL is fine; o itself is the caller's */
/* Whether the capture's stamps are TSC or lie on a known line over it: an offset can be solved. */
bool own_tsc_is_exact(const struct capture *cap);
/*
 * Where an event is shown: for an exact range its first cycle, with the whole range in *width;
 * otherwise the middle.
 */
bool own_tsc_place(const struct own_tsc *o, uint64_t ts, uint64_t *at, uint64_t *width);
/* How far off such a middle may be, either way, in the worst case: 0 if ranges are exact. */
uint64_t own_tsc_around(const struct own_tsc *o);

/* ---- from a guest's trace clock to host TSC ---- */

struct guest_time {
	struct own_tsc own;
	/*
	 * When it was, roughly: guest TSC near_guest was host TSC near_host, by both wall clocks.
	 */
	bool has_near;
	uint64_t near_guest, near_host;
};

/* -ENOTSUP with err: what is missing and how to get it. */
int guest_time_init(struct guest_time *g, const struct capture *cap,
		    struct kvmft_err *err) __must_check;
/*
 * After a reboot the guest's TSC repeats values. Which of several host times is meant can then be
 * told from the wall clocks that both captures read beside their TSC, even if these agree only
 * roughly.
 */
void guest_time_anchor(struct guest_time *g, const struct capture *cap, const struct capture *host);
void guest_time_free(struct guest_time *g); /* NULL is fine; g itself is the caller's */
/*
 * after: host TSC of the previous event on the same CPU, 0 if there is none. If the epochs leave a
 * choice, it is the next one after that.
 */
enum epoch_result guest_time_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
				     uint64_t after, uint64_t ts, uint64_t *lo, uint64_t *hi);
/* The same of all stamps around ts as a line; false: there is none. See epoch_guest_line(). */
bool guest_time_line(const struct guest_time *g, const struct epoch_vcpu *v, uint64_t ts,
		     struct epoch_line *line);
/* For a guest TSC, whatever the capture's trace clock. */
enum epoch_result guest_time_tsc_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
					 uint64_t ts, uint64_t *lo, uint64_t *hi);

/* Why certain threads are taken for one VM; the weakest reason counts. */
enum hostmap_basis {
	HOSTMAP_RECORDED,   /* the capture says so */
	HOSTMAP_BY_PROCESS, /* they belong to one process, or there is only one */
	HOSTMAP_BY_WAKES,   /* they wake each other */
	HOSTMAP_BY_IDS,	    /* their thread ids follow each other, with different vCPU ids */
	HOSTMAP_BY_USER,    /* "tids:LIST" */
	HOSTMAP_BY_GUEST,   /* a guest's events fit these threads and no others */
};
extern const char *const hostmap_basis_names[];

struct ksyms;

struct hostmap_vm {
	const struct cap_vm *cap; /* NULL: known from events only */
	int32_t pid;		  /* tgid of the VMM; 0 = unknown; may be by a task's name */
	char label[64];		  /* name, else UUID, else PID-FD, else "pid:N", else "tids:N,M" */
	enum hostmap_basis basis;
	size_t same;	/* another one that had this pid, set before; HOSTMAP_END: none */
	size_t threads; /* index of its first one; HOSTMAP_END: none are known */
	bool several; /* of its vCPUs have threads */
	bool empty;  /* its threads turned out to belong to another */
	bool paired; /* it has a guest capture: its threads stay */
	struct epoch_vm *epochs;
	/*
	 * A VM with several guest captures has an entry for each, because their clocks may be
	 * forced or solved separately. `of` is the number of the first, which is the VM's, and its
	 * own one for all others; `next` links the rest.
	 */
	size_t of, next;
	size_t first_event; /* 1 and the number of its first clock event; 0: none */
	bool moved; /* moved to another host: what debugfs said at the end does not hold then */
	bool has_forced; /* a map given by hand, or solved, replaces whatever the capture says */
	const struct ksyms *syms; /* of its guest's kernel, see timeline.h; borrowed; NULL: none */
	uint64_t uncertain; /* solved: may be off by this many host cycles either way; else 0 */
	struct tsc_map forced;
	const struct tsc_map *scale; /* ratio and fraction bits, given by hand; NULL: as recorded */
	size_t forced_vcpus; /* ... for ids below this, and those seen */
	struct hostmap_forced {
		uint32_t vcpu;
		uint64_t from; /* host TSC; 0: from the beginning */
		struct tsc_map map;
	} *own; /* ... except for these vCPUs; in time order. Not forced: what the capture lacks */
	size_t n_own, own_cap;
};

#define HOSTMAP_END  SIZE_MAX /* in `next` */
#define HOSTMAP_NEAR 256u

struct hostmap_thread {
	int32_t tid;
	size_t vm; /* index into hostmap.vm; HOSTMAP_END: none, until the events were read */
	uint32_t vcpu; /* the last one, if it takes any of its VM's in turn: */
	bool floats;
	size_t next; /* the VM's next one; HOSTMAP_END: it is the last */
	uint64_t first, last; /* kvm_entry, stamps; UINT64_MAX and 0: none was seen */
};

struct hostmap_event; /* a remembered clock event */
struct own_tsc;

struct hostmap {
	const struct capture *cap;
	const struct fmt *fmt;
	struct own_tsc *own; /* trace clock to TSC; NULL: it is the TSC, or cannot be converted */
	struct hostmap_vm *vm;
	size_t nvm, vm_cap;
	struct u64map by_pid; /* pid → index of the last VM that got it */
	struct hostmap_thread *thread;
	size_t nthread, thread_cap;
	struct u64map by_tid;  /* tid → index into thread */
	struct u64map by_vcpu; /* vm << 32 | vcpu → the same */
	/* by tid: index + 1 of the last thread with these bits; 0: there is none with them */
	uint32_t near[HOSTMAP_NEAR];
	struct u64map tgid_of; /* tid → tgid, from the capture's tasks */
	struct u64map last_write; /* vm << 32 | vcpu → index of its last kvm_write_tsc_offset */
	struct hostmap_event *event;
	size_t nevent, event_cap;
	uint64_t events, entries, exits; /* all, and kvm_entry and kvm_exit, that were seen */
	bool holes; /* of a trace.dat: see struct rstream */
};

/*
 * Reads the host capture. cap and fmt are borrowed and must outlive the map. 0, or -errno with
 * err set. A capture whose trace clock cannot be put on the host's TSC gives threads, but no
 * clocks: see hostmap_clock().
 */
int hostmap_new(const struct capture *cap, const struct fmt *fmt, struct hostmap **out,
		struct kvmft_err *err) __must_check;
/*
 * Only what the capture states explicitly: VMs, vCPUs and threads as recorded, without reading
 * events and without clocks. For those who walk the events themselves.
 */
void hostmap_known(const struct capture *cap, const struct fmt *fmt, struct hostmap **out);
/* Whether nothing but kvm_entry could show which threads are of one VM. */
bool hostmap_by_entries(const struct capture *cap, const struct fmt *fmt);
/*
 * If so, those who walk the events themselves say which thread ran which vCPU, and then have VMs
 * made of these threads. 0, -errno; -EAGAIN: it takes hostmap_new(), and this map is of no use.
 */
void hostmap_ran(struct hostmap *m, int32_t tid, uint32_t vcpu);
int hostmap_group(struct hostmap *m) __must_check;
/*
 * The label of a VM whose threads take any of its vCPUs in turn; NULL: there is none. What follows
 * one vCPU leaves it out, and says so.
 */
const char *hostmap_floating(const struct hostmap *m);
#define HOSTMAP_FLOATING                                                                  \
	"its threads take any of its vCPUs in turn: which of these was late or stuck is " \
	"not known; `kvmft report` has its exits"
/* 0; -ENOTSUP with err: its trace clock cannot be put on the host's TSC, and what to do. */
int hostmap_clock(const struct hostmap *m, struct kvmft_err *err) __must_check;
/*
 * Clock events that only an older state of the same capture had, because its oldest segments are
 * gone: what they said still holds.
 */
void hostmap_inherit(struct hostmap *m, const struct hostmap *before);
void hostmap_free(struct hostmap *m);

/* Makes an entry for one more capture of VM number vm. */
size_t hostmap_add_side(struct hostmap *m, size_t vm);

/* for (...) over the threads of a VM, t: const struct hostmap_thread * */
#define hostmap_each_thread(m, v, t)                        \
	for (size_t each_ = (m)->vm[(m)->vm[v].of].threads; \
	     each_ != HOSTMAP_END && ((t) = &(m)->thread[each_]); each_ = (m)->thread[each_].next)

/* The vCPU that a thread runs; NULL when it runs none. */
const struct hostmap_thread *hostmap_thread_far(const struct hostmap *m, int32_t tid);
static inline const struct hostmap_thread *hostmap_thread(const struct hostmap *m, int32_t tid)
{
	uint32_t at = m->near[(uint32_t)tid % HOSTMAP_NEAR];

	if (!at)
		return NULL;
	return m->thread[at - 1].tid == tid ? &m->thread[at - 1] : hostmap_thread_far(m, tid);
}
/* Number of the VM that a thread belongs to, or works for as vhost's do; -1: none, or two. */
ssize_t hostmap_task_vm(const struct hostmap *m, int32_t tid);
/* The same, or of a vCPU whose process is not recorded. */
ssize_t hostmap_vm_of(const struct hostmap *m, int32_t tid);
/*
 * Index of the VM that sel names (see vmsel.h); -errno with candidates in err. A list of threads
 * becomes a VM if it was not taken for one, and is taken away from others.
 */
ssize_t hostmap_find_vm(struct hostmap *m, const char *sel, struct kvmft_err *err);
/* The VM of exactly these threads, made if there is none: its index, or -errno with err. */
ssize_t hostmap_take_threads(struct hostmap *m, const int32_t *tid, size_t n,
			     enum hostmap_basis basis, struct kvmft_err *err);
/* The threads of VM `from` become those of VM vm, which has none so far. */
void hostmap_adopt(struct hostmap *m, size_t vm, size_t from);
/* VMs with one label, as those of a guest moved or started again, get their PID-FD for it. */
void hostmap_tell_apart(struct hostmap *m);
/* All VMs, as selectors; "none". */
void hostmap_list(const struct hostmap *m, struct sbuf *out);
/* "tids:137,138": the threads of a VM. */
void hostmap_vm_tids(const struct hostmap *m, size_t vm, struct sbuf *out);
/* The thread of vCPU id of VM number vm; NULL if none was seen. */
const struct hostmap_thread *hostmap_vcpu(const struct hostmap *m, size_t vm, uint32_t id);
/* The records of the guest's capture, where they were read. Rebuilds the VM's epochs. */
void hostmap_add_records(struct hostmap *m, size_t vm, const struct capture *guest,
			 const struct guest_time *g);
/* Makes epochs of what was added. */
void hostmap_rebuild(struct hostmap *m, size_t vm);
/* Makes an entry, without clocks, for a VM of another host. */
size_t hostmap_add_foreign(struct hostmap *m, const struct hostmap_vm *vm);
/*
 * What the user gives replaces what the capture says: every vCPU of the VM (ids 0..n-1, and those
 * known) has this map for the whole capture.
 */
void hostmap_force_map(struct hostmap *m, size_t vm, size_t n, const struct tsc_map *map);
/* Ratio and fraction bits of all VMs; offsets stay as recorded. Borrowed. */
void hostmap_set_scale(struct hostmap *m, const struct tsc_map *scale);
/*
 * Another one for only that vCPU, after hostmap_force_map(), or one that the capture lacks; from
 * host TSC `from` on: 0 for the beginning, later ones only change the offset. Only adds.
 */
void hostmap_force_vcpu(struct hostmap *m, size_t vm, uint32_t vcpu, uint64_t from,
		       const struct tsc_map *map);

/*
 * A VM that moved to another host while it was recorded. The TSCs of two hosts are
 * unrelated, but the guest's continues where it was: KVM on the new host is given the value that it
 * had on the old one. So a host TSC of the new host has a place on the old one's scale: the value
 * that that would have reached by then, as the guest saw it. How long the guest stood still in
 * between is not part of it, and no guest sees it.
 */

/* One more host, after that of the host map. */
struct migrate {
	const struct hostmap *map; /* its own one */
	struct tsc_map own, line;  /* a guest TSC, from its host TSC and from the time line's */
	uint64_t arrival;	   /* host TSC, its own, of the VM's first entry there ... */
	uint64_t from;		   /* ... and that on the time line */
	size_t *vm;		   /* its VMs, as numbers in the first host's map */
};

/*
 * Links the host of `map` to the first one's, m, by VM number vm of m, which has the same UUID
 * there, or the same name: its other VMs become VMs of m, and the epochs of this one continue with
 * those of `map`. To be called in the order in which the VM moved. Both maps are borrowed; to be
 * freed with migrate_free(), also after an error. 0, or -errno with err.
 */
int migrate_new(struct hostmap *m, size_t vm, const struct hostmap *map, struct migrate **out,
		struct kvmft_err *err) __must_check;
void migrate_free(struct migrate *g);

/* A host TSC of that host on the time line; false if it has no place. */
bool migrate_to_line(const struct migrate *g, uint64_t host, uint64_t *line);
/* And back. */
bool migrate_from_line(const struct migrate *g, uint64_t line, uint64_t *host);

/* ---- names of tasks, from what the capture noted and from the events themselves ---- */

#define COMM_LEN 16

struct comm {
	char name[COMM_LEN];
	int32_t tid;
};

#define COMMS_NEAR 256u

struct tl_comms {
	const struct fmt *fmt;
	struct comm *v;
	size_t cap;
	struct u64map by_tid;
	uint32_t near[COMMS_NEAR]; /* by tid: index + 1 of one seen lately; 0: none */
	uint64_t ids; /* bit (id % 64) of each event that names tasks, or is to be looked at */
};

struct tl_comms *comms_new(const struct capture *cap, const struct fmt *fmt);
/* comms_wants() is true of this event as well; NULL is fine. */
void comms_also(struct tl_comms *c, const struct fmt_event *ev);
bool comms_learn(struct tl_comms *c, const struct rec *rec);
/* Whether the event may be one to learn from. */
static inline bool comms_wants(const struct tl_comms *c, const struct rec *rec)
{
	return c->ids >> (rec->id % 64) & 1;
}

/* Learns from sched events; cheap for all others. Whether a name changed. */
static inline bool comms_feed(struct tl_comms *c, const struct rec *rec)
{
	return comms_wants(c, rec) && comms_learn(c, rec);
}

/* Names that only `from`, an older state of the same capture, has. */
void comms_inherit(struct tl_comms *c, const struct tl_comms *from);
const char *comms_get(const struct tl_comms *c, int32_t tid);
void comms_free(struct tl_comms *c);

/*
 * The TSC frequency of the machine of a capture, and its source.
 *
 * A capture of kvmft has it, and so has a trace.dat with TSC2NSEC. For other files it is derived
 * from what else they hold: readings of CLOCK_MONOTONIC_RAW, the pvclock records that KVM made for
 * its guests, and captures of those guests.
 */

enum tsc_rate_source {
	TSC_RATE_UNKNOWN,
	TSC_RATE_GIVEN,	   /* by the user */
	TSC_RATE_CAPTURE,  /* the capture says it */
	TSC_RATE_READINGS, /* its readings of CLOCK_MONOTONIC_RAW together with the TSC */
	TSC_RATE_PVCLOCK,  /* kvm_pvclock_update: KVM computes the record from it */
	TSC_RATE_GUEST,	   /* the capture of a guest: its pvclock record, or its own frequency */
};

struct tsc_rate {
	enum tsc_rate_source source;
	uint64_t khz, min, max; /* kHz; it is somewhere from min to max */
	bool supposed;		/* ... if the guest's TSC is not scaled, which nothing shows */
};

/* A guest of the machine. */
struct tsc_rate_guest {
	const struct capture *cap;
	const struct fmt *fmt;
	bool has_map; /* how its vCPUs' TSC is derived; only the ratio counts */
	struct tsc_map map;
};

/* What the capture says, without its events: TSC_RATE_UNKNOWN, _CAPTURE or _READINGS. */
void tsc_rate_said(const struct capture *cap, struct tsc_rate *r);
/*
 * All that can be found. Events are read only if nothing else has it, and no more of them than
 * needed. The result is accurate to 1 % or better, or TSC_RATE_UNKNOWN, which is no error. 0;
 * -ENOMEM, or a failed read.
 */
int tsc_rate_find(const struct capture *cap, const struct fmt *fmt,
		  const struct tsc_rate_guest *guest, size_t nguest,
		  struct tsc_rate *r) __must_check;
/*
 * From now on the capture has it: tsc_khz, tsc_khz_source, tsc_khz_min, tsc_khz_max; the user's
 * value takes precedence over its TSC2NSEC. TSC_RATE_UNKNOWN changes nothing.
 */
void tsc_rate_use(struct capture *cap, const struct tsc_rate *r);
/* Half of min..max, in parts per million of khz, rounded up; 0: to the kHz. */
uint64_t tsc_rate_ppm(const struct tsc_rate *r);

/* ---- the parts of tsc_rate_find() ---- */

/*
 * A TSC by the record that KVM made of its rate; false: not such a record. One kHz fits, seldom
 * two.
 */
bool tsc_rate_of_pvclock(uint32_t mul, int8_t shift, struct tsc_rate *r);
/* From a guest's frequency to the host's, by the ratio of map; NULL: taken for 1. */
bool tsc_rate_of_guest(const struct tsc_rate *guest, const struct tsc_map *map, struct tsc_rate *r);

/* By kvm_pvclock_update, of the first VM that has one whose ratio is known; or of any. */
int tsc_rate_scan(const struct capture *cap, const struct fmt *fmt, struct tsc_rate *r)
	__must_check;
