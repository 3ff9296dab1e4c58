/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_expr.c: numbers of a print format, with the types and conversions of C, as nodes of a plan.
 */
#include "fmt_build.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define MAX_NODES 20000

struct pnode *build_node(struct build *b, enum pkind kind)
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

struct pnode *build_fail(struct build *b)
{
	b->failed = true;
	return NULL;
}

static struct pnode *constant(struct build *b, uint64_t v, uint8_t bytes, bool is_signed)
{
	struct pnode *n = build_node(b, P_CONST);

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
		return build_fail(b); /* a name whose value only the kernel knows */
	errno = 0;
	v = strtoull(text, &end, 0);
	uns = strpbrk(end, "uU");
	lng = strstr(end, "ll") || strstr(end, "LL") || (strpbrk(end, "lL") && b->f->long_size == 8);
	if (errno || end[strspn(end, "uUlL")])
		return build_fail(b);
	if (!lng && !uns && v <= INT32_MAX)
		return constant(b, v, 4, true);
	if (!lng && (uns || !dec) && v <= UINT32_MAX)
		return constant(b, v, 4, false);
	return constant(b, v, 8, !uns && v <= INT64_MAX);
}

const struct fmt_field *build_field(struct build *b, const char *name)
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

const char *build_dyn_name(const struct tep_print_arg *arg)
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

static struct pnode *number_field(struct build *b, const char *name)
{
	const struct fmt_field *f = build_field(b, name);
	struct pnode *n;

	if (!f)
		return NULL;
	if (!fmt_is_number(f->size))
		return zero(b); /* libtraceevent reads 0, too */
	n = build_node(b, P_FIELD);
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
		return build_fail(b);
	f = build_field(b, left->field.name);
	if (f && f->is_array && !f->is_dynamic && !fmt_is_number(f->elem))
		return zero(b);
	n = build_node(b, P_ELEMENT);
	if (!f || !n || !f->is_array || f->is_dynamic)
		return build_fail(b);
	n->fld = *f;
	n->type = promoted(f->elem, f->is_signed);
	n->a = build_number(b, arg->op.right);
	return n->a ? n : build_fail(b);
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
		return build_fail(b);
	n = build_node(b, cond ? P_COND : P_BINARY);
	if (!n)
		return NULL;
	if (cond) {
		n->a = build_number(b, arg->op.left);
		n->b = build_number(b, alt->op.left);
		n->c = build_number(b, alt->op.right);
		if (!n->a || !n->b || !n->c)
			return build_fail(b);
		n->type = common_type(n->b->type, n->c->type);
		return n;
	}
	n->op = op_code(arg->op.op);
	n->a = build_number(b, arg->op.left);
	n->b = build_number(b, alt);
	if (n->op == OP_NONE || !n->a || !n->b)
		return build_fail(b);
	set_types(n);
	if (n->a->kind == P_CONST && n->b->kind == P_CONST) {
		if ((n->op == OP_DIV || n->op == OP_MOD) && !n->b->val)
			return build_fail(b);
		n->val = plan_apply(n->op, n->in, n->a->val, n->b->val);
		n->kind = P_CONST;
	}
	return n;
}

struct pnode *build_cast(struct build *b, struct pnode *in, uint16_t bytes, bool is_signed)
{
	struct ptype type = promoted(bytes, is_signed);
	struct pnode *n;

	if (!in)
		return NULL;
	if (in->kind == P_CONST)
		return constant(b, plan_fit(in->val, bytes, is_signed), type.bytes, type.is_signed);
	n = build_node(b, P_CAST);
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
	struct pnode *in = build_number(b, arg->typecast.item);
	bool is_signed;
	uint16_t bytes;

	if (strchr(type, '*'))
		return build_cast(b, in, (uint16_t)b->f->long_size, false);
	return named_type(b, type, &bytes, &is_signed) ? build_cast(b, in, bytes, is_signed) : in;
}

struct pnode *build_number(struct build *b, const struct tep_print_arg *arg)
{
	const struct fmt_field *f;
	struct pnode *n;

	if (b->failed || !arg)
		return arg ? NULL : zero(b); /* the left side of a unary operator */
	switch (arg->type) {
	case TEP_PRINT_NULL:
		return zero(b);
	case TEP_PRINT_ATOM:
		return arg->atom.atom ? literal_number(b, arg->atom.atom) : build_fail(b);
	case TEP_PRINT_FIELD:
		return number_field(b, arg->field.name);
	case TEP_PRINT_TYPE:
		return number_cast(b, arg);
	case TEP_PRINT_OP:
		return number_op(b, arg);
	case TEP_PRINT_DYNAMIC_ARRAY_LEN:
		f = build_field(b, build_dyn_name(arg));
		n = build_node(b, P_DYNLEN);
		if (!f || !n)
			return NULL;
		n->fld = *f;
		n->type = (struct ptype){ 4, false };
		return n;
	default:
		return build_fail(b);
	}
}
