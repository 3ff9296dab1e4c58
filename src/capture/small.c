/* SPDX-License-Identifier: GPL-2.0-or-later */
/* small.c: `make SMALL=1` uses this file in place of tracetext_*.c: it reads no traces as text. */
#include "reader.h"

int cap_text_read(struct capture *c __unused_arg, int fd __unused_arg,
		  struct kvmft_err *err __unused_arg)
{
	return -ENOMSG;
}
