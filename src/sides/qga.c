/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qga.c: the process that reaches a guest through its QEMU guest agent, if there is no network.
 *
 * To the others it is a command like ssh: orders come by its standard input, the stream leaves by
 * its standard output. The agent starts programs (guest-exec), reads and writes files, one request
 * after the other; what record --remote does for that is in record/remote.c.
 */
#include "agent.h"

#include <inttypes.h>
#include <poll.h>
#include <sys/random.h>

#define PIECE	 (256u << 10) /* of the stream; base64 makes it a third longer */
#define PAUSE_MS 50	      /* when nothing came */
#define START_NS 20000000000ull

struct qga {
	struct agent a;
	char dir[64]; /* in the guest */
	uint64_t pid, orders, stream; /* handles of the agent; AGENT_NONE */
	uint64_t done; /* bytes of the stream that were passed on */
	bool exited;
	int status;
};

/* ---- files of the guest ---- */

static int file_open(struct qga *q, const char *name, const char *mode, uint64_t *handle)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/%s", q->dir, name);
	return agent_file_open(&q->a, path, mode, handle);
}

static int put_orders(struct qga *q, const char *text, size_t n)
{
	int ret = agent_file_write(&q->a, q->orders, text, n);

	return ret ?: agent_file_flush(&q->a, q->orders);
}

/* Copies what there is, up to a piece, to standard output. Its length, or -errno. */
static ssize_t get_stream(struct qga *q)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	char order[40];
	int ret = agent_file_read(&q->a, q->stream, PIECE, &text);

	if (ret || !text.len)
		return ret;
	ret = full_write(STDOUT_FILENO, text.s, text.len, NULL);
	if (ret)
		return ret;
	q->done += text.len;
	snprintf(order, sizeof(order), "read %" PRIu64 "\n", q->done);
	ret = put_orders(q, order, strlen(order));
	return ret ?: (ssize_t)text.len;
}

/* ---- the program in the guest ---- */

static int start(struct qga *q, const struct remote_words *w, const char *program)
{
	const char *const words[] = { program, "record", "--remote", NULL };
	_cleanup_(sbuf_free) struct sbuf text = { 0 };

	remote_put(&text, w);
	if (text.error)
		return err_set(q->a.err, ENOMEM, "out of memory");
	return agent_exec(&q->a, words, text.s, text.len, &q->pid);
}

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
static int open_files(struct qga *q)
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

/* Orders waiting on standard input; 1: nobody is there to give any. */
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
			/* Like a pipe that is closed: the recorder then ends. */
			orders = false;
			ret = put_orders(q, "stop\n", 5);
		}
	}
	return ret;
}

static int run(struct qga *q, const struct side_spec *spec, const char *program,
	       struct kvmft_err *err)
{
	_cleanup_(remote_words_free) struct remote_words w = { 0 };
	int ret = remote_get(STDIN_FILENO, &w, err);

	ret = ret ?: side_random_name(q->dir, sizeof(q->dir), "/dev/shm", err);
	if (ret)
		return ret;
	w.spool = strdup(q->dir);
	ret = w.spool ? agent_open(&q->a, spec, -1, err) : err_set(err, ENOMEM, "out of memory");
	ret = ret ?: start(q, &w, program);
	ret = ret ?: open_files(q);
	return ret ?: pass_on(q);
}

int side_qga_main(const struct side_spec *spec, const char *program)
{
	struct kvmft_err err = { .text = "" };
	struct qga q = { .a.fd = -1, .orders = AGENT_NONE, .stream = AGENT_NONE };
	int ret = run(&q, spec, program, &err);

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
