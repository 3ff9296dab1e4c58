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

/* How the stamps of one CPU become the first host's TSC; all NULL: they are that already. */
struct tl_stamps {
	const struct guest_time *gtime;
	const struct epoch_vcpu *epochs; /* with gtime: of the vCPU that this CPU is */
	uint64_t after;			 /* with gtime: host TSC of the event before, 0: none */
	const struct migrate *link;	 /* of a host that is not the first one */
	const struct own_tsc *own;	 /* of the first host, if its stamps are not TSC */
};

/* Of one stream: the stamp of what was given out last, and how many items had it. */
struct tl_mark {
	uint64_t stamp;
	uint64_t n;
	uint64_t next;	  /* the stamp of what comes next; 0 = it was not there yet */
	uint32_t segment; /* ... nor in any segment before this one */
};

/* A stream that continues after a mark. */
struct tl_mark_skip {
	struct tl_mark *mark; /* NULL: from its beginning */
	uint64_t skipped;     /* of those with the mark's stamp */
	bool seen;	      /* something was read */
	bool resumed;	      /* all of them are skipped */
};

struct tl_stream {
	struct tl_source *src;
	const struct fmt *fmt; /* src's */
	struct rstream r;
	struct tl_stamps stamps;
	/* Stamps whose place is known without more ado; of a guest those near the last one. */
	struct epoch_line line;
	uint64_t from;	/* of the window, host TSC */
	bool converts;	/* stamps are not simply the first host's TSC, or it is QEMU's */
	bool placed;	/* at.host is only a place: that of the event before, or of the first one
			 * after */
	uint64_t begin; /* of the host's recording */
	struct tl_mark_skip skip;
	uint64_t stamp; /* with skip.mark: as recorded, of the current item */
	bool missing;	/* with skip.mark: at a gap that is in no file */
	bool ended;
	/*
	 * The current item of the stream, of which r has more; but not QEMU's. ev, tid and learn
	 * belong to an event: they are looked up when it is read, so that they are available when
	 * it has won and decide what is done.
	 */
	struct {
		uint64_t host, width;
		enum tl_kind kind;
		bool unplaced;
		bool learn; /* names of threads may change with it, or it is a marker */
		int32_t tid;
		const struct fmt_event *ev;
	} at;
	/*
	 * What was handed out last, when the stream may already be further; what all its events
	 * have in common stays here. vcpu and vm: for a guest the CPU's, for a host those of the
	 * last thread seen (tid). QEMU: everything is rebuilt, and is the current item of the
	 * stream.
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
	struct tl_marks *marks; /* of tl_follow() */
	uint64_t from, to; /* host TSC: what is outside is left out */
	struct qdevices devices;
	/* More than place and thread is needed of each event: a source is a QEMU's. */
	bool more_asked;
	bool pending; /* the winner was handed out and has to be popped */
	bool inherited; /* tl_inherit() was called */
	uint64_t markers; /* ... tl_markers() of the previous one */
	struct tl_item other; /* a changed copy of the winner's item, handed out instead */
};

/* Both use the next entry of t->stream, which has room for it. 0 or -errno. */
int tl_stream_open(struct timeline *t, struct tl_source *src,
		   const struct cap_stream *cs) __must_check;
int tl_stream_open_qemu(struct timeline *t, struct tl_source *src) __must_check;
/* NULL: out of memory. */
struct tl_mark *tl_mark_of(struct tl_marks *m, const struct tl_source *src, uint32_t cpu);
/* Whether the item with this stamp was given out before. */
bool tl_mark_passed(struct tl_mark_skip *s, uint64_t stamp);
void tl_mark_given(struct tl_mark *m, uint64_t stamp);
/* The stream is left at its current position: notes what comes there. */
void tl_mark_behind(struct tl_stream *s);
/* A rmerge_next: the next item of a struct tl_stream, and its place. */
bool tl_stream_next(void *stream, uint64_t *key);

#endif
