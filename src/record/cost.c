/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cost.c: what the recording cost: events and bytes of an exit, by a part of the capture, and how
 * long the ring took for an event. That is at most the shortest of the calls that wrote the markers
 * of record_clocks_begin(), before the first event.
 */
#include "record.h"

#include "kvmft/ring.h"

#define SAMPLE 64u /* sub-buffers of each CPU */

struct cost_sample {
	uint64_t events, exits, bytes;
};

/* Of the last segment. */
static void sample_segment(const struct record *r, uint64_t exit_id, struct cost_sample *s)
{
	const struct subbuf_geom g = subbuf_geom_here(r->store.subbuf);
	const size_t size = r->store.subbuf;
	_cleanup_free_ uint8_t *buf = malloc(size);

	for (size_t i = 0; buf && i < r->ncpu; i++) {
		_cleanup_close_ int fd = capw_data_reopen(r->w, r->store.segment, r->drain[i].cpu);
		struct stat st;
		uint64_t n = fd >= 0 && !fstat(fd, &st) ? (uint64_t)st.st_size / size : 0;

		for (uint64_t k = 0, most = MIN(n, SAMPLE); k < most; k++) {
			struct rec rec = { 0 };
			struct subbuf sb;

			if (full_pread(fd, buf, size, n * k / most * size) != (ssize_t)size ||
			    subbuf_begin(&sb, buf, &g))
				continue;
			s->bytes += (uint64_t)(sb.end - sb.p);
			while (subbuf_next(&sb, &rec) > 0) {
				s->events++;
				s->exits += rec.id == exit_id;
			}
		}
	}
}

void record_cost_note(const struct record *r)
{
	const uint64_t width = r->clocks[0].width;
	_cleanup_free_ char *text = NULL;
	struct cost_sample s = { 0 };
	uint64_t id, ns, share;
	const char *all;

	if (r->out.stream || kinst_read(r->k, "events/kvm/kvm_exit/id", 32, &text) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	if (parse_u64(text, &id))
		return;
	sample_segment(r, id, &s);
	ns = width == UINT64_MAX || !r->tsc.khz ? 0 : width * 1000000 / r->tsc.khz;
	/* In all, of the time of one CPU, in thousandths; a flight recorder kept a part. */
	share = ns && r->cycles && !r->c->flight ? width * r->stored / (r->cycles / 1000 + 1) : 0;
	all = share ? TEXTF("in all %llu.%llu %% of a CPU", (unsigned long long)share / 10,
			    (unsigned long long)share % 10) : NULL;
	if (s.exits)
		r->note("an exit took %llu.%llu events and %llu bytes%s (of %llu recorded exits)%s%s",
			(unsigned long long)(s.events / s.exits),
			(unsigned long long)(s.events * 10 / s.exits % 10),
			(unsigned long long)(s.bytes / s.exits),
			ns ? TEXTF(", and this ring at most %llu ns for each event: %llu.%llu us",
				   (unsigned long long)ns,
				   (unsigned long long)(ns * s.events / s.exits / 1000),
				   (unsigned long long)(ns * s.events / s.exits / 100 % 10)) : "",
			(unsigned long long)s.exits, all ? "; " : "", all ?: "");
	else if (all)
		r->note("this ring took at most %llu ns for each event: %s", (unsigned long long)ns, all);
}
