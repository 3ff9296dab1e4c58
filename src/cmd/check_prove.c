/* SPDX-License-Identifier: GPL-2.0-or-later */
/* check_prove.c: `kvmft check --prove`: what the tiny guest showed, as text or JSON. */
#include "cmds.h"

#include <sys/utsname.h>

#include "kvmft/json.h"
#include "kvmft/kernel.h"
#include "kvmft/prove.h"
#include "kvmft/table.h"

#define EVENTS_INDENT "             "

/*
 * Where a CPU's model is in the text of a file; the exit whose cost is known; and what of x86's
 * guest this one cannot have.
 */
#ifdef __aarch64__
#define CPU_FILE  "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1"
#define CPU_AFTER ""
#define COST_OF	  "hvc"
static const char *const absent[] = { "msr", "port", "counter_rate", "offset_event" };
#else
#define CPU_FILE  "/proc/cpuinfo"
#define CPU_AFTER "\nmodel name\t: "
#define COST_OF	  "cpuid"
static const char *const absent[] = { NULL };
#endif

static const char *cpu_model(char *buf, size_t size)
{
	_cleanup_free_ char *text = NULL;
	const char *at;

	buf[0] = '\0';
	if (file_read_all(AT_FDCWD, CPU_FILE, 1 << 20, &text) < 0)
		return buf;
	at = strstr(text, CPU_AFTER);
	if (at) {
		at += strlen(CPU_AFTER);
		snprintf(buf, size, "%.*s", (int)strcspn(at, "\n"), at);
	}
	str_printable(buf);
	return buf;
}

static void prove_text(const struct prove *p, struct sbuf *b)
{
	for (size_t i = 0; i < p->nvm; i++) {
		const struct prove_vm *v = &p->vm[i];
		const struct align *a = &v->align;

		sbuf_addf(b, "%s  %-11s %llu stamps, %llu outside",
			  v->scaled  ? "other rate "
			  : v->moved ? "moved      "
				     : "alignment  ",
			  align_names[v->verdict],
			  (unsigned long long)v->stamps, (unsigned long long)a->total.outside);
		if (a->total.has_early && a->total.has_late)
			sbuf_addf(b, ", slack %+lld / %+lld cycles", (long long)-a->total.early,
				  (long long)a->total.late);
		sbuf_addc(b, '\n');
		if (v->offsets && v->bound)
			sbuf_addf(b, "offset       %-11s found in the events, to %llu cycles\n",
				  v->offsets_right == v->offsets ? "right" : "WRONG",
				  (unsigned long long)v->bound);
		else if (v->offsets)
			sbuf_addf(b, "TSC offset   %-11s %u of %u as KVM has them, to the cycle\n",
				  v->offsets_right == v->offsets ? "right" : "WRONG",
				  v->offsets_right, v->offsets);
		else if (absent[0])
			sbuf_add(b, "offset       not checked the events do not tell it\n");
		else
			sbuf_add(
				b,
				"TSC offset   not checked this kernel does not say what it is (Linux 5.16 does)\n");
		if (v->scaled)
			sbuf_addf(b, "TSC ratio    %-11s for %llu kHz\n",
				  v->ratio_right ? "right" : "WRONG", (unsigned long long)v->khz);
	}
	if (absent[0])
		sbuf_add(b, "absent       MSRs, ports and other rates: arm64 has none; an event of the "
			    "counter's offset: its KVM has none\n");
	else if (p->nvm == 1)
		sbuf_add(
			b,
			"other rate   not checked this CPU, or its KVM, does not scale a guest's TSC\n");
	sbuf_addf(b, "lost events  %-11s of %llu\n",
		  p->lost_unknown ? "some"
		  : p->lost	  ? ""
				  : "none",
		  (unsigned long long)p->events);
	if (p->lost)
		sbuf_addf(b, EVENTS_INDENT "%llu\n", (unsigned long long)p->lost);
	if (p->bare_ns && p->traced_ns)
		sbuf_addf(b, "an exit      %llu ns, %llu ns while recorded (" COST_OF ")\n",
			  (unsigned long long)p->bare_ns, (unsigned long long)p->traced_ns);
	if (p->wakes)
		sbuf_addf(b,
			  "a wake-up    %llu ns; 99 %% within %llu ns, all %llu within %llu ns\n",
			  (unsigned long long)p->wake_median, (unsigned long long)p->wake_p99,
			  (unsigned long long)p->wakes, (unsigned long long)p->wake_max);
	sbuf_add(b, "events       ");
	for (size_t i = 0; i < p->nevent; i++)
		sbuf_addf(b, "%s%s %llu", i ? ", " : "", p->event[i].name,
			  (unsigned long long)p->event[i].count);
	sbuf_addc(b, '\n');
	text_wrap(b, 0, EVENTS_INDENT, 80);
}

static void prove_json(const struct prove *p, struct sbuf *b)
{
	struct json j;
	struct utsname u;
	char model[128];

	json_line_begin(&j, b);
	json_put_str(&j, "cpu", cpu_model(model, sizeof(model)));
	json_put_str(&j, "kernel", uname(&u) ? "" : u.release);
	json_put_str(&j, "arch", uname(&u) ? "" : u.machine);
	json_put_u64(&j, "tsc_khz", p->host_khz);
	json_put_array(&j, "guests");
	for (size_t i = 0; i < p->nvm; i++) {
		const struct prove_vm *v = &p->vm[i];
		const struct win_stats *s = &v->align.total;

		json_object_begin(&j);
		json_put_bool(&j, "other_rate", v->scaled);
		if (absent[0])
			json_put_bool(&j, "other_offset", v->moved);
		json_put_str(&j, "verdict", align_names[v->verdict]);
		json_put_u64(&j, "tsc_khz", v->khz);
		json_put_u64(&j, "stamps", v->stamps);
		json_put_u64(&j, "checked", s->checked);
		json_put_u64(&j, "outside", s->outside);
		if (s->has_early)
			json_put_s64(&j, "earliest_cycles", -s->early);
		if (s->has_late)
			json_put_s64(&j, "latest_cycles", s->late);
		if (v->bound)
			json_put_u64(&j, "offset_bound_cycles", v->bound);
		json_put_u64(&j, "offsets", v->offsets);
		json_put_u64(&j, "offsets_right", v->offsets_right);
		if (v->scaled)
			json_put_bool(&j, "ratio_right", v->ratio_right);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_put_u64(&j, "events", p->events);
	json_put_u64(&j, "lost", p->lost);
	json_put_bool(&j, "lost_unknown", p->lost_unknown);
	json_put_u64(&j, "exit_ns", p->bare_ns);
	json_put_u64(&j, "exit_recorded_ns", p->traced_ns);
	json_put_u64(&j, "wakeups", p->wakes);
	json_put_u64(&j, "wakeup_median_ns", p->wake_median);
	json_put_u64(&j, "wakeup_p99_ns", p->wake_p99);
	json_put_u64(&j, "wakeup_max_ns", p->wake_max);
	if (absent[0])
		json_put_array(&j, "absent");
	for (size_t i = 0; i < ARRAY_SIZE(absent) && absent[i]; i++)
		json_str(&j, absent[i]);
	if (absent[0])
		json_array_end(&j);
	json_put_object(&j, "events_by_name");
	for (size_t i = 0; i < p->nevent; i++)
		json_put_u64(&j, p->event[i].name, p->event[i].count);
	json_object_end(&j);
	json_line_end(&j);
}

static int prove_cmd(bool as_json, const char *output, struct kvmft_err *err)
{
	_cleanup_(prove_free) struct prove p = { .nvm = 0 };
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = prove_run(output, &p, cli_note, err), code;

	if (ret)
		return ret;
	(as_json ? prove_json : prove_text)(&p, &b);
	ret = sink_show(&b, err);
	if (ret)
		return ret;
	/* What is wrong first, then what could not be told, then what was lost. */
	code = p.lost || p.lost_unknown ? KVMFT_INCOMPLETE : KVMFT_OK;
	for (size_t i = 0; i < p.nvm; i++) {
		const struct prove_vm *v = &p.vm[i];

		if (v->verdict == ALIGN_BAD || v->offsets_right != v->offsets ||
		    v->ratio_right != v->scaled) {
			err_set(err, EIO,
				"what was recorded is not what the guest saw: keep it with -o DIR "
				"and report it");
			return KVMFT_FAILED;
		}
		if (v->verdict == ALIGN_UNKNOWN) {
			err_lack(err, ENODATA, "too little of the guest could be checked");
			code = KVMFT_LACKING;
		}
	}
	return code;
}

int (*const check_prove)(bool, const char *, struct kvmft_err *) = prove_cmd;
