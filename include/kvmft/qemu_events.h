/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_events.h: trace events as QEMU declares them in a file trace-events-all: names, properties,
 * arguments and print formats; and values printed by such a format, or found again in a text.
 *
 * Syntax of a declaration (docs/devel/tracing.rst and scripts/tracetool in QEMU's source):
 *
 * 	[PROPERTY...] NAME([TYPE ARG, ...| void]) ["FORMAT" MACRO ..., ] "FORMAT" MACRO ...
 *
 * Only the file of the very build that wrote a trace fits: numbers of formats 0 to 3 are positions
 * in it, and argument types are found nowhere else. A file may come from anyone: what cannot be
 * read is left out and noted; formats are interpreted here and never reach the C library's printf.
 */
#pragma once

#include "kvmft/util.h"

#define QEV_MAX_ARGS 12 /* 10 of a declaration, and what vcpu and tcg add in front */
#define QEV_MAX_FILE (16u << 20)

enum qev_prop {
	QEV_DISABLE = 1 << 0,	/* compiled out: back end nop */
	QEV_VCPU = 1 << 1,	/* has a vCPU before its arguments */
	QEV_TCG = 1 << 2,	/* declared as one event, made into two: */
	QEV_TCG_TRANS = 1 << 3, /* ... NAME_trans, when the guest's code is translated */
	QEV_TCG_EXEC = 1 << 4,	/* ... NAME_exec, when it is executed */
};

enum qev_kind { QEV_UNSIGNED, QEV_SIGNED, QEV_POINTER, QEV_STRING };

struct qev_arg {
	char *type, *name; /* as declared: "const char *", "path" */
	enum qev_kind kind;
	uint8_t size;	   /* bytes on x86-64; strings: 0 */
};

struct qev {
	char *name;
	char *format;	     /* macros replaced, escapes undone; "" if there is none */
	bool format_usable;  /* it fits the arguments */
	unsigned int props;  /* enum qev_prop */
	uint32_t line;	     /* of its declaration */
	struct qev_arg arg[QEV_MAX_ARGS];
	size_t nargs;
};

struct qevents;

/*
 * Reads declarations. Lines that declare nothing become notes. -EFBIG; -ENODATA with err: the text
 * declares no event. name: for messages.
 */
int qevents_parse(const char *text, size_t len, const char *name, struct qevents **out,
		  struct kvmft_err *err) __must_check;
/* The same from a plain file; own: for a name that is not the user's, see file_open_regular(). */
int qevents_load(const char *path, bool own, struct qevents **out,
		 struct kvmft_err *err) __must_check;
void qevents_free(struct qevents *q); /* NULL is fine */
/* In the order of the file, which is that of their numbers; NULL past the last. */
const struct qev *qevents_at(const struct qevents *q, uint64_t i);
size_t qevents_count(const struct qevents *q);
/* name need not end with a NUL; NULL: no such event. Of several, the first. */
const struct qev *qevents_find(const struct qevents *q, const char *name, size_t len);
/* The i-th line that could not be read, as a line of text; NULL past the last. */
const char *qevents_note(const struct qevents *q, size_t i);
/* What the events were read from. */
const char *qevents_name(const struct qevents *q);

/* "disable", "vcpu", ... by bit number; NULL past the last. */
const char *qev_prop_name(unsigned int bit);
extern const char *const qev_kind_names[]; /* "unsigned", "signed", "pointer", "string" */

/* ---- values ---- */

/* An argument: a number, sign-extended when signed; of a string the bytes, not NUL-terminated. */
struct qev_value {
	uint64_t num;
	const char *s; /* NULL: a number */
	uint32_t len;
};

/*
 * Appends the values as printf() would with the event's format on x86-64: conversions d i u x X o c
 * s p, flags, width and precision up to 4096 in total, sizes hh h l ll j z t. Without a usable
 * format, NAME=VALUE pairs. Text is appended as it is: the caller must make it printable.
 */
void qev_print(const struct qev *e, const struct qev_value *v, size_t n, struct sbuf *out);

/*
 * The reverse: the values that were printed as text by the event's format; strings point into text.
 * False if the text does not fit the format (a cut line, another build of QEMU). A conversion
 * yields what it shows: %x of a negative int comes back sign-extended, a cut string as what is
 * left.
 */
bool qev_scan(const struct qev *e, const char *text, size_t len, struct qev_value *v);
