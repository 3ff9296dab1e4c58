/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * monitor_internal.h: what the files of the monitor client share.
 *
 * monitor.c       the socket, what is said in QMP and HMP, trace events
 * monitor_find.c  where monitors are, whose process that is, and whether it is the one that answers
 */
#pragma once

#include "kvmft/qemu.h"

/* The user that a process runs as. */
struct mon_owner {
	uint32_t uid, gid;
	gid_t *group;
	size_t ngroup, group_cap;
	bool ours;   /* the same as we */
	bool acting; /* between begin and end; the rest is what we were before */
	uid_t own_uid;
	gid_t own_gid, *own_group;
	size_t own_groups;
};

/* Between them this process has that user's rights and no others. 0 or -errno. */
int mon_owner_begin(struct mon_owner *o) __must_check;
int mon_owner_end(struct mon_owner *o) __must_check;

/* Who has to answer. */
struct mon_peer {
	int procfd;
	const struct vm *vm;
	const char *path;	 /* of the socket, as it was bound */
	struct mon_owner *owner; /* with whose rights it is connected to */
};

/* Is that process listening at the other end of fd? Checked before a byte is sent. */
int mon_peer_check(int fd, const struct mon_peer *p, struct kvmft_err *err) __must_check;
/*
 * monitor_open() with a name for messages, because path may be indirect; peer: who has to answer,
 * NULL = anyone.
 */
int mon_open_as(enum mon_kind kind, const char *path, bool abstract, const char *name,
		const struct mon_peer *peer, uint64_t timeout_ns, struct monitor **m,
		struct kvmft_err *err) __must_check;
/* The same on a connected socket, which is taken over; for tests. */
int mon_attach(enum mon_kind kind, int fd, const char *name, uint64_t timeout_ns,
	       struct monitor **m, struct kvmft_err *err) __must_check;
/* Adds one event to a list; the name is copied. 0, -ENOMEM, -E2BIG. */
int mon_events_add(struct mon_events *list, const char *name, enum mon_state state,
		   bool vcpu) __must_check;
