/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ksyms_unpack.c: the symbols that a capture holds, as ksyms_pack.c wrote them, or somebody who
 * would like to be believed.
 *
 * A kernel has tens of thousands of functions, and few are ever requested. So only the list of
 * groups is read at first; a group is when an address in it is looked up.
 */
#include "ksyms_priv.h"

#define LIST_FIRST (32u << 10) /* bytes that most lists of groups fit in */

struct group {
	uint64_t base, end; /* end: where the next one begins */
	const char *module;
	uint64_t at; /* of its lines, in the file */
	size_t len;
	struct ksyms *k; /* its functions; NULL: not read */
	bool gone;
};

struct ksyms_packed {
	int fd;
	struct group *group;
	size_t n, cap;
	size_t functions; /* that were read */
	ksyms_damaged_fn *damaged;
	void *arg;
};

struct unpack {
	struct ksyms *k;
	struct ksyms_packed *to;
	const struct group *g;
	const char *p, *end; /* of the line */
	char name[KSYM_NAME];
	size_t nn;
	uint64_t last;	  /* address of the function before */
	uint64_t mod_end; /* modules come in the order of their addresses */
	bool first;	  /* the function at the group's base was there */
};

/* What comes up to the next blank, or the end: printable characters. */
static bool take(struct unpack *u, const char **s, size_t *n)
{
	*s = u->p;
	for (; u->p < u->end; u->p++)
		if (*u->p <= ' ' || *u->p > '~')
			break;
	*n = (size_t)(u->p - *s);
	/* A blank stands between two words, so none is the last. */
	return u->p == u->end || (*u->p++ == ' ' && u->p < u->end);
}

/* The value of a digit; of none KSYMS_BASE or more. */
static unsigned int digit(char c)
{
	return c >= 'a' && c <= 'z'   ? (unsigned int)(c - 'a') + 10
	       : c >= '0' && c <= '9' ? (unsigned int)(c - '0')
				      : KSYMS_BASE;
}

static bool take_number(struct unpack *u, unsigned int base, uint64_t *v)
{
	const char *s;
	size_t n;

	*v = 0;
	if (!take(u, &s, &n) || !n)
		return false;
	for (; n; n--, s++) {
		unsigned int d = digit(*s);

		if (d >= base || __builtin_mul_overflow(*v, (uint64_t)base, v) ||
		    __builtin_add_overflow(*v, (uint64_t)d, v))
			return false;
	}
	return true;
}

/* ---- the list ---- */

static int module_line(struct unpack *u)
{
	uint64_t base, size;
	const char *name;
	size_t n;

	if (u->to->n || !take(u, &name, &n) || !n || n > KSYM_NAME - 3 ||
	    !take_number(u, 16, &base) || !take_number(u, 16, &size) || u->p != u->end ||
	    base < u->mod_end || ksyms_is_user(base) ||
	    __builtin_add_overflow(base, size, &u->mod_end))
		return -EBADMSG;
	return ksyms_add_module(u->k, base, size, name, n);
}

static int group_line(struct unpack *u)
{
	struct ksyms_packed *to = u->to;
	struct group g = { .end = UINT64_MAX }, *before = to->n ? &to->group[to->n - 1] : NULL;
	uint64_t len;
	const char *name;
	size_t n;

	if (!take(u, &name, &n) || n >= KSYM_NAME || !take_number(u, 16, &g.base) ||
	    !take_number(u, 16, &len) || u->p != u->end || !len || len > KSYMS_MAX_FILE ||
	    ksyms_is_user(g.base) || (before && g.base <= before->base) || to->n >= KSYMS_MAX)
		return -EBADMSG;
	if (before)
		before->end = g.base;
	g.at = before ? before->at + before->len : 0;
	g.len = (size_t)len;
	g.module = ksyms_keep_module(u->k, name, n);
	return g.module ? array_add(&to->group, &to->n, &to->cap, &g, sizeof(g)) : -ENOMEM;
}

static int list_line(struct unpack *u)
{
	switch (*u->p++) {
	case '+': return module_line(u);
	case '@': return group_line(u);
	default: return -EBADMSG;
	}
}

/* ---- a group ---- */

static bool take_offset(struct unpack *u, uint64_t *addr)
{
	return take_number(u, KSYMS_BASE, addr) && u->p == u->end &&
	       !__builtin_add_overflow(*addr, u->g->base, addr);
}

static int function_line(struct unpack *u, size_t shared)
{
	const char *rest;
	uint64_t addr;
	size_t n;
	int order;

	if (!take(u, &rest, &n) || shared > u->nn || shared + n >= sizeof(u->name) || !(shared + n))
		return -EBADMSG;
	/*
	 * After what it shares it is greater, or continues; or it is the same at a later address.
	 */
	order = memcmp(u->name + shared, rest, MIN(n, u->nn - shared));
	if (order > 0 || (!order && n < u->nn - shared))
		return -EBADMSG;
	order = order ?: n > u->nn - shared ? -1 : 0;
	memcpy(u->name + shared, rest, n);
	u->nn = shared + n;
	if (!take_offset(u, &addr) || (!order && addr <= u->last) || addr >= u->g->end)
		return -EBADMSG;
	u->last = addr;
	u->first |= addr == u->g->base;
	if (u->to->functions++ >= KSYMS_MAX)
		return -EBADMSG;
	return ksyms_add(u->k, addr, 't', u->name, u->nn, u->g->module, strlen(u->g->module));
}

static int member_line(struct unpack *u)
{
	unsigned int shared = digit(*u->p);
	uint64_t addr;

	if (*u->p++ == '!')
		return take_offset(u, &addr) ? ksyms_add_bound(u->k, addr) : -EBADMSG;
	return shared < KSYMS_BASE ? function_line(u, shared) : -EBADMSG;
}

/* All lines of a text, which is that of the file from `at` on; *bad: where the wrong one is. */
static int lines(struct unpack *u, int (*line)(struct unpack *u), const char *text, size_t len,
		 uint64_t at, uint64_t *bad)
{
	int ret = 0;

	for (const char *p = text; p < text + len && !ret; p = u->end + 1) {
		*bad = at + (uint64_t)(p - text);
		u->p = p;
		u->end = memchr(p, '\n', (size_t)(text + len - p));
		/* Without a newline it is cut. */
		ret = u->end && u->end > p ? line(u) : -EBADMSG;
		if (ret)
			break;
	}
	return ret == -E2BIG ? -EBADMSG : ret;
}

/* Adds the functions of a group to k. */
static int read_group(struct ksyms_packed *p, const struct group *g, struct ksyms *k, uint64_t *bad)
{
	_cleanup_free_ struct unpack *u = calloc(1, sizeof(*u));
	_cleanup_free_ char *text = malloc(g->len);
	int ret = u && text ? 0 : -ENOMEM;

	*bad = g->at;
	if (!ret && full_pread(p->fd, text, g->len, g->at) != (ssize_t)g->len)
		ret = -EBADMSG; /* somebody cut it */
	if (!ret) {
		*u = (struct unpack){ .k = k, .to = p, .g = g };
		ret = lines(u, member_line, text, g->len, g->at, bad);
	}
	/* The end of the group before would be wrong. */
	if (!ret && !u->first) {
		*bad = g->at;
		ret = -EBADMSG;
	}
	return ret;
}

/* What else ends its functions: modules, and the group behind it. */
static int add_neighbours(const struct ksyms *all, const struct group *g, struct ksyms *k)
{
	size_t b = COUNT_BEFORE(i, all->nbound, all->bound[i] <= g->base);
	int ret = 0;

	for (; !ret && b < all->nbound && all->bound[b] < g->end; b++)
		ret = ksyms_add_bound(k, all->bound[b]);
	if (!ret && g->end != UINT64_MAX)
		ret = ksyms_add(k, g->end, 't', "", 0, g[1].module, strlen(g[1].module));
	return ret ?: ksyms_finish(k);
}

/* Its own symbols, with nothing of the next group's; none at all if it is damaged. */
static int open_group(const struct ksyms *all, struct group *g)
{
	struct ksyms_packed *p = all->packed;
	struct ksyms *k = calloc(1, sizeof(*k));
	uint64_t bad = g->at;
	int ret = k ? read_group(p, g, k, &bad) : -ENOMEM;

	ret = ret ?: add_neighbours(all, g, k);
	/* Two functions at one address: there is no telling which one it is. */
	if (ret == -EBADMSG || (!ret && k->aliases)) {
		ksyms_free(k);
		p->damaged(p->arg, -EBADMSG, bad);
	} else if (ret) {
		if (k)
			ksyms_free(k);
		free(k);
		p->damaged(p->arg, ret, g->at);
		return ret;
	} else {
		k->n -= g->end != UINT64_MAX;
	}
	if (g->gone)
		ksyms_drop_module(k, g->module);
	g->k = k;
	return 0;
}

struct ksym *ksyms_packed_find(const struct ksyms *k, uint64_t addr)
{
	struct ksyms_packed *p = k->packed;
	size_t i = COUNT_BEFORE(n, p->n, p->group[n].base <= addr);
	struct group *g = i ? &p->group[i - 1] : NULL;

	if (!g || (!g->k && open_group(k, g)))
		return NULL;
	return ksyms_find(g->k, addr);
}

void ksyms_packed_drop(struct ksyms *k, const char *module)
{
	struct ksyms_packed *p = k->packed;

	for (size_t i = 0; i < p->n; i++) {
		if (!*module || strcmp(p->group[i].module, module) != 0)
			continue;
		p->group[i].gone = true;
		if (p->group[i].k)
			ksyms_drop_module(p->group[i].k, module);
	}
}

/* ---- the file ---- */

/* The list, with the empty line behind it; its length, or -errno. */
static ssize_t read_list(int fd, uint64_t size, char **text)
{
	size_t n = (size_t)MIN(size, (uint64_t)LIST_FIRST);

	for (;;) {
		const char *end;
		char *more = realloc(*text, n + 1);

		if (!more)
			return -ENOMEM;
		*text = more;
		if (full_pread(fd, more, n, 0) != (ssize_t)n)
			return -EBADMSG;
		end = memmem(more, n, "\n\n", 2);
		if (end)
			return end + 2 - more;
		if (n == size)
			return -EBADMSG;
		n = (size_t)MIN(size, (uint64_t)n * 4);
	}
}

static int open_list(struct ksyms *k, uint64_t size, uint64_t *bad)
{
	static const size_t head = sizeof(KSYMS_HEAD) - 1;
	struct ksyms_packed *p = k->packed;
	_cleanup_free_ struct unpack *u = calloc(1, sizeof(*u));
	_cleanup_free_ char *text = NULL;
	ssize_t n = !u ? -ENOMEM : size > KSYMS_MAX_FILE ? -EBADMSG : read_list(p->fd, size, &text);
	int ret = n < 0 ? (int)n : 0;

	*bad = 0;
	if (!ret && ((size_t)n <= head || memcmp(text, KSYMS_HEAD, head) != 0))
		ret = -EBADMSG;
	if (!ret) {
		*u = (struct unpack){ .k = k, .to = p };
		ret = lines(u, list_line, text + head, (size_t)n - head - 1, head, bad);
	}
	for (size_t i = 0; !ret && i < p->n; i++)
		p->group[i].at += (uint64_t)n;
	if (!ret) {
		const struct group *last = p->n ? &p->group[p->n - 1] : NULL;
		uint64_t end = last ? last->at + last->len : (uint64_t)n;

		*bad = MIN(end, size);
		ret = end == size ? 0 : -EBADMSG;
	}
	return ret;
}

int ksyms_open(struct ksyms *k, int fd, uint64_t size, ksyms_damaged_fn *told, void *arg,
	       uint64_t *bad)
{
	struct ksyms_packed *p = calloc(1, sizeof(*p));
	int ret = -ENOMEM;

	*k = (struct ksyms){ .packed = p };
	if (p) {
		*p = (struct ksyms_packed){ .fd = fd, .damaged = told, .arg = arg };
		ret = open_list(k, size, bad);
	} else {
		close(fd);
	}
	if (ret)
		ksyms_free(k);
	else
		ksyms_finish_modules(k);
	return ret;
}

int ksyms_read_rest(struct ksyms *k)
{
	struct ksyms_packed *p = k->packed;
	uint64_t bad;
	int ret = 0;

	if (!p)
		return 0;
	p->functions = 0;
	for (size_t i = 0; i < p->n && !ret; i++)
		ret = read_group(p, &p->group[i], k, &bad);
	k->packed = NULL;
	ret = ret ?: ksyms_finish(k);
	if (ret == -EBADMSG || (!ret && k->aliases)) {
		p->damaged(p->arg, -EBADMSG, bad);
		ret = -EBADMSG;
	}
	for (size_t i = 0; i < p->n && !ret; i++)
		if (p->group[i].gone)
			ksyms_drop_module(k, p->group[i].module);
	ksyms_packed_free(p);
	if (ret)
		ksyms_free(k);
	return ret;
}

void ksyms_packed_free(struct ksyms_packed *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++) {
		if (p->group[i].k)
			ksyms_free(p->group[i].k);
		free(p->group[i].k);
	}
	free(p->group);
	close(p->fd);
	free(p);
}
