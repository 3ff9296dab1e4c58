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
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define RUN_SIZE       64
#define RUN_REASON     8
#define RUN_UNION      32 /* io: direction u8, size u8, port u16, ...; mmio: phys_addr u64, ... */
#define RUN_IO_PORT    34
#define RUN_MMIO_WRITE 52
#define EXIT_IO	       2 /* KVM_EXIT_IO, KVM_EXIT_MMIO */
#define EXIT_MMIO      6

#define PATIENCE_MS    1000

/* Where vCPU's page is; 0: nowhere, or more than once, by two VMs of a process. */
static uint64_t run_page(uint32_t pid, uint32_t vcpu)
{
	_cleanup_free_ char *line = NULL;
	char path[32], want[48];
	uint64_t at = 0, from;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	snprintf(want, sizeof(want), "anon_inode:kvm-vcpu:%u\n", vcpu);
	f = fopen(path, "re");
	while (f && getline(&line, &room, f) > 0) {
		int name = 0;

		/* All of the path: a file can have a name that ends like that. */
		if (sscanf(line, "%" SCNx64 "-%*s %*s %*s %*s %*s %n", &from, &name) != 1 ||
		    strcmp(line + name, want))
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

static _Noreturn void read_page(uint32_t pid, uint32_t vcpu, int out)
{
	uint64_t at = run_page(pid, vcpu);
	uint8_t run[RUN_SIZE] = { 0 };
	char path[32];
	int fd, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* It may outlive us: it holds nothing of ours. */
	if (dup2(out, STDOUT_FILENO) < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0)
		_exit(1);
	(void)close_from(STDERR_FILENO + 1);
	snprintf(path, sizeof(path), "/proc/%u/mem", pid);
	fd = at ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	_exit(fd < 0 || full_pread(fd, run, sizeof(run), at) != (ssize_t)sizeof(run) ||
	      full_write(STDOUT_FILENO, run, sizeof(run), NULL));
}

/*
 * Reading what another process maps can take as long as that likes, and then not even SIGKILL ends
 * it: a child does, and is left alone if it takes too long.
 */
static bool child_reads(uint32_t pid, uint32_t vcpu, uint8_t run[RUN_SIZE])
{
	_cleanup_close_ int in = -1, out = -1;
	struct pollfd p = { .events = POLLIN };
	int fds[2];
	pid_t child;
	bool done;

	if (pipe2(fds, O_CLOEXEC))
		return false;
	in = p.fd = fds[0];
	out = fds[1];
	child = fork();
	if (!child)
		read_page(pid, vcpu, out);
	util_close_fd(&out);
	done = child > 0 && poll(&p, 1, PATIENCE_MS) > 0;
	if (child > 0 && !done)
		(void)kill(child, SIGKILL);
	if (child > 0)
		(void)waitpid(child, NULL, done ? 0 : WNOHANG);
	return done && read(in, run, RUN_SIZE) == RUN_SIZE;
}

bool stuck_peek(uint32_t pid, uint32_t vcpu, struct stuck_peek *p)
{
	uint8_t run[RUN_SIZE];

	*p = (struct stuck_peek){ 0 };
	if (!child_reads(pid, vcpu, run))
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
