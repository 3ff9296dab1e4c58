/* SPDX-License-Identifier: GPL-2.0-or-later */
/* report_process.c: `kvmft report --by process` and `--by task`, what guests ran. */
#include "cmds.h"

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

int report_by_process(const struct process_opts *o, struct kvmft_err *err)
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
