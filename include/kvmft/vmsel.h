/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vmsel.h: how the user names a VM, live or in a capture: SEL in the manual. A UUID, a name, a PID,
 * PID-FD as in debugfs; and as in listings "name=NAME", "uuid=UUID", "pid=N", "pid:N" and
 * "tids:N,M,K-L", the threads that run its vCPUs.
 */
#ifndef KVMFT_VMSEL_H
#define KVMFT_VMSEL_H

#include "kvmft/util.h"

/* What follows "name=" or "uuid="; all of it if there is no such prefix. */
const char *vmsel_name(const char *sel);
/* Is it a PID, with or without "pid:"? */
bool vmsel_pid(const char *sel, uint32_t *pid);
/*
 * The threads of "tids:LIST": (*tid)[*n], to be freed. 0; -ENOENT: not such a list, -EINVAL: not
 * thread ids, or more than 65,536, -ENOMEM.
 */
int vmsel_tids(const char *sel, int32_t **tid, size_t *n) __must_check;

#endif
