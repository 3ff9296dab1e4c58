/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat.h: writing trace.dat files that trace-cmd and KernelShark read.
 *
 * The file is written front to back in one pass, CPU by CPU, in bounded memory:
 *
 *	tdw_create()
 *	tdw_facts(), tdw_*_option() ...		facts
 *	for each buffer: tdw_buffer(), for each of its CPUs: tdw_cpu(), tdw_subbuf() ...
 *	tdw_close()
 *
 * Offsets that are known only later are patched in, so the file must be a regular one.
 */
#pragma once

#include "kvmft/capture.h"

/* Option numbers, as libtracecmd assigns them. */
enum td_opt {
	TD_DONE = 0,
	TD_DATE = 1,
	TD_CPUSTAT = 2,
	TD_BUFFER = 3,
	TD_TRACECLOCK = 4,
	TD_UNAME = 5,
	TD_OFFSET = 7,
	TD_CPUCOUNT = 8,
	TD_VERSION = 9,
	TD_TRACEID = 11,
	TD_TIME_SHIFT = 12,
	TD_GUEST = 13,
	TD_TSC2NSEC = 14,
	TD_STRINGS = 15,
	TD_HEADER_INFO = 16, /* v7: also the section ids */
	TD_FTRACE_EVENTS = 17,
	TD_EVENT_FORMATS = 18,
	TD_KALLSYMS = 19,
	TD_PRINTK = 20,
	TD_CMDLINES = 21,
	TD_BUFFER_TEXT = 22,
};

/* In the text of VERSION: capture.h, some_switches, flight, and grain, in ns. */
#define TD_SOME	  " (switches of VMs' threads)"
#define TD_FLIGHT " (flight recorder)"
#define TD_GRAIN  " (times within ns: "

struct tdw;

struct tdw_spec {
	struct subbuf_geom g;	   /* of all sub-buffers */
	const struct capture *cap; /* formats, tasks and printk formats come from it; borrowed */
	const char *clock;	   /* the trace clock, "x86-tsc" */
	uint32_t cpus;		   /* of the top buffer: 1 + the highest number */
	/* Names of further buffers (tracefs instances), in the order in which they are written. */
	const char *const *instance;
	const uint32_t *instance_cpus;
	size_t ninstance;
	bool part;		   /* not all of the capture: its counters do not apply */
};

/*
 * Begins one in an empty file open for writing (borrowed); spec and what it points to must outlive
 * it. -EINVAL: nothing that a trace.dat can hold. Later errors come out of tdw_subbuf(), or
 * tdw_close().
 */
int tdw_create(int fd, const struct tdw_spec *spec, struct tdw **out) __must_check;
/* The next buffer: the top one first, then the named ones, all of them. */
void tdw_buffer(struct tdw *w);
/* CPUs of a buffer in ascending order; CPUs left out are empty. */
void tdw_cpu(struct tdw *w, uint32_t cpu);
/* spec->g.size bytes of the current CPU; w is the struct tdw. 0 or -errno. */
int tdw_subbuf(void *w, const void *buf) __must_check;
/* So many events went into the current CPU: for CPUSTAT. */
void tdw_events(struct tdw *w, uint64_t n);
/* Completes the file: 0 or -errno. ret != 0: an earlier error, which is returned. Frees w. */
int tdw_close(struct tdw *w, int ret) __must_check;

/* The blocks before the CPUs, which a perf.data has, too. */
void tdw_blocks(const struct tdw_spec *spec, struct sbuf *b);

/* Options from what a capture says, before the first buffer. */

void tdw_facts(struct tdw *w); /* UNAME, VERSION, CPUSTAT, OFFSET */
/* A number that identifies this recording: the capture's TRACEID, else derived from its facts. */
uint64_t tdw_trace_id(const struct capture *cap);
/* The same for a guest known only by its UUID. */
uint64_t tdw_trace_id_of_uuid(const char *uuid);
void tdw_id_option(struct tdw *w, uint64_t id);

/* ns = ticks * mult >> shift, for a TSC of khz; false if khz is 0 or no mult fits. */
bool tdw_tsc2nsec(uint64_t khz, uint32_t *mult, uint32_t *shift);
void tdw_tsc2nsec_option(struct tdw *w, uint32_t mult, uint32_t shift);

/* GUEST: tid[i] is the host thread of guest CPU i, 0 = unknown. */
void tdw_guest_option(struct tdw *w, const char *name, uint64_t id, const int32_t *tid, uint32_t n);

/*
 * TIME_SHIFT: how readers move the stamps of each CPU, shift[cpu], onto the clock of the file whose
 * TRACEID is peer. They never use the last sample of a CPU, and need at least two.
 */
void tdw_time_shift_option(struct tdw *w, uint64_t peer, uint64_t flags,
			   const struct cap_shift *shift, uint32_t n);
