/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan.c: which markers are wanted, and the events that they become. The kernel lets several places
 * share an event if name and type of each argument are the same: `types` is what is compared.
 */

#include <ctype.h>

#include "kvmft/sdt.h"

/*
 * Which markers of which file are meant.
 *
 * A path may contain colons: of the prefixes of the text that end before a colon, the first that is
 * a regular file is the path.
 */

#define NAMES_SHOWN 10 /* of markers, in a message */

/* ---- the file ---- */

static int open_regular(const char *path, struct sdt_spec *s)
{
	int fd = file_open_regular(path, false);
	struct stat st;

	if (fd < 0)
		return fd == -EINVAL ? -ENOENT : fd;
	if (fstat(fd, &st) < 0) {
		close(fd);
		return -errno;
	}
	s->path = xstrdup(path);
	s->fd = fd;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

static int open_binary(const char *name, struct sdt_spec *s)
{
	int ret = *name ? open_regular(name, s) : -ENOENT;
	const char *p;

	if (ret != -ENOENT || !*name || strchr(name, '/'))
		return ret;
	/* Only absolute entries of PATH: a relative one depends on the current directory. */
	p = getenv("PATH");
	while (p && *p && ret == -ENOENT) {
		size_t n = strcspn(p, ":");
		struct sbuf path = { 0 };

		if (*p == '/') {
			sbuf_add_mem(&path, p, n);
			sbuf_addf(&path, "/%s", name);
			ret = open_regular(xsbuf_text(&path), s);
		}
		sbuf_free(&path);
		p += n + (p[n] == ':');
	}
	return ret;
}

/* Cuts the text after the path; *rest is what follows the colon, or "". */
static int take_path(struct sdt_spec *s, char **rest, struct kvmft_err *err)
{
	int ret = open_binary(s->text, s), first = ret;
	char *colon = strchr(s->text, ':');

	*rest = s->text + strlen(s->text);
	for (; ret == -ENOENT && colon; colon = strchr(colon + 1, ':')) {
		*colon = '\0';
		ret = open_binary(s->text, s);
		*rest = colon + 1;
		first = first == -ENOENT ? ret : first;
		if (ret == -ENOENT)
			*colon = ':';
	}
	if (!ret)
		return 0;
	return err_why(err, first, "%.*s: cannot open the program or library",
		       (int)strcspn(s->text, ":"), s->text);
}

/* ---- what of it ---- */

/* "argN:TYPE" */
static int take_type(char *text, struct sdt_want *w, const char *arg, struct kvmft_err *err)
{
	static const struct {
		const char *name;
		enum sdt_as as;
	} types[] = { { "string", SDT_AS_STRING }, { "hex", SDT_AS_HEX } };
	char *colon = strchr(text, ':');
	uint64_t n;

	if (colon)
		*colon = '\0';
	if (!colon || !str_starts(text, "arg") || parse_u64(text + 3, &n) || !n || n > SDT_ARGS_MAX)
		return err_usage(err,
				 "%s: '%s' is not argN:string or argN:hex, with N from 1 to %d",
				 arg, text, SDT_ARGS_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (!strcmp(colon + 1, types[i].name)) {
			w->as[n - 1] = types[i].as;
			return 0;
		}
	return err_usage(err, "%s: '%s' is not a type: string or hex", arg, colon + 1);
}

static int take_want(char *rest, struct sdt_want *w, const char *arg, struct kvmft_err *err)
{
	char *comma, *colon, *next, *from = strchr(rest, '/');
	size_t n = from ? strlen(from) : 0;
	int ret = 0;

	if (from && (n < 3 || from[n - 1] != '/'))
		return err_usage(err, "%s: the filter is not /FILTER/", arg);
	if (from) {
		from[n - 1] = '\0';
		*from = '\0';
		w->filter = from + 1;
	}
	comma = strchr(rest, ',');
	while (!ret && comma) {
		*comma++ = '\0';
		next = strchr(comma, ',');
		if (next)
			*next = '\0';
		ret = take_type(comma, w, arg, err);
		comma = next;
	}
	if (ret)
		return ret;
	colon = strchr(rest, ':');
	if (colon) {
		*colon = '\0';
		w->name = colon[1] ? colon + 1 : NULL;
	}
	w->provider = *rest ? rest : NULL;
	if (w->name && strchr(w->name, ':'))
		return err_usage(err, "%s: more than BINARY:PROVIDER:MARKER", arg);
	return 0;
}

int sdt_spec_parse(const char *arg, struct sdt_spec *s, struct kvmft_err *err)
{
	char *rest = NULL;
	int ret;

	*s = (struct sdt_spec){ .fd = -1, .text = xstrdup(arg) };
	ret = take_path(s, &rest, err);
	ret = ret ?: take_want(rest, &s->want, arg, err);
	if (ret)
		sdt_spec_free(s);
	return ret;
}

void sdt_spec_free(struct sdt_spec *s)
{
	util_close_fd(&s->fd);
	free(s->path);
	free(s->text);
	*s = (struct sdt_spec){ .fd = -1 };
}

/* ---- which there are ---- */

/* A few of them, each once as long as the compiler's copies of a marker are adjacent. */
static void add_names(const struct sdt_file *f, struct sbuf *b)
{
	const struct sdt_marker *last = NULL;
	size_t shown = 0;

	for (size_t i = 0; i < f->n; i++) {
		const struct sdt_marker *m = &f->v[i];

		if (last && !strcmp(last->name, m->name) && !strcmp(last->provider, m->provider))
			continue;
		last = m;
		if (shown++ == NAMES_SHOWN) {
			sbuf_add(b, ", ...");
			return;
		}
		sbuf_addf(b, "%s%s:%s", shown > 1 ? ", " : "", m->provider, m->name);
	}
}

/* Does the want mean this marker? */
static bool sdt_want_match(const struct sdt_want *w, const struct sdt_marker *m)
{
	return (!w->provider || str_glob(w->provider, m->provider)) &&
	       (!w->name || str_glob(w->name, m->name));
}

int sdt_spec_check(const struct sdt_spec *s, const struct sdt_file *f, struct kvmft_err *err)
{
	const struct sdt_want *w = &s->want;
	struct sbuf names = { 0 };
	int ret;

	if (!f->n)
		return err_set(err, ENOENT,
			       "%s: no SDT markers in it (a program has them when it was built "
			       "with sys/sdt.h; QEMU: with the trace back end dtrace)",
			       s->path);
	for (size_t i = 0; i < f->n; i++)
		if (sdt_want_match(w, &f->v[i]))
			return 0;
	add_names(f, &names);
	ret = err_set(err, ENOENT, "%s: no marker %s:%s; there are %s (kvmft qemu sdt lists all)",
		      s->path, w->provider ?: "*", w->name ?: "*", names.s ?: "others");
	sbuf_free(&names);
	return ret;
}

/*
 * ---- from the assembler's operands to uprobe fetch arguments ----
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

/* The letters and digits that come next; false: there are none, or too many. */
static bool piece_word(struct piece *s, char *word, size_t size)
{
	size_t n = 0;

	while (n < s->left && isalnum((unsigned char)s->p[n]))
		n++;
	if (!n || n >= size)
		return false;
	memcpy(word, s->p, n);
	word[n] = '\0';
	s->p += n;
	s->left -= n;
	return true;
}

/* A number with its sign, decimal or hex; its bits and whether there was a minus. */
static bool piece_number(struct piece *s, uint64_t *v, bool *minus)
{
	struct piece at = *s;
	char word[32];

	*minus = piece_char(&at, '-');
	if (!*minus)
		(void)piece_char(&at, '+');
	if (!piece_word(&at, word, sizeof(word)) || parse_u64(word, v))
		return false;
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
	{ { "rax", "eax", "ax", "al" }, "ah", "ax" }, { { "rbx", "ebx", "bx", "bl" }, "bh", "bx" },
	{ { "rcx", "ecx", "cx", "cl" }, "ch", "cx" }, { { "rdx", "edx", "dx", "dl" }, "dh", "dx" },
	{ { "rsi", "esi", "si", "sil" }, "", "si" },  { { "rdi", "edi", "di", "dil" }, "", "di" },
	{ { "rbp", "ebp", "bp", "bpl" }, "", "bp" },  { { "rsp", "esp", "sp", "spl" }, "", "sp" },
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

	if (!piece_char(&at, '%') || !piece_word(&at, word, sizeof(word)))
		return false;
	if (!reg_named(word, r) && !(arch == SDT_ARCH_X86_64 && reg_numbered(word, r)))
		return false;
	if (arch == SDT_ARCH_I386 && r->size == 8)
		return false;
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

#define EVENT_NAME_MAX 56u /* of an event; the kernel takes 63, and a number may follow */

/* ---- one place ---- */

struct draft {
	struct sbuf args, types, left_out;
};

static void draft_free(struct draft *d)
{
	sbuf_free(&d->args);
	sbuf_free(&d->types);
	sbuf_free(&d->left_out);
}

static void leave_out(struct draft *d, unsigned int i, const char *why)
{
	sbuf_addf(&d->left_out, "%sarg%u: %s", d->left_out.len ? "; " : "", i, why);
}

static void draft_make(const struct sdt_plan *p, enum sdt_arch arch, const struct sdt_marker *m,
		       const enum sdt_as *as, struct draft *d)
{
	const char *rest = m->args;
	struct sdt_arg a;
	int got = 1;

	for (unsigned int i = 1; got > 0 && i <= SDT_ARGS_MAX; i++) {
		_cleanup_(sbuf_free) struct sbuf fetch = { 0 };
		const char *why = "a constant, which this kernel cannot show", *text, *type;

		got = sdt_arg_next(&rest, &a);
		if (got < 0)
			leave_out(d, i, "and what follows it: malformed");
		if (got <= 0)
			break;
		if ((a.len && *a.operand == '$' && (p->flags & SDT_NO_CONSTANTS)) ||
		    sdt_arg_fetch(arch, &a, as[i - 1], &fetch, &why)) {
			leave_out(d, i, why);
			continue;
		}
		/* What follows the last colon of a fetch argument is its type, as in our terms. */
		text = xsbuf_text(&fetch);
		type = strrchr(text, ':');
		sbuf_addf(&d->args, "%sarg%u=%s", d->args.len ? " " : "", i, text);
		/* A bit field is a u8 by another name. */
		sbuf_addf(&d->types, "%sarg%u%s", d->types.len ? " " : "", i,
			  type && strcmp(type, ":b8@8/64") ? type : ":u8");
	}
}

/* ---- events ---- */

static char *word_dup(const char *prefix, const char *s)
{
	struct sbuf b = { 0 };

	sbuf_add(&b, prefix);
	if (!*prefix && isdigit((unsigned char)*s))
		sbuf_addc(&b, '_');
	for (; *s && b.len < EVENT_NAME_MAX; s++)
		sbuf_addc(&b, isalnum((unsigned char)*s) ? *s : '_');
	return xsbuf_take(&b);
}

static bool sdt_name_taken(const struct sdt_plan *p, const struct sdt_event *e, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (&p->v[i] != e && !strcmp(p->v[i].sys, e->sys) && !strcmp(p->v[i].name, name))
			return true;
	return false;
}

static struct sdt_event *event_new(struct sdt_plan *p, const struct sdt_marker *m, struct draft *d)
{
	struct sdt_event *e = xarray_grow(&p->v, p->n++, &p->cap, sizeof(*e));
	_cleanup_free_ char *word = word_dup("", m->name);
	struct sbuf b = { 0 };

	e->provider = xstrdup(m->provider);
	e->marker = xstrdup(m->name);
	e->sys = word_dup("sdt_", m->provider);
	e->types = xsbuf_take(&d->types);
	e->left_out = xsbuf_take(&d->left_out);
	sbuf_add(&b, word);
	for (unsigned int i = 1; sdt_name_taken(p, e, xsbuf_text(&b)); i++) {
		sbuf_reset(&b);
		sbuf_addf(&b, "%s_%u", word, i);
	}
	e->name = xsbuf_take(&b);
	return e;
}

static int plan_marker(struct sdt_plan *p, const struct sdt_file *f, size_t file,
		       const struct sdt_marker *m, const struct sdt_want *asked, size_t max)
{
	_cleanup_(draft_free) struct draft d = { .args = { 0 } };
	struct sdt_event *e = NULL;
	struct sdt_place *place;
	bool again = false;

	draft_make(p, f->arch, m, asked->as, &d);
	for (size_t i = 0; !e && !(p->flags & SDT_ONE_PLACE) && i < p->n; i++)
		if (!strcmp(p->v[i].marker, m->name) && !strcmp(p->v[i].provider, m->provider) &&
		    !strcmp(p->v[i].types, xsbuf_text(&d.types)))
			e = &p->v[i];
	if (!e && p->n >= max)
		return -E2BIG;
	e = e ?: event_new(p, m, &d);
	/* The same place twice: one nop, two notes with the same content. */
	for (size_t i = 0; i < e->n; i++)
		again |= e->place[i].file == file && e->place[i].offset == m->offset;
	if (!again) {
		place = xarray_grow(&e->place, e->n++, &e->cap, sizeof(*place));
		*place = (struct sdt_place){ .file = file,
					     .offset = m->offset,
					     .semaphore = m->semaphore,
					     .args = xsbuf_take(&d.args) };
		e->guarded |= m->semaphore != 0;
	}
	if (asked->filter)
		e->filter = asked->filter;
	return 0;
}

int sdt_plan_add(struct sdt_plan *p, const struct sdt_file *f, size_t file,
		 const struct sdt_want *w, size_t n, size_t max)
{
	int ret = 0;

	for (size_t i = 0; i < f->n && !ret; i++) {
		struct sdt_want asked = { .filter = NULL };
		bool wanted = false;

		for (size_t k = 0; k < n; k++) {
			if (!sdt_want_match(&w[k], &f->v[i]))
				continue;
			wanted |= !w[k].hint;
			asked.filter = w[k].filter ? w[k].filter : asked.filter;
			for (size_t a = 0; a < SDT_ARGS_MAX; a++)
				if (w[k].as[a] != SDT_AS_NUMBER)
					asked.as[a] = w[k].as[a];
		}
		if (wanted && f->v[i].unfit) {
			p->unfit++;
			p->why_unfit = f->v[i].unfit;
		} else if (wanted) {
			ret = plan_marker(p, f, file, &f->v[i], &asked, max);
		}
	}
	return ret;
}

void sdt_plan_free(struct sdt_plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct sdt_event *e = &p->v[i];

		for (size_t k = 0; k < e->n; k++)
			free(e->place[k].args);
		free(e->place);
		free(e->sys);
		free(e->name);
		free(e->provider);
		free(e->marker);
		free(e->types);
		free(e->left_out);
	}
	free(p->v);
	*p = (struct sdt_plan){ 0 };
}
