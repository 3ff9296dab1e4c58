/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tsc.c: the time stamp counter of this machine: does it exist, is it trustworthy, how fast is it,
 * and according to whom. The frequency has many sources; the answer always names the one used. What
 * is the TSC on x86 is the system counter on arm64, CNTVCT_EL0: its offset is 0 on a host.
 */

#include <ctype.h>
#include <sys/klog.h>

#include "priv.h"

/*
 * ---- the kernel's log, for the few facts that are nowhere else ----
 *
 * The ring may have lost the boot lines long ago: nothing found means nothing.
 */

#define KLOG_READ_ALL	 3  /* SYSLOG_ACTION_READ_ALL */
#define KLOG_SIZE_BUFFER 10 /* SYSLOG_ACTION_SIZE_BUFFER */
#define KLOG_LINE_MAX	 512 /* those that are looked for are short */

/* After "<6>" and "[    1.234567] " (with "[   T12] " on some kernels), as far as present. */
static const char *skip_prefix(const char *p)
{
	if (*p == '<' && isdigit((unsigned char)p[1])) {
		const char *end = p + 1 + strspn(p + 1, "0123456789");

		if (*end == '>')
			p = end + 1;
	}
	while (*p == '[') {
		const char *inside = p + 1 + strspn(p + 1, " ");
		const char *end;

		if (*inside == 'T' || *inside == 'C')
			inside++;
		end = inside + strspn(inside, "0123456789.");
		if (end == inside || *end != ']')
			break;
		p = end + 1;
		p += *p == ' ';
	}
	return p;
}

int klog_read(char **text, struct kvmft_err *err)
{
	int size = klogctl(KLOG_SIZE_BUFFER, NULL, 0),
	    got = size < 0 ? -errno
		  : size   ? 0
			   : -ENODATA,
	    n;
	char *to;

	/* Prefixes are added while reading, and what does not fit is dropped from the old end. */
	size = size > (1 << 28) ? size : size * 2 + (1 << 16);
	*text = got ? NULL : malloc((size_t)size + 1);
	n = *text ? klogctl(KLOG_READ_ALL, *text, size) : 0;
	got = got ?: !*text ? -ENOMEM : n < 0 ? -errno : 0;
	if (got) {
		free(*text);
		*text = NULL;
		return err_lack(err, -got, "cannot read the kernel log: %s%s", strerror(-got),
				got == -EPERM ? " (run as root, or sysctl kernel.dmesg_restrict=0)"
					      : "");
	}
	(*text)[n] = '\0';
	to = *text;
	for (const char *p = *text; *p;) {
		const char *from = skip_prefix(p);
		const char *end = strchr(from, '\n');
		size_t len = end ? (size_t)(end - from) + 1 : strlen(from);

		memmove(to, from, len);
		to += len;
		p = from + len;
	}
	*to = '\0';
	return 0;
}

void klog_find_in(const char *text, const char *needle, klog_fn *fn, void *arg)
{
	char line[KLOG_LINE_MAX];

	for (const char *p = text; (p = strstr(p, needle)); p += strcspn(p, "\n")) {
		const char *from = p;

		while (from > text && from[-1] != '\n')
			from--;
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(from, "\n"), from);
		fn(line, arg);
	}
}

/* ---- sched_clock() ---- */

static void take_sched(const char *line, void *arg)
{
	struct klog_sched *s = arg;
	int64_t a, b, c, d;
	int used = 0;
	uint64_t v;

	s->unstable |= str_starts(line, "sched_clock: Marking unstable");
	if (sscanf(line, "kvm-clock: using sched offset of %" SCNu64 " cycles%n", &v, &used) == 1 &&
	    used) {
		s->has_kvm = true;
		s->kvm_sched_clock_offset = (int64_t)v;
	}
	if (sscanf(line, "sched_clock: Marking stable (%" SCNd64 ", %" SCNd64 ")->(%" SCNd64
		   ", %" SCNd64 ")%n", &a, &b, &c, &d, &used) == 4 && used) {
		s->has_kernel = true;
		s->kernel_sched_offset = d;
	}
}

void klog_parse_sched(const char *text, struct klog_sched *s)
{
	*s = (struct klog_sched){ 0 };
	klog_find_in(text, "kvm-clock: using sched offset of ", take_sched, s);
	klog_find_in(text, "sched_clock: Marking ", take_sched, s);
}

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define HAVE_CPUID 1
#else
#define HAVE_CPUID 0
#endif
#if HAVE_CPUID || defined(__aarch64__)
#define HAVE_TSC 1
#else
#define HAVE_TSC 0
#endif

#define CPUID_TSC	 0x15u	     /* crystal and ratio; Intel SDM, CPUID */
#define CPUID_HV	 0x40000000u /* signature of the hypervisor */
#define CPUID_HV_TSC	 0x40000010u /* VMware's timing leaf, which KVM-based VMMs offer too */
#define MEASURE_NS	 50000000    /* about 1 ppm with brackets of 50 ns */
/* Anything else is a misreading. Counters of arm64 have a clock of their own, a slow one. */
#define KHZ_MIN		 (HAVE_CPUID ? 100000u : 1000u)
#define KHZ_MAX		 20000000u

static bool khz_plausible(uint64_t khz)
{
	return khz >= KHZ_MIN && khz <= KHZ_MAX;
}

/* ---- reading clocks ---- */

#if HAVE_CPUID
uint64_t krdtsc_now(void)
{
	uint32_t lo, hi;

	/* The fences keep earlier and later instructions, loads included, on their side. */
	__asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(lo), "=d"(hi) : : "memory");
	return (uint64_t)hi << 32 | lo;
}
#elif HAVE_TSC
uint64_t krdtsc_now(void)
{
	uint64_t v;

	/* Without the barriers it may be read early, or what follows before it. */
	__asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(v) : : "memory");
	return v;
}
#else
uint64_t krdtsc_now(void)
{
	return 0;
}
#endif

const char *kclock_default(void)
{
	return HAVE_TSC && !HAVE_CPUID ? "mono_raw" : "x86-tsc";
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts = { 0 };

	if (clock_gettime(id, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int kbracket_read(unsigned int tries, struct clock_bracket *b)
{
	*b = (struct clock_bracket){ .width = UINT64_MAX };
	if (!HAVE_TSC)
		return -ENOTSUP;
	for (unsigned int i = 0; i < MAX(tries, 1u) || b->width == UINT64_MAX; i++) {
		struct clock_bracket one = { .tsc = krdtsc_now() };
		uint64_t end;

		one.mono_raw = clock_ns(CLOCK_MONOTONIC_RAW);
		one.mono = clock_ns(CLOCK_MONOTONIC);
		one.boot = clock_ns(CLOCK_BOOTTIME);
		one.real = clock_ns(CLOCK_REALTIME);
		end = krdtsc_now();
		one.width = end - one.tsc;
		/* Backwards: moved between CPUs whose counters differ. */
		if (end >= one.tsc && one.width < b->width)
			*b = one;
		else if (i > tries + 1000)
			return -EIO;
	}
	return 0;
}

/* ---- sources of the frequency, best first ---- */

int ktsc_parse_log(const char *line, uint64_t *khz, bool *refined)
{
	unsigned int mhz, frac;
	int used = 0;

	*refined = true;
	if (sscanf(line, "tsc: Refined TSC clocksource calibration: %5u.%3u MHz%n", &mhz, &frac,
		   &used) != 2 || !used) {
		*refined = false;
		if (sscanf(line, "tsc: Detected %5u.%3u MHz%n", &mhz, &frac, &used) != 2 || !used)
			return -EINVAL;
	}
	*khz = (uint64_t)mhz * 1000 + frac; /* the kernel prints three decimals, always */
	return khz_plausible(*khz) ? 0 : -ERANGE;
}

struct log_khz {
	uint64_t refined, detected;
};

/* "... MHz TSC" follows "... MHz processor" only if the two differ, and then counts. */
static void tsc_log_line(const char *line, void *arg)
{
	struct log_khz *k = arg;
	uint64_t khz;
	bool refined;

	if (!ktsc_parse_log(line, &khz, &refined))
		*(refined ? &k->refined : &k->detected) = khz;
}

#if HAVE_CPUID
/*
 * What a hypervisor says is only meaningful when the hypervisor bit is set: real CPUs answer these
 * leaves with garbage.
 */
static uint64_t khz_from_cpuid(bool hypervisor)
{
	uint32_t a, b, c, d;

	if (hypervisor) {
		__cpuid(CPUID_HV, a, b, c, d);
		if (a < CPUID_HV_TSC || a > CPUID_HV + 0xffff)
			return 0;
		__cpuid(CPUID_HV_TSC, a, b, c, d);
		return a;
	}
	if ((unsigned int)__get_cpuid_max(0, NULL) < CPUID_TSC)
		return 0;
	__cpuid(CPUID_TSC, a, b, c, d);
	return a && b && c ? (uint64_t)c * b / a / 1000 : 0;
}

static void cpu_identify(struct ktsc_facts *f)
{
	uint32_t a, b, c, d;

	__cpuid(0, a, b, c, d);
	memcpy(f->vendor, &b, 4);
	memcpy(f->vendor + 4, &d, 4);
	memcpy(f->vendor + 8, &c, 4);
	__cpuid(1, a, b, c, d);
	f->present = d & (1u << 4);
	f->hypervisor = c & (1u << 31);
	if (!f->hypervisor)
		return;
	__cpuid(CPUID_HV, a, b, c, d);
	memcpy(f->hv_signature, &b, 4);
	memcpy(f->hv_signature + 4, &c, 4);
	memcpy(f->hv_signature + 8, &d, 4);
}
#else
static uint64_t khz_from_cpuid(bool hypervisor __unused_arg)
{
	return 0;
}

static void cpu_identify(struct ktsc_facts *f)
{
	f->present = f->arm64 = HAVE_TSC;
	f->constant = f->nonstop = HAVE_TSC; /* by its architecture */
	/* There is no other clock below local_clock(). */
	f->sched_stable = HAVE_TSC;
}
#endif

static uint64_t khz_measured(void)
{
	struct timespec pause = { .tv_nsec = MEASURE_NS };
	struct clock_bracket a, b;
	uint64_t ns;

	if (kbracket_read(20, &a))
		return 0;
	nanosleep(&pause, NULL);
	if (kbracket_read(20, &b) || b.mono_raw <= a.mono_raw || b.tsc <= a.tsc)
		return 0;
	ns = b.mono_raw - a.mono_raw;
	return (uint64_t)(((unsigned __int128)(b.tsc - a.tsc) * 1000000 + ns / 2) / ns);
}

static bool khz_take(struct ktsc_facts *f, uint64_t khz, const char *source, bool exact)
{
	if (!khz_plausible(khz))
		return false;
	f->khz = khz;
	f->exact = exact;
	snprintf(f->source, sizeof(f->source), "%s", source);
	return true;
}

static void khz_find(struct ktracefs *t, struct ktsc_facts *f)
{
	struct kread_arg var = { .where = "tsc_khz", .type = "u32" };
	_cleanup_free_ char *log = NULL;
	uint64_t hz = 0;
	struct klog_sched sched = { 0 };
	struct log_khz k = { 0 };

#ifdef __aarch64__
	__asm__("mrs %0, cntfrq_el0" : "=r"(hz));
#endif
	/* The firmware's value for the counter, if it is in whole kHz: so far it always is. */
	if (khz_take(f, hz % 1000 ? 0 : hz / 1000, "cntfrq_el0", true))
		return;
	/*
	 * The log is the cheap source; a probe costs an instance and is used if the log has
	 * nothing.
	 */
	if (!klog_read(&log, NULL)) {
		klog_find_in(log, "tsc: ", tsc_log_line, &k);
		klog_parse_sched(log, &sched);
	}
	if (sched.has_kernel && !sched.unstable) {
		f->sched_stable = true;
		f->sched_offset = sched.kernel_sched_offset;
	}
	if (khz_take(f, k.refined, "dmesg refined", true) ||
	    khz_take(f, k.detected, "dmesg detected", true) ||
	    (t && kread_symbols(t, &var, 1, NULL) == 1 &&
	     khz_take(f, var.value, "kprobe tsc_khz", true)) ||
	    khz_take(f, khz_from_cpuid(false), "cpuid 0x15", false) ||
	    (f->hypervisor &&
	     khz_take(f, khz_from_cpuid(true), "hypervisor cpuid 0x40000010", false)))
		return;
	(void)khz_take(f, khz_measured(), "measured", false);
}

/* ---- the rest ---- */

static bool flags_have(const char *flags, const char *flag)
{
	size_t len = strlen(flag);
	size_t end = strcspn(flags, "\n");

	for (const char *p = flags; (p = strstr(p, flag)) && p < flags + end; p += len)
		if (p[-1] == ' ' && (p[len] == ' ' || p[len] == '\n' || !p[len]))
			return true;
	return false;
}

unsigned int kmachine_sides(const char *root, const struct ktsc_facts *f, const char **why)
{
	static const char *const words[] = {
		[KFEAT_HOST] = "this machine is no guest of KVM",
		[KFEAT_GUEST] = "this machine is a guest of KVM, and has no KVM itself",
		[KFEAT_HOST | KFEAT_GUEST] = "this machine is a guest of KVM, and has KVM itself",
	};
	/* On arm64, KVM is built into a kernel, or it has none. */
	static const char *const words_arm64[] = {
		[KFEAT_HOST] = "this machine has KVM",
		[KFEAT_GUEST] = "this machine has no KVM",
	};
	unsigned int sides = KFEAT_HOST;
	char path[256];

	snprintf(path, sizeof(path), "%s/sys/class/misc/kvm", root ?: "");
	if (str_starts(f->hv_signature, "KVMKVMKVM"))
		sides = access(path, F_OK) ? KFEAT_GUEST : KFEAT_HOST | KFEAT_GUEST;
	if (f->arm64)
		sides = access(path, F_OK) ? KFEAT_GUEST : KFEAT_HOST;
	if (why)
		*why = (f->arm64 ? words_arm64 : words)[sides];
	return sides;
}

void ktsc_facts_read(struct ktracefs *t, struct ktsc_facts *f)
{
	_cleanup_free_ char *text = NULL;
	const char *flags = NULL;

	*f = (struct ktsc_facts){ 0 };
	cpu_identify(f);
	str_printable(f->vendor);
	str_printable(f->hv_signature);
	if (file_read_line(AT_FDCWD,
			   "/sys/devices/system/clocksource/clocksource0/current_clocksource",
			   f->clocksource, sizeof(f->clocksource)))
		f->clocksource[0] = '\0';
	if (!f->present)
		return;
	if (!f->arm64 && file_read_all(AT_FDCWD, "/proc/cpuinfo", KFILE_MAX, &text) >= 0)
		flags = strstr(text, "\nflags");
	if (flags) {
		f->constant = flags_have(flags + 1, "constant_tsc");
		f->nonstop = flags_have(flags + 1, "nonstop_tsc");
	}
	khz_find(t, f);
}
