/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stream_head.c: the heads of a stream's frames, both ways. */
#include "kvmft/stream.h"

#include <endian.h>

void stream_head_put(const struct stream_head *h, uint8_t to[STREAM_HEAD_SIZE])
{
	const struct stream_head le = {
		.mark = htole32(h->mark),
		.type = htole16(h->type),
		.zero = 0,
		.cpu = htole32(h->cpu),
		.segment = htole32(h->segment),
		.len = htole64(h->len),
	};

	_Static_assert(sizeof(le) == STREAM_HEAD_SIZE, "no holes in a head");
	memcpy(to, &le, sizeof(le));
}

int stream_head_get(const uint8_t from[STREAM_HEAD_SIZE], struct stream_head *h)
{
	memcpy(h, from, sizeof(*h));
	h->mark = le32toh(h->mark);
	h->type = le16toh(h->type);
	h->zero = le16toh(h->zero);
	h->cpu = le32toh(h->cpu);
	h->segment = le32toh(h->segment);
	h->len = le64toh(h->len);
	return h->mark == STREAM_MARK && !h->zero && h->len <= STREAM_MAX_PAYLOAD ? 0 : -EBADMSG;
}
