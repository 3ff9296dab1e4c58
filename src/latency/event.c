/* SPDX-License-Identifier: GPL-2.0-or-later */
/* event.c: the time from any event to any other, as the options name them. */
#include "priv.h"

/* The second is for times between both sides, which are off by the alignment. */
#define DESC(across)                                                                        \
	{                                                                                   \
		.name = "event", .kind = LAT_EVENT,                                         \
		.title = "how long it took from one event to the other", .key = "Events",   \
		.stage = { "total" }, .stage_help = { "from --from-event to --to-event" },  \
		.crosses = (across), .cause = (const char *const[LAT_CAUSES]){ "" },        \
		.count = { "begun", "again: begun again before their end",                  \
			   "no_begin: ends without a beginning", "cut: cut by lost events", \
			   "open: open at the end" },                                       \
	}
const struct lat_desc lat_desc_event[2] = { DESC(0), DESC(1) };

void lat_event_feed(struct lat *l, const struct tl_item *i)
{
	struct lat_case k = { 0 };
	struct lat_group *g;
	const char *side;
	struct span s;

	if (!spans_feed(l->spans, i, &s) || !lat_wanted(l, s.vm, s.vcpu))
		return;
	k.vm = s.vm;
	k.vcpu = s.vcpu;
	k.begin = s.begin;
	k.end = s.end;
	k.time = lat_span(l, s.end - s.begin);
	lat_stage(&k, 0, k.time);
	if (s.across)
		l->table[LAT_T_EVENT].desc = &lat_desc_event[1];
	g = lat_group_get(l, LAT_T_EVENT, s.vm, s.types, &k.group);
	side = s.across || l->alone ? "" : s.by_guest ? "guest: " : "host: ";
	snprintf(g->name, sizeof(g->name), "%s%.*s to %.*s", side, LAT_NAME / 2 - 6, s.from,
		 LAT_NAME / 2 - 6, fmt_name(i->ev));
	snprintf(k.what, sizeof(k.what), "%.40s-%d", s.comm, s.tid);
	lat_case_add(l, LAT_T_EVENT, g, &k);
}

void lat_event_finish(struct lat *l)
{
	_cleanup_(sbuf_free) struct sbuf why = { 0 };
	struct lat_table *t = &l->table[LAT_T_EVENT];

	if (!l->spans)
		return;
	for (unsigned int c = 0; c < SPANS_COUNTS; c++)
		t->count[c] = spans_count(l->spans, c);
	if (!t->ngroup && spans_unmet(l->spans, &why)) {
		lat_note_add(l, why.s);
		l->left_out[LAT_EVENT] = l->note[l->nnote - 1];
	}
}
