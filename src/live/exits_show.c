/* SPDX-License-Identifier: GPL-2.0-or-later */
/* exits_show.c: one table to standard output, or to a file that is replaced in one step. */
#include "exits.h"
#include "kvmft/screen.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>

struct show_to {
	struct exits_run *x;
	int fd; /* of the new file; -1 = standard output */
};

static int show_flush(void *ctx, struct sbuf *b)
{
	struct show_to *to = ctx;
	enum session_write how;
	int ret;

	if (b->error)
		return b->error;
	if (to->fd >= 0) {
		ret = full_write(to->fd, b->s, b->len, NULL);
		sbuf_reset(b);
		return ret;
	}
	ret = session_write(to->x->signal_fd, b->s, b->len, &how, NULL);
	sbuf_reset(b);
	if (ret || how == SESSION_WRITTEN)
		return ret;
	to->x->end = EXITS_READER_GONE;
	return -EPIPE;
}

void exits_page_fill(const struct exits_run *x, const struct exits_view *v, struct exits_page *p)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	*p = (struct exits_page){
		.view = v,
		.names = &x->names,
		.isa = x->isa,
		.columns = x->target.group == EXITS_BY_REASON ? EXITS_COL_REASON :
			   x->target.pid || x->target.threads ? EXITS_COL_TID : EXITS_COL_PID_TID,
		.tid_header = x->target.threads ? "TIDS" : "TID",
		.realtime_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec,
		.elapsed_ns = util_now_ns() - x->interval_ns,
		.lost = x->lost,
		.lost_unknown = x->lost_unknown,
		.engine = x->engine->name,
		.target = x->target.title.s,
		.first = !x->tables || x->c->file,
		.width = !x->c->file && isatty(STDOUT_FILENO) ? screen_width(STDOUT_FILENO) : 0,
	};
}

/* In a file with counters, a VM that has ended is shown once more and then no longer. */
static bool show_present(const void *ctx, const struct exits *e, const struct exits_thread *t)
{
	return !exits_past(e, t) && exits_wanted(ctx, e, t);
}

static int show_page(struct exits_run *x, int fd)
{
	enum exits_format format = x->c->format < 0 ? EXITS_TEXT : (enum exits_format)x->c->format;
	bool counters = format == EXITS_OPENMETRICS || format == EXITS_PROMETHEUS;
	struct show_to to = { .x = x, .fd = fd };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct exits_view v;
	struct exits_page p;
	int ret = exits_view_make(&x->table, x->c->per_vm ? EXITS_BY_VM : x->target.group, counters,
				  counters ? show_present : exits_wanted, x, &v);

	if (ret)
		return ret;
	exits_page_fill(x, &v, &p);
	/* A blank line between tables that people read. */
	if (format == EXITS_TEXT && !p.first)
		sbuf_addc(&b, '\n');
	ret = exits_print(format, &p, &b, show_flush, &to);
	x->seen += v.count;
	exits_view_free(&v);
	return ret;
}

/* ---- a file that is there whole or not at all ---- */

/* Reported now, not when there are counts to lose. */
static int check_folder(const char *path, struct kvmft_err *err)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;
	char folder[PATH_MAX];
	int ret;

	if (len >= sizeof(folder))
		return err_why(err, ENAMETOOLONG, "cannot write %s", path);
	snprintf(folder, sizeof(folder), "%.*s", (int)len, path);
	ret = access(len ? folder : slash ? "/" : ".", W_OK | X_OK);
	return ret < 0 ? err_why(err, errno, "cannot write %s: its folder", path) : 0;
}

/* Never through a link, never over a device: renaming would replace those themselves. */
int exits_file_check(const char *path, struct kvmft_err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? check_folder(path, err) :
					 err_why(err, errno, "cannot write %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EEXIST, "cannot write %s: it exists and is not a plain file "
			       "(-o - is standard output)", path);
	return check_folder(path, err);
}

/* For others to read, as far as the umask allows: a collector runs as another user. */
static int show_file(struct exits_run *x)
{
	struct newfile f = { .fd = -1 };
	_cleanup_close_ int dir = -1;
	const char *base;
	int ret = exits_file_check(x->c->file, x->err);

	if (ret)
		return ret;
	ret = dir = file_parent_open(x->c->file, &base);
	if (ret >= 0)
		ret = newfile_open(&f, dir, 0644);
	ret = ret ?: show_page(x, f.fd);
	ret = ret ?: newfile_commit(&f, base, NEWFILE_REPLACE);
	newfile_close(&f);
	return err_why(x->err, ret, "cannot write %s", x->c->file);
}

int exits_show(struct exits_run *x)
{
	int ret;

	if (x->c->file)
		return show_file(x);
	ret = show_page(x, -1);
	if (ret && x->end == EXITS_READER_GONE)
		return 0;
	return err_why(x->err, ret, "cannot write");
}
