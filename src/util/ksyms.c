/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ksyms.c: the functions of a kernel, sorted by address, and where each of them ends. */
#include "kvmft/elf_file.h"
#include "kvmft/ksyms.h"

#include <elf.h>

#define HEX_DIGITS  16
#define PAGE	    4096u
#define FIRMWARE    (1u << 20)
#define BLOCK_BYTES (16u << 10)

/* The first line of the symbols that a capture holds. */
#define KSYMS_HEAD "kvmft-symbols 3\n"
#define KSYMS_TAIL ".\n" /* ... and the last: nothing was cut */

/* ---- names ---- */

/* A copy that stays where it is. */
static const char *name_keep(struct ksyms *k, const char *s, size_t n)
{
	char *p;

	n = MIN(n, (size_t)KSYM_NAME - 1);
	if (!k->nblock || k->left <= n) {
		char *block = malloc(BLOCK_BYTES);

		if (!block ||
		    array_add(&k->block, &k->nblock, &k->block_cap, &block, sizeof(block))) {
			free(block);
			return NULL;
		}
		k->left = BLOCK_BYTES;
	}
	p = k->block[k->nblock - 1] + BLOCK_BYTES - k->left;
	memcpy(p, s, n);
	p[n] = '\0';
	k->left -= n + 1;
	str_printable(p);
	/* Packed, a blank ends a name. */
	for (char *blank = p; (blank = strchr(blank, ' '));)
		*blank = '?';
	return p;
}

/* ---- adding ---- */

int ksyms_add_bound(struct ksyms *k, uint64_t addr)
{
	if (ksyms_is_user(addr))
		return 0;
	if (k->nbound >= KSYMS_MAX)
		return -E2BIG;
	return array_add(&k->bound, &k->nbound, &k->bound_cap, &addr, sizeof(addr));
}

/* What the linker puts after functions as if it were one. */
static bool is_end_mark(const char *name, size_t n)
{
	static const char tail[] = "_text_end";
	size_t nt = sizeof(tail) - 1;

	return (n == 6 && !memcmp(name, "_etext", n)) || (n == 10 && !memcmp(name, "_einittext", n)) ||
	       (n > nt && !memcmp(name + n - nt, tail, nt));
}

int ksyms_add(struct ksyms *k, uint64_t addr, char type, const char *name, size_t n,
	      const char *module, size_t nm)
{
	struct ksym s = { .addr = addr, .type = type, .size = (uint32_t)k->n };

	n = MIN(n, (size_t)KSYM_NAME - 1); /* what is kept of it */
	if (ksyms_is_user(addr) || !n)
		return 0;
	if (is_end_mark(name, n))
		return ksyms_add_bound(k, addr);
	if (k->n >= KSYMS_MAX)
		return -E2BIG;
	s.name = name_keep(k, name, n);
	/* Symbols of a module follow each other, so most have the module of the one before. */
	if (nm && (!k->module || strncmp(k->module, module, nm) || k->module[nm]))
		k->module = name_keep(k, module, nm);
	s.module = nm ? k->module : "";
	if (!s.name || !s.module)
		return -ENOMEM;
	return array_add(&k->v, &k->n, &k->cap, &s, sizeof(s));
}

int ksyms_add_module(struct ksyms *k, uint64_t base, uint64_t size, const char *name, size_t n)
{
	struct ksym s = { .addr = base, .size = (uint32_t)MIN(size, (uint64_t)UINT32_MAX),
			  .type = 'm' };
	char text[KSYM_NAME];

	if (ksyms_is_user(base) || !size || base + size < base)
		return 0;
	if (k->nmod >= KSYM_MODULES)
		return -E2BIG;
	n = MIN(n, sizeof(text) - 3);
	text[0] = '[';
	memcpy(text + 1, name, n);
	text[n + 1] = ']';
	s.name = name_keep(k, text, n + 2);
	s.module = "";
	if (!s.name || ksyms_add_bound(k, base) || ksyms_add_bound(k, base + s.size))
		return -ENOMEM;
	return array_add(&k->mod, &k->nmod, &k->mod_cap, &s, sizeof(s));
}

/* ---- lines ---- */

/* The word at *p, which is terminated; *p moves past it. */
static char *ksyms_word(char **p)
{
	char *word = *p + strspn(*p, " \t");

	*p = word + strcspn(word, " \t");
	if (**p)
		*(*p)++ = '\0';
	return word;
}

static bool take_address(const char *word, uint64_t *addr)
{
	size_t n = strlen(word);

	*addr = 0;
	if (!n || n > HEX_DIGITS)
		return false;
	for (; *word; word++) {
		int digit = str_hex_value(*word);

		if (digit < 0)
			return false;
		*addr = *addr << 4 | (unsigned int)digit;
	}
	return true;
}

int ksyms_add_line(struct ksyms *k, char *line)
{
	const char *type, *name, *module = "";
	uint64_t addr;
	char *p = line;
	size_t nm = 0;

	if (!take_address(ksyms_word(&p), &addr) || !addr)
		return 0;
	type = ksyms_word(&p);
	name = ksyms_word(&p);
	if (strlen(type) != 1 || !*name)
		return 0;
	if (!strchr("tTwW", *type))
		return ksyms_add_bound(k, addr);
	/* "[kvm]", without its brackets */
	p = ksyms_word(&p);
	if (strlen(p) > 2 && p[0] == '[' && p[strlen(p) - 1] == ']') {
		module = p + 1;
		nm = strlen(p) - 2;
	}
	return ksyms_add(k, addr, *type, name, strlen(name), module, nm);
}

/* "kvm 1048576 2 kvm_amd,vfio, Live 0xffffffffc0a00000 (OE)" */
int ksyms_add_modules_line(struct ksyms *k, char *line)
{
	const char *name = ksyms_word(&line), *size = ksyms_word(&line), *addr;
	uint64_t base, bytes;

	ksyms_word(&line);
	ksyms_word(&line);
	ksyms_word(&line);
	addr = ksyms_word(&line);
	if (!*name || parse_u64(size, &bytes) || strncmp(addr, "0x", 2) ||
	    !take_address(addr + 2, &base) || !base)
		return 0;
	return ksyms_add_module(k, base, bytes, name, strlen(name));
}

/* ---- order ---- */

/* Until the end is known, size is the number of the symbol in the order of adding. */
COMPARE(by_address, struct ksym, ORDER(x->addr, y->addr) ?: ORDER(x->size, y->size));

COMPARE_BY(by_number, uint64_t, );

static uint64_t natural_end(const struct ksym *s, const struct ksym *next)
{
	uint64_t page = (s->addr | (PAGE - 1)) + 1;

	/* Code of BPF and of the tracer has a module name, but each piece has pages of its own. */
	if (next && (s->module == next->module || !strcmp(s->module, next->module)) &&
	    strcmp(s->module, "bpf") && strncmp(s->module, "__builtin__", 11))
		return next->addr;
	page = page ?: UINT64_MAX;
	return next ? MIN(next->addr, page) : page;
}

void ksyms_finish(struct ksyms *k)
{
	size_t b = 0, kept = 0, sorted = 1;

	while (sorted < k->n && by_address(&k->v[sorted - 1], &k->v[sorted]) < 0)
		sorted++;
	if (sorted < k->n) /* else they were packed */
		array_sort(k->v, k->n, by_address);
	array_sort(k->bound, k->nbound, by_number);
	array_sort(k->mod, k->nmod, by_address);
	/*
	 * Since Linux 6.4 the size of a module includes parts that are elsewhere. Of several at the
	 * same address, which no kernel has, the largest stays.
	 */
	for (size_t i = 0; i < k->nmod; i++) {
		struct ksym s = k->mod[i];

		if (i + 1 < k->nmod)
			s.size = (uint32_t)MIN((uint64_t)s.size, k->mod[i + 1].addr - s.addr);
		if (s.size)
			k->mod[kept++] = s;
	}
	k->nmod = kept;
	kept = 0;
	for (size_t i = 0; i < k->n; i++)
		if (!kept || k->v[kept - 1].addr != k->v[i].addr)
			k->v[kept++] = k->v[i];
	k->aliases = k->n - kept;
	k->n = kept;
	for (size_t i = 0; i < k->n; i++) {
		struct ksym *s = &k->v[i];
		uint64_t end = natural_end(s, i + 1 < k->n ? s + 1 : NULL);

		while (b < k->nbound && k->bound[b] <= s->addr)
			b++;
		if (b < k->nbound)
			end = MIN(end, k->bound[b]);
		s->size = (uint32_t)MIN(end - s->addr, (uint64_t)UINT32_MAX);
	}
	free(k->bound);
	k->bound = NULL;
	k->nbound = k->bound_cap = 0;
}

int ksyms_parse(struct ksyms *k, const char *text, size_t len)
{
	const char *end = text + len;
	char line[KSYM_NAME + 128];
	int ret = 0;

	*k = (struct ksyms){ 0 };
	while (text < end && !ret) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((eol ?: end) - text);

		if (n < sizeof(line)) {
			memcpy(line, text, n);
			line[n] = '\0';
			ret = ksyms_add_line(k, line);
		}
		text += n + 1;
	}
	ret = ret == -E2BIG ? 0 : ret;
	if (ret)
		ksyms_free(k);
	else
		ksyms_finish(k);
	return ret;
}

/* ---- as a capture holds them ---- */

int ksyms_pack(const struct ksyms *k, struct sbuf *out)
{
	sbuf_add(out, KSYMS_HEAD);
	for (size_t i = 0; i < k->nmod; i++)
		sbuf_addf(out, "+%.*s %" PRIx64 " %" PRIx32 "\n", (int)strlen(k->mod[i].name) - 2,
			  k->mod[i].name + 1, k->mod[i].addr, k->mod[i].size);
	for (size_t i = 0; i < k->n; i++) {
		const struct ksym *s = &k->v[i];

		sbuf_addf(out, *s->module ? "%" PRIx64 " t %s [%s]\n" : "%" PRIx64 " t %s\n",
			  s->addr, s->name, s->module);
		/* Where something other than the next function ends it. */
		if (i + 1 == k->n || s->addr + s->size != s[1].addr)
			sbuf_addf(out, "%" PRIx64 " - -\n", s->addr + s->size);
	}
	sbuf_add(out, KSYMS_TAIL);
	return out->error;
}

/* Each line adds something: -EBADMSG if it does not. */
static int packed_line(struct ksyms *k, char *line)
{
	size_t before = k->n + k->nbound + k->nmod;
	const char *name, *base, *size;
	uint64_t at, bytes;
	int ret;

	for (const char *p = line; *p; p++)
		if (*p < ' ' || *p > '~')
			return -EBADMSG;
	if (*line == '+') {
		line++;
		name = ksyms_word(&line);
		base = ksyms_word(&line);
		size = ksyms_word(&line);
		if (!*name || !take_address(base, &at) || !take_address(size, &bytes))
			return -EBADMSG;
		ret = ksyms_add_module(k, at, bytes, name, strlen(name));
	} else {
		ret = ksyms_add_line(k, line);
	}
	return ret ?: k->n + k->nbound + k->nmod == before ? -EBADMSG : 0;
}

int ksyms_unpack(struct ksyms *k, char *text, size_t len, size_t *bad)
{
	size_t head = sizeof(KSYMS_HEAD) - 1, tail = sizeof(KSYMS_TAIL) - 1;
	char *end = text + len - tail, *eol;
	int ret = 0;

	*k = (struct ksyms){ 0 };
	*bad = 0;
	if (len < head || memcmp(text, KSYMS_HEAD, head) != 0)
		return -EBADMSG;
	if (len < head + tail || memcmp(end - 1, "\n" KSYMS_TAIL, tail + 1) != 0) {
		*bad = len;
		return -EBADMSG;
	}
	for (char *p = text + head; p < end && !ret; p = eol + 1) {
		*bad = (size_t)(p - text);
		eol = memchr(p, '\n', (size_t)(end - p));
		*eol = '\0';
		ret = packed_line(k, p);
	}
	if (!ret)
		ksyms_finish(k);
	/* Two functions at one address: there is no telling which one it is. */
	if (ret == -E2BIG || (!ret && k->aliases))
		ret = -EBADMSG;
	if (ret)
		ksyms_free(k);
	return ret;
}

/* ---- looking up ---- */

/* The last one that begins at or before addr, if it reaches that far. */
static struct ksym *ksym_in(struct ksym *v, size_t n, uint64_t addr)
{
	size_t at = COUNT_BEFORE(i, n, v[i].addr <= addr);

	return at && addr - v[at - 1].addr < v[at - 1].size ? &v[at - 1] : NULL;
}

struct ksym *ksyms_find(const struct ksyms *k, uint64_t addr)
{
	return ksym_in(k->v, k->n, addr) ?: ksym_in(k->mod, k->nmod, addr);
}

static bool add_known(const struct ksyms *k, uint64_t addr, struct sbuf *b)
{
	const struct ksym *s = k ? ksyms_find(k, addr) : NULL;

	if (!s)
		return false;
	sbuf_add(b, s->name);
	sbuf_add(b, "+0x");
	sbuf_add_hex(b, addr - s->addr);
	if (*s->module)
		sbuf_addf(b, " [%s]", s->module);
	return true;
}

/* Below are the firmware's addresses, not a program's. */
static bool is_program(uint64_t addr)
{
	return ksyms_is_user(addr) && addr >= FIRMWARE;
}

void ksyms_name(const struct ksyms *k, uint64_t addr, struct sbuf *b)
{
	if (!add_known(k, addr, b))
		sbuf_add(b, is_program(addr) ? "user" : "no symbol");
}

void ksyms_place(const struct ksyms *k, uint64_t addr, struct sbuf *b)
{
	bool user = is_program(addr);

	if (add_known(k, addr, b))
		return;
	sbuf_add(b, user ? "user 0x" : "0x");
	sbuf_add_hex(b, addr);
	if (!user)
		sbuf_add(b, " (no symbol)");
}

void ksyms_drop_module(struct ksyms *k, const char *module)
{
	size_t n = strlen(module);

	for (size_t i = 0; i < k->n; i++)
		if (*module && !strcmp(k->v[i].module, module))
			k->v[i].size = 0;
	for (size_t i = 0; i < k->nmod; i++)
		if (strlen(k->mod[i].name) == n + 2 && !memcmp(k->mod[i].name + 1, module, n))
			k->mod[i].size = 0;
}

void ksyms_free(struct ksyms *k)
{
	strings_free(k->block, k->nblock);
	free(k->bound);
	free(k->mod);
	free(k->v);
	*k = (struct ksyms){ 0 };
}

/*
 * Symbols of a kernel from files: kallsyms, /proc/modules, and the symbol table of a
 * vmlinux.
 *
 * A vmlinux has the addresses from linking. A running kernel may be elsewhere (KASLR), all of it
 * moved by the same number of bytes: that slide is given, or is the difference shared by all names
 * that are also known from the running kernel.
 */

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
