/* SPDX-License-Identifier: GPL-2.0-or-later */
/* trace.c: printing events live, from its configuration to its result. */
#include "trace.h"

#include <inttypes.h>

static int trace_prepare(struct trace *t)
{
	int ret = ktracefs_open(NULL, KTRACEFS_MOUNT, &t->t, t->err);

	if (ret)
		return ret;
	session_sweep(t->t, t->note);
	ret = trace_clock_choose(t);
	ret = ret ?: trace_setup_vms(t);
	ret = ret ?: trace_setup_events(t);
	if (!ret && t->time == TRACE_KVMCLOCK)
		ret = trace_kvmclock_prepare(t);
	ret = ret ?: trace_setup_tids(t);
	ret = ret ?: trace_setup_instance(t);
	if (!ret)
		ret = t->signal_fd = session_signals(t->err);
	ret = MIN(ret, 0);
	if (!ret && t->time == TRACE_KVMCLOCK)
		ret = trace_record_get(t);
	return ret;
}

static int trace_start(struct trace *t)
{
	int ret;

	t->begin_ns = util_now_ns();
	t->start = trace_clock_now(t);
	ret = kinst_tracing(t->k, true, t->err);
	ret = ret ?: kinst_events_enable(t->k, t->err);
	/* After kvm_write_tsc_offset is on, so that no change falls in between. */
	if (!ret && t->time == TRACE_KVMCLOCK)
		ret = trace_kvmclock_begin(t);
	return ret;
}

/* Lost events that no line shows, because nothing came after them. */
static uint64_t lost_by_counters(struct trace *t)
{
	uint64_t lost = 0;

	if (t->end == TRACE_COUNT || t->end == TRACE_READER_GONE)
		return 0;
	for (size_t i = 0; i < t->cpus.n; i++) {
		struct kstats s;

		if (kinst_stats(t->k, t->cpus.cpu[i], &s, NULL) == 0)
			lost += s.overrun + s.commit_overrun + s.dropped;
	}
	return lost;
}

static int trace_result(struct trace *t)
{
	const struct live_totals *n = live_totals(t->live);
	uint64_t lost = MAX(n->lost, lost_by_counters(t));
	/* At the end the kernel's counters show what a gap in the stream does not. */
	bool unknown = n->lost_unknown && t->end == TRACE_COUNT;

	if (t->end == TRACE_READER_GONE)
		return KVMFT_OK;
	if (n->late)
		t->note("%" PRIu64 " events came too late to be put in order", n->late);
	if (t->kvmclock.unknown)
		t->note("%" PRIu64 " times could not be converted and are shown as ?",
			 t->kvmclock.unknown);
	if (n->damaged)
		t->note("%" PRIu64 " sub-buffers could not be read", n->damaged);
	if (lost || unknown)
		t->note("%" PRIu64
			"%s events were lost: fewer events, a filter, or a larger -b help",
			lost, unknown ? " or more" : "");
	return lost || unknown || n->damaged ? KVMFT_INCOMPLETE : KVMFT_OK;
}

static void trace_undo(struct trace *t)
{
	struct kvmft_err err = { .text = "" };

	live_free(t->live);
	session_raw_close(t->raw, t->cpus.n);
	if (kinst_destroy(t->k, &err) && err.text[0])
		t->note("%s", err.text);
	trace_kvmclock_free(&t->kvmclock);
	trace_comms_free(&t->comms);
	fmt_free(t->fmt);
	vm_list_free(t->vms);
	kevent_list_free(&t->events);
	kcpus_free(&t->cpus);
	ktracefs_close(t->t);
	if (t->signal_fd >= 0)
		close(t->signal_fd);
	sbuf_free(&t->line);
	sbuf_free(&t->shown);
	free(t->tids);
}

int trace_run(const struct trace_config *c, note_fn *note, struct kvmft_err *err)
{
	struct trace t = { .c = c, .note = note, .err = err, .signal_fd = -1 };
	int ret = trace_prepare(&t);

	ret = ret ?: trace_start(&t);
	ret = ret ?: trace_loop(&t);
	ret = ret ?: trace_result(&t);
	trace_undo(&t);
	return ret;
}
