/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kread.c: reading kernel variables by name.
 *
 * A kprobe may fetch memory at a symbol ("@tsc_khz:u32") whenever its function runs. So: put one on
 * a function that a harmless system call of ours enters, record only our thread, make the call,
 * read the one line of text, and remove everything again.
 */
#include "priv.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

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

static bool type_ok(const char *type)
{
	static const char *const width[] = { "8", "16", "32", "64" };

	if (!strchr("uxs", *type) || !*type)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(width); i++)
		if (!strcmp(type + 1, width[i]))
			return true;
	return false;
}

static bool where_ok(const char *where)
{
	size_t len = strcspn(where, "+");
	uint64_t off;

	return len && len < SYMBOL_MAX && !strpbrk(where, " \t\n:@%$()-") &&
	       (!where[len] || !parse_u64(where + len + 1, &off));
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

static int shot(struct reader *r, const char *args, char **line, struct kvmft_err *err)
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

/* Finds a function that exists, may be probed, and is entered by provoke(). */
static int reader_pick(struct reader *r, struct kvmft_err *err)
{
	int got = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(provoked); i++) {
		_cleanup_free_ char *line = NULL;

		r->func = provoked[i];
		got = shot(r, NULL, &line, err);
		if (!got || got == -EPERM || got == -EACCES)
			return got;
	}
	return err_lack(err, ENOTSUP,
			"no function that kvmft knows takes a kprobe "
			"(the last, %s: %s)",
			r->func, strerror(-got));
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
	return got ?: reader_pick(r, err);
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
	got = b.error ? err_set(err, ENOMEM, "out of memory") : shot(r, b.s, &line, err);
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
		if (!type_ok(arg[i].type) || !where_ok(arg[i].where))
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
