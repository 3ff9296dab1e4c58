/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record.c: `kvmft record`, host or guest into a capture directory.
 *
 * Order matters here. The kernel is asked about everything that can fail (events, filters, clock)
 * before the output exists; the instance records only when all is ready; TSC offsets are read
 * after kvm_write_tsc_offset is being recorded, so that no change falls in between; and whatever
 * happens, the way back runs through record_undo().
 */
#include "record.h"
#include "cmds.h"
#include "event_sets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#define DEFAULT_BUFFER_KB 8192u /* per CPU, less when memory is short */
#define MIN_BUFFER_KB	  256u
#define MEMORY_PERCENT	  5u
#define SUBBUF_KB	  64u

static const struct opt record_options[] = {
	OPTION('o', "output", OPT_STR, struct record_opts, output, "CAPTURE",
	       "capture directory to make (default: kvmft.data, the old one moves to kvmft.data.old)"),
	OPTION(0, "output-dir", OPT_STR, struct record_opts, output_dir, "DIR",
	       "for cron: the next capture in DIR, named by its time; one recorder at a time"),
	OPTION(0, "keep-captures", OPT_U64, struct record_opts, keep_captures, "N",
	       "with --output-dir: remove the oldest, so that N are left with the new one"),
	OPTION('e', "event", OPT_LIST, struct record_opts, events, "EVENT[/FILTER/]",
	       "sys:event, sys:*, sys or event, with a kernel filter between slashes;\n"
	       "'default' stands for the default set"),
	OPTION(0, "vm", OPT_LIST, struct record_opts, vms, "SEL",
	       "only this VM's threads: UUID, name, PID or PID-FD"),
	OPTION('p', "pid", OPT_LIST, struct record_opts, pids, "PID",
	       "only this process (all its threads and their children)"),
	OPTION('b', "buffer-size", OPT_SIZE, struct record_opts, buffer, "SIZE",
	       "kernel ring per CPU (default: 8M, less when memory is short)"),
	OPTION(0, "clock", OPT_STR, struct record_opts, clock, "CLOCK",
	       "trace clock (default: x86-tsc)"),
	OPTION('d', "duration", OPT_DURATION, struct record_opts, duration, "DURATION",
	       "stop after this time: 250ms, 10s, 5m"),
	OPTION(0, "max-size", OPT_SIZE, struct record_opts, max_size, "SIZE",
	       "stop when this much event data is written"),
	OPTION(0, "min-free", OPT_SIZE, struct record_opts, min_free, "SIZE",
	       "stop before the file system has less free than this"),
	OPTION(0, "overwrite", OPT_FLAG, struct record_opts, overwrite, NULL,
	       "when the ring is full lose the oldest events instead of the newest"),
	OPTION(0, "allow-lost", OPT_FLAG, struct record_opts, allow_lost, NULL,
	       "exit 0 even when events were lost"),
	OPTION(0, "host", OPT_FLAG, struct record_opts, host, NULL,
	       "record as a KVM host (default: told by the machine)"),
	OPTION(0, "guest", OPT_FLAG, struct record_opts, guest, NULL,
	       "record as a guest"),
	OPTION(0, "force", OPT_FLAG, struct record_opts, force, NULL,
	       "replace an existing capture; take a ring larger than 5 % of the memory"),
	OPTION(0, "load-modules", OPT_FLAG, struct record_opts, load_modules, NULL,
	       "load a missing kvm_intel, kvm_amd or kvm (guest: msr)"),
	OPTION('q', "quiet", OPT_FLAG, struct record_opts, quiet, NULL,
	       "say nothing unless something is wrong"),
	OPT_END,
};

/* ---- what to record ---- */

/* A guest is told by KVM's CPUID signature; a nested host has VMs of its own. */
static int record_side(struct record *r)
{
	int ret;

	if (r->o->host && r->o->guest)
		return err_usage(r->err, "--host and --guest exclude each other");
	ret = vm_scan(NULL, &r->vms, r->err);
	if (ret)
		return ret;
	if (r->o->host || r->o->guest)
		r->side = r->o->host ? CAP_SIDE_HOST : CAP_SIDE_GUEST;
	else if (r->vms->n || !str_starts(r->tsc.hv_signature, "KVMKVMKVM"))
		r->side = CAP_SIDE_HOST;
	else
		r->side = CAP_SIDE_GUEST;
	return 0;
}

/* The default sets name what kernels of all ages have; what this one lacks is left out. */
static int events_add_known(struct record *r, const char *const *set)
{
	size_t before = r->events.n;
	int ret = 0;

	for (; *set && !ret; set++) {
		_cleanup_free_ char *spec = strdup(*set);
		char *colon = spec ? strchr(spec, ':') : NULL;

		if (!colon)
			return -ENOMEM;
		*colon = 0;
		if (kevent_exists(r->t, spec, colon + 1) && !kevent_list_has(&r->events, spec, colon + 1))
			ret = kevent_list_add(&r->events, spec, colon + 1, NULL);
	}
	if (!ret && r->events.n == before)
		return -ENOENT;
	return ret;
}

static int record_events(struct record *r)
{
	bool host = r->side == CAP_SIDE_HOST;
	bool want_default = !r->o->events.n;
	int ret = 0;

	for (size_t i = 0; i < r->o->events.n && !ret; i++) {
		if (!strcmp(r->o->events.v[i], "default"))
			want_default = true;
		else
			ret = kevent_expand(r->t, r->o->events.v[i], &r->events, r->err);
	}
	if (ret)
		return ret;
	if (host && want_default) {
		ret = kevent_kvm_check(r->t, r->err);
		if (ret)
			return ret;
	}
	if (want_default) {
		ret = events_add_known(r, host ? event_set_host : event_set_guest);
		if (ret)
			return err_lack(r->err, -ret, "none of the default %s events exists here: %s",
					host ? "host" : "guest", strerror(-ret));
	}
	/* Rare, and without them a change of a guest's clock would go unseen. */
	if (host && kevent_exists(r->t, "kvm", "kvm_write_tsc_offset"))
		ret = events_add_known(r, event_set_clock);
	return ret == -ENOENT ? 0 : ret;
}

static int tids_add(struct record *r, uint32_t pid, const struct vm *vm, const char *what)
{
	struct vm self = { .pid = pid };
	uint32_t *tid = NULL;
	size_t n = 0;
	int ret;

	ret = vm_thread_ids(NULL, vm ? vm : &self, VM_TIDS_PROCESS, &tid, &n);
	if (ret)
		return err_set(r->err, -ret, "no process %s: %s", what, strerror(-ret));
	for (size_t i = 0; i < n && !ret; i++) {
		int32_t *slot = array_grow(&r->tids, r->ntids, &r->tids_cap, sizeof(*slot));

		if (slot) {
			*slot = (int32_t)tid[i];
			r->ntids++;
		} else {
			ret = err_set(r->err, ENOMEM, "out of memory");
		}
	}
	free(tid);
	return ret;
}

static int record_tids(struct record *r)
{
	int ret = 0;

	for (size_t i = 0; i < r->o->vms.n && !ret; i++) {
		const struct vm *vm;

		ret = vm_list_find(r->vms, r->o->vms.v[i], &vm, r->err);
		if (!ret)
			ret = tids_add(r, vm->pid, vm, r->o->vms.v[i]);
	}
	for (size_t i = 0; i < r->o->pids.n && !ret; i++) {
		uint64_t pid;

		if (parse_u64(r->o->pids.v[i], &pid) || !pid || pid > INT32_MAX)
			return err_usage(r->err, "option --pid: '%s' is not a process id",
					 r->o->pids.v[i]);
		ret = tids_add(r, (uint32_t)pid, NULL, r->o->pids.v[i]);
	}
	return ret;
}

/* ---- how much of the machine to take ---- */

static uint64_t mem_available_kb(void)
{
	_cleanup_free_ char *text = NULL;
	const char *p;

	if (file_read_all(AT_FDCWD, "/proc/meminfo", 1 << 16, &text) < 0)
		return 0;
	p = strstr(text, "MemAvailable:");
	return p ? strtoull(p + strlen("MemAvailable:"), NULL, 10) : 0;
}

static int record_buffer_kb(struct record *r, uint64_t *kb)
{
	uint64_t cap = mem_available_kb() * MEMORY_PERCENT / 100 / MAX(r->cpus.n, (size_t)1);

	if (!r->o->buffer.set) {
		*kb = DEFAULT_BUFFER_KB;
		if (cap && cap < *kb)
			*kb = MAX(cap, (uint64_t)MIN_BUFFER_KB);
		return 0;
	}
	*kb = MAX(r->o->buffer.v / 1024, (uint64_t)1);
	if (cap && *kb > cap && !r->o->force)
		return err_set(r->err, ENOMEM,
			       "%llu KiB of ring on each of %zu CPUs is more than %u %% of the "
			       "available memory: at most -b %lluK, or --force",
			       (unsigned long long)*kb, r->cpus.n, MEMORY_PERCENT,
			       (unsigned long long)cap);
	return 0;
}

/* ---- setting up and undoing ---- */

static int record_instance(struct record *r)
{
	struct kinst_config c = KINST_CONFIG_DEFAULT;
	int ret;

	c.clock = r->o->clock;
	c.subbuf_kb = SUBBUF_KB;
	c.buffer_percent = 50;
	c.overwrite = r->o->overwrite;
	c.record_tgid = true;
	c.pid = r->tids;
	c.npid = r->ntids;
	c.event_fork = r->ntids != 0;
	ret = record_buffer_kb(r, &c.buffer_kb);
	if (ret)
		return ret;
	ret = kinst_create(r->t, &c, &r->k, r->err);
	return ret ? ret : kinst_events_add(r->k, &r->events, r->err);
}

static int record_files(struct record *r)
{
	r->drain = calloc(r->cpus.n, sizeof(*r->drain));
	if (!r->drain)
		return err_set(r->err, ENOMEM, "out of memory");
	for (size_t i = 0; i < r->cpus.n; i++)
		r->drain[i].src = r->drain[i].dst = -1;
	for (size_t i = 0; i < r->cpus.n; i++) {
		struct drain_cpu *d = &r->drain[i];

		d->cpu = r->cpus.cpu[i];
		d->src = kinst_raw_open(r->k, d->cpu, false, r->err);
		if (d->src < 0)
			return d->src;
		d->dst = capw_data_open(r->w, 0, d->cpu);
		if (d->dst < 0)
			return err_set(r->err, -d->dst, "cannot create a data file in %s: %s",
				       capw_path(r->w), strerror(-d->dst));
	}
	return 0;
}

static int record_start(struct record *r)
{
	int ret;

	r->budget.max_bytes = r->o->max_size.set ? r->o->max_size.v : 0;
	r->budget.min_free = r->o->min_free.set ? r->o->min_free.v : 0;
	r->budget.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->budget.wake_fd < 0)
		return err_set(r->err, errno, "eventfd: %s", strerror(errno));
	ret = drain_start(r->drain, r->cpus.n, kinst_subbuf_size(r->k), &r->budget);
	if (ret)
		return err_set(r->err, -ret, "cannot start the recording threads: %s",
			       strerror(-ret));
	r->threads = true;
	meta_begin(&r->line, "begin");
	meta_u64(&r->line, "tsc", krdtsc_now());
	ret = capw_meta(r->w, &r->line);
	if (ret)
		return err_set(r->err, -ret, "cannot write meta: %s", strerror(-ret));
	ret = kinst_tracing(r->k, true, r->err);
	if (!ret)
		ret = kinst_events_enable(r->k, r->err);
	r->tracing = true;
	return ret ? ret : record_facts_vms(r, false);
}

/* Events off (not only tracing off: a disabled ring still costs), then empty the ring. */
static int record_stop(struct record *r)
{
	int ret = 0, first = 0;

	if (r->tracing)
		first = kinst_events_disable(r->k);
	r->tracing = false;
	if (r->threads)
		ret = drain_finish(r->drain, r->cpus.n);
	r->threads = false;
	if (first && !r->err->text[0])
		err_set(r->err, -first, "cannot disable the events: %s", strerror(-first));
	for (size_t i = 0; ret && i < r->cpus.n; i++)
		if (r->drain[i].error) {
			err_set(r->err, -r->drain[i].error, "%s the data of CPU %u: %s%s",
				r->drain[i].error_is_write ? "cannot write" : "cannot read",
				r->drain[i].cpu, strerror(-r->drain[i].error),
				r->drain[i].error_is_write
					? "; what was written before is readable"
					: "");
			break;
		}
	return first ? first : ret;
}

static void record_undo(struct record *r)
{
	struct kvmft_err err = { .text = "" };

	if (r->tracing || r->threads)
		record_stop(r);
	for (size_t i = 0; r->drain && i < r->cpus.n; i++) {
		if (r->drain[i].src >= 0)
			close(r->drain[i].src);
		if (r->drain[i].dst >= 0)
			close(r->drain[i].dst);
	}
	free(r->drain);
	if (r->budget.wake_fd >= 0)
		close(r->budget.wake_fd);
	if (kinst_destroy(r->k, &err) && err.text[0])
		cli_note("%s", err.text);
	capw_close(r->w);
	util_close_fd(&r->place);
	vm_list_free(r->vms);
	kevent_list_free(&r->events);
	kcpus_free(&r->cpus);
	ktracefs_close(r->t);
	free(r->tids);
	sbuf_free(&r->line);
}

static int record_prepare(struct record *r)
{
	struct kreset leftovers = { 0 };
	int ret;

	ret = ktracefs_open(NULL, KTRACEFS_MOUNT, &r->t, r->err);
	if (ret)
		return ret;
	ret = ktsc_facts_read(r->t, &r->tsc);
	if (ret)
		return err_set(r->err, -ret, "cannot read CPU facts: %s", strerror(-ret));
	if (kreset_sweep(r->t, false, &leftovers, NULL) == 0 && leftovers.instances && !r->o->quiet)
		cli_note("removed %u instance(s) that a killed kvmft had left", leftovers.instances);
	kreset_free(&leftovers);
	ret = kcpus_read(KCPU_POSSIBLE, &r->cpus);
	if (ret)
		return err_set(r->err, -ret, "cannot read the list of CPUs: %s", strerror(-ret));
	/* For the TSC offsets; a machine without debugfs is told in the VM list, not here. */
	if (vm_debugfs_mount(NULL, NULL))
		errno = 0;
	ret = record_side(r);
	ret = ret ? ret : record_tids(r);
	ret = ret ? ret : record_modules(r);
	ret = ret ? ret : ktracefs_clock_check(r->t, r->o->clock, r->err);
	ret = ret ? ret : record_events(r);
	ret = ret ? ret : record_instance(r);
	ret = ret ? ret : record_output(r);
	ret = ret ? ret : record_files(r);
	return ret ? ret : record_facts_begin(r);
}

static int record_finish(struct record *r)
{
	int ret = record_stop(r), more;

	for (size_t i = 0; i < r->cpus.n; i++)
		r->bytes += r->drain[i].bytes;
	/* Even after a full disk as much as possible is written down; the first error counts. */
	more = record_facts_vms(r, true);
	ret = ret ? ret : more;
	more = record_facts_bracket(r);
	ret = ret ? ret : more;
	more = record_facts_tasks(r);
	ret = ret ? ret : more;
	more = record_facts_stats(r, "end");
	ret = ret ? ret : more;
	more = record_facts_end(r);
	return ret ? ret : more;
}

static int record_result(struct record *r)
{
	const char *path = capw_path(r->w);
	uint64_t unread = 0;
	bool incomplete;
	char size[32];

	for (size_t i = 0; i < r->cpus.n; i++)
		unread += r->drain[i].unread;
	incomplete = (r->lost || unread) && !r->o->allow_lost;
	if (!r->o->quiet || incomplete)
		cli_note("%s: %llu events, %s, %llu lost (%s)", path, (unsigned long long)r->stored,
			 str_bytes(size, sizeof(size), r->bytes), (unsigned long long)r->lost,
			 r->end_reason);
	if (unread)
		cli_note("%llu sub-buffers of events did not fit (%s)", (unsigned long long)unread,
			 r->end_reason);
	return incomplete ? KVMFT_INCOMPLETE : KVMFT_OK;
}

static int record_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct record_opts *o = opts;
	struct record r = { .o = o, .err = err, .budget = { .wake_fd = -1 }, .place = -1 };
	struct record_child child = { .go = -1, .failed = -1 };
	int ret, exit_code = KVMFT_FAILED;

	ret = record_place_options(opts, err);
	ret = ret ? ret : record_environment(argv, err);
	if (ret)
		return ret;
	ret = record_signals_block();
	if (ret)
		return err_set(err, -ret, "cannot block signals: %s", strerror(-ret));
	ret = record_prepare(&r);
	if (!ret && argc)
		ret = record_child_fork(argv, &child, err);
	if (!ret) {
		record_confine(&r, argc != 0);
		ret = record_start(&r);
	}
	if (!ret) {
		record_child_release(&child);
		if (!o->quiet && !argc && !o->duration.set && isatty(STDERR_FILENO))
			cli_note("recording into %s, Ctrl-C ends it", capw_path(r.w));
		ret = record_wait(&r, &child);
	}
	if (!ret && argc)
		ret = record_child_error(&child, argv[0], err);
	record_child_end(&child);
	if (r.threads) {
		struct kvmft_err first = *err;
		int fin = record_finish(&r);

		if (ret)
			*err = first; /* what ended the recording tells more than what followed */
		ret = ret ? ret : fin;
	}
	if (!ret)
		exit_code = record_result(&r);
	record_undo(&r);
	return ret ? ret : exit_code;
}

static void record_defaults(void *opts)
{
	((struct record_opts *)opts)->clock = "x86-tsc";
}

const struct cmd cmd_record = {
	.name = "record",
	.summary = "capture host or guest into a capture directory",
	.args = "[-- COMMAND...]",
	.description = "Records until Ctrl-C, SIGTERM, the duration, or the end of COMMAND. Run it on the host\n"
		       "and in the guest, then bring both captures to one place: kvmft merge HOST GUEST.",
	.examples = "  kvmft record -o host -d 10s          the KVM events of this host, 10 seconds\n"
		    "  kvmft record -o guest -- fio job     in a guest, while fio runs\n"
		    "  kvmft record --vm vm1 -e default -e 'sched:sched_switch'",
	.opts = record_options,
	.opts_size = sizeof(struct record_opts),
	.defaults = record_defaults,
	.run = record_run,
	.min_args = 0,
	.max_args = -1,
};
