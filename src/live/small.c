/* SPDX-License-Identifier: GPL-2.0-or-later */
/* small.c: of exits_steal.c and what it uses, in a build with SMALL=1: --steal is refused. */
#include "exits.h"

int exits_steal_begin(struct exits_run *x)
{
	return err_lack(x->err, ENOTSUP, "this small build has no --steal: use the whole kvmft");
}

void exits_steal_take(struct exits_run *x __unused_arg, const struct live_item *i __unused_arg)
{
}

uint64_t exits_steal_now(const struct exits_run *x __unused_arg)
{
	return 0;
}

void exits_steal_limits(struct exits_run *x __unused_arg)
{
}

void exits_steal_end(struct exits_run *x __unused_arg)
{
}

int exits_steal_look(struct exits_run *x __unused_arg)
{
	return 0;
}

void steal_read(struct steal *s __unused_arg, uint64_t t __unused_arg)
{
}

void steal_interval(struct steal *s __unused_arg)
{
}

int steal_print(enum exits_format f __unused_arg, const struct exits_page *p __unused_arg,
		const struct steal *s __unused_arg, struct sbuf *b __unused_arg,
		exits_flush flush __unused_arg, void *ctx __unused_arg)
{
	return -ENOTSUP;
}
