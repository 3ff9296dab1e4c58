/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * util.h: the small things that every room uses. This room depends on no other.
 *
 * Error style of the whole library: functions return 0 (or a count) on success and -errno on
 * failure. Where a bare errno would not tell the user enough, the function also takes a
 * struct kvmft_err and leaves one line there; only the command layer prints it.
 */
#pragma once

/* Those in <> are what nearly all files need: who includes this one has them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kvmft reads the bytes of KVM hosts and guests, x86 and arm64, which are little-endian"
#endif

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))

#define __must_check	 __attribute__((warn_unused_result))
#define __printf(f, a)	 __attribute__((format(printf, f, a)))
#define __unused_arg	 __attribute__((unused))
#define __noreturn_attr	 __attribute__((noreturn))

/* ---- cleanup: locals that die on every path ---- */

static inline void util_free_ptr(void *p)
{
	free(*(void **)p);
}

/* Closing keeps errno, so that `return -errno` after it still tells the first failure. */
void util_close_fd(int *fd);
void util_close_dir(DIR **dir);

/* CLOCK_MONOTONIC, ns. */
static inline uint64_t util_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* For a function that takes the variable's address: _cleanup_(sbuf_free) struct sbuf b = { 0 }; */
#define _cleanup_(fn)	__attribute__((cleanup(fn)))
#define _cleanup_free_	__attribute__((cleanup(util_free_ptr)))
#define _cleanup_close_ __attribute__((cleanup(util_close_fd)))
#define _cleanup_dir_	__attribute__((cleanup(util_close_dir)))

/* ---- one line of explanation that travels up with an error ---- */

struct kvmft_err {
	char text[1024]; /* no newline at the end; "" if nothing was said */
	int code;	 /* exit code of the command line contract (enum kvmft_exit), 0 = not set */
};

enum kvmft_exit {
	KVMFT_OK = 0,
	KVMFT_FAILED = 1,     /* one line on stderr says what, why, and what to do */
	KVMFT_USAGE = 2,      /* wrong usage */
	KVMFT_INCOMPLETE = 3, /* done, but events were lost or the input was cut */
	KVMFT_LACKING = 4,    /* this machine lacks something, named with its remedy */
	KVMFT_EXITS
};

/*
 * Sets the explanation and returns -errnum, so that callers write `return err_set(err, ENOENT, "no
 * VM %s", name)`. err may be NULL. err_lack() does the same for what a machine lacks (exit code 4),
 * err_usage() for exit code 2 and -EINVAL. errnum may have either sign. Control characters in the
 * text become '?', and arguments may come from err->text itself, to put context before it.
 */
int err_set(struct kvmft_err *err, int errnum, const char *fmt, ...) __printf(3, 4);
int err_lack(struct kvmft_err *err, int errnum, const char *fmt, ...) __printf(3, 4);
/* err_set() with ": " and the meaning of errnum appended; 0 is no failure, and leaves err alone. */
int err_why(struct kvmft_err *err, int errnum, const char *fmt, ...) __printf(3, 4);
int err_usage(struct kvmft_err *err, const char *fmt, ...) __printf(2, 3);

/*
 * How a room below the commands reports what its user should know: one line, without '\n' at its
 * end.
 */
typedef void note_fn(const char *fmt, ...) __printf(1, 2);

/* ---- options that may be given or not ---- */

struct opt_u64 {
	bool set;
	uint64_t v;
};

struct str_list {
	const char **v; /* none of the texts is its own */
	size_t n, cap;
};

/* A short text in place, up to 511 bytes, the rest is cut; it lasts as long as the block. */
#define TEXTF(...) text_fill((char[512]){ "" }, __VA_ARGS__)
const char *text_fill(char to[512], const char *fmt, ...) __printf(2, 3);

/* ---- growable text; a failed allocation sticks and every later call is a no-op ---- */

struct sbuf {
	char *s; /* NUL-terminated once anything was added; owned by the sbuf */
	size_t len, cap;
	int error; /* 0 or -ENOMEM; cleared only by sbuf_free() and sbuf_take() */
};

/* sbuf_room() if there is none yet. */
bool sbuf_grow(struct sbuf *b, size_t n);

/* Whether n more bytes and a NUL fit without growing. */
static inline bool sbuf_has_room(const struct sbuf *b, size_t n)
{
	return n < b->cap - b->len && !b->error;
}

/* Makes room for n more bytes and a NUL; false (and the sticky error) if there is none. */
static inline bool sbuf_room(struct sbuf *b, size_t n)
{
	return sbuf_has_room(b, n) || sbuf_grow(b, n);
}

/* sbuf_add_mem() if room has to be made first. */
void sbuf_add_slow(struct sbuf *b, const void *p, size_t n);

static inline void sbuf_add_mem(struct sbuf *b, const void *p, size_t n)
{
	if (!n || n > INT32_MAX || n >= b->cap - b->len || b->error) {
		sbuf_add_slow(b, p, n);
		return;
	}
	__builtin_memcpy(b->s + b->len, p, n);
	b->len += n;
	b->s[b->len] = '\0';
}

static inline void sbuf_addc(struct sbuf *b, char c)
{
	const char text[2] = { c, '\0' };

	if (!sbuf_room(b, 1))
		return;
	__builtin_memcpy(b->s + b->len++, text, sizeof(text));
}

static inline void sbuf_add(struct sbuf *b, const char *text)
{
	sbuf_add_mem(b, text, __builtin_strlen(text));
}

void sbuf_addf(struct sbuf *b, const char *fmt, ...) __printf(2, 3);
/* Unsigned decimal and 0x-less lower-case hex without going through printf: hot in timelines. */
void sbuf_add_u64(struct sbuf *b, uint64_t v);
void sbuf_add_s64(struct sbuf *b, int64_t v);
void sbuf_add_hex(struct sbuf *b, uint64_t v);
/* RFC 4648, padded */
void sbuf_add_base64(struct sbuf *b, const void *bytes, size_t n);
extern const char base64_digits[64 + 1];
/* Adds text with every byte outside 0x21..0x7e, and '%' and '=', as %XX, so that it is one word. */
void sbuf_add_escaped(struct sbuf *b, const char *text);
/*
 * Adds text as one CSV field (RFC 4180): in quotes if needed. NULL is an empty one. A formula that
 * a spreadsheet would run gets a ' in front.
 */
void sbuf_add_csv(struct sbuf *b, const char *text);
/* The same, always in quotes. */
void sbuf_add_csv_quoted(struct sbuf *b, const char *text);
/* Adds text so that a shell takes it as one word, for commands that users are told to type. */
void sbuf_add_word(struct sbuf *b, const char *text);
/* Undoes sbuf_add_escaped() in place; a broken escape is left unchanged. */
void str_unescape(char *s);
/* The value of a hex digit of either case, or -1. */
static inline int str_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}
/*
 * Replaces control characters (C0, DEL, C1), those that are invisible or change the direction of
 * text (bidi, zero width, line separators), and bytes that are not UTF-8, by '?', in place: text
 * from files and guests must not drive a terminal, nor look like something else.
 */
void str_printable(char *s);
/*
 * Could name be taken for one of words (up to NULL)? "host", " Host", "host#2" for "host". So could
 * anything with letters that are not ASCII: some look like ASCII ones (Cyrillic, fullwidth), and no
 * table lists them all.
 */
bool str_poses_as(const char *name, const char *const *words);
/* Empties b but keeps memory and error: text that was written out in parts can be relied on. */
void sbuf_reset(struct sbuf *b);
/* Accepts NULL; b is empty and usable afterwards. */
void sbuf_free(struct sbuf *b);
/*
 * Takes the text out (to be freed by the caller) and leaves b empty. Nothing added gives "";
 * NULL means that some allocation since the last sbuf_free() or sbuf_take() failed.
 */
char *sbuf_take(struct sbuf *b);
/* Writes all of it to f and empties it. 0, its sticky error, or -errno. */
int sbuf_write(struct sbuf *b, FILE *f) __must_check;

/*
 * A thread with a small stack. Signals belong to the main loop: none reaches the thread but wake,
 * if that is not 0. 0 or -errno.
 */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg, int wake) __must_check;
/*
 * All signals that would end this process, timers and limits included; but none that its caller
 * ignores, as nohup does. For whoever has something to undo.
 */
void signal_ends(sigset_t *set);
/* Whether one of them has come that is blocked and nobody has taken: what it is for may be slow. */
bool signal_told(void);
/* Blocks them in this thread, and also that one: a non-blocking signalfd of them, or -errno. */
int signal_fd_open(int also) __must_check;

/* ---- files ---- */

/* Closes all but these n, standard files become /dev/null; NULL: what came by exec, but those. */
void fds_keep(const int *keep, size_t n);
/*
 * Writes all of it, or -errno; partial progress is in *done if done is not NULL. Short writes are
 * continued, EINTR is retried; a full non-blocking fd gives -EAGAIN.
 */
int full_write(int fd, const void *p, size_t n, size_t *done) __must_check;
/* Reads n bytes, or -errno; -EPIPE: the writer is gone. EINTR is retried. */
int full_read(int fd, void *p, size_t n) __must_check;
/*
 * A process of our own: as fork(), or -errno. Each side gets an end to write to and one to read
 * from, end[0] and end[1], and has no copy of the other's; -1 if it failed.
 */
pid_t fork_piped(int end[2]) __must_check;
/*
 * What another process has can take as long as that likes: it may hold the lock of its memory, or
 * map pages that never come. So a child calls fn, with no descriptor but `keep` (or -1), and is
 * given up after ms. Returns what fn did, a count of bytes in buf or -errno; -ETIMEDOUT.
 */
typedef ssize_t patient_fn(const void *arg, void *buf, size_t size);
ssize_t patient_read(patient_fn *fn, const void *arg, int keep, void *buf, size_t size,
		     unsigned int ms) __must_check;
/* Reads up to n bytes at off until n or end of file; returns the count or -errno. */
ssize_t full_pread(int fd, void *p, size_t n, uint64_t off) __must_check;
/*
 * Reads a whole (kernel) file of unknown length, at most max bytes, relative to dirfd.
 * *out is NUL-terminated and owned by the caller; returns the length, -EFBIG or -errno.
 * *out is NULL on failure. A FIFO is read to its end, waiting for its writer.
 */
ssize_t file_read_all(int dirfd, const char *path, size_t max, char **out) __must_check;
/* The same from the current position of an open file. */
ssize_t fd_read_all(int fd, size_t max, char **out) __must_check;
/*
 * Opens a file that may be anything, for reading: only a plain file, whatever its name leads to;
 * nothing else is opened (-EINVAL). own: nobody but root and we may be able to change it (-EPERM),
 * for names that come from files and other processes.
 */
int file_open_regular(const char *path, bool own) __must_check;
ssize_t file_read_regular(const char *path, size_t max, bool own, char **out) __must_check;
/* The first line of a small file, without newline; -EFBIG if it does not fit, or -errno. */
int file_read_line(int dirfd, const char *path, char *buf, size_t size) __must_check;
/* Of a process in the open /proc; start: clock ticks since boot. 0, -ESRCH, -errno. */
struct proc_stat {
	char state;
	uint32_t ppid;
	uint64_t start;
};
int proc_stat(int procfd, uint32_t pid, struct proc_stat *st) __must_check;
/* The number that makes up the first line, apart from blanks around it; errors of both parts. */
int file_read_u64(int dirfd, const char *path, uint64_t *v) __must_check;
/* A directory to be read, not a link; to be closed with closedir(). NULL: errno says why. */
DIR *dir_open(int dirfd, const char *path);
/*
 * Writes text with one write() call to an existing file (kernel knob), which is never truncated:
 * O_TRUNC would empty tracefs lists that others share. -errno; -EIO if only a part was taken.
 */
int file_write_text(int dirfd, const char *path, const char *text) __must_check;
/*
 * Creates a new file for writing and reading, never following a link or overwriting: mode 0600
 * whatever the umask. Returns fd or -errno (-EEXIST if the name is taken, even by a dangling link).
 */
int file_create(int dirfd, const char *name) __must_check;
/*
 * Renames within a directory, to a name that must not exist: -EEXIST if it does; -ENOSYS if the
 * file system cannot ensure that (NFS for one).
 */
int file_rename_new(int dir, const char *from, const char *to) __must_check;

/*
 * ---- files that are there whole or not at all ----
 *
 * Written under a name of their own (mode 0600, or 0644 as far as the umask lets it), in the
 * directory where they belong; what had their name stays until they are finished.
 */

struct newfile {
	int dir;       /* borrowed */
	int fd;	       /* to write and read; -1 = none */
	char temp[40]; /* "" = none, or it has its name; only where files cannot be without one */
};

enum newfile_flags {
	NEWFILE_REPLACE = 1 << 0, /* what has the name, if it is a plain file or a link */
	NEWFILE_SYNC = 1 << 1,	  /* not before all of it is on the disk */
};

/*
 * Would base in dir be part of what path names: that file itself, under any name, or something
 * below that directory? False if path does not exist.
 */
bool file_is_part(int dir, const char *base, const char *path);
/*
 * May a file be called base: 0, -EEXIST unless with replace, -EINVAL if something exists that is
 * not a plain file, such as a link; -errno.
 */
int newfile_check(int dir, const char *base, bool replace) __must_check;
int newfile_open(struct newfile *f, int dir, mode_t mode) __must_check;
/* The same, on file systems on which every file has a name. */
int newfile_open_named(struct newfile *f, int dir, mode_t mode) __must_check;
/*
 * Gives it its name; errors of newfile_check(), and -errno. Afterwards, and after an error:
 * newfile_close().
 */
int newfile_commit(struct newfile *f, const char *base, unsigned int flags) __must_check;
/* Removes a file that has no name yet. */
void newfile_close(struct newfile *f);

/*
 * ---- numbers as users write them; each returns 0, -EINVAL or -ERANGE ----
 * No blanks, no plus sign, no octal; the result is untouched on error.
 */

int parse_u64(const char *s, uint64_t *v) __must_check; /* decimal or 0x */
int parse_s64(const char *s, int64_t *v) __must_check;	/* also a leading minus */
/*
 * The decimal number at *s, which is moved past it. False, and nothing is moved, if there is none
 * or it is more than max.
 */
bool take_u64(const char **s, uint64_t max, uint64_t *v);
/* 64 bits, written signed, unsigned or in hex: -1 and 0xffffffffffffffff are the same bits. */
int parse_bits64(const char *s, uint64_t *v) __must_check;
/* Bytes: an integer and K, k, KiB, M, m, MiB, G, g or GiB (powers of 1024), or nothing. */
int parse_size(const char *s, uint64_t *bytes) __must_check;
/* Decimal and ns, us, ms, s, m, h or nothing (s). "1.5s" is fine, less than whole ns -EINVAL. */
int parse_duration(const char *s, uint64_t *ns) __must_check;

/*
 * ---- a keyed hash of bytes ----
 *
 * For whatever is looked up by a text from a file or a process. Its maker does not know the key,
 * and so cannot make two that have one hash: of 64 bits it can stand for the text.
 */

struct hash_key {
	uint64_t k[2];
};

/* A key of this process: always the same one, different in the next process. */
void hash_key_init(struct hash_key *k);
/* The same on all machines; with a known key it is no more than a checksum. */
uint64_t hash_bytes(const struct hash_key *k, const void *p, size_t n);

/*
 * A slot among 2^bits of what was looked up lately, for two numbers. Where they ascend together, as
 * threads and the CPUs that these are pinned to do, all slots are used all the same.
 */
static inline size_t near_slot(uint32_t a, uint32_t b, unsigned int bits)
{
	return (a * 0x9e3779b1u + b * 0x85ebca77u) >> (32 - bits);
}

/*
 * ---- u64 → u64 map, open addressing ----
 *
 * Each map mixes its keys with a seed of its own, which differs from run to run, so a hostile
 * capture cannot choose keys that all fall into one slot. Nothing depends on the order of slots.
 */

struct u64map {
	struct u64map_slot {
		uint64_t key, val;
		bool used;
	} *slot;
	size_t n, cap;	/* cap is 0 or a power of two */
	uint64_t seed;	/* 0 = chosen with the first key */
};

/* Makes room for n keys in all, which then need no growth. 0 or -ENOMEM. */
int u64map_reserve(struct u64map *m, size_t n) __must_check;
/* 0 or -ENOMEM; replaces the value of an existing key. A failed growth loses nothing. */
int u64map_put(struct u64map *m, uint64_t key, uint64_t val) __must_check;
/* Whether key is there; its value goes to *val unless val is NULL. */
bool u64map_get(const struct u64map *m, uint64_t key, uint64_t *val);
/* The value of key, added as 0 if absent; NULL if out of memory. Valid until the next put. */
uint64_t *u64map_at(struct u64map *m, uint64_t key);
/* Removes key; its slot is free for others. Whether it was there; its value, as u64map_get(). */
bool u64map_take(struct u64map *m, uint64_t key, uint64_t *val);
static inline void u64map_del(struct u64map *m, uint64_t key)
{
	(void)u64map_take(m, key, NULL);
}
void u64map_free(struct u64map *m);

/* ---- growable array of fixed-size elements ---- */

/*
 * Makes room for one more element in *array (n used, *cap allocated) and returns it zeroed,
 * or NULL when out of memory. Usage: p = array_grow(&a->v, a->n, &a->cap, sizeof(*p)); a->n++.
 */
void *array_grow(void *array, size_t n, size_t *cap, size_t elem);
/*
 * An array beside a map that numbers its elements: the element of key, zeroed if it is new. The
 * array has m->n of them, so nothing else may change m. NULL: out of memory.
 */
void *u64map_elem(struct u64map *m, uint64_t key, void *array, size_t *cap, size_t elem);

/* Below, at or above 0 as a is below, equal to or above b, for qsort(). */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))
/* Defines name() for qsort(): `order`, an expression of x and y, pointers to elements of a type. */
#define COMPARE(name, type, order)                      \
	static int name(const void *x_, const void *y_) \
	{                                               \
		type const *x = x_;                     \
		type const *y = y_;                     \
		return order;                           \
	}                                               \
	_Static_assert(sizeof(type), "for the semicolon")
/* ... by a number in them, .FIELD, or (no field) by themselves. */
#define COMPARE_BY(name, type, field) COMPARE(name, type, ORDER((*x)field, (*y)field))

/*
 * How many of n elements come before what is looked for, by bisection: `before`, an expression of
 * an element's number i, holds for them and for none after them. Where it goes on cannot be
 * predicted, so there is no branch for that.
 */
#define COUNT_BEFORE(i, n, before)                                \
	({                                                        \
		size_t from_ = 0;                                 \
		for (size_t left_ = (n), half_; left_;) {         \
			const size_t i = from_ + (left_ - 1) / 2; \
			half_ = (left_ + 1) / 2;                  \
			from_ += half_ & -(size_t)(bool)(before); \
			left_ -= half_;                           \
		}                                                 \
		from_;                                            \
	})
/* The square root, rounded down. */
static inline uint64_t u64_root(uint64_t v)
{
	uint64_t x = 0;

	for (uint64_t bit = 1ull << 31; bit; bit >>= 1)
		if ((x | bit) * (x | bit) <= v)
			x |= bit;
	return x;
}

/* Adds a copy of *one, which has elem bytes, to *array. 0 or -ENOMEM. */
int array_add(void *array, size_t *n, size_t *cap, const void *one, size_t elem) __must_check;

/* qsort(), which must not be given the NULL of an empty array. */
static inline void array_sort_of(void *v, size_t n, size_t elem,
				 int (*cmp)(const void *a, const void *b))
{
	if (n)
		qsort(v, n, elem, cmp);
}
#define array_sort(v, n, cmp) array_sort_of(v, n, sizeof(*(v)), cmp)

/* Frees n texts, and the array of them. */
void strings_free(char **v, size_t n);

/*
 * ---- memory of those that only read captures: they end without it, as memory_out_is() says ----
 *
 * Nothing of the kernel's is theirs but an instance, which kinst_create() has taken down then, and
 * kvmft-output removes what they have not finished. So none of these returns NULL. Not for what
 * records, which has more of the kernel's state to put back first. end may return.
 */
void memory_out_is(void (*end)(void *ctx), void *ctx);
_Noreturn void memory_out(void);

static inline void *xmem(void *p)
{
	if (!p)
		memory_out();
	return p;
}

#define xcalloc(n, size)   xmem(calloc(n, size))
#define xmalloc(size)	   xmem(malloc(size))
#define xstrdup(s)	   ((char *)xmem(strdup(s)))
#define xstrndup(s, n)	   ((char *)xmem(strndup(s, n)))
#define xarray_grow(...)   xmem(array_grow(__VA_ARGS__))
#define xu64map_at(m, key) ((uint64_t *)xmem(u64map_at(m, key)))
#define xu64map_elem(...)  xmem(u64map_elem(__VA_ARGS__))
#define xsbuf_take(b)	   ((char *)xmem(sbuf_take(b)))

/* What was added to b; "" for nothing. */
static inline const char *xsbuf_text(const struct sbuf *b)
{
	if (b->error)
		memory_out();
	return b->s ?: "";
}

/* Ends if it failed: of what returns nothing but 0 or -ENOMEM. */
static inline void xdone(int ret)
{
	if (ret)
		memory_out();
}

#define xu64map_put(...)     xdone(u64map_put(__VA_ARGS__))
#define xarray_add(...)	     xdone(array_add(__VA_ARGS__))

/* ---- log-linear histogram of u64 values (ns); 128 bytes a power of two, at most 8 KiB ---- */

#define LOGHIST_BITS	5
#define LOGHIST_STEPS	(1u << LOGHIST_BITS)
#define LOGHIST_BUCKETS ((64 - LOGHIST_BITS + 1) * LOGHIST_STEPS)

/* The counts alone, of those rows that are not all 0. */
struct loghist_rows {
	uint8_t at[LOGHIST_BUCKETS / LOGHIST_STEPS]; /* 1 + index into row, 0: no such row */
	uint8_t n;
	uint32_t (*row)[LOGHIST_STEPS];
};

/* All zero is an empty one. n, sum, min, max are exact; min and max are 0 while n is 0. Free it. */
struct loghist {
	uint64_t n, min, max;
	unsigned __int128 sum;
	struct loghist_rows rows;
};

static inline uint32_t loghist_count(const struct loghist *h, size_t bucket)
{
	uint8_t at = h->rows.at[bucket / LOGHIST_STEPS];

	return at ? h->rows.row[at - 1][bucket % LOGHIST_STEPS] : 0;
}

/* To add to its count, which may need a new row. */
uint32_t *loghist_bucket(struct loghist_rows *h, size_t bucket);
void loghist_rows_add(struct loghist_rows *to, const struct loghist_rows *from);
/* h, which may be NULL, is empty then. */
void loghist_free(struct loghist *h);

void loghist_add(struct loghist *h, uint64_t v);
/*
 * The num/den percentile by nearest rank, i.e. the smallest value with at least num/den of all
 * values at or below it: (99, 100) is p99, (999, 1000) is p99.9. Off by at most 1/64 of that
 * value and never outside min..max; exact for values below 64, for num 0 (min) and num >= den
 * (max). 0 when h is empty.
 */
uint64_t loghist_percentile(const struct loghist *h, uint64_t num, uint64_t den);
/* sum / n rounded to the nearest, 0 when h is empty. */
uint64_t loghist_mean(const struct loghist *h);
/* Adds all of from to to, as if every value had been added to it; from may be to. */
void loghist_merge(struct loghist *to, const struct loghist *from);
/* The bucket of a value. */
unsigned int loghist_index(uint64_t v);
/* The values lo..hi (both included) that bucket < LOGHIST_BUCKETS counts; buckets ascend. */
void loghist_bounds(unsigned int bucket, uint64_t *lo, uint64_t *hi);

/* ---- strings ---- */

bool str_starts(const char *s, const char *prefix);
/* Whether n bytes are printable ASCII, tabs and line feeds. */
bool str_is_text(const char *s, size_t n);
/*
 * Does all of s match a pattern in which * stands for any text and ? for one character? Nothing
 * else is special.
 */
bool str_glob(const char *pattern, const char *s);
/*
 * The position after the C string that begins with the quote at p < end; end if it does not end
 * before.
 */
const char *str_quoted_end(const char *p, const char *end);
/*
 * Length (1 to 4) of the UTF-8 character at s, of which n bytes may be read; 0 when n is 0 or the
 * bytes are cut, overlong, a surrogate or beyond U+10FFFF (RFC 3629).
 */
size_t str_utf8_len(const char *s, size_t n);
/*
 * The code point of that character, of len bytes, if it drives terminals, breaks lines, turns text
 * around or is invisible; else 0.
 */
uint32_t str_unseen(const char *s, size_t len);
/* Bytes of the string s, at most max, that end with no part of a UTF-8 character. */
size_t str_cut(const char *s, size_t max);
/*
 * Length of the first item of "a,b/FILTER/,c": up to a comma that is not in a filter, or the end.
 */
size_t str_spec_len(const char *specs);
/* Edit distance, for "did you mean"; at most 63 bytes of each are compared. */
unsigned int str_distance(const char *a, const char *b);

#define NEAR_MAX 3
/* Names that were probably meant by `word`. Begin with { .word = WORD }. */
struct near {
	const char *word;
	size_t n;
	struct {
		unsigned int score;
		char text[160];
	} best[NEAR_MAX];
};
/*
 * Keeps text, which belongs to name, if name is among the nearest; if it is NULL (no memory), it is
 * not kept.
 */
void near_offer(struct near *near, const char *name, const char *text);
/* Adds " (did you mean A, B or C?)", or nothing. */
void near_text(const struct near *near, struct sbuf *b);

/*
 * "250 ns", "1.5 us", "20 ms", "3.2 s": short human form, into buf, which it returns. Rounded to
 * one decimal; 32 bytes always suffice. str_bytes() has B, KiB, ... EiB.
 */
char *str_ns(char *buf, size_t size, uint64_t ns);
/* The same of what may be off by grain: what is less is only known to be less than "<1 us". */
char *str_ns_grain(char *buf, size_t size, uint64_t ns, uint64_t grain);
char *str_bytes(char *buf, size_t size, uint64_t bytes);

/* ---- bytes nobody trusts: pointer and remaining length, never a cast ---- */

struct cursor {
	const uint8_t *p;
	size_t left;
};

/* Each returns 0, or -ENODATA without moving if fewer bytes are left than requested. */
int cur_u8(struct cursor *c, uint8_t *v) __must_check;
int cur_u16(struct cursor *c, uint16_t *v) __must_check;
int cur_u32(struct cursor *c, uint32_t *v) __must_check;
int cur_u64(struct cursor *c, uint64_t *v) __must_check;
int cur_skip(struct cursor *c, size_t n) __must_check;
int cur_bytes(struct cursor *c, size_t n, const uint8_t **p) __must_check;
/* A NUL-terminated string that ends inside the data. */
int cur_str(struct cursor *c, const char **s) __must_check;

/* Unaligned loads; the caller has checked the room. */
static inline uint16_t load_u16(const void *p)
{
	uint16_t v;

	__builtin_memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t load_u32(const void *p)
{
	uint32_t v;

	__builtin_memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t load_u64(const void *p)
{
	uint64_t v;

	__builtin_memcpy(&v, p, sizeof(v));
	return v;
}

/* ---- texts of the kernel, from its files or a capture ---- */

/* events/header_page: how sub-buffers of the default size are laid out, bytes. */
struct ktext_page {
	uint32_t long_size, header, size; /* 4 or 8; before the data; of all of it */
};

/* False if it does not say. */
bool ktext_page(const char *text, struct ktext_page *p);
/* The name in [brackets] of trace_clock, or of /sys/kernel/security/lockdown; -EINVAL: none. */
int ktext_chosen(const char *text, char *buf, size_t size) __must_check;
/* What stands behind "KEY:" and blanks on the line of text that begins so; NULL: no such line. */
const char *ktext_value(const char *text, const char *key);
/* The same as a decimal number, also with " kB". -ENOENT: no line; -EINVAL: no number; -ERANGE. */
int ktext_number(const char *text, const char *key, uint64_t *v) __must_check;

/* ---- text for people: the width of a terminal, lines that fit it, colours ---- */

/* Columns of the terminal fd; if it does not say (serial lines), $COLUMNS, else 80. */
unsigned int screen_width(int fd);
/* Whether text for fd is coloured by default: a terminal with colours, without NO_COLOR. */
bool screen_has_colors(int fd);

/* SGR sequences; "" = unchanged. */
#define SCREEN_PLAIN "\033[m"
/* Puts the sequence of that SGR parameter before b->s[from..to) and SCREEN_PLAIN after it. */
void screen_paint(struct sbuf *b, size_t from, size_t to, const char *sgr);

/* Cuts a text, given in pieces, to a width; zeroed but for width. */
struct screen_cut {
	unsigned int width, column;
	bool escape, full;
	/* the character in the last column, unless '>' goes there, and the sequences after it */
	char held[64];
	unsigned int nheld, nchar;
};

/*
 * Appends to out what is shown of s[0..n): in lines longer than the width the last column is '>'. A
 * character is taken to be one column wide; escape sequences take none.
 */
void screen_cut(struct screen_cut *c, const char *s, size_t n, struct sbuf *out);
