/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * put.c: the tables behind the in-line writers of put.h.
 */
#include "kvmft/put.h"

#define TEN(d) #d "0" #d "1" #d "2" #d "3" #d "4" #d "5" #d "6" #d "7" #d "8" #d "9"

__attribute__((nonstring)) const char put_pair[200] =
	TEN(0) TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9);

const uint64_t put_power[20] = {
	0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000,
	100000000000, 1000000000000, 10000000000000, 100000000000000, 1000000000000000,
	10000000000000000, 100000000000000000, 1000000000000000000, 10000000000000000000u,
};
