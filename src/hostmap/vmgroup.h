/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vmgroup.h: which vCPU threads of a host are one VM, where the capture has no list of VMs.
 */
#ifndef KVMFT_HOSTMAP_VMGROUP_H
#define KVMFT_HOSTMAP_VMGROUP_H

#include "kvmft/hostmap.h"

/*
 * Gives a VM to each thread of the map that has none yet; hostmap_vm.basis says what that rests on. One walk
 * over the capture. 0 or -errno.
 */
int vmgroup_make(struct hostmap *m) __must_check;

#endif
