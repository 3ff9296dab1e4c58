/* SPDX-License-Identifier: GPL-2.0-or-later */
/* params.c: clock parameters given by hand: numbers between commas. */
#include "kvmft/params.h"

#define PVCLOCK_FORM "TSC,SYSTEM_TIME,MUL,SHIFT[,FLAGS]"

int params_numbers(const char *option, const char *text, const char *form, int min, int max,
		   uint64_t *v, struct kvmft_err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	char *word = copy, *comma;
	int n = 0;

	if (!copy)
		return err_set(err, ENOMEM, "out of memory");
	for (; word && n < max; word = comma ? comma + 1 : NULL) {
		comma = strchr(word, ',');
		if (comma)
			*comma = 0;
		if (parse_bits64(word, &v[n]))
			return err_usage(err,
					 "option --%s: '%s' is not a 64-bit number; it must be %s",
					 option, word, form);
		n++;
	}
	if (n < min || word)
		return err_usage(err, "option --%s: '%s' is not %s", option, text, form);
	return n;
}

int params_pvclock(const char *text, struct pvclock *pv, struct kvmft_err *err)
{
	uint64_t v[PARAMS_MAX_NUMBERS] = { [4] = PVCLOCK_TSC_STABLE };
	int n = params_numbers("pvclock", text, PVCLOCK_FORM, 4, 5, v, err);

	if (n < 0)
		return n;
	if (!v[2] || v[2] > UINT32_MAX || (int64_t)v[3] < -31 || (int64_t)v[3] > 31 ||
	    v[4] > UINT8_MAX)
		return err_usage(
			err,
			"option --pvclock: '%s' is not a record of KVM: MUL is 1 to 2^32 - 1, SHIFT "
			"is -31 to 31, FLAGS has 8 bits",
			text);
	*pv = (struct pvclock){
		.tsc_timestamp = v[0], .system_time = v[1], .version = 2, .mul = (uint32_t)v[2],
		.shift = (int8_t)(int64_t)v[3], .flags = (uint8_t)v[4],
	};
	return 0;
}
