/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guard.c: what a recorder asks of its surroundings before it starts, and what it gives up
 * before the first event: see "Privileges" in kvmft-record(1).
 */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "kvmft/sandbox.h"

/* ---- the environment ---- */

/* What makes the dynamic loader put somebody else's code into this process. */
static const char *const loader_variables[] = { "LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH" };

/* execvp() looks where PATH says: an empty or relative entry is whatever directory we are in. */
static bool path_is_absolute(const char *path)
{
	for (const char *p = path; p; p = strchr(p, ':')) {
		p += p != path;
		if (*p != '/')
			return false;
	}
	return true;
}

int record_environment(char **command, struct kvmft_err *err)
{
	const char *path = getenv("PATH");

	for (size_t i = 0; i < ARRAY_SIZE(loader_variables); i++) {
		const char *v = getenv(loader_variables[i]);

		if (v && *v)
			return err_set(err, EPERM,
				       "%s is set and would put other code into the recorder: env -u %s "
				       "kvmft record ...; for the command alone: -- env %s=... COMMAND",
				       loader_variables[i], loader_variables[i], loader_variables[i]);
	}
	if (*command && !strchr(*command, '/') && path && !path_is_absolute(path))
		return err_set(err, EPERM,
			       "PATH has an entry that is no absolute directory: name %s by its path",
			       *command);
	return 0;
}

/* ---- modules ---- */

static const char *vendor_module(const struct ktsc_facts *tsc)
{
	if (!strcmp(tsc->vendor, "GenuineIntel") || !strcmp(tsc->vendor, "CentaurHauls") ||
	    !strcmp(tsc->vendor, "  Shanghai  "))
		return "kvm_intel";
	if (!strcmp(tsc->vendor, "AuthenticAMD") || !strcmp(tsc->vendor, "HygonGenuine"))
		return "kvm_amd";
	return NULL;
}

int record_modules(struct record *r)
{
	const char *vendor = vendor_module(&r->tsc);

	if (!r->o->load_modules)
		return 0;
	if (r->side == CAP_SIDE_GUEST)
		return kmodule_load("msr", r->err);
	/* Another back end may have brought its own kvm and events. */
	if (kevent_exists(r->t, "kvm", "kvm_exit"))
		return 0;
	/* The vendor's one draws kvm in; where it refuses (no VMX), kvm alone has the events. */
	if (vendor && !kmodule_load(vendor, NULL))
		return 0;
	return kmodule_load("kvm", r->err);
}

/* ---- privileges ---- */

/* Not root, but with the right to pass over file modes: tracefs is reached by that alone. */
static uint64_t caps_for_tracefs(void)
{
	return geteuid() ? SANDBOX_CAP(CAP_DAC_OVERRIDE) | SANDBOX_CAP(CAP_DAC_READ_SEARCH) : 0;
}

/*
 * CAP_SYS_PTRACE: with hidepid=2 a process that we may not look at seems to be gone. CAP_DAC_OVERRIDE: the
 * directory of the capture may be somebody else's. No Landlock: it would hide /proc/PID/fd.
 */
int record_confine_helper(enum sandbox_calls calls, struct kvmft_err *err)
{
	const bool looks = calls == SANDBOX_CALLS_LOOKER;
	const struct sandbox s = {
		.calls = calls, .bounding = true,
		.caps = SANDBOX_CAP(CAP_SYS_PTRACE) | caps_for_tracefs() |
			SANDBOX_CAP(looks ? CAP_DAC_READ_SEARCH : CAP_DAC_OVERRIDE),
	};
	unsigned int layers;

	return sandbox_enter(&s, &layers, err);
}

/* What is read while it records, and at its end, beside the capture: counters of the ring, which CPUs are there. */
#define CPUS_DIR "/sys/devices/system/cpu"

/*
 * What is asked of other processes is left to kvmft-look. A guest's recorder lists the threads of all at
 * its end, which takes /proc and nothing more.
 */
int record_confine(struct record *r, pid_t child)
{
	const int root = ktracefs_dirfd(r->t);
	_cleanup_close_ int instances = openat(root, "instances", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int uprobes = r->sdt ? openat(root, "uprobe_events", O_PATH | O_CLOEXEC) : -1;
	_cleanup_close_ int synth =
		r->flight.synth[0] ? openat(root, "synthetic_events", O_PATH | O_CLOEXEC) : -1;
	_cleanup_close_ int cpus = open(CPUS_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int proc = r->side == CAP_SIDE_GUEST ? open("/proc", O_PATH | O_CLOEXEC) : -1;
	const struct sandbox_dir dir[] = {
		{ capw_dirfd(r->w), SANDBOX_READ | SANDBOX_WRITE | SANDBOX_CREATE },
		{ kinst_dirfd(r->k), SANDBOX_WRITE },
		{ r->flight.watch ? kinst_dirfd(r->flight.watch) : -1, SANDBOX_WRITE },
		{ instances, SANDBOX_REMOVE }, /* ours, at the end */
		{ uprobes, SANDBOX_WRITE },    /* the same for the probes of --sdt ... */
		{ synth, SANDBOX_WRITE },      /* ... and the event of --trigger */
		{ root, SANDBOX_READ },
		{ cpus, SANDBOX_READ },
		{ proc, SANDBOX_READ },
	};
	struct sandbox s = {
		.calls = SANDBOX_CALLS_RECORDER, .child = child, .bounding = true, .files = true, .reads = true,
		.dir = dir, .ndir = ARRAY_SIZE(dir),
	};

	/* Pipes beyond the limit of an unprivileged user: there is one for each CPU. */
	s.caps = SANDBOX_CAP(CAP_SYS_RESOURCE) | caps_for_tracefs();
	/* COMMAND may have become another user, and must still be ended. */
	if (child > 0)
		s.caps |= SANDBOX_CAP(CAP_KILL);
	return sandbox_enter(&s, &r->confined, r->err);
}
