/* SPDX-License-Identifier: GPL-2.0-or-later */
/* guest_syms_read.c: the symbols of one guest from files, or from a capture that it made. */
#include "guest_syms.h"

#include <sys/stat.h>

static bool is_directory(const char *path)
{
	struct stat st;

	return path && !stat(path, &st) && S_ISDIR(st.st_mode);
}

static int of_capture(struct ksyms *k, const char *path, struct kvmft_err *err)
{
	struct capture *cap = NULL;
	int ret = capture_open_dir(path, &cap, err);

	if (ret)
		return ret;
	ret = capture_symbols(cap, k);
	if (ret < 0)
		ret = err_set(err, ENOMEM, "out of memory");
	else if (!ret && cap->ndamage)
		ret = err_set(err, ENODATA, "%s: %s", path, cap->damage[cap->ndamage - 1].text);
	else if (!ret)
		ret = err_lack(err, ENODATA, "%s was recorded without --symbols", path);
	else
		ret = 0;
	capture_close(cap);
	return ret;
}

int guest_syms_read(struct ksyms *k, const struct ksyms_files *f, struct kvmft_err *err)
{
	_cleanup_(ksyms_free) struct ksyms known = { 0 };
	struct ksyms_files files = *f;
	int ret;

	if (!is_directory(f->kallsyms))
		return ksyms_read(k, f, err);
	if (!f->vmlinux && !f->modules)
		return of_capture(k, f->kallsyms, err);
	if (!f->vmlinux)
		return err_usage(err, "--guest-modules: %s is a capture, which has them",
				 f->kallsyms);
	ret = of_capture(&known, f->kallsyms, err);
	files.kallsyms = NULL;
	files.known = &known;
	return ret ?: ksyms_read(k, &files, err);
}
