/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sdtprog.c: a program with markers of sys/sdt.h, and one that writes to trace_marker as QEMU does.
 *
 *   sdtprog N          N rounds of all markers; says what it fired and the TSC before and after each
 *   sdtprog --wait     says whenever its guard's counter changes, until SIGTERM or 120 s
 *   sdtprog --marker N [MS]   N lines to trace_marker, MS between; says the TSC before and after each
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <x86intrin.h>

/* Once this is said every marker has a guard, of this name. */
#define _SDT_HAS_SEMAPHORES 1
#define GUARD(name) unsigned short demo_##name##_semaphore __attribute__((section(".probes")))
volatile GUARD(guarded);
volatile GUARD(waiting);
GUARD(numbers);
GUARD(name);
GUARD(twice);
unsigned short qemu_visit_file_semaphore __attribute__((section(".probes")));

#include <sys/sdt.h>

static void say(const char *what, uint64_t before, uint64_t after)
{
	printf("%s %llu %llu\n", what, (unsigned long long)before, (unsigned long long)after);
}

static inline __attribute__((always_inline)) void twice(uint32_t v)
{
	STAP_PROBE1(demo, twice, v);
}

static int twice_place;

/* volatile: each argument is where the compiler likes it, not a constant. */
static void round_of(uint32_t i)
{
	volatile int8_t s8 = -3;
	volatile uint8_t u8 = 200;
	volatile int16_t s16 = -300;
	volatile uint16_t u16 = 60000;
	volatile int32_t s32 = -70000;
	volatile uint32_t u32 = 4000000000u;
	volatile int64_t s64 = -5000000000ll;
	volatile uint64_t u64 = 0x1122334455667788ull;
	const char *volatile text = i & 1 ? "odd one" : "even";
	const char *name = text;
	uint64_t t = __rdtsc();

	STAP_PROBE8(demo, numbers, (int8_t)s8, (uint8_t)u8, (int16_t)s16, (uint16_t)u16, (int32_t)s32,
		    (uint32_t)u32, (int64_t)s64, (uint64_t)u64);
	say("numbers", t, __rdtsc());
	STAP_PROBE3(demo, name, name, i, 42);
	if (demo_guarded_semaphore)
		STAP_PROBE1(demo, guarded, i);
	STAP_PROBE3(qemu, visit_file, &twice_place, name, (int)i - 2);
	twice(i);
	if (u8)
		twice(i + 1000);
}

static int wait_and_tell(void)
{
	int last = -1;

	for (int i = 0; i < 12000; i++) {
		int now = demo_waiting_semaphore;

		if (now != last) {
			printf("guard %d\n", now);
			fflush(stdout);
		}
		last = now;
		if (now)
			STAP_PROBE1(demo, waiting, i);
		usleep(10000);
	}
	return 0;
}

/* QEMU's back end ftrace: tracing_on first, then one write for each event. */
static int mark(const char *tracefs, int n, unsigned int ms)
{
	char path[256], line[512];
	int fd;

	snprintf(path, sizeof(path), "%s/tracing_on", tracefs);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "1", 1) != 1)
		perror(path);
	close(fd);
	snprintf(path, sizeof(path), "%s/trace_marker", tracefs);
	fd = open(path, O_WRONLY);
	if (fd < 0) {
		perror(path);
		return 1;
	}
	for (int i = 0; i < n; i++) {
		int len = snprintf(line, sizeof(line), "virtio_notify vdev 0x%x vq %d\n", (int)getpid(), i);
		uint64_t t = __rdtsc();
		ssize_t got = write(fd, line, (size_t)len);

		say(got == len ? "marker" : "refused", t, __rdtsc());
		fflush(stdout);
		usleep(ms * 1000);
	}
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	const char *tracefs = getenv("TRACEFS");

	printf("pid %d\n", (int)getpid());
	if (argc > 1 && !strcmp(argv[1], "--wait"))
		return wait_and_tell();
	if (argc > 2 && !strcmp(argv[1], "--marker"))
		return mark(tracefs ? tracefs : "/sys/kernel/tracing", atoi(argv[2]),
			    argc > 3 ? (unsigned int)atoi(argv[3]) : 0);
	printf("guard %d\n", demo_guarded_semaphore);
	for (uint32_t i = 0; argc > 1 && i < (uint32_t)atoi(argv[1]); i++)
		round_of(i);
	return 0;
}
