/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stuck.c: `kvmft stuck`, where each vCPU is and why it makes no progress. */
#include "cmds.h"
#include "kvmft/stuck.h"

#include <sys/mman.h>
#include <unistd.h>

#include "kvmft/sandbox.h"

static const char *const stuck_engines[] = { "auto", "hist", "ring", NULL };
static const char *const stuck_formats[] = { "text", "json", NULL };

struct stuck_opts {
	struct stuck_config c;
	struct guest_syms_opts syms;
	int format;
	bool quiet;
	struct page_opts page;
};

static const struct opt stuck_options[] = {
	OPTION('i', "input", OPT_STR, struct stuck_opts, c.input, "INPUT",
	       "a host's capture, trace.dat, perf.data or text, instead of this host now"),
	VM_OPTION(struct stuck_opts, c.vm),
	OPTION('d', "duration", OPT_DURATION, struct stuck_opts, c.ns, "DURATION",
	       "how long to watch, 200ms to 1h (default: 3s, of which at least 1s after setting up)"),
	OPTION_CHOICE(0, "engine", struct stuck_opts, c.engine, "ENGINE", stuck_engines,
		      "what counts exits: hist, the kernel; ring, kvmft; auto (default): the ring, "
		      "and the\n"
		      "kernel for vCPUs that the ring shows too little of"),
	FORMAT_OPTION(struct stuck_opts, stuck_formats),
	{ .name = "seconds",
	  .type = OPT_DURATION,
	  .offset = offsetof(struct stuck_opts, c.ns),
	  .arg = "N",
	  .help = "-d",
	  .flags = OPT_HIDDEN },
	OPT_END,
};

static int syms_pack(void *files, struct sbuf *out, struct kvmft_err *err)
{
	_cleanup_(ksyms_free) struct ksyms k = { 0 };
	int ret = guest_syms_read(&k, files, err);

	return ret ?: ksyms_pack(&k, out);
}

static int stuck_sessions(void *opts, struct operands *o, struct kvmft_err *err)
{
	struct stuck_opts *so = opts;

	if (!so->c.input) {
		so->c.input = operands_input(o);
		if (so->c.input && strcmp(so->c.input, "-") && access(so->c.input, F_OK))
			return err_usage(err, "there is no recording '%s'; a VM is chosen with --vm",
					 so->c.input);
	}
	return so->c.input && stuck_session ? stuck_session(o, &so->c.input, err) : 0;
}

/* All are of one guest, which --vm chooses. */
static const char *syms_last(const struct str_list *l)
{
	return l->n ? l->v[l->n - 1] : NULL;
}

static int stuck_cmd(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	struct stuck_opts *o = opts;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	_cleanup_(ksyms_free) struct ksyms k = { 0 };
	const char *slide = syms_last(&o->syms.kaslr);
	struct ksyms_files files = { syms_last(&o->syms.kallsyms), syms_last(&o->syms.vmlinux),
				     syms_last(&o->syms.modules), .slide.set = slide };
	unsigned int layers;
	int ret = 0;

	o->c.json = o->format == 1;
	o->c.width = page_width(&o->page);
	o->c.begin_ns = util_now_ns();
	o->c.remark = cli_remarks(o->quiet);
	if (o->c.input && (o->c.ns.set || o->c.engine >= 0))
		return err_usage(
			err, "options --duration and --engine are for a live look, not for --input");
	if (!o->c.input && (o->c.khz.set || argc))
		return err_usage(err, "%s with a recording: kvmft stuck INPUT [GUEST[=SEL]]...",
				 argc ? "captures of guests go" : "option --tsc-khz goes");
	o->c.guests = argv;
	o->c.nguest = (size_t)argc;
	if (slide && parse_bits64(slide, &files.slide.v))
		return err_usage(err, "option --guest-kaslr: '%s' is not a number", slide);
	if (slide && !files.vmlinux)
		return err_usage(err, "option --guest-kaslr goes with --guest-vmlinux");
	if (o->c.input)
		ret = sandbox_enter_reader(&layers, err);
	if (!ret && (files.kallsyms || files.vmlinux || files.modules)) {
		_cleanup_(sbuf_free) struct sbuf pack = { 0 };
		size_t bad;

		/* They are the guest's, and we have all rights. */
		ret = o->c.input ? guest_syms_read(&k, &files, err)
				 : sandbox_ask(syms_pack, &files, -1, KSYMS_MAX_FILE, &pack, err);
		if (!ret && !o->c.input)
			ret = err_why(err, ksyms_unpack(&k, pack.s, pack.len, &bad),
				      "cannot keep the guest's symbols");
		o->c.syms = &k;
	}
	ret = ret ?: stuck_run(&o->c, cli_note, &b, err);
	return ret < 0 ? ret : sink_print(&b, stdout, err) ?: ret;
}

const struct cmd cmd_stuck = {
	.name = "stuck",
	.summary = "where each vCPU is, and why a guest makes no progress",
	.args = "[INPUT [GUEST[=SEL]]...]",
	.description =
		"Watches the vCPUs' threads and KVM's events for 3 seconds and says for each vCPU whether it\n"
		"makes progress, and if not, why: spinning in a function of its guest, halted, an exit loop,\n"
		"starved or throttled, in the VMM, paused, stopped, blocked. The guest is not asked; but\n"
		"where INPUT is a session, or guests' captures are given, these say which task ran.",
	.examples = "  kvmft stuck --vm vm1\n"
		    "  kvmft stuck trace.dat\n"
		    "  kvmft stuck host guest=vm1\n"
		    "  kvmft stuck --vm vm1 --guest-kallsyms vm1.kallsyms\n"
		    "  kvmft stuck -d 1 --format json",
	.opts = stuck_options,
	.opts_size = sizeof(struct stuck_opts),
	PAGE_AT(struct stuck_opts, page),
	.quiet = offsetof(struct stuck_opts, quiet),
	.khz = offsetof(struct stuck_opts, c.khz),
	.syms = offsetof(struct stuck_opts, syms),
	.sessions = stuck_sessions,
	.run = stuck_cmd,
	.max_args = -1,
};
