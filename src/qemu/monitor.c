/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * monitor.c: the socket of a monitor. QEMU may be stopped, busy, gone or not QEMU at all: every
 * wait ends at a deadline, and no reply grows beyond MON_MAX_REPLY.
 */
#include "monitor_internal.h"
#include "kvmft/json.h"
#include "kvmft/json_read.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define READ_SIZE 65536

struct mon_ops {
	const char *name; /* "QMP" */
	/* Reads the greeting and makes it ready for commands. */
	int (*hello)(struct monitor *m, struct kvmft_err *err);
	/* Discards from m->in what was not requested; an incomplete message stays. */
	void (*idle)(struct monitor *m);
	int (*version)(struct monitor *m, struct sbuf *out, struct kvmft_err *err);
	int (*events)(struct monitor *m, struct mon_events *list, struct kvmft_err *err);
	int (*set)(struct monitor *m, const char *pattern, bool on, struct kvmft_err *err);
	int (*human)(struct monitor *m, const char *line, struct sbuf *out, struct kvmft_err *err);
};

struct monitor {
	const struct mon_ops *ops;
	enum mon_kind kind;
	int fd;
	char *name;
	uint64_t timeout_ns;
	uint64_t deadline; /* of the reply being waited for; CLOCK_MONOTONIC */
	uint64_t until;	   /* and of all of them, 0: none */
	struct sbuf in;	   /* what has arrived and is not yet used */
	uint64_t id;	   /* of the last QMP command */
};

static void mon_begin(struct monitor *m)
{
	uint64_t now = util_now_ns();

	m->deadline = m->timeout_ns < UINT64_MAX - now ? now + m->timeout_ns : UINT64_MAX;
	if (m->until)
		m->deadline = MIN(m->deadline, m->until);
}

static int monitor_late(struct monitor *m, struct kvmft_err *err)
{
	char time[32];

	if (m->until && m->deadline == m->until)
		return err_set(err, ETIMEDOUT, "%s: its answers take too long, one after the other",
			       m->name);
	return err_set(err, ETIMEDOUT,
		       "%s: no complete answer within %s; is QEMU stopped or very busy?", m->name,
		       str_ns(time, sizeof(time), m->timeout_ns));
}

static int hung_up(struct monitor *m, struct kvmft_err *err)
{
	return err_set(err, ECONNRESET, "%s: QEMU has closed the connection, or has ended",
		       m->name);
}

static int wait_told(struct monitor *m, short events, struct kvmft_err *err)
{
	struct pollfd p = { .fd = m->fd, .events = events };

	for (;;) {
		uint64_t now = util_now_ns();
		uint64_t left = m->deadline > now ? m->deadline - now : 0;
		int ms = (int)MIN((left + 999999) / 1000000, (uint64_t)60000);
		int ret = poll(&p, 1, ms);

		if (ret > 0)
			return 0;
		if (ret < 0 && errno != EINTR)
			return err_why(err, errno, "%s: poll", m->name);
		if (!left)
			return monitor_late(m, err);
	}
}

static int mon_send(struct monitor *m, const char *text, size_t n, struct kvmft_err *err)
{
	size_t at = 0;

	while (at < n) {
		ssize_t got = send(m->fd, text + at, n - at, MSG_NOSIGNAL | MSG_DONTWAIT);
		int ret;

		if (got >= 0) {
			at += (size_t)got;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EPIPE || errno == ECONNRESET)
			return hung_up(m, err);
		if (errno != EAGAIN)
			return err_why(err, errno, "%s: cannot write", m->name);
		ret = wait_told(m, POLLOUT, err);
		if (ret)
			return ret;
	}
	return 0;
}

/* What has arrived, without waiting: bytes, 0 at the end, or -errno (-EAGAIN: nothing). */
static ssize_t monitor_fill(struct monitor *m)
{
	ssize_t got;

	if (!sbuf_room(&m->in, READ_SIZE))
		return -ENOMEM;
	do {
		got = recv(m->fd, m->in.s + m->in.len, READ_SIZE, MSG_DONTWAIT);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == ECONNRESET || errno == EPIPE ? 0 : -errno;
	m->in.len += (size_t)got;
	m->in.s[m->in.len] = '\0';
	return got;
}

static int mon_receive(struct monitor *m, struct kvmft_err *err)
{
	if (m->in.len >= MON_MAX_REPLY)
		return err_set(err, EOVERFLOW,
			       "%s: it never stops sending; is that a QEMU monitor?", m->name);
	for (;;) {
		int ret = wait_told(m, POLLIN, err);
		ssize_t got;

		if (ret)
			return ret;
		got = monitor_fill(m);
		if (got > 0)
			return util_now_ns() > m->deadline ? monitor_late(m, err) : 0;
		if (got == 0)
			return hung_up(m, err);
		if (got != -EAGAIN)
			return err_why(err, (int)got, "%s: cannot read", m->name);
	}
}

static void mon_consume(struct monitor *m, size_t n)
{
	n = MIN(n, m->in.len);
	memmove(m->in.s, m->in.s + n, m->in.len - n);
	m->in.len -= n;
	m->in.s[m->in.len] = '\0';
}

/* The beginning of a foreign text, on one line. */
static void request_shown(char *buf, size_t size, const char *text, size_t n)
{
	n = MIN(n, size - 1);
	memcpy(buf, text, n);
	buf[n] = '\0';
	n = strcspn(buf, "\r\n");
	buf[n] = '\0';
	str_printable(buf);
}

static int mon_garbage(struct monitor *m, const char *why, const char *text, size_t n,
		       struct kvmft_err *err)
{
	char buf[64];

	request_shown(buf, sizeof(buf), text, n);
	return err_set(err, EPROTO, "%s: %s: '%s'", m->name, why, buf);
}

static int mon_refused(struct monitor *m, const char *command, const char *text,
		       struct kvmft_err *err)
{
	char buf[256];

	request_shown(buf, sizeof(buf), text, strlen(text));
	return err_set(err, EREMOTEIO, "%s: QEMU refused %s: %s", m->name, command, buf);
}

int monitor_idle(struct monitor *m)
{
	ssize_t most = 1 << 20; /* from one that sends without end; the rest is seen next time */
	ssize_t got;

	do {
		got = monitor_fill(m);
		m->ops->idle(m);
	} while (got > 0 && (most -= got) > 0 && m->in.len < MON_MAX_REPLY);
	if (m->in.len >= MON_MAX_REPLY)
		return -EOVERFLOW;
	if (got > 0 || got == -EAGAIN)
		return 0;
	return got == 0 ? -ECONNRESET : (int)got;
}

void monitor_patience(struct monitor *m, uint64_t timeout_ns)
{
	m->timeout_ns = timeout_ns;
}

void monitor_within(struct monitor *m, uint64_t ns)
{
	m->until = util_now_ns() + ns;
}

/* ---- trace events ---- */

const char *const mon_state_names[MON_STATES] = {
	[MON_UNAVAILABLE] = "unavailable",
	[MON_DISABLED] = "disabled",
	[MON_ENABLED] = "enabled",
};

int mon_events_add(struct mon_events *list, const char *name, enum mon_state state, bool vcpu)
{
	struct mon_event e = { .state = state, .vcpu = vcpu };

	/* It may have to be named when it is switched off, also by kvmft reset. */
	if (!mon_pattern_ok(name) || mon_is_pattern(name))
		return -EINVAL;
	if (list->n >= MON_MAX_EVENTS)
		return -E2BIG;
	e.name = strdup(name);
	if (!e.name || array_add(&list->v, &list->n, &list->cap, &e, sizeof(e))) {
		free(e.name);
		return -ENOMEM;
	}
	return 0;
}

void mon_events_free(struct mon_events *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->v[i].name);
	free(list->v);
	*list = (struct mon_events){ 0 };
}

COMPARE(compare_events, struct mon_event, strcmp(x->name, y->name));

int monitor_events(struct monitor *m, struct mon_events *list, struct kvmft_err *err)
{
	int ret;

	*list = (struct mon_events){ 0 };
	ret = m->ops->events(m, list, err);
	if (ret) {
		mon_events_free(list);
		return ret;
	}
	array_sort(list->v, list->n, compare_events);
	return 0;
}

struct mon_event *mon_events_get(const struct mon_events *list, const char *name)
{
	size_t at = COUNT_BEFORE(i, list->n, strcmp(list->v[i].name, name) < 0);

	return at < list->n && !strcmp(list->v[at].name, name) ? &list->v[at] : NULL;
}

int monitor_set(struct monitor *m, const char *pattern, bool on, struct kvmft_err *err)
{
	return m->ops->set(m, pattern, on, err);
}

/* ---- patterns ---- */

bool mon_is_pattern(const char *text)
{
	return strpbrk(text, "*?") != NULL;
}

bool mon_pattern_ok(const char *text)
{
	static const char chars[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_*?";

	return *text && strlen(text) < 256 && !text[strspn(text, chars)];
}

int mon_switches_add(struct mon_switches *s, const char *pattern, bool on, struct kvmft_err *err)
{
	struct mon_switch *slot;
	char shown[64];

	if (!mon_pattern_ok(pattern)) {
		size_t n = MIN(strlen(pattern), sizeof(shown) - 1);

		memcpy(shown, pattern, n);
		shown[n] = '\0';
		return err_usage(
			err,
			"'%s' cannot name a trace event: letters, digits, _ and the wildcards "
			"* and ? can",
			shown);
	}
	slot = array_grow(&s->v, s->n, &s->cap, sizeof(*slot));
	if (slot)
		slot->pattern = strdup(pattern);
	if (!slot || !slot->pattern)
		return err_set(err, ENOMEM, "out of memory");
	slot->on = on;
	s->n++;
	return 0;
}

int mon_switches_add_text(struct mon_switches *s, const char *text, size_t n, const char *file,
			  struct kvmft_err *err)
{
	struct kvmft_err why = { .text = "" };
	char one[256];

	for (unsigned int line = 1; n; line++) {
		const char *end = memchr(text, '\n', n), *from = text;
		size_t len = end ? (size_t)(end - text) : n, left = len;
		int ret = 0;

		for (; left && strchr(" \t", *from); from++)
			left--;
		while (left && strchr(" \t\r", from[left - 1]))
			left--;
		if (left && *from != '#' && (left >= sizeof(one) || memchr(from, '\0', left))) {
			ret = err_set(&why, EINVAL, "it is not a line of text, or too long");
		} else if (left && *from != '#') {
			snprintf(one, sizeof(one), "%.*s", (int)left, from);
			ret = mon_switches_add(s, one + (*one == '-'), *one != '-', &why);
		}

		if (ret) {
			err_set(err, -ret, "%s, line %u: %s", file, line, why.text);
			if (err)
				err->code = why.code;
			return ret;
		}
		len += !!end;
		text += len;
		n -= len;
	}
	return 0;
}

void mon_switches_free(struct mon_switches *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].pattern);
	free(s->v);
	*s = (struct mon_switches){ 0 };
}

int mon_switches_get(const struct mon_switches *s, const char *name)
{
	for (size_t i = s->n; i-- > 0;)
		if (str_glob(s->v[i].pattern, name))
			return s->v[i].on;
	return -1;
}

/*
 * QMP, JSON objects in both directions. QEMU greets with {"QMP": ...}; commands are possible after
 * qmp_capabilities; each has one reply, {"return": ...} or {"error": ...} with the id of the
 * command, and {"event": ...} may come at any time in between.
 */

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

/* Is it the reply to our command: 1, nothing of interest: 0, or -errno. *v becomes its value. */
static int qmp_reply(struct monitor *m, const char *command, struct jval *v, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	struct jval what = *v, id, e, desc;
	uint64_t n;

	if (jval_get(what, "event", &e))
		return 0;
	if (jval_get(what, "id", &id) && (!jval_u64(id, &n) || n != m->id))
		return mon_garbage(m, "an answer to a command that was not sent", what.p, what.n,
				   err);
	if (jval_get(what, "error", &e))
		return mon_refused(m, command,
				   jval_get(e, "desc", &desc) && !jval_text(desc, &text) && text.s
					   ? text.s
					   : "(no reason given)",
				   err);
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
		struct jval name, state, vcpu;
		_cleanup_(sbuf_free) struct sbuf text = { 0 };
		bool good = jval_get(i.value, "name", &name) && !jval_text(name, &text) &&
			    text.len && jval_get(i.value, "state", &state);

		ret = -EINVAL;
		for (int s = 0; s < MON_STATES && good; s++)
			if (jval_is(state, mon_state_names[s]))
				ret = mon_events_add(list, text.s, (enum mon_state)s,
						     jval_get(i.value, "vcpu", &vcpu) &&
							     jval_true(vcpu));
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

static const struct mon_ops mon_qmp_ops = {
	.name = "QMP",
	.hello = qmp_hello,
	.idle = qmp_idle,
	.version = qmp_version,
	.events = qmp_events,
	.set = qmp_set,
	.human = qmp_human,
};

/*
 * HMP, a command line for people. QEMU greets, then prompts with "(qemu) ". What is sent is echoed
 * as for a terminal, redrawing the line for every character, up to a line end; then come the output
 * and the next prompt.
 */

static const char hmp_prompt[] = "(qemu) ";

/* Does what has arrived end with a prompt at the beginning of a line? */
static bool hmp_at_prompt(const struct sbuf *in)
{
	size_t n = strlen(hmp_prompt);

	return in->len >= n && !memcmp(in->s + in->len - n, hmp_prompt, n) &&
	       (in->len == n || in->s[in->len - n - 1] == '\n');
}

static int hmp_to_prompt(struct monitor *m, struct kvmft_err *err)
{
	int ret = 0;

	while (!ret && !hmp_at_prompt(&m->in))
		ret = mon_receive(m, err);
	return ret;
}

static int hmp_hello(struct monitor *m, struct kvmft_err *err)
{
	int ret = 0;

	while (!ret && m->in.len < strlen("QEMU "))
		ret = mon_receive(m, err);
	if (ret)
		return ret;
	if (*m->in.s == '{')
		return mon_garbage(m, "this is a QMP monitor", m->in.s, m->in.len, err);
	if (!str_starts(m->in.s, "QEMU ") && !hmp_at_prompt(&m->in))
		return mon_garbage(m,
				   "this is not the greeting of QEMU's "
				   "monitor",
				   m->in.s, m->in.len, err);
	ret = hmp_to_prompt(m, err);
	if (!ret)
		mon_consume(m, m->in.len);
	return ret;
}

static void hmp_idle(struct monitor *m)
{
	sbuf_reset(&m->in);
}

static int hmp_human(struct monitor *m, const char *line, struct sbuf *out, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const char *echo, *end;
	int ret = monitor_idle(m); /* what came unasked is not the answer */

	mon_begin(m);
	sbuf_addf(&b, "%s\n", line);
	if (b.error)
		ret = -ENOMEM;
	ret = ret ? err_why(err, ret, "%s", m->name) : mon_send(m, b.s, b.len, err);
	ret = ret ?: hmp_to_prompt(m, err);
	if (ret)
		return ret;
	end = m->in.s + m->in.len - strlen(hmp_prompt);
	echo = memchr(m->in.s, '\n', (size_t)(end - m->in.s));
	if (!echo)
		return mon_garbage(m, "the command was not echoed", m->in.s, m->in.len, err);
	/* Without carriage returns and without the sequences that move a cursor. */
	for (const char *p = echo + 1; p < end;) {
		if (p[0] == '\033' && p + 1 < end && p[1] == '[') {
			for (p += 2; p < end && !(*p >= '@' && *p <= '~'); p++)
				;
			p += p < end;
		} else if (*p == '\r') {
			p++;
		} else {
			sbuf_addc(out, *p++);
		}
	}
	mon_consume(m, m->in.len);
	return out->error ? err_set(err, ENOMEM, "out of memory") : 0;
}

/* "7.2.22Debian 1:7.2+dfsg" */
static int hmp_version(struct monitor *m, struct sbuf *out, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = hmp_human(m, "info version", &b, err);
	size_t digits, n;

	if (!ret && b.s) {
		n = strcspn(b.s, "\n");
		b.s[MIN(n, (size_t)256)] = '\0';
		str_printable(b.s);
		digits = strspn(b.s, "0123456789.");
		sbuf_add_mem(out, b.s, digits);
		if (b.s[digits])
			sbuf_addf(out, strchr(b.s, '(') ? " %s" : " (%s)",
				  b.s + digits + strspn(b.s + digits, " "));
	}
	return ret;
}

static int hmp_events(struct monitor *m, struct mon_events *list, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	static const char state[] = " : state "; /* after the name, and then 0 or 1 */
	const char *v;
	char *line, *next, *at;
	int ret = hmp_human(m, "info trace-events", &b, err);

	for (line = b.s; !ret && line && *line; line = next) {
		size_t n = strcspn(line, "\n");

		next = line + n + !!line[n];
		line[n] = '\0';
		if (!n)
			continue;
		at = strstr(line, state);
		v = at ? at + strlen(state) : NULL;
		if (!at || at == line || (*v != '0' && *v != '1') || v[1])
			return mon_garbage(m, "not an event", line, n, err);
		*at = '\0';
		ret = mon_events_add(list, line, *v == '1' ? MON_ENABLED : MON_DISABLED, false);
		if (ret == -EINVAL)
			return mon_garbage(m, "not an event", line, strlen(line), err);
		ret = err_why(err, ret, "%s: cannot keep the events", m->name);
	}
	return ret;
}

static int hmp_set(struct monitor *m, const char *pattern, bool on, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf line = { 0 }, out = { 0 };
	int ret;

	sbuf_addf(&line, "trace-event %s %s", pattern, on ? "on" : "off");
	ret = line.s ? hmp_human(m, line.s, &out, err) : err_set(err, ENOMEM, "out of memory");
	if (!ret && out.len) /* it is silent when all is well */
		ret = mon_refused(m, "trace-event", out.s, err);
	return ret;
}

static const struct mon_ops mon_hmp_ops = {
	.name = "HMP",
	.hello = hmp_hello,
	.idle = hmp_idle,
	.version = hmp_version,
	.events = hmp_events,
	.set = hmp_set,
	.human = hmp_human,
};

static const struct mon_ops *const ops_of[] = {
	[MON_QMP] = &mon_qmp_ops,
	[MON_HMP] = &mon_hmp_ops,
};

/* ---- opening ---- */

static int connect_unix(struct monitor *m, const char *path, bool abstract,
			const struct mon_peer *peer, struct kvmft_err *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(path);
	int ret, back;

	if (n + 1 > sizeof(a.sun_path))
		return err_set(
			err, ENAMETOOLONG,
			"%s: a socket's path has at most %zu bytes: cd to its directory and name it "
			"from there",
			m->name, sizeof(a.sun_path) - 1);
	memcpy(a.sun_path + abstract, path, n);
	m->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (m->fd < 0)
		return err_why(err, errno, "cannot make a socket");
	n += offsetof(struct sockaddr_un, sun_path) + 1;
	ret = peer ? -mon_owner_begin(peer->owner) : 0;
	if (!ret && connect(m->fd, (const struct sockaddr *)&a, (socklen_t)n) < 0)
		ret = errno;
	back = peer ? -mon_owner_end(peer->owner) : 0;
	ret = back ?: ret;
	switch (ret) {
	case 0: break;
	case EACCES:
	case EPERM:
		return err_lack(err, ret, "%s: permission denied: run as root or as QEMU's user",
				m->name);
	case ECONNREFUSED:
		return err_set(err, ret, "%s: nothing listens there; has this QEMU ended?",
			       m->name);
	case EAGAIN:
		return err_set(err, EBUSY,
			       "%s: busy: others wait for it already, and it serves one "
			       "client at a time; close the other client (libvirt holds its own)",
			       m->name);
	case EPROTOTYPE: return err_set(err, ret, "%s: it is not a stream socket", m->name);
	case ENOENT: return err_set(err, ret, "%s: there is no such socket", m->name);
	default: return err_why(err, ret, "%s: cannot connect", m->name);
	}
	return peer ? mon_peer_check(m->fd, peer, err) : 0;
}

static struct monitor *monitor_new(enum mon_kind kind, const char *name, uint64_t timeout_ns)
{
	struct monitor *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->fd = -1;
	m->kind = kind;
	m->ops = ops_of[kind];
	m->timeout_ns = timeout_ns;
	m->name = strdup(name);
	if (!m->name) {
		free(m);
		return NULL;
	}
	str_printable(m->name);
	mon_begin(m);
	return m;
}

/* Connected, or ret says why not: waits for the greeting. *m is NULL after a failure. */
static int monitor_greet(struct monitor **m, int ret, struct kvmft_err *err)
{
	bool late = false;
	char time[32];

	if (!ret) {
		ret = (*m)->ops->hello(*m, err);
		/* "QEMU 9.2.1 monitor", or the prompt "(qemu) " */
		if (ret == -EPROTO && (*m)->kind == MON_QMP && (*m)->in.s &&
		    strchr("Q(", *(*m)->in.s)) {
			err->text[0] = '\0';
			(*m)->kind = MON_HMP;
			(*m)->ops = ops_of[MON_HMP];
			if (str_starts((*m)->name, "QMP"))
				(*m)->name[0] = 'H';
			ret = (*m)->ops->hello(*m, err);
		}
		late = ret == -ETIMEDOUT && !(*m)->in.len;
	}
	if (late) /* an idle QEMU greets at once, so it is serving somebody else */
		err_set(err, ETIMEDOUT,
			"%s: busy: no greeting within %s, so another client (libvirt?) holds it, and it "
			"serves one at a time; close that one, or give QEMU one more monitor",
			(*m)->name, str_ns(time, sizeof(time), (*m)->timeout_ns));
	if (ret) {
		monitor_close(*m);
		*m = NULL;
	}
	return ret;
}

int mon_attach(enum mon_kind kind, int fd, const char *name, uint64_t timeout_ns,
	       struct monitor **m, struct kvmft_err *err)
{
	*m = monitor_new(kind, name, timeout_ns);
	if (!*m) {
		close(fd);
		return err_set(err, ENOMEM, "out of memory");
	}
	(*m)->fd = fd;
	return monitor_greet(m, 0, err);
}

int mon_open_as(enum mon_kind kind, const char *path, bool abstract, const char *name,
		const struct mon_peer *peer, uint64_t timeout_ns, struct monitor **m,
		struct kvmft_err *err)
{
	*m = monitor_new(kind, name, timeout_ns);
	if (!*m)
		return err_set(err, ENOMEM, "out of memory");
	return monitor_greet(m, connect_unix(*m, path, abstract, peer, err), err);
}

int monitor_open(enum mon_kind kind, const char *path, bool abstract, uint64_t timeout_ns,
		 struct monitor **m, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf name = { 0 };

	*m = NULL;
	sbuf_addf(&name, "%s %s%s", ops_of[kind]->name, abstract ? "@" : "", path);
	if (!name.s)
		return err_set(err, ENOMEM, "out of memory");
	return mon_open_as(kind, path, abstract, name.s, NULL, timeout_ns, m, err);
}

void monitor_close(struct monitor *m)
{
	if (!m)
		return;
	util_close_fd(&m->fd);
	sbuf_free(&m->in);
	free(m->name);
	free(m);
}

enum mon_kind monitor_kind(const struct monitor *m)
{
	return m->kind;
}

const char *monitor_name(const struct monitor *m)
{
	return m->name;
}

int monitor_fd(const struct monitor *m)
{
	return m->fd;
}

uint32_t monitor_pid(const struct monitor *m)
{
	struct ucred c = { 0 };
	socklen_t n = sizeof(c);

	if (getsockopt(m->fd, SOL_SOCKET, SO_PEERCRED, &c, &n) < 0 || c.pid < 0)
		return 0;
	return (uint32_t)c.pid;
}

int monitor_version(struct monitor *m, struct sbuf *out, struct kvmft_err *err)
{
	return m->ops->version(m, out, err);
}

int monitor_human(struct monitor *m, const char *line, struct sbuf *out, struct kvmft_err *err)
{
	if (strpbrk(line, "\r\n"))
		return err_usage(err, "a command for a monitor is one line");
	return m->ops->human(m, line, out, err);
}
