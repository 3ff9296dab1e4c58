/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_stack.c: a stack and the kallsyms that name it. Input: a byte (bit 0: 32 bit), a record of up
 * to 80 bytes, kallsyms.
 */
#include "fuzz_walk.h"

#include <string.h>

#include "kvmft/ksyms.h"

#define RECORD 80u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char text[] =
	"name: kernel_stack\nID: 4\nformat:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
	"\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n"
	"\tfield:unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;\n\nprint fmt: \"\"\n";

/* One line, that does not drive a terminal. */
static void check_printed(const struct sbuf *b)
{
	for (size_t i = 0; i < b->len; i++)
		if ((uint8_t)b->s[i] < ' ' || b->s[i] == 127)
			__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cap_format cf = { .sys = (char[]){ "ftrace" }, .name = (char[]){ "kernel_stack" },
				 .text = text, .len = strlen(text) };
	size_t len = size ? MIN(size - 1, RECORD) : 0;
	struct capture c = { .format = &cf, .nformat = 1, .subbuf_size = 4096, .page_header = 16,
			     .path = (char[]){ "fuzz" } };
	struct rec rec = { .data = data + 1, .len = (uint32_t)len, .id = 4 };
	struct sbuf out = { 0 };
	struct fmt *f = NULL;

	if (!size)
		return 0;
	c.long_size = data[0] & 1 ? 4 : 8;
	c.kallsyms = (char *)(uintptr_t)(data + 1 + len);
	c.kallsyms_len = size - 1 - len;
	if (!(f = fmt_load(&c)))
		return 0;
	fmt_print(fmt_find(f, "ftrace", "kernel_stack"), &rec, &out);
	check_printed(&out);
	sbuf_free(&out);
	fmt_free(f);
	return 0;
}
