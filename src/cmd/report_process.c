/* SPDX-License-Identifier: GPL-2.0-or-later */
/* report_process.c: `kvmft report --by process` and `--by task`, what guests ran. */
#include "report.h"

#include "kvmft/exit_names.h"

/* Captures that can have no answer say what would. */
int process_check(const struct pairing *p, const struct processes *s, bool tasks,
		  struct kvmft_err *err)
{
	const struct capture *cap = p->host.cap;

	if (tasks) {
		for (size_t i = 0; i < p->nguest; i++)
			if (!event_format(p->guest[i].c.fmt, EV_SWITCH))
				return err_lack(err, ENODATA,
						"%s: not recorded: sched_switch, which says what ran: "
						"`kvmft record` in the guest", p->guest[i].c.cap->path);
		return 0;
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
int process_learn(struct pairing *p, struct processes *s, struct kvmft_err *err)
{
	const struct tl_item *item;
	int ret;

	while ((ret = tl_next(p->t, &item)) > 0)
		processes_feed(s, item);
	if (ret || (ret = tl_error(p->t)))
		return err_why(err, ret, "cannot read %s", p->host.cap->path);
	tl_stop(p->t);
	processes_again(s);
	return tl_start(p->t, err);
}

static int process_walk(struct pairing *p, struct processes *s, struct windows *w,
			struct kvmft_err *err)
{
	const struct tl_item *item;
	int ret = tl_start(p->t, err) ?: process_learn(p, s, err);

	if (ret)
		return ret;
	while ((ret = tl_next(p->t, &item)) > 0) {
		win_feed(w, item);
		processes_feed(s, item);
	}
	ret = ret ?: tl_error(p->t);
	if (ret)
		return err_why(err, ret, "cannot read %s", p->host.cap->path);
	win_finish(w);
	processes_finish(s);
	return 0;
}

int report_by_process(const struct process_opts *o, char **guest, size_t nguest,
		      struct kvmft_err *err)
{
	const struct pairing_opts po = { .khz = o->khz,
					 .need = nguest ? PAIRING_CLOCKS : PAIRING_VCPUS };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	_cleanup_(pairing_close) struct pairing p = { 0 };
	struct processes *s = NULL;
	struct windows *w = NULL;
	struct exit_names names;
	bool tasks = o->tasks, whole = true;
	int64_t vm = -1;
	int ret = pairing_prepare(&p, o->input, guest, nguest, &po, err);

	ret = ret ?: rate_of_pairing(&p, o->khz, false, "times are in cycles", cli_note, err);
	ret = ret ?: only_vm(&p, o->vm, &vm, err);
	if (ret)
		return ret;
	win_new(p.t, &w);
	processes_new(p.t, vm, &s);
	ret = process_check(&p, s, tasks, err);
	ret = ret ?: process_walk(&p, s, w, err);
	ret = ret ?: process_any(s, p.host.cap, tasks, err);
	ret = ret ?: sink_tell(&p, w, true, &whole, err);
	if (!ret) {
		const struct process_view v = {
			.p = s, .m = p.map, .cap = p.host.cap, .names = &names, .tasks = tasks,
			.named = nguest, .khz = p.host.cap->tsc_khz, .top = o->top,
			.width = o->page->width,
		};

		exit_names_init(&names, event_format(p.host.fmt, EV_EXIT), p.host.cap->vendor);
		processes_print(&v, o->format, &b);
		ret = sink_print(&b, o->page->f, err) ?: cli_flush(err);
	}
	processes_free(s);
	win_free(w);
	return ret ?: whole ? KVMFT_OK : KVMFT_INCOMPLETE;
}
