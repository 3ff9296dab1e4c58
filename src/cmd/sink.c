/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sink.c: where results go; the clock and the file of a time line. */
#include "sink.h"

const char *sink_cycles(const char *format, int kind)
{
	const struct out_format *fmt = format ? out_format_find(format) : NULL;

	if (kind >= 0)
		return NULL;
	return fmt && fmt->only_ns ? "what the trace calls a ns is a cycle" : "times are in cycles";
}

int sink_check(const struct out_format *fmt, struct out_clock *c, const char *path,
	       struct kvmft_err *err)
{
	const struct capture *cap = c->map->cap;

	if (fmt->only_ns && cap->clock && !cap_in_tsc(cap) && !clock_trace_is_ns(cap->clock))
		return err_set(
			err, ENODATA,
			"format %s has times in ns, and %s was recorded with the trace clock "
			"%s, which is not a time",
			fmt->name, cap->path, cap->clock);
	if (fmt->only_ns && c->no_rate) { /* ... then what it calls a ns is a cycle */
		c->kind = OUT_CLOCK_NS;
		c->khz = 1000000;
	}
	if (fmt->only_ns && strcmp(out_clock_unit(c), "ns"))
		return err_usage(err, "format %s has times in ns: use a --clock other than %s",
				 fmt->name, out_clock_names[c->kind]);
	if (fmt->binary && !path && isatty(STDOUT_FILENO))
		return err_usage(err, "format %s is not for a terminal: use -o OUT", fmt->name);
	return 0;
}

int sink_open(struct sink *s, struct outfile *file, FILE *f, struct kvmft_err *err)
{
	int fd;

	s->file = file;
	s->f = f;
	if (file) {
		fd = fcntl(outfile_fd(file, 0), F_DUPFD_CLOEXEC, 0);
		s->f = fd < 0 ? NULL : fdopen(fd, "w");
		if (!s->f) {
			util_close_fd(&fd);
			return err_set(err, ENOMEM, "out of memory");
		}
	}
	/*
	 * Outputs write in large pieces: no copy, and no remainders. A stream in memory needs its
	 * buffer.
	 */
	if (fileno(s->f) >= 0)
		setvbuf(s->f, NULL, _IONBF, 0);
	return 0;
}

void sink_put_alignment(struct sink *s, const struct pairing *p, const struct windows *w)
{
	for (size_t i = 0; s->out.fmt->alignment && i < tl_sources(p->t); i++)
		if (tl_source(p->t, i)->guest && !tl_source(p->t, i)->alone) {
			struct tl_source *src = tl_source(p->t, i);
			_cleanup_(sbuf_free) struct sbuf text = { 0 };
			uint64_t khz = p->host.cap->tsc_khz;
			struct out_alignment a = { .src = src };
			struct win_stats st;

			win_total(w, (int64_t)src->vm, &st);
			pairing_alignment_text(p->map, w, (int64_t)src->vm, &text);
			a.text = xsbuf_text(&text);
			a.checked = st.checked;
			a.outside = st.outside;
			a.bounded =
				khz && st.has_early && st.has_late && st.early >= 0 && st.late >= 0;
			if (a.bounded) {
				a.early_ns = (int64_t)tsc_cycles_to_ns((uint64_t)st.early, khz);
				a.late_ns = (int64_t)tsc_cycles_to_ns((uint64_t)st.late, khz);
			}
			s->out.fmt->alignment(&s->out, &a);
		}
}

int sink_close(struct sink *s, bool begun, int ret, struct kvmft_err *err)
{
	int end = begun ? out_end(&s->out) : 0;

	ret = ret ?: end;
	if (s->f && s->file && fclose(s->f) && !ret)
		ret = -errno;
	s->f = NULL;
	if (ret == -ENOMSG && !err->text[0])
		err_lack(err, ENODATA, s->out.fold ? "no kvm_exit and kvm_entry of a VM were recorded"
						   : "no stacks were recorded: kvmft record --stacks EVENT");
	if (ret && ret != -EPIPE && !err->text[0])
		err_why(err, ret, "cannot write %s",
			s->file ? outfile_path(s->file) : "to standard output");
	return ret;
}

bool sink_whole(const struct sink *s)
{
	if (s->out.left_out)
		cli_note("%llu events are left out: %s", (unsigned long long)s->out.left_out,
			 s->out.fmt->no_place);
	return !s->out.left_out;
}

int sink_exit(int ret, bool complete)
{
	if (ret && ret != -EPIPE)
		return ret;
	return ret || complete ? KVMFT_OK : KVMFT_INCOMPLETE;
}

int sink_file_open(void *opts, int argc __unused_arg, struct kvmft_err *err)
{
	struct sink_file *f = opts;

	f->path = outfile_arg(f->path);
	page_open(&f->page, &f->page_opts, f->path);
	return outfile_open(f->path, f->force, 1, &f->out, err);
}

int sink_file_close(void *opts)
{
	struct sink_file *f = opts;

	outfile_close(f->out);
	page_close(&f->page);
	return 0;
}

/* ---- remarks ---- */

void sink_remark(struct sink_remarks *r, const char *fmt, ...)
{
	va_list ap;

	if (r->n >= ARRAY_SIZE(r->v))
		return;
	va_start(ap, fmt);
	if (vasprintf(&r->v[r->n], fmt, ap) >= 0)
		str_printable(r->v[r->n++]);
	va_end(ap);
}

void sink_remarks_tell(const struct sink_remarks *r)
{
	for (size_t i = 0; i < r->n; i++)
		cli_note("%s", r->v[i]);
}

void sink_remarks_free(struct sink_remarks *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i]);
	r->n = 0;
}

/* ---- standard output ---- */

int sink_print(const struct sbuf *b, FILE *f, struct kvmft_err *err)
{
	if (!b->error && b->len)
		fwrite(b->s, 1, b->len, f); /* main flushes, and checks whether that worked */
	return err_why(err, b->error, "cannot make the list");
}

int sink_input_check(const char *path, struct kvmft_err *err)
{
	if (strcmp(path, DEFAULT_INPUT) || !access(DEFAULT_INPUT, F_OK))
		return 0;
	return err_set(err, ENOENT,
		       "no %s here: name a capture with -i, or make one with `kvmft record`",
		       DEFAULT_INPUT);
}

void sink_tell_alignment(const struct pairing *p, const struct windows *w, size_t vm,
			 const char *name, bool quiet)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct win_stats s;

	win_total(w, (int64_t)vm, &s);
	if (quiet && !s.outside)
		return;
	sbuf_addf(&b, "alignment of %s: ", name);
	pairing_alignment_text(p->map, w, (int64_t)vm, &b);
	cli_note("%s", b.s ?: "out of memory");
}

int sink_tell(const struct pairing *p, const struct windows *w, bool quiet, bool *complete,
	      struct kvmft_err *err)
{
	if (!quiet)
		pairing_tell_assumed(p, cli_note);
	*complete = pairing_summary(p->t, quiet, cli_note);
	for (size_t i = 0; w && i < p->nguest; i++)
		sink_tell_alignment(p, w, p->guest[i].vm, p->map->vm[p->guest[i].vm].label, quiet);
	return pairing_placed(p->t, err);
}

int only_vcpu(const struct opt_u64 *given, int64_t *vcpu, struct kvmft_err *err)
{
	*vcpu = given->set ? (int64_t)given->v : -1;
	if (!given->set || given->v <= UINT32_MAX)
		return 0;
	return err_usage(err, "--vcpu %llu: no vCPU has such a number",
			 (unsigned long long)given->v);
}

int top_check(const struct opt_u64 *top, struct kvmft_err *err)
{
	return top->set && !top->v ? err_usage(err, "--top: 1 or more") : 0;
}

int only_vm(const struct pairing *p, const char *sel, int64_t *vm, struct kvmft_err *err)
{
	*vm = sel ? hostmap_find_vm(p->map, sel, err) : -1;
	return sel && *vm < 0 ? (int)*vm : 0;
}

int spans_check(const struct spans_opts *o, struct kvmft_err *err)
{
	if (!o->from != !o->to)
		return err_usage(err, "--from-event and --to-event: both are needed");
	if (o->key && !o->from)
		return err_usage(err, "--key: only with --from-event and --to-event");
	return 0;
}

int than_check(const struct opt_u64 *given, const struct pairing *p, struct kvmft_err *err)
{
	if (!given->set || p->host.cap->tsc_khz)
		return 0;
	return err_lack(err, ENODATA,
			"--than is a time, and the TSC frequency of %s is not known: give it with "
			"--tsc-khz", p->host.cap->path);
}
