/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qga.c: the process that reaches a guest by its QEMU guest agent, where there is no network.
 *
 * To the others it is a command like ssh: orders come by its standard input, the stream leaves by
 * its standard output. The agent starts programs (guest-exec), reads and writes files, one request
 * after the other; what record --remote does for that is in record/spool.c. The agent is asked by
 * the socket that QEMU has, or by a command that takes a request as its last word and prints the
 * answer: virsh qemu-agent-command DOMAIN. Its answers come from the guest, and are believed as far
 * as they can be checked.
 */
#include "sides.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "kvmft/json.h"
#include "kvmft/json_read.h"

#define ANSWER_MS   30000
#define ANSWER_MAX  (1u << 20)
#define PIECE	    (256u << 10) /* of the stream; base64 makes it a third longer */
#define PAUSE_MS    50		 /* when nothing came */
#define START_NS    20000000000ull
#define NONE	    UINT64_MAX

struct qga {
	const char *name;		    /* of the socket or command */
	const struct remote_words *command; /* NULL: fd */
	int fd;
	char in[65536]; /* what was heard, from `at` to `have` */
	size_t at, have;
	struct sbuf answer;
	struct kvmft_err *err;
	char dir[64]; /* in the guest */
	uint64_t pid, orders, stream; /* handles of the agent; NONE */
	uint64_t done; /* bytes of the stream that were passed on */
	bool exited, lacking;
	int status;
};

/* ---- base64 (RFC 4648) ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void add_base64(struct sbuf *b, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
			     (i + 2 < n ? p[i + 2] : 0);

		sbuf_addc(b, digits[v >> 18]);
		sbuf_addc(b, digits[v >> 12 & 63]);
		sbuf_addc(b, i + 1 < n ? digits[v >> 6 & 63] : '=');
		sbuf_addc(b, i + 2 < n ? digits[v & 63] : '=');
	}
}

/* In place; -EBADMSG: it is none. */
static ssize_t from_base64(char *text, size_t n)
{
	uint8_t *to = (uint8_t *)text;
	uint32_t v = 0, bits = 0;

	while (n && text[n - 1] == '=')
		n--;
	for (size_t i = 0; i < n; i++) {
		const char *d = text[i] ? strchr(digits, text[i]) : NULL;

		if (!d)
			return -EBADMSG;
		v = v << 6 | (uint32_t)(d - digits);
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			*to++ = (uint8_t)(v >> bits);
		}
	}
	return (char *)to - text;
}

/* ---- a request and its answer ---- */

static int no_answer(struct qga *q)
{
	return err_set(q->err, ETIMEDOUT,
		       "%s: no answer from the guest agent within %d s: does it run in the guest? "
		       "Does another program, as libvirt, hold its socket?",
		       q->name, ANSWER_MS / 1000);
}

/* More of what it says. */
static int hear_more(struct qga *q, uint64_t since)
{
	struct pollfd p = { .fd = q->fd, .events = POLLIN };
	ssize_t n;

	for (;;) {
		if (util_now_ns() - since > ANSWER_MS * 1000000ull)
			return no_answer(q);
		if (poll(&p, 1, 1000) <= 0)
			continue;
		n = read(q->fd, q->in, sizeof(q->in));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return err_set(q->err, ECONNRESET, "%s: QEMU has closed the connection",
				       q->name);
		q->at = 0;
		q->have = (size_t)n;
		return 0;
	}
}

/* To the byte `last`, which goes; what comes before it is in q->answer. */
static int hear(struct qga *q, char last)
{
	const uint64_t begin = util_now_ns();

	sbuf_reset(&q->answer);
	while (!q->answer.error && q->answer.len < ANSWER_MAX) {
		const char *p = q->in + q->at, *end = memchr(p, last, q->have - q->at);
		int ret;

		sbuf_add_mem(&q->answer, p, end ? (size_t)(end - p) : q->have - q->at);
		q->at = end ? (size_t)(end + 1 - q->in) : q->have;
		if (end)
			return 0;
		ret = hear_more(q, begin);
		if (ret)
			return ret;
	}
	return err_set(q->err, EMSGSIZE, "%s: an answer without end", q->name);
}

/* What the agent refuses, virsh tells as a failure of its own: an exit status, and a line. */
static int by_command(struct qga *q, const char *what, const char *request)
{
	const char *const words[] = { request, NULL };
	struct kvmft_err why = { .text = "" };
	int ret;

	sbuf_reset(&q->answer);
	ret = side_ask(q->command, words, what, -1, ANSWER_MAX, &q->answer, &why);
	if (!ret)
		return 0;
	q->lacking = ret == 127; /* there is no such command here */
	return err_set(q->err, ret > 0 ? EREMOTEIO : -ret, "%s: %s", q->name, why.text);
}

static int refused(struct qga *q, const char *what, struct jval error)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	struct jval desc;

	if (jval_get(error, "desc", &desc))
		(void)!jval_text(desc, &text);
	return err_set(q->err, EREMOTEIO, "%s: %s: %s", q->name, what,
		       text.len ? text.s : "refused by the guest agent");
}

/* what: of the request, for messages. *answer is borrowed until the next one. */
static int ask(struct qga *q, const char *what, const struct sbuf *request, struct jval *answer)
{
	struct jval all, error;
	int ret;

	if (request->error)
		return err_set(q->err, ENOMEM, "out of memory");
	if (q->command) {
		ret = by_command(q, what, request->s);
	} else {
		ret = full_write(q->fd, request->s, request->len, NULL);
		ret = ret ? err_why(q->err, ret, "%s", q->name) : hear(q, '\n');
	}
	if (ret)
		return ret;
	if (jval_parse(q->answer.s ? q->answer.s : "", q->answer.len, &all))
		return err_set(q->err, EBADMSG, "%s: %s: the answer is no JSON", q->name, what);
	if (jval_get(all, "error", &error))
		return refused(q, what, error);
	if (!jval_get(all, "return", answer))
		return err_set(q->err, EBADMSG, "%s: %s: an answer that is none", q->name, what);
	return 0;
}

static int ask_number(struct qga *q, const char *what, const struct sbuf *request,
		      const char *member, uint64_t *n)
{
	struct jval answer, v;
	int ret = ask(q, what, request, &answer);

	if (ret)
		return ret;
	v = answer;
	if ((member && !jval_get(answer, member, &v)) || !jval_u64(v, n))
		return err_set(q->err, EBADMSG, "%s: %s: an answer that is none", q->name, what);
	return 0;
}

/* What an earlier user has left on the line goes first. */
static int synchronize(struct qga *q)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint32_t id = 0;
	struct jval all, v;
	uint64_t n;
	int ret;

	if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
		return err_set(q->err, EIO, "no random number");
	sbuf_addf(&b, "\377{\"execute\":\"guest-sync-delimited\",\"arguments\":{\"id\":%u}}\n", id);
	ret = b.error ? b.error : full_write(q->fd, b.s, b.len, NULL);
	if (ret)
		return err_why(q->err, ret, "%s", q->name);
	do {
		ret = hear(q, '\377');
		ret = ret ? ret : hear(q, '\n');
		if (ret)
			return ret;
	} while (jval_parse(q->answer.s ? q->answer.s : "", q->answer.len, &all) ||
		 !jval_get(all, "return", &v) || !jval_u64(v, &n) || n != id);
	return 0;
}

static int connect_agent(struct qga *q)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (q->command)
		return 0;
	if (strlen(q->name) >= sizeof(a.sun_path))
		return err_set(q->err, ENAMETOOLONG, "%s: too long for a socket", q->name);
	memcpy(a.sun_path, q->name, strlen(q->name));
	q->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (q->fd < 0 || connect(q->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_why(q->err, errno, "cannot connect to the guest agent by %s", q->name);
	return synchronize(q);
}

/* ---- files of the guest ---- */

static int file_open(struct qga *q, const char *name, const char *mode, uint64_t *handle)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_addf(&b,
		  "{\"execute\":\"guest-file-open\",\"arguments\":{\"path\":\"%s/%s\",\"mode\":\"%s\"}}\n",
		  q->dir, name, mode);
	return ask_number(q, "guest-file-open", &b, NULL, handle);
}

static void file_close(struct qga *q, uint64_t handle)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct jval v;

	if (handle == NONE)
		return;
	sbuf_addf(&b,
		  "{\"execute\":\"guest-file-close\",\"arguments\":{\"handle\":%" PRIu64 "}}\n",
		  handle);
	(void)!ask(q, "guest-file-close", &b, &v);
}

static int put_orders(struct qga *q, const char *text, size_t n)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 }, flush = { 0 };
	uint64_t count;
	struct jval v;
	int ret;

	sbuf_addf(&b,
		  "{\"execute\":\"guest-file-write\",\"arguments\":{\"handle\":%" PRIu64
		  ",\"buf-b64\":\"", q->orders);
	add_base64(&b, (const uint8_t *)text, n);
	sbuf_add(&b, "\"}}\n");
	ret = ask_number(q, "guest-file-write", &b, "count", &count);
	if (ret || count != n)
		return ret ? ret : err_set(q->err, EIO, "%s: an order was cut", q->name);
	sbuf_addf(&flush,
		  "{\"execute\":\"guest-file-flush\",\"arguments\":{\"handle\":%" PRIu64 "}}\n",
		  q->orders);
	return ask(q, "guest-file-flush", &flush, &v);
}

/* What there is, up to a piece, goes to standard output. Its length, or -errno. */
static ssize_t get_stream(struct qga *q)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 }, text = { 0 };
	char order[40];
	struct jval answer, v;
	ssize_t n;
	int ret;

	sbuf_addf(&b,
		  "{\"execute\":\"guest-file-read\",\"arguments\":{\"handle\":%" PRIu64
		  ",\"count\":%u}}\n",
		  q->stream, PIECE);
	ret = ask(q, "guest-file-read", &b, &answer);
	if (ret)
		return ret;
	if (!jval_get(answer, "buf-b64", &v) || jval_text(v, &text) || text.error)
		return err_set(q->err, EBADMSG, "%s: guest-file-read: an answer that is none",
			       q->name);
	n = text.len ? from_base64(text.s, text.len) : 0;
	if (n <= 0)
		return n ? err_set(q->err, EBADMSG, "%s: an answer that is no base64", q->name) : 0;
	ret = full_write(STDOUT_FILENO, text.s, (size_t)n, NULL);
	if (ret)
		return ret;
	q->done += (uint64_t)n;
	snprintf(order, sizeof(order), "read %" PRIu64 "\n", q->done);
	ret = put_orders(q, order, strlen(order));
	return ret ? ret : n;
}

/* ---- the program in the guest ---- */

static int start(struct qga *q, const struct remote_words *words)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 }, text = { 0 };

	remote_put(&text, words);
	if (text.error)
		return err_set(q->err, ENOMEM, "out of memory");
	sbuf_add(&b, "{\"execute\":\"guest-exec\",\"arguments\":{\"path\":\"kvmft\",\"arg\":[\"record\","
		     "\"--remote\"],\"capture-output\":true,\"input-data\":\"");
	add_base64(&b, (const uint8_t *)text.s, text.len);
	sbuf_add(&b, "\"}}\n");
	return ask_number(q, "guest-exec kvmft", &b, "pid", &q->pid);
}

/* What it said on its standard error, when it has ended. */
static void tell_words(struct jval status)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	struct jval v;
	ssize_t n;

	if (!jval_get(status, "err-data", &v) || jval_text(v, &text) || !text.len)
		return;
	n = from_base64(text.s, text.len);
	if (n > 0)
		(void)!full_write(STDERR_FILENO, text.s, (size_t)n, NULL);
}

static int look_whether_ended(struct qga *q)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct jval answer, v;
	uint64_t code = 0;
	int ret;

	if (q->exited)
		return 0;
	sbuf_addf(&b,
		  "{\"execute\":\"guest-exec-status\",\"arguments\":{\"pid\":%" PRIu64 "}}\n",
		  q->pid);
	ret = ask(q, "guest-exec-status", &b, &answer);
	if (ret || !jval_get(answer, "exited", &v) || !jval_true(v))
		return ret;
	q->exited = true;
	if (!jval_get(answer, "exitcode", &v) || !jval_u64(v, &code) || code > 125)
		code = KVMFT_FAILED;
	q->status = (int)code;
	tell_words(answer);
	return 0;
}

/* Its files are there when it has begun; one that ended before says why. */
static int open_files(struct qga *q)
{
	const uint64_t begin = util_now_ns();
	int ret;

	do {
		struct kvmft_err none;
		struct kvmft_err *err = q->err;

		q->err = &none;
		ret = file_open(q, SPOOL_STREAM, "r", &q->stream);
		ret = ret ? ret : file_open(q, SPOOL_ORDERS, "a", &q->orders);
		q->err = err;
		if (ret && look_whether_ended(q))
			return -EIO;
		if (ret && q->exited) /* it has said why */
			return -EIO;
		if (ret && (ret != -EREMOTEIO || util_now_ns() - begin > START_NS))
			return err_set(q->err, EIO, "%s", none.text);
		if (ret)
			(void)poll(NULL, 0, 200);
	} while (ret);
	return 0;
}

/* ---- the life of it ---- */

/* Orders that wait on standard input; 1: nobody is there to give any. */
static int take_orders(struct qga *q, int ms)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char buf[1024];
	ssize_t n;

	if (poll(&p, 1, ms) <= 0)
		return 0;
	n = read(STDIN_FILENO, buf, sizeof(buf));
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	return n ? put_orders(q, buf, (size_t)n) : 1;
}

static int pass_on(struct qga *q)
{
	int ret = 0, quiet = 0;
	bool orders = true;

	while (!ret) {
		ssize_t n = get_stream(q);

		if (n < 0)
			return n == -EPIPE ? 0 : (int)n; /* the store is gone: so is the reason */
		quiet = n ? 0 : quiet + 1;
		if (quiet && q->exited && quiet > 4)
			return 0;
		if (quiet % 8 == 1)
			ret = look_whether_ended(q);
		if (!ret && orders)
			ret = take_orders(q, n ? 0 : PAUSE_MS);
		else if (!n)
			(void)poll(NULL, 0, PAUSE_MS);
		if (ret == 1) {
			/* As a pipe that is closed: the recorder ends then. */
			orders = false;
			ret = put_orders(q, "stop\n", 5);
		}
	}
	return ret;
}

static int run(struct qga *q)
{
	_cleanup_(remote_words_free) struct remote_words w = { 0 };
	uint64_t r[2];
	int ret = remote_get(STDIN_FILENO, &w, q->err);

	if (ret)
		return ret;
	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return err_set(q->err, EIO, "no random number");
	snprintf(q->dir, sizeof(q->dir), "/dev/shm/kvmft-%016" PRIx64 "%016" PRIx64, r[0], r[1]);
	w.spool = strdup(q->dir);
	ret = w.spool ? connect_agent(q) : err_set(q->err, ENOMEM, "out of memory");
	ret = ret ? ret : start(q, &w);
	ret = ret ? ret : open_files(q);
	ret = ret ? ret : pass_on(q);
	return ret;
}

int side_qga_main(const struct side_spec *spec)
{
	struct kvmft_err err = { .text = "" };
	struct qga q = {
		.name = spec->agent, .command = spec->command.n ? &spec->command : NULL, .fd = -1,
		.err = &err, .orders = NONE, .stream = NONE,
	};
	int ret = run(&q);

	if (ret && err.text[0])
		dprintf(STDERR_FILENO, "%s\n", err.text);
	file_close(&q, q.orders);
	file_close(&q, q.stream);
	if (q.exited)
		return q.status;
	if (q.lacking)
		return KVMFT_LACKING;
	if (ret && strstr(err.text, "child process") && strstr(err.text, "No such file"))
		return 127; /* as a shell has it: there is no such program */
	return ret ? KVMFT_FAILED : KVMFT_OK;
}
