/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cli.h: commands and options as tables.
 *
 * One struct cmd per subcommand, one struct opt per option. Parsing, `--help`, the synopsis and
 * the machine-readable list (from which the completion files are made, and against which the
 * manual pages are tested) all come from these tables, so they cannot disagree.
 */
#pragma once

#include <limits.h>

#include "kvmft/util.h"

/* How an option's argument is read and what the field at opt->offset is. */
enum opt_type {
	OPT_FLAG,     /* bool */
	OPT_STR,      /* const char * */
	OPT_LIST,     /* struct str_list: may be given several times, in order */
	OPT_EVENTS,   /* the same; "a,b/FILTER/" is two of them */
	OPT_U64,      /* struct opt_u64 */
	OPT_BITS,     /* struct opt_u64; signed, unsigned or hex: 64 bits as they are */
	OPT_SIZE,     /* struct opt_u64, bytes */
	OPT_DURATION, /* struct opt_u64, ns */
	OPT_CHOICE,   /* int: index into opt->choices; -1 = not given */
	OPT_WORD,     /* const char *: one of choices, or of what word() names */
	OPT_WORDS,    /* uint32_t: a bit for each of these that is given, with commas between */
};

/* There are hundreds, and small builds have them, too: so, no holes. */
struct opt {
	const char *name;
	const char *arg;	    /* metavariable; NULL for a flag */
	const char *help;	    /* filled by --help; its first line is for completion */
	const char *const *choices; /* what it may be, NULL-terminated, or NULL */
	const char *(*word)(size_t i); /* or the i-th of that, where it is in another table */
	uint32_t offset;	    /* into the command's option struct */
	enum opt_type type : 8;
	unsigned int flags : 8;
	char short_name; /* 0 = none */
};

enum opt_flags {
	OPT_HIDDEN = 1 << 0, /* accepted, not shown */
	OPT_MAYBE = 1 << 1,  /* its argument may be left out: --NAME[=ARG] */
};

/* short name or 0, long name, type, option struct, its member, metavariable or NULL, help */
#define OPTION(s, n, t, st, member, metavar, text)                                                 \
	{                                                                                          \
		.short_name = (s), .name = (n), .type = (t), .offset = offsetof(st, member),       \
		.arg = (metavar), .help = (text),                                                  \
	}
#define OPTION_CHOICE(s, n, st, member, metavar, list, text)                      \
	{                                                                         \
		.short_name = (s), .name = (n), .type = OPT_CHOICE,               \
		.offset = offsetof(st, member), .arg = (metavar), .help = (text), \
		.choices = (list),                                                \
	}
/* --NAME[=ARG]: without ARG a text is "", a number what it was. */
#define OPTION_MAYBE(s, n, t, st, member, metavar, text)                                     \
	{                                                                                    \
		.short_name = (s), .name = (n), .type = (t), .offset = offsetof(st, member), \
		.arg = (metavar), .help = (text), .flags = OPT_MAYBE,                        \
	}
/* Its words are in a list, or a function has them. */
#define OPTION_LISTED(s, n, t, st, member, metavar, list, text)                              \
	{                                                                                    \
		.short_name = (s), .name = (n), .type = (t), .offset = offsetof(st, member), \
		.arg = (metavar), .help = (text), .choices = (list),                         \
	}
#define OPTION_NAMED(s, n, t, st, member, metavar, fn, text)                                 \
	{                                                                                    \
		.short_name = (s), .name = (n), .type = (t), .offset = offsetof(st, member), \
		.arg = (metavar), .help = (text), .word = (fn),                              \
	}
#define OPT_END                                                                                    \
	{                                                                                          \
		.name = NULL,                                                                      \
	}

/*
 * A subcommand. run() gets the parsed option struct (size opts_size, zeroed, then defaults()),
 * the remaining arguments, and an error object; it returns an exit code (enum kvmft_exit). When
 * it fails it fills err, and main prints the one line.
 */
/* What follows the options. */
struct operands {
	int argc;
	char **argv;
	char **made; /* argv, where it is not main's */
	char **own;  /* texts that came to it */
	size_t n_own, own_max;
	bool incomplete; /* something that was requested is missing: exit status 3 */
};

/* Takes the first one as INPUT; NULL: there is none, or it is GUEST=SEL. */
const char *operands_input(struct operands *o);
/* Frees what came to them. The exit code, or error, of a command that ended with ret. */
int operands_end(struct operands *o, int ret) __must_check;

struct cmd {
	const char *name;
	const char *summary;
	const char *args;	    /* operands in the synopsis, e.g. "HOST GUEST[=SEL]..." */
	const char *description;    /* for --help, which fills it; may be NULL */
	const char *examples;	    /* lines for --help; may be NULL */
	const struct opt *opts;	    /* ends with OPT_END */
	/*
	 * Long names of all of them, with blanks between: the first line has those that plain help
	 * shows, others are "head: NAME...". NULL: help shows all, in the order of opts.
	 */
	const char *groups;
	const struct opt *first;    /* the first operand, an OPT_WORDS; NULL: it is no word */
	size_t opts_size;
	void (*defaults)(void *opts);
	int (*run)(void *opts, int argc, char **argv, struct kvmft_err *err);
	int (*release)(
		void *opts); /* may be NULL; frees what parsing and output() made beyond lists */
	int min_args, max_args;	    /* operands; max -1 = any */
	/* Where the values of cli_common are in its option struct; 0: it has no use for them. */
	uint32_t color, wide, quiet, khz, syms;
	bool options_first; /* what follows the first operand is not ours: a COMMAND */
	bool numbers;	    /* operands may be negative numbers: -5 is not an option */
	/* Before all else: replaces the directory of a session by its captures. May be NULL. */
	int (*sessions)(void *opts, struct operands *o, struct kvmft_err *err);
	/*
	 * It reads files that anyone may have made, and prints: before run(), main gives up all
	 * rights beyond that (sandbox.h). output() runs before that, to open the files that it
	 * writes and to ask other processes; argc: the number of operands. 0 or -errno with err
	 * set.
	 */
	bool reader;
	/* What it does with all rights if there are no operands. May be NULL. */
	int (*live)(void *opts, struct kvmft_err *err);
	int (*output)(void *opts, int argc, struct kvmft_err *err);
	/* A group, as `kvmft qemu`: its commands, "qemu events", up to NULL; without a run(). */
	const struct cmd *const *verbs;
};

/* Options and commands of earlier versions, of perf and trace-cmd, and what does the same. */
struct opt_gone {
	const char *of; /* the command that it is tried with; NULL: any; "": it is a command */
	const char *name, *instead; /* or names, with blanks between */
	char letter; /* '\0': it had none */
};
extern const struct opt_gone kvmft_gone[];
/* What does the same as the name of n letters, or the letter, of a command, or as a command: "". */
const char *cli_gone(const char *of, const char *name, size_t n, int letter);

/* Options of every command; their offset is that of the place's in struct cmd. */
extern const struct opt cli_common[];

extern const struct cmd *const kvmft_cmds[]; /* NULL-terminated, in the order help shows them */
/* Names of those left out of this build (SMALL=1), NULL-terminated. */
extern const char *const kvmft_cmds_elsewhere[];

/*
 * Parses argv[1..] by the table. Returns the index of the first operand, 0 when help was requested
 * (and should be printed), CLI_VERSION when --version was, or -EINVAL with err set (exit code 2).
 */
#define CLI_VERSION INT_MAX
int cli_parse(const struct cmd *c, void *opts, int argc, char **argv, struct kvmft_err *err);
void cli_free(const struct cmd *c, void *opts);
/* Sets the bits of an OPT_WORDS: of an option, or of cmd->first. 0 or -EINVAL with err set. */
int cli_words(const struct opt *o, const char *text, uint32_t *bits, struct kvmft_err *err);
extern const char *const cli_exits[KVMFT_EXITS]; /* what exit statuses mean */
/* All commands, or one, as JSON. 0 or -errno. */
int cli_describe(const struct cmd *only, const char *version, FILE *f) __must_check;
/* all: with the options that are seldom needed. */
void cli_print_help(const struct cmd *c, bool all, FILE *f);
/*
 * One line per option: CMD<TAB>LONG<TAB>SHORT<TAB>ARG<TAB>first help line<TAB>words; for a group,
 * preceded by one line per command of it: CMD VERB<TAB>summary. A first operand that is a list of
 * words has a line like an option's, with no LONG.
 */
void cli_print_list(const struct cmd *c, FILE *f);
/* A command, or one of a group by both words: "qemu events". */
const struct cmd *cli_find(const char *name);
/* The command of a group that word names; if none, NULL, with -EINVAL in err. */
const struct cmd *cli_find_verb(const struct cmd *group, const char *word, struct kvmft_err *err);
/* The nearest command or option name for "did you mean", or NULL. */
const char *cli_nearest_cmd(const char *name);

/* ---- output shared by commands ---- */

enum table_format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV };
extern const char *const cli_formats[]; /* "text", "json", "csv", NULL */

/*
 * A line on stderr, "kvmft CMD: text", or without CMD if that is NULL. On a terminal it is folded
 * between words, but not within `...`: such a command can be copied.
 */
void cli_say(const char *cmd, const char *text);
/* The note_fn of the commands: "kvmft: text". */
void cli_note(const char *fmt, ...) __printf(1, 2);
/* What record writes by default; what the message of a command without an operand says of it. */
#define DEFAULT_INPUT "kvmft.data"
const char *cli_input_here(void);
/* For remarks, which say nothing of losses or errors: cli_note() or, with -q, nothing. */
note_fn *cli_remarks(bool quiet);
/* The same in the place of progress that is shown on a terminal, from the cursor on. */
void cli_note_over(const char *fmt, ...) __printf(1, 2);
/* Flushes stdout; a failed write (full disk, closed pipe) becomes an error. 0 or -errno. */
int cli_flush(struct kvmft_err *err);

/* ---- where text goes if that is a terminal: through a pager, or cut to its width ---- */

/* Of the options --color and --wide, and of what comes bit by bit; color: -1 = auto. */
struct page_opts {
	int color;
	bool wide, no_pager;
};

enum color_choice { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };
extern const char *const color_names[]; /* for OPTION_CHOICE */

struct page {
	FILE *f;    /* print here; stdout if nothing has to be cut */
	bool color; /* text may have colours */
	unsigned int width; /* of a terminal; 0: lines may be of any length */
	/* private */
	int gone;   /* ends with the pager */
	int was[2]; /* standard output and error before it; -1: as it was */
	struct screen_cut cut;
	struct sbuf text;
};

bool page_color(const struct page_opts *o);
/* Width of lines on standard output; 0: they are not cut. */
unsigned int page_width(const struct page_opts *o);
/* Width of standard error, if it is a terminal or a pager on one; 0: its lines are not folded. */
unsigned int page_width_of_messages(void);

/*
 * To be called before anything is printed, and before the program confines itself. file: the result
 * goes to a file of its own. With a pager, standard output is its input from here on, and so is
 * standard error if that is a terminal; page_close() waits until the user has seen enough and gives
 * both back, in a sandbox closes them. No errors: everything can be read without a pager, too.
 */
void page_open(struct page *p, const struct page_opts *o, bool file);
void page_close(struct page *p);
