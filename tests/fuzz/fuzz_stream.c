/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_stream.c: what kvmft receive gets. A first byte of 0 means that the right hello is given, so
 * that few inputs are wasted on finding it. What was stored is opened and read.
 */
#include "fuzz_walk.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "kvmft/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int memory(const uint8_t *data, size_t size)
{
	static const char hello[] = STREAM_HELLO "version=1 capture=1\n";
	int fd = memfd_create("stream", MFD_CLOEXEC);
	bool given = size && !data[0];

	if (fd < 0)
		return -1;
	if ((given && full_write(fd, hello, strlen(hello), NULL)) ||
	    (size && full_write(fd, data + given, size - given, NULL)) || lseek(fd, 0, SEEK_SET)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void receive(int in, int dir)
{
	const struct stream_limits limits = { .max_size = 1 << 20, .keep = 3 };
	struct kvmft_err err = { .text = "" };
	struct capw_name place = { 0 };
	struct stream_news n = { 0 };
	struct capw *w = NULL;

	if (!capw_name_init(&place, dir, "", "fuzz", CAPW_REFUSE, &err) &&
	    !capw_create(&place, &w, &err)) {
		int ret = stream_receive(in, w, &limits, NULL, NULL, &n, &err);

		/* What ends well was all there; what does not says why. */
		if (ret ? !err.text[0] : !n.ended)
			abort();
	}
	capw_close(w);
	if (place.temp[0]) {
		char path[160];

		snprintf(path, sizeof(path), "%s/%s", fuzz_dir(), place.temp);
		fuzz_open_and_walk(path, true);
	}
	capw_name_drop(&place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int in = memory(data, size), dir = open(fuzz_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (in >= 0 && dir >= 0)
		receive(in, dir);
	close(in);
	close(dir);
	return 0;
}
