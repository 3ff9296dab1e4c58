/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sqlite.c: a database is pages of one size. Page 1 begins with the header of the file and has the
 * root of the table of all tables, so it is written last.
 *
 * A table is a tree: leaves have rows, inner pages the number of each page below and the highest
 * row id in it, the last one without. As rows come in order, each level fills one page after the
 * other: what is full is written and becomes an entry one level higher.
 *
 *	page   kind 05 inner, 0d leaf; 0; cells (u16); where they begin (u16); 0; inner: last page
 *	       places of all cells (u16 each) ... room ... cells, the first one at the end
 *	cell   leaf: size of the row, its id, the row. Inner: page (u32), row id
 *	row    size of this head, kind of each value; then the values
 *
 * All numbers are big-endian; sizes, ids and kinds have 1 to 9 bytes, of 7 bits each but the last.
 */
#include "kvmft/sqlite.h"

#define PAGE	 4096u
#define HEADER	 100u /* of the file */
#define LEAF	 0x0d
#define INNER	 0x05
#define LOCKED	 (0x40000000u / PAGE + 1) /* SQLite's locks are there: no data */
#define FLUSH_AT (64u * PAGE)
#define LEVELS	 12
#define COLUMNS	 2000 /* as SQLite has it */
#define VERSION	 3040000u /* of SQLite, which "wrote" it */

struct page {
	uint32_t cells, begin; /* where the cells begin */
	uint8_t b[PAGE];
};

/*
 * An inner level: the last entry is held back, because the last entry of a page has another place.
 */
struct level {
	struct page p;
	bool has_last;
	uint32_t last;
	int64_t last_id;
};

struct sq_table {
	char *name, *sql;
	bool is_view;
	uint32_t spare; /* bytes of each page that stay free */
	uint32_t root;
	uint64_t rows;
	int64_t last_id;
	struct page leaf;
	struct level *level[LEVELS];
	struct sq_table *next;
};

struct sq {
	int fd;
	uint32_t pages; /* number of pages so far, including page 1 */
	struct sbuf out; /* whole pages, to be written after those before */
	struct sq_table *first, **last;
	struct sbuf body; /* of the row */
	size_t ncol;
	uint64_t kind[COLUMNS];
	int error;
};

static void put_u16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put_u32(uint8_t *p, uint32_t v)
{
	put_u16(p, v >> 16);
	put_u16(p + 2, v & 0xffff);
}

static size_t put_varint(uint8_t *p, uint64_t v)
{
	uint8_t tmp[9];
	size_t n = 0;

	if (v >> 56) {
		for (n = 8, p[8] = (uint8_t)v, v >>= 8; n--; v >>= 7)
			p[n] = (uint8_t)(v | 0x80);
		return 9;
	}
	do
		tmp[n++] = (uint8_t)(v & 0x7f);
	while (v >>= 7);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(tmp[n - 1 - i] | (i + 1 < n ? 0x80 : 0));
	return n;
}

static size_t varint_len(uint64_t v)
{
	size_t n = 1;

	while (n < 9 && v >> (7 * n))
		n++;
	return n;
}

/* ---- pages ---- */

static int flush(struct sq *s)
{
	int ret = s->out.error;

	ret = ret ?: full_write(s->fd, s->out.s, s->out.len, NULL);
	sbuf_reset(&s->out);
	return ret;
}

/* The number that the next page gets. */
static uint32_t next_page(const struct sq *s)
{
	return s->pages + 1 + (s->pages + 1 == LOCKED);
}

static int write_page(struct sq *s, const uint8_t *b, uint32_t *number)
{
	static const uint8_t zero[PAGE];

	if (s->pages >= UINT32_MAX - 4)
		return -EFBIG;
	if (next_page(s) != s->pages + 1)
		sbuf_add_mem(&s->out, zero, PAGE);
	*number = s->pages = next_page(s);
	sbuf_add_mem(&s->out, b, PAGE);
	return s->out.len >= FLUSH_AT ? flush(s) : s->out.error;
}

static void page_empty(struct page *p)
{
	p->cells = 0;
	p->begin = PAGE;
}

static uint32_t page_head(uint8_t kind)
{
	return kind == LEAF ? 8 : 12;
}

/* The places of cells have been at page_head() so far, and move with the head. */
static void page_close(struct page *p, uint8_t kind, uint32_t last, uint32_t at)
{
	uint32_t head = page_head(kind);

	memmove(p->b + at + head, p->b + head, 2 * (size_t)p->cells);
	memset(p->b + at + head + 2 * p->cells, 0, p->begin - at - head - 2 * p->cells);
	p->b[at] = kind;
	put_u16(p->b + at + 1, 0);
	put_u16(p->b + at + 3, p->cells);
	put_u16(p->b + at + 5, p->begin);
	p->b[at + 7] = 0;
	if (kind == INNER)
		put_u32(p->b + at + 8, last);
}

/* Room for a cell of n bytes, or NULL. */
static uint8_t *page_cell(struct page *p, uint8_t kind, size_t n, uint32_t spare)
{
	uint32_t head = page_head(kind);

	if (head + spare + 2 * (p->cells + 1) + n > p->begin)
		return NULL;
	p->begin -= (uint32_t)n;
	put_u16(p->b + head + 2 * p->cells, p->begin);
	p->cells++;
	return p->b + p->begin;
}

/* ---- the tree above the leaves ---- */

static bool inner_cell(struct level *l, uint32_t spare)
{
	uint8_t *c = page_cell(&l->p, INNER, 4 + varint_len((uint64_t)l->last_id), spare);

	if (!c)
		return false;
	put_u32(c, l->last);
	put_varint(c + 4, (uint64_t)l->last_id);
	return true;
}

/* Takes out the last cell: its page, and its id. */
static uint32_t inner_take(struct page *p, int64_t *id)
{
	const uint8_t *c = p->b + p->begin;
	uint32_t page = (uint32_t)c[0] << 24 | (uint32_t)c[1] << 16 | (uint32_t)c[2] << 8 | c[3];
	uint64_t v = 0;
	size_t n = 4;

	for (; n < 12; n++) {
		v = v << 7 | (c[n] & 0x7f);
		if (!(c[n] & 0x80))
			break;
	}
	if (n == 12)
		v = v << 8 | c[n];
	*id = (int64_t)v;
	p->begin += (uint32_t)n + 1;
	p->cells--;
	return page;
}

/* A complete page, with ids up to id, becomes an entry of level k. */
static int inner_add(struct sq *s, struct sq_table *t, unsigned int k, uint32_t page, int64_t id)
{
	for (; k < LEVELS; k++) {
		struct level *l = t->level[k];
		uint32_t full, last;
		int64_t full_id;
		int ret;

		if (!l) {
			l = t->level[k] = malloc(sizeof(*l));
			if (!l)
				return -ENOMEM;
			l->has_last = false;
			page_empty(&l->p);
		}
		if (!l->has_last || inner_cell(l, t->spare)) {
			l->has_last = true;
			l->last = page;
			l->last_id = id;
			return 0;
		}
		/* The next page is to have an entry beside its last one. */
		last = inner_take(&l->p, &full_id);
		page_close(&l->p, INNER, last, 0);
		ret = write_page(s, l->p.b, &full);
		if (ret)
			return ret;
		page_empty(&l->p);
		(void)inner_cell(l, t->spare);
		l->last = page;
		l->last_id = id;
		page = full;
		id = full_id;
	}
	return -EFBIG;
}

/* The root is written, or is page 1, which the caller has. */
static int table_close(struct sq *s, struct sq_table *t, uint8_t *page1)
{
	struct page *p = &t->leaf;
	uint32_t at = page1 ? HEADER : 0, last = 0;
	uint8_t kind = LEAF;
	int ret = 0;

	for (unsigned int k = 0; k < LEVELS && t->level[k] && !ret; k++) {
		struct level *l = t->level[k];

		page_close(p, kind, last, 0);
		ret = write_page(s, p->b, &last);
		ret = ret ?: inner_add(s, t, k, last, t->last_id);
		p = &l->p;
		kind = INNER;
		last = l->last;
	}
	if (ret)
		return ret;
	page_close(p, kind, last, at);
	if (page1)
		memcpy(page1, p->b, PAGE);
	return page1 ? 0 : write_page(s, p->b, &t->root);
}

/* ---- tables ---- */

static struct sq_table *add_table(struct sq *s, const char *name, const char *sql, bool is_view)
{
	struct sq_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->name = strdup(name);
	t->sql = strdup(sql);
	t->is_view = is_view;
	*s->last = t;
	s->last = &t->next;
	if (!t->name || !t->sql)
		return NULL;
	page_empty(&t->leaf);
	return t;
}

struct sq_table *sq_table(struct sq *s, const char *name, const char *sql)
{
	return add_table(s, name, sql, false);
}

int sq_view(struct sq *s, const char *name, const char *sql)
{
	return add_table(s, name, sql, true) ? 0 : -ENOMEM;
}

uint64_t sq_rows(const struct sq_table *t)
{
	return t->rows;
}

void sq_quote(struct sbuf *b, const char *name)
{
	sbuf_addc(b, '"');
	for (; *name; name++) {
		if (*name == '"')
			sbuf_addc(b, '"');
		sbuf_addc(b, *name);
	}
	sbuf_addc(b, '"');
}

/* ---- rows ---- */

static bool value(struct sq *s, uint64_t kind)
{
	if (s->ncol == COLUMNS) {
		s->error = -E2BIG;
		return false;
	}
	s->kind[s->ncol++] = kind;
	return true;
}

void sq_null(struct sq *s)
{
	(void)value(s, 0);
}

void sq_s64(struct sq *s, int64_t v)
{
	static const struct {
		uint8_t bytes, kind;
	} size[] = { { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 4 }, { 6, 5 }, { 8, 6 } };
	uint64_t mag = (uint64_t)(v < 0 ? ~v : v);
	uint8_t b[8];
	size_t i = 0;

	if (v == 0 || v == 1) {
		(void)value(s, 8 + (uint64_t)v);
		return;
	}
	while (i < 5 && mag >> (8 * size[i].bytes - 1))
		i++;
	if (!value(s, size[i].kind))
		return;
	for (size_t k = 0; k < size[i].bytes; k++)
		b[k] = (uint8_t)((uint64_t)v >> (8 * (size[i].bytes - 1 - k)));
	sbuf_add_mem(&s->body, b, size[i].bytes);
}

static bool is_plain(const uint8_t *p, size_t n)
{
	bool plain = true;

	for (size_t i = 0; i < n; i++)
		plain &= p[i] >= 0x20 && p[i] < 0x7f;
	return plain;
}

void sq_str_mem(struct sq *s, const void *p, size_t n)
{
	size_t at = s->body.len;

	if (n)
		sbuf_add_mem(&s->body, p, n);
	if (n && !s->body.error && !is_plain(p, n)) {
		str_printable(s->body.s + at);
		n = strlen(s->body.s + at);
		s->body.len = at + n;
	}
	(void)value(s, 2 * (uint64_t)n + 13);
}

void sq_str(struct sq *s, const char *text)
{
	if (text)
		sq_str_mem(s, text, strlen(text));
	else
		sq_null(s);
}

/*
 * What does not fit into the cell of a row goes into a chain of overflow pages: the rest of its
 * head, and its values from `at` on.
 */
static int overflow(struct sq *s, const uint8_t *head, size_t nhead, size_t at, uint32_t *first)
{
	_cleanup_(sbuf_free) struct sbuf rest = { 0 };
	uint8_t page[PAGE];
	uint32_t number;
	int ret;

	sbuf_add_mem(&rest, head, nhead);
	sbuf_add_mem(&rest, s->body.s + at, s->body.len - at);
	ret = rest.error;
	*first = next_page(s);
	for (size_t done = 0; done < rest.len && !ret; done += PAGE - 4) {
		size_t part = MIN(rest.len - done, (size_t)PAGE - 4);
		uint32_t follows = next_page(s) + 1;

		put_u32(page, rest.len - done > part ? follows + (follows == LOCKED) : 0);
		memcpy(page + 4, rest.s + done, part);
		memset(page + 4 + part, 0, PAGE - 4 - part);
		ret = write_page(s, page, &number);
	}
	return ret;
}

/* How much of a row stays in its cell, by the format's formulas. */
static size_t local_size(size_t n)
{
	size_t most = PAGE - 35, least = (PAGE - 12) * 32 / 255 - 23, some;

	if (n <= most)
		return n;
	some = least + (n - least) % (PAGE - 4);
	return some <= most ? some : least;
}

static int leaf_full(struct sq *s, struct sq_table *t)
{
	uint32_t number;
	int ret;

	page_close(&t->leaf, LEAF, 0, 0);
	ret = write_page(s, t->leaf.b, &number);
	page_empty(&t->leaf);
	return ret ?: inner_add(s, t, 0, number, t->last_id);
}

/* Room for a cell in the last leaf, or in a new one. */
static int leaf_cell(struct sq *s, struct sq_table *t, size_t n, uint8_t **c)
{
	int ret;

	*c = page_cell(&t->leaf, LEAF, n, t->spare);
	if (*c)
		return 0;
	ret = leaf_full(s, t);
	*c = ret ? NULL : page_cell(&t->leaf, LEAF, n, t->spare);
	return ret || *c ? ret : -E2BIG;
}

/* The row's head, and its length including the length field itself. */
static size_t row_head(const struct sq *s, uint8_t *head)
{
	size_t n = 0, own = 1;

	for (size_t i = 0; i < s->ncol; i++)
		n += varint_len(s->kind[i]);
	while (varint_len(n + own) > own)
		own++;
	n = put_varint(head, n + own);
	for (size_t i = 0; i < s->ncol; i++)
		n += put_varint(head + n, s->kind[i]);
	return n;
}

static int add_row(struct sq *s, struct sq_table *t, int64_t id)
{
	uint8_t head[9 * (COLUMNS + 1)], front[18], *c = NULL;
	size_t nhead = row_head(s, head), n = nhead + s->body.len, local = local_size(n);
	size_t nfront = put_varint(front, n), in_head = MIN(nhead, local);
	uint32_t first = 0;
	int ret = n > INT32_MAX / 2 ? -EFBIG : 0;

	nfront += put_varint(front + nfront, (uint64_t)id);
	if (!ret && local < n)
		ret = overflow(s, head + in_head, nhead - in_head, local - in_head, &first);
	ret = ret ?: leaf_cell(s, t, nfront + local + (local < n ? 4 : 0), &c);
	if (ret)
		return ret;
	memcpy(c, front, nfront);
	memcpy(c + nfront, head, in_head);
	if (local > in_head)
		memcpy(c + nfront + in_head, s->body.s, local - in_head);
	if (local < n)
		put_u32(c + nfront + local, first);
	t->last_id = id;
	t->rows++;
	return 0;
}

int sq_add(struct sq *s, struct sq_table *t, int64_t id)
{
	int ret = s->error ?: s->body.error;

	ret = ret ?: add_row(s, t, id);
	s->error = ret;
	sbuf_reset(&s->body);
	s->ncol = 0;
	return ret;
}

/* ---- beginning and end ---- */

int sq_new(int fd, struct sq **out)
{
	struct sq *s = calloc(1, sizeof(*s));
	static const uint8_t page1[PAGE];

	*out = s;
	if (!s)
		return -ENOMEM;
	s->fd = fd;
	s->last = &s->first;
	s->pages = 1;
	sbuf_add_mem(&s->out, page1, PAGE);
	return s->out.error;
}

static void file_header(const struct sq *s, uint8_t *b)
{
	memset(b, 0, HEADER);
	memcpy(b, "SQLite format 3", 16);
	put_u16(b + 16, PAGE);
	b[18] = b[19] = 1; /* no write-ahead log */
	b[21] = 64;
	b[22] = b[23] = 32;
	put_u32(b + 24, 1);
	put_u32(b + 28, s->pages);
	put_u32(b + 40, 1);
	put_u32(b + 44, 4);
	put_u32(b + 56, 1); /* UTF-8 */
	put_u32(b + 92, 1);
	put_u32(b + 96, VERSION);
}

/*
 * A row of the table of all tables. One that fits into a page, but not into page 1, is padded with
 * blanks until it does not fit: then little of it stays in its cell.
 */
static int schema_row(struct sq *s, const struct sq_table *of, struct sq_table *t, int64_t id)
{
	_cleanup_(sbuf_free) struct sbuf sql = { 0 };

	sbuf_add(&sql, of->sql);
	while (!sql.error && 2 * strlen(of->name) + sql.len > PAGE - 2 * HEADER &&
	       2 * strlen(of->name) + sql.len < PAGE)
		sbuf_addc(&sql, ' ');
	sq_str(s, of->is_view ? "view" : "table");
	sq_str(s, of->name);
	sq_str(s, of->name);
	sq_s64(s, of->root);
	sq_str(s, sql.s);
	return sql.error ?: sq_add(s, t, id);
}

/* The table of all tables; its pages keep free the room that page 1 lacks. */
static int schema(struct sq *s, uint8_t *page1)
{
	_cleanup_free_ struct sq_table *t = calloc(1, sizeof(*t));
	int64_t id = 0;
	int ret = t ? 0 : -ENOMEM;

	if (!t)
		return ret;
	page_empty(&t->leaf);
	t->spare = HEADER;
	for (const struct sq_table *of = s->first; of && !ret; of = of->next)
		ret = schema_row(s, of, t, ++id);
	ret = ret ?: table_close(s, t, page1);
	for (unsigned int k = 0; k < LEVELS; k++)
		free(t->level[k]);
	return ret;
}

int sq_finish(struct sq *s)
{
	uint8_t page1[PAGE];
	int ret = s->error;
	ssize_t n;

	for (struct sq_table *t = s->first; t && !ret; t = t->next)
		ret = t->is_view ? 0 : table_close(s, t, NULL);
	ret = ret ?: schema(s, page1);
	ret = ret ?: flush(s);
	if (ret)
		return ret;
	file_header(s, page1);
	n = pwrite(s->fd, page1, PAGE, 0);
	return n < 0 ? -errno : n < (ssize_t)PAGE ? -EIO : 0;
}

void sq_free(struct sq *s)
{
	struct sq_table *next;

	if (!s)
		return;
	for (struct sq_table *t = s->first; t; t = next) {
		next = t->next;
		for (unsigned int k = 0; k < LEVELS && !t->is_view; k++)
			free(t->level[k]);
		free(t->name);
		free(t->sql);
		free(t);
	}
	sbuf_free(&s->out);
	sbuf_free(&s->body);
	free(s);
}
