/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ksyms.h: names for the addresses of a kernel: from its /proc/kallsyms or a part of that, from the
 * symbol table of its vmlinux, or from the symbols that a capture holds. Any of these files may
 * come from anyone.
 *
 * An address gets a name only if it is known to be in that function: a function ends where the next
 * one, or data, or the next module begins; the last one of a module ends with the page that it
 * begins in, because nothing says how much of the rest is code.
 */
#pragma once

#include "kvmft/util.h"

#define KSYMS_MAX      (1u << 20) /* functions and end marks of one kernel */
#define KSYM_MODULES   4096u
#define KSYM_NAME      512u	  /* bytes of a name, as in the kernel, including NUL */
#define KSYMS_MAX_FILE (64u << 20)

struct ksym {
	uint64_t addr;
	const char *name, *module; /* printable; module "" = the kernel itself */
	uint32_t size;		   /* length in bytes, from addr */
	char type;
	bool used; /* the caller's */
};

/* All zero is an empty one. */
struct ksyms {
	struct ksym *v; /* by address; of several with the same address the first one added */
	size_t n, cap;
	/* Where functions end; by address. */
	uint64_t *bound;
	size_t nbound, bound_cap;
	/* Modules as a whole, named "[kvm]": for addresses in no known function. */
	struct ksym *mod;
	size_t nmod, mod_cap;
	size_t aliases; /* that were dropped */
	/* What names are in. */
	char **block;
	size_t nblock, block_cap, left;
	const char *module; /* of the last one added */
};

/*
 * Reads a text of len bytes, which is copied. Lines that are not kallsyms, data symbols, and
 * symbols without an address (hidden by kptr_restrict) are ignored. 0 or -ENOMEM; ksyms_free()
 * frees it.
 */
int ksyms_parse(struct ksyms *k, const char *text, size_t len) __must_check;

/* ---- piece by piece, ksyms_finish() is the last; 0, -E2BIG, -ENOMEM ---- */

/* A function. n and nm: bytes of the name and of the module's, without brackets. */
int ksyms_add(struct ksyms *k, uint64_t addr, char type, const char *name, size_t n,
	      const char *module, size_t nm) __must_check;
/* Whatever is before that address ends there. */
int ksyms_add_bound(struct ksyms *k, uint64_t addr) __must_check;
/* A module, as in /proc/modules. */
int ksyms_add_module(struct ksyms *k, uint64_t base, uint64_t size, const char *name,
		     size_t n) __must_check;
/* A line of kallsyms, which is changed; other lines are ignored. */
int ksyms_add_line(struct ksyms *k, char *line) __must_check;
/* A line of /proc/modules, the same. */
int ksyms_add_modules_line(struct ksyms *k, char *line) __must_check;
void ksyms_finish(struct ksyms *k);

/* ---- of files ---- */

typedef int ksyms_line_fn(struct ksyms *k, char *line);
/* add() for each line. 0, -errno with err: cannot be read, too many. */
int ksyms_add_lines(struct ksyms *k, const char *path, ksyms_line_fn *add,
		    struct kvmft_err *err) __must_check;

/* What is known about a kernel; NULL: not given. */
struct ksyms_files {
	const char *kallsyms, *vmlinux, *modules;
	/* Runtime address minus that in vmlinux; needed with vmlinux, unless names reveal it. */
	struct opt_u64 slide;
	const struct ksyms *known; /* functions of the running kernel, or some; NULL: none */
};
/*
 * Reads them. 0; -errno with err: a file that cannot be read, has no function with an address, or
 * belongs to another kernel, and -ENODATA if the slide of vmlinux is not known.
 */
int ksyms_read(struct ksyms *k, const struct ksyms_files *f, struct kvmft_err *err) __must_check;
/* ELF, opened: what its symbol table has. -ENOEXEC with *why, -E2BIG, -ENOMEM, -errno. */
int ksyms_add_elf(struct ksyms *k, int fd, const char **why) __must_check;

/* ---- of captures (the file symbols, kvmft-capture(5)) ---- */

/* Appends all that k holds to out. 0 or -ENOMEM. */
int ksyms_pack(const struct ksyms *k, struct sbuf *out) __must_check;
/*
 * The reverse; text is changed. 0, -ENOMEM, or -EBADMSG and none of it is used: the line at *bad is
 * wrong, or two functions are at one address; *bad 0: it is another format.
 */
int ksyms_unpack(struct ksyms *k, char *text, size_t len, size_t *bad) __must_check;

/* ---- looking up ---- */

/* The function that contains an address, or else the module; NULL: none known. */
struct ksym *ksyms_find(const struct ksyms *k, uint64_t addr);
/*
 * Whether no kernel code can be there: x86-64, arm64 and those 32-bit kernels that keep the upper
 * gigabyte for themselves.
 */
static inline bool ksyms_is_user(uint64_t addr)
{
	return !(addr >> 63) && (addr < 0xc0000000u || addr > UINT32_MAX);
}
/* "vp_notify+0x9 [virtio_pci]", "[kvm]+0x123", "user", "no symbol". k NULL: as if it were empty. */
void ksyms_name(const struct ksyms *k, uint64_t addr, struct sbuf *b);
/* The same, with the address if there is no name: "user 0x5581...", "0xffff... (no symbol)". */
void ksyms_place(const struct ksyms *k, uint64_t addr, struct sbuf *b);
/* A module was unloaded: its addresses have no names any more. */
void ksyms_drop_module(struct ksyms *k, const char *module);
void ksyms_free(struct ksyms *k);
