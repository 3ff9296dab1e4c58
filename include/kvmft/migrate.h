/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * migrate.h: a VM that moved to another host while it was recorded. The TSCs of two hosts are
 * unrelated, but the guest's continues where it was: KVM on the new host is given the value that it
 * had on the old one. So a host TSC of the new host has a place on the old one's scale: the value
 * that that would have reached by then, as the guest saw it. How long the guest stood still in
 * between is not part of it, and no guest sees it.
 */
#pragma once

#include "kvmft/hostmap.h"

/* One more host, after that of the host map. */
struct migrate {
	const struct hostmap *map; /* its own one */
	struct tsc_map own, line;  /* a guest TSC, from its host TSC and from the time line's */
	uint64_t arrival;	   /* host TSC, its own, of the VM's first entry there ... */
	uint64_t from;		   /* ... and that on the time line */
	size_t *vm;		   /* its VMs, as numbers in the first host's map */
};

/*
 * Links the host of `map` to the first one's, m, by VM number vm of m, which has the same UUID
 * there, or the same name: its other VMs become VMs of m, and the epochs of this one continue with
 * those of `map`. To be called in the order in which the VM moved. Both maps are borrowed; to be
 * freed with migrate_free(), also after an error. 0, or -errno with err.
 */
int migrate_new(struct hostmap *m, size_t vm, const struct hostmap *map, struct migrate **out,
		struct kvmft_err *err) __must_check;
void migrate_free(struct migrate *g);

/* A host TSC of that host on the time line; false if it has no place. */
bool migrate_to_line(const struct migrate *g, uint64_t host, uint64_t *line);
/* And back. */
bool migrate_from_line(const struct migrate *g, uint64_t line, uint64_t *host);
