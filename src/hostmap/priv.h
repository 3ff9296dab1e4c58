/* SPDX-License-Identifier: GPL-2.0-or-later */
/* priv.h: what the files of the map share. */
#pragma once

#include "kvmft/events.h"
#include "kvmft/hostmap.h"

/* Adds a VM, with a label if cap or pid say enough; pid 0: unknown. Its index. */
size_t hostmap_vm_add(struct hostmap *m, const struct cap_vm *cap, int32_t pid);
/* For one that has none so far; 0: it stays unknown. */
void hostmap_vm_pid(struct hostmap *m, size_t vm, int32_t pid);
/* Names it by what is known of it; its threads must be assigned. */
void hostmap_vm_label(struct hostmap *m, size_t vm);
/* Rebuilds the lists of the VMs' threads. */
void hostmap_chain(struct hostmap *m);

/* epochs.c: notes one event of a clock. */
void hostmap_clock_event(struct hostmap *m, const struct event_type *ev, const struct rec *rec);
/* Builds the epochs of one VM from what is known now. */
void hostmap_epochs(struct hostmap *m, size_t vm);
/* Assigns the clock events to VMs and rebuilds all epochs. */
void hostmap_build(struct hostmap *m);
