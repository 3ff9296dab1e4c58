/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkstream.c: writes streams for kvmft receive, good and bad ones, to its standard output.
 *
 *   mkstream LINE...
 *
 * Each LINE is one of
 *
 *   capture DIR                    the hello and all of a capture, without the end
 *   hello [TEXT]                   the first line; without TEXT the one of this version
 *   frame TYPE CPU SEGMENT CONTENT [LEN]
 *                                  TYPE is a number; CONTENT is -, zeros:N, hex:..., text:... (\n is a
 *                                  newline, \s a blank), or file:PATH; LEN is what the head says instead of its length
 *   times N frame ...              the same frame N times
 *   for-ever frame ...             until nobody reads
 *   bytes CONTENT                  no frame, but this
 *   end [N]                        STREAM_END; N instead of the bytes before it
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvmft/stream.h"

static uint64_t written;

static void die(const char *what)
{
	fprintf(stderr, "mkstream: %s: %s\n", what, errno ? strerror(errno) : "not understood");
	exit(1);
}

static void put(const void *p, size_t n)
{
	if (fwrite(p, 1, n, stdout) != n)
		exit(ferror(stdout) && errno == EPIPE ? 0 : 1);
	written += n;
}

static void frame(unsigned int type, uint32_t cpu, uint32_t segment, const struct sbuf *b,
		  uint64_t len)
{
	const struct stream_head h = {
		.mark = STREAM_MARK,
		.type = (uint16_t)type,
		.cpu = cpu,
		.segment = segment,
		.len = len,
	};

	put(&h, sizeof(h));
	if (b->len)
		put(b->s, b->len);
}

static void add_file(struct sbuf *b, const char *path)
{
	char buf[65536];
	FILE *f = fopen(path, "r");
	size_t n;

	if (!f)
		die(path);
	while ((n = fread(buf, 1, sizeof(buf), f)))
		sbuf_add_mem(b, buf, n);
	fclose(f);
}

static void add_hex(struct sbuf *b, const char *p)
{
	unsigned int x;

	for (; sscanf(p, "%2x", &x) == 1; p += strlen(p) > 1 ? 2 : 1)
		sbuf_addc(b, (char)x);
}

static void add_text(struct sbuf *b, const char *p)
{
	for (; *p; p++) {
		bool newline = p[0] == '\\' && p[1] == 'n', blank = p[0] == '\\' && p[1] == 's';

		sbuf_addc(b, newline ? '\n' : blank ? ' ' : *p);
		p += newline || blank;
	}
}

static void content(struct sbuf *b, const char *text)
{
	if (!strncmp(text, "zeros:", 6))
		for (unsigned long n = strtoul(text + 6, NULL, 0); n; n--)
			sbuf_addc(b, '\0');
	else if (!strncmp(text, "hex:", 4))
		add_hex(b, text + 4);
	else if (!strncmp(text, "text:", 5))
		add_text(b, text + 5);
	else if (!strncmp(text, "file:", 5))
		add_file(b, text + 5);
	else if (strcmp(text, "-"))
		die(text);
}

static void end(const char *bytes)
{
	uint64_t n = *bytes ? strtoull(bytes, NULL, 0) : written;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_add_mem(&b, (const char *)&n, sizeof(n));
	frame(STREAM_END, 0, 0, &b, b.len);
}

static void hello(const char *text)
{
	char line[STREAM_HELLO_MAX + 1];

	snprintf(line, sizeof(line), "%s\n",
		 *text ? text : STREAM_HELLO "version=1 capture=1");
	put(line, strlen(line));
}

/* ---- a capture ---- */

static void put_named(const char *dir, const char *name)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "r");
	if (!f)
		return;
	fclose(f);
	sbuf_add(&b, name);
	add_file(&b, path);
	frame(STREAM_FILE, (uint32_t)strlen(name), 0, &b, b.len);
}

static void put_data(const char *dir, unsigned int segment)
{
	char path[4096];
	struct dirent *e;
	uint32_t cpu;
	DIR *d;

	snprintf(path, sizeof(path), "%s/seg%06u", dir, segment);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };

		if (sscanf(e->d_name, "cpu%" SCNu32, &cpu) != 1)
			continue;
		snprintf(path, sizeof(path), "%s/seg%06u/%s", dir, segment, e->d_name);
		add_file(&b, path);
		frame(STREAM_DATA, cpu, segment, &b, b.len);
	}
	if (d)
		closedir(d);
}

/* Formats in files of their own, as mkcap makes them, are put into the one file of all formats. */
static void add_event(struct sbuf *meta, struct sbuf *formats, const char *dir, const char *line)
{
	char sys[64], name[64], path[4096];
	size_t at = formats->len;

	sbuf_add(meta, line);
	if (sscanf(line, "event id=%*u sys=%63s name=%63s", sys, name) == 2 && !strstr(line, " at=")) {
		snprintf(path, sizeof(path), "%s/events/%s/%s", dir, sys, name);
		add_file(formats, path);
		sbuf_addf(meta, " at=%zu len=%zu", at, formats->len - at);
	}
	sbuf_addc(meta, '\n');
}

static void capture(const char *dir)
{
	static const char *const names[] = { "header_page", "header_event", "saved_cmdlines",
					     "saved_tgids", "printk_formats", "kallsyms" };
	_cleanup_(sbuf_free) struct sbuf text = { 0 }, meta = { 0 }, formats = { 0 };
	char path[4096], *save, *line;

	hello("");
	snprintf(path, sizeof(path), "%s/meta", dir);
	add_file(&text, path);
	snprintf(path, sizeof(path), "%s/formats", dir);
	if (!access(path, F_OK))
		add_file(&formats, path);
	/* Not the first one: it is the directory's version. */
	line = text.s ? strtok_r(text.s, "\n", &save) : NULL;
	while (line && (line = strtok_r(NULL, "\n", &save)))
		add_event(&meta, &formats, dir, line);
	frame(STREAM_META, 0, 0, &meta, meta.len);
	frame(STREAM_FORMATS, 0, 0, &formats, formats.len);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		put_named(dir, names[i]);
	put_data(dir, 0);
}

/* ---- lines ---- */

static void line_frame(char *words)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char *save, *w[5] = { NULL };

	for (int i = 0; i < 5; i++)
		w[i] = strtok_r(i ? NULL : words, " ", &save);
	if (!w[3])
		die("frame");
	content(&b, w[3]);
	frame((unsigned int)strtoul(w[0], NULL, 0), (uint32_t)strtoul(w[1], NULL, 0),
	      (uint32_t)strtoul(w[2], NULL, 0), &b, w[4] ? strtoull(w[4], NULL, 0) : b.len);
}

static void repeat(const char *words, unsigned long n)
{
	for (; n; n--) {
		char copy[1024];

		snprintf(copy, sizeof(copy), "%s", words);
		line_frame(copy);
	}
}

static void put_line(char *line)
{
	char *rest = line + strcspn(line, " ");
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (*rest)
		*rest++ = '\0';
	if (!strcmp(line, "capture"))
		capture(rest);
	else if (!strcmp(line, "hello"))
		hello(rest);
	else if (!strcmp(line, "frame"))
		line_frame(rest);
	else if (!strcmp(line, "times"))
		repeat(strstr(rest, "frame ") + 6, strtoul(rest, NULL, 0));
	else if (!strcmp(line, "for-ever"))
		repeat(strstr(rest, "frame ") + 6, ~0ul);
	else if (!strcmp(line, "end"))
		end(rest);
	else if (strcmp(line, "bytes"))
		die(line);
	else
		content(&b, rest);
	if (b.len)
		put(b.s, b.len);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		put_line(argv[i]);
	return fflush(stdout) ? 1 : 0;
}
