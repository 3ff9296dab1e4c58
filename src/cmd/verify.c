/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verify.c: `kvmft verify HOST GUEST[=SEL]...`, the proof of an alignment: one walk over the time
 * line that merge would print, with all that can contradict it looking on.
 */
#include "cmds.h"

struct verify_opts {
	struct sink_file file; /* first */
	struct view_opts v;
	int format;
};

static const struct opt verify_options[] = {
	VIEW_CLOCKS_OPTIONS(struct verify_opts),
	OPTION(0, "host", OPT_LIST, struct verify_opts, v.host, "HOST2",
	       "the host that the guest moved to; may be repeated, in that order"),
	OPTION_CHOICE(0, "clock", struct verify_opts, v.clock, "CLOCK", out_clock_names,
		      "clock of the times (default: seconds since the host's first event)"),
	FORMAT_OPTION(struct verify_opts, cli_formats),
	OPT_END,
};

static void note_span(void *verify, const struct tl_item *i)
{
	struct verify *v = verify;

	if (i->kind != TL_EVENT || i->unplaced)
		return;
	if (!i->src->guest) {
		v->host_first = v->host_first ?: i->host;
		v->host_last = i->host;
	}
	for (struct verify_guest *g = v->guest; g < v->guest + v->p->nguest; g++)
		if (g->src == i->src) {
			g->first = g->first ?: i->host;
			g->last = i->host;
		}
}

static int verify_open(struct verify *v, struct view *view, int argc, char **argv)
{
	const struct view_opts *o = view->o;
	struct kvmft_err *err = view->err;
	int ret;

	if (argc < 2 && access(argv[0], F_OK))
		return err_why(err, errno, "cannot open %s", argv[0]);
	if (argc < 2)
		return err_usage(err, "operands are missing: %s has no guest beside it: kvmft verify "
				      "HOST GUEST[=SEL]...",
				 argv[0]);
	if (o->host.n && (o->pair.tsc_offset.set || o->pair.tsc_ratio || o->pair.solve))
		return err_usage(err, "option --%s: each --host has its own offset",
				 o->pair.solve ? "solve" : "tsc-offset");
	ret = view_open(view, argv, (size_t)argc) ?: view_start(view);
	if (ret)
		return ret;
	v->p = view->p;
	v->w = view->w;
	v->clock = o->clock >= 0 ? &view->clock : NULL;
	v->khz = v->p->host.cap->tsc_khz;
	v->guest = xcalloc(v->p->nguest, sizeof(*v->guest));
	/* Guests follow the host in order. */
	for (size_t i = 0; i < v->p->nguest; i++) {
		v->guest[i].g = &v->p->guest[i];
		v->guest[i].src = tl_source(v->p->t, i + 1);
		v->guest[i].solved = v->p->guest[i].match.solved;
	}
	return 0;
}

static void verify_close(struct verify *v)
{
	for (size_t i = 0; v->guest && i < v->p->nguest; i++) {
		sbuf_free(&v->guest[i].reasons);
		solution_free(&v->guest[i].sol);
	}
	free(v->guest);
	msr_pairs_free(v->pairs);
	runs_free(v->runs);
}

static int verify_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct verify_opts *o = opts;
	_cleanup_(view_close) struct view view = {
		.o = &o->v, .err = err, .note = cli_note, .cycles = "times are in cycles",
		.need = { .need = PAIRING_CLOCKS, .undecided_ok = true,
			  .growing = o->v.host.n }, /* another host may know more */
	};
	_cleanup_(verify_close) struct verify v = {
		.width = o->file.page.width, .color = o->file.page.color,
	};
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = verify_open(&v, &view, argc, argv), code;

	if (!ret) {
		msr_pairs_new(v.p->t, &v.pairs);
		ret = view_walk(&view, TL_FEED(note_span, &v), TL_FEED(msr_pairs_feed, v.pairs));
		msr_pairs_finish(v.pairs);
		ret = err_why(err, ret, "cannot check %s", argv[0]);
	}
	if (!ret) {
		v.complete = pairing_summary(v.p, true, cli_note);
		ret = verify_judge(&v, err);
	}
	if (!ret) {
		pairing_tell_assumed(v.p, cli_remarks(o->v.quiet));
		verify_print(&v, cli_formats[MAX(o->format, 0)], &b);
		ret = sink_print(&b, o->file.page.f, err);
	}
	ret = ret ?: cli_flush(err);
	if (ret)
		return ret;
	/* The worst guest decides; that a part of the input is missing is reported, too. */
	code = v.complete ? KVMFT_OK : KVMFT_INCOMPLETE;
	for (size_t i = 0; i < v.p->nguest; i++) {
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
	PRINTS(struct verify_opts),
	.sessions = captures_first,
	.run = verify_run,
	.min_args = 1,
	.max_args = -1,
};
