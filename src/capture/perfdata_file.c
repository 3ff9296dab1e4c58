/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata_file.c: reading a perf.data of `perf record` or `perf kvm stat record`.
 *
 * A tracepoint's samples hold the same record as ftrace's ring; their fields are described by the
 * feature "tracing data", which begins like a trace.dat. perf writes it at its end: without it
 * nothing can be decoded. Samples are presented as sub-buffers, made on demand (perfdata_scan.c),
 * so all code that reads a capture can read them.
 *
 *   "PERFILE2", u64 size of the header, u64 size of an attribute with its ids' section
 *   sections { u64 offset, u64 size }: attributes, records, event types (obsolete)
 *   u64 x 4: bits of the features that are there; their sections, in the order of the bits, stand
 *   behind the records
 *
 * All integers are little-endian; of big-endian machines the magic is reversed: they are refused.
 * A size of 16 is the header of a pipe: all the rest is records then.
 */
#include "perfdata.h"
#include "tracedat.h"

#define HEADER	    104
#define PIPE_HEADER 16
#define ATTR_LEAST  64
#define ATTR_MOST   4096
#define MAX_ATTRS   65536u
#define MAX_LAYOUTS 64u
#define MAX_IDS	    65536u /* ranges */
#define IDS_AT_ONCE 512u
#define MAX_STRING  4096u
#define FEATURES    256

enum { TYPE_TRACEPOINT = 2 };
enum flag { SAMPLE_ID_ALL = 18, USE_CLOCKID = 25, WRITE_BACKWARD = 27 };

enum feature {
	TRACING_DATA = 1,
	HOSTNAME = 3,
	OSRELEASE = 4,
	VERSION = 5,
	ARCH = 6,
	NRCPUS = 7,
	CPUID = 9,
	COMPRESSED = 27,
	CLOCK_DATA = 29,
};

struct section {
	uint64_t at, size;
};

struct head {
	struct perfdata *p;
	struct kvmft_err *err;
	uint64_t attr_size;
	struct section attrs, data;
	uint64_t bits[FEATURES / 64]; /* of features */
	bool cut;	  /* perf did not end properly, or the end of the file is missing */
	bool pipe;	  /* attributes and features are records */
	bool use_clockid; /* not perf's own clock */
	uint32_t clockid;
	bool stacks;
	bool tracepoints, no_raw; /* they exist; some were recorded without what is needed */
	char *host, *release, *arch;
};

/* Whether it is complete. */
static bool section_inside(const struct perfdata *p, const struct section *s)
{
	return s->at <= p->size && s->size <= p->size - s->at;
}

/* ---- the header ---- */

static int section_read(struct cursor *c, struct section *s)
{
	return cur_u64(c, &s->at) || cur_u64(c, &s->size) ? -ENODATA : 0;
}

static int read_header(struct head *h)
{
	struct perfdata *p = h->p;
	struct section types;
	uint8_t b[HEADER];
	struct cursor c;
	uint64_t size;
	ssize_t n = full_pread(p->fd, b, sizeof(b), 0);

	if (n < 0)
		return (int)n;
	if (n && b[0] == '2')
		return err_set(h->err, EPROTONOSUPPORT, CAP_BIG_ENDIAN "perf script shows it");
	c = (struct cursor){ b, (size_t)n };
	if (cur_skip(&c, 8) || cur_u64(&c, &size))
		return err_set(h->err, EBADMSG, "cut in its first bytes");
	h->pipe = size == PIPE_HEADER;
	p->begin = PIPE_HEADER;
	p->end = p->size;
	if (h->pipe)
		return 0;
	if (cur_u64(&c, &h->attr_size) || section_read(&c, &h->attrs) ||
	    section_read(&c, &h->data) || section_read(&c, &types))
		return err_set(h->err, EBADMSG, "cut in its first bytes");
	for (size_t i = 0; i < ARRAY_SIZE(h->bits); i++)
		if (cur_u64(&c, &h->bits[i]))
			return err_set(h->err, EBADMSG, "cut in its first bytes");
	if (size < HEADER || h->attr_size < ATTR_LEAST + 16 || h->attr_size > ATTR_MOST ||
	    !section_inside(p, &h->attrs))
		return err_set(h->err, EBADMSG,
			       "its header is damaged (size %" PRIu64 ", attributes of %" PRIu64
			       " bytes)",
			       size, h->attr_size);
	h->cut = !h->data.size || !section_inside(p, &h->data);
	p->begin = MIN(h->data.at, p->size);
	p->end = h->cut ? p->size : h->data.at + h->data.size;
	return 0;
}

/* ---- features ---- */

static bool has_feature(const struct head *h, unsigned int f)
{
	return h->bits[f / 64] >> (f % 64) & 1;
}

/* u32 length and a text, as far as it exists; NULL: none. */
static char *get_string(struct cursor *c)
{
	const uint8_t *b;
	uint32_t n;

	if (cur_u32(c, &n))
		return NULL;
	n = (uint32_t)MIN((size_t)MIN(n, MAX_STRING), c->left);
	return cur_bytes(c, n, &b) ? NULL : xstrndup((const char *)b, n);
}

static int read_small(struct head *h, uint64_t f, const struct section *s)
{
	char **text = f == HOSTNAME    ? &h->host
		      : f == OSRELEASE ? &h->release
		      : f == ARCH      ? &h->arch
				       : NULL;
	struct capture *c = h->p->c;
	_cleanup_free_ char *value = NULL, *tool = NULL;
	uint8_t b[4 + MAX_STRING];
	ssize_t n = full_pread(h->p->fd, b, (size_t)MIN((uint64_t)sizeof(b), s->size), s->at);
	struct cursor cur = { b, n > 0 ? (size_t)n : 0 };
	uint32_t avail, online;
	uint64_t real, then;

	if (n < 0)
		return (int)n;
	if (f == CLOCK_DATA && !cur_skip(&cur, 8) && !cur_u64(&cur, &real) &&
	    !cur_u64(&cur, &then)) {
		c->has_real = true;
		c->real_add = (int64_t)(real - then);
	}
	if (f == NRCPUS && !cur_u32(&cur, &avail) && !cur_u32(&cur, &online)) {
		for (size_t i = c->ncpu; i < MIN(online, (uint32_t)CAPTURE_MAX_CPUS); i++)
			cap_cpu_at(c, i);
		return 0;
	}
	value = text || f == VERSION || f == CPUID ? get_string(&cur) : NULL;
	if (text) {
		free(*text);
		*text = value;
		value = NULL;
	}
	if (!value)
		return 0;
	if (f == CPUID) {
		value[strcspn(value, ",")] = '\0'; /* "GenuineIntel,6,143,8" */
		cap_set_str(&c->vendor, value);
	} else if (asprintf(&tool, "perf %s", value) >= 0) {
		cap_set_str(&c->tool, tool);
	}
	return 0;
}

/* As the head of a trace.dat, with a version of its own that says whether there are task names. */
static int read_tracing(struct head *h, const struct section *s)
{
	static const uint8_t magic[] = { 0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g' };
	struct capture *c = h->p->c;
	struct td t = { .c = c, .fd = h->p->fd, .size = s->at + s->size };
	uint8_t b[32], order, long_size;
	struct cursor cur;
	const uint8_t *p;
	const char *version;
	uint32_t page;
	uint64_t off;
	ssize_t n = full_pread(t.fd, b, (size_t)MIN((uint64_t)sizeof(b), s->size), s->at);

	if (n < 0)
		return (int)n;
	cur = (struct cursor){ b, (size_t)n };
	if (cur_bytes(&cur, sizeof(magic), &p) || memcmp(p, magic, sizeof(magic)) ||
	    cur_str(&cur, &version) || cur_u8(&cur, &order) || cur_u8(&cur, &long_size) ||
	    cur_u32(&cur, &page) || (long_size != 4 && long_size != 8) || order)
		return err_set(h->err, EBADMSG, "its event formats are damaged");
	c->long_size = long_size;
	off = s->at + (uint64_t)n - cur.left;
	(void)!td_read_blocks(&t, TD_TRACING_DATA - !strcmp(version, "0.5"), &off);
	return 0;
}

/* What section s of feature f says. */
static int feature_read(struct head *h, uint64_t f, const struct section *s)
{
	if (f < FEATURES)
		h->bits[f / 64] |= (uint64_t)1 << f % 64;
	return f == TRACING_DATA ? read_tracing(h, s) : read_small(h, f, s);
}

static int read_features(struct head *h)
{
	uint8_t b[16 * FEATURES];
	struct cursor index;
	ssize_t n;
	int ret = 0;

	if (h->cut || h->pipe)
		return 0;
	n = full_pread(h->p->fd, b, sizeof(b), h->p->end);
	if (n < 0)
		return (int)n;
	index = (struct cursor){ b, (size_t)n };
	for (unsigned int f = 0; f < FEATURES && !ret; f++) {
		struct section s;

		if (!has_feature(h, f))
			continue;
		if (section_read(&index, &s) || !section_inside(h->p, &s))
			h->cut = true;
		else
			ret = feature_read(h, f, &s);
	}
	return ret;
}

/* ---- attributes ---- */

static bool has_flag(uint64_t flags, enum flag bit)
{
	return flags >> bit & 1;
}

/* struct perf_event_attr, as far as present: which layout it asks for. */
static int take_attr(struct head *h, struct cursor c, uint32_t *which)
{
	struct perfdata *p = h->p;
	uint64_t config, period, flags = 0;
	struct pd_layout l = { 0 };
	uint32_t type, size;

	if (cur_u32(&c, &type) || cur_u32(&c, &size) || cur_u64(&c, &config) ||
	    cur_u64(&c, &period) || cur_u64(&c, &l.sample_type) || cur_u64(&c, &l.read_format) ||
	    cur_u64(&c, &flags))
		return -EBADMSG;
	if (has_flag(flags, WRITE_BACKWARD))
		return err_set(
			h->err, EOPNOTSUPP,
			"recorded with perf's option --overwrite, so its events are in reverse "
			"order: record without it");
	h->use_clockid |=
		has_flag(flags, USE_CLOCKID) && !cur_skip(&c, 44) && !cur_u32(&c, &h->clockid);
	l.id_all = has_flag(flags, SAMPLE_ID_ALL);
	l.tracepoint = type == TYPE_TRACEPOINT;
	pd_layout_places(&l);
	h->no_raw |= type == TYPE_TRACEPOINT && !l.tracepoint;
	h->tracepoints |= l.tracepoint;
	h->stacks |= l.tracepoint && (l.sample_type & PD_CALLCHAIN);
	for (*which = 0; *which < p->nlayout; ++*which)
		if (p->layout[*which].sample_type == l.sample_type &&
		    p->layout[*which].read_format == l.read_format &&
		    p->layout[*which].tracepoint == l.tracepoint &&
		    p->layout[*which].id_all == l.id_all)
			return 0;
	if (p->nlayout >= MAX_LAYOUTS)
		return -E2BIG;
	xarray_add(&p->layout, &p->nlayout, &p->layout_cap, &l, sizeof(l));
	return 0;
}

/* ... and where its ids are. */
static int read_attr(struct head *h, uint64_t i, uint32_t *which, struct section *ids)
{
	uint8_t b[ATTR_MOST];
	struct cursor end = { b + h->attr_size - 16, 16 };
	ssize_t n = full_pread(h->p->fd, b, h->attr_size, h->attrs.at + i * h->attr_size);

	if (n < 0 || (size_t)n != h->attr_size)
		return n < 0 ? (int)n : -EIO;
	return section_read(&end, ids)
		       ?: take_attr(h, (struct cursor){ b, h->attr_size - 16 }, which);
}

static int add_id(struct perfdata *p, uint64_t id, uint32_t layout)
{
	const struct pd_ids one = { .first = id, .last = id, .layout = layout };
	struct pd_ids *last = p->nids ? &p->ids[p->nids - 1] : NULL;

	if (last && last->layout == layout && id == last->last + 1) {
		last->last = id;
		return 0;
	}
	if (p->nids >= MAX_IDS)
		return -E2BIG;
	xarray_add(&p->ids, &p->nids, &p->ids_cap, &one, sizeof(one));
	return 0;
}

/* *room: bytes that ids may still have; without it, all events could claim the same ones. */
static int read_ids(struct perfdata *p, const struct section *s, uint32_t layout, uint64_t *room)
{
	uint8_t b[8 * IDS_AT_ONCE];
	int ret = 0;

	if (!section_inside(p, s) || s->size > *room)
		return -EBADMSG;
	*room -= s->size;
	for (uint64_t at = 0; at < s->size && !ret; at += sizeof(b)) {
		ssize_t n = full_pread(p->fd, b, (size_t)MIN((uint64_t)sizeof(b), s->size - at),
				       s->at + at);
		struct cursor c = { b, n > 0 ? (size_t)n : 0 };
		uint64_t id;

		ret = n < 0 ? (int)n : 0;
		while (!ret && !cur_u64(&c, &id))
			ret = add_id(p, id, layout);
	}
	return ret;
}

COMPARE_BY(ids_cmp, struct pd_ids, .first);

/* If samples differ, an id must identify them, at a place that they all share. */
static bool ids_agree(const struct perfdata *p)
{
	const struct pd_layout *a = &p->layout[0];

	for (size_t i = 0; i < p->nlayout; i++) {
		const struct pd_layout *l = &p->layout[i];

		if (l->sample.id == PD_NOWHERE || l->sample.id != a->sample.id ||
		    l->id_all != a->id_all ||
		    (l->id_all &&
		     l->trailer.size - l->trailer.id != a->trailer.size - a->trailer.id))
			return false;
	}
	return true;
}

/* An event of a pipe: its attributes, and ids. */
static int pipe_attr(struct head *h, struct cursor c)
{
	uint32_t which, size = c.left >= 8 ? load_u32(c.p + 4) ?: ATTR_LEAST : 0;
	const uint8_t *attr;
	uint64_t id;
	int ret;

	if (size < ATTR_LEAST || cur_bytes(&c, size, &attr))
		return -EBADMSG;
	ret = take_attr(h, (struct cursor){ attr, size }, &which);
	while (!ret && !cur_u64(&c, &id))
		ret = add_id(h->p, id, which);
	return ret;
}

/* Attributes, event formats and features, which are records among the others. */
static int pipe_records(struct head *h)
{
	struct perfdata *p = h->p;
	struct pd_record r;
	uint64_t f;
	int ret = 0;

	for (uint64_t at = p->begin; !ret; at += r.len) {
		struct section s;

		ret = pd_record(p, at, &r);
		if (ret <= 0)
			return ret == -EBADMSG ? 0 : ret; /* the scan will say so */
		ret = 0;
		if (r.type == PD_ATTR)
			ret = pipe_attr(h, r.body);
		if (r.type == PD_TRACING) {
			s = (struct section){ at + r.more_at, r.len - r.more_at };
			ret = feature_read(h, TRACING_DATA, &s);
		}
		if (r.type == PD_FEATURE && !cur_u64(&r.body, &f) && f != TRACING_DATA) {
			s = (struct section){ at + 16, r.len - 16 };
			ret = feature_read(h, f, &s);
		}
	}
	return ret;
}

static int read_attrs(struct head *h)
{
	struct perfdata *p = h->p;
	uint64_t n = h->pipe ? 0 : h->attrs.size / h->attr_size, room = p->size;
	struct section ids;
	uint32_t which;
	int ret = n > MAX_ATTRS ? -E2BIG : h->pipe ? pipe_records(h) : 0;

	for (uint64_t i = 0; i < n && !ret; i++)
		ret = read_attr(h, i, &which, &ids);
	if (!ret && p->nlayout > 1 && !ids_agree(p))
		return err_set(
			h->err, EBADMSG,
			"its samples have several layouts, and nothing says which has which");
	for (uint64_t i = 0; i < n && !ret && p->nlayout > 1; i++) {
		ret = read_attr(h, i, &which, &ids);
		ret = ret ?: read_ids(p, &ids, which, &room);
	}
	p->nids = p->nlayout > 1 ? p->nids : 0;
	array_sort(p->ids, p->nids, ids_cmp);
	if (ret == -E2BIG)
		return err_set(h->err, E2BIG,
			       "it has more events, or kinds of events, than kvmft reads");
	return ret;
}

/* ---- all of it ---- */

static int perfdata_check(const struct head *h)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
	const struct capture *c = h->p->c;
	const char *arch = h->arch;

	/* KVM's events on others have other fields, or unknown ones. */
	if (arch && strcmp(arch, "x86_64") && strcmp(arch, "aarch64") &&
	    !(strlen(arch) == 4 && arch[0] == 'i' && !strcmp(arch + 2, "86")))
		return err_set(
			h->err, EOPNOTSUPP,
			"recorded on %s: kvmft reads only perf.data files of x86 and aarch64",
			/* it may be any bytes */
			*arch && !arch[strspn(arch, plain)] ? arch : "another architecture");
	if (!h->tracepoints && h->no_raw)
		return err_set(
			h->err, EOPNOTSUPP,
			"its tracepoints were recorded without their fields, time or CPU: record with "
			"perf record -R -T -e 'kvm:*' -a");
	if (!h->tracepoints)
		return err_set(
			h->err, ENODATA,
			"it holds no tracepoints, only other perf events: record with perf record "
			"-e 'kvm:*' -a");
	if (!c->nformat && h->cut)
		return err_set(
			h->err, ENODATA,
			"its end, where perf writes the event formats, is missing, so nothing in "
			"it can be decoded: perf was killed, or the file was truncated; stop perf "
			"with Ctrl-C or SIGINT");
	if (!c->nformat)
		return err_set(h->err, ENODATA, "it holds no event formats (tracing data)");
	return 0;
}

/* What ftrace calls the clocks of perf record -k. */
static const char *perf_clock_name(const struct head *h)
{
	static const char *const names[] = {
		[0] = "realtime", [1] = "mono", [4] = "mono_raw", [7] = "boot", [11] = "tai"
	};

	if (!h->use_clockid)
		return "perf";
	return h->clockid < ARRAY_SIZE(names) && names[h->clockid] ? names[h->clockid] : "unknown";
}

COMPARE(stream_cmp, const struct pd_stream *, ORDER((*x)->cpu, (*y)->cpu));

/*
 * In the order of CPUs, whatever order they were seen in: at equal times the first one's event
 * comes first.
 */
static void add_streams(struct perfdata *p)
{
	_cleanup_free_ struct pd_stream **order =
		xcalloc(p->nstream + 1, sizeof(struct pd_stream *));

	for (size_t i = 0; i < p->nstream; i++)
		order[i] = &p->stream[i];
	array_sort(order, p->nstream, stream_cmp);
	for (size_t i = 0; i < p->nstream; i++) {
		const struct pd_stream *st = order[i];
		struct cap_extent e = { .fd = p->fd,
					.off = (uint64_t)(st - p->stream),
					.len = st->nblock * p->c->subbuf_size };

		cap_stream_extend(p->c, cap_stream_add(p->c, st->cpu, ""), &e);
	}
}

static int emit(void *arg __unused_arg, const void *buf __unused_arg)
{
	return 0; /* it stays where it was made */
}

static const char stack_format[] =
	"name: kernel_stack\nID: 4\nformat:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
	"\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n"
	"\tfield:unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;\n\n"
	"print fmt: \"%d\", REC->size\n";

static int read_all(struct head *h)
{
	struct perfdata *p = h->p;
	struct capture *c = p->c;
	_cleanup_free_ char *uname = NULL;
	struct subbuf_geom g;
	int ret = read_header(h);

	ret = ret ?: read_attrs(h);
	ret = ret ?: read_features(h);
	ret = ret ?: perfdata_check(h);
	if (ret)
		return ret;
	p->w.g.long_size = c->long_size;
	p->w.g.header = c->page_header = 8 + c->long_size;
	ret = has_feature(h, COMPRESSED) ? pd_unpack(p, h->err) : 0;
	ret = ret ?: pd_scan(p, h->err);
	if (ret)
		return ret;
	if (h->stacks)
		cap_format_add(c, "ftrace", "kernel_stack", stack_format, strlen(stack_format));
	c->complete &= !h->cut;
	if (h->cut)
		cap_note(c, "the end is missing: perf was killed, or the file was cut");
	c->line.known &= !h->use_clockid; /* perf's own clock, if it is a line over the TSC */
	c->has_real = h->use_clockid && (c->has_real || !h->clockid);
	if (c->line.known)
		c->tsc_khz = cap_khz(c->line.line.mult, c->line.line.shift);
	if (h->release &&
	    asprintf(&uname, "Linux %s %s %s", h->host ?: "-", h->release, h->arch ?: "") < 0)
		memory_out();
	cap_set_str(&c->uname, uname);
	cap_set_str(&c->clock, perf_clock_name(h));
	c->subbuf_size = p->w.g.size;
	p->made_stream = UINT32_MAX;
	g = p->w.g;
	xdone(subbuf_writer_init(&p->w, &g, emit, NULL));
	cap_priv(c)->maker = (struct cap_maker){ .make = pd_make, .free = pd_free, .arg = p };
	add_streams(p);
	return 0;
}

int cap_perfdata_read(struct capture *c, int fd, uint64_t size, struct kvmft_err *err)
{
	struct perfdata *p = xcalloc(1, sizeof(*p));
	struct head h = { .p = p, .err = err };
	int ret;

	p->c = c;
	p->fd = fd;
	p->size = size;
	c->is_perfdata = true;
	c->version = 2;
	c->complete = true;
	ret = read_all(&h);
	free(h.host);
	free(h.release);
	free(h.arch);
	if (ret && !cap_priv(c)->maker.arg)
		pd_free(p);
	if (!ret)
		cap_priv(c)->fd = fd;
	return ret;
}
