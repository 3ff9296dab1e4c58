/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gensdt.c: makes an ELF file with the SDT markers that a text lists in lines "PROVIDER NAME
 * ADDRESS SEMAPHORE ARGUMENTS", # comments. See lib/enc_sdt.h for the addresses there are.
 *
 *   gensdt TEXT FILE [32] [moved]
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "lib/enc_sdt.h"

#define MARKERS 64

/* Cuts up one line, in place; false if it is not a marker. */
static bool take_line(char *line, struct enc_sdt_marker *m)
{
	char *save, *word[4];

	for (size_t i = 0; i < ARRAY_SIZE(word); i++) {
		word[i] = strtok_r(i ? NULL : line, " \t", &save);
		if (!word[i])
			return false;
	}
	*m = (struct enc_sdt_marker){ .provider = word[0], .name = word[1] };
	m->args = strtok_r(NULL, "", &save);
	m->args = m->args ? m->args + strspn(m->args, " \t") : "";
	return !parse_u64(word[2], &m->addr) && !parse_u64(word[3], &m->semaphore);
}

static int write_file(const char *path, const struct sbuf *b)
{
	int fd = file_create(AT_FDCWD, path);
	int ret = fd < 0 ? fd : full_write(fd, b->s, b->len, NULL);

	if (fd >= 0)
		close(fd);
	return ret;
}

int main(int argc, char **argv)
{
	struct enc_sdt_marker m[MARKERS];
	struct enc_sdt e = { .is64 = true, .marker = m };
	_cleanup_free_ char *text = NULL;
	struct sbuf b = { 0 };
	char *save, *line;
	int ret;

	for (int i = 3; i < argc; i++) {
		e.is64 &= strcmp(argv[i], "32") != 0;
		e.moved |= !strcmp(argv[i], "moved") ? 0x10000 : 0;
	}
	if (argc < 3 || file_read_all(AT_FDCWD, argv[1], 1 << 16, &text) < 0)
		return 2;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (*line == '#')
			continue;
		if (e.n == MARKERS || !take_line(line, &m[e.n])) {
			fprintf(stderr, "gensdt: no marker: %s\n", line);
			return 2;
		}
		e.n++;
	}
	enc_sdt_elf(&e, &b);
	ret = write_file(argv[2], &b);
	if (ret)
		fprintf(stderr, "gensdt: %s: %s\n", argv[2], strerror(-ret));
	sbuf_free(&b);
	return ret ? 1 : 0;
}
