/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stream_in.c: stores a stream as the capture directory that it describes.
 *
 * Nothing in it is trusted: a frame may only append, in the order in which a recorder writes, and
 * everything is limited in size. The contents of sub-buffers are checked when the capture is read,
 * as always.
 */
#include "kvmft/stream.h"
#include "reader.h"

#include <poll.h>
#include <sys/statvfs.h>

#define QUIET_NS      5000000000ull
#define NEWS_NS	      1000000000ull
#define MAX_FORMATS   (64u << 20)
#define LEAST_FACTS   (UINT64_C(32) << 20) /* what a small --max-size leaves for all but events */
#define COPY_SIZE     (64u << 10)
#define FOLDER_SIZE   4096u /* of an empty one, on most file systems */
#define TAIL_HEAD_MAX 16u   /* time and length of a sub-buffer */

/* The data of one CPU. */
struct in_cpu {
	bool open;
	int fd; /* of its file in `segment` */
	uint32_t segment;
	uint64_t end; /* of the file: whole sub-buffers */
};

struct in {
	int fd;
	struct capw *w;
	const struct stream_limits *limits;
	bool (*news)(void *ctx, const struct stream_news *n);
	void *ctx;
	struct stream_news *n;
	struct kvmft_err *err;
	uint64_t told_ns, heard_ns;
	uint32_t subbuf, long_size; /* 0: not announced yet */
	uint32_t segment;
	struct in_cpu cpu[CAPTURE_MAX_CPUS];
	uint64_t meta, formats, facts; /* bytes; facts: these, files, and folders that are there */
	unsigned int files;	       /* bits: those that came */
	struct capw_kept kept;	       /* with --keep */
	char by[CAPW_ORIGIN_SIZE];     /* whose trigger makes the next segment */
	bool copy;		       /* splice is not available */
	bool flight;		       /* what its ring overwrote is not lost */
	uint8_t buf[COPY_SIZE];
};

static int stream_bad(const struct in *in, const char *what)
{
	return err_set(in->err, EBADMSG,
		       "byte %" PRIu64
		       " of the stream: %s: it is damaged, or not from kvmft record",
		       in->n->bytes, what);
}

/* ---- what comes ---- */

static int stream_tell(struct in *in, bool now)
{
	uint64_t t = util_now_ns();

	if (!now && t - in->told_ns < NEWS_NS)
		return 0;
	in->told_ns = t;
	return !in->news || in->news(in->ctx, in->n) ? 0 : -ECANCELED;
}

/* Waits until something comes; -ECANCELED. */
static int stream_await(struct in *in)
{
	struct pollfd p = { .fd = in->fd, .events = POLLIN };
	int ret = stream_tell(in, false);

	while (!ret) {
		int n = poll(&p, 1, 1000);
		bool quiet = !n && util_now_ns() - in->heard_ns > QUIET_NS;

		if (n < 0 && errno != EINTR)
			return -errno;
		ret = stream_tell(in, quiet != in->n->quiet && n >= 0);
		if (quiet != in->n->quiet) {
			in->n->quiet = quiet;
			ret = ret ?: stream_tell(in, true);
		}
		if (n > 0) {
			in->heard_ns = util_now_ns();
			return ret;
		}
	}
	return ret;
}

static int stream_cut(const struct in *in)
{
	return err_set(in->err, ENODATA,
		       "the stream was cut at byte %" PRIu64 ": its sender was killed, or the "
		       "connection lost",
		       in->n->bytes);
}

/* n bytes exactly; -ENODATA: it ended before. */
static int stream_get(struct in *in, void *buf, size_t n)
{
	uint8_t *p = buf;

	while (n) {
		int ret = stream_await(in);
		ssize_t got = ret ? -1 : read(in->fd, p, n);

		if (ret)
			return ret;
		if (got < 0 && errno != EINTR && errno != EAGAIN)
			return err_why(in->err, errno, "cannot read the stream");
		if (!got)
			return stream_cut(in);
		if (got > 0) {
			p += got;
			n -= (size_t)got;
			in->n->bytes += (uint64_t)got;
		}
	}
	return 0;
}

/*
 * The content of a frame, in pieces: its claimed length is only trusted as the content arrives.
 * b NULL: to nowhere.
 */
static int get_all(struct in *in, uint64_t len, struct sbuf *b)
{
	int ret = 0;

	while (len && !ret) {
		size_t part = (size_t)MIN(len, (uint64_t)COPY_SIZE);

		ret = stream_get(in, in->buf, part);
		if (!ret && b)
			sbuf_add_mem(b, (const char *)in->buf, part);
		ret = ret ?: b ? b->error : 0;
		len -= part;
	}
	return ret;
}

/* ---- meta ---- */

/* What it says of the stream itself; of all other records the reader of the capture sees. */
static int take_record(struct in *in, const struct meta_rec *rec)
{
	static const char *const lost[] = { "dropped", "commit_overrun", "overrun", "unstored" };
	const char *name = rec->name;
	uint32_t n;

	if (!strcmp(name, "ring")) {
		if (!meta_get_u32(rec, "subbuf", &n) || !cap_subbuf_ok(n))
			return stream_bad(in,
					  "the record `ring` has an impossible sub-buffer size");
		if (in->subbuf && in->subbuf != n)
			return stream_bad(in, "a second record `ring` contradicts the first");
		in->subbuf = n;
		in->flight = meta_get_u32(rec, "flight", &n) && n;
	} else if (!strcmp(name, "machine") && meta_get_u32(rec, "long", &n)) {
		if (n != 4 && n != 8)
			return stream_bad(
				in, "the record `machine` has longs of neither 4 nor 8 bytes");
		in->long_size = n;
	} else if (!strcmp(name, "stats") && !strcmp(meta_get(rec, "when") ?: "", "end")) {
		uint64_t count;

		for (size_t i = 0; i < ARRAY_SIZE(lost); i++)
			if (!in->flight || strcmp(lost[i], "overrun"))
				in->n->lost |= meta_get_u64(rec, lost[i], &count) && count;
	} else if (!strcmp(name, "begin")) {
		in->n->began = true;
	} else if (!strcmp(name, "stop")) {
		in->n->stopped = true;
	} else if (!strcmp(name, "fired")) {
		in->n->fired++;
	} else if (!strcmp(name, "asked")) {
		snprintf(in->by, sizeof(in->by), "%s", meta_get(rec, "by") ?: "");
	} else if (!strcmp(name, "segment")) {
		in->by[0] = '\0';
		/* What a flight recorder holds came before it. */
		in->n->written += in->flight && meta_get(rec, "why");
	} else if (!strcmp(name, "end")) {
		snprintf(in->n->reason, sizeof(in->n->reason), "%s",
			 meta_get(rec, "reason") ?: "?");
		str_printable(in->n->reason);
	}
	return 0;
}

/* Each line is parsed in a copy, because parsing takes it apart. */
static int take_lines(struct in *in, const char *text, size_t len)
{
	struct meta_rec rec;
	int ret = 0;

	while (len && !ret) {
		size_t n = (size_t)((const char *)memchr(text, '\n', len) - text);
		_cleanup_free_ char *line = strndup(text, n);

		if (!line)
			return -ENOMEM;
		if (!meta_is_line(text, n))
			return stream_bad(in, "a line of meta has invalid bytes");
		if (!meta_parse(line, &rec))
			return stream_bad(in, "a line of meta is not a record");
		ret = take_record(in, &rec);
		text += n + 1;
		len -= n + 1;
	}
	return ret;
}

/* Of this many bytes of events, and of other things. */
static int check_limits(struct in *in, uint64_t data, uint64_t facts)
{
	const struct stream_limits *l = in->limits;
	struct statvfs vfs;

	in->facts += facts;
	if (l->max_size &&
	    (in->n->data + data > l->max_size || in->facts > MAX(l->max_size, LEAST_FACTS)))
		return err_set(in->err, EFBIG,
			       "--max-size is reached, and the sender is told to stop");
	if (!l->min_free || fstatvfs(capw_dirfd(in->w), &vfs))
		return 0;
	if ((uint64_t)vfs.f_bavail * vfs.f_frsize < l->min_free + data + facts)
		return err_set(in->err, ENOSPC,
			       "--min-free is reached, and the sender is told to stop");
	/* Small files take more of these than of bytes. */
	if (vfs.f_files && vfs.f_favail < vfs.f_files / 20)
		return err_set(
			in->err, ENOSPC,
			"less than 5 %% of the inodes are free, and the sender is told to stop");
	return 0;
}

/* Of all but events: size bytes, of which the last len are read into b. */
static int get_facts(struct in *in, uint64_t size, uint64_t len, struct sbuf *b)
{
	return check_limits(in, 0, size) ?: get_all(in, len, b);
}

static int in_meta(struct in *in, const struct stream_head *h)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const struct stream_news before = *in->n;
	int ret;

	if (in->meta + h->len > CAPTURE_MAX_META)
		return stream_bad(in, "more meta than a capture may have");
	in->meta += h->len;
	ret = get_facts(in, h->len, h->len, &b);
	if (ret)
		return ret;
	if (b.s[b.len - 1] != '\n')
		return stream_bad(in, "a line of meta does not end");
	ret = take_lines(in, b.s, b.len);
	b.s[--b.len] = '\0'; /* capw_meta() adds it again */
	ret = ret
		      ?: err_why(in->err, capw_meta(in->w, &b), "cannot write %s/meta",
				 capw_path(in->w));
	if (!ret && (before.began != in->n->began || before.stopped != in->n->stopped ||
		     before.fired != in->n->fired || before.written != in->n->written))
		ret = stream_tell(in, true);
	return ret;
}

/* ---- files ---- */

static int in_formats(struct in *in, const struct stream_head *h)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint64_t at;
	int ret;

	if (in->formats + h->len > MAX_FORMATS)
		return stream_bad(in, "more format texts than a kernel has");
	in->formats += h->len;
	ret = get_facts(in, h->len, h->len, &b);
	if (ret)
		return ret;
	if (strlen(b.s) != b.len)
		return stream_bad(in, "a format is not text");
	return err_why(in->err, capw_format(in->w, b.s, &at), "cannot write %s/formats",
		       capw_path(in->w));
}

static int in_file(struct in *in, const struct stream_head *h)
{
	static const char *const names[] = { "header_page", "header_event",   "saved_cmdlines",
					     "saved_tgids", "printk_formats", "kallsyms",
					     CAP_SYMBOLS };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char name[32] = "";
	size_t i = 0;
	int ret;

	if (h->cpu >= sizeof(name) || h->cpu > h->len)
		return stream_bad(in, "a file has an unknown name");
	ret = stream_get(in, name, h->cpu);
	while (!ret && i < ARRAY_SIZE(names) && strcmp(names[i], name))
		i++;
	if (!ret && i == ARRAY_SIZE(names))
		return stream_bad(in, "a file has an unknown name");
	if (!ret && in->files & 1u << i)
		return stream_bad(in, "a file comes twice");
	ret = ret ?: get_facts(in, h->len, h->len - h->cpu, &b);
	if (ret)
		return ret;
	in->files |= 1u << i;
	return err_why(in->err, capw_file(in->w, name, b.s ?: "", b.len), "cannot write %s/%s",
		       capw_path(in->w), name);
}

/* ---- data ---- */

static bool was_removed(const struct in *in, uint32_t segment)
{
	return in->limits->keep && segment < in->kept.n && !in->kept.origin[segment];
}

static int segment_drop(struct in *in, uint32_t segment)
{
	struct capw_removed gone = { 0 };
	uint64_t freed = 0;
	int ret = capw_segment_remove(in->w, segment, &freed, &gone);

	capw_removed_close(&gone);
	in->n->data -= MIN(freed, in->n->data);
	in->facts -= MIN(FOLDER_SIZE, in->facts);
	in->n->trimmed = true;
	return err_why(in->err, ret, "cannot remove an old segment in %s", capw_path(in->w));
}

/* What others' triggers have caused does not end this side's recording. */
static int in_room(struct in *in, uint64_t len)
{
	const struct stream_limits *l = in->limits;
	uint32_t old;
	int ret = 0;

	if (l->keep && !in->kept.n) /* no frame begins segment 0 */
		ret = capw_kept_add(&in->kept, 0, in->by);
	while (!ret && l->keep && l->max_size && in->n->data + len > l->max_size &&
	       capw_kept_over(&in->kept, UINT64_MAX, 0, &old))
		ret = segment_drop(in, old);
	return ret;
}

/* The recorder's threads may disagree on the segment: one may be late. */
static int check_segment(const struct in *in, const struct stream_head *h)
{
	if (!in->subbuf)
		return stream_bad(in, "data come before the record `ring`");
	if (h->cpu >= CAPTURE_MAX_CPUS)
		return stream_bad(in, "data of a CPU with an impossible number");
	if (h->segment > in->segment || h->segment + 1 < in->segment)
		return stream_bad(in, "data of a segment that has not begun, or is over");
	return 0;
}

static int open_data(struct in *in, const struct stream_head *h)
{
	struct in_cpu *c = &in->cpu[h->cpu];

	if (c->open && c->segment == h->segment)
		return 0;
	if (c->open && h->segment < c->segment)
		return stream_bad(in, "data of a segment that this CPU has left");
	if (c->open)
		close(c->fd);
	c->fd = capw_data_open(in->w, h->segment, h->cpu);
	c->open = c->fd >= 0;
	c->end = 0;
	c->segment = h->segment;
	if (c->fd == -EMFILE || c->fd == -ENFILE)
		return err_set(
			in->err, EMFILE,
			"too many files for the CPUs of this stream: raise the limit (ulimit "
			"-Hn)");
	return err_why(in->err, MIN(c->fd, 0), "cannot make a data file in %s", capw_path(in->w));
}

static int cannot_store(const struct in *in, int error)
{
	return err_why(in->err, error, "cannot write to %s", capw_path(in->w));
}

/* As much as there is, without passing through this process where that works; 0: try again. */
static int store_some(struct in *in, int fd, size_t len)
{
	const size_t part = MIN(len, (size_t)COPY_SIZE);
	int ret = in->copy ? stream_get(in, in->buf, part) : stream_await(in);
	ssize_t n = ret || in->copy ? -1
				    : splice(in->fd, NULL, fd, NULL, MIN(len, (size_t)1 << 20),
					     SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (ret)
		return ret;
	if (in->copy)
		return cannot_store(in, full_write(fd, in->buf, part, NULL)) ?: (int)part;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n < 0 && errno == EINVAL) {
		in->copy = true; /* not from a pipe, or not to this file system */
		return 0;
	}
	if (n < 0)
		return cannot_store(in, errno);
	if (!n)
		return stream_cut(in);
	in->n->bytes += (uint64_t)n;
	return (int)n;
}

static int in_data(struct in *in, const struct stream_head *h)
{
	size_t left = (size_t)h->len;
	int ret = check_segment(in, h);

	if (ret)
		return ret;
	if (h->len % in->subbuf)
		return stream_bad(in, "data are not whole sub-buffers");
	ret = in_room(in, h->len);
	if (!ret && was_removed(in, h->segment))
		return get_all(in, h->len, NULL);
	ret = ret ?: check_limits(in, h->len, 0);
	ret = ret ?: open_data(in, h);
	while (left && ret >= 0) {
		ret = store_some(in, in->cpu[h->cpu].fd, left);
		left -= ret > 0 ? (size_t)ret : 0;
	}
	if (ret < 0)
		return ret;
	in->cpu[h->cpu].end += h->len;
	in->n->data += h->len;
	return 0;
}

static int in_tail(struct in *in, const struct stream_head *h)
{
	const size_t head_len = sizeof(uint64_t) + in->long_size;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint8_t head[TAIL_HEAD_MAX];
	const struct in_cpu *c;
	uint32_t from = 0;
	ssize_t n;
	off_t at;
	int ret = check_segment(in, h);

	if (ret)
		return ret;
	if (was_removed(in, h->segment))
		return get_all(in, h->len, NULL);
	c = &in->cpu[h->cpu];
	if (!c->open || c->segment != h->segment || c->end < in->subbuf)
		return stream_bad(in, "more of a sub-buffer that never began");
	if (h->len <= head_len + sizeof(from))
		return stream_bad(in, "more of a sub-buffer, but empty");
	ret = stream_get(in, head, head_len);
	ret = ret ?: stream_get(in, &from, sizeof(from));
	if (!ret && (from < head_len || from > in->subbuf ||
		     h->len - head_len - sizeof(from) > in->subbuf - from))
		return stream_bad(in, "more of a sub-buffer than fits into it");
	ret = ret ?: get_all(in, h->len - head_len - sizeof(from), &b);
	if (ret)
		return ret;
	/* First the new data, then the length at the front: if killed between, it is intact. */
	errno = 0;
	at = (off_t)(c->end - in->subbuf);
	n = pwrite(c->fd, b.s, b.len, at + (off_t)from);
	if (n == (ssize_t)b.len) {
		n = pwrite(c->fd, head, head_len, at);
		if (n == (ssize_t)head_len)
			return 0;
	}
	return cannot_store(in, errno ?: EIO);
}

static int in_segment(struct in *in, const struct stream_head *h)
{
	uint32_t old;
	int ret;

	if (h->segment != in->segment + 1 || h->segment >= CAP_MAX_SEGMENTS)
		return stream_bad(in, "a segment begins that is not the next one");
	ret = in_room(in, FOLDER_SIZE);
	ret = ret ?: check_limits(in, FOLDER_SIZE, FOLDER_SIZE);
	if (ret)
		return ret;
	ret = capw_segment_make(in->w, h->segment);
	if (ret)
		return cannot_store(in, ret);
	in->segment = h->segment;
	if (!in->limits->keep)
		return ret;
	ret = ret ?: capw_kept_add(&in->kept, in->segment, in->by);
	while (!ret && capw_kept_over(&in->kept, in->limits->keep, in->limits->keep, &old))
		ret = segment_drop(in, old);
	return ret;
}

/* ---- frames ---- */

static int in_end(struct in *in, const struct stream_head *h)
{
	const uint64_t before = in->n->bytes - STREAM_HEAD_SIZE;
	uint64_t total;
	int ret;

	if (h->len != sizeof(total))
		return stream_bad(in, "the last frame has the wrong length");
	ret = stream_get(in, &total, sizeof(total));
	if (!ret && total != before)
		return stream_bad(in, "the last frame gives another number of bytes than came");
	in->n->ended = !ret;
	return ret;
}

static const struct {
	int (*take)(struct in *in, const struct stream_head *h);
	bool empty; /* it may, and must, be empty */
} frames[] = {
	[STREAM_META] = { in_meta, false }, [STREAM_FORMATS] = { in_formats, false },
	[STREAM_FILE] = { in_file, false }, [STREAM_DATA] = { in_data, false },
	[STREAM_TAIL] = { in_tail, false }, [STREAM_SEGMENT] = { in_segment, true },
	[STREAM_END] = { in_end, false },
};

static int take_frame(struct in *in)
{
	struct stream_head h;
	int ret = stream_get(in, &h, sizeof(h));

	if (ret)
		return ret;
	if (h.mark != STREAM_MARK || h.zero || h.len > STREAM_MAX_PAYLOAD)
		return stream_bad(in, "not a frame header");
	in->n->frames++;
	if (h.type == STREAM_ALIVE && h.len)
		return stream_bad(in, "a frame that must be empty has content");
	if (h.type >= ARRAY_SIZE(frames) || !frames[h.type].take)
		return get_all(in, h.len, NULL); /* of a later version; or that alone is the news */
	if (frames[h.type].empty != !h.len)
		return stream_bad(in, frames[h.type].empty
					      ? "a frame that must be empty has content"
					      : "a frame that must have content is empty");
	return frames[h.type].take(in, &h);
}

static int take_hello(struct in *in)
{
	char line[STREAM_HELLO_MAX] = "";
	uint64_t version = 0, capture = 0;
	struct meta_rec rec;
	size_t n = 0;
	int ret;

	while (!(ret = stream_get(in, line + n, 1)) && line[n] != '\n' && n + 2 < sizeof(line))
		n++;
	if (ret == -ENODATA && !in->n->bytes)
		return err_set(in->err, ENODATA, "nothing arrived: the sender did not start");
	if (ret)
		return ret;
	line[n] = '\0';
	if (!memcmp(line, "\x1f\x8b", 2))
		return err_set(in->err, EBADMSG,
			       "packed by gzip: zcat FILE | kvmft receive");
	str_printable(line);
	if (!meta_parse(line, &rec) || strcmp(rec.name, "kvmft-stream") ||
	    !meta_get_u64(&rec, "version", &version) || !meta_get_u64(&rec, "capture", &capture))
		return err_set(in->err, EBADMSG,
			       "this is not a stream of kvmft record -o -: it begins with '%.60s'",
			       line);
	if (version > STREAM_VERSION || capture > CAPTURE_VERSION)
		return err_lack(in->err, EPROTONOSUPPORT,
				"the stream has version %" PRIu64
				" and a capture of version %" PRIu64
				", this kvmft takes up to %d and %d: a newer kvmft is needed",
				version, capture, STREAM_VERSION, CAPTURE_VERSION);
	return 0;
}

int stream_receive(int fd, struct capw *w, const struct stream_limits *limits,
		   bool (*news)(void *ctx, const struct stream_news *n), void *ctx,
		   struct stream_news *n, struct kvmft_err *err)
{
	struct in *in = calloc(1, sizeof(*in));
	int ret;

	*n = (struct stream_news){ 0 };
	if (!in)
		return err_set(err, ENOMEM, "out of memory");
	in->fd = fd;
	in->w = w;
	in->limits = limits;
	in->news = news;
	in->ctx = ctx;
	in->n = n;
	in->err = err;
	in->long_size = 8;
	in->told_ns = in->heard_ns = util_now_ns();
	ret = take_hello(in);
	while (!ret && !n->ended)
		ret = take_frame(in);
	for (size_t i = 0; i < CAPTURE_MAX_CPUS; i++)
		if (in->cpu[i].open)
			close(in->cpu[i].fd);
	if (ret == -ENOMEM && !err->text[0])
		ret = err_set(err, ENOMEM, "out of memory");
	capw_kept_free(&in->kept);
	free(in);
	return ret;
}
