/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * records.c: what each record of the meta file means; the list is at the end of this file. Records
 * that hold a struct of ours are written here as well.
 *
 * A record or name this version does not know is ignored: newer versions may add both. A known
 * record without its key is noted as damage.
 */
#include "reader.h"

static int bad(struct capture *c, const struct meta_rec *rec, const char *key)
{
	cap_note(c, "meta: record %s without a valid %s", rec->name, key);
	return 0;
}

static int set(char **slot, const struct meta_rec *rec, const char *key)
{
	return cap_set_str(slot, meta_get(rec, key));
}

static int rec_tool(struct capture *c, const struct meta_rec *rec)
{
	return set(&c->tool, rec, "version");
}

static int rec_side(struct capture *c, const struct meta_rec *rec)
{
	const char *name = meta_get(rec, "name");

	if (name && !strcmp(name, "host"))
		c->side = CAP_SIDE_HOST;
	else if (name && !strcmp(name, "guest"))
		c->side = CAP_SIDE_GUEST;
	else if (name && !strcmp(name, "both"))
		c->side = CAP_SIDE_BOTH;
	else
		return bad(c, rec, "name");
	return 0;
}

static int rec_machine(struct capture *c, const struct meta_rec *rec)
{
	const char *endian = meta_get(rec, "endian");
	uint64_t n;

	if (meta_get_u64(rec, "long", &n)) {
		if (n == 4 || n == 8)
			c->long_size = (uint32_t)n;
		else
			bad(c, rec, "long");
	}
	if (endian && !strcmp(endian, "big"))
		return -EPROTONOSUPPORT;
	if (meta_get_u64(rec, "hugetlb_kb", &n))
		c->no_hugetlb = !n;
	if (set(&c->uname, rec, "uname") || set(&c->arch, rec, "arch") ||
	    set(&c->hypervisor, rec, "hypervisor") || set(&c->uuid, rec, "uuid") ||
	    set(&c->vendor, rec, "vendor"))
		return -ENOMEM;
	return 0;
}

static int rec_ring(struct capture *c, const struct meta_rec *rec)
{
	const char *text = meta_get(rec, "trace_clock");
	uint64_t n;

	if (meta_get_u64(rec, "subbuf", &n)) {
		if (cap_subbuf_ok(n))
			c->subbuf_size = (uint32_t)n;
		else
			bad(c, rec, "subbuf");
	}
	if (meta_get_u64(rec, "header", &n)) {
		if (n >= 12 && n <= 64)
			c->page_header = (uint32_t)n;
		else
			bad(c, rec, "header");
	}
	if (meta_get_u64(rec, "overwrite", &n))
		c->overwrite = n;
	if (meta_get_u64(rec, "flight", &n))
		c->flight = n;
	c->some_switches |= meta_get_u64(rec, "pids", &n) && n;
	if (text && cap_parse_clock(&c->clock, text))
		return -ENOMEM;
	return set(&c->clock, rec, "clock");
}

static int rec_tsc(struct capture *c, const struct meta_rec *rec)
{
	uint64_t khz;

	if (meta_get_u64(rec, "khz", &khz)) {
		if (khz <= UINT32_MAX)
			c->tsc_khz = khz;
		else
			bad(c, rec, "khz");
	}
	if (set(&c->tsc_khz_source, rec, "source") || set(&c->clocksource, rec, "clocksource"))
		return -ENOMEM;
	return 0;
}

/* CPU entry of a record with key `name`; if there is none, *ret is the caller's result. */
static struct cap_cpu *rec_cpu_entry(struct capture *c, const struct meta_rec *rec,
				     const char *name, int *ret)
{
	struct cap_cpu *cpu;
	uint64_t n;

	*ret = 0;
	if (!meta_get_u64(rec, name, &n)) {
		bad(c, rec, name);
		return NULL;
	}
	cpu = cap_cpu_at(c, n);
	if (!cpu && n < CAPTURE_MAX_CPUS)
		*ret = -ENOMEM;
	return cpu;
}

static int rec_cpu(struct capture *c, const struct meta_rec *rec)
{
	int ret;
	struct cap_cpu *cpu = rec_cpu_entry(c, rec, "n", &ret);

	if (cpu && meta_get_u32(rec, "apicid", &cpu->apicid))
		cpu->has_apicid = true;
	return ret;
}

void meta_stats(struct sbuf *line, const char *when, uint32_t cpu, const struct cap_cpustat *st)
{
	meta_begin(line, "stats");
	meta_str(line, "when", when);
	meta_u64(line, "cpu", cpu);
	meta_u64(line, "entries", st->entries);
	meta_u64(line, "overrun", st->overrun);
	meta_u64(line, "commit_overrun", st->commit_overrun);
	meta_u64(line, "dropped", st->dropped);
	meta_u64(line, "read", st->read);
}

static int rec_stats(struct capture *c, const struct meta_rec *rec)
{
	const char *when = meta_get(rec, "when");
	struct cap_cpustat *st;
	struct cap_cpu *cpu;
	int ret;

	if (!when || (strcmp(when, "begin") && strcmp(when, "end")))
		return bad(c, rec, "when");
	cpu = rec_cpu_entry(c, rec, "cpu", &ret);
	if (!cpu)
		return ret;
	st = !strcmp(when, "begin") ? &cpu->begin : &cpu->end;
	st->valid = meta_get_u64(rec, "entries", &st->entries);
	st->valid &= meta_get_u64(rec, "overrun", &st->overrun);
	st->valid &= meta_get_u64(rec, "commit_overrun", &st->commit_overrun);
	st->valid &= meta_get_u64(rec, "dropped", &st->dropped);
	st->valid &= meta_get_u64(rec, "read", &st->read);
	meta_get_u64(rec, "subbufs", &st->subbufs);
	return st->valid ? 0 : bad(c, rec, "set of counters");
}

void meta_lost(struct sbuf *line, const struct cap_loss *l)
{
	meta_begin(line, "lost");
	meta_u64(line, "cpu", l->cpu);
	meta_u64(line, "count", l->count);
	meta_u64(line, "from", l->from);
	meta_u64(line, "to", l->to);
	meta_u64(line, "first", l->first);
	meta_u64(line, "last", l->last);
}

static int rec_lost(struct capture *c, const struct meta_rec *rec)
{
	struct cap_loss l = { .last = UINT64_MAX };

	if (!meta_get_u32(rec, "cpu", &l.cpu) || l.cpu >= CAPTURE_MAX_CPUS)
		return bad(c, rec, "cpu");
	if (!meta_get_u64(rec, "count", &l.count) || !meta_get_u64(rec, "from", &l.from) ||
	    !meta_get_u64(rec, "to", &l.to) || l.from > l.to || !l.count)
		return bad(c, rec, "set of values");
	meta_get_u64(rec, "first", &l.first);
	meta_get_u64(rec, "last", &l.last);
	return array_add(&c->loss, &c->nloss, &c->loss_cap, &l, sizeof(l));
}

static int rec_event(struct capture *c, const struct meta_rec *rec)
{
	const char *sys = meta_get(rec, "sys"), *name = meta_get(rec, "name");
	_cleanup_free_ char *text = NULL;
	uint64_t at, size;
	char path[600];
	bool more = false;
	ssize_t len;

	if (!sys || !cap_name_ok(sys))
		return bad(c, rec, "sys");
	if (!name || !cap_name_ok(name))
		return bad(c, rec, "name");
	c->some_switches |= !strcmp(name, "sched_switch") && meta_get(rec, "filter");
	if (cap_formats_full(c))
		return 0;
	if (meta_get_u64(rec, "at", &at) && meta_get_u64(rec, "len", &size)) {
		snprintf(path, sizeof(path), "formats: %s:%s", sys, name);
		more = size > CAPTURE_MAX_FORMAT;
		len = more ? 0
			   : cap_read_part(&cap_priv(c)->dir, "formats", &cap_priv(c)->formats, at,
					   (size_t)size, &text);
	} else {
		snprintf(path, sizeof(path), "events/%s/%s", sys, name);
		len = cap_read_file(&cap_priv(c)->dir, path, CAPTURE_MAX_FORMAT, &text, &more);
	}
	if (len == -ENOMEM)
		return -ENOMEM;
	if (len < 0 || more) {
		cap_note(c, "%s: %s", path, more ? "too long" : strerror((int)-len));
		return 0;
	}
	return cap_format_add(c, sys, name, text, (size_t)len);
}

static int rec_vm(struct capture *c, const struct meta_rec *rec)
{
	const char *id = meta_get(rec, "id"), *name = meta_get(rec, "name");
	struct cap_vm *vm;

	if (!id || !*id)
		return bad(c, rec, "id");
	vm = cap_vm_at(c, id);
	if (!vm)
		return c->nvm < CAP_MAX_VMS ? -ENOMEM : 0;
	meta_get_s32(rec, "pid", &vm->pid);
	meta_get_s32(rec, "fd", &vm->fd);
	if (cap_set_str(&vm->name, name && *name ? name : NULL) || set(&vm->uuid, rec, "uuid") ||
	    set(&vm->vmm, rec, "vmm"))
		return -ENOMEM;
	return 0;
}

static uint64_t rec_vcpu_key(const struct capture *c, const struct cap_vm *vm, uint32_t id)
{
	return (uint64_t)(vm - c->vm) << 32 | id;
}

static struct cap_vcpu *vcpu_last(struct capture *c, struct cap_vm *vm, uint32_t id)
{
	uint64_t i;

	return u64map_get(&cap_priv(c)->vcpu_last, rec_vcpu_key(c, vm, id), &i) ? &vm->vcpu[i]
										: NULL;
}

/* One more entry; NULL: out of memory, or more of them than any machine has (noted). */
static struct cap_vcpu *rec_vcpu_new(struct capture *c, struct cap_vm *vm, uint32_t id,
				     const struct meta_rec *rec)
{
	struct cap_vcpu *v;

	if (vm->nvcpu >= CAP_MAX_VCPUS) {
		bad(c, rec, "number of vCPUs");
		return NULL;
	}
	v = array_grow(&vm->vcpu, vm->nvcpu, &vm->vcpu_cap, sizeof(*v));
	if (!v || u64map_put(&cap_priv(c)->vcpu_last, rec_vcpu_key(c, vm, id), vm->nvcpu))
		return NULL;
	vm->nvcpu++;
	v->id = id;
	meta_get_s32(rec, "tid", &v->tid);
	return v;
}

/* KVM has one for all time; a vCPU that is being made may have none at first. */
static void rec_frac(struct cap_vcpu *v, const struct meta_rec *rec)
{
	uint32_t frac;

	if (!v->frac && meta_get_u32(rec, "frac", &frac) && frac < 64)
		v->frac = (uint8_t)frac;
}

/*
 * The values read when the capture ended, in the last entry of that vCPU. A vCPU without one
 * appeared during the capture, and one that another thread ran by then has one more: such an entry
 * has no beginning.
 */
static int vcpu_end(struct capture *c, struct cap_vm *vm, uint32_t id, const struct meta_rec *rec)
{
	struct cap_vcpu *v = vcpu_last(c, vm, id);
	int32_t tid = 0;

	meta_get_s32(rec, "tid", &tid);
	if (v && !v->tid)
		v->tid = tid;
	if (!v || (tid > 0 && tid != v->tid)) {
		v = rec_vcpu_new(c, vm, id, rec);
		if (!v)
			return vm->nvcpu < CAP_MAX_VCPUS ? -ENOMEM : 0;
	}
	if (!meta_get_bits(rec, "offset", &v->end_offset))
		return 0;
	v->has_end = true;
	meta_get_u64(rec, "ratio", &v->end_ratio);
	rec_frac(v, rec);
	meta_get_u64(rec, "tsc", &v->end_tsc);
	return 0;
}

static int rec_vcpu(struct capture *c, const struct meta_rec *rec)
{
	const char *vmid = meta_get(rec, "vm"), *at = meta_get(rec, "at");
	const char *comm = meta_get(rec, "comm");
	struct cap_vcpu *v;
	struct cap_vm *vm;
	uint32_t id;

	if (!vmid || !*vmid)
		return bad(c, rec, "vm");
	if (!meta_get_u32(rec, "id", &id))
		return bad(c, rec, "id");
	vm = cap_vm_at(c, vmid);
	if (!vm)
		return c->nvm < CAP_MAX_VMS ? -ENOMEM : 0;
	if (at && !strcmp(at, "end"))
		return vcpu_end(c, vm, id, rec);
	v = vcpu_last(c, vm, id);
	if (v && !v->tid) /* recorded again, because now a thread runs it */
		meta_get_s32(rec, "tid", &v->tid);
	else
		v = rec_vcpu_new(c, vm, id, rec);
	if (!v)
		return vm->nvcpu < CAP_MAX_VCPUS ? -ENOMEM : 0;
	if (v->has_offset)
		return 0;
	v->has_offset = meta_get_bits(rec, "offset", &v->offset);
	meta_get_u64(rec, "ratio", &v->ratio);
	rec_frac(v, rec);
	meta_get_u64(rec, "tsc", &v->tsc);
	return v->tid > 0 && comm ? cap_task_add(c, v->tid, vm->pid, comm, false) : 0;
}

static int rec_sched(struct capture *c, const struct meta_rec *rec)
{
	uint64_t is_tsc;

	c->has_sched_offset = meta_get_s64(rec, "kvm_sched_clock_offset",
					   &c->kvm_sched_clock_offset);
	c->has_kernel_sched_offset = meta_get_s64(rec, "kernel_sched_clock_offset",
						  &c->kernel_sched_offset);
	if (meta_get_u64(rec, "is_tsc", &is_tsc))
		c->sched_is_tsc = is_tsc;
	return set(&c->sched_source, rec, "source");
}

void meta_pvclock(struct sbuf *line, const struct cpu_pvclock *p)
{
	meta_begin(line, "pvclock");
	meta_u64(line, "cpu", p->cpu);
	meta_u64(line, "version", p->pv.version);
	meta_u64(line, "tsc_timestamp", p->pv.tsc_timestamp);
	meta_u64(line, "system_time", p->pv.system_time);
	meta_u64(line, "mul", p->pv.mul);
	meta_s64(line, "shift", p->pv.shift);
	meta_u64(line, "flags", p->pv.flags);
}

static int rec_pvclock(struct capture *c, const struct meta_rec *rec)
{
	struct cpu_pvclock p = { 0 };
	uint32_t flags = 0;
	int32_t shift;

	if (!meta_get_u32(rec, "cpu", &p.cpu) || p.cpu >= CAPTURE_MAX_CPUS)
		return bad(c, rec, "cpu");
	if (!meta_get_u64(rec, "tsc_timestamp", &p.pv.tsc_timestamp) ||
	    !meta_get_u64(rec, "system_time", &p.pv.system_time) ||
	    !meta_get_u32(rec, "mul", &p.pv.mul) || !meta_get_s32(rec, "shift", &shift) ||
	    shift < INT8_MIN || shift > INT8_MAX)
		return bad(c, rec, "set of values");
	p.pv.shift = (int8_t)shift;
	meta_get_u32(rec, "version", &p.pv.version);
	if (meta_get_u32(rec, "flags", &flags))
		p.pv.flags = (uint8_t)flags;
	return array_add(&c->pvclock, &c->npvclock, &c->pvclock_cap, &p, sizeof(p));
}

void meta_time(struct sbuf *line, const struct clock_bracket *b)
{
	meta_begin(line, "time");
	meta_u64(line, "tsc", b->tsc);
	meta_u64(line, "width", b->width);
	meta_u64(line, "mono_raw", b->mono_raw);
	meta_u64(line, "mono", b->mono);
	meta_u64(line, "boot", b->boot);
	meta_u64(line, "real", b->real);
}

static int rec_time(struct capture *c, const struct meta_rec *rec)
{
	struct clock_bracket b = { 0 };

	if (!meta_get_u64(rec, "tsc", &b.tsc))
		return bad(c, rec, "tsc");
	meta_get_u64(rec, "width", &b.width);
	meta_get_u64(rec, "mono_raw", &b.mono_raw);
	meta_get_u64(rec, "mono", &b.mono);
	meta_get_u64(rec, "boot", &b.boot);
	meta_get_u64(rec, "real", &b.real);
	return array_add(&c->bracket, &c->nbracket, &c->bracket_cap, &b, sizeof(b));
}

void meta_clock(struct sbuf *line, const char *clock, uint64_t tsc, uint64_t width, uint64_t ns)
{
	meta_begin(line, "clock");
	meta_str(line, "name", clock);
	meta_u64(line, "tsc", tsc);
	meta_u64(line, "width", width);
	meta_u64(line, "ns", ns);
}

/* A clock with an unknown name is ignored: newer versions may sample it some day. */
static int rec_clock(struct capture *c, const struct meta_rec *rec)
{
	const char *name = meta_get(rec, "name");
	struct cap_clock_sample s = { .clock = "" };

	if (!name || !*name)
		return bad(c, rec, "name");
	if (strlen(name) >= sizeof(s.clock))
		return 0;
	memcpy(s.clock, name, strlen(name));
	if (!meta_get_u64(rec, "tsc", &s.tsc) || !meta_get_u64(rec, "ns", &s.ns))
		return bad(c, rec, "tsc and ns");
	meta_get_u64(rec, "width", &s.width);
	return array_add(&c->sample, &c->nsample, &c->sample_cap, &s, sizeof(s));
}

void meta_raw(struct sbuf *line, const struct cap_raw *r)
{
	meta_begin(line, "raw");
	meta_u64(line, "last", r->line.last);
	meta_u64(line, "mult", r->line.mult);
	meta_u64(line, "shift", r->line.shift);
	meta_u64(line, "nsec", r->line.nsec);
	meta_u64(line, "base", r->line.base);
	meta_str(line, "clocksource", r->over_kvmclock ? "kvm-clock" : "tsc");
}

static int rec_raw(struct capture *c, const struct meta_rec *rec)
{
	const char *over = meta_get(rec, "clocksource");
	struct cap_raw r = { .known = true, .over_kvmclock = over && !strcmp(over, "kvm-clock") };
	struct mono_raw *l = &r.line;
	uint32_t shift;

	if (!meta_get_u64(rec, "last", &l->last) || !meta_get_u64(rec, "nsec", &l->nsec) ||
	    !meta_get_u64(rec, "base", &l->base) || !meta_get_u32(rec, "mult", &l->mult) ||
	    !l->mult || !meta_get_u32(rec, "shift", &shift) || shift > 32)
		return bad(c, rec, "line");
	l->shift = (uint8_t)shift;
	c->raw = r;
	return 0;
}

static int rec_qemu(struct capture *c, const struct meta_rec *rec)
{
	struct cap_qemu *q;

	if (c->nqemu >= CAP_MAX_VMS)
		return 0;
	q = array_grow(&c->qemu, c->nqemu, &c->qemu_cap, sizeof(*q));
	if (!q)
		return -ENOMEM;
	c->nqemu++;
	meta_get_s32(rec, "pid", &q->pid);
	return set(&q->version, rec, "version") || set(&q->binary, rec, "binary") ? -ENOMEM : 0;
}

static int rec_param(struct capture *c, const struct meta_rec *rec)
{
	struct cap_param *p;

	if (!meta_get(rec, "module") || !meta_get(rec, "name") || !meta_get(rec, "value"))
		return bad(c, rec, "module, name and value");
	if (c->nparam >= CAP_MAX_PARAMS)
		return 0;
	p = array_grow(&c->param, c->nparam, &c->param_cap, sizeof(*p));
	if (!p)
		return -ENOMEM;
	c->nparam++;
	return set(&p->module, rec, "module") || set(&p->name, rec, "name") ||
			       set(&p->value, rec, "value")
		       ? -ENOMEM
		       : 0;
}

static int rec_marker(struct capture *c, const struct meta_rec *rec)
{
	const char *of = meta_get(rec, "of");

	c->marker_of_command = of && !strcmp(of, "command");
	return 0;
}

static int rec_task(struct capture *c, const struct meta_rec *rec)
{
	int32_t tid, tgid = 0;

	if (!meta_get_s32(rec, "tid", &tid) || tid < 0)
		return bad(c, rec, "tid");
	meta_get_s32(rec, "tgid", &tgid);
	return cap_task_add(c, tid, tgid, meta_get(rec, "comm"), true);
}

static int rec_begin(struct capture *c, const struct meta_rec *rec)
{
	meta_get_u64(rec, "tsc", &c->begin_tsc);
	return 0;
}

static int rec_stop(struct capture *c, const struct meta_rec *rec)
{
	meta_get_u64(rec, "tsc", &c->stop_tsc);
	return 0;
}

static int rec_fired(struct capture *c, const struct meta_rec *rec)
{
	meta_get_u64(rec, "tsc", &cap_priv(c)->fired_tsc);
	return 0;
}

static int rec_asked(struct capture *c, const struct meta_rec *rec __unused_arg)
{
	cap_priv(c)->asked = true;
	return 0;
}

static int rec_segment(struct capture *c, const struct meta_rec *rec)
{
	struct cap_priv *p = cap_priv(c);
	uint64_t n, tsc = 0, stopped = 0;

	if (!meta_get_u64(rec, "n", &n) || n > CAP_MAX_SEGMENT)
		return bad(c, rec, "n");
	p->segments_told = MAX(p->segments_told, (uint32_t)n + 1);
	if (!meta_get(rec, "why"))
		return 0;
	/*
	 * Without an order the ring stopped by itself, or not: then the beginning of the writing is
	 * nearest.
	 */
	meta_get_u64(rec, "tsc", &tsc);
	meta_get_u64(rec, "stopped", &stopped);
	c->before_snapshot_tsc = p->written_tsc;
	c->snapshot_tsc = stopped ?: p->fired_tsc ?: tsc;
	p->written_tsc = tsc;
	p->fired_tsc = 0;
	return array_add(&c->pause, &c->npause, &c->pause_cap, &tsc, sizeof(tsc));
}

static int rec_file(struct capture *c, const struct meta_rec *rec)
{
	const char *name = meta_get(rec, "name");
	uint64_t bytes;

	if (!name || !meta_get_u64(rec, "bytes", &bytes))
		return bad(c, rec, name ? "bytes" : "name");
	for (size_t i = 0; i < CAP_TEXTS; i++)
		if (!strcmp(cap_text_names[i], name)) {
			cap_priv(c)->text[i].told = true;
			cap_priv(c)->text[i].bytes = bytes;
		}
	if (!strcmp(name, CAP_SYMBOLS)) {
		cap_priv(c)->symbols_told = true;
		cap_priv(c)->symbols_bytes = bytes;
	}
	return 0;
}

static int rec_symbols(struct capture *c, const struct meta_rec *rec)
{
	const char *gone = meta_get(rec, "gone");
	char *copy = gone && c->ngone < CAP_MAX_GONE ? strdup(gone) : NULL;
	int ret;

	if (!gone || c->ngone >= CAP_MAX_GONE)
		return 0;
	ret = copy ? array_add(&c->gone, &c->ngone, &c->gone_cap, &copy, sizeof(copy)) : -ENOMEM;
	if (ret)
		free(copy);
	return ret;
}

static int rec_end(struct capture *c, const struct meta_rec *rec)
{
	c->complete = true;
	meta_get_u64(rec, "tsc", &c->end_tsc);
	return set(&c->end_clocksource, rec, "clocksource") ?:
	       set(&c->end_reason, rec, "reason");
}

static const struct {
	const char *name;
	int (*apply)(struct capture *c, const struct meta_rec *rec);
} meta_record[] = {
	{ "tool", rec_tool },	    /* version */
	{ "side", rec_side },	    /* name=host|guest */
	{ "machine", rec_machine }, /* uname arch long endian cpus hypervisor uuid vendor hugetlb_kb */
	{ "ring", rec_ring }, /* clock trace_clock subbuf header buffer_kb overwrite flight pids */
	{ "tsc", rec_tsc },	    /* khz source clocksource constant nonstop */
	{ "cpu", rec_cpu },	    /* n apicid */
	{ "event", rec_event },	    /* id sys name filter */
	{ "vm", rec_vm },	    /* id pid fd name uuid vmm */
	{ "vcpu", rec_vcpu },	    /* vm id tid comm offset ratio frac tsc at */
	{ "sched", rec_sched }, /* kvm_sched_clock_offset kernel_sched_clock_offset is_tsc ... */
	{ "pvclock", rec_pvclock }, /* cpu version tsc_timestamp system_time mul shift flags */
	{ "time", rec_time },	    /* tsc width mono_raw mono boot real */
	{ "clock", rec_clock },	    /* name tsc width ns */
	{ "raw", rec_raw },	    /* last mult shift nsec base clocksource source */
	{ "param", rec_param },	    /* module name value */
	{ "qemu", rec_qemu },	    /* pid version monitor name binary backends found */
	{ "marker", rec_marker },   /* of */
	{ "task", rec_task },	    /* tid tgid comm */
	{ "begin", rec_begin },	    /* tsc */
	{ "stop", rec_stop },	    /* tsc */
	{ "stats", rec_stats },	    /* when cpu entries overrun commit_overrun dropped read ... */
	{ "lost", rec_lost },	    /* cpu count from to first last */
	{ "asked", rec_asked },	    /* by tsc */
	{ "fired", rec_fired },	    /* why tsc text */
	{ "segment", rec_segment }, /* n why tsc stopped held */
	{ "file", rec_file },	    /* name bytes */
	{ "symbols", rec_symbols }, /* gone */
	{ "end", rec_end },	    /* reason tsc clocksource */
};

int meta_apply(struct capture *c, const struct meta_rec *rec)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(meta_record); i++)
		if (!strcmp(meta_record[i].name, rec->name))
			return meta_record[i].apply(c, rec);
	return 0;
}
