/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * operand.c: from the assembler's operands to uprobe fetch arguments.
 *
 *	note                kernel                       means
 *	-4@%edi             %di:s32                      a register
 *	1@$-3               \-3:u8                       a constant
 *	8@-16(%rbp)         -16(%bp):u64                 memory
 *	1@%ah               %ax:b8@8/64                  bits 8..15 of a register
 *
 * The kernel adds constants to one register: no index register, no symbol, no segment. Nor can it
 * read floating point registers.
 */
#include "kvmft/sdt.h"

#include <ctype.h>

static const char why_form[] = "not an operand of this machine";
static const char why_index[] = "memory at the sum of two registers";
static const char why_symbol[] = "a symbol's address";
static const char why_segment[] = "memory of a segment register";
static const char why_float[] = "a floating point number";
static const char why_arch[] = "not a program for x86";

/* ---- the list ---- */

/* "N@", "-N@", "Nf@"; the operand stays. False: something else is before the @. */
static bool take_size(struct sdt_arg *a)
{
	const char *at = memchr(a->operand, '@', a->len), *p = a->operand;
	size_t n;

	if (!at)
		return true; /* early versions had none */
	a->is_signed = *p == '-';
	p += a->is_signed;
	n = (size_t)(at - p);
	if (n && p[n - 1] == 'f') {
		a->is_float = true;
		n--;
	}
	if (n != 1 || !*p || !strchr("1248", *p))
		return a->is_float && n; /* 16 bytes and the like */
	a->size = (unsigned int)(*p - '0');
	a->len -= (size_t)(at + 1 - a->operand);
	a->operand = at + 1;
	return a->len != 0;
}

int sdt_arg_next(const char **args, struct sdt_arg *a)
{
	const char *p = *args + strspn(*args, " \t");
	unsigned int depth = 0;

	*a = (struct sdt_arg){ .operand = p };
	for (; *p && (depth || (*p != ' ' && *p != '\t')); p++) {
		depth += *p == '(';
		depth -= *p == ')' && depth;
	}
	a->len = (size_t)(p - a->operand);
	*args = p;
	if (!a->len)
		return 0;
	if (take_size(a))
		return 1;
	*args = p + strlen(p);
	return -EINVAL;
}

/* ---- pieces of an operand ---- */

struct piece {
	const char *p;
	size_t left;
};

static bool piece_char(struct piece *s, char c)
{
	if (!s->left || *s->p != c)
		return false;
	s->p++;
	s->left--;
	return true;
}

/* A number with its sign, decimal or hex; its bits and whether there was a minus. */
static bool piece_number(struct piece *s, uint64_t *v, bool *minus)
{
	struct piece at = *s;
	char word[32];
	size_t n = 0;

	*minus = piece_char(&at, '-');
	if (!*minus)
		(void)piece_char(&at, '+');
	while (n < at.left && isalnum((unsigned char)at.p[n]))
		n++;
	if (!n || n >= sizeof(word) || !isdigit((unsigned char)*at.p))
		return false;
	memcpy(word, at.p, n);
	word[n] = '\0';
	if (parse_u64(word, v))
		return false;
	at.p += n;
	at.left -= n;
	*s = at;
	return true;
}

struct reg {
	const char *kernel;  /* "%di" without the percent sign; static */
	unsigned int size;
	bool high;	     /* bits 8..15 */
};

/* Those whose parts have their own names. */
static const struct {
	const char *name[4]; /* 8, 4, 2, 1 bytes */
	const char *high, *kernel;
} named_regs[] = {
	{ { "rax", "eax", "ax", "al" }, "ah", "ax" },
	{ { "rbx", "ebx", "bx", "bl" }, "bh", "bx" },
	{ { "rcx", "ecx", "cx", "cl" }, "ch", "cx" },
	{ { "rdx", "edx", "dx", "dl" }, "dh", "dx" },
	{ { "rsi", "esi", "si", "sil" }, "", "si" },
	{ { "rdi", "edi", "di", "dil" }, "", "di" },
	{ { "rbp", "ebp", "bp", "bpl" }, "", "bp" },
	{ { "rsp", "esp", "sp", "spl" }, "", "sp" },
};

static bool reg_named(const char *word, struct reg *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(named_regs); i++) {
		r->kernel = named_regs[i].kernel;
		r->high = !strcmp(word, named_regs[i].high);
		r->size = 1;
		if (r->high)
			return true;
		for (size_t k = 0; k < 4; k++) {
			r->size = 8u >> k;
			if (!strcmp(word, named_regs[i].name[k]))
				return true;
		}
	}
	return false;
}

/* r8..r15, followed by d, w, b for their parts. */
static bool reg_numbered(const char *word, struct reg *r)
{
	static const char *const kernel[] = {
		"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"
	};

	for (size_t i = 0; i < ARRAY_SIZE(kernel); i++) {
		size_t n = strlen(kernel[i]);

		if (strncmp(word, kernel[i], n) || (word[n] && word[n + 1]))
			continue;
		r->kernel = kernel[i];
		r->high = false;
		r->size = !word[n] ? 8 : word[n] == 'd' ? 4 : word[n] == 'w' ? 2 : 1;
		return !word[n] || strchr("dwb", word[n]);
	}
	return false;
}

static bool piece_reg(struct piece *s, enum sdt_arch arch, struct reg *r)
{
	struct piece at = *s;
	char word[8];
	size_t n = 0;

	if (!piece_char(&at, '%'))
		return false;
	while (n < at.left && isalnum((unsigned char)at.p[n]))
		n++;
	if (!n || n >= sizeof(word))
		return false;
	memcpy(word, at.p, n);
	word[n] = '\0';
	if (!reg_named(word, r) && !(arch == SDT_ARCH_X86_64 && reg_numbered(word, r)))
		return false;
	if (arch == SDT_ARCH_I386 && r->size == 8)
		return false;
	at.p += n;
	at.left -= n;
	*s = at;
	return true;
}

/* ---- operands ---- */

enum form { FORM_REG, FORM_IMM, FORM_MEM };

struct operand {
	enum form form;
	struct reg reg;	 /* FORM_REG, and the base of FORM_MEM */
	uint64_t number; /* FORM_IMM, and the displacement of FORM_MEM */
	bool minus;	 /* ... has this sign */
};

static int parse_operand(const struct sdt_arg *a, enum sdt_arch arch, struct operand *o,
			 const char **why)
{
	struct piece s = { .p = a->operand, .left = a->len };
	int64_t sum = 0;
	uint64_t v;
	bool minus;

	*o = (struct operand){ .form = FORM_REG };
	*why = a->is_float ? why_float : why_arch;
	if (a->is_float || arch == SDT_ARCH_OTHER)
		return -ENOTSUP;
	if (piece_char(&s, '$')) {
		o->form = FORM_IMM;
		*why = why_symbol;
		return piece_number(&s, &o->number, &o->minus) && !s.left ? 0 : -ENOTSUP;
	}
	if (s.left && *s.p == '%' && !memchr(s.p, ':', s.left)) {
		*why = memchr(s.p, 'm', s.left) ? why_float : why_form; /* %xmm0, %ymm0 */
		return piece_reg(&s, arch, &o->reg) && !s.left ? 0 : -ENOTSUP;
	}
	if (memchr(s.p, ',', s.left)) {
		*why = why_index;
		return -ENOTSUP;
	}
	if (memchr(s.p, ':', s.left)) {
		*why = why_segment;
		return -ENOTSUP;
	}
	*why = why_symbol;
	/* Sums such as "8+16", which the compiler leaves to the assembler. */
	while (s.left && *s.p != '(') {
		if (!piece_number(&s, &v, &minus) || v > INT32_MAX ||
		    __builtin_add_overflow(sum, minus ? -(int64_t)v : (int64_t)v, &sum))
			return -ENOTSUP;
	}
	if (!piece_char(&s, '('))
		return -ENOTSUP;
	if (s.left >= 4 && !memcmp(s.p, "%rip", 4))
		return -ENOTSUP;
	*why = why_form;
	if (!piece_reg(&s, arch, &o->reg) || !piece_char(&s, ')') || s.left ||
	    o->reg.size != (arch == SDT_ARCH_I386 ? 4u : 8u))
		return -ENOTSUP;
	o->form = FORM_MEM;
	o->minus = sum < 0;
	o->number = o->minus ? -(uint64_t)sum : (uint64_t)sum;
	return o->number > INT32_MAX ? -ENOTSUP : 0;
}

/* ---- fetch arguments ---- */

int sdt_arg_fetch(enum sdt_arch arch, const struct sdt_arg *a, enum sdt_as as, struct sbuf *out,
		  const char **why)
{
	unsigned int size = a->size ?: arch == SDT_ARCH_I386 ? 4 : 8;
	bool hex = as == SDT_AS_HEX;
	struct operand o;
	int ret = parse_operand(a, arch, &o, why);

	if (ret)
		return ret;
	if (as == SDT_AS_STRING) {
		bool narrow = arch == SDT_ARCH_I386;

		*why = "no pointer";
		if (o.form == FORM_IMM || (o.form == FORM_REG && o.reg.size != (narrow ? 4u : 8u)))
			return -ENOTSUP;
		if (o.form == FORM_REG) {
			sbuf_addf(out, "+0(%%%s):string", o.reg.kernel);
			return 0;
		}
		*why = "a pointer of 32 bits in memory"; /* the kernel would take 64 */
		if (narrow)
			return -ENOTSUP;
		sbuf_addf(out, "+0(%c%llu(%%%s)):string", o.minus ? '-' : '+',
			  (unsigned long long)o.number, o.reg.kernel);
		return 0;
	}
	switch (o.form) {
	case FORM_IMM:
		sbuf_addf(out, "\\%s%llu", o.minus ? "-" : "", (unsigned long long)o.number);
		break;
	case FORM_MEM:
		sbuf_addf(out, "%c%llu(%%%s)", o.minus ? '-' : '+', (unsigned long long)o.number,
			  o.reg.kernel);
		break;
	case FORM_REG:
		if (o.reg.high) {
			/* The kernel's bit fields are unsigned. */
			if (a->is_signed) {
				*why = "a signed number in the second byte of a register";
				return -ENOTSUP;
			}
			sbuf_addf(out, "%%%s:b8@8/64", o.reg.kernel);
			return 0;
		}
		size = MIN(size, o.reg.size);
		sbuf_addf(out, "%%%s", o.reg.kernel);
		break;
	}
	sbuf_addf(out, ":%c%u", hex ? 'x' : a->is_signed ? 's' : 'u', size * 8);
	return 0;
}
