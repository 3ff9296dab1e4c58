/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probe.c: probes in the kernel, at its events, and in programs and libraries, in groups of our
 * own; a synthetic event of our own.
 *
 * kprobe_events, uprobe_events and dynamic_events belong to the whole machine: lines are only ever
 * added, under our group's name, and each is journalled with the line that removes it. libtracefs'
 * functions for dynamic events neither report the kernel's error nor remove what they did not make.
 */

#include <ctype.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <tracefs.h>

#include "priv.h"

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
 * line: "p:GROUP/NAME PLACE"; it is freed. The kernel's error_log is shared: of its explanations
 * only those of this line.
 */
static int probe_define(struct kprobes *p, const struct probe *d, struct sbuf *line,
			struct kvmft_err *err)
{
	char undo[160], mode[32], *log;
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
		if (got == -EPERM && kernel_lockdown(mode, sizeof(mode))) {
			(void)err_lack(err, EPERM, "%s: no %.6ss: the kernel is locked down (%s)",
				       d->what, p->file, mode);
		} else if (got) {
			(void)err_why(err, got, "%s: the kernel refuses a %s", d->what, d->where);
			log = tracefs_error_last(NULL);
			if (log && strstr(log, line->s))
				kerr_add_lines(err, log);
			free(log);
		}
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
	return probe_define(p, &d, &line, err);
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
	ret = probe_define(p, &d, &line, err);
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
	return probe_define(p, &d, &line, err);
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

/*
 * ---- reading kernel variables by name ----
 *
 * A kprobe may fetch memory at a symbol ("@tsc_khz:u32") whenever its function runs. So: put one on
 * a function that a harmless system call of ours enters, record only our thread, make the call,
 * read the one line of text, and remove everything again.
 */

#define BATCH_ARGS  100	 /* the kernel takes 128 */
#define BATCH_BYTES 3000 /* of the 4096 of one line */
#define SYMBOL_MAX  128

/* provoke() enters all of these, as far as the kernel has them. Best known first. */
static const char *const provoked[] = {
	"do_sys_openat2",      "do_sys_open",	   "__x64_sys_getppid", "__ia32_sys_getppid",
	"__arm64_sys_getppid", "__do_sys_getppid", "hrtimer_nanosleep", "do_nanosleep",
};

struct reader {
	struct ktracefs *t;
	struct kinst *k;
	struct kprobes *p;
	const char *func; /* one of provoked[] that really fires */
	unsigned int seq;
};

/* ---- text ---- */

int kread_parse_field(const char *line, const char *name, uint64_t *value)
{
	size_t len = strlen(name);
	char word[32];

	for (const char *p = line; (p = strstr(p, name)); p += len) {
		size_t n;

		if (p == line || p[-1] != ' ' || p[len] != '=')
			continue;
		p += len + 1;
		n = strcspn(p, " \n");
		if (!n || n >= sizeof(word))
			return -EINVAL;
		memcpy(word, p, n);
		word[n] = '\0';
		return parse_bits64(word, value) ? -EINVAL : 0;
	}
	return -ENOENT;
}

static bool arg_ok(const struct kread_arg *a)
{
	static const char *const width[] = { "8", "16", "32", "64" };
	size_t len = strcspn(a->where, "+"), i = 0;
	uint64_t off;

	while (i < ARRAY_SIZE(width) && *a->type && strcmp(a->type + 1, width[i]))
		i++;
	return *a->type && strchr("uxs", *a->type) && i < ARRAY_SIZE(width) && len &&
	       len < SYMBOL_MAX && !strpbrk(a->where, " \t\n:@%$()-") &&
	       (!a->where[len] || !parse_u64(a->where + len + 1, &off));
}

/* ---- one shot: a probe, its event, one provocation, its line ---- */

static int shot_fire(struct reader *r, const char *name, char **line, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	struct kevent_list list = { 0 };
	const char *at;
	ssize_t n;
	int got = kevent_list_add(&list, kprobes_group(r->p), name, NULL);

	got = got ?: kinst_events_add(r->k, &list, err);
	kevent_list_free(&list);
	got = got ?: kinst_events_enable(r->k, err);
	got = got ?: kinst_tracing(r->k, true, err);
	if (!got) {
		struct timespec ns = { .tv_nsec = 1 }; /* for the probe to fire */
		int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

		if (fd >= 0)
			close(fd);
		(void)!syscall(SYS_getppid);
		(void)nanosleep(&ns, NULL);
	}
	(void)!kinst_tracing(r->k, false, NULL);
	(void)kinst_events_disable(r->k);
	kevent_list_free(&r->k->ev); /* the probe goes shortly, and its event with it */
	if (got)
		return got;
	n = kinst_read(r->k, "trace", KFILE_MAX, &text);
	if (n < 0)
		return err_why(err, (int)n, "%s: cannot read trace", kinst_name(r->k));
	at = strstr(text, TEXTF(" %s: (", name));
	*line = at ? strndup(at, strcspn(at, "\n")) : NULL;
	return *line ? 0 : err_set(err, EAGAIN, "a kprobe on %s did not fire", r->func);
}

static int reader_shot(struct reader *r, const char *args, char **line, struct kvmft_err *err)
{
	char name[32];
	int got, gone;

	*line = NULL;
	snprintf(name, sizeof(name), "kread_%u", r->seq++);
	got = kprobe_add(r->p, name, r->func, args, err);
	if (got)
		return got;
	got = shot_fire(r, name, line, err);
	gone = kprobe_remove(r->p, name);
	if (!gone || got)
		return got;
	free(*line);
	*line = NULL;
	return err_set(err, -gone, "cannot remove kprobe %s/%s: %s (kvmft reset removes it later)",
		       kprobes_group(r->p), name, strerror(-gone));
}

static int reader_open(struct reader *r, struct ktracefs *t, struct kvmft_err *err)
{
	int32_t self = (int32_t)syscall(SYS_gettid);
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	int got;

	*r = (struct reader){ .t = t };
	got = kprobes_open(t, &r->p, err);
	if (got)
		return got;
	c.clock = "local";
	c.buffer_kb = 64;
	c.pid = &self;
	c.npid = 1;
	got = kinst_create(t, &c, &r->k, err);
	if (got)
		return got;
	/* Finds a function that exists, may be probed, and is entered by provoke(). */
	got = -ENOENT;
	for (size_t i = 0; i < ARRAY_SIZE(provoked); i++) {
		_cleanup_free_ char *line = NULL;

		r->func = provoked[i];
		got = reader_shot(r, NULL, &line, err);
		if (!got || got == -EPERM || got == -EACCES)
			return got;
	}
	return err_lack(err, ENOTSUP,
			"no function that kvmft knows takes a kprobe "
			"(the last, %s: %s)",
			r->func, strerror(-got));
}

/* ---- batches ---- */

static int batch_read(struct reader *r, struct kread_arg *arg, size_t n, struct kvmft_err *err)
{
	_cleanup_free_ char *line = NULL;
	struct sbuf b = { 0 };
	int got;

	for (size_t i = 0; i < n; i++)
		if (arg[i].present)
			sbuf_addf(&b, "%sa%zu=@%s:%s", b.len ? " " : "", i, arg[i].where,
				  arg[i].type);
	if (!b.len && !b.error)
		return 0;
	got = b.error ? err_set(err, ENOMEM, "out of memory") : reader_shot(r, b.s, &line, err);
	sbuf_free(&b);
	if (!got) {
		for (size_t i = 0; i < n; i++) {
			if (arg[i].present &&
			    kread_parse_field(line, TEXTF("a%zu", i), &arg[i].value))
				arg[i].present = false;
		}
	}
	return got;
}

/*
 * One symbol that the kernel does not know makes the whole definition fail: then each symbol, with
 * everything asked of it, gets a probe of its own.
 */
static int batch_run(struct reader *r, struct kread_arg *arg, size_t n, struct kvmft_err *err)
{
	int got = batch_read(r, arg, n, err);

	if (!got || got == -ENOMEM || got == -EPERM)
		return got;
	for (size_t i = 0, len; i < n; i += len) {
		const char *symbol = arg[i].where;
		size_t head = strcspn(symbol, "+");

		for (len = 1; i + len < n && strcspn(arg[i + len].where, "+") == head &&
			      !strncmp(symbol, arg[i + len].where, head);
		     len++)
			;
		got = batch_read(r, &arg[i], len, err);
		for (size_t k = 0; got && k < len; k++)
			arg[i + k].present = false;
		if (got == -ENOMEM || got == -EPERM)
			return got;
	}
	return 0;
}

int kread_symbols(struct ktracefs *t, struct kread_arg *arg, size_t n, struct kvmft_err *err)
{
	struct reader r = { .t = t };
	size_t at = 0;
	unsigned int major = 0, minor = 0;
	int got, gone, closed, found = 0;
	sigset_t ends, old;
	struct utsname u;

	/* Older kernels read an unknown symbol as zero instead of refusing it. */
	if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2 || major < 4 ||
	    (major == 4 && minor < 20))
		return err_set(err, EOPNOTSUPP,
			       "kernel variables can be read from Linux 4.20 on only");
	for (size_t i = 0; i < n; i++) {
		arg[i].value = 0;
		arg[i].present = true;
		if (!arg_ok(&arg[i]))
			return err_set(err, EINVAL, "%s:%s: not SYMBOL+OFFSET and a type",
				       arg[i].where, arg[i].type);
	}
	signal_ends(&ends); /* for some milliseconds: what is made here has to go */
	(void)sigprocmask(SIG_BLOCK, &ends, &old);
	got = reader_open(&r, t, err);
	for (size_t len; !got && at < n; at += len) {
		size_t bytes = 0;

		for (len = 0; len < n - at && len < BATCH_ARGS; len++) {
			bytes += strlen(arg[at + len].where) + strlen(arg[at + len].type) +
				 sizeof(" a99=@:");
			if (len && bytes > BATCH_BYTES)
				break;
		}
		got = batch_run(&r, arg + at, len, err);
	}
	/* The instance first: a probe cannot be removed while its event is enabled somewhere. */
	gone = kinst_destroy(r.k, got ? NULL : err);
	closed = kprobes_close(r.p);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	if (closed && !gone)
		gone = err_set(got ? NULL : err, -closed,
			       "cannot remove kprobes: %s (kvmft reset removes them later)",
			       strerror(-closed));
	for (size_t i = 0; i < n; i++) {
		if (got)
			arg[i].present = false;
		found += arg[i].present;
	}
	if (got || gone)
		return got ?: gone;
	if (err)
		*err = (struct kvmft_err){ 0 }; /* of failed attempts that others made up for */
	return found;
}
