/* SPDX-License-Identifier: GPL-2.0-or-later */
/* clock.c: host TSC in the clock that the user wants to see. */
#include "kvmft/output.h"

#include "kvmft/json.h"

const char *const out_clock_names[] = {
	[OUT_CLOCK_HOST_TSC] = "host-tsc",
	[OUT_CLOCK_GUEST_TSC] = "guest-tsc",
	[OUT_CLOCK_KVMCLOCK] = "kvmclock",
	[OUT_CLOCK_NS] = "ns",
	[OUT_CLOCK_MONO_RAW] = "mono_raw",
	[OUT_CLOCK_MONO] = "mono",
	[OUT_CLOCK_BOOT] = "boot",
	[OUT_CLOCK_REALTIME] = "realtime",
	NULL,
};

const char *out_clock_unit(const struct out_clock *c)
{
	return c->kind == OUT_CLOCK_HOST_TSC || c->kind == OUT_CLOCK_GUEST_TSC ? "cycles" : "ns";
}

static void rate_member(struct json *j, const char *key, uint64_t khz)
{
	json_put_known_u64(j, key, khz, khz);
}

void out_json_rate(struct json *j, const struct capture *host)
{
	uint64_t khz = host->unit_ns ? 0 : host->tsc_khz;

	rate_member(j, "tsc_khz", khz);
	json_put_str(j, "tsc_khz_source", khz ? host->tsc_khz_source : NULL);
	if (host->grain)
		json_put_u64(j, "resolution_ns", host->grain);
	rate_member(j, "tsc_khz_min", host->tsc_khz_max ? host->tsc_khz_min : khz);
	rate_member(j, "tsc_khz_max", host->tsc_khz_max ?: khz);
}

bool out_rate_remark(const struct capture *host, const char *cycles, struct sbuf *b)
{
	if (cycles)
		sbuf_addf(b, "%s: the TSC frequency is not known (give it with --tsc-khz)", cycles);
	else if (host->tsc_khz_max > host->tsc_khz_min)
		sbuf_addf(b,
			  "times are by a TSC of %" PRIu64 " kHz, known by %s to be %" PRIu64
			  " to %" PRIu64,
			  host->tsc_khz, host->tsc_khz_source, host->tsc_khz_min,
			  host->tsc_khz_max);
	return cycles || host->tsc_khz_max > host->tsc_khz_min;
}

bool out_clock_remark(const struct out_clock *c, struct sbuf *b)
{
	const char *cycles =
		c->kind == OUT_CLOCK_NS ? "1 ns IS 1 CYCLE here" : "times are in CYCLES";

	return out_rate_remark(c->map->cap, c->no_rate ? cycles : NULL, b);
}

/* The middle of the range that the readings allow; none if the clock was set in between. */
static bool piece_middle(const struct clock_pieces *p, uint64_t own, uint64_t *v)
{
	uint64_t lo, hi;

	if ((p->stepped && clock_pieces_was_set(p, own)) ||
	    clock_pieces_to_ns(p, own, &lo, &hi) < 0)
		return false;
	*v = lo + (hi - lo) / 2;
	return true;
}

static const struct epoch_vcpu *clock_epochs_of(const struct out_clock *c, int64_t vcpu)
{
	return epoch_vm_or_first(c->map->vm[c->vm].epochs, vcpu);
}

/* A TSC above half of its range is one below 0: it takes a century to get there. */
static bool guest_tsc(const struct out_clock *c, uint64_t host, int64_t vcpu, uint64_t *v)
{
	return epoch_result_usable(epoch_host_to_guest(clock_epochs_of(c, vcpu), host, v));
}

bool out_clock_before_vm(const struct out_clock *c, uint64_t host, int64_t vcpu)
{
	uint64_t v;

	return (c->kind == OUT_CLOCK_GUEST_TSC || c->kind == OUT_CLOCK_KVMCLOCK) &&
	       guest_tsc(c, host, vcpu, &v) && (int64_t)v < 0;
}

bool out_clock_value(const struct out_clock *c, uint64_t host, int64_t vcpu, uint64_t *v)
{
	switch (c->kind) {
	case OUT_CLOCK_HOST_TSC: *v = host; return true;
	case OUT_CLOCK_NS:
		*v = c->line.mult ? cyc2ns_to_ns(&c->line, host)
				  : tsc_cycles_to_ns(host - c->base, c->khz);
		return true;
	case OUT_CLOCK_GUEST_TSC: return guest_tsc(c, host, vcpu, v) && (int64_t)*v >= 0;
	case OUT_CLOCK_KVMCLOCK:
		return epoch_result_usable(
			epoch_host_to_kvmclock(clock_epochs_of(c, vcpu), host, v));
	case OUT_CLOCK_MONO_RAW:
	case OUT_CLOCK_MONO:
	case OUT_CLOCK_BOOT:
	case OUT_CLOCK_REALTIME:
		/* By the readings of the host on which the VM was then. */
		for (size_t i = c->nlater; i-- > 0;)
			if (host >= c->later[i].link->from)
				return migrate_from_line(c->later[i].link, host, &host) &&
				       piece_middle(c->later[i].pieces, host, v);
		return c->pieces && piece_middle(c->pieces, host, v);
	}
	return false;
}

bool out_clock_put(const struct out_clock *c, uint64_t host, int64_t vcpu, int digits,
		   struct sbuf *b)
{
	char date[32];
	struct tm tm;
	uint64_t at;
	time_t sec;

	if (!out_clock_value(c, host, vcpu, &at))
		return false;
	sec = (time_t)(at / 1000000000);
	if (c->kind == OUT_CLOCK_REALTIME && localtime_r(&sec, &tm) &&
	    strftime(date, sizeof(date), "%F %T", &tm))
		sbuf_add(b, date);
	else
		sbuf_add_u64(b, strcmp(out_clock_unit(c), "ns") ? at : at / 1000000000);
	if (!strcmp(out_clock_unit(c), "ns"))
		sbuf_addf(b, ".%0*" PRIu64, digits, at % 1000000000 / (digits == 6 ? 1000 : 1));
	return true;
}

/* Of the cycles at which the clock can have shown v, the first at which it is shown. */
static bool first_shown(const struct clock_pieces *p, uint64_t v, uint64_t *own)
{
	uint64_t last, at, shown;

	if (clock_pieces_to_tsc(p, v, own, &last) < 0)
		return false;
	last += last != UINT64_MAX; /* by then it is more than v */
	while (*own < last) {
		at = *own + (last - *own) / 2;
		if (piece_middle(p, at, &shown) && shown < v)
			*own = at + 1;
		else
			last = at;
	}
	return true;
}

bool out_clock_host(const struct out_clock *c, uint64_t v, uint64_t *host)
{
	uint64_t last;

	switch (c->kind) {
	case OUT_CLOCK_HOST_TSC: *host = v; return true;
	case OUT_CLOCK_NS: {
		unsigned __int128 cycles = ((unsigned __int128)v * c->khz + 999999) / 1000000;
		int64_t past = (int64_t)(v - c->line.offset);

		/* The first cycle at which that many ns have passed. */
		if (c->line.mult)
			cycles = (((unsigned __int128)MAX(past, 0) << c->line.shift) +
				  c->line.mult - 1) /
				 c->line.mult;
		*host = c->base + (uint64_t)cycles;
		return cycles <= UINT64_MAX - c->base;
	}
	case OUT_CLOCK_GUEST_TSC:
		return epoch_result_usable(
			epoch_guest_to_host(clock_epochs_of(c, -1), v, host, &last));
	case OUT_CLOCK_KVMCLOCK:
		return epoch_result_usable(
			epoch_kvmclock_to_host(clock_epochs_of(c, -1), v, host, &last));
	case OUT_CLOCK_MONO_RAW:
	case OUT_CLOCK_MONO:
	case OUT_CLOCK_BOOT:
	case OUT_CLOCK_REALTIME: {
		uint64_t own;

		/* The last host that the VM had reached by then, in that host's clock. */
		for (size_t i = c->nlater; i-- > 0;)
			if (first_shown(c->later[i].pieces, v, &own) &&
			    own >= c->later[i].link->arrival)
				return migrate_to_line(c->later[i].link, own, host);
		return first_shown(c->pieces, v, host);
	}
	}
	return false;
}
