/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu.c: `kvmft record --qemu`, trace events of QEMU on for the time of a capture.
 *
 * A process of its own (qemu_keep.c) talks to the monitors, forked before the recorder has anything
 * to lose: it knows the former states, keeps the connections open, and switches back when told to,
 * or when the recorder is gone, for whatever reason.
 */
#include "record.h"
#include "kvmft/qemu_switch.h"

#include <poll.h>

/* A recording does not wait long for a QEMU that may not even concern it. */
#define LEFT_TIMEOUT_NS 1000000000ull
#define ANSWER_MAX	((size_t)16 << 20) /* of a process that QEMU may have taken over */

static int qemu_options(const struct record_config *c, struct kvmft_err *err)
{
	struct mon_switches s = { 0 };
	int ret = 0;
	bool any = false;

	if (!c->qemu.n && (c->qmp.n || c->hmp.n))
		return err_usage(err, "--qmp and --hmp need --qemu: they say where it finds QEMU");
	for (size_t i = 0; i < c->qemu.n && !ret; i++) {
		const char *text = c->qemu.v[i];

		any = any || *text != '-';
		ret = mon_switches_add(&s, text + (*text == '-'), *text != '-', err);
	}
	if (!ret && c->qemu.n && !any)
		ret = err_usage(err, "--qemu: nothing to switch on, only to leave out");
	mon_switches_free(&s);
	return ret;
}

/* ---- answers ---- */

static int take_line(struct record *r, const char *line, size_t n)
{
	if (n && *line == 'N' && !r->c->quiet)
		r->note("%.*s", (int)n - 1, line + 1);
	if (n && *line == 'M' && str_starts(line + 1, "qemu")) {
		sbuf_add_mem(&r->qemu.facts, line + 1, n - 1);
		sbuf_addc(&r->qemu.facts, '\n');
		record_met_told(r, line + 1);
	}
	if (n < 2 || *line != 'E')
		return 0;
	err_set(r->err, EREMOTEIO, "%.*s", (int)n - 2, line + 2);
	r->err->code = line[1] >= '1' && line[1] <= '4' ? line[1] - '0' : KVMFT_FAILED;
	return -EREMOTEIO;
}

/* Reads an answer to its end. 0, or -errno as it says. */
static int take_answer(struct record *r)
{
	struct pollfd p = { .fd = r->qemu.keeper.from, .events = POLLIN };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	size_t left = ANSWER_MAX;
	int ret = 0;

	if (!poll(&p, 1, RECORD_PATIENCE_MS))
		r->note("waiting for kvmft-qemu (process %d), which talks to QEMU",
			r->qemu.keeper.pid);
	for (;;) {
		char text[4096];
		ssize_t got = read(r->qemu.keeper.from, text, sizeof(text));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0 || (size_t)got > left)
			return err_set(r->err, EPIPE,
				       "the process that talks to QEMU was killed: its trace "
				       "events may still be on (kvmft reset switches them off)");
		left -= (size_t)got;
		for (ssize_t i = 0; i < got; i++) {
			if (text[i] != '\n') {
				sbuf_addc(&b, text[i]);
				continue;
			}
			if (b.len == 1 && *b.s == '.')
				return ret;
			if (b.len && !ret)
				ret = take_line(r, b.s, b.len);
			sbuf_reset(&b);
		}
	}
}

/* Writes what was answered for the capture into it. */
static int put_facts(struct record *r)
{
	char *line = r->qemu.facts.s, *next;
	int ret = 0;

	for (; line && *line && !ret; line = next) {
		size_t n = strcspn(line, "\n");

		next = line + n + !!line[n];
		sbuf_reset(&r->line);
		sbuf_add_mem(&r->line, line, n);
		ret = record_put(r);
	}
	sbuf_reset(&r->qemu.facts);
	return ret;
}

static void qemu_leftovers(note_fn *note)
{
	struct kvmft_err err = { .text = "" };
	_cleanup_(sbuf_free) struct sbuf out = { 0 };
	char *save = NULL, *line;
	int ret = qemu_left_sweep(false, LEFT_TIMEOUT_NS, &out, &err);

	line = out.s ? strtok_r(out.s, "\n", &save) : NULL;
	for (; line; line = strtok_r(NULL, "\n", &save))
		note("%s", line);
	if (ret)
		note("%s", err.text);
}

/* ---- its life ---- */

static int qemu_start(struct record *r)
{
	int ret;

	if (!r->c->qemu.n)
		return 0;
	ret = record_helper_start(r, &r->qemu.keeper, qemu_keep_main, NULL);
	return ret ?: take_answer(r);
}

static int tell(struct record *r, char what)
{
	int ret = full_write(r->qemu.keeper.to, &what, 1, NULL);

	return ret == -EPIPE ? 0 : ret; /* the answer says what became of it */
}

static int qemu_on(struct record *r)
{
	int ret;

	if (!r->qemu.keeper.pid)
		return 0;
	ret = tell(r, QEMU_KEEP_ON);
	ret = ret ?: take_answer(r);
	return ret ?: put_facts(r);
}

static int qemu_end(struct record *r)
{
	struct kvmft_err first = *r->err;
	int ret;

	if (!r->qemu.keeper.pid)
		return 0;
	ret = tell(r, QEMU_KEEP_END);
	ret = ret ?: take_answer(r);
	record_helper_end(r, &r->qemu.keeper, "kvmft-qemu");
	sbuf_free(&r->qemu.facts);
	if (ret && first.text[0]) { /* there was an error before: both are reported */
		r->note("%s", r->err->text);
		*r->err = first;
	}
	return ret;
}

const struct record_extra record_qemu = {
	.check = qemu_options,
	.leftovers = qemu_leftovers,
	.start = qemu_start,
	.facts = put_facts,
	.on = qemu_on,
	.end = qemu_end,
};
