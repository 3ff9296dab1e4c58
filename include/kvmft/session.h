/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * session.h: a directory of captures that belong together, as `kvmft record --guest` makes it, or
 * as somebody has assembled it; or a tar archive of one.
 */
#pragma once

#include "kvmft/util.h"

#define SESSION_FILE	 "session"
#define SESSION_VERSION	 1
#define SESSION_MAX	 (1u << 20) /* bytes of the file */
#define SESSION_CAPTURES 256

struct session_capture {
	char *path;
	char *operand; /* "PATH=SEL" if the session knows the VM, else "PATH" */
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
