/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The scan: debugfs and /proc joined, in fixture trees, and once with a real VM of this process
 * (skipped, visibly, where /dev/kvm or debugfs cannot be used).
 */
#include "vm_fixture.h"

#include <errno.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define QEMU "/usr/bin/qemu-system-x86_64"

static void test_qemu(void **state)
{
	struct fixture *fx = *state;
	uint32_t *tids;
	size_t n;

	FX_PROCESS(fx, 500, QEMU, "q\0-name\0guest=foo,debug-threads=on");
	fx_link(fx, "/dev/kvm", "proc/500/fd/10");
	fx_link(fx, "anon_inode:kvm-vm", "proc/500/fd/11");
	fx_link(fx, "anon_inode:kvm-vcpu:0", "proc/500/fd/12");
	fx_thread(fx, 500, 501, "CPU 0/KVM");
	fx_thread(fx, 500, 502, "CPU 1/KVM");
	fx_thread(fx, 500, 503, "IO mon_iothread");
	fx_vcpu(fx, "500-11", 1, "0\n", "9223372036854775807\n", "0\n", "48\n");
	fx_vcpu(fx, "500-11", 0, "501\n", "-1234567890123\n", "281474976710656\n", "48\n");
	fx_file(fx, "1\n", "debugfs/kvm/500-11/vcpu01/pid"); /* none of the kernel's names */
	fx_file(fx, "1\n", "debugfs/kvm/500-11/vcpu/pid");
	fx_file(fx, "1\n", "debugfs/kvm/0500-11/vcpu0/pid");
	fx_file(fx, "1\n", "debugfs/kvm/500-11x/vcpu0/pid");

	struct vm_list *list = fx_scan(fx);
	const struct vm *vm = &list->vm[0];

	assert_int_equal(list->n, 1);
	assert_string_equal(list->clocksource, "tsc");
	assert_int_equal(vm->pid, 500);
	assert_true(vm->pid_sure && vm->has_debugfs);
	assert_null(vm->note);
	assert_int_equal(vm->n_vcpus, 2);
	assert_int_equal(vm->vcpu[0].id, 0);
	assert_int_equal(vm->vcpu[0].tid, 501);
	assert_int_equal(vm->vcpu[0].tid_source, VM_TID_DEBUGFS);
	assert_true(vm->vcpu[0].has_offset);
	assert_true(vm->vcpu[0].tsc_offset == (uint64_t)-1234567890123);
	assert_int_equal(vm->vcpu[0].ratio_state, VM_RATIO_SET);
	assert_true(vm->vcpu[0].tsc_ratio == 1ull << 48);
	assert_int_equal(vm->vcpu[0].tsc_frac_bits, 48);
	assert_int_equal(vm->vcpu[1].tid, 0);
	assert_int_equal(vm->vcpu[1].tid_source, VM_TID_NEVER_RAN);
	assert_int_equal(vm->vcpu[1].ratio_state, VM_RATIO_NONE);
	assert_true(vm->vcpu[1].tsc_offset == INT64_MAX);
	assert_int_equal(vm_guess_master_clock(list, vm), -1);
#if defined(__x86_64__)
	assert_true(vm->vcpu[0].tsc_before && vm->vcpu[0].tsc_after >= vm->vcpu[0].tsc_before);
#endif
	assert_int_equal(vm_thread_ids(&fx->roots, vm->pid, &tids, &n), 0);
	assert_int_equal(n, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(tids[i], 500 + i);
	free(tids);
	vm_list_free(list);
}

/* A kernel without vcpuN/pid: names, whole; "CPU 1" is no "CPU 10"; ids as QEMU's CPU count. */
static void test_thread_names(void **state)
{
	struct fixture *fx = *state;

	FX_PROCESS(fx, 600, QEMU, "q");
	fx_link(fx, "anon_inode:kvm-vm", "proc/600/fd/11");
	fx_thread(fx, 600, 610, "CPU 10/KVM");
	fx_thread(fx, 600, 601, "CPU 1/KVM");
	fx_thread(fx, 600, 602, "CPU 0/KVM2");
	fx_thread(fx, 600, 603, "xCPU 0/KVM");
	fx_thread(fx, 600, 604, "CPU 00/KVM");
	fx_thread(fx, 600, 605, "CPU 2/KVM");
	fx_thread(fx, 600, 606, "CPU 2/KVM");
	for (unsigned int i = 0; i <= 10; i++)
		fx_vcpu(fx, "600-11", i, NULL, "0\n", NULL, NULL);

	struct vm_list *list = fx_scan(fx);
	const struct vm *vm = &list->vm[0];

	assert_int_equal(vm->n_vcpus, 11);
	for (unsigned int i = 0; i <= 10; i++) {
		unsigned int want = i == 1 ? 601 : i == 10 ? 610 : 0;

		assert_int_equal(vm->vcpu[i].id, i);
		assert_int_equal(vm->vcpu[i].tid, want);
		assert_int_equal(vm->vcpu[i].tid_source,
				 want ? VM_TID_THREAD_NAME : VM_TID_UNKNOWN);
	}
	assert_int_equal(vm_guess_master_clock(list, vm), 1);
	vm_list_free(list);
}

/* Sparse ids: QEMU's threads count CPUs (0 1 2), the directories are APIC ids (0 4 8). */
static void test_sparse_ids(void **state)
{
	struct fixture *fx = *state;
	struct vm_list *list;

	FX_PROCESS(fx, 700, QEMU, "q");
	fx_link(fx, "anon_inode:kvm-vm", "proc/700/fd/11");
	fx_thread(fx, 700, 709, "CPU 0/KVM");
	fx_thread(fx, 700, 702, "CPU 2/KVM");
	fx_thread(fx, 700, 705, "CPU 1/KVM");
	fx_vcpu(fx, "700-11", 0, NULL, "0\n", NULL, NULL);
	fx_vcpu(fx, "700-11", 4, NULL, "0\n", NULL, NULL);
	fx_vcpu(fx, "700-11", 8, NULL, "0\n", NULL, NULL);
	list = fx_scan(fx);
	assert_int_equal(list->vm[0].vcpu[0].tid, 709);
	assert_int_equal(list->vm[0].vcpu[1].tid, 705);
	assert_int_equal(list->vm[0].vcpu[2].tid, 702);
	vm_list_free(list);

	/* with one name missing nothing can be told, and nothing is */
	fx_drop(fx, "proc/700/task/705");
	list = fx_scan(fx);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(list->vm[0].vcpu[i].tid, 0);
	vm_list_free(list);
}

static void test_other_vmms(void **state)
{
	static const struct {
		const char *exe, *comm;
	} vmm[] = {
		{ "/x/cloud-hypervisor", "vcpu4" }, { "/x/firecracker", "fc_vcpu 4" },
		{ "/x/crosvm", "crosvm_vcpu4" },    { "/x/lkvm", "kvm-vcpu-4" },
	};
	struct fixture *fx = *state;

	for (unsigned int i = 0; i < ARRAY_SIZE(vmm); i++) {
		fx_process(fx, 100 + i, 1, vmm[i].exe, "x", 1);
		fx_thread(fx, 100 + i, 900 + i, vmm[i].comm);
		fx_link(fx, "anon_inode:kvm-vm", "proc/%u/fd/3", 100 + i);
		fx_link(fx, "anon_inode:kvm-vcpu:4", "proc/%u/fd/4", 100 + i);
	}
	fx_drop(fx, "debugfs/kvm");
	struct vm_list *list = fx_scan(fx);

	assert_int_equal(list->n, ARRAY_SIZE(vmm));
	for (unsigned int i = 0; i < ARRAY_SIZE(vmm); i++) {
		assert_int_equal(list->vm[i].n_vcpus, 1);
		assert_int_equal(list->vm[i].vcpu[0].id, 4);
		assert_int_equal(list->vm[i].vcpu[0].tid, 900 + i);
		assert_int_equal(list->vm[i].vcpu[0].tid_source, VM_TID_THREAD_NAME);
	}
	vm_list_free(list);
}

static void test_ratio(void **state)
{
	static const struct {
		const char *ratio, *frac;
		enum vm_ratio_state want;
	} cases[] = {
		{ NULL, NULL, VM_RATIO_NONE },	     { "0\n", "48\n", VM_RATIO_NONE },
		{ "5\n", NULL, VM_RATIO_REFUSED },   { NULL, "48\n", VM_RATIO_REFUSED },
		{ "5\n", "64\n", VM_RATIO_REFUSED }, { "5\n", "0\n", VM_RATIO_REFUSED },
		{ "x\n", "48\n", VM_RATIO_REFUSED }, { "5\n", "32\n", VM_RATIO_SET },
		{ "18446744073709551615\n", "63\n", VM_RATIO_SET },
		{ "18446744073709551616\n", "63\n", VM_RATIO_REFUSED },
	};
	struct fixture *fx = *state;

	FX_PROCESS(fx, 100, QEMU, "q");
	fx_link(fx, "anon_inode:kvm-vm", "proc/100/fd/9");
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++)
		fx_vcpu(fx, "100-9", i, "1\n", "0\n", cases[i].ratio, cases[i].frac);

	struct vm_list *list = fx_scan(fx);

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("case %u\n", i);
		assert_int_equal(list->vm[0].vcpu[i].ratio_state, cases[i].want);
		assert_true(!list->vm[0].vcpu[i].tsc_ratio == (cases[i].want != VM_RATIO_SET));
	}
	vm_list_free(list);
}

/* An L2 guest that never stops, an offset that is no number, a vCPU without any clock file. */
static void test_clock_trouble(void **state)
{
	struct fixture *fx = *state;

	FX_PROCESS(fx, 100, QEMU, "q");
	fx_link(fx, "anon_inode:kvm-vm", "proc/100/fd/9");
	fx_vcpu(fx, "100-9", 0, "1\n", "-7\n", NULL, NULL);
	fx_file(fx, "1\n", "debugfs/kvm/100-9/vcpu0/guest_mode");
	fx_vcpu(fx, "100-9", 1, "1\n", "18446744073709551609\n", NULL, NULL);
	fx_vcpu(fx, "100-9", 2, "-1\n", NULL, NULL, NULL);

	struct vm_list *list = fx_scan(fx);
	const struct vm *vm = &list->vm[0];

	assert_int_equal(vm->n_vcpus, 3);
	assert_true(vm->vcpu[0].in_guest_mode);
	assert_true(vm->vcpu[0].has_offset);
	assert_false(vm->vcpu[1].has_offset);
	assert_int_equal(vm->vcpu[1].ratio_state, VM_RATIO_UNKNOWN);
	assert_false(vm->vcpu[2].has_offset);
	assert_int_equal(vm->vcpu[2].tid, 0);
	assert_non_null(vm->note);
	assert_non_null(strstr(vm->note, "cannot read a vCPU's files"));
	assert_int_equal(vm_guess_master_clock(list, vm), 0);
	vm_list_free(list);
}

static void test_reread(void **state)
{
	struct fixture *fx = *state;

	FX_PROCESS(fx, 100, QEMU, "q");
	fx_link(fx, "anon_inode:kvm-vm", "proc/100/fd/9");
	fx_vcpu(fx, "100-9", 0, "1\n", "-7\n", NULL, NULL);
	fx_vcpu(fx, "100-9", 3, "1\n", "-7\n", "5\n", "32\n");
	struct vm_list *list = fx_scan(fx);
	struct vm *vm = &list->vm[0];

	fx_vcpu(fx, "100-9", 3, "1\n", "11\n", "6\n", "32\n");
	fx_drop(fx, "debugfs/kvm/100-9/vcpu0");
	assert_int_equal(vm_reread_clocks(&fx->roots, vm), 0);
	assert_false(vm->vcpu[0].has_offset);
	assert_true(vm->vcpu[1].has_offset);
	assert_int_equal(vm->vcpu[1].tsc_offset, 11);
	assert_int_equal(vm->vcpu[1].tsc_ratio, 6);
	fx_drop(fx, "debugfs/kvm/100-9");
	assert_int_equal(vm_reread_clocks(&fx->roots, vm), -ENOENT);
	vm_list_free(list);
}

/* Two VMs of one process: kept apart, with their own vCPU 0; thread names say nothing here. */
static void test_two_in_one(void **state)
{
	struct fixture *fx = *state;

	FX_PROCESS(fx, 100, "/x/multi", "m");
	fx_link(fx, "anon_inode:kvm-vm", "proc/100/fd/9");
	fx_link(fx, "anon_inode:kvm-vm", "proc/100/fd/19");
	fx_link(fx, "anon_inode:kvm-vcpu:0", "proc/100/fd/10");
	fx_link(fx, "anon_inode:kvm-vcpu:0", "proc/100/fd/20");
	fx_thread(fx, 100, 101, "vcpu0");
	fx_vcpu(fx, "100-19", 0, NULL, "19\n", NULL, NULL);
	fx_vcpu(fx, "100-9", 0, NULL, "9\n", NULL, NULL);

	struct vm_list *list = fx_scan(fx);

	assert_int_equal(list->n, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(list->vm[i].pid, 100);
		assert_int_equal(list->vm[i].fd, i ? 19 : 9);
		assert_int_equal(list->vm[i].vcpu[0].tsc_offset, i ? 19 : 9);
		assert_int_equal(list->vm[i].vcpu[0].tid, 0);
	}
	vm_list_free(list);

	fx_drop(fx, "debugfs/kvm");
	list = fx_scan(fx);
	assert_int_equal(list->n, 2);
	for (int i = 0; i < 2; i++) {
		assert_false(list->vm[i].has_debugfs);
		assert_int_equal(list->vm[i].n_vcpus, 0);
		assert_non_null(strstr(list->vm[i].note, "cannot be told apart"));
	}
	vm_list_free(list);
}

/* The directory's PID is a thread of 100; the thread of 200 is gone; 300's number is reused. */
static void test_creator_threads(void **state)
{
	struct fixture *fx = *state;

	FX_PROCESS(fx, 100, QEMU, "q\0-name\0threaded");
	fx_link(fx, "anon_inode:kvm-vm", "proc/100/fd/9");
	fx_thread(fx, 100, 150, "creator");
	fx_vcpu(fx, "150-9", 0, "0\n", "0\n", NULL, NULL);

	FX_PROCESS(fx, 200, QEMU, "q\0-name\0gone");
	fx_link(fx, "anon_inode:kvm-vm", "proc/200/fd/30");
	fx_vcpu(fx, "250-30", 0, "0\n", "0\n", NULL, NULL);

	FX_PROCESS(fx, 300, QEMU, "q\0-name\0real");
	fx_link(fx, "anon_inode:kvm-vm", "proc/300/fd/9");
	fx_thread(fx, 300, 301, "CPU 0/KVM");
	FX_PROCESS(fx, 350, "/bin/sh", "sh");
	fx_vcpu(fx, "350-9", 0, "301\n", "0\n", NULL, NULL);

	fx_vcpu(fx, "999-9", 0, "0\n", "0\n", NULL, NULL);

	struct vm_list *list = fx_scan(fx);

	assert_int_equal(list->n, 4);
	assert_int_equal(list->vm[0].pid, 100);
	assert_int_equal(list->vm[0].dir_pid, 150);
	assert_string_equal(list->vm[0].sel, "150-9");
	assert_string_equal(list->vm[0].name, "threaded");
	assert_int_equal(list->vm[1].pid, 200);
	assert_string_equal(list->vm[1].name, "gone");
	assert_int_equal(list->vm[2].pid, 300);
	assert_string_equal(list->vm[2].name, "real");
	for (int i = 0; i < 3; i++)
		assert_true(list->vm[i].pid_sure);
	assert_int_equal(list->vm[3].pid, 999);
	assert_false(list->vm[3].pid_sure);
	assert_string_equal(list->vm[3].vmm, "?");
	assert_non_null(strstr(list->vm[3].note, "assumed"));
	vm_list_free(list);
}

/* One VM has its directory, the other does not ("duplicate directory"); hostile comms. */
static void test_no_directory(void **state)
{
	struct fixture *fx = *state;

	FX_PROCESS(fx, 100, QEMU, "q\0-name\0with");
	fx_link(fx, "anon_inode:kvm-vm", "proc/100/fd/9");
	fx_vcpu(fx, "100-9", 0, "0\n", "0\n", NULL, NULL);
	FX_PROCESS(fx, 200, NULL, "q\0--name\0without");
	fx_drop(fx, "proc/200/comm");
	fx_file(fx, "ev\033]il\n(x) R 1\n", "proc/200/comm");
	fx_link(fx, "anon_inode:kvm-vm", "proc/200/fd/9");
	fx_link(fx, "anon_inode:kvm-vcpu:5", "proc/200/fd/10");
	fx_link(fx, "anon_inode:kvm-vcpu:5", "proc/200/fd/11");
	fx_link(fx, "anon_inode:kvm-vcpu:1", "proc/200/fd/12");
	fx_link(fx, "anon_inode:kvm-vcpu:1x", "proc/200/fd/13");
	fx_link(fx, "anon_inode:kvm-vcpu-stats:1", "proc/200/fd/14");

	struct vm_list *list = fx_scan(fx);

	assert_int_equal(list->n, 2);
	assert_true(list->vm[0].has_debugfs);
	assert_false(list->vm[1].has_debugfs);
	assert_string_equal(list->vm[1].vmm, "ev?]il?(x) R 1");
	assert_non_null(strstr(list->vm[1].note, "duplicate directory"));
	assert_int_equal(list->vm[1].n_vcpus, 2);
	assert_int_equal(list->vm[1].vcpu[0].id, 1);
	assert_int_equal(list->vm[1].vcpu[1].id, 5);
	assert_int_equal(list->vm[1].vcpu[1].ratio_state, VM_RATIO_UNKNOWN);
	vm_list_free(list);
}

/* On arm64 a VM has a directory, but none of its vCPUs has. */
static void test_no_vcpu_directories(void **state)
{
	struct fixture *fx = *state;

	FX_PROCESS(fx, 300, QEMU, "q\0-name\0arm");
	fx_link(fx, "anon_inode:kvm-vm", "proc/300/fd/9");
	fx_link(fx, "anon_inode:kvm-vcpu:1", "proc/300/fd/10");
	fx_link(fx, "anon_inode:kvm-vcpu:0", "proc/300/fd/11");
	fx_thread(fx, 300, 301, "CPU 0/KVM");
	fx_file(fx, "7\n", "debugfs/kvm/300-9/exits");

	struct vm_list *list = fx_scan(fx);

	assert_int_equal(list->n, 1);
	assert_true(list->vm[0].has_debugfs);
	assert_null(list->vm[0].note);
	assert_int_equal(list->vm[0].n_vcpus, 2);
	assert_int_equal(list->vm[0].vcpu[0].tid, 301);
	assert_false(list->vm[0].vcpu[0].has_offset);
	vm_list_free(list);
}

static struct vm_list *scan_told(struct fixture *fx)
{
	struct kvmft_err err = { .code = 0 };
	struct vm_list *list = NULL;

	assert_int_equal(vm_scan_told(&fx->roots, &list, &err), 0);
	assert_non_null(list);
	return list;
}

/* The quick look finds what is in debugfs, and looks further where that does not lead to a process. */
static void test_told(void **state)
{
	struct fixture *fx = *state;
	struct vm_list *list;

	FX_PROCESS(fx, 100, QEMU, "q\0-name\0threaded");
	fx_link(fx, "anon_inode:kvm-vm", "proc/100/fd/9");
	fx_thread(fx, 100, 150, "creator");
	fx_vcpu(fx, "150-9", 0, "0\n", "7\n", NULL, NULL);
	fx_vcpu(fx, "150-9", 1, "0\n", "8\n", NULL, NULL);
	FX_PROCESS(fx, 300, QEMU, "q\0-name\0byvcpu");
	fx_link(fx, "anon_inode:kvm-vm", "proc/300/fd/9");
	fx_thread(fx, 300, 301, "CPU 0/KVM");
	fx_vcpu(fx, "350-9", 0, "301\n", "0\n", NULL, NULL);
	FX_PROCESS(fx, 400, QEMU, "q\0-name\0nodir");
	fx_link(fx, "anon_inode:kvm-vm", "proc/400/fd/5");

	list = scan_told(fx);
	assert_int_equal(list->n, 2);
	assert_int_equal(list->vm[0].pid, 100);
	assert_string_equal(list->vm[0].name, "threaded");
	assert_int_equal(list->vm[0].vcpu[1].tsc_offset, 8);
	assert_int_equal(list->vm[1].pid, 300);
	assert_string_equal(list->vm[1].name, "byvcpu");
	assert_true(list->vm[0].pid_sure && list->vm[1].pid_sure);
	vm_list_free(list);

	/* neither creator nor vCPU leads to 200: all are looked at */
	FX_PROCESS(fx, 200, QEMU, "q\0-name\0gone");
	fx_link(fx, "anon_inode:kvm-vm", "proc/200/fd/30");
	fx_vcpu(fx, "250-30", 0, "0\n", "0\n", NULL, NULL);
	list = scan_told(fx);
	assert_int_equal(list->n, 4);
	assert_string_equal(list->vm[1].name, "gone");
	assert_true(list->vm[1].pid_sure);
	assert_string_equal(list->vm[3].name, "nodir");
	vm_list_free(list);

	/* and without debugfs as well */
	fx_drop(fx, "debugfs/kvm");
	list = scan_told(fx);
	assert_int_equal(list->n, 4);
	vm_list_free(list);
}

/* Of one creator alone, and what others of its process have is no VM without a directory. */
static void test_made_by(void **state)
{
	struct fixture *fx = *state;
	struct vm_list *list;
	struct kvmft_err err;

	FX_PROCESS(fx, 100, QEMU, "q\0-name\0two");
	fx_link(fx, "anon_inode:kvm-vm", "proc/100/fd/9");
	fx_link(fx, "anon_inode:kvm-vm", "proc/100/fd/11");
	fx_thread(fx, 100, 150, "creator");
	fx_vcpu(fx, "100-9", 0, "0\n", "7\n", NULL, NULL);
	fx_vcpu(fx, "150-11", 0, "151\n", "8\n", NULL, NULL);
	assert_int_equal(vm_scan_made_by(&fx->roots, 150, &list, &err), 0);
	assert_int_equal(list->n, 1);
	assert_string_equal(list->vm[0].sel, "150-11");
	assert_int_equal(list->vm[0].pid, 100);
	assert_true(list->vm[0].pid_sure);
	assert_int_equal(list->vm[0].vcpu[0].tsc_offset, 8);
	assert_string_equal(list->vm[0].name, "two");
	vm_list_free(list);
	assert_int_equal(vm_scan_made_by(&fx->roots, 151, &list, &err), 0);
	assert_int_equal(list->n, 0);
	vm_list_free(list);
}

static void test_watch(void **state)
{
	struct fixture *fx = *state;
	struct vm_watch w;
	uint32_t pid, fd;

	fx_drop(fx, "debugfs/kvm");
	assert_int_equal(vm_watch_open(&fx->roots, &w), -ENOENT);
	assert_int_equal(w.fd, -1);
	fx_vcpu(fx, "100-9", 0, "0\n", "7\n", NULL, NULL);
	assert_int_equal(vm_watch_open(&fx->roots, &w), 0);
	assert_int_equal(vm_watch_next(&w, &pid, &fd), 0);
	fx_vcpu(fx, "200-4", 0, "0\n", "7\n", NULL, NULL);
	fx_file(fx, "0\n", "debugfs/kvm/blocking");
	fx_vcpu(fx, "300-x", 0, "0\n", "7\n", NULL, NULL);
	fx_vcpu(fx, "4294967295-12", 0, "0\n", "7\n", NULL, NULL);
	fx_drop(fx, "debugfs/kvm/200-4");
	assert_int_equal(vm_watch_next(&w, &pid, &fd), 1);
	assert_int_equal(pid, 200);
	assert_int_equal(fd, 4);
	assert_int_equal(vm_watch_next(&w, &pid, &fd), 1);
	assert_int_equal(pid, UINT32_MAX);
	assert_int_equal(fd, 12);
	assert_int_equal(vm_watch_next(&w, &pid, &fd), 0);
	/* More than one reading holds, none is lost. */
	for (unsigned int i = 1; i <= 300; i++) {
		char sel[32];

		snprintf(sel, sizeof(sel), "%u-5", i);
		fx_vcpu(fx, sel, 0, "0\n", "7\n", NULL, NULL);
	}
	for (unsigned int i = 1; i <= 300; i++) {
		assert_int_equal(vm_watch_next(&w, &pid, &fd), 1);
		assert_int_equal(pid, i);
	}
	assert_int_equal(vm_watch_next(&w, &pid, &fd), 0);
	vm_watch_close(&w);
}

static void test_no_proc(void **state)
{
	struct fixture *fx = *state;
	struct kvmft_err err = { .code = 0 };
	struct vm_list *list = NULL;

	fx_drop(fx, "proc");
	assert_int_equal(vm_scan(&fx->roots, &list, &err), -ENOENT);
	assert_null(list);
	assert_non_null(strstr(err.text, "cannot open"));
}

/* ---- a real VM ---- */

struct live {
	int vm, vcpu, copy;
	uint32_t tid;
};

static void *live_create(void *arg)
{
	struct live *l = arg;
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	l->tid = (uint32_t)syscall(SYS_gettid);
	l->vm = kvm < 0 ? -1 : ioctl(kvm, KVM_CREATE_VM, 0);
	l->vcpu = l->vm < 0 ? -1 : ioctl(l->vm, KVM_CREATE_VCPU, 6);
	l->copy = l->vm < 0 ? -1 : dup(l->vm);
	if (kvm >= 0)
		close(kvm);
	return NULL;
}

/* Created by a thread that has ended since, with a copy of its descriptor. */
static void test_live(void **state __unused_arg)
{
	struct live l = { -1, -1, -1, 0 };
	struct kvmft_err err = { .code = 0 };
	struct vm_list *list = NULL;
	const struct vm *vm = NULL;
	pthread_t thread;
	size_t mine = 0;
	char sel[32];

	assert_int_equal(pthread_create(&thread, NULL, live_create, &l), 0);
	pthread_join(thread, NULL);
	if (l.vcpu < 0) {
		print_message("no usable /dev/kvm\n");
		skip();
	}
	assert_int_equal(vm_scan(NULL, &list, &err), 0);
	for (size_t i = 0; i < list->n; i++) {
		if (list->vm[i].pid != (uint32_t)getpid())
			continue;
		vm = &list->vm[i];
		mine++;
		print_message("found %s, note: %s\n", vm->sel, vm->note ? vm->note : "none");
	}
	assert_int_equal(mine, 1);
	assert_true(vm->pid_sure);
	assert_int_equal(vm->fd, l.vm);
	assert_int_equal(vm->n_vcpus, 1);
	assert_int_equal(vm->vcpu[0].id, 6);
	if (vm->has_debugfs) {
		snprintf(sel, sizeof(sel), "%u-%d", l.tid, l.vm);
		assert_string_equal(vm->sel, sel);
		assert_true(vm->vcpu[0].has_offset);
	}
	vm_list_free(list);
	close(l.copy);
	close(l.vcpu);
	close(l.vm);
}

#define FX_TEST(f) cmocka_unit_test_setup_teardown(f, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FX_TEST(test_qemu),	     FX_TEST(test_thread_names),
		FX_TEST(test_sparse_ids),    FX_TEST(test_other_vmms),
		FX_TEST(test_ratio),	     FX_TEST(test_clock_trouble),
		FX_TEST(test_reread),	     FX_TEST(test_two_in_one),
		FX_TEST(test_creator_threads), FX_TEST(test_no_directory),
		FX_TEST(test_creator_threads), FX_TEST(test_no_vcpu_directories),
		FX_TEST(test_told),	     FX_TEST(test_no_proc),
		FX_TEST(test_made_by),	     FX_TEST(test_watch),
		cmocka_unit_test(test_live),
	};

	return cmocka_run_group_tests_name("vm/scan", tests, NULL, NULL);
}
