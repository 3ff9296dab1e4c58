/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * facts.c: everything in a capture that is not an event. What the records mean is in
 * src/capture/records.c.
 */
#include "record.h"

#include <sys/utsname.h>

#define PRINTK_MAX (1u << 20) /* of the kernel's printk_formats; longer ones are left out */

int record_put(struct record *r)
{
	int ret = capw_meta(r->w, &r->line);

	if (ret && r->out.stream)
		return record_stream_error(r, ret);
	return err_why(r->err, ret, "cannot write %s/meta", capw_path(r->w));
}

static int put_file(struct record *r, const char *name, const char *text)
{
	int ret = capw_file(r->w, name, text, strlen(text));

	if (ret && r->out.stream)
		return record_stream_error(r, ret);
	return err_why(r->err, ret, "cannot write %s/%s", capw_path(r->w), name);
}

static int facts_machine(struct record *r)
{
	struct utsname u;
	char uuid[37];
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	uint64_t kb;

	if (uname(&u) < 0)
		return err_why(r->err, errno, "uname");
	sbuf_addf(&text, "%s %s %s %s", u.sysname, u.release, u.version, u.machine);
	meta_begin(&r->line, "machine");
	meta_str(&r->line, "uname", text.s);
	meta_str(&r->line, "arch", u.machine);
	meta_u64(&r->line, "long", sizeof(long));
	meta_str(&r->line, "endian", "little");
	meta_u64(&r->line, "cpus", r->ncpu_max);
	if (r->tsc.hv_signature[0])
		meta_str(&r->line, "hypervisor", r->tsc.hv_signature);
	if (r->tsc.vendor[0])
		meta_str(&r->line, "vendor", r->tsc.vendor);
	if (vm_guest_uuid(NULL, uuid) == 0)
		meta_str(&r->line, "uuid", uuid);
	if (record_meminfo("Hugetlb", &kb))
		meta_u64(&r->line, "hugetlb_kb", kb);
	return record_put(r);
}

static int facts_ring(struct record *r)
{
	_cleanup_free_ char *clock = NULL;

	if (kinst_read(r->k, "trace_clock", 4096, &clock) < 0)
		clock = NULL;
	meta_begin(&r->line, "ring");
	meta_str(&r->line, "clock", kinst_clock(r->k));
	meta_str(&r->line, "trace_clock", clock);
	meta_u64(&r->line, "subbuf", kinst_subbuf_size(r->k));
	meta_u64(&r->line, "header", 8 + sizeof(long));
	meta_u64(&r->line, "buffer_kb", kinst_buffer_kb(r->k));
	meta_u64(&r->line, "overwrite", r->c->overwrite || r->c->flight);
	if (r->tids.n)
		meta_u64(&r->line, "pids", r->tids.n);
	if (r->c->flight)
		meta_u64(&r->line, "flight", 1);
	return record_put(r);
}

static int facts_tsc(struct record *r)
{
	meta_begin(&r->line, "tsc");
	if (r->tsc.khz) {
		meta_u64(&r->line, "khz", r->tsc.khz);
		meta_str(&r->line, "source", r->tsc.source);
	}
	meta_str(&r->line, "clocksource", r->tsc.clocksource);
	meta_u64(&r->line, "constant", r->tsc.constant);
	meta_u64(&r->line, "nonstop", r->tsc.nonstop);
	return record_put(r);
}

struct params {
	struct record *r;
	const char *module;
};

static int put_param(void *ctx, const char *name, const char *value)
{
	const struct params *p = ctx;

	meta_begin(&p->r->line, "param");
	meta_str(&p->r->line, "module", p->module);
	meta_str(&p->r->line, "name", name);
	meta_str(&p->r->line, "value", value);
	return record_put(p->r);
}

/* How KVM is set up, which explains much of its behaviour. */
static int facts_params(struct record *r)
{
	static const char *const modules[] = { "kvm", "kvm_intel", "kvm_amd" };
	int ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(modules) && !ret; i++)
		ret = kmodule_params(modules[i], put_param, &(struct params){ r, modules[i] });
	return ret;
}

static int facts_header(struct record *r)
{
	_cleanup_free_ char *page = NULL, *event = NULL;
	int ret = ktracefs_text(r->t, "events/header_page", &page);

	ret = ret ?: ktracefs_text(r->t, "events/header_event", &event);
	if (ret)
		return err_why(r->err, ret, "cannot read %s/events/header_page",
			       ktracefs_path(r->t));
	ret = put_file(r, "header_page", page);
	return ret ?: put_file(r, "header_event", event);
}

int record_facts_event(struct record *r, const struct kevent *e)
{
	_cleanup_free_ char *text = NULL;
	const char *sys = e->sys, *name = e->name;
	uint64_t at = 0;
	uint32_t id;
	int ret = kevent_format(r->t, e->sys, e->name, &text);

	ret = ret ?: kevent_format_id(text, &id);
	if (ret)
		return err_why(r->err, ret, "cannot read the format of %s:%s", e->sys, e->name);
	if (record_sdt.name)
		ret = record_sdt.name(r, e, &sys, &name, &text);
	if (!ret && record_net_id.name)
		ret = record_net_id.name(r, e, &sys, &name, &text);
	if (ret)
		return err_set(r->err, -ret, "out of memory");
	ret = capw_format(r->w, text, &at);
	if (ret)
		return err_why(r->err, ret, "cannot write %s/formats", capw_path(r->w));
	meta_begin(&r->line, "event");
	meta_u64(&r->line, "id", id);
	meta_str(&r->line, "sys", sys);
	meta_str(&r->line, "name", name);
	meta_u64(&r->line, "at", at);
	meta_u64(&r->line, "len", strlen(text));
	meta_str(&r->line, "filter", e->filter);
	return record_put(r);
}

int record_facts_cpus(struct record *r)
{
	struct vm_guest_cpus cpus;
	int ret = vm_guest_cpus(NULL, &cpus);

	for (size_t i = 0; i < cpus.n && !ret; i++) {
		meta_begin(&r->line, "cpu");
		meta_u64(&r->line, "n", cpus.v[i].cpu);
		meta_u64(&r->line, "apicid", cpus.v[i].apicid);
		ret = record_put(r);
	}
	vm_guest_cpus_free(&cpus);
	return ret;
}

/* The guest's constants; also in a guest whose clock is x86-tsc: kvmclock output needs them. */
static int facts_guest_clock(struct record *r)
{
	struct kguest_clock g;
	int ret = kguest_clock_read(r->t, &g);

	if (ret)
		return err_why(r->err, ret, "cannot read the guest's clock");
	meta_begin(&r->line, "sched");
	if (g.has_kvm_offset)
		meta_s64(&r->line, "kvm_sched_clock_offset", g.kvm_offset);
	if (g.has_kernel_offset)
		meta_s64(&r->line, "kernel_sched_clock_offset", g.kernel_offset);
	if (g.sched_known)
		meta_u64(&r->line, "is_tsc", g.sched_is_tsc);
	meta_str(&r->line, "source", g.kvm_source ?: g.kernel_source);
	ret = record_put(r);
	for (size_t i = 0; i < g.npv && !ret; i++) {
		meta_pvclock(&r->line, &g.pv[i]);
		ret = record_put(r);
	}
	return ret ?: record_clocks_begin(r, &g);
}

int record_facts_begin(struct record *r)
{
	static const char *const names[] = {
		[CAP_SIDE_HOST] = "host", [CAP_SIDE_GUEST] = "guest", [CAP_SIDE_BOTH] = "both",
	};
	int ret;

	meta_begin(&r->line, "tool");
	meta_str(&r->line, "version", KVMFT_VERSION);
	ret = record_put(r);
	if (ret)
		return ret;
	meta_begin(&r->line, "side");
	meta_str(&r->line, "name", names[r->side]);
	meta_str(&r->line, "from", r->c->as >= 0 ? "option" : "machine");
	ret = record_put(r);
	ret = ret ?: facts_machine(r);
	ret = ret ?: facts_ring(r);
	ret = ret ?: facts_tsc(r);
	if (!ret && r->side & CAP_SIDE_HOST)
		ret = facts_params(r);
	ret = ret ?: facts_header(r);
	capw_hold(r->w);
	for (size_t i = 0; i < r->events.n && !ret; i++)
		ret = record_facts_event(r, &r->events.v[i]);
	if (!ret && (ret = capw_release(r->w)))
		err_why(r->err, ret, "cannot write %s", capw_path(r->w));
	if (!ret && record_sdt.facts)
		ret = record_sdt.facts(r);
	ret = ret ?: record_marker_facts(r);
	ret = ret ?: record_stacks_facts(r);
	ret = ret ?: record_facts_cpus(r);
	if (!ret)
		ret = r->side & CAP_SIDE_GUEST ? facts_guest_clock(r)
						: record_clocks_begin(r, NULL);
	ret = ret ?: record_facts_bracket(r);
	return ret ?: record_loss_begin(r);
}

static int facts_vcpu(struct record *r, const struct vm *vm, const struct vm_vcpu *v, bool end)
{
	meta_begin(&r->line, "vcpu");
	meta_str(&r->line, "vm", vm->sel);
	meta_u64(&r->line, "id", v->id);
	if (v->tid)
		meta_u64(&r->line, "tid", v->tid);
	/* With an L2 running the numbers are a combination that our formulas must not use. */
	if (v->has_offset && !v->in_guest_mode && v->ratio_state != VM_RATIO_REFUSED) {
		meta_s64(&r->line, "offset", (int64_t)v->tsc_offset);
		meta_u64(&r->line, "ratio", v->tsc_ratio);
		meta_u64(&r->line, "frac", v->tsc_frac_bits);
		meta_u64(&r->line, "tsc", v->tsc_after);
	}
	if (end)
		meta_str(&r->line, "at", "end");
	return record_put(r);
}

static int facts_vm_alone(struct record *r, const struct vm *vm)
{
	meta_begin(&r->line, "vm");
	meta_str(&r->line, "id", vm->sel);
	meta_u64(&r->line, "pid", vm->pid);
	meta_u64(&r->line, "fd", vm->fd);
	meta_str(&r->line, "name", vm->name);
	meta_str(&r->line, "uuid", vm->uuid);
	meta_str(&r->line, "vmm", vm->vmm);
	return record_put(r);
}

static int facts_vm(struct record *r, const struct vm *vm, bool end)
{
	int ret = record_sched_vmm(r, vm->pid);

	ret = ret ?: facts_vm_alone(r, vm);
	for (size_t i = 0; i < vm->n_vcpus && !ret; i++)
		ret = facts_vcpu(r, vm, &vm->vcpu[i], end);
	return ret ?: record_met(r, vm->pid);
}

static uint64_t task_hash(const struct vm_task *t)
{
	struct hash_key key;

	hash_key_init(&key);
	key.k[0] ^= t->tgid;
	return hash_bytes(&key, t->comm, strlen(t->comm));
}

static int task_record(const struct vm_task *t, void *ctx)
{
	uint64_t hash = task_hash(t), told;
	struct record *r = ctx;

	if (u64map_get(&r->tasks_told, t->tid, &told) && told == hash)
		return 0;
	if (u64map_put(&r->tasks_told, t->tid, hash))
		return err_set(r->err, ENOMEM, "out of memory");
	meta_begin(&r->line, "task");
	meta_u64(&r->line, "tid", t->tid);
	meta_u64(&r->line, "tgid", t->tgid);
	meta_str(&r->line, "comm", t->comm);
	return record_put(r);
}

/* The threads of the VMs: at the beginning, because a VM may end, and those that appeared since. */
static int facts_vm_tasks(struct record *r)
{
	int ret = 0;

	for (size_t i = 0; r->vms && i < r->vms->n && !ret; i++) {
		ret = record_look_tasks(r, r->vms->vm[i].pid, task_record, r);
		ret = ret == -ESRCH ? 0 : ret;
	}
	return ret;
}

int record_facts_came(struct record *r, const struct vm *vm, struct u64map *told)
{
	bool news = !told->n;
	int ret = record_sched_vmm(r, vm->pid);

	ret = ret || !news ? ret : facts_vm_alone(r, vm);
	for (size_t i = 0; i < vm->n_vcpus && !ret; i++) {
		const struct vm_vcpu *v = &vm->vcpu[i];
		uint64_t tid;

		if (u64map_get(told, v->id, &tid) && (tid || !v->tid))
			continue;
		news = true;
		ret = u64map_put(told, v->id, v->tid) ? err_set(r->err, ENOMEM, "out of memory") :
							facts_vcpu(r, vm, v, false);
	}
	ret = ret || !news ? ret : record_met(r, vm->pid);
	if (ret || !news)
		return ret;
	ret = record_look_tasks(r, vm->pid, task_record, r);
	return ret == -ESRCH ? 0 : ret;
}

int record_facts_vms(struct record *r, bool end)
{
	int ret;

	if (!(r->side & CAP_SIDE_HOST))
		return 0;
	vm_list_free(r->vms);
	r->vms = NULL;
	ret = record_look_vms(r, &r->vms, r->err);
	for (size_t i = 0; !ret && i < r->vms->n; i++)
		ret = facts_vm(r, &r->vms->vm[i], end);
	return ret || end ? ret : facts_vm_tasks(r);
}

int record_facts_bracket(struct record *r)
{
	struct clock_bracket b;

	/* A machine without a TSC has no bracket; its trace clock needs none either. */
	if (kbracket_read(64, &b))
		return 0;
	meta_time(&r->line, &b);
	return record_put(r);
}

/* A file of names, unless --min-free forbids it. */
int record_put_names(struct record *r, const char *name, const char *text, const char *what)
{
	if (drain_room(&r->store, strlen(text))) {
		int ret = put_file(r, name, text);

		if (ret)
			return ret;
		meta_begin(&r->line, "file");
		meta_str(&r->line, "name", name);
		meta_u64(&r->line, "bytes", strlen(text));
		return record_put(r);
	}
	if (!r->c->quiet)
		r->note("--min-free: %s was not written, some names of %s may be missing", name,
			what);
	return 0;
}

int record_facts_tasks(struct record *r)
{
	_cleanup_free_ char *names = NULL, *tgids = NULL, *printk = NULL;
	int ret = 0;

	record_store_no_more_data(r);
	if (r->side & CAP_SIDE_GUEST)
		ret = vm_tasks_walk(NULL, 0, task_record, r);
	else
		ret = facts_vm_tasks(r);
	if (ret)
		return ret;
	/* All are optional: names only make the output nicer. */
	if (ktracefs_text(r->t, "saved_cmdlines", &names) == 0)
		ret = record_put_names(r, "saved_cmdlines", names, "tasks");
	if (!ret && r->tgids && ktracefs_text(r->t, "saved_tgids", &tgids) == 0)
		ret = record_put_names(r, "saved_tgids", tgids, "tasks");
	if (!ret && ktracefs_read(r->t, "printk_formats", PRINTK_MAX, &printk) > 0)
		ret = record_put_names(r, "printk_formats", printk, "tasks");
	return ret;
}

int record_facts_end(struct record *r)
{
	meta_begin(&r->line, "end");
	meta_str(&r->line, "reason", r->end_reason ?: "error");
	meta_u64(&r->line, "tsc", krdtsc_now());
	return record_put(r);
}
