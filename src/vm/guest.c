/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest.c: what a guest knows about itself that its host knows too: the product UUID (the host's
 * -uuid) and the APIC ids (the host's vcpu_id).
 */
#include "kvmft/vm.h"

#include "kvmft/util.h"

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
