/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * priv.h: what timeline.c and stream.c share.
 */
#ifndef KVMFT_TIMELINE_PRIV_H
#define KVMFT_TIMELINE_PRIV_H

#include "kvmft/timeline.h"

#include "kvmft/guest_time.h"
#include "qemu_marker.h"
#include "qemu_source.h"

/* How the stamps of one CPU become the first host's TSC; all NULL: they are that. */
struct tl_stamps {
	const struct guest_time *gtime;
	const struct epoch_vcpu *epochs; /* with gtime: of the vCPU that this CPU is */
	uint64_t after;			 /* with gtime: host TSC of the event before, 0: none */
	const struct migrate *link;	 /* of a host that is not the first one */
	const struct own_tsc *own;	 /* of the first host, where its stamps are no TSC */
};

struct tl_stream {
	struct tl_source *src;
	const struct fmt *fmt; /* src's */
	struct rstream r;
	struct tl_stamps stamps;
	uint64_t from;	/* of the window, host TSC */
	bool converts;	/* stamps are not simply the first host's TSC, or it is QEMU's */
	bool placed;	/* at.host is a place, of an event before or of the first one after */
	uint64_t begin; /* of the host's recording */
	/*
	 * What the stream is at, and r tells more of; but not QEMU's. ev, tid and learn are an
	 * event's: looked for when it is read, they are there when it has won and decide what is
	 * done.
	 */
	struct {
		uint64_t host, width;
		enum tl_kind kind;
		bool unplaced;
		bool learn; /* names of threads may change with it */
		int32_t tid;
		const struct fmt_event *ev;
	} at;
	/*
	 * What was handed out last, when the stream may be further already; what all its events
	 * have in common stays here. vcpu and vm: a guest's are the CPU's, a host's what the thread
	 * seen last (tid) runs. QEMU: all of it is made anew, and is what the stream is at.
	 */
	struct tl_item item;
	struct rec rec; /* item's */
};

struct timeline {
	struct hostmap *map;
	struct tl_source **src;
	size_t nsrc, src_cap, nlink;
	struct tl_stream *stream;
	size_t nstream;
	struct rmerge *merge;
	uint64_t from, to; /* host TSC: what is outside is left out */
	struct qdevices devices;
	/* Of each event than its place and its thread: some source is a QEMU's, or tells of one. */
	bool more_asked;
	bool pending; /* the winner was handed out and must be popped */
	struct tl_item other; /* a changed copy of the winner's, handed out instead */
};

/* Both take the next entry of t->stream, which has room for it. 0 or -errno. */
int tl_stream_open(struct timeline *t, struct tl_source *src,
		   const struct cap_stream *cs) __must_check;
int tl_stream_open_qemu(struct timeline *t, struct tl_source *src) __must_check;
/* For struct rmerge_src: the next item of a struct tl_stream, and its place. */
bool tl_stream_next(void *stream, uint64_t *key);

#endif
