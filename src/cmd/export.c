/* SPDX-License-Identifier: GPL-2.0-or-later */
/* export.c: `kvmft export [INPUT] -o OUT [GUEST[=SEL]...]`, the same events for other tools. */
#include "captures.h"
#include "kvmft/results.h"
#include "options.h"
#include "cmds.h"
#include "kvmft/pairing.h"
#include "kvmft/sqlite.h"
#include "sink.h"

#define TRACE_DAT "trace.dat"
#define SQLITE	  "sqlite"

struct export_opts {
	const char *input, *output, *to;
	struct outfile *out;
	int clock;
	bool time_shift, force, quiet;
	struct opt_u64 khz;
	struct pairing_clock pair;
	const char *from, *until;
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
		     "format of kvmft merge (default if OUT ends so: .json, .pftrace)"),
	OPTION(0, "time-shift", OPT_FLAG, struct export_opts, time_shift, NULL,
	       "trace.dat: guests keep their stamps, and tell readers how to shift them\n"
	       "(default: stamps are converted to the host's)"),
	OPTION_CHOICE(0, "clock", struct export_opts, clock, "CLOCK", out_clock_names,
		      "other formats: clock of all times, see kvmft merge"),
	OPTION(0, "from", OPT_STR, struct export_opts, from, "T",
	       "leave out what was before T, a time as --to text shows it"),
	OPTION(0, "until", OPT_STR, struct export_opts, until, "T", WINDOW_HELP_TO),
	PAIRING_CLOCK_OPTIONS(struct export_opts, pair),
	RATE_OPTION(struct export_opts, khz),
	OPTION(0, "force", OPT_FLAG, struct export_opts, force, NULL, "replace existing files"),
	OPTION('q', "quiet", OPT_FLAG, struct export_opts, quiet, NULL,
	       "no summary on standard error unless something is wrong"),
	OPT_END,
};

static void export_defaults(void *opts)
{
	struct export_opts *o = opts;

	o->clock = -1;
}

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
	if (!is_dat(o) && o->time_shift)
		return err_usage(err, "--time-shift belongs to --to " TRACE_DAT);
	if (is_dat(o) && o->clock >= 0)
		return err_usage(err, "--clock belongs to the formats other than " TRACE_DAT
				      ", whose stamps are the kernel's");
	if ((is_dat(o) || is_db(o)) && !o->output)
		return err_usage(err, "--to %s needs a file: -o OUT", o->to);
	if (!guests &&
	    (o->pair.tsc_offset.set || o->pair.tsc_ratio || o->pair.solve || o->time_shift))
		return err_usage(
			err,
			"--tsc-offset, --tsc-ratio, --solve and --time-shift are about guests: "
			"name their captures");
	return 0;
}

static int export_open(struct pairing *p, const struct export_opts *o, int argc, char **argv,
		       struct kvmft_err *err)
{
	struct pairing_opts po = { .need = PAIRING_CLOCKS, .clock = &o->pair, .khz = &o->khz,
				   .related = when_related(o->clock) };
	int ret = rate_check(&o->khz, err);

	ret = ret ?: sink_input_check(o->input, err);
	if (ret)
		return ret;
	/* For a host alone there is more to write than its events, if it has a clock for it. */
	if (is_db(o) && !argc) {
		ret = pairing_open(p, o->input, argv, 0, &po, err);
		if (ret == -ENOTSUP || (p->host.cap && p->host.cap->side == CAP_SIDE_GUEST)) {
			*err = (struct kvmft_err){ .text = "" };
			pairing_close(p);
			ret = pairing_open_alone(p, o->input, err);
		}
	} else {
		ret = argc ? pairing_open(p, o->input, argv, (size_t)argc, &po, err) :
			     pairing_open_alone(p, o->input, err);
	}
	if (ret)
		return ret;
	/*
	 * What is only assumed, or known to some part in a million, would be a fact in a trace.dat.
	 */
	if (is_dat(o))
		return rate_given(p->host.cap, &o->khz, err);
	return rate_of_pairing(p, &o->khz, o->quiet, sink_cycles(o->to, o->clock), cli_note, err);
}

/* The timeline begins again, with what is wanted of it. */
static int export_window(struct pairing *p, const struct export_opts *o, struct kvmft_err *err)
{
	struct out_clock clock;
	struct sink s = { 0 };
	uint64_t from, to;
	int ret;

	if (!o->from && !o->until)
		return 0;
	ret = when_clock(&s.when, p, o->clock, &clock, cli_note, err);
	ret = ret ?: window_parse_named(&clock, o->from, "until", o->until, &from, &to, err);
	when_free(&s.when);
	if (ret)
		return ret;
	tl_stop(p->t);
	tl_window(p->t, from, to);
	return tl_start(p->t, err);
}

/* One timeline of all captures; where the format has a place for it, how well clocks agree. */
static int export_lines(struct pairing *p, const struct export_opts *o, bool *whole,
			struct kvmft_err *err)
{
	const struct out_format *fmt = out_format_find(o->to);
	struct out_clock clock;
	struct sink s = { 0 };
	struct windows *w = NULL;
	const struct tl_item *item;
	int ret = when_clock(&s.when, p, o->clock, &clock, cli_note, err);

	ret = ret ?: sink_check(fmt, &clock, o->output, err);
	ret = ret ?: outfile_check(o->out, NULL, p->t, NULL, err);
	ret = ret ?: sink_open(&s, o->out, stdout, err);
	if (!ret) {
		out_begin(&s.out, p->t, fmt, &clock, s.f);
		if (p->nguest && fmt->alignment)
			win_new(p->t, &w);
		while (!ret && (ret = tl_next(p->t, &item)) > 0) {
			if (w)
				win_feed(w, item);
			ret = out_item(&s.out, item);
		}
		if (!ret && w) {
			win_finish(w);
			sink_put_alignment(&s, p, w);
		}
		win_free(w);
		ret = sink_close(&s, true, ret, err);
		*whole = ret || sink_whole(&s);
	}
	when_free(&s.when);
	return ret;
}

/* Its guests come before those named on the command line. */
static int export_sessions(void *opts, struct operands *o, struct kvmft_err *err)
{
	struct export_opts *e = opts;

	e->input = e->input ?: operands_input(o) ?: DEFAULT_INPUT;
	e->to = e->to ?: out_format_of(e->output) ?: TRACE_DAT;
	return captures_session(o, &e->input, err);
}

struct telling {
	const struct pairing *p;
	const struct export_opts *o;
	bool complete, whole; /* whole: the output holds all of them */
};

/* What the walk over all events saw of their captures. */
static int export_tell(struct telling *t, struct kvmft_err *err)
{
	int ret = sink_tell(t->p, NULL, t->o->quiet, &t->complete, err);
	uint64_t events = 0;

	for (size_t i = 0; i < tl_sources(t->p->t); i++)
		events += tl_source(t->p->t, i)->events;
	if (!events)
		return err_set(err, ENODATA, "the captures hold no events%s",
			       t->o->from || t->o->until ? " in that time" : "");
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
	struct pairing *p;
	const struct export_opts *o;
	struct kvmft_err *err;
	struct sink s;
	struct out_clock clock;
	struct db *db;
	struct lat *lat;
	struct blaming b; /* its windows are the database's, too */
};

/* What is not available is left out, and listed in a table; ret is why. */
static int db_left_out(struct filling *f, const char *what, int ret)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (!ret || ret == -ENOMEM)
		return ret;
	sbuf_addf(&b, "%s: %s", what, f->err->text);
	*f->err = (struct kvmft_err){ .text = "" };
	if (!f->o->quiet)
		cli_note("%s", xsbuf_text(&b));
	db_note(f->db, xsbuf_text(&b));
	return 0;
}

/* A capture alone has no vCPUs, and its stamps may be anything: only its events are written. */
static int db_begin(struct filling *f)
{
	struct lat_opts lo = { .vm = -1, .vcpu = -1, .each = db_case, .ctx = f->db };
	const char *why;
	int ret;

	if (f->p->alone)
		return 0;
	for (unsigned int k = 0; k < LAT_KINDS; k++)
		lo.want[k] = k != LAT_WAIT;
	win_new(f->p->t, &f->b.w);
	win_each(f->b.w, db_window, f->db);
	ret = db_left_out(f, "no chains", lat_new(f->p->t, &lo, &f->lat, f->err));
	for (unsigned int k = 0; !ret && f->lat && k < LAT_KINDS; k++)
		if ((why = lat_left_out(f->lat, (enum lat_kind)k))) {
			err_set(f->err, ENOENT, "%s", why);
			ret = db_left_out(f, lat_kind_names[k], -ENOENT);
		}
	if (f->lat)
		db_latency(f->db, f->lat);
	return ret ?: db_left_out(f, "no spikes", blame_new(f->p->t, &f->b.o, &f->b.b, f->err));
}

static int db_walk(struct filling *f)
{
	const struct tl_item *item;
	int ret;

	while ((ret = tl_next(f->p->t, &item)) > 0) {
		ret = db_item(f->db, item);
		if (ret)
			return ret;
		if (f->b.w)
			win_feed(f->b.w, item);
		if (f->lat)
			lat_feed(f->lat, item);
		if (f->b.b)
			blame_find(f->b.b, item);
	}
	if (f->b.w)
		win_finish(f->b.w);
	if (f->lat)
		lat_finish(f->lat);
	if (!ret && f->b.b)
		blame_found(f->b.b);
	if (!ret)
		db_walked(f->db, f->b.w);
	return ret;
}

static int db_exits(struct filling *f)
{
	struct report_opts ro = {
		.cls = class_find("vmexit"), .semantics = REPORT_EXACT, .split = true, .ctx = f->db,
	};
	const struct pairing_capture *host = &f->p->host;
	struct report *first = NULL, *r = NULL;
	const struct report_totals *t;
	uint64_t from = 0, to = UINT64_MAX;
	int ret;

	if (f->p->alone)
		return 0;
	ret = window_parse_named(&f->clock, f->o->from, "until", f->o->until, &from, &to, f->err);
	if (ret)
		return ret;
	db_span(f->db, from, to);
	if (host->cap->is_tracedat) { /* which events it has is seen at its end */
		ret = report_new(host->cap, host->fmt, &ro, &first, f->err);
		ret = ret ?: report_walk(first, f->err);
		ro.seen = ret ? NULL : report_totals(first)->seen;
	}
	ro.each = db_sample;
	ret = report_new(host->cap, host->fmt, &ro, &r, f->err);
	ret = ret ? db_left_out(f, "no exits", ret) : report_walk(r, f->err);
	t = ret || !r ? NULL : report_totals(r);
	/* Formats without events: no VM ran, or only others were recorded. */
	if (t && (!t->exits || !t->entries))
		ret = db_left_out(f, "no exits", err_set(f->err, ENODATA,
			"no %s events in %s: no VM ran, or they were not recorded",
			t->exits ? "kvm_entry" : "kvm_exit", host->cap->path));
	report_free(first);
	report_free(r);
	return ret;
}

/* t: tells after the first walk, because the others forget what was counted. */
static int export_db(struct pairing *p, struct telling *t, struct kvmft_err *err)
{
	const struct export_opts *o = t->o;
	struct filling f = {
		.p = p, .o = o, .err = err,
		.b = { .p = p, .err = err, .o = { .vm = -1, .vcpu = -1, .top = BLAME_TOP_MAX,
						  .to = UINT64_MAX } },
	};
	int ret = when_clock(&f.s.when, p, o->clock, &f.clock, cli_note, err);

	ret = ret ?: outfile_check(o->out, NULL, p->t, NULL, err);
	if (!ret) {
		ret = db_new(outfile_fd(o->out, 0), p->t, &f.clock, &f.db);
		ret = ret ?: db_begin(&f);
		ret = ret ?: db_walk(&f);
		ret = ret ?: export_tell(t, err);
		ret = ret || !f.b.b ? ret : blaming_explain(&f.b);
		if (!ret && f.b.b)
			db_spikes(f.db, f.b.b);
		ret = ret ?: db_exits(&f);
		ret = ret ?: db_finish(f.db);
	}
	if (!ret && db_lacks(f.db)) {
		cli_note("%s", db_lacks(f.db));
		t->whole = false;
	}
	if (!ret && !o->quiet)
		cli_note("%llu rows: sqlite3 %s", (unsigned long long)db_rows(f.db), o->output);
	if (ret && !err->text[0])
		err_why(err, ret, "cannot write %s", o->output);
	db_free(f.db);
	lat_free(f.lat);
	blaming_free(&f.b);
	when_free(&f.s.when);
	return ret;
}
#endif

static int export_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct export_opts *o = opts;
	_cleanup_(pairing_close) struct pairing p = { 0 };
	struct telling t = { .p = &p, .o = o, .complete = true, .whole = true };
	const struct export_config dat = {
		.out = o->out, .output = o->output, .time_shift = o->time_shift,
	};
	int ret = check_options(o, argc, err);

	ret = ret ?: export_open(&p, o, argc, argv, err);
	ret = ret ?: export_window(&p, o, err);
#ifdef HAVE_SQLITE
	if (!ret && is_db(o)) {
		ret = export_db(&p, &t, err);
	} else
#endif
	if (!ret) {
		ret = is_dat(o) ? export_dat(&p, &dat, err) : export_lines(&p, o, &t.whole, err);
		ret = ret ?: export_tell(&t, err);
	}
	if (!ret && o->out) {
		/* All of them, once all are complete. */
		ret = outfile_commit(o->out, 0, NULL, err);
		for (size_t i = 0; is_dat(o) && i < p.nguest && !ret; i++) {
			const char *name = p.map->vm[p.guest[i].vm].label;
			_cleanup_free_ char *path = outfile_name(o->out, name);

			ret = outfile_commit(o->out, i + 1, name, err);
			if (!ret && !o->quiet)
				cli_note("%s: %s", name, path ?: "");
		}
	}
	return sink_exit(ret, t.complete && t.whole);
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
		  "trace.dat: time-shift\n"
		  "two clocks: tsc-offset tsc-ratio solve tsc-khz\n"
		  "output: force quiet",
	.opts_size = sizeof(struct export_opts),
	.defaults = export_defaults,
	.sessions = export_sessions,
	.run = export_run,
	.reader = true,
	.output = export_output,
	.release = export_release,
	.max_args = -1,
};
