/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of captures made by the clock, which of them go first, and which directories are trusted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kvmft/capture.h"

struct store {
	char dir[64];
	int fd;
};

static int store_setup(void **state)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return -1;
	snprintf(s->dir, sizeof(s->dir), "/tmp/kvmft-test-stamp-XXXXXX");
	if (!mkdtemp(s->dir))
		return -1;
	s->fd = capw_dir_open(s->dir, NULL);
	*state = s;
	return s->fd < 0;
}

static int unlink_one(const char *path, const struct stat *st __unused_arg, int type __unused_arg,
		      struct FTW *f __unused_arg)
{
	return remove(path);
}

static int store_teardown(void **state)
{
	struct store *s = *state;
	int ret = nftw(s->dir, unlink_one, 16, FTW_DEPTH | FTW_PHYS);

	close(s->fd);
	free(s);
	return ret;
}

static void make(const struct store *s, const char *name)
{
	struct capw_name n;
	struct capw *w;

	assert_int_equal(capw_name_init(&n, s->fd, "", name, CAPW_REFUSE, NULL), 0);
	assert_int_equal(capw_create(&n, &w, NULL), 0);
	assert_int_equal(capw_name_take(&n, NULL), 0);
	capw_close(w);
}

/* ... and ends it. */
static void complete(const struct store *s, const char *name, const char *reason)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	char line[64];

	assert_true(asprintf(&path, "%s/meta", name) > 0);
	fd = openat(s->fd, path, O_WRONLY | O_APPEND);
	assert_true(fd >= 0);
	snprintf(line, sizeof(line), "end reason=%s tsc=1\n", reason);
	assert_int_equal(full_write(fd, line, strlen(line), NULL), 0);
}

static bool has(const struct store *s, const char *name)
{
	return !faccessat(s->fd, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static void test_names(void **state __unused_arg)
{
	char a[CAPW_STAMP_SIZE], b[CAPW_STAMP_SIZE];

	assert_int_equal(capw_stamp_name(0, 0, a, sizeof(a)), 0);
	assert_string_equal(a, "kvmft-19700101T000000Z");
	assert_int_equal(capw_stamp_name(1795243360, 0, a, sizeof(a)), 0);
	assert_string_equal(a, "kvmft-20261121T064240Z");
	assert_int_equal(capw_stamp_name(1795243360, 1, b, sizeof(b)), 0);
	assert_string_equal(b, "kvmft-20261121T064240Z-01");
	assert_true(strcmp(a, b) < 0);
	assert_int_equal(capw_stamp_name(1795243360, 99, a, sizeof(a)), 0);
	assert_true(strcmp(b, a) < 0);
	assert_int_equal(capw_stamp_name(1795243361, 0, b, sizeof(b)), 0);
	assert_true(strcmp(a, b) < 0);
	assert_int_equal(capw_stamp_name(0, 100, a, sizeof(a)), -EOVERFLOW);
	assert_int_equal(capw_stamp_name(INT64_MAX, 0, a, sizeof(a)), -EOVERFLOW);
	assert_int_equal(capw_stamp_name(253402300800, 0, a, sizeof(a)), -EOVERFLOW); /* year 10000 */
	assert_int_equal(capw_stamp_name(0, 0, a, 10), -ENAMETOOLONG);
}

static void test_prune(void **state)
{
	static const char *const other[] = { "kvmft-20200101T000000", "kvmft-20200101T000000Z-1",
					     "kvmft-20200101T000000Z-001", "kvmft-2020010aT000000Z",
					     "xkvmft-20200101T000000Z", "kvmft.data" };
	struct store *s = *state;
	size_t removed = 7;

	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		make(s, other[i]);
	make(s, "kvmft-20200102T000000Z");
	make(s, "kvmft-20200101T000000Z-02");
	make(s, "kvmft-20200101T000000Z");
	make(s, "kvmft-20210101T000000Z");
	/* Of the right name, but no captures. */
	assert_int_equal(mkdirat(s->fd, "kvmft-19990101T000000Z", 0700), 0);
	assert_int_equal(symlinkat("kvmft.data", s->fd, "kvmft-19990101T000001Z"), 0);
	assert_int_equal(capw_stamp_prune(s->fd, NULL, 4, &removed, NULL), 0);
	assert_int_equal(removed, 0);
	assert_int_equal(capw_stamp_prune(s->fd, NULL, 2, &removed, NULL), 0);
	assert_int_equal(removed, 2);
	assert_false(has(s, "kvmft-20200101T000000Z") || has(s, "kvmft-20200101T000000Z-02"));
	assert_true(has(s, "kvmft-20200102T000000Z") && has(s, "kvmft-20210101T000000Z"));
	assert_int_equal(capw_stamp_prune(s->fd, NULL, 0, NULL, NULL), 0);
	assert_false(has(s, "kvmft-20200102T000000Z") || has(s, "kvmft-20210101T000000Z"));
	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		assert_true(has(s, other[i]));
	assert_true(has(s, "kvmft-19990101T000000Z") && has(s, "kvmft-19990101T000001Z"));
}

/* However few are to be left: one that is complete is among them, if there is any. */
static void test_prune_whole(void **state)
{
	struct store *s = *state;
	size_t removed;

	make(s, "kvmft-20200101T000000Z");
	make(s, "kvmft-20200102T000000Z");
	make(s, "kvmft-20200103T000000Z");
	make(s, "kvmft-20200104T000000Z");
	make(s, "kvmft-20200105T000000Z");
	complete(s, "kvmft-20200101T000000Z", "duration");
	complete(s, "kvmft-20200102T000000Z", "signal");
	complete(s, "kvmft-20200103T000000Z", "error");
	assert_int_equal(capw_stamp_prune(s->fd, NULL, 2, &removed, NULL), 0);
	assert_int_equal(removed, 2);
	assert_true(has(s, "kvmft-20200102T000000Z"));
	assert_int_equal(capw_stamp_prune(s->fd, NULL, 0, &removed, NULL), 0);
	assert_int_equal(removed, 2);
	assert_true(has(s, "kvmft-20200102T000000Z"));
	make(s, "kvmft-20200106T000000Z");
	complete(s, "kvmft-20200106T000000Z", "duration");
	assert_int_equal(capw_stamp_prune(s->fd, NULL, 1, &removed, NULL), 0);
	assert_int_equal(removed, 1);
	assert_true(has(s, "kvmft-20200106T000000Z"));
}

/* The clock was set back: what is named after a later time than the present one is older. */
static void test_prune_back(void **state)
{
	static const char now[] = "kvmft-20200103T000000Z";
	struct store *s = *state;
	size_t removed;

	make(s, "kvmft-20200101T000000Z");
	make(s, "kvmft-20200102T000000Z");
	make(s, "kvmft-20300101T000000Z");
	make(s, "kvmft-20310101T000000Z");
	make(s, now);
	complete(s, "kvmft-20310101T000000Z", "duration");
	assert_int_equal(capw_stamp_room(s->fd, now, 3, 1, NULL), 1);
	assert_false(has(s, "kvmft-20300101T000000Z"));
	complete(s, now, "duration");
	assert_int_equal(capw_stamp_prune(s->fd, now, 2, &removed, NULL), 0);
	assert_int_equal(removed, 2);
	assert_true(has(s, now) && has(s, "kvmft-20200102T000000Z"));
}

/* In a directory for all: what another user puts there neither counts nor is removed. */
static void test_prune_others(void **state)
{
	static const char *const planted[] = { "kvmft-20200103T000000Z", "kvmft-20200104T000000Z" };
	struct store *s = *state;
	size_t removed;

	if (geteuid())
		skip();
	make(s, "kvmft-20200101T000000Z");
	make(s, "kvmft-20200102T000000Z");
	for (size_t i = 0; i < ARRAY_SIZE(planted); i++) {
		make(s, planted[i]);
		complete(s, planted[i], "duration");
		assert_int_equal(fchownat(s->fd, planted[i], 65534, 65534, 0), 0);
	}
	assert_int_equal(capw_stamp_prune(s->fd, NULL, 2, &removed, NULL), 0);
	assert_int_equal(removed, 0);
	assert_int_equal(capw_stamp_prune(s->fd, NULL, 0, &removed, NULL), 0);
	assert_int_equal(removed, 2);
	assert_true(has(s, planted[0]) && has(s, planted[1]));
}

static void test_room(void **state)
{
	static const char *const name[] = { "kvmft-20200101T000000Z", "kvmft-20200102T000000Z",
					    "kvmft-20200103T000000Z" };
	struct store *s = *state;
	uint64_t each;

	assert_int_equal(capw_stamp_usage(s->fd, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(name); i++) {
		make(s, name[i]);
		complete(s, name[i], "duration");
	}
	each = capw_stamp_usage(s->fd, NULL);
	assert_true(each >= 4096);
	assert_int_equal(capw_stamp_room(s->fd, NULL, 0, 3 * each, NULL), 0); /* the last one stays */
	assert_int_equal(capw_stamp_room(s->fd, NULL, 2, each + 1, NULL), 0);
	assert_int_equal(capw_stamp_room(s->fd, NULL, 3, 1, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(name); i++)
		assert_true(has(s, name[i]));
	assert_int_equal(capw_stamp_room(s->fd, NULL, 1, 1, NULL), 1);
	assert_true(!has(s, name[0]) && has(s, name[1]));
	assert_int_equal(capw_stamp_room(s->fd, NULL, 0, each, NULL), 1);
	assert_true(!has(s, name[1]) && has(s, name[2]));
}

/* ---- the name of one ---- */

static void named(const struct store *s, struct capw_name *n, const char *name, enum capw_old old)
{
	struct capw *w;

	assert_int_equal(capw_name_init(n, s->fd, "", name, old, NULL), 0);
	assert_int_equal(capw_create(n, &w, NULL), 0);
	capw_close(w);
}

static ino_t inode(const struct store *s, const char *name)
{
	struct stat st;

	return fstatat(s->fd, name, &st, AT_SYMLINK_NOFOLLOW) ? 0 : st.st_ino;
}

static void test_name_refuse(void **state)
{
	struct store *s = *state;
	struct capw_name a, b;

	named(s, &a, "x", CAPW_REFUSE);
	assert_false(has(s, "x"));
	capw_name_drop(&a);
	assert_false(has(s, a.temp));
	/* Its recorder was killed, or its disk failed, as it was made. */
	assert_int_equal(mkdirat(s->fd, a.temp, 0700), 0);
	capw_name_drop(&a);
	assert_false(has(s, a.temp));
	named(s, &a, "x", CAPW_REFUSE);
	b = a;
	assert_int_equal(capw_name_take(&a, NULL), 0);
	capw_name_drop(&a);
	assert_true(has(s, "x") && !has(s, a.temp));
	assert_int_equal(capw_name_init(&b, s->fd, "", "x", CAPW_REFUSE, NULL), -EEXIST);
	/* What came there meanwhile is not replaced, whatever it is. */
	named(s, &b, "y", CAPW_REFUSE);
	assert_int_equal(mkdirat(s->fd, "y", 0700), 0);
	assert_int_equal(capw_name_take(&b, NULL), -EEXIST);
	capw_name_drop(&b);
	assert_false(has(s, b.temp));
	assert_int_equal(capw_name_init(&b, s->fd, "", "y", CAPW_REPLACE, NULL), -EEXIST);
	assert_int_equal(capw_name_init(&b, s->fd, "", "y", CAPW_ROTATE, NULL), -EEXIST);
}

static void test_name_replace(void **state)
{
	struct store *s = *state;
	struct capw_name n;
	ino_t first, second;

	make(s, "x");
	first = inode(s, "x");
	named(s, &n, "x", CAPW_REPLACE);
	assert_true(inode(s, "x") == first);
	assert_int_equal(capw_name_take(&n, NULL), 0);
	assert_true(inode(s, "x") != first && inode(s, "x.replaced") == first);
	second = inode(s, "x");
	complete(s, "x", "signal");
	/* Another one leaves both, and is completed. */
	named(s, &n, "x", CAPW_REPLACE);
	assert_int_equal(capw_name_take(&n, NULL), 0);
	assert_true(inode(s, "x.replaced") == first && inode(s, "x.replaced-2") == second);
	assert_int_equal(capw_name_done(&n, NULL), 0);
	assert_true(inode(s, "x.replaced") == first && !has(s, "x.replaced-2"));
	/* What was cut short takes no further names. */
	for (int i = 0; i < 3; i++) {
		named(s, &n, "x", CAPW_REPLACE);
		assert_int_equal(capw_name_take(&n, NULL), 0);
		assert_true(inode(s, "x.replaced") == first && !has(s, "x.replaced-2"));
	}
	for (int i = 2; i <= 99; i++) {
		char aside[32];

		snprintf(aside, sizeof(aside), "x.replaced-%d", i);
		make(s, aside);
	}
	complete(s, "x", "signal");
	named(s, &n, "x", CAPW_REPLACE);
	second = inode(s, "x");
	assert_int_equal(capw_name_take(&n, NULL), -EEXIST);
	assert_true(inode(s, "x") == second);
	capw_name_drop(&n);
	named(s, &n, "z", CAPW_REPLACE);
	assert_int_equal(capw_name_take(&n, NULL), 0);
	assert_int_equal(capw_name_done(&n, NULL), 0);
	assert_true(has(s, "z") && !has(s, "z.replaced"));
}

static void test_name_rotate(void **state)
{
	struct store *s = *state;
	struct capw_name n;
	ino_t whole, cut;

	make(s, "x");
	complete(s, "x", "signal");
	whole = inode(s, "x");
	named(s, &n, "x", CAPW_ROTATE);
	assert_int_equal(capw_name_take(&n, NULL), 0);
	assert_true(inode(s, "x.old") == whole);
	for (int i = 0; i < 2; i++) {
		cut = inode(s, "x");
		named(s, &n, "x", CAPW_ROTATE);
		assert_int_equal(capw_name_take(&n, NULL), 0);
		assert_true(inode(s, "x.old") == whole && inode(s, "x.cut") == cut);
	}
	complete(s, "x", "signal");
	whole = inode(s, "x");
	named(s, &n, "x", CAPW_ROTATE);
	assert_int_equal(capw_name_take(&n, NULL), 0);
	assert_true(inode(s, "x.old") == whole && inode(s, "x.cut") == cut);
}

static void test_name_long(void **state)
{
	char name[CAPW_NAME_SIZE + 1];
	struct store *s = *state;
	struct capw_name n;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(capw_name_init(&n, s->fd, "", name, CAPW_REFUSE, NULL), -ENAMETOOLONG);
	name[CAPW_NAME_SIZE - 8] = '\0';
	assert_int_equal(capw_name_init(&n, s->fd, "", name, CAPW_REFUSE, NULL), -ENAMETOOLONG);
}

static int open_below(const struct store *s, const char *path, struct kvmft_err *err)
{
	char whole[160];
	int fd;

	*err = (struct kvmft_err){ .text = "" };
	snprintf(whole, sizeof(whole), "%s/%s", s->dir, path);
	fd = capw_dir_open(whole, err);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static void test_dirs(void **state)
{
	struct store *s = *state;
	struct kvmft_err err;

	assert_int_equal(mkdirat(s->fd, "a", 0700), 0);
	assert_int_equal(mkdirat(s->fd, "a/b", 0711), 0);
	assert_int_equal(symlinkat("a", s->fd, "link"), 0);
	assert_int_equal(symlinkat("loop", s->fd, "loop"), 0);
	assert_int_equal(open_below(s, "a/b", &err), 0);
	assert_int_equal(open_below(s, "a//b/../b/.", &err), 0);
	assert_int_equal(open_below(s, "link/b", &err), 0); /* ours */
	assert_int_equal(open_below(s, "link", &err), -ELOOP);
	assert_non_null(strstr(err.text, "name the real directory"));
	assert_int_equal(open_below(s, "loop/x", &err), -ELOOP);
	assert_int_equal(open_below(s, "none/b", &err), -ENOENT);
	assert_int_equal(fchmodat(s->fd, "a", 0777, 0), 0);
	assert_int_equal(open_below(s, "a/b", &err), -EPERM);
	assert_int_equal(open_below(s, "link/b", &err), -EPERM);
	assert_int_equal(open_below(s, "a", &err), -EPERM);
	assert_int_equal(fchmodat(s->fd, "a", 01777, 0), 0);
	assert_int_equal(open_below(s, "a/b", &err), 0);
	assert_int_equal(open_below(s, "a", &err), 0);
	/* A group is whom the owner has let in. */
	assert_int_equal(fchmodat(s->fd, "a", 0775, 0), 0);
	assert_true(!geteuid() ? !fchownat(s->fd, "a", (uid_t)-1, 65534, 0) : true);
	assert_int_equal(open_below(s, "a/b", &err), 0);
	assert_int_equal(open_below(s, "a", &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test_setup_teardown(test_prune, store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(test_prune_whole, store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(test_prune_back, store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(test_prune_others, store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(test_room, store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(test_name_refuse, store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(test_name_replace, store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(test_name_rotate, store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(test_name_long, store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(test_dirs, store_setup, store_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
