/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ring.c: the instance and how much memory it may take, and which CPUs are drained.
 *
 * Only CPUs that are online get descriptors and a thread: a machine may have a thousand possible
 * CPUs and eight real ones. Once a second the list is read again. A CPU that went offline keeps its
 * ring in the kernel, so its thread just finds nothing new until the end.
 */
#include "record.h"

#include <fcntl.h>

#include "kvmft/ktext.h"

#define DEFAULT_BUFFER_KB 8192u /* per CPU, less when memory is short */
#define MIN_BUFFER_KB	  64u
#define MEMORY_PERCENT	  5u
#define BIG_SUBBUF_KB	  64u
#define BIG_BUFFER_KB	  1024u /* from here on big sub-buffers: a ring needs a dozen of them */
#define FDS_PER_CPU	  4u	/* ring, data file, both ends of a pipe */
#define FDS_BESIDES	  64u

/* ---- memory ---- */

bool record_meminfo(const char *name, uint64_t *kb)
{
	_cleanup_free_ char *text = NULL;

	return file_read_all(AT_FDCWD, "/proc/meminfo", 1 << 16, &text) >= 0 &&
	       !ktext_number(text, name, kb);
}

static int online_count(struct record *r, size_t *n)
{
	struct kcpus online = { 0 };
	int ret = kcpus_read(KCPU_ONLINE, &online);

	if (ret)
		return err_why(r->err, ret, "cannot read the list of CPUs");
	*n = MAX(online.n, (size_t)1);
	kcpus_free(&online);
	return 0;
}

/* How much of MemAvailable the ring may take on each of *n CPUs, KiB; 0 = unknown. */
static int budget_kb(struct record *r, uint64_t *most, size_t *n)
{
	int ret = online_count(r, n);
	uint64_t kb;

	*most = !ret && record_meminfo("MemAvailable", &kb) ? kb * MEMORY_PERCENT / 100 / *n : 0;
	return ret;
}

static int buffer_kb(struct record *r, uint64_t *kb)
{
	uint64_t most = 0;
	size_t n = 1;
	int ret = budget_kb(r, &most, &n);

	r->before.most_kb = most;
	*kb = r->c->buffer.set ? MAX(r->c->buffer.v / 1024, (uint64_t)1) : DEFAULT_BUFFER_KB;
	if (ret || !most || *kb <= most)
		return ret;
	if (!r->c->buffer.set) {
		*kb = MAX(most, (uint64_t)MIN_BUFFER_KB);
		if (*kb == most)
			return 0;
	}
	if (r->c->force)
		return 0;
	return err_set(r->err, ENOMEM,
		       "%llu KiB of ring on each of %zu CPUs is more than %u %% of the available "
		       "memory: at most -b %lluK%s",
		       (unsigned long long)*kb, n, MEMORY_PERCENT, (unsigned long long)most,
		       r->c->control.on ? "" : ", or --force"); /* that applies only to a
								 * recorder */
}

/* Overriding the budget is reported. */
static void say_forced(struct record *r)
{
	uint64_t most = 0, kb = kinst_buffer_kb(r->k);
	size_t n = 1;

	if (!r->c->force || r->c->quiet || budget_kb(r, &most, &n) || !most || kb <= most)
		return;
	r->note("forced: %llu KiB of ring on each of %zu CPUs, more than %u %% of the available "
		 "memory (%llu KiB for all)",
		 (unsigned long long)kb, n, MEMORY_PERCENT, (unsigned long long)(most * n));
}

int record_instance(struct record *r)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	int ret;

	c.buffer_percent = 50;
	c.overwrite = r->c->overwrite || r->c->flight;
	r->tgids = c.record_tgid = record_wants_tgids(r);
	c.pid = r->tids.v;
	c.npid = r->tids.n;
	c.event_fork = r->tids.n != 0;
	ret = buffer_kb(r, &c.buffer_kb);
	if (ret)
		return ret;
	c.subbuf_kb = c.buffer_kb >= BIG_BUFFER_KB ? BIG_SUBBUF_KB : 0;
	ret = kinst_create(r->t, &c, &r->k, r->err);
	if (ret)
		return ret;
	say_forced(r);
	record_clocks_first(r);
	ret = kinst_set_clock(r->k, r->c->clock, r->err);
	return ret ?: kinst_events_add(r->k, &r->events, r->err);
}

uint64_t record_ring_bytes(const struct record *r)
{
	return kinst_buffer_kb(r->k) * 1024;
}

/* ---- of this process ---- */

int record_affinity(struct record *r)
{
	size_t size = CPU_ALLOC_SIZE(CAPTURE_MAX_CPUS);
	struct kcpus list = { 0 };
	cpu_set_t *set;
	int ret;

	if (!r->c->cpus)
		return 0;
	ret = kcpus_parse(r->c->cpus, &list);
	if (ret || !list.n) {
		kcpus_free(&list);
		return err_usage(r->err, "option --cpus: '%s' is not a list such as 0-3,8",
				 r->c->cpus);
	}
	set = calloc(1, size);
	r->env.affinity = calloc(1, size);
	r->env.affinity_size = size;
	for (size_t i = 0; set && i < list.n; i++)
		CPU_SET_S(list.cpu[i], size, set);
	kcpus_free(&list);
	if (!set || !r->env.affinity)
		ret = err_set(r->err, ENOMEM, "out of memory");
	else if (sched_getaffinity(0, size, r->env.affinity) || sched_setaffinity(0, size, set))
		ret = err_set(r->err, errno, "cannot run on CPUs %s only: %s", r->c->cpus,
			      errno == EINVAL ? "none of them is online" : strerror(errno));
	free(set);
	return ret;
}

int record_nofile(struct record *r)
{
	uint64_t want = r->ncpu_max * FDS_PER_CPU + FDS_BESIDES;
	struct rlimit now;

	if (getrlimit(RLIMIT_NOFILE, &now))
		return 0;
	r->env.nofile = now;
	r->env.has_nofile = true;
	if (now.rlim_cur == RLIM_INFINITY || now.rlim_cur >= want)
		return 0;
	now.rlim_cur = want;
	now.rlim_max = MAX(now.rlim_max, now.rlim_cur);
	if (!setrlimit(RLIMIT_NOFILE, &now))
		return 0;
	/* Not allowed to raise the hard limit: the current one may do for the online CPUs. */
	now = r->env.nofile;
	now.rlim_cur = now.rlim_max;
	(void)!setrlimit(RLIMIT_NOFILE, &now);
	return 0;
}

/* ---- CPUs ---- */

static bool cpu_known(const struct record *r, uint32_t cpu)
{
	for (size_t i = 0; i < r->ncpu; i++)
		if (r->drain[i].cpu == cpu)
			return true;
	return false;
}

/* What to do about it, if that is known. */
static int too_many_files(struct record *r, int ret)
{
	if (ret == -ENOBUFS)
		return err_lack(r->err, ENOBUFS,
				"cannot make a pipe of %u KiB for each CPU: raise "
				"fs.pipe-user-pages-soft (sysctl)",
				r->store.subbuf / 1024);
	if (ret != -EMFILE)
		return ret;
	return err_set(r->err, EMFILE,
		       "%zu descriptors are needed for %zu CPUs, more than this process "
		       "may have: raise the limit (ulimit -Hn, LimitNOFILE=)",
		       (size_t)(r->ncpu_max * FDS_PER_CPU + FDS_BESIDES), r->ncpu_max);
}

static int cpu_add(struct record *r, uint32_t cpu)
{
	struct drain_cpu *d = &r->drain[r->ncpu];
	int ret;

	*d = (struct drain_cpu){ .cpu = cpu, .store = &r->store, .src = -1 };
	d->pipe[0] = d->pipe[1] = d->dst = -1;
	r->ncpu++;
	d->src = kinst_raw_open(r->k, cpu, r->c->flight, r->err);
	if (d->src < 0)
		return too_many_files(r, d->src);
	ret = drain_open(d);
	if (ret == -EMFILE || ret == -ENOBUFS)
		return too_many_files(r, ret);
	return err_why(r->err, ret, "cannot create a data file in %s", capw_path(r->w));
}

static int cpus_start(struct record *r)
{
	int ret = 0;

	for (size_t i = 0; i < r->ncpu && !ret && !r->c->flight; i++)
		ret = r->drain[i].started ? 0 : drain_start(&r->drain[i]);
	return err_why(r->err, ret, "cannot start a recording thread");
}

int record_cpus_open(struct record *r)
{
	struct kcpus online = { 0 };
	int ret = kcpus_read(KCPU_ONLINE, &online);

	if (ret)
		return err_why(r->err, ret, "cannot read the list of CPUs");
	for (size_t i = 0; i < online.n && r->ncpu < r->ncpu_max && !ret; i++)
		if (!cpu_known(r, online.cpu[i]))
			ret = cpu_add(r, online.cpu[i]);
	kcpus_free(&online);
	return ret;
}

int record_cpus(struct record *r)
{
	size_t before = r->ncpu;
	int ret = record_cpus_open(r);

	ret = ret ?: cpus_start(r);
	if (ret || !r->started || r->ncpu == before)
		return ret;
	for (size_t i = before; i < r->ncpu && !r->c->quiet; i++)
		r->note("CPU %u came online and is recorded too", r->drain[i].cpu);
	return record_facts_cpus(r);
}
