/* SPDX-License-Identifier: GPL-2.0-or-later */
/* noclock: for LD_PRELOAD, a VMM that forgets KVM_SET_CLOCK. */
#define _GNU_SOURCE
#include <linux/kvm.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	void *arg;

	va_start(list, request);
	arg = va_arg(list, void *);
	va_end(list);
	return request == KVM_SET_CLOCK ? 0 : (int)syscall(SYS_ioctl, fd, request, arg);
}
