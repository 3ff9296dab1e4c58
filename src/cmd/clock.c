/* SPDX-License-Identifier: GPL-2.0-or-later */
/* clock.c: `kvmft clock`, whether the clocks of a host's guests are right. */

#include "captures.h"
#include "cmds.h"
#include "options.h"
#include "sink.h"
#include "kvmft/exit_names.h"
#include "kvmft/kernel.h"
#include "kvmft/results.h"

#define LIVE_NS	 250000000u
#define FLUSH_NS 200000000u
#define PASS_US	 1000000u /* all streams have what came before the pass before */
#define MISSES	 5

static const char *const clock_formats[] = { "text", "json", "openmetrics", NULL };

static void (*const clock_print[])(const struct clockcheck *c, unsigned int width,
				   struct sbuf *b) = {
	clockcheck_text,
	clockcheck_json,
	clockcheck_metrics,
};

struct clock_opts {
	struct sink_file file; /* first */
	const char *vm;
	struct opt_u64 khz;
	int format, clock;
	bool watch, live;
};

static const struct opt clock_options[] = {
	VM_OPTION(struct clock_opts, vm),
	RATE_OPTION(struct clock_opts, khz),
	FORMAT_OPTION(struct clock_opts, clock_formats),
	OPTION_CHOICE(0, "clock", struct clock_opts, clock, "CLOCK", out_clock_names,
		      "clock of all times (default: ns since the recording began; of this host now:\n"
		      "realtime)"),
	OPTION(0, "watch", OPT_FLAG, struct clock_opts, watch, NULL,
	       "of this host: go on, and print a line for what happens"),
	PAGE_OPTIONS(struct clock_opts, file.page_opts),
	LIVE_OPTION(struct clock_opts, live),
	OPT_END,
};

/* The worst VM decides; 4: nothing is known to be ill, and not of all that they are well. */
static int clock_exit(const struct clockcheck *c)
{
	int code = KVMFT_OK;

	for (size_t i = 0; i < c->n; i++) {
		enum clock_verdict is = clockcheck_verdict(c, &c->vm[i]);

		if (!clockcheck_shown(c, i) || is == CLOCK_WELL)
			continue;
		if (is == CLOCK_ILL)
			return KVMFT_FAILED;
		code = KVMFT_LACKING;
	}
	return code;
}

static int clock_walk(struct pairing *p, struct clockcheck *c, struct kvmft_err *err)
{
	const struct tl_item *item;
	int ret = tl_start(p->t, err);

	while (!ret && (ret = tl_next(p->t, &item)) > 0) {
		c->newest = MAX(c->newest, item->host);
		clockcheck_feed(c, item);
		ret = 0;
	}
	ret = ret ?: tl_error(p->t);
	if (!ret)
		clockcheck_finish(c);
	return err_why(err, ret, "cannot read %s", p->host.cap->path);
}

/* To be closed, with what its times need. */
struct clock_asked {
	struct pairing p;
	struct when when;
	struct out_clock clock;
};

static void clock_close(struct clock_asked *a)
{
	when_free(&a->when);
	pairing_close(&a->p);
}

static int clock_open(struct clock_asked *a, const struct clock_opts *o, int argc, char **argv,
		      int64_t *vm, struct kvmft_err *err)
{
	struct pairing *p = &a->p;
	struct kvmft_err none = { .text = "" };
	const struct pairing_opts po = { .undecided_ok = true, .khz = &o->khz,
					 .related = when_related(o->clock),
					 .need = PAIRING_CLOCKS };
	int ret = rate_check(&o->khz, err);
	struct exit_names names;
	bool other;

	ret = ret ?: pairing_prepare(p, argv[0], argv + 1, (size_t)argc - 1, &po, err);
	ret = ret ?: rate_of_pairing(p, &o->khz, false, "times are in cycles", cli_note, err);
	ret = ret ?: only_vm(p, o->vm, vm, err);
	/* Of a host without such readings there is still the time since it began. */
	if (!ret && (!o->live || o->clock >= 0 ||
		     when_clock(&a->when, p, OUT_CLOCK_REALTIME, &a->clock, cli_note, &none))) {
		when_free(&a->when);
		ret = when_clock(&a->when, p, o->clock, &a->clock, cli_note, err);
	}
	if (!ret)
		exit_names_init(&names, event_format(p->map->fmt, EV_EXIT), NULL);
	other = !ret && (names.own ||
			 (p->host.cap->arch && !strcmp(p->host.cap->arch, "aarch64")));
	if (!ret && (other || (!p->map->nvm && !o->watch)))
		ret = err_lack(
			err, ENODATA,
			other     ? "%s: guests' clocks are known of x86 alone (arm64: no CNTVOFF)"
			: o->live ? "no VM runs here"
				  : "%s: no VM ran: record kvm_entry on the host while one does",
			p->host.cap->path);
	return ret;
}

/* ---- this host, now: recorded into memory, and read meanwhile ---- */

/* What was said already, so that each pass says only what is new. */
struct clock_told {
	struct {
		char vm[64];
		struct clock_seen s; /* CLOCK_FINDINGS: the verdict at first */
	} * v;
	size_t n, cap;
};

/* Is it new? What began before all that is kept began when that was said. */
static bool clock_is_new(struct clock_told *told, const char *vm, struct clock_seen *s)
{
	for (size_t i = told->n; i--;) {
		const struct clock_seen *t = &told->v[i].s;

		if (t->is != s->is || t->vcpu != s->vcpu || strcmp(told->v[i].vm, vm))
			continue;
		s->from = s->from ?: t->from;
		if (t->from == s->from && t->to == s->to && t->at == s->at)
			return false;
	}
	xarray_grow(&told->v, told->n, &told->cap, sizeof(*told->v));
	told->v[told->n].s = *s;
	snprintf(told->v[told->n++].vm, sizeof(told->v->vm), "%s", vm);
	return true;
}

static void clock_tell(const struct clockcheck *c, struct clock_told *told, bool json,
		       struct sbuf *b)
{
	for (size_t i = 0; i < c->n; i++) {
		const char *label = tl_hostmap(c->t)->vm[i].label;
		const struct clock_vm *vm = &c->vm[i];

		if (!clockcheck_shown(c, i))
			continue;
		if (clock_is_new(told, label, &(struct clock_seen){ .is = CLOCK_FINDINGS }))
			clockcheck_line(c, vm, NULL, json, b);
		for (size_t k = 0; k < vm->nseen; k++) {
			struct clock_seen s = vm->seen[k];

			if (clock_is_new(told, label, &s))
				clockcheck_line(c, vm, &s, json, b);
		}
	}
}

/*
 * Each pass walks over all that is kept: what a clock was before that is in its epochs. What comes
 * after the newest event of the pass before may not be there of all CPUs.
 */
static int clock_watch(const struct clock_opts *o, int argc, char **argv, struct kvmft_err *err)
{
	struct clock_asked a = { .p.t = NULL }, before = { .p.t = NULL };
	struct clock_told told = { 0 };
	uint64_t until = 0;
	bool last = false, ill = false;
	int ret = 0, code = KVMFT_LACKING, misses = 0;

	while (!ret && !last) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };
		struct clockcheck *c = NULL;
		int64_t vm;

		usleep(PASS_US);
		ret = clock_open(&a, o, argc, argv, &vm, err);
		last = !ret && a.p.host.cap->complete;
		if (!ret && before.p.t)
			tl_inherit(a.p.t, before.p.t);
		if (!ret) {
			tl_follow_no_end(a.p.t);
			c = clockcheck_new(a.p.t, vm);
			c->clock = &a.clock;
			c->until = last ? UINT64_MAX : until;
			ret = clock_walk(&a.p, c, err);
			until = MAX(until, c->newest);
			if (!until && a.p.host.cap->nbracket) /* VMs may be idle */
				until = a.p.host.cap->bracket[0].tsc;
		}
		if (!ret && c->until)
			clock_tell(c, &told, o->format == 1, &b);
		if (!ret && b.len)
			ret = sink_print(&b, o->file.page.f, err) ?: cli_flush(err);
		if (ret == -ENOENT && misses++ < MISSES) {
			ret = last = 0; /* part of it is kept no longer: the next pass has none */
			clock_close(&a);
		} else {
			code = ret ? code : clock_exit(c);
			ill |= code == KVMFT_FAILED;
			clock_close(&before);
			before = a;
			misses = 0;
		}
		clockcheck_free(c);
		a = (struct clock_asked){ .p.t = NULL };
	}
	clock_close(&before);
	free(told.v);
	return err_why(err, ret, "cannot watch clocks") ?: ill ? KVMFT_FAILED : code;
}

/* A command line of this program, which reads what is recorded, and ends when that does. */
static int clock_live(void *opts, struct kvmft_err *err)
{
	struct clock_opts *o = opts;
	const struct captures_live l = {
		.format = clock_formats[MAX(o->format, 0)],
		.sel = o->vm,
		.page = &o->file.page_opts,
		.more = { o->watch ? "--watch" : NULL, o->clock >= 0 ? "--clock" : NULL,
			  o->clock >= 0 ? out_clock_names[o->clock] : NULL },
	};
	struct record_config host = {
		.duration = { !o->watch, LIVE_NS },
		.flush = { true, FLUSH_NS },
		.rotate = o->watch ? "8M" : NULL,
		.keep = { o->watch, 4 },
	};

	(void)setenv("KVMFT_PAGER", "", 1); /* it comes bit by bit */
	if (o->khz.set || (o->watch && o->format > 1))
		return err_usage(err, o->khz.set ? "option --tsc-khz goes with HOST"
						 : "option --watch writes text or JSON");
	return captures_live("clock", &host, &l, err);
}

static int clock_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct clock_opts *o = opts;
	_cleanup_(clock_close) struct clock_asked a = { .p.t = NULL };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct clockcheck *c = NULL;
	int64_t vm = -1;
	int ret = 0, code;

	if (o->watch && !o->live)
		return err_usage(err, "option --watch is for this host, now: without HOST");
	if (o->watch)
		return clock_watch(o, argc, argv, err);
	if (o->live)
		ret = captures_wait(argv[0], err);
	ret = ret ?: clock_open(&a, o, argc, argv, &vm, err);
	if (!ret) {
		c = clockcheck_new(a.p.t, vm);
		c->clock = &a.clock;
		ret = clock_walk(&a.p, c, err);
	}
	if (!ret) {
		pairing_tell_assumed(&a.p, cli_note);
		(void)pairing_summary(a.p.t, true, cli_note);
		clock_print[MAX(o->format, 0)](c, o->file.page.width, &b);
		ret = sink_print(&b, o->file.page.f, err) ?: cli_flush(err);
	}
	code = ret ?: clock_exit(c);
	if (!ret && code != KVMFT_FAILED)
		ret = pairing_placed(a.p.t, err);
	clockcheck_free(c);
	return ret ?: code;
}

const struct cmd cmd_clock = {
	.name = "clock",
	.summary = "whether guests' clocks are right, and if not, what happened",
	.args = "[HOST [GUEST[=SEL]]...]",
	.description =
		"Reads a host's capture, and those of guests if there are any, and says of each VM whether\n"
		"its TSCs, its kvmclock and what it reads them by are well, ill, or cannot be judged by what\n"
		"was recorded. Without HOST it records this host for 0.25 s, or as long as it watches. Exit\n"
		"status: 0 well, 1 ill, 4 cannot tell.",
	.examples = "  kvmft clock --vm vm1\n"
		    "  kvmft clock --watch\n"
		    "  kvmft clock host\n"
		    "  kvmft clock --vm vm1 host.dat\n"
		    "  kvmft clock --format json host guest=vm1",
	.opts = clock_options,
	.opts_size = sizeof(struct clock_opts),
	.sessions = captures_first,
	.run = clock_run,
	.live = clock_live,
	.reader = true,
	.output = sink_file_open,
	.release = sink_file_close,
	.max_args = -1,
};
