/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unpack.c: compressed pieces of a trace.dat v7, both ways. zstd only, and only when built with it.
 */
#include "reader.h"

#include <errno.h>

#ifdef HAVE_ZSTD
#include <zstd.h>

bool cap_can_unpack(void)
{
	return true;
}

int cap_unpack(const void *packed, size_t n, void *plain, size_t len)
{
	size_t got = ZSTD_decompress(plain, len, packed, n);

	return ZSTD_isError(got) || got != len ? -EBADMSG : 0;
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
