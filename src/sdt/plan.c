/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan.c: which markers are wanted, and the events that they become. The kernel lets several places
 * share an event if name and type of each argument are the same: `types` is what is compared.
 */
#include "kvmft/sdt.h"

#include <ctype.h>

#define EVENT_NAME_MAX 56u /* of an event; the kernel takes 63, and a number may follow */

bool sdt_want_match(const struct sdt_want *w, const struct sdt_marker *m)
{
	return (!w->provider || str_glob(w->provider, m->provider)) &&
	       (!w->name || str_glob(w->name, m->name));
}

/* ---- one place ---- */

struct draft {
	struct sbuf args, types, left_out;
};

static void draft_free(struct draft *d)
{
	sbuf_free(&d->args);
	sbuf_free(&d->types);
	sbuf_free(&d->left_out);
}

static void leave_out(struct draft *d, unsigned int i, const char *why)
{
	sbuf_addf(&d->left_out, "%sarg%u: %s", d->left_out.len ? "; " : "", i, why);
}

/* What follows the last colon of a fetch argument is its type, in our terms as well. */
static void draft_arg(const struct sdt_plan *p, enum sdt_arch arch, const struct sdt_arg *a,
		      enum sdt_as as, unsigned int i, struct draft *d)
{
	_cleanup_(sbuf_free) struct sbuf fetch = { 0 };
	const char *why = "a constant, which this kernel cannot show";
	bool constant = a->len && *a->operand == '$';

	if ((constant && (p->flags & SDT_NO_CONSTANTS)) ||
	    sdt_arg_fetch(arch, a, as, &fetch, &why)) {
		leave_out(d, i, why);
	} else if (!fetch.error) {
		const char *type = strrchr(fetch.s, ':');

		sbuf_addf(&d->args, "%sarg%u=%s", d->args.len ? " " : "", i, fetch.s);
		/* A bit field is a u8 by another name. */
		sbuf_addf(&d->types, "%sarg%u%s", d->types.len ? " " : "", i,
			  type && strcmp(type, ":b8@8/64") ? type : ":u8");
	} else {
		d->args.error = fetch.error;
	}
}

static int draft_make(const struct sdt_plan *p, enum sdt_arch arch, const struct sdt_marker *m,
		      const enum sdt_as *as, struct draft *d)
{
	const char *rest = m->args;
	struct sdt_arg a;
	unsigned int i = 0;
	int got = 1;

	while (got > 0 && i < SDT_ARGS_MAX) {
		got = sdt_arg_next(&rest, &a);
		if (got > 0)
			draft_arg(p, arch, &a, as[i], i + 1, d);
		else if (got < 0)
			leave_out(d, i + 1, "and what follows it: malformed");
		i++;
	}
	/* Never NULL from here on. */
	sbuf_add(&d->args, "");
	sbuf_add(&d->types, "");
	sbuf_add(&d->left_out, "");
	return d->args.error || d->types.error || d->left_out.error ? -ENOMEM : 0;
}

/* ---- events ---- */

static char *word_dup(const char *prefix, const char *s)
{
	struct sbuf b = { 0 };

	sbuf_add(&b, prefix);
	if (!*prefix && isdigit((unsigned char)*s))
		sbuf_addc(&b, '_');
	for (; *s && b.len < EVENT_NAME_MAX; s++)
		sbuf_addc(&b, isalnum((unsigned char)*s) ? *s : '_');
	return sbuf_take(&b);
}

static bool sdt_name_taken(const struct sdt_plan *p, const struct sdt_event *e, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (&p->v[i] != e && !strcmp(p->v[i].sys, e->sys) && !strcmp(p->v[i].name, name))
			return true;
	return false;
}

static int event_name(struct sdt_plan *p, struct sdt_event *e)
{
	_cleanup_free_ char *word = word_dup("", e->marker);
	struct sbuf b = { 0 };

	if (!word)
		return -ENOMEM;
	sbuf_add(&b, word);
	for (unsigned int i = 1; !b.error && sdt_name_taken(p, e, b.s); i++) {
		sbuf_reset(&b);
		sbuf_addf(&b, "%s_%u", word, i);
	}
	e->name = sbuf_take(&b);
	return e->name ? 0 : -ENOMEM;
}

static struct sdt_event *event_new(struct sdt_plan *p, const struct sdt_marker *m, struct draft *d)
{
	struct sdt_event *e = array_grow(&p->v, p->n, &p->cap, sizeof(*e));

	if (!e)
		return NULL;
	p->n++; /* from here on sdt_plan_free() knows it */
	e->provider = strdup(m->provider);
	e->marker = strdup(m->name);
	e->sys = word_dup("sdt_", m->provider);
	e->types = sbuf_take(&d->types);
	e->left_out = sbuf_take(&d->left_out);
	if (!e->provider || !e->marker || !e->sys || !e->types || !e->left_out || event_name(p, e))
		return NULL;
	return e;
}

static struct sdt_event *event_find(struct sdt_plan *p, const struct sdt_marker *m,
				    const struct draft *d)
{
	if (p->flags & SDT_ONE_PLACE)
		return NULL;
	for (size_t i = 0; i < p->n; i++) {
		struct sdt_event *e = &p->v[i];

		if (!strcmp(e->marker, m->name) && !strcmp(e->provider, m->provider) &&
		    !strcmp(e->types, d->types.s))
			return e;
	}
	return NULL;
}

static int sdt_place_add(struct sdt_event *e, const struct sdt_marker *m, size_t file,
			 struct draft *d)
{
	struct sdt_place *place;

	/* The same place twice: one nop, two notes with the same content. */
	for (size_t i = 0; i < e->n; i++)
		if (e->place[i].file == file && e->place[i].offset == m->offset)
			return 0;
	place = array_grow(&e->place, e->n, &e->cap, sizeof(*place));
	if (!place)
		return -ENOMEM;
	*place = (struct sdt_place){ .file = file, .offset = m->offset, .semaphore = m->semaphore };
	place->args = sbuf_take(&d->args);
	if (!place->args)
		return -ENOMEM;
	e->n++;
	e->guarded |= m->semaphore != 0;
	return 0;
}

static int plan_marker(struct sdt_plan *p, const struct sdt_file *f, size_t file,
		       const struct sdt_marker *m, const struct sdt_want *asked, size_t max)
{
	_cleanup_(draft_free) struct draft d = { .args = { 0 } };
	int ret = draft_make(p, f->arch, m, asked->as, &d);
	struct sdt_event *e = ret ? NULL : event_find(p, m, &d);

	if (!ret && !e) {
		ret = p->n >= max ? -E2BIG : 0;
		e = ret ? NULL : event_new(p, m, &d);
		ret = ret || e ? ret : -ENOMEM;
	}
	ret = ret ?: sdt_place_add(e, m, file, &d);
	if (!ret && asked->filter)
		e->filter = asked->filter;
	return ret;
}

int sdt_plan_add(struct sdt_plan *p, const struct sdt_file *f, size_t file,
		 const struct sdt_want *w, size_t n, size_t max)
{
	int ret = 0;

	for (size_t i = 0; i < f->n && !ret; i++) {
		struct sdt_want asked = { .filter = NULL };
		bool wanted = false;

		for (size_t k = 0; k < n; k++) {
			if (!sdt_want_match(&w[k], &f->v[i]))
				continue;
			wanted |= !w[k].hint;
			asked.filter = w[k].filter ? w[k].filter : asked.filter;
			for (size_t a = 0; a < SDT_ARGS_MAX; a++)
				if (w[k].as[a] != SDT_AS_NUMBER)
					asked.as[a] = w[k].as[a];
		}
		if (wanted && f->v[i].unfit) {
			p->unfit++;
			p->why_unfit = f->v[i].unfit;
		} else if (wanted) {
			ret = plan_marker(p, f, file, &f->v[i], &asked, max);
		}
	}
	return ret;
}

void sdt_plan_free(struct sdt_plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct sdt_event *e = &p->v[i];

		for (size_t k = 0; k < e->n; k++)
			free(e->place[k].args);
		free(e->place);
		free(e->sys);
		free(e->name);
		free(e->provider);
		free(e->marker);
		free(e->types);
		free(e->left_out);
	}
	free(p->v);
	*p = (struct sdt_plan){ 0 };
}
