/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata_unpack.c: the records of perf record -z, all in memory.
 *
 * What the rings held is one stream of zstd, in pieces: the bodies of records PD_COMPRESSED, and of
 * PD_COMPRESSED2 with a u64 size before. A record may begin in one piece and end in another; those
 * that are not packed may stand between them.
 */
#include "perfdata.h"

#define MAX_PLAIN ((size_t)1 << 30)

struct unpacking {
	struct perfdata *p;
	uint64_t at; /* in the file */
	uint8_t *plain;
	size_t len, cap, whole; /* whole: where the last record begins that is not all there */
};

/* n bytes behind all, or behind the last record that is all there. */
static int add_records(struct unpacking *u, size_t at, const void *b, size_t n)
{
	size_t size;

	if (n > MAX_PLAIN - u->len)
		return -EFBIG;
	if (u->len + n > u->cap) {
		size_t cap = MAX(2 * u->cap, u->len + n + PD_RECORD_MAX);
		uint8_t *grown = realloc(u->plain, cap);

		if (!grown)
			return -ENOMEM;
		u->plain = grown;
		u->cap = cap;
	}
	memmove(u->plain + at + n, u->plain + at, u->len - at);
	memcpy(u->plain + at, b, n);
	u->len += n;
	while (u->len - u->whole >= PD_RECORD_HEAD) {
		size = load_u16(u->plain + u->whole + 6);
		if (size < PD_RECORD_HEAD)
			return -EBADMSG;
		if (size > u->len - u->whole)
			break;
		u->whole += size;
	}
	return 0;
}

/* The next piece; what is before it is put where it belongs. */
static ssize_t next_piece(void *unpacking, void *buf, size_t room)
{
	static const uint8_t aux[16] = { PD_AUXTRACE, 0, 0, 0, 0, 0, sizeof(aux), 0 };
	struct unpacking *u = unpacking;
	struct pd_record r;
	uint64_t size;
	int ret;

	while ((ret = pd_record(u->p, u->at, u->p->end, PD_RECORD_MAX, &r)) > 0) {
		u->at += r.len;
		size = r.body.left;
		if (r.type == PD_COMPRESSED2 && (cur_u64(&r.body, &size) || size > r.body.left))
			return -EBADMSG;
		if (r.type == PD_COMPRESSED || r.type == PD_COMPRESSED2) {
			if (!size)
				continue; /* 0 would be the end */
			memcpy(buf, r.body.p, MIN((size_t)size, room));
			return (ssize_t)size;
		}
		if (r.type == PD_AUXTRACE) /* its data are not kept */
			ret = add_records(u, u->whole, aux, sizeof(aux));
		else if (r.len == r.more_at)
			ret = add_records(u, u->whole, r.body.p - PD_RECORD_HEAD, (size_t)r.len);
		if (ret < 0)
			return ret;
	}
	return ret;
}

int pd_unpack(struct perfdata *p, struct kvmft_err *err)
{
	struct unpacking u = { .p = p, .at = p->begin };
	struct cap_unpacker *unpacker = NULL;
	uint8_t piece[4096];
	ssize_t n;
	int ret = cap_packing("zstd", err) ? 0 : -EOPNOTSUPP;

	while (!ret) {
		n = cap_unpack_stream(&unpacker, "zstd", next_piece, &u, piece, sizeof(piece));
		if (n <= 0)
			ret = n ? (int)n : 1;
		else
			ret = add_records(&u, u.len, piece, (size_t)n);
	}
	cap_unpacker_free(unpacker);
	if (ret == -EBADMSG) {
		cap_note(p->c, "its packed records are damaged, or cut: what follows is missing");
		p->c->complete = false;
	}
	if (ret < 0 && ret != -ENODATA && ret != -EBADMSG) { /* perf does not end its stream */
		free(u.plain);
		return ret == -EFBIG ? err_set(err, EFBIG, "more than 1 GiB, unpacked") : ret;
	}
	p->plain = u.plain ?: malloc(1);
	p->begin = 0;
	p->end = u.len;
	return p->plain ? 0 : -ENOMEM;
}
