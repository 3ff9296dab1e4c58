/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io.c: block requests of the guest, from block_rq_issue to block_rq_complete, through the host.
 *
 *   submit     until the guest rings the device's doorbell: the exit of that write
 *   host       the VMM's work: from the doorbell to the interrupt that reports the end
 *   deliver    from the interrupt's source on the host to its handler in the guest
 *   complete   from the handler to block_rq_complete
 *
 * A request is known by VM, device and first sector. One doorbell may serve several requests, and a
 * device that is busy needs none; one interrupt may end several. Where two requests of one device
 * have the same sector in flight, neither can be told from the other: both are left out.
 *
 * QEMU's own events, when there are any, part the host's time: until its virtio-blk takes the
 * request off the queue, until it has it done, until it raises the interrupt. They tell sector,
 * length and direction, and not which of the guest's devices it is: one open request alone must
 * fit.
 */
#include "priv.h"

/* At once: a guest that never completes must not fill memory, nor take the room of another. */
#define IO_OPEN_MAX   65536 /* of all guests */
#define IO_OPEN_LEAST 4096  /* of each, however many there are */
#define APIC_BASE     0xfee00000ull
#define APIC_SIZE     0x1000ull
#define MINORBITS     20 /* a dev is MAJOR << 20 | MINOR (include/linux/kdev_t.h) */

enum {
	ST_TOTAL, ST_SUBMIT, ST_HOST, ST_DELIVER, ST_COMPLETE, ST_VMM, ST_DISK, ST_TAKE,
	ST_BLOCK, ST_NOTIFY, ST_FAULTS, ST_VMM_CPU, ST_VMM_FAULT, ST_VMM_LOCK, ST_VMM_DISK,
	ST_VMM_SLEEP
};

const struct lat_desc lat_desc_io = {
	.name = "io",
	.kind = LAT_IO,
	.title = "block requests of the guest, and where their time went",
	.key = "Device",
	.stage = { "total", "submit", "host", "deliver", "complete", "vmm-wait", "disk", "take",
		   "block", "notify", "faults", "vmm-cpu", "vmm-fault", "vmm-lock", "vmm-disk",
		   "vmm-sleep" },
	.stage_help = {
		"from block_rq_issue to block_rq_complete in the guest",
		"from the issue to the exit of the doorbell's write",
		"from the doorbell to the source of the completion interrupt",
		"from there to the guest's handler",
		"from the handler to the completion",
		"of host: from the doorbell until a thread of the VMM or vhost got a CPU, if none ran",
		"of host: the host's own request, where one alone fits by size and direction",
		"of host: from the doorbell until QEMU took the request off the queue",
		"of host: from there until QEMU's block layer had done it",
		"of host: from there to the source of the completion interrupt",
		"of the total: the vCPU that issued it waited for memory",
		"of host: the VMM's threads that worked for it wanted a CPU and had none",
		"of host: ... waited for memory of their own, after a page fault",
		"of host: ... waited for a lock of the VMM (futex)",
		"of host: ... waited for a disk that they had asked",
		"of host: ... slept; nothing tells what for: the block layer, a timer, others",
	},
	.crosses = 1u << ST_SUBMIT | 1u << ST_DELIVER,
	.waits = ((1u << PATH_WHATS) - 1) << ST_VMM_CPU,
	.parts = 1u << ST_SUBMIT | 1u << ST_HOST | 1u << ST_DELIVER | 1u << ST_COMPLETE,
	.cause_is_stage = true,
	.cause = (const char *const[LAT_CAUSES]){ "", "guest_before: in the guest before the doorbell",
		   "host: on the host", "interrupt: interrupt delivery",
		   "guest_after: in the guest after the interrupt" },
	.count = { "issued", "completed", "ambiguous: ambiguous, left out",
		   "no_doorbell: without a doorbell of their own",
		   "no_interrupt: without a known interrupt",
		   "outside_host: outside the host's capture", "cut: cut by lost events",
		   "open: open at the end", "issue_not_seen: completions of requests not seen",
		   "vmm_wait_unknown: with unknown waits of the VMM's threads",
		   "vmm_faults: page faults of the VMM's threads meanwhile" },
};

enum { BY_NOTHING, BY_SUBMIT, BY_HOST, BY_DELIVER, BY_COMPLETE };

/* Requests that wait for the same are linked: many open ones do not slow down an event. */
enum io_list {
	ON_VM,	 /* all of it */
	ON_BELL, /* of a vCPU: no doorbell yet */
	ON_VMM,	 /* of a VM: rung, and nothing of the VMM worked since */
	ON_EXIT, /* ... of those, the ones rung by the same exit of a vCPU */
	ON_DISK, /* of a size and direction: no request of the host yet (0), or one not ended (1) */
	ON_QEMU, /* what QEMU may take; what it has taken under a pointer (2 is last) */
	ON_TAKEN, /* all of the latter */
	IO_LISTS
};

/* key: of the list, in lat_io.list; 0: on none. next, prev: indices + 1. */
struct io_link {
	uint64_t key;
	uint32_t next, prev;
};

struct request {
	struct io_link on[IO_LISTS];
	bool used, ambiguous;
	bool early; /* issued before the host recorded */
	uint64_t vm, dev, sector;
	uint32_t nsect, vcpu;
	char rwbs[8];
	uint64_t t_issue, t_doorbell, t_vmm, t_disk, t_disk_end;
	uint64_t faulted; /* how long its vCPU had waited for memory before */
	uint64_t qemu_around; /* cycles that QEMU's stamps may be off */
	uint64_t t_take, t_done;	/* by QEMU's events; 0: none seen */
};

struct lat_io {
	struct request *req;
	size_t nreq, req_cap;
	struct u64map at; /* request_key() → index + 1 */
	uint32_t *spare;
	size_t nspare, spare_cap;
	size_t open, share;   /* share: of one VM, at most */
	struct u64map list;   /* key → index + 1 of its first */
	size_t vmm_wait;      /* how many are ON_VMM */
	bool qemu;	      /* there is a trace of QEMU */
	uint64_t qemu_around; /* the most that a stamp of QEMU may be off, cycles */
	struct hash_key key;
	struct u64map handler_of; /* request_key() of a device → hash of its handlers, learnt */
};

/* ---- lists of requests ---- */

/* id: which list; then what its requests have in common. */
static uint64_t list_key(const struct lat_io *io, const uint64_t id[5])
{
	return hash_bytes(&io->key, id, 5 * sizeof(*id)) ?: 1;
}

static struct request *request_at(const struct lat_io *io, uint64_t at)
{
	return at ? &io->req[at - 1] : NULL;
}

static struct request *key_first(const struct lat_io *io, uint64_t key)
{
	uint64_t at = 0;

	return u64map_get(&io->list, key, &at) ? request_at(io, at) : NULL;
}
#define list_first(io, ...) key_first(io, list_key(io, (const uint64_t[5]){ __VA_ARGS__ }))

static struct request *list_next(const struct lat_io *io, const struct request *r,
				 enum io_list which)
{
	return request_at(io, r->on[which].next);
}

static void list_leave(struct lat_io *io, struct request *r, enum io_list which)
{
	struct io_link *k = &r->on[which];
	struct request *next = request_at(io, k->next), *prev = request_at(io, k->prev);

	if (!k->key)
		return;
	if (next)
		next->on[which].prev = k->prev;
	if (prev)
		prev->on[which].next = k->next;
	else if (next)
		*xu64map_at(&io->list, k->key) = k->next;
	else
		u64map_del(&io->list, k->key);
	io->vmm_wait -= which == ON_VMM;
	*k = (struct io_link){ 0 };
}

static void key_enter(struct lat_io *io, struct request *r, enum io_list which, uint64_t key)
{
	uint64_t *head;
	struct request *first;

	list_leave(io, r, which);
	head = xu64map_at(&io->list, key);
	first = request_at(io, *head);
	r->on[which] = (struct io_link){ .key = key, .next = (uint32_t)*head };
	*head = (uint64_t)(r - io->req) + 1;
	if (first)
		first->on[which].prev = (uint32_t)*head;
	io->vmm_wait += which == ON_VMM;
}

#define list_enter(io, r, which, ...) \
	key_enter(io, r, which, list_key(io, (const uint64_t[5]){ which, __VA_ARGS__ }))

static void wait_for_qemu(struct lat_io *io, struct request *r)
{
	list_leave(io, r, ON_TAKEN);
	if (io->qemu)
		list_enter(io, r, ON_QEMU, r->vm, r->sector, r->nsect, r->rwbs[0] == 'R');
}

/* ---- requests ---- */

void lat_io_new(struct lat *l)
{
	size_t guests = 0;

	l->io = xcalloc(1, sizeof(*l->io));
	hash_key_init(&l->io->key);
	for (size_t i = 0; i < l->map->nvm; i++)
		guests += l->guest[i].src != NULL;
	for (size_t i = 0; i < l->nsrc; i++)
		l->io->qemu |= tl_source(l->t, i)->qemu || tl_source(l->t, i)->marker;
	l->io->share = MAX(IO_OPEN_MAX / MAX(guests, (size_t)1), (size_t)IO_OPEN_LEAST);
}

void lat_io_free(struct lat *l)
{
	if (!l->io)
		return;
	free(l->io->req);
	free(l->io->spare);
	u64map_free(&l->io->at);
	u64map_free(&l->io->list);
	u64map_free(&l->io->handler_of);
	free(l->io);
}

/* No guest can choose a device and a sector whose key is one of another guest's. */
static uint64_t request_key(const struct lat_io *io, uint64_t vm, uint64_t dev, uint64_t sector)
{
	const uint64_t id[] = { vm, dev, sector };

	return hash_bytes(&io->key, id, sizeof(id));
}

static struct request *request_find(struct lat *l, uint64_t vm, uint64_t dev, uint64_t sector)
{
	uint64_t at;
	struct request *r;

	if (!u64map_get(&l->io->at, request_key(l->io, vm, dev, sector), &at))
		return NULL;
	r = &l->io->req[at - 1];
	return r->used && r->vm == vm && r->dev == dev && r->sector == sector ? r : NULL;
}

static void request_end(struct lat *l, struct request *r)
{
	struct lat_io *io = l->io;
	uint32_t *slot = xarray_grow(&io->spare, io->nspare, &io->spare_cap, sizeof(*slot));
	uint64_t key = request_key(io, r->vm, r->dev, r->sector), at;

	*slot = (uint32_t)(r - io->req);
	io->nspare++;
	io->open--;
	l->guest[r->vm].io_open--;
	for (enum io_list which = 0; which < IO_LISTS; which++)
		list_leave(io, r, which);
	r->used = false;
	if (u64map_get(&io->at, key, &at) && at == *slot + 1)
		u64map_del(&io->at, key);
}

/* A flush and others without data have no place: issued, they are at 0; completed, at none. */
static uint64_t sector_of(const struct lat_in *in)
{
	return in->f[2] ? in->f[1] : UINT64_MAX;
}

static void request_issue(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct request *r = request_find(l, v->vm, in->f[0], sector_of(in));
	struct lat_io *io;
	size_t at;

	lat_count(l, v, LAT_T_IO, IO_ISSUED);
	if (r) { /* requeued, or a second one at the same place */
		if (!r->ambiguous)
			lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, IO_AMBIGUOUS, 1);
		lat_count(l, v, LAT_T_IO, IO_AMBIGUOUS);
		r->ambiguous = true;
		list_leave(l->io, r, ON_QEMU);
		return;
	}
	if (l->guest[v->vm].io_open >= l->io->share) {
		lat_count(l, v, LAT_T_IO, IO_AMBIGUOUS);
		return;
	}
	io = l->io;
	if (io->nspare) {
		at = io->spare[--io->nspare];
	} else {
		xarray_grow(&io->req, io->nreq, &io->req_cap, sizeof(*io->req));
		at = io->nreq++;
	}
	xu64map_put(&io->at, request_key(l->io, v->vm, in->f[0], sector_of(in)), at + 1);
	io->open++;
	l->guest[v->vm].io_open++;
	r = &io->req[at];
	memset(r, 0, sizeof(*r));
	r->used = true;
	r->vm = v->vm;
	list_enter(io, r, ON_VM, v->vm);
	r->dev = in->f[0];
	r->sector = sector_of(in);
	r->nsect = (uint32_t)in->f[2];
	r->vcpu = v->id;
	r->t_issue = in->t;
	r->early = !l->begun;
	r->faulted = v->faulted;
	list_enter(io, r, ON_BELL, v->vm, v->id);
	v->io_pending++;
	lat_decode_text(l->dec[in->i->src->index], in, r->rwbs, sizeof(r->rwbs));
	wait_for_qemu(l->io, r);
}

/* "virtio2-req.1" and "virtio2-req.0" are queues of one device: its name ends at the dash. */
static uint64_t device_hash(const struct lat *l, const char *handler)
{
	return hash_bytes(&l->io->key, handler, strcspn(handler, "-"));
}

static bool tells_of(const struct lat_vcpu *v, const struct request *r, uint64_t t)
{
	return v->has_last && v->vm == r->vm && v->last_device.t_handler <= t &&
	       v->last_device.t_source > (r->t_doorbell ?: r->t_issue);
}

/* The interrupt that reported the end: the last here, or its device's on another vCPU. */
static const struct irq_chain *completing_irq(struct lat *l, const struct lat_vcpu *v,
					      const struct request *r, uint64_t t)
{
	uint64_t key = request_key(l->io, r->vm, r->dev, UINT64_MAX), device;
	bool known = u64map_get(&l->io->handler_of, key, &device);
	const struct lat_vcpu *best = NULL;

	if (tells_of(v, r, t) && (!known || device == device_hash(l, v->last_device.name))) {
		if (!known)
			xu64map_put(&l->io->handler_of, key, device_hash(l, v->last_device.name));
		return &v->last_device;
	}
	for (const struct lat_vcpu *o = known ? l->guest[v->vm].vcpu : NULL; o; o = o->next_of_vm)
		if (tells_of(o, r, t) && device == device_hash(l, o->last_device.name) &&
		    (!best || o->last_device.t_handler > best->last_device.t_handler))
			best = o;
	return best ? &best->last_device : NULL;
}

/* The parts of the host's time by QEMU's events, as far as these are not too far off. */
static void qemu_stages(struct lat *l, const struct request *r, const struct irq_chain *c,
			struct lat_case *k)
{
	uint64_t from = r->t_doorbell, to = c ? c->t_source : 0, take = MAX(r->t_take, from),
		 done = r->t_done;

	if (!r->t_take || (from && from - MIN(from, r->t_take) > r->qemu_around))
		return;
	if (from)
		lat_stage(k, ST_TAKE, lat_span(l, take - from));
	if (done < take)
		return;
	if (to && done > to && done - to <= r->qemu_around)
		done = MAX(to, take);
	lat_stage(k, ST_BLOCK, lat_span(l, done - take));
	if (to >= done)
		lat_stage(k, ST_NOTIFY, lat_span(l, to - done));
}

static void request_stages(struct lat *l, const struct lat_vcpu *v, const struct request *r,
			   uint64_t t, struct lat_case *k)
{
	const struct irq_chain *c = completing_irq(l, v, r, t);
	uint64_t longest = 0;
	const struct lat_vcpu *vcpu;

	k->begin = r->t_issue;
	k->end = t;
	k->time = lat_span(l, t - r->t_issue);
	if (r->t_doorbell)
		lat_stage(k, ST_SUBMIT, lat_span(l, r->t_doorbell - r->t_issue));
	else if (!l->alone)
		lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, IO_NO_DOORBELL, 1);
	if (c) {
		if (r->t_doorbell)
			lat_stage(k, ST_HOST, lat_span(l, c->t_source - r->t_doorbell));
		lat_stage(k, ST_DELIVER, lat_span(l, c->t_handler - c->t_source));
		lat_stage(k, ST_COMPLETE, lat_span(l, t - c->t_handler));
	} else {
		lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, IO_NO_IRQ, 1);
	}
	if (r->t_doorbell && r->t_vmm > r->t_doorbell)
		lat_stage(k, ST_VMM, lat_span(l, r->t_vmm - r->t_doorbell));
	if (r->t_disk && r->t_disk_end > r->t_disk)
		lat_stage(k, ST_DISK, lat_span(l, r->t_disk_end - r->t_disk));
	vcpu = lat_vcpu_get(l, r->vm, r->vcpu);
	if (vcpu->faulted > r->faulted)
		lat_stage(k, ST_FAULTS, lat_span(l, vcpu->faulted - r->faulted));
	qemu_stages(l, r, c, k);
	if (!l->alone) {
		struct path_told told;

		/*
		 * What the host's time was: what was waited for until the interrupt was raised.
		 * What the VMM's block layer has throttled, or an interrupt ended, is sleep.
		 */
		if (!r->t_doorbell || !c || !c->by ||
		    !lat_path_waits(l, c->by, r->t_doorbell, c->t_source, &told)) {
			lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, IO_UNTOLD, 1);
		} else {
			for (unsigned int i = 0; i < PATH_WHATS; i++)
				if (told.waited[i])
					lat_stage(k, ST_VMM_CPU + i, lat_span(l, told.waited[i]));
			lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, IO_FAULTS, told.faults);
		}
	}
	for (unsigned int s = ST_SUBMIT; s <= ST_COMPLETE; s++)
		if (k->known >> s & 1 && k->stage_time[s] > k->time / 2 &&
		    k->stage_time[s] > longest) {
			longest = k->stage_time[s];
			k->cause = s;
		}
}

static const char *request_direction(const struct request *r)
{
	if (!r->nsect)
		return r->rwbs[0] == 'F' ? "flush" : "other";
	return r->rwbs[0] == 'R' ? "read" : "write";
}

static void request_name(const struct request *r, struct lat_group *g, struct lat_case *k)
{
	int n;

	snprintf(g->name, sizeof(g->name), "%u,%u %s", (unsigned int)(r->dev >> MINORBITS),
		 (unsigned int)(r->dev & ((1u << MINORBITS) - 1)), request_direction(r));
	n = snprintf(k->what, sizeof(k->what), "%.24s", g->name);
	if (r->nsect)
		snprintf(k->what + n, sizeof(k->what) - (size_t)n, " sector %llu + %u",
			 (unsigned long long)r->sector, r->nsect);
}

static void request_complete(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct request *r = request_find(l, v->vm, in->f[0], sector_of(in));
	struct lat_case k = { .vm = (int64_t)v->vm };
	struct lat_group *g;
	struct lat_vcpu *from;

	if (!r) {
		lat_count(l, v, LAT_T_IO, IO_STRAY);
		return;
	}
	from = lat_vcpu_get(l, v->vm, r->vcpu);
	if (r->on[ON_BELL].key && from->io_pending)
		from->io_pending--;
	if (!r->ambiguous && (r->early || in->t > l->stop))
		lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, IO_OUTSIDE, 1);
	if (r->ambiguous || r->early || in->t > l->stop) {
		request_end(l, r);
		return;
	}
	lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, IO_COMPLETED, 1);
	k.vcpu = r->vcpu;
	if (l->o.want[LAT_IO] && lat_wanted(l, k.vm, k.vcpu)) {
		g = lat_group_get(l, LAT_T_IO, k.vm, r->dev << 8 | (uint8_t)request_direction(r)[0],
				  &k.group);
		request_stages(l, v, r, in->t, &k);
		request_name(r, g, &k);
		lat_case_add(l, LAT_T_IO, g, &k);
	}
	request_end(l, r);
}

void lat_io_guest(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	if (in->i->unplaced)
		return;
	if (in->kind == EV_RQ_ISSUE)
		request_issue(l, v, in);
	else if (in->kind == EV_RQ_COMPLETE)
		request_complete(l, v, in);
}

bool lat_is_doorbell(const struct lat_in *in)
{
	switch (in->kind) {
	case EV_FAST_MMIO: return true;
	case EV_MMIO:
		return in->f[0] == 2 && (in->f[1] < APIC_BASE || in->f[1] >= APIC_BASE + APIC_SIZE);
	case EV_PIO: return in->f[0] == 1;
	default: return false;
	}
}

static void vmm_works(struct lat *l, struct request *r, uint64_t t)
{
	r->t_vmm = t;
	list_leave(l->io, r, ON_VMM);
	list_leave(l->io, r, ON_EXIT);
}

void lat_io_worker_runs(struct lat *l, const struct lat_worker *w)
{
	struct request *r = l->io->vmm_wait ? list_first(l->io, ON_VMM, w->vm) : NULL;
	struct request *next;

	for (; r; r = next) {
		next = list_next(l->io, r, ON_VMM);
		if (r->t_doorbell < w->ran)
			vmm_works(l, r, w->ran);
	}
}

/* An event of the host; v: the vCPU that its thread runs, or NULL. */
void lat_io_host(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	if (!l->io->open)
		return;
	if (v && v->io_pending && lat_is_doorbell(in)) {
		/* A doorbell; it began with the exit, and comes after the ioeventfd's wake-up. */
		uint64_t ran = lat_worker_ran(l, v->vm, v->exit);
		struct lat_io *io = l->io;

		for (struct request *r; (r = list_first(io, ON_BELL, v->vm, v->id));) {
			list_leave(io, r, ON_BELL);
			r->t_doorbell = v->exit > r->t_issue ? v->exit : in->t;
			list_enter(io, r, ON_DISK, r->nsect, (uint8_t)r->rwbs[0], false);
			if (ran == UINT64_MAX)
				continue;
			list_enter(io, r, ON_VMM, r->vm);
			list_enter(io, r, ON_EXIT, r->vm, r->vcpu, r->t_doorbell);
			if (ran > r->t_doorbell)
				vmm_works(l, r, ran);
		}
		v->io_pending = 0;
	} else if (v && in->kind == EV_USER_EXIT) {
		/* No ioeventfd: the vCPU's own thread takes the write of this exit to the VMM. */
		for (struct request *r; l->io->vmm_wait &&
					(r = list_first(l->io, ON_EXIT, v->vm, v->id, v->exit));)
			vmm_works(l, r, in->t);
	} else if (in->kind == EV_RQ_ISSUE || in->kind == EV_RQ_COMPLETE) {
		bool begins = in->kind == EV_RQ_ISSUE;
		struct lat_io *io = l->io;
		struct request *one;
		char rwbs[8];

		/* The only request of the host itself with the size and direction of this one. */
		lat_decode_text(l->dec[0], in, rwbs, sizeof(rwbs));
		one = list_first(io, ON_DISK, in->f[2], (uint8_t)rwbs[0], !begins);
		if (!one || list_next(io, one, ON_DISK))
			return;
		if (begins) {
			one->t_disk = in->t;
			list_enter(io, one, ON_DISK, in->f[2], (uint8_t)rwbs[0], true);
		} else {
			one->t_disk_end = in->t;
			list_leave(io, one, ON_DISK);
		}
	}
}

/* ---- QEMU ---- */

void lat_io_qemu(struct lat *l, const struct lat_in *in)
{
	int64_t vm = lat_vm_of(l, in);

	if (!l->io->open || vm < 0 || in->i->unplaced)
		return;
	if (in->kind == EV_QEMU_DONE) {
		struct request *r = list_first(l->io, ON_QEMU, (uint64_t)vm, in->f[0], 0, 2);

		/* QEMU reuses its record of a request: the one that has it now. */
		if (!r)
			return;
		r->t_done = in->t;
		r->qemu_around = MAX(r->qemu_around, in->i->around);
		list_leave(l->io, r, ON_QEMU);
	} else if ((in->has & 7) == 7) {
		struct lat_io *io = l->io;
		struct request *one = list_first(io, ON_QEMU, (uint64_t)vm, in->f[1], in->f[2],
						 in->kind == EV_QEMU_READ);

		if (!one || list_next(io, one, ON_QEMU))
			return;
		one->t_take = in->t;
		one->qemu_around = in->i->around;
		list_enter(io, one, ON_QEMU, (uint64_t)vm, in->f[0], 0, 2);
		list_enter(io, one, ON_TAKEN, 0);
		io->qemu_around = MAX(io->qemu_around, in->i->around);
	}
}

void lat_io_qemu_forget(struct lat *l)
{
	for (struct request *r; (r = list_first(l->io, ON_TAKEN));) {
		r->t_take = r->t_done = 0;
		if (r->ambiguous)
			list_leave(l->io, r, ON_TAKEN);
		else
			wait_for_qemu(l->io, r);
	}
}

uint64_t lat_io_qemu_around(const struct lat *l)
{
	return l->io->qemu_around;
}

static void count_unended(struct lat *l, const struct request *r, unsigned int which)
{
	lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, which, r->used && !r->ambiguous);
}

void lat_io_forget(struct lat *l, int64_t vm)
{
	struct lat_io *io = l->io;

	if (vm >= 0) {
		for (struct request *r; (r = list_first(io, ON_VM, (uint64_t)vm));) {
			count_unended(l, r, IO_CUT);
			request_end(l, r);
		}
		return;
	}
	for (size_t i = 0; i < io->nreq; i++) {
		count_unended(l, &io->req[i], IO_CUT);
		if (io->req[i].used)
			l->guest[io->req[i].vm].io_open--;
	}
	io->nreq = io->nspare = io->open = io->vmm_wait = 0;
	u64map_free(&io->at);
	u64map_free(&io->list);
}

void lat_io_finish(struct lat *l)
{
	for (size_t i = 0; i < l->io->nreq; i++)
		count_unended(l, &l->io->req[i], IO_OPEN);
}
