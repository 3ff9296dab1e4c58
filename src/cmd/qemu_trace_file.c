/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_trace_file.c: `kvmft qemu trace-file`, the file of QEMU's trace back end "simple". Its
 * command is one of HMP; QMP passes it on.
 */
#include "qemu.h"
#include "options.h"

struct trace_file_opts {
	struct qemu_target target;
};

static const struct opt trace_file_options[] = {
	QEMU_TARGET_OPTIONS(struct trace_file_opts, target),
	OPT_END,
};

/* Quoted as HMP reads it. */
static int add_path(struct sbuf *line, const char *path, struct kvmft_err *err)
{
	if (!*path)
		return err_usage(err, "the path is empty");
	for (const char *p = path; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return err_usage(
				err, "the path has control characters, which HMP does not take");
	sbuf_add(line, " \"");
	for (; *path; path++) {
		if (*path == '"' || *path == '\\')
			sbuf_addc(line, '\\');
		sbuf_addc(line, *path);
	}
	sbuf_addc(line, '"');
	return 0;
}

static int ask(struct monitor *m, const char *line, struct sbuf *out, struct kvmft_err *err)
{
	int ret = monitor_human(m, line, out, err);

	if (ret || !out->s || !str_starts(out->s, "unknown command"))
		return ret;
	return err_lack(
		err, ENOTSUP,
		"this QEMU has no trace back end 'simple', so no trace file: its events go elsewhere "
		"(back end log: its stderr or -D FILE); a QEMU built with "
		"--enable-trace-backends=simple has one");
}

/* "Trace file "NAME" on.", on a line of its own. */
static int status(struct monitor *m, struct sbuf *out, struct kvmft_err *err)
{
	int ret;

	sbuf_reset(out);
	ret = ask(m, "trace-file", out, err);
	while (out->len && strchr("\n ", out->s[out->len - 1]))
		out->s[--out->len] = '\0';
	if (out->s)
		str_printable(out->s);
	return ret;
}

static bool answer_is_off(const struct sbuf *status)
{
	return status->len > 5 && !strcmp(status->s + status->len - 5, " off.");
}

static int trace_file_run(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	const struct trace_file_opts *o = opts;
	_cleanup_(sbuf_free) struct sbuf line = { 0 }, out = { 0 };
	_cleanup_(qemu_close) struct qemu q = { 0 };
	bool was_off;
	int ret;
	const char *what = argc ? argv[0] : "";
	bool set = !strcmp(what, "set");

	if (argc && !set && strcmp(what, "on") && strcmp(what, "off") && strcmp(what, "flush")) {
		ret = err_usage(err, "'%s' is not on, off, flush or set PATH", what);
	} else if (set != (argc == 2)) {
		ret = err_usage(err, set ? "set needs one PATH"
					 : "too many operands: only set takes one");
	} else {
		sbuf_addf(&line, "trace-file%s%s", *what ? " " : "", what);
		ret = set ? add_path(&line, argv[1], err) : 0;
	}

	ret = ret ?: qemu_open(&o->target, &q, err);
	ret = ret ?: status(q.m, &out, err);
	was_off = answer_is_off(&out);
	if (!ret && argc) {
		sbuf_reset(&out);
		ret = line.s ? ask(q.m, line.s, &out, err) : -ENOMEM;
		if (!ret && out.len) { /* success prints nothing */
			str_printable(out.s);
			ret = err_set(err, EREMOTEIO, "QEMU refused it: %s", out.s);
		}
		ret = ret ?: status(q.m, &out, err);
	}
	if (!ret && argc && !strcmp(argv[0], "on") && answer_is_off(&out))
		ret = err_set(err, EIO, "QEMU could not start the file: %s", out.s);
	if (!ret) {
		printf("%s\n", out.s ?: "");
		if (argc && !strcmp(argv[0], "on") && was_off)
			cli_note("QEMU has started the file anew: its former contents are gone");
	}
	return ret;
}

const struct cmd cmd_qemu_trace_file = {
	.name = "qemu trace-file",
	.summary = "the trace file of a QEMU with trace back end simple",
	.args = "[on|off|flush|set PATH]",
	.description =
		"Without an operand, says which file it is and whether it is being written. Use "
		"flush\nbefore copying it: QEMU buffers 64 KiB. on after off empties it first.",
	.examples = "  kvmft qemu trace-file --vm vm1 set /tmp/vm1.trace\n"
		    "  kvmft qemu trace-file --vm vm1 flush",
	.opts = trace_file_options,
	.opts_size = sizeof(struct trace_file_opts),
	.run = trace_file_run,
	.max_args = 2,
};
