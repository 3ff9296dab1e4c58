/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * export_db.c: the walks that fill a database. One over all captures gives events, windows and
 * chains, and finds spikes; a second one explains these; and one over only the host's takes exits
 * apart, by what `kvmft report` counts.
 */
#include "export.h"
#include "blaming.h"
#include "kvmft/database.h"
#include "kvmft/outfile.h"
#include "sink.h"

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
static int left_out(struct filling *f, const char *what, int ret)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (!ret || ret == -ENOMEM)
		return ret;
	sbuf_addf(&b, "%s: %s", what, f->err->text);
	*f->err = (struct kvmft_err){ .text = "" };
	if (!f->o->quiet && b.s)
		cli_note("%s", b.s);
	return b.error ?: db_note(f->db, b.s);
}

/* A capture alone has no vCPUs, and its stamps may be anything: only its events are written. */
static int begin(struct filling *f)
{
	struct lat_opts lo = { .vm = -1, .vcpu = -1, .each = db_case, .ctx = f->db };
	const char *why;
	int ret;

	if (f->p->alone)
		return 0;
	for (unsigned int k = 0; k < LAT_KINDS; k++)
		lo.want[k] = true;
	if (win_new(f->p->t, &f->b.w))
		return -ENOMEM;
	win_each(f->b.w, db_window, f->db);
	ret = left_out(f, "no chains", lat_new(f->p->t, &lo, &f->lat, f->err));
	for (unsigned int k = 0; !ret && f->lat && k < LAT_KINDS; k++)
		if ((why = lat_left_out(f->lat, (enum lat_kind)k))) {
			err_set(f->err, ENOENT, "%s", why);
			ret = left_out(f, lat_kind_names[k], -ENOENT);
		}
	if (f->lat)
		db_latency(f->db, f->lat);
	return ret ?: left_out(f, "no spikes", blame_new(f->p->t, &f->b.o, &f->b.b, f->err));
}

static int walk(struct filling *f)
{
	const struct tl_item *item;
	int ret;

	while ((ret = tl_next(f->p->t, &item)) > 0) {
		ret = db_item(f->db, item);
		ret = ret || !f->b.w ? ret : win_feed(f->b.w, item);
		ret = ret || !f->lat ? ret : lat_feed(f->lat, item);
		ret = ret || !f->b.b ? ret : blame_find(f->b.b, item);
		if (ret)
			return ret;
	}
	if (f->b.w)
		win_finish(f->b.w);
	ret = ret || !f->lat ? ret : lat_finish(f->lat);
	ret = ret || !f->b.b ? ret : blame_found(f->b.b);
	return ret ?: db_walked(f->db, f->b.w);
}

static int explain(struct filling *f)
{
	int ret = f->b.b ? blaming_explain(&f->b) : 0;

	return ret || !f->b.b ? ret : db_spikes(f->db, f->b.b);
}

/* Formats without events: no VM ran, or only others were recorded. */
static int none_came(struct filling *f, const struct report *r)
{
	const struct report_totals *t = report_totals(r);

	if (t->exits && t->entries)
		return 0;
	return left_out(f, "no exits",
			err_set(f->err, ENODATA,
				"no %s events in %s: no VM ran, or they were not recorded",
				t->exits ? "kvm_entry" : "kvm_exit", f->p->host.cap->path));
}

static int exits(struct filling *f)
{
	struct report_opts ro = {
		.cls = class_find("vmexit"), .semantics = REPORT_EXACT, .split = true, .ctx = f->db,
	};
	const struct pairing_capture *host = &f->p->host;
	struct report *first = NULL, *r = NULL;
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
	ret = ret ? left_out(f, "no exits", ret) : report_walk(r, f->err) ?: none_came(f, r);
	report_free(first);
	report_free(r);
	return ret;
}

int export_db(struct pairing *p, const struct export_opts *o,
	      int (*told)(void *ctx, struct kvmft_err *err), void *ctx, struct kvmft_err *err)
{
	struct filling f = {
		.p = p, .o = o, .err = err,
		.b = { .p = p, .err = err, .o = { .vm = -1, .vcpu = -1, .top = BLAME_TOP_MAX,
						  .to = UINT64_MAX } },
	};
	int ret = sink_clock(&f.s, p, o->clock, &f.clock, err), lacks = 0;

	ret = ret ?: outfile_check(o->out, NULL, p->t, NULL, err);
	if (!ret) {
		ret = db_new(outfile_fd(o->out, 0), p->t, &f.clock, &f.db);
		ret = ret ?: begin(&f);
		ret = ret ?: walk(&f);
		ret = ret ?: told(ctx, err);
		ret = ret ?: explain(&f);
		ret = ret ?: exits(&f);
		ret = ret ?: db_finish(f.db);
	}
	if (!ret && db_lacks(f.db)) {
		cli_note("%s", db_lacks(f.db));
		lacks = 1;
	}
	if (!ret && !o->quiet)
		cli_note("%llu rows: sqlite3 %s", (unsigned long long)db_rows(f.db), o->output);
	if (ret && !err->text[0])
		err_why(err, ret, "cannot write %s", o->output);
	db_free(f.db);
	lat_free(f.lat);
	blaming_free(&f.b);
	sink_free(&f.s);
	return ret ?: lacks;
}
