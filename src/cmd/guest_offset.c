/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest_offset.c: `kvmft guest-offset`, what to add to this guest's trace clocks to get kvmclock.
 *
 * Without --clock the output is shell assignments: numbers are signed decimal, which the
 * arithmetic of every shell can read, and only letters, digits, '-', ',' and '_' occur.
 */
#include "cmds.h"
#include "kvmft/clock.h"
#include "kvmft/kernel.h"

enum { CLOCK_LOCAL, CLOCK_GLOBAL, CLOCK_PERF };
static const char *const guest_clocks[] = {
	[CLOCK_LOCAL] = "local", [CLOCK_GLOBAL] = "global", [CLOCK_PERF] = "perf", NULL,
};

struct guest_offset_opts {
	int clock;
};

static const struct opt guest_offset_options[] = {
	OPTION_CHOICE(0, "clock", struct guest_offset_opts, clock, "CLOCK", guest_clocks,
		      "print one number: what to add to trace clock local, global or perf"),
	OPT_END,
};

/* What the numbers are based on, gathered before anything is printed. */
struct guest_offset {
	struct kguest_clock g;
	bool has_raw;
	struct mono_raw_line raw;
	bool unstable;	      /* sched_clock: global and perf are adjusted by the kernel */
	char why_no_tracefs[256];
	char why_no_log[256];
};

/* A whole word of the kernel's command line. */
static bool booted_with(const char *word)
{
	_cleanup_free_ char *text = NULL;
	size_t n = strlen(word);

	if (file_read_all(AT_FDCWD, "/proc/cmdline", 1 << 16, &text) < 0)
		return false;
	for (const char *p = text; (p = strstr(p, word)); p += n)
		if ((p == text || p[-1] == ' ') && strchr(" \n", p[n]))
			return true;
	return false;
}

static const char *why_not(const struct guest_offset *o)
{
	if (o->why_no_tracefs[0])
		return o->why_no_tracefs;
	return o->g.why[0] ? o->g.why : "the kernel does not name the variable";
}

/* Neither way leads to the variable: why, and what to do instead. */
static int no_way(const struct guest_offset *o, const char *variable, const char *line,
		  const char *instead, struct kvmft_err *err)
{
	if (o->why_no_log[0])
		return err_lack(err, ENODATA, "cannot tell %s: no kprobe (%s), and %s; %s",
				variable, why_not(o), o->why_no_log, instead);
	return err_lack(err, ENODATA,
			"cannot tell %s: no kprobe (%s), and no \"%s\" in the kernel log; %s",
			variable, why_not(o), line, instead);
}

static int check_kernel_offset(const struct guest_offset *o, struct kvmft_err *err)
{
	if (o->unstable)
		return err_lack(
			err, ENOTSUP,
			"sched_clock is marked unstable, so no constant relates global or perf to "
			"kvmclock: use clock local or x86-tsc");
	if (!o->g.has_kernel_offset)
		return no_way(o, "__sched_clock_offset", "sched_clock: Marking stable",
			      "use clock local or x86-tsc instead", err);
	return 0;
}

/* What makes kvmclock of a stamp of that clock, ns (struct sched_offsets), wrapping. */
static uint64_t offset_of(const struct kguest_clock *g, int clock)
{
	return (uint64_t)g->kvm_offset - (clock == CLOCK_LOCAL ? 0 : (uint64_t)g->kernel_offset);
}

static int offset_print_all(const struct guest_offset *o, struct kvmft_err *err)
{
	const struct kguest_clock *g = &o->g;
	const struct mono_raw *r = &o->raw.raw;
	int ret = check_kernel_offset(o, err);

	printf("kvm_sched_clock_offset=%" PRId64 "\n", g->kvm_offset);
	if (g->has_kernel_offset)
		printf("sched_clock_offset=%" PRId64 "\n", g->kernel_offset);
	printf("offset_local=%" PRId64 "\n", (int64_t)offset_of(g, CLOCK_LOCAL));
	if (!ret) {
		printf("offset_global=%" PRId64 "\n", (int64_t)offset_of(g, CLOCK_GLOBAL));
		printf("offset_perf=%" PRId64 "\n", (int64_t)offset_of(g, CLOCK_PERF));
	}
	printf("pvclock_count=%zu\n", g->npv);
	for (size_t i = 0; i < g->npv; i++) {
		const struct pvclock *p = &g->pv[i].pv;

		if (g->pv[i].cpu)
			continue;
		printf("pvclock_cpu0_version=%" PRIu32 "\n", p->version);
		printf("pvclock_cpu0_tsc_timestamp=%" PRIu64 "\n", p->tsc_timestamp);
		printf("pvclock_cpu0_system_time=%" PRIu64 "\n", p->system_time);
		printf("pvclock_cpu0_tsc_to_system_mul=%" PRIu32 "\n", p->mul);
		printf("pvclock_cpu0_tsc_shift=%d\n", p->shift);
		printf("pvclock_cpu0_flags=%u\n", p->flags);
		/* As --pvclock of other commands takes it. */
		printf("pvclock=%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%d,%u\n", p->tsc_timestamp,
		       p->system_time, p->mul, p->shift, p->flags);
	}
	if (o->has_raw) { /* as --mono-raw and --clocksource of `kvmft convert` take it */
		printf("mono_raw=%" PRIu64 ",%" PRIu32 ",%u,%" PRIu64 ",%" PRIu64 "\n", r->last,
		       r->mult, r->shift, r->nsec, r->base);
		printf("mono_raw_clocksource=%s\n", o->raw.over_kvmclock ? "kvm-clock" : "tsc");
	}
	printf("source=%s\n", g->kvm_source);
	if (g->has_kernel_offset && strcmp(g->kvm_source, g->kernel_source))
		printf("sched_clock_offset_source=%s\n", g->kernel_source);
	return ret;
}

static int guest_offset_run(void *opts, int argc __unused_arg, char **argv __unused_arg,
			    struct kvmft_err *err)
{
	const struct guest_offset_opts *opt = opts;
	struct guest_offset o = { .unstable = false };
	int ret = 0;
	_cleanup_free_ char *log = NULL;
	struct kvmft_err why = { .text = "" };
	struct ktracefs *t = NULL;
	struct klog_sched s = { 0 };
	struct ktsc_facts tsc;

	if (ktracefs_open(NULL, KTRACEFS_MOUNT, &t, &why)) {
		snprintf(o.why_no_tracefs, sizeof(o.why_no_tracefs), "%.255s", why.text);
		t = NULL;
	}
	kguest_clock_read(t, &o.g);
	if (t)
		ktsc_facts_read(NULL, &tsc);
	/* Optional, like everything read by a probe: no reason to fail. */
	o.has_raw = t && mono_raw_learn(t, tsc.clocksource, &o.g, &o.raw);
	ktracefs_close(t);
	if (klog_read(&log, &why))
		snprintf(o.why_no_log, sizeof(o.why_no_log), "%.255s", why.text);
	else
		klog_parse_sched(log, &s);
	o.unstable = s.unstable;
	/* Are this machine's trace clocks based on a kvmclock, and do we know how? */
	if (!o.g.kvm_guest)
		return err_lack(err, ENOTSUP, "this machine is not a KVM guest: run it in the guest whose "
				"trace is to be converted");
	if ((o.g.sched_known && o.g.sched_is_tsc) ||
	    (!o.g.has_kvm_offset && booted_with("no-kvmclock")))
		return err_lack(err, ENOTSUP,
				"sched_clock of this guest is the TSC, not kvmclock (no-kvmclock): trace "
				"with clock x86-tsc on both sides, and add the TSC offset on the host");
	if (!o.g.has_kvm_offset)
		return no_way(&o, "kvm_sched_clock_offset", "kvm-clock: using sched offset",
			      "trace with clock x86-tsc instead", err);
	if (opt->clock < 0)
		return offset_print_all(&o, err);
	if (opt->clock != CLOCK_LOCAL)
		ret = check_kernel_offset(&o, err);
	if (!ret)
		printf("0x%" PRIx64 "\n", offset_of(&o.g, opt->clock));
	return ret;
}

const struct cmd cmd_guest_offset = {
	.name = "guest-offset",
	.summary = "in a guest: what to add to its trace clocks to get kvmclock",
	.description =
		"Prints assignments that a shell can eval; with --clock one number, as --clock-offset of\n"
		"`kvmft trace` takes it. Reads kernel variables through a kprobe of its own, or the\n"
		"boot messages where kprobes are missing; records nothing and asks nothing of the host.",
	.examples = "  eval \"$(kvmft guest-offset)\"; echo $offset_perf\n"
		    "  kvmft trace -e sched:sched_wakeup --clock perf \\\n"
		    "        --clock-offset $(kvmft guest-offset --clock perf)",
	.opts = guest_offset_options,
	.opts_size = sizeof(struct guest_offset_opts),
	.run = guest_offset_run,
};
