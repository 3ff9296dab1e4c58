/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata.c: reading a perf.data of `perf record` or `perf kvm stat record`.
 *
 *   "PERFILE2", u64 size of the header, u64 size of an attribute with its ids' section
 *   sections { u64 offset, u64 size }: attributes, records, event types (obsolete)
 *   u64 x 4: bits of the features that are there; their sections, in the order of the bits, stand
 *   behind the records
 *
 * All integers are little-endian; of big-endian machines the magic is reversed: they are refused.
 * A size of 16 is the header of a pipe: all the rest is records then.
 *
 *   u32 type, u16 misc, u16 size (of all of it), body
 *
 * The body of a sample is what its event's sample_type asks for; anything after raw data is ignored
 * here. Other records have their own kind of body, with some of the same facts at its end if the
 * event asks for them. The event is identified by an id, at a place that all events share.
 *
 * A tracepoint's samples hold the same record as ftrace's ring; their fields are described by the
 * feature "tracing data", which begins like a trace.dat. perf writes it at its end: without it
 * nothing can be decoded. All samples go into an index when the file is opened; sub-buffers of
 * them, as the kernel would have made, are made when they are read, so all code that reads a
 * capture can read them.
 */
#include "tracedat.h"

#define RECORD_HEAD 8
#define RECORD_MAX  65535u
#define PIPE_HEADER 16
#define ATTR_LEAST  64
#define ATTR_MOST   4096
#define MAX_ATTRS   65536u
#define MAX_LAYOUTS 64u
#define MAX_IDS	    (1u << 19)
#define IDS_AT_ONCE 512u
#define MAX_STRING  4096u
#define FEATURES    256
#define WINDOW	    (128u << 10) /* holds a record of any size */
#define MAX_TASKS   (3u << 14)
#define MAX_COMMS   (2u << 14) /* ... more of which may be known only by name */
#define SUBBUF_MIN  (16u << 10)
#define FAR_OFF	    (1ull << 46) /* bytes: pd_entry has no more */
#define MAX_PLAIN   ((size_t)1 << 30)
#define SPAN_MAX    (1ull << 58) /* ns: an event cannot hold a larger delta */
#define STACK_ID    4		 /* ftrace:kernel_stack, which perf never records itself */
#define NOWHERE	    UINT8_MAX

/*
 * Types of records that mean something here (include/uapi/linux/perf_event.h; from 64 on perf's
 * own).
 */
enum pd_type {
	PD_LOST = 2,
	PD_COMM = 3,
	PD_FORK = 7,
	PD_SAMPLE = 9,
	PD_LOST_SAMPLES = 13,
	PD_ATTR = 64,
	PD_TRACING = 66,
	PD_ID_INDEX = 69,
	PD_AUXTRACE = 71,
	PD_TIME_CONV = 79,
	PD_FEATURE = 80,
	PD_COMPRESSED = 81,
	PD_COMPRESSED2 = 83,
};

enum feature {
	TRACING_DATA = 1,
	HOSTNAME = 3,
	OSRELEASE = 4,
	VERSION = 5,
	ARCH = 6,
	NRCPUS = 7,
	CPUID = 9,
	DIR_FORMAT = 24,
	COMPRESSED = 27,
	CLOCK_DATA = 29,
};

/* struct perf_event_attr: its type; bits of its flags, of sample_type and of read_format */
enum { TYPE_TRACEPOINT = 2 };
enum { SAMPLE_ID_ALL = 18, USE_CLOCKID = 25, WRITE_BACKWARD = 27 };
enum {
	IP = 1 << 0,
	TID = 1 << 1,
	TIME = 1 << 2,
	ADDR = 1 << 3,
	READ = 1 << 4,
	CALLCHAIN = 1 << 5,
	ID = 1 << 6,
	CPU = 1 << 7,
	PERIOD = 1 << 8,
	STREAM_ID = 1 << 9,
	RAW = 1 << 10,
	IDENTIFIER = 1 << 16,
};
enum { TIME_ENABLED, TIME_RUNNING, READ_ID, GROUP, LOST };

/* Where the facts of a record are, in bytes from their beginning; NOWHERE: not in this one. */
struct pd_places {
	uint8_t id, tid, time, cpu;
	uint8_t size; /* of all of them */
};

/* How the records of an event are laid out, as its attributes say. */
struct pd_layout {
	uint64_t sample_type, read_format;
	bool tracepoint; /* the raw data of its samples are an ftrace record */
	bool id_all;	 /* other records have facts at their end */
	struct pd_places sample, trailer;
};

struct pd_facts {
	uint64_t id, time;
	int32_t pid, tid;
	uint32_t cpu; /* UINT32_MAX: not there */
};

struct pd_sample {
	struct pd_facts f;
	/* Valid until the next record is loaded. */
	const uint8_t *raw, *stack; /* stack: return addresses in the kernel, 8 bytes each */
	uint32_t raw_len, nstack;
};

struct pd_record {
	uint32_t type;
	uint16_t misc;
	struct cursor body;
	uint64_t at, len, more_at; /* in the file; of all of it; of what its size leaves out */
};

/*
 * A sample of a stream, or what was lost there. perf's records are not quite in time order: an
 * event that interrupts the recording of another one is stored before it, and rings of threads
 * follow each other. So the entries of a stream are sorted.
 */
struct pd_entry {
	uint64_t time;
	/* In the file; and the bytes that it may take in a sub-buffer, 0: a record PD_LOST. */
	uint64_t off : 46, cost : 18;
};

struct pd_stream {
	struct pd_entry *entry; /* by time */
	size_t n, cap;
	size_t *block; /* the first entry of each sub-buffer */
	size_t nblock, block_cap;
	uint64_t last, lost; /* time; by its LOST records */
	int32_t tid;	     /* of the sample before, while scanning */
	bool mixed;	     /* not in their order yet */
};

struct section {
	uint64_t at, size;
};

struct perfdata {
	struct capture *c;
	int fd;
	uint64_t size;	     /* of the file */
	uint64_t begin, end; /* of its records, in the file or, unpacked, in the window */
	uint8_t *window;     /* what is in memory */
	uint64_t window_at;
	size_t window_len;
	struct pd_layout *layout;
	size_t nlayout, layout_cap;
	struct u64map layout_of; /* by id of the event; only with several layouts */
	struct pd_stream *stream[CAPTURE_MAX_CPUS];
	struct subbuf_writer w;
	uint32_t made_stream; /* what w.buf holds */
	uint64_t made;

	/* while it is opened */
	struct kvmft_err *err;
	struct {
		uint64_t magic, size, attr_size;
		struct section attrs, data, types;
		uint64_t bits[FEATURES / 64]; /* of features */
	} head;
	bool cut;	  /* perf did not end properly, or the end of the file is missing */
	bool pipe;	  /* attributes and features are records */
	bool use_clockid; /* not perf's own clock */
	uint32_t clockid;
	bool stacks, tracepoints, no_raw; /* no_raw: some were recorded without what is needed */
	char *host, *release, *arch;
	uint32_t most;		    /* bytes that an event may take */
	struct u64map cpu_of;	    /* by id of the event */
	uint64_t broken, elsewhere; /* samples; and those of CPUs or threads beyond the limit */
	uint64_t aux;		    /* records of other data */
	uint64_t lost_nowhere, counted_all;
	uint64_t counted[CAPTURE_MAX_CPUS]; /* what was lost, by the counters at the end */
};

static void add_capped(uint64_t *sum, uint64_t n)
{
	*sum += MIN(n, UINT64_MAX - *sum);
}

/* ---- records ---- */

/*
 * n bytes of the file in memory: their address; NULL: they cannot be read, *ret says why. Where the
 * file is read on, as much as the window holds; elsewhere no more than a page, because it may jump.
 * The caller knows that they end by p->end.
 */
static const uint8_t *pd_load(struct perfdata *p, uint64_t at, size_t n, int *ret)
{
	uint64_t in = at - p->window_at;
	size_t ahead = MAX(n, in <= p->window_len ? (size_t)WINDOW : (size_t)4096);
	ssize_t got;

	if (in <= p->window_len && n <= p->window_len - in)
		return p->window + in;
	p->window = p->window ?: xmalloc(WINDOW);
	got = full_pread(p->fd, p->window, (size_t)MIN((uint64_t)ahead, p->end - at), at);
	*ret = got < 0 ? (int)got : -EIO;
	p->window_at = at;
	p->window_len = got > 0 ? (size_t)got : 0;
	return p->window_len >= n ? p->window : NULL; /* else the file shrank */
}

/* The record at `at`, which must end by p->end. 1; 0 at the end; -EBADMSG: not a record; -errno. */
static int pd_record(struct perfdata *p, uint64_t at, struct pd_record *r)
{
	const uint64_t left = p->end - at;
	uint64_t more = UINT64_MAX;
	const uint8_t *b;
	size_t size;
	int ret = 0;

	if (at >= p->end)
		return 0;
	if (left < RECORD_HEAD)
		return -EBADMSG;
	b = pd_load(p, at, RECORD_HEAD, &ret);
	if (!b)
		return ret;
	size = load_u16(b + 6);
	if (size < RECORD_HEAD || size > left)
		return -EBADMSG;
	b = pd_load(p, at, size, &ret);
	if (!b)
		return ret;
	*r = (struct pd_record){ .type = load_u32(b),
				 .misc = load_u16(b + 4),
				 .body = { b + RECORD_HEAD, size - RECORD_HEAD },
				 .at = at,
				 .len = size,
				 .more_at = size };
	/* Followed by data that the size does not include. */
	if (r->type != PD_AUXTRACE && r->type != PD_TRACING)
		return 1;
	if (r->type == PD_TRACING && r->body.left >= 4)
		more = ((uint64_t)load_u32(r->body.p) + 7) & ~(uint64_t)7;
	else if (r->body.left >= 8)
		more = load_u64(r->body.p);
	if (more > left - size)
		return -EBADMSG;
	r->len += more;
	return 1;
}

/* Each is 8 bytes long, and there if its bit is; `before`: those that would stand before it. */
static uint8_t id_off(uint64_t type, uint64_t is, uint64_t before)
{
	return type & is ? (uint8_t)(8 * __builtin_popcountll(type & before)) : NOWHERE;
}

/*
 * In a sample: IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD; at the end of another
 * record: TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER.
 */
static void layout_places(struct pd_layout *l)
{
	const uint64_t type = l->sample_type, t = l->id_all ? type : 0;
	const uint64_t to_addr = IDENTIFIER | IP | TID | TIME | ADDR, ids = ID | STREAM_ID;
	const uint64_t all = TID | TIME | ids | CPU;

	l->sample = (struct pd_places){ .id = type & IDENTIFIER ? 0 : id_off(type, ID, to_addr),
					.tid = id_off(type, TID, IDENTIFIER | IP),
					.time = id_off(type, TIME, IDENTIFIER | IP | TID),
					.cpu = id_off(type, CPU, to_addr | ids),
					.size = id_off(~0ull, 1, type & (to_addr | all | PERIOD)) };
	l->trailer = (struct pd_places){ .id = t & IDENTIFIER ? id_off(~0ull, 1, t & all)
							      : id_off(t, ID, TID | TIME),
					 .tid = id_off(t, TID, 0),
					 .time = id_off(t, TIME, TID),
					 .cpu = id_off(t, CPU, TID | TIME | ids),
					 .size = id_off(~0ull, 1, t & (all | IDENTIFIER)) };
	l->tracepoint &= (type & RAW) && (type & TIME) && (type & CPU);
}

/* With an id that no event has: the first event, as in perf. b: where the id is. */
static const struct pd_layout *layout_at(const struct perfdata *p, const uint8_t *b)
{
	uint64_t at = 0;

	(void)u64map_get(&p->layout_of, load_u64(b), &at);
	return &p->layout[at];
}

/* b: at->size bytes. */
static struct pd_facts facts_at(const struct pd_places *at, const uint8_t *b)
{
	const uint64_t thread = at->tid == NOWHERE ? 0 : load_u64(b + at->tid);

	return (struct pd_facts){ .id = at->id == NOWHERE ? 0 : load_u64(b + at->id),
				  .time = at->time == NOWHERE ? 0 : load_u64(b + at->time),
				  .pid = (int32_t)thread,
				  .tid = (int32_t)(thread >> 32),
				  .cpu = at->cpu == NOWHERE ? UINT32_MAX : load_u32(b + at->cpu) };
}

/* 1; 0: an event that is not a tracepoint; -EBADMSG. */
static int pd_sample(const struct perfdata *p, const struct pd_record *r, struct pd_sample *s)
{
	const struct pd_layout *l = &p->layout[0];
	struct cursor c = r->body;
	const uint8_t *b;
	uint64_t n = 1, at;

	if (p->layout_of.n) { /* all layouts have the id at the same place */
		if (c.left < l->sample.id + 8u)
			return -EBADMSG;
		l = layout_at(p, c.p + l->sample.id);
	}
	if (!l->tracepoint)
		return 0;
	if (cur_bytes(&c, l->sample.size, &b))
		return -EBADMSG;
	s->f = facts_at(&l->sample, b);
	/* Counters: their times, then for each a value, an id, and how often it was lost. */
	if (l->sample_type & READ) {
		const uint64_t format = l->read_format;
		uint64_t times = (format >> TIME_ENABLED & 1) + (format >> TIME_RUNNING & 1);
		uint64_t each = 1 + (format >> READ_ID & 1) + (format >> LOST & 1);

		if (((format >> GROUP & 1) && cur_u64(&c, &n)) || n > c.left / 8 ||
		    cur_skip(&c, (size_t)(8 * (times + n * each))))
			return -EBADMSG;
	}
	/*
	 * The part of a chain of callers that is the kernel's. Its n addresses are divided by
	 * marks, which are the last 4095 numbers that there are, in what is the kernel's, the
	 * program's and the guests'.
	 */
	s->nstack = 0;
	if (l->sample_type & CALLCHAIN) {
		bool kernel = false;

		if (cur_u64(&c, &n) || n > c.left / 8)
			return -EBADMSG;
		for (b = c.p; n--; b += 8) {
			(void)!cur_u64(&c, &at);
			if (at >= (uint64_t)-4095)
				kernel = at == (uint64_t)-128 && !s->nstack;
			s->stack = s->nstack ? s->stack : b;
			s->nstack += kernel && at < (uint64_t)-4095;
		}
	}
	if (cur_u32(&c, &s->raw_len) || cur_bytes(&c, s->raw_len, &s->raw) || s->raw_len < 8)
		return -EBADMSG; /* the fields that all events have take 8 bytes */
	return 1;
}

/* The facts at the end of a record that is not a sample; what is before them is then its body. */
static struct pd_facts pd_trailer(const struct perfdata *p, struct pd_record *r)
{
	const struct pd_layout *l = &p->layout[0];
	const size_t back = (size_t)l->trailer.size - l->trailer.id;

	if (p->layout_of.n && l->id_all && r->body.left >= back)
		l = layout_at(p, r->body.p + r->body.left - back);
	if (r->body.left < l->trailer.size)
		return (struct pd_facts){ .cpu = UINT32_MAX };
	r->body.left -= l->trailer.size;
	return facts_at(&l->trailer, r->body.p + r->body.left);
}

/* ---- features ---- */

static bool section_inside(const struct perfdata *p, const struct section *s)
{
	return s->at <= p->size && s->size <= p->size - s->at;
}

static int read_header(struct perfdata *p)
{
	const ssize_t n = full_pread(p->fd, &p->head, sizeof(p->head), 0);

	if (n < 0)
		return (int)n;
	if (n && (uint8_t)p->head.magic == '2')
		return err_set(p->err, EPROTONOSUPPORT, CAP_BIG_ENDIAN "perf script shows it");
	p->pipe = p->head.size == PIPE_HEADER;
	if (n < (p->pipe ? PIPE_HEADER : (ssize_t)sizeof(p->head)))
		return err_set(p->err, EBADMSG, "cut in its first bytes");
	p->begin = PIPE_HEADER;
	p->end = p->size;
	if (p->pipe) {
		memset(p->head.bits, 0, sizeof(p->head.bits));
		return 0;
	}
	if (p->head.size < sizeof(p->head) || p->head.attr_size < ATTR_LEAST + 16 ||
	    p->head.attr_size > ATTR_MOST || !section_inside(p, &p->head.attrs))
		return err_set(p->err, EBADMSG,
			       "its header is damaged (size %" PRIu64 ", attributes of %" PRIu64
			       " bytes)",
			       p->head.size, p->head.attr_size);
	p->cut = !p->head.data.size || !section_inside(p, &p->head.data);
	p->begin = MIN(p->head.data.at, p->size);
	p->end = p->cut ? p->size : p->head.data.at + p->head.data.size;
	return 0;
}

static bool has_feature(const struct perfdata *p, unsigned int f)
{
	return p->head.bits[f / 64] >> (f % 64) & 1;
}

/* Most are u32 length and a text, which may be cut. */
static int read_small(struct perfdata *p, uint64_t f, const struct section *s)
{
	char **const text = f == HOSTNAME    ? &p->host
			    : f == OSRELEASE ? &p->release
			    : f == ARCH	     ? &p->arch
					     : NULL;
	struct capture *c = p->c;
	char *value;
	uint8_t b[4 + MAX_STRING];
	const ssize_t n = full_pread(p->fd, b, (size_t)MIN((uint64_t)sizeof(b), s->size), s->at);

	if (n < 0)
		return (int)n;
	if (f == CLOCK_DATA && n >= 24) {
		c->has_real = true;
		c->real_add = (int64_t)(load_u64(b + 8) - load_u64(b + 16));
	}
	for (size_t i = c->ncpu; f == NRCPUS && n >= 8; i++) { /* may be, are online */
		if (i >= MIN(load_u32(b + 4), (uint32_t)CAPTURE_MAX_CPUS))
			break;
		cap_cpu_at(c, i);
	}
	if (n < 4 || (!text && f != VERSION && f != CPUID))
		return 0;
	value = xstrndup((const char *)b + 4, MIN((size_t)load_u32(b), (size_t)n - 4));
	if (text) {
		free(*text);
		*text = value;
		return 0;
	}
	if (f == CPUID)
		value[strcspn(value, ",")] = '\0'; /* "GenuineIntel,6,143,8" */
	cap_set_str(f == CPUID ? &c->vendor : &c->tool,
		    f == CPUID ? value : TEXTF("perf %s", value));
	free(value);
	return 0;
}

/* As the head of a trace.dat, with a version of its own that says whether there are task names. */
static int read_tracing(struct perfdata *p, const struct section *s)
{
	static const uint8_t magic[] = { 0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g' };
	struct td t = { .c = p->c, .fd = p->fd, .size = s->at + s->size };
	uint8_t b[32], order, long_size;
	struct cursor cur;
	const uint8_t *is;
	const char *version;
	uint64_t off;
	ssize_t n = full_pread(t.fd, b, (size_t)MIN((uint64_t)sizeof(b), s->size), s->at);

	if (n < 0)
		return (int)n;
	cur = (struct cursor){ b, (size_t)n };
	if (cur_bytes(&cur, sizeof(magic), &is) || memcmp(is, magic, sizeof(magic)) ||
	    cur_str(&cur, &version) || cur_u8(&cur, &order) || cur_u8(&cur, &long_size) ||
	    cur_skip(&cur, 4) || (long_size != 4 && long_size != 8) || order)
		return err_set(p->err, EBADMSG, "its event formats are damaged");
	p->c->long_size = long_size;
	off = s->at + (uint64_t)n - cur.left;
	(void)!td_read_blocks(&t, TD_TRACING_DATA - !strcmp(version, "0.5"), &off);
	return 0;
}

/* What section s of feature f says. */
static int feature_read(struct perfdata *p, uint64_t f, const struct section *s)
{
	if (f < FEATURES)
		p->head.bits[f / 64] |= (uint64_t)1 << f % 64;
	return f == TRACING_DATA ? read_tracing(p, s) : read_small(p, f, s);
}

static int read_features(struct perfdata *p)
{
	struct section s[FEATURES];
	ssize_t n = p->cut || p->pipe ? 0 : full_pread(p->fd, s, sizeof(s), p->end);
	size_t at = 0;
	int ret = (int)MIN(n, (ssize_t)0);

	for (unsigned int f = 0; f < FEATURES && !p->cut && !p->pipe && !ret; f++) {
		if (!has_feature(p, f))
			continue;
		if ((++at) * sizeof(*s) > (size_t)n || !section_inside(p, &s[at - 1]))
			p->cut = true;
		else
			ret = feature_read(p, f, &s[at - 1]);
	}
	return ret;
}

/* ---- attributes ---- */

/* struct perf_event_attr, of ATTR_LEAST bytes or more: which layout it asks for. */
static int attr_take(struct perfdata *p, const uint8_t *b, size_t size, uint64_t *which)
{
	const uint64_t flags = load_u64(b + 40);
	const bool tracepoint = load_u32(b) == TYPE_TRACEPOINT;
	struct pd_layout l = { .sample_type = load_u64(b + 24),
			       .read_format = load_u64(b + 32),
			       .id_all = flags >> SAMPLE_ID_ALL & 1,
			       .tracepoint = tracepoint };

	if (flags >> WRITE_BACKWARD & 1)
		return err_set(
			p->err, EOPNOTSUPP,
			"recorded with perf's option --overwrite, so its events are in reverse "
			"order: record without it");
	if ((flags >> USE_CLOCKID & 1) && size >= 96) {
		p->use_clockid = true;
		p->clockid = load_u32(b + 92);
	}
	layout_places(&l);
	p->no_raw |= tracepoint && !l.tracepoint;
	p->tracepoints |= l.tracepoint;
	p->stacks |= l.tracepoint && (l.sample_type & CALLCHAIN);
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

static int ids_take(struct perfdata *p, struct cursor c, uint64_t which)
{
	uint64_t id;

	while (!cur_u64(&c, &id)) {
		if (p->layout_of.n >= MAX_IDS)
			return -E2BIG;
		xu64map_put(&p->layout_of, id, which);
	}
	return 0;
}

/* *room: bytes that ids may still have; without it, all events could claim the same ones. */
static int read_ids(struct perfdata *p, const struct section *s, uint64_t which, uint64_t *room)
{
	uint8_t b[8 * IDS_AT_ONCE];
	int ret = 0;

	if (!section_inside(p, s) || s->size > *room)
		return -EBADMSG;
	*room -= s->size;
	for (uint64_t at = 0; at < s->size && !ret; at += sizeof(b)) {
		ssize_t n = full_pread(p->fd, b, (size_t)MIN((uint64_t)sizeof(b), s->size - at),
				       s->at + at);

		ret = n < 0 ? (int)n : ids_take(p, (struct cursor){ b, (size_t)n }, which);
	}
	return ret;
}

/* All attributes; with room, their ids, too. */
static int file_attrs(struct perfdata *p, uint64_t *room)
{
	const size_t size = p->head.attr_size;
	const uint64_t n = p->head.attrs.size / size;
	int ret = n > MAX_ATTRS ? -E2BIG : 0;

	for (uint64_t i = 0; i < n && !ret; i++) {
		uint8_t b[ATTR_MOST];
		struct section ids;
		uint64_t which;
		ssize_t got = full_pread(p->fd, b, size, p->head.attrs.at + i * size);

		if (got != (ssize_t)size)
			return got < 0 ? (int)got : -EIO;
		memcpy(&ids, b + size - sizeof(ids), sizeof(ids));
		ret = attr_take(p, b, size - sizeof(ids), &which);
		ret = ret ?: room ? read_ids(p, &ids, which, room) : 0;
	}
	return ret;
}

/* Attributes with ids, event formats and features, which are records among the others. */
static int pipe_records(struct perfdata *p)
{
	struct pd_record r;
	int ret = 0;

	for (uint64_t at = p->begin; !ret; at += r.len) {
		struct section s;
		const uint8_t *b;
		uint64_t f, size;

		ret = pd_record(p, at, &r);
		if (ret <= 0)
			return ret == -EBADMSG ? 0 : ret; /* the scan will say so */
		ret = 0;
		if (r.type == PD_ATTR) {
			size = r.body.left >= 8 ? load_u32(r.body.p + 4) ?: ATTR_LEAST : 0;
			if (size < ATTR_LEAST || cur_bytes(&r.body, size, &b))
				return -EBADMSG;
			ret = attr_take(p, b, size, &f);
			ret = ret ?: ids_take(p, r.body, f);
		} else if (r.type == PD_TRACING) {
			s = (struct section){ at + r.more_at, r.len - r.more_at };
			ret = feature_read(p, TRACING_DATA, &s);
		} else if (r.type == PD_FEATURE && !cur_u64(&r.body, &f) && f != TRACING_DATA) {
			s = (struct section){ at + 16, r.len - 16 };
			ret = feature_read(p, f, &s);
		}
	}
	return ret;
}

static int read_attrs(struct perfdata *p)
{
	uint64_t room = p->size;
	int ret = p->pipe ? pipe_records(p) : file_attrs(p, NULL);
	bool agree = true;

	/* If samples differ, an id must identify them, at a place that they all share. */
	for (size_t i = 0; i < p->nlayout; i++) {
		const struct pd_layout *l = &p->layout[i], *a = &p->layout[0];

		agree &= l->sample.id != NOWHERE && l->sample.id == a->sample.id &&
			 l->id_all == a->id_all &&
			 (!l->id_all ||
			  l->trailer.size - l->trailer.id == a->trailer.size - a->trailer.id);
	}
	if (!ret && p->nlayout > 1 && !agree)
		return err_set(
			p->err, EBADMSG,
			"its samples have several layouts, and nothing says which has which");
	if (!ret && p->nlayout > 1 && !p->pipe)
		ret = file_attrs(p, &room);
	if (p->nlayout < 2)
		u64map_free(&p->layout_of);
	if (ret == -E2BIG)
		return err_set(p->err, E2BIG,
			       "it has more events, or kinds of events, than kvmft reads");
	return ret;
}

/* ---- samples ---- */

/* NULL: its number is too high. */
static struct pd_stream *stream_of(struct perfdata *p, uint32_t cpu)
{
	if (cpu >= CAPTURE_MAX_CPUS)
		return NULL;
	p->stream[cpu] = p->stream[cpu] ?: xcalloc(1, sizeof(struct pd_stream));
	return p->stream[cpu];
}

static void entry_add(struct pd_stream *st, const struct pd_record *r, uint64_t time, uint32_t cost)
{
	const struct pd_entry e = { .time = time,
				    .off = r->at & (FAR_OFF - 1),
				    .cost = cost & ((1u << 18) - 1) };

	st->mixed |= st->n && time < st->entry[st->n - 1].time;
	xarray_add(&st->entry, &st->n, &st->cap, &e, sizeof(e));
}

/* The most bytes that a sample takes: for an event, two words of header, two of a time extend. */
static uint32_t pd_cost(const struct pd_sample *s)
{
	return 16 + ((s->raw_len + 3) & ~3u) + (s->nstack ? 32 + 8 * s->nstack : 0);
}

/* A task, unless there are `most`: a hostile file must not take all memory. */
static void task_put(struct capture *c, size_t most, uint32_t pid, uint32_t tid, const char *comm)
{
	if ((int32_t)pid > 0 && (int32_t)tid > 0 &&
	    (c->ntask < most || u64map_get(&cap_priv(c)->task_by_tid, tid, NULL)))
		cap_task_add(c, (int32_t)tid, (int32_t)pid, comm, comm != NULL);
}

static void scan_sample(struct perfdata *p, struct pd_record *r)
{
	struct pd_stream *st;
	struct pd_sample smp;
	uint32_t cost;
	int ret = pd_sample(p, r, &smp);

	if (ret <= 0) {
		p->broken += ret < 0;
		return;
	}
	st = stream_of(p, smp.f.cpu);
	if (!st) {
		p->elsewhere++;
		return;
	}
	cost = pd_cost(&smp);
	p->most = MAX(p->most, cost);
	st->last = MAX(st->last, smp.f.time);
	entry_add(st, r, smp.f.time, cost);
	if (smp.f.tid == st->tid)
		return;
	st->tid = smp.f.tid;
	/* The event differs from perf if the thread ran in another PID namespace. */
	if ((int32_t)load_u32(smp.raw + 4) == smp.f.tid)
		task_put(p->c, MAX_TASKS, (uint32_t)smp.f.pid, (uint32_t)smp.f.tid, NULL);
}

/* ---- other records ---- */

static uint64_t lost_count(const struct pd_record *r)
{
	return r->body.left < 16 ? 0 : load_u64(r->body.p + 8);
}

static void scan_lost(struct perfdata *p, struct pd_record *r)
{
	const struct pd_facts f = pd_trailer(p, r);
	struct pd_stream *st = stream_of(p, f.cpu);
	const uint64_t count = lost_count(r);

	if (!st) {
		p->lost_nowhere += MAX(count, (uint64_t)1);
		return;
	}
	add_capped(&st->lost, count);
	entry_add(st, r, MAX(f.time, st->last), 0); /* after what is before it in the file */
}

/*
 * PD_COMM: pid, tid, name; NUL and filling behind it. PD_FORK: pid, ppid, tid, ptid: the new thread
 * has the name of the old one.
 */
static void scan_task(struct perfdata *p, struct pd_record *r)
{
	const bool fork = r->type == PD_FORK;
	uint32_t pid, tid, ptid;
	const char *comm = NULL;
	const struct cap_task *parent;

	if (!fork)
		(void)pd_trailer(p, r);
	if (cur_u32(&r->body, &pid) || (fork && cur_skip(&r->body, 4)) || cur_u32(&r->body, &tid) ||
	    (fork ? cur_u32(&r->body, &ptid) : cur_str(&r->body, &comm)))
		return;
	parent = fork && tid != ptid ? cap_task(p->c, (int32_t)ptid) : NULL;
	task_put(p->c, MAX_COMMS, pid, tid, parent ? parent->comm : comm);
}

/* All records, once. */
static int scan_records(struct perfdata *p)
{
	uint64_t at = p->begin, n, id, cpu, shift, mult;
	struct pd_record r;
	int ret = 0;

	if (p->end > FAR_OFF)
		return err_set(p->err, EFBIG, "larger than 64 TiB");
	for (; (ret = pd_record(p, at, &r)) > 0; at += r.len) {
		switch (r.type) {
		case PD_SAMPLE: scan_sample(p, &r); break;
		case PD_LOST: scan_lost(p, &r); break;
		/*
		 * A counter, read when perf ended: it includes the samples that PD_LOST reports,
		 * and those not followed by such a record. What a filter dropped (bit 15) is no
		 * loss.
		 */
		case PD_LOST_SAMPLES:
			id = pd_trailer(p, &r).id;
			if (cur_u64(&r.body, &n) || r.misc >> 15 & 1)
				break;
			add_capped(&p->counted_all, n);
			if (u64map_get(&p->cpu_of, id, &cpu))
				add_capped(&p->counted[cpu], n);
			break;
		case PD_COMM:
		case PD_FORK: scan_task(p, &r); break;
		/* nr, nr x { id, number of the event, CPU, thread }; before any counter. */
		case PD_ID_INDEX:
			n = cur_u64(&r.body, &n) ? 0 : n;
			while (n-- && !cur_u64(&r.body, &id) && !cur_skip(&r.body, 8) &&
			       !cur_u64(&r.body, &cpu) && !cur_skip(&r.body, 8) &&
			       p->cpu_of.n < MAX_IDS)
				if (cpu < CAPTURE_MAX_CPUS)
					xu64map_put(&p->cpu_of, id, cpu);
			break;
		/* shift, mult, zero: perf's clock in ns = zero + (TSC * mult >> shift). */
		case PD_TIME_CONV:
			if (!cur_u64(&r.body, &shift) && !cur_u64(&r.body, &mult) &&
			    !cur_u64(&r.body, &n) && shift <= 32 && mult && mult <= UINT32_MAX)
				p->c->line =
					(struct cap_line){ true,
							   { n, (uint32_t)mult, (uint8_t)shift } };
			break;
		case PD_AUXTRACE: p->aux++; break;
		case PD_COMPRESSED:
		case PD_COMPRESSED2:
			return err_set(
				p->err, EOPNOTSUPP,
				"compressed (perf record -z), and its head does not say how");
		default: break;
		}
	}
	if (ret != -EBADMSG)
		return ret;
	cap_note(p->c,
		 "damaged record at byte %" PRIu64 ": the %" PRIu64
		 " bytes from there on are left out",
		 at, p->end - at);
	p->c->complete = false;
	return 0;
}

/* ---- the index ---- */

COMPARE(entry_cmp, struct pd_entry, ORDER(x->time, y->time) ?: ORDER(x->off, y->off));

/* A sub-buffer ends where it is full, and before events were lost. */
static void entries_divide(const struct perfdata *p, struct pd_stream *st)
{
	const struct subbuf_geom *g = &p->w.g;
	uint32_t room = g->size - g->header - g->long_size, fill = 0;
	size_t first = 0;

	if (st->mixed)
		array_sort(st->entry, st->n, entry_cmp);
	for (size_t i = 0; i < st->n; i++) {
		const struct pd_entry *e = &st->entry[i];

		if (!i || (fill && (!e->cost || fill + e->cost > room ||
				    e->time - st->entry[first].time >= SPAN_MAX))) {
			xarray_add(&st->block, &st->nblock, &st->block_cap, &i, sizeof(i));
			fill = 0;
		}
		if (!fill)
			first = i;
		fill += e->cost;
	}
}

/*
 * When a ring was full, the next event that finds room is preceded by a record of what was lost. At
 * its end, perf writes the kernel's counters as well (from 6.1 on): what these have in excess of
 * the records was lost after the last event of its CPU.
 */
static void count_losses(struct perfdata *p)
{
	struct capture *c = p->c;
	uint64_t told = 0, placed = 0;

	for (uint32_t cpu = 0; cpu < CAPTURE_MAX_CPUS; cpu++)
		add_capped(&told, p->stream[cpu] ? p->stream[cpu]->lost : 0);
	if (p->counted_all <= told)
		return;
	for (uint32_t cpu = 0; cpu < CAPTURE_MAX_CPUS; cpu++) {
		const struct pd_stream *st;
		struct cap_loss l = { .cpu = cpu };

		if (!p->counted[cpu])
			continue;
		st = stream_of(p, cpu); /* a new one lost all that it had */
		if (p->counted[cpu] <= st->lost)
			continue;
		l.count = p->counted[cpu] - st->lost;
		l.from = l.to = st->last;
		l.first = l.last = st->nblock;
		xarray_add(&c->loss, &c->nloss, &c->loss_cap, &l, sizeof(l));
		add_capped(&placed, l.count);
	}
	told += placed;
	p->lost_nowhere += p->counted_all > told ? p->counted_all - told : 0;
}

/* ---- making sub-buffers ---- */

/* What is lost is before all samples of its block. */
static int make_entry(struct perfdata *p, const struct pd_entry *e)
{
	uint8_t stack[16 + RECORD_MAX];
	struct pd_record r;
	struct pd_sample smp;
	int ret = pd_record(p, e->off, &r);

	if (ret <= 0)
		return ret ?: -EIO;
	if (!e->cost && r.type == PD_LOST) {
		p->w.ts = e->time; /* of a block without events */
		return subbuf_write_lost(&p->w, lost_count(&r));
	}
	if (r.type != PD_SAMPLE || pd_sample(p, &r, &smp) <= 0 || pd_cost(&smp) != e->cost)
		return -EIO; /* the file was changed meanwhile */
	ret = subbuf_write(&p->w, e->time, smp.raw, smp.raw_len);
	if (ret || !smp.nstack)
		return ret;
	/* As the kernel's option stacktrace writes it, behind the event. */
	memset(stack, 0, 16);
	stack[0] = STACK_ID;
	memcpy(stack + 2, smp.raw + 2, 6); /* whose it is */
	memcpy(stack + 8, &smp.nstack, sizeof(smp.nstack));
	memcpy(stack + 16, smp.stack, 8 * (size_t)smp.nstack);
	return subbuf_write(&p->w, e->time, stack, 16 + 8 * smp.nstack);
}

/* struct cap_maker's */
static int pd_make(void *perfdata, uint64_t stream, uint64_t idx, const uint8_t **buf)
{
	struct perfdata *p = perfdata;
	const struct pd_stream *s = p->stream[stream];
	uint64_t before = p->w.emitted;
	size_t end;
	int ret = idx < s->nblock ? 0 : -EIO, ended;

	*buf = p->w.buf;
	if (ret || (p->made_stream == stream && p->made == idx))
		return ret;
	end = idx + 1 < s->nblock ? s->block[idx + 1] : s->n;
	for (size_t i = s->block[idx]; i < end && !ret; i++)
		ret = make_entry(p, &s->entry[i]);
	ended = subbuf_write_end(&p->w); /* also of one that failed: the next one begins anew */
	ret = ret ?: ended;
	if (!ret && p->w.emitted != before + 1)
		ret = -EBADMSG;
	p->made_stream = ret ? UINT32_MAX : (uint32_t)stream;
	p->made = idx;
	return ret;
}

static int callback_emit(void *arg __unused_arg, const void *buf __unused_arg)
{
	return 0; /* it stays where it was made */
}

static void pd_free(void *perfdata)
{
	struct perfdata *p = perfdata;

	for (size_t i = 0; i < CAPTURE_MAX_CPUS; i++) {
		if (!p->stream[i])
			continue;
		free(p->stream[i]->entry);
		free(p->stream[i]->block);
		free(p->stream[i]);
	}
	free(p->layout);
	u64map_free(&p->layout_of);
	u64map_free(&p->cpu_of);
	free(p->window);
	free(p->host);
	free(p->release);
	free(p->arch);
	subbuf_writer_free(&p->w);
	free(p);
}

/*
 * The records of perf record -z, all in memory.
 *
 * What the rings held is one stream of zstd, in pieces: the bodies of records PD_COMPRESSED, and of
 * PD_COMPRESSED2 with a u64 size before. A record may begin in one piece and end in another; those
 * that are not packed may stand between them.
 */
struct plain {
	uint8_t *b;
	size_t len, cap, whole; /* whole: where the last record begins that is not all there */
};

/* n bytes behind all, or behind the last record that is all there. */
static int plain_add(struct plain *u, size_t at, const void *b, size_t n)
{
	size_t size;

	if (n > MAX_PLAIN - u->len)
		return -EFBIG;
	if (u->len + n > u->cap) {
		u->cap = MAX(2 * u->cap, u->len + n + RECORD_MAX);
		u->b = xmem(realloc(u->b, u->cap));
	}
	memmove(u->b + at + n, u->b + at, u->len - at);
	memcpy(u->b + at, b, n);
	u->len += n;
	while (u->len - u->whole >= RECORD_HEAD) {
		size = load_u16(u->b + u->whole + 6);
		if (size < RECORD_HEAD)
			return -EBADMSG;
		if (size > u->len - u->whole)
			break;
		u->whole += size;
	}
	return 0;
}

/* What is packed in a record, once. */
static ssize_t take_piece(void *body, void *buf, size_t room)
{
	struct cursor *c = body;
	const size_t n = MIN(c->left, room);

	memcpy(buf, c->p, n);
	c->left = 0;
	return (ssize_t)n;
}

static int unpack_record(struct cap_unpacker **unpacker, struct pd_record *r, struct plain *u)
{
	uint8_t piece[4096];
	uint64_t size;
	ssize_t n = 0;
	int ret = 0;

	if (r->type == PD_COMPRESSED2) {
		if (cur_u64(&r->body, &size) || size > r->body.left)
			return -EBADMSG;
		r->body.left = (size_t)size;
	}
	while (!ret && (n = cap_unpack_stream(unpacker, "zstd", take_piece, &r->body, piece,
					      sizeof(piece))) > 0)
		ret = plain_add(u, u->len, piece, (size_t)n);
	return ret ?: n == -ENODATA ? 0 : (int)MIN(n, (ssize_t)0); /* more follows */
}

static int pd_unpack(struct perfdata *p)
{
	static const uint8_t aux[16] = { PD_AUXTRACE, 0, 0, 0, 0, 0, sizeof(aux), 0 };
	struct cap_unpacker *unpacker = NULL;
	struct plain u = { 0 };
	struct pd_record r;
	int ret = cap_packing("zstd", p->err) ? 0 : -EOPNOTSUPP;

	for (uint64_t at = p->begin; !ret && (ret = pd_record(p, at, &r)) > 0; at += r.len) {
		ret = 0;
		if (r.type == PD_COMPRESSED || r.type == PD_COMPRESSED2)
			ret = unpack_record(&unpacker, &r, &u);
		else if (r.type == PD_AUXTRACE) /* its data are not kept */
			ret = plain_add(&u, u.whole, aux, sizeof(aux));
		else if (r.len == r.more_at)
			ret = plain_add(&u, u.whole, r.body.p - RECORD_HEAD, (size_t)r.len);
	}
	cap_unpacker_free(unpacker);
	if (ret == -EBADMSG) {
		cap_note(p->c, "its packed records are damaged, or cut: what follows is missing");
		p->c->complete = false;
	} else if (ret) {
		free(u.b);
		return ret == -EFBIG ? err_set(p->err, EFBIG, CAP_UNPACKS_MUCH) : ret;
	}
	free(p->window);
	p->window = u.b ?: xmalloc(1);
	p->window_at = p->begin = 0;
	p->window_len = p->end = u.len;
	return 0;
}

/* ---- all of it ---- */

static int perfdata_check(const struct perfdata *p)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
	const char *arch = p->arch;

	/* KVM's events on others have other fields, or unknown ones. */
	if (arch && strcmp(arch, "x86_64") && strcmp(arch, "aarch64") &&
	    !(strlen(arch) == 4 && arch[0] == 'i' && !strcmp(arch + 2, "86")))
		return err_set(
			p->err, EOPNOTSUPP,
			"recorded on %s: kvmft reads only perf.data files of x86 and aarch64",
			/* it may be any bytes */
			*arch && !arch[strspn(arch, plain)] ? arch : "another architecture");
	if (!p->tracepoints && p->no_raw)
		return err_set(
			p->err, EOPNOTSUPP,
			"its tracepoints were recorded without their fields, time or CPU: record with "
			"perf record -R -T -e 'kvm:*' -a");
	if (!p->tracepoints)
		return err_set(
			p->err, ENODATA,
			"it holds no tracepoints, only other perf events: record with perf record "
			"-e 'kvm:*' -a");
	if (!p->c->nformat && p->cut)
		return err_set(
			p->err, ENODATA,
			"its end, where perf writes the event formats, is missing, so nothing in "
			"it can be decoded: perf was killed, or the file was truncated; stop perf "
			"with Ctrl-C or SIGINT");
	if (!p->c->nformat)
		return err_set(p->err, ENODATA, "it holds no event formats (tracing data)");
	return 0;
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

/* What was read, as a capture. */
static void pd_finish(struct perfdata *p)
{
	/* What ftrace calls the clocks of perf record -k. */
	static const char *const names[12] = {
		[0] = "realtime", [1] = "mono", [4] = "mono_raw", [7] = "boot", [11] = "tai"
	};
	struct subbuf_geom *g = &p->w.g;
	struct capture *c = p->c;

	for (g->size = SUBBUF_MIN; g->size < 4 * p->most + 64;)
		g->size *= 2;
	for (size_t i = 0; i < CAPTURE_MAX_CPUS; i++)
		if (p->stream[i])
			entries_divide(p, p->stream[i]);
	count_losses(p);
	if (p->broken)
		cap_note(c, "%" PRIu64 " samples are damaged, and left out", p->broken);
	if (p->elsewhere)
		cap_note(c, "%" PRIu64 " samples of CPUs or threads beyond %d are left out",
			 p->elsewhere, CAPTURE_MAX_CPUS);
	if (p->aux)
		cap_note(c,
			 "%" PRIu64 " records of AUX data (a processor's hardware trace) left out",
			 p->aux);
	if (p->lost_nowhere)
		cap_note(c, "%" PRIu64 " events were lost, on CPUs that the file does not name",
			 p->lost_nowhere);
	if (p->stacks)
		cap_format_add(c, "ftrace", "kernel_stack", stack_format, strlen(stack_format));
	c->complete &= !p->cut;
	if (p->cut)
		cap_note(c, "the end is missing: perf was killed, or the file was cut");
	c->line.known &= !p->use_clockid; /* perf's own clock, if it is a line over the TSC */
	c->has_real = p->use_clockid && (c->has_real || !p->clockid);
	if (c->line.known)
		c->tsc_khz = cap_khz(c->line.line.mult, c->line.line.shift);
	if (p->release)
		cap_set_str(&c->uname,
			    TEXTF("Linux %s %s %s", p->host ?: "-", p->release, p->arch ?: ""));
	cap_set_str(&c->clock, !p->use_clockid			? "perf"
			       : p->clockid < ARRAY_SIZE(names) ? names[p->clockid] ?: "unknown"
								: "unknown");
	c->subbuf_size = g->size;
	p->made_stream = UINT32_MAX;
	xdone(subbuf_writer_init(&p->w, g, callback_emit, NULL));
	/* At equal times the first CPU's event comes first. */
	for (uint32_t cpu = 0; cpu < CAPTURE_MAX_CPUS; cpu++)
		if (p->stream[cpu])
			cap_stream_extend(
				c, cap_stream_add(c, cpu, ""),
				&(struct cap_extent){ .fd = p->fd,
						      .off = cpu,
						      .len = p->stream[cpu]->nblock * g->size });
}

int cap_perfdata_read(struct capture *c, int fd, uint64_t size, struct kvmft_err *err)
{
	struct perfdata *p = xcalloc(1, sizeof(*p));
	int ret;

	p->c = c;
	p->fd = fd;
	p->size = size;
	p->err = err;
	c->is_perfdata = true;
	c->version = 2;
	c->complete = true;
	ret = read_header(p);
	ret = ret ?: read_attrs(p);
	ret = ret ?: read_features(p);
	if (!ret && has_feature(p, DIR_FORMAT))
		ret = err_set(err, EOPNOTSUPP, "%s", CAP_PERF_THREADS);
	ret = ret ?: perfdata_check(p);
	p->w.g.long_size = c->long_size;
	p->w.g.header = c->page_header = 8 + c->long_size;
	ret = ret ?: has_feature(p, COMPRESSED) ? pd_unpack(p) : 0;
	ret = ret ?: scan_records(p);
	if (ret) {
		pd_free(p);
		return ret;
	}
	pd_finish(p);
	cap_priv(c)->maker = (struct cap_maker){ .make = pd_make, .free = pd_free, .arg = p };
	cap_priv(c)->fd = fd;
	return 0;
}
