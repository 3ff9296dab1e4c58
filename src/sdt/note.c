/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * note.c: the notes of .note.stapsdt, version 3, which is what sys/sdt.h has written since 2011:
 *
 * 	u32 length of the owner's name (8), u32 length of the rest, u32 type 3
 * 	"stapsdt\0"
 * 	address of the nop, link-time address of .stapsdt.base, address of the semaphore or 0
 * 	provider\0 name\0 arguments\0, filled up to a multiple of 4
 *
 * Tools that move code after linking (prelink) change the address of the section .stapsdt.base, but
 * not the notes: the difference is the correction. The kernel expects file offsets instead of
 * addresses: program headers say which part of the file is at which address.
 */
#include "kvmft/sdt.h"

#include <elf.h>

#include "kvmft/elf_file.h"

#define NOTE_TYPE  3
#define MAX_NOTES  (16u << 20) /* bytes of them */
#define MAX_MARKERS 65536u     /* in one file; QEMU has a few thousand */
#define MAX_NAME   255u	       /* of a provider, a marker */
#define MAX_ARGS   4096u

static const char *const unfit[] = {
	"its place is not in the program's code",
	"its guard is not in the program's data",
};

struct notes {
	struct elf e;
	bool has_base;
	uint64_t base; /* where .stapsdt.base is now */
	struct sdt_file *f;
};

void sdt_free(struct sdt_file *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].provider);
		free(f->v[i].name);
		free(f->v[i].args);
	}
	free(f->v);
	*f = (struct sdt_file){ 0 };
}

/* Provider, name and arguments. */
static int take_texts(struct cursor *c, const char *text[3])
{
	static const size_t max[] = { MAX_NAME, MAX_NAME, MAX_ARGS };

	for (size_t i = 0; i < ARRAY_SIZE(max); i++) {
		if (cur_str(c, &text[i]) || strlen(text[i]) > max[i])
			return -EBADMSG;
		for (const char *p = text[i]; *p; p++)
			if (*p < ' ' || *p > '~')
				return -EBADMSG;
	}
	return 0;
}

static void keep_texts(struct sdt_marker *m, const char *const text[3])
{
	m->provider = xstrdup(text[0]);
	m->name = xstrdup(text[1]);
	m->args = xstrdup(text[2]);
}

static void note_find_place(const struct notes *n, struct sdt_marker *m, uint64_t semaphore)
{
	const struct elf_segment *code = elf_segment_at(&n->e, m->addr), *data;

	if (!code || !code->exec) {
		m->unfit = unfit[0];
		return;
	}
	if (semaphore) {
		data = elf_segment_at(&n->e, semaphore);
		/* The kernel counts in 16 bits, in a page that the program may write to. */
		if (!data || !data->write || (semaphore & 1)) {
			m->unfit = unfit[1];
			return;
		}
		m->semaphore = data->offset + (semaphore - data->addr);
	}
	m->offset = code->offset + (m->addr - code->addr);
}

static int marker_add(struct notes *n, struct cursor *c)
{
	const char *text[3];
	uint64_t addr, base, semaphore, moved;
	struct sdt_marker *m;
	int ret = elf_word(&n->e, c, &addr);

	ret = ret ?: elf_word(&n->e, c, &base);
	ret = ret ?: elf_word(&n->e, c, &semaphore);
	if (ret || take_texts(c, text) || !*text[0] || !*text[1])
		return -EBADMSG;
	m = xarray_grow(&n->f->v, n->f->n++, &n->f->cap, sizeof(*m));
	moved = n->has_base ? n->base - base : 0;
	m->addr = addr + moved;
	keep_texts(m, text);
	note_find_place(n, m, semaphore ? semaphore + moved : 0);
	return 0;
}

/* One note; 0, -ENODATA if the section is cut. Notes of others are skipped. */
static int note_take(struct notes *n, struct cursor *c)
{
	uint32_t name_len, len, type;
	const uint8_t *name, *desc;
	struct cursor in;
	int ret = cur_u32(c, &name_len);

	ret = ret ?: cur_u32(c, &len);
	ret = ret ?: cur_u32(c, &type);
	ret = ret ?: cur_bytes(c, name_len, &name);
	ret = ret ?: cur_skip(c, -name_len & 3);
	ret = ret ?: cur_bytes(c, len, &desc);
	if (ret)
		return ret;
	/* The last one may lack its padding. */
	ret = cur_skip(c, MIN((size_t)(-len & 3), c->left));
	if (ret || type != NOTE_TYPE || name_len != 8 || memcmp(name, "stapsdt", 8))
		return ret;
	in = (struct cursor){ .p = desc, .left = len };
	n->f->bad += marker_add(n, &in) != 0;
	return 0;
}

static int notes_read(struct notes *n, const char **why)
{
	_cleanup_free_ char *data = NULL;
	struct elf_section s;
	struct cursor c;
	int ret = elf_section(&n->e, ".stapsdt.base", &s);

	*why = "its sections make no sense";
	n->has_base = !ret;
	n->base = ret ? 0 : s.addr;
	ret = ret == -ENOENT ? 0 : ret;
	ret = ret ?: elf_section(&n->e, ".note.stapsdt", &s);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	*why = "its markers are in a section that is not a note, or is too long";
	if (s.type != SHT_NOTE)
		return -ENOEXEC;
	ret = elf_section_read(&n->e, &s, MAX_NOTES, &data);
	if (ret)
		return ret == -EFBIG ? -ENOEXEC : ret;
	c = (struct cursor){ .p = (const uint8_t *)data, .left = (size_t)s.size };
	while (!ret && c.left && n->f->n < MAX_MARKERS)
		ret = note_take(n, &c);
	if (ret == -ENODATA || (!ret && c.left)) {
		n->f->bad++;
		ret = 0;
	}
	return ret;
}

int sdt_read(int fd, const char *name, struct sdt_file *f, struct kvmft_err *err)
{
	struct notes n = { .f = f };
	const char *why = "";
	int ret;

	*f = (struct sdt_file){ 0 };
	ret = elf_open(fd, &n.e, &why);
	if (!ret && n.e.type != ET_EXEC && n.e.type != ET_DYN) {
		why = "it is neither a program nor a library";
		ret = -ENOEXEC;
	}
	f->arch = n.e.machine == EM_X86_64 && n.e.is64 ? SDT_ARCH_X86_64
		  : n.e.machine == EM_386 && !n.e.is64 ? SDT_ARCH_I386
						       : SDT_ARCH_OTHER;
	ret = ret ?: notes_read(&n, &why);
	elf_close(&n.e);
	if (!ret)
		return 0;
	sdt_free(f);
	if (ret == -ENOEXEC)
		return err_set(err, ENOEXEC, "%s: no markers can be read: %s", name, why);
	return err_why(err, ret, "%s", name);
}

/* ---- from one process to another ---- */

/* How many, and of each marker its numbers, then its texts. */
void sdt_pack(const struct sdt_file *f, struct sbuf *out)
{
	const uint64_t head[] = { f->arch, f->bad, f->n };

	sbuf_add_mem(out, (const char *)head, sizeof(head));
	for (size_t i = 0; i < f->n; i++) {
		const struct sdt_marker *m = &f->v[i];
		const uint64_t v[] = { m->addr, m->offset, m->semaphore,
				       !m->unfit ? 0 : m->unfit == unfit[0] ? 1 : 2 };

		sbuf_add_mem(out, (const char *)v, sizeof(v));
		sbuf_add_mem(out, m->provider, strlen(m->provider) + 1);
		sbuf_add_mem(out, m->name, strlen(m->name) + 1);
		sbuf_add_mem(out, m->args, strlen(m->args) + 1);
	}
}

static int marker_take(struct sdt_file *f, struct cursor *c)
{
	const char *text[3];
	struct sdt_marker *m = xarray_grow(&f->v, f->n++, &f->cap, sizeof(*m));
	uint64_t why = 0;
	int ret = cur_u64(c, &m->addr);

	ret = ret ?: cur_u64(c, &m->offset);
	ret = ret ?: cur_u64(c, &m->semaphore);
	ret = ret ?: cur_u64(c, &why);
	if (ret || take_texts(c, text) || why > ARRAY_SIZE(unfit))
		return -EBADMSG;
	m->unfit = why ? unfit[why - 1] : NULL;
	keep_texts(m, text);
	return 0;
}

int sdt_unpack(struct cursor *c, struct sdt_file *f)
{
	uint64_t head[3] = { 0 };
	int ret = 0;

	*f = (struct sdt_file){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(head) && !ret; i++)
		ret = cur_u64(c, &head[i]);
	f->arch = head[0] <= SDT_ARCH_I386 ? (enum sdt_arch)head[0] : SDT_ARCH_OTHER;
	f->bad = (size_t)head[1];
	while (!ret && f->n < MIN(head[2], (uint64_t)MAX_MARKERS))
		ret = marker_take(f, c);
	if (ret)
		sdt_free(f);
	return ret;
}
