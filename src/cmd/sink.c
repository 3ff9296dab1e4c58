/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sink.c: where results go. */
#include "cmds.h"

void view_defaults(void *opts)
{
	struct {
		struct sink_file file;
		struct view_opts v;
	} *o = opts;

	o->v.clock = -1;
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

int sink_show(const struct sbuf *b, struct kvmft_err *err)
{
	struct page page;
	int ret;

	page_open(&page, &(struct page_opts){ .wide = true }, false);
	ret = sink_print(b, stdout, err);
	page_close(&page);
	return ret;
}

int sink_input_check(const char *path, struct kvmft_err *err)
{
	if (strcmp(path, DEFAULT_INPUT) || !access(DEFAULT_INPUT, F_OK))
		return 0;
	return err_set(err, ENOENT,
		       "no %s here: name a capture with -i, or make one with `kvmft record`",
		       DEFAULT_INPUT);
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

int spans_check(const struct spans_opts *o, struct kvmft_err *err)
{
	if (!o->from != !o->to)
		return err_usage(err, "--from-event and --to-event: both are needed");
	if (o->key && !o->from)
		return err_usage(err, "--key: only with --from-event and --to-event");
	return 0;
}
