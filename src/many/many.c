/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * many.c: a process for each CPU, which looks at many captures: each takes the first one that no
 * other has taken. A pipe of its own brings its results in that order.
 */
#include "kvmft/many.h"
#include "kvmft/sandbox.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define WORKERS	  64
#define PART_MAX  (64u << 20) /* bytes of a result */
#define PIPE_SIZE (1 << 20)

struct head {
	uint32_t len, rows, notes; /* bytes that follow */
	int32_t code;
	char why[MANY_WHY];
};

struct many {
	const struct str_list *list;
	many_fn *fn;
	void *ctx;
	uint32_t *owner; /* of each capture: worker + 1, or 0; shared by all processes */
	int taken[2];	 /* pipe: a byte when an owner changes */
	int pipe[WORKERS];
	size_t n;
};

static int many_one(struct many *m, size_t i, int fd)
{
	_cleanup_(sbuf_free) struct sbuf rows = { 0 }, notes = { 0 };
	struct kvmft_err err = { .text = "" };
	struct head h = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *f = xmem(open_memstream(&text, &size));
	off_t n;
	int ret = m->fn(m->ctx, m->list->v[i], f, &rows, &err);

	if (fclose(f) || !text)
		memory_out();
	if (ret >= 0 && (rows.error || size > PART_MAX || rows.len > PART_MAX))
		ret = err_set(&err, EFBIG, "its result is too large");
	/* Messages on standard error, which is a file in memory. */
	n = lseek(STDERR_FILENO, 0, SEEK_CUR);
	if (n > 0 && n <= (off_t)PART_MAX && sbuf_room(&notes, (size_t)n)) {
		n = full_pread(STDERR_FILENO, notes.s, (size_t)n, 0);
		notes.len = n > 0 ? (size_t)n : 0;
		if (lseek(STDERR_FILENO, 0, SEEK_SET) < 0)
			ret = -EIO;
	}
	h.code = ret;
	h.notes = (uint32_t)notes.len;
	if (ret >= 0) {
		h.len = (uint32_t)size;
		h.rows = (uint32_t)rows.len;
	}
	memcpy(h.why, err.text[0] || ret >= 0 ? err.text : strerror(-ret),
	       MIN(sizeof(h.why), strlen(err.text[0] || ret >= 0 ? err.text : strerror(-ret)) + 1));
	ret = full_write(fd, &h, sizeof(h), NULL);
	ret = ret || !h.len ? ret : full_write(fd, text, h.len, NULL);
	ret = ret || !h.rows ? ret : full_write(fd, rows.s, h.rows, NULL);
	return ret || !h.notes ? ret : full_write(fd, notes.s, h.notes, NULL);
}

/* Takes the next capture, and says so, in one step: a kill leaves none in between. False: none. */
static bool many_claim(struct many *m, size_t w, size_t *at)
{
	uint32_t none = 0;
	int ret;

	for (; *at < m->list->n; ++*at, none = 0)
		if (__atomic_compare_exchange_n(&m->owner[*at], &none, (uint32_t)(w + 1), false,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			break;
	if (*at == m->list->n)
		return false;
	ret = full_write(m->taken[1], "", 1, NULL);
	return !ret || ret == -EAGAIN; /* if it is full, enough of it wakes its reader */
}

/* The capture at hand then has no result, and this worker takes no other. */
static void end_worker(void *fd)
{
	const struct head h = { .code = -ENOMEM, .why = "out of memory" };

	_exit(full_write(*(int *)fd, &h, sizeof(h), NULL) ? 2 : 1);
}

static _Noreturn void many_worker(struct many *m, size_t w, int fd, pid_t parent)
{
	struct kvmft_err err = { .text = "" };
	unsigned int layers;
	size_t at = 0;
	int ret, mem;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	for (size_t i = 0; i < m->n; i++)
		close(m->pipe[i]);
	mem = memfd_create("kvmft-notes", MFD_CLOEXEC);
	if (mem < 0 || dup2(mem, STDERR_FILENO) < 0)
		_exit(1);
	close(mem);
	memory_out_is(end_worker, &fd);
	ret = sandbox_enter_reader(&layers, &err);
	while (!ret && many_claim(m, w, &at))
		ret = many_one(m, at, fd);
	_exit(ret ? 1 : 0);
}

static int many_start(struct many *m)
{
	pid_t parent = getpid(), pid;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	(void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE); /* so that it goes on while others are read */
	pid = fork();
	if (!pid) {
		close(fds[0]);
		many_worker(m, m->n, fds[1], parent);
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return -EAGAIN;
	}
	m->pipe[m->n++] = fds[0];
	return 0;
}

struct seen {
	dev_t dev;
	ino_t ino;
	size_t at;
};

COMPARE(by_file, struct seen,
	ORDER(x->dev, y->dev) ?: ORDER(x->ino, y->ino) ?: ORDER(x->at, y->at));

int many_begin(struct str_list *list, many_fn *fn, void *ctx, note_fn *note, struct many **out,
	       struct kvmft_err *err)
{
	struct many *m = xcalloc(1, sizeof(*m));
	cpu_set_t cpus;
	size_t n = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (size_t)CPU_COUNT(&cpus);
	int ret = 0;
	_cleanup_free_ struct seen *s = xcalloc(list->n + 1, sizeof(*s));
	struct stat st;
	size_t known = 0, left = 0;

	*out = m;
	*m = (struct many){ .list = list, .fn = fn, .ctx = ctx, .taken = { -1, -1 } };
	/* A capture that is listed twice would count twice in the sum. */
	for (size_t i = 0; i < list->n; i++)
		if (!stat(list->v[i], &st))
			s[known++] = (struct seen){ st.st_dev, st.st_ino, i };
	array_sort(s, known, by_file);
	for (size_t i = 1; i < known; i++) {
		if (s[i].dev != s[i - 1].dev || s[i].ino != s[i - 1].ino)
			continue;
		note("%s is named more than once: it counts once", list->v[s[i].at]);
		list->v[s[i].at] = NULL;
	}
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i])
			list->v[left++] = list->v[i];
	list->n = left;
	m->owner = mmap(NULL, (list->n + 1) * sizeof(*m->owner), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m->owner == MAP_FAILED) {
		m->owner = NULL;
		ret = -ENOMEM;
	}
	if (!ret && (pipe2(m->taken, O_CLOEXEC) < 0 || fcntl(m->taken[1], F_SETFL, O_NONBLOCK) < 0))
		ret = -errno;
	n = MIN(MIN(n, (size_t)WORKERS), list->n);
	fflush(NULL);
	for (size_t w = 0; w < n && !ret; w++)
		ret = many_start(m);
	util_close_fd(&m->taken[1]);
	return err_why(err, ret, "cannot start processes");
}

const struct str_list *many_inputs(const struct many *m)
{
	return m->list;
}

void many_end(struct many *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++)
		close(m->pipe[i]);
	util_close_fd(&m->taken[0]);
	if (m->owner)
		munmap(m->owner, (m->list->n + 1) * sizeof(*m->owner));
	free(m);
}

static int take_part(int fd, struct sbuf *b, uint32_t n)
{
	int ret;

	sbuf_reset(b);
	if (n > PART_MAX)
		return -EFBIG;
	if (!sbuf_room(b, n))
		return -ENOMEM;
	ret = full_read(fd, b->s, n);
	b->s[n] = '\0';
	b->len = ret ? 0 : n;
	return ret;
}

int many_result(struct many *m, size_t i, struct many_result *r)
{
	int ret = -EPIPE;
	struct head h;
	uint32_t w;
	char byte;

	/*
	 * Who took it; nobody did, if all have ended. They are taken in order, and all results
	 * before have been read: whoever lives takes this or a later one, and then says so.
	 */
	while (!(w = __atomic_load_n(&m->owner[i], __ATOMIC_SEQ_CST)) &&
	       !full_read(m->taken[0], &byte, 1))
		;
	if (w && w <= m->n) {
		int fd = m->pipe[w - 1];

		ret = full_read(fd, &h, sizeof(h));
		ret = ret ?: take_part(fd, &r->text, h.len);
		ret = ret ?: take_part(fd, &r->rows, h.rows);
		ret = ret ?: take_part(fd, &r->notes, h.notes);
	}
	if (!ret) {
		r->code = h.code;
		memcpy(r->why, h.why, sizeof(r->why));
		r->why[sizeof(r->why) - 1] = '\0';
		str_printable(r->why);
	}
	if (ret != -EPIPE)
		return ret;
	many_result_free(r);
	r->code = -EIO;
	snprintf(r->why, sizeof(r->why), "the process that read it was killed");
	return 0;
}

void many_result_free(struct many_result *r)
{
	sbuf_free(&r->text);
	sbuf_free(&r->rows);
	sbuf_free(&r->notes);
}
