/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tar.c: a capture's or session's directory as a tar archive, read in place. Regular files alone
 * count: no link is followed. Of two of one name the last counts, as if it had been unpacked.
 */
#include "reader.h"

#define BLOCK	  512u
#define NAME_SIZE CAP_TAR_NAME
#define MAX_EXTRA (1u << 20) /* of what describes the next member */
#define UNPACK	  ": unpack it (tar xf) and give what is in it"

struct cap_member {
	char *name;
	uint64_t at, size;
};

/* Octal, or big-endian if the first bit is set. */
static bool octal_number(const uint8_t *s, size_t n, uint64_t *v)
{
	const bool big = s[0] & 0x80;

	*v = big ? s[0] & 0x7f : 0;
	for (size_t i = big; i < n && (big || (s[i] && s[i] != ' ')); i++) {
		if (*v >> 55 || (!big && (s[i] < '0' || s[i] > '7')))
			return false;
		*v = big ? *v << 8 | s[i] : *v << 3 | (s[i] & 7u);
	}
	return true;
}

bool cap_is_tar(const void *head, size_t n)
{
	const uint8_t *h = head;
	uint64_t told, sum = 8 * ' ';

	for (size_t i = 0; i < BLOCK && n >= BLOCK; i++)
		sum += i < 148 || i >= 156 ? h[i] : 0;
	return n >= BLOCK && octal_number(h + 148, 8, &told) && told == sum;
}

static int add_member(struct cap_tar *t, const uint8_t h[BLOCK], const char *longer, uint64_t at,
		      uint64_t size, struct kvmft_err *err)
{
	const bool prefix = !*longer && !h[262] && h[345]; /* not GNU's */
	struct cap_member m = { .at = at, .size = size };
	char path[NAME_SIZE + 2];
	const char *name = path + 1;

	snprintf(path, sizeof(path), "/%.*s%s%.*s/", prefix ? 155 : 0, (const char *)h + 345,
		 prefix ? "/" : "", *longer ? (int)NAME_SIZE : 100,
		 *longer ? longer : (const char *)h);
	while (!strncmp(name, "./", 2))
		name += 2;
	if (*name == '/' || strstr(path, "/../"))
		return err_set(err, EBADMSG, "the tar archive has a file outside of it, %s", name);
	m.name = xstrndup(name, strlen(name) - 1);
	xarray_add(&t->v, &t->n, &t->cap, &m, sizeof(m));
	return 0;
}

/*
 * What describes the next member: of GNU's tar its name, if that is longer than a header has room
 * for; of others lines "LENGTH KEY=VALUE", that and times and the like.
 */
static int read_extra(const struct cap_part *all, char type, uint64_t at, uint64_t size,
		      char name[NAME_SIZE], struct kvmft_err *err)
{
	_cleanup_free_ char *text = xcalloc(1, (size_t)MIN(size, (uint64_t)MAX_EXTRA) + 1);
	char *p = text, *key, *value;
	bool plain = size <= MAX_EXTRA;
	size_t n;

	if (cap_part_read(all, text, plain ? (size_t)size : 0, at) < 0)
		return err_set(err, EIO, "cannot read the tar archive");
	for (value = text; plain && type == 'x' && *p; p += n) {
		n = strtoul(p, &key, 10);
		value = strchr(p, '=');
		plain = n && n <= size - (size_t)(p - text) && p[n - 1] == '\n' && value &&
			value < p + n && !str_starts(key, " size=") &&
			!str_starts(key, " GNU.sparse.");
		if (!plain)
			break;
		p[n - 1] = '\0';
		if (str_starts(key, " path="))
			plain = snprintf(name, NAME_SIZE, "%s", value + 1) < (int)NAME_SIZE;
	}
	if (plain && type == 'L')
		plain = snprintf(name, NAME_SIZE, "%s", text) < (int)NAME_SIZE;
	return plain ? 0
		     : err_set(err, EOPNOTSUPP,
			       "a tar archive with sparse files, or names of 300 bytes" UNPACK);
}

/* The member at *at, which moves behind it: 1; 0: no more. longer: the name of the next one. */
static int read_member(struct cap_tar *t, uint64_t *at, char longer[NAME_SIZE],
		       struct kvmft_err *err)
{
	static const uint8_t zeros[BLOCK];
	const uint64_t end = t->all.size;
	uint8_t h[BLOCK] = { 0 };
	const ssize_t n = cap_part_read(&t->all, h, BLOCK, *at);
	const char type = (char)h[156];
	uint64_t size = 0;
	int ret = 0;

	if (n == BLOCK && !memcmp(h, zeros, BLOCK))
		return 0;
	t->cut = n != BLOCK || !cap_is_tar(h, BLOCK) || !octal_number(h + 124, 12, &size);
	if (t->cut)
		return 0;
	*at += BLOCK;
	t->cut = size > end - *at;
	size = MIN(size, end - *at);
	if (type == 'S')
		ret = err_set(err, EOPNOTSUPP, "a tar archive with sparse files" UNPACK);
	else if ((type == 'x' || type == 'L') && !t->cut)
		ret = read_extra(&t->all, type, *at, size, longer, err);
	else if (type == '0' || !type)
		ret = add_member(t, h, longer, *at, size, err);
	if (type != 'x' && type != 'L' && type != 'K')
		*longer = '\0';
	*at += MIN((size + BLOCK - 1) / BLOCK * BLOCK, end - *at);
	return ret ?: !t->cut;
}

COMPARE(compare, struct cap_member, strcmp(x->name, y->name) ?: ORDER(x->at, y->at));

/* How many members have no greater name: where those below it begin, if it ends with a slash. */
static size_t tar_place_of(const struct cap_tar *t, const char *name)
{
	return COUNT_BEFORE(i, t->n, strcmp(t->v[i].name, name) <= 0);
}

int cap_tar_file(const struct cap_tar *t, const char *path, struct cap_part *file)
{
	char name[2 * NAME_SIZE];
	size_t i;

	snprintf(name, sizeof(name), "%s%s", t->root, path);
	i = tar_place_of(t, name);
	if (!i || strcmp(t->v[i - 1].name, name))
		return -ENOENT;
	*file = t->all;
	file->at = t->v[i - 1].at;
	file->size = t->v[i - 1].size;
	return 0;
}

int cap_tar_list(const struct cap_tar *t, const char *sub, cap_name_fn *each, void *arg)
{
	char under[2 * NAME_SIZE], name[NAME_SIZE] = "";
	int ret = 0;

	snprintf(under, sizeof(under), "%s%s%s", t->root, sub, *sub ? "/" : "");
	for (size_t i = tar_place_of(t, under); i < t->n && str_starts(t->v[i].name, under) && !ret;
	     i++) {
		const char *s = t->v[i].name + strlen(under);
		const size_t n = strcspn(s, "/");

		if (!strncmp(s, name, n) && !name[n])
			continue; /* what is below one name is together */
		snprintf(name, sizeof(name), "%.*s", (int)n, s);
		ret = each(arg, name);
	}
	return ret;
}

/* Makes its directory the one of these n bytes in it. */
static bool tar_enter(struct cap_tar *t, const char *name, size_t n)
{
	const size_t len = strlen(t->root);
	size_t i;

	if (n + 1 >= NAME_SIZE - len)
		return false;
	snprintf(t->root + len, NAME_SIZE - len, "%.*s/", (int)n, name);
	i = tar_place_of(t, t->root);
	return i < t->n && str_starts(t->v[i].name, t->root);
}

/* all: taken over on success. sub: of which directory in it; "": that of all files, if there is. */
static int tar_open(const struct cap_part *all, const char *sub, struct cap_tar **out,
		    struct kvmft_err *err)
{
	struct cap_tar *t = xcalloc(1, sizeof(*t));
	char longer[NAME_SIZE] = "";
	struct cap_part f;
	uint64_t at = 0;
	int ret;

	t->all = *all;
	do
		ret = read_member(t, &at, longer, err);
	while (ret > 0);
	if (!ret) {
		array_sort(t->v, t->n, compare);
		/* Often all is in a directory, and that in another. */
		while (t->n && cap_tar_file(t, "meta", &f) && cap_tar_file(t, "session", &f)) {
			const char *first = t->v[0].name + strlen(t->root);
			const size_t n = strcspn(first, "/");

			if (!first[n] ||
			    strncmp(first, t->v[t->n - 1].name + strlen(t->root), n + 1) ||
			    !tar_enter(t, first, n))
				break;
		}
		if (*sub && !tar_enter(t, sub, strlen(sub)))
			ret = err_set(err, ENOENT, "the tar archive has no directory %s", sub);
	}
	if (ret)
		t->all = (struct cap_part){ .fd = -1 }; /* still the caller's */
	if (ret)
		cap_tar_free(t);
	else
		*out = t;
	return ret;
}

void cap_tar_free(struct cap_tar *t)
{
	for (size_t i = 0; t && i < t->n; i++)
		free(t->v[i].name);
	if (t) {
		util_close_fd(&t->all.fd);
		free(t->all.mem);
		free(t->v);
	}
	free(t);
}

int cap_dir_of_tar(int fd, const char *sub, struct cap_dir *dir, struct kvmft_err *err)
{
	struct cap_part all = { .fd = -1 };
	char head[512];
	const ssize_t n = full_pread(fd, head, sizeof(head), 0);
	struct stat st;
	int ret = 0;

	if (n <= 0 || !cap_is_tar(head, (size_t)n)) {
		ret = cap_unpack_file(fd, cap_is_tar, &all, err);
	} else if (fstat(fd, &st) || (all.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) {
		return err_why(err, errno, "cannot read it");
	} else {
		all.size = (uint64_t)st.st_size;
	}
	ret = ret ?: tar_open(&all, sub, &dir->tar, err);
	dir->fd = all.fd;
	if (ret) {
		util_close_fd(&dir->fd);
		free(all.mem);
	}
	return ret;
}
