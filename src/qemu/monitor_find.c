/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * monitor_find.c: from a QEMU process to a monitor that answers.
 *
 * The path of a socket is what QEMU was given: it is relative to QEMU's root and working directory,
 * which need not be ours (containers, -chroot, a service's directory). So the socket is opened
 * through /proc/PID/root or /proc/PID/cwd, and connected to by that descriptor.
 */
#include "monitor_internal.h"
#include "kvmft/util.h"
#include "kvmft/qemu.h"
#include "kvmft/vm.h"

#include <grp.h>
#include <linux/openat2.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/*
 * The monitors that a QEMU command line asks for. Pure text.
 *
 *   -qmp DEV | -qmp-pretty DEV         QMP
 *   -monitor DEV                       HMP
 *   -mon [chardev=]ID[,mode=control]   QMP with mode=control, else HMP
 *   -serial mon:DEV and the like       HMP that shares its place with a console
 *
 * DEV is unix:PATH[,server[=on]][,wait=off], chardev:ID, or a place that nobody else can connect
 * to. -chardev socket,id=ID,path=PATH|fd=N[,abstract=on][,server=on] is what an ID stands for.
 */

#define PATH_MOST 4096

/* A socket as options describe it: -chardev socket,... and unix:... use the same words. */
struct dev {
	struct vm_span kind, id, path, fd;
	bool server, abstract, tcp;
};

/* "server", "server=on": a switch that is only named is on; "noserver", "server=off" is off. */
static void take_bool(struct vm_span item, const char *key, bool *to)
{
	struct vm_span v;

	if (vm_span_is(item, key))
		*to = true;
	else if (vm_item_value(item, key, &v))
		*to = vm_span_is(v, "on") || vm_span_is(v, "yes") || vm_span_is(v, "true") ||
		      vm_span_is(v, "y");
	else if (item.n > 2 && !memcmp(item.p, "no", 2) &&
		 vm_span_is((struct vm_span){ item.p + 2, item.n - 2 }, key))
		*to = false;
}

static void dev_take_item(struct dev *d, struct vm_span item)
{
	struct vm_span v;

	vm_item_value(item, "backend", &d->kind);
	vm_item_value(item, "id", &d->id);
	vm_item_value(item, "path", &d->path);
	vm_item_value(item, "fd", &d->fd);
	if (vm_item_value(item, "host", &v) || vm_item_value(item, "port", &v))
		d->tcp = true;
	take_bool(item, "server", &d->server);
	take_bool(item, "abstract", &d->abstract);
}

/* The last -chardev with this id; false when there is none. */
static bool find_chardev(struct vm_span args, struct vm_span id, struct dev *d)
{
	struct vm_span arg, value;
	bool found = false;

	while (vm_args_next(&args, &arg)) {
		if (!vm_span_is(arg, "-chardev") && !vm_span_is(arg, "--chardev"))
			continue;
		if (!vm_args_next(&args, &value))
			break;
		struct dev one = { .server = false };

		for (bool first = true; vm_list_next(&value, &arg); first = false) {
			if (first && !memchr(arg.p, '=', arg.n))
				one.kind = arg;
			else
				dev_take_item(&one, arg);
		}
		if (id.n && one.id.n == id.n && !memcmp(one.id.p, id.p, id.n)) {
			*d = one;
			found = true;
		}
	}
	return found;
}

static int mon_place_add(struct mon_places *p, enum mon_kind kind, struct vm_span option,
			 struct vm_span value, const struct dev *d, bool found)
{
	struct mon_place *slot = array_grow(&p->v, p->n, &p->cap, sizeof(*slot));
	const char *why = NULL;
	char text[16];
	uint64_t fd;
	struct sbuf b = { 0 };

	if (!slot)
		return -ENOMEM;
	p->n++;
	slot->kind = kind;
	snprintf(text, sizeof(text), "%.*s", (int)MIN(d->fd.n, sizeof(text)), d->fd.p ?: "");
	slot->fd = d->fd.n >= sizeof(text) || parse_u64(text, &fd) || fd > INT32_MAX ? -1 : (int)fd;
	slot->abstract = d->abstract;
	sbuf_add_mem(&b, option.p, MIN(option.n, (size_t)32));
	sbuf_addc(&b, ' ');
	sbuf_add_mem(&b, value.p, MIN(value.n, (size_t)200));
	slot->spelling = sbuf_take(&b);
	if (!slot->spelling)
		return -ENOMEM;
	str_printable(slot->spelling);
	/* Why nobody else can connect. */
	if (!found)
		why = "it is on a chardev that the command line does not have";
	else if (d->tcp || (d->kind.n >= 4 && !memcmp(d->kind.p, "tcp:", 4)) ||
		 (d->kind.n >= 7 && !memcmp(d->kind.p, "telnet:", 7)))
		why = "it is on TCP, and kvmft connects only to unix sockets";
	else if (!vm_span_is(d->kind, "socket") || (!d->path.n && !d->fd.n))
		why = "it is not a socket that others can connect to";
	else if (d->path.n && !d->server)
		why = "QEMU is the client there (no server=on): it connects out instead of listening";
	if (why) {
		slot->why_not = strdup(why);
		if (!slot->why_not)
			return -ENOMEM;
	}
	if (d->path.n) {
		slot->path = vm_span_copy(d->path, true, PATH_MOST);
		if (!slot->path)
			return -ENOMEM;
	}
	return 0;
}

/* DEV of -qmp and -monitor; "none" asks for nothing. */
static int take_dev(struct mon_places *p, struct vm_span all, enum mon_kind kind,
		    struct vm_span option, struct vm_span value)
{
	static const char chardev[] = "chardev:", unix_[] = "unix:";
	size_t n = strlen(chardev), u = strlen(unix_);
	struct dev d = { .kind = value };
	struct vm_span item, list;
	bool found = true;

	if (vm_span_is(value, "none") || vm_span_is(value, "null"))
		return 0;
	if (value.n > n && !memcmp(value.p, chardev, n)) {
		d = (struct dev){ 0 };
		found = find_chardev(all, (struct vm_span){ value.p + n, value.n - n }, &d);
	} else if (value.n >= u && !memcmp(value.p, unix_, u)) {
		/* "unix:/run/x,server=on": as the options of a chardev. */
		d.kind = (struct vm_span){ "socket", 6 };
		list = (struct vm_span){ value.p + u, value.n - u };
		for (bool first = true; vm_list_next(&list, &item); first = false) {
			if (first && !vm_item_value(item, "path", &d.path))
				d.path = item;
			else if (!first)
				dev_take_item(&d, item);
		}
	}
	return mon_place_add(p, kind, option, value, &d, found);
}

static int take_option(struct mon_places *p, struct vm_span all, struct vm_span option,
		       struct vm_span value)
{
	struct vm_span name = option;

	name.p++;
	name.n--;
	if (name.n && *name.p == '-') {
		name.p++;
		name.n--;
	}
	if (vm_span_is(name, "qmp") || vm_span_is(name, "qmp-pretty"))
		return take_dev(p, all, MON_QMP, option, value);
	if (vm_span_is(name, "monitor"))
		return take_dev(p, all, MON_HMP, option, value);
	if (vm_span_is(name, "mon")) {
		struct vm_span list = value, item, id = { 0 }, mode = { 0 };
		struct dev d = { 0 };

		for (bool first = true; vm_list_next(&list, &item); first = false) {
			if (first && !memchr(item.p, '=', item.n))
				id = item;
			vm_item_value(item, "chardev", &id);
			vm_item_value(item, "mode", &mode);
		}
		return mon_place_add(p, vm_span_is(mode, "control") ? MON_QMP : MON_HMP, option,
				     value, &d, find_chardev(all, id, &d));
	}
	/* -serial mon:stdio: a console and HMP on one line */
	if (value.n > 4 && !memcmp(value.p, "mon:", 4))
		return mon_place_add(p, MON_HMP, option, value, &(struct dev){ .kind = value },
				     true);
	return 0;
}

int mon_cmdline_parse(const char *args, size_t len, struct mon_places *p)
{
	struct vm_span all = { args, len }, rest = all, arg, value;
	int ret = 0;

	*p = (struct mon_places){ 0 };
	if (!vm_args_next(&rest, &arg)) /* the program */
		return 0;
	while (!ret && vm_args_next(&rest, &arg)) {
		struct vm_span after = rest;

		if (arg.n < 2 || *arg.p != '-' || !vm_args_next(&after, &value))
			continue;
		ret = take_option(p, all, arg, value);
	}
	if (ret)
		mon_places_free(p);
	return ret;
}

void mon_places_free(struct mon_places *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].spelling);
		free(p->v[i].path);
		free(p->v[i].why_not);
	}
	free(p->v);
	*p = (struct mon_places){ 0 };
}

#define SLOW_MAX 3 /* monitors that do not answer in time; then the others are not tried */

/* ---- processes ---- */

/* 0, also for a process that is not a QEMU or has ended, or -ENOMEM. */
static int add_process(int procfd, uint32_t pid, unsigned int *patience, struct vm_list *list)
{
	struct vm vm = { .pid = pid, .dir_pid = pid, .pid_sure = true }, *slot;
	_cleanup_free_ char *args = NULL;
	struct vm_ident id;
	struct sbuf sel = { 0 };
	struct proc_stat st;
	ssize_t len = 0;

	vm.vmm = vm_proc_vmm(procfd, pid);
	if (!vm.vmm)
		return -ENOMEM;
	if (vm_vmm_is_qemu(vm.vmm))
		len = vm_proc_cmdline(procfd, pid, patience, &args);
	if ((len <= 0 && len != -ETIMEDOUT) || proc_stat(procfd, pid, &st)) {
		free(vm.vmm);
		return len == -ENOMEM ? -ENOMEM : 0;
	}
	vm.start_time = st.start;
	slot = array_grow(&list->vm, list->n, &list->cap, sizeof(*slot));
	sbuf_add_u64(&sel, pid);
	vm.sel = sbuf_take(&sel);
	if (!slot || !vm.sel || vm_cmdline_parse(args, (size_t)MAX(len, 0), vm.vmm, &id)) {
		vm_free_members(&vm);
		return -ENOMEM;
	}
	vm.name = id.name;
	vm.uuid = id.uuid;
	*slot = vm;
	list->n++;
	return 0;
}

COMPARE_BY(compare_pid, struct vm, .pid);

int mon_qemu_scan(struct vm_list **out, struct kvmft_err *err)
{
	_cleanup_close_ int procfd = vm_proc_open(NULL);
	_cleanup_dir_ DIR *dir = procfd < 0 ? NULL : dir_open(procfd, ".");
	unsigned int patience = VM_PATIENCE_MS;
	struct vm_list *list;
	uint32_t pid;
	int ret = 0;

	if (!dir)
		return err_why(err, errno, "cannot read /proc");
	list = calloc(1, sizeof(*list));
	while (list && !ret && vm_dir_next_u32(dir, &pid))
		ret = add_process(procfd, pid, &patience, list);
	if (ret || !list) {
		vm_list_free(list);
		return err_set(err, ENOMEM, "out of memory");
	}
	array_sort(list->vm, list->n, compare_pid);
	*out = list;
	return 0;
}

/* Only debugfs and /proc/PID/fd know PID-FD: it leads to a process id. */
static int find_by_pid_fd(const struct vm_list *list, const char *sel, const struct vm **vm,
			  struct kvmft_err *err)
{
	struct vm_list *all;
	const struct vm *found;
	int ret = vm_scan(NULL, &all, err);

	if (ret)
		return ret;
	ret = vm_list_find(all, sel, &found, err);
	if (!ret) {
		ret = -ENOENT;
		for (size_t i = 0; i < list->n && ret; i++)
			if (list->vm[i].pid == found->pid) {
				*vm = &list->vm[i];
				ret = 0;
			}
		if (ret)
			err_set(err, ENOENT, "VM %s is run by %s, which has no monitor of QEMU",
				sel, found->vmm);
	}
	vm_list_free(all);
	return ret;
}

int mon_qemu_find(const struct vm_list *list, const char *sel, const struct vm **vm,
		  struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	uint32_t pid, fd;

	if (!list->n)
		return err_lack(err, ENOENT, "no QEMU is running here");
	if (sel && vm_name_parse(sel, &pid, &fd))
		return find_by_pid_fd(list, sel, vm, err);
	if (sel)
		return vm_list_find(list, sel, vm, err);
	if (list->n == 1) {
		*vm = &list->vm[0];
		return 0;
	}
	for (size_t i = 0; i < list->n && b.len < 700; i++) {
		if (i)
			sbuf_add(&b, ", ");
		vm_describe(&list->vm[i], &b);
	}
	return err_set(err, EEXIST, "%zu QEMUs run here: choose one with --vm: %s", list->n,
		       b.s ?: "(out of memory)");
}

/*
 * Whether to trust a process that calls itself QEMU about where its monitor is.
 *
 * Anyone can run a program called qemu-system-x86_64 whose command line names a socket of root's.
 * So somebody else's process must hold a VM of KVM, its sockets are opened and connected to with
 * its user's rights, not ours, and the one who answers must be that very process.
 */

#define STATUS_MAX   65536
#define NET_UNIX_MAX (16u << 20)
#define IDS	     4	     /* real, effective, saved, of the file system */
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

static int read_owner(int procfd, const struct vm *vm, struct mon_owner *o)
{
	_cleanup_free_ char *text = NULL;
	const char *p;
	ssize_t n;
	gid_t id;
	int ret;

	n = file_read_all(procfd, TEXTF("%u/status", vm->pid), STATUS_MAX, &text);
	if (n < 0)
		return (int)n;
	ret = one_id(ktext_value(text, "Uid"), &o->uid);
	ret = ret ?: one_id(ktext_value(text, "Gid"), &o->gid);
	for (p = ktext_value(text, "Groups"); !ret && p && *p && *p != '\n';) {
		p += strspn(p, " \t");
		if (!vm_text_u32(&p, &id))
			break;
		ret = array_add(&o->group, &o->ngroup, &o->group_cap, &id, sizeof(*o->group));
	}
	return ret;
}

static int mon_owner_read(int procfd, const struct vm *vm, struct mon_owner *o,
			  struct kvmft_err *err)
{
	_cleanup_(vm_procs_free) struct vm_procs procs = { 0 };
	uint32_t pid = vm->pid;
	bool found = false;
	int ret;

	*o = (struct mon_owner){ 0 };
	ret = read_owner(procfd, vm, o);
	if (ret == -EPERM)
		return err_set(
			err, EPERM,
			"process %u (%s) is refused: it runs with the rights of several users",
			vm->pid, vm->vmm);
	if (ret)
		return err_why(err, ret,
			       "process %u (%s) is refused: its owner cannot be determined",
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
	/* Does it hold a VM? Not known, if we may not look. */
	ret = vm_procs_scan_some(procfd, &pid, 1, &procs);
	for (size_t i = 0; procs.n && i < procs.v[0].n; i++)
		found |= procs.v[0].fd[i].is_vm;
	if (!ret && !found && procs.n_hidden)
		ret = -EACCES;
	ret = ret ?: found;
	if (ret > 0)
		return 0;
	return err_set(err, EPERM,
		       "process %u (%s) of user %u is refused: %s; if it is a QEMU to be trusted, "
		       "name its socket: --monitor SOCKET",
		       vm->pid, vm->vmm, o->uid,
		       ret ? "cannot tell whether it holds a KVM VM" : "it holds no VM of KVM");
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
	ssize_t n;

	n = file_read_all(procfd, TEXTF("%u/net/unix", pid), NET_UNIX_MAX, table);
	return n < 0 ? (int)n : 0;
}

static char *mon_path_of_fd(int procfd, const struct vm *vm, int fd)
{
	_cleanup_free_ char *table = NULL;
	char link[64], *at;
	struct unix_line u;
	ssize_t n;

	n = readlinkat(procfd, TEXTF("%u/fd/%d", vm->pid, fd), link, sizeof(link) - 1);
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
	char want[64], link[64];
	_cleanup_dir_ DIR *dir = NULL;
	size_t looked = 0;
	uint32_t fd;

	snprintf(want, sizeof(want), "socket:[%s]", inode);
	dir = dir_open(procfd, TEXTF("%u/fd", pid));
	while (dir && vm_dir_next_u32(dir, &fd) && ++looked <= VM_MAX_FDS) {
		ssize_t n;

		n = readlinkat(dirfd(dir), TEXTF("%u", fd), link, sizeof(link) - 1);
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
	struct proc_stat st;

	if (proc_stat(p->procfd, p->vm->pid, &st) || st.start != p->vm->start_time)
		return err_set(err, ESRCH, "QEMU %u has ended", p->vm->pid);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) < 0)
		c.pid = 0;
	/* Made by another process and handed to QEMU, as libvirt does. */
	if (c.pid == (pid_t)p->vm->pid || holds_listeners(p->procfd, p->vm->pid, p->path))
		return 0;
	return err_set(err, EPERM, "refused: process %d answers there, not QEMU %u", (int)c.pid,
		       p->vm->pid);
}

/* ---- sockets ---- */

/*
 * The socket itself, as a descriptor that can only be connected to (O_PATH), with the rights of
 * QEMU's user.
 */
static int open_socket(const struct mon_peer *peer, const char *path)
{
	_cleanup_close_ int base = -1;
	/* A link does not lead out of QEMU's root, if the kernel can ensure that (Linux 5.6). */
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int fd, ret;

	base = openat(peer->procfd, TEXTF("%u/%s", peer->vm->pid, *path == '/' ? "root" : "cwd"),
		      O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (base < 0)
		return -errno;
	ret = mon_owner_begin(peer->owner);
	if (ret)
		return ret;
	path += strspn(path, "/");
	fd = (int)syscall(SYS_openat2, base, path, &how, sizeof(how));
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = openat(base, path, O_PATH | O_CLOEXEC);
	fd = fd < 0 ? -errno : fd;
	ret = mon_owner_end(peer->owner);
	if (ret && fd >= 0) {
		close(fd);
		return ret;
	}
	return fd;
}

static int cannot_reach(const struct mon_peer *peer, const char *path, int errnum,
			struct kvmft_err *err)
{
	const struct vm *vm = peer->vm;

	if (errnum == EACCES && !peer->owner->ours)
		return err_set(err, errnum,
			       "%s: refused: its user %u may not open it; if it is to be trusted: "
			       "--monitor %s",
			       path, peer->owner->uid, path);
	if (errnum == EACCES || errnum == EPERM)
		return err_lack(err, errnum, "%s: permission denied: run as root", path);
	if (errnum == ENOENT)
		return err_set(err, errnum, "%s: not there (any more), seen from process %u", path,
			       vm->pid);
	return err_why(err, errnum, "%s", path);
}

static int open_place(int procfd, const struct vm *vm, struct mon_owner *owner,
		      const struct mon_place *p, uint64_t timeout_ns, struct monitor **m,
		      struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf name = { 0 };
	_cleanup_free_ char *bound = NULL;
	_cleanup_close_ int fd = -1;
	struct sbuf path = { 0 };
	struct mon_peer peer = { .procfd = procfd, .vm = vm, .owner = owner };
	bool abstract;
	char self[64];
	int ret;

	if (p->why_not)
		return err_set(err, ENOTSUP, "%s", p->why_not);
	if (p->path) {
		sbuf_add(&path, p->abstract ? "@" : "");
		sbuf_add(&path, p->path);
	}
	bound = p->path ? sbuf_take(&path) : mon_path_of_fd(procfd, vm, p->fd);
	if (!bound && p->path)
		return err_set(err, ENOMEM, "out of memory");
	if (!bound)
		return err_set(
			err, ENOTSUP,
			"descriptor %d, passed by the program that started it (as libvirt does), has no path",
			p->fd);
	peer.path = bound;
	abstract = *bound == '@'; /* in that namespace */
	fd = abstract ? -1 : open_socket(&peer, bound);
	if (!abstract && fd < 0)
		return cannot_reach(&peer, bound, -fd, err);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	sbuf_addf(&name, "%s %s of QEMU %u", p->kind == MON_QMP ? "QMP" : "HMP", bound, vm->pid);
	if (!name.s)
		return err_set(err, ENOMEM, "out of memory");
	ret = mon_open_as(p->kind, abstract ? bound + 1 : self, abstract, name.s, &peer, timeout_ns,
			  m, err);
	return ret == -EACCES && !abstract ? cannot_reach(&peer, bound, EACCES, err) : ret;
}

static int open_first(int procfd, const struct vm *vm, struct mon_owner *owner,
		      const struct mon_places *places, uint64_t timeout_ns, struct monitor **m,
		      struct kvmft_err *err)
{
	struct kvmft_err why = { .text = "" };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const uint64_t begin = util_now_ns();
	int ret = -ENOENT, code = 0;
	bool libvirt = false;

	for (int kind = MON_QMP; kind <= MON_HMP; kind++)
		for (size_t i = 0; i < places->n; i++) {
			if ((int)places->v[i].kind != kind ||
			    (util_now_ns() - begin) / SLOW_MAX >= timeout_ns)
				continue;
			ret = open_place(procfd, vm, owner, &places->v[i], timeout_ns, m, &why);
			if (!ret)
				return 0;
			code = why.code;
			if (b.len < 500)
				sbuf_addf(&b, "%s: %s; ", places->v[i].spelling, why.text);
		}
	/* What to do about it, for the end of the line. */
	for (size_t i = 0; i < places->n; i++)
		libvirt = libvirt || strstr(places->v[i].spelling, "charmonitor") ||
			  (places->v[i].path && strstr(places->v[i].path, "/libvirt/"));
	if (!places->n)
		sbuf_add(&b, "its command line has no monitor; start it with "
			     "-qmp unix:PATH,server=on,wait=off, or name its socket: --monitor SOCKET");
	else if (libvirt)
		sbuf_addf(&b,
			  "libvirt holds its own: virsh qemu-monitor-command %s --hmp 'trace-event "
			  "PATTERN on', or give the domain one more monitor",
			  vm->name ?: "DOMAIN");
	else
		sbuf_add(&b, "give QEMU one more: -qmp unix:PATH,server=on,wait=off");
	err_set(err, -ret, "cannot talk to QEMU %u%s%s: %s", vm->pid, vm->name ? " " : "",
		vm->name ?: "", b.s ?: "out of memory");
	if (err)
		err->code = code;
	return ret;
}

static int monitor_open_vm(const struct vm *vm, uint64_t timeout_ns, struct monitor **m,
			   struct kvmft_err *err)
{
	_cleanup_close_ int procfd = vm_proc_open(NULL);
	_cleanup_free_ char *args = NULL;
	_cleanup_(mon_places_free) struct mon_places places = { 0 };
	struct mon_owner owner = { 0 };
	unsigned int patience = VM_PATIENCE_MS;
	ssize_t len;
	int ret;

	*m = NULL;
	len = procfd < 0 ? procfd : vm_proc_cmdline(procfd, vm->pid, &patience, &args);
	if (len == -ESRCH || len == 0)
		return err_set(err, ESRCH, "QEMU %u has ended", vm->pid);
	if (len < 0)
		return err_why(err, (int)len, "cannot read the command line of process %u",
			       vm->pid);
	ret = mon_owner_read(procfd, vm, &owner, err);
	if (!ret && mon_cmdline_parse(args, (size_t)len, &places))
		ret = err_set(err, ENOMEM, "out of memory");
	ret = ret ?: open_first(procfd, vm, &owner, &places, timeout_ns, m, err);
	free(owner.group);
	free(owner.own_group);
	return ret;
}

/* ---- the QEMU that options mean, and a connection to one of its monitors ---- */

int qemu_open(const struct qemu_target *t, struct qemu *q, struct kvmft_err *err)
{
	uint64_t timeout = t->timeout_ns ?: MON_TIMEOUT_NS;
	const char *path = t->monitor;
	int ret;

	*q = (struct qemu){ 0 };
	if (t->vm && path)
		return err_usage(err, "--vm and --monitor exclude each other");
	if (!path) {
		struct vm_list *list = NULL;
		const struct vm *vm;

		ret = mon_qemu_scan(&list, err);
		ret = ret ?: mon_qemu_find(list, t->vm, &vm, err);
		ret = ret ?: monitor_open_vm(vm, timeout, &q->m, err);
		if (!ret) {
			q->pid = vm->pid;
			q->name = vm->name ? strdup(vm->name) : NULL;
		}
		vm_list_free(list);
		return ret;
	}
	if (!*path)
		return err_usage(err, "the socket's path is empty");
	ret = monitor_open(MON_QMP, path + (*path == '@'), *path == '@', timeout,
			   &q->m, err);
	if (!ret)
		q->pid = monitor_pid(q->m);
	return ret;
}

void qemu_close(struct qemu *q)
{
	monitor_close(q->m);
	free(q->name);
	*q = (struct qemu){ 0 };
}
