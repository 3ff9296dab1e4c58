/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sides.h: the parts of a recording of several machines.
 *
 * run.c	the order in which sides begin and end, and the file that says so
 * start.c	--guest and what goes with it, the session's directory, the processes of sides begun
 * process.c	the processes of a side; kvmft receive
 * agent.c	a QEMU guest agent is asked, the process that reaches a guest by it, and a program
 *		for guests that have none
 */
#pragma once

#include "kvmft/capture.h"
#include "kvmft/json_read.h"
#include "kvmft/record.h"
#include "kvmft/sides.h"
#include "kvmft/stream.h"
#include "kvmft/util.h"
#include "kvmft/vm.h"

#define SIDES_MAX_GUESTS 64
#define SIDES_HOST	 "host" /* name of the host's side, and of its capture */

/* What a process of ours says, in one piece, because it is shorter than PIPE_BUF. */
enum said {
	SAID_PROGRESS, /* news or progress */
	SAID_LIVE,
	SAID_FIRED,    /* of the host: its flight recorder was triggered */
	SAID_WRITTEN,  /* ... and it has written out its ring */
	SAID_COMMAND,  /* of the host: it ended with status */
	SAID_END,      /* the last one: ret and err, or status, an exit code */
};

struct side_said {
	enum said what;
	int ret, status;
	struct stream_news news;
	struct record_progress progress;
	struct kvmft_err err;
};

struct side_spec {
	char *name;
	struct remote_words command; /* prefix, or what asks the agent */
	const char *agent;	     /* its guest agent's socket, or command; NULL = none */
	char *text;		     /* what words and agent are cut from */
};

enum side_state {
	SIDE_STARTING,
	SIDE_LIVE,
	SIDE_STOPPING, /* it was told to end */
	SIDE_ENDED,
};

/* A program that is copied into a guest. */
struct side_push {
	pid_t pid;	/* of the process that does it; 0 = none */
	int to, from;	/* pipes to and from that process */
	char path[160]; /* of the program in the guest; "" = it was not copied */
};

struct side {
	const struct side_spec *spec; /* NULL: the host */
	const char *name;
	enum side_state state;
	pid_t teller;	 /* of host.c or store.c; 0 = gone */
	pid_t transport; /* reaches into the guest; 0 = gone, or none */
	int status;	 /* of waitpid(), of transport */
	int to;		 /* where orders go */
	int from;	 /* from teller */
	int words;	 /* standard error of transport */
	struct sbuf line; /* what came of a line of that */
	char last[400];	 /* the last whole one */
	unsigned int told; /* lines */
	bool untold;	 /* ... which is printed if it begins, or is the reason why it does not */
	struct stream_news news;
	struct record_progress progress;
	bool live, command_done, stalled, killed;
	bool failed; /* it did not begin, which was reported */
	bool late;   /* it took too long to begin, and was given up */
	bool owes;   /* it was asked to write out its ring, and has not done so yet */
	uint64_t fired_ns, fired_wait; /* its trigger last counted then, and next so much later */
	bool fired_again;	       /* one came meanwhile */
	int ret, exit_code;
	struct kvmft_err err;
	uint64_t begun; /* util_now_ns() when it was started, later: told to end */
	uint64_t since; /* util_now_ns() of the last byte, and of the order to stop */
	uint32_t vm_pid; /* VMM of the VM that it is known to be; 0: unknown, or gone and
			  * reported */
	uint64_t vm_gone_ns; /* util_now_ns() when that was first missed */
	struct capw_name place; /* of a guest's capture */
	struct capw *w;
	struct side_push push;
};

#define SIDES_SECOND 1000000000ull
#define SIDE_BEGIN_NS (60 * SIDES_SECOND) /* of a guest that is to begin */

/* The command that is run each time all sides have written out their rings. */
struct snapshots {
	struct remote_words words; /* n = 0: there is none */
	uint64_t asked_ns;	   /* since when rings are waited for; 0 = they are not */
	pid_t pid;		   /* of the command; 0 = it does not run */
	bool over;		   /* that is --on-over's */
	bool ever;		   /* a snapshot was requested at all */
};

struct sides {
	const struct sides_config *c;
	struct record_config *host;
	char **argv;
	note_fn *note;
	struct kvmft_err *err;
	struct side_spec *spec;
	size_t nspec;
	struct side *side; /* the host, then the guests */
	size_t n;
	int parent, dir, file, sigfd;
	struct vm_list *vms;
	char *base, *shown; /* "run", "run/" */
	const char *why;    /* it ends; NULL = not yet */
	pid_t reader;	    /* 0 = gone, or none */
	int reader_status;
	struct snapshots snapshots;
	bool all_live, command_done, told_alone;
	bool reader_killed, blame_killed; /* by the second signal */
	uint64_t live_ns, tick_ns, signal_ns;
	uint32_t signo; /* the first, at signal_ns */
	mode_t umask;
};

/* All that return an int: 0 or a negative errno, with err or x->err set. */

/* ---- run.c ---- */

int sides_put(struct sides *x,
	      struct sbuf *line) __must_check; /* into the session's file; no err */

/* ---- start.c ---- */

/* Parses the list of guests into (*spec)[*n], which undo() of run.c frees. */
int side_specs(const struct sides_config *s, struct side_spec **spec, size_t *n,
	       struct kvmft_err *err) __must_check;
/* Splits text at blanks; quotes and backslashes protect, nothing else. what: for messages. */
int side_split(const char *text, const char *what, struct remote_words *w,
	       struct kvmft_err *err) __must_check;

/* The session's directory, and the file in it that says what belongs together. */
int sides_make_dir(struct sides *x) __must_check;
/* Nothing was recorded, or it was not meant to be kept: removes all traces of it. */
void sides_remove_dir(struct sides *x);
/* Starts the processes of a side; it reports when it records. */
int sides_start_host(struct sides *x) __must_check;
int sides_start_guest(struct sides *x, struct side *s) __must_check;

/* ---- process.c ---- */

int side_pipe(int fds[2], struct kvmft_err *err) __must_check;
/* Starts a process that runs fn, which does not return, with its end of our pipe. */
typedef void side_fn(void *arg, int said);
int side_fork(struct side *s, side_fn *fn, void *arg, struct kvmft_err *err) __must_check;
/* A shell runs command, with the session's path in KVMFT_SESSION: its PID, or -errno. */
pid_t side_shell(const char *command, const char *session, mode_t mask);
/*
 * Runs prefix and words, where a shell would find it. Descriptors in and out become its standard
 * input and output (borrowed); -1 = /dev/null. *words: its standard error, to be read. Its PID, or
 * -errno.
 */
int side_exec(const struct remote_words *prefix, const char *const *words, int in, int out,
	      int *err_words, struct kvmft_err *err) __must_check;
#define SIDE_ASK_NS 120000000000ull /* a program through a slow line */

struct side_question {
	const struct remote_words *prefix;
	const char *const *words;
	const char *what; /* it is, for messages */
	int input;	  /* a file; -1 = none */
	int hangup;	  /* its result is not wanted any more when this hangs up; -1 = always
			   * wanted */
	size_t max;	  /* at most so many bytes of its output go to */
	struct sbuf *out; /* NULL: none do */
};

/* The same, to its end: its exit status, with err set if that is not 0; -errno with err set. */
int side_ask(const struct side_question *q, struct kvmft_err *err) __must_check;
/* The last line of a program's output, which is cut there. */
const char *side_last_line(struct sbuf *said);
/* Runs this program in directory dir, with these words and "." after them. Its PID, or -errno. */
int side_self(const struct remote_words *words, int dir, struct kvmft_err *err) __must_check;
/* Like side_exec(), but the process runs fn, whose result is its exit status. */
int side_run(int (*fn)(void *arg), void *arg, int in, int out, int *err_words,
	     struct kvmft_err *err) __must_check;
/* What a side's process says, made harmless; stores: one of store.c. 0, -errno, -EPIPE: its end. */
int side_hear(const struct side *s, bool stores, struct side_said *said) __must_check;
/* An order to a side, unless it is gone; -EAGAIN: it has not read thousands of them. */
int side_order(struct side *s, const char *order);
void side_close(struct side *s);

/* These two end the process. */

struct side_host {
	struct record_config *c;
	char **argv;
	int orders;
	note_fn *note;
};
void side_host_main(void *side_host, int said);

struct side_store {
	struct capw *w; /* borrowed */
	int in;
	struct stream_limits limits;
};
void side_store_main(void *side_store, int said);
/* What it keeps for the rest of its life. */
int side_store_confine(const struct capw *w, struct kvmft_err *err) __must_check;
/* What must stay free: as given, or so that a sender without end does not fill the disk. */
uint64_t side_least_free(int dir, const struct opt_u64 *given);

/* ---- agent.c ---- */

/* The process that reaches a guest by its agent, with a command's files; an exit status. */
int side_qga_main(const struct side_spec *spec, const char *program);

/* Starts a process that copies the program there, and removes it when told, or when we end. */
int side_push_start(const struct sides_config *c, struct side *s, struct kvmft_err *err)
	__must_check;
/* It has answered: side_push.path is the program there. 0 or -errno with err set. */
int side_push_take(struct side *s, struct kvmft_err *err) __must_check;
/* runs: it runs there, and has removed itself; else it never will: what is left is removed. */
void side_push_end(struct side *s, bool runs, note_fn *note);
