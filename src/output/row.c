/* SPDX-License-Identifier: GPL-2.0-or-later */
/* row.c: rows of a table for programs. */
#include "kvmft/row.h"

#include <inttypes.h>

void row_json(struct row *r, struct json *j, bool cycles)
{
	*r = (struct row){ .form = ROW_JSON, .j = j, .cycles = cycles };
	json_object_begin(j);
}

void row_csv(struct row *r, struct sbuf *b, bool cycles)
{
	*r = (struct row){ .form = ROW_CSV, .b = b, .cycles = cycles };
}

void row_head(struct row *r, struct sbuf *b, bool cycles)
{
	*r = (struct row){ .form = ROW_HEAD, .b = b, .cycles = cycles };
}

void row_end(struct row *r)
{
	if (r->form == ROW_JSON)
		json_object_end(r->j);
	else
		sbuf_addc(r->b, '\n');
}

/* A column begins; whether its value is wanted as a field of CSV. */
static bool in_csv(struct row *r, const char *name)
{
	if (r->form == ROW_JSON)
		return false;
	if (r->filled)
		sbuf_addc(r->b, ',');
	r->filled = true;
	if (r->form == ROW_HEAD)
		sbuf_add(r->b, name);
	return r->form == ROW_CSV;
}

void row_str(struct row *r, const char *name, const char *text)
{
	if (in_csv(r, name))
		sbuf_add_csv(r->b, text);
	else if (r->form == ROW_JSON)
		json_put_str(r->j, name, text);
}

void row_quoted(struct row *r, const char *name, const char *text)
{
	if (in_csv(r, name))
		sbuf_add_csv_quoted(r->b, text);
	else if (r->form == ROW_JSON)
		json_put_str(r->j, name, text);
}

void row_u64(struct row *r, const char *name, bool known, uint64_t v)
{
	if (in_csv(r, name) && known)
		sbuf_add_u64(r->b, v);
	else if (r->form == ROW_JSON)
		json_put_known_u64(r->j, name, known, v);
}

void row_s64(struct row *r, const char *name, bool known, int64_t v)
{
	if (in_csv(r, name) && known)
		sbuf_add_s64(r->b, v);
	else if (r->form == ROW_JSON)
		json_put_known_s64(r->j, name, known, v);
}

void row_bool(struct row *r, const char *name, bool known, bool v)
{
	if (in_csv(r, name) && known)
		sbuf_addc(r->b, v ? '1' : '0');
	else if (r->form == ROW_JSON && known)
		json_put_bool(r->j, name, v);
	else if (r->form == ROW_JSON)
		json_put_str(r->j, name, NULL);
}

void row_fixed(struct row *r, const char *name, uint64_t v, unsigned int scale)
{
	struct json number;

	if (in_csv(r, name)) {
		json_init(&number, r->b);
		json_fixed_u64(&number, v, scale);
	} else if (r->form == ROW_JSON) {
		json_put_fixed(r->j, name, v, scale);
	}
}

void row_time(struct row *r, const char *name, bool known, uint64_t time)
{
	char full[48];

	snprintf(full, sizeof(full), "%s_%s", name,
		 r->cycles ? "cycles" : r->form == ROW_JSON ? "ns" : "us");
	if (r->cycles || r->form == ROW_JSON)
		row_u64(r, full, known, time);
	else if (in_csv(r, full) && known)
		sbuf_addf(r->b, "%" PRIu64 ".%03u", time / 1000, (unsigned int)(time % 1000));
}
