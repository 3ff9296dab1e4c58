/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ksyms_file.c: symbols of a kernel from files: kallsyms, /proc/modules, and the symbol table of a
 * vmlinux.
 *
 * A vmlinux has the addresses from linking. A running kernel may be elsewhere (KASLR), all of it
 * moved by the same number of bytes: that slide is given, or is the difference shared by all names
 * that are also known from the running kernel.
 */
#include "kvmft/elf_file.h"
#include "kvmft/ksyms.h"

#include <elf.h>

#define LINE 1024u

/* ---- lines ---- */

int ksyms_add_lines(struct ksyms *k, const char *path, ksyms_line_fn *add, struct kvmft_err *err)
{
	int fd = file_open_regular(path, false), ret;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char line[LINE];

	if (fd < 0)
		return err_why(err, fd, "cannot read %s", path);
	if (!f) {
		close(fd);
		return err_set(err, ENOMEM, "out of memory");
	}
	/* A longer one is not one of theirs; what remains of it is not taken for a line, either. */
	ret = 0;
	while (!ret && fgets(line, sizeof(line), f)) {
		ret = line[0] ? 0 : -EINVAL; /* no text, such as a hole without an end */
		line[strcspn(line, "\n")] = '\0';
		ret = ret ?: add(k, line);
	}
	ret = ret ?: ferror(f) ? -EIO : 0;
	fclose(f);
	if (ret == -E2BIG)
		return err_set(err, E2BIG, "%s: more symbols than a kernel has", path);
	return err_why(err, ret, "cannot read %s", path);
}

/* ---- ELF ---- */

static int sym_read(const struct elf *e, struct cursor *c, Elf64_Sym *s)
{
	Elf32_Sym small;
	const uint8_t *p;
	int ret = cur_bytes(c, e->is64 ? sizeof(*s) : sizeof(small), &p);

	if (!ret && e->is64) {
		memcpy(s, p, sizeof(*s));
	} else if (!ret) {
		memcpy(&small, p, sizeof(small));
		*s = (Elf64_Sym){ .st_name = small.st_name,
				  .st_info = small.st_info,
				  .st_shndx = small.st_shndx,
				  .st_value = small.st_value,
				  .st_size = small.st_size };
	}
	return ret;
}

/* What the assembler wrote has no type; "$x" and the like are markers of the compiler. */
static bool is_code(const struct elf *e, const Elf64_Sym *s, const char *name)
{
	const struct elf_segment *seg;

	if (ELF64_ST_TYPE(s->st_info) == STT_FUNC)
		return true;
	if (ELF64_ST_TYPE(s->st_info) != STT_NOTYPE || name[0] == '$' || name[0] == '.')
		return false;
	seg = elf_segment_at(e, s->st_value);
	return seg && seg->exec && !seg->write;
}

static int sym_add(struct ksyms *k, const struct elf *e, const Elf64_Sym *s, const char *name)
{
	uint64_t end;
	int ret;

	if (s->st_shndx == SHN_UNDEF || s->st_shndx == SHN_ABS || !s->st_value || !*name ||
	    ELF64_ST_TYPE(s->st_info) == STT_SECTION || ELF64_ST_TYPE(s->st_info) == STT_FILE ||
	    __builtin_add_overflow(s->st_value, s->st_size, &end))
		return 0;
	if (!is_code(e, s, name))
		return name[0] == '$' ? 0 : ksyms_add_bound(k, s->st_value);
	ret = ksyms_add(k, s->st_value, 't', name, strlen(name), "", 0);
	return ret || !s->st_size ? ret : ksyms_add_bound(k, end);
}

int ksyms_add_elf(struct ksyms *k, int fd, const char **why)
{
	_cleanup_free_ char *table = NULL, *names = NULL;
	_cleanup_(elf_close) struct elf e;
	int ret = elf_open(fd, &e, why);
	struct elf_section sym, str;
	struct cursor c;
	Elf64_Sym s;

	if (ret)
		return ret;
	*why = "it has no symbol table: it was stripped, or is compressed";
	ret = elf_section(&e, ".symtab", &sym);
	ret = ret ?: elf_section(&e, ".strtab", &str);
	ret = ret ?: elf_section_read(&e, &sym, KSYMS_MAX_FILE, &table);
	ret = ret ?: elf_section_read(&e, &str, KSYMS_MAX_FILE, &names);
	if (ret)
		return ret == -ENOENT || ret == -EFBIG ? -ENOEXEC : ret;
	c = (struct cursor){ .p = (const uint8_t *)table, .left = (size_t)sym.size };
	/* Names end with the NUL that elf_section_read() appended. */
	while (!ret && c.left && !sym_read(&e, &c, &s))
		if (s.st_name < (size_t)str.size)
			ret = sym_add(k, &e, &s, names + s.st_name);
	return ret;
}

/* ---- the slide ---- */

COMPARE(ksym_by_name, const struct ksym *, strcmp((*x)->name, (*y)->name));

/* Functions of the kernel itself by name, *n of them; to be freed. NULL: out of memory. */
static const struct ksym **section_named(const struct ksyms *k, size_t *n)
{
	const struct ksym **v = calloc(k->n + 1, sizeof(*v));

	*n = 0;
	for (size_t i = 0; v && i < k->n; i++)
		if (!*k->v[i].module)
			v[(*n)++] = &k->v[i];
	if (v && *n)
		array_sort(v, *n, ksym_by_name);
	return v;
}

static bool is_twin(const struct ksym *const *v, size_t n, size_t i)
{
	return (i && !ksym_by_name(&v[i - 1], &v[i])) ||
	       (i + 1 < n && !ksym_by_name(&v[i], &v[i + 1]));
}

/* Many static functions have the same name: those prove nothing. */
static bool slide_of(const struct ksym *const *a, size_t na, const struct ksym *const *b, size_t nb,
		     uint64_t *slide, size_t *agree)
{
	size_t i = 0, k = 0;

	*agree = 0;
	while (i < na && k < nb) {
		int order = ksym_by_name(&a[i], &b[k]);

		if (!order && !is_twin(a, na, i) && !is_twin(b, nb, k)) {
			uint64_t d = b[k]->addr - a[i]->addr;

			if (*agree && d != *slide)
				return false;
			*slide = d;
			++*agree;
		}
		i += order <= 0;
		k += order >= 0;
	}
	return true;
}

static int find_slide(const struct ksyms *elf, const struct ksyms *known, const char *path,
		      uint64_t *slide, struct kvmft_err *err)
{
	size_t na = 0, nb = 0, agree = 0;
	const struct ksym **a = section_named(elf, &na), **b = section_named(known, &nb);
	bool one = a && b && slide_of(a, na, b, nb, slide, &agree);
	int ret = a && b ? 0 : err_set(err, ENOMEM, "out of memory");

	free(a);
	free(b);
	if (!ret && !one)
		ret = err_set(err, EINVAL,
			      "%s is of another kernel than the guest's: its functions are "
			      "elsewhere",
			      path);
	if (!ret && !agree)
		ret = err_set(err, EINVAL, "%s and what is known of the guest's kernel have no "
			      "function in common", path);
	return ret;
}

static int add_moved(struct ksyms *k, const struct ksyms *from, uint64_t slide, bool modules)
{
	int ret = 0;

	for (size_t i = 0; i < from->n && !ret; i++) {
		const struct ksym *s = &from->v[i];

		if (modules != (*s->module != '\0'))
			continue;
		ret = ksyms_add(k, s->addr + slide, s->type, s->name, strlen(s->name), s->module,
				strlen(s->module));
		ret = ret ?: ksyms_add_bound(k, s->addr + slide + s->size);
	}
	return ret;
}

/* The kernel by vmlinux, and modules, which vmlinux does not have, by the others. */
static int add_vmlinux(struct ksyms *k, const struct ksyms_files *f, const struct ksyms *known,
		       struct kvmft_err *err)
{
	_cleanup_(ksyms_free) struct ksyms elf = { 0 };
	_cleanup_close_ int fd = file_open_regular(f->vmlinux, false);
	uint64_t slide = f->slide.v;
	const char *why = NULL;
	int ret = fd;

	if (fd >= 0)
		ret = ksyms_add_elf(&elf, fd, &why);
	if (ret == -ENOEXEC)
		return err_set(err, ENOEXEC, "%s: %s", f->vmlinux, why);
	if (ret == -E2BIG)
		return err_set(err, E2BIG, "%s: more symbols than a kernel has", f->vmlinux);
	if (ret < 0)
		return err_why(err, ret, "cannot read %s", f->vmlinux);
	ksyms_finish(&elf);
	if (!elf.n)
		return err_set(err, EINVAL, "%s: no function of a kernel in it", f->vmlinux);
	if (!f->slide.set && !known)
		return err_lack(
			err, ENODATA,
			"%s: how far KASLR moved the guest's kernel is not known: give that with "
			"--guest-kaslr (0 with nokaslr; else by how much its _text in "
			"/proc/kallsyms is higher than here), or the guest's --guest-kallsyms",
			f->vmlinux);
	ret = f->slide.set ? 0 : find_slide(&elf, known, f->vmlinux, &slide, err);
	if (ret)
		return ret;
	ret = add_moved(k, &elf, slide, false);
	if (!ret && known)
		ret = add_moved(k, known, 0, true);
	return ret ? err_set(err, -ret, "out of memory") : 0;
}

/* ---- all of it ---- */

int ksyms_read(struct ksyms *k, const struct ksyms_files *f, struct kvmft_err *err)
{
	_cleanup_(ksyms_free) struct ksyms all = { 0 };
	const struct ksyms *known = f->known;
	int ret = 0;

	*k = (struct ksyms){ 0 };
	if (f->kallsyms) {
		struct ksyms *to = f->vmlinux ? &all : k;

		ret = ksyms_add_lines(to, f->kallsyms, ksyms_add_line, err);
		if (!ret && !to->n)
			ret = err_set(
				err, EINVAL,
				"%s: no function with an address in it: is it the guest's "
				"/proc/kallsyms, read as root with kernel.kptr_restrict 0 or 1?",
				f->kallsyms);
	}
	if (!ret && f->vmlinux && f->kallsyms) {
		ksyms_finish(&all);
		known = &all;
	}
	if (!ret && f->vmlinux)
		ret = add_vmlinux(k, f, known, err);
	if (!ret && f->modules) {
		ret = ksyms_add_lines(k, f->modules, ksyms_add_modules_line, err);
		if (!ret && !k->nmod)
			ret = err_set(err, EINVAL, "%s: no module with an address in it: is it the "
				      "guest's /proc/modules, read as root?", f->modules);
	}
	if (ret)
		ksyms_free(k);
	else
		ksyms_finish(k);
	return ret;
}
