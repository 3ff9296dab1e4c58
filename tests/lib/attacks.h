/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * attacks.h: what a hijacked process would try, for tests that do so inside a sandbox of kvmft's.
 *
 * The targets are a file in the current directory, victim, a terminal and a process; at the end the state of the
 * three is printed. Each attempt is made by a process of its own, with arguments that harm nothing else.
 */
#ifndef TESTS_LIB_ATTACKS_H
#define TESTS_LIB_ATTACKS_H

#include <stdbool.h>
#include <sys/types.h>

#define ATTACK_ARG(x) ((unsigned long)(x))

struct attack {
	const char *name;
	long nr; /* of the system call */
	unsigned long a[6];
};

/* Makes the attempt: -1 with errno set when it failed. */
typedef long (*attack_call)(const struct attack *a);

long attack_by_number(const struct attack *a);
/* After enter(), NULL = no sandbox. 0: done; > 0: errno; -1: killed by the filter; -2: died of something else. */
int attack_attempt(const struct attack *a, attack_call call, void (*enter)(void));
const char *attack_word(int ret); /* "done", "killed", "died", or the name of the error */

void attack_set_up(void);
void attack_victims(void); /* as they are before an attack */
pid_t attack_prey(void);
/* Every system call of the table, a line for each; renew: the victims, before each. */
void attack_all(void (*enter)(void), bool renew);
void attack_tell(void);

/* Ends the program when something that is no attack fails. */
void attack_must(bool good, const char *what);

#endif
