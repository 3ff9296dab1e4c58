/* SPDX-License-Identifier: GPL-2.0-or-later */
/* many_print.c: the results for many captures, and their sum. */
#include "cmds.h"
#include "kvmft/table.h"

#define ROWS_MAX 4096u /* of the sum */

/* ---- the sum ---- */

struct sum {
	struct many_row *v;
	size_t n, cap;
	size_t captures; /* that have rows */
	uint64_t all;
	unsigned __int128 total;
};

/* A capture may claim that it took centuries. */
static uint64_t u64_cut(unsigned __int128 v)
{
	return (uint64_t)MIN(v, (unsigned __int128)UINT64_MAX);
}

static void total_add(unsigned __int128 *sum, unsigned __int128 v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = ~(unsigned __int128)0;
}

static void count_add(uint64_t *sum, uint64_t v)
{
	*sum = u64_cut((unsigned __int128)*sum + v);
}

static void sum_rows(struct sum *s, const struct sbuf *rows)
{
	struct many_row r;

	s->captures += rows->len > 0;
	for (size_t at = 0; at + sizeof(r) <= rows->len; at += sizeof(r)) {
		struct many_row *to = NULL;

		memcpy(&r, rows->s + at, sizeof(r));
		r.name[sizeof(r.name) - 1] = '\0';
		str_printable(r.name);
		for (size_t i = 0; i < s->n && !to; i++)
			if (!strcmp(s->v[i].name, r.name))
				to = &s->v[i];
		count_add(&s->all, r.n);
		total_add(&s->total, r.total);
		if (!to && s->n == ROWS_MAX)
			to = &s->v[ROWS_MAX - 1];
		if (!to) {
			struct many_row new = r;

			if (s->n == ROWS_MAX - 1)
				strcpy(new.name, "(others)");
			xarray_add(&s->v, &s->n, &s->cap, &new, sizeof(new));
		} else {
			to->min = !to->timed ? r.min : r.timed ? MIN(to->min, r.min) : to->min;
			to->max = MAX(to->max, r.max);
			count_add(&to->n, r.n);
			count_add(&to->timed, r.timed);
			total_add(&to->total, r.total);
		}
	}
}

static uint64_t row_mean(const struct many_row *r)
{
	return r->timed ? u64_cut(r->total / r->timed) : 0;
}

static uint64_t by_value(const struct many_row *r, enum report_key key)
{
	switch (key) {
	case KEY_TIME:
	case KEY_TIME_PCT: return u64_cut(r->total);
	case KEY_MAX: return r->max;
	case KEY_MIN: return r->min;
	case KEY_MEAN: return row_mean(r);
	case KEY_NAME: return 0; /* equal ones are by name */
	default: return r->n;
	}
}

static int by_key(const void *a, const void *b, void *key)
{
	const struct many_row *x = a, *y = b;
	uint64_t v = by_value(x, *(enum report_key *)key), w = by_value(y, *(enum report_key *)key);

	return ORDER(w, v) ?: strcmp(x->name, y->name);
}

/* ---- printing ---- */

static double sum_percent(unsigned __int128 part, unsigned __int128 whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* "1.23us", rounded. */
static const char *us_text(uint64_t ns, char text[32])
{
	ns += MIN(5, UINT64_MAX - ns);
	snprintf(text, 32, "%" PRIu64 ".%02uus", ns / 1000, (unsigned int)(ns % 1000 / 10));
	return text;
}

struct sum_doc {
	const struct many_doc *d;
	const struct sum *s;
};

/* With the columns of the tables above it. */
static void sum_cells(struct row *o, const void *ctx, size_t i)
{
	static const struct many_row none;
	const struct many_doc *d = ((const struct sum_doc *)ctx)->d;
	const struct sum *s = ((const struct sum_doc *)ctx)->s;
	const struct many_row *r = o->head ? &none : &s->v[i];
	char text[32];

	cell_str(o, IN_ALL, "name", d->title, r->name);
	cell_u64(o, IN_TEXT, NULL, d->what, true, r->n);
	row_u64(o, "count", true, r->n);
	cell_text(o, 0, TEXTF("%s%%", d->what), "%.2f%%", sum_percent(r->n, s->all));
	cell_text(o, 0, "Time%", "%.2f%%", sum_percent(r->total, s->total));
	row_time(o, "total", true, u64_cut(r->total));
	cell_text(o, 0, "Min Time", "%s", us_text(r->min, text));
	row_time(o, "min", true, r->min);
	cell_text(o, 0, "Max Time", "%s", us_text(r->max, text));
	row_time(o, "max", true, r->max);
	cell_text(o, 0, "Avg time", "%s", us_text(row_mean(r), text));
}

static void sum_head(struct json *j, const void *ctx)
{
	const struct sum_doc *x = ctx;

	json_put_u64(j, "captures", x->s->captures);
	json_put_str(j, "of", x->d->of);
}

static bool format_is(const struct many_doc *d, const char *format)
{
	return !strcmp(d->format, format);
}

static const char *without_name(const char *text, const char *input)
{
	size_t len = strlen(input);

	if (str_starts(text, "kvmft: "))
		text += strlen("kvmft: ");
	if (!str_starts(text, input) || (text[len] != ':' && text[len] != ' '))
		return text;
	text += len;
	return text + strspn(text, ": ");
}

/* Each remark names its capture; what is said of a damaged one is one line. */
static void tell_result(const struct many_result *r, const char *input)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char *save = NULL, *line = r->notes.len ? strtok_r(r->notes.s, "\n", &save) : NULL;

	for (; line; line = strtok_r(NULL, "\n", &save)) {
		const char *text = without_name(line, input);

		if (r->code == KVMFT_OK)
			cli_note("%s: %s", input, text);
		else
			sbuf_addf(&b, "%s%s", b.len ? "; " : "", text);
	}
	if (r->code < 0)
		sbuf_addf(&b, "%s%s", b.len ? "; " : "", without_name(r->why, input));
	if (b.len)
		cli_note("%s: %s", input, b.s);
}

static int many_print_all(struct many *m, const struct many_doc *d, struct sum *s, size_t *good,
			  bool *complete)
{
	_cleanup_(many_result_free) struct many_result r = { .code = 0 };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const struct str_list *list = many_inputs(m);
	int ret = 0;

	for (size_t i = 0; i < list->n && !ret; i++) {
		_cleanup_free_ char *input = xstrdup(list->v[i]);

		ret = many_result(m, i, &r);
		if (ret)
			break;
		str_printable(input);
		if (format_is(d, "json")) {
			struct many_result *result = &r;
			struct json j;

			json_line_begin(&j, &b);
			json_put_str(&j, "capture", input);
			json_put_s64(&j, "exit", result->code < 0 ? KVMFT_FAILED : result->code);
			if (result->code < 0)
				json_put_str(&j, "error", result->why);
			json_line_end(&j);
			if (!b.error && result->code >= 0) {
				/* The result is itself an object, and is inserted unchanged. */
				b.len -= 2;
				while (result->text.len &&
				       result->text.s[result->text.len - 1] == '\n')
					result->text.s[--result->text.len] = '\0';
				sbuf_addf(&b, ",\"result\":%s}\n", result->text.s);
			}
		} else if (r.code >= 0 && format_is(d, "csv")) {
			bool head = !*good;
			bool first = true;

			/* One header for all, and the capture's name before each row. */
			for (const char *p = r.text.s, *end; p && *p; p = end) {
				end = strchrnul(p, '\n');
				end += *end == '\n';
				if (!first || head) {
					if (first)
						sbuf_add(&b, "capture");
					else
						sbuf_add_csv_quoted(&b, input);
					sbuf_addc(&b, ',');
					sbuf_add_mem(&b, p, (size_t)(end - p));
				}
				first = false;
			}
		} else if (r.code >= 0) {
			sbuf_addf(&b, "%s==> %s <==\n", (!*good) ? "" : "\n", input);
			sbuf_add_mem(&b, r.text.s, r.text.len);
		}
		tell_result(&r, input);
		*complete &= r.code == KVMFT_OK;
		*good += r.code >= 0;
		if (!b.error && r.code >= 0)
			sum_rows(s, &r.rows);
		ret = sbuf_write(&b, d->f);
	}
	return ret;
}

int many_print(struct many *m, const struct many_doc *d, struct kvmft_err *err)
{
	struct sum s = { 0 };
	size_t good = 0, n = many_inputs(m)->n;
	bool complete = true;
	int ret = many_print_all(m, d, &s, &good, &complete);

	if (ret && ferror(d->f)) {
		ret = errno == EPIPE ? -EPIPE : err_why(err, ret, "cannot write");
	} else if (ret) {
		err_set(err, -ret, "cannot take over the results: %s", strerror(-ret));
	} else if (!good) {
		ret = err_set(err, ENODATA, "none of %zu captures gave a result", n);
	} else {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };
		enum report_key key = d->key;

		if (s.n)
			qsort_r(s.v, s.n, sizeof(*s.v), by_key, &key);
		if (s.total > UINT64_MAX && !format_is(d, "csv"))
			cli_note(
				"times add up to more than 584 years: such a sum is shown as the largest "
				"number of ns in 64 bits");
		if (format_is(d, "json") || (format_is(d, "text") && s.captures > 1)) {
			const struct sum_doc x = { d, &s };
			struct table t = { .cells = sum_cells, .ctx = &x, .n = s.n, .blank = true };
			char text[32];

			if (format_is(d, "json")) {
				table_doc(&t, false, "together", sum_head, &b);
			} else {
				t.n = d->top ? MIN(d->top, s.n) : s.n;
				t.cut = t.n < s.n;
				sbuf_addf(&b, "\n==> all %zu together <==\n\n", s.captures);
				table_text(&t, &b);
				sbuf_addf(&b, "\nTotal %s:%" PRIu64 ", %s:%s.\n", d->what, s.all,
					  d->times, us_text(u64_cut(s.total), text));
			}
		}
		ret = sbuf_write(&b, d->f);
	}
	if (!ret && good < n)
		cli_note("%zu of %zu captures gave no result: the others are shown", n - good, n);
	free(s.v);
	if (ret)
		return ret == -EPIPE ? KVMFT_OK : ret;
	return complete ? KVMFT_OK : KVMFT_INCOMPLETE;
}
