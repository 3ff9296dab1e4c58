/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unpack.c: compressed pieces of a trace.dat v7, both ways. zstd only, and only when built with it.
 */
#include "reader.h"

#ifdef HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>

bool cap_can_unpack(void)
{
	return true;
}

int cap_unpack(const void *packed, size_t n, void *plain, size_t len)
{
	size_t got = ZSTD_decompress(plain, len, packed, n);

	if (ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
		return -ENOMEM;
	return ZSTD_isError(got) || got != len ? -EBADMSG : 0;
}

/*
 * The chunk being unpacked, and how far. A chunk may be much larger than what is wanted of it, and
 * there is one for each CPU: so only pieces are in memory, and what is before a piece is unpacked
 * again unless the previous piece ended there.
 */
#define PACKED_PIECE (256u << 10) /* of most chunks all: they are unpacked in one step */
#define WINDOW_LOG   24 /* what a frame may ask for: no chunk that is read is larger */

struct cap_unpacker {
	ZSTD_DCtx *ctx;
	uint64_t chunk;	     /* its place in the file; UINT64_MAX: none */
	uint64_t read, done; /* bytes of it, packed and plain */
	ZSTD_inBuffer in;
	uint8_t piece[PACKED_PIECE];
};

static int unpacker_new(struct cap_unpacker **out)
{
	struct cap_unpacker *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->chunk = UINT64_MAX;
	u->ctx = ZSTD_createDCtx();
	if (!u->ctx ||
	    ZSTD_isError(ZSTD_DCtx_setParameter(u->ctx, ZSTD_d_windowLogMax, WINDOW_LOG))) {
		cap_unpacker_free(u);
		return -ENOMEM;
	}
	*out = u;
	return 0;
}

void cap_unpacker_free(struct cap_unpacker *u)
{
	if (u)
		ZSTD_freeDCtx(u->ctx);
	free(u);
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
	u->in = (ZSTD_inBuffer){ .src = u->piece, .size = n };
	return 0;
}

static int unpack_begin(struct cap_unpacker *u, const struct cap_extent *e)
{
	unsigned long long len;
	int ret;

	ZSTD_DCtx_reset(u->ctx, ZSTD_reset_session_only);
	u->read = u->done = 0;
	ret = unpack_read(u, e);
	if (ret)
		return ret;
	len = ZSTD_getFrameContentSize(u->piece, u->in.size);
	if (len != ZSTD_CONTENTSIZE_UNKNOWN && len != e->len)
		return -EBADMSG;
	u->chunk = e->off;
	return 0;
}

/*
 * libzstd unpacks into a window of its own, and copies. ZSTD_decompressDCtx() does without, and
 * takes longer where another CPU has read the buffer: its lines are fetched from there one by one.
 */
static int unpack_next(struct cap_unpacker *u, const struct cap_extent *e, void *buf, size_t len)
{
	ZSTD_outBuffer out = { .dst = buf, .size = len };
	int ret = 0;

	while (out.pos < len && !ret) {
		size_t before = out.pos, left = ZSTD_decompressStream(u->ctx, &out, &u->in);

		if (ZSTD_isError(left) || (!left && out.pos < len))
			ret = -EBADMSG;
		else if (out.pos == before && u->in.pos == u->in.size)
			ret = unpack_read(u, e);
	}
	u->done += len;
	return ret;
}

int cap_unpack_at(struct cap_unpacker **slot, const struct cap_extent *e, uint64_t off, void *buf,
		  size_t len)
{
	int ret = *slot ? 0 : unpacker_new(slot);
	struct cap_unpacker *u = *slot;

	if (!ret && (u->chunk != e->off || off < u->done))
		ret = unpack_begin(u, e);
	while (!ret && u->done < off)
		ret = unpack_next(u, e, buf, (size_t)MIN((uint64_t)len, off - u->done));
	ret = ret ?: unpack_next(u, e, buf, len);
	if (ret && u)
		u->chunk = UINT64_MAX;
	return ret;
}

size_t cap_pack_bound(size_t n)
{
	return ZSTD_compressBound(n);
}

ssize_t cap_pack(const void *plain, size_t n, void *packed, size_t room)
{
	size_t got = ZSTD_compress(packed, room, plain, n, ZSTD_CLEVEL_DEFAULT);

	return ZSTD_isError(got) ? -ENOMEM : (ssize_t)got;
}
#else
bool cap_can_unpack(void)
{
	return false;
}

int cap_unpack(const void *packed __unused_arg, size_t n __unused_arg, void *plain __unused_arg,
	       size_t len __unused_arg)
{
	return -EOPNOTSUPP;
}

void cap_unpacker_free(struct cap_unpacker *u __unused_arg)
{
}

int cap_unpack_at(struct cap_unpacker **slot __unused_arg, const struct cap_extent *e __unused_arg,
		  uint64_t off __unused_arg, void *buf __unused_arg, size_t len __unused_arg)
{
	return -EOPNOTSUPP;
}

size_t cap_pack_bound(size_t n)
{
	return n;
}

ssize_t cap_pack(const void *plain __unused_arg, size_t n __unused_arg, void *packed __unused_arg,
		 size_t room __unused_arg)
{
	return -EOPNOTSUPP;
}
#endif
