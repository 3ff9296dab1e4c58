/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracedat_facts.c: the options of a trace.dat that carry facts, from a capture. */
#include "tracedat_write.h"

#include <ctype.h>
#include <inttypes.h>

static int text_option(struct tdw *w, enum td_opt id, const char *text)
{
	return tdw_option(w, id, text, strlen(text) + 1);
}

/* As long as any. */
static void counts(char *to, size_t size, uint64_t dropped, uint64_t read)
{
	snprintf(to, size, "dropped events: %020" PRIu64 "\nread events: %020" PRIu64 "\n", dropped,
		 read);
}

/*
 * As the kernel's per_cpu/cpuN/stats, of a ring from which exactly what is in this file was read. A
 * capture also has the counters at its beginning. What a flight recorder overwrote is no loss; what
 * its sub-buffers say was lost, they say here as well.
 */
static int cpustat(struct tdw *w, size_t i)
{
	const struct cap_cpu *cpu = &w->spec->cap->cpu[i];
	const struct cap_cpustat *e = &cpu->end, none = { 0 };
	const struct cap_cpustat *b = cpu->begin.valid ? &cpu->begin : &none;
	bool whole = !w->spec->part;
	char text[512], end[96];

	snprintf(text, sizeof(text),
		 "CPU: %u\nentries: 0\noverrun: %" PRIu64 "\ncommit overrun: %" PRIu64 "\n",
		 cpu->cpu, whole && !w->spec->cap->flight ? e->overrun - b->overrun : 0,
		 whole ? e->commit_overrun - b->commit_overrun : 0);
	w->stats_at[i] = w->options.len + 6 + strlen(text);
	counts(end, sizeof(end), 0, 0);
	strcat(text, end);
	return text_option(w, TD_CPUSTAT, text);
}

int tdw_facts_end(struct tdw *w)
{
	const struct capture *c = w->spec->cap;
	int ret = 0;

	for (size_t i = 0; i < c->ncpu && w->events && !ret; i++) {
		const struct cap_cpustat *e = &c->cpu[i].end, *b = &c->cpu[i].begin;
		uint64_t dropped = e->dropped - (b->valid ? b->dropped : 0), n = w->events[i];
		uint64_t taken = e->read - (b->valid ? b->read : 0) + (c->flight ? 0 : e->entries);
		char text[96];

		if (!w->stats_at[i])
			continue;
		dropped += c->trimmed || taken < n ? 0 : taken - n; /* left, or lost on the way */
		counts(text, sizeof(text), w->spec->part ? 0 : dropped, n);
		ret = tdw_patch_options(w, w->stats_at[i], text);
	}
	return ret;
}

int tdw_facts(struct tdw *w, const struct tdw_spec *s)
{
	const struct capture *c = s->cap;
	char text[64];
	int ret;

	w->stats_at = calloc(c->ncpu + 1, sizeof(*w->stats_at));
	w->events = calloc(c->ncpu + 1, sizeof(*w->events));
	ret = w->stats_at && w->events ? 0 : -ENOMEM;
	for (size_t i = 0; i < c->ncpu && !ret; i++)
		if (c->cpu[i].end.valid)
			ret = cpustat(w, i);
	if (!ret && c->uname)
		ret = text_option(w, TD_UNAME, c->uname);
	if (!ret && c->some_switches)
		ret = text_option(w, TD_VERSION, "kvmft " KVMFT_VERSION TD_SOME);
	else if (!ret)
		ret = text_option(w, TD_VERSION, "kvmft " KVMFT_VERSION);
	if (!ret && c->ts_add) {
		snprintf(text, sizeof(text), "%" PRId64, c->ts_add);
		ret = text_option(w, TD_OFFSET, text);
	}
	return ret;
}

/* ---- ids ---- */

/* Ids are compared with those made by other processes: they are made without a key. */
static uint64_t id_add(uint64_t id, const void *p, size_t n)
{
	const struct hash_key before = { { id } };

	return hash_bytes(&before, p, n);
}

uint64_t tdw_trace_id_of_uuid(const char *uuid)
{
	char low[64];
	size_t n;

	for (n = 0; n < sizeof(low) && uuid[n]; n++)
		low[n] = (char)tolower((unsigned char)uuid[n]);
	return id_add(0, low, n) | 1;
}

/*
 * A guest is identified by its UUID, so that the id in its own file matches the one in its host's
 * file even if the two were written separately; a host by when and where it recorded.
 */
uint64_t tdw_trace_id(const struct capture *c)
{
	uint64_t h = 0;

	if (c->trace_id)
		return c->trace_id;
	if (c->side == CAP_SIDE_GUEST && c->uuid)
		return tdw_trace_id_of_uuid(c->uuid);
	if (c->uname)
		h = id_add(h, c->uname, strlen(c->uname));
	if (c->uuid)
		h = id_add(h, c->uuid, strlen(c->uuid));
	h = id_add(h, &c->begin_tsc, sizeof(c->begin_tsc));
	h = id_add(h, &c->end_tsc, sizeof(c->end_tsc));
	if (c->nbracket)
		h = id_add(h, &c->bracket[0].real, sizeof(c->bracket[0].real));
	return h | 1; /* 0 means none */
}

int tdw_id_option(struct tdw *w, uint64_t id)
{
	struct sbuf b = { 0 };

	tdw_put_u64(&b, id);
	return tdw_option_sbuf(w, TD_TRACEID, &b);
}

/* ---- clocks and guests ---- */

/*
 * The most exact mult that fits into 31 bits, because libtracecmd has it in an int. Off by less
 * than 2^-31.
 */
bool tdw_tsc2nsec(uint64_t khz, uint32_t *mult, uint32_t *shift)
{
	for (uint32_t s = 32; khz && s; s--) {
		unsigned __int128 m = (((unsigned __int128)1000000 << s) + khz / 2) / khz;

		if (m && m <= INT32_MAX) {
			*mult = (uint32_t)m;
			*shift = s;
			return true;
		}
	}
	return false;
}

int tdw_tsc2nsec_option(struct tdw *w, uint32_t mult, uint32_t shift)
{
	struct sbuf b = { 0 };

	tdw_put_u32(&b, mult);
	tdw_put_u32(&b, shift);
	tdw_put_u64(&b, 0); /* an offset that readers ignore */
	return tdw_option_sbuf(w, TD_TSC2NSEC, &b);
}

int tdw_guest_option(struct tdw *w, const char *name, uint64_t id, const int32_t *tid, uint32_t n)
{
	struct sbuf b = { 0 };

	sbuf_add_mem(&b, name, strlen(name) + 1);
	tdw_put_u64(&b, id);
	tdw_put_u32(&b, n);
	for (uint32_t i = 0; i < n; i++) {
		tdw_put_u32(&b, i);
		tdw_put_u32(&b, (uint32_t)tid[i]);
	}
	return tdw_option_sbuf(w, TD_GUEST, &b);
}

/* Layout since trace-cmd 3.0: see opt_time_shift() in tracedat_opts.c. */
int tdw_time_shift_option(struct tdw *w, uint64_t peer, uint64_t flags,
			  const struct cap_shift *shift, uint32_t n)
{
	struct sbuf b = { 0 };

	tdw_put_u64(&b, peer);
	tdw_put_u32(&b, (uint32_t)flags);
	tdw_put_u32(&b, n);
	for (uint32_t i = 0; i < n; i++) {
		tdw_put_u32(&b, (uint32_t)shift[i].nsample);
		for (size_t k = 0; k < shift[i].nsample; k++)
			tdw_put_u64(&b, (uint64_t)shift[i].sample[k].time);
		for (size_t k = 0; k < shift[i].nsample; k++)
			tdw_put_u64(&b, (uint64_t)shift[i].sample[k].offset);
		for (size_t k = 0; k < shift[i].nsample; k++)
			tdw_put_u64(&b, (uint64_t)shift[i].sample[k].scaling);
	}
	for (uint32_t i = 0; i < n; i++) /* after all others, one for each sample */
		for (size_t k = 0; k < shift[i].nsample; k++)
			tdw_put_u64(&b, (uint64_t)shift[i].frac);
	return tdw_option_sbuf(w, TD_TIME_SHIFT, &b);
}
