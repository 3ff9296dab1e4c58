/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * capture.h: what a recording on disk holds, whichever format it has.
 *
 * The writer (capw_*) makes kvmft's own capture directory; its layout is described above the
 * reader in src/capture/open.c and in kvmft-capture(5). The reader (capture_open) takes a
 * capture directory, a trace.dat or a perf.data and shows each as one struct capture: facts in
 * plain arrays, and per CPU a stream of sub-buffers that is read piecewise, so that memory does not
 * grow with the file. Everything in a capture is hostile until checked: strings are made printable,
 * counts and sizes are bounded, and what is missing or damaged is counted, never guessed.
 */
#pragma once

#include "kvmft/clock.h"
#include "kvmft/util.h"

#define CAPTURE_VERSION	    1
#define CAPTURE_MAGIC	    "kvmft-capture " /* how its meta begins */
#define CAPTURE_MAX_CPUS    8192
#define CAPTURE_MAX_SUBBUF  (1u << 20)
#define CAPTURE_MAX_FORMAT  (256u << 10) /* one event format text */
#define CAPTURE_MAX_META    (64u << 20)

/* Bits: a nested machine is both. */
enum cap_side {
	CAP_SIDE_UNKNOWN,
	CAP_SIDE_HOST,
	CAP_SIDE_GUEST,
	CAP_SIDE_BOTH = CAP_SIDE_HOST | CAP_SIDE_GUEST,
};

/* An event format as the traced kernel described it; text is NUL-terminated, printable. */
struct cap_format {
	char *sys, *name, *text;
	size_t len;
};

/* A vCPU as debugfs and /proc showed it when the host capture began (or changed). */
struct cap_vcpu {
	uint32_t id;	    /* vcpu_id = APIC id: sparse, not an index */
	int32_t tid;	    /* host thread that runs it; 0 = unknown */
	bool has_offset;
	uint64_t offset;    /* L1 TSC offset, bits as u64 */
	uint64_t ratio;	    /* 0 = no scaling */
	uint8_t frac;	    /* fraction bits of ratio */
	uint64_t tsc;	    /* host TSC just after the offset was read; 0 = unknown */
	bool has_again;	    /* read again when a thread ran it */
	uint64_t again_offset, again_tsc;
	bool has_end;	    /* the same, read again when the capture ended */
	uint64_t end_offset, end_ratio, end_tsc;
};

struct cap_vm {
	char *id;	    /* "PID-FD" as in debugfs */
	int32_t pid;	    /* tgid of the VMM */
	int32_t fd;
	char *name, *uuid, *vmm; /* NULL when unknown */
	uint64_t trace_id;	 /* TRACEID of the guest's trace.dat (GUEST option); 0 = none */
	/*
	 * In the order recorded. A vCPU that changed its thread or offset while recording has
	 * another entry with the same id: the first holds the beginning, the last the end_* values.
	 */
	struct cap_vcpu *vcpu;
	size_t nvcpu, vcpu_cap;
};

/* Trace clock `clock` read ns at some TSC within [tsc, tsc + width]. */
struct cap_clock_sample {
	char clock[16];
	uint64_t tsc, width, ns;
};

/* CLOCK_MONOTONIC_RAW. */
struct cap_raw {
	bool known;
	bool over_kvmclock; /* cycles are kvmclock ns; else TSC cycles */
	struct mono_raw line;
};

/* The trace clock as a line over the TSC, if it is one. */
struct cap_line {
	bool known;
	struct cyc2ns line;
};

/*
 * per_cpu/cpuN/stats, as numbers; produced = entries + overrun + dropped + commit_overrun + read.
 */
struct cap_cpustat {
	bool valid;
	uint64_t entries, overrun, commit_overrun, dropped, read;
	/* at the end: read from the ring, including removed segments; 0 = unknown */
	uint64_t subbufs;
};

struct cap_cpu {
	uint32_t cpu;
	bool has_apicid;
	uint32_t apicid;
	struct cap_cpustat begin, end;
};

/*
 * Events that a full ring refused. The data does not show where, but it was between two looks at
 * the ring's counter, at stamps from and to of the ring's clock, and before one of the CPU's
 * sub-buffers first..last, counted from the beginning of the recording.
 */
struct cap_loss {
	uint32_t cpu;
	uint64_t count, from, to, first, last;
};

struct cap_task {
	int32_t tid, tgid; /* tgid 0 = unknown */
	char *comm;
};

/* A parameter of a kernel module, as it was when the recording began. */
struct cap_param {
	char *module, *name, *value;
};

/* A QEMU seen while recording. */
struct cap_qemu {
	int32_t pid;	       /* 0 = unknown */
	char *version, *binary; /* NULL when unknown; binary: a path of the recorded machine */
};

/*
 * Source of one CPU's sub-buffers: consecutive pieces of files, each a whole number of sub-buffers.
 * fd -1: segNNNNNN/cpuN of the capture directory, opened for each read, because a capture may have
 * more files than a process may have descriptors.
 */
struct cap_extent {
	int fd;
	uint32_t segment;
	uint32_t packed;  /* bytes in the file when compressed, 0 = stored as is */
	uint64_t off, len;
	uint64_t first;	  /* number of its first sub-buffer in the stream */
};

struct cap_stream {
	uint32_t cpu;
	const char *instance; /* name of the trace-cmd buffer, "" = top or kvmft's own */
	struct cap_extent *ext;
	size_t next, ext_cap;
	uint64_t nsub;	      /* complete sub-buffers */
	uint64_t cut_bytes;   /* bytes of an incomplete sub-buffer at the end, 0 = none */
	bool cut;	      /* there were more events than are here */
	bool open_end;	      /* there may have been: nothing says when it was read last */
	bool doubtful;	      /* nothing is here; perhaps its CPU was not recorded */
};

/* What must be known about sub-buffers to read and write them. */
struct subbuf_geom {
	uint32_t size;	    /* of a sub-buffer, bytes */
	uint32_t header;    /* 16 or 12 */
	uint32_t long_size; /* 8 or 4 */
};

/* What the kernel that runs here writes. */
static inline struct subbuf_geom subbuf_geom_here(uint32_t size)
{
	return (struct subbuf_geom){ size, .header = 8 + sizeof(long), .long_size = sizeof(long) };
}

/* Something wrong with the input that did not stop the reader. */
struct cap_damage {
	char *text;	/* ends with "(N times)" where it was found more than once */
	uint64_t again; /* ... behind the first */
	bool no_end; /* the recorder has not said that it ended: it may still run */
};

/* TIME_SHIFT of a trace.dat, one CPU: samples on the file's own clock. */
struct cap_shift {
	struct cap_shift_sample {
		int64_t time, offset, scaling; /* offset is *added* to a stamp of this file */
	} *sample;
	size_t nsample;
	int64_t frac;
};

struct capture {
	char *path;
	enum cap_side side;
	int version; /* of the capture format; 6 or 7 for a trace.dat, 2 for a perf.data */
	bool is_tracedat;
	bool is_perfdata;
	bool complete;		  /* an "end" record was found: the recorder ended by itself */
	char *end_reason;
	char *lacks; /* text only: what is not in it, for the user; NULL = nothing */

	uint32_t long_size;	  /* 4 or 8, of the traced kernel */
	uint32_t subbuf_size;	  /* power of two, <= CAPTURE_MAX_SUBBUF */
	uint32_t page_header;	  /* bytes before the data of a sub-buffer, 12 or 16 */
	char *clock;		  /* "x86-tsc", "local", ... */
	bool overwrite;
	bool flight;		  /* pieces that a flight recorder wrote out, with gaps between */
	/*
	 * sched_switch is not of all threads, but at least of those of VMs: from a switch that is
	 * missing nothing follows about others.
	 */
	bool some_switches;
	uint64_t flush_ns;	  /* quiet rings, too, were read that often; 0 = unknown */
	bool trimmed;		  /* the oldest segments were removed on purpose */
	uint32_t first_segment, last_segment; /* of a directory; those that are left */
	char *uname, *arch, *hypervisor, *uuid, *clocksource, *vendor, *tool;
	char *end_clocksource; /* NULL = not recorded */
	bool no_hugetlb;	  /* no memory was set aside for huge pages; false = not known */
	uint64_t tsc_khz;	  /* 0 = unknown */
	uint64_t tsc_khz_min, tsc_khz_max; /* it is between these; 0 = unknown */
	char *tsc_khz_source;
	uint64_t grain; /* ns that a text's stamps may be off by; of a host with guests: both's */
	bool mixed; /* a guest's stamps have another unit: one counts cycles, the other ns */
	bool unit_ns; /* alone, or with captures in the same clock: a TSC stands for its ns here */
	uint64_t begin_tsc, stop_tsc, end_tsc; /* 0 = unknown; stop: no event is later */
	/*
	 * Of a flight recorder, 0 = unknown: when its ring was last requested, and when what it
	 * then held was written.
	 */
	uint64_t snapshot_tsc, before_snapshot_tsc;
	uint64_t kept_tsc; /* trimmed: when the first segment that is left was begun, 0 = unknown */
	/* ... and a moment of each time when its ring was off to be written out; ascending */
	uint64_t *pause;
	size_t npause, pause_cap;

	bool has_sched_offset, has_kernel_sched_offset;
	int64_t kvm_sched_clock_offset; /* ns, signed bits of the kernel's variable */
	int64_t kernel_sched_offset;	/* __sched_clock_offset, ns */
	char *sched_source;		/* "kprobe", "dmesg", ... */
	bool sched_is_tsc;		/* guest without kvmclock: sched_clock() is the TSC */

	struct cap_format *format;
	size_t nformat, format_cap;
	struct cap_cpu *cpu;
	size_t ncpu, cpu_cap;
	struct cap_stream *stream;
	size_t nstream, stream_cap;
	struct cap_vm *vm;
	size_t nvm, vm_cap;
	struct cap_qemu *qemu;
	size_t nqemu, qemu_cap;
	struct cap_param *param;
	size_t nparam, param_cap;
	/* markers are those of the recorded command and its children */
	bool marker_of_command;
	struct cpu_pvclock *pvclock;
	size_t npvclock, pvclock_cap;
	struct clock_bracket *bracket;
	size_t nbracket, bracket_cap;
	struct cap_loss *loss;	     /* by CPU, then in time order */
	size_t nloss, loss_cap;
	struct cap_clock_sample *sample;
	size_t nsample, sample_cap;
	struct cap_raw raw;
	struct cap_line line;
	struct cap_task *task;
	size_t ntask, task_cap;
	struct cap_damage *damage;
	size_t ndamage, damage_cap;
	char *printk; /* the kernel's printk_formats, unchecked text; NULL = none */
	size_t printk_len;
	char *kallsyms; /* see capture_kallsyms() */
	size_t kallsyms_len;
	char **gone; /* modules unloaded while recording: see capture_symbols() */
	size_t ngone, gone_cap;

	/* trace.dat only, from TRACEID, TIME_SHIFT, TSC2NSEC, DATE and OFFSET */
	uint64_t trace_id;	   /* 0 = none */
	uint64_t shift_peer;	   /* TRACEID of the host file the shifts refer to */
	uint64_t shift_flags;	   /* bit 0: interpolate between samples */
	struct cap_shift *shift;   /* by CPU number */
	size_t nshift;
	bool has_tsc2nsec;	   /* ns = ticks * mult >> shift, plus offset */
	uint32_t tsc2nsec_mult, tsc2nsec_shift;
	uint64_t tsc2nsec_offset;
	int64_t ts_add;		   /* ns that DATE and OFFSET add to every stamp */
	/* of a trace clock in ns: with real_add it is the time of day, in ns since 1970 */
	bool has_real;
	int64_t real_add;
	void *priv; /* the reader's own */
};

/*
 * Opens a capture directory, a trace.dat or a perf.data and reads everything but the sub-buffers.
 * *out is freed with capture_close(). -errno with err set: not a capture, version too new,
 * unreadable. A cut or damaged capture opens as far as it goes (c->damage, !c->complete).
 */
int capture_open(const char *path, struct capture **out, struct kvmft_err *err) __must_check;
/* As capture_open(), for directories only: spares those who need no other format its reader. */
int capture_open_dir(const char *path, struct capture **out, struct kvmft_err *err) __must_check;
/*
 * Of a file, "-" or a packed one: the text, if it is a table of `perf kvm stat report` or kvmft
 * report, to be freed. -errno with err set; -ENOMSG without: it is something else.
 */
#define CAP_TABLE_MAX (1u << 20) /* bytes; a recording is larger, or no text */
int capture_table(const char *path, char **text, struct kvmft_err *err) __must_check;
void capture_close(struct capture *c);
/*
 * Of all of a capture's events so many were found: how many more were taken from the ring, by its
 * counters. A trace.dat also has what was in the ring when the counters were read. 0: none, or
 * unknown.
 */
uint64_t capture_missing(const struct capture *c, uint64_t events);
/* Nothing of that stream's CPU was recorded, although it had events. */
void capture_left_out(struct capture *c, struct cap_stream *s);
/* Nothing says of any CPU that it was not recorded, nor leaves that open. */
bool capture_all_cpus(const struct capture *c);

/* Its reader of formats could not use that one: noted as damage. */
void capture_format_bad(const struct capture *c, const struct cap_format *f, const char *why);

/*
 * Events of a trace that is text keep it as the field "text": whether sub-buffers that are read from
 * now on may have it empty, which is faster where nobody asks.
 */
void capture_skip_text(const struct capture *c, bool skip);

/*
 * Lines of the kernel's kallsyms, unchecked bytes and a NUL, which belong to c; a trace.dat's are
 * read when they are first requested. NULL: it has none, or they cannot be read.
 */
const char *capture_kallsyms(const struct capture *c, size_t *len);
/*
 * The symbols of the recorded kernel; false: it was recorded without them. If
 * anything is wrong with them, that is noted as damage, as soon as it is read, and those there have
 * no names. They must not be looked up after capture_close(). ksyms_free().
 */
struct ksyms;
bool capture_symbols(struct capture *c, struct ksyms *k) __must_check;

/*
 * A data file kept open from one read to the next; { -1 } before the first, closed with
 * capture_file_close(). Captures with very many CPUs are read without it, to save descriptors.
 */
struct cap_file {
	int fd;
	uint32_t segment;
};
void capture_file_close(struct cap_file *file);

/*
 * Reads up to n consecutive sub-buffers of a stream, from number idx (0 .. nsub-1) on, into buf
 * (n * c->subbuf_size bytes). file may be NULL. How many were read, 0 at the end, -errno.
 */
ssize_t capture_read_subbufs(const struct capture *c, const struct cap_stream *s, uint64_t idx,
			     uint64_t n, void *buf, struct cap_file *file) __must_check;

/*
 * n bytes at `at` of sub-buffer idx: 0, -ENODATA past the last one, -EINVAL behind its end,
 * -EBADMSG where compressed data is damaged, -errno. file may be NULL. Compressed sub-buffers are
 * cheap to read in order; each step back or to another CPU unpacks everything before it again.
 */
int capture_read_part(const struct capture *c, const struct cap_stream *s, uint64_t idx,
		      uint32_t at, void *buf, size_t n, struct cap_file *file) __must_check;

/* ---- writing a capture directory ---- */

struct capw;

/* What becomes of an existing capture of that name. Anything else is never touched. */
enum capw_old {
	CAPW_REFUSE,  /* nothing may have it */
	CAPW_ROTATE,  /* it moves to NAME.old, or to NAME.cut, see capw_name_take() */
	CAPW_REPLACE, /* removed when the new one is complete, NAME.replaced until then */
};

#define CAPW_NAME_SIZE 256

struct capw_name {
	int dir;	   /* borrowed: capw_dir_open() or capw_parent_open() */
	const char *shown; /* borrowed: what goes before the name in messages, "" or "dir/" */
	enum capw_old old;
	bool taken;
	char name[CAPW_NAME_SIZE], temp[CAPW_NAME_SIZE], aside[CAPW_NAME_SIZE];
};

/* Can a capture have this name? Changes nothing. 0 or -errno with err set. */
int capw_name_init(struct capw_name *n, int dir, const char *shown, const char *name,
		   enum capw_old old, struct kvmft_err *err) __must_check;
/*
 * Gives the new capture its name. With CAPW_ROTATE, a capture that was cut short does not replace a
 * complete NAME.old, but becomes NAME.cut. 0 or -errno with err set.
 */
int capw_name_take(struct capw_name *n, struct kvmft_err *err) __must_check;
/* It is complete: removes what it replaces. */
int capw_name_done(struct capw_name *n, struct kvmft_err *err) __must_check;
/* Removes one that never got its name, if there is one. */
void capw_name_drop(const struct capw_name *n);

/*
 * Makes the directory (0700) under its temporary name, and its meta file. 0 or -errno with err set.
 */
int capw_create(const struct capw_name *n, struct capw **out, struct kvmft_err *err) __must_check;
/* ret (a result) is -ENOSPC in a directory that lacks inodes, not bytes: err says so as well. */
void capw_why(int dir, int ret, struct kvmft_err *err);
/*
 * A writer that writes everything to a stream; it has no directory (the descriptor is -1) and no
 * data files, see STREAM_DATA. s is borrowed. 0 or -ENOMEM.
 */
struct stream_out;
int capw_create_stream(struct stream_out *s, struct capw **out) __must_check;
/*
 * Opens a directory for captures. Refused: one that others can write to without the sticky bit, a
 * symbolic link, and a path that leads through such a directory, or through a link that somebody
 * else made in a sticky one. Returns its descriptor (the caller's) or -errno.
 */
int capw_dir_open(const char *path, struct kvmft_err *err) __must_check;
/*
 * The directory that a capture of this path would be made in, opened in the same way; *base: its
 * name, to be freed.
 */
int capw_parent_open(const char *path, char **base, struct kvmft_err *err) __must_check;
/*
 * The directory that a plain file of this path would be made in, as a place (O_PATH); *base: the
 * rest of path. Only links are treated in the same way: all may write to a directory on the way.
 */
int capw_file_parent_open(const char *path, const char **base, struct kvmft_err *err) __must_check;
/* The part of path before that name, with its slash, to be freed; NULL: out of memory. */
char *capw_parent_shown(const char *path) __must_check;

/*
 * Captures of one directory named by their time: kvmft-20261121T064240Z, with -01 .. -99 appended
 * for further ones in the same second, so that names sort by age. Only captures with such names
 * count and are touched. now: the name of the present one; what is named after a later time is
 * older than all others, since the clock was set back. NULL: the names say all.
 */
#define CAPW_STAMP_SIZE 32
/* time: seconds since 1970; n < 100. -EOVERFLOW for a time beyond the year 9999. */
int capw_stamp_name(int64_t time, unsigned int n, char *buf, size_t size) __must_check;
/*
 * Removes the oldest of them until at most keep are left; the newest complete one always stays.
 * *removed (may be NULL) is how many were removed.
 */
int capw_stamp_prune(int dirfd, const char *now, size_t keep, size_t *removed,
		     struct kvmft_err *err) __must_check;
/* Disk space of the newest complete one of them, bytes; 0 if there is none. */
uint64_t capw_stamp_usage(int dirfd, const char *now);
/*
 * Makes room by removing as few of the oldest as free that many bytes of disk; none if all of them
 * would not be enough. 1 = there is room now, 0 = there is not, -errno with err set.
 */
int capw_stamp_room(int dirfd, const char *now, size_t keep, uint64_t bytes,
		    struct kvmft_err *err) __must_check;
/* Appends one record to meta; the sbuf was built with meta_begin() .. meta_*(); it is reset. */
int capw_meta(struct capw *w, struct sbuf *line) __must_check;
/* Writes a whole small file below the capture; parent directories of name are made (0700). */
int capw_file(struct capw *w, const char *name, const void *data, size_t len) __must_check;
/* Appends to the file of format texts; *at is where the text begins in it, bytes. 0 or -errno. */
int capw_format(struct capw *w, const char *text, uint64_t *at) __must_check;
/*
 * Records and format texts that follow are kept in memory until capw_release() writes them at once;
 * it returns 0 or -errno, and what it could not write is lost. For the many records at the
 * beginning.
 */
void capw_hold(struct capw *w);
int capw_release(struct capw *w) __must_check;
/* Opens the data file of a CPU in a segment for writing; returns fd (owned by the caller). */
int capw_data_open(struct capw *w, unsigned int segment, unsigned int cpu) __must_check;
/* What was written there, for reading: fd (the caller's) or -errno. */
int capw_data_reopen(const struct capw *w, unsigned int segment, unsigned int cpu) __must_check;
/*
 * Data files without a name any more, held open: only their last close takes time, because then the
 * file system frees their blocks. Zero = none.
 */
struct capw_removed {
	int *fd;
	size_t n, cap;
};

/* Makes the directory of a segment if it does not exist. 0 or -errno. */
int capw_segment_make(const struct capw *w, unsigned int segment) __must_check;
/*
 * Removes a segment and its data files; *freed is what they held, bytes. 0 (also when gone),
 * -errno.
 */
int capw_segment_remove(struct capw *w, unsigned int segment, uint64_t *freed,
			struct capw_removed *x) __must_check;
void capw_removed_close(struct capw_removed *x);

#define CAPW_ORIGINS	 66u /* this side, the host, and all guests */
#define CAPW_ORIGIN_SIZE 64u

/* The segments that are there, and whose trigger each was written for. Zero = none. */
struct capw_kept {
	uint8_t *origin; /* of each segment: index into of[] + 1; 0: it is gone */
	size_t n, cap;
	struct {
		char name[CAPW_ORIGIN_SIZE]; /* of[0]: "", this side itself */
		uint32_t count, oldest;	     /* segments; none before */
	} of[CAPW_ORIGINS];
};

/* This segment is there, by the trigger of that side; "" = own, or asked for. 0 or -ENOMEM. */
int capw_kept_add(struct capw_kept *k, uint32_t segment, const char *by) __must_check;
/*
 * The segment that has to go if this many of our own stay, and of those that others have caused:
 * the oldest, of the side with the most of these. false: none.
 */
bool capw_kept_over(struct capw_kept *k, uint64_t own, uint64_t others, uint32_t *segment);
void capw_kept_free(struct capw_kept *k);
/*
 * Reserves that much disk space for meta, so that its last lines can be written even when data has
 * filled the disk; capw_close() gives back what was not needed. 0 or -errno (not every file system
 * can do this).
 */
int capw_reserve(struct capw *w, uint64_t bytes) __must_check;
/* Syncs meta and the names of segments to the disk. 0 or -errno. */
int capw_sync(struct capw *w) __must_check;
int capw_dirfd(const struct capw *w);
/* The descriptors that it has open; how many. */
size_t capw_fds(const struct capw *w, int fd[3]);
const char *capw_path(const struct capw *w);
/* fsync-free close; everything was already written. NULL is fine. */
void capw_close(struct capw *w);

void meta_begin(struct sbuf *line, const char *record);
void meta_str(struct sbuf *line, const char *key, const char *val); /* NULL val: left out */
void meta_u64(struct sbuf *line, const char *key, uint64_t val);
void meta_s64(struct sbuf *line, const char *key, int64_t val);
/* Whole records; more may be added to them. */
void meta_stats(struct sbuf *line, const char *when, uint32_t cpu, const struct cap_cpustat *st);
void meta_lost(struct sbuf *line, const struct cap_loss *l);
void meta_pvclock(struct sbuf *line, const struct cpu_pvclock *p);
void meta_time(struct sbuf *line, const struct clock_bracket *b);
void meta_clock(struct sbuf *line, const char *clock, uint64_t tsc, uint64_t width, uint64_t ns);
void meta_raw(struct sbuf *line, const struct cap_raw *r);

/* NULL: it is not known. */
const struct cap_task *cap_task(const struct capture *c, int32_t tid);
/* The vCPU that a CPU of a guest is: its APIC id where the capture has it, else its number. */
uint32_t cap_vcpu_of_cpu(const struct capture *cap, uint32_t cpu);
/* The options of the clock that its machine should be recorded with, "--clock x86-tsc (...)". */
const char *cap_clock_advice(const struct capture *cap);
/* Are its stamps TSC cycles of the recorded machine? */
bool cap_in_tsc(const struct capture *cap);
/* The least number of vCPUs that a guest can have, by the numbers of its CPUs. */
size_t cap_cpus(const struct capture *cap);

/*
 * A directory of captures that belong together, as `kvmft record --guest` makes it, or
 * as somebody has assembled it; or a tar archive of one.
 */

#define SESSION_FILE	 "session"
#define SESSION_VERSION	 1
#define SESSION_MAX	 (1u << 20) /* bytes of the file */
#define SESSION_CAPTURES 256
#define SESSION_MARK	 "\1" /* before a guest that nobody named by hand: see pairing_prepare() */

struct session_capture {
	char *path;
	/* "PATH=SEL" if the session knows the VM, else "PATH"; of guests after SESSION_MARK. */
	char *operand;
	char *sel;     /* the VM, as named in the host's capture; NULL = unknown */
};

struct session {
	struct session_capture *v; /* the host, then its guests */
	size_t n, cap;
	bool named;	     /* by its file: other directories in it are none of its */
	struct sbuf missing; /* names of guests that it had, separated by commas */
};

/*
 * What a directory of captures holds: according to its file `session`, which anyone may have
 * written, or without one to what each capture says. 0 with n = 0: path is not such a directory,
 * but may be a capture. -errno with err set: it is one, but has no host, or several.
 */
int session_read(const char *path, struct session *s, struct kvmft_err *err) __must_check;
/* The same, for a process with rights: a confined one does it. */
int session_ask(const char *path, struct session *s, struct kvmft_err *err) __must_check;
void session_free(struct session *s);
/* Whether a capture's directory says that it is a guest's. */
bool session_is_guest(const char *path);

/* ---- events into sub-buffers, for making captures from something else ---- */

/* Puts events into sub-buffers, in the layout that subbuf_begin() reads. */
struct subbuf_writer {
	struct subbuf_geom g;
	/* takes g.size bytes; 0 or -errno. It may set buf, which is its owner's then, to others. */
	int (*emit)(void *arg, const void *buf);
	void *arg;
	uint8_t *buf;
	uint32_t pos;	/* bytes of data in buf */
	uint32_t later; /* ... that the events in it will need on top of that */
	uint64_t begin, ts; /* of the first and the last event */
	bool open;	/* buf was begun */
	bool lost;	/* events were lost before it */
	bool uncounted; /* ... and how many is unknown */
	uint64_t lost_count;
	uint64_t emitted;
};

/* -EINVAL for a geometry without room for events; freed with subbuf_writer_free() always. */
int subbuf_writer_init(struct subbuf_writer *w, const struct subbuf_geom *g,
		       int (*emit)(void *arg, const void *buf), void *arg) __must_check;
/*
 * Adds an event; data as in struct rec. A stamp before the last one begins a new
 * sub-buffer. -EMSGSIZE: it does not fit into any sub-buffer of that size.
 */
int subbuf_write(struct subbuf_writer *w, uint64_t ts, const void *data, uint32_t len) __must_check;
/*
 * The same, with room for the event to grow to `later` bytes of data: len, or 8 more at least.
 * *data: where its len bytes go, until anything else is done with w.
 */
int subbuf_reserve(struct subbuf_writer *w, uint64_t ts, uint32_t len, uint32_t later,
		   uint8_t **data) __must_check;
/* An event with its header into a sub-buffer: how many bytes. delta has 27 bits. */
uint32_t subbuf_put(uint8_t *to, uint32_t delta, const void *data, uint32_t len);
/* Events were lost before the next one: count, 0 = number unknown. Counts add up. */
int subbuf_write_lost(struct subbuf_writer *w, uint64_t count) __must_check;
/* Hands out what there is. A loss that no event follows makes an empty sub-buffer. */
int subbuf_write_end(struct subbuf_writer *w) __must_check;
void subbuf_writer_free(struct subbuf_writer *w);
