/* SPDX-License-Identifier: GPL-2.0-or-later */
/* parse.c: from a command's option table to getopt_long and to typed fields. */
#include "kvmft/cli.h"

#include <ctype.h>
#include <getopt.h>

#define CLI_MAX_OPTS 64
/* Long options without a short form get values from here on. */
#define CLI_LONG_BASE	 0x102
#define CLI_LONG_HELP	 0x100
#define CLI_LONG_VERSION 0x101

struct cli_tables {
	struct option longs[CLI_MAX_OPTS + 3];
	char shorts[2 * CLI_MAX_OPTS + 4];
};

static size_t cli_count(const struct opt *o)
{
	size_t n = 0;

	while (o[n].name)
		n++;
	return n;
}

static void cli_build(const struct cmd *c, struct cli_tables *t)
{
	size_t n = 0, s = 0;

	memset(t, 0, sizeof(*t));
	if (c->options_first || c->numbers)
		t->shorts[s++] = '+';
	t->shorts[s++] = ':';
	for (const struct opt *o = c->opts; o->name && n < CLI_MAX_OPTS; o++, n++) {
		bool has_arg = o->arg != NULL;
		t->longs[n].name = o->name;
		t->longs[n].has_arg = has_arg ? required_argument : no_argument;
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
}

static const struct opt *cli_opt_of(const struct cmd *c, int val)
{
	if (val >= CLI_LONG_BASE)
		return &c->opts[val - CLI_LONG_BASE];
	for (const struct opt *o = c->opts; o->name; o++)
		if (o->short_name == val)
			return o;
	return NULL;
}

const char *opt_word(const struct opt *o, size_t i)
{
	return o->choices ? o->choices[i] : o->word ? o->word(i) : NULL;
}

/* Which of its words the n characters of text are. */
static int find_word(const struct opt *o, const char *text, size_t n, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const char *w;

	for (int i = 0; (w = opt_word(o, (size_t)i)); i++) {
		if (strlen(w) == n && !memcmp(w, text, n))
			return i;
		sbuf_addf(&b, "%s%s", i ? ", " : "", w);
	}
	return err_usage(err, "%s%s%s'%.*s' is not one of %s", o->name ? "option --" : "",
			 o->name ?: "", o->name ? ": " : "", (int)n, text, b.s ?: "");
}

int cli_words(const struct opt *o, const char *text, uint32_t *bits, struct kvmft_err *err)
{
	size_t n = strcspn(text, ",");
	int i = find_word(o, text, n, err);

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

static int cli_set_number(const struct opt *o, struct opt_u64 *u, const char *text,
			  struct kvmft_err *err)
{
	u->set = true;
	return numbers[o->type].parse(text, &u->v)
		       ? err_usage(err, "option --%s: '%s' is not %s", o->name, text,
				   numbers[o->type].want)
		       : 0;
}

static int cli_add(struct str_list *l, const char *text, struct kvmft_err *err)
{
	return array_add(&l->v, &l->n, &l->cap, &text, sizeof(text))
		       ? err_set(err, ENOMEM, "out of memory") : 0;
}

/* As in perf; the words of argv are cut in place. */
static int cli_add_events(struct str_list *l, char *text, struct kvmft_err *err)
{
	size_t len = str_spec_len(text);
	bool last = !text[len];
	int ret;

	text[len] = '\0';
	ret = cli_add(l, text, err);
	return ret || last ? ret : cli_add_events(l, text + len + 1, err);
}

static int cli_set(const struct opt *o, void *opts, char *text, struct kvmft_err *err)
{
	void *field = (char *)opts + o->offset;
	int i;

	switch (o->type) {
	case OPT_FLAG: *(bool *)field = true; return 0;
	case OPT_STR: *(const char **)field = text; return 0;
	case OPT_LIST: return cli_add(field, text, err);
	case OPT_EVENTS: return cli_add_events(field, text, err);
	case OPT_CHOICE:
	case OPT_WORD:
		i = find_word(o, text, strlen(text), err);
		if (i >= 0 && o->type == OPT_CHOICE)
			*(int *)field = i;
		else if (i >= 0)
			*(const char **)field = text;
		return MIN(i, 0);
	case OPT_WORDS: return cli_words(o, text, field, err);
	default: return cli_set_number(o, field, text, err);
	}
}

/* " (did you mean --output?)", or where the list is. */
static void cli_nearest_opts(const struct cmd *c, const char *word, struct sbuf *b)
{
	struct near near = { .word = word };
	char name[64];

	for (const struct opt *o = c->opts; o->name; o++) {
		snprintf(name, sizeof(name), "--%s", o->name);
		if (!(o->flags & OPT_HIDDEN))
			near_offer(&near, o->name, name);
	}
	if (near.n)
		near_text(&near, b);
	else
		sbuf_addf(b, " (see kvmft help %s)", c->name);
}

/* How many options begin like this word, up to its "=". */
static unsigned int cli_beginnings(const struct cmd *c, const char *word)
{
	size_t len = strcspn(word, "=");
	unsigned int n = 0;

	for (const struct opt *o = c->opts; o->name; o++)
		n += !strncmp(o->name, word, len);
	return n;
}

static int cli_unknown(const struct cmd *c, char **argv, int val, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const char *word = argv[optind - 1];

	if (val >= CLI_LONG_HELP) /* getopt knows it, but not with what follows the = */
		return err_usage(err, "option %.*s takes no argument", (int)strcspn(word, "="),
				 word);
	if (val)
		return err_usage(err, "unknown option -%c (see kvmft help %s)", val, c->name);
	if (str_starts(word, "--") && word[2] && cli_beginnings(c, word + 2) > 1)
		return err_usage(
			err,
			"option %.*s is ambiguous: type more of it (see kvmft help %s)",
			(int)strcspn(word, "="), word, c->name);
	cli_nearest_opts(c, str_starts(word, "--") ? word + 2 : word, &b);
	return err_usage(err, "unknown option %s%s", word, b.s ? b.s : "");
}

int operands_end(struct operands *o, int ret)
{
	for (size_t i = 0; i < o->n_own; i++)
		free(o->own[i]);
	free(o->own);
	free(o->made);
	return ret == KVMFT_OK && o->incomplete ? KVMFT_INCOMPLETE : ret;
}

static int cli_check_operands(const struct cmd *c, int n, struct kvmft_err *err)
{
	if (n < c->min_args)
		return err_usage(err, "operands are missing: kvmft %s [OPTIONS]%s%s", c->name,
				 c->args ? " " : "", c->args ?: "");
	if (c->max_args >= 0 && n > c->max_args)
		return err_usage(err, "too many operands: kvmft %s [OPTIONS]%s%s", c->name,
				 c->args ? " " : "", c->args ?: "");
	return 0;
}

/*
 * The next option, as from getopt_long(). If operands may look like options they are collected
 * here, since getopt would not know them: argv[1] to argv[*kept].
 */
static int cli_next(const struct cmd *c, const struct cli_tables *t, int argc, char **argv,
		    int *kept)
{
	while (c->numbers && optind < argc &&
	       (argv[optind][0] != '-' || isdigit((unsigned char)argv[optind][1]))) {
		char *operand = argv[optind];

		++*kept;
		memmove(argv + *kept + 1, argv + *kept, (size_t)(optind - *kept) * sizeof(*argv));
		argv[*kept] = operand;
		optind++;
	}
	return getopt_long(argc, argv, t->shorts, t->longs, NULL);
}

/* Puts those before what getopt left. Returns where the operands begin. */
static int cli_operands(char **argv, int kept)
{
	int first = optind - kept;

	for (int end = optind; kept; kept--, end--) {
		char *operand = argv[kept];

		memmove(argv + kept, argv + kept + 1, (size_t)(end - kept - 1) * sizeof(*argv));
		argv[end - 1] = operand;
	}
	return first;
}

int cli_parse(const struct cmd *c, void *opts, int argc, char **argv, struct kvmft_err *err)
{
	struct cli_tables t;
	int val, ret, kept = 0, first;

	if (cli_count(c->opts) > CLI_MAX_OPTS)
		return err_set(err, E2BIG, "option table of %s is too long", c->name);
	cli_build(c, &t);
	memset(opts, 0, c->opts_size);
	for (const struct opt *o = c->opts; o->name; o++)
		if (o->type == OPT_CHOICE)
			*(int *)((char *)opts + o->offset) = -1;
	if (c->defaults)
		c->defaults(opts);
	optind = 0; /* start over: a group's own options were parsed before its command's */
	opterr = 0;
	(void)getopt_long(1, argv, t.shorts, t.longs, NULL);
	while ((val = cli_next(c, &t, argc, argv, &kept)) != -1) {
		if (val == 'h' || val == CLI_LONG_HELP)
			return 0;
		if (val == CLI_LONG_VERSION)
			return CLI_VERSION;
		if (val == ':')
			return err_usage(err, "option %s needs an argument", argv[optind - 1]);
		if (val == '?')
			return cli_unknown(c, argv, optopt, err);
		ret = cli_set(cli_opt_of(c, val), opts, optarg, err);
		if (ret)
			return ret;
	}
	first = cli_operands(argv, kept);
	ret = cli_check_operands(c, argc - first, err);
	return ret ?: first;
}

void cli_free(const struct cmd *c, void *opts)
{
	if (c->release)
		c->release(opts);
	for (const struct opt *o = c->opts; o->name; o++) {
		struct str_list *l = (void *)((char *)opts + o->offset);

		if (o->type != OPT_LIST && o->type != OPT_EVENTS)
			continue;
		free(l->v);
		memset(l, 0, sizeof(*l));
	}
}
