/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fmt_value.c: values of fields, every access checked against the record. */
#include "fmt_plan.h"

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

static void add_array(const struct fmt_value *v, struct sbuf *out)
{
	uint32_t i;

	sbuf_addc(out, '{');
	for (i = 0; i < v->len && i < SHOWN_ELEMENTS; i++) {
		sbuf_add(out, i ? ",0x" : "0x");
		sbuf_add_hex(out, fmt_element(v, i));
	}
	sbuf_add(out, i < v->len ? ",...}" : "}");
}

void fmt_print_fields(const struct fmt_event *e, const struct rec *rec, struct sbuf *out)
{
	size_t i, at;

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
		case FMT_NUMBERS: add_array(&v, out); break;
		}
	}
}
