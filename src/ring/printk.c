/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * printk.c: what trace_printk() wrote: ftrace:bputs, a text of the kernel, and ftrace:bprint, a
 * format of the kernel and its arguments in binary (kernel: vbin_printf() in lib/vsprintf.c). Both
 * texts are only addresses in the record; printk_formats has them.
 */
#include "fmt_priv.h"

#include <ctype.h>

/* Each line is 0xADDRESS : "TEXT"; kept are where TEXT begins and how long it is. */
static void index_texts(struct fmt *f)
{
	const char *text = f->of ? f->of->printk : NULL, *p, *eol, *last;

	for (p = text; p && *p; p = eol + (*eol != '\0')) {
		char *end;
		uint64_t addr = strtoull(p, &end, 16);

		eol = strchrnul(p, '\n');
		last = memrchr(p, '"', (size_t)(eol - p));
		end = memchr(end, '"', (size_t)(eol - MIN(eol, (const char *)end)));
		if (end && last > end && last - end < UINT16_MAX &&
		    u64map_put(&f->printk, addr,
			       (uint64_t)(end + 1 - text) << 16 | (uint64_t)(last - end - 1)))
			return;
	}
}

struct args {
	const uint8_t *from, *p, *end;
};

static uint64_t next_number(struct args *a, size_t size, bool is_signed)
{
	size_t align = MIN(size, sizeof(uint32_t)), at = (size_t)(a->p - a->from);
	uint64_t v = 0;

	at = (at + align - 1) / align * align;
	if (at + size > (size_t)(a->end - a->from)) {
		a->p = a->end;
		return 0;
	}
	memcpy(&v, a->from + at, size);
	a->p = a->from + at + size;
	if (is_signed && size < sizeof(v) && v >> (size * 8 - 1))
		v |= ~0ull << (size * 8);
	return v;
}

/* A width or precision, of digits or an argument. */
static const char *next_width(const char *s, struct args *a, int *v)
{
	if (*s == '*') {
		*v = (int)next_number(a, sizeof(uint32_t), true);
		s++;
	}
	for (; isdigit((unsigned char)*s); s++)
		*v = MIN(*v, 999) * 10 + *s - '0';
	*v = MAX(MIN(*v, 64), -64);
	return s;
}

/* s: behind a %. Returns what is behind the conversion. */
static const char *convert(const char *s, struct args *a, uint32_t long_size, struct sbuf *out)
{
	char spec[16] = "%", *to = spec + 1;
	int width = 0, precision = 0, shorts = 0, longs = 0, len;
	bool has_precision, wide;
	const char *text;
	size_t size;

	for (; *s && strchr("-+ #0", *s) && to < spec + 6; s++)
		*to++ = *s;
	s = next_width(s, a, &width);
	has_precision = *s == '.';
	s = has_precision ? next_width(s + 1, a, &precision) : s;
	precision = has_precision ? precision : -1;
	for (; *s && strchr("hlLzjt", *s); s++) {
		shorts += *s == 'h';
		longs += *s == 'h' ? 0 : *s == 'L' ? 2 : 1;
	}
	size = longs > 1 ? 8 : longs ? long_size : shorts ? 4u >> MIN(shorts, 2) : 4;
	wide = *s == 'p' && s[1] && strchr("SsxKefF", s[1]);
	switch (*s) {
	case '%': sbuf_addc(out, '%'); break;
	case 'c': sbuf_addc(out, (char)next_number(a, 1, false)); break;
	case 'd':
	case 'i':
	case 'u':
	case 'x':
	case 'X':
	case 'o':
		memcpy(to, "*.*ll", 5);
		to[5] = *s;
		sbuf_addf(out, spec, width, precision,
			  (long long)next_number(a, size, *s == 'd' || *s == 'i'));
		break;
	case 'p':
		if (wide)
			sbuf_addf(out, "0x%llx", (long long)next_number(a, long_size, false));
		for (; isalnum((unsigned char)s[1]); s++)
			;
		if (wide)
			break; /* else the kernel kept the text */
			       /* fallthrough */
	case 's':
		text = (const char *)a->p;
		len = (int)strnlen(text, (size_t)(a->end - a->p));
		a->p += MIN(len + 1, a->end - a->p);
		sbuf_addf(out, "%*.*s", width, has_precision ? MIN(MAX(precision, 0), len) : len,
			  text);
		break;
	default: a->p = a->end; return s;
	}
	return s + 1;
}

bool fmt_print_printk(const struct fmt_event *e, const struct rec *rec, struct sbuf *out)
{
	struct fmt *f = e->lazy->f;
	const struct fmt_fld *at = fmt_find_fld(e, "fmt", 3) ?: fmt_find_fld(e, "str", 3),
			     *buf = fmt_find_fld(e, "buf", 3);
	struct args a = { 0 };
	size_t begin = out->len;
	const char *s, *end;
	uint64_t where;

	if (!at || rec->len < at->f.off + at->f.size || (at->f.size != 4 && at->f.size != 8))
		return false;
	if (!f->printk_tried)
		index_texts(f);
	f->printk_tried = true;
	if (!u64map_get(&f->printk, fmt_get(rec->data + at->f.off, (uint8_t)at->f.size), &where))
		return false;
	if (buf && buf->f.off <= rec->len)
		a = (struct args){ rec->data + buf->f.off, rec->data + buf->f.off,
				   rec->data + rec->len };
	s = f->of->printk + (where >> 16);
	for (end = s + (where & UINT16_MAX); s < end; s++)
		if (*s == '\\' && s + 1 < end) {
			s++;
			sbuf_addc(out, *s == 'n' ? '\n' : *s == 't' ? '\t' : *s);
		} else if (*s == '%' && a.from) {
			s = convert(s + 1, &a, f->long_size, out) - 1;
		} else {
			sbuf_addc(out, *s);
		}
	if (out->error)
		return true;
	while (out->len > begin && out->s[out->len - 1] == '\n')
		out->s[--out->len] = '\0';
	if (out->len > begin)
		str_printable(out->s + begin);
	return true;
}
