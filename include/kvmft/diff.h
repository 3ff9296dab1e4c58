/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * diff.h: what changed from one recording to another, and whether that may be chance.
 *
 * On each side everything is summed up by slices of time. How much these sums differ from slice to
 * slice is the noise, which a change must exceed. The numbers here measure what was counted;
 * no event is placed by them, so they are doubles.
 */
#pragma once

#include "kvmft/latency.h"
#include "kvmft/report.h"
#include "kvmft/util.h"

/* ---- the test (diff/boot.c) ---- */

/* One thing to compare. On each side it is a ratio of sums over slices: num / den. */
struct boot_row {
	struct boot_side {
		const double *num, *den; /* n of each, borrowed */
		size_t n;
		double least; /* its standard error is at least this */
	} side[2];
	/* found */
	double value[2]; /* num / den; 0 if den is 0 */
	double error;	 /* standard error of their difference */
	double critical; /* a greater difference is no chance, at the requested level */
	double surely; /* the difference is at least this, at the requested level; 0: there may
		        * be none */
	double chance; /* probability of one as great in any of the rows if nothing differs; 0 to
		        * 1 */
};

struct boot_opts {
	unsigned int rounds; /* 0: 2000 */
	uint64_t seed;	     /* 0: a fixed one */
	double level;	     /* probability of any false alarm; 0: 0.01 */
};

#define BOOT_BLOCKS 10 /* a side is drawn in this many runs of slices, if it has enough */

/*
 * Fills in what is found. Each side's slices are resampled in runs, with replacement; a change has
 * to exceed the greatest deviation among all rows, in units of the row's standard error, so more
 * rows do not make more false alarms. Sides have slices, of at most four different numbers.
 */
void boot_test(struct boot_row *row, size_t n, const struct boot_opts *o);

/* ---- sums by slices ---- */

#define DIFF_SLICES  128
#define DIFF_ENOUGH  40	      /* fewer are not enough */
#define DIFF_SLICE   5000000u /* ns; doubled as often as needed */
#define DIFF_BUCKETS (LOGHIST_BUCKETS / 4)
#define DIFF_KEYS    160 /* if there are more, they are merged */

struct diff_cell {
	uint64_t n, timed;
	double time;		      /* ns */
	double part[REPORT_PARTS];    /* of that, of exits */
	uint32_t count[DIFF_BUCKETS]; /* by time */
};

enum diff_kind { DIFF_EXITS, DIFF_TIME, DIFF_LATENCY };

struct diff_key {
	enum diff_kind kind;
	char name[80];
	const char *group; /* of DIFF_LATENCY: its table */
	bool events;	   /* they are counted on their own: a rate is meaningful */
	bool halts;	   /* its time is mostly spent off the CPU */
	enum lat_kind lat; /* of DIFF_LATENCY */
	uint64_t n;
	struct diff_cell *slice[DIFF_SLICES]; /* NULL: nothing */
	struct loghist *times;
};

/* Of one walk over one recording. Zero before the walk. */
struct diff_set {
	uint64_t length; /* ns, after diff_set_end() */
	uint64_t slice;	 /* ns */
	size_t n;	 /* slices */
	unsigned int shift;
	struct diff_key **key;
	size_t nkey, cap;
	struct u64map at;
	double guest[DIFF_SLICES], part[REPORT_PARTS][DIFF_SLICES]; /* ns */
	double ops[DIFF_SLICES]; /* operations, whatever the caller counts as one */
	double seconds[DIFF_SLICES], ns[DIFF_SLICES]; /* how long each is, after diff_set_end() */
};

/* The slice that stretch number n, of DIFF_SLICE ns, belongs to. */
size_t diff_set_slice(struct diff_set *s, uint64_t n);
/* The key with this number, made if there is none; *is_new: it needs a name. */
struct diff_key *diff_set_key(struct diff_set *s, uint64_t number, bool *is_new) __must_check;
/* Its sums in a slice, to be added to. */
struct diff_cell *diff_key_cell(struct diff_key *k, size_t slice) __must_check;
/* n samples took ns each. */
void diff_key_time(struct diff_key *k, struct diff_cell *c, uint64_t ns, uint32_t n);
void diff_set_end(struct diff_set *s, uint64_t length_ns);
void diff_set_free(struct diff_set *s);

/* ---- a side (diff/side.c) ---- */

struct diff_side {
	const char *path; /* borrowed, like cap */
	const struct capture *cap;
	const struct fmt *fmt;
	struct report *r; /* owned */
	struct report_filter filter;
	struct diff_set exits, latency;
	uint64_t samples, vcpus, vms, ops;
	uint64_t op_end;	 /* ns: where the last of ops ended */
	size_t more;		 /* recordings that were added to it */
	uint64_t grain;		 /* ns that its times may be off by */
	bool parts;		 /* it is known where the time of exits went */
	bool answers[LAT_KINDS]; /* which latencies are known */
	struct report_span span;
};

/* Counts exits, or events of cls. Needs the TSC's frequency if that is its clock. 0, -errno. */
int diff_exits(struct diff_side *s, const struct report_opts *o,
	       struct kvmft_err *err) __must_check;
/* For lat_opts.each, with the side as context: after diff_exits(), for a capture in TSC cycles. */
void diff_latency(void *side, enum lat_table_id id, const struct lat_case *c);
/* Ends the latencies reported by l. */
void diff_latency_end(struct diff_side *s, const struct lat *l);
/* An operation that ends at this host TSC, in their order: after diff_exits(). */
void diff_side_op(struct diff_side *s, uint64_t tsc);
/* A key for the sum of all keys of exits, with the name of the class's whole. */
void diff_side_total(struct diff_side *s, const char *name);
/* Another recording of the same side: its slices follow those of s, which keeps nothing of it. */
void diff_side_add(struct diff_side *s, struct diff_side *more);
void diff_side_free(struct diff_side *s);

/* ---- both (diff/rows.c) ---- */

enum diff_measure {
	DIFF_RATE,	/* per second */
	DIFF_PER_GUEST, /* per second of guest time */
	DIFF_PER_OP,	/* per operation */
	DIFF_MEAN,	/* ns */
	DIFF_P50,
	DIFF_P99,
	DIFF_SHARE, /* of a CPU: seconds per second */
	DIFF_PART,  /* the same of each enum report_part */
	DIFF_MEASURES = DIFF_PART + REPORT_PARTS
};
#define DIFF_PART_OF(part) ((enum diff_measure)((int)DIFF_PART + (int)(part)))
extern const char *const diff_kinds[], *const diff_measures[];

struct diff_row {
	enum diff_kind kind;
	enum diff_measure measure;
	char name[80];
	const char *group; /* rows about one thing: an exit reason, the time of vCPUs, a latency */
	double value[2];
	double effect; /* the change, as time: seconds per second */
	double surely; /* the part of the change that is beyond noise, as a share of it; 0 to 1 */
	double chance;
	double smallest; /* change that would have been told from chance, of value[0]; 0: unknown */
	bool differs; /* that is no chance */
	bool beyond;  /* noise by at least diff.least */
	bool implied; /* the same as in another row, by another measure */
	bool lead;    /* the first of its group */
};

/* A limit for one row, "exits/op > +5 %": the change is compared with it, not with no change. */
struct diff_gate {
	const char *text; /* borrowed: as it was given */
	enum diff_kind kind;
	enum diff_measure measure;
	char name[80]; /* of the row */
	bool less;     /* it fails below the limit */
	double limit;  /* 0.05: 5 % more than before */
	/* found */
	enum diff_verdict { DIFF_PASS, DIFF_FAIL, DIFF_CANNOT_TELL } verdict;
	const char *why; /* nothing could be compared; else NULL */
	double value[2];
	double error;  /* the change is known to this, as a share of value[0]; 0: unknown */
	double chance; /* of being off the limit by as much, if the change were exactly that */
};

/* text is borrowed. 0 or -EINVAL with err. */
int diff_gate_parse(struct diff_gate *g, const char *text, struct kvmft_err *err) __must_check;

struct diff_fact {
	char name[64];
	char *value[2]; /* NULL: not known */
};

struct diff {
	struct diff_side side[2]; /* before, after */
	struct boot_opts boot;
	bool cycles;  /* times are cycles, for want of a frequency, and a second is 10^9 */
	double least; /* smaller changes do not count: 0.1 is 10 % */
	/* found; in the order of diff_order() */
	struct diff_row *row;
	size_t n, row_cap, differ, beyond;
	double smallest; /* what half of the rows would have shown; 0: unknown */
	uint64_t enough_ns; /* a recording in which they would show `least`; 0: these, or unknown */
	uint64_t rare; /* rows with too few samples to be compared */
	struct diff_gate *gate; /* borrowed; judged by diff_compare() */
	size_t ngate;
	bool lossy; /* events were lost: no gate can be judged */
	bool misaligned; /* a guest is: nor can what its events say */
	struct diff_fact *fact;
	size_t nfact, fact_cap;
};

/* Whether both sides have enough slices. */
bool diff_can_tell(const struct diff *d);
void diff_compare(struct diff *d);
/* Orders the rows: beyond noise, causes before effects, the greatest first; then within noise. */
void diff_order(struct diff *d);
#define DIFF_SHARE_ERROR 0.001 /* shares of a CPU are known to no better than this */
/* How the machines differ, into d->fact. */
void diff_machines(struct diff *d);
void diff_free(struct diff *d);

/*
 * Tables of `perf kvm stat report` or `kvmft report` as text, or one beside a
 * recording.
 *
 * They hold sums alone: neither how long was recorded nor how times follow each other, so nothing
 * is judged. Their +- takes samples for independent, which is the least that noise can be.
 */

#define DIFF_TABLE_ROWS 4096u
#define DIFF_BLANKS	" \t\r"

struct diff_line {
	char name[64];
	struct {
		uint64_t n, mean; /* ns */
		double error;	  /* of mean; 0: not known */
		bool there, timed;
	} side[2];
};

struct diff_tables {
	char *text[2];
	const char *what[2];	/* the head, from its beginning; NULL: it is none */
	uint64_t told[2], n[2]; /* samples: of all as it says, 0: it does not; of its rows */
	uint64_t torn[2];	/* rows that cannot be read */
	bool lost[2];		/* events, as it says */
	bool more[2];		/* there are other tables behind it */
	bool screen[2];		/* of perf 6.4's browser: all times in ns, the mean last */
	bool exact[2];		/* of kvmft */
	bool cycles[2];		/* times are cycles, not ns */
	struct diff_line *line;
	size_t nline, cap;
};

/* Adds what a table says; text is changed, and t->what[side] then points into it. -E2BIG */
int diff_tables_read(struct diff_tables *t, int side, char *text) __must_check;
/* Adds a row: n samples, of *mean ns in the mean, NULL: not known; error: of that, %. -E2BIG */
int diff_tables_add(struct diff_tables *t, int side, const char *name, size_t len, uint64_t n,
		    const uint64_t *mean, double error) __must_check;
void diff_tables_sort(struct diff_tables *t); /* what changed most is first */

/* output/diff_out.c; format: text, csv or json. */
void diff_tables_print(const struct diff_tables *t, const char *format, struct sbuf *b);
