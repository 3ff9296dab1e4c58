/* SPDX-License-Identifier: GPL-2.0-or-later */
/* agent.h: what a QEMU guest agent can do in its guest: run programs, read and write files. */
#ifndef KVMFT_SIDES_AGENT_H
#define KVMFT_SIDES_AGENT_H

#include "kvmft/json_read.h"
#include "sides.h"

#define AGENT_NONE UINT64_MAX /* no handle, no process */
/*
 * Bytes of a file for one request: in base64, with what surrounds it, still one word of a command
 * (128 KiB on Linux).
 */
#define AGENT_PIECE (64u << 10)

struct agent {
	const char *name;		    /* of the socket or command */
	const struct remote_words *command; /* NULL: fd */
	int fd;
	int hangup;    /* hangs up when nobody wants the answers any more; -1 = none */
	char in[65536]; /* what was received, from `at` to `have` */
	size_t at, have;
	struct sbuf answer;
	struct kvmft_err *err; /* where failures are reported */
	bool lacking;	       /* there is no such command here */
};

/* How a program of the guest ended. */
struct agent_end {
	bool exited;
	int status; /* as an exit status; ended by a signal counts as failed */
	struct jval answer; /* borrowed until the next request */
};

/* All of these: 0, or -errno with err set; -EREMOTEIO: the agent refused. */

int agent_open(struct agent *a, const struct side_spec *spec, int hangup,
	       struct kvmft_err *err) __must_check;
void agent_close(struct agent *a);

int agent_file_open(struct agent *a, const char *path, const char *mode,
		    uint64_t *handle) __must_check;
int agent_file_write(struct agent *a, uint64_t handle, const void *p, size_t n) __must_check;
int agent_file_flush(struct agent *a, uint64_t handle) __must_check;
/* max: bytes, AGENT_NONE is no handle. What was read is in *to, whose length is 0 at the end. */
int agent_file_read(struct agent *a, uint64_t handle, uint32_t max, struct sbuf *to) __must_check;
int agent_file_close(struct agent *a, uint64_t handle) __must_check;

/*
 * Starts words, found in the agent's PATH, with input (n bytes) as its standard input; *pid is its
 * process. Words and paths must need no escapes in JSON.
 */
int agent_exec(struct agent *a, const char *const *words, const void *input, size_t n,
	       uint64_t *pid) __must_check;
int agent_exec_status(struct agent *a, uint64_t pid, struct agent_end *end) __must_check;
/* Output of a program that has ended: member is out-data or err-data; empty if there is none. */
void agent_output(const struct agent_end *end, const char *member, struct sbuf *text);
/*
 * The same to its end: its exit status, with err set if that is not 0. Its output goes to out if
 * that is not NULL.
 */
int agent_run(struct agent *a, const char *const *words, struct sbuf *out) __must_check;

#endif
