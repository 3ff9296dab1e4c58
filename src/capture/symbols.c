/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * symbols.c: the symbols that a capture holds of its kernel.
 */
#include "kvmft/ksyms.h"
#include "reader.h"

#include <inttypes.h>

static int load(struct capture *c, struct ksyms *k, const struct cap_part *file)
{
	const size_t size = (size_t)file->size;
	_cleanup_free_ char *text = malloc(size + 1);
	size_t bad;
	int ret = text ? 0 : -ENOMEM;

	if (!ret && cap_part_read(file, text, size, 0) != (ssize_t)size) {
		cap_note(c, CAP_SYMBOLS " cannot be read: no symbol is used");
		return 0;
	}
	ret = ret ?: ksyms_unpack(k, text, size, &bad);
	if (ret == -EBADMSG && !bad)
		cap_note(c, CAP_SYMBOLS
			 " is not in the format that this kvmft reads: no symbol is used");
	else if (ret == -EBADMSG)
		cap_note(c, CAP_SYMBOLS " is damaged at byte %zu: no symbol is used", bad);
	if (ret)
		return ret == -EBADMSG ? 0 : ret;
	for (size_t i = 0; i < c->ngone; i++)
		ksyms_drop_module(k, c->gone[i]);
	return 1;
}

static int of_directory(struct capture *c, struct ksyms *k)
{
	const struct cap_priv *p = cap_priv(c);
	struct cap_part file;
	int ret = cap_part_open(&p->dir, CAP_SYMBOLS, &file);

	if (ret == -ENOENT && !p->symbols_told)
		return 0;
	if (ret) {
		cap_note(c, CAP_SYMBOLS ": %s", strerror(-ret));
		return 0;
	}
	if (file.size > CAP_MAX_TEXT)
		cap_note(c, CAP_SYMBOLS ": too long");
	else if (p->symbols_told && file.size != p->symbols_bytes)
		cap_note(c,
			 CAP_SYMBOLS " is cut: %" PRIu64 " of %" PRIu64 " bytes: no symbol is used",
			 file.size, p->symbols_bytes);
	else
		ret = load(c, k, &file);
	util_close_fd(&file.fd);
	return ret;
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
