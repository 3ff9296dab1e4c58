/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guard.c: what a recorder checks in its environment before it starts, and what it gives up before
 * the first event: see "Privileges" in kvmft-record(1).
 */
#include "record.h"

#include <linux/capability.h>

#include "kvmft/sandbox.h"

/* What makes the dynamic loader load foreign code into this process. */
static const char *const loader_variables[] = { "LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH" };

int record_environment(char **command, struct kvmft_err *err)
{
	const char *path = getenv("PATH");

	for (size_t i = 0; i < ARRAY_SIZE(loader_variables); i++) {
		const char *v = getenv(loader_variables[i]);

		if (v && *v)
			return err_set(
				err, EPERM,
				"%s is set and would load other code into the recorder: env -u %s "
				"kvmft record ...; for the command alone: -- env %s=... COMMAND",
				loader_variables[i], loader_variables[i], loader_variables[i]);
	}
	if (!*command || strchr(*command, '/'))
		return 0;
	/* execvp() searches PATH: an empty or relative entry is the current directory or below. */
	for (const char *p = path; p; p = strchr(p, ':')) {
		p += p != path;
		if (*p != '/')
			return err_set(err, EPERM,
				       "PATH has an entry that is not an absolute "
				       "directory: name %s by its path",
				       *command);
	}
	return 0;
}

/* ---- privileges ---- */

/* Not root, but with the right to ignore file modes: tracefs can only be reached with that. */
static uint64_t caps_for_tracefs(void)
{
	return geteuid() ? SANDBOX_CAP(CAP_DAC_OVERRIDE) | SANDBOX_CAP(CAP_DAC_READ_SEARCH) : 0;
}

int record_confine_helper(enum sandbox_calls calls, const struct sandbox_dir *dir, size_t ndir,
			  struct kvmft_err *err)
{
	const bool looks = calls == SANDBOX_CALLS_LOOKER;
	const struct sandbox s = {
		.calls = calls, .bounding = true, .files = dir != NULL, .dir = dir, .ndir = ndir,
		.reads = calls == SANDBOX_CALLS_MONITOR,
		/* With hidepid=2, a process that we may not see looks as if it were gone. */
		.caps = SANDBOX_CAP(CAP_SYS_PTRACE) | caps_for_tracefs() |
			/* The directory of the capture may be somebody else's. */
			SANDBOX_CAP(looks ? CAP_DAC_READ_SEARCH : CAP_DAC_OVERRIDE),
	};
	unsigned int layers;

	return sandbox_enter(&s, &layers, err);
}

/* What is opened while it records; not trace_pipe, nor the rest of its instance for writing. */
enum wall_of { OF_ROOT, OF_INSTANCE, OF_WATCH, OF_BEFORE, OF_MARKER, OF_SDT, OF_NET, OF_SYNTH,
	       OF_CR3, OF_GUEST, OF_COPY };

static const struct {
	enum wall_of of;
	unsigned int rights;
	const char *path;
} walls[] = {
	{ OF_ROOT, SANDBOX_READ, "trace_clock" },
	{ OF_ROOT, SANDBOX_READ, "saved_cmdlines" },
	{ OF_ROOT, SANDBOX_READ, "saved_tgids" },
	{ OF_ROOT, SANDBOX_READ, "printk_formats" },
	{ OF_ROOT, SANDBOX_REMOVE, "instances" }, /* ours, at the end */
	{ OF_INSTANCE, SANDBOX_READ, "." },
	{ OF_INSTANCE, SANDBOX_WRITE, "events" },
	{ OF_INSTANCE, SANDBOX_WRITE, "options/raw" },
	{ OF_INSTANCE, SANDBOX_WRITE, "options/stacktrace" },
	{ OF_COPY, SANDBOX_WRITE, "options/copy_trace_marker" },
	{ OF_INSTANCE, SANDBOX_WRITE, "set_event_pid" },
	{ OF_INSTANCE, SANDBOX_WRITE, "trace" },
	{ OF_INSTANCE, SANDBOX_WRITE, "trace_clock" },
	{ OF_INSTANCE, SANDBOX_WRITE, "trace_marker" },
	{ OF_INSTANCE, SANDBOX_WRITE, "trace_marker_raw" },
	{ OF_WATCH, SANDBOX_READ, "." },
	{ OF_WATCH, SANDBOX_WRITE, "events" },
	{ OF_BEFORE, SANDBOX_WRITE, "buffer_size_kb" }, /* of the instance */
	{ OF_MARKER, SANDBOX_WRITE, "options/copy_trace_marker" }, /* of the watcher */
	{ OF_SDT, SANDBOX_READ | SANDBOX_WRITE, "uprobe_events" }, /* its probes, at the end ... */
	{ OF_NET, SANDBOX_WRITE, "dynamic_events" }, /* ... those of net-id */
	{ OF_CR3, SANDBOX_WRITE, "kprobe_events" }, /* ... of --guest-processes */
	{ OF_SYNTH, SANDBOX_WRITE, "synthetic_events" }, /* ... and the event of --trigger */
	{ OF_ROOT, SANDBOX_READ, "/sys/devices/system/cpu" },
	{ OF_ROOT, SANDBOX_READ, "/sys/devices/system/clocksource" },
	/* A recorder lists all threads at its end; on a host kvmft-look does. */
	{ OF_GUEST, SANDBOX_READ, "/proc" },
};

/* The existing directory that a path begins with; -1 = none. */
static int wall_dir(const struct record *r, enum wall_of of)
{
	switch (of) {
	case OF_INSTANCE: return kinst_dirfd(r->k);
	case OF_WATCH: return r->flight.watch ? kinst_dirfd(r->flight.watch) : -1;
	case OF_BEFORE: return r->before.asked ? kinst_dirfd(r->k) : -1;
	case OF_COPY: return r->marker == RECORD_MARKER_ALL ? kinst_dirfd(r->k) : -1;
	case OF_MARKER: return r->flight.marker ? kinst_dirfd(r->flight.watch) : -1;
	case OF_SDT: return r->sdt ? ktracefs_dirfd(r->t) : -1;
	case OF_NET: return r->net_id ? ktracefs_dirfd(r->t) : -1;
	case OF_CR3: return r->cr3 ? ktracefs_dirfd(r->t) : -1;
	case OF_SYNTH: return r->flight.synth[0] ? ktracefs_dirfd(r->t) : -1;
	case OF_GUEST: return r->side & CAP_SIDE_GUEST ? ktracefs_dirfd(r->t) : -1;
	default: return ktracefs_dirfd(r->t);
	}
}

int record_confine(struct record *r, pid_t child)
{
	struct sandbox_dir dir[ARRAY_SIZE(walls) + 1];
	struct sandbox s = {
		.calls = SANDBOX_CALLS_RECORDER, .child = child, .bounding = true,
		.files = true, .reads = true, .dir = dir, .ndir = ARRAY_SIZE(dir),
	};
	int ret;

	for (size_t i = 0; i < ARRAY_SIZE(walls); i++) {
		int at = wall_dir(r, walls[i].of);

		dir[i].fd =
			at < 0 ? -1 : openat(at, walls[i].path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
		dir[i].rights = walls[i].rights;
	}
	dir[ARRAY_SIZE(walls)].fd = capw_dirfd(r->w);
	dir[ARRAY_SIZE(walls)].rights = SANDBOX_READ | SANDBOX_WRITE | SANDBOX_CREATE;
	/* Pipes beyond the limit of an unprivileged user: there is one for each CPU. */
	s.caps = SANDBOX_CAP(CAP_SYS_RESOURCE) | caps_for_tracefs();
	/* COMMAND may have become another user, but must still be ended. */
	if (child > 0)
		s.caps |= SANDBOX_CAP(CAP_KILL);
	fds_keep(NULL, 0); /* COMMAND has what our caller had open */
	ret = sandbox_enter(&s, &r->confined, r->err);
	for (size_t i = 0; i < ARRAY_SIZE(walls); i++)
		util_close_fd(&dir[i].fd);
	return ret;
}
