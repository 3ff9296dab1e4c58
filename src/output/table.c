/* SPDX-License-Identifier: GPL-2.0-or-later */
/* table.c: tables for people and for programs. */
#include "kvmft/table.h"

#include <ctype.h>

#define FLUSH_AT (32u << 10)

/* ---- text: columns as wide as their contents ---- */

void cell_text(struct row *r, unsigned int in, const char *head, const char *fmt, ...)
{
	unsigned int at = r->c.at, bit = 1u << at;
	char text[512];
	va_list ap;
	int n;
	const char *s;

	if (r->form != ROW_TEXT || at >= COLUMNS_MAX)
		return;
	r->c.at++;
	r->filled = true;
	if (r->head) {
		r->c.left |= in & COL_LEFT ? bit : 0;
		r->c.hide |= in & COL_HIDE ? bit : 0;
		r->c.drop[0] |= in & COL_DROP1 ? bit : 0;
		r->c.drop[1] |= in & COL_DROP2 ? bit : 0;
		r->c.more |= in & COL_MORE ? bit : 0;
		r->c.name |= in & COL_NAME ? bit : 0;
		r->c.alone |= in & COL_ALONE ? bit : 0;
	}
	if (r->c.hide & bit)
		return;
	va_start(ap, fmt);
	n = r->head ? snprintf(text, sizeof(text), "%s", head)
		    : vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	/* Each is taken to be one column wide, as screen_cut() does. */
	s = text;
	n = 0;
	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	if (!r->c.print) {
		r->c.width[at] = MAX(r->c.width[at], (unsigned int)n);
		return;
	}
	if (r->c.alone & bit && r->c.width[at] == 1) {
		if (text[0])
			sbuf_addf(r->b, "%s\n", text);
		text[0] = '\0';
		n = 0;
	}
	n = MAX((int)r->c.width[at] - n, 0);
	sbuf_addf(r->b, "%s%*s%s%*s", (bit - 1) & ~r->c.hide ? " " : "", r->c.left & bit ? 0 : n,
		  "", text, r->c.left & bit ? n : 0, "");
}

static bool table_fits(const struct row *r, unsigned int width)
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < COLUMNS_MAX; i++)
		if (r->c.width[i] && !(r->c.hide >> i & 1))
			sum += r->c.width[i] + (sum > 0);
	return !width || sum <= width;
}

static void drop_columns(struct row *r, unsigned int width)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->c.drop) && !table_fits(r, width); i++)
		r->c.hide |= r->c.drop[i];
}

static void table_rows(const struct table *t, struct row *r)
{
	struct sbuf *out = r->j ? r->j->out : r->b;

	for (size_t i = 0; i < t->n && !out->error; i++) {
		size_t from = r->j ? 0 : r->b->len;

		r->dim = false;
		t->cells(r, t->ctx, i);
		if (r->filled)
			row_end(r);
		if (r->dim && r->c.print)
			screen_paint(r->b, from, r->b->len - 1, "2");
		if (t->flush && !out->error && out->len >= FLUSH_AT)
			out->error = t->flush(t->arg, out);
	}
}

static void text_pass(const struct table *t, struct row *r)
{
	size_t from = r->b->len;

	r->head = true;
	t->cells(r, t->ctx, 0);
	row_end(r);
	if (r->c.print && t->bold)
		screen_paint(r->b, from, r->b->len - 1, "1");
	if (r->c.print && t->blank)
		sbuf_addc(r->b, '\n');
	r->head = false;
	table_rows(t, r);
	if (r->c.print && t->cut)
		sbuf_addf(r->b, "%*s\n", (int)r->c.width[0], "...");
}

void table_text(const struct table *t, struct sbuf *b)
{
	struct row r = { .form = ROW_TEXT, .b = b, .cycles = t->cycles };

	if (!t->fixed)
		text_pass(t, &r);
	for (size_t i = 0; t->fixed && t->fixed[i]; i++)
		r.c.width[i] = t->fixed[i];
	drop_columns(&r, t->width);
	if (r.c.alone && !table_fits(&r, t->width))
		r.c.width[0] = 1;
	if (r.c.more && !table_fits(&r, t->width)) {
		r.c.hide = r.c.more;
		drop_columns(&r, t->width);
	}
	r.c.print = true;
	text_pass(t, &r);
	if (!(r.c.hide & r.c.more))
		return;
	sbuf_addc(b, '\n');
	r.c.hide = ~(r.c.more | r.c.name);
	text_pass(t, &r);
}

/* ---- for programs ---- */

void table_csv(const struct table *t, bool head, struct sbuf *b)
{
	struct row r = { .form = ROW_CSV, .b = b, .cycles = t->cycles, .head = true };

	if (head) {
		t->cells(&r, t->ctx, 0);
		row_end(&r);
	}
	r.head = false;
	table_rows(t, &r);
}

void table_json(const struct table *t, const char *key, struct json *j)
{
	struct row r = { .form = ROW_JSON, .j = j, .cycles = t->cycles };

	json_put_array(j, key);
	table_rows(t, &r);
	json_array_end(j);
}

void table_doc(const struct table *t, bool csv, const char *key,
	       void (*head)(struct json *j, const void *ctx), struct sbuf *b)
{
	struct json j;

	if (csv) {
		table_csv(t, true, b);
		return;
	}
	json_line_begin(&j, b);
	head(&j, t->ctx);
	table_json(t, key, &j);
	json_line_end(&j);
}

void row_json(struct row *r, struct json *j, bool cycles)
{
	*r = (struct row){ .form = ROW_JSON, .j = j, .cycles = cycles, .filled = true };
	json_object_begin(j);
}

void row_end(struct row *r)
{
	r->c.at = 0;
	r->filled = false;
	if (r->form == ROW_JSON) {
		json_object_end(r->j);
		return;
	}
	if (r->form == ROW_TEXT && !r->c.print)
		return;
	while (r->form == ROW_TEXT && r->b->len && r->b->s[r->b->len - 1] == ' ')
		r->b->s[--r->b->len] = '\0';
	sbuf_addc(r->b, '\n');
}

/* A column begins. JSON: true, if it is that; else whether its value is wanted as CSV's field. */
static bool in_json(struct row *r)
{
	if (r->form != ROW_JSON)
		return false;
	if (!r->filled)
		json_object_begin(r->j);
	r->filled = true;
	return true;
}

static bool in_csv(struct row *r, const char *name)
{
	if (r->form != ROW_CSV)
		return false;
	if (r->filled)
		sbuf_addc(r->b, ',');
	r->filled = true;
	if (r->head)
		sbuf_add(r->b, name);
	return !r->head;
}

void row_str(struct row *r, const char *name, const char *text)
{
	if (in_csv(r, name))
		sbuf_add_csv(r->b, text);
	else if (in_json(r))
		json_put_str(r->j, name, text);
}

void row_quoted(struct row *r, const char *name, const char *text)
{
	if (in_csv(r, name))
		sbuf_add_csv_quoted(r->b, text);
	else if (in_json(r))
		json_put_str(r->j, name, text);
}

void row_u64(struct row *r, const char *name, bool known, uint64_t v)
{
	if (in_csv(r, name) && known)
		sbuf_add_u64(r->b, v);
	else if (in_json(r))
		json_put_known_u64(r->j, name, known, v);
}

void row_s64(struct row *r, const char *name, bool known, int64_t v)
{
	if (in_csv(r, name) && known)
		sbuf_add_s64(r->b, v);
	else if (in_json(r))
		json_put_known_s64(r->j, name, known, v);
}

void row_bool(struct row *r, const char *name, bool known, bool v)
{
	if (in_csv(r, name) && known)
		sbuf_addc(r->b, v ? '1' : '0');
	else if (in_json(r) && known)
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
	} else if (in_json(r)) {
		json_put_fixed(r->j, name, v, scale);
	}
}

void row_time(struct row *r, const char *name, bool known, uint64_t time)
{
	char full[48];

	snprintf(full, sizeof(full), "%s_%s", name,
		 r->cycles	       ? "cycles"
		 : r->form == ROW_JSON ? "ns"
				       : "us");
	if (r->cycles || r->form == ROW_JSON)
		row_u64(r, full, known, time);
	else if (in_csv(r, full) && known)
		sbuf_addf(r->b, "%" PRIu64 ".%03u", time / 1000, (unsigned int)(time % 1000));
}

void cell_str(struct row *r, unsigned int in, const char *name, const char *head, const char *text)
{
	if (r->form & in & IN_TEXT)
		cell_text(r, in, head, "%s", text ?: "-");
	else if (r->form & in)
		row_str(r, name, text);
}

void cell_u64(struct row *r, unsigned int in, const char *name, const char *head, bool known,
	      uint64_t v)
{
	if (r->form & in & IN_TEXT)
		cell_text(r, in, head, known ? "%" PRIu64 : "-", v);
	else if (r->form & in)
		row_u64(r, name, known, v);
}

void text_wrap(struct sbuf *b, size_t from, const char *indent, unsigned int width)
{
	_cleanup_free_ char *text = width && from < b->len ? xstrdup(b->s + from) : NULL;
	const char *word = text;
	size_t column = 0;

	if (text)
		b->len = from;
	while (text && *word) {
		size_t gap = strspn(word, " "), n = gap + strcspn(word + gap, " \n");

		/* Up to a blank at which a line may be broken: none between number and unit. */
		while (n > gap && word[n] == ' ' && isdigit((unsigned char)word[n - 1]) &&
		       (isalpha((unsigned char)word[n + 1]) || word[n + 1] == '%'))
			n += 1 + strcspn(word + n + 1, " \n");
		n -= gap;

		if (column && column + gap + n > width) {
			sbuf_addf(b, "\n%s", indent);
			column = strlen(indent);
			word += gap;
			gap = 0;
		}
		sbuf_add_mem(b, word, gap + n);
		column += gap + n;
		word += gap + n;
		if (*word == '\n') {
			sbuf_addc(b, '\n');
			column = 0;
			word++;
		}
	}
}

void text_remarks(struct sbuf *b, const char *const *remark, size_t n, unsigned int width)
{
	size_t from = b->len;

	for (size_t i = 0; i < n; i++)
		sbuf_addf(b, "# %s\n", remark[i]);
	text_wrap(b, from, "#   ", width);
}

/* ---- metrics ---- */

void metric_head(struct sbuf *b, const char *name, const char *type, const char *help)
{
	sbuf_addf(b, "# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

void metric_label(struct sbuf *b, const char *name, const char *value)
{
	size_t left = value ? strlen(value) : 0;

	sbuf_addf(b, "%s%s=\"", b->len && b->s[b->len - 1] == '{' ? "" : ",", name);
	while (left) {
		size_t n = str_utf8_len(value, left);

		if (*value == '\n')
			sbuf_add(b, "\\n");
		else if (*value == '\\' || *value == '"')
			sbuf_addf(b, "\\%c", *value);
		else if (!n)
			sbuf_addc(b, '?');
		else
			sbuf_add_mem(b, value, n);
		value += n ?: 1;
		left -= n ?: 1;
	}
	sbuf_addc(b, '"');
}

static const char *uuid_of(const struct hostmap_vm *vm)
{
	return vm->cap && vm->cap->uuid ? vm->cap->uuid : "";
}

void metric_vm(struct sbuf *b, const struct hostmap_vm *vms, const struct hostmap_vm *vm)
{
	size_t number = 1;

	for (const struct hostmap_vm *v = vms; vm && v < vm; v++)
		number += !strcmp(v->label, vm->label) && !strcmp(uuid_of(v), uuid_of(vm));
	metric_label(b, "vm", vm ? vm->label : NULL);
	metric_label(b, "uuid", vm ? uuid_of(vm) : NULL);
	if (number > 1)
		sbuf_addf(b, ",number=\"%zu\"", number);
}

void metric_of_vm(struct sbuf *b, const char *name, const struct hostmap_vm *vms,
		  const struct hostmap_vm *vm, const char *label, const char *value)
{
	sbuf_addf(b, "%s{", name);
	metric_vm(b, vms, vm);
	if (label)
		metric_label(b, label, value);
	sbuf_add(b, "} ");
}

void metric_seconds(struct sbuf *b, uint64_t ns)
{
	sbuf_addf(b, "%" PRIu64 ".%09u", ns / 1000000000, (unsigned int)(ns % 1000000000));
}
