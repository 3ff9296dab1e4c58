/* SPDX-License-Identifier: GPL-2.0-or-later */
/* help.c: usage, synopsis and the machine-readable option list, all from the option tables. */
#include "kvmft/cli.h"
#include "kvmft/pager.h"

#include <fcntl.h>
#include <poll.h>

#define HELP_WIDTH  80 /* columns */
#define HELP_INDENT 29

const char *const cli_formats[] = { "text", "json", "csv", NULL };

static void cli_print_opt_name(const struct opt *o, struct sbuf *b)
{
	if (o->short_name)
		sbuf_addf(b, "-%c, ", o->short_name);
	else
		sbuf_add(b, "    ");
	sbuf_addf(b, "--%s", o->name);
	if (o->arg)
		sbuf_addf(b, " %s", o->arg);
}

/* Up to a blank outside of `...`: a command that is quoted can be copied as it is. */
static size_t quoted_len(const char *text)
{
	size_t n = strcspn(text, " `");

	if (text[n] != '`')
		return n;
	n += 1 + strcspn(text + n + 1, "`");
	return text[n] ? n + 1 + quoted_len(text + n + 1) : n;
}

static void fill(const char *text, size_t indent, size_t width, bool quoted, FILE *f)
{
	size_t col = indent;

	for (size_t n; *text; text += n + !!text[n]) {
		n = quoted ? quoted_len(text) : strcspn(text, " \n");
		if (col > indent && (n ? col + n >= width : !quoted)) {
			fprintf(f, "\n%*s", (int)indent, "");
			col = indent;
		}
		if (n)
			col += (size_t)fprintf(f, "%s%.*s", col > indent ? " " : "", (int)n, text);
	}
	fputc('\n', f);
}

void cli_print_filled(const char *text, size_t indent, FILE *f)
{
	fill(text, indent, HELP_WIDTH, false, f);
}

static void cli_print_opt(const struct opt *o, FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	cli_print_opt_name(o, &b);
	if (b.len > 26)
		fprintf(f, "  %s\n%*s", b.s, HELP_INDENT, "");
	else
		fprintf(f, "  %-26s ", b.s ?: "");
	cli_print_filled(o->help, HELP_INDENT, f);
	if (opt_word(o, 0) && o->type != OPT_STR) { /* its words are not all that it may be */
		b.len = 0;
		sbuf_add(&b, o->type == OPT_WORDS ? "of these:" : "one of:");
		for (size_t i = 0; opt_word(o, i); i++)
			sbuf_addf(&b, " %s", opt_word(o, i));
		fprintf(f, "%*s", HELP_INDENT, "");
		cli_print_filled(b.s ?: "", HELP_INDENT, f);
	}
}

static void print_synopsis(const struct cmd *c, FILE *f)
{
	size_t col = 0;
	int lead = fprintf(f, "usage: kvmft %s", c->name);

	col = (size_t)lead;
	for (const struct opt *o = c->opts; o->name; o++) {
		struct sbuf b = { 0 };

		if (o->flags & OPT_HIDDEN)
			continue;
		if (o->short_name)
			sbuf_addf(&b, " [-%c", o->short_name);
		else
			sbuf_addf(&b, " [--%s", o->name);
		if (o->arg)
			sbuf_addf(&b, " %s", o->arg);
		sbuf_addf(&b, "]%s", o->type == OPT_LIST || o->type == OPT_EVENTS ? "..." : "");
		if (col + b.len > HELP_WIDTH) {
			fprintf(f, "\n%*s", lead, "");
			col = (size_t)lead;
		}
		fputs(b.s ?: "", f);
		col += b.len;
		sbuf_free(&b);
	}
	if (c->args)
		fprintf(f, "%s%s", col + strlen(c->args) >= HELP_WIDTH ? "\n             " : " ", c->args);
	fputc('\n', f);
}

void cli_print_help(const struct cmd *c, FILE *f)
{
	fprintf(f, "kvmft %s: %s\n\n", c->name, c->summary);
	print_synopsis(c, f);
	if (c->description) {
		fputc('\n', f);
		cli_print_filled(c->description, 0, f);
	}
	if (c->verbs) {
		fputs("\ncommands:\n", f);
		for (const struct cmd *const *v = c->verbs; *v; v++)
			fprintf(f, "  %-19s %s\n", (*v)->name, (*v)->summary);
	}
	fputs("\noptions:\n", f);
	for (const struct opt *o = c->opts; o->name; o++)
		if (!(o->flags & OPT_HIDDEN))
			cli_print_opt(o, f);
	fprintf(f, "  %-26s %s\n", "-h, --help", "print this text");
	fprintf(f, "  %-26s %s\n", "    --version", "print name and version");
	if (c->examples)
		fprintf(f, "\nexamples:\n%s\n", c->examples);
}

static void list_opt(const struct cmd *c, const struct opt *o, FILE *f)
{
	char s[2] = { o->short_name, 0 };

	fprintf(f, "%s\t%s\t%s\t%s\t%.*s\t", c->name, o->name ?: "", s,
		o->arg ?: "", (int)strcspn(o->help, "\n"), o->help);
	for (size_t i = 0; opt_word(o, i); i++)
		fprintf(f, "%s%s", i ? " " : "", opt_word(o, i));
	fputc('\n', f);
}

void cli_print_list(const struct cmd *c, FILE *f)
{
	for (const struct cmd *const *v = c->verbs; v && *v; v++)
		fprintf(f, "%s\t%s\n", (*v)->name, (*v)->summary);
	if (c->first)
		list_opt(c, c->first, f);
	for (const struct opt *o = c->opts; o->name; o++)
		if (!(o->flags & OPT_HIDDEN))
			list_opt(c, o, f);
	fprintf(f, "%s\thelp\th\t\tprint this text\t\n", c->name);
	fprintf(f, "%s\tversion\t\t\tprint name and version\t\n", c->name);
}

/* In a NULL-terminated array; word is compared with what follows the first skip bytes of names. */
static const struct cmd *find_in(const struct cmd *const *c, size_t skip, const char *word)
{
	for (; c && *c; c++)
		if (!strcmp((*c)->name + skip, word))
			return *c;
	return NULL;
}

static const char *nearest_in(const struct cmd *const *c, size_t skip, const char *word)
{
	const char *best = NULL;
	unsigned int best_d = 3;

	for (; c && *c; c++) {
		unsigned int d = str_distance((*c)->name + skip, word);

		if (d < best_d) {
			best = (*c)->name + skip;
			best_d = d;
		}
	}
	return best;
}

const struct cmd *cli_find(const char *name)
{
	const struct cmd *found = find_in(kvmft_cmds, 0, name);

	for (const struct cmd *const *c = kvmft_cmds; *c && !found; c++)
		found = find_in((*c)->verbs, 0, name);
	return found;
}

const struct cmd *cli_find_verb(const struct cmd *group, const char *word, struct kvmft_err *err)
{
	size_t skip = strlen(group->name) + 1;
	const struct cmd *c = find_in(group->verbs, skip, word);
	const char *near = c ? NULL : nearest_in(group->verbs, skip, word);

	if (!c && near)
		err_usage(err, "unknown command '%s' (did you mean %s?)", word, near);
	else if (!c)
		err_usage(err, "unknown command '%s' (see kvmft help %s)", word, group->name);
	return c;
}

const char *cli_nearest_cmd(const char *name)
{
	return nearest_in(kvmft_cmds, 0, name);
}

/*
 * Waits for a reader of messages that has stopped; but recorders block the signals that end them,
 * and then nothing else would. After such a signal there are no messages any more.
 */
static void wait_for_reader(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	sigset_t blocked, pending;
	bool told = false;

	if (sigprocmask(SIG_BLOCK, NULL, &blocked) || !sigismember(&blocked, SIGTERM))
		return;
	while (!told && !poll(&p, 1, 200) && !sigpending(&pending))
		for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
			told |= sigismember(&pending, ends[i]) == 1;
	if (told) {
		_cleanup_close_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		if (null >= 0)
			(void)dup2(null, STDERR_FILENO);
	}
}

void cli_say(const char *cmd, const char *text)
{
	unsigned int width = page_width_of_messages();
	const char *blank = cmd ? " " : "";

	cmd = cmd ?: "";
	wait_for_reader();
	if (width >= 2 * HELP_INDENT && !strchr(text, '\n')) /* lines of the kernel stay */
		fill(text, (size_t)fprintf(stderr, "kvmft%s%s: ", blank, cmd), width, true, stderr);
	else
		fprintf(stderr, "kvmft%s%s: %s\n", blank, cmd, text);
}

void cli_vnote(const char *fmt, va_list ap)
{
	_cleanup_free_ char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0) {
		cli_say(NULL, "out of memory");
		return;
	}
	str_printable(text); /* it may quote names from files, or from a tree of them */
	cli_say(NULL, text);
}

void cli_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	cli_vnote(fmt, ap);
	va_end(ap);
}

int cli_flush(struct kvmft_err *err)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	/* A reader that closed the pipe early (head) wants no more; that is not our failure. */
	if (errno == EPIPE)
		return -EPIPE;
	return err_set(err, errno ?: EIO, "cannot write to standard output: %s",
		       strerror(errno ?: EIO));
}
