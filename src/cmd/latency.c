/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * latency.c: `kvmft latency irq|sched|io|timer|mem|net HOST GUEST`, answers about times across both
 * sides.
 */
#include "captures.h"
#include "cmds.h"
#include "options.h"
#include "kvmft/results.h"
#include "kvmft/proof.h"
#include "kvmft/pairing.h"
#include "report.h"

#define WORST_MAX   100000u
#define CONTEXT_MAX 1000u

struct latency_opts {
	struct sink_file file; /* first */
	const char *vm, *format, *from, *to;
	struct opt_u64 vcpu, than, worst, context, khz, grain;
	uint32_t by;
	const char *trace_events;
	struct spans_opts spans;
	int clock;
	struct pairing_clock pair;
	struct guest_syms_opts syms;
	struct str_list qemu, host;
	bool quiet, all;
	int waits; /* of `report --waits`: enum lat_waits_by + 1 */
	size_t top;
};

static const struct opt latency_options[] = {
	VM_OPTION(struct latency_opts, vm),
	OPTION('v', "vcpu", OPT_U64, struct latency_opts, vcpu, "N", "only this vCPU"),
	OPTION(0, "from", OPT_STR, struct latency_opts, from, "T", WINDOW_HELP_FROM),
	OPTION(0, "to", OPT_STR, struct latency_opts, to, "T", WINDOW_HELP_TO),
	OPTION(0, "than", OPT_DURATION, struct latency_opts, than, "D",
	       "among the worst, show only what took this long or longer: 100us, 2ms"),
	OPTION(0, "worst", OPT_U64, struct latency_opts, worst, "N",
	       "how many of the worst are shown (default: 3; 0: none)"),
	OPTION_LISTED(0, "by", OPT_WORDS, struct latency_opts, by, "LIST", lat_mem_by_names,
		      "mem: group also by these (default: task,thread,move)"),
	OPTION(0, "grain", OPT_SIZE, struct latency_opts, grain, "SIZE",
	       "mem, --by gpa: memory per row (default: 64M)"),
	OPTION(0, "host", OPT_LIST, struct latency_opts, host, "HOST2",
	       "mem: the host that the VM moved to; may be repeated, in that order"),
	SPANS_OPTIONS(struct latency_opts, spans),
	OPTION('C', "context", OPT_U64, struct latency_opts, context, "N",
	       "show N lines of the timeline before and after each of the worst (default: 3)"),
	OPTION_NAMED(0, "format", OPT_WORD, struct latency_opts, format, "FORMAT", lat_format_name,
		     "how to print (default: text); html: a page to look at"),
	OPTION('o', "output", OPT_STR, struct latency_opts, file.path, "OUT",
	       "write to this new file (default: standard output)"),
	OPTION_CHOICE(0, "clock", struct latency_opts, clock, "CLOCK", out_clock_names,
		      "clock of all times (default: ns since the recording began)"),
	PAIRING_CLOCK_OPTIONS(struct latency_opts, pair),
	RATE_OPTION(struct latency_opts, khz),
	GUEST_SYMS_OPTIONS(struct latency_opts, syms),
	OPTION(0, "qemu", OPT_LIST, struct latency_opts, qemu, "FILE[:FORMAT[:VM]]",
	       "a trace that QEMU wrote, for io: simple, log, syslog or ust; may be repeated"),
	OPTION(0, "trace-events", OPT_STR, struct latency_opts, trace_events, "FILE",
	       "the trace-events-all of that QEMU, also for markers in HOST\n"
	       "(default: of /usr/share/qemu)"),
	OPTION(0, "force", OPT_FLAG, struct latency_opts, file.force, NULL,
	       "replace an existing OUT"),
	OPTION(0, "all", OPT_FLAG, struct latency_opts, all, NULL,
	       "text: each group with its stages, distributions, and the timeline\n"
	       "around the worst"),
	PAGE_OPTIONS(struct latency_opts, file.page_opts),
	OPTION('q', "quiet", OPT_FLAG, struct latency_opts, quiet, NULL,
	       "no summary on standard error unless something is wrong"),
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
	struct kvmft_err *err;
	struct pairing p, again;
	struct qemu_traces q, q_again;
	struct guest_syms syms; /* for what is shown of `again` */
	struct windows *w;
	struct lat *lat;
	struct sink s;
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
	int ret = kinds ? cli_words(&latency_kinds, kinds, &bits, m->err) : 0;

	ret = ret ?: spans_check(&o->spans, m->err);
	if (ret)
		return ret;
	for (unsigned int k = 0; k < LAT_EVENT; k++)
		m->lo.want[k] = (bits >> k | bits >> LAT_EVENT) & 1;
	m->lo.want[LAT_WAIT] = o->waits;
	m->lo.waits_by = (enum lat_waits_by)(MAX(o->waits, 1) - 1);
	m->lo.spans = o->spans;
	m->lo.mem_by = o->by ?: 1u << MEM_BY_task | 1u << MEM_BY_thread | 1u << MEM_BY_move;
	if (o->worst.v > WORST_MAX || o->context.v > CONTEXT_MAX)
		return err_usage(m->err, "--worst: %u, --context: %u at most", WORST_MAX,
				 CONTEXT_MAX);
	m->lo.than_ns = o->than.v;
	m->lo.worst = o->worst.v;
	m->lo.grain = o->grain.v;
	if ((o->by || o->grain.set) && !m->lo.want[LAT_MEM])
		return err_usage(m->err, "--by and --grain are only for mem");
	for (unsigned int k = 0; k < LAT_KINDS && o->host.n; k++)
		if (m->lo.want[k] != (k == LAT_MEM))
			return err_usage(m->err, "--host is of mem alone");
	if (o->grain.set && o->grain.v < 4096)
		return err_usage(m->err, "--grain: at least 4096, a page");
	if (o->grain.set && !(m->lo.mem_by >> (LAT_T_MEM_GPA - LAT_T_MEM_VCPU) & 1))
		return err_usage(m->err, "--grain is only for --by gpa");
	return rate_check(&o->khz, m->err) ?: only_vcpu(&o->vcpu, &m->lo.vcpu, m->err);
}

static bool any_result(const struct latency *m)
{
	const bool *want = lat_answers(m->lat);
	struct lat_times times;

	for (unsigned int id = 0; id < LAT_TABLES; id++)
		if (lat_has_table(m->lat, (enum lat_table_id)id) &&
		    lat_table(m->lat, (enum lat_table_id)id)->ngroup)
			return true;
	/* That a vCPU was never robbed is an answer, too. */
	for (size_t i = 0; want[LAT_SCHED] && i < lat_vcpus(m->lat); i++)
		if (lat_vcpu_times(m->lat, i, &times))
			return true;
	return false;
}

/* Nothing was measured: what the captures lack, or what became of what they have. */
static int no_result(const struct latency *m)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const char *what = m->lo.want[LAT_IO] ? "block requests" : m->o->waits ? "halts" : "such events";
	bool part = m->lo.vm >= 0 || m->lo.vcpu >= 0 || m->o->from || m->o->to;

	if (lat_left_out(m->lat, LAT_EVENT))
		return err_lack(m->err, ENODATA, "%s", lat_left_out(m->lat, LAT_EVENT));
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
		return err_lack(m->err, ENODATA, "nothing could be measured. %s", b.s);
	if (!part && hostmap_floating(m->p.map))
		return err_lack(m->err, ENODATA, "%s: " HOSTMAP_FLOATING,
				hostmap_floating(m->p.map));
	if (!part)
		return err_lack(m->err, ENODATA, "nothing to measure: the captures hold no %s", what);
	return err_set(m->err, ENODATA, "nothing to measure: the captures hold no %s%s%s", what,
		       m->lo.vcpu >= 0 ? " of the vCPU that --vcpu names" :
		       m->lo.vm >= 0   ? " of the VM that --vm names" :
					 "",
		       m->o->from || m->o->to ? " in that time" : "");
}

/*
 * The timeline of all captures and traces, started; a second one has the TSC's frequency from the
 * first.
 */
static int latency_pair(struct latency *m, int argc, char **argv, struct pairing *p,
			struct qemu_traces *q, struct out_clock *clock)
{
	uint64_t from = 0, to = UINT64_MAX;
	struct pairing_opts po = { .clock = &m->o->pair, .need = PAIRING_CLOCKS,
				   .guest_alone = true, .khz = &m->o->khz,
				   .related = m->o->qemu.n || m->o->host.n ||
					      when_related(m->o->clock) };
	int ret = pairing_prepare(p, argv[0], argv + 1, (size_t)argc - 1, &po, m->err);

	if (!ret && p == &m->p)
		ret = rate_of_pairing(p, &m->o->khz, m->o->quiet,
				      m->o->than.set ? NULL : "times are in cycles", cli_note,
				      m->err);
	else if (!ret)
		rate_like(p->host.cap, m->p.host.cap);
	ret = ret ?: than_check(&m->o->than, p, m->err);
	ret = ret ?: pairing_add_hosts(p, &m->o->host, m->o->vm ?: "", m->err);
	ret = ret ?: qemu_traces_add(q, p, &m->o->qemu, m->o->trace_events, m->err);
	if (!ret && p == &m->again)
		ret = guest_syms_of_pairing(&m->syms, &m->o->syms, p,
					    m->o->quiet ? NULL : cli_note, m->err);
	when_free(&m->s.when); /* of the first time, whose clock is not asked any more */
	ret = ret ?: when_clock(&m->s.when, p, m->o->clock, clock, cli_note, m->err);
	ret = ret ?: window_parse(clock, m->o->from, m->o->to, &from, &to, m->err);
	if (ret)
		return ret;
	tl_window(p->t, from, to);
	return tl_start(p->t, m->err);
}

static size_t damages(const struct timeline *t)
{
	size_t n = 0;

	for (size_t i = 0; i < tl_sources(t); i++)
		n += tl_source(t, i)->cap->ndamage;
	return n;
}

/* -errno: what was read the first time could not be read again. */
static int error_again(const struct latency *m)
{
	if (damages(m->again.t) > damages(m->p.t))
		return -EIO;
	return tl_error(m->p.t) ? 0 : tl_error(m->again.t);
}

/* All events of both sides, walked again, and the results beside them. */
static int latency_page(struct latency *m, const struct lat_format *fmt, const struct lat_view *v)
{
	const struct out_format *page = out_format_find(fmt->name);
	const struct tl_item *item;
	_cleanup_(sbuf_free) struct sbuf json = { 0 };
	int ret = error_again(m);

	fmt->print(v, &json);
	if (!ret) {
		out_begin(&m->s.out, m->again.t, page, v->clock, m->s.f);
		out_html_latency(&m->s.out, xsbuf_text(&json));
		out_html_spikes(&m->s.out, m->spikes);
	}
	while (!ret && (ret = tl_next(m->again.t, &item)) > 0)
		ret = out_item(&m->s.out, item);
	return ret ?: error_again(m);
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
	ret = stories_tell(s, n, m->again.t, v->clock, v->color, m->o->context.v);
	ret = ret ?: error_again(m);
	free(s);
	return ret;
}

static int latency_show(struct latency *m, int argc, char **argv, const struct out_clock *clock)
{
	const struct lat_format *fmt = lat_format_find(m->o->format ?: "text");
	struct lat_view v = {
		.lat = m->lat, .t = m->p.t, .clock = clock, .want = lat_answers(m->lat),
		.all = m->o->all, .worst = m->o->worst.v, .rows = m->o->top,
		.color = m->o->file.page.color, .width = m->o->file.page.width,
	};
	struct out_clock again = *clock;
	bool text = !strcmp(fmt->name, "text");
	bool stories = m->lo.worst && !fmt->page && strcmp(fmt->name, "csv") &&
		       strcmp(fmt->name, "openmetrics") &&
		       (!text || m->o->all || m->o->context.set);
	struct lat_bound *bound = lat_bounds(&m->p, m->w);
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = 0;

	v.bound = bound;
	for (size_t i = 0; m->lo.vm >= 0 && i < m->p.map->nvm; i++)
		if (m->p.map->vm[i].of != (size_t)m->lo.vm)
			bound[i] = (struct lat_bound){ 0 };
	if (fmt->page) {
		uint64_t from, to;
		int before = tl_error(m->p.t);

		/* The time line of the results is not needed any more. */
		ret = window_parse(clock, m->o->from, m->o->to, &from, &to, m->err);
		ret = ret ?: blaming_json(&m->p, clock, from, to, &m->spikes, m->err);
		if (!ret && !before)
			ret = err_why(m->err, tl_error(m->p.t),
				      "cannot read the captures a second time");
	}
	if (!ret && (stories || fmt->page))
		ret = latency_pair(m, argc, argv, &m->again, &m->q_again, &again);
	if (m->again.t)
		v.clock = &again;
	if (!ret && stories)
		ret = err_why(m->err, latency_stories(m, &v),
			      "cannot read the captures a second time");
	if (!ret && !fmt->page)
		fmt->print(&v, &b);
	ret = ret ?: sink_open(&m->s, m->o->file.out, m->o->file.page.f, m->err);
	if (!ret && fmt->page)
		ret = sink_close(&m->s, true, latency_page(m, fmt, &v), m->err);
	else if (!ret)
		ret = sink_close(&m->s, false, sbuf_write(&b, m->s.f), m->err);
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
	return captures_at(o, has_kinds(opts, o->argv[0]), err);
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
	struct latency m = { .o = opts, .err = err, .q.note = cli_note, .q_again.note = cli_note };
	struct out_clock clock;
	bool complete = true;
	const char *kinds = !m.o->waits && has_kinds(opts, argv[0]) ? argv[0] : NULL;
	int ret = latency_check(&m, kinds);

	argc -= !!kinds;
	argv += !!kinds;
	if (!ret && !argc)
		ret = err_usage(err, "operands are missing: kvmft latency %s HOST [GUEST[=SEL]]...",
				kinds);
	if (!ret) {
		ret = latency_pair(&m, argc, argv, &m.p, &m.q, &clock);
		ret = ret ?: outfile_check(m.o->file.out, NULL, m.p.t, m.o->trace_events, m.err);
		ret = ret ?: only_vm(&m.p, m.o->vm, &m.lo.vm, m.err);
		ret = ret ?: lat_new(m.p.t, &m.lo, &m.lat, m.err);
		/* Waits by process: what those are must be known before. */
		if (!ret && m.o->waits == WAITS_BY_PROCESS + 1) {
			processes_new(m.p.t, m.lo.vm, &m.processes);
			m.processes->ran = wait_ran;
			m.processes->ctx = m.lat;
			ret = process_check(&m.p, m.processes, false, m.err) ?:
			      process_learn(&m.p, m.processes, m.err);
		}
		if (!ret)
			win_new(m.p.t, &m.w);
	}
	if (!ret) {
		const struct tl_item *item;

		while ((ret = tl_next(m.p.t, &item)) > 0) {
			if (m.p.nguest)
				win_feed(m.w, item);
			if (m.processes)
				processes_feed(m.processes, item);
			lat_feed(m.lat, item);
		}
		win_finish(m.w);
		lat_finish(m.lat);
		ret = err_why(m.err, ret, "cannot read the captures");
	}
	if (!ret) {
		ret = sink_tell(&m.p, m.w, m.o->quiet, &complete, err);
		(void)qemu_traces_summary(&m.q, m.p.t, m.o->quiet);
		for (unsigned int k = 0; k < LAT_KINDS; k++) {
			const char *why = lat_left_out(m.lat, k);
			const bool named = k == LAT_EVENT || !kinds || strcmp(kinds, "all");

			if (why && k != LAT_EVENT && (named || !m.o->quiet))
				cli_note("%s is left out: %s", lat_kind_names[k], why);
			complete &= !why || !named;
		}
		if (!ret && !any_result(&m))
			ret = no_result(&m);
	}
	ret = ret ?: latency_show(&m, argc, argv, &clock);
	complete &= guest_syms_whole(&m.syms, cli_note);
	ret = ret ?: outfile_commit(m.o->file.out, 0, NULL, err);
	free(m.spikes);
	processes_free(m.processes);
	lat_free(m.lat);
	win_free(m.w);
	when_free(&m.s.when);
	pairing_close(&m.again);
	guest_syms_free(&m.syms);
	pairing_close(&m.p);
	qemu_traces_free(&m.q_again);
	qemu_traces_free(&m.q);
	return sink_exit(ret, complete);
}

int report_waits(const struct process_opts *p, char **guest, size_t nguest, struct kvmft_err *err)
{
	_cleanup_free_ char **argv = xcalloc(nguest + 2, sizeof(*argv));
	struct latency_opts o = {
		.file.page = *p->page,
		.vm = p->vm,
		.format = p->format,
		.khz = *p->khz,
		.clock = -1,
		.worst.v = MIN(p->top ?: 3, (size_t)WORST_MAX),
		.waits = p->waits,
		.top = p->top ?: SIZE_MAX,
	};

	argv[0] = (char *)p->input;
	memcpy(argv + 1, guest, nguest * sizeof(*argv));
	return latency_run(&o, (int)nguest + 1, argv, err);
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
	.groups = "vm vcpu from to than worst by context format output all quiet\n"
		  "from any event to any other: from-event to-event key\n"
		  "two clocks: host tsc-offset tsc-ratio solve tsc-khz\n"
		  "functions of the guest: guest-kallsyms guest-vmlinux guest-kaslr guest-modules\n"
		  "QEMU's own events: qemu trace-events\n"
		  "output: clock grain force color wide",
	.first = &latency_kinds,
	.opts_size = sizeof(struct latency_opts),
	.defaults = latency_defaults,
	.sessions = latency_sessions,
	.run = latency_run,
	.reader = true,
	.output = sink_file_open,
	.release = sink_file_close,
	.min_args = 1,
	.max_args = -1,
};
