/* SPDX-License-Identifier: GPL-2.0-or-later */
/* near.c: names that were probably meant. */
#include "kvmft/util.h"

/*
 * A third of the letters wrong is still a typing error; more is a different word. Two swapped
 * letters count as two, and also happen in words of four. Of two letters none may be wrong.
 */
static unsigned int near_limit(const char *word)
{
	size_t len = MIN(strlen(word), (size_t)63);

	return (unsigned int)MAX(len / 3, len > 3 ? (size_t)2 : (size_t)0);
}

/* Equal distances are common in short names; then the longer common beginning is likelier. */
static unsigned int near_score(const char *word, const char *name)
{
	unsigned int same = 0;

	while (same < 63 && word[same] && word[same] == name[same])
		same++;
	return str_distance(word, name) * 64 + 63 - same;
}

void near_offer(struct near *near, const char *name, const char *text)
{
	unsigned int score = near_score(near->word, name);
	size_t at = near->n;

	if (score / 64 > near_limit(near->word) || !text)
		return;
	for (size_t i = 0; i < near->n; i++)
		if (!strcmp(near->best[i].text, text))
			return;
	/* By name if the score is equal, because directories have no defined order. */
	while (at > 0 && (near->best[at - 1].score > score ||
			  (near->best[at - 1].score == score &&
			   strcmp(near->best[at - 1].text, text) > 0)))
		at--;
	if (at == NEAR_MAX)
		return;
	if (near->n < NEAR_MAX)
		near->n++;
	memmove(&near->best[at + 1], &near->best[at],
		(near->n - at - 1) * sizeof(near->best[0]));
	near->best[at].score = score;
	snprintf(near->best[at].text, sizeof(near->best[at].text), "%s", text);
}

void near_text(const struct near *near, struct sbuf *b)
{
	size_t n = near->n;

	/* Beside a good guess a much worse one is noise; beside an exact match, any other is. */
	while (n && near->best[n - 1].score / 64 > near->best[0].score / 64 * 2)
		n--;
	for (size_t i = 0; i < n; i++) {
		sbuf_add(b, !i ? " (did you mean " : i + 1 == n ? " or " : ", ");
		sbuf_add(b, near->best[i].text);
	}
	if (n)
		sbuf_add(b, "?)");
}
