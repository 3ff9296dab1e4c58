/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_steps.c: from the segments of a plan to the steps that are gone through for each event, and
 * to the maximum length of a line.
 */
#include "fmt_plan.h"

/* ---- how long ---- */

struct room {
	size_t fixed, len; /* fixed + len * length of the record */
};

static struct room longer(struct room a, struct room b)
{
	return (struct room){ MAX(a.fixed, b.fixed), MAX(a.len, b.len) };
}

#define ROOM_NUMBER 32 /* sign, 0x, 22 octal digits */
#define ROOM_BLOCKS \
	(MEMO_TEXT + STEP_TEXT + 2 * PUT_SLACK) /* beyond the end, whole blocks are copied */

/* A text, each piece of which may be padded to width. */
static struct room text_room(const struct pnode *n, size_t width)
{
	struct room r = { ROOM_NUMBER + width, 0 };

	switch (n->kind) {
	case P_TEXT:
		r.fixed += n->len;
		break;
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
	case P_HEX: /* "ff " per byte */
		r.len = 3;
		break;
	case P_ARRAY: /* "0xff," per byte */
		r.len = 5;
		break;
	case P_COND:
		r = longer(text_room(n->b, width), text_room(n->c, width));
		break;
	default:
		break;
	}
	return r;
}

static struct room segment_room(const struct pseg *s)
{
	size_t width = (size_t)s->spec.width + s->spec.prec + (s->star ? PLAN_MAX_WIDTH : 0);

	if (!s->spec.conv)
		return (struct room){ s->len, 0 };
	if (s->spec.conv == 's')
		return text_room(s->arg, width);
	return (struct room){ ROOM_NUMBER + width, 0 };
}

/* ---- which texts depend only on a few fields ---- */

static bool memo_add(struct pmemo *m, const struct pnode *n)
{
	size_t bytes = n->size;

	for (size_t i = 0; i < m->nin; i++) {
		if (m->in[i].off == n->off && m->in[i].size == n->size)
			return true;
		bytes += m->in[i].size;
	}
	if (bytes > 8 || m->nin == MEMO_FIELDS)
		return false;
	m->in[m->nin].off = n->off;
	m->in[m->nin].size = (uint8_t)n->size;
	m->nin++;
	return true;
}

/* Adds all fields that the expression reads; false if there are others, or too many. */
static bool memo_fields(struct pmemo *m, const struct pnode *n)
{
	if (!n)
		return true;
	switch (n->kind) {
	case P_FIELD:
		return memo_add(m, n);
	case P_CONST:
	case P_TEXT:
		return true;
	case P_CAST:
	case P_BINARY:
	case P_COND:
	case P_SYMBOL:
	case P_FLAGS:
		return memo_fields(m, n->a) && memo_fields(m, n->b) && memo_fields(m, n->c);
	default:
		return false;
	}
}

/*
 * Adds a segment to the group if that is possible. A number must not add fields of its own:
 * printing is faster than looking it up, and what is remembered would serve only one value.
 */
static bool memo_take(struct pmemo *m, const struct pseg *s)
{
	size_t before = m->nin;

	if (s->spec.conv && (s->star || !memo_fields(m, s->arg) ||
			     (s->spec.conv != 's' && m->nin > before))) {
		m->nin = before;
		return false;
	}
	m->nseg++;
	return true;
}

/* Whether a group may begin here: a text that has to be looked up. */
static bool worth_it(const struct pseg *s)
{
	return s->spec.conv == 's' && s->arg->kind != P_TEXT;
}

/* One load and a mask give all fields if they are in 8 bytes that every record has. */
static void memo_mask(struct pmemo *m, uint32_t need)
{
	uint8_t mask[8] = { 0 };
	uint32_t from = UINT16_MAX, to = 0;

	for (size_t i = 0; i < m->nin; i++) {
		from = MIN(from, (uint32_t)m->in[i].off);
		to = MAX(to, (uint32_t)m->in[i].off + m->in[i].size);
	}
	if (to > need || need < sizeof(mask))
		return;
	from = MIN(from, need - (uint32_t)sizeof(mask));
	if (to - from > sizeof(mask))
		return;
	for (size_t i = 0; i < m->nin; i++)
		memset(mask + (m->in[i].off - from), 0xff, m->in[i].size);
	m->at = (uint16_t)from;
	memcpy(&m->mask, mask, sizeof(mask));
}

/* The group that begins at segment i, NULL if there is none (*ok) or no memory. */
static struct pmemo *memo_new(const struct fmt_plan *p, size_t i, bool *ok)
{
	struct pmemo *m;

	*ok = true;
	if (!worth_it(&p->seg[i]))
		return NULL;
	m = calloc(1, sizeof(*m));
	*ok = m;
	if (!m)
		return NULL;
	m->seg = &p->seg[i];
	while (i < p->nseg && memo_take(m, &p->seg[i]))
		i++;
	if (!m->nseg || !m->nin) {
		free(m);
		return NULL;
	}
	memo_mask(m, p->need);
	m->two_words = m->nin == 2 && m->in[0].size == 4 && m->in[1].size == 4;
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

static enum pcode hex_code(const struct pspec *c, unsigned int bytes)
{
	if (!c->width)
		return bytes == 4 ? C_HEX_U32 : C_HEX_U64;
	if (c->zero && c->width == 2 * bytes)
		return bytes == 4 ? C_HEX8_U32 : C_HEX16_U64;
	return c->zero && bytes == 8 && c->width <= 16 ? C_HEX_PAD_U64 : C_SEGMENT;
}

/* The code that prints a field with this specification; C_SEGMENT if there is none. */
static enum pcode field_code(const struct pseg *s, const struct pnode *n, bool n_signed)
{
	const struct pspec *c = &s->spec;
	bool plain = !c->left && !c->alt && !c->plus && !c->has_prec && !s->star, is_signed;
	unsigned int bytes;

	if (c->conv == 'p' && c->alt && n->size == 8)
		return C_POINTER_U64;
	if (!plain || (c->conv != 'd' && c->conv != 'u' && c->conv != 'x'))
		return C_SEGMENT;
	/* Cut to the low bytes of the field, or extended: only if that does not change its sign. */
	bytes = MIN((unsigned int)n->size, c->bytes);
	is_signed = c->conv == 'd' && (bytes == c->bytes || n_signed);
	if ((bytes < c->bytes && n_signed && c->conv != 'd') || (bytes != 4 && bytes != 8))
		return C_SEGMENT;
	if (c->conv == 'x')
		return hex_code(c, bytes);
	if (c->width)
		return C_SEGMENT;
	return is_signed ? bytes == 4 ? C_DEC_S32 : C_DEC_S64 :
			   bytes == 4 ? C_DEC_U32 : C_DEC_U64;
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

static struct pstep *step_add(struct fmt_plan *p)
{
	struct pstep *s = array_grow(&p->step, p->nstep, &p->step_cap, sizeof(*s));

	if (s)
		p->nstep++;
	return s;
}

static bool lower_value(struct fmt_plan *p, struct pstep *step, size_t *i)
{
	const struct pseg *s = &p->seg[*i];
	const struct pnode *field;
	enum pcode code;
	bool ok, is_signed;
	struct pmemo *memo = memo_new(p, *i, &ok);

	if (memo) {
		step->memo = memo;
		step->print = plan_step(memo->mask ? C_MEMO_MASKED :
					memo->two_words ? C_MEMO_WORDS : C_MEMO);
		*i += memo->nseg;
		return true;
	}
	field = s->spec.conv ? plain_field(s->arg, &is_signed) : NULL;
	code = field				 ? field_code(s, field, is_signed)
	       : s->spec.conv && is_hex_bytes(s) ? C_HEX_BYTES
						 : C_SEGMENT;
	step->print = plan_step(code);
	if (code == C_SEGMENT || code == C_HEX_BYTES)
		step->seg = s;
	else
		step->off = field->off;
	step->width = (uint8_t)s->spec.width;
	++*i;
	return ok;
}

bool plan_lower(struct fmt_plan *p)
{
	size_t i = 0;

	p->room = ROOM_BLOCKS;
	for (size_t k = 0; k < p->nseg; k++) {
		struct room r = segment_room(&p->seg[k]);

		p->room += r.fixed;
		p->room_len += r.len;
	}
	for (;;) {
		struct pstep *step = step_add(p);

		if (!step)
			return false;
		step->print = plan_step(C_END);
		if (i < p->nseg && !p->seg[i].spec.conv && p->seg[i].len <= STEP_TEXT) {
			step->len = (uint8_t)p->seg[i].len;
			memcpy(step->text, p->seg[i++].text, step->len);
		}
		if (i == p->nseg)
			return true;
		if (!lower_value(p, step, &i))
			return false;
	}
}
