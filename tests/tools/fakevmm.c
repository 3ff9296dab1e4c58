/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fakevmm.c: a process that looks like a QEMU, for tests of which processes are trusted. Copied to a file
 * called qemu-system-x86_64 it takes QEMU's options and ignores them; its environment says what to do,
 * in this order:
 *
 *   FAKE_VM=1          makes a KVM VM and holds it
 *   FAKE_LISTEN=PATH   listens there, '@' in front: an abstract name
 *   FAKE_HOLD=DIR      holds the lock of its memory for HOLD_S: in a file system that it mounts on DIR a
 *                      mapped page is never written back, and another mapping takes its place
 *   FAKE_HAND=1        a child goes on with that socket as descriptor 7, and the starter becomes `sleep`
 *   FAKE_UID=N         becomes that user, for good
 *   FAKE_EUID=N        only for now: root stays its saved user
 *   FAKE_LATER=PATH    listens there, as that user
 *   FAKE_DEAF=1        takes clients, and says nothing to them
 *
 * Then it prints "ready", answers every client as QMP does, and prints what clients send.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <linux/kvm.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define HANDED	  7
#define HELD	  64
#define HELD_SIZE 4096
#define LIFE_S	  120
#define HOLD_S	  15 /* ps(1) waits as well */

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

static void fuse_answer(int fd, uint64_t to, int error, const void *p, size_t n)
{
	struct fuse_out_header h = { .len = (uint32_t)(sizeof(h) + n),
				     .error = -error,
				     .unique = to };
	const struct iovec v[] = { { &h, sizeof(h) }, { (void *)p, n } };

	if (writev(fd, v, 2) < 0)
		exit(1);
}

/* One file; what is written to it gets no answer. */
static void fuse_serve(int fd)
{
	static char buf[1 << 20];
	const struct fuse_in_header *in = (const void *)buf;
	const struct fuse_attr attr = {
		.ino = 2, .size = HELD_SIZE, .mode = S_IFREG | 0600, .nlink = 1
	};
	const struct fuse_init_out init = {
		.major = 7, .minor = 31, .max_write = 4096, .flags = FUSE_WRITEBACK_CACHE
	};
	const struct fuse_entry_out entry = {
		.nodeid = 2, .attr = attr, .entry_valid = 99, .attr_valid = 99
	};
	const struct fuse_attr_out attributes = { .attr_valid = 99, .attr = attr };
	const struct fuse_open_out opened = { .fh = 1 };
	static const char zeros[HELD_SIZE];

	while (read(fd, buf, sizeof(buf)) > 0)
		switch (in->opcode) {
		case FUSE_INIT: fuse_answer(fd, in->unique, 0, &init, sizeof(init)); break;
		case FUSE_LOOKUP: fuse_answer(fd, in->unique, 0, &entry, sizeof(entry)); break;
		case FUSE_GETATTR:
			fuse_answer(fd, in->unique, 0, &attributes, sizeof(attributes));
			break;
		case FUSE_OPEN: fuse_answer(fd, in->unique, 0, &opened, sizeof(opened)); break;
		case FUSE_READ: fuse_answer(fd, in->unique, 0, zeros, sizeof(zeros)); break;
		case FUSE_WRITE:
		case FUSE_FORGET:
		case FUSE_INTERRUPT: break;
		default: fuse_answer(fd, in->unique, ENOSYS, NULL, 0);
		}
	exit(0);
}

static void *hold(void *at)
{
	return mmap(at, HELD_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void hold_memory(const char *dir)
{
	int fd = open("/dev/fuse", O_RDWR), file;
	char options[64], path[512];
	pthread_t thread;
	pid_t server;
	void *at;

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (mount("fakevmm", dir, "fuse", 0, options))
		die("mount");
	server = fork();
	if (!server) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(HOLD_S);
		fuse_serve(fd);
	}
	close(fd);
	snprintf(path, sizeof(path), "%s/file", dir);
	file = open(path, O_RDWR);
	at = mmap(NULL, HELD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (server < 0 || at == MAP_FAILED || umount2(dir, MNT_DETACH))
		die("a mapped file");
	*(char *)at = 1;
	if (pthread_create(&thread, NULL, hold, at))
		die("a thread");
	usleep(100000);
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
	if (getenv("FAKE_HOLD"))
		hold_memory(getenv("FAKE_HOLD"));
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
