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

#include "kvmft/hostmap.h"
#include "kvmft/qemu_trace.h"

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
	uint32_t renames;	      /* how often the walk changed a name that tl_comm() gives */
	int error;		      /* -errno of a failed read */
	uint64_t begin; /* host TSC of its first event; UINT64_MAX: none has a place */
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
