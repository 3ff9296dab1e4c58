/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lat_output.h: the results of latency analyses in the forms that are read. A new form is one file
 * in src/output and one line in lat_formats (src/output/lat_formats.c).
 */
#ifndef KVMFT_LAT_OUTPUT_H
#define KVMFT_LAT_OUTPUT_H

#include "kvmft/latency.h"
#include "kvmft/output.h"

/* The part of the time line that belongs to one of the worst cases. */
struct lat_story {
	char *text; /* lines */
	uint64_t left_out; /* lines of its middle */
};

/*
 * The alignment bound of a VM: how far stages that cross between host and guest may be off, in
 * their unit.
 */
struct lat_bound {
	bool guest; /* there is a capture of it */
	bool known; /* its events are all inside, and both ways something would be outside */
	uint64_t early, late;
	/* its offset was found in the events, and is known to so much either way; 0: it is known */
	uint64_t uncertain;
};

/* What is shown; all borrowed. */
struct lat_view {
	const struct lat *lat;
	const struct timeline *t;
	const struct out_clock *clock;
	const bool *want;		    /* by enum lat_kind, see lat_answers() */
	struct lat_story *story[LAT_TABLES]; /* by table, as many as worst cases; NULL: none */
	const struct lat_bound *bound;	    /* by VM */
	bool all;     /* text: all there is, not what fits a screen */
	size_t worst; /* ... how many of the worst are told then */
	bool color;   /* text may have colours */
	unsigned int width; /* of a terminal; 0 = it is none */
};

struct lat_format {
	const char *name; /* as in --format */
	const char *help;
	/* 0 or -errno */
	int (*print)(const struct lat_view *v, FILE *f);
	/* The results go, as JSON, with all events into a page: see out_html_latency(). */
	bool page;
};

extern const struct lat_format *const lat_formats[]; /* NULL-terminated; the first is the default */
const struct lat_format *lat_format_find(const char *name);

/* The name of a group's VM; "host" for -1. */
const char *lat_vm_label(const struct lat_view *v, int64_t vm);
/* How far this stage of a group may be off; NULL: it does not cross, or nobody knows. */
const struct lat_bound *lat_stage_bound(const struct lat_view *v, const struct lat_desc *d,
					const struct lat_group *g, unsigned int stage);
/*
 * How uncertain a stage is that crosses, 0: it is not. One with a median below that may as well
 * have taken no time.
 */
uint64_t lat_stage_uncertain(const struct lat_view *v, const struct lat_desc *d,
			     const struct lat_group *g, unsigned int stage);
/* "accepted 3; measured 2; ...": all that is not 0, and the first two. */
void lat_counts_text(const struct lat_table *t, struct sbuf *b);
/* "ns" or "cycles": what lengths of time are in. */
const char *lat_unit(const struct lat_view *v);
/* "12.3 us" or "4711 cycles". */
char *lat_amount(const struct lat_view *v, char *buf, size_t size, uint64_t time);
/* Cycles of the host in the unit. */
uint64_t lat_of_cycles(const struct lat_view *v, uint64_t cycles);

#endif
