/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * convert_samples.c: the clocks that a capture sampled beside the TSC, as edges of the clock graph.
 */
#include "convert_ctx.h"

#include <errno.h>

static const struct sampled {
	enum cap_clock clock;
	enum clock_id host, guest;
	enum clock_edge host_edge, guest_edge;
} sampled[] = {
	{ CAP_CLOCK_MONO_RAW, CLK_HOST_MONO_RAW, CLK_GUEST_MONO_RAW, CLOCK_EDGE_HOST_RAW_PIECES,
	  CLOCK_EDGE_GUEST_RAW_PIECES },
	{ CAP_CLOCK_MONO, CLK_HOST_MONO, CLK_GUEST_MONO, CLOCK_EDGE_HOST_MONO,
	  CLOCK_EDGE_GUEST_MONO },
	{ CAP_CLOCK_BOOT, CLK_HOST_BOOT, CLK_GUEST_BOOT, CLOCK_EDGE_HOST_BOOT,
	  CLOCK_EDGE_GUEST_BOOT },
	{ CAP_CLOCK_REALTIME, CLK_HOST_REALTIME, CLK_GUEST_REALTIME, CLOCK_EDGE_HOST_REALTIME,
	  CLOCK_EDGE_GUEST_REALTIME },
};

static int add_clock(struct convert_ctx *c, const struct capture *cap, const struct sampled *s,
		     bool guest, struct kvmft_err *err)
{
	enum clock_id id = guest ? s->guest : s->host;
	int ret = cap_pieces_init(&c->sample[id], cap, s->clock,
				  c->p->tsc_khz.set ? c->p->tsc_khz.v : 0);

	if (ret == -ENODATA)
		return 0; /* the missing edge tells */
	if (ret == -ENOTSUP)
		return err_set(err, ENODATA, "%s does not say how fast its TSC runs: give --tsc-khz",
			       cap->path);
	if (ret == -ENOMEM)
		return err_set(err, ENOMEM, "out of memory");
	c->clock.pieces[id] = c->sample[id].pieces;
	if (ret || clock_ctx_set(&c->clock, guest ? s->guest_edge : s->host_edge))
		return err_set(err, EINVAL, "%s: its samples of %s contradict each other", cap->path,
			       clock_name(id));
	return 0;
}

int convert_samples_add(struct convert_ctx *c, const struct capture *cap, bool guest,
			struct kvmft_err *err)
{
	int ret = 0;

	if (cap->nbracket < 2)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(sampled) && !ret; i++)
		if (convert_wants(c, guest ? sampled[i].guest : sampled[i].host))
			ret = add_clock(c, cap, &sampled[i], guest, err);
	return ret;
}
