/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * genqemu.c: makes files of QEMU's back end simple from text, and prints traces as simpletrace.py does.
 *
 *   genqemu --simple VERSION FILE [TEXT]
 *   genqemu --dump FILE EVENTS
 *
 * Lines of TEXT (without it a few events); '#' begins a comment:
 *
 *   name ID NAME			a name of format 4
 *   event ID NS PID [NUMBER|"STRING"]...
 *   dropped NS COUNT
 *
 * The layout of the dump: NAME DELTA pid=PID ARG=VALUE..., DELTA in us since the event before it, numbers
 * in hex, strings as Python prints bytes. Dropped events show as Dropped_Event with their count.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "kvmft/qemu.h"
#include "lib/enc_qemu.h"

static const char few[] =
	"name 0 first\nname 1 kvm_run_exit\nevent 0 1000 7\nevent 1 2000 7 0 6\ndropped 2500 3\n"
	"name 2 open_image\nevent 2 3000 7 \"/a\" 4096 \"r\"\n";

static void __noreturn_attr die(const char *what)
{
	fprintf(stderr, "genqemu: %s\n", what);
	exit(1);
}

static uint64_t number(const char *s)
{
	uint64_t v;

	if (!s || parse_bits64(s, &v))
		die(s ? s : "a number is missing");
	return v;
}

static void event(struct enc_simple *e, char *save)
{
	uint64_t id = number(strtok_r(NULL, " \t", &save)), ns = number(strtok_r(NULL, " \t", &save));
	uint64_t pid = number(strtok_r(NULL, " \t", &save));
	struct enc_simple_arg arg[16];
	char *word;
	size_t n = 0;

	while (n < ARRAY_SIZE(arg) && (word = strtok_r(NULL, " \t", &save))) {
		arg[n] = (struct enc_simple_arg){ 0 };
		if (*word == '"') {
			word[strlen(word) - 1] = '\0';
			arg[n].s = word + 1;
		} else {
			arg[n].num = number(word);
		}
		n++;
	}
	if (!e->version && n > 6)
		n = 6;
	for (size_t i = 0; i < n && !e->version; i++)
		arg[i].s = NULL;
	enc_simple_event(e, id, ns, (uint32_t)pid, arg, n);
}

static void line(struct enc_simple *e, char *text)
{
	char *save = NULL, *word;

	text[strcspn(text, "#\n")] = '\0';
	word = strtok_r(text, " \t", &save);
	if (!word)
		return;
	if (!strcmp(word, "name")) {
		uint64_t id = number(strtok_r(NULL, " \t", &save));

		word = strtok_r(NULL, " \t", &save);
		enc_simple_name(e, id, word ? word : "");
	} else if (!strcmp(word, "event")) {
		event(e, save);
	} else if (!strcmp(word, "dropped")) {
		uint64_t ns = number(strtok_r(NULL, " \t", &save));

		enc_simple_dropped(e, ns, number(strtok_r(NULL, " \t", &save)));
	} else {
		die("a line is neither name, event nor dropped");
	}
}

static void make(unsigned int version, const char *path, const char *from)
{
	struct enc_simple e;
	char *text = NULL, *save = NULL, *l;
	int fd;

	if (!from)
		text = strdup(few);
	else if (file_read_all(AT_FDCWD, from, 1u << 20, &text) < 0)
		die("cannot read the text");
	enc_simple_begin(&e, version);
	for (l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		line(&e, l);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || full_write(fd, e.b.s, e.b.len, NULL))
		die("cannot write the file");
	close(fd);
	sbuf_free(&e.b);
	free(text);
}

/* ---- the dump ---- */

static void dump_item(const struct qtrace_item *i, uint64_t *last)
{
	double delta = *last ? (double)(int64_t)(i->ns - *last) / 1000 : 0;

	*last = i->ns;
	if (i->kind == QTRACE_LOST) {
		printf("Dropped_Event %0.3f pid=%d num_events_dropped=0x%llx\n", delta, i->tid,
		       (unsigned long long)i->lost);
		return;
	}
	printf("%.*s %0.3f pid=%d", (int)i->name_len, i->name, delta, i->tid);
	for (size_t k = 0; i->has_args && k < i->ev->nargs; k++) {
		if (i->arg[k].s)
			printf(" %s=b'%.*s'", i->ev->arg[k].name, (int)i->arg[k].len, i->arg[k].s);
		else
			printf(" %s=0x%llx", i->ev->arg[k].name, (unsigned long long)i->arg[k].num);
	}
	for (uint32_t k = 0; k < i->nraw; k++)
		printf(" 0x%llx", (unsigned long long)i->raw[k]);
	putchar('\n');
}

static int dump(const char *path, const char *events)
{
	struct kvmft_err err = { .text = "" };
	struct qtrace_options o = { 0 };
	struct qevents *q = NULL;
	struct qtrace_item i;
	struct qtrace *t;
	uint64_t last = 0;

	if (events && qevents_load(events, false, &q, &err))
		die(err.text);
	o.events = q;
	if (qtrace_open(path, &o, &t, &err))
		die(err.text);
	while (qtrace_next(t, &i) > 0)
		dump_item(&i, &last);
	qtrace_close(t);
	qevents_free(q);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option opts[] = {
		{ "simple", required_argument, NULL, 's' },
		{ "dump", no_argument, NULL, 'd' },
		{ 0 },
	};
	int o, version = -1;
	bool show = false;

	while ((o = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		if (o == 's')
			version = (int)number(optarg);
		else if (o == 'd')
			show = true;
		else
			return 2;
	}
	if (optind >= argc || (!show && version < 0))
		die("usage: genqemu --simple VERSION FILE [TEXT] | --dump FILE [EVENTS]");
	if (show)
		return dump(argv[optind], optind + 1 < argc ? argv[optind + 1] : NULL);
	make((unsigned int)version, argv[optind], optind + 1 < argc ? argv[optind + 1] : NULL);
	return 0;
}
