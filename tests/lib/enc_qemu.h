/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * enc_qemu.h: encoder for files of QEMU's trace back end simple, formats 0, 2, 3 and 4.
 */
#ifndef KVMFT_TESTS_ENC_QEMU_H
#define KVMFT_TESTS_ENC_QEMU_H

#include "kvmft/util.h"

struct enc_simple {
	struct sbuf b;
	unsigned int version;
};

/* An argument: s NULL: a number. */
struct enc_simple_arg {
	uint64_t num;
	const char *s;
};

void enc_simple_begin(struct enc_simple *e, unsigned int version);
/* Format 4 alone; others have none. */
void enc_simple_name(struct enc_simple *e, uint64_t id, const char *name);
/* Format 0 takes the numbers of up to 6 arguments. */
void enc_simple_event(struct enc_simple *e, uint64_t id, uint64_t ns, uint32_t pid,
		      const struct enc_simple_arg *arg, size_t n);
void enc_simple_dropped(struct enc_simple *e, uint64_t ns, uint64_t count);

#endif
