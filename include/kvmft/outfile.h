/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * outfile.h: the files of a reader's -o.
 *
 * They are opened before the first byte of a capture is read, and get their names from a process
 * that never reads one, so a reader need not be allowed to create, remove or rename anything. An
 * existing file of that name stays until the new one is complete, or for good if the reader fails
 * or is killed.
 */
#pragma once

#include "kvmft/timeline.h"

struct outfile;

/* The path of -o, NULL for standard output: so is "-", which is hard to remove as a file. */
static inline const char *outfile_arg(const char *path)
{
	return path && strcmp(path, "-") ? path : NULL;
}

/*
 * Opens n files: path and others beside it; force: existing files may be replaced. Without a path
 * there is nothing to do. 0 or -errno with err set; *out is to be closed in any case.
 */
int outfile_open(const char *path, bool force, size_t n, struct outfile **out,
		 struct kvmft_err *err) __must_check;
const char *outfile_path(const struct outfile *o);
/* File i, for writing and reading; borrowed. */
int outfile_fd(const struct outfile *o, size_t i);
/*
 * Whether a file may have this name: that of -o (name NULL), or the one for a guest of that name
 * beside it: "pair.dat" and "web 1" make "pair-web_1.dat". Refused: an existing file, without
 * --force, and anything that the time line was made of. extra: one more file that was read, NULL =
 * none. Without a file (o is NULL) all is well.
 */
int outfile_check(const struct outfile *o, const char *name, const struct timeline *t,
		  const char *extra, struct kvmft_err *err) __must_check;
/* File i is complete: it gets that name. 0 or -errno with err set; NULL is fine. */
int outfile_commit(struct outfile *o, size_t i, const char *name,
		   struct kvmft_err *err) __must_check;
/* Text, the caller's: the path of the file of that name. NULL when out of memory. */
char *outfile_name(const struct outfile *o, const char *name);
/* Removes what was not completed; NULL is fine. */
void outfile_close(struct outfile *o);
