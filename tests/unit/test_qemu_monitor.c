/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_qemu_monitor.c: monitors on command lines; patterns of trace events; a monitor on a socket
 * whose every answer is cut short.
 */
#include "qemu/monitor_internal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

/* ---- command lines ---- */

/* Words with blanks between them, as a command line; blanks within a word are not needed here. */
static struct mon_places parsed(const char *words)
{
	size_t n = strlen(words);
	char *args = strdup(words);
	struct mon_places p;

	assert_non_null(args);
	for (size_t i = 0; i < n; i++)
		if (args[i] == ' ')
			args[i] = '\0';
	assert_int_equal(mon_cmdline_parse(args, n, &p), 0);
	free(args);
	return p;
}

struct row {
	const char *words;
	enum mon_kind kind;
	const char *path;
	const char *why; /* part of why_not; NULL = can be tried */
	int fd;
	bool abstract;
};

static const struct row rows[] = {
	{ "q -qmp unix:/a,server=on,wait=off", MON_QMP, "/a", NULL, -1, false },
	{ "q --qmp unix:/a,server,nowait", MON_QMP, "/a", NULL, -1, false },
	{ "q -qmp-pretty unix:a/b,,c,server", MON_QMP, "a/b,c", NULL, -1, false },
	{ "q -qmp unix:path=/a,server=yes", MON_QMP, "/a", NULL, -1, false },
	{ "q -monitor unix:/m,server,nowait", MON_HMP, "/m", NULL, -1, false },
	{ "q -monitor unix:/m,server=on,abstract=on", MON_HMP, "/m", NULL, -1, true },
	{ "q -qmp unix:/a", MON_QMP, "/a", "QEMU is the client", -1, false },
	{ "q -qmp unix:/a,server=off", MON_QMP, "/a", "QEMU is the client", -1, false },
	{ "q -qmp unix:/a,server,noserver", MON_QMP, "/a", "QEMU is the client", -1, false },
	{ "q -qmp tcp:localhost:4444,server", MON_QMP, NULL, "it is on TCP", -1, false },
	{ "q -monitor telnet::4444,server", MON_HMP, NULL, "it is on TCP", -1, false },
	{ "q -monitor stdio", MON_HMP, NULL, "not a socket", -1, false },
	{ "q -monitor pty", MON_HMP, NULL, "not a socket", -1, false },
	{ "q -serial mon:stdio", MON_HMP, NULL, "not a socket", -1, false },
	{ "q -chardev socket,id=c,path=/c,server=on -mon chardev=c,mode=control", MON_QMP, "/c", NULL, -1,
	  false },
	{ "q -mon c,mode=readline -chardev socket,path=/c,server=on,wait=off,id=c", MON_HMP, "/c", NULL,
	  -1, false },
	{ "q -mon chardev=c -chardev backend=socket,id=c,path=/c,server=on", MON_HMP, "/c", NULL, -1,
	  false },
	{ "q -qmp chardev:c -chardev socket,id=c,path=/c,server=on", MON_QMP, "/c", NULL, -1, false },
	{ "q -chardev socket,id=charmonitor,fd=23,server=on,wait=off "
	  "-mon chardev=charmonitor,id=monitor,mode=control", MON_QMP, NULL, NULL, 23, false },
	{ "q -chardev socket,id=c,host=::1,port=1,server=on -mon c", MON_HMP, NULL, "it is on TCP", -1,
	  false },
	{ "q -chardev stdio,id=c -mon c", MON_HMP, NULL, "not a socket", -1, false },
	{ "q -mon chardev=nosuch", MON_HMP, NULL, "does not have", -1, false },
	{ "q -mon chardev=c -chardev", MON_HMP, NULL, "does not have", -1, false },
	{ "q -chardev socket,id=c,fd=99999999999,server=on -mon c", MON_HMP, NULL, NULL, -1, false },
};

static void spellings(void **state __unused_arg)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];
		struct mon_places p = parsed(r->words);

		assert_int_equal(p.n, 1);
		assert_int_equal(p.v[0].kind, r->kind);
		assert_int_equal(p.v[0].fd, r->fd);
		assert_int_equal(p.v[0].abstract, r->abstract);
		if (r->path)
			assert_string_equal(p.v[0].path, r->path);
		else
			assert_null(p.v[0].path);
		if (r->why)
			assert_non_null(p.v[0].why_not && strstr(p.v[0].why_not, r->why) ? p.v : NULL);
		else
			assert_null(p.v[0].why_not);
		mon_places_free(&p);
	}
}

static void several_and_none(void **state __unused_arg)
{
	static const char *const none[] = {
		"", "q", "q -qmp", "q -monitor none", "q -qmp null", "q -m 512 -name guest=x",
		"-qmp unix:/a",
	};
	struct mon_places p = parsed("q -monitor unix:/1,server -m 1 -qmp unix:/2,server -mon nosuch");

	assert_int_equal(p.n, 3);
	assert_string_equal(p.v[0].path, "/1");
	assert_string_equal(p.v[1].path, "/2");
	assert_string_equal(p.v[1].spelling, "-qmp unix:/2,server");
	mon_places_free(&p);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		p = parsed(none[i]);
		assert_int_equal(p.n, 0);
		mon_places_free(&p);
	}
	p = parsed("q -qmp unix:/\033[31m,server");
	assert_string_equal(p.v[0].spelling, "-qmp unix:/?[31m,server");
	mon_places_free(&p);
}

/* ---- patterns ---- */

static void patterns(void **state __unused_arg)
{
	assert_true(mon_pattern_ok("a_*?9Z"));
	assert_false(mon_pattern_ok(""));
	assert_false(mon_pattern_ok("a\n"));
	assert_false(mon_pattern_ok("-a"));
}

static void events_file(void **state __unused_arg)
{
	static const char text[] = "# comment\n\n  virtio_*  \r\n-virtio_blk_*\n\tvirtio_blk_x\n#x\nlast";
	struct mon_switches s = { 0 };
	struct kvmft_err err = { .text = "" };

	assert_int_equal(mon_switches_add_text(&s, text, strlen(text), "f", NULL), 0);
	assert_int_equal(s.n, 4);
	assert_string_equal(s.v[3].pattern, "last");
	assert_int_equal(mon_switches_get(&s, "virtio_net"), 1);
	assert_int_equal(mon_switches_get(&s, "virtio_blk_y"), 0);
	assert_int_equal(mon_switches_get(&s, "virtio_blk_x"), 1);
	assert_int_equal(mon_switches_get(&s, "other"), -1);
	assert_int_equal(mon_switches_add_text(&s, "a\n-\n", 4, "f", &err), -EINVAL);
	assert_non_null(strstr(err.text, "f, line 2: "));
	assert_int_equal(mon_switches_add_text(&s, "a\0b\n", 4, "f", &err), -EINVAL);
	mon_switches_free(&s);
}

/* ---- answers that are cut ---- */

static const char qmp_talk[] =
	"{\"QMP\": {}}\r\n{\"return\": {}}\r\n"
	"{\"return\": [{\"name\": \"b\", \"state\": \"enabled\"}, "
	"{\"name\": \"a\", \"state\": \"disabled\"}]}\r\n";
static const char hmp_talk[] = "QEMU 9\r\n(qemu) ";

/* All that QEMU will ever say is there from the beginning; then it hangs up. */
static int talk(enum mon_kind kind, const char *text, size_t n, struct mon_events *list)
{
	struct kvmft_err err = { .text = "" };
	struct monitor *m;
	int fds[2], ret;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_true(n == 0 || send(fds[1], text, n, 0) == (ssize_t)n);
	assert_int_equal(shutdown(fds[1], SHUT_WR), 0);
	ret = mon_attach(kind, fds[0], "test", 1000000000, &m, &err);
	if (!ret) {
		ret = monitor_events(m, list, &err);
		monitor_close(m);
	}
	if (ret)
		assert_true(err.text[0] != '\0');
	close(fds[1]);
	return ret;
}

static void cut_everywhere(void **state __unused_arg)
{
	struct mon_events list = { 0 };

	for (size_t n = 0; n + 2 < strlen(qmp_talk); n++)
		assert_int_equal(talk(MON_QMP, qmp_talk, n, &list), -ECONNRESET);
	assert_int_equal(talk(MON_QMP, qmp_talk, strlen(qmp_talk), &list), 0);
	assert_int_equal(list.n, 2);
	assert_string_equal(list.v[0].name, "a");
	assert_int_equal(mon_events_get(&list, "b")->state, MON_ENABLED);
	assert_null(mon_events_get(&list, "c"));
	mon_events_free(&list);
	for (size_t n = 0; n <= strlen(hmp_talk); n++)
		assert_true(talk(MON_HMP, hmp_talk, n, &list) < 0);
}

/* Names that could not be written down to switch them off, in either form. */
static void bad_names(void **state __unused_arg)
{
	static const char *const names[] = { "", "a b", "a\\nb", "*", "a?", "\\u0000", "a-b", "\\ud800" };
	struct mon_events list = { 0 };
	char text[512];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(text, sizeof(text),
			 "{\"QMP\": {}}\r\n{\"return\": {}}\r\n"
			 "{\"return\": [{\"name\": \"%s\", \"state\": \"disabled\"}]}\r\n",
			 names[i]);
		assert_int_equal(talk(MON_QMP, text, strlen(text), &list), -EPROTO);
		assert_int_equal(list.n, 0);
	}
	assert_int_equal(mon_events_add(&list, "a b", MON_ENABLED, false), -EINVAL);
}

/* Each answer is in time, all together are not. */
static void too_long(void **state __unused_arg)
{
	struct kvmft_err err = { .text = "" };
	struct mon_events list;
	struct monitor *m;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_true(send(fds[1], qmp_talk, strlen(qmp_talk), 0) == (ssize_t)strlen(qmp_talk));
	assert_int_equal(mon_attach(MON_QMP, fds[0], "test", 60000000000, &m, &err), 0);
	monitor_within(m, 50000000);
	assert_int_equal(monitor_events(m, &list, &err), 0);
	mon_events_free(&list);
	assert_int_equal(monitor_set(m, "a", true, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "one after the other"));
	monitor_close(m);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spellings),   cmocka_unit_test(several_and_none),
		cmocka_unit_test(patterns),    cmocka_unit_test(events_file),
		cmocka_unit_test(cut_everywhere), cmocka_unit_test(bad_names),
		cmocka_unit_test(too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
