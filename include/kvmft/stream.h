/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stream.h: a capture as one stream of bytes, from `kvmft record -o -` to `kvmft receive`.
 *
 * The stream only ever grows and is read front to back: it can go through a pipe, a socket, ssh, or
 * into a file that is received later. It contains what the capture directory made from it will
 * contain, in the order in which that came to be; kvmft-capture(5) describes it for others.
 *
 *   hello   "kvmft-stream version=1 capture=1\n": version of the frames, of the capture in them
 *   frames  a struct stream_head of 24 bytes, little-endian, then len bytes
 *
 * Wherever it is cut, what came is a capture as readable as one whose recorder was killed. Frames
 * of unknown types are skipped: additions are free, a changed meaning costs a version.
 */
#pragma once

#include "kvmft/util.h"

#define STREAM_VERSION	   1
#define STREAM_HELLO	   "kvmft-stream "
#define STREAM_HELLO_MAX   128u	       /* bytes, newline included */
#define STREAM_HEAD_SIZE   24u
#define STREAM_MARK	   0x6674766bu /* "kvtf": each frame begins with it */
#define STREAM_MAX_PAYLOAD (16u << 20) /* of one frame, but see STREAM_DATA */

enum stream_type {
	/* Whole lines of meta, each with its newline; not the first one, with the version. */
	STREAM_META = 1,
	/* Format texts: they go to the end of the file formats; cpu and segment are 0. */
	STREAM_FORMATS = 2,
	/*
	 * A whole small file; its name, of cpu bytes, precedes its content. One of those that
	 * kvmft-capture(5) names, each at most once.
	 */
	STREAM_FILE = 3,
	/*
	 * len bytes, whole sub-buffers, that follow those of this CPU in this segment; any length
	 * up to STREAM_MAX_PAYLOAD.
	 */
	STREAM_DATA = 4,
	/*
	 * Of the last sub-buffer of this CPU in this segment: its first 8 + long bytes, then 4
	 * bytes of position in it, then its content from that position on. Events were appended to
	 * it.
	 */
	STREAM_TAIL = 5,
	/* Segment `segment` begins; no data. Segment 0 needs none. */
	STREAM_SEGMENT = 6,
	/*
	 * Nothing is missing before this: written when nothing else was for a second, so that the
	 * reader can tell a quiet machine from a dead one. No data.
	 */
	STREAM_ALIVE = 7,
	/* The last one: bytes of the stream before it, the hello included, as u64. */
	STREAM_END = 8,
};

/* As in the stream. */
struct stream_head {
	uint32_t mark; /* STREAM_MARK */
	uint16_t type; /* enum stream_type */
	uint16_t zero; /* 0 */
	uint32_t cpu, segment;
	uint64_t len; /* of what follows, bytes */
};

_Static_assert(sizeof(struct stream_head) == STREAM_HEAD_SIZE, "no holes in a head");

/* ---- sending: src/capture/stream_out.c ---- */

/*
 * One stream for all threads of a recorder; frames are never interleaved. The traced side is never
 * held up: a slow reader makes the drain threads wait, and then the ring loses events, which are
 * counted. What the main thread writes (meta, files) is queued and never waits.
 */
struct stream_out;

/* fd: borrowed; a pipe, a socket or a file, not a terminal (the caller checks). 0 or -ENOMEM. */
int stream_out_new(int fd, struct stream_out **out) __must_check;
/*
 * Starts the thread that writes what is queued; until then that waits for a frame of data. To be
 * called after privileges are dropped, because the thread would keep them. 0 or -errno.
 */
int stream_out_start(struct stream_out *s) __must_check;
/*
 * While something waits for the reader, patient() is asked ten times a second, from whichever
 * thread that is, with the number of bytes queued behind it; if it says no, everything that waits
 * fails with -ECANCELED. Without it they wait for ever.
 */
void stream_out_patience(struct stream_out *s, bool (*patient)(void *ctx, uint64_t queued),
			 void *ctx);
/*
 * Queues a frame; the head's mark and len are set here. From any thread; never waits. -ENOBUFS:
 * more than 64 MiB are waiting already; -EPIPE and other errors of an earlier write.
 */
int stream_out_put(struct stream_out *s, const struct stream_head *h, const void *data,
		   size_t len) __must_check;
/*
 * Writes the head of a data frame, and then len bytes (whole sub-buffers) from a pipe, through buf
 * (size bytes). Waits for the reader. *left: the bytes still in the pipe. 0 or -errno, after which
 * no later write can succeed.
 *
 * Not by splice, pipe to pipe: pages of a ring in a pipe are given back to that ring when they have
 * been read (buffer_pipe_buf_ops in kernel/trace/trace.c), but nothing keeps the ring alive until
 * then. If the reader is slower than the end of the instance, the kernel writes into memory that is
 * no longer the ring's: Linux 6.18 was seen to crash. Files take a copy; so do we. Pages of a file
 * in memory in between would be safe, but cost more than they save: read() and write() of 64 KiB
 * pieces took 0.2 s of CPU time for a GiB, splice() into such a file, from there into the pipe, and
 * punching out what was read 0.65 s (Linux 6.18; the reader took the same).
 */
int stream_out_pipe(struct stream_out *s, const struct stream_head *h, int pipe, size_t len,
		    void *buf, size_t size, size_t *left) __must_check;
/* The same from memory; nv pieces make the content. */
struct iovec;
int stream_out_write(struct stream_out *s, const struct stream_head *h, const struct iovec *v,
		     int nv) __must_check;
/* Waits until everything queued is written, followed by STREAM_END. 0 or -errno. */
int stream_out_end(struct stream_out *s) __must_check;
uint64_t stream_out_bytes(const struct stream_out *s); /* written so far, heads included */
void stream_out_free(struct stream_out *s); /* NULL is fine; fd stays open */

/* ---- receiving: src/capture/stream_in.c ---- */

struct capw;

struct stream_limits {
	uint64_t max_size; /* of data, bytes; 0 = none */
	uint64_t min_free; /* of the file system, bytes; 0 = none */
	uint64_t keep;	   /* of the last segments; 0 = all */
};

/* What came, so far. */
struct stream_news {
	uint64_t bytes;	       /* of the stream */
	uint64_t data, frames; /* bytes of sub-buffers; frames */
	bool began, stopped;   /* meta has the record: it is recording; it was switched off */
	bool ended;	       /* STREAM_END came, and everything before it */
	bool quiet;	       /* nothing came for 5 s, not even STREAM_ALIVE */
	bool lost;	       /* the sender counted lost events */
	bool trimmed;	       /* old segments were removed, as the limits ask */
	uint32_t written;      /* complete snapshots of it */
	uint32_t fired;	       /* how often the sender's flight recorder fired by itself */
	char reason[16];       /* of the `end` record, "" = none yet */
};

/*
 * Stores a stream, as it comes, as the capture w. The sender is hostile: only what kvmft-capture(5)
 * names is created, everything is only appended to, and everything has a bound. news() is called
 * about once a second and at each change of a flag; if it returns false, receiving ends with
 * -ECANCELED. 0: the stream ended properly. -EBADMSG: what came at byte n->bytes is not a stream;
 * -ENODATA: it was cut there; -EFBIG, -ENOSPC: a limit, or a full disk; each with err set, and what
 * came before is in the capture.
 */
int stream_receive(int fd, struct capw *w, const struct stream_limits *limits,
		   bool (*news)(void *ctx, const struct stream_news *n), void *ctx,
		   struct stream_news *n, struct kvmft_err *err) __must_check;
