/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_clock_epoch.c - building epochs from events, converting at and across their edges */
#include "clock_vectors.h"

#include "kvmft/clock.h"

#define WATCH	1000000ULL		/* events are recorded from here */
#define READ	1001000ULL		/* debugfs was read here */

static const struct tsc_map half = { 0, 1ULL << 47, 48 };
static const struct tsc_map twice_and_a_half = { 0, 5ULL << 47, 48 };

static struct tsc_map with_offset(struct tsc_map m, int64_t offset)
{
	m.offset = (uint64_t)offset;
	return m;
}

static struct pvclock record(uint32_t version, uint64_t tsc, uint64_t ns, uint8_t flags)
{
	return (struct pvclock){ .version = version, .tsc_timestamp = tsc, .system_time = ns,
				 .mul = 1U << 31, .shift = 0, .flags = flags };
}

static struct epoch_vm *vm_new(void)
{
	struct epoch_vm *vm = epoch_vm_new(WATCH);

	assert_non_null(vm);
	return vm;
}

static void expect_guest(const struct epoch_vcpu *c, uint64_t host, enum epoch_result want,
			 uint64_t guest)
{
	uint64_t v = ~guest;

	assert_int_equal(epoch_host_to_guest(c, host, &v), want);
	assert_int_equal(v, epoch_result_usable(want) ? guest : ~guest);
}

static void expect_host(const struct epoch_vcpu *c, uint64_t guest, enum epoch_result want,
			uint64_t lo, uint64_t hi)
{
	uint64_t a = 77, b = 78;

	assert_int_equal(epoch_guest_to_host(c, guest, &a, &b), want);
	assert_int_equal(a, epoch_result_usable(want) ? lo : 77);
	assert_int_equal(b, epoch_result_usable(want) ? hi : 78);
}

static void expect_ns(const struct epoch_vcpu *c, uint64_t host, enum epoch_result want,
		      uint64_t ns)
{
	uint64_t v = ~ns;

	assert_int_equal(epoch_host_to_kvmclock(c, host, &v), want);
	assert_int_equal(v, epoch_result_usable(want) ? ns : ~ns);
}

/* ---- maps ---- */

static void test_read_only(void **state)
{
	struct tsc_map m = { 0 - 500ULL, 0, 0 };
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c;

	(void)state;
	assert_null(epoch_vm_find(vm, 3));
	expect_guest(NULL, 5, EPOCH_NO_MAP, 0);
	assert_int_equal(epoch_vm_read(vm, 3, READ, &m), 0);
	assert_int_equal(epoch_vm_read(vm, 3, READ, &m), -EINVAL);
	c = epoch_vm_find(vm, 3);
	assert_non_null(c);
	assert_int_equal(c->n, 1);
	/* holds back to the start of the watch, for ever after, and not before */
	expect_guest(c, WATCH, EPOCH_EXACT, WATCH - 500);
	expect_guest(c, UINT64_MAX, EPOCH_EXACT, UINT64_MAX - 500);
	expect_guest(c, WATCH - 1, EPOCH_BEFORE_FIRST, 0);
	expect_host(c, WATCH - 500, EPOCH_EXACT, WATCH, WATCH);
	expect_host(c, WATCH - 501, EPOCH_BEFORE_FIRST, 0, 0);
	expect_host(c, (1ULL << 60) - 500, EPOCH_EXACT, 1ULL << 60, 1ULL << 60);
	expect_host(c, (1ULL << 61) - 500, EPOCH_NONE, 0, 0);
	assert_int_equal(epoch_vm_check_end(vm, 3, &m), 0);
	assert_int_equal(c->notes, 0);
	m.frac = 7;
	assert_int_equal(epoch_vm_read(vm, 4, READ, &m), -EINVAL);
	assert_int_equal(epoch_vm_check_end(vm, 3, &m), -EINVAL);
	epoch_vm_free(vm);
}

/* Sparse ids in any order, more than the first allocation holds. */
static void test_sparse_ids(void **state)
{
	struct epoch_vm *vm = vm_new();
	uint32_t i;

	(void)state;
	for (i = 0; i < 100; i++) {
		struct tsc_map m = { i * 37 % 100, 0, 0 };

		assert_int_equal(epoch_vm_read(vm, i * 37 % 100 * 1000, READ, &m), 0);
	}
	assert_int_equal(vm->n, 100);
	for (i = 0; i < 100; i++) {
		assert_int_equal(vm->vcpus[i]->id, i * 1000);
		expect_guest(epoch_vm_find(vm, i * 1000), WATCH, EPOCH_EXACT, WATCH + i);
		assert_null(epoch_vm_find(vm, i * 1000 + 1));
	}
	assert_null(epoch_vm_find(vm, UINT32_MAX));
	epoch_vm_free(vm);
}

static void test_write(void **state)
{
	struct tsc_map m = with_offset(half, -1000);
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c;

	(void)state;
	assert_int_equal(epoch_vm_read(vm, 0, READ, &m), 0);
	/* forward by 100000: guest values in between never occur */
	assert_int_equal(epoch_vm_write_offset(vm, 0, 2000000, m.offset, 99000), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 0, 1999999, 99000, 5), -EINVAL);
	c = epoch_vm_find(vm, 0);
	assert_int_equal(c->n, 2);
	assert_int_equal(c->notes, 0);
	expect_guest(c, 1999999, EPOCH_EXACT, 999999 - 1000);
	expect_guest(c, 2000000, EPOCH_EXACT, 1000000 + 99000);
	expect_host(c, 998999, EPOCH_EXACT, 1999998, 1999999);
	expect_host(c, 1099000, EPOCH_EXACT, 2000000, 2000001);
	expect_host(c, 999000, EPOCH_NONE, 0, 0);
	expect_host(c, 1098999, EPOCH_NONE, 0, 0);
	/* back again: what lies behind the edge occurs twice from now on */
	assert_int_equal(epoch_vm_write_offset(vm, 0, 4000000, 99000, m.offset), 0);
	expect_host(c, 2099000 - 1, EPOCH_AMBIGUOUS, 0, 0);
	expect_host(c, 1999000 - 1, EPOCH_EXACT, 3799998, 3799999);
	expect_host(c, 1999000, EPOCH_AMBIGUOUS, 0, 0);
	expect_host(c, 2099000, EPOCH_EXACT, 4200000, 4200001);
	assert_int_equal(epoch_vm_check_end(vm, 0, &m), 0);
	/* a rewrite of the same offset changes nothing */
	assert_int_equal(epoch_vm_write_offset(vm, 0, 5000000, m.offset, m.offset), 0);
	assert_int_equal(c->n, 3);
	/* two at the same stamp: the last one counts */
	assert_int_equal(epoch_vm_write_offset(vm, 0, 6000000, m.offset, 1), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 0, 6000000, 1, 2), 0);
	assert_int_equal(c->n, 4);
	expect_guest(c, 6000000, EPOCH_EXACT, 3000002);
	assert_int_equal(c->notes, 0);
	epoch_vm_free(vm);
}

/* Guest TSCs may wrap, and values older than an offset must not reappear in the far future. */
static void test_wrap(void **state)
{
	static const struct tsc_map maps[] = { { 0, 0, 0 }, { 0, 1ULL << 47, 48 }, { 0, 3ULL << 32, 32 } };
	struct epoch_vm *vm = vm_new();
	uint64_t seed = 21, g, lo, hi;
	uint32_t i;
	int k;

	(void)state;
	for (i = 0; i < 3; i++) {
		struct tsc_map m = maps[i];
		const struct epoch_vcpu *c;

		assert_int_equal(epoch_vm_read(vm, i, READ, &m), 0);
		/* forward by 2^40, then so that the guest reads zero 1000 cycles later */
		assert_int_equal(epoch_vm_write_offset(vm, i, 2000000 + i, 0, 1ULL << 40), 0);
		m.offset = 0;
		m.offset = 0 - tsc_to_guest(&m, 3001000);
		c = epoch_vm_find(vm, i);
		assert_int_equal(epoch_host_to_guest(c, 1500000, &g), EPOCH_EXACT);
		assert_int_equal(epoch_guest_to_host(c, g, &lo, &hi), EPOCH_EXACT);
		assert_in_range(1500000, lo, hi);
		vm->last_event = 0;	/* let the next vCPU start over */
		assert_int_equal(epoch_vm_write_offset(vm, i, 3000000, 1ULL << 40, m.offset), 0);
		vm->last_event = 0;
		for (k = 0; k < 1000; k++) {
			uint64_t host = 3000000 + prng(&seed) % 2000;

			assert_int_equal(epoch_host_to_guest(c, host, &g), EPOCH_EXACT);
			assert_true(host < 3001000 ? g > 1ULL << 63 : g < 10000);
			assert_int_equal(epoch_guest_to_host(c, g, &lo, &hi), EPOCH_EXACT);
			assert_in_range(host, lo, hi);
		}
	}
	epoch_vm_free(vm);
}

/* A vCPU made while we watch: its TSC values do not mean host TSCs from before it was made. */
static void test_birth(void **state)
{
	struct tsc_map m = { 0 - 2500000ULL, 0, 0 };
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c;
	uint32_t i;

	(void)state;
	/* vCPU 0 is known by its events alone, 1 was read from debugfs later */
	assert_int_equal(epoch_vm_read(vm, 1, 9000000, &m), 0);
	for (i = 0; i < 2; i++) {
		vm->last_event = 0;
		assert_int_equal(epoch_vm_write_offset(vm, i, 2000000, 0, 0 - 2000000ULL), 0);
		assert_int_equal(epoch_vm_write_offset(vm, i, 2500000, 0 - 2000000ULL, m.offset), 0);
		c = epoch_vm_find(vm, i);
		assert_int_equal(c->n, 2);
		expect_guest(c, 1999999, EPOCH_BEFORE_FIRST, 0);
		expect_host(c, 1500000, i ? EPOCH_EXACT : EPOCH_DOUBTFUL, 4000000, 4000000);
		expect_host(c, 499999, EPOCH_AMBIGUOUS, 0, 0);
	}
	/* with an offset before it, the vCPU was there before */
	assert_int_equal(epoch_vm_write_offset(vm, 2, 3000000, 5, 7), 0);
	expect_guest(epoch_vm_find(vm, 2), 2000000, EPOCH_DOUBTFUL, 2000005);
	epoch_vm_free(vm);
}

/* A ratio over one: the edge must not accept values that only a later or earlier cycle reads. */
static void test_edge_scaled_up(void **state)
{
	struct tsc_map m = with_offset(twice_and_a_half, 0);
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c;
	uint64_t host, lo, hi;

	(void)state;
	assert_int_equal(epoch_vm_read(vm, 0, READ, &m), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 0, 2000001, 0, 1ULL << 40), 0);
	c = epoch_vm_find(vm, 0);
	for (host = 2000001 - 50; host < 2000001 + 50; host++) {
		uint64_t g;

		assert_int_equal(epoch_host_to_guest(c, host, &g), EPOCH_EXACT);
		assert_int_equal(epoch_guest_to_host(c, g, &lo, &hi), EPOCH_EXACT);
		assert_true(lo == host && hi == host);
	}
	expect_host(c, 5000001, EPOCH_NONE, 0, 0);	/* host 2000001 would read 5000002 */
	expect_host(c, (1ULL << 40) + 5000001, EPOCH_NONE, 0, 0);
	expect_host(c, (1ULL << 40) + 5000002, EPOCH_EXACT, 2000001, 2000001);
	expect_host(c, 5000000, EPOCH_EXACT, 2000000, 2000000);
	expect_host(c, 4999998, EPOCH_EXACT, 2000000, 2000000);	/* skipped: the first after it */
	expect_host(c, 4999997, EPOCH_EXACT, 1999999, 1999999);
	expect_host(c, 4999996, EPOCH_EXACT, 1999999, 1999999);
	epoch_vm_free(vm);
}

static void test_round_trip(void **state)
{
	struct epoch_vm *vm = vm_new();
	uint64_t seed = 20, host = WATCH, off = 0, g, lo, hi;
	int k, twice = 0;
	const struct epoch_vcpu *c;
	struct tsc_map m = { 0, 227682669269131ULL, 48 };

	(void)state;
	assert_int_equal(epoch_vm_read(vm, 9, WATCH, &m), 0);
	for (k = 0; k < 200; k++) {
		uint64_t next = off + prng(&seed) % 2001 - 1000;

		host += prng(&seed) % 5000;
		assert_int_equal(epoch_vm_write_offset(vm, 9, host, off, next), 0);
		off = next;
	}
	c = epoch_vm_find(vm, 9);
	assert_int_equal(c->notes, 0);
	for (k = 0; k < 20000; k++) {
		uint64_t h = prng_between(&seed, WATCH, host + 100000);
		enum epoch_result r;

		assert_int_equal(epoch_host_to_guest(c, h, &g), EPOCH_EXACT);
		r = epoch_guest_to_host(c, g, &lo, &hi);
		if (r == EPOCH_AMBIGUOUS) {
			twice++;
			continue;
		}
		assert_int_equal(r, EPOCH_EXACT);
		assert_in_range(h, lo, hi);
		/* every cycle of the answer reads that value */
		assert_int_equal(epoch_host_to_guest(c, lo, &off), EPOCH_EXACT);
		assert_int_equal(off, g);
		assert_int_equal(epoch_host_to_guest(c, hi, &off), EPOCH_EXACT);
		assert_int_equal(off, g);
	}
	assert_true(twice > 100 && twice < 19000);
	epoch_vm_free(vm);
}

/* A line says of its guest TSCs what the epochs say of each. */
static void expect_line(const struct epoch_vcpu *c, uint64_t guest, uint64_t *seed, int *lines)
{
	struct epoch_line line = { 0 };
	uint64_t lo, hi, g;

	if (!epoch_guest_line(c, guest, &line))
		return;
	++*lines;
	for (int k = 0; k < 12 && line.len; k++) {
		uint64_t d[] = { 0, line.len - 1, guest - line.from, prng(seed) % line.len };

		g = line.from + d[k % 4];
		if (g - line.from >= line.len)
			continue;
		assert_true(epoch_result_usable(epoch_guest_to_host(c, g, &lo, &hi)));
		assert_int_equal(lo, g - line.offset);
		assert_int_equal(hi, lo);
	}
}

static void test_line(void **state)
{
	uint64_t seed = 29, g;
	int lines = 0;

	(void)state;
	for (int round = 0; round < 40; round++) {
		struct epoch_vm *vm = vm_new();
		uint64_t host = WATCH, off = 0, size = 1ull << (round + 10);
		const struct epoch_vcpu *c;
		struct tsc_map m = { 0 };

		assert_int_equal(epoch_vm_read(vm, 0, WATCH, &m), 0);
		for (int k = 0; k < round % 5; k++) {
			uint64_t next = off + prng(&seed) % size - size / 2;

			host += prng(&seed) % size;
			assert_int_equal(epoch_vm_write_offset(vm, 0, host, off, next), 0);
			off = next;
		}
		c = epoch_vm_find(vm, 0);
		for (int k = 0; k < 200; k++) {
			if (!epoch_result_usable(epoch_host_to_guest(c, WATCH + prng(&seed) % (host + size), &g)))
				continue;
			expect_line(c, g, &seed, &lines);
		}
		epoch_vm_free(vm);
	}
	assert_true(lines > 2000);
	assert_false(epoch_guest_line(NULL, 0, &(struct epoch_line){ 0 }));
}

static void test_line_scaled(void **state)
{
	struct tsc_map m = with_offset(twice_and_a_half, 0);
	struct epoch_vm *vm = vm_new();
	struct epoch_line line;

	(void)state;
	assert_int_equal(epoch_vm_read(vm, 0, READ, &m), 0);
	assert_false(epoch_guest_line(epoch_vm_find(vm, 0), 5000000, &line));
	epoch_vm_free(vm);
}

/* ---- consistency with debugfs ---- */

static void test_first_event_disagrees(void **state)
{
	struct tsc_map m = { 10, 0, 0 };
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c;

	(void)state;
	assert_int_equal(epoch_vm_read(vm, 0, READ, &m), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 0, READ + 5, 11, 20), 0);
	c = epoch_vm_find(vm, 0);
	assert_int_equal(c->notes, EPOCH_NOTE_READ_MISMATCH);
	expect_guest(c, READ, EPOCH_DOUBTFUL, READ + 10);
	expect_host(c, READ + 10, EPOCH_DOUBTFUL, READ, READ);
	expect_guest(c, READ + 5, EPOCH_EXACT, READ + 25);
	epoch_vm_free(vm);
}

/* Events between the start of the watch and the read led to what was read. */
static void test_events_before_read(void **state)
{
	struct tsc_map m = { 30, 0, 0 };
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c;

	(void)state;
	assert_int_equal(epoch_vm_read(vm, 0, READ, &m), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 0, READ - 20, 10, 20), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 0, READ - 10, 20, 30), 0);
	c = epoch_vm_find(vm, 0);
	expect_guest(c, READ - 21, EPOCH_EXACT, READ - 11);
	expect_guest(c, READ - 20, EPOCH_EXACT, READ);
	expect_guest(c, READ, EPOCH_EXACT, READ + 30);
	assert_int_equal(epoch_vm_check_end(vm, 0, &m), 0);
	assert_int_equal(c->notes, 0);

	/* and if they did not, it shows at the next event ... */
	assert_int_equal(epoch_vm_read(vm, 1, READ, &m), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 1, READ - 10, 10, 20), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 1, READ + 10, 20, 40), 0);
	assert_int_equal(epoch_vm_find(vm, 1)->notes, EPOCH_NOTE_READ_MISMATCH);
	/* ... or at the end */
	assert_int_equal(epoch_vm_read(vm, 2, READ + 20, &m), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 2, READ + 12, 10, 20), 0);
	m.offset = 20;
	assert_int_equal(epoch_vm_check_end(vm, 2, &m), EPOCH_NOTE_READ_MISMATCH);
	/* the read raced with the event and found the value before it */
	m.offset = 10;
	assert_int_equal(epoch_vm_read(vm, 3, READ + 20, &m), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 3, READ + 19, 10, 20), 0);
	m.offset = 20;
	assert_int_equal(epoch_vm_check_end(vm, 3, &m), 0);
	assert_int_equal(epoch_vm_find(vm, 3)->notes, 0);
	epoch_vm_free(vm);
}

static void test_lost_events(void **state)
{
	struct tsc_map m = { 10, 0, 0 };
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c;

	(void)state;
	assert_int_equal(epoch_vm_read(vm, 0, READ, &m), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 0, 2000000, 10, 20), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 0, 3000000, 25, 30), 0);
	c = epoch_vm_find(vm, 0);
	assert_int_equal(c->notes, EPOCH_NOTE_CHAIN_BROKEN);
	expect_guest(c, 1999999, EPOCH_EXACT, 2000009);
	expect_guest(c, 2000000, EPOCH_DOUBTFUL, 2000020);
	expect_guest(c, 3000000, EPOCH_EXACT, 3000030);
	/* Read again: as it was around then, or of a write that is not here. */
	epoch_vm_check_read(vm, 0, 2500000, 30);
	epoch_vm_check_read(vm, 1, 2500000, 99);
	expect_guest(c, 3000000, EPOCH_EXACT, 3000030);
	assert_int_equal(c->notes, EPOCH_NOTE_CHAIN_BROKEN);
	epoch_vm_check_read(vm, 0, 3500000, 99);
	assert_int_equal(c->notes, EPOCH_NOTE_CHAIN_BROKEN | EPOCH_NOTE_LOST_EVENTS);
	expect_guest(c, 3000000, EPOCH_DOUBTFUL, 3000030);
	m.offset = 31;
	assert_int_equal(epoch_vm_check_end(vm, 0, &m), EPOCH_NOTE_LOST_EVENTS);
	expect_guest(c, 3000000, EPOCH_DOUBTFUL, 3000030);
	expect_guest(c, 1999999, EPOCH_EXACT, 2000009);
	assert_int_equal(epoch_vm_check_end(vm, 0, &half), EPOCH_NOTE_LOST_EVENTS |
			 EPOCH_NOTE_RATIO_CHANGED);
	expect_guest(c, 1999999, EPOCH_DOUBTFUL, 2000009);
	epoch_vm_free(vm);
}

/* Records tell since when another ratio is in force: 1 GHz, then half of it. */
static void test_ratio_dated(void **state)
{
	const struct tsc_map one = { 0, 1ull << 48, 48 }, other = { 500, 1ull << 47, 48 };
	struct pvclock first = { .tsc_timestamp = 1000, .version = 2, .flags = PVCLOCK_TSC_STABLE };
	struct pvclock second = { .tsc_timestamp = 9000, .version = 4, .flags = PVCLOCK_TSC_STABLE };

	(void)state;
	assert_int_equal(pvclock_params_from_khz(1000000, &first.mul, &first.shift), 0);
	assert_int_equal(pvclock_params_from_khz(500000, &second.mul, &second.shift), 0);
	/* with a new offset; without one; with a record that is of neither; without a second one */
	for (int k = 0; k < 4; k++) {
		struct epoch_vm *vm = vm_new();
		struct tsc_map end = other;
		const struct epoch_vcpu *c;

		end.offset = k == 0 ? 500 : 0;
		if (k == 2)
			assert_int_equal(pvclock_params_from_khz(750000, &second.mul,
								 &second.shift), 0);
		assert_int_equal(epoch_vm_read(vm, 0, READ, &one), 0);
		assert_int_equal(epoch_vm_pvclock(vm, 0, 1500000, &first), 0);
		if (k == 0)
			assert_int_equal(epoch_vm_write_offset(vm, 0, 2000000, 0, 500), 0);
		if (k < 3)
			assert_int_equal(epoch_vm_pvclock(vm, 0, 2000100, &second), 0);
		assert_int_equal(epoch_vm_check_end(vm, 0, &end), k < 2 ? 0 : EPOCH_NOTE_RATIO_CHANGED);
		c = epoch_vm_find(vm, 0);
		expect_guest(c, 1999998, k ? EPOCH_DOUBTFUL : EPOCH_EXACT, 1999998);
		expect_guest(c, 2000100, k < 2 ? EPOCH_EXACT : EPOCH_DOUBTFUL,
			     k == 0 ? 1000050 + 500 : k == 1 ? 1000050 : 2000100);
		epoch_vm_free(vm);
	}
}

/* A rewrite that repeats the believed offset after a lost one starts afresh, without doubt. */
static void test_lost_then_same(void **state)
{
	struct tsc_map m = { 10, 0, 0 };
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c;

	(void)state;
	assert_int_equal(epoch_vm_read(vm, 0, READ, &m), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 0, 2000000, 99, 10), 0);
	c = epoch_vm_find(vm, 0);
	expect_guest(c, 1999999, EPOCH_DOUBTFUL, 2000009);
	expect_guest(c, 2000000, EPOCH_EXACT, 2000010);
	expect_host(c, 2000009, EPOCH_DOUBTFUL, 1999999, 1999999);
	expect_host(c, 2000010, EPOCH_EXACT, 2000000, 2000000);
	epoch_vm_free(vm);
}

static void test_no_read(void **state)
{
	struct tsc_map end = with_offset(half, 20);
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c;

	(void)state;
	/* the event tells the offset on both sides, but not the ratio */
	assert_int_equal(epoch_vm_write_offset(vm, 5, 2000000, 10, 20), 0);
	c = epoch_vm_find(vm, 5);
	assert_int_equal(c->notes, EPOCH_NOTE_RATIO_UNKNOWN);
	expect_guest(c, 1999999, EPOCH_DOUBTFUL, 2000009);
	expect_host(c, 2000020, EPOCH_DOUBTFUL, 2000000, 2000000);
	assert_int_equal(epoch_vm_read(vm, 5, READ, &end), -EINVAL);
	assert_int_equal(epoch_vm_check_end(vm, 5, &end), 0);
	expect_guest(c, 1999999, EPOCH_EXACT, 999999 + 10);
	expect_guest(c, 2000000, EPOCH_EXACT, 1000000 + 20);
	/* a vCPU seen at the end only: no event since the watch, so it always was like that */
	assert_int_equal(epoch_vm_check_end(vm, 6, &end), 0);
	expect_guest(epoch_vm_find(vm, 6), WATCH, EPOCH_EXACT, WATCH / 2 + 20);
	assert_int_equal(epoch_vm_read(vm, 6, READ, &end), -EINVAL);
	epoch_vm_free(vm);
}

/* ---- kvmclock ---- */

static void test_master_clock(void **state)
{
	struct pvclock a = record(2, 1000000, 5000, PVCLOCK_TSC_STABLE), b = a;
	struct tsc_map m = { 0, 0, 0 };
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c0, *c7;
	uint64_t lo, hi;

	(void)state;
	assert_int_equal(epoch_vm_read(vm, 0, READ, &m), 0);
	assert_int_equal(epoch_vm_read(vm, 7, READ, &m), 0);
	c0 = epoch_vm_find(vm, 0);
	c7 = epoch_vm_find(vm, 7);
	expect_ns(c7, 2000000, EPOCH_NO_RECORD, 0);
	assert_int_equal(epoch_kvmclock_to_host(c7, 6000, &lo, &hi), EPOCH_NO_RECORD);
	assert_int_equal(epoch_vm_pvclock(vm, 0, 2000000, &a), 0);
	/* one record for all, in both directions; before it was seen, borrowed */
	expect_ns(c7, 2000000, EPOCH_EXACT, 505000);
	expect_ns(c0, 1999999, EPOCH_BORROWED, 504999);
	assert_int_equal(epoch_kvmclock_to_host(c7, 505000, &lo, &hi), EPOCH_EXACT);
	assert_true(lo == 2000000 && hi == 2000001);
	assert_int_equal(epoch_kvmclock_to_host(c7, 504999, &lo, &hi), EPOCH_BORROWED);
	assert_true(lo == 1999998 && hi == 1999999);
	/* a re-announcement, on another vCPU too: nothing new */
	b.version = 4;
	b.flags |= PVCLOCK_GUEST_STOPPED;
	assert_int_equal(epoch_vm_pvclock(vm, 7, 2500000, &b), 0);
	assert_int_equal(c0->n, 2);
	/* a new snapshot that steps by 100 ns */
	b = record(6, 3000000, 5000 + 1000000 + 100, PVCLOCK_TSC_STABLE);
	assert_int_equal(epoch_vm_master_clock(vm, 2900000, true), 0);
	assert_int_equal(epoch_vm_pvclock(vm, 0, 3000000, &b), 0);
	expect_ns(c7, 2999999, EPOCH_EXACT, 1004999);
	expect_ns(c7, 3000000, EPOCH_EXACT, 1005100);
	assert_int_equal(epoch_kvmclock_to_host(c7, 1005050, &lo, &hi), EPOCH_NONE);
	assert_int_equal(epoch_kvmclock_to_guest(c7, 1005100, &lo, &hi), EPOCH_EXACT);
	assert_true(lo == 3000000 && hi == 3000001);
	/* the map did not change: guest TSC conversions do not notice records */
	expect_host(c0, 3000000, EPOCH_EXACT, 3000000, 3000000);
	expect_host(c0, 2999999, EPOCH_EXACT, 2999999, 2999999);
	/* a vCPU plugged in later shares the record */
	assert_int_equal(epoch_vm_read(vm, 3, 3100000, &m), 0);
	expect_ns(epoch_vm_find(vm, 3), 3100000, EPOCH_EXACT, 1055100);
	assert_int_equal(c0->notes | c7->notes, 0);
	epoch_vm_free(vm);
}

/* Cycles of one ns on both sides of the moment its record was seen are one place, not two. */
static void test_straddled_record(void **state)
{
	struct pvclock a = record(2, 1000000, 5000, PVCLOCK_TSC_STABLE);
	struct tsc_map m = { 100, 0, 0 };
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c;
	uint64_t lo, hi;

	(void)state;
	assert_int_equal(epoch_vm_read(vm, 0, READ, &m), 0);
	assert_int_equal(epoch_vm_pvclock(vm, 0, 2000001, &a), 0);
	c = epoch_vm_find(vm, 0);
	assert_int_equal(epoch_kvmclock_to_host(c, 505050, &lo, &hi), EPOCH_BORROWED);
	assert_true(lo == 2000000 && hi == 2000001);
	assert_int_equal(epoch_kvmclock_to_guest(c, 505050, &lo, &hi), EPOCH_BORROWED);
	assert_true(lo == 2000100 && hi == 2000101);
	assert_int_equal(epoch_kvmclock_to_guest(c, 505051, &lo, &hi), EPOCH_EXACT);
	assert_true(lo == 2000102 && hi == 2000103);
	epoch_vm_free(vm);
}

/* Once the master clock is off, or was seen off, newcomers no longer share a record. */
static void test_master_clock_lost(void **state)
{
	struct pvclock a = record(2, 1000000, 5000, PVCLOCK_TSC_STABLE);
	struct tsc_map m = { 0, 0, 0 };
	struct epoch_vm *vm = vm_new();

	(void)state;
	assert_int_equal(epoch_vm_pvclock(vm, 0, 2000000, &a), 0);
	assert_int_equal(epoch_vm_read(vm, 1, READ, &m), 0);
	expect_ns(epoch_vm_find(vm, 1), 2000000, EPOCH_EXACT, 505000);
	assert_int_equal(epoch_vm_master_clock(vm, 2000001, false), 0);
	assert_int_equal(epoch_vm_read(vm, 2, READ, &m), 0);
	expect_ns(epoch_vm_find(vm, 2), 2000002, EPOCH_NO_RECORD, 0);
	assert_int_equal(epoch_vm_master_clock(vm, 2000002, true), 0);
	assert_int_equal(epoch_vm_pvclock(vm, 0, 2000003, &a), 0);
	a.flags = 0;
	assert_int_equal(epoch_vm_pvclock(vm, 1, 2000004, &a), 0);
	assert_int_equal(epoch_vm_read(vm, 3, READ, &m), 0);
	expect_ns(epoch_vm_find(vm, 3), 2000004, EPOCH_NO_RECORD, 0);
	/* and every kind of event insists on its order */
	assert_int_equal(epoch_vm_master_clock(vm, 2000003, true), -EINVAL);
	assert_int_equal(vm->last_event, 2000004);
	epoch_vm_free(vm);
}

static void test_no_master_clock(void **state)
{
	struct pvclock a = record(2, 1000000, 5000, 0), b = record(2, 1000000, 9000, 0);
	struct tsc_map m = { 0, 0, 0 };
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c0, *c1;

	(void)state;
	assert_int_equal(epoch_vm_read(vm, 0, READ, &m), 0);
	assert_int_equal(epoch_vm_read(vm, 1, READ, &m), 0);
	c0 = epoch_vm_find(vm, 0);
	c1 = epoch_vm_find(vm, 1);
	assert_int_equal(epoch_vm_pvclock(vm, 0, 2000000, &a), 0);
	expect_ns(c1, 2000000, EPOCH_NO_RECORD, 0);
	assert_int_equal(epoch_vm_pvclock(vm, 1, 2000010, &b), 0);
	expect_ns(c0, 2000010, EPOCH_EXACT, 505005);
	expect_ns(c1, 2000010, EPOCH_EXACT, 509005);
	assert_int_equal(c0->notes, 0);
	epoch_vm_free(vm);
}

static void test_record_ends_with_offset(void **state)
{
	struct pvclock a = record(2, 1000000, 5000, PVCLOCK_TSC_STABLE);
	struct pvclock b = record(4, 0, 5000 + 1000000, PVCLOCK_TSC_STABLE);
	struct tsc_map m = { 0, 0, 0 };
	struct epoch_vm *vm = vm_new();
	const struct epoch_vcpu *c;
	uint64_t ns;

	(void)state;
	assert_int_equal(epoch_vm_read(vm, 0, READ, &m), 0);
	assert_int_equal(epoch_vm_pvclock(vm, 0, 1500000, &a), 0);
	/* the guest's TSC restarts at zero; the old record says nothing about it */
	assert_int_equal(epoch_vm_write_offset(vm, 0, 3000000, 0, 0 - 3000000ULL), 0);
	c = epoch_vm_find(vm, 0);
	expect_ns(c, 3000010, EPOCH_NO_RECORD, 0);
	assert_int_equal(epoch_guest_to_kvmclock(c, 10, &ns), EPOCH_NO_RECORD);
	assert_int_equal(epoch_vm_pvclock(vm, 0, 3000100, &b), 0);
	expect_ns(c, 3000010, EPOCH_BORROWED, 1005005);
	expect_ns(c, 3000100, EPOCH_EXACT, 1005050);
	expect_ns(c, 2999999, EPOCH_EXACT, 1004999);
	assert_int_equal(epoch_guest_to_kvmclock(c, 100, &ns), EPOCH_EXACT);
	assert_int_equal(ns, 1005050);
	assert_int_equal(epoch_guest_to_kvmclock(c, 2999999, &ns), EPOCH_AMBIGUOUS);
	epoch_vm_free(vm);
}

static void test_bad_records(void **state)
{
	struct pvclock a = record(3, 0, 0, 0);
	struct epoch_vm *vm = vm_new();
	struct tsc_map m = { 0, 0, 0 };
	uint64_t ns;

	(void)state;
	assert_int_equal(epoch_vm_pvclock(vm, 0, 2000000, &a), -EAGAIN);
	a.version = 0;
	assert_int_equal(epoch_vm_pvclock(vm, 0, 2000000, &a), -ENODATA);
	a.version = 4;
	a.mul = 0;
	assert_int_equal(epoch_vm_pvclock(vm, 0, 2000000, &a), -EINVAL);
	assert_int_equal(epoch_vm_find(vm, 0)->n, 0);
	/* a record before any map: kept until the map is known */
	a = record(8, 1500000, 7, 0);
	assert_int_equal(epoch_vm_pvclock(vm, 0, 2000000, &a), 0);
	assert_int_equal(epoch_vm_pvclock(vm, 0, 1999999, &a), -EINVAL);
	expect_guest(epoch_vm_find(vm, 0), 2000000, EPOCH_NO_MAP, 0);
	expect_host(epoch_vm_find(vm, 0), 2000000, EPOCH_NO_MAP, 0, 0);
	assert_int_equal(epoch_kvmclock_to_host(epoch_vm_find(vm, 0), 5, &ns, &ns), EPOCH_NO_MAP);
	assert_int_equal(epoch_vm_read(vm, 0, READ, &m), 0);
	expect_ns(epoch_vm_find(vm, 0), 2000000, EPOCH_EXACT, 250007);
	expect_ns(epoch_vm_find(vm, 0), 1900000, EPOCH_BORROWED, 200007);
	expect_ns(epoch_vm_find(vm, 0), 1400000, EPOCH_RANGE, 0);
	/* the guest was reset: versions start again */
	a = record(2, 1500000, 9, 0);
	assert_int_equal(epoch_vm_pvclock(vm, 0, 2100000, &a), 0);
	expect_ns(epoch_vm_find(vm, 0), 2100000, EPOCH_EXACT, 300009);
	epoch_vm_free(vm);
}

static void test_free_anything(void **state)
{
	struct epoch_vm *vm = vm_new();

	(void)state;
	epoch_vm_free(NULL);
	epoch_vm_free(vm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_only),
		cmocka_unit_test(test_sparse_ids),
		cmocka_unit_test(test_write),
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_edge_scaled_up),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_line_scaled),
		cmocka_unit_test(test_first_event_disagrees),
		cmocka_unit_test(test_events_before_read),
		cmocka_unit_test(test_lost_events),
		cmocka_unit_test(test_ratio_dated),
		cmocka_unit_test(test_lost_then_same),
		cmocka_unit_test(test_no_read),
		cmocka_unit_test(test_master_clock),
		cmocka_unit_test(test_straddled_record),
		cmocka_unit_test(test_master_clock_lost),
		cmocka_unit_test(test_no_master_clock),
		cmocka_unit_test(test_birth),
		cmocka_unit_test(test_record_ends_with_offset),
		cmocka_unit_test(test_bad_records),
		cmocka_unit_test(test_free_anything),
	};

	return cmocka_run_group_tests_name("clock epoch", tests, NULL, NULL);
}
