/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reset.c: removing what a killed kvmft left in the kernel, and nothing else.
 *
 * An instance is simply removed, without touching its settings first: the kernel disables its
 * events itself, and refuses while anyone has a file of it open. A running kvmft always has, so
 * even one that looks dead from here (because it lives in another PID namespace) is safe. Probes
 * come second, because they cannot be removed while an instance has their events enabled.
 *
 * libtracefs removes instances; they are listed here, because tracefs_instances_walk() leaves some
 * out when memory is short.
 */

#include <ctype.h>
#include <tracefs.h>

#include "priv.h"

/*
 * ---- whose is it? ----
 *
 * The names of kvmft's instances and probe groups carry the process that made them, by PID and
 * start time, so that a leftover differs from a live one even when the PID was given out again:
 *
 *	kvmft.PID.STARTTIME.N	an instance
 *	kvmft_PID_STARTTIME	a group of kprobes or uprobes, a synthetic event
 *	kvmft_PID_STARTTIME_N	a further synthetic event
 */

static int proc_starttime(int32_t pid, uint64_t *start)
{
	_cleanup_close_ int procfd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct proc_stat st;
	int ret = procfd < 0 ? -errno : proc_stat(procfd, (uint32_t)pid, &st);

	/* A zombie has closed all its files: for our purpose it is dead. */
	if (!ret && strchr("ZX", st.state))
		return -ESRCH;
	if (!ret)
		*start = st.start;
	return ret;
}

int kowner_self(struct kowner *o)
{
	*o = (struct kowner){ .pid = (int32_t)getpid() };
	return proc_starttime(o->pid, &o->start);
}

/* One canonical decimal number (no sign, no leading zero), up to end or sep. */
static int owner_number(const char **s, char sep, uint64_t max, uint64_t *v)
{
	if ((**s == '0' && isdigit((unsigned char)(*s)[1])) || !take_u64(s, max, v) || **s != sep)
		return -EINVAL;
	*s += **s != '\0';
	return 0;
}

int kowner_parse(const char *name, char sep, struct kowner *o)
{
	uint64_t pid, start, seq = 0;
	const char *second;
	bool numbered;

	if (!str_starts(name, "kvmft") || name[5] != sep)
		return -EINVAL;
	name += 6;
	second = strchr(name, sep);
	numbered = sep == '.' || (second && strchr(second + 1, sep));
	if (owner_number(&name, sep, INT32_MAX, &pid) || !pid ||
	    owner_number(&name, numbered ? sep : '\0', UINT64_MAX, &start) ||
	    (numbered && owner_number(&name, '\0', UINT32_MAX, &seq)))
		return -EINVAL;
	*o = (struct kowner){ .pid = (int32_t)pid, .start = start, .seq = (uint32_t)seq };
	return 0;
}

int kowner_format(const struct kowner *o, char sep, char *buf, size_t size)
{
	int n;

	if (sep == '.')
		n = snprintf(buf, size, "kvmft.%" PRId32 ".%" PRIu64 ".%" PRIu32, o->pid, o->start,
			     o->seq);
	else
		n = snprintf(buf, size, o->seq ? "kvmft%c%" PRId32 "%c%" PRIu64 "%c%" PRIu32 :
						 "kvmft%c%" PRId32 "%c%" PRIu64,
			     sep, o->pid, sep, o->start, sep, o->seq);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

bool kowner_alive(const struct kowner *o)
{
	uint64_t start;
	int err = proc_starttime(o->pid, &start);

	if (!err)
		return start == o->start;
	/* Only "no such process" proves death; hidepid or a full table does not. */
	return err != -ESRCH;
}

struct sweep {
	struct ktracefs *t;
	struct kreset *r;
	const struct kowner *only; /* NULL: whatever has no owner any more */
	bool dry_run;
	struct kvmft_err *err;
	int first; /* first failure */
};

static bool left_behind(struct sweep *s, const struct kowner *o)
{
	if (s->only && (o->pid != s->only->pid || o->start != s->only->start))
		return false;
	if (!kowner_alive(o))
		return true;
	s->r->live++;
	return false;
}

static void sweep_failed(struct sweep *s, int got, const char *what, const char *name)
{
	if (!s->first)
		s->first = err_why(s->err, got, "cannot remove %s %s", what, name);
}

/* ---- instances ---- */

static void sweep_instance(struct sweep *s, const char *name)
{
	_cleanup_(sbuf_free) struct sbuf who = { 0 };
	struct tracefs_instance *tr = NULL;
	struct kowner o;
	int got = 0, fd;

	if (kowner_parse(name, '.', &o) || !left_behind(s, &o))
		return;
	if (!s->dry_run) {
		tr = tracefs_instance_alloc(NULL, name);
		got = tr ? kinst_rmdir(tr, 0) : errno ? -errno : -EIO;
		/*
		 * Triggers that use each other's variables keep an instance busy; so does a process
		 * that has it open, and then it is left alone.
		 */
		if (got == -EBUSY)
			kinst_holders(name, &who);
		fd = got == -EBUSY && !who.len ? openat(s->t->dirfd, TEXTF("instances/%s", name),
							O_RDONLY | O_DIRECTORY | O_CLOEXEC)
					       : -1;
		if (fd >= 0) {
			kinst_triggers_sweep(fd);
			close(fd);
			got = kinst_rmdir(tr, 0);
			if (got == -EBUSY)
				kinst_holders(name, &who);
		}
		if (tr)
			tracefs_instance_free(tr);
	}
	if (got == -ENOENT) /* somebody else has removed it just now */
		return;
	if (got == -EBUSY) {
		s->r->busy++;
		sbuf_addf(&s->r->text, "instance %s: in use%s%s, left alone\n", name,
			  who.len ? " by " : "", who.s ?: "");
	} else if (got) {
		sweep_failed(s, got, "instance", name);
	} else {
		s->r->instances++;
		sbuf_addf(&s->r->text, "instance %s%s\n", name, s->dry_run ? "" : ": removed");
	}
}

/* Of instances that may be ours; only the name of each is used. */
static int list_instances(struct ktracefs *t, struct kevent_list *names)
{
	_cleanup_dir_ DIR *dir = dir_open(t->dirfd, "instances");
	struct dirent *e;
	int got = 0;

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	/* Collected first: removing entries while reading a directory may skip some. */
	while (!got && (e = readdir(dir)))
		if (str_starts(e->d_name, "kvmft."))
			got = kevent_list_add(names, "", e->d_name, NULL);
	return got;
}

int kowners_alive(struct ktracefs *t, struct kowner **list, size_t *n)
{
	struct kevent_list names = { 0 };
	int ret = list_instances(t, &names);
	size_t cap = 0;

	*list = NULL;
	*n = 0;
	for (size_t i = 0; !ret && i < names.n; i++) {
		struct kowner o;
		size_t k = 0;

		if (kowner_parse(names.v[i].name, '.', &o) || !kowner_alive(&o))
			continue;
		while (k < *n && (*list)[k].pid != o.pid)
			k++;
		ret = k < *n ? 0 : array_add(list, n, &cap, &o, sizeof(o));
	}
	kevent_list_free(&names);
	if (ret) {
		free(*list);
		*list = NULL;
		*n = 0;
	}
	return ret;
}

/* ---- lines of kprobe_events and its like ---- */

/*
 * What may be left in each file. names() cuts the name out of a line, and the part of it that
 * identifies the owner; -EINVAL: none.
 */
struct kind {
	const char *file, *what;
	const char *remove; /* what goes before the name in a line that removes it */
	int (*names)(const char *line, char *owner, char *name, size_t size);
};

static int cut_line(char *to, size_t size, const char *from, size_t n)
{
	if (!n || n >= size)
		return -EINVAL;
	memcpy(to, from, n);
	to[n] = '\0';
	return 0;
}

/* "p:GROUP/NAME ..."; the kernel writes p, p64, r, r2, ... before ':'. */
static int probe_names(const char *line, char *owner, char *name, size_t size)
{
	size_t type = strcspn(line, ": \n"), len, group;

	if (line[type] != ':')
		return -EINVAL;
	line += type + 1;
	len = strcspn(line, " \n");
	group = strcspn(line, "/ \n");
	return group + 1 < len && !cut_line(owner, size, line, group)
		       ? cut_line(name, size, line, len)
		       : -EINVAL;
}

/* The same of probes at events; dynamic_events shows those of the other files, too. */
static int eprobe_names(const char *line, char *owner, char *name, size_t size)
{
	return *line == 'e' ? probe_names(line, owner, name, size) : -EINVAL;
}

/* "NAME\tFIELDS" */
static int synth_names(const char *line, char *owner, char *name, size_t size)
{
	size_t len = strcspn(line, " \t\n");

	return cut_line(owner, size, line, len) ? -EINVAL : cut_line(name, size, line, len);
}

static void sweep_line(struct sweep *s, const struct kind *k, const char *line)
{
	char owner[256], name[256];
	struct kowner o;
	int got = 0;

	if (k->names(line, owner, name, sizeof(name)) || kowner_parse(owner, '_', &o) ||
	    !left_behind(s, &o))
		return;
	if (!s->dry_run)
		got = knob_write(NULL, s->t->dirfd, k->file, TEXTF("%s%s", k->remove, name), NULL);
	/* An event with several places has a line for each; all are removed with the first. */
	if (got == -ENOENT)
		return;
	if (got == -EBUSY) {
		s->r->busy++;
		sbuf_addf(&s->r->text, "%s %s: in use, left alone\n", k->what, name);
	} else if (got) {
		sweep_failed(s, got, k->what, name);
	} else {
		s->r->probes++;
		sbuf_addf(&s->r->text, "%s %s%s\n", k->what, name, s->dry_run ? "" : ": removed");
	}
}

int kreset_sweep(struct ktracefs *t, const struct kowner *only, bool dry_run, struct kreset *r,
		 struct kvmft_err *err)
{
	/* After the instances, which use them. */
	static const struct kind list[] = {
		{ "kprobe_events", "probe", "-:", probe_names },
		{ "uprobe_events", "probe", "-:", probe_names },
		{ "dynamic_events", "probe", "-:", eprobe_names },
		{ "synthetic_events", "synthetic event", "!", synth_names },
	};
	struct sweep s = { .t = t, .r = r, .only = only, .dry_run = dry_run, .err = err };
	_cleanup_(kevent_list_free) struct kevent_list names = { 0 };
	const char *what = "instances";
	int got;

	*r = (struct kreset){ 0 };
	got = list_instances(t, &names);
	for (size_t i = 0; !got && i < names.n; i++)
		sweep_instance(&s, names.v[i].name);
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		_cleanup_free_ char *text = NULL;
		int got2 = ktracefs_text(t, list[i].file, &text);

		for (const char *line = text; !got2 && *line; line += *line == '\n') {
			sweep_line(&s, &list[i], line);
			line += strcspn(line, "\n");
		}
		if (got2 && got2 != -ENOENT && !got) {
			got = got2;
			what = list[i].file;
		}
	}
	if (s.first)
		return s.first;
	if (got)
		return err_why(err, got, "cannot read %s/%s", t->path, what);
	return r->text.error;
}

void kreset_free(struct kreset *r)
{
	sbuf_free(&r->text);
	*r = (struct kreset){ 0 };
}

void kreset_leftovers(struct ktracefs *t, note_fn *note)
{
	_cleanup_(kreset_free) struct kreset r = { 0 };

	if (!kreset_sweep(t, NULL, false, &r, NULL) && r.instances && note)
		note("removed %u instance(s) that a killed kvmft had left", r.instances);
}
