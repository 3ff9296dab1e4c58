/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vm_proc.h: what the files of the vm room share.
 *
 * proc.c reads one process, cmdline.c understands a VMM's arguments, debugfs.c reads one
 * VM's directory, scan.c joins the two sources, threads.c guesses threads by name.
 */
#pragma once

#include "kvmft/util.h"
#include "kvmft/vm.h"

/* The type of a mounted debugfs in statfs(), from include/uapi/linux/magic.h. */
#define VM_DEBUGFS_MAGIC 0x64626720

/* A process with more descriptors than this is only read up to this many (and that is reported). */
#define VM_MAX_FDS 262144

/* Places with the defaults filled in. */
struct vm_roots vm_roots_fill(const struct vm_roots *roots);
/* The kernel's name of the clocksource in use; "" if it cannot be read. */
void vm_sys_clocksource(const struct vm_roots *roots, char *buf, size_t size);

/* ---- directories of numbers ---- */

/* The next entry that is a plain decimal number (no sign, no leading zero); false at the end. */
bool vm_dir_next_u32(DIR *dir, uint32_t *v);
/* Plain decimal at *s up to its end or to another character; moves *s. */
bool vm_text_u32(const char **s, uint32_t *v);
/* "PID-FD", as debugfs names VMs; false: not such a name. scan.c */
bool vm_name_parse(const char *name, uint32_t *pid, uint32_t *fd);

/* ---- proc.c: one process ---- */

struct vm_kvm_fd {
	uint32_t fd;
	bool is_vm;	  /* else a vCPU */
	bool has_vcpu_id; /* not shown by kernels before 4.19 */
	uint32_t vcpu_id;
};

/* A process that has KVM descriptors. */
struct vm_proc {
	uint32_t pid;
	struct vm_kvm_fd *fd;
	size_t n, cap;
};

struct vm_procs {
	struct vm_proc *v;
	size_t n, cap;
	size_t n_hidden; /* processes that we may not look at */
	bool truncated;
};

int vm_proc_open(const struct vm_roots *roots);
/* tgid of a process or thread; -ESRCH if it is gone. */
int vm_proc_tgid(int procfd, uint32_t pid, uint32_t *tgid);
/* Real user of a process. 0 or -errno. */
int vm_proc_uid(int procfd, uint32_t pid, uint32_t *uid);
/* comm of a task, printable; path is relative to procfd. */
int vm_proc_comm(int procfd, const char *path, char *buf, size_t size);
/* Base name of the executable, else comm, else "?": owned by the caller, NULL out of memory. */
char *vm_proc_vmm(int procfd, uint32_t pid);
/*
 * At most max bytes of a file that shows its memory; length or -errno, -ETIMEDOUT if it holds the
 * lock of that, as it can for ever. *left: the ms left for all of those, VM_PATIENCE_MS at first.
 */
ssize_t vm_proc_memory(int procfd, uint32_t pid, const char *name, size_t max, unsigned int *left,
		       char **out);
/* At most VM_MAX_CMDLINE bytes of the command line. */
ssize_t vm_proc_cmdline(int procfd, uint32_t pid, unsigned int *left, char **out);
/* Every process that has KVM descriptors. */
int vm_procs_scan(int procfd, struct vm_procs *procs);
/* The same for only these n, which get sorted; one may be in the list twice. */
int vm_procs_scan_some(int procfd, uint32_t *pid, size_t n, struct vm_procs *procs);
void vm_procs_free(struct vm_procs *procs);
const struct vm_proc *vm_procs_get(const struct vm_procs *procs, uint32_t pid);
bool vm_proc_has_vm_fd(const struct vm_proc *proc, uint32_t fd);

/* ---- args.c: pure text ---- */

/* A piece of a text owned elsewhere: not NUL-terminated. */
struct vm_span {
	const char *p;
	size_t n;
};

bool vm_span_is(struct vm_span s, const char *text);
/* Cuts the next argument off a command line as in /proc. False at the end. */
bool vm_args_next(struct vm_span *args, struct vm_span *arg);
/* Cuts the next item off a QEMU option list; "" items are possible. False at the end. */
bool vm_list_next(struct vm_span *list, struct vm_span *item);
/* The VALUE of an item "KEY=VALUE"; false if it has another key, or none. */
bool vm_item_value(struct vm_span item, const char *key, struct vm_span *value);
/*
 * A printable copy of at most most bytes; with commas QEMU's doubled ones become one. NULL out of
 * memory.
 */
char *vm_span_copy(struct vm_span s, bool commas, size_t most);

/* ---- cmdline.c: pure text ---- */

struct vm_ident {
	char *name, *uuid; /* NULL = not given; owned by the caller */
};

/* args: NUL-separated, the last NUL may be missing. 0 or -ENOMEM. */
int vm_cmdline_parse(const char *args, size_t len, const char *vmm, struct vm_ident *id);
/* Lower-cases the UUID at the start of s (36 characters) into out[37]; false if it is not one. */
bool vm_uuid_parse(const char *s, size_t len, char *out);

/* ---- debugfs.c ---- */

/*
 * Opens debugfs's kvm directory: descriptor, or -1 with the reason in *state and *text (owned by
 * the caller).
 */
int vm_debugfs_open(const struct vm_roots *roots, enum vm_debugfs_state *state, char **text);
/* Fills vm->vcpu from the directory kvm/<sel>; 0, or -errno when it cannot be listed. */
int vm_debugfs_read_vm(int kvmfd, struct vm *vm);

/* ---- find.c ---- */

int vm_compare_u32(const void *a, const void *b);
int vm_vcpu_compare(const void *a, const void *b);
void vm_free_members(struct vm *vm);
/* Adds a sentence to vm->note. */
int vm_add_note(struct vm *vm, const char *fmt, ...) __printf(2, 3);
