/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lat_metrics.c: latency results as metrics: a histogram for each analysis and VM, how the VM's
 * vCPUs spent their time, and whether the guest's clock could be trusted. Interrupts and tasks are
 * not labels: there would be no end of them. No family is one of report_metrics.c, because a host
 * has both files.
 */
#include "kvmft/lat_output.h"

#include <inttypes.h>

#include "metrics.h"

/* Buckets end at 2^k - 1 ns, which loghist counts exactly: 1 us, 4 us ... 4.3 s. */
#define LE_FIRST 10
#define LE_LAST	 32
#define LE_STEP	 2

static const struct hostmap_vm *vm_at(const struct lat_view *v, size_t vm)
{
	return &tl_hostmap(v->t)->vm[vm];
}

static void labels(const struct lat_view *v, const struct lat_desc *d, size_t vm, struct sbuf *b)
{
	sbuf_addc(b, '{');
	metric_label(b, "analysis", d->name);
	sbuf_addc(b, ',');
	metric_vm(b, vm_at(v, 0), vm_at(v, vm));
}

static uint64_t up_to(const struct loghist *h, uint64_t most)
{
	uint64_t n = 0, lo, hi;

	for (unsigned int i = 0; i < LOGHIST_BUCKETS; i++) {
		loghist_bounds(i, &lo, &hi);
		if (hi > most)
			break;
		n += h->count[i];
	}
	return n;
}

static void histogram(const struct lat_view *v, const struct lat_desc *d, size_t vm,
		      const struct loghist *h, struct sbuf *b)
{
	for (unsigned int k = LE_FIRST; k <= LE_LAST; k += LE_STEP) {
		uint64_t most = ((uint64_t)1 << k) - 1;

		sbuf_add(b, "kvmft_latency_seconds_bucket");
		labels(v, d, vm, b);
		sbuf_add(b, ",le=\"");
		metric_seconds(b, most);
		sbuf_addf(b, "\"} %" PRIu64 "\n", up_to(h, most));
	}
	sbuf_add(b, "kvmft_latency_seconds_bucket");
	labels(v, d, vm, b);
	sbuf_addf(b, ",le=\"+Inf\"} %" PRIu64 "\nkvmft_latency_seconds_sum", h->n);
	labels(v, d, vm, b);
	sbuf_add(b, "} ");
	metric_seconds(b, h->sum > UINT64_MAX ? UINT64_MAX : (uint64_t)h->sum);
	sbuf_add(b, "\nkvmft_latency_seconds_count");
	labels(v, d, vm, b);
	sbuf_addf(b, "} %" PRIu64 "\n", h->n);
}

/* All groups of a VM together. */
static void table_metrics(const struct lat_view *v, const struct lat_table *t, size_t nvm,
			  struct sbuf *b)
{
	for (size_t vm = 0; vm < nvm; vm++) {
		struct loghist all = { 0 };

		for (size_t i = 0; i < t->ngroup; i++)
			if (t->group[i].vm == (int64_t)vm && t->group[i].stage[0])
				loghist_merge(&all, t->group[i].stage[0]);
		if (all.n)
			histogram(v, t->desc, vm, &all, b);
	}
}

static void histograms(const struct lat_view *v, size_t nvm, struct sbuf *b)
{
	metric_head(b, "kvmft_latency_seconds", "histogram",
		    "How long it took, from its cause to its effect.");
	for (unsigned int id = 0; id < LAT_TABLES; id++)
		/* Those after LAT_T_MEM have its cases once more. */
		if (lat_has_table(v->lat, (enum lat_table_id)id) && id != LAT_T_STEALER &&
		    id <= LAT_T_MEM)
			table_metrics(v, lat_table(v->lat, (enum lat_table_id)id), nvm, b);
}

static void states(const struct lat_view *v, size_t nvm, struct sbuf *b)
{
	metric_head(b, "kvmft_vcpu_seconds", "gauge",
		    "What the vCPUs of the VM did, all together.");
	for (size_t vm = 0; vm < nvm; vm++) {
		uint64_t sum[VS_STATES] = { 0 };
		bool any = false;

		for (size_t i = 0; i < lat_vcpus(v->lat); i++) {
			struct lat_times t;

			if (!lat_vcpu_times(v->lat, i, &t))
				continue;
			for (unsigned int s = 0; s < VS_STATES && t.vm == vm; s++)
				sum[s] += t.time[s];
			any |= t.vm == vm && t.last;
		}
		for (unsigned int s = 0; s < VS_STATES && any; s++) {
			if (lat_lacks(v->lat, "vcpu", vs_names[s]))
				continue;
			sbuf_add(b, "kvmft_vcpu_seconds{");
			metric_vm(b, vm_at(v, 0), vm_at(v, vm));
			sbuf_addf(b, ",state=\"%s\"} ", vs_names[s]);
			metric_seconds(b, lat_of_cycles(v, sum[s]));
			sbuf_addc(b, '\n');
		}
	}
}

static void alignment(const struct lat_view *v, size_t nvm, struct sbuf *b)
{
	metric_head(b, "kvmft_alignment_ok", "gauge",
		    "1: all events of the guest lie between an entry and an exit of their vCPU.");
	for (size_t vm = 0; vm < nvm; vm++) {
		if (!v->bound || !v->bound[vm].guest)
			continue;
		sbuf_add(b, "kvmft_alignment_ok{");
		metric_vm(b, vm_at(v, 0), vm_at(v, vm));
		sbuf_addf(b, "} %d\n", v->bound[vm].known);
	}
}

static int metrics_print(const struct lat_view *v, FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	size_t all = tl_hostmap(v->t)->nvm, nvm = MIN(all, (size_t)METRICS_VMS);

	if (!lat_in_cycles(v->lat)) {
		histograms(v, nvm, &b);
		states(v, nvm, &b);
	}
	alignment(v, nvm, &b);
	metric_head(&b, "kvmft_latency_vms_left_out", "gauge", "VMs left out, as there are too "
		"many for labels.");
	sbuf_addf(&b, "kvmft_latency_vms_left_out %zu\n# EOF\n", all - nvm);
	return sbuf_write(&b, f);
}

const struct lat_format lat_metrics = {
	.name = "openmetrics",
	.help = "for Prometheus",
	.print = metrics_print,
};
