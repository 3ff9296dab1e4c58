/* SPDX-License-Identifier: GPL-2.0-or-later */
/* host.c: the process that records the host, as `kvmft record` would, under orders. */
#include "sides.h"

static void tell_news(void *ctx, enum record_news what, int status,
		      const struct record_progress *p)
{
	struct side_said said = { .status = status };

	switch (what) {
	case RECORD_NEWS_LIVE: said.what = SAID_LIVE; break;
	case RECORD_NEWS_FIRED: said.what = SAID_FIRED; break;
	case RECORD_NEWS_WRITTEN: said.what = SAID_WRITTEN; break;
	case RECORD_NEWS_COMMAND: said.what = SAID_COMMAND; break;
	case RECORD_NEWS_PROGRESS:
		said.what = SAID_PROGRESS;
		said.progress = *p;
		break;
	default: return;
	}
	side_say(*(const int *)ctx, &said);
}

void side_host_main(void *arg, int said)
{
	struct side_host *h = arg;
	struct side_said end = { .what = SAID_END };

	h->c->control = (struct record_control){
		.on = true, .fd = h->orders, .outlive = true, .news = tell_news, .ctx = &said,
	};
	h->c->duration.set = false; /* of all sides together, counted by another process */
	end.ret = record_run(h->c, h->argv, h->note, &end.err);
	end.status = MAX(end.ret, 0);
	end.ret = MIN(end.ret, 0);
	side_say(said, &end);
	_exit(KVMFT_OK);
}
