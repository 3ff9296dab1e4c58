/* SPDX-License-Identifier: GPL-2.0-or-later */
/* perfdata.h: what the files of the perf.data reader share; private to src/capture. */
#ifndef KVMFT_CAPTURE_PERFDATA_H
#define KVMFT_CAPTURE_PERFDATA_H

#include "kvmft/subbuf.h"
#include "reader.h"

#define PD_RECORD_HEAD 8
#define PD_RECORD_MAX  65535u
#define PD_NOWHERE     UINT8_MAX

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
	PD_ID_INDEX = 69,
	PD_AUXTRACE = 71,
	PD_CPU_MAP = 74,
	PD_TIME_CONV = 79,
	PD_COMPRESSED = 81,
	PD_COMPRESSED2 = 83,
};

/* Where the facts of a record are, in bytes from their beginning; PD_NOWHERE: not in this one. */
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

/* Ids of events, which are consecutive. */
struct pd_ids {
	uint64_t first, last;
	uint32_t layout;
};

/* Consecutive records: of one stream, or, if short, of several. See pd_run_has(). */
struct pd_run {
	uint32_t who;
	uint64_t len;
};

struct pd_runs {
	struct sbuf text;
	struct pd_run open; /* the last one, not in the text yet */
	bool is_open;
	uint32_t least; /* bytes: shorter ones are combined */
};

/*
 * The place of a record: in the file, and in the run that it is part of (run: as for pd_run_get()).
 */
struct pd_at {
	uint64_t file;
	uint32_t run, in;
};

/*
 * What becomes one sub-buffer: consecutive records of a stream. perf's are not quite in time order:
 * an event that interrupts the recording of another one is stored before it. So a block is sorted,
 * and ends where nothing that follows is older, as far as one can look ahead.
 */
struct pd_block {
	uint32_t n, cost;  /* events, and the bytes that they may take as a sub-buffer */
	uint64_t min, max; /* times */
	bool full;	   /* it could not take an event */
	/*
	 * Where it may end: whatever came after that, so far, is no older than everything before
	 * it.
	 */
	bool has_end;
	struct pd_at end;
	uint32_t end_n, end_cost;
	uint64_t end_max, after_min, after_max;
	/* What was lost before it. */
	bool lost, uncounted;
	uint64_t lost_n, lost_time;
};

struct pd_stream {
	uint32_t cpu;
	int32_t tid; /* only with perfdata.by_thread; else 0 */
	uint64_t nblock;
	struct pd_at begin; /* of its first block */
	struct pd_at *mark; /* where every perfdata.stride-th one after it begins */
	size_t nmark, mark_cap;
	uint64_t last;	   /* time */
	uint64_t lost;	   /* by its LOST records */
	struct pd_at next; /* where block number next_n begins: reading in order needs no search */
	uint64_t next_n;
};

/* A sample of the block being made. */
struct pd_event {
	uint64_t time;
	uint32_t seq, at, len; /* raw data: perfdata.raw + at */
};

struct perfdata {
	struct capture *c;
	int fd;
	uint64_t size; /* of the file */
	bool swap;
	uint64_t begin, end; /* of its records */
	struct pd_layout *layout;
	size_t nlayout, layout_cap;
	struct pd_ids *ids; /* ascending; only with several layouts */
	size_t nids, ids_cap;
	/* the part of the file that is in memory */
	uint8_t *window;
	uint64_t window_at;
	size_t window_len;

	/* what the scan found */
	struct pd_runs runs;
	struct pd_stream *stream;
	size_t nstream, stream_cap;
	uint32_t stride;
	size_t nmarks;
	bool by_thread; /* a stream for each thread on a CPU: each thread had its own ring */

	/* making blocks */
	struct subbuf_writer w;
	struct pd_event *ev;
	size_t nev, ev_cap;
	uint8_t *raw;
	uint32_t raw_len;
	uint32_t made_stream; /* what w.buf holds */
	uint64_t made;
};

/* ---- perfdata_head.c: what comes before the records ---- */

#define PD_FEATURES 256

struct pd_section {
	uint64_t at, size;
};

struct pd_head {
	struct perfdata *p;
	struct kvmft_err *err;
	uint64_t attr_size;
	struct pd_section attrs, data;
	uint64_t bits[PD_FEATURES / 64]; /* of features */
	bool cut;	  /* perf did not end properly, or the end of the file is missing */
	bool use_clockid; /* not perf's own clock */
	uint32_t clockid;
	bool tracepoints, no_raw; /* they exist; some were recorded without what is needed */
	char *host, *release, *arch;
};

struct cursor pd_cursor(const struct perfdata *p, const uint8_t *b, size_t n);
/* Whether it is complete. */
bool pd_inside(const struct perfdata *p, const struct pd_section *s);
int pd_section(struct cursor *c, struct pd_section *s) __must_check;
/* Fills in h, the layouts and ids of h->p, and where its records are. 0, -errno. */
int pd_read_head(struct pd_head *h) __must_check;

/* ---- perfdata_record.c: one record ---- */

struct pd_record {
	uint32_t type;
	uint16_t misc;
	struct cursor body;
	uint64_t len; /* of all of it, in the file */
};

struct pd_facts {
	uint64_t id, time;
	int32_t pid, tid;
	uint32_t cpu;
	bool has_cpu, has_time;
};

struct pd_sample {
	struct pd_facts f;
	const uint8_t *raw; /* valid until the next record is loaded */
	uint32_t raw_len;
};

void pd_layout_places(struct pd_layout *l);
/*
 * The record at `at`, which must end by `end`; about `ahead` bytes are loaded with it. 1; 0 at the
 * end; -EBADMSG: not a record; -errno.
 */
int pd_record(struct perfdata *p, uint64_t at, uint64_t end, size_t ahead,
	      struct pd_record *r) __must_check;
/* 1; 0: an event that is not a tracepoint; -EBADMSG. */
int pd_sample(const struct perfdata *p, const struct pd_record *r,
	      struct pd_sample *s) __must_check;
/* The facts at the end of a record that is not a sample; what is before them is then its body. */
void pd_trailer(const struct perfdata *p, struct pd_record *r, struct pd_facts *f);

/* ---- perfdata_runs.c: which part of the file belongs to whom ---- */

/*
 * Adds a record of a stream; *at gets its place, except for that in the file. 0, -ENOMEM, or
 * -E2BIG: there are too many runs, and another attempt with a larger r->least is needed.
 */
int pd_runs_add(struct pd_runs *r, uint32_t stream, uint64_t len, struct pd_at *at) __must_check;
/* The same for a record of no stream, whose place is not needed. */
int pd_runs_pass(struct pd_runs *r, uint64_t len) __must_check;
/* After the last record. */
int pd_runs_close(struct pd_runs *r) __must_check;
void pd_runs_forget(struct pd_runs *r);
/* The run at a place (0: the first one). Returns the place of the next; 0: no run here. */
uint32_t pd_run_get(const struct pd_runs *r, uint32_t from, struct pd_run *run);
/* Whether it may have records of that stream. */
bool pd_run_has(const struct pd_run *r, uint32_t stream);
/* For how many of all streams that can be said. */
size_t pd_run_streams(const struct pd_run *r, size_t nstream);

/* ---- perfdata_block.c: which records become which sub-buffer ---- */

#define PD_SPAN_MAX (1ull << 58) /* ns: an event cannot hold a larger delta */

/* The most bytes that an event takes: two words of header, two of a time extend. */
static inline uint32_t pd_cost(uint32_t raw_len)
{
	return 16 + ((raw_len + 3) & ~3u);
}

/*
 * Whether the event is part of the block; if not, the block is full: it ends at b->end, if it
 * has_end, or before the event.
 */
bool pd_block_takes(const struct perfdata *p, struct pd_block *b, const struct pd_at *at,
		    uint64_t time, uint32_t cost);
/* Makes b the block that begins where b ended, with what it took beyond its end if it is full. */
void pd_block_turn(struct pd_block *b);
void pd_block_lose(struct pd_block *b, uint64_t count, uint64_t time);
/* The number of lost events in a record PD_LOST; 0: unknown. */
uint64_t pd_lost(const struct pd_record *r);
/* What distinguishes the stream of a record with these facts from others. */
uint64_t pd_key(const struct perfdata *p, const struct pd_facts *f);
/* For sub-buffers as p->w.g describes them. */
int pd_writer_init(struct perfdata *p) __must_check;
/* struct cap_maker's. */
int pd_make(void *perfdata, uint64_t stream, uint64_t idx, const uint8_t **buf) __must_check;
void pd_free(void *perfdata);

/* ---- perfdata_scan.c ---- */

/* Reads all records once. 0, -errno. */
int pd_scan(struct perfdata *p, struct kvmft_err *err) __must_check;

/* ---- perfdata_loss.c ---- */

/*
 * Losses known from counters but from no record in the data: count by the id of the event, whose
 * CPU is found in the records PD_ID_INDEX in begin .. end of the file. *nowhere: those whose CPU is
 * unknown.
 */
int pd_losses(struct perfdata *p, const struct u64map *count, uint64_t begin, uint64_t end,
	      uint64_t *nowhere) __must_check;

#endif
