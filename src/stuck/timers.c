/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * timers.c: a guest that is halted is woken by its timer, if it has set one; KVM keeps that as an
 * hrtimer of the host, and /proc/timer_list has all of those, by what is called when they expire.
 */
#include "room.h"

static const char *const functions[] = {
	"apic_timer_fn",       /* x86: of a local APIC, */
	"pit_timer_fn",	       /* ... of the PIT in KVM, */
	"stimer_timer_callback", /* ... and what Hyper-V and Xen offer */
	"xen_timer_callback",
	"kvm_bg_timer_expire", /* arm64 */
	"kvm_hrtimer_expire",
};

/* " #0: <0000000012345678>, apic_timer_fn, S:01", with "[kvm]" behind the name in some kernels */
static bool is_guests(const char *line)
{
	const char *name = strstr(line, ">, ");

	for (size_t i = 0; name && i < ARRAY_SIZE(functions); i++)
		if (str_starts(name + 3, functions[i]))
			return true;
	return false;
}

void stuck_timers_read(struct stuck_timers *t)
{
	FILE *f = fopen("/proc/timer_list", "re");
	bool ours = false;
	char line[256];

	*t = (struct stuck_timers){ .known = f != NULL };
	while (f && fgets(line, sizeof(line), f)) {
		const char *in = ours ? strstr(line, "[in ") : NULL;
		long long ns = in ? strtoll(in + 4, NULL, 10) : 0;

		ours = is_guests(line);
		if (!in)
			continue;
		t->next_ns = MIN(t->n ? t->next_ns : UINT64_MAX, (uint64_t)MAX(ns, 0LL));
		t->n++;
	}
	if (f)
		fclose(f);
}
