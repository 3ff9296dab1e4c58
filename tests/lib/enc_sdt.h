/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * enc_sdt.h: an ELF file with SDT markers, of any class, made from a list.
 *
 *	0x000  header, two program headers
 *	0x200  code, 256 bytes, at address ENC_SDT_CODE
 *	0x300  data, 64 bytes, at address ENC_SDT_DATA
 *	0x340  notes, names of sections, section headers
 */
#ifndef KVMFT_TESTS_ENC_SDT_H
#define KVMFT_TESTS_ENC_SDT_H

#include "kvmft/util.h"

#define ENC_SDT_CODE 0x401000u
#define ENC_SDT_DATA 0x602000u
#define ENC_SDT_BASE 0x400800u

struct enc_sdt_marker {
	uint64_t addr, semaphore;
	const char *provider, *name, *args;
};

struct enc_sdt {
	bool is64, no_base;
	uint16_t type, machine; /* 0 = a program; 0 = x86 of this class */
	uint64_t moved;	/* everything is so much higher than the notes say */
	const struct enc_sdt_marker *marker;
	size_t n;
};

void enc_sdt_elf(const struct enc_sdt *e, struct sbuf *b);

#endif
