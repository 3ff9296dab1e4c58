/* SPDX-License-Identifier: GPL-2.0-or-later */
/* snapshot.c: `kvmft snapshot` makes flight recorders write out their rings. */
#include "cmds.h"

#include <sys/syscall.h>

#include "kvmft/kernel.h"
#include "kvmft/vm.h"

static const struct opt snapshot_options[] = { OPT_END };

#define WORDS_MAX 4096 /* of a command line */

struct recorder {
	struct kowner *o;
	uint32_t session; /* see session_of() */
	struct sbuf words;
};

/*
 * Its command line as text, the program without its folder: of a long one that would be all that
 * is seen. Is it `kvmft record`, and a flight recorder?
 */
static bool is_record(uint32_t pid, struct sbuf *words, bool *flight)
{
	_cleanup_free_ char *text = NULL;
	bool record = false;
	ssize_t n = file_read_all(AT_FDCWD, TEXTF("/proc/%" PRIu32 "/cmdline", pid), WORDS_MAX, &text);

	for (const char *w = text; n > 0 && w < text + n; w += strlen(w) + 1) {
		record |= !strcmp(w, "record");
		*flight |= str_starts(w, "--flight") || str_starts(w, "--before") ||
			   str_starts(w, "--trigger");
		sbuf_addf(words, " %s", w == text && strrchr(w, '/') ? strrchr(w, '/') + 1 : w);
	}
	return record;
}

static bool same_program(uint32_t a, uint32_t b)
{
	struct stat st[2];

	for (int i = 0; i < 2; i++)
		if (stat(TEXTF("/proc/%" PRIu32 "/exe", i ? b : a), &st[i]))
			return false;
	return st[0].st_dev == st[1].st_dev && st[0].st_ino == st[1].st_ino;
}

/* Recorders of a session pass on what their parents tell them. A script that names it is none. */
static uint32_t session_of(int proc, const uint32_t recorder)
{
	uint32_t pid = recorder, top = pid;
	struct proc_stat st;
	bool flight = false;

	while (!proc_stat(proc, pid, &st) && (pid = st.ppid) > 1) {
		_cleanup_(sbuf_free) struct sbuf words = { 0 };

		if (same_program(pid, recorder) && is_record(pid, &words, &flight))
			top = pid;
	}
	return top;
}

/*
 * Leaves those that are named, or all, in r[]; *sessions receives how many there are of these.
 * Other kvmft processes, such as `kvmft exits`, have instances as well, but no such signal.
 */
static size_t choose_recorders(struct kowner *list, size_t n, char **name, struct recorder *r,
			       size_t *sessions)
{
	_cleanup_close_ int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t found = 0, k;

	for (size_t i = 0; i < n; i++) {
		struct recorder *new = &r[found];
		bool flight = false, named = !*name;
		uint64_t v;

		*new = (struct recorder){ .o = &list[i] };
		new->session = session_of(proc, (uint32_t)list[i].pid);
		for (char **w = name; *w && !named; w++)
			named = !parse_u64(*w, &v) &&
				(v == (uint64_t)list[i].pid || v == new->session);
		if (!is_record((uint32_t)list[i].pid, &new->words, &flight) || !flight || !named) {
			sbuf_free(&new->words);
			continue;
		}
		for (k = 0; r[k].session != new->session; k++)
			;
		*sessions += k == found++;
	}
	return found;
}

/* By a descriptor, because its number may belong to another process by the time of the signal. */
static bool snapshot_signal(const struct kowner *o)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, o->pid, 0);

	if (!kowner_alive(o))
		return false;
	if (fd < 0)
		return errno == ENOSYS && !kill(o->pid, SIGUSR1);
	return !syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0);
}

static int snapshot_run(void *opts __unused_arg, int argc, char **argv, struct kvmft_err *err)
{
	const bool all = argc == 1 && !strcmp(argv[0], "all");
	_cleanup_free_ struct kowner *list = NULL;
	_cleanup_free_ struct recorder *r = NULL;
	struct ktracefs *t;
	size_t n = 0, sessions = 0, told = 0;
	uint64_t pid;
	int ret;

	argc -= all;
	argv += all;
	for (char **name = argv; *name; name++)
		if (parse_u64(*name, &pid))
			return err_usage(err, "'%s' is not a process id", *name);
	ret = ktracefs_open(NULL, 0, &t, err);
	if (ret)
		return ret;
	ret = err_why(err, kowners_alive(t, &list, &n), "cannot look for recorders");
	ktracefs_close(t);
	r = ret ? NULL : calloc(n + 1, sizeof(*r));
	if (!ret && !r)
		ret = err_set(err, ENOMEM, "out of memory");
	n = ret ? 0 : choose_recorders(list, n, argv, r, &sessions);
	if (sessions > 1 && !all && !argc) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };

		for (size_t i = 0; i < n; i++)
			sbuf_addf(&b, "%s%d (%.60s)", i ? ", " : "", r[i].o->pid,
				  r[i].words.len ? r[i].words.s + 1 : "");
		ret = err_usage(err, "several flight recorders are running: name one or more, or all: %s",
				 b.s ?: "");
	}
	for (size_t i = 0; i < n; i++) {
		if (!ret && snapshot_signal(r[i].o) && ++told)
			printf("%d: told to write out its ring\n", r[i].o->pid);
		sbuf_free(&r[i].words);
	}
	if (ret || told)
		return ret;
	return err_set(err, ESRCH, argc ? "no flight recorder of that process id is running here" :
		       "no flight recorder of kvmft is running here: start one with kvmft "
		       "record --flight-recorder");
}

const struct cmd cmd_snapshot = {
	.name = "snapshot",
	.summary = "make flight recorders write out their rings",
	.args = "[all | PID...]",
	.description =
		"Tells the `kvmft record --flight-recorder` of this machine, or the one of that process\n"
		"id, to write out its ring, as SIGUSR1 does; one that records guests, too, passes that\n"
		"on to all sides. If several are running, they are listed, and none is told.",
	.examples = "  kvmft snapshot\n"
		    "  kvmft snapshot all",
	.opts = snapshot_options,
	.run = snapshot_run,
	.max_args = -1,
};
