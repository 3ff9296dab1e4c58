/* SPDX-License-Identifier: GPL-2.0-or-later */
/* report.c: `kvmft report`, why vCPUs exited and how long it took. */
#include "cmds.h"
#include "kvmft/evidence.h"

struct opts {
	struct sink_file file; /* first */
	const char *input, *event, *vm, *pids;
	struct opt_u64 vcpu, top, khz;
	const char *from, *to;
	struct guest_syms_opts syms;
	int key, semantics, per, by, clock, format;
	bool percentiles, split, waits;
	struct str_list given; /* of --input */
	struct str_list names; /* GUESTs as well */
	struct str_list inputs; /* several */
	struct many *many;
};

static const char *const report_formats[] = { "text", "json", "csv", "openmetrics", NULL };
#define FORMAT_OPENMETRICS 3

static const char *const semantics_names[] = { "exact", "perf", NULL };

static const char *const by_names[] = { "reason", "stack", "rip", "process", "task", NULL };
/* The option that asks for it, as "%s%s". */
#define BY_TEXT(o) (o)->waits ? "waits" : "by ", (o)->waits ? "" : by_names[(o)->by]
enum { BY_REASON, BY_STACK, BY_RIP, BY_PROCESS, BY_TASK };

static const char *const per_names[] = { "all", "vm", "vcpu", NULL }; /* enum report_per */

static const struct opt report_options[] = {
	OPTION('i', "input", OPT_LIST, struct opts, given, "INPUT",
	       "capture of a host, trace.dat, perf.data, text (default: kvmft.data); or several,\n"
	       "or a directory of them"),
	OPTION_NAMED('e', "event", OPT_WORD, struct opts, event, "CLASS", class_name_at,
		     "what to count (default: vmexit)"),
	OPTION_CHOICE(0, "by", struct opts, by, "WHAT", by_names,
		      "rows by reason (default); by the guest's code, and reason (rip); by\n"
		      "the kernel's stack, of all events recorded with --stacks, or those of CLASS;\n"
		      "by process of the guest (record --guest-processes), whose names GUEST knows;\n"
		      "or by task of the guest, from what GUEST itself recorded"),
	OPTION(0, "names", OPT_LIST, struct opts, names, "GUEST[=SEL]", "--by process: the same as GUEST"),
	OPTION_CHOICE('k', "key", struct opts, key, "KEY", report_keys,
		      "sort by this column (default: sample; time without idle\nwhere halts lead)"),
	VM_OPTION(struct opts, vm),
	OPTION('v', "vcpu", OPT_U64, struct opts, vcpu, "N", "only vCPUs of this id"),
	OPTION('p', "pid", OPT_STR, struct opts, pids, "PID[,PID...]",
	       "only these VMMs or vCPU threads"),
	OPTION_CHOICE(
		0, "per", struct opts, per, "WHAT", per_names,
		"tables for all together, also for each VM (default),\nor also for each vCPU"),
	OPTION_CHOICE(0, "semantics", struct opts, semantics, "RULES", semantics_names,
		      "where times begin and end: exact (default), or as perf kvm has it"),
	OPTION(0, "percentiles", OPT_FLAG, struct opts, percentiles, NULL, "also p50, p90 and p99"),
	OPTION(0, "split", OPT_FLAG, struct opts, split, NULL,
	       "where the time went: kernel, user space, polling, asleep,\n"
	       "waiting for a CPU, preempted; and guest run time"),
	OPTION(0, "waits", OPT_FLAG, struct opts, waits, NULL,
	       "what halted vCPUs waited for: disk, net, timer, another vCPU, an interrupt;\n"
	       "--per vcpu: of each vCPU; --by process: of each process, too"),
	OPTION(0, "from", OPT_STR, struct opts, from, "T",
	       "leave out what was before T, as kvmft merge shows the capture alone"),
	OPTION(0, "to", OPT_STR, struct opts, to, "T", WINDOW_HELP_TO),
	WINDOW_CLOCK_OPTION(struct opts),
	OPTION(0, "top", OPT_U64, struct opts, top, "N", "only the first N rows of each table"),
	FORMAT_OPTION(struct opts, report_formats),
	OPT_END,
};

struct run {
	const struct opts *o;
	struct kvmft_err *err;
	struct capture *cap;
	struct fmt *fmt;
	struct report_opts ro;
	struct report *r;
	struct report_filter filter;
	int32_t *pid;
	struct tl_loss loss;
	struct sink_remarks remarks;
	struct guest_syms syms;
	char **guest; /* operands */
	size_t nguest;
};

static int parse_pids(struct run *run)
{
	_cleanup_free_ char *text = xstrdup(run->o->pids);
	size_t n = 1, i = 0;
	char *p, *save = NULL;
	uint64_t v;

	for (p = text; p && *p; p++)
		n += *p == ',';
	run->pid = xcalloc(n, sizeof(*run->pid));
	for (p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		if (parse_u64(p, &v) || !v || v > INT32_MAX)
			return err_usage(run->err, "option --pid: '%s' is not a process id", p);
		run->pid[i++] = (int32_t)v;
	}
	if (!i)
		return err_usage(run->err, "option --pid: no process id");
	run->filter.pid = run->pid;
	run->filter.npid = i;
	return 0;
}

static int report_parse(struct run *run)
{
	const struct opts *o = run->o;
	const char *name;
	const struct event_class *c;

	run->ro = (struct report_opts){
		.semantics = o->semantics == 1 ? REPORT_PERF : REPORT_EXACT,
		.percentiles = o->percentiles, .split = o->split || o->key == KEY_CPU,
		.by_rip = o->by == BY_RIP, .has_from = o->from, .has_to = o->to,
	};
	run->filter = (struct report_filter){ .vm = -1, .vcpu = -1 };
	if (o->names.n)
		return err_usage(run->err, "option --names: only with --by process");
	if (top_check(&o->top, run->err) || only_vcpu(&o->vcpu, &run->filter.vcpu, run->err))
		return -EINVAL;
	if (o->pids && parse_pids(run))
		return -EINVAL;
	run->ro.vm = o->vm;
	run->ro.vms = o->per != REPORT_PER_ALL || o->pids || o->format == FORMAT_OPENMETRICS ||
		      run->ro.by_rip;
	name = run->o->event ?: "vmexit";
	c = class_find(name);
	run->ro.cls = c;
	if (run->ro.by_rip && ((c != class_find("vmexit") && c != class_find("entry")) ||
			       run->ro.semantics == REPORT_PERF))
		return err_usage(run->err, "option --by rip: only for --event vmexit or entry, and "
					   "not with --semantics perf");
	if (!run->ro.by_rip && (run->nguest || guest_syms_option(&run->o->syms)))
		return err_usage(run->err, "%s%s: only --by rip uses symbols of guests",
				 run->nguest ? "" : "option --",
				 run->nguest ? run->guest[0] : guest_syms_option(&run->o->syms));
	if (run->ro.semantics == REPORT_PERF && !class_has_perf(c))
		return err_usage(run->err, "option --semantics: perf kvm has no table of %s",
				 class_name(c));
	if (run->ro.split && (c != class_find("vmexit") || run->ro.semantics == REPORT_PERF))
		return err_usage(run->err, "options --split and --key cpu: only for --event vmexit, "
					   "and not with --semantics perf");
	return 0;
}

#define ULL(v) ((unsigned long long)(v))

static int why_empty(const struct run *run)
{
	const struct report_totals *t = report_totals(run->r);
	const char *path = run->cap->path, *class = class_name(run->ro.cls);
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct report_vcpu v;

	if (!t->exits && !t->entries && (run->ro.has_from || run->ro.has_to))
		return err_set(run->err, ENODATA,
			       "%s: no kvm_exit and kvm_entry events at that time (%llu events)",
			       path, ULL(t->events));
	if (!t->exits && !t->entries)
		return err_lack(run->err, ENODATA,
				"%s: no kvm_exit and kvm_entry events (%llu events): no VM ran, they "
				"were not recorded, or this KVM does not trace them (see kvmft check); "
				"--event userspace, ioport or mmio counts without them",
				path, ULL(t->events));
	if (!t->exits)
		return err_lack(run->err, ENODATA,
				"%s: no kvm_exit events: record both kvm_exit and kvm_entry (or see "
				"--event entry)", path);
	if (!t->class_events && run->ro.cls != class_find("vmexit"))
		return err_lack(
			run->err, ENODATA,
			"%s: no events of class %s, beside %llu exits: none happened, or they "
			"were not recorded (see kvmft-report(1) for the names)",
			path, class, (unsigned long long)t->exits);
	for (size_t i = 0; i < report_vcpus(run->r) && i < 32; i++) {
		report_vcpu(run->r, i, &v);
		if (v.vcpu >= 0)
			sbuf_addf(&b, "%s%lld of thread %d", b.len ? ", " : "", (long long)v.vcpu,
				  v.tid);
	}
	return err_set(run->err, ENODATA,
		       "%s: no samples of %s for what was selected, of %llu exits and %llu entries (an "
		       "exit counts when its thread enters again); its vCPUs: %s",
		       path, class, ULL(t->exits), ULL(t->entries), b.s ?: "none");
}

/* ---- what must be said ---- */

static void report_remarks(struct run *run, enum report_format format)
{
	const struct report_totals *t = report_totals(run->r);
	uint64_t n = t->class_events ?: t->exits;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct report_span span;
	char length[48];

	report_span(run->r, &span);
	/* If there is no place for remarks, they were printed before. */
	if (report_has_notes(format) &&
	    out_rate_remark(run->cap,
			    report_in_cycles(run->r) && cap_in_tsc(run->cap) ? "times are in cycles"
									    : NULL,
			    &b) &&
	    b.s)
		sink_remark(&run->remarks, "%s", b.s);
	if (run->cap->grain && report_has_notes(format))
		sink_remark(&run->remarks,
			    "times are right within %s, which those of a text are multiples of",
			    str_ns(length, sizeof(length), run->cap->grain));
	if (run->ro.by_rip && !run->syms.n)
		sink_remark(&run->remarks,
			    "functions have no names: give --guest-kallsyms, or, as another INPUT, "
			    "the guest's capture, recorded with --symbols");
	if (report_in_cycles(run->r))
		snprintf(length, sizeof(length), "%llu cycles", ULL(span.length));
	else if (n > 1 && span.length > run->cap->grain)
		snprintf(length, sizeof(length), "%s, %llu/s",
			 str_ns((char[16]){ 0 }, 16, span.length),
			 ULL(n * 1000000000 / span.length));
	else
		str_ns_grain(length, sizeof(length), span.length, run->cap->grain);
	if (run->ro.cls == class_find("entry") || !t->entries)
		sink_remark(&run->remarks,
			    "without kvm_exit and kvm_entry, both, it is not known how long an event "
			    "took: %llu in %s", ULL(n), length);
	else if (t->no_end)
		sink_remark(&run->remarks,
		       "%llu exits were followed by another exit without kvm_entry: they count, but "
		       "have no time",
		       ULL(t->no_end));
	if (t->no_begin)
		sink_remark(&run->remarks, "%llu events without the exit that they belong to: left out",
		       ULL(t->no_begin));
	if (t->fail_entry)
		sink_remark(&run->remarks, "%llu exits are failed VM entries (bit 31 of the reason)",
		       ULL(t->fail_entry));
	if (t->negative || t->backwards)
		sink_remark(&run->remarks,
		       "%llu samples end before they begin, %llu stamps run backwards: times of this "
		       "capture are not reliable",
		       ULL(t->negative), ULL(t->backwards));
	if (t->crowded)
		sink_remark(&run->remarks,
		       "more keys than are kept in memory: %llu samples are in one row, (others)",
		       ULL(t->crowded));
	if (t->no_hist)
		sink_remark(&run->remarks,
		       "more keys than are kept in memory: %llu samples are in no histogram, and "
		       "rows that lack one have no percentiles",
		       ULL(t->no_hist));
	if (t->left_out)
		sink_remark(&run->remarks,
		       "more threads than are kept in memory: %llu events of the later ones are "
		       "left out",
		       ULL(t->left_out));
	if (t->misplaced)
		sink_remark(&run->remarks,
		       "more vCPUs than are kept in memory: %llu entries count for another vCPU of "
		       "their thread",
		       ULL(t->misplaced));
	if (t->damaged)
		sink_remark(&run->remarks, "%llu damaged sub-buffers: the rest of each is left out",
		       ULL(t->damaged));
	if (run->ro.split && (t->poll_grow || t->poll_shrink))
		sink_remark(&run->remarks, "halt polling time was raised %llu times and lowered %llu times",
		       ULL(t->poll_grow), ULL(t->poll_shrink));
}

static void tell_incomplete(const struct run *run, const struct report_totals *t)
{
	if (run->loss.total || t->dropped || t->damaged || t->left_out || !run->cap->ndamage)
		cli_note("%s: %llu events lost%s, %llu pairs dropped at gaps, "
			 "%llu damaged sub-buffers", run->cap->path, ULL(run->loss.total),
			 run->loss.unknown ? " or more" : "", ULL(t->dropped), ULL(t->damaged));
	if (run->cap->is_tracedat && capture_missing(run->cap, t->events))
		cli_note("%s: the file counts them, but does not say where: nothing is paired from "
			 "one sub-buffer to the next", run->cap->path);
	for (size_t i = 0; i < run->cap->ndamage; i++)
		cli_note("%s: %s", run->cap->path, run->cap->damage[i].text);
}

static int report_print_as(struct run *run, enum report_format format)
{
	const struct report_doc d = {
		.r = run->r, .cap = run->cap, .opts = &run->ro, .pids = run->o->pids,
		.filter = run->filter,
		.per = run->o->per < 0 ? REPORT_PER_VM : (enum report_per)run->o->per,
		.key = run->o->key < 0 ? KEY_SAMPLE : (enum report_key)run->o->key,
		.idle_last = run->o->key < 0 && format == REPORT_TEXT &&
			     run->ro.semantics == REPORT_EXACT,
		.top = run->o->top.v, .lost = run->loss.total,
		.lost_unknown = run->loss.unknown, .f = run->o->file.page.f,
		.color = run->o->file.page.color, .width = run->o->file.page.width,
		.remark = (const char *const *)run->remarks.v, .nremark = run->remarks.n,
	};
	int ret = report_print(&d, format);
	const char *note;

	if (ret == -EPIPE)
		return ret;
	if (ret)
		return err_why(run->err, ret, "cannot %s",
			       ferror(d.f) ? "write to standard output" : "print");
	for (size_t i = 0; !report_has_notes(format) && (note = report_note(run->r, i)); i++)
		cli_note("%s", note);
	if (!report_has_notes(format))
		sink_remarks_tell(&run->remarks);
	return cli_flush(run->err);
}

static int report_one_capture(struct run *run)
{
	const enum report_format format = (enum report_format)MAX(run->o->format, 0);
	const struct event_class *c;
	const struct report_totals *t;
	bool part;
	int ret = sink_input_check(run->o->input, run->err);

	ret = ret ?: evidence_open(run->o->input, &run->cap, &run->fmt, run->err);
	ret = ret ?: rate_of_capture(run->cap, run->fmt, &run->o->khz, cli_note, run->err);
	ret = ret ?: window_report(run->cap, run->o->clock, run->o->from, run->o->to, &run->ro,
				   cli_note, run->err);
	c = ret ? NULL : class_recorded(run->fmt);
	/* Without exits, what else there is; no format of a text's is damaged. */
	if (c && !run->o->event && !fmt_find(run->fmt, "kvm", "kvm_exit") && !run->ro.split &&
	    (!run->cap->ndamage || run->cap->lacks) && run->ro.semantics != REPORT_PERF) {
		cli_note("%s: kvm_exit was not recorded: this is --event %s", run->cap->path,
			 class_name(c));
		run->ro.cls = c;
	}
	ret = ret ?: report_new(run->cap, run->fmt, &run->ro, &run->r, run->err);
	if (!ret && run->ro.by_rip)
		ret = guest_syms_of_operands(&run->syms, &run->o->syms, report_hostmap(run->r),
					     run->guest, run->nguest, cli_note, run->err);
	ret = ret ?: report_walk(run->r, run->err);
	if (ret)
		return ret;
	t = report_totals(run->r);
	run->filter.vm = report_vm_named(run->r);
	/* The capture's counters are for all of it. */
	if (run->ro.has_from || run->ro.has_to)
		run->loss = (struct tl_loss){ t->lost, t->lost_unknown };
	else
		tl_loss_of(run->cap, t->events, t->lost, t->lost_unknown, &run->loss);
	part = run->loss.total || run->loss.unknown || t->damaged || t->left_out ||
	       run->cap->ndamage;
	if (part)
		tell_incomplete(run, t);
	part |= !guest_syms_whole(&run->syms, cli_note);
	if (!report_has_samples(run->r, &run->filter))
		return why_empty(run);
	report_remarks(run, format);
	ret = report_print_as(run, format);
	if (ret && ret != -EPIPE) /* `| head` has seen enough: no failure */
		return ret;
	return part ? KVMFT_INCOMPLETE : KVMFT_OK;
}

/* Options that make no sense for stacks: times, vCPUs or VMs; and for processes. */
static int by_other_options(const struct run *run)
{
	const struct opts *o = run->o;
	bool process = o->by >= BY_PROCESS || o->waits;
	const struct {
		const char *name;
		bool set;
	} other[] = {
		{ "key", o->key >= 0 }, { "vcpu", o->vcpu.set }, { "pid", o->pids },
		{ "per", o->per >= 0 && !(o->waits && o->by < BY_STACK) }, { "semantics", o->semantics >= 0 },
		{ "percentiles", o->percentiles }, { "split", o->split }, { "from", o->from },
		{ "to", o->to }, { "vm", o->vm && !process }, { "tsc-khz", o->khz.set && !process },
		{ "event", o->event && process }, { "clock", o->clock >= 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		if (other[i].set && process)
			return err_usage(run->err, "options --%s%s and --%s exclude each other",
					 BY_TEXT(o), other[i].name);
		else if (other[i].set)
			return err_usage(run->err,
					 "options --by stack and --%s exclude each other: kvmft "
					 "merge --format folded has --vcpu, --side, --from and --to",
					 other[i].name);
	return 0;
}

static int report_by_stack(struct run *run)
{
	struct by_stack b = { 0 };
	int ret = by_other_options(run);

	ret = ret ?: sink_input_check(run->o->input, run->err);
	ret = ret ?: evidence_open(run->o->input, &run->cap, &run->fmt, run->err);
	ret = ret ?: by_stack_walk(run->cap, run->fmt, run->o->event ? run->ro.cls : NULL, &b,
					run->err);
	if (!ret && b.stacks) {
		const struct report_totals t = { .damaged = b.damaged };

		tl_loss_of(run->cap, b.events, b.lost, b.lost_unknown, &run->loss);
		ret = by_stack_print(&b, run->cap, run->o->top.v,
				     cli_formats[MAX(run->o->format, 0)], run->o->file.page.f);
		if (ret && ret != -EPIPE) {
			err_why(run->err, ret, "cannot print");
		} else if (run->loss.total || run->loss.unknown || b.damaged || run->cap->ndamage) {
			tell_incomplete(run, &t);
			ret = KVMFT_INCOMPLETE;
		} else {
			ret = KVMFT_OK;
		}
	} else if (!ret && !fmt_find(run->fmt, "ftrace", "kernel_stack")) {
		ret = err_lack(run->err, ENODATA, "no stacks were recorded in %s: kvmft record --stacks EVENT",
			       run->cap->path);
	} else if (!ret) {
		ret = err_set(run->err, ENODATA, "no stacks of %s in %s (%llu events%s)",
			      run->o->event ?: "any event", run->cap->path, ULL(b.events),
			      b.apart ? ", and stacks whose event is missing" : "");
	}
	by_stack_free(&b);
	return ret;
}

/* ---- --by process and --by task: what guests ran ---- */

/* Captures that can have no answer say what would. */
#define NO_SWITCH \
	"%s: not recorded: sched_switch, which says what ran: `kvmft record` in the guest"

int process_check(const struct pairing *p, const struct processes *s, bool tasks,
		  struct kvmft_err *err)
{
	const struct capture *cap = p->host.cap;

	if (tasks) {
		for (size_t i = 0; i < p->nguest; i++)
			if (event_format(p->guest[i].c.fmt, EV_SWITCH))
				return 0;
		return err_lack(err, ENODATA, NO_SWITCH, p->guest[0].c.cap->path);
	}
	if (!event_format(p->host.fmt, EV_EXIT) || !event_format(p->host.fmt, EV_ENTRY))
		return err_lack(err, ENODATA,
				"%s: not recorded: kvm_entry and kvm_exit: `kvmft record "
				"--guest-processes` on the host", cap->path);
	if (s->has_cr3)
		return 0;
	if (cap->vendor && exit_isa_of_vendor(cap->vendor) != EXIT_ISA_SVM)
		return err_lack(err, ENODATA,
				"%s: not recorded: which process a guest ran, which only hosts with "
				"AMD's CPUs can tell; `kvmft record` in the guest as well, and "
				"`kvmft report --by task HOST GUEST`", cap->path);
	return err_lack(err, ENODATA,
			"%s: not recorded: which process a guest ran: `kvmft record "
			"--guest-processes` on the host (AMD), or `kvmft record` in the guest as "
			"well, and `kvmft report --by task HOST GUEST`",
			cap->path);
}

/* All exits may be of guests whose registers no host can read. */
static int process_any(const struct processes *s, const struct capture *cap, bool tasks,
		       struct kvmft_err *err)
{
	uint64_t exits = 0, blind = 0, sealed = 0, shadowed = 0;

	for (size_t i = 0; i < s->nvm; i++) {
		exits += s->vm[i].exits;
		blind += s->vm[i].blind;
		sealed += s->vm[i].sealed;
		shadowed += s->vm[i].shadowed;
	}
	if (!exits)
		return err_set(err, ENODATA, "%s: no exits of a VM there", cap->path);
	if (tasks || blind < exits)
		return 0;
	return err_lack(err, ENODATA, "%s: not recorded: which process a guest ran: %s", cap->path,
			sealed	 ? "its registers are encrypted (SEV-ES, SEV-SNP)"
			: shadowed ? "without nested paging (kvm_amd.npt=0) CR3 is KVM's"
				   : "no exit has its guest_cr3, whose probe missed them");
}

/* The first of two walks, from what was started to where the second one is. */
int process_learn(struct view *v, struct processes *s)
{
	int ret = tl_walk(v->p->t, TL_FEED(processes_feed, s)) ?: tl_error(v->p->t);

	if (ret)
		return err_why(v->err, ret, "cannot read %s", v->p->host.cap->path);
	processes_again(s);
	return view_again(v, v->from, v->to);
}

static int report_by_process(const struct process_opts *o, struct kvmft_err *err)
{
	const struct view_opts vo = { .vm = o->vm, .khz = *o->khz, .clock = -1 };
	_cleanup_(view_close) struct view v = {
		.o = &vo, .err = err, .note = cli_note, .cycles = "times are in cycles",
		.need.need = o->nguest ? PAIRING_CLOCKS : PAIRING_VCPUS,
	};
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct processes *s = NULL;
	struct exit_names names;
	bool whole = true;
	int ret = view_open(&v, o->captures, o->nguest + 1) ?: view_start(&v);

	if (ret)
		return ret;
	processes_new(v.p->t, v.vm, &s);
	ret = process_check(v.p, s, o->tasks, err);
	ret = ret ?: process_learn(&v, s);
	if (!ret) {
		ret = view_walk(&v, TL_FEED(processes_feed, s)) ?: tl_error(v.p->t);
		ret = err_why(err, ret, "cannot read %s", v.p->host.cap->path);
	}
	if (!ret)
		processes_finish(s);
	ret = ret ?: process_any(s, v.p->host.cap, o->tasks, err);
	ret = ret ?: view_tell(&v, true, &whole);
	for (size_t i = 0; !ret && o->tasks && i < v.p->nguest; i++) /* some have it */
		if (!event_format(v.p->guest[i].c.fmt, EV_SWITCH)) {
			cli_note(NO_SWITCH, v.p->guest[i].c.cap->path);
			whole = false;
		}
	if (!ret) {
		const struct capture *cap = v.p->host.cap;
		const struct process_view pv = {
			.p = s, .m = v.p->map, .cap = cap, .names = &names, .tasks = o->tasks,
			.named = o->nguest, .khz = cap->tsc_khz, .top = o->top,
			.width = o->page->width,
		};

		exit_names_init(&names, event_format(v.p->host.fmt, EV_EXIT), cap->vendor);
		processes_print(&pv, o->format, &b);
		ret = sink_print(&b, o->page->f, err) ?: cli_flush(err);
	}
	processes_free(s);
	return ret ?: whole ? KVMFT_OK : KVMFT_INCOMPLETE;
}

static int by_process(struct run *run)
{
	const struct opts *o = run->o;
	const bool named = o->names.n;
	const size_t n = named ? o->names.n : run->nguest;
	_cleanup_free_ char **captures = xcalloc(n + 1, sizeof(*captures));
	const struct process_opts p = {
		.captures = captures, .nguest = n, .vm = o->vm,
		.format = cli_formats[MAX(o->format, 0)],
		.khz = &o->khz, .page = &o->file.page, .top = o->top.v, .tasks = o->by == BY_TASK,
		.waits = !o->waits ? 0 : o->by == BY_PROCESS ? WAITS_BY_PROCESS + 1
			 : o->per == REPORT_PER_VCPU ? WAITS_BY_VCPU + 1 : WAITS_BY_VM + 1,
	};
	int ret = by_other_options(run);

	if (!ret && o->waits && o->by > BY_REASON && o->by != BY_PROCESS)
		ret = err_usage(run->err, "options --waits and --by %s exclude each other", by_names[o->by]);
	ret = ret ?: top_check(&o->top, run->err);
	if (!ret && p.tasks && !run->nguest)
		ret = err_usage(run->err, "--by task: what ran only the guest knows: HOST GUEST[=SEL]...");
	if (!ret && o->names.n && (p.tasks || run->nguest))
		ret = err_usage(run->err, "--names GUEST is GUEST of --by process: one of them");
	ret = ret ?: sink_input_check(o->input, run->err);
	captures[0] = (char *)o->input;
	memcpy(captures + 1, named ? (char **)o->names.v : run->guest, n * sizeof(*captures));
	return ret ?: (o->waits ? report_waits : report_by_process)(&p, run->err);
}

/* ---- many captures ---- */

static void run_free(struct run *run)
{
	sink_remarks_free(&run->remarks);
	free(run->pid);
	report_free(run->r);
	guest_syms_free(&run->syms);
	fmt_free(run->fmt);
	capture_close(run->cap);
}

/* One of them: in cycles it does not count in the sum. */
static int report_one(void *ctx, const char *input, FILE *out, struct sbuf *rows,
		      struct kvmft_err *err)
{
	struct opts o = *(const struct opts *)ctx;
	struct run run = { .o = &o, .err = err };
	int ret;

	o.input = input;
	o.file.page.f = out;
	ret = report_parse(&run);
	ret = ret ?: report_one_capture(&run);
	if (ret >= 0 && report_in_cycles(run.r)) {
		cli_note("%s: its times are in cycles, so it is not in the sum", input);
	} else if (ret >= 0) {
		struct report_table t;

		report_table(run.r, &run.filter, KEY_SAMPLE, &t);
		for (size_t i = 0; i < t.n; i++) {
			const struct report_row *row = &t.row[i];
			struct many_row m = { .n = row->samples,
					      .timed = row->timed, .total = row->total_time,
					      .min = row->min_time,
					      .max = row->max_time };

			if (row->total_time == UINT64_MAX)
				m.total = (unsigned __int128)row->avg_time * row->timed;

			_Static_assert(sizeof(m.name) >= REPORT_NAME, "names fit");
			report_key_name(run.r, t.row[i].key, m.name);
			sbuf_add_mem(rows, &m, sizeof(m));
		}
		report_table_free(&t);
	}
	run_free(&run);
	return ret;
}

static int report_sessions(void *opts, struct operands *o, struct kvmft_err *err)
{
	_cleanup_(session_free) struct session s = { 0 };
	struct kvmft_err why = { .text = "" };
	struct opts *r = opts;
	const char *host;
	int at = 0, ret;

	r->input = r->given.n ? r->given.v[0] : NULL;
	if (r->by == BY_RIP || r->by >= BY_PROCESS || r->waits) {
		/* It is about the host. */
		if (r->given.n > 1)
			return err_usage(err, "--%s%s: one host at a time", BY_TEXT(r));
		if (!r->input && o->argc) {
			r->input = o->argv[0];
			o->argv++;
			o->argc--;
		}
		r->input = r->input ?: DEFAULT_INPUT;
		return captures_session(o, &r->input, err);
	}
	if (!r->input)
		r->input = o->argc ? o->argv[at++] : DEFAULT_INPUT;
	if (at == o->argc && r->given.n < 2) {
		host = r->input;
		ret = captures_host(o, &host, &s, &why);
		o->argc = 0;
		if (ret == -ENOMEM || ret == -EIO)
			return err_set(err, -ret, "%s", why.text);
		if (s.named) {
			r->input = host;
			return 0;
		}
	}
	ret = captures_below(o, r->input, false, &r->inputs, err);
	for (size_t i = 1; i < r->given.n && !ret; i++)
		ret = captures_below(o, r->given.v[i], false, &r->inputs, err);
	for (; at < o->argc && !ret; at++)
		ret = captures_below(o, o->argv[at], false, &r->inputs, err);
	o->argc = 0;
	if (ret)
		return ret;
	if (r->inputs.n == 1 && why.text[0]) { /* what is not right with a session */
		*err = why;
		return -EINVAL;
	}
	r->input = r->inputs.v[0];
	return 0;
}

static int report_output(void *opts, int argc, struct kvmft_err *err)
{
	struct opts *o = opts;
	struct run run = { .o = o, .err = err };
	int ret = sink_file_open(opts, argc, err);

	if (!ret && o->format == FORMAT_OPENMETRICS && (o->by > BY_REASON || o->waits))
		return err_usage(err, "--%s%s has no metrics", BY_TEXT(o));
	if (ret || o->inputs.n < 2)
		return ret;
	if (o->by == BY_STACK || o->format == FORMAT_OPENMETRICS || o->key == KEY_CPU)
		return err_usage(err, "--by stack, --key cpu and --format openmetrics: one capture "
				      "at a time");
	ret = report_parse(&run);
	run_free(&run);
	return ret ?: many_begin(&o->inputs, report_one, o, cli_note, &o->many, err);
}

static int report_release(void *opts)
{
	struct opts *o = opts;

	many_end(o->many);
	free(o->inputs.v);
	return sink_file_close(opts);
}

static int report_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	struct opts *o = opts;
	struct run run = { .o = o, .err = err, .guest = argv, .nguest = (size_t)argc };
	const struct many_doc d = {
		.format = cli_formats[MAX(o->format, 0)], .f = o->file.page.f,
		.title = class_title(class_find(o->event ?: "vmexit")), .what = "Samples",
		.times = "Total events handled time", .of = "samples", .top = o->top.v,
		.key = (enum report_key)MAX(o->key, 0),
	};
	int ret;

	if (o->many)
		return many_print(o->many, &d, err);
	if (o->by >= BY_PROCESS || o->waits)
		return by_process(&run);
	ret = report_parse(&run);
	if (!ret)
		ret = run.o->by == BY_STACK ? report_by_stack(&run) : report_one_capture(&run);
	run_free(&run);
	return ret;
}

const struct cmd cmd_report = {
	.name = "report",
	.summary = "why vCPUs left their guests, and how long it took",
	.args = "[INPUT]...",
	.description =
		"Statistics of exits, or of what they were for, from a capture of the host: on this\n"
		"machine or any other. The tables look like those of `perf kvm stat report`. "
		"Several\n"
		"captures, or a directory of them, get tables for each, and one for all together.",
	.examples = "  kvmft report\n"
		    "  kvmft report --event ioport --vcpu 0 -k time\n"
		    "  kvmft report -i trace.dat --per vcpu --percentiles\n"
		    "  kvmft report --split\n"
		    "  kvmft report --by rip host guest         # which code of the guest causes them\n"
		    "  kvmft report --by stack --top 10\n"
		    "  kvmft report --by task host guest        # who in the guest had the vCPUs\n"
		    "  kvmft report -i host1 host2              # or of all below a directory",
	.opts = report_options,
	.groups = "input event by names key vm per split waits from to top format\n"
		  "less usual: percentiles vcpu pid semantics clock",
	.opts_size = sizeof(struct opts),
	.syms = offsetof(struct opts, syms),
	PAGE_AT(struct opts, file.page_opts),
	.khz = offsetof(struct opts, khz),
	.sessions = report_sessions,
	.run = report_run,
	.max_args = -1,
	.reader = true,
	.output = report_output,
	.release = report_release,
};
