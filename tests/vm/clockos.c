/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clockos: a guest for QEMU's -kernel that does nothing but read its kvmclock.
 *
 *   cc -m32 -O1 -ffreestanding -fno-pic -fno-stack-protector -nostdlib -static -Wl,-Ttext=0x200000,--build-id=none
 *
 * It exits at each turn. What it found is at LOG_AT, for the monitor's pmemsave: how far its kvmclock ever went back
 * from one reading to the next, and how far forwards, in ns, beyond what its TSC says.
 */
#include <stdint.h>

#define LOG_AT	  0x1000000u
#define MSR_CLOCK 0x4b564d01u

struct pvclock {
	uint32_t version, pad;
	uint64_t tsc, ns;
	uint32_t mul;
	int8_t shift;
	uint8_t flags, pad2[2];
};

struct found {
	uint32_t magic, pad;
	uint64_t turns, ns, back, forwards;
};

__asm__(".pushsection .text.start, \"ax\"\n"
	".align 4\n"
	".long 0x1badb002, 0, -0x1badb002\n"
	".globl _start\n"
	"_start:\n"
	"	mov $0x300000, %esp\n"
	"	call main\n"
	".popsection\n");

static volatile struct pvclock record __attribute__((aligned(64)));

static uint64_t tsc(void)
{
	uint64_t v;

	__asm__ volatile("lfence; rdtsc; lfence" : "=A"(v) : : "memory");
	return v;
}

static uint64_t scale(uint64_t cycles)
{
	cycles = record.shift < 0 ? cycles >> -record.shift : cycles << record.shift;
	return (uint64_t)(uint32_t)(cycles >> 32) * record.mul +
	       (((uint64_t)(uint32_t)cycles * record.mul) >> 32);
}

/* Its time, and that of its TSC alone. */
static uint64_t now(uint64_t *alone)
{
	uint32_t version;
	uint64_t ns;

	do {
		version = record.version;
		*alone = tsc();
		ns = record.ns + scale(*alone - record.tsc);
		*alone = scale(*alone);
	} while (version & 1 || version != record.version);
	return ns;
}

void main(void)
{
	volatile struct found *found = (void *)LOG_AT;
	uint64_t was, is, alone_was, alone, far;

	__asm__ volatile("wrmsr" : : "c"(MSR_CLOCK), "a"((uint32_t)&record + 1), "d"(0) : "memory");
	found->back = found->forwards = 0;
	was = now(&alone_was);
	found->magic = 0x6b6c6f63;
	for (;; was = is, alone_was = alone) {
		is = now(&alone);
		far = is - was - (alone - alone_was);
		if (is < was && was - is > found->back)
			found->back = was - is;
		else if (is >= was && (int64_t)far > (int64_t)found->forwards)
			found->forwards = far;
		found->ns = is;
		found->turns++;
		for (uint64_t until = tsc() + 2000000; tsc() < until;)
			;
		__asm__ volatile("outb %b0, $0x80" : : "a"(0));
	}
}
