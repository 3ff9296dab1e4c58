/* SPDX-License-Identifier: GPL-2.0-or-later */
/* find.c: the VM that a user means, and the small services of struct vm. */
#include "kvmft/vm.h"

#include <strings.h>

#include "kvmft/vmsel.h"

void vm_free_members(struct vm *vm)
{
	free(vm->sel);
	free(vm->vmm);
	free(vm->name);
	free(vm->uuid);
	free(vm->note);
	free(vm->vcpu);
}

void vm_list_free(struct vm_list *list)
{
	if (!list)
		return;
	for (size_t i = 0; i < list->n; i++)
		vm_free_members(&list->vm[i]);
	free(list->vm);
	free(list->debugfs_text);
	free(list->clocksource);
	free(list);
}

int vm_add_note(struct vm *vm, const char *fmt, ...)
{
	struct sbuf b = { 0 };
	char text[512];
	va_list ap;
	char *note;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (vm->note) {
		sbuf_add(&b, vm->note);
		sbuf_add(&b, "; ");
	}
	sbuf_add(&b, text);
	note = sbuf_take(&b);
	if (!note)
		return -ENOMEM;
	free(vm->note);
	vm->note = note;
	return 0;
}

void vm_describe(const struct vm *vm, struct sbuf *out)
{
	sbuf_add(out, vm->sel);
	if (vm->name)
		sbuf_addf(out, " name=%s", vm->name);
	if (vm->uuid)
		sbuf_addf(out, " uuid=%s", vm->uuid);
	if (vm->pid != vm->dir_pid)
		sbuf_addf(out, " pid=%u", vm->pid);
	sbuf_addf(out, " vmm=%s", vm->vmm);
}

/* "tids:LIST": all of them are vCPUs of the VM. */
static bool vm_matches(const struct vm *vm, const char *sel)
{
	const char *name = vmsel_name(sel);
	_cleanup_free_ int32_t *tid = NULL;
	size_t n, i, k;
	uint32_t pid;

	if (vm->uuid && !strcasecmp(vm->uuid, name))
		return true;
	if (vm->name && (!strcmp(vm->name, sel) || !strcmp(vm->name, name)))
		return true;
	if (vmsel_pid(sel, &pid) && (pid == vm->pid || pid == vm->dir_pid))
		return true;
	if (vmsel_tids(sel, &tid, &n))
		return false;
	for (i = 0; i < n; i++) {
		for (k = 0; k < vm->n_vcpus && vm->vcpu[k].tid != (uint32_t)tid[i]; k++)
			;
		if (k == vm->n_vcpus)
			return false;
	}
	return true;
}

/* Room for the sentence around the candidates in kvmft_err.text. */
#define CANDIDATES_MAX 800

/* "1-2 name=a, 3-4 name=b": all VMs (sel NULL) or those that match sel. */
static void add_candidates(const struct vm_list *list, const char *sel, struct sbuf *b)
{
	size_t shown = 0, left = 0;

	for (size_t i = 0; i < list->n; i++) {
		if (sel && !vm_matches(&list->vm[i], sel))
			continue;
		if (b->len > CANDIDATES_MAX - VM_MAX_TEXT) {
			left++;
			continue;
		}
		if (shown++)
			sbuf_add(b, ", ");
		vm_describe(&list->vm[i], b);
	}
	if (left)
		sbuf_addf(b, " and %zu more (see kvmft list)", left);
}

const char *vm_list_hidden(const struct vm_list *list, char *text, size_t size)
{
	snprintf(text, size, "%zu process%s could not be looked at%s PID %u: %s%s", list->n_hidden,
		 list->n_hidden == 1 ? "" : "es", list->n_hidden == 1 ? "," : ", such as",
		 list->hidden, strerror(EACCES),
		 geteuid() ? " (run as root)"
			   : ", even to root: without CAP_SYS_PTRACE, or by a security module");
	return text;
}

bool vm_vmm_is_qemu(const char *vmm)
{
	return strstr(vmm, "qemu-system") || !strcmp(vmm, "qemu-kvm") || !strcmp(vmm, "kvm") ||
	       !strcmp(vmm, "qemu");
}

#define EMULATES "the QEMU with PID %u does not use KVM, so KVM has no events of it"

int vm_list_none(const struct vm_list *list, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char hidden[160];
	const char *const why[] = {
		list->debugfs_text,
		list->n_hidden ? vm_list_hidden(list, hidden, sizeof(hidden)) : NULL,
		list->emulates ? TEXTF(EMULATES, list->emulates) : NULL,
	};

	for (size_t i = 0; i < ARRAY_SIZE(why); i++)
		if (why[i])
			sbuf_addf(&b, "%s%s", b.len ? "; " : ": ", why[i]);
	return err_lack(err, ENOENT, "no VM runs here%s", b.s ?: "");
}

int vm_list_find(const struct vm_list *list, const char *sel, const struct vm **vm,
		 struct kvmft_err *err)
{
	const struct vm *found = NULL;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	size_t n = 0;
	char shown[80];
	int ret;

	for (size_t i = 0; i < list->n; i++) {
		if (!strcmp(list->vm[i].sel, sel)) {
			*vm = &list->vm[i];
			return 0;
		}
		if (vm_matches(&list->vm[i], sel)) {
			found = &list->vm[i];
			n++;
		}
	}
	if (n == 1) {
		*vm = found;
		return 0;
	}
	if (!list->n)
		return vm_list_none(list, err);
	/* What the user typed is printed back to the terminal: bounded and printable. */
	snprintf(shown, sizeof(shown), "%s", sel);
	str_printable(shown);
	add_candidates(list, n ? sel : NULL, &b);
	if (n)
		ret = err_set(err, EEXIST, "'%s' names %zu VMs: %s; choose one by its PID-FD",
			      shown, n, b.s ?: "(out of memory)");
	else
		ret = err_set(err, ENOENT, "no VM '%s' here; there are: %s%s", shown,
			      b.s ?: "(out of memory)",
			      list->emulates ? TEXTF("; " EMULATES, list->emulates) : "");
	return ret;
}

const struct vm *vm_list_only(const struct vm_list *list, uint32_t pid)
{
	const size_t at = COUNT_BEFORE(i, list->n, list->vm[i].pid < pid);

	return at < list->n && list->vm[at].pid == pid &&
	       (at + 1 == list->n || list->vm[at + 1].pid != pid) ? &list->vm[at] : NULL;
}

int vm_guess_master_clock(const struct vm_list *list, const struct vm *vm)
{
	if (!list->clocksource || !vm->n_vcpus)
		return 0;
	if (strcmp(list->clocksource, "tsc") &&
	    strcmp(list->clocksource, "hyperv_clocksource_tsc_page"))
		return -1;
	for (size_t i = 0; i < vm->n_vcpus; i++) {
		const struct vm_vcpu *v = &vm->vcpu[i];

		if (!v->has_offset || v->in_guest_mode || v->ratio_state == VM_RATIO_UNKNOWN ||
		    v->ratio_state == VM_RATIO_REFUSED)
			return 0;
		if (v->tsc_offset != vm->vcpu[0].tsc_offset ||
		    v->tsc_ratio != vm->vcpu[0].tsc_ratio)
			return -1;
	}
	return 1;
}

/* ---- thread ids ---- */

struct tids {
	uint32_t *v;
	size_t n, cap;
};

static int add_tid(const struct vm_task *task, void *ctx)
{
	struct tids *t = ctx;

	return array_add(&t->v, &t->n, &t->cap, &task->tid, sizeof(task->tid));
}

COMPARE_BY(tid_compare, uint32_t, );

int vm_thread_ids(const struct vm_roots *roots, uint32_t pid, uint32_t **tids, size_t *n)
{
	struct tids t = { 0 };
	int ret = vm_tasks_walk(roots, pid, add_tid, &t);

	if (ret) {
		free(t.v);
		return ret;
	}
	array_sort(t.v, t.n, tid_compare);
	*tids = t.v;
	*n = t.n;
	return 0;
}

/*
 * ---- a list of VMs as bytes, for a pipe between two processes of one program ----
 *
 * Numbers are in native layout.
 */

static void pack_text(struct sbuf *b, const char *s)
{
	uint32_t len = s ? (uint32_t)strlen(s) : UINT32_MAX;

	sbuf_add_mem(b, &len, sizeof(len));
	if (s)
		sbuf_add_mem(b, s, len);
}

int vm_list_pack(const struct vm_list *list, struct sbuf *b)
{
	sbuf_add_mem(b, list, sizeof(*list));
	pack_text(b, list->debugfs_text);
	pack_text(b, list->clocksource);
	for (size_t i = 0; i < list->n; i++) {
		const struct vm *vm = &list->vm[i];
		const char *const text[] = { vm->sel, vm->vmm, vm->name, vm->uuid, vm->note };

		sbuf_add_mem(b, vm, sizeof(*vm));
		for (size_t k = 0; k < ARRAY_SIZE(text); k++)
			pack_text(b, text[k]);
		sbuf_add_mem(b, vm->vcpu, vm->n_vcpus * sizeof(*vm->vcpu));
	}
	return b->error;
}

static int unpack_bytes(struct cursor *c, void *to, size_t n)
{
	const uint8_t *p;
	int ret = cur_bytes(c, n, &p);

	if (!ret && n)
		memcpy(to, p, n);
	return ret;
}

static int get_text(struct cursor *c, char **s)
{
	const uint8_t *p;
	uint32_t len;
	int ret = unpack_bytes(c, &len, sizeof(len));

	if (ret || len == UINT32_MAX)
		return ret;
	ret = cur_bytes(c, len, &p);
	if (ret)
		return ret;
	*s = strndup((const char *)p, len);
	return *s ? 0 : -ENOMEM;
}

static int get_vm(struct cursor *c, struct vm *vm)
{
	char **const text[] = { &vm->sel, &vm->vmm, &vm->name, &vm->uuid, &vm->note };
	int ret = unpack_bytes(c, vm, sizeof(*vm));

	if (ret)
		return ret;
	vm->vcpu = NULL;
	for (size_t k = 0; k < ARRAY_SIZE(text); k++)
		*text[k] = NULL;
	for (size_t k = 0; k < ARRAY_SIZE(text) && !ret; k++)
		ret = get_text(c, text[k]);
	if (ret || !vm->n_vcpus)
		return ret;
	if (vm->n_vcpus > VM_MAX_VCPUS)
		return -EINVAL;
	vm->cap_vcpus = vm->n_vcpus;
	vm->vcpu = calloc(vm->n_vcpus, sizeof(*vm->vcpu));
	return vm->vcpu ? unpack_bytes(c, vm->vcpu, vm->n_vcpus * sizeof(*vm->vcpu)) : -ENOMEM;
}

int vm_list_unpack(const void *p, size_t len, struct vm_list **list)
{
	struct vm_list *l = calloc(1, sizeof(*l));
	struct cursor c = { .p = p, .left = len };
	struct vm_list head = { 0 };
	int ret = l ? unpack_bytes(&c, &head, sizeof(head)) : -ENOMEM;

	if (!ret && head.n > VM_MAX_VMS)
		ret = -EINVAL;
	if (!ret) {
		*l = head;
		l->vm = NULL;
		l->debugfs_text = l->clocksource = NULL;
		l->n = l->cap = 0;
		ret = get_text(&c, &l->debugfs_text);
	}
	ret = ret ?: get_text(&c, &l->clocksource);
	while (!ret && l->n < head.n) {
		struct vm *vm = array_grow(&l->vm, l->n, &l->cap, sizeof(*vm));

		if (vm)
			l->n++;
		ret = vm ? get_vm(&c, vm) : -ENOMEM;
	}
	if (!ret && c.left)
		ret = -EINVAL;
	if (ret) {
		vm_list_free(l);
		l = NULL;
	}
	*list = l;
	return ret;
}

/*
 * ---- what a guest knows about itself that its host knows too ----
 *
 * The product UUID (the host's -uuid) and the APIC ids (the host's vcpu_id).
 */

/* About 2 KiB per CPU, and 8192 CPUs at most. */
#define MAX_CPUINFO (32u * 1024 * 1024)

int vm_guest_uuid(const struct vm_roots *roots, char uuid[37])
{
	struct vm_roots r = vm_roots_fill(roots);
	char line[64];
	int ret;

	ret = file_read_line(AT_FDCWD, TEXTF("%s/class/dmi/id/product_uuid", r.sys), line,
			     sizeof(line));
	if (ret < 0)
		return ret;
	return vm_uuid_parse(line, strlen(line), uuid) ? 0 : -EINVAL;
}

int vm_guest_cpus(const struct vm_roots *roots, struct vm_guest_cpus *cpus)
{
	struct vm_roots r = vm_roots_fill(roots);
	_cleanup_free_ char *text = NULL;
	ssize_t len;

	*cpus = (struct vm_guest_cpus){ 0 };
	len = file_read_all(AT_FDCWD, TEXTF("%s/cpuinfo", r.proc), MAX_CPUINFO, &text);
	if (len < 0)
		return len == -ENOMEM ? -ENOMEM : 0;
	for (const char *p = ktext_value(text, "processor"), *next; p; p = next) {
		const char *id = ktext_value(p, "apicid");
		struct vm_guest_cpu v;

		next = ktext_value(p, "processor");
		if (!vm_text_u32(&p, &v.cpu) || !id || (next && id > next) ||
		    !vm_text_u32(&id, &v.apicid))
			continue;
		if (array_add(&cpus->v, &cpus->n, &cpus->cap, &v, sizeof(v))) {
			vm_guest_cpus_free(cpus);
			return -ENOMEM;
		}
	}
	return 0;
}

void vm_guest_cpus_free(struct vm_guest_cpus *cpus)
{
	free(cpus->v);
	*cpus = (struct vm_guest_cpus){ 0 };
}
