/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * small.c: `make SMALL=1` uses this file in place of qemu.c, qemu_keep.c, sdt.c and qemu/left.c:
 * --qemu and --sdt are a fifth of the whole, and refused here.
 */
#include "record.h"

#include <errno.h>

static int refuse_qemu(const struct record_config *o, struct kvmft_err *err)
{
	if (!o->qemu.n && !o->qmp.n && !o->hmp.n)
		return 0;
	return err_lack(err, ENOTSUP, "this small build has no --qemu: use the whole kvmft");
}

static int refuse_sdt(const struct record_config *o, struct kvmft_err *err)
{
	return o->sdt.n ? err_lack(err, ENOTSUP,
				   "this small build has no --sdt: use the whole kvmft")
			: 0;
}

const struct record_extra record_qemu = { .check = refuse_qemu };
const struct record_extra record_sdt = { .check = refuse_sdt };
