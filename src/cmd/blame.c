/* SPDX-License-Identifier: GPL-2.0-or-later */
/* blame.c: `kvmft blame HOST GUEST`, the worst moments of a guest and what each is due to. */
#include "cmds.h"

#define BLAME_ARGS  "HOST [GUEST[=SEL]]..."
#define CONTEXT_MAX 1000u
#define TOP	    10u
#define NEAR_MS	    10u /* of --at */

struct blame_opts_given {
	struct sink_file file; /* first */
	struct view_opts v;
	const char *format, *at, *from_marker, *to_marker;
	char marker[2][256]; /* ... as events */
	uint32_t what;
	int by;
	struct opt_u64 vcpu, top, context, last, budget;
	struct spans_opts spans;
	struct str_list given; /* of --input */
	struct str_list inputs; /* several */
	struct many *many;
};

static const char *what_name(size_t i)
{
	return i < BLAME_EVENT ? blame_whats[i].name : NULL;
}

static const struct opt blame_options[] = {
	OPTION('i', "input", OPT_LIST, struct blame_opts_given, given, "INPUT",
	       "each of these and of the operands by itself: a session, or the capture of a host,\n"
	       "or a directory of them; may be repeated"),
	OPTION(0, "at", OPT_STR, struct blame_opts_given, at, "T",
	       "what was late at T, or within 10 ms of it; T is a time as --clock shows it"),
	OPTION(0, "than", OPT_DURATION, struct blame_opts_given, v.than, "D",
	       "only what was late by this or more: 100us, 2ms"),
	OPTION(0, "budget", OPT_DURATION, struct blame_opts_given, budget, "D",
	       "as --than; exit 1 if there is any, 4 if nothing was measured, and say whose time\n"
	       "the worst was"),
	OPTION(0, "top", OPT_U64, struct blame_opts_given, top, "N",
	       "only the N longest (default: 10; with --by of groups: 1000)"),
	OPTION_CHOICE(0, "by", struct blame_opts_given, by, "KEY", blame_bys,
		      "length (default) or time: the order; cause, task or vcpu: a sum for each"),
	OPTION_NAMED(0, "what", OPT_WORDS, struct blame_opts_given, what, "KIND,...", what_name,
		     "only these kinds"),
	SPANS_OPTIONS(struct blame_opts_given, spans),
	OPTION(0, "from-marker", OPT_STR, struct blame_opts_given, from_marker, "TEXT",
	       "short for --from-event 'print/buf ~ \"*TEXT*\"/': a marker with this text, ..."),
	OPTION(0, "to-marker", OPT_STR, struct blame_opts_given, to_marker, "TEXT",
	       "... and --to-event"),
	VM_OPTION(struct blame_opts_given, v.vm),
	OPTION('v', "vcpu", OPT_U64, struct blame_opts_given, vcpu, "N", "only this vCPU"),
	VIEW_WINDOW_OPTIONS(struct blame_opts_given),
	OPTION(0, "last", OPT_DURATION, struct blame_opts_given, last, "D",
	       "only what reaches into the last D of HOST; for a flight recorder: into the last D\n"
	       "before its last snapshot"),
	VIEW_CLOCK_OPTION(struct blame_opts_given),
	OPTION('C', "context", OPT_U64, struct blame_opts_given, context, "N",
	       "show the timeline of each, with N lines before and after"),
	OPTION_LISTED(0, "format", OPT_WORD, struct blame_opts_given, format, "FORMAT", cli_formats,
		      "how to print (default: text)"),
	VIEW_CLOCKS_OPTIONS(struct blame_opts_given),
	VIEW_NAMING_OPTION(struct blame_opts_given), /* record --blame's: the last second */
	OPT_END,
};

static void blame_defaults(void *opts)
{
	struct blame_opts_given *o = opts;

	o->context.v = 3;
}

struct blame_cmd {
	const struct blame_opts_given *o;
	struct blaming b;
	struct view v;
	struct view_opts vo; /* --budget is a --than */
	struct blame_view show;
	struct lat_story *story;
};

static int blame_check(struct blame_cmd *m)
{
	const struct blame_opts_given *o = m->o;

	m->vo = o->v;
	if (o->budget.set)
		m->vo.than = o->budget;
	m->b.o.what = o->what;
	m->show.by = o->by < 0 ? BLAME_BY_LENGTH : (enum blame_by)o->by;
	if (o->spans.from && o->what)
		return err_usage(m->v.err, "--what: --from-event shows only these");
	if (o->budget.set && (o->v.than.set || o->at || o->by > BLAME_BY_LENGTH))
		return err_usage(m->v.err, "--budget excludes --than, --at and another --by");
	if (o->at && (o->v.from || o->v.to))
		return err_usage(m->v.err, "--at excludes --from and --to");
	if (o->last.set && (o->at || o->v.from || o->v.to))
		return err_usage(m->v.err, "--last excludes --at, --from and --to");
	if (o->top.v > BLAME_TOP_MAX)
		return err_usage(m->v.err, "--top: 1 to %u", BLAME_TOP_MAX);
	if (o->context.v > CONTEXT_MAX)
		return err_usage(m->v.err, "--context: %u at most", CONTEXT_MAX);
	if (o->context.set && (m->show.by >= BLAME_BY_CAUSE || (o->format && !strcmp(o->format, "csv"))))
		return err_usage(m->v.err, "--context: neither csv nor tables of --by have timelines");
	m->b.o.top = o->top.set ? o->top.v : m->show.by >= BLAME_BY_CAUSE ? BLAME_TOP_MAX : TOP;
	m->b.o.spans = o->spans;
	return top_check(&o->top, m->v.err) ?: spans_check(&o->spans, m->v.err) ?:
	       only_vcpu(&o->vcpu, &m->b.o.vcpu, m->v.err);
}

/* All of the captures is looked at: what reaches to that time may have begun long before. */
static int blame_when(struct blame_cmd *m)
{
	const struct capture *c = m->v.p->host.cap;
	uint64_t khz = c->tsc_khz ?: 2000000, first;
	int ret;

	m->b.o.from = m->v.from;
	m->b.o.to = m->v.to;
	m->v.from = 0;
	m->v.to = UINT64_MAX;
	if (m->o->last.set) {
		uint64_t end = c->snapshot_tsc ?: c->stop_tsc ?: c->end_tsc;
		unsigned __int128 last = (unsigned __int128)m->o->last.v * c->tsc_khz / 1000000;

		/* Events from before the previous snapshot belong to another time. */
		if (!end || !c->tsc_khz || !cap_in_tsc(c))
			return err_lack(
				m->v.err, ENODATA,
				"--last: %s does not say when its recording ended, in its own "
				"clock: use --from",
				c->path);
		m->b.o.from = last < end ? end - (uint64_t)last : 0;
		m->v.from = c->before_snapshot_tsc;
		tl_follow_no_end(m->v.p->t); /* a recorder that goes on is not waited for */
		return 0;
	}
	if (!m->o->at)
		return 0;
	ret = window_span(&m->v.clock, "at", m->o->at, &first, &m->b.o.at, m->v.err);
	m->b.o.near = khz * NEAR_MS;
	m->b.o.has_at = m->b.o.at - first <= m->b.o.near;
	if (!ret && !m->b.o.has_at) { /* a whole second or minute: the worst in it first */
		m->b.o.from = first;
		m->b.o.to = m->b.o.at;
	}
	return ret;
}

static int blame_open(struct blame_cmd *m, int argc, char **argv)
{
	uint64_t khz;
	int ret;

	m->v = (struct view){
		.o = &m->vo, .err = m->v.err, .note = cli_note, .names = true,
		.cycles = m->vo.than.set ? NULL : "times are in cycles",
		.need = { .need = PAIRING_CLOCKS, .guest_alone = true },
	};
	ret = view_open(&m->v, argv, (size_t)argc);
	if (ret)
		return ret;
	khz = m->v.p->host.cap->tsc_khz;
	m->b.o.than = (uint64_t)((unsigned __int128)m->vo.than.v * khz / 1000000) +
			m->o->budget.set; /* all of it may be used */
	m->b.o.vm = m->v.vm;
	return blame_when(m) ?: blaming_begin(&m->b);
}

static int blame_stories(struct blame_cmd *m)
{
	size_t n = blame_spikes(m->b.b);
	struct story *s = xcalloc(n + 1, sizeof(*s));
	int before = tl_error(m->v.p->t);
	uint64_t from, to;
	int ret = 0;

	m->story = xcalloc(n + 1, sizeof(*m->story));
	for (size_t i = 0; i < n; i++) {
		const struct blame_spike *k = blame_spike(m->b.b, i);

		s[i] = (struct story){ k->vm, k->begin, k->end, &m->story[i] };
	}
	if (blame_window(m->b.b, &from, &to)) {
		ret = view_again(&m->v, from, UINT64_MAX);
		ret = ret ?: stories_tell(s, n, m->v.p->t, &m->v.clock, m->o->file.page.color,
					 m->o->context.v);
		ret = ret || before ? ret : tl_error(m->v.p->t);
	}
	free(s);
	m->show.story = m->story;
	return err_why(m->v.err, ret, "cannot read the captures a third time");
}

/* Of the kinds that were requested by name: what the captures lack for them, if for all. */
static const char *blame_tell_lacks(const struct blame_cmd *m, const char **kind)
{
	const char *first = NULL;

	*kind = "";
	for (unsigned int k = 0; k < BLAME_EVENT; k++) {
		const char *why = blame_lacks(m->b.b, (enum blame_what)k);

		if (!(m->b.o.what >> k & 1))
			continue;
		if (!why && !m->o->budget.set) /* else all of them are meant */
			return NULL;
		if (why && !first)
			*kind = blame_whats[k].name;
		first = first ?: why;
	}
	return first;
}

static int no_spikes(const struct blame_cmd *m)
{
	const struct blame_opts_given *o = m->o;
	const char *kind, *why = blame_tell_lacks(m, &kind);
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (why)
		return err_lack(m->v.err, ENODATA, "%s: %s", kind, why);
	if (!blame_saw_vcpu(m->b.b, -1) && hostmap_floating(m->v.p->map))
		return err_lack(m->v.err, ENODATA, "%s: " HOSTMAP_FLOATING,
				hostmap_floating(m->v.p->map));
	if (!blame_saw_vcpu(m->b.b, m->b.o.vcpu) && o->vcpu.set)
		return err_set(m->v.err, ENODATA, "no event of a vCPU that --vcpu names was found");
	if (!blame_saw_vcpu(m->b.b, -1) || (!m->v.p->map->entries && !blame_measured(m->b.b)))
		return err_lack(m->v.err, ENODATA, "no entry of a vCPU was found: no VM ran, or "
				"kvm_entry and kvm_exit were not recorded (see kvmft check)");
	if (m->b.o.spans.from && blame_spans_unmet(m->b.b, &b))
		return err_lack(m->v.err, ENODATA, "%s", b.s);
	if (o->at)
		return err_set(m->v.err, ENODATA, "no vCPU is known at %s: there are no events "
						"around that time", o->at);
	if (o->budget.set && !blame_measured(m->b.b))
		return err_lack(m->v.err, ENODATA, "nothing was measured%s",
				o->what ? " of what --what asks for" : "");
	if (!o->v.quiet || o->v.naming)
		cli_note("nothing was late%s%s", o->budget.set ? " by as much as --budget says" :
						 o->v.than.set ? " by as much as --than says" : "",
			 o->what ? ", among what --what asks for" : "");
	if (!o->v.quiet && o->budget.set && blame_spans_open(m->b.b))
		cli_note("%llu had begun and did not end in the recording: not measured",
			 (unsigned long long)blame_spans_open(m->b.b));
	return 0;
}

/* Whose time the worst was: 0, or what makes the exit status 1. */
static int over_budget(const struct blame_cmd *m)
{
	const struct blame_spike *s = blame_spikes(m->b.b) ? blame_spike(m->b.b, 0) : NULL;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint64_t khz = m->v.p->host.cap->tsc_khz, over = 0, left;
	char time[32];

	if (!m->o->budget.set || !s)
		return 0;
	for (unsigned int w = 0; w < BLAME_WHATS; w++)
		over += blame_count(m->b.b, (enum blame_what)w);
	left = s->end - s->begin;
	for (unsigned int c = 0; left && c < BLAME_CAUSES; c++) {
		const char *whose = blame_causes[c].whose;
		uint64_t sum = 0;

		/* All causes of one, at the first of them. */
		for (size_t i = 0; i < s->nparts; i++)
			if (!strcmp(blame_causes[s->part[i].cause].whose, whose))
				sum += s->part[i].time;
		if (!sum || (b.s && strstr(b.s, whose)))
			continue;
		str_ns(time, sizeof(time), tsc_cycles_to_ns(sum, khz));
		sbuf_addf(&b, "%s %s %s", b.s ? "," : "", whose, time);
		left -= MIN(left, sum);
	}
	str_ns(time, sizeof(time), tsc_cycles_to_ns(s->end - s->begin, khz));
	err_set(m->v.err, ERANGE, "%llu of %llu over the budget; the worst is %s%s:%s",
		(unsigned long long)over, (unsigned long long)blame_measured(m->b.b), time,
		s->sure ? "" : ", not sure", b.s ?: "");
	if (m->o->v.naming)
		m->v.err->code = SIDES_OVER;
	return -ERANGE;
}

/* Nothing was over the budget by the stamps of guests: 0, or the first whose stamps are wrong. */
static int budget_sure(const struct blame_cmd *m)
{
	for (size_t i = 0; m->o->budget.set && m->v.w && i < m->v.p->nguest; i++) {
		const struct hostmap_vm *vm = &m->v.p->map->vm[m->v.p->guest[i].vm];
		struct win_stats s;

		win_total(m->v.w, (int64_t)m->v.p->guest[i].vm, &s);
		if (s.outside && (m->b.o.vm < 0 || (int64_t)vm->of == m->b.o.vm))
			return err_lack(m->v.err, ERANGE,
					"%s is misaligned: whether it kept the budget cannot be "
					"told (see kvmft verify)",
					vm->label);
	}
	return 0;
}

/* rows: for a sum; NULL: none is wanted. */
static int blame_this(const struct blame_opts_given *opts, int argc, char **argv,
		      struct sbuf *rows, struct kvmft_err *err)
{
	struct blame_cmd m = { .o = opts, .v.err = err };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	bool complete = true;
	int ret;

	m.b.v = &m.v;
	ret = blame_check(&m);
	ret = ret ?: blame_open(&m, argc, argv);
	ret = ret ?: blaming_find(&m.b);
	if (!ret) {
		ret = view_tell(&m.v, opts->v.quiet, &complete);
		(void)guest_syms_whole(&m.v.syms, NULL);
	}
	ret = ret ?: blaming_explain(&m.b);
	if (!ret && !blame_spikes(m.b.b)) {
		ret = budget_sure(&m) ?: no_spikes(&m);
		if (ret && opts->budget.set) /* which was not exceeded then, nor kept */
			ret = err_lack(err, ret, "%s", err->text);
	}
	if (!ret && m.o->context.set)
		ret = blame_stories(&m);
	if (!ret) {
		m.show.blame = m.b.b;
		m.show.t = m.v.p->t;
		m.show.clock = &m.v.clock;
		m.show.bound = m.b.bound;
		m.show.at = m.b.o.has_at;
		m.show.color = opts->file.page.color;
		m.show.width = opts->file.page.width;
		blame_print(&m.show, opts->format ?: "text", &b);
		ret = view_output(&m.v, NULL, NULL, opts->file.page.f) ?:
		      view_end(&m.v, sbuf_write(&b, m.v.f));
	}
	/* Symbols are read as they are needed. */
	complete &= guest_syms_whole(&m.v.syms, cli_note);
	ret = ret ?: over_budget(&m);
	if (!ret && rows) {
		uint64_t khz = m.v.p->host.cap->tsc_khz;

		/* A row for each spike: the sum counts them by cause. */
		for (size_t i = 0; khz && i < blame_spikes(m.b.b); i++) {
			const struct blame_spike *s = blame_spike(m.b.b, i);
			uint64_t ns = tsc_cycles_to_ns(s->end - s->begin, khz);
			struct many_row r = {
				.n = 1, .timed = 1, .total = ns, .min = ns, .max = ns
			};

			snprintf(r.name, sizeof(r.name), "%s", blame_causes[s->cause].name);
			sbuf_add_mem(rows, &r, sizeof(r));
		}
	}
	for (size_t i = 0; m.story && i < blame_spikes(m.b.b); i++)
		free(m.story[i].text);
	free(m.story);
	blaming_free(&m.b);
	view_close(&m.v);
	return sink_exit(ret, complete);
}

/* One of many: a session, or the capture of a host alone. */
static int blame_one(void *ctx, const char *input, FILE *out, struct sbuf *rows,
		     struct kvmft_err *err)
{
	struct blame_opts_given given = *(const struct blame_opts_given *)ctx;
	_cleanup_free_ char *word = xstrdup(input);
	char *argv[] = { word, NULL };
	struct operands o = { .argc = 1, .argv = argv };
	int ret = captures_first(NULL, &o, err);

	given.file.page.f = out;
	ret = ret ?: blame_this(&given, o.argc, o.argv, rows, err);
	return operands_end(&o, ret);
}

/* Several sessions, or a directory of them: each by itself; else all captures are of one host. */
static int blame_sessions(void *opts, struct operands *o, struct kvmft_err *err)
{
	struct blame_opts_given *b = opts;
	_cleanup_(session_free) struct session s = { 0 };
	struct kvmft_err none = { .text = "" };
	bool trees = o->argc > 0;
	int ret = 0;

	if (!o->argc && !b->given.n)
		return err_usage(err, "operands are missing: kvmft blame [OPTIONS] %s%s", BLAME_ARGS,
				 cli_input_here());
	for (int i = 0; i < o->argc; i++)
		trees = trees && captures_tree(o->argv[i]);
	if (!b->given.n && (!trees || (o->argc == 1 && !session_ask(o->argv[0], &s, &none) &&
				       s.n && s.named)))
		return captures_first(opts, o, err);
	for (size_t i = 0; i < b->given.n && !ret; i++)
		ret = captures_below(o, b->given.v[i], true, &b->inputs, err);
	for (int i = 0; i < o->argc && !ret; i++)
		ret = captures_below(o, o->argv[i], true, &b->inputs, err);
	o->argc = 0;
	if (ret || b->inputs.n > 1)
		return ret;
	o->argv = (char **)b->inputs.v;
	o->argc = 1;
	return captures_first(opts, o, err);
}

static int blame_output(void *opts, int argc, struct kvmft_err *err)
{
	struct blame_opts_given *o = opts;
	struct blame_cmd m = { .o = o, .v.err = err };
	const char *text[2] = { o->from_marker, o->to_marker };
	int ret;

	/* --from-marker and --to-marker, as events with a filter. */
	for (int i = 0; i < 2 && (text[0] || text[1]); i++)
		if (!text[i] || !text[i][0] || strlen(text[i]) > 200 || strpbrk(text[i], "\"*?[\\"))
			return err_usage(err, "--from-marker and --to-marker: both are needed, each of 1 to 200 "
					 "letters without any of \"*?[\\: else --from-event");
		else
			snprintf(o->marker[i], sizeof(o->marker[i]), "ftrace:print/buf ~ \"*%s*\"/", text[i]);
	if ((text[0] || text[1]) && (o->spans.from || o->spans.to))
		return err_usage(err, "--from-marker and --from-event exclude each other");
	if (text[0] || text[1])
		o->spans = (struct spans_opts){ o->marker[0], o->marker[1], o->spans.key };
	ret = sink_file_open(opts, argc, err);

	if (o->v.naming && !o->at && !o->v.from && !o->v.to && !o->last.set)
		o->last = (struct opt_u64){ .v = 1000000000, .set = true };
	if (ret || o->inputs.n < 2)
		return ret;
	if (o->at || o->budget.set)
		return err_usage(err, "--%s takes one session at a time", o->at ? "at" : "budget");
	ret = blame_check(&m);
	return ret ?: many_begin(&o->inputs, blame_one, o, cli_note, &o->many, err);
}

static int blame_release(void *opts)
{
	struct blame_opts_given *o = opts;

	many_end(o->many);
	free(o->inputs.v);
	return sink_file_close(opts);
}

static int blame_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct blame_opts_given *o = opts;
	const struct many_doc d = {
		.format = o->format ?: "text", .f = o->file.page.f, .title = "Cause",
		.what = "Spikes", .times = "total time", .of = "spikes", .key = KEY_TIME,
	};

	return o->many ? many_print(o->many, &d, err) : blame_this(o, argc, argv, NULL, err);
}

const struct cmd cmd_blame = {
	.name = "blame",
	.summary = "the worst moments of a guest, and what each is due to",
	.args = BLAME_ARGS,
	.description =
		"HOST and GUEST are captures as for merge. Every moment is divided into what the vCPU did\n"
		"meanwhile; the largest part is its cause. Which other tasks had the CPU is known in full if\n"
		"all of the host's switches were recorded:\n\n"
		"kvmft record -e default -e sched:sched_switch\n\n"
		"Several sessions, or directories of them, get a list for each, and one for all.",
	.examples = "  kvmft blame host guest\n"
		    "  kvmft blame --than 1ms --by cause run\n"
		    "  kvmft blame --at 12.345 -C 5 run\n"
		    "  kvmft blame --from-event 'print/buf ~ \"*begin*\"/' \\\n"
		    "        --to-event 'print/buf ~ \"*end*\"/' run\n"
		    "  kvmft blame --by cause -i day/*/         # each capture by itself",
	.opts = blame_options,
	.groups = "input at than budget top by what vm from to last context format\n"
		  "from one event to another: from-event to-event key from-marker to-marker\n"
		  "two clocks: tsc-offset tsc-ratio solve\n"
		  "output: vcpu clock",
	.syms = offsetof(struct blame_opts_given, v.syms),
	READS(struct blame_opts_given),
	.defaults = blame_defaults,
	.sessions = blame_sessions,
	.run = blame_run,
	.output = blame_output,
	.release = blame_release,
	.max_args = -1,
};
