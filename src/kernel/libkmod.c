/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libkmod.c: modules through libkmod, loaded on demand.
 *
 * It pulls in liblzma and libcrypto: with it linked, each command would spend more time on loading
 * libraries than a report of a small capture takes. If it is missing at run time there is a
 * substitute, see module.c.
 */
#include "priv.h"

#include "kvmft/dlopen.h"

#include <sys/stat.h>

#ifdef HAVE_LIBKMOD

#include <dlfcn.h>
#include <libkmod.h>

#define LIBRARY "libkmod.so.2"
DLOPEN_NOTE(kmod, "finding and loading kernel modules", LIBRARY);

/* The functions that are used, with the types that the header gives them. */
#define FUNCTIONS(f) \
	f(kmod_new) f(kmod_unref) f(kmod_module_new_from_lookup) f(kmod_module_get_module) \
	f(kmod_module_unref_list) f(kmod_module_get_initstate) f(kmod_module_get_path) \
	f(kmod_module_probe_insert_module) f(kmod_module_unref)

struct lib {
	void *handle;
	struct kmod_ctx *ctx;
#define MEMBER(name) __typeof__(&name) name;
	FUNCTIONS(MEMBER)
#undef MEMBER
};

static void lib_close(struct lib *l)
{
	if (l->ctx)
		l->kmod_unref(l->ctx);
	if (l->handle)
		dlclose(l->handle);
}

static int lib_open(struct lib *l)
{
	*l = (struct lib){ .handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL) };
	if (!l->handle)
		return -ENOSYS;
	/* POSIX requires that a function pointer fits into what dlsym() returns. */
#define RESOLVE(name) \
	if (!(*(void **)&l->name = dlsym(l->handle, #name))) { \
		lib_close(l); \
		return -ENOSYS; \
	}
	FUNCTIONS(RESOLVE)
#undef RESOLVE
	l->ctx = l->kmod_new(NULL, NULL);
	if (l->ctx)
		return 0;
	lib_close(l);
	return -ENOMEM;
}

static struct kmod_module *lookup(struct lib *l, const char *name)
{
	struct kmod_list *list = NULL;
	struct kmod_module *mod = NULL;

	if (l->kmod_module_new_from_lookup(l->ctx, name, &list) >= 0 && list)
		mod = l->kmod_module_get_module(list);
	l->kmod_module_unref_list(list);
	return mod;
}

const char *kmodule_backend(void)
{
	struct lib l;

	if (lib_open(&l))
		return "/sys/module and /lib/modules (libkmod is not installed)";
	lib_close(&l);
	return "libkmod";
}

int libkmod_state(const char *name, const char *dir, enum kmodule_state *s)
{
	struct kmod_module *mod;
	struct stat st;
	struct lib l;
	int ret = lib_open(&l);

	if (ret)
		return ret;
	*s = KMODULE_UNKNOWN;
	mod = lookup(&l, name);
	if (mod && l.kmod_module_get_initstate(mod) == KMOD_MODULE_BUILTIN)
		*s = KMODULE_BUILTIN;
	else if (mod && l.kmod_module_get_path(mod))
		*s = KMODULE_AVAILABLE;
	else if (!stat(dir, &st))
		*s = KMODULE_ABSENT;
	if (mod)
		l.kmod_module_unref(mod);
	lib_close(&l);
	return 0;
}

/* Install commands of modprobe.d are not run: kvmft starts no shell for others. */
int libkmod_insert(const char *name)
{
	struct kmod_module *mod;
	struct lib l;
	int got = lib_open(&l);

	if (got)
		return got;
	got = -ENOENT;
	mod = lookup(&l, name);
	if (mod) {
		got = l.kmod_module_probe_insert_module(mod, KMOD_PROBE_IGNORE_COMMAND, NULL, NULL,
							NULL, NULL);
		l.kmod_module_unref(mod);
	}
	lib_close(&l);
	return got > 0 ? -EPERM : got; /* positive: stopped by a blacklist */
}

#else

const char *kmodule_backend(void)
{
	return "/sys/module and /lib/modules (built without libkmod)";
}

int libkmod_state(const char *name __unused_arg, const char *dir __unused_arg,
		  enum kmodule_state *s __unused_arg)
{
	return -ENOSYS;
}

int libkmod_insert(const char *name __unused_arg)
{
	return -ENOSYS;
}

#endif
