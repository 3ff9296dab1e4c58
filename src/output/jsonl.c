/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * jsonl.c: JSON lines, one object per line. kvmft-merge(1) names every member; what is there keeps
 * its name and meaning, and new members and kinds may be added.
 *
 *	{"kind":"timeline","version":1,"clock":"ns","unit":"ns","khz":2000000,"sources":[...]}
 *	{"kind":"epoch","vm":"vm1","vcpu":0,"t":0,"tsc_offset":-81985529216486895,...}
 *	{"kind":"event","side":"host","vm":"vm1","cpu":0,"vcpu":0,"pid":281,"comm":"CPU 0/KVM",
 *	 "t":7429335005,"event":"kvm:kvm_exit","reason":"msr","fields":{"exit_reason":124,...}}
 *	{"kind":"gap","side":"host","vm":null,"cpu":0,"vcpu":null,"t":1,"until":2,"lost":17}
 *	{"kind":"damage","side":"host","vm":null,"cpu":0,"vcpu":null,"t":1,"subbuf":3}
 *	{"kind":"end","events":2,"gaps":1,"lost":17,"damaged":1}	with traces of QEMU also
 *"qemu":[...]
 */
#include "kvmft/output.h"
#include "kvmft/json.h"
#include "kvmft/pairing.h"
#include "evinfo.h"

#define JSONL_VERSION 1

struct jsonl {
	struct evinfos types;
	uint64_t events, gaps, lost, damaged;
	bool lost_unknown;
};

static void line_begin(struct json *j, struct out *o, const char *kind)
{
	json_line_begin(j, &o->line);
	json_put_str(j, "kind", kind);
}

static void jsonl_begin(struct out *o)
{
	struct jsonl *p = xcalloc(1, sizeof(*p));
	struct json j;

	o->priv = p;
	p->events = o->kept[0];
	p->gaps = o->kept[1];
	p->lost = o->kept[2];
	p->lost_unknown = o->kept[3];
	p->damaged = o->kept[4];
	if (o->resumed)
		return;
	line_begin(&j, o, "timeline");
	json_put_u64(&j, "version", JSONL_VERSION);
	json_put_str(&j, "clock", out_clock_names[o->clock.kind]);
	json_put_str(&j, "unit", out_clock_unit(&o->clock));
	json_put_known_s64(&j, "khz", o->clock.khz, (int64_t)o->clock.khz);
	out_json_rate(&j, tl_source(o->t, 0)->cap);
	json_put_array(&j, "sources");
	for (size_t i = 0; i < tl_sources(o->t); i++) {
		const struct tl_source *s = tl_source(o->t, i);

		json_object_begin(&j);
		json_put_str(&j, "side", tl_side(s));
		json_put_str(&j, "name", s->label);
		json_put_str(&j, "path", s->cap->path);
		json_put_str(&j, "trace_clock", s->cap->clock);
		json_put_str(&j, "kernel", s->cap->uname);
		json_put_u64(&j, "cpus", s->cap->nstream);
		json_put_bool(&j, "complete", s->cap->complete);
		if (s->match) {
			const struct hostmap *m = tl_hostmap(o->t);
			const struct hostmap_vm *vm = &m->vm[m->vm[s->vm].of];
			uint64_t uncertain = m->vm[s->vm].uncertain;
			_cleanup_(sbuf_free) struct sbuf tids = { 0 };

			/* Concluded, not recorded: VM, threads, where its offset is from. */
			json_put_str(&j, "paired_by", match_by_names[s->match->by]);
			if (vm->basis != HOSTMAP_RECORDED) {
				hostmap_vm_tids(m, vm->of, &tids);
				json_put_str(&j, "threads", tids.s);
				json_put_str(&j, "threads_by", hostmap_basis_names[vm->basis]);
			}
			if (uncertain) {
				json_put_str(&j, "tsc_offset_from", "events");
				json_put_u64(&j, "uncertain_cycles", uncertain);
				json_put_known_s64(&j, "uncertain_ns", m->cap->tsc_khz,
						   (int64_t)tsc_cycles_to_ns(
							   uncertain, m->cap->tsc_khz ?: 1));
			}
		}
		json_object_end(&j);
	}
	json_array_end(&j);
	json_line_end(&j);
}

/* ---- items ---- */

/* What all items have: where and when. */
static void put_place(struct json *j, const struct out *o, const struct tl_item *i)
{
	uint64_t t = 0;
	bool known;

	json_put_str(j, "side", tl_side(i->src));
	json_put_str(j, "vm", i->vm >= 0 ? tl_hostmap(o->t)->vm[i->vm].label :
			 i->src->guest ? i->src->label : NULL);
	if (i->src->guest && i->vm >= 0 && tl_hostmap(o->t)->vm[i->vm].next != HOSTMAP_END)
		json_put_u64(j, "source", i->src->index); /* the name alone does not say */
	json_put_known_s64(j, "cpu", i->cpu != TL_NO_CPU, i->cpu);
	json_put_known_s64(j, "vcpu", i->vcpu >= 0, i->vcpu);
	if (i->kind == TL_EVENT) {
		json_put_known_s64(j, "pid", i->tid >= 0 || !i->src->qemu, i->tid);
		json_put_str(j, "comm",
			     i->tid >= 0 || !i->src->qemu ? tl_comm(i->src, i->tid) : NULL);
	}
	known = out_item_time(o, i, &t);
	json_put_known_u64(j, "t", known, t);
	if (o->longer && i->kind == TL_EVENT && !i->src->qemu) {
		char context[FMT_CONTEXT + 1];

		fmt_context(tl_fmt(i), i->rec, context);
		json_put_str(j, "context", context);
	}
	if (o->day) {
		known = out_clock_value(o->day, i->host, -1, &t);
		json_put_known_u64(j, "realtime", known, t);
	}
	if (i->unplaced) {
		json_put_bool(j, "unplaced", true);
	}
}

static void jsonl_put_event(struct json *j, struct out *o, const struct tl_item *i)
{
	struct jsonl *p = o->priv;
	const struct evinfo *e;
	char reason[EXIT_NAME_MAX];
	const struct fmt_field *fld;
	struct fmt_value v;
	const struct ksyms *syms;
	uint64_t rip;

	p->events++;
	json_key(j, "event");
	if (!i->ev) { /* no format in the capture: only its number is known */
		json_null(j);
		json_put_u64(j, "id", i->rec->id);
		return;
	}
	e = evinfo_get(&p->types, i);
	json_str(j, e->name);
	if (evinfo_reason(e, i, reason, sizeof(reason)))
		json_put_str(j, "reason", reason);
	if (e->is_stack) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };
		struct fmt_value value;

		/* Innermost first, as the kernel has it. */
		fmt_stack(i->ev, i->rec, &value);
		json_put_object(j, "fields");
		json_put_array(j, "stack");
		for (uint32_t q = 0; q < value.len; q++) {
			sbuf_reset(&b);
			fmt_stack_name(i->ev, &value, q, &b);
			json_str_mem(j, xsbuf_text(&b), b.len);
		}
		json_array_end(j);
		json_object_end(j);
	} else {
		json_put_object(j, "fields");
		for (size_t k = fmt_common_fields(i->ev); (fld = fmt_field_at(i->ev, k)); k++) {
			fmt_value(fld, i->rec, &v);
			if (k < 64 && e->addresses >> k & 1 && v.kind != FMT_ABSENT)
				v.kind = FMT_POINTER;
			json_key(j, fmt_field_name(i->ev, k));
			switch (v.kind) {
			case FMT_SIGNED: json_s64(j, (int64_t)v.num); break;
			case FMT_UNSIGNED: json_u64(j, v.num); break;
			case FMT_POINTER: json_hex(j, v.num); break;
			case FMT_STRING: json_str_mem(j, v.p, v.len); break;
			case FMT_NUMBERS:
				json_array_begin(j);
				for (uint32_t m = 0; m < v.len; m++)
					json_u64(j, fmt_element(&v, m));
				json_array_end(j);
				break;
			case FMT_ABSENT: json_null(j); break;
			}
		}
		json_object_end(j);
	}
	if (i->device)
		json_put_str(j, "device", i->device);
	if (o->rips && guest_rip(o->rips, tl_hostmap(o->t), i, &rip, &syms)) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };

		/* Where the guest was; null: in no known function. */
		ksyms_name(syms, rip, &b);
		json_put_str(j, "rip_symbol",
			     ksyms_find(syms, rip) || ksyms_is_user(rip) ? xsbuf_text(&b) : NULL);
	}
}

static void jsonl_item(struct out *o, const struct tl_item *i)
{
	static const char *const kind[] = {
		[TL_EVENT] = "event", [TL_GAP] = "gap", [TL_DAMAGE] = "damage",
	};
	struct jsonl *p = o->priv;
	struct json j;

	line_begin(&j, o, kind[i->kind]);
	put_place(&j, o, i);
	if (i->kind == TL_EVENT) {
		jsonl_put_event(&j, o, i);
	} else if (i->kind == TL_GAP) {
		struct jsonl *jsonl = o->priv;
		struct tl_item end = *i;
		uint64_t t = 0;
		bool known;

		end.host += i->width;
		known = out_item_time(o, &end, &t);
		json_put_known_u64(&j, "until", known, t);
		json_put_known_s64(&j, "lost", tl_gap_counted(i), (int64_t)i->lost);
		jsonl->gaps++;
		jsonl->lost += i->lost;
		jsonl->lost_unknown |= !tl_gap_counted(i);
	} else {
		json_put_u64(&j, "subbuf", i->lost);
		p->damaged++;
	}
	json_line_end(&j);
}

static void jsonl_epoch(struct out *o, const struct out_epoch *e)
{
	uint64_t t = 0;
	struct json j;
	bool known;

	line_begin(&j, o, "epoch");
	json_put_str(&j, "vm", tl_hostmap(o->t)->vm[e->vm].label);
	json_put_u64(&j, "vcpu", e->vcpu);
	/* The first epoch holds from before the recording: there is no such time on every clock. */
	known = !e->first && out_clock_value(&o->clock, e->host,
					     e->vm == o->clock.vm ? (int64_t)e->vcpu : -1, &t);
	json_put_known_u64(&j, "t", known, t);
	json_put_known_s64(&j, "tsc_offset", e->e->has_map, (int64_t)e->e->map.offset);
	json_put_known_s64(&j, "tsc_ratio", e->e->has_map && e->e->map.ratio,
			   (int64_t)e->e->map.ratio);
	json_put_known_s64(&j, "tsc_frac", e->e->has_map && e->e->map.ratio, e->e->map.frac);
	json_put_known_s64(&j, "pvclock_version", e->e->has_pv, e->e->pv.version);
	json_put_bool(&j, "doubtful", e->e->doubtful);
	json_line_end(&j);
}

/* ---- the last line ---- */

/* How exactly each trace of QEMU was placed; markers are events of the host's own ring. */
static void put_traces(struct json *j, const struct out *o)
{
	bool some = tl_markers(o->t) != 0;

	for (size_t i = 0; i < tl_sources(o->t); i++)
		some = some || tl_source(o->t, i)->qemu;
	if (!some)
		return;
	json_put_array(j, "qemu");
	if (tl_markers(o->t)) {
		json_object_begin(j);
		json_put_str(j, "name", tl_source(o->t, 0)->label);
		json_put_str(j, "format", "marker");
		json_put_str(j, "clock", tl_source(o->t, 0)->cap->clock);
		json_put_u64(j, "bound_ns", 0);
		json_put_u64(j, "events", tl_markers(o->t));
		json_object_end(j);
	}
	for (size_t i = 0; i < tl_sources(o->t); i++)
		if (tl_source(o->t, i)->qemu) {
			const struct tl_source *s = tl_source(o->t, i);
			uint64_t khz = s->cap->tsc_khz;
			bool known = s->events > s->unplaced && khz;
			unsigned __int128 ns = 0;
			struct tl_qemu_report r;

			tl_qemu_report(s, &r);
			if (known)
				ns = ((unsigned __int128)r.worst * 1000000 + khz - 1) / khz;
			json_object_begin(j);
			json_put_str(j, "name", s->label);
			json_put_str(j, "format", qtrace_format_names[r.stats->format]);
			json_put_str(j, "clock",
				     r.stats->format == QTRACE_SIMPLE ? "mono" : "realtime");
			json_put_known_s64(j, "bound_ns", known,
					   (int64_t)MIN(ns, (unsigned __int128)INT64_MAX));
			json_put_u64(j, "events", s->events);
			json_put_u64(j, "unplaced", s->unplaced);
			json_put_u64(j, "outside", r.outside);
			json_put_u64(j, "steps", r.stats->format == QTRACE_SIMPLE ? 0 : r.steps);
			if (r.shown) {
				json_put_str(j, "by", "events");
				json_put_u64(j, "shown", r.shown);
				json_put_u64(j, "bound_cycles", r.worst);
				json_put_u64(j, "median_cycles", r.median);
			}
			json_object_end(j);
		}
	json_array_end(j);
}

static void jsonl_end(struct out *o)
{
	struct jsonl *p = o->priv;
	struct json j;

	memcpy(o->kept, (uint64_t[]){ p->events, p->gaps, p->lost, p->lost_unknown, p->damaged },
	       5 * sizeof(*o->kept));
	if (!o->goes_on) {
		line_begin(&j, o, "end");
		json_put_u64(&j, "events", p->events);
		json_put_u64(&j, "gaps", p->gaps);
		json_put_known_s64(&j, "lost", !p->lost_unknown, (int64_t)p->lost);
		json_put_u64(&j, "damaged", p->damaged);
		put_traces(&j, o);
		json_line_end(&j);
	}
	evinfos_free(&p->types);
	free(p);
	o->priv = NULL;
}

const struct out_format out_json = {
	.name = "json",
	.begin = jsonl_begin,
	.item = jsonl_item,
	.epoch = jsonl_epoch,
	.end = jsonl_end,
};
