/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest_clock.c: sched_clock offsets and pvclock records of this guest.
 *
 * kvm_sched_clock_offset and hv_clock_boot: arch/x86/kernel/kvmclock.c; __sched_clock_offset:
 * kernel/sched/clock.c; the record's layout is the ABI of arch/x86/include/asm/pvclock-abi.h,
 * one per cache line (64 bytes) and CPU.
 */
#include "kvmft/kernel.h"

#define PV_STRIDE 64
#define PV_ARGS	  7 /* per record: version first and last, and five fields */
#define PV_BATCH  8 /* records per probe hit, so that one hit holds whole records */

static const struct {
	unsigned int off;
	const char *type;
} pv_field[PV_ARGS] = {
	{ 0, "u32" },  { 8, "x64" }, { 16, "x64" }, { 24, "x32" },
	{ 28, "s8" }, { 29, "x8" },  { 0, "u32" },
};

/* Offsets, the first records and the timekeeper in one shot; more records in further ones. */
static void read_by_probe(struct ktracefs *t, struct kguest_clock *g)
{
	struct kread_arg arg[2 + PV_BATCH * PV_ARGS + KTK_ARGS];
	char where[PV_BATCH * PV_ARGS][32], where_tk[KTK_ARGS][32];
	_cleanup_(kcpus_free) struct kcpus cpus = { 0 };
	struct kvmft_err err = { .text = "" };
	uint32_t ncpu = 1;

	if (kcpus_read(KCPU_POSSIBLE, &cpus) == 0 && cpus.n)
		ncpu = MIN(cpus.cpu[cpus.n - 1] + 1, (uint32_t)KGUEST_MAX_PVCLOCK);
	for (uint32_t first = 0; first < ncpu; first += PV_BATCH) {
		size_t n = MIN((size_t)(ncpu - first), (size_t)PV_BATCH), at = first ? 0 : 2;
		size_t nargs = at + n * PV_ARGS;
		int ret;

		arg[0] = (struct kread_arg){ .where = "kvm_sched_clock_offset", .type = "x64" };
		arg[1] = (struct kread_arg){ .where = "__sched_clock_offset", .type = "s64" };
		for (size_t i = 0; i < n * PV_ARGS; i++) {
			unsigned int off = (first + (uint32_t)(i / PV_ARGS)) * PV_STRIDE +
					   pv_field[i % PV_ARGS].off;

			snprintf(where[i], sizeof(where[i]), "hv_clock_boot+%u", off);
			arg[at + i] = (struct kread_arg){ .where = where[i],
							  .type = pv_field[i % PV_ARGS].type };
		}
		if (!first)
			kmono_raw_args(arg + nargs, where_tk);
		ret = kread_symbols(t, arg, nargs + (first ? 0 : KTK_ARGS), &err);
		if (ret < 0) {
			snprintf(g->why, sizeof(g->why), "%.255s",
				 err.text[0] ? err.text : strerror(-ret));
			return;
		}
		if (!first && arg[0].present) {
			g->has_kvm_offset = true;
			g->kvm_offset = (int64_t)arg[0].value;
			g->kvm_source = "kprobe";
		}
		if (!first && arg[1].present) {
			g->has_kernel_offset = true;
			g->kernel_offset = (int64_t)arg[1].value;
			g->kernel_source = "kprobe";
		}
		if (!first)
			g->has_raw = kmono_raw_take(arg + nargs, &g->raw) == 0;
		for (size_t i = 0; i < n; i++) {
			const struct kread_arg *a = &arg[at + i * PV_ARGS];
			size_t got = 0;

			while (got < PV_ARGS && a[got].present)
				got++;
			/* Odd: the host was writing; 0: never registered; different: changed. */
			if (got < PV_ARGS || a[0].value != a[PV_ARGS - 1].value || !a[0].value ||
			    (a[0].value & 1))
				continue;
			g->pv[g->npv++] = (struct cpu_pvclock){
				.cpu = first + (uint32_t)i,
				.pv = {
					.version = (uint32_t)a[0].value,
					.tsc_timestamp = a[1].value,
					.system_time = a[2].value,
					.mul = (uint32_t)a[3].value,
					.shift = (int8_t)a[4].value,
					.flags = (uint8_t)a[5].value,
				},
			};
		}
	}
}

void kguest_clock_read(struct ktracefs *t, struct kguest_clock *g)
{
	_cleanup_free_ char *text = NULL;
	struct klog_sched s = { 0 };
	struct ktsc_facts tsc;

	memset(g, 0, sizeof(*g));
	ktsc_facts_read(NULL, &tsc);
	g->kvm_guest = !strncmp(tsc.hv_signature, "KVMKVMKVM", 9);
	if (t)
		read_by_probe(t, g);
	if (!klog_read(&text, NULL))
		klog_parse_sched(text, &s);
	if (s.has_kvm) {
		g->sched_known = true;
		g->sched_is_tsc = false;
	}
	if (s.has_kvm && !g->has_kvm_offset) {
		g->has_kvm_offset = true;
		g->kvm_offset = s.kvm_sched_clock_offset;
		g->kvm_source = "dmesg";
	}
	if (s.has_kernel && !g->has_kernel_offset) {
		g->has_kernel_offset = true;
		g->kernel_offset = s.kernel_sched_offset;
		g->kernel_source = "dmesg";
	}
	/*
	 * A guest that does not use kvmclock has the variables, too, all zero: the offset is set
	 * together with sched_clock (kvm_sched_clock_init), and is never 0 once it is set.
	 */
	if (g->has_kvm_offset && g->kvm_source[0] == 'k' && !g->sched_known) {
		g->sched_known = true;
		g->sched_is_tsc = g->kvm_offset == 0;
	}
	if (g->sched_is_tsc)
		g->has_kvm_offset = false;
}
