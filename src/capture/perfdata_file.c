/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata_file.c: reading a perf.data of `perf record` or `perf kvm stat record`.
 *
 * A tracepoint's samples hold the same record as ftrace's ring; their fields are described by the
 * feature "tracing data", which begins like a trace.dat. perf writes it at its end: without it
 * nothing can be decoded. Samples are presented as sub-buffers, made on demand (perfdata_scan.c),
 * so all code that reads a capture can read them.
 */
#include "perfdata.h"
#include "tracedat.h"

#define MAX_STRING 4096u

enum feature {
	HOSTNAME = 3,
	OSRELEASE = 4,
	VERSION = 5,
	ARCH = 6,
	NRCPUS = 7,
	CPUID = 9,
	COMPRESSED = 27,
};

/* ---- features ---- */

static bool has_feature(const struct pd_head *h, unsigned int f)
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
	return cur_bytes(c, n, &b) ? NULL : strndup((const char *)b, n);
}

static int feature_version(struct pd_head *h, struct cursor *c)
{
	_cleanup_free_ char *version = get_string(c), *tool = NULL;

	if (!version || asprintf(&tool, "perf %s", version) < 0) {
		tool = NULL;
		return 0;
	}
	return cap_set_str(&h->p->c->tool, tool);
}

/* "GenuineIntel,6,143,8" */
static int feature_cpuid(struct pd_head *h, struct cursor *c)
{
	_cleanup_free_ char *id = get_string(c);

	if (!id)
		return 0;
	id[strcspn(id, ",")] = '\0';
	return cap_set_str(&h->p->c->vendor, id);
}

/* u32 that can be there, u32 that are. */
static int feature_cpus(struct pd_head *h, struct cursor *c)
{
	uint32_t avail, online;

	if (cur_u32(c, &avail) || cur_u32(c, &online))
		return 0;
	for (uint32_t i = 0; i < MIN(online, (uint32_t)CAPTURE_MAX_CPUS); i++)
		if (!cap_cpu_at(h->p->c, i))
			return -ENOMEM;
	return 0;
}

static const struct {
	enum feature feature;
	int (*read)(struct pd_head *h, struct cursor *c);
} small[] = {
	{ VERSION, feature_version },
	{ NRCPUS, feature_cpus },
	{ CPUID, feature_cpuid },
};

static int read_small(struct pd_head *h, unsigned int f, const struct pd_section *s)
{
	char **text = f == HOSTNAME    ? &h->host
		      : f == OSRELEASE ? &h->release
		      : f == ARCH      ? &h->arch
				       : NULL;
	uint8_t b[4 + MAX_STRING];
	ssize_t n = full_pread(h->p->fd, b, (size_t)MIN((uint64_t)sizeof(b), s->size), s->at);
	struct cursor c = { b, n > 0 ? (size_t)n : 0 };

	if (n < 0)
		return (int)n;
	if (text) {
		free(*text);
		*text = get_string(&c);
	}
	for (size_t i = 0; i < ARRAY_SIZE(small); i++)
		if ((unsigned int)small[i].feature == f)
			return small[i].read(h, &c);
	return 0;
}

/* As the head of a trace.dat, with a version of its own that says whether there are task names. */
static int read_tracing(struct pd_head *h, const struct pd_section *s)
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
	int ret;

	if (n < 0)
		return (int)n;
	cur = (struct cursor){ b, (size_t)n };
	if (cur_bytes(&cur, sizeof(magic), &p) || memcmp(p, magic, sizeof(magic)) ||
	    cur_str(&cur, &version) || cur_u8(&cur, &order) || cur_u8(&cur, &long_size) ||
	    cur_u32(&cur, &page) || (long_size != 4 && long_size != 8) || order)
		return err_set(h->err, EBADMSG, "its event formats are damaged");
	c->long_size = long_size;
	off = s->at + (uint64_t)n - cur.left;
	ret = td_read_blocks(&t, TD_TRACING_DATA - !strcmp(version, "0.5"), &off);
	return MIN(ret, 0);
}

int pd_feature(struct pd_head *h, uint64_t f, const struct pd_section *s)
{
	if (f < PD_FEATURES)
		h->bits[f / 64] |= (uint64_t)1 << f % 64;
	return f == PD_TRACING_DATA ? read_tracing(h, s) : read_small(h, (unsigned int)f, s);
}

static int read_feature(struct pd_head *h, unsigned int f, struct cursor *index)
{
	struct pd_section s;

	if (pd_section(index, &s) || !pd_inside(h->p, &s)) {
		h->cut = true;
		return 0;
	}
	return pd_feature(h, f, &s);
}

static int read_features(struct pd_head *h)
{
	uint8_t b[16 * PD_FEATURES];
	struct cursor index;
	ssize_t n;
	int ret = 0;

	if (h->cut || h->pipe)
		return 0;
	n = full_pread(h->p->fd, b, sizeof(b), h->p->end);
	if (n < 0)
		return (int)n;
	index = (struct cursor){ b, (size_t)n };
	for (unsigned int f = 0; f < PD_FEATURES && !ret; f++)
		if (has_feature(h, f))
			ret = read_feature(h, f, &index);
	return ret;
}

/* ---- all of it ---- */

static bool is_known(const char *arch)
{
	if (!strcmp(arch, "x86_64") || !strcmp(arch, "aarch64"))
		return true;
	return strlen(arch) == 4 && arch[0] == 'i' && !strcmp(arch + 2, "86");
}

/* KVM's events there have other fields, or unknown ones. */
static int refuse_arch(const struct pd_head *h)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
	bool shown = *h->arch && !h->arch[strspn(h->arch, plain)]; /* it may be any bytes */

	return err_set(h->err, EOPNOTSUPP,
		       "recorded on %s: kvmft reads only perf.data files of x86 and aarch64",
		       shown ? h->arch : "another architecture");
}

static int check(const struct pd_head *h)
{
	const struct capture *c = h->p->c;

	if (h->arch && !is_known(h->arch))
		return refuse_arch(h);
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
static const char *clock_name(const struct pd_head *h)
{
	static const char *const names[] = {
		[0] = "realtime", [1] = "mono", [4] = "mono_raw", [7] = "boot", [11] = "tai"
	};

	if (!h->use_clockid)
		return "perf";
	return h->clockid < ARRAY_SIZE(names) && names[h->clockid] ? names[h->clockid] : "unknown";
}

static int set_uname(struct pd_head *h)
{
	_cleanup_free_ char *text = NULL;

	if (!h->release)
		return 0;
	if (asprintf(&text, "Linux %s %s %s", h->host ?: "-", h->release, h->arch ?: "") < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return cap_set_str(&h->p->c->uname, text);
}

/* perf's own clock, if it is a line over the TSC. */
static void set_clock_line(struct pd_head *h)
{
	struct capture *c = h->p->c;
	struct cap_line *l = &c->line;
	unsigned __int128 khz;

	l->known &= !h->use_clockid;
	if (!l->known)
		return;
	khz = (((unsigned __int128)1000000 << l->line.shift) + l->line.mult / 2) / l->line.mult;
	c->tsc_khz = khz <= UINT32_MAX ? (uint64_t)khz : 0;
}

static int stream_cmp(const void *a, const void *b)
{
	const struct pd_stream *x = *(const struct pd_stream *const *)a,
			       *y = *(const struct pd_stream *const *)b;

	return ORDER(x->cpu, y->cpu);
}

/*
 * In the order of CPUs, whatever order they were seen in: at equal times the first one's event
 * comes first.
 */
static int add_streams(struct perfdata *p)
{
	_cleanup_free_ struct pd_stream **order =
		calloc(p->nstream + 1, sizeof(struct pd_stream *));
	struct td t = { .c = p->c };
	int ret = 0;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < p->nstream; i++)
		order[i] = &p->stream[i];
	qsort(order, p->nstream, sizeof(struct pd_stream *), stream_cmp);
	for (size_t i = 0; i < p->nstream && !ret; i++) {
		const struct pd_stream *st = order[i];
		struct cap_extent e = { .fd = p->fd,
					.off = (uint64_t)(st - p->stream),
					.len = st->nblock * p->c->subbuf_size };
		struct cap_stream *s;

		s = cap_stream_add(p->c, st->cpu, td_instance(&t, ""));
		if (!s || !s->instance)
			return -ENOMEM;
		ret = cap_stream_extend(p->c, s, &e);
	}
	return ret;
}

/* What is needed to make sub-buffers, and to read them. */
static void set_geometry(struct perfdata *p)
{
	struct capture *c = p->c;

	p->w.g.long_size = c->long_size;
	p->w.g.header = c->page_header = 8 + c->long_size;
}

static int emit(void *arg __unused_arg, const void *buf __unused_arg)
{
	return 0; /* it stays where it was made */
}

static int start_making(struct perfdata *p)
{
	struct cap_priv *priv = cap_priv(p->c);
	const struct subbuf_geom g = p->w.g;

	p->c->subbuf_size = g.size;
	p->made_stream = UINT32_MAX;
	if (subbuf_writer_init(&p->w, &g, emit, NULL))
		return -ENOMEM;
	priv->maker = (struct cap_maker){ .make = pd_make, .free = pd_free, .arg = p };
	return 0;
}

static int read_all(struct pd_head *h)
{
	struct perfdata *p = h->p;
	int ret = pd_read_head(h);

	ret = ret ?: read_features(h);
	ret = ret ?: check(h);
	if (!ret) {
		set_geometry(p);
		ret = has_feature(h, COMPRESSED) ? pd_unpack(p, h->err) : 0;
		ret = ret ?: pd_scan(p, h->err);
	}
	if (ret)
		return ret;
	p->c->complete &= !h->cut;
	if (h->cut)
		cap_note(p->c, "the end is missing: perf was killed, or the file was cut");
	set_clock_line(h);
	ret = cap_set_str(&p->c->clock, clock_name(h));
	ret = ret ?: set_uname(h);
	ret = ret ?: start_making(p);
	return ret ?: add_streams(p);
}

int cap_perfdata_read(struct capture *c, int fd, uint64_t size, struct kvmft_err *err)
{
	struct perfdata *p = calloc(1, sizeof(*p));
	struct pd_head h = { .p = p, .err = err };
	int ret;

	if (!p)
		return -ENOMEM;
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
