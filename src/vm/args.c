/* SPDX-License-Identifier: GPL-2.0-or-later */
/* args.c: taking a command line apart: arguments, and the option lists of QEMU. */
#include "kvmft/vm_proc.h"

bool vm_span_is(struct vm_span s, const char *text)
{
	return s.n == strlen(text) && !memcmp(s.p, text, s.n);
}

bool vm_list_next(struct vm_span *list, struct vm_span *item)
{
	size_t i = 0;

	if (!list->n)
		return false;
	while (i < list->n) {
		if (list->p[i] != ',')
			i++;
		else if (i + 1 < list->n && list->p[i + 1] == ',')
			i += 2;
		else
			break;
	}
	*item = (struct vm_span){ list->p, i };
	i += i < list->n;
	list->p += i;
	list->n -= i;
	return true;
}

bool vm_item_value(struct vm_span item, const char *key, struct vm_span *value)
{
	size_t n = strlen(key);

	if (item.n <= n || memcmp(item.p, key, n) || item.p[n] != '=')
		return false;
	*value = (struct vm_span){ item.p + n + 1, item.n - n - 1 };
	return true;
}

bool vm_args_next(struct vm_span *args, struct vm_span *arg)
{
	const char *end;

	if (!args->n)
		return false;
	end = memchr(args->p, '\0', args->n);
	*arg = (struct vm_span){ args->p, end ? (size_t)(end - args->p) : args->n };
	args->p += arg->n + !!end;
	args->n -= arg->n + !!end;
	return true;
}

char *vm_span_copy(struct vm_span s, bool commas, size_t most)
{
	size_t n = 0, max = MIN(s.n, most);
	char *out = malloc(max + 1);

	if (!out)
		return NULL;
	for (size_t i = 0; i < s.n && n < max; i++) {
		out[n++] = s.p[i];
		if (commas && s.p[i] == ',' && i + 1 < s.n && s.p[i + 1] == ',')
			i++;
	}
	out[n] = '\0';
	str_printable(out);
	return out;
}
