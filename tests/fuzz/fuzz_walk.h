/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_walk.h: what the file targets share: opening a capture and looking at all of it.
 */
#ifndef KVMFT_FUZZ_WALK_H
#define KVMFT_FUZZ_WALK_H

#include "kvmft/ring.h"
#include "kvmft/hostmap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

/* libtraceevent 1.7.1 loses memory of some formats that it refuses. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libtraceevent";
}

/* Where inputs become files: in memory if that can be had, a disk would be most of the time. */
static inline const char *fuzz_dir(void)
{
	return access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
}

/* The input as a file of this process; its name in path. */
static inline int fuzz_file(const uint8_t *data, size_t size, char *path, size_t n)
{
	int fd, ret;

	snprintf(path, n, "%s/kvmft-fuzz.%d", fuzz_dir(), (int)getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	ret = full_write(fd, data, size, NULL);
	close(fd);
	return ret;
}

static inline void fuzz_walk_stream(struct capture *c, struct fmt *f, const struct cap_stream *s,
				    bool print, struct sbuf *text)
{
	struct rstream r;
	enum rkind k;

	if (rstream_open(&r, c, s))
		return;
	while ((k = rstream_next(&r)) != R_END) {
		const struct fmt_event *e;

		if (k != R_EVENT)
			continue;
		e = fmt_by_id(f, r.rec.id);
		if (e && print)
			fmt_print(e, &r.rec, text);
		sbuf_reset(text);
	}
	rstream_close(&r);
}

/* print: the fields, too; compiling how takes ten times as long as all the rest. */
static inline void fuzz_open_and_walk(const char *path, bool print)
{
	struct kvmft_err err = { .text = "" };
	struct capture *c = NULL;
	struct fmt *f = NULL;
	struct sbuf text = { 0 };
	struct tsc_rate rate;
	uint64_t end;

	if (capture_open(path, &c, &err) == 0 && (f = fmt_load(c)) != NULL) {
		for (size_t i = 0; i < c->nstream; i++) {
			fuzz_walk_stream(c, f, &c->stream[i], print, &text);
			if (rstream_end(c, &c->stream[i], &end))
				break;
		}
		/* Also of a file that says its frequency. */
		if (!tsc_rate_scan(c, f, &rate) && !tsc_rate_find(c, f, NULL, 0, &rate))
			tsc_rate_use(c, &rate);
	}
	sbuf_free(&text);
	fmt_free(f);
	capture_close(c);
}

#endif
