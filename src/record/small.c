/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * small.c: `make SMALL=1` uses this file in place of qemu.c, probes.c and qemu/switch.c: --qemu and
 * --sdt are a fifth of the whole, and refused here.
 */
#include "record.h"

static int refuse_qemu(struct record *r)
{
	if (!r->c->qemu.n && !r->c->monitors.n)
		return 0;
	return err_lack(r->err, ENOTSUP, "this small build has no --qemu: use the whole kvmft");
}

static int refuse_probes(struct record *r)
{
	bool net_id = false;

	for (size_t i = 0; i < r->c->events.n; i++)
		net_id |= !strcmp(r->c->events.v[i], "net-id");
	if (!r->c->sdt.n && !net_id && !r->c->guest_processes)
		return 0;
	return err_lack(r->err, ENOTSUP, "this small build has no %s: use the whole kvmft",
			net_id ? "-e net-id" : r->c->sdt.n ? "--sdt" : "--guest-processes");
}

void record_cost_note(const struct record *r __unused_arg)
{
}

const struct record_extra record_qemu = { .check = refuse_qemu };
const struct record_extra record_probes = { .check = refuse_probes };
