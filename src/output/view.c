/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * view.c: captures as commands read them: opened, walked, told of, and written; in which clock, and
 * which times --from and --to mean.
 */
#include "kvmft/results.h"

#include <ctype.h>

/* ---- from a time as rows show it, or of the day, to host TSC ---- */

#define NSEC 1000000000ull

/* "+01:00", "-0130", "+02" or "Z" up to the end: seconds east of Greenwich. */
static int parse_zone(const char *text, int *east)
{
	char digits[5] = "";
	size_t n = 0;
	int hm;

	*east = 0;
	if (!strcmp(text, "Z"))
		return 0;
	for (const char *p = text + 1; *p; p++)
		if (*p != ':' || p != text + 3) {
			if (!isdigit((unsigned char)*p) || n == 4)
				return -EINVAL;
			digits[n++] = *p;
		}
	if (n != 2 && n != 4)
		return -EINVAL;
	hm = atoi(digits) * (n == 2 ? 100 : 1);
	*east = (hm / 100 * 60 + hm % 100) * (*text == '-' ? -60 : 60);
	return hm < 2400 && hm % 100 < 60 ? 0 : -EINVAL;
}

/*
 * A time of day as people and logs write it: the ns since 1970 at which it begins, and how long it
 * lasts: a minute, a second, or if there is a fraction one ns. Without a zone it is local time;
 * without a date on the day of `begin`, ns since 1970, or the one after it.
 */
static int parse_wall(const char *text, uint64_t begin, uint64_t *ns, uint64_t *lasts)
{
	const char *colon = strchr(text, ':'), *zone = colon ? strpbrk(colon, "Z+-") : NULL, *rest;
	const char *seconds = text[0] == '@' ? text + 1 : NULL;
	time_t now = (time_t)(begin / NSEC), then;
	uint64_t frac = 0;
	int east = 0;
	struct tm tm, day;
	bool dated;

	*lasts = NSEC;
	if (seconds) {
		if (strspn(seconds, "0123456789.") != strlen(seconds))
			return -EINVAL;
		if (strchr(seconds, '.'))
			*lasts = 1;
		return parse_duration(seconds, ns);
	}
	if (!colon || (zone && parse_zone(zone, &east)))
		return -EINVAL;
	now += east;
	if (!(zone ? gmtime_r(&now, &day) : localtime_r(&now, &day)))
		return -EINVAL;
	tm = day; /* a failed strptime() may have changed it */
	rest = strptime(text, "%Y-%m-%d", &tm);
	dated = rest && (*rest == ' ' || *rest == 'T');
	if (!dated)
		tm = day;
	rest = strptime(dated ? rest + 1 : text, "%H:%M", &tm);
	tm.tm_sec = 0;
	tm.tm_isdst = -1;
	if (rest && *rest == ':') {
		rest = strptime(rest, ":%S", &tm);
		if (rest && *rest == '.') {
			char digits[] = "000000000";
			size_t n = strspn(++rest, "0123456789");

			if (!n || n >= sizeof(digits))
				return -EINVAL;
			memcpy(digits, rest, n);
			frac = strtoul(digits, NULL, 10);
			rest += n;
			*lasts = 1;
		}
	} else {
		*lasts = 60 * NSEC;
	}
	if (!rest || rest != (zone ?: text + strlen(text)))
		return -EINVAL;
	then = zone ? timegm(&tm) - east : mktime(&tm);
	if (!dated && then + 12 * 3600 < now - east) /* past midnight */
		then += 24 * 3600;
	if (then < 0 || (uint64_t)then >= UINT64_MAX / NSEC - 60) /* the year 2554 */
		return -ERANGE;
	*ns = (uint64_t)then * NSEC + frac;
	return 0;
}

/* 0 is the TSC before the recording. Where the clock was set no time is known. */
static bool wall_host(const struct out_clock *real, uint64_t begin, uint64_t ns, uint64_t *host)
{
	*host = 0;
	return out_clock_host(real, ns, host) ? !clock_pieces_was_set(real->pieces, *host)
					      : ns < begin;
}

bool day_clock(const struct capture *host, struct cap_pieces *pieces, struct out_clock *day)
{
	*day = (struct out_clock){ .kind = OUT_CLOCK_REALTIME };
	if (((!cap_in_tsc(host) || host->unit_ns) && !host->has_real) ||
	    cap_pieces_init(pieces, host, CAP_CLOCK_REALTIME))
		return false;
	day->pieces = &pieces->pieces;
	return true;
}

/* The first and last host TSC of a time of day: by realtime, whatever clock rows have. */
static int wall_span(const struct out_clock *c, const struct capture *cap, const char *name,
		     const char *text, uint64_t *lo, uint64_t *hi, struct kvmft_err *err)
{
	struct out_clock real = *c;
	struct cap_pieces own = { 0 };
	uint64_t begin, ns, lasts, end = cap->stop_tsc ?: cap->end_tsc;
	int ret = 0;

	if (c->kind != OUT_CLOCK_REALTIME && !day_clock(cap, &own, &real)) {
		cap_pieces_free(&own);
		return err_lack(
			err, ENODATA,
			"option --%s: %s has no readings of realtime against the TSC (kvmft record "
			"takes them): give the time as the rows show it",
			name, cap->path);
	}
	begin = real.pieces->v[0].ns;
	if (parse_wall(text, begin, &ns, &lasts))
		ret = -EINVAL; /* the caller says so */
	else if (!wall_host(&real, begin, ns, lo) || !wall_host(&real, begin, ns + lasts, hi))
		ret = err_usage(err, "option --%s: %s is outside of what %s knows of realtime",
				name, text, cap->path);
	else
		*hi -= !!*hi; /* of what was before the TSC began, nothing */
	if (!ret && end && cap_in_tsc(cap) && !c->moved &&
	    ((strcmp(name, "from") && *hi < cap->begin_tsc) ||
	     (strcmp(name, "to") && strcmp(name, "until") && *lo > end))) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };

		out_clock_put(&real, cap->begin_tsc, -1, 6, &b);
		sbuf_add(&b, " to ");
		out_clock_put(&real, end, -1, 6, &b);
		ret = err_set(err, ENODATA, "option --%s: %s is not in %s, which is of %s", name, text,
			      cap->path, b.s ?: "");
	}
	cap_pieces_free(&own);
	return ret;
}

/* The first and last value of the clock that the text means; *wall: host TSCs instead. */
static int window_value(const struct out_clock *c, const struct capture *cap, const char *name,
			const char *text, uint64_t *lo, uint64_t *hi, bool *wall,
			struct kvmft_err *err)
{
	bool cycles = c->kind == OUT_CLOCK_HOST_TSC || c->kind == OUT_CLOCK_GUEST_TSC;
	int ret = cycles ? parse_u64(text, lo) : parse_duration(text, lo);

	*hi = *lo;
	*wall = ret && (text[0] == '@' || strchr(text, ':'));
	if (*wall)
		ret = wall_span(c, cap, name, text, lo, hi, err);
	if (ret && !err->text[0])
		return err_usage(err,
				 "option --%s: '%s' is neither %s (--clock %s) nor "
				 "[DATE ]HH:MM[:SS[.FRACTION]][ZONE] or @SECONDS",
				 name, text, cycles ? "a number of cycles" : "a time in seconds",
				 out_clock_names[c->kind]);
	return ret;
}

int window_span(const struct out_clock *c, const char *name, const char *text, uint64_t *lo,
		uint64_t *hi, struct kvmft_err *err)
{
	uint64_t first, last;
	bool wall;
	int ret = window_value(c, c->map->cap, name, text, &first, &last, &wall, err);

	if (ret)
		return ret;
	if (!wall) {
		/* The first that shows it or more; the last that shows less than the next. */
		bool known = !lo || out_clock_host(c, first, &first);

		if (known && hi && last < UINT64_MAX) {
			known = out_clock_host(c, last + 1, &last);
			last -= !!last;
		}
		if (!known)
			return err_usage(
				err,
				"option --%s: %s is outside of what the captures know of clock %s",
				name, text, out_clock_names[c->kind]);
	}
	if (lo)
		*lo = first;
	if (hi)
		*hi = last;
	return 0;
}

/* ---- the clock of the rows ---- */

/* mono_raw, mono, boot, realtime: by the host capture's own readings. */
static int clock_readings(struct cap_pieces *pieces, const struct capture *host,
			  const struct out_clock *c, note_fn *note, struct kvmft_err *err)
{
	int ret = cap_pieces_init(pieces, host, (enum cap_clock)(c->kind - OUT_CLOCK_MONO_RAW));

	if (!ret && pieces->pieces.stepped)
		note("%s: %s was set, or stood still, during the recording: between its "
		     "readings before and after that no time is known, but --clock %s is",
		     host->path, out_clock_names[c->kind],
		     c->kind == OUT_CLOCK_REALTIME ? "mono" : "mono_raw");
	if (ret == -ENODATA)
		return err_lack(
			err, ENODATA,
			"%s has no readings of %s against the TSC (kvmft record takes them%s): use "
			"another --clock",
			host->path, out_clock_names[c->kind],
			c->kind == OUT_CLOCK_REALTIME
				? ", trace-cmd record --date or perf record -k mono has the date"
				: "");
	if (ret == -ENOTSUP)
		return err_lack(
			err, ENODATA,
			"--clock %s needs the frequency of the TSC, and %s does not say it: " RATE_HINT,
			out_clock_names[c->kind], host->path);
	return err_why(err, ret, "%s: its readings of %s cannot be used", host->path,
		       out_clock_names[c->kind]);
}

/* A capture alone has one clock: its own, in ns if possible. */
static int own_clock(const struct capture *cap, int kind, struct out_clock *c,
		     struct kvmft_err *err)
{
	bool tsc = cap_in_tsc(cap) && !cap->unit_ns;
	bool count = !tsc && cap->clock &&
		     !clock_trace_is_ns(cap->clock); /* the clock counter, or uptime */

	if (kind == OUT_CLOCK_REALTIME || (tsc && kind >= OUT_CLOCK_MONO_RAW))
		return 0;
	if (kind >= 0 && (kind != OUT_CLOCK_NS || count) && (!tsc || kind == OUT_CLOCK_KVMCLOCK))
		return err_usage(err,
				 "--clock %s: %s alone has no such time, its trace clock is %s",
				 out_clock_names[kind], cap->path, cap->clock ?: "unknown");
	if (!tsc) { /* ns already: as if from a TSC that counts them */
		c->khz = count ? 0 : 1000000;
		c->base = 0;
	}
	if (kind == OUT_CLOCK_GUEST_TSC || count) /* stamps as they are */
		c->kind = OUT_CLOCK_HOST_TSC;
	return 0;
}

/*
 * A report's times are ns since its capture began, or its stamps: those that the text means in
 * clock c.
 */
static int report_value(const struct capture *cap, const struct out_clock *c, const char *name,
			const char *text, uint64_t *lo, uint64_t *hi, struct kvmft_err *err)
{
	const bool stamps = report_untimed(cap) || cap->has_real; /* a date is of stamps in ns */
	bool host = true;
	int ret = c->pieces ? window_span(c, name, text, lo, hi, err)
			    : window_value(c, cap, name, text, lo, hi, &host, err);

	if (!ret && !stamps && (host || c->kind == OUT_CLOCK_HOST_TSC)) {
		*lo = tsc_cycles_to_ns(*lo - MIN(*lo, cap->begin_tsc), cap->tsc_khz);
		*hi = tsc_cycles_to_ns(*hi - MIN(*hi, cap->begin_tsc), cap->tsc_khz);
	}
	return ret;
}

int window_report(const struct capture *cap, int kind, const char *from, const char *to,
		  struct report_opts *ro, note_fn *note, struct kvmft_err *err)
{
	const struct hostmap map = { .cap = cap };
	struct out_clock c = {
		.kind = report_untimed(cap) ? OUT_CLOCK_HOST_TSC : OUT_CLOCK_NS, .map = &map,
	};
	struct cap_pieces pieces = { 0 };
	uint64_t other;
	int ret = 0;

	if (kind == OUT_CLOCK_NS && c.kind != OUT_CLOCK_NS)
		return err_lack(err, ENODATA, "--clock ns: the TSC frequency of %s is not known: "
				RATE_HINT, cap->path);
	if (kind >= 0 && kind != OUT_CLOCK_NS) {
		c.kind = (enum out_clock_kind)kind;
		ret = own_clock(cap, kind, &c, err);
		if (!ret && c.kind >= OUT_CLOCK_MONO_RAW) {
			ret = clock_readings(&pieces, cap, &c, note, err);
			c.pieces = &pieces.pieces;
		}
	}
	ret = ret ?: from ? report_value(cap, &c, "from", from, &ro->from, &other, err) : 0;
	ret = ret ?: to ? report_value(cap, &c, "to", to, &other, &ro->to, err) : 0;
	cap_pieces_free(&pieces);
	if (!ret && from && to && ro->to < ro->from)
		return err_usage(err, "option --to: %s is before --from %s", to, from);
	return ret;
}

static void when_free(struct when *s)
{
	cap_pieces_free(&s->pieces);
	cap_pieces_free(&s->day_pieces);
	for (size_t i = 0; i < s->nlater; i++)
		cap_pieces_free(&s->later[i]);
	free(s->later);
	free(s->clock_later);
	*s = (struct when){ 0 };
}

/* ---- the view ---- */

int view_of(struct view *v, struct pairing *p)
{
	const struct view_opts *o = v->o;
	note_fn *note = v->note;
	int ret = 0;

	v->p = p;
	if (v->like)
		rate_like(p->host.cap, v->like->p->host.cap);
	else if (v->exact)
		rate_given(p->host.cap, &o->khz);
	else
		ret = rate_of_pairing(p, &o->khz, o->quiet || v->told, v->cycles, note, v->err);
	if (!ret && o->than.set && !p->host.cap->tsc_khz)
		ret = err_lack(v->err, ENODATA,
			       "--than is a time, and the TSC frequency of %s is not known: "
			       RATE_HINT, p->host.cap->path);
	ret = ret ?: pairing_add_hosts(p, &o->host, v->moved, v->err);
	v->q.note = note;
	if (!ret && v->traces)
		ret = qemu_traces_add(&v->q, p, &o->qemu, o->trace_events, v->err);
	if (!ret && v->names)
		ret = guest_syms_of_pairing(&v->syms, &o->syms, p, o->quiet ? NULL : note, v->err);
	ret = ret ?: view_clock(v, o->clock, v->err);
	/* From the first of --from to the last of --to. */
	v->from = 0;
	v->to = UINT64_MAX;
	if (!ret && o->from)
		ret = window_span(&v->clock, "from", o->from, &v->from, NULL, v->err);
	if (!ret && o->to)
		ret = window_span(&v->clock, v->end ?: "to", o->to, NULL, &v->to, v->err);
	if (!ret && o->from && v->to < v->from)
		ret = err_usage(v->err, "option --%s: %s is before --from %s", v->end ?: "to", o->to,
				o->from);
	v->vm = !ret && o->vm ? hostmap_find_vm(p->map, o->vm, v->err) : -1;
	return ret ?: o->vm ? (int)MIN(v->vm, 0) : 0;
}

struct pairing_opts view_needs(const struct view *v)
{
	struct pairing_opts po = v->need;

	po.clock = &v->o->pair;
	po.khz = &v->o->khz;
	po.naming = v->o->naming;
	/* What takes more than a capture's own clock. */
	po.related |= v->o->clock >= 0 && v->o->clock != OUT_CLOCK_NS &&
		      v->o->clock != OUT_CLOCK_REALTIME;
	return po;
}

int view_open(struct view *v, char **captures, size_t n)
{
	const struct pairing_opts po = view_needs(v);
	const bool alone = n < 2 && v->alone;
	struct kvmft_err none, *err = alone ? &none : v->err;
	int ret = alone && v->alone == VIEW_ALONE
		      ? -ENOTSUP
		      : pairing_prepare(&v->own, captures[0], captures + 1, n - 1, &po, err);
	if (ret && alone) {
		pairing_close(&v->own);
		ret = pairing_open_alone(&v->own, captures[0], v->err);
	}
	return ret ?: view_of(v, &v->own);
}

/* Kind by enum out_clock_kind; -1: ns if the captures allow it, else cycles. */
int view_clock(struct view *v, int kind, struct kvmft_err *err)
{
	struct when *s = &v->when;
	const struct pairing *p = v->p;
	const struct capture *host = p->host.cap;
	struct out_clock *c = &v->clock;
	const struct epoch_vm *vm;
	bool known = false;
	int ret;

	when_free(s);
	*c = (struct out_clock){
		.kind = kind < 0 ? OUT_CLOCK_NS : (enum out_clock_kind)kind, .map = p->map,
		.vm = p->nguest ? p->guest[0].vm : 0, .khz = host->tsc_khz, .base = p->begin,
		.moved = p->nlater,
	};
	if (host->has_tsc2nsec && !c->base && !host->unit_ns)
		c->line = (struct cyc2ns){ .mult = host->tsc2nsec_mult,
					   .shift = (uint8_t)host->tsc2nsec_shift };
	if (host->line.known && !c->base && !p->alone) /* perf's own clock, as perf prints it */
		c->line = host->line.line;
	if (cyc2ns_check(&c->line)) /* nothing that a kernel makes */
		c->line.mult = 0;
	ret = p->alone ? own_clock(host, kind, c, err) : 0;
	if (ret)
		return ret;
	if (c->kind == OUT_CLOCK_NS && !c->khz) {
		if (kind >= 0)
			return err_lack(
				err, ENODATA,
				"--clock ns: the TSC frequency of %s is not known: use --clock host-tsc, or "
				RATE_HINT,
				host->path);
		c->kind = OUT_CLOCK_HOST_TSC;
		c->no_rate = true;
	}
	/* Two hosts share the guest's clocks, which link them, and the time of day. */
	if (p->nlater && c->kind != OUT_CLOCK_NS && c->kind != OUT_CLOCK_GUEST_TSC &&
	    c->kind != OUT_CLOCK_KVMCLOCK && c->kind != OUT_CLOCK_REALTIME)
		return err_usage(err, "--clock %s: the %s of two hosts are unrelated: use guest-tsc, "
				 "kvmclock, ns or realtime", out_clock_names[c->kind],
				 c->kind == OUT_CLOCK_HOST_TSC ? "TSCs" : "clocks");
	if ((c->kind == OUT_CLOCK_GUEST_TSC || c->kind == OUT_CLOCK_KVMCLOCK) && !p->nguest)
		return err_usage(err, "--clock %s needs a guest", out_clock_names[c->kind]);
	/* Otherwise there would be no time in any row. */
	vm = c->kind == OUT_CLOCK_KVMCLOCK ? c->map->vm[c->vm].epochs : NULL;
	for (size_t i = 0; vm && i < vm->n; i++)
		for (size_t k = 0; k < vm->vcpus[i]->n; k++)
			known |= vm->vcpus[i]->v[k].has_pv;
	if (c->kind == OUT_CLOCK_KVMCLOCK && !known)
		return err_lack(
			err, ENODATA,
			"--clock kvmclock: no pvclock record of %s is known: record the guest with kvmft, or "
			"the host while the guest boots; a guest without kvm-clock has none",
			c->map->vm[c->vm].label);
	if (c->kind < OUT_CLOCK_MONO_RAW)
		return 0;
	ret = clock_readings(&s->pieces, host, c, v->note, err);
	c->pieces = &s->pieces.pieces;
	s->later = xcalloc(p->nlater + 1, sizeof(*s->later));
	s->clock_later = xcalloc(p->nlater + 1, sizeof(*s->clock_later));
	for (; s->nlater < p->nlater && !ret; s->nlater++) {
		const struct pairing_host *h = &p->later[s->nlater];

		ret = clock_readings(&s->later[s->nlater], h->c.cap, c, v->note, err);
		s->clock_later[s->nlater] = (struct out_clock_later){
			.link = h->link, .pieces = &s->later[s->nlater].pieces,
		};
	}
	c->later = s->clock_later;
	c->nlater = s->nlater;
	return ret;
}

int view_again(const struct view *v, uint64_t from, uint64_t to)
{
	tl_stop(v->p->t);
	tl_window(v->p->t, from, to);
	return tl_start(v->p->t, v->err);
}

int view_start(struct view *v)
{
	int ret = view_again(v, v->from, v->to);

	win_free(v->w);
	v->w = NULL;
	if (!ret && (v->prove == VIEW_PROVE_ALL || (v->prove == VIEW_PROVE && v->p->nguest)))
		win_new(v->p->t, &v->w);
	return ret;
}

int view_walked(struct view *v, int ret)
{
	if (v->w)
		win_finish(v->w);
	return ret;
}

void view_tell_alignment(const struct view *v, size_t vm, const char *name, bool quiet)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct win_stats s;

	win_total(v->w, (int64_t)vm, &s);
	if (quiet && !s.outside)
		return;
	sbuf_addf(&b, "alignment of %s: ", name);
	pairing_alignment_text(v->p->map, v->w, (int64_t)vm, &b);
	v->note("%s", b.s ?: "out of memory");
}

int view_tell(const struct view *v, bool quiet, bool *complete)
{
	const struct pairing *p = v->p;

	if (!quiet)
		pairing_tell_assumed(p, v->note);
	*complete = pairing_summary(p, quiet, v->note);
	for (size_t i = 0; v->w && v->prove == VIEW_PROVE && i < p->nguest; i++)
		view_tell_alignment(v, p->guest[i].vm, p->map->vm[p->guest[i].vm].label, quiet);
	return pairing_placed(p->t, v->err);
}

void view_close(struct view *v)
{
	win_free(v->w);
	when_free(&v->when);
	pairing_close(&v->own);
	guest_syms_free(&v->syms);
	qemu_traces_free(&v->q);
}

/* ---- what is written of it ---- */

const char *view_cycles(const char *format, int kind)
{
	const struct out_format *fmt = format ? out_format_find(format) : NULL;

	if (kind >= 0)
		return NULL;
	return fmt && fmt->only_ns ? "what the trace calls a ns is a cycle" : "times are in cycles";
}

int view_output(struct view *v, const struct out_format *fmt, struct outfile *file, FILE *f)
{
	struct out_clock *c = &v->clock;
	const struct capture *cap = fmt ? c->map->cap : NULL;
	bool ns = fmt && fmt->only_ns;
	int ret = 0, fd;

	v->file = file;
	/* Can the format be written in that clock, and there? */
	if (ns && cap->clock && !cap_in_tsc(cap) && !clock_trace_is_ns(cap->clock))
		return err_set(v->err, ENODATA, "format %s has times in ns, and %s was recorded with the "
			       "trace clock %s, which is not a time", fmt->name, cap->path, cap->clock);
	if (ns && c->no_rate) { /* ... then what it calls a ns is a cycle */
		c->kind = OUT_CLOCK_NS;
		c->khz = 1000000;
	}
	if (ns && strcmp(out_clock_unit(c), "ns"))
		return err_usage(v->err, "format %s has times in ns: use a --clock other than %s",
				 fmt->name, out_clock_names[c->kind]);
	if (fmt && fmt->binary && !v->file && isatty(STDOUT_FILENO))
		return err_usage(v->err, "format %s is not for a terminal: use -o OUT", fmt->name);
	if (v->p)
		ret = outfile_check(file, NULL, v->p->t, v->o->trace_events, v->err);
	if (ret)
		return ret;
	v->f = f;
	if (file) {
		fd = fcntl(outfile_fd(file, 0), F_DUPFD_CLOEXEC, 0);
		v->f = fd < 0 ? NULL : fdopen(fd, "w");
		if (!v->f) {
			util_close_fd(&fd);
			return err_set(v->err, ENOMEM, "out of memory");
		}
	}
	/* Outputs write large pieces: no copy, no remainders. In memory a buffer is needed. */
	if (fileno(v->f) >= 0)
		setvbuf(v->f, NULL, _IONBF, 0);
	return 0;
}

void view_put_alignment(struct view *v)
{
	const struct pairing *p = v->p;

	for (size_t i = 0; v->out.fmt->alignment && i < tl_sources(p->t); i++)
		if (tl_source(p->t, i)->guest && !tl_source(p->t, i)->alone) {
			struct tl_source *src = tl_source(p->t, i);
			_cleanup_(sbuf_free) struct sbuf text = { 0 };
			uint64_t khz = p->host.cap->tsc_khz;
			struct out_alignment a = { .src = src };
			struct win_stats st;

			win_total(v->w, (int64_t)src->vm, &st);
			pairing_alignment_text(p->map, v->w, (int64_t)src->vm, &text);
			a.text = xsbuf_text(&text);
			a.checked = st.checked;
			a.outside = st.outside;
			a.bounded =
				khz && st.has_early && st.has_late && st.early >= 0 && st.late >= 0;
			if (a.bounded) {
				a.early_ns = (int64_t)tsc_cycles_to_ns((uint64_t)st.early, khz);
				a.late_ns = (int64_t)tsc_cycles_to_ns((uint64_t)st.late, khz);
			}
			v->out.fmt->alignment(&v->out, &a);
		}
}

int view_end(struct view *v, int ret)
{
	int end = out_end(&v->out);

	ret = ret ?: end;
	if (v->f && v->file && fclose(v->f) && !ret)
		ret = -errno;
	v->f = NULL;
	if (ret == -ENOMSG && !v->err->text[0])
		err_lack(v->err, ENODATA,
			 v->out.fold ? "no kvm_exit and kvm_entry of a VM were recorded"
				     : "no stacks were recorded: kvmft record --stacks EVENT");
	if (ret && ret != -EPIPE && !v->err->text[0])
		err_why(v->err, ret, "cannot write %s",
			v->file ? outfile_path(v->file) : "to standard output");
	return ret;
}

bool view_whole(const struct view *v)
{
	if (v->out.left_out)
		v->note("%llu events are left out: %s", (unsigned long long)v->out.left_out,
			v->out.fmt->no_place);
	return !v->out.left_out;
}
