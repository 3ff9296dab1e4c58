/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata_scan.c: an index of all samples of a perf.data, made when it is opened, and sub-buffers
 * of them, made as the kernel would have done when they are read.
 */
#include "perfdata.h"

#include <inttypes.h>

#define AHEAD	   (128u << 10)
#define MAX_IDS	   (1u << 16) /* of events that lost samples */
#define MAX_TASKS  (3u << 14)
#define MAX_COMMS  (2u << 14) /* ... more of which may be known only by name */
#define SUBBUF_MIN (16u << 10)
#define FAR_OFF	   (1ull << 46) /* bytes: pd_entry has no more */

struct scan {
	struct perfdata *p;
	struct kvmft_err *err;
	uint64_t at;   /* of the record */
	bool failed;   /* memory was short for a stream */
	uint32_t most; /* bytes that an event may take */
	struct u64map by_cpu;
	uint32_t cpu, stream;  /* the last one looked up; UINT32_MAX: none */
	struct u64map lost_of; /* id of an event → samples that it lost, by the counters */
	uint64_t index_begin, index_end; /* the records that give the CPU of an id */
	uint64_t broken, elsewhere; /* samples; and those of CPUs or threads beyond the limit */
	uint64_t aux;		    /* records of other data */
	uint64_t lost_nowhere;
};

/* ---- streams ---- */

static uint32_t stream_new(struct scan *s, uint32_t cpu)
{
	struct perfdata *p = s->p;
	struct pd_stream *st;

	if (cpu >= CAPTURE_MAX_CPUS)
		return UINT32_MAX;
	st = array_grow(&p->stream, p->nstream, &p->stream_cap, sizeof(*st));
	if (!st || u64map_put(&s->by_cpu, cpu, p->nstream)) {
		s->failed = true;
		return UINT32_MAX;
	}
	st->cpu = cpu;
	return (uint32_t)p->nstream++;
}

/* NULL: there are too many. */
static struct pd_stream *stream_of(struct scan *s, uint32_t cpu)
{
	uint64_t at;

	if (cpu != s->cpu || s->stream == UINT32_MAX) {
		s->cpu = cpu;
		s->stream = u64map_get(&s->by_cpu, cpu, &at) ? (uint32_t)at : stream_new(s, cpu);
	}
	return s->stream == UINT32_MAX ? NULL : &s->p->stream[s->stream];
}

static int entry_add(struct scan *s, struct pd_stream *st, uint64_t time, uint32_t cost)
{
	const struct pd_entry e = { .time = time,
				    .off = s->at & (FAR_OFF - 1),
				    .cost = cost & ((1u << 18) - 1) };

	return array_add(&st->entry, &st->n, &st->cap, &e, sizeof(e));
}

/* ---- samples ---- */

/* The most bytes that an event takes: two words of header, two of a time extend. */
static uint32_t pd_cost(uint32_t raw_len)
{
	return 16 + ((raw_len + 3) & ~3u);
}

/* A task, unless there are `most`: a hostile file must not take all memory. */
static int task(struct scan *s, size_t most, int32_t pid, int32_t tid, const char *comm)
{
	struct capture *c = s->p->c;

	if (pid <= 0 || tid <= 0 ||
	    (c->ntask >= most && !u64map_get(&cap_priv(c)->task_by_tid, (uint32_t)tid, NULL)))
		return 0;
	return cap_task_add(c, tid, pid, comm, comm != NULL);
}

/*
 * perf knows the process of a thread. If it ran in another PID namespace, its numbers differ from
 * those in the events.
 */
static int learn_thread(struct scan *s, const struct pd_sample *smp)
{
	struct cursor c = { .p = smp->raw + 4, .left = 4 };
	uint32_t pid;

	if (cur_u32(&c, &pid) || (int32_t)pid != smp->f.tid)
		return 0;
	return task(s, MAX_TASKS, smp->f.pid, smp->f.tid, NULL);
}

static int scan_sample(struct scan *s, struct pd_record *r)
{
	struct pd_stream *st;
	struct pd_sample smp;
	uint32_t cost;
	int ret = pd_sample(s->p, r, &smp);

	if (ret <= 0) {
		s->broken += ret < 0;
		return 0;
	}
	st = stream_of(s, smp.f.cpu);
	if (!st) {
		s->elsewhere++;
		return s->failed ? -ENOMEM : 0;
	}
	cost = pd_cost(smp.raw_len);
	s->most = MAX(s->most, cost);
	st->last = MAX(st->last, smp.f.time);
	ret = entry_add(s, st, smp.f.time, cost);
	if (ret || smp.f.tid == st->tid)
		return ret;
	st->tid = smp.f.tid;
	return learn_thread(s, &smp);
}

/* ---- what was lost ---- */

static uint64_t lost_count(const struct pd_record *r)
{
	struct cursor c = r->body;
	uint64_t count;

	return cur_skip(&c, 8) || cur_u64(&c, &count) ? 0 : count;
}

static int scan_lost(struct scan *s, struct pd_record *r)
{
	struct pd_stream *st;
	struct pd_facts f;
	uint64_t count;

	pd_trailer(s->p, r, &f);
	count = lost_count(r);
	st = f.has_cpu ? stream_of(s, f.cpu) : NULL;
	if (!st) {
		s->lost_nowhere += MAX(count, (uint64_t)1);
		return s->failed ? -ENOMEM : 0;
	}
	st->lost += MIN(count, UINT64_MAX - st->lost);
	return entry_add(s, st, MAX(f.time, st->last), 0); /* after what is before it in the file */
}

/*
 * A counter, read when perf ended: it includes the samples that such records report, and those not
 * followed by a record.
 */
static int scan_lost_samples(struct scan *s, struct pd_record *r)
{
	const uint16_t by_filter = 1 << 15; /* not wanted: no loss */
	struct pd_facts f;
	uint64_t count, *sum;

	pd_trailer(s->p, r, &f);
	if (cur_u64(&r->body, &count) || (r->misc & by_filter) || s->lost_of.n >= MAX_IDS)
		return 0;
	sum = u64map_at(&s->lost_of, f.id);
	if (!sum)
		return -ENOMEM;
	*sum += MIN(count, UINT64_MAX - *sum);
	return 0;
}

/* ---- other records ---- */

/* pid, tid, name; NUL and filling behind it. */
static int scan_comm(struct scan *s, struct pd_record *r)
{
	uint32_t pid, tid;
	struct pd_facts f;
	const char *comm;

	pd_trailer(s->p, r, &f);
	if (cur_u32(&r->body, &pid) || cur_u32(&r->body, &tid) || cur_str(&r->body, &comm))
		return 0;
	return task(s, MAX_COMMS, (int32_t)pid, (int32_t)tid, comm);
}

/* pid, ppid, tid, ptid: the new thread has the name of the old one. */
static int scan_fork(struct scan *s, struct pd_record *r)
{
	const struct capture *c = s->p->c;
	uint32_t pid, ppid, tid, ptid;
	_cleanup_free_ char *comm = NULL;
	uint64_t at;

	if (cur_u32(&r->body, &pid) || cur_u32(&r->body, &ppid) || cur_u32(&r->body, &tid) ||
	    cur_u32(&r->body, &ptid))
		return 0;
	if (u64map_get(&cap_priv(c)->task_by_tid, ptid, &at)) {
		comm = strdup(c->task[at].comm);
		if (!comm)
			return -ENOMEM;
	}
	return task(s, MAX_COMMS, (int32_t)pid, (int32_t)tid, comm);
}

/* Where CPUs of ids are. */
static int scan_id_index(struct scan *s, struct pd_record *r)
{
	s->index_begin = s->index_begin ?: s->at;
	s->index_end = s->at + r->len;
	return 0;
}

/* shift, mult, zero: perf's clock in ns = zero + (TSC * mult >> shift). */
static int scan_time_conv(struct scan *s, struct pd_record *r)
{
	struct cap_line *line = &s->p->c->line;
	uint64_t shift, mult, zero;

	if (cur_u64(&r->body, &shift) || cur_u64(&r->body, &mult) || cur_u64(&r->body, &zero) ||
	    shift > 32 || !mult || mult > UINT32_MAX)
		return 0;
	*line = (struct cap_line){ true, { zero, (uint32_t)mult, (uint8_t)shift } };
	return 0;
}

static int scan_aux(struct scan *s, struct pd_record *r __unused_arg)
{
	s->aux++;
	return 0;
}

static int scan_compressed(struct scan *s, struct pd_record *r __unused_arg)
{
	return err_set(s->err, EOPNOTSUPP,
		       "compressed (perf record -z), and its head does not say how");
}

static const struct {
	uint32_t type;
	int (*scan)(struct scan *s, struct pd_record *r);
} of_no_stream[] = {
	{ PD_LOST_SAMPLES, scan_lost_samples },
	{ PD_COMM, scan_comm },
	{ PD_FORK, scan_fork },
	{ PD_ID_INDEX, scan_id_index },
	{ PD_TIME_CONV, scan_time_conv },
	{ PD_AUXTRACE, scan_aux },
	{ PD_COMPRESSED, scan_compressed },
	{ PD_COMPRESSED2, scan_compressed },
};

static int scan_record(struct scan *s, struct pd_record *r)
{
	int ret = 0;

	if (r->type == PD_SAMPLE)
		return scan_sample(s, r);
	if (r->type == PD_LOST)
		return scan_lost(s, r);
	for (size_t i = 0; i < ARRAY_SIZE(of_no_stream) && !ret; i++)
		if (of_no_stream[i].type == r->type)
			ret = of_no_stream[i].scan(s, r);
	return ret;
}

/* ---- order ---- */

static int entry_cmp(const void *x, const void *y)
{
	const struct pd_entry *a = x, *b = y;

	return ORDER(a->time, b->time) ?: ORDER(a->off, b->off);
}

/* Most are in their order, or a few places off. */
static void entries_sort(struct pd_stream *st)
{
	struct pd_entry *v = st->entry;
	size_t moved = 0;

	for (size_t i = 1, k; i < st->n && moved <= 16 * st->n; i++) {
		const struct pd_entry e = v[i];

		for (k = i; k && entry_cmp(&e, &v[k - 1]) < 0; k--)
			v[k] = v[k - 1];
		v[k] = e;
		moved += i - k;
	}
	if (moved > 16 * st->n)
		qsort(v, st->n, sizeof(*v), entry_cmp);
}

/* A sub-buffer ends where it is full, and before events were lost. */
static int entries_divide(const struct perfdata *p, struct pd_stream *st)
{
	const struct subbuf_geom *g = &p->w.g;
	uint32_t room = g->size - g->header - g->long_size, fill = 0;
	size_t first = 0;
	int ret = 0;

	for (size_t i = 0; i < st->n && !ret; i++) {
		const struct pd_entry *e = &st->entry[i];

		if (!i || (fill && (!e->cost || fill + e->cost > room ||
				    e->time - st->entry[first].time >= PD_SPAN_MAX))) {
			ret = array_add(&st->block, &st->nblock, &st->block_cap, &i, sizeof(i));
			fill = 0;
		}
		if (!fill)
			first = i;
		fill += e->cost;
	}
	return ret;
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
	while ((ret = pd_record(p, s->at, p->end, AHEAD, &r)) > 0) {
		ret = scan_record(s, &r);
		if (ret)
			return ret;
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

static void notes(const struct scan *s)
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
	uint64_t nowhere = 0;
	int ret = scan_records(&s);

	for (p->w.g.size = SUBBUF_MIN; p->w.g.size < 4 * s.most + 64;)
		p->w.g.size *= 2;
	for (size_t i = 0; i < p->nstream && !ret; i++) {
		entries_sort(&p->stream[i]);
		ret = entries_divide(p, &p->stream[i]);
	}
	ret = ret ?: pd_losses(p, &s.lost_of, s.index_begin, s.index_end, &nowhere);
	s.lost_nowhere += nowhere;
	if (!ret)
		notes(&s);
	u64map_free(&s.by_cpu);
	u64map_free(&s.lost_of);
	return ret;
}

/* ---- making sub-buffers ---- */

/* What is lost is before all samples of its block. */
static int make_entry(struct perfdata *p, const struct pd_entry *e)
{
	struct pd_record r;
	struct pd_sample smp;
	/* On from what is in memory; elsewhere no more than a page, because a file may jump. */
	size_t ahead = e->off - p->window_at <= p->window_len ? AHEAD : 4096;
	int ret = pd_record(p, e->off, p->end, ahead, &r);

	if (ret <= 0)
		return ret ?: -EIO;
	if (!e->cost && r.type == PD_LOST) {
		p->w.ts = e->time; /* of a block without events */
		return subbuf_write_lost(&p->w, lost_count(&r));
	}
	if (r.type != PD_SAMPLE || pd_sample(p, &r, &smp) <= 0 || pd_cost(smp.raw_len) != e->cost)
		return -EIO; /* the file was changed meanwhile */
	return subbuf_write(&p->w, e->time, smp.raw, smp.raw_len);
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
