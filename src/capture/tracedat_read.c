/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat_read.c: reading a trace.dat of trace-cmd: the common start and the areas of CPUs.
 *
 *   u8[3] 17 08 44, "tracing", "6" NUL or "7" NUL, u8 0 (1: big endian),
 *   u8 sizeof(long), u32 size of a sub-buffer; all integers are little-endian.
 *
 * What follows depends on the version, see below. Whatever part is missing, the rest is read: every
 * complete sub-buffer inside the file is used, and what is missing is noted.
 */
#include "kvmft/util.h"
#include "tracedat.h"

#define TD_START	  18	      /* bytes of the common start */
#define TD_HEAD		  4096	      /* more than it and the strings of v7 need */
#define TD_PIECE	  (64u << 10) /* of metadata, read at once; no name is longer */
#define MAX_PLAIN	  (64u << 20) /* metadata, unpacked */
#define MAX_CHUNK	  (16u << 20) /* events, unpacked: libtracecmd writes 10 sub-buffers */
#define MAX_SHIFT_SAMPLES (1u << 20)
#define PACKED		  1 /* section flag */

/*
 * CPUs of all buffers. Each takes kilobytes later; of the file it takes 16 bytes, but buffers can
 * claim those of others to be theirs.
 */
#define STREAM_BYTES 16u
#define MIN_STREAMS  1024u
#define MAX_STREAMS  (8u * CAPTURE_MAX_CPUS)

/*
 * All parsers return 0, -ENODATA if the file ends too early, or -EBADMSG if it contradicts itself.
 */

/* n bytes at off, or fewer at the end of the file; *data is freed by the caller. */
static int td_load(const struct td *t, uint64_t off, uint64_t n, uint8_t **data, struct cursor *cur)
{
	ssize_t got;

	if (off >= t->size)
		return -ENODATA;
	n = MIN(n, t->size - off);
	*data = xmalloc((size_t)n + 1);
	got = full_pread(t->fd, *data, (size_t)n, off);
	*cur = (struct cursor){ *data, got > 0 ? (size_t)got : 0 };
	return (int)MIN(got, (ssize_t)0);
}

/*
 * n bytes at cur. A block of version 6 is read where it stands in the file, of which more is loaded
 * as it is needed; what was before it in memory is gone then.
 */
static int td_need(struct td *t, struct cursor *cur, uint64_t n)
{
	const uint64_t at = t->in_next - cur->left;
	int ret;

	if (n <= cur->left)
		return 0;
	if (cur != &t->in || at > t->in_end || n > t->in_end - at)
		return -ENODATA;
	free(t->in_buf);
	t->in_buf = NULL;
	ret = td_load(t, at, MAX(n, (uint64_t)TD_PIECE), &t->in_buf, cur);
	t->in_next = at + cur->left;
	return ret ?: n > cur->left ? -ENODATA : 0; /* the file shrank */
}

static int td_bytes(struct td *t, struct cursor *cur, uint64_t n, const uint8_t **p)
{
	return td_need(t, cur, n) ?: cur_bytes(cur, (size_t)n, p);
}

static int td_u32(struct td *t, struct cursor *cur, uint32_t *v)
{
	return td_need(t, cur, sizeof(*v)) ?: cur_u32(cur, v);
}

/* A name that outlives the reader; "" for NULL. */
static const char *td_instance(struct td *t, const char *name)
{
	struct cap_priv *p = cap_priv(t->c);
	char **slot;

	if (!name || !*name)
		return "";
	slot = xarray_grow(&p->instance, p->ninstance++, &p->instance_cap, sizeof(*slot));
	cap_set_str(slot, name);
	return *slot;
}

/* true: there are as many as may be. */
static bool streams_full(struct td *t)
{
	const uint64_t honest = MAX(t->size / STREAM_BYTES, (uint64_t)MIN_STREAMS);

	if (t->c->nstream < MIN(honest, (uint64_t)MAX_STREAMS))
		return false;
	cap_note(t->c, "more CPUs of buffers than %zu: they are left out", t->c->nstream);
	t->c->complete = false;
	return true;
}

/* Adds one CPU's area, clipped to the file; what is missing is noted. */
static void area_add(struct td *t, uint32_t cpu, const char *instance, uint64_t off, uint64_t len)
{
	uint64_t there = off < t->size ? t->size - off : 0, rest, holes;
	const char *dot = *instance ? instance : "the top buffer";
	struct cap_stream *s;

	if (cpu >= CAPTURE_MAX_CPUS)
		cap_note(t->c, "CPU %u of %s is beyond the limit", cpu, dot);
	if (cpu >= CAPTURE_MAX_CPUS || streams_full(t))
		return;
	s = cap_stream_add(t->c, cpu, instance);
	if (len > there) {
		cap_note(t->c, "CPU %u of %s: file cut, %" PRIu64 " bytes of events are missing",
			 cpu, dot, len - there);
		t->c->complete = false;
		s->cut = true;
		len = there;
	}
	if (len > t->left) { /* honest areas do not overlap; the work stays bounded by the file */
		cap_note(t->c, "CPU %u of %s overlaps the data of other CPUs", cpu, dot);
		return;
	}
	t->left -= len;
	rest = len % t->c->subbuf_size;
	if (rest)
		cap_note(t->c, "CPU %u of %s: ends inside a sub-buffer, %" PRIu64 " bytes cut", cpu,
			 dot, rest);
	holes = cap_stream_extend_file(t->c, s, t->fd,
				       &(struct cap_extent){ .fd = t->fd, .off = off, .len = len });
	if (holes)
		cap_note(t->c,
			 "CPU %u of %s: %" PRIu64 " of %" PRIu64 " bytes were never written, "
			 "and left out",
			 cpu, dot, holes, len);
}

/* ---- the metadata blocks, byte for byte the same in v6 and v7 ---- */

/* The word "NAME" NUL before a block. */
static int td_expect(struct td *t, struct cursor *cur, const char *word, size_t n)
{
	const uint8_t *p;
	int ret = td_bytes(t, cur, n, &p);

	return ret ?: memcmp(p, word, n) ? -EBADMSG : 0;
}

/* u64 length and that many bytes */
static int td_bytes64(struct td *t, struct cursor *cur, const char **p, size_t *len)
{
	const uint8_t *at;
	uint64_t n = 0;
	int ret = td_need(t, cur, sizeof(n)) ?: cur_u64(cur, &n);

	ret = ret ?: td_bytes(t, cur, n, &at);
	*p = ret ? NULL : (const char *)at;
	*len = (size_t)n;
	return ret;
}

/* The same as a NUL-terminated copy. */
static int td_text64(struct td *t, struct cursor *cur, char **out, size_t *len)
{
	const char *p;
	int ret = td_bytes64(t, cur, &p, len);

	if (ret)
		return ret;
	*out = xmalloc(*len + 1);
	memcpy(*out, p, *len);
	(*out)[*len] = '\0';
	return 0;
}

static int td_header_info(struct td *t, struct cursor *cur)
{
	_cleanup_free_ char *page = NULL, *event = NULL;
	struct ktext_page p;
	size_t n;
	int ret = td_expect(t, cur, "header_page", sizeof("header_page"));

	ret = ret ?: td_text64(t, cur, &page, &n);
	if (ret)
		return ret;
	/* Files of very old kernels lack the text: then the layout follows from sizeof(long). */
	if (ktext_page(page, &p)) {
		/* The file's header has the recorder's sizeof(long), or that of `convert`. */
		t->c->page_header = p.header;
		t->c->long_size = p.long_size;
	} else if (n) {
		cap_note(t->c, "header_page: not understood");
	}
	ret = td_expect(t, cur, "header_event", sizeof("header_event"));
	return ret ?: td_text64(t, cur, &event, &n);
}

/* One format; its event name is in its first line. */
static int read_format(struct td *t, struct cursor *cur, const char *sys)
{
	static const char begin[] = "name: ";
	const size_t at = sizeof(begin) - 1;
	_cleanup_free_ char *name = NULL;
	const char *text, *eol;
	size_t n;
	int ret = td_bytes64(t, cur, &text, &n);

	if (ret)
		return ret;
	if (n < at || memcmp(text, begin, at) != 0) {
		cap_note(t->c, "a format of %s has no name", sys);
		return 0;
	}
	eol = memchr(text + at, '\n', n - at);
	name = xstrndup(text + at, (size_t)((eol ?: text + n) - text) - at);
	cap_format_add(t->c, sys, name, text, n);
	return 0;
}

static int td_ftrace_events(struct td *t, struct cursor *cur)
{
	uint32_t n;
	int ret = td_u32(t, cur, &n);

	while (!ret && n--) /* each takes 8 bytes or ends the loop */
		ret = read_format(t, cur, "ftrace");
	return ret;
}

static int td_event_formats(struct td *t, struct cursor *cur)
{
	uint32_t systems, n;
	const char *name;
	int ret = td_u32(t, cur, &systems);

	while (!ret && systems--) {
		_cleanup_free_ char *sys = NULL;

		if (cur == &t->in && !(cur->left && memchr(cur->p, '\0', cur->left)))
			(void)!td_need(t, cur, /* the end of a name shows when it is there */
				       MIN((uint64_t)TD_PIECE, t->in_end - t->in_next + cur->left));
		if (cur_str(cur, &name))
			return -ENODATA;
		sys = xstrdup(name);
		ret = td_u32(t, cur, &n);
		while (!ret && n--)
			ret = read_format(t, cur, sys);
	}
	return ret;
}

static int td_printk(struct td *t, struct cursor *cur)
{
	const uint8_t *p;
	uint32_t n;
	int ret = td_u32(t, cur, &n) ?: td_bytes(t, cur, n, &p);

	if (!ret)
		cap_set_printk(t->c, (const char *)p, n);
	return ret;
}

static int td_kallsyms(struct td *t, struct cursor *cur)
{
	const uint8_t *p;
	uint32_t n;
	int ret = td_u32(t, cur, &n) ?: td_bytes(t, cur, n, &p);

	if (!ret)
		cap_set_kallsyms(t->c, (const char *)p, n);
	return ret;
}

static int td_cmdlines(struct td *t, struct cursor *cur)
{
	_cleanup_free_ char *text = NULL;
	size_t n;
	int ret = td_text64(t, cur, &text, &n);

	if (!ret)
		cap_parse_tasks(t->c, text, false);
	return ret;
}

/* ---- options that carry facts, of both versions; the list is behind them ---- */

/* ASCII number, times `scale` added to every stamp. */
static bool td_time_add(struct td *t, const char *text, int64_t scale, const char *what)
{
	int64_t v, ns;

	if (!parse_s64(text, &v) && !__builtin_mul_overflow(v, scale, &ns) &&
	    !__builtin_add_overflow(t->c->ts_add, ns, &t->c->ts_add))
		return true;
	cap_note(t->c, "option %s is not a usable number", what);
	return false;
}

/* v6 only: where a named buffer begins. */
static void td_opt_buffer(struct td *t, struct cursor opt)
{
	struct td_buffer *b;
	const char *name;
	uint64_t off;

	if (t->c->version != 6)
		return;
	if (cur_u64(&opt, &off) || cur_str(&opt, &name)) {
		cap_note(t->c, "option BUFFER is damaged");
		return;
	}
	b = xarray_grow(&t->buf, t->nbuf++, &t->buf_cap, sizeof(*b));
	b->off = off;
	b->name = xstrdup(name);
}

/* name NUL, u64 TRACEID of the guest's file, u32 n, n x { u32 guest cpu, u32 host thread } */
static void opt_guest(struct td *t, struct cursor opt)
{
	uint32_t n, cpu, tid;
	struct cap_vcpu *v;
	struct cap_vm *vm;
	const char *name;
	uint64_t id;

	if (cur_str(&opt, &name) || cur_u64(&opt, &id) || cur_u32(&opt, &n) || n > opt.left / 8 ||
	    n > CAPTURE_MAX_CPUS) {
		cap_note(t->c, "option GUEST is damaged");
		return;
	}
	vm = cap_vm_at(t->c, TEXTF("trace:%" PRIx64, id));
	if (!vm)
		return;
	cap_set_str(&vm->name, *name ? name : NULL); /* of QEMU without -name it is empty */
	vm->trace_id = id;
	while (n-- && !cur_u32(&opt, &cpu) && !cur_u32(&opt, &tid)) {
		v = xarray_grow(&vm->vcpu, vm->nvcpu++, &vm->vcpu_cap, sizeof(*v));
		v->id = cpu;
		v->tid = tid <= INT32_MAX ? (int32_t)tid : 0;
	}
}

/* False: damaged. */
static bool shift_samples(struct capture *c, struct cursor *opt, struct cap_shift *s)
{
	uint32_t n, i, k;
	uint64_t v;

	if (cur_u32(opt, &n) || n > opt->left / 24 || n > MAX_SHIFT_SAMPLES)
		return false;
	s->sample = xcalloc(MAX(n, 1u), sizeof(*s->sample));
	s->nsample = n;
	c->nshift++;
	for (k = 0; k < 3; k++) { /* three arrays behind each other: time, offset, scaling */
		for (i = 0; i < n; i++) {
			struct cap_shift_sample *to = &s->sample[i];

			if (cur_u64(opt, &v))
				return false;
			*(k == 0 ? &to->time : k == 1 ? &to->offset : &to->scaling) = (int64_t)v;
		}
	}
	return true;
}

/*
 * Layout since trace-cmd 3.0: u64 peer, u32 flags, u32 ncpus, per CPU { u32 n, s64 time[n],
 * s64 offset[n], s64 scaling[n] }, then per CPU { s64 frac[n] }, which may be missing. KVM has one
 * frac for all, so the first of a CPU is kept.
 */
static void opt_time_shift(struct td *t, struct cursor opt)
{
	struct capture *c = t->c;
	uint32_t flags, ncpus, i;
	uint64_t peer, frac;

	if (c->shift)
		return;
	if (cur_u64(&opt, &peer) || cur_u32(&opt, &flags) || cur_u32(&opt, &ncpus) ||
	    ncpus > opt.left / 4 || ncpus > CAPTURE_MAX_CPUS)
		goto damaged;
	c->shift = xcalloc(MAX(ncpus, 1u), sizeof(*c->shift));
	for (i = 0; i < ncpus; i++)
		if (!shift_samples(c, &opt, &c->shift[i]))
			goto damaged;
	for (i = 0; i < ncpus; i++)
		for (size_t k = 0; k < c->shift[i].nsample && !cur_u64(&opt, &frac); k++)
			c->shift[i].frac = k ? c->shift[i].frac : (int64_t)frac;
	c->shift_peer = peer;
	c->shift_flags = flags;
	return;
damaged:
	cap_note(c, "option TIME_SHIFT is damaged or of a version before trace-cmd 3.0");
}

static void td_option(struct td *t, uint32_t id, struct cursor opt)
{
	/* The option as text: up to its first NUL, or all of it. */
	_cleanup_free_ char *text = xstrndup(opt.left ? (const char *)opt.p : "", opt.left);
	struct capture *c = t->c;
	struct cap_cpu *cpu;
	const char *grain;
	unsigned int n;

	switch (id) {
	case TD_UNAME: cap_set_str(&c->uname, text); break;
	case TD_VERSION:
		cap_set_str(&c->tool, text);
		c->some_switches = strstr(text, TD_SOME);
		c->flight = strstr(text, TD_FLIGHT);
		grain = strstr(text, TD_GRAIN);
		if (grain && (grain += strlen(TD_GRAIN)))
			(void)take_u64(&grain, 1000000000, &c->grain);
		break;
	case TD_DATE: c->has_real = td_time_add(t, text, 1000, "DATE"); break;
	case TD_OFFSET: td_time_add(t, text, 1, "OFFSET"); break;
	case TD_TRACECLOCK:
		t->has_clock = true;
		cap_parse_clock(&c->clock, text);
		break;
	case TD_CPUSTAT:
		cpu = sscanf(text, "CPU: %9u", &n) == 1 ? cap_cpu_at(c, n) : NULL;
		if (cpu)
			cap_parse_stats(text, &cpu->end);
		break;
	case TD_CPUCOUNT:
		if (cur_u32(&opt, &n) || n > CAPTURE_MAX_CPUS)
			cap_note(c, "option CPUCOUNT is damaged");
		else if (t->last_opt == TD_BUFFER && t->nbuf)
			t->buf[t->nbuf - 1].cpus = n;
		else
			t->cpucount = n;
		break;
	case TD_TRACEID:
		if (cur_u64(&opt, &c->trace_id))
			cap_note(c, "option TRACEID is damaged");
		break;
	case TD_TSC2NSEC:
		if (cur_u32(&opt, &c->tsc2nsec_mult) || cur_u32(&opt, &c->tsc2nsec_shift) ||
		    cur_u64(&opt, &c->tsc2nsec_offset) || c->tsc2nsec_shift > 63 ||
		    !c->tsc2nsec_mult)
			cap_note(c, "option TSC2NSEC is damaged");
		else
			c->has_tsc2nsec = true;
		break;
	case TD_BUFFER: td_opt_buffer(t, opt); break;
	case TD_GUEST: opt_guest(t, opt); break;
	case TD_TIME_SHIFT: opt_time_shift(t, opt); break;
	}
	t->last_opt = id;
}

/*
 * Version 7: sections reached through options.
 *
 * Behind the common start: compressor NUL, its version NUL, u64 offset of the first OPTIONS
 * section. Every section begins with u16 id, u16 flags (bit 0: compressed), u32 name, u64 size
 * of what follows:
 *
 *   OPTIONS (0)   { u16 id, u32 size, data }, closed by id 0, size 8, u64 next OPTIONS or 0
 *   16 .. 21      the metadata blocks of version 6
 *   BUFFER (3)    the sub-buffers of one tracefs instance; described by an option of the same
 *                 number: u64 offset, name NUL, clock NUL, u32 page size, u32 n,
 *                 n x { u32 cpu, u64 offset, u64 size }
 *
 * Compressed metadata: u32 packed size, u32 plain size, bytes. Compressed data of a CPU: u32
 * chunks, then chunks of the same form.
 *
 * When the options cannot be reached (the file was cut), sections are walked one after the other
 * and what they hold is used; a BUFFER section without its option has no CPU table and is lost.
 */
struct section {
	uint16_t id, flags;
	uint32_t name;
	uint64_t size; /* of the payload; so far as in the file */
	uint64_t off;
};

#define SECTION_HEADER offsetof(struct section, off)

static int section_at(const struct td *t, uint64_t off, struct section *s)
{
	const ssize_t n = off < t->size ? full_pread(t->fd, s, SECTION_HEADER, off) : 0;

	s->off = off + SECTION_HEADER;
	return n < 0 ? (int)n : n < (ssize_t)SECTION_HEADER ? -ENODATA : 0;
}

/* Each section counts once: many that claim the same bytes would take endless time. */
static int take_meta(struct td *t, uint64_t n)
{
	if (n > t->meta_left)
		return -EFBIG;
	t->meta_left -= n;
	return 0;
}

static void section_bad(struct capture *c, const char *what, int ret)
{
	cap_note(c, "section %s: %s", what,
		 ret == -ENODATA ? "cut"
		 : ret == -EFBIG ? "larger than any kernel's, not unpacked"
				 : "damaged");
	c->complete = false;
}

/* The payload of a metadata section in memory; packed it is u32 packed, u32 plain, bytes. */
static int section_load(struct td *t, const struct section *s, uint8_t **data, struct cursor *cur)
{
	_cleanup_free_ uint8_t *file = NULL;
	uint32_t packed, plain;
	const uint8_t *p;
	int ret;

	if (s->size > CAPTURE_MAX_META ||
	    take_meta(t, MIN(s->size, t->size - MIN(s->off, t->size))))
		return -EFBIG;
	if (!(s->flags & PACKED))
		return td_load(t, s->off, s->size, data, cur);
	if (!cap_priv(t->c)->packing)
		return -EBADMSG;
	ret = td_load(t, s->off, s->size, &file, cur);
	if (ret)
		return ret;
	if (cur_u32(cur, &packed) || cur_u32(cur, &plain) || cur_bytes(cur, packed, &p))
		return -ENODATA;
	if (plain > MAX_PLAIN || take_meta(t, plain))
		return -EFBIG;
	*data = xmalloc((size_t)plain + 1);
	*cur = (struct cursor){ *data, plain };
	return cap_unpack(cap_priv(t->c)->packing, p, packed, *data, plain);
}

static int read_cpus(struct td *t, struct cursor *cur)
{
	int ret = td_u32(t, cur, &t->cpus);

	return ret ?: t->cpus > CAPTURE_MAX_CPUS ? -EBADMSG : 0;
}

static int read_options_block(struct td *t, struct cursor *cur);

/* In the order of version 6, of which 7 has the first six as sections, from TD_HEADER_INFO on. */
static const struct {
	const char *what;
	int (*read)(struct td *t, struct cursor *cur);
} block[] = {
	{ "header_page and header_event", td_header_info },
	{ "ftrace events", td_ftrace_events },
	{ "event formats", td_event_formats },
	{ "kallsyms", td_kallsyms },
	{ "printk formats", td_printk },
	{ "saved command lines", td_cmdlines },
	{ "CPU count", read_cpus },
	{ "options", read_options_block },
};

static void kallsyms_load(struct capture *c, const struct cap_later *at)
{
	struct td t = {
		.c = c, .fd = cap_priv(c)->fd, .size = at->file, .meta_left = at->size + MAX_PLAIN
	};
	const struct section s = { .flags = at->flags, .off = at->off, .size = at->size };
	_cleanup_free_ uint8_t *data = NULL;
	struct cursor cur;
	int ret = section_load(&t, &s, &data, &cur);

	ret = ret ?: td_kallsyms(&t, &cur);
	if (ret)
		section_bad(c, "kallsyms", ret);
}

/*
 * Only notes where kallsyms is: flags and bytes of a section of v7; v6 has the same without flags.
 * False: it has to be read now, as the file lacks some of it.
 */
static bool kallsyms_later(struct td *t, uint64_t off, uint64_t size, uint16_t flags)
{
	if (!t->c->is_tracedat || off > t->size || size > t->size - off || size > CAPTURE_MAX_META)
		return false;
	if (!cap_priv(t->c)->kallsyms.load)
		cap_priv(t->c)->kallsyms = (struct cap_later){ .load = kallsyms_load,
							       .off = off,
							       .size = size,
							       .file = t->size,
							       .flags = flags };
	return true;
}

static void td_section_read(struct td *t, const struct section *s)
{
	const unsigned int i = s->id - TD_HEADER_INFO;
	_cleanup_free_ uint8_t *data = NULL;
	struct cursor cur;
	int ret;

	if (i > TD_CMDLINES - TD_HEADER_INFO)
		return;
	ret = section_load(t, s, &data, &cur);
	ret = ret ?: block[i].read(t, &cur);
	if (ret)
		section_bad(t->c, block[i].what, ret);
}

/*
 * Compressed sub-buffers: u32 chunks, then u32 packed, u32 plain, bytes each. The size that
 * libtracecmd writes for them leaves out the first four bytes.
 */
static void packed_area(struct td *t, uint32_t cpu, const char *instance, uint64_t off,
			uint64_t len)
{
	struct cap_stream *s = cap_stream_add(t->c, cpu, instance);
	struct {
		uint32_t packed, plain;
	} h;
	uint64_t at = off + 4, end;
	uint32_t chunks;

	if (t->size - MIN(off, t->size) < 4 || len > t->left ||
	    full_pread(t->fd, &chunks, 4, off) != 4)
		goto cut;
	t->left -= len;
	end = at + MIN(len, t->size - at);
	for (; chunks; chunks--, at += 8ull + h.packed) {
		if (end - at < 8 || full_pread(t->fd, &h, 8, at) != 8 || h.packed > end - at - 8 ||
		    !h.packed || h.plain > MAX_CHUNK || h.plain % t->c->subbuf_size)
			goto cut;
		cap_stream_extend(
			t->c, s,
			&(struct cap_extent){
				.fd = t->fd, .off = at + 8, .len = h.plain, .packed = h.packed });
	}
	return;
cut:
	s->cut = true;
	cap_note(t->c, "CPU %u: compressed events are cut or damaged, the rest is missing", cpu);
	t->c->complete = false;
}

static void opt_buffer(struct td *t, struct cursor opt)
{
	const char *name, *clock, *instance;
	struct section s = { .id = TD_DONE }; /* not that of a buffer, if it is outside the file */
	uint32_t page, n, cpu;
	uint64_t at, off, len;

	if (cur_u64(&opt, &at) || cur_str(&opt, &name) || cur_str(&opt, &clock) ||
	    cur_u32(&opt, &page) || cur_u32(&opt, &n) || n > opt.left / 20) {
		cap_note(t->c, "option BUFFER is damaged");
		t->c->complete = false;
		return;
	}
	instance = td_instance(t, name);
	if (!t->c->clock && *clock)
		cap_parse_clock(&t->c->clock, clock);
	if (page != t->c->subbuf_size) {
		cap_note(t->c, "buffer '%s' has another page size (%u), which is not supported",
			 name, page);
		t->c->complete = false;
		return;
	}
	if (section_at(t, at, &s) || s.id != TD_BUFFER) /* the areas may still be there */
		cap_note(t->c, "buffer '%s': its section is missing", name);
	for (; n && !streams_full(t); n--) {
		if (cur_u32(&opt, &cpu) || cur_u64(&opt, &off) || cur_u64(&opt, &len))
			break;
		if (cap_priv(t->c)->packing && s.id == TD_BUFFER && (s.flags & PACKED) &&
		    cpu < CAPTURE_MAX_CPUS)
			packed_area(t, cpu, instance, off, len);
		else
			area_add(t, cpu, instance, off, len);
	}
}

/* An option that names a section: u64 offset first. */
static void opt_section(struct td *t, uint16_t id, struct cursor opt)
{
	struct section s;
	uint64_t off;

	if (cur_u64(&opt, &off) || section_at(t, off, &s) || s.id != id) {
		cap_note(t->c, "section %u is missing", id);
		t->c->complete = false;
	} else if (id != TD_KALLSYMS || ((s.flags & PACKED) && !cap_priv(t->c)->packing) ||
		   take_meta(t, s.size) || !kallsyms_later(t, s.off, s.size, s.flags)) {
		td_section_read(t, &s);
	}
}

/*
 * { u16 id, u32 size, data } up to id 0, which in version 7 has as its data where more of them are:
 * *next; NULL: version 6.
 */
static int read_options(struct td *t, struct cursor *cur, uint64_t *next)
{
	struct cursor opt;
	const uint8_t *p;
	uint32_t size;
	uint16_t id;
	int ret;

	while (!(ret = td_need(t, cur, sizeof(id)) ?: cur_u16(cur, &id))) {
		if (id == TD_DONE && !next)
			return 0;
		ret = td_u32(t, cur, &size) ?: td_bytes(t, cur, size, &p);
		if (ret)
			return ret;
		opt = (struct cursor){ p, size };
		if (id == TD_DONE)
			return cur_u64(&opt, next);
		if (next && id == TD_BUFFER_TEXT)
			cap_note(t->c, "this file holds the text of a latency tracer");
		if (next && id == TD_BUFFER)
			opt_buffer(t, opt);
		else if (next && id >= TD_HEADER_INFO && id <= TD_CMDLINES)
			opt_section(t, id, opt);
		else
			td_option(t, id, opt);
	}
	return ret;
}

/* Without options: metadata sections in the order of the file. */
static void walk_sections(struct td *t, uint64_t off)
{
	struct section s;

	t->meta_left = t->size +
		       MAX_PLAIN; /* they do not overlap, though some may have been read before */
	while (!section_at(t, off, &s)) {
		if (s.id == TD_BUFFER)
			cap_note(t->c,
				 "a buffer of %" PRIu64 " bytes has no CPU table: its events "
				 "cannot be told apart and are left out",
				 s.size);
		td_section_read(t, &s);
		if (s.size > t->size - off)
			break;
		off = s.off + s.size;
	}
}

/*
 * Version 6 goes on in one fixed order:
 *
 *   "header_page" NUL u64 n text, "header_event" NUL u64 n text
 *   u32 count, count x { u64 n, format }                                    ftrace events
 *   u32 systems x { name NUL, u32 count, count x { u64 n, format } }        event formats
 *   u32 n kallsyms, u32 n printk formats, u64 n saved_cmdlines, u32 CPUs
 *   "options  " NUL, { u16 id, u32 size, data }, u16 0                      may be absent
 *   "flyrecord" NUL, per CPU { u64 offset, u64 size }                       or "latency  "
 *   u64 n, clock                                           only with option TRACECLOCK
 *   sub-buffers, each CPU at its offset
 *
 * An option BUFFER points to another "flyrecord" block, of a tracefs instance.
 */
#define WORD 10 /* "options  " NUL, "flyrecord" NUL, "latency  " NUL */

/* "flyrecord" NUL, the table with one more entry, and the clock. */
#define TABLE_BYTES(cpus) (WORD + 16ull * ((cpus) + 1) + 8 + 4096)

/* "flyrecord" NUL, a table of CPUs, and the clock if there is option TRACECLOCK. */
static int read_flyrecord(struct td *t, uint64_t at, uint32_t cpus, const char *instance)
{
	_cleanup_free_ uint8_t *data = NULL;
	_cleanup_free_ char *clock = NULL;
	struct cursor cur;
	const uint8_t *p;
	uint64_t off, len;
	int ret = td_load(t, at, TABLE_BYTES(cpus), &data, &cur);

	if (ret || cur_bytes(&cur, WORD, &p))
		return ret ?: -ENODATA;
	if (!memcmp(p, "latency  ", WORD)) {
		cap_note(t->c, "this file holds the text of a latency tracer, and no events");
		return 0;
	}
	if (memcmp(p, "flyrecord", WORD))
		return -EBADMSG;
	if (streams_full(t))
		return 0;
	for (uint32_t i = 0; i < cpus; i++) {
		if (cur_u64(&cur, &off) || cur_u64(&cur, &len))
			return -ENODATA;
		area_add(t, i, instance, off, len);
	}
	/* libtracecmd skips one more pair if the option raises the count. */
	if (!*instance && t->cpucount > cpus && cur_skip(&cur, 16))
		return -ENODATA;
	if (!t->has_clock)
		return 0;
	if (cur_u64(&cur, &len) || len > 4096 || cur_bytes(&cur, (size_t)len, &p))
		return -ENODATA;
	clock = xstrndup((const char *)p, (size_t)len);
	if (!t->c->clock)
		cap_parse_clock(&t->c->clock, clock);
	return 0;
}

/* The whole block may be absent. */
static int read_options_block(struct td *t, struct cursor *cur)
{
	int ret = td_need(t, cur, WORD);

	if (ret || memcmp(cur->p, "options  ", WORD))
		return ret;
	return cur_skip(cur, WORD) ?: read_options(t, cur, NULL);
}

/* What the file lacks costs only that part. */
static void td_survive(struct td *t, int ret, const char *what)
{
	if (!ret)
		return;
	cap_note(t->c, "%s: %s", what,
		 ret == -ENODATA   ? "the file ends inside it"
		 : ret == -EBADMSG ? "damaged"
				   : strerror(-ret));
	t->c->complete = false;
}

bool td_read_blocks(struct td *t, size_t n, uint64_t *off)
{
	int ret = 0;
	size_t i;

	t->in_next = *off;
	/* Each block begins where the one before ends: after a broken one nothing can be found. */
	for (i = 0; i < n && !ret; i++) {
		uint64_t at = t->in_next - t->in.left, size;

		t->in_end = MIN(t->size, at + CAPTURE_MAX_META);
		if (block[i].read == td_kallsyms && !td_need(t, &t->in, sizeof(uint32_t))) {
			size = sizeof(uint32_t) + (uint64_t)load_u32(t->in.p);
			if (kallsyms_later(t, at, size, 0)) {
				t->in_next = at + size;
				t->in = (struct cursor){ 0 };
				continue;
			}
		}
		ret = block[i].read(t, &t->in);
	}
	*off = t->in_next - t->in.left;
	free(t->in_buf);
	td_survive(t, ret, i ? block[i - 1].what : "");
	return !ret;
}

/* v7 names its compressor after the common start: two strings, then the first OPTIONS offset. */
static int read_v7(struct td *t, struct cursor *cur, struct kvmft_err *err)
{
	const char *name, *version;
	uint64_t off;
	size_t before = cur->left;
	struct section s;
	uint64_t next;
	int ret = 0;

	if (cur_str(cur, &name) || cur_str(cur, &version) || cur_u64(cur, &off))
		return err_set(err, EBADMSG, "trace.dat is cut in its first bytes");
	t->start += before - cur->left;
	if (strcmp(name, "none")) {
		cap_priv(t->c)->packing = cap_packing(name, err);
		if (!cap_priv(t->c)->packing)
			return -EOPNOTSUPP;
	}
	t->meta_left = t->size + 4ull * MAX_PLAIN; /* unpacked, it may be larger than the file */
	for (uint64_t at = off; at && !ret; at = ret ? at : next) {
		_cleanup_free_ uint8_t *plain = NULL;

		if (u64map_get(&t->seen, at, &next)) {
			cap_note(t->c, "the chain of options is a loop");
			break;
		}
		xu64map_put(&t->seen, at, 1);
		next = 0;
		ret = section_at(t, at, &s) ?: s.id != TD_DONE ? -EBADMSG : 0;
		ret = ret ?: section_load(t, &s, &plain, cur);
		ret = ret ?: read_options(t, cur, &next);
	}
	if (ret != -ENODATA && ret != -EBADMSG && ret != -EFBIG)
		return ret;
	section_bad(t->c, "of options", ret);
	if (!t->c->nformat)
		walk_sections(t, t->start);
	return 0;
}

static int read_start(struct td *t, struct cursor *cur, struct kvmft_err *err)
{
	uint8_t endian, long_size;
	const char *version;
	const uint8_t *p;
	uint32_t size;

	if (cur_bytes(cur, TD_MAGIC, &p) || cur_str(cur, &version) || cur_u8(cur, &endian) ||
	    cur_u8(cur, &long_size))
		return err_set(err, EBADMSG, "trace.dat is cut in its first bytes");
	if (strcmp(version, "6") && strcmp(version, "7"))
		return err_set(err, EPROTONOSUPPORT,
			       "trace.dat has version %.16s, kvmft reads 6 and 7", version);
	t->c->version = version[0] - '0';
	if (endian == 1)
		return err_set(err, EPROTONOSUPPORT, CAP_BIG_ENDIAN "trace-cmd report shows it");
	if (cur_u32(cur, &size))
		return err_set(err, EBADMSG, "trace.dat is cut in its first bytes");
	if ((long_size != 4 && long_size != 8) || endian || !cap_subbuf_ok(size))
		return err_set(err, EBADMSG,
			       "trace.dat header is damaged (sizeof(long) %u, page size "
			       "%u)",
			       long_size, size);
	t->start = TD_START;
	t->c->long_size = long_size;
	t->c->subbuf_size = size;
	t->c->page_header = 8u + long_size;
	return 0;
}

static void td_finish(struct capture *c)
{
	if (c->page_header >= c->subbuf_size) {
		cap_note(c, "header_page: the header is larger than a sub-buffer");
		c->page_header = 8 + c->long_size;
	}
	/* Of a counter, or the TSC, DATE's ns mean nothing. */
	c->has_real &= clock_trace_is_ns(c->clock ?: "local") && !c->has_tsc2nsec;
	c->real_add = c->ts_add;
	/* Version 7 has no place for what `trace-cmd record -M` left out, but statistics of it. */
	for (size_t i = 0, k; i < c->ncpu; i++) {
		for (k = 0; k < c->nstream && c->stream[k].cpu != c->cpu[i].cpu; k++)
			;
		if (k == c->nstream)
			cap_stream_add(c, c->cpu[i].cpu, "");
	}
	for (size_t k = 0; k < c->nstream; k++) /* it has events, and none is there */
		for (size_t i = 0; !c->stream[k].nsub && i < c->ncpu; i++)
			c->stream[k].cut |= c->stream[k].cpu == c->cpu[i].cpu &&
					    c->cpu[i].end.entries + c->cpu[i].end.read;
	/* A guest's file carries TIME_SHIFT, a host's names guests. */
	if (c->nvm)
		c->side = CAP_SIDE_HOST;
	else if (c->nshift)
		c->side = CAP_SIDE_GUEST;
	if (c->has_tsc2nsec) { /* ns = ticks * mult >> shift */
		c->tsc_khz = cap_khz(c->tsc2nsec_mult, c->tsc2nsec_shift);
		cap_set_str(&c->tsc_khz_source, "TSC2NSEC");
	}
	if (!c->clock)
		cap_set_str(&c->clock, "local");
}

int cap_tracedat_read(struct capture *c, int fd, uint64_t size, struct kvmft_err *err)
{
	struct td t = { .c = c, .fd = fd, .size = size, .left = size };
	_cleanup_free_ uint8_t *data = NULL;
	struct cursor cur;
	uint64_t off = TD_START;
	int ret;

	c->is_tracedat = true;
	c->complete = true;
	ret = td_load(&t, 0, TD_HEAD, &data, &cur);
	if (ret == -ENODATA)
		return err_set(err, EBADMSG, "the file is empty");
	if (ret)
		return ret;
	ret = read_start(&t, &cur, err);
	if (!ret && c->version == 7)
		ret = read_v7(&t, &cur, err);
	if (!ret && c->version != 7) {
		if (td_read_blocks(&t, ARRAY_SIZE(block), &off))
			td_survive(&t, read_flyrecord(&t, off, t.cpus, ""), "top buffer");
		for (size_t i = 0; i < t.nbuf; i++)
			td_survive(&t,
				   read_flyrecord(&t, t.buf[i].off, t.buf[i].cpus ?: t.cpus,
						  td_instance(&t, t.buf[i].name)),
				   t.buf[i].name);
	}
	if (!ret)
		td_finish(c);
	for (size_t i = 0; i < t.nbuf; i++)
		free(t.buf[i].name);
	free(t.buf);
	u64map_free(&t.seen);
	if (!ret)
		cap_priv(c)->fd = fd;
	return ret;
}
