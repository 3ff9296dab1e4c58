/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * small.c: `make SMALL=1` uses this file in place of qemu.c, qemu_keep.c, sdt.c, net_id.c and
 * qemu/switch.c: --qemu and --sdt are a fifth of the whole, and refused here.
 */
#include "record.h"

static int refuse_qemu(const struct record_config *c, struct kvmft_err *err)
{
	if (!c->qemu.n && !c->qmp.n && !c->hmp.n)
		return 0;
	return err_lack(err, ENOTSUP, "this small build has no --qemu: use the whole kvmft");
}

static int refuse_sdt(const struct record_config *c, struct kvmft_err *err)
{
	return c->sdt.n ? err_lack(err, ENOTSUP,
				   "this small build has no --sdt: use the whole kvmft")
			: 0;
}

static int refuse_net_id(const struct record_config *c, struct kvmft_err *err)
{
	for (size_t i = 0; i < c->events.n; i++)
		if (!strcmp(c->events.v[i], "net-id"))
			return err_lack(err, ENOTSUP,
					"this small build has no -e net-id: use the whole kvmft");
	return 0;
}

const struct record_extra record_qemu = { .check = refuse_qemu };
const struct record_extra record_sdt = { .check = refuse_sdt };
const struct record_extra record_net_id = { .check = refuse_net_id };
