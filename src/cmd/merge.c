/* SPDX-License-Identifier: GPL-2.0-or-later */
/* merge.c: `kvmft merge HOST GUEST[=SEL]...`, one aligned timeline and its proof. */
#include "kvmft/results.h"
#include "captures.h"
#include "cmds.h"
#include "options.h"
#include "kvmft/pairing.h"
#include "kvmft/proof.h"
#include "sink.h"
#include "kvmft/timeline.h"
#include "many_print.h"
#include "kvmft/output.h"

/* The options that select a part of the timeline. */
struct merge_pick_opts {
	struct str_list event, grep, side, vcpu;
	struct opt_u64 context;
};

/* ---- --event, --grep, --context, --side, --vcpu ---- */

/* "3", "0,2" or "4-7": adds them. */
static int pick_add_vcpus(struct pick *p, const char *list)
{
	_cleanup_free_ char *copy = xstrdup(list);
	char *save = NULL, *word, *dash;
	uint64_t from, to;

	for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		dash = strchr(word, '-');
		if (dash)
			*dash++ = 0;
		if (parse_u64(word, &from) || parse_u64(dash ?: word, &to) || to < from ||
		    to >= 1u << 16)
			return -EINVAL;
		for (; from <= to; from++)
			pick_add_vcpu(p, (uint32_t)from);
	}
	return 0;
}

/* A side that does not exist would silently show nothing. */
static int add_side(struct pick *p, const struct timeline *t, const char *side, bool gone,
		    struct kvmft_err *err)
{
	bool known =
		gone || !strcmp(side, "host") || !strcmp(side, "guest") || !strcmp(side, "qemu");

	for (size_t i = 0; i < tl_sources(t); i++)
		known |= pick_side_is(t, tl_source(t, i), side);
	if (!known)
		return err_usage(
			err,
			"option --side: '%s' is neither host nor guest nor qemu nor the name "
			"of a guest here",
			side);
	pick_add_side(p, side);
	return 0;
}

static int usage(struct kvmft_err *err, const char *option, int ret)
{
	if (ret == -EINVAL)
		return err_usage(err, "option %s: %s", option, err->text);
	return ret;
}

/* ---- spikes for a trace, from the process that finds them to the one that writes ---- */

#define SPIKES 200u

/* Each is followed by its parts. The number of spikes, or -errno. */
static ssize_t unpack(struct sbuf *rows, struct blame_spike *v)
{
	size_t n = 0, size;

	for (char *p = rows->s, *end = p + rows->len; p < end; n++, p += size) {
		struct blame_spike *s = &v[n];
		bool sane;

		if ((size_t)(end - p) < sizeof(*s))
			return -EINVAL;
		memcpy(s, p, sizeof(*s));
		p += sizeof(*s);
		size = s->nparts * sizeof(*s->part);
		if (s->nparts > BLAME_PARTS + 1 || (size_t)(end - p) < size)
			return -EINVAL;
		s->part = (struct blame_part *)p;
		/*
		 * Checks what came from a process that read untrusted captures: indices and texts.
		 */
		sane = s->what < BLAME_WHATS && s->cause < BLAME_CAUSES;
		s->of[sizeof(s->of) - 1] = '\0';
		for (size_t i = 0; sane && i < s->nparts; i++) {
			s->part[i].name[sizeof(s->part[i].name) - 1] = '\0';
			sane = s->part[i].cause < BLAME_CAUSES;
		}
		if (!sane)
			return -EINVAL;
	}
	return (ssize_t)n;
}

static int merge_spikes_put(struct many *m, struct out *o, const struct pairing *p,
			    const struct windows *w, struct kvmft_err *err)
{
	_cleanup_(many_result_free) struct many_result r = { 0 };
	int ret = many_result(m, 0, &r);
	_cleanup_free_ struct blame_spike *s = NULL;
	ssize_t n;

	if (ret)
		return err_why(err, ret, "cannot take over the spikes");
	if (r.code < 0)
		return err_set(err, -r.code, "finding spikes: %s", r.why);
	s = xcalloc(r.rows.len / sizeof(*s) + 1, sizeof(*s));
	n = unpack(&r.rows, s);
	if (n < 0)
		return err_set(err, EINVAL, "what the process that looks for spikes found is damaged");
	if (w)
		blaming_judge(p, w, s, (size_t)n);
	out_perfetto_spikes(o, s, (size_t)n);
	return 0;
}

struct merge_opts {
	struct sink_file file; /* first */
	int clock, of;
	bool longer;
	const char *format, *from, *to;
	struct pairing_clock pair;
	struct guest_syms_opts syms;
	struct opt_u64 khz;
	bool quiet, follow;
	const char *naming;
	struct opt_u64 delay, count;
	struct merge_pick_opts pick;
	struct str_list host;
	struct str_list qemu;
	const char *trace_events;
	struct operands operands; /* for the process that finds spikes */
	struct str_list host_only;
	struct many *spikes; /* NULL: none are wanted */
};

#define DEFAULT_DELAY_NS 500000000ull
#define MAX_DELAY_NS	 60000000000ull
#define MAX_TRIES	 5u
#define FIRST_NS	 3000000000ull

static const char *const fold_names[] = { "stacks", "exits", "exit-time", NULL };

static const struct opt merge_options[] = {
	OPTION_CHOICE(0, "clock", struct merge_opts, clock, "CLOCK", out_clock_names,
		      "clock of all rows (default: ns since the recording began)"),
	OPTION('o', "output", OPT_STR, struct merge_opts, file.path, "OUT",
	       "write the timeline to this new file (default: standard output)"),
	OPTION_NAMED(0, "format", OPT_WORD, struct merge_opts, format, "FORMAT", out_format_name,
		     "how to write it (default: as OUT ends, .html, else text); json: an object per\n"
		     "line; perfetto: for ui.perfetto.dev (.pftrace); html: a page to look at;\n"
		     "folded: stacks for flame graphs"),
	OPTION_CHOICE(0, "of", struct merge_opts, of, "WHAT", fold_names,
		      "folded: recorded stacks (default); exits: function of the guest, reason, and stack\n"
		      "of the host where that was recorded, and how many; exit-time: how long, in ns"),
	OPTION(0, "host", OPT_LIST, struct merge_opts, host, "HOST2",
	       "the host that the guest moved to; may be repeated, in that order"),
	PAIRING_CLOCK_OPTIONS(struct merge_opts, pair),
	RATE_OPTION(struct merge_opts, khz),
	GUEST_SYMS_OPTIONS(struct merge_opts, syms),
	OPTION(0, "qemu", OPT_LIST, struct merge_opts, qemu, "FILE[:FORMAT[:VM]]",
	       "also the events of a trace that QEMU wrote: simple, log, syslog or ust;\n"
	       "may be repeated"),
	OPTION(0, "trace-events", OPT_STR, struct merge_opts, trace_events, "FILE",
	       "the trace-events-all of that QEMU, also for markers in HOST\n"
	       "(default: of /usr/share/qemu)"),
	OPTION(0, "long", OPT_FLAG, struct merge_opts, longer, NULL,
	       "text and json: also the context of events (interrupts off, hardirq ...)\n"
	       "and the time of day"),
	OPTION(0, "from", OPT_STR, struct merge_opts, from, "T", WINDOW_HELP_FROM),
	OPTION(0, "to", OPT_STR, struct merge_opts, to, "T", WINDOW_HELP_TO),
	OPTION(0, "side", OPT_LIST, struct merge_opts, pick.side, "SIDE",
	       "only lines of host, guest (any), qemu, or a guest's name; may be repeated"),
	OPTION('v', "vcpu", OPT_LIST, struct merge_opts, pick.vcpu, "LIST",
	       "only events of these vCPUs and of the host threads that run them, e.g. 0,2-5"),
	OPTION('e', "event", OPT_EVENTS, struct merge_opts, pick.event, "EVENT",
	       "only these events: [SYSTEM:]NAME[/FILTER/], wildcards allowed; may be repeated"),
	OPTION(0, "grep", OPT_EVENTS, struct merge_opts, pick.grep, "EVENT",
	       "only matching events and their context; EVENT as for --event"),
	OPTION('C', "context", OPT_U64, struct merge_opts, pick.context, "N",
	       "with --grep: N lines before and after each match"),
	OPTION('N', "count", OPT_U64, struct merge_opts, count, "COUNT",
	       "end after this many events"),
	OPTION('f', "follow", OPT_FLAG, struct merge_opts, follow, NULL,
	       "the captures are still being recorded: go on until they end"),
	OPTION(0, "delay", OPT_DURATION, struct merge_opts, delay, "DURATION",
	       "with --follow: wait this long for events of other sides (default: 500ms)"),
	OPTION(0, "force", OPT_FLAG, struct merge_opts, file.force, NULL,
	       "replace an existing OUT"),
	PAGE_OPTIONS(struct merge_opts, file.page_opts),
	OPTION('q', "quiet", OPT_FLAG, struct merge_opts, quiet, NULL,
	       "no summary on standard error unless something is wrong"),
	/* For trace, where a VM cannot be named as here. */
	{ .name = "naming",
	  .type = OPT_STR,
	  .offset = offsetof(struct merge_opts, naming),
	  .arg = "TEXT",
	  .help = "how a VM is named",
	  .flags = OPT_HIDDEN },
	OPT_END,
};

struct merge {
	const struct merge_opts *o;
	struct kvmft_err *err;
	struct pairing own;
	struct pairing *p;    /* of this pass, where captures are followed */
	struct follow *f;     /* NULL: they are not */
	struct windows *w;
	struct sink s;
	struct qemu_traces q;
	struct guest_syms syms;
	struct pick *pick; /* NULL: everything is wanted */
	uint64_t shown, most; /* events */
	uint64_t from, to; /* host TSC */
	uint64_t begin_ns; /* util_now_ns() when captures began to be followed */
	bool enough, left_out;
};

static inline int merge_show(void *arg, const struct tl_item *item)
{
	struct merge *m = arg;

	if (!item) {
		out_left_out(&m->s.out);
		return 0;
	}
	m->shown += item->kind == TL_EVENT;
	m->enough = m->shown >= m->most;
	return out_item(&m->s.out, item);
}

static int merge_walk(struct merge *m)
{
	const struct tl_item *item;
	int ret = 0;

	if (!m->f && !m->pick) {
		struct windows *w = m->p->nguest ? m->w : NULL;
		struct timeline *t = m->p->t;
		uint64_t left = m->most;

		/* All items of captures that have ended: there are millions of them. */
		while (left && (ret = tl_next(t, &item)) > 0) {
			left -= item->kind == TL_EVENT;
			if (w)
				win_feed(w, item);
			ret = out_item(&m->s.out, item);
			if (ret)
				break;
		}
		m->shown = m->most - left;
		m->enough = !left;
		return ret;
	}
	while (!m->enough && (ret = tl_next(m->p->t, &item)) > 0) {
		bool late = m->f && follow_late(m->f, item);

		ret = 0;
		if (m->p->nguest && !late)
			win_feed(m->w, item);
		else if (m->p->nguest && !item->src->guest)
			win_late(m->w);
		/* Captures being followed are read completely, else what is new is not known. */
		if (m->f && (item->host < m->from || item->host > m->to))
			m->enough |= item->kind == TL_EVENT && item->host > m->to;
		else if (!m->pick)
			ret = merge_show(m, item);
		else if (pick_wants(m->pick, item))
			ret = pick_feed(m->pick, item, merge_show, m);
		if (ret)
			break;
	}
	return ret;
}

/* A page also shows the slow moments. */
static bool is_page(const struct merge_opts *o)
{
	return o->format && !strcmp(o->format, "html");
}

static int merge_when(struct merge *m, struct out_clock *clock)
{
	int ret;

	when_free(&m->s.when);
	ret = when_clock(&m->s.when, m->p, m->o->clock, clock, cli_note, m->err);
	if (!ret && (m->o->longer || is_page(m->o)) &&
	    !day_clock(m->p->host.cap, &m->s.when.day_pieces, &m->s.when.day) && m->o->longer &&
	    !m->o->quiet)
		cli_note("%s has no readings of the time of day (kvmft record takes them): lines "
			 "have none",
			 m->p->host.cap->path);
	return ret ?: window_parse(clock, m->o->from, m->o->to, &m->from, &m->to, m->err);
}

/* The clock of the rows, and which of them are wanted: by the captures in their current state. */
static int merge_ask(struct merge *m, struct out_clock *clock)
{
	const struct merge_pick_opts *o = &m->o->pick;
	int ret = merge_when(m, clock);

	if (ret)
		return ret;
	if (m->pick) {
		pick_go_on(m->pick, m->p->t);
		return 0;
	}
	if (o->context.set && !o->grep.n)
		return err_usage(m->err, "option --context: around which events? It needs --grep");
	if (o->context.v > PICK_MAX_CONTEXT)
		return err_usage(m->err, "option --context: at most %d lines", PICK_MAX_CONTEXT);
	if (!o->event.n && !o->grep.n && !o->side.n && !o->vcpu.n)
		return 0;
	pick_new(m->p->t, &m->pick);
	pick_set_context(m->pick, o->context.v);
	for (size_t i = 0; i < o->event.n && !ret; i++)
		ret = usage(m->err, "--event", pick_add_event(m->pick, o->event.v[i], m->err));
	for (size_t i = 0; i < o->grep.n && !ret; i++)
		ret = usage(m->err, "--grep", pick_add_match(m->pick, o->grep.v[i], m->err));
	/* A side that is not here may belong to a guest that was left out. */
	for (size_t i = 0; i < o->side.n && !ret; i++)
		ret = add_side(m->pick, m->p->t, o->side.v[i], m->left_out, m->err);
	for (size_t i = 0; i < o->vcpu.n && !ret; i++) {
		ret = pick_add_vcpus(m->pick, o->vcpu.v[i]);
		if (ret == -EINVAL)
			err_usage(m->err, "option --vcpu: '%s' is not a list such as 0,2-5",
				  o->vcpu.v[i]);
	}
	return ret;
}

static int merge_begin(struct merge *m)
{
	const struct out_format *fmt = out_format_find(m->o->format ?: "text");
	_cleanup_free_ char *json = NULL;
	struct out_clock clock;
	int ret = merge_ask(m, &clock);

	ret = ret ?: sink_check(fmt, &clock, m->o->file.path, m->err);
	if (!ret && is_page(m->o))
		ret = blaming_json(m->p, &clock, m->from, m->to, &json, m->err);
	if (!ret && !m->f)
		tl_window(m->p->t, m->from, m->to);
	ret = ret ?: tl_start(m->p->t, m->err);
	if (!ret)
		win_new(m->p->t, &m->w);
	ret = ret ?: outfile_check(m->o->file.out, NULL, m->p->t, m->o->trace_events, m->err);
	ret = ret ?: sink_open(&m->s, m->o->file.out, m->o->file.page.f, m->err);
	if (!ret) {
		out_begin(&m->s.out, m->p->t, fmt, &clock, m->s.f);
		out_html_spikes(&m->s.out, json);
	}
	m->s.out.color = m->o->file.page.color;
	m->s.out.longer = m->o->longer;
	m->s.out.fold = MAX(m->o->of, 0);
	m->s.out.day = m->s.when.day.pieces ? &m->s.when.day : NULL;
	m->s.out.goes_on = m->f;
	return ret;
}

/* Whether all is written that spikes are looked for in: then that proves how sure they are. */
static bool shows_all(const struct merge_opts *o)
{
	return !o->from && !o->to && !o->count.set;
}

/* ---- captures that are still being recorded ---- */

static const int end_signals[] = { SIGINT, SIGTERM };

static void nothing(int sig __unused_arg)
{
}

static bool was_told_to_end(void)
{
	struct sigaction now;

	for (size_t i = 0; i < ARRAY_SIZE(end_signals); i++)
		if (!sigaction(end_signals[i], NULL, &now) && now.sa_handler == SIG_DFL)
			return true;
	return false;
}

/* The lines of a pass are written when it ends. */
static int merge_pass(struct merge *m, const struct follow_pass *pass)
{
	bool opened = m->s.f;
	struct out_clock clock;
	int ret, end;

	m->p = pass->p;
	ret = rate_of_pairing(m->p, &m->o->khz, m->o->quiet || !pass->first,
			      sink_cycles(m->o->format, m->o->clock), cli_note, m->err);
	ret = ret ?: qemu_traces_add(&m->q, m->p, &m->o->qemu, m->o->trace_events, m->err);
	if (opened) {
		ret = ret ?: merge_ask(m, &clock);
		ret = ret ?: tl_start(m->p->t, m->err);
		if (!ret) {
			win_go_on(m->w, m->p->t);
			out_resume(&m->s.out, m->p->t, &clock);
		}
	} else {
		ret = ret ?: merge_begin(m);
	}
	ret = ret ?: merge_walk(m);
	m->s.out.goes_on = !ret && !pass->last && !m->enough;
	end = m->s.f ? out_end(&m->s.out) : 0;
	return ret ?: end;
}

/*
 * A segment that was there a moment ago is gone; or what identifies the guest's VM has not come
 * yet, because recorders write that when they have begun.
 */
static bool may_come(const struct merge *m, const struct follow_pass *pass, int ret,
		     unsigned int tries)
{
	if (ret == -ENOENT && tries < MAX_TRIES)
		return true;
	return !m->s.f && !pass->last && m->err->code != KVMFT_USAGE &&
	       (tries < MAX_TRIES || util_now_ns() - m->begin_ns < FIRST_NS) && !was_told_to_end();
}

/* A guest whose capture is unusable, or disappears, does not end the view of the others. */
static bool go_without(struct merge *m, unsigned int *tries)
{
	const int clock = m->o->clock;
	struct follow_gone gone;

	if (m->err->code == KVMFT_USAGE || !follow_leave_out(m->f, &gone))
		return false;
	/* Rows in a clock of a guest that is gone have no time any more. */
	if (gone.opened && gone.first &&
	    (clock == OUT_CLOCK_GUEST_TSC || clock == OUT_CLOCK_KVMCLOCK))
		return false;
	if (gone.opened)
		cli_note("%s: left out from now on, %llu events of it were shown; the others go on",
			 m->err->text, (unsigned long long)gone.events);
	else
		cli_note("%s; the other guests are shown without this one", m->err->text);
	m->left_out = true;
	m->begin_ns = util_now_ns();
	*tries = 0;
	return true;
}

static int merge_follow(struct merge *m, int argc, char **argv, const struct pairing_opts *po)
{
	const struct follow_config c = {
		.host = argv[0], .guests = argv + 1, .n = (size_t)argc - 1, .opts = po,
		.delay_ns = m->o->delay.set ? m->o->delay.v : DEFAULT_DELAY_NS, .note = cli_note,
		.is_enough = was_told_to_end,
	};
	struct follow_pass pass = { 0 };
	unsigned int tries = 0;
	int ret = 0;
	const struct sigaction once = { .sa_handler = nothing,
					.sa_flags = (int)SA_RESETHAND | SA_RESTART };
	struct sigaction now;

	follow_new(&c, &m->f);
	/*
	 * The first signal ends the view in order, the second one at once: the kernel removes the
	 * handler when the first one comes, which also marks it. A process that ignores a signal
	 * continues to do so.
	 */
	for (size_t i = 0; i < ARRAY_SIZE(end_signals); i++)
		if (!sigaction(end_signals[i], NULL, &now) && now.sa_handler == SIG_DFL)
			(void)sigaction(end_signals[i], &once, NULL);
	m->begin_ns = util_now_ns();
	while (!ret && !pass.last && !m->enough) {
		ret = follow_pass(m->f, &pass, m->err);
		ret = ret ?: merge_pass(m, &pass);
		tries = ret ? tries + 1 : 0;
		if (ret && (may_come(m, &pass, ret, tries) || go_without(m, &tries))) {
			*m->err = (struct kvmft_err){ .text = "" };
			pass.last = false;
			ret = 0;
		}
	}
	if (!m->s.f)
		return ret;
	if (!ret)
		win_finish(m->w);
	return sink_close(&m->s, false, ret, m->err);
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
			cli_note("%s", b.s ?: "out of memory");
		sbuf_reset(&b);
	}
	if (m->o->pick.grep.n && !m->o->quiet)
		cli_note("%llu matches", (unsigned long long)pick_matches(m->pick));
	if (pick_dropped(m->pick))
		cli_note("%llu lines of context were left out: too large to be kept",
			 (unsigned long long)pick_dropped(m->pick));
	return pick_any(m->pick) ? 0 : err_set(m->err, ENODATA, "nothing matched");
}

/* Options that need a host's timeline. */
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
		{ guest_syms_option(&o->syms), guest_syms_option(&o->syms) },
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
	struct qemu_alone how = { .json = json, .most = m->most };
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
	ret = ret ?: qemu_traces_alone(&m->q, o->qemu.v[0], o->trace_events, &how, o->quiet,
					   &complete, m->err);
	ret = sink_close(&m->s, false, ret, m->err);
	ret = ret ?: outfile_commit(o->file.out, 0, NULL, m->err);
	when_free(&m->s.when);
	qemu_traces_free(&m->q);
	return sink_exit(ret, complete);
}

/* What can only be known when the recordings have ended. */
static int check_follow(const struct merge_opts *o, int argc, struct kvmft_err *err)
{
	const struct {
		const char *name;
		bool set;
		const char *why;
	} option[] = {
		{ "host", o->host.n, "it takes all events of both hosts to see when a guest moved: "
				     "merge them when the recordings have ended" },
		{ "qemu", o->qemu.n, "its events are placed by those that come after them; "
				     "QEMU's back end ftrace and record --marker show them live" },
		{ "solve", o->pair.solve, "it takes all events to find the offset; if you know it, "
					  "use --tsc-offset" },
		{ guest_syms_option(&o->syms), guest_syms_option(&o->syms),
		  "each pass over the captures would read all of the symbols again" },
	};

	if (!o->follow)
		return err_usage(err, "option --delay goes with --follow");
	for (size_t i = 0; i < ARRAY_SIZE(option); i++)
		if (option[i].set)
			return err_usage(err, "option --%s does not go with --follow: %s",
					 option[i].name, option[i].why);
	if (o->pick.context.set && !o->pick.grep.n)
		return err_usage(err, "option --context: around which events? It needs --grep");
	if (o->format && strcmp(o->format, "text") && strcmp(o->format, "json"))
		return err_usage(err, "--follow writes text or json");
	if (o->delay.v > MAX_DELAY_NS)
		return err_usage(err, "option --delay: at most 60s");
	if (!argc)
		return err_usage(err, "operands are missing: the captures to follow");
	return 0;
}

static int merge_prepare(struct merge *m, int argc, char **argv, const struct pairing_opts *po)
{
	const struct merge_opts *o = m->o;
	int ret;

	m->p = &m->own;
	ret = pairing_prepare(m->p, argv[0], argv + 1, (size_t)argc - 1, po, m->err);
	if (!ret)
		ret = rate_of_pairing(m->p, &o->khz, o->quiet, sink_cycles(o->format, o->clock),
				      cli_note, m->err);
	ret = ret ?: pairing_add_hosts(m->p, &o->host, NULL, m->err);
	ret = ret ?: qemu_traces_add(&m->q, m->p, &o->qemu, o->trace_events, m->err);
	return ret ?: guest_syms_of_pairing(&m->syms, &o->syms, m->p, o->quiet ? NULL : cli_note,
					    m->err);
}

static struct pairing_opts pairing_wants(const struct merge_opts *o)
{
	return (struct pairing_opts){
		.guest_alone = true,
		.related = o->qemu.n || o->host.n || when_related(o->clock),
		.need = is_page(o) ? PAIRING_CLOCKS
			: (o->format && strcmp(o->format, "text")) || o->pick.vcpu.n ||
					guest_syms_option(&o->syms)
				? PAIRING_VCPUS
				: PAIRING_LINES,
		.clock = &o->pair, .khz = &o->khz,
		.naming = o->naming,
		/* another host may know more */
		.undecided_ok = o->host.n,
		.growing = o->host.n,
	};
}

/* In a process of its own. Traces of QEMU have no part in spikes. */
static int merge_spikes(void *ctx, const char *input __unused_arg, FILE *out __unused_arg,
			struct sbuf *rows, struct kvmft_err *err)
{
	struct merge_opts o = *(const struct merge_opts *)ctx;
	struct pairing_opts po = pairing_wants(&o);
	/* not freed: the process ends */
	struct merge m = { .o = &o, .err = err, .q.note = cli_note };
	struct out_clock clock;
	int ret;
	struct blame *b;

	o.quiet = true;
	o.qemu.n = 0;
	ret = merge_prepare(&m, o.operands.argc, o.operands.argv, &po);
	ret = ret ?: merge_when(&m, &clock);
	if (ret)
		return ret;
	b = NULL;
	ret = blaming_spikes(m.p, m.from, m.to, SPIKES, !shows_all(&o), &b, err);
	for (size_t i = 0; !ret && b && i < blame_spikes(b); i++) {
		const struct blame_spike *s = blame_spike(b, i);

		sbuf_add_mem(rows, (const char *)s, sizeof(*s));
		sbuf_add_mem(rows, (const char *)s->part, s->nparts * sizeof(*s->part));
	}
	blame_free(b);
	return ret;
}

/* What was shown, and what is wrong with it. */
static int merge_tell(struct merge *m, bool *complete)
{
	const struct merge_opts *o = m->o;
	const struct timeline *t = m->p->t;
	uint64_t events = 0;

	if (!o->quiet)
		pairing_tell_assumed(m->p, cli_note);
	*complete = pairing_summary(t, o->quiet, cli_note);
	*complete = qemu_traces_summary(&m->q, t, o->quiet) && *complete;
	*complete = sink_whole(&m->s) && *complete;
	for (size_t i = 0; i < tl_sources(t); i++) {
		const struct tl_source *s = tl_source(t, i);

		if (s->guest && !s->alone)
			sink_tell_alignment(m->p, m->w, s->vm, s->label, o->quiet);
		events += s->events;
	}
	if (m->f && !o->quiet)
		follow_tell(m->f);
	if (!events)
		return err_set(m->err, ENODATA, "the captures hold no events%s",
			       o->from || o->to ? " in that time" : "");
	return pairing_placed(t, m->err) ?: summary_pick(m);
}

static int merge_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct merge_opts *o = opts;
	struct merge m = {
		.o = o, .err = err, .most = o->count.set ? o->count.v : UINT64_MAX,
		.q.note = cli_note,
	};
	struct pairing_opts po = pairing_wants(o);
	bool complete = true;
	int ret;

	if (o->count.set && !o->count.v)
		return err_usage(err, "option --count: must be at least 1");
	if (o->host.n && (o->pair.tsc_offset.set || o->pair.tsc_ratio || o->pair.solve))
		return err_usage(
			err,
			"options --tsc-offset, --tsc-ratio and --solve: each --host has its own");
	if (o->longer && o->format && strcmp(o->format, "text") && strcmp(o->format, "json"))
		return err_usage(err, "option --long: only text and json have such lines");
	if (o->of >= 0 && (!o->format || strcmp(o->format, "folded")))
		return err_usage(err, "option --of goes with --format folded");
	ret = o->follow || o->delay.set ? check_follow(o, argc, err) : 0;
	ret = ret ?: rate_check(&o->khz, err);
	if (ret)
		return ret;
	if (!argc)
		return merge_alone(&m);
	if (o->follow) {
		ret = merge_follow(&m, argc, argv, &po);
	} else {
		ret = merge_prepare(&m, argc, argv, &po);
		if (!ret) {
			ret = merge_begin(&m);
			if (!ret || m.s.f) {
				ret = ret ?: merge_walk(&m);
				win_finish(m.w);
				if (!ret && m.o->spikes)
					ret = merge_spikes_put(m.o->spikes, &m.s.out, m.p,
							       shows_all(m.o) ? m.w : NULL, m.err);
				if (!ret)
					sink_put_alignment(&m.s, m.p, m.w);
				ret = sink_close(&m.s, true, ret, m.err);
			}
		}
	}
	if (!m.enough) /* otherwise nothing can be said about what was not read */
		ret = ret ?: merge_tell(&m, &complete);
	ret = ret ?: outfile_commit(o->file.out, 0, NULL, err);
	win_free(m.w);
	pick_free(m.pick);
	when_free(&m.s.when);
	pairing_close(&m.own);
	guest_syms_free(&m.syms);
	follow_free(m.f);
	qemu_traces_free(&m.q);
	return sink_exit(ret, complete && !m.left_out);
}

static int merge_sessions(void *opts, struct operands *operands, struct kvmft_err *err)
{
	struct merge_opts *o = opts;
	int ret = captures_first(opts, operands, err);

	o->format = o->format ?: out_format_of(o->file.path);
	o->operands = *operands;
	return ret;
}

/* A view that goes on cannot be paged. */
static int merge_open(void *opts, int argc, struct kvmft_err *err)
{
	struct merge_opts *o = opts;
	int ret;

	o->file.page_opts.no_pager |= o->follow;
	ret = sink_file_open(&o->file, argc, err);
	/* A trace for Perfetto, of one host and its guests. */
	if (ret || argc <= 1 || o->host.n || o->follow || !o->format ||
	    strcmp(o->format, "perfetto"))
		return ret;
	o->host_only = (struct str_list){ .v = (const char **)o->operands.argv, .n = 1 };
	return many_begin(&o->host_only, merge_spikes, o, cli_note, &o->spikes, err);
}

static int merge_release(void *opts)
{
	struct merge_opts *o = opts;

	many_end(o->spikes);
	return sink_file_close(opts);
}

const struct cmd cmd_merge = {
	.name = "merge",
	.summary = "one aligned timeline from a host capture and guest captures",
	.args = "[HOST [GUEST[=SEL]]...]",
	.description =
		"HOST and GUEST are captures of `kvmft record`, trace.dat, perf.data or text. A guest is\n"
		"paired with its VM by UUID; GUEST=SEL names the VM (UUID, name, PID or PID-FD) when\n"
		"that is not possible. The last lines on standard error say how well the clocks "
		"align.",
	.examples = "  kvmft merge host guest\n"
		    "  kvmft merge --qemu qemu.trace            # a trace of QEMU alone\n"
		    "  kvmft merge --clock kvmclock host guest=vm1 > timeline.txt\n"
		    "  kvmft merge --grep 'kvm_msr/ecx==0x11/' -C 5 host guest",
	.opts = merge_options,
	.groups = "output format of clock from to side vcpu event grep context count follow\n"
		  "two clocks: host tsc-offset tsc-ratio solve tsc-khz\n"
		  "functions of the guest: guest-kallsyms guest-vmlinux guest-kaslr guest-modules\n"
		  "QEMU's own events: qemu trace-events\n"
		  "output: long delay force quiet color wide",
	.opts_size = sizeof(struct merge_opts),
	.sessions = merge_sessions,
	.run = merge_run,
	.reader = true,
	.output = merge_open,
	.release = merge_release,
	.max_args = -1,
};
