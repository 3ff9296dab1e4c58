/* SPDX-License-Identifier: GPL-2.0-or-later */
/* screen.c: text for a terminal. */
#include "kvmft/util.h"

#include <ctype.h>
#include <sys/ioctl.h>

unsigned int screen_width(int fd)
{
	const char *columns = getenv("COLUMNS");
	struct winsize w;
	uint64_t v;

	if (!ioctl(fd, TIOCGWINSZ, &w) && w.ws_col)
		return w.ws_col;
	return columns && !parse_u64(columns, &v) && v && v < 65536 ? (unsigned int)v : 80;
}

bool screen_has_colors(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fd) && !(no && *no) && term && *term && strcmp(term, "dumb");
}

void screen_paint(struct sbuf *b, size_t from, size_t to, const char *sgr)
{
	size_t begin = strlen("\033[m") + strlen(sgr), end = strlen(SCREEN_PLAIN);

	if (from >= to || to > b->len || !sbuf_room(b, begin + end))
		return;
	memmove(b->s + to + begin + end, b->s + to, b->len - to);
	memmove(b->s + from + begin, b->s + from, to - from);
	b->s[from] = '\033';
	b->s[from + 1] = '[';
	memcpy(b->s + from + 2, sgr, begin - 3);
	b->s[from + begin - 1] = 'm';
	memcpy(b->s + to + begin, SCREEN_PLAIN, end);
	b->len += begin + end;
	b->s[b->len] = '\0';
}

/* Shows what was held back, from its byte `from` on. */
static void screen_let_go(struct screen_cut *c, unsigned int from, struct sbuf *out)
{
	if (c->nheld)
		sbuf_add_mem(out, c->held + from, c->nheld - from);
	c->nheld = 0;
}

static void cut_put(struct screen_cut *c, char ch, struct sbuf *out)
{
	if (c->nheld == sizeof(c->held))
		screen_let_go(c, 0, out);
	if (c->nheld)
		c->held[c->nheld++] = ch;
	else
		sbuf_addc(out, ch);
}

void screen_cut(struct screen_cut *c, const char *s, size_t n, struct sbuf *out)
{
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '\n') {
			screen_let_go(c, 0, out);
			*c = (struct screen_cut){ .width = c->width };
			sbuf_addc(out, '\n');
		} else if (c->escape || s[i] == '\033') {
			c->escape = s[i] == '\033' || !isalpha((unsigned char)s[i]);
			cut_put(c, s[i], out);
		} else if (c->full) {
			continue;
		} else if (((unsigned char)s[i] & 0xc0) == 0x80) { /* of UTF-8: goes on */
			c->nchar += c->nheld && c->nchar == c->nheld;
			cut_put(c, s[i], out);
		} else {
			/* A character begins. */
			c->column++;
			if (c->column == c->width) {
				c->held[0] = s[i];
				c->nheld = c->nchar = 1;
			} else if (c->column > c->width) {
				sbuf_addc(out, '>');
				screen_let_go(c, c->nchar, out);
				c->full = true;
			} else {
				sbuf_addc(out, s[i]);
			}
		}
	}
}
