/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tables.c: reading tables of sums, and what changed from one to the other. */
#include "kvmft/diff.h"

#define MARKS " \t\r>|" /* before a line: a mail's quotes, a page's border */
#define LOST  "lost events: "

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
	*s = p + 2 + strspn(p + 2, DIFF_BLANKS);
	return true;
}

static bool take_cycles(const char **s, uint64_t *cycles)
{
	bool ok = take_u64(s, INT64_MAX / 1000000, cycles);

	*s += strspn(*s, DIFF_BLANKS);
	return ok;
}

int diff_tables_add(struct diff_tables *t, int side, const char *name, size_t len, uint64_t n,
	       const uint64_t *mean, double error)
{
	struct diff_line *l, new = { .name = "" };
	size_t i = 0;

	snprintf(new.name, sizeof(new.name), "%.*s", (int)MIN(len, sizeof(new.name)), name);
	str_printable(new.name);
	while (i < t->nline && strcmp(t->line[i].name, new.name))
		i++;
	if (i == DIFF_TABLE_ROWS)
		return -E2BIG;
	if (i == t->nline)
		xarray_add(&t->line, &t->nline, &t->cap, &new, sizeof(new));
	l = &t->line[i];
	t->n[side] += n;
	if (n && mean) { /* "UNKNOWN" may be there several times */
		const unsigned __int128 sum =
			(unsigned __int128)l->side[side].mean * l->side[side].n;

		l->side[side].error = l->side[side].there || n < 2 || !(error < 1e6) ?
					      0 :
					      (double)*mean * error / 100;
		l->side[side].mean = (uint64_t)((sum + (unsigned __int128)*mean * n) /
						(l->side[side].n + n));
		l->side[side].timed = true;
	}
	l->side[side].n += n;
	l->side[side].there = true;
	return 0;
}

/* NAME SAMPLES SHARE% SHARE% [MIN MAX] MEAN ( +- ERROR% ); or NAME ... SHARE% MAX MIN MEAN. */
static int take_row(struct diff_tables *t, int side, const char *s)
{
	uint64_t n, mean;

	for (const char *p = s + strcspn(s, DIFF_BLANKS); *p; p += strcspn(p, DIFF_BLANKS)) {
		const size_t len = (size_t)(p - s);
		double error = 0;
		int used = 0;
		bool timed = false;

		p += strspn(p, DIFF_BLANKS);
		if (!take_u64(&p, INT64_MAX / 1000000, &n))
			continue;
		(void)!sscanf(p, "%*[ \t]%*[0-9.]%% %n", &used);
		if (!used)
			continue;
		p += used;
		used = 0;
		(void)!sscanf(p, t->screen[side] ? "%*u %*[0-9.]%% %*u %*u %n" : "%*[0-9.]%% %n",
			      &used);
		p += used;
		if (t->screen[side])
			timed = used && take_u64(&p, INT64_MAX / 1000000, &mean);
		else
			while (used && (t->cycles[side] ? take_cycles(&p, &mean)
							: take_us(&p, &mean)))
				timed = true; /* the last one */
		if (timed || *p == '-') {
			(void)!sscanf(p, "( +- %lf%%", &error);
			return diff_tables_add(t, side, s, len, n, timed ? &mean : NULL, error);
		}
		t->torn[side]++;
		return 0;
	}
	return 0;
}

int diff_tables_read(struct diff_tables *t, int side, char *text)
{
	uint64_t us;
	char *end;
	int ret = 0;

	t->exact[side] = strstr(text, "# " LOST);
	for (const char *p = text; (p = strcasestr(p, LOST));) {
		p += strlen(LOST);
		t->lost[side] |= take_u64(&p, INT64_MAX, &us) && (us || *p == ' ');
	}
	for (char *s = text, *next; *s && !ret && !t->more[side]; s = next) {
		const char *p;

		s += strspn(s, MARKS);
		for (;;) { /* one that begins with a time or an error continues the one before */
			end = s + strcspn(s, "\n");
			next = end + strspn(end, "\n");
			p = next + strspn(next, MARKS);
			if (!*end || (!take_us(&p, &us) && strncmp(p, "( +-", 4)))
				break;
			memset(end, ' ', (size_t)(next + strspn(next, MARKS) - end));
		}
		*end = '\0';
		p = strstr(s, "Sample%");
		t->screen[side] |= p && !t->what[side];
		p = p ?: strstr(s, "Samples%");
		t->more[side] = p && t->what[side];
		if (p && !t->what[side]) {
			t->what[side] = s;
			t->cycles[side] = strstr(p, " cycles");
		} else if (!t->what[side] || t->more[side])
			continue;
		else if (!strncmp(s, "Total Samples:", 14) && (p = s + 14))
			(void)take_u64(&p, INT64_MAX, &t->told[side]);
		else
			ret = take_row(t, side, s);
	}
	return ret;
}

/* Their time together before and after: what changed most is first. */
static int by_change(const void *a, const void *b)
{
	unsigned __int128 d[2];

	for (int i = 0; i < 2; i++) {
		const struct diff_line *l = i ? b : a;
		const unsigned __int128 x = (unsigned __int128)l->side[0].n * l->side[0].mean;
		const unsigned __int128 y = (unsigned __int128)l->side[1].n * l->side[1].mean;

		d[i] = x > y ? x - y : y - x;
	}
	return (d[0] < d[1]) - (d[0] > d[1]);
}

void diff_tables_sort(struct diff_tables *t)
{
	array_sort(t->line, t->nline, by_change);
}
