/* SPDX-License-Identifier: GPL-2.0-or-later */
/* clock.c: `kvmft clock`, whether the clocks of a host's guests are right. */

#include "cmds.h"
#include "kvmft/kernel.h"

#define LIVE_NS	 250000000u
#define FLUSH_NS 200000000u
#define PASS_US	 1000000u /* all streams have what came before the pass before */
#define MISSES	 5

static const char *const clock_formats[] = { "text", "json", "openmetrics", NULL };

struct clock_opts {
	struct sink_file file; /* first */
	struct view_opts v;
	int format;
	bool watch, live;
};

static const struct opt clock_options[] = {
	VM_OPTION(struct clock_opts, v.vm),
	FORMAT_OPTION(struct clock_opts, clock_formats),
	OPTION_CHOICE(0, "clock", struct clock_opts, v.clock, "CLOCK", out_clock_names,
		      "clock of all times (default: ns since the recording began; of this host now:\n"
		      "realtime)"),
	OPTION(0, "watch", OPT_FLAG, struct clock_opts, watch, NULL,
	       "keep watching this host, and print a line when something happens"),
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

static int clock_walk(struct view *v, struct clockcheck *c)
{
	int ret = view_start(v);

	c->clock = &v->clock;
	c->w = v->w;
	ret = ret ?: view_walk(v, TL_FEED(clockcheck_feed, c));
	ret = ret ?: tl_error(v->p->t);
	if (!ret)
		clockcheck_finish(c);
	return err_why(v->err, ret, "cannot read %s", v->p->host.cap->path);
}

static int clock_open(struct view *v, const struct clock_opts *o, int argc, char **argv,
		      struct kvmft_err *err)
{
	struct kvmft_err none = { .text = "" };
	struct exit_names names;
	const struct pairing *p;
	bool other;
	int ret;

	*v = (struct view){
		.o = &o->v, .err = err, .note = cli_note, .cycles = "times are in cycles",
		.need = { .need = PAIRING_CLOCKS, .undecided_ok = true },
	};
	ret = view_open(v, argv, (size_t)argc);
	/* Of a host without such readings there is still the time since it began. */
	if (!ret && o->live && o->v.clock < 0 && view_clock(v, OUT_CLOCK_REALTIME, &none))
		ret = view_clock(v, -1, err);
	if (ret)
		return ret;
	p = v->p;
	exit_names_init(&names, event_format(p->map->fmt, EV_EXIT), NULL);
	other = names.own || (p->host.cap->arch && !strcmp(p->host.cap->arch, "aarch64"));
	if (other || (!p->map->nvm && !o->watch))
		ret = err_lack(
			err, ENODATA,
			other     ? "%s: only clocks of x86 guests can be checked (arm64 records "
				    "no CNTVOFF)"
			: o->live ? "no VM runs here"
				  : "%s: no VM ran: record kvm_entry on the host while one does",
			p->host.cap->path);
	return ret;
}

/* ---- this host, now: recorded into memory, and read meanwhile ---- */

/* What was said already, so that each pass says only what is new: of what is still found. */
struct clock_told {
	struct told {
		uint64_t kind; /* what, of which vCPU of whom; CLOCK_FINDINGS: the verdict */
		uint64_t from, to, at;
		size_t pass; /* the last one that found it */
	} * v;
	size_t n, cap, pass;
	struct hash_key key;
	struct u64map last, same; /* of a kind the last of v; the one that all of this is of */
};

static uint64_t told_hash(const struct clock_told *told, const struct told *t)
{
	const uint64_t all[] = { t->kind, t->from, t->to, t->at };

	return hash_bytes(&told->key, all, sizeof(all));
}

static void clock_told_add(struct clock_told *told, struct told t)
{
	xu64map_put(&told->last, t.kind, told->n);
	xu64map_put(&told->same, told_hash(told, &t), told->n);
	*(struct told *)xarray_grow(&told->v, told->n++, &told->cap, sizeof(t)) = t;
}

/* Is it new? What began before all that is kept began when that was said. */
static bool clock_is_new(struct clock_told *told, const char *vm, struct clock_seen *s)
{
	const uint64_t kind[] = { hash_bytes(&told->key, vm, strlen(vm)), s->is,
				  (uint64_t)s->vcpu };
	struct told t = { hash_bytes(&told->key, kind, sizeof(kind)), s->from, s->to, s->at,
			  told->pass };
	uint64_t i;

	if (!t.from && u64map_get(&told->last, t.kind, &i))
		s->from = t.from = told->v[i].from;
	if (u64map_get(&told->same, told_hash(told, &t), &i)) {
		told->v[i].pass = told->pass;
		return false;
	}
	clock_told_add(told, t);
	return true;
}

static void clock_tell(const struct clockcheck *c, struct clock_told *told, bool json,
		       struct sbuf *b)
{
	size_t n;

	told->pass++;
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
	n = told->n;
	told->n = 0;
	u64map_free(&told->last);
	u64map_free(&told->same);
	for (size_t i = 0; i < n; i++)
		if (told->v[i].pass == told->pass)
			clock_told_add(told, told->v[i]);
}

/*
 * Each pass walks over all that is kept: what a clock was before that is in its epochs. What comes
 * after the newest event of the pass before may not be there of all CPUs.
 */
static int clock_watch(const struct clock_opts *o, int argc, char **argv, struct kvmft_err *err)
{
	struct view *v = xcalloc(2, sizeof(*v)), *before = NULL, *now = v;
	struct clock_told told = { 0 };
	uint64_t until = 0;
	bool last = false, ill = false;
	int ret = 0, code = KVMFT_LACKING, misses = 0;

	hash_key_init(&told.key);
	while (!ret && !last) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };
		struct clockcheck *c = NULL;

		usleep(PASS_US);
		ret = clock_open(now, o, argc, argv, err);
		last = !ret && now->p->host.cap->complete;
		if (!ret && before)
			tl_inherit(now->p->t, before->p->t);
		if (!ret) {
			tl_follow_no_end(now->p->t);
			c = clockcheck_new(now->p->t, now->vm);
			c->watch = true;
			c->until = last ? UINT64_MAX : until;
			ret = clock_walk(now, c);
			until = MAX(until, c->newest);
			if (!until && now->p->host.cap->nbracket) /* VMs may be idle */
				until = now->p->host.cap->bracket[0].tsc;
		}
		if (!ret && c->until)
			clock_tell(c, &told, o->format == 1, &b);
		if (!ret && b.len)
			ret = sink_print(&b, o->file.page.f, err) ?: cli_flush(err);
		if (ret == -ENOENT && !access(argv[0], F_OK)) {
			ret = last = 0; /* part of it is kept no longer: the next pass has none */
			if (misses++ == MISSES)
				cli_note("events come faster than they are read: what clocks do "
					 "meanwhile is not seen");
			*err = (struct kvmft_err){ .text = "" };
			view_close(now);
		} else {
			code = ret ? code : clock_exit(c);
			ill |= code == KVMFT_FAILED;
			if (before)
				view_close(before);
			before = now;
			now = &v[now == v];
			misses = 0;
		}
		clockcheck_free(c);
	}
	view_close(before);
	free(v);
	free(told.v);
	u64map_free(&told.last);
	u64map_free(&told.same);
	return err_why(err, ret, "cannot watch clocks") ?: ill ? KVMFT_FAILED : code;
}

/* A command line of this program, which reads what is recorded, and ends when that does. */
static int clock_live(void *opts, struct kvmft_err *err)
{
	struct clock_opts *o = opts;
	const struct captures_live l = {
		.format = clock_formats[MAX(o->format, 0)], .sel = o->v.vm,
		.page = &o->file.page_opts,
		.more = { o->watch ? "--watch" : NULL, o->v.clock >= 0 ? "--clock" : NULL,
			  o->v.clock >= 0 ? out_clock_names[o->v.clock] : NULL },
	};
	struct record_config host = {
		.duration = { !o->watch, LIVE_NS },
		.flush = { true, FLUSH_NS },
		.rotate = o->watch ? "8M" : NULL,
		.keep = { o->watch, 4 },
	};

	(void)setenv("KVMFT_PAGER", "", 1); /* it comes bit by bit */
	if (o->v.khz.set || (o->watch && o->format > 1))
		return err_usage(err, o->v.khz.set ? "option --tsc-khz goes with HOST"
						 : "option --watch writes text or JSON");
	return captures_live("clock", &host, &l, err);
}

static int clock_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct clock_opts *o = opts;
	_cleanup_(view_close) struct view v = { .p = NULL };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct clockcheck *c = NULL;
	int ret = 0, code;

	if (o->watch && !o->live)
		return err_usage(err, "option --watch is for this host, now: without HOST");
	if (o->watch)
		return clock_watch(o, argc, argv, err);
	if (o->live)
		ret = captures_wait(argv[0], err);
	ret = ret ?: clock_open(&v, o, argc, argv, err);
	if (!ret) {
		c = clockcheck_new(v.p->t, v.vm);
		ret = clock_walk(&v, c);
	}
	if (!ret) {
		pairing_tell_assumed(v.p, cli_remarks(o->v.quiet));
		(void)pairing_summary(v.p, true, cli_note);
		for (size_t i = 1; i < tl_sources(v.p->t); i++) /* how far its events can tell */
			view_tell_alignment(&v, tl_source(v.p->t, i)->vm,
					    tl_source(v.p->t, i)->label, o->v.quiet);
		clockcheck_print(c, clock_formats[MAX(o->format, 0)], o->file.page.width, &b);
		ret = sink_print(&b, o->file.page.f, err) ?: cli_flush(err);
	}
	code = ret ?: clock_exit(c);
	if (!ret && code != KVMFT_FAILED)
		ret = pairing_placed(v.p->t, err);
	clockcheck_free(c);
	return ret ?: code;
}

const struct cmd cmd_clock = {
	.name = "clock",
	.summary = "whether guests' clocks are right, and if not, what happened",
	.args = "[HOST [GUEST[=SEL]]...]",
	.description =
		"Checks the TSCs, kvmclock and clocksource of each VM, from a capture of its host, and of\n"
		"the guest where there is one: they are well, ill, or what was recorded cannot tell.\n"
		"Without HOST it records this host for 0.25 s, or as long as it watches. Exit status:\n"
		"0 well, 1 ill, 4 cannot tell.",
	.examples = "  kvmft clock --vm vm1\n"
		    "  kvmft clock --watch\n"
		    "  kvmft clock host\n"
		    "  kvmft clock --vm vm1 host.dat\n"
		    "  kvmft clock --format json host guest=vm1",
	.opts = clock_options,
	PRINTS(struct clock_opts),
	.sessions = captures_first,
	.run = clock_run,
	.live = clock_live,
	.max_args = -1,
};
