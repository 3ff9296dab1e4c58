/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sandbox.c: tries what a hijacked reader could do, inside the sandbox of readers.
 *
 *   sandbox free            each attack without a sandbox: "NAME done" or "NAME ERROR"
 *   sandbox denied          each in the sandbox: "NAME done", "NAME ERROR", "NAME killed"
 *   sandbox numbers         every system call number there is: "NUMBER allowed" or "NUMBER denied"
 *   sandbox x32 | i386      the same by the other two ways into an x86 kernel
 *   sandbox way             whether there is the latter: in some virtual machines int 0x80 is a fault
 *   sandbox listed          the numbers on the list, "NUMBER allowed"
 *   sandbox entered         enters, and prints the layers
 *
 * The attacks are those of tests/lib/attacks.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvmft/sandbox.h"
#include "lib/attacks.h"
#include "util/sandbox_calls.h"

#define NUMBERS 512
#define X32	0x40000000
#define ALL	ATTACK_ARG(-1)

static void enter(void)
{
	struct kvmft_err err = { .text = "" };
	unsigned int layers;

	if (!sandbox_enter_reader(&layers, &err))
		return;
	fprintf(stderr, "sandbox: %s\n", err.text);
	_exit(125);
}

#ifdef __x86_64__
/* The way in of 32-bit programs, open to all: with its own numbers. */
static long by_i386(const struct attack *a)
{
	long ret;

	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "a"(a->nr), "b"(a->a[0]), "c"(a->a[1]), "d"(a->a[2]), "S"(a->a[3]), "D"(a->a[4])
			 : "memory", "r8", "r9", "r10", "r11");
	if (ret >= 0)
		return ret;
	errno = (int)-ret;
	return -1;
}
#endif

static void all_attacks(bool sandboxed)
{
	attack_set_up();
	attack_all(sandboxed ? enter : NULL, !sandboxed);
	attack_tell();
}

/* ---- numbers ---- */

static void all_numbers(long first, attack_call call)
{
	for (long nr = 0; nr < NUMBERS; nr++) {
		const struct attack a = { NULL, first + nr, { ALL, ALL, ALL, ALL, ALL, ALL } };

		printf("%ld %s\n", nr, attack_attempt(&a, call, enter) == -1 ? "denied" : "allowed");
	}
}

/* Tries it with any arguments; where there are rules about them, -1 keeps to these. */
static void all_listed(void)
{
	for (const struct sandbox_call *c = sandbox_calls; c->nr != SANDBOX_CALLS_END; c++)
		if (c->rule == SANDBOX_ANY && c->who >> SANDBOX_CALLS_READER & 1)
			printf("%d allowed\n", c->nr);
}

static void layers(void)
{
	struct kvmft_err err = { .text = "" };
	unsigned int in = 0;
	int ret = sandbox_enter_reader(&in, &err);

	printf("%d %x %s\n", ret, in, err.text);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "free") || !strcmp(what, "denied"))
		all_attacks(*what == 'd');
	else if (!strcmp(what, "numbers"))
		all_numbers(0, attack_by_number);
	else if (!strcmp(what, "listed"))
		all_listed();
	else if (!strcmp(what, "entered"))
		layers();
#ifdef __x86_64__
	else if (!strcmp(what, "x32"))
		all_numbers(X32, attack_by_number);
	else if (!strcmp(what, "way"))
		return by_i386(&(struct attack){ NULL, 20, { 0 } }) != getpid();
	else if (!strcmp(what, "i386"))
		all_numbers(0, by_i386);
#endif
	else
		return 2;
	return 0;
}
