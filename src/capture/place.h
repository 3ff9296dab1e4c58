/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * place.h: where captures are put: directories that can be trusted, and making room in them.
 */
#ifndef KVMFT_CAPTURE_PLACE_H
#define KVMFT_CAPTURE_PLACE_H

#include "kvmft/util.h"

/* Splits PATH into parent and last step, both the caller's. -EINVAL: not a name. */
int cap_path_split(const char *path, char **parent, char **base) __must_check;
/* Is base (below the directory parent) a capture? By its meta file; links are not followed. */
bool cap_is_capture(int parent, const char *base);
/* ... and one whose recording ended by itself? */
bool cap_is_complete(int parent, const char *base);
/* What it takes on the disk, bytes; 0 when that cannot be told. */
uint64_t cap_disk_usage(int parent, const char *base);
/* Removes the capture base and nothing else. -EEXIST: it is something else. */
int cap_remove(int parent, const char *base, struct kvmft_err *err) __must_check;

#endif
