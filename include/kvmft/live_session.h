/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * live_session.h: what the commands that watch events live have in common: formats and descriptors
 * of an instance, the signals that end them, and writing to a reader that may be slow.
 */
#ifndef KVMFT_LIVE_SESSION_H
#define KVMFT_LIVE_SESSION_H

#include "kvmft/exit_names.h"
#include "kvmft/kernel.h"
#include "kvmft/live.h"

/* Reports and removes what a killed kvmft left; failures are left to `kvmft reset`. */
void session_sweep(struct ktracefs *t, note_fn *note);
/* Formats of list, as if they came from a capture; *fmt is the caller's. */
int session_formats(struct ktracefs *t, const struct kevent_list *list, struct fmt **fmt,
		    struct kvmft_err *err) __must_check;
/* Size of a ring per CPU, in KB: 4 MB, less when memory is short. */
uint64_t session_buffer_kb(size_t ncpu);
/* Of this machine's KVM, for what does not name it; else that of the names. */
enum exit_isa session_isa(const struct exit_names *n);
/* Opens all CPUs of an instance: (*raw)[cpus->n], to be closed with session_raw_close(). */
int session_raw_open(struct kinst *k, const struct kcpus *cpus, int **raw,
		     struct kvmft_err *err) __must_check;
void session_raw_close(int *raw, size_t n);
/* A reader, in time order, of such descriptors. */
int session_live_open(struct kinst *k, const struct kcpus *cpus, const int *raw,
		      struct live **live, struct kvmft_err *err) __must_check;

/* Blocks the signals that end a session and makes them readable: descriptor or -errno. */
int session_signals(struct kvmft_err *err) __must_check;
/* Nothing is left to be undone: from here on they end the program as usual. *fd: -1 = none. */
void session_signals_end(int *fd);

enum session_write {
	SESSION_WRITTEN,
	SESSION_SIGNAL,	     /* a signal came while the reader did not read: the rest was not
			      * written */
	SESSION_READER_GONE, /* EPIPE */
};

/* Writes to standard output in such a way that signals are obeyed meanwhile. 0 or -errno. */
int session_write(int signal_fd, const char *text, size_t n, enum session_write *how,
		  struct kvmft_err *err) __must_check;

#endif
