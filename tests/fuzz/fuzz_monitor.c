/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_monitor.c: what a monitor of QEMU may say, and what a QEMU command line may be. The first
 * byte chooses: QMP, HMP, a command line, JSON alone, a file of patterns.
 */
#include "qemu/monitor_internal.h"

#include <sys/socket.h>

#include "kvmft/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(struct jval v, unsigned int depth)
{
	struct sbuf b = { 0 };
	uint64_t u;

	(void)!jval_text(v, &b);
	(void)jval_u64(v, &u);
	sbuf_free(&b);
	for (struct jiter i = jval_iter(v); depth < JVAL_DEPTH_MAX && jiter_next(&i);)
		walk(i.value, depth + 1);
}

static void json(const char *text, size_t n)
{
	struct jframe f = { 0 };
	struct jval v;
	size_t len;

	(void)!jframe_find(&f, text, n, &len);
	if (!jval_parse(text, n, &v))
		walk(v, 0);
}

static void talk(enum mon_kind kind, const char *text, size_t n)
{
	struct mon_events list = { 0 };
	struct sbuf out = { 0 };
	struct monitor *m;
	int fds[2];

	if (n > 60000 || socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
		return;
	if (send(fds[1], text, n, MSG_DONTWAIT) == (ssize_t)n && !shutdown(fds[1], SHUT_WR) &&
	    !mon_attach(kind, fds[0], "fuzz", 1000000000, &m, NULL)) {
		if (!monitor_version(m, &out, NULL) && !monitor_events(m, &list, NULL))
			(void)!monitor_set(m, "a*", true, NULL);
		monitor_close(m);
	}
	mon_events_free(&list);
	sbuf_free(&out);
	close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mon_switches s = { 0 };
	struct mon_places p = { 0 };
	const char *text = (const char *)data + 1;

	if (!size--)
		return 0;
	switch (data[0] % 5) {
	case 0: talk(MON_QMP, text, size); break;
	case 1: talk(MON_HMP, text, size); break;
	case 2: (void)!mon_cmdline_parse(text, size, &p); break;
	case 3: json(text, size); break;
	case 4: (void)!mon_switches_add_text(&s, text, size, "fuzz", NULL); break;
	}
	mon_places_free(&p);
	mon_switches_free(&s);
	return 0;
}
