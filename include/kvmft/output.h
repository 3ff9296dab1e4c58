/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * output.h: timelines in readable formats. An output is a table of callbacks; a new one is one file
 * in src/output and one line in out_formats (src/output/formats.c).
 */
#pragma once

#include "kvmft/timeline.h"

/* ---- the clock in which all rows are shown ---- */

enum out_clock_kind {
	OUT_CLOCK_HOST_TSC, OUT_CLOCK_GUEST_TSC, OUT_CLOCK_KVMCLOCK, OUT_CLOCK_NS,
	/* the host's clocks that its capture read together with the TSC */
	OUT_CLOCK_MONO_RAW, OUT_CLOCK_MONO, OUT_CLOCK_BOOT, OUT_CLOCK_REALTIME,
};
extern const char *const out_clock_names[]; /* by enum out_clock_kind, NULL-terminated */

struct out_clock {
	enum out_clock_kind kind;
	const struct hostmap *map;
	size_t vm;     /* whose guest-tsc or kvmclock */
	uint64_t base; /* ns: host TSC of second 0 */
	uint64_t khz;  /* ns: of the host's TSC */
	struct cyc2ns line; /* ns: by what the file says of them, unless mult is 0 */
	/* which is not known: cycles, or ns of 1 cycle each in a format without cycles */
	bool no_rate;
	bool moved; /* there are captures of other hosts, which go on */
	const struct clock_pieces *pieces; /* mono_raw and the like: borrowed */
	/* realtime on the hosts that the VM moved to, in that order */
	const struct out_clock_later {
		const struct migrate *link;
		const struct clock_pieces *pieces;
	} *later;
	size_t nlater;
};

/*
 * The value of host TSC `host` in the clock: cycles or ns by kind. vcpu: whose epochs to use, -1
 * for the VM's first. False if there is none (no epoch, no pvclock record).
 */
bool out_clock_value(const struct out_clock *c, uint64_t host, int64_t vcpu, uint64_t *v);
/* As text: cycles, or seconds with 6 or 9 digits behind the point, of realtime a date. */
bool out_clock_put(const struct out_clock *c, uint64_t host, int64_t vcpu, int digits,
		   struct sbuf *b);
/* Whether that is because the VM did not exist yet: its TSC would be below 0. */
bool out_clock_before_vm(const struct out_clock *c, uint64_t host, int64_t vcpu);
/* The reverse: the first host TSC at which the clock shows v or more; false: there is none. */
bool out_clock_host(const struct out_clock *c, uint64_t v, uint64_t *host);
/* The unit of its values: "cycles" or "ns". */
const char *out_clock_unit(const struct out_clock *c);

/* Members: tsc_khz, its source, tsc_khz_min and tsc_khz_max (bounds); null if not known. */
struct json;
void out_json_rate(struct json *j, const struct capture *host);
/* What is to be said about times: that they are cycles, or how well known. False: nothing. */
bool out_rate_remark(const struct capture *host, const char *cycles, struct sbuf *b);
bool out_clock_remark(const struct out_clock *c, struct sbuf *b);

/* ---- outputs ---- */

struct out;

/* A vCPU's clock from `host` on: see struct epoch. */
struct out_epoch {
	uint64_t host; /* TSC, cycles */
	struct tl_source *src; /* the guest; the host, of VMs without a guest's capture */
	size_t vm; /* index into the host map */
	uint32_t vcpu;
	const struct epoch *e;
	bool first; /* nothing is known about the time before it */
};

/* What a walk over host and guest found out about the guest's clock. */
struct out_alignment {
	struct tl_source *src; /* the guest */
	const char *text;
	uint64_t checked, outside; /* events */
	/* All events of the guest would be inside if they were this much earlier, or later. */
	bool bounded;
	int64_t early_ns, late_ns;
};

struct out_format {
	const char *name; /* as in --format */
	bool binary;  /* not for a terminal */
	bool only_ns; /* cannot show cycles */
	const char *no_place; /* which events out->left_out counts, and why */
	/* All add to o->line, whose error is theirs. */
	void (*begin)(struct out *o);
	void (*item)(struct out *o, const struct tl_item *item);
	/* Between the items, in time order; may be NULL. */
	void (*epoch)(struct out *o, const struct out_epoch *epoch);
	/* In place of o->epoch[0..n-1], from before tl_from(); NULL: like the others. */
	void (*epochs_before)(struct out *o, size_t n);
	/* Before the end; NULL: the format has no place for it. */
	void (*alignment)(struct out *o, const struct out_alignment *a);
	void (*end)(struct out *o);
};

struct out {
	const struct out_format *fmt;
	FILE *f;
	struct out_clock clock;
	const struct timeline *t;
	struct sbuf line;
	bool color; /* of text; may be set after out_begin() */
	bool longer; /* likewise, text and JSON: lines also have the context of an event and ... */
	const struct out_clock *day; /* ... the time of day, NULL: unknown */
	bool goes_on; /* likewise: out_resume() will follow; it sets it, too */
	bool resumed;
	struct out_epoch *epoch; /* of all vCPUs, by time */
	size_t nepoch, epoch_cap, epoch_at;
	/* At its end, for out_resume(): those before were shown; what a format keeps. */
	uint64_t epochs_from, kept[5];
	struct guest_rips *rips; /* NULL: no symbols of guests are known */
	/* likewise, folded: of exits, with the guest's function and the reason; weighted by time */
	enum { FOLD_STACKS, FOLD_EXITS, FOLD_EXIT_TIME } fold;
	uint64_t left_out; /* events, also after out_end() */
	void *priv; /* the format's own */
};

/* The item's time in the clock of the output; false when there is none. */
bool out_item_time(const struct out *o, const struct tl_item *i, uint64_t *v);

extern const struct out_format *const out_formats[]; /* NULL-terminated; the first is the default */
const struct out_format *out_format_find(const char *name);
const char *out_format_name(size_t i); /* of the i-th; NULL past the last */
/*
 * *format, if it is NULL: what the end of a file's name (.html, .json, .pftrace, .db ...) asks
 * for, of those that name() lists. -EINVAL with err: it is none of them, or not the one given.
 */
int out_format_of(const char *path, const char *(*name)(size_t i), const char **format,
		  struct kvmft_err *err) __must_check;

/* Errors, of writes too, last. out_end() frees o in any case; -ENOMSG: there was none to show. */
void out_begin(struct out *o, const struct timeline *t, const struct out_format *fmt,
	       const struct out_clock *clock, FILE *f);
/* After out_end(): goes on with another time line of the same captures, see tl_inherit(). */
void out_resume(struct out *o, const struct timeline *t, const struct out_clock *clock);
int out_item(void *out, const struct tl_item *item) __must_check;
/* Marks the place in a text where items are left out. */
void out_left_out(struct out *o);
int out_end(struct out *o) __must_check;
void out_flush(struct out *o); /* for formats with a long end: writes o->line out */

/* Colours for b->s[from..], a line: `label` bytes by its side, the word at `head` by its event. */
void out_paint(struct sbuf *b, size_t from, size_t label, size_t head, size_t side);

/* Between out_begin() and out_end() of html, as JSON: latency results; spikes. NULL: none. */
void out_html_latency(struct out *o, const char *json);
void out_html_spikes(struct out *o, const char *json);
/* The same with a Perfetto format: n spikes that were explained. */
struct blame_spike;
void out_perfetto_spikes(struct out *o, const struct blame_spike *spikes, size_t n);
