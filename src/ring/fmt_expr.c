/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_expr.c: numbers of a print format, with the types and conversions of C, as nodes of a plan.
 */
#include "fmt_build.h"

#include <ctype.h>

#define MAX_NODES 20000

struct pnode *build_node(struct build *b, enum pkind kind)
{
	struct pnode *n = !b->failed && b->nodes++ < MAX_NODES ? calloc(1, sizeof(*n)) : NULL;

	if (!n)
		return build_fail(b);
	n->kind = kind;
	n->owned = b->plan->nodes;
	b->plan->nodes = n;
	return n;
}

struct pnode *build_fail(struct build *b)
{
	b->failed = true;
	return &b->spare;
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

struct pnode *build_field(struct build *b, enum pkind kind, const char *name)
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

const char *build_dyn_name(const struct tep_print_arg *arg)
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

struct pnode *build_cond(struct build *b, const struct tep_print_arg *arg, build_fn *branch)
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

struct pnode *build_cast(struct build *b, struct pnode *in, uint16_t bytes, bool is_signed)
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

struct pnode *build_number(struct build *b, const struct tep_print_arg *arg)
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
