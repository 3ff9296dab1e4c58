/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * elf_file.c: a reader for untrusted ELF files. Only pieces with a known limit are read, and every
 * number is checked before it is used.
 *
 * 	header     magic, class (32 or 64 bit), byte order; where the two tables are
 * 	program headers    PT_LOAD: which addresses come from which part of the file
 * 	section headers    name (an index into a section of names), address, place, size
 */
#include "kvmft/elf_file.h"

#include <elf.h>

#define MAX_SEGMENTS 4096u
#define MAX_SECTIONS (1u << 20)
#define MAX_NAMES    (4u << 20)

int elf_word(const struct elf *e, struct cursor *c, uint64_t *v)
{
	uint32_t small;
	int ret;

	if (e->is64)
		return cur_u64(c, v);
	ret = cur_u32(c, &small);
	if (!ret)
		*v = small;
	return ret;
}

/* Bytes of the file as one of its structures, of either class. */
#define ELF_UNION(type) union { Elf32_##type w32; Elf64_##type w64; }
#define ELF_SIZE(e, u)  ((e)->is64 ? sizeof((u).w64) : sizeof((u).w32))
#define ELF_FIELD(e, u, field) ((e)->is64 ? (u).w64.field : (u).w32.field)

/* n bytes at off into buf. */
static int elf_get(const struct elf *e, uint64_t off, void *buf, size_t n)
{
	ssize_t got;

	if (off > e->size || n > e->size - off)
		return -ENOEXEC;
	got = full_pread(e->fd, buf, n, off);
	return got < 0 ? (int)got : (size_t)got == n ? 0 : -ENOEXEC; /* it shrinks while we read */
}

/* ---- header ---- */

static int header_read(struct elf *e, const char **why)
{
	ELF_UNION(Ehdr) h;
	const uint8_t *ident = h.w32.e_ident;
	size_t n = MIN((uint64_t)sizeof(h), e->size);
	int ret = n < sizeof(h.w32) ? -ENOEXEC : elf_get(e, 0, &h, n);

	*why = "it is not an ELF file";
	if (ret || memcmp(ident, ELFMAG, SELFMAG))
		return ret ?: -ENOEXEC;
	*why = ident[EI_DATA] == ELFDATA2MSB
		       ? "it is for a big-endian machine, and kvmft only knows x86 and arm64"
		       : "it is ELF of an unknown class or byte order";
	if ((ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64) ||
	    ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	e->is64 = ident[EI_CLASS] == ELFCLASS64;
	*why = "its header is cut short";
	if (n < ELF_SIZE(e, h))
		return -ENOEXEC;
	e->type = ELF_FIELD(e, h, e_type);
	e->machine = ELF_FIELD(e, h, e_machine);
	e->phoff = ELF_FIELD(e, h, e_phoff);
	e->shoff = ELF_FIELD(e, h, e_shoff);
	e->phentsize = ELF_FIELD(e, h, e_phentsize);
	e->phnum = ELF_FIELD(e, h, e_phnum);
	e->shentsize = ELF_FIELD(e, h, e_shentsize);
	e->shnum = ELF_FIELD(e, h, e_shnum);
	e->shstrndx = ELF_FIELD(e, h, e_shstrndx);
	return 0;
}

/* ---- program headers ---- */

static int segments_read(struct elf *e, const char **why)
{
	ELF_UNION(Phdr) p;
	struct elf_segment s;
	uint64_t off;
	int ret = 0;

	*why = "its program headers make no sense";
	if (e->phnum > MAX_SEGMENTS || (e->phnum && e->phentsize < ELF_SIZE(e, p)))
		return -ENOEXEC;
	for (uint32_t i = 0; i < e->phnum && !ret; i++) {
		if (__builtin_add_overflow(e->phoff, (uint64_t)i * e->phentsize, &off))
			return -ENOEXEC;
		ret = elf_get(e, off, &p, ELF_SIZE(e, p));
		if (ret || ELF_FIELD(e, p, p_type) != PT_LOAD)
			continue;
		s = (struct elf_segment){ .addr = ELF_FIELD(e, p, p_vaddr),
					  .offset = ELF_FIELD(e, p, p_offset),
					  .size = ELF_FIELD(e, p, p_filesz),
					  .exec = ELF_FIELD(e, p, p_flags) & PF_X,
					  .write = ELF_FIELD(e, p, p_flags) & PF_W };
		ret = array_add(&e->seg, &e->nseg, &e->seg_cap, &s, sizeof(s));
	}
	return ret;
}

const struct elf_segment *elf_segment_at(const struct elf *e, uint64_t addr)
{
	for (size_t i = 0; i < e->nseg; i++) {
		const struct elf_segment *s = &e->seg[i];

		if (addr >= s->addr && addr - s->addr < s->size &&
		    s->offset <= e->size && addr - s->addr < e->size - s->offset)
			return s;
	}
	return NULL;
}

/* ---- section headers ---- */

struct shdr {
	uint32_t name, link;
	struct elf_section s;
};

static int shdr_read(const struct elf *e, uint32_t i, struct shdr *h)
{
	ELF_UNION(Shdr) s;
	uint64_t off;
	int ret = -ENOEXEC;

	memset(&s, 0, sizeof(s));
	if (!__builtin_add_overflow(e->shoff, (uint64_t)i * e->shentsize, &off))
		ret = elf_get(e, off, &s, ELF_SIZE(e, s));
	*h = (struct shdr){ .name = ELF_FIELD(e, s, sh_name),
			    .link = ELF_FIELD(e, s, sh_link),
			    .s = { .type = ELF_FIELD(e, s, sh_type),
				   .addr = ELF_FIELD(e, s, sh_addr),
				   .offset = ELF_FIELD(e, s, sh_offset),
				   .size = ELF_FIELD(e, s, sh_size) } };
	return ret;
}

static int sections_read(struct elf *e, const char **why)
{
	struct shdr h;
	int ret;

	*why = "its section headers make no sense";
	if (e->shoff && e->shentsize < (e->is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr)))
		return -ENOEXEC;
	/*
	 * If there are more than 65279 sections, or their names come after that many, the numbers
	 * are in section 0.
	 */
	if (e->shoff && (!e->shnum || e->shstrndx == SHN_XINDEX)) {
		ret = shdr_read(e, 0, &h);
		if (ret)
			return ret;
		e->shnum = e->shnum ?: (uint32_t)MIN(h.s.size, (uint64_t)MAX_SECTIONS + 1);
		if (e->shstrndx == SHN_XINDEX)
			e->shstrndx = h.link;
	}
	if (!e->shoff || !e->shnum || e->shstrndx == SHN_UNDEF)
		return 0; /* stripped of them: nothing can be found */
	if (e->shnum > MAX_SECTIONS || e->shstrndx >= e->shnum)
		return -ENOEXEC;
	ret = shdr_read(e, e->shstrndx, &h);
	if (!ret && h.s.type != SHT_STRTAB)
		return -ENOEXEC;
	ret = ret ?: elf_section_read(e, &h.s, MAX_NAMES, &e->names);
	if (!ret)
		e->names_len = (size_t)h.s.size;
	return ret;
}

int elf_section(const struct elf *e, const char *name, struct elf_section *s)
{
	struct shdr h;

	for (uint32_t i = 1; e->names && i < e->shnum; i++) {
		int ret = shdr_read(e, i, &h);

		if (ret)
			return ret;
		if (h.name < e->names_len && !strcmp(e->names + h.name, name)) {
			*s = h.s;
			return 0;
		}
	}
	return -ENOENT;
}

int elf_section_read(const struct elf *e, const struct elf_section *s, size_t max, char **out)
{
	int ret;

	*out = NULL;
	if (s->type == SHT_NOBITS || s->offset > e->size || s->size > e->size - s->offset)
		return -ENOEXEC;
	if (s->size > max)
		return -EFBIG;
	*out = malloc((size_t)s->size + 1);
	if (!*out)
		return -ENOMEM;
	(*out)[s->size] = '\0';
	ret = elf_get(e, s->offset, *out, (size_t)s->size);
	if (ret) {
		free(*out);
		*out = NULL;
	}
	return ret;
}

/* ---- all of it ---- */

int elf_open(int fd, struct elf *e, const char **why)
{
	struct stat st;
	int ret;

	*e = (struct elf){ .fd = fd };
	if (fstat(fd, &st) < 0)
		return -errno;
	*why = "it is not a regular file";
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	e->size = (uint64_t)st.st_size;
	ret = header_read(e, why);
	ret = ret ?: segments_read(e, why);
	ret = ret ?: sections_read(e, why);
	return ret == -ENODATA || ret == -EFBIG ? -ENOEXEC : ret;
}

void elf_close(struct elf *e)
{
	free(e->seg);
	free(e->names);
	*e = (struct elf){ .fd = -1 };
}
