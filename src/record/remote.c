/* SPDX-License-Identifier: GPL-2.0-or-later */
/* remote.c: the messages of a recorder that is started by another machine. */
#include "kvmft/record.h"

#include <poll.h>

#define HELLO "kvmft-remote version="

int remote_words_add(struct remote_words *w, const char *word)
{
	char *copy = strdup(word), *end = NULL;

	if (!copy || array_add(&w->v, &w->n, &w->cap, &copy, sizeof(copy))) {
		free(copy);
		return -ENOMEM;
	}
	/* Room for the NULL, which is not counted. */
	if (array_add(&w->v, &w->n, &w->cap, &end, sizeof(end)))
		return -ENOMEM;
	w->n--;
	return 0;
}

void remote_words_free(struct remote_words *w)
{
	strings_free(w->v, w->n);
	free(w->spool);
	*w = (struct remote_words){ 0 };
}

void remote_put(struct sbuf *text, const struct remote_words *w)
{
	sbuf_addf(text, HELLO "%d\n", REMOTE_VERSION);
	for (size_t i = 0; i < w->n; i++) {
		sbuf_add(text, "arg ");
		sbuf_add_escaped(text, w->v[i]);
		sbuf_addc(text, '\n');
	}
	if (w->spool)
		sbuf_addf(text, "spool %s\n", w->spool);
	sbuf_addf(text, "%srun\n", w->drop ? "drop\n" : "");
}

/* A line, without its newline; what follows is for others, so it is read byte by byte. */
static int read_line(int fd, struct sbuf *line, size_t *left)
{
	char c = 0;

	sbuf_reset(line);
	while (!line->error && (*left)--) {
		ssize_t n = read(fd, &c, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		if (c == '\n')
			return 0;
		sbuf_addc(line, c);
	}
	return line->error ?: -E2BIG;
}

/* 1: it was the last. */
static int word_line(char *line, struct remote_words *w, struct kvmft_err *err)
{
	if (!strcmp(line, "run"))
		return 1;
	if (!strcmp(line, "drop")) {
		w->drop = true;
		return 0;
	}
	if (!strncmp(line, "spool ", 6) && !w->spool) {
		w->spool = strdup(line + 6);
		return w->spool ? 0 : err_set(err, ENOMEM, "out of memory");
	}
	if (strncmp(line, "arg ", 4) || w->n == REMOTE_MAX_ARGS)
		return err_set(err, EPROTO, "what to record was not understood: '%s'", line);
	str_unescape(line + 4);
	return remote_words_add(w, line + 4) ? err_set(err, ENOMEM, "out of memory") : 0;
}

int remote_get(int fd, struct remote_words *w, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf line = { 0 };
	size_t left = REMOTE_MAX;
	bool first = true;
	int ret = 0;

	while (!ret) {
		ret = read_line(fd, &line, &left);
		uint64_t version;

		if (ret)
			return err_why(err, ret, "cannot read what to record");
		sbuf_add(&line, ""); /* an empty line is a text, too */
		if (!line.s)
			ret = -ENOMEM;
		else if (!first)
			ret = word_line(line.s, w, err);
		else if (strncmp(line.s, HELLO, strlen(HELLO)) ||
			 parse_u64(line.s + strlen(HELLO), &version))
			ret = err_set(err, EPROTO, "standard input does not come from kvmft record "
				      "--guest, which starts --remote");
		else if (version > REMOTE_VERSION)
			ret = err_lack(err, EPROTONOSUPPORT,
				       "the kvmft that records host and guest speaks version %llu, "
				       "this one %d: use the same here, or its --push",
				       (unsigned long long)version, REMOTE_VERSION);
		first = false;
	}
	return MIN(ret, 0);
}

/*
 * Orders and stream through files, for peers that have nothing else.
 *
 * A guest agent can start a program and read and write files, in small pieces, but keeps no pipe to
 * it. So a process is in between: it passes on what is appended to one file, and keeps the stream
 * in another one, usually in memory (/dev/shm), at most a window of it: what was read is punched
 * out, and while the window is full the recorder waits, as for any slow reader.
 */

#define LOOK_MS 50

struct spool {
	const char *name;
	int dir, orders, stream;
	int to, from;	 /* of the recorder: its orders, its stream */
	uint64_t taken;	 /* bytes of the file of orders */
	uint64_t written, read; /* of the stream */
	uint64_t heard_ns;
	char line[64];
	size_t len;
};

static void spool_obey(struct spool *s)
{
	uint64_t n;

	s->line[s->len] = '\0';
	if (!strncmp(s->line, "read ", 5)) {
		if (!parse_u64(s->line + 5, &n) && n > s->read && n <= s->written)
			s->read = n;
		(void)!fallocate(s->stream, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				 (off_t)s->read);
	} else if (s->to >= 0) {
		s->line[s->len] = '\n';
		if (full_write(s->to, s->line, s->len + 1, NULL))
			util_close_fd(&s->to);
	}
	s->len = 0;
}

static void spool_main(struct spool *s)
{
	static const int sigs[] = { SIGINT, SIGQUIT, SIGHUP, SIGPIPE };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sigs); i++)
		(void)signal(sigs[i], SIG_IGN);
	/* Whoever started this waits for the ends of its output. */
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		(void)!dup2(null, fd);
	(void)setsid();
	s->heard_ns = util_now_ns();
	while (!ret && (s->from >= 0 || s->read < s->written) &&
	       util_now_ns() - s->heard_ns <= SPOOL_PATIENCE_NS) {
		bool room = s->written - s->read < SPOOL_WINDOW;
		struct pollfd p = { .fd = room ? s->from : -1, .events = POLLIN };
		char data[65536], buf[256];
		ssize_t n;

		if (poll(&p, 1, LOOK_MS) > 0) {
			n = read(s->from, data,
				 MIN(sizeof(data), SPOOL_WINDOW - (s->written - s->read)));
			if (n < 0)
				ret = errno == EINTR || errno == EAGAIN ? 0 : -errno;
			else if (!n)
				util_close_fd(&s->from);
			else if (pwrite(s->stream, data, (size_t)n, (off_t)s->written) == n)
				s->written += (uint64_t)n;
			else
				ret = -EIO; /* the recorder will notice that its reader is gone */
		}
		while ((n = pread(s->orders, buf, sizeof(buf), (off_t)s->taken)) > 0) {
			s->heard_ns = util_now_ns();
			s->taken += (uint64_t)n;
			for (ssize_t i = 0; i < n; i++) {
				if (buf[i] == '\n')
					spool_obey(s);
				else if (s->len < sizeof(s->line) - 1)
					s->line[s->len++] = buf[i];
			}
		}
	}
	(void)!unlinkat(s->dir, SPOOL_ORDERS, 0);
	(void)!unlinkat(s->dir, SPOOL_STREAM, 0);
	(void)!rmdir(s->name);
	_exit(0);
}

/* The recorder ends after an error, and what is open with it. */
int remote_spool(const char *dir, struct kvmft_err *err)
{
	struct spool s = { .name = dir, .dir = -1, .orders = -1, .stream = -1 };
	int end[2], orders, ret = 0;
	pid_t pid;

	if (mkdir(s.name, 0700))
		return err_why(err, errno, "cannot make %s", s.name);
	s.dir = open(s.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	orders = s.dir < 0 ? -1 : file_create(s.dir, SPOOL_ORDERS);
	if (orders >= 0) { /* it is created for writing; here it is read */
		close(orders);
		s.orders = openat(s.dir, SPOOL_ORDERS, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		s.stream = file_create(s.dir, SPOOL_STREAM);
	}
	if (s.orders < 0 || s.stream < 0)
		return err_set(err, EIO, "cannot make files in %s", dir);
	pid = fork_piped(end);
	if (!pid) {
		s.to = end[0];
		s.from = end[1];
		spool_main(&s);
	}
	close(s.dir);
	close(s.orders);
	close(s.stream);
	if (pid < 0 || dup2(end[1], STDIN_FILENO) < 0 || dup2(end[0], STDOUT_FILENO) < 0)
		ret = err_why(err, pid < 0 ? pid : errno, "cannot begin");
	util_close_fd(&end[0]);
	util_close_fd(&end[1]);
	return ret;
}
