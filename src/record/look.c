/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * look.c: kvmft-look, the process that looks at other processes for a recorder on a host.
 *
 * /proc/PID/fd shows which process has which VM. Reading it needs CAP_SYS_PTRACE and is impossible
 * under Landlock. So the recorder asks a process that was forked before: five kinds of questions,
 * with at most a process id. It opens nothing for writing, and takes no input but the recorder's
 * questions.
 */
#include "record.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>

#define CHILDREN_MAX 4096
#define ANSWER_MAX   ((size_t)64 << 20) /* 100,000 VMs take less */

struct question {
	char what;
	uint32_t pid;
};

enum {
	LOOK_READY = 'r',
	LOOK_VMS = 'v',
	LOOK_MADE_BY = 'm',
	LOOK_TASKS = 't',
	LOOK_QEMU = 'q',
	LOOK_CHILDREN = 'c'
};

struct answer {
	int ret;
	struct kvmft_err err;
	size_t len; /* of what follows */
};

/* ---- kvmft-look ---- */

static int add_task(const struct vm_task *t, void *ctx)
{
	struct sbuf *b = ctx;

	sbuf_add_mem(b, t, sizeof(*t));
	return b->error;
}

/* tid: the thread that made them; 0: all */
static int look_vms(uint32_t tid, struct sbuf *b, struct kvmft_err *err)
{
	struct vm_list *l = NULL;
	int ret = tid ? vm_scan_made_by(NULL, tid, &l, err) : vm_scan_told(NULL, &l, err);

	ret = ret ?: vm_list_pack(l, b);
	vm_list_free(l);
	return ret;
}

static int look_children(uint32_t pid, struct sbuf *b)
{
	_cleanup_free_ char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%" PRIu32 "/children", pid, pid);
	if (file_read_all(AT_FDCWD, path, CHILDREN_MAX, &text) > 0)
		sbuf_add(b, text);
	return b->error;
}

static int look(const struct question *q, struct sbuf *b, struct kvmft_err *err)
{
	switch (q->what) {
	case LOOK_VMS: return look_vms(0, b, err);
	case LOOK_MADE_BY: return look_vms(q->pid, b, err);
	case LOOK_TASKS: return vm_tasks_walk(NULL, q->pid, add_task, b);
	case LOOK_QEMU: return record_met_look(q->pid, b);
	case LOOK_CHILDREN: return look_children(q->pid, b);
	default: return 0;
	}
}

static void look_main(struct record *r __unused_arg, int in, int out, void *arg __unused_arg)
{
	const int keep[] = { in, out };
	struct kvmft_err err = { .text = "" };
	struct question q;
	int confined;

	record_detach("kvmft-look", keep, ARRAY_SIZE(keep));
	confined = record_confine_helper(SANDBOX_CALLS_LOOKER, NULL, 0, &err);
	while (read(in, &q, sizeof(q)) == sizeof(q)) {
		struct answer a = { .ret = confined, .err = err };
		struct sbuf b = { 0 };

		a.ret = a.ret ?: look(&q, &b, &a.err);
		a.len = a.ret ? 0 : b.len;
		if (full_write(out, &a, sizeof(a), NULL) || full_write(out, b.s, a.len, NULL))
			break;
		sbuf_free(&b);
	}
}

/* ---- the recorder ---- */

/* What it reads may itself wait, for a process that hangs, and may have been taken over by one. */
static int answer_read(const struct record *r, void *to, size_t n)
{
	for (size_t done = 0; done < n;) {
		struct pollfd p = { .fd = r->look.from, .events = POLLIN };
		int ret = poll(&p, 1, RECORD_PATIENCE_MS);
		ssize_t got = ret > 0 ? read(p.fd, (char *)to + done, n - done) : 0;

		if (!ret)
			return -ETIMEDOUT;
		if ((ret < 0 || got < 0) && errno != EINTR)
			return -errno;
		if (ret > 0 && !got)
			return -EPIPE;
		done += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

static int answer_take(const struct record *r, struct answer *a, char **text)
{
	int ret = answer_read(r, a, sizeof(*a));

	if (ret)
		return ret;
	a->err.text[sizeof(a->err.text) - 1] = '\0';
	str_printable(a->err.text);
	if (a->err.code < KVMFT_OK || a->err.code > KVMFT_LACKING)
		a->err.code = KVMFT_FAILED;
	if (a->len > ANSWER_MAX)
		return -EPIPE; /* as good as none */
	*text = calloc(1, a->len + 1);
	return *text ? answer_read(r, *text, a->len) : -ENOMEM;
}

/* The recording goes on without it. Once its pipes are closed, it ends when it can. */
static void give_up(struct record *r, bool silent)
{
	r->blind = true;
	util_close_fd(&r->look.to);
	util_close_fd(&r->look.from);
	r->note("kvmft-look (process %d) %s: VMs and threads that appear from now on are not known",
		r->look.pid, silent ? "does not answer" : "was killed");
}

/*
 * *text receives the answer, len bytes and a NUL; to be freed. There is nothing in it if nobody is
 * left to answer.
 */
static int ask(struct record *r, char what, uint32_t pid, char **text, size_t *len,
	       struct kvmft_err *err)
{
	const struct question q = { .what = what, .pid = pid };
	struct answer a = { .ret = 0 };
	int ret = r->blind ? 0 : full_write(r->look.to, &q, sizeof(q), NULL);

	*text = NULL;
	ret = ret || r->blind ? ret : answer_take(r, &a, text);
	if ((ret == -EPIPE || ret == -ETIMEDOUT) && r->started) {
		give_up(r, ret == -ETIMEDOUT);
		ret = 0;
	}
	if (!ret && r->blind) {
		free(*text);
		a = (struct answer){ .ret = 0 };
		*text = calloc(1, 1);
		ret = *text ? 0 : -ENOMEM;
	}
	if (ret)
		return err_why(err, ret, "cannot ask the process kvmft-look, which looks for VMs");
	*len = a.len;
	if (a.ret && err)
		*err = a.err;
	return a.ret;
}

int record_look_start(struct record *r)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int ret;

	if (!(r->side & CAP_SIDE_HOST))
		return 0;
	ret = record_helper_start(r, &r->look, look_main, NULL);
	return ret ?: ask(r, LOOK_READY, 0, &text, &len, r->err);
}

void record_look_end(struct record *r)
{
	if (!r->blind)
		record_helper_end(r, &r->look, "kvmft-look");
}

static int ask_vms(struct record *r, char what, uint32_t tid, struct vm_list **list,
		   struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int ret;

	*list = NULL;
	ret = ask(r, what, tid, &text, &len, err);
	if (ret)
		return ret;
	if (r->blind)
		*list = calloc(1, sizeof(**list));
	ret = !r->blind ? vm_list_unpack(text, len, list) : *list ? 0 : -ENOMEM;
	return err_why(err, ret, "cannot list the VMs");
}

int record_look_vms(struct record *r, struct vm_list **list, struct kvmft_err *err)
{
	return r->look.pid ? ask_vms(r, LOOK_VMS, 0, list, err) : vm_scan_told(NULL, list, err);
}

int record_look_made_by(struct record *r, uint32_t tid, struct vm_list **list,
			struct kvmft_err *err)
{
	return r->look.pid ? ask_vms(r, LOOK_MADE_BY, tid, list, err)
			   : vm_scan_made_by(NULL, tid, list, err);
}

int record_look_tasks(struct record *r, uint32_t pid, vm_task_fn fn, void *ctx)
{
	_cleanup_free_ char *text = NULL;
	struct vm_task t;
	size_t len;
	int ret;

	if (!r->look.pid)
		return vm_tasks_walk(NULL, pid, fn, ctx);
	ret = ask(r, LOOK_TASKS, pid, &text, &len, r->err);
	for (size_t at = 0; !ret && len - at >= sizeof(t); at += sizeof(t)) {
		memcpy(&t, text + at, sizeof(t));
		ret = fn(&t, ctx);
	}
	return ret;
}

int record_look_qemu(struct record *r, uint32_t pid, struct sbuf *line)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int ret;

	if (!r->look.pid)
		return record_met_look(pid, line);
	ret = ask(r, LOOK_QEMU, pid, &text, &len, r->err);
	if (!ret && str_starts(text, "qemu ") && !strchr(text, '\n'))
		sbuf_add(line, text);
	return ret;
}

int record_look_children(struct record *r, uint32_t pid, char **text)
{
	size_t len;

	return ask(r, LOOK_CHILDREN, pid, text, &len, r->err);
}
