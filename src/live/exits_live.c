/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits_live.c: counting exits live, from its configuration to its result: what is waited for, and
 * tables to standard output, a file or the whole terminal.
 */
#include "exits.h"

#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>

#include "kvmft/util.h"

/* ---- one table to standard output, or to a file that is replaced in one step ---- */

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

static void page_fill(const struct exits_run *x, const struct exits_view *v, struct exits_page *p)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	*p = (struct exits_page){
		.view = v, .names = &x->names, .isa = x->isa,
		.columns = x->target.group == EXITS_BY_REASON ? EXITS_COL_REASON :
			   x->target.pid || x->target.threads ? EXITS_COL_TID : EXITS_COL_PID_TID,
		.tid_header = x->target.threads ? "TIDS" : "TID",
		.realtime_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec,
		.elapsed_ns = util_now_ns() - x->interval_ns, .lost = x->lost,
		.lost_unknown = x->lost_unknown, .engine = x->engine->name,
		.target = x->target.title.s, .first = !x->tables || x->c->file,
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
	struct exits_view v = { .e = &x->table };
	struct exits_page p;
	int ret;

	if (x->steal) {
		page_fill(x, &v, &p);
		return steal_print(format, &p, &x->taken, &b, show_flush, &to);
	}
	exits_view_make(&x->table, x->c->per_vm > 0 ? EXITS_BY_VM : x->target.group, counters,
			counters ? show_present : exits_wanted, x, &v);
	page_fill(x, &v, &p);
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

static int exits_show(struct exits_run *x)
{
	int ret;

	if (x->c->file) {
		struct newfile f = { .fd = -1 };
		_cleanup_close_ int dir = -1;
		const char *base;

		/* Others may read it, as far as the umask allows: a collector is another user. */
		ret = exits_file_check(x->c->file, x->err);
		ret = dir = ret ?: capw_file_parent_open(x->c->file, &base, x->err);
		if (ret < 0)
			return ret;
		ret = newfile_open(&f, dir, 0644);
		ret = ret ?: show_page(x, f.fd);
		ret = ret ?: newfile_commit(&f, base, NEWFILE_REPLACE);
		newfile_close(&f);
		return err_why(x->err, ret, "cannot write %s", x->c->file);
	}
	ret = show_page(x, -1);
	if (ret && x->end == EXITS_READER_GONE)
		return 0;
	return err_why(x->err, ret, "cannot write");
}

/* A table on the whole terminal, renewed by ANSI sequences; else one after the other. */

#define ROWS_DEFAULT 24u
#define HEAD_ROWS    3u

/* If the terminal is gone, whoever writes the tables notices. */
static void put_screen(const char *codes)
{
	(void)!full_write(STDOUT_FILENO, codes, strlen(codes), NULL);
}

static void top_begin(struct exits_run *x)
{
	struct exits_screen *s = &x->screen;
	struct termios t;

	if (!isatty(STDOUT_FILENO))
		return;
	s->on = true;
	put_screen("\033[?1049h\033[?25l");
	/* Keys without Enter, and not shown. Signals stay. */
	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &s->saved) < 0)
		return;
	t = s->saved;
	t.c_lflag &= ~((tcflag_t)ICANON | (tcflag_t)ECHO);
	s->keys = tcsetattr(STDIN_FILENO, TCSANOW, &t) == 0;
}

static void top_end(struct exits_run *x)
{
	struct exits_screen *s = &x->screen;

	if (!s->on)
		return;
	if (s->keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &s->saved);
	put_screen("\033[?25h\033[?1049l");
	*s = (struct exits_screen){ .on = false };
}

static int keep_page(void *ctx __unused_arg, struct sbuf *b __unused_arg)
{
	return 0;
}

static int top_show(struct exits_run *x)
{
	_cleanup_(sbuf_free) struct sbuf page = { 0 }, screen = { 0 };
	struct winsize w = { .ws_row = 0 };
	enum session_write how;
	size_t running = 0;
	struct exits_view v;
	struct exits_page p;
	int ret;

	exits_view_make(&x->table, x->target.group, false, exits_wanted, x, &v);
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || !w.ws_row)
		w = (struct winsize){ .ws_row = ROWS_DEFAULT, .ws_col = 80 };
	page_fill(x, &v, &p);
	p.max_rows = w.ws_row > HEAD_ROWS + 1 ? w.ws_row - HEAD_ROWS - 1 : 1;
	for (size_t i = 0; i < x->table.nvm; i++)
		running += !x->table.vm[i].ended;
	sbuf_addf(&page, "kvmft exits: %s, %zu VM%s, %" PRIu64 " exits/s, counted by %s%s\n\n",
		  p.target, running, running == 1 ? "" : "s",
		  v.count * 1000 / MAX(p.elapsed_ns / 1000000, (uint64_t)1),
		  x->engine == &exits_engine_hist ? "the kernel" : "kvmft",
		  p.lost ? ", SOME LOST" : "");
	ret = exits_print(EXITS_TEXT, &p, &page, keep_page, NULL);
	sbuf_add(&screen, "\033[H");
	/* The page cut to the screen: a line that wraps would push others out. */
	for (const char *text = page.s; !ret && *text;) {
		size_t n = strcspn(text, "\n");

		sbuf_add_mem(&screen, text, MIN(n, (size_t)w.ws_col));
		sbuf_add(&screen, text[n] ? "\033[K\r\n" : "");
		text += n + (text[n] != '\0');
	}
	sbuf_add(&screen, "\033[J");
	ret = ret ?: screen.error;
	ret = ret ?: session_write(x->signal_fd, screen.s, screen.len, &how, NULL);
	if (!ret && how == SESSION_READER_GONE)
		x->end = EXITS_READER_GONE;
	x->seen += v.count;
	exits_view_free(&v);
	return err_why(x->err, ret, "cannot write");
}

/* ---- one poll() over signals, debugfs and the keyboard, woken when the next thing is due ---- */

#define ALIVE_MS      250u
#define TOP_INTERVAL  1000000000u

static uint64_t interval_ns(const struct exits_run *x)
{
	if (x->c->interval.set)
		return x->c->interval.v;
	return x->c->top ? TOP_INTERVAL : 0;
}

static int wait_until(struct exits_run *x, uint64_t when)
{
	struct signalfd_siginfo si;
	char key = 0;
	struct pollfd p[4] = {
		{ .fd = x->signal_fd, .events = POLLIN },
		{ .fd = x->inotify_fd, .events = POLLIN },
		{ .fd = x->screen.keys ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = x->c->file ? -1 : STDOUT_FILENO }, /* POLLERR: the reader is gone */
	};
	uint64_t now = util_now_ns();
	uint64_t ms = when > now ? (when - now + 999999) / 1000000 : 0;

	if (poll(p, 4, (int)MIN(ms, (uint64_t)60000)) < 0 && errno != EINTR)
		return err_why(x->err, errno, "cannot wait");
	if (p[1].revents)
		exits_who_changed(x);
	if (p[2].revents && read(STDIN_FILENO, &key, 1) <= 0)
		x->screen.keys = false;
	if (key == 'q' || key == 'Q')
		x->end = EXITS_QUIT;
	if (p[3].revents & POLLERR)
		x->end = EXITS_READER_GONE;
	if (p[0].revents) {
		/* Taken, so that the final table can be written; the next interrupts even that. */
		(void)!read(x->signal_fd, &si, sizeof(si));
		x->end = EXITS_SIGNAL;
	}
	return 0;
}

/* One table, and the next interval begins. */
static int show_interval(struct exits_run *x, bool last)
{
	int ret = x->engine->read(x, last);

	ret = ret ?: exits_who_new(x);
	if (!ret)
		ret = x->screen.on && !last ? top_show(x) : exits_show(x);
	if (ret)
		return ret;
	x->tables++;
	exits_interval(&x->table);
	if (x->steal)
		steal_interval(&x->taken);
	x->interval_ns = util_now_ns();
	if (x->c->count.set && x->tables >= x->c->count.v && !x->end)
		x->end = EXITS_COUNT;
	return 0;
}

static uint64_t earlier_due(uint64_t a, uint64_t b)
{
	return !a ? b : !b ? a : MIN(a, b);
}

static int wait_loop(struct exits_run *x)
{
	uint64_t step = interval_ns(x), now = x->begin_ns;
	uint64_t end = x->c->duration.set ? now + x->c->duration.v : 0, alive = now;
	uint64_t table = step ? now + step : 0, due = x->engine->tick ? now : 0;
	int ret = 0;

	while (!x->end && !ret) {
		ret = wait_until(x, earlier_due(earlier_due(earlier_due(end, table), due),
						earlier_due(alive, x->rescan_ns)));
		if (ret || x->end)
			break;
		now = util_now_ns();
		if (x->engine->tick && now >= due) {
			ret = x->engine->tick(x);
			due = util_now_ns() + (uint64_t)x->engine->tick_ms * 1000000;
		}
		if (!ret && now >= alive) {
			ret = exits_who_tick(x);
			if (exits_target_gone(x))
				x->end = EXITS_TARGET_GONE;
			alive = now + (uint64_t)ALIVE_MS * 1000000;
		}
		if (!ret && x->rescan_ns && now >= x->rescan_ns)
			ret = exits_who_tick(x);
		if (end && now >= end && !x->end)
			x->end = EXITS_DURATION;
		/* At the end a table is printed anyway. */
		if (!ret && step && now >= table && !x->end) {
			ret = show_interval(x, false);
			table = MAX(table + step, util_now_ns());
		}
	}
	if (ret || x->end == EXITS_READER_GONE || x->end == EXITS_COUNT)
		return ret;
	top_end(x);
	ret = show_interval(x, true);
	if (!ret && x->end == EXITS_TARGET_GONE)
		x->c->remark("%s ended", x->target.pid ? "the VM" : "what kvmft counted");
	return ret;
}

/* ---- the machine ---- */

static int prepare_events(struct exits_run *x)
{
	static const char *const clocks[] = { "mono_raw", "mono", "local" };
	static const enum event_role wakes[] = { EV_WAKING, EV_VCPU_WAKEUP };
	int ret = x->c->steal ? exits_steal_begin(x) : kevent_kvm_check(x->t, x->err);

	if (!ret && !x->c->steal && kevent_list_add(&x->events, "kvm", "kvm_exit", NULL))
		ret = -ENOMEM;
	if (!ret && x->c->time && kevent_list_add(&x->events, "kvm", "kvm_entry", NULL))
		ret = -ENOMEM;
	/* The events of wake-ups and halts, as far as the kernel has them. */
	for (size_t i = 0; i < ARRAY_SIZE(wakes) && x->c->latency && !ret; i++) {
		const char *sys = i ? "kvm" : "sched";

		if (kevent_exists(x->t, sys, event_name(wakes[i])))
			ret = kevent_list_add(&x->events, sys, event_name(wakes[i]), NULL);
	}
	ret = ret ?: session_formats(x->t, &x->events, &x->fmt, x->err);
	if (ret)
		return ret;
	x->exit = event_find(x->fmt, EV_EXIT, 0);
	x->entry = event_find(x->fmt, EV_ENTRY, 0);
	if (x->c->steal ? !event_find(x->fmt, EV_SWITCH, 5)->ev
			: !x->exit->ev || (!x->entry->ev && x->c->time))
		return err_lack(x->err, EBADMSG, "the format of %s cannot be understood",
				x->c->steal ? "sched_switch" : "kvm_exit or kvm_entry");
	x->waking = event_find(x->fmt, EV_WAKING, 1)->ev;
	x->wakeup = event_find(x->fmt, EV_VCPU_WAKEUP, 1)->ev;
	exit_names_init(&x->names, x->exit->ev, NULL);
	x->isa = session_isa(&x->names);
	if (!x->c->time && !x->c->steal)
		return 0;
	/* Clocks in ns; measuring the rate of a TSC would take a tenth of a second. */
	for (size_t i = 0; i < ARRAY_SIZE(clocks) && !x->clock; i++)
		if (!ktracefs_clock_check(x->t, clocks[i], NULL))
			x->clock = clocks[i];
	return 0;
}

static int exits_prepare(struct exits_run *x)
{
	int ret;

	/* Before the kernel is changed, so that Ctrl-C always finds us ready to undo it. */
	x->signal_fd = session_signals(x->err);
	if (x->signal_fd < 0)
		return x->signal_fd;
	ret = ktracefs_open(NULL, KTRACEFS_MOUNT, &x->t, x->err);
	if (ret)
		return ret;
	kreset_leftovers(x->t, x->note);
	ret = prepare_events(x);
	exits_who_begin(x);
	ret = ret ?: exits_target_find(x);
	if (ret)
		return ret;
	x->engine = x->steal || x->c->engine == EXITS_ENGINE_USER ? &exits_engine_drain
								  : &exits_engine_hist;
	ret = x->engine->start(x);
	if (!ret || x->engine == &exits_engine_drain || x->c->engine == EXITS_ENGINE_KERNEL)
		return ret;
	if (x->c->engine >= 0)
		x->c->remark("the kernel cannot count: %s", x->err->text);
	x->engine->stop(x);
	*x->err = (struct kvmft_err){ .text = "" };
	sbuf_free(&x->engine_text);
	x->engine = &exits_engine_drain;
	return x->engine->start(x);
}

/* ---- the result ---- */

static int exits_result(struct exits_run *x)
{
	bool all;
	char text[32], module[32] = "";
	const char *name;
	enum exit_isa of;
	int ret;

	if (x->steal && (x->lost || x->lost_unknown))
		x->note("events are missing: what was taken meanwhile is not in the figures");
	else if (x->lost)
		x->note("%" PRIu64 "%s exits were not counted (%s)", x->lost,
			x->lost_unknown ? " or more" : "",
			x->engine == &exits_engine_hist ? "the kernel's map was full; --engine user needs none"
							: "the ring was full");
	else if (x->lost_unknown)
		x->note("some exits were not counted");
	if (x->lost_time)
		x->note("some exits were counted but not timed: the kernel's map of times was full");
	if (x->lost || x->lost_unknown || x->lost_time)
		return KVMFT_INCOMPLETE;
	if (x->end == EXITS_READER_GONE || x->seen || (x->steal && x->table.nvm))
		return KVMFT_OK;
	all = !x->target.pid && !x->target.ntid;
	str_ns(text, sizeof(text), util_now_ns() - x->begin_ns);
	if (x->end == EXITS_TARGET_GONE)
		return err_set(x->err, ENODATA, "no exits of %s were seen in %s, until it ended",
			       x->target.title.s, text);
	ret = exits_who_list(x, true);
	if (ret)
		return ret;
	if (!x->vms->n)
		return vm_list_none(x->vms, x->err);
	/* What may raise no events. */
	for (size_t i = 0; (name = exit_module(i, &of)); i++)
		if (of == x->isa && name[0])
			snprintf(module, sizeof(module), " (%s)", name);
	return err_set(x->err, ENODATA,
		       "no exits%s%s were seen in %s although %zu VM%s: idle, or its "
		       "KVM raises no kvm_exit%s",
		       all ? "" : " of ", all ? "" : x->target.title.s, text, x->vms->n,
		       x->vms->n == 1 ? " runs" : "s run", module);
}

int exits_live_run(const struct exits_config *c, note_fn *note, struct kvmft_err *err)
{
	struct exits_run x = {
		.c = c, .note = note, .err = err, .signal_fd = -1, .inotify_fd = -1
	};
	int ret;

	x.table.timed = x.c->time;
	x.table.spreads = x.c->latency;
	ret = exits_prepare(&x);
	if (!ret && x.c->top)
		top_begin(&x);
	if (!ret) {
		bool seen = isatty(STDERR_FILENO) && !x.screen.on;
		const char *what = c->steal ? "CPU time taken" : "exit reasons";
		uint64_t begun = util_now_ns();
		char text[32];

		if (c->engine >= 0)
			note("%s", x.engine_text.s ?: x.engine->name);
		if (seen && c->duration.set)
			c->remark("%s of %s, for %s", what, x.target.title.s,
				  str_ns(text, sizeof(text), c->duration.v));
		else if (seen)
			c->remark("%s of %s... Ctrl-C ends%s", what, x.target.title.s,
				  c->interval.set ? "" : " and shows them");
		ret = exits_who_scan(&x);
		x.begin_ns = x.interval_ns = begun;
	}
	ret = ret ?: wait_loop(&x);
	top_end(&x);
	ret = ret ?: exits_result(&x);
	if (x.engine)
		x.engine->stop(&x);
	exits_steal_end(&x);
	exits_free(&x.table);
	exits_target_free(&x.target);
	vm_list_free(x.vms);
	fmt_free(x.fmt);
	kevent_list_free(&x.events);
	ktracefs_close(x.t);
	sbuf_free(&x.engine_text);
	util_close_fd(&x.inotify_fd);
	util_close_fd(&x.signal_fd);
	return ret;
}
