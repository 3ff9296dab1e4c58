/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sdt.h: the markers that sys/sdt.h (SystemTap, DTrace) leaves in programs and libraries, and how
 * the kernel's uprobes can be told to fetch their arguments.
 *
 * A marker is a nop in the code and a note in the section .note.stapsdt: its provider, its place,
 * and the register or memory that holds each argument. Files are not trusted: the functions here
 * return whatever they contain.
 */
#pragma once

#include "kvmft/util.h"

/* The machine of the file; markers can be listed for all, arguments fetched for these. */
enum sdt_arch { SDT_ARCH_OTHER, SDT_ARCH_X86_64, SDT_ARCH_I386 };

/* One place in the code; a marker has as many as the compiler made copies of it. */
struct sdt_marker {
	char *provider, *name, *args; /* never NULL; printable ASCII */
	uint64_t addr;	    /* as in the file, corrected if it was moved after linking */
	uint64_t offset;    /* of the instruction in the file, bytes */
	uint64_t semaphore; /* offset in the file of the counter that switches it on; 0 = none */
	const char *unfit;  /* NULL, or why it cannot be probed (offsets are 0 then); static text */
};

struct sdt_file {
	struct sdt_marker *v; /* in the order of the file */
	size_t n, cap;
	enum sdt_arch arch;
	size_t bad;	      /* notes that make no sense and were ignored */
};

/*
 * Reads the markers of an ELF file of any class; fd is read with pread() and stays
 * the caller's. A file without markers is no error: n is 0. -ENOEXEC: not an ELF executable or
 * library, or its headers contradict each other; -ENOMEM; errors of pread(). name is for the
 * message. *f is to be freed with sdt_free(), also after a failure.
 */
int sdt_read(int fd, const char *name, struct sdt_file *f, struct kvmft_err *err) __must_check;
/* To another process, which does not trust this one: the reverse is 0 or -EBADMSG. */
void sdt_pack(const struct sdt_file *f, struct sbuf *out);
int sdt_unpack(struct cursor *c, struct sdt_file *f) __must_check;
void sdt_free(struct sdt_file *f);

/* An argument as the note describes it, "-4@%edi". */
struct sdt_arg {
	const char *operand; /* in the text given, not terminated: "%edi" */
	size_t len;
	unsigned int size; /* bytes: 1, 2, 4, 8; 0 = the note does not say */
	bool is_signed, is_float;
};

/* Cuts the next one off *args: 1; 0 at the end; -EINVAL for anything else (the text is used up). */
int sdt_arg_next(const char **args, struct sdt_arg *a) __must_check;

/* How to show an argument: the note gives its size and sign, and nothing else. */
enum sdt_as { SDT_AS_NUMBER, SDT_AS_HEX, SDT_AS_STRING };

/*
 * Appends what uprobe_events expects after "NAME=": a fetch expression and a type, "%di:s32" or
 * "+0(-8(%bp)):string" (Linux: Documentation/trace/uprobetracer.rst). -ENOTSUP if the kernel has no
 * expression for it, with the reason in *why (static text); then nothing is appended.
 */
int sdt_arg_fetch(enum sdt_arch arch, const struct sdt_arg *a, enum sdt_as as, struct sbuf *out,
		  const char **why) __must_check;

/* ---- from markers to events of the kernel ---- */

#define SDT_ARGS_MAX 32

/* What was requested. Borrowed throughout. */
struct sdt_want {
	const char *provider, *name;	/* patterns with * and ?; NULL = all */
	enum sdt_as as[SDT_ARGS_MAX];	/* of the first argument, the second, ... */
	const char *filter;		/* of the kernel's, for the events; NULL = none */
	bool hint;			/* only says how to show arguments of markers that others
					 * want */
};

/* A place from which an event comes. */
struct sdt_place {
	size_t file;		   /* as given to sdt_plan_add() */
	uint64_t offset, semaphore;
	char *args;		   /* "arg1=%di:s32 arg2=\\7:u8", "" = none */
};

/*
 * An event: all places of a marker whose arguments have the same types. A marker with places of
 * several kinds becomes several events: NAME, NAME_1, ...
 */
struct sdt_event {
	char *sys;	 /* "sdt_PROVIDER", as perf calls it; letters, digits and _ */
	char *name;	 /* the same for the marker */
	char *provider, *marker; /* as the file says */
	char *types;	 /* "arg1:s32 arg2:string", "" = none */
	char *left_out;	 /* "arg3: a symbol's address; arg4: ...", "" = none */
	const char *filter;	/* of struct sdt_want */
	struct sdt_place *place;
	size_t n, cap;
	bool guarded;	 /* one of them at least */
};

enum sdt_plan_flags {
	SDT_NO_CONSTANTS = 1 << 0, /* the kernel cannot show constants: leave such arguments out */
	SDT_ONE_PLACE = 1 << 1,	   /* an event has one place only */
};

struct sdt_plan {
	unsigned int flags;
	struct sdt_event *v;
	size_t n, cap;
	size_t unfit; /* places that were wanted but cannot be probed */
	const char *why_unfit;
};

/*
 * Adds the markers of f that any of the n wants means; arguments and filter of a later one take
 * precedence over those of an earlier one. file is the caller's number for the places. More than
 * max events in all: -E2BIG. The plan is to be freed in any case.
 */
int sdt_plan_add(struct sdt_plan *p, const struct sdt_file *f, size_t file,
		 const struct sdt_want *w, size_t n, size_t max) __must_check;
void sdt_plan_free(struct sdt_plan *p);

/*
 * "BINARY[:PROVIDER[:MARKER]][,argN:TYPE]...[/FILTER/]", for `record --sdt` and `qemu
 * sdt`.
 */

struct sdt_spec {
	char *path;	      /* of the file, as it was found */
	int fd;		      /* open for reading */
	uint64_t dev, ino;    /* if two have the same, they are the same file */
	struct sdt_want want; /* points into text */
	char *text;
};

/* Opens the file; a name without a slash is looked for here, then in PATH. 0 or -errno. */
int sdt_spec_parse(const char *arg, struct sdt_spec *s, struct kvmft_err *err) __must_check;
void sdt_spec_free(struct sdt_spec *s);
/*
 * After a plan was made for these wants: -ENOENT if one matches no marker, naming the existing
 * ones.
 */
int sdt_spec_check(const struct sdt_spec *s, const struct sdt_file *f,
		   struct kvmft_err *err) __must_check;

/*
 * What is known about the arguments of QEMU's markers: which are strings, which pointers. They are
 * declared in trace-events-all, beside the binary or where QEMU is installed.
 */
struct sdt_hints {
	struct qevents *events; /* NULL: no QEMU, or no such file */
	struct sdt_want *want;	/* n hints, followed by room for as many wants as were requested */
	size_t n;
	struct sbuf answer; /* of sdt_hints_ask(): what they point to */
};

/* 0, even if nothing is known; -ENOMEM. To be freed after the plan was made. */
int sdt_hints_find(const struct sdt_spec *s, const struct sdt_file *f, size_t room,
		   struct sdt_hints *h) __must_check;
/*
 * Both sdt_read() of s and this, by a confined process, for one with rights: f and h are zero, and
 * to be freed, also after a failure.
 */
int sdt_hints_ask(const struct sdt_spec *s, size_t room, struct sdt_file *f, struct sdt_hints *h,
		  struct kvmft_err *err) __must_check;
void sdt_hints_free(struct sdt_hints *h);
