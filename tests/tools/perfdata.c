/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata.c: turns events of a capture or trace.dat into the perf.data that `perf kvm stat record` would
 * have made, so that `perf kvm stat report` and kvmft can be given the same exits anywhere.
 *
 *   perfdata [--khz KHZ] [--intel] [--conv] [--day NS] [--vcpus N] CAPTURE FILE [SYS:]EVENT...
 *
 * EVENT is a name in the system kvm, if it has none. Stamps are turned into ns by KHZ (default
 * 1000000: they are ns). The file says that the machine is AMD's, or with --intel Intel's: names
 * of exits depend on it. --conv: perf's clock is a line over the TSC that the stamps are,
 * and the file says which. --day: as of perf record -k mono, whose clock is 0 so many ns after 1970. --vcpus: how many
 * threads are a process, where the capture does not say it.
 *
 * perf sorts records by time within rounds, which is what it read from all CPUs at once: here
 * ROUND_NS of each.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "kvmft/tracedat.h"
#include "kvmft/clock.h"
#include "kvmft/ring.h"
#include "lib/enc_perf.h"
#include "lib/kernel_params.h"

#define ROUND_NS   10000000u
#define ZERO	   ((uint64_t)-123456789) /* of the line, ns */
#define MAX_EVENTS 64

struct conv {
	struct capture *c;
	struct fmt *f;
	uint64_t khz;
	const char *cpu;
	bool conv;
	uint64_t day;
	int32_t vcpus; /* threads that a process has, where the capture does not tell; 0: one */
	struct cyc2ns line;
	const struct fmt_event *event[MAX_EVENTS];
	struct ep_attr attr[MAX_EVENTS];
	uint64_t id[MAX_EVENTS]; /* from 1 on */
	uint32_t n;
	struct enc_perf e;
	struct u64map tgid; /* by thread */
	FILE *out;
	uint64_t records; /* bytes of them */
};

static uint64_t to_ns(const struct conv *v, uint64_t ts)
{
	if (v->conv)
		return cyc2ns_to_ns(&v->line, ts);
	return (uint64_t)((unsigned __int128)ts * 1000000u / v->khz);
}

static void put(struct conv *v, struct sbuf *b)
{
	if (b->error || fwrite(b->s, 1, b->len, v->out) != b->len) {
		fprintf(stderr, "perfdata: cannot write\n");
		exit(1);
	}
	sbuf_reset(b);
}

/* The event's place in v->event, or v->n: it is not wanted. */
static uint32_t event_at(const struct conv *v, const struct rec *rec)
{
	const struct fmt_event *e = fmt_by_id(v->f, rec->id);
	uint32_t i = 0;

	while (i < v->n && (!e || v->event[i] != e))
		i++;
	return i;
}

static void put_sample(struct conv *v, struct sbuf *b, uint32_t event, uint32_t cpu,
		       const struct rec *rec)
{
	int32_t tid = fmt_pid(v->f, rec);
	struct ep_facts f = {
		.id = v->id[event], .time = to_ns(v, rec->ts), .pid = tid, .tid = tid, .cpu = cpu
	};
	uint64_t tgid;

	if (u64map_get(&v->tgid, (uint32_t)tid, &tgid))
		f.pid = (int32_t)tgid;
	else if (v->vcpus)
		f.pid = tid - tid % v->vcpus;

	ep_sample(b, &v->attr[event], &f, rec->data, rec->len);
}

/* Reads the CPU's events before `until`; r->rec is then the first later one. False at the end. */
static bool put_round(struct conv *v, struct rstream *r, uint64_t until, struct sbuf *b)
{
	const struct ep_facts lost = { .cpu = r->s->cpu };
	enum rkind k = R_EVENT;

	do {
		uint32_t event = r->rec.len ? event_at(v, &r->rec) : v->n;

		if (r->rec.len && to_ns(v, r->rec.ts) >= until)
			return true;
		if (event < v->n)
			put_sample(v, b, event, r->s->cpu, &r->rec);
		while ((k = rstream_next(r)) != R_EVENT && k != R_END)
			if (k == R_GAP)
				ep_lost(b, &v->attr[0], &lost, r->lost);
	} while (k != R_END);
	r->rec.len = 0;
	return false;
}

static void put_task(struct conv *v, struct sbuf *b, int32_t pid, int32_t tid, const char *comm)
{
	ep_comm(b, &v->attr[0], pid, tid, comm);
	if (u64map_put(&v->tgid, (uint32_t)tid, (uint32_t)pid))
		exit(1);
}

/* perf.data has the process of each thread: known from tasks, or from the threads of VMs. */
static void put_tasks(struct conv *v, struct sbuf *b)
{
	const struct capture *c = v->c;

	for (size_t i = 0; i < c->nvm; i++)
		for (size_t k = 0; k < c->vm[i].nvcpu; k++)
			if (c->vm[i].vcpu[k].tid)
				put_task(v, b, c->vm[i].pid, c->vm[i].vcpu[k].tid, "vcpu");
	for (size_t i = 0; i < c->ntask; i++)
		if (c->task[i].tgid)
			put_task(v, b, c->task[i].tgid, c->task[i].tid, c->task[i].comm);
}

static void put_records(struct conv *v)
{
	size_t n = v->c->nstream, left = n;
	struct rstream *r = calloc(n + 1, sizeof(*r));
	bool *ended = calloc(n + 1, sizeof(*ended));
	struct sbuf b = { 0 };
	long begin = ftell(v->out);

	if (v->conv)
		ep_time_conv(&b, v->line.shift, v->line.mult, v->line.offset);
	put_tasks(v, &b);
	for (size_t i = 0; r && i < n; i++)
		if (rstream_open(&r[i], v->c, &v->c->stream[i]))
			exit(1);
	for (uint64_t until = ROUND_NS; r && ended && left; until += ROUND_NS) {
		for (size_t i = 0; i < n; i++) {
			if (ended[i] || put_round(v, &r[i], until, &b))
				continue;
			ended[i] = true;
			left--;
		}
		if (b.len || !left) {
			ep_round(&b);
			put(v, &b);
		}
	}
	for (size_t i = 0; r && i < n; i++)
		rstream_close(&r[i]);
	v->records = (uint64_t)(ftell(v->out) - begin);
	sbuf_free(&b);
	free(ended);
	free(r);
}

static void put_tracing(struct conv *v)
{
	const struct capture *c = v->c;
	struct tdw_spec spec = { .cap = c, .g = { c->subbuf_size, c->page_header, c->long_size } };
	struct sbuf b = { 0 };

	sbuf_add_mem(&b, "\x17\x08\x44tracing0.6", 14); /* and its NUL */
	enc_u8(&b, 0);
	enc_u8(&b, (uint8_t)c->long_size);
	enc_u32(&b, c->subbuf_size);
	tdw_blocks(&spec, &b);
	ep_feature(&v->e, EP_TRACING_DATA, b.s, b.len);
	sbuf_free(&b);
}

static int convert(struct conv *v, const char *path)
{
	struct sbuf b = { 0 };
	int fd;

	unlink(path);
	fd = file_create(AT_FDCWD, path);
	v->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!v->out)
		return -1;
	for (uint32_t i = 0; i < v->n; i++) {
		v->id[i] = i + 1;
		v->attr[i] = (struct ep_attr){ .type = EP_TRACEPOINT,
					       .size = 112,
					       .config = fmt_id(v->event[i]),
					       .sample_type = (EP_USUAL & ~EP_ID) | EP_IDENTIFIER,
					       .flags = 1u << EP_SAMPLE_ID_ALL |
							(v->day ? 1u << EP_USE_CLOCKID : 0),
					       .clockid = CLOCK_MONOTONIC,
					       .id = &v->id[i],
					       .nid = 1 };
	}
	v->e.attr = v->attr;
	v->e.nattr = v->n;
	put_tracing(v);
	ep_feature_text(&v->e, EP_CPUID, v->cpu);
	if (v->day) {
		const struct {
			uint32_t version, clockid;
			uint64_t day, clock;
		} data = { 1, CLOCK_MONOTONIC, v->day + 1000, 1000 };

		ep_feature(&v->e, EP_CLOCK_DATA, &data, sizeof(data));
	}
	ep_head(&v->e, 0, &b);
	put(v, &b);
	put_records(v);
	ep_tail(&v->e, (uint64_t)ftell(v->out), &b);
	put(v, &b);
	rewind(v->out); /* now the number of bytes is known */
	ep_head(&v->e, v->records, &b);
	put(v, &b);
	sbuf_free(&b);
	ep_free(&v->e);
	u64map_free(&v->tgid);
	return fclose(v->out);
}

static const struct fmt_event *find(const struct conv *v, char *name)
{
	char *colon = strchr(name, ':');

	if (!colon)
		return fmt_find(v->f, "kvm", name);
	*colon = '\0';
	return fmt_find(v->f, name, colon + 1);
}

int main(int argc, char **argv)
{
	static const struct option opts[] = { { "khz", required_argument, NULL, 'k' },
					      { "intel", no_argument, NULL, 'i' },
					      { "big", no_argument, NULL, 'b' },
					      { "conv", no_argument, NULL, 'c' },
					      { "day", required_argument, NULL, 'd' },
					      { "vcpus", required_argument, NULL, 'v' },
					      { 0 } };
	struct conv v = { .khz = 1000000, .cpu = "AuthenticAMD,25,1,1" };
	struct kvmft_err err = { .text = "" };
	int o, ret;

	while ((o = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		if (o == 'i')
			v.cpu = "GenuineIntel,6,143,8";
		else if (o == 'c')
			v.conv = true;
		else if (o == 'd')
			v.day = strtoull(optarg, NULL, 0);
		else if (o == 'v')
			v.vcpus = atoi(optarg);
		else if (o != 'k' || parse_u64(optarg, &v.khz) || !v.khz)
			return 2;
	}
	if (argc - optind < 3 || argc - optind - 2 > MAX_EVENTS)
		return 2;
	v.line.offset = ZERO;
	if (v.khz > UINT32_MAX || cyc2ns_params((uint32_t)v.khz, &v.line.mult, &v.line.shift))
		return 2;
	if (capture_open(argv[optind], &v.c, &err) || !(v.f = fmt_load(v.c))) {
		fprintf(stderr, "perfdata: %s\n", err.text);
		return 1;
	}
	for (int i = optind + 2; i < argc; i++) {
		v.event[v.n] = find(&v, argv[i]);
		v.n += v.event[v.n] != NULL;
	}
	ret = v.n ? convert(&v, argv[optind + 1]) : -1;
	if (ret)
		fprintf(stderr, "perfdata: nothing to write, or it cannot be written\n");
	fmt_free(v.f);
	capture_close(v.c);
	return ret ? 1 : 0;
}
