/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest_syms.h: names for the addresses of guests' kernels, by options and by the guests' captures.
 */
#pragma once

#include "kvmft/ksyms.h"
#include "kvmft/pairing.h"

struct guest_syms_opts {
	struct str_list kallsyms, vmlinux, kaslr, modules;
};

/* A guest's capture, and its VM. */
struct guest_syms_of {
	size_t vm;
	struct capture *cap;
	size_t damage; /* how much of it has been reported */
};

struct guest_syms {
	struct ksyms **k;
	size_t n, cap;
	struct guest_syms_of *of;
	size_t nof;
	bool owned; /* of operands: it closes them */
};

/* The name of one that was given; NULL: none was. */
const char *guest_syms_option(const struct guest_syms_opts *o);
/*
 * Sets hostmap_vm.syms of the VMs with symbols, for captures that were paired; they live as long
 * as g. What the user gives takes precedence over captures. VMs with guests of their own are
 * noted, unless note is NULL.
 */
int guest_syms_of_pairing(struct guest_syms *g, const struct guest_syms_opts *o, struct pairing *p,
			  note_fn *note, struct kvmft_err *err) __must_check;
/* The same of a host's capture without guests, and operands GUEST[=SEL]. */
int guest_syms_of_operands(struct guest_syms *g, const struct guest_syms_opts *o,
			   struct hostmap *m, char **operand, size_t n, note_fn *note,
			   struct kvmft_err *err) __must_check;
/*
 * Damage of the guests' captures that was found since they were opened, or since the last call;
 * true if there is none. It is reported to note, unless that is NULL.
 */
bool guest_syms_whole(struct guest_syms *g, note_fn *note);
/* ksyms_read(), where kallsyms may be a capture. */
int guest_syms_read(struct ksyms *k, const struct ksyms_files *f,
		    struct kvmft_err *err) __must_check;
void guest_syms_free(struct guest_syms *g);
