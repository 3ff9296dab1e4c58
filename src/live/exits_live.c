/* SPDX-License-Identifier: GPL-2.0-or-later */
/* exits_live.c: counting exits live, from its configuration to its result. */
#include "exits.h"

#include <inttypes.h>

/* ---- the machine ---- */

/* The events of wake-ups and halts, as far as the kernel has them. */
static int wake_events(struct exits_run *x)
{
	static const enum event_role roles[] = { EV_WAKING, EV_VCPU_WAKEUP };
	int ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(roles) && x->c->latency && !ret; i++) {
		const char *sys = i ? "kvm" : "sched";

		if (kevent_exists(x->t, sys, event_name(roles[i])))
			ret = kevent_list_add(&x->events, sys, event_name(roles[i]), NULL);
	}
	return ret;
}

static int prepare_events(struct exits_run *x)
{
	static const char *const clocks[] = { "mono_raw", "mono", "local" };
	int ret = kevent_kvm_check(x->t, x->err);

	if (!ret && kevent_list_add(&x->events, "kvm", "kvm_exit", NULL))
		ret = -ENOMEM;
	if (!ret && x->c->time && kevent_list_add(&x->events, "kvm", "kvm_entry", NULL))
		ret = -ENOMEM;
	ret = ret ?: wake_events(x);
	ret = ret ?: session_formats(x->t, &x->events, &x->fmt, x->err);
	if (ret)
		return ret;
	if (!event_find(x->fmt, EV_EXIT, 0, &x->exit) ||
	    (!event_find(x->fmt, EV_ENTRY, 0, &x->entry) && x->c->time))
		return err_lack(x->err, EBADMSG,
				"the format of kvm_exit or kvm_entry cannot be understood");
	(void)event_find(x->fmt, EV_WAKING, 1, &x->waking);
	(void)event_find(x->fmt, EV_VCPU_WAKEUP, 1, &x->wakeup);
	exit_names_init(&x->names, x->exit.ev, NULL);
	x->isa = session_isa(&x->names);
	if (!x->c->time)
		return 0;
	/* Clocks in ns; measuring the rate of a TSC would take a tenth of a second. */
	for (size_t i = 0; i < ARRAY_SIZE(clocks) && !x->clock; i++)
		if (!ktracefs_clock_check(x->t, clocks[i], NULL))
			x->clock = clocks[i];
	return 0;
}

static int start_engine(struct exits_run *x)
{
	int ret;

	x->engine = x->c->engine == EXITS_ENGINE_USER ? &exits_engine_drain : &exits_engine_hist;
	ret = x->engine->start(x);
	if (!ret || x->engine == &exits_engine_drain || x->c->engine == EXITS_ENGINE_KERNEL)
		return ret;
	if (x->c->verbose)
		x->note("the kernel cannot count: %s", x->err->text);
	x->engine->stop(x);
	*x->err = (struct kvmft_err){ .text = "" };
	sbuf_free(&x->engine_text);
	x->engine = &exits_engine_drain;
	return x->engine->start(x);
}

static int prepare(struct exits_run *x)
{
	int ret;

	/*
	 * Before anything is set in the kernel, so that Ctrl-C always finds us ready to remove it.
	 */
	x->signal_fd = session_signals(x->err);
	if (x->signal_fd < 0)
		return x->signal_fd;
	ret = ktracefs_open(NULL, KTRACEFS_MOUNT, &x->t, x->err);
	if (ret)
		return ret;
	session_sweep(x->t, x->note);
	ret = prepare_events(x);
	exits_who_begin(x);
	ret = ret ?: exits_target_find(x);
	return ret ?: start_engine(x);
}

/* ---- the result ---- */

/* " (kvm_pvm)": what may raise no events. */
static const char *module_text(enum exit_isa isa, char buf[32])
{
	const char *module;
	enum exit_isa of;

	buf[0] = '\0';
	for (size_t i = 0; (module = exit_module(i, &of)); i++)
		if (of == isa && module[0])
			snprintf(buf, 32, " (%s)", module);
	return buf;
}

static int nothing_seen(struct exits_run *x)
{
	bool all = !x->target.pid && !x->target.ntid;
	char text[32], module[32];
	int ret;

	str_ns(text, sizeof(text), util_now_ns() - x->begin_ns);
	if (x->end == EXITS_TARGET_GONE)
		return err_set(x->err, ENODATA, "no exits of %s were seen in %s, until it ended",
			       x->target.title.s, text);
	ret = exits_who_list(x, true);
	if (ret)
		return ret;
	if (!x->vms->n)
		return vm_list_none(x->vms, x->err);
	return err_set(x->err, ENODATA,
		       "no exits%s%s were seen in %s although %zu VM%s: idle, or its "
		       "KVM raises no kvm_exit%s",
		       all ? "" : " of ", all ? "" : x->target.title.s, text, x->vms->n,
		       x->vms->n == 1 ? " runs" : "s run",
		       module_text(x->isa, module));
}

static int result(struct exits_run *x)
{
	if (x->lost)
		x->note("%" PRIu64 "%s exits were not counted (%s)", x->lost,
			x->lost_unknown ? " or more" : "",
			x->engine == &exits_engine_hist ? "the kernel's map was full"
							: "the ring was full");
	else if (x->lost_unknown)
		x->note("some exits were not counted");
	if (x->lost_time)
		x->note("some exits were counted but not timed: the kernel's map of times was full");
	if (x->lost || x->lost_unknown || x->lost_time)
		return KVMFT_INCOMPLETE;
	if (x->end == EXITS_READER_GONE || x->seen)
		return KVMFT_OK;
	return nothing_seen(x);
}

static void undo(struct exits_run *x)
{
	exits_top_end(x);
	if (x->engine)
		x->engine->stop(x);
	exits_free(&x->table);
	exits_target_free(&x->target);
	vm_list_free(x->vms);
	fmt_free(x->fmt);
	kevent_list_free(&x->events);
	ktracefs_close(x->t);
	sbuf_free(&x->engine_text);
	util_close_fd(&x->inotify_fd);
	util_close_fd(&x->signal_fd);
}

static void say_what(struct exits_run *x)
{
	char text[32];

	if (x->c->verbose)
		x->note("%s", x->engine_text.s ?: x->engine->name);
	if (!isatty(STDERR_FILENO) || x->screen.on)
		return;
	if (x->c->duration.set)
		x->note("exit reasons of %s, for %s", x->target.title.s,
			 str_ns(text, sizeof(text), x->c->duration.v));
	else
		x->note("exit reasons of %s... Ctrl-C ends%s", x->target.title.s,
			x->c->interval.set ? "" : " and shows them");
}

int exits_live_run(const struct exits_config *c, note_fn *note, struct kvmft_err *err)
{
	struct exits_run x = {
		.c = c, .note = note, .err = err, .signal_fd = -1, .inotify_fd = -1
	};
	int ret;

	x.table.timed = x.c->time;
	x.table.spreads = x.c->latency;
	ret = prepare(&x);
	if (!ret && x.c->top)
		ret = exits_top_begin(&x);
	if (!ret) {
		uint64_t begun = util_now_ns();

		say_what(&x);
		ret = exits_who_scan(&x);
		x.begin_ns = x.interval_ns = begun;
	}
	ret = ret ?: exits_loop(&x);
	exits_top_end(&x);
	ret = ret ?: result(&x);
	undo(&x);
	return ret;
}
