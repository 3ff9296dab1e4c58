/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * convert.c: the links between two clocks, from captures and from what the user says.
 *
 * A host capture gives the epochs of the vCPU (TSC maps and pvclock records in force), a guest
 * capture its sched_clock offsets and its pvclock record; both give samples of the other clocks.
 */
#include "kvmft/pairing.h"

#include "kvmft/clock.h"
#include "kvmft/hostmap.h"

/* What --tsc-offset and --tsc-ratio say; *given: whether there was any. */
static int given_map(const struct convert_params *p, struct tsc_map *map, bool *given,
		     struct kvmft_err *err)
{
	int ret = pairing_parse_map(&p->tsc_offset, p->tsc_ratio, map, given, err);

	if (!ret && p->tsc_ratio && !p->tsc_offset.set)
		return err_usage(err, "option --tsc-ratio: it needs --tsc-offset beside it");
	return ret;
}

/* ---- trace clocks of the guest ---- */

static bool is_trace_clock(enum clock_id id)
{
	return id == CLK_GUEST_LOCAL || id == CLK_GUEST_GLOBAL || id == CLK_GUEST_PERF;
}

/* Global and perf are local plus __sched_clock_offset. */
static void set_kernel(struct convert_way *c, uint64_t kernel)
{
	struct clock_link l = { CLOCK_WAY_LATER, CLK_GUEST_LOCAL, .later = kernel };

	/* nothing is refused */
	(void)clock_chain_set(&c->clock, CLK_GUEST_GLOBAL, &l);
	(void)clock_chain_set(&c->clock, CLK_GUEST_PERF, &l);
}

static void set_kvm(struct convert_way *c, uint64_t kvm)
{
	struct clock_link l = { CLOCK_WAY_LATER, CLK_KVMCLOCK, .later = 0 - kvm };

	(void)clock_chain_set(&c->clock, CLK_GUEST_LOCAL, &l);
}

/*
 * --sched-offset alone is kvmclock minus one trace clock, whichever of the three is converted: it
 * is entered as kvm_sched_clock_offset of a kernel whose other offset is 0. The ways that this
 * would invent (from local to perf) are refused.
 */
static int apply_sched(struct convert_way *c, struct kvmft_err *err)
{
	const struct convert_params *p = c->p;
	uint64_t v[PARAMS_MAX_NUMBERS] = { 0 };
	int n = !p->kernel_sched ? 0 :
		params_numbers("kernel-sched-offset", p->kernel_sched,
			       "KVM_SCHED_CLOCK_OFFSET,SCHED_CLOCK_OFFSET", 1, 2, v, err);

	if (n < 0)
		return n;
	if (!n && !p->sched_offset.set)
		return 0;
	if (n == 2 && p->sched_offset.set)
		return err_usage(
			err, "options --sched-offset and --kernel-sched-offset K,S exclude each "
			     "other");
	if (n == 1 && !p->sched_offset.set)
		return err_usage(err,
				 "option --kernel-sched-offset: '%s' is not K,S, and there is no "
				 "--sched-offset with K",
				 p->kernel_sched);
	if (!n && !is_trace_clock(c->from) && !is_trace_clock(c->to))
		return 0;
	if (!n && is_trace_clock(c->from) && is_trace_clock(c->to))
		return err_usage(err,
				 "option --sched-offset: it does not relate %s to %s; give "
				 "--kernel-sched-offset K,S",
				 clock_name(c->from), clock_name(c->to));
	set_kvm(c, n == 2 ? v[0] : p->sched_offset.v);
	set_kernel(c, v[MAX(n, 1) - 1]);
	return 0;
}

/* ---- CLOCK_MONOTONIC_RAW ---- */

/*
 * Given once, it is about the mono_raw being converted; given twice, about --from, then --to. The
 * kernel registers kvm-clock with a rate of exactly 1; a TSC has that only at 1 GHz.
 */
static int apply_raw(struct convert_way *c, struct kvmft_err *err)
{
	const struct str_list *list = &c->p->mono_raw;
	enum clock_id ends[2];
	size_t n = 0;

	if (!list->n)
		return 0;
	if (c->from == CLK_GUEST_MONO_RAW || c->from == CLK_HOST_MONO_RAW)
		ends[n++] = c->from;
	if (c->to != c->from && (c->to == CLK_GUEST_MONO_RAW || c->to == CLK_HOST_MONO_RAW))
		ends[n++] = c->to;
	if (list->n > n)
		return err_usage(err, "option --mono-raw: given %s, but %s", n ? "twice" : "here",
				 n ? "only one mono_raw is converted" : "no mono_raw is converted");
	if (list->n < n && !c->host && !c->guest)
		return err_usage(err, "option --mono-raw: give it twice, for --from and for --to");
	for (size_t i = 0; i < list->n; i++) {
		struct clock_link l = { .way = CLOCK_WAY_RAW };
		const char *text = list->v[i];
		uint64_t v[PARAMS_MAX_NUMBERS];
		int ret =
			params_numbers("mono-raw", text, "LAST,MULT,SHIFT,NSEC,BASE", 5, 5, v, err);

		if (ret < 0)
			return ret;
		if (v[1] > UINT32_MAX || v[2] > 32)
			return err_usage(
				err, "option --mono-raw: '%s': MULT has 32 bits, SHIFT is 0 to 32",
				text);
		l.raw = (struct mono_raw){
			.last = v[0],
			.mult = (uint32_t)v[1],
			.shift = (uint8_t)v[2],
			.nsec = v[3],
			.base = v[4],
		};
		if (ends[i] == CLK_GUEST_MONO_RAW) {
			bool kvm = c->guest && c->guest->clocksource
					   ? !strcmp(c->guest->clocksource, "kvm-clock")
					   : l.raw.mult == 1ull << l.raw.shift;

			l.over = kvm ? CLK_KVMCLOCK : CLK_GUEST_TSC;
		}
		if (clock_chain_set(&c->clock, ends[i], &l))
			return err_usage(err, "option --mono-raw: '%s': MULT is 0", text);
	}
	return 0;
}

/* ---- the clocks that a capture sampled together with the TSC ---- */

/* From host-local or guest-local on. */
static const enum cap_clock sampled[] = {
	CAP_CLOCK_LOCAL,    CAP_CLOCK_GLOBAL, CAP_CLOCK_PERF,	  CAP_CLOCK_MONO,
	CAP_CLOCK_MONO_RAW, CAP_CLOCK_BOOT,   CAP_CLOCK_REALTIME,
};

/*
 * As lines between the samples; only for the ends of the conversion. last_resort: of local, global
 * and perf, which are exact where constants are known.
 */
static int convert_samples_add(struct convert_way *c, const struct capture *cap, bool guest,
			       bool last_resort, struct kvmft_err *err)
{
	for (int k = 0; k <= (c->from != c->to); k++) {
		struct clock_link l = { CLOCK_WAY_PIECES, guest ? CLK_GUEST_TSC : CLK_HOST_TSC,
					.later = 0 };
		enum clock_id id = k ? c->to : c->from;
		size_t i = (size_t)id - (guest ? CLK_GUEST_LOCAL : CLK_HOST_LOCAL);
		int ret;

		if (i >= ARRAY_SIZE(sampled) || last_resort != (sampled[i] >= CAP_CLOCK_LOCAL))
			continue;
		ret = cap_pieces_init(&c->sample[k], cap, sampled[i]);
		if (ret == -ENODATA)
			continue; /* the missing link says so */
		if (ret == -ENOTSUP)
			return err_lack(err, ENODATA,
					"%s does not say its TSC frequency: " RATE_HINT,
					cap->path);
		l.pieces = c->sample[k].pieces;
		if (ret || clock_chain_set(&c->clock, id, &l))
			return err_set(err, EINVAL, "%s: its samples of %s contradict each other",
				       cap->path, clock_name(id));
	}
	return 0;
}

static bool by_route(const void *route, uint64_t tsc, uint64_t *lo, uint64_t *hi)
{
	return clock_route_convert(route, tsc, lo, hi) == 0;
}

/* The capture's line of CLOCK_MONOTONIC_RAW, if it has one that fits its samples. */
static void convert_raw_add(struct convert_way *c, const struct capture *cap, bool guest)
{
	struct clock_link l = { CLOCK_WAY_RAW, guest ? CLK_GUEST_TSC : CLK_HOST_TSC, .later = 0 };
	struct clock_route route = { 0 };
	bool kvmclock =
		guest && !clock_route_find(&c->clock, CLK_GUEST_TSC, CLK_KVMCLOCK, &route, NULL);

	if (guest && cap->raw.over_kvmclock)
		l.over = CLK_KVMCLOCK;
	if (cap_raw_line(cap, kvmclock ? by_route : NULL, &route, &l.raw))
		(void)clock_chain_set(&c->clock, guest ? CLK_GUEST_MONO_RAW : CLK_HOST_MONO_RAW,
			       &l); /* the samples are used if this fails */
}

/* ---- captures ---- */

static int open_input(struct convert_way *c, const char *path, bool is_guest, struct kvmft_err *err)
{
	struct capture *cap = NULL;
	int ret = capture_open(path, &cap, err);

	if (ret)
		return ret;
	if (!is_guest && cap->side == CAP_SIDE_GUEST && !c->p->guest)
		is_guest = true; /* -i with a guest's capture: what else can be meant */
	if (is_guest)
		c->guest = cap;
	else
		c->host = cap;
	if (cap->side == (is_guest ? CAP_SIDE_HOST : CAP_SIDE_GUEST))
		return err_set(err, EINVAL, "%s is the capture of a %s: -i takes one of a host, and one "
			       "of its guest", path, is_guest ? "host" : "guest");
	rate_given(cap, &c->p->tsc_khz);
	return 0;
}

/* ---- the VM and the vCPU ---- */

/* Index of the VM that is meant, -ENODATA if the capture has none. */
static ssize_t pick_vm(struct convert_way *c, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (c->guest && c->map->nvm) {
		struct matcher m = {
			.map = c->map, .guests = 1, .solve = c->p->solve, .naming = "--vm SEL"
		};
		bool tsc = cap_in_tsc(c->guest);
		int ret;

		/*
		 * That of the guest's capture, as merge finds it; its offset, too, if that was not
		 * recorded.
		 */
		m.undecided_ok = !tsc; /* the record of its clock may be all that is needed */
		c->guest_fmt = fmt_load(c->guest);
		ret = match_guest(&m, c->guest, c->guest_fmt, c->p->vm, c->p->tsc_offset.set,
				  &c->match, err);
		matcher_free(&m);
		if (ret)
			return ret;
		if (c->match.solved)
			solution_force(&c->match.sol, c->map, c->match.vm, cap_cpus(c->guest));
		return (ssize_t)c->match.vm;
	}
	if (c->p->vm)
		return hostmap_find_vm(c->map, c->p->vm, err);
	if (c->map->nvm <= 1)
		return c->map->nvm ? 0 : -ENODATA;
	hostmap_list(c->map, &b);
	return err_set(err, ENOTUNIQ, "%s: it holds several VMs; choose one with --vm: %s",
		       c->host->path, b.s ?: "");
}

/* Do two vCPUs convert alike at all times? */
static bool same_epochs(const struct epoch_vcpu *a, const struct epoch_vcpu *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		const struct epoch *x = &a->v[i], *y = &b->v[i];

		if (x->has_map != y->has_map || x->has_pv != y->has_pv ||
		    (x->has_map && !tsc_map_equal(&x->map, &y->map)) ||
		    (x->has_pv && !pvclock_same_body(&x->pv, &y->pv)) || (i && x->from != y->from))
			return false;
	}
	return true;
}

/* -EINVAL if they differ and none was chosen: vCPU 0 is never taken for all. */
static int pick_vcpu(struct convert_way *c, const struct epoch_vm *vm,
		     const struct epoch_vcpu **out, struct kvmft_err *err)
{
	if (c->p->vcpu.set) {
		if (c->p->vcpu.v <= UINT32_MAX)
			*out = epoch_vm_find(vm, (uint32_t)c->p->vcpu.v);
		if (!*out)
			return err_set(err, ENOENT, "%s: VM %s has no vCPU %" PRIu64, c->host->path,
				       c->vm, c->p->vcpu.v);
		return 0;
	}
	for (size_t i = 1; i < vm->n; i++)
		if (!same_epochs(vm->vcpus[0], vm->vcpus[i]))
			return err_set(
				err, ENOTUNIQ,
				"%s: the clocks of vCPU %u and %u of VM %s differ: choose one with "
				"--vcpu",
				c->host->path, vm->vcpus[0]->id, vm->vcpus[i]->id, c->vm);
	*out = epoch_vm_or_first(vm, -1);
	return 0;
}

/* ---- pvclock records read in the guest ---- */

/* The record by itself, if no epochs say which one was in force when. */
static int lone_record(struct convert_way *c, struct kvmft_err *err)
{
	const struct capture *g = c->guest;
	struct clock_link l = { CLOCK_WAY_RECORD, CLK_GUEST_TSC, .pv = { 0 } };
	const struct cpu_pvclock *use = NULL;

	for (size_t i = 0; i < g->npvclock; i++) {
		const struct cpu_pvclock *p = &g->pvclock[i];

		if (c->p->vcpu.set && cap_vcpu_of_cpu(g, p->cpu) != c->p->vcpu.v)
			continue;
		if (use && !pvclock_same_body(&use->pv, &p->pv))
			return err_set(
				err, ENOTUNIQ,
				"%s: the pvclock records of CPU %u and %u differ: choose a vCPU with "
				"--vcpu",
				g->path, use->cpu, p->cpu);
		use = use ?: p;
	}
	if (!use)
		return 0;
	l.pv = use->pv;
	if (clock_chain_set(&c->clock, CLK_KVMCLOCK, &l))
		return err_set(err, EINVAL, "%s: its pvclock record is damaged", g->path);
	return 0;
}

/* ---- host ---- */

static int load_epochs(struct convert_way *c, const struct epoch_vcpu **vcpu, struct kvmft_err *err)
{
	struct guest_time g = { 0 };
	struct tsc_map map;
	bool forced;
	ssize_t vm;
	int ret;

	c->fmt = fmt_load(c->host);
	ret = hostmap_new(c->host, c->fmt, &c->map, err);
	ret = ret ?: hostmap_clock(c->map, err);
	ret = ret ?: given_map(c->p, &map, &forced, err);
	if (ret)
		return ret;
	vm = pick_vm(c, err);
	if (vm == -ENODATA) {
		hostmap_free(c->map);
		c->map = NULL;
		return 0;
	}
	if (vm < 0)
		return (int)vm;
	snprintf(c->vm, sizeof(c->vm), "%s", c->map->vm[vm].label);
	if (forced)
		hostmap_force_map(c->map, (size_t)vm,
				  c->p->vcpu.set && c->p->vcpu.v < CAPTURE_MAX_CPUS
					  ? (size_t)c->p->vcpu.v + 1
					  : 1,
				  &map);
	if (c->guest) {
		guest_time_anchor(&g, c->guest, c->host);
		hostmap_add_records(c->map, (size_t)vm, c->guest, &g);
	}
	return pick_vcpu(c, c->map->vm[vm].epochs, vcpu, err);
}

static int use_host(struct convert_way *c, struct kvmft_err *err)
{
	struct clock_link l = { CLOCK_WAY_EPOCHS, CLK_HOST_TSC, .epochs = NULL };
	int ret;

	if (!c->host)
		return 0;
	ret = convert_samples_add(c, c->host, false, false, err);
	if (!ret)
		convert_raw_add(c, c->host, false);
	/* Reading all events of the capture is needed only for guests. */
	if (ret || (!clock_is_guest(c->from) && !clock_is_guest(c->to)))
		return ret;
	if (c->p->tsc_offset.set && !cap_in_tsc(c->host))
		return 0;
	ret = load_epochs(c, &l.epochs, err);
	if (ret || !l.epochs)
		return ret;
	(void)clock_chain_set(&c->clock, CLK_GUEST_TSC, &l);
	l.over = CLK_GUEST_TSC;
	/* it may hold no record; the missing link says so */
	(void)clock_chain_set(&c->clock, CLK_KVMCLOCK, &l);
	return 0;
}

int convert_captures(struct convert_way *c, struct kvmft_err *err)
{
	const struct capture *g;
	int ret = c->p->input ? open_input(c, c->p->input, false, err) : 0;

	if (!ret && c->p->guest)
		ret = open_input(c, c->p->guest, true, err);
	ret = ret ?: use_host(c, err);
	g = c->guest;
	if (ret || !g)
		return ret;
	c->clock.no_kvmclock = g->sched_is_tsc;
	if (g->has_sched_offset && !g->sched_is_tsc)
		set_kvm(c, (uint64_t)g->kvm_sched_clock_offset);
	if (g->has_kernel_sched_offset)
		set_kernel(c, (uint64_t)g->kernel_sched_offset);
	if (!c->p->pvclock && !c->clock.link[CLK_KVMCLOCK].way)
		ret = lone_record(c, err);
	ret = ret ?: convert_samples_add(c, g, true, false, err);
	if (!ret)
		convert_raw_add(c, g, true);
	return ret;
}

int convert_given(struct convert_way *c, struct kvmft_err *err)
{
	struct clock_link map = { CLOCK_WAY_MAP, CLK_HOST_TSC, .map = { 0 } };
	struct clock_link pv = { CLOCK_WAY_RECORD, CLK_GUEST_TSC, .pv = { 0 } };
	const char *pvclock = c->p->pvclock;
	struct clock_route route;
	bool given;
	int ret = given_map(c->p, &map.map, &given, err);

	if (!ret && given && !c->map)
		ret = clock_chain_set(&c->clock, CLK_GUEST_TSC, &map);
	if (!ret && pvclock)
		ret = params_pvclock(pvclock, &pv.pv, err);
	if (!ret && pvclock && clock_chain_set(&c->clock, CLK_KVMCLOCK, &pv))
		ret = err_usage(err, "option --pvclock: '%s' is not a record of KVM", pvclock);
	ret = ret ?: apply_sched(c, err);
	ret = ret ?: apply_raw(c, err);
	if (ret || clock_route_find(&c->clock, c->from, c->to, &route, NULL) != -ENOLINK)
		return ret;
	/* There is no other way so far: samples of local, global and perf. */
	if (c->host)
		ret = convert_samples_add(c, c->host, false, true, err);
	if (!ret && c->guest)
		ret = convert_samples_add(c, c->guest, true, true, err);
	return ret;
}

void convert_close(struct convert_way *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->sample); i++)
		cap_pieces_free(&c->sample[i]);
	match_free(&c->match);
	hostmap_free(c->map);
	fmt_free(c->fmt);
	fmt_free(c->guest_fmt);
	capture_close(c->guest);
	capture_close(c->host);
}
