/* SPDX-License-Identifier: GPL-2.0-or-later */
/* metrics.c: what all metrics have in common. */
#include "metrics.h"

#include <inttypes.h>

#include "kvmft/clock.h"

void metric_head(struct sbuf *b, const char *name, const char *type, const char *help)
{
	sbuf_addf(b, "# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

void metric_label(struct sbuf *b, const char *name, const char *value)
{
	size_t left = value ? strlen(value) : 0;

	sbuf_addf(b, "%s=\"", name);
	while (left) {
		size_t n = str_utf8_len(value, left);

		if (*value == '\n')
			sbuf_add(b, "\\n");
		else if (*value == '\\' || *value == '"')
			sbuf_addf(b, "\\%c", *value);
		else if (!n)
			sbuf_addc(b, '?');
		else
			sbuf_add_mem(b, value, n);
		value += n ?: 1;
		left -= n ?: 1;
	}
	sbuf_addc(b, '"');
}

static const char *uuid_of(const struct hostmap_vm *vm)
{
	return vm->cap && vm->cap->uuid ? vm->cap->uuid : "";
}

void metric_vm(struct sbuf *b, const struct hostmap_vm *vms, const struct hostmap_vm *vm)
{
	size_t number = 1;

	for (const struct hostmap_vm *v = vms; vm && v < vm; v++)
		number += !strcmp(v->label, vm->label) && !strcmp(uuid_of(v), uuid_of(vm));
	metric_label(b, "vm", vm ? vm->label : NULL);
	sbuf_addc(b, ',');
	metric_label(b, "uuid", vm ? uuid_of(vm) : NULL);
	if (number > 1)
		sbuf_addf(b, ",number=\"%zu\"", number);
}

void metric_seconds(struct sbuf *b, uint64_t ns)
{
	sbuf_addf(b, "%" PRIu64 ".%09u", ns / 1000000000, (unsigned int)(ns % 1000000000));
}

void metric_capture(struct sbuf *b, const struct capture *cap, uint64_t events, uint64_t lost,
		    bool lost_unknown)
{
	uint64_t end = cap->stop_tsc ?: cap->end_tsc;

	if (cap->tsc_khz && cap->begin_tsc && end > cap->begin_tsc) {
		metric_head(b, "kvmft_capture_seconds", "gauge", "How long the host was recorded.");
		sbuf_add(b, "kvmft_capture_seconds ");
		metric_seconds(b, tsc_cycles_to_ns(end - cap->begin_tsc, cap->tsc_khz));
		sbuf_addc(b, '\n');
	}
	metric_head(b, "kvmft_capture_events", "gauge", "Events of the host that were recorded.");
	sbuf_addf(b, "kvmft_capture_events %" PRIu64 "\n", events);
	metric_head(b, "kvmft_capture_lost_events", "gauge",
		    "Events of the host that were lost; at least, if some were not counted.");
	sbuf_addf(b, "kvmft_capture_lost_events %" PRIu64 "\n", lost ?: lost_unknown);
}
