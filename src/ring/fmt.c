/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt.c: all event formats of one capture, found by id and by name.
 *
 * Two captures (a host and a guest) have two of these: ids, offsets and even fields differ
 * between kernels.
 */
#include "fmt_priv.h"
#include "kvmft/put.h"

static void event_free(struct fmt_event *e)
{
	free(e->fld);
	fmt_free_symbols(e->lazy);
	fmt_plan_free(e->lazy->plan);
	free(e); /* and what follows it */
}

/* What capture_open() has taken was checked by that. */
static bool text_ok(const struct fmt *f, const struct cap_format *c)
{
	return (f->of && f->of->priv) ||
	       (c->text && c->len && c->len <= CAPTURE_MAX_FORMAT && strlen(c->text) == c->len &&
		str_is_text(c->text, c->len));
}

/*
 * One block for everything that an event always has: a machine declares thousands of them. Its
 * texts, a megabyte of them, are the capture's if that stays.
 */
struct event_block {
	struct fmt_event e;
	struct fmt_lazy lazy;
	char text[]; /* the strings of e, each with its NUL; the title has PUT_SLACK bytes more */
};

/* n bytes of s and `end` at *at, which moves past them. */
static char *put_string(char **at, const char *s, size_t n, char end)
{
	char *to = *at;

	memcpy(to, s, n);
	to[n] = end;
	*at += n + 1;
	return to;
}

static struct fmt_event *event_new(struct fmt *f, const struct cap_format *c)
{
	size_t sys = strlen(c->sys), name = strlen(c->name), title = sys + 1 + name + 2;
	size_t own = f->of ? 0 : sys + 1 + name + 1 + c->len + 1;
	struct event_block *b = calloc(1, sizeof(*b) + own + title + PUT_SLACK);
	char *at = b ? b->text : NULL;
	struct fmt_event *e;

	if (!b)
		return NULL;
	e = &b->e;
	e->sys = own ? put_string(&at, c->sys, sys, '\0') : c->sys;
	e->name = own ? put_string(&at, c->name, name, '\0') : c->name;
	e->text = own ? put_string(&at, c->text, c->len, '\0') : c->text;
	e->len = c->len;
	e->line.title = put_string(&at, c->sys, sys, ':');
	put_string(&at, c->name, name, ':');
	*at = ' ';
	e->line.title_len = title;
	e->lazy = &b->lazy;
	e->lazy->f = f;
	e->lazy->e = e;
	return e;
}

char *fmt_name_copy(struct fmt *f, const char *s, size_t n)
{
	struct fmt_names *names = f->names;
	char *copy;

	if (!names || n >= names->room) {
		names = malloc(sizeof(*names) + MAX(n + 1, (size_t)FMT_NAMES_BLOCK));
		if (!names)
			return NULL;
		names->next = f->names;
		names->used = 0;
		names->room = MAX(n + 1, (size_t)FMT_NAMES_BLOCK);
		f->names = names;
	}
	copy = names->text + names->used;
	memcpy(copy, s, n);
	copy[n] = '\0';
	names->used += n + 1;
	names->room -= n + 1;
	return copy;
}

/* The event of a format; -EBADMSG with *why: it is left out. */
static int event_parse(struct fmt *f, const struct cap_format *c, struct fmt_event **out,
		       const char **why)
{
	struct fmt_event *e;
	int ret;

	if (!text_ok(f, c)) {
		*why = "no text";
		return -EBADMSG;
	}
	e = event_new(f, c);
	if (!e)
		return -ENOMEM;
	ret = fmt_parse_text(e, why);
	if (!ret && fmt_by_id(f, e->id)) {
		*why = "its id is used by another event";
		ret = -EBADMSG;
	}
	if (ret)
		event_free(e);
	else
		*out = e;
	return ret;
}

static int add_event(struct fmt *f, const struct cap_format *c)
{
	struct fmt_event **slot = array_grow(&f->event, f->n, &f->cap, sizeof(*slot));
	const char *why = "";
	int ret;

	if (!slot)
		return -ENOMEM;
	ret = event_parse(f, c, slot, &why);
	if (!ret) {
		f->quick.by_id[(*slot)->id] = *slot;
		f->n++;
		return 0;
	}
	if (ret != -EBADMSG)
		return ret;
	if (f->of)
		capture_format_bad(f->of, c, why);
	return 0;
}

/* The common fields are the same in every event of a kernel: taken from the first. */
static void find_common(struct fmt *f)
{
	f->quick.pid_end = UINT32_MAX;
	if (!f->n)
		return;
	fmt_field(f->event[0], "common_pid", &f->pid);
	if (f->pid.size == 4 && !f->pid.is_array)
		f->quick.pid_end = f->pid.off + 4u;
	fmt_field(f->event[0], "common_flags", &f->flags);
	fmt_field(f->event[0], "common_preempt_count", &f->preempt);
}

int fmt_load(const struct capture *cap, struct fmt **out, struct kvmft_err *err)
{
	struct fmt *f = calloc(1, sizeof(*f));
	const struct fmt_event *exits;
	size_t i;
	int ret = 0;

	if (!f)
		return err_set(err, ENOMEM, "out of memory");
	f->long_size = cap->long_size;
	f->of = cap->kallsyms || cap->priv ? cap : NULL; /* of formats alone there is none later */
	for (i = 0; i < cap->nformat && !ret; i++)
		ret = add_event(f, &cap->format[i]);
	/* Here, where it can fail: everybody asks for the names of exits. */
	exits = fmt_find(f, "kvm", "kvm_exit");
	if (!ret && exits)
		ret = fmt_read_symbols(exits);
	if (ret) {
		fmt_free(f);
		return err_set(err, ret, "cannot load the event formats: %s", strerror(-ret));
	}
	find_common(f);
	*out = f;
	return 0;
}

int fmt_add(struct fmt *f, const struct cap_format *c)
{
	size_t before = f->n;
	int ret = add_event(f, c);

	if (!ret && !before)
		find_common(f);
	return ret ?: f->n > before ? 0 : -EBADMSG;
}

void fmt_free(struct fmt *f)
{
	size_t i;

	if (!f)
		return;
	for (i = 0; i < f->n; i++)
		event_free(f->event[i]);
	while (f->names) {
		struct fmt_names *next = f->names->next;

		free(f->names);
		f->names = next;
	}
	fmt_plan_close(f);
	fmt_stacks_free(f);
	free(f->event);
	free(f);
}

const struct fmt_event *fmt_find(const struct fmt *f, const char *sys, const char *name)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		if (!strcmp(f->event[i]->name, name) && !strcmp(f->event[i]->sys, sys))
			return f->event[i];
	return NULL;
}

const struct fmt_event *fmt_at(const struct fmt *f, size_t i)
{
	return i < f->n ? f->event[i] : NULL;
}

const char *fmt_sys(const struct fmt_event *e)
{
	return e->sys;
}

const char *fmt_name(const struct fmt_event *e)
{
	return e->name;
}

uint16_t fmt_id(const struct fmt_event *e)
{
	return e->id;
}

const struct fmt_fld *fmt_find_fld(const struct fmt_event *e, const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < e->nfld; i++)
		if (!strncmp(e->fld[i].name, name, len) && !e->fld[i].name[len])
			return &e->fld[i];
	return NULL;
}

bool fmt_field(const struct fmt_event *e, const char *name, struct fmt_field *out)
{
	const struct fmt_fld *fld = fmt_find_fld(e, name, strlen(name));

	memset(out, 0, sizeof(*out));
	if (fld)
		*out = fld->f;
	return fld;
}

const char *fmt_field_name(const struct fmt_event *e, size_t i)
{
	return i < e->nfld ? e->fld[i].name : NULL;
}

const struct fmt_field *fmt_field_at(const struct fmt_event *e, size_t i)
{
	return i < e->nfld ? &e->fld[i].f : NULL;
}

size_t fmt_common_fields(const struct fmt_event *e)
{
	return e->ncommon;
}

bool fmt_has_plan(const struct fmt_event *e)
{
	struct fmt_lazy *lazy = e->lazy;

	if (!lazy->tried && !e->is_stack) {
		lazy->tried = true;
		errno = 0; /* libtraceevent does not tell why it failed */
		lazy->plan = fmt_plan_new(lazy->f, e, NULL);
		lazy->failed = !lazy->plan && errno == ENOMEM;
		if (lazy->plan)
			fmt_plan_quick(lazy->plan, lazy->e);
	}
	return lazy->plan;
}
