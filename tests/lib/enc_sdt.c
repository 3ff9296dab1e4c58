/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * enc_sdt.c: see enc_sdt.h. Written from the layouts of the ELF specification and sys/sdt.h.
 */
#include "lib/enc_sdt.h"

#include <elf.h>
#include <string.h>

#include "lib/enc.h"

#define CODE_AT 0x200u
#define DATA_AT 0x300u
#define NOTE_AT 0x340u

static const char section_names[] = "\0.text\0.probes\0.stapsdt.base\0.note.stapsdt\0.shstrtab";

static uint32_t name_index(const char *name)
{
	const char *p = section_names + 1;

	while (strcmp(p, name))
		p += strlen(p) + 1;
	return (uint32_t)(p - section_names);
}

static void word(const struct enc_sdt *e, struct sbuf *b, uint64_t v)
{
	if (e->is64)
		enc_u64(b, v);
	else
		enc_u32(b, (uint32_t)v);
}

static void fill_to(struct sbuf *b, size_t at)
{
	while (b->len < at)
		enc_u8(b, 0);
}

static void header(const struct enc_sdt *e, struct sbuf *b, uint64_t shoff)
{
	uint16_t machine = e->machine ? e->machine : e->is64 ? EM_X86_64 : EM_386;

	sbuf_add_mem(b, ELFMAG, SELFMAG);
	enc_u8(b, e->is64 ? ELFCLASS64 : ELFCLASS32);
	enc_u8(b, ELFDATA2LSB);
	enc_u8(b, EV_CURRENT);
	fill_to(b, EI_NIDENT);
	enc_u16(b, e->type ? e->type : ET_EXEC);
	enc_u16(b, machine);
	enc_u32(b, EV_CURRENT);
	word(e, b, ENC_SDT_CODE);
	word(e, b, e->is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
	word(e, b, shoff);
	enc_u32(b, 0);
	enc_u16(b, e->is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
	enc_u16(b, e->is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr));
	enc_u16(b, 2);
	enc_u16(b, e->is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr));
	enc_u16(b, 6);
	enc_u16(b, 5);
}

static void segment(const struct enc_sdt *e, struct sbuf *b, uint64_t addr, uint64_t off,
		    uint64_t size, uint32_t flags)
{
	enc_u32(b, PT_LOAD);
	if (e->is64)
		enc_u32(b, flags);
	word(e, b, off);
	word(e, b, addr);
	word(e, b, addr);
	word(e, b, size);
	word(e, b, size);
	if (!e->is64)
		enc_u32(b, flags);
	word(e, b, 0x1000);
}

static void section(const struct enc_sdt *e, struct sbuf *b, const char *name, uint32_t type,
		    uint64_t addr, uint64_t off, uint64_t size)
{
	enc_u32(b, name ? name_index(name) : 0);
	enc_u32(b, type);
	word(e, b, 0);
	word(e, b, addr);
	word(e, b, off);
	word(e, b, size);
	enc_u32(b, 0);
	enc_u32(b, 0);
	word(e, b, 4);
	word(e, b, 0);
}

static void note(const struct enc_sdt *e, const struct enc_sdt_marker *m, struct sbuf *b)
{
	struct sbuf desc = { 0 };

	word(e, &desc, m->addr);
	word(e, &desc, ENC_SDT_BASE);
	word(e, &desc, m->semaphore);
	sbuf_add_mem(&desc, m->provider, strlen(m->provider) + 1);
	sbuf_add_mem(&desc, m->name, strlen(m->name) + 1);
	sbuf_add_mem(&desc, m->args, strlen(m->args) + 1);
	enc_u32(b, 8);
	enc_u32(b, (uint32_t)desc.len);
	enc_u32(b, 3);
	sbuf_add_mem(b, "stapsdt", 8);
	sbuf_add_mem(b, desc.s, desc.len);
	fill_to(b, (b->len + 3) & ~(size_t)3);
	sbuf_free(&desc);
}

void enc_sdt_elf(const struct enc_sdt *e, struct sbuf *b)
{
	struct sbuf notes = { 0 };
	size_t names_at, shoff;

	for (size_t i = 0; i < e->n; i++)
		note(e, &e->marker[i], &notes);
	names_at = NOTE_AT + notes.len;
	shoff = (names_at + sizeof(section_names) + 7) & ~(size_t)7;
	header(e, b, shoff);
	segment(e, b, ENC_SDT_CODE + e->moved, CODE_AT, DATA_AT - CODE_AT, PF_R | PF_X);
	segment(e, b, ENC_SDT_DATA + e->moved, DATA_AT, NOTE_AT - DATA_AT, PF_R | PF_W);
	fill_to(b, NOTE_AT);
	if (notes.len)
		sbuf_add_mem(b, notes.s, notes.len);
	sbuf_add_mem(b, section_names, sizeof(section_names));
	fill_to(b, shoff);
	section(e, b, NULL, SHT_NULL, 0, 0, 0);
	section(e, b, ".text", SHT_PROGBITS, ENC_SDT_CODE + e->moved, CODE_AT, DATA_AT - CODE_AT);
	section(e, b, ".probes", SHT_PROGBITS, ENC_SDT_DATA + e->moved, DATA_AT, NOTE_AT - DATA_AT);
	section(e, b, e->no_base ? ".probes" : ".stapsdt.base", SHT_PROGBITS, ENC_SDT_BASE + e->moved,
		CODE_AT, 1);
	section(e, b, ".note.stapsdt", SHT_NOTE, 0, NOTE_AT, notes.len);
	section(e, b, ".shstrtab", SHT_STRTAB, 0, names_at, sizeof(section_names));
	sbuf_free(&notes);
}
