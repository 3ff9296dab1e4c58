/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trigger.c: --trigger exit-longer=DURATION, which the kernel itself watches for.
 *
 * kvm_exit keeps its stamp per thread in a hist trigger; kvm_entry takes the difference and raises
 * a synthetic event of our own; that has a traceoff trigger with the bound as its filter. All of it
 * is set in the recorder's own instance, so that the ring stops at this very entry. Halts are left
 * out, and what begins soon after the ring was written out.
 */
#include "record.h"
#include "kvmft/exit_names.h"

#include <inttypes.h>
#include <sys/utsname.h>

#define LONGER	    "exit-longer="
#define MAP_THREADS 4096u /* that run vCPUs while we look */
#define MAX_TIDS    100u  /* in a filter, which is a page at most */
#define HOLD_OFF    1000000000u /* ns, without --before */

static const char *const clocks_ns[] = { "local",    "global", "perf", "mono",
					 "mono_raw", "boot",   "tai" };

bool record_trigger_is_longer(const struct record *r)
{
	return r->c->trigger && str_starts(r->c->trigger, LONGER);
}

static int wrong(struct record *r)
{
	return err_usage(r->err,
			 "option --trigger: '%s' is not " LONGER
			 "DURATION[/FILTER/], such as " LONGER "5ms/vcpu_id == 0/",
			 r->c->trigger);
}

/* How long, in ns, and the filter between the slashes ("" = none), which is the caller's. */
static int longer_parse(struct record *r, uint64_t *ns, char **filter)
{
	const char *text = r->c->trigger + strlen(LONGER);
	const char *slash = strchr(text, '/');
	_cleanup_free_ char *duration = NULL;
	size_t len;

	*filter = NULL;
	duration = slash ? strndup(text, (size_t)(slash - text)) : strdup(text);
	if (!duration)
		return err_set(r->err, ENOMEM, "out of memory");
	if (parse_duration(duration, ns) || !*ns)
		return wrong(r);
	len = slash ? strlen(slash) : 0;
	if (slash && (len < 3 || slash[len - 1] != '/'))
		return wrong(r);
	*filter = slash ? strndup(slash + 1, len - 2) : strdup("");
	return *filter ? 0 : err_set(r->err, ENOMEM, "out of memory");
}

uint64_t record_ticks(const struct record *r, uint64_t ns)
{
	if (!strcmp(r->c->clock, "x86-tsc"))
		return (uint64_t)((unsigned __int128)ns * r->tsc.khz / 1000000);
	for (size_t i = 0; i < ARRAY_SIZE(clocks_ns); i++)
		if (!strcmp(r->c->clock, clocks_ns[i]))
			return ns;
	return 0;
}

int record_trigger_longer_check(struct record *r)
{
	char *filter;
	uint64_t ns;
	int ret = longer_parse(r, &ns, &filter);

	free(filter);
	if (ret)
		return ret;
	if (!(r->side & CAP_SIDE_HOST))
		return err_usage(r->err, "option --trigger " LONGER ": exits are seen only on the "
		                                                    "host");
	if (!record_ticks(r, ns))
		return err_usage(r->err,
				 "option --trigger " LONGER ": the rate of clock %s is not known",
				 r->c->clock);
	return kevent_kvm_check(r->t, r->err);
}

/* An idle vCPU halts for as long as nothing happens: not meant, unless the filter has the field. */
static void no_halts(const struct record *r, const char *filter, struct sbuf *b)
{
	struct utsname u;
	char field[32];
	uint32_t halt;

	if (uname(&u) || !exit_halt_field(u.machine, r->tsc.vendor, field, &halt))
		r->note("which exits are halts is not known here: an idle vCPU is a late one, too");
	else if (!strstr(filter, field))
		sbuf_addf(b, "%s%s != %" PRIu32, b->len ? " && " : "", field, halt);
}

/* " if ..." with the user's filter and the threads of --vm, --vcpu and -p; "" if there are none. */
static void condition(const struct record *r, const char *filter, struct sbuf *b)
{
	bool some = r->tids.n && r->tids.n <= MAX_TIDS;
	_cleanup_(sbuf_free) struct sbuf all = { 0 };

	for (size_t i = 0; some && i < r->tids.n; i++)
		sbuf_addf(&all, "%scommon_pid == %" PRId32, i ? " || " : "(", r->tids.v[i]);
	if (some)
		sbuf_add(&all, ")");
	no_halts(r, filter, &all);
	if (*filter)
		sbuf_addf(&all, "%s(%s)", all.len ? " && " : "", filter);
	if (all.len)
		sbuf_addf(b, " if %s", all.s);
	b->error = b->error ?: all.error;
}

static int set(struct record *r, const char *sys, const char *event, struct sbuf *text)
{
	int ret = text->error ? err_set(r->err, ENOMEM, "out of memory")
			      : kinst_trigger_add(r->k, sys, event, text->s, r->err);

	sbuf_reset(text);
	return ret;
}

/*
 * While the ring is off, events get the stamp last written to it, or 0: an exit would seem to have
 * lasted since then. So only those count that came after `since`.
 */
static int set_bound(struct record *r, uint64_t since)
{
	struct record_flight *f = &r->flight;

	snprintf(f->bound_text, sizeof(f->bound_text),
		 "traceoff if lat > %" PRIu64 " && " KSYNTH_LAT_SANE " && t0 > %" PRIu64, f->bound,
		 since);
	return kinst_trigger_add(r->k, "synthetic", f->synth, f->bound_text, r->err);
}

int record_trigger_longer_again(struct record *r)
{
	struct record_flight *f = &r->flight;
	struct kstats s;
	int ret = kinst_stats(r->k, r->drain[0].cpu, &s, NULL);

	if (ret)
		return err_why(r->err, ret, "cannot read the time of the ring");
	ret = kinst_trigger_remove(r->k, "synthetic", f->synth, f->bound_text, r->err);
	/* What comes at once would find no history: first the ring fills again. */
	return ret ?: set_bound(r, s.now + record_ticks(r, r->c->before.set ? r->c->before.v
									     : HOLD_OFF));
}

static int set_all(struct record *r, const char *filter, struct sbuf *b)
{
	const char *synth = r->flight.synth;
	int ret = set_bound(r, 0);

	sbuf_addf(b, "hist:keys=common_pid:ts0=common_timestamp:size=%u:clock=%s", MAP_THREADS,
		  r->c->clock);
	condition(r, filter, b);
	ret = ret ?: set(r, "kvm", "kvm_exit", b);
	sbuf_reset(b);
	sbuf_addf(b, "hist:keys=common_pid:lat=common_timestamp-$ts0,t0=$ts0:size=%u:clock=%s:"
		  "onmatch(kvm.kvm_exit).trace(%s,$lat,$t0)", MAP_THREADS, r->c->clock, synth);
	return ret ?: set(r, "kvm", "kvm_entry", b);
}

int record_trigger_longer_arm(struct record *r)
{
	_cleanup_free_ char *filter = NULL;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint64_t ns;
	int ret = longer_parse(r, &ns, &filter);

	if (ret)
		return ret;
	if (!kfeat_have(r->t, "hist-triggers"))
		return err_lack(r->err, ENOTSUP,
				"this kernel has no hist triggers (CONFIG_HIST_TRIGGERS), "
				"which --trigger " LONGER
				" needs: use --trigger EVENT/FILTER/");
	ret = ksynth_add(r->t, 0, "u64 lat; u64 t0", r->flight.synth, sizeof(r->flight.synth), r->err);
	if (ret)
		r->flight.synth[0] = '\0';
	r->flight.bound = record_ticks(r, ns);
	return ret ?: set_all(r, filter, &b);
}

void record_trigger_free(struct record *r)
{
	if (r->flight.synth[0] && ksynth_remove(r->t, r->flight.synth))
		r->note("cannot remove the synthetic event %s (kvmft reset removes it later)",
			 r->flight.synth);
	r->flight.synth[0] = '\0';
}
