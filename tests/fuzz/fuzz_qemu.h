/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_qemu.h: a trace of QEMU from bytes, read to its end by one reader.
 */
#ifndef KVMFT_FUZZ_QEMU_H
#define KVMFT_FUZZ_QEMU_H

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "kvmft/qemu.h"

static const char fuzz_declared[] =
	"first(void) \"\"\n"
	"kvm_run_exit(int cpu_index, uint32_t reason) \"cpu_index %d, reason %d\"\n"
	"open_image(const char *path, uint64_t size, const char *mode) \"%s %\"PRIu64\" %s\"\n"
	"vcpu all(int8_t a, void *p, bool c, const char *s, unsigned short d) \"%c %p %#x%-6.2s%06hd\"\n";

static inline void fuzz_qemu(const uint8_t *data, size_t size, enum qtrace_format format)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct qtrace_options o = { .format = format, .near = 1767225600000000000ull };
	struct qevents *q = NULL;
	struct qtrace *t;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd >= 0 && size && !full_write(fd, data + 1, size - 1, NULL)) {
		/* The first byte: with declarations or without. */
		if (data[0] & 1 && qevents_parse(fuzz_declared, strlen(fuzz_declared), "fuzz", &q, NULL))
			q = NULL;
		o.events = q;
		if (qtrace_open(path, &o, &t, NULL) == 0) {
			struct qtrace_item i;
			struct sbuf b = { 0 };

			while (qtrace_next(t, &i) > 0) {
				sbuf_reset(&b);
				sbuf_add_mem(&b, i.name, i.name_len);
				if (i.has_args)
					qev_print(i.ev, i.arg, i.ev->nargs, &b);
				else if (i.text)
					sbuf_add_mem(&b, i.text, i.text_len);
			}
			(void)!qtrace_rewind(t);
			(void)!qtrace_next(t, &i);
			sbuf_free(&b);
			qtrace_close(t);
		}
	}
	qevents_free(q);
	if (fd >= 0)
		close(fd);
}

#endif
