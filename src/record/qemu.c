/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu.c: `kvmft record --qemu`, trace events of QEMU on for the time of a capture.
 *
 * A process of its own, kvmft-qemu, talks to the monitors, forked before the recorder has anything
 * to lose. It holds a connection to each QEMU for the whole capture, so that nobody else can take
 * the place that is needed for switching back. It switches on only what was off, and exactly these
 * off again when told to: also if the recorder was killed, which it notices by the end of its pipe.
 */
#include "record.h"

#include <poll.h>

#include "kvmft/qemu.h"

/* What it is told, besides the end of its pipe. */
#define KEEP_ON	 '1'
#define KEEP_END 'q'

/* In a capture's meta, names of events on one line. */
#define NAMES_PER_LINE 3000

/* Switching back matters more than speed. */
#define BACK_TIMEOUT_NS 30000000000ull
#define QEMU_NS		60000000000ull /* for all events of a QEMU, either way */

/* They are asked one after the other: what is left for each when others took all of the time. */
#define FIND_NS	     10000000000ull
#define FIND_LEAST_NS  300000000ull
#define BACK_LEAST_NS 1000000000ull
#define ANSWERS	     3 /* of one that takes all the time it has for each */

/* What `--qemu default` means; names that a QEMU does not have are left out. */
static const char *const default_events[] = {
	"virtio_queue_notify", "virtio_notify", "virtio_notify_irqfd",
	"virtio_notify_irqfd_deferred_fn", "virtio_blk_handle_read", "virtio_blk_handle_write",
	"virtio_blk_rw_complete", "virtio_blk_req_complete", "kvm_set_ioeventfd_mmio",
	"kvm_set_ioeventfd_pio", "kvm_irqchip_add_msi_route", "kvm_irqchip_update_msi_route",
	"kvm_irqchip_release_virq", "vm_state_notify", "runstate_set",
};

struct kept {
	struct qemu q;
	struct qemu_target where;
	struct mon_events before;
	struct mon_switches want;
	bool gone; /* QEMU has ended, or closed the connection */
	bool on;   /* something may have been switched */
};

struct keep {
	const struct record_config *c;
	struct kept *v;
	size_t n, cap;
	struct sbuf answer;
	uint64_t begin; /* of finding QEMUs, or of switching back */
};

/* ---- kvmft-qemu: its answers are lines: 'M' and a record for the capture, 'N' and a note ---- */

static void answer_line(struct keep *k, char what, const char *text)
{
	sbuf_addc(&k->answer, what);
	for (; *text; text++)
		sbuf_addc(&k->answer, *text == '\n' ? ' ' : *text);
	sbuf_addc(&k->answer, '\n');
}

static int answer_end(struct keep *k, int out, int ret, struct kvmft_err *err)
{
	for (char *p = err->text; (p = strchr(p, '\n'));)
		*p = ' ';
	ret = record_answer(out, ret, err, &k->answer);
	sbuf_reset(&k->answer);
	return ret;
}

/* Of `most`, what the others have left of `all` since `begin`, and at least `least`. */
static uint64_t wait_patience(uint64_t begin, uint64_t all, uint64_t most, uint64_t least)
{
	uint64_t used = util_now_ns() - begin;

	return MAX(used < all ? MIN(most, all - used) : 0, least);
}

/* ---- finding ---- */

/* "qemu pid version monitor ...": which QEMU was seen. */
static int tell_qemu(struct keep *k, struct kept *q, struct kvmft_err *err)
{
	_cleanup_(mon_program_free) struct mon_program p = { .path = { 0 } };
	_cleanup_(sbuf_free) struct sbuf line = { 0 }, version = { 0 }, help = { 0 };
	int ret = monitor_version(q->q.m, &version, err);

	if (ret)
		return ret;
	if (q->q.pid)
		(void)!mon_program_read(q->q.pid, &p);
	/* A monitor that knows the command of back end simple is better proof than any text. */
	if (!monitor_human(q->q.m, "help trace-file", &help, NULL) && help.s &&
	    strstr(help.s, "trace-file"))
		sbuf_addf(&p.found, "%ssimple:command", p.found.len ? "," : "");
	record_met_line(&line, q->q.pid, &p);
	meta_str(&line, "version", version.s);
	meta_str(&line, "monitor", monitor_name(q->q.m));
	meta_str(&line, "name", q->q.name);
	if (line.s)
		answer_line(k, 'M', line.s);
	return 0;
}

static int add_qemu(struct keep *k, struct qemu_target t, struct kvmft_err *err)
{
	struct kept *slot = array_grow(&k->v, k->n, &k->cap, sizeof(*slot));
	int ret;

	if (!slot)
		return err_set(err, ENOMEM, "out of memory");
	t.timeout_ns = wait_patience(k->begin, FIND_NS, MON_TIMEOUT_NS, FIND_LEAST_NS);
	ret = qemu_open(&t, &slot->q, err);
	if (!ret)
		monitor_within(slot->q.m, t.timeout_ns * ANSWERS);
	ret = ret ?: monitor_events(slot->q.m, &slot->before, err);
	ret = ret ?: tell_qemu(k, slot, err);
	slot->where = (struct qemu_target){ .monitor = t.monitor };
	if (ret) {
		qemu_close(&slot->q);
		mon_events_free(&slot->before);
		return ret;
	}
	monitor_patience(slot->q.m, MON_TIMEOUT_NS);
	k->n++;
	return 0;
}

static int find_qemus(struct keep *k, struct kvmft_err *err)
{
	const struct record_config *c = k->c;
	struct vm_list *list = NULL;
	int ret = 0;

	for (size_t i = 0; i < c->monitors.n && !ret; i++)
		ret = add_qemu(k, (struct qemu_target){ .monitor = c->monitors.v[i] }, err);
	if (c->monitors.n)
		return ret;
	for (size_t i = 0; i < c->vms.n && !ret; i++) {
		const struct qemu_target t = { .vm = c->vms.v[i] };
		const struct vm *vm;
		bool again = false;

		ret = mon_qemu_scan(&list, err);
		ret = ret ?: mon_qemu_find(list, c->vms.v[i], &vm, err);
		/* named twice */
		for (size_t n = 0; n < k->n && !ret; n++)
			again |= vm->pid && k->v[n].q.pid == vm->pid;
		vm_list_free(list);
		list = NULL;
		ret = ret || again ? ret : add_qemu(k, t, err);
	}
	if (c->vms.n)
		return ret;
	/* All that run here: those that cannot be reached are reported, an error is none at all. */
	ret = mon_qemu_scan(&list, err);
	if (ret)
		return ret;
	if (!list->n)
		ret = err_lack(err, ENOENT, "--qemu: no QEMU is running here");
	for (size_t i = 0; i < list->n; i++) {
		const struct qemu_target t = { .vm = list->vm[i].sel };

		ret = add_qemu(k, t, err);
		if (ret && (i + 1 < list->n || k->n))
			answer_line(k, 'N', err->text);
	}
	vm_list_free(list);
	return k->n ? 0 : ret;
}

static int want_all(struct keep *k, struct kept *q, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf notes = { 0 };
	int ret = 0;

	for (size_t i = 0; i < k->c->qemu.n && !ret; i++) {
		const char *text = k->c->qemu.v[i];
		size_t found = 0;

		if (strcmp(text, "default")) {
			ret = mon_switches_add(&q->want, text + (*text == '-'), *text != '-', err);
			continue;
		}
		for (size_t e = 0; e < ARRAY_SIZE(default_events) && !ret; e++)
			if (mon_events_get(&q->before, default_events[e])) {
				ret = mon_switches_add(&q->want, default_events[e], true, err);
				found++;
			}
		if (!ret && !found)
			ret = err_set(err, ENOENT, "%s has none of the default events",
				      monitor_name(q->q.m));
	}
	ret = ret ?: qemu_check(&q->before, &q->want, &notes, err);
	for (char *p = notes.s, *next; p && *p; p = next) {
		size_t n = strcspn(p, "\n");

		next = p + n + !!p[n];
		p[n] = '\0';
		answer_line(k, 'N', p);
	}
	return ret;
}

/* ---- on ---- */

static void flush_names(struct keep *k, const struct kept *q, struct sbuf *names, bool was)
{
	_cleanup_(sbuf_free) struct sbuf line = { 0 };

	if (!names->len)
		return;
	meta_begin(&line, "qemu_on");
	meta_u64(&line, "pid", q->q.pid);
	meta_u64(&line, "before", was);
	meta_str(&line, "events", names->s);
	if (line.s)
		answer_line(k, 'M', line.s);
	sbuf_reset(names);
}

/* "qemu_on pid before events": those that are on; before: they were on already. */
static size_t tell_on(struct keep *k, const struct kept *q, const struct mon_events *now)
{
	struct sbuf names[2] = { { 0 }, { 0 } };
	size_t switched = 0;

	for (size_t i = 0; i < now->n; i++) {
		const struct mon_event *was = mon_events_get(&q->before, now->v[i].name);
		bool before = was && was->state == MON_ENABLED;

		if (now->v[i].state != MON_ENABLED)
			continue;
		switched += !before;
		sbuf_addf(&names[before], "%s%s", names[before].len ? "," : "", now->v[i].name);
		if (names[before].len > NAMES_PER_LINE)
			flush_names(k, q, &names[before], before);
	}
	for (int i = 0; i < 2; i++) {
		flush_names(k, q, &names[i], i);
		sbuf_free(&names[i]);
	}
	return switched;
}

/* Without '-' patterns: they cannot go to QEMU as they are, what was on must stay on. */
static bool only_on(const struct kept *q)
{
	for (size_t i = 0; i < q->want.n; i++)
		if (!q->want.v[i].on)
			return false;
	return true;
}

static int switch_on(struct keep *k, struct kept *q, struct kvmft_err *err)
{
	_cleanup_(mon_events_free) struct mon_events now = { 0 };
	int ret;

	q->on = true;
	monitor_within(q->q.m, QEMU_NS);
	ret = 0;
	for (size_t i = 0; only_on(q) && i < q->want.n && !ret; i++)
		ret = qemu_apply(q->q.m, &q->before, &q->want.v[i], err);
	for (size_t i = 0; !only_on(q) && i < q->before.n && !ret; i++) {
		const struct mon_event *e = &q->before.v[i];

		if (e->state == MON_DISABLED && mon_switches_get(&q->want, e->name) == 1)
			ret = monitor_set(q->q.m, e->name, true, err);
	}
	ret = ret ?: monitor_events(q->q.m, &now, err);
	if (ret)
		return ret;
	answer_line(k, 'N',
		    TEXTF("%zu trace events of QEMU %u are on for this capture",
			  tell_on(k, q, &now), q->q.pid));
	return 0;
}

static int switch_back(struct keep *k, struct kept *q, struct kvmft_err *err)
{
	_cleanup_(mon_events_free) struct mon_events now = { 0 };
	struct vm_task task;
	uint64_t ns, start;
	char note[64];
	int ret;

	if (!q->on)
		return 0;
	ns = wait_patience(k->begin, QEMU_NS, BACK_TIMEOUT_NS, BACK_LEAST_NS);
	monitor_patience(q->q.m, ns);
	monitor_within(q->q.m, MIN(ns * ANSWERS, QEMU_NS));
	/* A wildcard of which nothing was on is switched off at once, not by thousands of names. */
	ret = 0;
	for (size_t i = 0; only_on(q) && i < q->want.n && !ret; i++) {
		const char *pattern = q->want.v[i].pattern;
		bool was_on = !strchr(pattern, '*');

		for (size_t e = 0; e < q->before.n && !was_on; e++)
			was_on = q->before.v[e].state == MON_ENABLED &&
				 str_glob(pattern, q->before.v[e].name);
		ret = was_on ? 0 : monitor_set(q->q.m, pattern, false, err);
	}
	ret = ret ?: monitor_events(q->q.m, &now, err);
	/* Only what we switched: what somebody else has switched off stays off. */
	for (size_t i = 0; i < now.n; i++)
		if (now.v[i].state != MON_ENABLED ||
		    mon_switches_get(&q->want, now.v[i].name) != 1) {
			struct mon_event *was = mon_events_get(&q->before, now.v[i].name);

			if (was)
				was->state = now.v[i].state;
		}
	ret = ret ?: qemu_restore(q->q.m, &q->before, &now, err);
	if (ret)
		q->gone = q->gone || monitor_idle(q->q.m) != 0;
	if (ret && q->gone && q->q.pid && vm_task_read(q->q.pid, &task, &start)) {
		/* With it went its states. */
		snprintf(note, sizeof(note), "QEMU %u ended during the capture", q->q.pid);
		answer_line(k, 'N', note);
		ret = 0;
	}
	if (!ret)
		return 0;
	return err_set(err, ret,
		       "trace events of QEMU %u stay on: %s (kvmft qemu events --state enabled "
		       "shows them, kvmft reset tries again)",
		       q->q.pid, err->text);
}

static int switch_all(struct keep *k, int (*how)(struct keep *, struct kept *, struct kvmft_err *),
		      bool stop, struct kvmft_err *err)
{
	int first = 0;

	for (size_t i = 0; i < k->n && !(first && stop); i++) {
		struct kvmft_err why = { .text = "" };
		int ret = how(k, &k->v[i], &why);

		if (ret && !first) {
			first = ret;
			*err = why;
		}
	}
	return first;
}

/* ---- the process ---- */

/* Waits until the recorder says something, or is gone (0); meanwhile QEMUs may talk, and end. */
static char wait_word(struct keep *k, int in)
{
	_cleanup_free_ struct pollfd *p = calloc(k->n + 1, sizeof(*p));
	char word = 0;

	while (p) {
		p[0] = (struct pollfd){ .fd = in, .events = POLLIN };
		for (size_t i = 0; i < k->n; i++)
			p[i + 1] =
				(struct pollfd){ .fd = k->v[i].gone ? -1 : monitor_fd(k->v[i].q.m),
						 .events = POLLIN };
		if (poll(p, k->n + 1, -1) < 0) {
			if (errno == EINTR)
				continue;
			break;
		}
		for (size_t i = 0; i < k->n; i++)
			if (p[i + 1].revents && monitor_idle(k->v[i].q.m))
				k->v[i].gone = true;
		if (p[0].revents) {
			if (read(in, &word, 1) != 1)
				word = 0;
			break;
		}
	}
	return word;
}

static void keep_free(struct keep *k)
{
	for (size_t i = 0; i < k->n; i++) {
		qemu_close(&k->v[i].q);
		mon_events_free(&k->v[i].before);
		mon_switches_free(&k->v[i].want);
	}
	free(k->v);
	sbuf_free(&k->answer);
}

/* Answers of a QEMU are not trusted; all else that it can do is to remove the note of switch.c. */
int record_confine_qemu(struct kvmft_err *err)
{
	_cleanup_close_ int place = qemu_left_place(true),
			    proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct sandbox_dir dir[] = {
		{ place, SANDBOX_READ | SANDBOX_REMOVE },
		{ proc, SANDBOX_READ }, /* is a QEMU still the same process? */
	};

	return record_confine_helper(SANDBOX_CALLS_MONITOR, dir, ARRAY_SIZE(dir), err);
}

/* Prepares, then obeys. */
static void keep_main(struct record *r, int in, int out, void *arg __unused_arg)
{
	const int pipes[] = { in, out };
	_cleanup_(keep_free) struct keep k = { .c = r->c, .begin = util_now_ns() };
	_cleanup_(sbuf_free) struct sbuf left = { 0 };
	struct kvmft_err err = { .text = "" };
	char word = 0;
	int ret;

	record_detach(r->qemu.keeper.name, pipes, ARRAY_SIZE(pipes));
	ret = find_qemus(&k, &err);
	for (size_t i = 0; i < k.n && !ret; i++)
		ret = want_all(&k, &k.v[i], &err);
	/* Before anything is switched: what is to be switched off if we are killed. May fail. */
	for (size_t i = 0; i < k.n && !ret; i++) {
		const struct kept *q = &k.v[i];

		qemu_left_add(&left, &q->q, &q->where);
		for (size_t j = 0; j < q->before.n; j++)
			if (q->before.v[j].state == MON_DISABLED &&
			    mon_switches_get(&q->want, q->before.v[j].name) == 1)
				sbuf_addf(&left, "on %s\n", q->before.v[j].name);
	}
	if (!ret && qemu_left_write(&left, &err))
		answer_line(&k, 'N', err.text);
	ret = ret ?: record_confine_qemu(&err);
	if (!answer_end(&k, out, ret, &err))
		word = wait_word(&k, in);
	if (word == KEEP_ON) {
		ret = switch_all(&k, switch_on, true, &err);
		word = answer_end(&k, out, ret, &err) ? 0 : wait_word(&k, in);
	}
	k.begin = util_now_ns();
	ret = switch_all(&k, switch_back, false, &err);
	if (!ret)
		qemu_left_done();
	if (word)
		(void)!answer_end(&k, out, ret, &err);
}

/* ---- the recorder ---- */

/* A recording does not wait long for a QEMU that may not even concern it. */
#define LEFT_TIMEOUT_NS 1000000000ull

static int qemu_options(struct record *r)
{
	const struct record_config *c = r->c;
	struct kvmft_err *err = r->err;
	_cleanup_(mon_switches_free) struct mon_switches s = { 0 };
	int ret = 0;
	bool any = false;

	if (!c->qemu.n && c->monitors.n)
		return err_usage(err, "--monitor needs --qemu: it says where that finds QEMU");
	for (size_t i = 0; i < c->qemu.n && !ret; i++) {
		const char *text = c->qemu.v[i];

		any = any || *text != '-';
		ret = mon_switches_add(&s, text + (*text == '-'), *text != '-', err);
	}
	if (!ret && c->qemu.n && !any)
		ret = err_usage(err, "--qemu: nothing to switch on, only to leave out");
	return ret;
}

/* word: to be obeyed; 0: none, it prepares. Records for the capture go to r->qemu.facts. */
static int keep_ask(struct record *r, char word)
{
	_cleanup_free_ char *text = NULL;
	struct record_answer a;
	char *save = NULL, *line;
	int ret;

	ret = record_ask(r, &r->qemu.keeper, &word, word != 0, &a, &text);
	if (ret)
		return err_set(r->err, -ret,
			       "the process that talks to QEMU was %s: its trace events may still "
			       "be on (kvmft reset switches them off)",
			       ret == -EINTR ? "given up" : "killed");
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (*line == 'N' && !r->c->quiet)
			r->note("%s", line + 1);
		if (*line != 'M' || !str_starts(line + 1, "qemu"))
			continue;
		sbuf_addf(&r->qemu.facts, "%s\n", line + 1);
		record_met_told(r, line + 1);
	}
	if (!a.ret)
		return 0;
	*r->err = a.err;
	r->err->code = a.err.code ?: KVMFT_FAILED;
	return -EREMOTEIO;
}

static int keep_put_facts(struct record *r)
{
	char *save = NULL, *line = r->qemu.facts.s;
	int ret = 0;

	line = line ? strtok_r(line, "\n", &save) : NULL;
	for (; line && !ret; line = strtok_r(NULL, "\n", &save)) {
		sbuf_reset(&r->line);
		sbuf_add(&r->line, line);
		ret = record_put(r);
	}
	sbuf_reset(&r->qemu.facts);
	return ret;
}

static void qemu_leftovers(note_fn *note)
{
	struct kvmft_err err = { .text = "" };
	_cleanup_(sbuf_free) struct sbuf out = { 0 };
	char *save = NULL, *line;
	int ret = qemu_left_sweep(false, LEFT_TIMEOUT_NS, &out, &err);

	line = out.s ? strtok_r(out.s, "\n", &save) : NULL;
	for (; line; line = strtok_r(NULL, "\n", &save))
		note("%s", line);
	if (ret)
		note("%s", err.text);
}

static int qemu_start(struct record *r)
{
	int ret;

	if (!r->c->qemu.n)
		return 0;
	ret = record_helper_start(r, &r->qemu.keeper, keep_main, NULL);
	return ret ?: keep_ask(r, 0);
}

static int qemu_on(struct record *r)
{
	int ret = r->qemu.keeper.pid ? keep_ask(r, KEEP_ON) : 0;

	return ret ?: keep_put_facts(r);
}

static int qemu_end(struct record *r)
{
	struct kvmft_err first = *r->err;
	int ret;

	if (!r->qemu.keeper.pid)
		return 0;
	ret = keep_ask(r, KEEP_END);
	record_helper_end(r, &r->qemu.keeper);
	sbuf_free(&r->qemu.facts);
	if (ret && first.text[0]) { /* there was an error before: both are reported */
		r->note("%s", r->err->text);
		*r->err = first;
	}
	return ret;
}

const struct record_extra record_qemu = {
	.check = qemu_options,
	.leftovers = qemu_leftovers,
	.start = qemu_start,
	.facts = keep_put_facts,
	.on = qemu_on,
	.end = qemu_end,
};
