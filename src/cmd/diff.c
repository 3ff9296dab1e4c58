/* SPDX-License-Identifier: GPL-2.0-or-later */
/* diff.c: `kvmft diff BEFORE AFTER`, what changed from one recording to another. */
#include "cmds.h"

struct recording {
	const char *path;
	struct str_list guests;
};

struct diff_opts {
	struct sink_file file; /* first */
	const char *vm, *event, *predict;
	struct str_list limits, ops;
	/* of each side */
	struct recording *recording[2];
	size_t n[2], cap[2];
	struct opt_u64 than, khz;
	const char *from, *to;
	int clock, format;
	bool all;
};

#define FORMAT_JUNIT (FORMAT_CSV + 1)
static const char *const diff_formats[] = { "text", "json", "csv", "junit", NULL };

static const struct opt diff_options[] = {
	OPTION_NAMED('e', "event", OPT_WORD, struct diff_opts, event, "CLASS", class_name_at,
		     "what to count (default: vmexit)"),
	OPTION(0, "vm", OPT_STR, struct diff_opts, vm, "SEL",
	       "only this VM, on both sides: UUID, name, PID or PID-FD"),
	OPTION(0, "fail-if", OPT_LIST, struct diff_opts, limits, "'WHAT > PERCENT %'",
	       "judge this against a limit: exit status 1 if it is surely\n"
	       "exceeded, 4 if that cannot be told; may be repeated"),
	OPTION(0, "op", OPT_EVENTS, struct diff_opts, ops, "EVENT[/FILTER/]",
	       "what counts as an operation, of which WHAT/op is"),
	OPTION(0, "predict", OPT_STR, struct diff_opts, predict, "RULE",
	       "only: is what kvmft advise foretold of BEFORE what AFTER saves?"),
	OPTION(0, "from", OPT_STR, struct diff_opts, from, "T",
	       "leave out what was before T, as kvmft merge shows each alone"),
	OPTION(0, "to", OPT_STR, struct diff_opts, to, "T", WINDOW_HELP_TO),
	WINDOW_CLOCK_OPTION(struct diff_opts),
	OPTION(0, "than", OPT_U64, struct diff_opts, than, "PERCENT",
	       "what a change must surely be to count (default: 10)"),
	OPTION(0, "all", OPT_FLAG, struct diff_opts, all, NULL, "also what is within noise"),
	FORMAT_OPTION(struct diff_opts, diff_formats),
	OPT_END,
};

static void diff_defaults(void *opts)
{
	struct diff_opts *o = opts;

	o->event = "vmexit";
	o->than.v = 10;
}

/* ---- two recordings ---- */

struct run {
	const struct diff_opts *o;
	char **path;
	struct kvmft_err *err;
	struct diff d;
	struct report_opts ro;
	struct view_opts vo;
	struct view v[2]; /* of each side's first; all is written by the first of these */
	struct diff_gate *gate;
	bool incomplete;
	bool untimed; /* its recordings lack kvm_entry */
	struct sink_remarks remarks;
};

static int diff_check(struct run *run)
{
	const struct diff_opts *o = run->o;

	run->ro = (struct report_opts){
		.cls = class_find(o->event), .vm = o->vm, .vms = true, .has_from = o->from,
		.has_to = o->to,
	};
	run->ro.split = run->ro.cls == class_find("vmexit");
	run->d.least = (double)o->than.v / 100;
	if (!strcmp(run->path[0], "-") && !strcmp(run->path[1], "-"))
		return err_usage(run->err, "standard input is one recording, not both");
	if (o->than.v > 1000)
		return err_usage(run->err, "option --than: percent, at most 1000");
	run->d.gate = run->gate = xcalloc(o->limits.n + 1, sizeof(*run->gate));
	for (; run->d.ngate < o->limits.n; run->d.ngate++) {
		struct diff_gate *g = &run->gate[run->d.ngate];
		int ret = diff_gate_parse(g, o->limits.v[run->d.ngate], run->err);

		if (ret)
			return ret;
		if (g->measure == DIFF_PER_OP && !o->ops.n)
			return err_usage(run->err, "'%s': --op says what an operation is", g->text);
	}
	if (!o->limits.n && o->format == FORMAT_JUNIT)
		return err_usage(run->err, "--format junit is for what --fail-if asks");
	return 0;
}

/* ---- a side ---- */

/* If what latencies need is missing, its exits can be counted all the same. */
static int side_open(struct run *run, const struct recording *from, struct diff_side *s,
		     struct view *v)
{
	const size_t n = from->guests.n;
	_cleanup_free_ char **captures = xcalloc(n + 1, sizeof(*captures));
	const struct capture *cap;
	int ret;

	captures[0] = (char *)from->path;
	if (n)
		memcpy(captures + 1, from->guests.v, n * sizeof(*captures));
	*v = (struct view){
		.o = &run->vo, .err = run->err, .note = cli_note, .alone = VIEW_ALONE_ELSE,
		.need.need = PAIRING_CLOCKS,
	};
	ret = view_open(v, captures, n + 1);
	if (ret)
		return ret;
	cap = v->p->host.cap;
	*s = (struct diff_side){
		.path = from->path, .cap = cap, .fmt = v->p->host.fmt, .grain = cap->grain
	};
	return 0;
}

static void side_losses(struct run *run, const struct diff_side *s)
{
	const struct report_totals *t = report_totals(s->r);
	struct tl_loss loss = { t->lost, t->lost_unknown };

	if (!run->ro.has_from && !run->ro.has_to && !s->cap->flight)
		tl_loss_of(s->cap, t->events, t->lost, t->lost_unknown, &loss);
	if (!loss.total && !loss.unknown && !t->damaged && !t->left_out && !s->cap->ndamage)
		return;
	run->incomplete = true;
	if (loss.total || t->damaged || !s->cap->ndamage)
		cli_note("%s: %llu events lost%s, %llu damaged sub-buffers: rates are too low",
			 s->path, (unsigned long long)loss.total, loss.unknown ? " or more" : "",
			 (unsigned long long)t->damaged);
	for (size_t i = 0; i < s->cap->ndamage; i++)
		cli_note("%s: %s", s->path, s->cap->damage[i].text);
}

/* What --op counts. */
struct side_ops {
	struct diff_side *s;
	struct pick *pick;
	int64_t vm; /* -1: of all */
};

static void side_op(void *ops, const struct tl_item *item)
{
	struct side_ops *o = ops;

	if (item->kind == TL_EVENT && pick_wants(o->pick, item) &&
	    (o->vm < 0 || item->vm < 0 || item->vm == o->vm))
		diff_side_op(o->s, item->host);
}

/* No latencies are no failure, unless guests were given for them. */
static int side_timeline(struct run *run, struct diff_side *s, struct view *v)
{
	const struct pairing *p = v->p;
	struct side_ops ops = { .s = s };
	struct lat_opts lo = { .want = { true, true, true, true },
			       .vm = -1, .vcpu = -1, .each = diff_latency,
			       .ctx = s };
	struct kvmft_err why = { .text = "" };
	struct lat *l = NULL;
	int ret;

	if (!s->cap->tsc_khz || (p->alone && !s->cap->unit_ns))
		return run->o->ops.n ? err_lack(run->err, ENODATA,
						"%s: without a rate of its clock "
						"no operations are counted",
						s->path)
				     : 0;
	ops.vm = lo.vm = report_vm_named(s->r);
	v->from = s->span.from;
	v->to = s->span.to;
	ret = view_start(v);
	if (!ret && run->o->ops.n)
		pick_new(p->t, &ops.pick);
	for (size_t i = 0; i < run->o->ops.n && !ret; i++)
		ret = pick_add_event(ops.pick, run->o->ops.v[i], run->err);
	if (!ret) {
		ret = lat_new(p->t, &lo, &l, &why);
		if (ret == -ENOENT && !p->nguest && ops.pick)
			ret = 0;
		else if (ret == -ENOENT && !p->nguest)
			return 0;
		else if (ret)
			err_set(run->err, -ret, "%s: %s", s->path, why.text);
	}
	if (ret) {
		pick_free(ops.pick);
		return ret;
	}
	ret = view_walk(v, TL_FEED(lat_feed, l), TL_FEED(side_op, ops.pick ? &ops : NULL));
	if (l)
		lat_finish(l);
	for (size_t i = 0; i < p->nguest; i++) {
		struct win_stats of;

		win_total(v->w, (int64_t)p->guest[i].vm, &of);
		view_tell_alignment(v, p->guest[i].vm, p->map->vm[p->guest[i].vm].label, true);
		run->d.misaligned |= of.outside &&
				     (lo.vm < 0 || (int64_t)p->map->vm[p->guest[i].vm].of == lo.vm);
	}
	if (!ret && l)
		diff_latency_end(s, l);
	lat_free(l);
	pick_free(ops.pick);
	if (!ret && run->o->ops.n && !s->ops)
		return err_lack(run->err, ENODATA,
				"%s has no event '%s', which is what --op counts", s->path,
				run->o->ops.v[0]);
	if (!ret && p->nguest) {
		run->incomplete |= !pairing_summary(p, true, cli_note);
		return pairing_placed(p->t, run->err);
	}
	ret = ret ?: tl_error(p->t);
	return err_why(run->err, ret, "cannot read %s", s->path);
}

static int one_of_side(struct run *run, const struct recording *from, struct diff_side *s,
		       struct view *v)
{
	const struct report_totals *t;
	const struct diff_side *first = &run->d.side[0];
	int ret = side_open(run, from, s, v);
	bool untimed;

	ret = ret ?: window_report(s->cap, run->o->clock, run->o->from, run->o->to, &run->ro,
				   cli_note, run->err);
	ret = ret ?: diff_exits(s, &run->ro, run->err);
	if (ret)
		return ret;
	side_losses(run, s);
	t = report_totals(s->r);
	untimed = !t->entries;
	if (!t->exits || (untimed && !run->ro.split))
		return run->ro.has_from || run->ro.has_to ?
			       err_set(run->err, ENODATA, "no kvm_exit and kvm_entry events in %s "
				       "at that time", s->path) :
			       err_lack(run->err, ENODATA, "no kvm_exit and kvm_entry events in %s",
					s->path);
	if (s != first && untimed != run->untimed)
		return err_lack(run->err, ENODATA,
				"%s has kvm_entry, so that it says how long exits took; %s has not: "
				"compare those that have the same",
				untimed ? first->path : s->path, untimed ? s->path : first->path);
	if (untimed && !run->untimed)
		sink_remark(&run->remarks, "%s: without kvm_entry it is not known how long exits "
			    "took: how many are compared", s->path);
	run->untimed = untimed;
	if (t->crowded || t->no_hist)
		sink_remark(&run->remarks,
			    "%s: more keys than are kept in memory: exits are missing", s->path);
	if (s->cap->flight && !run->o->from)
		sink_remark(&run->remarks,
			    "%s: a flight recorder's: only its last snapshot is compared", s->path);
	return side_timeline(run, s, v);
}

static int diff_of_side(struct run *run, int i)
{
	struct diff_side *s = &run->d.side[i];
	int ret = one_of_side(run, &run->o->recording[i][0], s, &run->v[i]);

	for (size_t k = 1; k < run->o->n[i] && !ret; k++) {
		struct diff_side more = { .path = NULL };
		struct view v;

		ret = one_of_side(run, &run->o->recording[i][k], &more, &v);
		if (!ret && report_untimed(more.cap) != report_untimed(s->cap))
			ret = err_lack(run->err, ENODATA,
				       "%s and %s have clocks of different units", s->path,
				       more.path);
		if (!ret)
			diff_side_add(s, &more);
		diff_side_free(&more);
		view_close(&v);
	}
	if (!ret && (run->o->ops.n || run->o->limits.n))
		diff_side_total(s, run->ro.split ? "exits" : run->o->event);
	return ret;
}

/* ---- tables, or one beside a recording: kvmft/difftable.h ---- */

/* What the table of the other side counts, in a recording. */
static int take_recording(struct run *run, struct diff_tables *t, int i, const char *path)
{
	const char *what = t->what[!i], *title = NULL;
	struct report_filter filter = { .vcpu = -1 };
	struct diff_side *s = &run->d.side[i];
	struct report_table rows;
	int ret = 0;

	for (size_t c = 0; !t->screen[!i] && !title && class_name_at(c); c++) {
		run->ro.cls = class_find(class_name_at(c));
		title = class_title(run->ro.cls);
		title = str_starts(what, title) ? title : NULL;
	}
	if (!t->screen[!i] && !title)
		return err_set(run->err, EINVAL,
			       "%s: kvmft report has no such table of a recording", run->path[!i]);
	run->ro.split = false;
	run->ro.semantics = !t->exact[!i] && class_has_perf(run->ro.cls) ? REPORT_PERF :
								       REPORT_EXACT;
	ret = side_open(run, &run->o->recording[i][0], s, &run->v[i]);
	ret = ret ?: window_report(s->cap, run->o->clock, run->o->from, run->o->to, &run->ro,
				   cli_note, run->err);
	ret = ret ?: report_new(s->cap, s->fmt, &run->ro, &s->r, run->err);
	ret = ret ?: report_walk(s->r, run->err);
	if (ret)
		return ret;
	t->cycles[i] = report_in_cycles(s->r);
	side_losses(run, s);
	filter.vm = report_vm_named(s->r);
	report_table(s->r, &filter, KEY_SAMPLE, &rows);
	for (size_t k = 0; k < rows.n && !ret; k++) {
		const struct report_row *row = &rows.row[k];
		char name[REPORT_NAME];

		report_key_name(s->r, row->key, name);
		ret = diff_tables_add(t, i, name, strlen(name), row->samples,
				      row->timed ? &row->avg_time : NULL, row->stderr_pct / 100.0);
	}
	if (!rows.n)
		ret = err_lack(run->err, ENODATA,
			       "%s: not one of what %s counts, from its beginning to its end: record "
			       "all events of it", path, run->path[!i]);
	report_table_free(&rows);
	cli_note("%s: its times are counted as %s does, which made %s", path,
		 run->ro.semantics == REPORT_PERF ? "perf kvm" : "kvmft report", run->path[!i]);
	return ret;
}

static int compare_tables(struct run *run, struct diff_tables *t)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = 0;

	for (int i = 0; i < 2 && !ret; i++)
		if (!t->what[i])
			ret = take_recording(run, t, i, run->path[i]);
	if (!ret && t->cycles[0] != t->cycles[1])
		return err_lack(run->err, ENODATA, "times of %s are in cycles, those of %s are not: make "
				"both with --tsc-khz", run->path[t->cycles[1]], run->path[t->cycles[0]]);
	if (!ret && (!t->n[0] || !t->n[1]))
		return err_set(run->err, ENODATA, "%s: nothing in it to compare",
			       run->path[!!t->n[0]]);
	for (int i = 0; i < 2 && !ret; i++) {
		if (t->more[i])
			cli_note("%s: several tables, the first is read", run->path[i]);
		if (t->told[i] > t->n[i])
			cli_note("%s: %llu of %llu samples are in no row", run->path[i],
				 (unsigned long long)(t->told[i] - t->n[i]),
				 (unsigned long long)t->told[i]);
		if (t->torn[i])
			cli_note("%s: %llu rows cannot be read, and are left out", run->path[i],
				 (unsigned long long)t->torn[i]);
		if (t->lost[i])
			cli_note("%s: events were lost when it was recorded", run->path[i]);
		run->incomplete |= t->told[i] > t->n[i] || t->torn[i] || t->lost[i];
	}
	if (!ret) {
		diff_tables_sort(t);
		diff_tables_print(t, diff_formats[MAX(run->o->format, 0)], &b);
		ret = view_output(&run->v[0], NULL, NULL, run->o->file.page.f);
		ret = ret ?: view_end(&run->v[0], sbuf_write(&b, run->v[0].f));
	}
	return ret;
}

/* Which of the files are tables: 0, -errno with err. */
static int find_tables(struct run *run, struct diff_tables *t)
{
	struct kvmft_err why = { 0 };
	struct stat st;
	int ret;

	for (int i = 0; i < 2; i++) {
		const char *path = run->path[i];

		if (strcmp(path, "-") && (stat(path, &st) || !S_ISREG(st.st_mode)))
			continue;
		ret = capture_table(path, &t->text[i], &why);
		if (ret && ret != -ENOMSG)
			return err_set(run->err, -ret, "%s: %s", path,
				       *why.text ? why.text : strerror(-ret));
		if (t->text[i] && diff_tables_read(t, i, t->text[i]))
			return err_set(run->err, E2BIG, "%s: a table of more than %u rows", path,
				       DIFF_TABLE_ROWS);
	}
	if (t->what[0] && t->what[1] && !t->screen[0] && !t->screen[1] &&
	    strncmp(t->what[0], t->what[1], strcspn(t->what[0], DIFF_BLANKS)))
		return err_set(run->err, EINVAL, "%s is a table of other things than %s",
			       run->path[0], run->path[1]);
	return 0;
}

/* ---- the answer ---- */

/* Cycles of one machine can be compared; with ns they cannot. */
static int same_unit(struct run *run)
{
	const struct capture *a = run->d.side[0].cap, *b = run->d.side[1].cap;

	run->d.cycles = report_untimed(a);
	if (run->d.cycles == report_untimed(b) &&
	    (!run->d.cycles || !strcmp(a->clock ?: "", b->clock ?: "")))
		return 0;
	return err_lack(run->err, ENODATA,
			cap_in_tsc(run->d.cycles ? a : b)
				? "the TSC frequency of %s is not known: " RATE_HINT
				: "%s: its trace clock is no time",
			(run->d.cycles ? a : b)->path);
}

static int long_enough(struct run *run)
{
	const struct diff_side *s = run->d.side;

	if (diff_can_tell(&run->d))
		return 0;
	s += s[0].exits.n >= DIFF_ENOUGH;
	if (run->d.cycles)
		return err_lack(run->err, ENODATA,
				"cannot tell: %s is only %llu cycles long; telling noise from change "
				"takes %u or more",
				s->path, (unsigned long long)s->exits.length,
				DIFF_ENOUGH * DIFF_SLICE);
	return err_lack(
		run->err, ENODATA,
		"cannot tell: %s is only %llu.%03llu s long; telling noise from change takes "
		"%u ms or more",
		s->path, (unsigned long long)(s->exits.length / 1000000000),
		(unsigned long long)(s->exits.length / 1000000 % 1000),
		DIFF_ENOUGH * (DIFF_SLICE / 1000000));
}

static int diff_show(struct run *run)
{
	const char *format = diff_formats[MAX(run->o->format, 0)];
	const struct diff_doc doc = {
		.d = &run->d, .what = class_name(run->ro.cls),
		.all = run->o->all, .color = run->o->file.page.color,
		.width = run->o->file.page.width,
		.remark = (const char *const *)run->remarks.v, .nremark = run->remarks.n,
	};
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = view_output(&run->v[0], NULL, NULL, run->o->file.page.f);

	for (size_t i = 0; !ret && run->o->format == FORMAT_CSV && i < run->d.ngate; i++) {
		_cleanup_(sbuf_free) struct sbuf line = { 0 };

		diff_gate_text(&run->d, &run->gate[i], &line);
		cli_note("%s", line.s);
	}
	if (!ret && (run->o->format == FORMAT_CSV || run->o->format == FORMAT_JUNIT))
		sink_remarks_tell(&run->remarks);
	diff_print(&doc, format, &b);
	return ret ?: view_end(&run->v[0], sbuf_write(&b, run->v[0].f));
}

/* A recording, or a session in its place, after those of that side. */
static int diff_recording(struct diff_opts *d, int i, const char *path, struct operands *o,
			  struct kvmft_err *err)
{
	_cleanup_(session_free) struct session s = { 0 };
	struct recording *r = xarray_grow(&d->recording[i], d->n[i]++, &d->cap[i], sizeof(*r));
	const char *guest;
	int ret;

	*r = (struct recording){ .path = path };
	ret = captures_host(o, &r->path, &s, err);
	for (size_t g = 1; g < s.n && !ret; g++) {
		guest = captures_word(o, s.v[g].operand);
		xarray_add(&r->guests.v, &r->guests.n, &r->guests.cap, &guest, sizeof(guest));
	}
	return ret;
}

static int diff_sessions(void *opts, struct operands *o, struct kvmft_err *err)
{
	struct diff_opts *d = opts;
	int ret = 0;

	for (int i = 0; i < 2 && !ret; i++) {
		char *list = (char *)captures_word(o, o->argv[i]);
		const char *between = access(list, F_OK) ? "," : "";

		for (const char *p; !ret && (p = strsep(&list, between));) {
			struct str_list *l = d->n[i] ? &d->recording[i][d->n[i] - 1].guests : NULL;

			if (l && (session_is_guest(p) || (strchr(p, '=') && access(p, F_OK))))
				xarray_add(&l->v, &l->n, &l->cap, &p, sizeof(p));
			else
				ret = diff_recording(d, i, p, o, err);
		}
		o->argv[i] = (char *)d->recording[i][0].path;
	}
	return ret;
}

static int diff_release(void *opts)
{
	struct diff_opts *d = opts;

	for (int i = 0; i < 2; i++) {
		for (size_t k = 0; k < d->n[i]; k++)
			free(d->recording[i][k].guests.v);
		free(d->recording[i]);
	}
	return sink_file_close(opts);
}

static int diff_run(void *opts, int argc __unused_arg, char **argv, struct kvmft_err *err)
{
	const struct diff_opts *o = opts;
	struct run run = { .o = o, .err = err, .path = argv,
			   .vo = { .khz = o->khz, .clock = -1, .quiet = true },
			   .v = { { .o = &run.vo, .err = err } } };
	struct diff_tables t = { .nline = 0 };
	int ret;

	if (o->predict &&
	    (strcmp(o->event, "vmexit") || o->n[0] + o->n[1] > 2 || o->limits.n || o->ops.n ||
	     o->from || o->to || o->all || o->khz.set || o->format > 0))
		return err_usage(err, "option --predict goes with --vm alone: the rest is kvmft advise's");
	if (o->predict)
		return advise_predict(o->predict, o->vm, argv, o->file.page.f, err);
	ret = diff_check(&run);
	ret = ret ?: find_tables(&run, &t);
	if (ret || t.what[0] || t.what[1]) {
		if (!ret && (run.d.ngate || o->ops.n || o->n[0] + o->n[1] > 2))
			ret = err_usage(err, "a table is no recording: --fail-if, --op and lists "
					"compare recordings");
		ret = ret ?: compare_tables(&run, &t);
		goto out;
	}
	for (int i = 0; i < 2 && !ret; i++)
		ret = diff_of_side(&run, i);
	run.d.lossy = run.incomplete;
	ret = ret ?: same_unit(&run) ?: long_enough(&run);
	if (!ret) {
		diff_machines(&run.d);
		diff_compare(&run.d);
		for (int k = 0; k < LAT_KINDS; k++)
			if (run.d.side[0].answers[k] != run.d.side[1].answers[k])
				sink_remark(&run.remarks, "%s is compared only if both have it: %s has not",
					    lat_kind_names[k],
					    run.d.side[run.d.side[0].answers[k] ? 1 : 0].path);
		if (run.ro.split && !run.d.side[0].answers[LAT_SCHED] &&
		    !run.d.side[1].answers[LAT_SCHED]) {
			sink_remark(&run.remarks, "stolen time needs sched:sched_switch and "
				    "sched:sched_wakeup in both captures,");
			sink_remark(&run.remarks, "which are in the default events of `kvmft record`");
		}
	}
	ret = ret ?: diff_show(&run);
out:
	free(t.text[0]);
	free(t.text[1]);
	free(t.line);
	sink_remarks_free(&run.remarks);
	diff_free(&run.d);
	view_close(&run.v[0]);
	view_close(&run.v[1]);
	/* What was exceeded comes before what is unknown. */
	ret = sink_exit(ret, !run.incomplete);
	for (size_t i = 0; i < run.d.ngate && (ret == KVMFT_OK || ret == KVMFT_LACKING); i++)
		if (run.gate[i].verdict != DIFF_PASS)
			ret = run.gate[i].verdict == DIFF_FAIL ? KVMFT_FAILED : KVMFT_LACKING;
	free(run.gate);
	return ret;
}

const struct cmd cmd_diff = {
	.name = "diff",
	.summary = "what changed between two recordings, and what may be chance",
	.args = "BEFORE[,MORE]... AFTER[,MORE]...",
	.description =
		"Two captures of hosts side by side: exits by reason, where their time went, latencies.\n"
		"What changed most is first; what differs by no more than chance is only counted.\n"
		"MORE are further recordings of that side; or GUEST[=SEL], a guest's of the one before\n"
		"it, for latencies up to the guest's handlers.\n"
		"Also tables of `perf kvm stat report` or `kvmft report` as text, without a verdict.",
	.examples =
		"  kvmft diff before after\n"
		"  kvmft diff --vm vm1 --all before after\n"
		"  kvmft diff --op 'net:net_dev_queue' --fail-if 'exits/op > +5 %' before after\n"
		"  kvmft diff -e msr --format csv before.dat after.dat",
	.opts = diff_options,
	.groups = "event vm from to than all fail-if op predict format\n"
		  "less usual: clock",
	.opts_size = sizeof(struct diff_opts),
	PAGE_AT(struct diff_opts, file.page_opts),
	.khz = offsetof(struct diff_opts, khz),
	.defaults = diff_defaults,
	.sessions = diff_sessions,
	.run = diff_run,
	.reader = true,
	.output = sink_file_open,
	.release = diff_release,
	.min_args = 2,
	.max_args = 2,
};
