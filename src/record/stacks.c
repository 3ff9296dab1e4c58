/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stacks.c: --stacks, the kernel's stacks at events.
 *
 * The trigger stacktrace makes the kernel store an event of its own, ftrace:kernel_stack, right
 * after the one that it is set on; by the instance's option userstacktrace, --stacks user, each
 * event is followed by ftrace:user_stack. It contains addresses. Their names, but for a program's,
 * are looked up at the end, only of those that occur, so that a capture does not expose all
 * symbols of a machine; a recorder that was killed leaves addresses. /proc/kallsyms is opened
 * before privileges are dropped, and read afterwards: what it shows is decided when it is opened.
 *
 * The kernel also fires a trigger for events that their filter rejects, so the trigger's condition
 * repeats the filter. With set_event_pid that is not so.
 */
#include "record.h"

#include "kvmft/ksyms.h"
#include "kvmft/ring.h"

#define STACK_SYS     "ftrace"
#define STACK_NAME    "kernel_stack"
#define MAX_ADDRESSES (1u << 20)
#define MAX_KALLSYMS  (64u << 20)
#define READ_BYTES    (1u << 20) /* of the data at once, about */

/* ---- what is recorded ---- */

int record_stacks_events(struct record *r)
{
	struct kevent_list *ev = &r->stacks.ev;
	int ret = 0;

	for (size_t i = 0; i < r->c->stacks.n && !ret; i++)
		if (!strcmp(r->c->stacks.v[i], "user"))
			r->stacks.user = true;
		else
			ret = kevent_expand(r->t, r->c->stacks.v[i], ev, r->err);
	for (size_t i = 0; i < ev->n && !ret; i++)
		if (!kevent_list_has(&r->events, ev->v[i].sys, ev->v[i].name))
			ret = kevent_list_add(&r->events, ev->v[i].sys, ev->v[i].name, NULL);
	return ret;
}

static void add_condition(struct sbuf *b, const char *between, const char *filter)
{
	if (filter)
		sbuf_addf(b, "%s(%s)", between, filter);
}

static int set_triggers(struct record *r)
{
	const struct kevent_list *ev = &r->stacks.ev;
	int ret = 0;

	for (size_t i = 0; i < ev->n && !ret; i++) {
		const struct kevent *e = &ev->v[i];
		_cleanup_(sbuf_free) struct sbuf b = { 0 };
		const char *filter = NULL;

		for (size_t k = r->events.n; k--;)
			if (!strcmp(r->events.v[k].sys, e->sys) &&
			    !strcmp(r->events.v[k].name, e->name))
				filter = r->events.v[k].filter;
		sbuf_add(&b, "stacktrace");
		add_condition(&b, " if ", filter);
		add_condition(&b, filter ? " && " : " if ", e->filter);
		ret = b.error ? err_set(r->err, ENOMEM, "out of memory")
			      : kinst_trigger_add(r->k, e->sys, e->name, b.s, r->err);
	}
	return ret;
}

int record_stacks_arm(struct record *r)
{
	const struct kevent_list *ev = &r->stacks.ev;
	enum kstacks can = KSTACKS_TRIGGER;
	int ret = r->stacks.user ? kinst_stacks_of_all(r->k, "userstacktrace", r->err) : 0;

	if (ret || !ev->n)
		return ret;
	for (size_t i = 0; i < ev->n; i++)
		can = MIN(can, kinst_stacks(r->k, ev->v[i].sys, ev->v[i].name));
	if (can == KSTACKS_NONE)
		return err_lack(r->err, ENOTSUP,
				"this kernel has no stacktrace trigger: --stacks needs "
				"CONFIG_STACKTRACE (see kvmft check)");
	r->stacks.kallsyms = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	if (r->stacks.kallsyms < 0)
		r->note("cannot open /proc/kallsyms: %s: stacks will be addresses without names",
			strerror(errno));
	if (can == KSTACKS_TRIGGER)
		return set_triggers(r);
	for (size_t i = 0; i < ev->n; i++)
		if (ev->v[i].filter)
			return err_lack(r->err, ENOTSUP,
					"this kernel has no stacktrace trigger for %s:%s, so a "
					"filter cannot select its stacks: use --stacks without one",
					ev->v[i].sys, ev->v[i].name);
	if (!r->c->quiet)
		r->note("this kernel has no stacktrace trigger: stacks of all events are recorded");
	return kinst_stacks_of_all(r->k, "stacktrace", r->err);
}

int record_stacks_facts(struct record *r)
{
	char sys[] = STACK_SYS, name[] = STACK_NAME, user_name[] = "user_stack";
	const struct kevent stack = { .sys = sys, .name = name };
	const struct kevent user = { .sys = sys, .name = user_name };
	_cleanup_free_ char *text = NULL;
	int ret = r->stacks.user ? record_facts_event(r, &user) : 0;

	if (ret || !r->stacks.ev.n)
		return ret;
	ret = kevent_format(r->t, STACK_SYS, STACK_NAME, &text);
	ret = ret ?: kevent_format_id(text, &r->stacks.id);
	if (ret)
		return err_why(r->err, ret, "cannot read the format of " STACK_SYS ":" STACK_NAME);
	return record_facts_event(r, &stack);
}

void record_stacks_free(struct record *r)
{
	kevent_list_free(&r->stacks.ev);
	util_close_fd(&r->stacks.kallsyms);
}

/* ---- names ---- */

struct addresses {
	struct u64map seen;
	uint64_t *v;
	size_t n, cap;
};

static int addresses_of_subbuf(const struct record *r, struct addresses *a, const void *data)
{
	const struct subbuf_geom g = subbuf_geom_here(r->store.subbuf);
	unsigned long caller;
	uint64_t addr, seen;
	struct rec rec = { 0 };
	struct subbuf sb;
	int ret = 0;

	if (subbuf_begin(&sb, data, &g))
		return 0;
	while (!ret && subbuf_next(&sb, &rec) > 0)
		/* After `int size`, aligned; what is in excess is no function, or one. */
		for (size_t at = 8 + sizeof(caller); rec.id == r->stacks.id && !ret &&
						     at + sizeof(caller) <= rec.len;
		     at += sizeof(caller)) {
			memcpy(&caller, rec.data + at, sizeof(caller));
			addr = caller;
			if (u64map_get(&a->seen, addr, &seen) || a->n >= MAX_ADDRESSES)
				continue;
			if (u64map_put(&a->seen, addr, 1) ||
			    array_add(&a->v, &a->n, &a->cap, &addr, sizeof(addr)))
				ret = -ENOMEM;
		}
	return ret;
}

static int addresses_find(const struct record *r, struct addresses *a)
{
	size_t size = MAX(READ_BYTES / r->store.subbuf, 1u) * (size_t)r->store.subbuf;
	_cleanup_free_ uint8_t *buf = malloc(size);
	int ret = buf ? 0 : -ENOMEM;

	for (unsigned int s = 0; s <= r->store.segment && !ret; s++)
		for (size_t i = 0; i < r->ncpu && !ret; i++) {
			_cleanup_close_ int fd = capw_data_reopen(r->w, s, r->drain[i].cpu);
			uint64_t at = 0;
			ssize_t got;

			/* A segment that is gone, or a CPU that has none of it, is skipped. */
			while (fd >= 0 && !ret && (got = full_pread(fd, buf, size, at)) > 0) {
				for (size_t k = 0; k + r->store.subbuf <= (size_t)got && !ret;
				     k += r->store.subbuf)
					ret = addresses_of_subbuf(r, a, buf + k);
				at += (uint64_t)got;
			}
		}
	return ret;
}

int record_stacks_names(struct record *r)
{
	_cleanup_(ksyms_free) struct ksyms k = { 0 };
	_cleanup_free_ char *text = NULL;
	struct addresses a = { 0 };
	struct sbuf b = { 0 };
	ssize_t got;
	int ret;

	if (!r->stacks.ev.n)
		return 0;
	ret = addresses_find(r, &a);
	if (!ret && a.n && r->stacks.kallsyms >= 0) {
		got = fd_read_all(r->stacks.kallsyms, MAX_KALLSYMS, &text);
		ret = got < 0 ? (int)got : ksyms_parse(&k, text, (size_t)got);
		if (!ret && !k.n && !r->c->quiet)
			r->note("/proc/kallsyms hides addresses (sysctl kernel.kptr_restrict): "
				"stacks are addresses without names");
		free(text);
		text = NULL;
	}
	for (size_t i = 0; i < a.n && !ret; i++) {
		struct ksym *s = ksyms_find(&k, a.v[i]);

		if (s)
			s->used = true;
	}
	free(a.v);
	u64map_free(&a.seen);
	if (ret)
		return err_why(r->err, ret, "cannot look up the names of stacks");
	if (!k.n)
		return 0;
	/* The symbols that were found and those after them, which mark their ends. */
	for (size_t i = 0; i < k.n; i++) {
		const struct ksym *s = &k.v[i];

		if (!s->used && !(i && s[-1].used))
			continue;
		sbuf_addf(&b, "%016" PRIx64 " %c %s", s->addr, s->type, s->name);
		if (*s->module)
			sbuf_addf(&b, "\t[%s]", s->module);
		sbuf_addc(&b, '\n');
	}
	text = sbuf_take(&b);
	if (!text)
		return err_set(r->err, ENOMEM, "out of memory");
	return *text ? record_put_names(r, "kallsyms", text, "functions") : 0;
}

/*
 * --symbols, which say what the addresses in a host's events are in this guest.
 *
 * They are read before privileges are dropped, and written before the first event, so that a
 * recorder that is killed leaves them. A module that is gone at the end may have made room for
 * another one: that is recorded, and none of its addresses has a name then. What was loaded
 * meanwhile has none, either.
 */

#define MAX_MODULES (1u << 20) /* The modules that exist now, in *k. */
static int read_modules(const struct record *r, struct ksyms *k)
{
	_cleanup_free_ char *text = malloc(MAX_MODULES + 1);
	char *save, *line;
	ssize_t n;
	int ret = 0;

	if (!text)
		return -ENOMEM;
	n = full_pread(r->symbols.modules, text, MAX_MODULES, 0);
	if (n < 0)
		return (int)n;
	text[n] = '\0';
	for (line = strtok_r(text, "\n", &save); line && !ret; line = strtok_r(NULL, "\n", &save))
		ret = ksyms_add_modules_line(k, line);
	if (!ret)
		ksyms_finish(k);
	return ret;
}

int record_symbols_read(struct record *r)
{
	_cleanup_(ksyms_free) struct ksyms k = { 0 };
	int ret;

	if (!r->c->symbols)
		return 0;
	if (!(r->side & CAP_SIDE_GUEST))
		return err_usage(r->err,
				 "option --symbols is for guests, and this machine records as a "
				 "host; with --guest, use --guest-options '--symbols'");
	r->symbols.modules = open("/proc/modules", O_RDONLY | O_CLOEXEC);
	ret = ksyms_add_lines(&k, "/proc/kallsyms", ksyms_add_line, r->err);
	if (!ret && !k.n)
		return err_lack(r->err, EPERM,
				"--symbols: /proc/kallsyms hides addresses: run as root, with "
				"sysctl kernel.kptr_restrict=1");
	if (!ret && r->symbols.modules >= 0)
		ret = ksyms_add_lines(&k, "/proc/modules", ksyms_add_modules_line, r->err);
	ksyms_finish(&k);
	if (!ret && ksyms_pack(&k, &r->symbols.text))
		ret = err_set(r->err, ENOMEM, "out of memory");
	if (!ret && r->symbols.modules >= 0)
		ret = err_why(r->err, read_modules(r, &r->symbols.at_begin),
			      "cannot read /proc/modules");
	return ret;
}

int record_symbols_write(struct record *r)
{
	int ret = r->c->symbols ? record_put_names(r, "symbols", r->symbols.text.s, "functions") : 0;

	sbuf_free(&r->symbols.text);
	return ret;
}

int record_symbols_end(struct record *r)
{
	_cleanup_(ksyms_free) struct ksyms now = { 0 };
	const struct ksyms *then = &r->symbols.at_begin;
	int ret = 0;

	if (!then->nmod)
		return 0;
	ret = err_why(r->err, read_modules(r, &now), "cannot read /proc/modules");
	for (size_t i = 0; i < then->nmod && !ret; i++) {
		char name[KSYM_NAME];
		bool there = false;

		for (size_t k = 0; k < now.nmod; k++)
			there |= now.mod[k].addr == then->mod[i].addr &&
				 !strcmp(now.mod[k].name, then->mod[i].name);
		if (there)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strlen(then->mod[i].name) - 2,
			 then->mod[i].name + 1);
		meta_begin(&r->line, "symbols");
		meta_str(&r->line, "gone", name);
		ret = record_put(r);
	}
	return ret;
}

void record_symbols_free(struct record *r)
{
	util_close_fd(&r->symbols.modules);
	sbuf_free(&r->symbols.text);
	ksyms_free(&r->symbols.at_begin);
}
