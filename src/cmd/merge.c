/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * merge.c: `kvmft merge HOST GUEST[=SEL]...`, one aligned time line and its proof.
 */
#include "captures.h"
#include "cmds.h"
#include "options.h"

#include <errno.h>
#include <string.h>

#include "kvmft/windows.h"
#include "merge_pick.h"
#include "merge_qemu.h"
#include "kvmft/rate.h"
#include "sink.h"
#include "window.h"

struct merge_opts {
	struct sink_file file; /* first */
	int clock;
	const char *format, *from, *to;
	struct pairing_clock pair;
	struct opt_u64 khz;
	bool quiet;
	struct merge_pick_opts pick;
	struct str_list host;
	struct str_list qemu;
	const char *trace_events;
};

static const struct opt merge_options[] = {
	OPTION_CHOICE(0, "clock", struct merge_opts, clock, "CLOCK", out_clock_names,
		      "clock of all rows (default: ns since the recording began)"),
	OPTION('o', "output", OPT_STR, struct merge_opts, file.path, "OUT",
	       "write the time line to this new file (default: standard output)"),
	OPTION(0, "format", OPT_STR, struct merge_opts, format, "FORMAT",
	       "text (default), json (an object per line), perfetto (ui.perfetto.dev),\n"
	       "html (a page to look at), or folded (stacks for flame graphs)"),
	OPTION(0, "host", OPT_LIST, struct merge_opts, host, "HOST2",
	       "the host that the guest moved to; may be repeated, in that order"),
	PAIRING_CLOCK_OPTIONS(struct merge_opts, pair),
	RATE_OPTION(struct merge_opts, khz),
	OPTION(0, "qemu", OPT_LIST, struct merge_opts, qemu, "FILE[:FORMAT[:VM]]",
	       "also the events of a trace that QEMU wrote: simple, log, syslog or ust;\n"
	       "may be repeated"),
	OPTION(0, "trace-events", OPT_STR, struct merge_opts, trace_events, "FILE",
	       "the trace-events-all of that QEMU, also for markers in HOST\n"
	       "(default: beside the QEMU that HOST names, or of /usr/share/qemu)"),
	OPTION(0, "from", OPT_STR, struct merge_opts, from, "T", WINDOW_HELP_FROM),
	OPTION(0, "to", OPT_STR, struct merge_opts, to, "T", WINDOW_HELP_TO),
	OPTION(0, "side", OPT_LIST, struct merge_opts, pick.side, "SIDE",
	       "only lines of host, guest (any), qemu, or a guest's name; may be repeated"),
	OPTION('v', "vcpu", OPT_LIST, struct merge_opts, pick.vcpu, "LIST",
	       "only events of these vCPUs and of the host threads that run them, e.g. 0,2-5"),
	OPTION('e', "event", OPT_EVENTS, struct merge_opts, pick.event, "EVENT",
	       "only these events: [SYSTEM:]NAME[/FILTER/], wildcards allowed; may be repeated"),
	OPTION(0, "grep", OPT_EVENTS, struct merge_opts, pick.grep, "EVENT",
	       "only matching events, and what stands around them; EVENT as for --event"),
	OPTION('C', "context", OPT_U64, struct merge_opts, pick.context, "N",
	       "with --grep: N lines before and after each match"),
	OPTION(0, "force", OPT_FLAG, struct merge_opts, file.force, NULL,
	       "replace an existing OUT"),
	PAGE_OPTIONS(struct merge_opts, file.page_opts),
	OPTION('q', "quiet", OPT_FLAG, struct merge_opts, quiet, NULL,
	       "no summary on standard error unless something is wrong"),
	OPT_END,
};

struct merge {
	const struct merge_opts *o;
	struct kvmft_err *err;
	struct pairing p;
	struct windows *w;
	struct sink s;
	struct merge_qemu q;
	struct pick *pick; /* NULL: everything is wanted */
};

static int merge_show(void *arg, const struct tl_item *item)
{
	struct merge *m = arg;

	return out_item(&m->s.out, item);
}

static int merge_item(struct merge *m, const struct tl_item *item)
{
	if (!m->pick)
		return merge_show(m, item);
	return pick_wants(m->pick, item) ? pick_feed(m->pick, item, merge_show, m) : 0;
}

static int merge_walk(struct merge *m)
{
	const struct tl_item *item;
	int ret;

	while ((ret = tl_next(m->p.t, &item)) > 0) {
		ret = m->p.nguest && !item->src->qemu ? win_feed(m->w, item) : 0;
		ret = ret ? ret : merge_item(m, item);
		if (ret)
			break;
	}
	win_finish(m->w);
	return ret;
}

static int merge_write(struct merge *m)
{
	const struct out_format *fmt = out_format_find(m->o->format ? m->o->format : "text");
	struct out_clock clock;
	uint64_t from, to;
	int ret;

	ret = sink_clock(&m->s, &m->p, m->o->clock, &clock, m->err);
	ret = ret ? ret : sink_check(fmt, &clock, m->o->file.path, m->err);
	ret = ret ? ret : window_parse(&clock, m->o->from, m->o->to, &from, &to, m->err);
	ret = ret ? ret : merge_pick_init(&m->o->pick, m->p.t, &m->pick, m->err);
	if (ret)
		return ret;
	tl_window(m->p.t, from, to);
	ret = tl_start(m->p.t, m->err);
	ret = ret ? ret : win_new(m->p.t, &m->w);
	ret = ret ? ret : outfile_check(m->o->file.out, NULL, m->p.t, m->o->trace_events, m->err);
	ret = ret ? ret : sink_open(&m->s, m->o->file.out, m->o->file.page.f, m->err);
	if (ret)
		return ret;
	ret = out_begin(&m->s.out, m->p.t, fmt, &clock, m->s.f);
	m->s.out.color = m->o->file.page.color;
	ret = ret ? ret : merge_walk(m);
	return sink_close(&m->s, true, ret, m->err);
}

/* ---- what the user must know about the result ---- */

/* -ENODATA with err: nothing was wanted. */
static int summary_pick(const struct merge *m)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	bool slip;

	if (!m->pick)
		return 0;
	for (size_t i = 0; pick_unmet(m->pick, i, &slip, &b); i++) {
		if (slip || !m->o->quiet)
			cli_note("%s", b.s ? b.s : "out of memory");
		sbuf_reset(&b);
	}
	if (m->o->pick.grep.n && !m->o->quiet)
		cli_note("%llu matches", (unsigned long long)pick_matches(m->pick));
	if (pick_dropped(m->pick))
		cli_note("%llu lines of context were left out: too large to be kept",
			 (unsigned long long)pick_dropped(m->pick));
	return pick_any(m->pick) ? 0 : err_set(m->err, ENODATA, "nothing matched");
}

/* What asks for a host's time line. */
static const char *needs_host(const struct merge_opts *o)
{
	const struct {
		const char *name;
		bool set;
	} option[] = {
		{ "from", o->from }, { "to", o->to }, { "event", o->pick.event.n },
		{ "grep", o->pick.grep.n }, { "side", o->pick.side.n }, { "vcpu", o->pick.vcpu.n },
		{ "context", o->pick.context.set }, { "host", o->host.n },
		{ "tsc-offset", o->pair.tsc_offset.set }, { "tsc-ratio", o->pair.tsc_ratio },
		{ "solve", o->pair.solve }, { "tsc-khz", o->khz.set },
	};

	for (size_t i = 0; i < ARRAY_SIZE(option); i++)
		if (option[i].set)
			return option[i].name;
	return NULL;
}

/* A trace of QEMU alone. */
static int merge_alone(struct merge *m)
{
	const struct merge_opts *o = m->o;
	bool json = o->format && !strcmp(o->format, "json"), complete = true;
	struct qemu_alone how = { .json = json };
	int ret;

	if (o->qemu.n && needs_host(o))
		return err_usage(m->err, "option --%s needs the capture of a host", needs_host(o));
	if (o->qemu.n != 1)
		return err_usage(m->err, "operands are missing: the capture of a host, or one "
					 "--qemu FILE alone");
	if ((o->format && !json && strcmp(o->format, "text")) ||
	    (o->clock >= 0 && o->clock != OUT_CLOCK_MONO && o->clock != OUT_CLOCK_REALTIME))
		return err_usage(m->err, "a trace of QEMU alone is text or json, and its times are "
					 "those of the file (--clock mono, realtime)");
	if (o->clock >= 0)
		how.clock = o->clock == OUT_CLOCK_MONO ? QTRACE_MONO : QTRACE_REALTIME;
	ret = sink_open(&m->s, o->file.out, o->file.page.f, m->err);
	how.f = m->s.f;
	ret = ret ? ret : merge_qemu_alone(&m->q, o->qemu.v[0], o->trace_events, &how, o->quiet,
					   &complete, m->err);
	ret = sink_close(&m->s, false, ret, m->err);
	ret = ret ? ret : outfile_commit(o->file.out, 0, NULL, m->err);
	sink_free(&m->s);
	merge_qemu_free(&m->q);
	return sink_exit(ret, complete);
}

static int merge_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	struct merge m = { .o = opts, .err = err };
	struct pairing_opts po = {
		.need = (m.o->format && strcmp(m.o->format, "text")) || m.o->pick.vcpu.n
				? PAIRING_VCPUS
				: PAIRING_LINES,
		.clock = &m.o->pair,
		.undecided_ok = m.o->host.n, /* another host may know more */
	};
	bool complete = true;
	uint64_t events = 0;
	int ret;

	if (m.o->format && !out_format_find(m.o->format))
		return err_usage(err, "option --format: there is no format '%s'", m.o->format);
	if (m.o->host.n && (m.o->pair.tsc_offset.set || m.o->pair.tsc_ratio || m.o->pair.solve))
		return err_usage(
			err,
			"options --tsc-offset, --tsc-ratio and --solve: each --host has its own");
	if (!argc)
		return merge_alone(&m);
	ret = rate_check(&m.o->khz, err);
	ret = ret ? ret : pairing_prepare(&m.p, argv[0], argv + 1, (size_t)argc - 1, &po, err);
	if (!ret)
		ret = rate_of_pairing(&m.p, &m.o->khz, m.o->quiet,
				      sink_cycles(m.o->format, m.o->clock), cli_note, err);
	ret = ret ? ret : pairing_add_hosts(&m.p, &m.o->host, err);
	ret = ret ? ret : merge_qemu_add(&m.q, &m.p, &m.o->qemu, m.o->trace_events, err);
	ret = ret ? ret : merge_write(&m);
	if (!ret) {
		if (!m.o->quiet)
			pairing_tell_assumed(&m.p, cli_note);
		complete = pairing_summary(m.p.t, m.o->quiet, cli_note);
		complete = merge_qemu_summary(&m.q, m.p.t, m.o->quiet) && complete;
		for (size_t i = 0; i < tl_sources(m.p.t); i++) {
			if (tl_source(m.p.t, i)->guest)
				sink_tell_alignment(&m.p, m.w, tl_source(m.p.t, i)->vm,
						    tl_source(m.p.t, i)->label, m.o->quiet);
			events += tl_source(m.p.t, i)->events;
		}
		if (!events)
			ret = err_set(err, ENODATA, "the captures hold no events%s",
				      m.o->from || m.o->to ? " in that time" : "");
		ret = ret ? ret : summary_pick(&m);
	}
	ret = ret ? ret : outfile_commit(m.o->file.out, 0, NULL, err);
	win_free(m.w);
	pick_free(m.pick);
	sink_free(&m.s);
	pairing_close(&m.p);
	merge_qemu_free(&m.q);
	return sink_exit(ret, complete);
}

const struct cmd cmd_merge = {
	.name = "merge",
	.summary = "one aligned time line from a host capture and guest captures",
	.args = "[HOST [GUEST[=SEL]]...]",
	.description =
		"HOST and GUEST are captures of `kvmft record`, trace.dat or perf.data files. A guest is\n"
		"paired with its VM by UUID; GUEST=SEL names the VM (UUID, name, PID or PID-FD) when\n"
		"that is not possible. The last lines on standard error tell how well the clocks align.",
	.examples = "  kvmft merge host guest\n"
		    "  kvmft merge --qemu qemu.trace            # a trace of QEMU alone\n"
		    "  kvmft merge --clock kvmclock host guest=vm1 > timeline.txt\n"
		    "  kvmft merge --grep 'kvm_msr/ecx==0x11/' -C 5 host guest",
	.opts = merge_options,
	.opts_size = sizeof(struct merge_opts),
	.sessions = captures_first,
	.run = merge_run,
	.reader = true,
	.output = sink_file_open,
	.release = sink_file_close,
	.max_args = -1,
};
