/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * monitor_qmp.c: QMP, JSON objects in both directions. QEMU greets with {"QMP": ...}; commands
 * are possible after qmp_capabilities; each has one reply, {"return": ...} or {"error": ...} with
 * the id of the command, and {"event": ...} may come at any time in between.
 */
#include "monitor_internal.h"
#include "kvmft/json.h"
#include "kvmft/json_read.h"

/* The next object; its text stays in m->in until mon_consume(m, *len). */
static int qmp_next(struct monitor *m, struct jval *v, size_t *len, struct kvmft_err *err)
{
	struct jframe f = { 0 };
	int ret;

	for (;;) {
		ret = jframe_find(&f, m->in.s ?: "", m->in.len, len);
		if (ret == 1)
			break;
		if (ret < 0)
			return mon_garbage(m, "what came is not QMP", m->in.s, m->in.len, err);
		ret = mon_receive(m, err);
		if (ret)
			return ret;
	}
	if (jval_parse(m->in.s, *len, v) || jval_type(*v) != JVAL_OBJECT)
		return mon_garbage(m, "what came is not JSON", m->in.s, *len, err);
	return 0;
}

static int qmp_error(struct monitor *m, const char *command, struct jval e, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	struct jval desc;
	int ret;

	if (!jval_get(e, "desc", &desc) || jval_text(desc, &text) || !text.s)
		ret = mon_refused(m, command, "(no reason given)", err);
	else
		ret = mon_refused(m, command, text.s, err);
	return ret;
}

/* Is it the reply to our command: 1, nothing of interest: 0, or -errno. *v becomes its value. */
static int qmp_reply(struct monitor *m, const char *command, struct jval *v, struct kvmft_err *err)
{
	struct jval what = *v, id, e;
	uint64_t n;

	if (jval_get(what, "event", &e))
		return 0;
	if (jval_get(what, "id", &id) && (!jval_u64(id, &n) || n != m->id))
		return mon_garbage(m, "an answer to a command that was not sent", what.p, what.n,
				   err);
	if (jval_get(what, "error", &e))
		return qmp_error(m, command, e, err);
	if (!jval_get(what, "return", v))
		return mon_garbage(m, "neither an answer nor an event", what.p, what.n, err);
	return 1;
}

/*
 * Runs a command; args is a JSON object, or NULL. The reply's value is in *v, its text in m->in
 * until mon_consume(m, *len).
 */
static int qmp_execute(struct monitor *m, const char *command, const char *args, struct jval *v,
		       size_t *len, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret;

	mon_begin(m);
	sbuf_addf(&b, "{\"execute\":\"%s\"", command);
	if (args)
		sbuf_addf(&b, ",\"arguments\":%s", args);
	sbuf_addf(&b, ",\"id\":%llu}\r\n", (unsigned long long)++m->id);
	ret = b.error ? err_set(err, ENOMEM, "out of memory") : mon_send(m, b.s, b.len, err);
	while (!ret) {
		ret = qmp_next(m, v, len, err);
		if (ret)
			return ret;
		ret = qmp_reply(m, command, v, err);
		if (ret > 0)
			return 0;
		mon_consume(m, *len);
	}
	return ret;
}

static int qmp_hello(struct monitor *m, struct kvmft_err *err)
{
	struct jval v, greeting;
	size_t len;
	int ret = qmp_next(m, &v, &len, err);

	if (ret == -EPROTO && m->in.s && str_starts(m->in.s, "QEMU "))
		return mon_garbage(m, "this is a human monitor: use --hmp", m->in.s, m->in.len,
				   err);
	if (ret)
		return ret;
	if (!jval_get(v, "QMP", &greeting))
		return mon_garbage(m, "this is not the greeting of QMP", v.p, v.n, err);
	mon_consume(m, len);
	ret = qmp_execute(m, "qmp_capabilities", NULL, &v, &len, err);
	if (!ret)
		mon_consume(m, len);
	return ret;
}

static void qmp_idle(struct monitor *m)
{
	struct jframe f = { 0 };
	size_t len;

	while (m->in.len && jframe_find(&f, m->in.s, m->in.len, &len) == 1) {
		mon_consume(m, len);
		f = (struct jframe){ 0 };
	}
}

static int qmp_version(struct monitor *m, struct sbuf *out, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf package = { 0 };
	struct jval v, q, part;
	uint64_t n[3] = { 0 };
	static const char *const key[] = { "major", "minor", "micro" };
	size_t len;
	int ret = qmp_execute(m, "query-version", NULL, &v, &len, err);

	if (ret)
		return ret;
	if (jval_get(v, "qemu", &q))
		for (size_t i = 0; i < ARRAY_SIZE(n); i++)
			if (jval_get(q, key[i], &part))
				(void)jval_u64(part, &n[i]);
	sbuf_addf(out, "%llu.%llu.%llu", (unsigned long long)n[0], (unsigned long long)n[1],
		  (unsigned long long)n[2]);
	if (jval_get(v, "package", &part) && !jval_text(part, &package) && package.len &&
	    package.len < 256) {
		str_printable(package.s);
		/* Older ones include the brackets. */
		sbuf_addf(out, strchr(package.s, '(') ? " %s" : " (%s)",
			  package.s + strspn(package.s, " "));
	}
	mon_consume(m, len);
	return 0;
}

static int add_event(struct mon_events *list, struct jval e)
{
	struct jval name, state, vcpu;
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	int ret = -EINVAL;

	if (!jval_get(e, "name", &name) || jval_text(name, &text) || !text.len ||
	    !jval_get(e, "state", &state))
		goto out;
	for (int i = 0; i < MON_STATES; i++)
		if (jval_is(state, mon_state_names[i]))
			ret = mon_events_add(list, text.s, (enum mon_state)i,
					     jval_get(e, "vcpu", &vcpu) && jval_true(vcpu));
out:
	return ret;
}

static int qmp_events(struct monitor *m, struct mon_events *list, struct kvmft_err *err)
{
	struct jval v;
	size_t len;
	int ret = qmp_execute(m, "trace-event-get-state", "{\"name\":\"*\"}", &v, &len, err);

	if (ret)
		return ret;
	if (jval_type(v) != JVAL_ARRAY)
		return mon_garbage(m, "the events are not a list", v.p, v.n, err);
	for (struct jiter i = jval_iter(v); !ret && jiter_next(&i);) {
		ret = add_event(list, i.value);
		if (ret == -EINVAL)
			return mon_garbage(m, "not an event", i.value.p, i.value.n, err);
	}
	mon_consume(m, len);
	return err_why(err, ret, "%s: cannot keep the events", m->name);
}

/* qmp_execute() with arguments that j wrote into args. */
static int qmp_call(struct monitor *m, const char *command, struct json *j, const struct sbuf *args,
		    struct jval *v, size_t *len, struct kvmft_err *err)
{
	int ret = json_finish(j);

	return ret ? err_set(err, -ret, "out of memory")
		   : qmp_execute(m, command, args->s, v, len, err);
}

static int qmp_set(struct monitor *m, const char *pattern, bool on, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf args = { 0 };
	struct json j;
	struct jval v;
	size_t len;
	int ret;

	json_line_begin(&j, &args);
	json_put_str(&j, "name", pattern);
	json_put_bool(&j, "enable", on);
	json_put_bool(&j, "ignore-unavailable", true);
	json_object_end(&j);
	ret = qmp_call(m, "trace-event-set-state", &j, &args, &v, &len, err);
	if (!ret)
		mon_consume(m, len);
	return ret;
}

/* The output comes as one string, with \r\n. */
static int qmp_human(struct monitor *m, const char *line, struct sbuf *out, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf args = { 0 }, text = { 0 };
	struct json j;
	struct jval v;
	size_t len;
	int ret;

	json_line_begin(&j, &args);
	json_put_str(&j, "command-line", line);
	json_object_end(&j);
	ret = qmp_call(m, "human-monitor-command", &j, &args, &v, &len, err);
	if (!ret) {
		ret = jval_text(v, &text);
		for (size_t i = 0; i < text.len; i++)
			if (text.s[i] != '\r')
				sbuf_addc(out, text.s[i]);
		if (ret)
			ret = mon_garbage(m, "not a text", v.p, v.n, err);
		mon_consume(m, len);
	}
	return ret;
}

const struct mon_ops mon_qmp_ops = {
	.name = "QMP",
	.hello = qmp_hello,
	.idle = qmp_idle,
	.version = qmp_version,
	.events = qmp_events,
	.set = qmp_set,
	.human = qmp_human,
};
