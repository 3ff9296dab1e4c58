/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * switch.c: what the states and properties of QEMU's trace events mean, in plain words; the way
 * back to former states, also if whoever is to go it is killed.
 */
#include "kvmft/qemu.h"

#include "kvmft/kernel.h"

#define FILE_BYTES   (16u << 20)
#define SHOWN_BYTES  3000 /* of names, in one line */
#define LEFT_ANSWERS 10	  /* slow ones at most: every recording waits for them */

static int unknown_pattern(const struct mon_events *events, const char *name, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf tcg = { 0 };
	const char *near = NULL;
	unsigned int near_d = 4;

	for (size_t i = 0; i < events->n; i++) {
		unsigned int d = str_distance(events->v[i].name, name);

		if (d < near_d) {
			near = events->v[i].name;
			near_d = d;
		}
	}
	if (!events->n)
		return err_set(err, ENOENT, "this QEMU has no trace events at all");
	sbuf_addf(&tcg, "%s_exec", name);
	if (tcg.s && mon_events_get(events, tcg.s))
		return err_set(
			err, ENOENT,
			"%s has property tcg, so there are two events in its place: %s_trans when the "
			"guest's code is translated, %s_exec when it runs",
			name, name, name);
	if (near)
		return err_set(err, ENOENT, "this QEMU has no event %s (did you mean %s?)", name,
			       near);
	return err_set(err, ENOENT, "this QEMU has no event %s (see kvmft qemu events)", name);
}

int qemu_check(const struct mon_events *events, const struct mon_switches *all, struct sbuf *notes,
	       struct kvmft_err *err)
{
	for (size_t k = 0; k < all->n; k++) {
		const struct mon_switch *s = &all->v[k];
		bool wild = mon_is_pattern(s->pattern);
		const struct mon_event *e = wild ? NULL : mon_events_get(events, s->pattern);
		size_t n = 0, compiled_out = 0, vcpu = 0;

		if (!wild && !e)
			return unknown_pattern(events, s->pattern, err);
		if (e && e->state == MON_UNAVAILABLE && s->on)
			return err_set(
				err, ENOTSUP,
				"%s was compiled out of this QEMU (property disable, or back end nop): nothing "
				"can switch it on",
				s->pattern);
		for (size_t i = 0; i < events->n; i++) {
			const struct mon_event *m = &events->v[i];

			if (!str_glob(s->pattern, m->name))
				continue;
			n++;
			compiled_out += m->state == MON_UNAVAILABLE;
			vcpu += m->vcpu;
		}
		if (!n)
			sbuf_addf(notes, "no event matches '%s'\n", s->pattern);
		if (compiled_out && s->on)
			sbuf_addf(
				notes,
				"'%s': %zu of %zu events stay off: they were compiled out of this QEMU\n",
				s->pattern, compiled_out, n);
		if (vcpu && s->on)
			sbuf_addf(
				notes,
				"'%s': %zu event%s property vcpu: on or off for all vCPUs at once\n",
				s->pattern, vcpu, vcpu == 1 ? " has" : "s have");
	}
	return 0;
}

int qemu_apply(struct monitor *m, const struct mon_events *events, const struct mon_switch *s,
	       struct kvmft_err *err)
{
	int ret = 0;

	/* QEMU takes '?' for a wildcard only if there is also a '*'. */
	if (!strchr(s->pattern, '?') || strchr(s->pattern, '*'))
		return monitor_set(m, s->pattern, s->on, err);
	for (size_t i = 0; i < events->n && !ret; i++)
		if (events->v[i].state != MON_UNAVAILABLE &&
		    str_glob(s->pattern, events->v[i].name))
			ret = monitor_set(m, events->v[i].name, s->on, err);
	return ret;
}

int qemu_restore(struct monitor *m, const struct mon_events *before, const struct mon_events *now,
		 struct kvmft_err *err)
{
	struct kvmft_err why = { .text = "" };
	int first = 0;

	for (size_t i = 0; i < now->n; i++) {
		const struct mon_event *e = &now->v[i], *was = mon_events_get(before, e->name);
		int ret;

		if (!was || was->state == e->state || was->state == MON_UNAVAILABLE)
			continue;
		ret = monitor_set(m, e->name, was->state == MON_ENABLED, first ? &why : err);
		first = first ?: ret;
		if (ret && ret != -EREMOTEIO) /* the connection has failed: so will the others */
			break;
	}
	return first;
}

/*
 * What `record --qemu` has switched on, in a file as long as it is on.
 *
 * The process that switches back may be killed like the recorder. Then the file is left, its name
 * tells whose it was, and `kvmft reset` or the next recording finishes the work:
 *
 *	qemu PID STARTTIME vm -		the QEMU of this process, by a monitor of its command line
 *	qemu PID STARTTIME monitor SOCKET	by this socket, '@' in front of an abstract one
 *	on EVENT			was off before; of the QEMU above
 */

/* ---- the place ---- */

int qemu_left_place(bool make)
{
	const char *base = geteuid() ? getenv("XDG_RUNTIME_DIR") : "/run";
	_cleanup_close_ int parent = -1;
	struct stat st;
	int fd;

	if (!base || *base != '/')
		return -ENOENT;
	parent = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return -errno;
	if (make && mkdirat(parent, "kvmft", 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(parent, "kvmft", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022)) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

static int own_name(char *name, size_t size)
{
	struct kowner self;
	int ret = kowner_self(&self);

	return ret ?: kowner_format(&self, '.', name, size);
}

void qemu_left_add(struct sbuf *text, const struct qemu *q, const struct qemu_target *t)
{
	const char *socket = t->monitor;
	_cleanup_free_ char *whole = socket && *socket != '@' ? realpath(socket, NULL) : NULL;
	struct vm_task task;
	uint64_t start = 0;

	if (q->pid && vm_task_read(q->pid, &task, &start))
		start = 0;
	sbuf_addf(text, "qemu %u %" PRIu64 " %s %s\n", q->pid, start,
		  socket ? "monitor" : "vm", whole ?: socket ?: "-");
}

int qemu_left_write(const struct sbuf *text, struct kvmft_err *err)
{
	_cleanup_close_ int dir = qemu_left_place(true), fd = -1;
	char name[96];
	int ret = dir < 0 ? dir : own_name(name, sizeof(name));

	if (!ret) {
		fd = file_create(dir, name);
		ret = fd < 0 ? fd : text->error ?: full_write(fd, text->s, text->len, NULL);
		if (ret && fd >= 0)
			unlinkat(dir, name, 0);
	}
	return err_why(err, ret,
		       "cannot note in %s/kvmft what is switched on, in case kvmft is "
		       "killed",
		       geteuid() ? "$XDG_RUNTIME_DIR" : "/run");
}

void qemu_left_done(void)
{
	_cleanup_close_ int dir = qemu_left_place(false);
	char name[96];

	if (dir >= 0 && !own_name(name, sizeof(name)))
		unlinkat(dir, name, 0);
}

/* ---- finishing another one's work ---- */

struct left {
	uint32_t pid;
	uint64_t start, timeout;
	const char *kind, *socket;
	const char **event; /* n of them, in the file's text */
	size_t n, cap;
	bool dry_run;
	struct sbuf *out;
};

static int left_off(struct left *l, struct kvmft_err *err)
{
	_cleanup_(mon_events_free) struct mon_events now = { 0 };
	struct qemu q;
	size_t n = 0;
	int ret;
	struct qemu_target t = { .timeout_ns = l->timeout };
	char pid[16];

	snprintf(pid, sizeof(pid), "%u", l->pid);
	if (!strcmp(l->kind, "monitor"))
		t.monitor = l->socket;
	else
		t.vm = pid;
	ret = qemu_open(&t, &q, err);
	if (ret)
		return ret;
	monitor_within(q.m, l->timeout * LEFT_ANSWERS);
	ret = monitor_events(q.m, &now, err);
	if (!ret) {
		for (size_t i = 0; i < l->n; i++) {
			/* Somebody else may have switched it off by now. */
			const struct mon_event *e = mon_events_get(&now, l->event[i]);

			if (e && e->state == MON_ENABLED)
				l->event[n++] = l->event[i];
		}
		l->n = n;
	}
	for (size_t i = 0; i < l->n && !ret && !l->dry_run; i++)
		ret = monitor_set(q.m, l->event[i], false, err);
	qemu_close(&q);
	return ret;
}

/* One QEMU of a file. 0 if nothing of ours is on in it any more. */
static int left_finish(struct left *l, struct kvmft_err *err)
{
	struct vm_task task;
	size_t i = 0, from;
	uint64_t start;
	int ret;

	if (!l->kind || !l->n)
		return 0;
	ret = l->pid ? vm_task_read(l->pid, &task, &start) : 0;
	if (ret == -ESRCH || (!ret && l->pid && l->start && start != l->start)) {
		sbuf_addf(l->out,
			  "QEMU %u: has ended, and with it what a killed kvmft had switched on\n",
			  l->pid);
		return 0;
	}
	ret = left_off(l, err);
	sbuf_addf(l->out, "QEMU %u: ", l->pid);
	if (ret)
		sbuf_addf(l->out, "trace events that a killed kvmft had switched on stay on:");
	else if (!l->n)
		sbuf_addf(l->out, "nothing that a killed kvmft had switched on is still on");
	else
		sbuf_addf(l->out, "%zu trace events that a killed kvmft had switched on%s:", l->n,
			  l->dry_run ? "" : " are off again");
	for (from = l->out->len; i < l->n && l->out->len - from < SHOWN_BYTES; i++)
		sbuf_addf(l->out, " %s", l->event[i]);
	if (i < l->n)
		sbuf_addf(l->out, " and %zu more", l->n - i);
	sbuf_addc(l->out, '\n');
	return ret ? err_set(err, ret,
			     "trace events of QEMU %u stay on (kvmft qemu set PATTERN off): %s",
			     l->pid, err ? err->text : "")
		   : 0;
}

static int left_line(struct left *l, char *line, struct kvmft_err *err)
{
	char *save = NULL, *pid, *start;
	uint64_t n;
	int ret;

	if (str_starts(line,
		       "qemu ")) { /* "qemu PID STARTTIME KIND SOCKET", cut into words in place */
		ret = left_finish(l, err);
		pid = strtok_r(line + 5, " ", &save);
		start = strtok_r(NULL, " ", &save);
		l->n = 0;
		l->kind = strtok_r(NULL, " ", &save);
		l->socket = strtok_r(NULL, "", &save);
		if (!l->socket || parse_u64(pid, &n) || n > INT32_MAX ||
		    parse_u64(start, &l->start) ||
		    (strcmp(l->kind, "vm") && strcmp(l->kind, "monitor"))) {
			l->kind = NULL;
			return -EINVAL;
		}
		l->pid = (uint32_t)n;
		return ret;
	}
	if (!str_starts(line, "on ") || !mon_pattern_ok(line + 3) || mon_is_pattern(line + 3) ||
	    !l->kind)
		return -EINVAL;
	line += 3;
	return array_add(&l->event, &l->n, &l->cap, &line, sizeof(line));
}

static int left_file(int dir, const char *name, struct left *l, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	ssize_t n = file_read_all(dir, name, FILE_BYTES, &text);
	char *save = NULL, *line;
	int first = 0, ret;

	if (n == -ENOENT) /* somebody else has just finished that */
		return 0;
	if (n < 0)
		return err_why(err, (int)n, "cannot read kvmft's note %s", name);
	l->kind = NULL;
	l->n = 0;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		ret = left_line(l, line, first ? NULL : err);
		first = first ?: ret;
	}
	ret = left_finish(l, first ? NULL : err);
	first = first ?: ret;
	if (first == -EINVAL || first == -ENOMEM)
		return err_why(err, first, "cannot use kvmft's note %s", name);
	if (!first && !l->dry_run && unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return err_why(err, errno, "cannot remove kvmft's note %s", name);
	return first;
}

int qemu_left_sweep(bool dry_run, uint64_t timeout_ns, struct sbuf *out, struct kvmft_err *err)
{
	struct left l = { .dry_run = dry_run, .timeout = timeout_ns, .out = out };
	int fd = qemu_left_place(false), first = 0, ret;
	struct kowner owner;
	struct dirent *e;
	DIR *dir;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return err_why(err, fd, "cannot read kvmft's folder in %s",
			       geteuid() ? "$XDG_RUNTIME_DIR" : "/run");
	dir = fdopendir(fd);
	if (!dir) {
		ret = errno;
		close(fd);
		return err_why(err, ret, "cannot read kvmft's folder in /run");
	}
	while ((e = readdir(dir))) {
		if ((e->d_type != DT_REG && e->d_type != DT_UNKNOWN) ||
		    kowner_parse(e->d_name, '.', &owner) || kowner_alive(&owner))
			continue;
		ret = left_file(fd, e->d_name, &l, first ? NULL : err);
		first = first ?: ret;
	}
	closedir(dir);
	free(l.event);
	return first;
}
