/* SPDX-License-Identifier: GPL-2.0-or-later */
/* perfdata.h: what the files of the perf.data reader share; private to src/capture. */
#pragma once

#include "kvmft/capture.h"
#include "reader.h"

#define PD_RECORD_HEAD 8
#define PD_NOWHERE     UINT8_MAX
#define PD_CALLCHAIN   (1u << 5) /* of sample_type */
#define PD_STACK_ID    4	 /* ftrace:kernel_stack, which perf never records itself */

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
	uint32_t cpu;
	struct pd_entry *entry; /* by time */
	size_t n, cap;
	size_t *block; /* the first entry of each sub-buffer, and the end of the last one */
	size_t nblock, block_cap;
	uint64_t last;		/* time */
	uint64_t lost, counted; /* by its LOST records; by the counters at the end */
	int32_t tid;		/* of the sample before, while scanning */
};

struct perfdata {
	struct capture *c;
	int fd;
	uint64_t size;	     /* of the file */
	uint64_t begin, end; /* of its records, in the file or */
	uint8_t *plain;	     /* ... unpacked; NULL: they are not packed */
	struct pd_layout *layout;
	size_t nlayout, layout_cap;
	struct pd_ids *ids; /* ascending; only with several layouts */
	size_t nids, ids_cap;
	/* the part of the file that is in memory */
	uint8_t *window;
	uint64_t window_at;
	size_t window_len;

	/* what the scan found */
	struct pd_stream *stream;
	size_t nstream, stream_cap;

	/* making blocks */
	struct subbuf_writer w;
	uint32_t made_stream; /* what w.buf holds */
	uint64_t made;
};

struct pd_record {
	uint32_t type;
	uint16_t misc;
	struct cursor body;
	uint64_t len, more_at; /* of all of it, in the file; of what does not follow it */
};

void pd_layout_places(struct pd_layout *l);
/*
 * The record at `at`, which must end by p->end. 1; 0 at the end; -EBADMSG: not a record; -errno.
 */
int pd_record(struct perfdata *p, uint64_t at, struct pd_record *r) __must_check;
/* Unpacks the records of perf record -z: they are p->plain then. */
int pd_unpack(struct perfdata *p, struct kvmft_err *err) __must_check;
/* Reads all records once. 0, -errno. */
int pd_scan(struct perfdata *p, struct kvmft_err *err) __must_check;
/* struct cap_maker's: sub-buffers, made when they are read. */
int pd_make(void *perfdata, uint64_t stream, uint64_t idx, const uint8_t **buf) __must_check;
void pd_free(void *perfdata);
