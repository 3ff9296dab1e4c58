/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * merge.c: `kvmft merge HOST GUEST[=SEL]...`, one aligned time line and its proof.
 */
#include "cmds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kvmft/output.h"
#include "kvmft/samples.h"
#include "kvmft/windows.h"
#include "pairing.h"

struct merge_opts {
	int clock;
	const char *output, *format;
	struct opt_u64 tsc_offset;
	const char *tsc_ratio;
	bool force, quiet;
};

static const struct opt merge_options[] = {
	OPTION_CHOICE(0, "clock", struct merge_opts, clock, "CLOCK", out_clock_names,
		      "clock of all rows (default: ns since the first event)"),
	OPTION('o', "output", OPT_STR, struct merge_opts, output, "OUT",
	       "write the time line to this new file (default: standard output)"),
	OPTION(0, "format", OPT_STR, struct merge_opts, format, "FORMAT",
	       "text (default)"),
	OPTION(0, "tsc-offset", OPT_BITS, struct merge_opts, tsc_offset, "N",
	       "the guest's TSC offset, instead of what the host capture says"),
	OPTION(0, "tsc-ratio", OPT_STR, struct merge_opts, tsc_ratio, "R/F",
	       "the guest's TSC scaling ratio and its fraction bits"),
	OPTION(0, "force", OPT_FLAG, struct merge_opts, force, NULL, "replace an existing OUT"),
	OPTION('q', "quiet", OPT_FLAG, struct merge_opts, quiet, NULL,
	       "no summary on standard error unless something is wrong"),
	OPT_END,
};

struct merge {
	const struct merge_opts *o;
	struct kvmft_err *err;
	struct pairing p;
	struct windows *w;
	struct out out;
	struct cap_pieces pieces; /* of the host's clock that was asked for */
	FILE *f;
};

/* mono_raw, mono, boot, realtime: by the host capture's own readings. */
static int merge_sampled_clock(struct merge *m, struct out_clock *c)
{
	enum cap_clock clock = (enum cap_clock)(c->kind - OUT_CLOCK_MONO_RAW);
	int ret = cap_pieces_init(&m->pieces, m->p.host.cap, clock, 0);

	c->pieces = &m->pieces.pieces;
	if (ret == -ENODATA)
		return err_set(m->err, ENODATA,
			       "%s has no readings of %s beside the TSC (kvmft record makes them): use "
			       "another --clock",
			       m->p.host.cap->path, out_clock_names[c->kind]);
	if (ret)
		return err_set(m->err, -ret, "%s: its readings of %s cannot be used: %s",
			       m->p.host.cap->path, out_clock_names[c->kind], strerror(-ret));
	return 0;
}

static int merge_clock(struct merge *m, struct out_clock *c)
{
	const struct capture *host = m->p.host.cap;

	memset(c, 0, sizeof(*c));
	c->kind = m->o->clock < 0 ? OUT_CLOCK_NS : (enum out_clock_kind)m->o->clock;
	c->map = m->p.map;
	c->vm = m->p.nguest ? m->p.guest[0].vm : 0;
	c->khz = host->tsc_khz;
	c->base = host->begin_tsc;
	if (c->kind == OUT_CLOCK_NS && !c->khz) {
		if (m->o->clock >= 0)
			return err_set(m->err, ENODATA,
				       "%s does not say how fast the host's TSC runs: use --clock host-tsc",
				       host->path);
		c->kind = OUT_CLOCK_HOST_TSC;
	}
	if ((c->kind == OUT_CLOCK_GUEST_TSC || c->kind == OUT_CLOCK_KVMCLOCK) && !m->p.nguest)
		return err_usage(m->err, "--clock %s needs a guest", out_clock_names[c->kind]);
	if (c->kind >= OUT_CLOCK_MONO_RAW)
		return merge_sampled_clock(m, c);
	return 0;
}

static int merge_open_output(struct merge *m)
{
	int fd;

	m->f = stdout;
	if (!m->o->output)
		return 0;
	if (m->o->force && unlink(m->o->output) < 0 && errno != ENOENT)
		return err_set(m->err, errno, "cannot replace %s: %s", m->o->output, strerror(errno));
	fd = file_create(AT_FDCWD, m->o->output);
	if (fd < 0)
		return err_set(m->err, -fd, "cannot create %s: %s%s", m->o->output, strerror(-fd),
			       fd == -EEXIST ? " (use --force to replace it)" : "");
	m->f = fdopen(fd, "w");
	if (!m->f) {
		close(fd);
		return err_set(m->err, ENOMEM, "out of memory");
	}
	return 0;
}

static int merge_walk(struct merge *m)
{
	struct tl_item item;
	int ret;

	while ((ret = tl_next(m->p.t, &item)) > 0) {
		ret = win_feed(m->w, &item);
		if (!ret)
			ret = out_item(&m->out, &item);
		if (ret)
			break;
	}
	win_finish(m->w);
	return ret;
}

static int merge_write(struct merge *m)
{
	const struct out_format *fmt = out_format_find(m->o->format ? m->o->format : "text");
	struct out_clock clock;
	int ret, end;

	ret = merge_clock(m, &clock);
	if (!ret)
		ret = win_new(m->p.t, &m->w);
	if (!ret)
		ret = merge_open_output(m);
	if (ret)
		return ret;
	ret = out_begin(&m->out, m->p.t, fmt, &clock, m->f);
	if (!ret)
		ret = merge_walk(m);
	end = out_end(&m->out);
	ret = ret ? ret : end;
	if (m->f != stdout && fclose(m->f) && !ret)
		ret = -errno;
	if (ret == -EPIPE)
		return ret; /* `| head` has seen enough: no failure, see merge_run() */
	if (ret && !m->err->text[0])
		err_set(m->err, -ret, "cannot write %s: %s", m->o->output ? m->o->output : "the time line",
			strerror(-ret));
	return ret;
}

/* ---- what the user must know about the result ---- */

static bool summary_sources(struct merge *m)
{
	bool complete = true;

	for (size_t i = 0; i < tl_sources(m->p.t); i++) {
		const struct tl_source *s = tl_source(m->p.t, i);
		struct pairing_loss loss;

		pairing_loss(s, &loss);
		if (loss.total || loss.unknown || s->damaged || s->error || s->cap->ndamage)
			complete = false;
		if (m->o->quiet && complete)
			continue;
		cli_note("%s: %llu events, %llu lost%s%s", s->label, (unsigned long long)s->events,
			 (unsigned long long)loss.total, loss.unknown ? " or more" : "",
			 s->cap->complete ? "" : " (recording was cut short)");
		if (s->unplaced)
			cli_note("%s: %llu stamps could not be placed and are marked with ?", s->label,
				 (unsigned long long)s->unplaced);
		if (s->damaged)
			cli_note("%s: %llu damaged sub-buffers left out", s->label,
				 (unsigned long long)s->damaged);
		for (size_t k = 0; k < s->cap->ndamage; k++)
			cli_note("%s: %s", s->label, s->cap->damage[k].text);
	}
	return complete;
}

static void summary_alignment(struct merge *m, const struct pairing_guest *g)
{
	struct sbuf b = { 0 };
	struct win_stats s;

	win_total(m->w, (int64_t)g->vm, &s);
	if (m->o->quiet && !s.outside)
		return;
	pairing_alignment_text(m->p.map, m->w, (int64_t)g->vm, &b);
	cli_note("alignment of %s: %s", m->p.map->vm[g->vm].label, b.s ? b.s : "out of memory");
	sbuf_free(&b);
}

static int merge_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	struct merge m = { .o = opts, .err = err };
	struct tsc_map forced;
	bool force_map = false, complete = true;
	uint64_t events = 0;
	int ret;

	if (m.o->format && !out_format_find(m.o->format))
		return err_usage(err, "option --format: there is no format '%s'", m.o->format);
	ret = pairing_parse_map(&m.o->tsc_offset, m.o->tsc_ratio, &forced, &force_map, err);
	if (!ret)
		ret = pairing_open(&m.p, argv[0], argv + 1, (size_t)argc - 1,
				   force_map ? &forced : NULL, err);
	if (!ret)
		ret = merge_write(&m);
	if (!ret) {
		complete = summary_sources(&m);
		for (size_t i = 0; i < m.p.nguest; i++)
			summary_alignment(&m, &m.p.guest[i]);
		for (size_t i = 0; i < tl_sources(m.p.t); i++)
			events += tl_source(m.p.t, i)->events;
		if (!events)
			ret = err_set(err, ENODATA, "the captures hold no events");
	}
	win_free(m.w);
	cap_pieces_free(&m.pieces);
	pairing_close(&m.p);
	if (ret == -EPIPE)
		return KVMFT_OK;
	if (ret)
		return ret;
	return complete ? KVMFT_OK : KVMFT_INCOMPLETE;
}

const struct cmd cmd_merge = {
	.name = "merge",
	.summary = "one aligned time line from a host capture and guest captures",
	.args = "HOST GUEST[=SEL]...",
	.description = "HOST and GUEST are captures of `kvmft record` or trace.dat files. A guest is paired with\n"
		       "its VM by UUID; GUEST=SEL names the VM (UUID, name, PID or PID-FD) when that is not\n"
		       "possible. The last lines on standard error tell how well the clocks align.",
	.examples = "  kvmft merge host guest\n"
		    "  kvmft merge --clock kvmclock host guest=vm1 > timeline.txt",
	.opts = merge_options,
	.opts_size = sizeof(struct merge_opts),
	.run = merge_run,
	.min_args = 1,
	.max_args = -1,
};
