/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * small_init: process 1 of a host without shell, busybox or a root to speak of (small.t).
 *
 * Mounts what kvmft needs, loads /modules/0.ko, 1.ko ... and runs the lines of /commands: words between blanks, no
 * quotes. `& WORDS` runs in the background, its output away; `= N WORDS` runs them N times. Each other one is told by
 * `== STATUS MS AVAILABLE_KB WORDS`: a status of 128 and more is a signal's.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS 32

static long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static long available_kb(void)
{
	char text[4096];
	int fd = open("/proc/meminfo", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	char *at;

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "MemAvailable:");
	return at ? atol(at + 13) : -1;
}

static void run(char *line)
{
	char *words[WORDS + 1], shown[256], *save = NULL;
	long long begun = now_ms();
	int status, background = *line == '&', n = 0;
	pid_t pid;

	snprintf(shown, sizeof(shown), "%s", line);
	for (char *w = strtok_r(line + background, " ", &save); w && n < WORDS; w = strtok_r(NULL, " ", &save))
		words[n++] = w;
	words[n] = NULL;
	pid = fork();
	if (!pid) {
		if (background) {
			int fd = open("/dev/null", O_RDWR);

			dup2(fd, 0);
			dup2(fd, 1);
			dup2(fd, 2);
		}
		execv(words[0], words);
		_exit(127);
	}
	if (background) {
		printf("== started %s\n", shown);
		return;
	}
	while (waitpid(pid, &status, 0) < 0)
		;
	printf("== %d %lld %ld %s\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
	       now_ms() - begun, available_kb(), shown);
}

int main(void)
{
	char line[1024], again[1024];
	FILE *f;

	mount("none", "/proc", "proc", 0, NULL);
	mount("none", "/sys", "sysfs", 0, NULL);
	mount("none", "/dev", "devtmpfs", 0, NULL);
	mount("none", "/sys/kernel/tracing", "tracefs", 0, NULL);
	mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
	mount("none", "/ro", "ramfs", MS_RDONLY, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0;; i++) {
		int fd;

		snprintf(line, sizeof(line), "/modules/%d.ko", i);
		fd = open(line, O_RDONLY);
		if (fd < 0)
			break;
		if (syscall(SYS_finit_module, fd, "", 0))
			printf("== module %d: %m\n", i);
		close(fd);
		unlink(line); /* its memory is the machine's */
	}
	printf("== begin 0 %ld\n", available_kb());
	f = fopen("/commands", "r");
	while (f && fgets(line, sizeof(line), f)) {
		char *command = line;
		long times = 1;

		line[strcspn(line, "\n")] = '\0';
		if (*line == '=')
			times = strtol(line + 1, &command, 10);
		while (times-- > 0) {
			snprintf(again, sizeof(again), "%s", command + strspn(command, " "));
			run(again);
		}
	}
	printf("== end 0 %ld\n", available_kb());
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
