/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ring.h: from raw sub-buffers to events.
 *
 * Three layers, each usable alone:
 *   subbuf_*  one bounds-checked walk over one sub-buffer (kernel/trace/ring_buffer.c layout)
 *   rstream_* one CPU's sub-buffers in order: events, gaps, damage
 *   rmerge_*  any number of streams by time, through a tournament tree
 * and fmt_*: event formats, their fields and how events print.
 *
 * The step from one event to the next is in line, so that what a loop does with an event is most
 * of its cost. Two ways to walk a stream:
 *
 *   while ((k = rstream_next(&r)) != R_END)	     events, gaps and damage one by one: the
 *	     if (k == R_EVENT)			     usual way
 *		     use(&r.rec);
 *
 *   while ((k = rstream_subbuf(&r)) != R_END)	     by whole sub-buffers: the walk stays in
 *	     if (k == R_EVENT) {		     registers, about twice as fast
 *		     sb = r.sb;
 *		     while ((ret = subbuf_next(&sb, &rec)) > 0)
 *			     use(&rec);
 *		     if (ret < 0) rstream_damage(&r);
 *	     }
 */
#pragma once

#include "kvmft/capture.h"

/* State of a walk; all pointers into the caller's buffer. */
struct subbuf {
	const uint8_t *p, *end; /* rest of the data */
	/* where the head of the next event is at most, if subbuf_next_fast() can read it; else 0 */
	uintptr_t last_head;
	uint64_t ts;		/* running time stamp, trace clock units */
	/* of the event at p, read ahead; 0: subbuf_next_fast() cannot read it */
	uint32_t head;
	bool lost;	        /* events were lost before this sub-buffer */
	bool lost_counted;      /* ... and lost_count says how many */
	uint64_t lost_count;
};

/* One event; data points into the sub-buffer and starts with the common fields. */
struct rec {
	uint64_t ts;	     /* trace clock units of the capture */
	const uint8_t *data;
	uint32_t len;
	uint16_t id;	     /* common_type */
};

/*
 * Checks the header of a sub-buffer and starts a walk. 0, -EBADMSG if the commit word does not fit
 * the size (the sub-buffer must be skipped).
 */
int subbuf_begin(struct subbuf *sb, const void *buf, const struct subbuf_geom *g) __must_check;
/* What subbuf_next() does not do inline: time, padding, long events, the end. */
int subbuf_next_slow(struct subbuf *sb, struct rec *rec) __must_check;

/* Makes p .. end what is walked next, from the time in sb->ts. */
static inline void subbuf_walk(struct subbuf *sb, const uint8_t *p, const uint8_t *end);
/*
 * The next data event, if it is of the common kind and not the last; otherwise use subbuf_next().
 */
static inline __must_check bool subbuf_next_fast(struct subbuf *sb, struct rec *rec);
/* The next data event: 1; 0 at the end; -EBADMSG at a broken event (the rest must be skipped). */
static inline __must_check int subbuf_next(struct subbuf *sb, struct rec *rec);
/*
 * Whether little of a sub-buffer just begun is used. Reading on until nothing is left, the reader
 * of a ring that is being written gets one for each event, all the more with larger sub-buffers;
 * after one like this it may leave the ring alone for a while. An eighth, so that one into which
 * the next event did not fit does not count.
 */
static inline bool subbuf_sparse(const struct subbuf *sb, const struct subbuf_geom *g);

/* ---- one CPU ---- */

enum rkind {
	R_EVENT,
	R_GAP,	   /* events were lost before the next event: lost (0 = number unknown) */
	R_DAMAGE,  /* the rest of sub-buffer `index` was unusable */
	R_END,
};

/*
 * A flight recorder's own lose nothing: its ring was off, to be written out, or overwritten. Nor do
 * segments that were removed on purpose, and what a text says was overwritten before it. Unread:
 * the recorder was killed, perhaps before it had read all.
 */
enum rgap { GAP_LOST, GAP_OFF, GAP_OVERWRITTEN, GAP_REMOVED, GAP_UNREAD };

/* A loss known only from a counter of the recorder, and the sub-buffer before which it is shown. */
struct rloss {
	uint64_t before, count;
};

struct rstream {
	const struct capture *cap;
	const struct cap_stream *s;
	struct subbuf_geom geom;
	uint8_t *buf;	  /* one batch of sub-buffers */
	uint8_t *mem;	  /* the same; NULL: it is not its own */
	uint64_t idx;	  /* next sub-buffer to read */
	uint32_t batch, have, at; /* sub-buffers per read, in buf, current */
	struct cap_file file;	  /* kept open between reads */
	struct rloss *loss;	  /* nloss of them, ascending; loss_at is the next */
	size_t nloss, loss_at;
	size_t ext_at;		  /* of the stream's pieces: the last one looked up */
	struct subbuf sb;
	bool keep;		  /* ... if there are enough descriptors */
	/*
	 * Also set by the user after opening: events of the capture are missing and nothing says
	 * where, so that any sub-buffer but the first may follow a loss: R_GAP before each.
	 */
	bool holes;
	bool open;		  /* sb may have further events */
	bool gap_told;		  /* by rstream_subbuf(), of the sub-buffer that is open */
	/* result of the last rstream_next() */
	struct rec rec;
	uint64_t lost;
	enum rgap why; /* R_GAP */
	uint64_t gap_to; /* R_GAP: the stamp from which there are events again; UINT64_MAX: none */
	uint64_t damage_index;
	/* totals */
	uint64_t lost_total, damaged;
	bool lost_unknown;
	int error; /* -errno of a failed read, sticky */
};

/*
 * At the beginning of stream s of cap; both are borrowed. 0, and rstream_close() at the end; -errno
 * with nothing to close: -EINVAL for a capture without sub-buffers, or a failed read.
 */
int rstream_open(struct rstream *r, const struct capture *cap, const struct cap_stream *s)
	__must_check;
void rstream_close(struct rstream *r);
/* The first of a sub-buffer, its end, gaps and damage: what rstream_next() does not do inline. */
enum rkind rstream_next_slow(struct rstream *r);

/*
 * As rstream_next() if that is an event of the common kind, and the previous one's data stays where
 * it is; otherwise false, and nothing was done.
 */
static inline __must_check bool rstream_next_fast(struct rstream *r);
/* The next thing of the stream: r->rec, r->lost or r->damage_index, depending on the result. */
static inline enum rkind rstream_next(struct rstream *r);
/*
 * Passes each event of a stream, but not gaps and damage, to use(), until that returns non-zero.
 * Returns that, 0 at the end, or -errno of a failed read. Inline, so that use() can be.
 */
static inline int rstream_each(const struct capture *cap, const struct cap_stream *s,
			       int (*use)(void *arg, const struct rec *rec), void *arg);

/*
 * The next sub-buffer as a whole: R_EVENT and r->sb,
 * to be walked to its end by subbuf_next(), at once or bit by bit, until the next call; or a gap
 * before it, damage, or the end. Not to be mixed with rstream_next() inside one sub-buffer.
 */
enum rkind rstream_subbuf(struct rstream *r);
/* Counts the sub-buffer that rstream_subbuf() gave as damaged. */
void rstream_damage(struct rstream *r);
/* Positions the stream so that no event with ts >= from is skipped, by the sub-buffers' stamps. */
int rstream_seek(struct rstream *r, uint64_t from) __must_check;
/* The same, where before() says whether a stamp is earlier than what is wanted. */
int rstream_seek_by(struct rstream *r, bool (*before)(void *arg, uint64_t ts), void *arg)
	__must_check;
/* The stamp of the stream's last event, of which only the end is read; 0: no event. 0 or -errno. */
int rstream_end(const struct capture *cap, const struct cap_stream *s, uint64_t *ts) __must_check;
/*
 * Of a flight recorder: from which stamp what it wrote out last shows all CPUs, of which each had
 * overwritten its own oldest events; 0: all of the capture. Rates are of that time. 0 or -errno.
 */
int rstream_held(const struct capture *cap, uint64_t *from) __must_check;

/*
 * Appends the events of one sub-buffer to those of another one of the same CPU that has room for
 * them. The bytes of events that page then has; -ENOSPC: they do
 * not fit, or events were lost in between; -EBADMSG.
 */
int subbuf_join(void *page, const void *more, const struct subbuf_geom *g) __must_check;

/* ---- many CPUs, ordered ---- */

/*
 * A source gives items with a key: true and the next item's key in *key, or false at the end. The
 * tree never looks inside the source.
 */
typedef bool rmerge_next(void *src, uint64_t *key);

/*
 * A source plays with one word: the distance of its key from the base in the upper bits and its
 * index in the lower ones; so of equal keys the lower index wins. All bits are inverted, and a
 * match is two maxima: the winner is unpredictable, and a branch on it would be mispredicted every
 * other time. Next to that every cycle from one winner to the next counts, and compilers make the
 * larger of two unsigned numbers in fewer than the smaller.
 *
 * A key may be too far above the base for that. The distance RMERGE_FAR stands for all of those,
 * and when nothing nearer is left, the smallest of them becomes the base: hours later, so this is
 * rare. RMERGE_FAR + 1 is that of a source that has ended.
 */
struct rmerge {
	uint32_t rank; /* the winner's index, RMERGE_ENDED added when all have ended */
	size_t n, leaf; /* leaf: position of leaf 0, a power of two */
	uint64_t base;
	uint64_t *node;	 /* [1 .. 2*leaf-1] */
	uint64_t *key;	 /* of each source's current item */
	void *src[];	 /* NULL = has ended */
};

#define RMERGE_ENDED (1u << 31)
#define RMERGE_INDEX 20 /* bits of an index */
#define RMERGE_FAR   ((UINT64_MAX >> RMERGE_INDEX) - 1)
/* The largest word of a source that is far, or has ended. */
#define RMERGE_FAR_WORD (~(RMERGE_FAR << RMERGE_INDEX))

/* Of n sources, whose first items it takes by next(). */
int rmerge_new(struct rmerge **out, rmerge_next *next, void *const *src, size_t n) __must_check;
/*
 * The source index whose current item has the smallest key (ties: lowest index), or -1 at the
 * end. The item stays current until rmerge_pop(), rmerge_put() or rmerge_end().
 */
static inline ssize_t rmerge_peek(const struct rmerge *m, uint64_t *key);

/*
 * Consumes the current item of win, the winner as rmerge_peek() or this returned it, and takes that
 * source's next one, by the same next(). What rmerge_peek() would return now: to read it from there
 * would make each event wait for what the one before it has stored.
 */
static inline ssize_t rmerge_pop(struct rmerge *m, ssize_t win, rmerge_next *next, uint64_t *key);
/*
 * The same for a winner, which there must be, whose next item has this key; or that has none. Both,
 * and the next two: the new rank.
 */
static inline uint32_t rmerge_put(struct rmerge *m, uint32_t win, uint64_t key);
uint32_t rmerge_end(struct rmerge *m);
/* For rmerge_put(): the key of source i, already there, is far from the base, or before it. */
uint32_t rmerge_put_far(struct rmerge *m, uint32_t i);
/* ... and the smallest key becomes the base. */
uint32_t rmerge_rebase(struct rmerge *m);
/* Where the winner's key is, which only rmerge_put() is to follow. */
static inline uint64_t *rmerge_key(struct rmerge *m);
void rmerge_free(struct rmerge *m);

/* ---- formats ---- */

struct fmt;	  /* all formats of one capture */
struct fmt_event; /* one event type */

/* Where a field is, resolved once; size 0 = this kernel lacks the field. */
struct fmt_field {
	uint16_t off, size;
	uint16_t elem;	  /* bytes of one element of an array, else size */
	bool is_signed;
	bool is_string;	  /* char array */
	bool is_dynamic;  /* __data_loc: u32 of offset | length << 16 at off */
	bool is_relative; /* ... and the offset counts from behind that u32 (__rel_loc) */
	bool is_array;
	bool is_pointer;
};

/* What is needed for each event, inline; a struct fmt begins with it. */
struct fmt_quick {
	const struct fmt_event *by_id[65536];
	/* common_pid is the 4 bytes before that; UINT32_MAX: it is not */
	uint32_t pid_end;
};

/* The same of an event's type; a struct fmt_event begins with it. */
struct pstep;
typedef void fmt_step(const struct pstep *s, const uint8_t *data, char *p, const struct rec *rec,
		      struct sbuf *out);

#define FMT_LEAD 48 /* few are longer */

struct fmt_line {
	const char *title; /* "sys:name: " */
	size_t title_len;
	/* NULL: not printed yet, or more than the length of a record has to be checked for it. */
	const struct pstep *step;
	fmt_step *first;
	const char *lead; /* title and the text before the first value; FMT_LEAD bytes or more */
	size_t lead_len, room, room_len; /* without the title */
	uint32_t need;	/* bytes a record must have for all its fields */
	void *meaning;	/* fmt_event_means() */
};

/*
 * An opened cap is borrowed, of others formats are copied; those that make no sense count as its
 * damage.
 */
struct fmt *fmt_load(const struct capture *cap);
/*
 * Adds a format, whose text is copied; what fmt_find() and the like returned stays valid. -EBADMSG:
 * not a format, or its id is taken.
 */
int fmt_add(struct fmt *f, const struct cap_format *c) __must_check;
void fmt_free(struct fmt *f);
/* NULL if the capture has no such event. */
const struct fmt_event *fmt_find(const struct fmt *f, const char *sys, const char *name);
static inline const struct fmt_event *fmt_by_id(const struct fmt *f, uint16_t id);

const char *fmt_sys(const struct fmt_event *e);
const char *fmt_name(const struct fmt_event *e);
/* "sys:name: ", as in lines of text; PUT_SLACK more bytes are readable (put.h). */
static inline const char *fmt_title(const struct fmt_event *e, size_t *len);

uint16_t fmt_id(const struct fmt_event *e);
/* Keeps what somebody has found out about it, and frees that with it (events.h). */
void fmt_event_means(const struct fmt_event *e, void *meaning);
/* The i-th event, in the order of the capture; NULL past the last. */
const struct fmt_event *fmt_at(const struct fmt *f, size_t i);
/* Resolves a field; false (and a field of size 0) if it is absent. */
bool fmt_field(const struct fmt_event *e, const char *name, struct fmt_field *out);
/* Walks the fields in order, common ones first: i-th name, or NULL past the last. */
const char *fmt_field_name(const struct fmt_event *e, size_t i);

/*
 * Where the i-th field is, NULL past the last; the first fmt_common_fields() are the common ones.
 */
const struct fmt_field *fmt_field_at(const struct fmt_event *e, size_t i);
size_t fmt_common_fields(const struct fmt_event *e);

/* What a field of a record holds. */
enum fmt_kind {
	FMT_ABSENT,  /* outside the record, or of an impossible size */
	FMT_UNSIGNED, FMT_SIGNED, FMT_POINTER, /* num */
	FMT_STRING,  /* len bytes at p, up to the first NUL; not printable, not even UTF-8 */
	FMT_NUMBERS, /* len elements of elem bytes (1, 2, 4 or 8) at p */
};

struct fmt_value {
	enum fmt_kind kind;
	uint64_t num; /* sign-extended when signed */
	const uint8_t *p;
	uint32_t len, elem;
};

void fmt_value(const struct fmt_field *fld, const struct rec *rec, struct fmt_value *v);
/* Element i < v->len of FMT_NUMBERS, unsigned. */
uint64_t fmt_element(const struct fmt_value *v, uint32_t i);

/* Value of an integer field, sign-extended if signed; false if absent or outside the record. */
static inline bool fmt_u64(const struct fmt_field *fld, const struct rec *rec, uint64_t *v);
/* Text of a string field; at most size-1 bytes, printable; false if absent or out of bounds. */
bool fmt_str(const struct fmt_field *fld, const struct rec *rec, char *buf, size_t size);
/* common_pid of any record; -1 if the format lacks it. */
int32_t fmt_pid_slow(const struct fmt *f, const struct rec *rec);
static inline int32_t fmt_pid(const struct fmt *f, const struct rec *rec);

uint8_t fmt_flags(const struct fmt *f, const struct rec *rec);
uint8_t fmt_preempt(const struct fmt *f, const struct rec *rec);

/*
 * Appends the event's fields as the kernel's print format shows them (no name, no newline), or
 * as name=value pairs where the print format cannot be used. Text is made printable.
 */
void fmt_print(const struct fmt_event *e, const struct rec *rec, struct sbuf *out);
/*
 * The same with the event's title, at p, where out has room for fmt_titled_room() bytes. 0: only
 * fmt_print() can print it.
 */
static inline size_t fmt_titled_room(const struct fmt_event *e, const struct rec *rec);
static inline void fmt_print_titled(const struct fmt_event *e, const struct rec *rec, char *p,
				    struct sbuf *out);
/* Whether fmt_print() can use the event's print format. */
bool fmt_has_plan(const struct fmt_event *e);
/* Whether a field is an address: a pointer, or 64 bits that the print format shows in hex. */
bool fmt_is_address(const struct fmt_event *e, const struct fmt_field *fld);
/* Appends name=value for every field except the common ones. */
void fmt_print_fields(const struct fmt_event *e, const struct rec *rec, struct sbuf *out);

/* Whether an event is ftrace:kernel_stack: the stack that the event before it was raised on. */
bool fmt_is_stack(const struct fmt_event *e);
/*
 * Its return addresses, innermost first: as FMT_NUMBERS, at most as many as the record has room
 * for, whatever it claims.
 */
void fmt_stack(const struct fmt_event *e, const struct rec *rec, struct fmt_value *v);
/* What fmt_print() prints of it; borrowed, up to the next call. */
const struct sbuf *fmt_stack_text(const struct fmt_event *e, const struct rec *rec);
/*
 * Appends element i of it as the kernel would name it, "func" or "func [module]", printable; the
 * address in hex if the capture has no symbol for it.
 */
void fmt_stack_name(const struct fmt_event *e, const struct fmt_value *v, uint32_t i,
		    struct sbuf *out);
/*
 * Whose stack it is: that of the last event of its CPU at the same level, below FMT_LEVELS: a
 * thread, a soft or a hard interrupt, or an NMI. Events of higher levels may be between the two.
 */
#define FMT_LEVELS 4
unsigned int fmt_level(const struct fmt *f, const struct rec *rec);
/*
 * In which context it happened, in the four characters of the kernel's text and a NUL: interrupts
 * off (d; D and b: softirqs), need to reschedule (N n p), of hardirq, softirq, NMI (h s H z Z), and
 * how deep preemption is disabled; "." is none of it.
 */
#define FMT_CONTEXT 4
void fmt_context(const struct fmt *f, const struct rec *rec, char text[FMT_CONTEXT + 1]);

/*
 * The names in a __print_symbolic() table of the event's print format that is applied to field,
 * e.g. exit_reason of kvm_exit; nth counts the tables (0 = first). NULL if there is none.
 */
const char *fmt_symbol(const struct fmt_event *e, const char *field, unsigned int nth,
		       uint64_t value);

#include "kvmft/ring_inline.h"
