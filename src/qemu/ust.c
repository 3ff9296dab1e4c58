/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust.c: text that babeltrace and babeltrace2 make of a trace of the back end ust:
 *
 * 	[16:47:29.123456789] (+0.000001234) HOST qemu:NAME: { cpu_id = 1 }, { n = 0, vq = 0x55AA }
 * 	[2025-09-02 16:47:29.123456789] ...		--clock-date
 * 	[1756831649.123456789] ...			--clock-seconds
 *
 * Local time, or whatever --clock-gmt and TZ made of it; LTTng's clock is CLOCK_MONOTONIC plus the
 * lead of CLOCK_REALTIME when the session began. Contexts are in braces before the arguments, which
 * come last.
 */
#include "trace.h"

static bool stamp(const struct qtrace *t, struct qline *l, struct qtrace_item *item)
{
	struct qline at = *l;
	uint64_t of_day;
	bool ok;

	if (!qline_char(&at, '['))
		return false;
	item->clock = QTRACE_REALTIME;
	ok = qline_iso(&at, item);
	if (!ok) {
		struct qline time = at;

		ok = qline_time_of_day(&time, &of_day, &item->unit) &&
		     qline_local(qline_nearest_day(t, of_day), of_day, &item->ns);
		if (ok)
			at = time;
		else
			ok = qline_seconds(&at, item);
	}
	if (!ok || !qline_char(&at, ']'))
		return false;
	*l = at;
	return true;
}

/* ---- "{ a = 1, b = "text" }" ---- */

struct group {
	const char *begin, *end; /* between the braces */
};

/* The next group of a line; l moves past it. */
static bool next_group(struct qline *l, struct group *g)
{
	unsigned int depth = 1;
	const char *p = memchr(l->p, '{', (size_t)(l->end - l->p)), *begin;

	if (!p)
		return false;
	begin = ++p;
	while (p < l->end && depth) {
		if (*p == '"') {
			p = str_quoted_end(p, l->end);
			continue;
		}
		depth += *p == '{';
		depth -= *p == '}';
		p++;
	}
	if (depth)
		return false; /* cut: no group */
	g->begin = begin;
	g->end = p - 1;
	l->p = p;
	return true;
}

/* The value of a member: from after " = " to the comma after it. */
static bool member(const struct group *g, const char *name, size_t len, struct qline *value)
{
	const char *p = g->begin, *from, *stop;

	while (p < g->end) {
		while (p < g->end && (*p == ' ' || *p == ','))
			p++;
		from = p;
		while (p < g->end && *p != ' ' && *p != '=')
			p++;
		stop = p;
		while (p < g->end && (*p == ' ' || *p == '='))
			p++;
		value->p = p;
		while (p < g->end && *p != ',')
			p = *p == '"' ? str_quoted_end(p, g->end) : p + 1;
		value->end = p;
		while (value->end > value->p && value->end[-1] == ' ')
			value->end--;
		/* Names that are not words in C have an underscore in front. */
		if (stop > from && *from == '_' && (size_t)(stop - from) == len + 1)
			from++;
		if ((size_t)(stop - from) == len && !memcmp(from, name, len))
			return true;
	}
	return false;
}

static bool number(struct qline l, uint64_t *v)
{
	char text[32];
	size_t n = (size_t)(l.end - l.p);

	if (!n || n >= sizeof(text))
		return false;
	memcpy(text, l.p, n);
	text[n] = '\0';
	return !parse_bits64(text, v);
}

static int32_t context(const struct group *g, const char *name)
{
	struct qline value;
	uint64_t v;

	if (!member(g, name, strlen(name), &value) || !number(value, &v) || v > INT32_MAX)
		return -1;
	return (int32_t)v;
}

static bool arguments(const struct group *g, struct qtrace_item *item)
{
	for (size_t i = 0; i < item->ev->nargs; i++) {
		const struct qev_arg *a = &item->ev->arg[i];
		struct qev_value *v = &item->arg[i];
		struct qline value;

		*v = (struct qev_value){ 0 };
		if (!member(g, a->name, strlen(a->name), &value))
			return false;
		if (value.end - value.p >= 2 && *value.p == '"') {
			v->s = value.p + 1;
			v->len = (uint32_t)(value.end - value.p - 2);
		} else if (!number(value, &v->num)) {
			return false;
		}
		if ((v->s != NULL) != (a->kind == QEV_STRING))
			return false;
	}
	return true;
}

static bool ust_line(struct qtrace *t, const char *s, size_t n, struct qtrace_item *item)
{
	struct qline l = { s, s + n };
	struct group g = { s, s };
	const char *at, *end;

	if (!stamp(t, &l, item))
		return false;
	at = memmem(l.p, (size_t)(l.end - l.p), "qemu:", 5);
	if (!at)
		return false;
	at += 5;
	for (end = at; end < l.end && *end != ':' && *end != ' '; end++)
		;
	if (end == l.end || *end != ':' || !qline_is_name(at, (size_t)(end - at)))
		return false;
	item->name = at;
	item->name_len = (uint32_t)(end - at);
	item->ev = qevents_find(t->o.events, at, (size_t)(end - at));
	l.p = end + 1;
	while (next_group(&l, &g)) {
		int32_t cpu = context(&g, "cpu_id"), tid = context(&g, "vtid"),
			pid = context(&g, "vpid");

		item->cpu = cpu >= 0 && item->cpu < 0 ? cpu : item->cpu;
		item->tid = tid > 0 ? tid : pid > 0 && !item->tid ? pid : item->tid;
	}
	while (g.begin < g.end && *g.begin == ' ')
		g.begin++;
	while (g.end > g.begin && g.end[-1] == ' ')
		g.end--;
	item->text = g.begin;
	item->text_len = (uint32_t)(g.end - g.begin);
	item->has_args = item->ev && arguments(&g, item);
	return true;
}

const struct qtrace_reader qtrace_ust = { .format = QTRACE_UST, .line = ust_line };
