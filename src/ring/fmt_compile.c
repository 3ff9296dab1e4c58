/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_compile.c: from libtraceevent's parse of a print format to a plan.
 *
 * Only this file sees event-parse.h. libtraceevent parses; it never sees an event. What it gets is
 * written from fields that were checked and by fmt_safe.c. Plugins are switched off: they are code
 * from the user's home directory.
 *
 * Its own printing, tep_print_event(), is what tests compare with, and no more: its eval_num_arg()
 * computes all in long long and reads where a record's lengths point, past its end as well.
 *
 * Anything this file does not know makes the whole event fall back to name=value pairs.
 */
#include <ctype.h>
#include <event-parse.h>

#include "fmt_plan.h"

/* Nothing here returns NULL: failed alone says what went wrong. */
struct build {
	struct fmt_plan *plan;
	const struct fmt_event *e;
	const struct fmt *f;
	size_t nodes;
	bool failed;	    /* the plan is given up */
	struct pnode spare; /* what then stands in for every node */
};

typedef struct pnode *build_fn(struct build *b, const struct tep_print_arg *arg);

/* ---- numbers, with the types and conversions of C ---- */

#define MAX_NODES 20000

/* The argument as a number; a missing one (the left side of a unary operator) is 0. */
static build_fn build_number;

static struct pnode *build_fail(struct build *b)
{
	b->failed = true;
	return &b->spare;
}

/* A new node, owned by the plan. */
static struct pnode *build_node(struct build *b, enum pkind kind)
{
	struct pnode *n = !b->failed && b->nodes++ < MAX_NODES ? calloc(1, sizeof(*n)) : NULL;

	if (!n)
		return build_fail(b);
	n->kind = kind;
	n->owned = b->plan->nodes;
	b->plan->nodes = n;
	return n;
}

static const struct ptype type_int = { 4, true };

static struct pnode *constant(struct build *b, uint64_t v, struct ptype type)
{
	struct pnode *n = build_node(b, P_CONST);

	n->val = v;
	n->type = type;
	return n;
}

/* Its type is the first of int, long, long long that can hold it; unsigned ones if so written. */
static struct pnode *literal_number(struct build *b, const char *text)
{
	bool uns, lng, dec = text[0] != '0';
	uint64_t v;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return build_fail(b); /* a name whose value only the kernel knows */
	errno = 0;
	v = strtoull(text, &end, 0);
	uns = strpbrk(end, "uU");
	lng = strstr(end, "ll") || strstr(end, "LL") ||
	      (strpbrk(end, "lL") && b->f->long_size == 8);
	if (errno || end[strspn(end, "uUlL")])
		return build_fail(b);
	if (!lng && !uns && v <= INT32_MAX)
		return constant(b, v, type_int);
	if (!lng && (uns || !dec) && v <= UINT32_MAX)
		return constant(b, v, (struct ptype){ 4, false });
	return constant(b, v, (struct ptype){ 8, !uns && v <= INT64_MAX });
}

/* Smaller ones become int, which can hold all their values. */
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
		{ "u8", 1, false },	  { "s8", 1, true },
		{ "char", 1, true },	  { "bool", 1, false },
		{ "u16", 2, false },	  { "s16", 2, true },
		{ "short", 2, true },	  { "pid_t", 4, true },
		{ "u32", 4, false },	  { "s32", 4, true },
		{ "int", 4, true },	  { "unsigned", 4, false },
		{ "u64", 8, false },	  { "s64", 8, true },
		{ "long long", 8, true }, { "long long int", 8, true },
		{ "long", lng, true },	  { "long int", lng, true },
		{ "size_t", lng, false }, { "uintptr_t", lng, false },
	};
	bool uns = str_starts(type, "unsigned ");
	size_t i;

	if (uns)
		type += strlen("unsigned ");
	else if (str_starts(type, "signed "))
		type += strlen("signed ");
	else if (str_starts(type, "__") && (type[2] == 'u' || type[2] == 's'))
		type += 2; /* __u32 */
	for (i = 0; i < ARRAY_SIZE(known) && strcmp(known[i].type, type); i++)
		;
	if (i == ARRAY_SIZE(known))
		return false;
	*bytes = known[i].bytes;
	*is_signed = known[i].is_signed && !uns;
	return true;
}

static struct pnode *build_field(struct build *b, enum pkind kind, const char *name)
{
	const struct fmt_fld *fld = name ? fmt_find_fld(b->e, name, strlen(name)) : NULL;
	struct pnode *n = fld ? build_node(b, kind) : build_fail(b);
	struct fmt_field *dyn;

	if (b->failed)
		return n;
	n->fld = fld->f;
	n->off = fld->f.off;
	n->size = fld->f.size;
	n->is_signed = fld->f.is_signed;
	if (!fld->f.is_dynamic)
		return n;
	dyn = array_grow(&b->plan->dyn, b->plan->ndyn, &b->plan->dyn_cap, sizeof(*dyn));
	if (!dyn)
		return build_fail(b);
	*dyn = fld->f;
	b->plan->ndyn++;
	return n;
}

/* A node about a field; dynamic ones are remembered, to be checked for each record. */
static const char *build_dyn_name(const struct tep_print_arg *arg)
{
	return arg->dynarray.field ? arg->dynarray.field->name : NULL;
}

static struct pnode *number_field(struct build *b, const char *name)
{
	struct pnode *n = build_field(b, P_FIELD, name);

	if (!fmt_is_number(n->size))
		n->kind = P_CONST; /* 0, as libtraceevent reads it */
	n->type = n->kind == P_CONST ? type_int : promoted(n->size, n->is_signed);
	return n;
}

static struct pnode *number_element(struct build *b, const struct tep_print_arg *arg)
{
	const struct tep_print_arg *left = arg->op.left;
	struct pnode *n;

	/* A dynamic array would need its element size, and a cast its pointer type. */
	if (left->type != TEP_PRINT_FIELD)
		return build_fail(b);
	n = build_field(b, P_ELEMENT, left->field.name);
	if (!n->fld.is_array || n->fld.is_dynamic)
		return build_fail(b);
	if (!fmt_is_number(n->fld.elem))
		return constant(b, 0, type_int);
	n->type = promoted(n->fld.elem, n->is_signed);
	n->a = build_number(b, arg->op.right);
	return n;
}

/* Types of a binary node whose operands and operator are known. */
static void set_types(struct pnode *n)
{
	bool shift = n->op == OP_SHL || n->op == OP_SHR;
	bool logic =
		n->op == OP_NOT || n->op == OP_LOR || n->op == OP_LAND; /* of whether it is 0 */
	bool compare = !shift && strchr("<>=!", (char)(n->op >> 8));

	n->in = logic ? (struct ptype){ 8, false } :
		shift ? n->a->type : common_type(n->a->type, n->b->type);
	n->type = logic || compare ? type_int : n->in;
}

/* "?", whose branches are numbers or texts */
static struct pnode *build_cond(struct build *b, const struct tep_print_arg *arg, build_fn *branch)
{
	const struct tep_print_arg *alt = arg->op.right;
	bool ok = alt && alt->type == TEP_PRINT_OP;
	struct pnode *n = ok ? build_node(b, P_COND) : build_fail(b);

	if (b->failed)
		return n;
	n->a = build_number(b, arg->op.left);
	n->b = branch(b, alt->op.left);
	n->c = branch(b, alt->op.right);
	n->type = common_type(n->b->type, n->c->type);
	return n;
}

static struct pnode *number_op(struct build *b, const struct tep_print_arg *arg)
{
	const char *op = arg->op.op;
	struct pnode *n;

	if (*op == '[')
		return number_element(b, arg);
	if (*op == '?')
		return build_cond(b, arg, build_number);
	n = build_node(b, P_BINARY);
	n->op = (enum pop)OP(op[0], op[1]);
	n->a = build_number(b, arg->op.left);
	n->b = build_number(b, arg->op.right);
	set_types(n);
	if (b->failed || n->a->kind != P_CONST || n->b->kind != P_CONST)
		return n;
	if ((n->op == OP_DIV || n->op == OP_MOD) && !n->b->val)
		return build_fail(b);
	n->val = plan_apply(n->op, n->in, n->a->val, n->b->val);
	n->kind = P_CONST;
	return n;
}

/* `in` as a number of that size and sign */
static struct pnode *build_cast(struct build *b, struct pnode *in, uint16_t bytes, bool is_signed)
{
	struct ptype type = promoted(bytes, is_signed);
	struct pnode *n;

	if (in->kind == P_CONST)
		return constant(b, plan_fit(in->val, bytes, is_signed), type);
	n = build_node(b, P_CAST);
	n->a = in;
	n->size = bytes;
	n->is_signed = is_signed;
	n->type = type;
	return n;
}

static struct pnode *number_cast(struct build *b, const struct tep_print_arg *arg)
{
	struct pnode *in = build_number(b, arg->typecast.item);
	const char *type = arg->typecast.type;
	bool is_signed;
	uint16_t bytes;

	if (strchr(type, '*'))
		return build_cast(b, in, (uint16_t)b->f->long_size, false);
	return named_type(b, type, &bytes, &is_signed) ? build_cast(b, in, bytes, is_signed) : in;
}

static struct pnode *build_number(struct build *b, const struct tep_print_arg *arg)
{
	struct pnode *n;

	if (b->failed || !arg)
		return build_fail(b);
	switch (arg->type) {
	case TEP_PRINT_NULL: /* the left side of a unary operator */
		return constant(b, 0, type_int);
	case TEP_PRINT_ATOM:
		return literal_number(b, arg->atom.atom);
	case TEP_PRINT_FIELD:
		return number_field(b, arg->field.name);
	case TEP_PRINT_TYPE:
		return number_cast(b, arg);
	case TEP_PRINT_OP:
		return number_op(b, arg);
	case TEP_PRINT_DYNAMIC_ARRAY_LEN:
		n = build_field(b, P_DYNLEN, build_dyn_name(arg));
		n->type = (struct ptype){ 4, false };
		return n;
	default:
		return build_fail(b);
	}
}

/*
 * What %s prints in a print format, as nodes of a plan: fields, names, arrays.
 */

/*
 * Names that kernels leave in their formats; libtraceevent knows some of them, but its eval_flag()
 * is not exported.
 */
static const struct {
	const char *name;
	int64_t val;
} known[] = {
	{ "HI_SOFTIRQ", 0 }, { "TIMER_SOFTIRQ", 1 }, { "NET_TX_SOFTIRQ", 2 },
	{ "NET_RX_SOFTIRQ", 3 }, { "BLOCK_SOFTIRQ", 4 }, { "IRQ_POLL_SOFTIRQ", 5 },
	{ "TASKLET_SOFTIRQ", 6 }, { "SCHED_SOFTIRQ", 7 }, { "HRTIMER_SOFTIRQ", 8 },
	{ "RCU_SOFTIRQ", 9 }, { "HRTIMER_NORESTART", 0 }, { "HRTIMER_RESTART", 1 },
	/* the clock of a KVM host, until 5.5 and since */
	{ "VCLOCK_NONE", 0 }, { "VCLOCK_TSC", 1 },
	{ "VDSO_CLOCKMODE_NONE", 0 }, { "VDSO_CLOCKMODE_TSC", 1 },
};

/* False for a name that only the kernel can resolve: no value is known to match it. */
static bool symbol_value(const char *text, int64_t *v)
{
	if (isdigit((unsigned char)text[text[0] == '-'])) {
		*v = text[0] == '-' ? strtoll(text, NULL, 0) : (int64_t)strtoull(text, NULL, 0);
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i].name, text))
			continue;
		*v = known[i].val;
		return true;
	}
	return false;
}

static int by_value(const void *a, const void *b)
{
	const struct psym *x = a, *y = b;

	return ORDER(x->val, y->val) ?: ORDER(x->order, y->order);
}

/* Names stay in the order of the text if all of them count, else they are sorted by value. */
static void add_names(struct build *b, struct pnode *n, const struct tep_print_flag_sym *from)
{
	size_t cap = 0;

	for (; from && !b->failed; from = from->next) {
		struct psym *s;
		int64_t v;

		if (!symbol_value(from->value, &v))
			continue;
		s = n->nsym < FMT_MAX_SYMS ? array_grow(&n->sym, n->nsym, &cap, sizeof(*s)) : NULL;
		if (!s) {
			b->failed = true;
			return;
		}
		*s = (struct psym){ v, from->str, (uint32_t)strlen(from->str),
				    (uint32_t)n->nsym++ };
	}
	if (n->kind == P_SYMBOL && n->nsym)
		qsort(n->sym, n->nsym, sizeof(*n->sym), by_value);
}

static struct pnode *text_names(struct build *b, const struct tep_print_arg *arg)
{
	bool flags = arg->type == TEP_PRINT_FLAGS;
	struct pnode *n = build_node(b, flags ? P_FLAGS : P_SYMBOL);

	n->text = flags && arg->flags.delim ? arg->flags.delim : "";
	n->len = strlen(n->text);
	/* The kernel's tables and the value looked up in them are unsigned long. */
	n->a = build_cast(b, build_number(b, flags ? arg->flags.field : arg->symbol.field),
			  (uint16_t)b->f->long_size, false);
	add_names(b, n, flags ? arg->flags.flags : arg->symbol.symbols);
	return n;
}

/* __print_hex() and __print_array() */
static struct pnode *text_array(struct build *b, const struct tep_print_arg *arg)
{
	bool ints = arg->type == TEP_PRINT_INT_ARRAY;
	const struct tep_print_arg *from = ints ? arg->int_array.field : arg->hex.field;
	bool dynamic = from->type == TEP_PRINT_DYNAMIC_ARRAY;
	struct pnode *n;

	if (!dynamic && from->type != TEP_PRINT_FIELD)
		return build_fail(b);
	n = build_field(b, ints ? P_ARRAY : P_HEX,
			dynamic ? build_dyn_name(from) : from->field.name);
	n->a = build_number(b, ints ? arg->int_array.count : arg->hex.size);
	if (ints)
		n->b = build_number(b, arg->int_array.el_size);
	n->val = arg->type == TEP_PRINT_HEX_STR;
	return n;
}

static struct pnode *text_field(struct build *b, const char *name)
{
	struct pnode *n = build_field(b, P_CHARS, name);

	if (!n->fld.is_array && n->size == b->f->long_size)
		n->kind = P_POINTER;
	return n->size || n->fld.is_array ? n : build_fail(b);
}

static struct pnode *build_text(struct build *b, const struct tep_print_arg *arg)
{
	struct pnode *n;

	if (b->failed || !arg)
		return build_fail(b);
	switch (arg->type) {
	case TEP_PRINT_ATOM:
		n = build_node(b, P_TEXT);
		n->text = arg->atom.atom;
		n->len = strlen(n->text);
		return n;
	case TEP_PRINT_TYPE:
		return build_text(b, arg->typecast.item);
	case TEP_PRINT_FIELD:
		return text_field(b, arg->field.name);
	case TEP_PRINT_STRING:
		return text_field(b, arg->string.string);
	case TEP_PRINT_FLAGS:
	case TEP_PRINT_SYMBOL:
		return text_names(b, arg);
	case TEP_PRINT_HEX:
	case TEP_PRINT_HEX_STR:
	case TEP_PRINT_INT_ARRAY:
		return text_array(b, arg);
	case TEP_PRINT_OP:
		return *arg->op.op == '?' ? build_cond(b, arg, build_text) : build_fail(b);
	default:
		return build_fail(b);
	}
}

/* ---- libtraceevent ---- */

static struct tep_handle *handle(struct fmt *f)
{
	struct tep_handle *tep = f->tep ?: tep_alloc();

	if (f->tep || !tep)
		return tep;
	tep_set_flag(tep, TEP_DISABLE_PLUGINS | TEP_DISABLE_SYS_PLUGINS);
	tep_set_loglevel(TEP_LOG_NONE); /* what cannot be parsed is not worth a line on stderr */
	f->tep = tep;
	return tep;
}

void fmt_plan_close(struct fmt *f)
{
	if (f->tep)
		tep_free(f->tep);
	f->tep = NULL;
}

/* A format with nothing but what was checked; NULL if it must not be handed over. */
static char *safe_format(const struct fmt_event *e, const char *table_at, int id)
{
	struct sbuf b = { 0 };
	size_t i;

	sbuf_addf(&b, "name: %s\nID: %d\nformat:\n", e->name, id);
	for (i = 0; i < e->nfld; i++) {
		const struct fmt_fld *fld = &e->fld[i];

		sbuf_addf(&b, "%s\tfield:%.*s;\toffset:%u;\tsize:%u;\tsigned:%u;\n",
			  i == e->ncommon ? "\n" : "", (int)fld->decl_len, fld->decl, fld->f.off,
			  fld->f.size, fld->f.is_signed);
	}
	sbuf_add(&b, "\nprint fmt: ");
	if (!fmt_safe(e, table_at, &b)) {
		sbuf_free(&b);
		return NULL;
	}
	sbuf_addc(&b, '\n');
	return sbuf_take(&b);
}

/* libtraceevent's parse, kept until fmt_plan_close(). */
static const struct tep_event *parse(struct fmt *f, const struct fmt_event *e, const char *table_at)
{
	struct tep_handle *tep = handle(f);
	int id = tep ? tep_get_events_count(tep) + 1 : 0; /* a text may be parsed more than once */
	_cleanup_free_ char *text = id ? safe_format(e, table_at, id) : NULL;
	struct tep_event *ev;

	if (!text || tep_parse_event(tep, text, strlen(text), e->sys))
		return NULL;
	ev = tep_find_event(tep, id);
	return ev && !(ev->flags & (int)(TEP_EVENT_FL_FAILED | TEP_EVENT_FL_ISBPRINT)) ? ev : NULL;
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

/* An event is one line: tabs and line ends of its format are blanks there. */
static void one_line(struct sbuf *t, bool last)
{
	while (last && t->len && t->s[t->len - 1] == '\n')
		t->len--;
	for (size_t i = 0; i < t->len; i++)
		if (isspace((unsigned char)t->s[i]))
			t->s[i] = ' ';
}

/* Literal text up to the next conversion; returns its end. */
static const char *literal(struct build *b, const char *f)
{
	static const char zeros[PUT_SLACK];
	_cleanup_(sbuf_free) struct sbuf t = { 0 };
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
	one_line(&t, !*f);
	s = segment(b);
	if (s) {
		s->len = t.len;
		sbuf_add_mem(&t, zeros, sizeof(zeros));
		s->text = sbuf_take(&t);
		if (s->text)
			str_printable(s->text);
		else
			b->failed = true;
	}
	return f;
}

static bool take_width(const char **f, uint16_t *v)
{
	uint64_t n = 0;

	if (isdigit((unsigned char)**f) && !take_u64(f, PLAN_MAX_WIDTH, &n))
		return false;
	*v = (uint16_t)n;
	return true;
}

/* "%" flags width .prec length conversion; false for those not printed here. */
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
	*pf = f + 1;
	return true;
}

/* %p prints an address, %ps and the like a function, which is only an address here, too. */
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
		s->star = build_number(b, *arg);
		*arg = *arg ? (*arg)->next : NULL;
	}
	s->arg = s->spec.conv == 's' ? build_text(b, *arg) : build_number(b, *arg);
	*arg = *arg ? (*arg)->next : NULL;
	return f;
}

struct fmt_plan *fmt_plan_new(struct fmt *f, const struct fmt_event *e, const char *table_at)
{
	struct build b = { .e = e, .f = f };
	const struct tep_event *ev = parse(f, e, table_at);
	const struct tep_print_arg *arg;
	const char *p;

	if (!ev || !ev->print_fmt.format)
		return NULL;
	b.plan = calloc(1, sizeof(*b.plan));
	if (!b.plan)
		return NULL;
	b.plan->need = e->line.need;
	arg = ev->print_fmt.args;
	for (p = ev->print_fmt.format; *p && !b.failed; )
		p = *p == '%' && p[1] != '%' ? conversion(&b, p, &arg) : literal(&b, p);
	if (b.failed || !plan_lower(b.plan)) {
		fmt_plan_free(b.plan);
		return NULL;
	}
	return b.plan;
}

/*
 * The __print_symbolic() tables of a print format, for names of exit reasons.
 *
 *   (REC->isa == 1) ? __print_symbolic(REC->exit_reason & 0xffff, { 0, "EXCEPTION_NMI" }, ...)
 *                   : __print_symbolic(REC->exit_reason, { 0x000, "read_cr0" }, ...)
 *
 * Each is a plan of its own, so that the names survive a print format newer than libtraceevent:
 * tep_parse_event() throws away all arguments when it does not know one.
 */

#define MAX_TABLES 32 /* tried: libtraceevent keeps what it parses, good or not */

/* The first field in an expression. */
static const struct pnode *first_field(const struct pnode *n)
{
	const struct pnode *found;

	if (!n || n->kind == P_FIELD)
		return n;
	found = first_field(n->a);
	found = found ?: first_field(n->b);
	return found ?: first_field(n->c);
}

int fmt_read_symbols(const struct fmt_event *e)
{
	struct fmt_lazy *lazy = e->lazy;
	const char *p = e->print, *end = p ? p + strlen(p) : NULL;
	struct fmt_plan **slot;
	unsigned int tried = 0;

	lazy->tab_tried = true;
	while (p < end && tried < MAX_TABLES) {
		if (*p == '"') {
			p = str_quoted_end(p, end);
			continue;
		}
		if (*p == '_' && str_starts(p, "__print_symbolic(")) {
			slot = array_grow(&lazy->tab, lazy->ntab, &lazy->tab_cap, sizeof(*slot));
			if (!slot)
				return -ENOMEM;
			errno = 0; /* libtraceevent does not tell why it failed */
			*slot = fmt_plan_new(lazy->f, e, p);
			if (!*slot && errno == ENOMEM)
				return -ENOMEM;
			lazy->ntab += *slot != NULL;
			tried++;
		}
		p++;
	}
	return 0;
}

const char *fmt_symbol(const struct fmt_event *e, const char *field, unsigned int nth,
		       uint64_t value)
{
	struct fmt_lazy *lazy = e->lazy;
	struct fmt_field fld;
	const struct psym *s;

	if (!fmt_field(e, field, &fld))
		return NULL;
	if (!lazy->tab_tried)
		(void)!fmt_read_symbols(e);
	for (size_t i = 0; i < lazy->ntab; i++) {
		const struct pnode *n = lazy->tab[i]->seg->arg, *of = first_field(n->a);

		if (!of || of->off != fld.off || nth--)
			continue;
		/* Of a field of 4 bytes, { -1, "X" } and { 0xffffffff, "X" } are the same. */
		if (fld.size == 4)
			value = (uint32_t)value;
		s = plan_symbol(n, (int64_t)value);
		if (!s && fld.size == 4)
			s = plan_symbol(n, (int32_t)value);
		return s ? s->str : NULL;
	}
	return NULL;
}

void fmt_free_symbols(struct fmt_lazy *lazy)
{
	for (size_t i = 0; i < lazy->ntab; i++)
		fmt_plan_free(lazy->tab[i]);
	free(lazy->tab);
}
