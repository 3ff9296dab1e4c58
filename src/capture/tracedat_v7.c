/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat_v7.c: version 7 of trace.dat, sections reached through options.
 *
 * Behind the common start: compressor NUL, its version NUL, u64 offset of the first OPTIONS
 * section. Every section begins with u16 id, u16 flags (bit 0: compressed), u32 name, u64 size
 * of what follows:
 *
 *   OPTIONS (0)   { u16 id, u32 size, data }, closed by id 0, size 8, u64 next OPTIONS or 0
 *   16 .. 21      the metadata blocks of version 6
 *   BUFFER (3)    the sub-buffers of one tracefs instance; described by an option of the same
 *                 number: u64 offset, name NUL, clock NUL, u32 page size, u32 n,
 *                 n x { u32 cpu, u64 offset, u64 size }
 *
 * Compressed metadata: u32 packed size, u32 plain size, bytes. Compressed data of a CPU: u32
 * chunks, then chunks of the same form.
 *
 * When the options cannot be reached (the file was cut), sections are walked one after the other
 * and what they hold is used; a BUFFER section without its option has no CPU table and is lost.
 */
#include "tracedat.h"

#include <inttypes.h>

#define SECTION_HEADER 16
#define MAX_PLAIN      (64u << 20) /* metadata, unpacked */
#define MAX_CHUNK      (16u << 20) /* events, unpacked: libtracecmd writes 10 sub-buffers */
#define PACKED	       1 /* section flag */

struct section {
	uint16_t id, flags;
	uint64_t off, size; /* of the payload */
};

static int section_at(struct td *t, uint64_t off, struct section *s)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct cursor cur;
	uint32_t name;
	size_t len = 0;
	int ret = td_load(t, off, SECTION_HEADER, &data, &len);

	if (ret)
		return ret;
	cur = (struct cursor){ data, len };
	if (cur_u16(&cur, &s->id) || cur_u16(&cur, &s->flags) || cur_u32(&cur, &name) ||
	    cur_u64(&cur, &s->size))
		return -ENODATA;
	s->off = off + SECTION_HEADER;
	return 0;
}

/* Each section counts once: many that claim the same bytes would take endless time. */
static int take_meta(struct td *t, uint64_t n)
{
	if (n > t->meta_left)
		return -EFBIG;
	t->meta_left -= n;
	return 0;
}

static void section_bad(struct capture *c, const char *what, int ret)
{
	cap_note(c, "section %s: %s", what,
		 ret == -ENODATA ? "cut"
		 : ret == -EFBIG ? "larger than any kernel's, not unpacked"
				 : "damaged");
	c->complete = false;
}

/* u32 packed, u32 plain, bytes -> *out. */
static int unpack(struct td *t, const uint8_t *data, size_t len, uint8_t **out, size_t *n)
{
	struct cursor cur = { data, len };
	uint32_t packed, plain;
	const uint8_t *p;

	if (cur_u32(&cur, &packed) || cur_u32(&cur, &plain) || cur_bytes(&cur, packed, &p))
		return -ENODATA;
	if (plain > MAX_PLAIN || take_meta(t, plain))
		return -EFBIG;
	*out = malloc((size_t)plain + 1);
	if (!*out)
		return -ENOMEM;
	*n = plain;
	return cap_unpack(cap_priv(t->c)->packing, p, packed, *out, plain);
}

/* The payload of a metadata section in memory, plain. */
static int section_load(struct td *t, const struct section *s, uint8_t **out, size_t *len)
{
	_cleanup_free_ uint8_t *packed = NULL;
	size_t n = 0;
	int ret;

	if (s->size > CAPTURE_MAX_META ||
	    take_meta(t, MIN(s->size, t->size - MIN(s->off, t->size))))
		return -EFBIG;
	if (!(s->flags & PACKED))
		return td_load(t, s->off, s->size, out, len);
	if (!cap_priv(t->c)->packing)
		return -EBADMSG;
	ret = td_load(t, s->off, s->size, &packed, &n);
	return ret ?: unpack(t, packed, n, out, len);
}

static const struct {
	uint16_t id;
	const char *what;
	int (*read)(struct td *t, struct cursor *cur);
} meta_section[] = {
	{ TD_HEADER_INFO, "header_page and header_event", td_header_info },
	{ TD_FTRACE_EVENTS, "ftrace events", td_ftrace_events },
	{ TD_EVENT_FORMATS, "event formats", td_event_formats },
	{ TD_KALLSYMS, "kallsyms", td_kallsyms },
	{ TD_PRINTK, "printk formats", td_printk },
	{ TD_CMDLINES, "saved command lines", td_cmdlines },
};

static int kallsyms_load(struct capture *c, const struct cap_later *at)
{
	struct td t = {
		.c = c, .fd = cap_priv(c)->fd, .size = at->file, .meta_left = at->size + MAX_PLAIN
	};
	const struct section s = { .flags = at->flags, .off = at->off, .size = at->size };
	_cleanup_free_ uint8_t *data = NULL;
	size_t len = 0;
	int ret = section_load(&t, &s, &data, &len);
	struct cursor cur = { data, len };

	ret = ret ?: td_kallsyms(&t, &cur);
	if (ret && ret != -ENOMEM)
		section_bad(c, "kallsyms", ret);
	return ret;
}

bool td_kallsyms_later(struct td *t, uint64_t off, uint64_t size, uint16_t flags)
{
	if (!t->c->is_tracedat || off > t->size || size > t->size - off || size > CAPTURE_MAX_META)
		return false;
	if (!cap_priv(t->c)->kallsyms.load)
		cap_priv(t->c)->kallsyms = (struct cap_later){ .load = kallsyms_load,
							       .off = off,
							       .size = size,
							       .file = t->size,
							       .flags = flags };
	return true;
}

static bool read_later(struct td *t, const struct section *s)
{
	return s->id == TD_KALLSYMS && (!(s->flags & PACKED) || cap_priv(t->c)->packing) &&
	       !take_meta(t, s->size) && td_kallsyms_later(t, s->off, s->size, s->flags);
}

static int section_read(struct td *t, const struct section *s)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct cursor cur;
	size_t len = 0, i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(meta_section); i++) {
		if (meta_section[i].id != s->id)
			continue;
		ret = section_load(t, s, &data, &len);
		cur = (struct cursor){ data, len };
		ret = ret ?: meta_section[i].read(t, &cur);
		if (!ret || ret == -ENOMEM)
			return ret;
		section_bad(t->c, meta_section[i].what, ret);
	}
	return 0;
}

/*
 * Compressed sub-buffers: u32 chunks, then u32 packed, u32 plain, bytes each. The size that
 * libtracecmd writes for them leaves out the first four bytes.
 */
static int packed_area(struct td *t, uint32_t cpu, const char *instance, uint64_t off,
		       uint64_t len)
{
	uint64_t end, at;
	_cleanup_free_ uint8_t *head = NULL;
	struct cap_stream *s = cap_stream_add(t->c, cpu, instance);
	struct cursor cur;
	uint32_t chunks, packed, plain;
	size_t n = 0;
	int ret;

	if (!s)
		return -ENOMEM;
	ret = td_load(t, off, 4, &head, &n);
	if (ret == -ENOMEM)
		return ret;
	cur = (struct cursor){ head, ret ? 0 : n };
	if (len > t->left || cur_u32(&cur, &chunks)) /* off lies in the file from here on */
		goto cut;
	t->left -= len;
	at = off + 4;
	end = at + MIN(len, t->size - at);
	for (; chunks; chunks--, at += 8ull + packed) {
		_cleanup_free_ uint8_t *data = NULL;

		if (end - at < 8 || td_load(t, at, 8, &data, &n))
			goto cut;
		cur = (struct cursor){ data, n };
		if (cur_u32(&cur, &packed) || cur_u32(&cur, &plain) || packed > end - at - 8 ||
		    !packed || plain > MAX_CHUNK || plain % t->c->subbuf_size)
			goto cut;
		ret = cap_stream_extend(t->c, s, &(struct cap_extent){ .fd = t->fd, .off = at + 8,
						.len = plain, .packed = packed });
		if (ret)
			return ret;
	}
	return 0;
cut:
	cap_note(t->c, "CPU %u: compressed events are cut or damaged, the rest is missing", cpu);
	t->c->complete = false;
	return 0;
}

static int opt_buffer(struct td *t, struct cursor opt)
{
	const char *name, *clock, *instance;
	struct section s = {
		.id = TD_DONE
	}; /* not that of a buffer, if it is outside the file */
	uint32_t page, n, cpu;
	uint64_t at, off, len;
	int ret = 0;

	if (cur_u64(&opt, &at) || cur_str(&opt, &name) || cur_str(&opt, &clock) ||
	    cur_u32(&opt, &page) || cur_u32(&opt, &n) || n > opt.left / 20) {
		cap_note(t->c, "option BUFFER is damaged");
		t->c->complete = false;
		return 0;
	}
	instance = td_instance(t, name);
	if (!instance || (!t->c->clock && *clock && cap_parse_clock(&t->c->clock, clock)))
		return -ENOMEM;
	if (page != t->c->subbuf_size) {
		cap_note(t->c, "buffer '%s' has another page size (%u), which is not supported",
			 name, page);
		t->c->complete = false;
		return 0;
	}
	ret = section_at(t, at, &s);
	if (ret == -ENOMEM)
		return ret;
	if (ret || s.id != TD_BUFFER) /* the areas may still be there */
		cap_note(t->c, "buffer '%s': its section is missing", name);
	for (ret = 0; n && !ret && !td_streams_full(t); n--) {
		if (cur_u32(&opt, &cpu) || cur_u64(&opt, &off) || cur_u64(&opt, &len))
			break;
		if (cap_priv(t->c)->packing && s.id == TD_BUFFER && (s.flags & PACKED) &&
		    cpu < CAPTURE_MAX_CPUS)
			ret = packed_area(t, cpu, instance, off, len);
		else
			ret = td_add_area(t, cpu, instance, off, len);
	}
	return ret;
}

/* An option that names a section: u64 offset first. */
static int opt_section(struct td *t, uint16_t id, struct cursor opt)
{
	struct section s;
	uint64_t off;
	int ret;

	if (cur_u64(&opt, &off))
		ret = -ENODATA;
	else
		ret = section_at(t, off, &s);
	if (!ret && s.id == id)
		return read_later(t, &s) ? 0 : section_read(t, &s);
	if (ret == -ENOMEM)
		return ret;
	cap_note(t->c, "section %u is missing", id);
	t->c->complete = false;
	return 0;
}

static int one_option(struct td *t, uint16_t id, struct cursor opt)
{
	if (id == TD_BUFFER)
		return opt_buffer(t, opt);
	if (id >= TD_HEADER_INFO && id <= TD_CMDLINES)
		return opt_section(t, id, opt);
	if (id == TD_BUFFER_TEXT)
		cap_note(t->c, "this file holds the text of a latency tracer");
	return td_option(t, id, opt);
}

/* One OPTIONS section; *next becomes the offset of the following one. */
static int read_options(struct td *t, uint64_t off, uint64_t *next)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct cursor cur, opt;
	struct section s;
	const uint8_t *p;
	uint32_t size;
	uint16_t id;
	size_t len = 0;
	int ret;

	*next = 0;
	ret = section_at(t, off, &s);
	if (!ret && s.id != TD_DONE)
		ret = -EBADMSG;
	ret = ret ?: section_load(t, &s, &data, &len);
	cur = (struct cursor){ data, len };
	while (!ret) {
		if (cur_u16(&cur, &id) || cur_u32(&cur, &size) || cur_bytes(&cur, size, &p))
			return -ENODATA;
		opt = (struct cursor){ p, size };
		if (id == TD_DONE)
			return cur_u64(&opt, next) ? -ENODATA : 0;
		ret = one_option(t, id, opt);
	}
	return ret;
}

/* Without options: metadata sections in the order of the file. */
static int walk_sections(struct td *t, uint64_t off)
{
	struct section s;
	int ret;

	t->meta_left = t->size +
		       MAX_PLAIN; /* they do not overlap, though some may have been read before */
	while (!section_at(t, off, &s)) {
		if (s.id == TD_BUFFER)
			cap_note(t->c, "a buffer of %" PRIu64 " bytes has no CPU table: its events "
				 "cannot be told apart and are left out", s.size);
		ret = section_read(t, &s);
		if (ret)
			return ret;
		if (s.size > t->size - off)
			break;
		off = s.off + s.size;
	}
	return 0;
}

int td_read_v7(struct td *t, uint64_t off)
{
	uint64_t at = off, next;
	int ret = 0;

	t->meta_left =
		t->size + 4ull * MAX_PLAIN; /* unpacked, it may be larger than the file */
	while (at && !ret) {
		if (u64map_get(&t->seen, at, &next)) {
			cap_note(t->c, "the chain of options is a loop");
			break;
		}
		ret = u64map_put(&t->seen, at, 1);
		ret = ret ?: read_options(t, at, &next);
		if (!ret)
			at = next;
	}
	if (ret != -ENODATA && ret != -EBADMSG && ret != -EFBIG)
		return ret;
	section_bad(t->c, "of options", ret);
	return t->c->nformat ? 0 : walk_sections(t, t->start);
}
