/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * room.h: the parts of `kvmft clock`.
 *
 * walk.c    from a host's events to what happened to each vCPU's clock
 * judge.c   what the end of the walk shows, what was not recorded, the verdict
 */
#ifndef KVMFT_CLOCKCHECK_ROOM_H
#define KVMFT_CLOCKCHECK_ROOM_H

#include "kvmft/clockcheck.h"

/* Adds it, and takes over what it says: 0 or -ENOMEM. */
int clock_found(struct clock_vm *vm, const struct clock_seen *what) __must_check;
/* The VM's first vCPU whose map is known at that time: others are compared with it. NULL: none. */
struct clock_vcpu *clock_reference(struct clock_vm *vm, uint64_t host);
/* A vCPU that could run now: is its TSC that of the reference? */
int clock_skew(struct clock_vm *vm, struct clock_vcpu *v, uint64_t host) __must_check;
/* How far two records may be apart, in ns, if nothing happened that long after the older. */
uint64_t clock_tolerance(const struct pvclock *a, const struct pvclock *b, uint64_t ns);
extern const char *const clock_read_kinds[CLOCK_READ_KINDS];

#endif
