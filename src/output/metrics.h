/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * metrics.h: lines of metrics, valid both as OpenMetrics 1.0 and as the older Prometheus text.
 * Private to src/output.
 */
#ifndef KVMFT_OUTPUT_METRICS_H
#define KVMFT_OUTPUT_METRICS_H

#include "kvmft/hostmap.h"

#define METRICS_VMS	1000u /* that have labels; the others are only counted */
#define METRICS_REASONS 100u  /* of a VM, the most frequent; a guest may choose them (--event) */

/* # TYPE and # HELP of a family; type: "gauge", "histogram". */
void metric_head(struct sbuf *b, const char *name, const char *type, const char *help);
/* NAME="VALUE": backslash, quote and newline are escaped, and it is made UTF-8; NULL is "". */
void metric_label(struct sbuf *b, const char *name, const char *value);
/*
 * vm="...",uuid="..." of a VM, one of vms (the first of them); NULL: unknown. Of those with the
 * same name all but the first have number="2" and so on: no two samples may have the same labels.
 */
void metric_vm(struct sbuf *b, const struct hostmap_vm *vms, const struct hostmap_vm *vm);
/* ns in seconds, exactly. */
void metric_seconds(struct sbuf *b, uint64_t ns);
/* How long a host was recorded, and what it lost: families without labels of VMs. */
void metric_capture(struct sbuf *b, const struct capture *cap, uint64_t events, uint64_t lost,
		    bool lost_unknown);

#endif
