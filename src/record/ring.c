/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ring.c: the instance, how much memory it may take, which CPUs are drained, and which clocks are
 * read in it; what was produced, stored and lost.
 */
#include "record.h"

#include "kvmft/util.h"
#include "kvmft/kernel.h"
#include "kvmft/ring.h"

/*
 * What a capture says about clocks that user space cannot read: the trace clocks local,
 * global and perf against the TSC, at the beginning and at the end, and the line of
 * CLOCK_MONOTONIC_RAW.
 *
 * All of it is optional: what the kernel does not provide is missing in the capture, and a
 * conversion that needs it says so.
 *
 * The recording instance is used for it, before its first event and after its last: making and
 * removing another one would cost 6 to 8 ms of CPU, while a whole short recording costs 60. A new
 * instance has the clock local; changing it costs an RCU grace period, some 20 ms, so global and
 * perf are not read at the beginning if the boot log gives their exact distance from local.
 */

#define TRIES 32

static const char *const sampled[RECORD_CLOCKS] = { "local", "global", "perf" };

static int put_sample(struct record *r, const char *clock, const struct kclock_sample *s)
{
	if (s->width == UINT64_MAX)
		return 0;
	meta_clock(&r->line, clock, s->tsc, s->width, s->ns);
	return record_put(r);
}

int record_clocks_end(struct record *r)
{
	struct kclock_sample s;
	int ret = 0;

	for (size_t i = 0; i < RECORD_CLOCKS && !ret; i++)
		if (!kclock_sample(r->k, sampled[i], TRIES, &s, NULL)) {
			r->cycles = s.tsc - r->clocks[i].tsc;
			ret = put_sample(r, sampled[i], &s);
		}
	return ret;
}

int record_clocks_begin(struct record *r, const struct kguest_clock *g)
{
	struct mono_raw_line m;
	int ret = 0;

	for (size_t i = 0; i < RECORD_CLOCKS && !ret; i++)
		ret = put_sample(r, sampled[i], &r->clocks[i]);
	if (ret || !mono_raw_learn(r->t, r->tsc.clocksource, g, &m))
		return ret;
	meta_raw(&r->line, &(struct cap_raw){ .over_kvmclock = m.over_kvmclock, .line = m.raw });
	meta_str(&r->line, "source", m.source);
	return record_put(r);
}

/*
 * Every event that was produced is in the capture or counted as lost, per CPU.
 *
 * A ring that overwrites its oldest events flags and counts them in the data. One that refuses new
 * events when it is full only counts them, so the threads read that counter each time they have
 * taken something: if it rose, that is written to meta, as the stretch of time between two
 * readings. What was taken from the kernel but did not fit on the disk is counted event by event;
 * what was left in the kernel is counted there.
 */

/* From here on an output is called too slow: of the time, or of what a pipe holds. */
#define SLOW_PERCENT 50u
#define SLOW_NS	     100000000u

/* ---- from the draining threads ---- */

int record_loss_join(void *record, void *subbuf, const void *more)
{
	const struct subbuf_geom g = subbuf_geom_here(((struct record *)record)->store.subbuf);

	return subbuf_join(subbuf, more, &g);
}

uint64_t record_loss_events(void *record, const void *data)
{
	const struct subbuf_geom g = subbuf_geom_here(((struct record *)record)->store.subbuf);
	struct subbuf sb;
	struct rec rec = { 0 };
	uint64_t n = 0;

	if (subbuf_begin(&sb, data, &g))
		return 0;
	while (subbuf_next(&sb, &rec) > 0)
		n++;
	return n;
}

/* Sub-buffers of the ring; the kernel rounds up, and has at least two. */
static uint64_t ring_subbufs(const struct record *r)
{
	uint64_t data = r->store.subbuf - 8 - sizeof(long);

	return MAX((record_ring_bytes(r) + data - 1) / data, (uint64_t)2);
}

static uint64_t subbufs_taken(const struct record *r, const struct drain_cpu *c)
{
	return c->bytes / r->store.subbuf + c->dropped;
}

void record_loss_look(void *record, struct drain_cpu *c)
{
	struct record *r = record;
	struct record_seen *seen = &r->seen[c - r->drain];
	struct kstats s;

	/* Only a ring that keeps the oldest events refuses new ones. */
	if (r->c->flight || kinst_stats(r->k, c->cpu, &s, NULL) || !s.now)
		return;
	if (s.dropped > seen->dropped) {
		const struct cap_loss loss = {
			.cpu = c->cpu, .count = s.dropped - seen->dropped, .from = seen->now,
			.to = s.now + s.now_step, .first = seen->taken + ring_subbufs(r),
			.last = subbufs_taken(r, c) + ring_subbufs(r) + 2,
		};
		struct sbuf line = { 0 };

		/*
		 * The ring was full when it refused, so the loss is before the sub-buffer that
		 * comes a whole ring after those taken by then: at least those of the last look, at
		 * most those of now. One more may be with the reader, outside the ring, and with
		 * --flush be taken in two parts.
		 */
		meta_lost(&line, &loss);
		record_store_add(r, &line);
	}
	seen->dropped = s.dropped;
	seen->now = s.now;
	seen->taken = subbufs_taken(r, c);
}

/* ---- begin and end ---- */

static int stats_record(struct record *r, const struct drain_cpu *c, bool end, struct kstats *s)
{
	int ret = kinst_stats(r->k, c->cpu, s, NULL);

	if (ret)
		return err_why(r->err, ret, "cannot read the statistics of CPU %u", c->cpu);
	meta_stats(&r->line, end ? "end" : "begin", c->cpu,
		   &(struct cap_cpustat){ .entries = s->entries,
					  .overrun = s->overrun,
					  .commit_overrun = s->commit_overrun,
					  .dropped = s->dropped,
					  .read = s->read });
	if (end)
		meta_u64(&r->line, "subbufs", c->bytes / r->store.subbuf);
	if (end && c->dropped_events)
		meta_u64(&r->line, "unstored", c->dropped_events);
	return record_put(r);
}

int record_loss_begin(struct record *r)
{
	struct kstats s = { .now = 0 };
	int ret = 0;

	for (size_t i = 0; i < r->ncpu && !ret; i++) {
		ret = stats_record(r, &r->drain[i], false, &s);
		r->seen[i].now = s.now;
	}
	return ret;
}

static void add_cause(struct sbuf *b, uint64_t n, const char *what)
{
	if (n)
		sbuf_addf(b, "%s%llu %s", b->len ? ", " : "", (unsigned long long)n, what);
}

static void note_loss(const struct record *r, const struct drain_cpu *c, const struct kstats *s,
		      uint64_t lost, uint64_t produced)
{
	uint64_t total = util_now_ns() - r->live_ns, percent;
	_cleanup_(sbuf_free) struct sbuf why = { 0 };

	if (!lost)
		return;
	add_cause(&why, s->dropped, "found the ring full");
	add_cause(&why, s->commit_overrun, "came while an interrupted one was being written");
	add_cause(&why, c->dropped_events + s->entries, "were not written out");
	/* The ring was full: was that because the output could not take more? */
	if (s->dropped && c->write_ns && total) {
		percent = MIN(c->write_ns * 100 / total, (uint64_t)100);
		sbuf_addf(&why, "; the output took %llu %% of the time, up to %llu ms at once%s",
			  (unsigned long long)percent,
			  (unsigned long long)c->write_max_ns / 1000000,
			  percent >= SLOW_PERCENT || c->write_max_ns >= SLOW_NS ? ": it is too slow"
										: "");
	}
	r->note("CPU %u lost %llu of %llu events (%s)", c->cpu, (unsigned long long)lost,
		(unsigned long long)produced, why.s ?: "");
}

int record_loss_end(struct record *r)
{
	bool full = false;
	int ret = 0;

	for (size_t i = 0; i < r->ncpu && !ret; i++) {
		const struct drain_cpu *c = &r->drain[i];
		struct kstats s;
		uint64_t lost;

		ret = stats_record(r, c, true, &s);
		if (ret)
			break;
		/* What a flight recorder overwrites was not requested. */
		lost = s.dropped + s.commit_overrun + c->dropped_events;
		lost += r->c->flight ? 0 : s.entries;
		r->lost += lost;
		r->stored += s.read - MIN(c->dropped_events, s.read);
		note_loss(r, c, &s, lost, s.read + lost - c->dropped_events);
		if (c->uncounted)
			r->note("CPU %u: %llu sub-buffers were lost half written: how many events "
				"they held is unknown",
				c->cpu, (unsigned long long)c->uncounted);
		full |= s.dropped;
	}
	if (full)
		r->note("to lose fewer: a larger ring (--buffer-size), or fewer events (--event with a "
			"filter, --vm)");
	return ret;
}

#define DEFAULT_BUFFER_KB 8192u /* per CPU, less when memory is short */
#define MIN_BUFFER_KB	  64u
#define MEMORY_PERCENT	  5u
#define BIG_SUBBUF_KB	  64u
#define BIG_BUFFER_KB	  1024u /* from here on big sub-buffers: a ring needs a dozen of them */
#define FDS_PER_CPU	  4u	/* ring, data file, both ends of a pipe */
#define FDS_BESIDES	  64u

/* ---- the instance, and how much memory it may take ---- */

bool record_meminfo(const char *name, uint64_t *kb)
{
	_cleanup_free_ char *text = NULL;

	return file_read_all(AT_FDCWD, "/proc/meminfo", 1 << 16, &text) >= 0 &&
	       !ktext_number(text, name, kb);
}

/* How much of MemAvailable the ring may take on each of *n CPUs, KiB; 0 = unknown. */
static int budget_kb(struct record *r, uint64_t *most, size_t *n)
{
	_cleanup_(kcpus_free) struct kcpus online = { 0 };
	int ret = kcpus_read(KCPU_ONLINE, &online);
	uint64_t kb;

	*n = MAX(online.n, (size_t)1);
	*most = !ret && record_meminfo("MemAvailable", &kb) ? kb * MEMORY_PERCENT / 100 / *n : 0;
	return err_why(r->err, ret, "cannot read the list of CPUs");
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

int record_instance(struct record *r)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	uint64_t most = 0, kb;
	size_t n = 1;
	int ret;
	struct kclock_sample *v;

	c.buffer_percent = 50;
	c.overwrite = r->c->flight;
	/* Do events come from threads that may have ended before /proc is read? */
	r->tgids = r->side & CAP_SIDE_GUEST || r->marker != RECORD_MARKER_NONE;
	for (size_t i = 0; i < r->events.n; i++)
		r->tgids |= strcmp(r->events.v[i].sys, "kvm") != 0;
	c.record_tgid = r->tgids;
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
	kb = kinst_buffer_kb(r->k);
	if (r->c->force && !r->c->quiet && !budget_kb(r, &most, &n) && most && kb > most)
		r->note("forced: %llu KiB of ring on each of %zu CPUs, more than %u %% of the "
			"available memory (%llu KiB for all)",
			(unsigned long long)kb, n, MEMORY_PERCENT, (unsigned long long)(most * n));
	v = r->clocks;
	for (size_t i = 0; i < RECORD_CLOCKS; i++) {
		if (i && r->tsc.sched_stable && v[0].width != UINT64_MAX) {
			v[i] = v[0];
			v[i].ns += (uint64_t)r->tsc.sched_offset;
		} else if (kclock_sample(r->k, sampled[i], TRIES, &v[i], NULL)) {
			v[i].width = UINT64_MAX;
		}
	}
	ret = kinst_set_clock(r->k, r->c->clock, r->err);
	return ret ?: kinst_events_add(r->k, &r->events, r->err);
}

uint64_t record_ring_bytes(const struct record *r)
{
	return kinst_buffer_kb(r->k) * 1024;
}

/* ---- of this process ---- */

void record_nofile(struct record *r)
{
	uint64_t want = r->ncpu_max * FDS_PER_CPU + FDS_BESIDES;
	struct rlimit now;

	if (getrlimit(RLIMIT_NOFILE, &now))
		return;
	r->env.nofile = now;
	r->env.has_nofile = true;
	if (now.rlim_cur == RLIM_INFINITY || now.rlim_cur >= want)
		return;
	now.rlim_cur = want;
	now.rlim_max = MAX(now.rlim_max, now.rlim_cur);
	if (!setrlimit(RLIMIT_NOFILE, &now))
		return;
	/* Not allowed to raise the hard limit: the current one may do for the online CPUs. */
	now = r->env.nofile;
	now.rlim_cur = now.rlim_max;
	(void)!setrlimit(RLIMIT_NOFILE, &now);
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

int record_cpus_open(struct record *r)
{
	_cleanup_(kcpus_free) struct kcpus online = { 0 };
	int ret = kcpus_read(KCPU_ONLINE, &online);

	if (ret)
		return err_why(r->err, ret, "cannot read the list of CPUs");
	for (size_t i = 0; i < online.n && r->ncpu < r->ncpu_max && !ret; i++) {
		struct drain_cpu *d = &r->drain[r->ncpu];
		bool known = false;

		for (size_t k = 0; k < r->ncpu; k++)
			known |= r->drain[k].cpu == online.cpu[i];
		if (known)
			continue;
		*d = (struct drain_cpu){ .cpu = online.cpu[i], .store = &r->store, .src = -1 };
		d->pipe[0] = d->pipe[1] = d->dst = -1;
		r->ncpu++;
		d->src = kinst_raw_open(r->k, d->cpu, r->c->flight, r->err);
		ret = d->src < 0 ? d->src : drain_open(d);
		if (d->src < 0 || ret == -EMFILE || ret == -ENOBUFS)
			ret = too_many_files(r, ret);
		else
			ret = err_why(r->err, ret, "cannot create a data file in %s", capw_path(r->w));
	}
	return ret;
}

int record_cpus(struct record *r)
{
	size_t before = r->ncpu;
	int ret = record_cpus_open(r);

	if (ret)
		return ret;
	for (size_t i = 0; i < r->ncpu && !ret && !r->c->flight; i++)
		ret = r->drain[i].started ? 0 : drain_start(&r->drain[i]);
	if (ret)
		return err_why(r->err, ret, "cannot start a recording thread");
	if (!r->started || r->ncpu == before)
		return 0;
	for (size_t i = before; i < r->ncpu && !r->c->quiet; i++)
		r->note("CPU %u came online and is recorded too", r->drain[i].cpu);
	return record_facts_cpus(r);
}
