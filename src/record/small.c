/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * small.c: `make SMALL=1` takes this file in place of qemu.c, qemu_keep.c, sdt.c and qemu/left.c:
 * --qemu and
 * --sdt are a fifth of the whole, and refused here.
 */
#include "record.h"
#include "kvmft/qemu_switch.h"

#include <errno.h>

int record_qemu_check(const struct record_config *o, struct kvmft_err *err)
{
	if (o->qemu.n || o->qmp.n || o->hmp.n)
		return err_lack(err, ENOTSUP,
				"this small build has no --qemu: use the whole kvmft");
	if (o->sdt.n)
		return err_lack(err, ENOTSUP, "this small build has no --sdt: use the whole kvmft");
	return 0;
}

/* What a whole kvmft has left in a QEMU takes a whole one. */
void record_qemu_leftovers(note_fn *note __unused_arg)
{
}

int qemu_left_sweep(bool dry_run __unused_arg, uint64_t timeout_ns __unused_arg,
		    struct sbuf *out __unused_arg, struct kvmft_err *err __unused_arg)
{
	return 0;
}

int record_qemu_start(struct record *r __unused_arg)
{
	return 0;
}

int record_qemu_facts(struct record *r __unused_arg)
{
	return 0;
}

int record_qemu_on(struct record *r __unused_arg)
{
	return 0;
}

int record_qemu_end(struct record *r __unused_arg)
{
	return 0;
}

int record_sdt_prepare(struct record *r __unused_arg)
{
	return 0;
}

int record_sdt_name(const struct record *r __unused_arg, const struct kevent *e, const char **sys,
		    const char **name, char **format __unused_arg)
{
	*sys = e->sys;
	*name = e->name;
	return 0;
}

int record_sdt_facts(struct record *r __unused_arg)
{
	return 0;
}

void record_sdt_free(struct record *r __unused_arg)
{
}
