/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hijack.c: tries what a hijacked recorder, or a helper of one, could do. Makes what a recorder
 * has, an instance of its own and a capture; confines itself with the same function; and makes the
 * attempts.
 *
 *   hijack WHO     free (nobody confines it), recorder, guest (a guest's recorder), look, watch, qemu, reader, store
 *   hijack answer  what a recorder makes of a kvmft-look, kvmft-qemu or kvmft-store that lies, and kvmft-output of a
 *                  reader
 *
 * A line "NAME: done" or "NAME: ERROR" for each attempt, those of tests/lib/attacks.c and of the tables here,
 * in the current directory, which has to be empty. Files are opened and not written to.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvmft/results.h"
#include "record/record.h"
#include "sides/sides.h"
#include "lib/attacks.h"

/* Folders that paths begin in. */
enum { ROOT, TRACEFS, INSTANCE, OTHERS, CAPTURE, HERE, PREY, FOLDERS };
enum { R = O_RDONLY, W = O_WRONLY, RW = O_RDWR, MAKE = O_WRONLY | O_CREAT | O_EXCL };

static const struct {
	const char *name;
	int folder;
	const char *path;
	int flags;
} opens[] = {
	{ "read passwords", ROOT, "etc/shadow", R },
	{ "list /root", ROOT, "root", R | O_DIRECTORY },
	{ "write passwords", ROOT, "etc/passwd", W },
	{ "write a crontab", ROOT, "etc/cron.d/hijack-new", MAKE },
	{ "a note for kvmft reset", ROOT, "run/kvmft/hijack-new", MAKE },
	{ "core_pattern", ROOT, "proc/sys/kernel/core_pattern", W },
	{ "sysrq", ROOT, "proc/sysrq-trigger", W },
	{ "kernel log", ROOT, "dev/kmsg", W },
	{ "make a VM", ROOT, "dev/kvm", RW },
	{ "a terminal", ROOT, "dev/tty", RW },
	{ "a new terminal", ROOT, "dev/ptmx", R },
	{ "take a CPU away", ROOT, "sys/devices/system/cpu/cpu1/online", W },
	{ "read about CPUs", ROOT, "sys/devices/system/cpu/online", R },
	{ "debugfs", ROOT, "sys/kernel/debug/kvm", R | O_DIRECTORY },
	{ "list processes", ROOT, "proc", R | O_DIRECTORY },
	{ "another's environment", PREY, "environ", R },
	{ "another's memory, to read", PREY, "mem", R },
	{ "another's memory, to write", PREY, "mem", W },
	{ "another's descriptors", PREY, "fd", R | O_DIRECTORY },
	{ "another's files, by its root", PREY, "root/etc", R | O_DIRECTORY },
	{ "own memory", ROOT, "proc/self/mem", RW },
	{ "main trace: read", TRACEFS, "trace", R },
	{ "main trace: take its events", TRACEFS, "trace_pipe", R | O_NONBLOCK },
	{ "main trace: take its pages", TRACEFS, "per_cpu/cpu0/trace_pipe_raw", R | O_NONBLOCK },
	{ "main trace: stop it", TRACEFS, "tracing_on", W },
	{ "main trace: clear it", TRACEFS, "per_cpu/cpu0/trace", W },
	{ "main trace: write to it", TRACEFS, "trace_marker", W },
	{ "main trace: its clock", TRACEFS, "trace_clock", W },
	{ "main trace: its size", TRACEFS, "buffer_size_kb", W },
	{ "main trace: its events", TRACEFS, "events/enable", W },
	{ "main trace: its tracer", TRACEFS, "current_tracer", W },
	{ "kprobes", TRACEFS, "kprobe_events", W },
	{ "uprobes", TRACEFS, "uprobe_events", W },
	{ "synthetic events", TRACEFS, "synthetic_events", W },
	{ "names of tasks", TRACEFS, "saved_cmdlines", R },
	{ "instances: list", TRACEFS, "instances", R | O_DIRECTORY },
	{ "others' instance: take its events", OTHERS, "trace_pipe", R | O_NONBLOCK },
	{ "others' instance: read", OTHERS, "trace", R },
	{ "others' instance: shrink it by reading", OTHERS, "free_buffer", R },
	{ "others' instance: stop it", OTHERS, "tracing_on", W },
	{ "others' instance: its events", OTHERS, "events/enable", W },
	{ "own instance: read", INSTANCE, "trace_pipe", R | O_NONBLOCK },
	{ "own instance: its events", INSTANCE, "events/enable", W },
	{ "own instance: its options", INSTANCE, "options/raw", W },
	{ "own instance: take the printks of all", INSTANCE, "options/trace_printk_dest", W },
	{ "own instance: copy the markers of all", INSTANCE, "options/copy_trace_marker", W },
	{ "own instance: whose events", INSTANCE, "set_event_pid", W },
	{ "own instance: its size", INSTANCE, "buffer_size_kb", W },
	{ "own instance: its tracer", INSTANCE, "current_tracer", W },
	{ "own instance: functions", INSTANCE, "set_ftrace_filter", W },
	{ "capture: a new file", CAPTURE, "new", MAKE },
	{ "capture: set-uid", CAPTURE, "suid", MAKE },
	{ "capture: meta", CAPTURE, "meta", W },
	{ "beside the capture: a new file", HERE, "beside", MAKE },
	{ "beside the capture: a file", HERE, "victim", W },
};

static struct record rec;
static struct kvmft_err error;
static const char *who;
static int folder[FOLDERS];
static pid_t command;
static size_t tried; /* index into opens or others below */

static void enter(void)
{
	int ret;

	if (!strcmp(who, "free"))
		return;
	if (!strcmp(who, "watch"))
		ret = record_confine_watch(&rec, &error);
	else if (!strcmp(who, "qemu"))
		ret = record_confine_qemu(&error);
	else if (!strcmp(who, "store"))
		ret = side_store_confine(rec.w, &error);
	else if (!strcmp(who, "reader"))
		ret = sandbox_enter_reader(&rec.confined, &error);
	else if (!strcmp(who, "look"))
		ret = record_confine_helper(SANDBOX_CALLS_LOOKER, NULL, 0, &error);
	else
		ret = record_confine(&rec, command);
	if (!ret)
		return;
	fprintf(stderr, "hijack: %s\n", error.text);
	_exit(125);
}

static long try_open(const struct attack *a __unused_arg)
{
	mode_t mode = !strcmp(opens[tried].path, "suid") ? 04755 : 0600;
	int at = folder[opens[tried].folder];
	int fd = openat(at, opens[tried].path, opens[tried].flags | O_NOCTTY | O_CLOEXEC, mode);

	if (fd >= 0 && opens[tried].flags == MAKE)
		(void)!unlinkat(at, opens[tried].path, 0);
	return fd;
}

/* ---- what takes more than one call ---- */

/* A file that it may read must not become writable for all. */
static long give_away(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	long ret;

	if (fd < 0 || fstat(fd, &st))
		return -1;
	ret = fchmod(fd, st.st_mode | 0022);
	if (!ret)
		(void)!fchmod(fd, st.st_mode & 07777);
	return ret;
}

static long give_trace(void) { return give_away(folder[INSTANCE], "trace"); }
static long give_cpus(void) { return give_away(folder[ROOT], "sys/devices/system/cpu/online"); }
static long give_capture(void) { return give_away(folder[CAPTURE], "meta"); }
static long kill_command(void) { return kill(command, 0); }
static long kill_parent(void) { return kill(getppid(), 0); }
static long remove_others(void) { return rmdir("others"); }
static long remove_victim(void) { return unlinkat(folder[HERE], "victim", 0); }
static long new_dir(void) { return mkdirat(folder[CAPTURE], "seg000001", 0700); }
static long new_link(void) { return symlinkat("/etc/shadow", folder[CAPTURE], "link"); }
static long new_instance(void)
{
	long ret = mkdirat(folder[TRACEFS], "instances/hijack-new", 0700);

	if (!ret)
		(void)!unlinkat(folder[TRACEFS], "instances/hijack-new", AT_REMOVEDIR);
	return ret;
}

static long capture_out(void) { return renameat(folder[CAPTURE], "meta", folder[HERE], "meta"); }
static long remove_other_instance(void) { return unlinkat(folder[TRACEFS], "instances/hijack-others", AT_REMOVEDIR); }
static long where_descriptor(void)
{
	char to[64];

	return readlinkat(folder[PREY], "fd/0", to, sizeof(to)) < 0 ? -1 : 0;
}

static long own_user(void) { return setuid(65534); }

/* Whether it can get a process of its own, by the flags that threads have or by others. */
static long new_process(void)
{
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (!pid)
		_exit(0);
	return pid;
}

static long new_namespace(void)
{
	return syscall(SYS_clone, CLONE_THREAD | CLONE_SIGHAND | CLONE_VM | CLONE_NEWUSER, 0, 0, 0, 0);
}

static const struct {
	const char *name;
	long (*run)(void);
} others[] = {
	{ "open own trace to all", give_trace },
	{ "open the list of CPUs to all", give_cpus },
	{ "open the capture to all", give_capture },
	{ "signal COMMAND", kill_command },
	{ "signal its parent", kill_parent },
	{ "remove a folder beside the capture", remove_others },
	{ "remove a file beside the capture", remove_victim },
	{ "capture: a new folder", new_dir },
	{ "capture: a link", new_link },
	{ "capture: a file moved out of it", capture_out },
	{ "make an instance", new_instance },
	{ "remove an idle instance of others", remove_other_instance },
	{ "where another's descriptor leads", where_descriptor },
	{ "become another user", own_user },
	{ "a process", new_process },
	{ "a thread in a new user namespace", new_namespace },
};

static long try_other(const struct attack *a __unused_arg)
{
	return others[tried].run();
}

/* ---- what a recorder has ---- */

static int open_dir(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	attack_must(fd >= 0, path);
	return fd;
}

static void start_command(void)
{
	command = fork();
	attack_must(command >= 0, "fork");
	while (!command)
		pause();
}

static void set_up(void)
{
	const struct kinst_config config = { .buffer_percent = -1, .buffer_kb = 64 };
	struct capw_name *name = &rec.place.name;
	char proc[64];

	rec.err = &error;
	rec.side = strcmp(who, "guest") ? CAP_SIDE_HOST : CAP_SIDE_GUEST;
	attack_set_up();
	attack_must(!mkdir("others", 0700), "others");
	folder[HERE] = rec.place.dir = open_dir(AT_FDCWD, ".");
	attack_must(!ktracefs_open(NULL, 0, &rec.t, &error) && !kinst_create(rec.t, &config, &rec.k, &error) &&
		    !capw_name_init(name, rec.place.dir, "", "capture", CAPW_REFUSE, &error) &&
		    !capw_create(name, &rec.w, &error), error.text);
	folder[ROOT] = open_dir(AT_FDCWD, "/");
	folder[TRACEFS] = ktracefs_dirfd(rec.t);
	folder[INSTANCE] = kinst_dirfd(rec.k);
	folder[CAPTURE] = capw_dirfd(rec.w);
	attack_must(!mkdirat(folder[TRACEFS], "instances/hijack-others", 0700), "an instance of others");
	folder[OTHERS] = open_dir(folder[TRACEFS], "instances/hijack-others");
	snprintf(proc, sizeof(proc), "/proc/%d", attack_prey());
	folder[PREY] = open_dir(AT_FDCWD, proc);
	start_command();
}

/* An open folder does not keep the instance alive: it may be gone already. */
static void undo(void)
{
	attack_must(!kill(command, SIGKILL) && waitpid(command, NULL, 0) == command, "COMMAND");
	capw_close(rec.w);
	attack_must(!kinst_destroy(rec.k, &error), error.text);
	close(folder[OTHERS]);
	if (unlinkat(folder[TRACEFS], "instances/hijack-others", AT_REMOVEDIR))
		attack_must(errno == ENOENT, "an instance of others");
	ktracefs_close(rec.t);
}

static char more[65536];

/* An answer of kvmft-look that claims that n bytes follow, of which 64 KiB are there; then it says no more. */
static void lie(size_t n)
{
	struct vm_list *list = NULL;
	struct record_answer a = { .len = n };
	int to[2], from[2];

	attack_must(!pipe(to) && !pipe(from) && fcntl(from[1], F_SETPIPE_SZ, 1 << 20) > 0, "pipes");
	memset(more, 'A', sizeof(more));
	attack_must(write(from[1], &a, sizeof(a)) == sizeof(a) && write(from[1], more, sizeof(more)) == sizeof(more),
		    "the answer");
	close(from[1]);
	rec = (struct record){ .err = &error, .look = { .pid = 1, .to = to[1], .from = from[0] } };
	printf("%zx: %d\n", n, record_look_vms(&rec, 0, &list, &error) < 0);
	close(to[0]);
	close(to[1]);
	close(from[0]);
}

/* A kvmft-qemu: an exit code that there is not, a line of meta that is not its own, a text without an end. */
static void lie_of_qemu(bool endless)
{
	static const char words[] = "Mend reason=forged\n";
	struct record_answer a = { .ret = -1, .len = endless ? 1u << 30 : sizeof(words) - 1 };
	int to[2], from[2];
	pid_t liar;

	attack_must(!pipe(to) && !pipe(from), "pipes");
	liar = fork();
	attack_must(liar >= 0, "fork");
	if (!liar) {
		(void)signal(SIGPIPE, SIG_DFL);
		close(from[0]);
		memset(&a.err, 'A', sizeof(a.err));
		(void)!write(from[1], &a, sizeof(a));
		if (!endless)
			(void)!write(from[1], words, sizeof(words) - 1);
		while (endless && write(from[1], more, sizeof(more)) > 0)
			;
		_exit(0);
	}
	close(from[1]);
	error = (struct kvmft_err){ .text = "" };
	rec = (struct record){
		.err = &error,
		.c = &(struct record_config){ .quiet = true },
		.qemu = { .keeper = { .pid = liar, .to = to[1], .from = from[0] } },
	};
	attack_must(record_qemu.on(&rec) < 0, "an error");
	printf("qemu: %d\n", error.code <= KVMFT_LACKING && !rec.qemu.facts.len);
	close(from[0]);
	close(to[0]);
	close(to[1]);
	attack_must(waitpid(liar, NULL, 0) == liar, "the liar");
}

/* A kvmft-store, by a message whose bytes are all the same. */
static void lie_of_store(int byte)
{
	static const char flags[] = { 0, 1 };
	struct side_said said;
	struct side s = { .to = -1 };
	int fds[2];

	memset(&said, byte, sizeof(said));
	attack_must(!pipe(fds) && write(fds[1], &said, sizeof(said)) == sizeof(said), "a pipe");
	s.from = fds[0];
	attack_must(!side_hear(&s, true, &said), "side_hear");
	printf("store: %d\n", (said.what == SAID_PROGRESS || said.what == SAID_END) && said.ret <= 0 &&
	       said.status <= KVMFT_LACKING && said.err.code <= KVMFT_LACKING &&
	       memchr(said.err.text, '\0', sizeof(said.err.text)) && memchr(flags, *(char *)&said.news.began, 2) &&
	       memchr(said.news.reason, '\0', sizeof(said.news.reason)) && !said.progress.waits_for);
	close(fds[0]);
	close(fds[1]);
}

/* To kvmft-output: a file that there is not, a name without an end, one that leads elsewhere, half a request. */
static void lie_of_reader(void)
{
	struct {
		uint32_t file;
		char name[NAME_MAX + 1];
	} r[3] = { { .file = UINT32_MAX }, { 0 }, { .name = "/../x" } };
	int to = -1, from = -1, ret[3] = { 0 }, pipe;
	struct outfile *o;

	attack_must(!mkdir("out", 0700) && !outfile_open("out/f.txt", false, 1, &o, &error), error.text);
	for (int fd = 3; fd < 100; fd++) {
		pipe = fcntl(fd, F_GETPIPE_SZ) > 0 ? fcntl(fd, F_GETFL) & O_ACCMODE : -1;
		to = pipe == O_WRONLY ? fd : to;
		from = pipe == O_RDONLY ? fd : from;
	}
	memset(r[1].name, 'A', sizeof(r[1].name));
	for (size_t i = 0; i < ARRAY_SIZE(r); i++)
		attack_must(write(to, &r[i], sizeof(r[i])) == sizeof(r[i]) &&
				    read(from, &ret[i], sizeof(*ret)) == sizeof(*ret),
			    "an answer");
	attack_must(write(to, &r, 7) == 7, "half a request");
	outfile_close(o);
	printf("reader: %d\n", ret[0] == -EINVAL && ret[1] == -ENAMETOOLONG && !ret[2] && !unlink("out/f-_.._x.txt") &&
	       !rmdir("out"));
}

int main(int argc, char **argv)
{
	const struct attack any = { .name = "" };

	who = argc > 1 ? argv[1] : "free";
	if (!strcmp(who, "answer")) {
		lie(SIZE_MAX);
		lie(SIZE_MAX / 2);
		lie(1u << 30);
		lie(100000);
		lie_of_qemu(false);
		lie_of_qemu(true);
		for (int byte = 0x41; byte < 0x100; byte += 0xbe)
			lie_of_store(byte);
		lie_of_reader();
		return 0;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	set_up();
	for (tried = 0; tried < ARRAY_SIZE(opens); tried++)
		printf("%s: %s\n", opens[tried].name, attack_word(attack_attempt(&any, try_open, enter)));
	for (tried = 0; tried < ARRAY_SIZE(others); tried++)
		printf("%s: %s\n", others[tried].name, attack_word(attack_attempt(&any, try_other, enter)));
	attack_all(enter, true);
	attack_tell();
	undo();
	return 0;
}
