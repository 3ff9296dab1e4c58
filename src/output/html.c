/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * html.c: a time line as one page that needs nothing but a browser: html/page.html with the events
 * in it.
 *
 * The data are a stream of records in base64, so that nothing of it can be taken for HTML. All
 * numbers are varints (7 bits a byte, low ones first); "signed" ones are zigzag. A record begins
 * with its tag:
 *
 *   1  string: length, bytes (UTF-8). Strings are counted from 1; 0 is "".
 *   2  type: of a guest?, name (string), number of fields, and of each: name (string), kind
 *      (0 unsigned, 1 signed, 2 string, 3 shown in hex). Types are counted from 0.
 *   3  who: source, CPU, vCPU (signed), VM (signed; of the host's threads also the VMM's), tid
 *      (signed), name (string); counted from 0.
 *   4  gap: time since the record before, source, CPU, length in the clock's unit, events lost
 *      (0: unknown)
 *   5  clock: name, unit (strings), value at 0, host TSC at 0, kHz of the host's TSC
 *   6  source: label (string), a guest?; counted from 0
 *   7  results of latency analyses: JSON (string)
 *   8  VM: label (string); counted from 0
 *   9  what must be said of all times, or was concluded (string); several
 *  10  spikes and their causes: JSON (string)
 *   16 and above: event of type tag - 16: time since the record before, who, and its fields: signed
 *      numbers, or strings.
 *
 * Dictionaries are bounded: a capture with more strings than that gets "..." for the others.
 */
#include "evinfo.h"

#include "kvmft/pb.h"

#define STRINGS_MAX (1u << 17)
#define STRING_MAX  256u
#define WHOS_MAX    (1u << 17)
#define CHUNK	    3072u /* bytes of a line of base64, which has 4096 letters */

enum {
	TAG_STRING = 1,
	TAG_TYPE, TAG_WHO, TAG_GAP, TAG_CLOCK, TAG_SOURCE, TAG_LATENCY, TAG_VM, TAG_REMARK,
	TAG_SPIKES, TAG_DAY,
	TAG_EVENT = 16
};
enum { KIND_UNSIGNED, KIND_SIGNED, KIND_STRING, KIND_HEX };

/* The page, linked in. Global: with -flto what refers to it may be in another unit. */
__asm__(".pushsection .rodata\n"
	".globl html_page\n"
	".hidden html_page\n"
	"html_page: .incbin \"src/output/html/page.html\"\n"
	".byte 0\n"
	".popsection\n");
extern const char html_page[] __attribute__((visibility("hidden")));

struct html {
	struct sbuf data; /* not yet in base64 */
	struct hash_key key;
	struct u64map strings; /* hash → number */
	char **text;	       /* by number - 1 */
	size_t nstring, string_cap;
	uint32_t dots; /* number of "..." */
	struct u64map types; /* source << 16 | event id → number + 1 */
	uint64_t ntype, epochs; /* the type of epochs + 1 */
	struct u64map whos; /* hash of a who → number */
	uint64_t nwho;
	struct evinfos infos;
	struct guest_rips *rips; /* borrowed; NULL: no symbols */
	uint64_t last, base;
	uint64_t host; /* TSC of the last item */
	bool begun;
	uint64_t column; /* of the base64 text */
};

static void put_all(struct html *h, const uint64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		pb_varint(&h->data, v[i]);
}

/* Numbers: all are known, and the texts among them defined, before the first is written. */
#define html_put(h, ...) \
	put_all(h, (const uint64_t[]){ __VA_ARGS__ }, \
		sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

static uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);
}

/* ---- dictionaries ---- */

static uint64_t string_define(struct html *h, const char *s, size_t n)
{
	char **slot = xarray_grow(&h->text, h->nstring, &h->string_cap, sizeof(*slot));

	*slot = xstrndup(s, n);
	html_put(h, TAG_STRING, n);
	sbuf_add_mem(&h->data, s, n);
	return ++h->nstring;
}

static uint64_t html_text(struct html *h, const char *s)
{
	size_t n = strlen(s);
	uint64_t key, at;

	/* A string's number. A new one is defined before its record: look up all of them first. */
	n = MIN(n, (size_t)STRING_MAX);
	if (!n)
		return 0;
	key = hash_bytes(&h->key, s, n);
	if (u64map_get(&h->strings, key, &at)) {
		if (strlen(h->text[at - 1]) == n && !memcmp(h->text[at - 1], s, n))
			return at;
		return string_define(h, s, n); /* another one has this hash */
	}
	if (h->nstring >= STRINGS_MAX) {
		h->dots = h->dots ?: (uint32_t)string_define(h, "...", 3);
		return h->dots;
	}
	at = string_define(h, s, n);
	if (at)
		xu64map_put(&h->strings, key, at);
	return at;
}

static uint64_t item_who(const struct out *o, struct html *h, const struct tl_item *i)
{
	const char *comm = i->kind == TL_EVENT ? tl_comm(i->src, i->tid) : "";
	uint64_t name = html_text(h, comm), at;
	/* A thread of the VMM, or vhost's, belongs to its VM; only vCPUs' threads have a vCPU. */
	int64_t vm =
		i->vm >= 0 || i->src->guest ? i->vm : hostmap_task_vm(tl_hostmap(o->t), i->tid);
	const int64_t key[] = {
		(int64_t)i->src->index, i->cpu, i->vcpu, vm, i->tid, (int64_t)name
	};
	uint64_t k = hash_bytes(&h->key, key, sizeof(key));

	if (u64map_get(&h->whos, k, &at))
		return at;
	html_put(h, TAG_WHO, i->src->index, i->cpu == TL_NO_CPU ? 0 : i->cpu, zigzag(i->vcpu),
		 zigzag(vm), zigzag(i->tid), name);
	if (h->nwho < WHOS_MAX) /* later ones are put again each time */
		xu64map_put(&h->whos, k, h->nwho);
	return h->nwho++;
}

/* ---- types ---- */

static bool is_exit(const struct tl_item *i)
{
	return !i->src->guest && !strcmp(fmt_name(i->ev), "kvm_exit");
}

/* A separate field says which guest code the address in another one is. */
static bool has_code(const struct html *h, const struct tl_item *i)
{
	return h->rips && guest_rip_has(h->rips, i);
}

static unsigned int kind_of(const struct fmt_field *f, const char *name)
{
	static const char *const hex[] = {
		"rip",	   "guest_rip", "gpa",	"address", "fault_address", "info1", "info2",
		"hrtimer", "function",	"data", "val",	   "icr_low",	    NULL
	};

	if (f->is_string || f->is_dynamic || f->is_array)
		return KIND_STRING;
	if (f->is_pointer)
		return KIND_HEX;
	for (unsigned int i = 0; hex[i]; i++)
		if (!strcmp(name, hex[i]))
			return KIND_HEX;
	return f->is_signed ? KIND_SIGNED : KIND_UNSIGNED;
}

static uint64_t item_type(struct html *h, const struct tl_item *i)
{
	uint64_t key = tl_type(i), at, name, fields[256], made[2];
	size_t common, n;
	_cleanup_(sbuf_free) struct sbuf full = { 0 };

	if (u64map_get(&h->types, key, &at))
		return at;
	if (i->ev)
		sbuf_addf(&full, "%s:%s", fmt_sys(i->ev), fmt_name(i->ev));
	else
		sbuf_addf(&full, "event:%u", i->rec->id);
	name = html_text(h, full.s ?: "");
	common = i->ev ? fmt_common_fields(i->ev) : 0;
	n = i->ev ? MIN(evinfo_fields(i->ev), (size_t)255) : 0;
	for (size_t k = 0; k < n; k++)
		fields[k] = html_text(h, fmt_field_name(i->ev, common + k));
	made[0] = i->ev && is_exit(i) ? html_text(h, "reason") : 0;
	made[1] = i->ev && has_code(h, i) ? html_text(h, "code") : 0;
	html_put(h, TAG_TYPE, i->src->guest, name, n + (made[0] != 0) + (made[1] != 0));
	for (size_t k = 0; k < ARRAY_SIZE(made); k++)
		if (made[k])
			html_put(h, made[k], KIND_STRING);
	for (size_t k = 0; k < n; k++)
		html_put(h, fields[k], kind_of(fmt_field_at(i->ev, common + k),
					       fmt_field_name(i->ev, common + k)));
	xsbuf_text(&full);
	xu64map_put(&h->types, key, h->ntype);
	return h->ntype++;
}

/* ---- events ---- */

/* An event's fields as they are written, and how many: texts by number, defined before it. */
static size_t event_values(struct html *h, const struct hostmap *map, const struct tl_item *i,
			   uint64_t *to)
{
	size_t common = fmt_common_fields(i->ev), n = MIN(evinfo_fields(i->ev), (size_t)255);
	size_t at = 0;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char name[EXIT_NAME_MAX];
	const struct ksyms *syms;
	struct fmt_value v;
	uint64_t rip;

	if (is_exit(i))
		to[at++] = evinfo_reason(evinfo_get(&h->infos, i), i, name, sizeof(name))
				   ? html_text(h, name)
				   : 0;
	if (has_code(h, i)) {
		to[at] = 0;
		if (guest_rip(h->rips, map, i, &rip, &syms)) {
			ksyms_name(syms, rip, &b);
			to[at] = html_text(h, xsbuf_text(&b));
		}
		at++;
	}
	for (size_t k = 0; k < n; k++) {
		const struct fmt_field *f = fmt_field_at(i->ev, common + k);

		fmt_value(f, i->rec, &v);
		if (kind_of(f, fmt_field_name(i->ev, common + k)) == KIND_STRING) {
			sbuf_reset(&b);
			/* Elements of an array as numbers, separated by blanks. */
			for (uint32_t j = 0; v.kind == FMT_NUMBERS && j < v.len && j < 64; j++)
				sbuf_addf(&b, "%s%" PRIx64, j ? " " : "", fmt_element(&v, j));
			if (v.kind == FMT_STRING)
				sbuf_add_mem(&b, v.p, MIN(v.len, STRING_MAX));
			if (v.kind == FMT_STRING && b.s)
				str_printable(b.s);
			to[at++] = html_text(h, xsbuf_text(&b));
		} else if (v.kind == FMT_ABSENT || v.kind >= FMT_STRING)
			to[at++] = 0;
		else
			to[at++] = zigzag((int64_t)v.num);
	}
	return at;
}

/* The time of day at the last item, if it is known: of the first and last the page makes all. */
static void put_day(const struct out *o, struct html *h)
{
	uint64_t ns;

	if (!o->day || !out_clock_value(o->day, h->host, -1, &ns))
		return;
	html_put(h, TAG_DAY, h->last - h->base, ns);
}

static uint64_t item_since(struct out *o, struct html *h, const struct tl_item *i)
{
	uint64_t v, delta;

	if (!out_item_time(o, i, &v))
		v = h->last;
	if (!h->begun) {
		uint64_t clock = html_text(h, out_clock_names[o->clock.kind]),
			 unit = html_text(h, out_clock_unit(&o->clock));

		h->begun = true;
		h->base = h->last = v;
		html_put(h, TAG_CLOCK, clock, unit, v, i->host, o->clock.khz);
		h->host = i->host;
		put_day(o, h);
	}
	delta = v > h->last ? v - h->last : 0;
	if (v >= h->last)
		h->host = i->host;
	h->last = MAX(h->last, v);
	return delta;
}

static void base64(struct html *h, struct sbuf *out, bool all)
{
	const char *p = xsbuf_text(&h->data);
	size_t n = all ? h->data.len : h->data.len / 3 * 3, part;

	for (size_t at = 0; at < n; at += part) {
		part = MIN(n - at, CHUNK - h->column % 4096 / 4 * 3);
		sbuf_add_base64(out, p + at, part);
		h->column += (part + 2) / 3 * 4;
		if (h->column % 4096 == 0)
			sbuf_addc(out, '\n');
	}
	if (all) {
		sbuf_reset(&h->data);
		return;
	}
	memmove(h->data.s, h->data.s + n, h->data.len - n);
	h->data.len -= n;
}

/* ---- the format ---- */

#define MARK "@DATA@"

static void html_begin(struct out *o)
{
	struct html *h = xcalloc(1, sizeof(*h));
	const char *mark = strstr(html_page, MARK);
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	o->priv = h;
	hash_key_init(&h->key);
	h->rips = o->rips;
	sbuf_add_mem(&o->line, html_page, (size_t)(mark - html_page));
	for (size_t i = 0; i < tl_sources(o->t); i++) {
		const struct tl_source *s = tl_source(o->t, i);

		html_put(h, TAG_SOURCE, html_text(h, s->label), s->guest);
	}
	if (out_clock_remark(&o->clock, &b) && b.s)
		html_put(h, TAG_REMARK, html_text(h, b.s));
	for (size_t i = 0; i < tl_sources(o->t); i++)
		if (tl_source(o->t, i)->guest && !tl_source(o->t, i)->alone) {
			const struct hostmap *m = tl_hostmap(o->t);
			const struct tl_source *s = tl_source(o->t, i);
			const struct hostmap_vm *vm = &m->vm[m->vm[s->vm].of];
			uint64_t uncertain = m->vm[s->vm].uncertain;
			_cleanup_(sbuf_free) struct sbuf buf = { 0 };
			char span[32];

			/* What was concluded about a guest, not recorded. */
			sbuf_addf(&buf, "%s: ", s->label);
			if (vm->basis != HOSTMAP_RECORDED) {
				hostmap_vm_tids(m, vm->of, &buf);
				sbuf_addf(&buf, " taken for one VM by %s; ",
					  hostmap_basis_names[vm->basis]);
			}
			if (uncertain)
				sbuf_addf(
					&buf,
					"TSC offset found in the events: times may be off by %" PRIu64
					" cycles",
					uncertain);
			if (uncertain && m->cap->tsc_khz)
				sbuf_addf(&buf, " (%s)",
					  str_ns(span, sizeof(span),
						 tsc_cycles_to_ns(uncertain, m->cap->tsc_khz)));
			if (!buf.error && (uncertain || vm->basis != HOSTMAP_RECORDED))
				html_put(h, TAG_REMARK, html_text(h, buf.s));
		}
	for (size_t i = 0; i < tl_hostmap(o->t)->nvm; i++)
		html_put(h, TAG_VM, html_text(h, tl_hostmap(o->t)->vm[i].label));
}

static void html_item(struct out *o, const struct tl_item *i)
{
	struct html *h = o->priv;
	uint64_t value[258], t = item_since(o, h, i);

	if (i->kind == TL_EVENT) {
		uint64_t y = item_type(h, i), w = item_who(o, h, i);
		size_t n = i->ev ? event_values(h, tl_hostmap(o->t), i, value) : 0;

		html_put(h, TAG_EVENT + y, t, w);
		put_all(h, value, n);
	} else {
		bool ns = o->clock.khz && !strcmp(out_clock_unit(&o->clock), "ns");

		html_put(h, TAG_GAP, t, i->src->index, i->cpu == TL_NO_CPU ? 0 : i->cpu,
			 ns && i->kind == TL_GAP ? tsc_cycles_to_ns(i->width, o->clock.khz)
						 : i->width,
			 i->kind == TL_GAP ? i->lost * 2 + (!i->lost && tl_gap_counted(i))
					   : 0); /* odd: not lost */
	}
	if (h->data.len >= CHUNK)
		base64(h, &o->line, false);
}

/* An event of the vCPU's thread, as what KVM says of clocks is: what that came to. */
static void html_epoch(struct out *o, const struct out_epoch *e)
{
	static const char *const names[] = { "kvmft:EPOCH", "tsc_offset", "pvclock_version" };
	struct html *h = o->priv;
	struct tl_item i = { .kind = TL_EVENT, .src = tl_source(o->t, 0), .host = e->host,
			     .cpu = TL_NO_CPU, .vm = (int64_t)e->vm, .vcpu = -1 };
	const struct hostmap_thread *thread = hostmap_vcpu(tl_hostmap(o->t), e->vm, e->vcpu);
	uint64_t at[ARRAY_SIZE(names)], t, w;

	if (e->first)
		return;
	if (thread) {
		i.vcpu = e->vcpu;
		i.tid = thread->tid;
	}
	if (!h->epochs) {
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			at[k] = html_text(h, names[k]);
		html_put(h, TAG_TYPE, 0, at[0], ARRAY_SIZE(names) - 1);
		for (size_t k = 1; k < ARRAY_SIZE(names); k++)
			html_put(h, at[k], KIND_SIGNED);
		h->epochs = ++h->ntype;
	}
	t = item_since(o, h, &i);
	w = item_who(o, h, &i);
	html_put(h, TAG_EVENT + h->epochs - 1, t, w, zigzag((int64_t)e->e->map.offset),
		 zigzag(e->e->has_pv ? e->e->pv.version : 0));
}

static void html_attach(struct out *o, unsigned int tag, const char *json)
{
	struct html *h = o->priv;

	if (json)
		html_put(h, tag, string_define(h, json, strlen(json)));
}

void out_html_latency(struct out *o, const char *json)
{
	html_attach(o, TAG_LATENCY, json);
}

void out_html_spikes(struct out *o, const char *json)
{
	html_attach(o, TAG_SPIKES, json);
}

static void html_end(struct out *o)
{
	struct html *h = o->priv;

	if (h->begun)
		put_day(o, h);
	base64(h, &o->line, true);
	sbuf_add(&o->line, strstr(html_page, MARK) + strlen(MARK));
	strings_free(h->text, h->nstring);
	sbuf_free(&h->data);
	evinfos_free(&h->infos);
	u64map_free(&h->strings);
	u64map_free(&h->types);
	u64map_free(&h->whos);
	free(h);
	o->priv = NULL;
}

const struct out_format out_html = {
	.name = "html",
	.begin = html_begin,
	.item = html_item,
	.epoch = html_epoch,
	.end = html_end,
};
