/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * room.h: the parts of `kvmft stuck`.
 *
 * judge.c   from what was seen to a class; asks nobody
 * watch.c   events of KVM, counted per vCPU, by a ring; exits, by the kernel
 * recording.c  the same of a capture
 * run.c     order of setting up, looking and undoing; a thread in /proc: where it is, what it
 *           got of the CPUs and of its cgroup; KVM's timers; why KVM_RUN returned last
 * words.c   a verdict in a sentence; text and JSON
 */
#pragma once

#include "kvmft/events.h"
#include "kvmft/live.h"
#include "kvmft/stuck.h"
#include "kvmft/vm.h"

struct stuck_task {
	int dir; /* /proc/PID/task/TID; -1 = it is gone */
	char state;
	char wchan[64], syscall[24]; /* of the last look that found it asleep; "" = none */
	bool in_run;		     /* that system call is KVM_RUN */
	bool looked;		     /* what follows is known */
	enum stuck_at at;
	struct stuck_cpu {
		bool known; /* the first three */
		uint64_t run, delay, turns, user, kernel, guest;
	} first, last;
	struct stuck_throttle {
		uint64_t n, ns;
		char path[256]; /* of the cgroup; "" = none ever was */
	} throttle;
};

struct stuck_vcpu {
	const struct vm *vm;
	const struct vm_vcpu *vcpu;
	struct stuck_task task;
	struct stuck_obs obs;
	struct stuck_verdict v;
	struct stuck_peek {
		uint32_t reason;
		uint64_t address; /* of IO and MMIO */
		bool write;
	} peek;
	/* Stamps (CLOCK_MONOTONIC, 0 = none seen) of what last came for it. */
	uint64_t irq_ns, timer_ns;
	uint64_t exit, rip;	   /* STUCK_REASON() of the last one, and where */
	enum stuck_what exit_what; /* ... and what it counts as */
	bool open;		   /* ... it is a STUCK_EXIT, and what it was for is to come */
	bool ahead;		   /* that came before: the next one was a STUCK_UPKEEP */
	/* Of a recording: its last exit or entry, if that was a halt, how long it was where. */
	uint64_t since, spent[STUCK_ATS];
	bool halted;
	/* The guest's own capture: which of its tasks runs, if known, and at how many RIPs. */
	const struct tl_source *guest;
	bool has_task;
	uint32_t guest_task;
	struct stuck_ran {
		uint32_t tid;
		char comm[16];
		uint64_t n;
	} * ran; /* the most frequent first, when all was read */
	size_t nran, ran_cap;
};

struct stuck_events {
	struct kevent_list list;
	struct fmt *fmt;
	const struct fmt_event *exit, *wfx; /* NULL: there is none that is understood */
	struct exit_names names;
	struct kcpus cpus;
	int *raw;
	struct subbuf_geom geom;
	uint8_t *buf;
	size_t next_cpu;
	uint64_t read;
	bool mono; /* stamps are CLOCK_MONOTONIC */
};

/* Of all guests of this host: the kernel does not say whose they are. */
struct stuck_timers {
	bool known;
	uint64_t n, next_ns; /* from now on */
};

struct stuck {
	const struct stuck_config *c;
	note_fn *note;
	struct kvmft_err *err;
	struct ktracefs *t;
	struct kinst *k;
	bool hist;		       /* exits are counted by the kernel */
	uint64_t hist_ns, hist_end_ns; /* CLOCK_MONOTONIC: from when to when they were */
	struct vm_list *vms;
	const struct vm *only;
	struct stuck_vcpu *vcpu; /* n of them, by VM and id */
	size_t n, cap;
	struct u64map by_tid; /* vCPUs */
	/* all threads of VMMs: a vCPU of the VM */
	struct u64map vm_of;
	struct stuck_events ev;
	const struct ksyms *syms; /* of the guest; NULL: none */
	uint32_t walked;	/* the VMM whose threads are in vm_of */
	uint32_t peeked;	/* ... whose memory was read last, */
	unsigned int peek_ms, patience_ms; /* ... how long it may take, and all together */
	int signal_fd;
	uint64_t begin_ns, ns, end_ns; /* CLOCK_MONOTONIC; looked for ns */
	uint64_t lost;
	struct stuck_timers timers;	   /* known if a vCPU is halted */
	bool untimed; /* a recording in ticks of unknown length: ns is 0 */
	bool partial; /* a recording in which whole CPUs may be missing */
	bool blind, cut;		   /* ended by a signal */
	bool unread;			   /* the newest events are not known */
	struct stuck_recording *recording; /* NULL: it is live */
	uint32_t lacks;			   /* ... which has not these (kvmft/evidence.h) */
};

/* ---- watch.c: 0 or -errno with s->err set ---- */

int stuck_watch_begin(struct stuck *s);
/* As much as ns of CPU time allow, at least a sub-buffer. last: of each CPU, and events end. */
int stuck_watch_read(struct stuck *s, uint64_t ns, bool last);
void stuck_watch_end(struct stuck *s);
/* The kernel counts, from now on, exits of vCPUs of which the ring shows too little, if it can. */
void stuck_hist_some(struct stuck *s);
/* Call it once: it replaces what the ring has of these vCPUs' exits by what was counted. */
int stuck_hist_read(struct stuck *s);
void stuck_watch_events(struct stuck *s); /* finds the events in s->ev.fmt */
/* The first thread that runs that vCPU, or NULL. */
struct stuck_vcpu *stuck_vcpu_find(const struct stuck *s, const struct vm *vm, uint64_t id);
/* Any event. */
void stuck_watch_take(struct stuck *s, const struct event_type *e, const struct rec *rec);

/* ---- recording.c: 0 or -errno with s->err set ---- */

/* In the place of looking: reads all of s->c->input. */
int stuck_recording_open(struct stuck *s);
void stuck_recording_free(struct stuck_recording *r);
/* What is not recorded, and how to record it. Returns whether anything was lost. */
bool stuck_recording_note(const struct stuck *s);
/* The same in JSON; nothing of a live look. */
struct json;
void stuck_recording_needs(const struct stuck *s, struct json *j);

/* ---- words.c ---- */

void stuck_print(const struct stuck *s, struct sbuf *out); /* 0 or -ENOMEM, -EINVAL */
