/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * room.h: the parts of `kvmft clock`.
 *
 * walk.c    from a host's events to what happened to each vCPU's clock
 * judge.c   what the end of the walk shows, what was not recorded, the verdict
 */
#pragma once

#include "kvmft/clockcheck.h"

/* Adds it, and takes over what it says. */
void clock_found(struct clock_vm *vm, const struct clock_seen *what);
/* Of a vCPU that has run with it, or could at the end: is its TSC that of the VM's first one? */
void clock_skew(const struct clockcheck *c, struct clock_vm *vm, struct clock_vcpu *v,
		uint64_t host, bool end);
/* Whether the map in force at the end is known to be, in spite of what was lost. */
bool clock_map_holds(const struct clockcheck *c, const struct clock_vcpu *v);
/* How far two records may be apart, in ns, if nothing happened that long after the older. */
uint64_t clock_tolerance(const struct pvclock *a, const struct pvclock *b, uint64_t ns);
/* Whether it is off, by an event of then, or as it remains; sure: a guest sees it. */
void clock_master(struct clock_vm *vm, bool off, uint64_t host, bool sure);
/* A record that it had by then, known without an event: as a capture of its guest has it. */
void clock_adopt(struct clock_vcpu *v, uint64_t host);
