/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * symbols.c: --symbols, which say what the addresses in a host's events are in this guest.
 *
 * They are read before privileges are dropped, and written before the first event, so that a
 * recorder that is killed leaves them. A module that is gone at the end may have made room for
 * another one: that is recorded, and none of its addresses has a name then. What was loaded
 * meanwhile has none, either.
 */
#include "record.h"

#include <fcntl.h>

#define MAX_MODULES (1u << 20) /* bytes of their list */

static int read_all(struct record *r, struct ksyms *k)
{
	int ret = ksyms_add_lines(k, "/proc/kallsyms", ksyms_add_line, r->err);

	if (!ret && !k->n)
		return err_lack(r->err, EPERM,
				"--symbols: /proc/kallsyms hides addresses: run as root, with "
				"sysctl kernel.kptr_restrict=1");
	if (!ret && r->symbols.modules >= 0)
		ret = ksyms_add_lines(k, "/proc/modules", ksyms_add_modules_line, r->err);
	return ret ?: err_why(r->err, ksyms_finish(k), "cannot sort symbols");
}

/* The modules that exist now, in *k. */
static int read_modules(const struct record *r, struct ksyms *k)
{
	_cleanup_free_ char *text = malloc(MAX_MODULES + 1);
	char *save, *line;
	ssize_t n;
	int ret = 0;

	if (!text)
		return -ENOMEM;
	n = full_pread(r->symbols.modules, text, MAX_MODULES, 0);
	if (n < 0)
		return (int)n;
	text[n] = '\0';
	for (line = strtok_r(text, "\n", &save); line && !ret; line = strtok_r(NULL, "\n", &save))
		ret = ksyms_add_modules_line(k, line);
	return ret ?: ksyms_finish(k);
}

int record_symbols_read(struct record *r)
{
	_cleanup_(ksyms_free) struct ksyms k = { 0 };
	int ret;

	if (!r->c->symbols)
		return 0;
	if (!(r->side & CAP_SIDE_GUEST))
		return err_usage(r->err,
				 "option --symbols is for guests, and this machine records as a "
				 "host; with --guest, use --guest-options '--symbols'");
	r->symbols.modules = open("/proc/modules", O_RDONLY | O_CLOEXEC);
	ret = read_all(r, &k);
	if (!ret && ksyms_pack(&k, &r->symbols.text))
		ret = err_set(r->err, ENOMEM, "out of memory");
	if (!ret && r->symbols.modules >= 0)
		ret = err_why(r->err, read_modules(r, &r->symbols.at_begin),
			      "cannot read /proc/modules");
	return ret;
}

int record_symbols_write(struct record *r)
{
	int ret = r->c->symbols ? record_put_names(r, "symbols", r->symbols.text.s, "functions") : 0;

	sbuf_free(&r->symbols.text);
	return ret;
}

static bool is_there(const struct ksyms *k, const struct ksym *mod)
{
	for (size_t i = 0; i < k->nmod; i++)
		if (k->mod[i].addr == mod->addr && !strcmp(k->mod[i].name, mod->name))
			return true;
	return false;
}

int record_symbols_end(struct record *r)
{
	_cleanup_(ksyms_free) struct ksyms now = { 0 };
	const struct ksyms *then = &r->symbols.at_begin;
	int ret = 0;

	if (!then->nmod)
		return 0;
	ret = err_why(r->err, read_modules(r, &now), "cannot read /proc/modules");
	for (size_t i = 0; i < then->nmod && !ret; i++) {
		char name[KSYM_NAME];

		if (is_there(&now, &then->mod[i]))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strlen(then->mod[i].name) - 2,
			 then->mod[i].name + 1);
		meta_begin(&r->line, "symbols");
		meta_str(&r->line, "gone", name);
		ret = record_put(r);
	}
	return ret;
}

void record_symbols_free(struct record *r)
{
	util_close_fd(&r->symbols.modules);
	sbuf_free(&r->symbols.text);
	ksyms_free(&r->symbols.at_begin);
}
