/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto_archive.c: a Perfetto trace for each machine, in one archive: a TAR whose first member,
 * a manifest (version 1), says which file belongs to which machine, and how their clocks differ.
 *
 * A member's length precedes it, so all are kept in files of their own until the end.
 */
#include "perfetto.h"

#include <ctype.h>
#include <sys/stat.h>

#include "kvmft/json.h"

#define WRITE_AT (256u << 10)
#define BLOCK	 512u
#define MANIFEST "perfetto_manifest.json"

struct pf_archive {
	FILE *to;   /* the output's own, which receives the archive at the end */
	FILE *first; /* the first machine's file, in its place until then */
};

int pf_archive_init(struct out *o, struct pf *p)
{
	int fd;

	if (o->nfile < p->nmachine)
		return -EINVAL;
	p->archive = calloc(1, sizeof(*p->archive));
	if (!p->archive)
		return -ENOMEM;
	p->archive->to = o->f;
	fd = dup(o->file[0]);
	p->archive->first = fd < 0 ? NULL : fdopen(fd, "w");
	if (!p->archive->first) {
		util_close_fd(&fd);
		return -ENOMEM;
	}
	setvbuf(p->archive->first, NULL, _IONBF, 0);
	o->f = p->archive->first;
	for (size_t i = 0; i < p->nmachine; i++) {
		p->machine[i].id = 0;
		p->machine[i].file = o->file[i];
		if (i)
			p->machine[i].to = &p->machine[i].own;
	}
	return 0;
}

static int write_machine(struct pf_machine *m)
{
	int ret = m->own.error;

	if (!ret && m->own.len)
		ret = full_write(m->file, m->own.s, m->own.len, NULL);
	m->own.len = 0;
	return ret;
}

int pf_archive_flush(struct pf *p __unused_arg, struct pf_machine *m)
{
	return m->remote && m->own.len >= WRITE_AT ? write_machine(m) : 0;
}

/* ---- names ---- */

/* Of the file of machine i: its name, as far as that is harmless. */
static void member_name(const struct pf *p, size_t i, char *buf, size_t size)
{
	const char *label = p->machine[i].src->label;
	char name[TL_MAX_LABEL];
	size_t n = 0;

	for (; label[n] && n + 1 < sizeof(name); n++)
		name[n] = isalnum((unsigned char)label[n]) || strchr("._-", label[n]) ? label[n]
										       : '_';
	name[n] = '\0';
	for (size_t k = 0; k < i; k++)
		if (!strcmp(p->machine[k].src->label, label)) {
			snprintf(buf, size, "%s-%zu.pftrace", name, i);
			return;
		}
	snprintf(buf, size, "%s.pftrace", name);
}

static const char *clock_name(enum out_clock_kind kind)
{
	switch (kind) {
	case OUT_CLOCK_MONO_RAW: return "MONOTONIC_RAW";
	case OUT_CLOCK_MONO: return "MONOTONIC";
	case OUT_CLOCK_REALTIME: return "REALTIME";
	default: return "BOOTTIME";
	}
}

/* ---- the manifest ---- */

static void put_file(struct json *j, const struct pf *p, size_t i)
{
	char name[128], first[128];

	member_name(p, i, name, sizeof(name));
	json_object_begin(j);
	json_put_str(j, "path", name);
	json_put_object(j, "machine");
	json_put_str(j, "name", p->machine[i].src->label);
	json_object_end(j);
	if (i) { /* its BOOTTIME is t when the first one's is t + offset_ns */
		member_name(p, 0, first, sizeof(first));
		json_put_object(j, "clocks");
		json_put_str(j, "clock", "BOOTTIME");
		json_put_object(j, "sync_to");
		json_put_str(j, "file", first);
		json_put_str(j, "clock", "BOOTTIME");
		json_object_end(j);
		json_put_s64(j, "offset_ns", (int64_t)p->machine[i].behind);
		json_object_end(j);
	}
	json_object_end(j);
}

static int manifest(const struct out *o, const struct pf *p, struct sbuf *b)
{
	char first[128];
	struct json j;

	member_name(p, 0, first, sizeof(first));
	json_init(&j, b);
	json_object_begin(&j);
	json_put_object(&j, "perfetto_manifest");
	json_put_u64(&j, "version", 1);
	json_put_object(&j, "trace_time");
	json_put_str(&j, "clock", p->has_readings ? clock_name(o->clock.kind) : "BOOTTIME");
	json_put_str(&j, "file", first);
	json_object_end(&j);
	json_put_array(&j, "files");
	for (size_t i = 0; i < p->nmachine; i++)
		put_file(&j, p, i);
	json_array_end(&j);
	json_object_end(&j);
	json_object_end(&j);
	return json_finish(&j);
}

/* ---- the archive ---- */

/* size has 11 octal digits; a larger one is written in base 256, as GNU tar does. */
static void put_size(char field[12], uint64_t size)
{
	if (size >> 33) {
		field[0] = (char)0x80;
		for (int i = 11; i > 0; i--, size >>= 8)
			field[i] = (char)size;
		return;
	}
	snprintf(field, 12, "%011llo", (unsigned long long)size);
}

static void put_head(struct sbuf *b, const char *name, uint64_t size)
{
	union {
		struct {
			char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type,
				link[100], magic[6], version[2];
		} f;
		char bytes[BLOCK];
	} h = { .bytes = { 0 } };
	unsigned int sum = 0;

	snprintf(h.f.name, sizeof(h.f.name), "%s", name);
	snprintf(h.f.mode, sizeof(h.f.mode), "%07o", 0644);
	snprintf(h.f.uid, sizeof(h.f.uid), "%07o", 0);
	snprintf(h.f.gid, sizeof(h.f.gid), "%07o", 0);
	put_size(h.f.size, size);
	snprintf(h.f.mtime, sizeof(h.f.mtime), "%011o", 0);
	memset(h.f.sum, ' ', sizeof(h.f.sum));
	h.f.type = '0';
	memcpy(h.f.magic, "ustar", 6);
	memcpy(h.f.version, "00", 2);
	for (size_t i = 0; i < sizeof(h.bytes); i++)
		sum += (unsigned char)h.bytes[i];
	snprintf(h.f.sum, sizeof(h.f.sum), "%06o", sum);
	sbuf_add_mem(b, h.bytes, sizeof(h.bytes));
}

static void pad(struct sbuf *b, uint64_t size)
{
	static const char zero[BLOCK];

	sbuf_add_mem(b, zero, (BLOCK - size % BLOCK) % BLOCK);
}

static int copy_file(struct out *o, int fd, uint64_t size)
{
	char buf[16384];
	int ret = 0;

	for (uint64_t at = 0; at < size && !ret;) {
		ssize_t n = full_pread(fd, buf, MIN(sizeof(buf), size - at), at);

		if (n <= 0)
			return n < 0 ? (int)n : -EIO;
		sbuf_add_mem(&o->line, buf, (size_t)n);
		at += (uint64_t)n;
		if (o->line.len >= WRITE_AT)
			ret = out_flush(o);
	}
	return ret;
}

static int put_member(struct out *o, struct pf *p, size_t i)
{
	char name[128];
	struct stat st;
	int ret;

	if (fstat(p->machine[i].file, &st) < 0)
		return -errno;
	member_name(p, i, name, sizeof(name));
	put_head(&o->line, name, (uint64_t)st.st_size);
	ret = copy_file(o, p->machine[i].file, (uint64_t)st.st_size);
	pad(&o->line, (uint64_t)st.st_size);
	return ret ?: o->line.error;
}

static int put_all(struct out *o, struct pf *p)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	static const char end[2 * BLOCK];
	int ret = manifest(o, p, &text);

	put_head(&o->line, MANIFEST, text.len);
	sbuf_add_mem(&o->line, text.s, text.len);
	pad(&o->line, text.len);
	for (size_t i = 0; i < p->nmachine && !ret; i++)
		ret = put_member(o, p, i);
	sbuf_add_mem(&o->line, end, sizeof(end));
	return ret;
}

int pf_archive_end(struct out *o, struct pf *p)
{
	int ret = out_flush(o);

	for (size_t i = 1; i < p->nmachine && !ret; i++)
		ret = write_machine(&p->machine[i]);
	o->f = p->archive->to;
	return ret ?: put_all(o, p);
}

/* A failure before the end leaves nothing in the output's own file. */
void pf_archive_free(struct out *o, struct pf *p)
{
	if (!p->archive)
		return;
	o->f = p->archive->to;
	if (p->archive->first)
		fclose(p->archive->first);
	free(p->archive);
}
