/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inst.c: making, configuring and removing an instance of our own.
 *
 * The order of the settings matters. Changing the sub-buffer size or the clock empties the
 * ring, so both come before any event; and tracing is off from the first moment, because a new
 * instance is born with tracing_on = 1.
 *
 * libtracefs makes and removes the instance, switches its tracing and sets the size of its ring.
 * Clock, options and lists of PIDs are written here, below a descriptor of the instance: messages
 * name the file and what was written, a missing knob is distinguished from one that refuses, and
 * the recorder, once confined, cannot use paths.
 */

#include <ctype.h>
#include <tracefs.h>

#include "kvmft/util.h"
#include "priv.h"

/* ---- lists of CPU numbers, as /sys/devices/system/cpu and per_cpu/ show them ---- */

#define KCPU_MAX 8191 /* the kernel's own NR_CPUS limit is 8192 */

static const char *const cpu_file[] = {
	[KCPU_POSSIBLE] = "/sys/devices/system/cpu/possible",
	[KCPU_PRESENT] = "/sys/devices/system/cpu/present",
	[KCPU_ONLINE] = "/sys/devices/system/cpu/online",
};

static int cpus_add(struct kcpus *c, uint32_t cpu)
{
	return array_add(&c->cpu, &c->n, &c->cap, &cpu, sizeof(cpu));
}

void kcpus_free(struct kcpus *c)
{
	free(c->cpu);
	*c = (struct kcpus){ 0 };
}

int kcpus_parse(const char *text, struct kcpus *c)
{
	uint64_t from, to;
	int err = 0;

	*c = (struct kcpus){ 0 };
	for (;; text++) {
		if (!take_u64(&text, KCPU_MAX, &from)) {
			err = isdigit((unsigned char)*text) ? -ERANGE : -EINVAL;
			break;
		}
		to = from;
		if (*text == '-' && (++text, !take_u64(&text, KCPU_MAX, &to)))
			err = isdigit((unsigned char)*text) ? -ERANGE : -EINVAL;
		else if (to < from || (c->n && c->cpu[c->n - 1] >= from))
			err = -EINVAL; /* the kernel's lists ascend; anything else is not one */
		for (; from <= to && !err; from++)
			err = cpus_add(c, (uint32_t)from);
		if (err || *text != ',')
			break;
	}
	if (*text == '\n')
		text++;
	if (!err && *text)
		err = -EINVAL;
	if (err)
		kcpus_free(c);
	return err;
}

int kcpus_read(enum kcpu_set set, struct kcpus *c)
{
	_cleanup_free_ char *text = NULL;
	ssize_t got = file_read_all(AT_FDCWD, cpu_file[set], KFILE_MAX, &text);

	*c = (struct kcpus){ 0 };
	return got < 0 ? (int)got : kcpus_parse(text, c);
}

COMPARE_BY(cpu_cmp, uint32_t, );

int kinst_cpus(const struct kinst *k, struct kcpus *c)
{
	_cleanup_dir_ DIR *dir = dir_open(k->dirfd, "per_cpu");
	struct dirent *e;
	int err = 0;

	*c = (struct kcpus){ 0 };
	if (!dir)
		return -errno;
	while (!err && (e = readdir(dir))) {
		const char *s = e->d_name + 3;
		uint64_t cpu;

		if (str_starts(e->d_name, "cpu") && take_u64(&s, KCPU_MAX, &cpu) && !*s)
			err = cpus_add(c, (uint32_t)cpu);
	}
	if (err)
		kcpus_free(c);
	else if (c->n)
		array_sort(c->cpu, c->n, cpu_cmp);
	return err;
}

#define INST_NAMES_MAX	   1000 /* instances that one process can have at a time */
#define INST_RMDIR_WAIT_MS 2000
#define PIDS_PER_WRITE	   100
#define EVENT_FILES_KB	   6 /* inodes and dentries of an event, seen with Linux 6.1 */
#define RCU_WAIT_MS	   2000
#define SUBBUF_MAX	   (1u << 20)

static int inst_knob(struct kinst *k, const char *file, const char *text, struct kvmft_err *err)
{
	int got = knob_write(NULL, k->dirfd, file, text, NULL);

	return err_why(err, got, "%s: cannot write '%s' to %s", k->name, text, file);
}

/* A knob that older kernels lack: `kvmft check` reports it, and its absence is no failure. */
static int knob_optional(struct kinst *k, const char *file, const char *text, struct kvmft_err *err)
{
	return kfile_exists(k->dirfd, file) ? inst_knob(k, file, text, err) : 0;
}

/* ---- memory for the files of events ---- */

/* eventfs makes files when they are looked at, and gives all of them one inode number. */
uint64_t kinst_files_kb(const struct ktracefs *t)
{
	_cleanup_free_ char *events = NULL;
	struct stat one, other;
	uint64_t n = 0;

	if (fstatat(t->dirfd, "events/enable", &one, 0) ||
	    fstatat(t->dirfd, "events/header_page", &other, 0) || one.st_ino == other.st_ino ||
	    file_read_all(t->dirfd, "available_events", KFILE_MAX, &events) < 0)
		return 0;
	for (const char *p = events; (p = strchr(p, '\n')); p++)
		n++;
	return n * EVENT_FILES_KB;
}

/* Names in tracefs are counted as slab that can be reclaimed, and so as available: they cannot. */
bool kinst_files_fit(uint64_t need_kb, const char *meminfo, uint64_t *kb)
{
	uint64_t names;

	if (ktext_number(meminfo, "MemAvailable", kb))
		return true;
	if (!ktext_number(meminfo, "SReclaimable", &names))
		*kb -= MIN(*kb, names);
	return need_kb + need_kb / 4 <= *kb;
}

/*
 * The kernel does not refuse: it kills processes, or panics. What a removed instance had is free
 * again a second later.
 */
static int files_check(const struct ktracefs *t, struct kvmft_err *err)
{
	uint64_t need = kinst_files_kb(t), kb = 0;

	if (!need)
		return 0;
	for (int ms = 0; ms <= RCU_WAIT_MS; ms += 100) {
		_cleanup_free_ char *text = NULL;

		if (ms)
			usleep(100000);
		if (file_read_all(AT_FDCWD, "/proc/meminfo", KFILE_MAX, &text) < 0 ||
		    kinst_files_fit(need, text, &kb))
			return 0;
	}
	return err_lack(err, ENOMEM, "an instance takes %" PRIu64 " KB here, 6 for each event, and a "
			"quarter of that must be left, but only %" PRIu64 " KB can be had: free some "
			"memory, or use Linux 6.6 or later", need, kb);
}

/* ---- birth ---- */

static int cannot_make(const struct kinst *k, int errnum, struct kvmft_err *err)
{
	return err_lack(err, errnum, "cannot make a tracefs instance in %s/instances: %s%s",
			k->t->path, strerror(errnum),
			errnum == EACCES || errnum == EPERM ? " (run as root)" : "");
}

static int inst_name_and_make(struct kinst *k, struct kvmft_err *err)
{
	struct kowner self;
	char name[96];
	int got = kowner_self(&self);

	if (got)
		return err_why(err, got, "cannot read /proc/self/stat");
	/* Checked first, because tracefs_instance_create() leaks its path if mkdir fails. */
	if (faccessat(k->t->dirfd, "instances", W_OK | X_OK, AT_EACCESS))
		return cannot_make(k, errno, err);
	for (; self.seq < INST_NAMES_MAX; self.seq++) {
		if (kowner_format(&self, '.', name, sizeof(name)))
			return err_set(err, ENAMETOOLONG, "instance name too long");
		k->tr = tracefs_instance_create(name);
		if (!k->tr)
			return cannot_make(k, errno ?: EIO, err);
		if (tracefs_instance_is_new(k->tr)) {
			k->name = strdup(name);
			return k->name ? 0 : err_set(err, ENOMEM, "out of memory");
		}
		tracefs_instance_free(k->tr); /* another one of this process: not ours to touch */
		k->tr = NULL;
	}
	return err_set(err, EMFILE, "this process has %d tracefs instances already",
		       INST_NAMES_MAX);
}

int kinst_tracing(struct kinst *k, bool on, struct kvmft_err *err)
{
	int got = on ? tracefs_trace_on_fd(k->on_fd) : tracefs_trace_off_fd(k->on_fd);

	if (got >= 0)
		return 0;
	got = errno;
	return err_why(err, got, "%s: cannot switch tracing %s", k->name, on ? "on" : "off");
}

int kinst_tracing_get(const struct kinst *k)
{
	char c;
	ssize_t n = pread(k->on_fd, &c, 1, 0);

	return n == 1 ? c == '1' : n < 0 ? -errno : -EIO;
}

int kinst_clear(struct kinst *k)
{
	_cleanup_close_ int fd = openat(k->dirfd, "trace", O_WRONLY | O_TRUNC | O_CLOEXEC);

	return fd < 0 ? -errno : 0; /* opening with O_TRUNC is what empties the ring */
}

/* ---- sizes ---- */

static int subbuf_read_back(struct kinst *k, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	struct ktext_page page;
	uint64_t kb;

	if (!file_read_u64(k->dirfd, "buffer_subbuf_size_kb", &kb)) {
		if (!kb || kb > 1024)
			return err_set(err, ERANGE, "%s: sub-buffer size of %" PRIu64 " KB",
				       k->name, kb);
		k->subbuf_size = (uint32_t)kb * 1024;
		return 0;
	}
	/* Before 6.8: one system page, for every ring. */
	if (!ktracefs_text(k->t, "events/header_page", &text) && ktext_page(text, &page) &&
	    page.size <= SUBBUF_MAX)
		k->subbuf_size = page.size;
	else
		k->subbuf_size = (uint32_t)sysconf(_SC_PAGESIZE);
	return 0;
}

int kbuffer_kb_parse(const char *text, uint64_t *kb)
{
	text += strspn(text, " \t");
	return take_u64(&text, UINT64_MAX, kb) && strchr(" \t\n", *text) ? 0 : -EINVAL;
}

static void buffer_read_back(struct kinst *k)
{
	char line[64];

	/* "X" if CPUs differ, which only somebody else can have caused: not worth failing. */
	if (!file_read_line(k->dirfd, "buffer_size_kb", line, sizeof(line)))
		(void)!kbuffer_kb_parse(line, &k->buffer_kb);
}

int kinst_buffer_set(struct kinst *k, uint64_t kb, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	uint64_t avail, total;
	struct kcpus cpus;
	int got;

	/* The kernel grants more than the machine has, and the OOM killer chooses: check first. */
	if (file_read_all(AT_FDCWD, "/proc/meminfo", KFILE_MAX, &text) >= 0 &&
	    !ktext_number(text, "MemAvailable", &avail) && !kinst_cpus(k, &cpus)) {
		const size_t ncpu = cpus.n;

		kcpus_free(&cpus);
		if (__builtin_mul_overflow(kb, (uint64_t)ncpu, &total) || total > avail / 4 * 3)
			return err_set(err, ENOMEM,
				       "a buffer of %" PRIu64
				       " KB for each of %zu CPUs is more than "
				       "three quarters of the available memory (%" PRIu64
				       " KB): choose a smaller one",
				       kb, ncpu, avail);
	}
	if (tracefs_instance_set_buffer_size(k->tr, kb, -1) < 0) {
		got = errno;
		return err_why(err, got, "%s: cannot write '%" PRIu64 "' to buffer_size_kb",
			       k->name, kb);
	}
	buffer_read_back(k);
	return 0;
}

/* ---- clock, options, pids ---- */

int kinst_set_clock(struct kinst *k, const char *clock, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	ssize_t n;
	int got = 0;

	if (clock)
		got = ktracefs_clock_check(k->t, clock, err);
	if (!got && clock)
		got = inst_knob(k, "trace_clock", clock, err);
	if (got)
		return got;
	n = kinst_read(k, "trace_clock", KFILE_MAX, &text);
	if (n < 0 || ktext_chosen(text, k->clock, sizeof(k->clock)))
		return err_set(err, n < 0 ? (int)-n : EINVAL, "%s: cannot read trace_clock back",
			       k->name);
	if (clock && strcmp(clock, k->clock))
		return err_set(err, EIO, "%s: the kernel uses trace clock %s although %s was set",
			       k->name, k->clock, clock);
	return 0;
}

/* set_event_pid takes a list; writing without truncation adds to it. */
static int pids_write(struct kinst *k, const int32_t *pid, size_t n, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int got = 0;

	for (size_t i = 0; !got && i < n; i++) {
		if (pid[i] <= 0)
			got = err_set(err, EINVAL, "%" PRId32 " is not a thread id", pid[i]);
		sbuf_addf(&b, "%" PRId32 " ", pid[i]);
	}
	if (!got && b.error)
		got = err_set(err, ENOMEM, "out of memory");
	if (!got && n)
		got = inst_knob(k, "set_event_pid", b.s, err);
	return got;
}

int kinst_pid_add(struct kinst *k, int32_t pid, struct kvmft_err *err)
{
	return pids_write(k, &pid, 1, err);
}

static int inst_configure(struct kinst *k, const struct kinst_config *c, struct kvmft_err *err)
{
	const struct {
		const char *file;
		bool on;
	} option[] = {
		{ "options/overwrite", c->overwrite },
		{ "options/record-tgid", c->record_tgid },
		{ "options/event-fork", c->event_fork },
		/* In most kernels only a top-level option, and on by default there. */
		{ "options/record-cmd", c->record_cmd },
	};
	int got = kinst_tracing(k, false, err);

	if (!got && c->subbuf_kb)
		got = knob_optional(k, "buffer_subbuf_size_kb", TEXTF("%" PRIu32, c->subbuf_kb),
				    err);
	got = got ?: subbuf_read_back(k, err);
	if (!got && c->buffer_kb)
		got = kinst_buffer_set(k, c->buffer_kb, err);
	else if (!got)
		buffer_read_back(k);
	got = got ?: kinst_set_clock(k, c->clock, err);
	for (size_t i = 0; !got && i < ARRAY_SIZE(option); i++)
		got = knob_optional(k, option[i].file, option[i].on ? "1" : "0", err);
	if (!got && c->buffer_percent >= 0)
		got = knob_optional(k, "buffer_percent", TEXTF("%d", c->buffer_percent), err);
	if (!got && c->cpumask)
		got = inst_knob(k, "tracing_cpumask", c->cpumask, err);
	for (size_t i = 0; !got && i < c->npid; i += PIDS_PER_WRITE)
		got = pids_write(k, c->pid + i, MIN(c->npid - i, (size_t)PIDS_PER_WRITE), err);
	if (got || !c->dead_man)
		return got;
	got = knob_optional(k, "options/disable_on_free", "1", err);
	/*
	 * The kernel acts on the release of this file: when we die, it stops and shrinks the ring.
	 * Without it the events stay on until somebody cleans up: no reason not to record.
	 */
	if (!got)
		k->free_fd = openat(k->dirfd, "free_buffer", O_WRONLY | O_CLOEXEC);
	return got;
}

/* Of a program that shows events as they come: they end with it, and the instance if it can. */
static void end_without_memory(void *k)
{
	(void)kinst_destroy(k, NULL);
}

int kinst_create(struct ktracefs *t, const struct kinst_config *c, struct kinst **out,
		 struct kvmft_err *err)
{
	struct kinst *k = calloc(1, sizeof(*k));
	int got;

	*out = NULL;
	if (!k)
		return err_set(err, ENOMEM, "out of memory");
	k->t = t;
	k->dirfd = k->on_fd = k->free_fd = -1;
	got = files_check(t, err);
	got = got ?: inst_name_and_make(k, err);
	if (!got)
		k->dirfd = openat(t->dirfd, TEXTF("instances/%s", k->name),
				  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (k->dirfd >= 0)
		k->on_fd = openat(k->dirfd, "tracing_on", O_RDWR | O_CLOEXEC);
	if (!got && k->on_fd < 0)
		got = err_why(err, errno, "%s: cannot open the instance", k->name);
	got = got ?: inst_configure(k, c, err);
	if (got) {
		(void)kinst_destroy(k, NULL); /* the first failure is the one to report */
		return got;
	}
	*out = k;
	memory_out_is(end_without_memory, k);
	return 0;
}

/* ---- death ---- */

int kinst_rmdir(struct tracefs_instance *tr, unsigned int wait_ms)
{
	const unsigned int step_ms = 10;

	for (unsigned int waited = 0;; waited += step_ms) {
		int got;

		errno = 0;
		if (!tracefs_instance_destroy(tr))
			return 0;
		got = errno ? -errno : -EIO;
		if (got == -ENOENT || got == -ENODEV) /* somebody else has removed it, or is
						       * doing so */
			return 0;
		if (got != -EBUSY || waited >= wait_ms)
			return got;
		usleep(step_ms * 1000);
	}
}

int kinst_destroy(struct kinst *k, struct kvmft_err *err)
{
	int got = 0;

	if (!k)
		return 0;
	memory_out_is(NULL, NULL);
	if (k->on_fd >= 0) {
		(void)!kinst_tracing(k, false, NULL);
		(void)kinst_events_disable(k);
		(void)kjournal_close(&k->triggers); /* what is left makes rmdir fail */
	}
	util_close_fd(&k->free_fd);
	util_close_fd(&k->on_fd);
	util_close_fd(&k->dirfd);
	if (k->tr) {
		struct sbuf who = { 0 };
		const char *name = tracefs_instance_get_name(k->tr);

		got = kinst_rmdir(k->tr, INST_RMDIR_WAIT_MS);
		if (got == -EBUSY)
			kinst_holders(name, &who);
		if (got)
			got = err_set(
				err, -got,
				"cannot remove instance %s: %s%s%s (kvmft reset removes it later)",
				name, strerror(-got), who.len ? ", held open by " : "",
				who.s ?: "");
		sbuf_free(&who);
		tracefs_instance_free(k->tr);
	}
	kevent_list_free(&k->ev);
	free(k->name);
	free(k);
	return got;
}

void kinst_end(struct kinst *k, note_fn *note)
{
	struct kvmft_err err = { .text = "" };

	if (kinst_destroy(k, &err) && err.text[0])
		note("%s", err.text);
}

/*
 * ---- what can be read from an instance of our own ----
 *
 * Below the instance's descriptor, not with libtracefs, because the confined recorder cannot use
 * paths.
 */

#define HOLDERS_MAX 5

const char *kinst_name(const struct kinst *k)
{
	return k->name;
}

const char *kinst_clock(const struct kinst *k)
{
	return k->clock;
}

uint32_t kinst_subbuf_size(const struct kinst *k)
{
	return k->subbuf_size;
}

uint64_t kinst_buffer_kb(const struct kinst *k)
{
	return k->buffer_kb;
}

int kinst_dirfd(const struct kinst *k)
{
	return k->dirfd;
}

ssize_t kinst_read(const struct kinst *k, const char *file, size_t max, char **out)
{
	return file_read_all(k->dirfd, file, max, out);
}

int kinst_raw_open(struct kinst *k, uint32_t cpu, bool nonblock, struct kvmft_err *err)
{
	char path[64];
	int fd, got;

	snprintf(path, sizeof(path), "per_cpu/cpu%" PRIu32 "/trace_pipe_raw", cpu);
	fd = openat(k->dirfd, path, O_RDONLY | O_CLOEXEC | (nonblock ? O_NONBLOCK : 0));
	if (fd >= 0)
		return fd;
	got = errno;
	return err_why(err, got, "cannot open %s/%s", k->name, path);
}

/* ---- per_cpu/cpuN/stats ---- */

/* "now ts: 1234567" (cycles) or "now ts: 12.345678" (a clock of ns). 0 = not there. */
static uint64_t stats_time(const char *text, const char *name, uint64_t *step)
{
	const char *p = strstr(text, name);
	uint64_t whole, micro = 0;

	*step = 0;
	if (!p)
		return 0;
	p += strlen(name);
	p += strspn(p, " ");
	if (!take_u64(&p, UINT64_MAX, &whole))
		return 0;
	*step = 1;
	if (*p != '.')
		return whole;
	p++;
	(void)take_u64(&p, UINT64_MAX, &micro);
	*step = 1000;
	if (__builtin_mul_overflow(whole, 1000000u, &whole) ||
	    __builtin_add_overflow(whole, micro, &whole) ||
	    __builtin_mul_overflow(whole, 1000u, &whole))
		whole = 0;
	return whole;
}

int kstats_parse(const char *text, struct kstats *s)
{
	const struct {
		const char *name;
		uint64_t *v;
		bool needed;
	} field[] = {
		{ "entries", &s->entries, true },
		{ "overrun", &s->overrun, true },
		{ "commit overrun", &s->commit_overrun, false },
		{ "bytes", &s->bytes, false },
		{ "dropped events", &s->dropped, false },
		{ "read events", &s->read, true },
	};
	uint64_t step;

	*s = (struct kstats){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		int err = ktext_number(text, field[i].name, field[i].v);

		if (err && (field[i].needed || err != -ENOENT))
			return err == -ENOENT ? -EINVAL : err;
	}
	s->oldest = stats_time(text, "\noldest event ts:", &step);
	s->now = stats_time(text, "\nnow ts:", &s->now_step);
	return 0;
}

int kinst_stats(const struct kinst *k, uint32_t cpu, struct kstats *s, char **text)
{
	_cleanup_free_ char *got = NULL;
	ssize_t n;
	int err = 0;

	if (text)
		*text = NULL;
	n = kinst_read(k, TEXTF("per_cpu/cpu%" PRIu32 "/stats", cpu), KFILE_MAX, &got);
	if (n < 0)
		return (int)n;
	if (s)
		err = kstats_parse(got, s);
	if (!err && text) {
		*text = got;
		got = NULL;
	}
	return err;
}

/* ---- who has it open ---- */

void kinst_holders(const char *name, struct sbuf *b)
{
	_cleanup_dir_ DIR *dir = dir_open(AT_FDCWD, "/proc");
	const char *want = TEXTF("/instances/%s/", name);
	unsigned int found = 0;
	char link[512];
	struct dirent *e;

	while (dir && found < HOLDERS_MAX && (e = readdir(dir))) {
		_cleanup_dir_ DIR *fds = isdigit((unsigned char)e->d_name[0])
						 ? dir_open(dirfd(dir), TEXTF("%s/fd", e->d_name))
						 : NULL;
		char comm[64] = "?";
		struct dirent *fd;
		bool holds = false;

		/* Does a link of this process lead into the instance, wherever it is mounted? */
		while (fds && !holds && (fd = readdir(fds))) {
			ssize_t n = readlinkat(dirfd(fds), fd->d_name, link, sizeof(link) - 1);

			link[MAX(n, (ssize_t)0)] = '\0';
			holds = strstr(link, want);
		}
		if (!holds)
			continue;
		if (file_read_line(dirfd(dir), TEXTF("%s/comm", e->d_name), comm, sizeof(comm)))
			strcpy(comm, "?");
		str_printable(comm);
		sbuf_addf(b, "%s%s %s", b->len ? ", " : "", e->d_name, comm);
		found++;
	}
}
