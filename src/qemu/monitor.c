/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * monitor.c: the socket of a monitor. QEMU may be stopped, busy, gone or not QEMU at all: every
 * wait ends at a deadline, and no reply grows beyond MON_MAX_REPLY.
 */
#include "monitor_internal.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define READ_SIZE 65536

static const struct mon_ops *const ops_of[] = {
	[MON_QMP] = &mon_qmp_ops,
	[MON_HMP] = &mon_hmp_ops,
};

void mon_begin(struct monitor *m)
{
	uint64_t now = util_now_ns();

	m->deadline = m->timeout_ns < UINT64_MAX - now ? now + m->timeout_ns : UINT64_MAX;
	if (m->until)
		m->deadline = MIN(m->deadline, m->until);
}

static int late(struct monitor *m, struct kvmft_err *err)
{
	char time[32];

	if (m->until && m->deadline == m->until)
		return err_set(err, ETIMEDOUT, "%s: its answers take too long, one after the other",
			       m->name);
	return err_set(
		err, ETIMEDOUT,
		"%s: no complete answer within %s; is QEMU stopped or very busy? --timeout waits longer",
		m->name, str_ns(time, sizeof(time), m->timeout_ns));
}

static int hung_up(struct monitor *m, struct kvmft_err *err)
{
	return err_set(err, ECONNRESET, "%s: QEMU has closed the connection, or has ended",
		       m->name);
}

/* Waits until fd is ready for events, or the deadline. 0, -ETIMEDOUT or -errno. */
static int wait_for(struct monitor *m, short events)
{
	struct pollfd p = { .fd = m->fd, .events = events };

	for (;;) {
		uint64_t now = util_now_ns();
		uint64_t left = m->deadline > now ? m->deadline - now : 0;
		int ms = (int)MIN((left + 999999) / 1000000, (uint64_t)60000);
		int ret = poll(&p, 1, ms);

		if (ret > 0)
			return 0;
		if (ret < 0 && errno != EINTR)
			return -errno;
		if (!left)
			return -ETIMEDOUT;
	}
}

static int wait_told(struct monitor *m, short events, struct kvmft_err *err)
{
	int ret = wait_for(m, events);

	if (ret == -ETIMEDOUT)
		return late(m, err);
	return err_why(err, ret, "%s: poll", m->name);
}

int mon_send(struct monitor *m, const char *text, size_t n, struct kvmft_err *err)
{
	size_t at = 0;

	while (at < n) {
		ssize_t got = send(m->fd, text + at, n - at, MSG_NOSIGNAL | MSG_DONTWAIT);
		int ret;

		if (got >= 0) {
			at += (size_t)got;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EPIPE || errno == ECONNRESET)
			return hung_up(m, err);
		if (errno != EAGAIN)
			return err_why(err, errno, "%s: cannot write", m->name);
		ret = wait_told(m, POLLOUT, err);
		if (ret)
			return ret;
	}
	return 0;
}

/* What has arrived, without waiting: bytes, 0 at the end, or -errno (-EAGAIN: nothing). */
static ssize_t take(struct monitor *m)
{
	ssize_t got;

	if (!sbuf_room(&m->in, READ_SIZE))
		return -ENOMEM;
	do {
		got = recv(m->fd, m->in.s + m->in.len, READ_SIZE, MSG_DONTWAIT);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == ECONNRESET || errno == EPIPE ? 0 : -errno;
	m->in.len += (size_t)got;
	m->in.s[m->in.len] = '\0';
	return got;
}

int mon_receive(struct monitor *m, struct kvmft_err *err)
{
	if (m->in.len >= MON_MAX_REPLY)
		return err_set(err, EOVERFLOW, "%s: it never stops sending; is that a QEMU monitor?",
			       m->name);
	for (;;) {
		int ret = wait_told(m, POLLIN, err);
		ssize_t got;

		if (ret)
			return ret;
		got = take(m);
		if (got > 0)
			return util_now_ns() > m->deadline ? late(m, err) : 0;
		if (got == 0)
			return hung_up(m, err);
		if (got != -EAGAIN)
			return err_why(err, (int)got, "%s: cannot read", m->name);
	}
}

void mon_consume(struct monitor *m, size_t n)
{
	n = MIN(n, m->in.len);
	memmove(m->in.s, m->in.s + n, m->in.len - n);
	m->in.len -= n;
	m->in.s[m->in.len] = '\0';
}

/* The beginning of a foreign text, on one line. */
static void shown(char *buf, size_t size, const char *text, size_t n)
{
	n = MIN(n, size - 1);
	memcpy(buf, text, n);
	buf[n] = '\0';
	n = strcspn(buf, "\r\n");
	buf[n] = '\0';
	str_printable(buf);
}

int mon_garbage(struct monitor *m, const char *why, const char *text, size_t n,
		struct kvmft_err *err)
{
	char buf[64];

	shown(buf, sizeof(buf), text, n);
	return err_set(err, EPROTO, "%s: %s: '%s'", m->name, why, buf);
}

int mon_refused(struct monitor *m, const char *command, const char *text, struct kvmft_err *err)
{
	char buf[256];

	shown(buf, sizeof(buf), text, strlen(text));
	return err_set(err, EREMOTEIO, "%s: QEMU refused %s: %s", m->name, command, buf);
}

int monitor_idle(struct monitor *m)
{
	ssize_t most = 1 << 20; /* from one that sends without end; the rest is seen next time */
	ssize_t got;

	do {
		got = take(m);
		m->ops->idle(m);
	} while (got > 0 && (most -= got) > 0 && m->in.len < MON_MAX_REPLY);
	if (m->in.len >= MON_MAX_REPLY)
		return -EOVERFLOW;
	if (got > 0 || got == -EAGAIN)
		return 0;
	return got == 0 ? -ECONNRESET : (int)got;
}

void monitor_patience(struct monitor *m, uint64_t timeout_ns)
{
	m->timeout_ns = timeout_ns;
}

void monitor_within(struct monitor *m, uint64_t ns)
{
	m->until = util_now_ns() + ns;
}

/* ---- opening ---- */

static int connect_failed(struct monitor *m, int errnum, struct kvmft_err *err)
{
	switch (errnum) {
	case EACCES:
	case EPERM:
		return err_lack(err, errnum, "%s: permission denied: run as root or as QEMU's user",
				m->name);
	case ECONNREFUSED:
		return err_set(err, errnum, "%s: nothing listens there; has this QEMU ended?",
			       m->name);
	case EAGAIN:
		return err_set(err, EBUSY,
			       "%s: busy: others wait for it already, and it serves one "
			       "client at a time; close the other client (libvirt holds its own)",
			       m->name);
	case EPROTOTYPE: return err_set(err, errnum, "%s: it is not a stream socket", m->name);
	case ENOENT: return err_set(err, errnum, "%s: there is no such socket", m->name);
	default: return err_why(err, errnum, "%s: cannot connect", m->name);
	}
}

/* 0 or the errno. */
static int connect_to(int fd, const struct sockaddr_un *a, size_t n, const struct mon_peer *peer)
{
	int ret = peer ? -mon_owner_begin(peer->owner) : 0, back;

	if (!ret && connect(fd, (const struct sockaddr *)a, (socklen_t)n) < 0)
		ret = errno;
	back = peer ? -mon_owner_end(peer->owner) : 0;
	return back ?: ret;
}

static int connect_unix(struct monitor *m, const char *path, bool abstract,
			const struct mon_peer *peer, struct kvmft_err *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(path);
	int ret;

	if (n + 1 > sizeof(a.sun_path))
		return err_set(
			err, ENAMETOOLONG,
			"%s: a socket's path has at most %zu bytes: cd to its directory and name it "
			"from there",
			m->name, sizeof(a.sun_path) - 1);
	memcpy(a.sun_path + abstract, path, n);
	m->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (m->fd < 0)
		return err_why(err, errno, "cannot make a socket");
	n += offsetof(struct sockaddr_un, sun_path) + 1;
	ret = connect_to(m->fd, &a, n, peer);
	if (ret)
		return connect_failed(m, ret, err);
	return peer ? mon_peer_check(m->fd, peer, err) : 0;
}

/* No greeting in time: an idle QEMU greets at once, so it is serving somebody else. */
static int no_greeting(struct monitor *m, struct kvmft_err *err)
{
	char time[32];

	return err_set(
		err, ETIMEDOUT,
		"%s: busy: no greeting within %s, so another client (libvirt?) holds it, and it serves "
		"one at a time; close that one, or give QEMU one more monitor",
		m->name, str_ns(time, sizeof(time), m->timeout_ns));
}

static struct monitor *monitor_new(enum mon_kind kind, const char *name, uint64_t timeout_ns)
{
	struct monitor *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->fd = -1;
	m->kind = kind;
	m->ops = ops_of[kind];
	m->timeout_ns = timeout_ns;
	m->name = strdup(name);
	if (!m->name) {
		free(m);
		return NULL;
	}
	str_printable(m->name);
	mon_begin(m);
	return m;
}

static int greet(struct monitor *m, struct kvmft_err *err)
{
	int ret = m->ops->hello(m, err);

	return ret == -ETIMEDOUT && !m->in.len ? no_greeting(m, err) : ret;
}

int mon_attach(enum mon_kind kind, int fd, const char *name, uint64_t timeout_ns,
	       struct monitor **m, struct kvmft_err *err)
{
	int ret;

	*m = monitor_new(kind, name, timeout_ns);
	if (!*m) {
		close(fd);
		return err_set(err, ENOMEM, "out of memory");
	}
	(*m)->fd = fd;
	ret = greet(*m, err);
	if (ret) {
		monitor_close(*m);
		*m = NULL;
	}
	return ret;
}

int mon_open_as(enum mon_kind kind, const char *path, bool abstract, const char *name,
		const struct mon_peer *peer, uint64_t timeout_ns, struct monitor **m,
		struct kvmft_err *err)
{
	int ret;

	*m = monitor_new(kind, name, timeout_ns);
	if (!*m)
		return err_set(err, ENOMEM, "out of memory");
	ret = connect_unix(*m, path, abstract, peer, err);
	ret = ret ?: greet(*m, err);
	if (ret) {
		monitor_close(*m);
		*m = NULL;
	}
	return ret;
}

int monitor_open(enum mon_kind kind, const char *path, bool abstract, uint64_t timeout_ns,
		 struct monitor **m, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf name = { 0 };

	*m = NULL;
	sbuf_addf(&name, "%s %s%s", ops_of[kind]->name, abstract ? "@" : "", path);
	if (!name.s)
		return err_set(err, ENOMEM, "out of memory");
	return mon_open_as(kind, path, abstract, name.s, NULL, timeout_ns, m, err);
}

void monitor_close(struct monitor *m)
{
	if (!m)
		return;
	util_close_fd(&m->fd);
	sbuf_free(&m->in);
	free(m->name);
	free(m);
}

enum mon_kind monitor_kind(const struct monitor *m)
{
	return m->kind;
}

const char *monitor_name(const struct monitor *m)
{
	return m->name;
}

int monitor_fd(const struct monitor *m)
{
	return m->fd;
}

uint32_t monitor_pid(const struct monitor *m)
{
	struct ucred c = { 0 };
	socklen_t n = sizeof(c);

	if (getsockopt(m->fd, SOL_SOCKET, SO_PEERCRED, &c, &n) < 0 || c.pid < 0)
		return 0;
	return (uint32_t)c.pid;
}

int monitor_version(struct monitor *m, struct sbuf *out, struct kvmft_err *err)
{
	return m->ops->version(m, out, err);
}

int monitor_human(struct monitor *m, const char *line, struct sbuf *out, struct kvmft_err *err)
{
	if (strpbrk(line, "\r\n"))
		return err_usage(err, "a command for a monitor is one line");
	return m->ops->human(m, line, out, err);
}
