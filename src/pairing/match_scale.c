/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * match_scale.c: the ratio of a guest's TSC to the host's, if the host did not record it.
 *
 * KVM scales the TSC of a guest that was promised another frequency than the host's
 * (arch/x86/kvm/x86.c, set_tsc_khz()), by guest kHz / host kHz, both whole numbers. So two files
 * with exact kHz give the ratio as well. KVM tolerates a difference of up to 250 parts per million
 * (the default of tsc_tolerance_ppm).
 */
#include "match.h"
#include "kvmft/exit_names.h"
#include "kvmft/tsc_rate.h"
#include "kvmft/util.h"

#define TOLERANCE_PPM 250

struct tsc_map match_scale(const struct matcher *m, size_t vm)
{
	const struct tsc_map *map = m->scale ?: epoch_vm_first_map(m->map->vm[vm].epochs);

	return map ? *map : (struct tsc_map){ 0 };
}

/* To a kHz or so, and not taken from a guest. */
static bool is_exact(const struct tsc_rate *r)
{
	return r->source && !r->supposed && r->max - r->min <= 2;
}

/* What the guest says itself; else what KVM told it, which the host may have seen. */
static int guest_rate(const struct matcher *m, const struct capture *guest, struct tsc_rate *r)
{
	for (size_t i = 0; i < guest->npvclock; i++)
		if (tsc_rate_of_pvclock(guest->pvclock[i].pv.mul, guest->pvclock[i].pv.shift, r))
			return 0;
	tsc_rate_said(guest, r);
	if (is_exact(r) || m->map->nvm > 1) /* it is not known whose record that would be */
		return 0;
	return tsc_rate_scan(m->map->cap, m->map->fmt, r);
}

static bool is_scaled(uint64_t guest, uint64_t host)
{
	uint64_t apart = guest > host ? guest - host : host - guest;

	return (unsigned __int128)apart * 1000000 > (unsigned __int128)host * TOLERANCE_PPM;
}

static struct tsc_map scale_of(const struct capture *host, uint64_t guest_khz)
{
	struct tsc_map map = { .frac = exit_tsc_frac(exit_isa_of_vendor(host->vendor)) };

	map.ratio = (uint64_t)(((unsigned __int128)guest_khz << map.frac) / host->tsc_khz);
	return map;
}

int match_scales(const struct matcher *m, size_t vm, const struct capture *guest,
		 struct tsc_map map[MATCH_SCALES], size_t *n)
{
	static const int rounding[MATCH_SCALES - 1] = { 0, 1, -1 }; /* of the guest's kHz */
	const struct capture *host = m->map->cap;
	struct tsc_rate of_host, of_guest = { 0 };
	int ret;

	*n = 0;
	map[0] = match_scale(m, vm);
	tsc_rate_said(host, &of_host);
	if (!m->scale && !map[0].ratio && host->tsc_khz && is_exact(&of_host)) {
		ret = guest_rate(m, guest, &of_guest);
		if (ret)
			return ret;
	}
	if (is_exact(&of_guest) && is_scaled(of_guest.khz, of_host.khz))
		for (size_t i = 0; i < ARRAY_SIZE(rounding); i++)
			map[(*n)++] = scale_of(host, of_guest.khz + (uint64_t)rounding[i]);
	map[(*n)++] = match_scale(m, vm);
	return 0;
}
