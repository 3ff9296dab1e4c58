/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reset.c: `kvmft reset` removes what a killed kvmft left in the kernel and in QEMUs, and nothing
 * else.
 */
#include "cmds.h"
#include "kvmft/kernel.h"

struct reset_opts {
	bool dry_run;
};

static const struct opt reset_options[] = {
	OPTION('n', "dry-run", OPT_FLAG, struct reset_opts, dry_run, NULL,
	       "only say what would be removed"),
	OPT_END,
};

/* sessions: in memory, already removed. */
static int reset_kernel(bool dry_run, unsigned int sessions, struct kvmft_err *err)
{
	struct ktracefs *t;
	struct kreset r = { 0 };
	int ret = ktracefs_open(NULL, 0, &t, err);

	if (ret)
		return ret;
	ret = kreset_sweep(t, NULL, dry_run, &r, err);
	if (r.text.s)
		fputs(r.text.s, stdout);
	printf("%s %u instance(s), %u probe(s) or synthetic event(s) and %u session(s)\n",
	       dry_run ? "would remove" : "removed", r.instances, r.probes, sessions);
	if (r.live || r.busy)
		printf("left alone: %u of a running kvmft, %u in use\n", r.live, r.busy);
	if (!ret && r.busy)
		ret = err_set(err, EBUSY,
			      "something is still in use by another process: see above");
	kreset_free(&r);
	ktracefs_close(t);
	return ret;
}

static int reset_run(void *opts, int argc __unused_arg, char **argv __unused_arg,
		     struct kvmft_err *err)
{
	const struct reset_opts *o = opts;
	struct kvmft_err first = { .text = "" };
	_cleanup_(sbuf_free) struct sbuf out = { 0 }, text = { 0 };
	int ret = reset_qemu ? reset_qemu(o->dry_run, MON_TIMEOUT_NS, &out, &first) : 0, kernel;
	unsigned int sessions;

	if (out.s)
		fputs(out.s, stdout);
	sessions = reset_sessions ? reset_sessions(o->dry_run, &text) : 0;
	if (text.s)
		fputs(text.s, stdout);
	kernel = reset_kernel(o->dry_run, sessions, err);
	if (!ret)
		return kernel;
	if (kernel)
		cli_note("%s", err->text);
	*err = first;
	return ret;
}

const struct cmd cmd_reset = {
	.name = "reset",
	.summary = "remove what a killed kvmft left behind",
	.description =
		"Removes instances and probes of kvmft whose process is gone. What belongs to a running\n"
		"kvmft, or to anybody else, is left alone. Trace events of QEMU that `record --qemu` had\n"
		"switched on are switched off. Every start of `kvmft record` does the same; `trace "
		"--guest`\nremoves sessions in memory.",
	.opts = reset_options,
	.opts_size = sizeof(struct reset_opts),
	.run = reset_run,
};
