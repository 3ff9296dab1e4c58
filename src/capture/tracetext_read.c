/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracetext_read.c: a trace as text, read as a capture.
 *
 * It is read once, from front to back, and may be packed by gzip or come from a pipe. Each line
 * becomes an event in the sub-buffers of its CPU, which are kept in memory; that is bounded, and so
 * is everything else.
 */
#include "kvmft/subbuf.h"
#include "tracetext.h"

#include <inttypes.h>
#include <sys/stat.h>

#define BLOCK	   4096u		/* a sub-buffer */
#define MAX_BLOCKS (1u << 18)		/* of all CPUs: 1 GiB */
#define MAX_PLAIN  ((uint64_t)16 << 30) /* of what gzip unpacks */
#define MAX_LINE   (64u << 10)
#define MAX_SEARCH (1u << 20) /* by then an event was found, or it is no trace */
#define MAX_TYPES  4096u
#define FIRST_ID   32u	       /* those before are ftrace's own */
#define MIN_TSC	   1000000000u /* of half a second after the boot */
#define TSC_STEP   16u	       /* between two events of a CPU: no TSC advances less */

_Static_assert(TT_RECORD_MAX + 64 <= BLOCK, "any event fits");

/* The events of a CPU. */
struct tt_cpu {
	struct subbuf_writer w;
	struct tracetext *t;
	uint8_t **block;
	size_t n, cap;
	uint64_t last;
	int32_t thread; /* of lines without one: by the vCPU that runs there, -1: none */
	bool any;
};

/* Events of one name and with the same fields. */
struct tt_type {
	uint16_t id;
	uint64_t n;
};

struct tracetext {
	struct capture *c;
	struct kvmft_err *err;
	int fd;
	bool regular, packed, broken; /* broken: the packed data end, or are damaged */
	uint64_t off;		      /* of a regular file */
	uint8_t pre[16];	      /* of anything else: what was read to see what it is */
	size_t npre;
	uint64_t plain;
	struct cap_unpacker *unpacker;
	char *buf; /* MAX_SEARCH bytes and a NUL: what was read, and of that what is left */
	size_t have, at;
	bool eof;
	struct tt_cpu *cpu[CAPTURE_MAX_CPUS];
	struct tt_cpu **stream; /* by number of the CPU */
	size_t nblock;
	struct u64map type_of; /* index into type: by a hash of system, name and fields */
	struct u64map inside;  /* of lines without a thread: 1 + the CPU that a vCPU runs on */
	bool mixed;	       /* ... of several VMs */
	struct u64map names;   /* how many of the same name and other fields there are */
	struct hash_key key;
	struct tt_type *type;
	size_t ntype, type_cap;
	uint64_t isa;
	struct sbuf format;

	/* an event that the next line may continue; its text is in `text` */
	struct tt_line held;
	bool holds;
	char text[TT_TEXT_MAX + 1], comm[16], sys[128], name[128];

	/* what it is */
	enum tt_time kind;
	uint8_t digits; /* of the fraction, at most */
	uint64_t last;	/* time of the line before */
	uint64_t step;	/* least of a CPU, of counts */
	uint64_t first;
	char side[64]; /* the one that is read, of kvmft's text */
	uint64_t events, other_side, backwards, no_time, no_cpu, no_comm, cut, elsewhere, variants;
	uint64_t in_buffer, written; /* as its head says */
	bool full, blind_exits;	     /* kvm_exit without its vCPU */
};

/* ---- bytes ---- */

static ssize_t read_source(void *arg, void *buf, size_t n)
{
	struct tracetext *t = arg;
	ssize_t got;

	if (t->regular) {
		got = full_pread(t->fd, buf, n, t->off);
		t->off += got > 0 ? (uint64_t)got : 0;
		return got;
	}
	if (t->npre) {
		n = MIN(n, t->npre);
		memcpy(buf, t->pre, n);
		t->npre -= n;
		memmove(t->pre, t->pre + n, t->npre);
		return (ssize_t)n;
	}
	do
		got = read(t->fd, buf, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* More of the text, into what is free of buf; NULs, which no line has, become '?'. */
static int fill_lines(struct tracetext *t)
{
	memmove(t->buf, t->buf + t->at, t->have - t->at);
	t->have -= t->at;
	t->at = 0;
	while (t->have < MAX_SEARCH && !t->eof) {
		char *to = t->buf + t->have;
		size_t room = MAX_SEARCH - t->have;
		ssize_t n = t->packed ? cap_gunzip(&t->unpacker, read_source, t, to, room)
				      : read_source(t, to, room);

		if (t->packed && (n == -ENODATA || n == -EBADMSG))
			t->broken = true;
		else if (n < 0)
			return (int)n;
		t->eof = n <= 0 || (t->packed && t->plain > MAX_PLAIN);
		n = MAX(n, 0);
		t->plain += (uint64_t)n;
		for (char *nul = to; (nul = memchr(nul, '\0', (size_t)(to + n - nul)));)
			*nul = '?';
		t->have += (size_t)n;
	}
	t->buf[t->have] = '\0';
	return 0;
}

/* The next line, ended by NUL: 1; 0: no more; -errno. */
static int next_line(struct tracetext *t, char **line)
{
	char *end = memchr(t->buf + t->at, '\n', t->have - t->at);
	int ret = 0;

	if (!end && !t->eof) {
		ret = fill_lines(t);
		end = ret ? NULL : memchr(t->buf, '\n', t->have);
	}
	if (ret || t->at == t->have)
		return ret;
	*line = t->buf + t->at;
	end = end ?: t->buf + t->have;
	if (end - *line > MAX_LINE) {
		cap_note(t->c, "a line of more than %u bytes: it and what follows are left out",
			 MAX_LINE);
		t->c->complete = false;
		return 0;
	}
	t->at = MIN((size_t)(end + 1 - t->buf), t->have);
	*end = '\0';
	if (end > *line && end[-1] == '\r')
		end[-1] = '\0';
	for (; **line == '>'; ++*line) /* as mail quotes it */
		if ((*line)[1] == ' ' && (*line)[2] == '>')
			++*line;
	return 1;
}

/* ---- events ---- */

static int keep_block(void *arg, const void *buf)
{
	struct tt_cpu *cpu = arg;
	uint8_t *copy;

	if (cpu->t->nblock >= MAX_BLOCKS) {
		cpu->t->full = true;
		return -EFBIG;
	}
	copy = malloc(BLOCK);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, buf, BLOCK);
	if (array_add(&cpu->block, &cpu->n, &cpu->cap, &copy, sizeof(copy))) {
		free(copy);
		return -ENOMEM;
	}
	cpu->t->nblock++;
	return 0;
}

/* NULL: out of memory. */
static struct tt_cpu *cpu_at(struct tracetext *t, uint32_t number)
{
	const struct subbuf_geom g = {
		.size = BLOCK, .header = 16, .long_size = 8
	};
	struct tt_cpu *cpu = t->cpu[number];

	if (cpu)
		return cpu;
	cpu = calloc(1, sizeof(*cpu));
	if (!cpu || subbuf_writer_init(&cpu->w, &g, keep_block, cpu)) {
		free(cpu);
		return NULL;
	}
	cpu->t = t;
	cpu->thread = -1;
	t->cpu[number] = cpu;
	return cpu;
}

/* Known ones' systems are known; of others it is guessed only where all have the same. */
static struct tt_word system_of(const struct tt_line *l, const struct tt_event *e)
{
	static const struct {
		const char *prefix, *sys;
	} of[] = { { "kvm_", "kvm" },	       { "vgic_", "kvm" },
		   { "sched_", "sched" },      { "sys_enter", "syscalls" },
		   { "sys_exit", "syscalls" }, { "kernel_stack", "text" } };
	const char *sys = e ? tt_event_sys(e) : "text";

	if (l->sys.n)
		return l->sys;
	for (size_t i = 0; !e && i < ARRAY_SIZE(of); i++)
		if (l->name.n >= strlen(of[i].prefix) &&
		    !memcmp(l->name.s, of[i].prefix, strlen(of[i].prefix)))
			sys = of[i].sys;
	return (struct tt_word){ sys, strlen(sys) };
}

static int new_type(struct tracetext *t, const struct tt_values *v, struct tt_word sys,
		    struct tt_word name, uint64_t key)
{
	struct tt_type type = { .id = (uint16_t)(FIRST_ID + t->ntype) };
	char s[128], n[128];
	int ret;

	snprintf(s, sizeof(s), "%.*s", (int)sys.n, sys.s);
	snprintf(n, sizeof(n), "%.*s", (int)name.n, name.s);
	sbuf_reset(&t->format);
	tt_format(v, (struct tt_word){ n, strlen(n) }, type.id, &t->format);
	ret = t->format.error ?: cap_format_add(t->c, s, n, t->format.s, t->format.len);
	ret = ret ?: u64map_put(&t->type_of, key, t->ntype);
	return ret ?: array_add(&t->type, &t->ntype, &t->type_cap, &type, sizeof(type));
}

/* The type of such an event, made if it is new; NULL with *ret 0: there are too many. */
static struct tt_type *type_with(struct tracetext *t, const struct tt_values *v, struct tt_word sys,
				 struct tt_word name, int *ret)
{
	uint64_t key = hash_bytes(&t->key, sys.s, sys.n) * 3 + hash_bytes(&t->key, name.s, name.n);
	uint64_t *variants = u64map_at(&t->names, key), at;

	*ret = variants ? 0 : -ENOMEM;
	if (!variants)
		return NULL;
	key ^= (uint64_t)v->have * 0x9e3779b97f4a7c15u;
	if (!u64map_get(&t->type_of, key, &at)) {
		if (t->ntype >= MAX_TYPES)
			return NULL;
		++*variants;
		at = t->ntype;
		*ret = new_type(t, v, sys, name, key);
		if (*ret)
			return NULL;
	}
	return &t->type[at];
}

/* Where it is in time; lines of one stamp keep their order, if that leaves room for it. */
static uint64_t place(struct tracetext *t, const struct tt_line *l)
{
	uint64_t unit = 1;

	if (t->kind == TT_NO_TIME)
		return ++t->last;
	if (l->kind != t->kind) {
		t->no_time += !l->lost;
		return t->last;
	}
	for (unsigned int i = l->digits; t->kind == TT_NS && i < 9; i++)
		unit *= 10;
	t->digits = MAX(t->digits, l->digits);
	t->last = l->time <= t->last && t->last - l->time < unit - 1 ? t->last + 1 : l->time;
	return t->last;
}

static int put_lost(struct tracetext *t, const struct tt_line *l)
{
	struct tt_cpu *cpu = cpu_at(t, l->cpu);

	return cpu ? subbuf_write_lost(&cpu->w, l->count) : -ENOMEM;
}

static void count_event(struct tracetext *t, const struct tt_values *v, const struct tt_line *l)
{
	static const char exit[] = "kvm_exit";

	t->events++;
	t->no_cpu += !l->has_cpu;
	t->no_comm += l->pid < 0;
	t->blind_exits |= v->e && tt_word_is(l->name, exit) && !(v->have & 1);
}

/*
 * A line without a thread: from kvm_entry on, a CPU runs that vCPU's. One that is inside on two
 * CPUs is of two VMs.
 */
static int give_thread(struct tracetext *t, struct tt_cpu *cpu, const struct tt_values *v,
		       struct tt_word sys, struct tt_line *l)
{
	bool entry = tt_word_is(l->name, "kvm_entry");

	if ((entry || tt_word_is(l->name, "kvm_exit")) && v->have & 1 &&
	    v->v[0] < CAPTURE_MAX_CPUS) {
		uint64_t *at = u64map_at(&t->inside, v->v[0]);

		if (!at)
			return -ENOMEM;
		t->mixed |= *at && *at != l->cpu + 1u;
		*at = entry ? l->cpu + 1u : 0;
		cpu->thread = (int32_t)v->v[0] + 1;
	}
	if (tt_word_is(sys, "kvm"))
		l->pid = cpu->thread;
	return 0;
}

static int put_held(struct tracetext *t, struct tt_line *l)
{
	const struct tt_event *e = tt_event_find(l->sys, l->name);
	struct tt_word sys = system_of(l, e);
	uint64_t at = place(t, l), delta;
	struct tt_cpu *cpu = cpu_at(t, l->cpu);
	uint8_t record[TT_RECORD_MAX];
	struct tt_values v;
	struct tt_type *type;
	int ret;

	if (!cpu)
		return -ENOMEM;
	tt_values(e, l->text.s, &t->isa, &v);
	type = type_with(t, &v, sys, l->name, &ret);
	if (!type)
		return ret;
	type->n++;
	count_event(t, &v, l);
	if (l->pid < 0)
		ret = give_thread(t, cpu, &v, sys, l);
	t->backwards += cpu->any && at < cpu->last;
	delta = cpu->any && at > cpu->last ? at - cpu->last : 0;
	if (cpu->any && delta)
		t->step = MIN(t->step, delta);
	t->first = t->events == 1 ? at : MIN(t->first, at);
	cpu->last = at;
	cpu->any = true;
	if (!ret && l->pid > 0 && l->comm.n)
		ret = cap_task_add(t->c, l->pid, 0, t->comm, true);
	return ret ?: subbuf_write(&cpu->w, at, record, tt_record(&v, l, type->id, record));
}

/* ---- lines ---- */

static int let_go(struct tracetext *t)
{
	if (!t->holds)
		return 0;
	t->holds = false;
	return put_held(t, &t->held);
}

static void copy(char *to, size_t size, struct tt_word *w)
{
	w->n = MIN(w->n, size - 1);
	memmove(to, w->s, w->n);
	to[w->n] = '\0';
	w->s = to;
}

static void add_to_held(struct tracetext *t, const char *between, const char *s)
{
	size_t n = strlen(s), more = strlen(between), at = t->held.text.n;

	t->cut += at + n + more > TT_TEXT_MAX;
	if (at + n + more > TT_TEXT_MAX)
		return;
	memcpy(t->text + at, between, more);
	memcpy(t->text + at + more, s, n + 1);
	t->held.text.n = at + more + n;
}

/* "sys_ioctl(fd: 3, ...)" and "sys_ioctl -> 0x0" are what ftrace makes of two events. */
static void name_syscall(struct tracetext *t, struct tt_line *l)
{
	const char *end = t->text + l->name.n;

	if (!str_starts(t->name, "sys_") || strncmp(t->text, t->name, l->name.n) ||
	    !(*end == '(' || str_starts(end, " -> ")) || l->name.n > 100)
		return;
	memmove(t->name + 4 + (*end == '(' ? 6 : 5), t->name + 4, l->name.n - 3);
	memcpy(t->name + 4, *end == '(' ? "enter_" : "exit_", *end == '(' ? 6 : 5);
	l->name.n = strlen(t->name);
}

static void hold_event(struct tracetext *t, const struct tt_line *l)
{
	struct tt_line *h = &t->held;

	*h = *l;
	t->cut += l->text.n > TT_TEXT_MAX;
	copy(t->text, sizeof(t->text), &h->text);
	copy(t->comm, sizeof(t->comm), &h->comm);
	copy(t->sys, sizeof(t->sys), &h->sys);
	copy(t->name, sizeof(t->name), &h->name);
	name_syscall(t, h);
	if (tt_word_is(h->name, "tracing_mark_write")) {
		h->name = (struct tt_word){ "print", 5 };
		h->sys = (struct tt_word){ "ftrace", 6 };
	}
	t->holds = true;
}

/* "# entries-in-buffer/entries-written: 139/180   #P:4" */
static void read_entries(struct tracetext *t, const char *s)
{
	static const char entries[] = "entries-in-buffer/entries-written: ";
	const char *p = strstr(s, entries);
	uint64_t in, out;

	if (!p)
		return;
	p += sizeof(entries) - 1;
	if (!take_u64(&p, UINT64_MAX, &in) || *p++ != '/' || !take_u64(&p, UINT64_MAX, &out))
		return;
	t->in_buffer += MIN(in, UINT64_MAX / 2 - t->in_buffer / 2);
	t->written += MIN(out, UINT64_MAX / 2 - t->written / 2);
}

/* A stack's line of ftrace ("=> func"), or of perf (address, function). */
static bool is_frame(const char *s)
{
	return str_starts(s, "=> ") ||
	       (strspn(s, "0123456789abcdef") >= 6 && s[strspn(s, "0123456789abcdef")] == ' ');
}

/* A line that is no event: the rest of the one before, or its stack, or none of it. */
static int other_line(struct tracetext *t, const char *s)
{
	const char *p = s + strspn(s, " \t");
	struct tt_line stack = t->held;
	bool in_stack;
	int ret;

	if (!t->holds || !*p || *p == '#' || str_starts(p, "CPU ") || str_starts(p, "cpus=")) {
		read_entries(t, s);
		return let_go(t);
	}
	in_stack = tt_word_is(t->held.name, "kernel_stack");
	if (!is_frame(p)) {
		add_to_held(t, " ", p);
		return 0;
	}
	p += str_starts(p, "=> ") ? 3 : 0;
	if (in_stack) {
		add_to_held(t, t->held.text.n ? " <- " : "", p);
		return 0;
	}
	ret = let_go(t);
	stack.sys.n = 0;
	stack.name = (struct tt_word){ "kernel_stack", 12 };
	stack.text = (struct tt_word){ p, strlen(p) };
	hold_event(t, &stack);
	return ret;
}

/* Only one side is read; the others' lines have another clock, or other CPUs. */
static bool is_other_side(struct tracetext *t, const struct tt_line *l)
{
	return l->side.n && !tt_word_is(l->side, t->side);
}

static int event_line(struct tracetext *t, const struct tt_line *l)
{
	int ret = let_go(t);

	if (ret)
		return ret;
	if (is_other_side(t, l)) {
		t->other_side++;
		return 0;
	}
	if (l->cpu >= CAPTURE_MAX_CPUS) {
		t->elsewhere++;
		return 0;
	}
	if (!t->events && !l->lost)
		t->kind = l->kind;
	if (l->lost)
		return put_lost(t, l);
	hold_event(t, l);
	return 0;
}

/* A first half, then the line with the other one. */
static int read_lines(struct tracetext *t)
{
	_cleanup_(sbuf_free) struct sbuf both = { 0 };
	struct tt_line l;
	char *s = NULL;
	bool begun;
	int ret;

	while ((ret = next_line(t, &s)) > 0) {
		if (both.len) {
			sbuf_addc(&both, ' ');
			sbuf_add(&both, s);
			if (!both.error && tt_line(both.s, &l, &begun))
				s = both.s;
		}
		if (tt_line(s, &l, &begun))
			ret = event_line(t, &l);
		else
			ret = begun ? let_go(t) : other_line(t, s);
		if (s != both.s)
			sbuf_reset(&both);
		if (begun && s != both.s)
			sbuf_add(&both, s);
		else
			sbuf_reset(&both);
		if (ret)
			return ret;
	}
	return ret ?: let_go(t);
}

/*
 * Whether there is an event in what was read first; and which side is read: the first one, but a
 * host rather than a guest.
 */
static bool looks_like_trace(struct tracetext *t)
{
	const size_t at = t->at;
	bool found = false, vcpu = true, begun;
	struct tt_line l;
	char *end, *s = t->buf;

	for (; s < t->buf + t->have && vcpu; s = end + 1) {
		end = memchr(s, '\n', (size_t)(t->buf + t->have - s)) ?: t->buf + t->have;
		*end = '\0';
		for (; *s == '>' || (*s == ' ' && s[1] == '>'); s++)
			;
		if (end - s < MAX_LINE && tt_line(s, &l, &begun)) {
			vcpu = l.is_vcpu && l.side.n;
			if (!found || !vcpu)
				snprintf(t->side, sizeof(t->side), "%.*s", (int)l.side.n, l.side.s);
			found = true;
		}
		if (end < t->buf + t->have)
			*end = '\n';
	}
	t->at = at;
	return found;
}

/* ---- what it is ---- */

static int guess_clock(struct tracetext *t)
{
	bool tsc = t->kind == TT_COUNT && t->first >= MIN_TSC && t->step >= TSC_STEP;

	if (t->kind == TT_NS) /* which one is not known, but that it counts ns */
		return 0;
	return cap_set_str(&t->c->clock, tsc ? "x86-tsc" : "counter");
}

static void add_if(struct sbuf *b, uint64_t n, const char *text)
{
	if (n)
		sbuf_addf(b, "%s%s", b->len ? "; " : "", text);
}

/* What any text lacks, in one sentence: no loss, and no damage. */
static int say_lacks(struct tracetext *t)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint64_t unit = 1;

	for (unsigned int i = t->digits; i < 9; i++)
		unit *= 10;
	if (t->kind == TT_NS && unit > 1)
		sbuf_addf(&b, "times are of %s ns, lines of one time keep their order",
			  unit >= 1000000 ? "1000000 or more"
			  : unit == 1000  ? "1000"
					  : "100");
	add_if(&b, t->kind == TT_NO_TIME, "no times: the lines are numbered");
	add_if(&b, t->kind == TT_COUNT && t->c->clock && cap_in_tsc(t->c),
	       "its times grow as a TSC does, and are read as x86-tsc");
	add_if(&b, t->blind_exits, "kvm_exit does not have its vCPU");
	add_if(&b, t->no_comm,
	       "lines have no thread: that of KVM's is called by its vCPU's number and 1");
	add_if(&b, t->no_cpu, "some lines have no CPU, and count as of CPU 0");
	if (b.error || !b.len)
		return b.error;
	return cap_set_str(&t->c->lacks, b.s);
}

static void note_faults(struct tracetext *t)
{
	struct capture *c = t->c;

	if (t->broken)
		cap_note(c, "its packed data are damaged, or cut: what follows is missing");
	if (t->full || t->plain > MAX_PLAIN)
		cap_note(c,
			 "more than can be kept in memory: what follows %" PRIu64
			 " events is left out",
			 t->events);
	if (t->written > t->in_buffer)
		cap_note(c,
			 "its first line says that %" PRIu64 " of %" PRIu64
			 " events were overwritten before it begins",
			 t->written - t->in_buffer, t->written);
	if (t->in_buffer > t->events)
		cap_note(c, "its first line says %" PRIu64 " events, and it has %" PRIu64,
			 t->in_buffer, t->events);
	if (t->other_side)
		cap_note(c,
			 "%" PRIu64 " lines are of other machines than `%s`, and left out: give "
			 "each machine's as a file",
			 t->other_side, t->side);
	if (t->mixed)
		cap_note(c, "its lines have no thread, and a vCPU runs on two CPUs at once: they "
			    "are of several VMs, and what is said of their times is wrong");
	if (t->elsewhere)
		cap_note(c, "%" PRIu64 " lines of CPUs beyond %d are left out", t->elsewhere,
			 CAPTURE_MAX_CPUS);
	if (t->backwards)
		cap_note(c, "%" PRIu64 " lines are of an earlier time than the one before them",
			 t->backwards);
	if (t->no_time)
		cap_note(c, "%" PRIu64 " lines have no time: they are at that of the one before",
			 t->no_time);
	if (t->cut)
		cap_note(c, "%" PRIu64 " lines are longer than %u bytes, and cut", t->cut,
			 TT_TEXT_MAX);
	if (t->broken || t->full || t->plain > MAX_PLAIN)
		c->complete = false;
}

static void text_free(void *tracetext)
{
	struct tracetext *t = tracetext;

	for (size_t i = 0; i < CAPTURE_MAX_CPUS; i++) {
		struct tt_cpu *cpu = t->cpu[i];

		for (size_t k = 0; cpu && k < cpu->n; k++)
			free(cpu->block[k]);
		if (cpu) {
			free(cpu->block);
			subbuf_writer_free(&cpu->w);
		}
		free(cpu);
	}
	u64map_free(&t->type_of);
	u64map_free(&t->names);
	u64map_free(&t->inside);
	free(t->type);
	sbuf_free(&t->format);
	cap_unpacker_free(t->unpacker);
	free(t->buf);
	free(t->stream);
	free(t);
}

static int text_make(void *tracetext, uint64_t stream, uint64_t idx, const uint8_t **buf)
{
	const struct tracetext *t = tracetext;

	if (idx >= t->stream[stream]->n)
		return -EIO;
	*buf = t->stream[stream]->block[idx];
	return 0;
}

static int add_cpus(struct tracetext *t)
{
	struct cap_extent e = { .fd = -1 };
	struct cap_stream *s;
	int ret = 0;

	t->stream = calloc(CAPTURE_MAX_CPUS, sizeof(struct tt_cpu *));
	if (!t->stream)
		return -ENOMEM;
	for (uint32_t i = 0; i < CAPTURE_MAX_CPUS && !ret; i++) {
		if (!t->cpu[i])
			continue;
		ret = t->full ? 0 : subbuf_write_end(&t->cpu[i]->w);
		subbuf_writer_free(&t->cpu[i]->w);
		t->stream[t->c->nstream] = t->cpu[i];
		e.off = t->c->nstream;
		e.len = t->cpu[i]->n * BLOCK;
		s = ret ? NULL : cap_stream_add(t->c, i, "");
		ret = ret ?: s ? cap_stream_extend(t->c, s, &e) : -ENOMEM;
	}
	return ret;
}

static int begin_text(struct tracetext *t, struct kvmft_err *err)
{
	uint8_t magic[2] = { 0 };
	int ret;

	t->c->long_size = 8;
	t->c->subbuf_size = BLOCK;
	t->c->page_header = 16;
	t->step = UINT64_MAX;
	hash_key_init(&t->key);
	t->buf = malloc(MAX_SEARCH + 1);
	if (!t->buf)
		return -ENOMEM;
	if (t->regular) {
		(void)!full_pread(t->fd, magic, sizeof(magic), 0);
	} else {
		ssize_t n = 1;

		while (t->npre < sizeof(t->pre) && n > 0) {
			n = read(t->fd, t->pre + t->npre, sizeof(t->pre) - t->npre);
			t->npre += n > 0 ? (size_t)n : 0;
		}
		memcpy(magic, t->pre, sizeof(magic));
	}
	t->packed = magic[0] == 0x1f && magic[1] == 0x8b;
	ret = fill_lines(t);
	if (ret == -EOPNOTSUPP)
		return err_lack(err, -ret,
				"packed by gzip, and this kvmft was built without zlib: "
				"unpack it first");
	return ret ?: looks_like_trace(t) ? 0 : -ENOMSG;
}

int cap_text_read(struct capture *c, int fd, bool regular, struct kvmft_err *err)
{
	struct tracetext *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return -ENOMEM;
	t->c = c;
	t->fd = fd;
	t->regular = regular;
	c->complete = true;
	c->version = 1;
	cap_priv(c)->maker = (struct cap_maker){ .make = text_make, .free = text_free, .arg = t };
	ret = begin_text(t, err);
	ret = ret ?: read_lines(t);
	ret = t->full && ret == -EFBIG ? 0 : ret;
	ret = ret ?: add_cpus(t);
	ret = ret ?: guess_clock(t);
	ret = ret ?: say_lacks(t);
	if (ret)
		return ret;
	note_faults(t);
	cap_priv(c)->fd = fd;
	return 0;
}
