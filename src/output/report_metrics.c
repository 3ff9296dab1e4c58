/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_metrics.c: a report as metrics. Each capture is a sample of its host, so all of them are
 * gauges; labels are the VM and what KVM has few of.
 */
#include "report_metrics.h"
#include "metrics.h"
#include "kvmft/evidence.h"

enum family { EXITS, SECONDS, PARTS, GUEST, FAMILIES };

static const struct {
	const char *name, *help;
	bool time, split;
} families[FAMILIES] = {
	[EXITS] = { "kvmft_exits", "Exits of the VM in the capture.", false, false },
	[SECONDS] = { "kvmft_exit_seconds", "Time from exits to entries, idle time included.", true,
		      false },
	[PARTS] = { "kvmft_exit_part_seconds", "What that time was spent on.", true, true },
	[GUEST] = { "kvmft_guest_seconds", "Time between entries and exits.", true, true },
};

static void put(const struct report_doc *d, enum family f, const struct hostmap_vm *vm,
		const char *label, const char *value, uint64_t v, struct sbuf *b)
{
	sbuf_addf(b, "%s{", families[f].name);
	metric_vm(b, report_vm(d->r, 0), vm);
	if (label) {
		sbuf_addc(b, ',');
		metric_label(b, label, value);
	}
	sbuf_add(b, "} ");
	if (families[f].time)
		metric_seconds(b, v);
	else
		sbuf_add_u64(b, v);
	sbuf_addc(b, '\n');
	if (b->len >= 64u << 10) {
		int ret = sbuf_write(b, d->f);

		b->error = b->error ?: ret;
	}
}

static void rows(const struct report_doc *d, enum family f, const struct hostmap_vm *vm,
		 const struct report_table *t, struct sbuf *b)
{
	char name[METRICS_REASONS + 1][REPORT_NAME];
	uint64_t v[METRICS_REASONS + 1] = { 0 };
	size_t n = 0, k;

	for (size_t i = 0; i < t->n; i++) {
		if (n < METRICS_REASONS)
			report_row_name(d->r, &t->row[i], name[n]);
		else
			strcpy(name[n], "(others)");
		/* A capture may call two reasons the same. */
		for (k = 0; strcmp(name[k], name[n]);)
			k++;
		n += k == n && n < METRICS_REASONS;
		v[k] += f == EXITS ? t->row[i].samples : t->row[i].total_time;
	}
	for (k = 0; k < n || (k == METRICS_REASONS && v[k]); k++)
		put(d, f, vm, "reason", name[k], v[k], b);
}

static void parts(const struct report_doc *d, const struct hostmap_vm *vm,
		  const struct report_table *t, struct sbuf *b)
{
	char unknown[EVIDENCE_TEXT];

	for (int p = 0; p < REPORT_PARTS; p++)
		if (!report_row_lacks(d->r, t, NULL, (enum report_part)p))
			put(d, PARTS, vm, "part", report_part_names[p], t->part_time[p], b);
	put(d, PARTS, vm, "part", "unknown",
	    report_row_unknown(d->r, t, NULL, unknown, sizeof(unknown)), b);
}

static void family_of_vm(const struct report_doc *d, enum family f,
			 const struct report_filter *filter, struct sbuf *b)
{
	const struct hostmap_vm *vm =
		filter->vm < 0 ? NULL : report_vm(d->r, (size_t)filter->vm);
	struct report_table t;
	int ret = report_table(d->r, filter, KEY_SAMPLE, &t);

	if (ret) {
		b->error = ret;
		return;
	}
	if (f == EXITS || f == SECONDS)
		rows(d, f, vm, &t, b);
	else if (f == PARTS)
		parts(d, vm, &t, b);
	else
		put(d, f, vm, NULL, NULL, t.guest_time, b);
	report_table_free(&t);
}

void report_metrics(const struct report_doc *d, struct sbuf *b)
{
	struct report_filter filter;
	size_t n = 0;

	metric_capture(b, d->cap, report_totals(d->r)->events, d->lost, d->lost_unknown);
	for (unsigned int f = 0; f < FAMILIES && !b->error; f++) {
		if ((families[f].time && report_in_cycles(d->r)) ||
		    (families[f].split && !d->opts->split))
			continue;
		metric_head(b, families[f].name, "gauge", families[f].help);
		n = 0;
		for (size_t vm = 0; vm <= report_vms(d->r) && !b->error; vm++)
			if (report_vm_filter(d, vm, &filter) && ++n <= METRICS_VMS)
				family_of_vm(d, (enum family)f, &filter, b);
	}
	metric_head(b, "kvmft_vms_left_out", "gauge", "VMs left out, as there are too many for "
						      "labels.");
	sbuf_addf(b, "kvmft_vms_left_out %zu\n# EOF\n", n > METRICS_VMS ? n - METRICS_VMS : 0);
}
