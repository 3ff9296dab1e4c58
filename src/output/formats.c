/* SPDX-License-Identifier: GPL-2.0-or-later */
/* formats.c: the table of outputs and what they all share. */
#include "kvmft/output.h"

#define FLUSH_AT (256u << 10)

extern const struct out_format out_text, out_json, out_perfetto, out_html, out_folded;

const struct out_format *const out_formats[] = {
	&out_text, &out_json, &out_perfetto, &out_html, &out_folded, NULL,
};

const char *out_format_name(size_t i)
{
	return i < ARRAY_SIZE(out_formats) && out_formats[i] ? out_formats[i]->name : NULL;
}

const struct out_format *out_format_find(const char *name)
{
	for (const struct out_format *const *f = out_formats; *f; f++)
		if (!strcmp((*f)->name, name))
			return *f;
	return NULL;
}

int out_format_of(const char *path, const char *(*name)(size_t i), const char **format,
		  struct kvmft_err *err)
{
	static const char *const ends[][2] = {
		{ "pftrace", "perfetto" }, { "pb", "perfetto" },    { "perfetto", "perfetto" },
		{ "db", "sqlite" },	   { "sqlite", "sqlite" },  { "dat", "trace.dat" },
		{ "json", "json" },	   { "jsonl", "json" },	    { "html", "html" },
		{ "folded", "folded" },	   { "csv", "csv" },
	};
	const char *dot = path ? strrchr(path, '.') : NULL, *is = NULL, *known = NULL;

	for (size_t i = 0; dot && i < ARRAY_SIZE(ends) && !is; i++)
		is = strcmp(dot + 1, ends[i][0]) ? NULL : ends[i][1];
	for (size_t i = 0; is && name(i) && !known; i++)
		known = strcmp(name(i), is) ? NULL : name(i);
	if (is && !known)
		return err_usage(err, "%s is named as %s, which is not written here: kvmft %s", path, is,
				 strcmp(is, "csv") ? "export has it" : "report, latency and blame have it");
	if (is && *format && strcmp(*format, is))
		return err_usage(err, "%s is named as %s, and %s was asked for: give it another name, "
				 "or leave the format out", path, is, *format);
	*format = *format ?: known;
	return 0;
}

void out_flush(struct out *o)
{
	o->line.error = sbuf_write(&o->line, o->f);
}

/* ---- epochs: few, so they are listed before the walk ---- */

COMPARE(epoch_cmp, struct out_epoch,
	ORDER(x->host, y->host) ?: ORDER(x->src->index, y->src->index) ?: ORDER(x->vcpu, y->vcpu));

/* ---- the calls ---- */

static void format_begin(struct out *o, const struct timeline *t, const struct out_format *fmt,
			 const struct out_clock *clock, FILE *f)
{
	const struct hostmap *m = tl_hostmap(t);

	o->fmt = fmt;
	o->f = f;
	o->clock = *clock;
	o->t = t;
	if (guest_rip_any(m))
		o->rips = xcalloc(1, sizeof(*o->rips));
	for (size_t vm = 0; fmt->epoch && !tl_source(t, 0)->guest && vm < m->nvm; vm++) {
		const struct epoch_vm *e = m->vm[vm].epochs;
		struct tl_source *src = tl_source(t, 0);

		if (m->vm[vm].of != vm || m->vm[vm].empty)
			continue;
		/* They belong to the VM, however many captures there are of it: its first one. */
		for (size_t i = tl_sources(t); --i;)
			if (tl_source(t, i)->guest && tl_source(t, i)->vm == vm)
				src = tl_source(t, i);
		for (size_t i = 0; e && i < e->n; i++) {
			const struct epoch_vcpu *v = e->vcpus[i];

			for (size_t k = 0; k < v->n; k++) {
				const struct out_epoch at = {
					.host = v->v[k].from, .src = src, .vm = vm,
					.vcpu = v->id, .e = &v->v[k], .first = !k,
				};

				xarray_add(&o->epoch, &o->nepoch, &o->epoch_cap, &at, sizeof(at));
			}
		}
	}
	array_sort(o->epoch, o->nepoch, epoch_cmp);
	fmt->begin(o);
}

void out_begin(struct out *o, const struct timeline *t, const struct out_format *fmt,
	       const struct out_clock *clock, FILE *f)
{
	memset(o, 0, sizeof(*o));
	format_begin(o, t, fmt, clock, f);
}

void out_resume(struct out *o, const struct timeline *t, const struct out_clock *clock)
{
	const struct out was = *o;

	memset(o, 0, sizeof(*o));
	memcpy(o->kept, was.kept, sizeof(o->kept));
	o->epochs_from = was.epochs_from;
	o->color = was.color;
	o->goes_on = o->resumed = true;
	format_begin(o, t, was.fmt, clock, was.f);
	while (o->epoch_at < o->nepoch && o->epoch[o->epoch_at].host < o->epochs_from)
		o->epoch_at++;
}

bool out_item_time(const struct out *o, const struct tl_item *i, uint64_t *v)
{
	return out_clock_value(&o->clock, i->host, i->vm == (int64_t)o->clock.vm ? i->vcpu : -1, v);
}

static __attribute__((noinline)) void before_item(struct out *o, const struct tl_item *item)
{
	if (o->line.len >= FLUSH_AT)
		out_flush(o);
	/* What a window leaves of those from before it. */
	if (!o->epoch_at && o->fmt->epochs_before) {
		while (o->epoch_at < o->nepoch && o->epoch[o->epoch_at].host < tl_from(o->t))
			o->epoch_at++;
		if (o->epoch_at)
			o->fmt->epochs_before(o, o->epoch_at);
	}
	while (o->epoch_at < o->nepoch && o->epoch[o->epoch_at].host <= item->host)
		o->fmt->epoch(o, &o->epoch[o->epoch_at++]);
}

int out_item(void *out, const struct tl_item *item)
{
	struct out *o = out;

	if (o->epoch_at < o->nepoch || o->line.len >= FLUSH_AT)
		before_item(o, item);
	o->fmt->item(o, item);
	return o->line.error;
}

void out_left_out(struct out *o)
{
	if (o->fmt == out_formats[0])
		sbuf_add(&o->line, "--\n"); /* as grep does */
}

int out_end(struct out *o)
{
	int ret;

	if (!o->priv) /* it was not begun, or has ended */
		return 0;
	o->fmt->end(o);
	ret = sbuf_write(&o->line, o->f);
	if (o->epoch_at)
		o->epochs_from = o->epoch[o->epoch_at - 1].host + 1;
	sbuf_free(&o->line);
	free(o->epoch);
	free(o->rips);
	o->rips = NULL;
	o->epoch = NULL;
	o->nepoch = o->epoch_at = 0;
	return ret;
}
