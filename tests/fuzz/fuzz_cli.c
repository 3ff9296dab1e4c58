/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz_cli.c: the option parser, with the tables of all commands. Input: a byte that chooses the command,
 * then its arguments, each ended by a line feed.
 */
#include "kvmft/cli.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ARGS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The nth of all commands, those of groups included; NULL past the last. */
static const struct cmd *command(unsigned int nth)
{
	for (const struct cmd *const *c = kvmft_cmds; *c; c++) {
		if (!nth--)
			return *c;
		for (const struct cmd *const *v = (*c)->verbs; v && *v; v++)
			if (!nth--)
				return *v;
	}
	return NULL;
}

static unsigned int commands(void)
{
	unsigned int n = 0;

	while (command(n))
		n++;
	return n;
}

/* Operands are words, too: of commands and of what a group has. */
static void look_up(const struct cmd *c, int argc, char **argv)
{
	struct kvmft_err err = { .text = "" };

	for (int i = 1; i < argc; i++) {
		cli_find(argv[i]);
		cli_nearest_cmd(argv[i]);
		if (c->verbs)
			cli_find_verb(c, argv[i], &err);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[MAX_ARGS + 2] = { (char[]){ "kvmft" } };
	struct kvmft_err err = { .text = "" };
	const struct cmd *c;
	char *text, *next;
	void *opts;
	int argc = 1;

	if (!size)
		return 0;
	c = command(data[0] % commands());
	text = strndup((const char *)data + 1, size - 1); /* as the kernel hands them over: up to a NUL */
	opts = calloc(1, c->opts_size ? c->opts_size : 1);
	for (char *p = text; text && *p && argc <= MAX_ARGS; p = next) {
		next = p + strcspn(p, "\n");
		if (*next)
			*next++ = '\0';
		argv[argc++] = p;
	}
	if (text && opts) {
		look_up(c, argc, argv);
		if (cli_parse(c, opts, argc, argv, &err) < 0 && !err.text[0])
			abort(); /* refused without a word */
		cli_free(c, opts);
	}
	free(opts);
	free(text);
	return 0;
}
