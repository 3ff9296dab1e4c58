/* SPDX-License-Identifier: GPL-2.0-or-later */
/* boot.c: the moments of a boot, and rows from what happened between them. */
#include "kvmft/boot.h"
#include "kvmft/clock.h"
#include "kvmft/exit_names.h"
#include "kvmft/ksyms.h"
#include "kvmft/timeline.h"

#include <inttypes.h>

#define FOUR_G	 (1ull << 32)
#define FIRMWARE 0x400u /* ports from here on: PCI, fw_cfg, power management */
#define DISKS	 8u	/* of a VM; later ones are not known */

enum boot_mark { EXEC, CREATE, MEMORY, ENTERED, KERNEL, USER, DISK, PACKET, MARKER, END };
const char *const boot_names[BOOT_MARKS] = { "exec", "create-vm", "memory", "first-entry", "kernel", "user",
					     "first-disk", "first-packet", "marker", "end" };
#define RECORD "not seen: `kvmft record -e default -e mem -e boot -- VMM...`"
static const char *const boot_lacks[END] = {
	RECORD, RECORD, RECORD, RECORD, "not seen: an exit with a RIP in the upper half (recorded by -e default)",
	"not seen: an exit with a RIP of a program (recorded by -e default)",
	"not seen: a request to a disk, by its PCI class (recorded by -e default)",
	"not seen: a packet in a thread of the VM (recorded by -e boot)", "it did not come",
};

/* Parts that blame does not know: of the VMM's main thread, and why a vCPU is halted. */
enum { IDLE, SIBLING, PENDING, UNKNOWN, LOST, RUNS, WAITS, SLEEPS, BLOCKED, STATES };
static const char *const boot_parts[STATES][2] = {
	{ "guest-sleep", "halted" }, { "guest-code", "on another vCPU, this one was halted" },
	{ "disk", "halted, until its interrupt" }, { "unknown", "not recorded: the VMM's sched_switch" },
	{ "lost", "events of the VMM's threads" },
	{ "vmm", "on its CPU" }, { "waiting", "the VMM, for a CPU" }, { "vmm", "asleep" },
	{ "disk", "the VMM, asleep without taking signals: for a disk or a lock" },
};

struct boot_vm {
	uint64_t at[BOOT_MARKS]; /* host TSC; 0: not seen */
	char why[BOOT_MARKS][BLAME_NAME];
	size_t spike[BOOT_MARKS], vmm; /* 1 and its number in blame; state of its main thread */
	uint64_t time[BOOT_MARKS][STATES], since, last;
	enum boot_mark now;
	uint32_t vcpu, busy; /* entered first; how many others are not halted */
	bool reset, loaded, placed, halted, pending, late; /* late: it may have been before */
	bool met; /* since lost events ended last */
	uint64_t efer, exit, bell, bell_at, waited, magic; /* efer: when long mode began */
	const struct ksym *sym;
	uint32_t config; /* the address at port 0xcf8 */
	struct boot_disk {
		uint32_t id, size[6];
		uint64_t bar[6];
		bool sized;
	} disk[DISKS];
	size_t ndisk;
	char text[BOOT_TEXT];
};

struct boot {
	const struct timeline *t;
	const struct hostmap *map;
	const struct boot_ask *o;
	struct pick *until;
	struct boot_vm *vm, **met; /* met: those of which that is true */
	size_t nmet;
	bool late; /* events were lost */
	bool ports, memory; /* accesses to devices, of any VM */
	uint64_t lost_to;   /* events of a CPU are missing up to here; 0: none are */
	struct u64map busy, func; /* vm << 32 | vcpu; VM, mark and place of a symbol */
	struct boot_func {
		size_t vm;
		enum boot_mark mark;
		const struct ksym *sym;
		uint64_t n, time;
	} *f;
	size_t fcap;
};

/* Before the first entry, of the VMM's main thread; then, of a halt. */
static void boot_spend(struct boot_vm *v, uint64_t now)
{
	size_t is = v->pending ? PENDING : v->busy ? SIBLING : IDLE;

	if (!v->at[ENTERED] && v->since)
		v->time[v->now][v->vmm] += now - v->since;
	else if (v->halted)
		v->time[v->now][is] += now - v->since;
	v->since = now;
}

static void boot_mark(struct boot_vm *v, enum boot_mark m, uint64_t at, const char *what,
		      uint64_t value)
{
	char number[24] = "";

	if (v->at[m] || v->at[MARKER])
		return;
	boot_spend(v, MAX(at, v->since));
	v->at[m] = at;
	v->now = m;
	if (value)
		snprintf(number, sizeof(number), " 0x%" PRIx64, value);
	snprintf(v->why[m], sizeof(v->why[m]), "%s%s%s", what, number,
		 m != END && (v->late || m == USER || (m == KERNEL && at != v->efer)) ?
			 ", at the latest" : "");
}

/* Whatever a VM was about to do may be over. */
static void boot_forget(struct boot *b, uint64_t now, unsigned int vmm)
{
	u64map_free(&b->busy);
	b->late = true;
	for (size_t i = 0; i < b->nmet; i++) {
		struct boot_vm *v = b->met[i];

		boot_spend(v, now);
		v->vmm = vmm;
		v->met = vmm == LOST;
		v->halted = v->pending = false;
		v->busy = 0;
		v->efer = v->exit = 0;
		v->sym = NULL;
		for (size_t k = 0; k < v->ndisk; k++)
			v->disk[k].sized = false;
	}
	b->nmet = vmm == LOST ? b->nmet : 0;
}

static struct boot_vm *boot_meet(struct boot *b, size_t vm)
{
	struct boot_vm *v = &b->vm[b->map->vm[vm].of];

	if (!v->met)
		b->met[b->nmet++] = v;
	v->met = true;
	v->late = b->late;
	return v;
}

/* Functions of PCI whose class is a disk's, and where their BARs are: each is sized by all ones. */
static void boot_learn(struct boot_vm *v, bool write, uint64_t port, uint64_t size, uint32_t val)
{
	uint32_t reg = (v->config & 0xfc) + (port & 3), id = v->config >> 8, bar = (reg - 0x10) / 4;
	struct boot_disk *d = v->disk;

	if (port == 0xcf8 && write && size == 4)
		v->config = val;
	while (d < v->disk + v->ndisk && d->id != id)
		d++;
	if ((port & ~3ull) != 0xcfc || d == v->disk + DISKS)
		return;
	if (d == v->disk + v->ndisk && !write && reg >= 8 && reg + size == 12 &&
	    val >> 8 * (11 - reg) == 1)
		v->disk[v->ndisk++].id = id;
	if (d == v->disk + v->ndisk || size != 4 || bar > 5)
		return;
	if (!write && d->sized)
		d->size[bar] = -(val & ~0xfu);
	if (write && val != UINT32_MAX)
		d->bar[bar] = val & ~0xfu;
	if (write && val != UINT32_MAX && bar && val < 0x1000) /* an upper half */
		d->bar[bar - 1] = (uint32_t)d->bar[bar - 1] | (uint64_t)val << 32;
	d->sized = write && val == UINT32_MAX;
}

/* A request is a write that an interrupt follows before the device is touched again. */
static void boot_touch(struct boot_vm *v, uint64_t addr, bool write, uint64_t now)
{
	bool disk = (addr & ~0x87ull) == 0x170; /* IDE */

	for (size_t i = 0; i < v->ndisk * 6; i++)
		disk |= v->disk[i / 6].bar[i % 6] >= 0x1000 &&
			addr - v->disk[i / 6].bar[i % 6] < v->disk[i / 6].size[i % 6];
	if (!disk)
		return;
	boot_spend(v, now);
	v->pending = write;
	v->bell = v->exit ?: now;
	v->bell_at = addr;
	v->waited = v->time[v->now][PENDING];
}

/* An entry, or an exit. */
static void boot_turn(struct boot *b, struct boot_vm *v, const struct tl_item *i, bool entry,
		      bool halt, uint64_t rip)
{
	size_t vm = (size_t)(v - b->vm);
	const struct ksyms *k = b->map->vm[vm].syms;
	bool has_rip = event_type_of(i->ev)->f[entry ? 1 : 2].size;
	struct boot_func *f;
	uint64_t *busy, on;

	if (!v->at[ENTERED]) {
		if (!entry)
			return;
		boot_mark(v, ENTERED, i->host, "kvm_entry at", rip);
		v->vcpu = (uint32_t)i->vcpu;
		v->reset = has_rip && rip == 0xfff0;
	}
	boot_spend(v, i->host);
	v->last = i->host;
	if (i->vcpu != v->vcpu) {
		busy = xu64map_at(&b->busy, (uint64_t)vm << 32 | (uint32_t)i->vcpu);
		on = entry || (*busy && !halt);
		v->busy += (uint32_t)(on - *busy);
		*busy = on;
		return;
	}
	/* Where its RIP is tells who runs; it may have come there before. */
	if (has_rip && (!entry || !v->placed)) {
		v->loaded |= !v->placed && !v->late && rip >= FOUR_G;
		v->placed = true;
		/* Kernels and firmware are below 4 GB, too, but not where programs begin. */
		if (!v->loaded && v->at[KERNEL] && !(rip >> 63) &&
		    (rip >= FOUR_G || (rip >= 0x400000 && rip < 0x1000000)))
			boot_mark(v, USER, i->host, "kvm_exit at", rip);
		else if (!v->loaded && !v->at[KERNEL] && rip >> 63)
			boot_mark(v, KERNEL, v->efer ?: i->host, v->efer ? "kvm_msr sets EFER.LME, no port "
				  "of firmware until" : "kvm_exit at", rip);
	}
	if (entry && v->exit && v->sym && !v->at[MARKER]) {
		f = xu64map_elem(&b->func, (uint64_t)vm << 36 | (uint64_t)v->now << 32 |
				 (uint32_t)(v->sym - k->v), &b->f, &b->fcap, sizeof(*f));
		*f = (struct boot_func){ vm, v->now, v->sym, f->n + 1,
					 f->time + i->host - v->exit };
	}
	v->halted = !entry && halt;
	v->exit = entry || halt ? 0 : i->host;
	v->sym = k && rip >> 63 ? ksyms_find(k, rip) : NULL;
}

static void boot_event(struct boot *b, struct boot_vm *v, const struct tl_item *i,
		       enum event_role r, const uint64_t f[4])
{
	size_t n = b->o->text ? strlen(b->o->text) : 0;
	bool halt = exit_is_halt(exit_why(&i->src->exits, f[0], f[1])); /* of an exit */

	switch (r) {
	case EV_EXEC:
		if (i->tid != b->map->vm[v - b->vm].pid || v->at[CREATE] || v->at[ENTERED])
			break;
		v->since = 0; /* of several, as a shell's, the last is the VMM's */
		memset(v->at, 0, sizeof(v->at));
		memset(v->time, 0, sizeof(v->time));
		boot_mark(v, EXEC, i->host, "sched_process_exec", 0);
		v->vmm = RUNS;
		break;
	case EV_IOCTL:
		if (f[0] == 0xae01)
			boot_mark(v, CREATE, i->host, "ioctl KVM_CREATE_VM", 0);
		else if (f[0] == 0x4020ae46 || f[0] == 0x40a0ae49)
			boot_mark(v, MEMORY, i->host, "ioctl KVM_SET_USER_MEMORY_REGION", 0);
		break;
	case EV_NET_START:
	case EV_NET_RECEIVE: boot_mark(v, PACKET, i->host, fmt_name(i->ev), 0); break;
	case EV_SET_IRQ: /* no timer's */
		if (!f[1] || !f[0] || f[0] == 2 || f[0] == 8)
			break;
		/* fall through */
	case EV_MSI:
		boot_spend(v, i->host);
		if (v->pending && !v->at[DISK]) { /* its phase began then */
			v->time[DISK][PENDING] = v->time[v->now][PENDING] - v->waited;
			v->time[v->now][PENDING] = v->waited;
			boot_mark(v, DISK, v->bell, "before its interrupt, a write at", v->bell_at);
		}
		v->pending = false;
		break;
	case EV_ENTRY: boot_turn(b, v, i, true, false, f[1]); break;
	case EV_EXIT: boot_turn(b, v, i, false, halt, f[2]); break;
	case EV_PIO:
		b->ports = true;
		v->efer = f[1] < FIRMWARE ? v->efer : 0;
		boot_learn(v, f[0], f[1], f[3], (uint32_t)f[2]);
		boot_touch(v, f[1], f[0], i->host);
		if (!f[0] || f[1] != 0x3f8 || !n)
			break;
		memmove(v->text, v->text + 1, BOOT_TEXT - 1);
		v->text[BOOT_TEXT - 1] = (char)f[2];
		if (!memcmp(v->text + BOOT_TEXT - n, b->o->text, n))
			boot_mark(v, MARKER, i->host, "kvm_pio, the end of that text, port", 0x3f8);
		break;
	case EV_FAST_MMIO: boot_touch(v, f[0], true, i->host); break;
	case EV_MMIO: /* virtio-mmio: a magic, then the kind of device */
		b->memory = true;
		if (f[0] == 1 && f[2] == 2 && f[1] == v->magic + 8 && v->ndisk < DISKS)
			v->disk[v->ndisk++] = (struct boot_disk){ .bar = { v->magic },
								  .size = { 0x200 } };
		v->magic = f[0] == 1 && f[2] == 0x74726976 ? f[1] : v->magic;
		boot_touch(v, f[1], f[0] == 2, i->host);
		break;
	case EV_MSR: /* EFER.LME */
		if (f[0] && f[1] == 0xc0000080 && f[2] & 0x100 && !v->at[KERNEL])
			v->efer = i->host;
		break;
	case EV_CR3:
		if (f[1] == 3 && v->at[KERNEL] && i->vcpu == v->vcpu)
			boot_mark(v, USER, i->host, "guest_cr3, CPL 3, CR3", f[0]);
		break;
	default: break;
	}
}

void boot_find(void *boot, const struct tl_item *i)
{
	struct boot *b = boot;
	enum event_role r;
	struct boot_vm *v;
	uint64_t f[4], at;
	int64_t vm;

	if (i->src->index || i->src->qemu)
		return;
	if (b->lost_to && i->host >= b->lost_to) {
		boot_forget(b, b->lost_to, UNKNOWN);
		b->lost_to = 0;
	}
	if (i->kind != TL_EVENT) {
		if (!b->lost_to)
			boot_forget(b, i->host, LOST);
		b->lost_to = MAX(b->lost_to, i->host + i->width);
		return;
	}
	if (!i->ev || i->marker || i->unplaced)
		return;
	r = event_role_of(i->ev);
	if (!r && !b->until)
		return;
	for (size_t k = 0; k < ARRAY_SIZE(f); k++)
		f[k] = tl_field(i, k);
	/* Who leaves, who comes. */
	for (size_t k = 0; k < 3 && r == EV_SWITCH && !b->lost_to; k += 2) {
		if (!f[k] || !u64map_get(&b->map->by_pid, f[k], &at))
			continue;
		v = boot_meet(b, at);
		boot_spend(v, i->host);
		v->vmm = k ? RUNS : !event_task_sleeps(f[1]) ? WAITS : f[1] & 2 ? BLOCKED : SLEEPS;
	}
	vm = i->vm >= 0 ? i->vm : hostmap_task_vm(b->map, i->tid);
	if (vm < 0 && b->map->nvm == 1 && (r == EV_MSI || r == EV_SET_IRQ || b->until))
		vm = 0; /* any thread may raise an interrupt, or be what is waited for */
	if (vm < 0)
		return;
	v = boot_meet(b, (size_t)vm);
	if (i->vcpu >= 0 || (r != EV_ENTRY && r != EV_EXIT))
		boot_event(b, v, i, r, f);
	if (b->lost_to) { /* what was seen of it is over as soon as another CPU has it */
		v->halted = v->pending = false;
		v->exit = 0;
		v->vmm = LOST;
	}
	if (b->until && v->at[ENTERED] && pick_wants(b->until, i))
		boot_mark(v, MARKER, i->host, fmt_name(i->ev), 0);
}

/* Those that were seen, in their order: how many. 0: that VM did not begin here. */
static size_t boot_order(const struct boot *b, size_t vm, enum boot_mark order[BOOT_MARKS])
{
	const struct boot_vm *v = &b->vm[vm];
	size_t n = 0, k;

	if ((b->o->vm >= 0 && b->map->vm[b->o->vm].of != vm) || !v->at[ENTERED] ||
	    !(v->reset || v->at[EXEC] || v->at[CREATE]))
		return 0;
	for (unsigned int m = 0; m < BOOT_MARKS; m++) {
		for (k = n; v->at[m] && k && v->at[order[k - 1]] > v->at[m]; k--)
			order[k] = order[k - 1];
		order[k] = (enum boot_mark)m;
		n += v->at[m] != 0;
	}
	return n;
}

int boot_new(const struct timeline *t, const struct boot_ask *o, struct boot **out,
	     struct kvmft_err *err)
{
	struct boot *b = *out = xcalloc(1, sizeof(*b));

	b->t = t;
	b->o = o;
	b->map = tl_hostmap(t);
	b->vm = xcalloc(b->map->nvm + 1, sizeof(*b->vm));
	b->met = xcalloc(b->map->nvm + 1, sizeof(*b->met));
	if (o->until)
		pick_new(t, &b->until);
	return o->until ? pick_add_event(b->until, o->until, err) : 0;
}

int boot_found(struct boot *b, struct blame *to, struct kvmft_err *err)
{
	enum boot_mark order[BOOT_MARKS];
	size_t any = 0, n;

	for (size_t k = 0; k < b->map->nvm; k++) {
		struct boot_vm *v = &b->vm[k];

		boot_mark(v, END, v->last, "the last event of its vCPUs", 0);
		any += n = boot_order(b, k, order);
		for (size_t i = 0; i + 1 < n; i++)
			if (v->at[order[i]] >= v->at[ENTERED] &&
			    blame_stretch(to, k, v->vcpu, v->at[order[i]], v->at[order[i + 1]]))
				v->spike[order[i]] = blame_spikes(to);
	}
	return any ? 0 : err_lack(err, ENODATA, "no VM begins in this recording: record it from before its VMM starts, "
				  "with `kvmft record -e default -e mem -e boot -- VMM...`");
}

/* The row like that, of the last VM; a new one goes after the others of its phase. */
static struct boot_cell *boot_line_of(struct boot_lines *rows, const struct boot_line *like,
				     int side)
{
	size_t to = rows->n;

	for (size_t at = rows->first; at < rows->n; at++) {
		const struct boot_line *r = &rows->v[at];

		if (r->mark != like->mark)
			continue;
		if (!strcmp(r->part, like->part) && (!*r->part || !strcmp(r->name, like->name)))
			return &rows->v[at].of[side];
		to = at + 1;
	}
	xarray_grow(&rows->v, rows->n, &rows->cap, sizeof(*rows->v));
	memmove(&rows->v[to + 1], &rows->v[to], (rows->n++ - to) * sizeof(*rows->v));
	rows->v[to] = *like;
	return &rows->v[to].of[side];
}

/* A part of a phase; n: exits of a function, 0: it is none. */
static void row_part(const struct boot *b, struct boot_lines *rows, struct boot_line *like,
		     int side, uint64_t whole, uint64_t cycles, uint64_t n, const char *name)
{
	uint64_t ns = tsc_cycles_to_ns(cycles, tl_source(b->t, 0)->cap->tsc_khz);
	struct boot_cell *s;

	if (!ns)
		return;
	snprintf(like->name, sizeof(like->name), "%s", name);
	s = boot_line_of(rows, like, side);
	*s = (struct boot_cell){ true, 0, s->time + ns, whole, s->n + n };
	rows->told[side] += !n && strcmp(like->part, "unknown") && strcmp(like->part, "lost") ? ns : 0;
}

COMPARE(longer_func, struct boot_func,
	ORDER(x->vm, y->vm) ?: ORDER(x->mark, y->mark) ?: ORDER(y->time, x->time) ?:
	ORDER(x->sym->addr, y->sym->addr));

static void rows_of_phase(const struct boot *b, const struct blame *parts, struct boot_lines *rows,
			  struct boot_line like, int side, uint64_t whole, size_t vm)
{
	const struct boot_vm *v = &b->vm[vm];
	bool blind = v->loaded || !b->ports || !b->memory; /* to disks that it may have */
	size_t top = 0, spike = v->spike[like.mark];
	const struct blame_part *p;
	const struct boot_func *f;
	uint64_t left, take;

	for (size_t k = UNKNOWN; k < STATES; k++) {
		like.part = boot_parts[k][0];
		row_part(b, rows, &like, side, whole, v->time[like.mark][k], 0, boot_parts[k][1]);
	}
	for (size_t i = 0; spike && i < blame_spike(parts, spike - 1)->nparts; i++) {
		p = &blame_spike(parts, spike - 1)->part[i];
		left = p->time;
		rows->needs |= p->lacks;
		/* How long it slept is blame's to say, and what for is what was seen meanwhile. */
		for (size_t k = PENDING + 1; k-- && p->cause == CAUSE_GUEST_SLEEP; left -= take) {
			take = k == IDLE ? left : MIN(left, v->time[like.mark][k]);
			like.part = boot_parts[k][0];
			row_part(b, rows, &like, side, whole, take, 0,
				 k == IDLE && blind ? "halted, perhaps for a disk" : boot_parts[k][1]);
		}
		like.part = blame_causes[p->cause].name;
		row_part(b, rows, &like, side, whole, left, 0, p->cause == CAUSE_GUEST_CODE ? "" : p->name);
	}
	like.part = "function";
	f = b->f + COUNT_BEFORE(k, b->func.n, b->f[k].vm < vm ||
				(b->f[k].vm == vm && b->f[k].mark < like.mark));
	for (; f < b->f + b->func.n && f->vm == vm && f->mark == like.mark && top < b->o->top;
	     f++, top++)
		row_part(b, rows, &like, side, whole, f->time, f->n, f->sym->name);
}

void boot_lines(const struct boot *b, const struct blame *parts, int side, struct boot_lines *rows)
{
	uint64_t khz = tl_source(b->t, 0)->cap->tsc_khz, at[BOOT_MARKS + 1];
	enum boot_mark order[BOOT_MARKS];
	struct boot_line like = { .part = "" };
	struct boot_lines old = *rows;
	size_t done = 0;

	rows->v = NULL;
	rows->n = rows->cap = 0;
	if (b->func.n)
		qsort(b->f, b->func.n, sizeof(*b->f), longer_func);
	for (size_t k = 0; k < b->map->nvm; k++) {
		const struct boot_vm *v = &b->vm[k];
		size_t n = boot_order(b, k, order);

		rows->first = rows->n;
		for (; n && done < old.n && old.v[done].vm == like.vm; done++)
			xarray_add(&rows->v, &rows->n, &rows->cap, &old.v[done], sizeof(*rows->v));
		for (size_t i = 0; i < n; i++)
			at[i] = at[i + 1] =
				tsc_cycles_to_ns(v->at[order[i]] - v->at[order[0]], khz);
		for (size_t i = 0; i < n; i++) {
			uint64_t time = at[i + 1] - at[i];

			like.mark = order[i];
			snprintf(like.name, sizeof(like.name), "%s", v->why[order[i]]);
			*boot_line_of(rows, &like, side) =
				(struct boot_cell){ true, at[i], time, time, 0 };
			rows->wall[side] += time;
			rows_of_phase(b, parts, rows, like, side, time, k);
		}
		for (unsigned int m = 0; m < END && n; m++) {
			if (v->at[m] || (v->loaded && (m == KERNEL || m == USER)) ||
			    (m == MARKER && !b->until && !b->o->text))
				continue;
			like.mark = m;
			snprintf(like.name, sizeof(like.name), "%s",
				 m == DISK && v->loaded ? "cannot tell: the guest had found its disks "
							  "before its state was saved" :
				 m == DISK && (!b->ports || !b->memory) ?
					 "not recorded: kvm_pio and kvm_mmio: `kvmft record -e default`" :
					 boot_lacks[m]);
			(void)boot_line_of(rows, &like, side);
		}
		if (n)
			sbuf_addf(&rows->about[side], "%s%s%s", like.vm++ ? ", " : "", b->map->vm[k].label,
				  v->loaded ? " (of a state that was loaded)" : "");
	}
	for (; done < old.n; done++)
		xarray_add(&rows->v, &rows->n, &rows->cap, &old.v[done], sizeof(*rows->v));
	free(old.v);
}

void boot_free(struct boot *b)
{
	if (!b)
		return;
	pick_free(b->until);
	u64map_free(&b->busy);
	u64map_free(&b->func);
	free(b->f);
	free(b->met);
	free(b->vm);
	free(b);
}
