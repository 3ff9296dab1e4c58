/* SPDX-License-Identifier: GPL-2.0-or-later */
/* captures.c: the captures of a session, for commands that take its directory. */
#include "cmds.h"
#include "kvmft/kernel.h"
#include "kvmft/sandbox.h"

const char *captures_word(struct operands *o, const char *text)
{
	char *copy = xstrdup(text);

	xarray_add(&o->own, &o->n_own, &o->own_max, &copy, sizeof(copy));
	return copy;
}

static void tell_missing(struct operands *o, const char *path, const struct session *s)
{
	if (!s->missing.len)
		return;
	o->incomplete = true;
	cli_note("%s: the session recorded %s, but its capture is missing", path, s->missing.s);
}

/* Whether an operand after the session names this guest of it, to say which VM it is. */
static bool operand_is_named(const struct operands *o, int from, const char *path)
{
	size_t n = strlen(path);

	for (int i = from; i < o->argc; i++)
		if (!strncmp(o->argv[i], path, n) && (!o->argv[i][n] || o->argv[i][n] == '='))
			return true;
	return false;
}

/*
 * Captures of a session from `first` on, in place of that many operands from `at` on. What an
 * operand after the session says about a guest takes precedence over the session.
 */
static void captures_put(struct operands *o, int at, int instead, const struct session *s,
			 size_t first)
{
	char **argv = xcalloc((size_t)o->argc + s->n + 1, sizeof(*argv));
	int n = 0;

	for (int i = 0; i < at; i++)
		argv[n++] = o->argv[i];
	for (size_t i = first; i < s->n; i++)
		if (!i || !operand_is_named(o, at + instead, s->v[i].path))
			argv[n++] = (char *)captures_word(o, s->v[i].operand);
	for (int i = at + instead; i < o->argc; i++)
		argv[n++] = o->argv[i];
	free(o->made);
	o->argv = o->made = argv;
	o->argc = n;
}

int captures_at(struct operands *o, int at, struct kvmft_err *err)
{
	_cleanup_(session_free) struct session s = { 0 };
	int ret = at < o->argc ? session_ask(o->argv[at], &s, err) : 0;

	if (ret || !s.n)
		return ret;
	tell_missing(o, o->argv[at], &s);
	captures_put(o, at, 1, &s, 0);
	return 0;
}

int captures_host(struct operands *o, const char **input, struct session *s, struct kvmft_err *err)
{
	int ret = session_ask(*input, s, err);

	if (ret || !s->n)
		return ret;
	tell_missing(o, *input, s);
	*input = captures_word(o, s->v[0].path);
	return 0;
}

int captures_session(struct operands *o, const char **input, struct kvmft_err *err)
{
	_cleanup_(session_free) struct session s = { 0 };
	int ret = captures_host(o, input, &s, err);

	if (!ret && s.n > 1)
		captures_put(o, 0, 0, &s, 1);
	return ret;
}

int captures_first(void *opts __unused_arg, struct operands *o, struct kvmft_err *err)
{
	return captures_at(o, 0, err);
}

/* ---- which captures are below a directory ---- */

#define DEPTH_MAX 16
#define LIST_MAX  100000u
#define WALK_MAX  (256u << 20) /* bytes of all their paths */

static bool dir_has(const char *path, const char *name)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct stat st;

	sbuf_addf(&b, "%s/%s", path, name);
	return !b.error && !lstat(b.s, &st);
}

/* Without its meta file it is damaged, which has to be reported. */
static bool is_capture(const char *path)
{
	return dir_has(path, "meta") || dir_has(path, "seg000000");
}

static int list_add(struct operands *o, const char *path, struct str_list *list,
		    struct kvmft_err *err)
{
	const char *word = captures_word(o, path);

	if (list->n == LIST_MAX)
		return err_set(err, E2BIG, "more than %u captures", LIST_MAX);
	xarray_add(&list->v, &list->n, &list->cap, &word, sizeof(word));
	return 0;
}

static int left_out(struct operands *o, const char *path, const char *why)
{
	cli_note("cannot read %s: %s: what is in there is left out", path, why);
	o->incomplete = true;
	return 0;
}

static int add_below(struct operands *o, const char *path, bool sessions, unsigned int depth,
		     struct str_list *list, struct kvmft_err *err)
{
	_cleanup_(session_free) struct session s = { 0 };
	struct kvmft_err none = { .text = "" };
	struct dirent **d;
	int n, ret;
	bool taken;
	size_t len;

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
	/* What is in a directory, by name. taken: its captures are in a session of the list. */
	taken = s.n > 0;
	len = strlen(path);
	ret = 0;
	while (len > 1 && path[len - 1] == '/')
		len--;
	for (int i = 0; i < n && !ret; i++) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };
		const size_t end = strlen(d[i]->d_name);
		struct stat st;

		if (strcmp(path, "."))
			sbuf_addf(&b, "%.*s/", (int)len, path);
		sbuf_add(&b, d[i]->d_name);
		xsbuf_text(&b);
		if (d[i]->d_name[0] == '.' || lstat(b.s, &st) || (taken && is_capture(b.s)))
			continue;
		else if (S_ISDIR(st.st_mode))
			ret = add_below(o, b.s, sessions, depth + 1, list, err);
		else if (S_ISREG(st.st_mode) && end > 4 &&
			 (!strcmp(d[i]->d_name + end - 4, ".dat") ||
			  !strcmp(d[i]->d_name, "perf.data")))
			ret = list_add(o, b.s, list, err);
	}
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

int captures_below(struct operands *o, const char *path, bool sessions, struct str_list *list,
	      struct kvmft_err *err)
{
	struct walk w = { path, sessions };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	_cleanup_(session_free) struct session s = { 0 };
	size_t before = list->n;
	struct stat st;
	int ret;

	if (stat(path, &st) || !S_ISDIR(st.st_mode)) { /* an archive may be a session */
		ret = sessions ? 0 : session_ask(path, &s, err);
		return ret ?: list_add(o, s.n ? s.v[0].path : path, list, err);
	}
	ret = sandbox_ask(walk_put, &w, -1, WALK_MAX, &b, err);
	o->incomplete |= !ret && b.len && b.s[0] == '!';
	for (size_t at = 1; at < b.len && !ret; at += strlen(b.s + at) + 1)
		ret = list_add(o, b.s + at, list, err);
	/* Nothing is there: whoever opens it will report that. */
	return ret || list->n > before ? ret : list_add(o, path, list, err);
}

bool captures_tree(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode) && !is_capture(path);
}

int captures_live(const char *name, struct record_config *host, const struct captures_live *l,
		  struct kvmft_err *err)
{
	const char *words[] = { name, "--live", "--format", l->format, "--color",
				color_names[MAX(l->page->color, 0)],
				l->page->wide ? "--wide" : NULL,
				l->sel ? "--vm" : NULL, l->sel,
				l->more[0], l->more[1], l->more[2] };
	struct remote_words w = { 0 };
	struct sides_config sides = { .temp = true, .reader = &w };
	char *none = NULL;
	int ret;

	host->clock = kclock_default();
	host->profile = -1;
	host->as = RECORD_AS_HOST;
	host->quiet = true;
	if (l->sel)
		xarray_add(&host->vms.v, &host->vms.n, &host->vms.cap, &l->sel, sizeof(l->sel));
	ret = remote_words_add(&w, TEXTF("kvmft %s", name));
	for (size_t i = 0; i < ARRAY_SIZE(words) && !ret; i++)
		ret = words[i] ? remote_words_add(&w, words[i]) : 0;
	ret = ret ? err_set(err, ENOMEM, "out of memory") : 0;
	ret = ret ?: record_sides(&sides, host, &none, cli_note, err);
	free(host->vms.v);
	remote_words_free(&w);
	return ret;
}

#define POLL_US 20000u

int captures_wait(const char *path, struct kvmft_err *err)
{
	bool complete = false;
	int ret = 0;

	while (!ret && !complete) {
		struct capture *cap = NULL;

		usleep(POLL_US);
		ret = capture_open(path, &cap, err);
		complete = !ret && cap->complete;
		capture_close(cap);
	}
	return ret;
}
