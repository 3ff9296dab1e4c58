/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * feat.c: what this kernel offers and lacks, one table row per thing. A row either names a file
 * of tracefs whose presence is the answer, or has a probe of its own. Nothing is set anywhere.
 */
#include "priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct feat {
	const char *name, *purpose;
	unsigned int need;
	const char *file;   /* in tracefs; or NULL and then probe */
	const char *remedy; /* when it is lacking */
	void (*probe)(struct ktracefs *t, struct kfeat_result *r);
};

static void __printf(3, 4) say(struct kfeat_result *r, enum kfeat_state s, const char *fmt, ...)
{
	va_list ap;

	r->state = s;
	va_start(ap, fmt);
	vsnprintf(r->detail, sizeof(r->detail), fmt, ap);
	va_end(ap);
	str_printable(r->detail);
}

/* An error text of this room is "what (remedy)", or only what. */
static void say_err(struct kfeat_result *r, const struct kvmft_err *err)
{
	say(r, KFEAT_LACK, "%.255s", err->text);
}

/* ---- probes ---- */

static void probe_tracefs(struct ktracefs *t, struct kfeat_result *r)
{
	if (t)
		say(r, KFEAT_HAVE, "%s", t->path);
	else
		say(r, KFEAT_LACK, "not mounted, or not readable");
}

static void probe_lockdown(struct ktracefs *t __unused_arg, struct kfeat_result *r)
{
	char mode[32];

	if (!kernel_lockdown(mode, sizeof(mode)))
		say(r, KFEAT_HAVE, "not locked down");
	else if (strcmp(mode, "confidentiality"))
		say(r, KFEAT_HAVE, "%s, which permits tracing", mode);
	else
		say(r, KFEAT_LACK, "%s, which empties tracefs", mode);
}

static void probe_privilege(struct ktracefs *t, struct kfeat_result *r)
{
	if (!t)
		say(r, KFEAT_UNKNOWN, "no tracefs to ask");
	else if (!faccessat(t->dirfd, "instances", W_OK, AT_EACCESS))
		say(r, KFEAT_HAVE, "may make instances");
	else
		say(r, KFEAT_LACK, "%s/instances: %s", t->path, strerror(errno));
}

static void probe_x86_tsc(struct ktracefs *t, struct kfeat_result *r)
{
	struct kvmft_err err = { 0 };

	if (!t)
		say(r, KFEAT_UNKNOWN, "no tracefs to ask");
	else if (ktracefs_clock_check(t, "x86-tsc", &err))
		say_err(r, &err);
	else
		say(r, KFEAT_HAVE, "raw cycles");
}

static void probe_tsc_flags(struct ktracefs *t __unused_arg, struct kfeat_result *r)
{
	struct ktsc_facts f;
	int got = ktsc_facts_read(NULL, &f);

	if (got || !f.present) {
		say(r, KFEAT_LACK, "this CPU has no TSC");
		return;
	}
	say(r, f.constant && f.nonstop ? KFEAT_HAVE : KFEAT_LACK,
	    "%sconstant, %snonstop, %" PRIu64 " kHz (%s), clocksource %s", f.constant ? "" : "not ",
	    f.nonstop ? "" : "not ", f.khz, f.khz ? f.source : "unknown",
	    f.clocksource[0] ? f.clocksource : "unknown");
}

static void probe_module(const char *name, struct kfeat_result *r)
{
	enum kmodule_state s = kmodule_state_get(name);
	bool have = s == KMODULE_LOADED || s == KMODULE_BUILTIN;

	say(r, have ? KFEAT_HAVE : s == KMODULE_UNKNOWN ? KFEAT_UNKNOWN : KFEAT_LACK, "%s (%s)",
	    kmodule_state_text(s), kmodule_backend());
}

static void probe_kvm_module(struct ktracefs *t __unused_arg, struct kfeat_result *r)
{
	probe_module("kvm", r);
}

static void probe_kvm_vendor(struct ktracefs *t __unused_arg, struct kfeat_result *r)
{
	struct kfeat_result amd = { 0 };

	probe_module("kvm_intel", r);
	probe_module("kvm_amd", &amd);
	if (r->state == KFEAT_HAVE) {
		say(r, KFEAT_HAVE, "kvm_intel");
	} else if (amd.state == KFEAT_HAVE) {
		say(r, KFEAT_HAVE, "kvm_amd");
	} else {
		/* Other back ends exist (a kernel may have one of its own): not a verdict. */
		say(r, KFEAT_UNKNOWN, "neither kvm_intel nor kvm_amd is loaded");
	}
}

static void probe_kvm_events(struct ktracefs *t, struct kfeat_result *r)
{
	struct kvmft_err err = { 0 };

	if (!t)
		say(r, KFEAT_UNKNOWN, "no tracefs to ask");
	else if (kevent_kvm_check(t, &err))
		say_err(r, &err);
	else
		say(r, KFEAT_HAVE, "kvm:kvm_exit and others");
}

static void probe_guest_events(struct ktracefs *t, struct kfeat_result *r)
{
	static const char *const sys[] = { "sched", "irq", "irq_vectors", "timer", "block", "msr" };
	struct sbuf missing = { 0 };
	char path[64];

	for (size_t i = 0; t && i < ARRAY_SIZE(sys); i++) {
		snprintf(path, sizeof(path), "events/%s", sys[i]);
		if (!ktracefs_has(t, path))
			sbuf_addf(&missing, " %s", sys[i]);
	}
	if (!t)
		say(r, KFEAT_UNKNOWN, "no tracefs to ask");
	else if (missing.len)
		say(r, KFEAT_LACK, "missing:%s", missing.s);
	else
		say(r, KFEAT_HAVE, "sched, irq, irq_vectors, timer, block, msr");
	sbuf_free(&missing);
}

/* README is the kernel's own list of what it was built with. */
static void probe_hist(struct ktracefs *t, struct kfeat_result *r)
{
	_cleanup_free_ char *text = NULL;

	if (!t) {
		say(r, KFEAT_UNKNOWN, "no tracefs to ask");
		return;
	}
	if (ktracefs_has(t, "events/kvm/kvm_exit/hist") ||
	    ktracefs_has(t, "events/sched/sched_switch/hist") ||
	    (ktracefs_read(t, "README", KFILE_MAX, &text) > 0 && strstr(text, "hist:keys=")))
		say(r, KFEAT_HAVE, "hist triggers");
	else
		say(r, KFEAT_LACK, "this kernel has no hist triggers (CONFIG_HIST_TRIGGERS)");
}

static void probe_kallsyms(struct ktracefs *t __unused_arg, struct kfeat_result *r)
{
	static const char *const sym[] = { "do_sys_openat2", "tsc_khz", "kvm_sched_clock_offset",
					   "__sched_clock_offset", "hv_clock_boot" };
	bool present[ARRAY_SIZE(sym)];
	struct sbuf b = { 0 };
	int got = kallsyms_find(NULL, sym, ARRAY_SIZE(sym), present);

	for (size_t i = 0; got > 0 && i < ARRAY_SIZE(sym); i++)
		if (present[i])
			sbuf_addf(&b, " %s", sym[i]);
	if (got < 0)
		say(r, KFEAT_LACK, "/proc/kallsyms: %s", strerror(-got));
	else
		say(r, got ? KFEAT_HAVE : KFEAT_LACK, "of interest:%s", b.s ? b.s : " none");
	sbuf_free(&b);
}

static void probe_debugfs(struct ktracefs *t __unused_arg, struct kfeat_result *r)
{
	struct stat st;

	if (!stat("/sys/kernel/debug/kvm", &st))
		say(r, KFEAT_HAVE, "/sys/kernel/debug/kvm");
	else
		say(r, KFEAT_LACK, "/sys/kernel/debug/kvm: %s", strerror(errno));
}

static void probe_log(struct ktracefs *t __unused_arg, struct kfeat_result *r)
{
	_cleanup_free_ char *text = NULL;
	struct kvmft_err err = { 0 };

	if (klog_read(&text, &err))
		say_err(r, &err);
	else
		say(r, KFEAT_HAVE, "%zu bytes", strlen(text));
}

static void probe_hypervisor(struct ktracefs *t __unused_arg, struct kfeat_result *r)
{
	struct ktsc_facts f;

	if (ktsc_facts_read(NULL, &f) || !f.present)
		say(r, KFEAT_UNKNOWN, "not an x86 machine");
	else if (f.hypervisor)
		say(r, KFEAT_HAVE, "a guest; signature %s", f.hv_signature[0] ? f.hv_signature : "none");
	else
		say(r, KFEAT_HAVE, "no hypervisor: bare metal");
}

#define KERNEL_OPTION(o) "use a kernel with " o
#define BOTH		 (KFEAT_HOST | KFEAT_GUEST)

static const struct feat feat[] = {
	{ "tracefs", "everything", BOTH, NULL,
	  "as root: mount -t tracefs nodev /sys/kernel/tracing", probe_tracefs },
	{ "lockdown", "everything", BOTH, NULL, "boot without lockdown=confidentiality",
	  probe_lockdown },
	{ "privilege", "everything", BOTH, NULL,
	  "run as root, or as a member of the group that tracefs is mounted with (gid=)",
	  probe_privilege },
	{ "x86-tsc", "the trace clock that aligns host and guest exactly", KFEAT_HOST, NULL,
	  "use --clock mono; alignment is then approximate", probe_x86_tsc },
	{ "tsc", "one TSC rate for ever, through idle and frequency changes", 0, NULL,
	  "expect drift; compare captures over short times only", probe_tsc_flags },
	{ "hypervisor", "tells a guest from a host", 0, NULL, "", probe_hypervisor },
	{ "kvm-module", "host side: exits, entries, injections", KFEAT_HOST, NULL,
	  "modprobe kvm", probe_kvm_module },
	{ "kvm-vendor-module", "host side: running VMs at all", 0, NULL,
	  "modprobe kvm_intel, or modprobe kvm_amd", probe_kvm_vendor },
	{ "kvm-events", "host side: exits, entries, injections", KFEAT_HOST, NULL,
	  "modprobe kvm_intel, or modprobe kvm_amd", probe_kvm_events },
	{ "guest-events", "default events of a guest", 0, NULL,
	  "modprobe msr for msr; the others need their kernel options", probe_guest_events },
	{ "debugfs-kvm", "TSC offsets of VMs that run already", 0, NULL,
	  "as root: mount -t debugfs nodev /sys/kernel/debug (and load kvm)", probe_debugfs },
	{ "kprobes", "clock constants of a guest, read from the kernel", 0, "kprobe_events",
	  KERNEL_OPTION("CONFIG_KPROBE_EVENTS; without it they come from the boot log"), NULL },
	{ "uprobes", "probes in QEMU", 0, "uprobe_events", KERNEL_OPTION("CONFIG_UPROBE_EVENTS"),
	  NULL },
	{ "kallsyms", "finding the variables that hold clock constants", 0, NULL,
	  KERNEL_OPTION("CONFIG_KALLSYMS_ALL"), probe_kallsyms },
	{ "kernel-log", "TSC frequency and clock constants from boot", 0, NULL,
	  "run as root, or sysctl kernel.dmesg_restrict=0", probe_log },
	{ "hist-triggers", "kvmft exits: counting in the kernel", 0, NULL,
	  KERNEL_OPTION("CONFIG_HIST_TRIGGERS; without it kvmft counts by itself"), probe_hist },
	{ "synthetic-events", "latencies computed in the kernel", 0, "synthetic_events",
	  KERNEL_OPTION("CONFIG_SYNTH_EVENTS"), NULL },
	{ "snapshot", "keeping the ring when something happens", 0, "snapshot",
	  KERNEL_OPTION("CONFIG_TRACER_SNAPSHOT"), NULL },
	{ "subbuf-size", "larger sub-buffers: a third of the cost of draining", 0,
	  "buffer_subbuf_size_kb", KERNEL_OPTION("version 6.8 or newer"), NULL },
	{ "buffer-percent", "fewer wake-ups while recording", 0, "buffer_percent",
	  KERNEL_OPTION("version 5.0 or newer"), NULL },
	{ "event-pid", "recording one VM only (--vm, -p)", 0, "set_event_pid",
	  KERNEL_OPTION("version 4.4 or newer"), NULL },
	{ "event-fork", "following threads that a VM starts later", 0, "options/event-fork",
	  KERNEL_OPTION("version 4.7 or newer"), NULL },
	{ "dead-man", "recording stops when kvmft is killed", 0, "options/disable_on_free", "",
	  NULL },
	{ "error-log", "the kernel's reason for refusing a filter", 0, "error_log",
	  KERNEL_OPTION("version 5.2 or newer"), NULL },
	{ "marker-raw", "calibration marks in the trace", 0, "trace_marker_raw",
	  KERNEL_OPTION("version 4.10 or newer"), NULL },
};

size_t kfeat_count(void)
{
	return ARRAY_SIZE(feat);
}

static void probe_file(const struct feat *f, struct ktracefs *t, struct kfeat_result *r)
{
	if (!t)
		say(r, KFEAT_UNKNOWN, "no tracefs to ask");
	else if (ktracefs_has(t, f->file))
		say(r, KFEAT_HAVE, "%s", f->file);
	else if (!strcmp(f->file, "kprobe_events"))
		say(r, KFEAT_LACK, "this kernel has no kprobe events (CONFIG_KPROBE_EVENTS)");
	else
		say(r, KFEAT_LACK, "this kernel has no %s", f->file);
}

int kfeat_probe(struct ktracefs *t, size_t i, struct kfeat_result *r)
{
	const struct feat *f;

	*r = (struct kfeat_result){ .state = KFEAT_UNKNOWN };
	if (i >= ARRAY_SIZE(feat))
		return -EINVAL;
	f = &feat[i];
	r->name = f->name;
	r->purpose = f->purpose;
	r->need = f->need;
	if (f->probe)
		f->probe(t, r);
	else
		probe_file(f, t, r);
	if (r->state != KFEAT_HAVE)
		snprintf(r->remedy, sizeof(r->remedy), "%s", f->remedy);
	return 0;
}

bool kfeat_have(struct ktracefs *t, const char *name)
{
	struct kfeat_result r;

	for (size_t i = 0; i < ARRAY_SIZE(feat); i++)
		if (!strcmp(feat[i].name, name))
			return !kfeat_probe(t, i, &r) && r.state == KFEAT_HAVE;
	return false;
}
