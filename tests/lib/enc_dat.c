/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * enc_dat.c: encoding trace.dat files, version 6 and uncompressed version 7.
 */
#include "lib/enc.h"

#include <stdio.h>
#include <string.h>

void enc_option(struct enc_dat *d, uint16_t id, const void *data, size_t len)
{
	enc_u16(&d->options, id);
	enc_u32(&d->options, (uint32_t)len);
	sbuf_add_mem(&d->options, data, len);
}

static void text64(struct sbuf *b, const char *text)
{
	enc_u64(b, strlen(text));
	sbuf_add(b, text);
}

static void header_info(const struct enc_dat *d, struct sbuf *b)
{
	char page[512];

	snprintf(page, sizeof(page),
		 "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
		 "\tfield: local_t commit;\toffset:8;\tsize:%u;\tsigned:1;\n"
		 "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
		 "\tfield: char data;\toffset:%u;\tsize:%u;\tsigned:1;\n",
		 d->g.long_size, d->g.header, d->g.size - d->g.header);
	sbuf_add_mem(b, "header_page", 12);
	text64(b, page);
	sbuf_add_mem(b, "header_event", 13);
	text64(b, "# compressed entry header\n\ttype_len    :    5 bits\n");
}

/* What else a kernel declares: the formats of tests/data again and again, with names and ids of their own. */
static void more_formats(const struct enc_dat *d, struct sbuf *b)
{
	const char *sys, *name, *text, *fields;
	size_t at = 0;

	sbuf_add_mem(b, "more", 5);
	enc_u32(b, d->more_formats);
	for (uint32_t i = 0; i < d->more_formats;) {
		struct sbuf one = { 0 };

		text = enc_format_at(at++, &sys, &name);
		if (!text) {
			at = 0;
			continue;
		}
		fields = strstr(text, "format:");
		if (!fields)
			continue;
		sbuf_addf(&one, "name: more_%u\nID: %u\n%s", i, 20000 + i, fields);
		text64(b, one.s);
		sbuf_free(&one);
		i++;
	}
}

/* As /proc/kallsyms has them. */
static void kallsyms(const struct enc_dat *d, struct sbuf *b)
{
	struct sbuf text = { 0 };

	for (uint32_t i = 0; i < d->symbols; i++)
		sbuf_addf(&text, "%llx %c kernel_symbol_number_%u\n", 0xffffffff81000000ull + 192ull * i,
			  i % 3 ? 't' : 'T', i);
	enc_u32(b, (uint32_t)text.len);
	sbuf_add_mem(b, text.s ? text.s : "", text.len);
	sbuf_free(&text);
}

/* Events of one system must stand together in d->events. */
static void event_formats(const struct enc_dat *d, struct sbuf *b)
{
	const char *const *e, *const *k;
	uint32_t systems = 0, n;

	for (e = d->events; e && *e; e += 2)
		systems += e == d->events || strcmp(e[0], e[-2]);
	systems += d->more_formats != 0;
	enc_u32(b, systems);
	for (e = d->events; e && *e; e = k) {
		for (k = e, n = 0; *k && !strcmp(*k, *e); k += 2)
			n++;
		sbuf_add_mem(b, e[0], strlen(e[0]) + 1);
		enc_u32(b, n);
		for (k = e; *k && !strcmp(*k, *e); k += 2)
			text64(b, enc_format(k[0], k[1]));
	}
	if (d->more_formats)
		more_formats(d, b);
}

static void pad_to(struct sbuf *b, size_t align)
{
	while (b->len % align)
		enc_u8(b, 0);
}

/* flyrecord, CPU table, clock trailer, padding, data. */
static void flyrecord(const struct enc_dat *d, struct sbuf *b, uint32_t ncpu,
		      const struct enc_cpu *cpu)
{
	const char *open = d->clock ? strchr(d->clock, '[') : NULL;
	size_t table, i;

	sbuf_add_mem(b, "flyrecord", 10);
	table = b->len;
	for (i = 0; i < ncpu; i++) {
		enc_u64(b, 0);
		enc_u64(b, cpu[i].len);
	}
	if (open) {
		size_t n = (size_t)(strchr(open, ']') - open) + 1;

		enc_u64(b, n);
		sbuf_add_mem(b, open, n);
	}
	for (i = 0; i < ncpu; i++) {
		pad_to(b, d->g.size);
		enc_put(b->s + table + 16 * i, b->len, 8);
		sbuf_add_mem(b, cpu[i].data, cpu[i].len);
	}
}

static void put_option(struct sbuf *b, uint16_t id, const void *data, size_t len)
{
	enc_u16(b, id);
	enc_u32(b, (uint32_t)len);
	sbuf_add_mem(b, data, len);
}

static void blocks_v6(const struct enc_dat *d, struct sbuf *b)
{
	header_info(d, b);
	enc_u32(b, 0);
	event_formats(d, b);
	kallsyms(d, b);
	enc_u32(b, 0);
	text64(b, d->cmdlines ? d->cmdlines : "");
}

/* One option BUFFER; where its offset goes. */
static size_t shared_buffer(struct sbuf *b, uint32_t i)
{
	struct sbuf opt = { 0 };
	size_t at = b->len + 6;

	enc_u64(&opt, 0);
	sbuf_addf(&opt, "shared%08u", i);
	sbuf_addc(&opt, '\0');
	put_option(b, 3, opt.s, opt.len);
	sbuf_free(&opt);
	return at;
}

static void build_v6(const struct enc_dat *d, struct sbuf *b)
{
	struct sbuf opt = { 0 };
	size_t buffer_at = 0, at, next = 0;

	blocks_v6(d, b);
	enc_u32(b, d->ncpu);
	sbuf_add_mem(b, "options  ", 10);
	if (d->clock)
		put_option(b, 4, d->clock, strlen(d->clock) + 1);
	if (d->instance) {
		enc_u64(&opt, 0);
		sbuf_add_mem(&opt, d->instance, strlen(d->instance) + 1);
		buffer_at = b->len + 6;
		put_option(b, 3, opt.s, opt.len);
		if (d->ninst != d->ncpu) {
			sbuf_reset(&opt);
			enc_u32(&opt, d->ninst);
			put_option(b, 8, opt.s, opt.len);
		}
	}
	at = b->len;
	for (uint32_t i = 0; i < d->shared; i++)
		next = shared_buffer(b, i);
	next -= at + 6; /* from the first one to the last */
	sbuf_add_mem(b, d->options.s, d->options.len);
	enc_u16(b, 0);
	for (uint32_t i = 0; i < d->shared; i++)
		enc_put(b->s + at + 6 + (d->shared > 1 ? next / (d->shared - 1) * i : 0), b->len,
			8);
	flyrecord(d, b, d->ncpu, d->cpu);
	if (d->instance) {
		pad_to(b, d->g.size);
		enc_put(b->s + buffer_at, b->len, 8);
		flyrecord(d, b, d->ninst, d->inst);
	}
	sbuf_free(&opt);
}

/* Begins a section; returns where its size goes. */
static size_t section(struct sbuf *b, uint16_t id)
{
	enc_u16(b, id);
	enc_u16(b, 0);
	enc_u32(b, UINT32_MAX);
	enc_u64(b, 0);
	return b->len - 8;
}

static void section_end(struct sbuf *b, size_t at)
{
	enc_put(b->s + at, b->len - at - 8, 8);
}

static void put_offset(struct sbuf *opt, uint16_t id, uint64_t off)
{
	uint8_t raw[8];

	enc_put(raw, off, 8);
	put_option(opt, id, raw, 8);
}

/* A BUFFER section and the option that describes it. */
static void buffer_v7(const struct enc_dat *d, struct sbuf *b, struct sbuf *options,
		      const char *name, uint32_t ncpu, const struct enc_cpu *cpu)
{
	struct sbuf opt = { 0 };
	uint64_t start = b->len;
	size_t at = section(b, 3), i;

	enc_u64(&opt, start);
	sbuf_add_mem(&opt, name, strlen(name) + 1);
	sbuf_add_mem(&opt, d->clock ? d->clock : "local",
		     strlen(d->clock ? d->clock : "local") + 1);
	enc_u32(&opt, d->g.size);
	enc_u32(&opt, ncpu);
	for (i = 0; i < ncpu; i++) {
		pad_to(b, d->g.size);
		enc_u32(&opt, (uint32_t)i);
		enc_u64(&opt, b->len);
		enc_u64(&opt, cpu[i].len);
		sbuf_add_mem(b, cpu[i].data, cpu[i].len);
	}
	section_end(b, at);
	put_option(options, 3, opt.s, opt.len);
	sbuf_free(&opt);
}

static void build_v7(const struct enc_dat *d, struct sbuf *b)
{
	struct sbuf options = { 0 };
	size_t first, at;

	sbuf_add_mem(b, "none", 5);
	enc_u8(b, 0);
	first = b->len;
	enc_u64(b, 0);

	put_offset(&options, 16, b->len);
	at = section(b, 16);
	header_info(d, b);
	section_end(b, at);
	put_offset(&options, 18, b->len);
	at = section(b, 18);
	event_formats(d, b);
	section_end(b, at);
	put_offset(&options, 21, b->len);
	at = section(b, 21);
	text64(b, d->cmdlines ? d->cmdlines : "");
	section_end(b, at);
	buffer_v7(d, b, &options, "", d->ncpu, d->cpu);
	if (d->instance)
		buffer_v7(d, b, &options, d->instance, d->ninst, d->inst);
	if (d->clock)
		put_option(&options, 4, d->clock, strlen(d->clock) + 1);
	sbuf_add_mem(&options, d->options.s, d->options.len);
	enc_u16(&options, 8);
	enc_u32(&options, 4);
	enc_u32(&options, d->ncpu);
	put_offset(&options, 0, 0);
	enc_put(b->s + first, b->len, 8);
	at = section(b, 0);
	sbuf_add_mem(b, options.s, options.len);
	section_end(b, at);
	sbuf_free(&options);
}

static void start(const struct enc_dat *d, const char *version, struct sbuf *b)
{
	static const uint8_t magic[] = { 0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g' };

	sbuf_add_mem(b, magic, sizeof(magic));
	sbuf_add_mem(b, version, strlen(version) + 1);
	enc_u8(b, 0);
	enc_u8(b, (uint8_t)d->g.long_size);
	enc_u32(b, d->g.size);
}

void enc_dat_build(const struct enc_dat *d, struct sbuf *b)
{
	start(d, d->version == 6 ? "6" : "7", b);
	if (d->version == 6)
		build_v6(d, b);
	else
		build_v7(d, b);
}

void enc_dat_tracing(const struct enc_dat *d, struct sbuf *b)
{
	start(d, "0.6", b);
	blocks_v6(d, b);
}
