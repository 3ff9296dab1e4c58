/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gen.c: makes large valid inputs for benchmarks and fuzzing: kvm_exit and kvm_entry of N CPUs in a
 * capture directory, and the same sub-buffers as a trace.dat. What it writes is what the encoders of
 * the unit tests write.
 *
 *   gen --capture DIR | --trace-dat FILE  [--events N] [--cpus N]
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

#define SUBBUF 4096

struct gen {
	uint64_t events;
	uint32_t cpus;
	struct subbuf_geom g;
	uint16_t exit_id, entry_id;
	uint32_t seed;
};

static uint32_t rnd(struct gen *g)
{
	g->seed = g->seed * 1664525u + 1013904223u;
	return g->seed >> 8;
}

static uint16_t format_id(const char *text)
{
	const char *p = text ? strstr(text, "ID:") : NULL;

	return p ? (uint16_t)strtoul(p + 3, NULL, 10) : 0;
}

/* Bytes of a record: the end of the last field that the format lists. */
static uint32_t format_len(const char *text)
{
	uint32_t end = 0;

	for (const char *p = text; p && (p = strstr(p, "offset:")); p++) {
		uint32_t off = (uint32_t)strtoul(p + 7, NULL, 10);
		const char *size = strstr(p, "size:");

		if (size)
			end = MAX(end, off + (uint32_t)strtoul(size + 5, NULL, 10));
	}
	return end;
}

/* The sub-buffers of one CPU, whole, in *out. Payload: zeros but for the common fields. */
static void gen_cpu(struct gen *g, uint32_t cpu, struct sbuf *out)
{
	uint32_t exit_len = format_len(enc_format("kvm", "kvm_exit"));
	uint32_t entry_len = format_len(enc_format("kvm", "kvm_entry"));
	uint8_t page[SUBBUF], rec[256];
	uint64_t ts = 1000000 + cpu * 7;
	struct encpage p;

	enc_page_begin(&p, &g->g, page, ts);
	for (uint64_t i = 0; i < g->events / g->cpus; i++) {
		bool exit = !(i & 1);
		uint32_t len = MIN(exit ? exit_len : entry_len, (uint32_t)sizeof(rec));

		ts += 500 + rnd(g) % 4000;
		enc_record(rec, &g->g, exit ? g->exit_id : g->entry_id, 1000 + (int32_t)cpu, 0, len);
		if (exit) /* exit_reason, at 8 in all kernels since 2.6.38 */
			enc_put(rec + 8, false, rnd(g) % 2 ? 0x7b : 0x400, 4);
		if (enc_event(&p, ts, rec, len))
			continue;
		enc_page_end(&p);
		sbuf_add_mem(out, page, sizeof(page));
		enc_page_begin(&p, &g->g, page, ts);
		enc_event(&p, ts, rec, len);
	}
	enc_page_end(&p);
	sbuf_add_mem(out, page, sizeof(page));
}

static int put_event(struct capw *w, struct sbuf *line, const char *name, uint16_t id)
{
	const char *text = enc_format("kvm", name);
	char path[128];

	snprintf(path, sizeof(path), "events/kvm/%s", name);
	meta_begin(line, "event");
	meta_u64(line, "id", id);
	meta_str(line, "sys", "kvm");
	meta_str(line, "name", name);
	if (capw_meta(w, line))
		return -EIO;
	return capw_file(w, path, text, strlen(text));
}

static int put_header(struct capw *w)
{
	size_t len;
	char *text = enc_data_file("header_page-x86_64.txt", &len);
	int ret = text ? capw_file(w, "header_page", text, len) : -ENOENT;

	free(text);
	return ret;
}

static int gen_capture(struct gen *g, const char *path)
{
	static const char *const head[] = {
		"tool version=gen",
		"side name=host",
		"machine uname=Linux arch=x86_64 long=8 endian=little",
		"ring clock=x86-tsc trace_clock=[x86-tsc] subbuf=4096 header=16",
		"tsc khz=2000000 source=generated",
		"begin tsc=1000000",
	};
	struct kvmft_err err = { .text = "" };
	struct sbuf line = { 0 };
	struct capw *w;
	int ret;

	ret = capw_create(path, CAPW_FORCE, &w, &err);
	if (ret) {
		fprintf(stderr, "gen: %s\n", err.text);
		return ret;
	}
	for (size_t i = 0; i < ARRAY_SIZE(head) && !ret; i++) {
		sbuf_add(&line, head[i]);
		ret = capw_meta(w, &line);
	}
	ret = ret ? ret : put_header(w);
	ret = ret ? ret : put_event(w, &line, "kvm_exit", g->exit_id);
	ret = ret ? ret : put_event(w, &line, "kvm_entry", g->entry_id);
	for (uint32_t c = 0; c < g->cpus && !ret; c++) {
		struct sbuf data = { 0 };
		int fd = capw_data_open(w, 0, c);

		gen_cpu(g, c, &data);
		ret = fd < 0 ? fd : data.error ? data.error : full_write(fd, data.s, data.len, NULL);
		if (fd >= 0)
			close(fd);
		sbuf_free(&data);
	}
	sbuf_add(&line, "end reason=generated");
	ret = ret ? ret : capw_meta(w, &line);
	sbuf_free(&line);
	capw_close(w);
	return ret;
}

static int gen_trace_dat(struct gen *g, const char *path)
{
	static const char *const events[] = { "kvm", "kvm_exit", "kvm", "kvm_entry", NULL };
	struct sbuf *data = calloc(g->cpus, sizeof(*data)), file = { 0 };
	struct enc_cpu *cpu = calloc(g->cpus, sizeof(*cpu));
	struct enc_dat d = { .version = 6, .g = g->g, .events = events, .clock = "local [x86-tsc]" };
	int fd, ret;

	if (!data || !cpu)
		return -ENOMEM;
	for (uint32_t c = 0; c < g->cpus; c++) {
		gen_cpu(g, c, &data[c]);
		cpu[c] = (struct enc_cpu){ .data = data[c].s, .len = data[c].len };
	}
	d.ncpu = g->cpus;
	d.cpu = cpu;
	enc_dat_build(&d, &file);
	unlink(path);
	fd = file_create(AT_FDCWD, path);
	ret = fd < 0 ? fd : full_write(fd, file.s, file.len, NULL);
	if (fd >= 0)
		close(fd);
	for (uint32_t c = 0; c < g->cpus; c++)
		sbuf_free(&data[c]);
	sbuf_free(&file);
	free(data);
	free(cpu);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct option opts[] = {
		{ "capture", required_argument, NULL, 'c' }, { "trace-dat", required_argument, NULL, 't' },
		{ "events", required_argument, NULL, 'e' },  { "cpus", required_argument, NULL, 'n' },
		{ 0 },
	};
	struct gen g = { .events = 100000, .cpus = 2, .seed = 1 };
	const char *capture = NULL, *dat = NULL;
	uint64_t v;
	int o, ret = 0;

	while ((o = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		if (o == 'c') {
			capture = optarg;
		} else if (o == 't') {
			dat = optarg;
		} else if ((o == 'e' || o == 'n') && !parse_u64(optarg, &v) && v && v < 1u << 30) {
			if (o == 'e')
				g.events = v;
			else
				g.cpus = (uint32_t)v;
		} else {
			return 2;
		}
	}
	g.g = enc_geom(SUBBUF, 8, false);
	g.exit_id = format_id(enc_format("kvm", "kvm_exit"));
	g.entry_id = format_id(enc_format("kvm", "kvm_entry"));
	if (!g.exit_id || !g.entry_id) {
		fputs("gen: no formats of kvm_exit and kvm_entry in tests/data\n", stderr);
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
