/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_proof_windows.c: tests of src/proof/windows.c: what is inside, outside and not
 * known, and what follows from it.
 */
#include "kvmft/proof.h"

#include <setjmp.h>

#include <cmocka.h>

#include "unit/capture_fixture.h"

struct walk {
	char *dir;
	struct capture *cap;
	struct fmt *fmt;
	struct hostmap *map;
	struct timeline *t;
	struct windows *w;
	struct tl_source guest; /* not one of the timeline's: fed by hand */
	const struct fmt_event *entry, *exit, *irq, *other;
};

/* A host that knows one VM, and nothing happened yet. */
static struct walk begin(void)
{
	struct walk x = { .dir = enc_tmpdir(), .guest = { .guest = true } };
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
	struct kvmft_err err = { .text = "" };
	struct sbuf meta = { 0 };

	fx_meta(&meta, &g);
	fx_event(x.dir, &meta, "kvm", "kvm_entry");
	fx_event(x.dir, &meta, "kvm", "kvm_exit");
	fx_event(x.dir, &meta, "irq_vectors", "call_function_entry");
	fx_event(x.dir, &meta, "irq_vectors", "call_function_exit");
	sbuf_add(&meta, "vm id=7-9 pid=7 fd=9 name=one\n");
	fx_end(&meta);
	fx_write(x.dir, &meta);
	x.cap = fx_open(x.dir);
	assert_non_null(x.cap);
	x.fmt = fmt_load(x.cap);
	assert_int_equal(hostmap_new(x.cap, x.fmt, &x.map, &err), 0);
	assert_int_equal(x.map->nvm, 1);
	assert_int_equal(tl_new(x.map, &x.t, &err), 0);
	win_new(x.t, &x.w);
	x.entry = fmt_find(x.fmt, "kvm", "kvm_entry");
	x.exit = fmt_find(x.fmt, "kvm", "kvm_exit");
	x.irq = fmt_find(x.fmt, "irq_vectors", "call_function_entry");
	x.other = fmt_find(x.fmt, "irq_vectors", "call_function_exit");
	return x;
}

static void end(struct walk *x)
{
	win_free(x->w);
	tl_free(x->t);
	hostmap_free(x->map);
	fmt_free(x->fmt);
	capture_close(x->cap);
	enc_rmtree(x->dir);
}

static void feed(struct walk *x, struct tl_source *src, const struct fmt_event *ev, uint32_t vcpu, uint64_t t)
{
	struct tl_item i = { .kind = TL_EVENT, .src = src, .host = t, .vcpu = vcpu, .ev = ev };

	win_feed(x->w, &i);
}

static void entry(struct walk *x, uint64_t t)
{
	feed(x, tl_source(x->t, 0), x->entry, 0, t);
}

static void leave(struct walk *x, uint64_t t)
{
	feed(x, tl_source(x->t, 0), x->exit, 0, t);
}

static void guest(struct walk *x, uint64_t t)
{
	feed(x, &x->guest, NULL, 0, t);
}

static void test_inside(void **state)
{
	struct walk x = begin();
	struct align a;

	(void)state;
	for (uint64_t t = 1000; t < 100000; t += 1000) {
		entry(&x, t);
		guest(&x, t + 30);
		guest(&x, t + 60);
		leave(&x, t + 100);
	}
	win_finish(x.w);
	align_measure(x.w, 0, &a);
	assert_int_equal(proof_judge(&(struct proof_facts){ .windows = &a }), ALIGN_OK);
	assert_int_equal(a.total.checked, 198);
	assert_int_equal(a.total.inside, 198);
	assert_int_equal(a.total.apart, 0);
	assert_int_equal(a.windows, 99);
	assert_true(a.has_shift && a.shift_lo == -30 && a.shift_hi == 40);
	assert_int_equal(win_hosts(x.w), 1);
	end(&x);
}

/* The nearer window is blamed; stamps that equal an entry or an exit are inside. */
static void test_outside(void **state)
{
	struct walk x = begin();
	struct align a;

	(void)state;
	entry(&x, 1000);
	guest(&x, 1000);
	leave(&x, 1100);
	guest(&x, 1100); /* inside */
	guest(&x, 1107); /* 7 after the exit */
	entry(&x, 2000);
	leave(&x, 2100);
	guest(&x, 2995); /* 5 before the entry */
	entry(&x, 3000);
	leave(&x, 3100);
	win_finish(x.w);
	align_measure(x.w, 0, &a);
	assert_int_equal(proof_judge(&(struct proof_facts){ .windows = &a }), ALIGN_BAD);
	assert_int_equal(a.total.inside, 2);
	assert_int_equal(a.total.outside, 2);
	assert_int_equal(a.total.outside_max, 7);
	assert_int_equal(a.total.late, -7);
	assert_int_equal(a.total.early, -5);
	assert_false(a.has_shift);
	assert_int_equal(a.bad_from, 1107);
	assert_int_equal(a.bad_to, 2995);
	end(&x);
}

/* An interrupt of the thread ends the window, the kvm_exit after it is not another one. */
static void test_interrupt(void **state)
{
	struct walk x = begin();
	struct tl_source *host = tl_source(x.t, 0);
	struct align a;

	(void)state;
	for (uint64_t t = 1000; t < 100000; t += 1000) {
		entry(&x, t);
		guest(&x, t + 30);
		feed(&x, host, x.irq, 0, t + 40);
		feed(&x, host, x.irq, 0, t + 45); /* no longer in the guest anyway */
		leave(&x, t + 100);
		feed(&x, host, x.irq, 0, t + 110);
	}
	entry(&x, 100000);
	guest(&x, 100050);
	feed(&x, host, x.other, 0, 100060); /* tells nothing */
	guest(&x, 100070);
	leave(&x, 100100);
	win_finish(x.w);
	align_measure(x.w, 0, &a);
	assert_int_equal(proof_judge(&(struct proof_facts){ .windows = &a }), ALIGN_OK);
	assert_int_equal(a.total.inside, 101);
	assert_int_equal(a.windows, 100);
	assert_true(a.shift_lo == -30 && a.shift_hi == 10);
	entry(&x, 101000);
	feed(&x, host, x.irq, 0, 101040);
	guest(&x, 101050); /* 10 after it */
	leave(&x, 101100);
	entry(&x, 102000);
	leave(&x, 102100);
	leave(&x, 102200); /* re-entered without an event */
	guest(&x, 102250);
	leave(&x, 102300);
	win_finish(x.w);
	align_measure(x.w, 0, &a);
	assert_int_equal(proof_judge(&(struct proof_facts){ .windows = &a }), ALIGN_BAD);
	assert_int_equal(a.total.outside, 1);
	assert_int_equal(a.total.late, -10);
	assert_int_equal(a.total.unchecked, 1);
	end(&x);
}

/* Before the first entry, between two exits, after a gap, and at the end nothing is known. */
static void test_unknown(void **state)
{
	struct walk x = begin();
	struct tl_item gap = { .kind = TL_GAP, .src = tl_source(x.t, 0), .host = 5000, .width = 1000,
			       .vcpu = -1, .vm = -1 };
	struct win_stats s;

	(void)state;
	guest(&x, 500);
	leave(&x, 1000);
	guest(&x, 1500); /* re-entered without an event */
	leave(&x, 2000);
	entry(&x, 4000);
	guest(&x, 4500);
	win_feed(x.w, &gap);
	guest(&x, 5500);
	guest(&x, 6500);
	leave(&x, 7000);
	guest(&x, 7500); /* and the host's recording ends */
	win_finish(x.w);
	win_total(x.w, 0, &s);
	assert_int_equal(s.outside, 0);
	assert_int_equal(s.inside, 1);
	assert_int_equal(s.unchecked, 5);
	end(&x);
}

/* The guest was recorded for longer than the host: what is proved is said of the host's time alone. */
static void test_ends(void **state __unused_arg)
{
	struct walk x = begin();
	struct tl_item lost = { .kind = TL_EVENT, .src = &x.guest, .host = 8100, .unplaced = true };
	const struct win_stats *s;
	struct align a;
	uint64_t inside = 0;

	guest(&x, 500);
	for (uint64_t t = 1000; t < 9000; t += 1000) {
		entry(&x, t);
		guest(&x, t + 30);
		guest(&x, t + 60);
		leave(&x, t + 100);
	}
	for (int i = 0; i < 5; i++) /* some before them had a place */
		win_feed(x.w, &lost);
	entry(&x, 9000);
	guest(&x, 9030);
	feed(&x, tl_source(x.t, 0), x.other, 0, 9050);
	guest(&x, 9050);
	for (uint64_t t = 9060; t < 900000; t += 10000) /* no exit comes */
		guest(&x, t);
	win_finish(x.w);
	align_measure(x.w, 0, &a);
	assert_int_equal(a.total.inside, 18);
	assert_int_equal(a.total.checked, 18);
	assert_int_equal(a.total.unchecked, 96);
	assert_int_equal(a.total.apart, 91);
	assert_int_equal(a.share, 18 * 100 / 23);
	s = win_next(x.w, 0, NULL)->slice;
	for (size_t i = 0; i < WIN_SLICES; i++)
		inside += s[i].inside;
	assert_int_equal(inside, 18);
	assert_int_equal(s[0].inside, 18);
	end(&x);

	x = begin();
	lost.src = &x.guest;
	for (int i = 0; i < 5; i++)
		win_feed(x.w, &lost);
	entry(&x, 1000);
	guest(&x, 1030);
	leave(&x, 1100);
	win_feed(x.w, &lost); /* has no place, but one is before it */
	feed(&x, tl_source(x.t, 0), x.other, 0, 1200);
	win_finish(x.w);
	win_total(x.w, 0, &a.total);
	assert_int_equal(a.total.inside, 1);
	assert_int_equal(a.total.unchecked, 6);
	assert_int_equal(a.total.apart, 5);
	end(&x);
}

/* More time than slices of the first width: they fold, nothing is lost. */
static void test_slices(void **state)
{
	struct walk x = begin();
	uint64_t from, width, sum = 0;
	struct align a;

	(void)state;
	for (uint64_t i = 0; i < 2000; i++) {
		uint64_t t = 1000 + i * 100000, late = i / 4; /* the guest's clock runs slow */

		entry(&x, t);
		guest(&x, t + 500 + late);
		leave(&x, t + 1100);
	}
	win_finish(x.w);
	win_slices(x.w, &from, &width);
	assert_int_equal(from, 1000);
	assert_true(width * WIN_SLICES > 2000ull * 100000);
	for (size_t i = 0; i < WIN_SLICES; i++)
		sum += win_next(x.w, 0, NULL)->slice[i].inside;
	assert_int_equal(sum, 2000);
	align_measure(x.w, 0, &a);
	assert_int_equal(proof_judge(&(struct proof_facts){ .windows = &a }), ALIGN_OK);
	assert_true(a.has_drift && a.drift_lo <= a.drift_hi);
	assert_true(a.drift_hi - a.drift_lo < 20000);
	end(&x);
}

/* Stamps of a damaged file: as far apart as numbers are, and still no figure runs over. */
static void test_far_apart(void **state __unused_arg)
{
	struct walk x = begin();
	struct align a;

	entry(&x, 1);
	leave(&x, 2);
	guest(&x, 2 + (1ull << 63));
	entry(&x, UINT64_MAX - 9);
	leave(&x, UINT64_MAX - 8);
	win_finish(x.w);
	align_measure(x.w, 0, &a);
	assert_int_equal(proof_judge(&(struct proof_facts){ .windows = &a }), ALIGN_BAD);
	assert_int_equal(a.total.outside, 1);
	assert_int_equal(a.total.outside_max, 1ull << 61);
	end(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inside),
		cmocka_unit_test(test_outside),
		cmocka_unit_test(test_interrupt),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_slices),
		cmocka_unit_test(test_far_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
