/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * simple.c: files of the back end simple (trace/simple.c of QEMU). All numbers are in the byte
 *order of the machine that wrote them, without padding; the order of the second word tells it.
 *
 *	header	u64 0xffffffffffffffff, u64 0xf2b177cb0aa429b4, u64 version
 *
 *	0	all records, the header too, are 64 bytes: u64 event, u64 ns, u64 argument[6]
 *	2, 3	u64 event, u64 ns, u32 length, u32 pid (2: unused), arguments; length counts all of
 *it 4	u64 type, and then type 0: u64 event, u32 length, name without NUL type 1: a record as in 2,
 *3; length does not count the type
 *
 * Arguments are u64, strings u32 length and bytes; which is which is in trace-events-all alone. The
 * number of an event is its place there; in format 4 the file itself has the names, mostly behind
 * the header, but anywhere: so they are all collected when the file is opened.
 *
 * A record with the event ~0 - 1 tells in one u64 how many events were dropped before its time. It
 *is written ahead of older events that are still in QEMU's ring.
 */
#include "trace.h"

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

bool simple_probe(struct qtrace *t)
{
	const uint8_t *p;

	qbuf_seek(&t->buf, 0);
	if (qbuf_peek(&t->buf, 24, &p) < 24 || load_u64(p) != HEADER_ID)
		return false;
	return load_u64(p + 8) == MAGIC || load_u64(p + 8) == __builtin_bswap64(MAGIC);
}

/* ---- pieces of the file ---- */

/* n bytes; false: the file ends before, or cannot be read (t->st says which). */
static bool need(struct qtrace *t, size_t n, const uint8_t **p, int *ret)
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

static int damaged(struct qtrace *t, const char *why)
{
	t->st.damage = why;
	return 0;
}

/* A mapping of format 4, after its type. 1: there is one. */
static int mapping_read(struct qtrace *t, uint64_t *id, const uint8_t **name, uint32_t *len)
{
	const uint8_t *p;
	int ret;

	if (!need(t, 20, &p, &ret))
		return ret;
	*id = load_u64(p + 8);
	*len = load_u32(p + 16);
	if (*id > MAX_ID || *len > MAX_NAME)
		return damaged(t, "an invalid event name");
	if (!need(t, 20 + *len, &p, &ret))
		return ret;
	*name = p + 20;
	return 1;
}

static int name_add(struct qtrace *t, uint64_t id, const char *s, uint32_t len)
{
	struct simple *m = t->simple;
	struct simple_name *slot;

	if (m->n >= MAX_NAMES)
		return 0;
	slot = array_grow(&m->name, m->n, &m->cap, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	slot->s = malloc(len + 1);
	if (!slot->s)
		return -ENOMEM;
	memcpy(slot->s, s, len);
	slot->s[len] = '\0';
	slot->len = (uint32_t)strlen(slot->s);
	str_printable(slot->s);
	slot->ev = qevents_find(t->o.events, slot->s, slot->len);
	m->n++;
	return u64map_put(&m->by_id, id, m->n - 1);
}

/* After the header, whatever the version. */
static int simple_rewind(struct qtrace *t)
{
	qbuf_seek(&t->buf, t->st.version ? 24 : 64);
	return 0;
}

/* ---- events ---- */

static void identify(struct qtrace *t, uint64_t id, struct qtrace_item *item)
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
static bool typed(const uint8_t *p, size_t n, struct qtrace_item *item)
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

static int event(struct qtrace *t, uint64_t id, const uint8_t *p, size_t n,
		 struct qtrace_item *item)
{
	item->clock = QTRACE_MONO;
	if (id == DROPPED_ID) {
		item->kind = QTRACE_LOST;
		item->lost = n >= 8 ? load_u64(p) : 0;
		return 1;
	}
	identify(t, id, item);
	item->has_args = item->ev && typed(p, n, item);
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

	if (!need(t, 64, &p, &ret))
		return ret;
	qbuf_skip(&t->buf, 64);
	id = load_u64(p);
	item->clock = QTRACE_MONO;
	item->ns = load_u64(p + 8);
	if (id == DROPPED_ID)
		return event(t, id, p + 16, 8, item);
	if (id > MAX_ID)
		return damaged(t, "an event with an impossible number");
	identify(t, id, item);
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

	if (!need(t, skip + RECORD_HEAD, &p, &ret))
		return ret;
	len = load_u32(p + skip + 16);
	id = load_u64(p + skip);
	if (len < RECORD_HEAD || len > MAX_RECORD)
		return damaged(t, "a record with an impossible length");
	if (id > MAX_ID && id != DROPPED_ID)
		return damaged(t, "an event with an impossible number");
	if (!need(t, skip + len, &p, &ret))
		return ret;
	qbuf_skip(&t->buf, skip + len);
	p += skip;
	item->ns = load_u64(p + 8);
	if (t->st.version > 2)
		item->tid = (int32_t)(load_u32(p + 20) & INT32_MAX);
	return event(t, id, p + RECORD_HEAD, len - RECORD_HEAD, item);
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
		if (!need(t, 8, &p, &ret))
			return ret;
		type = load_u64(p);
		if (type == 1)
			return next_record(t, 8, item);
		if (type)
			return damaged(t, "neither a name nor an event");
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
	const uint8_t *p, *name;
	uint64_t type;
	uint32_t len;
	int ret = 1;

	while (ret > 0) {
		if (!need(t, 8, &p, &ret))
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
		ret = name_add(t, type, (const char *)name, len);
		qbuf_skip(&t->buf, 20 + len);
		ret = ret ?: 1;
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
	t->simple = calloc(1, sizeof(*t->simple));
	if (!t->simple || !need(t, 24, &p, &ret))
		return err_set(err, ENOMEM, "out of memory");
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

const struct qtrace_reader qtrace_simple = {
	.format = QTRACE_SIMPLE,
	.open = simple_open,
	.next = simple_next,
	.rewind = simple_rewind,
	.close = simple_close,
};
