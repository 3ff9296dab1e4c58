/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * session_read.c: which captures of a directory belong together. The captures themselves are not
 * opened here, only looked at.
 */
#include "kvmft/capture.h"
#include "kvmft/sandbox.h"
#include "reader.h"

#define HEAD_MAX (64u << 10) /* of a meta file: its side is in one of the first lines */

struct found {
	const char *root; /* as it was named */
	struct cap_dir dir;
	struct session *s;
	struct kvmft_err *err;
};

/* Not a path, and nothing hidden. */
static bool is_name(const char *name)
{
	return name && *name && *name != '.' && !strchr(name, '/') && strlen(name) < 256;
}

/* Whether there is such a file: 0, -ENOENT, or why it cannot be opened. */
static int find_file(const struct cap_dir *dir, const char *name)
{
	struct cap_part file;
	int ret = cap_part_open(dir, name, &file);

	util_close_fd(&file.fd);
	return ret;
}

static bool session_is_capture(const struct cap_dir *dir, const char *name)
{
	int ret = find_file(dir, TEXTF("%s/meta", name));

	return !ret || ret == -EACCES;
}

static int session_add(struct found *f, const char *name, const char *sel)
{
	struct session_capture c = { 0 };
	struct sbuf path = { 0 }, operand = { 0 };
	size_t len = strlen(f->root);

	if (f->s->n == SESSION_CAPTURES)
		return err_set(f->err, E2BIG,
			       "%s has more captures than a session may "
			       "have",
			       f->root);
	while (len > 1 && f->root[len - 1] == '/')
		len--;
	if (strcmp(f->root, "."))
		sbuf_addf(&path, "%.*s/", (int)len, f->root);
	sbuf_add(&path, name);
	sbuf_addf(&operand, "%s%s%s%s", f->s->named && f->s->n ? SESSION_MARK : "", path.s ?: "",
		  sel ? "=" : "", sel ?: "");
	c.path = xsbuf_take(&path);
	c.operand = xsbuf_take(&operand);
	c.sel = sel ? xstrdup(sel) : NULL;
	xarray_add(&f->s->v, &f->s->n, &f->s->cap, &c, sizeof(c));
	return 0;
}

/* ---- by the file ---- */

static int session_bad(struct found *f, const char *what)
{
	return err_set(f->err, EBADMSG, "%s/" SESSION_FILE " %s: name its captures one by one",
		       f->root, what);
}

static int take_side(struct found *f, const struct meta_rec *rec)
{
	const char *dir = meta_get(rec, "dir"), *role = meta_get(rec, "role");
	bool host = role && !strcmp(role, "host");

	if (!is_name(dir) || !role || (!host && strcmp(role, "guest")))
		return session_bad(f, "has an invalid side");
	if (host != !f->s->n)
		return session_bad(f, "does not list one host, then guests");
	if (session_is_capture(&f->dir, dir))
		return session_add(f, dir, host ? NULL : meta_get(rec, "vm"));
	if (host)
		return err_set(f->err, ENOENT,
			       "%s/%s, the capture of the session's host, is not there%s", f->root,
			       dir, f->dir.tar && f->dir.tar->cut ? " (it is cut short)" : "");
	sbuf_addf(&f->s->missing, "%s%s", f->s->missing.len ? ", " : "", dir);
	if (f->s->missing.s)
		str_printable(f->s->missing.s);
	return 0;
}

static int session_by_file(struct found *f)
{
	_cleanup_free_ char *text = NULL;
	struct meta_rec rec;
	char *save, *line;
	bool more, first = true;
	uint32_t version;
	ssize_t n = cap_read_file(&f->dir, SESSION_FILE, SESSION_MAX, &text, &more);
	int ret = 0;

	if (n < 0)
		return err_why(f->err, (int)n, "cannot read %s/" SESSION_FILE, f->root);
	if (more || strlen(text) != (size_t)n)
		return session_bad(f, "is not a kvmft session");
	if (n && text[n - 1] != '\n')
		return session_bad(f, "is cut short");
	for (line = strtok_r(text, "\n", &save); line && !ret; line = strtok_r(NULL, "\n", &save)) {
		if (!meta_parse(line, &rec))
			return session_bad(f, "has an invalid line");
		if (first &&
		    (strcmp(rec.name, "kvmft-session") || !meta_get_u32(&rec, "version", &version)))
			return session_bad(f, "is not a kvmft session");
		if (first && version > SESSION_VERSION)
			return err_lack(
				f->err, EPROTONOSUPPORT,
				"%s is a session of version %u, this kvmft knows %d: a newer one "
				"is needed",
				f->root, version, SESSION_VERSION);
		ret = strcmp(rec.name, "side") ? 0 : take_side(f, &rec);
		first = false;
	}
	return ret || f->s->n ? ret : session_bad(f, "names no sides");
}

/* ---- without one ---- */

/* Of a capture's meta file: its record `side`; NULL = it says nothing. */
static char *side_in(const struct cap_dir *dir, const char *meta)
{
	_cleanup_free_ char *text = NULL;
	struct meta_rec rec;
	char *save, *line;
	bool more;

	if (cap_read_file(dir, meta, HEAD_MAX, &text, &more) <= 0)
		return NULL;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (meta_parse(line, &rec) && !strcmp(rec.name, "side") && meta_get(&rec, "name"))
			return strdup(meta_get(&rec, "name"));
	return NULL;
}

COMPARE(compare_names, char *, strcmp(*x, *y));

struct names {
	const struct cap_dir *dir;
	char **v;
	size_t n, cap;
};

static void names_free(struct names *l)
{
	strings_free(l->v, l->n);
}

static int session_name_add(void *arg, const char *text)
{
	struct names *l = arg;
	char *name;

	if (!is_name(text) || l->n > SESSION_CAPTURES || !session_is_capture(l->dir, text))
		return 0;
	name = xstrdup(text);
	xarray_add(&l->v, &l->n, &l->cap, &name, sizeof(name));
	return 0;
}

/* The host first; a machine that is both counts as the host. */
static int by_captures(struct found *f)
{
	_cleanup_(names_free) struct names l = { .dir = &f->dir };
	size_t hosts = 0, host = 0;
	int ret = cap_dir_list(&f->dir, "", session_name_add, &l);

	if (!l.n)
		return 0;
	array_sort(l.v, l.n, compare_names);
	for (size_t i = 0; i < l.n; i++) {
		_cleanup_free_ char *side = side_in(&f->dir, TEXTF("%s/meta", l.v[i]));

		if (!side)
			return err_set(f->err, EBADMSG,
				       "%s/%s does not say whether it is of a host or a guest: "
				       "name those that belong together",
				       f->root, l.v[i]);
		if (strcmp(side, "guest")) {
			hosts++;
			host = i;
		}
	}
	if (hosts != 1)
		return err_set(f->err, EINVAL,
			       "%s has captures, %zu of them of hosts, but no file " SESSION_FILE
			       "%s: name the captures that belong together",
			       f->root, hosts,
			       f->dir.tar && f->dir.tar->cut ? " (it is cut short)" : "");
	ret = session_add(f, l.v[host], NULL);
	for (size_t i = 0; i < l.n && !ret; i++)
		ret = i == host ? 0 : session_add(f, l.v[i], NULL);
	return ret;
}

int session_read(const char *path, struct session *s, struct kvmft_err *err)
{
	struct found f = { .root = path, .s = s, .err = err };
	int ret = cap_dir_open(path, &f.dir, err);

	*s = (struct session){ 0 };
	if (ret == -ENOMSG || (!ret && find_file(&f.dir, "meta") != -ENOENT)) {
		cap_dir_close(&f.dir);
		return 0;
	}
	if (ret)
		return err_set(err, ret, "%s: %s", path, err->text);
	s->named = find_file(&f.dir, SESSION_FILE) != -ENOENT;
	ret = s->named ? session_by_file(&f) : by_captures(&f);
	cap_dir_close(&f.dir);
	if (ret)
		session_free(s);
	return ret;
}

/* ---- by a confined process ---- */

/* Is it by its file; names of guests that are missing; then of each capture its name and VM. */
static int sides_put(void *path, struct sbuf *out, struct kvmft_err *err)
{
	struct session s;
	int ret = session_read(path, &s, err);

	sbuf_addf(out, "%d%s", s.named, s.missing.s ?: "");
	sbuf_addc(out, '\0');
	for (size_t i = 0; i < s.n; i++) {
		const char *name = strrchr(s.v[i].path, '/'), *sel = s.v[i].sel ?: "";

		name = name ? name + 1 : s.v[i].path;
		sbuf_add_mem(out, name, strlen(name) + 1);
		sbuf_add_mem(out, sel, strlen(sel) + 1);
	}
	session_free(&s);
	return ret;
}

int session_ask(const char *path, struct session *s, struct kvmft_err *err)
{
	int ret = strcmp(path, "-") ? 0 : cap_stdin_file(err);
	const char *root = strcmp(path, "-") ? path : CAP_STDIN, *sub;
	_cleanup_close_ int fd = cap_open_above(root, &sub);
	struct found f = { .root = root, .s = s, .err = err };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char head[512] = "";
	struct cursor c;
	struct stat st;
	const char *name, *sel;

	*s = (struct session){ 0 };
	if (ret)
		return err_why(err, ret, "%s", path);
	if (fd < 0 || fstat(fd, &st))
		return 0;
	if (S_ISDIR(st.st_mode) && !faccessat(fd, "meta", F_OK, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (!S_ISDIR(st.st_mode) &&
	    (!S_ISREG(st.st_mode) || full_pread(fd, head, sizeof(head), 0) < 0 ||
	     !(cap_is_tar(head, sizeof(head)) || !memcmp(head, "\x1f\x8b", 2) ||
	       !memcmp(head, "\x28\xb5\x2f\xfd", 4))))
		return 0;
	ret = sandbox_ask(sides_put, (char *)root, root == path ? -1 : STDIN_FILENO,
			  2 * SESSION_MAX, &b, err);
	if (ret)
		return ret;
	c = (struct cursor){ .p = (const uint8_t *)b.s, .left = b.len };
	ret = cur_str(&c, &name);
	f.s->named = !ret && *name == '1';
	sbuf_add(&f.s->missing, ret || !*name ? "" : name + 1);
	while (!ret && c.left) {
		ret = cur_str(&c, &name);
		ret = ret ?: cur_str(&c, &sel);
		if (!ret && !is_name(name))
			ret = -EBADMSG;
		ret = ret ?: session_add(&f, name, *sel ? sel : NULL);
	}
	if (ret)
		session_free(s);
	return err_why(err, ret, "%s", path);
}

void session_free(struct session *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].path);
		free(s->v[i].operand);
		free(s->v[i].sel);
	}
	free(s->v);
	sbuf_free(&s->missing);
	*s = (struct session){ 0 };
}

bool session_is_guest(const char *path)
{
	struct cap_dir dir = { .fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) };
	_cleanup_free_ char *side = dir.fd < 0 ? NULL : side_in(&dir, "meta");

	cap_dir_close(&dir);
	return side && !strcmp(side, "guest");
}
