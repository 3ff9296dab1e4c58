/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * formats.c: the table of outputs and what all of them share.
 */
#include "kvmft/output.h"

#include <errno.h>
#include <string.h>

#define FLUSH_AT (64u << 10)

extern const struct out_format out_text;

const struct out_format *const out_formats[] = {
	&out_text,
	NULL,
};

const struct out_format *out_format_find(const char *name)
{
	for (const struct out_format *const *f = out_formats; *f; f++)
		if (!strcmp((*f)->name, name))
			return *f;
	return NULL;
}

static int out_flush(struct out *o)
{
	int ret = o->line.error;

	if (!ret && o->line.len && fwrite(o->line.s, 1, o->line.len, o->f) != o->line.len)
		ret = errno ? -errno : -EIO;
	sbuf_reset(&o->line);
	return ret;
}

int out_begin(struct out *o, const struct timeline *t, const struct out_format *fmt,
	      const struct out_clock *clock, FILE *f)
{
	memset(o, 0, sizeof(*o));
	o->fmt = fmt;
	o->f = f;
	o->clock = *clock;
	o->t = t;
	for (size_t i = 0; i < tl_sources(t); i++)
		o->label_width = MAX(o->label_width, (int)strlen(tl_source(t, i)->label));
	return fmt->begin ? fmt->begin(o) : 0;
}

int out_item(struct out *o, const struct tl_item *item)
{
	int ret = o->fmt->item(o, item);

	if (!ret && o->line.len >= FLUSH_AT)
		ret = out_flush(o);
	return ret;
}

int out_end(struct out *o)
{
	int ret = o->fmt->end ? o->fmt->end(o) : 0, flushed = out_flush(o);

	sbuf_free(&o->line);
	return ret ? ret : flushed;
}
