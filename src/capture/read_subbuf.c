/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * read_subbuf.c: sub-buffers by number, whatever files they are in.
 *
 * Data files of a capture directory are opened when they are read. A caller may keep the last one
 * open between reads; the number of CPUs and segments is not limited by that of descriptors.
 */
#include "reader.h"

#include <limits.h>

/* The extent that holds sub-buffer idx, whose offset inside it goes to *off; NULL past the end. */
static const struct cap_extent *extent_of(const struct capture *c, const struct cap_stream *s,
					  uint64_t idx, uint64_t *off)
{
	const struct cap_extent *e;

	if (idx >= s->nsub)
		return NULL;
	e = &s->ext[COUNT_BEFORE(i, s->next, s->ext[i].first <= idx) - 1];
	*off = (idx - e->first) * c->subbuf_size;
	return e;
}

void capture_skip_text(const struct capture *c, bool skip)
{
	cap_priv(c)->skip_text = skip;
}

static int read_exact(int fd, void *buf, size_t len, uint64_t off)
{
	ssize_t n = full_pread(fd, buf, len, off);

	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -EIO; /* the file shrank while we read */
}

/*
 * Reads exactly len bytes at off inside an extent; -EBADMSG: they were compressed, and are damaged.
 */
static int read_extent(const struct capture *c, const struct cap_stream *s,
		       const struct cap_extent *e, uint64_t off, void *buf, size_t len,
		       struct cap_file *file)
{
	struct cap_file own = { -1, 0 };
	uint64_t size;
	char name[64];
	int ret;

	if (cap_priv(c)->maker.make) {
		const struct cap_maker *m = &cap_priv(c)->maker;
		const uint8_t *made;
		size_t n;

		/* Sub-buffers that are made. */
		ret = 0;
		for (; len && !ret; off += n, buf += n, len -= n) {
			size_t in = off % c->subbuf_size;

			n = MIN(len, c->subbuf_size - in);
			ret = m->make(m->arg, e->off, off / c->subbuf_size, &made);
			if (!ret)
				memcpy(buf, made + in, n);
		}
		return ret;
	}
	if (e->packed)
		return cap_unpack_at(&cap_priv(c)->unpacker, cap_priv(c)->packing, e, off, buf,
				     len);
	if (e->fd >= 0)
		return read_exact(e->fd, buf, len, e->off + off);
	file = file ?: &own;
	if (file->fd < 0 || file->segment != e->segment) {
		capture_file_close(file);
		cap_data_name(name, sizeof(name), e->segment, s->cpu);
		file->fd = cap_open_file(cap_priv(c)->dir.fd, name, &size);
		file->segment = e->segment;
	}
	ret = file->fd < 0 ? file->fd : read_exact(file->fd, buf, len, e->off + off);
	capture_file_close(&own);
	return ret;
}

void capture_file_close(struct cap_file *file)
{
	util_close_fd(&file->fd);
	file->fd = -1;
}

ssize_t capture_read_subbufs(const struct capture *c, const struct cap_stream *s, uint64_t idx,
			     uint64_t n, void *buf, struct cap_file *file)
{
	uint64_t off = 0;
	int ret;
	const struct cap_extent *e = extent_of(c, s, idx, &off);

	if (!e || !n)
		return 0;
	n = MIN(n, (e->len - off) / c->subbuf_size);
	n = MIN(n, (uint64_t)(SSIZE_MAX / CAPTURE_MAX_SUBBUF));
	ret = read_extent(c, s, e, off, buf, (size_t)(n * c->subbuf_size), file);
	if (ret == -EBADMSG) { /* not valid sub-buffers: counted as damage by their reader */
		memset(buf, 0xff, (size_t)(n * c->subbuf_size));
		ret = 0;
	}
	return ret ?: (ssize_t)n;
}

int capture_read_part(const struct capture *c, const struct cap_stream *s, uint64_t idx,
		      uint32_t at, void *buf, size_t n, struct cap_file *file)
{
	uint64_t off = 0;
	const struct cap_extent *e = extent_of(c, s, idx, &off);

	if (!e)
		return -ENODATA;
	if (at > c->subbuf_size || n > c->subbuf_size - at)
		return -EINVAL;
	if (!n)
		return 0;
	return read_extent(c, s, e, off + at, buf, n, file);
}
