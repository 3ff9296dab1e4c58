/* SPDX-License-Identifier: GPL-2.0-or-later */
/* priv.h: what only the files of the kernel room share. */
#pragma once

#include "kvmft/kernel.h"

struct tracefs_instance;

#define KFILE_MAX (16u << 20) /* no tracefs text that kvmft reads whole is nearly as long */

struct ktracefs {
	char *path;
	int dirfd;
	bool mounted;
};

/* ---- knobs ---- */

struct kjournal_entry {
	int dirfd; /* borrowed */
	char *file, *undo;
};

struct kjournal {
	struct kjournal_entry *v;
	size_t n, cap;
};

/* ---- instances ---- */

struct kinst {
	struct ktracefs *t;	     /* borrowed */
	struct tracefs_instance *tr;
	char *name;
	int dirfd;
	int on_fd;   /* tracing_on, held open: it also pins the instance against rmdir */
	int free_fd; /* free_buffer, the dead-man switch; -1 = not requested */
	char clock[32];
	uint32_t subbuf_size;
	uint64_t buffer_kb;
	struct kevent_list ev;
	bool events_on; /* they may be enabled: were switched on, and not all switched off since */
	struct kjournal triggers; /* to be removed, newest first */
};

/* ---- writing ---- */

/*
 * The only function of the room that writes to kernel files. undo, which takes the write back, is
 * noted in j before anything is written. j and undo are NULL for files of an instance of our own,
 * whose knobs vanish with it.
 */
int knob_write(struct kjournal *j, int dirfd, const char *file, const char *text,
	       const char *undo) __must_check;
/* Undoes the newest entry whose undo text is the given one; NULL = simply the newest. */
int kjournal_undo(struct kjournal *j, const char *undo) __must_check;
/* Undoes everything in reverse order, forgets it, returns the first failure. */
int kjournal_close(struct kjournal *j);

/* ---- small helpers ---- */

/* Adds lines below the one in err; control bytes other than newline are replaced. */
void kerr_add_lines(struct kvmft_err *err, const char *lines);
/* The active lockdown mode ("integrity", "confidentiality"), or NULL: none. buf holds it. */
const char *kernel_lockdown(char *buf, size_t size);
/* A name that is safe as one path component below events/. */
bool kname_ok(const char *name);
/* events/SYS/NAME/FILE into buf; -EINVAL: invalid names. */
int kevent_path(const char *sys, const char *name, const char *file, char *buf,
		size_t size) __must_check;
bool kfile_exists(int dirfd, const char *file);
/* What an instance takes beside its rings, 0 with eventfs; *kb: what there is, by /proc/meminfo. */
uint64_t kinst_files_kb(const struct ktracefs *t);
bool kinst_files_fit(uint64_t need_kb, const char *meminfo, uint64_t *kb);
/* "PID COMM" of processes with a file of the instance open, comma-separated; at most a few. */
void kinst_holders(const char *name, struct sbuf *b);
/* Removes all triggers of the events of an instance that kvmft sets triggers on. */
void kinst_triggers_sweep(int instfd);
/* rmdir of an instance by handle, retried while busy for at most wait_ms. 0 or -errno. */
int kinst_rmdir(struct tracefs_instance *tr, unsigned int wait_ms) __must_check;
