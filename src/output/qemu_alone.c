/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_alone.c: a trace of QEMU without the capture of its host, in the order and with the clock of
 * the file.
 */
#include "kvmft/qemu_alone.h"

#include <inttypes.h>

#include "kvmft/json.h"

#define FLUSH_AT (256u << 10)

struct alone {
	const struct qemu_alone *o;
	struct sbuf b, text;
	bool begun;
	uint64_t base; /* ns of the first event with a time */
};

/* The arguments, as QEMU's own format or the file has them. */
static void qemu_put_text(struct alone *a, const struct qtrace_item *i)
{
	sbuf_reset(&a->text);
	if (i->text)
		sbuf_add_mem(&a->text, i->text, i->text_len);
	else if (i->has_args)
		qev_print(i->ev, i->arg, i->ev->nargs, &a->text);
	else
		for (uint32_t k = 0; k < i->nraw; k++)
			sbuf_addf(&a->text, "%s0x%" PRIx64, k ? " " : "args ", i->raw[k]);
	for (size_t k = 0; k < a->text.len && !a->text.error; k++)
		a->text.s[k] = a->text.s[k] ? a->text.s[k] : '?';
	if (a->text.len && !a->text.error)
		str_printable(a->text.s);
}

static bool time_of(struct alone *a, const struct qtrace_item *i, uint64_t *ns)
{
	if (i->clock == QTRACE_NO_CLOCK)
		return false;
	if (!a->begun && !a->o->clock) {
		a->begun = true;
		a->base = i->ns;
	}
	*ns = i->ns - a->base;
	return true;
}

static int json_line(struct alone *a, const struct qtrace_item *i)
{
	uint64_t ns = 0;
	bool known = time_of(a, i, &ns);
	struct json j;

	json_line_begin(&j, &a->b);
	json_put_str(&j, "kind", i->kind == QTRACE_LOST ? "lost" : "event");
	json_put_str(&j, "side", "qemu");
	json_put_known_s64(&j, "time", known, (int64_t)ns);
	json_put_known_s64(&j, "tid", i->tid, i->tid);
	if (i->kind == QTRACE_LOST) {
		json_put_known_u64(&j, "count", i->lost, i->lost);
		return json_line_end(&j);
	}
	json_key(&j, "event");
	json_str_mem(&j, i->name, i->name_len);
	json_put_object(&j, "fields");
	for (size_t k = 0; i->has_args && k < i->ev->nargs; k++) {
		const struct qev_arg *d = &i->ev->arg[k];
		const struct qev_value *v = &i->arg[k];

		if (d->kind == QEV_STRING) {
			json_key(&j, d->name);
			v->s ? json_str_mem(&j, v->s, v->len) : json_null(&j);
		} else if (d->kind == QEV_POINTER) {
			json_key(&j, d->name);
			json_hex(&j, v->num);
		} else if (d->kind == QEV_SIGNED) {
			json_put_s64(&j, d->name, (int64_t)v->num);
		} else {
			json_put_u64(&j, d->name, v->num);
		}
	}
	json_object_end(&j);
	qemu_put_text(a, i);
	json_put_str(&j, "text", a->text.len ? a->text.s : "");
	return json_line_end(&j);
}

int qemu_alone_print(const struct qemu_alone *o)
{
	struct alone a = { .o = o };
	struct qtrace_item i;
	int ret = 0;

	while (qtrace_stats(o->t)->events < o->most && (ret = qtrace_next(o->t, &i)) > 0) {
		if (o->clock && i.clock && i.clock != o->clock) {
			ret = -EDOM;
			break;
		}
		if (o->json) {
			ret = json_line(&a, &i);
		} else {
			uint64_t ns;
			time_t second;
			char date[32];
			struct tm tm;

			sbuf_addf(&a.b, "qemu -%-7" PRId32 " ", i.tid);
			if (!time_of(&a, &i, &ns)) {
				sbuf_addf(&a.b, "%15s", "?");
			} else {
				second = (time_t)(ns / 1000000000u);
				if (a.o->clock && i.clock == QTRACE_REALTIME &&
				    localtime_r(&second, &tm) &&
				    strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm))
					sbuf_addf(&a.b, "%s.%09" PRIu64, date, ns % 1000000000u);
				else
					sbuf_addf(&a.b, "%s%5" PRIu64 ".%09" PRIu64,
						  (int64_t)ns < 0 ? "-" : "",
						  ((int64_t)ns < 0 ? -ns : ns) / 1000000000u,
						  ((int64_t)ns < 0 ? -ns : ns) % 1000000000u);
			}
			if (i.kind == QTRACE_LOST) {
				if (i.lost)
					sbuf_addf(&a.b, "  LOST %" PRIu64 " EVENTS\n", i.lost);
				else
					sbuf_add(&a.b, "  LOST EVENTS, their number is unknown\n");
			} else {
				qemu_put_text(&a, &i);
				sbuf_addf(&a.b, "  qemu:%.*s:%s%s\n", (int)i.name_len, i.name,
					  a.text.len ? " " : "", a.text.len ? a.text.s : "");
			}
		}
		if (ret < 0 || (a.b.len >= FLUSH_AT && (ret = sbuf_write(&a.b, o->f))))
			break;
	}
	ret = ret < 0 ? ret : sbuf_write(&a.b, o->f);
	sbuf_free(&a.b);
	sbuf_free(&a.text);
	return ret;
}
