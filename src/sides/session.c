/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * session.c: the file that says which captures of a directory belong together. It grows by whole
 * lines, as meta does.
 */
#include "sides.h"
#include "kvmft/vm.h"

int session_create(int dir, int *fd, struct kvmft_err *err)
{
	static const char hello[] = "kvmft-session version=1\n";
	int ret;

	*fd = file_create(dir, "session");
	ret = *fd < 0 ? *fd : full_write(*fd, hello, strlen(hello), NULL);
	return err_why(err, ret, "cannot write the file session");
}

static int put(int fd, struct sbuf *line)
{
	int ret;

	sbuf_addc(line, '\n');
	ret = line->error ?: full_write(fd, line->s, line->len, NULL);
	sbuf_free(line);
	return ret;
}

int session_put_side(int fd, const struct side *s, const struct vm *vm, struct kvmft_err *err)
{
	struct sbuf line = { 0 };

	meta_begin(&line, "side");
	meta_str(&line, "name", s->name);
	meta_str(&line, "dir", s->name);
	meta_str(&line, "role", s->spec ? "guest" : "host");
	if (vm) {
		meta_str(&line, "vm", vm->sel);
		meta_str(&line, "uuid", vm->uuid);
		meta_u64(&line, "pid", vm->pid);
	}
	meta_str(&line, "how", s->spec ? s->spec->text : NULL);
	return err_why(err, put(fd, &line), "cannot write the file session");
}

int session_put_start(int fd, size_t sides)
{
	struct sbuf line = { 0 };

	meta_begin(&line, "start");
	meta_u64(&line, "sides", sides);
	return put(fd, &line);
}

int session_put_end(int fd, const struct side *s, const char *reason)
{
	struct sbuf line = { 0 };

	meta_begin(&line, "end");
	meta_str(&line, "side", s->name);
	meta_str(&line, "reason", reason);
	meta_u64(&line, "status", (uint64_t)s->exit_code);
	return put(fd, &line);
}
