/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rate.c: how fast the host's TSC runs, from the user or from the captures. */
#include "kvmft/pairing.h"
#include "kvmft/hostmap.h"

#define ULL(v) ((unsigned long long)(v))

void rate_given(struct capture *cap, const struct opt_u64 *khz)
{
	const struct tsc_rate r = {
		.source = TSC_RATE_GIVEN, .khz = khz->v, .min = khz->v, .max = khz->v
	};

	if (khz->set)
		tsc_rate_use(cap, &r);
}

void rate_like(struct capture *cap, const struct capture *other)
{
	char *text = other->tsc_khz_source ? xstrdup(other->tsc_khz_source) : NULL;

	free(cap->tsc_khz_source);
	cap->tsc_khz_source = text;
	cap->tsc_khz = other->tsc_khz;
	cap->tsc_khz_min = other->tsc_khz_min;
	cap->tsc_khz_max = other->tsc_khz_max;
	cap->has_tsc2nsec = other->has_tsc2nsec;
}

/* And tells how good it is; what the user or the capture says needs no message. */
static int rate_find(struct capture *cap, const struct fmt *fmt, const struct tsc_rate_guest *guest,
		     size_t n, bool quiet, const char *then, note_fn *note, struct kvmft_err *err)
{
	struct tsc_rate r;
	int ret = tsc_rate_find(cap, fmt, guest, n, &r);

	if (ret)
		return err_set(err, -ret, "cannot read %s: %s", cap->path, strerror(-ret));
	tsc_rate_use(cap, &r);
	if (!cap_in_tsc(cap))
		return 0;
	if (!r.source && then)
		note("%s does not say its TSC frequency, and its events do not show it: %s; " RATE_HINT,
		     cap->path, then);
	if (quiet || r.source == TSC_RATE_UNKNOWN || r.source == TSC_RATE_CAPTURE)
		return 0;
	if (r.min == r.max)
		note("%s: the TSC runs at %llu kHz, by %s", cap->path, ULL(r.khz),
		     cap->tsc_khz_source);
	else
		note("%s: the TSC runs at %llu kHz, by %s: %llu to %llu, so times are accurate to "
		     "%llu parts per million",
		     cap->path, ULL(r.khz), cap->tsc_khz_source, ULL(r.min), ULL(r.max),
		     ULL(tsc_rate_ppm(&r)));
	return 0;
}

static void tell_lacks(const struct capture *cap, note_fn *note)
{
	if (cap->lacks)
		note("%s: %s", cap->path, cap->lacks);
}

int rate_of_capture(struct capture *cap, const struct fmt *fmt, const struct opt_u64 *khz,
		    note_fn *note, struct kvmft_err *err)
{
	tell_lacks(cap, note);
	rate_given(cap, khz);
	return khz->set ? 0
			: rate_find(cap, fmt, NULL, 0, false, "times are in cycles", note, err);
}

int rate_of_pairing(struct pairing *p, const struct opt_u64 *khz, bool quiet, const char *then,
		    note_fn *note, struct kvmft_err *err)
{
	_cleanup_free_ struct tsc_rate_guest *guest = NULL;

	tell_lacks(p->host.cap, note);
	for (size_t i = 0; i < p->nguest; i++)
		tell_lacks(p->guest[i].c.cap, note);
	if (p->alone && !cap_in_tsc(p->host.cap)) {
		const char *clock = p->host.cap->clock ?: "local"; /* trace-cmd's default */

		p->host.cap->unit_ns = clock_trace_is_ns(clock);
		p->host.cap->tsc_khz = p->host.cap->unit_ns ? 1000000 : 0;
		if (then && !p->host.cap->unit_ns)
			note("%s: the trace clock %s is no time: what stands as cycles are its counts",
			     p->host.cap->path, clock);
		return 0;
	}
	if (p->host.cap->unit_ns)
		return 0;
	rate_given(p->host.cap, khz);
	if (khz->set)
		return 0;
	guest = xcalloc(p->nguest + 1, sizeof(*guest));
	for (size_t i = 0; i < p->nguest; i++) {
		const struct epoch_vcpu *v =
			epoch_vm_or_first(p->map->vm[p->guest[i].vm].epochs, -1);

		guest[i] = (struct tsc_rate_guest){ .cap = p->guest[i].c.cap,
						    .fmt = p->guest[i].c.fmt };
		if (!v || !v->n || !v->v[0].has_map || (v->notes & EPOCH_NOTE_RATIO_UNKNOWN))
			continue;
		guest[i].has_map = true;
		guest[i].map = v->v[0].map;
	}
	return rate_find(p->host.cap, p->host.fmt, guest, p->nguest, quiet, then, note, err);
}
