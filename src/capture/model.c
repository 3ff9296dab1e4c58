/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model.c: filling struct capture from either format, with every count bounded. */
#include "reader.h"

#include <inttypes.h>

struct capture *cap_new(void)
{
	struct capture *c = calloc(1, sizeof(*c));
	struct cap_priv *p = calloc(1, sizeof(*p));

	if (!c || !p) {
		free(c);
		free(p);
		return NULL;
	}
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
	d = array_grow(&c->damage, c->ndamage, &c->damage_cap, sizeof(*d));
	if (!d)
		return;
	*d = (struct cap_damage){ .text = strdup(text) };
	/* A failed insert only means that repeats are not merged. */
	if (d->text && !u64map_put(&cap_priv(c)->damage_by_text, hash, c->ndamage))
		c->ndamage++;
	else
		free(d->text);
}

void capture_left_out(struct capture *c, struct cap_stream *s)
{
	s->cut = true;
	cap_note(c,
		 "CPU %u was not recorded, though threads were woken there: record all CPUs "
		 "(trace-cmd record without -M)",
		 s->cpu);
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

int cap_set_str(char **slot, const char *val)
{
	char *copy;

	if (!val)
		return 0;
	copy = strdup(val);
	if (!copy)
		return -ENOMEM;
	str_printable(copy);
	free(*slot);
	*slot = copy;
	return 0;
}

struct cap_cpu *cap_cpu_at(struct capture *c, uint64_t cpu)
{
	struct cap_cpu *e;
	size_t i;

	if (cpu >= CAPTURE_MAX_CPUS) {
		cap_note(c, "CPU number %llu is beyond the limit of %d", (unsigned long long)cpu,
			 CAPTURE_MAX_CPUS);
		return NULL;
	}
	if (cpu < c->ncpu && c->cpu[cpu].cpu == cpu) /* the usual, dense case */
		return &c->cpu[cpu];
	for (i = 0; i < c->ncpu; i++)
		if (c->cpu[i].cpu == cpu)
			return &c->cpu[i];
	e = array_grow(&c->cpu, c->ncpu, &c->cpu_cap, sizeof(*e));
	if (!e)
		return NULL;
	e->cpu = (uint32_t)cpu;
	c->ncpu++;
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
		cap_note(c, "more than %d VMs", CAP_MAX_VMS);
		return NULL;
	}
	vm = array_grow(&c->vm, c->nvm, &c->vm_cap, sizeof(*vm));
	if (!vm || u64map_put(&p->vm_by_id, hash, c->nvm) || cap_set_str(&vm->id, id))
		return NULL;
	vm->fd = -1;
	c->nvm++;
	return vm;
}

int cap_task_add(struct capture *c, int32_t tid, int32_t tgid, const char *comm, bool override)
{
	struct u64map *map = &cap_priv(c)->task_by_tid;
	struct cap_task *t;
	uint64_t i;

	if (u64map_get(map, (uint32_t)tid, &i)) {
		t = &c->task[i];
		if (tgid && (override || !t->tgid))
			t->tgid = tgid;
		return override || !t->comm[0] ? cap_set_str(&t->comm, comm) : 0;
	}
	if (c->ntask >= CAP_MAX_TASKS)
		return 0;
	t = array_grow(&c->task, c->ntask, &c->task_cap, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->tid = tid;
	t->tgid = tgid;
	if (cap_set_str(&t->comm, comm ?: ""))
		return -ENOMEM;
	c->ntask++;
	return u64map_put(map, (uint32_t)tid, c->ntask - 1);
}

bool cap_formats_full(struct capture *c)
{
	if (c->nformat < CAP_MAX_FORMATS && cap_priv(c)->formats_len < CAP_MAX_FORMATS_TEXT)
		return false;
	cap_note(c, "too many event formats: the rest is left out");
	return true;
}

int cap_format_add(struct capture *c, const char *sys, const char *name, const char *text,
		   size_t len)
{
	struct cap_format *f;

	if (!cap_name_ok(sys) || !cap_name_ok(name)) {
		cap_note(c, "event %s:%s: not a valid name", sys, name);
		return 0;
	}
	if (!len || len > CAPTURE_MAX_FORMAT || !str_is_text(text, len)) {
		cap_note(c, "event %s:%s: its format is not text, or too long", sys, name);
		return 0;
	}
	if (cap_formats_full(c))
		return 0;
	f = array_grow(&c->format, c->nformat, &c->format_cap, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->sys = strdup(sys);
	f->name = strdup(name);
	f->text = strndup(text, len);
	f->len = len;
	cap_priv(c)->formats_len += len;
	c->nformat++; /* capture_close() copes with missing parts */
	return f->sys && f->name && f->text ? 0 : -ENOMEM;
}

struct cap_stream *cap_stream_add(struct capture *c, uint32_t cpu, const char *instance)
{
	struct cap_stream *s = array_grow(&c->stream, c->nstream, &c->stream_cap, sizeof(*s));

	if (!s)
		return NULL;
	s->cpu = cpu;
	s->instance = instance;
	c->nstream++;
	return s;
}

int cap_stream_extend(struct capture *c, struct cap_stream *s, const struct cap_extent *from)
{
	uint64_t rest = from->len % c->subbuf_size;
	struct cap_extent *e;

	s->cut_bytes += rest;
	if (from->len == rest)
		return 0;
	if (!s->ext) { /* usually the only one, of thousands of streams: no room for more until
		        * there are more */
		s->ext = malloc(sizeof(*s->ext));
		s->ext_cap = s->ext != NULL;
	}
	e = array_grow(&s->ext, s->next, &s->ext_cap, sizeof(*e));
	if (!e)
		return -ENOMEM;
	*e = *from;
	if (!e->packed) /* a packed piece keeps its length, which is needed to unpack it */
		e->len -= rest;
	e->first = s->nsub;
	s->next++;
	s->nsub += e->len / c->subbuf_size;
	return 0;
}

static uint64_t seek_or(int fd, uint64_t at, int what, uint64_t end)
{
	off_t to = lseek(fd, (off_t)at, what);

	return to < 0 ? end : MIN((uint64_t)to, end);
}

int cap_stream_extend_file(struct capture *c, struct cap_stream *s, int fd,
			   const struct cap_extent *from, uint64_t *holes)
{
	const uint64_t begin = from->off, end = from->off + from->len, size = c->subbuf_size;
	struct cap_extent e = *from;
	uint64_t at = begin;
	int ret = 0;

	*holes = 0;
	while (at < end && !ret) {
		uint64_t hole = seek_or(fd, at, SEEK_HOLE, end);
		uint64_t data = hole < end ? seek_or(fd, hole, SEEK_DATA, end) : end;
		uint64_t first = begin + (hole - begin + size - 1) / size * size;
		uint64_t next = begin + (data - begin) / size * size;

		if (first < next) {
			e.len = first - e.off;
			ret = cap_stream_extend(c, s, &e);
			*holes += next - first;
			e.off = next;
		}
		at = MAX(data, hole + 1);
	}
	e.len = end - e.off;
	return ret ?: cap_stream_extend(c, s, &e);
}

bool cap_subbuf_ok(uint64_t size)
{
	return size >= 64 && size <= CAPTURE_MAX_SUBBUF && !(size & (size - 1));
}

uint32_t cap_vcpu_of_cpu(const struct capture *cap, uint32_t cpu)
{
	for (size_t i = 0; i < cap->ncpu; i++)
		if (cap->cpu[i].cpu == cpu && cap->cpu[i].has_apicid)
			return cap->cpu[i].apicid;
	return cpu;
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
