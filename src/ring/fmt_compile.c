/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_compile.c: from the text of a print format, of any file, to a plan.
 *
 *   print   := STRING+ { "," arg } end of line
 *   arg     := number, or text where the format string has %s
 *   number  := binary [ "?" number ":" number ]
 *   binary  := unary { OPERATOR unary }, grouped as in C
 *   unary   := ( "!" | "~" | "-" | CAST ) unary | primary
 *   primary := NUMBER | "REC->" FIELD [ "[" number "]" ] | "(" number ")" | call
 *   text    := binary "?" text ":" text | { CAST } ( STRING+ | "REC->" FIELD | "(" text ")" | call )
 *   call    := __print_symbolic(number, { number, STRING } ...), and so on
 *
 * Not libtraceevent: its parser was written for formats of the running kernel. On others it may
 * crash or lose memory (1.7.1: "1 / 0", an array element after a ':'), and its tree is not always
 * what C means: it groups a - b - c from the right. What its tep_print_event() prints is what tests
 * compare with. Recursion is bounded, and every FIELD must exist. What does not match prints as
 * name=value pairs.
 */
#include <ctype.h>

#include "fmt_plan.h"

#define MAX_DEPTH 48
#define MAX_OPS	  1500

/* Nothing here returns NULL: failed alone says what went wrong. */
struct build {
	struct fmt_plan *plan;
	const struct fmt_event *e;
	struct fmt *f;
	const char *p; /* what is read next */
	unsigned int depth, ops;
	bool wide;	    /* in a table of names, where all numbers have 64 bits */
	bool failed;	    /* the format is not understood */
	struct pnode spare; /* what then stands in for every node */
};

static struct pnode *parse_number(struct build *b);

static struct pnode *build_fail(struct build *b)
{
	b->failed = true;
	return &b->spare;
}

/* A new node, owned by the plan. */
static struct pnode *build_node(struct build *b, enum pkind kind)
{
	struct pnode *n;

	if (b->failed)
		return &b->spare;
	n = xcalloc(1, sizeof(*n));
	n->kind = kind;
	n->owned = b->plan->nodes;
	b->plan->nodes = n;
	return n;
}

/* ---- words ---- */

static char parse_next(struct build *b)
{
	b->p += strspn(b->p, " \t");
	return *b->p;
}

static bool parse_take(struct build *b, char want)
{
	bool there = parse_next(b) == want;

	b->p += there;
	return there;
}

static void parse_need(struct build *b, char want)
{
	if (!parse_take(b, want))
		build_fail(b);
}

static size_t name_len(const char *p)
{
	size_t n = 0;

	if (isdigit((unsigned char)*p))
		return 0;
	while (isalnum((unsigned char)p[n]) || p[n] == '_')
		n++;
	return n;
}

static bool take_field(struct build *b)
{
	bool there = (parse_next(b), str_starts(b->p, "REC->"));

	b->p += there ? strlen("REC->") : 0;
	return there;
}

/* The name of a function, and what opens its arguments. */
static bool take_call(struct build *b, const char *name)
{
	size_t n = (parse_next(b), name_len(b->p));

	if (n != strlen(name) || memcmp(b->p, name, n))
		return false;
	b->p += n;
	parse_need(b, '(');
	return true;
}

/* A text that ends after the last argument is taken as closed. */
static void call_end(struct build *b)
{
	if (!parse_take(b, ')') && *b->p && *b->p != '\n')
		build_fail(b);
}

/* STRING+: what is between the quotes, escapes as they are; it lives as long as b->f. */
static const char *parse_strings(struct build *b, size_t *len)
{
	_cleanup_(sbuf_free) struct sbuf t = { 0 };
	const char *end = b->p + strcspn(b->p, "\n"), *close = b->p;
	unsigned int n;

	for (n = 0; parse_next(b) == '"' && close <= end && n < 64; n++) {
		close = str_quoted_end(b->p, end + 1);
		if (close <= end)
			sbuf_add_mem(&t, b->p + 1, (size_t)(close - b->p) - 2);
		b->p = MIN(close, end);
	}
	if (!n || n == 64 || close > end)
		build_fail(b);
	*len = b->failed ? 0 : t.len;
	return b->failed ? "" : fmt_name_copy(b->f, xsbuf_text(&t), t.len);
}

/*
 * "(unsigned long long)": names, blanks and trailing stars, and something after it. Its words, with
 * a blank between them.
 */
static bool take_cast(struct build *b, char type[64])
{
	const char *p = b->p;
	size_t n, len = 0, names = 0;

	if (parse_next(b) != '(')
		return false;
	for (p = b->p + 1; p += strspn(p, " "), (n = name_len(p)); p += n, names++) {
		if (len + n > 60)
			return false;
		len += (size_t)sprintf(type + len, "%s%.*s", names ? " " : "", (int)n, p);
	}
	n = strspn(p, " *");
	if (!names || names > 6 || p[n] != ')')
		return false;
	strcpy(type + len, memchr(p, '*', n) ? "*" : "");
	p += n + 1;
	n = strspn(p, " ");
	if (p[n] != '(' && p[n] != '"' && p[n] != '_' && !isalnum((unsigned char)p[n]))
		return false;
	b->p = p;
	return true;
}

/* ---- numbers, with the types and conversions of C ---- */

static const struct ptype type_int = { 4, true };

static struct pnode *node_constant(struct build *b, uint64_t v, struct ptype type)
{
	struct pnode *n = build_node(b, P_CONST);

	n->val = v;
	n->type = type;
	return n;
}

/* Its type is the first of int, long, long long that can hold it; unsigned ones if so written. */
static struct pnode *literal_number(struct build *b)
{
	bool dec = *b->p != '0', uns = false;
	unsigned int longs = 0;
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(b->p, &end, 0);
	for (; *end && strchr("uUlL", *end); end++) {
		uns |= *end == 'u' || *end == 'U';
		longs += *end == 'l' || *end == 'L';
	}
	if (errno || name_len(end))
		return build_fail(b);
	b->p = end;
	if (b->wide)
		return node_constant(b, v, (struct ptype){ 8, true });
	if (longs < 2 && !(longs && b->f->long_size == 8)) {
		if (!uns && v <= INT32_MAX)
			return node_constant(b, v, type_int);
		if ((uns || !dec) && v <= UINT32_MAX)
			return node_constant(b, v, (struct ptype){ 4, false });
	}
	return node_constant(b, v, (struct ptype){ 8, !uns && v <= INT64_MAX });
}

/* Smaller ones become int, which can hold all their values. */
static struct ptype type_promoted(unsigned int bytes, bool is_signed)
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

/*
 * A node about the field whose name is next; dynamic ones are remembered, to be checked for each
 * record.
 */
static struct pnode *build_field(struct build *b, enum pkind kind)
{
	size_t len = (parse_next(b), name_len(b->p));
	const struct fmt_fld *fld = len ? fmt_find_fld(b->e, b->p, len) : NULL;
	struct fmt_plan *p = b->plan;
	struct pnode *n = fld ? build_node(b, kind) : build_fail(b);

	if (b->failed)
		return n;
	b->p += len;
	n->fld = fld->f;
	n->off = fld->f.off;
	n->size = fld->f.size;
	n->is_signed = fld->f.is_signed;
	if (fld->f.is_dynamic)
		xarray_add(&p->dyn, &p->ndyn, &p->dyn_cap, &fld->f, sizeof(fld->f));
	return n;
}

static struct pnode *number_field(struct build *b)
{
	struct pnode *n = build_field(b, P_FIELD);

	if (parse_take(b, '[')) {
		/* A dynamic array would need its element size, and a cast its pointer type. */
		if (!n->fld.is_array || n->fld.is_dynamic)
			return build_fail(b);
		n->kind = P_ELEMENT;
		n->type = type_promoted(n->fld.elem, n->is_signed);
		n->a = parse_number(b);
		parse_need(b, ']');
		return fmt_is_number(n->fld.elem) ? n : node_constant(b, 0, type_int);
	}
	if (!fmt_is_number(n->size))
		n->kind = P_CONST; /* 0, as libtraceevent reads it */
	n->type = n->kind == P_CONST ? type_int : type_promoted(n->size, n->is_signed);
	return n;
}

static struct pnode *number_primary(struct build *b)
{
	struct pnode *n;

	if (isdigit((unsigned char)parse_next(b)))
		return literal_number(b);
	if (take_field(b))
		return number_field(b);
	if (parse_take(b, '(')) {
		n = parse_number(b);
		parse_need(b, ')');
	} else if (take_call(b, "__builtin_expect")) {
		n = parse_number(b);
		parse_need(b, ',');
		parse_number(b);
		call_end(b);
	} else if (take_call(b, "__get_dynamic_array_len") ||
		   take_call(b, "__get_rel_dynamic_array_len")) {
		n = build_field(b, P_DYNLEN);
		n->type = (struct ptype){ 4, false };
		call_end(b);
	} else {
		return build_fail(b); /* or a name whose value only the kernel knows */
	}
	return n;
}

/* Both operands are there. */
static struct pnode *build_op(struct build *b, unsigned int op, struct pnode *left,
			      struct pnode *right)
{
	struct pnode *n = build_node(b, P_BINARY);
	bool shift = op == OP_SHL || op == OP_SHR;
	bool logic = op == OP_NOT || op == OP_LOR || op == OP_LAND; /* of whether it is 0 */
	bool compare = !shift && strchr("<>=!", (char)(op >> 8));

	n->op = (enum pop)op;
	n->a = left;
	n->b = right;
	n->in = logic	? (struct ptype){ 8, false }
		: shift ? left->type
			: common_type(left->type, right->type);
	n->type = logic || compare ? type_int : n->in;
	if (b->failed || left->kind != P_CONST || right->kind != P_CONST)
		return n;
	if ((op == OP_DIV || op == OP_MOD) && !right->val)
		return build_fail(b);
	n->val = plan_apply(n->op, n->in, left->val, right->val);
	n->kind = P_CONST;
	return n;
}

/* `in` as a number of that size and sign */
static struct pnode *build_cast(struct build *b, struct pnode *in, uint16_t bytes, bool is_signed)
{
	struct ptype type = type_promoted(bytes, is_signed);
	struct pnode *n;

	if (in->kind == P_CONST)
		return node_constant(b, plan_fit(in->val, bytes, is_signed), type);
	n = build_node(b, P_CAST);
	n->a = in;
	n->size = bytes;
	n->is_signed = is_signed;
	n->type = type;
	return n;
}

static struct pnode *number_unary(struct build *b)
{
	uint16_t bytes = (uint16_t)b->f->long_size;
	bool is_signed = false;
	char op = parse_next(b), type[64];
	struct pnode *n;

	if (b->depth > MAX_DEPTH || ++b->ops > MAX_OPS)
		return build_fail(b);
	b->depth++;
	if (op && strchr("!~-", op)) {
		b->p++;
		n = build_op(b, OP((unsigned int)op, 0), node_constant(b, 0, type_int),
			     number_unary(b));
	} else if (take_cast(b, type)) {
		n = number_unary(b);
		if (strchr(type, '*') || named_type(b, type, &bytes, &is_signed))
			n = build_cast(b, n, bytes, is_signed);
	} else {
		b->depth--;
		return number_primary(b);
	}
	b->depth--;
	return n;
}

/* An operator that binds at least as tightly as min: how tightly; 0: there is none. */
static unsigned int take_operator(struct build *b, unsigned int min, unsigned int *op)
{
	static const struct {
		char text[3];
		unsigned int binds;
	} list[] = {
		/* longer ones first */
		{ "<<", 8 }, { ">>", 8 }, { "<=", 7 }, { ">=", 7 }, { "==", 6 }, { "!=", 6 },
		{ "&&", 2 }, { "||", 1 }, { "<", 7 },  { ">", 7 },  { "*", 10 }, { "/", 10 },
		{ "%", 10 }, { "+", 9 },  { "-", 9 },  { "&", 5 },  { "|", 3 },
	};

	parse_next(b);
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		if (!str_starts(b->p, list[i].text))
			continue;
		if (list[i].binds < min)
			return 0;
		*op = OP((unsigned int)list[i].text[0], (unsigned int)list[i].text[1]);
		b->p += strlen(list[i].text);
		return list[i].binds;
	}
	return 0;
}

static struct pnode *number_binary(struct build *b, unsigned int min)
{
	struct pnode *n = number_unary(b);
	unsigned int binds, op;

	while (!b->failed && (binds = take_operator(b, min, &op)))
		n = build_op(b, op, n, number_binary(b, binds + 1));
	return n;
}

/* After "?", whose branches are numbers or texts. */
static struct pnode *build_cond(struct build *b, struct pnode *which,
				struct pnode *(*branch)(struct build *b))
{
	struct pnode *n = build_node(b, P_COND);

	n->a = which;
	n->b = branch(b);
	parse_need(b, ':');
	n->c = branch(b);
	if (!b->failed)
		n->type = common_type(n->b->type, n->c->type);
	return n;
}

static struct pnode *parse_number(struct build *b)
{
	struct pnode *n;

	if (b->failed || b->depth >= MAX_DEPTH)
		return build_fail(b);
	b->depth++;
	n = number_binary(b, 1);
	if (parse_take(b, '?'))
		n = build_cond(b, n, parse_number);
	b->depth--;
	return n;
}

/* ---- what %s prints: fields, names, arrays ---- */

/* Names that kernels leave in their formats. */
static const struct {
	const char *name;
	int64_t val;
} known[] = {
	{ "HI_SOFTIRQ", 0 },
	{ "TIMER_SOFTIRQ", 1 },
	{ "NET_TX_SOFTIRQ", 2 },
	{ "NET_RX_SOFTIRQ", 3 },
	{ "BLOCK_SOFTIRQ", 4 },
	{ "IRQ_POLL_SOFTIRQ", 5 },
	{ "TASKLET_SOFTIRQ", 6 },
	{ "SCHED_SOFTIRQ", 7 },
	{ "HRTIMER_SOFTIRQ", 8 },
	{ "RCU_SOFTIRQ", 9 },
	{ "HRTIMER_NORESTART", 0 },
	{ "HRTIMER_RESTART", 1 },
	/* the clock of a KVM host, until 5.5 and since */
	{ "VCLOCK_NONE", 0 },
	{ "VCLOCK_TSC", 1 },
	{ "VDSO_CLOCKMODE_NONE", 0 },
	{ "VDSO_CLOCKMODE_TSC", 1 },
};

COMPARE(symbol_by_value, struct psym, ORDER(x->val, y->val) ?: ORDER(x->order, y->order));

/*
 * VALUE of a table: an expression, or one name. False for a name that only the kernel can resolve:
 * no value is known to match it.
 */
static bool table_value(struct build *b, int64_t *v)
{
	size_t n = (parse_next(b), name_len(b->p)), i = 0;
	const struct pnode *c;

	if (!n || b->p[n + strspn(b->p + n, " \t")] != ',') {
		c = parse_number(b);
		if (c->kind != P_CONST)
			build_fail(b);
		*v = (int64_t)c->val;
		return true;
	}
	while (i < ARRAY_SIZE(known) &&
	       (strlen(known[i].name) != n || memcmp(known[i].name, b->p, n)))
		i++;
	b->p += n;
	*v = i < ARRAY_SIZE(known) ? known[i].val : 0;
	return i < ARRAY_SIZE(known);
}

/*
 * { VALUE, "NAME" }, ...: "{ }" ends the table, whatever follows. Names stay in the order of the
 * text if all of them count, else they are sorted by value.
 */
static void symbol_table(struct build *b, struct pnode *n)
{
	bool ended = false;
	size_t cap = 0;

	b->wide = true;
	do {
		struct psym s = { .order = (uint32_t)n->nsym };
		size_t len;
		bool counts;

		parse_need(b, '{');
		if (parse_take(b, '}')) {
			ended = true;
			continue;
		}
		counts = table_value(b, &s.val);
		parse_need(b, ',');
		s.str = parse_strings(b, &len);
		s.len = (uint32_t)len;
		parse_need(b, '}');
		if (b->failed || !counts || ended)
			continue;
		if (n->nsym >= FMT_MAX_SYMS)
			build_fail(b);
		else
			xarray_add(&n->sym, &n->nsym, &cap, &s, sizeof(s));
	} while (!b->failed && parse_take(b, ','));
	b->wide = false;
	if (n->kind == P_SYMBOL && n->nsym)
		array_sort(n->sym, n->nsym, symbol_by_value);
}

static struct pnode *text_names(struct build *b, enum pkind kind)
{
	struct pnode *n = build_node(b, kind);

	/* The kernel's tables and the value looked up in them are unsigned long. */
	n->a = build_cast(b, parse_number(b), (uint16_t)b->f->long_size, false);
	parse_need(b, ',');
	n->text = "";
	if (kind == P_FLAGS) {
		n->text = parse_strings(b, &n->len);
		parse_need(b, ',');
	}
	if (!b->failed)
		symbol_table(b, n);
	call_end(b);
	return n;
}

/* __print_hex() and __print_array() */
static struct pnode *text_array(struct build *b, enum pkind kind, bool dense)
{
	bool dynamic = take_call(b, "__get_dynamic_array");
	struct pnode *n = dynamic || take_field(b) ? build_field(b, kind) : build_fail(b);

	if (dynamic)
		call_end(b);
	parse_need(b, ',');
	n->a = parse_number(b);
	if (kind == P_ARRAY) {
		parse_need(b, ',');
		n->b = parse_number(b);
	}
	call_end(b);
	n->val = dense;
	return n;
}

static struct pnode *text_field(struct build *b)
{
	struct pnode *n = build_field(b, P_CHARS);

	if (!n->fld.is_array && n->size == b->f->long_size)
		n->kind = P_POINTER;
	return n->size || n->fld.is_array ? n : build_fail(b);
}

static struct pnode *parse_text(struct build *b);

static struct pnode *text_primary(struct build *b)
{
	const char *at;
	struct pnode *n;
	char type[64];

	while (take_cast(b, type))
		;
	parse_next(b);
	at = b->p;
	if (*at == '"') {
		n = build_node(b, P_TEXT);
		n->text = parse_strings(b, &n->len);
	} else if (isdigit((unsigned char)*at)) { /* "((void *)0)" */
		literal_number(b);
		n = build_node(b, P_TEXT);
		n->len = (size_t)(b->p - at);
		n->text = fmt_name_copy(b->f, at, n->len);
	} else if (take_field(b)) {
		n = text_field(b);
	} else if (parse_take(b, '(')) {
		n = parse_text(b);
		parse_need(b, ')');
	} else if (take_call(b, "__print_symbolic")) {
		n = text_names(b, P_SYMBOL);
	} else if (take_call(b, "__print_flags")) {
		n = text_names(b, P_FLAGS);
	} else if (take_call(b, "__print_hex")) {
		n = text_array(b, P_HEX, false);
	} else if (take_call(b, "__print_hex_str")) {
		n = text_array(b, P_HEX, true);
	} else if (take_call(b, "__print_array")) {
		n = text_array(b, P_ARRAY, false);
	} else if (take_call(b, "__get_str") || take_call(b, "__get_rel_str")) {
		n = text_field(b);
		call_end(b);
	} else {
		n = build_fail(b);
	}
	return n;
}

/* What begins as a number and is not followed by "?" is read again, as a text. */
static struct pnode *parse_text(struct build *b)
{
	const struct build before = *b;
	size_t ndyn = b->plan->ndyn;
	struct pnode *n;

	if (b->failed || b->depth >= MAX_DEPTH)
		return build_fail(b);
	b->depth++;
	n = number_binary(b, 1);
	if (!b->failed && parse_take(b, '?')) {
		n = build_cond(b, n, parse_text);
	} else {
		*b = before;
		b->plan->ndyn = ndyn;
		b->depth++;
		n = text_primary(b);
	}
	b->depth--;
	return n;
}

/* ---- the format string ---- */

static struct pseg *add_segment(struct build *b)
{
	struct fmt_plan *p = b->plan;

	return xarray_grow(&p->seg, p->nseg++, &p->seg_cap, sizeof(*p->seg));
}

/* Literal text up to the next conversion; returns its end. */
static const char *plan_literal(struct build *b, const char *f)
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
	/* An event is one line: tabs and line ends of its format are blanks there. */
	while (!*f && t.len && t.s[t.len - 1] == '\n')
		t.len--;
	for (size_t i = 0; i < t.len; i++)
		if (isspace((unsigned char)t.s[i]))
			t.s[i] = ' ';
	s = add_segment(b);
	s->len = t.len;
	sbuf_add_mem(&t, zeros, sizeof(zeros));
	s->text = xsbuf_take(&t);
	str_printable(s->text);
	return f;
}

/* f is at "%"; it fails for a conversion that is not printed here. */
static const char *parse_conversion(struct build *b, const char *f)
{
	struct pseg *seg = add_segment(b);
	struct spec *s = &seg->spec;

	f++;
	if (!spec_parse(&f, s) || s->blank || s->star > STAR_PREC || s->conv == '%' ||
	    s->width > PLAN_MAX_WIDTH || s->prec > PLAN_MAX_WIDTH || s->longs < -2 ||
	    s->longs > 2) {
		build_fail(b);
		return f;
	}
	/* libtraceevent turns %l of a 64-bit kernel into 64 bits, and leaves the machine's long */
	s->bytes = s->longs == -2			   ? 1
		   : s->longs == -1			   ? 2
		   : s->longs == 0			   ? 4
		   : s->longs == 2 || b->f->long_size == 8 ? 8
							   : (uint8_t)sizeof(long);
	if (s->conv == 'p') {
		/* %p prints an address; %ps and the like a function, here an address, too. */
		s->alt = *f && strchr("sSfF", *f);
		f += s->alt;
		/* %pI4, %pM, %ph ... are not printed here. */
		if (s->star || (!s->alt && isalpha((unsigned char)*f)))
			build_fail(b);
	}
	if (s->star) {
		parse_need(b, ',');
		seg->star = parse_number(b);
	}
	parse_need(b, ',');
	seg->arg = s->conv == 's' ? parse_text(b) : parse_number(b);
	return f;
}

/* The whole print format. Arguments beyond the last conversion are not printed. */
static void build_print(struct build *b)
{
	size_t len;
	const char *f = parse_strings(b, &len);

	while (*f && !b->failed)
		f = *f == '%' && f[1] != '%' ? parse_conversion(b, f) : plan_literal(b, f);
	while (!b->failed && parse_take(b, ',')) {
		struct build before = *b;

		parse_number(b);
		if (b->failed) {
			*b = before;
			parse_text(b);
		}
	}
	if (parse_next(b) && *b->p != '\n')
		build_fail(b);
	if (!b->failed)
		plan_lower(b->plan);
}

struct fmt_plan *fmt_plan_new(struct fmt *f, const struct fmt_event *e, const char *table_at)
{
	struct build b = { .e = e, .f = f, .p = table_at ?: e->print ?: "" };

	b.plan = xcalloc(1, sizeof(*b.plan));
	b.plan->need = e->line.need;
	if (!table_at)
		build_print(&b);
	else
		add_segment(&b)->arg = text_primary(&b);
	if (b.failed)
		fmt_plan_free(b.plan);
	return b.failed ? NULL : b.plan;
}

/*
 * The __print_symbolic() tables of a print format, for names of exit reasons.
 *
 *   (REC->isa == 1) ? __print_symbolic(REC->exit_reason & 0xffff, { 0, "EXCEPTION_NMI" }, ...)
 *                   : __print_symbolic(REC->exit_reason, { 0x000, "read_cr0" }, ...)
 *
 * Each is a plan of its own, so that the names survive a print format that is not understood.
 */

#define MAX_TABLES 32 /* tried */

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

static void read_symbols(const struct fmt_event *e)
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
			slot = xarray_grow(&lazy->tab, lazy->ntab, &lazy->tab_cap, sizeof(*slot));
			*slot = fmt_plan_new(lazy->f, e, p);
			lazy->ntab += *slot != NULL;
			tried++;
		}
		p++;
	}
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
		read_symbols(e);
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
