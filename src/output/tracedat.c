/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat.c: captures as trace.dat files.
 *
 * Every event is decoded and encoded again, so that damaged data is left out and sub-buffers may
 * get another size. A guest's stamps are converted to the host's TSC: readers cannot convert scaled
 * TSCs or kvmclock, and apply TIME_SHIFT only to the top-level buffer.
 */
#include "kvmft/results.h"

/*
 * How a reader of trace.dat files has to move a guest's TSC onto its host's.
 *
 * Readers add to a stamp the offset of the last sample whose time is not after it; the times are
 * the guest's own, and the last sample is never used. So each epoch of a vCPU's TSC offset is a
 * sample from where it begins, the first one from 0, and one more closes the list. All readers get
 * scaling wrong, and a TSC that was set back cannot be expressed in their order.
 */

static void dat_add_sample(struct cap_shift *s, size_t *cap, int64_t time, uint64_t tsc_offset)
{
	const struct cap_shift_sample v = { .time = time, .offset = (int64_t)(0 - tsc_offset),
					    .scaling = 1 };

	xarray_add(&s->sample, &s->nsample, cap, &v, sizeof(v));
}

static int shift_of(const struct epoch_vcpu *v, struct cap_shift *s)
{
	size_t cap = 0;
	uint64_t last = 0;
	int64_t time = -1;

	for (size_t i = 0; v && i < v->n; i++) {
		const struct epoch *e = &v->v[i];

		if (!e->has_map || (s->nsample && e->map.offset == last))
			continue;
		if (e->map.ratio && e->map.ratio != 1ull << e->map.frac)
			return -EOPNOTSUPP;
		last = e->map.offset;
		if (s->nsample && (int64_t)(e->from + last) <= time)
			return -ERANGE;
		time = s->nsample ? (int64_t)(e->from + last) : 0;
		dat_add_sample(s, &cap, time, last);
	}
	if (!s->nsample)
		return -ENODATA;
	dat_add_sample(s, &cap, INT64_MAX, last);
	return 0;
}

/* Option TIME_SHIFT of guest g for the file w. */
static int export_time_shift(const struct pairing *p, const struct pairing_guest *g, struct tdw *w,
		      const struct tdw_spec *spec, struct kvmft_err *err)
{
	const struct capture *c = g->c.cap;
	const struct epoch_vm *vm = p->map->vm[g->vm].epochs;
	struct cap_shift *s;
	int ret = 0;

	if (!cap_in_tsc(c))
		return err_set(err, EOPNOTSUPP,
			       "%s: its trace clock is %s, not x86-tsc: leave --clock guest-tsc out",
			       c->path, c->clock ?: "unknown");
	s = xcalloc(spec->cpus + 1, sizeof(*s));
	for (uint32_t i = 0; i < spec->cpus && !ret; i++)
		ret = shift_of(epoch_vm_find(vm, cap_vcpu_of_cpu(c, i)), &s[i]);
	if (ret == -EOPNOTSUPP)
		err_set(err, EOPNOTSUPP, "%s: its TSC is scaled, which no reader of TIME_SHIFT gets right: "
			"leave --clock guest-tsc out", c->path);
	else if (ret == -ERANGE)
		err_set(err, ERANGE, "%s: its TSC was set back while it was recorded, which TIME_SHIFT "
			"cannot tell: leave --clock guest-tsc out", c->path);
	else if (ret == -ENODATA)
		err_lack(err, ENODATA, "%s: the TSC offset of a vCPU is not known: give it with "
			 "--tsc-offset", c->path);
	if (!ret)
		tdw_time_shift_option(w, tdw_trace_id(p->host.cap), 0, s, spec->cpus);
	for (uint32_t i = 0; i < spec->cpus; i++)
		free(s[i].sample);
	free(s);
	return ret;
}

struct dat_stream {
	size_t number; /* in the capture */
	size_t buffer; /* 0 = top */
	uint32_t cpu;
};

/* One file. */
struct dat {
	struct pairing *p;
	const struct export_config *o;
	struct kvmft_err *err;
	size_t source; /* on the time line */
	const struct capture *cap;
	bool placed;   /* stamps become the host's */
	struct tdw_spec spec;
	struct tdw *w;
	struct dat_stream *stream;
	const char **name; /* of named buffers */
	uint32_t *cpus;
	size_t nname;
	struct u64map by_name; /* index into name[] + 1; by a hash with this key */
	struct hash_key key;
};

/* ---- which stream goes where ---- */

COMPARE(stream_cmp, struct dat_stream, ORDER(x->buffer, y->buffer) ?: ORDER(x->cpu, y->cpu));

static int plan_file(struct dat *d)
{
	const struct capture *c = d->cap;
	uint32_t size = MAX(c->subbuf_size, 4096u), all;

	d->spec.cap = c;
	d->spec.part = tl_source(d->p->t, d->source)->windowed;
	/* What a damaged capture does not say is the kernel's default. */
	d->spec.clock = !d->placed		  ? c->clock ?: "local"
			: d->p->host.cap->unit_ns ? d->p->host.cap->clock
						  : "x86-tsc";
	d->spec.g = (struct subbuf_geom){
		.size = size, .header = c->page_header, .long_size = c->long_size,
	};
	all = 1;
	c = d->cap;
	hash_key_init(&d->key);
	d->stream = xcalloc(c->nstream + 1, sizeof(*d->stream));
	d->name = xcalloc(c->nstream + 1, sizeof(*d->name));
	d->cpus = xcalloc(c->nstream + 1, sizeof(*d->cpus));
	for (size_t i = 0; i < c->nstream; i++) {
		const char *name = c->stream[i].instance;
		struct dat_stream *s = &d->stream[i];

		*s = (struct dat_stream){ .number = i, .cpu = c->stream[i].cpu };
		if (*name) { /* from 1 on */
			const uint64_t key = hash_bytes(&d->key, name, strlen(name));
			uint64_t *nth = xu64map_at(&d->by_name, key);

			if (!*nth) {
				d->name[d->nname] = name;
				*nth = ++d->nname;
			}
			s->buffer = (size_t)*nth;
		}
		all = MAX(all, s->cpu + 1);
		if (s->buffer)
			d->cpus[s->buffer - 1] = MAX(d->cpus[s->buffer - 1], s->cpu + 1);
		else
			d->spec.cpus = MAX(d->spec.cpus, s->cpu + 1);
	}
	d->spec.cpus = d->spec.cpus ?: all;
	array_sort(d->stream, c->nstream, stream_cmp);
	for (size_t i = 1; i < c->nstream; i++)
		if (!stream_cmp(&d->stream[i], &d->stream[i - 1]))
			return err_set(d->err, EBADMSG,
				       "%s holds CPU %u twice: they cannot be told apart",
				       c->path, d->stream[i].cpu);
	d->spec.instance = d->name;
	d->spec.instance_cpus = d->cpus;
	d->spec.ninstance = d->nname;
	return 0;
}

/* ---- facts ---- */

COMPARE_BY(thread_cmp, struct hostmap_thread, .vcpu);

/* One that only the host knows: its CPUs in the order of their vCPU ids, as guests count them. */
static void dat_put_vm(struct dat *d, size_t vm)
{
	const struct hostmap *m = d->p->map;
	const struct cap_vm *cap = m->vm[vm].cap;
	_cleanup_free_ struct hostmap_thread *t = NULL;
	_cleanup_free_ int32_t *tid = NULL;
	uint32_t n = 0, k = 0;

	if (!cap || (!cap->trace_id && !cap->uuid))
		return;
	t = xcalloc(m->nthread + 1, sizeof(*t));
	tid = xcalloc(m->nthread + 1, sizeof(*tid));
	for (size_t i = 0; i < m->nthread; i++)
		if (m->thread[i].vm == vm)
			t[n++] = m->thread[i];
	array_sort(t, n, thread_cmp);
	for (uint32_t i = 0; i < n; i++)
		if (!i || t[i].vcpu != t[i - 1].vcpu)
			tid[k++] = t[i].tid;
	tdw_guest_option(d->w, m->vm[vm].label, cap->trace_id ?: tdw_trace_id_of_uuid(cap->uuid),
			 tid, k);
}

static void put_guests(struct dat *d)
{
	for (size_t i = 0; i < d->p->nguest; i++) {
		/* One with a capture: its CPUs are the streams of that. */
		const struct pairing_guest *g = &d->p->guest[i];
		const struct capture *c = g->c.cap;
		_cleanup_free_ int32_t *tid = NULL;
		uint32_t n = 0;

		for (size_t j = 0; j < c->nstream; j++)
			n = MAX(n, c->stream[j].cpu + 1);
		tid = xcalloc(n + 1, sizeof(*tid));
		for (uint32_t j = 0; j < n; j++) {
			const struct hostmap_thread *thread =
				hostmap_vcpu(d->p->map, g->vm, cap_vcpu_of_cpu(c, j));

			tid[j] = thread ? thread->tid : 0;
		}
		tdw_guest_option(d->w, d->p->map->vm[g->vm].label, tdw_trace_id(c), tid, n);
	}
	for (size_t vm = 0; vm < d->p->map->nvm; vm++) {
		bool known = false;

		for (size_t i = 0; i < d->p->nguest; i++)
			known |= d->p->guest[i].vm == vm;
		if (!known)
			dat_put_vm(d, vm);
	}
}

/* ---- events ---- */

static int put_stream(struct dat *d, const struct dat_stream *s)
{
	struct timeline *t = d->p->t;
	struct subbuf_writer sw;
	const struct tl_item *i;
	uint64_t n = 0;
	int ret;

	tdw_cpu(d->w, s->cpu);
	ret = tl_start_stream(t, d->source, s->number, d->err);
	if (ret)
		return ret;
	ret = subbuf_writer_init(&sw, &d->spec.g, tdw_subbuf, d->w);
	for (; !ret && (ret = tl_next(t, &i)) > 0; n += i->kind == TL_EVENT) {
		if (i->kind == TL_EVENT)
			ret = subbuf_write(&sw, d->placed ? i->host : i->rec->ts, i->rec->data,
					   i->rec->len);
		else
			ret = subbuf_write_lost(&sw, i->kind == TL_GAP ? i->lost : 0);
	}
	if (ret == -EMSGSIZE)
		err_set(d->err, EMSGSIZE,
			"an event of %u bytes does not fit into sub-buffers of %u bytes",
			i->rec->len, d->spec.g.size);
	tdw_events(d->w, n);
	ret = ret ?: subbuf_write_end(&sw);
	subbuf_writer_free(&sw);
	return ret;
}

/* Whom it is named after; NULL = the host's. */
static const char *file_of(const struct pairing *p, size_t source)
{
	return source ? p->map->vm[p->guest[source - 1].vm].label : NULL;
}

static int one_file(struct pairing *p, const struct export_config *o, size_t source,
		    struct kvmft_err *err)
{
	struct dat d = { .p = p, .o = o, .err = err, .source = source };
	size_t at = 0;
	int ret;

	d.cap = source ? p->guest[source - 1].c.cap : p->host.cap;
	d.placed = source && !o->time_shift;
	ret = plan_file(&d);
	ret = ret ?: tdw_create(outfile_fd(o->out, source), &d.spec, &d.w);
	if (!ret) {
		const struct capture *c = p->host.cap;
		uint32_t mult = c->tsc2nsec_mult, shift = c->tsc2nsec_shift;

		tdw_facts(d.w);
		tdw_id_option(d.w, tdw_trace_id(d.cap));
		if (c->has_tsc2nsec || (!strcmp(d.spec.clock, "x86-tsc") &&
					tdw_tsc2nsec(c->tsc_khz, &mult, &shift)))
			tdw_tsc2nsec_option(d.w, mult, shift);
		if (source && !d.placed)
			ret = export_time_shift(p, &p->guest[source - 1], d.w, &d.spec, err);
		if (!source && d.cap->nshift)
			tdw_time_shift_option(d.w, d.cap->shift_peer, d.cap->shift_flags,
					      d.cap->shift, (uint32_t)d.cap->nshift);
		if (!source && d.cap->side != CAP_SIDE_GUEST)
			put_guests(&d);
	}
	for (size_t b = 0; b <= d.nname && !ret; b++) {
		tdw_buffer(d.w);
		for (; at < d.cap->nstream && d.stream[at].buffer == b && !ret; at++)
			ret = put_stream(&d, &d.stream[at]);
	}
	ret = d.w ? tdw_close(d.w, ret) : ret;
	if (ret && !err->text[0]) {
		_cleanup_free_ char *path = outfile_name(o->out, file_of(p, source));

		err_why(err, ret, "cannot write %s", path ?: o->output);
	}
	u64map_free(&d.by_name);
	free(d.stream);
	free(d.name);
	free(d.cpus);
	return ret;
}

int export_dat(struct pairing *p, const struct export_config *o, struct kvmft_err *err)
{
	int ret = 0;

	tl_stop(p->t); /* streams are walked one by one */
	/* "web 1" and "web_1" want the same one. */
	for (size_t i = 0; i <= p->nguest && !ret; i++) {
		_cleanup_free_ char *path = outfile_name(o->out, file_of(p, i));

		for (size_t k = 1; k < i && path; k++) {
			_cleanup_free_ char *other = outfile_name(o->out, file_of(p, k));

			if (other && !strcmp(path, other))
				return err_set(err, EEXIST,
					       "%s would hold %s and %s: export them one by one", path,
					       file_of(p, k), file_of(p, i));
		}
		ret = outfile_check(o->out, file_of(p, i), p->t, NULL, err);
	}
	for (size_t i = 0; i <= p->nguest && !ret; i++)
		ret = one_file(p, o, i, err);
	return ret;
}
