/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * irqsoff: keeps interrupts of a CPU off for a known time, without a module. For guests of the rig alone.
 *
 *   irqsoff MS TIMES
 *
 * The kernel switches tasks with interrupts off, and runs what listens to sched_switch there: a program that
 * waits until MS have gone by, whenever this process gives up its CPU by going to sleep. It does so TIMES
 * times. The last line is "sum_us=N longest_us=N times=N", as measured there.
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

/* The kernel's checker walks through all rounds; it allows 8192 of them, and a million instructions. */
#define ROUNDS	  6000
#define LOOKS	  40 /* at the clock in each */
#define TEN(x)	  x, x, x, x, x, x, x, x, x, x

#define INSN(op, dst, src, offset, value) \
	{ .code = (op), .dst_reg = (dst), .src_reg = (src), .off = (offset), .imm = (value) }
#define MOV(dst, src)	     INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define MOV_IMM(dst, value)  INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value)
#define ADD_IMM(dst, value)  INSN(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, value)
#define CALL(helper)	     INSN(BPF_JMP | BPF_CALL, 0, 0, 0, helper)
#define EXIT()		     INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

enum { R0, R1, R2, R6 = 6, R7, R8, R9, R10 };

struct result {
	uint64_t sum, longest, times;
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

static int load(int map, uint32_t us)
{
	struct bpf_insn prog[] = {
		/* Only this process; r9 = when it began, r7 = when it is enough */
		CALL(BPF_FUNC_get_current_pid_tgid),
		INSN(BPF_ALU64 | BPF_RSH | BPF_K, R0, 0, 0, 32),
		INSN(BPF_JMP | BPF_JNE | BPF_K, R0, 0, 28 + LOOKS, getpid()),
		CALL(BPF_FUNC_ktime_get_ns),
		MOV(R9, R0),
		MOV(R7, R0),
		ADD_IMM(R7, (int32_t)(us * 1000)),
		MOV_IMM(R6, 0),
		/* again: */
		TEN(CALL(BPF_FUNC_ktime_get_ns)), TEN(CALL(BPF_FUNC_ktime_get_ns)),
		TEN(CALL(BPF_FUNC_ktime_get_ns)), TEN(CALL(BPF_FUNC_ktime_get_ns)),
		MOV(R8, R0),
		INSN(BPF_JMP | BPF_JGT | BPF_X, R8, R7, 2, 0),
		ADD_IMM(R6, 1),
		INSN(BPF_JMP | BPF_JLT | BPF_K, R6, 0, -(LOOKS + 4), ROUNDS),
		/* how long it was */
		INSN(BPF_ALU64 | BPF_SUB | BPF_X, R8, R9, 0, 0),
		INSN(BPF_ST | BPF_MEM | BPF_W, R10, 0, -4, 0),
		MOV(R2, R10),
		ADD_IMM(R2, -4),
		INSN(BPF_LD | BPF_DW | BPF_IMM, R1, BPF_PSEUDO_MAP_FD, 0, map),
		INSN(0, 0, 0, 0, 0),
		CALL(BPF_FUNC_map_lookup_elem),
		INSN(BPF_JMP | BPF_JEQ | BPF_K, R0, 0, 11, 0),
		INSN(BPF_LDX | BPF_MEM | BPF_DW, R1, R0, offsetof(struct result, sum), 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_X, R1, R8, 0, 0),
		INSN(BPF_STX | BPF_MEM | BPF_DW, R0, R1, offsetof(struct result, sum), 0),
		INSN(BPF_LDX | BPF_MEM | BPF_DW, R1, R0, offsetof(struct result, times), 0),
		ADD_IMM(R1, 1),
		INSN(BPF_STX | BPF_MEM | BPF_DW, R0, R1, offsetof(struct result, times), 0),
		INSN(BPF_LDX | BPF_MEM | BPF_DW, R1, R0, offsetof(struct result, longest), 0),
		INSN(BPF_JMP | BPF_JGE | BPF_X, R1, R8, 1, 0),
		INSN(BPF_STX | BPF_MEM | BPF_DW, R0, R8, offsetof(struct result, longest), 0),
		MOV_IMM(R0, 0),
		EXIT(),
		MOV_IMM(R0, 0),
		EXIT(),
	};
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT, .insn_cnt = ARRAY_SIZE(prog) };
	char log[4096] = "";
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

int main(int argc, char **argv)
{
	struct timespec nap = { .tv_nsec = 100 * 1000 * 1000 };
	int map = make_map(), prog = -1, link = -1, ret = map;
	struct result r;

	if (argc != 3 || strtoul(argv[1], NULL, 10) > 1000) {
		fputs("usage: irqsoff MS TIMES\n", stderr);
		return 2;
	}
	if (ret >= 0)
		ret = prog = load(map, (uint32_t)strtoul(argv[1], NULL, 10) * 1000);
	if (ret >= 0 && !strtoul(argv[2], NULL, 10))
		return 0; /* the kernel would take it */
	if (ret >= 0)
		ret = link = listen_to("sched_switch", prog);
	for (unsigned long i = strtoul(argv[2], NULL, 10); ret >= 0 && i; i--)
		nanosleep(&nap, NULL);
	if (ret >= 0) {
		close(link);
		ret = result_of(map, &r);
	}
	if (ret < 0) {
		fprintf(stderr, "irqsoff: %s\n", strerror(-ret));
		return 1;
	}
	printf("sum_us=%llu longest_us=%llu times=%llu\n", (unsigned long long)r.sum / 1000,
	       (unsigned long long)r.longest / 1000, (unsigned long long)r.times);
	return 0;
}
