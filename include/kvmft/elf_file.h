/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * elf_file.h: as much of an ELF file as markers and symbols need: sections by name, and the
 * position of an address in the file.
 */
#pragma once

#include "kvmft/util.h"

struct elf_segment {
	uint64_t addr, offset, size; /* size: in the file */
	bool exec, write;
};

struct elf {
	int fd; /* borrowed */
	uint64_t size;
	bool is64;
	uint16_t type, machine;
	uint64_t phoff, shoff;
	uint32_t phnum, shnum, shstrndx, phentsize, shentsize;
	struct elf_segment *seg; /* PT_LOAD only */
	size_t nseg, seg_cap;
	char *names; /* of sections; NUL-terminated */
	size_t names_len;
};

struct elf_section {
	uint32_t type;
	uint64_t addr, offset, size;
};

/* -ENOEXEC with *why, -ENOMEM, or the error of pread(). To be closed in any case. */
int elf_open(int fd, struct elf *e, const char **why) __must_check;
void elf_close(struct elf *e);
/* 0 or -ENOENT: the first section of this name; other errors as above. */
int elf_section(const struct elf *e, const char *name, struct elf_section *s) __must_check;
/* Its bytes, the caller's, NUL-terminated; -EFBIG above max. */
int elf_section_read(const struct elf *e, const struct elf_section *s, size_t max,
		     char **out) __must_check;
/* The segment that holds the address, or NULL. */
const struct elf_segment *elf_segment_at(const struct elf *e, uint64_t addr);
/* An address or an offset of the file's class. 0 or -ENODATA. */
int elf_word(const struct elf *e, struct cursor *c, uint64_t *v) __must_check;
