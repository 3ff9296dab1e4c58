/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fakemon.c: a QEMU monitor that does what a test says, also what no QEMU would do.
 *
 *   fakemon SOCKET STEP...
 *
 * Listens on SOCKET, serves one client by the steps, and ends. What the client says goes to stdout.
 *
 *   TEXT          sends it, with \n, \r, \e and \\ understood
 *   @wait         reads a line
 *   @sleep=MS     does nothing for so long
 *   @endless=TEXT sends TEXT until the client goes
 *   @hold         reads until the client goes
 *   @deaf         does not even accept, for a minute (must be the first step)
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listen_at(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(a.sun_path))
		return -1;
	strcpy(a.sun_path, path);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1) < 0)
		return -1;
	return fd;
}

static size_t unescape(const char *text, char *out)
{
	size_t n = 0;

	for (; *text; text++) {
		char c = *text;

		if (c == '\\' && text[1]) {
			c = *++text;
			c = c == 'n' ? '\n' : c == 'r' ? '\r' : c == 'e' ? '\033' : c;
		}
		out[n++] = c;
	}
	return n;
}

/* False when the client has gone. */
static bool send_text(int fd, const char *text)
{
	char *out = malloc(strlen(text) + 1);
	size_t n = out ? unescape(text, out) : 0, at = 0;
	bool good = out;

	while (good && at < n) {
		ssize_t got = write(fd, out + at, n - at);

		good = got > 0;
		at += good ? (size_t)got : 0;
	}
	free(out);
	return good;
}

/* A line, or all until the client goes. */
static bool read_line(int fd, bool all)
{
	char c;

	while (read(fd, &c, 1) == 1) {
		putchar(c);
		if (c == '\n') {
			fflush(stdout);
			if (!all)
				return true;
		}
	}
	fflush(stdout);
	return false;
}

static bool step(int fd, const char *s)
{
	if (!strcmp(s, "@wait"))
		return read_line(fd, false);
	if (!strcmp(s, "@hold"))
		return read_line(fd, true);
	if (!strncmp(s, "@sleep=", 7)) {
		usleep((useconds_t)atoi(s + 7) * 1000);
		return true;
	}
	if (!strncmp(s, "@endless=", 9)) {
		while (send_text(fd, s + 9))
			;
		return false;
	}
	return send_text(fd, s);
}

int main(int argc, char **argv)
{
	int listener, fd;

	signal(SIGPIPE, SIG_IGN);
	alarm(60);
	if (argc < 3)
		return 2;
	listener = listen_at(argv[1]);
	if (listener < 0) {
		fprintf(stderr, "fakemon: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	if (!strcmp(argv[2], "@deaf")) {
		pause();
		return 0;
	}
	fd = accept(listener, NULL, NULL);
	for (int i = 2; fd >= 0 && i < argc && step(fd, argv[i]); i++)
		;
	return 0;
}
