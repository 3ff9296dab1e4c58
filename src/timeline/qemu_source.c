/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_source.c: QEMU's events by host TSC: by readings of the clock of their stamps, or by events
 * that the host shows as well.
 *
 * Stamps are taken before events are written, by threads that overtake each other, and the back end
 * simple writes a loss before what is still in its ring: so events pass through a heap that holds
 * more of them than that ring.
 */

#include "qemu_source.h"
#include "kvmft/events.h"

/*
 * ---- an event of QEMU as a record with fields ----
 *
 * An event has up to three kinds of records, each with a format of its own: with the arguments of
 * its declaration, with its text, with bare numbers. After the common fields come
 *
 * 	8	where its text is (offset | length << 16); a field only of records without arguments
 * 	12	where its numbers are; a field only of records that have nothing else
 * 	16	arguments, 8 bytes each: numbers, or where the string is
 *
 * and behind those what is pointed to.
 */

#define HEAD	  16
#define MAX_REC	  65000u
#define MAX_TYPES 20000u

enum shape { SHAPE_ARGS, SHAPE_TEXT, SHAPE_RAW };

static void qtypes_init(struct qtypes *t)
{
	struct capture none = { .long_size = sizeof(long) };

	hash_key_init(&t->key);
	t->fmt = fmt_load(&none);
}

static void qtypes_free(struct qtypes *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].name);
	free(t->v);
	u64map_free(&t->by_key);
	fmt_free(t->fmt);
	*t = (struct qtypes){ 0 };
}

/* ---- formats ---- */

static void add_field(struct sbuf *b, const char *type, const char *name, size_t off,
		      unsigned int size, bool is_signed)
{
	sbuf_addf(b, "\tfield:%s %s;\toffset:%zu;\tsize:%u;\tsigned:%d;\n", type, name, off, size,
		  is_signed);
}

static char *format_text(const char *name, size_t id, const struct qev *ev, enum shape shape)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_addf(&b, "name: %s\nID: %zu\nformat:\n", name, id);
	add_field(&b, "unsigned short", "common_type", 0, 2, false);
	add_field(&b, "unsigned char", "common_flags", 2, 1, false);
	add_field(&b, "unsigned char", "common_preempt_count", 3, 1, false);
	add_field(&b, "int", "common_pid", 4, 4, true);
	sbuf_addc(&b, '\n');
	if (shape == SHAPE_TEXT)
		add_field(&b, "__data_loc char[]", "text", 8, 4, false);
	if (shape == SHAPE_RAW)
		add_field(&b, "__data_loc u64[]", "args", 12, 4, false);
	for (size_t k = 0; shape == SHAPE_ARGS && k < ev->nargs; k++) {
		const struct qev_arg *a = &ev->arg[k];
		size_t off = HEAD + 8 * k;

		switch (a->kind) {
		case QEV_STRING: add_field(&b, "__data_loc char[]", a->name, off, 4, false); break;
		case QEV_POINTER: add_field(&b, "void *", a->name, off, 8, false); break;
		case QEV_SIGNED: add_field(&b, "s64", a->name, off, 8, true); break;
		case QEV_UNSIGNED: add_field(&b, "u64", a->name, off, 8, false); break;
		}
	}
	sbuf_add(&b, "\nprint fmt: \"\"\n");
	return xsbuf_take(&b);
}

static int qemu_type_of(struct qtypes *t, const struct qtrace_item *i, enum shape shape,
			uint16_t *id)
{
	const struct hash_key by = { { t->key.k[0] + shape, t->key.k[1] } };
	uint64_t key = hash_bytes(&by, i->name, i->name_len), at;
	char *name, *text, sys[] = "qemu";
	struct qtype *slot;
	int ret;

	if (u64map_get(&t->by_key, key, &at)) {
		*id = (uint16_t)at;
		return 0;
	}
	if (t->n >= MAX_TYPES)
		return -E2BIG;
	name = xstrndup(i->name, MIN(i->name_len, 255u));
	for (char *p = name; *p; p++) /* the name of an event in a file may be anything */
		if (*p <= ' ' || *p > '~' || *p == ':')
			*p = '?';
	text = format_text(name, t->n + 1, i->ev, shape);
	slot = xarray_grow(&t->v, t->n++, &t->cap, sizeof(*slot));
	*slot = (struct qtype){ .ev = shape == SHAPE_ARGS ? i->ev : NULL, .name = name };
	ret = fmt_add(t->fmt,
		      &(struct cap_format){
			      .sys = sys, .name = name, .text = text, .len = strlen(text) });
	free(text);
	if (ret < 0)
		return ret;
	*id = (uint16_t)t->n;
	xu64map_put(&t->by_key, key, t->n);
	return 0;
}

/* ---- records ---- */

/* Appends n bytes to the record, cut to the room that there is; returns where they are. */
static uint32_t add_bytes(struct sbuf *b, const void *p, size_t n)
{
	uint32_t off = (uint32_t)b->len;

	n = MIN(n, MAX_REC - MIN((size_t)off, (size_t)MAX_REC));
	sbuf_add_mem(b, p, n);
	return off | (uint32_t)n << 16;
}

/* A record of an event; *data is the caller's. 0, -ENOMEM, -E2BIG: too many kinds of events. */
static int qtypes_record(struct qtypes *t, const struct qtrace_item *i, uint16_t *id,
			 uint8_t **data, uint32_t *len)
{
	static const uint8_t zero[HEAD + 8 * QEV_MAX_ARGS];
	enum shape shape = i->has_args ? SHAPE_ARGS : i->text ? SHAPE_TEXT : SHAPE_RAW;
	uint32_t text = 0, raw = 0;
	struct sbuf b = { 0 };
	int ret = qemu_type_of(t, i, shape, id);

	*data = NULL;
	if (ret)
		return ret;
	sbuf_add_mem(&b, zero, HEAD + (shape == SHAPE_ARGS ? 8 * i->ev->nargs : 0));
	if (shape == SHAPE_ARGS) {
		for (size_t k = 0; k < i->ev->nargs; k++) {
			const struct qev_value *v = &i->arg[k];
			uint64_t cell = v->num;
			uint32_t loc;

			if (i->ev->arg[k].kind == QEV_STRING) { /* format 0 has only its address */
				loc = add_bytes(&b, v->s ?: "", v->s ? v->len : 0);
				cell = 0;
				memcpy(&cell, &loc, sizeof(loc));
			}
			if (!b.error)
				memcpy(b.s + HEAD + 8 * k, &cell, sizeof(cell));
		}
	}
	if (i->text)
		text = add_bytes(&b, i->text, i->text_len);
	if (shape == SHAPE_RAW)
		raw = add_bytes(&b, i->raw, 8 * i->nraw);
	*len = (uint32_t)b.len;
	*data = (uint8_t *)xsbuf_take(&b);
	sbuf_free(&b);
	memcpy(*data, id, 2);
	memcpy(*data + 4, &i->tid, 4);
	memcpy(*data + 8, &text, 4);
	memcpy(*data + 12, &raw, 4);
	return 0;
}

/* ---- printing ---- */

static const char *rec_string(const struct rec *rec, uint32_t loc, uint32_t *n)
{
	*n = loc >> 16;
	return (loc & 0xffff) + *n <= rec->len ? (const char *)rec->data + (loc & 0xffff) : NULL;
}

void qtypes_print(const struct qtypes *t, const struct rec *rec, struct sbuf *out)
{
	const struct qtype *y = rec->id && rec->id <= t->n ? &t->v[rec->id - 1] : NULL;
	size_t from = out->len;
	const char *p;
	uint32_t n;

	if (!y || rec->len < HEAD)
		return;
	p = rec_string(rec, load_u32(rec->data + 8), &n);
	if (p && n) { /* as QEMU wrote it */
		sbuf_add_mem(out, p, n);
	} else if (y->ev && rec->len >= HEAD + 8 * y->ev->nargs) {
		struct qev_value v[QEV_MAX_ARGS];

		for (size_t k = 0; k < y->ev->nargs; k++) {
			v[k] = (struct qev_value){ .num = load_u64(rec->data + HEAD + 8 * k) };
			if (y->ev->arg[k].kind == QEV_STRING)
				v[k].s = rec_string(rec, load_u32(rec->data + HEAD + 8 * k),
						    &v[k].len);
		}
		qev_print(y->ev, v, y->ev->nargs, out);
	}
	p = rec_string(rec, load_u32(rec->data + 12), &n);
	for (uint32_t k = 0; p && k + 8 <= n; k += 8)
		sbuf_addf(out, "%s0x%llx", k ? " " : "args ", (unsigned long long)load_u64(p + k));
	for (size_t k = from; k < out->len && !out->error; k++)
		out->s[k] = out->s[k] ? out->s[k] : '?';
	if (out->len > from && !out->error)
		str_printable(out->s + from);
}

/*
 * Ioeventfds and the devices behind them, from QEMU's events.
 *
 * kvm_set_ioeventfd_mmio has the address and a file descriptor, but no name. memory_region_ops_read
 * and _write of the same address have the name: drivers access their doorbells before they become
 * eventfds.
 */

#define MAX_REGISTRATIONS 65536
#define MAX_NAMES	  4096

static bool is_named_event(const struct qtrace_item *i, const char *name)
{
	return strlen(name) == i->name_len && !memcmp(name, i->name, i->name_len);
}

static const struct qev_value *item_arg(const struct qtrace_item *i, const char *name)
{
	for (size_t k = 0; k < i->ev->nargs; k++)
		if (!strcmp(i->ev->arg[k].name, name))
			return &i->arg[k];
	return NULL;
}

COMPARE(by_address, struct qdevice,
	ORDER(x->addr, y->addr) ?: ORDER(x->vm, y->vm) ?:
	ORDER(x->from, y->from) ?: ORDER(x->seq, y->seq));

void qdevices_name(struct qdevices *d)
{
	uint64_t at;

	array_sort(d->v, d->n, by_address);
	for (size_t i = 0; i < d->n; i++) {
		struct sbuf b = { 0 };

		if (d->v[i].fd < 0 || d->v[i].name)
			continue;
		if (u64map_get(&d->region, d->v[i].addr, &at))
			sbuf_add(&b, d->name[at - 1]);
		else
			sbuf_addf(&b, "ioeventfd %lld", (long long)d->v[i].fd);
		d->v[i].name = xsbuf_take(&b);
		sbuf_free(&b);
	}
}

/* The last registration of a VM (-1: of an unknown one) for an address up to that time. */
static const struct qdevice *device_of(const struct qdevices *d, uint64_t addr, uint64_t host,
				       int64_t vm)
{
	const struct qdevice key = { .addr = addr, .vm = vm, .from = host, .seq = UINT64_MAX };
	size_t n = COUNT_BEFORE(i, d->n, by_address(&d->v[i], &key) < 0);

	return n && d->v[n - 1].addr == addr && d->v[n - 1].vm == vm ? &d->v[n - 1] : NULL;
}

/* Of an access to a device: which it is, at that time; NULL: unknown, or given back. */
void qdevices_item(const struct qdevices *d, struct tl_item *item)
{
	const struct event_type *e = event_type_of(item->ev); /* kvm_mmio is AMD's */
	const struct qdevice *v, *own;
	uint64_t gpa;

	if (item->src->index || (e->role != EV_FAST_MMIO && e->role != EV_MMIO) ||
	    !fmt_u64(&e->f[e->role == EV_MMIO], item->rec, &gpa))
		return;
	v = device_of(d, gpa, item->host, -1);
	own = item->vm < 0 ? NULL : device_of(d, gpa, item->host, item->vm);
	if (own && (!v || (ORDER(own->from, v->from) ?: ORDER(own->seq, v->seq)) > 0))
		v = own;
	item->device = v ? v->name : NULL;
}

void qdevices_free(struct qdevices *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i].name);
	for (size_t i = 0; i < d->nname; i++)
		free(d->name[i]);
	free(d->v);
	free(d->name);
	u64map_free(&d->region);
	*d = (struct qdevices){ 0 };
}

#define WINDOW	 16384u /* events; QEMU's ring of 256 KiB holds 8192 of the smallest */
#define SLACK_MS 6000	/* one that was cut short continued after its last reading of the clocks */

struct qheld {
	struct tl_item item;
	struct rec rec;
	uint8_t *data;
	uint64_t seq; /* keeps the order of the file among equals */
};

/* ---- setting up ---- */

static void clocks_init(struct qsource *s)
{
	const struct capture *host = s->map->cap;

	s->clock[QTRACE_NO_CLOCK].error = -ENODATA;
	s->clock[QTRACE_MONO].error =
		cap_pieces_init(&s->clock[QTRACE_MONO].pieces, host, CAP_CLOCK_MONO);
	s->clock[QTRACE_REALTIME].error =
		cap_pieces_init(&s->clock[QTRACE_REALTIME].pieces, host, CAP_CLOCK_REALTIME);
	s->begin = host->begin_tsc;
	s->end = host->end_tsc;
	for (size_t i = 0; i < host->nbracket; i++) {
		const struct clock_bracket *b = &host->bracket[i];
		uint64_t last = b->tsc + MIN(b->width, UINT64_MAX - b->tsc);

		s->begin = MIN(s->begin, b->tsc);
		if (!host->end_tsc && !host->complete && host->tsc_khz < UINT32_MAX)
			last += MIN(host->tsc_khz * SLACK_MS, UINT64_MAX - last);
		s->end = MAX(s->end, last);
	}
	for (size_t i = 0;
	     !s->clock[QTRACE_REALTIME].error && i + 1 < s->clock[QTRACE_REALTIME].pieces.pieces.n;
	     i++)
		s->report.steps += s->clock[QTRACE_REALTIME].pieces.v[i].step;
}

int qsource_new(const struct hostmap *map, const struct tl_qemu *q, struct qsource **out,
		struct kvmft_err *err)
{
	static char mono[] = "mono", real[] = "realtime";
	struct qsource *s = xcalloc(1, sizeof(*s));
	const struct capture *host = map->cap;
	struct qtrace_options o = { .format = q->format, .events = q->events };
	int ret;

	*out = s;
	s->map = map;
	s->vm = q->vm;
	o.near = host->nbracket ? host->bracket[0].real : 0;
	ret = qtrace_open(q->path, &o, &s->trace, err);
	if (ret)
		return ret;
	qtypes_init(&s->types);
	s->report.stats = qtrace_stats(s->trace);
	clocks_init(s);
	s->heap = xcalloc(WINDOW, sizeof(*s->heap));
	/* What the summary and JSON say about the source. */
	s->cap = (struct capture){ .path = xstrdup(q->path),
				   .complete = true,
				   .long_size = sizeof(long),
				   .tsc_khz = host->tsc_khz };
	s->cap.clock = s->report.stats->format == QTRACE_SIMPLE ? mono : real;
	return 0;
}

int qsource_place(struct qsource *s, struct hostmap *map, struct kvmft_err *err)
{
	enum qtrace_clock id = QTRACE_NO_CLOCK;
	struct qtrace_item i;
	struct qclock *c;
	int ret = qtrace_rewind(s->trace), more = 0;

	/* The clock of the first event is that of most. */
	while (!ret && (more = qtrace_next(s->trace, &i)) > 0) {
		id = i.clock;
		if (i.kind == QTRACE_EVENT)
			break;
	}
	ret = ret ?: more;
	c = &s->clock[id];

	if (ret <= 0 || !c->error || id == QTRACE_NO_CLOCK)
		return MIN(ret, 0);
	ret = qplace_find(&s->placed, map, s->vm, s->trace, err);
	if (!s->end) { /* a capture without readings does not say when it was made */
		s->begin = s->placed.first;
		s->end = s->placed.last;
	}
	if (ret || !s->placed.pairs)
		return ret;
	cap_pieces_free(&c->pieces);
	c->error = clock_pieces_init(&c->pieces.pieces, s->placed.v, s->placed.n, s->placed.khz,
				     s->placed.slew_ppb);
	return 0;
}

static void held_free(struct qheld *h)
{
	if (h)
		free(h->data);
	free(h);
}

static void heap_empty(struct qsource *s)
{
	while (s->n)
		held_free(s->heap[--s->n]);
	held_free(s->out);
	s->out = NULL;
}

void qsource_free(struct qsource *s)
{
	if (!s)
		return;
	if (s->heap)
		heap_empty(s);
	free(s->heap);
	loghist_free(&s->around);
	for (size_t i = 0; i < ARRAY_SIZE(s->clock); i++)
		cap_pieces_free(&s->clock[i].pieces);
	qplace_free(&s->placed);
	qtypes_free(&s->types);
	qtrace_close(s->trace);
	free(s->cap.path);
	free(s->damage.text);
	free(s);
}

/* ---- time ---- */

/* Whether the clock was set somewhere in lo..hi: then no place in it is better than another. */
static bool pieces_stepped(const struct clock_pieces *p, uint64_t lo, uint64_t hi)
{
	for (size_t i = 0; p->stepped && i + 1 < p->n; i++)
		if (p->v[i].step && p->v[i].tsc_before <= hi && lo <= p->v[i + 1].tsc_after)
			return true;
	return false;
}

/*
 * A clock that was set back shows some times twice, the second time perhaps after the recording: of
 * the intervals between readings only one may contain it, and none in which the clock was set.
 */
static int pieces_once(const struct clock_pieces *p, uint64_t ns, uint64_t *lo, uint64_t *hi)
{
	struct clock_pieces only = *p;
	size_t found = 0;

	only.n = 2;
	only.stepped = false;
	for (size_t i = 0; i + 1 < p->n; i++) {
		uint64_t from = p->v[i].ns, to = p->v[i + 1].ns, d;

		d = (uint64_t)((unsigned __int128)(p->v[i + 1].tsc_after - p->v[i].tsc_before) *
			       1000000 / p->tsc_khz);
		/* Either it was not set yet, or it was already. */
		if (p->v[i].step && (ns - from <= d || to - ns <= d))
			return -ENOTUNIQ;
		if (p->v[i].step || ns < from || ns > to)
			continue;
		only.v = &p->v[i];
		found++;
	}
	return found == 1 ? clock_pieces_to_tsc(&only, ns, lo, hi) : -ENOTUNIQ;
}

static int to_tsc(const struct clock_pieces *p, uint64_t ns, uint64_t *lo, uint64_t *hi)
{
	int ret = clock_pieces_to_tsc(p, ns, lo, hi);

	return ret == -ENOTUNIQ ? pieces_once(p, ns, lo, hi) : ret;
}

/*
 * Host TSC of a stamp, the middle of what is possible, and how far off it may be. False: unknown.
 * *outside: it is not within the recording.
 */
static bool item_locate(struct qsource *s, const struct qtrace_item *i, uint64_t *host,
			uint64_t *around, bool *outside)
{
	const struct qclock *c = &s->clock[i->clock];
	uint64_t lo, hi, lo2, hi2;
	int ret;

	*outside = false;
	if (c->error) {
		s->report.no_clock |= i->clock != QTRACE_NO_CLOCK;
		return false;
	}
	ret = to_tsc(&c->pieces.pieces, i->ns, &lo, &hi);
	if (ret == -ERANGE) { /* far before the recording, or far after it */
		*outside = true;
		return false;
	}
	if (ret < 0)
		return false;
	if (i->unit > 1 && to_tsc(&c->pieces.pieces, i->ns + i->unit - 1, &lo2, &hi2) >= 0)
		hi = MAX(hi, hi2);
	*host = lo + (hi - lo) / 2;
	*around = (hi - lo + 1) / 2;
	*outside = hi < s->begin || lo > s->end;
	return *outside || !pieces_stepped(&c->pieces.pieces, lo, hi);
}

/* Fills host, around, unplaced; false: it is not to be shown. */
static bool qemu_place_item(struct qsource *s, const struct qtrace_item *i, struct tl_item *item)
{
	uint64_t host = 0, around = 0;
	bool outside, known = item_locate(s, i, &host, &around, &outside);

	if (outside) {
		s->last_outside = true;
		s->report.outside += i->kind == QTRACE_EVENT;
		return false;
	}
	if (!known && s->last_outside && i->clock == QTRACE_NO_CLOCK) { /* as others there */
		s->report.outside += i->kind == QTRACE_EVENT;
		return false;
	}
	s->last_outside = false;
	item->unplaced = !known;
	if (known)
		s->file_host = host;
	item->host = s->file_host;
	item->around = around;
	if (known && i->kind == QTRACE_EVENT) {
		s->report.worst = MAX(s->report.worst, around);
		loghist_add(&s->around, around);
	}
	s->report.untimed += !known && i->clock == QTRACE_NO_CLOCK;
	return true;
}

/* ---- who ---- */

static void qemu_attribute(const struct qsource *s, int32_t tid, struct tl_item *item)
{
	const struct hostmap_thread *t = tid > 0 ? hostmap_thread(s->map, tid) : NULL;

	item->tid = tid > 0 ? tid : -1;
	item->vm = s->vm;
	item->vcpu = -1;
	if (t && (s->vm < 0 || (size_t)s->vm == t->vm)) {
		item->vm = (int64_t)t->vm;
		item->vcpu = t->vcpu;
	}
	if (tid > 0 && item->vm < 0)
		item->vm = hostmap_task_vm(s->map, tid);
}

/* ---- the heap ---- */

static bool held_before(const struct qheld *a, const struct qheld *b)
{
	return a->item.host != b->item.host ? a->item.host < b->item.host : a->seq < b->seq;
}

static struct qheld *heap_take(struct qsource *s)
{
	struct qheld *first = s->heap[0], *last = s->heap[--s->n];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < s->n) {
		child += child + 1 < s->n && held_before(s->heap[child + 1], s->heap[child]);
		if (!held_before(s->heap[child], last))
			break;
		s->heap[at] = s->heap[child];
		at = child;
	}
	s->heap[at] = last;
	return first;
}

/* ---- events ---- */

static int item_hold(struct qsource *s, const struct qtrace_item *i)
{
	struct tl_item item = { .cpu = i->cpu < 0 ? TL_NO_CPU : (uint32_t)i->cpu };
	struct qheld *h;
	size_t at;
	int ret = 0;

	if (!qemu_place_item(s, i, &item))
		return 0;
	qemu_attribute(s, i->tid, &item);
	h = xcalloc(1, sizeof(*h));
	h->item = item;
	h->seq = s->seq++;
	h->item.kind = i->kind == QTRACE_LOST ? TL_GAP : TL_EVENT;
	h->item.lost = i->lost;
	if (i->kind == QTRACE_EVENT)
		ret = qtypes_record(&s->types, i, &h->rec.id, &h->data, &h->rec.len);
	if (ret) {
		held_free(h);
		return ret;
	}
	h->rec.data = h->data;
	h->rec.ts = i->ns;
	for (at = s->n++; at && held_before(h, s->heap[(at - 1) / 2]); at = (at - 1) / 2)
		s->heap[at] = s->heap[(at - 1) / 2];
	s->heap[at] = h;
	return 0;
}

static int item_fill(struct qsource *s)
{
	struct qtrace_item i;
	int ret = 1;

	while (s->n < WINDOW && !s->file_end && ret > 0) {
		ret = qtrace_next(s->trace, &i);
		if (ret > 0) {
			int held = item_hold(s, &i);

			ret = held ?: 1;
		}
	}
	if (!ret) {
		const struct qtrace_stats *st = qtrace_stats(s->trace);

		/* Once the trace is read: what is missing of it. */
		s->file_end = true;
		s->cap.complete = !st->truncated;
		if (st->damage && !s->damage.text) {
			s->damage.text = xstrdup(st->damage);
			s->cap.damage = &s->damage;
			s->cap.ndamage = 1;
		}
	}
	return MIN(ret, 0);
}

int qsource_start(struct qsource *s)
{
	uint64_t steps = s->report.steps;

	heap_empty(s);
	loghist_free(&s->around);
	s->seq = s->last_host = 0;
	s->file_host = s->begin;
	s->file_end = s->last_outside = false;
	s->report = (struct tl_qemu_report){ .stats = qtrace_stats(s->trace),
					     .steps = steps,
					     .shown = s->placed.pairs,
					     .why = s->placed.pairs ? NULL : s->placed.why };
	return qtrace_rewind(s->trace);
}

int qsource_next(struct qsource *s, struct tl_item *item)
{
	int ret = item_fill(s);
	struct qheld *h;

	if (ret || !s->n)
		return ret;
	held_free(s->out);
	h = s->out = heap_take(s);
	if (h->item.host < s->last_host) { /* later in the file than the window reaches */
		h->item.host = s->last_host;
		h->item.unplaced = true;
	}
	if (h->item.kind == TL_GAP) { /* between the previous event and its own time */
		uint64_t from = s->last_host ?: h->item.host;

		h->item.width = h->item.host - from;
		h->item.host = from;
		h->item.unplaced = false;
	}
	s->last_host = h->item.host;
	*item = h->item;
	if (item->kind == TL_EVENT) {
		item->rec = &h->rec;
		item->ev = fmt_by_id(s->types.fmt, h->rec.id);
	}
	return 1;
}

int qsource_devices(struct qsource *s, struct qdevices *d)
{
	struct qtrace_item i;
	int ret = qsource_start(s), more = 1;

	while (!ret && (more = qtrace_next(s->trace, &i)) > 0) {
		const struct qev_value *addr, *name, *fd, *assign;
		struct tl_item item = { .host = 0 };
		bool placed = qemu_place_item(s, &i, &item);

		if (!i.ev || !i.has_args)
			continue;
		qemu_attribute(s, i.tid, &item);
		/* Most are from before the recording, and hold from its beginning on. */
		if (!placed)
			item.host = s->file_host > s->begin ? s->file_host : 0;
		if (i.kind != QTRACE_EVENT)
			continue;
		addr = item_arg(&i, "addr");
		name = item_arg(&i, "name");
		fd = item_arg(&i, "fd");
		assign = item_arg(&i, "assign");
		if (is_named_event(&i, "kvm_set_ioeventfd_mmio") && addr && fd && assign &&
		    d->n < MAX_REGISTRATIONS) {
			struct qdevice *v = xarray_grow(&d->v, d->n, &d->cap, sizeof(*v));

			*v = (struct qdevice){ .addr = addr->num,
					       .from = item.host,
					       .seq = d->n++,
					       .vm = item.vm,
					       .fd = assign->num ? (int32_t)fd->num : -1 };
		} else if ((is_named_event(&i, "memory_region_ops_write") ||
			    is_named_event(&i, "memory_region_ops_read")) &&
			   addr && name && name->s && name->len && d->nname < MAX_NAMES &&
			   !u64map_get(&d->region, addr->num, NULL)) {
			char **slot =
				xarray_grow(&d->name, d->nname++, &d->name_cap, sizeof(*slot));

			*slot = xstrndup(name->s, MIN(name->len, 64u));
			str_printable(*slot);
			xu64map_put(&d->region, addr->num, d->nname);
		}
	}
	return ret ?: MIN(more, 0);
}

void qsource_report(const struct qsource *s, struct tl_qemu_report *r)
{
	*r = s->report;
	r->median = loghist_percentile(&s->around, 1, 2);
}

/*
 * Events of QEMU in the host's own trace. Their stamps are the ring's: no conversion
 * is needed.
 */

struct qmarker *qmarker_new(const struct hostmap *map, const struct qevents *(*get)(void *arg),
			    void *arg)
{
	const struct event_type *print = event_find(map->fmt, EV_PRINT, 1);
	struct qmarker *m;

	if (!print->ev)
		return NULL;
	m = xcalloc(1, sizeof(*m));
	m->map = map;
	m->get = get;
	m->arg = arg;
	m->print = print->ev;
	m->text = print->f[0].off; /* an array without a size, the last field */
	qtypes_init(&m->types);
	return m;
}

void qmarker_free(struct qmarker *m)
{
	if (!m)
		return;
	if (m->types.fmt)
		qtypes_free(&m->types);
	free(m->data);
	free(m);
}

int qmarker_resolve(struct qmarker *m, struct tl_item *item)
{
	const struct rec *rec = item->rec;
	struct qtrace_item i;
	const char *text;
	int ret;

	if (item->ev != m->print || rec->len <= m->text)
		return 0;
	if (m->get)
		m->events = m->get(m->arg);
	m->get = NULL;
	if (!m->events)
		return 0;
	text = (const char *)rec->data + m->text;
	/*
	 * Any program may write what looks like an event: only a thread of a VM's process is
	 * trusted. If no VM is known, or only the recorded command could write, a text is trusted
	 * if its arguments fit the declaration.
	 */
	if (!qtrace_marker(m->events, text, strnlen(text, rec->len - m->text), &i) ||
	    ((!m->map->nvm || hostmap_task_vm(m->map, item->tid) < 0) &&
	     (!i.has_args || (m->map->nvm && !m->map->cap->marker_of_command))))
		return 0;
	i.tid = item->tid;
	free(m->data);
	ret = qtypes_record(&m->types, &i, &m->rec.id, &m->data, &m->rec.len);
	if (ret)
		return ret;
	m->rec.data = m->data;
	m->rec.ts = rec->ts;
	m->met++;
	item->rec = &m->rec;
	item->ev = fmt_by_id(m->types.fmt, m->rec.id);
	item->marker = m;
	item->usual = false;
	return 0;
}
