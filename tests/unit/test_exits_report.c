/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_exits_report.c: tests of src/exits/report*.c: that the walk by slices and the pairing give
 * what a simple program gives that sorts all events first; histograms, the limit of memory, figures.
 * Tables as users see them are in tests/cli/report.t.
 */
#include "unit/capture_fixture.h"

#include <setjmp.h>

#include <cmocka.h>

#include "kvmft/report.h"

#define CPUS	6
#define THREADS 4
#define REASONS 5

/* ---- random captures ---- */

struct event {
	uint64_t ts;
	uint32_t cpu;
	int32_t tid;
	bool exit;
	uint32_t reason;
};

struct plan {
	struct event *ev;
	size_t n;
};

static uint32_t rnd(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/*
 * Each thread enters and exits by turns, and moves to another CPU with probability 1/move, between
 * any two events. Stamps are all different, so that there is one order.
 */
static struct plan make_plan(uint32_t seed, size_t n, uint32_t move)
{
	uint64_t ts = 1000;
	uint32_t cpu[THREADS];
	bool exited[THREADS] = { false };
	struct plan p = { calloc(n, sizeof(struct event)), n };

	for (uint32_t t = 0; t < THREADS; t++)
		cpu[t] = t % CPUS;
	for (size_t i = 0; i < n; i++) {
		/* in bursts: a thread alone for a while, so that CPUs are behind one another */
		uint32_t t = rnd(&seed) % 7 ? (uint32_t)(i / 40 % THREADS) : rnd(&seed) % THREADS;

		ts += 1 + rnd(&seed) % 300;
		if (!(rnd(&seed) % move))
			cpu[t] = rnd(&seed) % CPUS;
		p.ev[i] = (struct event){ ts, cpu[t], 100 + (int32_t)t, !exited[t],
					  rnd(&seed) % REASONS };
		exited[t] = !exited[t];
		/* now and then an exit after an exit */
		if (exited[t] && !(rnd(&seed) % 50))
			exited[t] = false;
	}
	return p;
}

static uint16_t id_of(const char *name)
{
	return (uint16_t)strtoul(strstr(enc_format("kvm", name), "ID:") + 3, NULL, 10);
}

static void put_cpu(const char *dir, const struct plan *p, uint32_t cpu)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
	uint8_t page[FX_SUB], data[96];
	struct sbuf all = { 0 };
	struct encpage ep;
	bool open = false;
	char name[64];

	for (size_t i = 0; i < p->n; i++) {
		const struct event *e = &p->ev[i];
		uint32_t len = e->exit ? 72 : 40;

		if (e->cpu != cpu)
			continue;
		enc_record(data, id_of(e->exit ? "kvm_exit" : "kvm_entry"), e->tid, 0, len);
		enc_put(data + 8, e->exit ? e->reason : (uint32_t)(e->tid - 100), 4);
		if (e->exit)
			enc_put(data + 24, 1, 4); /* isa */
		if (open && enc_event(&ep, e->ts, data, len))
			continue;
		if (open) {
			enc_page_end(&ep);
			sbuf_add_mem(&all, page, sizeof(page));
		}
		memset(page, 0, sizeof(page));
		enc_page_begin(&ep, &g, page, e->ts);
		assert_true(enc_event(&ep, e->ts, data, len));
		open = true;
	}
	if (open) {
		enc_page_end(&ep);
		sbuf_add_mem(&all, page, sizeof(page));
	}
	snprintf(name, sizeof(name), "seg000000/cpu%u", cpu);
	enc_file(dir, name, all.s ? all.s : "", all.len);
	sbuf_free(&all);
}

static char *make_capture(const struct plan *p)
{
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
	struct sbuf meta = { 0 };
	char *dir = enc_tmpdir();

	fx_meta(&meta, &g);
	sbuf_add(&meta, "tsc khz=1000000 source=test\n");
	fx_event(dir, &meta, "kvm", "kvm_exit");
	fx_event(dir, &meta, "kvm", "kvm_entry");
	for (uint32_t c = 0; c < CPUS; c++)
		put_cpu(dir, p, c);
	fx_end(&meta);
	fx_write(dir, &meta);
	return dir;
}

/* ---- a report of a capture ---- */

struct opened {
	struct capture *cap;
	struct fmt *fmt;
	struct report *r;
};

static struct opened open_report(const char *dir, struct report_opts opts)
{
	struct opened o = { .cap = fx_open(dir) };
	struct kvmft_err err = { .text = "" };

	opts.cls = class_find("vmexit");
	assert_non_null(o.cap);
	o.fmt = fmt_load(o.cap);
	assert_int_equal(report_new(o.cap, o.fmt, &opts, &o.r, &err), 0);
	assert_int_equal(report_walk(o.r, &err), 0);
	return o;
}

static void close_report(struct opened *o)
{
	report_free(o->r);
	fmt_free(o->fmt);
	capture_close(o->cap);
}

/* ---- the simple program ---- */

struct naive {
	uint64_t n, timed, sum, min, max;
};

static void naive_pairs(const struct plan *p, struct naive out[THREADS][REASONS])
{
	struct {
		bool open;
		uint64_t ts;
		uint32_t reason;
	} last[THREADS];

	memset(last, 0, sizeof(last));
	memset(out, 0, sizeof(struct naive) * THREADS * REASONS);
	for (size_t i = 0; i < p->n; i++) {
		const struct event *e = &p->ev[i];
		uint32_t t = (uint32_t)(e->tid - 100);
		struct naive *s = &out[t][last[t].reason];

		if (last[t].open) {
			s->n++;
			if (!e->exit) {
				uint64_t d = e->ts - last[t].ts;

				s->min = s->timed && s->min < d ? s->min : d;
				s->max = s->max > d ? s->max : d;
				s->timed++;
				s->sum += d;
			}
		}
		last[t].open = e->exit;
		last[t].ts = e->ts;
		last[t].reason = e->reason;
	}
}

static void compare(const struct plan *p, const struct opened *o)
{
	struct naive want[THREADS][REASONS];

	naive_pairs(p, want);
	for (int32_t t = 0; t < THREADS; t++) {
		struct report_filter f = { .vm = -1, .vcpu = t, .tid = 100 + t };
		struct report_table table;
		uint64_t samples = 0;

		report_table(o->r, &f, KEY_SAMPLE, &table);
		for (size_t i = 0; i < table.n; i++) {
			const struct report_row *row = &table.row[i];
			const struct naive *w = &want[t][row->key & 0xffff];

			assert_int_equal(row->samples, w->n);
			assert_int_equal(row->timed, w->timed);
			assert_int_equal(row->total_time, w->sum);
			assert_int_equal(row->min_time, w->timed ? w->min : 0);
			assert_int_equal(row->max_time, w->max);
			samples += row->samples;
		}
		for (uint32_t k = 0; k < REASONS; k++)
			samples -= want[t][k].n;
		assert_int_equal(samples, 0);
		report_table_free(&table);
	}
}

/* Cells that all vCPUs share hold what those of each would hold together. */
static void compare_all(const struct opened *apart, const struct opened *shared)
{
	const struct report_filter f = { .vm = -1, .vcpu = -1 };
	struct report_table want, got;

	report_table(apart->r, &f, KEY_NAME, &want);
	report_table(shared->r, &f, KEY_NAME, &got);
	assert_int_equal(got.n, want.n);
	assert_int_equal(got.vcpus, want.vcpus);
	assert_int_equal(got.samples, want.samples);
	assert_int_equal(got.total_time, want.total_time);
	assert_int_equal(got.guest_time, want.guest_time);
	for (size_t i = 0; i < want.n; i++) {
		assert_int_equal(got.row[i].key, want.row[i].key);
		assert_int_equal(got.row[i].samples, want.row[i].samples);
		assert_int_equal(got.row[i].timed, want.row[i].timed);
		assert_int_equal(got.row[i].min_time, want.row[i].min_time);
		assert_int_equal(got.row[i].max_time, want.row[i].max_time);
		assert_int_equal(got.row[i].avg_time, want.row[i].avg_time);
		assert_int_equal(got.row[i].stderr_pct, want.row[i].stderr_pct);
		assert_memory_equal(got.row[i].percentile_time, want.row[i].percentile_time,
				    sizeof(want.row[i].percentile_time));
		assert_true(got.row[i].counted);
	}
	report_table_free(&want);
	report_table_free(&got);
}

static void test_any_migration(void **state __unused_arg)
{
	static const uint32_t move[] = { 1, 3, 20, 300, 1u << 23 };

	for (uint32_t seed = 1; seed <= 2; seed++) {
		for (size_t m = 0; m < ARRAY_SIZE(move); m++) {
			struct plan p = make_plan(seed * 77, 6000, move[m]);
			char *dir = make_capture(&p);
			struct report_opts by_vcpu = { .percentiles = true };
			struct opened o = open_report(dir, by_vcpu);
			struct opened all = open_report(dir, (struct report_opts){ .percentiles = true });

			assert_int_equal(report_totals(o.r)->events, p.n);
			assert_int_equal(report_totals(o.r)->backwards, 0);
			compare(&p, &o);
			compare_all(&o, &all);
			close_report(&o);
			close_report(&all);
			enc_rmtree(dir);
			free(p.ev);
		}
	}
}

/* ---- many vCPUs ---- */

#define MANY 1300

/* Thread i exits i % 3 + 1 times for reason i % 5, for i + 1 each. */
static struct plan many_vcpus(void)
{
	struct plan p = { calloc(MANY * 7, sizeof(struct event)), 0 };
	uint64_t ts = 1000;

	for (uint32_t i = 0; i < MANY; i++)
		p.ev[p.n++] = (struct event){ .ts = ts++, .tid = 100 + (int32_t)i };
	for (uint32_t k = 0; k < 3; k++) {
		for (uint32_t i = 0; i < MANY; i++) {
			if (i % 3 < k)
				continue;
			p.ev[p.n++] = (struct event){ ts, 0, 100 + (int32_t)i, true, i % 5 };
			ts += i + 1;
			p.ev[p.n++] = (struct event){ ts, 0, 100 + (int32_t)i, false, 0 };
		}
	}
	return p;
}

static void check_one(const struct opened *o, uint32_t i, bool percentiles)
{
	struct report_filter f = { .vm = -1, .vcpu = i, .tid = 100 + (int32_t)i };
	struct report_table t;

	report_table(o->r, &f, KEY_SAMPLE, &t);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.vcpus, 1);
	assert_int_equal(t.row[0].key & 0xffff, i % 5);
	assert_int_equal(t.row[0].samples, i % 3 + 1);
	assert_int_equal(t.row[0].min_time, i + 1);
	assert_int_equal(t.total_time, (i % 3 + 1) * (i + 1));
	assert_int_equal(t.windows, i % 3 + 1);
	assert_int_equal(t.row[0].counted, percentiles);
	if (percentiles)
		assert_in_range(t.row[0].percentile_time[2], i + 1 - i / 16, i + 1);
	report_table_free(&t);
}

/* Those of threads lo..hi-1, or with lo = hi of all: sums of what check_one() has of each. */
static void check_some(const struct opened *o, uint32_t lo, uint32_t hi)
{
	_cleanup_free_ int32_t *pid = calloc(MANY, sizeof(*pid));
	struct report_filter f = { .vm = -1, .vcpu = -1, .pid = lo < hi ? pid : NULL, .npid = hi - lo };
	uint64_t samples[5] = { 0 }, total = 0;
	struct report_table t;

	for (uint32_t i = 0; i < MANY; i++) {
		if (lo < hi && (i < lo || i >= hi))
			continue;
		if (lo < hi)
			pid[i - lo] = 100 + (int32_t)i;
		samples[i % 5] += i % 3 + 1;
		total += (uint64_t)(i % 3 + 1) * (i + 1);
	}
	report_table(o->r, &f, KEY_NAME, &t);
	assert_int_equal(t.n, 5);
	assert_int_equal(t.total_time, total);
	assert_int_equal(t.vcpus, lo < hi ? hi - lo : MANY);
	for (size_t i = 0; i < t.n; i++)
		assert_int_equal(t.row[i].samples, samples[t.row[i].key & 0xffff]);
	report_table_free(&t);
}

static void check_many(const char *dir, struct report_opts opts)
{
	struct opened o = open_report(dir, opts);
	struct report_totals tot = *report_totals(o.r);

	assert_int_equal(report_vcpus(o.r), MANY);
	check_some(&o, 0, 0);
	for (uint32_t i = 0; i < MANY; i += 50) /* back and forth */
		check_one(&o, i * 7 % MANY, opts.percentiles);
	check_some(&o, 0, 0);
	check_some(&o, 300, 1100);
	check_some(&o, 300, 310);
	check_some(&o, 10, 20);
	check_some(&o, 300, 1100);
	check_some(&o, 0, 0);
	check_one(&o, MANY - 1, opts.percentiles);
	assert_memory_equal(&tot, report_totals(o.r), sizeof(tot)); /* not counted twice */
	assert_int_equal(report_vcpus(o.r), MANY);
	close_report(&o);
}

static void test_many_vcpus(void **state __unused_arg)
{
	struct plan p = many_vcpus();
	char *dir = make_capture(&p);

	check_many(dir, (struct report_opts){ .percentiles = true, .split = true });
	check_many(dir, (struct report_opts){ .semantics = REPORT_EXACT });
	enc_rmtree(dir);
	free(p.ev);
}

/* ---- figures ---- */

/* Exits of one thread that last the given times. */
static struct plan durations(const uint64_t *d, size_t n, uint32_t reasons)
{
	struct plan p = { calloc(2 * n + 1, sizeof(struct event)), 2 * n + 1 };
	uint64_t ts = 1000;

	p.ev[0] = (struct event){ .ts = ts, .tid = 100 };
	for (size_t i = 0; i < n; i++) {
		ts += 10;
		p.ev[1 + 2 * i] = (struct event){ ts, 0, 100, true, (uint32_t)i % reasons };
		ts += d[i];
		p.ev[2 + 2 * i] = (struct event){ ts, 0, 100, false, 0 };
	}
	return p;
}

static struct report_table table_of(const struct opened *o, enum report_key key)
{
	struct report_filter f = { .vm = -1, .vcpu = -1 };
	struct report_table t;

	report_table(o->r, &f, key, &t);
	return t;
}

static void check_error(const uint64_t *d, size_t n, uint32_t want)
{
	struct plan p = durations(d, n, 1);
	char *dir = make_capture(&p);
	struct opened o = open_report(dir, (struct report_opts){ 0 });
	struct report_table t = table_of(&o, KEY_SAMPLE);

	assert_int_equal(t.n, 1);
	assert_int_equal(t.row[0].stderr_pct, want);
	report_table_free(&t);
	close_report(&o);
	enc_rmtree(dir);
	free(p.ev);
}

/* 100 * sqrt(M2 / (n - 1) / n) / mean, worked out by hand. */
static void test_standard_error(void **state __unused_arg)
{
	check_error((uint64_t[]){ 1, 2, 3, 4 }, 4, 2582);
	check_error((uint64_t[]){ 1000, 2000, 3000, 4000 }, 4, 2582);
	check_error((uint64_t[]){ 5 }, 1, 0);
	check_error((uint64_t[]){ 7, 7, 7 }, 3, 0);
	check_error((uint64_t[]){ 0, 0, 100 }, 3, 10000);
	/* a distance of 1 around 2^40: far below what is shown, and no rounding may make it more */
	check_error((uint64_t[]){ 1ull << 40, (1ull << 40) + 1 }, 2, 0);
	check_error((uint64_t[]){ 1ull << 40, 3ull << 40 }, 2, 5000);
	check_error((uint64_t[]){ 0, 0 }, 2, 0);
}

static int cmp_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void check_near(uint64_t got, uint64_t want)
{
	uint64_t d = got > want ? got - want : want - got;

	assert_true(d <= want / 64 + 1);
}

static void test_percentiles(void **state __unused_arg)
{
	uint64_t d[1000];
	uint32_t seed = 5;
	struct report_table t;
	struct opened o;
	struct plan p;
	char *dir;

	for (size_t i = 0; i < ARRAY_SIZE(d); i++)
		d[i] = 1ull << (rnd(&seed) % 30) | rnd(&seed) % 1000;
	p = durations(d, ARRAY_SIZE(d), 1);
	dir = make_capture(&p);
	o = open_report(dir, (struct report_opts){ .percentiles = true });
	t = table_of(&o, KEY_SAMPLE);
	qsort(d, ARRAY_SIZE(d), sizeof(d[0]), cmp_u64);
	assert_int_equal(t.n, 1);
	check_near(t.row[0].percentile_time[0], d[499]);
	check_near(t.row[0].percentile_time[1], d[899]);
	check_near(t.row[0].percentile_time[2], d[989]);
	assert_int_equal(t.row[0].min_time, d[0]);
	assert_int_equal(t.row[0].max_time, d[999]);
	report_table_free(&t);
	close_report(&o);
	enc_rmtree(dir);
	free(p.ev);
}

/* More keys than there is memory for: sums stay, one row has the rest. */
static void test_crowded(void **state __unused_arg)
{
	size_t n = 200000;
	uint64_t *d = malloc(n * sizeof(*d)), samples = 0;
	struct report_table t;
	struct opened o;
	struct plan p;
	char *dir, name[REPORT_NAME];

	for (size_t i = 0; i < n; i++)
		d[i] = 50;
	p = durations(d, n, (uint32_t)n);
	dir = make_capture(&p);
	o = open_report(dir, (struct report_opts){ .percentiles = true, .split = true });
	t = table_of(&o, KEY_SAMPLE);
	for (size_t i = 0; i < t.n; i++)
		samples += t.row[i].samples;
	assert_int_equal(samples, n);
	assert_int_equal(t.samples, n);
	assert_int_equal(t.total_time, n * 50);
	report_key_name(o.r, t.row[0].key, name); /* the one with most samples */
	assert_string_equal(name, "(others)");
	assert_true(t.n > 20000 && t.n < 100000);
	assert_true(report_totals(o.r)->crowded >= t.row[0].samples);
	report_table_free(&t);
	close_report(&o);
	enc_rmtree(dir);
	free(p.ev);
	free(d);
}

/* More histograms than there is memory for: a row whose histogram lacks samples has no percentiles, not wrong ones. */
static void test_no_histogram(void **state __unused_arg)
{
	enum { KEYS = 16000, EACH = 16 }; /* every other one with a row of 16 octaves each */
	uint64_t *d = malloc(KEYS * EACH * sizeof(*d)), lacking = 0;
	struct report_table t;
	struct opened o;
	struct plan p;
	char *dir;

	for (size_t i = 0; i < KEYS * EACH; i++)
		d[i] = 16ull << (i % 2 ? i / KEYS : 0);
	p = durations(d, KEYS * EACH, KEYS);
	dir = make_capture(&p);
	o = open_report(dir, (struct report_opts){ .percentiles = true });
	t = table_of(&o, KEY_SAMPLE);
	assert_int_equal(t.n, KEYS);
	assert_int_equal(report_totals(o.r)->crowded, 0);
	for (size_t i = 0; i < t.n; i++) {
		assert_int_equal(t.row[i].timed, EACH);
		lacking += !t.row[i].counted;
		assert_int_equal(t.row[i].percentile_time[0], t.row[i].counted ? 16 : 0);
	}
	assert_int_equal(lacking, KEYS / 2);
	assert_true(report_totals(o.r)->no_hist >= lacking);
	report_table_free(&t);
	close_report(&o);
	enc_rmtree(dir);
	free(p.ev);
	free(d);
}

static void test_classes(void **state __unused_arg)
{
	const struct event_class *c;
	const char *name;
	size_t n;

	for (n = 0; (name = class_name_at(n)); n++) {
		c = class_find(name);
		assert_string_equal(class_name(c), name);
		assert_true(class_title(c)[0]);
	}
	assert_int_equal(n, 11);
	assert_null(class_find("nonsense"));
	assert_true(class_has_perf(class_find("msr")));
	assert_false(class_has_perf(class_find("cpuid")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_migration), cmocka_unit_test(test_standard_error),
		cmocka_unit_test(test_percentiles),   cmocka_unit_test(test_crowded),
		cmocka_unit_test(test_classes),	      cmocka_unit_test(test_many_vcpus),
		cmocka_unit_test(test_no_histogram),
	};

	return cmocka_run_group_tests_name("exits/report", tests, NULL, NULL);
}
