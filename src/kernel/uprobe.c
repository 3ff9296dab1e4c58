/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * uprobe.c: probes in programs and libraries, in a group of our own, as kprobe.c has them for the
 * kernel. What a kernel is able to stands in the help text that it shows as `README`.
 */
#include "priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char uprobe_file[] = "uprobe_events";

static unsigned int uprobe_abilities(const struct ktracefs *t)
{
	static const struct {
		const char *word;
		unsigned int can;
	} list[] = {
		{ "ref_ctr_offset", KUPROBE_GUARD },
		{ "Create/append/remove/show the userspace", KUPROBE_APPEND },
		{ "\\imm-value", KUPROBE_CONSTANT },
	};
	_cleanup_free_ char *text = NULL;
	unsigned int can = 0;

	if (ktracefs_read(t, "README", KFILE_MAX, &text) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (strstr(text, list[i].word))
			can |= list[i].can;
	return can;
}

int uprobes_open(struct ktracefs *t, struct kprobes **out, unsigned int *can, struct kvmft_err *err)
{
	char mode[32];

	*out = NULL;
	*can = 0;
	if (!ktracefs_has(t, uprobe_file)) {
		if (kernel_lockdown(mode, sizeof(mode)) && !ktracefs_has(t, "trace_clock"))
			return err_lack(err, EPERM,
					"no uprobe events: the kernel is locked down (%s)", mode);
		return err_lack(err, ENOTSUP, "this kernel has no uprobe events "
				"(CONFIG_UPROBE_EVENTS): markers of programs cannot be recorded");
	}
	*can = uprobe_abilities(t);
	return kprobes_new(t, uprobe_file, out, err);
}

static int refused(const struct kuprobe *u, const char *line, int got, struct kvmft_err *err)
{
	char mode[32];

	if (got == -EPERM && kernel_lockdown(mode, sizeof(mode)))
		return err_lack(err, EPERM, "%s: no uprobes: the kernel is locked down (%s)",
				u->path, mode);
	(void)err_set(err, -got, "%s: the kernel refuses a probe at offset 0x%" PRIx64 ": %s",
		      u->path, u->offset, strerror(-got));
	kprobe_error_words(err, line);
	return got;
}

int uprobe_add(struct kprobes *p, const struct kuprobe *u, struct kvmft_err *err)
{
	struct sbuf line = { 0 };
	char undo[160];
	int got;

	if (!kprobe_name_ok(u->name) || (u->args && strchr(u->args, '\n')))
		return err_set(err, EINVAL, "%s: not a probe name, or bad arguments", u->name);
	snprintf(undo, sizeof(undo), "-:%s/%s", p->group, u->name);
	/* A path may have blanks, and may lead elsewhere by now. */
	sbuf_addf(&line, "p:%s/%s /proc/self/fd/%d:0x%" PRIx64, p->group, u->name, u->fd,
		  u->offset);
	if (u->guard)
		sbuf_addf(&line, "(0x%" PRIx64 ")", u->guard);
	if (u->args && *u->args)
		sbuf_addf(&line, " %s", u->args);
	if (line.error)
		got = err_set(err, ENOMEM, "out of memory");
	else if (line.len > KPROBE_LINE_MAX)
		got = err_set(err, E2BIG, "%s: %s has too many arguments for one probe", u->path,
			      u->name);
	else {
		got = knob_write(u->again ? NULL : &p->journal, p->t->dirfd, p->file, line.s,
				 u->again ? NULL : undo);
		if (got)
			got = refused(u, line.s, got, err);
	}
	sbuf_free(&line);
	return got;
}
