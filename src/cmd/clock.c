/* SPDX-License-Identifier: GPL-2.0-or-later */
/* clock.c: `kvmft clock`, whether the clocks of a host's guests are right. */
#include "captures.h"
#include "cmds.h"
#include "options.h"
#include "sink.h"
#include "kvmft/results.h"

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
	int format;
};

static const struct opt clock_options[] = {
	OPTION(0, "vm", OPT_STR, struct clock_opts, vm, "SEL",
	       "only this VM: UUID, name, PID or PID-FD"),
	RATE_OPTION(struct clock_opts, khz),
	OPTION_CHOICE(0, "format", struct clock_opts, format, "FORMAT", clock_formats,
		      "how to print (default: text)"),
	PAGE_OPTIONS(struct clock_opts, file.page_opts),
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

	while (!ret && (ret = tl_next(p->t, &item)) > 0)
		ret = clockcheck_feed(c, item);
	ret = ret ?: tl_error(p->t);
	ret = ret ?: clockcheck_finish(c);
	return err_why(err, ret, "cannot read %s", p->host.cap->path);
}

static int clock_open(struct pairing *p, const struct clock_opts *o, int argc, char **argv,
		      int64_t *vm, struct kvmft_err *err)
{
	const struct pairing_opts po = { .undecided_ok = true, .need = PAIRING_CLOCKS };
	int ret = rate_check(&o->khz, err);

	ret = ret ?: pairing_prepare(p, argv[0], argv + 1, (size_t)argc - 1, &po, err);
	ret = ret ?: rate_of_pairing(p, &o->khz, false, "times are in cycles", cli_note, err);
	ret = ret ?: only_vm(p, o->vm, vm, err);
	if (!ret && !p->map->nvm)
		ret = err_lack(err, ENODATA,
			       "%s: no VM ran: record kvm_entry on the host while one does",
			       p->host.cap->path);
	return ret;
}

static int clock_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct clock_opts *o = opts;
	_cleanup_(pairing_close) struct pairing p = { 0 };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct clockcheck *c = NULL;
	int64_t vm = -1;
	int ret = clock_open(&p, o, argc, argv, &vm, err);

	if (!ret && clockcheck_new(p.t, vm, &c))
		ret = err_set(err, ENOMEM, "out of memory");
	ret = ret ?: clock_walk(&p, c, err);
	if (!ret) {
		pairing_tell_assumed(&p, cli_note);
		(void)pairing_summary(p.t, true, cli_note);
		clock_print[MAX(o->format, 0)](c, o->file.page.width, &b);
		ret = sink_print(0, &b, o->file.page.f, err) ?: cli_flush(err);
	}
	ret = ret ?: clock_exit(c);
	clockcheck_free(c);
	return ret;
}

const struct cmd cmd_clock = {
	.name = "clock",
	.summary = "whether guests' clocks are right, and if not, what happened",
	.args = "HOST [GUEST[=SEL]]...",
	.description =
		"Reads a host's capture, and those of guests if there are any, and says of each VM whether\n"
		"its TSCs, its kvmclock and what it reads them by are well, ill, or cannot be judged by what\n"
		"was recorded. Exit status: 0 well, 1 ill, 4 cannot tell.",
	.examples = "  kvmft clock host\n"
		    "  kvmft clock --vm vm1 host.dat\n"
		    "  kvmft clock --format json host guest=vm1",
	.opts = clock_options,
	.opts_size = sizeof(struct clock_opts),
	.sessions = captures_first,
	.run = clock_run,
	.reader = true,
	.output = sink_file_open,
	.release = sink_file_close,
	.min_args = 1,
	.max_args = -1,
};
