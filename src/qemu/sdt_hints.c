/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sdt_hints.c: types for QEMU's markers. A marker only has sizes and signs; QEMU's are made from
 * declarations, whose arguments are its arguments, in order. A file of another build does no harm:
 * something wrongly taken for a text becomes "(fault)".
 */
#include "kvmft/sdt.h"
#include "kvmft/qemu.h"
#include "kvmft/sandbox.h"

_Static_assert(QEV_MAX_ARGS <= SDT_ARGS_MAX, "a marker has room for all of an event");

static struct qevents *load_beside(const char *binary)
{
	static const char *const places[] = { "", "../share/qemu/", "../share/qemu-kvm/" };
	static const char *const installed[] = { "/usr/share/qemu/trace-events-all",
						 "/usr/share/qemu-kvm/trace-events-all" };
	const char *slash = strrchr(binary, '/');
	size_t dir = slash ? (size_t)(slash + 1 - binary) : 0;
	struct qevents *q = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(places) && !q; i++) {
		struct sbuf path = { 0 };

		sbuf_add_mem(&path, binary, dir);
		sbuf_addf(&path, "%strace-events-all", places[i]);
		if (path.error || qevents_load(path.s, false, &q, NULL))
			q = NULL;
		sbuf_free(&path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(installed) && !q; i++)
		if (qevents_load(installed[i], true, &q, NULL))
			q = NULL;
	return q;
}

int sdt_hints_find(const struct sdt_spec *s, const struct sdt_file *f, size_t room,
		   struct sdt_hints *h)
{
	bool has_qemu = false;
	size_t n;

	for (size_t i = 0; i < f->n; i++)
		has_qemu |= !strcmp(f->v[i].provider, "qemu");
	*h = (struct sdt_hints){ .events = has_qemu ? load_beside(s->path) : NULL };
	n = h->events ? qevents_count(h->events) : 0;
	h->want = calloc(n + room, sizeof(*h->want));
	if (!h->want)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct qev *e = qevents_at(h->events, i);
		struct sdt_want *w = &h->want[h->n];
		bool any = false;

		*w = (struct sdt_want){ .provider = "qemu", .name = e->name, .hint = true };
		for (size_t k = 0; k < e->nargs && k < ARRAY_SIZE(e->arg); k++) {
			if (e->arg[k].kind == QEV_STRING)
				w->as[k] = SDT_AS_STRING;
			else if (e->arg[k].kind == QEV_POINTER)
				w->as[k] = SDT_AS_HEX;
			any |= w->as[k] != SDT_AS_NUMBER;
		}
		h->n += any;
	}
	return 0;
}

/* ---- by a confined process ---- */

#define MAX_ANSWER (64u << 20)

static int hints_put(void *spec, struct sbuf *out, struct kvmft_err *err)
{
	const struct sdt_spec *s = spec;
	struct sdt_hints h = { 0 };
	struct sdt_file f;
	int ret = sdt_read(s->fd, s->path, &f, err);

	ret = ret ?: sdt_hints_find(s, &f, 0, &h);
	sdt_pack(&f, out);
	for (size_t i = 0; i < h.n; i++) {
		sbuf_add_mem(out, h.want[i].name, strlen(h.want[i].name) + 1);
		for (size_t k = 0; k < ARRAY_SIZE(h.want[i].as); k++)
			sbuf_addc(out, (char)h.want[i].as[k]);
	}
	return ret;
}

int sdt_hints_ask(const struct sdt_spec *s, size_t room, struct sdt_file *f, struct sdt_hints *h,
		  struct kvmft_err *err)
{
	struct sdt_spec copy = *s;
	struct cursor c;
	size_t max;
	int ret = sandbox_ask(hints_put, &copy, s->fd, MAX_ANSWER, &h->answer, err);

	if (ret)
		return ret;
	c = (struct cursor){ .p = (const uint8_t *)h->answer.s, .left = h->answer.len };
	ret = sdt_unpack(&c, f);
	if (ret)
		return err_why(err, ret, "%s", s->path);
	max = room + c.left / (1 + ARRAY_SIZE(h->want->as));
	h->want = calloc(max + 1, sizeof(*h->want));
	ret = h->want ? 0 : -ENOMEM;
	while (!ret && c.left) {
		struct sdt_want *w = &h->want[h->n++];
		const uint8_t *as;

		ret = cur_str(&c, &w->name);
		ret = ret ?: cur_bytes(&c, ARRAY_SIZE(w->as), &as);
		for (size_t i = 0; !ret && i < ARRAY_SIZE(w->as); i++)
			w->as[i] = as[i] <= SDT_AS_STRING ? (enum sdt_as)as[i] : SDT_AS_NUMBER;
		w->provider = "qemu";
		w->hint = true;
	}
	return err_why(err, ret, "%s", s->path);
}

void sdt_hints_free(struct sdt_hints *h)
{
	qevents_free(h->events);
	sbuf_free(&h->answer);
	free(h->want);
	*h = (struct sdt_hints){ 0 };
}
