/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clockvm: a VM with kvmclock whose VMM does to the guest's clocks what VMMs have done by mistake.
 *
 *   clockvm FAULT [N]
 *
 * Two vCPUs leave their guest a thousand times a second. After a second comes the fault, and after another one the
 * line "over"; it ends by a signal.
 *   none            nothing
 *   skew N          the TSC of vCPU 1 is set N cycles ahead, while the guest runs
 *   paused N        the same while no vCPU runs
 *   both N          those of both, one by one, while none runs: a jump without skew
 *   mended N        skew, and back after 300 ms
 *   twice N         skew, and again after 300 ms
 *   khz N           of both, KVM_SET_TSC_KHZ: N kHz more than the host's TSC has
 *   guest N         vCPU 1's guest adds N to its TSC
 *   clock N         KVM_SET_CLOCK N ns from where it is, while the guest runs
 *   stop N          no vCPU runs for N ns; then KVM_SET_CLOCK with what it was before, as QEMU does
 *   told N          ... and KVM_KVMCLOCK_CTRL
 *   late N          ... but not before the guest has run for 300 ms
 *   plug N          vCPU 2 is made, with a TSC that is N cycles ahead
 * It prints the offsets at the end, and bounds of what KVM_SET_CLOCK changed: `NAME VALUE`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define VCPUS	3
#define SIZE	0x10000
#define CODE	0x1000
#define WRITE	0x3000 /* a byte of each vCPU: write your TSC, ... */
#define ADD	0x3010 /* ... with that much more, 8 bytes each */
#define RECORD	0x5000 /* pvclock */

static int vm, vcpu[VCPUS];
static struct kvm_run *run[VCPUS];
static uint8_t *mem;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int paused, parked, running, size;

static void die(const char *what)
{
	fprintf(stderr, "clockvm: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void put(uint8_t **p, const char *bytes, size_t n)
{
	memcpy(*p, bytes, n);
	*p += n;
}

#define PUT(p, bytes) put(&(p), bytes, sizeof(bytes) - 1)

static void put16(uint8_t **p, unsigned int v)
{
	*(*p)++ = (uint8_t)v;
	*(*p)++ = (uint8_t)(v >> 8);
}

static void code(int id)
{
	uint8_t *p = mem + CODE + id * 0x100, *loop, *jump;

	PUT(p, "\x66\xb9\x01\x4d\x56\x4b\x66\xb8"); /* ecx = MSR_KVM_SYSTEM_TIME_NEW, eax = */
	put16(&p, RECORD + id * 64 + 1);
	PUT(p, "\0\0\x66\x31\xd2\x0f\x30"); /* edx = 0; wrmsr */
	loop = p;
	*p++ = 0xa0; /* al = [WRITE] */
	put16(&p, WRITE + id);
	PUT(p, "\x84\xc0\x74"); /* jz */
	jump = p++;
	PUT(p, "\xc6\x06");
	put16(&p, WRITE + id);
	PUT(p, "\0\x66\xb9\x10\0\0\0\x0f\x31\x66\x03\x06"); /* [] = 0, ecx = 0x10, rdtsc, add */
	put16(&p, ADD + id * 8);
	PUT(p, "\x66\x13\x16");
	put16(&p, ADD + id * 8 + 4);
	PUT(p, "\x0f\x30");
	*jump = (uint8_t)(p - jump - 1);
	PUT(p, "\xe6\x10\xeb"); /* out 0x10, al; jmp */
	*p = (uint8_t)(loop - p - 1);
}

static void *turn(void *arg)
{
	int id = (int)(intptr_t)arg;

	for (;;) {
		if (ioctl(vcpu[id], KVM_RUN, 0) && errno != EINTR)
			die("KVM_RUN");
		if (run[id]->exit_reason != KVM_EXIT_IO) {
			fprintf(stderr, "clockvm: exit %u\n", run[id]->exit_reason);
			exit(1);
		}
		pthread_mutex_lock(&lock);
		parked += paused;
		while (paused)
			pthread_cond_wait(&cond, &lock);
		pthread_mutex_unlock(&lock);
		usleep(1000);
	}
	return NULL;
}

static void make(int id)
{
	struct kvm_sregs s;
	struct kvm_regs r = { .rip = (uint64_t)(CODE + id * 0x100), .rflags = 2, .rsp = 0x8000 };
	struct kvm_mp_state on = { .mp_state = KVM_MP_STATE_RUNNABLE };

	vcpu[id] = ioctl(vm, KVM_CREATE_VCPU, id);
	if (vcpu[id] < 0)
		die("KVM_CREATE_VCPU");
	run[id] = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu[id], 0);
	if (run[id] == MAP_FAILED || ioctl(vcpu[id], KVM_GET_SREGS, &s))
		die("vCPU");
	s.cs.base = s.cs.selector = s.ds.base = s.ds.selector = 0;
	if (ioctl(vcpu[id], KVM_SET_SREGS, &s) || ioctl(vcpu[id], KVM_SET_REGS, &r))
		die("registers");
	(void)ioctl(vcpu[id], KVM_SET_MP_STATE, &on); /* without an APIC it is */
	code(id);
}

static void start(int id)
{
	pthread_t t;
	char name[16];

	if (pthread_create(&t, NULL, turn, (void *)(intptr_t)id))
		die("thread");
	snprintf(name, sizeof(name), "CPU %d/KVM", id);
	pthread_setname_np(t, name);
	running++;
}

static void stop(void)
{
	pthread_mutex_lock(&lock);
	parked = 0;
	paused = 1;
	pthread_mutex_unlock(&lock);
	for (int all = 0; !all; usleep(1000)) {
		pthread_mutex_lock(&lock);
		all = parked == running;
		pthread_mutex_unlock(&lock);
	}
}

static void cont(void)
{
	pthread_mutex_lock(&lock);
	paused = 0;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&lock);
}

/* n more; what it is then. */
static uint64_t ahead(int id, int64_t n)
{
	uint64_t offset;
	struct kvm_device_attr a = { .group = KVM_VCPU_TSC_CTRL, .attr = KVM_VCPU_TSC_OFFSET,
				     .addr = (uint64_t)(uintptr_t)&offset };

	if (ioctl(vcpu[id], KVM_GET_DEVICE_ATTR, &a))
		die("KVM_GET_DEVICE_ATTR");
	offset += (uint64_t)n;
	if (n && ioctl(vcpu[id], KVM_SET_DEVICE_ATTR, &a))
		die("KVM_SET_DEVICE_ATTR");
	return offset;
}

static uint64_t clock_now(void)
{
	struct kvm_clock_data c = { 0 };

	if (ioctl(vm, KVM_GET_CLOCK, &c))
		die("KVM_GET_CLOCK");
	return c.clock;
}

static uint64_t raw_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* By how much that moves it is between two numbers: it is set some time in the call. */
static void clock_set(uint64_t ns)
{
	struct kvm_clock_data c = { .clock = ns };
	uint64_t early = raw_now(), now = clock_now(), late = raw_now(), before, after;

	before = raw_now();
	if (ioctl(vm, KVM_SET_CLOCK, &c))
		die("KVM_SET_CLOCK");
	after = raw_now();
	printf("jump_least %" PRId64 "\njump_most %" PRId64 "\n",
	       (int64_t)(ns - (now + (after - early))), (int64_t)(ns - (now + before - late)));
}

/* Stops for so long; where the clock was. */
static uint64_t away(int64_t ns)
{
	uint64_t was;

	stop();
	was = clock_now();
	usleep((useconds_t)(ns / 1000));
	return was;
}

static void fault(const char *what, int64_t n)
{
	uint64_t was;

	if (!strcmp(what, "skew") || !strcmp(what, "mended") || !strcmp(what, "twice")) {
		ahead(1, n);
		usleep(300000);
		if (what[0] != 's')
			ahead(1, what[0] == 'm' ? -n : n);
	} else if (!strcmp(what, "khz")) {
		for (int i = 0; i < running; i++)
			if (ioctl(vcpu[i], KVM_SET_TSC_KHZ, ioctl(vcpu[i], KVM_GET_TSC_KHZ, 0) + n))
				die("KVM_SET_TSC_KHZ");
	} else if (!strcmp(what, "paused") || !strcmp(what, "both")) {
		stop();
		if (what[0] == 'b')
			ahead(0, n);
		ahead(1, n);
		cont();
	} else if (!strcmp(what, "guest")) {
		memcpy(mem + ADD + 8, &n, 8);
		*(volatile uint8_t *)(mem + WRITE + 1) = 1;
	} else if (!strcmp(what, "clock")) {
		clock_set(clock_now() + (uint64_t)n);
	} else if (!strcmp(what, "stop") || !strcmp(what, "told") || !strcmp(what, "late")) {
		was = away(n);
		if (what[0] == 'l') {
			cont();
			usleep(300000);
		}
		clock_set(was);
		for (int i = 0; what[0] == 't' && i < running; i++)
			if (ioctl(vcpu[i], KVM_KVMCLOCK_CTRL, 0))
				die("KVM_KVMCLOCK_CTRL");
		cont();
	} else if (!strcmp(what, "plug")) {
		make(2);
		ahead(2, n);
		start(2);
	} else if (strcmp(what, "none")) {
		errno = EINVAL;
		die(what);
	}
}

int main(int argc, char **argv)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	struct kvm_userspace_memory_region r = { .memory_size = SIZE };

	if (argc < 2 || kvm < 0)
		die(argc < 2 ? "a fault is missing" : "/dev/kvm");
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	r.userspace_addr = (uint64_t)(uintptr_t)mem;
	if (vm < 0 || mem == MAP_FAILED || ioctl(vm, KVM_SET_USER_MEMORY_REGION, &r))
		die("KVM_CREATE_VM");
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < 2; i++)
		make(i);
	for (int i = 0; i < 2; i++)
		start(i);
	sleep(1);
	fault(argv[1], argc > 2 ? strtoll(argv[2], NULL, 0) : 0);
	sleep(1);
	for (int i = 0; i < running; i++)
		printf("offset%d %" PRId64 "\n", i, (int64_t)ahead(i, 0));
	puts("over");
	pause();
	return 0;
}
