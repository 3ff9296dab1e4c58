/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * timeline.h: one host capture and any number of guest captures as one stream ordered by host TSC.
 *
 * Every event of every source is given the host TSC at which it happened; guest stamps go through
 * the clock of their trace and the vCPU's epochs. A stamp that cannot be placed is not guessed: the
 * event takes the place of the one before it on its CPU, or, if there is none, of the first one
 * after it, and is marked.
 */
#pragma once

#include "kvmft/exit_names.h"
#include "kvmft/hostmap.h"
#include "kvmft/ksyms.h"
#include "kvmft/qemu.h"
#include "kvmft/vcpu_turn.h"

#define TL_MAX_LABEL 64
#define TL_NO_CPU    UINT32_MAX

struct match;
struct tl_comms; /* task names of one source */
struct guest_time;
struct qsource;
struct qmarker;

/* One capture on the timeline. */
struct tl_source {
	const struct capture *cap;
	const struct fmt *fmt;
	char label[TL_MAX_LABEL]; /* "host", or the VM's name; of several captures of it NAME#N */
	bool guest;
	const struct match *match;  /* guest: why it belongs to that VM; or NULL */
	const struct migrate *link; /* a host that a VM moved to; NULL: the first one */
	struct guest_time *gtime;   /* guest, but not alone: its clock; else NULL */
	struct qsource *qemu;	    /* a trace of QEMU; NULL: a capture */
	struct qmarker *marker;	    /* host: recognizes those of its markers that are QEMU's
				   * events; or NULL */
	bool alone;		    /* of tl_new_alone() */
	size_t index;		    /* 0 = host, guests from 1 */
	size_t id;		    /* the same, except where a follower goes on without some */
	size_t vm; /* guest: index into the host map, of this capture's entry; alone:
				   * HOSTMAP_END, or its own */
	uint64_t events, gaps, lost, damaged, unplaced; /* counted so far by tl_next() */
	bool lost_unknown;				/* some gap had no count */
	bool windowed;	  /* by tl_window(): these do not cover the whole capture */
	bool followed;	  /* by tl_follow(): of the whole capture since it began */
	bool no_end;	  /* ... and its end was not waited for, which is no loss */
	bool missed;	  /* ... and some was removed before it could be given out */
	uint32_t read_to; /* ... the segment up to which the previous one read */
	struct tl_comms *comms;
	const struct tl_comms *names; /* those of tl_comm(): for QEMU the host's */
	struct exit_names exits;
	uint32_t renames;	      /* how often the walk changed a name that tl_comm() gives */
	int error;		      /* -errno of a failed read */
	uint64_t begin; /* host TSC of its first event; UINT64_MAX: none has a place */
	/* Of its first and last event, if a stream needed it; none: UINT64_MAX, 0. */
	uint64_t first, end;
	bool begin_known, end_known;
};

enum tl_kind { TL_EVENT, TL_GAP, TL_DAMAGE };

/*
 * Valid until the next tl_next(). A gap is placed where it begins: at the last event before it on
 * its CPU; what happened until its end may be incomplete.
 */
struct tl_item {
	enum tl_kind kind;
	struct tl_source *src;
	uint64_t host;	 /* host TSC, cycles: the first that fits */
	uint64_t width;	 /* the last that fits is host + width; TL_GAP: length of the gap */
	bool unplaced;	 /* host is only the place of a neighbour */
	bool usual;	 /* an event with a format and a place, without marker and device */
	bool guest;	 /* src->guest */
	uint64_t around; /* QEMU, sampled clock of a host: it may be off by this many cycles */
	uint32_t cpu;	 /* of the source's own machine; TL_NO_CPU: QEMU, which has none */
	int64_t vcpu;	 /* guest event: its vCPU id; host event: the one that its thread
			     * runs; -1 */
	int64_t vm;	 /* index into the host map of the VM that vcpu belongs to (`of`); -1 */
	int32_t tid;
	const struct rec *rec;
	const struct fmt_event *ev;   /* NULL: an event without a format */
	const struct qmarker *marker; /* of the host, for an event of QEMU; or NULL */
	const char *device; /* what the address of a kvm_fast_mmio or kvm_mmio belongs to; or
			     * NULL */
	uint64_t lost;	    /* TL_GAP: how many; 0 = unknown. TL_DAMAGE: index of the sub-buffer */
	enum rgap gap;	    /* TL_GAP: unless lost, a flight recorder's own */
};

/* Field number n of the role of an event; 0 if the kernel or the record lacks it. */
static inline uint64_t tl_field(const struct tl_item *i, size_t n)
{
	return event_u64(event_type_of(i->ev), n, i->rec);
}

/* Of a gap: whether it is known how many events were lost in it, or that none were. */
static inline bool tl_gap_counted(const struct tl_item *i)
{
	return i->lost || (i->gap && i->gap != GAP_UNREAD);
}

struct timeline;

/* The host map, the captures and their formats are borrowed and must outlive the timeline. */
int tl_new(struct hostmap *map, struct timeline **out, struct kvmft_err *err) __must_check;
/*
 * Adds a guest capture as VM number vm of the host map; a second one of the same VM as the entry
 * that hostmap_add_side() made for it. -ENOTSUP with err: its trace clock cannot be converted with
 * what the captures hold (err says what is missing).
 */
int tl_add_guest(struct timeline *t, const struct capture *cap, const struct fmt *fmt, size_t vm,
		 struct kvmft_err *err) __must_check;
/* A trace of QEMU. */
struct tl_qemu {
	const char *path;
	enum qtrace_format format;
	const struct qevents *events; /* borrowed; NULL: none at hand */
	int64_t vm;		      /* index into the host map; -1: found by its threads */
};
/*
 * Adds the events of a QEMU on the host: timed by the host capture's readings of the clock that the
 * back end uses; if there are none, by the events that both sides show.
 * Its items have the side "qemu". -errno with err.
 */
int tl_add_qemu(struct timeline *t, const struct tl_qemu *q, struct kvmft_err *err) __must_check;

/*
 * Markers (ftrace:print) of the hosts added before that are events of a QEMU are shown as such:
 * then ev and rec of their items are the event's. get(arg) is called when a marker is met, which
 * few captures have: what QEMU declares, borrowed, or NULL. -errno with err.
 */
void tl_add_markers(struct timeline *t, const struct qevents *(*get)(void *arg), void *arg);
/* The number of such events given out by tl_next() so far. */
uint64_t tl_markers(const struct timeline *t);

struct tl_qemu_report {
	const struct qtrace_stats *stats;
	uint64_t worst;	  /* the largest `around` of an event, cycles */
	uint64_t median;  /* half of the events have an `around` no larger than this */
	uint64_t outside; /* events before or after the recording, left out */
	uint64_t untimed; /* events without a time stamp */
	uint64_t steps;	  /* how often CLOCK_REALTIME was set while the host recorded */
	bool no_clock;	  /* the host capture does not say enough about the clock that is needed */
	uint64_t shown;	  /* ... so it was placed by that many events that both sides show, ... */
	const char *why;  /* ... or could not be placed, for this reason */
};
/* After the walk, of a source with `qemu`. */
void tl_qemu_report(const struct tl_source *s, struct tl_qemu_report *r);

/*
 * Adds a host that a VM moved to; after the guests. The link is borrowed. `host` of all items
 * remains the first host's TSC.
 */
void tl_add_host(struct timeline *t, const struct migrate *link);
/*
 * A time line of one capture alone, host or guest, in any trace clock: `host` of its items is the
 * recorded stamp. guest: of a guest; vm: as a VM of the map, which its events are of; -1: of none.
 */
void tl_new_alone(struct hostmap *map, bool guest, int64_t vm, struct timeline **out);
/*
 * Only what happened at host TSC from..to, both included, and gaps that reach into that; to be
 * called before tl_start(). Sub-buffers before and after it are not read.
 */
void tl_window(struct timeline *t, uint64_t from, uint64_t to);
/*
 * The same for captures that are still being written: what none of the time lines with these marks
 * has given out yet, up to host TSC `to`, and what comes late. m is borrowed, until tl_free().
 */
struct tl_marks;
void tl_marks_new(struct tl_marks **out);
void tl_marks_free(struct tl_marks *m); /* NULL is fine */
void tl_follow(struct timeline *t, struct tl_marks *m, uint64_t to);
/* Captures without an end so far are left as they are: what comes later is no loss. */
void tl_follow_no_end(struct timeline *t);
/*
 * What the previous time line, of the same captures or of more of them (by their ids), learned from
 * events that may be gone: names of threads, clocks of VMs, and its counts. After the last
 * tl_add_guest().
 */
void tl_inherit(struct timeline *t, const struct timeline *before);
/* Its beginning; 0: from the start. */
uint64_t tl_from(const struct timeline *t);
/* Opens all streams; after the last tl_add_guest(). */
int tl_start(struct timeline *t, struct kvmft_err *err) __must_check;
/*
 * The same with only stream number k of source i's capture; the next one may be started without
 * tl_stop() in between, and the sources' counters then go on.
 */
int tl_start_stream(struct timeline *t, size_t i, size_t k, struct kvmft_err *err) __must_check;
/* Closes what was opened and forgets what was counted, but no error; another start may follow. */
void tl_stop(struct timeline *t);
/* -errno: a source could not be read to its end, in this walk or one before. */
int tl_error(const struct timeline *t) __must_check;
/* The next item by host TSC: 1; 0 at the end; -errno. *item is valid until the next call. */
int tl_next(struct timeline *t, const struct tl_item **item) __must_check;
/*
 * Who is shown the items of a walk: by feed(), or by item(), which ends the walk by another result
 * than 0. Without ctx nobody is.
 */
struct tl_taker {
	void (*feed)(void *ctx, const struct tl_item *item);
	int (*item)(void *ctx, const struct tl_item *item);
	void *ctx;
};
#define TL_FEED(fn, to) { .feed = (fn), .ctx = (to) }
#define TL_ITEM(fn, to) { .item = (fn), .ctx = (to) }
/* All items to the end, each to all of them in turn: 0, what ended the walk, or -errno. */
int tl_walk_to(struct timeline *t, const struct tl_taker *to, size_t n) __must_check;
#define tl_walk(t, ...)                                         \
	tl_walk_to(t, (const struct tl_taker[]){ __VA_ARGS__ }, \
		   ARRAY_SIZE(((const struct tl_taker[]){ __VA_ARGS__ })))
/*
 * Host TSC at which the recording of a source, not a trace of QEMU, ended: when it was stopped, or
 * that of its last event: 1. 0: nothing of it has a place. -errno: it cannot be read.
 */
int tl_source_end(const struct timeline *t, const struct tl_source *s, uint64_t *host) __must_check;
/* Whether the last start was of one stream: of the others nothing is known then. */
bool tl_by_stream(const struct timeline *t);
/* Whether both have events, or the host recorded, at the same time; after the last tl_next(). */
bool tl_source_overlap(const struct timeline *t, const struct tl_source *a,
		       const struct tl_source *b);
size_t tl_sources(const struct timeline *t);
struct tl_source *tl_source(const struct timeline *t, size_t i);
struct hostmap *tl_hostmap(const struct timeline *t);
/* "host", "guest" or "qemu". */
const char *tl_side(const struct tl_source *s);
/* The formats that ev and rec of an item belong to. */
const struct fmt *tl_fmt(const struct tl_item *item);
/* A number for the type of an event, the same for all events of that type and source. */
static inline uint64_t tl_type(const struct tl_item *item)
{
	return (uint64_t)item->src->index << 17 | (uint64_t)(item->marker != NULL) << 16 |
	       item->rec->id;
}
/* tl_print() of what QEMU reports, itself or by its markers. */
void tl_print_other(const struct tl_item *item, struct sbuf *out);
/* The fields of an event with a format, as text. */
static inline void tl_print(const struct tl_item *item, struct sbuf *out)
{
	if (item->src->qemu || item->marker)
		tl_print_other(item, out);
	else
		fmt_print(item->ev, item->rec, out);
}

/* Name of a thread as known at this point of the walk; never NULL. */
const char *tl_comm(const struct tl_source *s, int32_t tid);
void tl_free(struct timeline *t);

/* ---- losses ---- */

struct tl_loss {
	uint64_t total;
	bool unknown;
};

/* After a walk over all of it: events that a trace.dat counts, and that are missing somewhere. */
uint64_t tl_missing(const struct tl_source *s);
/* Lost events of a source after the walk: counts in the data and counters, each counted once. */
void tl_loss(const struct tl_source *s, struct tl_loss *loss);
/* The same from what a walk over the whole capture saw: events, losses in the data. */
void tl_loss_of(const struct capture *cap, uint64_t events, uint64_t lost, bool lost_unknown,
		struct tl_loss *loss);
/* Whether something wrong with its capture counts: one without an end yet may have none. */
static inline bool tl_source_is_damage(const struct tl_source *s, const struct cap_damage *d)
{
	return !(s->no_end && d->no_end);
}

/* After the walk: nothing was lost, damaged or unreadable; all of QEMU's trace has a place. */
bool tl_source_complete(const struct tl_source *s);

/*
 * Which items of a time line are wanted: by event and fields, vCPU, side; and the context
 * of matches.
 *
 * An event is named [SYSTEM:]NAME[/FILTER/], both names with wildcards. FILTER has the syntax of
 * ftrace's event filters: FIELD OP VALUE with OP one of == != < <= > >= & ~, combined by && and ||,
 * negated by !, grouped by parentheses. ~ compares text with a pattern. A comparison with a field
 * that the event lacks is false.
 */

struct pick;

void pick_new(const struct timeline *t, struct pick **out);
/* Any of these; without one, all events. -EINVAL with err: not an event specification. */
int pick_add_event(struct pick *p, const char *spec, struct kvmft_err *err) __must_check;
#define PICK_MAX_CONTEXT 10000
/* The events are matches: only they and so many items on either side of each are wanted. */
void pick_set_context(struct pick *p, uint64_t items);
/* Any of these vCPUs. */
void pick_add_vcpu(struct pick *p, uint32_t vcpu);
/*
 * Any of these: "host", "guest" (all), a VM's name (all its captures), a source's label, or the
 * directory name of a guest.
 */
void pick_add_side(struct pick *p, const char *side);
bool pick_side_is(const struct timeline *t, const struct tl_source *s, const char *side);

/* Whether the item passes everything but the matches; for gaps and damage only the side counts. */
bool pick_wants(struct pick *p, const struct tl_item *item);

/*
 * Passes a wanted item through the matches: calls show() for it, and before that for earlier items
 * that are in the context of a match. 0 or what show() returned, or -ENOMEM. The rec of an item
 * shown later is a copy. Where wanted items are left out between two matches with context, it is
 * called with NULL.
 */
int pick_feed(struct pick *p, const struct tl_item *item,
	      int (*show)(void *arg, const struct tl_item *item), void *arg) __must_check;
/*
 * The captures were opened again (pairing.h), as t: what is kept for a match that may come, and
 * what still has to be shown after the last one, continues there. The previous time line may be
 * gone. QEMU's events are not kept for later.
 */
void pick_go_on(struct pick *p, const struct timeline *t);
uint64_t pick_matches(const struct pick *p);
/* Items of the context that were dropped because keeping them would have taken too many bytes. */
uint64_t pick_dropped(const struct pick *p);
/* Whether any event was wanted, and matched if there are matches. */
bool pick_any(const struct pick *p);
/*
 * The i-th name or number that was requested and that nothing in the time line has, as a sentence
 * in b, with similar names. *slip: no format of the captures has that name, so it is most likely a
 * typing error. False: there are no more.
 */
bool pick_unmet(const struct pick *p, size_t i, bool *slip, struct sbuf *b) __must_check;
void pick_free(struct pick *p);

/* ---- filters, by themselves ---- */

struct filter;

/* Parses FILTER (n bytes of text). 0, -ENOMEM, or -EINVAL with err. */
int filter_parse(const char *text, size_t n, struct filter **out,
		 struct kvmft_err *err) __must_check;
/* Whether the record of that event passes. */
bool filter_match(const struct filter *f, const struct fmt_event *ev, const struct rec *rec);
void filter_free(struct filter *f);

/*
 * One moment seen from both sides. The guest accesses an MSR that KVM intercepts: the
 * host traces kvm_msr while it handles the access, the guest traces read_msr or write_msr when it
 * runs again. Number and value show which two belong together, so each pair shows how much later
 * the guest's event is, independently of the windows; it can never be earlier.
 */

enum msr_pair {
	MSR_PAIR_DEADLINE, /* write of IA32_TSC_DEADLINE: the values are unique */
	MSR_PAIR_ICR,      /* write of the x2APIC's interrupt command register */
	MSR_PAIR_RDMSR,    /* read of MSR 0x11: made by hand, for this very purpose */
	MSR_PAIR_KINDS,
};
extern const char *const msr_pair_names[MSR_PAIR_KINDS];

/* Distances in host cycles, guest's time minus host's. */
struct msr_pair_stats {
	uint64_t n, violations; /* violations: the guest's event came first */
	uint64_t alone_host, alone_guest; /* accesses that only one side has */
	int64_t min, max;	/* valid when n is not 0 */
	struct loghist late;	/* of those that are not violations */
};

struct msr_pairs;

void msr_pairs_new(const struct timeline *t, struct msr_pairs **out);
/* Feeds the items of a timeline in order. */
void msr_pairs_feed(void *pairs, const struct tl_item *item);
/* Call once after the last item. */
void msr_pairs_finish(struct msr_pairs *p);
/* NULL if the captures have no such access of that VM. */
const struct msr_pair_stats *msr_pairs_get(const struct msr_pairs *p, size_t vm,
					   enum msr_pair kind);
/* Can both sides' captures show pairs at all? (They hold the events' formats.) */
bool msr_pairs_possible(const struct msr_pairs *p, size_t vm);
void msr_pairs_free(struct msr_pairs *p);

/* ---- the events themselves, also used elsewhere ---- */

/* Whether rec, of type ev, is an access of that side that makes pairs: its kind and value. */
bool msr_pair_match(bool guest, const struct fmt_event *ev, const struct rec *rec,
		    enum msr_pair *kind, uint64_t *value);

/*
 * When each vCPU thread of a host may have been in its guest: stretches of host time from
 * kvm_entry to what ended it. If host events were lost, or two exits follow each other without an
 * entry, the guest may have run.
 *
 * Memory is bounded: beyond RUNS_MAX stretches, those with a short gap between them are joined,
 * which can only claim "may have run" where it did not.
 */

#define RUNS_MAX (1u << 22)

struct vcpu_run {
	uint64_t from, to; /* host TSC, both included */
};

/* In time order, disjoint. */
struct run_list {
	struct vcpu_run *v;
	size_t n, cap;
};

/*
 * Appends the part of [from, to] that is later than the others; it is joined with the last if the
 * gap between is shorter than min_gap. Whether there is one more.
 */
bool run_list_add(struct run_list *l, uint64_t from, uint64_t to, uint64_t min_gap);
/* The number of the first that ends at or after that time; n if there is none. */
size_t run_list_at(const struct run_list *l, uint64_t host);
/* Into order; those that touch or overlap are joined. */
void run_list_sort(struct run_list *l);
/* Joins those that are separated by less than min_gap. */
void run_list_join(struct run_list *l, uint64_t min_gap);

struct run_thread {
	struct run_list list;
	/* While collecting: its guest may run since then, or the time of its last exit. */
	struct vcpu_turn turn;
	uint64_t since, gaps; /* gaps: how many there had been when it was seen last */
};

struct runs {
	struct run_thread *t;
	size_t tcap;
	struct u64map by_tid;	/* tid → index into t */
	struct u64map deadline; /* see runs_deadline() */
	size_t ndeadline;
	uint64_t total, min_gap;
};

/* Of all vCPU threads of the map. *out is freed with runs_free(). -errno with err. */
int runs_collect(struct hostmap *map, struct runs **out, struct kvmft_err *err) __must_check;
/* The runs of a thread; NULL if it has none. */
const struct run_list *runs_of(const struct runs *r, int32_t tid);
/*
 * When the host handled this thread's write of that value to IA32_TSC_DEADLINE; 0: it did not, or
 * more than once.
 */
uint64_t runs_deadline(const struct runs *r, int32_t tid, uint64_t value);
void runs_free(struct runs *r);

/*
 * Where the guest was, from those events of its host that say so (rip of kvm_exit,
 * kvm_entry, kvm_page_fault; vcpu_pc on arm64), and which function that is: see hostmap_vm.syms.
 */

/* The types of events that have it; zero is empty. */
struct guest_rips {
	struct guest_rip_type {
		const struct fmt_event *ev; /* NULL: none yet */
		bool has;
		struct fmt_field f;
	} type[64];
};

/* Whether the symbols of any VM are known. */
bool guest_rip_any(const struct hostmap *m);
/* The types of events that have a RIP, by format: whether there are any. */
bool guest_rip_has(struct guest_rips *g, const struct tl_item *i);
/*
 * The RIP in an event of a host. *k: the symbols of its VM. False: the event has none, its VM is
 * not known, or that VM has no symbols.
 */
bool guest_rip(struct guest_rips *g, const struct hostmap *m, const struct tl_item *i,
	       uint64_t *rip, const struct ksyms **k);

/*
 * Takes the symbols from VMs that enter guests of their own, since a RIP may be one of theirs;
 * found by a walk over the host's capture, if there are symbols at all. *n: the number of such VMs.
 * 0 or -errno.
 */
int guest_rip_drop_nested(struct hostmap *m, size_t *n) __must_check;

/*
 * The time from any event of a time line to any other.
 *
 * Which beginning belongs to an end is what the kernel's own synthetic events do
 * (Documentation/trace/histogram.rst, onmatch): the last one with the same key, and each is used
 * once; if there is one of the same side, that. Without a key it is the last one of the same thread
 * or, if that has none, the last one of the same VM, where one of the two that belongs to no VM
 * belongs to all. An event may be both: the end of one span, and the beginning of the next. Events
 * of two guests are never a span, and if one VM alone is asked for, events of other guests are none
 * of it: a guest is believed about itself alone.
 */

struct spans_opts {
	const char *from, *to; /* as for pick_add_event(); NULL: none are wanted */
	const char *key;       /* FIELD of both, or FIELD=FIELD (from's, to's); NULL: by thread */
};

struct span {
	uint64_t begin, end; /* host TSC */
	int64_t vm, vcpu;    /* of the first of the two that is a vCPU's; or a VM's; -1 */
	int32_t tid;	     /* that began it, */
	bool by_guest;	     /* ... in a guest */
	bool across;	     /* the other is of the other side */
	uint64_t types;	     /* the same for all between events of the same types */
	const char *from;    /* name of the event that began it */
	const char *comm;    /* ... and of its thread; both as long as the time line */
};

/* Begun; begun again before an end; ends that nothing began; cut by lost events; open. */
enum spans_count { SPANS_BEGUN, SPANS_AGAIN, SPANS_STRAY, SPANS_CUT, SPANS_OPEN, SPANS_COUNTS };

struct spans;

/* The time line and the options are borrowed. vm: the only one, or -1. -EINVAL: no such spec. */
int spans_new(const struct timeline *t, const struct spans_opts *o, int64_t vm, struct spans **out,
	      struct kvmft_err *err) __must_check;
/* Takes all items in order. True: this one ends a span. */
bool spans_feed(struct spans *s, const struct tl_item *i, struct span *out);
uint64_t spans_count(const struct spans *s, enum spans_count which);
/*
 * Why there is none, in b, as far as it can be told: an event that no capture has, a field that it
 * lacks. False: both were met.
 */
bool spans_unmet(const struct spans *s, struct sbuf *b);
void spans_free(struct spans *s);
