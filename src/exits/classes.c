/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * classes.c: the table of event classes. A new one is a file class_NAME.c and a line here.
 */
#include "class.h"

#include <string.h>

static const struct event_class *const classes[] = {
	&class_vmexit,	  &class_mmio,	     &class_ioport,
	&class_msr,	  &class_hypercall,  &class_cpuid,
	&class_page_fault, &class_fast_mmio, &class_inject,
};

enum class_mark class_end_entry(const struct class_event *e, uint64_t *key __unused_arg)
{
	return e->tp == CLASS_ENTRY ? MARK_YES : MARK_NO;
}

const struct event_class *class_at(size_t i)
{
	return i < ARRAY_SIZE(classes) ? classes[i] : NULL;
}

const struct event_class *class_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (!strcmp(classes[i]->name, name))
			return classes[i];
	return NULL;
}

const char *class_name(const struct event_class *c)
{
	return c->name;
}

const char *class_title(const struct event_class *c)
{
	return c->title;
}

bool class_has_perf(const struct event_class *c)
{
	return c->perf.begin;
}
