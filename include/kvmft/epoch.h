/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * epoch.h: which TSC map and which pvclock record a vCPU had at a given moment.
 *
 * A vCPU's TSC offset changes when the guest or user space writes its TSC, and its pvclock record
 * when KVM takes a new snapshot. struct epoch_vm replays those events, in host-TSC order, into one
 * list of epochs per vCPU. Converting from the host picks the epoch by time. Converting to the host
 * tries every epoch and accepts only a result inside the epoch that produced it; if there is none,
 * or more than one, that is reported, never guessed.
 *
 * All stamps are host TSC cycles unless they are called guest (cycles) or ns (kvmclock).
 */
#pragma once

#include "kvmft/clock.h"

/* Outcome of a conversion; the first three have stored a value, the others have not. */
enum epoch_result {
	EPOCH_EXACT,	    /* one epoch, its constants observed */
	EPOCH_BORROWED,	    /* pvclock record seen only later; an unseen change is possible */
	EPOCH_DOUBTFUL,	    /* lost events, or a ratio unknown or changed, put it in doubt */
	EPOCH_AMBIGUOUS,    /* two or more places on the host are possible */
	EPOCH_NONE,	    /* no epoch produces it */
	EPOCH_BEFORE_FIRST, /* before the first epoch known */
	EPOCH_NO_MAP,	    /* nothing known about this vCPU */
	EPOCH_NO_RECORD,    /* no pvclock record known for that time */
	EPOCH_RANGE,	    /* the arithmetic has no answer (before the clock's zero, ...) */
	EPOCH_NR_RESULTS,
};

/* True if the conversion stored a value. */
static inline bool epoch_result_usable(enum epoch_result r)
{
	return r <= EPOCH_DOUBTFUL;
}

/* What was noticed about a vCPU while its epochs were built; a bit set. */
enum epoch_note {
	EPOCH_NOTE_READ_MISMATCH = 1 << 0, /* first event's previous is not what debugfs said */
	EPOCH_NOTE_CHAIN_BROKEN = 1 << 1,  /* an event's previous is not the last one's next */
	EPOCH_NOTE_LOST_EVENTS = 1 << 2,   /* offset at the end differs from the last event */
	/* ratio at the end differs; no record says since when */
	EPOCH_NOTE_RATIO_CHANGED = 1 << 3,
	EPOCH_NOTE_RATIO_UNKNOWN = 1 << 4, /* no debugfs value yet: "not scaled" is assumed */
};

/*
 * In force from @from until the next epoch's from.  The last one has no end, except that no
 * conversion towards the host looks further than 2^60 cycles into it.
 */
struct epoch {
	uint64_t from;
	struct tsc_map map;
	struct pvclock pv;
	bool has_map; /* only an epoch at the head of the list may lack it */
	bool has_pv;
	bool doubtful;
};

/* One vCPU.  Read freely; changed only by the functions below. */
struct epoch_vcpu {
	uint32_t id;	    /* KVM's vcpu_id: the APIC id, with gaps; not an index */
	unsigned int notes; /* enum epoch_note */
	struct epoch *v;
	size_t n, room;
	uint64_t read_at;     /* debugfs was read at this host TSC ... */
	uint64_t read_offset; /* ... and said this; to be compared while read_pending */
	bool has_read;
	bool read_pending;
	bool has_write;	     /* a kvm_write_tsc_offset was seen */
};

/* One VM: vCPUs sorted by id.  Pointers to vCPUs stay valid until epoch_vm_free(). */
struct epoch_vm {
	struct epoch_vcpu **vcpus;
	size_t n, room;
	uint64_t khz;	     /* of the host's TSC, set by who makes it; 0: not known */
	uint64_t watch_from; /* offset events are recorded since this host TSC */
	uint64_t last_event; /* host TSC of the newest event fed */
	struct pvclock pv;	     /* the VM-wide record, if has_pv, ... */
	uint64_t pv_from;	     /* ... seen first at this host TSC */
	bool has_pv;
	uint64_t announced; /* records, times vCPUs */
};

/*
 * A new empty VM; free with epoch_vm_free(). NULL if out of memory. @watch_from: host TSC from
 * which on kvm_write_tsc_offset was being recorded; what debugfs said later then holds from there
 * on unless an event says otherwise. 0 if the start does not matter.
 */
struct epoch_vm *epoch_vm_new(uint64_t watch_from);

/* Accepts NULL and a VM that any failing function below has left behind. */
void epoch_vm_free(struct epoch_vm *vm);

/* The vCPU with that id, or NULL.  Borrowed. */
const struct epoch_vcpu *epoch_vm_find(const struct epoch_vm *vm, uint32_t id);

/*
 * The same, or the VM's first vCPU where there is none of that id, or none was requested (-1).
 * NULL: the VM is NULL or has none.
 */
const struct epoch_vcpu *epoch_vm_or_first(const struct epoch_vm *vm, int64_t id);

/* Is the map of that vCPU known, at any time?  @vm may be NULL. */
bool epoch_vm_has_map(const struct epoch_vm *vm, uint32_t id);

/*
 * The map of the first vCPU whose first map is known: vCPUs share the ratio. NULL if there is none.
 */
const struct tsc_map *epoch_vm_first_map(const struct epoch_vm *vm);

/*
 * Feeding.  Events in the order of their host TSC; all return 0, -ENOMEM, or -EINVAL for an event
 * older than the newest one fed.  On error nothing has changed but the notes of that vCPU.  A
 * new vCPU id makes a new vCPU, even then.
 */

/*
 * debugfs said @map when it was read at host TSC @at (not an event: any @at will do).  Feed it
 * before the first kvm_write_tsc_offset of that vCPU, whatever the stamp of that event: events
 * older than @at are then understood as having led to what was read.
 * -EINVAL: a value or an offset event was fed for this vCPU already; or as tsc_map_check().
 */
int epoch_vm_read(struct epoch_vm *vm, uint32_t id, uint64_t at, const struct tsc_map *map);

/*
 * Tracepoint kvm_write_tsc_offset at @host: L1 offset @prev became @next.  The ratio stays.
 * @prev is checked against what is known: see EPOCH_NOTE_READ_MISMATCH and _CHAIN_BROKEN; the
 * epoch it contradicts becomes doubtful.  With another offset the record of this vCPU ends too:
 * KVM announces a new one before the guest runs again.  A first write with @prev 0, of a vCPU of
 * which nothing older is known, makes it: it has no time before @host (kvm_arch_vcpu_create() in
 * arch/x86/kvm/x86.c leaves the offset 0 and then sets it).
 * A software KVM (PVM) prints offsets it never applies: do not feed them.
 */
int epoch_vm_write_offset(struct epoch_vm *vm, uint32_t id, uint64_t host, uint64_t prev,
			  uint64_t next);

/* Tracepoint kvm_update_master_clock: a new snapshot.  Records stay until announced. */
int epoch_vm_master_clock(struct epoch_vm *vm, uint64_t host, bool use_master_clock);

/*
 * Tracepoint kvm_pvclock_update, or a record read in the guest at @host.  With TSC_STABLE set it
 * counts for every vCPU of the VM, else for this one.  A re-announcement makes no epoch.
 * Also an error of pvclock_check() (nothing changed).
 */
int epoch_vm_pvclock(struct epoch_vm *vm, uint32_t id, uint64_t host, const struct pvclock *pv);

/*
 * debugfs said @map at the end of the capture; feed it last.  Differences are noted: another
 * offset makes the last epoch doubtful, another ratio all of them, unless the pvclock records say
 * since when it is in force: they are made for the frequency of the guest's TSC.  Where no initial
 * value was fed it serves as one.  Returns a bit set of the enum epoch_note found now (0: all
 * well), -ENOMEM, or an error of tsc_map_check().
 */
int epoch_vm_check_end(struct epoch_vm *vm, uint32_t id, const struct tsc_map *map);

/* Conversions; @c as found by epoch_vm_find(), NULL gives EPOCH_NO_MAP. */

/* Index of the epoch in force at @host, or -1 before the first. */
long epoch_index(const struct epoch_vcpu *c, uint64_t host);

/* Guest TSC at host TSC @host: exact. */
enum epoch_result epoch_host_to_guest(const struct epoch_vcpu *c, uint64_t host, uint64_t *guest);

/*
 * Host TSCs at which the guest read @guest: [*lo, *hi], never empty; if no host cycle reads the
 * value, it is the first one after it.
 */
enum epoch_result epoch_guest_to_host(const struct epoch_vcpu *c, uint64_t guest, uint64_t *lo,
				      uint64_t *hi);

/* Guest TSCs @from .. @from + @len - 1 are host TSCs + @offset; @len 0: none. */
struct epoch_line {
	uint64_t from, len, offset;
};

/*
 * What epoch_guest_to_host() says of all guest TSCs around @guest as a line, for which no epoch has
 * to be looked up. False: @guest has no host TSC, or several, or a TSC that is scaled.
 */
bool epoch_guest_line(const struct epoch_vcpu *c, uint64_t guest, struct epoch_line *line);

/* kvmclock ns at host TSC @host, by the map and the record in force: exact. */
enum epoch_result epoch_host_to_kvmclock(const struct epoch_vcpu *c, uint64_t host, uint64_t *ns);

/* Host TSCs at which kvmclock read @ns: [*lo, *hi] as for epoch_guest_to_host(). */
enum epoch_result epoch_kvmclock_to_host(const struct epoch_vcpu *c, uint64_t ns, uint64_t *lo,
					 uint64_t *hi);

/*
 * The same between guest TSC and kvmclock; the epoch is the one the value belongs to on the host,
 * under the same rule of exactly one.  A guest TSC has one kvmclock.
 */
enum epoch_result epoch_guest_to_kvmclock(const struct epoch_vcpu *c, uint64_t guest, uint64_t *ns);
enum epoch_result epoch_kvmclock_to_guest(const struct epoch_vcpu *c, uint64_t ns, uint64_t *lo,
					  uint64_t *hi);
