/* SPDX-License-Identifier: GPL-2.0-or-later */
/* small.c: `make SMALL=1` uses this in place of tracetext_*.c and tar.c: no text, no archives. */
#include "reader.h"

int cap_text_read(struct capture *c __unused_arg, int fd __unused_arg,
		  struct kvmft_err *err __unused_arg)
{
	return -ENOMSG;
}

bool cap_is_tar(const void *head __unused_arg, size_t n __unused_arg)
{
	return false;
}

int cap_dir_of_tar(int fd __unused_arg, const char *sub __unused_arg,
		   struct cap_dir *dir __unused_arg, struct kvmft_err *err __unused_arg)
{
	return -ENOMSG;
}

int cap_tar_file(const struct cap_tar *t __unused_arg, const char *path __unused_arg,
		 struct cap_part *file __unused_arg)
{
	return -ENOENT;
}

int cap_tar_list(const struct cap_tar *t __unused_arg, const char *sub __unused_arg,
		 cap_name_fn *each __unused_arg, void *arg __unused_arg)
{
	return -ENOENT;
}

void cap_tar_free(struct cap_tar *t __unused_arg)
{
}
