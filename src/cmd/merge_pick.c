/* SPDX-License-Identifier: GPL-2.0-or-later */
/* merge_pick.c: --event, --grep, --context, --side, --vcpu. */
#include "merge_pick.h"

/* "3", "0,2" or "4-7": adds them. */
static int add_vcpus(struct pick *p, const char *list)
{
	_cleanup_free_ char *copy = strdup(list);
	char *save = NULL, *word, *dash;
	uint64_t from, to;
	int ret = copy ? 0 : -ENOMEM;

	for (word = copy ? strtok_r(copy, ",", &save) : NULL; word && !ret;
	     word = strtok_r(NULL, ",", &save)) {
		dash = strchr(word, '-');
		if (dash)
			*dash++ = 0;
		if (parse_u64(word, &from) || parse_u64(dash ?: word, &to) || to < from ||
		    to >= 1u << 16)
			return -EINVAL;
		for (; from <= to && !ret; from++)
			ret = pick_add_vcpu(p, (uint32_t)from);
	}
	return ret;
}

/* A side that does not exist would silently show nothing. */
static int add_side(struct pick *p, const struct timeline *t, const char *side, bool gone,
		    struct kvmft_err *err)
{
	bool known =
		gone || !strcmp(side, "host") || !strcmp(side, "guest") || !strcmp(side, "qemu");

	for (size_t i = 0; i < tl_sources(t); i++)
		known |= pick_side_is(t, tl_source(t, i), side);
	if (!known)
		return err_usage(
			err,
			"option --side: '%s' is neither host nor guest nor qemu nor the name "
			"of a guest here",
			side);
	return pick_add_side(p, side) ? err_set(err, ENOMEM, "out of memory") : 0;
}

static int usage(struct kvmft_err *err, const char *option, int ret)
{
	if (ret == -EINVAL)
		return err_usage(err, "option %s: %s", option, err->text);
	return ret;
}

static int add_lists(struct pick *p, const struct merge_pick_opts *o, const struct timeline *t,
		     bool gone, struct kvmft_err *err)
{
	int ret = 0;

	for (size_t i = 0; i < o->event.n && !ret; i++)
		ret = usage(err, "--event", pick_add_event(p, o->event.v[i], err));
	for (size_t i = 0; i < o->grep.n && !ret; i++)
		ret = usage(err, "--grep", pick_add_match(p, o->grep.v[i], err));
	for (size_t i = 0; i < o->side.n && !ret; i++)
		ret = add_side(p, t, o->side.v[i], gone, err);
	for (size_t i = 0; i < o->vcpu.n && !ret; i++) {
		ret = add_vcpus(p, o->vcpu.v[i]);
		if (ret == -EINVAL)
			err_usage(err, "option --vcpu: '%s' is not a list such as 0,2-5",
				  o->vcpu.v[i]);
	}
	if (ret == -ENOMEM && !err->text[0])
		err_set(err, ENOMEM, "out of memory");
	return ret;
}

int merge_pick_init(const struct merge_pick_opts *o, const struct timeline *t, bool gone,
		    struct pick **out, struct kvmft_err *err)
{
	*out = NULL;
	if (o->context.set && !o->grep.n)
		return err_usage(err, "option --context: around which events? It needs --grep");
	if (o->context.v > PICK_MAX_CONTEXT)
		return err_usage(err, "option --context: at most %d lines", PICK_MAX_CONTEXT);
	if (!o->event.n && !o->grep.n && !o->side.n && !o->vcpu.n)
		return 0;
	if (pick_new(t, out))
		return err_set(err, ENOMEM, "out of memory");
	pick_set_context(*out, o->context.v);
	return add_lists(*out, o, t, gone, err);
}
