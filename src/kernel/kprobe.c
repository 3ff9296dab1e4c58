/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kprobe.c: probes in a group of our own. kprobe_events belongs to the whole machine: lines are
 * only ever added, under our group's name, and each is journalled with the line that removes it.
 * Not through the dynamic events of libtracefs: one journal takes back, in reverse order, whatever
 * was written, probes of all kinds among it, also when the making of the next one failed.
 */
#include "priv.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <tracefs.h>

static int no_kprobes(const struct ktracefs *t, struct kvmft_err *err)
{
	char mode[32];

	if (kernel_lockdown(mode, sizeof(mode)) && !ktracefs_has(t, "trace_clock"))
		return err_lack(err, EPERM, "no kprobe events: the kernel is locked down (%s)",
				mode);
	return err_lack(err, ENOTSUP, "this kernel has no kprobe events (CONFIG_KPROBE_EVENTS)");
}

int kprobes_new(struct ktracefs *t, const char *file, struct kprobes **out, struct kvmft_err *err)
{
	struct kprobes *p;
	struct kowner self;
	int got = kowner_self(&self);

	*out = NULL;
	if (got)
		return err_set(err, -got, "cannot read /proc/self/stat: %s", strerror(-got));
	p = calloc(1, sizeof(*p));
	if (!p)
		return err_set(err, ENOMEM, "out of memory");
	p->t = t;
	p->file = file;
	got = kowner_format(&self, '_', p->group, sizeof(p->group));
	if (got) {
		free(p);
		return err_set(err, -got, "probe group name too long");
	}
	*out = p;
	return 0;
}

int kprobes_open(struct ktracefs *t, struct kprobes **out, struct kvmft_err *err)
{
	*out = NULL;
	if (!ktracefs_has(t, "kprobe_events"))
		return no_kprobes(t, err);
	return kprobes_new(t, "kprobe_events", out, err);
}

const char *kprobes_group(const struct kprobes *p)
{
	return p->group;
}

bool kprobe_name_ok(const char *name)
{
	if (strlen(name) > 63)
		return false;
	if (!isalpha((unsigned char)*name) && *name != '_')
		return false;
	while (isalnum((unsigned char)*name) || *name == '_')
		name++;
	return !*name;
}

/* Letters of a symbol, then perhaps +OFFSET: nothing that could smuggle in another field. */
static int symbol_check(const char *func, struct kvmft_err *err)
{
	size_t len = strcspn(func, "+");
	char sym[256];

	if (!len || len >= sizeof(sym) || strpbrk(func, " \t\n:@#"))
		return err_set(err, EINVAL, "%s: not a function name", func);
	memcpy(sym, func, len);
	sym[len] = '\0';
	if (!kallsyms_has(sym))
		return err_set(err, ENOENT, "%s: this kernel has no such symbol", sym);
	return 0;
}

void kprobe_error_words(struct kvmft_err *err, const char *line)
{
	char *log = tracefs_error_last(NULL);

	if (log && strstr(log, line))
		kerr_add_lines(err, log);
	free(log);
}

static int add_failed(const char *func, const char *line, int got, struct kvmft_err *err)
{
	char mode[32];

	if (got == -EPERM && kernel_lockdown(mode, sizeof(mode)))
		return err_lack(err, EPERM, "%s: no kprobes: the kernel is locked down (%s)", func,
				mode);
	(void)err_set(err, -got, "%s: the kernel refuses a kprobe there: %s", func,
		      strerror(-got));
	kprobe_error_words(err, line);
	return got;
}

int kprobe_define(struct kprobes *p, const char *name, const char *func, const char *args,
		  struct kvmft_err *err)
{
	struct sbuf line = { 0 };
	char undo[160];
	int got;

	if (!kprobe_name_ok(name) || (args && strchr(args, '\n')))
		return err_set(err, EINVAL, "%s: not a probe name, or bad arguments", name);
	snprintf(undo, sizeof(undo), "-:%s/%s", p->group, name);
	sbuf_addf(&line, "p:%s/%s %s", p->group, name, func);
	if (args && *args)
		sbuf_addf(&line, " %s", args);
	if (line.error)
		got = err_set(err, ENOMEM, "out of memory");
	else if (line.len > KPROBE_LINE_MAX)
		got = err_set(err, E2BIG, "%s: too many arguments for one kprobe", name);
	else
		got = knob_write(&p->journal, p->t->dirfd, p->file, line.s, undo);
	if (got && !line.error && line.len <= KPROBE_LINE_MAX)
		got = add_failed(func, line.s, got, err);
	sbuf_free(&line);
	return got;
}

int kprobe_add(struct kprobes *p, const char *name, const char *func, const char *args,
	       struct kvmft_err *err)
{
	int got = symbol_check(func, err);

	return got ? got : kprobe_define(p, name, func, args, err);
}

int kprobe_remove(struct kprobes *p, const char *name)
{
	char undo[160];

	snprintf(undo, sizeof(undo), "-:%s/%s", p->group, name);
	return kjournal_undo(&p->journal, undo);
}

int kprobes_close(struct kprobes *p)
{
	int got;

	if (!p)
		return 0;
	got = kjournal_close(&p->journal);
	free(p);
	return got;
}
