/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * agent.c: requests to a QEMU guest agent, through QEMU's socket for it, or by a command that takes
 * a request as its last word and prints the answer: virsh qemu-agent-command DOMAIN. Its answers
 * come from the guest, and are trusted only as far as they can be checked.
 */
#include "agent.h"

#include <inttypes.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "kvmft/json_read.h"

#define ANSWER_MS  30000
#define ANSWER_MAX (1u << 20)
#define STALE_MAX  1000 /* answers to others, before the one to the first request */
#define PAUSE_MS   50 /* before a program is asked about again */

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

/* In place; -EBADMSG: not base64. */
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

/* The caller does not want the answer any more. */
static bool is_unwanted(const struct agent *a)
{
	struct pollfd p = { .fd = a->hangup };

	return a->hangup >= 0 && poll(&p, 1, 0) > 0;
}

static int no_answer(struct agent *a)
{
	return err_set(a->err, ETIMEDOUT,
		       "%s: no answer from the guest agent within %d s: does it run in the guest? "
		       "Does another program, as libvirt, hold its socket?",
		       a->name, ANSWER_MS / 1000);
}

static int wait_for(struct agent *a, short events, uint64_t since)
{
	struct pollfd p = { .fd = a->fd, .events = events };

	do {
		if (util_now_ns() - since > ANSWER_MS * 1000000ull)
			return no_answer(a);
		if (is_unwanted(a))
			return err_set(a->err, EINTR, "given up");
	} while (poll(&p, 1, 1000) <= 0);
	return 0;
}

static int say(struct agent *a, const struct sbuf *text)
{
	const uint64_t begin = util_now_ns();
	size_t at = 0;

	while (at < text->len) {
		int ret = wait_for(a, POLLOUT, begin);
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

/* Reads more of what the agent sends. */
static int hear_more(struct agent *a, uint64_t since)
{
	ssize_t n;

	do {
		int ret = wait_for(a, POLLIN, since);

		if (ret)
			return ret;
		n = read(a->fd, a->in, sizeof(a->in));
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n <= 0)
		return err_set(a->err, ECONNRESET, "%s: QEMU has closed the connection", a->name);
	a->at = 0;
	a->have = (size_t)n;
	return 0;
}

/* Reads up to the byte `last`, which is dropped; what comes before it is in a->answer. */
static int hear(struct agent *a, uint8_t last)
{
	const uint64_t begin = util_now_ns();

	sbuf_reset(&a->answer);
	while (!a->answer.error && a->answer.len < ANSWER_MAX) {
		const char *p = a->in + a->at, *end = memchr(p, last, a->have - a->at);
		int ret;

		sbuf_add_mem(&a->answer, p, end ? (size_t)(end - p) : a->have - a->at);
		a->at = end ? (size_t)(end + 1 - a->in) : a->have;
		if (end)
			return 0;
		ret = hear_more(a, begin);
		if (ret)
			return ret;
	}
	return err_set(a->err, EMSGSIZE, "%s: an endless answer", a->name);
}

/* What the agent refuses, virsh reports as a failure of its own: an exit status, and a line. */
static int by_command(struct agent *a, const char *what, const char *request)
{
	struct kvmft_err why = { .text = "" };
	int ret;

	sbuf_reset(&a->answer);
	ret = side_ask(&(struct side_question){ .prefix = a->command, .what = what,
						.words = (const char *const[]){ request, NULL },
						.input = -1, .hangup = a->hangup,
						.max = ANSWER_MAX, .out = &a->answer }, &why);
	if (!ret)
		return 0;
	a->lacking = ret == 127; /* there is no such command here */
	return err_set(a->err, ret > 0 ? EREMOTEIO : -ret, "%s: %s", a->name, why.text);
}

static int no_such_answer(struct agent *a, const char *what)
{
	return err_set(a->err, EBADMSG, "%s: %s: not a valid answer", a->name, what);
}

static int refused(struct agent *a, const char *what, struct jval error)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	struct jval desc;

	if (jval_get(error, "desc", &desc))
		(void)!jval_text(desc, &text);
	return err_set(a->err, EREMOTEIO, "%s: %s: %s", a->name, what,
		       text.len ? text.s : "refused by the guest agent");
}

/*
 * The request `what`: arguments is what goes between their braces. *answer is borrowed until the
 * next one.
 */
static int ask(struct agent *a, const char *what, const struct sbuf *arguments,
	       struct jval *answer)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct jval all, error;
	int ret;

	sbuf_addf(&b, "{\"execute\":\"%s\",\"arguments\":{", what);
	sbuf_add_mem(&b, arguments->s, arguments->len);
	sbuf_add(&b, "}}\n");
	if (arguments->error || b.error)
		return err_set(a->err, ENOMEM, "out of memory");
	if (a->command) {
		ret = by_command(a, what, b.s);
	} else {
		ret = say(a, &b);
		ret = ret ?: hear(a, '\n');
	}
	if (ret)
		return ret;
	if (jval_parse(a->answer.s ?: "", a->answer.len, &all))
		return err_set(a->err, EBADMSG, "%s: %s: the answer is not JSON", a->name, what);
	if (jval_get(all, "error", &error))
		return refused(a, what, error);
	return jval_get(all, "return", answer) ? 0 : no_such_answer(a, what);
}

static int ask_number(struct agent *a, const char *what, const struct sbuf *arguments,
		      const char *member, uint64_t *n)
{
	struct jval answer = { 0 }, v;
	int ret = ask(a, what, arguments, &answer);

	if (ret)
		return ret;
	v = answer;
	if ((member && !jval_get(answer, member, &v)) || !jval_u64(v, n))
		return no_such_answer(a, what);
	return 0;
}

/* What an earlier user has left on the line is discarded first. */
static int synchronize(struct agent *a)
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
	ret = b.error ? err_set(a->err, ENOMEM, "out of memory") : say(a, &b);
	if (ret)
		return ret;
	do {
		ret = hear(a, 0xff);
		ret = ret ?: hear(a, '\n');
		if (!ret && (!left-- || util_now_ns() - begin > ANSWER_MS * 1000000ull))
			ret = err_set(a->err, EMSGSIZE, "%s: endless answers to other requests",
				      a->name);
		if (ret)
			return ret;
	} while (jval_parse(a->answer.s ?: "", a->answer.len, &all) ||
		 !jval_get(all, "return", &v) || !jval_u64(v, &n) || n != id);
	return 0;
}

/* QEMU serves one client at a time. If others wait as well, connecting itself would wait. */
static int connect_to(struct agent *a, const struct sockaddr_un *to)
{
	const uint64_t begin = util_now_ns();

	while (connect(a->fd, (const struct sockaddr *)to, sizeof(*to)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return err_why(a->err, errno, "cannot connect to the guest agent by %s",
				       a->name);
		if (util_now_ns() - begin > ANSWER_MS * 1000000ull)
			return no_answer(a);
		if (is_unwanted(a))
			return err_set(a->err, EINTR, "given up");
		(void)poll(NULL, 0, PAUSE_MS);
	}
	return synchronize(a);
}

static int connect_socket(struct agent *a)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	if (strlen(a->name) >= sizeof(to.sun_path))
		return err_set(a->err, ENAMETOOLONG, "%s: too long for a socket's path", a->name);
	memcpy(to.sun_path, a->name, strlen(a->name));
	a->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return a->fd < 0 ? err_why(a->err, errno, "cannot make a socket") : connect_to(a, &to);
}

int agent_open(struct agent *a, const struct side_spec *spec, int hangup,
	       struct kvmft_err *err)
{
	*a = (struct agent){ .name = spec->agent, .fd = -1, .hangup = hangup, .err = err,
			     .command = spec->command.n ? &spec->command : NULL };
	return a->command ? 0 : connect_socket(a);
}

void agent_close(struct agent *a)
{
	util_close_fd(&a->fd);
	sbuf_free(&a->answer);
}

/* ---- files of the guest ---- */

int agent_file_open(struct agent *a, const char *path, const char *mode, uint64_t *handle)
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
	return ask(a, what, &b, &v);
}

int agent_file_close(struct agent *a, uint64_t handle)
{
	return handle == AGENT_NONE ? 0 : with_handle(a, "guest-file-close", handle);
}

int agent_file_flush(struct agent *a, uint64_t handle)
{
	return with_handle(a, "guest-file-flush", handle);
}

int agent_file_write(struct agent *a, uint64_t handle, const void *p, size_t n)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint64_t count = 0;
	int ret;

	sbuf_addf(&b, "\"handle\":%" PRIu64 ",\"buf-b64\":\"", handle);
	add_base64(&b, p, n);
	sbuf_addc(&b, '"');
	ret = ask_number(a, "guest-file-write", &b, "count", &count);
	if (ret || count == n)
		return ret;
	return err_set(a->err, ENOSPC, "%s: guest-file-write: only a part was written: is there no "
		       "space in the guest?", a->name);
}

int agent_file_read(struct agent *a, uint64_t handle, uint32_t max, struct sbuf *to)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct jval answer, v;
	ssize_t n;
	int ret;

	sbuf_addf(&b, "\"handle\":%" PRIu64 ",\"count\":%u", handle, max);
	ret = ask(a, "guest-file-read", &b, &answer);
	if (ret)
		return ret;
	sbuf_reset(to);
	if (!jval_get(answer, "buf-b64", &v) || jval_text(v, to) || to->error)
		return no_such_answer(a, "guest-file-read");
	n = to->len ? from_base64(to->s, to->len) : 0;
	if (n < 0)
		return err_set(a->err, EBADMSG, "%s: an answer that is not base64", a->name);
	to->len = (size_t)n;
	return 0;
}

/* ---- its programs ---- */

int agent_exec(struct agent *a, const char *const *words, const void *input, size_t n,
	       uint64_t *pid)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_addf(&b, "\"path\":\"%s\",\"arg\":[", words[0]);
	for (size_t i = 1; words[i]; i++)
		sbuf_addf(&b, "%s\"%s\"", i > 1 ? "," : "", words[i]);
	sbuf_add(&b, "],\"capture-output\":true,\"input-data\":\"");
	add_base64(&b, input, n);
	sbuf_addc(&b, '"');
	return ask_number(a, "guest-exec", &b, "pid", pid);
}

int agent_exec_status(struct agent *a, uint64_t pid, struct agent_end *end)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint64_t code = 0;
	struct jval v;
	int ret;

	*end = (struct agent_end){ 0 };
	sbuf_addf(&b, "\"pid\":%" PRIu64, pid);
	ret = ask(a, "guest-exec-status", &b, &end->answer);
	if (ret || !jval_get(end->answer, "exited", &v) || !jval_true(v))
		return ret;
	end->exited = true;
	if (!jval_get(end->answer, "exitcode", &v) || !jval_u64(v, &code) || code > 125)
		code = KVMFT_FAILED;
	end->status = (int)code;
	return 0;
}

void agent_output(const struct agent_end *end, const char *member, struct sbuf *text)
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

static int wait_for_end(struct agent *a, const char *what, uint64_t pid, struct agent_end *end)
{
	const uint64_t begin = util_now_ns();
	int ret;

	for (;;) {
		ret = agent_exec_status(a, pid, end);
		if (ret || end->exited)
			return ret;
		if (util_now_ns() - begin > SIDE_ASK_NS)
			return err_set(a->err, ETIMEDOUT, "%s: %s does not end", a->name, what);
		if (is_unwanted(a))
			return err_set(a->err, EINTR, "given up");
		(void)poll(NULL, 0, PAUSE_MS);
	}
}

int agent_run(struct agent *a, const char *const *words, struct sbuf *out)
{
	_cleanup_(sbuf_free) struct sbuf said = { 0 };
	struct agent_end end;
	uint64_t pid = 0;
	int ret = agent_exec(a, words, "", 0, &pid);

	ret = ret ?: wait_for_end(a, words[0], pid, &end);
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
