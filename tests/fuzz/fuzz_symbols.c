/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_symbols.c: symbols of a kernel from all that they come from. Input: a byte that says what the
 * rest is: kallsyms, the file symbols of a capture, /proc/modules, or an ELF file.
 */
#include <string.h>
#include <sys/mman.h>

#include "kvmft/ksyms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Functions are in order and do not overlap, and what is printed does not drive a terminal. */
static void check(const struct ksyms *k)
{
	struct sbuf b = { 0 };

	for (size_t i = 0; i < k->n; i++) {
		const struct ksym *s = &k->v[i];

		if (ksyms_is_user(s->addr) || (i + 1 < k->n && s->addr + s->size > s[1].addr) ||
		    s->addr + s->size < s->addr)
			__builtin_trap();
		sbuf_reset(&b);
		ksyms_place(k, s->addr, &b);
		ksyms_place(k, s->addr + s->size, &b);
		for (size_t c = 0; c < b.len; c++)
			if ((uint8_t)b.s[c] < ' ' || b.s[c] == 127)
				__builtin_trap();
	}
	sbuf_free(&b);
}

static int unpack(struct ksyms *k, const void *data, size_t size)
{
	char *text = malloc(size + 1);
	size_t bad;
	int ret;

	if (!text)
		__builtin_trap();
	memcpy(text, data, size);
	ret = ksyms_unpack(k, text, size, &bad);
	if (ret && bad > size)
		__builtin_trap();
	free(text);
	return ret;
}

/* What was packed is what comes out. */
static void check_pack(const struct ksyms *k)
{
	struct sbuf once = { 0 }, twice = { 0 };
	struct ksyms again = { 0 };

	if (!ksyms_pack(k, &once) && !unpack(&again, once.s, once.len)) {
		if (ksyms_pack(&again, &twice) || strcmp(once.s, twice.s))
			__builtin_trap();
		check(&again);
	}
	ksyms_free(&again);
	sbuf_free(&once);
	sbuf_free(&twice);
}

static int modules(struct ksyms *k, const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), *save, *line;
	int ret = 0;

	for (line = strtok_r(text, "\n", &save); line && !ret; line = strtok_r(NULL, "\n", &save))
		ret = ksyms_add_modules_line(k, line);
	free(text);
	if (!ret)
		ksyms_finish(k);
	return ret;
}

static int elf(struct ksyms *k, const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("fuzz", MFD_CLOEXEC);
	const char *why;
	int ret = fd < 0 ? -1 : full_write(fd, data, size, NULL);

	ret = ret ? ret : ksyms_add_elf(k, fd, &why);
	if (!ret)
		ksyms_finish(k);
	return ret;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ksyms k = { 0 };
	int ret;

	if (!size)
		return 0;
	switch (data[0] & 3) {
	case 0: ret = ksyms_parse(&k, (const char *)data + 1, size - 1); break;
	case 1: ret = unpack(&k, data + 1, size - 1); break;
	case 2: ret = modules(&k, data + 1, size - 1); break;
	default: ret = elf(&k, data + 1, size - 1); break;
	}
	if (!ret) {
		check(&k);
		check_pack(&k);
	}
	ksyms_free(&k);
	return 0;
}
