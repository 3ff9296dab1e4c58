/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracetext_line.c: one event per line, as ftrace, trace-cmd, perf and kvmft print them:
 *
 *              qemu-4242    [003] d..2.  1234.567890: kvm_entry: vcpu 0, rip 0x1000
 *       CPU 0/KVM-4242  [003]  1234.567890: kvm_exit:    reason EXIT_NPF rip 0x1000 info 4 fee00b0
 *       CPU 0/KVM  4242 [003]  1234.567890: kvm:kvm_entry: vcpu 0, rip 0x1000
 *   host qemu-4242 [3] 1234.567890123  kvm:kvm_entry: vcpu 0, rip 0x1000
 *
 * Names of tasks may have blanks and anything else in them, so it is the CPU in brackets, or else
 * the time, that is looked for, and what is before it taken from its end.
 */
#include "tracetext.h"

const uint8_t tt_class[256] = {
	['0' ... '9'] = 1, ['A' ... 'F'] = 2, ['a' ... 'f'] = 2,
	['G' ... 'Z'] = 3, ['g' ... 'z'] = 3, ['_'] = 3,
};

static const char *line_skip_blanks(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

static const char *word_end(const char *p)
{
	return p + strcspn(p, " \t");
}

/* ---- the time ---- */

/* Seconds with a fraction are ns, anything else is a count. Behind it: a colon, or a blank. */
static inline __attribute__((always_inline)) bool time_at(const char **p, struct tt_line *l,
							  bool *colon)
{
	const char *q = *p, *from;
	uint64_t v = 0, part = 0;
	uint8_t digits = 0;

	if (!tt_digits(&q, &v))
		return false;
	if (*q == '.') {
		from = ++q;
		if (!tt_digits(&q, &part) || q - from > 9 || v >= UINT64_MAX / 1000000000u - 1)
			return false;
		for (digits = (uint8_t)(q - from); from + 9 > q; from--)
			part *= 10;
	}
	if (!digits && *q == 'u' && q[1] == 's') { /* since the first event, maybe with a mark */
		digits = 6;
		part = v % 1000000 * 1000;
		v /= 1000000;
		q += 2 + strspn(q + 2, "!+#*@$ ");
	}
	*colon = *q == ':';
	q += *q == ':' || *q == '?'; /* kvmft: a time that is its neighbour's */
	if (*q && *q != ' ' && *q != '\t')
		return false;
	l->kind = digits ? TT_NS : TT_COUNT;
	l->digits = digits;
	l->time = digits ? v * 1000000000u + part : v;
	*p = line_skip_blanks(q);
	return true;
}

static bool take_time(const char **p, struct tt_line *l, bool *colon)
{
	return time_at(p, l, colon);
}

/* ---- d..2. ---- */

static uint8_t flag_if(char c, const char *any, uint8_t flag)
{
	return strchr(any, c) ? flag : 0;
}

static const char *take_flags(const char *p, struct tt_line *l)
{
	size_t n = (size_t)(word_end(p) - p);

	/* trace-cmd since 3.3: five, and no blank before a time of 12 digits. */
	if (n > 8 && p[n - 1] == ':' && strchr(".dDbX", *p) &&
	    strspn(p + 5, "0123456789.") == n - 6)
		n = 5;
	if (n < 3 || n > 8 || strspn(p, ".#-+!*0123456789abcdefABCDEFnNpPhHsSzZlL") < n ||
	    !memchr(p, '.', n))
		return p;
	l->flags = flag_if(p[0], "dD", 0x01) | flag_if(p[0], "bD", 0x80) |
		   flag_if(p[1], "Nn", 0x04) | flag_if(p[1], "Np", 0x20) |
		   flag_if(p[2], "hH", 0x08) | flag_if(p[2], "sH", 0x10) |
		   flag_if(p[2], "zZ", 0x40);
	l->preempt = (uint8_t)(n > 3 ? MAX(str_hex_value(p[3]), 0) : 0);
	return line_skip_blanks(p + n);
}

/* ---- who ---- */

static struct tt_word word_trimmed(const char *s, const char *end)
{
	while (s < end && (*s == ' ' || *s == '\t'))
		s++;
	while (end > s && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return (struct tt_word){ s, (size_t)(end - s) };
}

/* The number at the end of w, which is shortened by it; UINT64_MAX: none. */
static uint64_t last_number(struct tt_word *w)
{
	size_t n = w->n;
	const char *p;
	uint64_t v;

	while (n && tt_is_digit(w->s[n - 1]))
		n--;
	p = w->s + n;
	if (n == w->n || (n && !strchr("-/ \t", w->s[n - 1])) || !take_u64(&p, INT32_MAX, &v))
		return UINT64_MAX;
	w->n = n;
	return v;
}

/* "comm-pid", "comm-pid (tgid)", "comm pid", "comm pid/tid", of kvmft with its side before it. */
static void read_who(struct tt_word w, bool kvmft, struct tt_line *l)
{
	const char *end = w.s + w.n, *file, *last;
	uint64_t pid;

	if (w.n > 2 && str_starts(w.s, "# ")) /* a comment of a program's, or in a book */
		w = word_trimmed(w.s + 2, end);
	last = memrchr(w.s, ' ', w.n);
	if (last && !memchr(last, '-', (size_t)(end - last)) && take_flags(last + 1, l) >= end)
		w = word_trimmed(w.s, last); /* perf's irqs, before the CPU */
	if (w.n && w.s[w.n - 1] == ')' && memrchr(w.s, '(', w.n))
		w = word_trimmed(w.s, memrchr(w.s, '(', w.n));
	if (kvmft && w.n > 30 && tt_is_digit(*w.s) && w.s[4] == '-' && w.s[19] == '.') /* --long */
		w = word_trimmed(w.s + 29, w.s + w.n);
	if (kvmft) {
		l->side = (struct tt_word){ w.s, MIN(w.n, strcspn(w.s, " \t")) };
		w = word_trimmed(w.s + l->side.n, w.s + w.n);
	}
	pid = last_number(&w);
	if (pid != UINT64_MAX && w.n && w.s[w.n - 1] == '/') { /* its process */
		w.n--;
		last_number(&w);
	}
	l->pid = pid == UINT64_MAX ? -1 : (int32_t)pid;
	if (w.n && w.s[w.n - 1] == '-')
		w.n--;
	w = word_trimmed(w.s, w.s + w.n);
	/* trace-cmd report of several files */
	file = !kvmft && memchr(w.s, ':', w.n) ? memmem(w.s, w.n, ": ", 2) : NULL;
	if (file)
		l->side = (struct tt_word){ w.s, (size_t)(file - w.s) };
	/* anything else, and a date, is far away */
	while (memchr(w.s, ' ', w.n) && (last = memmem(w.s, w.n, "  ", 2)))
		w = word_trimmed(last, w.s + w.n);
	if (!tt_word_is(w, "<...>") && *w.s != ':') /* perf's ":4242": not known */
		l->comm = (struct tt_word){ w.s, MIN(w.n, (size_t)TASK_COMM) };
}

/* Where the head of s is if it is one of late: by what is around a bracket, mostly its first. */
static inline struct tt_head *head_of(struct tt_shapes *all, const char *s, const char *end)
{
	const bool same = all->open < (size_t)(end - s) && s[all->open] == '[';
	const char *open = same ? s + all->open : strchr(s, '[');
	uint64_t v = open && open - s >= 8 ? load_u64(open - 8) * 31 + load_u32(open) : 0;

	all->open = open ? (size_t)(open - s) : 0;
	return &all->heads[(v * 0x9e3779b97f4a7c15u >> 56) % TT_HEADS];
}

/* Who is before open; kept in *h if the head of s ends at cpu. */
static __attribute__((noinline)) void learn_who(struct tt_head *h, const char *s, const char *open,
						const char *cpu, bool kvmft, struct tt_line *l)
{
	struct tt_head now;

	now.l = tt_no_line;
	read_who(word_trimmed(s, open), kvmft, &now.l);
	now.l.cpu = l->cpu;
	now.l.has_cpu = l->has_cpu;
	now.l.is_vcpu = l->is_vcpu;
	now.side = now.l.side.n ? (size_t)(now.l.side.s - s) : 0;
	now.comm = now.l.comm.n ? (size_t)(now.l.comm.s - s) : 0;
	now.kvmft = kvmft;
	now.open = (size_t)(open - s);
	now.n = cpu && (size_t)(cpu - s) + 8 <= sizeof(h->text) ? (size_t)(cpu - s) : 0;
	memcpy(now.text, s, now.n);
	if (now.n)
		memcpy(h, &now, sizeof(*h));
	l->pid = now.l.pid;
	l->flags |= now.l.flags;
	l->preempt |= now.l.preempt;
	l->side = now.l.side;
	l->comm = now.l.comm;
}

/* The same, known: as in *h. */
static inline void take_who(struct tt_head *h, bool known, const char *s, const char *open,
			    const char *cpu, bool kvmft, struct tt_line *l)
{
	if (!known || h->kvmft != kvmft) {
		learn_who(h, s, open, cpu, kvmft, l);
		return;
	}
	l->pid = h->l.pid;
	l->flags |= h->l.flags;
	l->preempt |= h->l.preempt;
	l->side = (struct tt_word){ s + h->side, h->l.side.n };
	l->comm = (struct tt_word){ s + h->comm, h->l.comm.n };
}

/* ---- what ---- */

static bool is_blank_or_end(char c)
{
	return !c || c == ' ' || c == '\t';
}

static struct tt_word field_name_at(const char *p)
{
	const char *end = p;

	while (tt_in_word(*end) || *end == '-' || *end == '.')
		end++;
	return (struct tt_word){ p, (size_t)(end - p) };
}

static bool is_event_name(struct tt_word w)
{
	return w.n > 0 && w.n < 128 && !tt_is_digit(*w.s) && *w.s != '.';
}

/* "sys:name: text", "name: text"; of a syscall "sys_name(...)", "sys_name -> ...". */
static bool read_event(const char *p, const char *end, bool clear, struct tt_line *l)
{
	struct tt_word name = field_name_at(p);
	const char *next = p + name.n;
	const char behind = *next;
	bool named = behind == ':' && is_blank_or_end(next[1]);

	l->name = name;
	if (behind == ':' && !named)
		name = field_name_at(next + 1);
	if (name.s != p && name.s[name.n] == ':' && is_blank_or_end(name.s[name.n + 1])) {
		next = line_skip_blanks(name.s + name.n + 1);
		l->sys = l->name;
		l->name = name;
		l->text = (struct tt_word){ next, (size_t)(end - next) };
		return is_event_name(l->sys) && is_event_name(l->name);
	}
	next = line_skip_blanks(named ? next + 1 : word_end(p));
	l->text = (struct tt_word){ next, (size_t)(end - next) };
	if (clear && *p == '<' && str_starts(p, "<stack trace>")) {
		l->name = (struct tt_word){ "kernel_stack", 12 };
		l->text = (struct tt_word){ p, (size_t)(end - p) };
		return true;
	}
	if (!is_event_name(l->name) || !(named || (behind != ':' && clear)) ||
	    !strchr(" \t(:<", behind))
		return false;
	if (behind == '(' || (*next == '-' && next[1] == '>') || (*next == '<' && next[1] == '-'))
		l->text = (struct tt_word){ p, (size_t)(end - p) };
	if (*next == '<' && next[1] == '-')
		l->name = (struct tt_word){ "function", 8 };
	return true;
}

/* ---- all of it ---- */

/*
 * Whether what begins at first is still the name of a task, which may be chosen to look like the
 * rest of a line: it ends there with a thread, before open and before its 15 bytes are over, in
 * which no time and event have room.
 */
static __attribute__((noinline)) bool is_name(const char *first, const char *open)
{
	struct tt_word w = word_trimmed(first, open);

	if (w.n && w.s[w.n - 1] == ')' && memrchr(w.s, '(', w.n))
		w = word_trimmed(w.s, memrchr(w.s, '(', w.n));
	if (last_number(&w) == UINT64_MAX)
		return false;
	if (w.n && w.s[w.n - 1] == '/') { /* its process */
		w.n--;
		last_number(&w);
	}
	return word_trimmed(w.s, w.s + w.n).n <= TASK_COMM + 1;
}

/* The bracket behind p that is_name() accepts, NULL: none. */
static const char *later_bracket(const char *first, const char *p, const char *end)
{
	end = MIN(end, first + 64);
	do
		p = p < end ? memchr(p + 1, '[', (size_t)(end - p - 1)) : NULL;
	while (p && !is_name(first, p));
	return p;
}

/* Whether that is to be looked for: in as many bytes, which may be of the next line. */
static inline bool may_be_later(const char *first)
{
	bytes16 c, is = { 0 };
	uint64_t v[2];

	for (const char *p = first + 1; p < first + 64; p += sizeof(c)) {
		memcpy(&c, p, sizeof(c));
		is |= (bytes16)(c == '[');
	}
	memcpy(v, &is, sizeof(v));
	return v[0] | v[1];
}

/* "[003]", "[v0]"; not one of the event's text, which comes after a time. */
static const char *find_cpu(const char *s, const char *end, struct tt_line *l, const char **open)
{
	const char *first = NULL, *behind = NULL;

	for (const char *p = strchr(s, '['); p;
	     p = first ? later_bracket(first, p, end) : strchr(p + 1, '[')) {
		const char *q = p + 1;
		bool text = p - s > 1 && p[-1] == ' ' && p[-2] == ':';
		uint64_t cpu;

		q += *q == 'v';
		if (!text && ((p > s && p[-1] != ' ' && p[-1] != '\t') ||
			      !take_u64(&q, UINT64_MAX, &cpu) || *q != ']'))
			continue;
		first = first ?: p;
		if (text)
			continue;
		l->cpu = (uint32_t)MIN(cpu, (uint64_t)UINT32_MAX);
		l->has_cpu = true;
		l->is_vcpu = p[1] == 'v';
		*open = p;
		behind = line_skip_blanks(q + 1);
	}
	return behind;
}

/* "1d.h2.", CPU and flags in the word before the time, as in ftrace's latency format. */
static void take_latency(const char *s, const char *p, struct tt_line *l, const char **open)
{
	const char *q = p;
	uint64_t cpu;

	if (p == s || !take_u64(&q, UINT32_MAX, &cpu) || take_flags(q, l) == q)
		return;
	l->cpu = (uint32_t)cpu;
	l->has_cpu = true;
	*open = p;
}

/* Without a CPU: the first word that is a time with its colon. */
static const char *find_time(const char *s, struct tt_line *l, const char **open, bool *colon)
{
	const char *before = s;

	for (const char *p = line_skip_blanks(s); *p; p = line_skip_blanks(word_end(p))) {
		const char *q = p;

		*open = p;
		if (take_time(&q, l, colon) && *colon && l->kind == TT_NS) {
			take_latency(s, before, l, open);
			return q;
		}
		before = p;
		if (*p && word_end(p)[-1] == ':')
			break;
	}
	*l = tt_no_line;
	*open = line_skip_blanks(s);
	return *open;
}

/*
 * "CPU:3 [LOST 12 EVENTS]" of ftrace, "[12 EVENTS DROPPED]" of trace-cmd; behind the CPU. And what
 * kvmft prints where events are missing.
 */
static bool read_lost(const char *p, struct tt_line *l)
{
	const bool bracket = *p == '['; /* with its end, longer than the name of a task */

	p += bracket;
	p += str_starts(p, "LOST ") ? 5 : str_starts(p, "PERHAPS ") ? 8 : 0;
	(void)!take_u64(&p, UINT64_MAX, &l->count);
	p = line_skip_blanks(p);
	return l->lost = str_starts(p, bracket ? "EVENTS]" : "EVENTS") ||
			 str_starts(p, "EVENTS DROPPED]") ||
			 str_starts(p, "NOT RECORDED on this CPU") ||
			 str_starts(p, "DAMAGED: sub-buffer ");
}

/* "CPU:3 [", or "CPU 3: " of somebody who has left out the rest; *p is moved behind it. */
static bool take_cpu(const char **p, const char *begin, char end, struct tt_line *l)
{
	const char *q = *p + 4;
	uint64_t cpu;

	if (strncmp(*p, begin, 4) || !take_u64(&q, UINT32_MAX, &cpu) || *q != end)
		return false;
	l->cpu = (uint32_t)cpu;
	l->has_cpu = true;
	*p = line_skip_blanks(q + 1);
	return true;
}

/*
 * Whether what is at p begins as an event of late does, which read_event() would read as that was:
 * no other blank and no arrow follow.
 */
static bool known_event(const struct tt_shapes *all, const char *p, const char *end, bool colon,
			struct tt_line *l)
{
	struct tt_shape *s = all->guess ? &all->slot[*tt_guess(all, p, end)] : NULL;
	const char *text;

	if (!s || !s->headed || !(colon || s->sys) || !tt_same(p, s->skeleton, s->head))
		return false;
	text = p + s->head;
	if (*text == ' ' || *text == '\t' || *text == '-' || *text == '<')
		return false;
	l->sys = (struct tt_word){ p, s->sys };
	l->name = (struct tt_word){ p + (s->sys ? s->sys + 1 : 0), s->name };
	l->text = (struct tt_word){ text, (size_t)(end - text) };
	l->guess = s;
	l->set = all->set;
	return true;
}

/* A line of which both is known. */
static inline bool known_line(const struct tt_shapes *all, const struct tt_head *h, const char *s,
			      const char *end, struct tt_line *l)
{
	const char *p = line_skip_blanks(s + h->n);
	bool colon;

	*l = h->l;
	l->side.s = s + h->side;
	l->comm.s = s + h->comm;
	if (!time_at(&p, l, &colon)) {
		p = take_flags(p, l);
		if (!take_time(&p, l, &colon))
			return false;
	}
	l->what = p;
	return h->kvmft == !colon && known_event(all, p, end, colon, l);
}

bool tt_line(struct tt_shapes *all, const char *s, const char *end, struct tt_line *l, bool *begun)
{
	struct tt_head *h = head_of(all, s, end);
	const bool known = h->n && tt_same(s, h->text, h->n) &&
			   !(may_be_later(s + h->open) &&
			     later_bracket(s + h->open, s + h->open, end));
	const char *open = s, *p, *first, *cpu = NULL;
	bool colon = false, bare = false; /* bare: nothing but the event tells that it is one */

	*begun = false;
	if (known && known_line(all, h, s, end, l))
		return true;
	p = first = line_skip_blanks(s);
	*l = tt_no_line;
	if (!known && take_cpu(&p, "CPU:", ' ', l) && *p == '[' && read_lost(p, l))
		return true;
	if (known) {
		l->cpu = h->l.cpu;
		l->is_vcpu = h->l.is_vcpu;
		l->has_cpu = true;
		open = s + h->open;
		cpu = s + h->n;
		p = line_skip_blanks(cpu);
	} else {
		p = find_cpu(s, end, l, &open);
		cpu = p ? strchr(open, ']') + 1 : NULL;
	}
	if (!p && (bare = take_cpu(&first, "CPU ", ':', l))) {
		s = open = p = first;
	} else if (p && !time_at(&p, l, &colon)) {
		p = take_flags(p, l);
		(void)!take_time(&p, l, &colon);
	} else if (!p) {
		p = find_time(s, l, &open, &colon);
	}
	if (l->kind && colon && tt_is_digit(*p)) { /* a number of events, of perf's */
		const char *q = p + strspn(p, "0123456789");

		p = *q == ' ' || *q == '\t' ? line_skip_blanks(q) : p;
	}
	*begun = l->kind != TT_NO_TIME && !*p;
	if (l->has_cpu && l->kind && !colon && read_lost(p, l)) {
		take_who(h, known, s, open, cpu, true, l);
		return true;
	}
	if (!*p)
		return false;
	l->what = p;
	if (!read_event(p, end, l->has_cpu && colon, l)) { /* what somebody has written by hand */
		if (!l->has_cpu || !colon || l->kind != TT_NS)
			return false;
		l->sys = l->name = (struct tt_word){ "line", 4 };
		l->sys.n = 0;
		l->text = (struct tt_word){ p, (size_t)(end - p) };
	}
	/* kvmft's own lines have no colon after the time, and their events a system. */
	if (l->kind && !colon && !l->sys.n)
		return false;
	bare |= !l->kind && !l->has_cpu;
	if (bare && !tt_event_find(l->sys, l->name) && !str_starts(l->name.s, "kvm_"))
		return false;
	take_who(h, known, s, open, cpu, l->kind && !colon, l);
	return true;
}
