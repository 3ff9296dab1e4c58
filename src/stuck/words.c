/* SPDX-License-Identifier: GPL-2.0-or-later */
/* words.c: a verdict in a sentence, and all of them as text or JSON. */
#include "room.h"

#include "kvmft/json.h"
#include "kvmft/table.h"

/* ---- numbers and names ---- */

/* Thousandths as per cent: PCT is their format. */
#define PCT    "%u.%u %%"
#define PM(pm) (pm) / 10, (pm) % 10
/* A time, in a text that lasts as long as the block. */
#define NS(ns) str_ns((char[32]){ 0 }, 32, ns)

static unsigned int words_share(uint64_t part, uint64_t all)
{
	return all ? (unsigned int)(part * 1000 / all) : 0;
}

/* "func+0x12/0x40 [module]", as the kernel writes it, else the address. */
static void add_place(const struct stuck *s, uint64_t rip, struct sbuf *b)
{
	const struct ksym *sym = s->syms ? ksyms_find(s->syms, rip) : NULL;

	if (!sym) {
		sbuf_addf(b, "0x%" PRIx64, rip);
		return;
	}
	sbuf_addf(b, "%s+0x%" PRIx64 "/0x%" PRIx32, sym->name, rip - sym->addr, sym->size);
	if (sym->module[0])
		sbuf_addf(b, " [%s]", sym->module);
}

static const char *reason_text(const struct stuck *s, const struct stuck_row *exit, char *buf)
{
	return exit_reason_text(&s->ev.names, (enum exit_isa)(exit->a >> 32), (uint32_t)exit->a,
				buf, EXIT_NAME_MAX);
}

/* The spaces that can be accessed. */
static const char *const spaces[] = {
	[STUCK_PIO] = "port",
	[STUCK_MMIO] = "mmio",
	[STUCK_MSR] = "msr",
	[STUCK_FAULT] = "page",
};

static void add_access(const struct stuck_row *r, struct sbuf *b)
{
	static const char *const words[][2] = {
		[STUCK_PIO] = { "in from port ", "out to port " },
		[STUCK_MMIO] = { "read of MMIO ", "write to MMIO " },
		[STUCK_MSR] = { "read of MSR ", "write to MSR " },
		[STUCK_FAULT] = { "fault at ", "fault at " },
	};

	sbuf_addf(b, "%s0x%" PRIx64, words[r->what][r->b != 0], r->a);
}

/* ---- why ---- */

static void add_rate(const struct stuck *s, const struct stuck_vcpu *c, struct sbuf *b)
{
	if (s->untimed)
		sbuf_add(b, "exits/s not known");
	else
		sbuf_addf(b, "%" PRIu64 " exits/s", c->v.exits_per_s);
}

static void why_spinning(const struct stuck *s, const struct stuck_vcpu *c, struct sbuf *b)
{
	const struct stuck_verdict *v = &c->v;

	sbuf_add(b, "at ");
	add_place(s, v->rip, b);
	sbuf_addf(b,
		  ": %" PRIu64 " of %" PRIu64 " %s (" PCT ") are in that %s; %s " PCT
		  " of the time, ",
		  v->rip_n, v->rip_all, s->ev.names.isa == EXIT_ISA_ARM64 ? "PCs" : "RIPs",
		  PM(words_share(v->rip_n, v->rip_all)), v->sym ? "function" : "page",
		  c->obs.recorded ? "not halted" : "on a CPU",
		  PM(c->obs.recorded ? v->at_pm[STUCK_AT_CPU] : v->run_pm));
	add_rate(s, c, b);
	if (c->obs.untold)
		sbuf_add(b, "; whether it takes interrupts is not recorded");
	else if (v->deaf)
		sbuf_add(b, "; interrupts come and it takes none: it has them off");
	else if (v->sym && c->obs.count[STUCK_INJECT] + c->obs.count[STUCK_UPKEEP])
		sbuf_add(b, "; it only waits there");
	else
		sbuf_add(b, "; it took no interrupt");
}

/* Where a guest that runs was found: its functions, or the pages of addresses without a name. */
static void add_where(const struct stuck *s, const struct stuck_vcpu *c, struct sbuf *b)
{
	const struct stuck_verdict *v = &c->v;

	if (c->obs.count[STUCK_SAMPLE] < 5) {
		sbuf_add(b, "where its guest runs was hardly seen; ");
		return;
	}
	sbuf_addf(b, "of %" PRIu64 " %s " PCT " are in user space: ", v->rip_all,
		  s->ev.names.isa == EXIT_ISA_ARM64 ? "PCs" : "RIPs",
		  PM(words_share(v->rip_user, v->rip_all)));
	for (size_t i = 0; i < STUCK_PLACES && v->place[i].n; i++) {
		sbuf_addf(b, "%s" PCT " %s", i ? ", " : "",
			  PM(words_share(v->place[i].n, v->rip_all)),
			  s->syms && ksyms_find(s->syms, v->place[i].rip) ? "" : "around ");
		add_place(s, v->place[i].rip, b);
	}
	sbuf_add(b, "; ");
	if (!c->guest)
		return;
	if (!c->nran)
		sbuf_add(b, "which task of the guest is not recorded (sched:sched_switch there)");
	for (size_t i = 0; i < MIN(c->nran, (size_t)STUCK_PLACES); i++) {
		const struct stuck_ran *r = &c->ran[i];

		sbuf_addf(b, "%s" PCT " ", i ? ", " : "its task: ",
			  PM(words_share(r->n, c->obs.count[STUCK_SAMPLE])));
		if (r->tid)
			sbuf_addf(b, "%s-%u", r->comm, r->tid);
		else
			sbuf_add(b, "none, idle");
	}
	sbuf_add(b, "; ");
}

static void why_loop(const struct stuck *s, const struct stuck_vcpu *c, struct sbuf *b)
{
	const struct stuck_verdict *v = &c->v;
	char buf[EXIT_NAME_MAX];

	sbuf_addf(b, "%" PRIu64 "/s: ", v->per_s);
	if (v->exit) {
		sbuf_addf(b, "%s at ", reason_text(s, v->exit, buf));
		add_place(s, v->exit->b, b);
		sbuf_add(b, ", ");
	}
	if (v->access) {
		add_access(v->access, b);
		sbuf_add(b, ", ");
	}
	sbuf_addf(b, PCT " of what it exits for%s%s", PM(v->exit_pm),
		  c->obs.count[STUCK_TO_USER] ? "; the VMM answers" : "",
		  c->obs.untold ? "; whether interrupts come for it is not recorded" : "");
}

/* The last of the ring is read after the end. */
static uint64_t time_ago(const struct stuck *s, uint64_t ns)
{
	return ns < s->end_ns ? s->end_ns - ns : 0;
}

static void add_ago(const struct stuck *s, const char *what, uint64_t ns, struct sbuf *b)
{
	if (!s->ev.mono || !ns)
		return;
	if (time_ago(s, ns))
		sbuf_addf(b, "%s %s%s ago", what, s->unread ? "at most " : "", NS(time_ago(s, ns)));
	else
		sbuf_addf(b, "%s just now", what);
}

static void add_irqs(const struct stuck *s, const struct stuck_vcpu *c, struct sbuf *b)
{
	const struct stuck_row *r = stuck_most(&c->obs, STUCK_INJECT, STUCK_ACCEPT);

	if (!r)
		return;
	sbuf_addf(b, "; %" PRIu64 " interrupts came (most: vector 0x%" PRIx64,
		  MAX(c->obs.count[STUCK_ACCEPT], c->obs.count[STUCK_INJECT]), r->a);
	add_ago(s, ", last", c->irq_ns, b);
	sbuf_addc(b, ')');
}

static void why_halted(const struct stuck *s, const struct stuck_vcpu *c, struct sbuf *b)
{
	sbuf_addf(b, "it waits for an interrupt and did nothing for %s",
		  s->untimed ? "the recording's length" : NS(s->ns));
	if (!c->obs.count[STUCK_ACCEPT] && !c->obs.count[STUCK_INJECT])
		sbuf_add(b, ": none came, and it set no timer");
	add_irqs(s, c, b);
	if (c->v.deaf)
		sbuf_add(b, " and none woke it: it has them off");
	if (!s->timers.known)
		return;
	sbuf_add(b, "; KVM has ");
	if (s->timers.n)
		sbuf_addf(b, "%" PRIu64, s->timers.n);
	else
		sbuf_add(b, "no");
	sbuf_addf(b, " timer%s armed to wake a guest", s->timers.n == 1 ? "" : "s");
	if (s->timers.n)
		sbuf_addf(b, ", the next expires in %s", NS(s->timers.next_ns));
}

static void why_asleep(const struct stuck_vcpu *c, struct sbuf *b)
{
	sbuf_addf(b, "asleep in %s", c->task.wchan[0] ? c->task.wchan : "the kernel");
	if (c->task.syscall[0])
		sbuf_addf(b, ", called by %s", c->task.syscall);
	sbuf_addf(b, ", state %c", c->task.state);
}

static void why_vmm(const struct stuck_vcpu *c, struct sbuf *b)
{
	const char *name = c->obs.peeked ? exit_userspace_name(c->peek.reason) : NULL;

	if (c->v.at_pm[STUCK_AT_USER])
		why_asleep(c, b);
	else
		sbuf_add(b, "the VMM computes, outside of KVM_RUN");
	if (!name)
		return;
	sbuf_addf(b, "; KVM_RUN had returned %s", name);
	if (!strcmp(name, "IO") || !strcmp(name, "MMIO")) {
		sbuf_add(b, ": ");
		add_access(&(struct stuck_row){ .what = name[0] == 'I' ? STUCK_PIO : STUCK_MMIO,
						.a = c->peek.address,
						.b = c->peek.write },
			   b);
	}
}

static void why_unknown(const struct stuck_vcpu *c, struct sbuf *b)
{
	static const char *const words[STUCK_ATS] = {
		"on a CPU",   "halted", "asleep in KVM_RUN", "stopped", "frozen",
		"in the VMM", "gone",
	};
	const char *comma = "";

	if (c->obs.recorded)
		sbuf_add(b, "none of its entries and exits was recorded");
	if (!c->vcpu->tid) {
		sbuf_add(b, c->vcpu->tid_source == VM_TID_NEVER_RAN
				    ? "no thread has run it yet"
				    : "nothing tells which thread runs it");
		return;
	}
	for (size_t i = 0; i < STUCK_ATS; i++) {
		if (!c->v.at_pm[i])
			continue;
		sbuf_addf(b, "%s%s " PCT, comma, words[i], PM(c->v.at_pm[i]));
		comma = ", ";
	}
}

static void add_why(const struct stuck *s, const struct stuck_vcpu *c, struct sbuf *b)
{
	const struct stuck_row *r;
	char buf[EXIT_NAME_MAX];

	switch (c->v.seems) {
	case STUCK_SPINNING: why_spinning(s, c, b); return;
	case STUCK_IN_GUEST: {
		uint64_t k = c->obs.ticks_kernel, all = k + c->obs.ticks_user + c->obs.ticks_guest;

		if (!c->obs.recorded)
			sbuf_addf(b, "on a CPU " PCT " of the time, ", PM(c->v.run_pm));
		sbuf_addf(b, "%" PRIu64 " exits%s: where it is was %s", c->obs.count[STUCK_SAMPLE],
			  s->blind ? " (this KVM reports none)" : "",
			  c->v.rip ? "hardly seen" : "not seen");
		if (words_share(k, all) >= 800)
			sbuf_add(b, "; all of it in KVM, not in its guest");
		return;
	}
	case STUCK_EXIT_LOOP: why_loop(s, c, b); return;
	case STUCK_HALTED: why_halted(s, c, b); return;
	case STUCK_STARVED:
	case STUCK_THROTTLED: {
		const struct stuck_throttle *t = &c->task.throttle;

		sbuf_addf(b, "could run " PCT " of the time and got " PCT " of a CPU",
			  PM(c->v.at_pm[STUCK_AT_CPU]), PM(c->v.run_pm));
		if (c->v.class == STUCK_THROTTLED)
			sbuf_addf(b, ": %s was throttled %" PRIu64 " times, for %s of %s",
				  t->path[0] ? t->path : "its cgroup", t->n, NS(t->ns), NS(s->ns));
		return;
	}
	case STUCK_STOPPED:
		if (c->v.at_pm[STUCK_AT_FREEZE])
			sbuf_add(b, "its cgroup is frozen");
		else if (c->task.state == 't')
			sbuf_add(b, "by a debugger that traces it");
		else
			sbuf_addf(b, "by a signal such as SIGSTOP; kill -CONT %u lets it go on",
				  c->vm->pid);
		return;
	case STUCK_BLOCKED: why_asleep(c, b); return;
	case STUCK_VMM: why_vmm(c, b); return;
	case STUCK_PAUSED:
		sbuf_add(b, "the VMM does not let it run until told to (cont, resume)");
		return;
	case STUCK_IDLE: sbuf_add(b, "halted, and interrupts wake it; "); break;
	case STUCK_RUNNING: add_where(s, c, b); break;
	default: why_unknown(c, b); return;
	}
	if (c->obs.recorded)
		sbuf_addf(b, "halted " PCT " of the time, ", PM(c->v.at_pm[STUCK_AT_HALT]));
	else
		sbuf_addf(b, "on a CPU " PCT " of the time, ", PM(c->v.run_pm));
	if (c->v.at_pm[STUCK_AT_USER] >= 500)
		sbuf_addf(b, "asleep in the VMM " PCT ", ", PM(c->v.at_pm[STUCK_AT_USER]));
	add_rate(s, c, b);
	/* It may wait outside its idle loop: on arm64 a delay, also a panic's, can be a halt. */
	r = stuck_most(&c->obs, STUCK_HLT, STUCK_HLT);
	if (r && s->syms) {
		sbuf_addf(b, ", %s at ", reason_text(s, r, buf));
		add_place(s, r->b, b);
	}
	add_ago(s, "; it set a timer", c->timer_ns, b);
	add_irqs(s, c, b);
}

/* ---- a VM ---- */

/* A halted vCPU has nothing to do, unless no other one progresses: then something is held up. */
static const char *verdict_words(const struct stuck_vcpu *c, size_t n)
{
	size_t known = 0, on = 0, held = 0;

	for (size_t i = 0; i < n; i++) {
		enum stuck_class k = c[i].v.class;

		known += k != STUCK_UNKNOWN && k != STUCK_IN_GUEST;
		on += k == STUCK_RUNNING || k == STUCK_IDLE;
		held += stuck_class_is(k) && k != STUCK_HALTED;
	}
	return !known ? "unknown" : !on ? "stuck" : held ? "partly" : "running";
}

/* How many of the vCPUs from c on are one VM's. */
static size_t vcpus_of(const struct stuck *s, const struct stuck_vcpu *c)
{
	size_t n = 0;

	while (c + n < s->vcpu + s->n && c[n].vm == c->vm)
		n++;
	return n;
}

static void print_text(const struct stuck *s, struct sbuf *out)
{
	_cleanup_(sbuf_free) struct sbuf why = { 0 };
	const struct vm *vm = NULL;
	size_t from;

	for (const struct stuck_vcpu *c = s->vcpu; c < s->vcpu + s->n; c++) {
		if (c->vm != vm) {
			sbuf_addf(out, "%s%s%s%s", vm ? "\n" : "", c->vm->sel,
				  c->vm->name ? " " : "", c->vm->name ?: "");
			if (c->vm->pid)
				sbuf_addf(out, " (%s, pid %u)", c->vm->vmm, c->vm->pid);
			sbuf_addf(out, ": %s\n", verdict_words(c, vcpus_of(s, c)));
			vm = c->vm;
		}
		sbuf_addf(out, "  vCPU %u", c->vcpu->id);
		if (c->vcpu->tid)
			sbuf_addf(out, ", thread %u", c->vcpu->tid);
		sbuf_addf(out, ": %s\n", stuck_class_name(c->v.class));
		sbuf_reset(&why);
		add_why(s, c, &why);
		from = out->len;
		if (why.len)
			sbuf_addf(out, "      %s\n", why.s);
		text_wrap(out, from, "      ", s->c->width);
	}
	out->error = out->error ?: why.error;
}

/* ---- JSON ---- */

static void words_put_text(struct json *j, const char *key, const struct sbuf *b)
{
	json_put_str(j, key, b->len ? b->s : NULL);
}

static void put_hex(struct json *j, const char *key, bool known, uint64_t v)
{
	json_key(j, key);
	known ? json_hex(j, v) : json_null(j);
}

static void put_pct(struct json *j, const char *key, unsigned int pm)
{
	json_put_fixed(j, key, pm, 1);
}

static void put_known_pct(struct json *j, const char *key, bool known, unsigned int pm)
{
	if (known) {
		put_pct(j, key, pm);
		return;
	}
	json_key(j, key);
	json_null(j);
}

/*
 * Whether nothing else can be: all exits are known, and what holds it up was seen. That it spins is
 * sure if it takes no interrupt, that it is halted for good if none can come.
 */
static bool is_sure(const struct stuck *s, const struct stuck_vcpu *c)
{
	const struct stuck_obs *o = &c->obs;

	switch (s->partial ? STUCK_UNKNOWN : c->v.class) {
	case STUCK_UNKNOWN:
	case STUCK_IN_GUEST: return false;
	case STUCK_HALTED: return c->v.deaf || (s->timers.known && !s->timers.n);
	case STUCK_SPINNING:
		return !s->lost &&
		       (c->v.deaf || (!o->count[STUCK_INJECT] && !o->count[STUCK_UPKEEP]));
	case STUCK_EXIT_LOOP: return !s->lost || o->exact;
	default: return !s->untimed;
	}
}

static void put_age(const struct stuck *s, struct json *j, const char *key, uint64_t ns)
{
	json_put_known_u64(j, key, s->ev.mono && ns && (!s->unread || !time_ago(s, ns)),
			   time_ago(s, ns) / 1000000);
}

static void put_guest(const struct stuck *s, struct json *j, const struct stuck_vcpu *c)
{
	_cleanup_(sbuf_free) struct sbuf place = { 0 };
	const struct stuck_verdict *v = &c->v;
	const struct stuck_row *irq = stuck_most(&c->obs, STUCK_INJECT, STUCK_ACCEPT);
	uint64_t rip = v->exit ? v->exit->b : v->rip;
	char buf[EXIT_NAME_MAX];

	if (rip && s->syms && ksyms_find(s->syms, rip))
		add_place(s, rip, &place);
	put_hex(j, "rip", rip, rip);
	words_put_text(j, "function", &place);
	put_pct(j, "rip_pct", words_share(v->rip_n, v->rip_all));
	put_pct(j, "user_pct", words_share(v->rip_user, v->rip_all));
	json_put_u64(j, "rips", v->rip_all);
	json_put_known_u64(j, "exits_per_s", !s->untimed, v->exits_per_s);
	json_put_bool(j, "counted", c->obs.exact);
	json_put_str(j, "exit_reason", v->exit ? reason_text(s, v->exit, buf) : NULL);
	json_put_known_u64(j, "loop_per_s", v->class == STUCK_EXIT_LOOP, v->per_s);
	json_put_str(j, "access", v->access ? spaces[v->access->what] : NULL);
	put_hex(j, "address", v->access, v->access ? v->access->a : 0);
	json_key(j, "write");
	if (v->access && v->access->what != STUCK_FAULT)
		json_bool(j, v->access->b);
	else
		json_null(j);
	json_put_u64(j, "interrupts", MAX(c->obs.count[STUCK_ACCEPT], c->obs.count[STUCK_INJECT]));
	json_put_known_u64(j, "vector", irq, irq ? irq->a : 0);
	json_put_array(j, "tasks"); /* of a guest's own capture */
	for (const struct stuck_ran *r = c->ran; r < c->ran + c->nran; r++) {
		json_object_begin(j);
		json_put_u64(j, "tid", r->tid);
		json_put_str(j, "comm", r->comm);
		put_pct(j, "pct", words_share(r->n, c->obs.count[STUCK_SAMPLE]));
		json_object_end(j);
	}
	json_array_end(j);
	put_age(s, j, "interrupt_ms_ago", c->irq_ns);
	put_age(s, j, "timer_set_ms_ago", c->timer_ns);
}

static void print_json(const struct stuck *s, struct sbuf *out)
{
	const struct stuck_vcpu *c = s->vcpu, *end = s->vcpu + s->n;
	struct json j;

	json_line_begin(&j, out);
	if (s->untimed)
		json_put_str(&j, "seconds", NULL);
	else
		json_put_fixed(&j, "seconds", s->ns / 1000000, 3);
	json_put_u64(&j, "events", s->ev.read);
	json_put_u64(&j, "lost", s->lost);
	json_put_known_u64(&j, "guest_timers", s->timers.known, s->timers.n);
	json_put_known_u64(&j, "guest_timer_ms", s->timers.n, s->timers.next_ns / 1000000);
	stuck_recording_needs(s, &j);
	json_put_array(&j, "vms");
	while (c < end) {
		const struct vm *vm = c->vm;

		json_object_begin(&j);
		json_put_str(&j, "vm", vm->sel);
		json_put_u64(&j, "pid", vm->pid);
		json_put_str(&j, "name", vm->name);
		json_put_str(&j, "uuid", vm->uuid);
		json_put_str(&j, "vmm", vm->vmm);
		json_put_str(&j, "verdict", verdict_words(c, vcpus_of(s, c)));
		json_put_array(&j, "vcpus");
		for (; c < end && c->vm == vm; c++) {
			_cleanup_(sbuf_free) struct sbuf why = { 0 };
			const struct stuck_task *t = &c->task;
			const char state[2] = { t->state, '\0' };

			json_object_begin(&j);
			json_put_u64(&j, "vcpu", c->vcpu->id);
			json_put_known_u64(&j, "tid", c->vcpu->tid, c->vcpu->tid);
			json_put_str(&j, "class", stuck_class_name(c->v.class));
			json_put_bool(&j, "stuck", stuck_class_is(c->v.class));
			json_put_bool(&j, "sure", is_sure(s, c));
			add_why(s, c, &why);
			words_put_text(&j, "why", &why);
			put_guest(s, &j, c);
			json_put_str(&j, "state", t->state ? state : NULL);
			json_put_str(&j, "wchan", t->wchan[0] ? t->wchan : NULL);
			json_put_str(&j, "syscall", t->syscall[0] ? t->syscall : NULL);
			put_known_pct(&j, "on_cpu_pct", !c->obs.recorded, c->v.run_pm);
			put_known_pct(&j, "runnable_pct", !c->obs.recorded, c->v.at_pm[STUCK_AT_CPU]);
			put_pct(&j, "halted_pct", c->v.at_pm[STUCK_AT_HALT]);
			put_known_pct(&j, "vmm_pct", !c->obs.recorded, c->v.at_pm[STUCK_AT_USER]);
			json_put_u64(&j, "throttled", c->obs.throttled);
			json_put_str(&j, "cgroup",
				     c->obs.throttled && t->throttle.path[0] ? t->throttle.path
									     : NULL);
			/* 0: it is in KVM_RUN, which sets this as it begins. */
			json_put_str(&j, "kvm_exit",
				     c->obs.peeked && c->peek.reason
					     ? exit_userspace_name(c->peek.reason)
					     : NULL);
			json_object_end(&j);
		}
		json_array_end(&j);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_line_end(&j);
}

void stuck_print(const struct stuck *s, struct sbuf *out)
{
	(s->c->json ? print_json : print_text)(s, out);
}
