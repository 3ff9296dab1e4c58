/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_ksyms.c: which addresses get a name and which must not; symbols packed, unpacked, and
 * such as nobody packed.
 */
#include "kvmft/ksyms.h"

#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

static const char text[] = "ffffffff81000000 T _text\n"
			   "ffffffff81000000 T startup_64\n"
			   "ffffffff81000100 t vp_notify\n"
			   "ffffffff81000180 d table_in_text\n"
			   "ffffffff81000200 T long_one\n"
			   "ffffffff81003000 T last_one\n"
			   "ffffffff81003010 T _etext\n"
			   "ffffffff81003f00 T __sched_text_end\n"
			   "ffffffff82000000 D data\n"
			   "0000000000001000 A cpu_debug_store\n"
			   "0000000000000000 T hidden\n"
			   "ffffffffc0000000 t kvm_a\t[kvm]\n"
			   "ffffffffc0000ff0 t kvm_last\t[kvm]\n"
			   "ffffffffc0003000 t amd_a\t[kvm_amd]\n"
			   "ffffffffc0003040 r amd_table\t[kvm_amd]\n"
			   "ffffffffc0008000 t bpf_prog_1\t[bpf]\n"
			   "ffffffffc000a000 t bpf_prog_2\t[bpf]\n";

static const struct {
	uint64_t addr;
	const char *name;
} cases[] = {
	{ 0xffffffff81000000, "_text+0x0" },
	{ 0xffffffff810000ff, "_text+0xff" },
	{ 0xffffffff80ffffff, "no symbol" },
	{ 0xffffffff81000100, "vp_notify+0x0" },
	{ 0xffffffff8100017f, "vp_notify+0x7f" },
	{ 0xffffffff81000180, "no symbol" },	/* data in between */
	{ 0xffffffff81002fff, "long_one+0x2dff" }, /* longer than a page, as it goes on */
	{ 0xffffffff8100300f, "last_one+0xf" },
	{ 0xffffffff81003010, "no symbol" },	/* behind _etext */
	{ 0xffffffff81003f10, "no symbol" },
	{ 0xffffffff82000000, "no symbol" },
	{ 0xffffffffc0000fef, "kvm_a+0xfef [kvm]" },
	{ 0xffffffffc0000fff, "kvm_last+0xf [kvm]" },
	{ 0xffffffffc0001000, "no symbol" },	/* the hole between modules */
	{ 0xffffffffc0002fff, "no symbol" },
	{ 0xffffffffc000303f, "amd_a+0x3f [kvm_amd]" },
	{ 0xffffffffc0003040, "no symbol" },
	{ 0xffffffffc0008fff, "bpf_prog_1+0xfff [bpf]" },
	{ 0xffffffffc0009000, "no symbol" },
	{ 0xffffffffc000afff, "bpf_prog_2+0xfff [bpf]" },
	{ 0xffffffffc000b000, "no symbol" },	/* past the last one */
	{ UINT64_MAX, "no symbol" },
	{ 0x1008, "no symbol" },
	{ 0, "no symbol" },
	{ 0xfff53, "no symbol" }, /* firmware */
	{ 0x400000, "user" },
	{ 0x7fffffffffff, "user" },
	{ 0x55d0c0ffee00, "user" },
};

static void check_names(const struct ksyms *k)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };

		ksyms_name(k, cases[i].addr, &b);
		assert_string_equal(b.s, cases[i].name);
	}
}

static void test_lookup(void **state __unused_arg)
{
	struct ksyms k;

	assert_int_equal(ksyms_parse(&k, text, sizeof(text) - 1), 0);
	check_names(&k);
	assert_int_equal(k.aliases, 1);
	ksyms_free(&k);
}

static void test_place(void **state __unused_arg)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	ksyms_place(NULL, 0x55d0c0ffee00, &b);
	assert_string_equal(b.s, "user 0x55d0c0ffee00");
	sbuf_reset(&b);
	ksyms_place(NULL, 0xffffffff81000000, &b);
	assert_string_equal(b.s, "0xffffffff81000000 (no symbol)");
}

/* Each byte less of the text gives fewer names, never others. */
static void test_cut(void **state __unused_arg)
{
	struct ksyms k;

	for (size_t n = 0; n < sizeof(text); n++) {
		assert_int_equal(ksyms_parse(&k, text, n), 0);
		for (size_t i = 0; i < k.n; i++)
			assert_true(k.v[i].size && k.v[i].addr + k.v[i].size > k.v[i].addr);
		ksyms_free(&k);
	}
}

static const char modules[] = "kvm 12288 1 kvm_amd, Live 0xffffffffc0000000 (E)\n"
			      "kvm_amd 1048576 0 - Live 0xffffffffc0003000\n"
			      "hidden 4096 0 - Live 0x0000000000000000\n"
			      "nonsense\n"
			      "twin 4096 0 - Live 0xffffffffc0000000\n" /* the larger one stays */
			      "virtio 8192 0 - Live 0xffffffffc0005000\n";

static void add_modules(struct ksyms *k)
{
	char line[256];
	const char *p = modules;

	for (; *p; p += strcspn(p, "\n") + 1) {
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(p, "\n"), p);
		assert_int_equal(ksyms_add_modules_line(k, line), 0);
	}
}

static void name_is(const struct ksyms *k, uint64_t addr, const char *name)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	ksyms_name(k, addr, &b);
	assert_string_equal(b.s, name);
}

static void test_modules(void **state __unused_arg)
{
	struct ksyms k = { 0 };

	add_modules(&k);
	ksyms_finish(&k);
	assert_int_equal(k.nmod, 3);
	name_is(&k, 0xffffffffc0000010, "[kvm]+0x10");
	name_is(&k, 0xffffffffc0003010, "[kvm_amd]+0x10");
	name_is(&k, 0xffffffffc0005010, "[virtio]+0x10"); /* not kvm_amd, whatever its size says */
	name_is(&k, 0xffffffffc0007000, "no symbol");
	ksyms_free(&k);
}

static void pack(const char *kallsyms, bool with_modules, struct sbuf *out)
{
	struct ksyms k = { 0 };
	char line[256];

	for (const char *p = kallsyms; *p; p += strcspn(p, "\n") + 1) {
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(p, "\n"), p);
		assert_int_equal(ksyms_add_line(&k, line), 0);
	}
	if (with_modules)
		add_modules(&k);
	ksyms_finish(&k);
	assert_int_equal(ksyms_pack(&k, out), 0);
	ksyms_free(&k);
}

/* *bad: where it is damaged. */
static int unpack(struct ksyms *k, const char *file, size_t len, size_t *bad)
{
	char *copy = malloc(len + 1);
	int ret;

	assert_non_null(copy);
	memcpy(copy, file, len);
	ret = ksyms_unpack(k, copy, len, bad);
	free(copy);
	return ret;
}

static void test_pack(void **state __unused_arg)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 }, again = { 0 };
	struct ksyms k;
	size_t bad;

	pack(text, false, &b);
	assert_int_equal(unpack(&k, b.s, b.len, &bad), 0);
	check_names(&k);
	assert_int_equal(ksyms_pack(&k, &again), 0);
	assert_string_equal(again.s, b.s);
	ksyms_free(&k);
	sbuf_reset(&b);
	pack(text, true, &b);
	assert_int_equal(unpack(&k, b.s, b.len, &bad), 0);
	name_is(&k, 0xffffffffc0001000, "[kvm]+0x1000");
	name_is(&k, 0xffffffffc0000ff8, "kvm_last+0x8 [kvm]");
	sbuf_reset(&again);
	assert_int_equal(ksyms_pack(&k, &again), 0);
	assert_string_equal(again.s, b.s);
	ksyms_drop_module(&k, "kvm");
	ksyms_drop_module(&k, "kvm_amd");
	ksyms_drop_module(&k, "");
	name_is(&k, 0xffffffffc0000001, "no symbol");
	name_is(&k, 0xffffffffc0003001, "no symbol");
	name_is(&k, 0xffffffffc0008001, "bpf_prog_1+0x1 [bpf]");
	name_is(&k, 0xffffffff81000101, "vp_notify+0x1");
	ksyms_free(&k);
}

/* What no kernel has, but an ELF file or a list of modules may: it is the same when it was packed. */
static void test_pack_odd(void **state __unused_arg)
{
	struct sbuf b = { 0 }, again = { 0 };
	struct ksyms k = { 0 }, packed;
	char longer[KSYM_NAME + 20];
	size_t bad;

	memset(longer, 'x', sizeof(longer));
	memcpy(longer + KSYM_NAME - 1 - strlen("_text_end"), "_text_end", strlen("_text_end"));
	assert_int_equal(ksyms_add(&k, 0xffffffff81000000, 't', "a [m]", 5, "", 0), 0);
	assert_int_equal(ksyms_add(&k, 0xffffffff81000100, 't', "", 0, "", 0), 0);
	assert_int_equal(ksyms_add(&k, 0xffffffff81000200, 't', longer, sizeof(longer), "", 0), 0);
	assert_int_equal(ksyms_add_module(&k, 0xff00000000000000, 0x200000000, "m", 1), 0);
	assert_int_equal(ksyms_add(&k, 0xff000000fffffff0, 't', "f", 1, "m", 1), 0);
	assert_int_equal(ksyms_add(&k, 0xff00000100000010, 't', "g", 1, "m", 1), 0);
	ksyms_finish(&k);
	assert_int_equal(ksyms_pack(&k, &b), 0);
	assert_int_equal(unpack(&packed, b.s, b.len, &bad), 0);
	assert_int_equal(ksyms_pack(&packed, &again), 0);
	assert_string_equal(b.s, again.s);
	ksyms_free(&packed);
	ksyms_free(&k);
	sbuf_free(&b);
	sbuf_free(&again);
}

/* Each address has the same name, packed or not. */
static void test_pack_many(void **state __unused_arg)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct ksyms k = { 0 }, packed;
	uint64_t at = 0xffffffff81000000;
	size_t bad;
	char name[32];

	for (unsigned int i = 0; i < 3000; i++, at += 16 + i % 7 * 3) {
		const char *module = i > 1500 && i < 1900 ? "one" : i > 2500 ? "bpf" : "";
		int n = snprintf(name, sizeof(name), "f%u_%u", i * 7919 % 1000, i);

		assert_int_equal(ksyms_add(&k, at, 't', name, (size_t)n, module, strlen(module)), 0);
		if (i % 300 == 5)
			assert_int_equal(ksyms_add_bound(&k, at + 7), 0);
	}
	ksyms_finish(&k);
	assert_int_equal(ksyms_pack(&k, &b), 0);
	assert_int_equal(unpack(&packed, b.s, b.len, &bad), 0);
	for (uint64_t a = 0xffffffff80fffff0; a < at + 8192; a += 5) {
		_cleanup_(sbuf_free) struct sbuf want = { 0 };

		ksyms_name(&k, a, &want);
		name_is(&packed, a, want.s);
	}
	ksyms_free(&packed);
	ksyms_free(&k);
}

/* Whatever is missing is missed. */
static void test_unpack_cut(void **state __unused_arg)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct ksyms k;
	size_t bad;

	pack(text, true, &b);
	for (size_t n = 0; n < b.len; n++) {
		assert_int_equal(unpack(&k, b.s, n, &bad), -EBADMSG);
		assert_null(k.v);
	}
}

#define HEAD "kvmft-symbols 3\n"
#define ONE  HEAD "ffffffff81000000 t a\n"

static void test_unpack_hostile(void **state __unused_arg)
{
	static const char *const bad[] = {
		"kvmft-symbols 2\n.\n",
		".\n",
		HEAD,
		ONE,
		ONE ".",
		ONE ".\nx",
		ONE "\n.\n",
		ONE "ffffffff81000010\n.\n",			/* nothing there */
		ONE "ffffffff81000010 t\n.\n",
		ONE "ffffffff81000010 tt b\n.\n",
		ONE "x t b\n.\n",
		ONE "ffffffff81000010 t b\x1b[2J\n.\n",
		ONE "ffffffff81000010 t b\x7f\n.\n",
		ONE "ffffffff81000000 t b\n.\n",		/* one address, two names */
		ONE "11111111111111111 t b\n.\n",		/* above 64 bits */
		ONE "1000 t b\n.\n",				/* a user's address */
		HEAD "+ ffffffffc0000000 1\n.\n",
		HEAD "+a ffffffffc0000000\n.\n",
		HEAD "+a ffffffffc0000000 0\n.\n",
		HEAD "+a ffffffffc0000000 ffffffffffffffff\n.\n",
	};
	struct ksyms k;
	size_t where;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(unpack(&k, bad[i], strlen(bad[i]), &where), -EBADMSG);
		assert_null(k.v);
	}
	assert_int_equal(unpack(&k, ONE "ffffffff81000000 t b\n.\n", 0, &where), -EBADMSG);
	assert_int_equal(where, 0);
	assert_int_equal(unpack(&k, ONE ".\n", strlen(ONE ".\n"), &where), 0);
	name_is(&k, 0xffffffff81000000, "a+0x0");
	ksyms_free(&k);
}

/* A vmlinux of four symbols and two sections of use. */
struct vmlinux {
	Elf64_Ehdr e;
	Elf64_Phdr p;
	Elf64_Shdr s[4];
	Elf64_Sym sym[6];
	char names[64], sections[32];
};

static int make_vmlinux(struct vmlinux *v)
{
	static const char names[] = "\0startup_64\0vp_notify\0asm_one\0data\0gone";
	static const char sections[] = "\0.symtab\0.strtab\0.shstrtab";
	int fd = memfd_create("vmlinux", MFD_CLOEXEC);

	memset(v, 0, sizeof(*v));
	memcpy(v->e.e_ident, ELFMAG, SELFMAG);
	v->e.e_ident[EI_CLASS] = ELFCLASS64;
	v->e.e_ident[EI_DATA] = ELFDATA2LSB;
	v->e.e_type = ET_EXEC;
	v->e.e_phoff = offsetof(struct vmlinux, p);
	v->e.e_phentsize = sizeof(v->p);
	v->e.e_phnum = 1;
	v->e.e_shoff = offsetof(struct vmlinux, s);
	v->e.e_shentsize = sizeof(v->s[0]);
	v->e.e_shnum = 4;
	v->e.e_shstrndx = 3;
	v->p = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = 0xffffffff81000000,
			     .p_filesz = 0x200, .p_memsz = 0x200 };
	v->s[1] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_SYMTAB, .sh_size = sizeof(v->sym),
				.sh_offset = offsetof(struct vmlinux, sym) };
	v->s[2] = (Elf64_Shdr){ .sh_name = 9, .sh_type = SHT_STRTAB, .sh_size = sizeof(names),
				.sh_offset = offsetof(struct vmlinux, names) };
	v->s[3] = (Elf64_Shdr){ .sh_name = 17, .sh_type = SHT_STRTAB, .sh_size = sizeof(sections),
				.sh_offset = offsetof(struct vmlinux, sections) };
	memcpy(v->names, names, sizeof(names));
	memcpy(v->sections, sections, sizeof(sections));
	v->sym[1] = (Elf64_Sym){ .st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1,
				 .st_value = 0xffffffff81000000, .st_size = 0x40 };
	v->sym[2] = (Elf64_Sym){ .st_name = 12, .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC), .st_shndx = 1,
				 .st_value = 0xffffffff81000080, .st_size = 0x20 };
	v->sym[3] = (Elf64_Sym){ .st_name = 22, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), .st_shndx = 1,
				 .st_value = 0xffffffff810000a0 };
	v->sym[4] = (Elf64_Sym){ .st_name = 30, .st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), .st_shndx = 1,
				 .st_value = 0xffffffff810000c0, .st_size = 8 };
	v->sym[5] = (Elf64_Sym){ .st_name = 35, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				 .st_value = 0xffffffff81000100 };
	assert_true(fd >= 0);
	return fd;
}

static int read_vmlinux(const struct vmlinux *v, int fd, struct ksyms_files *f, struct ksyms *k,
			struct kvmft_err *err)
{
	char path[64];

	assert_int_equal(full_write(fd, v, sizeof(*v), NULL), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	f->vmlinux = path;
	return ksyms_read(k, f, err);
}

static void test_vmlinux(void **state __unused_arg)
{
	struct ksyms_files f = { .slide = { .set = true, .v = 0x2000000 } };
	struct kvmft_err err = { .text = "" };
	struct vmlinux v;
	struct ksyms k;
	int fd = make_vmlinux(&v);

	assert_int_equal(read_vmlinux(&v, fd, &f, &k, &err), 0);
	name_is(&k, 0xffffffff8300003f, "startup_64+0x3f");
	name_is(&k, 0xffffffff83000040, "no symbol"); /* its size says where it ends */
	name_is(&k, 0xffffffff83000080, "vp_notify+0x0");
	name_is(&k, 0xffffffff830000bf, "asm_one+0x1f");
	name_is(&k, 0xffffffff830000c0, "no symbol");
	name_is(&k, 0xffffffff83000100, "no symbol"); /* undefined */
	name_is(&k, 0xffffffff81000000, "no symbol"); /* nothing is where it was linked to */
	ksyms_free(&k);
	close(fd);
}

/* The slide from what else is known, or none. */
static void test_slide(void **state __unused_arg)
{
	static const struct {
		const char *known, *says;
		int ret;
	} c[] = {
		{ NULL, "--guest-kaslr", -ENODATA },
		{ "ffffffff9a000080 t vp_notify\nffffffffc0000000 t mod_f\t[mod]\n", NULL, 0 },
		{ "ffffffff9a000080 t vp_notify\nffffffff9b000000 T startup_64\n", "another kernel", -EINVAL },
		{ "ffffffff9a000080 t other\n", "no function in common", -EINVAL },
		{ "ffffffff9a000080 t vp_notify\nffffffff9a000180 t vp_notify\n", "in common", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		struct kvmft_err err = { .text = "" };
		struct ksyms known = { 0 }, k;
		struct ksyms_files f = { .known = c[i].known ? &known : NULL };
		struct vmlinux v;
		int fd = make_vmlinux(&v);

		if (c[i].known)
			assert_int_equal(ksyms_parse(&known, c[i].known, strlen(c[i].known)), 0);
		assert_int_equal(read_vmlinux(&v, fd, &f, &k, &err), c[i].ret);
		if (c[i].ret) {
			assert_non_null(strstr(err.text, c[i].says));
		} else {
			name_is(&k, 0xffffffff9a000003, "startup_64+0x3");
			name_is(&k, 0xffffffffc0000003, "mod_f+0x3 [mod]");
		}
		ksyms_free(&k);
		ksyms_free(&known);
		close(fd);
	}
}

static void test_bad_vmlinux(void **state __unused_arg)
{
	struct ksyms_files f = { .slide = { .set = true } };
	struct kvmft_err err = { .text = "" };
	struct vmlinux v;
	struct ksyms k;
	int fd = make_vmlinux(&v);

	v.s[1].sh_offset = UINT64_MAX - 3;
	assert_int_equal(read_vmlinux(&v, fd, &f, &k, &err), -ENOEXEC);
	close(fd);
	fd = make_vmlinux(&v);
	v.sym[1].st_name = UINT32_MAX;
	v.sym[2].st_size = UINT64_MAX;
	assert_int_equal(read_vmlinux(&v, fd, &f, &k, &err), 0);
	assert_int_equal(k.n, 1);
	ksyms_free(&k);
	close(fd);
	fd = make_vmlinux(&v);
	memset(v.sections, 0, sizeof(v.sections));
	assert_int_equal(read_vmlinux(&v, fd, &f, &k, &err), -ENOEXEC);
	assert_non_null(strstr(err.text, "no symbol table"));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lookup),	       cmocka_unit_test(test_place),
		cmocka_unit_test(test_cut),	       cmocka_unit_test(test_modules),
		cmocka_unit_test(test_pack),	       cmocka_unit_test(test_unpack_cut),
		cmocka_unit_test(test_unpack_hostile), cmocka_unit_test(test_vmlinux),
		cmocka_unit_test(test_pack_many),      cmocka_unit_test(test_slide),
		cmocka_unit_test(test_pack_odd),       cmocka_unit_test(test_bad_vmlinux),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
