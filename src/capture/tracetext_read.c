/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracetext_read.c: a trace as text, read as a capture.
 *
 * It is read once, from front to back, and may be packed by gzip or come from a pipe. Each line
 * becomes an event in the sub-buffers of its CPU, which are kept in memory; that is bounded, and so
 * is everything else. Of a file the texts of events are not kept, but read again where they are
 * printed.
 */
#include "kvmft/capture.h"
#include "tracetext.h"

#include <sys/mman.h>

#define BLOCK	   4096u		/* a sub-buffer */
#define COMMIT	   0xffffu		/* of the word that says how much of it is used */
#define CHUNK	   (256u << 10)		/* of memory, at most */
#define MAX_KEPT   (1u << 30)		/* bytes, of all CPUs */
#define MAX_PLAIN  ((uint64_t)16 << 30) /* bytes of text */
#define MAX_LINE   (64u << 10)
#define MAX_SEARCH (1u << 20) /* by then an event was found, or it is no trace */
#define MAX_IDS	   4096u
#define FIRST_ID   32u	       /* those before are ftrace's own */
#define MIN_TSC	   1000000000u /* of half a second after the boot */
#define FEW	   4	       /* texts that what was read at once had: less is */
#define PREEMPT	   3	       /* common_preempt_count, of 4 bits */
#define REFERS	   0x80u       /* with it: its text's offset << 16 | bytes is in its slot */
#define REF_MAX	   ((int64_t)1 << 39) /* an offset where such a text begins */
#define TSC_STEP   16u	       /* between two events of a CPU: no TSC advances less */
#define BREAK	   1000000000u /* ns from one excerpt to another, at least */
#define OVERLAP	   32u	       /* seams where two recordings' times meet; fewer are excerpts' */

_Static_assert(TT_RECORD_MAX + 64 <= BLOCK, "any event fits");

/* The events of a CPU. */
struct tt_cpu {
	struct subbuf_writer w;
	struct tracetext *t;
	size_t room, kept; /* bytes: from w.buf on, and of its chunks */
	uint8_t **block;
	size_t n, cap;
	uint64_t last, breaks; /* breaks: how many of the text it has */
	int32_t thread; /* of lines without one: by the vCPU that runs there, -1: none */
	bool begun;
};

struct tracetext {
	struct capture *c;
	/* the bytes as they are, and what is left of the text so far */
	int fd;
	bool packed, cut; /* cut: the packed data end, or are damaged */
	bool open;	  /* the last line has no end */
	uint8_t raw[64 << 10];
	size_t raw_at, raw_have;
	uint64_t plain;
	struct cap_unpacker *unpacker;
	char *buf; /* MAX_SEARCH bytes, a NUL, and TT_SLACK */
	size_t have, at;
	bool eof;
	off_t base; /* of the text in the file, -1: it cannot be read again */
	/* of the file, once all was read: what buf has then, and how many texts it had */
	uint64_t win, served;
	uint8_t made[BLOCK + 8];

	struct tt_cpu *cpu[CAPTURE_MAX_CPUS];
	struct tt_cpu **stream; /* by number of the CPU */
	struct tt_chunk {
		uint8_t *at;
		size_t n;
	} *chunk; /* of sub-buffers */
	size_t nchunk, chunk_cap, kept;
	size_t nid;
	uint8_t slot_of[FIRST_ID + MAX_IDS]; /* where the text's slot is, by id */
	struct u64map id_of;  /* id of the format: by a hash of system, name and fields */
	struct u64map inside; /* of lines without a thread: 1 + the CPU that a vCPU runs on */
	struct hash_key key;
	struct tt_shapes shapes;
	uint64_t isa; /* of the last exit */
	struct {
		int32_t pid;
		char comm[16];
	} named[256]; /* threads of late: their names are known */

	/* a line that the next one may continue, in buf or held; whether it is an event so far */
	const char *line; /* NULL: none */
	struct sbuf held;
	struct tt_line lines[2], *l; /* l: its own */
	bool event, longer; /* longer: l is no more what it was */

	char side[64]; /* the one that is read, of kvmft's and trace-cmd's text */
	enum tt_time kind;
	uint8_t digits;			     /* of the fraction, at most */
	uint64_t first, last, step;	     /* of times; step: the least one of a CPU */
	uint64_t events, in_buffer, written; /* the last two as its head says */
	bool started; /* CPUs begin later than the first: their rings were overwritten */
	uint64_t others, backwards, no_time, no_cpu, no_thread, too_long, elsewhere, variants;
	bool full, mixed, blind; /* mixed: several VMs, no threads; blind: exits without vCPU */
	bool two; /* recordings, of the same time */
	/* "..." or prose stood before the line; places where lines are left out */
	bool dots, prose;
	uint64_t breaks;
};

const struct tt_line tt_no_line = { .pid = -1 };

/* ---- bytes ---- */

static ssize_t read_source(void *arg, void *buf, size_t n)
{
	struct tracetext *t = arg;
	ssize_t got;

	if (t->raw_at == t->raw_have) {
		const bool all = n >= sizeof(t->raw);

		do
			got = read(t->fd, all ? buf : t->raw, all ? n : sizeof(t->raw));
		while (got < 0 && errno == EINTR);
		if (got <= 0 || all)
			return got < 0 ? -errno : got;
		t->raw_at = 0;
		t->raw_have = (size_t)got;
	}
	n = MIN(n, t->raw_have - t->raw_at);
	memcpy(buf, t->raw + t->raw_at, n);
	t->raw_at += n;
	return (ssize_t)n;
}

/* The line that waits, in memory of its own. */
static int hold_line(struct tracetext *t)
{
	if (!t->line || t->line == t->held.s)
		return 0;
	sbuf_reset(&t->held);
	sbuf_add(&t->held, t->line);
	(void)sbuf_room(&t->held, TT_SLACK);
	t->line = t->held.s;
	return t->held.error;
}

/* NULs, which no line has, become '?', and the blanks that mails do not break at become blanks. */
static void make_plain(char *s, const char *end)
{
	for (char *c = s; (c = memchr(c, '\0', (size_t)(end - c)));)
		*c = '?';
	for (char *c = s; (c = memchr(c, 0xc2, (size_t)(end - c))); c++)
		if (c + 1 < end && c[1] == (char)0xa0)
			c[0] = c[1] = ' ';
}

/* A mail as it was sent: what "=3D" and "=" at the end of a line stand for. */
static void text_unquote(struct tracetext *t, char *to)
{
	for (const char *s = to; s < t->buf + t->have; s++) {
		const int high = *s == '=' ? str_hex_value(s[1]) : -1;
		const int low = high < 0 ? -1 : str_hex_value(s[2]);

		if (*s == '=' && (s[1] == '\n' || s[1] == '\r'))
			s += strcspn(s, "\n");
		else
			*to++ = (char)(low < 0 ? *s : high << 4 | low);
		s += low < 0 ? 0 : 2;
	}
	t->have = (size_t)(to - t->buf);
	*to = '\0';
	make_plain(t->buf, to);
}

/* More of the text, into what is free of buf. */
static int fill_lines(struct tracetext *t)
{
	const int ret = hold_line(t);
	const size_t most = t->plain ? MAX_LINE * 2 : MAX_SEARCH; /* later: what caches hold */
	bool begun;

	if (ret)
		return ret;
	if (t->line && !t->longer)
		(void)tt_line(&t->shapes, t->line, t->line + t->held.len, t->l, &begun);
	memmove(t->buf, t->buf + t->at, t->have - t->at);
	t->have -= t->at;
	t->at = 0;
	while (t->have < most && !t->eof) {
		char *to = t->buf + t->have;
		size_t room = most - t->have;
		ssize_t n = t->packed ? cap_unpack_stream(&t->unpacker, "zlib", read_source, t, to,
							  room)
				      : read_source(t, to, room);

		t->cut = t->packed && (n == -ENODATA || n == -EBADMSG);
		if (n < 0 && !t->cut && n != -EFBIG)
			return (int)n;
		t->full |= n == -EFBIG || t->plain > MAX_PLAIN;
		t->eof = n <= 0 || t->full;
		n = MAX(n, 0);
		t->plain += (uint64_t)n;
		make_plain(to - (t->have > 0), to + n);
		t->have += (size_t)n;
	}
	t->buf[t->have] = '\0';
	return 0;
}

/* The next line and its NUL, without the marks of a mail's quotes: 1; 0: no more; -errno. */
static int text_next_line(struct tracetext *t, char **line, char **nul)
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
	t->open = !end && !t->cut && !t->full;
	end = end ?: t->buf + t->have;
	if (end - *line > MAX_LINE) {
		cap_note(t->c, "a line of more than %u bytes: it and what follows are left out",
			 MAX_LINE);
		t->c->complete = false;
		return 0;
	}
	t->at = MIN((size_t)(end + 1 - t->buf), t->have);
	*end = '\0';
	*nul = end;
	if (end > *line && end[-1] == '\r')
		end[-1] = ' ';
	while (**line == '>' || (**line == ' ' && (*line)[1] == '>'))
		++*line;
	return 1;
}

/*
 * Whether there is an event in what was read first; and which side is read: the first one, but a
 * host rather than a guest.
 */
static bool find_side(struct tracetext *t)
{
	bool found = false, guest = true, begun;
	struct tt_line l;

	for (char *s = t->buf, *end; guest && s < t->buf + t->have; s = end + 1) {
		s += strspn(s, "> \t");
		end = s + strcspn(s, "\n");
		*end = '\0';
		if (end - s < MAX_LINE && tt_line(&t->shapes, s, end, &l, &begun)) {
			guest = l.is_vcpu && l.side.n;
			if (!found || !guest)
				snprintf(t->side, sizeof(t->side), "%.*s", (int)l.side.n, l.side.s);
			found = true;
		}
		if (end < t->buf + t->have)
			*end = '\n';
	}
	return found;
}

/* ---- events ---- */

/* Memory for the next ones of a CPU, as much as it has had: texts may be of thousands of CPUs. */
static void add_chunk(struct tracetext *t, struct tt_cpu *cpu)
{
	const size_t n = MIN(MAX(cpu->kept, 4 * (size_t)BLOCK), (size_t)CHUNK);
	/* Its pages at once, and soon used: each by itself, or a huge one, costs more. */
	struct tt_chunk c = { mmap(NULL, n, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0), n };

	xmem(c.at == MAP_FAILED ? NULL : c.at);
	xarray_add(&t->chunk, &t->nchunk, &t->chunk_cap, &c, sizeof(c));
	t->kept += n;
	cpu->kept += n;
	cpu->room = n;
	cpu->w.buf = c.at;
}

/*
 * It stays where it was put together, and the next one follows it: of times that go back each is in
 * a sub-buffer of its own, so only what is used is kept.
 */
static int keep_block(void *arg, const void *buf)
{
	struct tt_cpu *cpu = arg;
	/* behind the head, and how much was lost */
	const size_t n = MIN((size_t)BLOCK, 16 + (load_u64(buf + 8) & COMMIT) + 8);

	xarray_add(&cpu->block, &cpu->n, &cpu->cap, &buf, sizeof(buf));
	cpu->w.buf += n;
	cpu->room -= n;
	if (cpu->room >= BLOCK)
		return 0;
	cpu->t->full |= cpu->t->kept >= MAX_KEPT;
	if (cpu->t->full)
		return -EFBIG;
	add_chunk(cpu->t, cpu);
	return 0;
}

static struct tt_cpu *cpu_at(struct tracetext *t, uint32_t number)
{
	const struct subbuf_geom g = { .size = BLOCK, .header = 16, .long_size = 8 };
	struct tt_cpu *cpu = t->cpu[number];

	if (cpu)
		return cpu;
	cpu = xcalloc(1, sizeof(*cpu));
	xdone(subbuf_writer_init(&cpu->w, &g, keep_block, cpu));
	subbuf_writer_free(&cpu->w);
	add_chunk(t, cpu);
	cpu->t = t;
	cpu->thread = -1;
	t->cpu[number] = cpu;
	return cpu;
}

/* Known ones' systems are known; of others it is guessed only where all have the same. */
static void name_system(struct tt_line *l, const struct tt_event *e)
{
	static const char *const of[][2] = {
		{ "kvm_mmu_", "kvmmmu" },
		{ "kvm_", "kvm" },
		{ "vgic_", "kvm" },
		{ "sched_", "sched" },
		{ "sys_enter_", "syscalls" },
		{ "sys_exit_", "syscalls" },
		{ "", "text" },
	};
	size_t i = 0;

	while (!e && strncmp(l->name.s, of[i][0], strlen(of[i][0])))
		i++;
	if (!l->sys.n)
		l->sys.s = e ? e->sys : of[i][1];
	l->sys.n = l->sys.n ?: strlen(l->sys.s);
}

/* The id of events of that shape with those fields, new if there was none; 0: one too many. */
static void shape_id_of(struct tracetext *t, struct tt_shape *shape, uint32_t have,
			struct tt_line *l)
{
	_cleanup_(sbuf_free) struct sbuf format = { 0 };
	char sys[128], name[128];
	uint64_t key, *at, *first;
	bool made;

	name_system(l, shape->e);
	t->blind |= shape->e && !(have & 1) && tt_word_is(l->name, "kvm_exit");
	key = hash_bytes(&t->key, l->sys.s, l->sys.n) * 3 +
	      hash_bytes(&t->key, l->name.s, l->name.n);
	at = xu64map_at(&t->id_of, key + (have + 1ull) * 0x9e3779b97f4a7c15u);
	shape->id = (uint16_t)*at;
	if (!shape->id && t->nid == MAX_IDS)
		return;
	made = !shape->id;
	*at = shape->id = made ? (uint16_t)(FIRST_ID + t->nid++) : shape->id;
	first = xu64map_at(&t->id_of, key); /* other fields than these are not looked at */
	*first = *first ?: shape->id;
	shape->variant = *first != shape->id;
	shape->have = have;
	if (!made)
		return;
	snprintf(sys, sizeof(sys), "%.*s", (int)l->sys.n, l->sys.s);
	snprintf(name, sizeof(name), "%.*s", (int)l->name.n, l->name.s);
	tt_format(shape->e, have, name, shape->id, &format);
	cap_format_add(t->c, sys, name, xsbuf_text(&format), format.len);
}

/* Lines of one stamp keep their order, if its last digits leave room for that. */
static uint64_t place_line(struct tracetext *t, const struct tt_line *l)
{
	uint64_t unit = 1;

	if (!t->events++)
		t->kind = l->kind;
	if (t->kind == TT_NO_TIME)
		return ++t->last;
	if (l->kind != t->kind) {
		t->no_time++;
		return t->last;
	}
	for (unsigned int i = l->digits; t->kind == TT_NS && i < 9; i++)
		unit *= 10;
	t->digits = MAX(t->digits, l->digits);
	t->last = l->time <= t->last && t->last - l->time < unit - 1 ? t->last + 1 : l->time;
	return t->last;
}

/*
 * A line without a thread: from kvm_entry on, a CPU runs that vCPU's. One that is inside on two
 * CPUs is of two VMs.
 */
static void give_thread(struct tracetext *t, struct tt_cpu *cpu, uint64_t vcpu,
			const struct tt_event *e, struct tt_line *l)
{
	bool entry = tt_word_is(l->name, "kvm_entry");

	name_system(l, e);
	t->no_thread++;
	if ((entry || tt_word_is(l->name, "kvm_exit")) && vcpu < CAPTURE_MAX_CPUS) {
		uint64_t *at = xu64map_at(&t->inside, vcpu);

		t->mixed |= *at && *at != l->cpu + 1u;
		*at = entry ? l->cpu + 1u : 0;
		cpu->thread = (int32_t)vcpu + 1;
	} else if (cpu->thread < 0) {
		cpu->thread = (int32_t)(CAPTURE_MAX_CPUS + 1 + l->cpu); /* of whom? */
	}
	l->pid = tt_word_is(l->sys, "kvm") ? cpu->thread : -1;
}

/* Where ftrace prints another name: "sys_ioctl(fd: 3, ...)" and "sys_ioctl -> 0x0" are two events. */
static void name_event(struct tt_line *l, char buf[128])
{
	bool enter = l->text.n > l->name.n && l->text.s[l->name.n] == '(';

	if (tt_word_is(l->name, "tracing_mark_write"))
		l->name = (struct tt_word){ "print", 5 };
	if (l->text.s != l->name.s || l->name.n < 5 || strncmp(l->name.s, "sys_", 4))
		return;
	l->name.n = (size_t)snprintf(buf, 128, "sys_%s_%.*s", enter ? "enter" : "exit",
				     (int)MIN(l->name.n - 4, (size_t)100), l->name.s + 4);
	l->name.s = buf;
}

/* Threads keep their names for long. */
static void know_thread(struct tracetext *t, const struct tt_line *l)
{
	char *known = t->named[l->pid & 0xff].comm;

	if (!l->comm.n || l->pid <= 0 ||
	    (t->named[l->pid & 0xff].pid == l->pid && !known[l->comm.n] &&
	     tt_same(l->comm.s, known, l->comm.n)))
		return;
	t->named[l->pid & 0xff].pid = l->pid;
	snprintf(known, 16, "%.*s", (int)l->comm.n, l->comm.s);
	cap_task_add(t->c, l->pid, 0, known, true);
}

/*
 * If the file can be read again, where the text is in it: that is in the text's slot, for half of
 * the memory, until put_texts() puts the text behind the record. 0: it cannot.
 */
static uint64_t refer_text(const struct tracetext *t, const struct tt_line *l)
{
	uint64_t ref;

	if (t->base < 0 || l->text.s < t->buf || l->text.s >= t->buf + t->have ||
	    l->text.n < sizeof(ref) + 8)
		return 0;
	ref = (uint64_t)t->base + t->plain - t->have + (uint64_t)(l->text.s - t->buf);
	return ref << 16 | l->text.n;
}

/* Where somebody left lines out, or one excerpt ends and another begins, nothing is paired. */
static int mark_break(struct tracetext *t, struct tt_cpu *cpu, uint64_t before, uint64_t at)
{
	if (!t->dots && !t->prose && cpu->breaks == t->breaks)
		return 0;
	t->breaks += t->events > 1 && at > before &&
		     (t->dots || (t->prose && t->kind == TT_NS && at - before > BREAK));
	t->dots = t->prose = false;
	if (cpu->breaks == t->breaks)
		return 0;
	cpu->breaks = t->breaks;
	return subbuf_write_lost(&cpu->w, 0);
}

static int text_put_event(struct tracetext *t, struct tt_line *l)
{
	struct tt_cpu *cpu = cpu_at(t, l->cpu);
	struct tt_shape *shape;
	uint8_t *to;
	uint32_t have, len, later;
	char buf[128];
	uint64_t at, ref, breaks, before = t->last;
	int ret;

	if (l->lost)
		return subbuf_write_lost(&cpu->w, l->count);
	if (!l->guess)
		name_event(l, buf);
	if (l->text.n > TT_TEXT_MAX) {
		t->too_long++;
		l->text.n = TT_TEXT_MAX;
	}
	len = tt_record(&t->shapes, l, &t->isa, &shape);
	have = shape->bits;
	if (!shape->id || shape->have != have)
		shape_id_of(t, shape, have, l);
	if (!shape->id) {
		t->elsewhere++;
		return 0;
	}
	t->variants += shape->variant;
	at = place_line(t, l);
	breaks = cpu->breaks;
	ret = mark_break(t, cpu, before, at);
	if (ret)
		return ret;
	t->no_cpu += !l->has_cpu;
	if (cpu->begun && at > cpu->last)
		t->step = MIN(t->step, at - cpu->last);
	/* Back, or far ahead: there another excerpt may have to be put in. */
	if (!cpu->begun || at < cpu->last || at - cpu->last > BREAK || breaks != cpu->breaks) {
		t->backwards += cpu->begun && at < cpu->last;
		ret = cpu->w.open ? subbuf_write_end(&cpu->w) : 0;
		if (ret)
			return ret;
		cpu->begun = true;
		t->first = MIN(t->first, at);
	}
	cpu->last = at;
	ref = refer_text(t, l);
	later = len + (uint32_t)l->text.n + 1;
	ret = subbuf_reserve(&cpu->w, at, ref ? len : later, later, &to);
	if (ret)
		return ret;
	tt_put_record(&t->shapes, shape, to, len);
	if (ref)
		memcpy(to + shape->slot, &ref, sizeof(ref));
	else
		tt_put_string(to, to + shape->slot, len, l->text);
	t->slot_of[shape->id] = (uint8_t)shape->slot;
	if (l->pid < 0)
		give_thread(t, cpu, have & 1 ? load_u32(to + 8) : UINT64_MAX, shape->e, l);
	know_thread(t, l);
	memcpy(to, &shape->id, sizeof(shape->id));
	to[2] = l->flags;
	to[PREEMPT] = (uint8_t)(l->preempt | (ref ? REFERS : 0));
	memcpy(to + 4, &l->pid, sizeof(l->pid));
	return 0;
}

/* ---- lines ---- */

static int let_go(struct tracetext *t)
{
	struct tt_line *l = t->l;
	int ret = 0;
	bool begun;

	if (t->longer)
		t->event = tt_line(&t->shapes, t->line, t->line + t->held.len, l, &begun);
	/* The others' lines have another clock, or other CPUs. Without sides it is a remark. */
	if (t->event && *t->side && l->side.n &&
	    (l->side.n >= sizeof(t->side) || t->side[l->side.n] ||
	     !tt_same(l->side.s, t->side, l->side.n)))
		t->others++;
	else if (t->event && l->cpu >= CAPTURE_MAX_CPUS)
		t->elsewhere++;
	else if (t->event)
		ret = text_put_event(t, l);
	t->line = NULL;
	t->event = t->longer = false;
	return ret;
}

/*
 * "# entries-in-buffer/entries-written: 139/180   #P:4"; if there was more, "##### CPU 1 buffer
 * started ####" where each but the first CPU begins.
 */
static void read_entries(struct tracetext *t, const char *s)
{
	static const char entries[] = "entries-in-buffer/entries-written: ";
	const char *p = strstr(s, entries);
	uint64_t in, out;

	t->started |= str_starts(s, "##### CPU ") && strstr(s, " buffer started ####");
	p = p ? p + sizeof(entries) - 1 : NULL;
	if (p && take_u64(&p, INT64_MAX, &in) && *p++ == '/' && take_u64(&p, INT64_MAX, &out)) {
		t->in_buffer = in;
		t->written = MAX(in, out);
	}
}

/* A line that is no event: the rest of the one before, or its stack, or none of it. */
static int other_line(struct tracetext *t, const char *s)
{
	const char *p = s + strspn(s, " \t");
	const bool dots = str_starts(p, "...") || str_starts(p, "[...]");
	int ret;

	t->prose |= !t->line && *p && *p != '#';
	if (!t->line || dots || !*p || *p == '#' || str_starts(p, "CPU ") || str_starts(p, "cpus=") ||
	    str_starts(p, "```") || strstr(p, "  EPOCH of ") || strstr(p, " EPOCHS of vCPUs' clocks ")) {
		read_entries(t, s);
		ret = let_go(t);
		t->dots |= dots;
		return ret;
	}
	ret = hold_line(t);
	t->longer = true;
	if (ret || t->held.len + strlen(p) >= MAX_LINE)
		return ret;
	sbuf_addc(&t->held, ' ');
	sbuf_add(&t->held, p);
	(void)sbuf_room(&t->held, TT_SLACK);
	t->line = t->held.s;
	return t->held.error;
}

static int read_lines(struct tracetext *t)
{
	bool event, begun;
	char *s = NULL, *end = NULL;
	int ret;

	while ((ret = text_next_line(t, &s, &end)) > 0) {
		struct tt_line *l = &t->lines[t->l == t->lines];

		event = tt_line(&t->shapes, s, end, l, &begun);
		/* The second half of a line may look like one of its own. */
		if ((!event && !begun) ||
		    (t->line && !t->event && !t->longer && !l->kind && !l->has_cpu)) {
			ret = other_line(t, s);
			if (ret)
				return ret;
			continue;
		}
		ret = let_go(t);
		if (ret)
			return ret;
		t->line = s;
		t->l = l;
		t->event = event;
	}
	return ret ?: let_go(t);
}

/* ---- what it is ---- */

/* What any text lacks, in one sentence: no loss, and no damage. */
static void say_lacks(struct tracetext *t)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char grain[96], unit[16];
	const struct {
		bool is;
		const char *text;
	} all[] = {
		{ t->kind == TT_NS && t->digits < 9, grain },
		{ t->kind == TT_NO_TIME, "no times: its lines are numbered" },
		{ cap_in_tsc(t->c), "its times grow as a TSC's do, and are read as x86-tsc" },
		{ t->blind, "its kvm_exit lines do not name the vCPU" },
		{ t->no_thread, "lines have no thread: KVM's get their vCPU's number and 1" },
		{ t->no_cpu, "lines have no CPU, and count as of CPU 0" },
	};

	for (unsigned int i = t->digits; t->kind == TT_NS && i < 9; i++)
		t->c->grain = MAX(t->c->grain, (uint64_t)1) * 10;
	snprintf(grain, sizeof(grain), "its times are in steps of %s: shorter ones are not known",
		 str_ns(unit, sizeof(unit), t->c->grain));
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].is)
			sbuf_addf(&b, "%s%s", b.len ? "; " : "", all[i].text);
	if (b.len || b.error)
		cap_set_str(&t->c->lacks, xsbuf_text(&b));
}

static void note_faults(struct tracetext *t)
{
	const struct {
		uint64_t n;
		const char *text;
	} all[] = {
		{ t->cut, "its packed data are damaged, or cut: what follows is missing" },
		{ t->full, "more than can be kept in memory: what follows is left out" },
		{ t->open, "its last line has no end: it may be cut, and wrong" },
		{ t->mixed, "its lines have no thread, and are of several VMs: times are wrong" },
		{ t->written - t->in_buffer, "events were overwritten before its first one" },
		{ t->others, "lines are of other machines, and left out: give each its own file" },
		{ t->elsewhere, "lines are of more CPUs or events than can be, and left out" },
		{ t->variants, "lines lack fields that others of their event have: only shown" },
		{ t->backwards, "lines are of earlier times than those before them: put in order" },
		{ t->no_time, "lines have no time: they are at that of the one before" },
		{ t->too_long, "lines are too long, and cut" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].n && i < 4)
			cap_note(t->c, "%s", all[i].text);
		else if (all[i].n)
			cap_note(t->c, "%" PRIu64 " %s", all[i].n, all[i].text);
	t->c->complete &= !t->cut && !t->full;
	t->c->trimmed = t->started || t->written > t->in_buffer;
}

static void text_free(void *tracetext)
{
	struct tracetext *t = tracetext;

	for (size_t i = 0; i < CAPTURE_MAX_CPUS; i++) {
		struct tt_cpu *cpu = t->cpu[i];

		if (!cpu)
			continue;
		free(cpu->block);
		free(cpu);
	}
	for (size_t i = 0; i < t->nchunk; i++)
		munmap(t->chunk[i].at, t->chunk[i].n);
	free(t->chunk);
	u64map_free(&t->id_of);
	u64map_free(&t->inside);
	sbuf_free(&t->held);
	free(t->shapes.slot);
	free(t->shapes.guess);
	sbuf_free(&t->shapes.plain);
	cap_unpacker_free(t->unpacker);
	free(t->buf);
	free(t->stream);
	free(t);
}

/* The text that ref says, as it was read first; -errno: it is not there any more. */
static int read_again(struct tracetext *t, uint64_t ref, struct tt_word *text)
{
	const uint64_t pos = ref >> 16, n = ref & 0xffff;
	char *s;

	if (pos < t->win || pos + n > t->win + t->have) {
		const ssize_t got =
			full_pread(t->fd, t->buf, t->served < FEW ? BLOCK : sizeof(t->raw), pos);

		if (got < (ssize_t)n)
			return got < 0 ? (int)got : -EIO;
		t->win = pos;
		t->have = (size_t)got;
		t->served = 0;
	}
	t->served++;
	s = t->buf + (pos - t->win);
	make_plain(s, s + n);
	if (s[n - 1] == '\r')
		s[n - 1] = ' ';
	*text = (struct tt_word){ s, n };
	return 0;
}

/* The sub-buffer whose texts are in the file, with them; it has room for that. */
static int put_texts(struct tracetext *t, const uint8_t *block)
{
	const uint32_t commit = load_u32(block + 8), end = 16 + (commit & COMMIT);
	uint32_t at = 16, to = 16, head, len, word;
	uint8_t record[TT_RECORD_MAX], *slot;
	struct tt_word text;
	uint64_t ref;
	int ret;

	while (at < end) {
		head = load_u32(block + at);
		if ((head & 0x1f) == 30) { /* a time extend */
			memcpy(t->made + to, block + at, 8);
			to += 8;
			at += 8;
			continue;
		}
		len = head & 0x1f ? (head & 0x1f) * 4 : load_u32(block + at + 4) - 4;
		at += head & 0x1f ? 4 : 8;
		memcpy(record, block + at, len);
		at += (len + 3) & ~3u;
		if (record[PREEMPT] & REFERS) {
			slot = record + t->slot_of[load_u16(record)];
			ref = load_u64(slot);
			ret = read_again(t, ref, &text);
			if (ret)
				return ret;
			record[PREEMPT] &= (uint8_t)~REFERS;
			memset(slot, 0, sizeof(ref));
			len = tt_put_string(record, slot, len, text);
		}
		to += subbuf_put(t->made + to, head >> 5, record, len);
	}
	memcpy(t->made, block, 16);
	word = (commit & ~COMMIT) | (to - 16);
	memcpy(t->made + 8, &word, sizeof(word));
	if (end + 8 <= BLOCK)
		memcpy(t->made + to, block + end, 8); /* how much was lost */
	return 0;
}

static int text_make(void *tracetext, uint64_t stream, uint64_t idx, const uint8_t **buf)
{
	struct tracetext *t = tracetext;
	const struct tt_cpu *cpu = t->stream[stream];

	if (idx >= cpu->n)
		return -EIO;
	*buf = cpu->block[idx]; /* no one looks behind what is used of it */
	if (t->base < 0 || cap_priv(t->c)->skip_text)
		return 0;
	*buf = t->made;
	return put_texts(t, cpu->block[idx]);
}

/* A sub-buffer of a CPU, or an event; a loss has no bytes. */
struct tt_order {
	uint64_t unit, first, last; /* unit: as exact as the text's times are */
	uint64_t at, n;		    /* how many events were read before it; of it, or its bytes */
	uint8_t *p;
};

COMPARE(order_cmp, struct tt_order, ORDER(x->unit, y->unit) ?: ORDER(x->at, y->at));

/* The record behind *at, and its bytes; *ts gets its time. NULL: no more. */
static uint8_t *block_next(uint8_t *block, uint32_t *at, uint64_t *ts, uint64_t *n)
{
	uint32_t head;
	uint8_t *p = block + *at;

	if (*at >= 16 + (load_u32(block + 8) & COMMIT))
		return NULL;
	head = load_u32(p);
	if ((head & 0x1f) == 30) { /* a time extend */
		*ts += (uint64_t)load_u32(p + 4) << 27 | head >> 5;
		head = load_u32(p += 8);
	}
	*ts += head >> 5;
	*n = head & 0x1f ? (head & 0x1f) * 4 : load_u32(p + 4) - 4;
	p += head & 0x1f ? 4 : 8;
	*at = (uint32_t)(p + ((*n + 3) & ~3ull) - block);
	return p;
}

/* The block's loss, if there is one, and its events behind those at v, which may be NULL. */
static struct tt_order *block_events(struct tt_order *block, uint64_t unit, struct tt_order *v)
{
	struct tt_order e = { .p = block->p, .at = block->at, .first = block->first };
	bool loss = block->p[11] & 0x80;
	uint32_t at = 16;

	for (; loss || (e.p = block_next(block->p, &at, &e.first, &e.n)); e.at++, loss = false) {
		e.unit = e.first / unit;
		if (v)
			*v++ = e;
	}
	block->last = e.first;
	block->n = e.at - block->at;
	return v;
}

/* An event, after the one before it; *last is its time. */
static int write_again(struct tt_cpu *cpu, const struct tt_order *e, uint64_t unit, uint64_t *last)
{
	const uint32_t n = (uint32_t)e->n, word = n ? 0 : load_u32(e->p + 8);
	const uint8_t *count = e->p + 16 + (word & COMMIT); /* if it is known */
	uint32_t later = n;
	uint8_t *to;
	int ret;

	if (!n)
		return subbuf_write_lost(&cpu->w, word >> 30 & 1 ? load_u64(count) : 0);
	if (e->p[PREEMPT] & REFERS)
		later += load_u16(e->p + cpu->t->slot_of[load_u16(e->p)]) + 1u;
	*last = e->first > *last || unit == 1 ? e->first : *last + 1;
	ret = subbuf_reserve(&cpu->w, *last, n, later, &to);
	if (!ret)
		memcpy(to, e->p, n);
	return ret;
}

/*
 * Sub-buffers of which some begin before others end: their events in order. Where one excerpt ends
 * and another begins in the same unit, the one that goes on from before is first, or the one that
 * goes on behind it last. *at is that of the last event.
 */
static int write_sorted(struct tt_cpu *cpu, struct tt_order *block, size_t nblock, uint64_t unit,
			uint64_t *at)
{
	_cleanup_free_ struct tt_order *v = NULL;
	struct tt_order *to, *e = NULL;
	uint64_t n = 0, last = 0, seams = 0;
	int ret = cpu->t->full ? -EFBIG : 0;

	for (size_t i = 0; i < nblock; i++)
		n += block[i].n;
	to = v = xcalloc(n + 1, sizeof(*v));
	for (size_t i = 0; i < nblock; i++)
		to = block_events(&block[i], unit, to);
	array_sort(v, n, order_cmp);
	for (size_t i = 0, end = 0, from; i < n; i = end) {
		for (from = n; end < n && v[end].unit == v[i].unit; end++)
			from = *at != UINT64_MAX && v[end].at == *at + 1 ? end : from;
		for (size_t k = i; from == n && end < n && k + 1 < end; k++)
			from = v[k].at + 1 == v[end].at ? k + 1 : from;
		from = from == n ? i : from;
		for (size_t k = i; k < end && !ret; k++) {
			const struct tt_order *before = e;
			bool same;

			e = &v[from + k - i < end ? from + k - i : from + k - end];
			seams += before && e->at != *at + 1;
			same = before && e->at != *at + 1 && e->first == before->first && e->n &&
			       e->n == before->n; /* and as many bytes of text: */
			cpu->t->two |= same && !memcmp(e->p, before->p,
						       cpu->t->slot_of[load_u16(e->p)] + 2u);
			*at = e->at;
			ret = write_again(cpu, e, unit, &last);
		}
	}
	cpu->t->two |= seams >= OVERLAP;
	return ret ?: subbuf_write_end(&cpu->w);
}

/*
 * Excerpts in any order: with an earlier time than that of the line before a block begins. One long
 * after all before it is of another moment. A CPU does one thing at a time: what has many times in
 * turn is two recordings.
 */
static int order_blocks(struct tt_cpu *cpu)
{
	_cleanup_free_ struct tt_order *v = xcalloc(cpu->n + 1, sizeof(*v));
	_cleanup_free_ uint8_t **old = cpu->block;
	uint64_t last = cpu->t->kind == TT_NS ? cpu->t->first : UINT64_MAX, unit = 1;
	uint64_t at = UINT64_MAX, all = 0;
	const size_t n = cpu->n;
	int ret = 0;

	for (unsigned int i = cpu->t->digits; cpu->t->kind == TT_NS && i < 9; i++)
		unit *= 10;
	for (size_t i = 0; i < n; i++, all += v[i - 1].n) {
		v[i] = (struct tt_order){ .first = load_u64(old[i]), .at = all, .p = old[i] };
		v[i].unit = v[i].first / unit;
		block_events(&v[i], unit, NULL);
	}
	array_sort(v, n, order_cmp);
	cpu->block = NULL;
	cpu->n = cpu->cap = 0;
	for (size_t i = 0, end; i < n && !ret; i = end) {
		uint64_t to = v[i].last;

		/* as subbuf_write_lost() says that events were lost */
		if (v[i].first > last && v[i].first - last > BREAK && v[i].at != at + 1)
			v[i].p[11] |= 0x80;
		for (end = i + 1; end < n && v[end].unit <= to / unit; end++) {
			if (v[end].first >= to && v[end].at == v[end - 1].at + v[end - 1].n)
				break; /* the next one, as it is */
			to = MAX(to, v[end].last);
		}
		if (end == i + 1) {
			xarray_add(&cpu->block, &cpu->n, &cpu->cap, &v[i].p, sizeof(v[i].p));
			at = v[i].at + v[i].n - 1;
		} else {
			ret = write_sorted(cpu, &v[i], end - i, unit, &at);
		}
		last = MAX(last, to);
	}
	return ret;
}

static int add_cpus(struct tracetext *t)
{
	struct capture *c = t->c;
	int ret = 0;

	t->stream = xcalloc(CAPTURE_MAX_CPUS, sizeof(struct tt_cpu *));
	for (uint32_t i = 0; i < CAPTURE_MAX_CPUS && !ret; i++) {
		struct cap_extent e = { .fd = -1, .off = c->nstream };

		if (!t->cpu[i])
			continue;
		ret = t->full ? 0 : subbuf_write_end(&t->cpu[i]->w);
		if (t->backwards)
			ret = ret ?: order_blocks(t->cpu[i]);
		t->stream[c->nstream] = t->cpu[i];
		e.len = t->cpu[i]->n * BLOCK;
		cap_stream_extend(c, cap_stream_add(c, i, ""), &e);
	}
	cap_set_str(&c->clock, t->kind == TT_NS ? "unknown" /* some clock */
			       : t->kind == TT_COUNT && t->first >= MIN_TSC && t->step >= TSC_STEP
				       ? "x86-tsc"
				       : "counter");
	return ret;
}

static int find_text(struct tracetext *t, struct kvmft_err *err)
{
	struct stat st;
	char *mail;
	bool head = false;
	size_t have;
	int ret;

	hash_key_init(&t->key);
	t->buf = xcalloc(1, MAX_SEARCH + 1 + TT_SLACK);
	/* The kernel's own files have no size, and another text each time. */
	t->base = fstat(t->fd, &st) || !S_ISREG(st.st_mode) || !st.st_size
			  ? -1
			  : lseek(t->fd, 0, SEEK_CUR);
	ret = (int)read_source(t, t->buf, 0);
	t->packed = t->raw_have > 2 && t->raw[0] == 0x1f && t->raw[1] == 0x8b;
	t->base = t->packed || t->base >= REF_MAX ? -1 : t->base;
	ret = ret ?: fill_lines(t);
	if (ret == -EOPNOTSUPP)
		return err_lack(err, -ret,
				"packed by gzip, and this kvmft was built without zlib: "
				"unpack it first");
	mail = ret || !t->eof ? NULL
			      : strstr(t->buf, "Content-Transfer-Encoding: quoted-printable");
	/* Of a mail's head, before the first event: in one, anybody may have called a file that. */
	if (mail && (mail == t->buf || mail[-1] == '\n')) {
		have = t->have;
		t->have = (size_t)(mail - t->buf);
		head = !find_side(t);
		t->have = have;
		t->side[0] = '\0';
	}
	if (mail && head) {
		text_unquote(t, mail);
		t->base = -1;
	}
	return ret ?: find_side(t) ? 0 : -ENOMSG;
}

int cap_text_read(struct capture *c, int fd, struct kvmft_err *err)
{
	struct tracetext *t = xcalloc(1, sizeof(*t));
	int ret;

	t->c = c;
	t->fd = fd;
	t->first = t->step = UINT64_MAX;
	t->l = t->lines;
	ret = find_text(t, err);
	if (ret) {
		text_free(t);
		return ret;
	}
	c->complete = true;
	c->version = 1;
	c->long_size = 8;
	c->subbuf_size = BLOCK;
	c->page_header = 16;
	cap_priv(c)->maker = (struct cap_maker){ .make = text_make, .free = text_free, .arg = t };
	ret = read_lines(t);
	ret = t->full && ret == -EFBIG ? 0 : ret;
	ret = ret ?: add_cpus(t);
	if (ret)
		return ret;
	if (t->two && !t->no_cpu)
		return err_set(err, EINVAL, "lines of one CPU are from the same times as others of it: these "
			       "are two recordings, or one twice; give each by itself");
	t->have = 0;
	say_lacks(t);
	note_faults(t);
	cap_priv(c)->fd = fd;
	return 0;
}
