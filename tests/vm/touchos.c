/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * touchos: a guest for QEMU's -kernel that only writes to its memory, page by page, and times each write by TSC.
 *
 *   cc -m32 -O1 -ffreestanding -fno-pic -fno-stack-protector -nostdlib -static -Wl,-Ttext=0x200000,--build-id=none
 *
 * Letters on its serial port are commands: `w` writes pass after pass, `o` one pass, `p` waits for
 * the next one, `b` gives all its pages to the balloon, `f` takes them back. What it found is at
 * LOG_AT, for the monitor's pmemsave. An entry is a stretch that took longer than half of the
 * shortest exit. A write that did is followed by an exit that does next to nothing, between two
 * accesses to what is there: that shows how long a world switch takes at that moment.
 */
#include <stdint.h>

#define PAGE	 4096u
#define PAGES	 4096u
#define BASE	 0x4000000u /* the pages: 64 to 80 MiB */
#define LOG_AT	 0x1000000u
#define LOG_MAX	 200000u
#define NO_WRITE 0x80000000u /* in `page`: the stretch after that page's write */
#define SWITCH	 0x40000000u /* ... the exit, after one that was long */
#define SPIN	 600u
#define COM1	 0x3f8

struct entry {
	uint32_t page, cycles;
	uint64_t begin;
};

struct log {
	uint32_t magic, n, dropped, limit; /* limit: half of the shortest exit */
	uint32_t passes, state;		   /* state: the last command that is done */
	uint32_t exits, pad;
	struct entry e[];
};

/* Without virtio: what PCI's numbers are, and where the queues of the balloon lie. */
#define BALLOON	    0x10021af4u
#define QUEUE_AT(q) (0x1800000u + (q) * 0x10000u)
#define PFNS_AT	    0x1900000u

__asm__(".pushsection .text.start, \"ax\"\n"
	".align 4\n"
	".long 0x1badb002, 0, -0x1badb002\n"
	".globl _start\n"
	"_start:\n"
	"	mov $0x300000, %esp\n"
	"	call main\n"
	".popsection\n");

static void outb(uint16_t port, uint8_t v)
{
	__asm__ volatile("outb %0, %1" : : "a"(v), "Nd"(port));
}

static void outw(uint16_t port, uint16_t v)
{
	__asm__ volatile("outw %0, %1" : : "a"(v), "Nd"(port));
}

static void outl(uint16_t port, uint32_t v)
{
	__asm__ volatile("outl %0, %1" : : "a"(v), "Nd"(port));
}

static uint8_t inb(uint16_t port)
{
	uint8_t v;

	__asm__ volatile("inb %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

static uint16_t inw(uint16_t port)
{
	uint16_t v;

	__asm__ volatile("inw %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

static uint32_t inl(uint16_t port)
{
	uint32_t v;

	__asm__ volatile("inl %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

static uint64_t tsc(void)
{
	uint64_t v;

	__asm__ volatile("lfence; rdtsc; lfence" : "=A"(v) : : "memory");
	return v;
}

static void spin(uint32_t n)
{
	while (n--)
		__asm__ volatile("" : : : "memory");
}

/* ---- the balloon, a virtio device of the old kind ---- */

static uint16_t io, queue_size[2], sent[2];

static uint32_t pci(uint32_t dev, uint32_t reg)
{
	outl(0xcf8, 0x80000000u | dev << 11 | reg);
	return inl(0xcfc);
}

static void balloon_find(void)
{
	uint32_t dev;

	for (dev = 0; dev < 32 && pci(dev, 0) != BALLOON; dev++)
		;
	if (dev == 32)
		return;
	io = pci(dev, 0x10) & ~3u;
	outl(0xcf8, 0x80000000u | dev << 11 | 4);
	outw(0xcfc, 5); /* its ports, and it may read memory */
	outb(io + 18, 0);
	outb(io + 18, 3);
	outl(io + 4, 0);
	for (uint16_t q = 0; q < 2; q++) {
		outw(io + 14, q);
		queue_size[q] = inw(io + 12);
		outl(io + 8, QUEUE_AT(q) / PAGE);
	}
	outb(io + 18, 7);
}

static void balloon(uint16_t q)
{
	volatile uint32_t *desc = (void *)QUEUE_AT(q), *pfn = (void *)PFNS_AT;
	volatile uint16_t *avail = (void *)(QUEUE_AT(q) + queue_size[q] * 16u);
	volatile uint16_t *used =
		(void *)((QUEUE_AT(q) + queue_size[q] * 16u + 6u + queue_size[q] * 2u + PAGE - 1) & ~(PAGE - 1));

	for (uint32_t at = 0; io && at < PAGES; at += 256) {
		for (uint32_t i = 0; i < 256; i++)
			pfn[i] = BASE / PAGE + at + i;
		desc[0] = PFNS_AT;
		desc[1] = 0;
		desc[2] = 256 * 4;
		desc[3] = 0;
		avail[2 + sent[q] % queue_size[q]] = 0;
		avail[1] = ++sent[q];
		__asm__ volatile("mfence" : : : "memory");
		outw(io + 16, q);
		while (used[1] != sent[q])
			spin(1000);
	}
}

/* ---- writing ---- */

static struct log *const found = (void *)LOG_AT;

/* Returns whether it was long. */
static int note(uint32_t page, uint64_t begin, uint64_t end)
{
	if (end - begin < found->limit)
		return 0;
	if (found->n == LOG_MAX) {
		found->dropped++;
		return 1;
	}
	found->e[found->n] = (struct entry){ page, (uint32_t)(end - begin), begin };
	found->n++;
	return 1;
}

static uint64_t last; /* the end of the last stretch */

/*
 * A stretch begins where the last one ended, apart from short ones; so a move is always in one of
 * them.
 */
static uint64_t begin(uint32_t i)
{
	uint64_t t;

	while (t = tsc(), note(i | NO_WRITE, last, t))
		last = t;
	return t;
}

static int end(uint32_t i, uint64_t from)
{
	last = tsc();
	return note(i, from, last);
}

static void switch_worlds(uint32_t i)
{
	uint64_t t = begin(i);

	(void)*(volatile uint32_t *)found;
	__asm__ volatile("invd" : : : "memory");
	(void)*(volatile uint32_t *)(BASE + i * PAGE);
	end(i | SWITCH, t);
}

static void pass(void)
{
	uint64_t t;

	for (uint32_t i = 0; i < PAGES; i++) {
		t = begin(i);
		*(volatile uint32_t *)(BASE + i * PAGE) = i;
		if (end(i, t))
			switch_worlds(i);
		t = begin(i);
		spin(SPIN);
		end(i | NO_WRITE, t);
	}
	found->passes++;
}

static void calibrate(void)
{
	uint64_t a, shortest = ~0ull;

	for (uint32_t i = 0; i < 512; i++) {
		a = tsc();
		__asm__ volatile("invd" : : : "memory");
		a = tsc() - a;
		if (a < shortest)
			shortest = a;
	}
	found->limit = (uint32_t)(shortest / 2);
	found->exits = 512;
}

void main(void)
{
	uint8_t c, writing = 0;

	for (uint32_t i = 0; i < sizeof(*found) + LOG_MAX * sizeof(struct entry); i += PAGE)
		*(volatile uint32_t *)(LOG_AT + i) = 0;
	outb(COM1 + 1, 0);
	outb(0x21, 0xff); /* no interrupt comes, but KVM is to see a guest that would take one */
	outb(0xa1, 0xff);
	__asm__ volatile("sti");
	calibrate();
	balloon_find();
	found->magic = 0x746f7563;
	for (;;) {
		if (writing) {
			pass();
		} else {
			spin(2000000);
			last = tsc();
		}
		if (!(inb(COM1 + 5) & 1))
			continue;
		c = inb(COM1);
		if (c == 'o')
			pass();
		else if (c == 'b' || c == 'f')
			balloon(c == 'f');
		writing = c == 'w';
		found->state = c;
	}
}
