/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * facts.c: everything in a capture that is not an event, also of VMs and QEMUs that appear while
 * it is recorded. What the records mean is in src/capture/records.c.
 */
#include "record.h"

#include <sys/utsname.h>

#include "kvmft/vm.h"

#define PRINTK_MAX (1u << 20) /* of the kernel's printk_formats; longer ones are left out */

static int put_result(struct record *r, int ret, const char *name)
{
	return r->out.stream ? record_stream_error(r, ret)
			     : err_why(r->err, ret, "cannot write %s/%s", capw_path(r->w), name);
}

int record_put(struct record *r)
{
	return put_result(r, capw_meta(r->w, &r->line), "meta");
}

static int put_file(struct record *r, const char *name, const char *text)
{
	return put_result(r, capw_file(r->w, name, text, strlen(text)), name);
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
	meta_u64(&r->line, "overwrite", r->c->flight);
	if (r->tids.n)
		meta_u64(&r->line, "pids", r->tids.n);
	if (r->c->flight)
		meta_u64(&r->line, "flight", 1);
	if (r->flush_ns)
		meta_u64(&r->line, "flush", r->flush_ns);
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
	if (record_probes.name && record_probes.name(r, e, &sys, &name, &text))
		return err_set(r->err, ENOMEM, "out of memory");
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
	int ret = 0;

	kguest_clock_read(r->t, &g);
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
	static const char *const headers[] = { "header_page", "header_event" };
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
	if (!ret) {
		meta_begin(&r->line, "tsc");
		if (r->tsc.khz) {
			meta_u64(&r->line, "khz", r->tsc.khz);
			meta_str(&r->line, "source", r->tsc.source);
		}
		meta_str(&r->line, "clocksource", r->tsc.clocksource);
		meta_u64(&r->line, "constant", r->tsc.constant);
		meta_u64(&r->line, "nonstop", r->tsc.nonstop);
		ret = record_put(r);
	}
	if (!ret && r->side & CAP_SIDE_HOST) {
		static const char *const modules[] = { "kvm", "kvm_intel", "kvm_amd" };

		/* How KVM is set up, which explains much of its behaviour. */
		for (size_t i = 0; i < ARRAY_SIZE(modules) && !ret; i++)
			ret = kmodule_params(modules[i], put_param,
					     &(struct params){ r, modules[i] });
	}
	for (size_t i = 0; i < ARRAY_SIZE(headers) && !ret; i++) {
		_cleanup_free_ char *text = NULL;

		ret = err_why(r->err, ktracefs_text(r->t, TEXTF("events/%s", headers[i]), &text),
			      "cannot read %s/events/%s", ktracefs_path(r->t), headers[i]);
		ret = ret ?: put_file(r, headers[i], text);
	}
	capw_hold(r->w);
	for (size_t i = 0; i < r->events.n && !ret; i++)
		ret = record_facts_event(r, &r->events.v[i]);
	if (!ret && (ret = capw_release(r->w)))
		err_why(r->err, ret, "cannot write %s", capw_path(r->w));
	if (!ret && record_probes.facts)
		ret = record_probes.facts(r);
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

/* The VM without its vCPUs. */
static int facts_vm(struct record *r, const struct vm *vm)
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

static int task_record(const struct vm_task *t, void *ctx)
{
	struct record *r = ctx;
	struct hash_key key;
	uint64_t hash, told;

	hash_key_init(&key);
	key.k[0] ^= t->tgid;
	hash = hash_bytes(&key, t->comm, strlen(t->comm));
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

/* A new VM: what is not recorded yet. told: recorded vCPUs and threads; 0: unknown so far. */
static int facts_came(struct record *r, const struct vm *vm, struct u64map *told)
{
	bool news = !told->n;
	int ret = record_sched_vmm(r, vm->pid);

	ret = ret || !news ? ret : facts_vm(r, vm);
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
	ret = record_look_vms(r, 0, &r->vms, r->err);
	for (size_t i = 0; !ret && i < r->vms->n; i++) {
		const struct vm *vm = &r->vms->vm[i];

		ret = record_sched_vmm(r, vm->pid);
		ret = ret ?: facts_vm(r, vm);
		for (size_t k = 0; k < vm->n_vcpus && !ret; k++)
			ret = facts_vcpu(r, vm, &vm->vcpu[k], end);
		ret = ret ?: record_met(r, vm->pid);
	}
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

	/* The space reserved for these names may be used. */
	r->store.min_free = r->place.min_free;
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
	const struct vm_roots roots = vm_roots_fill(NULL);
	char clocksource[64];

	vm_sys_clocksource(&roots, clocksource, sizeof(clocksource));
	meta_begin(&r->line, "end");
	meta_str(&r->line, "reason", r->end_reason ?: "error");
	meta_u64(&r->line, "tsc", krdtsc_now());
	if (clocksource[0])
		meta_str(&r->line, "clocksource", clocksource);
	return record_put(r);
}

/*
 * VMs that are made while a recording runs.
 *
 * Neither the first look nor what is left at the end shows them. debugfs reports when one is made,
 * which at that moment is little more than a name: its vCPUs follow, and their threads when they
 * run. So it is looked at a few more times, at ever longer intervals. On a machine where no VM is
 * made, the recorder is not woken.
 */

/* Between looks, ms. */
static const unsigned int wait_ms[] = { 0, 10, 30, 100, 300, 1000, 3000, 10000 };

#define MAX_CAME 4096 /* number looked at at the same time */

int record_came_open(struct record *r)
{
	if (r->side & CAP_SIDE_HOST)
		(void)!vm_watch_open(NULL, &r->newcomers);
	return 0;
}

static struct record_came *came_add(struct record *r, uint32_t pid, uint32_t fd)
{
	const struct record_came c = { .pid = pid, .fd = fd, .due = util_now_ns() };

	if (r->ncame >= MAX_CAME || array_add(&r->came, &r->ncame, &r->came_cap, &c, sizeof(c)))
		return NULL;
	return &r->came[r->ncame - 1];
}

static void came_drop(struct record *r, size_t i)
{
	u64map_free(&r->came[i].told);
	r->came[i] = r->came[--r->ncame];
}

static bool all_known(const struct vm *vm)
{
	for (size_t i = 0; i < vm->n_vcpus; i++)
		if (!vm->vcpu[i].tid)
			return false;
	return vm->n_vcpus > 0;
}

static const struct vm *of_list(const struct vm_list *list, uint32_t pid, uint32_t fd)
{
	for (size_t i = 0; list && i < list->n; i++)
		if (list->vm[i].dir_pid == pid && list->vm[i].fd == fd)
			return &list->vm[i];
	return NULL;
}

int record_came_begin(struct record *r)
{
	uint32_t pid, fd;

	/* Those of the list that had only just begun are looked at again. */
	for (size_t i = 0; r->newcomers.fd >= 0 && r->vms && i < r->vms->n; i++) {
		const struct vm *vm = &r->vms->vm[i];
		struct record_came *c = NULL;

		if (vm->has_debugfs && !all_known(vm))
			c = came_add(r, vm->dir_pid, vm->fd);
		for (size_t k = 0; c && k < vm->n_vcpus; k++)
			if (u64map_put(&c->told, vm->vcpu[k].id, vm->vcpu[k].tid))
				return err_set(r->err, ENOMEM, "out of memory");
	}
	/* What was made before the first look is recorded if it still exists. */
	while (r->newcomers.fd >= 0 && vm_watch_next(&r->newcomers, &pid, &fd) > 0)
		if (!of_list(r->vms, pid, fd))
			(void)came_add(r, pid, fd);
	return 0;
}

/* One look at each process, whose VMs are due at the same time: it may have hundreds. */
static int came_due(struct record *r)
{
	uint64_t now = util_now_ns();
	int ret = 0;

	for (size_t i = r->ncame; i-- && !ret;) {
		uint32_t pid = r->came[i].pid;
		struct vm_list *list = NULL;

		if (r->came[i].due > now)
			continue;
		ret = record_look_vms(r, pid, &list, r->err);
		for (size_t k = i + 1; k-- && !ret;) {
			struct record_came *c = &r->came[k];
			char sel[32];
			const struct vm gone = { .sel = sel, .pid = c->pid, .dir_pid = c->pid,
						 .fd = c->fd }, *vm;
			bool done;

			if (c->pid != pid || c->due > now)
				continue;
			/* What a look at its process has seen; it may be gone before. */
			snprintf(sel, sizeof(sel), "%u-%u", c->pid, c->fd);
			vm = of_list(list, c->pid, c->fd);
			done = !vm || (all_known(vm) && vm->n_vcpus == c->vcpus);
			if (vm || !c->looks)
				ret = facts_came(r, vm ?: &gone, &c->told);
			c->vcpus = vm ? vm->n_vcpus : 0;
			if (++c->looks == ARRAY_SIZE(wait_ms) || done)
				came_drop(r, k); /* there is nothing more to learn */
			else
				c->due = now + wait_ms[c->looks] * 1000000ull;
		}
		vm_list_free(list);
		i = MIN(i, r->ncame);
	}
	return ret;
}

int record_came_take(struct record *r)
{
	struct vm_list *list = NULL;
	uint32_t pid, fd;
	int ret = 0, more = 0;

	while (r->newcomers.fd >= 0 && (more = vm_watch_next(&r->newcomers, &pid, &fd)) > 0)
		(void)came_add(r, pid, fd);
	if (more == -EOVERFLOW) /* more than the kernel could report */
		ret = record_look_vms(r, 0, &list, r->err);
	for (size_t i = 0; !ret && list && i < list->n; i++) {
		const struct vm *vm = &list->vm[i];
		bool known = of_list(r->vms, vm->dir_pid, vm->fd);

		for (size_t k = 0; k < r->ncame; k++)
			known |= r->came[k].pid == vm->dir_pid && r->came[k].fd == vm->fd;
		if (!known)
			(void)came_add(r, vm->dir_pid, vm->fd);
	}
	vm_list_free(list);
	return ret ?: came_due(r);
}

void record_came_free(struct record *r)
{
	while (r->ncame)
		came_drop(r, r->ncame - 1);
	free(r->came);
	vm_watch_close(&r->newcomers);
}
