/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sandbox.h: giving up what is not needed any more, for good.
 *
 * Recorders run as root and readers get files from anybody. Once the work is clear, each shuts the
 * doors that it will not go through: capabilities, system calls, places to write to. What a kernel
 * does not have (Landlock before 5.13, seccomp left out of the build) is left out, and can be told;
 * that a layer which it has does not go in is an error.
 */
#ifndef KVMFT_SANDBOX_H
#define KVMFT_SANDBOX_H

#include "kvmft/util.h"

/* What may be done below a directory when files is set. */
enum sandbox_rights {
	SANDBOX_WRITE = 1 << 0,	 /* write to files that are there */
	SANDBOX_CREATE = 1 << 1, /* make and remove files and directories */
	SANDBOX_REMOVE = 1 << 2, /* remove directories */
	SANDBOX_READ = 1 << 3,	 /* with sandbox.reads */
};

struct sandbox_dir {
	int fd;		     /* borrowed; a directory or a file */
	unsigned int rights; /* enum sandbox_rights */
};

/*
 * Which system calls are left: those that the work of this process takes
 * (src/util/sandbox_calls.c).
 */
enum sandbox_calls {
	SANDBOX_CALLS_READER,	/* reading files and printing; nothing is opened to be written to */
	SANDBOX_CALLS_RECORDER, /* also making files and threads, and moving data to them */
	SANDBOX_CALLS_STORE,	/* also making files, and moving data to them */
	SANDBOX_CALLS_WATCHER,	/* reading, renaming, removing */
	SANDBOX_CALLS_LOOKER,	/* reading */
	SANDBOX_CALLS_MONITOR,	/* speaking by sockets that are open, making and removing files */
};

struct sandbox {
	enum sandbox_calls calls;
	pid_t child; /* may be sent signals; 0 = nobody */
	uint64_t caps; /* capabilities to keep of those we have: SANDBOX_CAP(CAP_X) */
	/*
	 * No program that is executed gets any again. That holds without it, by no_new_privs: it is
	 * for those who have time, a call for each of the 41.
	 */
	bool bounding;
	/*
	 * Confine by Landlock: nothing is written, made or removed but below dir, nothing is
	 * executed and no TCP connection made. Reading stays as it is, except that /proc/PID/fd and
	 * the like of other processes are closed to a confined process, whatever its capabilities.
	 */
	bool files;
	bool reads; /* also: nothing is opened for reading that has no SANDBOX_READ */
	const struct sandbox_dir *dir;
	size_t ndir;
};

#define SANDBOX_CAP(c) ((uint64_t)1 << (c))

enum sandbox_layer {
	SANDBOX_CAPS = 1 << 0, /* no capabilities but those, none to be had again */
	SANDBOX_LANDLOCK = 1 << 1,
	SANDBOX_SECCOMP = 1 << 2,
};

/*
 * For the calling thread and all it starts from now on; there is no way back. Processes forked
 * before are not touched. *layers: what is in force then (enum sandbox_layer). 0, or -errno with
 * err set.
 */
int sandbox_enter(const struct sandbox *s, unsigned int *layers,
		  struct kvmft_err *err) __must_check;
/* What a command that reads files and prints keeps: root may read all of them. */
int sandbox_enter_reader(unsigned int *layers, struct kvmft_err *err) __must_check;
/* The layers that this kernel has. */
unsigned int sandbox_have(void);
/* Does kvmft know the system calls of this processor? */
bool sandbox_has_calls(void);
/* The kernel's version of Landlock, 0 = none. */
long sandbox_landlock_abi(void);

#endif
