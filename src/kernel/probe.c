/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probe.c: probes in the kernel, at its events, and in programs and libraries, in groups of our
 * own; a synthetic event of our own.
 *
 * kprobe_events, uprobe_events and dynamic_events belong to the whole machine: lines are only ever
 * added, under our group's name, and each is journalled with the line that removes it. libtracefs'
 * functions for dynamic events neither report the kernel's error nor remove what they did not make.
 */
#include "priv.h"

#include <ctype.h>
#include <inttypes.h>
#include <tracefs.h>

#define PROBE_LINE_MAX 4000 /* the kernel's own limit for one line is 4096 */
#define NO_EPROBES_HERE "event probes with filters (CONFIG_EPROBE_EVENTS, Linux 6.0)"
#define NO_EPROBES	"this kernel has no " NO_EPROBES_HERE

/* The probes of this process of one kind. */
struct kprobes {
	struct ktracefs *t;
	const char *file; /* kprobe_events, uprobe_events or dynamic_events */
	char group[64];
	struct kjournal journal;
};

static int probes_open(struct ktracefs *t, const char *file, const char *lacking,
		       struct kprobes **out, struct kvmft_err *err)
{
	struct kowner self;
	char mode[32];
	int got;

	*out = NULL;
	if (!ktracefs_has(t, file) && kernel_lockdown(mode, sizeof(mode)) &&
	    !ktracefs_has(t, "trace_clock"))
		return err_lack(err, EPERM, "no %.6s events: the kernel is locked down (%s)", file,
				mode);
	if (!ktracefs_has(t, file))
		return err_lack(err, ENOTSUP, "this kernel has no %s", lacking);
	got = kowner_self(&self);
	if (got)
		return err_why(err, got, "cannot read /proc/self/stat");
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return err_set(err, ENOMEM, "out of memory");
	(*out)->t = t;
	(*out)->file = file;
	got = kowner_format(&self, '_', (*out)->group, sizeof((*out)->group));
	if (!got)
		return 0;
	free(*out);
	*out = NULL;
	return err_set(err, -got, "probe group name too long");
}

int kprobes_open(struct ktracefs *t, struct kprobes **out, struct kvmft_err *err)
{
	return probes_open(t, "kprobe_events", "kprobe events (CONFIG_KPROBE_EVENTS)", out, err);
}

int uprobes_open(struct ktracefs *t, struct kprobes **out, unsigned int *can, struct kvmft_err *err)
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
	int got = probes_open(t, "uprobe_events",
			      "uprobe events (CONFIG_UPROBE_EVENTS): markers of "
			      "programs cannot be recorded",
			      out, err);

	*can = 0;
	if (!got && !ktracefs_text(t, "README", &text))
		for (size_t i = 0; i < ARRAY_SIZE(list); i++)
			*can |= strstr(text, list[i].word) ? list[i].can : 0;
	return got;
}

/* What a kernel that has none says to a line of one is EINVAL, even if it names them in README. */
int eprobes_open(struct ktracefs *t, struct kprobes **out, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;

	*out = NULL;
	if (ktracefs_text(t, "README", &text) || !strstr(text, "[<args>] [if <filter>]"))
		return err_lack(err, ENOTSUP, NO_EPROBES);
	return probes_open(t, "dynamic_events", NO_EPROBES_HERE, out, err);
}

const char *kprobes_group(const struct kprobes *p)
{
	return p->group;
}

/* ---- definitions ---- */

/* Letters, digits and _, as long as the kernel takes it. */
static bool name_ok(const char *name)
{
	if (strlen(name) > 63 || (!isalpha((unsigned char)*name) && *name != '_'))
		return false;
	while (isalnum((unsigned char)*name) || *name == '_')
		name++;
	return !*name;
}

struct probe {
	const char *name, *args;
	const char *what, *where; /* in messages: function or file, and where in it */
	bool again;		  /* of an existing event, and removed with it */
};

/*
 * Adds the kernel's explanation for a refused line. Its error_log is shared: only entries about
 * this line.
 */
static int refused(const struct kprobes *p, const struct probe *d, const char *line, int got,
		   struct kvmft_err *err)
{
	char mode[32], *log;

	if (got == -EPERM && kernel_lockdown(mode, sizeof(mode)))
		return err_lack(err, EPERM, "%s: no %.6ss: the kernel is locked down (%s)", d->what,
				p->file, mode);
	(void)err_why(err, got, "%s: the kernel refuses a %s", d->what, d->where);
	log = tracefs_error_last(NULL);
	if (log && strstr(log, line))
		kerr_add_lines(err, log);
	free(log);
	return got;
}

/* line: "p:GROUP/NAME PLACE"; it is freed. */
static int define(struct kprobes *p, const struct probe *d, struct sbuf *line,
		  struct kvmft_err *err)
{
	char undo[160];
	int got;

	snprintf(undo, sizeof(undo), "-:%s/%s", p->group, d->name);
	if (d->args && *d->args)
		sbuf_addf(line, " %s", d->args);
	if (!name_ok(d->name) || (d->args && strchr(d->args, '\n'))) {
		got = err_set(err, EINVAL, "%s: not a probe name, or bad arguments", d->name);
	} else if (line->error) {
		got = err_set(err, ENOMEM, "out of memory");
	} else if (line->len > PROBE_LINE_MAX) {
		got = err_set(err, E2BIG, "%s: %s has too many arguments for one probe", d->what,
			      d->name);
	} else {
		got = knob_write(d->again ? NULL : &p->journal, p->t->dirfd, p->file, line->s,
				 d->again ? NULL : undo);
		if (got)
			got = refused(p, d, line->s, got, err);
	}
	sbuf_free(line);
	return got;
}

int kprobe_add(struct kprobes *p, const char *name, const char *func, const char *args,
	       struct kvmft_err *err)
{
	const struct probe d = {
		.name = name, .args = args, .what = func, .where = "kprobe there"
	};
	struct sbuf line = { 0 };

	/* Nothing that could smuggle in another field. */
	if (!*func || strpbrk(func, " \t\n:@#"))
		return err_set(err, EINVAL, "%s: not a function name", func);
	sbuf_addf(&line, "p:%s/%s %s", p->group, name, func);
	return define(p, &d, &line, err);
}

int eprobe_add(struct kprobes *p, const char *name, const char *sys, const char *event,
	       const char *args, struct kvmft_err *err)
{
	const struct probe d = { .name = name, .args = args, .what = event, .where = "probe there" };
	struct sbuf line = { 0 };
	int ret;

	if (!kname_ok(sys) || !kname_ok(event))
		return err_set(err, EINVAL, "%s:%s: not an event", sys, event);
	sbuf_addf(&line, "e:%s/%s %s/%s", p->group, name, sys, event);
	ret = define(p, &d, &line, err);
	if (ret == -EINVAL && !strchr(err->text, '\n'))
		return err_lack(err, ENOTSUP, NO_EPROBES);
	return ret;
}

int uprobe_add(struct kprobes *p, const struct kuprobe *u, struct kvmft_err *err)
{
	char where[48];
	const struct probe d = {
		.name = u->name,
		.args = u->args,
		.what = u->path,
		.where = where,
		.again = u->again,
	};
	struct sbuf line = { 0 };

	snprintf(where, sizeof(where), "probe at offset 0x%" PRIx64, u->offset);
	/* A path may have blanks, and may lead elsewhere by now. */
	sbuf_addf(&line, "p:%s/%s /proc/self/fd/%d:0x%" PRIx64, p->group, u->name, u->fd,
		  u->offset);
	if (u->guard)
		sbuf_addf(&line, "(0x%" PRIx64 ")", u->guard);
	return define(p, &d, &line, err);
}

int kprobe_remove(struct kprobes *p, const char *name)
{
	return kjournal_undo(&p->journal, TEXTF("-:%s/%s", p->group, name));
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

/* ---- synthetic events: also shared, so the name says whose it is ---- */

static const char synth_file[] = "synthetic_events";

int ksynth_add(struct ktracefs *t, unsigned int n, const char *fields, char *name, size_t size,
	       struct kvmft_err *err)
{
	struct sbuf line = { 0 };
	struct kowner self;
	int got;

	if (!kfile_exists(t->dirfd, synth_file))
		return err_lack(err, ENOENT, "this kernel has no synthetic events "
					     "(CONFIG_SYNTH_EVENTS)");
	got = kowner_self(&self);
	self.seq = n;
	got = got ?: kowner_format(&self, '_', name, size);
	if (got)
		return err_why(err, got, "cannot name a synthetic event");
	sbuf_addf(&line, "%s %s", name, fields);
	got = line.error ?: knob_write(NULL, t->dirfd, synth_file, line.s, NULL);
	sbuf_free(&line);
	return err_why(err, got, "cannot make synthetic event %s", name);
}

int ksynth_remove(struct ktracefs *t, const char *name)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "!%s", name);

	if (n < 0 || (size_t)n >= sizeof(line))
		return -ENAMETOOLONG;
	return knob_write(NULL, t->dirfd, synth_file, line, NULL);
}
