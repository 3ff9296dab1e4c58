/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_format.c: an event format text and a record of that event. Input: format, NUL, record.
 */
#include "fuzz_walk.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = memchr(data, 0, size);
	size_t len = nul ? (size_t)(nul - data) : size;
	struct cap_format cf = { .sys = (char[]){ "kvm" }, .name = (char[]){ "kvm_exit" } };
	struct capture c = { .format = &cf, .nformat = 1, .long_size = 8, .subbuf_size = 4096,
			     .page_header = 16, .path = (char[]){ "fuzz" } };
	struct rec rec = { .data = nul ? nul + 1 : data, .len = nul ? (uint32_t)(size - len - 1) : 0 };
	const struct fmt_event *e;
	struct sbuf out = { 0 }, again = { 0 };
	struct fmt *f = NULL;

	cf.text = strndup((const char *)data, len);
	cf.len = len;
	if (cf.text && len < CAPTURE_MAX_FORMAT && (f = fmt_load(&c)) != NULL &&
	    (e = fmt_find(f, "kvm", "kvm_exit"))) {
		rec.id = fmt_id(e);
		fmt_print(e, &rec, &out);
		fmt_print(e, &rec, &again); /* now with the plan made, and texts that are known */
		if (out.len != again.len || (out.len && memcmp(out.s, again.s, out.len)))
			__builtin_trap();
		fmt_print_fields(e, &rec, &out);
		fmt_symbol(e, "exit_reason", 0, 1);
	}
	sbuf_free(&out);
	sbuf_free(&again);
	fmt_free(f);
	free(cf.text);
	return 0;
}
