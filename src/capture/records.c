/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * records.c: what each record of the meta file means; the list is at the end of this file. Records
 * that hold a struct of ours are written here as well.
 *
 * A record or name this version does not know is ignored: newer versions may add both. A known
 * record without its key is noted as damage.
 */
#include "reader.h"

static void rec_bad(struct capture *c, const struct meta_rec *rec, const char *key)
{
	cap_note(c, "meta: record %s without a valid %s", rec->name, key);
}

static void slot_set(char **slot, const struct meta_rec *rec, const char *key)
{
	cap_set_str(slot, meta_get(rec, key));
}

static const char *rec_tool(struct capture *c, const struct meta_rec *rec)
{
	slot_set(&c->tool, rec, "version");
	return NULL;
}

static const char *rec_side(struct capture *c, const struct meta_rec *rec)
{
	const char *name = meta_get(rec, "name");

	if (name && !strcmp(name, "host"))
		c->side = CAP_SIDE_HOST;
	else if (name && !strcmp(name, "guest"))
		c->side = CAP_SIDE_GUEST;
	else if (name && !strcmp(name, "both"))
		c->side = CAP_SIDE_BOTH;
	else
		return "name";
	return NULL;
}

static const char *rec_machine(struct capture *c, const struct meta_rec *rec)
{
	const char *endian = meta_get(rec, "endian");
	uint64_t n;

	if (meta_get_u64(rec, "long", &n)) {
		if (n == 4 || n == 8)
			c->long_size = (uint32_t)n;
		else
			rec_bad(c, rec, "long");
	}
	cap_priv(c)->big_endian |= endian && !strcmp(endian, "big");
	if (meta_get_u64(rec, "hugetlb_kb", &n))
		c->no_hugetlb = !n;
	slot_set(&c->uname, rec, "uname");
	slot_set(&c->arch, rec, "arch");
	slot_set(&c->hypervisor, rec, "hypervisor");
	slot_set(&c->uuid, rec, "uuid");
	slot_set(&c->vendor, rec, "vendor");
	return NULL;
}

static const char *rec_ring(struct capture *c, const struct meta_rec *rec)
{
	const char *text = meta_get(rec, "trace_clock");
	uint64_t n;

	if (meta_get_u64(rec, "subbuf", &n)) {
		if (cap_subbuf_ok(n))
			c->subbuf_size = (uint32_t)n;
		else
			rec_bad(c, rec, "subbuf");
	}
	if (meta_get_u64(rec, "header", &n)) {
		if (n >= 12 && n <= 64)
			c->page_header = (uint32_t)n;
		else
			rec_bad(c, rec, "header");
	}
	if (meta_get_u64(rec, "overwrite", &n))
		c->overwrite = n;
	if (meta_get_u64(rec, "flight", &n))
		c->flight = n;
	c->some_switches |= meta_get_u64(rec, "pids", &n) && n;
	meta_get_u64(rec, "flush", &c->flush_ns);
	if (text)
		cap_parse_clock(&c->clock, text);
	slot_set(&c->clock, rec, "clock");
	return NULL;
}

static const char *rec_tsc(struct capture *c, const struct meta_rec *rec)
{
	uint64_t khz;

	if (meta_get_u64(rec, "khz", &khz)) {
		if (khz <= UINT32_MAX)
			c->tsc_khz = khz;
		else
			rec_bad(c, rec, "khz");
	}
	slot_set(&c->tsc_khz_source, rec, "source");
	slot_set(&c->clocksource, rec, "clocksource");
	return NULL;
}

static const char *rec_cpu(struct capture *c, const struct meta_rec *rec)
{
	struct cap_cpu *cpu;
	uint64_t n;

	if (!meta_get_u64(rec, "n", &n))
		return "n";
	cpu = cap_cpu_at(c, n);
	if (cpu && meta_get_u32(rec, "apicid", &cpu->apicid))
		cpu->has_apicid = true;
	return NULL;
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

static const char *rec_stats(struct capture *c, const struct meta_rec *rec)
{
	const char *when = meta_get(rec, "when");
	struct cap_cpustat *st;
	struct cap_cpu *cpu;
	uint64_t n;

	if (!when || (strcmp(when, "begin") && strcmp(when, "end")))
		return "when";
	if (!meta_get_u64(rec, "cpu", &n))
		return "cpu";
	cpu = cap_cpu_at(c, n);
	if (!cpu)
		return NULL;
	st = !strcmp(when, "begin") ? &cpu->begin : &cpu->end;
	st->valid = meta_get_u64(rec, "entries", &st->entries);
	st->valid &= meta_get_u64(rec, "overrun", &st->overrun);
	st->valid &= meta_get_u64(rec, "commit_overrun", &st->commit_overrun);
	st->valid &= meta_get_u64(rec, "dropped", &st->dropped);
	st->valid &= meta_get_u64(rec, "read", &st->read);
	meta_get_u64(rec, "subbufs", &st->subbufs);
	return st->valid ? NULL : "set of counters";
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

static const char *rec_lost(struct capture *c, const struct meta_rec *rec)
{
	struct cap_loss l = { .last = UINT64_MAX };

	if (!meta_get_u32(rec, "cpu", &l.cpu) || l.cpu >= CAPTURE_MAX_CPUS)
		return "cpu";
	if (!meta_get_u64(rec, "count", &l.count) || !meta_get_u64(rec, "from", &l.from) ||
	    !meta_get_u64(rec, "to", &l.to) || l.from > l.to || !l.count)
		return "set of values";
	meta_get_u64(rec, "first", &l.first);
	meta_get_u64(rec, "last", &l.last);
	xarray_add(&c->loss, &c->nloss, &c->loss_cap, &l, sizeof(l));
	return NULL;
}

static const char *rec_event(struct capture *c, const struct meta_rec *rec)
{
	const char *sys = meta_get(rec, "sys"), *name = meta_get(rec, "name");
	_cleanup_free_ char *text = NULL;
	uint64_t at, size;
	char path[600];
	bool more = false;
	ssize_t len;

	if (!sys || !cap_name_ok(sys))
		return "sys";
	if (!name || !cap_name_ok(name))
		return "name";
	c->some_switches |= !strcmp(name, "sched_switch") && meta_get(rec, "filter");
	if (cap_formats_full(c))
		return NULL;
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
	if (len < 0 || more)
		cap_note(c, "%s: %s", path, more ? "too long" : strerror((int)-len));
	else
		cap_format_add(c, sys, name, text, (size_t)len);
	return NULL;
}

static const char *rec_vm(struct capture *c, const struct meta_rec *rec)
{
	const char *id = meta_get(rec, "id"), *name = meta_get(rec, "name");
	struct cap_vm *vm;

	if (!id || !*id)
		return "id";
	vm = cap_vm_at(c, id);
	if (!vm)
		return NULL;
	meta_get_s32(rec, "pid", &vm->pid);
	meta_get_s32(rec, "fd", &vm->fd);
	cap_set_str(&vm->name, name && *name ? name : NULL);
	slot_set(&vm->uuid, rec, "uuid");
	slot_set(&vm->vmm, rec, "vmm");
	return NULL;
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

/* One more entry; NULL: there are more than any machine has, which is noted. */
static struct cap_vcpu *rec_vcpu_new(struct capture *c, struct cap_vm *vm, uint32_t id,
				     const struct meta_rec *rec)
{
	struct cap_vcpu *v;

	if (vm->nvcpu >= CAP_MAX_VCPUS) {
		rec_bad(c, rec, "number of vCPUs");
		return NULL;
	}
	xu64map_put(&cap_priv(c)->vcpu_last, rec_vcpu_key(c, vm, id), vm->nvcpu);
	v = xarray_grow(&vm->vcpu, vm->nvcpu++, &vm->vcpu_cap, sizeof(*v));
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
static void vcpu_end(struct capture *c, struct cap_vm *vm, uint32_t id, const struct meta_rec *rec)
{
	struct cap_vcpu *v = vcpu_last(c, vm, id);
	int32_t tid = 0;

	meta_get_s32(rec, "tid", &tid);
	if (v && !v->tid)
		v->tid = tid;
	if (!v || (tid > 0 && tid != v->tid))
		v = rec_vcpu_new(c, vm, id, rec);
	if (!v || !meta_get_bits(rec, "offset", &v->end_offset))
		return;
	v->has_end = true;
	meta_get_u64(rec, "ratio", &v->end_ratio);
	rec_frac(v, rec);
	meta_get_u64(rec, "tsc", &v->end_tsc);
}

static const char *rec_vcpu(struct capture *c, const struct meta_rec *rec)
{
	const char *vmid = meta_get(rec, "vm"), *at = meta_get(rec, "at");
	const char *comm = meta_get(rec, "comm");
	struct cap_vcpu *v;
	struct cap_vm *vm;
	uint32_t id;

	if (!vmid || !*vmid)
		return "vm";
	if (!meta_get_u32(rec, "id", &id))
		return "id";
	vm = cap_vm_at(c, vmid);
	if (!vm)
		return NULL;
	if (at && !strcmp(at, "end")) {
		vcpu_end(c, vm, id, rec);
		return NULL;
	}
	v = vcpu_last(c, vm, id);
	if (v && !v->tid) /* recorded again, because now a thread runs it */
		meta_get_s32(rec, "tid", &v->tid);
	else
		v = rec_vcpu_new(c, vm, id, rec);
	if (v && v->has_offset) {
		v->has_again = meta_get_bits(rec, "offset", &v->again_offset) &&
			       meta_get_u64(rec, "tsc", &v->again_tsc);
		return NULL;
	}
	if (!v)
		return NULL;
	v->has_offset = meta_get_bits(rec, "offset", &v->offset);
	meta_get_u64(rec, "ratio", &v->ratio);
	rec_frac(v, rec);
	meta_get_u64(rec, "tsc", &v->tsc);
	if (v->tid > 0 && comm)
		cap_task_add(c, v->tid, vm->pid, comm, false);
	return NULL;
}

static const char *rec_sched(struct capture *c, const struct meta_rec *rec)
{
	uint64_t is_tsc;

	c->has_sched_offset = meta_get_s64(rec, "kvm_sched_clock_offset",
					   &c->kvm_sched_clock_offset);
	c->has_kernel_sched_offset = meta_get_s64(rec, "kernel_sched_clock_offset",
						  &c->kernel_sched_offset);
	if (meta_get_u64(rec, "is_tsc", &is_tsc))
		c->sched_is_tsc = is_tsc;
	slot_set(&c->sched_source, rec, "source");
	return NULL;
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

static const char *rec_pvclock(struct capture *c, const struct meta_rec *rec)
{
	struct cpu_pvclock p = { 0 };
	uint32_t flags = 0;
	int32_t shift;

	if (!meta_get_u32(rec, "cpu", &p.cpu) || p.cpu >= CAPTURE_MAX_CPUS)
		return "cpu";
	if (!meta_get_u64(rec, "tsc_timestamp", &p.pv.tsc_timestamp) ||
	    !meta_get_u64(rec, "system_time", &p.pv.system_time) ||
	    !meta_get_u32(rec, "mul", &p.pv.mul) || !meta_get_s32(rec, "shift", &shift) ||
	    shift < INT8_MIN || shift > INT8_MAX)
		return "set of values";
	p.pv.shift = (int8_t)shift;
	meta_get_u32(rec, "version", &p.pv.version);
	if (meta_get_u32(rec, "flags", &flags))
		p.pv.flags = (uint8_t)flags;
	xarray_add(&c->pvclock, &c->npvclock, &c->pvclock_cap, &p, sizeof(p));
	return NULL;
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

static const char *rec_time(struct capture *c, const struct meta_rec *rec)
{
	struct clock_bracket b = { 0 };

	if (!meta_get_u64(rec, "tsc", &b.tsc))
		return "tsc";
	meta_get_u64(rec, "width", &b.width);
	meta_get_u64(rec, "mono_raw", &b.mono_raw);
	meta_get_u64(rec, "mono", &b.mono);
	meta_get_u64(rec, "boot", &b.boot);
	meta_get_u64(rec, "real", &b.real);
	xarray_add(&c->bracket, &c->nbracket, &c->bracket_cap, &b, sizeof(b));
	return NULL;
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
static const char *rec_clock(struct capture *c, const struct meta_rec *rec)
{
	const char *name = meta_get(rec, "name");
	struct cap_clock_sample s = { .clock = "" };

	if (!name || !*name)
		return "name";
	if (strlen(name) >= sizeof(s.clock))
		return NULL;
	memcpy(s.clock, name, strlen(name));
	if (!meta_get_u64(rec, "tsc", &s.tsc) || !meta_get_u64(rec, "ns", &s.ns))
		return "tsc and ns";
	meta_get_u64(rec, "width", &s.width);
	xarray_add(&c->sample, &c->nsample, &c->sample_cap, &s, sizeof(s));
	return NULL;
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

static const char *rec_raw(struct capture *c, const struct meta_rec *rec)
{
	const char *over = meta_get(rec, "clocksource");
	struct cap_raw r = { .known = true, .over_kvmclock = over && !strcmp(over, "kvm-clock") };
	struct mono_raw *l = &r.line;
	uint32_t shift;

	if (!meta_get_u64(rec, "last", &l->last) || !meta_get_u64(rec, "nsec", &l->nsec) ||
	    !meta_get_u64(rec, "base", &l->base) || !meta_get_u32(rec, "mult", &l->mult) ||
	    !l->mult || !meta_get_u32(rec, "shift", &shift) || shift > 32)
		return "line";
	l->shift = (uint8_t)shift;
	c->raw = r;
	return NULL;
}

static const char *rec_qemu(struct capture *c, const struct meta_rec *rec)
{
	struct cap_qemu *q;

	if (c->nqemu >= CAP_MAX_VMS)
		return NULL;
	q = xarray_grow(&c->qemu, c->nqemu++, &c->qemu_cap, sizeof(*q));
	meta_get_s32(rec, "pid", &q->pid);
	slot_set(&q->version, rec, "version");
	slot_set(&q->binary, rec, "binary");
	return NULL;
}

static const char *rec_param(struct capture *c, const struct meta_rec *rec)
{
	struct cap_param *p;

	if (!meta_get(rec, "module") || !meta_get(rec, "name") || !meta_get(rec, "value"))
		return "module, name and value";
	if (c->nparam >= CAP_MAX_PARAMS)
		return NULL;
	p = xarray_grow(&c->param, c->nparam++, &c->param_cap, sizeof(*p));
	slot_set(&p->module, rec, "module");
	slot_set(&p->name, rec, "name");
	slot_set(&p->value, rec, "value");
	return NULL;
}

static const char *rec_marker(struct capture *c, const struct meta_rec *rec)
{
	const char *of = meta_get(rec, "of");

	c->marker_of_command = of && !strcmp(of, "command");
	return NULL;
}

static const char *rec_task(struct capture *c, const struct meta_rec *rec)
{
	int32_t tid, tgid = 0;

	if (!meta_get_s32(rec, "tid", &tid) || tid < 0)
		return "tid";
	meta_get_s32(rec, "tgid", &tgid);
	cap_task_add(c, tid, tgid, meta_get(rec, "comm"), true);
	return NULL;
}

static const char *rec_moment(struct capture *c, const struct meta_rec *rec)
{
	meta_get_u64(rec, "tsc",
		     *rec->name == 'b'	 ? &c->begin_tsc
		     : *rec->name == 's' ? &c->stop_tsc
					 : &cap_priv(c)->fired_tsc);
	return NULL;
}

static const char *rec_asked(struct capture *c, const struct meta_rec *rec __unused_arg)
{
	cap_priv(c)->asked = true;
	return NULL;
}

static const char *rec_segment(struct capture *c, const struct meta_rec *rec)
{
	struct cap_priv *p = cap_priv(c);
	uint64_t n, tsc = 0, stopped = 0;

	if (!meta_get_u64(rec, "n", &n) || n > CAP_MAX_SEGMENT)
		return "n";
	p->segments_told = MAX(p->segments_told, (uint32_t)n + 1);
	if (!meta_get(rec, "why")) {
		if (n == p->nbegun + 1 && meta_get_u64(rec, "tsc", &tsc))
			xarray_add(&p->begun, &p->nbegun, &p->begun_cap, &tsc, sizeof(tsc));
		return NULL;
	}
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
	xarray_add(&c->pause, &c->npause, &c->pause_cap, &tsc, sizeof(tsc));
	return NULL;
}

static const char *rec_file(struct capture *c, const struct meta_rec *rec)
{
	const char *name = meta_get(rec, "name");
	uint64_t bytes;

	if (!name || !meta_get_u64(rec, "bytes", &bytes))
		return name ? "bytes" : "name";
	for (size_t i = 0; i < CAP_TEXTS; i++)
		if (!strcmp(cap_text_names[i], name)) {
			cap_priv(c)->text[i].told = true;
			cap_priv(c)->text[i].bytes = bytes;
		}
	if (!strcmp(name, CAP_SYMBOLS)) {
		cap_priv(c)->symbols_told = true;
		cap_priv(c)->symbols_bytes = bytes;
	}
	return NULL;
}

static const char *rec_symbols(struct capture *c, const struct meta_rec *rec)
{
	const char *gone = meta_get(rec, "gone");

	if (gone && c->ngone < CAP_MAX_GONE)
		*(char **)xarray_grow(&c->gone, c->ngone++, &c->gone_cap, sizeof(*c->gone)) =
			xstrdup(gone);
	return NULL;
}

static const char *rec_end(struct capture *c, const struct meta_rec *rec)
{
	c->complete = true;
	meta_get_u64(rec, "tsc", &c->end_tsc);
	slot_set(&c->end_clocksource, rec, "clocksource");
	slot_set(&c->end_reason, rec, "reason");
	return NULL;
}

static const struct {
	const char *name;
	/* NULL, or what its text must have and has not */
	const char *(*apply)(struct capture *c, const struct meta_rec *rec);
} meta_record[] = {
	{ "tool", rec_tool },	    /* version */
	{ "side", rec_side },	    /* name=host|guest */
	{ "machine", rec_machine }, /* uname arch long endian cpus hypervisor uuid vendor hugetlb_kb */
	{ "ring", rec_ring }, /* clock trace_clock subbuf header buffer_kb overwrite flight pids flush */
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
	{ "begin", rec_moment },    /* tsc */
	{ "stop", rec_moment },	    /* tsc */
	{ "stats", rec_stats },	    /* when cpu entries overrun commit_overrun dropped read ... */
	{ "lost", rec_lost },	    /* cpu count from to first last */
	{ "asked", rec_asked },	    /* by tsc */
	{ "fired", rec_moment },    /* why tsc text */
	{ "segment", rec_segment }, /* n why tsc stopped held */
	{ "file", rec_file },	    /* name bytes */
	{ "symbols", rec_symbols }, /* gone */
	{ "end", rec_end },	    /* reason tsc clocksource */
};

void meta_apply(struct capture *c, const struct meta_rec *rec)
{
	for (size_t i = 0; i < ARRAY_SIZE(meta_record); i++)
		if (!strcmp(meta_record[i].name, rec->name)) {
			const char *key = meta_record[i].apply(c, rec);

			if (key)
				rec_bad(c, rec, key);
		}
}
