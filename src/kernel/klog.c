/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * klog.c: the kernel's log, for the few facts that are nowhere else. The ring may have lost the
 * boot lines long ago: nothing found means nothing.
 */
#include "priv.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/klog.h>

#define KLOG_READ_ALL	 3  /* SYSLOG_ACTION_READ_ALL */
#define KLOG_SIZE_BUFFER 10 /* SYSLOG_ACTION_SIZE_BUFFER */
#define KLOG_RECORD_MAX	 8192
#define KLOG_TEXT_MAX	 (64u << 20)

/* After "<6>" and "[    1.234567] " (with "[   T12] " on some kernels), as far as present. */
static const char *skip_prefix(const char *p)
{
	if (*p == '<' && isdigit((unsigned char)p[1])) {
		const char *end = p + 1 + strspn(p + 1, "0123456789");

		if (*end == '>')
			p = end + 1;
	}
	while (*p == '[') {
		const char *inside = p + 1 + strspn(p + 1, " ");
		const char *end;

		if (*inside == 'T' || *inside == 'C')
			inside++;
		end = inside + strspn(inside, "0123456789.");
		if (end == inside || *end != ']')
			break;
		p = end + 1;
		p += *p == ' ';
	}
	return p;
}

static int read_syslog(char **text)
{
	int size = klogctl(KLOG_SIZE_BUFFER, NULL, 0);
	char *buf;
	int n;

	if (size <= 0)
		return size ? -errno : -ENODATA;
	/* Prefixes are added while reading, and what does not fit is dropped from the old end. */
	size = size > (1 << 28) ? size : size * 2 + (1 << 16);
	buf = malloc((size_t)size + 1);
	if (!buf)
		return -ENOMEM;
	n = klogctl(KLOG_READ_ALL, buf, size);
	if (n < 0) {
		n = -errno;
		free(buf);
		return n;
	}
	buf[n] = '\0';
	*text = buf;
	return 0;
}

static int read_kmsg(char **log)
{
	_cleanup_close_ int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char rec[KLOG_RECORD_MAX + 1];
	const char *text;
	struct sbuf b = { 0 };

	if (fd < 0)
		return -errno;
	while (b.len < KLOG_TEXT_MAX) {
		ssize_t n = read(fd, rec, KLOG_RECORD_MAX);

		if (n < 0 &&
		    (errno == EPIPE || errno == EINTR)) /* overwritten: continue */
			continue;
		if (n <= 0)
			break;
		/* "prio,seq,usec,flags;text\n", and further lines that begin with a blank */
		rec[n] = '\0';
		text = strchr(rec, ';');
		if (text)
			sbuf_addf(&b, "%.*s\n", (int)strcspn(text + 1, "\n"), text + 1);
	}
	*log = sbuf_take(&b);
	return *log ? 0 : -ENOMEM;
}

int klog_read(char **text, struct kvmft_err *err)
{
	int got, got2;

	*text = NULL;
	got = read_syslog(text);
	if (!got) {
		char *to = *text;

		for (const char *p = *text; *p;) {
			const char *from = skip_prefix(p);
			const char *end = strchr(from, '\n');
			size_t len = end ? (size_t)(end - from) + 1 : strlen(from);

			memmove(to, from, len);
			to += len;
			p = from + len;
		}
		*to = '\0';
		return 0;
	}
	got2 = read_kmsg(text);
	if (!got2)
		return 0;
	return err_lack(err, -got, "cannot read the kernel log: %s%s", strerror(-got),
			got == -EPERM ? " (run as root, or sysctl kernel.dmesg_restrict=0)" : "");
}

int klog_find_in(const char *text, const char *needle, klog_fn fn, void *arg)
{
	for (const char *p = text; (p = strstr(p, needle));) {
		const char *from = p, *end = strchr(p, '\n');
		_cleanup_free_ char *line = NULL;
		int got;

		while (from > text && from[-1] != '\n')
			from--;
		line = end ? strndup(from, (size_t)(end - from)) : strdup(from);
		if (!line)
			return -ENOMEM;
		got = fn(line, arg);
		if (got || !end)
			return got;
		p = end + 1;
	}
	return 0;
}

/* ---- sched_clock() ---- */

static int take_sched(const char *line, void *arg)
{
	struct klog_sched *s = arg;
	int64_t a, b, c, d;
	int used = 0;
	uint64_t v;

	s->unstable |= str_starts(line, "sched_clock: Marking unstable");
	if (sscanf(line, "kvm-clock: using sched offset of %" SCNu64 " cycles%n", &v, &used) == 1 &&
	    used) {
		s->has_kvm = true;
		s->kvm_sched_clock_offset = (int64_t)v;
	}
	if (sscanf(line, "sched_clock: Marking stable (%" SCNd64 ", %" SCNd64 ")->(%" SCNd64
		   ", %" SCNd64 ")%n", &a, &b, &c, &d, &used) == 4 && used) {
		s->has_kernel = true;
		s->kernel_sched_offset = d;
	}
	return 0;
}

int klog_parse_sched(const char *text, struct klog_sched *s)
{
	int got;

	*s = (struct klog_sched){ 0 };
	got = klog_find_in(text, "kvm-clock: using sched offset of ", take_sched, s);
	return got ?: klog_find_in(text, "sched_clock: Marking ", take_sched, s);
}
