/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * owner.c: whose is it? The names of kvmft's instances and probe groups carry the process that
 * made them, by PID and start time, so that a leftover differs from a live one even when the
 * PID was given out again:
 *
 *	kvmft.PID.STARTTIME.N	an instance
 *	kvmft_PID_STARTTIME	a group of kprobes or uprobes, a synthetic event
 *	kvmft_PID_STARTTIME_N	a further synthetic event
 */
#include "priv.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>

#define STAT_STARTTIME 22 /* number of the field in /proc/PID/stat, counted from 1 */

static int proc_starttime(int32_t pid, uint64_t *start)
{
	_cleanup_free_ char *text = NULL;
	ssize_t got;
	const char *p;

	got = file_read_all(AT_FDCWD, TEXTF("/proc/%" PRId32 "/stat", pid), 4096, &text);
	if (got < 0)
		return (int)got;
	/*
	 * proc(5): the command in parentheses may contain anything, so count from the last ')'. A
	 * zombie has closed all its files: for our purpose it is dead.
	 */
	p = strrchr(text, ')');
	if (!p || p[1] != ' ')
		return -EINVAL;
	if (p[2] == 'Z' || p[2] == 'X')
		return -ESRCH;
	p++;
	for (int field = 3; field < STAT_STARTTIME; field++) {
		p = strchr(p + 1, ' ');
		if (!p)
			return -EINVAL;
	}
	p++;
	return take_u64(&p, UINT64_MAX, start) && strchr(" \n", *p) ? 0 : -EINVAL;
}

int kowner_self(struct kowner *o)
{
	*o = (struct kowner){ .pid = (int32_t)getpid() };
	return proc_starttime(o->pid, &o->start);
}

/* One canonical decimal number (no sign, no leading zero), up to end or sep. */
static int owner_number(const char **s, char sep, uint64_t max, uint64_t *v)
{
	if ((**s == '0' && isdigit((unsigned char)(*s)[1])) || !take_u64(s, max, v) || **s != sep)
		return -EINVAL;
	*s += **s != '\0';
	return 0;
}

int kowner_parse(const char *name, char sep, struct kowner *o)
{
	uint64_t pid, start, seq = 0;
	const char *second;
	bool numbered;

	if (!str_starts(name, "kvmft") || name[5] != sep)
		return -EINVAL;
	name += 6;
	second = strchr(name, sep);
	numbered = sep == '.' || (second && strchr(second + 1, sep));
	if (owner_number(&name, sep, INT32_MAX, &pid) || !pid ||
	    owner_number(&name, numbered ? sep : '\0', UINT64_MAX, &start) ||
	    (numbered && owner_number(&name, '\0', UINT32_MAX, &seq)))
		return -EINVAL;
	*o = (struct kowner){ .pid = (int32_t)pid, .start = start, .seq = (uint32_t)seq };
	return 0;
}

int kowner_format(const struct kowner *o, char sep, char *buf, size_t size)
{
	int n;

	if (sep == '.')
		n = snprintf(buf, size, "kvmft.%" PRId32 ".%" PRIu64 ".%" PRIu32, o->pid, o->start,
			     o->seq);
	else
		n = snprintf(buf, size, o->seq ? "kvmft%c%" PRId32 "%c%" PRIu64 "%c%" PRIu32 :
						 "kvmft%c%" PRId32 "%c%" PRIu64,
			     sep, o->pid, sep, o->start, sep, o->seq);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

bool kowner_alive(const struct kowner *o)
{
	uint64_t start;
	int err = proc_starttime(o->pid, &start);

	if (!err)
		return start == o->start;
	/* Only "no such process" proves death; hidepid or a full table does not. */
	return err != -ENOENT && err != -ESRCH;
}
