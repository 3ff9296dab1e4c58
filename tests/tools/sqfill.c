/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sqfill: databases of any shape, for tests/cli/sql.t.
 *
 *   sqfill OUT TABLES ROWS COLUMNS TEXT
 *
 * TABLES tables t0, t1, ... of ROWS rows each, in turn: id 3 * row + table, COLUMNS numbers
 * that are powers of two plus or minus one, of both signs, and a text of (row * 7919 % (TEXT + 1))
 * characters. On stderr: rows per second.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kvmft/sqlite.h"

static int64_t number(uint64_t row, uint64_t column)
{
	uint64_t k = row * 31 + column;

	return (int64_t)((k % 5 == 0 ? -1ull : 1) * ((1ull << k % 64) + k % 3 - 1));
}

static int fill(struct sq *s, struct sq_table **t, const uint64_t *n)
{
	uint64_t rows = n[1], columns = n[2], text = n[3];
	char *x = malloc(text + 1);
	int ret = x ? 0 : -1;

	if (x)
		memset(x, 'x', text + 1);
	for (uint64_t row = 0; row < rows && !ret; row++) {
		for (uint64_t k = 0; k < n[0] && !ret; k++) {
			sq_null(s);
			for (uint64_t c = 0; c < columns; c++)
				sq_s64(s, number(row, c));
			sq_str_mem(s, x, row * 7919 % (text + 1));
			ret = sq_add(s, t[k], (int64_t)(3 * row + k));
		}
	}
	free(x);
	return ret;
}

static struct sq_table *create(struct sq *s, uint64_t number, uint64_t columns)
{
	struct sbuf sql = { 0 };
	char name[24];
	struct sq_table *t;

	snprintf(name, sizeof(name), "t%" PRIu64, number);
	sbuf_addf(&sql, "CREATE TABLE %s(id INTEGER PRIMARY KEY", name);
	for (uint64_t c = 0; c < columns; c++)
		sbuf_addf(&sql, ", c%" PRIu64 " INTEGER", c);
	sbuf_add(&sql, ", x TEXT)");
	t = sql.error ? NULL : sq_table(s, name, sql.s);
	sbuf_free(&sql);
	return t;
}

int main(int argc, char **argv)
{
	uint64_t n[4] = { 0 }, begin;
	struct sq_table **t;
	struct sq *s = NULL;
	int fd, ret;

	for (int i = 2; i < 6; i++)
		if (argc != 6 || parse_u64(argv[i], &n[i - 2])) {
			fprintf(stderr, "usage: sqfill OUT TABLES ROWS COLUMNS TEXT\n");
			return 2;
		}
	fd = open(argv[1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	t = calloc(n[0] + 1, sizeof(*t));
	ret = fd < 0 || !t ? -1 : sq_new(fd, &s);
	for (uint64_t k = 0; k < n[0] && !ret; k++)
		ret = (t[k] = create(s, k, n[2])) ? 0 : -1;
	begin = util_now_ns();
	ret = ret ? ret : fill(s, t, n);
	ret = ret ? ret : sq_finish(s);
	fprintf(stderr, "%.0f rows/s\n",
		(double)(n[0] * n[1]) * 1e9 / (double)(util_now_ns() - begin));
	sq_free(s);
	free(t);
	if (ret)
		fprintf(stderr, "sqfill: %d\n", ret);
	return ret ? 1 : 0;
}
