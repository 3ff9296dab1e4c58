/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * module.c: whether a kernel module is available, and loading it.
 *
 * /sys/module answers most of this at no cost: a loaded module has an initstate there, a built-in
 * one (with parameters) has a directory without it. Only modules that are not loaded need libkmod
 * or, without that, the lists in /lib/modules and modprobe. The environment influences neither.
 */
#include "priv.h"

#include "kvmft/dlopen.h"

#include <ctype.h>
#ifdef HAVE_LIBKMOD
#include <dlfcn.h>
#include <libkmod.h>
#endif
#include <sys/utsname.h>

/*
 * libkmod is loaded on demand: it pulls in liblzma and libcrypto, and with it linked, each command
 * would spend more time on loading libraries than a report of a small capture takes.
 */
#ifdef HAVE_LIBKMOD

#define LIBRARY "libkmod.so.2"
DLOPEN_NOTE(kmod, "finding kernel modules", LIBRARY);

/* The functions that are used, with the types that the header gives them. */
#define FUNCTIONS(f) \
	f(kmod_new) f(kmod_unref) f(kmod_module_new_from_lookup) f(kmod_module_get_module) \
	f(kmod_module_unref_list) f(kmod_module_get_initstate) f(kmod_module_get_path) \
	f(kmod_module_unref)

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

const char *kmodule_backend(void)
{
	struct lib l;

	if (lib_open(&l))
		return "/sys/module and /lib/modules (libkmod is not installed)";
	lib_close(&l);
	return "libkmod";
}

/* -ENOSYS: the library is not there. dir: of the running kernel's modules. */
static int libkmod_state(const char *name, const char *dir, enum kmodule_state *s)
{
	struct kmod_list *list = NULL;
	struct kmod_module *mod = NULL;
	struct stat st;
	struct lib l;
	int ret = lib_open(&l);

	if (ret)
		return ret;
	*s = KMODULE_UNKNOWN;
	if (l.kmod_module_new_from_lookup(l.ctx, name, &list) >= 0 && list)
		mod = l.kmod_module_get_module(list);
	l.kmod_module_unref_list(list);
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

#else

const char *kmodule_backend(void)
{
	return "/sys/module and /lib/modules (built without libkmod)";
}

static int libkmod_state(const char *name __unused_arg, const char *dir __unused_arg,
			 enum kmodule_state *s __unused_arg)
{
	return -ENOSYS;
}

#endif

/* ---- states ---- */

static const char *const state_text[] = {
	[KMODULE_UNKNOWN] = "unknown",	   [KMODULE_LOADED] = "loaded",
	[KMODULE_BUILTIN] = "built in",	   [KMODULE_AVAILABLE] = "available, not loaded",
	[KMODULE_ABSENT] = "absent",
};

const char *kmodule_state_text(enum kmodule_state s)
{
	return (size_t)s < ARRAY_SIZE(state_text) ? state_text[s] : "unknown";
}

/* '-' and '_' mean the same in module names; the kernel shows '_'. */
static int module_name(const char *name, char *buf, size_t size)
{
	size_t i;

	for (i = 0; name[i]; i++) {
		if (i + 1 >= size || (!isalnum((unsigned char)name[i]) && !strchr("_-", name[i])))
			return -EINVAL;
		buf[i] = name[i] == '-' ? '_' : name[i];
	}
	buf[i] = '\0';
	return i ? 0 : -EINVAL;
}

/* ---- without libkmod ---- */

/* A path in the text whose file name is NAME.ko, perhaps compressed; '-' counts as '_'. */
static bool list_has(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		size_t n = strcspn(line, ":\n");
		size_t from = n, i;

		while (from && line[from - 1] != '/')
			from--;
		for (i = 0; i < len && from + i < n; i++)
			if ((line[from + i] == '-' ? '_' : line[from + i]) != name[i])
				break;
		if (i == len && from + i < n && str_starts(line + from + i, ".ko"))
			return true;
	}
	return false;
}

static enum kmodule_state state_from_lists(const char *name, const char *dir)
{
	static const struct {
		const char *file;
		enum kmodule_state state;
	} list[] = {
		{ "modules.builtin", KMODULE_BUILTIN },
		{ "modules.dep", KMODULE_AVAILABLE },
	};
	enum kmodule_state s = KMODULE_UNKNOWN;

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		_cleanup_free_ char *text = NULL;

		if (file_read_all(AT_FDCWD, TEXTF("%s/%s", dir, list[i].file), KFILE_MAX, &text) <
		    0)
			continue;
		if (list_has(text, name))
			return list[i].state;
		s = KMODULE_ABSENT;
	}
	return s;
}

/* ---- both ---- */

enum kmodule_state kmodule_state_get(const char *name)
{
	struct utsname uts;
	const char *dir;
	char buf[64], line[32];
	enum kmodule_state s;
	struct stat st;

	if (module_name(name, buf, sizeof(buf)) || uname(&uts))
		return KMODULE_UNKNOWN;
	if (!stat(TEXTF("/sys/module/%s", buf), &st)) {
		if (file_read_line(AT_FDCWD, TEXTF("/sys/module/%s/initstate", buf), line,
				   sizeof(line)))
			return KMODULE_BUILTIN;
		if (!strcmp(line, "live"))
			return KMODULE_LOADED;
	}
	dir = TEXTF("/lib/modules/%.65s", uts.release);
	return libkmod_state(buf, dir, &s) ? state_from_lists(buf, dir) : s;
}

int kmodule_params(const char *module, int (*fn)(void *ctx, const char *name, const char *value),
		   void *ctx)
{
	_cleanup_dir_ DIR *dir = NULL;
	char buf[64], value[256];
	struct dirent *e;
	int ret = 0;

	if (module_name(module, buf, sizeof(buf)))
		return -EINVAL;
	dir = dir_open(AT_FDCWD, TEXTF("/sys/module/%s/parameters", buf));
	while (dir && !ret && (e = readdir(dir)))
		if (e->d_name[0] != '.' &&
		    !file_read_line(dirfd(dir), e->d_name, value, sizeof(value)))
			ret = fn(ctx, e->d_name, value);
	return ret;
}
