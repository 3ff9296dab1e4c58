/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * feat.c: what this kernel offers and lacks, one table row per thing. A row either names a tracefs
 * file whose existence is the answer, or has a probe of its own. Nothing is set anywhere.
 */
#include "priv.h"

#include <linux/capability.h>

#include "kvmft/util.h"
#include "kvmft/sandbox.h"

typedef void (*feat_probe_fn)(const struct kfeat_env *e, struct kfeat_result *r);

static void feat_say(struct kfeat_result *r, enum kfeat_state s, const char *fmt, ...)
{
	va_list ap;

	r->state = s;
	va_start(ap, fmt);
	vsnprintf(r->detail, sizeof(r->detail), fmt, ap);
	va_end(ap);
	str_printable(r->detail);
}

/*
 * Which symbols the kernel has. Lines are "ADDRESS TYPE NAME [MODULE]"; addresses
 * may read as zero (kptr_restrict), presence is all that matters here.
 */

int kallsyms_find(const char *path, const char *const *name, size_t n, bool *present)
{
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;
	int found = 0;
	FILE *f;

	for (size_t i = 0; i < n; i++)
		present[i] = false;
	f = fopen(path ?: "/proc/kallsyms", "re");
	if (!f)
		return -errno;
	while (getline(&line, &cap, f) > 0) {
		char *sym = strchr(line, ' '); /* ADDRESS TYPE NAME [MODULE] */

		sym = sym && sym[1] && sym[2] == ' ' ? sym + 3 : NULL;
		if (sym)
			sym[strcspn(sym, " \t\n")] = '\0';
		for (size_t i = 0; sym && i < n; i++) {
			/* A name requested twice is marked twice. */
			if (!present[i] && !strcmp(sym, name[i])) {
				present[i] = true;
				found++;
			}
		}
	}
	if (ferror(f))
		found = -EIO;
	fclose(f);
	return found;
}

/*
 * What the machine permits: lockdown, privileges, containers, memory, modules.
 * Everything is read below e->root, so that tests can show a machine that they are not on.
 */

#define RING_DEFAULT_KB 8192u /* for each CPU, as `kvmft record` takes it */
#define RING_MINIMUM_KB 256u
#define RING_PERCENT	5u

/* A file below the root of this machine or of a fixture, whole; NULL if it cannot be read. */
static char *root_read(const struct kfeat_env *e, const char *file)
{
	char *text = NULL;

	return file_read_all(AT_FDCWD, TEXTF("%s/%s", e->root ?: "", file), KFILE_MAX, &text) < 0
		       ? NULL
		       : text;
}

static bool root_has(const struct kfeat_env *e, const char *file)
{
	struct stat st;

	return !stat(TEXTF("%s/%s", e->root ?: "", file), &st);
}

/* ---- lockdown ---- */

static void feat_lockdown(const struct kfeat_env *e, struct kfeat_result *r)
{
	_cleanup_free_ char *text = root_read(e, "sys/kernel/security/lockdown");
	char mode[32];

	if (!text) {
		if (root_has(e, "sys/kernel/security/lsm"))
			feat_say(r, KFEAT_HAVE, "this kernel has no lockdown");
		else if (e->t && ktracefs_has(e->t, "trace_clock"))
			feat_say(r, KFEAT_HAVE,
				 "none that matters: tracefs is filled (securityfs not mounted)");
		else
			feat_say(r, KFEAT_UNKNOWN, "securityfs is not mounted");
	} else if (ktext_chosen(text, mode, sizeof(mode)))
		feat_say(r, KFEAT_UNKNOWN, "cannot make sense of /sys/kernel/security/lockdown");
	else if (!strcmp(mode, "none"))
		feat_say(r, KFEAT_HAVE, "not locked down");
	else if (!strcmp(mode, "confidentiality"))
		feat_say(r, KFEAT_LACK, "confidentiality: tracefs is empty, kprobes are refused");
	else
		feat_say(r, KFEAT_HAVE, "%s, which permits tracing", mode);
}

/* ---- who are we ---- */

static void feat_privilege(const struct kfeat_env *e, struct kfeat_result *r)
{
	if (!e->t && geteuid())
		feat_say(r, KFEAT_LACK, "user %u is not root", (unsigned int)geteuid());
	else if (!e->t)
		feat_say(r, KFEAT_UNKNOWN, "no tracefs to ask");
	else if (!faccessat(e->t->dirfd, "instances", W_OK | X_OK, AT_EACCESS))
		feat_say(r, KFEAT_HAVE, "user %u may make instances", (unsigned int)geteuid());
	else {
		feat_say(r, KFEAT_LACK, "user %u: %s/instances: %s", (unsigned int)geteuid(),
			 e->t->path, strerror(errno));
		if (errno == EROFS)
			snprintf(r->remedy, sizeof(r->remedy),
				 "mount tracefs read-write, or run outside of the container");
	}
}

static void feat_capabilities(const struct kfeat_env *e, struct kfeat_result *r)
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
	const char *from = text ? ktext_value(text, "CapEff") : NULL;
	uint64_t have;

	if (!from || sscanf(from, "%" SCNx64, &have) != 1) {
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
	char link[64];
	ssize_t n = readlink(TEXTF("%s/proc/self/ns/%s", e->root ?: "", kind), link,
			     sizeof(link) - 1);

	if (n <= 0)
		return NS_UNKNOWN;
	link[n] = '\0';
	return strcmp(link, first) ? NS_OTHER : NS_FIRST;
}

static void feat_container(const struct kfeat_env *e, struct kfeat_result *r)
{
	enum ns user = namespace_of_self(e, "user", FIRST_USER_NS);
	_cleanup_free_ char *text = root_read(e, "run/systemd/container");
	char maker[64];

	/* What container managers leave for those inside. */
	if (text && *text)
		snprintf(maker, sizeof(maker), "%.*s", (int)MIN(strcspn(text, "\n"), (size_t)40),
			 text);
	else
		snprintf(maker, sizeof(maker), "%s",
			 root_has(e, ".dockerenv")	    ? "docker"
			 : root_has(e, "run/.containerenv") ? "podman"
							    : "");
	if (user == NS_OTHER)
		feat_say(r, KFEAT_LACK, "a user namespace%s%s: root in here is not root",
			 maker[0] ? " of " : "", maker);
	else if (maker[0])
		feat_say(r, KFEAT_HAVE, "%s, but not a user namespace", maker);
	else
		feat_say(r, KFEAT_HAVE, "none seen");
}

/* Events carry thread ids of the first namespace, and set_event_pid expects those. */
static void feat_pid_namespace(const struct kfeat_env *e, struct kfeat_result *r)
{
	switch (namespace_of_self(e, "pid", FIRST_PID_NS)) {
	case NS_FIRST:
		feat_say(r, KFEAT_HAVE, "the machine's own: thread ids are those in events");
		break;
	case NS_OTHER:
		feat_say(r, KFEAT_LACK,
			 "a namespace of its own: thread ids are not those in events");
		break;
	case NS_UNKNOWN: feat_say(r, KFEAT_UNKNOWN, "/proc is not mounted"); break;
	}
}

/* ---- memory ---- */

static void feat_memory(const struct kfeat_env *e, struct kfeat_result *r)
{
	_cleanup_free_ char *text = root_read(e, "proc/meminfo"),
			    *cpus = root_read(e, "sys/devices/system/cpu/possible");
	uint64_t kb, left, each, files = e->t ? kinst_files_kb(e->t) : 0;
	struct kcpus c = { 0 };
	char instance[64] = "";
	bool fits;

	if (!text || ktext_number(text, "MemAvailable", &kb) || !cpus || kcpus_parse(cpus, &c) ||
	    !c.n) {
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

/* NAME-module: its state. */
static void feat_module(const struct kfeat_env *e __unused_arg, struct kfeat_result *r)
{
	_cleanup_free_ char *name = strndup(r->name, strcspn(r->name, "-"));
	enum kmodule_state s = name ? kmodule_state_get(name) : KMODULE_UNKNOWN;
	bool have = s == KMODULE_LOADED || s == KMODULE_BUILTIN;

	feat_say(r, have ? KFEAT_HAVE : s == KMODULE_UNKNOWN ? KFEAT_UNKNOWN : KFEAT_LACK,
		 "%s: %s (by %s)", name, kmodule_state_text(s), kmodule_backend());
	if (s == KMODULE_UNKNOWN)
		snprintf(r->remedy, sizeof(r->remedy), "modprobe %s, if this kernel has modules",
			 name);
}

/* Back ends of KVM other than the two vendors': a kernel may have one of its own. */
static void other_vendors(const struct kfeat_env *e, struct sbuf *other)
{
	_cleanup_dir_ DIR *dir = dir_open(AT_FDCWD, TEXTF("%s/sys/module", e->root ?: ""));
	struct dirent *d;

	while (dir && (d = readdir(dir)))
		if (str_starts(d->d_name, "kvm_") && strcmp(d->d_name, "kvm_intel") &&
		    strcmp(d->d_name, "kvm_amd"))
			sbuf_addf(other, " %s", d->d_name);
}

static void feat_kvm_vendor(const struct kfeat_env *e, struct kfeat_result *r)
{
	enum kmodule_state intel = kmodule_state_get("kvm_intel"),
			   amd = kmodule_state_get("kvm_amd");
	_cleanup_(sbuf_free) struct sbuf other = { 0 };
	enum kfeat_state s = KFEAT_LACK;

	other_vendors(e, &other);
	if (intel == KMODULE_LOADED || intel == KMODULE_BUILTIN || amd == KMODULE_LOADED ||
	    amd == KMODULE_BUILTIN || other.len)
		s = KFEAT_HAVE;
	else if (intel == KMODULE_UNKNOWN && amd == KMODULE_UNKNOWN)
		s = KFEAT_UNKNOWN;
	feat_say(r, s, "kvm_intel: %s, kvm_amd: %s%s%s (by %s)", kmodule_state_text(intel),
		 kmodule_state_text(amd), other.len ? ", and" : "", other.s ?: "",
		 kmodule_backend());
}

static void feat_kvm_device(const struct kfeat_env *e, struct kfeat_result *r)
{
	bool have = root_has(e, "sys/class/misc/kvm");

	feat_say(r, have ? KFEAT_HAVE : KFEAT_LACK, have ? "/dev/kvm" : "no /dev/kvm");
}

/* ---- what confines us ---- */

static void feat_landlock(const struct kfeat_env *e __unused_arg, struct kfeat_result *r)
{
	long abi = sandbox_landlock_abi();

	if (abi < 0) {
		feat_say(r, KFEAT_LACK, "forbidden: %s", strerror((int)-abi));
		snprintf(r->remedy, sizeof(r->remedy), "let the container permit landlock_*");
	} else {
		feat_say(r, abi ? KFEAT_HAVE : KFEAT_LACK, abi ? "version %ld" : "none", abi);
	}
}

static void feat_seccomp(const struct kfeat_env *e __unused_arg, struct kfeat_result *r)
{
	bool have = sandbox_have() & SANDBOX_SECCOMP;

	feat_say(r, have ? KFEAT_HAVE : KFEAT_LACK, "%s",
		 have		       ? "filters of system calls" :
		 sandbox_has_calls() ? "no filters of system calls" :
					 "kvmft has no list of calls for this processor");
}

struct feat {
	const char *name, *purpose;
	unsigned int need, use; /* KFEAT_HOST, KFEAT_GUEST: cannot do without it; can use it */
	const char *file;	/* the file of tracefs to look for; NULL: look at the machine */
	const char *remedy;	/* when it is lacking */
	feat_probe_fn probe;	/* NULL: the file's existence is the answer */
};

/* An error text of this room is "what (what to do)", or only what. */
static void say_err(struct kfeat_result *r, const char *text)
{
	const char *todo = strstr(text, " (run as root");

	todo = todo ?: strstr(text, " (as root: ");
	feat_say(r, KFEAT_LACK, "%.*s", (int)(todo ? todo - text : 255), text);
	if (todo)
		snprintf(r->remedy, sizeof(r->remedy), "%.*s", (int)strcspn(todo + 2, ")"),
			 todo + 2);
}

/* ---- probes ---- */

static void probe_tracefs(const struct kfeat_env *e, struct kfeat_result *r)
{
	if (e->t && ktracefs_mounted(e->t))
		feat_say(r, KFEAT_HAVE, "not mounted now; kvmft record mounts it at %s",
			 e->t->path);
	else if (e->t)
		feat_say(r, KFEAT_HAVE, "%s", e->t->path);
	else
		say_err(r, e->no_tracefs ?: "not mounted, or not readable");
}

static void probe_clock(const struct kfeat_env *e, struct kfeat_result *r)
{
	struct kvmft_err err = { 0 };

	if (ktracefs_clock_check(e->t, r->name, &err))
		say_err(r, err.text);
	else
		feat_say(r, KFEAT_HAVE, strcmp(r->name, "mono_raw") ? "raw cycles" :
			 "ns, linear in the counter's cycles");
}

static void probe_tsc_flags(const struct kfeat_env *e __unused_arg, struct kfeat_result *r)
{
	struct ktsc_facts f;

	ktsc_facts_read(NULL, &f);
	if (!f.present) {
		feat_say(r, KFEAT_LACK, "this CPU has no TSC");
		return;
	}
	feat_say(r, f.constant && f.nonstop ? KFEAT_HAVE : KFEAT_LACK,
	    "%sconstant, %snonstop, %" PRIu64 " kHz (%s), clocksource %s", f.constant ? "" : "not ",
	    f.nonstop ? "" : "not ", f.khz, f.khz ? f.source : "unknown",
	    f.clocksource[0] ? f.clocksource : "unknown");
}

static void probe_kvm_events(const struct kfeat_env *e, struct kfeat_result *r)
{
	_cleanup_(sbuf_free) struct sbuf other = { 0 };
	struct kvmft_err err = { 0 };

	other_vendors(e, &other);
	if (kevent_kvm_check(e->t, &err)) {
		say_err(r, err.text);
	} else if (other.len) {
		feat_say(r, KFEAT_UNKNOWN,
			 "kvm:kvm_exit and others exist; whether%s raises them was not tried", other.s);
		snprintf(r->remedy, sizeof(r->remedy),
			 "kvmft check --prove tries it; a small build has none: record a VM, report it");
	} else {
		feat_say(r, KFEAT_HAVE, "kvm:kvm_exit and others");
	}
}

/* A recorder takes those that exist. */
static void probe_guest_events(const struct kfeat_env *e, struct kfeat_result *r)
{
	static const char *const sys[] = { "sched", "irq", "irq_vectors", "timer", "block", "msr" };
	struct sbuf have = { 0 }, missing = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(sys); i++)
		sbuf_addf(ktracefs_has(e->t, TEXTF("events/%s", sys[i])) ? &have : &missing, " %s",
			  sys[i]);
	if (!have.len)
		feat_say(r, KFEAT_LACK, "none of:%s", missing.s ?: "");
	else
		feat_say(r, KFEAT_HAVE, "systems:%s%s%s", have.s, missing.len ? "; not here:" : "",
			 missing.len ? missing.s : "");
	sbuf_free(&have);
	sbuf_free(&missing);
}

/* README is the kernel's own list of what it was built with. */
static bool readme_has(const struct kfeat_env *e, const char *word)
{
	_cleanup_free_ char *text = NULL;

	return ktracefs_read(e->t, "README", KFILE_MAX, &text) > 0 && strstr(text, word);
}

static void probe_hist(const struct kfeat_env *e, struct kfeat_result *r)
{
	if (ktracefs_has(e->t, "events/kvm/kvm_exit/hist") ||
	    ktracefs_has(e->t, "events/sched/sched_switch/hist") || readme_has(e, "hist:keys="))
		feat_say(r, KFEAT_HAVE, "hist triggers");
	else
		feat_say(r, KFEAT_LACK, "this kernel has no hist triggers (CONFIG_HIST_TRIGGERS)");
}

/* The option is older. */
static void probe_stacktrace(const struct kfeat_env *e, struct kfeat_result *r)
{
	if (readme_has(e, "stacktrace"))
		feat_say(r, KFEAT_HAVE, "trigger stacktrace, for chosen events");
	else if (ktracefs_has(e->t, "options/stacktrace"))
		feat_say(r, KFEAT_HAVE, "option stacktrace, for all events");
	else
		feat_say(r, KFEAT_LACK, "this kernel has no stacktrace trigger");
}

static void probe_kallsyms(const struct kfeat_env *e __unused_arg, struct kfeat_result *r)
{
	static const char *const sym[] = { "do_sys_openat2", "tsc_khz", "kvm_sched_clock_offset",
					   "__sched_clock_offset", "hv_clock_boot" };
	bool present[ARRAY_SIZE(sym)];
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int got = kallsyms_find(NULL, sym, ARRAY_SIZE(sym), present);

	for (size_t i = 0; got > 0 && i < ARRAY_SIZE(sym); i++)
		if (present[i])
			sbuf_addf(&b, " %s", sym[i]);
	if (got < 0)
		feat_say(r, KFEAT_LACK, "/proc/kallsyms: %s", strerror(-got));
	else
		feat_say(r, got ? KFEAT_HAVE : KFEAT_LACK, "of interest:%s", b.s ?: " none");
}

static void probe_debugfs(const struct kfeat_env *e __unused_arg, struct kfeat_result *r)
{
	struct stat st;
	int error = stat("/sys/kernel/debug/kvm", &st) ? errno : 0;

	if (error)
		feat_say(r, KFEAT_LACK, "/sys/kernel/debug/kvm: %s", strerror(error));
	else
		feat_say(r, KFEAT_HAVE, "/sys/kernel/debug/kvm");
	if (error == EACCES)
		snprintf(r->remedy, sizeof(r->remedy), "run as root");
}

static void probe_log(const struct kfeat_env *e __unused_arg, struct kfeat_result *r)
{
	_cleanup_free_ char *text = NULL;
	struct kvmft_err err = { 0 };

	if (klog_read(&text, &err))
		say_err(r, err.text);
	else
		feat_say(r, KFEAT_HAVE, "%zu bytes", strlen(text));
}

static void probe_hypervisor(const struct kfeat_env *e __unused_arg, struct kfeat_result *r)
{
	struct ktsc_facts f;

	ktsc_facts_read(NULL, &f);
	if (!f.present)
		feat_say(r, KFEAT_UNKNOWN, "not an x86 machine");
	else if (f.hypervisor)
		feat_say(r, KFEAT_HAVE, "a guest; signature %s",
			 f.hv_signature[0] ? f.hv_signature : "none");
	else
		feat_say(r, KFEAT_HAVE, "no hypervisor: bare metal");
}

#define KERNEL_OPTION(o) "use a kernel with " o
#define HOST		 KFEAT_HOST
#define GUEST		 KFEAT_GUEST
#define BOTH		 (KFEAT_HOST | KFEAT_GUEST)

/* In the order in which one would fix things. */
#ifdef __aarch64__
#define X86(sides)   0
#define ARM64(sides) (sides)
#else
#define X86(sides)   (sides)
#define ARM64(sides) 0
#endif

static const struct feat feat[] = {
	{ "lockdown", "everything", BOTH, BOTH, NULL, "boot without lockdown=confidentiality",
	  feat_lockdown },
	{ "tracefs", "everything", BOTH, BOTH, NULL,
	  "as root: mount -t tracefs nodev /sys/kernel/tracing", probe_tracefs },
	{ "privilege", "everything", BOTH, BOTH, NULL,
	  "run as root, or as a member of the group that tracefs is mounted with (gid=)",
	  feat_privilege },
	{ "capabilities", "mounting tracefs, VMs of other users", 0, BOTH, NULL,
	  "run outside of the container, or give it these capabilities", feat_capabilities },
	{ "container", "being root and seeing all", 0, BOTH, NULL, "run outside of the container",
	  feat_container },
	{ "pid-namespace", "which thread is which vCPU; --vm and -p", HOST, BOTH, NULL,
	  "run outside of the container, or with --pid=host", feat_pid_namespace },
	{ "memory", "the rings", 0, BOTH, NULL, "free some, or choose a small ring: -b",
	  feat_memory },
	{ "x86-tsc", "the trace clock that aligns host and guest exactly", X86(HOST), X86(BOTH),
	  "trace_clock", "use --clock mono; alignment is then approximate", probe_clock },
	{ "mono_raw", "the trace clock that aligns host and guest", ARM64(HOST), ARM64(BOTH),
	  "trace_clock", "use --clock mono; alignment is then approximate", probe_clock },
	{ "tsc", "a TSC rate that never changes, even through idle", 0, BOTH, NULL,
	  "expect drift; compare captures over short times only", probe_tsc_flags },
	{ "hypervisor", "tells a guest from a host", 0, X86(BOTH), NULL, "", probe_hypervisor },
	{ "kvm-module", "exits, entries, injections", 0, HOST, NULL, "modprobe kvm", feat_module },
	{ "kvm-vendor-module", "running VMs at all", 0, X86(HOST), NULL,
	  "modprobe kvm_intel or kvm_amd", feat_kvm_vendor },
	{ "kvm-device", "running VMs at all", 0, ARM64(HOST), NULL,
	  "have the firmware start the kernel at EL2; boot without kvm-arm.mode=none",
	  feat_kvm_device },
	{ "kvm-events", "exits, entries, injections", HOST, HOST, "events/kvm",
	  "modprobe kvm_intel or kvm_amd", probe_kvm_events },
	{ "debugfs-kvm", "VMs that run already, and their TSC offsets", 0, HOST, NULL,
	  "as root: mount -t debugfs nodev /sys/kernel/debug (and load kvm)", probe_debugfs },
	{ "guest-events", "default events of a guest", GUEST, GUEST, "events",
	  KERNEL_OPTION("these tracepoints"), probe_guest_events },
	{ "msr-module", "rdmsr and wrmsr as marks that host and guest both see", 0, X86(GUEST),
	  NULL, "modprobe msr", feat_module },
	{ "kprobes", "TSC frequency and clock constants, read from the kernel", 0, BOTH,
	  "kprobe_events", KERNEL_OPTION("CONFIG_KPROBE_EVENTS; without it the boot log is read"),
	  NULL },
	{ "kallsyms", "finding the variables that hold clock constants", 0, BOTH, NULL,
	  KERNEL_OPTION("CONFIG_KALLSYMS_ALL"), probe_kallsyms },
	{ "kernel-log", "TSC frequency and clock constants from boot", 0, BOTH, NULL,
	  "run as root, or sysctl kernel.dmesg_restrict=0", probe_log },
	{ "uprobes", "probes in QEMU", 0, HOST, "uprobe_events",
	  KERNEL_OPTION("CONFIG_UPROBE_EVENTS"), NULL },
	{ "hist-triggers", "kvmft exits and stuck: counting in the kernel", 0, HOST, "README",
	  KERNEL_OPTION("CONFIG_HIST_TRIGGERS; without it kvmft counts by itself"), probe_hist },
	{ "stacktrace", "kernel stacks at events: kvmft record --stacks", 0, BOTH,
	  "events/ftrace/kernel_stack", KERNEL_OPTION("CONFIG_STACKTRACE"), probe_stacktrace },
	{ "synthetic-events", "latencies computed in the kernel", 0, BOTH, "synthetic_events",
	  KERNEL_OPTION("CONFIG_SYNTH_EVENTS"), NULL },
	{ "snapshot", "keeping the ring when something happens", 0, BOTH, "snapshot",
	  KERNEL_OPTION("CONFIG_TRACER_SNAPSHOT"), NULL },
	{ "subbuf-size", "sub-buffers of 64K: a third of the cost of draining", 0, BOTH,
	  "buffer_subbuf_size_kb", KERNEL_OPTION("version 6.8 or newer; 4 KiB sub-buffers work, too"),
	  NULL },
	{ "buffer-percent", "fewer wake-ups while recording", 0, BOTH, "buffer_percent",
	  KERNEL_OPTION("version 5.0 or newer"), NULL },
	{ "event-pid", "recording one VM or process only (--vm, -p)", 0, BOTH, "set_event_pid",
	  KERNEL_OPTION("version 4.4 or newer"), NULL },
	{ "event-fork", "following threads that a VM starts later", 0, BOTH, "options/event-fork",
	  KERNEL_OPTION("version 4.7 or newer"), NULL },
	{ "dead-man", "recording stops when kvmft is killed", 0, BOTH, "options/disable_on_free",
	  "never kill -9 a recorder there", NULL },
	{ "error-log", "the kernel's reason for refusing a filter", 0, BOTH, "error_log",
	  KERNEL_OPTION("version 5.2 or newer"), NULL },
	{ "marker-raw", "calibration marks in the trace", 0, BOTH, "trace_marker_raw",
	  KERNEL_OPTION("version 4.10 or newer"), NULL },
	{ "landlock", "keeps files from a reader or recorder that bad input took over", 0, BOTH, NULL,
	  KERNEL_OPTION("CONFIG_SECURITY_LANDLOCK, and boot with lsm=landlock,..."),
	  feat_landlock },
	{ "seccomp", "keeps system calls from a reader or recorder that bad input took over", 0, BOTH,
	  NULL, KERNEL_OPTION("CONFIG_SECCOMP_FILTER"), feat_seccomp },
	{ "copy-marker", "markers of other programs, in a capture too", 0, BOTH,
	  "options/copy_trace_marker", KERNEL_OPTION("version 6.16 or newer"), NULL },
};

size_t kfeat_count(void)
{
	return ARRAY_SIZE(feat);
}

int kfeat_probe(const struct kfeat_env *e, size_t i, struct kfeat_result *r)
{
	const struct feat *f;

	*r = (struct kfeat_result){ .state = KFEAT_UNKNOWN };
	if (i >= ARRAY_SIZE(feat))
		return -EINVAL;
	f = &feat[i];
	r->name = f->name;
	r->purpose = f->purpose;
	r->need = f->need;
	r->use = f->use;
	if (f->file && !e->t)
		feat_say(r, KFEAT_UNKNOWN, "no tracefs to ask");
	else if (f->probe)
		f->probe(e, r);
	else if (ktracefs_has(e->t, f->file))
		feat_say(r, KFEAT_HAVE, "%s", f->file);
	else if (!strcmp(f->file, "kprobe_events"))
		feat_say(r, KFEAT_LACK, "this kernel has no kprobe events (CONFIG_KPROBE_EVENTS)");
	else
		feat_say(r, KFEAT_LACK, "this kernel has no %s", f->file);
	if (r->state == KFEAT_LACK && !r->remedy[0])
		snprintf(r->remedy, sizeof(r->remedy), "%s", f->remedy);
	return 0;
}

bool kfeat_have(struct ktracefs *t, const char *name)
{
	const struct kfeat_env e = { .t = t };
	struct kfeat_result r;

	for (size_t i = 0; i < ARRAY_SIZE(feat); i++)
		if (!strcmp(feat[i].name, name))
			return !kfeat_probe(&e, i, &r) && r.state == KFEAT_HAVE;
	return false;
}
