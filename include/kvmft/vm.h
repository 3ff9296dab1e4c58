/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vm.h: which VMs run on this host, who their vCPU threads are, and what their TSC offsets are.
 *
 * Two witnesses are read. debugfs has one directory kvm/<PID>-<FD> per VM with the exact numbers
 * (vcpu ids, TSC offset and ratio, thread ids on newer kernels). /proc has what debugfs lacks:
 * process, names, UUID from the command line, and KVM file descriptors, which also show the VMs
 * that have no debugfs directory. Reading is all this room does, except vm_debugfs_mount().
 *
 * All text (names, comms, notes) comes from untrusted processes: it has gone through
 * str_printable() and is bounded in length.
 */
#pragma once

#include "kvmft/util.h"

/* Where to look; NULL (the struct or a member) means the real place. Tests pass fixture trees. */
struct vm_roots {
	const char *proc;    /* "/proc" */
	const char *debugfs; /* "/sys/kernel/debug" */
	const char *sys;     /* "/sys" */
};

/* How a vCPU's thread id was found: from certain to guessed. */
enum vm_tid_source {
	VM_TID_UNKNOWN,	    /* tid is 0: not known */
	VM_TID_NEVER_RAN,   /* tid is 0: debugfs vcpuN/pid says that no thread has run it yet */
	VM_TID_DEBUGFS,	    /* vcpuN/pid: the thread that last ran it */
	VM_TID_THREAD_NAME, /* a thread of the process has such a name: only a hint */
};

/* TSC scaling as shown by debugfs. */
enum vm_ratio_state {
	VM_RATIO_UNKNOWN, /* no debugfs directory, or unreadable */
	VM_RATIO_NONE,	  /* both files absent, or ratio 0: the guest TSC is not scaled */
	VM_RATIO_SET,	  /* tsc_ratio and tsc_frac_bits are valid */
	/* only one of the two files, or nonsense in them: do not convert clocks */
	VM_RATIO_REFUSED,
};

struct vm_vcpu {
	uint32_t id;	/* vcpu_id = APIC id, not an index: gaps are normal */
	uint32_t tid;	/* host thread id, initial PID namespace; 0 = see tid_source */
	enum vm_tid_source tid_source;

	bool has_offset;     /* tsc_offset was read */
	uint64_t tsc_offset; /* guest TSC = scaled host TSC + tsc_offset, modulo 2^64 */
	enum vm_ratio_state ratio_state;
	uint64_t tsc_ratio;	/* scaled = tsc * tsc_ratio >> tsc_frac_bits; 0 when not SET */
	uint32_t tsc_frac_bits; /* 1..63 when SET */
	/*
	 * An L2 guest ran during every attempt: offset and ratio are the L1+L2 combination, not the
	 * L1 values that kvm_write_tsc_offset reports.
	 */
	bool in_guest_mode;
	/*
	 * Host TSC just before and just after the successful reading, in cycles; 0 on non-x86 or
	 * when nothing was read. The files show "now" and carry no time of their own.
	 */
	uint64_t tsc_before, tsc_after;
};

struct vm {
	uint32_t pid;	  /* tgid of the VMM */
	uint32_t dir_pid; /* id of the thread that created the VM: the PID of PID-FD */
	uint32_t fd;	  /* VM file descriptor: the FD of PID-FD */
	bool pid_sure;	  /* pid was confirmed by the process's own KVM descriptors or threads */
	char *sel;	  /* "PID-FD" with dir_pid: unique on this host; never NULL */
	char *vmm;	  /* "qemu-system-x86_64", "firecracker", ...; "?" when unreadable */
	char *name;	  /* NULL when the command line gives none */
	char *uuid;	  /* lower case, 8-4-4-4-12; NULL when the command line gives none */
	/* of the process, clock ticks since boot, against reuse of the PID; 0 = unknown */
	uint64_t start_time;
	bool has_uid;	     /* and uid is its owner */
	uint32_t uid;
	uint32_t parent;     /* who started it, with this comm; 0: gone, or unknown */
	char starter[64];
	bool has_debugfs;    /* the debugfs directory exists and could be listed */
	char *note;	     /* what could not be read and why, one line; NULL = nothing */
	struct vm_vcpu *vcpu; /* n_vcpus of them, by id */
	size_t n_vcpus, cap_vcpus;
};

/* Whether debugfs shows VMs, and why not. */
enum vm_debugfs_state {
	VM_DEBUGFS_OK,
	VM_DEBUGFS_NOT_MOUNTED, /* the mount point is there: vm_debugfs_mount() may help */
	VM_DEBUGFS_ABSENT,	/* no mount point: no CONFIG_DEBUG_FS, or booted with debugfs=off */
	VM_DEBUGFS_DENIED,	/* not root */
	VM_DEBUGFS_LOCKDOWN,	/* root, but forbidden by kernel lockdown */
	VM_DEBUGFS_NO_KVM,	/* mounted, without a kvm directory: kvm module not loaded */
	VM_DEBUGFS_ERROR,	/* something else: see debugfs_text */
};

struct vm_list {
	struct vm *vm; /* n of them, by pid, then fd */
	size_t n, cap;
	enum vm_debugfs_state debugfs;
	char *debugfs_text; /* one line: what is wrong and how to fix it; NULL if OK */
	size_t n_hidden; /* processes whose descriptors we may not see: see vm_task_hidden() */
	uint32_t hidden; /* the first of them */
	uint32_t emulates; /* a QEMU that does not use KVM; 0: none, or not looked for */
	bool truncated;	    /* a bound (VM_MAX_*) was hit: there may be more VMs than listed */
	char *clocksource;  /* the host's current clocksource; NULL when unknown */
};

/* Bounds on what is accepted; vm_list.truncated or vm.note says if one was exceeded. */
#define VM_MAX_VMS	16384
#define VM_MAX_VCPUS	8192
#define VM_MAX_CMDLINE	(128 * 1024)
#define VM_MAX_TEXT	256 /* name, vmm */
/* How long all together may let us wait who lock their memory, and then each. */
#define VM_PATIENCE_MS	     2000u
#define VM_PATIENCE_LEAST_MS 20u

/*
 * Finds all VMs of this host. *list is set on success and owned by the caller (vm_list_free()). A
 * host without VMs, or without a readable debugfs, is a success with n = 0 and an explanation in
 * debugfs_text. Returns 0, or -errno if /proc is unreadable or memory ran out.
 */
int vm_scan(const struct vm_roots *roots, struct vm_list **list,
	    struct kvmft_err *err) __must_check;
/*
 * As vm_scan(), for frequent calls: if debugfs can be read, only the processes that it names are
 * looked at, not the descriptors of every process of the machine. Missing is what only those show:
 * a VM without a directory (see vm.note), which has no offsets anyway.
 */
int vm_scan_told(const struct vm_roots *roots, struct vm_list **list,
		 struct kvmft_err *err) __must_check;
/* The one VM of process pid; NULL: it has none, or several. */
const struct vm *vm_list_only(const struct vm_list *list, uint32_t pid);
/* As vm_scan_told(), but only for VMs made by thread tid: the PID of their PID-FD. */
int vm_scan_made_by(const struct vm_roots *roots, uint32_t tid, struct vm_list **list,
		    struct kvmft_err *err) __must_check;
void vm_list_free(struct vm_list *list);
/* As bytes from which another process of this program can restore a list. 0 or -errno. */
int vm_list_pack(const struct vm_list *list, struct sbuf *b) __must_check;
int vm_list_unpack(const void *p, size_t len, struct vm_list **list) __must_check;

/* ---- VMs that appear while one watches ---- */

/*
 * debugfs reports a new directory by inotify: nothing is read until a VM is made. fd can be polled;
 * if it was opened before privileges are dropped, it works afterwards.
 */
struct vm_watch {
	int fd; /* -1: not open */
	char buf[4096];
	size_t at, n;
};

/* 0, or -errno: debugfs has no KVM directory that can be watched. w->fd is set in any case. */
int vm_watch_open(const struct vm_roots *roots, struct vm_watch *w) __must_check;
/*
 * The next VM that was made, by its PID-FD: it may have ended since. 1; 0: none so far; -EOVERFLOW:
 * there were more than the kernel keeps, so look at all of them; -errno.
 */
int vm_watch_next(struct vm_watch *w, uint32_t *pid, uint32_t *fd) __must_check;
void vm_watch_close(struct vm_watch *w);

/*
 * The VM that sel names: PID-FD, UUID in any case, name, or PID (tgid, or thread that created it).
 * A PID-FD match wins; otherwise all VMs that match in any way must be one. *vm is borrowed from
 * list. -ENOENT (unknown), -EEXIST (ambiguous), both with the candidates in err; when nothing runs
 * here, what vm_list_none() returns.
 */
int vm_list_find(const struct vm_list *list, const char *sel, const struct vm **vm,
		 struct kvmft_err *err) __must_check;
/* -ENOENT with exit code 4: no VM runs here, and what could not be looked at. */
int vm_list_none(const struct vm_list *list, struct kvmft_err *err);
/* How many processes could not be looked at, one of them, and why, in text. */
const char *vm_list_hidden(const struct vm_list *list, char *text, size_t size);
/* Is that program, as in vm.vmm, a QEMU? */
bool vm_vmm_is_qemu(const char *vmm);

/* Adds "1234-12 name=vm1 uuid=... vmm=..." to out: how error texts and lists show a VM. */
void vm_describe(const struct vm *vm, struct sbuf *out);

/*
 * Reads offset and ratio of all vCPUs of vm again into its vcpu[] (start and end of a capture must
 * be compared, because a change of the ratio has no tracepoint); vCPUs that appeared since are not
 * added, one that is gone gets has_offset = false. -ENOENT if the VM's directory is gone.
 */
int vm_reread_clocks(const struct vm_roots *roots, struct vm *vm) __must_check;

/*
 * Does KVM use the master clock for this VM? -1 = no, 0 = cannot tell, 1 = all visible conditions
 * hold. From use_master_clock of arch/x86/kvm/x86.c: host clocksource is tsc (or Hyper-V's page)
 * and the TSCs of all vCPUs match. Whether a backwards TSC was ever seen is not visible from here.
 */
int vm_guess_master_clock(const struct vm_list *list, const struct vm *vm);

/*
 * The threads of process pid in /proc: ascending, owned by the caller (free()). -ESRCH if the
 * process is gone.
 */
int vm_thread_ids(const struct vm_roots *roots, uint32_t pid, uint32_t **tids,
		  size_t *n) __must_check;

/* Mounts debugfs at its mount point if it is not mounted and we may; vm_scan() says what lacks. */
void vm_debugfs_mount(void);

/* ---- tasks ---- */

struct vm_task {
	uint32_t tid, tgid;
	char comm[64]; /* printable */
};

/* Non-zero stops the walk and becomes its result. */
typedef int (*vm_task_fn)(const struct vm_task *task, void *ctx);

/*
 * Calls fn for the threads of process pid, or for all threads (0); those that die meanwhile are
 * left out. 0, what fn returned, or -ESRCH when pid does not exist, -errno when /proc is
 * unreadable.
 */
int vm_tasks_walk(const struct vm_roots *roots, uint32_t pid, vm_task_fn fn,
		  void *ctx) __must_check;

/*
 * One thread, by its id: *task, and its start in clock ticks since boot, which shows whether the id
 * was reused. -ESRCH if there is none.
 */
int vm_task_read(uint32_t tid, struct vm_task *task, uint64_t *start_time) __must_check;

/* The cgroups that a thread, by its directory in /proc, is in with its CPUs, and those above. */
void vm_cgroups(int task, void (*fn)(void *ctx, const char *dir), void *ctx);
/* How often, and how long in all, it was throttled; false: it has no CPU controller. */
bool vm_cgroup_throttled(const char *dir, uint64_t *n, uint64_t *ns);

/* Are the descriptors of process tgid hidden from us? (not root, or root without CAP_SYS_PTRACE) */
bool vm_task_hidden(const struct vm_roots *roots, uint32_t tgid);

/* ---- the guest's own side ---- */

/*
 * The product UUID of DMI, lower case, which is the host's -uuid. 0, -ENOENT: none, -EACCES: not
 * root, -EINVAL.
 */
int vm_guest_uuid(const struct vm_roots *roots, char uuid[37]) __must_check;

struct vm_guest_cpus {
	struct vm_guest_cpu {
		uint32_t cpu, apicid; /* apicid equals the host's vcpu_id */
	} *v; /* online CPUs in /proc/cpuinfo order; none on arm64 */
	size_t n, cap;
};

/*
 * Fills *cpus (to be freed with vm_guest_cpus_free()). 0 or -ENOMEM; none if /proc does not have
 * them.
 */
int vm_guest_cpus(const struct vm_roots *roots, struct vm_guest_cpus *cpus) __must_check;
void vm_guest_cpus_free(struct vm_guest_cpus *cpus);

/* ---- what the files of the room share ---- */

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
	uint32_t hidden; /* the first of them */
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

/* ---- cmdline.c: pure text ---- */

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

struct vm_ident {
	char *name, *uuid; /* NULL = not given; owned by the caller */
};

/* args: NUL-separated, the last NUL may be missing. 0 or -ENOMEM. */
int vm_cmdline_parse(const char *args, size_t len, const char *vmm, struct vm_ident *id);
/* Lower-cases the UUID at the start of s (36 characters) into out[37]; false if it is not one. */
bool vm_uuid_parse(const char *s, size_t len, char *out);

/* ---- find.c ---- */

void vm_free_members(struct vm *vm);
/* Adds a sentence to vm->note. */
int vm_add_note(struct vm *vm, const char *fmt, ...) __printf(2, 3);
