/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vvar.c: the line of CLOCK_MONOTONIC_RAW, from the page through which the kernel lets each process
 * read clocks without a system call. It needs no probe and no names of variables, which not every
 * kernel has: Debian's for arm64 does not.
 *
 * The page holds a record for each group of clocks (struct vdso_data of include/vdso/datapage.h,
 * vdso_clock since Linux 6.15): { seq and mode, cycle_last, mask, mult and shift, basetime[12] },
 * in some kernels with max_cycles before the mask. Their positions differ, so they are found by
 * their shape; several may have it. clock_gettime() decides which one it is, if any:
 * mono_raw_learn().
 */
#include "priv.h"
#include "kvmft/kclock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <time.h>

#define PAGE_WORDS 512 /* of the smallest page; the records are at its beginning */
#define READ_TRIES 8
#define SEC_NS	   1000000000u

/* Of words, from the mask on. */
enum {
	VV_MASK,
	VV_MULT_SHIFT,
	VV_BASE,
	VV_SEC = VV_BASE + 2 * CLOCK_MONOTONIC_RAW,
	VV_NSEC,
	VV_WORDS,
};

static const volatile uint64_t *page(void)
{
	_cleanup_free_ char *maps = NULL;
	const char *line;
	uintptr_t at;

	if (file_read_all(AT_FDCWD, "/proc/self/maps", KFILE_MAX, &maps) < 0)
		return NULL;
	line = strstr(maps, "[vvar]");
	while (line && line > maps && line[-1] != '\n')
		line--;
	if (!line || sscanf(line, "%" SCNxPTR "-", &at) != 1)
		return NULL;
	return (const volatile uint64_t *)at;
}

/* The same twice, and not in the middle of being written. */
static int page_read(uint64_t *word)
{
	const volatile uint64_t *p = page();
	bool same = false;

	if (!p)
		return -ENOENT;
	for (unsigned int tries = 0; tries < READ_TRIES && !same; tries++) {
		same = tries > 0;
		for (size_t i = 0; i < PAGE_WORDS; i++) {
			uint64_t v = p[i];

			same &= v == word[i];
			word[i] = v;
		}
	}
	return same ? 0 : -EAGAIN;
}

/* A record whose mask is word i: a line with an even sequence number before it. */
static bool take(const uint64_t *word, size_t i, size_t last, struct kmono_raw *r)
{
	const uint64_t *w = &word[i];

	if (i <= last || (word[i - last - 1] & 1) || w[VV_MASK] < KCYCLES_MASK_MIN ||
	    (w[VV_MASK] & (w[VV_MASK] + 1)) || !w[VV_SEC] || w[VV_SEC] > UINT64_MAX / SEC_NS)
		return false;
	r->line = (struct mono_raw){
		.last = w[-(ptrdiff_t)last],
		.mult = (uint32_t)w[VV_MULT_SHIFT],
		.shift = (uint8_t)(w[VV_MULT_SHIFT] >> 32),
		.nsec = w[VV_NSEC],
		.base = w[VV_SEC] * SEC_NS,
	};
	r->symbol = "vvar";
	return !mono_raw_check(&r->line) && w[VV_MULT_SHIFT] >> 32 == r->line.shift;
}

int kvvar_find(const uint64_t *word, size_t n, struct kmono_raw *r, kmono_raw_fits_fn *fits,
	       const void *arg)
{
	for (size_t i = 0; i + VV_WORDS <= n; i++)
		for (size_t last = 1; last <= 2; last++) /* 2: with max_cycles */
			if (take(word, i, last, r) && fits(r, arg))
				return 0;
	return -ENOENT;
}

int kvvar_mono_raw(struct kmono_raw *r, kmono_raw_fits_fn *fits, const void *arg)
{
	uint64_t word[PAGE_WORDS] = { 0 };
	int ret = page_read(word);

	return ret ?: kvvar_find(word, PAGE_WORDS, r, fits, arg);
}
