/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * latency.c: `kvmft latency irq|sched|io|timer|mem|net HOST GUEST`, answers about times across both
 * sides.
 */
#include "cmds.h"

#define WORST_MAX   100000u
#define CONTEXT_MAX 1000u

struct latency_opts {
	struct sink_file file; /* first */
	struct view_opts v;
	const char *format;
	struct opt_u64 vcpu, worst, context, grain;
	uint32_t by;
	struct spans_opts spans;
	bool all;
	int waits; /* of `report --waits`: enum lat_waits_by + 1 */
	size_t top;
};

static const struct opt latency_options[] = {
	VM_OPTION(struct latency_opts, v.vm),
	OPTION('v', "vcpu", OPT_U64, struct latency_opts, vcpu, "N", "only this vCPU"),
	VIEW_WINDOW_OPTIONS(struct latency_opts),
	OPTION(0, "than", OPT_DURATION, struct latency_opts, v.than, "D",
	       "among the worst, show only what took this long or longer: 100us, 2ms"),
	OPTION(0, "worst", OPT_U64, struct latency_opts, worst, "N",
	       "how many of the worst are shown (default: 3; 0: none)"),
	OPTION_LISTED(0, "by", OPT_WORDS, struct latency_opts, by, "LIST", lat_mem_by_names,
		      "mem: group also by these (default: task,thread,move)"),
	OPTION(0, "grain", OPT_SIZE, struct latency_opts, grain, "SIZE",
	       "mem, --by gpa: memory per row (default: 64M)"),
	OPTION(0, "host", OPT_LIST, struct latency_opts, v.host, "HOST2",
	       "mem: the host that the VM moved to; may be repeated, in that order"),
	SPANS_OPTIONS(struct latency_opts, spans),
	OPTION('C', "context", OPT_U64, struct latency_opts, context, "N",
	       "show N lines of the timeline before and after each of the worst (default: 3)"),
	OPTION_NAMED(0, "format", OPT_WORD, struct latency_opts, format, "FORMAT", lat_format_name,
		     "how to print (default: text); html: a page to look at"),
	OPTION('o', "output", OPT_STR, struct latency_opts, file.path, "OUT",
	       "write to this new file (default: standard output)"),
	VIEW_CLOCK_OPTION(struct latency_opts),
	VIEW_CLOCKS_OPTIONS(struct latency_opts),
	VIEW_TRACES_OPTIONS(struct latency_opts,
			    "a trace that QEMU wrote, for io: simple, log, syslog or ust; may be "
			    "repeated"),
	OPTION(0, "force", OPT_FLAG, struct latency_opts, file.force, NULL,
	       "replace an existing OUT"),
	OPTION(0, "all", OPT_FLAG, struct latency_opts, all, NULL,
	       "text: each group with its stages, distributions, and the timeline\n"
	       "around the worst"),
	OPT_END,
};

static void latency_defaults(void *opts)
{
	struct latency_opts *o = opts;

	o->worst.v = 3;
	o->context.v = 3;
}

struct latency {
	const struct latency_opts *o;
	struct view v, again; /* again: what is shown beside the results */
	struct lat *lat;
	struct lat_opts lo;
	struct processes *processes; /* NULL: not wanted */
	char *spikes; /* of a page, as JSON */
};

static const char *kind_name(size_t i)
{
	return i < LAT_EVENT ? lat_kind_names[i] : i == LAT_EVENT ? "all" : NULL;
}

static const struct opt latency_kinds = {
	.type = OPT_WORDS, .arg = "KIND,...", .help = "what to analyze", .word = kind_name,
};

/* With --from-event the first operand may be HOST. */
static bool has_kinds(const struct latency_opts *o, const char *operand)
{
	struct kvmft_err err = { 0 };
	uint32_t bits;

	return !o->spans.from || !cli_words(&latency_kinds, operand, &bits, &err);
}

static int latency_check(struct latency *m, const char *kinds)
{
	const struct latency_opts *o = m->o;
	uint32_t bits = 0;
	int ret = kinds ? cli_words(&latency_kinds, kinds, &bits, m->v.err) : 0;

	if (ret && !access(kinds, F_OK))
		return err_usage(m->v.err, "what is measured stands before the recordings: kvmft "
				 "latency all %s", kinds);
	ret = ret ?: spans_check(&o->spans, m->v.err);
	if (ret)
		return ret;
	for (unsigned int k = 0; k < LAT_EVENT; k++)
		m->lo.want[k] = (bits >> k | bits >> LAT_EVENT) & 1;
	m->lo.want[LAT_WAIT] = o->waits;
	m->lo.waits_by = (enum lat_waits_by)(MAX(o->waits, 1) - 1);
	m->lo.spans = o->spans;
	m->lo.mem_by = o->by ?: 1u << MEM_BY_task | 1u << MEM_BY_thread | 1u << MEM_BY_move;
	if (o->worst.v > WORST_MAX || o->context.v > CONTEXT_MAX)
		return err_usage(m->v.err, "--worst: %u, --context: %u at most", WORST_MAX,
				 CONTEXT_MAX);
	m->lo.than_ns = o->v.than.v;
	m->lo.worst = o->worst.v;
	m->lo.grain = o->grain.v;
	if ((o->by || o->grain.set) && !m->lo.want[LAT_MEM])
		return err_usage(m->v.err, "--by and --grain are only for mem");
	for (unsigned int k = 0; k < LAT_KINDS && o->v.host.n; k++)
		if (m->lo.want[k] != (k == LAT_MEM))
			return err_usage(m->v.err, "--host is of mem alone");
	if (o->grain.set && o->grain.v < 4096)
		return err_usage(m->v.err, "--grain: at least 4096, a page");
	if (o->grain.set && !(m->lo.mem_by >> (LAT_T_MEM_GPA - LAT_T_MEM_VCPU) & 1))
		return err_usage(m->v.err, "--grain is only for --by gpa");
	return only_vcpu(&o->vcpu, &m->lo.vcpu, m->v.err);
}

/* Nothing was measured: what the captures lack, or what became of what they have. */
static int no_result(const struct latency *m)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const char *what = m->o->waits ? "halts" : "such events";
	bool part = m->lo.vm >= 0 || m->lo.vcpu >= 0 || m->o->v.from || m->o->v.to;

	if (lat_left_out(m->lat, LAT_EVENT))
		return err_lack(m->v.err, ENODATA, "%s", lat_left_out(m->lat, LAT_EVENT));
	for (unsigned int kind = 0, n = 0; kind < LAT_KINDS; kind++)
		if (m->lo.want[kind])
			what = n++ ? "events of any of these kinds" :
			       kind == LAT_IO ? "block requests" : what;
	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		const struct lat_table *t = lat_table(m->lat, (enum lat_table_id)id);

		/* Counted for all vCPUs; that is no answer for one. */
		if (m->o->vcpu.set && (id == LAT_T_NET_RX || id == LAT_T_NET_TX))
			continue;
		if (!lat_has_table(m->lat, (enum lat_table_id)id) || !t->count[0])
			continue;
		sbuf_addf(&b, "%s%s: ", b.len ? ". " : "", t->desc->name);
		lat_counts_text(t, &b);
	}
	if (b.s)
		return err_lack(m->v.err, ENODATA, "nothing could be measured. %s", b.s);
	if (!part && hostmap_floating(m->v.p->map))
		return err_lack(m->v.err, ENODATA, "%s: " HOSTMAP_FLOATING,
				hostmap_floating(m->v.p->map));
	if (!part)
		return err_lack(m->v.err, ENODATA, "nothing to measure: the captures hold no %s", what);
	return err_set(m->v.err, ENODATA, "nothing to measure: the captures hold no %s%s%s", what,
		       m->lo.vcpu >= 0 ? " of the vCPU that --vcpu names" :
		       m->lo.vm >= 0   ? " of the VM that --vm names" :
					 "",
		       m->o->v.from || m->o->v.to ? " in that time" : "");
}

/* The timeline of all captures and traces, started. */
static int latency_open(struct latency *m, struct view *v, int argc, char **argv)
{
	const struct view_opts *o = &m->o->v;

	*v = (struct view){
		.o = o, .err = m->v.err, .note = cli_note, .moved = o->vm ?: "", .traces = true,
		.cycles = o->than.set ? NULL : "times are in cycles",
		.need = { .need = PAIRING_CLOCKS, .guest_alone = true,
			  .related = o->qemu.n || o->host.n },
	};
	if (v == &m->again) {
		v->like = &m->v;
		v->names = true;
	}
	return view_open(v, argv, (size_t)argc) ?: view_start(v);
}

/* -errno: what was read the first time could not be read again. */
static int error_again(const struct latency *m)
{
	const struct timeline *first = m->v.p->t, *again = m->again.p->t;
	size_t more = 0;

	for (size_t i = 0; i < tl_sources(again); i++)
		more += tl_source(again, i)->cap->ndamage - tl_source(first, i)->cap->ndamage;
	if ((ssize_t)more > 0)
		return -EIO;
	return tl_error(first) ? 0 : tl_error(again);
}

/* What both sides did during each of the worst cases. */
static int latency_stories(const struct latency *m, struct lat_view *v)
{
	struct story *s = xcalloc(LAT_TABLES * m->lo.worst + 1, sizeof(*s));
	size_t n = 0;
	int ret;

	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		const struct lat_table *t = lat_table(m->lat, (enum lat_table_id)id);

		if (!lat_has_table(m->lat, (enum lat_table_id)id) || !t->nworst ||
		    id == LAT_T_STEALER)
			continue;
		v->story[id] = xcalloc(t->nworst, sizeof(*v->story[id]));
		for (size_t i = 0; i < t->nworst; i++) {
			const struct lat_case *c = &t->worst[i];

			s[n++] = (struct story){ c->vm, c->begin, c->end, &v->story[id][i] };
		}
	}
	ret = stories_tell(s, n, m->again.p->t, v->clock, v->color, m->o->context.v);
	ret = ret ?: error_again(m);
	free(s);
	return ret;
}

static int latency_show(struct latency *m, int argc, char **argv)
{
	const struct lat_format *fmt = lat_format_find(m->o->format ?: "text");
	struct lat_view v = {
		.lat = m->lat, .t = m->v.p->t, .clock = &m->v.clock, .want = lat_answers(m->lat),
		.all = m->o->all, .worst = m->o->worst.v, .rows = m->o->top,
		.color = m->o->file.page.color, .width = m->o->file.page.width,
	};
	bool text = !strcmp(fmt->name, "text");
	bool stories = m->lo.worst && !fmt->page && strcmp(fmt->name, "csv") &&
		       strcmp(fmt->name, "openmetrics") &&
		       (!text || m->o->all || m->o->context.set);
	struct lat_bound *bound = lat_bounds(m->v.p, m->v.w);
	struct view *to = stories || fmt->page ? &m->again : &m->v;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = 0;

	v.bound = bound;
	for (size_t i = 0; m->lo.vm >= 0 && i < m->v.p->map->nvm; i++)
		if (m->v.p->map->vm[i].of != (size_t)m->lo.vm)
			bound[i] = (struct lat_bound){ 0 };
	if (fmt->page) /* The time line of the results is not needed any more. */
		ret = blaming_json(&m->v, &m->spikes);
	if (!ret && to != &m->v)
		ret = latency_open(m, to, argc, argv);
	if (to->p)
		v.clock = &to->clock;
	if (!ret && stories)
		ret = err_why(m->v.err, latency_stories(m, &v),
			      "cannot read the captures a second time");
	if (!ret && !fmt->page)
		fmt->print(&v, &b);
	ret = ret ?: view_output(to, NULL, m->o->file.out, m->o->file.page.f);
	if (!ret && fmt->page) { /* all events of both sides, again, and the results beside them */
		fmt->print(&v, &b);
		ret = error_again(m);
		if (!ret) {
			out_begin(&to->out, to->p->t, out_format_find(fmt->name), v.clock, to->f);
			out_html_latency(&to->out, xsbuf_text(&b));
			out_html_spikes(&to->out, m->spikes);
		}
		ret = ret ?: tl_walk(to->p->t, TL_ITEM(out_item, &to->out));
		ret = view_end(to, ret ?: error_again(m));
	} else if (!ret) {
		ret = view_end(to, sbuf_write(&b, to->f));
	}
	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		for (size_t i = 0;
		     v.story[id] && i < lat_table(v.lat, (enum lat_table_id)id)->nworst; i++)
			free(v.story[id][i].text);
		free(v.story[id]);
	}
	free(bound);
	return ret;
}

static int latency_sessions(void *opts, struct operands *o, struct kvmft_err *err)
{
	struct latency_opts *l = opts;

	qemu_traces_events(&l->v);
	return out_format_of(l->file.path, lat_format_name, &l->format, err) ?:
	       captures_at(o, has_kinds(opts, o->argv[0]), err);
}

static void wait_ran(void *ctx, size_t vm, uint32_t vcpu, const struct process_row *r)
{
	char who[32] = LAT_NOT_SEEN;

	if (r && r->kind == PROCESS_SPACE)
		snprintf(who, sizeof(who), "as-%u", r->number);
	else if (r)
		strcpy(who, r->kind == PROCESS_KERNEL ? "(kernel)" : "(its guests)");
	lat_waits_ran(ctx, vm, vcpu, r ? r->number + (uint64_t)r->kind + 1 : 0, who);
}

static int latency_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	struct latency m = { .o = opts, .v.err = err };
	bool complete = true, any = false;
	struct lat_times times;
	const char *kinds = !m.o->waits && has_kinds(opts, argv[0]) ? argv[0] : NULL;
	int ret = latency_check(&m, kinds);

	argc -= !!kinds;
	argv += !!kinds;
	if (!ret && !argc)
		ret = err_usage(err, "operands are missing: kvmft latency %s HOST [GUEST[=SEL]]...%s",
				kinds, cli_input_here());
	ret = ret ?: latency_open(&m, &m.v, argc, argv);
	ret = ret ?: outfile_check(m.o->file.out, NULL, m.v.p->t, m.o->v.trace_events, err);
	m.lo.vm = m.v.vm;
	ret = ret ?: lat_new(m.v.p->t, &m.lo, &m.lat, err);
	/* Waits by process: what those are must be known before. */
	if (!ret && m.o->waits == WAITS_BY_PROCESS + 1) {
		processes_new(m.v.p->t, m.lo.vm, &m.processes);
		m.processes->ran = wait_ran;
		m.processes->ctx = m.lat;
		ret = process_check(m.v.p, m.processes, false, err) ?:
		      process_learn(&m.v, m.processes);
	}
	if (!ret) {
		ret = view_walk(&m.v, TL_FEED(processes_feed, m.processes),
				TL_FEED(lat_feed, m.lat));
		lat_finish(m.lat);
		ret = err_why(err, ret, "cannot read the captures");
	}
	if (!ret) {
		ret = view_tell(&m.v, m.o->v.quiet, &complete);
		(void)qemu_traces_summary(&m.v.q, m.v.p->t, m.o->v.quiet);
		for (unsigned int k = 0; k < LAT_KINDS; k++) {
			const char *why = lat_left_out(m.lat, k);
			const bool named = k == LAT_EVENT || !kinds || strcmp(kinds, "all");

			if (why && k != LAT_EVENT && (named || !m.o->v.quiet))
				cli_note("%s is left out: %s", lat_kind_names[k], why);
			complete &= !why || !named;
		}
		for (unsigned int id = 0; id < LAT_TABLES; id++)
			any |= lat_has_table(m.lat, (enum lat_table_id)id) &&
			       lat_table(m.lat, (enum lat_table_id)id)->ngroup;
		/* That a vCPU was never robbed is an answer, too. */
		for (size_t i = 0; lat_answers(m.lat)[LAT_SCHED] && i < lat_vcpus(m.lat); i++)
			any |= lat_vcpu_times(m.lat, i, &times);
		if (!ret && !any)
			ret = no_result(&m);
	}
	ret = ret ?: latency_show(&m, argc, argv);
	complete &= guest_syms_whole(&m.again.syms, cli_note);
	ret = ret ?: outfile_commit(m.o->file.out, 0, NULL, err);
	free(m.spikes);
	processes_free(m.processes);
	lat_free(m.lat);
	view_close(&m.again);
	view_close(&m.v);
	return sink_exit(ret, complete);
}

int report_waits(const struct process_opts *p, struct kvmft_err *err)
{
	struct latency_opts o = {
		.file.page = *p->page,
		.v = { .vm = p->vm, .khz = *p->khz, .clock = -1 },
		.format = p->format, .worst.v = MIN(p->top ?: 3, (size_t)WORST_MAX),
		.waits = p->waits, .top = p->top ?: SIZE_MAX,
	};

	return latency_run(&o, (int)p->nguest + 1, p->captures, err);
}

const struct cmd cmd_latency = {
	.name = "latency",
	.summary = "what delayed interrupts, tasks, I/O, timers, memory, packets",
	.args = "irq|sched|io|timer|mem|net|all HOST [GUEST[=SEL]]...",
	.description =
		"HOST and GUEST are captures as for merge. Several analyses may be named with commas between\n"
		"them; all are made in one pass. Some need more than the default events: mem on the host (to\n"
		"tell why), net on both sides:\n\n"
		"kvmft record -e default -e mem\n\n"
		"kvmft record -e default -e net",
	.examples = "  kvmft latency irq host guest\n"
		    "  kvmft latency io --than 2ms --worst 5 host guest\n"
		    "  kvmft latency all --from 12.5 --to 13 host guest\n"
		    "  kvmft latency mem --by gpa,time host\n"
		    "  kvmft latency net --than 1ms host guest\n"
		    "  kvmft latency io --qemu qemu.log host guest\n"
		    "  kvmft latency --from-event kvm_exit --to-event kvm_entry --key vcpu_id host\n"
		    "  kvmft latency sched,timer host            # what the host alone can tell",
	.opts = latency_options,
	.groups = "vm vcpu from to than worst by context format output all\n"
		  "from any event to any other: from-event to-event key\n"
		  "two clocks: host tsc-offset tsc-ratio solve\n"
		  "QEMU's own events: qemu\n"
		  "output: clock grain force",
	.first = &latency_kinds,
	.syms = offsetof(struct latency_opts, v.syms),
	PRINTS(struct latency_opts),
	.defaults = latency_defaults,
	.sessions = latency_sessions,
	.run = latency_run,
	.min_args = 1,
	.max_args = -1,
};
