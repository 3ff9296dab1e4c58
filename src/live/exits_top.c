/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits_top.c: a table on the whole terminal, renewed. It needs only a few ANSI sequences: the
 * alternate screen on and off, home, clear to the end. If standard output is not a terminal, tables
 * are printed one after the other.
 */
#include "exits.h"

#include <inttypes.h>
#include <sys/ioctl.h>

#define ROWS_DEFAULT 24u
#define HEAD_ROWS    3u

/* If the terminal is gone, whoever writes the tables notices. */
static void put_screen(const char *codes)
{
	(void)!full_write(STDOUT_FILENO, codes, strlen(codes), NULL);
}

int exits_top_begin(struct exits_run *x)
{
	struct exits_screen *s = &x->screen;
	struct termios t;

	if (!isatty(STDOUT_FILENO))
		return 0;
	s->on = true;
	put_screen("\033[?1049h\033[?25l");
	/* Keys without Enter, and not shown. Signals stay. */
	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &s->saved) < 0)
		return 0;
	t = s->saved;
	t.c_lflag &= ~((tcflag_t)ICANON | (tcflag_t)ECHO);
	s->keys = tcsetattr(STDIN_FILENO, TCSANOW, &t) == 0;
	return 0;
}

void exits_top_end(struct exits_run *x)
{
	struct exits_screen *s = &x->screen;

	if (!s->on)
		return;
	if (s->keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &s->saved);
	put_screen("\033[?25h\033[?1049l");
	*s = (struct exits_screen){ .on = false };
}

static void screen_size(size_t *rows, size_t *columns)
{
	struct winsize w = { .ws_row = 0 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || !w.ws_row)
		w = (struct winsize){ .ws_row = ROWS_DEFAULT, .ws_col = 80 };
	*rows = w.ws_row;
	*columns = w.ws_col;
}

/* The page cut to the screen: a line that wraps would push others out. */
static void add_cut(struct sbuf *to, const char *text, size_t columns)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		sbuf_add_mem(to, text, MIN(n, columns));
		sbuf_add(to, text[n] ? "\033[K\r\n" : "");
		text += n + (text[n] != '\0');
	}
}

static void add_head(struct exits_run *x, const struct exits_page *p, struct sbuf *b)
{
	uint64_t ms = MAX(p->elapsed_ns / 1000000, (uint64_t)1);
	size_t running = 0;

	for (size_t i = 0; i < x->table.nvm; i++)
		running += !x->table.vm[i].ended;
	sbuf_addf(b, "kvmft exits: %s, %zu VM%s, %" PRIu64 " exits/s, counted by %s%s\n\n",
		  p->target, running, running == 1 ? "" : "s", p->view->count * 1000 / ms,
		  x->engine == &exits_engine_hist ? "the kernel" : "kvmft",
		  p->lost ? ", SOME LOST" : "");
}

static int keep(void *ctx __unused_arg, struct sbuf *b __unused_arg)
{
	return 0;
}

int exits_top_show(struct exits_run *x)
{
	_cleanup_(sbuf_free) struct sbuf page = { 0 }, screen = { 0 };
	enum session_write how;
	size_t rows, columns;
	struct exits_view v;
	struct exits_page p;
	int ret = exits_view_make(&x->table, x->target.group, false, exits_wanted, x, &v);

	if (ret)
		return err_set(x->err, ENOMEM, "out of memory");
	screen_size(&rows, &columns);
	exits_page_fill(x, &v, &p);
	p.max_rows = rows > HEAD_ROWS + 1 ? rows - HEAD_ROWS - 1 : 1;
	add_head(x, &p, &page);
	ret = exits_print(EXITS_TEXT, &p, &page, keep, NULL);
	sbuf_add(&screen, "\033[H");
	if (!ret)
		add_cut(&screen, page.s, columns);
	sbuf_add(&screen, "\033[J");
	ret = ret ?: screen.error;
	ret = ret ?: session_write(x->signal_fd, screen.s, screen.len, &how, NULL);
	if (!ret && how == SESSION_READER_GONE)
		x->end = EXITS_READER_GONE;
	x->seen += v.count;
	exits_view_free(&v);
	return err_why(x->err, ret, "cannot write");
}
