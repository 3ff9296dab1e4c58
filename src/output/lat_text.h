/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lat_text.h: latency results as text: lat_text.c shows all of them, lat_short.c what fits a
 * screen.
 */
#ifndef KVMFT_OUTPUT_LAT_TEXT_H
#define KVMFT_OUTPUT_LAT_TEXT_H

#include "kvmft/lat_output.h"

bool lat_several_vms(const struct lat_table *t);
/* Whether the median of a stage is not much longer than the alignment may be off. */
bool lat_is_off(const struct lat_view *v, const struct lat_table *t, const struct lat_group *g,
		unsigned int stage);
/* The part of the time line that belongs to a worst case; NULL: none. */
void lat_put_story(struct sbuf *b, const struct lat_story *story);

/* The largest groups, up to `rows` of them, and the worst cases, up to `worst`. */
void lat_short(struct sbuf *b, const struct lat_view *v, enum lat_table_id id, size_t rows,
	       size_t worst);

#endif
