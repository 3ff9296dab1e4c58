/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pick.c: selects a part of a time line.
 *
 * Whether a name matches is decided once per event type of each source and kept. Items before a
 * match are copied as they pass, into a ring as long as the context; of large ones fewer are kept.
 */
#include "kvmft/timeline.h"

#include <ctype.h>
#include <fnmatch.h>

#include "kvmft/vmsel.h"

/*
 * Ftrace's filter syntax, for records in a file.
 *
 * Parsed into terms and a program in postfix order, so that nesting costs nothing at run time and
 * hostile depth no stack. Fields are looked up by name per record: filters see only the few events
 * whose names matched.
 */

#define MAX_DEPTH 64
#define MAX_STEPS 256
#define MAX_TEXT  256

enum op { OP_EQ, OP_NE, OP_LE, OP_LT, OP_GE, OP_GT, OP_AND, OP_GLOB, OP_COUNT };

/* In this order: none begins with an earlier one. */
static const char *const op_text[OP_COUNT] = {
	[OP_EQ] = "==", [OP_NE] = "!=", [OP_LE] = "<=", [OP_LT] = "<",
	[OP_GE] = ">=", [OP_GT] = ">",	[OP_AND] = "&", [OP_GLOB] = "~",
};

enum step_kind { STEP_TERM, STEP_NOT, STEP_AND, STEP_OR };

struct step {
	enum step_kind kind;
	char *field;
	enum op op;
	char *text;  /* the value as written, without quotes */
	bool number; /* it is a number, too: */
	uint64_t value;
	bool negative;
};

struct filter {
	struct step *s;
	size_t n, cap;
};

struct parser {
	struct filter *f;
	const char *p, *end, *begin;
	unsigned int depth;
	struct kvmft_err *err;
};

static int filter_bad(const struct parser *q, const char *what)
{
	return err_set(q->err, EINVAL, "filter '%.*s': %s at '%.*s'", (int)(q->end - q->begin),
		       q->begin, what, (int)(q->end - q->p), q->p);
}

static void filter_skip_blanks(struct parser *q)
{
	while (q->p < q->end && (*q->p == ' ' || *q->p == '\t'))
		q->p++;
}

static bool filter_take(struct parser *q, const char *text)
{
	size_t n = strlen(text);

	filter_skip_blanks(q);
	if ((size_t)(q->end - q->p) < n || memcmp(q->p, text, n))
		return false;
	q->p += n;
	return true;
}

static int add_step(struct parser *q, struct step **out, enum step_kind kind)
{
	struct step *s;

	if (q->f->n >= MAX_STEPS)
		return filter_bad(q, "too long");
	s = xarray_grow(&q->f->s, q->f->n, &q->f->cap, sizeof(*s));
	s->kind = kind;
	q->f->n++;
	if (out)
		*out = s;
	return 0;
}

/* A word, or the text between quotes. */
static char *take_word(struct parser *q, bool value)
{
	const char *from;
	char quote;

	filter_skip_blanks(q);
	from = q->p;
	if (value && q->p < q->end && (*q->p == '"' || *q->p == '\'')) {
		quote = *q->p++;
		from = q->p;
		while (q->p < q->end && *q->p != quote)
			q->p++;
		return q->p == q->end ? NULL : strndup(from, (size_t)(q->p++ - from));
	}
	while (q->p < q->end &&
	       (isalnum((unsigned char)*q->p) || strchr(value ? "_.-*?[]:/%+<>" : "_.-", *q->p)))
		q->p++;
	return q->p == from ? NULL : strndup(from, (size_t)(q->p - from));
}

static int parse_joined(struct parser *q, bool any);

static int parse_primary(struct parser *q)
{
	int ret;

	if (q->depth >= MAX_DEPTH)
		return filter_bad(q, "nested too deeply");
	if (filter_take(q, "!")) {
		q->depth++;
		ret = parse_primary(q);
		q->depth--;
		return ret ?: add_step(q, NULL, STEP_NOT);
	}
	if (!filter_take(q, "(")) {
		struct step *s;
		int64_t v;
		int op;

		ret = add_step(q, &s, STEP_TERM);
		if (ret)
			return ret;
		s->field = take_word(q, false);
		if (!s->field)
			return filter_bad(q, "a field is missing");
		for (op = 0; op < OP_COUNT; op++)
			if (filter_take(q, op_text[op]))
				break;
		if (op == OP_COUNT)
			return filter_bad(q, "one of == != < <= > >= & ~ is missing");
		s->op = (enum op)op;
		s->text = take_word(q, true);
		if (!s->text)
			return filter_bad(q, "a value is missing");
		s->number = !parse_u64(s->text, &s->value);
		if (!s->number && !parse_s64(s->text, &v)) {
			s->number = s->negative = true;
			s->value = (uint64_t)v;
		}
		if (!s->number && s->op != OP_EQ && s->op != OP_NE && s->op != OP_GLOB)
			return filter_bad(q, "text can be compared with == != ~ only");
		return 0;
	}
	q->depth++;
	ret = parse_joined(q, true);
	q->depth--;
	if (ret)
		return ret;
	return filter_take(q, ")") ? 0 : filter_bad(q, "a ')' is missing");
}

/* Terms, and groups of terms joined by &&, which binds more. */
static int parse_joined(struct parser *q, bool any)
{
	int ret = any ? parse_joined(q, false) : parse_primary(q);

	while (!ret && filter_take(q, any ? "||" : "&&")) {
		ret = any ? parse_joined(q, false) : parse_primary(q);
		ret = ret ?: add_step(q, NULL, any ? STEP_OR : STEP_AND);
	}
	return ret;
}

int filter_parse(const char *text, size_t n, struct filter **out, struct kvmft_err *err)
{
	struct filter *f = xcalloc(1, sizeof(*f));
	struct parser q = { .f = f, .p = text, .begin = text, .end = text + n, .err = err };
	int ret;

	*out = NULL;
	ret = parse_joined(&q, true);
	filter_skip_blanks(&q);
	if (!ret && q.p != q.end)
		ret = filter_bad(&q, "not understood");
	if (ret) {
		filter_free(f);
		return ret;
	}
	*out = f;
	return 0;
}

void filter_free(struct filter *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++) {
		free(f->s[i].field);
		free(f->s[i].text);
	}
	free(f->s);
	free(f);
}

static const char *filter_lacks(const struct filter *f, const struct fmt_event *ev,
				const char **value)
{
	struct fmt_field fld;

	*value = NULL;
	for (size_t i = 0; i < f->n; i++) {
		const struct step *s = &f->s[i];

		if (s->kind != STEP_TERM)
			continue;
		if (!fmt_field(ev, s->field, &fld))
			return s->field;
		if (!s->number && !fld.is_string && !fld.is_array && !fld.is_dynamic &&
		    !fld.is_relative && !fld.is_pointer) {
			*value = s->text;
			return s->field;
		}
	}
	return NULL;
}

/* ---- run time ---- */

/* A term with a field that the event lacks is false, and so is its negation. */
enum truth { FALSE, UNKNOWN, TRUE };

static enum truth term_match(const struct step *s, const struct fmt_event *ev,
			     const struct rec *rec)
{
	char text[MAX_TEXT];
	struct fmt_field fld;
	bool is = false, less;
	int64_t a, b;
	uint64_t v;

	if (!fmt_field(ev, s->field, &fld))
		return UNKNOWN;
	if (fmt_str(&fld, rec, text, sizeof(text))) {
		is = s->op == OP_GLOB ? !fnmatch(s->text, text, 0)
				      : (s->op == OP_EQ || s->op == OP_NE) &&
						(s->op == OP_EQ) == !strcmp(text, s->text);
		return is ? TRUE : FALSE;
	}
	if (!s->number || !fmt_u64(&fld, rec, &v))
		return UNKNOWN;
	a = (int64_t)v;
	b = (int64_t)s->value;
	less = fld.is_signed || s->negative ? a < b : v < s->value;
	switch (s->op) {
	case OP_EQ: is = v == s->value; break;
	case OP_NE: is = v != s->value; break;
	case OP_LT: is = less; break;
	case OP_LE: is = less || v == s->value; break;
	case OP_GT: is = !less && v != s->value; break;
	case OP_GE: is = !less; break;
	case OP_AND: is = v & s->value; break;
	default: break;
	}
	return is ? TRUE : FALSE;
}

bool filter_match(const struct filter *f, const struct fmt_event *ev, const struct rec *rec)
{
	enum truth stack[MAX_STEPS];
	size_t n = 0;

	/* The parser made a program that never pops more than it pushed. */
	for (size_t i = 0; i < f->n; i++) {
		switch (f->s[i].kind) {
		case STEP_TERM: stack[n++] = term_match(&f->s[i], ev, rec); break;
		case STEP_NOT: stack[n - 1] = TRUE - stack[n - 1]; break;
		case STEP_AND:
			n--;
			stack[n - 1] = MIN(stack[n - 1], stack[n]);
			break;
		case STEP_OR:
			n--;
			stack[n - 1] = MAX(stack[n - 1], stack[n]);
			break;
		}
	}
	return n && stack[0] == TRUE;
}

#define MAX_SPECS 32
#define MAX_KEPT  (16u << 20) /* bytes of copies */

struct spec {
	char *sys, *name; /* patterns; sys NULL = any */
	struct filter *filter;
	bool met, hit;	   /* an event of that name was seen; one passed the filter */
	const char *lacks; /* a field in the filter that an event of that name lacks */
	const char *value; /* ... or that is a number but is compared with this text */
};

struct specs {
	struct spec v[MAX_SPECS];
	size_t n;
	struct u64map known; /* tl_type() → set of specs whose names match */
	/* by CPU and fmt_level(): whether the last event matched; for the stack that may follow */
	struct u64map last;
};

/* A copy of an item that was not shown. */
struct kept {
	struct tl_item item; /* src NULL: its source is gone */
	struct rec rec;
	size_t id; /* of src */
	uint8_t *data;
	size_t room;
};

struct pick {
	const struct timeline *t;
	struct specs event;
	bool around; /* they are matches, which are shown with their context */
	uint32_t *vcpu;
	size_t nvcpu, vcpu_cap;
	bool vcpu_met;
	enum { STACKS_UNKNOWN, STACKS_NONE, STACKS_SOME } stacks; /* in the captures */
	char **side;
	size_t nside, side_cap;
	uint64_t context, after; /* items still to be shown after the last match */
	bool shown, skipped;	 /* any; some that were wanted, since then, are not kept either */
	struct kept *ring;
	uint64_t held, next; /* kept ones, and the place of the next */
	bool wanted;	     /* some event was */
	uint64_t matches;
	size_t kept;	  /* size of the room for all copies, bytes */
	uint64_t cut;	  /* items dropped for lack of it, since the last match */
	uint64_t dropped; /* ... that a match would have shown */
};

void pick_new(const struct timeline *t, struct pick **out)
{
	*out = xcalloc(1, sizeof(**out));
	(*out)->t = t;
}

int pick_add_event(struct pick *p, const char *text, struct kvmft_err *err)
{
	struct specs *s = &p->event;
	size_t len = strlen(text), names = strcspn(text, "/");
	const char *colon = memchr(text, ':', names);
	struct spec *x = &s->v[s->n];
	int ret = 0;

	if (s->n == MAX_SPECS)
		return err_set(err, EINVAL, "more than %d events", MAX_SPECS);
	if (!names || (names < len && (text[len - 1] != '/' || len - names < 2)))
		return err_set(err, EINVAL, "'%s' is not EVENT or EVENT/FILTER/", text);
	s->n++;
	if (colon)
		x->sys = strndup(text, (size_t)(colon - text));
	x->name = xmem(colon ? strndup(colon + 1, (size_t)(text + names - colon) - 1)
			     : strndup(text, names));
	if (colon)
		xmem(x->sys);
	if (names < len)
		ret = filter_parse(text + names + 1, len - names - 2, &x->filter, err);
	return ret;
}

void pick_set_context(struct pick *p, uint64_t items)
{
	p->context = MIN(items, (uint64_t)PICK_MAX_CONTEXT);
	p->around = true;
}

void pick_add_vcpu(struct pick *p, uint32_t vcpu)
{
	uint32_t *v = xarray_grow(&p->vcpu, p->nvcpu, &p->vcpu_cap, sizeof(*v));

	*v = vcpu;
	p->nvcpu++;
}

void pick_add_side(struct pick *p, const char *side)
{
	char **v = xarray_grow(&p->side, p->nside, &p->side_cap, sizeof(*v));

	*v = xstrdup(side);
	p->nside++;
}

/* ---- one item ---- */

/* A name that is shown after "name=" only because of its letters is unambiguous without it, too. */
static bool label_is(const char *label, const char *side)
{
	return !strcmp(side, label) ||
	       (!str_is_text(side, strlen(side)) && !strcmp(side, vmsel_name(label)));
}

bool pick_side_is(const struct timeline *t, const struct tl_source *s, const char *side)
{
	const struct hostmap *map = tl_hostmap(t);
	const struct hostmap_vm *vm = s->guest && !s->alone ? &map->vm[map->vm[s->vm].of] : NULL;
	const struct cap_vm *c = vm ? vm->cap : NULL;
	const char *path = s->cap->path, *base;
	size_t n = strlen(path);

	if (!strcmp(side, tl_side(s)) || label_is(s->label, side) ||
	    (vm && label_is(vm->label, side)))
		return true;
	/* It shares its name with others, and is shown as PID-FD: the name means all of them. */
	if (c && c->name && c->id && !strcmp(c->id, vm->label) && !strcmp(c->name, side))
		return true;
	/* A guest of a session has the name that it was given there, which is its directory's. */
	while (n > 1 && path[n - 1] == '/')
		n--;
	base = memrchr(path, '/', n);
	base = base ? base + 1 : path;
	return s->guest && strlen(side) == (size_t)(path + n - base) &&
	       !strncmp(base, side, strlen(side)) && strcmp(side, "host") && strcmp(side, "qemu");
}

static bool spec_fits(const struct spec *x, const struct fmt_event *ev)
{
	if (!x->sys && !strcmp(x->name, fmt_sys(ev)))
		return true; /* a system alone means all of it */
	return (!x->sys || !fnmatch(x->sys, fmt_sys(ev), 0)) && !fnmatch(x->name, fmt_name(ev), 0);
}

static bool specs_match(struct specs *s, const struct tl_item *i)
{
	uint64_t set = 0;

	if (i->kind != TL_EVENT)
		return false;
	if (!u64map_get(&s->known, tl_type(i), &set)) {
		for (size_t j = 0; i->ev && j < s->n; j++) {
			struct spec *x = &s->v[j];

			if (!spec_fits(x, i->ev))
				continue;
			set |= 1ull << j;
			x->met = true;
			if (x->filter && !x->lacks)
				x->lacks = filter_lacks(x->filter, i->ev, &x->value);
		}
		(void)!u64map_put(&s->known, tl_type(i), set); /* only a cache */
	}
	for (size_t k = 0; set; k++, set >>= 1)
		if ((set & 1) && (!s->v[k].filter || filter_match(s->v[k].filter, i->ev, i->rec)))
			return s->v[k].hit = true;
	return false;
}

/* After a gap a stack may belong to an event that was lost. */
static void forget_last(struct specs *s, const struct tl_item *i)
{
	for (uint64_t level = 0; s->last.n && level < FMT_LEVELS; level++)
		u64map_del(&s->last, ((uint64_t)i->src->index << 32 | i->cpu) * FMT_LEVELS + level);
}

/* specs_match(), where a stack is treated like the event that it belongs to. */
static bool specs_match_stack(struct pick *p, const struct tl_item *i)
{
	struct specs *s = &p->event;
	bool match = specs_match(s, i);
	const struct tl_source *src;
	uint64_t key, last;

	if (i->kind != TL_EVENT)
		forget_last(s, i);
	for (size_t k = 0; !p->stacks && k < tl_sources(p->t); k++)
		if (!(src = tl_source(p->t, k))->qemu &&
		    fmt_find(src->fmt, "ftrace", "kernel_stack"))
			p->stacks = STACKS_SOME;
	p->stacks = p->stacks ?: STACKS_NONE;
	if (i->kind != TL_EVENT || p->stacks == STACKS_NONE || !i->ev || i->src->qemu || i->marker)
		return match;
	key = ((uint64_t)i->src->index << 32 | i->cpu) * FMT_LEVELS + fmt_level(tl_fmt(i), i->rec);
	if (fmt_is_stack(i->ev))
		return match || (u64map_get(&s->last, key, &last) && last);
	(void)!u64map_put(&s->last, key, match); /* without memory a stack may be missing */
	return match;
}

bool pick_wants(struct pick *p, const struct tl_item *i)
{
	bool side = !p->nside, vcpu = !p->nvcpu;

	for (size_t k = 0; k < p->nside && !side; k++)
		side = pick_side_is(p->t, i->src, p->side[k]);
	if (!side)
		return false;
	if (i->kind != TL_EVENT) {
		forget_last(&p->event, i);
		return true;
	}
	for (size_t k = 0; k < p->nvcpu && !vcpu; k++)
		p->vcpu_met |= vcpu = i->vcpu == (int64_t)p->vcpu[k];
	if (!vcpu || (p->event.n && !p->around && !specs_match_stack(p, i)))
		return false;
	p->wanted = true;
	return true;
}

/* ---- context ---- */

static struct kept *oldest_kept(struct pick *p)
{
	return &p->ring[(p->next + p->context - p->held) % p->context];
}

static void kept_empty(struct pick *p, struct kept *k)
{
	free(k->data);
	k->data = NULL;
	p->kept -= k->room;
	k->room = 0;
}

static int show_kept(struct pick *p, int (*show)(void *arg, const struct tl_item *item), void *arg)
{
	int ret = 0;

	p->skipped |= p->cut > 0;
	p->dropped += MIN(p->cut, p->context - p->held);
	p->cut = 0;
	if (p->shown && p->skipped)
		ret = show(arg, NULL);
	for (; p->held && !ret; p->held--) {
		struct kept *k = oldest_kept(p);

		if (k->item.rec)
			k->item.rec = &k->rec;
		ret = k->item.src ? show(arg, &k->item) : 0;
	}
	/* Large buffers are freed, because others cannot use their room. */
	for (size_t i = 0; p->kept > MAX_KEPT / 2 && i < p->context; i++)
		kept_empty(p, &p->ring[i]);
	return ret;
}

void pick_go_on(struct pick *p, const struct timeline *t)
{
	p->t = t;
	p->stacks = STACKS_UNKNOWN;
	u64map_free(&p->event.known);
	for (uint64_t i = 1; i <= p->held; i++) {
		struct kept *k = &p->ring[(p->next + p->context - i) % p->context];

		k->item.src = NULL;
		for (size_t n = 0; n < tl_sources(t) && !k->item.marker; n++)
			if (tl_source(t, n)->id == k->id)
				k->item.src = tl_source(t, n);
		if (k->item.src && k->item.ev)
			k->item.ev = fmt_by_id(k->item.src->fmt, k->rec.id);
		k->item.device = NULL;
		k->item.marker = NULL;
	}
}

int pick_feed(struct pick *p, const struct tl_item *i,
	      int (*show)(void *arg, const struct tl_item *item), void *arg)
{
	int ret = 0;
	struct kept *k;

	if (!p->around)
		return show(arg, i);
	if (specs_match_stack(p, i)) {
		p->matches += !i->ev || !fmt_is_stack(i->ev);
		p->after = p->context;
		if (p->held)
			ret = show_kept(p, show, arg);
		p->shown = true;
		p->skipped = false;
		return ret ?: show(arg, i);
	}
	if (p->after) {
		p->after--;
		return show(arg, i);
	}
	if (p->context) {
		p->ring = p->ring ?: xcalloc(p->context, sizeof(*p->ring));
		k = &p->ring[p->next];
		p->skipped |= p->held == p->context;
		p->held = MIN(p->held, p->context - 1); /* the one being overwritten */
		k->item = *i;
		k->id = i->src->id;
		if (i->rec) {
			size_t len = i->rec->len;

			/*
			 * Room for a copy of len bytes, if necessary at the cost of the oldest
			 * ones.
			 */
			if (k->room < len) {
				kept_empty(p, k);
				for (; p->kept + len > MAX_KEPT && p->held; p->held--, p->cut++)
					kept_empty(p, oldest_kept(p));
				k->data = xmalloc(len);
				k->room = len;
				p->kept += len;
			}
			k->rec = *i->rec;
			if (i->rec->len)
				memcpy(k->data, i->rec->data, i->rec->len);
			k->rec.data = k->data;
		}
		p->next = (p->next + 1) % p->context;
		p->held++;
	}
	return 0;
}

uint64_t pick_matches(const struct pick *p)
{
	return p->matches;
}

uint64_t pick_dropped(const struct pick *p)
{
	return p->dropped;
}

/*
 * Whether a format of any capture has the name; names of events that are near it go to *near, or
 * those of the event's fields.
 */
static bool near_names(const struct pick *p, const struct spec *x, bool fields, struct near *near)
{
	const struct fmt_event *ev;
	bool known = false;

	for (size_t i = 0; i < tl_sources(p->t); i++) {
		const struct fmt *fmt = tl_source(p->t, i)->fmt;

		for (size_t k = 0; fmt && (ev = fmt_at(fmt, k)); k++) {
			bool fits = spec_fits(x, ev);
			const char *name = fields ? NULL : fmt_name(ev);

			known |= fits;
			if (name)
				near_offer(near, name, name);
			for (size_t n = 0; fields && fits && (name = fmt_field_name(ev, n)); n++)
				near_offer(near, name, name);
		}
	}
	return known;
}

static bool spec_unmet(const struct pick *p, const struct spec *x, bool *slip, struct sbuf *b)
{
	const char *sys = x->sys ?: "", *colon = x->sys ? ":" : "";
	struct near near = { .word = x->met ? x->lacks : x->name };

	if (x->met && (x->hit || !x->lacks))
		return false;
	*slip = true;
	if (x->met && x->value) {
		sbuf_addf(b, "%s%s%s: the field %s is a number, and '%s' is not%s", sys, colon,
			  x->name, x->lacks, x->value,
			  x->value[strspn(x->value, "0123456789abcdefABCDEF")] ? "" : " (0x...?)");
		return true;
	}
	if (x->met) {
		(void)near_names(p, x, true, &near);
		sbuf_addf(b, "%s%s%s has no field %s", sys, colon, x->name, x->lacks);
	} else {
		*slip = !near_names(p, x, false, &near);
		sbuf_addf(b, "no event named %s%s%s was found", sys, colon, x->name);
	}
	if (*slip)
		near_text(&near, b);
	return true;
}

bool pick_any(const struct pick *p)
{
	return p->around ? p->matches : p->wanted;
}

bool pick_unmet(const struct pick *p, size_t i, bool *slip, struct sbuf *b)
{
	if (p->nvcpu && !p->vcpu_met) { /* nothing is known about the rest then */
		*slip = true;
		if (!i)
			sbuf_addf(b, "no event of the named vCPUs was found");
		return !i;
	}
	for (size_t n = 0, found = 0; n < p->event.n; n++) {
		if (!spec_unmet(p, &p->event.v[n], slip, b))
			continue;
		if (found++ == i)
			return true;
		sbuf_reset(b);
	}
	return false;
}

static void specs_free(struct specs *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].sys);
		free(s->v[i].name);
		filter_free(s->v[i].filter);
	}
	u64map_free(&s->known);
	u64map_free(&s->last);
}

void pick_free(struct pick *p)
{
	if (!p)
		return;
	specs_free(&p->event);
	for (size_t i = 0; p->ring && i < p->context; i++)
		free(p->ring[i].data);
	for (size_t i = 0; i < p->nside; i++)
		free(p->side[i]);
	free(p->ring);
	free(p->side);
	free(p->vcpu);
	free(p);
}
