/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unpack.c: compressed pieces of a trace.dat v7. zstd only, and only when built with it.
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
#endif
