/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verify.c: `kvmft verify HOST GUEST[=SEL]...`, the proof of an alignment: one walk over the time
 * line that merge would print, with all that can contradict it looking on.
 */
#include "captures.h"
#include "kvmft/pairing.h"
#include "options.h"
#include "cmds.h"
#include "sink.h"

struct verify_opts {
	struct sink_file file; /* first */
	struct pairing_clock clock;
	struct opt_u64 khz;
	int format, in;
	struct str_list host;
};

static const struct opt verify_options[] = {
	PAIRING_CLOCK_OPTIONS(struct verify_opts, clock),
	RATE_OPTION(struct verify_opts, khz),
	OPTION(0, "host", OPT_LIST, struct verify_opts, host, "HOST2",
	       "the host that the guest moved to; may be repeated, in that order"),
	OPTION_CHOICE(0, "clock", struct verify_opts, in, "CLOCK", out_clock_names,
		      "clock of the times (default: seconds since the host's first event)"),
	FORMAT_OPTION(struct verify_opts, cli_formats),
	PAGE_OPTIONS(struct verify_opts, file.page_opts),
	OPT_END,
};

static void note_span(struct verify *v, const struct tl_item *i)
{
	if (i->kind != TL_EVENT || i->unplaced)
		return;
	if (!i->src->guest) {
		v->host_first = v->host_first ?: i->host;
		v->host_last = i->host;
	}
	for (struct verify_guest *g = v->guest; g < v->guest + v->p.nguest; g++)
		if (g->src == i->src) {
			g->first = g->first ?: i->host;
			g->last = i->host;
		}
}

static int verify_open(struct verify *v, const struct verify_opts *o, int argc, char **argv,
		       struct kvmft_err *err)
{
	struct pairing_opts po = { .clock = &o->clock, .khz = &o->khz,
				   .undecided_ok = true,
				   .growing = o->host.n, /* another host may know more */
				   .related = when_related(o->in),
				   .need = PAIRING_CLOCKS };
	int ret = rate_check(&o->khz, err);

	if (ret)
		return ret;
	if (argc < 2 && access(argv[0], F_OK))
		return err_why(err, errno, "cannot open %s", argv[0]);
	if (argc < 2)
		return err_usage(err, "operands are missing: %s has no guest beside it: kvmft verify "
				      "HOST GUEST[=SEL]...",
				 argv[0]);
	if (o->host.n && (o->clock.tsc_offset.set || o->clock.tsc_ratio || o->clock.solve))
		return err_usage(err, "option --%s: each --host has its own offset",
				 o->clock.solve ? "solve" : "tsc-offset");
	ret = pairing_prepare(&v->p, argv[0], argv + 1, (size_t)argc - 1, &po, err);
	ret = ret ?: rate_of_pairing(&v->p, &o->khz, false, "times are in cycles", cli_note, err);
	ret = ret ?: pairing_add_hosts(&v->p, &o->host, NULL, err);
	ret = ret ?: tl_start(v->p.t, err);
	if (ret)
		return ret;
	v->khz = v->p.host.cap->tsc_khz;
	v->guest = xcalloc(v->p.nguest, sizeof(*v->guest));
	/* Guests follow the host in order. */
	for (size_t i = 0; v->p.t && i < v->p.nguest; i++) {
		v->guest[i].g = &v->p.guest[i];
		v->guest[i].src = tl_source(v->p.t, i + 1);
		v->guest[i].solved = v->p.guest[i].match.solved;
	}
	return 0;
}

static void verify_close(struct verify *v)
{
	for (size_t i = 0; v->guest && i < v->p.nguest; i++) {
		sbuf_free(&v->guest[i].reasons);
		solution_free(&v->guest[i].sol);
	}
	free(v->guest);
	win_free(v->w);
	msr_pairs_free(v->pairs);
	runs_free(v->runs);
	pairing_close(&v->p);
}

static void (*const verify_print[])(const struct verify *v, struct sbuf *b) = {
	[FORMAT_TEXT] = verify_text,
	[FORMAT_JSON] = verify_json,
	[FORMAT_CSV] = verify_csv,
};

static int verify_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct verify_opts *o = opts;
	_cleanup_(verify_close) struct verify v = {
		.width = o->file.page.width, .color = o->file.page.color,
	};
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	_cleanup_(when_free) struct when when = { .nlater = 0 };
	struct out_clock clock;
	int ret = verify_open(&v, o, argc, argv, err), code;

	if (!ret && o->in >= 0) {
		ret = when_clock(&when, &v.p, o->in, &clock, cli_note, err);
		v.clock = &clock;
	}

	if (!ret) {
		const struct tl_item *item;

		win_new(v.p.t, &v.w);
		msr_pairs_new(v.p.t, &v.pairs);
		while ((ret = tl_next(v.p.t, &item)) > 0) {
			note_span(&v, item);
			win_feed(v.w, item);
			msr_pairs_feed(v.pairs, item);
		}
		if (!ret) {
			win_finish(v.w);
			msr_pairs_finish(v.pairs);
		} else {
			err_why(err, ret, "cannot check %s", argv[0]);
		}
	}
	if (!ret) {
		v.complete = pairing_summary(v.p.t, true, cli_note);
		ret = verify_judge(&v, err);
	}
	if (!ret) {
		pairing_tell_assumed(&v.p, cli_note);
		verify_print[MAX(o->format, 0)](&v, &b);
		ret = sink_print(&b, o->file.page.f, err);
	}
	ret = ret ?: cli_flush(err);
	if (ret)
		return ret;
	/*
	 * The worst guest decides; an alignment that holds for an incomplete input is reported as
	 * such.
	 */
	code = v.complete ? KVMFT_OK : KVMFT_INCOMPLETE;
	for (size_t i = 0; i < v.p.nguest; i++) {
		if (v.guest[i].verdict == ALIGN_BAD)
			return KVMFT_FAILED;
		if (v.guest[i].verdict == ALIGN_UNKNOWN)
			code = KVMFT_LACKING;
	}
	return code;
}

const struct cmd cmd_verify = {
	.name = "verify",
	.summary = "proof that host and guest captures are aligned, and how exactly",
	.args = "HOST GUEST[=SEL]...",
	.description =
		"Checks each guest event against the entry..exit windows of its vCPU on the host, and\n"
		"accesses to MSRs that both sides traced against each other. Says how far the guest's\n"
		"clock could be off without contradiction, or that it is off and by how much.\n"
		"Exit status: 0 aligned, 3 aligned but the input is incomplete, 1 misaligned,\n"
		"4 these captures cannot tell.",
	.examples = "  kvmft verify host guest\n"
		    "  kvmft verify --tsc-offset -42051902088 host.dat guest.dat=4711",
	.opts = verify_options,
	.opts_size = sizeof(struct verify_opts),
	.sessions = captures_first,
	.run = verify_run,
	.reader = true,
	.output = sink_file_open,
	.release = sink_file_close,
	.min_args = 1,
	.max_args = -1,
};
