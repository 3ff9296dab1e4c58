/* SPDX-License-Identifier: GPL-2.0-or-later */
/* diff_tables.h: tables of others, for `kvmft diff`. */
#ifndef KVMFT_CMD_DIFF_TABLES_H
#define KVMFT_CMD_DIFF_TABLES_H

#include "sink.h"

/*
 * Compares the tables in two files, and prints at most top rows (0: all). -ENOMSG: neither is one,
 * without err set. *whole: cleared if rows are missing.
 */
int diff_tables(char **path, int format, size_t top, FILE *f, bool *whole,
		struct kvmft_err *err) __must_check;

#endif
