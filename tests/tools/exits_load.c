/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * exits_load: measures what a table of many vCPUs costs.
 *
 *   exits_load [--time] [--prometheus] THREADS REASONS [ROUNDS]
 *
 * Makes the text of the kernel's hist file for that many cells, line by line, and takes it the way
 * `kvmft exits` does, ROUNDS times (default 2) with growing counts; then prints the last round's
 * table, as text, or as metrics of as many VMs. On stderr: the peak of resident memory (VmHWM, in
 * KB as in /proc/self/status) and CPU time per round.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kvmft/results.h"
#include "kvmft/kernel.h"

static int take(void *ctx, const struct khist_entry *e)
{
	uint64_t tid, reason, n;

	if (!khist_get(e, "common_pid", &tid) || !khist_get(e, "exit_reason", &reason) ||
	    !khist_get(e, "hitcount", &n))
		return -EBADMSG;
	exits_raw(ctx, (uint32_t)tid, (uint32_t)reason, n);
	return 0;
}

static int feed(struct exits *e, unsigned long threads, unsigned long reasons, unsigned long round)
{
	static char line[256];
	struct khist h;
	int ret;

	khist_begin(&h, "common_pid,exit_reason", take, e);
	ret = khist_line(&h, "# trigger info: hist:keys=common_pid,exit_reason:vals=hitcount:"
			     "sort=hitcount:size=131072 [active]");
	for (unsigned long i = 0; i < threads * reasons && !ret; i++) {
		snprintf(line, sizeof(line), "{ common_pid: %10lu, exit_reason: %10lu } hitcount: %10lu",
			 1000 + i / reasons, i % reasons, (i * 7919 % 10007 + 1) * (round + 1));
		ret = khist_line(&h, line);
	}
	ret = ret ? ret : khist_line(&h, "Totals:");
	return ret ? ret : khist_end(&h);
}

static int out(void *ctx, struct sbuf *b)
{
	size_t n = fwrite(b->s, 1, b->len, ctx);

	sbuf_reset(b);
	return n || feof((FILE *)ctx) ? 0 : -EIO;
}

static int print(struct exits *e, enum exits_format format)
{
	struct exit_names names;
	struct sbuf b = { 0 };
	struct exits_view v;
	struct exits_page p = {
		.names = &names, .isa = EXIT_ISA_VMX, .columns = EXITS_COL_PID_TID,
		.tid_header = "TID", .engine = "kernel", .target = "all threads", .first = true,
	};
	int ret;

	exits_view_make(e, format == EXITS_TEXT ? EXITS_BY_THREAD : EXITS_BY_VM,
			format != EXITS_TEXT, NULL, NULL, &v);
	exit_names_init(&names, NULL, "GenuineIntel");
	p.view = &v;
	ret = exits_print(format, &p, &b, out, stdout);
	exits_view_free(&v);
	sbuf_free(&b);
	return ret;
}

static void say_memory(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (str_starts(line, "VmHWM:"))
			fputs(line, stderr);
	if (f)
		fclose(f);
}

/* Each thread is the vCPU of a VM of its own. */
static int name_vms(struct exits *e)
{
	char sel[32], name[32], uuid[48];

	for (size_t i = 0; i < e->nthread; i++) {
		size_t vm;

		snprintf(sel, sizeof(sel), "%" PRIu32 "-9", e->thread[i].tid);
		snprintf(name, sizeof(name), "guest-%zu", i);
		snprintf(uuid, sizeof(uuid), "6b766d66-7400-4000-8000-%012zu", i);
		vm = exits_vm(e, sel, name, uuid, e->thread[i].tid);
		e->thread[i].vm = (uint32_t)vm;
		e->thread[i].vcpu = 0;
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long threads, reasons, rounds = 2;
	enum exits_format format = EXITS_TEXT;
	struct exits e = { .timed = false };
	struct timespec a, b;
	int ret = 0;

	if (argc > 1 && !strcmp(argv[1], "--time")) {
		e.timed = true;
		argc--;
		argv++;
	}
	if (argc > 1 && !strcmp(argv[1], "--prometheus")) {
		format = EXITS_PROMETHEUS;
		argc--;
		argv++;
	}
	if (argc < 3)
		return 2;
	threads = strtoul(argv[1], NULL, 0);
	reasons = strtoul(argv[2], NULL, 0);
	if (argc > 3)
		rounds = strtoul(argv[3], NULL, 0);
	if (!threads || !reasons || !rounds)
		return 2;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (unsigned long i = 0; i < rounds && !ret; i++) {
		if (i)
			exits_interval(&e);
		ret = feed(&e, threads, reasons, i);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	if (!ret && format != EXITS_TEXT)
		ret = name_vms(&e);
	ret = ret ? ret : print(&e, format);
	say_memory();
	fprintf(stderr, "%" PRId64 " us per round\n",
		((int64_t)(b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000) /
			(int64_t)rounds);
	exits_free(&e);
	return ret ? 1 : 0;
}
