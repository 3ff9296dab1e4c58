/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * store.c: the process that stores a stream. It has only that and the directory of the capture,
 * whose name and completion are up to the process that started it.
 */
#include "sides.h"

#include <sys/prctl.h>
#include <sys/statvfs.h>

#include "kvmft/capture.h"
#include "kvmft/sandbox.h"

#define LEAST_FREE_PERCENT 5u

uint64_t side_least_free(int dir, const struct opt_u64 *given)
{
	struct statvfs vfs;

	if (given->set || fstatvfs(dir, &vfs))
		return given->v;
	return (uint64_t)vfs.f_blocks * vfs.f_frsize / 100 * LEAST_FREE_PERCENT;
}

struct store {
	struct side_said last;
	int said;
};

static bool tell(void *ctx, const struct stream_news *n)
{
	struct store *s = ctx;

	s->last.what = SAID_PROGRESS;
	s->last.news = *n;
	side_say(s->said, &s->last);
	return true;
}

int side_store_confine(const struct capw *w, struct kvmft_err *err)
{
	const struct sandbox_dir dir = {
		.fd = capw_dirfd(w),
		.rights = SANDBOX_READ | SANDBOX_WRITE | SANDBOX_CREATE | SANDBOX_REMOVE,
	};
	const struct sandbox s = {
		.calls = SANDBOX_CALLS_STORE, .bounding = true, .files = true, .reads = true,
		.dir = &dir, .ndir = 1,
	};
	unsigned int layers;

	return sandbox_enter(&s, &layers, err);
}

static int exit_code(const struct stream_news *n, int ret)
{
	return ret || n->lost || !n->reason[0] ? KVMFT_INCOMPLETE : KVMFT_OK;
}

void side_store_main(void *arg, int said)
{
	const struct side_store *c = arg;
	struct store s = { .said = said };
	struct stream_news n = { 0 };
	int keep[5] = { c->in, said }, ret;

	(void)prctl(PR_SET_NAME, "kvmft-store");
	side_leave_terminal();
	/* No other side's capture, no session, no terminal. */
	fds_keep(keep, 2 + capw_fds(c->w, keep + 2));
	ret = side_store_confine(c->w, &s.last.err);
	ret = ret ?: stream_receive(c->in, c->w, &c->limits, tell, &s, &n, &s.last.err);
	capw_why(capw_dirfd(c->w), ret, &s.last.err);
	s.last.what = SAID_END;
	s.last.news = n;
	s.last.ret = ret;
	s.last.status = exit_code(&n, ret);
	side_say(said, &s.last);
	_exit(KVMFT_OK);
}
