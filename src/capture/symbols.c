/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * symbols.c: the symbols that a capture holds of its kernel. They are large and rarely needed, so
 * they are read on demand.
 */
#include "kvmft/ksyms.h"
#include "reader.h"

#include <inttypes.h>

static void damaged(void *arg, int why, uint64_t at)
{
	cap_note(arg, CAP_SYMBOLS " %s at byte %" PRIu64 ": functions there have no names",
		 why == -ENOMEM ? "cannot be read (Cannot allocate memory)" : "is damaged", at);
}

/* fd is taken over. */
static int open_symbols(struct capture *c, struct ksyms *k, int fd, uint64_t size)
{
	uint64_t bad;
	int ret = ksyms_open(k, fd, size, damaged, c, &bad);

	if (ret == -EBADMSG && !bad)
		cap_note(c, CAP_SYMBOLS
			 " is not in the format that this kvmft reads: no symbol is used");
	else if (ret == -EBADMSG)
		cap_note(c, CAP_SYMBOLS " is damaged at byte %" PRIu64 ": no symbol is used", bad);
	if (ret)
		return ret == -EBADMSG ? 0 : ret;
	for (size_t i = 0; i < c->ngone; i++)
		ksyms_drop_module(k, c->gone[i]);
	return 1;
}

static int of_directory(struct capture *c, struct ksyms *k)
{
	const struct cap_priv *p = cap_priv(c);
	uint64_t size = 0;
	int fd = cap_open_file(p->dirfd, CAP_SYMBOLS, &size);

	if (fd == -ENOENT && !p->symbols_told)
		return 0;
	if (fd < 0) {
		cap_note(c, CAP_SYMBOLS ": %s", strerror(-fd));
		return 0;
	}
	if (size > CAP_MAX_TEXT)
		cap_note(c, CAP_SYMBOLS ": too long");
	else if (p->symbols_told && size != p->symbols_bytes)
		cap_note(c, CAP_SYMBOLS " is cut: %" PRIu64 " of %" PRIu64 " bytes: no symbol is used",
			 size, p->symbols_bytes);
	else
		return open_symbols(c, k, fd, size);
	close(fd);
	return 0;
}

/* trace-cmd stores all of kallsyms; a part of it would not show where functions end. */
static bool is_whole(const struct capture *c)
{
	size_t len;
	const char *text = capture_kallsyms(c, &len);

	return text && memmem(text, len, " _stext\n", 8) && memmem(text, len, " _etext\n", 8);
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
	return ret ?: k->n != 0;
}
