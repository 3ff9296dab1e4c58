/* SPDX-License-Identifier: GPL-2.0-or-later */
/* results.h: what commands found, in readable formats. */
#pragma once

#include "kvmft/advise.h"
#include "kvmft/blame.h"
#include "kvmft/clockcheck.h"
#include "kvmft/diff.h"
#include "kvmft/latency.h"
#include "kvmft/output.h"
#include "kvmft/pairing.h"
#include "kvmft/report.h"
#include "kvmft/tracedat.h"
#include "kvmft/proof.h"
#include "kvmft/hostmap.h"
#include "kvmft/exit_names.h"
#include "kvmft/exits.h"
#include "kvmft/steal.h"
#include "kvmft/timeline.h"
#include "kvmft/qemu.h"

/* As they are, if the TSC's rate is not known. */
static inline uint64_t ns_or_cycles(uint64_t cycles, uint64_t khz)
{
	return khz ? tsc_cycles_to_ns(cycles, khz) : cycles;
}

/* ---- a report: text, JSON, CSV, metrics ---- */

/* Which tables there are: one of all together, also one per VM, also one per vCPU. */
enum report_per { REPORT_PER_ALL, REPORT_PER_VM, REPORT_PER_VCPU };

/* All that is printed; everything is borrowed. */
struct report_doc {
	struct report *r;	     /* not changed */
	const struct capture *cap;   /* what it is of */
	const struct report_opts *opts;
	const char *pids;	     /* as the user gave them; NULL: all */
	struct report_filter filter; /* what was requested */
	enum report_per per;
	enum report_key key;	     /* by which each table is sorted */
	bool idle_last;		     /* ... but KEY_CPU where halts lead by time */
	size_t top;		     /* rows of each table; 0 = all */
	uint64_t lost;		     /* events missing from the capture, by gaps and counters */
	bool lost_unknown;	     /* ... at least */
	FILE *f;
	bool color;	    /* text may have colours */
	unsigned int width; /* of a terminal; 0 = rows are not cut */
	const char *const *remark;   /* what the command has to say in addition to report_note() */
	size_t nremark;
};

enum report_format { REPORT_TEXT, REPORT_JSON, REPORT_CSV, REPORT_OPENMETRICS };
/* Whether it has a place for the notes; otherwise the command prints them. */
static inline bool report_has_notes(enum report_format f)
{
	return f <= REPORT_JSON;
}
/* Prints it into d->f. 0, -ENOMEM, or -errno of a write: then d->f has its error set. */
int report_print(const struct report_doc *d, enum report_format format) __must_check;
/* The top rows (0: all) of a non-empty b, as "text", "json" or "csv". 0 or -errno. */
int by_stack_print(struct by_stack *b, const struct capture *cap, size_t top, const char *format,
		   FILE *f) __must_check;

/* ---- report --by process; all borrowed ---- */
struct process_view {
	const struct processes *p;
	const struct hostmap *m;
	const struct capture *cap;
	const struct exit_names *names;
	bool tasks;	    /* the guest's own, else by address space */
	bool named;	    /* there is a guest's capture, which gives names */
	uint64_t khz;	    /* of the TSC; 0: not known, times are cycles */
	size_t top;	    /* rows of each table; 0 = all */
	unsigned int width; /* of a terminal; 0 = none */
};
/* In one of cli_formats: "text", "json" or "csv". */
void processes_print(const struct process_view *v, const char *format, struct sbuf *b);
/* Was anything counted of what f asks for? */
bool report_has_samples(const struct report *r, const struct report_filter *f);

/* ---- latency analyses: a new format is a line in lat_formats (output/lat_formats.c) ---- */

/* The part of the time line that belongs to one of the worst cases. */
struct lat_story {
	char *text; /* lines */
	uint64_t left_out; /* lines of its middle */
};

/* How far off stages between host and guest may be, in their unit. */
struct lat_bound {
	bool guest; /* there is a capture of it */
	bool known; /* its events are all inside, and the bound is known both ways */
	uint64_t early, late;
	/* of an offset found in events: its error either way; 0: the offset is known */
	uint64_t uncertain;
};

/* What is printed; all borrowed. */
struct lat_view {
	const struct lat *lat;
	const struct timeline *t;
	const struct out_clock *clock;
	const bool *want;		    /* by enum lat_kind, see lat_answers() */
	struct lat_story *story[LAT_TABLES]; /* by table, as many as worst cases; NULL: none */
	const struct lat_bound *bound;	    /* by VM */
	size_t rows; /* of each table of text; 0: some */
	bool all;     /* text: everything, not just what fits a screen */
	size_t worst; /* ... how many of the worst are printed then */
	bool color;   /* text may have colours */
	unsigned int width; /* of a terminal; 0 = not a terminal */
};

struct lat_format {
	const char *name; /* as in --format */
	void (*print)(const struct lat_view *v, struct sbuf *b);
	/* The results become, as JSON, part of a page with all events: see out_html_latency(). */
	bool page;
};

void lat_text_print(const struct lat_view *v, struct sbuf *b);
const struct lat_format *lat_format_find(const char *name);
const char *lat_format_name(size_t i); /* of the i-th; NULL past the last */

/* The name of a group's VM; "host" for -1. */
const char *lat_vm_label(const struct lat_view *v, int64_t vm);
/* How far off this stage of a group may be; NULL: it does not cross, or that is unknown. */
const struct lat_bound *lat_stage_bound(const struct lat_view *v, const struct lat_desc *d,
					const struct lat_group *g, unsigned int stage);
/* Whether half of it is shorter than that: it may have taken no time at all. */
bool lat_is_uncertain(const struct lat_view *v, const struct lat_table *t,
		      const struct lat_group *g, unsigned int stage);
/* "accepted 3; measured 2; ...": whatever is not 0, and always the first two. */
void lat_counts_text(const struct lat_table *t, struct sbuf *b);
void lat_put_story(struct sbuf *b, const struct lat_story *story); /* its text; NULL: none */
/* "12.3 us" or "4711 cycles". */
char *lat_amount(const struct lat_view *v, char *buf, size_t size, uint64_t time);
uint64_t lat_of_cycles(const struct lat_view *v, uint64_t cycles); /* host cycles in that unit */

/* ---- spikes and their causes ---- */

enum blame_by { BLAME_BY_LENGTH, BLAME_BY_TIME, BLAME_BY_CAUSE, BLAME_BY_TASK, BLAME_BY_VCPU };

/* What is printed; all borrowed. */
struct blame_view {
	const struct blame *blame;
	const struct timeline *t;
	const struct out_clock *clock;
	const struct lat_bound *bound;	/* by VM */
	const struct lat_story *story;	/* by spike; NULL: none */
	enum blame_by by;
	bool at; /* the nearest to a moment, not the longest */
	bool color;
	unsigned int width; /* of a terminal; 0 = not a terminal */
};

extern const char *const blame_bys[]; /* by enum blame_by, NULL-terminated */

/* In one of cli_formats. 0 or -errno. */
void blame_print(const struct blame_view *v, const char *format, struct sbuf *b);

/* ---- what differs between two recordings ---- */

/* All that is printed; everything is borrowed. */
struct diff_doc {
	const struct diff *d;
	const char *what; /* name of the class of exits */
	bool all;	  /* text and CSV: also rows within noise; JSON always has all */
	bool color;	  /* text may have colours */
	unsigned int width; /* of a terminal: sentences are wrapped; 0 = they are not */
	const char *const *remark;
	size_t nremark;
};

/* What was found of a gate, as a line without its end. */
void diff_gate_text(const struct diff *d, const struct diff_gate *g, struct sbuf *b);
/* In one of cli_formats, or "junit", a test for each gate. Text and JSON have the remarks. */
void diff_print(const struct diff_doc *d, const char *format, struct sbuf *b);

/* ---- whether clocks are right ---- */

/* As "text", "json" or "openmetrics". width: of the terminal that a text is for; 0: none. */
void clockcheck_print(const struct clockcheck *c, const char *format, unsigned int width,
		      struct sbuf *b);
/* A line of a finding, or of the verdict: NULL. As text, or JSON. */
void clockcheck_line(const struct clockcheck *c, const struct clock_vm *vm,
		     const struct clock_seen *s, bool json, struct sbuf *b);

/* ---- settings that cost something ---- */

void advise_print(const struct advise *a, const char *format, unsigned int width,
		  struct sbuf *b); /* likewise */
/* What a change saved, of what it was foretold to: "rule: ...". The first VM that is shown. */
bool advise_shown(const struct advise *a, size_t vm);
enum advise_kept { ADVISE_AS_FORETOLD, ADVISE_OTHERWISE, ADVISE_CANNOT_TELL };
enum advise_kept advise_predicted(const struct advise *const a[2], const size_t vm[2],
				  enum advice is, struct sbuf *b);

/* ---- captures as trace.dat ---- */

struct export_config {
	struct outfile *out;
	const char *output;   /* its name, for messages */
	bool time_shift;      /* stamps of guests stay, with the option TIME_SHIFT */
};

/* tracedat.c: a trace.dat of p's capture, and one of each guest, named after it. */
int export_dat(struct pairing *p, const struct export_config *o, struct kvmft_err *err);

struct view;

/* The walks that find spikes and explain them, for `kvmft blame` and for pages. */

struct blaming {
	struct view *v; /* its time line is left as the last walk left it */
	struct blame_opts o;
	struct blame *b;
	struct lat_bound *bound; /* by VM; none where nothing is proved */
};

/* Before the first walk, and the walk. 0 or -errno with err; blaming_free() in any case. */
int blaming_begin(struct blaming *m) __must_check;
int blaming_find(struct blaming *m) __must_check;
/* The second walk, if there is anything to explain. */
int blaming_explain(struct blaming *m) __must_check;
void blaming_free(struct blaming *m);

/*
 * The longest spikes of a view for a page, as the JSON of `kvmft blame`, to be freed; NULL if the
 * captures show none, or come from several hosts. The time line is stopped. 0 or -errno.
 * blaming_spikes(): the spikes themselves, up to `top` of them, to be freed with blame_free();
 * without judge they have only parts, and get their causes by blaming_judge(), from what a walk
 * over the same has proved. Their VMs may be any number.
 */
int blaming_json(const struct view *v, char **json) __must_check;
int blaming_spikes(const struct view *v, size_t top, bool judge,
		   struct blame **spikes) __must_check;
void blaming_judge(const struct pairing *p, const struct windows *w, struct blame_spike *s,
		   size_t n);

/* How far off the stamps of each VM's guest may be: by VM, to be freed. */
struct lat_bound *lat_bounds(const struct pairing *p, const struct windows *w);

/* ---- parts of the time line, in a walk of their own, around moments that were found ---- */

/* From one host TSC to another, of one VM; -1: of all. */
struct story {
	int64_t vm;
	uint64_t begin, end;
	struct lat_story *to; /* what is written there is the caller's to free */
};

/* Tells n of them by a started time line, with `context` lines before and after. 0 or -errno. */
int stories_tell(const struct story *v, size_t n, struct timeline *t, const struct out_clock *clock,
		 bool color, uint64_t context) __must_check;

/* ---- in which clock a timeline is shown, and which part of it ---- */

/* What a clock needs in addition to the captures. */
struct when {
	struct cap_pieces pieces; /* of the host's clock that was requested */
	struct cap_pieces *later; /* ... and of the hosts that the VM moved to */
	struct out_clock_later *clock_later;
	size_t nlater;
	struct cap_pieces day_pieces; /* of day_clock() */
	struct out_clock day;
};

/* ---- --from and --to ---- */

/* The time of day by the host's readings; pieces: what it needs, to be freed. False: none. */
bool day_clock(const struct capture *host, struct cap_pieces *pieces, struct out_clock *day);

/*
 * The host TSCs at which the clock shows what the text of option `name` means, the first and the
 * last; either may be NULL. It is as in the time column: seconds with up to nine decimals or with a
 * unit (250ms), cycles for clocks that count those. A value that the clock never showed gives the
 * place where it would be. Or it is a time of day, of which rows may be in any clock: by the host's
 * realtime, and one without a fraction is that whole second. -EINVAL, -ENODATA with err set.
 */
int window_span(const struct out_clock *c, const char *name, const char *text, uint64_t *lo,
		uint64_t *hi, struct kvmft_err *err) __must_check;
/*
 * From the first of `from` to the last of `to`, for a report of cap, as merge has them in the clock
 * `kind` (enum out_clock_kind; -1: ns since the recording began).
 */
int window_report(const struct capture *cap, int kind, const char *from, const char *to,
		  struct report_opts *ro, note_fn *note, struct kvmft_err *err) __must_check;

#define WINDOW_HELP_FROM "leave out what was before T: a time as the lines show it, or of the day"
#define WINDOW_HELP_TO	 "leave out what was after T"
/* int clock; of a report, whose rows have no times */
#define WINDOW_CLOCK_OPTION(st)                                        \
	OPTION_CHOICE(0, "clock", st, clock, "CLOCK", out_clock_names, \
		      "clock of --from and --to, as of kvmft merge (default: ns since the\n" \
		      "recording began); a time of day is understood beside any")

/* ---- tables of exits, live: text, JSON, CSV, OpenMetrics ---- */

enum exits_columns {
	EXITS_COL_REASON,  /* KVM_EXIT_REASON COUNT */
	EXITS_COL_TID,	   /* TID in front */
	EXITS_COL_PID_TID, /* PID TID in front */
};

/* What a table is made of; all borrowed. */
struct exits_page {
	const struct exits_view *view;
	const struct exit_names *names;
	enum exit_isa isa;
	enum exits_columns columns;
	const char *tid_header;	 /* "TID" or "TIDS" */
	uint64_t realtime_ns;	 /* of the table's end, since 1970 */
	uint64_t elapsed_ns;	 /* that it covers */
	uint64_t lost;		 /* exits that could not be counted, since counting began */
	bool lost_unknown;	 /* there may be more */
	const char *engine;	 /* "kernel" or "user" */
	const char *target;	 /* "all VMs", "PID 1273795 VCPU 0" */
	bool first;		 /* the first table of a stream of tables */
	size_t max_rows;	 /* text: no more than these; 0 = all */
	unsigned int width;	 /* of the terminal; 0 = none */
};

/* Called from time to time with the text so far, which it may empty. 0 or -errno. */
typedef int (*exits_flush)(void *ctx, struct sbuf *b);

enum exits_format { EXITS_TEXT, EXITS_JSON, EXITS_CSV, EXITS_OPENMETRICS, EXITS_PROMETHEUS };
extern const char *const exits_format_names[]; /* by enum, NULL-terminated */

/* Appends the table. OpenMetrics needs a view since counting began. 0, -ENOMEM, or flush's. */
int exits_print(enum exits_format f, const struct exits_page *p, struct sbuf *b,
		exits_flush flush, void *ctx) __must_check;
/* The same of who takes the CPU from VMs; of the view only e is looked at, for their names. */
int steal_print(enum exits_format f, const struct exits_page *p, const struct steal *s,
		struct sbuf *b, exits_flush flush, void *ctx) __must_check;

/*
 * ---- the files of a reader's -o ----
 *
 * They are opened before the first byte of a capture is read, and get their names from a process
 * that never reads one, so a reader need not be allowed to create, remove or rename anything. An
 * existing file of that name stays until the new one is complete, or for good if the reader fails
 * or is killed.
 */

struct outfile;

/* The path of -o, NULL for standard output: so is "-", which is hard to remove as a file. */
static inline const char *outfile_arg(const char *path)
{
	return path && strcmp(path, "-") ? path : NULL;
}

/*
 * Opens n files: path and others beside it; force: existing files may be replaced. Without a path
 * there is nothing to do. 0 or -errno with err set; *out is to be closed in any case.
 */
int outfile_open(const char *path, bool force, size_t n, struct outfile **out,
		 struct kvmft_err *err) __must_check;
const char *outfile_path(const struct outfile *o);
int outfile_fd(const struct outfile *o, size_t i); /* file i, for writing and reading; borrowed */
/*
 * Whether a file may have this name: that of -o (name NULL), or the one for a guest of that name
 * beside it: "pair.dat" and "web 1" make "pair-web_1.dat". Refused: an existing file, without
 * --force, and anything that the time line was made of. extra: one more file that was read, NULL =
 * none. Without a file (o is NULL) all is well.
 */
int outfile_check(const struct outfile *o, const char *name, const struct timeline *t,
		  const char *extra, struct kvmft_err *err) __must_check;
/* File i is complete: it gets that name. 0 or -errno with err set; NULL is fine. */
int outfile_commit(struct outfile *o, size_t i, const char *name,
		   struct kvmft_err *err) __must_check;
/* Text, the caller's: the path of the file of that name. NULL when out of memory. */
char *outfile_name(const struct outfile *o, const char *name);
void outfile_close(struct outfile *o); /* removes what was not completed; NULL is fine */

/* ---- traces of QEMU, on a timeline or alone: option --qemu ---- */

struct qemu_traces {
	struct qevents *events; /* NULL: none at hand */
	bool found;		/* ... they were not named by the user */
	bool looked;		/* none need be looked for */
	char *refused;		/* why a file that was found is not used; NULL: none */
	note_fn *note;		/* the caller's */
};

/* How a trace is printed without a capture of its host. */
struct qemu_alone {
	struct qtrace *t; /* at its beginning */
	FILE *f;
	bool json; /* an object per line, else text */
	/* times as in the file, by this clock; QTRACE_NO_CLOCK: since the first one */
	enum qtrace_clock clock;
	uint64_t most; /* events, then it ends */
};

/*
 * Adds the traces FILE[:FORMAT[:VM]] to the time line. events: the trace-events-all to use, NULL =
 * look for one; only once, if several time lines get them. To be freed with qemu_traces_free()
 * after the time line, also after a failure.
 */
int qemu_traces_add(struct qemu_traces *q, struct pairing *p, const struct str_list *traces,
		    const char *events, struct kvmft_err *err) __must_check;
/* Prints trace FILE[:FORMAT] as `how` says, but for its t. *complete: nothing is missing. */
int qemu_traces_alone(struct qemu_traces *q, const char *trace, const char *events,
		      const struct qemu_alone *how, bool quiet, bool *complete,
		      struct kvmft_err *err) __must_check;
void qemu_traces_free(struct qemu_traces *q);
/* Notes about each trace; quiet: only what is wrong. False: a trace has no place at all. */
bool qemu_traces_summary(const struct qemu_traces *q, const struct timeline *t, bool quiet);

/*
 * ---- a view: captures as one time line, in a clock, from one time to another ----
 *
 * What all commands share that walk over captures: they are opened, walked, told of, and closed.
 */

/* What the user says of it: the groups of options in cmd/options.h. */
struct view_opts {
	const char *vm, *from, *to, *naming, *trace_events;
	int clock; /* enum out_clock_kind; -1: none is named */
	struct opt_u64 khz, than;
	struct pairing_clock pair;
	struct guest_syms_opts syms;
	struct str_list host, qemu;
	bool quiet;
};

/* Takes FILE:events, the trace-events-all, out of the list of traces. */
void qemu_traces_events(struct view_opts *o);

struct view {
	/* by the command: */
	const struct view_opts *o;
	note_fn *note;
	struct kvmft_err *err;
	struct pairing_opts need; /* but what the user says */
	/* One capture without guests is opened as by pairing_open_alone(); or if all else fails. */
	enum { VIEW_PAIRED, VIEW_ALONE, VIEW_ALONE_ELSE } alone;
	const char *cycles; /* what times are where the TSC's rate is not known; NULL: not told */
	bool told;	    /* how good the rate is, before */
	bool exact;	    /* no rate is taken but what is recorded or given */
	const struct view *like; /* another one of the same captures has it, and has told */
	const char *moved;  /* see pairing_add_hosts() */
	bool traces, names; /* with traces of QEMU; with functions of guests */
	const char *end;    /* name of --to; NULL: "to" */
	/* Guests' events are checked, and that is told; nothing is; all windows are known. */
	enum { VIEW_PROVE, VIEW_PROVE_NOT, VIEW_PROVE_ALL } prove;
	/* by view_open(): */
	struct pairing own, *p;
	struct qemu_traces q;
	struct guest_syms syms;
	struct when when;
	struct out_clock clock;
	uint64_t from, to; /* host TSC */
	int64_t vm;
	struct windows *w; /* by view_start(); NULL: none */
	/* by view_output(): */
	struct out out;
	FILE *f;
	struct outfile *file; /* borrowed; NULL: to be read at once */
};

/* captures: HOST, and n - 1 guests. 0 or -errno with err; view_close() in any case. */
int view_open(struct view *v, char **captures, size_t n) __must_check;
struct pairing_opts view_needs(const struct view *v); /* what it needs, with what the user says */
/* The same with captures that are open. */
int view_of(struct view *v, struct pairing *p) __must_check;
/* Another clock for it. */
int view_clock(struct view *v, int kind, struct kvmft_err *err) __must_check;
/* Begins the walk, of what is between from and to; or begins again, and proves nothing. */
int view_start(struct view *v) __must_check;
int view_again(const struct view *v, uint64_t from, uint64_t to) __must_check;
/* tl_walk() to the end, with the proof. */
int view_walked(struct view *v, int ret) __must_check;
#define view_walk(v, ...) \
	view_walked(v, tl_walk((v)->p->t, __VA_ARGS__, TL_FEED(win_feed, (v)->w)))
/* Notes what was assumed and lost, how guests align (quiet: if wrong); then pairing_placed(). */
int view_tell(const struct view *v, bool quiet, bool *complete) __must_check;
void view_tell_alignment(const struct view *v, size_t vm, const char *name, bool quiet);
void view_close(struct view *v);

/* What a time line of that format (NULL: text) and clock shows if the TSC frequency is unknown. */
const char *view_cycles(const char *format, int kind);
/* Into file, or f if NULL; fmt: for out_begin(), or NULL. The caller does outfile_commit(). */
int view_output(struct view *v, const struct out_format *fmt, struct outfile *file,
		FILE *f) __must_check;
/* Of all guests, for formats that have a place for it: after the walk. */
void view_put_alignment(struct view *v);
/* Ends output and file; ret is the walk's. -EPIPE goes without a message: `| head` has enough. */
int view_end(struct view *v, int ret) __must_check;
/* After that: whether all events had a place in the output; if not, that is reported. */
bool view_whole(const struct view *v);

/*
 * ---- everything that captures contain, as tables of an SQLite database: kvmft-sql(7) ----
 *
 * Rows are written as they come, and only names of types are kept. All text from guests and files
 * is made printable, and names of events and fields are quoted.
 */

struct db;

/* fd: an empty file, borrowed as all is. Stamps are in that clock. 0 or -ENOMEM; then db_free(). */
int db_new(int fd, const struct timeline *t, const struct out_clock *clock,
	   struct db **out) __must_check;
/* Events, losses and damage, in order. 0 or -errno, also of what failed elsewhere before. */
int db_item(void *db, const struct tl_item *i) __must_check;
void db_window(void *db, const struct win_vcpu *v, uint64_t exit); /* a callback for win_each() */
/* A callback for lat_opts.each; of this analysis. */
void db_latency(struct db *d, const struct lat *l);
void db_case(void *db, enum lat_table_id id, const struct lat_case *c);
/* After the walk: who there is, what was lost, and how well clocks align; w may be NULL. */
void db_walked(struct db *d, const struct windows *w);
void db_spikes(struct db *d, const struct blame *b); /* after blame_explained() */
/* A callback for report_opts.each: samples of class vmexit that begin at host TSC from..to. */
void db_span(struct db *d, uint64_t from, uint64_t to);
int db_sample(void *db, const struct report *r, const struct report_sample *s) __must_check;
void db_note(struct db *d, const char *text); /* a remark on what is missing */
/* What it has no room for, as its notes say, too; NULL: nothing. Known after the last event. */
const char *db_lacks(const struct db *d);
int db_finish(struct db *d) __must_check;
uint64_t db_rows(const struct db *d); /* of all tables */
void db_free(struct db *d); /* NULL is fine */
