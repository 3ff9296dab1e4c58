/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * diff_tables.c: two tables of `perf kvm stat report` or `kvmft report` as text, compared. They
 * hold sums alone: neither how long was recorded nor how much times varied, so nothing is judged.
 */
#include "diff_tables.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "kvmft/table.h"

#define TABLE_MAX (1u << 20) /* bytes; a recording is larger, or no text */
#define ROWS_MAX  4096u
#define BLANKS	  " \t\r"
#define MARKS	  " \t\r>|" /* before a line: a mail's quotes, a page's border */

struct line {
	char name[64];
	struct {
		uint64_t n, mean; /* ns */
		bool there;
	} side[2];
};

struct tables {
	const char *path[2];
	const char *what[2];	/* the head, from its beginning; NULL: none */
	uint64_t told[2], n[2]; /* samples: of all as it says, 0: it does not; of its rows */
	bool more[2];		/* there are other tables behind it */
	struct line *line;
	size_t nline, cap;
};

/* "52.94us" and blanks at *s: ns. */
static bool take_us(const char **s, uint64_t *ns)
{
	const char *p = *s;
	uint64_t scale = 1000;

	if (!take_u64(&p, INT64_MAX / 10000, ns))
		return false;
	*ns *= scale;
	if (*p == '.')
		while (*++p >= '0' && *p <= '9')
			*ns += (uint64_t)(*p - '0') * (scale /= 10);
	if (strncmp(p, "us", 2))
		return false;
	*s = p + 2 + strspn(p + 2, BLANKS);
	return true;
}

static int add(struct tables *t, int side, const char *name, size_t len, uint64_t n, uint64_t mean)
{
	struct line *l, new = { .name = "" };
	size_t i = 0;

	snprintf(new.name, sizeof(new.name), "%.*s", (int)MIN(len, sizeof(new.name)), name);
	str_printable(new.name);
	while (i < t->nline && strcmp(t->line[i].name, new.name))
		i++;
	if (i == ROWS_MAX)
		return -E2BIG;
	if (i == t->nline && array_add(&t->line, &t->nline, &t->cap, &new, sizeof(new)))
		return -ENOMEM;
	l = &t->line[i];
	l->side[side].there = true;
	t->n[side] += n;
	if (n) { /* "UNKNOWN" may be there several times */
		const unsigned __int128 sum =
			(unsigned __int128)l->side[side].mean * l->side[side].n;

		l->side[side].n += n;
		l->side[side].mean =
			(uint64_t)((sum + (unsigned __int128)mean * n) / l->side[side].n);
	}
	return 0;
}

/* NAME SAMPLES SHARE% SHARE% [MIN MAX] MEAN ... */
static int take_row(struct tables *t, int side, const char *s)
{
	uint64_t n, mean;

	for (const char *p = s + strcspn(s, BLANKS); *p; p += strcspn(p, BLANKS)) {
		const size_t len = (size_t)(p - s);
		int used = 0;

		p += strspn(p, BLANKS);
		if (!take_u64(&p, INT64_MAX / 1000000, &n))
			continue;
		(void)!sscanf(p, "%*[ \t]%*[0-9.]%% %*[0-9.]%% %n", &used);
		p += used;
		if (!used || !take_us(&p, &mean))
			continue;
		while (take_us(&p, &mean)) /* the last one */
			;
		return add(t, side, s, len, n, mean);
	}
	return 0;
}

/* The text is changed. */
static int take_table(struct tables *t, int side, char *text)
{
	uint64_t us;
	char *end;
	int ret = 0;

	for (char *s = text, *next; *s && !ret && !t->more[side]; s = next) {
		const char *p;

		s += strspn(s, MARKS);
		for (;;) { /* a line that begins with a time continues the one before */
			end = s + strcspn(s, "\n");
			next = end + strspn(end, "\n");
			p = next + strspn(next, MARKS);
			if (!*end || !take_us(&p, &us))
				break;
			memset(end, ' ', (size_t)(next + strspn(next, MARKS) - end));
		}
		*end = '\0';
		p = strstr(s, "Samples%");
		t->more[side] = p && t->what[side];
		if (p && !t->what[side])
			t->what[side] = s;
		else if (!t->what[side] || t->more[side])
			continue;
		else if (!strncmp(s, "Total Samples:", 14) && (p = s + 14))
			(void)take_u64(&p, INT64_MAX, &t->told[side]);
		else
			ret = take_row(t, side, s);
	}
	return ret;
}

/* The text of a small file; NULL: another one. */
static char *small_text(const char *path)
{
	struct stat st;
	char *text;

	if (stat(path, &st) || !S_ISREG(st.st_mode) ||
	    file_read_all(AT_FDCWD, path, TABLE_MAX, &text) < 0)
		return NULL;
	return text;
}

/* Their time together before and after: what changed most is first. */
static int by_change(const void *a, const void *b)
{
	unsigned __int128 d[2];

	for (int i = 0; i < 2; i++) {
		const struct line *l = i ? b : a;
		const unsigned __int128 x = (unsigned __int128)l->side[0].n * l->side[0].mean;
		const unsigned __int128 y = (unsigned __int128)l->side[1].n * l->side[1].mean;

		d[i] = x > y ? x - y : y - x;
	}
	return (d[0] < d[1]) - (d[0] > d[1]);
}

/* Only where both have it, and in text; programs can calculate. */
static void change_cell(struct row *r, const struct line *l, uint64_t before, uint64_t after)
{
	const bool both = l->side[0].there && l->side[1].there && before;
	const double by = both ? ((double)after - (double)before) * 100 / (double)before : 0;

	if (both)
		cell_text(r, IN_TEXT, "Change", "%+.*f%%", by > -10 && by < 10 ? 1 : 0, by);
	else
		cell_text(r, IN_TEXT, "Change", "-");
}

static void mean_cells(struct row *r, const char *name, const char *head, const struct line *l,
		       int i)
{
	row_time(r, name, l->side[i].there, l->side[i].mean);
	if (l->side[i].there)
		cell_text(r, IN_TEXT, head, "%llu.%02lluus",
			  (unsigned long long)l->side[i].mean / 1000,
			  (unsigned long long)l->side[i].mean % 1000 / 10);
	else
		cell_text(r, IN_TEXT, head, "-");
}

static void cells(struct row *r, const void *ctx, size_t i)
{
	const struct line none = { .name = "" },
			  *l = r->head ? &none : (const struct line *)ctx + i;

	cell_str(r, IN_ALL | COL_LEFT, "name", "Name", l->name);
	cell_u64(r, IN_ALL, "samples_before", "Samples", l->side[0].there, l->side[0].n);
	cell_u64(r, IN_ALL, "samples_after", "After", l->side[1].there, l->side[1].n);
	change_cell(r, l, l->side[0].n, l->side[1].n);
	mean_cells(r, "mean_before", "Mean", l, 0);
	mean_cells(r, "mean_after", "After", l, 1);
	change_cell(r, l, l->side[0].mean, l->side[1].mean);
}

static void json_head(struct json *j, const void *ctx __unused_arg)
{
	json_put_bool(j, "sure", false);
	json_put_str(j, "chance", NULL);
}

static int print_tables(const struct tables *t, int format, size_t top, FILE *f,
			struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const struct table table = { .cells = cells,
				     .ctx = t->line,
				     .n = top ? MIN(top, t->nline) : t->nline };
	int ret;

	if (format > FORMAT_TEXT)
		ret = table_doc(&table, format == FORMAT_CSV, "rows", json_head, &b);
	else
		ret = table_text(&table, &b);
	if (format <= FORMAT_TEXT)
		sbuf_add(&b, "\n# Tables hold no duration and no spread: counts cannot be compared "
			     "as rates, and\n# whether a change is chance is not known. Recordings "
			     "tell: kvmft diff BEFORE AFTER\n");
	return sink_print(ret, &b, f, err);
}

int diff_tables(char **path, int format, size_t top, FILE *f, bool *whole, struct kvmft_err *err)
{
	struct tables t = { .nline = 0 };
	char *text[2];
	int ret = 0;

	for (int i = 0; i < 2; i++) {
		text[i] = small_text(path[i]);
		ret = ret ?: text[i] ? take_table(&t, i, text[i]) : 0;
	}
	if (!ret && !t.what[0] && !t.what[1])
		ret = -ENOMSG;
	else if (!ret && (!t.what[0] || !t.what[1]))
		ret = err_set(err, EINVAL,
			      "%s is a table, %s is none: kvmft report makes one of a "
			      "recording",
			      path[!t.what[0]], path[!t.what[1]]);
	else if (!ret && (!t.n[0] || !t.n[1]))
		ret = err_set(err, ENODATA, "%s: a table without rows", path[!!t.n[0]]);
	else if (!ret && strncmp(t.what[0], t.what[1], strcspn(t.what[0], BLANKS)))
		ret = err_set(err, EINVAL, "%s is a table of other things than %s", path[0],
			      path[1]);
	for (int i = 0; i < 2 && !ret; i++) {
		if (t.more[i])
			cli_note("%s: several tables, the first is read", path[i]);
		if (t.told[i] > t.n[i])
			cli_note("%s: %llu of %llu samples are in no row", path[i],
				 (unsigned long long)(t.told[i] - t.n[i]),
				 (unsigned long long)t.told[i]);
		*whole &= t.told[i] <= t.n[i];
	}
	if (!ret)
		qsort(t.line, t.nline, sizeof(*t.line), by_change);
	ret = ret ?: print_tables(&t, format, top, f, err);
	free(text[0]);
	free(text[1]);
	free(t.line);
	return ret;
}
