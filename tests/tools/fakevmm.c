/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fakevmm.c: a process that looks like a QEMU, for tests of which processes are trusted. Copied to a file
 * called qemu-system-x86_64 it takes QEMU's options and ignores them; its environment says what to do,
 * in this order:
 *
 *   FAKE_VM=1          makes a KVM VM and holds it
 *   FAKE_LISTEN=PATH   listens there, '@' in front: an abstract name
 *   FAKE_HAND=1        a child goes on with that socket as descriptor 7, and the starter becomes `sleep`
 *   FAKE_UID=N         becomes that user, for good
 *   FAKE_EUID=N        only for now: root stays its saved user
 *   FAKE_LATER=PATH    listens there, as that user
 *   FAKE_DEAF=1        takes clients, and says nothing to them
 *
 * Then it prints "ready", answers every client as QMP does, and prints what clients send.
 */
#include <fcntl.h>
#include <grp.h>
#include <linux/kvm.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HANDED 7
#define HELD   64
#define LIFE_S 120

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int listen_at(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	size_t n = strlen(path);

	if (fd < 0 || n >= sizeof(a.sun_path))
		die(path);
	memcpy(a.sun_path, path, n);
	if (*path == '@')
		a.sun_path[0] = '\0';
	n += offsetof(struct sockaddr_un, sun_path) + (*path != '@');
	if (bind(fd, (const struct sockaddr *)&a, (socklen_t)n) || listen(fd, 4))
		die(path);
	return fd;
}

/* As with libvirt: the socket belongs to a process that is not a QEMU. */
static int hand_over(int fd)
{
	pid_t pid = -1;

	if (dup2(fd, HANDED) >= 0)
		pid = fork();
	if (fd != HANDED)
		close(fd); /* a command line that names another descriptor is wrong */
	if (pid < 0)
		die("hand over");
	if (pid) {
		execlp("sleep", "sleep", "120", NULL);
		die("sleep");
	}
	return HANDED;
}

static void become(const char *uid, int saved)
{
	uid_t u = (uid_t)strtoul(uid, NULL, 10);

	if (setgroups(0, NULL) || setresgid(u, u, u) || setresuid(saved ? 0 : u, u, saved ? 0 : u))
		die("setresuid");
}

/*
 * Kept at a number that no socket is handed over at, however many descriptors the starter has open.
 */
static void make_vm(void)
{
	int kvm = open("/dev/kvm", O_RDWR), vm = kvm < 0 ? -1 : ioctl(kvm, KVM_CREATE_VM, 0);

	if (vm < 0 || fcntl(vm, F_DUPFD, HELD) < 0)
		die("KVM_CREATE_VM");
	close(vm);
	close(kvm);
}

/* a_one is in the state that was set, b_two is enabled. */
static int answer(int fd, const char *line, int *on)
{
	static const char *const events[] = {
		"{\"return\": [{\"name\": \"a_one\", \"vcpu\": false, \"state\": \"disabled\"}, "
		"{\"name\": \"b_two\", \"vcpu\": false, \"state\": \"enabled\"}]}\r\n",
		"{\"return\": [{\"name\": \"a_one\", \"vcpu\": false, \"state\": \"enabled\"}, "
		"{\"name\": \"b_two\", \"vcpu\": false, \"state\": \"enabled\"}]}\r\n",
	};
	static const char version[] = "{\"return\": {\"qemu\": {\"micro\": 1, \"minor\": 2, \"major\": 9}, "
				      "\"package\": \"fake\"}}\r\n";
	const char *text = strstr(line, "get-state") ? events[*on] : strstr(line, "query-version") ? version :
			   "{\"return\": {}}\r\n";

	if (strstr(line, "set-state"))
		*on = strstr(line, "true") != NULL;
	printf("%s\n", line);
	fflush(stdout);
	return write(fd, text, strlen(text)) < 0;
}

static void serve(int fd)
{
	static const char hello[] = "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 1, \"minor\": 2, \"major\": 9}, "
				    "\"package\": \"\"}, \"capabilities\": []}}\r\n";
	char line[4096];
	size_t n = 0;
	int on = 0;

	if (write(fd, hello, sizeof(hello) - 1) < 0)
		return;
	while (n < sizeof(line) && read(fd, line + n, 1) == 1) {
		if (line[n++] != '\n')
			continue;
		line[n - 1] = '\0';
		if (answer(fd, line, &on))
			return;
		n = 0;
	}
}

int main(void)
{
	const char *vm = getenv("FAKE_VM"), *at = getenv("FAKE_LISTEN"), *uid = getenv("FAKE_UID");
	const char *euid = getenv("FAKE_EUID"), *later = getenv("FAKE_LATER");
	int fd = at ? listen_at(at) : -1;

	signal(SIGPIPE, SIG_IGN);
	alarm(LIFE_S);
	if (vm)
		make_vm();
	if (getenv("FAKE_HAND"))
		fd = hand_over(fd);
	alarm(LIFE_S); /* the child's own */
	if (uid || euid)
		become(uid ? uid : euid, !uid);
	if (later)
		fd = listen_at(later);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (;;) {
		int client = fd < 0 ? pause() : accept(fd, NULL, NULL);

		if (client >= 0 && !getenv("FAKE_DEAF")) {
			serve(client);
			close(client);
		}
	}
}
