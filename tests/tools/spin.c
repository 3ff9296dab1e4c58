/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * spin: keeps a CPU in the kernel for a known time, without a module. For machines of the rig alone.
 *
 *   spin MS TIMES                          with interrupts off
 *   spin MS TIMES TRACEPOINT TID [CPU]     where that thread (0: an idle CPU) hits TRACEPOINT
 *
 * A BPF program is attached to the tracepoint and spins there for MS, TIMES times, at most once in three MS.
 * Without TRACEPOINT it is sched_switch, and this process itself goes to sleep TIMES times: the kernel switches
 * tasks with interrupts off. On stderr, a line "at SECONDS" for each tells when it began, in time since boot. The
 * only line is "sum_us=N longest_us=N times=N", as measured there.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kvmft/util.h"

/*
 * The kernel's checker walks through all rounds, and allows 8192 of them. So each round must take
 * long.
 */
#define ROUNDS 7000
#define COPY   (256u << 10) /* bytes, in each round */
#define WAIT_S 60

#define TIMES_MAX 64 /* 2^n */

#define INSN(op, dst, src, offset, value) \
	{ .code = (op), .dst_reg = (dst), .src_reg = (src), .off = (offset), .imm = (value) }
#define MOV(dst, src)	     INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define MOV_IMM(dst, value)  INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value)
#define ADD(dst, src)	     INSN(BPF_ALU64 | BPF_ADD | BPF_X, dst, src, 0, 0)
#define ADD_IMM(dst, value)  INSN(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, value)
#define CALL(helper)	     INSN(BPF_JMP | BPF_CALL, 0, 0, 0, helper)
#define LOAD(dst, member)    INSN(BPF_LDX | BPF_MEM | BPF_DW, dst, R6, offsetof(struct result, member), 0)
#define STORE(member, src)   INSN(BPF_STX | BPF_MEM | BPF_DW, R6, src, offsetof(struct result, member), 0)
#define EXIT()		     INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
/* Ends the program, unless the condition holds. */
#define UNLESS(op, dst, src, value) INSN(BPF_JMP | (op), dst, src, 2, value), MOV_IMM(R0, 0), EXIT()

enum { R0, R1, R2, R3, R6 = 6, R7, R8, R9, R10 };

struct result {
	uint64_t sum, longest, times, next;
	uint64_t at[TIMES_MAX]; /* when they began */
	uint8_t copy[COPY];
};

struct plan {
	uint32_t us, times;
	const char *tracepoint;
	int32_t tid, cpu; /* cpu < 0: any */
};

static int bpf(unsigned int cmd, union bpf_attr *attr)
{
	int fd = (int)syscall(__NR_bpf, cmd, attr, sizeof(*attr));

	return fd < 0 ? -errno : fd;
}

static int make_map(void)
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .max_entries = 1 };

	attr.value_size = sizeof(struct result);
	return bpf(BPF_MAP_CREATE, &attr);
}

static int load(int map, const struct plan *p)
{
	bool own = !p->tracepoint;
	struct bpf_insn prog[] = {
		CALL(BPF_FUNC_get_current_pid_tgid),
		INSN(BPF_ALU64 | (own ? BPF_RSH : BPF_LSH) | BPF_K, R0, 0, 0, 32),
		INSN(BPF_ALU64 | BPF_RSH | BPF_K, R0, 0, 0, own ? 0 : 32),
		UNLESS(BPF_JEQ, R0, 0, own ? getpid() : p->tid),
		CALL(BPF_FUNC_get_smp_processor_id),
		MOV_IMM(R1, p->cpu),
		INSN(BPF_JMP | BPF_JSLT | BPF_K, R1, 0, 3, 0),
		UNLESS(BPF_JEQ | BPF_X, R0, R1, 0),
		/* r6 = its result */
		INSN(BPF_ST | BPF_MEM | BPF_W, R10, 0, -4, 0),
		MOV(R2, R10),
		ADD_IMM(R2, -4),
		INSN(BPF_LD | BPF_DW | BPF_IMM, R1, BPF_PSEUDO_MAP_FD, 0, map),
		INSN(0, 0, 0, 0, 0),
		CALL(BPF_FUNC_map_lookup_elem),
		UNLESS(BPF_JNE, R0, 0, 0),
		MOV(R6, R0),
		LOAD(R1, times),
		UNLESS(BPF_JLT, R1, 0, (int32_t)p->times),
		/* r9 = when it began, r7 = when it is enough */
		CALL(BPF_FUNC_ktime_get_ns),
		LOAD(R1, next),
		UNLESS(BPF_JGE | BPF_X, R0, R1, 0),
		LOAD(R1, times),
		INSN(BPF_ALU64 | BPF_AND | BPF_K, R1, 0, 0, TIMES_MAX - 1),
		INSN(BPF_ALU64 | BPF_LSH | BPF_K, R1, 0, 0, 3),
		ADD(R1, R6),
		INSN(BPF_STX | BPF_MEM | BPF_DW, R1, R0, offsetof(struct result, at), 0),
		MOV(R9, R0),
		MOV(R7, R0),
		ADD_IMM(R7, (int32_t)(p->us * 1000)),
		MOV_IMM(R8, 0),
		/* again: */
		MOV(R1, R6),
		ADD_IMM(R1, offsetof(struct result, copy)),
		MOV_IMM(R2, COPY),
		MOV(R3, R1),
		CALL(BPF_FUNC_probe_read_kernel),
		CALL(BPF_FUNC_ktime_get_ns),
		INSN(BPF_JMP | BPF_JGT | BPF_X, R0, R7, 2, 0),
		ADD_IMM(R8, 1),
		INSN(BPF_JMP | BPF_JLT | BPF_K, R8, 0, -9, ROUNDS),
		/* how long it spun, and when it may spin again */
		MOV(R8, R0),
		ADD_IMM(R8, own ? 0 : (int32_t)(p->us * 2000)),
		STORE(next, R8),
		INSN(BPF_ALU64 | BPF_SUB | BPF_X, R0, R9, 0, 0),
		LOAD(R1, sum),
		ADD(R1, R0),
		STORE(sum, R1),
		LOAD(R1, times),
		ADD_IMM(R1, 1),
		STORE(times, R1),
		LOAD(R1, longest),
		UNLESS(BPF_JGT | BPF_X, R0, R1, 0),
		STORE(longest, R0),
		MOV_IMM(R0, 0),
		EXIT(),
	};
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT, .insn_cnt = ARRAY_SIZE(prog) };
	static char log[16384];
	int fd;

	attr.insns = (uintptr_t)prog;
	attr.license = (uintptr_t) "GPL";
	fd = bpf(BPF_PROG_LOAD, &attr);
	if (fd >= 0)
		return fd;
	attr.log_buf = (uintptr_t)log;
	attr.log_size = sizeof(log);
	attr.log_level = 1;
	(void)bpf(BPF_PROG_LOAD, &attr);
	fputs(log, stderr);
	return fd;
}

static int listen_to(const char *tracepoint, int prog)
{
	union bpf_attr attr = { 0 };

	attr.raw_tracepoint.name = (uintptr_t)tracepoint;
	attr.raw_tracepoint.prog_fd = (uint32_t)prog;
	return bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);
}

static int result_of(int map, struct result *r)
{
	union bpf_attr attr = { .map_fd = (uint32_t)map };
	uint32_t key = 0;

	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)r;
	return bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

/* Until it has spun so often, or for a minute. */
static int wait_for(int map, const struct plan *p, struct result *r)
{
	struct timespec nap = { .tv_nsec = 100 * 1000 * 1000 };
	int ret = 0;

	r->times = 0;
	for (uint32_t i = 0; !ret && r->times < p->times && i < WAIT_S * 10; i++) {
		nanosleep(&nap, NULL);
		ret = result_of(map, r);
	}
	return ret;
}

static int spin(const struct plan *p, struct result *r)
{
	int map = make_map(), prog = -1, link = -1, ret = map;

	if (ret >= 0)
		ret = prog = load(map, p);
	if (ret >= 0 && !p->times)
		return 0; /* the kernel would take it */
	if (ret >= 0)
		ret = link = listen_to(p->tracepoint ? p->tracepoint : "sched_switch", prog);
	if (ret >= 0)
		ret = wait_for(map, p, r);
	if (link >= 0)
		close(link);
	return ret;
}

int main(int argc, char **argv)
{
	static struct result r;
	struct plan p = { .cpu = -1 };
	int ret;

	if ((argc != 3 && argc != 5 && argc != 6) || strtoul(argv[1], NULL, 10) > 1000 ||
	    strtoul(argv[2], NULL, 10) > TIMES_MAX) {
		fputs("usage: spin MS TIMES [TRACEPOINT TID [CPU]]\n", stderr);
		return 2;
	}
	p.us = (uint32_t)strtoul(argv[1], NULL, 10) * 1000;
	p.times = (uint32_t)strtoul(argv[2], NULL, 10);
	if (argc > 3) {
		p.tracepoint = argv[3];
		p.tid = (int32_t)strtol(argv[4], NULL, 10);
	}
	if (argc == 6)
		p.cpu = (int32_t)strtol(argv[5], NULL, 10);
	ret = spin(&p, &r);
	if (ret < 0) {
		fprintf(stderr, "spin: %s\n", strerror(-ret));
		return 1;
	}
	for (uint64_t i = 0; i < r.times && i < TIMES_MAX; i++)
		fprintf(stderr, "at %.6f\n", (double)r.at[i] / 1e9);
	printf("sum_us=%llu longest_us=%llu times=%llu\n", (unsigned long long)r.sum / 1000,
	       (unsigned long long)r.longest / 1000, (unsigned long long)r.times);
	return r.times == p.times ? 0 : 1;
}
