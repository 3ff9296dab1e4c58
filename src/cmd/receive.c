/* SPDX-License-Identifier: GPL-2.0-or-later */
/* receive.c: `kvmft receive`, the other end of `kvmft record -o -`. */
#include "cmds.h"

static const struct opt receive_options[] = {
	OPTION('o', "output", OPT_STR, struct receive_config, output, "CAPTURE",
	       "capture directory to make"),
	OPTION(0, "max-size", OPT_SIZE, struct receive_config, max_size, "SIZE",
	       "stop when the capture holds this much event data"),
	OPTION(0, "min-free", OPT_SIZE, struct receive_config, min_free, "SIZE",
	       "stop before the file system has less free than this (default: 5 % of it)"),
	OPTION(0, "keep", OPT_U64, struct receive_config, keep, "N",
	       "keep the last N segments only (record --rotate)"),
	OPTION(0, "force", OPT_FLAG, struct receive_config, force, NULL,
	       "replace an existing capture"),
	OPT_END,
};

static void receive_show(const struct stream_news *n)
{
	char bytes[32];

	fprintf(stderr, "\033[K%s received%s\r", str_bytes(bytes, sizeof(bytes), n->bytes),
		n->quiet ? ", silent" : "");
}

static int receive_cmd(void *opts, int argc __unused_arg, char **argv __unused_arg,
		       struct kvmft_err *err)
{
	struct receive_config *c = opts;
	bool shown = !c->quiet && isatty(STDERR_FILENO);

	if (!c->output)
		return err_usage(err, "where to? Give -o CAPTURE");
	if (c->keep.set && !c->keep.v)
		return err_usage(err, "option --keep: must be at least 1");
	if (isatty(STDIN_FILENO))
		return err_usage(err, "standard input is a terminal: the stream comes from kvmft record "
				      "-o - ... | kvmft receive -o %s", c->output);
	c->in = STDIN_FILENO;
	c->show = shown ? receive_show : NULL;
	return receive_run(c, shown ? cli_note_over : cli_note, err);
}

const struct cmd cmd_receive = {
	.name = "receive",
	.summary = "store the stream of record -o - as a capture",
	.description =
		"Reads what `kvmft record -o -` writes, on this machine or another one, and stores it\n"
		"as it comes. Wherever it is cut, what came is a capture.",
	.examples =
		"  ssh root@box kvmft record -o - -d 10s | kvmft receive -o box",
	.opts = receive_options,
	.opts_size = sizeof(struct receive_config),
	.quiet = offsetof(struct receive_config, quiet),
	.run = receive_cmd,
};
