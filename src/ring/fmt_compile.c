/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_compile.c: from libtraceevent's parse of a print format to a plan.
 *
 * The only file that includes event-parse.h. libtraceevent parses; it never sees an event. It was
 * written for formats of the running kernel, so before it gets one from a file the text is
 * rebuilt from fields that were checked, and the print format must pass fmt_check.c. Plugins are
 * switched off: they are code from the user's home directory.
 *
 * Anything this file does not know makes the whole event fall back to name=value pairs.
 */
#include "fmt_plan.h"

#include "fmt_check.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <event-parse.h>

#define MAX_NODES 20000

struct build {
	struct fmt_plan *plan;
	const struct fmt_event *e;
	const struct fmt *f;
	size_t nodes;
	bool failed;
};

/* ---- libtraceevent ---- */

static struct tep_handle *handle(struct fmt *f)
{
	struct tep_handle *tep = f->tep;

	if (tep)
		return tep;
	tep = tep_alloc();
	if (!tep)
		return NULL;
	tep_set_flag(tep, TEP_DISABLE_PLUGINS);
	tep_set_flag(tep, TEP_DISABLE_SYS_PLUGINS);
	tep_set_loglevel(TEP_LOG_NONE); /* what cannot be parsed is not worth a line on stderr */
	tep_set_file_bigendian(tep, f->big_endian ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
	tep_set_local_bigendian(tep, tep_is_bigendian() ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
	tep_set_long_size(tep, (int)f->long_size);
	f->tep = tep;
	return tep;
}

void fmt_plan_close(struct fmt *f)
{
	if (f->tep)
		tep_free(f->tep);
	f->tep = NULL;
}

/* A format that says nothing but what was checked. */
static char *clean_text(const struct fmt_event *e)
{
	struct sbuf b = { 0 };
	size_t i;

	sbuf_addf(&b, "name: %s\nID: %u\nformat:\n", e->name, e->id);
	for (i = 0; i < e->nfld; i++) {
		const struct fmt_field *f = &e->fld[i].f;
		const char *decl = e->fld[i].decl;

		if (i == e->ncommon)
			sbuf_addc(&b, '\n');
		sbuf_addf(&b, "\tfield:%.*s;\toffset:%u;\tsize:%u;\tsigned:%u;\n",
			  (int)e->fld[i].decl_len, decl, f->off, f->size, f->is_signed);
	}
	sbuf_add(&b, "\nprint fmt: ");
	fmt_rewrite(&b, e->print);
	sbuf_addc(&b, '\n');
	return sbuf_take(&b);
}

static struct tep_event *parse(struct fmt *f, const struct fmt_event *e)
{
	struct tep_handle *tep;
	_cleanup_free_ char *text = NULL;
	struct tep_event *ev;

	if (!fmt_print_ok(e) || !(tep = handle(f)))
		return NULL;
	text = clean_text(e);
	if (!text || tep_parse_event(tep, text, strlen(text), e->sys))
		return NULL;
	ev = tep_find_event(tep, e->id);
	if (!ev || strcmp(ev->name, e->name) || ev->id != e->id)
		return NULL;
	if (ev->flags & (int)(TEP_EVENT_FL_FAILED | TEP_EVENT_FL_ISBPRINT))
		return NULL;
	return ev;
}

/* ---- expressions ---- */

static struct pnode *node(struct build *b, enum pkind kind)
{
	struct pnode *n = b->nodes++ < MAX_NODES ? calloc(1, sizeof(*n)) : NULL;

	if (!n) {
		b->failed = true;
		return NULL;
	}
	n->kind = kind;
	n->owned = b->plan->nodes;
	b->plan->nodes = n;
	return n;
}

static struct pnode *fail(struct build *b)
{
	b->failed = true;
	return NULL;
}

static struct pnode *constant(struct build *b, uint64_t v, uint8_t bytes, bool is_signed)
{
	struct pnode *n = node(b, P_CONST);

	if (!n)
		return NULL;
	n->val = v;
	n->type = (struct ptype){ bytes, is_signed };
	return n;
}

static struct pnode *zero(struct build *b)
{
	return constant(b, 0, 4, true);
}

/* Its type is the first of int, long, long long that holds it; unsigned ones if so written. */
static struct pnode *literal_number(struct build *b, const char *text)
{
	bool uns, lng, dec = text[0] != '0';
	uint64_t v;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return fail(b); /* a name whose value only the kernel knows */
	errno = 0;
	v = strtoull(text, &end, 0);
	uns = strpbrk(end, "uU");
	lng = strstr(end, "ll") || strstr(end, "LL") || (strpbrk(end, "lL") && b->f->long_size == 8);
	if (errno || end[strspn(end, "uUlL")])
		return fail(b);
	if (!lng && !uns && v <= INT32_MAX)
		return constant(b, v, 4, true);
	if (!lng && (uns || !dec) && v <= UINT32_MAX)
		return constant(b, v, 4, false);
	return constant(b, v, 8, !uns && v <= INT64_MAX);
}

/* A field by name; dynamic ones are remembered, to be checked for each record. */
static const struct fmt_field *field(struct build *b, const char *name)
{
	const struct fmt_fld *fld = name ? fmt_find_fld(b->e, name, strlen(name)) : NULL;
	struct fmt_field *dyn;

	if (!fld) {
		b->failed = true;
		return NULL;
	}
	if (fld->f.is_dynamic) {
		dyn = array_grow(&b->plan->dyn, b->plan->ndyn, &b->plan->dyn_cap, sizeof(*dyn));
		if (!dyn) {
			b->failed = true;
			return NULL;
		}
		*dyn = fld->f;
		b->plan->ndyn++;
	}
	return &fld->f;
}

static const char *dyn_name(const struct tep_print_arg *arg)
{
	return arg->dynarray.field ? arg->dynarray.field->name : NULL;
}

static enum pop op_code(const char *op)
{
	static const struct {
		const char *text;
		enum pop op;
	} ops[] = {
		{ "|", OP_OR },	  { "||", OP_LOR }, { "&", OP_AND }, { "&&", OP_LAND },
		{ "<<", OP_SHL }, { ">>", OP_SHR }, { "<", OP_LT },  { "<=", OP_LE },
		{ ">", OP_GT },	  { ">=", OP_GE },  { "==", OP_EQ }, { "!=", OP_NE },
		{ "+", OP_ADD },  { "-", OP_SUB },  { "*", OP_MUL }, { "/", OP_DIV },
		{ "%", OP_MOD },  { "!", OP_NOT },  { "~", OP_INV },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (!strcmp(ops[i].text, op))
			return ops[i].op;
	return OP_NONE;
}

static const struct ptype type_int = { 4, true };

/* Smaller ones become int: every value of theirs fits. */
static struct ptype promoted(unsigned int bytes, bool is_signed)
{
	return bytes < 4 ? type_int : (struct ptype){ (uint8_t)bytes, is_signed };
}

/* The usual arithmetic conversions. */
static struct ptype common_type(struct ptype a, struct ptype b)
{
	if (a.bytes != b.bytes)
		return a.bytes > b.bytes ? a : b;
	return (struct ptype){ a.bytes, a.is_signed && b.is_signed };
}

/* Size and sign of a type by its name; false for pointers, typedefs and the like. */
static bool named_type(const struct build *b, const char *type, uint16_t *bytes, bool *is_signed)
{
	uint16_t lng = (uint16_t)b->f->long_size;
	const struct {
		const char *type;
		uint16_t bytes;
		bool is_signed;
	} known[] = {
		{ "u8", 1, false },  { "s8", 1, true },	      { "char", 1, true },
		{ "u16", 2, false }, { "s16", 2, true },      { "short", 2, true },
		{ "u32", 4, false }, { "s32", 4, true },      { "int", 4, true },
		{ "u64", 8, false }, { "s64", 8, true },      { "long long", 8, true },
		{ "bool", 1, false }, { "long", lng, true },  { "long int", lng, true },
		{ "unsigned", 4, false }, { "long long int", 8, true },
		{ "size_t", lng, false }, { "uintptr_t", lng, false }, { "pid_t", 4, true },
	};
	bool uns = str_starts(type, "unsigned ");
	size_t i;

	if (uns)
		type += strlen("unsigned ");
	else if (str_starts(type, "signed "))
		type += strlen("signed ");
	else if (str_starts(type, "__") && (type[2] == 'u' || type[2] == 's'))
		type += 2; /* __u32 */
	for (i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i].type, type))
			continue;
		*bytes = known[i].bytes;
		*is_signed = known[i].is_signed && !uns;
		return true;
	}
	return false;
}

static struct pnode *number(struct build *b, const struct tep_print_arg *arg);

static struct pnode *number_field(struct build *b, const char *name)
{
	const struct fmt_field *f = field(b, name);
	struct pnode *n;

	if (!f)
		return NULL;
	if (f->is_array && !(f->size == 1 || f->size == 2 || f->size == 4 || f->size == 8))
		return zero(b); /* not a number: libtraceevent reads 0 */
	n = node(b, P_FIELD);
	if (!n)
		return NULL;
	n->off = f->off;
	n->size = f->size;
	n->is_signed = f->is_signed;
	n->type = promoted(f->size, f->is_signed);
	return n;
}

static struct pnode *number_element(struct build *b, const struct tep_print_arg *arg)
{
	const struct tep_print_arg *left = arg->op.left;
	const struct fmt_field *f;
	struct pnode *n;

	/* A dynamic array would need its element size, and a cast its pointer type. */
	if (!left || left->type != TEP_PRINT_FIELD)
		return fail(b);
	f = field(b, left->field.name);
	n = node(b, P_ELEMENT);
	if (!f || !n || !f->is_array || f->is_dynamic)
		return fail(b);
	n->fld = *f;
	n->type = promoted(f->elem, f->is_signed);
	n->a = number(b, arg->op.right);
	return n->a ? n : fail(b);
}

/* Types of a binary node whose operands and operator are known. */
static void set_types(struct pnode *n)
{
	static const struct ptype widest = { 8, false };
	struct ptype both = common_type(n->a->type, n->b->type);

	switch (n->op) {
	case OP_NOT:
	case OP_LOR:
	case OP_LAND: /* only whether they are 0 */
		n->in = widest;
		n->type = type_int;
		break;
	case OP_LT:
	case OP_LE:
	case OP_GT:
	case OP_GE:
	case OP_EQ:
	case OP_NE:
		n->in = both;
		n->type = type_int;
		break;
	case OP_SHL:
	case OP_SHR:
		n->in = n->type = n->a->type;
		break;
	default:
		n->in = n->type = both;
	}
}

static struct pnode *number_op(struct build *b, const struct tep_print_arg *arg)
{
	const struct tep_print_arg *alt = arg->op.right;
	bool cond = !strcmp(arg->op.op, "?");
	struct pnode *n;

	if (!strcmp(arg->op.op, "["))
		return number_element(b, arg);
	if (!alt || (cond && (alt->type != TEP_PRINT_OP || strcmp(alt->op.op, ":"))))
		return fail(b);
	n = node(b, cond ? P_COND : P_BINARY);
	if (!n)
		return NULL;
	if (cond) {
		n->a = number(b, arg->op.left);
		n->b = number(b, alt->op.left);
		n->c = number(b, alt->op.right);
		if (!n->a || !n->b || !n->c)
			return fail(b);
		n->type = common_type(n->b->type, n->c->type);
		return n;
	}
	n->op = op_code(arg->op.op);
	n->a = number(b, arg->op.left);
	n->b = number(b, alt);
	if (n->op == OP_NONE || !n->a || !n->b)
		return fail(b);
	set_types(n);
	if (n->a->kind == P_CONST && n->b->kind == P_CONST) {
		if ((n->op == OP_DIV || n->op == OP_MOD) && !n->b->val)
			return fail(b);
		n->val = plan_apply(n->op, n->in, n->a->val, n->b->val);
		n->kind = P_CONST;
	}
	return n;
}

/* in as a number of that size and sign. */
static struct pnode *cast(struct build *b, struct pnode *in, uint16_t bytes, bool is_signed)
{
	struct ptype type = promoted(bytes, is_signed);
	struct pnode *n;

	if (!in)
		return NULL;
	if (in->kind == P_CONST)
		return constant(b, plan_fit(in->val, bytes, is_signed), type.bytes, type.is_signed);
	n = node(b, P_CAST);
	if (!n)
		return NULL;
	n->a = in;
	n->size = bytes;
	n->is_signed = is_signed;
	n->type = type;
	return n;
}

static struct pnode *number_cast(struct build *b, const struct tep_print_arg *arg)
{
	const char *type = arg->typecast.type ? arg->typecast.type : "";
	struct pnode *in = number(b, arg->typecast.item);
	bool is_signed;
	uint16_t bytes;

	if (strchr(type, '*'))
		return cast(b, in, (uint16_t)b->f->long_size, false);
	return named_type(b, type, &bytes, &is_signed) ? cast(b, in, bytes, is_signed) : in;
}

static struct pnode *number(struct build *b, const struct tep_print_arg *arg)
{
	const struct fmt_field *f;
	struct pnode *n;

	if (b->failed || !arg)
		return arg ? NULL : zero(b); /* the left side of a unary operator */
	switch (arg->type) {
	case TEP_PRINT_NULL:
		return zero(b);
	case TEP_PRINT_ATOM:
		return arg->atom.atom ? literal_number(b, arg->atom.atom) : fail(b);
	case TEP_PRINT_FIELD:
		return number_field(b, arg->field.name);
	case TEP_PRINT_TYPE:
		return number_cast(b, arg);
	case TEP_PRINT_OP:
		return number_op(b, arg);
	case TEP_PRINT_DYNAMIC_ARRAY_LEN:
		f = field(b, dyn_name(arg));
		n = node(b, P_DYNLEN);
		if (!f || !n)
			return NULL;
		n->fld = *f;
		n->type = (struct ptype){ 4, false };
		return n;
	default:
		return fail(b);
	}
}

/* ---- texts ---- */

static const struct {
	const char *name;
	int64_t value;
} enum_name[] = { /* names that old kernels left in their formats; libtraceevent knows them too */
	{ "HI_SOFTIRQ", 0 },	   { "TIMER_SOFTIRQ", 1 },   { "NET_TX_SOFTIRQ", 2 },
	{ "NET_RX_SOFTIRQ", 3 },   { "BLOCK_SOFTIRQ", 4 },   { "IRQ_POLL_SOFTIRQ", 5 },
	{ "TASKLET_SOFTIRQ", 6 },  { "SCHED_SOFTIRQ", 7 },   { "HRTIMER_SOFTIRQ", 8 },
	{ "RCU_SOFTIRQ", 9 },	   { "HRTIMER_NORESTART", 0 }, { "HRTIMER_RESTART", 1 },
};

/* False for a name that only the kernel can resolve: no value is known to match it. */
static bool symbol_value(const char *text, int64_t *v)
{
	size_t i;

	if (isdigit((unsigned char)text[text[0] == '-'])) {
		*v = text[0] == '-' ? strtoll(text, NULL, 0) : (int64_t)strtoull(text, NULL, 0);
		return true;
	}
	for (i = 0; i < ARRAY_SIZE(enum_name); i++) {
		if (!strcmp(enum_name[i].name, text)) {
			*v = enum_name[i].value;
			return true;
		}
	}
	return false;
}

static int by_value(const void *a, const void *b)
{
	const struct psym *x = a, *y = b;

	if (x->val != y->val)
		return x->val < y->val ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool add_symbols(struct build *b, struct pnode *n, const struct tep_print_flag_sym *from)
{
	size_t cap = 0;

	for (; from; from = from->next) {
		struct psym *s = NULL;
		int64_t v;

		if (from->value && !strcmp(from->value, FMT_TABLE_END))
			break;
		if (from->value && !symbol_value(from->value, &v))
			continue;

		if (n->nsym < FMT_MAX_SYMS && from->value && from->str)
			s = array_grow(&n->sym, n->nsym, &cap, sizeof(*s));
		if (!s || !(s->str = strdup(from->str)))
			return !(b->failed = true);
		s->len = (uint32_t)strlen(s->str);
		s->val = v;
		s->order = (uint32_t)n->nsym++;
	}
	if (n->kind == P_SYMBOL && n->nsym > 8) {
		qsort(n->sym, n->nsym, sizeof(*n->sym), by_value);
		n->sorted = true;
	}
	return true;
}

static struct pnode *text_table(struct build *b, const struct tep_print_arg *arg)
{
	bool flags = arg->type == TEP_PRINT_FLAGS;
	const char *delim = flags && arg->flags.delim ? arg->flags.delim : "";
	struct pnode *n = node(b, flags ? P_FLAGS : P_SYMBOL);

	if (!n)
		return NULL;
	n->text = strdup(delim);
	n->len = strlen(delim);
	/* The kernel's tables and the value looked up in them are unsigned long. */
	n->a = cast(b, number(b, flags ? arg->flags.field : arg->symbol.field),
		    (uint16_t)b->f->long_size, false);
	if (!n->text || !n->a ||
	    !add_symbols(b, n, flags ? arg->flags.flags : arg->symbol.symbols))
		return fail(b);
	return n;
}

/* The array behind __print_hex() and __print_array(). */
static const struct fmt_field *array_arg(struct build *b, const struct tep_print_arg *arg)
{
	const struct fmt_field *f = NULL;

	if (arg && arg->type == TEP_PRINT_DYNAMIC_ARRAY)
		f = field(b, dyn_name(arg));
	else if (arg && arg->type == TEP_PRINT_FIELD)
		f = field(b, arg->field.name);
	if (!f)
		b->failed = true;
	return f;
}

static struct pnode *text_array(struct build *b, const struct tep_print_arg *arg)
{
	bool ints = arg->type == TEP_PRINT_INT_ARRAY;
	const struct fmt_field *f = array_arg(b, ints ? arg->int_array.field : arg->hex.field);
	struct pnode *n = node(b, ints ? P_ARRAY : P_HEX);

	if (!f || !n)
		return NULL;
	n->fld = *f;
	n->a = number(b, ints ? arg->int_array.count : arg->hex.size);
	if (ints)
		n->b = number(b, arg->int_array.el_size);
	n->val = arg->type == TEP_PRINT_HEX_STR;
	return b->failed ? NULL : n;
}

static struct pnode *text_field(struct build *b, const char *name)
{
	const struct fmt_field *f = field(b, name);
	struct pnode *n;

	if (!f)
		return NULL;
	if (!f->is_array && f->size == b->f->long_size) {
		n = node(b, P_POINTER);
		if (n) {
			n->off = f->off;
			n->size = f->size;
		}
		return n;
	}
	n = f->size ? node(b, P_CHARS) : fail(b);
	if (n)
		n->fld = *f;
	return n;
}

static struct pnode *text(struct build *b, const struct tep_print_arg *arg)
{
	const struct tep_print_arg *alt;
	struct pnode *n;

	if (b->failed || !arg)
		return fail(b);
	switch (arg->type) {
	case TEP_PRINT_ATOM:
		n = arg->atom.atom ? node(b, P_TEXT) : fail(b);
		if (!n || !(n->text = strdup(arg->atom.atom)))
			return fail(b);
		n->len = strlen(n->text);
		return n;
	case TEP_PRINT_TYPE:
		return text(b, arg->typecast.item);
	case TEP_PRINT_FIELD:
		return text_field(b, arg->field.name);
	case TEP_PRINT_STRING:
		return text_field(b, arg->string.string);
	case TEP_PRINT_FLAGS:
	case TEP_PRINT_SYMBOL:
		return text_table(b, arg);
	case TEP_PRINT_HEX:
	case TEP_PRINT_HEX_STR:
	case TEP_PRINT_INT_ARRAY:
		return text_array(b, arg);
	case TEP_PRINT_OP:
		alt = arg->op.right;
		if (strcmp(arg->op.op, "?") || !alt || alt->type != TEP_PRINT_OP)
			return fail(b);
		n = node(b, P_COND);
		if (!n)
			return NULL;
		n->a = number(b, arg->op.left);
		n->b = text(b, alt->op.left);
		n->c = text(b, alt->op.right);
		return b->failed ? NULL : n;
	default:
		return fail(b);
	}
}

/* ---- the format string ---- */

static struct pseg *segment(struct build *b)
{
	struct fmt_plan *p = b->plan;
	struct pseg *s = array_grow(&p->seg, p->nseg, &p->seg_cap, sizeof(*s));

	if (s)
		p->nseg++;
	else
		b->failed = true;
	return s;
}

/* Literal text up to the next conversion; returns its end. */
static const char *literal(struct build *b, const char *f)
{
	static const char zeros[PLAN_PAD];
	struct sbuf t = { 0 };
	struct pseg *s;

	for (; *f && (*f != '%' || f[1] == '%'); f++) {
		if (*f == '\\' && f[1]) {
			f++;
			sbuf_addc(&t, *f == 'n' ? '\n' : *f == 't' ? '\t' : *f == 'r' ? '\r' : *f);
		} else {
			f += *f == '%';
			sbuf_addc(&t, *f);
		}
	}
	s = segment(b);
	if (s) {
		s->len = t.len;
		sbuf_add_mem(&t, zeros, sizeof(zeros));
		s->text = sbuf_take(&t);
		if (s->text)
			str_printable(s->text); /* "\n" in a print format */
		else
			b->failed = true;
	}
	sbuf_free(&t);
	return f;
}

static bool take_width(const char **f, uint16_t *v)
{
	unsigned int n = 0;

	for (; isdigit((unsigned char)**f); (*f)++)
		if ((n = n * 10 + (unsigned int)(**f - '0')) > PLAN_MAX_WIDTH)
			return false;
	*v = (uint16_t)n;
	return true;
}

/* "%" flags width .prec length conversion; false for what is not printed here. */
static bool parse_spec(const char **pf, struct pspec *s, uint32_t long_size)
{
	const char *f = *pf + 1;
	int longs = 0;

	for (; *f && strchr("#0-+", *f); f++) {
		s->alt |= *f == '#';
		s->zero |= *f == '0';
		s->left |= *f == '-';
		s->plus |= *f == '+';
	}
	if (*f == '*') {
		s->star = STAR_WIDTH;
		f++;
	} else if (!take_width(&f, &s->width)) {
		return false;
	}
	if (*f == '.') {
		f++;
		if (*f == '*') {
			if (s->star)
				return false;
			s->star = STAR_PREC;
			f++;
		} else if (s->has_prec = true, !take_width(&f, &s->prec)) {
			return false;
		}
	}
	for (; *f && strchr("hlLzZ", *f); f++)
		longs = *f == 'h' ? longs - 1 : *f == 'l' ? longs + 1 : *f == 'L' ? 2 : 1;
	if (longs < -2 || longs > 2 || !*f || !strchr("cduixXosp", *f))
		return false;
	s->conv = *f == 'i' ? 'd' : *f;
	/* libtraceevent turns %l of a 64-bit kernel into 64 bits, and leaves the machine's long */
	s->bytes = longs == -2 ? 1 : longs == -1 ? 2 : longs == 0 ? 4 :
		   longs == 2 || long_size == 8 ? 8 : (uint8_t)sizeof(long);
	s->simple = strchr("duxX", s->conv) && !s->alt && !s->left && !s->plus && !s->has_prec &&
		    !s->star && (!s->width || (s->zero && s->width <= PLAN_SIMPLE_WIDTH));
	*pf = f + 1;
	return true;
}

/* %p prints an address, %ps and its like a function, which here is only an address too. */
static bool parse_pointer(const char **f, struct pspec *s)
{
	s->alt = **f && strchr("sSfF", **f);
	if (s->alt)
		(*f)++;
	else if (isalpha((unsigned char)**f))
		return false; /* %pI4, %pM, %ph ...: not printed here */
	return !s->star;
}

static const char *conversion(struct build *b, const char *f, const struct tep_print_arg **arg)
{
	struct pseg *s = segment(b);

	if (!s || !parse_spec(&f, &s->spec, b->f->long_size) ||
	    (s->spec.conv == 'p' && !parse_pointer(&f, &s->spec))) {
		b->failed = true;
		return f;
	}
	if (s->spec.star) {
		s->star = *arg ? number(b, *arg) : NULL;
		*arg = *arg ? (*arg)->next : NULL;
	}
	if (!*arg || (s->spec.star && !s->star)) {
		b->failed = true;
		return f;
	}
	s = &b->plan->seg[b->plan->nseg - 1];
	s->arg = s->spec.conv == 's' ? text(b, *arg) : number(b, *arg);
	if (!s->arg)
		b->failed = true;
	*arg = (*arg)->next;
	return f;
}

struct fmt_plan *fmt_plan_new(struct fmt *f, const struct fmt_event *e)
{
	struct build b = { .e = e, .f = f };
	const struct tep_event *ev = parse(f, e);
	const struct tep_print_arg *arg;
	const char *p;

	if (!ev || !ev->print_fmt.format)
		return NULL;
	b.plan = calloc(1, sizeof(*b.plan));
	if (!b.plan)
		return NULL;
	arg = ev->print_fmt.args;
	for (p = ev->print_fmt.format; *p && !b.failed; )
		p = *p == '%' && p[1] != '%' ? conversion(&b, p, &arg) : literal(&b, p);
	if (b.failed) {
		fmt_plan_free(b.plan);
		return NULL;
	}
	return b.plan;
}
