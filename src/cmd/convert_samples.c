/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * convert_samples.c: the clocks that a capture sampled together with the TSC, as edges of the clock
 * graph.
 */
#include "convert_ctx.h"

static const struct sampled {
	enum cap_clock clock;
	enum clock_id host, guest;
	enum clock_edge host_edge, guest_edge;
	/* where constants are known they are exact, and a way through them longer */
	bool last_resort;
} sampled[] = {
	{ CAP_CLOCK_MONO_RAW, CLK_HOST_MONO_RAW, CLK_GUEST_MONO_RAW, CLOCK_EDGE_HOST_RAW_PIECES,
	  CLOCK_EDGE_GUEST_RAW_PIECES, false },
	{ CAP_CLOCK_MONO, CLK_HOST_MONO, CLK_GUEST_MONO, CLOCK_EDGE_HOST_MONO,
	  CLOCK_EDGE_GUEST_MONO, false },
	{ CAP_CLOCK_BOOT, CLK_HOST_BOOT, CLK_GUEST_BOOT, CLOCK_EDGE_HOST_BOOT,
	  CLOCK_EDGE_GUEST_BOOT, false },
	{ CAP_CLOCK_REALTIME, CLK_HOST_REALTIME, CLK_GUEST_REALTIME, CLOCK_EDGE_HOST_REALTIME,
	  CLOCK_EDGE_GUEST_REALTIME, false },
	{ CAP_CLOCK_LOCAL, CLK_HOST_LOCAL, CLK_GUEST_LOCAL, CLOCK_EDGE_HOST_LOCAL_PIECES,
	  CLOCK_EDGE_GUEST_LOCAL_PIECES, true },
	{ CAP_CLOCK_GLOBAL, CLK_HOST_GLOBAL, CLK_GUEST_GLOBAL, CLOCK_EDGE_HOST_GLOBAL_PIECES,
	  CLOCK_EDGE_GUEST_GLOBAL_PIECES, true },
	{ CAP_CLOCK_PERF, CLK_HOST_PERF, CLK_GUEST_PERF, CLOCK_EDGE_HOST_PERF_PIECES,
	  CLOCK_EDGE_GUEST_PERF_PIECES, true },
};

static int add_clock(struct convert_ctx *c, const struct capture *cap, const struct sampled *s,
		     bool guest, struct kvmft_err *err)
{
	enum clock_id id = guest ? s->guest : s->host;
	int ret = cap_pieces_init(&c->sample[id], cap, s->clock);

	if (ret == -ENODATA)
		return 0; /* the missing edge says so */
	if (ret == -ENOTSUP)
		return err_lack(err, ENODATA,
				"%s does not say its TSC frequency: give --tsc-khz", cap->path);
	if (ret == -ENOMEM)
		return err_set(err, ENOMEM, "out of memory");
	c->clock.pieces[id] = c->sample[id].pieces;
	if (ret || clock_ctx_set(&c->clock, guest ? s->guest_edge : s->host_edge))
		return err_set(err, EINVAL, "%s: its samples of %s contradict each other",
			       cap->path, clock_name(id));
	return 0;
}

static bool by_graph(const void *clock, uint64_t tsc, uint64_t *lo, uint64_t *hi)
{
	return !clock_convert(clock, CLK_GUEST_TSC, CLK_KVMCLOCK, tsc, lo, hi, NULL);
}

void convert_raw_add(struct convert_ctx *c, const struct capture *cap, bool guest)
{
	struct mono_raw *raw = guest ? &c->clock.guest_raw : &c->clock.host_raw;
	enum clock_edge edge = CLOCK_EDGE_HOST_RAW;

	if (guest)
		edge = cap->raw.over_kvmclock ? CLOCK_EDGE_GUEST_RAW_KVM : CLOCK_EDGE_GUEST_RAW;
	if (cap_raw_line(cap, guest ? by_graph : NULL, &c->clock, raw))
		(void)clock_ctx_set(&c->clock, edge); /* the samples are used if this fails */
}

int convert_samples_add(struct convert_ctx *c, const struct capture *cap, bool guest,
			bool last_resort, struct kvmft_err *err)
{
	int ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sampled) && !ret; i++)
		if (sampled[i].last_resort == last_resort &&
		    convert_wants(c, guest ? sampled[i].guest : sampled[i].host))
			ret = add_clock(c, cap, &sampled[i], guest, err);
	return ret;
}
