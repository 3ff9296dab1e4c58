/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lat_output.h: the results of latency analyses in readable formats. A new format is one file in
 * src/output and one line in lat_formats (src/output/lat_formats.c).
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
	const char *help;
	/* 0 or -errno */
	int (*print)(const struct lat_view *v, FILE *f);
	/* The results become, as JSON, part of a page with all events: see out_html_latency(). */
	bool page;
};

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

#endif
