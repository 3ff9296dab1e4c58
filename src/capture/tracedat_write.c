/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat_write.c: writing a trace.dat of version 6, which every reader knows; its parts are
 * described in tracedat_read.c.
 *
 * Two things are documented nowhere: the clock follows a CPU table exactly if option TRACECLOCK
 * exists, so both always do; and sub-buffers begin at multiples of their size, at least of a page,
 * because readers map them.
 */
#include "kvmft/tracedat.h"

#include <ctype.h>

#include "reader.h"

#define tdw_put_u16(b, v) sbuf_add_mem(b, &(const uint16_t){ v }, sizeof(uint16_t))
#define tdw_put_u32(b, v) sbuf_add_mem(b, &(const uint32_t){ v }, sizeof(uint32_t))
#define tdw_put_u64(b, v) sbuf_add_mem(b, &(const uint64_t){ v }, sizeof(uint64_t))

struct tdw {
	const struct tdw_spec *spec;
	int fd, error;	     /* the first one */
	struct sbuf out;     /* not written yet */
	uint64_t done;	     /* bytes in the file */
	struct sbuf options; /* until their place in the file comes */
	uint64_t options_at; /* in the file */
	/* per CPU of spec->cap: where its counts of dropped and read events are in the options */
	size_t *stats_at;
	uint64_t *events; /* ... and what was written of it */

	size_t buffer;	    /* 0 = none yet, 1 = top, 2 = first instance */
	uint32_t cpus, cpu; /* of the buffer; the current one */
	uint64_t cpu_at;    /* where its data begins, 0: there is none */

	uint64_t table_at;   /* the CPU table of this buffer */
	uint64_t *offset_at; /* where the offsets of instances go */
};

/* ---- the metadata blocks of a trace.dat, from a capture ---- */

static void put_text64(struct sbuf *b, const char *text, size_t n)
{
	tdw_put_u64(b, n);
	sbuf_add_mem(b, text, n);
}

static bool is_ftrace(const struct cap_format *f)
{
	return !strcmp(f->sys, "ftrace");
}

/* By system; within one as recorded: both are arrays of pointers into the same array. */
COMPARE(format_cmp, const struct cap_format *, strcmp((*x)->sys, (*y)->sys) ?: ORDER(*x, *y));

static void put_formats(const struct tdw_spec *s, struct sbuf *b)
{
	const struct capture *c = s->cap;
	_cleanup_free_ const struct cap_format **f = xcalloc(c->nformat + 1, sizeof(*f));
	uint32_t systems = 0, count;
	size_t n = 0, k;

	for (size_t i = 0; i < c->nformat; i++)
		if (!is_ftrace(&c->format[i]))
			f[n++] = &c->format[i];
	array_sort(f, n, format_cmp);
	for (size_t i = 0; i < n; i++)
		systems += !i || strcmp(f[i]->sys, f[i - 1]->sys);
	tdw_put_u32(b, systems);
	for (size_t i = 0; i < n; i = k) {
		for (k = i, count = 0; k < n && !strcmp(f[k]->sys, f[i]->sys); k++)
			count++;
		sbuf_add_mem(b, f[i]->sys, strlen(f[i]->sys) + 1);
		tdw_put_u32(b, count);
		for (size_t m = i; m < k; m++)
			put_text64(b, f[m]->text, f[m]->len);
	}
}

void tdw_blocks(const struct tdw_spec *s, struct sbuf *b)
{
	/* As in the kernel's events/header_page and events/header_event. */
	static const char event[] = "# compressed entry header\n"
				    "\ttype_len    :    5 bits\n"
				    "\ttime_delta  :   27 bits\n"
				    "\tarray       :   32 bits\n"
				    "\n"
				    "\tpadding     : type == 29\n"
				    "\ttime_extend : type == 30\n"
				    "\ttime_stamp : type == 31\n"
				    "\tdata max type_len  == 28\n";
	const struct capture *c = s->cap;
	_cleanup_(sbuf_free) struct sbuf names = { 0 };
	const char *kallsyms;
	char page[512];
	size_t len = 0;
	uint32_t ftrace = 0;
	int n = snprintf(page, sizeof(page),
			 "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
			 "\tfield: local_t commit;\toffset:8;\tsize:%u;\tsigned:1;\n"
			 "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
			 "\tfield: char data;\toffset:%u;\tsize:%u;\tsigned:1;\n",
			 s->g.long_size, s->g.header, s->g.size - s->g.header);

	sbuf_add_mem(b, "header_page", 12);
	put_text64(b, page, (size_t)n);
	sbuf_add_mem(b, "header_event", 13);
	put_text64(b, event, sizeof(event) - 1);
	for (size_t i = 0; i < c->nformat; i++)
		ftrace += is_ftrace(&c->format[i]);
	tdw_put_u32(b, ftrace);
	for (size_t i = 0; i < c->nformat; i++)
		if (is_ftrace(&c->format[i]))
			put_text64(b, c->format[i].text, c->format[i].len);
	put_formats(s, b);
	kallsyms = capture_kallsyms(c, &len);
	tdw_put_u32(b, (uint32_t)len);
	sbuf_add_mem(b, kallsyms, len);
	tdw_put_u32(b, (uint32_t)c->printk_len);
	sbuf_add_mem(b, c->printk, c->printk_len);
	/* "tid comm" lines: the only names that trace-cmd has. */
	for (size_t i = 0; i < c->ntask; i++)
		if (c->task[i].tid > 0 && c->task[i].comm && c->task[i].comm[0])
			sbuf_addf(&names, "%d %s\n", c->task[i].tid, c->task[i].comm);
	put_text64(b, xsbuf_text(&names), names.len);
}

#define OUT_BUFFER (1u << 20)
#define MIN_ALIGN  4096u

/* ---- bytes ---- */

static int tdw_flush(struct tdw *w)
{
	w->error = w->error ?: w->out.error ?: full_write(w->fd, w->out.s, w->out.len, NULL);
	w->done += w->out.len;
	sbuf_reset(&w->out);
	return w->error;
}

/* Overwrites something already written. */
static void tdw_patch(struct tdw *w, uint64_t at, const void *p, size_t n)
{
	ssize_t got = tdw_flush(w) ? (ssize_t)n : pwrite(w->fd, p, n, (off_t)at);

	if (got != (ssize_t)n)
		w->error = got < 0 ? -errno : -EIO;
}

/* Where the next byte goes in the file, behind filling. */
static uint64_t tdw_align(struct tdw *w)
{
	static const uint8_t zero[MIN_ALIGN];
	const uint32_t to = MAX(w->spec->g.size, MIN_ALIGN);
	uint64_t left = (to - (w->done + w->out.len) % to) % to;

	for (; left > sizeof(zero); left -= sizeof(zero))
		sbuf_add_mem(&w->out, zero, sizeof(zero));
	sbuf_add_mem(&w->out, zero, (size_t)left);
	return w->done + w->out.len;
}

/* ---- options ---- */

/* Before the first buffer. What is added to w->options from here to the end is the option's. */
static size_t option_begin(struct tdw *w, enum td_opt id)
{
	tdw_put_u16(&w->options, (uint16_t)id);
	tdw_put_u32(&w->options, 0);
	return w->options.len;
}

static void option_end(struct tdw *w, size_t at)
{
	const uint32_t len = (uint32_t)(w->options.len - at);

	if (!w->options.error)
		memcpy(w->options.s + at - sizeof(len), &len, sizeof(len));
}

static void option_text(struct tdw *w, enum td_opt id, const char *text)
{
	size_t at = option_begin(w, id);

	sbuf_add_mem(&w->options, text, strlen(text) + 1);
	option_end(w, at);
}

/* ---- the file ---- */

int tdw_create(int fd, const struct tdw_spec *spec, struct tdw **out)
{
	static const uint8_t magic[] = { 0x17, 0x08, 0x44, 't', 'r', 'a', 'c',
					 'i',  'n',  'g',  '6', 0,   0 };
	const struct capture *c = spec->cap;
	struct tdw *w;
	struct sbuf *b;

	*out = NULL;
	if (!cap_subbuf_ok(spec->g.size) || spec->cpus > CAPTURE_MAX_CPUS ||
	    strlen(spec->clock) > 64)
		return -EINVAL;
	*out = w = xcalloc(1, sizeof(*w));
	w->spec = spec;
	w->fd = fd;
	w->offset_at = xcalloc(spec->ninstance + 1, sizeof(*w->offset_at));
	w->stats_at = xcalloc(c->ncpu + 1, sizeof(*w->stats_at));
	w->events = xcalloc(c->ncpu + 1, sizeof(*w->events));
	b = &w->out;
	sbuf_add_mem(b, magic, sizeof(magic));
	sbuf_addc(b, (char)spec->g.long_size);
	tdw_put_u32(b, spec->g.size);
	tdw_blocks(spec, b);
	tdw_put_u32(b, spec->cpus);
	/* The kernel's trace_clock file shows the current one in brackets; NUL included. */
	option_text(w, TD_TRACECLOCK, TEXTF("[%s]", spec->clock));
	return 0;
}

/* Options; those of instances get their offsets later. */
static void put_options(struct tdw *w)
{
	const struct tdw_spec *s = w->spec;
	size_t at;

	sbuf_add_mem(&w->out, "options  ", 10);
	w->options_at = w->done + w->out.len;
	for (size_t i = 0; i < s->ninstance; i++) {
		at = option_begin(w, TD_BUFFER);
		w->offset_at[i] = w->options_at + at;
		tdw_put_u64(&w->options, 0);
		sbuf_add_mem(&w->options, s->instance[i], strlen(s->instance[i]) + 1);
		option_end(w, at);
		if (s->instance_cpus[i] == s->cpus)
			continue;
		at = option_begin(w, TD_CPUCOUNT);
		tdw_put_u32(&w->options, s->instance_cpus[i]);
		option_end(w, at);
	}
	tdw_put_u16(&w->options, TD_DONE);
	sbuf_add_mem(&w->out, xsbuf_text(&w->options), w->options.len);
}

static void cpu_end(struct tdw *w)
{
	const uint64_t area[] = { w->cpu_at, w->done + w->out.len - w->cpu_at };

	if (w->cpu_at)
		tdw_patch(w, w->table_at + sizeof(area) * w->cpu, area, sizeof(area));
	w->cpu_at = 0;
}

void tdw_buffer(struct tdw *w)
{
	const struct tdw_spec *s = w->spec;
	const char *clock = TEXTF("[%s]", s->clock);
	uint64_t at;

	cpu_end(w);
	w->cpus = w->buffer ? s->instance_cpus[w->buffer - 1] : s->cpus;
	if (w->buffer) {
		at = tdw_align(w);
		tdw_patch(w, w->offset_at[w->buffer - 1], &at, sizeof(at));
	} else {
		put_options(w);
	}
	w->buffer++;
	sbuf_add_mem(&w->out, "flyrecord", 10);
	w->table_at = w->done + w->out.len;
	for (uint32_t i = 0; i < 2 * w->cpus; i++)
		tdw_put_u64(&w->out, 0);
	put_text64(&w->out, clock, strlen(clock));
}

void tdw_cpu(struct tdw *w, uint32_t cpu)
{
	cpu_end(w);
	w->cpu = cpu;
	w->cpu_at = tdw_align(w);
}

int tdw_subbuf(void *arg, const void *buf)
{
	struct tdw *w = arg;

	sbuf_add_mem(&w->out, buf, w->spec->g.size);
	return w->error ?: w->out.len < OUT_BUFFER ? w->out.error : tdw_flush(w);
}

void tdw_events(struct tdw *w, uint64_t n)
{
	for (size_t i = 0; i < w->spec->cap->ncpu; i++)
		w->events[i] += w->spec->cap->cpu[i].cpu == w->cpu ? n : 0;
}

/* ---- the options of a trace.dat that carry facts, from a capture ---- */

/* As long as any. */
static void stat_counts(char *to, size_t size, uint64_t dropped, uint64_t read)
{
	snprintf(to, size, "dropped events: %020" PRIu64 "\nread events: %020" PRIu64 "\n", dropped,
		 read);
}

/*
 * As the kernel's per_cpu/cpuN/stats, of a ring from which exactly what is in this file was read. A
 * capture also has the counters at its beginning. What a flight recorder overwrote is no loss; what
 * its sub-buffers say was lost, they say here as well.
 */
static void tdw_cpustat(struct tdw *w, size_t i)
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
	stat_counts(end, sizeof(end), 0, 0);
	strcat(text, end);
	option_text(w, TD_CPUSTAT, text);
}

static void facts_end(struct tdw *w)
{
	const struct capture *c = w->spec->cap;

	for (size_t i = 0; i < c->ncpu; i++) {
		const struct cap_cpustat *e = &c->cpu[i].end, *b = &c->cpu[i].begin;
		uint64_t dropped = e->dropped - (b->valid ? b->dropped : 0), n = w->events[i];
		uint64_t taken = e->read - (b->valid ? b->read : 0) + (c->flight ? 0 : e->entries);
		char text[96];

		if (!w->stats_at[i])
			continue;
		dropped += c->trimmed || taken < n ? 0 : taken - n; /* left, or lost on the way */
		stat_counts(text, sizeof(text), w->spec->part ? 0 : dropped, n);
		/* Overwrites text in the options, which may be in the file already. */
		tdw_patch(w, w->options_at + w->stats_at[i], text, strlen(text));
	}
}

int tdw_close(struct tdw *w, int ret)
{
	if (!ret) {
		cpu_end(w);
		facts_end(w);
		ret = tdw_flush(w);
	}
	sbuf_free(&w->out);
	sbuf_free(&w->options);
	free(w->offset_at);
	free(w->stats_at);
	free(w->events);
	free(w);
	return ret;
}

void tdw_facts(struct tdw *w)
{
	const struct capture *c = w->spec->cap;

	for (size_t i = 0; i < c->ncpu; i++)
		if (c->cpu[i].end.valid)
			tdw_cpustat(w, i);
	if (c->uname)
		option_text(w, TD_UNAME, c->uname);
	option_text(w, TD_VERSION,
		    TEXTF("kvmft " KVMFT_VERSION "%s%s%s", c->some_switches ? TD_SOME : "",
			  c->flight ? TD_FLIGHT : "",
			  c->grain ? TEXTF(TD_GRAIN "%" PRIu64 ")", c->grain) : ""));
	if (c->ts_add)
		option_text(w, TD_OFFSET, TEXTF("%" PRId64, c->ts_add));
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

void tdw_id_option(struct tdw *w, uint64_t id)
{
	size_t at = option_begin(w, TD_TRACEID);

	tdw_put_u64(&w->options, id);
	option_end(w, at);
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

void tdw_tsc2nsec_option(struct tdw *w, uint32_t mult, uint32_t shift)
{
	size_t at = option_begin(w, TD_TSC2NSEC);

	tdw_put_u32(&w->options, mult);
	tdw_put_u32(&w->options, shift);
	tdw_put_u64(&w->options, 0); /* an offset that readers ignore */
	option_end(w, at);
}

void tdw_guest_option(struct tdw *w, const char *name, uint64_t id, const int32_t *tid, uint32_t n)
{
	size_t at = option_begin(w, TD_GUEST);

	sbuf_add_mem(&w->options, name, strlen(name) + 1);
	tdw_put_u64(&w->options, id);
	tdw_put_u32(&w->options, n);
	for (uint32_t i = 0; i < n; i++) {
		tdw_put_u32(&w->options, i);
		tdw_put_u32(&w->options, (uint32_t)tid[i]);
	}
	option_end(w, at);
}

/* Layout since trace-cmd 3.0: see opt_time_shift() in tracedat_read.c. */
void tdw_time_shift_option(struct tdw *w, uint64_t peer, uint64_t flags,
			   const struct cap_shift *shift, uint32_t n)
{
	size_t at = option_begin(w, TD_TIME_SHIFT);
	struct sbuf *b = &w->options;

	tdw_put_u64(b, peer);
	tdw_put_u32(b, (uint32_t)flags);
	tdw_put_u32(b, n);
	for (uint32_t i = 0; i < n; i++) {
		tdw_put_u32(b, (uint32_t)shift[i].nsample);
		for (size_t k = 0; k < shift[i].nsample; k++)
			tdw_put_u64(b, (uint64_t)shift[i].sample[k].time);
		for (size_t k = 0; k < shift[i].nsample; k++)
			tdw_put_u64(b, (uint64_t)shift[i].sample[k].offset);
		for (size_t k = 0; k < shift[i].nsample; k++)
			tdw_put_u64(b, (uint64_t)shift[i].sample[k].scaling);
	}
	for (uint32_t i = 0; i < n; i++) /* after all others, one for each sample */
		for (size_t k = 0; k < shift[i].nsample; k++)
			tdw_put_u64(b, (uint64_t)shift[i].frac);
	option_end(w, at);
}
