/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest.h: between guest.c, which runs the guests of every architecture, and guest_ARCH.c, which
 * has their code and knows how they are made. A guest goes through its steps (enum truth_step) in
 * rounds, and keeps its counter after each.
 */
#pragma once

#include "prove.h"

#if defined(__x86_64__) || defined(__aarch64__)
#include <linux/kvm.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "kvmft/kernel.h"

#define CODE_AT	    0x1000u
#define LOG_AT	    0x2000u
#define LOG_END	    0xf000u
#define VCPU_MEM    0x10000u /* each has its own, CODE_AT and so on are in it */
#define COST_EXITS  200u     /* of the code */
#define COST_ROUNDS 10u
#define ROUNDS	    ((LOG_END - LOG_AT) / 8 / TRUTH_STEPS) /* that have room */
#define HALF_NS	    2000000000ull
#define IRQ	    1u

struct vcpu {
	struct tiny_vm *vm;
	struct truth_vcpu *truth;
	struct kvm_run *run;
	pthread_t thread;
	uint8_t *mem;
	unsigned int id;
	bool halts;	/* in each round */
	size_t rounds;	/* of which the guest has kept the stamps */
	uint64_t since; /* CLOCK_MONOTONIC, ns */
	int fd;
};

struct tiny_vm {
	struct run *all;
	struct truth_vm *truth;
	struct vcpu vcpu[TRUTH_VCPUS];
	uint8_t *mem;
	int fd;
};

struct run {
	struct truth *truth;
	struct tiny_vm vm[TRUTH_VMS];
	int kvm;
	atomic_bool bared, begun; /* of the first VM: the exit was measured, it is recorded */
	atomic_bool halved, over; /* ... of vCPU 0's rounds */
	int cpu;		  /* then: of both its vCPUs */
	pthread_barrier_t both;
};

int fails(struct run *r, const char *what);
/* VM number i, as far as all architectures have the same; calls arch_vm() and arch_vcpu(). */
int vm_new(struct run *r, size_t i, uint32_t vcpus);
/* Both vCPUs of the first VM share r->cpu from now on. */
void share_cpu(struct run *r);

/* ---- of an architecture ---- */

/*
 * How often the first VM's vCPUs run until the log is full, each time with its own truth_vm; and
 * where the guest's memory is.
 */
extern const unsigned int arch_runs;
extern const uint64_t arch_memory;
extern const char arch_no_kvm[];

int arch_create(struct run *r); /* descriptor of a new VM, or a negative number */
int arch_vm(struct tiny_vm *vm);
int arch_vcpu(struct vcpu *v);
int arch_others(struct run *r); /* what else there is, with the first VM made */
/* It begins with so many rounds that cost, or 0: with its steps. */
int arch_begin(struct vcpu *v, uint64_t cost);
enum guest_exit { GUEST_ELSE, GUEST_ROUND, GUEST_END, GUEST_OTHER };
enum guest_exit arch_exit(const struct vcpu *v);
int arch_round(struct vcpu *v);	      /* one is done */
int arch_again(struct vcpu *v);	      /* of vCPU 0, before all run again */
void arch_kick(const struct run *r); /* wakes vCPU 0 */
#endif
