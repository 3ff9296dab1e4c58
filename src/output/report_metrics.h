/* SPDX-License-Identifier: GPL-2.0-or-later */
/* report_metrics.h: what the formats of a report share. Private to src/output. */
#ifndef KVMFT_OUTPUT_REPORT_METRICS_H
#define KVMFT_OUTPUT_REPORT_METRICS_H

#include "kvmft/report_out.h"

/*
 * VM number vm, or the threads whose VM is unknown (vm = report_vms()). False: it has no samples.
 */
bool report_vm_filter(const struct report_doc *d, size_t vm, struct report_filter *f);
void report_metrics(const struct report_doc *d, struct sbuf *b);

#endif
