/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_text.c: a trace as text, plain or packed by gzip, opened and walked event by event; what is made of it must be
 * whole: no damage, and each record as its format says. Of one input in 32 the fields are printed. And a tar archive,
 * whose headers get the right sum.
 */
#include "fuzz_walk.h"
#include "kvmft/capture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The reader makes sub-buffers itself, so nothing in them may be wrong, whatever the text is. */
static void check(const struct capture *c, const struct fmt *f, const struct cap_stream *s)
{
	struct rstream r;
	enum rkind k;

	if (rstream_open(&r, c, s))
		return;
	while ((k = rstream_next(&r)) != R_END) {
		const struct fmt_event *e = k == R_EVENT ? fmt_by_id(f, r.rec.id) : NULL;
		struct fmt_field text;
		char buf[16];

		if (k == R_DAMAGE ||
		    (k == R_EVENT && (!e || !fmt_field(e, "text", &text) ||
				      !fmt_str(&text, &r.rec, buf, sizeof(buf)))))
			abort();
	}
	rstream_close(&r);
}

/* Whether it is an archive, which then is tried. */
static bool try_tar(const uint8_t *data, size_t size)
{
	struct kvmft_err err = { .text = "" };
	struct session s;
	uint8_t *tar = size >= 512 && !memcmp(data + 257, "ustar", 5) ? malloc(size) : NULL;
	char path[64];

	if (!tar)
		return false;
	memcpy(tar, data, size);
	for (size_t at = 0; at + 512 <= size; at += 512) {
		unsigned int sum = 0;

		memset(tar + at + 148, ' ', memcmp(tar + at + 257, "ustar", 5) ? 0 : 8);
		for (size_t i = 0; i < 512; i++)
			sum += tar[at + i];
		if (!memcmp(tar + at + 257, "ustar", 5))
			snprintf((char *)tar + at + 148, 8, "%06o", sum);
	}
	if (!fuzz_file(tar, size, path, sizeof(path))) {
		if (!session_read(path, &s, &err))
			session_free(&s);
		fuzz_open_and_walk(path, size % 32 == 0);
		unlink(path);
	}
	free(tar);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kvmft_err err = { .text = "" };
	struct capture *c = NULL;
	struct fmt *f = NULL;
	char path[64];

	if (size > 2 && data[0] == 0x17 && data[1] == 0x08) /* fuzz_tracedat has these */
		return 0;
	if (try_tar(data, size))
		return 0;
	if (fuzz_file(data, size, path, sizeof(path)))
		return 0;
	if (capture_open(path, &c, &err) == 0 && !c->is_perfdata && !c->is_tracedat && !c->tool &&
	    (f = fmt_load(c)) != NULL)
		for (size_t i = 0; i < c->nstream; i++)
			check(c, f, &c->stream[i]);
	fmt_free(f);
	capture_close(c);
	if (size % 32 == 0)
		fuzz_open_and_walk(path, true);
	unlink(path);
	return 0;
}
