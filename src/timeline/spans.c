/* SPDX-License-Identifier: GPL-2.0-or-later */
/* spans.c: the time from any event to any other. */
#include "kvmft/timeline.h"


struct span_end {
	struct pick *pick;
	char *key;	   /* the field; NULL: none */
	const char *lacks; /* the name of an event that has no such field */
};

/* What spans that are open are in: the lists of all, of those that are cut together, of a key. */
enum span_list { ALL, TOGETHER, KEY, LISTS };

struct span_begun {
	uint64_t at, key, type, nth;
	uint32_t older[LISTS], newer[LISTS]; /* indexes in s->open; 0: none */
	int64_t vm, vcpu;
	int32_t tid;
	const struct tl_source *src;
	const char *name;
};

struct spans {
	struct span_end from, to;
	struct hash_key hash;
	int64_t vm;		 /* the only one that is asked for, or -1 */
	struct span_begun *open; /* the first is none */
	uint32_t nopen, unused;	 /* unused: linked by older[ALL] */
	size_t cap;
	struct u64map newest[LISTS]; /* id of a list → its youngest */
	struct u64map blind; /* VM + 1, 0: any → host TSC up to which events were lost */
	uint64_t count[SPANS_COUNTS + 1]; /* the last: ended */
};

int spans_new(const struct timeline *t, const struct spans_opts *o, int64_t vm, struct spans **out,
	      struct kvmft_err *err)
{
	struct spans *s = xcalloc(1, sizeof(*s));
	const char *equals = o->key ? strchrnul(o->key, '=') : NULL;
	int ret;

	pick_new(t, &s->from.pick);
	pick_new(t, &s->to.pick);
	ret = pick_add_event(s->from.pick, o->from, err) ?: pick_add_event(s->to.pick, o->to, err);
	hash_key_init(&s->hash);
	s->vm = vm;
	(void)xarray_grow(&s->open, s->nopen++, &s->cap, sizeof(*s->open));
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

	if (!pick_wants(e->pick, i))
		return false;
	(void)!u64map_get(&s->blind, 0, &any);
	(void)!u64map_get(&s->blind, (uint64_t)i->vm + 1, &own);
	if (i->host < MAX(any, own))
		return false;
	*key = (uint64_t)i->src->index << 32 | (uint32_t)i->tid;
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

static uint64_t list_id(const struct spans *s, const struct span_begun *b, enum span_list l)
{
	if (l == KEY)
		return b->key;
	if (l == ALL)
		return 0;
	return s->from.key ? (b->src->guest ? b->src->index + 1 : 0) : (uint64_t)b->vm + 1;
}

static struct span_begun *span_newest(const struct spans *s, enum span_list l, uint64_t id)
{
	uint64_t at;

	return u64map_get(&s->newest[l], id, &at) ? &s->open[at] : NULL;
}

/*
 * The one that i ends; or, of the same recording and thread or key, begins again. NULL: none. What
 * one guest says ends nothing of another guest.
 */
static struct span_begun *begun_find(struct spans *s, const struct tl_item *i, uint64_t key,
				     bool again)
{
	struct span_begun *last = NULL, *homeless;
	struct span_begun *b = span_newest(s, KEY, key);

	for (; b && b != s->open; b = &s->open[b->older[KEY]]) {
		if (b->src == i->src)
			return b;
		if (!last && (!b->src->guest || !i->src->guest || b->vm == i->vm))
			last = b;
	}
	if (again || s->from.key)
		return again ? NULL : last;
	if (i->vm < 0)
		return span_newest(s, ALL, 0);
	last = span_newest(s, TOGETHER, (uint64_t)i->vm + 1);
	homeless = span_newest(s, TOGETHER, 0);
	return !last || (homeless && homeless->nth > last->nth) ? homeless : last;
}

static void begun_drop(struct spans *s, struct span_begun *b, enum spans_count why)
{
	s->count[why]++;
	for (enum span_list l = 0; l < LISTS; l++) {
		s->open[b->older[l]].newer[l] = b->newer[l];
		s->open[b->newer[l]].older[l] = b->older[l];
		if (!b->newer[l] && b->older[l])
			xu64map_put(&s->newest[l], list_id(s, b, l), b->older[l]);
		else if (!b->newer[l])
			u64map_del(&s->newest[l], list_id(s, b, l));
	}
	b->older[ALL] = s->unused;
	s->unused = (uint32_t)(b - s->open);
}

static void span_begin(struct spans *s, const struct tl_item *i, uint64_t key)
{
	struct span_begun *b = begun_find(s, i, key, true);
	uint32_t at;

	if (b)
		begun_drop(s, b, SPANS_AGAIN);
	at = s->unused;
	if (at)
		s->unused = s->open[at].older[ALL];
	else
		(void)xarray_grow(&s->open, at = s->nopen++, &s->cap, sizeof(*s->open));
	b = &s->open[at];
	*b = (struct span_begun){
		.at = i->host,
		.nth = s->count[SPANS_BEGUN]++,
		.key = key,
		.type = tl_type(i),
		.vm = i->vm,
		.vcpu = i->vcpu,
		.tid = i->tid,
		.src = i->src,
		.name = fmt_name(i->ev),
	};
	for (enum span_list l = 0; l < LISTS; l++) {
		uint64_t *last = xu64map_at(&s->newest[l], list_id(s, b, l));

		b->older[l] = (uint32_t)*last;
		s->open[*last].newer[l] = at;
		*last = at;
	}
}

bool spans_feed(struct spans *s, const struct tl_item *i, struct span *out)
{
	uint64_t key, *until;
	struct span_begun *b;
	bool ends, ended;

	/* Of another VM than is asked for: by a key, what the host did may be for any. */
	if (s->vm >= 0 && i->vm >= 0 && i->vm != s->vm &&
	    (i->src->guest || (i->kind == TL_EVENT && !s->from.key)))
		return false;
	if (i->kind != TL_EVENT) {
		/* What was lost may have ended those that are open, and begun others. */
		key = (s->from.key ? i->src->index : (uint64_t)i->vm) + 1;
		until = xu64map_at(&s->blind, i->src->guest ? (uint64_t)i->vm + 1 : 0);
		*until = MAX(*until, i->host + i->width);
		while ((b = !i->src->guest ? span_newest(s, ALL, 0)
					   : span_newest(s, TOGETHER, key)
						     ?: span_newest(s, TOGETHER, 0)))
			begun_drop(s, b, SPANS_CUT);
		return false;
	}
	if (!i->ev || i->unplaced)
		return false;
	ends = end_is(s, &s->to, i, &key);
	b = ends ? begun_find(s, i, key, false) : NULL;
	ended = b;
	s->count[SPANS_STRAY] += ends && !ended;
	if (ended) {
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
	return ended;
}

uint64_t spans_count(const struct spans *s, enum spans_count which)
{
	const uint64_t *c = s->count;

	return which != SPANS_OPEN
		       ? c[which]
		       : c[SPANS_BEGUN] - c[SPANS_AGAIN] - c[SPANS_CUT] - c[SPANS_COUNTS];
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
	for (enum span_list l = 0; l < LISTS; l++)
		u64map_free(&s->newest[l]);
	free(s->open);
	free(s);
}
