/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_anchor.h: what both the kernel's trace of a host and QEMU's trace of itself show: doorbells,
 * interrupts, returns to QEMU and the accesses that it handles. If nothing else gives the time of
 * QEMU's trace, they do. Private to src/timeline.
 */
#ifndef KVMFT_TIMELINE_QEMU_ANCHOR_H
#define KVMFT_TIMELINE_QEMU_ANCHOR_H

#include "kvmft/timeline.h"

enum qanchor_kind {
	QANCHOR_BELL,  /* the guest writes to an ioeventfd; QEMU handles the queue later */
	QANCHOR_IRQ,   /* QEMU raises an interrupt: first QEMU traces it, then KVM */
	QANCHOR_EXIT,  /* a vCPU came back to QEMU, by reason */
	QANCHOR_RUN,   /* ... and is about to be run again */
	QANCHOR_WRITE, /* QEMU handles a write to a port or to memory */
	QANCHOR_READ,  /* ... or a read */
	QANCHOR_PRINT, /* a marker that QEMU wrote itself */
	QANCHOR_KINDS,
};

struct qanchor {
	uint64_t at;	 /* host: TSC of the event; QEMU: ns */
	uint64_t lo, hi; /* host: QEMU's event was between them, TSC; 0, UINT64_MAX: no bound */
	uint64_t label;	 /* what it is about: only compared for equality */
	uint32_t seq;	 /* QEMU: keeps the order of the file among equals */
	uint8_t kind;
};

/* Zero-initialised. */
struct qanchors {
	struct qanchor *v;
	size_t n, cap;
	bool prints; /* host: markers are among them */
	uint64_t unit;	      /* QEMU: resolution of its times, ns */
	uint64_t first, last; /* host: TSC of its first and its last event of any kind */
};

#define QANCHOR_MAX (1u << 20) /* of one side; the rest is not needed */

/* Those in the map's host capture, of VM number vm or (-1) of all; by time. 0 or -errno. */
int qanchors_host(struct hostmap *map, int64_t vm, struct qanchors *out,
		  struct kvmft_err *err) __must_check;
/*
 * Those in QEMU's trace from its current position that have a time, in the order of the file.
 * prints: events of any name, for the host's markers. 0 or -errno.
 */
int qanchors_qemu(struct qtrace *trace, bool prints, struct qanchors *out) __must_check;
/* By kind, by label, by time. */
void qanchors_sort_lanes(struct qanchors *a);
void qanchors_free(struct qanchors *a);

#endif
