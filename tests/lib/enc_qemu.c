/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * enc_qemu.c: files of QEMU's trace back end simple, written from the description of the formats.
 */
#include "enc_qemu.h"

#include <stdlib.h>
#include <string.h>

#include "enc.h"

void enc_simple_begin(struct enc_simple *e, unsigned int version)
{
	*e = (struct enc_simple){ .version = version };
	enc_u64(&e->b, UINT64_MAX);
	enc_u64(&e->b, 0xf2b177cb0aa429b4u);
	enc_u64(&e->b, version);
	for (int i = 0; !version && i < 5; i++)
		enc_u64(&e->b, 0);
}

void enc_simple_name(struct enc_simple *e, uint64_t id, const char *name)
{
	if (e->version != 4)
		return;
	enc_u64(&e->b, 0);
	enc_u64(&e->b, id);
	enc_u32(&e->b, (uint32_t)strlen(name));
	sbuf_add(&e->b, name);
}

void enc_simple_event(struct enc_simple *e, uint64_t id, uint64_t ns, uint32_t pid,
		      const struct enc_simple_arg *arg, size_t n)
{
	uint32_t len = 24;

	for (size_t i = 0; i < n; i++)
		len += arg[i].s ? 4 + (uint32_t)strlen(arg[i].s) : 8;
	if (e->version == 4)
		enc_u64(&e->b, 1);
	enc_u64(&e->b, id);
	enc_u64(&e->b, ns);
	if (!e->version) {
		if (n > 6)
			abort();
		for (size_t i = 0; i < 6; i++)
			enc_u64(&e->b, i < n ? arg[i].num : 0);
		return;
	}
	enc_u32(&e->b, len);
	enc_u32(&e->b, e->version == 2 ? 0 : pid);
	for (size_t i = 0; i < n; i++) {
		if (arg[i].s) {
			enc_u32(&e->b, (uint32_t)strlen(arg[i].s));
			sbuf_add(&e->b, arg[i].s);
		} else {
			enc_u64(&e->b, arg[i].num);
		}
	}
}

void enc_simple_dropped(struct enc_simple *e, uint64_t ns, uint64_t count)
{
	enc_simple_event(e, UINT64_MAX - 1, ns, 0, &(struct enc_simple_arg){ .num = count }, 1);
}
