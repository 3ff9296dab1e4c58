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
#include "fmt_plan.h"

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

/* Two digits and a blank, least significant byte first. */
static inline uint32_t hex_byte(uint8_t v)
{
	static const char digit[] = "0123456789abcdef";

	return (uint32_t)digit[v >> 4] | (uint32_t)digit[v & 15] << 8 | ' ' << 16;
}

static void step_hex_bytes(const struct pstep *s, const uint8_t *data, char *p,
			   const struct rec *rec, struct sbuf *to)
{
	const struct pnode *n = s->seg->arg;
	const uint8_t *from = data + n->fld.off;
	size_t len = MIN((size_t)data[n->a->off], (size_t)n->fld.size);

	for (size_t i = 0; i < len; i++, p += 3) {
		uint32_t text = hex_byte(from[i]);

		__builtin_memcpy(p, &text, sizeof(text));
	}
	step_at(s + 1, data, len ? p - 1 : p, rec, to);
}

/* n segments at p; the end of their text. */
static char *print_segments(const struct pseg *s, size_t n, char *p, const struct rec *rec,
			    struct sbuf *to)
{
	struct pout out = { .p = p, .to = to };

	while (n--)
		plan_segment(s++, rec, &out);
	return out.p;
}

static void step_segment(const struct pstep *s, const uint8_t *data, char *p, const struct rec *rec,
			 struct sbuf *to)
{
	step_at(s + 1, data, print_segments(s->seg, 1, p, rec, to), rec, to);
}

/* ---- texts that depend on few values ---- */

static inline uint64_t memo_field(const struct pmemo *m, size_t i, const uint8_t *data)
{
	const uint8_t *p = data + m->in[i].off;

	switch (m->in[i].size) {
	case 1: return *p;
	case 2: return load_u16(p);
	case 4: return load_u32(p);
	default: return load_u64(p);
	}
}

/* The fields that decide: usually they are in 8 bytes, or are two of 4 bytes. */
static inline uint64_t key_masked(const struct pmemo *m, const uint8_t *data)
{
	return load_u64(data + m->at) & m->mask;
}

static inline uint64_t key_words(const struct pmemo *m, const uint8_t *data)
{
	return (uint64_t)load_u32(data + m->in[0].off) << 32 | load_u32(data + m->in[1].off);
}

static inline uint64_t key_any(const struct pmemo *m, const uint8_t *data)
{
	uint64_t key = memo_field(m, 0, data);

	for (size_t i = 1; i < m->nin; i++)
		key = key << 8 * m->in[i].size | memo_field(m, i, data);
	return key;
}

static inline struct pmemo_slot *memo_slot(struct pmemo *m, uint64_t key)
{
	_Static_assert(MEMO_SLOTS == 1 << (64 - 58), "the hash gives a slot");
	return &m->slot[key * 0x9e3779b97f4a7c15 >> 58];
}

/* A text that is not known yet: from here on it is. */
static __attribute__((noinline)) void memo_miss(const struct pstep *s, const uint8_t *data, char *p,
						const struct rec *rec, struct sbuf *to)
{
	struct pmemo *m = s->memo;
	uint64_t key = m->mask ? key_masked(m, data) :
		       m->two_words ? key_words(m, data) : key_any(m, data);
	struct pmemo_slot *slot = memo_slot(m, key);
	char *end = print_segments(m->seg, m->nseg, p, rec, to);
	size_t n = (size_t)(end - p);

	if (n <= sizeof(slot->text)) {
		slot->key = key;
		slot->used = true;
		slot->len = (uint8_t)n;
		memcpy(slot->text, p, n);
	}
	step_at(s + 1, data, end, rec, to);
}

static inline void memo_print(const struct pstep *s, const uint8_t *data, char *p,
			      const struct rec *rec, struct sbuf *to, uint64_t key)
{
	const struct pmemo_slot *slot = memo_slot(s->memo, key);

	if (!slot->used || slot->key != key) {
		memo_miss(s, data, p, rec, to);
		return;
	}
	__builtin_memcpy(p, slot->text, sizeof(slot->text));
	step_at(s + 1, data, p + slot->len, rec, to);
}

#define STEP_MEMO(name, key)                                                         \
	static void step_##name(const struct pstep *s, const uint8_t *data, char *p, \
				const struct rec *rec, struct sbuf *to)              \
	{                                                                            \
		memo_print(s, data, p, rec, to, key(s->memo, data));                 \
	}

STEP_MEMO(memo_masked, key_masked)
STEP_MEMO(memo_words, key_words)
STEP_MEMO(memo_any, key_any)

bool plan_is_memo(const struct pstep *s)
{
	return s->print == step_memo_masked || s->print == step_memo_words ||
	       s->print == step_memo_any;
}

/* ---- an event ---- */

static fmt_step *const step_of[] = {
	[C_END] = step_end,	    [C_DEC_U32] = step_dec_u32,	  [C_DEC_S32] = step_dec_s32,
	[C_DEC_U64] = step_dec_u64, [C_DEC_S64] = step_dec_s64,	  [C_HEX_U32] = step_hex_u32,
	[C_HEX_U64] = step_hex_u64, [C_HEX8_U32] = step_hex8_u32, [C_HEX16_U64] = step_hex16_u64,
	[C_SEGMENT] = step_segment, [C_MEMO] = step_memo_any,
	[C_MEMO_MASKED] = step_memo_masked, [C_MEMO_WORDS] = step_memo_words,
	[C_HEX_BYTES] = step_hex_bytes,
	[C_HEX_PAD_U64] = step_hex_pad_u64, [C_POINTER_U64] = step_pointer_u64,
};

fmt_step *plan_step(enum pcode code)
{
	return step_of[code];
}

/* Whether all dynamic fields lie inside the record, as the steps expect. */
static bool dynamic_fit(const struct fmt_plan *p, const struct rec *rec)
{
	const uint8_t *data;
	uint32_t len;

	for (size_t i = 0; i < p->ndyn; i++)
		if (!fmt_bytes(&p->dyn[i], rec, &data, &len))
			return false;
	return true;
}

static void print_many(const struct fmt_plan *p, const struct rec *rec, struct sbuf *out)
{
	char *end = print_segments(p->seg, p->nseg, out->s + out->len, rec, out);

	*end = '\0';
	out->len = (size_t)(end - out->s);
}

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
	return fld->is_pointer;
}

/*
 * The first event of its kind, one that does not fit its plan, or one for which room must be made.
 */
static __attribute__((noinline)) void print_slow(const struct fmt_event *e, const struct rec *rec,
						 struct sbuf *out)
{
	const struct fmt_plan *p = fmt_has_plan(e) ? e->lazy->plan : NULL;

	if (e->is_stack) {
		fmt_print_stack(e, rec, out);
		return;
	}
	if (e->lazy->failed)
		out->error = -ENOMEM;
	if (!p || rec->len < e->line.need || !dynamic_fit(p, rec)) {
		fmt_print_fields(e, rec, out);
		return;
	}
	if (!sbuf_room(out, p->room + p->room_len * rec->len))
		return;
	if (p->nstep > MAX_STEPS)
		print_many(p, rec, out);
	else
		step_at(p->step, rec->data, out->s + out->len, rec, out);
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
