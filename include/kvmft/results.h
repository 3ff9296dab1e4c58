/* SPDX-License-Identifier: GPL-2.0-or-later */
/* results.h: what commands found, in readable formats. */
#pragma once

#include "kvmft/advise.h"
#include "kvmft/blame.h"
#include "kvmft/clockcheck.h"
#include "kvmft/diff.h"
#include "kvmft/latency.h"
#include "kvmft/output.h"
#include "kvmft/pairing.h"
#include "kvmft/report.h"
#include "kvmft/tracedat.h"

/* ---- a report: text, JSON, CSV, metrics ---- */

/* Which tables there are: one of all together, also one per VM, also one per vCPU. */
enum report_per { REPORT_PER_ALL, REPORT_PER_VM, REPORT_PER_VCPU };

/* All that is printed; everything is borrowed. */
struct report_doc {
	struct report *r;	     /* not changed */
	const struct capture *cap;   /* what it is of */
	const struct report_opts *opts;
	const char *pids;	     /* as the user gave them; NULL: all */
	struct report_filter filter; /* what was requested */
	enum report_per per;
	enum report_key key;	     /* by which each table is sorted */
	size_t top;		     /* rows of each table; 0 = all */
	uint64_t lost;		     /* events missing from the capture, by gaps and counters */
	bool lost_unknown;	     /* ... at least */
	FILE *f;
	bool color;	    /* text may have colours */
	unsigned int width; /* of a terminal; 0 = rows are not cut */
	const char *const *remark;   /* what the command has to say in addition to report_note() */
	size_t nremark;
};

enum report_format { REPORT_TEXT, REPORT_JSON, REPORT_CSV, REPORT_OPENMETRICS };
/* Whether it has a place for the notes; otherwise the command prints them. */
static inline bool report_has_notes(enum report_format f)
{
	return f <= REPORT_JSON;
}
/* Prints it into d->f. 0, -ENOMEM, or -errno of a write: then d->f has its error set. */
int report_print(const struct report_doc *d, enum report_format format) __must_check;
/*
 * Prints rows by stack, at most top (0: all), in one of cli_formats: "text", "json" or "csv"; there
 * must be a stack. 0 or -errno.
 */
int by_stack_print(struct by_stack *b, const struct capture *cap, size_t top, const char *format,
		   FILE *f) __must_check;
/* Was anything counted of what f asks for? */
bool report_has_samples(const struct report *r, const struct report_filter *f);

/* ---- latency analyses: a new format is a line in lat_formats (output/lat_formats.c) ---- */

/* The part of the time line that belongs to one of the worst cases. */
struct lat_story {
	char *text; /* lines */
	uint64_t left_out; /* lines of its middle */
};

/*
 * The alignment bound of a VM: how far off stages that cross between host and guest may be, in
 * their unit.
 */
struct lat_bound {
	bool guest; /* there is a capture of it */
	bool known; /* its events are all inside, and the bound is known both ways */
	uint64_t early, late;
	/*
	 * its offset was found in the events, and is uncertain by this much either way; 0: it is
	 * known
	 */
	uint64_t uncertain;
};

/* What is printed; all borrowed. */
struct lat_view {
	const struct lat *lat;
	const struct timeline *t;
	const struct out_clock *clock;
	const bool *want;		    /* by enum lat_kind, see lat_answers() */
	struct lat_story *story[LAT_TABLES]; /* by table, as many as worst cases; NULL: none */
	const struct lat_bound *bound;	    /* by VM */
	bool all;     /* text: everything, not just what fits a screen */
	size_t worst; /* ... how many of the worst are printed then */
	bool color;   /* text may have colours */
	unsigned int width; /* of a terminal; 0 = not a terminal */
};

struct lat_format {
	const char *name; /* as in --format */
	/* 0 or -errno */
	int (*print)(const struct lat_view *v, FILE *f);
	/* The results become, as JSON, part of a page with all events: see out_html_latency(). */
	bool page;
};

int lat_text_print(const struct lat_view *v, FILE *f);
const struct lat_format *lat_format_find(const char *name);
const char *lat_format_name(size_t i); /* of the i-th; NULL past the last */

/* The name of a group's VM; "host" for -1. */
const char *lat_vm_label(const struct lat_view *v, int64_t vm);
/* How far off this stage of a group may be; NULL: it does not cross, or that is unknown. */
const struct lat_bound *lat_stage_bound(const struct lat_view *v, const struct lat_desc *d,
					const struct lat_group *g, unsigned int stage);
/*
 * How uncertain a stage that crosses is, 0: not at all. If its median is below that, it may have
 * taken no time.
 */
uint64_t lat_stage_uncertain(const struct lat_view *v, const struct lat_desc *d,
			     const struct lat_group *g, unsigned int stage);
/* Whether half of it is shorter than that: it may have taken no time at all. */
bool lat_is_uncertain(const struct lat_view *v, const struct lat_table *t,
		      const struct lat_group *g, unsigned int stage);
/* "accepted 3; measured 2; ...": whatever is not 0, and always the first two. */
void lat_counts_text(const struct lat_table *t, struct sbuf *b);
/* "ns" or "cycles": the unit of lengths of time. */
const char *lat_unit(const struct lat_view *v);
/* Its text; NULL: none. */
void lat_put_story(struct sbuf *b, const struct lat_story *story);
/* "12.3 us" or "4711 cycles". */
char *lat_amount(const struct lat_view *v, char *buf, size_t size, uint64_t time);
/* Host cycles in that unit. */
uint64_t lat_of_cycles(const struct lat_view *v, uint64_t cycles);

/* ---- spikes and their causes ---- */

enum blame_by { BLAME_BY_LENGTH, BLAME_BY_TIME, BLAME_BY_CAUSE, BLAME_BY_TASK, BLAME_BY_VCPU };

/* What is printed; all borrowed. */
struct blame_view {
	const struct blame *blame;
	const struct timeline *t;
	const struct out_clock *clock;
	const struct lat_bound *bound;	/* by VM */
	const struct lat_story *story;	/* by spike; NULL: none */
	enum blame_by by;
	bool at; /* the nearest to a moment, not the longest */
	bool color;
	unsigned int width; /* of a terminal; 0 = not a terminal */
};

extern const char *const blame_bys[]; /* by enum blame_by, NULL-terminated */

/* In one of cli_formats. 0 or -errno. */
int blame_print(const struct blame_view *v, const char *format, FILE *f) __must_check;

/* ---- what differs between two recordings ---- */

/* All that is printed; everything is borrowed. */
struct diff_doc {
	const struct diff *d;
	const char *what; /* name of the class of exits */
	size_t top;	  /* rows; 0 = all */
	bool all;	  /* text and CSV: also rows within noise; JSON always has all */
	bool color;	  /* text may have colours */
	unsigned int width; /* of a terminal: sentences are wrapped; 0 = they are not */
	const char *const *remark;
	size_t nremark;
};

/* What was found of a gate, as a line without its end. */
void diff_gate_text(const struct diff *d, const struct diff_gate *g, struct sbuf *b);
/*
 * In one of cli_formats, or "junit": a test for each gate. Only text and JSON have a place for
 * remarks. 0, -ENOMEM, or -errno of a write.
 */
int diff_print(const struct diff_doc *d, const char *format, FILE *f) __must_check;

/* ---- whether clocks are right ---- */

/* width: of the terminal that a text is for; 0: none. */
void clockcheck_text(const struct clockcheck *c, unsigned int width, struct sbuf *b);
void clockcheck_json(const struct clockcheck *c, unsigned int width, struct sbuf *b);
/* A line of a finding, or of the verdict: NULL. As text, or JSON. */
void clockcheck_line(const struct clockcheck *c, const struct clock_vm *vm,
		     const struct clock_seen *s, bool json, struct sbuf *b);
void clockcheck_metrics(const struct clockcheck *c, unsigned int width, struct sbuf *b);

/* ---- settings that cost something ---- */

/* What is printed; least: in thousandths of a CPU, or of the time. */
struct advise_view {
	const struct advise *a; /* borrowed, finished */
	uint64_t least;
};
void advise_text(const struct advise_view *w, unsigned int width, struct sbuf *b);
void advise_json(const struct advise_view *w, unsigned int width, struct sbuf *b);
/* What a change saved, of what it was foretold to: "rule: ...". The first VM that is shown. */
bool advise_shown(const struct advise_view *w, size_t vm);
enum advise_kept { ADVISE_AS_FORETOLD, ADVISE_OTHERWISE, ADVISE_CANNOT_TELL };
enum advise_kept advise_predicted(const struct advise_view w[2], const size_t vm[2], enum advice is,
				  struct sbuf *b);
void advise_metrics(const struct advise_view *w, unsigned int width, struct sbuf *b);

/* ---- captures as trace.dat ---- */

struct export_config {
	struct outfile *out;
	const char *output;   /* its name, for messages */
	const char *instance; /* for the buffer that has no name; NULL: it is the top one */
	uint64_t subbuf;      /* bytes of a sub-buffer; 0: as in the capture */
	bool time_shift;      /* stamps of guests stay, with the option TIME_SHIFT */
};

/* tracedat.c: a trace.dat of p's capture, and one of each guest, named after it. */
int export_dat(struct pairing *p, const struct export_config *o, struct kvmft_err *err);
