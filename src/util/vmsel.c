/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kvmft/vmsel.h"

#define MAX_TIDS 65536

static const char *after_prefix(const char *text, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(text, prefix, n) ? NULL : text + n;
}

const char *vmsel_name(const char *sel)
{
	const char *name = after_prefix(sel, "name=");

	name = name ?: after_prefix(sel, "uuid=");
	return name ?: sel;
}

bool vmsel_pid(const char *sel, uint32_t *pid)
{
	const char *text = after_prefix(sel, "pid:");
	uint64_t v;

	text = text ?: after_prefix(sel, "pid=");
	text = text ?: sel;
	if (*text == '0' || parse_u64(text, &v) || v > INT32_MAX) /* nobody prints 0123 */
		return false;
	*pid = (uint32_t)v;
	return true;
}

/* A number of a list, up to `,`, `-` or the end. */
static bool take_tid(const char **p, int32_t *tid)
{
	uint64_t v;

	if (!take_u64(p, INT32_MAX, &v) || !v)
		return false;
	*tid = (int32_t)v;
	return true;
}

int vmsel_tids(const char *sel, int32_t **tid, size_t *n)
{
	const char *p = after_prefix(sel, "tids:");
	size_t cap = 0;
	int ret = p ? 0 : -ENOENT;

	*tid = NULL;
	*n = 0;
	while (!ret) {
		int32_t from = 0, to;

		if (!take_tid(&p, &from))
			ret = -EINVAL;
		to = from;
		if (!ret && *p == '-' && p++ && !take_tid(&p, &to))
			ret = -EINVAL;
		if (!ret && to < from)
			ret = -EINVAL;
		for (int64_t i = from; !ret && i <= to; i++) {
			const int32_t one = (int32_t)i;

			ret = *n < MAX_TIDS ? array_add(tid, n, &cap, &one, sizeof(one)) : -EINVAL;
		}
		if (!ret && !*p)
			return 0;
		if (!ret && *p++ != ',')
			ret = -EINVAL;
	}
	free(*tid);
	*tid = NULL;
	*n = 0;
	return ret;
}

const struct vmsel_comm *vmsel_vcpu(const char *comm, uint32_t *number)
{
	static const struct vmsel_comm comms[] = {
		{ "CPU ", "/KVM", true },     /* QEMU, debug-threads=on */
		{ "vcpu", "", false },	      /* cloud-hypervisor */
		{ "fc_vcpu ", "", false },    /* firecracker */
		{ "crosvm_vcpu", "", false }, /* crosvm */
		{ "kvm-vcpu-", "", false },   /* kvmtool */
	};

	for (size_t i = 0; comm && i < ARRAY_SIZE(comms); i++) {
		const char *digits = after_prefix(comm, comms[i].before), *p = digits;
		uint64_t v;

		if (!p || !take_u64(&p, UINT32_MAX, &v) || (*digits == '0' && p != digits + 1) ||
		    strcmp(p, comms[i].after))
			continue;
		*number = (uint32_t)v;
		return &comms[i];
	}
	return NULL;
}
