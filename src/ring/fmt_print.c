/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_print.c: the steps of a plan, gone through for one event.
 *
 * A step prints one value, copies the text of the next step and ends by calling that one: a jump,
 * which the branch predictor learns separately for each kind of step, and no register has to be
 * saved on the way. What the processor waits for most is which step is the first: events of many
 * CPUs come in an order that it cannot foresee. So that is found with few loads from the event's
 * type (struct fmt_line).
 */

#include <ctype.h>

#include "fmt_plan.h"

/*
 * Printing events through a compiled plan.
 *
 * The text is the one that the kernel prints into its trace file, with the arithmetic of C on the
 * types of the fields. If a record lacks what the kernel had (memory behind pointers), it is the
 * one that libtraceevent prints.
 */

/* put_text() of bytes from a record. */
static char *put_foreign(char *p, const struct spec *spec, const char *s, size_t n)
{
	const uint64_t ones = 0x0101010101010101, high = ones << 7;
	size_t plain = 0;
	char *copy;

	for (uint64_t v; n - plain >= sizeof(v); plain += sizeof(v)) {
		v = load_u64(s + plain);
		if ((v | (v - ones * ' ') | (v + ones)) & high)
			break;
	}
	while (plain < n && s[plain] >= ' ' && s[plain] <= '~')
		plain++;
	if (plain == n)
		return put_text(p, spec, s, n);
	copy = xstrndup(s, n); /* rare: names with control or UTF-8 characters */
	str_printable(copy);
	p = put_text(p, spec, copy, strlen(copy));
	free(copy);
	return p;
}

/* 0x and hex digits */
static char *put_0x(char *p, uint64_t v)
{
	return put_hex(put_mem(p, "0x", 2), v);
}

/* The quotient rounds to zero; no division is left undefined as in C. */
static uint64_t op_divide(enum pop op, bool is_signed, uint64_t a, uint64_t b)
{
	bool neg_a = is_signed && (int64_t)a < 0, neg_b = is_signed && (int64_t)b < 0;
	uint64_t x = neg_a ? 0 - a : a, y = neg_b ? 0 - b : b;

	if (!y)
		return 0;
	if (op == OP_MOD)
		return neg_a ? 0 - x % y : x % y;
	return neg_a != neg_b ? 0 - x / y : x / y;
}

uint64_t plan_apply(enum pop op, struct ptype t, uint64_t a, uint64_t b)
{
	bool less, more;

	a = plan_fit(a, t.bytes, t.is_signed);
	if (op == OP_SHL || op == OP_SHR) {
		b &= t.bytes == 8 ? 63 : 31; /* as on the machine */
		a = op == OP_SHL ? a << b : t.is_signed ? (uint64_t)((int64_t)a >> b) : a >> b;
		return plan_fit(a, t.bytes, t.is_signed);
	}
	b = plan_fit(b, t.bytes, t.is_signed);
	less = t.is_signed ? (int64_t)a < (int64_t)b : a < b;
	more = t.is_signed ? (int64_t)a > (int64_t)b : a > b;
	switch (op) {
	case OP_LT: return less;
	case OP_LE: return !more;
	case OP_GT: return more;
	case OP_GE: return !less;
	case OP_EQ: return a == b;
	case OP_NE: return a != b;
	case OP_NOT: return !b;
	case OP_LOR: return a || b;
	case OP_LAND: return a && b;
	case OP_OR: return a | b;
	case OP_AND: return a & b;
	case OP_INV: return plan_fit(~b, t.bytes, t.is_signed);
	case OP_ADD: return plan_fit(a + b, t.bytes, t.is_signed);
	case OP_SUB: return plan_fit(a - b, t.bytes, t.is_signed);
	case OP_MUL: return plan_fit(a * b, t.bytes, t.is_signed);
	case OP_DIV:
	case OP_MOD: return plan_fit(op_divide(op, t.is_signed, a, b), t.bytes, t.is_signed);
	default: return 0;
	}
}

/* The value of a P_FIELD; fmt_print() has checked the record against all fixed fields. */
static inline uint64_t field_value(const struct pnode *n, const struct rec *rec)
{
	uint64_t v = fmt_get(rec->data + n->off, n->size);

	return n->is_signed ? plan_fit(v, n->size, true) : v;
}

/* Value of a number expression. */
static uint64_t plan_eval(const struct pnode *n, const struct rec *rec)
{
	const uint8_t *p;
	uint32_t len, elem;
	uint64_t i;

	switch (n->kind) {
	case P_CONST: return n->val;
	case P_FIELD: return field_value(n, rec);
	case P_CAST: return plan_fit(plan_eval(n->a, rec), n->size, n->is_signed);
	case P_BINARY: return plan_apply(n->op, n->in, plan_eval(n->a, rec), plan_eval(n->b, rec));
	case P_COND:
		return plan_fit(plan_eval(plan_eval(n->a, rec) ? n->b : n->c, rec), n->type.bytes,
				n->type.is_signed);
	case P_DYNLEN: return fmt_bytes(&n->fld, rec, &p, &len) ? len : 0;
	case P_ELEMENT:
		i = plan_eval(n->a, rec);
		elem = n->fld.elem; /* a possible size of a number */
		if (!fmt_bytes(&n->fld, rec, &p, &len) || i >= len / elem)
			return 0;
		return plan_fit(fmt_get(p + i * elem, elem), elem, n->fld.is_signed);
	default: return 0;
	}
}

const struct psym *plan_symbol(const struct pnode *n, int64_t v)
{
	size_t at = COUNT_BEFORE(i, n->nsym, n->sym[i].val < v);

	return at < n->nsym && n->sym[at].val == v ? &n->sym[at] : NULL;
}

/* A mask of several bits needs all of them; unnamed bits are left for the end, in hex. */
static char *print_flags(const struct pnode *n, const struct spec *spec, uint64_t v, char *p)
{
	bool any = false;
	size_t i;

	for (i = 0; i < n->nsym && v; i++) {
		const struct psym *s = &n->sym[i];

		if ((v & (uint64_t)s->val) != (uint64_t)s->val)
			continue;
		if (any)
			p = put_mem(p, n->text, n->len);
		p = put_text(p, spec, s->str, s->len);
		any = true;
		v &= ~(uint64_t)s->val;
	}
	if (v && any)
		p = put_mem(p, n->text, n->len);
	return v ? put_0x(p, v) : p;
}

/* a bytes in hex; never more than the field has. */
static char *print_hex(const struct pnode *n, const struct rec *rec, char *to)
{
	static const char hex[] = "0123456789abcdef";
	uint64_t want = plan_eval(n->a, rec);
	const uint8_t *p;
	uint32_t len, i;

	if (!fmt_bytes(&n->fld, rec, &p, &len))
		return to;
	for (i = 0; i < len && i < want; i++) {
		if (i && !n->val)
			*to++ = ' ';
		*to++ = hex[p[i] >> 4];
		*to++ = hex[p[i] & 15];
	}
	return to;
}

static char *print_array(const struct pnode *n, const struct rec *rec, char *to)
{
	uint64_t want = plan_eval(n->a, rec), elem = plan_eval(n->b, rec), i;
	const uint8_t *p;
	uint32_t len;

	if (elem > 8 || !fmt_is_number((uint32_t)elem) || !fmt_bytes(&n->fld, rec, &p, &len))
		len = 0;
	*to++ = '{';
	for (i = 0; len && i < len / elem && i < want; i++) {
		if (i)
			*to++ = ',';
		to = put_0x(to, fmt_get(p + i * elem, (uint32_t)elem));
	}
	*to++ = '}';
	return to;
}

static char *print_string(const struct pnode *n, const struct spec *spec, const struct rec *rec,
			  char *to)
{
	const struct psym *sym;
	const uint8_t *p;
	uint32_t len;
	uint64_t v;

	switch (n->kind) {
	case P_TEXT: return put_text(to, spec, n->text, n->len);
	case P_CHARS:
		/* An empty dynamic array is not a string at all: not even padding. */
		if (!fmt_bytes(&n->fld, rec, &p, &len) || (!len && n->fld.is_dynamic))
			return to;
		return put_foreign(to, spec, (const char *)p, strnlen((const char *)p, len));
	case P_POINTER: /* libtraceevent prints it without 0x */
		return put_hex(to, fmt_get(rec->data + n->off, n->size));
	case P_SYMBOL:
		v = plan_eval(n->a, rec);
		sym = plan_symbol(n, (int64_t)v);
		return sym ? put_text(to, spec, sym->str, sym->len) : put_0x(to, v);
	case P_FLAGS: return print_flags(n, spec, plan_eval(n->a, rec), to);
	case P_HEX: return print_hex(n, rec, to);
	case P_ARRAY: return print_array(n, rec, to);
	case P_COND: return print_string(plan_eval(n->a, rec) ? n->b : n->c, spec, rec, to);
	default: return to; /* a number where a text belongs: nothing, like libtraceevent */
	}
}

/* One segment, literal or conversion, at p: there is room for the plan's line. */
static char *plan_segment(const struct pseg *s, const struct rec *rec, char *p)
{
	struct spec spec = s->spec;
	uint64_t v;
	int32_t n;
	char c;

	if (!spec.conv)
		return put_padded(p, s->text, s->len);
	if (s->star) {
		/* Width or precision from an argument; a negative one counts as none. */
		n = (int32_t)plan_eval(s->star, rec);
		spec.has_prec |= n >= 0 && spec.star != STAR_WIDTH;
		if (n >= 0)
			*(spec.star == STAR_WIDTH ? &spec.width : &spec.prec) =
				(uint16_t)MIN(n, PLAN_MAX_WIDTH);
	}
	if (spec.conv == 's')
		return print_string(s->arg, &spec, rec, p);
	v = plan_eval(s->arg, rec);
	c = (char)v;
	/* '#' marks a function address, which has no "(nil)" */
	if (spec.conv == 'p')
		return v || spec.alt ? put_0x(p, v) : put_mem(p, "(nil)", 5);
	if (spec.conv == 'c')
		return c ? put_foreign(p, &spec, &c, 1) : p;
	return put_number(p, &spec, v);
}

void fmt_plan_free(struct fmt_plan *p)
{
	struct pnode *n, *next;
	struct pmemo *m;
	size_t i;

	if (!p)
		return;
	for (n = p->nodes; n; n = next) {
		next = n->owned;
		free(n->sym);
		free(n);
	}
	for (i = 0; i < p->nseg; i++)
		free(p->seg[i].text);
	while ((m = p->memos)) {
		p->memos = m->next;
		free(m);
	}
	free(p->step);
	free(p->lead);
	free(p->seg);
	free(p->dyn);
	free(p);
}

/*
 * ---- trace_printk() ----
 *
 * ftrace:bputs, a text of the kernel, and ftrace:bprint, a format of the kernel and its arguments
 * in binary (kernel: vbin_printf() in lib/vsprintf.c). Both texts are only addresses in the record;
 * printk_formats has them.
 */

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

#define PRINTK_MOST 64 /* width and precision */

/* s: behind a %. Returns what is behind the conversion. */
static const char *print_conversion(const char *s, struct args *a, uint32_t long_size,
				    struct sbuf *out)
{
	const char *text;
	struct spec c;
	size_t len;
	int n;

	if (!spec_parse(&s, &c)) {
		a->p = a->end;
		return s;
	}
	if (c.star & STAR_WIDTH) {
		n = (int)next_number(a, sizeof(uint32_t), true);
		c.left |= n < 0;
		c.width = (uint16_t)MIN(n < 0 ? -(int64_t)n : n, PRINTK_MOST);
	}
	n = c.star & STAR_PREC ? (int)next_number(a, sizeof(uint32_t), true) : c.prec;
	c.has_prec |= c.star & STAR_PREC && (n >= 0 || c.conv == 's');
	c.prec = (uint16_t)MIN(MAX(n, 0), PRINTK_MOST);
	c.width = MIN(c.width, (uint16_t)PRINTK_MOST);
	c.bytes = (uint8_t)(c.longs > 1 ? 8 : c.longs > 0 ? long_size : 4u >> MIN(-c.longs, 2));
	c.bare_zero = true;
	if (c.conv == '%') {
		sbuf_addc(out, '%');
	} else if (c.conv == 'c') {
		sbuf_addc(out, (char)next_number(a, 1, false));
	} else if (c.conv == 'p' && *s && strchr("SsxKefF", *s)) {
		sbuf_addf(out, "0x%llx", (long long)next_number(a, long_size, false));
	} else if (c.conv != 's' && c.conv != 'p') {
		sbuf_add_number(out, &c, next_number(a, c.bytes, c.conv == 'd'));
	} else { /* of other pointers the kernel kept the text */
		text = (const char *)a->p;
		len = strnlen(text, (size_t)(a->end - a->p));
		a->p += MIN((ptrdiff_t)len + 1, a->end - a->p);
		sbuf_add_text(out, &c, text, len);
	}
	while (c.conv == 'p' && isalnum((unsigned char)*s))
		s++;
	return s;
}

/* False, and nothing printed, if the capture does not have the text. */
static bool fmt_print_printk(const struct fmt_event *e, const struct rec *rec, struct sbuf *out)
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
			s = print_conversion(s + 1, &a, f->long_size, out) - 1;
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

/* Beyond that the stack might not suffice if a compiler makes calls of the jumps. */
#define MAX_STEPS 1024

static inline void step_at(const struct pstep *s, const uint8_t *data, char *p,
			   const struct rec *rec, struct sbuf *to)
{
	__builtin_memcpy(p, s->text, sizeof(s->text));
	s->print(s, data, p + s->len, rec, to);
}

static void step_end(const struct pstep *s, const uint8_t *data, char *p, const struct rec *rec,
		     struct sbuf *to)
{
	(void)s;
	(void)data;
	(void)rec;
	*p = '\0';
	to->len = (size_t)(p - to->s);
}

#define STEP(name, put)                                                              \
	static void step_##name(const struct pstep *s, const uint8_t *data, char *p, \
				const struct rec *rec, struct sbuf *to)              \
	{                                                                            \
		step_at(s + 1, data, put, rec, to);                                  \
	}

STEP(dec_s32, put_sdec(p, (int32_t)load_u32(data + s->off)))
STEP(dec_u64, put_dec(p, load_u64(data + s->off)))
STEP(dec_s64, put_sdec(p, (int64_t)load_u64(data + s->off)))
STEP(hex_u32, put_hex(p, load_u32(data + s->off)))
STEP(hex_u64, put_hex(p, load_u64(data + s->off)))
STEP(hex8_u32, put_hex8(p, load_u32(data + s->off)))
STEP(hex16_u64, put_hex16(p, load_u64(data + s->off)))

STEP(hex_pad_u64, put_hex_pad(p, load_u64(data + s->off), s->width))
STEP(pointer_u64, put_hex(put_mem(p, "0x", 2), load_u64(data + s->off)))

static __attribute__((noinline)) void step_dec_long(const struct pstep *s, const uint8_t *data,
						    char *p, const struct rec *rec, struct sbuf *to)
{
	step_at(s + 1, data, put_dec(p, load_u32(data + s->off)), rec, to);
}

/*
 * Numbers of vCPUs, usually of one digit. What is printed elsewhere must not influence which
 * registers this one saves.
 */
static void step_dec_u32(const struct pstep *s, const uint8_t *data, char *p, const struct rec *rec,
			 struct sbuf *to)
{
	uint32_t v = load_u32(data + s->off);

	if (v < 10) {
		*p = (char)('0' + v);
		step_at(s + 1, data, p + 1, rec, to);
	} else {
		step_dec_long(s, data, p, rec, to);
	}
}

static void step_hex_bytes(const struct pstep *s, const uint8_t *data, char *p,
			   const struct rec *rec, struct sbuf *to)
{
	const struct pnode *n = s->seg->arg;
	const uint8_t *from = data + n->fld.off;
	size_t len = MIN((size_t)data[n->a->off], (size_t)n->fld.size);

	for (size_t i = 0; i < len; i++, p += 3) {
		static const char digit[] = "0123456789abcdef";
		/* Two digits and a blank, least significant byte first. */
		uint32_t text = (uint32_t)digit[from[i] >> 4] | (uint32_t)digit[from[i] & 15] << 8 |
				' ' << 16;

		__builtin_memcpy(p, &text, sizeof(text));
	}
	step_at(s + 1, data, len ? p - 1 : p, rec, to);
}

/* n segments at p; the end of their text. */
static char *print_segments(const struct pseg *s, size_t n, char *p, const struct rec *rec)
{
	while (n--)
		p = plan_segment(s++, rec, p);
	return p;
}

STEP(segment, plan_segment(s->seg, rec, p))

/* ---- texts that depend on few values ---- */

static inline uint64_t memo_key(const struct pmemo_key *k, const uint8_t *data)
{
	return load_u64(data + k->off) & k->mask;
}

static inline struct pmemo_slot *memo_slot(struct pmemo *m, uint64_t a, uint64_t b)
{
	_Static_assert(MEMO_SLOTS == 1 << (64 - 58), "the hash gives a slot");
	return &m->slot[(a + (b << 29 | b >> 35)) * 0x9e3779b97f4a7c15 >> 58];
}

/* A text that is not known yet: from here on it is. */
static __attribute__((noinline)) void memo_miss(const struct pstep *s, const uint8_t *data, char *p,
						const struct rec *rec, struct sbuf *to)
{
	struct pmemo *m = s->memo;
	const uint64_t a = memo_key(&m->key[0], data), b = memo_key(&m->key[1], data);
	struct pmemo_slot *slot = memo_slot(m, a, b);
	char *end = print_segments(m->seg, m->nseg, p, rec);
	size_t n = (size_t)(end - p);

	if (n <= sizeof(slot->text)) {
		*slot = (struct pmemo_slot){ .key = { a, b }, .used = true, .len = (uint8_t)n };
		memcpy(slot->text, p, n);
	}
	step_at(s + 1, data, end, rec, to);
}

static void step_memo(const struct pstep *s, const uint8_t *data, char *p, const struct rec *rec,
		      struct sbuf *to)
{
	const uint64_t a = memo_key(&s->memo->key[0], data), b = memo_key(&s->memo->key[1], data);
	const struct pmemo_slot *slot = memo_slot(s->memo, a, b);

	if (!slot->used || slot->key[0] != a || slot->key[1] != b) {
		memo_miss(s, data, p, rec, to);
		return;
	}
	__builtin_memcpy(p, slot->text, sizeof(slot->text));
	step_at(s + 1, data, p + slot->len, rec, to);
}

/* ---- an event ---- */

bool fmt_is_address(const struct fmt_event *e, const struct fmt_field *fld)
{
	const struct fmt_plan *p = fmt_has_plan(e) ? e->lazy->plan : NULL;

	for (size_t i = 0; p && !fld->is_pointer && fld->size == 8 && i < p->nseg; i++) {
		const struct pnode *n = p->seg[i].arg;

		while (n && n->kind == P_CAST)
			n = n->a;
		if (strchr("xXp", p->seg[i].spec.conv ?: 'd') && n && n->kind == P_FIELD &&
		    n->off == fld->off && n->size == 8)
			return true;
	}
	/* Of markers, whose lines are their text alone. */
	return fld->is_pointer || (fld == fmt_field_at(e, e->ncommon) && !strcmp(e->sys, "ftrace") &&
				   !strcmp(fmt_field_name(e, e->ncommon), "ip"));
}

/*
 * The first event of its kind, one that does not fit its plan, or one for which room must be made.
 */
static __attribute__((noinline)) void print_slow(const struct fmt_event *e, const struct rec *rec,
						 struct sbuf *out)
{
	const struct fmt_plan *p = fmt_has_plan(e) ? e->lazy->plan : NULL;
	const uint8_t *data;
	bool fit = p && rec->len >= e->line.need;
	uint32_t len;
	char *end;

	if (e->is_stack) {
		const struct sbuf *text = fmt_stack_text(e, rec);

		sbuf_add_mem(out, text->s, text->len);
		return;
	}
	if (e->is_printk && fmt_print_printk(e, rec, out))
		return;
	/* All dynamic fields lie inside the record, as the steps expect. */
	for (size_t i = 0; fit && i < p->ndyn; i++)
		fit = fmt_bytes(&p->dyn[i], rec, &data, &len);
	if (!fit) {
		fmt_print_fields(e, rec, out);
		return;
	}
	if (!sbuf_room(out, p->room + p->room_len * rec->len))
		return;
	if (p->nstep <= MAX_STEPS) {
		step_at(p->step, rec->data, out->s + out->len, rec, out);
		return;
	}
	end = print_segments(p->seg, p->nseg, out->s + out->len, rec);
	*end = '\0';
	out->len = (size_t)(end - out->s);
}

void fmt_plan_quick(struct fmt_plan *p, struct fmt_event *e)
{
	struct fmt_line *l = &e->line;
	const struct pstep *s = p->step;

	if (p->ndyn || p->nstep > MAX_STEPS)
		return;
	l->lead_len = l->title_len + s->len;
	p->lead = calloc(1, MAX(l->lead_len, (size_t)FMT_LEAD));
	if (!p->lead)
		return; /* then it is not quick */
	memcpy(put_mem(p->lead, l->title, l->title_len), s->text, s->len);
	l->lead = p->lead;
	l->room = p->room;
	l->room_len = p->room_len;
	l->first = s->print;
	l->step = s;
}

void fmt_print(const struct fmt_event *e, const struct rec *rec, struct sbuf *out)
{
	const struct fmt_line *l = &e->line;

	if (l->step && rec->len >= l->need && sbuf_has_room(out, l->room + l->room_len * rec->len))
		step_at(l->step, rec->data, out->s + out->len, rec, out);
	else
		print_slow(e, rec, out);
}

/*
 * From the segments of a plan to the steps that are gone through for each event, and
 * to the maximum length of a line.
 */

/* ---- how long ---- */

struct room {
	size_t fixed, len; /* fixed + len * length of the record */
};

#define ROOM_NUMBER 32 /* sign, 0x, 22 octal digits */
#define ROOM_BLOCKS \
	(MEMO_TEXT + STEP_TEXT + 2 * PUT_SLACK) /* beyond the end, whole blocks are copied */

/* A text, each piece of which may be padded to width. */
static struct room text_room(const struct pnode *n, size_t width)
{
	struct room r = { ROOM_NUMBER + width, 0 }, other;

	switch (n->kind) {
	case P_TEXT: r.fixed += n->len; break;
	case P_CHARS:
		r.fixed += n->fld.is_dynamic ? 0 : n->fld.size;
		r.len = n->fld.is_dynamic || !n->fld.size;
		break;
	case P_SYMBOL:
		for (size_t i = 0; i < n->nsym; i++)
			r.fixed = MAX(r.fixed, n->sym[i].len + width + ROOM_NUMBER);
		break;
	case P_FLAGS:
		for (size_t i = 0; i < n->nsym; i++)
			r.fixed += n->sym[i].len + width + n->len;
		r.fixed += n->len;
		break;
	case P_HEX: /* "ff " per byte */ r.len = 3; break;
	case P_ARRAY: /* "0xff," per byte */ r.len = 5; break;
	case P_COND:
		r = text_room(n->b, width);
		other = text_room(n->c, width);
		r = (struct room){ MAX(r.fixed, other.fixed), MAX(r.len, other.len) };
		break;
	default: break;
	}
	return r;
}

/* ---- which texts depend only on a few fields ---- */

/* Adds all fields that the expression reads; false if there are others, or they are far apart. */
static bool memo_fields(struct pmemo *m, uint32_t need, const struct pnode *n)
{
	if (!n)
		return true;
	switch (n->kind) {
	case P_FIELD:
		for (struct pmemo_key *k = m->key; k < m->key + ARRAY_SIZE(m->key); k++) {
			if (!k->mask)
				k->off = MIN(n->off, need - sizeof(k->mask));
			if (n->off < k->off || n->off + n->size > k->off + sizeof(k->mask))
				continue;
			memset((uint8_t *)&k->mask + n->off - k->off, 0xff, n->size);
			return true;
		}
		return false;
	case P_CONST:
	case P_TEXT: return true;
	case P_CAST:
	case P_BINARY:
	case P_COND:
	case P_SYMBOL:
	case P_FLAGS:
		return memo_fields(m, need, n->a) && memo_fields(m, need, n->b) &&
		       memo_fields(m, need, n->c);
	default: return false;
	}
}

/* The group that begins at segment i, NULL if there is none. */
static struct pmemo *memo_new(struct fmt_plan *p, size_t i)
{
	struct pmemo_key before[ARRAY_SIZE(p->memos->key)];
	struct pmemo *m;

	/* It begins with a text that has to be looked up. */
	if (p->seg[i].spec.conv != 's' || p->seg[i].arg->kind == P_TEXT ||
	    p->need < sizeof(before->mask))
		return NULL;
	m = xcalloc(1, sizeof(*m));
	m->seg = &p->seg[i];
	/*
	 * Segments follow as long as that is possible. A number must not add fields of its own:
	 * printing is faster than looking it up, and what is remembered would serve only one value.
	 */
	for (; i < p->nseg; i++, m->nseg++) {
		const struct pseg *s = &p->seg[i];

		memcpy(before, m->key, sizeof(before));
		if (s->spec.conv &&
		    (s->star || !memo_fields(m, p->need, s->arg) ||
		     (s->spec.conv != 's' && memcmp(before, m->key, sizeof(before))))) {
			memcpy(m->key, before, sizeof(before));
			break;
		}
	}
	if (!m->nseg || !m->key[0].mask) {
		free(m);
		return NULL;
	}
	m->next = p->memos;
	p->memos = m;
	return m;
}

/* ---- single fields ---- */

/*
 * The field that is printed, maybe as a number of the same size but another sign; NULL: it is
 * something else.
 */
static const struct pnode *plain_field(const struct pnode *n, bool *is_signed)
{
	const struct pnode *field = n->kind == P_CAST && n->size == n->a->size ? n->a : n;

	*is_signed = n->is_signed;
	return field->kind == P_FIELD ? field : NULL;
}

/* The step that prints a field with this specification; NULL if there is none. */
static fmt_step *field_step(const struct pseg *s, const struct pnode *n, bool n_signed)
{
	const struct spec *c = &s->spec;
	bool plain = !c->left && !c->alt && !c->plus && !c->has_prec && !s->star, is_signed;
	unsigned int bytes;

	if (c->conv == 'p' && c->alt && n->size == 8)
		return step_pointer_u64;
	if (!plain || (c->conv != 'd' && c->conv != 'u' && c->conv != 'x'))
		return NULL;
	/* Cut to the low bytes of the field, or extended: only if that does not change its sign. */
	bytes = MIN((unsigned int)n->size, c->bytes);
	is_signed = c->conv == 'd' && (bytes == c->bytes || n_signed);
	if ((bytes < c->bytes && n_signed && c->conv != 'd') || (bytes != 4 && bytes != 8))
		return NULL;
	if (c->conv == 'x') {
		if (!c->width)
			return bytes == 4 ? step_hex_u32 : step_hex_u64;
		if (c->zero && c->width == 2 * bytes)
			return bytes == 4 ? step_hex8_u32 : step_hex16_u64;
		return c->zero && bytes == 8 && c->width <= 16 ? step_hex_pad_u64 : NULL;
	}
	if (c->width)
		return NULL;
	return is_signed ? bytes == 4 ? step_dec_s32 : step_dec_s64
			 : bytes == 4 ? step_dec_u32 : step_dec_u64;
}

/*
 * A fixed array of bytes, as many of them as a field of one byte says: the instruction of
 * kvm_emulate_insn.
 */
static bool is_hex_bytes(const struct pseg *s)
{
	const struct pnode *n = s->arg;

	return s->spec.conv == 's' && !s->star && n->kind == P_HEX && !n->val && n->fld.size &&
	       !n->fld.is_dynamic && n->a->kind == P_FIELD && n->a->size == 1 && !n->a->is_signed;
}

/* ---- all together ---- */

static void lower_value(struct fmt_plan *p, struct pstep *step, size_t *i)
{
	const struct pseg *s = &p->seg[*i];
	const struct pnode *field;
	bool is_signed;

	step->memo = memo_new(p, *i);
	if (step->memo) {
		step->print = step_memo;
		*i += step->memo->nseg;
		return;
	}
	field = s->spec.conv ? plain_field(s->arg, &is_signed) : NULL;
	step->print = field ? field_step(s, field, is_signed) : NULL;
	if (step->print)
		step->off = field->off;
	else
		step->seg = s;
	if (!step->print)
		step->print = s->spec.conv && is_hex_bytes(s) ? step_hex_bytes : step_segment;
	step->width = (uint8_t)s->spec.width;
	++*i;
}

void plan_lower(struct fmt_plan *p)
{
	size_t i = 0;

	p->room = ROOM_BLOCKS;
	for (size_t k = 0; k < p->nseg; k++) {
		const struct spec *c = &p->seg[k].spec;
		size_t width = (size_t)c->width + c->prec + (p->seg[k].star ? PLAN_MAX_WIDTH : 0);
		struct room r = { ROOM_NUMBER + width, 0 };

		if (!c->conv)
			r.fixed = p->seg[k].len;
		else if (c->conv == 's')
			r = text_room(p->seg[k].arg, width);
		p->room += r.fixed;
		p->room_len += r.len;
	}
	for (;;) {
		struct pstep *step = xarray_grow(&p->step, p->nstep, &p->step_cap, sizeof(*step));

		p->nstep++;
		step->print = step_end;
		if (i < p->nseg && !p->seg[i].spec.conv && p->seg[i].len <= STEP_TEXT) {
			step->len = (uint8_t)p->seg[i].len;
			memcpy(step->text, p->seg[i++].text, step->len);
		}
		if (i == p->nseg)
			return;
		lower_value(p, step, &i);
	}
}
