/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * session.h: a directory of captures that belong together, as `kvmft record --guest` makes it, or
 * as somebody has put them there.
 */
#ifndef KVMFT_SESSION_H
#define KVMFT_SESSION_H

#include "kvmft/util.h"

#define SESSION_FILE	 "session"
#define SESSION_VERSION	 1
#define SESSION_MAX	 (1u << 20) /* bytes of the file */
#define SESSION_CAPTURES 256

struct session_capture {
	char *path;
	char *operand; /* "PATH=SEL" where the session knows the VM, else "PATH" */
	char *sel;     /* the VM, as the host's capture calls it; NULL = not known */
};

struct session {
	struct session_capture *v; /* the host, then its guests */
	size_t n, cap;
	struct sbuf missing; /* names of guests that it had, with commas */
};

/*
 * What a directory of captures holds: by its file `session`, which anybody may have written, or
 * without one by what each of the captures says of itself. 0 with n = 0: path is no such directory,
 * but maybe a capture. -errno with err set: it is one, and has no host, or several.
 */
int session_read(const char *path, struct session *s, struct kvmft_err *err) __must_check;
void session_free(struct session *s);
/* Whether a capture's directory says that it is of a guest. */
bool session_is_guest(const char *path);

#endif
