/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qemu_sdt.c: `kvmft qemu sdt`, the markers of a program and what can be recorded of each. */
#include "qemu.h"
#include "kvmft/table.h"
#include "kvmft/sdt.h"
#include "sink.h"

#define MAX_LISTED 16384 /* events; QEMU has a few thousand */

struct sdt_opts {
	int format;
};

static const struct opt sdt_options[] = {
	OPTION_CHOICE(0, "format", struct sdt_opts, format, "FORMAT", cli_formats,
		      "how to print the list"),
	OPT_END,
};

/* ---- JSON and CSV ---- */

struct list {
	const struct sdt_spec *s;
	const struct sdt_plan *p;
};

static void marker_cells(struct row *o, const void *ctx, size_t i)
{
	static const struct sdt_event none;
	const struct sdt_event *e = o->head ? &none : &((const struct list *)ctx)->p->v[i];

	row_str(o, "provider", e->provider);
	row_str(o, "marker", e->marker);
	row_str(o, "system", e->sys);
	row_str(o, "event", e->name);
	if (o->form != ROW_JSON)
		row_u64(o, "places", true, e->n);
	row_bool(o, "guarded", true, e->guarded);
	if (o->form == ROW_JSON) {
		const char *types = e->types;

		/* "arg1:s8 arg3:string" */
		json_put_array(o->j, "arguments");
		while (*types) {
			size_t n = strcspn(types, " "), name = strcspn(types, ":");

			json_object_begin(o->j);
			json_key(o->j, "name");
			json_str_mem(o->j, types, MIN(name, n));
			json_key(o->j, "type");
			json_str_mem(o->j, types + MIN(name + 1, n), n - MIN(name + 1, n));
			json_object_end(o->j);
			types += n + (types[n] == ' ');
		}
		json_array_end(o->j);
	} else {
		row_str(o, "arguments", e->types);
	}
	row_str(o, "left_out", e->left_out);
	if (o->form != ROW_JSON)
		return;
	json_put_array(o->j, "places");
	for (size_t k = 0; k < e->n; k++) {
		json_object_begin(o->j);
		json_put_u64(o->j, "offset", e->place[k].offset);
		json_put_known_u64(o->j, "semaphore", e->place[k].semaphore, e->place[k].semaphore);
		json_put_str(o->j, "fetch", e->place[k].args);
		json_object_end(o->j);
	}
	json_array_end(o->j);
}

static void marker_json_head(struct json *j, const void *ctx)
{
	json_put_str(j, "binary", ((const struct list *)ctx)->s->path);
}

static void list_print(const struct list *l, int format, struct sbuf *b)
{
	const struct table t = { .cells = marker_cells, .ctx = l, .n = l->p->n };

	if (format > FORMAT_TEXT) {
		table_doc(&t, format == FORMAT_CSV, "markers", marker_json_head, b);
		return;
	}
	sbuf_addf(b, "%-36s %6s  %-5s  %s\n", "PROVIDER:MARKER", "PLACES", "GUARD", "ARGUMENTS");
	for (const struct sdt_event *e = l->p->v; e < l->p->v + l->p->n; e++) {
		size_t from = b->len;

		sbuf_addf(b, "%s:%s", e->provider, e->marker);
		while (b->len - from < 36 && !b->error)
			sbuf_addc(b, ' ');
		sbuf_addf(b, " %6zu  %-5s  %s", e->n, e->guarded ? "yes" : "no",
			  *e->types ? e->types : "-");
		if (*e->left_out)
			sbuf_addf(b, "  (not %s)", e->left_out);
		sbuf_addc(b, '\n');
	}
}

/* ---- the command ---- */

static int sdt_run(void *opts, int argc __unused_arg, char **argv, struct kvmft_err *err)
{
	const struct sdt_opts *o = opts;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct sdt_file f = { 0 };
	struct sdt_hints h = { 0 };
	struct sdt_plan p = { 0 };
	struct sdt_spec s;
	int ret = sdt_spec_parse(argv[0], &s, err);

	ret = ret ?: sdt_read(s.fd, s.path, &f, err);
	ret = ret ?: sdt_spec_check(&s, &f, err);
	if (!ret && sdt_hints_find(&s, &f, 1, &h))
		ret = err_set(err, ENOMEM, "out of memory");
	if (!ret) {
		h.want[h.n] = s.want;
		ret = sdt_plan_add(&p, &f, 0, h.want, h.n + 1, MAX_LISTED);
		if (ret)
			err_set(err, -ret, "%s: %s", s.path,
				ret == -E2BIG ? "too many markers to list: name some"
					      : strerror(-ret));
	}
	if (!ret) {
		list_print(&(struct list){ &s, &p }, o->format, &b);
		ret = sink_print(&b, stdout, err);
	}
	if (!ret && p.unfit)
		cli_note("%s: %zu places cannot be probed and are left out: %s", s.path, p.unfit,
			 p.why_unfit);
	if (!ret && f.bad)
		cli_note("%s: %zu notes make no sense and are left out", s.path, f.bad);
	if (!ret && (p.unfit || f.bad))
		ret = KVMFT_INCOMPLETE;
	sdt_plan_free(&p);
	sdt_hints_free(&h);
	sdt_free(&f);
	sdt_spec_free(&s);
	return ret;
}

const struct cmd cmd_qemu_sdt = {
	.name = "qemu sdt",
	.summary = "the SDT markers of a QEMU or any other program",
	.args = "BINARY[:PROVIDER[:MARKER]]",
	.description =
		"What `kvmft record --sdt` can record: the static probes of sys/sdt.h, which QEMU has when\n"
		"it was built with the trace back end dtrace. PROVIDER and MARKER may have * and ?.",
	.examples = "  kvmft qemu sdt qemu-system-x86_64:qemu:virtio_*\n"
		    "  kvmft qemu sdt --format json /usr/lib/x86_64-linux-gnu/libc.so.6",
	.opts = sdt_options,
	.opts_size = sizeof(struct sdt_opts),
	.run = sdt_run,
	.reader = true,
	.min_args = 1,
	.max_args = 1,
};
