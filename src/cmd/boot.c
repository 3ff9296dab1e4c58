/* SPDX-License-Identifier: GPL-2.0-or-later */
/* boot.c: `kvmft boot`, where the time of a VM's boot went; or of two, beside each other. */
#include "cmds.h"
#include "kvmft/boot.h"
#include "kvmft/table.h"

struct boot_cmd_opts {
	struct sink_file file; /* first */
	struct view_opts v;
	const char *until;
	int format;
};

static const struct opt boot_options[] = {
	OPTION(0, "until", OPT_STR, struct boot_cmd_opts, until, "EVENT",
	       "up to this event, [SYSTEM:]NAME[/FILTER/], of the VM; text=TEXT: until the guest has\n"
	       "written TEXT to its first serial port"),
	VM_OPTION(struct boot_cmd_opts, v.vm),
	FORMAT_OPTION(struct boot_cmd_opts, cli_formats),
	OPT_END,
};

struct boot_doc {
	struct boot_lines rows;
	const struct boot_cmd_opts *o;
	int n;
	char **path;
};

static void boot_ms(struct row *r, unsigned int in, const char *name, const char *head, bool known,
		    uint64_t ns)
{
	if (r->form != ROW_TEXT)
		row_time(r, name, known, ns);
	else if (known)
		cell_text(r, IN_TEXT | in, head, "%llu.%03llu", (unsigned long long)ns / 1000000,
			  (unsigned long long)ns / 1000 % 1000);
	else
		cell_text(r, IN_TEXT | in, head, "%s", "");
}

static void boot_cells(struct row *r, const void *ctx, size_t i)
{
	static const struct boot_line none = { .part = "" };
	const struct boot_doc *d = ctx;
	const struct boot_line *o = r->head ? &none : &d->rows.v[i];
	const struct boot_cell *s = o->of;
	bool part = *o->part, one = d->n < 2;
	char n[64] = "";

	if (r->form == ROW_TEXT && !r->head && part &&
	    s[0].time * 100 <= s[0].whole && s[1].time * 100 <= s[1].whole)
		return;
	if (s[0].n || s[1].n)
		snprintf(n, sizeof(n), " (%llu exits)", (unsigned long long)MAX(s[0].n, s[1].n));
	row_u64(r, "vm", true, o->vm);
	cell_text(r, IN_TEXT | COL_LEFT, "Phase", "%s%s", part ? "  " : boot_names[o->mark], o->part);
	row_str(r, "phase", boot_names[o->mark]);
	row_str(r, "part", part ? o->part : NULL);
	boot_ms(r, 0, "at", "At ms", s[0].has && !part, s[0].at);
	boot_ms(r, 0, "time", "Time ms", s[0].has, s[0].time);
	boot_ms(r, one ? COL_HIDE : 0, "at_after", "At ms", s[1].has && !part, s[1].at);
	boot_ms(r, one ? COL_HIDE : 0, "time_after", "Time ms", s[1].has, s[1].time);
	row_u64(r, "exits", s[0].n, s[0].n);
	row_u64(r, "exits_after", s[1].n, s[1].n);
	row_str(r, "name", o->name);
	cell_text(r, IN_TEXT | COL_LEFT, "What", "%s%s", o->name, n);
}

static void boot_head(struct json *j, const void *ctx)
{
	const struct boot_doc *d = ctx;

	for (int k = 0; k < d->n; k++) {
		json_put_str(j, k ? "capture_after" : "capture", d->path[k]);
		json_put_str(j, k ? "vms_after" : "vms", d->rows.about[k].s);
		json_put_u64(j, k ? "wall_after_ns" : "wall_ns", d->rows.wall[k]);
		json_put_u64(j, k ? "known_after_ns" : "known_ns", d->rows.told[k]);
	}
	json_put_bool(j, "sure", !d->rows.needs);
	evidence_json("needs", d->rows.needs, j);
}

static const char *until_text(const struct boot_cmd_opts *o)
{
	return o->until && str_starts(o->until, "text=") ? o->until + strlen("text=") : NULL;
}

static int boot_one(struct boot_doc *d, int side, bool *whole, struct kvmft_err *err)
{
	const char *text = until_text(d->o);
	struct boot_ask bo = { .until = text ? NULL : d->o->until, .text = text,
				.top = 3 };
	struct view v = { .o = &d->o->v, .err = err, .note = cli_note, .names = true,
			  .need.need = PAIRING_VCPUS };
	struct blaming m = { .v = &v, .o = { .vm = -1, .vcpu = -1, .to = UINT64_MAX,
			     .top = 100, .what = 1u << BLAME_MOMENT } };
	struct boot *b = NULL;
	int ret = view_open(&v, &d->path[side], 1);

	if (!ret && !v.p->host.cap->tsc_khz)
		ret = err_lack(err, ENODATA, "%s: the TSC frequency is not known: " RATE_HINT,
			       d->path[side]);
	bo.vm = v.vm;
	ret = ret ?: boot_new(v.p->t, &bo, &b, err);
	ret = ret ?: blaming_begin(&m);
	ret = ret ?: view_walk(&v, TL_FEED(boot_find, b), TL_FEED(blame_find, m.b));
	if (!ret)
		blame_found(m.b);
	ret = ret ?: boot_found(b, m.b, err);
	ret = ret ?: view_tell(&v, true, whole);
	ret = ret ?: blaming_explain(&m);
	if (!ret)
		boot_lines(b, m.b, side, &d->rows);
	boot_free(b);
	blaming_free(&m);
	view_close(&v);
	return ret;
}

static int boot_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct boot_cmd_opts *o = opts;
	struct boot_doc d = { .o = o, .n = argc, .path = argv };
	struct table t = { .cells = boot_cells, .ctx = &d, .width = o->file.page.width };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const char *format = cli_formats[MAX(o->format, 0)];
	bool whole = true, one = true, text = !strcmp(format, "text");
	int ret = 0;

	if (until_text(o) && (!*until_text(o) || strlen(until_text(o)) > BOOT_TEXT))
		return err_usage(err, "--until text=: 1 to %u letters", BOOT_TEXT);
	for (int k = 0; k < argc && !ret; k++, whole &= one)
		ret = boot_one(&d, k, &one, err);
	t.n = d.rows.n;
	if (!ret && !text)
		table_doc(&t, !strcmp(format, "csv"), "rows", boot_head, &b);
	for (int k = 0; k < argc && !ret && text; k++) {
		uint64_t us = d.rows.wall[k] / 1000, told = d.rows.told[k] / MAX(us, 1ull);

		sbuf_addf(&b, "%s: %s, %llu.%03llu ms, of which %llu.%llu %% are known\n", argv[k],
			  d.rows.about[k].s, (unsigned long long)us / 1000,
			  (unsigned long long)us % 1000, (unsigned long long)told / 10,
			  (unsigned long long)told % 10);
	}
	if (!ret && text)
		table_text(&t, &b);
	ret = ret ?: sink_print(&b, o->file.page.f, err) ?: cli_flush(err);
	for (int k = 0; k < 2; k++)
		sbuf_free(&d.rows.about[k]);
	free(d.rows.v);
	return ret ?: whole ? KVMFT_OK : KVMFT_INCOMPLETE;
}

const struct cmd cmd_boot = {
	.name = "boot",
	.summary = "where the time of a VM's boot went, by its host",
	.args = "HOST [HOST]",
	.description =
		"Divides a VM's boot, from the exec of its VMM to a marker, into phases: the event that\n"
		"begins each, and the time that the guest, KVM, the VMM, the disk and others took of it. A\n"
		"VM that was restored from a file begins at its first entry. Two recordings are printed\n"
		"side by side. Record from before the VMM starts:\n\n"
		"kvmft record -e default -e mem -e boot -- qemu-system-x86_64 ...",
	.examples = "  kvmft boot kvmft.data\n"
		    "  kvmft boot --until 'kvm_pio/port == 0xf4/' host\n"
		    "  kvmft boot --until text=login: before after",
	.opts = boot_options,
	.groups = "until vm format",
	.syms = offsetof(struct boot_cmd_opts, v.syms),
	PRINTS(struct boot_cmd_opts),
	.defaults = view_defaults,
	.run = boot_run,
	.min_args = 1,
	.max_args = 2,
};
