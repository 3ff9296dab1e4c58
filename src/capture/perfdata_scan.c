/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata_scan.c: the records of a perf.data; an index of all samples, made when it is opened; and
 * sub-buffers of them, made as the kernel would have done when they are read.
 *
 *   u32 type, u16 misc, u16 size (of all of it), body
 *
 * The body of a sample is what its event's sample_type asks for, in the order of the list below, of
 * which anything after raw data is ignored here. Other records have their own kind of body, with
 * some of the same facts at its end if the event asks for them. The event is identified by an id,
 * at a place that all events share.
 */
#include "perfdata.h"

#define WINDOW	   (128u << 10) /* holds a record of any size */
#define MAX_IDS	   (1u << 16) /* of events that lost samples */
#define MAX_TASKS  (3u << 14)
#define MAX_COMMS  (2u << 14) /* ... more of which may be known only by name */
#define SUBBUF_MIN (16u << 10)
#define FAR_OFF	   (1ull << 46) /* bytes: pd_entry has no more */
#define MAX_PLAIN  ((size_t)1 << 30)
#define RECORD_MAX 65535u
#define SPAN_MAX   (1ull << 58) /* ns: an event cannot hold a larger delta */

/* sample_type */
#define IP	   (1u << 0)
#define TID	   (1u << 1)
#define TIME	   (1u << 2)
#define ADDR	   (1u << 3)
#define READ	   (1u << 4)
#define ID	   (1u << 6)
#define CPU	   (1u << 7)
#define PERIOD	   (1u << 8)
#define STREAM_ID  (1u << 9)
#define RAW	   (1u << 10)
#define IDENTIFIER (1u << 16)

/* read_format */
#define TIME_ENABLED 0 /* numbers of bits */
#define TIME_RUNNING 1
#define READ_ID	     2
#define GROUP	     3
#define LOST	     4

struct pd_facts {
	uint64_t id, time;
	int32_t pid, tid;
	uint32_t cpu;
	bool has_cpu, has_time;
};

struct pd_sample {
	struct pd_facts f;
	/* Valid until the next record is loaded. */
	const uint8_t *raw, *stack; /* stack: return addresses in the kernel, 8 bytes each */
	uint32_t raw_len, nstack;
};

static const uint32_t in_sample[] = { IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD };
static const uint32_t in_trailer[] = { TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER };

/* Each is 8 bytes long. */
static struct pd_places places(uint64_t type, const uint32_t *order, size_t n)
{
	struct pd_places f = { PD_NOWHERE, PD_NOWHERE, PD_NOWHERE, PD_NOWHERE, 0 };

	for (size_t i = 0; i < n; i++) {
		if (!(type & order[i]))
			continue;
		if (order[i] == TID)
			f.tid = f.size;
		if (order[i] == TIME)
			f.time = f.size;
		if (order[i] == CPU)
			f.cpu = f.size;
		if (order[i] == IDENTIFIER || (order[i] == ID && !(type & IDENTIFIER)))
			f.id = f.size;
		f.size += 8;
	}
	return f;
}

void pd_layout_places(struct pd_layout *l)
{
	l->sample = places(l->sample_type, in_sample, ARRAY_SIZE(in_sample));
	l->trailer = places(l->id_all ? l->sample_type : 0, in_trailer, ARRAY_SIZE(in_trailer));
	l->tracepoint &= (l->sample_type & RAW) && l->sample.time != PD_NOWHERE &&
			 l->sample.cpu != PD_NOWHERE;
}

/*
 * n bytes of the file in memory: their address; NULL: they cannot be read, *ret says why. Where the
 * file is read on, as much as the window holds; elsewhere no more than a page, because it may jump.
 */
static const uint8_t *pd_load(struct perfdata *p, uint64_t at, size_t n, int *ret)
{
	uint64_t in = at - p->window_at;
	size_t ahead = MAX(n, in <= p->window_len ? (size_t)WINDOW : (size_t)4096);
	ssize_t got;

	if (p->plain)
		return p->plain + at; /* the caller knows that it ends by end */
	if (in <= p->window_len && n <= p->window_len - in)
		return p->window + in;
	p->window = p->window ?: xmalloc(WINDOW);
	*ret = -EIO;
	got = full_pread(p->fd, p->window, (size_t)MIN((uint64_t)ahead, p->end - at), at);
	p->window_at = at;
	p->window_len = got > 0 ? (size_t)got : 0;
	if (got < 0)
		*ret = (int)got;
	return p->window_len >= n ? p->window : NULL; /* else the file shrank */
}

int pd_record(struct perfdata *p, uint64_t at, struct pd_record *r)
{
	const uint64_t end = p->end;
	const uint8_t *b;
	size_t size;
	int ret = 0;

	if (at >= end)
		return 0;
	if (end - at < PD_RECORD_HEAD)
		return -EBADMSG;
	b = pd_load(p, at, PD_RECORD_HEAD, &ret);
	if (!b)
		return ret;
	size = load_u16(b + 6);
	if (size < PD_RECORD_HEAD || size > end - at)
		return -EBADMSG;
	b = pd_load(p, at, size, &ret);
	if (!b)
		return ret;
	r->type = load_u32(b);
	r->misc = load_u16(b + 4);
	r->body = (struct cursor){ .p = b + PD_RECORD_HEAD, .left = size - PD_RECORD_HEAD };
	r->len = r->more_at = size;
	/* Followed by data that the size does not include. */
	if (r->type == PD_AUXTRACE || r->type == PD_TRACING) {
		uint64_t more = UINT64_MAX;

		if (r->type == PD_TRACING && size >= PD_RECORD_HEAD + 4)
			more = ((uint64_t)load_u32(b + PD_RECORD_HEAD) + 7) & ~(uint64_t)7;
		else if (size >= PD_RECORD_HEAD + 8)
			more = load_u64(b + PD_RECORD_HEAD);

		if (more > end - at - size)
			return -EBADMSG;
		r->len += more;
	}
	return 1;
}

/* With an id that no event has: the first event, as in perf. */
static const struct pd_layout *layout_of(const struct perfdata *p, uint64_t id)
{
	size_t at = COUNT_BEFORE(i, p->nids, p->ids[i].last < id);

	return &p->layout[at < p->nids && p->ids[at].first <= id ? p->ids[at].layout : 0];
}

/* b: f->size bytes. */
static void facts(const struct pd_places *at, const uint8_t *b, struct pd_facts *f)
{
	*f = (struct pd_facts){ .pid = -1, .tid = -1 };
	if (at->id != PD_NOWHERE)
		f->id = load_u64(b + at->id);
	if (at->tid != PD_NOWHERE) {
		f->pid = (int32_t)load_u32(b + at->tid);
		f->tid = (int32_t)load_u32(b + at->tid + 4);
	}
	f->has_time = at->time != PD_NOWHERE;
	if (f->has_time)
		f->time = load_u64(b + at->time);
	f->has_cpu = at->cpu != PD_NOWHERE;
	if (f->has_cpu)
		f->cpu = load_u32(b + at->cpu);
}

/*
 * The part of a chain of callers that is the kernel's. Its n addresses are divided by marks, which
 * are the last 4095 numbers that there are, in what is the kernel's, the program's and the guests'.
 */
static int take_stack(struct cursor *c, struct pd_sample *s)
{
	uint64_t n, at;
	bool kernel = false;

	if (cur_u64(c, &n) || n > c->left / 8)
		return -EBADMSG;
	for (const uint8_t *p = c->p; n--; p += 8) {
		(void)!cur_u64(c, &at);
		if (at >= (uint64_t)-4095)
			kernel = at == (uint64_t)-128 && !s->nstack;
		s->stack = s->nstack ? s->stack : p;
		s->nstack += kernel && at < (uint64_t)-4095;
	}
	return 0;
}

/* 1; 0: an event that is not a tracepoint; -EBADMSG. */
static int pd_sample(const struct perfdata *p, const struct pd_record *r, struct pd_sample *s)
{
	const struct pd_layout *l = &p->layout[0];
	struct cursor c = r->body;
	const uint8_t *b;
	uint64_t n = 1;

	if (p->nids) { /* all layouts have the id at the same place */
		if (c.left < l->sample.id + 8u)
			return -EBADMSG;
		l = layout_of(p, load_u64(c.p + l->sample.id));
	}
	if (!l->tracepoint)
		return 0;
	if (cur_bytes(&c, l->sample.size, &b))
		return -EBADMSG;
	facts(&l->sample, b, &s->f);
	/* Counters: their times, then for each a value, an id, and how often it was lost. */
	if (l->sample_type & READ) {
		const uint64_t format = l->read_format;
		uint64_t times = (format >> TIME_ENABLED & 1) + (format >> TIME_RUNNING & 1);
		uint64_t each = 1 + (format >> READ_ID & 1) + (format >> LOST & 1);

		if (((format >> GROUP & 1) && cur_u64(&c, &n)) || n > c.left / 8 ||
		    cur_skip(&c, (size_t)(8 * (times + n * each))))
			return -EBADMSG;
	}
	s->nstack = 0;
	if ((l->sample_type & PD_CALLCHAIN) && take_stack(&c, s))
		return -EBADMSG;
	if (cur_u32(&c, &s->raw_len) || cur_bytes(&c, s->raw_len, &s->raw) || s->raw_len < 8)
		return -EBADMSG; /* the fields that all events have take 8 bytes */
	return 1;
}

/* The facts at the end of a record that is not a sample; what is before them is then its body. */
static void pd_trailer(const struct perfdata *p, struct pd_record *r, struct pd_facts *f)
{
	const struct pd_layout *l = &p->layout[0];
	const struct pd_places none = { PD_NOWHERE, PD_NOWHERE, PD_NOWHERE, PD_NOWHERE, 0 };
	uint32_t back = (uint32_t)l->trailer.size - l->trailer.id;

	if (p->nids && l->id_all && r->body.left >= back)
		l = layout_of(p, load_u64(r->body.p + r->body.left - back));
	if (r->body.left < l->trailer.size) {
		facts(&none, NULL, f);
		return;
	}
	r->body.left -= l->trailer.size;
	facts(&l->trailer, r->body.p + r->body.left, f);
}

/* ---- streams ---- */

struct scan {
	struct perfdata *p;
	struct kvmft_err *err;
	uint64_t at;   /* of the record */
	uint32_t most; /* bytes that an event may take */
	struct u64map by_cpu;
	uint32_t cpu, stream;	    /* the last one looked up; UINT32_MAX: none */
	struct u64map lost_of;	    /* id of an event → samples that it lost, by the counters */
	struct u64map cpu_of;	    /* ... → its CPU */
	uint64_t broken, elsewhere; /* samples; and those of CPUs or threads beyond the limit */
	uint64_t aux;		    /* records of other data */
	uint64_t lost_nowhere;
};

/* NULL: there are too many. */
static struct pd_stream *stream_of(struct scan *s, uint32_t cpu)
{
	struct perfdata *p = s->p;
	struct pd_stream *st;
	uint64_t at;

	if (cpu >= CAPTURE_MAX_CPUS)
		return NULL;
	if (cpu != s->cpu || s->stream == UINT32_MAX) {
		if (!u64map_get(&s->by_cpu, cpu, &at)) {
			xu64map_put(&s->by_cpu, cpu, at = p->nstream);
			st = xarray_grow(&p->stream, p->nstream++, &p->stream_cap, sizeof(*st));
			st->cpu = cpu;
		}
		s->cpu = cpu;
		s->stream = (uint32_t)at;
	}
	return &p->stream[s->stream];
}

static void entry_add(struct scan *s, struct pd_stream *st, uint64_t time, uint32_t cost)
{
	const struct pd_entry e = { .time = time,
				    .off = s->at & (FAR_OFF - 1),
				    .cost = cost & ((1u << 18) - 1) };

	xarray_add(&st->entry, &st->n, &st->cap, &e, sizeof(e));
}

/* ---- samples ---- */

/* The most bytes that a sample takes: for an event, two words of header, two of a time extend. */
static uint32_t pd_cost(const struct pd_sample *s)
{
	return 16 + ((s->raw_len + 3) & ~3u) + (s->nstack ? 32 + 8 * s->nstack : 0);
}

/* A task, unless there are `most`: a hostile file must not take all memory. */
static void task(struct scan *s, size_t most, int32_t pid, int32_t tid, const char *comm)
{
	struct capture *c = s->p->c;

	if (pid > 0 && tid > 0 &&
	    (c->ntask < most || u64map_get(&cap_priv(c)->task_by_tid, (uint32_t)tid, NULL)))
		cap_task_add(c, tid, pid, comm, comm != NULL);
}

static void scan_sample(struct scan *s, struct pd_record *r)
{
	struct pd_stream *st;
	struct pd_sample smp;
	uint32_t cost;
	int ret = pd_sample(s->p, r, &smp);

	if (ret <= 0) {
		s->broken += ret < 0;
		return;
	}
	st = stream_of(s, smp.f.cpu);
	if (!st) {
		s->elsewhere++;
		return;
	}
	cost = pd_cost(&smp);
	s->most = MAX(s->most, cost);
	st->last = MAX(st->last, smp.f.time);
	entry_add(s, st, smp.f.time, cost);
	if (smp.f.tid == st->tid)
		return;
	st->tid = smp.f.tid;
	/* The event differs from perf if the thread ran in another PID namespace. */
	if ((int32_t)load_u32(smp.raw + 4) == smp.f.tid)
		task(s, MAX_TASKS, smp.f.pid, smp.f.tid, NULL);
}

static uint64_t lost_count(const struct pd_record *r)
{
	struct cursor c = r->body;
	uint64_t count;

	return cur_skip(&c, 8) || cur_u64(&c, &count) ? 0 : count;
}

static void scan_lost(struct scan *s, struct pd_record *r)
{
	struct pd_stream *st;
	struct pd_facts f;
	uint64_t count;

	pd_trailer(s->p, r, &f);
	count = lost_count(r);
	st = f.has_cpu ? stream_of(s, f.cpu) : NULL;
	if (!st) {
		s->lost_nowhere += MAX(count, (uint64_t)1);
		return;
	}
	st->lost += MIN(count, UINT64_MAX - st->lost);
	entry_add(s, st, MAX(f.time, st->last), 0); /* after what is before it in the file */
}

/*
 * A counter, read when perf ended: it includes the samples that such records report, and those not
 * followed by a record.
 */
static void scan_lost_samples(struct scan *s, struct pd_record *r)
{
	const uint16_t by_filter = 1 << 15; /* not wanted: no loss */
	struct pd_facts f;
	uint64_t count, *sum;

	pd_trailer(s->p, r, &f);
	if (cur_u64(&r->body, &count) || (r->misc & by_filter) || s->lost_of.n >= MAX_IDS)
		return;
	sum = xu64map_at(&s->lost_of, f.id);
	*sum += MIN(count, UINT64_MAX - *sum);
}

/* ---- other records ---- */

/* pid, tid, name; NUL and filling behind it. */
static void scan_comm(struct scan *s, struct pd_record *r)
{
	uint32_t pid, tid;
	struct pd_facts f;
	const char *comm;

	pd_trailer(s->p, r, &f);
	if (!cur_u32(&r->body, &pid) && !cur_u32(&r->body, &tid) && !cur_str(&r->body, &comm))
		task(s, MAX_COMMS, (int32_t)pid, (int32_t)tid, comm);
}

/* pid, ppid, tid, ptid: the new thread has the name of the old one. */
static void scan_fork(struct scan *s, struct pd_record *r)
{
	uint32_t pid, ppid, tid, ptid;
	_cleanup_free_ char *comm = NULL;
	const struct cap_task *parent;

	if (cur_u32(&r->body, &pid) || cur_u32(&r->body, &ppid) || cur_u32(&r->body, &tid) ||
	    cur_u32(&r->body, &ptid))
		return;
	parent = cap_task(s->p->c, (int32_t)ptid);
	comm = parent ? xstrdup(parent->comm) : NULL;
	task(s, MAX_COMMS, (int32_t)pid, (int32_t)tid, comm);
}

/* nr, nr x { id, number of the event, CPU, thread } */
static void scan_id_index(struct scan *s, struct pd_record *r)
{
	uint64_t n, id, cpu;

	if (cur_u64(&r->body, &n))
		return;
	while (n-- && !cur_u64(&r->body, &id) && !cur_skip(&r->body, 8) &&
	       !cur_u64(&r->body, &cpu) && !cur_skip(&r->body, 8) && s->cpu_of.n < MAX_IDS)
		if (cpu < CAPTURE_MAX_CPUS)
			xu64map_put(&s->cpu_of, id, cpu);
}

/* shift, mult, zero: perf's clock in ns = zero + (TSC * mult >> shift). */
static void scan_time_conv(struct scan *s, struct pd_record *r)
{
	struct cap_line *line = &s->p->c->line;
	uint64_t shift, mult, zero;

	if (cur_u64(&r->body, &shift) || cur_u64(&r->body, &mult) || cur_u64(&r->body, &zero) ||
	    shift > 32 || !mult || mult > UINT32_MAX)
		return;
	*line = (struct cap_line){ true, { zero, (uint32_t)mult, (uint8_t)shift } };
}

static void scan_aux(struct scan *s, struct pd_record *r __unused_arg)
{
	s->aux++;
}

static const struct {
	uint32_t type;
	void (*scan)(struct scan *s, struct pd_record *r);
} scans[] = {
	{ PD_SAMPLE, scan_sample },
	{ PD_LOST, scan_lost },
	{ PD_LOST_SAMPLES, scan_lost_samples },
	{ PD_COMM, scan_comm },
	{ PD_FORK, scan_fork },
	{ PD_ID_INDEX, scan_id_index },
	{ PD_TIME_CONV, scan_time_conv },
	{ PD_AUXTRACE, scan_aux },
};

/* ---- order ---- */

COMPARE(entry_cmp, struct pd_entry, ORDER(x->time, y->time) ?: ORDER(x->off, y->off));

/* A sub-buffer ends where it is full, and before events were lost. */
static void entries_divide(const struct perfdata *p, struct pd_stream *st)
{
	const struct subbuf_geom *g = &p->w.g;
	uint32_t room = g->size - g->header - g->long_size, fill = 0;
	size_t first = 0;

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
static void scan_losses(struct scan *s)
{
	struct capture *c = s->p->c;
	uint64_t told = 0, all = 0, placed = 0, cpu;
	struct pd_stream *st;

	for (size_t i = 0; i < s->p->nstream; i++)
		told += MIN(s->p->stream[i].lost, UINT64_MAX - told);
	for (size_t i = 0; i < s->lost_of.cap; i++)
		if (s->lost_of.slot[i].used)
			all += MIN(s->lost_of.slot[i].val, UINT64_MAX - all);
	if (all <= told)
		return;
	for (size_t i = 0; i < s->lost_of.cap; i++) {
		const struct u64map_slot *of = &s->lost_of.slot[i];

		if (!of->used || !u64map_get(&s->cpu_of, of->key, &cpu))
			continue;
		st = stream_of(s, (uint32_t)cpu); /* a new one lost all that it had */
		st->counted += MIN(of->val, UINT64_MAX - st->counted);
	}
	for (size_t i = 0; i < s->p->nstream; i++) {
		st = &s->p->stream[i];
		const struct cap_loss l = { .cpu = st->cpu,
					    .count = st->counted - st->lost,
					    .from = st->last,
					    .to = st->last,
					    .first = st->nblock,
					    .last = st->nblock };

		if (st->counted <= st->lost)
			continue;
		xarray_add(&c->loss, &c->nloss, &c->loss_cap, &l, sizeof(l));
		placed += MIN(l.count, UINT64_MAX - placed);
	}
	s->lost_nowhere += all - told > placed ? all - told - placed : 0;
}

/* ---- all of it ---- */

static int scan_records(struct scan *s)
{
	struct perfdata *p = s->p;
	struct pd_record r;
	int ret = 0;

	s->at = p->begin;
	if (p->end > FAR_OFF)
		return err_set(s->err, EFBIG, "larger than 64 TiB");
	while ((ret = pd_record(p, s->at, &r)) > 0) {
		if (r.type == PD_COMPRESSED || r.type == PD_COMPRESSED2)
			return err_set(
				s->err, EOPNOTSUPP,
				"compressed (perf record -z), and its head does not say how");
		for (size_t i = 0; i < ARRAY_SIZE(scans); i++)
			if (scans[i].type == r.type)
				scans[i].scan(s, &r);
		s->at += r.len;
	}
	if (ret != -EBADMSG)
		return ret;
	cap_note(p->c,
		 "damaged record at byte %" PRIu64 ": the %" PRIu64
		 " bytes from there on are left out",
		 s->at, p->end - s->at);
	p->c->complete = false;
	return 0;
}

static void scan_notes(const struct scan *s)
{
	struct capture *c = s->p->c;

	if (s->broken)
		cap_note(c, "%" PRIu64 " samples are damaged, and left out", s->broken);
	if (s->elsewhere)
		cap_note(c, "%" PRIu64 " samples of CPUs or threads beyond %d are left out",
			 s->elsewhere, CAPTURE_MAX_CPUS);
	if (s->aux)
		cap_note(c,
			 "%" PRIu64 " records of AUX data (a processor's hardware trace) left out",
			 s->aux);
	if (s->lost_nowhere)
		cap_note(c, "%" PRIu64 " events were lost, on CPUs that the file does not name",
			 s->lost_nowhere);
}

int pd_scan(struct perfdata *p, struct kvmft_err *err)
{
	struct scan s = { .p = p, .err = err, .stream = UINT32_MAX };
	int ret = scan_records(&s);

	for (p->w.g.size = SUBBUF_MIN; p->w.g.size < 4 * s.most + 64;)
		p->w.g.size *= 2;
	for (size_t i = 0; i < p->nstream && !ret; i++) {
		struct pd_stream *st = &p->stream[i];
		struct pd_entry *v = st->entry;
		size_t moved = 0;

		/* Most are in their order, or a few places off. */
		for (size_t j = 1, k; j < st->n && moved <= 16 * st->n; j++) {
			const struct pd_entry e = v[j];

			for (k = j; k && entry_cmp(&e, &v[k - 1]) < 0; k--)
				v[k] = v[k - 1];
			v[k] = e;
			moved += j - k;
		}
		if (moved > 16 * st->n)
			array_sort(v, st->n, entry_cmp);
		entries_divide(p, &p->stream[i]);
	}
	if (!ret) {
		scan_losses(&s);
		scan_notes(&s);
	}
	u64map_free(&s.by_cpu);
	u64map_free(&s.lost_of);
	u64map_free(&s.cpu_of);
	return ret;
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
	stack[0] = PD_STACK_ID;
	memcpy(stack + 2, smp.raw + 2, 6); /* whose it is */
	memcpy(stack + 8, &smp.nstack, sizeof(smp.nstack));
	memcpy(stack + 16, smp.stack, 8 * (size_t)smp.nstack);
	return subbuf_write(&p->w, e->time, stack, 16 + 8 * smp.nstack);
}

int pd_make(void *perfdata, uint64_t stream, uint64_t idx, const uint8_t **buf)
{
	struct perfdata *p = perfdata;
	const struct pd_stream *s = &p->stream[stream];
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

void pd_free(void *perfdata)
{
	struct perfdata *p = perfdata;

	for (size_t i = 0; i < p->nstream; i++) {
		free(p->stream[i].entry);
		free(p->stream[i].block);
	}
	free(p->stream);
	free(p->layout);
	free(p->ids);
	free(p->window);
	free(p->plain);
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

struct unpacking {
	struct perfdata *p;
	uint64_t at; /* in the file */
	uint8_t *plain;
	size_t len, cap, whole; /* whole: where the last record begins that is not all there */
};

/* n bytes behind all, or behind the last record that is all there. */
static int add_records(struct unpacking *u, size_t at, const void *b, size_t n)
{
	size_t size;

	if (n > MAX_PLAIN - u->len)
		return -EFBIG;
	if (u->len + n > u->cap) {
		size_t cap = MAX(2 * u->cap, u->len + n + RECORD_MAX);

		u->plain = xmem(realloc(u->plain, cap));
		u->cap = cap;
	}
	memmove(u->plain + at + n, u->plain + at, u->len - at);
	memcpy(u->plain + at, b, n);
	u->len += n;
	while (u->len - u->whole >= PD_RECORD_HEAD) {
		size = load_u16(u->plain + u->whole + 6);
		if (size < PD_RECORD_HEAD)
			return -EBADMSG;
		if (size > u->len - u->whole)
			break;
		u->whole += size;
	}
	return 0;
}

/* The next piece; what is before it is put where it belongs. */
static ssize_t next_piece(void *unpacking, void *buf, size_t room)
{
	static const uint8_t aux[16] = { PD_AUXTRACE, 0, 0, 0, 0, 0, sizeof(aux), 0 };
	struct unpacking *u = unpacking;
	struct pd_record r;
	uint64_t size;
	int ret;

	while ((ret = pd_record(u->p, u->at, &r)) > 0) {
		u->at += r.len;
		size = r.body.left;
		if (r.type == PD_COMPRESSED2 && (cur_u64(&r.body, &size) || size > r.body.left))
			return -EBADMSG;
		if (r.type == PD_COMPRESSED || r.type == PD_COMPRESSED2) {
			if (!size)
				continue; /* 0 would be the end */
			memcpy(buf, r.body.p, MIN((size_t)size, room));
			return (ssize_t)size;
		}
		if (r.type == PD_AUXTRACE) /* its data are not kept */
			ret = add_records(u, u->whole, aux, sizeof(aux));
		else if (r.len == r.more_at)
			ret = add_records(u, u->whole, r.body.p - PD_RECORD_HEAD, (size_t)r.len);
		if (ret < 0)
			return ret;
	}
	return ret;
}

int pd_unpack(struct perfdata *p, struct kvmft_err *err)
{
	struct unpacking u = { .p = p, .at = p->begin };
	struct cap_unpacker *unpacker = NULL;
	uint8_t piece[4096];
	ssize_t n;
	int ret = cap_packing("zstd", err) ? 0 : -EOPNOTSUPP;

	while (!ret) {
		n = cap_unpack_stream(&unpacker, "zstd", next_piece, &u, piece, sizeof(piece));
		if (n <= 0)
			ret = n ? (int)n : 1;
		else
			ret = add_records(&u, u.len, piece, (size_t)n);
	}
	cap_unpacker_free(unpacker);
	if (ret == -EBADMSG) {
		cap_note(p->c, "its packed records are damaged, or cut: what follows is missing");
		p->c->complete = false;
	}
	if (ret < 0 && ret != -ENODATA && ret != -EBADMSG) { /* perf does not end its stream */
		free(u.plain);
		return ret == -EFBIG ? err_set(err, EFBIG, CAP_UNPACKS_MUCH) : ret;
	}
	p->plain = u.plain ?: xmalloc(1);
	p->begin = 0;
	p->end = u.len;
	return 0;
}
