/* SPDX-License-Identifier: GPL-2.0-or-later */
/* trace.c: opens a trace of QEMU, determines its format, and hands out its events. */
#include "trace.h"

#define PROBE_LINES 200

const char *const qtrace_format_names[] = {
	[QTRACE_AUTO] = "auto",	    [QTRACE_SIMPLE] = "simple", [QTRACE_LOG] = "log",
	[QTRACE_SYSLOG] = "syslog", [QTRACE_UST] = "ust",	NULL,
};

/* ---- the buffer ---- */

/* Up to n <= QBUF_SIZE bytes from here on at *p, not yet consumed: how many, or -errno. */
static ssize_t qbuf_peek(struct qbuf *b, size_t n, const uint8_t **p)
{
	ssize_t got;
	off_t data;

	if (b->len - b->pos < n) {
		memmove(b->p, b->p + b->pos, b->len - b->pos);
		b->at += b->pos;
		b->len -= b->pos;
		b->pos = 0;
		/* What was never written has no lines: it may be a terabyte. */
		data = lseek(b->fd, (off_t)(b->at + b->len), SEEK_DATA);
		b->at = data < 0 ? b->at : (uint64_t)data - b->len;
		if (data < 0 && errno == ENXIO)
			got = 0;
		else
			got = full_pread(b->fd, b->p + b->len, QBUF_SIZE - b->len, b->at + b->len);
		if (got < 0)
			return got;
		b->len += (size_t)got;
	}
	*p = b->p + b->pos;
	return (ssize_t)MIN(n, b->len - b->pos);
}

static void qbuf_skip(struct qbuf *b, size_t n)
{
	b->pos += MIN(n, b->len - b->pos);
}

static void qbuf_seek(struct qbuf *b, uint64_t offset)
{
	b->at = offset;
	b->pos = b->len = 0;
}

/*
 * Files of the back end simple (trace/simple.c of QEMU). All numbers are in the byte order of the
 * machine that wrote them, without padding; the order of the second word tells it.
 *
 *	header	u64 0xffffffffffffffff, u64 0xf2b177cb0aa429b4, u64 version
 *
 *	0	all records, the header too, are 64 bytes: u64 event, u64 ns, u64 argument[6]
 *	2, 3	u64 event, u64 ns, u32 length, u32 pid (2: unused), arguments; length counts all of
 *		it
 *	4	u64 type, and then
 *		type 0: u64 event, u32 length, name without NUL
 *		type 1: a record as in 2, 3; length does not count the type
 *
 * Arguments are u64, strings u32 length and bytes; which is which is in trace-events-all alone. The
 * number of an event is its place there; in format 4 the file itself has the names, mostly behind
 * the header, but anywhere: so they are all collected when the file is opened.
 *
 * A record with the event ~0 - 1 tells in one u64 how many events were dropped before its time. It
 * is written ahead of older events that are still in QEMU's ring.
 */
#define MAGIC	    0xf2b177cb0aa429b4ull
#define HEADER_ID   0xffffffffffffffffull
#define DROPPED_ID  0xfffffffffffffffeull
#define RECORD_HEAD 24u
#define MAX_RECORD  (256u << 10) /* QEMU's ring */
#define MAX_STRING  4096u	 /* QEMU cuts at 512 */
#define MAX_NAME    4096u
#define MAX_ID	    0xffffffffull
#define MAX_NAMES   1000000u

struct simple_name {
	char *s;
	uint32_t len;
	const struct qev *ev;
};

struct simple {
	struct u64map by_id;
	struct simple_name *name;
	size_t n, cap;
	char number[32]; /* name of an event that has none */
};

/* Whether the file begins like one of simple. */
static bool simple_probe(struct qtrace *t)
{
	const uint8_t *p;

	qbuf_seek(&t->buf, 0);
	if (qbuf_peek(&t->buf, 24, &p) < 24 || load_u64(p) != HEADER_ID)
		return false;
	return load_u64(p + 8) == MAGIC || load_u64(p + 8) == __builtin_bswap64(MAGIC);
}

/* ---- pieces of the file ---- */

/* n bytes; false: the file ends before, or cannot be read (t->st says which). */
static bool qtrace_need(struct qtrace *t, size_t n, const uint8_t **p, int *ret)
{
	ssize_t got = qbuf_peek(&t->buf, n, p);

	*ret = got < 0 ? (int)got : 0;
	if (got < 0)
		return false;
	if ((size_t)got == n)
		return true;
	t->st.truncated |= got > 0;
	return false;
}

static int trace_damaged(struct qtrace *t, const char *why)
{
	t->st.damage = why;
	return 0;
}

/* A mapping of format 4, after its type. 1: there is one. */
static int mapping_read(struct qtrace *t, uint64_t *id, const uint8_t **name, uint32_t *len)
{
	const uint8_t *p;
	int ret;

	if (!qtrace_need(t, 20, &p, &ret))
		return ret;
	*id = load_u64(p + 8);
	*len = load_u32(p + 16);
	if (*id > MAX_ID || *len > MAX_NAME)
		return trace_damaged(t, "an invalid event name");
	if (!qtrace_need(t, 20 + *len, &p, &ret))
		return ret;
	*name = p + 20;
	return 1;
}

/* After the header, whatever the version. */
static int simple_rewind(struct qtrace *t)
{
	qbuf_seek(&t->buf, t->st.version ? 24 : 64);
	return 0;
}

/* ---- events ---- */

static void qtrace_identify(struct qtrace *t, uint64_t id, struct qtrace_item *item)
{
	struct simple *m = t->simple;
	uint64_t at;

	if (t->st.version == 4 && u64map_get(&m->by_id, id, &at)) {
		item->name = m->name[at].s;
		item->name_len = m->name[at].len;
		item->ev = m->name[at].ev;
		return;
	}
	if (t->st.version != 4)
		item->ev = qevents_at(t->o.events, id);
	if (item->ev) {
		item->name = item->ev->name;
		item->name_len = (uint32_t)strlen(item->ev->name);
		return;
	}
	item->name_len = (uint32_t)snprintf(m->number, sizeof(m->number), "event_%llu",
					    (unsigned long long)id);
	item->name = m->number;
}

/* The arguments by the event's declaration; false: they do not fit it. */
static bool record_typed(const uint8_t *p, size_t n, struct qtrace_item *item)
{
	for (size_t i = 0; i < item->ev->nargs; i++) {
		struct qev_value *v = &item->arg[i];
		uint32_t len;

		*v = (struct qev_value){ 0 };
		if (item->ev->arg[i].kind != QEV_STRING) {
			if (n < 8)
				return false;
			v->num = load_u64(p);
			p += 8;
			n -= 8;
			continue;
		}
		if (n < 4)
			return false;
		len = load_u32(p);
		if (len > n - 4 || len > MAX_STRING)
			return false;
		v->s = (const char *)p + 4;
		v->len = len;
		p += 4 + len;
		n -= 4 + len;
	}
	return !n;
}

static int qemu_record(struct qtrace *t, uint64_t id, const uint8_t *p, size_t n,
		       struct qtrace_item *item)
{
	item->clock = QTRACE_MONO;
	if (id == DROPPED_ID) {
		item->kind = QTRACE_LOST;
		item->lost = n >= 8 ? load_u64(p) : 0;
		return 1;
	}
	qtrace_identify(t, id, item);
	item->has_args = item->ev && record_typed(p, n, item);
	if (item->has_args)
		return 1;
	for (; n >= 8 && item->nraw < QTRACE_MAX_RAW; p += 8, n -= 8)
		item->raw[item->nraw++] = load_u64(p);
	if (n && n < 8 && item->nraw < QTRACE_MAX_RAW) { /* the end of a string, most likely */
		uint8_t rest[8] = { 0 };

		memcpy(rest, p, n);
		item->raw[item->nraw++] = load_u64(rest);
	}
	return 1;
}

/*
 * Format 0 has no length: a declared event has as many arguments as its declaration; its strings
 * are addresses in the memory of QEMU.
 */
static int next_old(struct qtrace *t, struct qtrace_item *item)
{
	const uint8_t *p;
	uint64_t id;
	int ret;

	if (!qtrace_need(t, 64, &p, &ret))
		return ret;
	qbuf_skip(&t->buf, 64);
	id = load_u64(p);
	item->clock = QTRACE_MONO;
	item->ns = load_u64(p + 8);
	if (id == DROPPED_ID)
		return qemu_record(t, id, p + 16, 8, item);
	if (id > MAX_ID)
		return trace_damaged(t, "an event with an impossible number");
	qtrace_identify(t, id, item);
	item->has_args = item->ev && item->ev->nargs <= 6;
	for (size_t i = 0; item->has_args && i < item->ev->nargs; i++)
		item->arg[i] = (struct qev_value){ .num = load_u64(p + 16 + 8 * i) };
	for (; !item->has_args && item->nraw < 6; item->nraw++)
		item->raw[item->nraw] = load_u64(p + 16 + 8 * item->nraw);
	return 1;
}

/* A record of formats 2 to 4, `skip` bytes from here. */
static int next_record(struct qtrace *t, size_t skip, struct qtrace_item *item)
{
	const uint8_t *p;
	uint32_t len;
	uint64_t id;
	int ret;

	if (!qtrace_need(t, skip + RECORD_HEAD, &p, &ret))
		return ret;
	len = load_u32(p + skip + 16);
	id = load_u64(p + skip);
	if (len < RECORD_HEAD || len > MAX_RECORD)
		return trace_damaged(t, "a record with an impossible length");
	if (id > MAX_ID && id != DROPPED_ID)
		return trace_damaged(t, "an event with an impossible number");
	if (!qtrace_need(t, skip + len, &p, &ret))
		return ret;
	qbuf_skip(&t->buf, skip + len);
	p += skip;
	item->ns = load_u64(p + 8);
	if (t->st.version > 2)
		item->tid = (int32_t)(load_u32(p + 20) & INT32_MAX);
	return qemu_record(t, id, p + RECORD_HEAD, len - RECORD_HEAD, item);
}

static int simple_next(struct qtrace *t, struct qtrace_item *item)
{
	const uint8_t *p, *name;
	uint32_t len;
	uint64_t type;
	int ret;

	if (t->st.damage)
		return 0;
	if (!t->st.version)
		return next_old(t, item);
	if (t->st.version < 4)
		return next_record(t, 0, item);
	for (;;) {
		if (!qtrace_need(t, 8, &p, &ret))
			return ret;
		type = load_u64(p);
		if (type == 1)
			return next_record(t, 8, item);
		if (type)
			return trace_damaged(t, "neither a name nor an event");
		ret = mapping_read(t, &type, &name, &len); /* known since the file was opened */
		if (ret <= 0)
			return ret;
		qbuf_skip(&t->buf, 20 + len);
	}
}

/* ---- opening ---- */

/* All names of a file of format 4; this walk ends where that of the events will. */
static int names_collect(struct qtrace *t)
{
	struct qtrace_stats before = t->st;
	struct simple *m = t->simple;
	const uint8_t *p, *name;
	uint64_t type;
	uint32_t len;
	int ret = 1;

	while (ret > 0) {
		if (!qtrace_need(t, 8, &p, &ret))
			break;
		type = load_u64(p);
		if (type > 1)
			break;
		if (type) {
			struct qtrace_item skipped = { 0 };

			ret = next_record(t, 8, &skipped);
			continue;
		}
		ret = mapping_read(t, &type, &name, &len);
		if (ret <= 0)
			break;
		if (m->n < MAX_NAMES) {
			struct simple_name *slot =
				xarray_grow(&m->name, m->n, &m->cap, sizeof(*slot));

			slot->s = xstrndup((const char *)name, len);
			slot->len = (uint32_t)strlen(slot->s);
			str_printable(slot->s);
			slot->ev = qevents_find(t->o.events, slot->s, slot->len);
			xu64map_put(&m->by_id, type, m->n++);
		}
		qbuf_skip(&t->buf, 20 + len);
	}
	t->st = before;
	return ret < 0 ? ret : 0;
}

static int simple_open(struct qtrace *t, struct kvmft_err *err)
{
	const uint8_t *p;
	uint64_t version;
	int ret;

	if (!simple_probe(t))
		return err_set(err, ENODATA,
			       "it does not begin like a trace of the back end simple");
	t->simple = xcalloc(1, sizeof(*t->simple));
	if (!qtrace_need(t, 24, &p, &ret))
		return err_set(err, EIO, "it cannot be read");
	if (load_u64(p + 8) != MAGIC)
		return err_set(err, ENOTSUP,
			       "it is of a big-endian machine, and kvmft reads "
			       "those of x86 and arm64 only: QEMU's simpletrace.py shows it there");
	version = load_u64(p + 16);
	if (version > 4 || version == 1)
		return err_set(
			err, ENOTSUP,
			"it has format %llu of the back end simple, and kvmft reads 0, 2, 3 and 4",
			(unsigned long long)version);
	t->st.version = (unsigned int)version;
	simple_rewind(t);
	ret = version == 4 ? names_collect(t) : 0;
	simple_rewind(t);
	return ret ? err_set(err, -ret, "%s", strerror(-ret)) : 0;
}

static void simple_close(struct qtrace *t)
{
	struct simple *m = t->simple;

	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++)
		free(m->name[i].s);
	free(m->name);
	u64map_free(&m->by_id);
	free(m);
}

static const struct qtrace_reader qtrace_simple = {
	.format = QTRACE_SIMPLE,
	.open = simple_open,
	.next = simple_next,
	.rewind = simple_rewind,
	.close = simple_close,
};

/* ---- text ---- */

/* Text formats in the order in which they win a tie. */
static const struct qtrace_reader *const readers[] = {
	&qtrace_simple,
	&qtrace_ust,
	&qtrace_syslog,
	&qtrace_log,
};

/* The next line, without its newline; *n and what must be skipped for it. 0 at the end. */
static int line_peek(struct qtrace *t, const char **s, size_t *n, size_t *skip)
{
	const uint8_t *p, *nl;
	ssize_t got = qbuf_peek(&t->buf, QTRACE_MAX_LINE, &p);

	if (got <= 0)
		return (int)got;
	nl = memchr(p, '\n', (size_t)got);
	*s = (const char *)p;
	*n = nl ? (size_t)(nl - p) : (size_t)got;
	*skip = *n + (nl != NULL);
	if (*n && p[*n - 1] == '\r')
		--*n;
	return 1;
}

static void item_init(struct qtrace_item *item)
{
	*item = (struct qtrace_item){ .cpu = -1, .unit = 1 };
}

static int text_next(struct qtrace *t, struct qtrace_item *item)
{
	const char *s;
	size_t n, skip;
	int ret;

	while ((ret = line_peek(t, &s, &n, &skip)) > 0) {
		bool cut = t->buf.at + t->buf.pos + skip >= t->size && skip == n;

		qbuf_skip(&t->buf, skip);
		item_init(item);
		if (t->reader->line(t, s, n, item))
			return 1;
		/* A last line without newline was being written. */
		if (n && cut)
			t->st.truncated = true;
		t->st.foreign += n > 0;
	}
	return ret;
}

static const struct qtrace_reader *trace_probe(struct qtrace *t)
{
	const struct qtrace_reader *best = NULL;
	int most = 0;

	if (simple_probe(t))
		return &qtrace_simple;
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		struct qtrace_item item;
		const char *s;
		size_t n, skip;
		int score = 0; /* how many of the first lines the reader understands */

		if (!readers[i]->line)
			continue;
		qbuf_seek(&t->buf, 0);
		for (int k = 0; k < PROBE_LINES && line_peek(t, &s, &n, &skip) > 0; k++) {
			qbuf_skip(&t->buf, skip);
			item_init(&item);
			score += readers[i]->line(t, s, n, &item);
		}
		if (score > most) {
			most = score;
			best = readers[i];
		}
	}
	t->st = (struct qtrace_stats){ 0 };
	return best;
}

/* ---- the interface ---- */

int qtrace_open(const char *path, const struct qtrace_options *o, struct qtrace **out,
		struct kvmft_err *err)
{
	struct qtrace *t = xcalloc(1, sizeof(*t));
	struct stat st;
	int ret = 0;

	*out = NULL;
	t->o = *o;
	t->buf.p = xmalloc(QBUF_SIZE);
	t->buf.fd = file_open_regular(path, false);
	if (t->buf.fd == -EINVAL)
		ret = err_set(err, EINVAL, "%s is not a regular file", path);
	else if (t->buf.fd < 0)
		ret = err_why(err, t->buf.fd, "cannot open %s", path);
	else if (fstat(t->buf.fd, &st) < 0)
		ret = err_why(err, errno, "cannot access %s", path);
	if (!ret) {
		t->size = (uint64_t)st.st_size;
		t->by_file = !t->o.near;
		t->o.near = t->o.near ?: (uint64_t)st.st_mtim.tv_sec * 1000000000;
		for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
			if (readers[i]->format == o->format)
				t->reader = readers[i];
		t->reader = t->reader ?: trace_probe(t);
		if (!t->reader)
			ret = err_set(
				err, ENODATA,
				"%s: no trace event of QEMU in its first %d lines; if it has some, say its format: "
				"FILE:simple, FILE:log, FILE:syslog or FILE:ust",
				path, PROBE_LINES);
	}
	if (!ret) {
		t->st.format = t->reader->format;
		qbuf_seek(&t->buf, 0);
		if (t->reader->open)
			ret = t->reader->open(t, err);
		if (ret && err && err->text[0])
			err_set(err, -ret, "%s: %s", path, err->text);
	}
	if (ret) {
		qtrace_close(t);
		return ret;
	}
	*out = t;
	return 0;
}

int qtrace_next(struct qtrace *t, struct qtrace_item *item)
{
	int ret;

	item_init(item);
	ret = t->reader->next ? t->reader->next(t, item) : text_next(t, item);
	if (ret > 0 && item->kind == QTRACE_LOST) {
		t->st.lost_records++;
		t->st.lost += item->lost;
	} else if (ret > 0) {
		t->st.events++;
		t->st.undeclared += t->o.events && !item->ev;
		t->st.misfits += item->ev && !item->has_args;
	}
	return ret;
}

int qtrace_rewind(struct qtrace *t)
{
	struct qtrace_stats old = t->st;

	t->st = (struct qtrace_stats){ .format = old.format, .version = old.version };
	qbuf_seek(&t->buf, 0);
	return t->reader->rewind ? t->reader->rewind(t) : 0;
}

const struct qtrace_stats *qtrace_stats(const struct qtrace *t)
{
	return &t->st;
}

void qtrace_close(struct qtrace *t)
{
	if (!t)
		return;
	if (t->reader && t->reader->close)
		t->reader->close(t);
	if (t->buf.fd >= 0)
		close(t->buf.fd);
	free(t->buf.p);
	free(t);
}
