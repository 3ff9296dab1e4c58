/* SPDX-License-Identifier: GPL-2.0-or-later */
/* captures.h: what the commands that read captures put in the place of a session's directory. */
#pragma once

#include "kvmft/cli.h"
#include "kvmft/capture.h"

/* HOST GUEST[=SEL]... in the place of the operand `at`, if that is a session and there is one. */
int captures_at(struct operands *o, int at, struct kvmft_err *err) __must_check;
/*
 * The same for an option: *input becomes the host. s: the session, to be freed by the caller with
 * session_free(); it has n = 0 if *input is not one.
 */
int captures_host(struct operands *o, const char **input, struct session *s,
		  struct kvmft_err *err) __must_check;
/* A copy of text that lives as long as the operands. */
const char *captures_word(struct operands *o, const char *text);
/* Likewise, with the session's guests before the operands. */
int captures_session(struct operands *o, const char **input, struct kvmft_err *err) __must_check;
/* .sessions of commands whose operands are HOST GUEST... */
int captures_first(void *opts, struct operands *o, struct kvmft_err *err) __must_check;

/*
 * The captures that a path stands for: itself, if it is one or not a directory; else all hosts'
 * captures below it, sorted by name; sessions: or whole sessions. Links are not followed. *list
 * gets texts that live as long as the operands.
 */
int captures_below(struct operands *o, const char *path, bool sessions, struct str_list *list,
	      struct kvmft_err *err) __must_check;

struct record_config;
/* What the program that reads is told, beside its name and --live. */
struct captures_live {
	const char *format, *sel; /* sel: only this VM; NULL: all */
	const struct page_opts *page;
	const char *more[3]; /* further words; NULL: none */
};
/*
 * Records this host, its default events, for as long as `host` says, and has command `name` of this
 * program read that. It is gone then.
 */
int captures_live(const char *name, struct record_config *host, const struct captures_live *l,
		  struct kvmft_err *err) __must_check;
/* For a short one of those: returns when it has ended. */
int captures_wait(const char *path, struct kvmft_err *err) __must_check;

/* Whether a path is a directory, and not a capture: a session, or a tree of them. */
bool captures_tree(const char *path);
