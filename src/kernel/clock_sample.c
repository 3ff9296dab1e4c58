/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clock_sample.c: a trace clock beside the TSC, by markers in an instance of our own.
 *
 * rdtsc, write to trace_marker, rdtsc: the marker's stamp was taken in between, by the very function
 * that stamps events. `trace` shows stamps in microseconds, except with option raw, which prints
 * "PID CPU STAMP # ADDRESS TEXT" (kernel: print_raw_fmt() in kernel/trace/trace.c).
 */
#include "kvmft/kclock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "priv.h"

#define MAX_TRIES 256
#define MARKER	  "kvmft-"

struct kclock_sampler {
	struct kinst *k;
	int marker;	   /* fd */
	unsigned int next; /* number of the next marker: old ones may still be in the ring */
};

int kclock_parse_marker(const char *text, unsigned int n, uint64_t *ts)
{
	unsigned long long stamp;
	unsigned int cpu, number;
	const char *eol;
	int pid;

	for (; text; text = eol ? eol + 1 : NULL) {
		eol = strchr(text, '\n');
		if (sscanf(text, "%d %u %llu # %*s " MARKER "%u", &pid, &cpu, &stamp, &number) == 4 &&
		    number == n) {
			*ts = stamp;
			return 0;
		}
	}
	return -ENOENT;
}

int kclock_sampler_new(struct ktracefs *t, struct kclock_sampler **out, struct kvmft_err *err)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	struct kclock_sampler *s;
	int ret;

	*out = NULL;
	if (!krdtsc_now())
		return err_lack(err, ENOTSUP, "this machine has no TSC");
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, ENOMEM, "out of memory");
	s->marker = -1;
	c.buffer_kb = 64;
	ret = kinst_create(t, &c, &s->k, err);
	if (!ret) {
		s->marker = kinst_marker_open(s->k, false);
		if (s->marker < 0)
			ret = err_lack(err, ENOTSUP, "cannot open trace_marker: %s", strerror(-s->marker));
	}
	if (!ret && knob_write(NULL, kinst_dirfd(s->k), "options/raw", "1", NULL))
		ret = err_lack(err, ENOTSUP, "this kernel has no trace option raw");
	if (ret)
		(void)kclock_sampler_free(s, NULL);
	else
		*out = s;
	return ret;
}

int kclock_sampler_free(struct kclock_sampler *s, struct kvmft_err *err)
{
	int ret;

	if (!s)
		return 0;
	util_close_fd(&s->marker);
	ret = kinst_destroy(s->k, err);
	free(s);
	return ret;
}

/* Marker number n, between two readings of the TSC. */
static int mark(struct kclock_sampler *s, unsigned int n, struct kclock_sample *at)
{
	char text[32];
	int len = snprintf(text, sizeof(text), MARKER "%u\n", n);
	uint64_t end;
	ssize_t put;

	at->tsc = krdtsc_now();
	put = write(s->marker, text, (size_t)len);
	end = krdtsc_now();
	if (put < 0)
		return -errno;
	/* Backwards: moved between CPUs whose counters differ. */
	at->width = end >= at->tsc ? end - at->tsc : UINT64_MAX;
	return 0;
}

/* Changing the clock empties the ring, and the kernel waits for an RCU grace period to do so. */
static int use_clock(struct kclock_sampler *s, const char *clock, struct kvmft_err *err)
{
	int ret;

	if (!strcmp(s->k->clock, clock))
		return 0;
	ret = ktracefs_clock_check(s->k->t, clock, err);
	if (ret)
		return ret;
	s->k->clock[0] = '\0';
	if (knob_write(NULL, kinst_dirfd(s->k), "trace_clock", clock, NULL))
		return err_set(err, EIO, "%s: cannot set trace clock %s", kinst_name(s->k), clock);
	snprintf(s->k->clock, sizeof(s->k->clock), "%s", clock);
	return 0;
}

/* The first marker has number s->next. */
static int mark_all(struct kclock_sampler *s, struct kclock_sample *at, unsigned int tries,
		    struct kvmft_err *err)
{
	int ret = kinst_tracing(s->k, true, err);

	if (ret)
		return ret;
	for (unsigned int i = 0; i < tries && !ret; i++)
		ret = mark(s, s->next + i, &at[i]);
	if (ret)
		err_set(err, -ret, "%s: cannot write to trace_marker: %s", kinst_name(s->k), strerror(-ret));
	return kinst_tracing(s->k, false, NULL) && !ret ? -EIO : ret;
}

int kclock_sample(struct kclock_sampler *s, const char *clock, unsigned int tries,
		  struct kclock_sample *out, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	struct kclock_sample at[MAX_TRIES];
	ssize_t n;
	int ret;

	*out = (struct kclock_sample){ .width = UINT64_MAX };
	tries = MIN(MAX(tries, 1u), (unsigned int)MAX_TRIES);
	ret = use_clock(s, clock, err);
	if (!ret)
		ret = mark_all(s, at, tries, err);
	if (ret)
		return ret;
	n = kinst_read(s->k, "trace", KFILE_MAX, &text);
	if (n < 0)
		return err_set(err, (int)-n, "%s: cannot read trace: %s", kinst_name(s->k),
			       strerror((int)-n));
	for (unsigned int i = 0; i < tries; i++)
		if (at[i].width < out->width && kclock_parse_marker(text, s->next + i, &at[i].ns) == 0)
			*out = at[i];
	s->next += tries;
	if (out->width == UINT64_MAX)
		return err_set(err, ENODATA, "%s: no marker's stamp can be read", kinst_name(s->k));
	return 0;
}
