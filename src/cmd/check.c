/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * check.c: `kvmft check`, what this machine offers and lacks, item by item, with the remedy.
 *
 * Nothing is changed: if tracefs or debugfs is not mounted, which `kvmft record` would fix by
 * itself, they are mounted in a mount namespace that ends with this process.
 */
#include "cmds.h"

#include <sched.h>
#include <sys/mount.h>

#include "kvmft/kernel.h"
#include "kvmft/table.h"
#include "kvmft/vm.h"

struct check_opts {
	int format;
	bool host, guest, prove;
	const char *output;
	struct page_opts page;
};

static const struct opt check_options[] = {
	OPTION(0, "host", OPT_FLAG, struct check_opts, host, NULL,
	       "what a KVM host needs (default: what this machine is)"),
	OPTION(0, "guest", OPT_FLAG, struct check_opts, guest, NULL, "what a guest needs"),
	OPTION(0, "prove", OPT_FLAG, struct check_opts, prove, NULL,
	       "record and align a tiny guest made for it, and say whether all is right; as root,\n"
	       "within 10 s"),
	OPTION('o', "output", OPT_STR, struct check_opts, output, "DIR",
	       "with --prove: keep its captures in this new directory"),
	FORMAT_OPTION(struct check_opts, cli_formats),
	OPT_END,
};

struct check {
	unsigned int side; /* KFEAT_HOST or KFEAT_GUEST */
	bool told;	   /* by an option */
	struct kfeat_result *item;
	size_t n;
};

enum verdict { VERDICT_OK, VERDICT_LACKING, VERDICT_OPTIONAL, VERDICT_UNKNOWN };

static enum verdict verdict_of(const struct check *c, const struct kfeat_result *r)
{
	if (r->state == KFEAT_HAVE)
		return VERDICT_OK;
	if (r->state == KFEAT_UNKNOWN)
		return VERDICT_UNKNOWN;
	return r->need & c->side ? VERDICT_LACKING : VERDICT_OPTIONAL;
}

static size_t count_states(const struct check *c, enum verdict v)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += verdict_of(c, &c->item[i]) == v;
	return n;
}

static const char *side_name(const struct check *c)
{
	return c->side == KFEAT_HOST ? "host" : c->side == KFEAT_GUEST ? "guest" : "both";
}

static const char *side_words(const struct check *c)
{
	return c->side == (KFEAT_HOST | KFEAT_GUEST) ? "host and guest" : side_name(c);
}

static const char *const verdict_text[] = {
	[VERDICT_OK] = "ok",
	[VERDICT_LACKING] = "LACKING",
	[VERDICT_OPTIONAL] = "absent",
	[VERDICT_UNKNOWN] = "unknown",
};

/* ---- JSON and CSV ---- */

static const char *const state_names[] = {
	[KFEAT_HAVE] = "ok", [KFEAT_LACK] = "lacking", [KFEAT_UNKNOWN] = "unknown"
};

static void check_cells(struct row *o, const void *ctx, size_t i)
{
	static const struct kfeat_result none = { .state = KFEAT_HAVE };
	const struct check *c = ctx;
	const struct kfeat_result *r = o->head ? &none : &c->item[i];

	if (o->form == ROW_CSV)
		row_str(o, "side", side_name(c));
	row_str(o, "name", r->name);
	row_str(o, "state", state_names[r->state]);
	if (o->form == ROW_JSON)
		row_bool(o, "required", true, r->need & c->side);
	else
		row_str(o, "required", r->need & c->side ? "yes" : "no");
	row_str(o, "found", r->detail);
	row_str(o, "purpose", r->purpose);
	row_str(o, "remedy", r->remedy[0] ? r->remedy : NULL);
}

static void check_json_head(struct json *j, const void *ctx)
{
	const struct check *c = ctx;

	json_put_str(j, "side", side_name(c));
	json_put_str(j, "side_from", c->told ? "option" : "machine");
	json_put_bool(j, "ok", !count_states(c, VERDICT_LACKING));
}

/* ---- the command ---- */

static int check_run(void *opts, int argc __unused_arg, char **argv __unused_arg,
		     struct kvmft_err *err)
{
	const struct check_opts *o = opts;
	struct kvmft_err why = { .text = "" };
	struct kfeat_env env = { .no_tracefs = why.text };
	struct check c = { .told = o->host || o->guest };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	bool may_mount;
	int ret;
	struct ktsc_facts tsc;

	if (o->host && o->guest)
		return err_usage(err, "--host and --guest exclude each other");
	if (o->prove && (c.told || o->format == FORMAT_CSV))
		return err_usage(err, "option --prove goes with --format text or json and -o only");
	if (o->output && !o->prove)
		return err_usage(err, "option -o goes with --prove");
	if (o->prove && !check_prove)
		return err_lack(err, ENOTSUP, "this small build has no --prove: use the whole kvmft");
	if (o->prove)
		return check_prove(o->format == FORMAT_JSON, o->output, err);
	/* Mounts made from here on are hidden from others; not permitted: nothing is mounted. */
	may_mount = !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	if (ktracefs_open(NULL, may_mount ? KTRACEFS_MOUNT : 0, &env.t, &why))
		env.t = NULL;
	if (may_mount)
		vm_debugfs_mount();
	c.side = (o->host ? KFEAT_HOST : 0) | (o->guest ? KFEAT_GUEST : 0);
	if (!c.side) { /* as `kvmft record` decides */
		ktsc_facts_read(NULL, &tsc);
		c.side = kmachine_sides(NULL, &tsc, NULL);
	}
	c.item = xcalloc(kfeat_count(), sizeof(*c.item));
	for (size_t i = 0; i < kfeat_count() && !b.error; i++) {
		b.error = kfeat_probe(&env, i, &c.item[c.n]);
		c.n += (c.item[c.n].use & c.side) != 0;
	}
	if (o->format > FORMAT_TEXT) {
		table_doc(&(struct table){ .cells = check_cells, .ctx = &c, .n = c.n },
			  o->format == FORMAT_CSV, "items", check_json_head, &b);
	} else {
		size_t lacking = count_states(&c, VERDICT_LACKING);
		size_t from = b.len;
		bool unsure = false;

		sbuf_addf(&b, "as a %s%s:\n", side_words(&c),
			  c.told ? "" : " (from what this machine is; see --host, --guest)");
		for (size_t i = 0; i < c.n; i++) {
			const struct kfeat_result *r = &c.item[i];
			enum verdict v = verdict_of(&c, r);

			unsure |= v == VERDICT_UNKNOWN && r->need & c.side;
			sbuf_addf(&b, "%-17s  %-7s  %s\n", r->name, verdict_text[v], r->detail);
			if (v == VERDICT_LACKING || v == VERDICT_OPTIONAL)
				sbuf_addf(&b, "%-17s  %-7s  %s %s\n", "", "",
					  v == VERDICT_LACKING ? "needed for:" : "used for:", r->purpose);
			if (r->remedy[0])
				sbuf_addf(&b, "%-17s  %-7s  remedy: %s\n", "", "", r->remedy);
		}
		text_wrap(&b, from, "                              ", page_width(&o->page));
		sbuf_addf(&b, "%s: %zu ok, %zu lacking, %zu absent but not needed, %zu unknown\n",
			  lacking ? "cannot record" :
			  unsure  ? "can record what is ok" :
				    "can record",
			  count_states(&c, VERDICT_OK), lacking, count_states(&c, VERDICT_OPTIONAL),
			  count_states(&c, VERDICT_UNKNOWN));
	}
	ret = sink_show(&b, err);
	/* The line on stderr names what is needed; the list has said the rest. */
	if (!ret) {
		_cleanup_(sbuf_free) struct sbuf names = { 0 };

		for (size_t i = 0; i < c.n; i++)
			if (verdict_of(&c, &c.item[i]) == VERDICT_LACKING)
				sbuf_addf(&names, "%s%s", names.len ? ", " : "", c.item[i].name);
		if (names.len)
			err_lack(err, ENOENT, "this machine cannot record as a %s: %s",
				 side_words(&c), names.s);
		ret = err->text[0] ? KVMFT_LACKING : KVMFT_OK;
	}
	free(c.item);
	ktracefs_close(env.t);
	return ret;
}

const struct cmd cmd_check = {
	.name = "check",
	.summary = "what this machine offers and lacks for kvmft, with the remedy",
	.description =
		"Looks at each thing that recording needs or can use, and changes nothing. Exit code 0: this\n"
		"machine can record; 4: something needed is lacking. With --prove: 0: what was recorded\n"
		"is what the guest saw; 1: it is not; 3: events were lost; 4: it cannot be tried here.",
	.examples = "  kvmft check\n"
		    "  kvmft check --prove\n"
		    "  kvmft check --guest --format json",
	.opts = check_options,
	.opts_size = sizeof(struct check_opts),
	PAGE_AT(struct check_opts, page),
	.run = check_run,
};
