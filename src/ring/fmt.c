/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt.c: all event formats of one capture, found by id and by name.
 *
 * Two captures (a host and a guest) have two of these: ids, offsets and even fields differ
 * between kernels.
 */

#include <ctype.h>

#include "kvmft/put.h"
#include "fmt_plan.h"

/* ---- values of fields, every access checked against the record ---- */

#define SHOWN_ELEMENTS 64 /* of an array without a print format */

bool fmt_bytes(const struct fmt_field *fld, const struct rec *rec, const uint8_t **p, uint32_t *len)
{
	uint32_t off = fld->off, n = fld->size, loc;

	if (!n && fld->is_array) {
		/*
		 * "char buf[]" of size 0 is the rest of the record. In a text that was written to
		 * trace_marker, neither the padding nor the newline at its end belongs to it.
		 */
		if (fld->off > rec->len)
			return false;
		*p = rec->data + fld->off;
		*len = rec->len - fld->off;
		if (!fld->is_string)
			return true;
		*len = (uint32_t)strnlen((const char *)*p, *len);
		*len -= *len && (*p)[*len - 1] == '\n';
		return true;
	}
	if (!n || off + n > rec->len)
		return false;
	if (fld->is_dynamic) {
		loc = (uint32_t)fmt_get(rec->data + off, 4);
		off = (loc & 0xffff) + (fld->is_relative ? off + 4u : 0);
		n = loc >> 16;
		if (off > rec->len || n > rec->len - off)
			return false;
	}
	*p = rec->data + off;
	*len = n;
	return true;
}

bool fmt_str(const struct fmt_field *fld, const struct rec *rec, char *buf, size_t size)
{
	const uint8_t *p;
	uint32_t len;
	size_t n;

	if (!size || !fld->is_string || !fmt_bytes(fld, rec, &p, &len))
		return false;
	n = strnlen((const char *)p, MIN((size_t)len, size - 1));
	memcpy(buf, p, n);
	buf[n] = '\0';
	str_printable(buf);
	return true;
}

int32_t fmt_pid_slow(const struct fmt *f, const struct rec *rec)
{
	uint64_t v;

	return fmt_u64(&f->pid, rec, &v) ? (int32_t)v : -1;
}

uint8_t fmt_flags(const struct fmt *f, const struct rec *rec)
{
	uint64_t v;

	return fmt_u64(&f->flags, rec, &v) ? (uint8_t)v : 0;
}

uint8_t fmt_preempt(const struct fmt *f, const struct rec *rec)
{
	uint64_t v;

	return fmt_u64(&f->preempt, rec, &v) ? (uint8_t)v : 0;
}

void fmt_value(const struct fmt_field *fld, const struct rec *rec, struct fmt_value *v)
{
	uint32_t len;

	*v = (struct fmt_value){ .kind = FMT_ABSENT };
	if (fmt_u64(fld, rec, &v->num)) {
		v->kind = fld->is_pointer  ? FMT_POINTER
			  : fld->is_signed ? FMT_SIGNED
					   : FMT_UNSIGNED;
	} else if (!fmt_bytes(fld, rec, &v->p, &len)) {
		return;
	} else if (fld->is_string) {
		v->kind = FMT_STRING;
		v->len = (uint32_t)strnlen((const char *)v->p, len);
	} else {
		v->kind = FMT_NUMBERS;
		v->elem = fmt_is_number(fld->elem) ? fld->elem : 1;
		v->len = len / v->elem;
	}
}

uint64_t fmt_element(const struct fmt_value *v, uint32_t i)
{
	return fmt_get(v->p + (size_t)i * v->elem, v->elem);
}

void fmt_print_fields(const struct fmt_event *e, const struct rec *rec, struct sbuf *out)
{
	size_t i, at;
	uint32_t k;

	for (i = e->ncommon; i < e->nfld; i++) {
		struct fmt_value v;

		if (i > e->ncommon)
			sbuf_addc(out, ' ');
		sbuf_add(out, e->fld[i].name);
		sbuf_addc(out, '=');
		fmt_value(&e->fld[i].f, rec, &v);
		switch (v.kind) {
		case FMT_ABSENT: sbuf_addc(out, '?'); break; /* not inside this record */
		case FMT_UNSIGNED: sbuf_add_u64(out, v.num); break;
		case FMT_SIGNED: sbuf_add_s64(out, (int64_t)v.num); break;
		case FMT_POINTER:
			sbuf_add(out, "0x");
			sbuf_add_hex(out, v.num);
			break;
		case FMT_STRING:
			at = out->len;
			sbuf_add_mem(out, v.p, v.len);
			if (!out->error && v.len)
				str_printable(out->s + at);
			break;
		case FMT_NUMBERS:
			sbuf_addc(out, '{');
			for (k = 0; k < v.len && k < SHOWN_ELEMENTS; k++) {
				sbuf_add(out, k ? ",0x" : "0x");
				sbuf_add_hex(out, fmt_element(&v, k));
			}
			sbuf_add(out, k < v.len ? ",...}" : "}");
			break;
		}
	}
}

/*
 * The field part of a format text.
 *
 *   name: kvm_exit
 *   ID: 103
 *   format:
 *   	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
 *   	...
 *                                             (an empty line ends the common fields)
 *   	field:char comm[16];	offset:8;	size:16;	signed:0;
 *   	field:__data_loc char[] cmd;	offset:24;	size:4;	signed:0;
 *
 *   print fmt: "...", REC->...
 *
 * Values are read through these offsets: whatever the text says, no field is outside 64 KiB and
 * every access is checked against the record.
 */

#define MAX_EXTENT 65536
#define FIELD	   "\tfield:" /* how the line of a field begins */

/* "KEY:NUMBER;" after blanks at *p, which moves past it. key has n bytes, including its ':'. */
static bool line_number(const char **p, const char *end, const char *key, size_t n, uint32_t *v)
{
	const char *at = *p;
	size_t digits = 0;

	while (at < end && (*at == '\t' || *at == ' '))
		at++;
	if ((size_t)(end - at) <= n || memcmp(at, key, n))
		return false;
	at += n;
	for (*v = 0; at < end && *at >= '0' && *at <= '9' && digits < 9; at++, digits++)
		*v = *v * 10 + (uint32_t)(*at - '0');
	if (!digits || at >= end || *at != ';')
		return false;
	*p = at + 1;
	return true;
}

static bool span_has(const char *p, const char *end, const char *word)
{
	return memmem(p, (size_t)(end - p), word, strlen(word));
}

/* The size of one array element: from the count in brackets, or from the type's name. */
static uint16_t elem_size(const char *decl, const char *name, const char *close, uint32_t size,
			  bool dynamic)
{
	static const struct {
		const char *type;
		uint16_t size;
	} known[] = {
		{ "u8", 1 },   { "s8", 1 },    { "char", 1 }, { "u16", 2 },
		{ "s16", 2 },  { "short", 2 }, { "u64", 8 },  { "s64", 8 },
		{ "long", 8 }, { "u32", 4 },   { "s32", 4 },  { "int", 4 },
	};
	const char *open = memchr(name, '[', (size_t)(close - name));
	uint32_t count = 0, digits = 0;
	size_t i;

	if (open && !dynamic) {
		for (open++; open < close && isdigit((unsigned char)*open) && digits < 6; open++) {
			count = count * 10 + (uint32_t)(*open - '0');
			digits++;
		}
		if (count && size % count == 0)
			return (uint16_t)(size / count);
	}
	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (span_has(decl, name, known[i].type))
			return known[i].size;
	return 1;
}

/* The line of a field, from "DECLARATION;" on. */
static int parse_field(struct fmt_event *e, const char *decl, const char *eol)
{
	const char *semi = memchr(decl, ';', (size_t)(eol - decl)), *end = semi,
		   *p = (semi ?: decl) + 1, *name;
	uint32_t off, size, sign = 0;
	struct fmt_fld *fld;

	if (!semi || !line_number(&p, eol, "offset:", 7, &off) ||
	    !line_number(&p, eol, "size:", 5, &size) || off > MAX_EXTENT || size > MAX_EXTENT ||
	    off + size >= MAX_EXTENT)
		return -EBADMSG;
	line_number(&p, eol, "signed:", 7, &sign); /* absent in very old kernels */

	while (end > decl && end[-1] == ' ')
		end--;
	if (end > decl && end[-1] == ']') {
		while (end > decl && end[-1] != '[')
			end--;
		if (end == decl)
			return -EBADMSG;
		end--; /* NAME[...] */
	}
	name = end;
	while (name > decl && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
		name--;
	if (name == end || name == decl || e->nfld >= FMT_MAX_FIELDS)
		return -EBADMSG;
	if (fmt_find_fld(e, name, (size_t)(end - name)))
		return 0; /* the first one wins */
	fld = xarray_grow(&e->fld, e->nfld, &e->fld_cap, sizeof(*fld));
	fld->f.off = (uint16_t)off;
	fld->f.size = (uint16_t)size;
	fld->f.is_signed = sign;
	fld->decl = decl;
	fld->f.is_relative = *decl == '_' && span_has(decl, name, "__rel_loc");
	fld->f.is_dynamic =
		fld->f.is_relative || (*decl == '_' && span_has(decl, name, "__data_loc"));
	fld->f.is_array = fld->f.is_dynamic || memchr(decl, '[', (size_t)(semi - decl)) ||
			  !size; /* text of trace_marker before Linux 5.6 */
	fld->f.is_pointer = memchr(decl, '*', (size_t)(name - decl));
	fld->f.is_string = fld->f.is_array && span_has(decl, name, "char") &&
			   !span_has(decl, name, "unsigned") && !fld->f.is_pointer;
	fld->f.elem = fld->f.is_array ? elem_size(decl, name, semi, size, fld->f.is_dynamic)
				      : (uint16_t)size;
	if (fld->f.is_dynamic && size != 4)
		return -EBADMSG;
	fld->name = fmt_name_copy(e->lazy->f, name, (size_t)(end - name));
	e->nfld++;
	e->line.need = MAX(e->line.need, off + size);
	return 0;
}

/*
 * Half of all fields are the common ones, the same text in each event of a kernel: if the fields
 * that begin at p do so as those of the first event, those are taken. The bytes that this covers,
 * with the empty line; 0: none.
 */
static size_t copy_common(struct fmt_event *e, const char *p, const char *end)
{
	const struct fmt_event *c = e->lazy->f->n ? e->lazy->f->event[0] : NULL;
	const char *from, *last;
	size_t n;

	if (!c || !c->ncommon || e->nfld)
		return 0;
	from = c->fld[0].decl - strlen(FIELD);
	last = strchr(c->fld[c->ncommon - 1].decl, '\n');
	n = last ? (size_t)(last + 2 - from) : 0;
	if (!n || last[1] != '\n' || n > (size_t)(end - p) || memcmp(p, from, n))
		return 0;
	for (; e->nfld < c->ncommon; e->nfld++) {
		struct fmt_fld *fld = xarray_grow(&e->fld, e->nfld, &e->fld_cap, sizeof(*fld));

		*fld = c->fld[e->nfld];
		e->line.need = MAX(e->line.need, (uint32_t)fld->f.off + fld->f.size);
	}
	e->ncommon = e->nfld;
	return n;
}

/* Fills e->fld and the rest from e->text. -EBADMSG with *why set. */
static int fmt_parse_text(struct fmt_event *e, const char **why)
{
	const char *p = e->text, *end = e->text + e->len, *eol;
	bool have_id = false, have_name = false, in_fields = false;
	const struct fmt_fld *buf, *type;
	size_t common;
	uint32_t id;

	for (; p < end; p = eol + 1) {
		eol = memchr(p, '\n', (size_t)(end - p));
		eol = eol ?: end;
		if ((size_t)(eol - p) > strlen(FIELD) && !memcmp(p, FIELD, strlen(FIELD))) {
			in_fields = true;
			common = copy_common(e, p, end);
			if (common) {
				eol = p + common - 1;
				continue;
			}
			if (parse_field(e, p + strlen(FIELD), eol)) {
				*why = "a field is damaged or out of bounds";
				return -EBADMSG;
			}
		} else if (p == eol) {
			if (in_fields && !e->ncommon)
				e->ncommon = e->nfld;
		} else if (str_starts(p, "name: ")) {
			have_name = strlen(e->name) == (size_t)(eol - p) - 6 &&
				    !memcmp(p + 6, e->name, (size_t)(eol - p) - 6);
		} else if (str_starts(p, "ID: ")) {
			char num[16] = { 0 };
			uint64_t v = 0;

			memcpy(num, p + 4, MIN((size_t)(eol - p) - 4, sizeof(num) - 1));
			have_id = !parse_u64(num, &v) && v && v < 65536;
			id = (uint32_t)v;
			e->id = have_id ? (uint16_t)id : 0;
		} else if (str_starts(p, "print fmt: ")) {
			e->print = p + 11;
			break;
		}
	}
	/*
	 * The kernel prints "WHERE: TEXT" for what was written to trace_marker: WHERE is its own
	 * function that did the writing, always the same one, and only an address in a capture.
	 */
	buf = fmt_find_fld(e, "buf", strlen("buf"));
	if (e->print && !strcmp(e->sys, "ftrace") && !strcmp(e->name, "print") && buf &&
	    buf->f.is_string)
		e->print = "\"%s\", REC->buf";
	e->is_stack = !strcmp(e->sys, "ftrace") && !strcmp(e->name, "kernel_stack") &&
		      !fmt_find_fld(e, "text", strlen("text")); /* a trace as text has no addresses */
	e->is_printk = !strcmp(e->sys, "ftrace") &&
		       (!strcmp(e->name, "bprint") || !strcmp(e->name, "bputs"));
	/* The records of a capture are told apart by a u16 at their beginning. */
	type = fmt_find_fld(e, "common_type", strlen("common_type"));
	*why = !have_id					   ? "no valid ID line"
	       : !have_name				   ? "the name line is not the event's name"
	       : !type || type->f.off || type->f.size != 2 ? "no common_type at offset 0"
							   : NULL;
	return *why ? -EBADMSG : 0;
}

static void fmt_event_free(struct fmt_event *e)
{
	free(e->fld);
	for (size_t i = 0; i < e->lazy->ntab; i++)
		fmt_plan_free(e->lazy->tab[i]);
	free(e->lazy->tab);
	fmt_plan_free(e->lazy->plan);
	free(e->line.meaning);
	free(e); /* and what follows it */
}

/*
 * One block for everything that an event always has: a machine declares thousands of them. Its
 * texts, a megabyte of them, are the capture's if that stays.
 */
struct event_block {
	struct fmt_event e;
	struct fmt_lazy lazy;
	char text[]; /* the strings of e, each with its NUL; the title has PUT_SLACK bytes more */
};

/* n bytes of s and `end` at *at, which moves past them. */
static char *fmt_put_string(char **at, const char *s, size_t n, char end)
{
	char *to = *at;

	memcpy(to, s, n);
	to[n] = end;
	*at += n + 1;
	return to;
}

static struct fmt_event *fmt_event_new(struct fmt *f, const struct cap_format *c)
{
	size_t sys = strlen(c->sys), name = strlen(c->name), title = sys + 1 + name + 2;
	size_t own = f->of ? 0 : sys + 1 + name + 1 + c->len + 1;
	struct event_block *b = xcalloc(1, sizeof(*b) + own + title + PUT_SLACK);
	struct fmt_event *e = &b->e;
	char *at = b->text;

	e->sys = own ? fmt_put_string(&at, c->sys, sys, '\0') : c->sys;
	e->name = own ? fmt_put_string(&at, c->name, name, '\0') : c->name;
	e->text = own ? fmt_put_string(&at, c->text, c->len, '\0') : c->text;
	e->len = c->len;
	e->line.title = fmt_put_string(&at, c->sys, sys, ':');
	fmt_put_string(&at, c->name, name, ':');
	*at = ' ';
	e->line.title_len = title;
	e->lazy = &b->lazy;
	e->lazy->f = f;
	e->lazy->e = e;
	return e;
}

char *fmt_name_copy(struct fmt *f, const char *s, size_t n)
{
	struct fmt_names *names = f->names;
	char *copy;

	if (!names || n >= names->room) {
		names = xmalloc(sizeof(*names) + MAX(n + 1, (size_t)FMT_NAMES_BLOCK));
		names->next = f->names;
		names->used = 0;
		names->room = MAX(n + 1, (size_t)FMT_NAMES_BLOCK);
		f->names = names;
	}
	copy = names->text + names->used;
	memcpy(copy, s, n);
	copy[n] = '\0';
	names->used += n + 1;
	names->room -= n + 1;
	return copy;
}

/* What is wrong with a format goes to the capture, which is read without it. */
static void add_event(struct fmt *f, const struct cap_format *c)
{
	const char *why = "no text";
	struct fmt_event *e = NULL;

	/* What capture_open() has taken was checked by that. */
	if ((f->of && f->of->priv) || (c->text && c->len && c->len <= CAPTURE_MAX_FORMAT &&
				       strlen(c->text) == c->len && str_is_text(c->text, c->len))) {
		e = fmt_event_new(f, c);
		if (!fmt_parse_text(e, &why) && fmt_by_id(f, e->id))
			why = "its id is used by another event";
	}
	if (!why) {
		f->quick.by_id[e->id] = e;
		xarray_add(&f->event, &f->n, &f->cap, &e, sizeof(e));
		why = !e->print || c->text[c->len - 1] != '\n' ? "cut short" : NULL;
	} else if (e) {
		fmt_event_free(e);
	}
	if (f->of && why)
		capture_format_bad(f->of, c, why);
}

/* The common fields are the same in every event of a kernel: taken from the first. */
static void find_common(struct fmt *f)
{
	f->quick.pid_end = UINT32_MAX;
	if (!f->n)
		return;
	fmt_field(f->event[0], "common_pid", &f->pid);
	if (f->pid.size == 4 && !f->pid.is_array)
		f->quick.pid_end = f->pid.off + 4u;
	fmt_field(f->event[0], "common_flags", &f->flags);
	fmt_field(f->event[0], "common_preempt_count", &f->preempt);
}

struct fmt *fmt_load(const struct capture *cap)
{
	struct fmt *f = xcalloc(1, sizeof(*f));

	f->long_size = cap->long_size;
	f->of = cap->kallsyms || cap->priv ? cap : NULL; /* of formats alone there is none later */
	for (size_t i = 0; i < cap->nformat; i++)
		add_event(f, &cap->format[i]);
	find_common(f);
	return f;
}

int fmt_add(struct fmt *f, const struct cap_format *c)
{
	size_t before = f->n;

	add_event(f, c);
	if (!before)
		find_common(f);
	return f->n > before ? 0 : -EBADMSG;
}

void fmt_free(struct fmt *f)
{
	size_t i;

	if (!f)
		return;
	for (i = 0; i < f->n; i++)
		fmt_event_free(f->event[i]);
	while (f->names) {
		struct fmt_names *next = f->names->next;

		free(f->names);
		f->names = next;
	}
	fmt_stacks_free(f);
	free(f->event);
	free(f);
}

void fmt_event_means(const struct fmt_event *e, void *meaning)
{
	e->lazy->e->line.meaning = meaning;
}

const struct fmt_event *fmt_find(const struct fmt *f, const char *sys, const char *name)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		if (!strcmp(f->event[i]->name, name) && !strcmp(f->event[i]->sys, sys))
			return f->event[i];
	return NULL;
}

const struct fmt_event *fmt_at(const struct fmt *f, size_t i)
{
	return i < f->n ? f->event[i] : NULL;
}

const char *fmt_sys(const struct fmt_event *e)
{
	return e->sys;
}

const char *fmt_name(const struct fmt_event *e)
{
	return e->name;
}

uint16_t fmt_id(const struct fmt_event *e)
{
	return e->id;
}

const struct fmt_fld *fmt_find_fld(const struct fmt_event *e, const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < e->nfld; i++)
		if (!strncmp(e->fld[i].name, name, len) && !e->fld[i].name[len])
			return &e->fld[i];
	return NULL;
}

bool fmt_field(const struct fmt_event *e, const char *name, struct fmt_field *out)
{
	const struct fmt_fld *fld = fmt_find_fld(e, name, strlen(name));

	memset(out, 0, sizeof(*out));
	if (fld)
		*out = fld->f;
	return fld;
}

const char *fmt_field_name(const struct fmt_event *e, size_t i)
{
	return i < e->nfld ? e->fld[i].name : NULL;
}

const struct fmt_field *fmt_field_at(const struct fmt_event *e, size_t i)
{
	return i < e->nfld ? &e->fld[i].f : NULL;
}

size_t fmt_common_fields(const struct fmt_event *e)
{
	return e->ncommon;
}

bool fmt_has_plan(const struct fmt_event *e)
{
	struct fmt_lazy *lazy = e->lazy;

	if (!lazy->tried && !e->is_stack && !e->is_printk) {
		lazy->tried = true;
		lazy->plan = fmt_plan_new(lazy->f, e, NULL);
		if (lazy->plan)
			fmt_plan_quick(lazy->plan, lazy->e);
	}
	return lazy->plan;
}
