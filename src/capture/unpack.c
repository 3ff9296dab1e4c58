/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unpack.c: compressed pieces of a trace.dat v7, perf.data and text: zstd and zlib, each where
 * it is built in.
 */
#include "reader.h"

#define MAX_UNPACKED ((uint64_t)1 << 30) /* bytes of a file, which is kept in memory */
/* Of a stream: events pack to a tenth, and what packs far better is no recording. */
#define MAX_PLAIN(packed) ((64ull << 20) + 250 * (packed))

/*
 * The chunk being unpacked, and how far. A chunk may be much larger than what is wanted of it, and
 * there is one for each CPU: so only pieces are in memory, and what is before a piece is unpacked
 * again unless the previous piece ended there.
 */
#define PACKED_PIECE (256u << 10) /* of most chunks all: they are unpacked in one step */

struct cap_unpacker {
	const struct cap_packing *how;
	void *state;
	uint64_t chunk;	     /* its place in the file; UINT64_MAX: none */
	uint64_t read, done; /* bytes of it, packed and plain */
	const uint8_t *in;
	size_t left; /* bytes at in */
	bool full;   /* the last step had no room for more */
	uint8_t piece[PACKED_PIECE];
};

struct cap_packing {
	const char *name, *library;
	void *(*open)(void); /* NULL: not built in */
	void (*close)(void *state);
	/* At the first bytes of a chunk of len plain bytes, 0: unknown. -EBADMSG */
	int (*begin)(struct cap_unpacker *u, uint64_t len);
	/* From in to buf, as far as either goes: bytes; *end: no more follow. -EBADMSG, -ENOMEM */
	ssize_t (*step)(struct cap_unpacker *u, void *buf, size_t len, bool *end);
};

#ifdef HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>

#define WINDOW_LOG 24 /* what a frame may ask for: no chunk that is read is larger */

static void zstd_close(void *state)
{
	ZSTD_freeDCtx(state);
}

static void *zstd_open(void)
{
	ZSTD_DCtx *ctx = ZSTD_createDCtx();

	if (ctx && !ZSTD_isError(ZSTD_DCtx_setParameter(ctx, ZSTD_d_windowLogMax, WINDOW_LOG)))
		return ctx;
	ZSTD_freeDCtx(ctx);
	return NULL;
}

static int zstd_begin(struct cap_unpacker *u, uint64_t len)
{
	unsigned long long is = ZSTD_getFrameContentSize(u->in, u->left);

	ZSTD_DCtx_reset(u->state, ZSTD_reset_session_only);
	return len && is != ZSTD_CONTENTSIZE_UNKNOWN && is != len ? -EBADMSG : 0;
}

/*
 * libzstd unpacks into a window of its own, and copies. ZSTD_decompressDCtx() does without, and
 * takes longer where another CPU has read the buffer: its lines are fetched from there one by one.
 */
static ssize_t zstd_step(struct cap_unpacker *u, void *buf, size_t len, bool *end)
{
	ZSTD_outBuffer out = { .dst = buf, .size = len };
	ZSTD_inBuffer in = { .src = u->in, .size = u->left };
	size_t left = ZSTD_decompressStream(u->state, &out, &in);

	if (ZSTD_isError(left))
		return ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation ? -ENOMEM : -EBADMSG;
	u->in += in.pos;
	u->left -= in.pos;
	*end = !left;
	return (ssize_t)out.pos;
}
#else
#define zstd_open  NULL
#define zstd_close NULL
#define zstd_begin NULL
#define zstd_step  NULL
#endif

#ifdef HAVE_ZLIB
#include <zlib.h>

static void zlib_close(void *state)
{
	if (state)
		inflateEnd(state);
	free(state);
}

static void *zlib_open(void)
{
	z_stream *z = calloc(1, sizeof(*z));

	if (z && inflateInit2(z, 15 + 32 /* zlib or gzip */) == Z_OK)
		return z;
	free(z);
	return NULL;
}

static int zlib_begin(struct cap_unpacker *u, uint64_t len __unused_arg)
{
	return inflateReset(u->state) == Z_OK ? 0 : -EBADMSG;
}

static ssize_t zlib_step(struct cap_unpacker *u, void *buf, size_t len, bool *end)
{
	z_stream *z = u->state;
	int ret;

	z->next_in = (z_const Bytef *)u->in;
	z->avail_in = (uInt)u->left;
	z->next_out = buf;
	z->avail_out = (uInt)len;
	ret = inflate(z, Z_SYNC_FLUSH);
	if (ret != Z_OK && ret != Z_STREAM_END && ret != Z_BUF_ERROR)
		return ret == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
	u->in = z->next_in;
	u->left = z->avail_in;
	*end = ret == Z_STREAM_END;
	return (ssize_t)(len - z->avail_out);
}
#else
#define zlib_open  NULL
#define zlib_close NULL
#define zlib_begin NULL
#define zlib_step  NULL
#endif

static const struct cap_packing packing[] = {
	{ "zstd", "libzstd", zstd_open, zstd_close, zstd_begin, zstd_step },
	{ "zlib", "zlib", zlib_open, zlib_close, zlib_begin, zlib_step },
};

const struct cap_packing *cap_packing(const char *name, struct kvmft_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(packing); i++) {
		if (strcmp(name, packing[i].name))
			continue;
		if (packing[i].open)
			return &packing[i];
		err_lack(err, EOPNOTSUPP,
			 "it is compressed with %s, and this kvmft was built without %s", name,
			 packing[i].library);
		return NULL;
	}
	err_set(err, EOPNOTSUPP, "trace.dat is compressed with %s: kvmft reads zstd and zlib",
		name);
	return NULL;
}

static struct cap_unpacker *unpacker_new(const struct cap_packing *how)
{
	struct cap_unpacker *u = xcalloc(1, sizeof(*u));

	u->how = how;
	u->chunk = UINT64_MAX;
	u->state = xmem(how->open());
	return u;
}

void cap_unpacker_free(struct cap_unpacker *u)
{
	if (u)
		u->how->close(u->state);
	free(u);
}

int cap_unpack(const struct cap_packing *how, const void *packed, size_t n, void *plain, size_t len)
{
	struct cap_unpacker *u = unpacker_new(how);
	bool end = false;
	size_t done = 0;
	uint8_t more;
	int ret;

	u->in = packed;
	u->left = n;
	ret = how->begin(u, len);
	while (!ret && !end) {
		/* When all is there, one byte of room shows whether it was. */
		size_t room = len - done;
		ssize_t got = how->step(u, room ? (uint8_t *)plain + done : &more, room ?: 1, &end);

		if (got < 0)
			ret = (int)got;
		else if ((size_t)got > room || (!got && !end))
			ret = -EBADMSG;
		else
			done += (size_t)got;
	}
	cap_unpacker_free(u);
	return ret ?: done == len ? 0 : -EBADMSG;
}

/* The next piece of the packed bytes. */
static int unpack_read(struct cap_unpacker *u, const struct cap_extent *e)
{
	size_t n = (size_t)MIN((uint64_t)sizeof(u->piece), e->packed - u->read);
	ssize_t got;

	if (!n)
		return -EBADMSG;
	got = full_pread(e->fd, u->piece, n, e->off + u->read);
	if (got < 0)
		return (int)got;
	if ((size_t)got != n)
		return -EIO; /* the file shrank while we read */
	u->read += n;
	u->in = u->piece;
	u->left = n;
	return 0;
}

static int unpack_next(struct cap_unpacker *u, const struct cap_extent *e, void *buf, size_t len)
{
	size_t done = 0;
	bool end = false;
	int ret = 0;

	while (done < len && !ret) {
		ssize_t got = u->how->step(u, (uint8_t *)buf + done, len - done, &end);

		if (got < 0)
			return (int)got;
		done += (size_t)got;
		if (end && done < len)
			ret = -EBADMSG;
		else if (!got && !u->left)
			ret = unpack_read(u, e);
		else if (!got)
			ret = -EBADMSG;
	}
	u->done += len;
	return ret;
}

int cap_unpack_at(struct cap_unpacker **slot, const struct cap_packing *how,
		  const struct cap_extent *e, uint64_t off, void *buf, size_t len)
{
	struct cap_unpacker *u = *slot = *slot ?: unpacker_new(how);
	int ret = 0;

	if (u->chunk != e->off || off < u->done) {
		u->read = u->done = 0;
		ret = unpack_read(u, e);
		ret = ret ?: u->how->begin(u, e->len);
		if (!ret)
			u->chunk = e->off;
	}
	while (!ret && u->done < off)
		ret = unpack_next(u, e, buf, (size_t)MIN((uint64_t)len, off - u->done));
	ret = ret ?: unpack_next(u, e, buf, len);
	if (ret)
		u->chunk = UINT64_MAX;
	return ret;
}

ssize_t cap_unpack_stream(struct cap_unpacker **slot, const char *name,
			  ssize_t (*more)(void *arg, void *buf, size_t n), void *arg, void *buf,
			  size_t len)
{
	const struct cap_packing *how = &packing[strcmp(name, packing[0].name) != 0];
	struct cap_unpacker *u;
	size_t done = 0;
	int ret = 0;

	if (!how->open)
		return -EOPNOTSUPP;
	u = *slot = *slot ?: unpacker_new(how);

	while (!ret && !done) {
		bool end = false;
		ssize_t got = u->left || u->full ? how->step(u, buf, len, &end) : 0;

		if (got < 0)
			return got;
		done = (size_t)got;
		u->done += done;
		if (u->done > MAX_PLAIN(u->read))
			return -EFBIG;
		u->full = done == len && !end;
		u->chunk = end ? UINT64_MAX : u->chunk;
		if (end) /* another one may follow */
			ret = how->begin(u, 0);
		if (end || done || u->left)
			continue;
		got = more(arg, u->piece, sizeof(u->piece));
		if (got <= 0)
			return got ?: u->chunk == UINT64_MAX ? 0 : -ENODATA;
		u->chunk = 0; /* inside of one */
		u->in = u->piece;
		u->left = (size_t)got;
		u->read += u->left;
	}
	return ret ?: (ssize_t)done;
}

static ssize_t read_packed(void *arg, void *buf, size_t n)
{
	struct cap_part *file = arg;
	ssize_t got = full_pread(file->fd, buf, n, file->at);

	file->at += (uint64_t)MAX(got, (ssize_t)0);
	return got;
}

int cap_unpack_file(int fd, bool (*is)(const void *head, size_t n), struct cap_part *out,
		    struct kvmft_err *err)
{
	static const char *const magic[] = { "\x28\xb5\x2f\xfd", "\x1f\x8b" }; /* of packing[] */
	struct cap_part file = { .fd = fd };
	struct cap_unpacker *u = NULL;
	char head[4] = "";
	size_t i = 0, cap = 0;
	ssize_t n = full_pread(fd, head, sizeof(head), 0);

	while (i < ARRAY_SIZE(magic) && memcmp(head, magic[i], strlen(magic[i])))
		i++;
	if (n < 0 || i == ARRAY_SIZE(magic))
		return MIN((int)n, 0) ?: -ENOMSG;
	while (n > 0 && out->size <= MAX_UNPACKED) {
		if (cap - out->size < PACKED_PIECE)
			out->mem = xmem(realloc(out->mem, cap = 2 * cap + PACKED_PIECE));
		n = cap_unpack_stream(&u, packing[i].name, read_packed, &file, out->mem + out->size,
				      PACKED_PIECE);
		if (!out->size && n > 0 && !is(out->mem, (size_t)n))
			n = -ENOMSG;
		out->size += (uint64_t)MAX(n, (ssize_t)0);
	}
	cap_unpacker_free(u);
	/* One that is cut ends there: whoever reads it says so. */
	out->cut = n < 0;
	if (out->size && (!n || n == -ENODATA || n == -EBADMSG))
		return 0;
	if (n > 0 || n == -EFBIG)
		return err_set(err, EFBIG, CAP_UNPACKS_MUCH);
	return !n || n == -ENOMSG || n == -EOPNOTSUPP || n == -EBADMSG || n == -ENODATA
		       ? -ENOMSG
		       : err_why(err, (int)n, "cannot unpack it");
}
