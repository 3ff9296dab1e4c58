/* SPDX-License-Identifier: GPL-2.0-or-later */
/* spans.c: the time from any event to any other. */
#include "kvmft/spans.h"

#include "kvmft/pick.h"

#define OPEN_MAX 256 /* at once: then the oldest is given up */

struct span_end {
	struct pick *pick;
	char *key;	   /* the field; NULL: none */
	const char *text;  /* of a marker, or NULL */
	const char *lacks; /* the name of an event that has no such field */
};

struct span_begun {
	uint64_t at, key, type;
	int64_t vm, vcpu;
	int32_t tid;
	const struct tl_source *src;
	const char *name;
};

struct spans {
	struct span_end from, to;
	struct hash_key hash;
	struct span_begun open[OPEN_MAX]; /* the oldest first */
	size_t nopen;
	struct u64map blind; /* VM + 1, 0: any → host TSC up to which events were lost */
	uint64_t count[SPANS_COUNTS];
};

static int end_new(struct span_end *e, const struct timeline *t, const struct spans_opts *o,
		   const char *spec, struct kvmft_err *err)
{
	pick_new(t, &e->pick);
	e->text = o->markers ? spec : NULL;
	return pick_add_event(e->pick, o->markers ? "ftrace:print" : spec, err);
}

int spans_new(const struct timeline *t, const struct spans_opts *o, struct spans **out,
	      struct kvmft_err *err)
{
	struct spans *s = xcalloc(1, sizeof(*s));
	const char *equals = o->key ? strchrnul(o->key, '=') : NULL;
	int ret = end_new(&s->from, t, o, o->from, err) ?: end_new(&s->to, t, o, o->to, err);

	hash_key_init(&s->hash);
	if (!ret && o->key && (equals == o->key || (*equals && !equals[1])))
		ret = err_set(err, EINVAL, "'%s' is no FIELD and no FIELD=FIELD", o->key);
	if (!ret && o->key) {
		s->from.key = xstrndup(o->key, (size_t)(equals - o->key));
		s->to.key = xstrdup(*equals ? equals + 1 : o->key);
	}
	if (ret)
		spans_free(s);
	else
		*out = s;
	return ret;
}

static bool end_is(struct spans *s, struct span_end *e, const struct tl_item *i, uint64_t *key)
{
	uint64_t any = 0, own = 0; /* events were lost up to there */
	struct fmt_field f;
	char text[256];

	if ((e->text && !i->src->guest) || !pick_wants(e->pick, i))
		return false;
	(void)!u64map_get(&s->blind, 0, &any);
	(void)!u64map_get(&s->blind, (uint64_t)i->vm + 1, &own);
	if (i->host < MAX(any, own))
		return false;
	if (e->text)
		return fmt_field(i->ev, "buf", &f) && fmt_str(&f, i->rec, text, sizeof(text)) &&
		       strstr(text, e->text);
	*key = 0;
	if (!e->key)
		return true;
	if (fmt_field(i->ev, e->key, &f)) {
		if (fmt_str(&f, i->rec, text, sizeof(text))) {
			*key = hash_bytes(&s->hash, text, strlen(text));
			return true;
		}
		if (fmt_u64(&f, i->rec, key))
			return true;
	}
	e->lacks = fmt_name(i->ev);
	return false;
}

/* The one that i ends; or, of the same recording and thread or key, begins again. NULL: none. */
static struct span_begun *begun_find(struct spans *s, const struct tl_item *i, uint64_t key,
				     bool again)
{
	struct span_begun *last = NULL;

	for (size_t k = s->nopen; k--;) {
		struct span_begun *b = &s->open[k];
		bool fits = s->from.key ? b->key == key : b->vm == i->vm || b->vm < 0 || i->vm < 0;

		if (fits && b->src == i->src && (s->from.key || b->tid == i->tid))
			return b;
		last = last ?: fits ? b : NULL;
	}
	return again ? NULL : last;
}

static void begun_drop(struct spans *s, struct span_begun *b, enum spans_count why)
{
	if (why < SPANS_COUNTS)
		s->count[why]++;
	memmove(b, b + 1, (size_t)(s->open + s->nopen-- - (b + 1)) * sizeof(*b));
}

static void span_begin(struct spans *s, const struct tl_item *i, uint64_t key)
{
	struct span_begun *b = begun_find(s, i, key, true);

	if (b)
		begun_drop(s, b, SPANS_AGAIN);
	else if (s->nopen == OPEN_MAX)
		begun_drop(s, s->open, SPANS_OPEN);
	s->count[SPANS_BEGUN]++;
	s->open[s->nopen++] = (struct span_begun){
		.at = i->host,
		.key = key,
		.type = tl_type(i),
		.vm = i->vm,
		.vcpu = i->vcpu,
		.tid = i->tid,
		.src = i->src,
		.name = fmt_name(i->ev),
	};
}

/* What was lost may have been the end of those that are open, and the beginning of others. */
static void spans_gap(struct spans *s, const struct tl_item *i)
{
	uint64_t *until;

	if (s->from.text && !i->src->guest)
		return;
	until = xu64map_at(&s->blind, i->src->guest ? (uint64_t)i->vm + 1 : 0);
	*until = MAX(*until, i->host + i->width);
	for (size_t k = s->nopen; k--;) {
		struct span_begun *b = &s->open[k];

		if (!i->src->guest || s->from.key || b->vm < 0 || b->vm == i->vm)
			begun_drop(s, b, SPANS_CUT);
	}
}

bool spans_feed(struct spans *s, const struct tl_item *i, struct span *out)
{
	struct span_begun *b;
	uint64_t key;
	bool ends;

	if (i->kind != TL_EVENT)
		spans_gap(s, i);
	if (i->kind != TL_EVENT || !i->ev || i->unplaced)
		return false;
	ends = end_is(s, &s->to, i, &key);
	b = ends ? begun_find(s, i, key, false) : NULL;
	s->count[SPANS_STRAY] += ends && !b;
	if (b) {
		bool by_end = b->vcpu < 0 && (i->vcpu >= 0 || b->vm < 0);

		*out = (struct span){
			.begin = b->at,
			.end = i->host,
			.vm = by_end ? i->vm : b->vm,
			.vcpu = by_end ? i->vcpu : b->vcpu,
			.tid = b->tid,
			.by_guest = b->src->guest,
			.across = b->src->guest != i->src->guest,
			.types = b->type << 32 ^ tl_type(i),
			.from = b->name,
			.comm = tl_comm(b->src, b->tid),
		};
		begun_drop(s, b, SPANS_COUNTS);
	}
	if (end_is(s, &s->from, i, &key))
		span_begin(s, i, key);
	return b;
}

uint64_t spans_count(const struct spans *s, enum spans_count which)
{
	return s->count[which] + (which == SPANS_OPEN ? s->nopen : 0);
}

bool spans_unmet(const struct spans *s, struct sbuf *b)
{
	const struct span_end *both[] = { &s->from, &s->to };
	bool slip;

	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		if (both[i]->lacks)
			sbuf_addf(b, "%s has no field %s", both[i]->lacks, both[i]->key);
		if (both[i]->lacks || pick_unmet(both[i]->pick, 0, &slip, b))
			return true;
	}
	return false;
}

void spans_free(struct spans *s)
{
	if (!s)
		return;
	pick_free(s->from.pick);
	pick_free(s->to.pick);
	free(s->from.key);
	free(s->to.key);
	u64map_free(&s->blind);
	free(s);
}
