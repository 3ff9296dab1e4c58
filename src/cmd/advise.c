/* SPDX-License-Identifier: GPL-2.0-or-later */
/* advise.c: `kvmft advise`, which settings cost a host's guests how much. */

#include "cmds.h"
#include "kvmft/record.h"

#include <inttypes.h>

#define LIVE_NS 10000000000u

static const char *const advise_formats[] = { "text", "json", "openmetrics", NULL };

struct advise_opts {
	struct sink_file file; /* first */
	struct view_opts v;
	struct opt_u64 duration;
	int format;
	bool live;
};

static const struct opt advise_options[] = {
	VM_OPTION(struct advise_opts, v.vm),
	FORMAT_OPTION(struct advise_opts, advise_formats),
	OPTION('d', "duration", OPT_DURATION, struct advise_opts, duration, "D",
	       "of this host: how long to record (default: 10 s)"),
	LIVE_OPTION(struct advise_opts, live),
	OPT_END,
};

/* A capture, and what its walk gave. */
struct advised {
	struct view v;
	struct clockcheck *c;
	struct advise *a;
	bool whole;
};

static int advised_read(struct advised *d, const struct advise_opts *o, int argc, char **argv,
			struct kvmft_err *err)
{
	const char *path = argv[0];
	struct exit_names names;
	struct view *v = &d->v;
	int ret;

	*v = (struct view){
		.o = &o->v, .err = err, .note = cli_note, .cycles = "rates are not known",
		.need = { .need = PAIRING_CLOCKS, .undecided_ok = true }, .prove = VIEW_PROVE_NOT,
	};
	ret = view_open(v, argv, (size_t)argc);
	if (ret)
		return ret;
	exit_names_init(&names, event_format(v->p->map->fmt, EV_EXIT), NULL);
	if (names.own)
		return err_lack(err, ENODATA,
				"%s: advise has rules for x86 hosts only; `kvmft report` shows its exits",
				path);
	if (!v->p->map->nvm)
		return err_lack(err, ENODATA,
				o->live ? "no VM runs here" :
				"%s: no VM ran: record kvm_entry on the host while one does", path);
	d->c = clockcheck_new(v->p->t, v->vm);
	d->a = advise_new(d->c);
	ret = view_start(v);
	ret = ret ?: view_walk(v, TL_FEED(clockcheck_feed, d->c), TL_FEED(advise_feed, d->a));
	ret = ret ?: tl_error(v->p->t);
	if (ret)
		return err_why(err, ret, "cannot read %s", path);
	clockcheck_finish(d->c);
	advise_finish(d->a);
	pairing_tell_assumed(v->p, cli_remarks(o->v.quiet));
	ret = view_tell(v, true, &d->whole);
	if (hostmap_floating(v->p->map))
		cli_note("%s: %s", hostmap_floating(v->p->map), HOSTMAP_FLOATING);
	return ret;
}

static void advised_free(struct advised *d)
{
	advise_free(d->a);
	clockcheck_free(d->c);
	view_close(&d->v);
}

static int advise_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct advise_opts *o = opts;
	_cleanup_(advised_free) struct advised d = { .whole = false };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = o->live ? captures_wait(argv[0], err) : 0;

	if (!ret && o->duration.set && !o->live)
		return err_usage(err, "option --duration is for this host, now: without HOST");
	ret = ret ?: advised_read(&d, o, argc, argv, err);
	if (!ret) {
		size_t vm = 0;

		advise_print(d.a, advise_formats[MAX(o->format, 0)], o->file.page.width, &b);
		ret = sink_print(&b, o->file.page.f, err) ?: cli_flush(err);
		while (vm < d.a->n && !advise_shown(d.a, vm))
			vm++;
		if (!ret && vm == d.a->n)
			ret = err_lack(err, ENODATA, "no exit of a VM was recorded: none ran, or this "
				       "KVM does not trace them (see kvmft check)");
	}
	return ret ?: d.whole ? KVMFT_OK : KVMFT_INCOMPLETE;
}

static int advise_live(void *opts, struct kvmft_err *err)
{
	const struct advise_opts *o = opts;
	const struct captures_live l = {
		.format = advise_formats[MAX(o->format, 0)], .sel = o->v.vm,
		.page = &o->file.page_opts,
	};
	struct record_config host = {
		.duration = { true, o->duration.set ? o->duration.v : LIVE_NS },
	};

	if (o->v.khz.set)
		return err_usage(err, "option --tsc-khz goes with HOST");
	return captures_live("advise", &host, &l, err);
}

int advise_predict(const char *rule, const char *sel, char **path, FILE *f, struct kvmft_err *err)
{
	const struct advise_opts o = { .v = { .vm = sel, .clock = -1 } };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct advised d[2] = { { .whole = false } };
	const struct advise *a[2];
	int is = 0, ret = 0;
	size_t vm[2];

	while (is < ADVICE_RULES && strcmp(advice_rules[is].id, rule))
		is++;
	if (is == ADVICE_RULES || advice_rules[is].cost == ADVICE_COUNT)
		return err_usage(err, "'%s' is no rule of kvmft advise with a cost", rule);
	for (int i = 0; i < 2 && !ret; i++) {
		size_t n = 0;

		ret = advised_read(&d[i], &o, 1, path + i, err);
		a[i] = d[i].a;
		/* The VM that was asked for, or the only one. */
		for (size_t k = 0; !ret && k < a[i]->n; k++)
			if (advise_shown(a[i], k)) {
				vm[i] = k;
				n++;
			}
		if (!ret && n != 1)
			ret = err_usage(err, "%s has %zu VMs that ran: give one with --vm",
					d[i].v.p->host.cap->path, n);
		if (!ret && !advise_known(a[i], vm[i], (enum advice)is))
			ret = err_lack(err, ENODATA,
				       "%s cannot answer %s: `kvmft advise` says what to record",
				       path[i], rule);
	}
	if (!ret) {
		enum advise_kept kept = advise_predicted(a, vm, (enum advice)is, &b);

		ret = sink_print(&b, f, err) ?: cli_flush(err);
		ret = ret
			      ?: kept == ADVISE_OTHERWISE ? KVMFT_FAILED
			 : kept == ADVISE_CANNOT_TELL	  ? KVMFT_LACKING
			 : d[0].whole && d[1].whole	  ? KVMFT_OK
							  : KVMFT_INCOMPLETE;
	}
	advised_free(&d[0]);
	advised_free(&d[1]);
	return ret;
}

const struct cmd cmd_advise = {
	.name = "advise",
	.summary = "which settings cost guests how much, and what to change",
	.args = "[HOST [GUEST[=SEL]]...]",
	.description =
		"Says which settings of a host, a VMM or a guest cost more than a hundredth of a CPU: how\n"
		"often, how much and by what; what to type for QEMU, libvirt or the host; and what that\n"
		"saves. Rules whose events were not recorded are named. Without HOST it records this host\n"
		"first. Exit status: 0, whatever it finds; 3 if events were lost.",
	.examples = "  kvmft advise -d 30\n"
		    "  kvmft record -e default -e mem -d 10 -o host && kvmft advise host\n"
		    "  kvmft advise --vm vm1 host.dat\n"
		    "  kvmft advise --format json host",
	.opts = advise_options,
	PRINTS(struct advise_opts),
	.defaults = view_defaults,
	.sessions = captures_first,
	.run = advise_run,
	.live = advise_live,
	.max_args = -1,
};
