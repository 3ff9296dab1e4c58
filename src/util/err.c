/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * err.c: one line of explanation that travels up beside a -errno.
 *
 * The text may quote names from files or guests, so it is cleaned here once and can then be printed
 * on a terminal as it is.
 */
#include "kvmft/util.h"

#define TEXT_MAX sizeof(((struct kvmft_err *)NULL)->text) /* err itself may be NULL */

static __printf(3, 0) void err_fill(struct kvmft_err *err, int code, const char *fmt, va_list ap)
{
	/* Not straight into err->text: callers add context with "%s: ...", err->text. */
	char text[TEXT_MAX];

	if (!err)
		return;
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		text[0] = '\0';
	str_printable(text);
	memcpy(err->text, text, sizeof(text));
	err->code = code;
}

/* Callers hold errors in both signs; an error that reads as success would be the worst of all. */
static int err_negative(int errnum)
{
	if (!errnum)
		return -EIO;
	return errnum > 0 ? -errnum : errnum;
}

int err_set(struct kvmft_err *err, int errnum, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_fill(err, KVMFT_FAILED, fmt, ap);
	va_end(ap);
	return err_negative(errnum);
}

int err_why(struct kvmft_err *err, int errnum, const char *fmt, ...)
{
	char what[TEXT_MAX];
	va_list ap;

	if (!errnum)
		return 0;
	va_start(ap, fmt);
	if (vsnprintf(what, sizeof(what), fmt, ap) < 0)
		what[0] = '\0';
	va_end(ap);
	return err_set(err, errnum, "%s: %s", what, strerror(abs(errnum)));
}

int err_lack(struct kvmft_err *err, int errnum, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_fill(err, KVMFT_LACKING, fmt, ap);
	va_end(ap);
	return err_negative(errnum);
}

int err_usage(struct kvmft_err *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_fill(err, KVMFT_USAGE, fmt, ap);
	va_end(ap);
	return -EINVAL;
}
