/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * seqrun: records numbered events with the shipped kvmft and proves that none went uncounted.
 *
 * The events are written to trace_marker_raw of the recorder's own instance, by a thread on each
 * CPU, numbered per CPU; no other ring is touched. So it is known what each CPU produced, and
 * afterwards each number must be in the capture, or in a reported gap. A ring that refuses new
 * events may still take a small one after a large one: then one reported gap is several jumps of
 * the numbers ("not where they are told").
 *
 *   seqrun --kvmft PROG --dir DIR [--seed N] [--runs N] [--kill] [--pause] [--seconds S]
 *          [--tracefs DIR] [--two] [-- OPTION of kvmft record...]
 *
 * Each run takes its own decisions from its seed (N, N+1, ...): how many events, how large, when
 * the recorder is stopped for a while (--pause) or killed (--kill). --seconds writes as fast as one
 * CPU can. --two runs two recorders at once. Before and after each run all control files of tracefs
 * must be the same. A line per failure; the last line sums up. Exit 0 when there was none.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "kvmft/capture.h"
#include "kvmft/kernel.h"
#include "kvmft/ring.h"

#define MAGIC	   0x4b564d46u
#define MAX_CPUS   64
#define MAX_EVENT  512
#define CLEAN_S	   5 /* after a kill; 70 ms, but the disk may be busy with other tests */
#define TRACEFS	   "/sys/kernel/tracing"

struct options {
	const char *kvmft, *dir, *tracefs;
	uint64_t seed, runs, seconds;
	bool kill, pause, two;
	char **record; /* options of kvmft record */
};

struct writer {
	pthread_t thread;
	int cpu, fd;
	uint64_t seed, count, end_ns;
	uint64_t written;
};

struct run {
	const struct options *o;
	uint64_t seed, rng;
	char capture[256], log[256];
	pid_t pid, watcher;
	int fd; /* marker */
	size_t ncpu;
	struct writer w[MAX_CPUS];
	bool killed;
	uint64_t lost, stored, gaps, misplaced;
	char why[256]; /* first failure */
};

struct msg {
	uint32_t magic, pad;
	uint64_t seq;
	char fill[MAX_EVENT];
};

static uint64_t next_random(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15ull; /* splitmix64 */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint64_t between(uint64_t *s, uint64_t lo, uint64_t hi)
{
	return lo + next_random(s) % (hi - lo + 1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void sleep_us(uint64_t us)
{
	struct timespec ts = { (time_t)(us / 1000000), (long)(us % 1000000) * 1000 };

	nanosleep(&ts, NULL);
}

static void __printf(2, 3) fail(struct run *r, const char *fmt, ...)
{
	va_list ap;

	if (r->why[0])
		return;
	va_start(ap, fmt);
	vsnprintf(r->why, sizeof(r->why), fmt, ap);
	va_end(ap);
}

/* ---- tracefs as it is ---- */

/* Files that change by themselves, block, or are other people's. */
static bool volatile_file(const char *name)
{
	static const char *const names[] = {
		"trace", "trace_pipe", "trace_pipe_raw", "stats", "snapshot", "snapshot_raw",
		"trace_marker", "trace_marker_raw", "free_buffer", "saved_cmdlines", "saved_tgids",
		"available_filter_functions", "available_filter_functions_addrs", "touched_functions",
		"enabled_functions", "uprobe_profile", "kprobe_profile", "error_log", "per_cpu",
		"instances", "dyn_ftrace_total_info", "printk_formats", "format", "id", "hist",
		"trace_stat", "buffer_total_size_kb", "README", "available_events",
		/* our own tests next door may have some */
		"kprobe_events", "uprobe_events", "dynamic_events", "uprobes", "kprobes",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return name[0] == '.' || str_starts(name, "kvmft_");
}

static void sum_bytes(uint64_t *h, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*h = (*h ^ (uint8_t)p[i]) * 0x100000001b3ull;
}

/* A file's name and bytes: thousands of them, of some bytes each. */
static uint64_t hash_file(int dir, const char *name)
{
	static char text[65536];
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	uint64_t h = 0xcbf29ce484222325ull;
	ssize_t n;

	sum_bytes(&h, name, strlen(name));
	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
		sum_bytes(&h, text, (size_t)n);
	if (fd >= 0)
		close(fd);
	return h;
}

static void hash_tree(int parent, const char *name, uint64_t *h, unsigned int *files)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		if (volatile_file(e->d_name))
			continue;
		if (e->d_type == DT_DIR) {
			hash_tree(dirfd(dir), e->d_name, h, files);
		} else {
			*h += hash_file(dirfd(dir), e->d_name); /* whatever the order of the directory */
			++*files;
		}
	}
	if (dir)
		closedir(dir);
}

struct state {
	uint64_t hash;
	unsigned int files;
};

static struct state tracefs_state(const struct options *o)
{
	struct state s = { 0, 0 };

	hash_tree(AT_FDCWD, o->tracefs, &s.hash, &s.files);
	return s;
}

/* ---- the recorder ---- */

static void spawn(struct run *r)
{
	/* With -p, which the marker does not heed, the VMs of others leave nothing here. */
	const char *argv[64] = { r->o->kvmft, "record", "--as", "host", "-o", r->capture, "-e",
				 "sched:sched_process_hang", "-p" };
	char pid[16];
	int n = 10;

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	argv[9] = pid;
	for (char **p = r->o->record; *p && n < 63; p++)
		argv[n++] = *p;
	r->pid = fork();
	if (r->pid)
		return;
	int fd = open(r->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || dup2(fd, 2) < 0)
		_exit(126);
	execv(r->o->kvmft, (char *const *)argv);
	_exit(127);
}

/* The recorder's first instance, which records; false when it has none. */
static bool find_instance(const struct run *r, char *name, size_t size)
{
	char path[300], prefix[32];
	struct dirent *e;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/instances", r->o->tracefs);
	snprintf(prefix, sizeof(prefix), "kvmft.%d.", (int)r->pid);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir)))
		if (str_starts(e->d_name, prefix) && !strcmp(strrchr(e->d_name, '.'), ".0")) {
			snprintf(name, size, "%s/instances/%s", r->o->tracefs, e->d_name);
			found = true;
		}
	if (dir)
		closedir(dir);
	return found;
}

/* A new instance has tracing on, so wait for the recorder's message as well. */
static bool tracing_is_on(const struct run *r, const char *instance)
{
	char path[400], text[16], *meta = NULL;
	bool begun;

	snprintf(path, sizeof(path), "%s/meta", r->capture);
	begun = file_read_all(AT_FDCWD, path, 1 << 20, &meta) > 0 && strstr(meta, "\nbegin tsc=");
	free(meta);
	if (!begun)
		return false;
	snprintf(path, sizeof(path), "%s/tracing_on", instance);
	return !file_read_line(AT_FDCWD, path, text, sizeof(text)) && text[0] == '1';
}

static bool wait_for_tracing(struct run *r)
{
	uint64_t end = now_ns() + 20000000000ull;
	char instance[300], path[400];

	while (now_ns() < end && waitpid(r->pid, NULL, WNOHANG) == 0) {
		if (find_instance(r, instance, sizeof(instance)) && tracing_is_on(r, instance)) {
			snprintf(path, sizeof(path), "%s/trace_marker_raw", instance);
			r->fd = open(path, O_WRONLY | O_CLOEXEC);
			return r->fd >= 0;
		}
		sleep_us(2000);
	}
	return false;
}

/* ---- the source ---- */

static void *writer_main(void *arg)
{
	struct writer *w = arg;
	struct msg m = { .magic = MAGIC };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned int)w->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		return NULL;
	while (w->end_ns ? (w->written % 1024 || now_ns() < w->end_ns) : w->written < w->count) {
		size_t len = offsetof(struct msg, fill);

		if (!w->end_ns)
			len += between(&w->seed, 0, MAX_EVENT);
		m.seq = w->written++;
		/* A full ring that keeps the oldest refuses: that is what is counted. */
		if (write(w->fd, &m, len) < 0 && errno != EBADF)
			break;
		if (!w->end_ns && next_random(&w->seed) % 4096 == 0)
			sleep_us(between(&w->seed, 0, 2000));
	}
	return NULL;
}

static void source_start(struct run *r)
{
	struct kcpus online = { 0 };

	if (kcpus_read(KCPU_ONLINE, &online))
		return;
	r->ncpu = MIN(online.n, (size_t)MAX_CPUS);
	if (r->o->seconds)
		r->ncpu = 1;
	for (size_t i = 0; i < r->ncpu; i++) {
		struct writer *w = &r->w[i];

		w->cpu = (int)online.cpu[i];
		w->fd = r->fd;
		w->seed = next_random(&r->rng);
		w->count = r->o->kill ? UINT64_MAX : between(&r->rng, 0, 12000);
		w->end_ns = r->o->seconds ? now_ns() + r->o->seconds * 1000000000ull : 0;
		pthread_create(&w->thread, NULL, writer_main, w);
	}
	kcpus_free(&online);
}

static void source_end(struct run *r)
{
	for (size_t i = 0; i < r->ncpu; i++)
		pthread_join(r->w[i].thread, NULL);
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

static void disturb(struct run *r)
{
	unsigned int n = (unsigned int)between(&r->rng, 0, 3);

	while (r->o->pause && n--) {
		sleep_us(between(&r->rng, 0, 8000));
		kill(r->pid, SIGSTOP);
		sleep_us(between(&r->rng, 0, 12000));
		kill(r->pid, SIGCONT);
	}
}

/* ---- what was recorded ---- */

struct seen {
	uint64_t expect, stored, lost;
};

static uint64_t event_seq(const struct rec *rec, bool *ours)
{
	/* common fields, then the id that struct msg begins with */
	*ours = rec->len >= 8 + offsetof(struct msg, fill) && load_u32(rec->data + 8) == MAGIC;
	return *ours ? load_u64(rec->data + 8 + offsetof(struct msg, seq)) : 0;
}

/*
 * Is there a note of a loss that explains one here? A small event may still have gone into the last
 * sub-buffer of a full ring after a large one was refused.
 */
static bool loss_noted(const struct capture *cap, uint32_t cpu, uint64_t idx)
{
	for (size_t i = 0; i < cap->nloss; i++) {
		const struct cap_loss *l = &cap->loss[i];

		if (l->cpu == cpu && idx + 1 >= l->first && idx <= l->last)
			return true;
	}
	return false;
}

/* Sub-buffers that were removed with old segments: notes count from the very first one. */
static uint64_t removed_before(const struct capture *cap, const struct cap_stream *s)
{
	for (size_t i = 0; i < cap->ncpu && cap->trimmed; i++)
		if (cap->cpu[i].cpu == s->cpu && cap->cpu[i].end.subbufs > s->nsub)
			return cap->cpu[i].end.subbufs - s->nsub;
	return 0;
}

static void check_stream(struct run *r, const struct capture *cap, const struct cap_stream *s,
			 struct seen *seen)
{
	struct rstream rs;
	uint64_t pending = 0, removed = removed_before(cap, s);
	bool unknown = false;
	enum rkind k;

	if (rstream_open(&rs, cap, s)) {
		fail(r, "cpu %u cannot be opened", s->cpu);
		return;
	}
	while ((k = rstream_next(&rs)) != R_END) {
		uint64_t seq;
		bool ours;

		if (k == R_DAMAGE) {
			fail(r, "cpu %u: damage", s->cpu);
			continue;
		}
		if (k == R_GAP) {
			pending += rs.lost;
			unknown |= !rs.lost; /* no room for the number behind the data */
			seen->lost += rs.lost;
			r->gaps++;
			continue;
		}
		seq = event_seq(&rs.rec, &ours);
		if (!ours)
			continue;
		seen->stored++;
		if (cap->trimmed && seen->stored == 1)
			seen->expect = seq;
		if (seq < seen->expect)
			fail(r, "cpu %u: number %llu came after %llu", s->cpu, (unsigned long long)seq,
			     (unsigned long long)seen->expect - 1);
		if (seq - seen->expect != pending && !unknown)
			r->misplaced++;
		if (seq != seen->expect && !cap->overwrite && !r->killed &&
		    !loss_noted(cap, s->cpu, removed + rs.idx - rs.have + rs.at - 1))
			fail(r, "cpu %u: a loss before %llu that is not noted there", s->cpu,
			     (unsigned long long)seq);
		if (seq != seen->expect && cap->overwrite && !pending && !unknown)
			fail(r, "cpu %u: a loss before %llu without a flag", s->cpu,
			     (unsigned long long)seq);
		pending = 0;
		unknown = false;
		seen->expect = seq + 1;
	}
	rstream_close(&rs);
}

static void check_cpu(struct run *r, const struct capture *cap, const struct writer *w,
		      const struct seen *seen)
{
	for (size_t i = 0; i < cap->ncpu; i++) {
		const struct cap_cpustat *e = &cap->cpu[i].end;
		uint64_t lost = e->overrun + e->dropped + e->commit_overrun + e->entries;

		if (cap->cpu[i].cpu != (uint32_t)w->cpu || !e->valid)
			continue;
		if (w->written != e->read + lost)
			fail(r, "cpu %d: %llu produced, %llu read and %llu lost are told", w->cpu,
			     (unsigned long long)w->written, (unsigned long long)e->read,
			     (unsigned long long)lost);
		if (!cap->trimmed && seen->stored != e->read)
			fail(r, "cpu %d: %llu stored, %llu were read", w->cpu,
			     (unsigned long long)seen->stored, (unsigned long long)e->read);
		if (!cap->trimmed && seen->lost > lost)
			fail(r, "cpu %d: gaps say %llu, counters %llu", w->cpu,
			     (unsigned long long)seen->lost, (unsigned long long)lost);
		r->lost += lost;
		r->stored += seen->stored;
		return;
	}
	if (w->written)
		fail(r, "cpu %d: no final counters", w->cpu);
}

static void check_capture(struct run *r)
{
	struct kvmft_err err = { .text = "" };
	struct capture *cap = NULL;

	if (capture_open(r->capture, &cap, &err)) {
		/* Killed before there was a capture. */
		if (!r->killed)
			fail(r, "%s", err.text);
		return;
	}
	if (!r->killed && !cap->complete)
		fail(r, "no end record");
	for (size_t i = 0; i < r->ncpu; i++) {
		struct seen seen = { 0 };

		for (size_t k = 0; k < cap->nstream; k++)
			if (cap->stream[k].cpu == (uint32_t)r->w[i].cpu)
				check_stream(r, cap, &cap->stream[k], &seen);
		if (r->killed)
			r->stored += seen.stored;
		else
			check_cpu(r, cap, &r->w[i], &seen);
	}
	capture_close(cap);
}

/* ---- its end ---- */

static bool process_runs(pid_t pid)
{
	char path[64], *text = NULL;
	bool runs = false;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (file_read_all(AT_FDCWD, path, 4096, &text) > 0) {
		const char *p = strrchr(text, ')');

		runs = p && p[1] == ' ' && p[2] != 'Z' && p[2] != 'X';
	}
	free(text);
	return runs;
}

/* The recorder's child, if it has made it yet. */
static pid_t find_watcher(pid_t recorder)
{
	char path[96], line[256];
	uint64_t pid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)recorder, (int)recorder);
	if (file_read_line(AT_FDCWD, path, line, sizeof(line)))
		return 0;
	line[strcspn(line, " ")] = '\0';
	return parse_u64(line, &pid) ? 0 : (pid_t)pid;
}

static void end_killed(struct run *r)
{
	uint64_t end;
	char name[300];

	r->killed = true;
	r->watcher = find_watcher(r->pid);
	kill(r->pid, SIGKILL);
	waitpid(r->pid, NULL, 0);
	end = now_ns() + CLEAN_S * 1000000000ull;
	if (find_instance(r, name, sizeof(name)) && !r->watcher)
		fail(r, "killed: an instance but no watcher");
	for (size_t i = 0; i < r->ncpu; i++)
		r->w[i].count = 0; /* a torn read of it only costs an event */
	source_end(r);
	while (now_ns() < end &&
	       (find_instance(r, name, sizeof(name)) || (r->watcher && process_runs(r->watcher))))
		sleep_us(2000);
	if (find_instance(r, name, sizeof(name)))
		fail(r, "killed: its instance is still there");
	if (r->watcher && process_runs(r->watcher))
		fail(r, "killed: its watcher still runs");
}

static void end_well(struct run *r)
{
	uint64_t want;
	int status = 0;
	char *text = NULL;

	kill(r->pid, SIGINT);
	if (waitpid(r->pid, &status, 0) != r->pid || !WIFEXITED(status)) {
		fail(r, "the recorder died: status %#x", (unsigned int)status);
		return;
	}
	check_capture(r);
	want = r->lost ? 3 : 0;
	if ((uint64_t)WEXITSTATUS(status) != want)
		fail(r, "exit %d with %llu lost", WEXITSTATUS(status), (unsigned long long)r->lost);
	if (file_read_all(AT_FDCWD, r->log, 1 << 20, &text) >= 0 && r->lost &&
	    !strstr(text, " lost "))
		fail(r, "nothing on stderr about lost events");
	free(text);
}

/* ---- one run ---- */

static void run_one(struct run *r)
{
	r->rng = r->seed;
	r->fd = -1;
	snprintf(r->capture, sizeof(r->capture), "%s/c%llu", r->o->dir, (unsigned long long)r->seed);
	snprintf(r->log, sizeof(r->log), "%s/log%llu", r->o->dir, (unsigned long long)r->seed);
	spawn(r);
	if (r->o->kill && next_random(&r->rng) % 2) {
		/* while it sets itself up */
		sleep_us(between(&r->rng, 0, 250000));
		end_killed(r);
		check_capture(r);
		return;
	}
	if (!wait_for_tracing(r)) {
		fail(r, "the recorder did not start");
		kill(r->pid, SIGKILL);
		waitpid(r->pid, NULL, 0);
		return;
	}
	source_start(r);
	if (r->o->kill) {
		sleep_us(between(&r->rng, 0, 300000));
		end_killed(r);
		check_capture(r);
		return;
	}
	disturb(r);
	source_end(r);
	end_well(r);
}

static void *run_thread(void *arg)
{
	run_one(arg);
	return NULL;
}

struct sum {
	uint64_t runs, failed, lossy, stored, lost, gaps, misplaced;
};

static void sum_up(struct sum *s, struct run *r)
{
	char cmd[700];

	s->runs++;
	s->failed += r->why[0] != 0;
	s->lossy += r->lost != 0;
	s->stored += r->stored;
	s->lost += r->lost;
	s->gaps += r->gaps;
	s->misplaced += r->misplaced;
	if (r->why[0]) {
		printf("seed %llu: %s\n", (unsigned long long)r->seed, r->why);
		return; /* its files stay */
	}
	snprintf(cmd, sizeof(cmd), "rm -rf '%s' '%s'", r->capture, r->log);
	if (system(cmd))
		printf("cannot remove %s\n", r->capture);
}

/* was: tracefs before this run, and before the next one. */
static void run_seed(const struct options *o, uint64_t seed, struct sum *s, struct state *was)
{
	struct run *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	struct state is;
	pthread_t other;

	if (!a || !b)
		exit(1);
	*a = (struct run){ .o = o, .seed = seed };
	*b = (struct run){ .o = o, .seed = seed + 1000000 };
	if (o->two && pthread_create(&other, NULL, run_thread, b))
		exit(1);
	run_one(a);
	if (o->two)
		pthread_join(other, NULL);
	is = tracefs_state(o);
	if (was->hash != is.hash || was->files != is.files)
		fail(a, "tracefs is not as before: %u files, then %u", was->files, is.files);
	*was = is;
	sum_up(s, a);
	if (o->two)
		sum_up(s, b);
	free(a);
	free(b);
}

static const struct option long_options[] = {
	{ "kvmft", required_argument, NULL, 'k' },   { "dir", required_argument, NULL, 'd' },
	{ "seed", required_argument, NULL, 's' },    { "runs", required_argument, NULL, 'n' },
	{ "seconds", required_argument, NULL, 'S' }, { "kill", no_argument, NULL, 'K' },
	{ "pause", no_argument, NULL, 'p' },	     { "two", no_argument, NULL, '2' },
	{ "tracefs", required_argument, NULL, 't' }, { NULL, 0, NULL, 0 },
};

int main(int argc, char **argv)
{
	struct options o = { .seed = 1, .runs = 1, .tracefs = TRACEFS };
	struct sum s = { 0 };
	struct state was;
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 'k': o.kvmft = optarg; break;
		case 'd': o.dir = optarg; break;
		case 's': o.seed = strtoull(optarg, NULL, 0); break;
		case 'n': o.runs = strtoull(optarg, NULL, 0); break;
		case 'S': o.seconds = strtoull(optarg, NULL, 0); break;
		case 'K': o.kill = true; break;
		case 'p': o.pause = true; break;
		case '2': o.two = true; break;
		case 't': o.tracefs = optarg; break;
		default: return 2;
		}
	}
	o.record = argv + optind;
	if (!o.kvmft || !o.dir)
		return 2;
	was = tracefs_state(&o);
	for (uint64_t i = 0; i < o.runs; i++)
		run_seed(&o, o.seed + i, &s, &was);
	printf("%llu runs, %llu failed, %llu with loss: %llu events stored, %llu lost, %llu gaps, %llu "
	       "not where they are told\n",
	       (unsigned long long)s.runs, (unsigned long long)s.failed, (unsigned long long)s.lossy,
	       (unsigned long long)s.stored, (unsigned long long)s.lost, (unsigned long long)s.gaps,
	       (unsigned long long)s.misplaced);
	return s.failed ? 1 : 0;
}
