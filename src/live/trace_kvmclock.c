/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace_kvmclock.c: host TSC to the kvmclock of one VM, live.
 *
 * TSC offsets come from debugfs, the pvclock record from trace_record.c; both may change while
 * tracing, which kvm_write_tsc_offset and kvm_pvclock_update report. These two are recorded even if
 * the user did not ask for them, and are fed to the VM's epochs in time order, before anything
 * later is printed.
 */
#include "trace.h"

#include <inttypes.h>

/* Fields of EV_PVCLOCK and EV_TSC_OFFSET. */
enum { PV_VCPU, PV_VERSION, PV_TSC, PV_SYSTEM, PV_MUL, PV_SHIFT, PV_FLAGS, PV_FIELDS };
enum { WR_VCPU, WR_PREV, WR_NEXT, WR_FIELDS };

void trace_kvmclock_free(struct trace_vm *v)
{
	epoch_vm_free(v->epochs);
	u64map_free(&v->vcpu_of);
	free(v->record);
}

/* ---- setting up ---- */

/* vm_list_find() lends a const VM of a list that is ours. */
static struct vm *own_vm(struct vm_list *list, const struct vm *found)
{
	return &list->vm[found - list->vm];
}

static int add_hidden(struct trace *t, const char *name, struct trace_kvm_event *e)
{
	int ret;

	e->hidden = !kevent_list_has(&t->events, "kvm", name);
	if (!e->hidden)
		return 0;
	ret = kevent_list_add(&t->events, "kvm", name, NULL);
	return ret ? err_set(t->err, -ret, "out of memory") : 0;
}

int trace_kvmclock_prepare(struct trace *t)
{
	struct trace_vm *v = &t->kvmclock;
	const struct vm *found;
	int ret = vm_list_find(t->vms, t->c->kvmclock, &found, t->err);

	ret = ret ?: kevent_kvm_check(t->t, t->err);
	if (ret)
		return ret;
	v->vm = own_vm(t->vms, found);
	if (!v->vm->has_debugfs)
		return err_lack(t->err, ENOENT, "cannot get the TSC offset of %s: %s",
				v->vm->sel,
				t->vms->debugfs_text ?: "it has no directory in debugfs");
	ret = add_hidden(t, event_name(EV_PVCLOCK), &v->pvclock);
	return ret ?: add_hidden(t, event_name(EV_TSC_OFFSET), &v->write_offset);
}

static int resolve(struct trace_kvm_event *e, const struct fmt *fmt, enum event_role role, size_t n,
		   struct kvmft_err *err)
{
	event_find(fmt, role, 0, &e->type);
	for (size_t i = 0; i < n; i++)
		if (!e->type.f[i].size)
			return err_lack(err, ENOENT, "event kvm:%s of this kernel has no field %s",
					event_name(role), event_field(role, i));
	return 0;
}

int trace_pvclock_resolve(struct trace_kvm_event *e, const struct fmt *fmt, struct kvmft_err *err)
{
	return resolve(e, fmt, EV_PVCLOCK, PV_FIELDS, err);
}

/* The map of a vCPU in debugfs; -errno if it must not be used. */
static int vcpu_map(const struct vm_vcpu *c, struct tsc_map *map)
{
	if (!c->has_offset)
		return -ENODATA;
	if (c->in_guest_mode)
		return -EAGAIN;
	if (c->ratio_state == VM_RATIO_REFUSED || c->ratio_state == VM_RATIO_UNKNOWN)
		return -EINVAL;
	*map = (struct tsc_map){ .offset = c->tsc_offset, .ratio = c->tsc_ratio,
				 .frac = (uint8_t)c->tsc_frac_bits };
	return tsc_map_check(map);
}

static const char *map_problem(int error)
{
	switch (error) {
	case -EAGAIN: return "a nested guest runs in it all the time, try again";
	case -EINVAL: return "its TSC scaling ratio makes no sense";
	default: return "debugfs does not say it";
	}
}

static int read_maps(struct trace *t)
{
	struct trace_vm *v = &t->kvmclock;
	bool differ = false;
	struct tsc_map map, first = { 0 };
	int ret = vm_reread_clocks(NULL, v->vm);

	if (ret)
		return err_why(t->err, ret, "cannot read the TSC offset of %s", v->vm->sel);
	for (size_t i = 0; i < v->vm->n_vcpus; i++) {
		const struct vm_vcpu *c = &v->vm->vcpu[i];

		ret = vcpu_map(c, &map);
		if (ret)
			return err_set(t->err, -ret, "no TSC offset of vCPU %u of %s: %s", c->id,
				       v->vm->sel, map_problem(ret));
		ret = epoch_vm_read(v->epochs, c->id, c->tsc_after, &map);
		if (!ret && c->tid)
			ret = u64map_put(&v->vcpu_of, c->tid, c->id);
		if (ret)
			return err_set(t->err, -ret, "out of memory");
		if (!i)
			first = map;
		differ |= !tsc_map_equal(&first, &map);
	}
	if (!v->epochs->n)
		return err_set(t->err, ENODATA, "%s has no vCPU", v->vm->sel);
	if (differ)
		t->note("the vCPUs of %s have different TSC offsets: events of other threads are shown "
			"in the clock of vCPU %u",
			v->vm->sel, v->epochs->vcpus[0]->id);
	return 0;
}

/* A record that starts in the future belongs to another VM, or to an earlier life of this one. */
static int check_record(struct trace *t, const struct trace_pvclock *r)
{
	const struct epoch_vcpu *c = epoch_vm_or_first(t->kvmclock.epochs, r->vcpu);
	uint64_t guest;

	if (epoch_result_usable(epoch_host_to_guest(c, t->start, &guest)) &&
	    (int64_t)(guest - r->pv.tsc_timestamp) < 0)
		return err_set(
			t->err, ERANGE,
			"the pvclock record is not one of %s as it runs now: its time stamp %" PRIu64
			" lies ahead of the guest's TSC %" PRIu64,
			t->kvmclock.vm->sel, r->pv.tsc_timestamp, guest);
	return 0;
}

int trace_kvmclock_begin(struct trace *t)
{
	struct trace_vm *v = &t->kvmclock;
	int ret = trace_pvclock_resolve(&v->pvclock, t->fmt, t->err);

	ret = ret ?: resolve(&v->write_offset, t->fmt, EV_TSC_OFFSET, WR_FIELDS, t->err);
	if (ret)
		return ret;
	v->epochs = epoch_vm_new(t->start);
	if (!v->epochs)
		return err_set(t->err, ENOMEM, "out of memory");
	ret = read_maps(t);
	for (size_t i = 0; i < v->nrecord && !ret; i++) {
		struct trace_pvclock *r = &v->record[i];

		ret = check_record(t, r);
		if (ret)
			break;
		if (r->all)
			r->pv.flags |= PVCLOCK_TSC_STABLE;
		ret = epoch_vm_pvclock(v->epochs, r->vcpu, t->start, &r->pv);
		if (ret)
			err_why(t->err, ret, "cannot use the pvclock record");
	}
	return ret;
}

/* ---- while tracing ---- */

/* The thread belongs to the VM's process; an unknown thread may have been created since. */
static bool of_this_vm(const struct trace_vm *v, int32_t tid)
{
	char path[64];

	if (tid <= 0)
		return false;
	if (u64map_get(&v->vcpu_of, (uint32_t)tid, NULL))
		return true;
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%" PRId32, v->vm->pid, tid);
	return access(path, F_OK) == 0;
}

bool trace_pvclock_event(const struct trace_vm *v, const struct trace_kvm_event *e,
			 const struct fmt *fmt, const struct rec *rec, struct trace_pvclock *out)
{
	uint64_t x[PV_FIELDS];

	if (!e->type.ev || rec->id != fmt_id(e->type.ev) || !of_this_vm(v, fmt_pid(fmt, rec)))
		return false;
	for (size_t i = 0; i < PV_FIELDS; i++)
		if (!fmt_u64(&e->type.f[i], rec, &x[i]))
			return false;
	*out = (struct trace_pvclock){
		.vcpu = (uint32_t)x[PV_VCPU],
		.pv = { .version = (uint32_t)x[PV_VERSION], .tsc_timestamp = x[PV_TSC],
			.system_time = x[PV_SYSTEM], .mul = (uint32_t)x[PV_MUL],
			.shift = (int8_t)(int64_t)x[PV_SHIFT], .flags = (uint8_t)x[PV_FLAGS] },
	};
	return true;
}

/*
 * A software KVM prints offsets that it never applies. debugfs has the one in force: an event that
 * it contradicts, and that would change what we hold, is not trusted.
 */
static bool believe_offset(struct trace_vm *v, uint32_t id, uint64_t next)
{
	const struct epoch_vcpu *c = epoch_vm_find(v->epochs, id);

	if (!c || !c->n || !c->v[c->n - 1].has_map || vm_reread_clocks(NULL, v->vm))
		return true;
	for (size_t i = 0; i < v->vm->n_vcpus; i++) {
		const struct vm_vcpu *now = &v->vm->vcpu[i];

		if (now->id == id && now->has_offset && !now->in_guest_mode)
			return now->tsc_offset == next ||
			       now->tsc_offset != c->v[c->n - 1].map.offset;
	}
	return true;
}

static void feed_offset(struct trace *t, const struct rec *rec)
{
	struct trace_vm *v = &t->kvmclock;
	uint64_t x[WR_FIELDS];

	if (!of_this_vm(v, fmt_pid(t->fmt, rec)))
		return;
	for (size_t i = 0; i < WR_FIELDS; i++)
		if (!fmt_u64(&v->write_offset.type.f[i], rec, &x[i]))
			return;
	if (!believe_offset(v, (uint32_t)x[WR_VCPU], x[WR_NEXT]))
		return;
	if (epoch_vm_write_offset(v->epochs, (uint32_t)x[WR_VCPU], rec->ts, x[WR_PREV], x[WR_NEXT]))
		t->note("a change of the TSC offset of vCPU %" PRIu64
			" could not be taken in: times "
			"after it are wrong",
			x[WR_VCPU]);
}

bool trace_kvmclock_feed(struct trace *t, const struct rec *rec)
{
	struct trace_vm *v = &t->kvmclock;
	struct trace_pvclock r;

	if (rec->id == fmt_id(v->pvclock.type.ev)) {
		/* If one is refused, the previous record stays in force. */
		if (trace_pvclock_event(v, &v->pvclock, t->fmt, rec, &r) &&
		    epoch_vm_pvclock(v->epochs, r.vcpu, rec->ts, &r.pv))
			t->note("a pvclock record of vCPU %u could not be taken in", r.vcpu);
		return !v->pvclock.hidden;
	}
	if (rec->id == fmt_id(v->write_offset.type.ev)) {
		feed_offset(t, rec);
		return !v->write_offset.hidden;
	}
	return true;
}

bool trace_kvmclock_value(struct trace *t, uint64_t ts, int32_t tid, uint64_t *ns)
{
	struct trace_vm *v = &t->kvmclock;
	uint64_t id;
	bool known = tid > 0 && u64map_get(&v->vcpu_of, (uint32_t)tid, &id);

	if (epoch_result_usable(epoch_host_to_kvmclock(
		    epoch_vm_or_first(v->epochs, known ? (int64_t)id : -1), ts, ns)))
		return true;
	v->unknown++;
	return false;
}
