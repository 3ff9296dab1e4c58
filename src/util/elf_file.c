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

/* n bytes at off as a cursor over buf, which has room for them. */
static int elf_get(const struct elf *e, uint64_t off, void *buf, size_t n, struct cursor *c)
{
	ssize_t got;

	if (off > e->size || n > e->size - off)
		return -ENOEXEC;
	got = full_pread(e->fd, buf, n, off);
	if (got < 0)
		return (int)got;
	*c = (struct cursor){ .p = buf, .left = n };
	return (size_t)got == n ? 0 : -ENOEXEC; /* it shrinks while we read */
}

/* ---- header ---- */

static int header_fields(struct elf *e, struct cursor *c)
{
	uint16_t phentsize, phnum, shentsize, shnum, shstrndx;
	uint64_t entry;
	int ret = cur_skip(c, EI_NIDENT);

	ret = ret ?: cur_u16(c, &e->type);
	ret = ret ?: cur_u16(c, &e->machine);
	ret = ret ?: cur_skip(c, 4); /* version */
	ret = ret ?: elf_word(e, c, &entry);
	ret = ret ?: elf_word(e, c, &e->phoff);
	ret = ret ?: elf_word(e, c, &e->shoff);
	ret = ret ?: cur_skip(c, 6); /* flags, size of this header */
	ret = ret ?: cur_u16(c, &phentsize);
	ret = ret ?: cur_u16(c, &phnum);
	ret = ret ?: cur_u16(c, &shentsize);
	ret = ret ?: cur_u16(c, &shnum);
	ret = ret ?: cur_u16(c, &shstrndx);
	if (ret)
		return ret;
	e->phentsize = phentsize;
	e->phnum = phnum;
	e->shentsize = shentsize;
	e->shnum = shnum;
	e->shstrndx = shstrndx;
	return 0;
}

static int header_read(struct elf *e, const char **why)
{
	uint8_t buf[sizeof(Elf64_Ehdr)] = { 0 };
	size_t n = MIN((uint64_t)sizeof(buf), e->size);
	struct cursor c;
	int ret;

	*why = "it is not an ELF file";
	if (n < sizeof(Elf32_Ehdr))
		return -ENOEXEC;
	ret = elf_get(e, 0, buf, n, &c);
	if (ret)
		return ret;
	if (memcmp(buf, ELFMAG, SELFMAG))
		return -ENOEXEC;
	*why = buf[EI_DATA] == ELFDATA2MSB
		       ? "it is for a big-endian machine, and kvmft only knows x86 and arm64"
		       : "it is ELF of an unknown class or byte order";
	if ((buf[EI_CLASS] != ELFCLASS32 && buf[EI_CLASS] != ELFCLASS64) ||
	    buf[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	e->is64 = buf[EI_CLASS] == ELFCLASS64;
	*why = "its header is cut short";
	return header_fields(e, &c) ? -ENOEXEC : 0;
}

/* ---- program headers ---- */

static int segment_read(struct elf *e, uint64_t off)
{
	uint8_t buf[sizeof(Elf64_Phdr)];
	struct elf_segment s = { 0 };
	uint32_t type = 0, flags = 0;
	uint64_t paddr;
	struct cursor c;
	int ret = elf_get(e, off, buf, e->is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr), &c);

	ret = ret ?: cur_u32(&c, &type);
	if (!ret && e->is64)
		ret = cur_u32(&c, &flags);
	ret = ret ?: elf_word(e, &c, &s.offset);
	ret = ret ?: elf_word(e, &c, &s.addr);
	ret = ret ?: elf_word(e, &c, &paddr);
	ret = ret ?: elf_word(e, &c, &s.size);
	if (!ret && !e->is64) {
		ret = cur_skip(&c, 4); /* size in memory */
		ret = ret ?: cur_u32(&c, &flags);
	}
	if (ret || type != PT_LOAD)
		return ret;
	s.exec = flags & PF_X;
	s.write = flags & PF_W;
	return array_add(&e->seg, &e->nseg, &e->seg_cap, &s, sizeof(s));
}

static int segments_read(struct elf *e, const char **why)
{
	int ret = 0;

	*why = "its program headers make no sense";
	if (e->phnum > MAX_SEGMENTS ||
	    (e->phnum && e->phentsize < (e->is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr))))
		return -ENOEXEC;
	for (uint32_t i = 0; i < e->phnum && !ret; i++) {
		uint64_t off;

		if (__builtin_add_overflow(e->phoff, (uint64_t)i * e->phentsize, &off))
			return -ENOEXEC;
		ret = segment_read(e, off);
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
	uint8_t buf[sizeof(Elf64_Shdr)];
	uint64_t off, flags;
	struct cursor c;
	int ret;

	*h = (struct shdr){ 0 };
	if (__builtin_add_overflow(e->shoff, (uint64_t)i * e->shentsize, &off))
		return -ENOEXEC;
	ret = elf_get(e, off, buf, e->is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr), &c);
	ret = ret ?: cur_u32(&c, &h->name);
	ret = ret ?: cur_u32(&c, &h->s.type);
	ret = ret ?: elf_word(e, &c, &flags);
	ret = ret ?: elf_word(e, &c, &h->s.addr);
	ret = ret ?: elf_word(e, &c, &h->s.offset);
	ret = ret ?: elf_word(e, &c, &h->s.size);
	return ret ?: cur_u32(&c, &h->link);
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
	struct cursor c;
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
	ret = elf_get(e, s->offset, *out, (size_t)s->size, &c);
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
