/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * convert.c: `kvmft convert`, time stamps of one clock as those of another, one per line.
 *
 * The way through the clocks is found once; after that every value is read, converted, and printed
 * without stdio in between, because whole traces are piped through this command.
 */
#include "cmds.h"
#include "kvmft/vm.h"

struct convert_opts {
	const char *from, *to;
	bool range, quiet;
	struct convert_params p;
	struct str_list given;
	/* The VMs of this machine, read before the sandbox, which hides other processes. */
	struct vm_list *live;
	int live_ret;
	struct kvmft_err live_err;
};

static const char *clock_word(size_t i)
{
	return clock_name((enum clock_id)i);
}

#define PARAM(s, n, t, m, metavar, text) OPTION(s, n, t, struct convert_opts, p.m, metavar, text)

static const struct opt convert_options[] = {
	OPTION_NAMED(0, "from", OPT_STR, struct convert_opts, from, "CLOCK", clock_word,
		     "clock of the values"),
	OPTION_NAMED(0, "to", OPT_STR, struct convert_opts, to, "CLOCK", clock_word,
		     "clock of the results"),
	OPTION(0, "range", OPT_FLAG, struct convert_opts, range, NULL,
	       "print first and last possible result instead of the first"),
	OPTION('i', "input", OPT_LIST, struct convert_opts, given, "CAPTURE",
	       "parameters from this capture of a host, of a guest, or given twice: of both\n"
	       "(default: kvmft.data, if no parameter is given at all)"),
	PARAM(0, "vm", OPT_STR, vm, "SEL",
	      "which VM: UUID, name, PID or PID-FD; without -i: one that\nruns on this machine"),
	PARAM('v', "vcpu", OPT_U64, vcpu, "N", "which vCPU, when their clocks differ"),
	PARAM(0, "tsc-offset", OPT_BITS, tsc_offset, "N", "guest TSC = scaled host TSC + N"),
	PARAM(0, "tsc-ratio", OPT_STR, tsc_ratio, "R/F",
	      "scaled TSC = TSC * R >> F (F: 48 on Intel, 32 on AMD)"),
	PARAM(0, "solve", OPT_FLAG, solve, NULL,
	      "find the TSC offset in the events of both captures"),
	PARAM(0, "pvclock", OPT_STR, pvclock, "TSC,SYSTEM_TIME,MUL,SHIFT[,FLAGS]",
	      "the guest's pvclock record"),
	PARAM(0, "sched-offset", OPT_BITS, sched_offset, "N",
	      "kvmclock minus the guest's trace clock that is converted,\n"
	      "as kvmft guest-offset --clock prints it"),
	PARAM(0, "kernel-sched-offset", OPT_STR, kernel_sched, "K,S",
	      "kvm_sched_clock_offset and __sched_clock_offset of the guest;\n"
	      "S alone: K is what --sched-offset says"),
	PARAM(0, "mono-raw", OPT_LIST, mono_raw, "LAST,MULT,SHIFT,NSEC,BASE",
	      "line of CLOCK_MONOTONIC_RAW; given twice: for --from and --to"),
	OPT_END,
};

/* ---- clock names ---- */

static void name_nearer(const char *name, const char *text, const char **best,
			unsigned int *distance)
{
	unsigned int d = str_distance(name, text);

	if (d < *distance) {
		*best = name;
		*distance = d;
	}
}

static int resolve_clock(const char *option, const char *text, enum clock_id *id,
			 struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	enum clock_id host, guest;
	const char *near;
	int ret;
	unsigned int distance;

	if (!text)
		return err_usage(err, "option --%s CLOCK is missing", option);
	ret = clock_by_name(text, CLOCK_SIDE_ANY, id);
	if (ret == -ENOTUNIQ && !clock_by_name(text, CLOCK_SIDE_HOST, &host) &&
	    !clock_by_name(text, CLOCK_SIDE_GUEST, &guest))
		return err_usage(err,
				 "option --%s: host and guest both have a clock '%s': say %s or %s",
				 option, text, clock_name(host), clock_name(guest));
	if (!ret)
		return 0;
	for (int i = 0; i < CLK_NR; i++)
		sbuf_addf(&b, "%s%s", i ? ", " : "", clock_name((enum clock_id)i));
	near = NULL;
	distance = 4;
	for (int i = 0; i < CLK_NR; i++) {
		const char *name = clock_name((enum clock_id)i), *dash = strchr(name, '-');

		name_nearer(name, text, &near, &distance);
		if (dash)
			name_nearer(dash + 1, text, &near, &distance);
	}
	return err_usage(err, "option --%s: there is no clock '%.40s'%s%s%s; the clocks are %s",
			 option, text, near ? " (did you mean " : "", near ?: "", near ? "?)" : "",
			 b.s ?: "");
}

/* ---- values ---- */

/* "12.5" is 12 s and 500 ms: up to nine digits, as ftrace and perf print stamps. */
static int parse_value(char *text, bool cycles, uint64_t *v)
{
	char *dot = cycles ? NULL : strchr(text, '.');
	size_t digits = dot ? strlen(dot + 1) : 0;
	uint64_t sec, frac;
	int ret;

	if (!dot)
		return parse_bits64(text, v);
	*dot = 0;
	/* 0x is for whole numbers */
	ret = digits > 9 || strspn(text, "0123456789") != strlen(text) ||
			      strspn(dot + 1, "0123456789") != digits
		      ? -EINVAL
		      : 0;
	ret = ret ?: parse_u64(text, &sec);
	ret = ret ?: parse_u64(dot + 1, &frac);
	*dot = '.';
	if (ret)
		return ret;
	for (; digits < 9; digits++)
		frac *= 10;
	if (__builtin_mul_overflow(sec, 1000000000u, &sec) || __builtin_add_overflow(sec, frac, v))
		return -ERANGE;
	return 0;
}

/* ---- converting ---- */

enum { WHY_RANGE, WHY_NODATA, WHY_NOTUNIQ, WHY_FAR, WHY_NR };

static const char *const why_text[WHY_NR] = {
	[WHY_RANGE] = "outside the range of a clock on the way",
	[WHY_NODATA] = "at a time for which no TSC offset, pvclock record or sample is known",
	[WHY_NOTUNIQ] = "possible at several times, because a clock was set",
	[WHY_FAR] = "too far from the pvclock record",
};

static const struct {
	int flag;
	bool incomplete;
	const char *text;
} flag_note[] = {
	{ CLOCK_FLAG_DOUBTFUL, true,
	  "are doubtful: events were lost or the TSC ratio is not certain there" },
	{ CLOCK_FLAG_BORROWED, false,
	  "rest on a pvclock record that was seen only later: an earlier one may have differed" },
	{ CLOCK_FLAG_EXTRAPOLATED, false, "lie outside of the samples and were extrapolated" },
};

struct convert {
	const struct convert_opts *o;
	struct convert_way c;
	struct clock_route route;
	bool cycles; /* values count cycles, so they have no fraction */
	struct sbuf out;
	uint64_t done, failed[WHY_NR], flagged[ARRAY_SIZE(flag_note)];
};

static void convert_value(struct convert *v, uint64_t value)
{
	uint64_t lo, hi;
	int ret;

	v->done++;
	ret = clock_route_convert(&v->route, value, &lo, &hi);
	if (ret < 0) {
		v->failed[ret == -ENODATA     ? WHY_NODATA
			  : ret == -ENOTUNIQ  ? WHY_NOTUNIQ
			  : ret == -EOVERFLOW ? WHY_FAR
					      : WHY_RANGE]++;
		sbuf_add_mem(&v->out, "?\n", 2);
		return;
	}
	sbuf_add_u64(&v->out, lo);
	if (v->o->range) {
		sbuf_addc(&v->out, ' ');
		sbuf_add_u64(&v->out, hi);
	}
	sbuf_addc(&v->out, '\n');
	for (size_t i = 0; ret && i < ARRAY_SIZE(flag_note); i++)
		v->flagged[i] += (ret & flag_note[i].flag) != 0;
}

/* 0, -errno, or 1: the reader has gone (`| head`), which is no failure. */
static int flush_out(struct convert *v, struct kvmft_err *err)
{
	int ret;

	fwrite(xsbuf_text(&v->out), 1, v->out.len, stdout); /* cli_flush() looks at the result */
	sbuf_reset(&v->out);
	ret = cli_flush(err);
	return ret ?: ferror(stdout) != 0;
}

static int convert_args(struct convert *v, int argc, char **argv, struct kvmft_err *err)
{
	uint64_t value;

	for (int i = 0; i < argc; i++) {
		if (parse_value(argv[i], v->cycles, &value))
			return err_usage(err, "value %d: '%.40s' is not a %s", i + 1, argv[i],
					 v->cycles
						 ? "64-bit number of cycles"
						 : "64-bit number of ns, nor SECONDS.NANOSECONDS");
		convert_value(v, value);
	}
	return flush_out(v, err);
}

/* One line, without its newline; end may be written to. */
static int convert_line(struct convert *v, char *line, char *end, struct kvmft_err *err)
{
	bool nul = memchr(line, 0, (size_t)(end - line)) != NULL;
	uint64_t value;

	while (end > line && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
		end--;
	*end = 0;
	line += strspn(line, " \t");
	if (nul || parse_value(line, v->cycles, &value))
		return err_set(err, EINVAL, "line %" PRIu64 ": '%.40s' is not a %s", v->done + 1,
			       line,
			       v->cycles ? "64-bit number of cycles"
					 : "64-bit number of ns, nor SECONDS.NANOSECONDS");
	convert_value(v, value);
	return 0;
}

#define CHUNK (64u << 10)

static int convert_stdin(struct convert *v, struct kvmft_err *err)
{
	_cleanup_free_ char *buf = xmalloc(CHUNK + 1);
	size_t n = 0;
	ssize_t got;
	int ret = 0;

	while (!ret) {
		char *line, *end;
		int out;

		if (n == CHUNK)
			return err_set(err, EINVAL, "line %" PRIu64 ": too long for a number",
				       v->done + 1);
		got = read(STDIN_FILENO, buf + n, CHUNK - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_why(err, errno, "cannot read standard input");
		if (!got)
			break;
		n += (size_t)got;
		/* Whole lines; *n becomes what is left. Results are written after every read. */
		line = buf;
		ret = 0;
		while (!ret && (end = memchr(line, '\n', (size_t)(buf + n - line)))) {
			ret = convert_line(v, line, end, err);
			line = end + 1;
		}
		out = flush_out(v, ret ? NULL : err);
		n -= (size_t)(line - buf);
		memmove(buf, line, n);
		ret = ret ?: out;
	}
	if (!ret && n) { /* a last line without newline */
		ret = convert_line(v, buf, buf + n, err);
		ret = ret ?: flush_out(v, err);
	}
	return ret;
}

/* ---- what the user must know ---- */

/* What was wrong with a capture: clocks may be missing from it. */
static bool tell_damage(const struct capture *cap)
{
	for (size_t i = 0; cap && i < cap->ndamage; i++)
		cli_note("%s: %s", cap->path, cap->damage[i].text);
	return cap && cap->ndamage;
}

static int convert_summary(const struct convert *v)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint64_t failed = 0;
	bool incomplete = tell_damage(v->c.host);

	incomplete |= tell_damage(v->c.guest);
	for (size_t i = 0; i < WHY_NR; i++) {
		if (v->failed[i])
			sbuf_addf(&b, "%s%" PRIu64 " %s", failed ? "; " : "", v->failed[i],
				  why_text[i]);
		failed += v->failed[i];
	}
	incomplete |= failed > 0;
	if (failed)
		cli_note("%" PRIu64 " of %" PRIu64
			 " values could not be converted and are marked ?: %s",
			 failed, v->done, b.s ?: "");
	for (size_t i = 0; i < ARRAY_SIZE(flag_note); i++) {
		if (!v->flagged[i])
			continue;
		cli_note("%" PRIu64 " of %" PRIu64 " results %s", v->flagged[i], v->done,
			 flag_note[i].text);
		incomplete |= flag_note[i].incomplete;
	}
	return incomplete ? KVMFT_INCOMPLETE : KVMFT_OK;
}

/* --vm without a host's capture: a VM that runs here now. */
static int use_live(struct convert_way *c, const struct convert_opts *o, struct kvmft_err *err)
{
	const struct vm *vm = NULL;
	int ret = o->live_ret;
	struct clock_link l = { CLOCK_WAY_MAP, CLK_HOST_TSC, .map = { 0 } };
	const struct vm_vcpu *use = NULL;

	if (!c->p->vm || c->host || c->p->tsc_offset.set)
		return 0;
	if (ret)
		*err = o->live_err;
	else
		ret = vm_list_find(o->live, c->p->vm, &vm, err);
	if (ret)
		return ret;
	snprintf(c->vm, sizeof(c->vm), "%s", vm->name ?: vm->sel);
	for (size_t i = 0; i < vm->n_vcpus; i++) {
		const struct vm_vcpu *v = &vm->vcpu[i];

		if ((c->p->vcpu.set && v->id != c->p->vcpu.v) || !v->has_offset ||
		    v->ratio_state == VM_RATIO_REFUSED || v->ratio_state == VM_RATIO_UNKNOWN)
			continue;
		if (use && (use->tsc_offset != v->tsc_offset || use->tsc_ratio != v->tsc_ratio))
			return err_set(
				err, ENOTUNIQ,
				"the TSC offsets of vCPU %u and %u of VM %s differ: choose one with "
				"--vcpu",
				use->id, v->id, c->vm);
		if (v->in_guest_mode)
			return err_set(
				err, EAGAIN,
				"vCPU %u of VM %s runs a nested guest: its TSC offset cannot be read "
				"now; try again, or give --tsc-offset",
				v->id, c->vm);
		use = use ?: v;
	}
	if (!use)
		return err_lack(err, ENODATA, "cannot read the TSC offset of VM %s%s%s", c->vm,
				vm->note ? ": " : "", vm->note ?: "");
	l.map = (struct tsc_map){ .offset = use->tsc_offset,
				  .ratio = use->tsc_ratio,
				  .frac = (uint8_t)use->tsc_frac_bits };
	if (clock_chain_set(&c->clock, CLK_GUEST_TSC, &l))
		return err_set(err, EINVAL,
			       "VM %s: debugfs shows a TSC ratio that KVM does not use", c->vm);
	return 0;
}

static int convert_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	struct convert v = { .o = opts, .c.p = &((struct convert_opts *)opts)->p };
	enum clock_id missing = CLK_GUEST_TSC;
	int ret = resolve_clock("from", v.o->from, &v.c.from, err);

	ret = ret ?: resolve_clock("to", v.o->to, &v.c.to, err);
	if (ret)
		return ret;
	v.cycles = clock_in_cycles(v.c.from);
	ret = convert_captures(&v.c, err) ?: use_live(&v.c, v.o, err) ?: convert_given(&v.c, err);
	if (!ret && v.c.guest && v.c.map)
		pairing_tell_match(v.c.map, v.c.guest, &v.c.match, cli_remarks(v.o->quiet));
	if (!ret && clock_route_find(&v.c.clock, v.c.from, v.c.to, &v.route, &missing)) {
		struct clock_missing m = clock_missing(&v.c.clock, missing);
		const char *vm = clock_is_guest(missing) ? v.c.vm : "";

		ret = err_lack(err, ENOLINK, "cannot convert %s to %s: no %s%s%s: %s",
			       clock_name(v.c.from), clock_name(v.c.to), m.what,
			       *vm ? " for VM " : "", vm, m.remedy);
	}
	if (!ret)
		ret = argc ? convert_args(&v, argc, argv, err) : convert_stdin(&v, err);
	if (ret >= 0)
		ret = convert_summary(&v);
	sbuf_free(&v.out);
	convert_close(&v.c);
	return ret;
}

static int convert_prepare(void *opts, int argc __unused_arg, struct kvmft_err *err __unused_arg)
{
	struct convert_opts *o = opts;
	struct convert_params *p = &o->p;

	if (!p->input && !p->guest && !p->vm && !p->tsc_offset.set && !p->tsc_ratio &&
	    !p->pvclock && !p->sched_offset.set && !p->kernel_sched && !p->mono_raw.n &&
	    !access(DEFAULT_INPUT, F_OK))
		p->input = DEFAULT_INPUT;
	/* With both captures -i is the host's, which names its VMs. */
	if (p->vm && !p->tsc_offset.set && !(p->input && p->guest))
		o->live_ret = vm_scan(NULL, &o->live, &o->live_err);
	return 0;
}

static int convert_release(void *opts)
{
	vm_list_free(((struct convert_opts *)opts)->live);
	return 0;
}

/* The guest is that of the session, if it has one. */
static int convert_sessions(void *opts, struct operands *o, struct kvmft_err *err)
{
	_cleanup_(session_free) struct session s = { 0 };
	const struct str_list *l = &((struct convert_opts *)opts)->given;
	struct convert_params *p = &((struct convert_opts *)opts)->p;
	const bool swapped = l->n == 2 && session_is_guest(l->v[0]);
	int ret;

	if (l->n > 2)
		return err_usage(err, "option -i: a host's capture, and one of its guest");
	p->input = l->n ? l->v[swapped] : NULL;
	p->guest = l->n == 2 ? l->v[!swapped] : NULL;
	ret = p->input ? captures_host(o, &p->input, &s, err) : 0;

	if (!ret && s.n == 2 && !p->guest)
		p->guest = captures_word(o, s.v[1].path);
	if (!ret && s.n == 2 && !p->vm && s.v[1].sel)
		p->vm = captures_word(o, s.v[1].sel);
	return ret;
}

const struct cmd cmd_convert = {
	.name = "convert",
	.summary = "time stamps of one clock as those of another",
	.args = "[VALUE...]",
	.description =
		"Values come from the arguments, or one per line from standard input; results go to\n"
		"standard output, one per line, in cycles (host-tsc, guest-tsc) or ns (all others).\n"
		"Values may be decimal, 0x hex, negative (after --), or SECONDS.NANOSECONDS for clocks in\n"
		"ns. A value that cannot be converted becomes a line with ? (and exit code 3).\n"
		"CLOCK: host-tsc, guest-tsc, kvmclock, and local, global, perf, mono, mono_raw, boot,\n"
		"realtime after host- or guest-. Parameters given as options override those of "
		"captures.",
	.examples = "  kvmft convert --from guest-tsc --to host-tsc -i host < stamps\n"
		    "  kvmft convert --from host-tsc --to guest-tsc \\\n"
		    "        --tsc-offset 0xffee6aba03eccaac 5000000000000000\n"
		    "  kvmft convert --from guest-perf --to kvmclock \\\n"
		    "        --sched-offset 0x1af3075cc 18120.273901",
	.opts = convert_options,
	.groups = "from to range input vm vcpu\n"
		  "what there is without a capture: tsc-offset tsc-ratio solve pvclock "
		  "sched-offset kernel-sched-offset mono-raw",
	.opts_size = sizeof(struct convert_opts),
	.quiet = offsetof(struct convert_opts, quiet),
	.khz = offsetof(struct convert_opts, p.tsc_khz),
	.sessions = convert_sessions,
	.run = convert_run,
	.numbers = true,
	.reader = true,
	.output = convert_prepare,
	.release = convert_release,
	.max_args = -1,
};
