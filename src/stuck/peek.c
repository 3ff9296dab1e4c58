/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * peek.c: why KVM_RUN last returned. It is in a page that the VMM maps (struct kvm_run of
 * linux/kvm.h, an ABI) and that root can read through /proc. So it is known what a VMM is busy
 * with even if that was asked of it long ago. The page is the VMM's own: its contents are
 * shown, not trusted.
 */
#include "room.h"

#include <fcntl.h>
#include <inttypes.h>

#define RUN_REASON  8
#define RUN_UNION   32 /* io: direction u8, size u8, port u16, ...; mmio: phys_addr u64, ... */
#define RUN_IO_PORT 34
#define RUN_MMIO_WRITE 52
#define EXIT_IO	    2 /* KVM_EXIT_IO, KVM_EXIT_MMIO */
#define EXIT_MMIO   6

/* Where vCPU's page is; 0: nowhere, or more than once, by two VMs of a process. */
static uint64_t run_page(uint32_t pid, uint32_t vcpu)
{
	char path[32], want[48], line[512];
	uint64_t at = 0, from;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	snprintf(want, sizeof(want), "anon_inode:kvm-vcpu:%u\n", vcpu);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		size_t n = strlen(line), w = strlen(want);

		if (n < w || strcmp(line + n - w, want) || sscanf(line, "%" SCNx64 "-", &from) != 1)
			continue;
		if (at) {
			at = 0;
			break;
		}
		at = from;
	}
	if (f)
		fclose(f);
	return at;
}

bool stuck_peek(uint32_t pid, uint32_t vcpu, struct stuck_peek *p)
{
	uint64_t at = run_page(pid, vcpu);
	uint8_t run[64] = { 0 };
	char path[32];
	_cleanup_close_ int fd = -1;

	*p = (struct stuck_peek){ 0 };
	snprintf(path, sizeof(path), "/proc/%u/mem", pid);
	if (at)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || full_pread(fd, run, sizeof(run), at) != (ssize_t)sizeof(run))
		return false;
	p->reason = load_u32(run + RUN_REASON);
	if (p->reason == EXIT_IO) {
		p->address = load_u16(run + RUN_IO_PORT);
		p->write = run[RUN_UNION] != 0;
	} else if (p->reason == EXIT_MMIO) {
		p->address = load_u64(run + RUN_UNION);
		p->write = run[RUN_MMIO_WRITE] != 0;
	}
	return true;
}
