/* SPDX-License-Identifier: GPL-2.0-or-later */
/* export.c: `kvmft export [INPUT] -o OUT [GUEST[=SEL]...]`, the same events for other tools. */
#include "cmds.h"
#include "kvmft/sqlite.h"

#define TRACE_DAT "trace.dat"
#define SQLITE	  "sqlite"

struct export_opts {
	const char *input, *output, *to;
	struct outfile *out;
	struct view_opts v;
	bool time_shift, force;
};

static const char *to_name(size_t i)
{
	return i == 0 ? TRACE_DAT : i == 1 ? SQLITE : out_format_name(i - 2);
}

static const struct opt export_options[] = {
	OPTION('i', "input", OPT_STR, struct export_opts, input, "INPUT",
	       "capture, trace.dat, perf.data or text to read (default: kvmft.data)"),
	OPTION('o', "output", OPT_STR, struct export_opts, output, "OUT",
	       "write to this new file (trace.dat, sqlite: needed; else default: standard\n"
	       "output)"),
	OPTION_NAMED(0, "to", OPT_WORD, struct export_opts, to, "FORMAT", to_name,
		     "trace.dat (default); sqlite: a database of all tables, see kvmft-sql(7); or a\n"
		     "format of kvmft merge (default: as OUT ends: .db, .json, .pftrace)"),
	OPTION_CHOICE(0, "clock", struct export_opts, v.clock, "CLOCK", out_clock_names,
		      "clock of all times, see kvmft merge; trace.dat: the host's, or guest-tsc: guests\n"
		      "keep their stamps, and tell readers how to shift them"),
	OPTION(0, "from", OPT_STR, struct export_opts, v.from, "T",
	       "leave out what was before T, a time as --to text shows it"),
	OPTION(0, "until", OPT_STR, struct export_opts, v.to, "T", WINDOW_HELP_TO),
	VIEW_CLOCKS_OPTIONS(struct export_opts),
	OPTION(0, "force", OPT_FLAG, struct export_opts, force, NULL, "replace existing files"),
	OPT_END,
};

static bool is_dat(const struct export_opts *o)
{
	return !strcmp(o->to, TRACE_DAT);
}

static bool is_db(const struct export_opts *o)
{
	return !strcmp(o->to, SQLITE);
}

/* Options that mean nothing for the other kind of output are a mistake, and reported. */
static int check_options(const struct export_opts *o, int guests, struct kvmft_err *err)
{
	if (is_dat(o) && o->v.clock >= 0)
		return err_usage(err, "option --clock: the stamps of " TRACE_DAT " are the kernel's: "
				      "host-tsc or, of guests, guest-tsc");
	if ((is_dat(o) || is_db(o)) && !o->output)
		return err_usage(err, "--to %s needs a file: -o OUT", o->to);
	if (!guests &&
	    (o->v.pair.tsc_offset.set || o->v.pair.tsc_ratio || o->v.pair.solve || o->time_shift))
		return err_usage(
			err,
			"--tsc-offset, --tsc-ratio, --solve and --clock guest-tsc are about guests: "
			"name their captures");
	return 0;
}

/* One timeline of all captures; where the format has a place for it, how well clocks agree. */
static int export_lines(struct view *v, const struct export_opts *o, bool *whole)
{
	const struct out_format *fmt = out_format_find(o->to);
	int ret = view_output(v, fmt, o->out, stdout);

	if (ret)
		return ret;
	v->prove = fmt->alignment && v->p->nguest ? VIEW_PROVE_ALL : VIEW_PROVE_NOT;
	ret = view_start(v);
	if (!ret) {
		out_begin(&v->out, v->p->t, fmt, &v->clock, v->f);
		ret = view_walk(v, TL_ITEM(out_item, &v->out));
	}
	if (!ret && v->w)
		view_put_alignment(v);
	ret = view_end(v, ret);
	*whole = ret || view_whole(v);
	return ret;
}

/* Its guests come before those named on the command line. */
static int export_sessions(void *opts, struct operands *o, struct kvmft_err *err)
{
	struct export_opts *e = opts;

	int ret = out_format_of(e->output, to_name, &e->to, err);

	e->input = e->input ?: operands_input(o) ?: DEFAULT_INPUT;
	e->to = e->to ?: TRACE_DAT;
	e->time_shift = is_dat(e) && e->v.clock == OUT_CLOCK_GUEST_TSC;
	if (e->time_shift || (is_dat(e) && e->v.clock == OUT_CLOCK_HOST_TSC))
		e->v.clock = -1; /* no other is on the time line */
	return ret ?: captures_session(o, &e->input, err);
}

/* What the walk over all events saw of their captures. */
static int export_tell(struct view *v, bool *complete)
{
	int ret = view_tell(v, v->o->quiet, complete);
	uint64_t events = 0;

	for (size_t i = 0; i < tl_sources(v->p->t); i++)
		events += tl_source(v->p->t, i)->events;
	if (!events)
		return err_set(v->err, ENODATA, "the captures hold no events%s",
			       v->o->from || v->o->to ? " in that time" : "");
	return ret;
}

#ifdef HAVE_SQLITE
/*
 * ---- --to sqlite ----
 *
 * One walk over all captures gives events, windows and chains, and finds spikes; a second one
 * explains these; and one over only the host's takes exits apart, by what `kvmft report` counts.
 */

struct filling {
	struct view *v;
	struct db *db;
	struct lat *lat;
	struct blaming b;
};

/* What is not available is left out, and listed in a table; ret is why. */
static int db_left_out(struct filling *f, const char *what, int ret)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (!ret || ret == -ENOMEM)
		return ret;
	sbuf_addf(&b, "%s: %s", what, f->v->err->text);
	*f->v->err = (struct kvmft_err){ .text = "" };
	if (!f->v->o->quiet)
		cli_note("%s", xsbuf_text(&b));
	db_note(f->db, xsbuf_text(&b));
	return 0;
}

/* A capture alone has no vCPUs, and its stamps may be anything: only its events are written. */
static int db_begin(struct filling *f)
{
	struct lat_opts lo = { .vm = -1, .vcpu = -1, .each = db_case, .ctx = f->db };
	struct timeline *t = f->v->p->t;
	const char *why;
	int ret;

	if (f->v->p->alone)
		return 0;
	for (unsigned int k = 0; k < LAT_KINDS; k++)
		lo.want[k] = k != LAT_WAIT;
	win_each(f->v->w, db_window, f->db);
	ret = db_left_out(f, "no chains", lat_new(t, &lo, &f->lat, f->v->err));
	for (unsigned int k = 0; !ret && f->lat && k < LAT_KINDS; k++)
		if ((why = lat_left_out(f->lat, (enum lat_kind)k))) {
			err_set(f->v->err, ENOENT, "%s", why);
			ret = db_left_out(f, lat_kind_names[k], -ENOENT);
		}
	if (f->lat)
		db_latency(f->db, f->lat);
	return ret ?: db_left_out(f, "no spikes", blame_new(t, &f->b.o, &f->b.b, f->v->err));
}

static int db_exits(struct filling *f)
{
	struct report_opts ro = {
		.cls = class_find("vmexit"), .semantics = REPORT_EXACT, .split = true, .ctx = f->db,
	};
	const struct pairing_capture *host = &f->v->p->host;
	struct report *first = NULL, *r = NULL;
	const struct report_totals *t;
	int ret = 0;

	if (f->v->p->alone)
		return 0;
	if (host->cap->is_tracedat) { /* which events it has is seen at its end */
		ret = report_new(host->cap, host->fmt, &ro, &first, f->v->err);
		ret = ret ?: report_walk(first, f->v->err);
		ro.seen = ret ? NULL : report_totals(first)->seen;
	}
	ro.each = db_sample;
	ret = report_new(host->cap, host->fmt, &ro, &r, f->v->err);
	ret = ret ? db_left_out(f, "no exits", ret) : report_walk(r, f->v->err);
	t = ret || !r ? NULL : report_totals(r);
	/* Formats without events: no VM ran, or only others were recorded. */
	if (t && (!t->exits || !t->entries))
		ret = db_left_out(f, "no exits", err_set(f->v->err, ENODATA,
			"no %s events in %s: no VM ran, or they were not recorded",
			t->exits ? "kvm_entry" : "kvm_exit", host->cap->path));
	report_free(first);
	report_free(r);
	return ret;
}

/* It tells after the first walk, because the others forget what was counted. */
static int export_db(struct view *v, const struct export_opts *o, bool *complete, bool *whole)
{
	struct kvmft_err *err = v->err;
	struct filling f = {
		.v = v,
		.b = { .v = v, .o = { .vm = -1, .vcpu = -1, .top = BLAME_TOP_MAX,
				      .to = UINT64_MAX } },
	};
	int ret = outfile_check(o->out, NULL, v->p->t, NULL, err);

	v->prove = v->p->alone ? VIEW_PROVE_NOT : VIEW_PROVE_ALL;
	ret = ret ?: view_start(v);
	if (!ret) {
		ret = db_new(outfile_fd(o->out, 0), v->p->t, &v->clock, &f.db);
		db_span(f.db, v->from, v->to);
		v->from = 0; /* spikes may have begun before */
		ret = ret ?: db_begin(&f);
		ret = ret ?: view_walk(v, TL_ITEM(db_item, f.db), TL_FEED(lat_feed, f.lat),
				       TL_FEED(blame_find, f.b.b));
		if (!ret && f.lat)
			lat_finish(f.lat);
		if (!ret && f.b.b)
			blame_found(f.b.b);
		if (!ret)
			db_walked(f.db, v->w);
		ret = ret ?: export_tell(v, complete);
		ret = ret || !f.b.b ? ret : blaming_explain(&f.b);
		if (!ret && f.b.b)
			db_spikes(f.db, f.b.b);
		ret = ret ?: db_exits(&f);
		ret = ret ?: db_finish(f.db);
	}
	if (!ret && db_lacks(f.db)) {
		cli_note("%s", db_lacks(f.db));
		*whole = false;
	}
	if (!ret)
		cli_remarks(o->v.quiet)("%llu rows: sqlite3 %s", (unsigned long long)db_rows(f.db),
					o->output);
	if (ret && !err->text[0])
		err_why(err, ret, "cannot write %s", o->output);
	db_free(f.db);
	lat_free(f.lat);
	blaming_free(&f.b);
	return ret;
}
#endif

static int export_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct export_opts *o = opts;
	_cleanup_(view_close) struct view v = {
		.o = &o->v, .err = err, .note = cli_note, .end = "until",
		/* What is only assumed, or known to some part in a million, is no fact there. */
		.exact = is_dat(o), .cycles = view_cycles(o->to, o->v.clock),
		.alone = is_db(o) ? VIEW_ALONE_ELSE : VIEW_ALONE, .need.need = PAIRING_CLOCKS,
		.prove = VIEW_PROVE_NOT,
	};
	bool complete = true, whole = true;
	const struct export_config dat = {
		.out = o->out, .output = o->output, .time_shift = o->time_shift,
	};
	char **captures = xcalloc((size_t)argc + 2, sizeof(*captures));
	int ret = check_options(o, argc, err) ?:
		  sink_input_check(o->input, err);

	captures[0] = (char *)o->input;
	memcpy(captures + 1, argv, (size_t)argc * sizeof(*argv));
	ret = ret ?: view_open(&v, captures, (size_t)argc + 1);
	free(captures);
#ifdef HAVE_SQLITE
	if (!ret && is_db(o)) {
		ret = export_db(&v, o, &complete, &whole);
	} else
#endif
	if (!ret) {
		ret = is_dat(o) ? view_start(&v) ?: export_dat(v.p, &dat, err)
				: export_lines(&v, o, &whole);
		ret = ret ?: export_tell(&v, &complete);
	}
	if (!ret && o->out) {
		/* All of them, once all are complete. */
		ret = outfile_commit(o->out, 0, NULL, err);
		for (size_t i = 0; is_dat(o) && i < v.p->nguest && !ret; i++) {
			const char *name = v.p->map->vm[v.p->guest[i].vm].label;
			_cleanup_free_ char *path = outfile_name(o->out, name);

			ret = outfile_commit(o->out, i + 1, name, err);
			if (!ret && !o->v.quiet)
				cli_note("%s: %s", name, path ?: "");
		}
	}
	return sink_exit(ret, complete && whole);
}

static int export_output(void *opts, int argc, struct kvmft_err *err)
{
	struct export_opts *o = opts;
	int ret = 0;

	o->output = outfile_arg(o->output);
	if (is_db(o))
#ifdef HAVE_SQLITE
		ret = sq_load(err);
#else
		ret = err_lack(err, ENOSYS, "this kvmft was built without libsqlite3 (Debian: "
					    "libsqlite3-dev)");
#endif
	return ret ?: outfile_open(o->output, o->force, 1 + (is_dat(o) ? (size_t)argc : 0), &o->out,
				   err);
}

static int export_release(void *opts)
{
	outfile_close(((struct export_opts *)opts)->out);
	return 0;
}

const struct cmd cmd_export = {
	.name = "export",
	.summary = "the events of captures in the formats of other tools",
	.args = "[INPUT] [GUEST[=SEL]...]",
	.description =
		"Writes INPUT for trace-cmd and KernelShark, for sqlite3, as JSON lines, or for\n"
		"ui.perfetto.dev.\n"
		"With captures of its guests, INPUT is the host's: the other formats get one timeline\n"
		"of all, and OUT.dat gets files OUT-NAME.dat of the guests beside it, on the host's time.",
	.examples =
		"  kvmft export host -o trace.dat\n"
		"  kvmft export host -o pair.dat guest=vm1 &&\n"
		"        trace-cmd report -i pair.dat -i pair-vm1.dat\n"
		"  kvmft export host -o vm1.pftrace guest=vm1\n"
		"  kvmft export host --to sqlite -o run.db guest=vm1",
	.opts = export_options,
	.groups = "input output to clock from until\n"
		  "two clocks: tsc-offset tsc-ratio solve\n"
		  "output: force",
	.opts_size = sizeof(struct export_opts),
	.quiet = offsetof(struct export_opts, v.quiet),
	.khz = offsetof(struct export_opts, v.khz),
	.sessions = export_sessions,
	.run = export_run,
	.reader = true,
	.output = export_output,
	.release = export_release,
	.max_args = -1,
};
