/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * priv.h: what the files of the map share.
 */
#ifndef KVMFT_HOSTMAP_PRIV_H
#define KVMFT_HOSTMAP_PRIV_H

#include "kvmft/hostmap.h"

/* One more VM, with a label if cap or pid say enough; pid 0: not known. Its index or -ENOMEM. */
ssize_t hostmap_vm_add(struct hostmap *m, const struct cap_vm *cap, int32_t pid);
/* Names it by what is known of it; its threads must have it. */
void hostmap_vm_label(struct hostmap *m, size_t vm);
/* Makes the lists of the VMs' threads anew. */
void hostmap_chain(struct hostmap *m);
/* Gives the clock events to VMs and builds all epochs anew. 0 or -ENOMEM. */
int hostmap_build(struct hostmap *m) __must_check;
/*
 * vmgroup.c: gives a VM to each thread of the map that has none yet; hostmap_vm.basis says what
 * that rests on. One walk over the capture. 0 or -errno.
 */
int vmgroup_make(struct hostmap *m) __must_check;

#endif
