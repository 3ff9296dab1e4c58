/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * enc.c: encoding sub-buffers, and the files around them.
 */
#include "lib/enc.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define must(cond)                                                                          \
	do {                                                                                \
		if (!(cond)) {                                                              \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);          \
			abort();                                                            \
		}                                                                           \
	} while (0)

struct subbuf_geom enc_geom(uint32_t size, uint32_t long_size)
{
	return (struct subbuf_geom){
		.size = size,
		.header = 8 + long_size,
		.long_size = long_size,
	};
}

void enc_put(void *at, uint64_t v, size_t size)
{
	uint8_t *p = at;
	size_t i;

	for (i = 0; i < size; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

void enc_u8(struct sbuf *b, uint8_t v)
{
	sbuf_add_mem(b, &v, 1);
}

static void enc_num(struct sbuf *b, uint64_t v, size_t size)
{
	uint8_t raw[8];

	enc_put(raw, v, size);
	sbuf_add_mem(b, raw, size);
}

void enc_u16(struct sbuf *b, uint16_t v)
{
	enc_num(b, v, 2);
}

void enc_u32(struct sbuf *b, uint32_t v)
{
	enc_num(b, v, 4);
}

void enc_u64(struct sbuf *b, uint64_t v)
{
	enc_num(b, v, 8);
}

/* ---- sub-buffers ---- */

void enc_page_begin(struct encpage *p, const struct subbuf_geom *g, void *buf, uint64_t ts)
{
	*p = (struct encpage){ .g = *g, .buf = buf, .ts = ts };
	memset(buf, 0, g->size);
	enc_put(buf, ts, 8);
}

static uint32_t room(const struct encpage *p)
{
	return p->g.size - p->g.header - p->pos;
}

static void word(struct encpage *p, uint32_t v)
{
	must(room(p) >= 4);
	enc_put(p->buf + p->g.header + p->pos, v, 4);
	p->pos += 4;
}

static void head(struct encpage *p, uint32_t type, uint32_t delta)
{
	must(type < 32 && delta < 1u << 27);
	word(p, delta << 5 | type);
}

static void bytes(struct encpage *p, const void *data, uint32_t len)
{
	memcpy(p->buf + p->g.header + p->pos, data, len);
	p->pos += (len + 3) & ~3u;
}

bool enc_extend(struct encpage *p, uint64_t delta)
{
	must(delta >> 59 == 0);
	if (room(p) < 8)
		return false;
	head(p, 30, (uint32_t)(delta & ((1u << 27) - 1)));
	word(p, (uint32_t)(delta >> 27));
	p->ts += delta;
	return true;
}

bool enc_stamp(struct encpage *p, uint64_t ts)
{
	if (room(p) < 8)
		return false;
	head(p, 31, (uint32_t)(ts & ((1u << 27) - 1)));
	word(p, (uint32_t)(ts >> 27));
	p->ts = ts;
	return true;
}

/* Moves time to ts as far as a header cannot; what is left for the header in *delta. */
static bool reach(struct encpage *p, uint64_t ts, uint32_t need, uint32_t *delta)
{
	bool far = ts - p->ts >= 1u << 27;

	must(ts >= p->ts);
	if (room(p) < need + (far ? 8 : 0))
		return false;
	if (far)
		enc_extend(p, ts - p->ts);
	*delta = (uint32_t)(ts - p->ts);
	p->ts = ts;
	return true;
}

bool enc_event_long(struct encpage *p, uint64_t ts, const void *data, uint32_t len)
{
	uint32_t delta;

	if (!reach(p, ts, 8 + ((len + 3) & ~3u), &delta))
		return false;
	head(p, 0, delta);
	word(p, 4 + ((len + 3) & ~3u));
	bytes(p, data, len);
	return true;
}

bool enc_event(struct encpage *p, uint64_t ts, const void *data, uint32_t len)
{
	uint32_t delta, words = (len + 3) / 4;

	if (!words || words > 28)
		return enc_event_long(p, ts, data, len);
	if (!reach(p, ts, 4 + 4 * words, &delta))
		return false;
	head(p, words, delta);
	bytes(p, data, len);
	return true;
}

bool enc_discard(struct encpage *p, uint64_t ts, uint32_t len)
{
	uint32_t delta;

	must(ts > p->ts && len % 4 == 0);
	if (!reach(p, ts, 8 + len, &delta))
		return false;
	must(delta); /* 0 would end the sub-buffer */
	head(p, 29, delta);
	word(p, 4 + len);
	p->pos += len;
	return true;
}

bool enc_padding(struct encpage *p)
{
	if (room(p) < 4)
		return false;
	head(p, 29, 0);
	memset(p->buf + p->g.header + p->pos, 0xa5, room(p)); /* must never be looked at */
	p->pos = p->g.size - p->g.header;
	return true;
}

void enc_lost(struct encpage *p, bool stored, uint64_t count)
{
	p->lost = true;
	p->stored = stored;
	p->lost_count = count;
}

void enc_page_end(struct encpage *p)
{
	uint64_t commit = p->pos;

	/* As the kernel adds it: 1 << 31 as a signed int. */
	if (p->lost)
		commit |= (uint64_t)INT32_MIN;
	if (p->stored && room(p) >= p->g.long_size) { /* the kernel, too, tells the count where it fits */
		commit |= 1u << 30;
		enc_put(p->buf + p->g.header + p->pos, p->lost_count, p->g.long_size);
	}
	enc_put(p->buf + 8, commit, p->g.long_size);
}

void enc_record(void *data, uint16_t id, int32_t pid, uint64_t seq, uint32_t len)
{
	uint8_t *p = data;

	must(len >= 16);
	memset(p, 0, len);
	enc_put(p, id, 2);
	enc_put(p + 4, (uint32_t)pid, 4);
	enc_put(p + 8, seq, 8);
}

/* ---- files ---- */

char *enc_tmpdir(void)
{
	const char *base = getenv("TMPDIR");
	char *dir;

	must(asprintf(&dir, "%s/kvmft-test-XXXXXX", base ? base : "/tmp") > 0);
	must(mkdtemp(dir));
	return dir;
}

static int remove_one(const char *path, const struct stat *st __unused_arg, int type __unused_arg,
		      struct FTW *ftw __unused_arg)
{
	return remove(path);
}

int enc_capture(const char *path, struct capw **w, struct kvmft_err *err)
{
	_cleanup_free_ char *base = NULL;
	_cleanup_close_ int dir = capw_parent_open(path, &base, err);
	size_t before = base && strlen(path) > strlen(base) ? strlen(path) - strlen(base) : 0;
	_cleanup_free_ char *shown = strndup(path, before);
	struct capw_name n;
	int ret;

	*w = NULL;
	if (dir < 0)
		return dir;
	ret = shown ? capw_name_init(&n, dir, shown, base, CAPW_REPLACE, err) : -ENOMEM;
	ret = ret ? ret : capw_create(&n, w, err);
	ret = ret ? ret : capw_name_take(&n, err);
	return ret ? ret : capw_name_done(&n, err);
}

void enc_rmtree(char *dir)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(dir);
}

void enc_file(const char *dir, const char *name, const void *data, size_t len)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	char *slash;

	must(asprintf(&path, "%s/%s", dir, name) > 0);
	for (slash = path + strlen(dir) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		must(!mkdir(path, 0700) || errno == EEXIST);
		*slash = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	must(fd >= 0);
	must(!full_write(fd, data, len, NULL));
}

char *enc_data_file(const char *name, size_t *len)
{
	_cleanup_close_ int fd = open(TEST_DATA_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *text;
	ssize_t n;

	must(fd >= 0);
	n = file_read_all(fd, name, 64u << 20, &text);
	must(n >= 0);
	if (len)
		*len = (size_t)n;
	return text;
}

/* ---- formats ---- */

struct corpus {
	struct {
		char *sys, *name, *text;
	} f[1024];
	size_t n;
	char *all;
};

static const char *corpus_name = "formats-6.18-x86.txt";

void enc_corpus(const char *name)
{
	corpus_name = name;
}

/* "== SYS/NAME" lines, each followed by the format as the kernel gave it. */
static const struct corpus *corpus(void)
{
	static struct corpus c;
	char *p, *eol, *slash;

	if (c.all)
		return &c;
	c.all = enc_data_file(corpus_name, NULL);
	for (p = c.all; p; p = strstr(eol + 1, "\n== ")) {
		if (*p == '\n') {
			p[1] = '\0'; /* the format before keeps its last newline */
			p++;
		}
		p += 3;
		eol = strchr(p, '\n');
		slash = strchr(p, '/');
		must(eol && slash && slash < eol && c.n < ARRAY_SIZE(c.f));
		*eol = *slash = '\0';
		c.f[c.n].sys = p;
		c.f[c.n].name = slash + 1;
		c.f[c.n].text = eol + 1;
		c.n++;
	}
	return &c;
}

const char *enc_format_at(size_t i, const char **sys, const char **name)
{
	const struct corpus *c = corpus();

	if (i >= c->n)
		return NULL;
	*sys = c->f[i].sys;
	*name = c->f[i].name;
	return c->f[i].text;
}

const char *enc_format(const char *sys, const char *name)
{
	const char *text, *s, *n;
	size_t i;

	for (i = 0; (text = enc_format_at(i, &s, &n)); i++)
		if (!strcmp(s, sys) && !strcmp(n, name))
			return text;
	return NULL;
}
