/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest.c: the VMs of `kvmft check --prove`. Their guest reads its counter after each of a few
 * things that make it exit, and keeps what it read: the truth that a recording is held against.
 *
 * The first VM has two vCPUs. vCPU 0 halts in each round and is woken by an interrupt, vCPU 1
 * computes. When half of vCPU 0's rounds are over, both get another offset of their counters, and
 * one CPU for both.
 */
#include "guest.h"

#if defined(__x86_64__) || defined(__aarch64__)
#include <sched.h>
#include <sys/prctl.h>

#define KICK_NS 1000000

int fails(struct run *r, const char *what)
{
	return err_set(&r->truth->err, errno, "%s: %s", what, strerror(errno));
}

/* ---- making them ---- */

static int vcpu_make(struct tiny_vm *vm, struct vcpu *v)
{
	int size = ioctl(vm->all->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

	v->fd = ioctl(vm->fd, KVM_CREATE_VCPU, (unsigned long)v->id);
	if (v->fd < 0 || size < 0)
		return fails(vm->all, "KVM_CREATE_VCPU");
	v->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
	return v->run == MAP_FAILED ? fails(vm->all, "struct kvm_run") : arch_vcpu(v);
}

int vm_new(struct run *r, size_t i, uint32_t vcpus)
{
	struct tiny_vm *vm = &r->vm[i];
	struct kvm_userspace_memory_region mem = { .guest_phys_addr = arch_memory,
						   .memory_size = (uint64_t)vcpus * VCPU_MEM };
	int ret;

	vm->all = r;
	vm->truth = &r->truth->vm[i];
	vm->fd = arch_create(r);
	if (vm->fd < 0)
		return fails(r, "KVM_CREATE_VM");
	vm->mem = mmap(NULL, mem.memory_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (vm->mem == MAP_FAILED)
		return fails(r, "memory of the guest");
	mem.userspace_addr = (uintptr_t)vm->mem;
	if (ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &mem))
		return fails(r, "KVM_SET_USER_MEMORY_REGION");
	ret = arch_vm(vm);
	for (uint32_t id = 0; id < vcpus && !ret; id++) {
		struct vcpu *v = &vm->vcpu[id];

		*v = (struct vcpu){ .vm = vm,
				    .truth = &vm->truth->vcpu[id], .id = id,
				    .halts = !i && !id,
				    .mem = vm->mem + (size_t)id * VCPU_MEM };
		ret = vcpu_make(vm, v);
	}
	vm->truth->fd = vm->fd;
	vm->truth->vcpus = ret ? 0 : vcpus;
	return ret;
}

/* ---- running them ---- */

void share_cpu(struct run *r)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)r->cpu, &one);
	(void)!sched_setaffinity(0, sizeof(one), &one);
}

/* Until the guest says that it has come to its end, or time is over: -ECANCELED. */
static int vcpu_run(struct vcpu *v)
{
	int ret = 0;

	v->rounds = 0;
	while (!ret) {
		if (ioctl(v->fd, KVM_RUN, 0) && errno != EINTR)
			return fails(v->vm->all, "KVM_RUN");
		switch (arch_exit(v)) {
		case GUEST_END: return 0;
		case GUEST_ROUND:
			v->rounds++;
			ret = arch_round(v);
			if (util_now_ns() - v->since > 2 * HALF_NS / arch_runs)
				return -ECANCELED;
			break;
		case GUEST_ELSE: break;
		default:
			return err_set(&v->vm->all->truth->err, ENOTSUP,
				       "this machine's KVM does not run the guest: exit reason %u",
				       v->run->exit_reason);
		}
	}
	return ret;
}

/* Cycles of the cheapest exit there is, the best of some rounds. */
static int cost(struct vcpu *v, uint64_t *best)
{
	int ret = arch_begin(v, COST_ROUNDS);
	uint64_t at[2];

	v->since = util_now_ns();
	ret = ret ?: vcpu_run(v);
	for (size_t i = 0; i < COST_ROUNDS && !ret; i++) {
		memcpy(at, v->mem + LOG_AT + i * sizeof(at), sizeof(at));
		if (!*best || (at[1] - at[0]) / COST_EXITS < *best)
			*best = (at[1] - at[0]) / COST_EXITS;
	}
	return ret;
}

/* vCPU 0 until its log is full, others until vCPU 0 is done. */
static int rounds(struct vcpu *v, const atomic_bool *done)
{
	int ret;
	uint64_t n;

	v->since = util_now_ns();
	do {
		ret = arch_begin(v, 0);
		ret = ret ?: vcpu_run(v);
		if (ret && ret != -ECANCELED)
			return ret;
		/* The last round may not be over. */
		n = MIN((v->rounds ? v->rounds - 1 : 0) * TRUTH_STEPS, TRUTH_STAMPS - v->truth->n);
		memcpy(v->truth->stamp + v->truth->n, v->mem + LOG_AT, n * sizeof(uint64_t));
		v->truth->n += n;
	} while (!ret && !v->halts && v->vm == &v->vm->all->vm[0] && !atomic_load(done));
	return 0;
}

static void *vcpu_main(void *arg)
{
	struct vcpu *v = arg;
	struct run *r = v->vm->all;
	int ret = v->halts ? cost(v, &r->truth->bare) : 0;

	if (v->halts)
		atomic_store(&r->bared, true);
	while (!atomic_load(&r->begun))
		usleep(1000);
	if (v->halts)
		ret = ret ?: cost(v, &r->truth->traced);
	for (unsigned int i = 0; i < arch_runs; i++) {
		if (i) {
			pthread_barrier_wait(&r->both);
			ret = ret ?: arch_again(v);
			v->truth = &r->truth->vm[i].vcpu[v->id];
			pthread_barrier_wait(&r->both);
			share_cpu(r);
		}
		ret = ret ?: rounds(v, i + 1 < arch_runs ? &r->halved : &r->over);
		if (v->halts)
			atomic_store(i + 1 < arch_runs ? &r->halved : &r->over, true);
	}
	if (ret)
		r->truth->ret = ret;
	return NULL;
}

/* Interrupts for the halted vCPU, and when each was sent. */
static void kick(struct run *r)
{
	const struct timespec pause = { .tv_nsec = KICK_NS };
	struct truth *t = r->truth;

	while (!atomic_load(&r->over)) {
		nanosleep(&pause, NULL);
		if (t->kicks < TRUTH_KICKS)
			t->kick[t->kicks++] = krdtsc_now();
		arch_kick(r);
	}
}

static int vcpu_start(struct vcpu *v)
{
	int ret = -pthread_create(&v->thread, NULL, vcpu_main, v);

	if (!ret)
		(void)!pthread_setname_np(v->thread, v->id ? "CPU 1/KVM" : "CPU 0/KVM");
	return ret;
}

/*
 * Their threads end by themselves. What vCPU 1 does not do is missing in the truth. On x86, entries
 * say which vCPU it is; elsewhere its thread has to be there when the recording begins.
 */
static int run_all(struct run *r, int ready, int go)
{
	struct vcpu *first = &r->vm[0].vcpu[0], *second = &r->vm[0].vcpu[1],
		    *other = &r->vm[1].vcpu[0];
	int ret = -pthread_barrier_init(&r->both, NULL, 2);
	char byte = 0;

	ret = ret ?: vcpu_start(first);
	if (!ret && arch_runs > 1)
		ret = vcpu_start(second);
	if (ret)
		return ret;
	while (!atomic_load(&r->bared))
		usleep(1000);
	if (full_write(ready, "+", 1, NULL) || read(go, &byte, 1) != 1)
		return -EPIPE;
	atomic_store(&r->begun, true);
	if (arch_runs == 1)
		ret = vcpu_start(second);
	kick(r);
	pthread_join(first->thread, NULL);
	if (ret)
		return ret;
	pthread_join(second->thread, NULL);
	if (other->vm && r->truth->vm[1].vcpus && !r->truth->ret) {
		ret = vcpu_start(other);
		if (!ret)
			pthread_join(other->thread, NULL);
	}
	return ret ?: r->truth->ret;
}

int prove_guest(struct truth *t, int ready, int go)
{
	struct run r = { .truth = t, .kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC) };
	char byte = 0;
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (r.kvm < 0)
		return err_lack(&t->err, errno,
				"cannot open /dev/kvm: %s: run as root where KVM is: %s; in a VM, "
				"its host must allow nested VMs",
				strerror(errno), arch_no_kvm);
	ret = vm_new(&r, 0, 2) ?: arch_others(&r);
	ret = ret ?: run_all(&r, ready, go);
	/* The VMs are there until the recorder has read their offsets again. */
	if (!ret && !full_write(ready, "+", 1, NULL))
		(void)!read(go, &byte, 1);
	return ret;
}
#else
int prove_guest(struct truth *t, int ready __unused_arg, int go __unused_arg)
{
	return err_lack(&t->err, ENOTSUP,
			"there is no guest for this architecture: x86-64 and arm64 only");
}
#endif
