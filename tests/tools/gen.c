/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gen.c: makes large valid inputs for benchmarks and fuzzing: what an AMD host traces of N vCPUs, one
 * per CPU, in a capture directory, and the same sub-buffers as a trace.dat. What it writes is what
 * the encoders of the unit tests write.
 *
 * Each exit has a reason, usually an event with more about it, and an entry; the table below has
 * the frequencies. Numbers are random but the same in every run.
 *
 *   gen --capture DIR | --trace-dat FILE  [--events N] [--cpus N] [--subbuf BYTES] [--whole] [--buffers N]
 *
 * --whole: the trace.dat declares what that of a whole machine does, 2,000 formats and 100,000 symbols.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kvmft/capture.h"
#include "kvmft/ring.h"
#include "lib/enc.h"

#define FIRST_TID 1000

/* One field of an event, and how it is filled. */
struct gfield {
	const char *name;
	enum { ZERO, VCPU, REASON, ISA_SVM, ADDRESS, GPA, SMALL, RANDOM, PORT, MSR, ONE } how;
	uint32_t off, size;
};

struct gevent {
	const char *name;
	struct gfield field[8];
	uint16_t id;
	uint32_t len;
};

enum { G_EXIT, G_ENTRY, G_MSR, G_PAGE_FAULT, G_PIO, G_MMIO, G_FAST_MMIO, G_VIRQ, G_HYPERCALL, G_CPUID };

static struct gevent event[] = {
	[G_EXIT] = { "kvm_exit", { { "exit_reason", REASON }, { "guest_rip", ADDRESS },
				   { "isa", ISA_SVM }, { "info1", RANDOM }, { "info2", ADDRESS },
				   { "intr_info", ZERO }, { "vcpu_id", VCPU } } },
	[G_ENTRY] = { "kvm_entry", { { "vcpu_id", VCPU }, { "rip", ADDRESS } } },
	[G_MSR] = { "kvm_msr", { { "write", ONE }, { "ecx", MSR }, { "data", RANDOM } } },
	[G_PAGE_FAULT] = { "kvm_page_fault", { { "vcpu_id", VCPU }, { "guest_rip", ADDRESS },
					       { "fault_address", ADDRESS }, { "error_code", SMALL } } },
	[G_PIO] = { "kvm_pio", { { "rw", ONE }, { "port", PORT }, { "size", ONE }, { "count", ONE },
				 { "val", SMALL } } },
	[G_MMIO] = { "kvm_mmio", { { "type", ONE }, { "len", ONE }, { "gpa", GPA },
				   { "val", RANDOM } } },
	[G_FAST_MMIO] = { "kvm_fast_mmio", { { "gpa", GPA } } },
	[G_VIRQ] = { "kvm_inj_virq", { { "vector", SMALL } } },
	[G_HYPERCALL] = { "kvm_hypercall", { { "nr", SMALL }, { "a0", RANDOM } } },
	[G_CPUID] = { "kvm_cpuid", { { "function", SMALL }, { "rax", RANDOM }, { "rbx", RANDOM } } },
};

/* Out of 100 exits; event 0: none between exit and entry. */
static const struct {
	unsigned int share;
	uint32_t reason; /* SVM */
	size_t event;
	uint32_t ns;	 /* how long it takes at most */
} mix[] = {
	{ 30, 0x7c, G_MSR, 2000 },	   { 14, 0x60, 0, 3000 },	  { 10, 0x78, 0, 100000 },
	{ 12, 0x400, G_PAGE_FAULT, 5000 }, { 8, 0x7b, G_PIO, 20000 },	  { 8, 0x64, G_VIRQ, 1500 },
	{ 6, 0x400, G_MMIO, 30000 },	   { 6, 0x400, G_FAST_MMIO, 1500 }, { 3, 0x81, G_HYPERCALL, 1200 },
	{ 3, 0x72, G_CPUID, 1000 },
};

struct gen {
	uint64_t events;
	uint32_t cpus, buffers;
	struct subbuf_geom g;
	uint32_t seed;
	bool whole;
};

static uint32_t rnd(struct gen *g)
{
	g->seed = g->seed * 1664525u + 1013904223u;
	return g->seed >> 8;
}

/* "offset:N; size:N;" of the field, as the format text has it. */
static bool format_field(const char *text, const char *name, uint32_t *off, uint32_t *size)
{
	char want[64];
	const char *p;

	snprintf(want, sizeof(want), " %s;", name);
	p = strstr(text, want);
	if (!p || !(p = strstr(p, "offset:")))
		return false;
	*off = (uint32_t)strtoul(p + 7, NULL, 10);
	p = strstr(p, "size:");
	if (!p)
		return false;
	*size = (uint32_t)strtoul(p + 5, NULL, 10);
	return true;
}

/* Id, length and places of fields of all events from the formats in tests/data. */
static bool formats_load(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(event); i++) {
		struct gevent *e = &event[i];
		const char *text = enc_format("kvm", e->name), *p;

		if (!text || !(p = strstr(text, "ID:")))
			return false;
		e->id = (uint16_t)strtoul(p + 3, NULL, 10);
		e->len = 16; /* at least: enc_record() writes a number behind the common fields */
		for (p = text; (p = strstr(p, "offset:")); p++) {
			const char *size = strstr(p, "size:");

			if (size)
				e->len = MAX(e->len, (uint32_t)(strtoul(p + 7, NULL, 10) +
								strtoul(size + 5, NULL, 10)));
		}
		for (size_t k = 0; k < ARRAY_SIZE(e->field) && e->field[k].name; k++)
			if (!format_field(text, e->field[k].name, &e->field[k].off, &e->field[k].size))
				return false;
	}
	return true;
}

static uint64_t field_value(struct gen *g, const struct gfield *f, uint32_t cpu, uint32_t reason)
{
	switch (f->how) {
	case VCPU: return cpu;
	case REASON: return reason;
	case ISA_SVM: return 2;
	case ONE: return 1;
	case ADDRESS: return 0xffffffff81000000u + (uint64_t)(rnd(g) & 0xfffff0);
	case GPA: return 0xfe000000u + (uint64_t)(rnd(g) & 0xfffff0);
	case SMALL: return 32 + rnd(g) % 200;
	case PORT: return 0x60 + rnd(g) % 8;
	case MSR: return 0x830 + rnd(g) % 8;
	case RANDOM: return (uint64_t)rnd(g) << (rnd(g) % 40);
	default: return 0;
	}
}

static void gen_record(struct gen *g, const struct gevent *e, uint32_t cpu, uint32_t reason,
		       uint8_t *rec)
{
	enc_record(rec, e->id, FIRST_TID + (int32_t)cpu, 0, e->len);
	for (size_t k = 0; k < ARRAY_SIZE(e->field) && e->field[k].name; k++)
		enc_put(rec + e->field[k].off, field_value(g, &e->field[k], cpu, reason),
			e->field[k].size);
}

struct writer {
	struct encpage p;
	uint8_t page[CAPTURE_MAX_SUBBUF];
	int (*put)(void *to, const void *page, size_t len);
	void *to;
	int error;
};

static void gen_event(struct gen *g, struct writer *w, uint64_t ts, size_t i, uint32_t cpu,
		      uint32_t reason)
{
	uint8_t rec[256];
	uint32_t len = MIN(event[i].len, (uint32_t)sizeof(rec));

	gen_record(g, &event[i], cpu, reason, rec);
	if (enc_event(&w->p, ts, rec, len))
		return;
	enc_page_end(&w->p);
	w->error = w->error ? w->error : w->put(w->to, w->page, g->g.size);
	enc_page_begin(&w->p, &g->g, w->page, ts);
	enc_event(&w->p, ts, rec, len);
}

/* The sub-buffers of one CPU, whole, to put(). */
static int gen_cpu(struct gen *g, uint32_t cpu, int (*put)(void *to, const void *page, size_t len),
		   void *to)
{
	struct writer *w = calloc(1, sizeof(*w));
	uint64_t ts = 1000000 + cpu * 7, n = 0, want = g->events / g->cpus;
	int ret;

	if (!w)
		return -ENOMEM;
	g->seed = cpu + 1; /* the same in every output */
	w->put = put;
	w->to = to;
	enc_page_begin(&w->p, &g->g, w->page, ts);
	while (n < want) {
		uint32_t pick = rnd(g) % 100;
		size_t k = 0;

		while (k + 1 < ARRAY_SIZE(mix) && pick >= mix[k].share)
			pick -= mix[k++].share;
		ts += 500 + rnd(g) % 20000; /* in the guest */
		gen_event(g, w, ts, G_EXIT, cpu, mix[k].reason);
		ts += 200 + rnd(g) % mix[k].ns;
		if (mix[k].event)
			gen_event(g, w, ts, mix[k].event, cpu, mix[k].reason);
		ts += 100 + rnd(g) % mix[k].ns;
		gen_event(g, w, ts, G_ENTRY, cpu, mix[k].reason);
		n += mix[k].event ? 3 : 2;
	}
	enc_page_end(&w->p);
	ret = w->error ? w->error : put(to, w->page, g->g.size);
	free(w);
	return ret;
}

static int put_event(struct capw *w, struct sbuf *line, const struct gevent *e)
{
	const char *text = enc_format("kvm", e->name);
	uint64_t at;

	if (capw_format(w, text, &at))
		return -EIO;
	meta_begin(line, "event");
	meta_u64(line, "id", e->id);
	meta_str(line, "sys", "kvm");
	meta_str(line, "name", e->name);
	meta_u64(line, "at", at);
	meta_u64(line, "len", strlen(text));
	return capw_meta(w, line);
}

/* One VM with a thread per CPU. */
static int put_vm(struct gen *g, struct capw *w, struct sbuf *line)
{
	int ret;

	sbuf_add(line, "vm id=999-13 pid=999 fd=13 name=gen vmm=qemu");
	ret = capw_meta(w, line);
	for (uint32_t c = 0; c < g->cpus && !ret; c++) {
		sbuf_addf(line, "vcpu vm=999-13 id=%u tid=%u offset=-1000000 ratio=0 frac=48", c,
			  FIRST_TID + c);
		ret = capw_meta(w, line);
	}
	return ret;
}

/* "TID NAME" lines, as saved_cmdlines has them. */
static char *cmdlines(struct gen *g)
{
	struct sbuf b = { 0 };

	for (uint32_t c = 0; c < g->cpus; c++)
		sbuf_addf(&b, "%u CPU %u/KVM\n", FIRST_TID + c, c);
	return sbuf_take(&b);
}

static int put_header(struct capw *w)
{
	size_t len;
	char *text = enc_data_file("header_page-x86_64.txt", &len);
	int ret = text ? capw_file(w, "header_page", text, len) : -ENOENT;

	free(text);
	return ret;
}

static int put_to_sbuf(void *to, const void *page, size_t len)
{
	struct sbuf *b = to;

	sbuf_add_mem(b, page, len);
	return b->error;
}

/*
 * Writes each file at once: page by page it would be in single pages in the page cache, and slower
 * to read. The recorder writes 64 KB and more at a time.
 */
static int gen_streams(struct gen *g, struct capw *w)
{
	struct sbuf file = { 0 };
	int ret = 0;

	for (uint32_t c = 0; c < g->cpus && !ret; c++) {
		int fd = capw_data_open(w, 0, c);

		sbuf_reset(&file);
		ret = fd < 0 ? fd : gen_cpu(g, c, put_to_sbuf, &file);
		if (!ret)
			ret = full_write(fd, file.s, file.len, NULL);
		if (fd >= 0)
			close(fd);
	}
	sbuf_free(&file);
	return ret;
}

static int gen_facts(struct gen *g, struct capw *w, struct sbuf *line)
{
	static const char *const head[] = {
		"tool version=gen",
		"side name=host",
		"machine uname=Linux arch=x86_64 long=8 endian=little",
		"tsc khz=2000000 source=generated",
		"begin tsc=1000000",
	};
	char *names = cmdlines(g);
	int ret = names ? capw_file(w, "saved_cmdlines", names, strlen(names)) : -ENOMEM;

	free(names);
	sbuf_addf(line, "ring clock=x86-tsc trace_clock=[x86-tsc] subbuf=%u header=16", g->g.size);
	ret = ret ? ret : capw_meta(w, line);
	for (size_t i = 0; i < ARRAY_SIZE(head) && !ret; i++) {
		sbuf_add(line, head[i]);
		ret = capw_meta(w, line);
	}
	ret = ret ? ret : put_header(w);
	for (size_t i = 0; i < ARRAY_SIZE(event) && !ret; i++)
		ret = put_event(w, line, &event[i]);
	return ret ? ret : put_vm(g, w, line);
}

static int gen_capture(struct gen *g, const char *path)
{
	struct kvmft_err err = { .text = "" };
	struct sbuf line = { 0 };
	struct capw *w;
	int ret;

	ret = enc_capture(path, &w, &err);
	if (ret) {
		fprintf(stderr, "gen: %s\n", err.text);
		return ret;
	}
	ret = gen_facts(g, w, &line);
	ret = ret ? ret : gen_streams(g, w);
	sbuf_add(&line, "end reason=generated");
	ret = ret ? ret : capw_meta(w, &line);
	sbuf_free(&line);
	capw_close(w);
	return ret;
}

static int gen_trace_dat(struct gen *g, const char *path)
{
	const char *events[2 * ARRAY_SIZE(event) + 1] = { NULL };
	struct sbuf *data = calloc(g->cpus, sizeof(*data)), file = { 0 };
	struct enc_cpu *cpu = calloc(g->cpus, sizeof(*cpu));
	char *names = cmdlines(g);
	struct enc_dat d = { .version = 6, .g = g->g, .events = events, .clock = "local [x86-tsc]",
			     .cmdlines = names, .shared = g->buffers };
	int fd, ret = 0;

	if (!data || !cpu || !names)
		return -ENOMEM;
	if (g->whole) {
		d.more_formats = 2000;
		d.symbols = 100000;
	}
	for (size_t i = 0; i < ARRAY_SIZE(event); i++) {
		events[2 * i] = "kvm";
		events[2 * i + 1] = event[i].name;
	}
	for (uint32_t c = 0; c < g->cpus && !ret; c++) {
		ret = gen_cpu(g, c, put_to_sbuf, &data[c]);
		cpu[c] = (struct enc_cpu){ .data = data[c].s, .len = data[c].len };
	}
	d.ncpu = g->cpus;
	d.cpu = cpu;
	if (!ret)
		enc_dat_build(&d, &file);
	unlink(path);
	fd = ret ? ret : file_create(AT_FDCWD, path);
	ret = fd < 0 ? fd : full_write(fd, file.s, file.len, NULL);
	if (fd >= 0)
		close(fd);
	for (uint32_t c = 0; c < g->cpus; c++)
		sbuf_free(&data[c]);
	sbuf_free(&file);
	free(names);
	free(data);
	free(cpu);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct option opts[] = {
		{ "capture", required_argument, NULL, 'c' }, { "trace-dat", required_argument, NULL, 't' },
		{ "events", required_argument, NULL, 'e' },  { "cpus", required_argument, NULL, 'n' },
		{ "subbuf", required_argument, NULL, 's' },  { "whole", no_argument, NULL, 'w' },
		{ "buffers", required_argument, NULL, 'b' },
		{ 0 },
	};
	struct gen g = { .events = 100000, .cpus = 2 };
	const char *capture = NULL, *dat = NULL;
	uint64_t v, subbuf = 4096;
	int o, ret = 0;

	while ((o = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		if (o == 'c') {
			capture = optarg;
		} else if (o == 't') {
			dat = optarg;
		} else if (o == 'w') {
			g.whole = true;
		} else if (o == 's' && !parse_size(optarg, &subbuf) && subbuf >= 1024 &&
			   subbuf <= CAPTURE_MAX_SUBBUF) {
			continue;
		} else if ((o == 'e' || o == 'n' || o == 'b') && !parse_u64(optarg, &v) && v &&
			   v < 1u << 30) {
			if (o == 'b')
				g.buffers = (uint32_t)v;
			else if (o == 'e')
				g.events = v;
			else
				g.cpus = (uint32_t)v;
		} else {
			return 2;
		}
	}
	g.g = enc_geom((uint32_t)subbuf, 8);
	if (!formats_load()) {
		fputs("gen: tests/data lacks formats of kvm events\n", stderr);
		return 1;
	}
	if (capture)
		ret = gen_capture(&g, capture);
	if (!ret && dat)
		ret = gen_trace_dat(&g, dat);
	if (ret)
		fprintf(stderr, "gen: %s\n", strerror(-ret));
	return ret ? 1 : 0;
}
