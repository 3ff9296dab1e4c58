/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clock_sample.c: a trace clock beside the TSC, by markers in an instance of our own.
 *
 * rdtsc, write to trace_marker, rdtsc: the marker's stamp was taken in between, by the very
 * function that stamps events. `trace` shows stamps in microseconds, except with option raw, which
 * prints "PID CPU STAMP # ADDRESS TEXT" (kernel: print_raw_fmt() in kernel/trace/trace.c).
 * Not libtracefs' tracefs_print_init(): marker and option are below the instance's descriptor, as
 * the confined recorder cannot use paths.
 */
#include "kvmft/kernel.h"

#include "priv.h"

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
static bool tightest(struct try *at, unsigned int n, const char *text, struct kclock_sample *out)
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
	if (!tightest(at, tries, text, out))
		return err_set(err, ENODATA, "%s: no marker's stamp can be read", kinst_name(k));
	return 0;
}
