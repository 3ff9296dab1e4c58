/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io.c: block requests of the guest, from block_rq_issue to block_rq_complete, through the host.
 *
 *   submit     until the guest rings the device's doorbell: the exit of that write
 *   host       the VMM's work: from the doorbell to the interrupt that tells of the end
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
#include "path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define IO_OPEN_MAX   65536 /* at once; a guest that never completes must not fill memory */
#define APIC_BASE     0xfee00000ull
#define APIC_SIZE     0x1000ull
#define SECTOR_SIZE   512u
#define MINORBITS     20 /* a dev is MAJOR << 20 | MINOR (include/linux/kdev_t.h) */

enum {
	ST_TOTAL,
	ST_SUBMIT,
	ST_HOST,
	ST_DELIVER,
	ST_COMPLETE,
	ST_VMM,
	ST_DISK,
	ST_TAKE,
	ST_BLOCK,
	ST_NOTIFY,
	ST_FAULTS,
	ST_VMM_CPU,
	ST_VMM_FAULT,
	ST_VMM_LOCK,
	ST_VMM_DISK,
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
		"of host: from there until QEMU's block layer had it done",
		"of host: from there to the source of the completion interrupt",
		"of the total: the vCPU that issued it waited for memory",
		"of host: the VMM's threads that worked for it wanted a CPU and had none",
		"of host: ... waited for memory of their own, after a page fault",
		"of host: ... waited for a lock of the VMM (futex)",
		"of host: ... asked a disk, and waited for it",
		"of host: ... slept, and what for is not told: the block layer, a timer, others",
	},
	.crosses = 1u << ST_SUBMIT | 1u << ST_DELIVER,
	.parts = 1u << ST_SUBMIT | 1u << ST_HOST | 1u << ST_DELIVER | 1u << ST_COMPLETE,
	.cause = { "", "in the guest before the doorbell", "on the host", "interrupt delivery",
		   "in the guest after the interrupt" },
	.count = { "issued", "completed", "ambiguous: left out", "without a doorbell of their own",
		   "without a known interrupt", "outside the host's capture", "cut by lost events", "open at the end",
		   "completions of requests not seen",
		   "what the VMM's threads waited for is not told" },
};

enum { BY_NOTHING, BY_SUBMIT, BY_HOST, BY_DELIVER, BY_COMPLETE };

struct request {
	bool used, ambiguous;
	bool early; /* issued before the host recorded */
	uint64_t vm, dev, sector;
	uint32_t nsect, vcpu;
	char rwbs[8];
	uint64_t t_issue, t_doorbell, t_vmm, t_disk, t_disk_end;
	uint64_t faulted; /* how long its vCPU had waited for memory before */
	uint64_t qemu_req, qemu_around; /* QEMU's pointer; cycles that its stamps may be off */
	uint64_t t_take, t_done;	/* by QEMU's events; 0: none seen */
	bool waiting;  /* for a doorbell */
	bool vmm_wait; /* rung, and nothing of the VMM worked since */
};

struct lat_io {
	struct request *req;
	size_t nreq, req_cap;
	struct u64map at; /* request_key() → index + 1 */
	uint32_t *spare;
	size_t nspare, spare_cap;
	size_t open;
	size_t vmm_wait; /* how many have it */
	uint64_t qemu_around; /* the most that a stamp of QEMU may be off, cycles */
	struct hash_key key;
	struct u64map handler_of; /* request_key() of a device → hash of its handlers, learnt */
};

#define each_request(io, r)                                                            \
	for (struct request *r = (io)->req; r < (io)->req + (io)->nreq; r++)         \
		if (r->used)

int lat_io_new(struct lat *l)
{
	l->io = calloc(1, sizeof(*l->io));
	if (l->io)
		hash_key_init(&l->io->key);
	return l->io ? 0 : -ENOMEM;
}

void lat_io_free(struct lat *l)
{
	if (!l->io)
		return;
	free(l->io->req);
	free(l->io->spare);
	u64map_free(&l->io->at);
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

static struct request *request_new(struct lat *l, uint64_t key)
{
	struct lat_io *io = l->io;
	struct request *r;
	size_t at;

	if (io->open >= IO_OPEN_MAX)
		return NULL;
	if (io->nspare) {
		at = io->spare[--io->nspare];
	} else {
		if (!array_grow(&io->req, io->nreq, &io->req_cap, sizeof(*io->req)))
			return NULL;
		at = io->nreq++;
	}
	if (u64map_put(&io->at, key, at + 1))
		return NULL;
	io->open++;
	r = &io->req[at];
	memset(r, 0, sizeof(*r));
	r->used = true;
	return r;
}

static int request_end(struct lat *l, struct request *r)
{
	struct lat_io *io = l->io;
	uint32_t *slot = array_grow(&io->spare, io->nspare, &io->spare_cap, sizeof(*slot));
	uint64_t key = request_key(io, r->vm, r->dev, r->sector), at;

	if (!slot)
		return -ENOMEM;
	*slot = (uint32_t)(r - io->req);
	io->nspare++;
	io->open--;
	io->vmm_wait -= r->vmm_wait;
	r->used = false;
	if (u64map_get(&io->at, key, &at) && at == *slot + 1)
		u64map_del(&io->at, key);
	return 0;
}

static int issue(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct request *r = request_find(l, v->vm, in->f[0], in->f[1]);

	lat_count(l, v, LAT_T_IO, IO_ISSUED);
	if (r) { /* requeued, or a second one at the same place */
		if (!r->ambiguous)
			lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, IO_AMBIGUOUS, 1);
		lat_count(l, v, LAT_T_IO, IO_AMBIGUOUS);
		r->ambiguous = true;
		return 0;
	}
	r = request_new(l, request_key(l->io, v->vm, in->f[0], in->f[1]));
	if (!r && l->io->open < IO_OPEN_MAX)
		return -ENOMEM;
	if (!r) {
		lat_count(l, v, LAT_T_IO, IO_AMBIGUOUS);
		return 0;
	}
	r->vm = v->vm;
	r->dev = in->f[0];
	r->sector = in->f[1];
	r->nsect = (uint32_t)in->f[2];
	r->vcpu = v->id;
	r->t_issue = in->t;
	r->early = !l->begun;
	r->faulted = v->faulted;
	r->waiting = true;
	v->io_pending++;
	lat_decode_text(l->dec[in->i->src->index], in, r->rwbs, sizeof(r->rwbs));
	return 0;
}

/* "virtio2-req.1" and "virtio2-req.0" are queues of one device: its name ends at the dash. */
static uint64_t device_hash(const struct lat *l, const char *handler)
{
	return hash_bytes(&l->io->key, handler, strcspn(handler, "-"));
}

static bool tells_of(const struct lat_vcpu *v, const struct request *r, uint64_t t)
{
	return v->has_last && v->vm == r->vm && v->last_device.t_handler <= t &&
	       v->last_device.t_source > (r->t_doorbell ? r->t_doorbell : r->t_issue);
}

/*
 * The device interrupt that reported the end: the last one on this vCPU, else that of this device
 * on another, which then passed the work on. Which handler belongs to which device is learnt from
 * the former.
 */
static const struct irq_chain *completing(struct lat *l, const struct lat_vcpu *v,
					  const struct request *r, uint64_t t)
{
	uint64_t key = request_key(l->io, r->vm, r->dev, UINT64_MAX), device;
	bool known = u64map_get(&l->io->handler_of, key, &device);
	const struct lat_vcpu *best = NULL;

	if (tells_of(v, r, t) && (!known || device == device_hash(l, v->last_device.name))) {
		if (known ||
		    !u64map_put(&l->io->handler_of, key, device_hash(l, v->last_device.name)))
			return &v->last_device;
	}
	for (size_t i = 0; known && i < l->nvcpu; i++) {
		const struct lat_vcpu *o = l->vcpu[i];

		if (tells_of(o, r, t) && device == device_hash(l, o->last_device.name) &&
		    (!best || o->last_device.t_handler > best->last_device.t_handler))
			best = o;
	}
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

static void fault_stage(struct lat *l, const struct request *r, struct lat_case *k)
{
	const struct lat_vcpu *v = lat_vcpu_get(l, r->vm, r->vcpu);

	if (v && v->faulted > r->faulted)
		lat_stage(k, ST_FAULTS, lat_span(l, v->faulted - r->faulted));
}

/*
 * What the host's time was: what was waited for until the interrupt was raised. What the VMM's
 * block layer has throttled, or an interrupt ended, is sleep.
 */
static void vmm_stages(struct lat *l, const struct request *r, const struct irq_chain *c,
		       struct lat_case *k)
{
	uint64_t waited[PATH_WHATS];

	if (!r->t_doorbell || !c || !c->by ||
	    !lat_path_waits(l, c->by, r->t_doorbell, c->t_source, waited)) {
		lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, IO_UNTOLD, 1);
		return;
	}
	for (unsigned int i = 0; i < PATH_WHATS; i++)
		if (waited[i])
			lat_stage(k, ST_VMM_CPU + i, lat_span(l, waited[i]));
}

static void request_stages(struct lat *l, const struct lat_vcpu *v, const struct request *r,
			   uint64_t t, struct lat_case *k)
{
	const struct irq_chain *c = completing(l, v, r, t);
	uint64_t longest = 0;

	k->begin = r->t_issue;
	k->end = t;
	k->time = lat_span(l, t - r->t_issue);
	lat_stage(k, ST_TOTAL, k->time);
	if (r->t_doorbell)
		lat_stage(k, ST_SUBMIT, lat_span(l, r->t_doorbell - r->t_issue));
	else
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
	fault_stage(l, r, k);
	qemu_stages(l, r, c, k);
	vmm_stages(l, r, c, k);
	for (unsigned int s = ST_SUBMIT; s <= ST_COMPLETE; s++)
		if (k->known >> s & 1 && k->stage_time[s] > k->time / 2 &&
		    k->stage_time[s] > longest) {
			longest = k->stage_time[s];
			k->cause = s;
		}
}

static int complete(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct request *r = request_find(l, v->vm, in->f[0], in->f[1]);
	struct lat_case k = { .vm = (int64_t)v->vm };
	struct lat_group *g;
	struct lat_vcpu *from;
	int ret = 0;

	if (!r) {
		lat_count(l, v, LAT_T_IO, IO_STRAY);
		return 0;
	}
	from = lat_vcpu_get(l, v->vm, r->vcpu);
	if (from && r->waiting && from->io_pending)
		from->io_pending--;
	if (!r->ambiguous && (r->early || in->t > l->stop))
		lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, IO_OUTSIDE, 1);
	if (r->ambiguous || r->early || in->t > l->stop)
		return request_end(l, r);
	lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, IO_COMPLETED, 1);
	k.vcpu = r->vcpu;
	if (l->o.want[LAT_IO] && lat_wanted(l, k.vm, k.vcpu)) {
		g = lat_group_get(l, LAT_T_IO, k.vm, r->dev << 1 | (r->rwbs[0] == 'R'), &k.group);
		request_stages(l, v, r, in->t, &k);
		if (g) {
			snprintf(g->name, sizeof(g->name), "%u,%u %s",
				 (unsigned int)(r->dev >> MINORBITS),
				 (unsigned int)(r->dev & ((1u << MINORBITS) - 1)),
				 r->rwbs[0] == 'R' ? "read" : "write");
			snprintf(k.what, sizeof(k.what), "%.24s sector %llu + %u", g->name,
				 (unsigned long long)r->sector, r->nsect);
			ret = lat_case_add(l, LAT_T_IO, g, &k);
		}
	}
	return ret ? ret : request_end(l, r);
}

int lat_io_guest(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	if (in->i->unplaced)
		return 0;
	if (in->kind == EV_RQ_ISSUE)
		return issue(l, v, in);
	return in->kind == EV_RQ_COMPLETE ? complete(l, v, in) : 0;
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
	r->vmm_wait = false;
	l->io->vmm_wait--;
}

/* A vCPU's write to a device: the doorbell for what its guest issued. It began with the exit. */
static void doorbell(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	/*
	 * The event comes after the ioeventfd's wake-up: whatever waits for that may be running
	 * already.
	 */
	uint64_t ran = lat_worker_ran(l, v->vm, v->exit);

	each_request(l->io, r) {
		if (!v->io_pending)
			return;
		if (!r->waiting || r->vm != v->vm || r->vcpu != v->id)
			continue;
		r->waiting = false;
		r->t_doorbell = v->exit > r->t_issue ? v->exit : in->t;
		v->io_pending--;
		if (ran == UINT64_MAX)
			continue;
		r->vmm_wait = true;
		l->io->vmm_wait++;
		if (ran > r->t_doorbell)
			vmm_works(l, r, ran);
	}
}

/* No ioeventfd: the vCPU's own thread takes the write of this exit to the VMM. */
static void vcpu_is_vmm(struct lat *l, const struct lat_vcpu *v, uint64_t t)
{
	if (l->io->vmm_wait)
		each_request(l->io, r)
			if (r->vmm_wait && r->vm == v->vm && r->vcpu == v->id &&
			    r->t_doorbell == v->exit)
				vmm_works(l, r, t);
}

void lat_io_worker_runs(struct lat *l, const struct lat_worker *w)
{
	if (l->io->vmm_wait)
		each_request(l->io, r)
			if (r->vmm_wait && r->vm == w->vm && r->t_doorbell < w->ran)
				vmm_works(l, r, w->ran);
}

/* A request of the host itself that could be this one: the only one with its size and direction. */
static void host_disk(struct lat *l, const struct lat_in *in)
{
	struct request *one = NULL;
	bool begins = in->kind == EV_RQ_ISSUE;
	char rwbs[8];

	lat_decode_text(l->dec[0], in, rwbs, sizeof(rwbs));
	each_request(l->io, r) {
		if (!r->t_doorbell || r->nsect != in->f[2] || r->rwbs[0] != rwbs[0])
			continue;
		if (begins ? r->t_disk : !r->t_disk || r->t_disk_end)
			continue;
		if (one)
			return;
		one = r;
	}
	if (one)
		*(begins ? &one->t_disk : &one->t_disk_end) = in->t;
}

/* An event of the host; v: the vCPU that its thread runs, or NULL. */
void lat_io_host(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	if (!l->io->open)
		return;
	if (v && v->io_pending && lat_is_doorbell(in))
		doorbell(l, v, in);
	else if (v && in->kind == EV_USER_EXIT)
		vcpu_is_vmm(l, v, in->t);
	else if (in->kind == EV_RQ_ISSUE || in->kind == EV_RQ_COMPLETE)
		host_disk(l, in);
}

/* ---- QEMU ---- */

static void qemu_takes(struct lat *l, uint64_t vm, const struct lat_in *in)
{
	bool read = in->kind == EV_QEMU_READ;
	struct request *one = NULL;

	each_request(l->io, r) {
		if (r->ambiguous || r->t_take || r->vm != vm || r->sector != in->f[1] ||
		    r->nsect != in->f[2] || (r->rwbs[0] == 'R') != read)
			continue;
		if (one)
			return;
		one = r;
	}
	if (!one)
		return;
	one->t_take = in->t;
	one->qemu_req = in->f[0];
	one->qemu_around = in->i->around;
	l->io->qemu_around = MAX(l->io->qemu_around, in->i->around);
}

/* QEMU reuses its record of a request: the one that has it now. */
static void qemu_done(struct lat *l, uint64_t vm, const struct lat_in *in)
{
	each_request(l->io, r) {
		if (!r->t_take || r->t_done || r->vm != vm || r->qemu_req != in->f[0])
			continue;
		r->t_done = in->t;
		r->qemu_around = MAX(r->qemu_around, in->i->around);
		return;
	}
}

void lat_io_qemu(struct lat *l, const struct lat_in *in)
{
	int64_t vm = lat_vm_of(l, in);

	if (!l->io->open || vm < 0 || in->i->unplaced)
		return;
	if (in->kind == EV_QEMU_DONE)
		qemu_done(l, (uint64_t)vm, in);
	else if ((in->has & 7) == 7)
		qemu_takes(l, (uint64_t)vm, in);
}

void lat_io_qemu_forget(struct lat *l)
{
	for (size_t i = 0; i < l->io->nreq; i++)
		l->io->req[i].t_take = l->io->req[i].t_done = 0;
}

uint64_t lat_io_qemu_around(const struct lat *l)
{
	return l->io->qemu_around;
}

static void count_unended(struct lat *l, const struct request *r, unsigned int which)
{
	lat_count_add(l, r->vm, r->vcpu, LAT_T_IO, which, r->used && !r->ambiguous);
}

int lat_io_forget(struct lat *l, int64_t vm)
{
	int ret = 0;

	for (size_t i = 0; l->io->open && i < l->io->nreq && !ret; i++) {
		struct request *r = &l->io->req[i];

		if (vm >= 0 && r->vm != (uint64_t)vm)
			continue;
		count_unended(l, r, IO_CUT);
		ret = vm >= 0 && r->used ? request_end(l, r) : 0;
	}
	if (vm >= 0)
		return ret;
	l->io->nreq = l->io->nspare = l->io->open = l->io->vmm_wait = 0;
	u64map_free(&l->io->at);
	return 0;
}

void lat_io_finish(struct lat *l)
{
	for (size_t i = 0; i < l->io->nreq; i++)
		count_unended(l, &l->io->req[i], IO_OPEN);
}
