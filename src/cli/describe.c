/* SPDX-License-Identifier: GPL-2.0-or-later */
/* describe.c: `kvmft help --json`, the option tables for programs that use kvmft. */
#include "kvmft/cli.h"
#include "kvmft/json.h"

static const char *const opt_types[] = {
	[OPT_FLAG] = "flag",   [OPT_STR] = "text",   [OPT_LIST] = "text",
	[OPT_EVENTS] = "text", [OPT_U64] = "number", [OPT_BITS] = "number",
	[OPT_SIZE] = "size",   [OPT_DURATION] = "duration",
	[OPT_CHOICE] = "word", [OPT_WORD] = "word",  [OPT_WORDS] = "words",
};

/* What help fills into lines is one line here. */
static void put_line(struct json *j, const char *key, const char *text)
{
	_cleanup_free_ char *line = text ? xstrdup(text) : NULL;

	for (char *p = line; p && (p = strchr(p, '\n'));)
		*p = ' ';
	json_put_str(j, key, line);
}

static void describe_opt(const struct cmd *c, const struct opt *o, struct json *j)
{
	char letter[3] = { '-', o->short_name, 0 };
	_cleanup_(sbuf_free) struct sbuf name = { 0 };

	json_object_begin(j);
	sbuf_addf(&name, "--%s", o->name ?: "");
	json_put_str(j, "name", o->name ? name.s : NULL);
	json_put_str(j, "letter", o->short_name ? letter : NULL);
	json_put_str(j, "argument", o->arg && o->flags & OPT_MAYBE ? TEXTF("[=%s]", o->arg) : o->arg);
	json_put_str(j, "type", opt_types[o->type]);
	json_put_bool(j, "repeats", o->type == OPT_LIST || o->type == OPT_EVENTS);
	json_put_bool(j, "usual", o->name && opt_is_usual(c, o));
	json_put_array(j, "words");
	for (size_t i = 0; opt_word(o, i); i++)
		json_str(j, opt_word(o, i));
	json_array_end(j);
	put_line(j, "help", o->help);
	json_object_end(j);
}

static void describe_cmd(const struct cmd *c, struct json *j)
{
	json_object_begin(j);
	json_put_str(j, "name", c->name);
	json_put_str(j, "summary", c->summary);
	json_put_str(j, "operands", c->args);
	put_line(j, "description", c->description);
	/* It can neither write files nor see other processes. */
	json_put_bool(j, "only_reads", c->reader && !c->live);
	json_put_array(j, "formats");
	for (const struct opt *o = c->opts; o->name; o++)
		for (size_t i = 0; !strcmp(o->name, "format") && opt_word(o, i); i++)
			json_str(j, opt_word(o, i));
	json_array_end(j);
	json_put_array(j, "options");
	if (c->first)
		describe_opt(c, c->first, j);
	for (const struct opt *o = c->opts; o->name; o++)
		if (!(o->flags & OPT_HIDDEN))
			describe_opt(c, o, j);
	json_array_end(j);
	json_put_array(j, "examples");
	for (const char *at = c->examples; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
		at += strspn(at, " ");
		json_str_mem(j, at, strcspn(at, "\n"));
	}
	json_array_end(j);
	json_object_end(j);
	for (const struct cmd *const *v = c->verbs; v && *v; v++)
		describe_cmd(*v, j);
}

int cli_describe(const struct cmd *only, const char *version, FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct json j;

	json_line_begin(&j, &b);
	json_put_str(&j, "program", "kvmft");
	json_put_str(&j, "version", version);
	json_put_array(&j, "exits");
	for (size_t i = 0; i < KVMFT_EXITS; i++) {
		json_object_begin(&j);
		json_put_u64(&j, "status", i);
		json_put_str(&j, "means", cli_exits[i]);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_put_array(&j, "commands");
	for (const struct cmd *const *c = kvmft_cmds; *c; c++)
		if (!only || only == *c)
			describe_cmd(*c, &j);
	if (only && strchr(only->name, ' ')) /* of a group */
		describe_cmd(only, &j);
	json_array_end(&j);
	json_line_end(&j);
	return sbuf_write(&b, f);
}
