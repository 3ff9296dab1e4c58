/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * export_db.h: `kvmft export --to sqlite`.
 */
#ifndef KVMFT_CMD_EXPORT_DB_H
#define KVMFT_CMD_EXPORT_DB_H

#include "kvmft/export.h"

/*
 * All walks that the tables need, over p's time line, which was started; told() is called after the
 * first one, because the others forget what was counted. 0; 1: something has no place in the
 * database, which was reported; or -errno.
 */
int export_db(struct pairing *p, const struct export_opts *o,
	      int (*told)(void *ctx, struct kvmft_err *err), void *ctx, struct kvmft_err *err);

#endif
