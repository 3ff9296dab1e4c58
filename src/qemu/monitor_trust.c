/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * monitor_trust.c: whether to trust a process that calls itself QEMU about where its monitor is.
 *
 * Anyone can run a program called qemu-system-x86_64 whose command line names a socket of root's.
 * So somebody else's process must hold a VM of KVM, its sockets are opened and connected to with
 * its user's rights, not ours, and the one who answers must be that very process.
 */
#include "kvmft/ktext.h"
#include "kvmft/vm_proc.h"
#include "monitor_internal.h"

#include <grp.h>
#include <sys/socket.h>

#define STATUS_MAX   65536
#define NET_UNIX_MAX (16u << 20)
#define IDS	     4 /* real, effective, saved, of the file system */
#define LISTENING    0x10000 /* __SO_ACCEPTCON of /proc/net/unix */

/* ---- whose process it is ---- */

/* All ids of a line, which must be the same. */
static int one_id(const char *p, uint32_t *id)
{
	uint32_t v[IDS];

	for (int i = 0; p && i < IDS; i++) {
		p += strspn(p, " \t");
		if (!vm_text_u32(&p, &v[i]))
			return -EINVAL;
	}
	if (!p || v[0] != v[1] || v[0] != v[2] || v[0] != v[3])
		return -EPERM;
	*id = v[0];
	return 0;
}

static int read_groups(const char *p, struct mon_owner *o)
{
	gid_t id;

	while (p && *p && *p != '\n') {
		p += strspn(p, " \t");
		if (!vm_text_u32(&p, &id))
			break;
		if (array_add(&o->group, &o->ngroup, &o->group_cap, &id, sizeof(*o->group)))
			return -ENOMEM;
	}
	return 0;
}

static int read_owner(int procfd, const struct vm *vm, struct mon_owner *o)
{
	_cleanup_free_ char *text = NULL;
	char path[32];
	ssize_t n;
	int ret;

	snprintf(path, sizeof(path), "%u/status", vm->pid);
	n = file_read_all(procfd, path, STATUS_MAX, &text);
	if (n < 0)
		return (int)n;
	ret = one_id(ktext_value(text, "Uid"), &o->uid);
	ret = ret ?: one_id(ktext_value(text, "Gid"), &o->gid);
	return ret ?: read_groups(ktext_value(text, "Groups"), o);
}

/* 1, 0, or -errno if we may not look. */
static int holds_vm(int procfd, uint32_t pid)
{
	_cleanup_(vm_procs_free) struct vm_procs procs = { 0 };
	int ret = vm_procs_scan_some(procfd, &pid, 1, &procs);
	bool found = false;

	for (size_t i = 0; procs.n && i < procs.v[0].n; i++)
		found |= procs.v[0].fd[i].is_vm;
	if (!ret && !found && procs.n_hidden)
		ret = -EACCES;
	return ret ?: found;
}

int mon_owner_read(int procfd, const struct vm *vm, struct mon_owner *o, struct kvmft_err *err)
{
	int ret;

	*o = (struct mon_owner){ 0 };
	ret = read_owner(procfd, vm, o);
	if (ret == -EPERM)
		return err_set(
			err, EPERM,
			"process %u (%s) is refused: it runs with the rights of several users",
			vm->pid, vm->vmm);
	if (ret)
		return err_why(err, ret, "process %u (%s) is refused: its owner cannot be determined",
			       vm->pid, vm->vmm);
	o->ours = o->uid == geteuid();
	if (o->ours)
		return 0;
	if (geteuid())
		return err_lack(
			err, EPERM,
			"process %u (%s) is refused: it belongs to user %u: run as root, or as "
			"that user",
			vm->pid, vm->vmm, o->uid);
	ret = holds_vm(procfd, vm->pid);
	if (ret > 0)
		return 0;
	return err_set(err, EPERM,
		       "process %u (%s) of user %u is refused: %s; if it is a QEMU to be trusted, "
		       "name its socket: --qmp SOCKET",
		       vm->pid, vm->vmm, o->uid,
		       ret ? "cannot tell whether it holds a KVM VM"
			   : "it holds no VM of KVM");
}

void mon_owner_free(struct mon_owner *o)
{
	free(o->group);
	free(o->own_group);
	*o = (struct mon_owner){ 0 };
}

/* ---- acting as that user ---- */

int mon_owner_begin(struct mon_owner *o)
{
	int n = o->ours ? 0 : getgroups(0, NULL);

	if (o->ours)
		return 0;
	if (n < 0)
		return -errno;
	o->own_group = calloc((size_t)n + 1, sizeof(*o->own_group));
	if (!o->own_group)
		return -ENOMEM;
	n = getgroups(n, o->own_group);
	o->own_gid = getegid();
	o->own_uid = geteuid();
	if (n < 0)
		return -errno;
	o->own_groups = (size_t)n;
	o->acting = true;
	if (setgroups(o->ngroup, o->group) || setegid(o->gid) || seteuid(o->uid)) {
		n = -errno;
		return mon_owner_end(o) ? -EPERM : n;
	}
	return 0;
}

int mon_owner_end(struct mon_owner *o)
{
	int ret = 0;

	if (!o->acting)
		return 0;
	if (seteuid(o->own_uid) || setegid(o->own_gid) || setgroups(o->own_groups, o->own_group))
		ret = -errno;
	free(o->own_group);
	o->own_group = NULL;
	o->acting = false;
	return ret;
}

/* ---- who answers ---- */

/* A line of /proc/PID/net/unix. */
struct unix_line {
	const char *inode, *path;
	bool listens;
};

static bool unix_next(char **table, struct unix_line *u)
{
	while (*table && **table) {
		char *line = *table;
		size_t n = strcspn(line, "\n");
		unsigned int flags;
		int inode = 0, end = 0;

		*table = line + n + !!line[n];
		line[n] = '\0';
		/* "...: 00000002 00000000 00010000 0001 01 12345 /run/x" */
		if (sscanf(line, "%*s %*s %*s %x %*s %*s %n%*s%n", &flags, &inode, &end) != 1 ||
		    !end)
			continue;
		u->listens = flags & LISTENING;
		u->inode = line + inode;
		u->path = line[end] ? line + end + 1 : line + end;
		line[end] = '\0';
		return true;
	}
	return false;
}

static int unix_table(int procfd, uint32_t pid, char **table)
{
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "%u/net/unix", pid);
	n = file_read_all(procfd, path, NET_UNIX_MAX, table);
	return n < 0 ? (int)n : 0;
}

char *mon_path_of_fd(int procfd, const struct vm *vm, int fd)
{
	_cleanup_free_ char *table = NULL;
	char path[64], link[64], *at;
	struct unix_line u;
	ssize_t n;

	snprintf(path, sizeof(path), "%u/fd/%d", vm->pid, fd);
	n = readlinkat(procfd, path, link, sizeof(link) - 1);
	if (n <= 0)
		return NULL;
	link[n] = '\0';
	if (!str_starts(link, "socket:[") || link[n - 1] != ']')
		return NULL;
	link[n - 1] = '\0';
	if (unix_table(procfd, vm->pid, &table))
		return NULL;
	for (at = table; unix_next(&at, &u);)
		if (!strcmp(u.inode, link + strlen("socket:[")))
			return *u.path ? strdup(u.path) : NULL;
	return NULL;
}

static bool holds_socket(int procfd, uint32_t pid, const char *inode)
{
	char path[32], want[64], link[64];
	_cleanup_dir_ DIR *dir = NULL;
	size_t looked = 0;
	uint32_t fd;

	snprintf(path, sizeof(path), "%u/fd", pid);
	snprintf(want, sizeof(want), "socket:[%s]", inode);
	dir = dir_open(procfd, path);
	while (dir && vm_dir_next_u32(dir, &fd) && ++looked <= VM_MAX_FDS) {
		ssize_t n;

		snprintf(path, sizeof(path), "%u", fd);
		n = readlinkat(dirfd(dir), path, link, sizeof(link) - 1);
		if (n > 0 && (link[n] = '\0', !strcmp(link, want)))
			return true;
	}
	return false;
}

/* Whoever listens under this path, if anyone, is that process. */
static bool holds_listeners(int procfd, uint32_t pid, const char *path)
{
	_cleanup_free_ char *table = NULL;
	struct unix_line u;
	bool found = false;
	char *at;

	if (unix_table(procfd, pid, &table))
		return false;
	for (at = table; unix_next(&at, &u);) {
		if (!u.listens || strcmp(u.path, path))
			continue;
		if (!holds_socket(procfd, pid, u.inode))
			return false;
		found = true;
	}
	return found;
}

int mon_peer_check(int fd, const struct mon_peer *p, struct kvmft_err *err)
{
	struct ucred c = { 0 };
	socklen_t n = sizeof(c);
	uint64_t start;
	uint32_t ppid;

	if (vm_proc_stat(p->procfd, p->vm->pid, &ppid, &start) || start != p->vm->start_time)
		return err_set(err, ESRCH, "QEMU %u has ended", p->vm->pid);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) < 0)
		c.pid = 0;
	/* Made by another process and handed to QEMU, as libvirt does. */
	if (c.pid == (pid_t)p->vm->pid || holds_listeners(p->procfd, p->vm->pid, p->path))
		return 0;
	return err_set(err, EPERM, "refused: process %d answers there, not QEMU %u",
		       (int)c.pid, p->vm->pid);
}
