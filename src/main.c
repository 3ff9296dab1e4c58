/* SPDX-License-Identifier: GPL-2.0-or-later */
/* main.c: global options, dispatch to a command descriptor, one line per failure, exit codes. */
#include <sys/resource.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "kvmft/sandbox.h"
#include "cmd/cmds.h"

#ifndef KVMFT_VERSION
#define KVMFT_VERSION "unknown"
#endif

static void print_usage(FILE *f)
{
	fputs("usage: kvmft [-v] COMMAND [ARGUMENTS] | help [CMD] [--all|--json] | --version\n", f);
	for (const struct cmd *const *c = kvmft_cmds; *c; c++)
		fprintf(f, "  %-14s %s\n", (*c)->name, (*c)->summary);
	if (kvmft_cmds_elsewhere[0])
		fputs("not in this small build:\n ", f);
	for (const char *const *name = kvmft_cmds_elsewhere; *name; name++)
		fprintf(f, " %s%s", *name, name[1] ? "" : "\n");
	for (int i = 0; i < KVMFT_EXITS; i++)
		fprintf(f, "%s %d %s%s", i ? "," : "exit:", i, cli_exits[i], i + 1 < KVMFT_EXITS ? "" : "\n");
}

/* "qemu" or "qemu events" out of one or two arguments, for cli_find(); NULL if there is none. */
static const char *joined_name(char **argv, char *buf, size_t size)
{
	if (!argv[0] || !argv[1])
		return argv[0];
	snprintf(buf, size, "%s %s", argv[0], argv[1]);
	return cli_find(buf) ? buf : argv[0];
}

/* The machine-readable list behind completion files and the manual page test. */
static int print_list(char **argv)
{
	char joined[64];
	const char *name = joined_name(argv, joined, sizeof(joined));
	const struct cmd *only = name ? cli_find(name) : NULL;

	if (name && !only)
		return KVMFT_USAGE;
	if (only) {
		cli_print_list(only, stdout);
		return KVMFT_OK;
	}
	for (const struct cmd *const *c = kvmft_cmds; *c; c++)
		printf("%s\t%s\n", (*c)->name, (*c)->summary);
	return KVMFT_OK;
}

static int unknown_command(const char *name)
{
	const char *near = cli_nearest_cmd(name), *instead = cli_gone("", name, strlen(name), 0);
	struct kvmft_err err = { .text = "" };

	for (const char *const *other = kvmft_cmds_elsewhere; *other; other++)
		if (!strcmp(*other, name)) {
			cli_note("this build has no '%s': use it where the whole kvmft is, captures can be "
				 "copied there", name);
			return KVMFT_LACKING;
		}
	/* Through err, which keeps control characters of the word from the terminal. */
	if (instead)
		err_usage(&err, "unknown command '%s': %s", name, instead);
	else if (near)
		err_usage(&err, "unknown command '%s' (did you mean %s?)", name, near);
	else
		err_usage(&err, name[0] == '-' ? "unknown option '%s': those of a command stand after it"
					       : "unknown command '%s' (see kvmft help)", name);
	cli_say(NULL, err.text);
	return KVMFT_USAGE;
}

/* What was printed on stdout must have arrived. */
static int flushed(int ret)
{
	struct kvmft_err err = { .text = "" };
	int got = ret == KVMFT_OK ? cli_flush(&err) : 0;

	if (!got || got == -EPIPE)
		return ret;
	cli_say(NULL, err.text);
	return KVMFT_FAILED;
}

static void print_version(void)
{
	printf("kvmft %s\n", KVMFT_VERSION);
}

static bool is_help(const char *word)
{
	return !strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h");
}

static void show_help(const struct cmd *c, bool all)
{
	struct page page;

	page_open(&page, &(struct page_opts){ .wide = true }, false);
	cli_print_help(c, all, stdout);
	page_close(&page);
}

static int print_help(char **argv)
{
	char joined[64];
	struct kvmft_err err = { .text = "" };
	const char *name;
	const struct cmd *c;
	char **to = argv;
	bool all = false, json = false;

	for (char **from = argv; *from; from++) {
		if (!strcmp(*from, "--all"))
			all = true;
		else if (!strcmp(*from, "--json"))
			json = true;
		else
			*to++ = *from;
	}
	*to = NULL;
	name = joined_name(argv, joined, sizeof(joined));
	if ((!name || is_help(name)) && !json) {
		print_usage(stdout);
		return KVMFT_OK;
	}
	c = name ? cli_find(name) : NULL;
	if (name && !c)
		return unknown_command(name);
	if (json)
		return cli_describe(c, KVMFT_VERSION, stdout) ? KVMFT_FAILED : KVMFT_OK;
	if (c->verbs && argv[1] && !cli_find_verb(c, argv[1], &err)) {
		cli_say(c->name, err.text);
		return KVMFT_USAGE;
	}
	show_help(c, all);
	return KVMFT_OK;
}

/* What --help or --version asks of a command; first: see cli_parse(). */
static void print_about(const struct cmd *c, int first)
{
	if (first == CLI_VERSION)
		print_version();
	else
		show_help(c, false);
}

/* The command of a group that operands name; or its help (0), or wrong usage (2). */
static int find_verb(const struct cmd **c, int *argc, char ***argv)
{
	const struct cmd *group = *c;
	struct kvmft_err err = { .text = "" };
	char none;
	int first = cli_parse(group, &none, *argc, *argv, &err);

	if (first == 0 || first == CLI_VERSION) {
		print_about(group, first);
		return flushed(KVMFT_OK);
	}
	*c = first > 0 ? cli_find_verb(group, (*argv)[first], &err) : NULL;
	if (!*c) {
		cli_say(group->name, err.text);
		return KVMFT_USAGE;
	}
	*argc -= first;
	*argv += first;
	return KVMFT_OK;
}

static void tell_layers(unsigned int layers)
{
	static const char *const names[] = { "capabilities", "Landlock", "seccomp" };
	struct sbuf have = { 0 }, lack = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		sbuf_addf(layers >> i & 1 ? &have : &lack, " %s", names[i]);
	cli_note("confined by:%s%s%s%s", have.s ?: " nothing", lack.s ? "; this kernel lacks:" : "",
		 lack.s ?: "", lack.s ? " (kvmft check)" : "");
	sbuf_free(&have);
	sbuf_free(&lack);
}

/* The operands, with those of sessions; argv ends with NULL. */
static int run_with(const struct cmd *c, void *opts, int argc, char **argv, bool verbose,
		    struct kvmft_err *err)
{
	struct operands o = { .argc = argc, .argv = argv };
	struct rlimit max;
	unsigned int layers;
	int ret;

	if (c->live && !argc)
		return c->live(opts, err);
	ret = c->sessions ? c->sessions(opts, &o, err) : 0;
	/* A capture has a file for each CPU; the soft limit is for select(), not used here. */
	if (!ret && c->reader && !getrlimit(RLIMIT_NOFILE, &max)) {
		max.rlim_cur = max.rlim_max;
		(void)!setrlimit(RLIMIT_NOFILE, &max);
	}
	if (c->reader)
		ret = ret ?: c->output ? c->output(opts, o.argc, err) : 0;
	if (!ret && c->reader) {
		ret = sandbox_enter_reader(&layers, err);
		if (!ret && verbose)
			tell_layers(layers);
	}
	ret = ret ?: c->run(opts, o.argc, o.argv, err);
	return operands_end(&o, ret);
}

static void end_reader(void *as)
{
	cli_say(as, "out of memory");
	exit(KVMFT_FAILED);
}

/* as: who says what went wrong. */
static int run_command(const struct cmd *c, const char *as, int argc, char **argv, bool verbose)
{
	_cleanup_free_ void *opts = calloc(1, c->opts_size ?: 1);
	struct kvmft_err err = { .text = "" };
	char **fd = argv;
	bool about;
	int ret, first;

	if (c->reader) {
		/*
		 * What the caller had open, a lock as a rule, is not for a process that reads files
		 * of anyone; unless an operand is one of those: /dev/fd/63 of <(...).
		 */
		while (*fd && !strstr(*fd, "/fd/"))
			fd++;
		if (!*fd)
			fds_keep(NULL, 0);
		memory_out_is(end_reader, (void *)as);
	}
	if (!opts) {
		cli_say(as, "out of memory");
		return KVMFT_FAILED;
	}
	first = cli_parse(c, opts, argc, argv, &err);
	about = first == 0 || first == CLI_VERSION;
	ret = first == -ENOMEM ? KVMFT_FAILED : first < 0 ? KVMFT_USAGE : KVMFT_OK;
	if (about)
		print_about(c, first);
	if (first > 0 && !about)
		ret = run_with(c, opts, argc - first, argv + first, verbose, &err);
	if (ret < 0 && ret != -EPIPE && !err.text[0]) /* a bare -errno of a run() */
		err_set(&err, -ret, "%s", ret == -ENOMEM ? "out of memory" : strerror(-ret));
	if (ret < 0)
		ret = err.code ?: KVMFT_FAILED;
	if (ret == KVMFT_OK || ret == KVMFT_INCOMPLETE) {
		int flushed = cli_flush(&err);

		if (flushed && flushed != -EPIPE)
			ret = KVMFT_FAILED;
	}
	if (ret != KVMFT_OK && err.text[0])
		cli_say(as, err.text);
	cli_free(c, opts);
	return ret;
}

/* Takes the closed ones of 0 to 2, or messages would be written into files opened later. */
static bool std_fds_taken(void)
{
	int fd;

	do {
		fd = open("/", O_PATH);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	return fd >= 0 && !close(fd);
}

int main(int argc, char **argv)
{
	/* A command started by another one speaks in its name: "kvmft trace". */
	const char *as =
		argv[0] && str_starts(argv[0], "kvmft ") ? argv[0] + strlen("kvmft ") : NULL;
	const struct cmd *c;
	bool verbose = false;

	/* A closed pipe, or a file's limit, is an error to handle, not death before clean-up. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* Whoever started us may ignore it: then no end of a child would be noticed. */
	signal(SIGCHLD, SIG_DFL);
	if (!std_fds_taken())
		return KVMFT_FAILED;
#ifdef __GLIBC__
	/* Its default, fixed: else arrays of some MB are in the heap, and leave holes. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
	if (argc > 1 && (!strcmp(argv[1], "--verbose") || !strcmp(argv[1], "-v"))) {
		verbose = true;
		argc--;
		argv++;
	}
	if (argc < 2) {
		print_usage(stderr);
		return KVMFT_USAGE;
	}
	if (!strcmp(argv[1], "--version")) {
		print_version();
		return flushed(KVMFT_OK);
	}
	if (!strcmp(argv[1], "--list-options"))
		return flushed(print_list(argv + 2));
	if (is_help(argv[1]))
		return flushed(print_help(argv + 2));
	c = cli_find(argv[1]);
	if (!c)
		return unknown_command(argv[1]);
	argc--;
	argv++;
	if (c->verbs) {
		const struct cmd *verb = c;
		int ret = find_verb(&verb, &argc, &argv);

		if (verb == c || !verb)
			return ret;
		c = verb;
	}
	if (argc == 2 && is_help(argv[1]) && access(argv[1], F_OK)) { /* as perf has it */
		show_help(c, false);
		return flushed(KVMFT_OK);
	}
	return run_command(c, as ?: c->name, argc, argv, verbose);
}
