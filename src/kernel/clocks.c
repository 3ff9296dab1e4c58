/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clocks.c: this machine's clocks as its kernel has them. First the line of CLOCK_MONOTONIC_RAW,
 * read from the kernel's timekeeper, or from what the kernel shows of it to each process.
 *
 * The position of its fields differs between kernels: 6.13 moved them, lock debugging shifts them,
 * and the variable changed its name. So they are found by their shape. The variable contains two
 * records of the kernel's struct tk_read_base (include/linux/timekeeper_internal.h), for
 * CLOCK_MONOTONIC and, after it, for CLOCK_MONOTONIC_RAW: { clock, mask, cycle_last, mult and
 * shift, xtime_nsec, base }; both belong to one clocksource and are written together, so their
 * first three words are the same.
 *
 * Guessed positions count only if clock_gettime() agrees, within the few dozen ns of a bracketed
 * reading.
 */
#include "kvmft/kernel.h"

#include "priv.h"

/*
 * The line of CLOCK_MONOTONIC_RAW, from the page through which the kernel lets each process
 * read clocks without a system call. It needs no probe and no names of variables, which not every
 * kernel has: Debian's for arm64 does not.
 *
 * The page holds a record for each group of clocks (struct vdso_data of include/vdso/datapage.h,
 * vdso_clock since Linux 6.15): { seq and mode, cycle_last, mask, mult and shift, basetime[12] },
 * in some kernels with max_cycles before the mask. Their positions differ, so they are found by
 * their shape; several may have it. clock_gettime() decides which one it is, if any:
 * mono_raw_learn().
 */

#define PAGE_WORDS 512 /* of the smallest page; the records are at its beginning */
#define VVAR_READ_TRIES 8
#define SEC_NS	   1000000000u

/* Of words, from the mask on. */
enum {
	VV_MASK,
	VV_MULT_SHIFT,
	VV_BASE,
	VV_SEC = VV_BASE + 2 * CLOCK_MONOTONIC_RAW,
	VV_NSEC,
	VV_WORDS,
};

/* The same twice, and not in the middle of being written. */
static int page_read(uint64_t *word)
{
	_cleanup_free_ char *maps = NULL;
	const volatile uint64_t *p;
	const char *line = NULL;
	bool same = false;
	uintptr_t at;

	if (file_read_all(AT_FDCWD, "/proc/self/maps", KFILE_MAX, &maps) >= 0)
		line = strstr(maps, "[vvar]");
	while (line && line > maps && line[-1] != '\n')
		line--;
	if (!line || sscanf(line, "%" SCNxPTR "-", &at) != 1)
		return -ENOENT;
	p = (const volatile uint64_t *)at;
	for (unsigned int tries = 0; tries < VVAR_READ_TRIES && !same; tries++) {
		same = tries > 0;
		for (size_t i = 0; i < PAGE_WORDS; i++) {
			uint64_t v = p[i];

			same &= v == word[i];
			word[i] = v;
		}
	}
	return same ? 0 : -EAGAIN;
}

int kvvar_find(const uint64_t *word, size_t n, struct kmono_raw *r, kmono_raw_fits_fn *fits,
	       const void *arg)
{
	/* A record whose mask is word i: a line with an even sequence number before it. */
	for (size_t i = 0; i + VV_WORDS <= n; i++) {
		const uint64_t *w = &word[i];

		if (w[VV_MASK] < KCYCLES_MASK_MIN || (w[VV_MASK] & (w[VV_MASK] + 1)) ||
		    !w[VV_SEC] || w[VV_SEC] > UINT64_MAX / SEC_NS)
			continue;
		for (size_t last = 1; last <= 2 && last < i; last++) { /* 2: with max_cycles */
			if (word[i - last - 1] & 1)
				continue;
			*r = (struct kmono_raw){ .symbol = "vvar",
						 .line = {
							 .last = word[i - last],
							 .mult = (uint32_t)w[VV_MULT_SHIFT],
							 .shift = (uint8_t)(w[VV_MULT_SHIFT] >> 32),
							 .nsec = w[VV_NSEC],
							 .base = w[VV_SEC] * SEC_NS } };
			if (!mono_raw_check(&r->line) && w[VV_MULT_SHIFT] >> 32 == r->line.shift &&
			    fits(r, arg))
				return 0;
		}
	}
	return -ENOENT;
}

#define READ_TRIES  4
#define CHECK_TRIES 64
#define WORDS	  40 /* the second record ends at byte 184 of 6.18's, 280 with lock debugging */
#define PER_NAME  (WORDS + 2) /* the sequence counter before and after */
#define SHIFT_MAX 32

_Static_assert(KTK_ARGS == 2 * PER_NAME, "two names, each with all words");

static const char *const symbol[] = { "tk_core", "timekeeper_data" };

enum { TK_CLOCK, TK_MASK, TK_LAST, TK_MULT_SHIFT, TK_NSEC, TK_BASE, TK_FIELDS };

void kmono_raw_args(struct kread_arg *arg, char (*where)[32])
{
	for (size_t i = 0; i < KTK_ARGS; i++) {
		size_t at = i % PER_NAME;
		bool seq = !at || at == PER_NAME - 1;

		snprintf(where[i], sizeof(where[i]), "%s+%zu", symbol[i / PER_NAME],
			 seq ? 0 : at * 8);
		arg[i] = (struct kread_arg){ .where = where[i], .type = seq ? "u32" : "x64" };
	}
}

/* The second of exactly two records; if there are more, we do not know what we are looking at. */
static int find_raw(const struct kread_arg *word, struct kmono_raw *r)
{
	const struct kread_arg *found[2] = { NULL, NULL };
	size_t n = 0;

	for (size_t i = 0; i + TK_FIELDS <= WORDS; i++) {
		const struct kread_arg *a = &word[i];
		bool present = true;

		for (size_t k = 0; k < TK_FIELDS; k++)
			present &= a[k].present;
		/*
		 * Does a record begin here? We can only compute with counters that never wrap:
		 * those of 64 bits, or of the 56 or more that arm64's has.
		 */
		if (!present || (int64_t)a[TK_CLOCK].value >= 0 ||
		    a[TK_MASK].value < KCYCLES_MASK_MIN ||
		    (a[TK_MASK].value & (a[TK_MASK].value + 1)) ||
		    !(uint32_t)a[TK_MULT_SHIFT].value || a[TK_MULT_SHIFT].value >> 32 > SHIFT_MAX)
			continue;
		if (n == ARRAY_SIZE(found))
			return -ENOENT;
		found[n++] = a;
		i += TK_FIELDS - 1;
	}
	if (n != ARRAY_SIZE(found) || !(found[0][TK_CLOCK].value == found[1][TK_CLOCK].value &&
					found[0][TK_LAST].value == found[1][TK_LAST].value))
		return -ENOENT;
	r->line = (struct mono_raw){
		.last = found[1][TK_LAST].value,
		.mult = (uint32_t)found[1][TK_MULT_SHIFT].value,
		.shift = (uint8_t)(found[1][TK_MULT_SHIFT].value >> 32),
		.nsec = found[1][TK_NSEC].value,
		.base = found[1][TK_BASE].value,
	};
	return 0;
}

int kmono_raw_take(const struct kread_arg *arg, struct kmono_raw *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(symbol); i++, arg += PER_NAME) {
		const struct kread_arg *last = &arg[PER_NAME - 1];

		if (!arg->present || !last->present)
			continue;
		/* Odd: being written; different: was written. */
		if (arg->value != last->value || (arg->value & 1))
			return -EAGAIN;
		if (find_raw(arg + 1, r) == 0) {
			r->symbol = symbol[i];
			return 0;
		}
	}
	return -ENOENT;
}

/* False: it changed while being read, again and again, or has no known shape. */
static bool timekeeper_read(struct ktracefs *t, struct kmono_raw *r)
{
	struct kread_arg arg[KTK_ARGS];
	char where[KTK_ARGS][32];
	int ret = -EAGAIN;

	for (unsigned int i = 0; i < READ_TRIES && ret == -EAGAIN; i++) {
		kmono_raw_args(arg, where);
		if (kread_symbols(t, arg, KTK_ARGS, NULL) < 0)
			return false;
		ret = kmono_raw_take(arg, r);
	}
	return !ret;
}

/* ---- against a reading ---- */

/* What clock_gettime() said, and between which cycles. */
struct reading {
	uint64_t lo, hi, ns;
};

static bool raw_fits(const struct kmono_raw *k, const void *arg)
{
	const struct reading *r = arg;

	return mono_raw_fits(&k->line, r->lo, r->hi, r->ns);
}

/* False: there is no TSC, or no pvclock record, to check it with. */
static bool read_now(const struct kguest_clock *g, bool kvmclock, struct reading *r)
{
	const struct pvclock *pv;
	struct clock_bracket b;

	if (kbracket_read(CHECK_TRIES, &b))
		return false;
	/* In the units of the clocksource. */
	r->lo = b.tsc;
	r->hi = b.tsc + b.width;
	pv = g && g->npv ? &g->pv[0].pv : NULL;
	if (kvmclock && (!pv || pvclock_check(pv) || pvclock_to_ns(pv, r->lo, &r->lo) ||
			 pvclock_to_ns(pv, r->hi, &r->hi)))
		return false;
	r->ns = b.mono_raw;
	return true;
}

bool mono_raw_learn(struct ktracefs *t, const char *clocksource, const struct kguest_clock *g,
		    struct mono_raw_line *m)
{
	uint64_t word[PAGE_WORDS] = { 0 };
	struct reading r;
	struct kmono_raw k;

	m->over_kvmclock = !strcmp(clocksource, "kvm-clock");
	if (!m->over_kvmclock && strcmp(clocksource, "tsc") && strcmp(clocksource, "tsc-early") &&
	    strcmp(clocksource, "arch_sys_counter"))
		return false;
	snprintf(m->source, sizeof(m->source), "vvar");
	if (!read_now(g, m->over_kvmclock, &r) || page_read(word) ||
	    kvvar_find(word, PAGE_WORDS, &k, raw_fits, &r)) {
		/* With a probe, which a guest has needed anyway. */
		if (g)
			k = g->raw;
		if ((g ? !g->has_raw : !timekeeper_read(t, &k)) ||
		    !read_now(g, m->over_kvmclock, &r) || !raw_fits(&k, &r))
			return false;
		snprintf(m->source, sizeof(m->source), "kprobe %s", k.symbol);
	}
	m->raw = k.line;
	return true;
}

/*
 * ---- sched_clock offsets and pvclock records of this guest ----
 *
 * kvm_sched_clock_offset and hv_clock_boot: arch/x86/kernel/kvmclock.c; __sched_clock_offset:
 * kernel/sched/clock.c; the record's layout is the ABI of arch/x86/include/asm/pvclock-abi.h,
 * one per cache line (64 bytes) and CPU.
 */

#define PV_STRIDE 64
#define PV_ARGS	  7 /* per record: version first and last, and five fields */
#define PV_BATCH  8 /* records per probe hit, so that one hit holds whole records */

static const struct {
	unsigned int off;
	const char *type;
} pv_field[PV_ARGS] = {
	{ 0, "u32" },  { 8, "x64" }, { 16, "x64" }, { 24, "x32" },
	{ 28, "s8" }, { 29, "x8" },  { 0, "u32" },
};

/* Offsets, the first records and the timekeeper in one shot; more records in further ones. */
static void read_by_probe(struct ktracefs *t, struct kguest_clock *g)
{
	struct kread_arg arg[2 + PV_BATCH * PV_ARGS + KTK_ARGS];
	char where[PV_BATCH * PV_ARGS][32], where_tk[KTK_ARGS][32];
	_cleanup_(kcpus_free) struct kcpus cpus = { 0 };
	struct kvmft_err err = { .text = "" };
	uint32_t ncpu = 1;

	if (kcpus_read(KCPU_POSSIBLE, &cpus) == 0 && cpus.n)
		ncpu = MIN(cpus.cpu[cpus.n - 1] + 1, (uint32_t)KGUEST_MAX_PVCLOCK);
	for (uint32_t first = 0; first < ncpu; first += PV_BATCH) {
		size_t n = MIN((size_t)(ncpu - first), (size_t)PV_BATCH), at = first ? 0 : 2;
		size_t nargs = at + n * PV_ARGS;
		int ret;

		arg[0] = (struct kread_arg){ .where = "kvm_sched_clock_offset", .type = "x64" };
		arg[1] = (struct kread_arg){ .where = "__sched_clock_offset", .type = "s64" };
		for (size_t i = 0; i < n * PV_ARGS; i++) {
			unsigned int off = (first + (uint32_t)(i / PV_ARGS)) * PV_STRIDE +
					   pv_field[i % PV_ARGS].off;

			snprintf(where[i], sizeof(where[i]), "hv_clock_boot+%u", off);
			arg[at + i] = (struct kread_arg){ .where = where[i],
							  .type = pv_field[i % PV_ARGS].type };
		}
		if (!first)
			kmono_raw_args(arg + nargs, where_tk);
		ret = kread_symbols(t, arg, nargs + (first ? 0 : KTK_ARGS), &err);
		if (ret < 0) {
			snprintf(g->why, sizeof(g->why), "%.255s",
				 err.text[0] ? err.text : strerror(-ret));
			return;
		}
		if (!first && arg[0].present) {
			g->has_kvm_offset = true;
			g->kvm_offset = (int64_t)arg[0].value;
			g->kvm_source = "kprobe";
		}
		if (!first && arg[1].present) {
			g->has_kernel_offset = true;
			g->kernel_offset = (int64_t)arg[1].value;
			g->kernel_source = "kprobe";
		}
		if (!first)
			g->has_raw = kmono_raw_take(arg + nargs, &g->raw) == 0;
		for (size_t i = 0; i < n; i++) {
			const struct kread_arg *a = &arg[at + i * PV_ARGS];
			size_t got = 0;

			while (got < PV_ARGS && a[got].present)
				got++;
			/* Odd: the host was writing; 0: never registered; different: changed. */
			if (got < PV_ARGS || a[0].value != a[PV_ARGS - 1].value || !a[0].value ||
			    (a[0].value & 1))
				continue;
			g->pv[g->npv++] = (struct cpu_pvclock){
				.cpu = first + (uint32_t)i,
				.pv = {
					.version = (uint32_t)a[0].value,
					.tsc_timestamp = a[1].value,
					.system_time = a[2].value,
					.mul = (uint32_t)a[3].value,
					.shift = (int8_t)a[4].value,
					.flags = (uint8_t)a[5].value,
				},
			};
		}
	}
}

void kguest_clock_read(struct ktracefs *t, struct kguest_clock *g)
{
	_cleanup_free_ char *text = NULL;
	struct klog_sched s = { 0 };
	struct ktsc_facts tsc;

	memset(g, 0, sizeof(*g));
	ktsc_facts_read(NULL, &tsc);
	g->kvm_guest = !strncmp(tsc.hv_signature, "KVMKVMKVM", 9);
	if (t)
		read_by_probe(t, g);
	if (!klog_read(&text, NULL))
		klog_parse_sched(text, &s);
	if (s.has_kvm) {
		g->sched_known = true;
		g->sched_is_tsc = false;
	}
	if (s.has_kvm && !g->has_kvm_offset) {
		g->has_kvm_offset = true;
		g->kvm_offset = s.kvm_sched_clock_offset;
		g->kvm_source = "dmesg";
	}
	if (s.has_kernel && !g->has_kernel_offset) {
		g->has_kernel_offset = true;
		g->kernel_offset = s.kernel_sched_offset;
		g->kernel_source = "dmesg";
	}
	/*
	 * A guest that does not use kvmclock has the variables, too, all zero: the offset is set
	 * together with sched_clock (kvm_sched_clock_init), and is never 0 once it is set.
	 */
	if (g->has_kvm_offset && g->kvm_source[0] == 'k' && !g->sched_known) {
		g->sched_known = true;
		g->sched_is_tsc = g->kvm_offset == 0;
	}
	if (g->sched_is_tsc)
		g->has_kvm_offset = false;
}

/*
 * ---- a trace clock beside the TSC, by markers in an instance of our own ----
 *
 * rdtsc, write to trace_marker, rdtsc: the marker's stamp was taken in between, by the very
 * function that stamps events. `trace` shows stamps in microseconds, except with option raw, which
 * prints "PID CPU STAMP # ADDRESS TEXT" (kernel: print_raw_fmt() in kernel/trace/trace.c).
 * Not libtracefs' tracefs_print_init(): marker and option are below the instance's descriptor, as
 * the confined recorder cannot use paths.
 */

#define MAX_TRIES 256
#define MARKER	  "kvmft-"

int kclock_parse_marker(const char *text, uint64_t n, uint64_t *ts)
{
	const char *eol;

	for (; text; text = eol ? eol + 1 : NULL) {
		uint64_t stamp, number;
		unsigned int cpu;
		int pid;

		eol = strchr(text, '\n');
		if (sscanf(text, "%d %u %" SCNu64 " # %*s " MARKER "%" SCNu64, &pid, &cpu, &stamp,
			   &number) == 4 && number == n) {
			*ts = stamp;
			return 0;
		}
	}
	return -ENOENT;
}

struct try {
	uint64_t
		number; /* of its marker: a TSC, since older markers may be in the ring */
	uint64_t tsc, width;
};

/* The tightest one whose stamp is in the text. */
static bool tightest_sample(struct try *at, unsigned int n, const char *text,
			    struct kclock_sample *out)
{
	for (unsigned int left = n; left; left--) {
		struct try *best = at;

		for (unsigned int i = 1; i < n; i++)
			if (at[i].width < best->width)
				best = &at[i];
		if (best->width == UINT64_MAX)
			return false;
		*out = (struct kclock_sample){ .tsc = best->tsc, .width = best->width };
		if (!kclock_parse_marker(text, best->number, &out->ns))
			return true;
		best->width = UINT64_MAX;
	}
	return false;
}

int kclock_sample(struct kinst *k, const char *clock, unsigned int tries, struct kclock_sample *out,
		  struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	struct try at[MAX_TRIES];
	ssize_t n = 0;
	int ret = 0;

	if (!krdtsc_now())
		return err_lack(err, ENOTSUP, "this machine has no TSC");
	tries = MIN(MAX(tries, 1u), (unsigned int)MAX_TRIES);
	if (strcmp(k->clock, clock))
		ret = kinst_set_clock(k, clock, err);
	if (ret)
		return ret;
	fd = openat(k->dirfd, "trace_marker", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return err_lack(err, ENOTSUP, "cannot open trace_marker: %s", strerror(errno));
	ret = kinst_tracing(k, true, err);
	if (ret)
		return ret;
	for (unsigned int i = 0; i < tries && n >= 0;
	     i++) { /* a marker between two readings of the TSC */
		struct try *one = &at[i];
		char mark[40];
		uint64_t end;
		int len;

		one->number = krdtsc_now();
		len = snprintf(mark, sizeof(mark), MARKER "%" PRIu64 "\n", one->number);
		one->tsc = krdtsc_now();
		n = write(fd, mark, (size_t)len);
		end = krdtsc_now();
		/* Backwards: moved between CPUs whose counters differ. */
		one->width = end >= one->tsc ? end - one->tsc : UINT64_MAX;
	}
	ret = n < 0 ? -errno : 0;
	err_why(err, ret, "%s: cannot write to trace_marker", kinst_name(k));
	if (kinst_tracing(k, false, NULL) && !ret)
		ret = -EIO;
	if (ret)
		return ret;
	/* The text with all the markers; the option is good for nothing else. */
	if (knob_write(NULL, k->dirfd, "options/raw", "1", NULL))
		return err_lack(err, ENOTSUP, "this kernel has no trace option raw");
	n = kinst_read(k, "trace", KFILE_MAX, &text);
	(void)!knob_write(NULL, k->dirfd, "options/raw", "0", NULL);
	if (n < 0)
		return err_why(err, (int)n, "%s: cannot read trace", kinst_name(k));
	if (!tightest_sample(at, tries, text, out))
		return err_set(err, ENODATA, "%s: no marker's stamp can be read", kinst_name(k));
	return 0;
}
