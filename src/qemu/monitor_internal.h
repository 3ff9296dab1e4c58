/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * monitor_internal.h: what the files of the monitor client share.
 *
 * monitor.c        the socket: connecting, waiting with a deadline, bounded replies
 * monitor_qmp.c    what is said in QMP, monitor_hmp.c in HMP: a struct mon_ops each
 * monitor_events.c trace events on top of either; patterns
 * monitor_find.c   where monitors are, by QEMU's command line, too
 * monitor_trust.c  whose process it is, and whether it is the one that answers
 * monitor_binary.c which program a QEMU is
 */
#ifndef KVMFT_QEMU_MONITOR_INTERNAL_H
#define KVMFT_QEMU_MONITOR_INTERNAL_H

#include "kvmft/monitor.h"

struct mon_ops {
	const char *name; /* "QMP" */
	/* Reads the greeting and makes it ready for commands. */
	int (*hello)(struct monitor *m, struct kvmft_err *err);
	/* Discards from m->in what was not requested; an incomplete message stays. */
	void (*idle)(struct monitor *m);
	int (*version)(struct monitor *m, struct sbuf *out, struct kvmft_err *err);
	int (*events)(struct monitor *m, struct mon_events *list, struct kvmft_err *err);
	int (*set)(struct monitor *m, const char *pattern, bool on, struct kvmft_err *err);
	int (*human)(struct monitor *m, const char *line, struct sbuf *out, struct kvmft_err *err);
};

extern const struct mon_ops mon_qmp_ops, mon_hmp_ops;

struct monitor {
	const struct mon_ops *ops;
	enum mon_kind kind;
	int fd;
	char *name;
	uint64_t timeout_ns;
	uint64_t deadline; /* of the reply being waited for; CLOCK_MONOTONIC */
	uint64_t until;	   /* and of all of them, 0: none */
	struct sbuf in;	   /* what has arrived and is not yet used */
	uint64_t id;	   /* of the last QMP command */
};

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

/*
 * Refused (err says why): somebody else's process that holds no VM of KVM, or runs as several
 * users.
 */
int mon_owner_read(int procfd, const struct vm *vm, struct mon_owner *o, struct kvmft_err *err)
	__must_check;
void mon_owner_free(struct mon_owner *o);
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
/* Where the socket that QEMU has as descriptor fd was bound; NULL if unknown. */
char *mon_path_of_fd(int procfd, const struct vm *vm, int fd);

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

/* Begins to wait: the deadline of what comes next. */
void mon_begin(struct monitor *m);
/* All of text by the deadline. */
int mon_send(struct monitor *m, const char *text, size_t n, struct kvmft_err *err) __must_check;
/* Adds what arrives to m->in, at least a byte; 0 or -errno: late, hung up, or more than fits. */
int mon_receive(struct monitor *m, struct kvmft_err *err) __must_check;
/* Forgets the first n bytes of m->in. */
void mon_consume(struct monitor *m, size_t n);
/* Sets err to "NAME said what cannot be understood: TEXT (why)": -EPROTO. */
int mon_garbage(struct monitor *m, const char *why, const char *text, size_t n,
		struct kvmft_err *err);
/* Sets err to what QEMU answered to a command: -EREMOTEIO. text need not be printable. */
int mon_refused(struct monitor *m, const char *command, const char *text, struct kvmft_err *err);
/* Adds one event to a list; the name is copied. 0, -ENOMEM, -E2BIG. */
int mon_events_add(struct mon_events *list, const char *name, enum mon_state state,
		   bool vcpu) __must_check;

#endif
