/* SPDX-License-Identifier: GPL-2.0-or-later */
/* snapshot.c: `kvmft snapshot` makes flight recorders write out their rings. */
#include "cmds.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>

#include "kvmft/kernel.h"

struct snapshot_opts {
	bool quiet;
};

static const struct opt snapshot_options[] = {
	OPTION('q', "quiet", OPT_FLAG, struct snapshot_opts, quiet, NULL,
	       "do not list the recorders that were told"),
	OPT_END,
};

/* Other kvmft processes, such as `kvmft exits`, have instances as well, but no such signal. */
static bool is_recorder(uint32_t pid)
{
	char path[64], text[256] = "";
	_cleanup_close_ int fd = -1;
	const char *word;

	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || full_pread(fd, text, sizeof(text) - 1, 0) <= 0)
		return false;
	for (word = text; *word; word += strlen(word) + 1)
		if (!strcmp(word, "record"))
			return true;
	return false;
}

/* By a descriptor, because its number may belong to another process by the time of the signal. */
static bool tell(const struct kowner *o)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, o->pid, 0);

	if (!kowner_alive(o) || !is_recorder((uint32_t)o->pid))
		return false;
	if (fd < 0)
		return errno == ENOSYS && !kill(o->pid, SIGUSR1);
	return !syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0);
}

static int snapshot_run(void *opts, int argc __unused_arg, char **argv __unused_arg,
			struct kvmft_err *err)
{
	const struct snapshot_opts *o = opts;
	_cleanup_free_ struct kowner *list = NULL;
	struct ktracefs *t;
	size_t n = 0, told = 0;
	int ret = ktracefs_open(NULL, 0, &t, err);

	if (ret)
		return ret;
	ret = err_why(err, kowners_alive(t, &list, &n), "cannot look for recorders");
	ktracefs_close(t);
	for (size_t i = 0; i < n && !ret; i++) {
		if (!tell(&list[i]))
			continue;
		told++;
		if (!o->quiet)
			printf("%d: told to write out its ring\n", list[i].pid);
	}
	if (ret || told)
		return ret;
	return err_set(err, ESRCH, "no flight recorder of kvmft is running here: start one with kvmft "
				   "record --flight-recorder");
}

const struct cmd cmd_snapshot = {
	.name = "snapshot",
	.summary = "make flight recorders write out their rings",
	.description =
		"Tells each `kvmft record --flight-recorder` of this machine to write out its ring, as\n"
		"SIGUSR1 does; one that records guests, too, passes that on to all sides.",
	.examples = "  kvmft snapshot",
	.opts = snapshot_options,
	.opts_size = sizeof(struct snapshot_opts),
	.run = snapshot_run,
};
