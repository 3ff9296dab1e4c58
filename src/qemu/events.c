/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * events.c: the declarations in trace-events-all, and their print formats: read, applied to values,
 * and matched against a text.
 *
 * Types are classified as by QEMU's scripts/tracetool: char pointers are strings, other pointers
 * addresses, the rest integers of their size on x86-64.
 */
#include "kvmft/put.h"
#include "kvmft/qemu.h"

#include <ctype.h>

#define MAX_FORMAT 4096
#define SCAN_TRIES 4096 /* places where a string might end, over one text */
#define MAX_EVENTS 60000
#define MAX_NOTES  64
#define MAX_NAME   256

const char *const qev_kind_names[] = {
	[QEV_UNSIGNED] = "unsigned", [QEV_SIGNED] = "signed", [QEV_POINTER] = "pointer",
	[QEV_STRING] = "string", NULL,
};

static const char *const prop_names[] = { "disable", "vcpu", "tcg", "tcg-trans", "tcg-exec" };

const char *qev_prop_name(unsigned int bit)
{
	return bit < ARRAY_SIZE(prop_names) ? prop_names[bit] : NULL;
}

/*
 * Print formats. A format is untrusted data: every conversion is parsed here, widths are bounded,
 * and anything unknown makes the whole format unusable.
 */

/* ---- formats, from a declaration ---- */

static const struct {
	const char *name, *text;
} macros[] = {
	{ "HWADDR_PRIx", "lx" },	{ "HWADDR_PRId", "ld" },
	{ "HWADDR_PRIu", "lu" },	{ "HWADDR_PRIX", "lX" },
	{ "HWADDR_FMT_plx", "%016lx" }, { "TARGET_FMT_plx", "%016lx" },
	{ "TARGET_FMT_lx", "%016lx" },	{ "TARGET_FMT_ld", "%ld" },
	{ "TARGET_FMT_lu", "%lu" },	{ "RAM_ADDR_FMT", "%lx" },
	{ "VADDR_PRIx", "lx" },		{ "VADDR_PRIu", "lu" },
	{ "VADDR_PRId", "ld" },
};

/* PRIx64 and the like, as on x86-64. */
static bool format_macro(const char *s, size_t n, struct sbuf *b)
{
	static const char *const sizes[] = { "64",     "PTR",   "MAX",	    "FAST16", "FAST32",
					     "FAST64", "LEAST64", "8",	    "16",     "32",
					     "FAST8",  "LEAST8", "LEAST16", "LEAST32" };
	const size_t wide = 7; /* of them are longs */

	for (size_t i = 0; i < ARRAY_SIZE(macros); i++) {
		if (strlen(macros[i].name) == n && !memcmp(macros[i].name, s, n)) {
			sbuf_add(b, macros[i].text);
			return true;
		}
	}
	if (n < 5 || memcmp(s, "PRI", 3) || !strchr("diouxX", s[3]))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		if (strlen(sizes[i]) == n - 4 && !memcmp(sizes[i], s + 4, n - 4)) {
			sbuf_add(b, i < wide ? "l" : "");
			sbuf_addc(b, s[3]);
			return true;
		}
	}
	return false;
}

/* After a backslash; *p moves past the escape. */
static char format_escape(const char **p, const char *end)
{
	static const char from[] = "abfnrtv", to[] = "\a\b\f\n\r\t\v";
	const char *at = strchr(from, **p);
	unsigned int v = 0, n = 0;

	if (**p && at) {
		++*p;
		return to[at - from];
	}
	if (**p == 'x') {
		for (++*p; *p < end && str_hex_value(**p) >= 0 && n < 2; ++*p, n++)
			v = v * 16 + (unsigned int)str_hex_value(**p);
		return (char)v;
	}
	if (**p >= '0' && **p <= '7') {
		for (; *p < end && **p >= '0' && **p <= '7' && n < 3; ++*p, n++)
			v = v * 8 + (unsigned int)(**p - '0');
		return (char)v;
	}
	return *(*p)++; /* \" \\ \' \? and any other, which is itself */
}

static int format_literal(const char **p, const char *end, struct sbuf *b)
{
	for (++*p; *p < end && **p != '"';) {
		char c = **p;

		++*p;
		if (c == '\\') {
			if (*p == end)
				return -EBADMSG;
			c = format_escape(p, end);
		}
		if (!c) /* would end the text; no format needs it */
			return -EBADMSG;
		sbuf_addc(b, c);
	}
	if (*p == end)
		return -EBADMSG;
	++*p;
	return b->len > MAX_FORMAT ? -EBADMSG : 0;
}

/*
 * One format, literals and macros, up to a comma or the end; *p moves past it. The text without
 * quotes, escapes and macros goes to *out. -EBADMSG with *why.
 */
static int qev_format_parse(const char **p, const char *end, char **out, const char **why)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = 0;

	*why = "a format is neither text in quotes nor a known macro";
	while (*p < end && **p != ',' && !ret) {
		const char *word = *p;

		if (isspace((unsigned char)**p)) {
			++*p;
		} else if (**p == '"') {
			ret = format_literal(p, end, &b);
		} else {
			while (*p < end && (isalnum((unsigned char)**p) || **p == '_'))
				++*p;
			if (*p == word || !format_macro(word, (size_t)(*p - word), &b) ||
			    b.len > MAX_FORMAT)
				ret = -EBADMSG;
		}
	}
	if (!ret)
		*out = xsbuf_take(&b);
	return ret;
}

/* ---- conversions ---- */

/* *p is at '%'; it moves past the conversion. False: not a known one. */
static bool conv_parse(const char **p, struct spec *c)
{
	++*p;
	if (!spec_parse(p, c) || c->star & STAR_PREC || (c->star && c->conv == '%'))
		return false;
	c->bytes = (uint8_t)(c->conv == 'p' || c->longs > 0 ? 8 : 4 >> MIN(-c->longs, 2));
	c->bare_zero = true;
	return true;
}

/* Whether qev_print() can use the format: known conversions, one for each argument. */
static bool qev_format_fits(const struct qev *e)
{
	const char *p = e->format;
	struct spec c;
	size_t n = 0;

	if (!*p)
		return false;
	while (*p) {
		if (*p != '%') {
			p++;
			continue;
		}
		if (!conv_parse(&p, &c))
			return false;
		if (c.conv == '%')
			continue;
		if (c.star && (n == e->nargs || e->arg[n++].kind == QEV_STRING))
			return false;
		if (n == e->nargs || (c.conv == 's') != (e->arg[n].kind == QEV_STRING))
			return false;
		n++;
	}
	return n == e->nargs;
}

/* ---- the declarations ---- */

struct qevents {
	char *name;
	struct qev **v;
	size_t n, cap;
	struct hash_key key;
	struct u64map by_name; /* hash of a name: index of the first with it */
	char **note;
	size_t nnote, note_cap;
};

static void qevents_remark(struct qevents *q, uint32_t line, const char *what)
{
	char **slot;

	if (q->nnote >= MAX_NOTES)
		return;
	slot = xarray_grow(&q->note, q->nnote, &q->note_cap, sizeof(*slot));
	*slot = xstrdup(TEXTF("line %u: %s", line, what));
	q->nnote++;
}

static void qev_free(struct qev *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->nargs; i++) {
		free(e->arg[i].type);
		free(e->arg[i].name);
	}
	free(e->name);
	free(e->format);
	free(e);
}

const struct qev *qevents_find(const struct qevents *q, const char *name, size_t len)
{
	uint64_t at;

	if (!q || !u64map_get(&q->by_name, hash_bytes(&q->key, name, len), &at))
		return NULL;
	return strlen(q->v[at]->name) == len && !memcmp(q->v[at]->name, name, len) ? q->v[at]
										   : NULL;
}

/* ---- types ---- */

static const struct {
	const char *name;
	enum qev_kind kind;
	uint8_t size;
} types[] = {
	{ "int", QEV_SIGNED, 4 }, { "signed", QEV_SIGNED, 4 }, { "signed int", QEV_SIGNED, 4 },
	{ "unsigned", QEV_UNSIGNED, 4 }, { "unsigned int", QEV_UNSIGNED, 4 },
	{ "long", QEV_SIGNED, 8 }, { "long int", QEV_SIGNED, 8 },
	{ "unsigned long", QEV_UNSIGNED, 8 }, { "unsigned long int", QEV_UNSIGNED, 8 },
	{ "long long", QEV_SIGNED, 8 }, { "unsigned long long", QEV_UNSIGNED, 8 },
	{ "short", QEV_SIGNED, 2 }, { "unsigned short", QEV_UNSIGNED, 2 },
	{ "char", QEV_SIGNED, 1 }, { "signed char", QEV_SIGNED, 1 },
	{ "unsigned char", QEV_UNSIGNED, 1 }, { "bool", QEV_UNSIGNED, 1 },
	{ "int8_t", QEV_SIGNED, 1 }, { "int16_t", QEV_SIGNED, 2 },
	{ "int32_t", QEV_SIGNED, 4 }, { "int64_t", QEV_SIGNED, 8 },
	{ "uint8_t", QEV_UNSIGNED, 1 }, { "uint16_t", QEV_UNSIGNED, 2 },
	{ "uint32_t", QEV_UNSIGNED, 4 }, { "uint64_t", QEV_UNSIGNED, 8 },
	{ "size_t", QEV_UNSIGNED, 8 }, { "ssize_t", QEV_SIGNED, 8 },
	{ "uintptr_t", QEV_UNSIGNED, 8 }, { "intptr_t", QEV_SIGNED, 8 },
	{ "ptrdiff_t", QEV_SIGNED, 8 },
	/* values in translated code, as they are when it runs */
	{ "TCGv_i32", QEV_UNSIGNED, 4 }, { "TCGv_i64", QEV_UNSIGNED, 8 },
	{ "TCGv", QEV_UNSIGNED, 8 }, { "TCGv_ptr", QEV_POINTER, 8 }, { "TCGv_env", QEV_POINTER, 8 },
};

/* The type's words with one blank between them, without const and the like; false: too long. */
static bool plain_type(const char *s, size_t n, char *buf, size_t size)
{
	static const char *const skip[] = { "const", "volatile", "struct", "enum", NULL };
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < n;) {
		size_t w = 0, k;

		while (i + w < n && !isspace((unsigned char)s[i + w]) && s[i + w] != '*')
			w++;
		for (k = 0; skip[k] && (strlen(skip[k]) != w || memcmp(skip[k], s + i, w)); k++)
			;
		if (w && !skip[k]) {
			if (len + w + 2 > size)
				return false;
			len += (size_t)snprintf(buf + len, size - len, "%s%.*s", len ? " " : "",
						(int)w, s + i);
		}
		i += w ?: 1;
	}
	return true;
}

/* ---- one declaration ---- */

struct decl {
	const char *p, *end;
};

static void skip_blanks(struct decl *d)
{
	while (d->p < d->end && isspace((unsigned char)*d->p))
		d->p++;
}

static size_t qevents_trim(const char *s, size_t n)
{
	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	return n;
}

static void arg_add(struct qev *e, const char *type, size_t ntype, const char *name, size_t nname)
{
	struct qev_arg *a = &e->arg[e->nargs];
	size_t n, stars;
	char plain[64];

	a->type = xstrndup(type, ntype);
	a->name = xstrndup(name, nname);
	e->nargs++;
	str_printable(a->type);
	n = strlen(a->type);
	stars = 0;
	for (size_t i = 0; i < n; i++)
		stars += a->type[i] == '*';
	a->kind = QEV_UNSIGNED;
	a->size = 8;
	if (!plain_type(a->type, n, plain, sizeof(plain)))
		return;
	if (stars == 1 && !strcmp(plain, "char")) {
		a->kind = QEV_STRING;
		a->size = 0;
		return;
	}
	if (stars) {
		a->kind = QEV_POINTER;
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (!strcmp(types[i].name, plain)) {
			a->kind = types[i].kind;
			a->size = types[i].size;
		}
	}
}

static int qev_parse_args(struct qev *e, const char *s, size_t n)
{
	size_t from = 0;

	n = qevents_trim(s, n);
	while (from < n && isspace((unsigned char)s[from]))
		from++;
	if (from == n || (n - from == 4 && !memcmp(s + from, "void", 4)))
		return 0;
	/* "const char *path": the name is the last word. */
	for (;;) {
		const char *comma = memchr(s, ',', n);
		size_t len = comma ? (size_t)(comma - s) : n, skip = 0, all, at;

		while (skip < len && isspace((unsigned char)s[skip]))
			skip++;
		all = at = qevents_trim(s + skip, len - skip);
		while (at && (isalnum((unsigned char)s[skip + at - 1]) || s[skip + at - 1] == '_'))
			at--;
		if (!at || at == all || all > MAX_NAME || e->nargs >= QEV_MAX_ARGS)
			return -EBADMSG;
		arg_add(e, s + skip, qevents_trim(s + skip, at), s + skip + at, all - at);
		if (!comma)
			break;
		s += len + 1;
		n -= len + 1;
	}
	return 0;
}

/* PROPERTY... NAME: the name is the last word before the parenthesis. */
static int parse_words(struct qev *e, const char *s, size_t n)
{
	while (n) {
		size_t w = 0, k;

		while (w < n && !isspace((unsigned char)s[w]))
			w++;
		if (w == n) { /* the last one */
			for (size_t i = 0; i < w; i++)
				if (!isalnum((unsigned char)s[i]) && s[i] != '_')
					return -EBADMSG;
			if (w > MAX_NAME)
				return -EBADMSG;
			e->name = xstrndup(s, w);
			return 0;
		}
		for (k = 0; k < ARRAY_SIZE(prop_names); k++)
			if (strlen(prop_names[k]) == w && !memcmp(prop_names[k], s, w))
				break;
		if (k == ARRAY_SIZE(prop_names))
			return -EBADMSG;
		e->props |= 1u << k;
		for (; w < n && isspace((unsigned char)s[w]); w++)
			;
		s += w;
		n -= w;
	}
	return -EBADMSG;
}

/* Formats: the last one is the event's, one before it that of tcg's translation. */
static int parse_formats(struct decl *d, char *fmt[2], const char **why)
{
	size_t n = 0;
	int ret = 0;

	skip_blanks(d);
	while (!ret && d->p < d->end) {
		if (n == 2)
			return -EBADMSG;
		ret = qev_format_parse(&d->p, d->end, &fmt[n++], why);
		skip_blanks(d);
		if (!ret && d->p < d->end) {
			if (*d->p != ',') {
				*why = "a format is neither text in quotes nor a known macro";
				return -EBADMSG;
			}
			d->p++;
		}
	}
	return ret;
}

/*
 * A separate event for each of the two that tcg makes; values that exist only later are left out.
 */
static struct qev *tcg_half(const struct qev *e, const char *suffix, unsigned int prop,
			    const char *fmt)
{
	struct qev *h = xcalloc(1, sizeof(*h));
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	sbuf_addf(&b, "%s%s", e->name, suffix);
	h->name = xsbuf_take(&b);
	h->format = xstrdup(fmt ?: "");
	h->props = e->props | prop;
	h->line = e->line;
	for (size_t i = 0; i < e->nargs; i++)
		if (prop == QEV_TCG_EXEC || !str_starts(e->arg[i].type, "TCGv"))
			arg_add(h, e->arg[i].type, strlen(e->arg[i].type), e->arg[i].name,
				strlen(e->arg[i].name));
	return h;
}

/* Takes over e, even if it fails. */
static int qevents_finish(struct qevents *q, struct qev *e)
{
	_cleanup_free_ char *old = NULL;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint64_t h;

	if (e->props & QEV_VCPU) {
		memmove(&e->arg[1], &e->arg[0], e->nargs * sizeof(e->arg[0]));
		e->arg[0] = (struct qev_arg){ .type = xstrdup("void *"),
					      .name = xstrdup("__cpu"),
					      .kind = QEV_POINTER,
					      .size = 8 };
		e->nargs++;
		old = e->format;
		sbuf_addf(&b, "%s%s", *old ? "cpu=%p " : "cpu=%p", old);
		e->format = xsbuf_take(&b);
	}
	e->format_usable = qev_format_fits(e);
	if (*e->format && !e->format_usable)
		qevents_remark(q, e->line, "the format does not fit the arguments");
	if (q->n >= MAX_EVENTS) {
		qev_free(e);
		return -EFBIG;
	}
	h = hash_bytes(&q->key, e->name, strlen(e->name));
	xarray_add(&q->v, &q->n, &q->cap, &e, sizeof(e));
	if (!u64map_get(&q->by_name, h, NULL))
		xu64map_put(&q->by_name, h, q->n - 1);
	return 0;
}

static int parse_event(struct qevents *q, struct decl *d, struct qev *e, const char **why)
{
	const char *open = memchr(d->p, '(', (size_t)(d->end - d->p)), *close;
	char *fmt[2] = { NULL, NULL };
	int ret = -EBADMSG;

	close = open ? memchr(open, ')', (size_t)(d->end - open)) : NULL;
	*why = "no NAME(ARGUMENTS)";
	if (!close)
		goto out;
	*why = "neither a known property nor a name";
	ret = parse_words(e, d->p, qevents_trim(d->p, (size_t)(open - d->p)));
	if (ret)
		goto out;
	*why = "an argument is not TYPE NAME, or there are too many";
	ret = qev_parse_args(e, open + 1, (size_t)(close - open) - 1);
	if (!ret && (e->props & QEV_VCPU) && e->nargs == QEV_MAX_ARGS)
		ret = -EBADMSG;
	if (ret)
		goto out;
	*why = "at most two formats";
	d->p = close + 1;
	ret = parse_formats(d, fmt, why);
	if (ret)
		goto out;
	e->format = fmt[1] ? fmt[1] : fmt[0] ? fmt[0] : xstrdup("");
	if (fmt[1] == e->format)
		fmt[1] = NULL;
	else
		fmt[0] = NULL;
	if (e->props & QEV_TCG) {
		ret = qevents_finish(q, tcg_half(e, "_trans", QEV_TCG_TRANS, fmt[0] ?: e->format));
		ret = qevents_finish(q, tcg_half(e, "_exec", QEV_TCG_EXEC, e->format)) ?: ret;
	} else {
		ret = qevents_finish(q, e);
		e = NULL;
	}
out:
	qev_free(e);
	free(fmt[0]);
	free(fmt[1]);
	return ret;
}

/* Length of a line that may continue: "\" before its end; *used includes all newlines. */
static size_t logical_line(const char *s, size_t n, struct sbuf *joined, size_t *used,
			   uint32_t *lines)
{
	size_t at = 0;

	sbuf_reset(joined);
	*lines = 0;
	for (;;) {
		const char *nl = memchr(s + at, '\n', n - at);
		size_t len = nl ? (size_t)(nl - (s + at)) : n - at, text = len;

		while (text && (s[at + text - 1] == '\r' || s[at + text - 1] == ' '))
			text--;
		++*lines;
		if (!nl || !text || s[at + text - 1] != '\\') {
			sbuf_add_mem(joined, s + at, text);
			*used = at + len + (nl != NULL);
			return joined->len;
		}
		sbuf_add_mem(joined, s + at, text - 1);
		at += len + 1;
	}
}

int qevents_parse(const char *text, size_t len, const char *name, struct qevents **out,
		  struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf joined = { 0 };
	struct qevents *q = xcalloc(1, sizeof(*q));
	struct qev *e;
	uint32_t line = 1, lines;
	const char *why = "";
	int ret = 0;

	*out = NULL;
	hash_key_init(&q->key);
	q->name = xstrdup(name);
	str_printable(q->name);
	for (size_t at = 0, used; at < len && !ret; at += used, line += lines) {
		size_t n = logical_line(text + at, len - at, &joined, &used, &lines);

		struct decl d = { joined.s, joined.s ? joined.s + n : NULL };

		skip_blanks(&d);
		ret = joined.error;
		if (ret || d.p == d.end || *d.p == '#')
			continue;
		e = xcalloc(1, sizeof(*e));
		e->line = line;
		ret = parse_event(q, &d, e, &why);
		if (ret == -EBADMSG)
			qevents_remark(q, line, why);
		ret = ret == -EBADMSG ? 0 : ret;
	}
	if (!ret && !q->n)
		ret = err_set(
			err, ENODATA,
			"%s declares no trace events: it is not a trace-events-all of QEMU%s%s%s",
			name, q->nnote ? " (" : "", q->nnote ? q->note[0] : "",
			q->nnote ? ")" : "");
	else if (ret)
		err_set(err, -ret, "%s: %s", name,
			ret == -EFBIG ? "too many events" : strerror(-ret));
	if (ret) {
		qevents_free(q);
		return ret;
	}
	*out = q;
	return 0;
}

int qevents_load(const char *path, bool own, struct qevents **out, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	ssize_t len = file_read_regular(path, QEV_MAX_FILE, own, &text);

	*out = NULL;
	if (len == -EINVAL)
		return err_set(err, EINVAL, "cannot read %s: it is not a plain file", path);
	if (len == -EPERM && own)
		return err_set(err, EPERM,
			       "%s is not used: users other than root and you can change it", path);
	if (len < 0)
		return err_why(err, (int)len, "cannot read %s", path);
	return qevents_parse(text, (size_t)len, path, out, err);
}

void qevents_free(struct qevents *q)
{
	if (!q)
		return;
	for (size_t i = 0; i < q->n; i++)
		qev_free(q->v[i]);
	for (size_t i = 0; i < q->nnote; i++)
		free(q->note[i]);
	u64map_free(&q->by_name);
	free(q->v);
	free(q->note);
	free(q->name);
	free(q);
}

const struct qev *qevents_at(const struct qevents *q, uint64_t i)
{
	return q && i < q->n ? q->v[i] : NULL;
}

size_t qevents_count(const struct qevents *q)
{
	return q ? q->n : 0;
}

const char *qevents_note(const struct qevents *q, size_t i)
{
	return i < q->nnote ? q->note[i] : NULL;
}

const char *qevents_name(const struct qevents *q)
{
	return q->name;
}

/* ---- printing ---- */

static uint64_t low_bytes(uint64_t v, unsigned int size)
{
	return size >= 8 ? v : v & ((1ull << 8 * size) - 1);
}

static const struct spec address = { .conv = 'x', .alt = true, .bytes = 8, .bare_zero = true };

static void print_conv(const struct spec *c, const struct qev_value *v, struct sbuf *b)
{
	struct spec hex = *c;
	char ch = (char)v->num;

	hex.conv = 'x';
	hex.alt = true;
	if (v->s) /* even if the format takes it for a number */
		sbuf_add_text(b, c, v->s, v->len);
	else if (c->conv == 's')
		sbuf_add_number(b, &address, v->num);
	else if (c->conv == 'c')
		sbuf_add_text(b, c, &ch, 1);
	else if (c->conv == 'p' && !v->num)
		sbuf_add_text(b, c, "(nil)", 5);
	else
		sbuf_add_number(b, c->conv == 'p' ? &hex : c, v->num);
}

void qev_print(const struct qev *e, const struct qev_value *v, size_t n, struct sbuf *b)
{
	const char *p = e->format;
	struct spec c;
	size_t i = 0;

	if (!e->format_usable || n != e->nargs) {
		for (; i < n; i++) {
			c = address;
			sbuf_addf(b, "%s%s=", i ? " " : "", i < e->nargs ? e->arg[i].name : "?");
			if (i < e->nargs && e->arg[i].kind == QEV_SIGNED)
				c.conv = 'd';
			if (i < e->nargs && e->arg[i].kind == QEV_UNSIGNED)
				c.conv = 'u';
			print_conv(&c, &v[i], b);
		}
		return;
	}
	while (*p) {
		size_t plain = strcspn(p, "%");

		sbuf_add_mem(b, p, plain);
		p += plain;
		if (!*p || !conv_parse(&p, &c))
			return;
		if (c.star) {
			int32_t width = (int32_t)v[i++].num;

			/* As in C: a negative one means left-aligned. */
			c.left |= width < 0;
			c.width = (uint16_t)MIN(width < 0 ? -(int64_t)width : (int64_t)width,
						(int64_t)SPEC_MOST);
		}
		if (c.conv == '%')
			sbuf_addc(b, '%');
		else
			print_conv(&c, &v[i++], b);
	}
}

/* ---- scanning ---- */

struct scan {
	const char *p, *end; /* of the text */
};

static bool qevents_take(struct scan *s, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n))
		return false;
	s->p += n;
	return true;
}

/*
 * limited: at most as many digits as the conversion's width, because another one follows at once.
 */
static bool scan_number(struct scan *s, const struct spec *c, bool limited, uint64_t *v)
{
	int base = c->conv == 'o' ? 8 : strchr("xXp", c->conv) ? 16 : 10;
	size_t most = limited ? (size_t)MAX(c->width, c->prec) : SIZE_MAX, n = 0;
	bool minus = false;

	while (s->p < s->end && *s->p == ' ' && (c->width || c->blank))
		s->p++;
	if (c->conv == 'p' && qevents_take(s, "(nil)")) {
		*v = 0;
		return true;
	}
	if (base == 10 && c->conv != 'u') {
		minus = qevents_take(s, "-");
		if (!minus && c->plus)
			qevents_take(s, "+");
	}
	if (base == 16 && (c->alt || c->conv == 'p') && !qevents_take(s, "0x"))
		qevents_take(s, "0X");
	for (*v = 0; s->p < s->end && n < (most ?: SIZE_MAX); s->p++, n++) {
		const int digit = str_hex_value(*s->p);

		if (digit < 0 || digit >= base)
			break;
		if (__builtin_mul_overflow(*v, base, v) || __builtin_add_overflow(*v, digit, v))
			return false;
	}
	if (minus)
		*v = 0 - *v;
	while (c->left && c->width && s->p < s->end && *s->p == ' ')
		s->p++;
	return n || (c->has_prec && !c->prec);
}

static bool scan_conv(struct scan *s, const struct spec *c, const char *rest,
		      const struct qev_arg *a, struct qev_value *v)
{
	uint8_t size = c->conv == 'c' ? 1 : c->bytes;

	*v = (struct qev_value){ 0 };
	if (c->conv == 'c') {
		if (s->p == s->end)
			return false;
		v->num = (uint64_t)(int64_t)(signed char)*s->p++;
	} else if (!scan_number(s, c, *rest == '%' && rest[1] != '%', &v->num)) {
		return false;
	}
	v->num = low_bytes(v->num, a->kind == QEV_SIGNED ? MIN(a->size, size) : a->size);
	if (a->kind == QEV_SIGNED && MIN(a->size, size) < 8) {
		const uint64_t sign = 1ull << (8 * MIN(a->size, size) - 1);

		v->num = (v->num ^ sign) - sign;
	}
	return true;
}

static bool scan_rest(const struct qev *e, const char *p, size_t i, struct scan s,
		      struct qev_value *v, unsigned int *tries);

/*
 * A string ends where the rest of the format fits the rest of the text; the shortest one wins. The
 * format's next literal shows where to try.
 */
static bool qev_scan_string(const struct qev *e, const char *p, size_t i, struct scan s,
			    struct qev_value *v, unsigned int *tries)
{
	size_t plain = strcspn(p, "%");
	const char *begin = s.p;

	for (;; s.p++) {
		if (!*p)
			s.p = s.end;
		else if (plain)
			s.p = memmem(s.p, (size_t)(s.end - s.p), p, plain);
		if (!s.p || !*tries)
			break;
		--*tries;
		v[i] = (struct qev_value){
			.s = begin, .len = (uint32_t)MIN((size_t)(s.p - begin), (size_t)UINT32_MAX)
		};
		if (scan_rest(e, p, i + 1, s, v, tries))
			return true;
		if (!*tries || s.p == s.end)
			break;
	}
	return false;
}

static bool scan_rest(const struct qev *e, const char *p, size_t i, struct scan s,
		      struct qev_value *v, unsigned int *tries)
{
	struct spec c;

	while (*p) {
		if (*p != '%') {
			if (s.p == s.end || *s.p++ != *p++)
				return false;
			continue;
		}
		if (!conv_parse(&p, &c))
			return false;
		/* A width is not printed: only how much it padded the number is known. */
		if (c.star && c.conv != 's') {
			const char *from = s.p;

			c.width = SPEC_MOST;
			if (i + 1 >= e->nargs || !scan_conv(&s, &c, p, &e->arg[i + 1], &v[i + 1]))
				return false;
			v[i] = (struct qev_value){ .num = (uint64_t)(s.p - from) };
			i += 2;
			continue;
		}
		if (c.conv == 's')
			return !c.star && qev_scan_string(e, p, i, s, v, tries);
		if (c.conv == '%' ? !qevents_take(&s, "%")
				  : !scan_conv(&s, &c, p, &e->arg[i], &v[i]))
			return false;
		i += c.conv != '%';
	}
	return s.p == s.end;
}

bool qev_scan(const struct qev *e, const char *text, size_t len, struct qev_value *v)
{
	unsigned int tries = SCAN_TRIES;

	if (!*e->format) /* no format and no arguments: QEMU prints the name alone */
		return !e->nargs && !len;
	return e->format_usable &&
	       scan_rest(e, e->format, 0, (struct scan){ text, text + len }, v, &tries);
}
