/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pairing.c: host and guests, opened and matched. */
#include "kvmft/pairing.h"
#include "kvmft/events.h"
#include "kvmft/evidence.h"
#include "kvmft/hostmap.h"

static void close_one(struct pairing_capture *c)
{
	fmt_free(c->fmt);
	capture_close(c->cap);
}

/* GUEST=SEL; both may contain a '=': what exists as a file is the path. */
void pairing_split(const char *text, char **path, const char **sel)
{
	const char *eq = strrchr(text += *text == *SESSION_MARK, '=');

	*sel = NULL;
	*path = xstrdup(text);
	for (size_t n = strlen(text); *path && access(*path, F_OK) && n; n--) {
		if (text[n - 1] != '=')
			continue;
		(*path)[n - 1] = 0;
		*sel = text + n;
	}
	if (*path && *sel && access(*path, F_OK)) { /* to be missed by the name that was meant */
		strcpy(*path, text);
		(*path)[eq - text] = 0;
		*sel = eq + 1;
	}
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* What a map given by hand is about to replace. */
static void keep_recorded(const struct pairing *p, struct pairing_guest *g)
{
	const struct epoch_vm *e = p->map->vm[g->vm].epochs;

	for (size_t i = 0; e && i < e->n; i++) {
		const struct epoch_vcpu *c = e->vcpus[i];

		for (size_t k = 0; k < c->n; k++) {
			struct pairing_recorded *r = xarray_grow(&g->recorded, g->nrecorded,
								&g->recorded_cap, sizeof(*r));

			*r = (struct pairing_recorded){ .vcpu = c->id,
							.from = c->v[k].from,
							.map = c->v[k].map,
							.sure = c->v[k].has_map &&
								!c->v[k].doubtful };
			g->nrecorded++;
		}
	}
}

/* What keeps the one of both that counts ns from being in TSC cycles. */
static int why_not_tsc(struct capture *host, const struct capture *guest, struct kvmft_err *err)
{
	_cleanup_(guest_time_free) struct guest_time time = { 0 };
	_cleanup_(own_tsc_free) struct own_tsc own = { 0 };

	if (!host->unit_ns)
		return guest_time_init(&time, guest, err);
	host->unit_ns = false;
	return own_tsc_init(&own, host, err);
}

/*
 * Where no clock leads to the TSC, two clocks in ns are related by an offset, if by anything. One
 * in ns is to one in cycles as a guest's TSC to the host's: by a ratio, which their frequency is.
 */
static int relate_units(struct pairing *p, struct pairing_guest *g, const struct opt_u64 *khz,
			struct kvmft_err *err)
{
	struct capture *host = p->host.cap, *guest = g->c.cap;
	const struct tsc_rate_guest self = { .cap = guest, .fmt = g->c.fmt };
	const bool ns = guest->clock && clock_trace_is_ns(guest->clock);
	struct pairing_capture *tsc = host->unit_ns ? &g->c : &p->host;
	struct tsc_rate r = { 0 };
	int ret;

	if (host->unit_ns && !ns && !cap_in_tsc(guest))
		return why_not_tsc(host, guest, err);
	if (!host->unit_ns) {
		_cleanup_(guest_time_free) struct guest_time time = { 0 };

		if (!ns || !cap_in_tsc(host) || guest_time_init(&time, guest, NULL) != -ENOTSUP)
			return 0;
	}
	host->grain += guest->grain;
	guest->unit_ns = ns;
	if (ns)
		guest->tsc_khz = 1000000;
	if (host->unit_ns && ns)
		return 0;
	if (khz)
		rate_given(tsc->cap, khz);
	ret = khz && khz->set ? 0 : tsc_rate_find(tsc->cap, tsc->fmt, &self, !ns, &r);
	if (ret)
		return err_why(err, ret, "cannot read %s", tsc->cap->path);
	tsc_rate_use(tsc->cap, &r);
	if (!tsc->cap->tsc_khz)
		return err_lack(err, ENOTSUP,
				"%s counts cycles, %s ns, and how fast that TSC runs is not known: "
				RATE_HINT "; or record both with %s",
				tsc->cap->path, tsc == &g->c ? host->path : guest->path,
				cap_clock_advice(host));
	host->mixed = true;
	g->scale.frac = 48;
	g->scale.ratio = (uint64_t)(ns ? ((unsigned __int128)1000000 << 48) / host->tsc_khz
				       : ((unsigned __int128)guest->tsc_khz << 48) / 1000000);
	return 0;
}

/*
 * Guests of a session are different ones. Of two that say that they are the same VM one lies: who
 * is not named by the session; or nobody knows who.
 */
static int two_say(struct pairing *p, const struct pairing_guest *o, const struct pairing_guest *g,
		   struct kvmft_err *err)
{
	const bool sure = o->match.by == MATCH_BY_USER, named = g->match.by == MATCH_BY_USER;
	const char *liar = (named ? o : g)->c.cap->path, *other = (named ? g : o)->c.cap->path;

	if (sure && named)
		return 0;
	p->failed = (size_t)((named ? o : g) - p->guest) + 1;
	p->twin = sure || named ? 0 : (size_t)(o - p->guest) + 1;
	return err_set(err, ENOTUNIQ, "%s says that it is the same VM as %s, %s; %s=SEL names its own",
		       liar, other, p->map->vm[g->vm].label, liar);
}

static int open_guest(struct pairing *p, const char *operand, const struct opt_u64 *khz,
		      struct kvmft_err *err)
{
	struct pairing_guest *g = &p->guest[p->nguest++];
	const struct tsc_map *scale = p->matcher.scale;
	_cleanup_free_ char *path = NULL;
	const char *sel;
	int ret;
	bool again;

	pairing_split(operand, &path, &sel);
	ret = evidence_open(path, &g->c.cap, &g->c.fmt, err);
	ret = ret ?: relate_units(p, g, khz, err);
	if (ret)
		return ret;
	if (same_file(p->host.cap->path, g->c.cap->path))
		return err_set(err, EINVAL,
			       "%s is named as host and as guest: name a capture of each; "
			       "`kvmft merge %s` shows what it holds",
			       path, path);
	if (g->c.cap->side == CAP_SIDE_HOST)
		return err_set(err, EINVAL, "%s is the capture of a host, not of a guest", path);
	/* What only some commands need is theirs to say of a guest that was named. */
	ret = *operand == *SESSION_MARK ? event_arch_check(g->c.cap, g->c.fmt, err) : 0;
	if (ret)
		return ret;
	p->matcher.scale = g->scale.ratio && !scale ? &g->scale : scale;
	ret = match_guest(&p->matcher, g->c.cap, g->c.fmt, sel, p->has_forced, &g->match, err);
	p->matcher.scale = scale;
	/* What is said of a TSC's offset, by hand or in a capture, is not of a clock in ns. */
	if (!ret && p->host.cap->mixed && !g->match.solved)
		ret = why_not_tsc(p->host.cap, g->c.cap, err);
	if (ret)
		return ret;
	g->vm = g->match.vm;
	p->map->vm[g->vm].paired = true;
	/*
	 * Another capture of a VM that has one already: of another boot, or of other events. By its
	 * own stamps each finds its place; the same one twice would only be a mistake.
	 */
	again = false;
	g->of_session = *operand == *SESSION_MARK;
	for (const struct pairing_guest *o = p->guest; o != g; o++) {
		if (same_file(o->c.cap->path, g->c.cap->path))
			return err_set(err, EINVAL, "%s and %s are one and the same capture",
				       o->c.cap->path, g->c.cap->path);
		if (p->map->vm[o->vm].of == g->vm && o->of_session && g->of_session)
			ret = two_say(p, o, g, err);
		if (ret)
			return ret;
		again |= p->map->vm[o->vm].of == g->vm;
	}
	if (again)
		g->vm = hostmap_add_side(p->map, g->vm);
	/* Its clock, given by hand or solved, replaces what the captures say. */
	if (p->has_forced || g->match.solved)
		keep_recorded(p, g);
	if (p->has_forced)
		hostmap_force_map(p->map, g->vm, cap_cpus(g->c.cap), &p->forced);
	else if (g->match.solved)
		solution_force(&g->match.sol, p->map, g->vm, cap_cpus(g->c.cap));
	ret = tl_add_guest(p->t, g->c.cap, g->c.fmt, g->vm, err);
	if (!ret)
		tl_source(p->t, p->nguest)->match = &g->match;
	return ret;
}

/* Without guests the clocks of vCPUs are not needed, nor the events that set them. */
static int host_map(struct pairing *p, bool alone, struct kvmft_err *err)
{
	int ret = 0;

	if (!alone)
		ret = hostmap_new(p->host.cap, p->host.fmt, &p->map, err);
	else
		hostmap_known(p->host.cap, p->host.fmt, &p->map);
	if (!ret)
		hostmap_tell_apart(p->map);
	return ret;
}

/* Of KVM, or of arm64's EL2. */
static bool of_kvm(const struct fmt_event *e)
{
	return e && (str_starts(fmt_name(e), "kvm_") || str_starts(fmt_name(e), "hyp_"));
}

static int find_kvm(void *fmt, const struct rec *rec)
{
	return of_kvm(fmt_by_id(fmt, rec->id));
}

/*
 * Not all needs have looked for threads that run vCPUs: of those that did not (look), a machine
 * that recorded all its events, and none of KVM, ran no VM. 1: it did not.
 */
static int ran_no_vm(const struct pairing *p, bool look)
{
	const struct capture *cap = p->host.cap;
	int ret = 0;

	for (size_t i = 0; look && i < cap->nstream && !ret; i++)
		ret = rstream_each(cap, &cap->stream[i], find_kvm, p->host.fmt);
	return ret ? MIN(ret, 0) : 1;
}

/* One capture needs no other clock than its own, and perf's is what perf script prints. */
static void open_alone(struct pairing *p, bool guest, bool own_vm)
{
	const struct hostmap_vm vm = { .label = "guest" };

	p->alone = true;
	tl_new_alone(p->map, guest,
		     guest && own_vm ? (int64_t)hostmap_add_foreign(p->map, &vm) : -1, &p->t);
}

static int prepare_host(struct pairing *p, const char *host, char **guests, size_t n,
			const struct pairing_opts *o, struct kvmft_err *err)
{
	_cleanup_(own_tsc_free) struct own_tsc own = { 0 };
	const struct pairing_clock *clock = o->clock;
	const struct tl_item *item;
	bool kvm = false;
	bool begins = false, guest, clocks;
	struct capture *host_cap;
	int ret = 0;

	memset(p, 0, sizeof(*p));
	p->matcher = (struct matcher){
		.guests = n,
		.naming = o->naming,
		.undecided_ok = o->undecided_ok,
		.growing = o->growing,
	};
	/* A ratio alone goes with recorded or found offsets; --solve always searches for them. */
	if (clock) {
		ret = pairing_parse_map(&clock->tsc_offset, clock->tsc_ratio, &p->forced, &guest,
					err);
		p->has_forced = clock->tsc_offset.set && !clock->solve;
		p->matcher.scale = clock->tsc_ratio ? &p->forced : NULL;
		p->matcher.solve = clock->solve;
	}
	if (ret)
		return ret;
	p->guest = xcalloc(n ?: 1, sizeof(*p->guest));
	ret = evidence_open(host, &p->host.cap, &p->host.fmt, err);
	if (ret)
		return ret;
	host_cap = p->host.cap;
	for (size_t i = 0; fmt_at(p->host.fmt, i); i++)
		kvm |= of_kvm(fmt_at(p->host.fmt, i));
	/* It says so; or it has nothing of KVM: that of a guest, or of a machine without any. */
	guest = o->guest_alone && !n && !o->related &&
		(host_cap->side == CAP_SIDE_GUEST || (host_cap->side == CAP_SIDE_UNKNOWN && !kvm));
	if (p->host.cap->side == CAP_SIDE_GUEST && !guest)
		return err_set(
			err, EINVAL,
			"%s is the capture of a guest: the host's comes first, then the guest's",
			host);
	p->begin = host_cap->begin_tsc;
	/* If nothing leads from it to the TSC. */
	if (n && !o->related && host_cap->clock && clock_trace_is_ns(host_cap->clock) &&
	    own_tsc_init(&own, host_cap, NULL) == -ENOTSUP) {
		host_cap->unit_ns = true;
		host_cap->tsc_khz = 1000000;
		p->begin = 0;
	}
	/* They are shown beside the events of a host alone. */
	clocks = event_format(p->host.fmt, EV_TSC_OFFSET) || event_format(p->host.fmt, EV_PVCLOCK);
	/* The capture's own list of VMs names the threads, if it has one. */
	ret = host_map(p,
		       !n && (guest || !clocks) &&
			       (o->need == PAIRING_LINES ||
				(o->need == PAIRING_VCPUS && p->host.cap->nvm &&
				 !p->host.cap->is_tracedat)),
		       err);
	/* Recorded as a host and a guest in one. */
	if (!ret && o->guest_alone && !n && !o->related && !guest &&
	    host_cap->side != CAP_SIDE_HOST && !p->map->nvm && !p->map->nthread) {
		ret = ran_no_vm(p, host_cap->side != CAP_SIDE_BOTH || o->need != PAIRING_CLOCKS);
		guest = ret > 0;
		ret = MIN(ret, 0);
	}
	if (!ret && !n && !o->related &&
	    (guest || p->host.cap->is_perfdata || hostmap_clock(p->map, NULL) == -ENOTSUP))
		open_alone(p, guest, o->need == PAIRING_CLOCKS);
	else
		ret = ret ?: tl_new(p->map, &p->t, err);
	p->matcher.map = p->map;
	if (!ret && p->matcher.scale)
		hostmap_set_scale(p->map, p->matcher.scale);
	for (size_t i = 0; i < n && !ret; i++) {
		ret = open_guest(p, guests[i], o->khz, err);
		begins |= !ret && (p->has_forced || p->guest[i].match.solved);
		p->failed = ret ? p->failed ?: p->nguest : 0;
	}
	matcher_free(&p->matcher);
	/* A map given by hand, or solved, holds at all times: guests may begin before the host. */
	if (ret || !begins || (ret = tl_start(p->t, err)))
		return ret;
	if (tl_next(p->t, &item) > 0)
		p->begin = MIN(p->begin, item->host);
	tl_stop(p->t);
	return 0;
}

/* What a capture lacks may be in its damaged part: recording anew is no remedy then. */
static void with_damage(const struct capture *cap, int ret, struct kvmft_err *err)
{
	if (ret && cap && cap->ndamage && err->code == KVMFT_LACKING)
		err_lack(err, ret, "%s; and %s: %s", err->text, cap->path, cap->damage[0].text);
}

#define MAX_GONE 16 /* each costs another walk over the host's capture */

int pairing_prepare(struct pairing *p, const char *host, char **guests, size_t n,
		    const struct pairing_opts *o, struct kvmft_err *err)
{
	_cleanup_free_ char **left = xcalloc(n + 1, sizeof(*left));
	struct pairing_gone gone = { 0 };
	char *why;
	int ret;

	memcpy(left, guests, n * sizeof(*left));
	for (;;) {
		ret = prepare_host(p, host, left, n, o, err);
		for (size_t i = 0; i < p->nguest; i++)
			with_damage(p->guest[i].c.cap, ret, err);
		with_damage(p->host.cap, ret, err);
		if (!p->failed || n < 2 + !!p->twin || o->growing || gone.n == MAX_GONE ||
		    *left[p->failed - 1] != *SESSION_MARK)
			break;
		/* Anew, as nothing that this guest said may remain. */
		memmove(left + p->failed - 1, left + p->failed, (n-- - p->failed) * sizeof(*left));
		if (p->twin) /* before that one */
			memmove(left + p->twin - 1, left + p->twin,
				(n-- - p->twin) * sizeof(*left));
		pairing_close(p);
		why = xstrdup(err->text);
		xarray_add(&gone.v, &gone.n, &gone.cap, &why, sizeof(why));
		*err = (struct kvmft_err){ .text = "" };
	}
	p->gone = gone;
	return ret;
}

int pairing_add_hosts(struct pairing *p, const struct str_list *hosts, const char *sel,
		      struct kvmft_err *err)
{
	ssize_t vm;
	int ret = 0;

	if (!hosts->n)
		return 0;
	if (!p->nguest && !sel)
		return err_usage(err,
				 "option --host: needs a guest, whose clock links the two hosts");
	for (size_t i = 1; i < p->nguest; i++)
		if (p->map->vm[p->guest[i].vm].of != p->guest[0].vm)
			return err_usage(
				err,
				"option --host: the TSC of one guest links both hosts: give the captures of "
				"%s and those of %s in separate runs",
				p->map->vm[p->guest[0].vm].label, p->map->vm[p->guest[i].vm].label);
	/* Whose TSC links the hosts: the guest's, or that of the VM that sel names. */
	if (p->nguest)
		vm = (ssize_t)p->guest[0].vm;
	else if (sel[0])
		vm = hostmap_find_vm(p->map, sel, err);
	else if (p->map->nvm == 1)
		vm = 0;
	else
		vm = err_usage(
			err, "option --host: which VM moved? Say it with --vm, or give its guest's "
			     "capture");
	if (vm < 0)
		return (int)vm;
	p->later = xcalloc(hosts->n, sizeof(*p->later));
	for (size_t i = 0; i < hosts->n && !ret; i++) {
		struct pairing_host *h = &p->later[p->nlater++];

		ret = evidence_open(hosts->v[i], &h->c.cap, &h->c.fmt, err);
		if (!ret && h->c.cap->side == CAP_SIDE_GUEST)
			ret = err_set(err, EINVAL, "%s is the capture of a guest, not of a host",
				      hosts->v[i]);
		if (!ret && !cap_in_tsc(h->c.cap))
			ret = err_set(
				err, ENOTSUP,
				"host capture %s: only trace clock x86-tsc can be linked to another "
				"host, not %s",
				hosts->v[i], h->c.cap->clock ?: "(not said)");
		ret = ret ?: hostmap_new(h->c.cap, h->c.fmt, &h->map, err);
		ret = ret ?: migrate_new(p->map, (size_t)vm, h->map, &h->link, err);
		if (!ret)
			tl_add_host(p->t, h->link);
	}
	return ret;
}

int pairing_open_alone(struct pairing *p, const char *path, struct kvmft_err *err)
{
	int ret;

	memset(p, 0, sizeof(*p));
	ret = evidence_open(path, &p->host.cap, &p->host.fmt, err);
	if (!ret)
		p->begin = p->host.cap->begin_tsc;
	ret = ret ?: host_map(p, false, err);
	if (!ret)
		open_alone(p, p->host.cap->side == CAP_SIDE_GUEST, false);
	with_damage(p->host.cap, ret, err);
	return ret;
}

void pairing_close(struct pairing *p)
{
	tl_free(p->t);
	hostmap_free(p->map);
	for (size_t i = 0; i < p->nlater; i++) {
		migrate_free(p->later[i].link);
		hostmap_free(p->later[i].map);
		close_one(&p->later[i].c);
	}
	free(p->later);
	for (size_t i = 0; i < p->nguest; i++) {
		close_one(&p->guest[i].c);
		free(p->guest[i].recorded);
		match_free(&p->guest[i].match);
	}
	free(p->guest);
	strings_free(p->gone.v, p->gone.n);
	close_one(&p->host);
}

int pairing_parse_map(const struct opt_u64 *offset, const char *ratio, struct tsc_map *map,
		      bool *given, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	uint64_t r, f;
	char *slash;

	memset(map, 0, sizeof(*map));
	*given = offset->set || ratio;
	map->offset = offset->set ? offset->v : 0;
	if (!ratio)
		return 0;
	text = xstrdup(ratio);
	slash = strchr(text, '/');
	if (slash)
		*slash = 0;
	if (!slash || parse_u64(text, &r) || parse_u64(slash + 1, &f) || f > 63)
		return err_usage(err, "option --tsc-ratio: '%s' is not RATIO/FRACTION_BITS", ratio);
	map->ratio = r;
	map->frac = (uint8_t)f;
	if (tsc_map_check(map))
		return err_usage(err, "option --tsc-ratio: %s is not a ratio that KVM uses", ratio);
	return 0;
}

#define NO_PLACE                                                                     \
	"%s: none of its events has a place%s: the recorded TSC offset is not "      \
	"the guest's, or it is of another time: record it with --clock x86-tsc, or " \
	"give --tsc-offset N"

/* Of a guest beside its host: where none of its events has a place; NULL: some have one. */
static const char *no_place(const struct timeline *t, const struct tl_source *s)
{
	bool apart = s->begin < UINT64_MAX && !s->windowed && !s->followed && !tl_by_stream(t);

	if (!s->guest || s->alone)
		return NULL;
	if (s->events && s->unplaced == s->events)
		return "";
	for (size_t k = 0; k < tl_sources(t) && apart; k++)
		apart = tl_source(t, k)->guest || tl_source(t, k)->qemu ||
			!tl_source_overlap(t, tl_source(t, k), s);
	return apart ? " in the time that the host recorded" : NULL;
}

/* Of whom another guest, which may lie about its clock, takes nothing. */
static bool any_placed(const struct timeline *t)
{
	for (size_t i = 0; i < tl_sources(t); i++) {
		const struct tl_source *s = tl_source(t, i);

		if (s->guest && s->events > s->unplaced && !no_place(t, s))
			return true;
	}
	return false;
}

bool pairing_summary(const struct pairing *p, bool quiet, note_fn *note)
{
	const struct timeline *t = p->t;
	const struct hostmap *map = tl_hostmap(t);
	const bool others = any_placed(t);
	bool complete = !p->gone.n;

	for (size_t i = 0; i < p->gone.n; i++)
		note("%s; the other guests are shown without this one", p->gone.v[i]);
	for (size_t i = 0; i < tl_sources(t); i++) {
		const struct tl_source *s = tl_source(t, i);
		const char *end, *no = others ? no_place(t, s) : NULL;
		const struct epoch_vm *e =
			s->guest && s->vm < map->nvm ? map->vm[s->vm].epochs : NULL;
		const bool full = e && e->announced > EPOCH_ANNOUNCED_MAX;
		struct tl_loss loss;

		if (no)
			note(NO_PLACE, s->label, no);
		complete &= !no && !full;
		tl_loss(s, &loss);
		complete &= tl_source_complete(s);
		if (quiet && complete)
			continue;
		end = s->no_end ? " (up to now: its recording has no end yet)"
		      : s->cap->complete || s->cap->ndamage ? ""
							    : " (recording was cut short)";
		if (loss.unknown && !loss.total)
			note("%s: %llu events, an unknown number lost%s", s->label,
			     (unsigned long long)s->events, end);
		else
			note("%s: %llu events, %llu lost%s%s%s", s->label,
			     (unsigned long long)s->events, (unsigned long long)loss.total,
			     loss.unknown ? " or more" : "",
			     tl_missing(s) ? ": the file counts them, but does not say where" : "",
			     end);
		if (s->error)
			note("%s: cannot be read further: %s", s->label, strerror(-s->error));
		if (full)
			note("%s: more kvmclock records than are kept: from there on none is known",
			     s->label);
		if (s->unplaced)
			note("%s: %llu stamps could not be placed and are marked with ?", s->label,
			     (unsigned long long)s->unplaced);
		if (s->damaged)
			note("%s: %llu damaged sub-buffers left out", s->label,
			     (unsigned long long)s->damaged);
		for (size_t k = 0; k < s->cap->ndamage; k++)
			if (tl_source_is_damage(s, &s->cap->damage[k]))
				note("%s: %s", s->label, s->cap->damage[k].text);
	}
	/* Captures of two boots follow each other. Of one time there may be two, but rarely. */
	for (size_t i = 1; i < tl_sources(t); i++) {
		const struct tl_source *b = tl_source(t, i), *a = NULL, *s;

		for (size_t k = 0; k < i && !a && b->guest; k++) {
			s = tl_source(t, k);
			if (s->guest && map->vm[s->vm].of == map->vm[b->vm].of &&
			    tl_source_overlap(t, s, b))
				a = s;
		}
		if (a)
			note("%s and %s say that they are the same VM at the same time (%s, %s): "
			     "unless two recordings ran in it, one is a copy or of another VM, "
			     "which %s=SEL names",
			     a->cap->path, b->cap->path, a->label, b->label, b->cap->path);
	}
	return complete;
}

int pairing_placed(const struct timeline *t, struct kvmft_err *err)
{
	const bool others = any_placed(t);

	for (size_t i = 0; i < tl_sources(t); i++) {
		const char *no = no_place(t, tl_source(t, i));

		if (no && !others)
			return err_lack(err, ENODATA, NO_PLACE, tl_source(t, i)->label, no);
	}
	return 0;
}

static void add_amount(struct sbuf *b, const char *sign, uint64_t cycles,
		       const struct capture *host)
{
	uint64_t ns = host->tsc_khz ? tsc_cycles_to_ns(cycles, host->tsc_khz) : 0;

	if (!host->unit_ns)
		sbuf_addf(b, "%s%" PRIu64 " cycles%s", sign, cycles, host->tsc_khz ? " (" : "");
	if (host->tsc_khz)
		sbuf_addf(b, "%s%" PRIu64 ".%03u us%s", sign, ns / 1000, (unsigned int)(ns % 1000),
			  host->unit_ns ? "" : ")");
}

void pairing_add_cycles(struct sbuf *b, int64_t cycles, const struct capture *host)
{
	if (cycles < 0)
		add_amount(b, "-", 0 - (uint64_t)cycles, host);
	else
		add_amount(b, "+", (uint64_t)cycles, host);
}

void pairing_add_magnitude(struct sbuf *b, uint64_t cycles, const struct capture *host)
{
	add_amount(b, "", cycles, host);
}

const char *pairing_offset_name(const struct capture *host)
{
	return host->mixed ? "clock offset" : host->unit_ns ? "clock offset in ns" : "TSC offset";
}

void pairing_add_ratio(struct sbuf *b, const struct tsc_map *m)
{
	if (m->ratio && m->ratio != 1ull << m->frac)
		sbuf_addf(b, ", TSC ratio %" PRIu64 "/%u", m->ratio, m->frac);
}

void pairing_alignment_text(const struct hostmap *map, const struct windows *w, int64_t vm,
			    struct sbuf *out)
{
	uint64_t uncertain = map->vm[vm >= 0 ? vm : 0].uncertain;
	struct win_stats s;

	win_total(w, vm, &s);
	if (s.outside && win_was_late(w)) {
		sbuf_add(out, "cannot tell: events of the host came late; `kvmft verify` of the whole captures "
			      "does");
		return;
	}
	if (!s.checked) {
		sbuf_addf(out,
			  "cannot tell: no guest event that was read lies between an entry "
			  "and an exit (%" PRIu64 " kvm_entry, %" PRIu64
			  " kvm_exit on the host in all)",
			  map->entries, map->exits);
		return;
	}
	sbuf_addf(out, "%" PRIu64 " guest events checked, %" PRIu64 " outside their vCPU's windows",
		  s.checked, s.outside);
	if (s.unchecked)
		sbuf_addf(out, ", %" PRIu64 " not checkable", s.unchecked);
	if (s.has_early && s.has_late) {
		sbuf_add(out, "; slack ");
		pairing_add_cycles(out, s.early < 0 ? (int64_t)(0 - (uint64_t)s.early) : -s.early,
				   map->cap);
		sbuf_add(out, " / ");
		pairing_add_cycles(out, s.late, map->cap);
	}
	if (uncertain) {
		sbuf_addf(out, "; the %s was found in the events: guest times may be off by ",
			  pairing_offset_name(map->cap));
		add_amount(out, "", uncertain, map->cap);
	}
	if (s.outside)
		sbuf_addf(out, ": MISALIGNED by up to %" PRId64 " %s", s.outside_max,
			  map->cap->unit_ns ? "ns" : "cycles");
}

/*
 * What was concluded because it was not recorded: which threads are a VM, which VM a guest's
 * capture belongs to, the offset by which its stamps were moved. It is reported, so that it can be
 * contradicted.
 */

static const char *const basis_texts[] = {
	[HOSTMAP_BY_WAKES] = ", one VM since they wake each other",
	[HOSTMAP_BY_IDS] = ", taken for one VM by their ids",
	[HOSTMAP_BY_GUEST] = ", the threads that fit its events",
};

static void add_offset(const struct hostmap *map, const struct solution *s, struct sbuf *b)
{
	if (!s->n_own) {
		sbuf_addf(b, "%s %" PRId64 " ", pairing_offset_name(map->cap),
			  (int64_t)s->r.offset);
		sbuf_add(b, "+-");
		pairing_add_magnitude(b, solution_bound(s), map->cap);
		sbuf_addf(b, ", found in %" PRIu64 " events", s->r.inside + s->r.outside);
		pairing_add_ratio(b, &s->map);
		return;
	}
	sbuf_addf(b, "%s found in the events:",
		  map->cap->unit_ns || map->cap->mixed ? "clock offsets" : "TSC offsets");
	for (size_t i = 0; i < s->n_own; i++) {
		const struct solution_vcpu *o = &s->own[i];

		sbuf_addf(b, "%s vCPU %" PRIu32 " %" PRId64, i ? "," : "", o->id,
			  (int64_t)o->r.offset);
	}
	sbuf_add(b, ", each +-");
	pairing_add_magnitude(b, solution_bound(s), map->cap);
	pairing_add_ratio(b, &s->map);
}

static void pairing_tell(const char *path, struct sbuf *b, note_fn *note)
{
	if (b->len || b->error)
		note("%s: %s", path, b->error ? "out of memory" : b->s);
	sbuf_reset(b);
}

void pairing_tell_match(const struct hostmap *map, const struct capture *guest,
			const struct match *m, note_fn *note)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (m->by == MATCH_ONLY_VM || m->by == MATCH_BY_EVENTS) {
		const struct hostmap_vm *vm = &map->vm[map->vm[m->vm].of];
		const char *basis =
			vm->basis < ARRAY_SIZE(basis_texts) ? basis_texts[vm->basis] : NULL;

		/* "pid:152 (tids:213,215, one VM since they wake each other)" */
		sbuf_add(&b, vm->label);
		if (vm->basis != HOSTMAP_RECORDED) {
			sbuf_add(&b, " (");
			hostmap_vm_tids(map, vm->of, &b);
			sbuf_addf(&b, "%s)", basis ?: "");
		}
	}
	if (m->by == MATCH_ONLY_VM)
		sbuf_add(&b, ": the only VM there");
	if (m->by == MATCH_BY_EVENTS)
		sbuf_addf(&b, ": all %" PRIu64 " events fit", m->checked);
	if (m->by == MATCH_BY_EVENTS && m->others)
		sbuf_addf(&b, "; in the next best VM %" PRIu64 " of %" PRIu64 " are outside",
			  m->others_outside, m->others);
	else if (m->by == MATCH_BY_EVENTS)
		sbuf_add(&b, ", and no other VM");
	pairing_tell(guest->path, &b, note);
	if (m->against && m->against_of)
		sbuf_addf(&b,
			  "the recorded %s is not the guest's: %" PRIu64 " of %" PRIu64
			  " events contradict it",
			  pairing_offset_name(map->cap), m->against, m->against_of);
	else if (m->against)
		sbuf_addf(&b,
			  "the recorded %s is not the guest's: with it no event is between an "
			  "entry and an exit",
			  pairing_offset_name(map->cap));
	pairing_tell(guest->path, &b, note);
	if (m->solved || m->sol.n_own)
		add_offset(map, &m->sol, &b);
	pairing_tell(guest->path, &b, note);
}

void pairing_tell_assumed(const struct pairing *p, note_fn *note)
{
	for (size_t i = 0; i < p->nguest; i++)
		pairing_tell_match(p->map, p->guest[i].c.cap, &p->guest[i].match, note);
}
