// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kshark.c: what KernelShark makes of files: the pairs of host and guest that its KVMCombo plot
 * would offer, and of each stream the number of entries and their times. Built by export.t where
 * libkshark is installed.
 *
 *   kshark FILE...
 *
 *   stream 0 entries 302087 first 51408889011 last 68123456789
 *   guest vm1 of stream 0 is stream 1, threads 281 283
 */
#include <inttypes.h>
#include <stdio.h>

#include <libkshark.h>
#include <libkshark-tepdata.h>

static int show_stream(struct kshark_context *ctx, const char *file)
{
	struct kshark_entry **rows = NULL;
	int sd = kshark_open(ctx, file);
	ssize_t n;

	if (sd < 0) {
		fprintf(stderr, "kshark: cannot open %s\n", file);
		return -1;
	}
	n = kshark_load_entries(ctx, sd, &rows);
	if (n <= 0) {
		fprintf(stderr, "kshark: no entries in %s\n", file);
		return -1;
	}
	printf("stream %d entries %zd first %" PRId64 " last %" PRId64 "\n", sd, n, rows[0]->ts,
	       rows[n - 1]->ts);
	return 0;
}

int main(int argc, char **argv)
{
	struct kshark_host_guest_map *map = NULL;
	struct kshark_context *ctx = NULL;
	int n;

	if (!kshark_instance(&ctx))
		return 1;
	for (int i = 1; i < argc; i++)
		if (show_stream(ctx, argv[i]))
			return 1;
	n = kshark_tracecmd_get_hostguest_mapping(&map);
	for (int i = 0; i < n; i++) {
		printf("guest %s of stream %d is stream %d, threads", map[i].guest_name, map[i].host_id,
		       map[i].guest_id);
		for (int k = 0; k < map[i].vcpu_count; k++)
			printf(" %d", map[i].cpu_pid[k]);
		printf("\n");
	}
	return 0;
}
