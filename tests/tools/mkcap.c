/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkcap.c: makes a capture directory or a trace.dat from readable text.
 *
 *   mkcap --capture DIR | --trace-dat FILE [--clock CLOCK] [--date US] [--formats NAME]  TEXT
 *
 * Lines of TEXT; '#' begins a comment:
 *
 *   meta vm id=100-12 pid=100 name=one        a line of the capture's meta file (not in a trace.dat)
 *   event SYS NAME ID TYPE:FIELD...           an event format; TYPE is u8 ... u64, s8 ... s64; word, of 15
 *                                             bytes at most; bytesN, in hex; text
 *                                             is the last one, and takes the rest of a line. Without it
 *                                             an event has the format of tests/data/formats-6.18-x86.txt,
 *                                             or of the file there that --formats names
 *   CPU TIME TID NAME [FIELD=VALUE]...        an event of system kvm; SYS:NAME for another. NAME? and FIELD?
 *                                             are left out where there are none
 *   recorded NAME...                          events that were recorded, whether or not there are any
 *   CPU gap [COUNT]                           events are lost here; no COUNT: nobody knows how many
 *   CPU page                                  the next event is in another sub-buffer
 *   CPU stats ENTRIES READ                    counters of its ring, in a trace.dat
 *
 * Times are ticks of the clock x86-tsc at 1 GHz, so that a tick is a ns; in a trace.dat, of which no frequency is
 * known, of that clock (local). Lines of a CPU are in order. --date is what trace-cmd record --date writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "kvmft/capture.h"
#include "kvmft/ring.h"
#include "lib/enc.h"

#define SUBBUF	 4096
#define MAX_CPUS 16
#define MAX_OWN	 32
#define MAX_USED 64
#define MAX_REC	 512
#define DIE(...) die(line, __VA_ARGS__)

struct used {
	char sys[64], name[64];
	char *text; /* the format */
	uint16_t id;
	uint32_t len;
};

struct cpu {
	struct sbuf data;
	uint8_t page[SUBBUF];
	struct encpage p;
	bool open, lost;
	uint64_t lost_count;
};

struct mkcap {
	struct used ev[MAX_USED];
	size_t nev;
	struct cpu cpu[MAX_CPUS];
	uint32_t ncpu;
	struct sbuf meta;
	struct subbuf_geom g;
	struct enc_dat dat;
};

static void __printf(2, 3) __noreturn_attr die(unsigned int line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "mkcap: line %u: ", line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static uint64_t number(unsigned int line, const char *s)
{
	uint64_t v;

	if (!s || parse_bits64(s, &v))
		DIE("'%s' is no number", s ? s : "");
	return v;
}

/* ---- formats ---- */

/* Finds " NAME;" in the format: its offset and size. */
static bool field(const char *text, const char *name, uint32_t *off, uint32_t *size)
{
	char pattern[80];
	const char *p, *at;

	snprintf(pattern, sizeof(pattern), " %s;", name);
	p = strstr(text, pattern);
	if (!p || !(at = strstr(p, "offset:")))
		return false;
	*off = (uint32_t)strtoul(at + 7, NULL, 10);
	at = strstr(at, "size:");
	*size = at ? (uint32_t)strtoul(at + 5, NULL, 10) : 0;
	return *size > 0;
}

static uint32_t format_len(const char *text)
{
	uint32_t end = 0;

	for (const char *p = text; (p = strstr(p, "offset:")); p++) {
		const char *size = strstr(p, "size:");

		if (size)
			end = MAX(end, (uint32_t)strtoul(p + 7, NULL, 10) +
					       (uint32_t)strtoul(size + 5, NULL, 10));
	}
	return (end + 3) & ~3u;
}

static struct used *add_used(struct mkcap *m, unsigned int line, const char *sys, const char *name,
			     char *text)
{
	struct used *u = &m->ev[m->nev];
	const char *id = strstr(text, "ID:");

	if (m->nev >= MAX_USED || !id)
		DIE("too many events, or a format without ID");
	snprintf(u->sys, sizeof(u->sys), "%s", sys);
	snprintf(u->name, sizeof(u->name), "%s", name);
	u->text = text;
	u->id = (uint16_t)strtoul(id + 3, NULL, 10);
	u->len = MAX(format_len(text), 16u);
	m->nev++;
	return u;
}

/* Removes the mark. */
static bool optional(char *word)
{
	size_t n = strlen(word);

	if (!n || word[n - 1] != '?')
		return false;
	word[n - 1] = '\0';
	return true;
}

/* NULL: there is none, and none is needed. */
static struct used *find_used(struct mkcap *m, unsigned int line, char *word)
{
	bool may_lack = optional(word);
	char *colon = strchr(word, ':');
	const char *sys = colon ? word : "kvm", *name = colon ? colon + 1 : word, *text;

	if (colon)
		*colon = '\0';
	for (size_t i = 0; i < m->nev; i++)
		if (!strcmp(m->ev[i].sys, sys) && !strcmp(m->ev[i].name, name))
			return &m->ev[i];
	text = enc_format(sys, name);
	if (!text && may_lack)
		return NULL;
	if (!text)
		DIE("no format of %s:%s: give it with a line 'event'", sys, name);
	return add_used(m, line, sys, name, strdup(text));
}

/* "event SYS NAME ID TYPE:FIELD..." */
static void own_format(struct mkcap *m, unsigned int line, char *save)
{
	char *sys = strtok_r(NULL, " \t", &save), *name = strtok_r(NULL, " \t", &save);
	char *id = strtok_r(NULL, " \t", &save), *word;
	struct sbuf b = { 0 };
	uint32_t off = 8;

	sbuf_addf(&b, "name: %s\nID: %llu\nformat:\n", name ? name : "",
		  (unsigned long long)number(line, id));
	sbuf_add(&b, "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
		     "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
		     "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
		     "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n");
	while ((word = strtok_r(NULL, " \t", &save))) {
		uint32_t size = (uint32_t)strtoul(word + 1, NULL, 10) / 8;
		char *colon = strchr(word, ':');

		if (!strncmp(word, "text:", 5)) {
			sbuf_addf(&b, "\tfield:char %s[];\toffset:%u;\tsize:0;\tsigned:0;\n", word + 5, off);
			continue;
		}
		if (!strncmp(word, "word:", 5)) {
			sbuf_addf(&b, "\tfield:char %s[16];\toffset:%u;\tsize:16;\tsigned:0;\n", word + 5, off);
			off += 16;
			continue;
		}
		if (!strncmp(word, "bytes", 5) && colon) {
			size = (uint32_t)strtoul(word + 5, NULL, 10);
			sbuf_addf(&b, "\tfield:u8 %s[%u];\toffset:%u;\tsize:%u;\tsigned:0;\n", colon + 1,
				  size, off, size);
			off += size;
			continue;
		}
		if (!size || !colon)
			DIE("'%s' is not TYPE:FIELD", word);
		off = (off + size - 1) / size * size;
		sbuf_addf(&b, "\tfield:%.*s %s;\toffset:%u;\tsize:%u;\tsigned:%d;\n",
			  (int)(colon - word), word, colon + 1, off, size, word[0] == 's');
		off += size;
	}
	sbuf_add(&b, "\nprint fmt: \"\"\n");
	add_used(m, line, sys, name, sbuf_take(&b));
}

/* ---- events ---- */

static void page_end(struct cpu *c)
{
	if (!c->open)
		return;
	enc_page_end(&c->p);
	sbuf_add_mem(&c->data, c->page, SUBBUF);
	c->open = false;
}

static void page_begin(struct mkcap *m, struct cpu *c, uint64_t ts)
{
	memset(c->page, 0, SUBBUF);
	enc_page_begin(&c->p, &m->g, c->page, ts);
	if (c->lost)
		enc_lost(&c->p, c->lost_count, c->lost_count);
	c->lost = false;
	c->open = true;
}

static void put_hex(uint8_t *to, uint32_t size, const char *hex)
{
	char two[3] = "";

	for (; size-- && hex[0] && hex[1]; hex += 2) {
		memcpy(two, hex, 2);
		*to++ = (uint8_t)strtoul(two, NULL, 16);
	}
}

/* A word, into an array of a size of its own. */
static bool put_word(uint8_t *rec, const struct used *u, const char *name, const char *value)
{
	char pattern[80];
	uint32_t off, size;
	const char *at;

	snprintf(pattern, sizeof(pattern), " %s[", name);
	at = strstr(u->text, pattern);
	if (!at || sscanf(strchr(at, ']'), "];\toffset:%u;\tsize:%u", &off, &size) != 2 || !size)
		return false;
	if (!strncmp(at - 2, "u8", 2))
		put_hex(rec + off, size, value);
	else
		snprintf((char *)rec + off, size, "%s", value);
	return true;
}

/* A text: the rest of the line, behind all that has a size; how long the record is then. */
static uint32_t put_text(uint8_t *rec, const struct used *u, const char *name, char *value,
			 const char *rest)
{
	char pattern[80];
	uint32_t len;
	const char *at;

	snprintf(pattern, sizeof(pattern), " %s[];", name);
	at = strstr(u->text, pattern);
	at = at ? strstr(at, "offset:") : NULL;
	if (!at)
		return 0;
	if (*rest) /* as it was before it became words */
		value[strlen(value)] = ' ';
	len = (uint32_t)strtoul(at + 7, NULL, 10);
	snprintf((char *)rec + len, MAX_REC - len, "%s\n", value);
	return (len + (uint32_t)strlen((char *)rec + len) + 4) & ~3u;
}

/*
 * Puts a word behind the fields, and its place into its own field (__data_loc). Returns the length of the record,
 * or 0 if there is no such field.
 */
static uint32_t put_dynamic(uint8_t *rec, const struct used *u, const char *name, const char *value,
			    uint32_t len)
{
	uint32_t off, size, bytes = (uint32_t)strlen(value) + 1;
	char pattern[80];

	snprintf(pattern, sizeof(pattern), "__data_loc char[] %s;", name);
	if (!strstr(u->text, pattern) || !field(u->text, name, &off, &size) || len + bytes > MAX_REC)
		return 0;
	memcpy(rec + len, value, bytes);
	enc_put(rec + off, bytes << 16 | len, size);
	return (len + bytes + 3) & ~3u;
}

static void event(struct mkcap *m, unsigned int line, struct cpu *c, char *first, char *save)
{
	uint64_t ts = number(line, first), tid = number(line, strtok_r(NULL, " \t", &save));
	char *word = strtok_r(NULL, " \t", &save);
	uint32_t off, size, len, text;
	uint8_t rec[MAX_REC] = { 0 };
	struct used *u;

	if (!word)
		DIE("which event?");
	u = find_used(m, line, word);
	if (!u)
		return;
	enc_record(rec, u->id, (int32_t)tid, 0, u->len);
	len = u->len;
	while ((word = strtok_r(NULL, " \t", &save))) {
		char *eq = strchr(word, '=');

		if (eq)
			*eq = '\0';
		if (eq && optional(word) && !field(u->text, word, &off, &size))
			continue;
		if (eq && put_word(rec, u, word, eq + 1))
			continue;
		text = eq ? put_dynamic(rec, u, word, eq + 1, len) : 0;
		if (text) {
			len = text;
			continue;
		}
		text = eq ? put_text(rec, u, word, eq + 1, save) : 0;
		if (text) {
			len = text;
			break;
		}
		if (!eq || !field(u->text, word, &off, &size))
			DIE("%s has no field '%s'", u->name, word);
		enc_put(rec + off, number(line, eq + 1), size);
	}
	if (!c->open)
		page_begin(m, c, ts);
	if (enc_event(&c->p, ts, rec, len))
		return;
	page_end(c);
	page_begin(m, c, ts);
	if (!enc_event(&c->p, ts, rec, len))
		DIE("%s does not fit a sub-buffer", u->name);
}

static void stats(struct mkcap *m, unsigned int cpu, const char *counts)
{
	char text[160];
	unsigned int entries = 0, taken = 0;

	sscanf(counts, "%u %u", &entries, &taken);
	snprintf(text, sizeof(text),
		 "CPU: %u\nentries: %u\noverrun: 0\ncommit overrun: 0\nbytes: 1\n"
		 "dropped events: 0\nread events: %u\n",
		 cpu, entries, taken);
	enc_option(&m->dat, 2, text, strlen(text) + 1);
}

static void compile(struct mkcap *m, FILE *f)
{
	char text[1024], *save, *word;
	unsigned int line = 0;

	while (fgets(text, sizeof(text), f)) {
		struct cpu *c;
		uint64_t n;

		line++;
		text[strcspn(text, "#\n")] = '\0';
		word = strtok_r(text, " \t", &save);
		if (!word)
			continue;
		if (!strcmp(word, "meta")) {
			sbuf_addf(&m->meta, "%s\n", save);
			continue;
		}
		if (!strcmp(word, "event")) {
			own_format(m, line, save);
			continue;
		}
		if (!strcmp(word, "recorded")) {
			while ((word = strtok_r(NULL, " \t", &save)))
				find_used(m, line, word);
			continue;
		}
		n = number(line, word);
		if (n >= MAX_CPUS)
			DIE("CPU %s?", word);
		m->ncpu = MAX(m->ncpu, (uint32_t)n + 1);
		c = &m->cpu[n];
		word = strtok_r(NULL, " \t", &save);
		if (word && !strcmp(word, "stats")) {
			stats(m, (unsigned int)n, save);
			continue;
		}
		if (word && !strcmp(word, "page")) {
			page_end(c);
			continue;
		}
		if (word && !strcmp(word, "gap")) {
			page_end(c);
			c->lost = true;
			word = strtok_r(NULL, " \t", &save);
			c->lost_count = word ? number(line, word) : 0;
			continue;
		}
		event(m, line, c, word, save);
	}
	for (uint32_t i = 0; i < m->ncpu; i++)
		page_end(&m->cpu[i]);
}

/* ---- files ---- */

static void put_line(struct capw *w, struct sbuf *b)
{
	if (capw_meta(w, b))
		die(0, "cannot write the meta file");
}

static void put_events(struct mkcap *m, struct capw *w, struct sbuf *b)
{
	char path[160];

	for (size_t i = 0; i < m->nev; i++) {
		const struct used *u = &m->ev[i];

		meta_begin(b, "event");
		meta_u64(b, "id", u->id);
		meta_str(b, "sys", u->sys);
		meta_str(b, "name", u->name);
		put_line(w, b);
		snprintf(path, sizeof(path), "events/%s/%s", u->sys, u->name);
		if (capw_file(w, path, u->text, strlen(u->text)))
			die(0, "cannot write %s", path);
	}
}

static void capture(struct mkcap *m, const char *path)
{
	static const char *const head[] = {
		"tool version=mkcap",
		"side name=host",
		"machine uname=Linux%206.18.0 arch=x86_64 long=8 endian=little vendor=GenuineIntel",
		"ring clock=x86-tsc trace_clock=[x86-tsc] subbuf=4096 header=16",
		"tsc khz=1000000 source=mkcap",
		"begin tsc=0",
	};
	struct kvmft_err err = { .text = "" };
	struct sbuf b = { 0 };
	struct capw *w;
	char *header, *save = NULL, *line;
	size_t len;

	if (enc_capture(path, &w, &err))
		die(0, "%s", err.text);
	for (size_t i = 0; i < ARRAY_SIZE(head); i++) {
		sbuf_add(&b, head[i]);
		put_line(w, &b);
	}
	line = m->meta.s ? strtok_r(m->meta.s, "\n", &save) : NULL;
	for (; line; line = strtok_r(NULL, "\n", &save)) {
		sbuf_add(&b, line);
		put_line(w, &b);
	}
	header = enc_data_file("header_page-x86_64.txt", &len);
	if (capw_file(w, "header_page", header, len))
		die(0, "cannot write header_page");
	free(header);
	put_events(m, w, &b);
	for (uint32_t i = 0; i < m->ncpu; i++) {
		int fd = capw_data_open(w, 0, i);

		if (fd < 0 || full_write(fd, m->cpu[i].data.s, m->cpu[i].data.len, NULL))
			die(0, "cannot write the data of CPU %u", i);
		close(fd);
	}
	sbuf_add(&b, "end reason=generated");
	put_line(w, &b);
	sbuf_free(&b);
	capw_close(w);
}

static void trace_dat(struct mkcap *m, const char *path, const char *clock)
{
	const char *events[2 * MAX_USED + 1] = { NULL };
	struct enc_cpu cpu[MAX_CPUS];
	char names[64];
	struct enc_dat *d = &m->dat;
	struct sbuf file = { 0 };
	int fd;

	snprintf(names, sizeof(names), "[%s] global", clock);
	d->version = 6;
	d->events = events;
	d->clock = names;
	d->ncpu = m->ncpu;
	d->cpu = cpu;
	for (size_t i = 0; i < m->nev; i++) {
		if (!enc_format(m->ev[i].sys, m->ev[i].name))
			die(0, "a trace.dat has only events of the corpus, not %s", m->ev[i].name);
		events[2 * i] = m->ev[i].sys;
		events[2 * i + 1] = m->ev[i].name;
	}
	for (uint32_t i = 0; i < m->ncpu; i++)
		cpu[i] = (struct enc_cpu){ .data = m->cpu[i].data.s, .len = m->cpu[i].data.len };
	enc_dat_build(d, &file);
	fd = file_create(AT_FDCWD, path);
	if (fd < 0 || full_write(fd, file.s, file.len, NULL))
		die(0, "cannot write %s", path);
	close(fd);
	sbuf_free(&file);
}

int main(int argc, char **argv)
{
	static const struct option opts[] = {
		{ "capture", required_argument, NULL, 'c' },
		{ "trace-dat", required_argument, NULL, 't' },
		{ "clock", required_argument, NULL, 'C' },
		{ "date", required_argument, NULL, 'd' },
		{ "formats", required_argument, NULL, 'f' },
		{ 0 },
	};
	struct mkcap *m = calloc(1, sizeof(*m));
	const char *dir = NULL, *dat = NULL, *clock = "local";
	FILE *f = stdin;
	int o;

	while ((o = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		if (o == 'c')
			dir = optarg;
		else if (o == 't')
			dat = optarg;
		else if (o == 'C')
			clock = optarg;
		else if (o == 'd')
			enc_option(&m->dat, 1, optarg, strlen(optarg) + 1);
		else if (o == 'f')
			enc_corpus(optarg);
		else
			return 2;
	}
	if (optind < argc)
		f = fopen(argv[optind], "r");
	if (!m || !f)
		die(0, "cannot read %s", optind < argc ? argv[optind] : "");
	m->g = m->dat.g = enc_geom(SUBBUF, 8);
	compile(m, f);
	if (dat)
		trace_dat(m, dat, clock);
	if (dir)
		capture(m, dir);
	for (uint32_t i = 0; i < m->ncpu; i++)
		sbuf_free(&m->cpu[i].data);
	for (size_t i = 0; i < m->nev; i++)
		free(m->ev[i].text);
	sbuf_free(&m->meta);
	sbuf_free(&m->dat.options);
	free(m);
	if (f != stdin)
		fclose(f);
	return 0;
}
