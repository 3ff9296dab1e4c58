/* SPDX-License-Identifier: GPL-2.0-or-later */
/* merge_spikes.c: spikes for a trace, from the process that finds them to the one that writes. */
#include "merge_spikes.h"
#include "blaming.h"

#define SPIKES 200u

int merge_spikes_find(struct pairing *p, uint64_t from, uint64_t to, bool judge, struct sbuf *rows,
		      struct kvmft_err *err)
{
	struct blame *b = NULL;
	int ret = blaming_spikes(p, from, to, SPIKES, judge, &b, err);

	for (size_t i = 0; !ret && b && i < blame_spikes(b); i++) {
		const struct blame_spike *s = blame_spike(b, i);

		sbuf_add_mem(rows, (const char *)s, sizeof(*s));
		sbuf_add_mem(rows, (const char *)s->part, s->nparts * sizeof(*s->part));
	}
	blame_free(b);
	return ret;
}

/* Checks what came from a process that read untrusted captures: indices and texts. */
static bool is_sane(struct blame_spike *s)
{
	bool sane = s->what < BLAME_WHATS && s->cause < BLAME_CAUSES;

	s->of[sizeof(s->of) - 1] = '\0';
	for (size_t i = 0; sane && i < s->nparts; i++) {
		s->part[i].name[sizeof(s->part[i].name) - 1] = '\0';
		sane = s->part[i].cause < BLAME_CAUSES;
	}
	return sane;
}

/* Each is followed by its parts. The number of spikes, or -errno. */
static ssize_t unpack(struct sbuf *rows, struct blame_spike *v)
{
	size_t n = 0, size;

	for (char *p = rows->s, *end = p + rows->len; p < end; n++, p += size) {
		struct blame_spike *s = &v[n];

		if ((size_t)(end - p) < sizeof(*s))
			return -EINVAL;
		memcpy(s, p, sizeof(*s));
		p += sizeof(*s);
		size = s->nparts * sizeof(*s->part);
		if (s->nparts > BLAME_PARTS + 1 || (size_t)(end - p) < size)
			return -EINVAL;
		s->part = (struct blame_part *)p;
		if (!is_sane(s))
			return -EINVAL;
	}
	return (ssize_t)n;
}

int merge_spikes_put(struct many *m, struct out *o, const struct pairing *p,
		     const struct windows *w, struct kvmft_err *err)
{
	_cleanup_(many_result_free) struct many_result r = { 0 };
	int ret = many_result(m, 0, &r);
	_cleanup_free_ struct blame_spike *s = NULL;
	ssize_t n;

	if (ret)
		return err_why(err, ret, "cannot take over the spikes");
	if (r.code < 0)
		return err_set(err, -r.code, "finding spikes: %s", r.why);
	s = calloc(r.rows.len / sizeof(*s) + 1, sizeof(*s));
	if (!s)
		return err_set(err, ENOMEM, "out of memory");
	n = unpack(&r.rows, s);
	if (n < 0)
		return err_set(err, EINVAL, "what the process that looks for spikes found is damaged");
	ret = w ? blaming_judge(p, w, s, (size_t)n, err) : 0;
	return ret ?: out_perfetto_spikes(o, s, (size_t)n);
}
