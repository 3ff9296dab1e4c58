/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * prove.c: `kvmft check --prove`: starts the guest, records its host as anybody would, writes what
 * the guest itself read of its clock as captures of two guests, and aligns them with the recording.
 */
#include "prove.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kvmft/kernel.h"
#include "kvmft/pairing.h"
#include "kvmft/record.h"
#include "kvmft/sides.h"
#include "kvmft/capture.h"

#define STAMP_ID     2000u /* of the format below */
#define GUEST_SUBBUF 4096u
#define TIMEOUT_MS   120000 /* an emulated machine takes 20 s */

/* ---- the two processes ---- */

struct child {
	pid_t pid;
	int said, orders; /* a byte when it is ready; what it shall do */
};

struct parts {
	struct truth *truth;
	const char *host;
	pid_t vmm;
	int ready, go;
	note_fn *note;
	struct kvmft_err *err;
};

static void tell_live(void *ctx, enum record_news what, int status __unused_arg,
		      const struct record_progress *p __unused_arg)
{
	const struct parts *x = ctx;

	if (what == RECORD_NEWS_LIVE)
		(void)!full_write(x->ready, "+", 1, NULL);
}

static int run_guest(struct parts *x)
{
	x->truth->ret = prove_guest(x->truth, x->ready, x->go);
	return x->truth->ret ? 1 : 0;
}

/* With a line of its own on stderr when it fails: it is the same program as ever. */
static int run_recorder(struct parts *x)
{
	struct record_config c = {
		.output = x->host, .clock = kclock_default(),
		.profile = -1, .as = RECORD_AS_HOST, .quiet = true,
		.control = { .on = true,
			     .fd = x->go, .outlive = true, .news = tell_live,
			     .ctx = x },
	};
	char pid[16], *none = NULL;
	int ret;

	/* Whoever takes it over must not write what its recording is held against. */
	munmap(x->truth, sizeof(*x->truth));
	snprintf(pid, sizeof(pid), "%d", x->vmm);
	c.pids = (struct str_list){ .v = (const char *[]){ pid }, .n = 1 };
	ret = record_run(&c, &none, x->note, x->err);
	if (ret < 0)
		x->note("%s", x->err->text);
	return ret < 0 ? 1 : ret;
}

static int child_start(struct child *c, int (*run)(struct parts *x), const struct parts *parts)
{
	struct parts x = *parts;
	int end[2];

	c->pid = fork_piped(end);
	if (c->pid < 0)
		return err_why(x.err, c->pid, "fork");
	if (!c->pid) {
		x.ready = end[0];
		x.go = end[1];
		fds_keep((const int[]){ x.ready, x.go, STDERR_FILENO }, 3);
		_exit(run(&x));
	}
	c->orders = end[0];
	c->said = end[1];
	return 0;
}

/* 0: it wrote a byte, or with for_end it ended, in time. */
static int child_wait(const struct child *c, bool for_end)
{
	struct pollfd p = { .fd = c->said, .events = POLLIN };
	char byte;

	if (poll(&p, 1, TIMEOUT_MS) <= 0)
		return -ETIMEDOUT;
	return for_end || read(c->said, &byte, 1) == 1 ? 0 : -EPIPE;
}

/* Its exit status, or -1: it had to be killed. */
static int child_end(struct child *c)
{
	int status = -1;

	if (c->pid <= 0)
		return -1;
	close(c->orders);
	if (child_wait(c, true))
		kill(c->pid, SIGKILL);
	close(c->said);
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Losses, with which the recorder ends as well (3), are for the judge. */
static int run_both(struct parts *x)
{
	struct child guest = { 0 }, recorder = { 0 };
	int ret = child_start(&guest, run_guest, x), end;
	bool failed = !ret && child_wait(&guest, false);

	x->vmm = guest.pid;
	if (!ret && !failed)
		ret = child_start(&recorder, run_recorder, x);
	if (!ret && !failed && child_wait(&recorder, false))
		ret = err_set(x->err, EIO, "kvmft record does not begin: kvmft check says more");
	if (!ret && !failed)
		failed = full_write(guest.orders, "+", 1, NULL) || child_wait(&guest, false);
	if (recorder.pid > 0)
		(void)!full_write(recorder.orders, "stop\n", 5, NULL);
	end = child_end(&recorder);
	if (!ret && !failed && end != 0 && end != 3)
		ret = err_set(x->err, EIO, "kvmft record failed");
	if ((ret || failed) && guest.pid > 0)
		kill(guest.pid, SIGKILL);
	child_end(&guest);
	if (ret || !failed)
		return ret;
	if (!x->truth->err.text[0])
		return err_set(x->err, EIO, "the guest does not end, or was killed");
	*x->err = x->truth->err;
	return x->truth->ret;
}

/* ---- captures of the guests ---- */

#ifdef __aarch64__
#define ARCH	"aarch64"
#define SOURCE	"cntfrq_el0"
#define STEPS	"{ 1, \"mrs\" }, { 2, \"hvc\" }, { 3, \"mmio\" }, { 4, \"wfi\" })\n"
#else
#define ARCH	"x86_64"
#define SOURCE	"kvm"
#define STEPS                                                                               \
	"{ 1, \"cpuid\" }, { 2, \"rdmsr\" }, { 3, \"out\" }, { 4, \"mmio\" }, { 5, \"hlt\" })\n"
#endif

static const char stamp_format[] =
	"name: stamp\nID: 2000\nformat:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
	"\tfield:unsigned int step;\toffset:8;\tsize:4;\tsigned:0;\n\n"
	"print fmt: \"after %s\", __print_symbolic(REC->step, { 0, \"nothing\" }, " STEPS;
static const char header_page[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
				  "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
				  "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
				  "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

static int emit_stamps(void *arg, const void *buf)
{
	return full_write(*(int *)arg, buf, GUEST_SUBBUF, NULL);
}

static int put_stamps(struct capw *w, unsigned int cpu, const struct truth_vcpu *v)
{
	const struct subbuf_geom g = subbuf_geom_here(GUEST_SUBBUF);
	int fd = capw_data_open(w, 0, cpu), ret;
	struct subbuf_writer out;

	if (fd < 0)
		return fd;
	ret = subbuf_writer_init(&out, &g, emit_stamps, &fd);
	for (uint64_t i = 0; i < v->n && !ret; i++) {
		const struct {
			uint16_t id;
			uint16_t flags;
			int32_t pid;
			uint32_t step;
		} e = { STAMP_ID, 0, 1 + (int32_t)cpu, (uint32_t)(i % TRUTH_STEPS) };

		ret = subbuf_write(&out, v->stamp[i], &e, sizeof(e));
	}
	ret = ret ?: subbuf_write_end(&out);
	subbuf_writer_free(&out);
	close(fd);
	return ret;
}

static int prove_guest_capture(int dir, const char *name, const struct truth_vm *vm,
			       struct kvmft_err *err)
{
	struct capw_name place;
	struct sbuf meta = { 0 };
	struct capw *w = NULL;
	int ret = capw_name_init(&place, dir, "", name, CAPW_REFUSE, err);

	ret = ret ?: capw_create(&place, &w, err);
	if (ret)
		return ret;
	sbuf_addf(&meta,
		  "side name=guest\nmachine arch=" ARCH " long=8 endian=little\n"
		  "ring clock=x86-tsc subbuf=%u header=16\ntsc khz=%llu source=" SOURCE "\n"
		  "event id=%u sys=prove name=stamp\n",
		  GUEST_SUBBUF, (unsigned long long)vm->khz, STAMP_ID);
	for (uint32_t i = 0; i < vm->vcpus; i++)
		sbuf_addf(&meta, "cpu n=%u apicid=%u\n", i, i);
	sbuf_addf(&meta, "begin tsc=%llu\nend reason=end",
		  (unsigned long long)vm->vcpu[0].stamp[0]);
	ret = capw_meta(w, &meta);
	sbuf_free(&meta);
	ret = ret ?: capw_file(w, "header_page", header_page, sizeof(header_page) - 1);
	ret = ret ?: capw_file(w, "events/prove/stamp", stamp_format, sizeof(stamp_format) - 1);
	ret = ret ?: capw_segment_make(w, 0);
	for (uint32_t i = 0; i < vm->vcpus && !ret; i++)
		ret = put_stamps(w, i, &vm->vcpu[i]);
	capw_close(w);
	if (ret)
		return err_why(err, ret, "cannot write %s", name);
	ret = capw_name_take(&place, err);
	return ret ?: capw_name_done(&place, err);
}

/* ---- what they show ---- */

static void judge_offsets(struct prove_vm *v, const struct truth_vm *vm, const struct epoch_vm *e)
{
	for (uint32_t id = 0; id < vm->vcpus; id++) {
		const struct truth_vcpu *t = &vm->vcpu[id];
		const struct epoch_vcpu *c = e ? epoch_vm_find(e, id) : NULL;

		for (int i = 0; t->has_offset && i <= t->changed; i++) {
			const struct epoch *at = c && c->n ? &c->v[i ? c->n - 1 : 0] : NULL;

			v->offsets++;
			v->offsets_right += at && at->has_map && at->map.offset == t->offset[i];
		}
	}
}

/* arm64: the range that the events leave has to meet that of the truth. */
static void judge_found(struct prove_vm *v, const struct truth_vm *vm, const struct match *m)
{
	const struct solve_result *r = &m->sol.r;

	if (!vm->offset_width || !m->solved || !r->found)
		return;
	v->bound = MAX(solution_bound(&m->sol), UINT64_C(1));
	v->offsets = 1;
	v->offsets_right = (int64_t)(r->offset_hi - vm->offset) >= 0 &&
			   (int64_t)(vm->offset + vm->offset_width - r->offset_lo) >= 0;
}

COMPARE_BY(by_size, uint64_t, );

/* From interrupts to the next stamp. One before a halt woke nobody; later both share a CPU. */
static void judge_wakes(struct prove *p, const struct truth *t, const struct epoch_vm *e)
{
	const struct truth_vcpu *v = &t->vm[0].vcpu[0];
	const struct epoch_vcpu *c = e ? epoch_vm_find(e, 0) : NULL;
	uint64_t *took = xcalloc(TRUTH_KICKS, sizeof(*took)), k = 0, halted, woke, hi;

	for (uint64_t i = TRUTH_HALT; i < v->before; i += TRUTH_STEPS) {
		if (!epoch_result_usable(epoch_guest_to_host(c, v->stamp[i - 1], &halted, &hi)) ||
		    !epoch_result_usable(epoch_guest_to_host(c, v->stamp[i], &woke, &hi)))
			continue;
		while (k < t->kicks && t->kick[k] <= halted)
			k++;
		if (k < t->kicks && t->kick[k] < woke && t->host_khz)
			took[p->wakes++] = tsc_cycles_to_ns(woke - t->kick[k], t->host_khz);
	}
	array_sort(took, p->wakes, by_size);
	if (p->wakes) {
		p->wake_median = took[p->wakes / 2];
		p->wake_p99 = took[p->wakes * 99 / 100];
		p->wake_max = took[p->wakes - 1];
	}
	free(took);
}

static int judge_all(struct prove *p, const struct truth *t, const struct pairing *pair,
		     struct kvmft_err *err)
{
	_cleanup_free_ uint64_t *count = xcalloc(65536, sizeof(*count));
	_cleanup_(sbuf_free) struct sbuf raised = { 0 };
	const struct fmt_event *e;
	const struct tl_item *item;
	struct windows *w = NULL;
	struct tl_loss loss;
	int ret;

	win_new(pair->t, &w);
	while ((ret = tl_next(pair->t, &item)) > 0) {
		win_feed(w, item);
		if (item->kind == TL_EVENT && !item->guest) {
			count[item->rec->id]++;
			p->events++;
		}
	}
	if (!ret)
		win_finish(w);
	for (size_t i = 0; (e = fmt_at(pair->host.fmt, i)); i++)
		if (count[fmt_id(e)] && !strcmp(fmt_sys(e), "kvm"))
			sbuf_addf(&raised, "%s%s %" PRIu64, raised.len ? ", " : ": ", fmt_name(e),
				  count[fmt_id(e)]);
	if (!ret && !pair->map->entries)
		ret = err_lack(err, ENOTSUP,
			       "the KVM of this machine raised no kvm_entry while guests of kvmft's "
			       "own ran, so exits, and when guests run, cannot be recorded here; "
			       "events of KVM that it raised%.300s", raised.s ?: ": none");
	for (size_t i = 0; i < pair->nguest && !ret; i++) {
		const struct pairing_guest *g = &pair->guest[i];
		const struct epoch_vm *epochs = pair->map->vm[g->vm].epochs;
		struct prove_vm *v = &p->vm[p->nvm++];
		const struct tsc_map *m;

		v->moved = i && t->vm[i].offset_width;
		v->scaled = i && !v->moved;
		v->khz = t->vm[i].khz;
		for (uint32_t k = 0; k < t->vm[i].vcpus; k++)
			v->stamps += t->vm[i].vcpu[k].n;
		align_measure(w, g->vm, &v->align);
		v->verdict = proof_judge(&(struct proof_facts){
			.windows = &v->align, .solved = g->match.solved ? &g->match.sol : NULL });
		judge_offsets(v, &t->vm[i], epochs);
		judge_found(v, &t->vm[i], &g->match);
		/* As set_tsc_khz() in arch/x86/kvm/x86.c makes it of two rates. */
		m = epochs ? epoch_vm_first_map(epochs) : NULL;
		v->ratio_right = v->scaled && m && m->frac && t->host_khz &&
				 m->ratio == (uint64_t)(((unsigned __int128)v->khz << m->frac) /
							t->host_khz);
		if (!i)
			judge_wakes(p, t, epochs);
	}
	for (size_t i = 0; (e = fmt_at(pair->host.fmt, i)); i++) {
		struct prove_event *to;

		if (!count[fmt_id(e)])
			continue;
		to = xarray_grow(&p->event, p->nevent, &p->event_cap, sizeof(*to));
		p->nevent++;
		to->count = count[fmt_id(e)];
		snprintf(to->name, sizeof(to->name), "%s:%s", fmt_sys(e), fmt_name(e));
	}
	tl_loss(tl_source(pair->t, 0), &loss);
	p->lost = loss.total;
	p->lost_unknown = loss.unknown;
	win_free(w);
	return ret;
}

/* By the open directory: whoever owns the one above could have put another in its place. */
static int judge_recording(int dir, struct prove *p, const struct truth *t, pid_t vmm,
			   struct kvmft_err *err)
{
	const struct pairing_opts po = { .undecided_ok = true, .need = PAIRING_CLOCKS };
	_cleanup_(sbuf_free) struct sbuf host = { 0 };
	struct sbuf guest[TRUTH_VMS] = { 0 };
	char *guests[TRUTH_VMS];
	struct pairing pair = { 0 };
	size_t n = 0;
	int ret;

	sbuf_addf(&host, "/proc/self/fd/%d/host", dir);
	for (; n < TRUTH_VMS && t->vm[n].vcpus; n++) {
		sbuf_addf(&guest[n], "/proc/self/fd/%d/guest%zu=%d-%d", dir, n, (int)vmm,
			  t->vm[n].fd);
		guests[n] = guest[n].s;
	}
	ret = host.error || guest[0].error || guest[1].error ? -ENOMEM : 0;
	ret = ret ?: pairing_prepare(&pair, host.s, guests, n, &po, err) ?: tl_start(pair.t, err);
	ret = ret ?: judge_all(p, t, &pair, err);
	pairing_close(&pair);
	for (size_t i = 0; i < TRUTH_VMS; i++)
		sbuf_free(&guest[i]);
	return ret < 0 && !err->text[0] ? err_why(err, ret, "cannot read what was recorded") : ret;
}

/* A new one of the caller's alone: base in above. */
static int make_directory(const char *path, int *above, char **base, struct kvmft_err *err)
{
	struct stat st;
	int fd;

	*above = capw_parent_open(path, base, err);
	if (*above < 0)
		return *above;
	if (mkdirat(*above, *base, 0700))
		return err_why(err, errno, "cannot make the directory %s", path);
	fd = openat(*above, *base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && !fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 0077))
		return fd;
	util_close_fd(&fd);
	return err_set(err, ESTALE, "somebody else has replaced %s", path);
}

int prove_run(const char *dir, struct prove *p, note_fn *note, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf host = { 0 };
	struct parts x = { .note = note, .err = err };
	_cleanup_free_ char *base = NULL;
	_cleanup_close_ int above = -1, at = -1;
	char temp[128];
	int ret = dir ? 0 : sides_temp_name(temp, sizeof(temp), err);

	ret = at = ret ?: make_directory(dir ?: temp, &above, &base, err);
	if (ret < 0)
		return ret;
	sbuf_addf(&host, "%s/host", dir ?: temp);
	x.host = host.s;
	x.truth = mmap(NULL, sizeof(*x.truth), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	ret = !host.s || x.truth == MAP_FAILED ? err_set(err, ENOMEM, "out of memory")
					       : run_both(&x);
	for (size_t i = 0; i < TRUTH_VMS && !ret && x.truth->vm[i].vcpus; i++)
		ret = prove_guest_capture(at, i ? "guest1" : "guest0", &x.truth->vm[i], err);
	if (!ret) {
		p->host_khz = x.truth->host_khz;
		p->bare_ns = p->host_khz ? tsc_cycles_to_ns(x.truth->bare, p->host_khz) : 0;
		p->traced_ns = p->host_khz ? tsc_cycles_to_ns(x.truth->traced, p->host_khz) : 0;
		ret = judge_recording(at, p, x.truth, x.vmm, err);
	}
	if (x.truth != MAP_FAILED)
		munmap(x.truth, sizeof(*x.truth));
	if (!dir)
		sides_temp_remove(temp);
	else if (ret)
		(void)!unlinkat(above, base, AT_REMOVEDIR); /* unless something was recorded */
	return ret;
}

void prove_free(struct prove *p)
{
	free(p->event);
	*p = (struct prove){ 0 };
}
