/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * priv.h: what the files of the latency analyses share.
 *
 *   events.c   a record becomes a struct lat_in: its kind and the fields that matter
 *   vcpu.c     what each vCPU does, and the time it is robbed of: by guest task and by thief; the
 *              threads of the VMM and of vhost
 *   irq.c      an interrupt from its source to its handler's end: measured, or closed and counted
 *   hrtimer.c  a deadline, or a high-resolution timer of the guest, and what became of it
 *   path.c     what those threads waited for
 *   io.c       a block request of the guest
 *   mem.c      a vCPU that waits for memory
 *   waits.c    what halts of vCPUs waited for
 *   net.c      a packet between the host and the guest; net.h likewise
 *   own.c      a guest without its host: its tasks that wait for a CPU, its handlers; the time
 *              from any event to any other
 *   feed.c     the walk
 *   table.c    tables, worst cases
 */
#pragma once

#include "kvmft/events.h"
#include "kvmft/ksyms.h"
#include "kvmft/latency.h"

#define LAT_FIELDS 4

/* A record, as far as it matters here. Absent fields are 0 and not in `has`. */
struct lat_in {
	enum event_role kind;
	const struct tl_item *i;
	uint64_t t; /* host TSC */
	/* of EV_EXIT the first two are what exit_why() says, the last its class */
	uint64_t f[LAT_FIELDS];
	uint32_t has;
};

/* The class of an exit: enum exit_kind, and this bit: the log of written pages is full. */
#define LAT_EXIT_LOG_FULL 0x100u

struct lat_decoder; /* of one source */

struct lat_decoder *lat_decoder_new(const struct fmt *fmt, bool guest); /* to be freed */
/* From now on fields are only read of what tells a vCPU's state, and, with mem, of its events. */
void lat_decoder_spare(struct lat_decoder *d, bool mem);
/* From now on, what lat_vcpu_now() does not need means nothing. */
void lat_decoder_states(struct lat_decoder *d);
/* False: the record means nothing to the analyses. */
bool lat_decode(struct lat_decoder *d, const struct tl_item *i, struct lat_in *in);
bool lat_decode_qemu(const struct tl_item *i, struct lat_in *in); /* the same of an event of QEMU */
/* Whether the capture has the format of such an event. */
bool lat_decoder_has(const struct lat_decoder *d, enum event_role kind);
/* The text field of the event (device or handler name, comm); "" when there is none. */
void lat_decode_text(const struct lat_decoder *d, const struct lat_in *in, char *buf, size_t size);

/* ---- interrupts ---- */

#define IRQ_NUMBERS 1024 /* no less than any event_irqs.numbers */

enum irq_source { SRC_UNKNOWN, SRC_MSI, SRC_LINE, SRC_IPI, SRC_IRQFD, SRC_SYNIC, SRC_STIMER,
		  SRC_GA_LOG /* of the IOMMU: the vector is not known, and is 0 */ };

struct irq_chain {
	bool open, posted, listed, injected, entered, handled;
	bool homeless; /* its vCPU is not known: it is kept at the VM's first */
	bool early; /* first of its vector, its acceptance was not seen */
	bool halted; /* the guest has halted once since it went in */
	bool slow, rung; /* AVIC: its targets were looked for one by one; its doorbell was */
	enum irq_source source;
	uint8_t did;	 /* lat_wait_did(): whoever raised it */
	uint16_t vector; /* event_irqs' number */
	uint32_t eoi_entries; /* entries since t_eoi */
	enum vs_state at_accept;
	uint64_t entries; /* of the vCPU when it was accepted */
	bool has_wake;
	int32_t by;    /* the thread that raised it; 0: not known */
	uint64_t wake; /* cycles that the thread which raised it had waited for a CPU */
	uint64_t t_source, t_accept, t_inject, t_entry, t_handler, t_end, t_eoi;
	uint64_t t_notify; /* posted: the vCPU was told of it; 0: was not seen */
	uint64_t spent[VS_STATES];  /* what the vCPU had done until it was accepted; then: since */
	bool passed_over;     /* there was an entry without it: from then on interrupts were off */
	uint64_t masked;      /* cycles in the guest until that entry; then: from there to it */
	uint64_t robbed;      /* cycles without a CPU until it was in; then: until its handler */
	bool is_timer;	      /* the local timer's, or Hyper-V's number stimer - 1: */
	uint8_t stimer;
	uint64_t deadline, armed_at, at_deadline[VS_STATES]; /* host TSC; times of the vCPU then */
	int32_t irq;	      /* the guest's number of it, -1 */
	char name[24];	      /* of its handler */
};

/* ---- vCPUs ---- */

#define LAT_OFF 32

struct lat_vcpu {
	size_t vm;
	uint32_t id;
	int32_t tid;
	struct lat_vcpu *next_of_vm;
	bool heard; /* looked up since the last gap of the host: in lat.heard */
	bool fresh; /* ... since the last gap of either side */
	const struct tl_source *host; /* where it ran last; NULL: nowhere yet */
	uint32_t cpu;		      /* ... on which CPU its thread was */
	enum vs_state state, base; /* base: what it does when it is on a CPU */
	uint64_t since, first, last;
	uint64_t exit; /* its last kvm_exit */
	bool in_user;  /* the guest was in user space then */
	bool in_fault; /* it was for memory, as far as is known */
	uint64_t faulted; /* cycles of such exits, until the next entry */
	uint64_t time[VS_STATES], entries;
	bool seen, asleep, stopped;
	bool cut; /* there was a gap: in between it may have done anything */
	uint64_t known; /* its state is, since then */
	/* robbed of its CPU since steal_begin */
	uint64_t steal_begin;
	uint32_t steal_cpu;
	uint64_t thief_since;
	bool queued; /* in lat_cpu.queue of steal_cpu */
	struct lat_vcpu *after, *before; /* ... */
	int32_t from; /* the thread that left its CPU to it; -1: unknown */
	struct lat_off {
		uint64_t begin, end;
	} off[LAT_OFF]; /* a ring */
	uint64_t noff;
	/* the guest */
	bool guest_known; /* its current task is known */
	int32_t guest_tid;
	int irq_depth, softirq_depth;
	uint8_t guest_preempt;
	/* interrupts */
	uint16_t numbers;	 /* of interrupts */
	struct irq_chain *chain; /* as many, made at the first */
	/* met: since the last gap; next: the next entry is to be told of it */
	uint64_t open[IRQ_NUMBERS / 64], met[IRQ_NUMBERS / 64], next[IRQ_NUMBERS / 64];
	struct irq_chain running; /* open: the one whose handler runs */
	bool rings;	    /* a doorbell may follow, by the thread that has posted this: */
	int32_t posted_by;
	uint16_t posted;
	bool is_inhibited; /* in lat_guest.inhibited */
	struct lat_vcpu *next_inhibited;
	bool has_last;
	struct irq_chain last_device; /* the device interrupt whose handler ran last */
	/* timer */
	bool armed, due;
	uint8_t stimer; /* not the APIC's: a synthetic timer of Hyper-V, its number and one */
	uint64_t deadline, armed_at;
	uint64_t at_deadline[VS_STATES];
	uint32_t io_pending; /* block requests that no doorbell was rung for yet */
	/* sleep of its thread, which counts as what it did before */
	uint64_t slept, asleep_since; /* since: 0, it does not */
	int32_t waker;		      /* who woke it last; 0: an interrupt, or unknown */
	uint64_t halt, kicked; /* since when it halts, when it was woken for a lock; 0: not */
	struct lat_wait {      /* a halt that is over; end 0: none */
		uint64_t begin, end, key;
		char name[LAT_NAME]; /* what it was for */
	} wait;
	struct mem_vcpu *stall;	      /* made at the first exit; NULL: mem is not wanted */
	struct lat_own {
		uint64_t t;
		enum event_role kind;
		uint32_t number;
		char name[40];
	} own[8]; /* handlers that run, of a guest without its host */
	uint32_t nhandlers;
};

/* The events of one vector's handlers in a guest capture; those of all devices are one event. */
struct lat_handler {
	bool begun;
	uint64_t begin, last; /* host TSC */
	uint64_t unmatched, ended; /* since then without a handler: no longer traced? */
	uint64_t untraced;    /* and before the first */
};

/* What is known about a VM's guest capture while it is walked. */
struct lat_guest {
	bool injects; /* kvm_inj_virq was seen: its interrupts are not posted */
	const struct tl_source *src; /* NULL: none */
	struct lat_vcpu *vcpu; /* the first of lat_vcpu.next_of_vm */
	bool begun;
	uint64_t begin; /* host TSC of its first event */
	uint64_t stop;	/* and of its end; UINT64_MAX: not known */
	uint64_t uncertain; /* cycles that its stamps may be off, either way */
	uint64_t blind_until; /* its events were lost up to here */
	struct lat_handler *handler; /* one for each number, made at the first interrupt */
	struct lat_vcpu *home;	     /* of interrupts whose vCPU is not known */
	struct lat_apicv apicv;
	uint32_t apicv_gen; /* cpu_gen when that was seen, and one; 0: not yet */
	bool is_inhibited;  /* it is, or was, since the last gap of the host: in lat.inhibited */
	struct lat_guest *next_inhibited;
	struct lat_vcpu *inhibited; /* those that have accepted interrupts meanwhile */
	size_t io_open;	 /* its block requests */
	uint32_t worker; /* the first of lat_worker.next; both are indices + 1 */
};

/*
 * What runs on a CPU of the host: the thread of the last switch. If the host was recorded for some
 * threads only, switches between others are missing: then another one may be the last that ran.
 */
struct lat_cpu {
	int32_t tid, last;
	uint64_t since; /* tid's switch */
	uint64_t left;	/* last's, as far as it was recorded */
	bool known;
	bool perhaps; /* others since then: not all of tid's switches were recorded */
	uint32_t gen;
	/* Who is robbed of it: the first LAT_QUEUE; who ran instead of others is not known. */
	struct lat_vcpu *queue;
	uint32_t nqueue;
};

/* A thread that works for a VM, but is not a vCPU. */
struct lat_worker {
	size_t vm;
	bool running, waiting; /* it was woken or preempted, and has no CPU */
	bool fresh;	       /* it raised no interrupt since it waited */
	bool seen;	       /* ... by a switch, since the last gap */
	uint32_t next;	       /* of the same VM */
	uint32_t gen;
	uint64_t woken, ran;   /* when it last began to wait, and to run */
};

struct lat_io;
struct lat_workers;
struct lat_path;
struct lat_hrtimers;
struct lat_mem;
struct lat_net;
struct lat_tasks;

#define LAT_NEAR_BITS 10

/* The last message of a thread, for the accept that follows it. */
struct lat_raised {
	bool valid, line, avic, slow; /* avic: the CPU has set it pending itself */
	int32_t tid;
	uint32_t cpu, gen;
	enum irq_source source;
	uint8_t did;
	int vector; /* of the first that accepted it; -1: none did */
	uint64_t t, wake;
	bool has_wake;
};

struct lat {
	const struct timeline *t;
	struct hostmap *map;
	struct lat_opts o;			/* want: except what is left out */
	const char *left_out[LAT_KINDS];	/* what that lacks */
	bool alone; /* a guest without its host */
	bool chains; /* interrupts are followed: not for states, mem, sched alone */
	uint64_t khz; /* of the host's TSC; 0: not known */
	struct lat_decoder **dec; /* by source */
	size_t nsrc;
	struct lat_vcpu **vcpu;
	size_t nvcpu, vcpu_cap;
	/* those that something may be known of: a gap must not take time for all others */
	struct lat_vcpu **heard;
	size_t nheard, heard_cap;
	struct u64map vcpu_at; /* vm << 32 | id → index */
	struct lat_vcpu *near[1u << LAT_NEAR_BITS]; /* ... met last */
	struct lat_guest *guest; /* by VM */
	struct lat_cpu *cpu;
	size_t ncpu, cpu_cap;
	uint32_t cpu_gen; /* after a gap of the host nothing is known of any, nor of workers */
	struct lat_guest *inhibited;
	bool some_switches;   /* of the host were recorded */
	bool unseen_switches; /* between other threads of the host, while a vCPU had no CPU */
	struct lat_table table[LAT_TABLES];
	struct u64map group_at[LAT_TABLES];
	struct hash_key group_key; /* of a VM and a key: no guest's is another's */
	uint32_t *vm_groups; /* by table, and VM + 1: how many groups it has */
	char **note;
	size_t nnote, note_cap;
	struct lat_io *io;
	struct lat_workers *workers;
	struct lat_path *path; /* NULL: not wanted, or nothing was recorded for it */
	struct lat_hrtimers *hrtimers;
	struct lat_mem *mem; /* NULL: not wanted */
	struct lat_net *net; /* NULL: not wanted */
	struct lat_tasks *tasks; /* NULL: not alone */
	struct u64map did, device_at; /* by thread, or a CPU's interrupts; by vCPU and vector */
	struct lat_device {
		uint32_t n, disk, net; /* accepted; raised by whom that did this */
		char name[24];	       /* of the guest's handler */
	} *device;
	size_t device_cap;
	struct spans *spans; /* NULL: not wanted */
	const struct event_irqs *irqs; /* of the host's guests */
	struct u64map irq_vector; /* vm << 32 | irq → vector, learnt */
	struct u64map irq_vcpu;	  /* vm << 32 | number of a shared one → vCPU of the last */
	struct u64map ga_vm;	  /* AVIC's number of a VM → vm, learnt */
	uint64_t ga_vmid; /* of the last EV_GA_LOG, if ga_tid is set */
	uint32_t ga_vcpu;
	int32_t ga_tid;
	bool svm; /* of the host's last exit */
	uint64_t now;
	bool begun;
	uint64_t begin, end; /* of the host's events */
	uint64_t stop;	     /* of its recording; UINT64_MAX: not known */
	struct lat_raised raised[2][128]; /* by threads, and by interrupts of the host */
	uint64_t blind_until; /* host events were lost up to here */
	bool (*seen)[EV_ROLES]; /* by source */
	uint32_t recorded, needs; /* enum evidence: of the host and any guest; that is lacking */
	struct {
		uint32_t stages, causes; /* bits of those that lack some of it */
	} untold[LAT_TABLES];
};

static inline bool lat_in_interrupt(const struct lat_in *in)
{
	return event_in_interrupt(in->i->src->fmt, in->i->rec);
}

/* A length of time in the unit of the results: ns, or cycles. */
static inline uint64_t lat_span(const struct lat *l, uint64_t cycles)
{
	return l->khz ? (uint64_t)((unsigned __int128)cycles * 1000000u / l->khz) : cycles;
}

/* A stage of a case was measured. */
static inline void lat_stage(struct lat_case *k, unsigned int which, uint64_t time)
{
	k->stage_time[which] = time;
	k->known |= 1u << which;
}

bool lat_wanted(const struct lat *l, int64_t vm, int64_t vcpu); /* whether the options ask for it */

/* A count of a table, of what is requested. */
static inline void lat_count_add(struct lat *l, size_t vm, uint32_t vcpu, enum lat_table_id id,
				 unsigned int which, uint64_t n)
{
	if (lat_wanted(l, (int64_t)vm, vcpu))
		l->table[id].count[which] += n;
}

static inline void lat_count(struct lat *l, const struct lat_vcpu *v, enum lat_table_id id,
			     unsigned int which)
{
	lat_count_add(l, v->vm, v->id, id, which, 1);
}

struct lat_vcpu *lat_vcpu_get(struct lat *l, size_t vm, uint32_t id); /* feed.c, table.c */
/* The group of a table by key, or of its VM's others. */
struct lat_group *lat_group_get(struct lat *l, enum lat_table_id id, int64_t vm, uint64_t key,
				uint32_t *index);
/* ... and named, unless it is already. */
__attribute__((format(printf, 6, 7))) struct lat_group *
lat_group_named(struct lat *l, enum lat_table_id id, int64_t vm, uint64_t key, uint32_t *index,
		const char *format, ...);
/* The greatest sum first. Before that, the worst cases know their group by its index. */
void lat_table_sort(struct lat_table *t);
void lat_stage_add(struct lat_group *g, unsigned int stage, uint64_t time);
void lat_table_untold(struct lat *l, enum lat_table_id id); /* takes out what was not recorded */
/* Takes c (stages by stage_time and known) into group g and, if long enough, among the worst. */
void lat_case_add(struct lat *l, enum lat_table_id id, struct lat_group *g, struct lat_case *c);
/* Whether a case with that total will be reported: it is among the worst so far. */
bool lat_case_told(const struct lat *l, enum lat_table_id id, uint64_t time);
/* Whether what it is about has to be written down. */
static inline bool lat_case_named(const struct lat *l, const struct lat_case *c)
{
	return !l->o.named_from || c->end - c->begin >= *l->o.named_from;
}
/* The VM that a thread of that host is of, or works for; -1: of none, or of two. */
int64_t lat_task_vm(const struct lat *l, const struct tl_source *host, int32_t tid);
/* The VM of an event outside vCPU threads: of its process, or the only one. */
int64_t lat_vm_of(const struct lat *l, const struct lat_in *in);

void lat_note_add(struct lat *l, const char *text); /* a remark on what is missing */

void lat_times_at(const struct lat_vcpu *v, uint64_t t, uint64_t time[VS_STATES]); /* vcpu.c */
/* Cycles in [from, to] in which v was robbed of its CPU; false: more than is remembered. */
bool lat_off_cpu(const struct lat_vcpu *v, uint64_t from, uint64_t to, uint64_t *off);
/* Cycles that v's thread had slept until t. */
uint64_t lat_slept(const struct lat_vcpu *v, uint64_t t);
void lat_vcpu_host(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
void lat_vcpu_switch(struct lat *l, const struct lat_in *in);
void lat_vcpu_wake(struct lat *l, const struct lat_in *in);
void lat_vcpu_woken_by(struct lat_vcpu *v, const struct lat_in *in);
/* Of a thread of that host; NULL: it is none. */
struct lat_vcpu *lat_vcpu_of_tid(struct lat *l, const struct tl_source *host, int32_t tid);
void lat_vcpu_guest(const struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
void lat_vcpu_forget(struct lat *l, struct lat_vcpu *v);
void lat_vcpu_finish(struct lat *l, struct lat_vcpu *v);

/* The group of the guest's task that v runs at t; c's cause becomes what it did. NULL: no room. */
struct lat_group *lat_hit_group(struct lat *l, enum lat_table_id id, const struct lat_vcpu *v,
				uint64_t t, struct lat_case *c);

void lat_workers_new(struct lat *l);
void lat_worker_wake(struct lat *l, const struct lat_in *in);
void lat_worker_switch(struct lat *l, const struct lat_in *in);
bool lat_worker_raises(struct lat *l, int32_t tid, uint64_t *waited);
uint64_t lat_worker_ran(const struct lat *l, size_t vm, uint64_t since);
/* When the thread got the CPU that it has; 0: it has none, or unknown. */
uint64_t lat_worker_since(const struct lat *l, int32_t tid);
void lat_workers_free(struct lat *l);

/* own.c: of a guest without its host */
#define LAT_TID_MAX (1u << 22) /* PID_MAX_LIMIT of the kernel (include/linux/threads.h) */
void lat_tasks_new(struct lat *l);
void lat_own_guest(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
/* Nothing is known any more of what waits and runs; cut: by lost events, else at the end. */
void lat_tasks_over(struct lat *l, bool cut);
void lat_tasks_free(struct lat *l);

void lat_event_feed(struct lat *l, const struct tl_item *i);
void lat_event_finish(struct lat *l);

/* waits.c, if that is wanted */
uint8_t lat_wait_did(struct lat *l, const struct lat_in *in); /* what its thread did: disk, net */
struct lat_device *lat_wait_device(struct lat *l, const struct lat_vcpu *v,
				   const struct irq_chain *c);
void lat_wait_accept(struct lat *l, const struct lat_vcpu *v, const struct irq_chain *c);
void lat_wait_host(struct lat *l, struct lat_vcpu *v, const struct lat_in *in); /* any event */

/* path.c: what threads of a VM waited for */
enum path_what {
	PATH_CPU,    /* it wanted one and had none */
	PATH_FAULT,  /* memory of its own that was not there */
	PATH_LOCK,   /* of the program */
	PATH_DISK,   /* a call that asked a disk */
	PATH_OTHERS, /* none of these, and no thread of the VM ended it */
	PATH_WHATS
};

struct path_told {
	uint64_t waited[PATH_WHATS]; /* cycles; the rest they worked */
	uint32_t faults;	     /* of theirs, each told once */
};

void lat_path_new(struct lat *l);
/* What it waited for, from..to, until thread tid was at `to`; false: not all is known. */
bool lat_path_waits(const struct lat *l, int32_t tid, uint64_t from, uint64_t to,
		    struct path_told *told);
void lat_path_event(struct lat *l, const struct lat_in *in);
void lat_path_forget(struct lat *l); /* events were lost */
void lat_path_free(struct lat *l);
/* What a thread of the host does, which means nothing to others. */
static inline bool lat_path_is(enum event_role kind)
{
	return kind >= EV_SYSCALL && kind <= EV_KERNEL_FAULT;
}

/* irq.c */
/* Any event of the host: what was raised belongs to the accepts that follow it at once. */
void lat_irq_raised(struct lat *l, const struct lat_in *in);
void lat_irq_finish(struct lat *l);
void lat_irq_accept(struct lat *l, const struct lat_in *in);
void lat_irq_line(struct lat *l, const struct lat_in *in);
/* EV_HV_EXPIRED, EV_HV_SYNIC: what was accepted just before */
void lat_irq_hyperv(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
void lat_irq_inject(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
void lat_irq_entry(struct lat *l, struct lat_vcpu *v, uint64_t t);
/* The next entry of the vCPU is to be told of it. */
static inline void lat_irq_due(struct lat_vcpu *v, const struct irq_chain *c)
{
	v->next[c->vector / 64] |= 1ull << c->vector % 64;
}
void lat_irq_eoi(struct lat *l, const struct lat_in *in);
/* EV_DOORBELL, EV_GA_LOG; EV_WAKEUP, by which a VM is known. */
void lat_irq_avic(struct lat *l, const struct lat_in *in);
void lat_irq_inhibit(struct lat *l, const struct lat_in *in);
/* Any event of the guest. */
void lat_irq_guest(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
void lat_irq_forget(struct lat *l, struct lat_vcpu *v);

/* The next vector after `vector` (-1: from the first on) with an open chain; -1: none. */
int lat_chain_next(const struct lat_vcpu *v, int vector);
/*
 * With a guest's capture: at t the vCPU has handled every interrupt that went in before, apart from
 * vector `except`; or only those injected; or, as it halts, these and what was in at its last halt.
 */
enum lat_past { PAST_ALL, PAST_INJECTED, PAST_HALT };
void lat_irq_passed(struct lat *l, struct lat_vcpu *v, uint64_t t, int except, enum lat_past what);

/* hrtimer.c */
void lat_timer_msr(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
void lat_stimer_set(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
void lat_stimer_expired(struct lat *l, struct lat_vcpu *v, struct irq_chain *c, uint64_t index);
void lat_timer_tick(struct lat_vcpu *v, uint64_t t); /* before anything changes at t */
void lat_timer_accept(struct lat *l, struct lat_vcpu *v, struct irq_chain *c);
void lat_timer_fired(struct lat *l, struct lat_vcpu *v, const struct irq_chain *c);
void lat_hrtimers_new(struct lat *l);
void lat_hrtimer_guest(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
void lat_hrtimers_forget(struct lat *l, int64_t vm); /* -1: of all */
void lat_hrtimers_finish(struct lat *l);
void lat_hrtimers_free(struct lat *l);

/* io.c */
void lat_io_new(struct lat *l);
void lat_io_guest(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
/* Whether a vCPU's event is, or may be, the write to a device's doorbell. */
bool lat_is_doorbell(const struct lat_in *in);
void lat_io_host(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
/* A thread of the VMM or of vhost was woken, and runs. */
void lat_io_worker_runs(struct lat *l, const struct lat_worker *w);
void lat_io_qemu(struct lat *l, const struct lat_in *in);
void lat_io_qemu_forget(struct lat *l); /* QEMU's events were lost */
uint64_t lat_io_qemu_around(const struct lat *l); /* cycles */
/* Events of a VM were lost; vm -1: of the host. */
void lat_io_forget(struct lat *l, int64_t vm);
void lat_io_finish(struct lat *l);
void lat_io_free(struct lat *l);

void lat_mem_new(struct lat *l); /* mem.c */
/* An event of memory, by any thread of the host: v is the vCPU's that it runs, or NULL. */
bool lat_mem_is(enum event_role kind);
void lat_mem_event(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
void lat_mem_exit(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
/* Before the entry is taken for one. */
void lat_mem_entry(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
void lat_mem_device(struct lat_vcpu *v);
void lat_mem_forget(struct lat *l);
void lat_mem_notes(struct lat *l);
void lat_mem_finish(struct lat *l);
void lat_mem_free(struct lat *l);

void lat_net_new(struct lat *l); /* net.c; vm -1: of all */
/* An event of the network, which means nothing to the others. */
static inline bool lat_net_is(enum event_role kind)
{
	return kind >= EV_NET_QUEUE && kind <= EV_CALL_END;
}
void lat_net_host(struct lat *l, const struct lat_in *in);
void lat_net_guest(struct lat *l, struct lat_vcpu *v, const struct lat_in *in);
void lat_net_doorbell(struct lat *l, struct lat_vcpu *v);
void lat_net_forget(struct lat *l, int64_t vm);
void lat_net_finish(struct lat *l);
void lat_net_free(struct lat *l);

extern const struct lat_desc lat_desc_net_rx, lat_desc_net_tx;
extern const struct lat_desc lat_desc_mem, lat_desc_mem_vcpu, lat_desc_mem_task, lat_desc_mem_gpa,
	lat_desc_mem_thread, lat_desc_mem_time, lat_desc_mem_move;

/* Counters of the tables: indices into lat_desc.count. */
enum {
	IRQ_ACCEPTED, IRQ_MEASURED, IRQ_LOST, IRQ_UNMATCHED, IRQ_ENDED, IRQ_UNTRACED,
	IRQ_OUTSIDE, IRQ_HOMELESS, IRQ_BEFORE, IRQ_CUT, IRQ_OPEN, IRQ_COALESCED,
	IRQ_REINJECTED, IRQ_POSTED, IRQ_STRAY,
	IRQ_DOORBELLS, IRQ_BELL_ALONE, IRQ_GA_LOGS, IRQ_GA_ALONE, IRQ_AVIC_IPIS, IRQ_AVIC_ACCESSES,
	IRQ_POSTED_ALONE, IRQ_INHIBITED
};
enum { HALT_ALL, HALT_DEVICE, HALT_UNKNOWN, HALT_CUT, HALT_OPEN };
enum { SCHED_INTERVALS, SCHED_UNSEEN, SCHED_NO_TASK, SCHED_CUT, SCHED_OPEN };
enum {
	IO_ISSUED, IO_COMPLETED, IO_AMBIGUOUS, IO_NO_DOORBELL, IO_NO_IRQ, IO_OUTSIDE,
	IO_CUT, IO_OPEN, IO_STRAY, IO_UNTOLD,
	IO_FAULTS
};
enum {
	TIMER_ARMED, TIMER_FIRED, TIMER_CANCELLED, TIMER_REARMED, TIMER_UNPLACED, TIMER_CUT,
	TIMER_OPEN, TIMER_MEASURED,
	TIMER_UNSEEN
};
enum {
	HRT_STARTED, HRT_EXPIRED, HRT_CANCELLED, HRT_REARMED, HRT_CUT, HRT_OPEN,
	HRT_UNPLACED, HRT_OUTSIDE, HRT_ALONE,
	HRT_STRAY
};
