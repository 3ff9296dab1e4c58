/* SPDX-License-Identifier: GPL-2.0-or-later */
/* merge.c: `kvmft merge HOST GUEST[=SEL]...`, one aligned timeline and its proof. */
#include "cmds.h"

/* The options that select a part of the timeline. */
struct merge_pick_opts {
	struct str_list event, side, vcpu;
	struct opt_u64 context;
};

/* ---- --event, --context, --side, --vcpu ---- */

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

/* ---- spikes for a trace, from the process that finds them to the one that writes ---- */

#define SPIKES 200u

/* Each is followed by its parts. The number of spikes, or -errno. */
static ssize_t spike_unpack(struct sbuf *rows, struct blame_spike *v)
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
		/* From a process that read untrusted captures: check indices and texts. */
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

static int merge_spikes_put(struct many *m, struct view *v, bool judge)
{
	_cleanup_(many_result_free) struct many_result r = { 0 };
	int ret = many_result(m, 0, &r);
	_cleanup_free_ struct blame_spike *s = NULL;
	ssize_t n;

	if (ret)
		return err_why(v->err, ret, "cannot take over the spikes");
	if (r.code < 0 && tl_error(v->p->t))
		return 0; /* what cannot be read is reported with the time line */
	if (r.code < 0)
		return err_set(v->err, -r.code, "finding spikes: %s", r.why);
	s = xcalloc(r.rows.len / sizeof(*s) + 1, sizeof(*s));
	n = spike_unpack(&r.rows, s);
	if (n < 0)
		return err_set(v->err, EINVAL, "what the process that looks for spikes found is damaged");
	if (judge)
		blaming_judge(v->p, v->w, s, (size_t)n);
	out_perfetto_spikes(&v->out, s, (size_t)n);
	return 0;
}

struct merge_opts {
	struct sink_file file; /* first */
	struct view_opts v;
	int of;
	bool longer;
	const char *format;
	struct opt_u64 follow, count;
	struct merge_pick_opts pick;
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
	OPTION_CHOICE(0, "clock", struct merge_opts, v.clock, "CLOCK", out_clock_names,
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
	OPTION(0, "host", OPT_LIST, struct merge_opts, v.host, "HOST2",
	       "the host that the guest moved to; may be repeated, in that order"),
	VIEW_CLOCKS_OPTIONS(struct merge_opts),
	VIEW_TRACES_OPTIONS(struct merge_opts,
			    "also the events of a trace that QEMU wrote: simple, log, syslog or "
			    "ust;\nmay be repeated"),
	OPTION(0, "long", OPT_FLAG, struct merge_opts, longer, NULL,
	       "text and json: also the context of events (interrupts off, hardirq ...)\n"
	       "and the time of day"),
	VIEW_WINDOW_OPTIONS(struct merge_opts),
	OPTION(0, "side", OPT_LIST, struct merge_opts, pick.side, "SIDE",
	       "only lines of host, guest (any), qemu, or a guest's name; may be repeated"),
	OPTION('v', "vcpu", OPT_LIST, struct merge_opts, pick.vcpu, "LIST",
	       "only events of these vCPUs and of the host threads that run them, e.g. 0,2-5"),
	OPTION('e', "event", OPT_EVENTS, struct merge_opts, pick.event, "EVENT",
	       "only these events: [SYSTEM:]NAME[/FILTER/], wildcards allowed; may be repeated"),
	OPTION('C', "context", OPT_U64, struct merge_opts, pick.context, "N",
	       "also the N lines before and after each event of -e"),
	OPTION('N', "count", OPT_U64, struct merge_opts, count, "COUNT",
	       "end after this many events"),
	OPTION_MAYBE('f', "follow", OPT_DURATION, struct merge_opts, follow, "DURATION",
	       "the captures are still being recorded: go on until they end, and wait so long for\n"
	       "events of other sides (default: 500ms)"),
	OPTION(0, "force", OPT_FLAG, struct merge_opts, file.force, NULL,
	       "replace an existing OUT"),
	VIEW_NAMING_OPTION(struct merge_opts), /* trace's */
	OPT_END,
};

struct merge {
	const struct merge_opts *o;
	struct view v;
	struct follow *f; /* NULL: captures are not followed */
	struct pick *pick; /* NULL: everything is wanted */
	uint64_t shown, most; /* events */
	uint64_t begin_ns; /* util_now_ns() when captures began to be followed */
	bool enough, left_out;
};

static int merge_show(void *arg, const struct tl_item *item)
{
	struct merge *m = arg;

	if (!item) {
		out_left_out(&m->v.out);
		return 0;
	}
	m->shown += item->kind == TL_EVENT;
	m->enough = m->shown >= m->most;
	return out_item(&m->v.out, item);
}

/* Captures being followed are read completely, else what is new is not known. */
static int merge_item(void *arg, const struct tl_item *item)
{
	struct merge *m = arg;
	bool late = m->f && follow_late(m->f, item);
	int ret = 0;

	if (m->v.w && !late)
		win_feed(m->v.w, item);
	else if (m->v.w && !item->src->guest)
		win_late(m->v.w);
	if (m->f && (item->host < m->v.from || item->host > m->v.to))
		m->enough |= item->kind == TL_EVENT && item->host > m->v.to;
	else if (!m->pick)
		ret = merge_show(m, item);
	else if (pick_wants(m->pick, item))
		ret = pick_feed(m->pick, item, merge_show, m);
	return ret ?: m->enough;
}

static int merge_walk(struct merge *m)
{
	int ret = m->enough ? 0 : tl_walk(m->v.p->t, TL_ITEM(merge_item, m));

	return ret > 0 ? 0 : ret; /* enough */
}

/* A page also shows the slow moments. */
static bool is_page(const struct merge_opts *o)
{
	return o->format && !strcmp(o->format, "html");
}

/* What else rows have, and which of them are wanted: by the captures in their current state. */
static int merge_ask(struct merge *m)
{
	const struct merge_pick_opts *o = &m->o->pick;
	const struct capture *host = m->v.p->host.cap;
	int ret = 0;

	if ((m->o->longer || is_page(m->o)) &&
	    !day_clock(host, &m->v.when.day_pieces, &m->v.when.day) && m->o->longer &&
	    !m->o->v.quiet)
		cli_note("%s has no readings of the time of day (kvmft record takes them): lines "
			 "have none", host->path);
	if (m->pick) {
		pick_go_on(m->pick, m->v.p->t);
		return 0;
	}
	if (o->context.set && !o->event.n)
		return err_usage(m->v.err, "option --context: around which events? It needs -e");
	if (o->context.v > PICK_MAX_CONTEXT)
		return err_usage(m->v.err, "option --context: at most %d lines", PICK_MAX_CONTEXT);
	if (!o->event.n && !o->side.n && !o->vcpu.n)
		return 0;
	pick_new(m->v.p->t, &m->pick);
	if (o->context.set)
		pick_set_context(m->pick, o->context.v);
	for (size_t i = 0; i < o->event.n && !ret; i++) {
		ret = pick_add_event(m->pick, o->event.v[i], m->v.err);
		if (ret == -EINVAL)
			err_usage(m->v.err, "option --event: %s", m->v.err->text);
	}
	/* A side that is not here may belong to a guest that was left out. */
	for (size_t i = 0; i < o->side.n && !ret; i++) {
		const char *side = o->side.v[i];
		bool known = m->left_out || !strcmp(side, "host") || !strcmp(side, "guest") ||
			     !strcmp(side, "qemu");

		/* One that does not exist would silently show nothing. */
		for (size_t k = 0; k < tl_sources(m->v.p->t); k++)
			known |= pick_side_is(m->v.p->t, tl_source(m->v.p->t, k), side);
		if (known)
			pick_add_side(m->pick, side);
		else
			ret = err_usage(m->v.err, "option --side: '%s' is neither host nor guest nor qemu "
					"nor the name of a guest here", side);
	}
	for (size_t i = 0; i < o->vcpu.n && !ret; i++) {
		ret = pick_add_vcpus(m->pick, o->vcpu.v[i]);
		if (ret == -EINVAL)
			err_usage(m->v.err, "option --vcpu: '%s' is not a list such as 0,2-5",
				  o->vcpu.v[i]);
	}
	return ret;
}

static int merge_begin(struct merge *m)
{
	const struct out_format *fmt = out_format_find(m->o->format ?: "text");
	_cleanup_free_ char *json = NULL;
	int ret = merge_ask(m);

	ret = ret ?: view_output(&m->v, fmt, m->o->file.out, m->o->file.page.f);
	if (!ret && is_page(m->o))
		ret = blaming_json(&m->v, &json);
	/* What is followed is read as far as it is due: what is not shown is proof, too. */
	ret = ret ?: m->f ? tl_start(m->v.p->t, m->v.err) : view_start(&m->v);
	if (!ret && m->f && m->v.p->nguest)
		win_new(m->v.p->t, &m->v.w);
	if (!ret) {
		out_begin(&m->v.out, m->v.p->t, fmt, &m->v.clock, m->v.f);
		out_html_spikes(&m->v.out, json);
	}
	m->v.out.color = m->o->file.page.color;
	m->v.out.longer = m->o->longer;
	m->v.out.fold = MAX(m->o->of, 0);
	m->v.out.day = m->v.when.day.pieces ? &m->v.when.day : NULL;
	m->v.out.goes_on = m->f;
	return ret;
}

/* Whether all is written that spikes are looked for in: then that proves how sure they are. */
static bool shows_all(const struct merge_opts *o)
{
	return !o->v.from && !o->v.to && !o->count.set;
}

/* ---- captures that are still being recorded ---- */

static const int end_signals[] = { SIGINT, SIGTERM };

static void signal_nothing(int sig __unused_arg)
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
	bool opened = m->v.f;
	int ret, end;

	m->v.told = !pass->first;
	ret = view_of(&m->v, pass->p);
	if (opened) {
		ret = ret ?: merge_ask(m);
		ret = ret ?: tl_start(m->v.p->t, m->v.err);
		if (!ret && m->v.w)
			win_go_on(m->v.w, m->v.p->t);
		if (!ret)
			out_resume(&m->v.out, m->v.p->t, &m->v.clock);
	} else {
		ret = ret ?: merge_begin(m);
	}
	ret = ret ?: merge_walk(m);
	m->v.out.goes_on = !ret && !pass->last && !m->enough;
	end = out_end(&m->v.out);
	return ret ?: end;
}

/* A segment has just gone; or a recorder that began has not yet written which VM its guest is. */
static bool may_come(const struct merge *m, const struct follow_pass *pass, const char *host,
		     int ret, unsigned int tries)
{
	if (ret == -ENOENT && tries < MAX_TRIES)
		return true;
	/* ... and segments of the host go faster than passes read them: one will do. */
	if (ret == -ENOENT && !pass->guest && m->v.f && !was_told_to_end() && !access(host, F_OK)) {
		if (tries == MAX_TRIES)
			cli_note("events come faster than they are read: what is removed before is "
				 "not shown");
		return true;
	}
	return !m->v.f && !pass->last && m->v.err->code != KVMFT_USAGE &&
	       (tries < MAX_TRIES || util_now_ns() - m->begin_ns < FIRST_NS) && !was_told_to_end();
}

/* A guest whose capture is unusable, or disappears, does not end the view of the others. */
static bool go_without(struct merge *m, unsigned int *tries)
{
	const int clock = m->o->v.clock;
	struct follow_gone gone;

	if (m->v.err->code == KVMFT_USAGE || !follow_leave_out(m->f, &gone))
		return false;
	/* Rows in a clock of a guest that is gone have no time any more. */
	if (gone.opened && gone.first &&
	    (clock == OUT_CLOCK_GUEST_TSC || clock == OUT_CLOCK_KVMCLOCK))
		return false;
	if (gone.opened)
		cli_note("%s: left out from now on, %llu events of it were shown; the others go on",
			 m->v.err->text, (unsigned long long)gone.events);
	else
		cli_note("%s; the other guests are shown without this one", m->v.err->text);
	m->left_out = true;
	m->begin_ns = util_now_ns();
	*tries = 0;
	return true;
}

static int merge_follow(struct merge *m, int argc, char **argv)
{
	struct pairing_opts po = view_needs(&m->v);
	const struct follow_config c = {
		.host = argv[0], .guests = argv + 1, .n = (size_t)argc - 1, .opts = &po,
		.delay_ns = m->o->follow.v ?: DEFAULT_DELAY_NS, .note = cli_note,
		.is_enough = was_told_to_end,
	};
	struct follow_pass pass = { 0 };
	unsigned int tries = 0;
	int ret = 0;
	const struct sigaction once = { .sa_handler = signal_nothing,
					.sa_flags = (int)SA_RESETHAND | SA_RESTART };
	struct sigaction now;

	follow_new(&c, &m->f);
	/* The first signal ends the view in order, the second at once: its handler is gone. */
	for (size_t i = 0; i < ARRAY_SIZE(end_signals); i++)
		if (!sigaction(end_signals[i], NULL, &now) && now.sa_handler == SIG_DFL)
			(void)sigaction(end_signals[i], &once, NULL);
	m->begin_ns = util_now_ns();
	while (!ret && !pass.last && !m->enough) {
		ret = follow_pass(m->f, &pass, m->v.err);
		ret = ret ?: merge_pass(m, &pass);
		tries = ret ? tries + 1 : 0;
		if (ret && (may_come(m, &pass, argv[0], ret, tries) || go_without(m, &tries))) {
			*m->v.err = (struct kvmft_err){ .text = "" };
			pass.last = false;
			ret = 0;
		}
	}
	if (!m->v.f)
		return ret;
	return view_end(&m->v, view_walked(&m->v, ret));
}

/* ---- what the user must know about the result ---- */

/* Options that need a host's timeline. */
static const char *needs_host(const struct merge_opts *o)
{
	const struct view_opts *v = &o->v;
	const struct {
		const char *name;
		bool set;
	} option[] = {
		{ "from", v->from }, { "to", v->to }, { "event", o->pick.event.n },
		{ "side", o->pick.side.n }, { "vcpu", o->pick.vcpu.n },
		{ "context", o->pick.context.set }, { "host", v->host.n },
		{ "tsc-offset", v->pair.tsc_offset.set }, { "tsc-ratio", v->pair.tsc_ratio },
		{ "solve", v->pair.solve }, { "tsc-khz", v->khz.set },
		{ guest_syms_option(&v->syms), guest_syms_option(&v->syms) },
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

	if (o->v.qemu.n && needs_host(o))
		return err_usage(m->v.err, "option --%s needs the capture of a host", needs_host(o));
	if (o->v.qemu.n != 1)
		return err_usage(m->v.err, "operands are missing: the capture of a host, or one "
					 "--qemu FILE alone%s", cli_input_here());
	if ((o->format && !json && strcmp(o->format, "text")) ||
	    (o->v.clock >= 0 && o->v.clock != OUT_CLOCK_MONO && o->v.clock != OUT_CLOCK_REALTIME))
		return err_usage(m->v.err, "a trace of QEMU alone is text or json, and its times are "
					 "those of the file (--clock mono, realtime)");
	if (o->v.clock >= 0)
		how.clock = o->v.clock == OUT_CLOCK_MONO ? QTRACE_MONO : QTRACE_REALTIME;
	ret = view_output(&m->v, NULL, o->file.out, o->file.page.f);
	how.f = m->v.f;
	ret = ret ?: qemu_traces_alone(&m->v.q, o->v.qemu.v[0], o->v.trace_events, &how, o->v.quiet,
					   &complete, m->v.err);
	ret = view_end(&m->v, ret);
	ret = ret ?: outfile_commit(o->file.out, 0, NULL, m->v.err);
	qemu_traces_free(&m->v.q);
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
		{ "host", o->v.host.n, "it takes all events of both hosts to see when a guest moved: "
				     "merge them when the recordings have ended" },
		{ "qemu", o->v.qemu.n, "its events are placed by those that come after them; "
				     "QEMU's back end ftrace and record -e marker show them live" },
		{ "solve", o->v.pair.solve, "it takes all events to find the offset; if you know it, "
					  "use --tsc-offset" },
		{ guest_syms_option(&o->v.syms), guest_syms_option(&o->v.syms),
		  "each pass over the captures would read all of the symbols again" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(option); i++)
		if (option[i].set)
			return err_usage(err, "option --%s does not go with --follow: %s",
					 option[i].name, option[i].why);
	if (o->pick.context.set && !o->pick.event.n)
		return err_usage(err, "option --context: around which events? It needs -e");
	if (o->format && strcmp(o->format, "text") && strcmp(o->format, "json"))
		return err_usage(err, "--follow writes text or json");
	if (o->follow.v > MAX_DELAY_NS)
		return err_usage(err, "option --follow: at most 60s");
	if (!argc)
		return err_usage(err, "operands are missing: the captures to follow");
	return 0;
}

static struct merge merge_of(const struct merge_opts *o, struct kvmft_err *err)
{
	return (struct merge){
		.o = o, .most = o->count.set ? o->count.v : UINT64_MAX,
		.v = { .o = &o->v, .err = err, .note = cli_note, .q.note = cli_note,
		       .cycles = view_cycles(o->format, o->v.clock),
		       .traces = true, .names = !o->follow.set,
		       .need = {
			       .guest_alone = true, .related = o->v.qemu.n || o->v.host.n,
			       .need = is_page(o) ? PAIRING_CLOCKS
				       : (o->format && strcmp(o->format, "text")) || o->pick.vcpu.n ||
						       guest_syms_option(&o->v.syms)
					       ? PAIRING_VCPUS
					       : PAIRING_LINES,
			       /* another host may know more */
			       .undecided_ok = o->v.host.n, .growing = o->v.host.n,
		       } },
	};
}

/* In a process of its own. Traces of QEMU have no part in spikes. */
static int merge_spikes(void *ctx, const char *input __unused_arg, FILE *out __unused_arg,
			struct sbuf *rows, struct kvmft_err *err)
{
	struct merge_opts o = *(const struct merge_opts *)ctx;
	struct merge m; /* not freed: the process ends */
	struct blame *b = NULL;
	int ret;

	o.v.quiet = true;
	o.v.qemu.n = 0;
	m = merge_of(&o, err);
	ret = view_open(&m.v, o.operands.argv, (size_t)o.operands.argc);
	ret = ret ?: blaming_spikes(&m.v, SPIKES, !shows_all(&o), &b);
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
	const struct timeline *t = m->v.p->t;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint64_t events = 0;
	bool slip;
	int ret;

	pairing_tell_assumed(m->v.p, cli_remarks(o->v.quiet));
	*complete = pairing_summary(m->v.p, o->v.quiet, cli_note);
	*complete = qemu_traces_summary(&m->v.q, t, o->v.quiet) && *complete;
	*complete = view_whole(&m->v) && *complete;
	for (size_t i = 0; i < tl_sources(t); i++) {
		const struct tl_source *s = tl_source(t, i);

		if (s->guest && !s->alone)
			view_tell_alignment(&m->v, s->vm, s->label, o->v.quiet);
		events += s->events;
	}
	if (m->f && !o->v.quiet)
		follow_tell(m->f);
	if (!events)
		return err_set(m->v.err, ENODATA, "the captures hold no events%s",
			       o->v.from || o->v.to ? " in that time" : "");
	ret = pairing_placed(t, m->v.err);
	if (ret || !m->pick)
		return ret;
	for (size_t i = 0; pick_unmet(m->pick, i, &slip, &b); i++) {
		if (slip || !m->o->v.quiet)
			cli_note("%s", b.s ?: "out of memory");
		sbuf_reset(&b);
	}
	if (m->o->pick.context.set)
		cli_remarks(m->o->v.quiet)("%llu matches", (unsigned long long)pick_matches(m->pick));
	if (pick_dropped(m->pick))
		cli_note("%llu lines of context were left out: too large to be kept",
			 (unsigned long long)pick_dropped(m->pick));
	return pick_any(m->pick) ? 0 : err_set(m->v.err, ENODATA, "nothing matched");
}

static int merge_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct merge_opts *o = opts;
	const struct view_opts *v = &o->v;
	struct merge m = merge_of(o, err);
	bool complete = true;
	int ret;

	if (o->count.set && !o->count.v)
		return err_usage(err, "option --count: must be at least 1");
	if (v->host.n && (v->pair.tsc_offset.set || v->pair.tsc_ratio || v->pair.solve))
		return err_usage(
			err,
			"options --tsc-offset, --tsc-ratio and --solve: each --host has its own");
	if (o->longer && o->format && strcmp(o->format, "text") && strcmp(o->format, "json"))
		return err_usage(err, "option --long: only text and json have such lines");
	if (o->of >= 0 && (!o->format || strcmp(o->format, "folded")))
		return err_usage(err, "option --of goes with --format folded");
	ret = o->follow.set ? check_follow(o, argc, err) : 0;
	if (ret)
		return ret;
	if (!argc)
		return merge_alone(&m);
	if (o->follow.set) {
		ret = merge_follow(&m, argc, argv);
	} else {
		ret = view_open(&m.v, argv, (size_t)argc) ?: merge_begin(&m);
		if (m.v.f) {
			ret = view_walked(&m.v, ret ?: merge_walk(&m));
			if (!ret && o->spikes)
				ret = merge_spikes_put(o->spikes, &m.v, shows_all(o));
			if (!ret)
				view_put_alignment(&m.v);
			ret = view_end(&m.v, ret);
		}
	}
	if (!m.enough) /* otherwise nothing can be said about what was not read */
		ret = ret ?: merge_tell(&m, &complete);
	ret = ret ?: outfile_commit(o->file.out, 0, NULL, err);
	pick_free(m.pick);
	view_close(&m.v);
	follow_free(m.f);
	return sink_exit(ret, complete && !m.left_out);
}

static int merge_sessions(void *opts, struct operands *operands, struct kvmft_err *err)
{
	struct merge_opts *o = opts;
	int ret = captures_first(opts, operands, err);

	ret = ret ?: out_format_of(o->file.path, out_format_name, &o->format, err);
	qemu_traces_events(&o->v);
	o->operands = *operands;
	return ret;
}

/* A view that goes on cannot be paged. */
static int merge_open(void *opts, int argc, struct kvmft_err *err)
{
	struct merge_opts *o = opts;
	int ret;

	o->file.page_opts.no_pager |= o->follow.set;
	ret = sink_file_open(&o->file, argc, err);
	/* A trace for Perfetto, of one host and its guests. */
	if (ret || argc <= 1 || o->v.host.n || o->follow.set || !o->format ||
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
		    "  kvmft merge -e 'kvm_msr/ecx==0x11/' -C 5 host guest",
	.opts = merge_options,
	.groups = "output format of clock from to side vcpu event context count follow\n"
		  "two clocks: host tsc-offset tsc-ratio solve\n"
		  "QEMU's own events: qemu\n"
		  "output: long force",
	.syms = offsetof(struct merge_opts, v.syms),
	READS(struct merge_opts),
	.sessions = merge_sessions,
	.run = merge_run,
	.output = merge_open,
	.release = merge_release,
	.max_args = -1,
};
