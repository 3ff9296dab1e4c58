/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kallsyms.c: which symbols the kernel has. Lines are "ADDRESS TYPE NAME [MODULE]"; addresses
 * may read as zero (kptr_restrict), presence is all that matters here.
 */
#include "priv.h"

/* The name on a line, terminated in place; NULL if it is not a line of kallsyms. */
static char *line_name(char *line)
{
	char *p = strchr(line, ' ');

	if (!p || !p[1] || p[2] != ' ')
		return NULL;
	p += 3;
	p[strcspn(p, " \t\n")] = '\0';
	return *p ? p : NULL;
}

int kallsyms_find(const char *path, const char *const *name, size_t n, bool *present)
{
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;
	int found = 0;
	FILE *f;

	for (size_t i = 0; i < n; i++)
		present[i] = false;
	f = fopen(path ?: "/proc/kallsyms", "re");
	if (!f)
		return -errno;
	while (getline(&line, &cap, f) > 0) {
		const char *sym = line_name(line);

		for (size_t i = 0; sym && i < n; i++) {
			/* A name requested twice is marked twice. */
			if (!present[i] && !strcmp(sym, name[i])) {
				present[i] = true;
				found++;
			}
		}
	}
	if (ferror(f))
		found = -EIO;
	fclose(f);
	return found;
}
