/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sqlite.c: libsqlite3, loaded where a database is asked for, and a VFS with a single file: the one
 * that was opened before the process was confined. There is no journal, since what is not finished
 * is removed anyway.
 */
#include "kvmft/dlopen.h"
#include "kvmft/sqlite.h"

#include <dlfcn.h>
#include <sqlite3.h>

#define LIBRARY "libsqlite3.so.0"
DLOPEN_NOTE(sqlite, "writing databases", LIBRARY);

#define FUNCTIONS(f)                                                                             \
	f(sqlite3_vfs_find) f(sqlite3_vfs_register) f(sqlite3_vfs_unregister) f(sqlite3_open_v2) \
		f(sqlite3_close_v2) f(sqlite3_exec) f(sqlite3_prepare_v2) f(sqlite3_step)        \
			f(sqlite3_reset) f(sqlite3_finalize) f(sqlite3_bind_int64)               \
				f(sqlite3_bind_null) f(sqlite3_bind_text)

enum value_kind { VALUE_NULL, VALUE_NUMBER, VALUE_TEXT };

struct value {
	enum value_kind kind;
	int64_t n; /* of a text: where it begins in s->text */
	size_t len;
};

struct sq_table {
	sqlite3_stmt *insert; /* NULL: no row yet */
	char *name;
	bool has_id; /* its first column is the row id */
	uint64_t rows;
	struct sq_table *next;
};

struct file {
	sqlite3_file base;
	struct sq *s;
};

struct sq {
	int fd;
	int error; /* -errno of the file's last failure */
	void *handle;
#define MEMBER(name) __typeof__(&name) name;
	FUNCTIONS(MEMBER)
#undef MEMBER
	sqlite3_vfs vfs;
	bool registered;
	sqlite3 *db;
	struct sq_table *tables;
	struct value *value;
	size_t nvalue, value_cap;
	struct sbuf text;
};

/* ---- the file ---- */

static struct sq *of_file(sqlite3_file *f)
{
	return ((struct file *)f)->s;
}

static int file_close(sqlite3_file *f)
{
	(void)f;
	return SQLITE_OK;
}

static int file_read(sqlite3_file *f, void *buf, int size, sqlite3_int64 at)
{
	ssize_t n = full_pread(of_file(f)->fd, buf, (size_t)size, (uint64_t)at);

	if (n < 0) {
		of_file(f)->error = (int)n;
		return SQLITE_IOERR_READ;
	}
	memset((char *)buf + n, 0, (size_t)size - (size_t)n);
	return n < size ? SQLITE_IOERR_SHORT_READ : SQLITE_OK;
}

static int file_write(sqlite3_file *f, const void *buf, int size, sqlite3_int64 at)
{
	for (const char *p = buf; size > 0;) {
		ssize_t n = pwrite(of_file(f)->fd, p, (size_t)size, at);

		if (n <= 0) {
			of_file(f)->error = n < 0 ? -errno : -EIO;
			return SQLITE_IOERR_WRITE;
		}
		p += n;
		at += n;
		size -= (int)n;
	}
	return SQLITE_OK;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	return ftruncate(of_file(f)->fd, size) ? SQLITE_IOERR_TRUNCATE : SQLITE_OK;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *size)
{
	struct stat st;

	if (fstat(of_file(f)->fd, &st))
		return SQLITE_IOERR_FSTAT;
	*size = st.st_size;
	return SQLITE_OK;
}

static int file_flags(sqlite3_file *f, int flags)
{
	(void)f;
	(void)flags;
	return SQLITE_OK;
}

static int file_reserved(sqlite3_file *f, int *reserved)
{
	(void)f;
	*reserved = 0;
	return SQLITE_OK;
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
	(void)f;
	(void)op;
	(void)arg;
	return SQLITE_NOTFOUND;
}

static int file_zero(sqlite3_file *f)
{
	(void)f;
	return 0;
}

static const sqlite3_io_methods file_methods = {
	.iVersion = 1,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_flags,
	.xFileSize = file_size,
	.xLock = file_flags,
	.xUnlock = file_flags,
	.xCheckReservedLock = file_reserved,
	.xFileControl = file_control,
	.xSectorSize = file_zero,
	.xDeviceCharacteristics = file_zero,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
	(void)name;
	f->pMethods = flags & SQLITE_OPEN_MAIN_DB ? &file_methods : NULL;
	((struct file *)f)->s = vfs->pAppData;
	if (out_flags)
		*out_flags = flags;
	return f->pMethods ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *there)
{
	(void)vfs;
	(void)name;
	(void)flags;
	*there = 0;
	return SQLITE_OK;
}

static int vfs_path(sqlite3_vfs *vfs, const char *name, int size, char *path)
{
	(void)vfs;
	return snprintf(path, (size_t)size, "%s", name) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

/* ---- the database ---- */

/* What a result of the library means. */
static int sq_errno(const struct sq *s, int ret)
{
	switch (ret & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW: return 0;
	case SQLITE_NOMEM: return -ENOMEM;
	case SQLITE_TOOBIG: return -E2BIG;
	default: return s->error ?: -EIO;
	}
}

int sq_load(struct kvmft_err *err)
{
	/* Stays loaded: sq_new() gets the same one, where files cannot be opened any more. */
	if (dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL))
		return 0;
	return err_lack(
		err, ENOSYS,
		"a database needs libsqlite3, which is not installed (Debian: libsqlite3-0)");
}

static int sq_exec(struct sq *s, const char *sql)
{
	return sq_errno(s, s->sqlite3_exec(s->db, sql, NULL, NULL, NULL));
}

int sq_new(int fd, struct sq **out)
{
	struct sq *s = *out = xcalloc(1, sizeof(*s));
	const sqlite3_vfs *usual;
	int ret;

	s->fd = fd;
	s->handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!s->handle)
		return -ENOSYS;
#define RESOLVE(name)                                        \
	if (!(*(void **)&s->name = dlsym(s->handle, #name))) \
		return -ENOSYS;
	FUNCTIONS(RESOLVE)
#undef RESOLVE
	usual = s->sqlite3_vfs_find(NULL);
	if (!usual)
		return -ENOMEM;
	s->vfs = *usual; /* its clock and random numbers */
	s->vfs.zName = "kvmft";
	s->vfs.szOsFile = sizeof(struct file);
	s->vfs.pNext = NULL;
	s->vfs.pAppData = s;
	s->vfs.xOpen = vfs_open;
	s->vfs.xAccess = vfs_access;
	s->vfs.xFullPathname = vfs_path;
	ret = s->sqlite3_vfs_register(&s->vfs, 0);
	s->registered = !ret;
	ret = ret
		      ?: s->sqlite3_open_v2("db", &s->db,
					    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
						    SQLITE_OPEN_NOMUTEX,
					    s->vfs.zName);
	return sq_errno(s, ret)
		       ?: sq_exec(s, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA "
				     "temp_store=MEMORY; PRAGMA cache_size=-4096; BEGIN");
}

int sq_table(struct sq *s, const char *name, const char *sql, struct sq_table **out)
{
	struct sq_table *t = *out = xcalloc(1, sizeof(*t));

	t->next = s->tables;
	s->tables = t;
	t->name = xstrdup(name);
	t->has_id = strstr(sql, " INTEGER PRIMARY KEY");
	return sq_exec(s, sql);
}

int sq_view(struct sq *s, const char *sql)
{
	return sq_exec(s, sql);
}

/* ---- rows ---- */

static void value_add(struct sq *s, struct value v)
{
	xarray_add(&s->value, &s->nvalue, &s->value_cap, &v, sizeof(v));
}

void sq_s64(struct sq *s, int64_t v)
{
	value_add(s, (struct value){ .kind = VALUE_NUMBER, .n = v });
}

void sq_null(struct sq *s)
{
	value_add(s, (struct value){ .kind = VALUE_NULL });
}

void sq_str_mem(struct sq *s, const void *p, size_t n)
{
	size_t at = s->text.len;

	sbuf_add_mem(&s->text, p, n);
	if (!s->text.error && n) {
		str_printable(s->text.s + at);
		s->text.len = at + strlen(s->text.s + at);
	}
	value_add(s, (struct value){ VALUE_TEXT, (int64_t)at, s->text.len - at });
}

void sq_str(struct sq *s, const char *text)
{
	if (text)
		sq_str_mem(s, text, strlen(text));
	else
		sq_null(s);
}

static int value_bind(struct sq *s, sqlite3_stmt *insert, int i, const struct value *v)
{
	switch (v->kind) {
	case VALUE_NUMBER: return s->sqlite3_bind_int64(insert, i, v->n);
	case VALUE_TEXT:
		return s->sqlite3_bind_text(insert, i, s->text.s + v->n, (int)v->len,
					    SQLITE_STATIC);
	default: return s->sqlite3_bind_null(insert, i);
	}
}

int sq_add(struct sq *s, struct sq_table *t, int64_t id)
{
	int ret = s->text.error;

	if (!ret && s->text.len > INT32_MAX)
		ret = -EFBIG;
	if (!ret && !t->insert) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };

		sbuf_add(&b, "INSERT INTO ");
		sq_quote(&b, t->name);
		sbuf_add(&b, " VALUES(?");
		for (size_t i = 1; i < s->nvalue; i++)
			sbuf_add(&b, ",?");
		sbuf_addc(&b, ')');
		ret = sq_errno(s, s->sqlite3_prepare_v2(s->db, xsbuf_text(&b), -1, &t->insert,
							NULL));
	}
	if (!ret && t->has_id)
		s->value[0] = (struct value){ .kind = VALUE_NUMBER, .n = id };
	for (size_t i = 0; i < s->nvalue && !ret; i++)
		ret = sq_errno(s, value_bind(s, t->insert, (int)i + 1, &s->value[i]));
	if (!ret) {
		ret = sq_errno(s, s->sqlite3_step(t->insert));
		(void)s->sqlite3_reset(t->insert);
	}
	t->rows += !ret;
	s->nvalue = 0;
	s->text.len = 0;
	return ret;
}

uint64_t sq_rows(const struct sq_table *t)
{
	return t->rows;
}

int sq_finish(struct sq *s)
{
	return sq_exec(s, "COMMIT");
}

void sq_free(struct sq *s)
{
	struct sq_table *next;

	if (!s)
		return;
	for (struct sq_table *t = s->tables; t; t = next) {
		next = t->next;
		if (t->insert)
			(void)s->sqlite3_finalize(t->insert);
		free(t->name);
		free(t);
	}
	if (s->db)
		(void)s->sqlite3_close_v2(s->db);
	if (s->registered)
		(void)s->sqlite3_vfs_unregister(&s->vfs);
	if (s->handle)
		dlclose(s->handle);
	free(s->value);
	sbuf_free(&s->text);
	free(s);
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
