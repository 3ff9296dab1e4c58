/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sandbox.h: giving up for good what is not needed any more.
 *
 * Recorders run as root, and readers get files from anyone. Once the work is clear, each gives up
 * what it does not need for that: capabilities, system calls, places to write to. What a kernel
 * lacks (Landlock before 5.13, seccomp if built without) is left out and can be reported; a layer
 * that it has but that cannot be applied is an error.
 */
#pragma once

#include "kvmft/util.h"

/* What may be done below a directory if files is set. */
enum sandbox_rights {
	SANDBOX_WRITE = 1 << 0,	 /* write to files that are there */
	SANDBOX_CREATE = 1 << 1, /* make and remove files and directories */
	SANDBOX_REMOVE = 1 << 2, /* remove files and directories */
	SANDBOX_READ = 1 << 3,	 /* with sandbox.reads */
};

struct sandbox_dir {
	int fd;		     /* borrowed; a directory or a file */
	unsigned int rights; /* enum sandbox_rights */
};

/*
 * Which system calls remain: those that the work of this process needs (src/util/sandbox_calls.c).
 */
enum sandbox_calls {
	SANDBOX_CALLS_READER,	/* reading files and printing; nothing can be opened for writing */
	SANDBOX_CALLS_RECORDER, /* also creating files and threads, and moving data to them */
	SANDBOX_CALLS_STORE,	/* also creating files, and moving data to them */
	SANDBOX_CALLS_WATCHER,	/* reading, renaming, removing */
	SANDBOX_CALLS_LOOKER,	/* reading */
	SANDBOX_CALLS_MONITOR,	/* using open sockets, removing files */
};

struct sandbox {
	enum sandbox_calls calls;
	pid_t child; /* may be sent signals; 0 = no process */
	uint64_t caps; /* capabilities to keep of those we have: SANDBOX_CAP(CAP_X) */
	/*
	 * Programs that it executes cannot get any again. Without this, no_new_privs ensures the
	 * same; this is for those who have time for a call for each of the 41.
	 */
	bool bounding;
	/*
	 * Confine by Landlock: nothing can be written, created or removed except below dir, nothing
	 * executed and no TCP connection made. Reading stays as it is, except that /proc/PID/fd and
	 * the like of other processes are closed to a confined process, whatever its capabilities.
	 */
	bool files;
	bool reads; /* also: nothing can be opened for reading that lacks SANDBOX_READ */
	bool operands; /* with reads: what the command line names may be read */
	const struct sandbox_dir *dir;
	size_t ndir;
};

#define SANDBOX_CAP(c) ((uint64_t)1 << (c))

enum sandbox_layer {
	SANDBOX_CAPS = 1 << 0, /* no capabilities but these, and no way to get others */
	SANDBOX_LANDLOCK = 1 << 1,
	SANDBOX_SECCOMP = 1 << 2,
};

/*
 * For the calling thread and everything it starts from now on; there is no way back. Processes
 * forked before are not affected. *layers: what is in force then (enum sandbox_layer). 0, or -errno
 * with err set.
 */
int sandbox_enter(const struct sandbox *s, unsigned int *layers,
		  struct kvmft_err *err) __must_check;
/*
 * What a command that reads files and prints keeps: it reads what its command line names, of any
 * owner, and what the system installs for all.
 */
int sandbox_enter_reader(unsigned int *layers, struct kvmft_err *err) __must_check;
/*
 * For a process that keeps its rights: fn runs in one that is confined as a reader and has no files
 * but `file` (-1: none) and standard error. What it appends is added to *out, up to max bytes; who
 * took that process over could have made it up. What fn returns, or -errno with err set.
 */
typedef int sandbox_fn(void *ctx, struct sbuf *out, struct kvmft_err *err);
int sandbox_ask(sandbox_fn *fn, void *ctx, int file, size_t max, struct sbuf *out,
		struct kvmft_err *err) __must_check;
/* The layers that this kernel has. */
unsigned int sandbox_have(void);
/* Does kvmft know the system calls of this processor? */
bool sandbox_has_calls(void);
/* The kernel's version of Landlock, 0 = none; -errno: something forbids to use it. */
long sandbox_landlock_abi(void);
