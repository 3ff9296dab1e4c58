/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dir_write.c: makes a capture directory.
 *
 * The layout is described above its reader (open.c). Writing keeps two promises: meta only ever
 * grows by whole lines, and sub-buffers go to their files as they come, so that a reader needs no
 * repair whatever happened to the writer. Everything is opened relative to the directory's own
 * descriptor and newly created (O_EXCL, O_NOFOLLOW, 0600): nobody can put a link in our way.
 */
#include "kvmft/stream.h"

#include <sys/file.h>
#include <sys/statvfs.h>

#include "reader.h"

struct capw {
	char *path;
	int dirfd, meta, formats; /* formats is created with the first one */
	uint64_t formats_len;
	bool made;
	bool held;	   /* what follows is kept here, for capw_release() */
	struct sbuf held_meta, held_formats;
	uint64_t reserved; /* bytes reserved for meta */
	struct stream_out *stream; /* instead of all this; or NULL */
};

size_t capw_fds(const struct capw *w, int fd[3])
{
	const int all[] = { w->dirfd, w->meta, w->formats };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i] >= 0)
			fd[n++] = all[i];
	return n;
}

static int open_new(struct capw *w, int parent, const char *base, struct kvmft_err *err)
{
	if (mkdirat(parent, base, 0700) < 0)
		return err_why(err, errno, "cannot make directory %s", w->path);
	w->made = true;
	w->dirfd = openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (w->dirfd < 0)
		return err_why(err, errno, "cannot open %s", w->path);
	/* So that nobody replaces it (name.c); some file systems cannot do that. */
	(void)flock(w->dirfd, LOCK_EX | LOCK_NB);
	/* The umask may have removed bits that we need ourselves. */
	if (fchmod(w->dirfd, 0700) < 0)
		return err_why(err, errno, "cannot chmod %s", w->path);
	w->meta = file_create(w->dirfd, "meta");
	if (w->meta < 0)
		return err_why(err, -w->meta, "cannot create %s/meta", w->path);
	return 0;
}

int capw_create_stream(struct stream_out *s, struct capw **out)
{
	struct capw *w = calloc(1, sizeof(*w));

	*out = w;
	if (!w)
		return -ENOMEM;
	w->dirfd = w->meta = w->formats = -1;
	w->stream = s;
	w->path = strdup("standard output");
	if (w->path)
		return 0;
	capw_close(w);
	*out = NULL;
	return -ENOMEM;
}

int capw_create(const struct capw_name *n, struct capw **out, struct kvmft_err *err)
{
	struct sbuf line = { 0 }, path = { 0 };
	struct capw *w = calloc(1, sizeof(*w));
	int ret;

	*out = NULL;
	if (!w)
		return err_set(err, ENOMEM, "out of memory");
	w->dirfd = w->meta = w->formats = -1;
	sbuf_addf(&path, "%s%s", n->shown, n->name);
	w->path = sbuf_take(&path);
	ret = w->path ? open_new(w, n->dir, n->temp, err) : err_set(err, ENOMEM, "out of memory");
	if (!ret) {
		meta_begin(&line, "kvmft-capture");
		meta_u64(&line, "version", CAPTURE_VERSION);
		ret = capw_meta(w, &line);
		err_why(err, ret, "cannot write %s/meta", w->path);
	}
	sbuf_free(&line);
	if (ret) {
		if (w->made)
			capw_name_drop(n);
		capw_why(n->dir, ret, err);
		capw_close(w);
		return ret;
	}
	*out = w;
	return 0;
}

void capw_why(int dir, int ret, struct kvmft_err *err)
{
	const int code = err->code;
	struct statvfs vfs;

	if (ret != -ENOSPC || fstatvfs(dir, &vfs) || !vfs.f_files || vfs.f_favail)
		return;
	err_set(err, ENOSPC, "%s: its file system has no inodes left (df -i)", err->text);
	err->code = code;
}

/*
 * To the end of meta, or formats: all or nothing, because what is written later must not follow the
 * beginning of something else. In a stream in frames that are not too long; a line stays whole
 * unless it is longer than a frame.
 */
static int put_text(const struct capw *w, enum stream_type type, const char *p, size_t n)
{
	const struct stream_head h = { .type = (uint16_t)type };
	const int fd = type == STREAM_META ? w->meta : w->formats;
	size_t done = 0;
	int ret = 0;

	if (!w->stream) {
		ret = full_write(fd, p, n, &done);
		if (ret && done) {
			off_t at = lseek(fd, -(off_t)done, SEEK_CUR);

			if (at >= 0)
				(void)!ftruncate(fd, at); /* else readers recognize a cut line */
		}
		return ret;
	}
	while (n && !ret) {
		size_t part = MIN(n, (size_t)STREAM_MAX_PAYLOAD);
		const char *end = part < n && type == STREAM_META ? memrchr(p, '\n', part) : NULL;

		part = end ? (size_t)(end + 1 - p) : part;
		ret = stream_out_put(w->stream, &h, p, part);
		p += part;
		n -= part;
	}
	return ret;
}

int capw_meta(struct capw *w, struct sbuf *line)
{
	int ret;

	sbuf_addc(line, '\n');
	ret = line->error;
	if (!ret && w->held)
		sbuf_add_mem(&w->held_meta, line->s, line->len);
	else if (!ret)
		ret = put_text(w, STREAM_META, line->s, line->len);
	sbuf_reset(line);
	return ret;
}

void capw_hold(struct capw *w)
{
	w->held = true;
}

int capw_release(struct capw *w)
{
	int ret = w->held_formats.error ?: w->held_meta.error;

	w->held = false;
	/* The texts first: a record never points at text not yet written. */
	if (!ret && w->held_formats.len)
		ret = put_text(w, STREAM_FORMATS, w->held_formats.s, w->held_formats.len);
	if (!ret && w->held_meta.len)
		ret = put_text(w, STREAM_META, w->held_meta.s, w->held_meta.len);
	sbuf_free(&w->held_formats);
	sbuf_free(&w->held_meta);
	return ret;
}

/* A new file below the capture, with the directories on the way. */
static int create_below(const struct capw *w, const char *name)
{
	const char *base;
	int dir = cap_parent(w->dirfd, name, true, &base), fd;

	if (dir < 0)
		return dir;
	fd = file_create(dir, base);
	if (dir != w->dirfd)
		close(dir);
	return fd;
}

int capw_file(struct capw *w, const char *name, const void *data, size_t len)
{
	_cleanup_close_ int fd = w->stream ? -1 : create_below(w, name);

	if (w->stream) {
		const struct stream_head h = { .type = STREAM_FILE, .cpu = (uint32_t)strlen(name) };
		struct sbuf b = { 0 };
		int ret;

		if (len + h.cpu > STREAM_MAX_PAYLOAD)
			return -EFBIG;
		sbuf_add(&b, name); /* it stands before the content */
		sbuf_add_mem(&b, data, len);
		ret = b.error ?: stream_out_put(w->stream, &h, b.s, b.len);
		sbuf_free(&b);
		return ret;
	}
	return fd < 0 ? fd : full_write(fd, data, len, NULL);
}

int capw_format(struct capw *w, const char *text, uint64_t *at)
{
	size_t len = strlen(text);
	int ret;

	if (w->formats < 0 && !w->stream)
		w->formats = file_create(w->dirfd, "formats");
	if (w->formats < 0 && !w->stream)
		return w->formats;
	*at = w->formats_len;
	if (w->held)
		sbuf_add_mem(&w->held_formats, text, len);
	ret = w->held ? w->held_formats.error : put_text(w, STREAM_FORMATS, text, len);
	if (!ret)
		w->formats_len += len;
	return ret;
}

int capw_data_open(struct capw *w, unsigned int segment, unsigned int cpu)
{
	char name[64];

	cap_data_name(name, sizeof(name), segment, cpu);
	return create_below(w, name);
}

int capw_data_reopen(const struct capw *w, unsigned int segment, unsigned int cpu)
{
	uint64_t size;
	char name[64];

	cap_data_name(name, sizeof(name), segment, cpu);
	return cap_open_file(w->dirfd, name, &size);
}

int capw_reserve(struct capw *w, uint64_t bytes)
{
	if (w->stream)
		return -EOPNOTSUPP;
	if (fallocate(w->meta, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) < 0)
		return -errno;
	w->reserved = bytes;
	return 0;
}

int capw_sync(struct capw *w)
{
	if (w->stream)
		return -EOPNOTSUPP;
	/* The directory, too: a segment may have begun. */
	return fdatasync(w->meta) < 0 || fsync(w->dirfd) < 0 ? -errno : 0;
}

int capw_dirfd(const struct capw *w)
{
	return w->dirfd;
}

const char *capw_path(const struct capw *w)
{
	return w->path;
}

void capw_close(struct capw *w)
{
	struct stat st;

	if (!w)
		return;
	if (w->meta >= 0) {
		/* Truncating to the same length may not free the blocks; punching a hole does. */
		if (w->reserved && !fstat(w->meta, &st) && (uint64_t)st.st_size < w->reserved &&
		    fallocate(w->meta, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, st.st_size,
			      (off_t)w->reserved - st.st_size) < 0)
			(void)!ftruncate(w->meta, st.st_size);
		close(w->meta);
	}
	util_close_fd(&w->formats);
	sbuf_free(&w->held_formats);
	sbuf_free(&w->held_meta);
	if (w->dirfd >= 0)
		close(w->dirfd);
	free(w->path);
	free(w);
}

/*
 * The directories segNNNNNN of a capture being written, and what becomes of old ones.
 */

void capw_removed_close(struct capw_removed *x)
{
	for (size_t i = 0; i < x->n; i++)
		close(x->fd[i]);
	free(x->fd);
	*x = (struct capw_removed){ 0 };
}

#define SEGMENT_NAME "seg%06u"

int capw_segment_make(const struct capw *w, unsigned int segment)
{
	const struct stream_head h = { .type = STREAM_SEGMENT, .segment = segment };
	char name[32];

	if (w->stream)
		return stream_out_put(w->stream, &h, NULL, 0);
	snprintf(name, sizeof(name), SEGMENT_NAME, segment);
	return mkdirat(w->dirfd, name, 0700) && errno != EEXIST ? -errno : 0;
}

int capw_segment_remove(struct capw *w, unsigned int segment, uint64_t *freed,
			struct capw_removed *x)
{
	char name[32];
	DIR *dir;
	int ret, fd;
	struct dirent *e;
	struct stat st;

	*freed = 0;
	snprintf(name, sizeof(name), SEGMENT_NAME, segment);
	dir = dir_open(w->dirfd, name);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	/* The data files; anything else was not made by us and stays. */
	ret = 0;
	while ((e = readdir(dir))) {
		if (strncmp(e->d_name, "cpu", 3) ||
		    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		/* It stays open: the unlink would free it at once, which is slow. */
		fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (fd >= 0 && array_add(&x->fd, &x->n, &x->cap, &fd, sizeof(fd)))
			close(fd);
		if (!unlinkat(dirfd(dir), e->d_name, 0))
			*freed += (uint64_t)st.st_size;
		else if (!ret)
			ret = -errno;
	}
	closedir(dir);
	if (!ret && unlinkat(w->dirfd, name, AT_REMOVEDIR))
		ret = -errno;
	return ret;
}

int capw_kept_add(struct capw_kept *k, uint32_t segment, const char *by)
{
	const uint8_t none = 0;
	uint8_t i = 0, *was;

	/* Names without end, of a hostile sender, share the last place. */
	while (i < CAPW_ORIGINS - 1 && strcmp(k->of[i].name, by) && (!i || k->of[i].name[0]))
		i++;
	if (i && !k->of[i].name[0])
		snprintf(k->of[i].name, sizeof(k->of[i].name), "%s", by);
	while (k->n <= segment)
		if (array_add(&k->origin, &k->n, &k->cap, &none, sizeof(none)))
			return -ENOMEM;
	was = &k->origin[segment];
	if (*was)
		k->of[*was - 1].count--;
	*was = i + 1;
	k->of[i].count++;
	k->of[i].oldest = MIN(k->of[i].oldest, segment);
	return 0;
}

bool capw_kept_over(struct capw_kept *k, uint64_t own, uint64_t others, uint32_t *segment)
{
	uint64_t total = 0;
	size_t most = 0;

	for (size_t i = 0; i < CAPW_ORIGINS; i++) {
		while (k->of[i].count && k->origin[k->of[i].oldest] != i + 1)
			k->of[i].oldest++;
		total += i ? k->of[i].count : 0;
		if (i && (!most || k->of[i].count > k->of[most].count ||
			  (k->of[i].count == k->of[most].count &&
			   k->of[i].oldest < k->of[most].oldest)))
			most = i;
	}
	if (k->of[0].count > own)
		most = 0;
	else if (total <= others)
		return false;
	*segment = k->of[most].oldest;
	k->origin[*segment] = 0;
	k->of[most].count--;
	return true;
}

void capw_kept_free(struct capw_kept *k)
{
	free(k->origin);
	k->origin = NULL;
}
