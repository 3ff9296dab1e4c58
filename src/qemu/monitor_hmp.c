/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * monitor_hmp.c: HMP, a command line for people. QEMU greets, then prompts with "(qemu) ". What is
 * sent is echoed as for a terminal, redrawing the line for every character, up to a line end; then
 * come the output and the next prompt.
 */
#include "monitor_internal.h"

static const char prompt[] = "(qemu) ";

/* Does what has arrived end with a prompt at the beginning of a line? */
static bool at_prompt(const struct sbuf *in)
{
	size_t n = strlen(prompt);

	return in->len >= n && !memcmp(in->s + in->len - n, prompt, n) &&
	       (in->len == n || in->s[in->len - n - 1] == '\n');
}

static int to_prompt(struct monitor *m, struct kvmft_err *err)
{
	int ret = 0;

	while (!ret && !at_prompt(&m->in))
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
		return mon_garbage(m, "this is a QMP monitor: use --qmp", m->in.s, m->in.len, err);
	if (!str_starts(m->in.s, "QEMU ") && !at_prompt(&m->in))
		return mon_garbage(m, "this is not the greeting of QEMU's "
		                      "monitor", m->in.s, m->in.len,
				   err);
	ret = to_prompt(m, err);
	if (!ret)
		mon_consume(m, m->in.len);
	return ret;
}

static void hmp_idle(struct monitor *m)
{
	sbuf_reset(&m->in);
}

/* Adds text without carriage returns and without the sequences that move a cursor. */
static void add_plain(struct sbuf *out, const char *p, const char *end)
{
	while (p < end) {
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
	ret = ret ?: to_prompt(m, err);
	if (ret)
		return ret;
	end = m->in.s + m->in.len - strlen(prompt);
	echo = memchr(m->in.s, '\n', (size_t)(end - m->in.s));
	if (!echo)
		return mon_garbage(m, "the command was not echoed", m->in.s, m->in.len, err);
	add_plain(out, echo + 1, end);
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

/* "NAME : state 0": splits the text. */
static int add_line(struct monitor *m, struct mon_events *list, char *line, struct kvmft_err *err)
{
	static const char state[] = " : state ";
	char *at = strstr(line, state);
	const char *v = at ? at + strlen(state) : NULL;
	int ret;

	if (!at || at == line || (*v != '0' && *v != '1') || v[1])
		return mon_garbage(m, "not an event", line, strlen(line), err);
	*at = '\0';
	ret = mon_events_add(list, line, *v == '1' ? MON_ENABLED : MON_DISABLED, false);
	if (ret == -EINVAL)
		return mon_garbage(m, "not an event", line, strlen(line), err);
	return err_why(err, ret, "%s: cannot keep the events", m->name);
}

static int hmp_events(struct monitor *m, struct mon_events *list, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char *line, *next;
	int ret = hmp_human(m, "info trace-events", &b, err);

	for (line = b.s; !ret && line && *line; line = next) {
		size_t n = strcspn(line, "\n");

		next = line + n + !!line[n];
		line[n] = '\0';
		if (n)
			ret = add_line(m, list, line, err);
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

const struct mon_ops mon_hmp_ops = {
	.name = "HMP",
	.hello = hmp_hello,
	.idle = hmp_idle,
	.version = hmp_version,
	.events = hmp_events,
	.set = hmp_set,
	.human = hmp_human,
};
