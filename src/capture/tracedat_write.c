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
	int fd;
	uint8_t *buf; /* bytes not written yet */
	size_t fill;
	/* per CPU of spec->cap: where its counts of dropped and read events are in the options */
	size_t *stats_at;
	uint64_t *events;    /* ... and what was written of it */
	uint64_t options_at; /* in the file */
	uint64_t pos;	     /* in the file, of the next byte */
	struct sbuf options;

	size_t buffer;	    /* 0 = none yet, 1 = top, 2 = first instance */
	uint32_t cpus, cpu; /* of the buffer; the current one */
	bool in_cpu;
	uint64_t cpu_at; /* where its data begins */

	uint64_t table_at;   /* the CPU table of this buffer */
	uint64_t *offset_at; /* where the offsets of instances go */
};

static int tdw_facts_end(struct tdw *w);

/* ---- the metadata blocks of a trace.dat, from a capture ---- */

static void put_text64(struct sbuf *b, const char *text, size_t n)
{
	tdw_put_u64(b, n);
	sbuf_add_mem(b, text, n);
}

/* As in the kernel's events/header_page and events/header_event. */
static void put_header_info(const struct tdw_spec *s, struct sbuf *b)
{
	static const char event[] = "# compressed entry header\n"
				    "\ttype_len    :    5 bits\n"
				    "\ttime_delta  :   27 bits\n"
				    "\tarray       :   32 bits\n"
				    "\n"
				    "\tpadding     : type == 29\n"
				    "\ttime_extend : type == 30\n"
				    "\ttime_stamp : type == 31\n"
				    "\tdata max type_len  == 28\n";
	char page[512];
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
}

static bool is_ftrace(const struct cap_format *f)
{
	return !strcmp(f->sys, "ftrace");
}

static void put_ftrace(const struct tdw_spec *s, struct sbuf *b)
{
	const struct capture *c = s->cap;
	uint32_t n = 0;

	for (size_t i = 0; i < c->nformat; i++)
		n += is_ftrace(&c->format[i]);
	tdw_put_u32(b, n);
	for (size_t i = 0; i < c->nformat; i++)
		if (is_ftrace(&c->format[i]))
			put_text64(b, c->format[i].text, c->format[i].len);
}

/* By system; within one as recorded: both are arrays of pointers into the same array. */
COMPARE(format_cmp, const struct cap_format *, strcmp((*x)->sys, (*y)->sys) ?: ORDER(*x, *y));

static void tdw_put_formats(const struct tdw_spec *s, struct sbuf *b)
{
	const struct capture *c = s->cap;
	_cleanup_free_ const struct cap_format **f = calloc(c->nformat + 1, sizeof(*f));
	uint32_t systems = 0, count;
	size_t n = 0, k;

	if (!f) {
		b->error = -ENOMEM;
		return;
	}
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

/* "tid comm" lines: the only names that trace-cmd has. */
static void put_cmdlines(const struct tdw_spec *s, struct sbuf *b)
{
	const struct capture *c = s->cap;
	_cleanup_(sbuf_free) struct sbuf text = { 0 };

	for (size_t i = 0; i < c->ntask; i++)
		if (c->task[i].tid > 0 && c->task[i].comm && c->task[i].comm[0])
			sbuf_addf(&text, "%d %s\n", c->task[i].tid, c->task[i].comm);
	if (text.error)
		b->error = text.error;
	else
		put_text64(b, text.s ?: "", text.len);
}

void tdw_block(const struct tdw_spec *s, enum tdw_block block, struct sbuf *b)
{
	const char *text;
	size_t len = 0;

	switch (block) {
	case TDW_HEADER_INFO: put_header_info(s, b); break;
	case TDW_FTRACE: put_ftrace(s, b); break;
	case TDW_FORMATS: tdw_put_formats(s, b); break;
	case TDW_KALLSYMS:
		text = capture_kallsyms(s->cap, &len);
		tdw_put_u32(b, (uint32_t)len);
		sbuf_add_mem(b, text, len);
		break;
	case TDW_PRINTK:
		tdw_put_u32(b, (uint32_t)s->cap->printk_len);
		sbuf_add_mem(b, s->cap->printk, s->cap->printk_len);
		break;
	case TDW_CMDLINES: put_cmdlines(s, b); break;
	case TDW_BLOCKS: break;
	}
}

#define OUT_BUFFER (1u << 20)
#define MIN_ALIGN  4096u

/* ---- bytes ---- */

static int tdw_flush(struct tdw *w)
{
	int ret = full_write(w->fd, w->buf, w->fill, NULL);

	w->fill = 0;
	return ret;
}

static int tdw_write(struct tdw *w, const void *p, size_t n)
{
	int ret = 0;

	if (n > OUT_BUFFER - w->fill)
		ret = tdw_flush(w);
	if (ret)
		return ret;
	w->pos += n;
	if (n >= OUT_BUFFER)
		return full_write(w->fd, p, n, NULL);
	memcpy(w->buf + w->fill, p, n);
	w->fill += n;
	return 0;
}

static int tdw_write_sbuf(struct tdw *w, struct sbuf *b)
{
	int ret = b->error ?: tdw_write(w, b->s, b->len);

	sbuf_free(b);
	return ret;
}

/* Overwrites something already written. */
static int patch(struct tdw *w, uint64_t at, const void *p, size_t n)
{
	int ret = tdw_flush(w);
	ssize_t got;

	if (ret)
		return ret;
	got = pwrite(w->fd, p, n, (off_t)at);
	return got == (ssize_t)n ? 0 : got < 0 ? -errno : -EIO;
}

static int patch_u64(struct tdw *w, uint64_t at, uint64_t v)
{
	return patch(w, at, &v, sizeof(v));
}

static int align(struct tdw *w)
{
	static const uint8_t zero[MIN_ALIGN];
	const uint32_t to = MAX(w->spec->g.size, MIN_ALIGN);
	int ret = 0;

	while (w->pos % to && !ret)
		ret = tdw_write(w, zero, (size_t)MIN(to - w->pos % to, sizeof(zero)));
	return ret;
}

/* ---- options: collected until their place in the file comes ---- */

/* Before the first buffer. */
static int tdw_option(struct tdw *w, enum td_opt id, const void *data, size_t len)
{
	if (len > UINT32_MAX)
		return -EFBIG;
	tdw_put_u16(&w->options, (uint16_t)id);
	tdw_put_u32(&w->options, (uint32_t)len);
	sbuf_add_mem(&w->options, data, len);
	return w->options.error;
}

/* Empties and frees b. */
static int tdw_option_sbuf(struct tdw *w, enum td_opt id, struct sbuf *b)
{
	int ret = b->error ?: tdw_option(w, id, b->s, b->len);

	sbuf_free(b);
	return ret;
}

/* ---- the file ---- */

int tdw_create(int fd, const struct tdw_spec *spec, struct tdw **out)
{
	static const uint8_t magic[] = { 0x17, 0x08, 0x44, 't', 'r', 'a', 'c',
					 'i',  'n',  'g',  '6', 0,   0 };
	char clock[80];
	struct sbuf b = { 0 };
	struct tdw *w;
	int ret;

	*out = NULL;
	if (!cap_subbuf_ok(spec->g.size) || spec->cpus > CAPTURE_MAX_CPUS ||
	    strlen(spec->clock) > 64)
		return -EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->spec = spec;
	w->fd = fd;
	w->buf = malloc(OUT_BUFFER);
	w->offset_at = calloc(spec->ninstance + 1, sizeof(*w->offset_at));
	ret = w->buf && w->offset_at ? 0 : -ENOMEM;
	sbuf_add_mem(&b, magic, sizeof(magic));
	sbuf_addc(&b, (char)spec->g.long_size);
	tdw_put_u32(&b, spec->g.size);
	for (int k = 0; k < TDW_BLOCKS && !ret; k++) {
		tdw_block(spec, (enum tdw_block)k, &b);
		ret = tdw_write_sbuf(w, &b);
	}
	tdw_put_u32(&b, spec->cpus);
	ret = ret ?: tdw_write_sbuf(w, &b);
	sbuf_free(&b);
	/* The kernel's trace_clock file shows the current one in brackets; NUL included. */
	snprintf(clock, sizeof(clock), "[%.64s]", spec->clock);
	ret = ret ?: tdw_option(w, TD_TRACECLOCK, clock, strlen(clock) + 1);
	if (ret)
		return tdw_close(w, ret);
	*out = w;
	return 0;
}

/* The option's offset is not known yet; its place is remembered. */
static int instance_option(struct tdw *w, size_t i)
{
	const struct tdw_spec *s = w->spec;
	struct sbuf b = { 0 };
	int ret;

	tdw_put_u64(&b, 0);
	sbuf_add_mem(&b, s->instance[i], strlen(s->instance[i]) + 1);
	w->offset_at[i] = w->options_at + w->options.len + 6;
	ret = tdw_option_sbuf(w, TD_BUFFER, &b);
	if (ret || s->instance_cpus[i] == s->cpus)
		return ret;
	tdw_put_u32(&b, s->instance_cpus[i]);
	return tdw_option_sbuf(w, TD_CPUCOUNT, &b);
}

static int put_table(struct tdw *w)
{
	struct sbuf b = { 0 };
	char clock[80];
	int n, ret = 0;

	if (w->buffer == 1) {
		w->options_at = w->pos + 10;
		ret = tdw_write(w, "options  ", 10);
		for (size_t i = 0; i < w->spec->ninstance && !ret; i++)
			ret = instance_option(w, i);
		tdw_put_u16(&w->options, TD_DONE);
		ret = ret ?: tdw_write_sbuf(w, &w->options);
	} else {
		ret = align(w);
		ret = ret ?: patch_u64(w, w->offset_at[w->buffer - 2], w->pos);
	}
	if (ret)
		return ret;
	w->table_at = w->pos + 10;
	n = snprintf(clock, sizeof(clock), "[%.64s]", w->spec->clock);
	sbuf_add_mem(&b, "flyrecord", 10);
	for (uint32_t i = 0; i < 2 * w->cpus; i++)
		tdw_put_u64(&b, 0);
	tdw_put_u64(&b, (uint64_t)n);
	sbuf_add_mem(&b, clock, (size_t)n);
	return tdw_write_sbuf(w, &b);
}

static int cpu_end(struct tdw *w)
{
	uint64_t at = w->table_at + 16ull * w->cpu;
	int ret;

	if (!w->in_cpu)
		return 0;
	w->in_cpu = false;
	ret = patch_u64(w, at, w->cpu_at);
	return ret ?: patch_u64(w, at + 8, w->pos - w->cpu_at);
}

int tdw_buffer(struct tdw *w)
{
	int ret = w->buffer ? cpu_end(w) : 0;

	if (ret)
		return ret;
	if (w->buffer > w->spec->ninstance)
		return -EINVAL;
	w->buffer++;
	w->cpus = w->buffer == 1 ? w->spec->cpus : w->spec->instance_cpus[w->buffer - 2];
	w->in_cpu = false;
	w->cpu = 0;
	return put_table(w);
}

int tdw_cpu(struct tdw *w, uint32_t cpu)
{
	int ret = cpu_end(w);

	if (!ret && (!w->buffer || cpu >= w->cpus))
		ret = -EINVAL;
	ret = ret ?: align(w);
	if (ret)
		return ret;
	w->in_cpu = true;
	w->cpu = cpu;
	w->cpu_at = w->pos;
	return 0;
}

int tdw_subbuf(void *arg, const void *buf)
{
	struct tdw *w = arg;

	if (!w->in_cpu)
		return -EINVAL;
	return tdw_write(w, buf, w->spec->g.size);
}

void tdw_events(struct tdw *w, uint64_t n)
{
	for (size_t i = 0; i < w->spec->cap->ncpu && w->events; i++)
		w->events[i] += w->spec->cap->cpu[i].cpu == w->cpu ? n : 0;
}

int tdw_close(struct tdw *w, int ret)
{
	if (!ret && w->buffer <= w->spec->ninstance)
		ret = -EINVAL; /* a buffer was promised and never written */
	ret = ret ?: cpu_end(w);
	ret = ret ?: tdw_facts_end(w);
	ret = ret ?: tdw_flush(w);
	sbuf_free(&w->options);
	free(w->offset_at);
	free(w->stats_at);
	free(w->events);
	free(w->buf);
	free(w);
	return ret;
}

/* ---- the options of a trace.dat that carry facts, from a capture ---- */

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
	return tdw_option(w, TD_CPUSTAT, text, strlen(text) + 1);
}

static int tdw_facts_end(struct tdw *w)
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
		/* Overwrites text in the options, which may be in the file already. */
		ret = patch(w, w->options_at + w->stats_at[i], text, strlen(text));
	}
	return ret;
}

int tdw_facts(struct tdw *w, const struct tdw_spec *s)
{
	const struct capture *c = s->cap;
	char text[128], grain[48];
	int ret;

	w->stats_at = calloc(c->ncpu + 1, sizeof(*w->stats_at));
	w->events = calloc(c->ncpu + 1, sizeof(*w->events));
	ret = w->stats_at && w->events ? 0 : -ENOMEM;
	for (size_t i = 0; i < c->ncpu && !ret; i++)
		if (c->cpu[i].end.valid)
			ret = cpustat(w, i);
	if (!ret && c->uname)
		ret = tdw_option(w, TD_UNAME, c->uname, strlen(c->uname) + 1);
	snprintf(grain, sizeof(grain), TD_GRAIN "%" PRIu64 ")", c->grain);
	snprintf(text, sizeof(text), "kvmft " KVMFT_VERSION "%s%s%s",
		 c->some_switches ? TD_SOME : "", c->flight ? TD_FLIGHT : "",
		 c->grain ? grain : "");
	ret = ret ?: tdw_option(w, TD_VERSION, text, strlen(text) + 1);
	if (!ret && c->ts_add) {
		snprintf(text, sizeof(text), "%" PRId64, c->ts_add);
		ret = tdw_option(w, TD_OFFSET, text, strlen(text) + 1);
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

/* Layout since trace-cmd 3.0: see opt_time_shift() in tracedat_read.c. */
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
