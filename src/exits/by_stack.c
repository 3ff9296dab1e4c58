/* SPDX-License-Identifier: GPL-2.0-or-later */
/* by_stack.c: stacks, and the events that they belong to: see fmt_level(). */
#include "report_priv.h"
#include "kvmft/events.h"

/* The last event of a CPU at a level. */
struct last {
	const struct fmt_event *ev; /* NULL: none that a stack could belong to */
	bool wanted;
	uint64_t first, second; /* of an exit: its first two fields */
};

struct walk {
	const struct fmt *fmt;
	const struct event_class *cls;
	struct by_stack *b;
	struct exit_names names;
	struct last last[FMT_LEVELS];
	struct sbuf text;
};

static bool of_class(const struct event_class *c, const struct fmt_event *ev)
{
	if (!c)
		return true;
	if (c == &class_vmexit && event_role_of(ev) == EV_EXIT)
		return true;
	for (size_t i = 0; i < CLASS_TPS && c->tp[i].name; i++)
		if (!strcmp(fmt_sys(ev), "kvm") && !strcmp(fmt_name(ev), c->tp[i].name))
			return true;
	return false;
}

static void note_stack(struct walk *w, const struct fmt_event *ev, const struct rec *rec)
{
	struct last *l = &w->last[fmt_level(w->fmt, rec)];
	struct sbuf *t = &w->text;
	char name[EXIT_NAME_MAX];

	if (!l->ev) {
		w->b->apart++;
		return;
	}
	if (!l->wanted)
		return;
	w->b->stacks++;
	sbuf_reset(t);
	sbuf_addf(t, "%s:%s\n", fmt_sys(l->ev), fmt_name(l->ev));
	if (event_role_of(l->ev) == EV_EXIT || event_role_of(l->ev) == EV_NESTED_EXIT) {
		struct exit_why why = exit_why(&w->names, l->first, l->second);

		sbuf_add(t, exit_reason_text(&w->names, why.isa, why.reason, name, sizeof(name)));
	}
	sbuf_addc(t, '\n');
	fmt_print(ev, rec, t);
	l->ev = NULL; /* it has but one */
	tally_add(&w->b->rows, xsbuf_text(t), t->len, 1);
}

static int walk_stream(struct walk *w, const struct capture *cap, const struct cap_stream *cs)
{
	struct rstream s;
	enum rkind k;
	int ret = rstream_open(&s, cap, cs);

	if (ret)
		return ret;
	memset(w->last, 0, sizeof(w->last));
	while ((k = rstream_next(&s)) != R_END) {
		const struct fmt_event *ev = k == R_EVENT ? fmt_by_id(w->fmt, s.rec.id) : NULL;

		w->b->events += k == R_EVENT;
		if (k != R_EVENT) {
			memset(w->last, 0, sizeof(w->last));
		} else if (ev && fmt_is_stack(ev)) {
			note_stack(w, ev, &s.rec);
		} else {
			struct last *l = &w->last[fmt_level(w->fmt, &s.rec)];
			const struct event_type *t = event_type_of(ev);

			if (l->ev != ev)
				l->wanted = ev && of_class(w->cls, ev);
			l->ev = ev;
			l->first = event_u64(t, 0, &s.rec);
			l->second = event_u64(t, 1, &s.rec);
		}
	}
	ret = s.error;
	w->b->lost += s.lost_total;
	w->b->lost_unknown |= s.lost_unknown;
	w->b->damaged += s.damaged;
	rstream_close(&s);
	return ret;
}

int by_stack_walk(const struct capture *cap, const struct fmt *fmt, const struct event_class *cls,
		  struct by_stack *b, struct kvmft_err *err)
{
	struct walk w = { .fmt = fmt, .cls = cls, .b = b };
	int ret = 0;

	*b = (struct by_stack){ 0 };
	exit_names_init(&w.names, event_format(fmt, EV_EXIT), cap->vendor);
	for (size_t i = 0; i < cap->nstream && !ret; i++)
		ret = walk_stream(&w, cap, &cap->stream[i]);
	sbuf_free(&w.text);
	tally_sort(&b->rows, true);
	return err_why(err, ret, "cannot read %s", cap->path);
}

void by_stack_free(struct by_stack *b)
{
	tally_free(&b->rows);
}

struct by_stack_row by_stack_row(char *text)
{
	struct by_stack_row row = { .event = text };
	char *reason = strchr(text, '\n'), *stack = strchr(reason + 1, '\n');

	*reason = *stack = '\0';
	row.reason = reason + 1;
	row.stack = stack + 1;
	return row;
}
