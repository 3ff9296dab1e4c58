/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * feat_machine.c: what the machine permits: lockdown, privileges, containers, memory, modules.
 * Everything is read below e->root, so that tests can show a machine that they are not on.
 */
#include "feat.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <sys/stat.h>

#include "kvmft/ktext.h"
#include "kvmft/sandbox.h"

#define RING_DEFAULT_KB 8192u /* for each CPU, as `kvmft record` takes it */
#define RING_MINIMUM_KB 256u
#define RING_PERCENT	5u

/* A file below the root of this machine or of a fixture, whole; NULL if it cannot be read. */
static char *root_read(const struct kfeat_env *e, const char *file)
{
	char path[512];
	char *text = NULL;

	snprintf(path, sizeof(path), "%s/%s", e->root ?: "", file);
	return file_read_all(AT_FDCWD, path, KFILE_MAX, &text) < 0 ? NULL : text;
}

static bool root_has(const struct kfeat_env *e, const char *file)
{
	char path[512];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", e->root ?: "", file);
	return !stat(path, &st);
}

/* ---- lockdown ---- */

static void lockdown_unseen(const struct kfeat_env *e, struct kfeat_result *r)
{
	if (root_has(e, "sys/kernel/security/lsm"))
		feat_say(r, KFEAT_HAVE, "this kernel has no lockdown");
	else if (e->t && ktracefs_has(e->t, "trace_clock"))
		feat_say(r, KFEAT_HAVE,
			 "none that matters: tracefs is filled (securityfs not mounted)");
	else
		feat_say(r, KFEAT_UNKNOWN, "securityfs is not mounted");
}

void feat_lockdown(const struct kfeat_env *e, struct kfeat_result *r)
{
	_cleanup_free_ char *text = root_read(e, "sys/kernel/security/lockdown");
	char mode[32];

	if (!text)
		lockdown_unseen(e, r);
	else if (ktext_chosen(text, mode, sizeof(mode)))
		feat_say(r, KFEAT_UNKNOWN, "cannot make sense of /sys/kernel/security/lockdown");
	else if (!strcmp(mode, "none"))
		feat_say(r, KFEAT_HAVE, "not locked down");
	else if (!strcmp(mode, "confidentiality"))
		feat_say(r, KFEAT_LACK, "confidentiality: tracefs is empty, kprobes are refused");
	else
		feat_say(r, KFEAT_HAVE, "%s, which permits tracing", mode);
}

/* ---- who are we ---- */

static void privilege_refused(const struct kfeat_env *e, int error, struct kfeat_result *r)
{
	feat_say(r, KFEAT_LACK, "user %u: %s/instances: %s", (unsigned int)geteuid(), e->t->path,
		 strerror(error));
	if (error == EROFS)
		snprintf(r->remedy, sizeof(r->remedy),
			 "mount tracefs read-write, or run outside of the container");
}

void feat_privilege(const struct kfeat_env *e, struct kfeat_result *r)
{
	if (!e->t && geteuid())
		feat_say(r, KFEAT_LACK, "user %u is not root", (unsigned int)geteuid());
	else if (!e->t)
		feat_say(r, KFEAT_UNKNOWN, "no tracefs to ask");
	else if (!faccessat(e->t->dirfd, "instances", W_OK | X_OK, AT_EACCESS))
		feat_say(r, KFEAT_HAVE, "user %u may make instances", (unsigned int)geteuid());
	else
		privilege_refused(e, errno, r);
}

static bool status_field(const char *text, const char *name, uint64_t *v)
{
	const char *p = text ? strstr(text, name) : NULL;
	char *end;

	if (!p)
		return false;
	*v = strtoull(p + strlen(name), &end, 16);
	return end != p + strlen(name);
}

void feat_capabilities(const struct kfeat_env *e, struct kfeat_result *r)
{
	static const struct {
		int cap;
		const char *name;
	} wanted[] = {
		{ CAP_SYS_ADMIN, "sys_admin" },
		{ CAP_SYS_PTRACE, "sys_ptrace" },
		{ CAP_SYS_MODULE, "sys_module" },
	};
	_cleanup_free_ char *text = root_read(e, "proc/self/status");
	_cleanup_(sbuf_free) struct sbuf lack = { 0 };
	uint64_t have;

	if (!status_field(text, "\nCapEff:", &have)) {
		feat_say(r, KFEAT_UNKNOWN, "/proc/self/status does not tell");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (!(have >> wanted[i].cap & 1))
			sbuf_addf(&lack, "%s%s", lack.len ? ", " : "", wanted[i].name);
	if (lack.len)
		feat_say(r, KFEAT_LACK, "without %s", lack.s);
	if (lack.len && geteuid())
		snprintf(r->remedy, sizeof(r->remedy), "run as root");
	if (!lack.len)
		feat_say(r, KFEAT_HAVE, "all that kvmft may need");
}

/* ---- containers ---- */

/* Inode numbers of the first namespaces: PROC_PID_INIT_INO, PROC_USER_INIT_INO of proc_ns.h. */
#define FIRST_PID_NS  "pid:[4026531836]"
#define FIRST_USER_NS "user:[4026531837]"

enum ns { NS_FIRST, NS_OTHER, NS_UNKNOWN };

static enum ns namespace_of_self(const struct kfeat_env *e, const char *kind, const char *first)
{
	char path[512], link[64];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/proc/self/ns/%s", e->root ?: "", kind);
	n = readlink(path, link, sizeof(link) - 1);
	if (n <= 0)
		return NS_UNKNOWN;
	link[n] = '\0';
	return strcmp(link, first) ? NS_OTHER : NS_FIRST;
}

/* What container managers leave for those inside; "" if there is nothing. */
static void container_maker(const struct kfeat_env *e, char *buf, size_t size)
{
	_cleanup_free_ char *text = root_read(e, "run/systemd/container");

	if (text && *text)
		snprintf(buf, size, "%.*s", (int)MIN(strcspn(text, "\n"), (size_t)40), text);
	else if (root_has(e, ".dockerenv"))
		snprintf(buf, size, "docker");
	else if (root_has(e, "run/.containerenv"))
		snprintf(buf, size, "podman");
	else
		buf[0] = '\0';
}

void feat_container(const struct kfeat_env *e, struct kfeat_result *r)
{
	enum ns user = namespace_of_self(e, "user", FIRST_USER_NS);
	char maker[64];

	container_maker(e, maker, sizeof(maker));
	if (user == NS_OTHER)
		feat_say(r, KFEAT_LACK, "a user namespace%s%s: root in here is not root",
			 maker[0] ? " of " : "", maker);
	else if (maker[0])
		feat_say(r, KFEAT_HAVE, "%s, but not a user namespace", maker);
	else
		feat_say(r, KFEAT_HAVE, "none seen");
}

/* Events carry thread ids of the first namespace, and set_event_pid expects those. */
void feat_pid_namespace(const struct kfeat_env *e, struct kfeat_result *r)
{
	switch (namespace_of_self(e, "pid", FIRST_PID_NS)) {
	case NS_FIRST:
		feat_say(r, KFEAT_HAVE, "the machine's own: thread ids are those in events");
		break;
	case NS_OTHER:
		feat_say(r, KFEAT_LACK,
			 "a namespace of its own: thread ids are not those in events");
		break;
	case NS_UNKNOWN:
		feat_say(r, KFEAT_UNKNOWN, "/proc is not mounted");
		break;
	}
}

/* ---- memory ---- */

void feat_memory(const struct kfeat_env *e, struct kfeat_result *r)
{
	_cleanup_free_ char *text = root_read(e, "proc/meminfo"),
			    *cpus = root_read(e, "sys/devices/system/cpu/possible");
	uint64_t kb, left, each, files = e->t ? kinst_files_kb(e->t) : 0;
	struct kcpus c = { 0 };
	char instance[64] = "";
	bool fits;

	if (!text || !kmem_available(text, &kb) || !cpus || kcpus_parse(cpus, &c) || !c.n) {
		feat_say(r, KFEAT_UNKNOWN, "/proc/meminfo or the list of CPUs does not tell");
		kcpus_free(&c);
		return;
	}
	each = MIN(kb * RING_PERCENT / 100 / c.n, (uint64_t)RING_DEFAULT_KB);
	fits = kinst_files_fit(files, text, &left);
	if (files)
		snprintf(instance, sizeof(instance), "an instance takes %" PRIu64 " of %" PRIu64 " KB, ",
			 files, left);
	feat_say(r, each >= RING_MINIMUM_KB && fits ? KFEAT_HAVE : KFEAT_LACK,
		 "%" PRIu64 " MB available: %sa ring of %" PRIu64 " KB for each of %zu CPUs",
		 kb / 1024, instance, each, c.n);
	kcpus_free(&c);
}

/* ---- modules ---- */

static void say_module(const char *name, struct kfeat_result *r)
{
	enum kmodule_state s = kmodule_state_get(name);
	bool have = s == KMODULE_LOADED || s == KMODULE_BUILTIN;

	feat_say(r, have ? KFEAT_HAVE : s == KMODULE_UNKNOWN ? KFEAT_UNKNOWN : KFEAT_LACK,
		 "%s: %s (by %s)", name, kmodule_state_text(s), kmodule_backend());
	if (s == KMODULE_UNKNOWN)
		snprintf(r->remedy, sizeof(r->remedy), "modprobe %s, if this kernel has modules",
			 name);
}

void feat_kvm_module(const struct kfeat_env *e __unused_arg, struct kfeat_result *r)
{
	say_module("kvm", r);
}

void feat_msr_module(const struct kfeat_env *e __unused_arg, struct kfeat_result *r)
{
	say_module("msr", r);
}

/* Back ends of KVM other than the two vendors': a kernel may have one of its own. */
static void other_backends(const struct kfeat_env *e, struct sbuf *b)
{
	char path[512];
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/sys/module", e->root ?: "");
	dir = dir_open(AT_FDCWD, path);
	while (dir && (d = readdir(dir)))
		if (str_starts(d->d_name, "kvm_") && strcmp(d->d_name, "kvm_intel") &&
		    strcmp(d->d_name, "kvm_amd"))
			sbuf_addf(b, " %s", d->d_name);
	if (dir)
		closedir(dir);
}

void feat_kvm_vendor(const struct kfeat_env *e, struct kfeat_result *r)
{
	enum kmodule_state intel = kmodule_state_get("kvm_intel"),
			   amd = kmodule_state_get("kvm_amd");
	_cleanup_(sbuf_free) struct sbuf other = { 0 };
	enum kfeat_state s = KFEAT_LACK;

	other_backends(e, &other);
	if (intel == KMODULE_LOADED || intel == KMODULE_BUILTIN || amd == KMODULE_LOADED ||
	    amd == KMODULE_BUILTIN || other.len)
		s = KFEAT_HAVE;
	else if (intel == KMODULE_UNKNOWN && amd == KMODULE_UNKNOWN)
		s = KFEAT_UNKNOWN;
	feat_say(r, s, "kvm_intel: %s, kvm_amd: %s%s%s (by %s)", kmodule_state_text(intel),
		 kmodule_state_text(amd), other.len ? ", and" : "", other.s ?: "",
		 kmodule_backend());
}

void feat_kvm_device(const struct kfeat_env *e, struct kfeat_result *r)
{
	bool have = root_has(e, "sys/class/misc/kvm");

	feat_say(r, have ? KFEAT_HAVE : KFEAT_LACK, have ? "/dev/kvm" : "no /dev/kvm");
}

/* ---- what confines us ---- */

void feat_landlock(const struct kfeat_env *e __unused_arg, struct kfeat_result *r)
{
	long abi = sandbox_landlock_abi();

	if (abi < 0)
		feat_say(r, KFEAT_LACK, "forbidden: %s", strerror((int)-abi));
	else
		feat_say(r, abi ? KFEAT_HAVE : KFEAT_LACK, abi ? "version %ld" : "none", abi);
}

void feat_seccomp(const struct kfeat_env *e __unused_arg, struct kfeat_result *r)
{
	bool have = sandbox_have() & SANDBOX_SECCOMP;

	feat_say(r, have ? KFEAT_HAVE : KFEAT_LACK, "%s",
		 have		       ? "filters of system calls" :
		 sandbox_has_calls() ? "no filters of system calls" :
					 "kvmft has no list of calls for this processor");
}
