/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * synth.c: a synthetic event of our own. The list of them is shared by all instances and all
 * users, so the name says whose it is, and kreset_sweep() finds it when we are killed.
 */
#include "priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char synth_file[] = "synthetic_events";

int ksynth_add(struct ktracefs *t, const char *fields, char *name, size_t size,
	       struct kvmft_err *err)
{
	struct sbuf line = { 0 };
	struct kowner self;
	int got;

	if (!kfile_exists(t->dirfd, synth_file))
		return err_lack(err, ENOENT, "this kernel has no synthetic events "
					     "(CONFIG_SYNTH_EVENTS)");
	got = kowner_self(&self);
	if (!got)
		got = kowner_format(&self, '_', name, size);
	if (got)
		return err_set(err, -got, "cannot name a synthetic event: %s", strerror(-got));
	sbuf_addf(&line, "%s %s", name, fields);
	got = line.error ? line.error : knob_write(NULL, t->dirfd, synth_file, line.s, NULL);
	sbuf_free(&line);
	if (got)
		return err_set(err, -got, "cannot make synthetic event %s: %s", name,
			       strerror(-got));
	return 0;
}

int ksynth_remove(struct ktracefs *t, const char *name)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "!%s", name);

	if (n < 0 || (size_t)n >= sizeof(line))
		return -ENAMETOOLONG;
	return knob_write(NULL, t->dirfd, synth_file, line, NULL);
}
