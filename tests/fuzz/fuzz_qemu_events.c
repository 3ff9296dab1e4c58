/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_qemu_events.c: declarations of trace-events-all; what they declare is printed and scanned.
 */
#include "kvmft/qemu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct qev_value v[QEV_MAX_ARGS] = {
		{ .num = 1 }, { .num = UINT64_MAX }, { .s = "text", .len = 4 }, { .num = 0 },
	};
	struct qev_value back[QEV_MAX_ARGS];
	struct sbuf b = { 0 };
	struct qevents *q;

	if (qevents_parse((const char *)data, size, "fuzz", &q, NULL))
		return 0;
	for (size_t i = 0; i < qevents_count(q) && i < 64; i++) {
		const struct qev *e = qevents_at(q, i);

		sbuf_reset(&b);
		qev_print(e, v, e->nargs, &b);
		(void)qev_scan(e, b.s ? b.s : "", b.len, back);
		(void)qev_scan(e, (const char *)data, size, back);
	}
	sbuf_free(&b);
	qevents_free(q);
	return 0;
}
