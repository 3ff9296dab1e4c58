/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hostmap.h: who is who in a host capture: which thread runs which vCPU of which VM, and what
 * each vCPU's clock was at any time of the capture.
 *
 * Built by one unordered pass over the host's sub-buffers, before the timeline is walked: the
 * events that matter here are rare, but any of them may stand at the end of the file.
 */
#ifndef KVMFT_HOSTMAP_H
#define KVMFT_HOSTMAP_H

#include "kvmft/capture.h"
#include "kvmft/epoch.h"
#include "kvmft/ring.h"

/* What it rests on that certain threads are a VM; the weakest link counts. */
enum hostmap_basis {
	HOSTMAP_RECORDED,   /* the capture says so */
	HOSTMAP_BY_PROCESS, /* they are of one process, or there is but one */
	HOSTMAP_BY_WAKES,   /* they wake each other */
	HOSTMAP_BY_IDS,	    /* their thread ids follow each other, with different vCPU ids */
	HOSTMAP_BY_USER,    /* "tids:LIST" */
	HOSTMAP_BY_GUEST,   /* a guest's events fit these threads and no others */
};
extern const char *const hostmap_basis_names[];

struct ksyms;

struct hostmap_vm {
	const struct cap_vm *cap; /* NULL: known from events only */
	int32_t pid;		  /* tgid of the VMM; 0 = unknown; may be by a task's name */
	char label[64];		  /* name, else UUID, else PID-FD, else "pid:N", else "tids:N,M" */
	enum hostmap_basis basis;
	uint64_t first, last; /* kvm_entry, host stamps; of VMs without cap */
	size_t threads; /* index of its first one; HOSTMAP_END: none are known */
	bool empty;  /* its threads turned out to be another's */
	bool paired; /* a guest capture is of it: its threads stay */
	struct epoch_vm *epochs;
	/*
	 * A VM of which there are several guest captures has an entry for each, because their
	 * clocks may be forced or solved apart. `of` is the first one's number, which is the VM's,
	 * and the own one of all others; `next` leads from it through the rest.
	 */
	size_t of, next;
	bool moved; /* to another host: what debugfs said at the end is not the last word */
	bool has_forced; /* a map given by hand, or solved, replaces all that the capture says */
	const struct ksyms *syms; /* of its guest's kernel, see guest_rip.h; borrowed; NULL: none */
	uint64_t uncertain; /* solved: may be so many host cycles wrong either way; else 0 */
	struct tsc_map forced;
	const struct tsc_map *scale; /* ratio and fraction bits, given by hand; NULL: as recorded */
	size_t forced_vcpus; /* ... for ids below this, and for those seen */
	struct hostmap_forced {
		uint32_t vcpu;
		uint64_t from; /* host TSC; 0: from the beginning */
		struct tsc_map map;
	} *own; /* ... but for these vCPUs; by time. Not forced: what the capture lacks */
	size_t n_own, own_cap;
};

#define HOSTMAP_END SIZE_MAX /* in `next` */

struct hostmap_thread {
	int32_t tid;
	size_t vm; /* index into hostmap.vm; HOSTMAP_END: none, until the events were read */
	uint32_t vcpu;
	size_t next; /* the VM's next one; HOSTMAP_END: it is the last */
};

struct hostmap_event; /* a remembered clock event */
struct own_tsc;

struct hostmap {
	const struct capture *cap;
	const struct fmt *fmt;
	struct own_tsc *own; /* trace clock to TSC; NULL: it is that, or cannot be */
	struct hostmap_vm *vm;
	size_t nvm, vm_cap;
	struct hostmap_thread *thread;
	size_t nthread, thread_cap;
	struct u64map by_tid;  /* tid → index into thread */
	struct u64map tgid_of; /* tid → tgid, from the capture's tasks */
	struct u64map last_write; /* vm << 32 | vcpu → index of its last kvm_write_tsc_offset */
	struct hostmap_event *event;
	size_t nevent, event_cap;
	uint64_t entries, exits; /* kvm_entry and kvm_exit events seen */
};

/*
 * Reads the host capture. cap and fmt are borrowed and must outlive the map. 0, or -errno with
 * err set. A capture whose trace clock cannot be put on the host's TSC gives threads, but no
 * clocks: see hostmap_clock().
 */
int hostmap_new(const struct capture *cap, const struct fmt *fmt, struct hostmap **out,
		struct kvmft_err *err) __must_check;
/*
 * Only what the capture says in so many words: VMs, vCPUs and threads as recorded, no look at the
 * events and no clocks. For those who walk the events themselves. 0 or -ENOMEM.
 */
int hostmap_known(const struct capture *cap, const struct fmt *fmt, struct hostmap **out)
	__must_check;
/* 0; -ENOTSUP with err: its trace clock cannot be put on the host's TSC, and what to do. */
int hostmap_clock(const struct hostmap *m, struct kvmft_err *err) __must_check;
/*
 * Clock events that an older state of the same capture had, and this one, whose oldest segments are
 * gone, has not: what they said still holds. 0 or -ENOMEM.
 */
int hostmap_inherit(struct hostmap *m, const struct hostmap *before) __must_check;
void hostmap_free(struct hostmap *m);

/* Makes an entry for one more capture of VM number vm: *out. 0 or -ENOMEM. */
int hostmap_add_side(struct hostmap *m, size_t vm, size_t *out) __must_check;

/* for (...) over the threads of a VM, t: const struct hostmap_thread * */
#define hostmap_each_thread(m, v, t)                        \
	for (size_t each_ = (m)->vm[(m)->vm[v].of].threads; \
	     each_ != HOSTMAP_END && ((t) = &(m)->thread[each_]); each_ = (m)->thread[each_].next)

/* The vCPU that a thread runs; NULL when it runs none. */
const struct hostmap_thread *hostmap_thread(const struct hostmap *m, int32_t tid);
/* Number of the VM that a thread is of, or works for as vhost's do; -1: of none, or of two. */
ssize_t hostmap_task_vm(const struct hostmap *m, int32_t tid);
/*
 * Index of the VM that sel names (see vmsel.h); -errno with candidates in err. A list of threads
 * makes a VM of them, if they were not taken for one, and others lose them.
 */
ssize_t hostmap_find_vm(struct hostmap *m, const char *sel, struct kvmft_err *err);
/* The VM of just these threads, made where there is none: its index, or -errno with err. */
ssize_t hostmap_take_threads(struct hostmap *m, const int32_t *tid, size_t n,
			     enum hostmap_basis basis, struct kvmft_err *err);
/* The threads of VM `from` are those of VM vm, of which none are known. 0 or -ENOMEM. */
int hostmap_adopt(struct hostmap *m, size_t vm, size_t from) __must_check;
/* All VMs, as selectors; "none". */
void hostmap_list(const struct hostmap *m, struct sbuf *out);
/* "tids:137,138": the threads of a VM. 0 or -ENOMEM. */
int hostmap_vm_tids(const struct hostmap *m, size_t vm, struct sbuf *out) __must_check;
/* The thread of vCPU id of VM number vm; NULL when none was seen. */
const struct hostmap_thread *hostmap_vcpu(const struct hostmap *m, size_t vm, uint32_t id);
/*
 * Adds a pvclock record that was read inside the guest when its TSC was guest_tsc, and builds the
 * VM's epochs anew. 0, -errno; -ESRCH when guest_tsc belongs to no epoch.
 */
int hostmap_add_pvclock(struct hostmap *m, size_t vm, uint32_t vcpu, uint64_t guest_tsc,
			const struct pvclock *pv) __must_check;
/* An offset that came into force elsewhere, where the VM moved to, at that host TSC. 0, -errno. */
int hostmap_add_offset_at(struct hostmap *m, size_t vm, uint32_t vcpu, uint64_t host, uint64_t prev,
			  uint64_t next) __must_check;
/* Makes an entry, without clocks, for a VM of another host: *out. 0 or -ENOMEM. */
int hostmap_add_foreign(struct hostmap *m, const struct hostmap_vm *vm, size_t *out) __must_check;
/* The same where the host TSC of that moment is known. 0, -errno. */
int hostmap_add_pvclock_at(struct hostmap *m, size_t vm, uint32_t vcpu, uint64_t host,
			   const struct pvclock *pv) __must_check;
/*
 * What the user gives by hand replaces what the capture says: every vCPU of the VM (ids 0..n-1,
 * and those known) gets this map for the whole capture.
 */
int hostmap_force_map(struct hostmap *m, size_t vm, size_t n, const struct tsc_map *map)
	__must_check;
/* Ratio and fraction bits of all VMs; offsets stay as recorded. Borrowed. 0 or -ENOMEM. */
int hostmap_set_scale(struct hostmap *m, const struct tsc_map *scale) __must_check;
/*
 * Another one for that vCPU alone, after hostmap_force_map(), or one where the capture has none;
 * from host TSC `from` on: 0 for the beginning, later ones only change the offset.
 */
int hostmap_force_vcpu(struct hostmap *m, size_t vm, uint32_t vcpu, uint64_t from,
		       const struct tsc_map *map)
	__must_check;
/*
 * What the guest's own file tells of its vCPUs' offsets, as trace-cmd writes them (TIME_SHIFT),
 * where the host's capture, to which that must refer, says nothing of them. 0, -ENOMEM.
 */
int hostmap_add_shift(struct hostmap *m, size_t vm, const struct capture *guest) __must_check;

#endif
