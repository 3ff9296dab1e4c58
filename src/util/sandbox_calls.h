/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sandbox_calls.h: lists of system calls, private to the sandbox. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#if defined(__SANITIZE_ADDRESS__)
#define KVMFT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVMFT_SANITIZED 1
#endif
#endif

/* What is checked of the arguments. */
enum sandbox_rule_id {
	SANDBOX_ANY, /* nothing */
	SANDBOX_OPENAT_READ,
	SANDBOX_OPEN_READ,
	SANDBOX_OPENAT_WRITE,
	SANDBOX_OPEN_WRITE,
	SANDBOX_MODE_1,
	SANDBOX_MODE_2,
	SANDBOX_NO_EXEC,
	SANDBOX_FCNTL,
	SANDBOX_FCNTL_PIPE,
	SANDBOX_IOCTL_TTY,
	SANDBOX_PRLIMIT_LOOK,
	SANDBOX_OWN_PID,
	SANDBOX_CHILD_PID,
	SANDBOX_FORK,
	SANDBOX_THREAD,
	SANDBOX_RULES,
};

#define SANDBOX_HIGH	 0x80 /* the upper half of an argument */
#define SANDBOX_ZERO_MAX 3
#define SANDBOX_ONE_OF	 8

enum sandbox_pid { SANDBOX_PID_ANY, SANDBOX_PID_OWN, SANDBOX_PID_CHILD };

struct sandbox_rule {
	/* these bits of these arguments are 0 (up to the first without bits), */
	struct {
		uint8_t arg;
		uint32_t bits;
	} zero[SANDBOX_ZERO_MAX];
	/* or argument `arg` is one of nvalue values, or this process; also has one of `required` */
	uint8_t arg, nvalue;
	uint32_t one_of[SANDBOX_ONE_OF];
	uint32_t required;
	enum sandbox_pid pid;
};

extern const struct sandbox_rule sandbox_rules[SANDBOX_RULES];

/* In any order, none twice for the same `who`, up to SANDBOX_CALLS_END. */
struct sandbox_call {
	uint16_t nr;
	uint8_t rule, who; /* who: bits by enum sandbox_calls */
};

#define SANDBOX_CALLS_END UINT16_MAX

extern const struct sandbox_call sandbox_calls[];

/*
 * Denies all but the calls of `who` in the list, for this thread and what it starts, after
 * no_new_privs. child: the process that may be sent signals, 0 = none. 0; -ENOSYS: this kernel has
 * no filters, or kvmft no list; or -errno.
 */
int sandbox_seccomp(const struct sandbox_call *list, unsigned int who, pid_t child);
