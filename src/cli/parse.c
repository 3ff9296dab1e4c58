/* SPDX-License-Identifier: GPL-2.0-or-later */
/* parse.c: from a command's option table to getopt_long and to typed fields. */
#include "kvmft/cli.h"

#include <ctype.h>
#include <getopt.h>
#include <poll.h>

#include "kvmft/json.h"

/* Usage, synopsis and the machine-readable option list, all from the option tables. */

#define HELP_WIDTH  80 /* columns */
#define HELP_INDENT 29

/* The i-th word that its argument may be; NULL: there are no more, or none are known. */
static const char *opt_word(const struct opt *o, size_t i)
{
	return o->choices ? o->choices[i] : o->word ? o->word(i) : NULL;
}

const char *const cli_exits[KVMFT_EXITS] = {
	"done", "failed", "usage", "with losses", "this machine lacks something",
};

const char *const cli_formats[] = { "text", "json", "csv", NULL };

const struct opt cli_common[] = {
	OPTION('q', "quiet", OPT_FLAG, struct cmd, quiet, NULL,
	       "nothing on standard error unless something is wrong"),
	OPTION_CHOICE(0, "color", struct cmd, color, "WHEN", color_names,
		      "colours (default: auto, on a terminal without NO_COLOR)"),
	OPTION(0, "wide", OPT_FLAG, struct cmd, wide, NULL, "on a terminal: do not cut long lines"),
	OPTION(0, "tsc-khz", OPT_U64, struct cmd, khz, "KHZ",
	       "frequency of the host's TSC, instead of what recordings say"),
	OPTION(0, "guest-kallsyms", OPT_LIST, struct cmd, syms, "[SEL=]FILE",
	       "names of a guest's functions: its /proc/kallsyms, read as root since it booted,\n"
	       "or a capture of it with --symbols; SEL names the VM where there are several"),
	OPTION(0, "guest-vmlinux", OPT_LIST, struct cmd, syms, "[SEL=]FILE",
	       "... or its kernel's ELF file with symbols, ..."),
	OPTION(0, "guest-kaslr", OPT_LIST, struct cmd, syms, "[SEL=]N",
	       "... which KASLR moved up by N bytes"),
	OPTION(0, "guest-modules", OPT_LIST, struct cmd, syms, "[SEL=]FILE",
	       "its /proc/modules: names the module where a function is not known"),
	OPT_END,
};
#define COMMON_ALL  3 /* the first ones; others are of commands that have a place for them */
#define COMMON_SYMS 4 /* from here on one after the other at that place */

static bool opt_is_common(const struct opt *o)
{
	return o >= cli_common && o < cli_common + ARRAY_SIZE(cli_common);
}

/* In the option struct of a command; 0: it has no use for it. */
static size_t common_place(const struct cmd *c, const struct opt *o)
{
	uint32_t at;

	memcpy(&at, (const char *)c + o->offset, sizeof(at));
	return at && o > cli_common + COMMON_SYMS
		       ? at + (size_t)(o - cli_common - COMMON_SYMS) * sizeof(struct str_list) : at;
}

/* Of a parsed option; NULL: it has none. */
static void *opt_field(const struct cmd *c, const struct opt *o, void *opts)
{
	const size_t at = opt_is_common(o) ? common_place(c, o) : o->offset;

	return at || !opt_is_common(o) ? (char *)opts + at : NULL;
}

/* The next option of a command after o (NULL: the first): its own, then common ones; or NULL. */
static const struct opt *opt_next(const struct cmd *c, const struct opt *o)
{
	o = o ? o + 1 : c->opts;
	if (!o->name && !opt_is_common(o) && !c->verbs)
		o = cli_common;
	while (o->name && opt_is_common(o) && o >= cli_common + COMMON_ALL && !common_place(c, o))
		o++;
	return o->name ? o : NULL;
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

static void cli_fill(const char *text, size_t indent, size_t width, bool quoted, FILE *f)
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

/*
 * Prints text, and the end of a line, in lines of 80 columns: the first has `indent` columns
 * already, the others begin with as many blanks. "\n" in text is a blank, "\n\n" begins a line.
 */
static void cli_print_filled(const char *text, size_t indent, FILE *f)
{
	cli_fill(text, indent, HELP_WIDTH, false, f);
}

static void put_arg(struct sbuf *b, const struct opt *o)
{
	if (o->arg)
		sbuf_addf(b, o->flags & OPT_MAYBE ? "[=%s]" : " %s", o->arg);
}

static void cli_print_opt(const struct opt *o, FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (o->short_name)
		sbuf_addf(&b, "-%c, ", o->short_name);
	else
		sbuf_add(&b, "    ");
	sbuf_addf(&b, "--%s", o->name);
	put_arg(&b, o);
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

/* Is the word of n letters one of those up to the end of the line? */
static bool line_has(const char *line, const char *word, size_t n)
{
	size_t len = strcspn(line, " \n");

	return (len == n && !memcmp(line, word, n)) ||
	       (line[len] == ' ' && line_has(line + len + 1, word, n));
}

/* Whether plain help shows it: those of the first line of groups, or all. */
static bool opt_is_usual(const struct cmd *c, const struct opt *o)
{
	return !opt_is_common(o) && (!c->groups || line_has(c->groups, o->name, strlen(o->name)));
}

const char *cli_gone(const char *of, const char *name, size_t n, int letter)
{
	for (const struct opt_gone *g = kvmft_gone; g->name; g++)
		if ((letter ? letter == g->letter : line_has(g->name, name, n)) &&
		    (g->of ? !strcmp(g->of, of) : *of))
			return g->instead;
	return NULL;
}

/* The options that a line names. The next line; NULL: there is none. */
static const char *print_opt_group(const struct cmd *c, const char *at, FILE *f)
{
	size_t n;

	for (; *at && *at != '\n'; at += n + strspn(at + n, " ")) {
		n = strcspn(at, " \n");
		for (const struct opt *o = c->opts; o->name; o++)
			if (strlen(o->name) == n && !memcmp(at, o->name, n))
				cli_print_opt(o, f);
	}
	return *at ? at + 1 : NULL;
}

void cli_print_help(const struct cmd *c, bool all, FILE *f)
{
	const char *group = NULL;
	unsigned int more = 0;
	size_t col;
	int lead;

	fprintf(f, "kvmft %s: %s\n\n", c->name, c->summary);
	col = 0;
	lead = fprintf(f, "usage: kvmft %s", c->name);
	col = (size_t)lead;
	for (const struct opt *o = opt_next(c, NULL); o; o = opt_next(c, o)) {
		struct sbuf b = { 0 };

		if (o->flags & OPT_HIDDEN || opt_is_common(o) || (!all && !opt_is_usual(c, o)))
			continue;
		if (o->short_name)
			sbuf_addf(&b, " [-%c", o->short_name);
		else
			sbuf_addf(&b, " [--%s", o->name);
		if (!o->short_name || !(o->flags & OPT_MAYBE))
			put_arg(&b, o);
		sbuf_addf(&b, "]%s", o->type == OPT_LIST || o->type == OPT_EVENTS ? "..." : "");
		if (col + b.len > HELP_WIDTH) {
			fprintf(f, "\n%*s", lead, "");
			col = (size_t)lead;
		}
		fputs(b.s ?: "", f);
		col += b.len;
		sbuf_free(&b);
	}
	if (!all && c->groups)
		col += (size_t)fprintf(f, col + 10 > HELP_WIDTH ? "\n             [OPTIONS]"
								: " [OPTIONS]");
	if (c->args)
		fprintf(f, "%s%s", col + strlen(c->args) >= HELP_WIDTH ? "\n             " : " ", c->args);
	fputc('\n', f);
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
	if (c->groups)
		group = print_opt_group(c, c->groups, f);
	for (const struct opt *o = opt_next(c, NULL); o; o = opt_next(c, o)) {
		if (!c->groups && !(o->flags & OPT_HIDDEN) && !opt_is_common(o))
			cli_print_opt(o, f);
		more += !(o->flags & OPT_HIDDEN) && !opt_is_usual(c, o);
	}
	fprintf(f, "  %-26s %s\n", "-h, --help", "print this text");
	fprintf(f, "  %-26s %s\n", "    --version", "print name and version");
	if (more && !all)
		fprintf(f, "\n%u more: kvmft help %s --all\n", more, c->name);
	while (all && group) {
		fprintf(f, "\n%.*s:\n", (int)strcspn(group, ":"), group);
		group = print_opt_group(c, group + strcspn(group, ":") + 2, f);
	}
	fputs(all ? "\ncommon options:\n" : "", f);
	for (const struct opt *o = opt_next(c, NULL); all && o; o = opt_next(c, o))
		if (opt_is_common(o))
			cli_print_opt(o, f);
	if (c->examples)
		fprintf(f, "\nexamples:\n%s\n", c->examples);
}

static void list_opt(const struct cmd *c, const struct opt *o, FILE *f)
{
	char s[2] = { o->short_name, 0 };

	fprintf(f, "%s\t%s\t%s\t%s\t%.*s\t", c->name, o->name ?: "", s,
		o->arg && !(o->flags & OPT_MAYBE) ? o->arg : "", (int)strcspn(o->help, "\n"), o->help);
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
	for (const struct opt *o = opt_next(c, NULL); o; o = opt_next(c, o))
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
	const char *instead = cli_gone(group->name, word, strlen(word), 0);

	if (!c && instead)
		err_usage(err, "unknown command '%s': %s", word, instead);
	else if (!c && near)
		err_usage(err, "unknown command '%s' (did you mean %s?)", word, near);
	else if (!c)
		err_usage(err, "unknown command '%s' (see kvmft help %s)", word, group->name);
	return c;
}

const char *cli_nearest_cmd(const char *name)
{
	return nearest_in(kvmft_cmds, 0, name);
}

void cli_say(const char *cmd, const char *text)
{
	unsigned int width = page_width_of_messages();
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	const char *blank = cmd ? " " : "";
	sigset_t blocked;
	bool told = false;

	cmd = cmd ?: "";
	/*
	 * Waits for a reader that has stopped; but recorders block the signals that end them, and
	 * then nothing else would. After such a signal there are no messages any more.
	 */
	if (!sigprocmask(SIG_BLOCK, NULL, &blocked) && sigismember(&blocked, SIGTERM))
		while (!told && !poll(&p, 1, 200))
			told = signal_told();
	if (told) {
		_cleanup_close_ int nowhere = open("/", O_PATH | O_CLOEXEC); /* confined, too */

		if (nowhere >= 0)
			(void)dup3(nowhere, STDERR_FILENO, O_CLOEXEC);
	}
	if (width >= 2 * HELP_INDENT && !strchr(text, '\n')) /* lines of the kernel stay */
		cli_fill(text, (size_t)fprintf(stderr, "kvmft%s%s: ", blank, cmd), width, true,
			 stderr);
	else
		fprintf(stderr, "kvmft%s%s: %s\n", blank, cmd, text);
}

static void cli_vnote(const char *fmt, va_list ap)
{
	_cleanup_free_ char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	if (text)
		str_printable(text); /* it may quote names from files, or from a tree of them */
	cli_say(NULL, text ?: "out of memory");
}

void cli_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	cli_vnote(fmt, ap);
	va_end(ap);
}

const char *cli_input_here(void)
{
	return access(DEFAULT_INPUT, F_OK) ? "" : "; " DEFAULT_INPUT " is here";
}

static void cli_note_not(const char *fmt __unused_arg, ...)
{
}

note_fn *cli_remarks(bool quiet)
{
	return quiet ? cli_note_not : cli_note;
}

void cli_note_over(const char *fmt, ...)
{
	va_list ap;

	fputs("\033[J", stderr);
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

#define CLI_MAX_OPTS 64
/* Long options without a short form get values from here on. */
#define CLI_LONG_BASE	 0x102
#define CLI_LONG_HELP	 0x100
#define CLI_LONG_VERSION 0x101

struct cli_tables {
	struct option longs[CLI_MAX_OPTS + 3];
	char shorts[2 * CLI_MAX_OPTS + 4];
	const struct opt *opt[CLI_MAX_OPTS];
};

static int cli_build(const struct cmd *c, struct cli_tables *t)
{
	size_t n = 0, s = 0;

	memset(t, 0, sizeof(*t));
	if (c->options_first || c->numbers)
		t->shorts[s++] = '+';
	t->shorts[s++] = ':';
	for (const struct opt *o = opt_next(c, NULL); o; o = opt_next(c, o), n++) {
		bool has_arg = o->arg && !(o->flags & OPT_MAYBE);

		if (n == CLI_MAX_OPTS)
			return -E2BIG;
		t->opt[n] = o;
		t->longs[n].name = o->name;
		t->longs[n].has_arg = has_arg  ? required_argument
				      : o->arg ? optional_argument
					       : no_argument;
		t->longs[n].val = CLI_LONG_BASE + (int)n;
		if (o->short_name) {
			t->shorts[s++] = o->short_name;
			if (has_arg)
				t->shorts[s++] = ':';
		}
	}
	t->longs[n].name = "help";
	t->longs[n++].val = CLI_LONG_HELP;
	t->longs[n].name = "version";
	t->longs[n].val = CLI_LONG_VERSION;
	t->shorts[s++] = 'h';
	return 0;
}

/* Which of its words the n characters of text are. */
static int cli_find_word(const struct opt *o, const char *text, size_t n, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char word[64];
	struct near near = { .word = word };
	const char *w;

	snprintf(word, sizeof(word), "%.*s", (int)n, text);
	for (int i = 0; (w = opt_word(o, (size_t)i)); i++) {
		if (strlen(w) == n && !memcmp(w, text, n))
			return i;
		sbuf_addf(&b, "%s%s", i ? ", " : "", w);
		near_offer(&near, w, w);
	}
	near_text(&near, &b);
	return err_usage(err, "%s%s%s'%.*s' is not one of %s", o->name ? "option --" : "",
			 o->name ?: "", o->name ? ": " : "", (int)n, text, b.s ?: "");
}

int cli_words(const struct opt *o, const char *text, uint32_t *bits, struct kvmft_err *err)
{
	size_t n = strcspn(text, ",");
	int i = cli_find_word(o, text, n, err);

	if (i < 0)
		return i;
	*bits |= 1u << i;
	return text[n] ? cli_words(o, text + n + 1, bits, err) : 0;
}

/* Types whose field is a struct opt_u64. */
static const struct {
	int (*parse)(const char *text, uint64_t *v);
	const char *want;
} numbers[] = {
	[OPT_U64] = { parse_u64, "an unsigned number" },
	[OPT_BITS] = { parse_bits64, "a 64-bit number" },
	[OPT_SIZE] = { parse_size, "a size such as 64K, 8M or 1G" },
	[OPT_DURATION] = { parse_duration, "a duration such as 250ms, 10s or 5m" },
};

static int cli_set(const struct cmd *c, const struct opt *o, void *opts, char *text,
		   struct kvmft_err *err)
{
	int nowhere;
	void *field = opt_field(c, o, opts) ?: &nowhere;
	struct opt_u64 *u = field;
	struct str_list *l = field;
	int i;

	switch (o->type) {
	case OPT_FLAG: *(bool *)field = true; return 0;
	case OPT_STR: *(const char **)field = text ?: ""; return 0;
	case OPT_LIST: xarray_add(&l->v, &l->n, &l->cap, &text, sizeof(text)); return 0;
	case OPT_EVENTS:
		/* Several in one word, as in perf: argv is cut in place. */
		for (size_t len, more = 1; more; text += len + 1) {
			len = str_spec_len(text);
			more = text[len] != '\0';
			text[len] = '\0';
			xarray_add(&l->v, &l->n, &l->cap, &text, sizeof(text));
		}
		return 0;
	case OPT_CHOICE:
	case OPT_WORD:
		i = cli_find_word(o, text, strlen(text), err);
		if (i >= 0 && o->type == OPT_CHOICE)
			*(int *)field = i;
		else if (i >= 0)
			*(const char **)field = text;
		return MIN(i, 0);
	case OPT_WORDS: return cli_words(o, text, field, err);
	default:
		u->set = true;
		if (text && numbers[o->type].parse(text, &u->v))
			return err_usage(err, "option --%s: '%s' is not %s", o->name, text,
					 numbers[o->type].want);
		if (text && opt_is_common(o) && (!u->v || u->v > UINT32_MAX))
			return err_usage(err, "option --%s: no TSC has %s kHz", o->name, text);
		return 0;
	}
}

static int cli_unknown(const struct cmd *c, char **argv, int val, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const char *word = argv[optind - 1];
	unsigned int begin = 0;
	const bool long_name = str_starts(word, "--");
	struct near near = { .word = long_name ? word + 2 : word };
	const char *instead;
	char name[64];

	if (val >= CLI_LONG_HELP) /* getopt knows it, but not with what follows the = */
		return err_usage(err, "option %.*s takes no argument", (int)strcspn(word, "="),
				 word);
	instead = cli_gone(c->name, long_name ? word + 2 : "", long_name ? strcspn(word + 2, "=") : 0, val);
	if (instead)
		return err_usage(err, "there is no option %s%.*s: %s", val ? "-" : "",
				 val ? 1 : (int)strcspn(word, "="),
				 val ? (char[]){ (char)val, '\0' } : word, instead);
	if (val)
		return err_usage(err, "unknown option -%c (see kvmft help %s)", val, c->name);
	for (const struct opt *o = opt_next(c, NULL); o; o = opt_next(c, o)) /* up to its "=" */
		begin += long_name && word[2] && !strncmp(o->name, word + 2, strcspn(word + 2, "="));
	if (begin > 1)
		return err_usage(err,
				 "option %.*s is ambiguous: type more of it (see kvmft help %s)",
				 (int)strcspn(word, "="), word, c->name);
	for (const struct opt *o = opt_next(c, NULL); o; o = opt_next(c, o)) {
		snprintf(name, sizeof(name), "--%s", o->name);
		if (!(o->flags & OPT_HIDDEN))
			near_offer(&near, o->name, name);
	}
	near_offer(&near, "help", "--help");
	if (near.n)
		near_text(&near, &b);
	else
		sbuf_addf(&b, " (see kvmft help %s)", c->name);
	return err_usage(err, "unknown option %s%s", word, b.s ? b.s : "");
}

const char *operands_input(struct operands *o)
{
	if (!o->argc || strchr(o->argv[0], '='))
		return NULL;
	o->argc--;
	return *o->argv++;
}

int operands_end(struct operands *o, int ret)
{
	strings_free(o->own, o->n_own);
	free(o->made);
	return ret == KVMFT_OK && o->incomplete ? KVMFT_INCOMPLETE : ret;
}

int cli_parse(const struct cmd *c, void *opts, int argc, char **argv, struct kvmft_err *err)
{
	struct cli_tables t;
	const struct opt **opt;
	int val, ret, kept = 0, first;

	if (cli_build(c, &t))
		return err_set(err, E2BIG, "option table of %s is too long", c->name);
	memset(opts, 0, c->opts_size);
	if (c->color)
		*(int *)((char *)opts + c->color) = -1;
	for (const struct opt *o = c->opts; o->name; o++)
		if (o->type == OPT_CHOICE)
			*(int *)((char *)opts + o->offset) = -1;
	if (c->defaults)
		c->defaults(opts);
	optind = 0; /* start over: a group's own options were parsed before its command's */
	opterr = 0;
	(void)getopt_long(1, argv, t.shorts, t.longs, NULL);
	/* If operands may look like options, they are collected in argv[1..kept]. */
	for (;;) {
		while (c->numbers && optind < argc &&
		       (argv[optind][0] != '-' || isdigit((unsigned char)argv[optind][1]))) {
			char *operand = argv[optind], **to = argv + ++kept;

			memmove(to + 1, to, (size_t)(optind++ - kept) * sizeof(*argv));
			*to = operand;
		}
		val = getopt_long(argc, argv, t.shorts, t.longs, NULL);
		if (val == -1)
			break;
		if (val == 'h' || val == CLI_LONG_HELP)
			return 0;
		if (val == CLI_LONG_VERSION)
			return CLI_VERSION;
		if (val == ':')
			return err_usage(err, "option %s needs an argument", argv[optind - 1]);
		if (val == '?')
			return cli_unknown(c, argv, optopt, err);
		opt = val >= CLI_LONG_BASE ? &t.opt[val - CLI_LONG_BASE] : t.opt;
		while (val < CLI_LONG_BASE && (*opt)->short_name != val)
			opt++;
		ret = cli_set(c, *opt, opts, optarg, err);
		if (ret)
			return ret;
	}
	/* Those before what getopt left. */
	first = optind - kept;
	for (int end = optind; kept; kept--, end--) {
		char *operand = argv[kept];

		memmove(argv + kept, argv + kept + 1, (size_t)(end - kept - 1) * sizeof(*argv));
		argv[end - 1] = operand;
	}
	if (argc - first < c->min_args)
		ret = err_usage(err, "operands are missing: kvmft %s [OPTIONS]%s%s%s", c->name,
				c->args ? " " : "", c->args ?: "",
				c->args && strstr(c->args, "HOST") ? cli_input_here() : "");
	else if (c->max_args >= 0 && argc - first > c->max_args)
		ret = err_usage(err, "too many operands: kvmft %s [OPTIONS]%s%s", c->name,
				c->args ? " " : "", c->args ?: "");
	else
		ret = 0;
	return ret ?: first;
}

void cli_free(const struct cmd *c, void *opts)
{
	if (c->release)
		c->release(opts);
	for (const struct opt *o = opt_next(c, NULL); o; o = opt_next(c, o)) {
		struct str_list *l = opt_field(c, o, opts);

		if (o->type != OPT_LIST && o->type != OPT_EVENTS)
			continue;
		free(l->v);
		memset(l, 0, sizeof(*l));
	}
}

/* ---- `kvmft help --json`, the option tables for programs that use kvmft ---- */

static const char *const opt_types[] = {
	[OPT_FLAG] = "flag",   [OPT_STR] = "text",   [OPT_LIST] = "text",
	[OPT_EVENTS] = "text", [OPT_U64] = "number", [OPT_BITS] = "number",
	[OPT_SIZE] = "size",   [OPT_DURATION] = "duration",
	[OPT_CHOICE] = "word", [OPT_WORD] = "word",  [OPT_WORDS] = "words",
};

/* What help fills into lines is one line here. */
static void put_line(struct json *j, const char *key, const char *text)
{
	_cleanup_free_ char *line = text ? xstrdup(text) : NULL;

	for (char *p = line; p && (p = strchr(p, '\n'));)
		*p = ' ';
	json_put_str(j, key, line);
}

static void describe_opt(const struct cmd *c, const struct opt *o, struct json *j)
{
	char letter[3] = { '-', o->short_name, 0 };
	_cleanup_(sbuf_free) struct sbuf name = { 0 };

	json_object_begin(j);
	sbuf_addf(&name, "--%s", o->name ?: "");
	json_put_str(j, "name", o->name ? name.s : NULL);
	json_put_str(j, "letter", o->short_name ? letter : NULL);
	json_put_str(j, "argument", o->arg && o->flags & OPT_MAYBE ? TEXTF("[=%s]", o->arg) : o->arg);
	json_put_str(j, "type", opt_types[o->type]);
	json_put_bool(j, "repeats", o->type == OPT_LIST || o->type == OPT_EVENTS);
	json_put_bool(j, "usual", c && o->name && opt_is_usual(c, o));
	json_put_array(j, "words");
	for (size_t i = 0; opt_word(o, i); i++)
		json_str(j, opt_word(o, i));
	json_array_end(j);
	put_line(j, "help", o->help);
	json_object_end(j);
}

static void describe_cmd(const struct cmd *c, struct json *j)
{
	json_object_begin(j);
	json_put_str(j, "name", c->name);
	json_put_str(j, "summary", c->summary);
	json_put_str(j, "operands", c->args);
	put_line(j, "description", c->description);
	/* It can neither write files nor see other processes. */
	json_put_bool(j, "only_reads", c->reader && !c->live);
	json_put_array(j, "formats");
	for (const struct opt *o = c->opts; o->name; o++)
		for (size_t i = 0; !strcmp(o->name, "format") && opt_word(o, i); i++)
			json_str(j, opt_word(o, i));
	json_array_end(j);
	json_put_array(j, "options");
	if (c->first)
		describe_opt(c, c->first, j);
	for (const struct opt *o = c->opts; o->name; o++)
		if (!(o->flags & OPT_HIDDEN))
			describe_opt(c, o, j);
	json_array_end(j);
	json_put_array(j, "common_options");
	for (const struct opt *o = opt_next(c, NULL); o; o = opt_next(c, o))
		if (opt_is_common(o))
			json_str(j, TEXTF("--%s", o->name));
	json_array_end(j);
	json_put_array(j, "examples");
	for (const char *at = c->examples; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
		at += strspn(at, " ");
		json_str_mem(j, at, strcspn(at, "\n"));
	}
	json_array_end(j);
	json_object_end(j);
	for (const struct cmd *const *v = c->verbs; v && *v; v++)
		describe_cmd(*v, j);
}

int cli_describe(const struct cmd *only, const char *version, FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct json j;

	json_line_begin(&j, &b);
	json_put_str(&j, "program", "kvmft");
	json_put_str(&j, "version", version);
	json_put_array(&j, "exits");
	for (size_t i = 0; i < KVMFT_EXITS; i++) {
		json_object_begin(&j);
		json_put_u64(&j, "status", i);
		json_put_str(&j, "means", cli_exits[i]);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_put_array(&j, "common_options");
	for (const struct opt *o = cli_common; o->name; o++)
		describe_opt(NULL, o, &j);
	json_array_end(&j);
	json_put_array(&j, "commands");
	for (const struct cmd *const *c = kvmft_cmds; *c; c++)
		if (!only || only == *c)
			describe_cmd(*c, &j);
	if (only && strchr(only->name, ' ')) /* of a group */
		describe_cmd(only, &j);
	json_array_end(&j);
	json_line_end(&j);
	return sbuf_write(&b, f);
}
