/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sdt_spec.h: "BINARY[:PROVIDER[:MARKER]][,argN:TYPE]...[/FILTER/]", for `record --sdt` and `qemu
 * sdt`.
 */
#pragma once

#include "kvmft/sdt.h"

struct sdt_spec {
	char *path;	      /* of the file, as it was found */
	int fd;		      /* open for reading */
	uint64_t dev, ino;    /* if two have the same, they are the same file */
	struct sdt_want want; /* points into text */
	char *text;
};

/* Opens the file; a name without a slash is looked for here, then in PATH. 0 or -errno. */
int sdt_spec_parse(const char *arg, struct sdt_spec *s, struct kvmft_err *err) __must_check;
void sdt_spec_free(struct sdt_spec *s);
/*
 * After a plan was made for these wants: -ENOENT if one matches no marker, naming the existing
 * ones.
 */
int sdt_spec_check(const struct sdt_spec *s, const struct sdt_file *f,
		   struct kvmft_err *err) __must_check;

/*
 * What is known about the arguments of QEMU's markers: which are strings, which pointers. They are
 * declared in trace-events-all, beside the binary or where QEMU is installed.
 */
struct sdt_hints {
	struct qevents *events; /* NULL: no QEMU, or no such file */
	struct sdt_want
		*want; /* n hints, followed by room for as many wants as were requested */
	size_t n;
	struct sbuf answer; /* of sdt_hints_ask(): what they point to */
};

/* 0, even if nothing is known; -ENOMEM. To be freed after the plan was made. */
int sdt_hints_find(const struct sdt_spec *s, const struct sdt_file *f, size_t room,
		   struct sdt_hints *h) __must_check;
/*
 * Both sdt_read() of s and this, by a confined process, for one with rights: f and h are zero, and
 * to be freed, also after a failure.
 */
int sdt_hints_ask(const struct sdt_spec *s, size_t room, struct sdt_file *f, struct sdt_hints *h,
		  struct kvmft_err *err) __must_check;
void sdt_hints_free(struct sdt_hints *h);
