/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata_scan.c: one pass over all records of a perf.data, when it is opened.
 *
 * Runs of records of one CPU are noted (perfdata_runs.c), not records, and for each CPU where every
 * n-th block begins: some MB suffice for files of any size.
 *
 * If an initial assumption fails - how large an event is, how many runs there are, that a ring
 * belongs to a CPU - the scan starts over.
 */
#include "perfdata.h"

#include <inttypes.h>

#define AHEAD	   (128u << 10)
#define RUNS	   (1u << 19) /* wanted number of runs once some are combined */
#define RUN_MOST   (1ull << 26)
#define MAX_MARKS  (1u << 16)
#define MAX_IDS	   (1u << 16) /* of events that lost samples */
#define MAX_TASKS  (3u << 14)
#define MAX_COMMS  (2u << 14) /* ... more of which may be known only by name */
#define SUBBUF_MIN (16u << 10)
#define MAX_PASSES 256u		/* times the whole file, to read all of it */
#define FREE_BYTES (256u << 20) /* ... if that is no more than this, it does not matter */
/* No event is recorded this long after it happened: it belongs to another ring. */
#define LATE_NS 1000000u

/* What a CPU number in the list of ids or of CPUs says about the rings. */
enum rings { RINGS_UNKNOWN, RINGS_OF_CPUS, RINGS_OF_THREADS };

/* What is known about a stream only during the scan. */
struct state {
	struct pd_block b; /* the last one, so far */
	bool begun;
	int32_t tid; /* of the sample before */
};

struct scan {
	struct perfdata *p;
	struct kvmft_err *err;
	struct pd_at at;     /* of the record */
	bool again;	     /* begin anew */
	bool failed;	     /* memory was short for a stream */
	struct state *state; /* by stream */
	size_t state_cap;
	struct u64map by_key;
	uint64_t key; /* of the last one looked up, which is stream key_of */
	uint32_t key_of;
	enum rings rings;
	uint64_t late;	       /* the most by which an event is older than a block that had
			        * ended, ns */
	struct u64map lost_of; /* id of an event → samples that it lost, by the counters */
	uint64_t index_begin, index_end; /* the records that give the CPU of an id */
	uint64_t broken, elsewhere; /* samples; and those of CPUs or threads beyond the limit */
	uint64_t aux;		    /* records of other data */
	uint64_t lost_nowhere;
};

/* ---- runs ---- */

/* Too many runs: the scan starts over and combines more of them. */
static int again_if_too_many(struct scan *s, int ret)
{
	uint32_t *least = &s->p->runs.least;

	if (ret != -E2BIG)
		return ret;
	*least = MAX(2 * *least, (uint32_t)MIN((s->p->end - s->p->begin) / RUNS + 1, RUN_MOST));
	s->again = true;
	return *least > 2 * RUN_MOST ? -EFBIG : 0;
}

/* Makes a record of a stream part of a run, and s->at its place. */
static int run_take(struct scan *s, uint32_t stream, uint64_t len)
{
	return again_if_too_many(s, pd_runs_add(&s->p->runs, stream, len, &s->at));
}

static int run_pass(struct scan *s, uint64_t len)
{
	return again_if_too_many(s, pd_runs_pass(&s->p->runs, len));
}

/* ---- streams ---- */

static uint32_t stream_new(struct scan *s, const struct pd_facts *f)
{
	struct perfdata *p = s->p;
	struct pd_stream *st;

	if (f->cpu >= CAPTURE_MAX_CPUS || p->nstream >= CAPTURE_MAX_CPUS)
		return UINT32_MAX;
	st = array_grow(&p->stream, p->nstream, &p->stream_cap, sizeof(*st));
	if (!st || !array_grow(&s->state, p->nstream, &s->state_cap, sizeof(*s->state)) ||
	    u64map_put(&s->by_key, pd_key(p, f), p->nstream)) {
		s->failed = true;
		return UINT32_MAX;
	}
	st->cpu = f->cpu;
	st->tid = p->by_thread ? f->tid : 0;
	return (uint32_t)p->nstream++;
}

/* UINT32_MAX: there are too many. */
static uint32_t stream_of(struct scan *s, const struct pd_facts *f)
{
	uint64_t key = pd_key(s->p, f), at;

	if (key == s->key && s->key_of != UINT32_MAX)
		return s->key_of;
	s->key = key;
	s->key_of = u64map_get(&s->by_key, key, &at) ? (uint32_t)at : stream_new(s, f);
	return s->key_of;
}

/* Of the marks 1, 2, 3 ... keeps those with even numbers. */
static void marks_thin(struct perfdata *p)
{
	p->nmarks = 0;
	p->stride *= 2;
	for (size_t i = 0; i < p->nstream; i++) {
		struct pd_stream *st = &p->stream[i];

		for (size_t k = 1; k < st->nmark; k += 2)
			st->mark[k / 2] = st->mark[k];
		st->nmark /= 2;
		p->nmarks += st->nmark;
	}
}

/*
 * Ends the last block of a stream, and begins the next one at `at`, or at the end that the last one
 * has.
 */
static int block_end(struct scan *s, uint32_t stream, const struct pd_at *at)
{
	struct perfdata *p = s->p;
	struct pd_stream *st = &p->stream[stream];
	struct pd_block *b = &s->state[stream].b;
	bool own = b->full && b->has_end;

	st->last = MAX(st->last, own ? b->end_max : b->n ? b->max : 0);
	if (++st->nblock % p->stride == 0) {
		if (array_add(&st->mark, &st->nmark, &st->mark_cap, own ? &b->end : at,
			      sizeof(*at)))
			return -ENOMEM;
		if (++p->nmarks > MAX_MARKS)
			marks_thin(p);
	}
	pd_block_turn(b);
	return 0;
}

static struct state *stream_begin(struct scan *s, uint32_t stream)
{
	struct state *state = &s->state[stream];

	if (!state->begun)
		s->p->stream[stream].begin = s->p->stream[stream].next = s->at;
	state->begun = true;
	return state;
}

/* ---- samples ---- */

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
	struct cursor c = { .p = smp->raw + 4, .left = 4, .swap = s->p->swap };
	uint32_t pid;

	if (cur_u32(&c, &pid) || (int32_t)pid != smp->f.tid)
		return 0;
	return task(s, MAX_TASKS, smp->f.pid, smp->f.tid, NULL);
}

/* A block must have room for some more events after the place where it may end. */
static void larger_blocks(struct scan *s, uint32_t cost)
{
	while (s->p->w.g.size < 4 * cost + 64)
		s->p->w.g.size *= 2;
	s->again = true;
}

static int sample_of(struct scan *s, uint32_t stream, const struct pd_sample *smp)
{
	uint32_t cost = pd_cost(smp->raw_len);
	struct state *state = stream_begin(s, stream);
	uint64_t last = s->p->stream[stream].last;
	int ret = 0;

	if (4 * cost + 64 > s->p->w.g.size) {
		larger_blocks(s, cost);
		return 0;
	}
	if (smp->f.time < last)
		s->late = MAX(s->late, last - smp->f.time);
	while (!ret && !pd_block_takes(s->p, &state->b, &s->at, smp->f.time, cost))
		ret = block_end(s, stream, &s->at);
	if (ret || smp->f.tid == state->tid)
		return ret;
	state->tid = smp->f.tid;
	return learn_thread(s, smp);
}

static int scan_sample(struct scan *s, struct pd_record *r)
{
	struct pd_sample smp;
	uint32_t stream;
	int ret = pd_sample(s->p, r, &smp);

	if (ret <= 0) {
		s->broken += ret < 0;
		return run_pass(s, r->len);
	}
	stream = stream_of(s, &smp.f);
	if (s->failed)
		return -ENOMEM;
	if (stream == UINT32_MAX) {
		s->elsewhere++;
		return run_pass(s, r->len);
	}
	ret = run_take(s, stream, r->len);
	return ret || s->again ? ret : sample_of(s, stream, &smp);
}

/* ---- what was lost ---- */

static int scan_lost(struct scan *s, struct pd_record *r)
{
	uint64_t count, len = r->len, *sum;
	struct state *state;
	struct pd_facts f;
	uint32_t stream;
	int ret;

	pd_trailer(s->p, r, &f);
	count = pd_lost(r);
	stream = f.has_cpu ? stream_of(s, &f) : UINT32_MAX;
	if (stream == UINT32_MAX) {
		s->lost_nowhere += MAX(count, (uint64_t)1);
		return run_pass(s, len);
	}
	ret = run_take(s, stream, len);
	if (ret || s->again)
		return ret;
	sum = &s->p->stream[stream].lost;
	*sum += MIN(count, UINT64_MAX - *sum);
	state = stream_begin(s, stream);
	if (state->b.n)
		ret = block_end(s, stream, &s->at);
	pd_block_lose(&state->b, count, f.time);
	return ret;
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

/* nr, nr x { id, number of the event, CPU, thread }: a CPU of -1 is that of a thread's own ring. */
static int scan_id_index(struct scan *s, struct pd_record *r)
{
	uint64_t id, cpu;

	s->index_begin = s->index_begin ?: s->at.file;
	s->index_end = s->at.file + r->len;
	if (!cur_skip(&r->body, 8) && !cur_u64(&r->body, &id) && !cur_skip(&r->body, 8) &&
	    !cur_u64(&r->body, &cpu))
		s->rings = cpu == UINT64_MAX ? RINGS_OF_THREADS : RINGS_OF_CPUS;
	return 0;
}

/* u16 type (0: a list), u16 nr, nr x u16 CPU. */
static int scan_cpu_map(struct scan *s, struct pd_record *r)
{
	uint16_t type, n, cpu;

	if (s->rings == RINGS_UNKNOWN && !cur_u16(&r->body, &type) && !cur_u16(&r->body, &n) &&
	    (type || !cur_u16(&r->body, &cpu)))
		s->rings = !type && n == 1 && cpu == UINT16_MAX ? RINGS_OF_THREADS : RINGS_OF_CPUS;
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
		       "compressed (perf record -z), which kvmft does not read: record without -z");
}

static const struct {
	uint32_t type;
	int (*scan)(struct scan *s, struct pd_record *r);
} of_no_stream[] = {
	{ PD_LOST_SAMPLES, scan_lost_samples },
	{ PD_COMM, scan_comm },
	{ PD_FORK, scan_fork },
	{ PD_ID_INDEX, scan_id_index },
	{ PD_CPU_MAP, scan_cpu_map },
	{ PD_TIME_CONV, scan_time_conv },
	{ PD_AUXTRACE, scan_aux },
	{ PD_COMPRESSED, scan_compressed },
	{ PD_COMPRESSED2, scan_compressed },
};

static int scan_record(struct scan *s, struct pd_record *r)
{
	uint64_t len = r->len;
	int ret = 0;

	if (r->type == PD_SAMPLE)
		return scan_sample(s, r);
	if (r->type == PD_LOST)
		return scan_lost(s, r);
	for (size_t i = 0; i < ARRAY_SIZE(of_no_stream) && !ret; i++)
		if (of_no_stream[i].type == r->type)
			ret = of_no_stream[i].scan(s, r);
	return ret ?: run_pass(s, len);
}

/* ---- all of it ---- */

static void forget(struct scan *s)
{
	struct perfdata *p = s->p;

	for (size_t i = 0; i < p->nstream; i++)
		free(p->stream[i].mark);
	p->nstream = p->nmarks = 0;
	pd_runs_forget(&p->runs);
	p->stride = 1;
	free(s->state);
	u64map_free(&s->by_key);
	u64map_free(&s->lost_of);
	*s = (struct scan){ .p = p, .err = s->err, .rings = s->rings, .key_of = UINT32_MAX };
}

static int scan_records(struct scan *s)
{
	struct perfdata *p = s->p;
	struct pd_record r;
	int ret = 0;

	s->at.file = p->begin;
	while (!s->again && (ret = pd_record(p, s->at.file, p->end, AHEAD, &r)) > 0) {
		ret = scan_record(s, &r);
		if (ret)
			return ret;
		s->at.file += r.len;
	}
	if (ret != -EBADMSG)
		return ret;
	cap_note(p->c,
		 "damaged record at byte %" PRIu64 ": the %" PRIu64
		 " bytes from there on are left out",
		 s->at.file, p->end - s->at.file);
	p->c->complete = false;
	return 0;
}

/* The last blocks end. */
static void finish(struct scan *s)
{
	for (size_t i = 0; i < s->p->nstream; i++) {
		const struct pd_block *b = &s->state[i].b;
		struct pd_stream *st = &s->p->stream[i];

		st->last = MAX(st->last, b->n ? b->max : b->lost_time);
		st->nblock += b->n || b->lost;
	}
}

/* If each thread had its own ring, those of one CPU are in no particular order. */
static bool wants_threads(const struct scan *s)
{
	if (s->p->by_thread || s->rings == RINGS_OF_CPUS)
		return false;
	return s->rings == RINGS_OF_THREADS ? s->late > 0 : s->late >= LATE_NS;
}

/* The bytes looked at to read all streams, and those in the file. */
static int check_work(const struct scan *s)
{
	const struct perfdata *p = s->p;
	uint64_t bytes = 0, size = p->end - p->begin;
	struct pd_run run;

	for (uint32_t at = 0; (at = pd_run_get(&p->runs, at, &run));)
		bytes += pd_run_streams(&run, p->nstream) * run.len;
	if (bytes <= FREE_BYTES || bytes / MAX_PASSES <= size)
		return 0;
	return err_set(s->err, EFBIG,
		       "events of %zu CPUs or threads follow each other one by one in %" PRIu64
		       " bytes: sorting them would take too long",
		       p->nstream, size);
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
	struct scan s = { .p = p, .err = err };
	uint64_t nowhere = 0;
	int ret;

	p->w.g.size = SUBBUF_MIN;
	do {
		forget(&s);
		ret = scan_records(&s);
		ret = ret ?: again_if_too_many(&s, pd_runs_close(&p->runs));
		finish(&s);
		if (!ret && !s.again && wants_threads(&s))
			s.again = p->by_thread = true;
	} while (!ret && s.again);
	free(s.state);
	u64map_free(&s.by_key);
	ret = ret ?: check_work(&s);
	ret = ret ?: pd_losses(p, &s.lost_of, s.index_begin, s.index_end, &nowhere);
	s.lost_nowhere += nowhere;
	if (!ret)
		notes(&s);
	u64map_free(&s.lost_of);
	return ret;
}
