/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_newfile.c: files that are there whole or not at all, each test in a directory of its own.
 */
#include "kvmft/capture.h"
#include "kvmft/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

struct place {
	char path[64];
	int dir;
};

static int place_setup(void **state)
{
	struct place *pl = calloc(1, sizeof(*pl));

	if (!pl)
		return -1;
	snprintf(pl->path, sizeof(pl->path), "/tmp/kvmft-test-new-XXXXXX");
	if (!mkdtemp(pl->path))
		return -1;
	pl->dir = open(pl->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	*state = pl;
	return pl->dir < 0;
}

static int place_teardown(void **state)
{
	static const char *const file[] = { "f", "g", "link", "fifo", "hard", "cap/seg/cpu0" };
	static const char *const folder[] = { "cap/seg", "cap", "side" };
	struct place *pl = *state;
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(file); i++)
		unlinkat(pl->dir, file[i], 0);
	for (size_t i = 0; i < ARRAY_SIZE(folder); i++)
		unlinkat(pl->dir, folder[i], AT_REMOVEDIR);
	close(pl->dir);
	err = rmdir(pl->path); /* nothing else is left */
	free(pl);
	return err;
}

static void put(const struct place *pl, const char *name, const char *text)
{
	_cleanup_close_ int fd = openat(pl->dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(full_write(fd, text, strlen(text), NULL), 0);
}

static void holds(const struct place *pl, const char *name, const char *text)
{
	_cleanup_free_ char *got = NULL;

	assert_true(file_read_all(pl->dir, name, 100, &got) >= 0);
	assert_string_equal(got, text);
}

static size_t entries(const struct place *pl)
{
	DIR *d = opendir(pl->path);
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static bool named; /* as on file systems that know no files without a name */

static void begin(const struct place *pl, struct newfile *f, const char *text)
{
	assert_int_equal((named ? newfile_open_named : newfile_open)(f, pl->dir, 0600), 0);
	assert_int_equal(full_write(f->fd, text, strlen(text), NULL), 0);
}

static int place_setup_named(void **state)
{
	named = true;
	return place_setup(state);
}

static int place_teardown_named(void **state)
{
	named = false;
	return place_teardown(state);
}

static void test_commit(void **state)
{
	struct place *pl = *state;
	struct newfile f;
	struct stat st;

	begin(pl, &f, "new");
	assert_int_equal(entries(pl), f.temp[0] != '\0');
	assert_true(f.temp[0] || !named);
	assert_int_equal(faccessat(pl->dir, "f", F_OK, 0), -1);
	assert_int_equal(newfile_commit(&f, "f", 0), 0);
	holds(pl, "f", "new");
	assert_int_equal(fstatat(pl->dir, "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	newfile_close(&f);
	newfile_close(&f);
	holds(pl, "f", "new");
	assert_int_equal(entries(pl), 1);
}

/* The old file stays as it was until the new one is complete, and if it never is. */
static void test_replace(void **state)
{
	static const unsigned int flags[] = { NEWFILE_REPLACE, NEWFILE_REPLACE | NEWFILE_SYNC };
	struct place *pl = *state;
	struct newfile f;

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		put(pl, "f", "old");
		begin(pl, &f, "new");
		holds(pl, "f", "old");
		newfile_close(&f);
		holds(pl, "f", "old");
		assert_int_equal(entries(pl), 1);
		begin(pl, &f, "new");
		assert_int_equal(newfile_commit(&f, "f", 0), -EEXIST);
		holds(pl, "f", "old");
		assert_int_equal(newfile_commit(&f, "f", flags[i]), 0);
		newfile_close(&f);
		holds(pl, "f", "new");
		assert_int_equal(entries(pl), 1);
	}
}

static void test_refuses(void **state)
{
	struct place *pl = *state;
	struct newfile f;

	put(pl, "g", "precious");
	assert_int_equal(mkfifoat(pl->dir, "fifo", 0600), 0);
	assert_int_equal(mkdirat(pl->dir, "cap", 0700), 0);
	assert_int_equal(symlinkat("g", pl->dir, "link"), 0);
	begin(pl, &f, "new");
	/* Neither a link itself, which may be /dev/stdout, nor what it leads to. */
	assert_int_equal(newfile_commit(&f, "link", 0), -EINVAL);
	assert_int_equal(newfile_commit(&f, "link", NEWFILE_REPLACE), -EINVAL);
	assert_int_equal(newfile_commit(&f, "fifo", NEWFILE_REPLACE), -EINVAL);
	assert_int_equal(newfile_commit(&f, "cap", NEWFILE_REPLACE), -EINVAL);
	newfile_close(&f);
	holds(pl, "link", "precious");
	holds(pl, "g", "precious");
}

/* Another file under the name of ours, where others may write, is not given the name. */
static void test_swapped(void **state)
{
	struct place *pl = *state;
	struct newfile f;

	begin(pl, &f, "new");
	assert_int_equal(unlinkat(pl->dir, f.temp, 0), 0);
	assert_int_equal(newfile_commit(&f, "f", 0), -ENOENT);
	put(pl, f.temp, "theirs");
	assert_int_equal(newfile_commit(&f, "f", NEWFILE_REPLACE), -ESTALE);
	assert_int_equal(faccessat(pl->dir, "f", F_OK, 0), -1);
	newfile_close(&f);
}

/* Names that somebody took are passed over; nothing is opened through a link. */
static void test_squatted(void **state)
{
	struct place *pl = *state;
	struct newfile f[3];
	char name[40];

	snprintf(name, sizeof(name), ".kvmft.%ld.1.tmp", (long)getpid());
	assert_int_equal(symlinkat("g", pl->dir, name), 0);
	for (size_t i = 0; i < ARRAY_SIZE(f); i++)
		begin(pl, &f[i], "x");
	assert_int_equal(entries(pl), 4);
	assert_int_equal(faccessat(pl->dir, "g", F_OK, 0), -1);
	for (size_t i = 0; i < ARRAY_SIZE(f); i++)
		newfile_close(&f[i]);
	assert_int_equal(unlinkat(pl->dir, name, 0), 0);
}

static void test_parent(void **state)
{
	static const char *const none[] = { "", "/", "a/", ".", "..", "a/..", "/tmp/." };
	struct place *pl = *state;
	struct kvmft_err err = { .text = "" };
	const char *base;
	char path[96];
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		assert_int_equal(capw_file_parent_open(none[i], &base, &err), *none[i] ? -EISDIR : -ENOENT);
	snprintf(path, sizeof(path), "%s/no/f", pl->path);
	assert_int_equal(capw_file_parent_open(path, &base, &err), -ENOENT);
	snprintf(path, sizeof(path), "%s//f", pl->path);
	fd = capw_file_parent_open(path, &base, &err);
	assert_true(fd >= 0);
	assert_string_equal(base, "f");
	assert_int_equal(mkdirat(fd, "side", 0700), 0);
	close(fd);
	assert_int_equal(faccessat(pl->dir, "side", F_OK, 0), 0);
	fd = capw_file_parent_open("f", &base, &err);
	assert_true(fd >= 0);
	close(fd);
}

static bool part(const struct place *pl, const char *out, const char *input)
{
	struct kvmft_err err = { .text = "" };
	char a[128], b[128];
	const char *base;
	int dir;
	bool is;

	snprintf(a, sizeof(a), "%s/%s", pl->path, out);
	snprintf(b, sizeof(b), "%s/%s", pl->path, input);
	dir = capw_file_parent_open(a, &base, &err);
	assert_true(dir >= 0);
	is = file_is_part(dir, base, b);
	close(dir);
	return is;
}

static void test_part(void **state)
{
	struct place *pl = *state;

	put(pl, "f", "x");
	put(pl, "g", "x");
	assert_int_equal(mkdirat(pl->dir, "cap", 0700), 0);
	assert_int_equal(mkdirat(pl->dir, "side", 0700), 0);
	assert_int_equal(mkdirat(pl->dir, "cap/seg", 0700), 0);
	put(pl, "cap/seg/cpu0", "x");
	assert_int_equal(linkat(pl->dir, "f", pl->dir, "hard", 0), 0);
	assert_int_equal(symlinkat("f", pl->dir, "link"), 0);
	assert_true(part(pl, "f", "f"));
	assert_true(part(pl, "hard", "f"));
	assert_true(part(pl, "link", "f"));
	assert_true(part(pl, "f", "link"));
	assert_true(part(pl, "side/../f", "f"));
	assert_false(part(pl, "g", "f"));
	assert_false(part(pl, "none", "f"));
	assert_false(part(pl, "f", "none"));
	assert_false(part(pl, "side/f", "f"));
	assert_true(part(pl, "cap", "cap"));
	assert_true(part(pl, "cap/new", "cap"));
	assert_true(part(pl, "cap/seg/cpu0", "cap"));
	assert_true(part(pl, "cap/seg/new", "side/../cap/."));
	assert_false(part(pl, "side/new", "cap"));
	assert_false(part(pl, "new", "cap"));
}

#define new_test(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)
#define named_test(f) cmocka_unit_test_setup_teardown(f, place_setup_named, place_teardown_named)

int main(void)
{
	const struct CMUnitTest tests[] = {
		new_test(test_commit),
		new_test(test_replace),
		new_test(test_refuses),
		named_test(test_commit),
		named_test(test_replace),
		named_test(test_refuses),
		named_test(test_swapped),
		named_test(test_squatted),
		new_test(test_parent),
		new_test(test_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
