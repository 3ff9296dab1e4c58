/* SPDX-License-Identifier: GPL-2.0-or-later */
/* reader.h: what the readers of capture formats share; private to src/capture. */
#pragma once

#include "kvmft/capture.h"

#define CAP_MAX_DAMAGE	 1000
#define CAP_MAX_TASKS	 (1u << 20)
#define CAP_MAX_FORMATS	 65536 /* common_type has 16 bits */
#define CAP_MAX_FORMATS_TEXT (64u << 20) /* of all together: ten times those of a kernel */
#define CAP_MAX_VMS	 (1u << 20)
#define CAP_MAX_PARAMS	 1024
#define CAP_MAX_VCPUS	 8192 /* entries of one VM */
#define CAP_MAX_TEXT	 (16u << 20) /* saved_cmdlines and the like */
#define CAP_MAX_KALLSYMS (64u << 20)
#define CAP_SYMBOLS	 "symbols"
#define CAP_MAX_GONE	 256u
#define CAP_MAX_SEGMENT	 999999
#define CAP_MAX_SEGMENTS 100000

/* How a file of a big-endian machine is refused; what else can be done follows. */
#define CAP_BIG_ENDIAN "of a big-endian machine, and kvmft reads those of x86 and arm64 only: "

/* A file: size bytes of fd, or of mem, from `at` on. */
struct cap_part {
	int fd;	      /* -1: none */
	uint8_t *mem; /* NULL: fd */
	uint64_t at, size;
	bool cut; /* of mem: what was packed is damaged, or ends before its end */
};

#define CAP_TAR_NAME 300u

/* A tar archive: its files, by name. */
struct cap_tar {
	struct cap_part all;
	struct cap_member *v;
	size_t n, cap;
	char root[CAP_TAR_NAME]; /* of the directory, with a slash at its end; or empty */
	bool cut;		 /* it ends before its end, or is damaged from somewhere on */
};

/* A directory, or a tar archive of one. */
struct cap_dir {
	int fd; /* -1: none; the archive's, which is tar's, if that is not in memory */
	struct cap_tar *tar;
};

/* Text files in a directory; all are optional, but those that meta names should exist. */
enum cap_text { CAP_TEXT_CMDLINES, CAP_TEXT_TGIDS, CAP_TEXT_PRINTK, CAP_TEXT_KALLSYMS, CAP_TEXTS };
extern const char *const cap_text_names[CAP_TEXTS];

/* Sub-buffers that are not in a file, but made from one, for the stream in an extent's off. */
struct cap_maker {
	/* *buf: owned by the maker, until the next call. 0 or -errno. */
	int (*make)(void *arg, uint64_t stream, uint64_t idx, const uint8_t **buf);
	void (*free)(void *arg);
	void *arg;
};

struct cap_priv {
	struct cap_dir dir; /* of a capture, none for a file */
	struct cap_part formats; /* of a directory, while meta is read */
	int fd;		   /* trace.dat or perf.data, -1 for a directory */
	char **instance;   /* names of trace-cmd buffers, pointed to by streams */
	size_t ninstance, instance_cap;
	char *table;	    /* capture_table(): the text */
	size_t formats_len; /* of all format texts */
	uint16_t cpu_at[CAPTURE_MAX_CPUS]; /* 1 + the index into c->cpu; 0: it has none */
	struct u64map task_by_tid; /* index into c->task */
	struct u64map vm_by_id;	   /* index into c->vm; by a hash of the id, with this key */
	struct u64map vcpu_last;   /* index into vm->vcpu; by index of the VM, and id */
	struct hash_key key;
	size_t damage_dropped;
	struct u64map damage_by_text; /* index into c->damage; by a hash of the text */
	struct {
		bool told;
		uint64_t bytes;
	} text[CAP_TEXTS];
	uint64_t fired_tsc, written_tsc; /* of a flight recorder's last snapshot; 0 = unknown */
	uint64_t *begun;	     /* when segments 1, 2, ... of a recording that rotates were */
	size_t nbegun, begun_cap;
	bool asked; /* segments were made by others' triggers: --keep removes these apart */
	bool big_endian; /* the machine of meta, which is refused */
	bool symbols_told;
	uint64_t symbols_bytes;
	uint32_t segments_told;	   /* 1 + the highest segment that meta mentions */
	const struct cap_packing *packing; /* of a trace.dat v7; NULL: not compressed */
	struct cap_unpacker *unpacker; /* made when a compressed chunk is read */
	struct cap_maker maker;
	bool skip_text; /* capture_skip_text() */
	/* kallsyms, megabytes that few ask for: read when they do. load NULL: none, or read. */
	struct cap_later {
		void (*load)(struct capture *c, const struct cap_later *at);
		uint64_t off, size, file; /* of the section; of the file */
		uint16_t flags;
	} kallsyms;
};

/* ---- model.c: filling struct capture, bounded and checked ---- */

struct capture *cap_new(void);
/*
 * Notes something that was wrong; text is made printable. Repetitions of a text are counted. Only
 * the first CAP_MAX_DAMAGE are kept.
 */
void cap_note(struct capture *c, const char *fmt, ...) __printf(2, 3);
/* Called once at the end: says how many more there were. */
void cap_note_rest(struct capture *c);
/* Replaces *slot by a printable copy of val; NULL val leaves it alone. */
void cap_set_str(char **slot, const char *val);
/* The entry of a CPU, added if absent. NULL: its number is too high, which is noted. */
struct cap_cpu *cap_cpu_at(struct capture *c, uint64_t cpu);
/* The entry of a VM, likewise: NULL with CAP_MAX_VMS of them (noted). */
struct cap_vm *cap_vm_at(struct capture *c, const char *id);
/* Adds a task, or completes the one with that tid; with `override`, a later comm replaces it. */
void cap_task_add(struct capture *c, int32_t tid, int32_t tgid, const char *comm, bool override);
/* Whether there are as many formats as there may be, which is noted. */
bool cap_formats_full(struct capture *c);
/* Copies. A text with bytes that no format has is noted and left out, and so is one too many. */
void cap_format_add(struct capture *c, const char *sys, const char *name, const char *text,
		    size_t len);
struct cap_stream *cap_stream_add(struct capture *c, uint32_t cpu, const char *instance);
/*
 * Adds len bytes of a file to a stream; an incomplete last sub-buffer counts as cut.
 * c->subbuf_size must be known.
 */
void cap_stream_extend(struct capture *c, struct cap_stream *s, const struct cap_extent *from);
/*
 * The same for a file open as fd (borrowed), without the sub-buffers in its holes: these read as
 * zeros, which no ring ever holds, and cost a hostile file nothing. Returns how many bytes they
 * have.
 */
uint64_t cap_stream_extend_file(struct capture *c, struct cap_stream *s, int fd,
				const struct cap_extent *from);
/* Kernel texts: "tid comm" lines, or "tid tgid". */
void cap_parse_tasks(struct capture *c, char *text, bool tgids);
/* Keeps a copy of the kernel's printk_formats if it is text; otherwise that is noted. */
void cap_set_printk(struct capture *c, const char *text, size_t len);
/* Keeps a copy of (a part of) the kernel's kallsyms; one beyond CAP_MAX_KALLSYMS is left out. */
void cap_set_kallsyms(struct capture *c, const char *text, size_t len);
/* The clock in brackets of a trace_clock file, or the whole word; *slot is replaced. */
void cap_parse_clock(char **slot, const char *text);
/* "entries: N" lines of per_cpu/cpuN/stats. */
void cap_parse_stats(const char *text, struct cap_cpustat *st);
bool cap_subbuf_ok(uint64_t size);
/* Of a TSC whose ns are ticks * mult >> shift, which is below 64; 0: of none. */
uint64_t cap_khz(uint32_t mult, uint32_t shift);

/* ---- files.c: relative to a directory, never through links, only regular files ---- */

/* Opens DIR/a/b/c read-only, each step O_NOFOLLOW, the last one a regular file. fd or -errno. */
int cap_open_file(int dirfd, const char *path, uint64_t *size) __must_check;
/* What path names, O_NOFOLLOW as above; the caller closes file->fd, if any. 0 or -errno. */
int cap_part_open(const struct cap_dir *dir, const char *path, struct cap_part *file) __must_check;
/* As full_pread(). */
ssize_t cap_part_read(const struct cap_part *file, void *buf, size_t n, uint64_t off);
/* Calls each() with what a directory has, "" being dir itself; until it returns an error. */
typedef int cap_name_fn(void *arg, const char *name);
int cap_dir_list(const struct cap_dir *dir, const char *path, cap_name_fn *each, void *arg)
	__must_check;
/*
 * Opens a directory, a tar archive, or the directory ARCHIVE/NAME; an archive may be packed.
 * -ENOMSG: something else, without err set.
 */
int cap_dir_open(const char *path, struct cap_dir *dir, struct kvmft_err *err) __must_check;
/* The same of a file, of which sub ("": all) is wanted. fd stays the caller's. */
int cap_dir_of_tar(int fd, const char *sub, struct cap_dir *dir, struct kvmft_err *err)
	__must_check;
/* path, or the file above the last step of path, which is *sub then. fd or -errno. */
int cap_open_above(const char *path, const char **sub) __must_check;
void cap_dir_close(struct cap_dir *dir);
/*
 * The directory that holds the last step of path, *last, with each step on the way O_NOFOLLOW and,
 * with make, created if missing. dirfd itself if there is no step, a new fd, or -errno.
 */
int cap_parent(int dirfd, const char *path, bool make, const char **last) __must_check;
/*
 * Reads at most max bytes; *out is NUL-terminated and freed by the caller. Returns the length;
 * *more is set if the file is longer.
 */
ssize_t cap_read_file(const struct cap_dir *dir, const char *path, size_t max, char **out,
		      bool *more) __must_check;
/*
 * The len bytes at `at` of a file, likewise; -ENODATA if it is shorter. The file stays open in
 * *file, whose fd is -1 at first, for its next part.
 */
ssize_t cap_read_part(const struct cap_dir *dir, const char *path, struct cap_part *file,
		      uint64_t at, size_t len, char **out) __must_check;
/* "segNNNNNN/cpuN" */
void cap_data_name(char *buf, size_t size, uint32_t segment, uint32_t cpu);
/* True for one path step of a name from the file: no slash, no dots only, printable. */
bool cap_name_ok(const char *name);

/* ---- tar.c ---- */

/* Whether these n bytes begin one. */
#define CAP_STDIN "/dev/stdin/" /* before the names in an archive there; not opened by name */
/* Standard input becomes a file, of all that comes through it. */
int cap_stdin_file(struct kvmft_err *err) __must_check;
bool cap_is_tar(const void *head, size_t n);
/* The file that path names, with the archive's fd. -ENOENT */
int cap_tar_file(const struct cap_tar *t, const char *path, struct cap_part *file) __must_check;
int cap_tar_list(const struct cap_tar *t, const char *sub, cap_name_fn *each, void *arg)
	__must_check;
void cap_tar_free(struct cap_tar *t);

/* ---- text.c ---- */

#define META_MAX_KEYS 64

struct meta_rec {
	const char *name;
	size_t n;
	struct meta_pair {
		const char *key, *val;
	} kv[META_MAX_KEYS];
};

/* Whether all bytes are those of a line of meta. */
bool meta_is_line(const char *line, size_t len);
/* Splits a line (without newline) in place; false if it is not a record. Values are unescaped. */
bool meta_parse(char *line, struct meta_rec *rec);
const char *meta_get(const struct meta_rec *rec, const char *key); /* NULL = absent */
/* True if present and a number in that range. */
bool meta_get_u64(const struct meta_rec *rec, const char *key, uint64_t *v);
bool meta_get_s64(const struct meta_rec *rec, const char *key, int64_t *v);
bool meta_get_bits(const struct meta_rec *rec, const char *key, uint64_t *v);
bool meta_get_u32(const struct meta_rec *rec, const char *key, uint32_t *v);
bool meta_get_s32(const struct meta_rec *rec, const char *key, int32_t *v);

/* records.c: applies one record to c. Unknown records are ignored. */
void meta_apply(struct capture *c, const struct meta_rec *rec);

/* ---- the formats ---- */

/* fd is taken over by c->priv only on success. */
#define TD_MAGIC 10 /* bytes, with which it begins */
int cap_tracedat_read(struct capture *c, int fd, uint64_t size, struct kvmft_err *err) __must_check;
int cap_perfdata_read(struct capture *c, int fd, uint64_t size, struct kvmft_err *err) __must_check;
#define CAP_PERF_THREADS                                                                       \
	"made by perf record --threads, a directory of files that kvmft does not read: record " \
	"without --threads"
/* Text, which is read from front to back. -ENOMSG: it is no trace. */
int cap_text_read(struct capture *c, int fd, struct kvmft_err *err) __must_check;

/* unpack.c: how a file is compressed, by the name that it gives; NULL with err set. */
struct cap_packing;
const struct cap_packing *cap_packing(const char *name, struct kvmft_err *err);
/* One chunk in memory. -EBADMSG. */
int cap_unpack(const struct cap_packing *how, const void *packed, size_t n, void *plain, size_t len)
	__must_check;
/*
 * len > 0 bytes of a compressed chunk, from off on: what is read in order is unpacked once. *slot
 * is made if it is NULL, and freed by its owner. As above, -EIO.
 */
struct cap_unpacker;
int cap_unpack_at(struct cap_unpacker **slot, const struct cap_packing *how,
		  const struct cap_extent *e, uint64_t off, void *buf, size_t len) __must_check;
/*
 * Up to len bytes of what gzip ("zlib") or "zstd" has packed, read by more(), into no less than
 * 64 KiB, from front to back: 0 at the end.
 * -ENODATA: cut; -EBADMSG; -EOPNOTSUPP: not built in; -EFBIG: far more than it may be.
 * *slot as above.
 */
#define CAP_UNPACKS_MUCH "it unpacks to over 1 GiB, or to 250 times its size: unpack it first"
ssize_t cap_unpack_stream(struct cap_unpacker **slot, const char *name,
			  ssize_t (*more)(void *arg, void *buf, size_t n), void *arg, void *buf,
			  size_t len) __must_check;
void cap_unpacker_free(struct cap_unpacker *u);
/*
 * What gzip or zstd has packed in fd, if its head is() what is wanted, into out->mem, to be freed.
 * -errno with err set; -ENOMSG without: it is something else.
 */
int cap_unpack_file(int fd, bool (*is)(const void *head, size_t n), struct cap_part *out,
		    struct kvmft_err *err) __must_check;

static inline struct cap_priv *cap_priv(const struct capture *c)
{
	return c->priv;
}
