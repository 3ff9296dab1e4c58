/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * met.c: which QEMUs were seen: program, version and trace back ends, into the capture. Those are
 * the QEMUs of the VMs of this host, of --qemu, and COMMAND or what it starts.
 */
#include "record.h"

#include <inttypes.h>
#include <limits.h>
#include <poll.h>

#define EXEC_WAIT_MS 100

void record_met_line(struct sbuf *line, uint32_t pid, const struct mon_program *p)
{
	meta_begin(line, "qemu");
	meta_u64(line, "pid", pid);
	meta_str(line, "binary", p->path.s);
	meta_str(line, "backends", p->backends.s);
	meta_str(line, "found", p->found.s);
}

static bool is_met(const struct record *r, uint32_t pid)
{
	for (size_t i = 0; i < r->met.n; i++)
		if (r->met.v[i] == pid)
			return true;
	return false;
}

static void met_add(struct record *r, uint32_t pid)
{
	(void)!array_add(&r->met.v, &r->met.n, &r->met.cap, &pid, sizeof(pid));
}

void record_met_told(struct record *r, const char *line)
{
	unsigned int pid;

	if (sscanf(line, "qemu pid=%u ", &pid) == 1 && !is_met(r, pid))
		met_add(r, pid);
}

/* By its file's name: searching the file takes milliseconds, too much for most programs. */
static bool may_be_qemu(uint32_t pid)
{
	char path[64], link[PATH_MAX];
	const char *name;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/exe", pid);
	n = readlink(path, link, sizeof(link) - 1);
	if (n <= 0)
		return false;
	link[n] = '\0';
	name = strrchr(link, '/');
	return name && (strstr(name, "qemu") || !strcmp(name, "/kvm"));
}

int record_met_look(uint32_t pid, struct sbuf *line)
{
	struct mon_program p = { .path = { 0 } };

	if (!may_be_qemu(pid))
		return 0;
	(void)!mon_program_read(NULL, pid, &p);
	if (p.version.len) {
		record_met_line(line, pid, &p);
		meta_str(line, "version", p.version.s);
	}
	mon_program_free(&p);
	return line->error;
}

int record_met(struct record *r, uint32_t pid)
{
	int ret;

	if (!pid || is_met(r, pid))
		return 0;
	sbuf_reset(&r->line);
	ret = record_look_qemu(r, pid, &r->line);
	if (ret || !r->line.len)
		return ret;
	met_add(r, pid);
	return record_put(r);
}

/* A shell, env or timeout that started it. */
static int met_children(struct record *r, int pid)
{
	_cleanup_free_ char *text = NULL;
	char *save = NULL, *word;
	int ret = record_look_children(r, (uint32_t)pid, &text);

	if (ret)
		return ret;
	for (word = strtok_r(text, " ", &save); word && !ret; word = strtok_r(NULL, " ", &save)) {
		uint64_t child;

		if (!parse_u64(word, &child) && child <= INT32_MAX)
			ret = record_met(r, (uint32_t)child);
	}
	return ret;
}

int record_met_command(struct record *r, const struct record_child *c, bool begin)
{
	struct pollfd p = { .fd = c->p.from, .events = POLLIN };
	int ret;

	if (c->p.pid <= 0 || !(r->side & CAP_SIDE_HOST))
		return 0;
	/* At its exec() the pipe is closed: then it is the requested program. */
	if (begin && poll(&p, 1, EXEC_WAIT_MS) < 0)
		errno = 0;
	ret = record_met(r, (uint32_t)c->p.pid);
	return ret ?: met_children(r, c->p.pid);
}
