/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracedat_opts.c: the options of a trace.dat that carry facts; the list is at the end. */
#include "tracedat.h"

#include <inttypes.h>

#define MAX_SHIFT_SAMPLES (1u << 20)

/* The option as text: up to its first NUL, or all of it. */
static char *opt_text(const struct cursor *opt)
{
	return xstrndup(opt->left ? (const char *)opt->p : "", opt->left);
}

static void opt_str(char **slot, const struct cursor *opt)
{
	_cleanup_free_ char *text = opt_text(opt);

	cap_set_str(slot, text);
}

static void opt_clock(struct td *t, struct cursor opt)
{
	_cleanup_free_ char *text = opt_text(&opt);

	t->has_clock = true;
	cap_parse_clock(&t->c->clock, text);
}

/* ASCII number, times `scale` added to every stamp. */
static void td_time_add(struct td *t, struct cursor opt, int64_t scale, const char *what)
{
	_cleanup_free_ char *text = opt_text(&opt);
	int64_t v, ns;

	if (parse_s64(text, &v) || __builtin_mul_overflow(v, scale, &ns) ||
	    __builtin_add_overflow(t->c->ts_add, ns, &t->c->ts_add))
		cap_note(t->c, "option %s is not a usable number", what);
}

static void opt_cpustat(struct td *t, struct cursor opt)
{
	_cleanup_free_ char *text = opt_text(&opt);
	struct cap_cpu *cpu;
	unsigned int n;

	cpu = sscanf(text, "CPU: %9u", &n) == 1 ? cap_cpu_at(t->c, n) : NULL;
	if (cpu)
		cap_parse_stats(text, &cpu->end);
}

static void opt_cpucount(struct td *t, struct cursor opt)
{
	uint32_t n;

	if (cur_u32(&opt, &n) || n > CAPTURE_MAX_CPUS)
		cap_note(t->c, "option CPUCOUNT is damaged");
	else if (t->last_opt == TD_BUFFER && t->nbuf)
		t->buf[t->nbuf - 1].cpus = n;
	else
		t->cpucount = n;
}

/* v6 only: where a named buffer begins. */
static void td_opt_buffer(struct td *t, struct cursor opt)
{
	struct td_buffer *b;
	const char *name;
	uint64_t off;

	if (t->c->version != 6)
		return;
	if (cur_u64(&opt, &off) || cur_str(&opt, &name)) {
		cap_note(t->c, "option BUFFER is damaged");
		return;
	}
	b = xarray_grow(&t->buf, t->nbuf++, &t->buf_cap, sizeof(*b));
	b->off = off;
	b->name = xstrdup(name);
}

static void opt_traceid(struct td *t, struct cursor opt)
{
	if (cur_u64(&opt, &t->c->trace_id))
		cap_note(t->c, "option TRACEID is damaged");
}

static void opt_tsc2nsec(struct td *t, struct cursor opt)
{
	struct capture *c = t->c;

	if (cur_u32(&opt, &c->tsc2nsec_mult) || cur_u32(&opt, &c->tsc2nsec_shift) ||
	    cur_u64(&opt, &c->tsc2nsec_offset) || c->tsc2nsec_shift > 63 || !c->tsc2nsec_mult)
		cap_note(c, "option TSC2NSEC is damaged");
	else
		c->has_tsc2nsec = true;
}

/* name NUL, u64 TRACEID of the guest's file, u32 n, n x { u32 guest cpu, u32 host thread } */
static void opt_guest(struct td *t, struct cursor opt)
{
	uint32_t n, cpu, tid;
	struct cap_vcpu *v;
	struct cap_vm *vm;
	const char *name;
	uint64_t id;

	if (cur_str(&opt, &name) || cur_u64(&opt, &id) || cur_u32(&opt, &n) || n > opt.left / 8 ||
	    n > CAPTURE_MAX_CPUS) {
		cap_note(t->c, "option GUEST is damaged");
		return;
	}
	vm = cap_vm_at(t->c, TEXTF("trace:%" PRIx64, id));
	if (!vm)
		return;
	cap_set_str(&vm->name, *name ? name : NULL); /* of QEMU without -name it is empty */
	vm->trace_id = id;
	while (n-- && !cur_u32(&opt, &cpu) && !cur_u32(&opt, &tid)) {
		v = xarray_grow(&vm->vcpu, vm->nvcpu++, &vm->vcpu_cap, sizeof(*v));
		v->id = cpu;
		v->tid = tid <= INT32_MAX ? (int32_t)tid : 0;
	}
}

/* False: damaged. */
static bool shift_samples(struct capture *c, struct cursor *opt, struct cap_shift *s)
{
	uint32_t n, i, k;
	uint64_t v;

	if (cur_u32(opt, &n) || n > opt->left / 24 || n > MAX_SHIFT_SAMPLES)
		return false;
	s->sample = xcalloc(MAX(n, 1u), sizeof(*s->sample));
	s->nsample = n;
	c->nshift++;
	for (k = 0; k < 3; k++) { /* three arrays behind each other: time, offset, scaling */
		for (i = 0; i < n; i++) {
			struct cap_shift_sample *to = &s->sample[i];

			if (cur_u64(opt, &v))
				return false;
			*(k == 0 ? &to->time : k == 1 ? &to->offset : &to->scaling) = (int64_t)v;
		}
	}
	return true;
}

/*
 * Layout since trace-cmd 3.0: u64 peer, u32 flags, u32 ncpus, per CPU { u32 n, s64 time[n],
 * s64 offset[n], s64 scaling[n] }, then per CPU { s64 frac[n] }, which may be missing. KVM has one
 * frac for all, so the first of a CPU is kept.
 */
static void opt_time_shift(struct td *t, struct cursor opt)
{
	struct capture *c = t->c;
	uint32_t flags, ncpus, i;
	uint64_t peer, frac;

	if (c->shift)
		return;
	if (cur_u64(&opt, &peer) || cur_u32(&opt, &flags) || cur_u32(&opt, &ncpus) ||
	    ncpus > opt.left / 4 || ncpus > CAPTURE_MAX_CPUS)
		goto damaged;
	c->shift = xcalloc(MAX(ncpus, 1u), sizeof(*c->shift));
	for (i = 0; i < ncpus; i++)
		if (!shift_samples(c, &opt, &c->shift[i]))
			goto damaged;
	for (i = 0; i < ncpus; i++)
		for (size_t k = 0; k < c->shift[i].nsample && !cur_u64(&opt, &frac); k++)
			c->shift[i].frac = k ? c->shift[i].frac : (int64_t)frac;
	c->shift_peer = peer;
	c->shift_flags = flags;
	return;
damaged:
	cap_note(c, "option TIME_SHIFT is damaged or of a version before trace-cmd 3.0");
}

static const struct {
	uint32_t id;
	void (*read)(struct td *t, struct cursor opt);
} option[] = {
	{ TD_CPUSTAT, opt_cpustat },  { TD_BUFFER, td_opt_buffer },
	{ TD_TRACECLOCK, opt_clock }, { TD_CPUCOUNT, opt_cpucount },
	{ TD_TRACEID, opt_traceid },  { TD_TIME_SHIFT, opt_time_shift },
	{ TD_GUEST, opt_guest },      { TD_TSC2NSEC, opt_tsc2nsec },
};

void td_option(struct td *t, uint32_t id, struct cursor opt)
{
	const char *grain;

	switch (id) {
	case TD_UNAME: opt_str(&t->c->uname, &opt); break;
	case TD_VERSION:
		opt_str(&t->c->tool, &opt);
		t->c->some_switches = strstr(t->c->tool, TD_SOME);
		t->c->flight = strstr(t->c->tool, TD_FLIGHT);
		grain = strstr(t->c->tool, TD_GRAIN);
		if (grain && (grain += strlen(TD_GRAIN)))
			(void)take_u64(&grain, 1000000000, &t->c->grain);
		break;
	case TD_DATE: td_time_add(t, opt, 1000, "DATE"); break;
	case TD_OFFSET: td_time_add(t, opt, 1, "OFFSET"); break;
	}
	for (size_t i = 0; i < ARRAY_SIZE(option); i++)
		if (option[i].id == id)
			option[i].read(t, opt);
	t->last_opt = id;
}
