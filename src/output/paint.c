/* SPDX-License-Identifier: GPL-2.0-or-later */
/* paint.c: colours of a time line, by side and by kind of event. */
#include "kvmft/output.h"
#include "kvmft/screen.h"

#define CYAN   "36"
#define GREEN  "32"
#define YELLOW "33"
#define BLUE   "34"
#define PURPLE "35"
#define BOLD   "1"
#define ALARM  "1;31"

static const char *const sides[] = { CYAN, GREEN, YELLOW, PURPLE, BLUE }; /* the host first */

/* By the beginning of the line after its time; the first that fits. */
static const struct kind {
	const char *begins, *sgr;
} kinds[] = {
	{ "kvm:kvm_exit", BOLD },   { "kvm:kvm_entry", BOLD },	   { "LOST", ALARM },
	{ "DAMAGED", ALARM },	    { "EPOCH", PURPLE },	   { "kvm:kvm_inj_virq", YELLOW },
	{ "kvm:kvm_apic", YELLOW }, { "kvm:kvm_set_irq", YELLOW }, { "kvm:kvm_msi_set", YELLOW },
	{ "irq", YELLOW },	    { "timer:", YELLOW },	   { "kvm:kvm_hv_timer", YELLOW },
	{ "sched:", BLUE },	    { "block:", GREEN },	   { "qemu:", PURPLE },
};

void out_paint(struct sbuf *b, size_t from, size_t label, size_t head, size_t side)
{
	const struct kind *k = kinds, *end = kinds + ARRAY_SIZE(kinds);
	size_t at = from + head, len;

	if (at >= b->len || !sbuf_room(b, 1))
		return;
	b->s[b->len] = '\0';
	while (k < end && strncmp(b->s + at, k->begins, strlen(k->begins)) != 0)
		k++;
	len = strcspn(b->s + at, " \n");
	/* From the end, because inserting the first would move the second. */
	if (k < end)
		screen_paint(b, at, at + len, k->sgr);
	screen_paint(b, from, from + label,
		     sides[side ? 1 + (side - 1) % (ARRAY_SIZE(sides) - 1) : 0]);
}
