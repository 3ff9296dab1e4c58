/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pager.c: text for a terminal.
 *
 * The pager is started while the program may still do that, and waits for the first byte: an error
 * that is the whole output must not clear the screen.
 */
#include "kvmft/cli.h"

#include <limits.h>
#include <poll.h>

#define SHELL "/bin/sh"
#define WIDTH "KVMFT_PAGER_WIDTH" /* internal: of the terminal, when messages go to the pager */

const char *const color_names[] = { "auto", "always", "never", NULL };

static bool in_path(const char *program)
{
	const char *dir = getenv("PATH");
	char path[PATH_MAX];

	for (; dir && *dir; dir += strcspn(dir, ":"), dir += *dir == ':') {
		snprintf(path, sizeof(path), "%.*s/%s", (int)strcspn(dir, ":"), dir, program);
		if (!access(path, X_OK))
			return true;
	}
	return false;
}

/* Whether the first word of the command exists; what only a shell understands is left to it. */
static bool can_start(const char *command)
{
	size_t n = strcspn(command, " \t");
	char program[PATH_MAX];

	if (n >= sizeof(program) || strcspn(command, "$\"'`\\;&|<>()=~*?[#") < n)
		return true;
	memcpy(program, command, n);
	program[n] = '\0';
	return strchr(program, '/') ? !access(program, X_OK) : in_path(program);
}

static _Noreturn void pager_main(const char *pager, bool wide, int in, int gone)
{
	struct pollfd p = { .fd = in, .events = POLLIN };

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	if (!(p.revents & POLLIN))
		_exit(0);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)signal(SIGXFSZ, SIG_DFL);
	(void)dup2(in, STDIN_FILENO);
	(void)fcntl(gone, F_SETFD, 0);
	/* Quit if it fits one screen; colours; no alternate screen; long lines can be scrolled. */
	(void)setenv("LESS", wide ? "FRX" : "FRXS", 0);
	/* When run by sudo, less must not be a way to a root shell. */
	if (getenv("SUDO_UID"))
		(void)setenv("LESSSECURE", "1", 1);
	execl(SHELL, "sh", "-c", pager, (char *)NULL);
	_exit(127);
}

static bool pager_start(struct page *p, const char *pager, bool wide)
{
	int end[2];
	const pid_t pid = fork_piped(end);

	if (!pid)
		pager_main(pager, wide, end[1], end[0]);
	if (pid > 0) {
		p->gone = end[1];
		p->was[0] = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		if (isatty(STDERR_FILENO) &&
		    (p->was[1] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) >= 0) {
			char width[16];

			/* Standard error has the pager's width; our processes must know it, too. */
			snprintf(width, sizeof(width), "%u", screen_width(STDERR_FILENO));
			(void)setenv(WIDTH, width, 1);
			(void)dup2(end[0], STDERR_FILENO);
		}
		(void)dup2(end[0], STDOUT_FILENO);
		/* Ctrl-C is for the pager; when it ends, so do we. */
		(void)signal(SIGINT, SIG_IGN);
		(void)signal(SIGQUIT, SIG_IGN);
	}
	util_close_fd(&end[0]);
	return pid > 0;
}

static ssize_t cut_write(void *cookie, const char *text, size_t n)
{
	struct page *p = cookie;
	int ret;

	sbuf_reset(&p->text);
	screen_cut(&p->cut, text, n, &p->text);
	ret = p->text.error;
	ret = ret ?: full_write(STDOUT_FILENO, p->text.s, p->text.len, NULL);
	if (!ret)
		return (ssize_t)n;
	errno = -ret;
	return 0;
}

bool page_color(const struct page_opts *o)
{
	return o->color == COLOR_ALWAYS ||
	       (o->color != COLOR_NEVER && screen_has_colors(STDOUT_FILENO));
}

unsigned int page_width_of_messages(void)
{
	const char *paged = getenv(WIDTH);
	uint64_t v;

	if (isatty(STDERR_FILENO))
		return screen_width(STDERR_FILENO);
	return paged && !parse_u64(paged, &v) && v < 65536 ? (unsigned int)v : 0;
}

unsigned int page_width(const struct page_opts *o)
{
	return o->wide || !isatty(STDOUT_FILENO) ? 0 : screen_width(STDOUT_FILENO);
}

void page_open(struct page *p, const struct page_opts *o, bool file)
{
	bool terminal = !file && isatty(STDOUT_FILENO);
	const char *pager = getenv("KVMFT_PAGER") ?: getenv("PAGER");
	FILE *f;

	/* One that is wanted, and there. */
	if (!terminal || o->no_pager)
		pager = NULL;
	else if (!pager)
		pager = in_path("less") && !access(SHELL, X_OK) ? "less" : NULL;
	else if (!*pager || !strcmp(pager, "cat") || !can_start(pager))
		pager = NULL;
	*p = (struct page){ .f = stdout, .gone = -1, .was = { -1, -1 } };
	p->color = !file && page_color(o);
	p->width = p->cut.width = file ? 0 : page_width(o);
	if ((pager && pager_start(p, pager, o->wide)) || !p->width)
		return;
	f = fopencookie(p, "w", (cookie_io_functions_t){ .write = cut_write });
	if (!f)
		return;
	setvbuf(f, NULL, _IONBF, 0);
	p->f = f;
}

void page_close(struct page *p)
{
	char end;

	if (!p->f) /* it was never open */
		return;
	if (p->f != stdout)
		(void)fclose(p->f);
	(void)fflush(stdout);
	if (p->gone >= 0) {
		if (dup2(p->was[0], STDOUT_FILENO) < 0)
			(void)close(STDOUT_FILENO);
		if (p->was[1] >= 0 && dup2(p->was[1], STDERR_FILENO) < 0)
			(void)close(STDERR_FILENO);
		util_close_fd(&p->was[0]);
		util_close_fd(&p->was[1]);
		while (read(p->gone, &end, 1) < 0 && errno == EINTR)
			;
	}
	util_close_fd(&p->gone);
	sbuf_free(&p->text);
	*p = (struct page){ 0 };
}
