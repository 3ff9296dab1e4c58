/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sandbox.h: giving up what is not needed any more, for good.
 *
 * Recorders run as root and readers get files from anybody. Once the work is clear, each shuts the
 * doors that it will not go through: capabilities, system calls, places to write to. What a kernel
 * does not have (Landlock before 5.13, seccomp left out of the build) is left out; nothing that
 * is asked for here is needed for a right result.
 */
#ifndef KVMFT_SANDBOX_H
#define KVMFT_SANDBOX_H

#include "kvmft/util.h"

/* What may be done below a directory when files is set. */
enum sandbox_rights {
	SANDBOX_WRITE = 1 << 0,	 /* write to files that are there */
	SANDBOX_CREATE = 1 << 1, /* make and remove files and directories */
};

struct sandbox_dir {
	int fd;		     /* borrowed; a directory or a file */
	unsigned int rights; /* enum sandbox_rights */
};

struct sandbox {
	uint64_t caps; /* capabilities to keep of those we have: SANDBOX_CAP(CAP_X) */
	/*
	 * Confine by Landlock: nothing is written, made or removed but below dir, nothing is executed
	 * and no TCP connection made. Reading stays as it is, except that /proc/PID/fd and the like
	 * of other processes are closed to a confined process, whatever its capabilities.
	 */
	bool files;
	const struct sandbox_dir *dir;
	size_t ndir;
};

#define SANDBOX_CAP(c) ((uint64_t)1 << (c))

enum sandbox_layer {
	SANDBOX_CAPS = 1 << 0,	   /* no capabilities but those, none to be had again */
	SANDBOX_LANDLOCK = 1 << 1,
	SANDBOX_SECCOMP = 1 << 2,  /* no exec, sockets, ptrace, mounts, modules, ... */
};

/*
 * For the calling thread and all it starts from now on; there is no way back. Processes forked
 * before are not touched. Returns the layers that are in force (enum sandbox_layer); a failure is
 * a layer that is missing.
 */
unsigned int sandbox_enter(const struct sandbox *s);

#endif
