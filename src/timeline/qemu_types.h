/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_types.h: formats and records for QEMU's events, like the kernel's. Private to src/timeline.
 */
#ifndef KVMFT_TIMELINE_QEMU_TYPES_H
#define KVMFT_TIMELINE_QEMU_TYPES_H

#include "kvmft/qemu_trace.h"
#include "kvmft/ring.h"

struct qtypes {
	struct fmt *fmt;
	struct qtype {
		const struct qev *ev; /* NULL: text or numbers only */
		char *name;
	} *v; /* by event id - 1 */
	size_t n, cap;
	struct hash_key key;
	struct u64map by_key;
};

int qtypes_init(struct qtypes *t, struct kvmft_err *err) __must_check;
void qtypes_free(struct qtypes *t);
/* A record of an event; *data is the caller's. 0, -ENOMEM, -E2BIG: too many kinds of events. */
int qtypes_record(struct qtypes *t, const struct qtrace_item *i, uint16_t *id, uint8_t **data,
		  uint32_t *len) __must_check;
/* The fields of such a record as QEMU's format shows them. */
void qtypes_print(const struct qtypes *t, const struct rec *rec, struct sbuf *out);

#endif
