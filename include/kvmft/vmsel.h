/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vmsel.h: how the user names a VM, live or in a capture: SEL in the manual. A UUID, a name, a PID,
 * PID-FD as in debugfs; and as in listings "name=NAME", "uuid=UUID", "pid=N", "pid:N" and
 * "tids:N,M,K-L", the threads that run its vCPUs.
 */
#pragma once

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

/*
 * The vCPU whose thread has that name, by whichever VMM names its threads so; NULL: none. The names
 * are free text, are missing in QEMU without debug-threads=on, and are compared in full ("CPU 1/KVM"
 * is not "CPU 10/KVM").
 */
struct vmsel_comm {
	const char *before, *after;
	/*
	 * The number counts the VMM's CPUs; the vcpu_id (APIC id) can have gaps that this count
	 * lacks, as with 6 cores per socket.
	 */
	bool is_index;
};

const struct vmsel_comm *vmsel_vcpu(const char *comm, uint32_t *number);
