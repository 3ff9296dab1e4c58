/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * feat.c: what this kernel offers and lacks, one table row per thing. A row either names a tracefs
 * file whose existence is the answer, or has a probe of its own. Nothing is set anywhere.
 */
#include "feat.h"

#include <inttypes.h>
#include <sys/stat.h>

struct feat {
	const char *name, *purpose;
	unsigned int need,
		use; /* KFEAT_HOST, KFEAT_GUEST: cannot do without it; can use it */
	const char *file;	/* the file of tracefs to look for; NULL: look at the machine */
	const char *remedy;	/* when it is lacking */
	feat_probe_fn probe;	/* NULL: the file's existence is the answer */
};

void feat_say(struct kfeat_result *r, enum kfeat_state s, const char *fmt, ...)
{
	va_list ap;

	r->state = s;
	va_start(ap, fmt);
	vsnprintf(r->detail, sizeof(r->detail), fmt, ap);
	va_end(ap);
	str_printable(r->detail);
}

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
	int got = ktsc_facts_read(NULL, &f);

	if (got || !f.present) {
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
	struct kvmft_err err = { 0 };

	if (kevent_kvm_check(e->t, &err))
		say_err(r, err.text);
	else
		feat_say(r, KFEAT_HAVE, "kvm:kvm_exit and others");
}

/* A recorder takes those that exist. */
static void probe_guest_events(const struct kfeat_env *e, struct kfeat_result *r)
{
	static const char *const sys[] = { "sched", "irq", "irq_vectors", "timer", "block", "msr" };
	struct sbuf have = { 0 }, missing = { 0 };
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(sys); i++) {
		snprintf(path, sizeof(path), "events/%s", sys[i]);
		sbuf_addf(ktracefs_has(e->t, path) ? &have : &missing, " %s", sys[i]);
	}
	if (!have.len)
		feat_say(r, KFEAT_LACK, "none of:%s", missing.s ?: "");
	else
		feat_say(r, KFEAT_HAVE, "systems:%s%s%s", have.s, missing.len ? "; not here:" : "",
			 missing.len ? missing.s : "");
	sbuf_free(&have);
	sbuf_free(&missing);
}

/* README is the kernel's own list of what it was built with. */
static void probe_hist(const struct kfeat_env *e, struct kfeat_result *r)
{
	_cleanup_free_ char *text = NULL;

	if (ktracefs_has(e->t, "events/kvm/kvm_exit/hist") ||
	    ktracefs_has(e->t, "events/sched/sched_switch/hist") ||
	    (ktracefs_read(e->t, "README", KFILE_MAX, &text) > 0 && strstr(text, "hist:keys=")))
		feat_say(r, KFEAT_HAVE, "hist triggers");
	else
		feat_say(r, KFEAT_LACK, "this kernel has no hist triggers (CONFIG_HIST_TRIGGERS)");
}

/* The README of tracefs names the triggers; the option is older. */
static void probe_stacktrace(const struct kfeat_env *e, struct kfeat_result *r)
{
	_cleanup_free_ char *text = NULL;

	if (ktracefs_read(e->t, "README", KFILE_MAX, &text) > 0 && strstr(text, "stacktrace"))
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

	if (ktsc_facts_read(NULL, &f) || !f.present)
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
	{ "capabilities", "mounting tracefs, VMs of other users, --load-modules", 0, BOTH, NULL,
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
	{ "kvm-module", "exits, entries, injections", 0, HOST, NULL,
	  "kvmft record --load-modules, or modprobe kvm", feat_kvm_module },
	{ "kvm-vendor-module", "running VMs at all", 0, X86(HOST), NULL,
	  "kvmft record --load-modules, or modprobe kvm_intel or kvm_amd", feat_kvm_vendor },
	{ "kvm-device", "running VMs at all", 0, ARM64(HOST), NULL,
	  "have the firmware start the kernel at EL2; boot without kvm-arm.mode=none",
	  feat_kvm_device },
	{ "kvm-events", "exits, entries, injections", HOST, HOST, "events/kvm",
	  "kvmft record --load-modules, or modprobe kvm_intel or kvm_amd", probe_kvm_events },
	{ "debugfs-kvm", "VMs that run already, and their TSC offsets", 0, HOST, NULL,
	  "as root: mount -t debugfs nodev /sys/kernel/debug (and load kvm)", probe_debugfs },
	{ "guest-events", "default events of a guest", GUEST, GUEST, "events",
	  KERNEL_OPTION("these tracepoints"), probe_guest_events },
	{ "msr-module", "rdmsr and wrmsr as marks that host and guest both see", 0, X86(GUEST),
	  NULL, "kvmft record --load-modules, or modprobe msr", feat_msr_module },
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
	  "buffer_subbuf_size_kb", KERNEL_OPTION("version 6.8 or newer; 4K ones do as well"),
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

static void probe_file(const struct feat *f, const struct kfeat_env *e, struct kfeat_result *r)
{
	if (ktracefs_has(e->t, f->file))
		feat_say(r, KFEAT_HAVE, "%s", f->file);
	else if (!strcmp(f->file, "kprobe_events"))
		feat_say(r, KFEAT_LACK, "this kernel has no kprobe events (CONFIG_KPROBE_EVENTS)");
	else
		feat_say(r, KFEAT_LACK, "this kernel has no %s", f->file);
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
	else
		probe_file(f, e, r);
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
