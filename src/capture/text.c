/* SPDX-License-Identifier: GPL-2.0-or-later */
/* text.c: kernel text files, which both capture formats carry. */
#include "kvmft/ktext.h"
#include "reader.h"

/* A decimal word at *p, which moves past it. */
static bool take_number(char **p, int32_t *v)
{
	const char *s = *p + strspn(*p, " \t");
	uint64_t n;

	if (!take_u64(&s, INT32_MAX, &n))
		return false;
	*v = (int32_t)n;
	*p += (size_t)(s - *p) + strspn(s, " ");
	return true;
}

static int each_line(struct capture *c, char *text, int (*one)(struct capture *c, char *line))
{
	char *save, *line = strtok_r(text, "\n", &save);
	int ret = 0;

	for (; line && !ret; line = strtok_r(NULL, "\n", &save))
		ret = one(c, line);
	return ret;
}

static int cmdline(struct capture *c, char *line)
{
	int32_t tid;

	return take_number(&line, &tid) && *line ? cap_task_add(c, tid, 0, line, false) : 0;
}

int cap_parse_cmdlines(struct capture *c, char *text)
{
	return each_line(c, text, cmdline);
}

static int tgid_line(struct capture *c, char *line)
{
	int32_t tid, tgid;

	if (!take_number(&line, &tid) || !take_number(&line, &tgid))
		return 0;
	return cap_task_add(c, tid, tgid, NULL, false);
}

int cap_parse_tgids(struct capture *c, char *text)
{
	return each_line(c, text, tgid_line);
}

int cap_set_printk(struct capture *c, const char *text, size_t len)
{
	if (!len || c->printk)
		return 0;
	if (len > CAP_MAX_TEXT || memchr(text, 0, len)) {
		cap_note(c, "printk formats: not text, or too long");
		return 0;
	}
	c->printk = strndup(text, len);
	if (!c->printk)
		return -ENOMEM;
	c->printk_len = len;
	return 0;
}

int cap_set_kallsyms(struct capture *c, const char *text, size_t len)
{
	if (!len || c->kallsyms || len > CAP_MAX_KALLSYMS)
		return 0;
	c->kallsyms = malloc(len + 1);
	if (!c->kallsyms)
		return -ENOMEM;
	memcpy(c->kallsyms, text, len);
	c->kallsyms[len] = '\0';
	c->kallsyms_len = len;
	return 0;
}

const char *capture_kallsyms(const struct capture *c, size_t *len)
{
	struct cap_later later = { .load = NULL };

	if (c->priv) {
		later = cap_priv(c)->kallsyms;
		cap_priv(c)->kallsyms.load = NULL;
	}
	/* What the reader of the whole file would have done. */
	if (later.load && later.load((struct capture *)(uintptr_t)c, &later))
		return NULL;
	*len = c->kallsyms_len;
	return c->kallsyms;
}

int cap_parse_clock(char **slot, const char *text)
{
	char word[256];

	if (!strchr(text, '['))
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, " \n"), text);
	else if (ktext_chosen(text, word, sizeof(word)))
		return 0;
	return *word ? cap_set_str(slot, word) : 0;
}

void cap_parse_stats(const char *text, struct cap_cpustat *st)
{
	const struct {
		const char *name;
		uint64_t *val;
	} known[] = {
		{ "entries", &st->entries },
		{ "overrun", &st->overrun },
		{ "commit overrun", &st->commit_overrun },
		{ "dropped events", &st->dropped },
		{ "read events", &st->read },
	};
	uint64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!ktext_number(text, known[i].name, &v)) {
			*known[i].val += v;
			st->valid = true;
		}
}
