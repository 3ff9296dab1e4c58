/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * many.c: many captures, a process for each CPU. Process w of n has the captures w, w + n, ...; a
 * pipe of its own brings their results in that order.
 */
#include "many.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "captures.h"
#include "kvmft/columns.h"
#include "kvmft/json.h"
#include "kvmft/sandbox.h"

#define DEPTH_MAX 16
#define LIST_MAX  100000u
#define WORKERS	  64
#define PART_MAX  (64u << 20) /* bytes of a result */
#define PIPE_SIZE (1 << 20)
#define ROWS_MAX  4096u /* of the sum */

/* ---- which captures ---- */

static bool has(const char *path, const char *name)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct stat st;

	sbuf_addf(&b, "%s/%s", path, name);
	return !b.error && !lstat(b.s, &st);
}

/* A file written by tracing programs, by its name. */
static bool is_file_of_trace(const char *name)
{
	size_t n = strlen(name);

	return n > 4 && (!strcmp(name + n - 4, ".dat") || !strcmp(name, "perf.data"));
}

static int list_add(struct operands *o, const char *path, struct str_list *list,
		    struct kvmft_err *err)
{
	const char *word;
	int ret = captures_word(o, path, &word, err);

	if (!ret && list->n == LIST_MAX)
		return err_set(err, E2BIG, "more than %u captures", LIST_MAX);
	if (!ret && array_add(&list->v, &list->n, &list->cap, &word, sizeof(word)))
		ret = err_set(err, ENOMEM, "out of memory");
	return ret;
}

static int add_below(struct operands *o, const char *path, bool sessions, unsigned int depth,
		     struct str_list *list, struct kvmft_err *err);

/* What is in a directory, by name. */
static int add_all(struct operands *o, const char *path, struct dirent **d, int n, bool sessions,
		   unsigned int depth, struct str_list *list, struct kvmft_err *err)
{
	size_t len = strlen(path);
	int ret = 0;

	while (len > 1 && path[len - 1] == '/')
		len--;
	for (int i = 0; i < n && !ret; i++) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };
		struct stat st;

		if (strcmp(path, "."))
			sbuf_addf(&b, "%.*s/", (int)len, path);
		sbuf_add(&b, d[i]->d_name);
		if (b.error)
			ret = err_set(err, ENOMEM, "out of memory");
		else if (d[i]->d_name[0] == '.' || lstat(b.s, &st))
			continue;
		else if (S_ISDIR(st.st_mode))
			ret = add_below(o, b.s, sessions, depth + 1, list, err);
		else if (S_ISREG(st.st_mode) && is_file_of_trace(d[i]->d_name))
			ret = list_add(o, b.s, list, err);
	}
	return ret;
}

static int add_below(struct operands *o, const char *path, bool sessions, unsigned int depth,
		     struct str_list *list, struct kvmft_err *err)
{
	_cleanup_(session_free) struct session s = { 0 };
	struct kvmft_err none = { .text = "" };
	struct dirent **d;
	int n, ret;

	/* Without its meta file it is damaged, which has to be reported. */
	if (has(path, "meta") || has(path, "seg000000"))
		return depth && session_is_guest(path) ? 0 : list_add(o, path, list, err);
	if (sessions && !session_read(path, &s, &none) && s.n)
		return list_add(o, path, list, err);
	if (depth > DEPTH_MAX)
		return 0;
	n = scandir(path, &d, NULL, alphasort);
	if (n < 0)
		return depth ? 0 : err_set(err, errno, "cannot read %s: %s", path, strerror(errno));
	ret = add_all(o, path, d, n, sessions, depth, list, err);
	while (n--)
		free(d[n]);
	free(d);
	return ret;
}

int many_list(struct operands *o, const char *path, bool sessions, struct str_list *list,
	      struct kvmft_err *err)
{
	size_t before = list->n;
	struct stat st;
	int ret;

	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return list_add(o, path, list, err);
	ret = add_below(o, path, sessions, 0, list, err);
	/* Nothing is there: whoever opens it will report that. */
	return ret || list->n > before ? ret : list_add(o, path, list, err);
}

bool many_is_tree(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode) && !has(path, "meta") &&
	       !has(path, "seg000000");
}

/* ---- processes ---- */

struct head {
	uint32_t len, rows, notes; /* bytes that follow */
	int32_t code;
	char why[sizeof(((struct kvmft_err *)NULL)->text)];
};

struct many {
	const struct str_list *list;
	many_fn *fn;
	void *ctx;
	int pipe[WORKERS];
	size_t n;
	struct sbuf text, rows, notes; /* of the last result */
	struct head head;
};

/* Messages on standard error, which is a file in memory. */
static int notes_take(struct sbuf *b)
{
	off_t n = lseek(STDERR_FILENO, 0, SEEK_CUR);

	if (n <= 0 || n > (off_t)PART_MAX || !sbuf_room(b, (size_t)n))
		return 0;
	n = full_pread(STDERR_FILENO, b->s, (size_t)n, 0);
	b->len = n > 0 ? (size_t)n : 0;
	return lseek(STDERR_FILENO, 0, SEEK_SET) < 0 ? -errno : 0;
}

static int one(struct many *m, size_t i, int fd)
{
	_cleanup_(sbuf_free) struct sbuf rows = { 0 }, notes = { 0 };
	struct kvmft_err err = { .text = "" };
	struct head h = { 0 };
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	int ret = f ? m->fn(m->ctx, m->list->v[i], f, &rows, &err) : -ENOMEM;

	if (f && fclose(f))
		ret = -ENOMEM;
	if (ret >= 0 && (rows.error || size > PART_MAX || rows.len > PART_MAX))
		ret = err_set(&err, EFBIG, "its result is too large");
	h.code = ret;
	if (notes_take(&notes))
		ret = -EIO;
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
	ret = ret || !h.notes ? ret : full_write(fd, notes.s, h.notes, NULL);
	free(text);
	return ret;
}

static _Noreturn void worker(struct many *m, size_t w, size_t n, int fd, pid_t parent)
{
	struct kvmft_err err = { .text = "" };
	unsigned int layers;
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
	ret = sandbox_enter_reader(&layers, &err);
	for (size_t i = w; i < m->list->n && !ret; i += n)
		ret = one(m, i, fd);
	_exit(ret ? 1 : 0);
}

static int start(struct many *m, size_t w, size_t n)
{
	pid_t parent = getpid(), pid;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	(void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE); /* so that it goes on while others are read */
	pid = fork();
	if (!pid) {
		close(fds[0]);
		worker(m, w, n, fds[1], parent);
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

static int by_file(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return x->at < y->at ? -1 : 1;
}

/* A capture that is listed twice would count twice in the sum. */
static int each_once(struct str_list *list)
{
	_cleanup_free_ struct seen *s = calloc(list->n + 1, sizeof(*s));
	struct stat st;
	size_t n = 0, k = 0;

	if (!s)
		return -ENOMEM;
	for (size_t i = 0; i < list->n; i++)
		if (!stat(list->v[i], &st))
			s[n++] = (struct seen){ st.st_dev, st.st_ino, i };
	qsort(s, n, sizeof(*s), by_file);
	for (size_t i = 1; i < n; i++) {
		if (s[i].dev != s[i - 1].dev || s[i].ino != s[i - 1].ino)
			continue;
		cli_note("%s is named more than once: it counts once", list->v[s[i].at]);
		list->v[s[i].at] = NULL;
	}
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i])
			list->v[k++] = list->v[i];
	list->n = k;
	return 0;
}

int many_begin(struct str_list *list, many_fn *fn, void *ctx, struct many **out,
	       struct kvmft_err *err)
{
	struct many *m = calloc(1, sizeof(*m));
	cpu_set_t cpus;
	size_t n = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (size_t)CPU_COUNT(&cpus);
	int ret = 0;

	*out = m;
	if (!m)
		return err_set(err, ENOMEM, "out of memory");
	*m = (struct many){ .list = list, .fn = fn, .ctx = ctx };
	if (each_once(list))
		return err_set(err, ENOMEM, "out of memory");
	n = MIN(MIN(n, (size_t)WORKERS), list->n);
	fflush(NULL);
	for (size_t w = 0; w < n && !ret; w++)
		ret = start(m, w, n);
	return err_why(err, ret, "cannot start processes");
}

void many_end(struct many *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++)
		close(m->pipe[i]);
	sbuf_free(&m->text);
	sbuf_free(&m->rows);
	sbuf_free(&m->notes);
	free(m);
}

static int take(int fd, void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t got = read(fd, (char *)p + done, n - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? -errno : -EIO; /* it is gone */
		done += (size_t)got;
	}
	return 0;
}

static int take_part(int fd, struct sbuf *b, uint32_t n)
{
	int ret;

	sbuf_reset(b);
	if (n > PART_MAX)
		return -EFBIG;
	if (!sbuf_room(b, n))
		return -ENOMEM;
	ret = take(fd, b->s, n);
	b->s[n] = '\0';
	b->len = ret ? 0 : n;
	return ret;
}

/* The result of capture i. */
static int result(struct many *m, size_t i)
{
	int fd = m->pipe[i % m->n], ret = take(fd, &m->head, sizeof(m->head));

	ret = ret ? ret : take_part(fd, &m->text, m->head.len);
	ret = ret ? ret : take_part(fd, &m->rows, m->head.rows);
	ret = ret ? ret : take_part(fd, &m->notes, m->head.notes);
	m->head.why[sizeof(m->head.why) - 1] = '\0';
	str_printable(m->head.why);
	return ret;
}

/* ---- the sum ---- */

struct sum {
	struct many_row *v;
	size_t n, cap;
	size_t captures; /* that have rows */
	uint64_t all, total;
};

static int sum_add(struct sum *s, const struct many_row *r)
{
	struct many_row *to = NULL;

	for (size_t i = 0; i < s->n && !to; i++)
		if (!strcmp(s->v[i].name, r->name))
			to = &s->v[i];
	s->all += r->n;
	s->total += r->total;
	if (!to && s->n == ROWS_MAX)
		to = &s->v[ROWS_MAX - 1];
	if (!to) {
		struct many_row new = *r;

		if (s->n == ROWS_MAX - 1)
			strcpy(new.name, "(others)");
		return array_add(&s->v, &s->n, &s->cap, &new, sizeof(new));
	}
	to->min = !to->timed ? r->min : r->timed ? MIN(to->min, r->min) : to->min;
	to->max = MAX(to->max, r->max);
	to->n += r->n;
	to->timed += r->timed;
	to->total += r->total;
	return 0;
}

static int sum_rows(struct sum *s, const struct sbuf *rows)
{
	struct many_row r;
	int ret = 0;

	s->captures += rows->len > 0;
	for (size_t at = 0; at + sizeof(r) <= rows->len && !ret; at += sizeof(r)) {
		memcpy(&r, rows->s + at, sizeof(r));
		r.name[sizeof(r.name) - 1] = '\0';
		str_printable(r.name);
		ret = sum_add(s, &r);
	}
	return ret;
}

static uint64_t mean(const struct many_row *r)
{
	return r->timed ? r->total / r->timed : 0;
}

static uint64_t by_value(const struct many_row *r, enum report_key key)
{
	switch (key) {
	case KEY_TIME:
	case KEY_TIME_PCT: return r->total;
	case KEY_MAX: return r->max;
	case KEY_MIN: return r->min;
	case KEY_MEAN: return mean(r);
	case KEY_NAME: return 0; /* equal ones are by name */
	default: return r->n;
	}
}

static int by_key(const void *a, const void *b, void *key)
{
	const struct many_row *x = a, *y = b;
	uint64_t v = by_value(x, *(enum report_key *)key), w = by_value(y, *(enum report_key *)key);

	return v != w ? (v > w ? -1 : 1) : strcmp(x->name, y->name);
}

/* ---- printing ---- */

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* "1.23us", rounded. */
static const char *us(uint64_t ns, char text[32])
{
	ns += 5;
	snprintf(text, 32, "%" PRIu64 ".%02uus", ns / 1000, (unsigned int)(ns % 1000 / 10));
	return text;
}

static void sum_head(const struct many_doc *d, struct columns *c, struct sbuf *b)
{
	columns_put(c, b, "%s", d->title);
	columns_put(c, b, "%s", d->what);
	columns_put(c, b, "%s%%", d->what);
	columns_put(c, b, "Time%%");
	columns_put(c, b, "Min Time");
	columns_put(c, b, "Max Time");
	columns_put(c, b, "Avg time");
	columns_end(c, b);
	if (c->print)
		sbuf_addc(b, '\n');
}

static void sum_row(const struct sum *s, const struct many_row *r, struct columns *c,
		    struct sbuf *b)
{
	char text[32];

	columns_put(c, b, "%s", r->name);
	columns_put(c, b, "%" PRIu64, r->n);
	columns_put(c, b, "%.2f%%", percent(r->n, s->all));
	columns_put(c, b, "%.2f%%", percent(r->total, s->total));
	columns_put(c, b, "%s", us(r->min, text));
	columns_put(c, b, "%s", us(r->max, text));
	columns_put(c, b, "%s", us(mean(r), text));
	columns_end(c, b);
}

/* With the columns of the tables above it. */
static void sum_text(const struct many_doc *d, const struct sum *s, struct sbuf *b)
{
	size_t n = d->top ? MIN(d->top, s->n) : s->n;
	struct columns c = { 0 };
	char text[32];

	sbuf_addf(b, "==> all %zu together <==\n\n", s->captures);
	for (int pass = 0; pass < 2; pass++) {
		c.print = pass;
		sum_head(d, &c, b);
		for (size_t i = 0; i < n; i++)
			sum_row(s, &s->v[i], &c, b);
	}
	if (n < s->n)
		sbuf_addf(b, "%*s\n", (int)c.width[0], "...");
	sbuf_addf(b, "\nTotal %s:%" PRIu64 ", %s:%s.\n", d->what, s->all, d->times,
		  us(s->total, text));
}

static int sum_json(const struct many_doc *d, const struct sum *s, struct sbuf *b)
{
	struct json j;

	json_line_begin(&j, b);
	json_put_u64(&j, "captures", s->captures);
	json_put_str(&j, "of", d->of);
	json_put_array(&j, "together");
	for (size_t i = 0; i < s->n; i++) {
		const struct many_row *r = &s->v[i];

		json_object_begin(&j);
		json_put_str(&j, "name", r->name);
		json_put_u64(&j, "count", r->n);
		json_put_u64(&j, "total_ns", r->total);
		json_put_u64(&j, "min_ns", r->min);
		json_put_u64(&j, "max_ns", r->max);
		json_object_end(&j);
	}
	json_array_end(&j);
	return json_line_end(&j);
}

static bool is(const struct many_doc *d, const char *format)
{
	return !strcmp(d->format, format);
}

/* A header for all of them, and each row preceded by the name of its capture. */
static void add_csv(const struct sbuf *text, const char *input, bool head, struct sbuf *b)
{
	bool first = true;

	for (const char *p = text->s, *end; p && *p; p = end) {
		end = strchrnul(p, '\n');
		end += *end == '\n';
		if (!first || head) {
			if (first)
				sbuf_add(b, "capture");
			else
				sbuf_add_csv_quoted(b, input);
			sbuf_addc(b, ',');
			sbuf_add_mem(b, p, (size_t)(end - p));
		}
		first = false;
	}
}

static int add_json(struct many *m, const char *input, struct sbuf *b)
{
	struct json j;
	int ret;

	json_line_begin(&j, b);
	json_put_str(&j, "capture", input);
	json_put_s64(&j, "exit", m->head.code < 0 ? KVMFT_FAILED : m->head.code);
	if (m->head.code < 0)
		json_put_str(&j, "error", m->head.why);
	ret = json_line_end(&j);
	if (ret || m->head.code < 0)
		return ret;
	/* The result is itself an object, and is inserted unchanged. */
	b->len -= 2;
	while (m->text.len && m->text.s[m->text.len - 1] == '\n')
		m->text.s[--m->text.len] = '\0';
	sbuf_addf(b, ",\"result\":%s}\n", m->text.s);
	return b->error;
}

static int add_result(struct many *m, const struct many_doc *d, const char *input, bool first,
		      struct sbuf *b)
{
	if (is(d, "json"))
		return add_json(m, input, b);
	if (m->head.code < 0)
		return 0;
	if (is(d, "csv")) {
		add_csv(&m->text, input, first, b);
	} else {
		sbuf_addf(b, "%s==> %s <==\n", first ? "" : "\n", input);
		sbuf_add_mem(b, m->text.s, m->text.len);
	}
	return b->error;
}

/* A remark on a capture: each names it. */
static void tell(const char *input, const char *text)
{
	bool named = str_starts(text, input);

	cli_note("%s%s%s", named ? "" : input, named ? "" : ": ", text);
}

static void tell_notes(const struct sbuf *notes, const char *input)
{
	char *save = NULL, *line = notes->len ? strtok_r(notes->s, "\n", &save) : NULL;

	for (; line; line = strtok_r(NULL, "\n", &save)) {
		str_printable(line);
		tell(input, str_starts(line, "kvmft: ") ? line + 7 : line);
	}
}

static int print_sum(const struct many_doc *d, struct sum *s)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	enum report_key key = d->key;
	int ret = 0;

	if (s->n)
		qsort_r(s->v, s->n, sizeof(*s->v), by_key, &key);
	if (is(d, "json")) {
		ret = sum_json(d, s, &b);
	} else if (is(d, "text") && s->captures > 1) {
		sbuf_addc(&b, '\n');
		sum_text(d, s, &b);
	}
	return ret ? ret : b.len ? sbuf_write(&b, d->f) : b.error;
}

static int print_all(struct many *m, const struct many_doc *d, struct sum *s, size_t *good,
		     bool *complete)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = 0;

	for (size_t i = 0; i < m->list->n && !ret; i++) {
		_cleanup_free_ char *input = strdup(m->list->v[i]);

		ret = input ? result(m, i) : -ENOMEM;
		if (ret)
			break;
		str_printable(input);
		ret = add_result(m, d, input, !*good, &b);
		tell_notes(&m->notes, input);
		if (m->head.code < 0)
			tell(input, m->head.why);
		*complete &= m->head.code == KVMFT_OK;
		*good += m->head.code >= 0;
		ret = ret ? ret : m->head.code < 0 ? 0 : sum_rows(s, &m->rows);
		ret = ret || !b.len ? ret : sbuf_write(&b, d->f);
	}
	return ret;
}

int many_print(struct many *m, const struct many_doc *d, struct kvmft_err *err)
{
	struct sum s = { 0 };
	size_t good = 0, n = m->list->n;
	bool complete = true;
	int ret = print_all(m, d, &s, &good, &complete);

	if (ret && ferror(d->f))
		ret = errno == EPIPE ? -EPIPE : err_why(err, ret, "cannot write");
	else if (ret)
		err_set(err, -ret, "a process that reads captures ended: %s", strerror(-ret));
	else if (!good)
		ret = err_set(err, ENODATA, "none of %zu captures gave a result", n);
	else
		ret = print_sum(d, &s);
	if (!ret && good < n)
		cli_note("%zu of %zu captures gave no result: the others are here", n - good, n);
	free(s.v);
	if (ret)
		return ret == -EPIPE ? KVMFT_OK : ret;
	return complete ? KVMFT_OK : KVMFT_INCOMPLETE;
}
