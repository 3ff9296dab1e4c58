/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * agent.c: guests that are reached through their QEMU guest agent, if there is no network: requests
 * to it, and the process that to the others is a command like ssh; and a recorder for guests that
 * have none.
 */
#include "sides.h"

#include <elf.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

/*
 * Requests to a QEMU guest agent, through QEMU's socket for it, or by a command that takes
 * a request as its last word and prints the answer: virsh qemu-agent-command DOMAIN. Its answers
 * come from the guest, and are trusted only as far as they can be checked.
 */

#define AGENT_NONE UINT64_MAX /* no handle, no process */
/* Bytes of a file for one request: in base64 still one word of a command (128 KiB). */
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

#define ANSWER_MS  30000
#define ANSWER_MAX (1u << 20)
#define STALE_MAX  1000 /* answers to others, before the one to the first request */
#define PAUSE_MS   50 /* before a program is asked about again */

/* In place; -EBADMSG: not base64. */
static ssize_t from_base64(char *text, size_t n)
{
	uint8_t *to = (uint8_t *)text;
	uint32_t v = 0, bits = 0;

	while (n && text[n - 1] == '=')
		n--;
	for (size_t i = 0; i < n; i++) {
		const char *d = text[i] ? strchr(base64_digits, text[i]) : NULL;

		if (!d)
			return -EBADMSG;
		v = v << 6 | (uint32_t)(d - base64_digits);
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			*to++ = (uint8_t)(v >> bits);
		}
	}
	return (char *)to - text;
}

/* ---- a request and its answer ---- */

/* Does the caller still want the answer? */
static int agent_wanted(struct agent *a)
{
	struct pollfd p = { .fd = a->hangup };

	return a->hangup >= 0 && poll(&p, 1, 0) > 0 ? err_set(a->err, EINTR, "given up") : 0;
}

/* ... and is it not too late? */
static int agent_expected(struct agent *a, uint64_t since)
{
	if (util_now_ns() - since <= ANSWER_MS * 1000000ull)
		return agent_wanted(a);
	return err_set(a->err, ETIMEDOUT,
		       "%s: no answer from the guest agent within %d s: does it run in the guest? "
		       "Does another program, as libvirt, hold its socket?",
		       a->name, ANSWER_MS / 1000);
}

static int agent_wait_for(struct agent *a, short events, uint64_t since)
{
	struct pollfd p = { .fd = a->fd, .events = events };
	int ret;

	do {
		ret = agent_expected(a, since);
	} while (!ret && poll(&p, 1, 1000) <= 0);
	return ret;
}

static int agent_say(struct agent *a, const struct sbuf *text)
{
	const uint64_t begin = util_now_ns();
	size_t at = 0;

	while (at < text->len) {
		int ret = agent_wait_for(a, POLLOUT, begin);
		ssize_t n = ret ? 0 : send(a->fd, text->s + at, text->len - at,
					   MSG_DONTWAIT | MSG_NOSIGNAL);

		if (ret)
			return ret;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return err_why(a->err, errno, "%s", a->name);
		at += (size_t)MAX(n, (ssize_t)0);
	}
	return 0;
}

/* Reads up to the byte `last`, which is dropped; what comes before it is in a->answer. */
static int agent_hear(struct agent *a, uint8_t last)
{
	const uint64_t begin = util_now_ns();

	sbuf_reset(&a->answer);
	while (!a->answer.error && a->answer.len < ANSWER_MAX) {
		const char *p = a->in + a->at, *end = memchr(p, last, a->have - a->at);
		int ret;
		ssize_t n;

		sbuf_add_mem(&a->answer, p, end ? (size_t)(end - p) : a->have - a->at);
		a->at = end ? (size_t)(end + 1 - a->in) : a->have;
		if (end)
			return 0;
		/* Reads more of what the agent sends. */
		do {
			ret = agent_wait_for(a, POLLIN, begin);
			if (ret)
				return ret;
			n = read(a->fd, a->in, sizeof(a->in));
		} while (n < 0 && (errno == EINTR || errno == EAGAIN));
		if (n <= 0)
			return err_set(a->err, ECONNRESET, "%s: QEMU has closed the connection",
				       a->name);
		a->at = 0;
		a->have = (size_t)n;
	}
	return err_set(a->err, EMSGSIZE, "%s: an endless answer", a->name);
}

static int no_such_answer(struct agent *a, const char *what)
{
	return err_set(a->err, EBADMSG, "%s: %s: not a valid answer", a->name, what);
}

/* The request `what`, its arguments between their braces. *answer: until the next one. */
static int agent_ask(struct agent *a, const char *what, const struct sbuf *arguments,
		     struct jval *answer)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 }, why = { 0 };
	struct kvmft_err said = { .text = "" };
	struct jval all, error, desc;
	int ret;

	sbuf_addf(&b, "{\"execute\":\"%s\",\"arguments\":{", what);
	sbuf_add_mem(&b, arguments->s, arguments->len);
	sbuf_add(&b, "}}\n");
	if (arguments->error || b.error)
		return err_set(a->err, ENOMEM, "out of memory");
	if (a->command) {
		sbuf_reset(&a->answer);
		ret = side_ask(&(struct side_question){ .prefix = a->command,
							.what = what,
							.words = (const char *const[]){ b.s, NULL },
							.input = -1, .hangup = a->hangup,
							.max = ANSWER_MAX,
							.out = &a->answer },
			       &said);
		/* What the agent refuses, virsh reports by an exit status, and a line. */
		if (ret) {
			a->lacking = ret == 127; /* there is no such command here */
			return err_set(a->err, ret > 0 ? EREMOTEIO : -ret, "%s: %s", a->name,
				       said.text);
		}
	} else {
		ret = agent_say(a, &b);
		ret = ret ?: agent_hear(a, '\n');
	}
	if (ret)
		return ret;
	if (jval_parse(a->answer.s ?: "", a->answer.len, &all))
		return err_set(a->err, EBADMSG, "%s: %s: the answer is not JSON", a->name, what);
	if (jval_get(all, "error", &error)) {
		if (jval_get(error, "desc", &desc))
			(void)!jval_text(desc, &why);
		return err_set(a->err, EREMOTEIO, "%s: %s: %s", a->name, what,
			       why.len ? why.s : "refused by the guest agent");
	}
	return jval_get(all, "return", answer) ? 0 : no_such_answer(a, what);
}

static int ask_number(struct agent *a, const char *what, const struct sbuf *arguments,
		      const char *member, uint64_t *n)
{
	struct jval answer = { 0 }, v;
	int ret = agent_ask(a, what, arguments, &answer);

	if (ret)
		return ret;
	v = answer;
	if ((member && !jval_get(answer, member, &v)) || !jval_u64(v, n))
		return no_such_answer(a, what);
	return 0;
}

/* What an earlier user has left on the line is discarded first. */
static int agent_synchronize(struct agent *a)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const uint64_t begin = util_now_ns();
	uint32_t id = 0, left = STALE_MAX;
	struct jval all, v;
	uint64_t n;
	int ret;

	if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
		return err_set(a->err, EIO, "cannot get a random number");
	sbuf_addf(&b, "\377{\"execute\":\"guest-sync-delimited\",\"arguments\":{\"id\":%u}}\n", id);
	ret = b.error ? err_set(a->err, ENOMEM, "out of memory") : agent_say(a, &b);
	if (ret)
		return ret;
	do {
		ret = agent_hear(a, 0xff);
		ret = ret ?: agent_hear(a, '\n');
		if (!ret && (!left-- || util_now_ns() - begin > ANSWER_MS * 1000000ull))
			ret = err_set(a->err, EMSGSIZE, "%s: endless answers to other requests",
				      a->name);
		if (ret)
			return ret;
	} while (jval_parse(a->answer.s ?: "", a->answer.len, &all) ||
		 !jval_get(all, "return", &v) || !jval_u64(v, &n) || n != id);
	return 0;
}

static int agent_open(struct agent *a, const struct side_spec *spec, int hangup,
		      struct kvmft_err *err)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const uint64_t begin = util_now_ns();
	int ret;

	*a = (struct agent){ .name = spec->agent,
			     .fd = -1, .hangup = hangup, .err = err,
			     .command = spec->command.n ? &spec->command : NULL };
	if (a->command)
		return 0;
	if (strlen(a->name) >= sizeof(to.sun_path))
		return err_set(err, ENAMETOOLONG, "%s: too long for a socket's path", a->name);
	memcpy(to.sun_path, a->name, strlen(a->name));
	a->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (a->fd < 0)
		return err_why(err, errno, "cannot make a socket");
	/* QEMU serves one client at a time. If others wait as well, this itself would wait. */
	while (connect(a->fd, (const struct sockaddr *)&to, sizeof(to)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return err_why(err, errno, "cannot connect to the guest agent by %s",
				       a->name);
		ret = agent_expected(a, begin);
		if (ret)
			return ret;
		(void)poll(NULL, 0, PAUSE_MS);
	}
	return agent_synchronize(a);
}

/* -EREMOTEIO: the agent refused. */
static void agent_close(struct agent *a)
{
	util_close_fd(&a->fd);
	sbuf_free(&a->answer);
}

/* ---- files of the guest ---- */

static int agent_file_open(struct agent *a, const char *path, const char *mode, uint64_t *handle)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_addf(&b, "\"path\":\"%s\",\"mode\":\"%s\"", path, mode);
	return ask_number(a, "guest-file-open", &b, NULL, handle);
}

static int with_handle(struct agent *a, const char *what, uint64_t handle)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct jval v;

	sbuf_addf(&b, "\"handle\":%" PRIu64, handle);
	return agent_ask(a, what, &b, &v);
}

static int agent_file_close(struct agent *a, uint64_t handle)
{
	return handle == AGENT_NONE ? 0 : with_handle(a, "guest-file-close", handle);
}

static int agent_file_write(struct agent *a, uint64_t handle, const void *p, size_t n)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint64_t count = 0;
	int ret;

	sbuf_addf(&b, "\"handle\":%" PRIu64 ",\"buf-b64\":\"", handle);
	sbuf_add_base64(&b, p, n);
	sbuf_addc(&b, '"');
	ret = ask_number(a, "guest-file-write", &b, "count", &count);
	if (ret || count == n)
		return ret;
	return err_set(a->err, ENOSPC, "%s: guest-file-write: only a part was written: is there no "
		       "space in the guest?", a->name);
}

/* ---- its programs ---- */

/* How a program of the guest ended. */
struct agent_end {
	bool exited;
	int status; /* as an exit status; ended by a signal counts as failed */
	struct jval answer; /* borrowed until the next request */
};

/* With input (n bytes) as its standard input; *pid is its process. */
static int agent_exec(struct agent *a, const char *const *words, const void *input, size_t n,
		      uint64_t *pid)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_addf(&b, "\"path\":\"%s\",\"arg\":[", words[0]);
	for (size_t i = 1; words[i]; i++)
		sbuf_addf(&b, "%s\"%s\"", i > 1 ? "," : "", words[i]);
	sbuf_add(&b, "],\"capture-output\":true,\"input-data\":\"");
	sbuf_add_base64(&b, input, n);
	sbuf_addc(&b, '"');
	return ask_number(a, "guest-exec", &b, "pid", pid);
}

static int agent_exec_status(struct agent *a, uint64_t pid, struct agent_end *end)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint64_t code = 0;
	struct jval v;
	int ret;

	*end = (struct agent_end){ 0 };
	sbuf_addf(&b, "\"pid\":%" PRIu64, pid);
	ret = agent_ask(a, "guest-exec-status", &b, &end->answer);
	if (ret || !jval_get(end->answer, "exited", &v) || !jval_true(v))
		return ret;
	end->exited = true;
	if (!jval_get(end->answer, "exitcode", &v) || !jval_u64(v, &code) || code > 125)
		code = KVMFT_FAILED;
	end->status = (int)code;
	return 0;
}

/* Of a program that has ended: member is out-data or err-data; empty if there is none. */
static void agent_output(const struct agent_end *end, const char *member, struct sbuf *text)
{
	struct jval v;
	ssize_t n;

	sbuf_reset(text);
	if (!jval_get(end->answer, member, &v) || jval_text(v, text) || !text->len)
		return;
	n = from_base64(text->s, text->len);
	text->len = (size_t)MAX(n, (ssize_t)0);
	text->s[text->len] = '\0';
}

/*
 * Runs words, found in the agent's PATH, to its end: its exit status, with err set if that is not
 * 0. Its output goes to out if that is not NULL. Words and paths must need no escapes in JSON.
 */
static int agent_run(struct agent *a, const char *const *words, struct sbuf *out)
{
	_cleanup_(sbuf_free) struct sbuf said = { 0 };
	const uint64_t begin = util_now_ns();
	struct agent_end end = { .exited = false };
	uint64_t pid = 0;
	int ret = agent_exec(a, words, "", 0, &pid);

	for (;;) {
		ret = ret ?: agent_exec_status(a, pid, &end);
		if (ret || end.exited)
			break;
		if (util_now_ns() - begin > SIDE_ASK_NS)
			return err_set(a->err, ETIMEDOUT, "%s: %s does not end", a->name, words[0]);
		ret = agent_wanted(a);
		if (!ret)
			(void)poll(NULL, 0, PAUSE_MS);
	}
	if (ret)
		return ret;
	if (out)
		agent_output(&end, "out-data", out);
	agent_output(&end, "err-data", &said);
	if (end.status)
		err_set(a->err, EIO, "%s: exit status %d%s%s", words[0], end.status,
			said.len ? ": " : "", side_last_line(&said));
	return end.status;
}

/*
 * The process that reaches a guest through its QEMU guest agent, if there is no network.
 *
 * To the others it is a command like ssh: orders come by its standard input, the stream leaves by
 * its standard output. The agent starts programs (guest-exec), reads and writes files, one request
 * after the other; what record --remote does for that is in record/remote.c.
 */

#define PIECE	 (256u << 10) /* of the stream; base64 makes it a third longer */
#define START_NS 20000000000ull

struct qga {
	struct agent a;
	char dir[64]; /* in the guest */
	uint64_t pid, orders, stream; /* handles of the agent; AGENT_NONE */
	uint64_t done; /* bytes of the stream that were passed on */
	uint64_t until; /* the store is gone: ns, when the guest has to have ended; else 0 */
	bool exited;
	int status;
};

/* ---- files of the guest ---- */

static int file_open(struct qga *q, const char *name, const char *mode, uint64_t *handle)
{
	return agent_file_open(&q->a, TEXTF("%s/%s", q->dir, name), mode, handle);
}

static int put_orders(struct qga *q, const char *text, size_t n)
{
	int ret = agent_file_write(&q->a, q->orders, text, n);

	return ret ?: with_handle(&q->a, "guest-file-flush", q->orders);
}

/* Copies what there is, up to a piece, to standard output. Its length, or -errno. */
static ssize_t get_stream(struct qga *q)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 }, b = { 0 };
	struct jval answer, v;
	char order[40];
	ssize_t n;
	int ret;

	sbuf_addf(&b, "\"handle\":%" PRIu64 ",\"count\":%u", q->stream, PIECE);
	ret = agent_ask(&q->a, "guest-file-read", &b, &answer);
	if (ret)
		return ret;
	if (!jval_get(answer, "buf-b64", &v) || jval_text(v, &text) || text.error)
		return no_such_answer(&q->a, "guest-file-read");
	n = text.len ? from_base64(text.s, text.len) : 0;
	if (n < 0)
		return err_set(q->a.err, EBADMSG, "%s: an answer that is not base64", q->a.name);
	if (!n)
		return 0;
	text.len = (size_t)n;
	ret = q->until ? 0 : full_write(STDOUT_FILENO, text.s, text.len, NULL);
	if (ret == -EPIPE) {
		q->until = util_now_ns() + START_NS;
		ret = put_orders(q, "stop\n", 5);
	}
	if (ret)
		return ret;
	q->done += text.len;
	snprintf(order, sizeof(order), "read %" PRIu64 "\n", q->done);
	ret = put_orders(q, order, strlen(order));
	return ret ?: (ssize_t)text.len;
}

/* ---- the program in the guest ---- */

/* When it has ended, its standard error is passed on. */
static int look_whether_ended(struct qga *q)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	struct agent_end end;
	int ret;

	if (q->exited)
		return 0;
	ret = agent_exec_status(&q->a, q->pid, &end);
	if (ret || !end.exited)
		return ret;
	q->exited = true;
	q->status = end.status;
	agent_output(&end, "err-data", &text);
	if (text.len)
		(void)!full_write(STDERR_FILENO, text.s, text.len, NULL);
	return 0;
}

/* Its files exist once it has started; if it ended before, it says why. */
static int agent_open_files(struct qga *q)
{
	const uint64_t begin = util_now_ns();
	int ret;

	do {
		struct kvmft_err none;
		struct kvmft_err *err = q->a.err;

		q->a.err = &none;
		ret = file_open(q, SPOOL_STREAM, "r", &q->stream);
		ret = ret ?: file_open(q, SPOOL_ORDERS, "a", &q->orders);
		q->a.err = err;
		if (ret && look_whether_ended(q))
			return -EIO;
		if (ret && q->exited) /* it has said why */
			return -EIO;
		if (ret && (ret != -EREMOTEIO || util_now_ns() - begin > START_NS))
			return err_set(q->a.err, EIO, "%s", none.text);
		if (ret)
			(void)poll(NULL, 0, 200);
	} while (ret);
	return 0;
}

/* ---- the life of it ---- */

static int qga_pass_on(struct qga *q)
{
	int ret = 0, quiet = 0;
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char buf[1024];

	while (!ret && !(q->until && util_now_ns() > q->until)) {
		ssize_t n = get_stream(q);

		if (n < 0)
			return (int)n;
		quiet = n ? 0 : quiet + 1;
		if (quiet && q->exited && quiet > 4)
			return 0;
		if (quiet % 8 == 1)
			ret = look_whether_ended(q);
		/* Orders on standard input, whose end, like a pipe's, ends the recorder. */
		if (!ret && p.fd >= 0 && poll(&p, 1, n ? 0 : PAUSE_MS) > 0) {
			ssize_t got = read(STDIN_FILENO, buf, sizeof(buf));

			if (got < 0)
				ret = errno == EINTR ? 0 : -errno;
			else
				ret = got ? put_orders(q, buf, (size_t)got) : put_orders(q, "stop\n", 5);
			p.fd = got ? p.fd : -1;
		} else if (!ret && p.fd < 0 && !n) {
			(void)poll(NULL, 0, PAUSE_MS);
		}
	}
	return ret;
}

/* A name that nobody can guess, in a directory of a guest. */
static int side_random_name(char *buf, size_t size, const char *folder, struct kvmft_err *err)
{
	uint64_t r[2];

	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return err_set(err, EIO, "cannot get a random number");
	snprintf(buf, size, "%s/kvmft-%016llx%016llx", folder, (unsigned long long)r[0],
		 (unsigned long long)r[1]);
	return 0;
}

int side_qga_main(const struct side_spec *spec, const char *program)
{
	struct kvmft_err err = { .text = "" };
	const char *const words[] = { program, "record", "--remote", NULL };
	_cleanup_(remote_words_free) struct remote_words w = { 0 };
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	struct qga q = { .a.fd = -1, .orders = AGENT_NONE, .stream = AGENT_NONE };
	int ret = remote_get(STDIN_FILENO, &w, &err);

	ret = ret ?: side_random_name(q.dir, sizeof(q.dir), "/dev/shm", &err);
	if (!ret) {
		w.spool = strdup(q.dir);
		remote_put(&text, &w);
		ret = w.spool && !text.error ? agent_open(&q.a, spec, -1, &err)
					     : err_set(&err, ENOMEM, "out of memory");
	}
	ret = ret ?: agent_exec(&q.a, words, text.s, text.len, &q.pid);
	ret = ret ?: agent_open_files(&q);
	ret = ret ?: qga_pass_on(&q);
	if (ret && err.text[0])
		dprintf(STDERR_FILENO, "%s\n", err.text);
	if (q.a.err) {
		(void)!agent_file_close(&q.a, q.orders);
		(void)!agent_file_close(&q.a, q.stream);
	}
	agent_close(&q.a);
	if (q.exited)
		return q.status;
	if (q.a.lacking)
		return KVMFT_LACKING;
	if (ret && strstr(err.text, "child process") && strstr(err.text, "No such file"))
		return 127; /* as in a shell: there is no such program */
	return ret ? KVMFT_FAILED : KVMFT_OK;
}

/*
 * A recorder for guests that have none.
 *
 * A static program is copied into the guest's memory (a tmpfs if there is one), into a directory
 * that only its owner can use, and removes both itself when it runs. Until then a separate process
 * is there to remove them, whatever becomes of us. Each step is a program at the other end, in
 * plain words: on the way there may or may not be a shell, which would interpret quotes and blanks.
 */

#define TELL_MS	 2000
#define UNDO_MS	 20000 /* on a broken line; then it continues without us */
#define TAKEN	 "1"   /* the word that it runs there */
#define MAX_FILE (64u << 20)

static const char *const places[] = { "/dev/shm", "/run", "/tmp", "/var/tmp" };

/* How the guest is reached. */
struct push {
	const struct sides_config *c;
	const struct side_spec *spec;
	struct agent *agent; /* NULL: by its command */
	int hangup;	     /* the result is not wanted any more; -1 = always wanted */
	struct kvmft_err *err;
};

struct push_answer {
	int ret;
	struct kvmft_err err;
	char path[sizeof(((struct side_push *)NULL)->path)];
};

/* Runs words there; input: a file to read (-1: none), not for an agent. 0 or -errno, err. */
static int push_in_guest(struct push *p, const char *const *words, int input, struct sbuf *out)
{
	const struct side_question q = {
		.prefix = &p->spec->command, .words = words, .what = words[0],
		.input = input, .hangup = p->hangup, .max = 256, .out = out,
	};
	int ret = p->agent ? agent_run(p->agent, words, out) : side_ask(&q, p->err);

	return ret > 0 ? -EIO : ret;
}

/* Which ELF machine `uname -m` means; 0 = kvmft does not know it. */
static uint16_t elf_machine(const char *arch)
{
	return !strcmp(arch, "x86_64") ? EM_X86_64 : !strcmp(arch, "aarch64") ? EM_AARCH64 : 0;
}

/* A copy of it, in memory. -ENOEXEC: not a static program for that machine. */
static int open_static(const char *path, const char *arch)
{
	_cleanup_close_ int fd = file_open_regular(path, false), copy = -1;
	int ret = fd == -EINVAL ? -ENOEXEC : MIN(fd, 0);
	uint64_t size = 0;
	Elf64_Ehdr e;
	Elf64_Phdr ph;

	if (!ret && (full_pread(fd, &e, sizeof(e), 0) != (ssize_t)sizeof(e) ||
		     memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 ||
		     e.e_machine != elf_machine(arch) || e.e_phnum > 64))
		ret = -ENOEXEC;
	/* Only what is loaded is copied: symbols are half of one that was not stripped. */
	for (unsigned int i = 0; !ret && i < e.e_phnum; i++) {
		uint64_t at = e.e_phoff + (uint64_t)i * e.e_phentsize;

		if (full_pread(fd, &ph, sizeof(ph), at) != (ssize_t)sizeof(ph) ||
		    ph.p_type == PT_INTERP || ph.p_offset > MAX_FILE || ph.p_filesz > MAX_FILE)
			ret = -ENOEXEC;
		else
			size = MAX(size, MAX(ph.p_offset + ph.p_filesz, at + sizeof(ph)));
	}
	if (ret || !size)
		return ret ?: -ENOEXEC;
	copy = memfd_create("kvmft-static", MFD_CLOEXEC);
	if (copy < 0)
		return -errno;
	while (size) {
		ssize_t n = sendfile(copy, fd, NULL, size);

		if (n <= 0)
			return n ? -errno : -EIO;
		size -= (uint64_t)n;
	}
	ret = copy;
	copy = -1;
	return ret;
}

static int find_static(const char *arch)
{
	static const char *const names[] = { "kvmft-static-%s", "../lib/kvmft/kvmft-static-%s" };
	char path[4200];
	ssize_t n = readlink("/proc/self/exe", path, 4096);
	int fd;

	/* In the folder of this program. */
	while (n > 0 && path[n - 1] != '/')
		n--;
	for (size_t i = 0; n > 0 && i < ARRAY_SIZE(names); i++) {
		snprintf(path + n, sizeof(path) - (size_t)n, names[i], arch);
		fd = open_static(path, arch);
		if (fd >= 0)
			return fd;
	}
	/* This one may be static itself. */
	return open_static("/proc/self/exe", arch);
}

/* ---- into the guest ---- */

static int write_file(struct push *p, int fd, const char *path)
{
	char of[sizeof(((struct side_push *)NULL)->path) + 4];
	const char *const dd[] = { "dd", of, "bs=65536", NULL };

	if (p->agent) {
		uint8_t piece[AGENT_PIECE];
		uint64_t handle, at = 0;
		ssize_t n = 0;
		int ret = agent_file_open(p->agent, path, "w", &handle), end;

		/* What was not written yet is reported by the agent when the file is closed. */
		if (ret)
			return ret;
		while (!ret && (n = full_pread(fd, piece, sizeof(piece), at)) > 0) {
			ret = agent_file_write(p->agent, handle, piece, (size_t)n);
			at += (uint64_t)n;
		}
		if (!ret && n < 0)
			ret = err_why(p->agent->err, (int)n, "cannot read the program");
		end = ret == -EINTR ? 0 : agent_file_close(p->agent, handle);
		return ret ?: end;
	}
	snprintf(of, sizeof(of), "of=%s", path);
	return lseek(fd, 0, SEEK_SET) < 0 ? err_why(p->err, errno, "cannot read the program")
					  : push_in_guest(p, dd, fd, NULL);
}

static void push_undo(struct push *p, const char *dir)
{
	const char *const words[] = { "rm", "-rf", dir, NULL };

	p->hangup = -1;
	if (p->agent)
		p->agent->hangup = -1;
	(void)!push_in_guest(p, words, -1, NULL);
}

/* Written, and executable: some systems mount such places noexec. */
static int push_to(struct push *p, int fd, const char *dir, const char *path)
{
	const char *const make[] = { "mkdir", "-m", "700", dir, NULL };
	const char *const mode[] = { "chmod", "700", path, NULL };
	const char *const run[] = { path, "--version", NULL };
	int ret = push_in_guest(p, make, -1, NULL), hangup = p->hangup;
	struct kvmft_err first;

	ret = ret ?: write_file(p, fd, path);
	ret = ret ?: push_in_guest(p, mode, -1, NULL);
	ret = ret ?: push_in_guest(p, run, -1, NULL);
	if (!ret)
		return 0;
	/* Of all that went wrong, the first is reported. */
	first = *p->err;
	push_undo(p, dir);
	p->hangup = hangup;
	if (p->agent)
		p->agent->hangup = hangup;
	*p->err = first;
	return ret;
}

static int push_bring(struct push *p, char *dir, size_t dir_size, char *path, size_t size)
{
	static const char *const words[] = { "uname", "-sm", NULL };
	_cleanup_(sbuf_free) struct sbuf out = { 0 };
	_cleanup_close_ int fd = -1;
	struct kvmft_err first = { .text = "" };
	int ret = push_in_guest(p, words, -1, &out);
	const char *arch;

	if (ret)
		return ret;
	sbuf_add(&out, "");
	if (!out.s || strncmp(out.s, "Linux ", 6))
		return err_lack(p->err, ENOEXEC, "uname -sm does not say Linux: '%.40s'", out.s ?: "");
	out.s[strcspn(out.s, "\r\n")] = '\0';
	arch = out.s + 6;
	if (!elf_machine(arch))
		return err_lack(p->err, ENOEXEC, "it is %.31s, for which there is no kvmft", arch);
	fd = *p->c->push ? open_static(p->c->push, arch) : find_static(arch);
	if (fd < 0 && *p->c->push)
		return err_set(p->err, -fd, "--push=%s: %s", p->c->push,
			       fd == -ENOEXEC ? "is not a static program for the guest's machine"
					      : strerror(-fd));
	if (fd < 0)
		return err_lack(p->err, ENOENT,
				"--push: there is no static kvmft for %s beside this one: make "
				"STATIC=1 SMALL=1, and name it with --push=FILE, or as "
				"kvmft-static-%s",
				arch, arch);
	for (size_t i = 0; i < ARRAY_SIZE(places) && ret != -EINTR; i++) {
		ret = side_random_name(dir, dir_size, places[i], p->err);
		if (ret)
			return ret;
		/* Its name shows that it was copied there: see drop_program(). */
		snprintf(path, size, "%s%s", dir, strrchr(dir, '/'));
		ret = push_to(p, fd, dir, path);
		if (!ret)
			return 0;
		first = i ? first : *p->err;
	}
	return err_set(p->err, -ret, "cannot copy a program into the guest: %s", first.text);
}

/* ---- the process that does it ---- */

static int push_reach(struct push *p, struct agent *a)
{
	if (!p->spec->agent)
		return 0;
	p->agent = a;
	return agent_open(a, p->spec, p->hangup, p->err);
}

/* The agent talks to one client at a time. */
static void push_leave(struct push *p)
{
	if (p->agent)
		agent_close(p->agent);
	p->agent = NULL;
}

struct push_start {
	const struct sides_config *c;
	const struct side_spec *spec;
};

static int push_main(void *arg)
{
	const struct push_start *s = arg;
	struct push_answer answer = { .err.text = "" };
	struct push p = { .c = s->c, .spec = s->spec, .hangup = STDIN_FILENO, .err = &answer.err };
	struct agent agent = { .fd = -1 };
	sigset_t set;
	char dir[64], word;

	/* A signal must not make this leave files there; it ends the parent as well. */
	signal_ends(&set);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	answer.ret = push_reach(&p, &agent);
	answer.ret =
		answer.ret ?: push_bring(&p, dir, sizeof(dir), answer.path, sizeof(answer.path));
	push_leave(&p);
	(void)!full_write(STDOUT_FILENO, &answer, sizeof(answer), NULL);
	if (answer.ret || read(STDIN_FILENO, &word, 1) == 1)
		return KVMFT_OK;
	p.hangup = -1;
	if (!push_reach(&p, &agent))
		push_undo(&p, dir);
	push_leave(&p);
	return KVMFT_OK;
}

int side_push_start(const struct sides_config *c, struct side *s, struct kvmft_err *err)
{
	int in[2], out[2], pid = side_pipe(in, err), words;

	if (pid)
		return pid;
	s->push.to = in[1];
	pid = side_pipe(out, err);
	if (pid) {
		close(in[0]);
		return pid;
	}
	pid = side_run(push_main, &(struct push_start){ c, s->spec }, in[0], out[1], &words, err);
	close(in[0]);
	close(out[1]);
	s->push.from = out[0];
	if (pid < 0)
		return pid;
	close(words); /* it has none */
	s->push.pid = pid;
	return 0;
}

int side_push_take(struct side *s, struct kvmft_err *err)
{
	struct push_answer a = { .ret = -EIO };

	if (full_read(s->push.from, &a, sizeof(a)))
		return err_set(err, EIO, "%s: the process that copies a program there was killed",
			       s->name);
	if (!a.ret) {
		memcpy(s->push.path, a.path, sizeof(a.path));
		return 0;
	}
	err_set(err, -a.ret, "%s: %s", s->name, a.err.text);
	err->code = a.err.code;
	return a.ret;
}

void side_push_end(struct side *s, bool runs, note_fn *note)
{
	if (runs && s->push.to >= 0)
		(void)!full_write(s->push.to, TAKEN, 1, NULL);
	util_close_fd(&s->push.to);
	util_close_fd(&s->push.from);
	for (int ms = 0; s->push.pid > 0 && ms < UNDO_MS; ms += 20) {
		if (waitpid(s->push.pid, NULL, WNOHANG))
			s->push.pid = 0;
		else
			(void)poll(NULL, 0, 20);
		if (s->push.pid && ms == TELL_MS)
			note("%s: process %d removes there what was copied: waiting for it, at most "
			     "%d s", s->name, s->push.pid, UNDO_MS / 1000);
	}
}
