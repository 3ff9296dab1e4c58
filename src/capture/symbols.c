/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * symbols.c: the symbols that a capture holds of its kernel. They are large and rarely needed, so
 * they are read on demand.
 */
#include "kvmft/ksyms.h"
#include "reader.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static int unpack(struct capture *c, struct ksyms *k, const char *text, size_t n)
{
	size_t line = 0;
	int ret = ksyms_unpack(k, text, n, &line);

	if (ret == -EBADMSG)
		cap_note(c, CAP_SYMBOLS ": line %zu is damaged: no symbol is used", line);
	if (ret)
		return ret == -EBADMSG ? 0 : ret;
	for (size_t i = 0; i < c->ngone; i++)
		ksyms_drop_module(k, c->gone[i]);
	return 1;
}

static int of_directory(struct capture *c, struct ksyms *k)
{
	_cleanup_free_ char *text = NULL;
	const struct cap_priv *p = cap_priv(c);
	bool more = false;
	ssize_t n = cap_read_file(p->dirfd, CAP_SYMBOLS, CAP_MAX_TEXT, &text, &more);

	if (n == -ENOMEM)
		return -ENOMEM;
	if (n == -ENOENT && !p->symbols_told)
		return 0;
	if (n < 0 || more)
		cap_note(c, CAP_SYMBOLS ": %s", more ? "too long" : strerror((int)-n));
	else if (p->symbols_told && (uint64_t)n != p->symbols_bytes)
		cap_note(c, CAP_SYMBOLS " is cut: %zd of %" PRIu64 " bytes: no symbol is used", n,
			 p->symbols_bytes);
	else
		return unpack(c, k, text, (size_t)n);
	return 0;
}

/* trace-cmd stores all of kallsyms; a part of it would not show where functions end. */
static bool is_whole(const struct capture *c)
{
	return c->kallsyms && memmem(c->kallsyms, c->kallsyms_len, " _stext\n", 8) &&
	       memmem(c->kallsyms, c->kallsyms_len, " _etext\n", 8);
}

int capture_symbols(struct capture *c, struct ksyms *k)
{
	int ret;

	*k = (struct ksyms){ 0 };
	if (c->is_perfdata)
		return 0;
	if (!c->is_tracedat)
		return of_directory(c, k);
	if (!is_whole(c))
		return 0;
	ret = ksyms_parse(k, c->kallsyms, c->kallsyms_len);
	return ret ? ret : k->n != 0;
}
