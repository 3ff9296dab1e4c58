/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model.c: filling struct capture from either format, with every count bounded. */
#include "reader.h"

struct capture *cap_new(void)
{
	struct capture *c = xcalloc(1, sizeof(*c));
	struct cap_priv *p = xcalloc(1, sizeof(*p));

	p->dir.fd = p->fd = p->formats.fd = -1;
	hash_key_init(&p->key);
	c->priv = p;
	return c;
}

uint64_t capture_missing(const struct capture *c, uint64_t events)
{
	uint64_t taken = 0;

	for (size_t i = 0; i < c->ncpu; i++) {
		const struct cap_cpustat *b = &c->cpu[i].begin, *e = &c->cpu[i].end;

		if (!e->valid)
			continue;
		taken += e->read + (c->is_tracedat ? e->entries : 0);
		taken -= b->valid ? b->read : 0;
	}
	return taken > events && taken < INT64_MAX ? taken - events : 0;
}

void cap_note(struct capture *c, const char *fmt, ...)
{
	struct cap_damage *d;
	uint64_t hash, i;
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		text[0] = '\0';
	va_end(ap);
	str_printable(text);
	hash = hash_bytes(&cap_priv(c)->key, text, strlen(text));
	if (u64map_get(&cap_priv(c)->damage_by_text, hash, &i) &&
	    !strcmp(c->damage[i].text, text)) {
		c->damage[i].again++;
		return;
	}
	if (c->ndamage >= CAP_MAX_DAMAGE) {
		cap_priv(c)->damage_dropped++;
		return;
	}
	xu64map_put(&cap_priv(c)->damage_by_text, hash, c->ndamage);
	d = xarray_grow(&c->damage, c->ndamage++, &c->damage_cap, sizeof(*d));
	d->text = xstrdup(text);
}

void capture_left_out(struct capture *c, struct cap_stream *s)
{
	s->cut = true;
	cap_note(c,
		 "CPU %u was not recorded, though threads were woken there: record all CPUs "
		 "(trace-cmd record without -M)",
		 s->cpu);
}

bool capture_all_cpus(const struct capture *c)
{
	for (size_t i = 0; i < c->nstream; i++)
		if (c->stream[i].doubtful || (c->stream[i].cut && !c->stream[i].nsub))
			return false;
	return true;
}

void capture_format_bad(const struct capture *c, const struct cap_format *f, const char *why)
{
	if (c->priv) /* else made for a few formats */
		cap_note((struct capture *)(uintptr_t)c, "format of %s:%s: %s", f->sys, f->name,
			 why);
}

void cap_note_rest(struct capture *c)
{
	size_t n = cap_priv(c)->damage_dropped;

	for (struct cap_damage *d = c->damage; d && d < c->damage + c->ndamage; d++) {
		char *text;

		if (!d->again ||
		    asprintf(&text, "%s (%" PRIu64 " times)", d->text, d->again + 1) < 0)
			continue;
		free(d->text);
		d->text = text;
	}
	u64map_free(&cap_priv(c)->damage_by_text);
	if (!n)
		return;
	free(c->damage[--c->ndamage].text); /* the list is full: its last line makes room */
	cap_note(c, "and %zu more of this kind", n + 1);
}

void cap_set_str(char **slot, const char *val)
{
	if (!val)
		return;
	free(*slot);
	*slot = xstrdup(val);
	str_printable(*slot);
}

struct cap_cpu *cap_cpu_at(struct capture *c, uint64_t cpu)
{
	struct cap_cpu *e;

	if (cpu >= CAPTURE_MAX_CPUS) {
		cap_note(c, "CPU number %llu is beyond the limit of %d", (unsigned long long)cpu,
			 CAPTURE_MAX_CPUS);
		return NULL;
	}
	if (cap_priv(c)->cpu_at[cpu])
		return &c->cpu[cap_priv(c)->cpu_at[cpu] - 1];
	e = xarray_grow(&c->cpu, c->ncpu++, &c->cpu_cap, sizeof(*e));
	e->cpu = (uint32_t)cpu;
	cap_priv(c)->cpu_at[cpu] = (uint16_t)c->ncpu;
	return e;
}

struct cap_vm *cap_vm_at(struct capture *c, const char *id)
{
	struct cap_priv *p = cap_priv(c);
	uint64_t hash = hash_bytes(&p->key, id, strlen(id)), i;
	struct cap_vm *vm;

	if (u64map_get(&p->vm_by_id, hash, &i))
		return &c->vm[i];
	if (c->nvm >= CAP_MAX_VMS) {
		cap_note(c, "more than %u VMs", CAP_MAX_VMS);
		return NULL;
	}
	xu64map_put(&p->vm_by_id, hash, c->nvm);
	vm = xarray_grow(&c->vm, c->nvm++, &c->vm_cap, sizeof(*vm));
	cap_set_str(&vm->id, id);
	vm->fd = -1;
	return vm;
}

const struct cap_task *cap_task(const struct capture *c, int32_t tid)
{
	uint64_t at;

	return u64map_get(&cap_priv(c)->task_by_tid, (uint32_t)tid, &at) ? &c->task[at] : NULL;
}

void cap_task_add(struct capture *c, int32_t tid, int32_t tgid, const char *comm, bool override)
{
	struct u64map *map = &cap_priv(c)->task_by_tid;
	struct cap_task *t;
	uint64_t i;

	if (u64map_get(map, (uint32_t)tid, &i)) {
		t = &c->task[i];
		if (tgid && (override || !t->tgid))
			t->tgid = tgid;
		if (override || !t->comm[0])
			cap_set_str(&t->comm, comm);
		return;
	}
	if (c->ntask >= CAP_MAX_TASKS)
		return;
	xu64map_put(map, (uint32_t)tid, c->ntask);
	t = xarray_grow(&c->task, c->ntask++, &c->task_cap, sizeof(*t));
	t->tid = tid;
	t->tgid = tgid;
	cap_set_str(&t->comm, comm ?: "");
}

bool cap_formats_full(struct capture *c)
{
	if (c->nformat < CAP_MAX_FORMATS && cap_priv(c)->formats_len < CAP_MAX_FORMATS_TEXT)
		return false;
	cap_note(c, "too many event formats: the rest is left out");
	return true;
}

void cap_format_add(struct capture *c, const char *sys, const char *name, const char *text,
		    size_t len)
{
	struct cap_format *f;

	if (!cap_name_ok(sys) || !cap_name_ok(name)) {
		cap_note(c, "event %s:%s: not a valid name", sys, name);
	} else if (!len || len > CAPTURE_MAX_FORMAT || !str_is_text(text, len)) {
		cap_note(c, "event %s:%s: its format is not text, or too long", sys, name);
	} else if (!cap_formats_full(c)) {
		f = xarray_grow(&c->format, c->nformat++, &c->format_cap, sizeof(*f));
		f->sys = xstrdup(sys);
		f->name = xstrdup(name);
		f->text = xstrndup(text, len);
		f->len = len;
		cap_priv(c)->formats_len += len;
	}
}

struct cap_stream *cap_stream_add(struct capture *c, uint32_t cpu, const char *instance)
{
	struct cap_stream *s = xarray_grow(&c->stream, c->nstream++, &c->stream_cap, sizeof(*s));

	s->cpu = cpu;
	s->instance = instance;
	return s;
}

void cap_stream_extend(struct capture *c, struct cap_stream *s, const struct cap_extent *from)
{
	uint64_t rest = from->len % c->subbuf_size;
	struct cap_extent *e;

	s->cut_bytes += rest;
	if (from->len == rest)
		return;
	if (!s->ext) { /* usually the only one, of thousands of streams: no room for more until
		        * there are more */
		s->ext = xmalloc(sizeof(*s->ext));
		s->ext_cap = 1;
	}
	e = xarray_grow(&s->ext, s->next++, &s->ext_cap, sizeof(*e));
	*e = *from;
	if (!e->packed) /* a packed piece keeps its length, which is needed to unpack it */
		e->len -= rest;
	e->first = s->nsub;
	s->nsub += e->len / c->subbuf_size;
}

static uint64_t seek_or(int fd, uint64_t at, int what, uint64_t end)
{
	off_t to = lseek(fd, (off_t)at, what);

	return to < 0 ? end : MIN((uint64_t)to, end);
}

uint64_t cap_stream_extend_file(struct capture *c, struct cap_stream *s, int fd,
				const struct cap_extent *from)
{
	const uint64_t begin = from->off, end = from->off + from->len, size = c->subbuf_size;
	struct cap_extent e = *from;
	uint64_t at = begin, holes = 0;

	while (at < end) {
		uint64_t hole = seek_or(fd, at, SEEK_HOLE, end);
		uint64_t data = hole < end ? seek_or(fd, hole, SEEK_DATA, end) : end;
		uint64_t first = begin + (hole - begin + size - 1) / size * size;
		uint64_t next = begin + (data - begin) / size * size;

		if (first < next) {
			e.len = first - e.off;
			cap_stream_extend(c, s, &e);
			holes += next - first;
			e.off = next;
		}
		at = MAX(data, hole + 1);
	}
	e.len = end - e.off;
	cap_stream_extend(c, s, &e);
	return holes;
}

bool cap_subbuf_ok(uint64_t size)
{
	return size >= 64 && size <= CAPTURE_MAX_SUBBUF && !(size & (size - 1));
}

uint64_t cap_khz(uint32_t mult, uint32_t shift)
{
	const unsigned __int128 khz = (((unsigned __int128)1000000 << shift) + mult / 2) / mult;

	return khz <= UINT32_MAX ? (uint64_t)khz : 0;
}

uint32_t cap_vcpu_of_cpu(const struct capture *cap, uint32_t cpu)
{
	size_t i = cap->priv && cpu < CAPTURE_MAX_CPUS ? cap_priv(cap)->cpu_at[cpu] : 0;

	return i && cap->cpu[i - 1].has_apicid ? cap->cpu[i - 1].apicid : cpu;
}

const char *cap_clock_advice(const struct capture *cap)
{
	const char *arch = cap->arch ?: cap->uname;

	return arch && strstr(arch, "aarch64") ? "--clock mono_raw (trace-cmd: -C mono_raw)"
					       : "--clock x86-tsc (trace-cmd: -C x86-tsc)";
}

bool cap_in_tsc(const struct capture *cap)
{
	return cap->unit_ns || (cap->clock && !strcmp(cap->clock, "x86-tsc"));
}

size_t cap_cpus(const struct capture *cap)
{
	size_t n = cap->ncpu;

	for (size_t i = 0; i < cap->nstream; i++)
		n = MAX(n, (size_t)cap->stream[i].cpu + 1);
	return n;
}
