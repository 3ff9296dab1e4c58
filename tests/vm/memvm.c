/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * memvm: a VM whose guest touches its memory page by page and times each touch by TSC, while its VMM takes
 * the memory away in the ways that hosts do.
 *
 *   memvm [--pages N] [--wait] [--stamps FILE] [PHASE]...
 *
 * Phases, in any order, each of them on N pages (default 512) of its own:
 *   touch    pages that the VMM does not have yet
 *   read     pages that the VMM has, but KVM does not
 *   cow      pages shared with a fork of the VMM
 *   dirty    a dirty log, three rounds
 *   madvise  pages that the VMM gave back (MADV_DONTNEED)
 *   access   pages whose use the host asked about
 *   mglru    ... by aging of the multi-gen LRU
 *   damon    ... by DAMON
 *   swap     pages that were written to swap (MADV_PAGEOUT); so is zram, where that is the swap
 *   ksm      identical pages that the host merged
 *   mbind    pages that the VMM moved to another NUMA node
 *   nx       huge pages that KVM split to execute them, and took back (nx_huge_pages=force)
 *   file     pages of the file $MEMVM_FILE that are only on disk
 *   writeback ... and those that were written back, and so are write-protected
 *   huge     huge pages
 *   hugetlb  huge pages of hugetlbfs
 *   split    huge pages that a dirty log splits
 *   uffd     pages that a thread of the VMM fills in, each after 2 ms
 *   mmio     addresses without memory
 * What a phase needs to be touched first is; that is timed as well. Before them all come N exits that
 * do next to nothing.
 *
 * A line per timed pass: `PHASE touched N over M sum CYCLES total CYCLES`: M touches took longer than half of
 * the shortest of those exits; sum is of these, total of all. FILE gets the struct times of all touches.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/kvm.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#define PAGE	  4096u
#define HUGE	  (512 * PAGE)
#define PAGES_MAX 4096u
#define LOW_SIZE  0x100000u /* code, then six words per touch */
#define CODE_AT	  0x1000u
#define TIMES_AT  0x2000u
#define HIGH_AT	  0x40000000u /* the memory that is touched */
#define NO_MEMORY 0xc0000000u

extern const uint8_t guest_begin[], guest_end[];

/* What the guest notes of each touch: its TSC, and the low half of it around the touch and an exit after it. */
struct times {
	uint32_t now[2], touch[2], exit[2];
};

/*
 * 32 bit, flat. `out` asks for work: esi first address, edx how far to the next, ebp how many, edi
 * where their times go, ebx what to do: 0 read, 1 write, 2 an exit that is nearly none, 3 execute.
 * Each is followed by such an exit between two accesses to what is there, as a fault is one: it
 * shows how long a world switch takes at that moment.
 */
__asm__(".pushsection .rodata\n"
	".code32\n"
	"guest_begin:\n"
	"	out %al, $0x10\n"
	"	mov %edx, %esp\n"
	"1:	rdtsc\n"
	"	mov %eax, (%edi)\n"
	"	mov %edx, 4(%edi)\n"
	"	lfence\n"
	"	rdtsc\n"
	"	mov %eax, %ecx\n"
	"	cmp $1, %ebx\n"
	"	jb 2f\n"
	"	ja 4f\n"
	"	mov %ebp, (%esi)\n"
	"	jmp 3f\n"
	"4:	cmp $2, %ebx\n"
	"	ja 5f\n"
	"	invd\n"
	"	jmp 3f\n"
	"5:	mov $0x1000 + 3f - guest_begin, %eax\n"
	"	jmp *%esi\n" /* where `jmp *%eax` is */
	"2:	mov (%esi), %eax\n"
	"3:	lfence\n"
	"	rdtsc\n"
	"	mov %ecx, 8(%edi)\n"
	"	mov %eax, 12(%edi)\n"
	"	lfence\n"
	"	rdtsc\n"
	"	mov %eax, %ecx\n"
	"	mov 0x40000(%edi), %eax\n"
	"	invd\n"
	"	mov (%edi), %eax\n"
	"	lfence\n"
	"	rdtsc\n"
	"	mov %ecx, 16(%edi)\n"
	"	mov %eax, 20(%edi)\n"
	"	add $24, %edi\n"
	"	add %esp, %esi\n"
	"	dec %ebp\n"
	"	jnz 1b\n"
	"	jmp guest_begin\n"
	"guest_end:\n"
	".code64\n"
	".popsection\n");

struct vm {
	int fd, vcpu;
	struct kvm_run *run;
	uint8_t *low, *high;
	size_t high_size;
	uint32_t pages;
	uint64_t exit_cycles; /* of an exit that does next to nothing */
	FILE *stamps;
};

static void die(const char *what)
{
	fprintf(stderr, "memvm: %s: %s\n", what, strerror(errno));
	exit(errno == ENOENT || errno == EACCES || errno == ENODEV ? 77 : 1);
}

static void slot(const struct vm *v, uint32_t n, uint32_t flags)
{
	struct kvm_userspace_memory_region m = {
		.slot = n, .flags = flags, .guest_phys_addr = n ? HIGH_AT : 0,
		.memory_size = n ? v->high_size : LOW_SIZE,
		.userspace_addr = (uintptr_t)(n ? v->high : v->low),
	};

	if (ioctl(v->fd, KVM_SET_USER_MEMORY_REGION, &m))
		die("KVM_SET_USER_MEMORY_REGION");
}

static void *memory(size_t size)
{
	uint8_t *p = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	p += HUGE - (uintptr_t)p % HUGE;
	if (madvise(p, size, MADV_NOHUGEPAGE))
		die("MADV_NOHUGEPAGE");
	return p;
}

static void cpu_new(struct vm *v, int kvm)
{
	int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_regs regs = { .rip = CODE_AT, .rflags = 2 };
	struct kvm_segment flat = { .limit = 0xffffffff, .type = 11, .present = 1, .db = 1, .s = 1, .g = 1,
				    .selector = 8 };
	struct kvm_sregs sregs;

	v->vcpu = ioctl(v->fd, KVM_CREATE_VCPU, 0);
	if (v->vcpu < 0 || size < 0 || ioctl(v->vcpu, KVM_GET_SREGS, &sregs))
		die("KVM_CREATE_VCPU");
	v->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, v->vcpu, 0);
	if (v->run == MAP_FAILED)
		die("mmap of kvm_run");
	sregs.cs = flat;
	flat.type = 3;
	flat.selector = 16;
	sregs.ds = sregs.es = sregs.ss = sregs.fs = sregs.gs = flat;
	sregs.cr0 |= 1;
	if (ioctl(v->vcpu, KVM_SET_SREGS, &sregs) || ioctl(v->vcpu, KVM_SET_REGS, &regs))
		die("KVM_SET_SREGS");
}

static void vm_new(struct vm *v)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (kvm < 0)
		die("/dev/kvm");
	v->fd = ioctl(kvm, KVM_CREATE_VM, 0);
	if (v->fd < 0)
		die("KVM_CREATE_VM");
	(void)ioctl(v->fd, KVM_SET_TSS_ADDR, 0xfffbd000ul); /* as for tinyvm */
	v->low = memory(LOW_SIZE);
	v->high = memory(v->high_size);
	memset(v->low, 0, LOW_SIZE);
	memcpy(v->low + CODE_AT, guest_begin, (size_t)(guest_end - guest_begin));
	slot(v, 0, 0);
	slot(v, 1, 0);
	cpu_new(v, kvm);
}

/* Until the guest asks for work. */
static void run(struct vm *v)
{
	for (;;) {
		if (ioctl(v->vcpu, KVM_RUN, 0) && errno != EINTR)
			die("KVM_RUN");
		switch (v->run->exit_reason) {
		case KVM_EXIT_IO: return;
		case KVM_EXIT_MMIO:
		case KVM_EXIT_INTR: break;
		default:
			fprintf(stderr, "memvm: exit reason %u\n", v->run->exit_reason);
			exit(1);
		}
	}
}

enum how { READ, WRITE, NOTHING, EXECUTE };

static struct times times_of(const struct vm *v, uint32_t i)
{
	struct times t;

	memcpy(&t, v->low + TIMES_AT + sizeof(t) * i, sizeof(t));
	return t;
}

static void pass(struct vm *v, const char *name, uint32_t at, uint32_t step, uint32_t n, enum how how)
{
	struct kvm_regs r;
	uint64_t sum = 0, total = 0;
	uint32_t over = 0;

	if (ioctl(v->vcpu, KVM_GET_REGS, &r))
		die("KVM_GET_REGS");
	r.rsi = at;
	r.rdx = step;
	r.rbp = n;
	r.rdi = TIMES_AT;
	r.rbx = how;
	if (ioctl(v->vcpu, KVM_SET_REGS, &r))
		die("KVM_SET_REGS");
	run(v);
	for (uint32_t i = 0; i < n; i++) {
		struct times t = times_of(v, i);
		uint32_t gap = t.touch[1] - t.touch[0];

		total += gap;
		if (gap < v->exit_cycles / 2)
			continue;
		over++;
		sum += gap;
	}
	if (!name)
		return;
	printf("%s touched %u over %u sum %llu total %llu\n", name, n, over, (unsigned long long)sum,
	       (unsigned long long)total);
	if (v->stamps && fwrite(v->low + TIMES_AT, sizeof(struct times), n, v->stamps) != n)
		die("stamps");
	for (uint32_t i = 0; i < n && !strcmp(name, "exit"); i++) {
		struct times t = times_of(v, i);
		uint32_t gap = t.touch[1] - t.touch[0];

		if (!v->exit_cycles || gap < v->exit_cycles)
			v->exit_cycles = gap;
	}
}

static void dirty_log(const struct vm *v, void *bits)
{
	struct kvm_dirty_log log = { .slot = 1, .dirty_bitmap = bits };

	if (ioctl(v->fd, KVM_GET_DIRTY_LOG, &log))
		die("KVM_GET_DIRTY_LOG");
}

static void logged(struct vm *v, const char *name, uint32_t at, unsigned int rounds)
{
	void *bits = calloc(v->high_size / PAGE / 64 + 1, 8);

	slot(v, 1, KVM_MEM_LOG_DIRTY_PAGES);
	while (rounds--) {
		pass(v, name, at, PAGE, v->pages, WRITE);
		dirty_log(v, bits);
	}
	slot(v, 1, 0);
	free(bits);
}

static void cow(struct vm *v, uint32_t at)
{
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	pass(v, "cow", at, PAGE, v->pages, WRITE);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

struct filler {
	int fd;
	uint32_t pages;
};

static void *fill(void *arg)
{
	const struct filler *f = arg;
	const struct timespec rest = { .tv_nsec = 2000000 };
	struct uffd_msg m;

	prctl(PR_SET_NAME, "filler");
	for (uint32_t i = 0; i < f->pages; i++) {
		struct uffdio_zeropage z;

		if (read(f->fd, &m, sizeof(m)) != sizeof(m))
			die("read of userfaultfd");
		nanosleep(&rest, NULL);
		z = (struct uffdio_zeropage){ .range = { m.arg.pagefault.address & ~(uint64_t)(PAGE - 1), PAGE } };
		if (ioctl(f->fd, UFFDIO_ZEROPAGE, &z))
			die("UFFDIO_ZEROPAGE");
	}
	return NULL;
}

static void uffd(struct vm *v, uint32_t at, uint8_t *p)
{
	struct uffdio_register r = { .range = { (uintptr_t)p, (size_t)v->pages * PAGE },
				     .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	struct filler f = { .fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC), .pages = v->pages };
	pthread_t t;

	if (f.fd < 0 || ioctl(f.fd, UFFDIO_API, &api) || ioctl(f.fd, UFFDIO_REGISTER, &r))
		die("userfaultfd");
	if (pthread_create(&t, NULL, fill, &f))
		die("pthread_create");
	pass(v, "uffd", at, PAGE, v->pages, READ);
	pthread_join(t, NULL);
	close(f.fd);
}

/*
 * A page that was used lately is not swapped at the first request, which only clears its accessed
 * bit: that is `access`.
 */
static void taken(struct vm *v, const char *name, uint32_t at, uint8_t *p, int advice)
{
	for (int i = 0; i < (strcmp(name, "access") ? 3 : 1); i++)
		if (madvise(p, (size_t)v->pages * PAGE, advice))
			die(name);
	pass(v, name, at, PAGE, v->pages, WRITE);
}

static void hugetlb(struct vm *v, uint32_t at, uint8_t *p)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_FIXED;

	if (mmap(p, (size_t)v->pages * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) != p)
		die("mmap of huge pages");
	pass(v, "hugetlb", at, HUGE, v->pages / 512, WRITE);
}

static long number(const char *path)
{
	FILE *f = fopen(path, "r");
	long n = 0;

	if (!f || fscanf(f, "%ld", &n) != 1)
		die(path);
	fclose(f);
	return n;
}

static void ksm(struct vm *v, uint32_t at, uint8_t *p)
{
	const size_t size = (size_t)v->pages * PAGE;

	memset(p, 7, size);
	if (madvise(p, size, MADV_MERGEABLE))
		die("MADV_MERGEABLE");
	for (int i = 0; number("/sys/kernel/mm/ksm/pages_sharing") +
				number("/sys/kernel/mm/ksm/pages_shared") < (long)v->pages; i++) {
		if (i == 600)
			die("ksm does not merge");
		usleep(100000);
	}
	pass(v, "ksm", at, PAGE, v->pages, WRITE);
}

/* A line to a file that must be there. */
static void tell(const char *path, const char *line)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line))
		die(path);
	close(fd);
}

/* Ages the pages of all groups and nodes: each one's youngest generation. */
static void mglru(struct vm *v, uint32_t at)
{
	static const char path[] = "/sys/kernel/debug/lru_gen";
	unsigned int group = 0, node = 0, last = 0, age;
	char line[256], command[64] = "";
	FILE *f;

	tell("/sys/kernel/mm/lru_gen/enabled", "7");
	f = fopen(path, "re");
	if (!f)
		die(path);
	while (fgets(line, sizeof(line), f)) {
		bool head = strstr(line, "memcg") || strstr(line, "node");

		if (head && *command)
			tell(path, command);
		if (head)
			*command = '\0';
		if (sscanf(line, " memcg %u", &group) == 1 || sscanf(line, " node %u", &node) == 1)
			continue;
		if (sscanf(line, " %u %u", &last, &age) == 2)
			snprintf(command, sizeof(command), "+ %u %u %u 1 1", group, node, last);
	}
	if (*command)
		tell(path, command);
	fclose(f);
	pass(v, "mglru", at, PAGE, v->pages, WRITE);
}

#define DAMON "/sys/kernel/mm/damon/admin/kdamonds/"

/* printf of a number to a file of DAMON's. */
__attribute__((format(printf, 1, 3)))
static void damon_tell(const char *name, uint64_t n, ...)
{
	char path[160], line[32];
	va_list ap;

	va_start(ap, n);
	memcpy(path, DAMON, sizeof(DAMON));
	vsnprintf(path + sizeof(DAMON) - 1, sizeof(path) - sizeof(DAMON), name, ap);
	va_end(ap);
	snprintf(line, sizeof(line), "%llu", (unsigned long long)n);
	tell(path, line);
}

/* Each page is a region, so that each is looked at in each period. */
static void damon(struct vm *v, uint32_t at, const uint8_t *p)
{
	damon_tell("nr_kdamonds", 1);
	damon_tell("0/contexts/nr_contexts", 1);
	tell(DAMON "0/contexts/0/operations", "fvaddr");
	damon_tell("0/contexts/0/monitoring_attrs/intervals/sample_us", 20000);
	damon_tell("0/contexts/0/monitoring_attrs/intervals/aggr_us", 100000000);
	damon_tell("0/contexts/0/monitoring_attrs/nr_regions/max", v->pages * 2);
	damon_tell("0/contexts/0/targets/nr_targets", 1);
	damon_tell("0/contexts/0/targets/0/pid_target", (uint64_t)getpid());
	damon_tell("0/contexts/0/targets/0/regions/nr_regions", v->pages);
	for (uint32_t i = 0; i < v->pages; i++) {
		damon_tell("0/contexts/0/targets/0/regions/%u/start", (uintptr_t)p + (uint64_t)i * PAGE, i);
		damon_tell("0/contexts/0/targets/0/regions/%u/end", (uintptr_t)p + (uint64_t)(i + 1) * PAGE, i);
	}
	tell(DAMON "0/state", "on");
	sleep(1);
	tell(DAMON "0/state", "off");
	pass(v, "damon", at, PAGE, v->pages, WRITE);
	damon_tell("nr_kdamonds", 0);
}

static void mbind_move(struct vm *v, uint32_t at, uint8_t *p)
{
	const unsigned long nodes = 2; /* node 1 */

	if (syscall(SYS_mbind, p, (size_t)v->pages * PAGE, MPOL_BIND, &nodes, 8, MPOL_MF_MOVE | MPOL_MF_STRICT))
		die("mbind");
	pass(v, "mbind", at, PAGE, v->pages, WRITE);
}

static void nx(struct vm *v, uint32_t at, uint8_t *p)
{
	static const uint8_t back[] = { 0xff, 0xe0 };

	for (uint32_t i = 0; i < v->pages; i++)
		memcpy(p + (size_t)i * PAGE, back, sizeof(back));
	pass(v, "exec", at, HUGE, v->pages / 512, EXECUTE);
	sleep(3); /* the host's period is to be shorter */
	pass(v, "nx", at, HUGE, v->pages / 512, WRITE);
}

static void file(struct vm *v, const char *name, uint32_t at, uint8_t *p)
{
	const char *path = getenv("MEMVM_FILE");
	const size_t size = (size_t)v->pages * PAGE;
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || ftruncate(fd, (off_t)size))
		die("$MEMVM_FILE");
	if (mmap(p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != p)
		die("mmap of $MEMVM_FILE");
	memset(p, 1, size);
	if (!strcmp(name, "writeback"))
		pass(v, "dirty", at, PAGE, v->pages, WRITE);
	if (msync(p, size, MS_SYNC))
		die("msync");
	if (!strcmp(name, "file") && (madvise(p, size, MADV_DONTNEED) || madvise(p, size, MADV_RANDOM) ||
				      posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)))
		die("POSIX_FADV_DONTNEED");
	pass(v, name, at, PAGE, v->pages, strcmp(name, "file") ? WRITE : READ);
	close(fd);
}

static void phase(struct vm *v, const char *name, uint32_t offset)
{
	uint32_t at = HIGH_AT + offset, n = v->pages;
	uint8_t *p = v->high + offset;
	bool huge = !strcmp(name, "huge") || !strcmp(name, "split") || !strcmp(name, "nx");

	if (!strcmp(name, "mmio")) {
		pass(v, "mmio", NO_MEMORY, PAGE, n, WRITE);
	} else if (!strcmp(name, "hugetlb")) {
		hugetlb(v, at, p);
	} else if (!strcmp(name, "uffd")) {
		uffd(v, at, p);
	} else if (!strcmp(name, "read")) {
		memset(p, 1, (size_t)n * PAGE);
		pass(v, "read", at, PAGE, n, READ);
	} else if (!strcmp(name, "file") || !strcmp(name, "writeback")) {
		file(v, name, at, p);
	} else if (huge) {
		if (madvise(p, (size_t)n * PAGE, MADV_HUGEPAGE))
			die("MADV_HUGEPAGE");
		pass(v, "huge", at, HUGE, n / 512, WRITE);
		if (!strcmp(name, "split"))
			logged(v, "split", at, 1);
		else if (!strcmp(name, "nx"))
			nx(v, at, p);
	} else {
		pass(v, "touch", at, PAGE, n, WRITE);
		if (!strcmp(name, "cow"))
			cow(v, at);
		else if (!strcmp(name, "dirty"))
			logged(v, "dirty", at, 3);
		else if (!strcmp(name, "madvise"))
			taken(v, name, at, p, MADV_DONTNEED);
		else if (!strcmp(name, "access") || !strcmp(name, "swap") || !strcmp(name, "zram"))
			taken(v, name, at, p, MADV_PAGEOUT);
		else if (!strcmp(name, "ksm"))
			ksm(v, at, p);
		else if (!strcmp(name, "mglru"))
			mglru(v, at);
		else if (!strcmp(name, "damon"))
			damon(v, at, p);
		else if (!strcmp(name, "mbind"))
			mbind_move(v, at, p);
	}
	pass(v, "again", !strcmp(name, "mmio") ? HIGH_AT : at, PAGE, n, WRITE); /* nothing is in the way now */
}

static const struct option options[] = {
	{ "pages", required_argument, NULL, 'p' },
	{ "wait", no_argument, NULL, 'w' },
	{ "stamps", required_argument, NULL, 's' },
	{ NULL, 0, NULL, 0 },
};

int main(int argc, char **argv)
{
	struct vm v = { .pages = 512 };
	const char *stamps = NULL;
	bool wait = false;
	int c;

	while ((c = getopt_long(argc, argv, "p:ws:", options, NULL)) != -1) {
		if (c == 'p')
			v.pages = (uint32_t)strtoul(optarg, NULL, 0);
		else if (c == 'w')
			wait = true;
		else if (c == 's')
			stamps = optarg;
		else
			return 2;
	}
	if (!v.pages || v.pages > PAGES_MAX || v.pages % 512)
		return 2;
	v.stamps = stamps ? fopen(stamps, "wxe") : NULL;
	if (stamps && !v.stamps)
		die(stamps);
	v.high_size = (size_t)(argc - optind + 1) * PAGES_MAX * PAGE;
	vm_new(&v);
	setvbuf(stdout, NULL, _IOLBF, 0);
	prctl(PR_SET_NAME, "CPU 0/KVM");
	printf("pid %d vm-fd %d\n", (int)getpid(), v.fd);
	while (wait && (c = getchar()) != EOF && c != '\n')
		;
	run(&v);
	pass(&v, NULL, TIMES_AT, sizeof(struct times), v.pages, WRITE); /* what the times go to is touched by now */
	pass(&v, "exit", HIGH_AT, PAGE, v.pages, NOTHING);
	for (int i = optind; i < argc; i++)
		phase(&v, argv[i], (uint32_t)(i - optind) * PAGES_MAX * PAGE);
	if (v.stamps && fclose(v.stamps))
		die(stamps);
	return 0;
}
