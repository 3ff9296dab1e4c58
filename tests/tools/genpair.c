/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * genpair.c: makes captures of an invented host and guest: a VM whose vCPUs enter, do things and
 * exit at random, and whose guest's stamps follow exactly from offset and ratio. For what no
 * machine at hand can do: scaling, hundreds of vCPUs, migration.
 *
 *   genpair --host DIR --guest DIR [--ms N] [--vcpus N] [--id-step N] [--cpus N] [--seed N]
 *           [--offset N] [--ratio R --frac F] [--khz N] [--drift PPB]
 *           [--jump N [--hidden]]   vCPU 0's TSC is moved by N half-way (with no event if hidden);
 *                                   before a reboot: a quarter of the way
 *           [--reboot DIR2]         half-way; the second boot is captured in DIR2
 *           [--migrate DIR2]        half-way to a host of its own, whose capture is DIR2
 *           [--idle]                the vCPUs run at a tick each ms and rarely else, and set no deadlines
 *           [--no-debugfs]          the host capture lacks offsets
 *           [--host-clock NAME]     local, global or perf: the host's stamps are ns, and it read that clock twice
 *
 * The guest is in its windows by at least SLACK cycles on either side.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "kvmft/capture.h"
#include "kvmft/clock.h"
#include "lib/enc.h"
#include "lib/kernel_params.h"

#define SUBBUF 4096
#define SLACK  1500
#define BEGIN  1000000000000ull
#define UUID   "6b766d66-7400-4000-8000-000000000001"

enum ev { EV_ENTRY, EV_EXIT, EV_OFFSET, EV_MSR, EV_READ, EV_WRITE, EV_KINDS };

static const char msr_format[] =
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
	"\tfield:unsigned msr;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:u64 val;\toffset:16;\tsize:8;\tsigned:0;\n"
	"\tfield:int failed;\toffset:24;\tsize:4;\tsigned:1;\n\n"
	"print fmt: \"%x, value %llx%s\", REC->msr, REC->val, REC->failed ? \" #GP\" : \"\"\n";

static const struct {
	const char *sys, *name;
	bool host;
	const char *field[3];
} types[EV_KINDS] = {
	[EV_ENTRY] = { "kvm", "kvm_entry", true, { "vcpu_id" } },
	[EV_EXIT] = { "kvm", "kvm_exit", true, { "vcpu_id" } },
	[EV_OFFSET] = { "kvm", "kvm_write_tsc_offset", true,
			{ "vcpu_id", "previous_tsc_offset", "next_tsc_offset" } },
	[EV_MSR] = { "kvm", "kvm_msr", true, { "write", "ecx", "data" } },
	[EV_READ] = { "msr", "read_msr", false, { "msr", "val" } },
	[EV_WRITE] = { "msr", "write_msr", false, { "msr", "val" } },
};

struct event {
	uint64_t ts;
	enum ev kind;
	int32_t pid;
	uint64_t a, b, c;
};

struct stream {
	struct event *v;
	size_t n, cap;
};

/* One capture in the making. */
struct out {
	const char *path;
	const char *clock; /* NULL: x86-tsc */
	bool host;
	int32_t pid; /* of the VMM */
	uint64_t khz;
	struct stream *cpu;
	uint32_t ncpu;
	struct tsc_map map; /* what debugfs says at the beginning, of each vCPU */
	uint64_t jump;	    /* vCPU 0 at the end: offset + jump */
};

struct gen {
	uint64_t ms, vcpus, id_step, cpus, seed, khz;
	int64_t drift, jump;
	bool hidden, reboot, migrate, no_debugfs, idle;
	struct tsc_map map;
	struct out host, host2, guest, guest2;
	char *text[EV_KINDS];
	uint16_t id[EV_KINDS];
};

static uint64_t rnd(struct gen *g, uint64_t from, uint64_t to)
{
	g->seed ^= g->seed << 13;
	g->seed ^= g->seed >> 7;
	g->seed ^= g->seed << 17;
	return from + g->seed % (to - from + 1);
}

static void put(struct out *o, uint64_t cpu, const struct event *e)
{
	struct stream *s = &o->cpu[cpu];
	struct event *slot = array_grow(&s->v, s->n, &s->cap, sizeof(*slot));

	if (!slot)
		abort();
	*slot = *e;
	s->n++;
}

/* ---- the VM ---- */

/* One vCPU's life at a moment: where it runs, and by which clock. */
struct life {
	uint32_t index, id;
	struct out *host, *guest;
	struct tsc_map map;
	int64_t tsc2; /* host 2's TSC minus host 1's */
	bool moved;
};

static uint64_t guest_stamp(const struct gen *g, const struct life *l, uint64_t t)
{
	uint64_t d = t - BEGIN;
	int64_t error = (int64_t)((__int128)g->drift * (__int128)d / 1000000000);

	return tsc_to_guest(&l->map, t + (uint64_t)error + (uint64_t)(l->moved ? l->tsc2 : 0));
}

static void host_event(struct gen *g, const struct life *l, uint64_t t, enum ev kind, uint64_t a,
		       uint64_t b, uint64_t c)
{
	struct event e = { .ts = t + (uint64_t)(l->moved ? l->tsc2 : 0), .kind = kind, .a = a, .b = b, .c = c };

	e.pid = l->host->pid + 1 + (int32_t)l->index;
	put(l->host, l->index % g->cpus, &e);
}

static void guest_event(struct gen *g, const struct life *l, uint64_t t, enum ev kind, uint64_t msr,
			uint64_t val)
{
	struct event e = { .ts = guest_stamp(g, l, t), .kind = kind, .pid = 100 + (int32_t)l->index,
			   .a = msr, .b = val };

	put(l->guest, l->index, &e);
}

static void set_offset(struct gen *g, struct life *l, uint64_t t, uint64_t offset)
{
	uint64_t old = l->map.offset;

	l->map.offset = offset;
	if (offset != old && !g->hidden)
		host_event(g, l, t, EV_OFFSET, l->id, old, offset);
}

/* What happens half-way. */
static void turn(struct gen *g, struct life *l, uint64_t t)
{
	l->moved = g->migrate;
	if (g->migrate) {
		/* The guest's TSC goes on; the other host's has another value. */
		l->host = &g->host2;
		l->map.offset = g->host2.map.offset;
		return;
	}
	if (g->reboot) {
		l->guest = &g->guest2;
		set_offset(g, l, t, l->map.offset - tsc_to_guest(&l->map, t));
	} else if (l->index == 0) {
		set_offset(g, l, t, l->map.offset + (uint64_t)g->jump);
	}
}

/* One stay in the guest, with n events; the last one may be the reason of the exit. */
static uint64_t stay(struct gen *g, struct life *l, uint64_t t, uint64_t *deadline)
{
	uint64_t n = rnd(g, 0, 4);

	host_event(g, l, t, EV_ENTRY, l->id, 0, 0);
	t += SLACK + rnd(g, 0, 2000);
	if (*deadline)
		guest_event(g, l, t, EV_WRITE, 0x6e0, *deadline);
	*deadline = 0;
	for (uint64_t i = 0; i < n; i++) {
		t += rnd(g, 100, 20000);
		guest_event(g, l, t, EV_READ, 0xc0000080, i);
	}
	t += SLACK + rnd(g, 0, 3000);
	host_event(g, l, t, EV_EXIT, l->id, 0, 0);
	if (!g->idle && rnd(g, 0, 3) == 0) {
		*deadline = guest_stamp(g, l, t) + 1000000;
		t += 500;
		host_event(g, l, t, EV_MSR, 1, 0x6e0, *deadline);
	}
	return t;
}

static void live(struct gen *g, uint32_t index)
{
	struct life l = { .index = index, .id = (uint32_t)(index * g->id_step), .host = &g->host,
			  .guest = &g->guest, .map = g->map,
			  .tsc2 = (int64_t)(g->host2.map.offset ? 777000000000ll : 0) };
	uint64_t t = BEGIN + 1000 + index * 311, end = BEGIN + g->ms * g->khz, half = BEGIN + g->ms * g->khz / 2;
	uint64_t deadline = 0;
	bool turned = false, written = !g->reboot || index;

	while (t < end) {
		if (!written && t >= half - (half - BEGIN) / 2) {
			set_offset(g, &l, t, l.map.offset + (uint64_t)g->jump);
			written = true;
			t += 5000;
		}
		if (!turned && t >= half) {
			turn(g, &l, t);
			turned = true;
			t += 5000;
		}
		t = stay(g, &l, t, &deadline);
		/* Mostly the exit is served at once, now and then the vCPU sleeps. */
		if (g->idle)
			t += (rnd(g, 0, 99) ? g->khz - (t - BEGIN) % g->khz : g->khz / 3) + rnd(g, 0, 3000);
		else
			t += rnd(g, 0, 9) ? rnd(g, 2000, 12000) : rnd(g, 50000, 4000000);
	}
}

/* ---- files ---- */

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return x->ts < y->ts ? -1 : x->ts > y->ts;
}

static void put_field(const char *text, const char *name, uint8_t *rec, uint64_t value)
{
	char want[64];
	const char *p;

	snprintf(want, sizeof(want), " %s;\toffset:", name);
	p = strstr(text, want);
	if (!p)
		abort();
	p += strlen(want);
	enc_put(rec + strtoul(p, NULL, 10), value, strtoul(strstr(p, "size:") + 5, NULL, 10));
}

static uint32_t record_len(const char *text)
{
	uint32_t end = 0;

	for (const char *p = text; (p = strstr(p, "offset:")); p++)
		end = MAX(end, (uint32_t)(strtoul(p + 7, NULL, 10) + strtoul(strstr(p, "size:") + 5, NULL, 10)));
	return end;
}

static void meta(struct capw *w, struct sbuf *line)
{
	if (capw_meta(w, line))
		abort();
}

/* The trace clock at a TSC. */
static uint64_t stamp(const struct out *o, uint64_t tsc)
{
	struct cyc2ns line = { .offset = 0ull - 77777777 };

	if (!o->clock)
		return tsc;
	if (cyc2ns_params((uint32_t)o->khz, &line.mult, &line.shift))
		abort();
	return cyc2ns_to_ns(&line, tsc);
}

/* As wide and as far apart as record takes them: before the first event and after the last one. */
static void put_clock(struct gen *g, const struct out *o, struct capw *w, struct sbuf *line)
{
	const uint64_t at[] = { BEGIN - g->khz, BEGIN + (g->ms + 10) * g->khz };

	for (int i = 0; i < 2 && o->clock; i++) {
		sbuf_addf(line, "clock name=%s tsc=%llu width=%d ns=%llu", o->clock,
			  (unsigned long long)at[i], 200 + 60 * i,
			  (unsigned long long)stamp(o, at[i] + 130 - 60 * (uint64_t)i));
		meta(w, line);
	}
}

static void encode(struct gen *g, const struct out *o, struct stream *s, struct sbuf *out)
{
	struct subbuf_geom geom = enc_geom(SUBBUF, 8);
	uint8_t page[SUBBUF], rec[256];
	struct encpage p;

	if (!s->n)
		return;
	qsort(s->v, s->n, sizeof(*s->v), by_time);
	enc_page_begin(&p, &geom, page, stamp(o, s->v[0].ts));
	for (size_t i = 0; i < s->n; i++) {
		const struct event *e = &s->v[i];
		const uint64_t value[3] = { e->a, e->b, e->c };
		uint32_t len = record_len(g->text[e->kind]);

		enc_record(rec, g->id[e->kind], e->pid, 0, len);
		for (int k = 0; k < 3 && types[e->kind].field[k]; k++)
			put_field(g->text[e->kind], types[e->kind].field[k], rec, value[k]);
		if (enc_event(&p, stamp(o, e->ts), rec, len))
			continue;
		enc_page_end(&p);
		sbuf_add_mem(out, page, sizeof(page));
		enc_page_begin(&p, &geom, page, stamp(o, e->ts));
		enc_event(&p, stamp(o, e->ts), rec, len);
	}
	enc_page_end(&p);
	sbuf_add_mem(out, page, sizeof(page));
}

static void put_vcpus(struct gen *g, const struct out *o, struct capw *w, struct sbuf *line, bool end)
{
	for (uint32_t i = 0; i < g->vcpus; i++) {
		uint64_t moved = end && !i && g->hidden == false ? o->jump : 0;

		sbuf_addf(line, "vcpu vm=%d-9 id=%u tid=%d", o->pid, (unsigned int)(i * g->id_step),
			  o->pid + 1 + (int)i);
		if (!g->no_debugfs && !g->hidden && !(end && g->reboot))
			sbuf_addf(line, " offset=%lld ratio=%llu frac=%u tsc=%llu",
				  (long long)(o->map.offset + moved), (unsigned long long)o->map.ratio,
				  o->map.frac, BEGIN + (end ? g->ms * g->khz : 0));
		sbuf_add(line, end ? " at=end" : "");
		meta(w, line);
	}
}

static void put_meta(struct gen *g, const struct out *o, struct capw *w, struct sbuf *line)
{
	const char *clock = o->clock ? o->clock : "x86-tsc";
	uint64_t at;

	sbuf_addf(line, "side name=%s", o->host ? "host" : "guest");
	meta(w, line);
	sbuf_addf(line, "machine uname=Linux arch=x86_64 long=8 endian=little%s",
		  o->host ? "" : " uuid=" UUID);
	meta(w, line);
	sbuf_addf(line, "ring clock=%s trace_clock=[%s] subbuf=4096 header=16", clock, clock);
	meta(w, line);
	sbuf_addf(line, "tsc khz=%llu source=generated", (unsigned long long)o->khz);
	meta(w, line);
	for (int k = 0; k < EV_KINDS; k++) {
		char path[128];

		if (types[k].host != o->host)
			continue;
		snprintf(path, sizeof(path), "events/%s/%s", types[k].sys, types[k].name);
		sbuf_addf(line, "event id=%u sys=%s name=%s", g->id[k], types[k].sys, types[k].name);
		meta(w, line);
		if (capw_file(w, path, g->text[k], strlen(g->text[k])))
			abort();
	}
	for (uint32_t i = 0; i < o->ncpu; i++) {
		sbuf_addf(line, "cpu n=%u apicid=%u", i, (unsigned int)(o->host ? i : i * g->id_step));
		meta(w, line);
	}
	sbuf_addf(line, "begin tsc=%llu", o->host && o == &g->host ? BEGIN : 1ull);
	meta(w, line);
	/* Wall clocks: the host's, and a guest's that is 20 ms wrong. */
	at = o == &g->guest2 ? BEGIN + g->ms * g->khz / 2 : BEGIN;
	if (o != &g->host2 || g->migrate) {
		struct tsc_map map = g->map;

		if (o == &g->guest2)
			map.offset -= tsc_to_guest(&map, at);
		sbuf_addf(line, "time tsc=%llu width=100 mono_raw=1 mono=1 boot=1 real=%llu",
			  (unsigned long long)(o == &g->host2 ? at + 777000000000ull
					       : o->host ? at : tsc_to_guest(&map, at)),
			  1795243359500000000ull + (at - BEGIN) * 1000000 / g->khz + (o->host ? 0 : 20000000));
		meta(w, line);
	}
	if (o->host && (o == &g->host || g->migrate)) {
		sbuf_addf(line, "time tsc=%llu width=100 mono_raw=2 mono=2 boot=2 real=%llu",
			  (unsigned long long)(at + g->ms * g->khz + (o == &g->host2 ? 777000000000ull : 0)),
			  1795243359500000000ull + g->ms * 1000000);
		meta(w, line);
	}
	put_clock(g, o, w, line);
	if (o->host) {
		sbuf_addf(line, "vm id=%d-9 pid=%d fd=9 name=syn uuid=" UUID " vmm=test", o->pid, o->pid);
		meta(w, line);
		put_vcpus(g, o, w, line, false);
	}
}

static int write_out(struct gen *g, struct out *o)
{
	struct kvmft_err err = { .text = "" };
	struct sbuf line = { 0 };
	struct capw *w;
	size_t len;
	char *header = enc_data_file("header_page-x86_64.txt", &len);
	int ret = o->path ? enc_capture(o->path, &w, &err) : 1;

	if (!ret) {
		put_meta(g, o, w, &line);
		ret = capw_file(w, "header_page", header, len);
		for (uint32_t c = 0; c < o->ncpu && !ret; c++) {
			struct sbuf data = { 0 };
			int fd = capw_data_open(w, 0, c);

			encode(g, o, &o->cpu[c], &data);
			ret = fd < 0 ? fd : full_write(fd, data.s, data.len, NULL);
			close(fd);
			sbuf_free(&data);
		}
		if (o->host)
			put_vcpus(g, o, w, &line, true);
		sbuf_add(&line, "end reason=generated");
		meta(w, &line);
		capw_close(w);
	} else if (ret < 0) {
		fprintf(stderr, "genpair: %s\n", err.text);
	}
	for (uint32_t c = 0; c < o->ncpu; c++)
		free(o->cpu[c].v);
	free(o->cpu);
	free(header);
	sbuf_free(&line);
	return ret < 0 ? ret : 0;
}

static int load_formats(struct gen *g)
{
	for (int k = 0; k < EV_KINDS; k++) {
		const char *text = types[k].host ? enc_format(types[k].sys, types[k].name) : NULL;
		int ret;

		if (types[k].host && !text)
			return -ENOENT;
		g->id[k] = types[k].host ? (uint16_t)strtoul(strstr(text, "ID:") + 3, NULL, 10)
					 : (uint16_t)(900 + k);
		if (types[k].host)
			g->text[k] = strdup(text);
		else if ((ret = asprintf(&g->text[k], "name: %s\nID: %u\nformat:\n%s", types[k].name,
					 g->id[k], msr_format)) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void make_out(struct out *o, bool host, uint32_t ncpu, int32_t pid, uint64_t khz)
{
	o->host = host;
	o->ncpu = ncpu;
	o->pid = pid;
	o->khz = khz;
	o->cpu = calloc(ncpu, sizeof(*o->cpu));
	if (!o->cpu)
		abort();
}

static int generate(struct gen *g)
{
	const struct tsc_map scale = { .ratio = g->map.ratio, .frac = g->map.frac };
	uint64_t guest_khz = tsc_to_guest(&scale, g->khz);
	int ret = load_formats(g);

	if (ret)
		return ret;
	make_out(&g->host, true, (uint32_t)g->cpus, 4000, g->khz);
	make_out(&g->host2, true, (uint32_t)g->cpus, 5000, g->khz);
	make_out(&g->guest, false, (uint32_t)g->vcpus, 0, guest_khz);
	make_out(&g->guest2, false, (uint32_t)g->vcpus, 0, guest_khz);
	g->host.map = g->host2.map = g->map;
	g->host.jump = (uint64_t)g->jump;
	/* Host 2 counts 777e9 cycles ahead: the offset that lets the guest's TSC go on. */
	if (g->migrate)
		g->host2.map.offset = g->map.offset - (tsc_to_guest(&g->map, 777000000000ull) - g->map.offset);
	else
		g->host2.map.offset = 0;
	for (uint32_t i = 0; i < g->vcpus; i++)
		live(g, i);
	ret = write_out(g, &g->host);
	ret = ret ? ret : write_out(g, &g->host2);
	ret = ret ? ret : write_out(g, &g->guest);
	ret = ret ? ret : write_out(g, &g->guest2);
	for (int k = 0; k < EV_KINDS; k++)
		free(g->text[k]);
	return ret;
}

static const struct option options[] = {
	{ "host", required_argument, NULL, 'h' },   { "guest", required_argument, NULL, 'g' },
	{ "ms", required_argument, NULL, 'm' },	    { "vcpus", required_argument, NULL, 'n' },
	{ "id-step", required_argument, NULL, 'i' }, { "cpus", required_argument, NULL, 'c' },
	{ "seed", required_argument, NULL, 's' },   { "offset", required_argument, NULL, 'o' },
	{ "ratio", required_argument, NULL, 'r' },  { "frac", required_argument, NULL, 'f' },
	{ "khz", required_argument, NULL, 'k' },    { "drift", required_argument, NULL, 'd' },
	{ "jump", required_argument, NULL, 'j' },   { "hidden", no_argument, NULL, 'H' },
	{ "reboot", required_argument, NULL, 'b' }, { "migrate", required_argument, NULL, 'M' },
	{ "no-debugfs", no_argument, NULL, 'D' },   { "idle", no_argument, NULL, 'T' },
	{ "host-clock", required_argument, NULL, 'C' }, { 0 },
};

static bool set_option(struct gen *g, int o)
{
	int64_t v = 0;

	if (optarg && !strchr("hgbMC", o) && parse_s64(optarg, &v))
		return false;
	switch (o) {
	case 'h': g->host.path = optarg; return true;
	case 'g': g->guest.path = optarg; return true;
	case 'm': g->ms = (uint64_t)v; return v > 0 && v < 1000000;
	case 'n': g->vcpus = (uint64_t)v; return v > 0 && v <= 1024;
	case 'i': g->id_step = (uint64_t)v; return v > 0 && v < 1000;
	case 'c': g->cpus = (uint64_t)v; return v > 0 && v <= 1024;
	case 's': g->seed = (uint64_t)v; return v > 0;
	case 'o': g->map.offset = (uint64_t)v; return true;
	case 'r': g->map.ratio = (uint64_t)v; return true;
	case 'f': g->map.frac = (uint8_t)v; return v >= 0 && v < 64;
	case 'k': g->khz = (uint64_t)v; return v > 0 && v < 10000000;
	case 'd': g->drift = v; return true;
	case 'j': g->jump = v; return true;
	case 'H': g->hidden = true; return true;
	case 'C': g->host.clock = optarg; return true;
	case 'D': g->no_debugfs = true; return true;
	case 'T': g->idle = true; return true;
	case 'b': g->reboot = true; g->guest2.path = optarg; return true;
	case 'M': g->migrate = true; g->host2.path = optarg; return true;
	default: return false;
	}
}

int main(int argc, char **argv)
{
	struct gen g = { .ms = 200, .vcpus = 2, .id_step = 1, .cpus = 2, .seed = 1, .khz = 2000000,
			 .map = { .offset = 0ull - 900000000000ull } };
	int o, ret;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (!set_option(&g, o)) {
			fputs("genpair: wrong option or value\n", stderr);
			return 2;
		}
	if (!g.host.path || !g.guest.path || tsc_map_check(&g.map)) {
		fputs("genpair: --host, --guest, and a ratio that can be\n", stderr);
		return 2;
	}
	ret = generate(&g);
	if (ret)
		fprintf(stderr, "genpair: %s\n", strerror(-ret));
	return ret ? 1 : 0;
}
