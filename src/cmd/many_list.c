/* SPDX-License-Identifier: GPL-2.0-or-later */
/* many_list.c: which captures are below a directory. */
#include "many.h"

#include <dirent.h>
#include <sys/stat.h>

#include "kvmft/sandbox.h"
#include "captures.h"

#define DEPTH_MAX 16
#define LIST_MAX  100000u
#define WALK_MAX  (256u << 20) /* bytes of all their paths */

static bool has(const char *path, const char *name)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct stat st;

	sbuf_addf(&b, "%s/%s", path, name);
	return !b.error && !lstat(b.s, &st);
}

/* Without its meta file it is damaged, which has to be reported. */
static bool is_capture(const char *path)
{
	return has(path, "meta") || has(path, "seg000000");
}

/* A file written by tracing programs, by its name. */
static bool is_file_of_trace(const char *name)
{
	size_t n = strlen(name);

	return n > 4 && (!strcmp(name + n - 4, ".dat") || !strcmp(name, "perf.data"));
}

static int list_add(struct operands *o, const char *path, struct str_list *list,
		    struct kvmft_err *err)
{
	const char *word;
	int ret = captures_word(o, path, &word, err);

	if (!ret && list->n == LIST_MAX)
		return err_set(err, E2BIG, "more than %u captures", LIST_MAX);
	if (!ret && array_add(&list->v, &list->n, &list->cap, &word, sizeof(word)))
		ret = err_set(err, ENOMEM, "out of memory");
	return ret;
}

static int left_out(struct operands *o, const char *path, const char *why)
{
	cli_note("cannot read %s: %s: what is in there is left out", path, why);
	o->incomplete = true;
	return 0;
}

static int add_below(struct operands *o, const char *path, bool sessions, unsigned int depth,
		     struct str_list *list, struct kvmft_err *err);

/* What is in a directory, by name. taken: its captures are a session that is on the list. */
static int add_all(struct operands *o, const char *path, struct dirent **d, int n, bool sessions,
		   bool taken, unsigned int depth, struct str_list *list, struct kvmft_err *err)
{
	size_t len = strlen(path);
	int ret = 0;

	while (len > 1 && path[len - 1] == '/')
		len--;
	for (int i = 0; i < n && !ret; i++) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };
		struct stat st;

		if (strcmp(path, "."))
			sbuf_addf(&b, "%.*s/", (int)len, path);
		sbuf_add(&b, d[i]->d_name);
		if (b.error)
			ret = err_set(err, ENOMEM, "out of memory");
		else if (d[i]->d_name[0] == '.' || lstat(b.s, &st) || (taken && is_capture(b.s)))
			continue;
		else if (S_ISDIR(st.st_mode))
			ret = add_below(o, b.s, sessions, depth + 1, list, err);
		else if (S_ISREG(st.st_mode) && is_file_of_trace(d[i]->d_name))
			ret = list_add(o, b.s, list, err);
	}
	return ret;
}

static int add_below(struct operands *o, const char *path, bool sessions, unsigned int depth,
		     struct str_list *list, struct kvmft_err *err)
{
	_cleanup_(session_free) struct session s = { 0 };
	struct kvmft_err none = { .text = "" };
	struct dirent **d;
	int n, ret;

	if (is_capture(path))
		return depth && session_is_guest(path) ? 0 : list_add(o, path, list, err);
	if (sessions && !session_read(path, &s, &none) && s.n) {
		ret = list_add(o, path, list, err);
		if (ret || s.named)
			return ret;
	}
	if (depth > DEPTH_MAX)
		return left_out(o, path, "too many levels of directories");
	n = scandir(path, &d, NULL, alphasort);
	if (n < 0)
		return depth ? left_out(o, path, strerror(errno)) : 0;
	ret = add_all(o, path, d, n, sessions, s.n > 0, depth, list, err);
	while (n--)
		free(d[n]);
	free(d);
	return ret;
}

struct walk {
	const char *path;
	bool sessions;
};

/* Whether some were left out, then what is there. */
static int walk_put(void *arg, struct sbuf *out, struct kvmft_err *err)
{
	const struct walk *w = arg;
	struct operands o = { 0 };
	struct str_list list = { 0 };
	int ret = add_below(&o, w->path, w->sessions, 0, &list, err);

	sbuf_addc(out, o.incomplete ? '!' : '.');
	for (size_t i = 0; i < list.n; i++)
		sbuf_add_mem(out, list.v[i], strlen(list.v[i]) + 1);
	return ret; /* the end of this process frees the lists */
}

static int walk_take(struct operands *o, const struct sbuf *b, struct str_list *list,
		     struct kvmft_err *err)
{
	int ret = 0;

	o->incomplete |= b->len && b->s[0] == '!';
	for (size_t at = 1; at < b->len && !ret; at += strlen(b->s + at) + 1)
		ret = list_add(o, b->s + at, list, err);
	return ret;
}

int many_list(struct operands *o, const char *path, bool sessions, struct str_list *list,
	      struct kvmft_err *err)
{
	struct walk w = { path, sessions };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	size_t before = list->n;
	struct stat st;
	int ret;

	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return list_add(o, path, list, err);
	ret = sandbox_ask(walk_put, &w, -1, WALK_MAX, &b, err);
	ret = ret ?: walk_take(o, &b, list, err);
	/* Nothing is there: whoever opens it will report that. */
	return ret || list->n > before ? ret : list_add(o, path, list, err);
}

bool many_is_tree(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode) && !is_capture(path);
}
