/* SPDX-License-Identifier: GPL-2.0-or-later */
/* priv.h: what timeline.c and stream.c share. */
#pragma once

#include "kvmft/timeline.h"

#include "kvmft/hostmap.h"
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
	const struct fmt *fmt;	      /* src's */
	const struct tl_comms *comms; /* ... */
	/*
	 * The current item is an event with a place of its own, and for those near it the line is
	 * enough: tl_stream_near() may read the next one.
	 */
	bool plain;
	bool converts; /* stamps are not simply the first host's TSC, or it is QEMU's */
	bool placed;   /* at.host is only a place: that of the event before, or of the first one
			 * after */
	bool missing;  /* with skip.mark: at a gap that is in no file */
	bool ended;
	bool tail; /* behind the last event, where some may be missing, there was a gap */
	/* Stamps whose place is known without more ado; of a guest those near the last one. */
	struct epoch_line line;
	/*
	 * The current item of the stream, of which r has more; but not QEMU's. ev, tid and odd
	 * belong to an event: they are looked up when it is read, so that they are available when
	 * it has won and decide what is done.
	 */
	struct {
		uint64_t host, width;
		const struct fmt_event *ev;
		int32_t tid;
		bool odd; /* it needs more than a place: unlike the last one, or not looked at */
		bool unplaced;
		enum tl_kind kind;
	} at;
	struct rec rec; /* item's */
	/*
	 * What was handed out last, when the stream may already be further; what all its events
	 * have in common stays here. vcpu and vm: for a guest the CPU's, for a host those of the
	 * last thread seen (tid). QEMU: everything is rebuilt, and is the current item of the
	 * stream.
	 */
	struct tl_item item;
	struct rstream r;
	struct tl_stamps stamps;
	uint64_t from;	/* of the window, host TSC */
	uint64_t begin; /* of the host's recording */
	const struct timeline *t;
	struct tl_mark_skip skip;
	uint64_t stamp; /* with skip.mark: as recorded, of the current item */
};

struct timeline {
	struct hostmap *map;
	struct tl_source **src;
	size_t nsrc, src_cap, nlink;
	struct tl_stream *stream;
	size_t nstream;
	struct rmerge *merge;
	struct tl_marks *marks; /* of tl_follow() */
	uint64_t from, to;	/* host TSC: what is outside is left out */
	struct qdevices devices;
	/* More than place and thread is needed of each event: a source is a QEMU's. */
	bool more_asked;
	bool pending;	      /* the winner was handed out and has to be popped */
	bool inherited;	      /* tl_inherit() was called */
	uint64_t markers;     /* ... tl_markers() of the previous one */
	struct tl_item other; /* a changed copy of the winner's item, handed out instead */
};

/* Both use the next entry of t->stream, which has room for it. 0 or -errno. */
int tl_stream_open(struct timeline *t, struct tl_source *src,
		   const struct cap_stream *cs) __must_check;
int tl_stream_open_qemu(struct timeline *t, struct tl_source *src) __must_check;
void tl_mark_given(struct tl_mark *m, uint64_t stamp);
/* The stream is left at its current position: notes what comes there. */
void tl_mark_behind(struct tl_stream *s);
/*
 * The next item of the stream, by everything that there is, and its key; have: rstream_next() has
 * returned an event. False at the end.
 */
bool tl_stream_any(struct tl_stream *s, bool have, uint64_t *key);

/*
 * Looks up the event that was just read. Where it names threads, comes from another one than the
 * last, may be a marker or has no format, the item does not stay as it is.
 */
static inline void tl_stream_look(struct tl_stream *s)
{
	const struct rec *rec = &s->r.rec;
	int32_t tid = fmt_pid(s->fmt, rec);

	s->at.ev = fmt_by_id(s->fmt, rec->id);
	s->at.odd = comms_wants(s->comms, rec) || tid != s->at.tid || !s->at.ev;
	s->at.tid = tid;
}

/*
 * The next item, if that is an event already in memory, after a plain one: then the data of that
 * one stays where it is. False: nothing was done.
 */
static inline bool tl_stream_near(struct tl_stream *s, uint64_t *key)
{
	uint64_t ts, host;

	if (!s->plain || !rstream_next_fast(&s->r))
		return false;
	ts = s->r.rec.ts;
	host = ts - s->line.offset;
	if (ts - s->line.from >= s->line.len || host < s->at.host)
		return tl_stream_any(s, true, key);
	tl_stream_look(s);
	s->at.host = *key = host;
	return true;
}
