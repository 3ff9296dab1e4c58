/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_kernel_live.c: the kernel room on the tracefs of the machine that runs the test, in
 * instances of its own and with its own PIDs only. Where there is no tracefs or no permission it
 * says so and skips. After each test the list of instances must be what it was before.
 */
#include "kernel_fixture.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

struct live {
	struct ktracefs *t; /* NULL: skip */
	char why[1024];
	unsigned int before;
	struct kvmft_err err;
};

/* Ours alone: other software may come and go while we test. */
static unsigned int own_instances(struct ktracefs *t)
{
	char path[300];
	struct dirent *e;
	struct kowner o;
	unsigned int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/instances", ktracefs_path(t));
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		n += !kowner_parse(e->d_name, '.', &o) && o.pid == getpid();
	if (dir)
		closedir(dir);
	return n;
}

static int setup(void **state)
{
	struct live *l = calloc(1, sizeof(*l));

	if (!l)
		return -1;
	*state = l;
	if (ktracefs_open(NULL, KTRACEFS_MOUNT, &l->t, &l->err)) {
		snprintf(l->why, sizeof(l->why), "%s", l->err.text);
	} else if (faccessat(ktracefs_dirfd(l->t), "instances", W_OK, AT_EACCESS)) {
		snprintf(l->why, sizeof(l->why), "may not make instances");
		ktracefs_close(l->t);
		l->t = NULL;
	} else {
		l->before = own_instances(l->t);
	}
	return 0;
}

static int teardown(void **state)
{
	struct live *l = *state;
	int left = 0;

	if (l->t) {
		left = own_instances(l->t) != l->before;
		ktracefs_close(l->t);
	}
	free(l);
	return left;
}

static struct live *live_or_skip(void **state)
{
	struct live *l = *state;

	if (!l->t) {
		print_message("skipped: %s\n", l->why);
		skip();
	}
	return l;
}

static struct kinst *make(struct live *l, const struct kinst_config *c)
{
	struct kinst *k = NULL;
	int got = kinst_create(l->t, c, &k, &l->err);

	if (got)
		print_error("%s\n", l->err.text);
	assert_int_equal(got, 0);
	return k;
}

static void expect_file(const struct kinst *k, const char *file, const char *want)
{
	char line[128];

	assert_int_equal(file_read_line(kinst_dirfd(k), file, line, sizeof(line)), 0);
	assert_string_equal(line, want);
}

static void test_configure(void **state)
{
	struct live *l = live_or_skip(state);
	int32_t self[] = { (int32_t)getpid(), 1 };
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	bool big = ktracefs_has(l->t, "buffer_subbuf_size_kb");
	struct kinst *k, *k2;
	struct kcpus cpus, possible;
	char *text;

	c.clock = "mono";
	c.buffer_kb = 1024;
	c.subbuf_kb = big ? 64 : 0;
	c.buffer_percent = 25;
	c.overwrite = false;
	c.record_tgid = true;
	c.event_fork = true;
	c.pid = self;
	c.npid = 1;
	k = make(l, &c);
	assert_string_equal(kinst_clock(k), "mono");
	assert_true(kinst_buffer_kb(k) >= 1024 && kinst_buffer_kb(k) < 1024 + 256);
	assert_int_equal(kinst_subbuf_size(k), big ? 65536 : sysconf(_SC_PAGESIZE));
	expect_file(k, "tracing_on", "0");
	expect_file(k, "options/overwrite", "0");
	expect_file(k, "options/record-tgid", "1");
	expect_file(k, "options/event-fork", "1");
	expect_file(k, "options/disable_on_free", "1");
	if (kfeat_have(l->t, "buffer-percent"))
		expect_file(k, "buffer_percent", "25");
	assert_int_equal(kinst_pid_add(k, self[1], &l->err), 0);
	assert_true(kinst_read(k, "set_event_pid", 4096, &text) > 0);
	assert_non_null(strstr(text, "1\n"));
	free(text);
	assert_int_equal(kinst_pid_add(k, 0, &l->err), -EINVAL);
	assert_int_equal(kinst_cpus(k, &cpus), 0);
	assert_int_equal(kcpus_read(KCPU_POSSIBLE, &possible), 0);
	assert_true(cpus.n >= 1 && cpus.n <= possible.n);
	kcpus_free(&cpus);
	kcpus_free(&possible);

	/* A second one of the same process gets the next number. */
	c = (struct kinst_config)KINST_CONFIG_DEFAULT;
	k2 = make(l, &c);
	assert_string_not_equal(kinst_name(k), kinst_name(k2));
	assert_int_equal(own_instances(l->t), l->before + 2);
	assert_int_equal(kinst_destroy(k2, &l->err), 0);
	assert_int_equal(kinst_destroy(k, &l->err), 0);
}

static void test_refusals(void **state)
{
	struct live *l = live_or_skip(state);
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	int32_t bad = -5;
	struct kinst *k;

	c.clock = "sundial";
	assert_int_equal(kinst_create(l->t, &c, &k, &l->err), -EINVAL);
	assert_non_null(strstr(l->err.text, "no trace clock sundial (it has: local"));
	assert_null(k);
	c = (struct kinst_config)KINST_CONFIG_DEFAULT;
	c.buffer_kb = UINT64_MAX / 2;
	assert_int_equal(kinst_create(l->t, &c, &k, &l->err), -ENOMEM);
	assert_non_null(strstr(l->err.text, "choose a smaller one"));
	c = (struct kinst_config)KINST_CONFIG_DEFAULT;
	c.buffer_percent = 101;
	if (kfeat_have(l->t, "buffer-percent"))
		assert_int_equal(kinst_create(l->t, &c, &k, &l->err), -EINVAL);
	c = (struct kinst_config)KINST_CONFIG_DEFAULT;
	c.pid = &bad;
	c.npid = 1;
	assert_int_equal(kinst_create(l->t, &c, &k, &l->err), -EINVAL);
	assert_string_equal(l->err.text, "-5 is not a thread id");
	c = (struct kinst_config)KINST_CONFIG_DEFAULT;
	c.cpumask = "nonsense";
	assert_true(kinst_create(l->t, &c, &k, &l->err) < 0);
	assert_non_null(strstr(l->err.text, "tracing_cpumask"));
	assert_int_equal(own_instances(l->t), l->before);
}

static void test_filter_refused(void **state)
{
	struct live *l = live_or_skip(state);
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	struct kevent_list list = { 0 };
	struct kinst *k;

	if (!kevent_exists(l->t, "sched", "sched_switch")) {
		print_message("skipped: no event sched:sched_switch\n");
		skip();
	}
	k = make(l, &c);
	assert_int_equal(kevent_expand(l->t, "sched:sched_switch/prev_pdi == 1/", &list, &l->err),
			 0);
	l->err = (struct kvmft_err){ 0 };
	assert_int_equal(kinst_events_add(k, &list, &l->err), -EINVAL);
	print_message("%s\n", l->err.text);
	assert_true(str_starts(l->err.text, "sched:sched_switch: the kernel refuses filter "
					    "'prev_pdi == 1': Invalid argument"));
	if (kfeat_have(l->t, "error-log")) {
		assert_non_null(strstr(l->err.text, "Field not found"));
		assert_non_null(strstr(l->err.text, "\n"));
		assert_non_null(strchr(l->err.text, '^'));
	}
	kevent_list_free(&list);
	assert_int_equal(kevent_expand(l->t, "sched_switch/prev_pid == 1/", &list, &l->err), 0);
	assert_int_equal(kinst_events_add(k, &list, &l->err), 0);
	expect_file(k, "events/sched/sched_switch/filter", "prev_pid == 1");
	expect_file(k, "events/sched/sched_switch/enable", "0");
	kevent_list_free(&list);
	/* One that does not exist: none of them may be on afterwards. */
	assert_int_equal(kevent_list_add(&list, "sched", "kvmft_none", NULL), 0);
	assert_int_equal(kinst_events_add(k, &list, &l->err), 0);
	assert_int_equal(kinst_events_enable(k, &l->err), -ENOENT);
	assert_non_null(strstr(l->err.text, "cannot enable sched:kvmft_none"));
	expect_file(k, "events/sched/sched_switch/enable", "0");
	kevent_list_free(&list);
	assert_int_equal(kinst_destroy(k, &l->err), 0);
}

/* Our own switches, and nobody else's, come out of the ring as sub-buffers. */
static void test_record(void **state)
{
	struct live *l = live_or_skip(state);
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	int32_t self = (int32_t)syscall(SYS_gettid);
	struct kevent_list list = { 0 };
	uint64_t entries = 0, bytes = 0;
	struct kcpus cpus;
	struct kinst *k;
	void *page;

	if (!kevent_exists(l->t, "sched", "sched_switch")) {
		print_message("skipped: no event sched:sched_switch\n");
		skip();
	}
	c.pid = &self;
	c.npid = 1;
	c.buffer_kb = 256;
	k = make(l, &c);
	assert_int_equal(kevent_expand(l->t, "sched:sched_switch", &list, &l->err), 0);
	assert_int_equal(kinst_events_add(k, &list, &l->err), 0);
	kevent_list_free(&list);
	assert_int_equal(kinst_tracing(k, true, &l->err), 0);
	assert_int_equal(kinst_events_enable(k, &l->err), 0);
	for (int i = 0; i < 20; i++)
		usleep(1000);
	assert_int_equal(kinst_events_disable(k), 0);
	assert_int_equal(kinst_tracing(k, false, &l->err), 0);
	page = malloc(kinst_subbuf_size(k));
	assert_non_null(page);
	assert_int_equal(kinst_cpus(k, &cpus), 0);
	for (size_t i = 0; i < cpus.n; i++) {
		int fd = kinst_raw_open(k, cpus.cpu[i], true, &l->err);
		struct kstats s;
		char *text;
		ssize_t n;

		assert_true(fd >= 0);
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		assert_int_equal(kinst_stats(k, cpus.cpu[i], &s, &text), 0);
		assert_non_null(strstr(text, "read events: 0"));
		free(text);
		entries += s.entries;
		while ((n = read(fd, page, kinst_subbuf_size(k))) > 0)
			bytes += (uint64_t)n;
		assert_int_equal(kinst_stats(k, cpus.cpu[i], &s, NULL), 0);
		assert_int_equal(s.entries, 0);
		close(fd);
	}
	kcpus_free(&cpus);
	free(page);
	print_message("%llu events, %llu bytes\n", (unsigned long long)entries,
		      (unsigned long long)bytes);
	assert_true(entries >= 20 && bytes >= kinst_subbuf_size(k));
	assert_int_equal(kinst_raw_open(k, 8000, true, &l->err), -ENOENT);
	assert_int_equal(kinst_destroy(k, &l->err), 0);
}

static void test_texts(void **state)
{
	struct live *l = live_or_skip(state);
	uint32_t id = 0;
	char *text;

	assert_int_equal(ktracefs_text(l->t, "events/header_page", &text), 0);
	assert_non_null(strstr(text, "commit"));
	free(text);
	assert_int_equal(ktracefs_text(l->t, "events/header_event", &text), 0);
	assert_non_null(strstr(text, "type_len"));
	free(text);
	assert_int_equal(ktracefs_text(l->t, "saved_cmdlines", &text), 0);
	free(text);
	if (kevent_exists(l->t, "sched", "sched_switch")) {
		assert_int_equal(kevent_format(l->t, "sched", "sched_switch", &text), 0);
		assert_non_null(strstr(text, "prev_comm"));
		assert_int_equal(kevent_format_id(text, &id), 0);
		assert_true(id > 0);
		free(text);
	}
}

/* The holder of an open file is named; once it is gone, the leftover can be swept. */
static void test_busy(void **state)
{
	struct live *l = live_or_skip(state);
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	struct kinst *k = make(l, &c);
	char want[64];
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "kvmft-holder");
		if (kinst_raw_open(k, 0, true, NULL) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(kinst_destroy(k, &l->err), -EBUSY);
	print_message("%s\n", l->err.text);
	snprintf(want, sizeof(want), "held open by %d kvmft-holder", pid);
	assert_non_null(strstr(l->err.text, want));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ready[0]);
	close(ready[1]);
	/* It bears our name, so no sweep of ours would touch it: take it away by hand. */
	for (unsigned int i = 0; i < 1000; i++) {
		struct kowner o;
		char name[96], path[400];

		assert_int_equal(kowner_self(&o), 0);
		o.seq = i;
		assert_int_equal(kowner_format(&o, '.', name, sizeof(name)), 0);
		snprintf(path, sizeof(path), "%s/instances/%s", ktracefs_path(l->t), name);
		if (!rmdir(path))
			break;
	}
	assert_int_equal(own_instances(l->t), l->before);
}

/*
 * Whether a process sees the same start time of itself (in NAME) as others do: QEMU's user emulation
 * makes one up in /proc/self/stat, and then every owner looks like one whose PID was reused.
 */
static bool told_true_start(const char *name, pid_t pid)
{
	char path[64], line[1024];
	struct kowner o;
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	assert_int_equal(kowner_parse(name, '.', &o), 0);
	assert_int_equal(file_read_line(AT_FDCWD, path, line, sizeof(line)), 0);
	p = strrchr(line, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	assert_non_null(p);
	return strtoull(p, NULL, 10) == o.start;
}

/* A process records and is killed: its ring stops by itself, and a sweep removes the instance. */
static void test_killed(void **state)
{
	struct live *l = live_or_skip(state);
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	struct kinst *mine = make(l, &c);
	char path[400], name[96] = "", line[16];
	int ready[2], instances;
	struct kreset r;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		int32_t self = (int32_t)getpid();
		struct kinst *k;

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of the test */
		c.pid = &self;
		c.npid = 1;
		if (kinst_create(l->t, &c, &k, NULL) || kinst_tracing(k, true, NULL) ||
		    write(ready[1], kinst_name(k), strlen(kinst_name(k))) <= 0)
			_exit(1);
		for (;;)
			pause();
	}
	assert_true(read(ready[0], name, sizeof(name) - 1) > 0);
	close(ready[0]);
	close(ready[1]);
	if (!told_true_start(name, pid)) {
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_int_equal(kinst_destroy(mine, &l->err), 0);
		assert_int_equal(kreset_sweep(l->t, NULL, false, &r, &l->err), 0);
		kreset_free(&r);
		print_message("skipped: /proc/self/stat has another start time than others see\n");
		skip();
	}
	snprintf(path, sizeof(path), "instances/%s/tracing_on", name);
	instances = ktracefs_dirfd(l->t);
	assert_int_equal(file_read_line(instances, path, line, sizeof(line)), 0);
	assert_string_equal(line, "1");

	/* It lives: left alone. Ours counts too. */
	assert_int_equal(kreset_sweep(l->t, NULL, false, &r, &l->err), 0);
	assert_true(r.live >= 2);
	kreset_free(&r);
	assert_true(ktracefs_has(l->t, path));

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(file_read_line(instances, path, line, sizeof(line)), 0);
	assert_string_equal(line, "0"); /* the dead-man switch */
	assert_int_equal(kreset_sweep(l->t, NULL, false, &r, &l->err), 0);
	kreset_free(&r); /* no counts: another kvmft that starts just now may have been first */
	assert_false(ktracefs_has(l->t, path));
	expect_file(mine, "tracing_on", "0");
	assert_int_equal(kinst_destroy(mine, &l->err), 0);
}

/* Somebody has the leftover open: it is left alone, and the sweep says who. */
static void test_leftover_in_use(void **state)
{
	struct live *l = live_or_skip(state);
	struct kowner dead = kfx_dead_owner();
	char name[96], path[400];
	struct kreset r;
	int fd;

	assert_int_equal(kowner_format(&dead, '.', name, sizeof(name)), 0);
	snprintf(path, sizeof(path), "%s/instances/%s", ktracefs_path(l->t), name);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "instances/%s/tracing_on", name);
	fd = openat(ktracefs_dirfd(l->t), path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(kreset_sweep(l->t, NULL, false, &r, &l->err), 0);
	assert_true(r.busy >= 1);
	assert_non_null(strstr(r.text.s, "in use by "));
	print_message("%s", r.text.s);
	kreset_free(&r);
	assert_true(ktracefs_has(l->t, path));
	close(fd);
	assert_int_equal(kreset_sweep(l->t, NULL, false, &r, &l->err), 0);
	kreset_free(&r);
	assert_false(ktracefs_has(l->t, path));
}

/* Events of the traced kernel's own kprobes: values must agree with what is known otherwise. */
static void test_kread(void **state)
{
	struct live *l = live_or_skip(state);
	struct kread_arg arg[] = {
		{ "tsc_khz", "u32", 0, false },	      { "kvmft_no_such_symbol+8", "x64", 0, false },
		{ "tsc_khz+0", "x32", 0, false },     { "jiffies", "x64", 0, false },
	};
	struct kprobes *p;
	struct ktsc_facts f;
	char *before = NULL, *after = NULL;
	int got = kread_symbols(l->t, arg, ARRAY_SIZE(arg), &l->err);

	if (got == -ENOTSUP || got == -EPERM) {
		assert_true(l->err.text[0]);
		assert_int_equal(l->err.code, KVMFT_LACKING);
		assert_int_equal(kprobes_open(l->t, &p, &l->err) ? 0 : kprobes_close(p), 0);
		print_message("skipped: %s\n", l->err.text);
		skip();
	}
	if (got < 0)
		print_error("%s\n", l->err.text);
	assert_true(got >= 0);
	assert_false(arg[1].present);
	assert_true(ktracefs_read(l->t, "kprobe_events", 1 << 20, &before) >= 0);
	if (arg[0].present) {
		assert_true(arg[2].value == arg[0].value);
		ktsc_facts_read(l->t, &f);
		print_message("tsc_khz %llu; by %s: %llu\n", (unsigned long long)arg[0].value,
			      f.source, (unsigned long long)f.khz);
		/* What claims to be the kernel's own number must be it; the rest must be near. */
		if (f.exact)
			assert_true(f.khz == arg[0].value);
		assert_true(f.khz > arg[0].value / 100 * 98 && f.khz < arg[0].value / 100 * 102);
	}
	assert_int_equal(kprobes_open(l->t, &p, &l->err), 0);
	assert_null(strstr(before, kprobes_group(p))); /* all were taken away */
	assert_int_equal(kprobe_add(p, "one", "schedule", NULL, &l->err), 0);
	assert_int_equal(kprobe_add(p, "one", "schedule+1000000", NULL, &l->err) < 0, 1);
	print_message("%s\n", l->err.text);
	assert_true(kevent_exists(l->t, kprobes_group(p), "one"));
	assert_int_equal(kprobe_remove(p, "one"), 0);
	assert_int_equal(kprobe_add(p, "two", "schedule", NULL, &l->err), 0);
	assert_int_equal(kprobes_close(p), 0);
	assert_true(ktracefs_read(l->t, "kprobe_events", 1 << 20, &after) >= 0);
	assert_string_equal(before, after);
	free(before);
	free(after);
}

/* More than one batch, an argument that the kernel refuses among good ones, the order kept. */
static void test_kread_many(void **state)
{
	struct live *l = live_or_skip(state);
	enum { N = 230 };
	static char where[N][32];
	struct kread_arg *arg = calloc(N, sizeof(*arg));
	int got;

	assert_non_null(arg);
	for (size_t i = 0; i < N; i++) {
		snprintf(where[i], sizeof(where[i]), "tsc_khz+%u", (unsigned int)(i % 4));
		arg[i] = (struct kread_arg){ .where = where[i], .type = "x8" };
	}
	got = kread_symbols(l->t, arg, N, &l->err);
	if (got <= 0) {
		free(arg);
		print_message("skipped: %s\n", got ? l->err.text : "kallsyms does not name tsc_khz");
		skip();
	}
	assert_int_equal(got, N);
	for (size_t i = 4; i < N; i++)
		assert_int_equal(arg[i].value, arg[i % 4].value);
	free(arg);
}

/* A symbol too long for one argument (63 bytes): in /proc/kallsyms there is always one. */
static bool long_symbol(char *buf, size_t size)
{
	char line[512], name[512];
	bool found = false;
	FILE *f = fopen("/proc/kallsyms", "re");

	while (f && !found && fgets(line, sizeof(line), f)) {
		size_t len;

		if (sscanf(line, "%*s %*c %511s", name) != 1)
			continue;
		len = strlen(name);
		found = len > 64 && len < size && !strpbrk(name, ":@%$()-+");
	}
	if (f)
		fclose(f);
	if (found)
		strcpy(buf, name);
	return found;
}

/* What the kernel refuses does not take the others with it. */
static void test_kread_one_bad(void **state)
{
	struct live *l = live_or_skip(state);
	char longest[128];
	struct kread_arg arg[] = {
		{ "tsc_khz", "u32", 0, false },
		{ longest, "x8", 0, false },
		{ "tsc_khz+0", "x32", 0, false },
	};
	const char *const khz = "tsc_khz";
	bool present;
	int got;

	if (!long_symbol(longest, sizeof(longest)) || kallsyms_find(NULL, &khz, 1, &present) != 1) {
		print_message("skipped: no symbol of more than 64 bytes, or no tsc_khz\n");
		skip();
	}
	got = kread_symbols(l->t, arg, ARRAY_SIZE(arg), &l->err);
	if (got < 0) {
		print_message("skipped: %s\n", l->err.text);
		assert_int_equal(got, -ENOTSUP);
		skip();
	}
	assert_true(arg[0].present && arg[2].present && arg[0].value == arg[2].value);
	print_message("%s: %s\n", longest, arg[1].present ? "accepted" : "refused");
	assert_int_equal(got, 2 + arg[1].present);
	assert_string_equal(l->err.text, "");
}

/* In a mount namespace of its own, with tracefs out of sight, it is mounted and found. */
static void test_mount(void **state)
{
	(void)live_or_skip(state);
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct kvmft_err err = { 0 };
		struct ktracefs *t;

		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
			_exit(77);
		while (!umount2("/sys/kernel/tracing", MNT_DETACH))
			;
		(void)umount2("/sys/kernel/debug", MNT_DETACH);
		if (ktracefs_open(NULL, 0, &t, &err) != -ENOENT ||
		    !strstr(err.text, "tracefs is not mounted"))
			_exit(1);
		if (ktracefs_open(NULL, KTRACEFS_MOUNT, &t, &err)) {
			fprintf(stderr, "%s\n", err.text);
			_exit(2);
		}
		if (!ktracefs_mounted(t) || strcmp(ktracefs_path(t), "/sys/kernel/tracing") ||
		    !ktracefs_has(t, "trace_clock"))
			_exit(3);
		ktracefs_close(t);
		if (ktracefs_open(NULL, KTRACEFS_MOUNT, &t, &err) || ktracefs_mounted(t))
			_exit(4);
		ktracefs_close(t);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("skipped: no mount namespace of our own\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_configure, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_filter_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_record, setup, teardown),
		cmocka_unit_test_setup_teardown(test_texts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_busy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leftover_in_use, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kread, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kread_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kread_one_bad, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mount, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
