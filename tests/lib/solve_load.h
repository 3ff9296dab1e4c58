/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve_load.h: windows and stamps of one vCPU for the solver, of kinds that are easy and of kinds that are not.
 */
#ifndef KVMFT_TESTS_SOLVE_LOAD_H
#define KVMFT_TESTS_SOLVE_LOAD_H

#include "kvmft/proof.h"

#define SOLVE_LOAD_OFFSET (0ull - 42051902088ull) /* of "aligned" */

/* aligned, stranger, random, regular, hostile, dense, ticks, idle, twice; NULL: that was the last. */
const char *solve_load_kind(size_t i);
/* 0, or an error of the solver; -1: no such kind. */
int solve_load(struct solve *s, const char *kind, size_t events, uint32_t seed);

#endif
