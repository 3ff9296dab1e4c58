/* SPDX-License-Identifier: GPL-2.0-or-later */
/* path.h: what threads of a VM waited for. See path.c. */
#pragma once

#include "priv.h"

enum path_what {
	PATH_CPU,    /* it wanted one and had none */
	PATH_FAULT,  /* memory of its own that was not there */
	PATH_LOCK,   /* of the program */
	PATH_DISK,   /* a call that asked a disk */
	PATH_OTHERS, /* none of these, and no thread of the VM ended it */
	PATH_WHATS
};

struct path_told {
	uint64_t waited[PATH_WHATS]; /* cycles; the rest they worked */
	uint32_t faults;	     /* of theirs, each told once */
};

void lat_path_new(struct lat *l);
/* What it waited for, from..to, until thread tid was at `to`; false: not all is known. */
bool lat_path_waits(const struct lat *l, int32_t tid, uint64_t from, uint64_t to,
		    struct path_told *told);
void lat_path_event(struct lat *l, const struct lat_in *in);
void lat_path_forget(struct lat *l); /* events were lost */
void lat_path_free(struct lat *l);
