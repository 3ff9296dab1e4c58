/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lat_output.h: the results of latency analyses in the forms that are read. A new form is one file in
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

/* The alignment bound of a VM: how far stages that cross between host and guest may be off. */
struct lat_bound {
	bool guest; /* there is a capture of it */
	bool known; /* its events are all inside, and both ways something would be outside */
	uint64_t early_ns, late_ns;
};

/* What is shown; all borrowed. */
struct lat_view {
	const struct lat *lat;
	const struct timeline *t;
	const struct out_clock *clock;
	const bool *want;		    /* by enum lat_kind, see lat_answers() */
	struct lat_story *story[LAT_TABLES]; /* by table, as many as worst cases; NULL: none */
	const struct lat_bound *bound;	    /* by VM */
};

struct lat_format {
	const char *name; /* as in --format */
	const char *help;
	/* 0 or -errno */
	int (*print)(const struct lat_view *v, FILE *f);
	/* The results go, as JSON, with all events into a page: see out_html_attach(). */
	bool page;
};

extern const struct lat_format *const lat_formats[]; /* NULL-terminated; the first is the default */
const struct lat_format *lat_format_find(const char *name);

/* Which analysis a table belongs to. */
enum lat_kind lat_table_kind(enum lat_table_id id);
/* The name of a group's VM; "host" for -1. */
const char *lat_vm_label(const struct lat_view *v, int64_t vm);
/* How far this stage of a group may be off; NULL: it does not cross, or nobody knows. */
const struct lat_bound *lat_stage_bound(const struct lat_view *v, const struct lat_desc *d,
					const struct lat_group *g, unsigned int stage);

#endif
