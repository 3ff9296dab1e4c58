/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracetext_fields.c: the fields of events, from what their print formats made of them.
 *
 * An event keeps its text, which is all that is printed of it; fields are found in that by what
 * stands before them, so that kernels may add, drop and move them. A field that is not there is not
 * in the event's format either.
 */
#include "kvmft/exit_codes.h"
#include "tracetext.h"

#include <ctype.h>

/*
 * NAME TYPE LABEL|LABEL; and so on. A value follows the first of the labels that is there, else its
 * name and one of " =:"; an empty label is the beginning, @2 the second word. Types:
 *   u s      a number, without or with a sign
 *   x        in hex
 *   v h      u and x that have 32 bits, or are none
 *   c w r    the name of a task, which may look like what is behind it, up to the next field; a
 *            word; the rest
 *   {a:1}    one of these words, or a number
 *   p        1 if the label is there, else 0
 *   E I      an exit's reason, and its isa
 *   D e d    the address of a message, a negative errno, a device as 8,0
 * What arm64 calls TRAP is HVC on 32-bit Arm, whose classes of exceptions have the same numbers.
 */
/* clang-format off */
#define X86_EXIT "vcpu_id v vcpu ;exit_reason E reason |reason: ;isa I;guest_rip x rip ;info1 x info1 |" \
	"info |ext_inf1: ;info2 x info2 |ext_inf2: ;intr_info h intr_info |ext_int: ;error_code h " \
	"error_code |ext_int_err: ;requests x"
#define DM "dm {Fixed:0,LowPrio:256,SMI:512,Res3:768,NMI:1024,INIT:1280,SIPI:1536} ("
#define VECTORS(when) "local_timer_" when "|reschedule_" when "|call_function_" when \
	"|call_function_single_" when "|irq_work_" when "|x86_platform_ipi_" when "|spurious_apic_" when \
	"|error_apic_" when "|thermal_apic_" when "|threshold_apic_" when "|deferred_error_apic_" when

static const struct tt_event events[] = {
	{ "kvm", "kvm_entry", "vcpu_id v vcpu ;rip x;vcpu_pc x PC: ;intr_info h;error_code h;"
	  "immediate_exit p [immediate exit]" },
	{ "kvm", "kvm_exit", X86_EXIT ";ret {IRQ:0,SERROR:1,EL1_SERROR:1,TRAP:2,HVC:2,IL:3,"
	  "HYP_GONE:195936785} |;esr_ec x HSR_EC: |ESR_EC: ;vcpu_pc x PC: " },
	{ "kvm", "kvm_nested_vmexit", X86_EXIT },
	{ "kvm", "kvm_userspace_exit", "reason u (;errno e (" },
	{ "kvm", "kvm_vcpu_wakeup", "waited {wait:1,poll:0} |;ns s time ;valid {valid:1,invalid:0} polling " },
	{ "kvm", "kvm_halt_poll_ns", "vcpu_id u vcpu ;new u halt_poll_ns ;grow {grow:1,shrink:0} (" },
	{ "kvm", "kvm_pio", "rw {pio_read:0,pio_write:1} |;port h at ;size v;count v;val x" },
	{ "kvm", "kvm_mmio", "type {unsatisfied-read:0,read:1,write:2} mmio ;len v;gpa x;val x" },
	{ "kvm", "kvm_fast_mmio", "gpa x" },
	{ "kvm", "vcpu_match_mmio", "gva x;gpa x" },
	{ "kvm", "kvm_msr", "write {msr_read:0,msr_write:1} |;ecx h msr_read |msr_write ;data x = ;"
	  "exception p (#GP)" },
	{ "kvm", "kvm_cr", "rw {cr_read:0,cr_write:1} |;cr x cr_read |cr_write ;val x = " },
	{ "kvm", "kvm_hypercall", "nr x;a0 x;a1 x;a2 x;a3 x" },
	{ "kvm", "kvm_cpuid", "function x func ;index x idx ;rax x;rbx x;rcx x;rdx x;"
	  "found {found:1,not:0} cpuid entry ;used_max_basic p used max basic" },
	{ "kvm", "kvm_page_fault", "vcpu_id v vcpu ;guest_rip x rip ;fault_address x address ;error_code x" },
	{ "kvm", "kvm_guest_fault", "ipa x;hsr x;hxfar x;vcpu_pc x pc " },
	{ "kvm", "kvm_wfx_arm64", "is_wfe {wfe:1,wfi:0} executed ;vcpu_pc x at: " },
	{ "kvm", "kvm_inj_virq", "vector h IRQ |Soft/INTn |irq ;soft p Soft;reinjected p [reinjected]" },
	{ "kvm", "kvm_inj_exception", "exception {#DE:0,#DB:1,#BP:3,#OF:4,#BR:5,#UD:6,#NM:7,#DF:8,#TS:10,"
	  "#NP:11,#SS:12,#GP:13,#PF:14,#MF:16,#AC:17,#MC:18} |;reinjected p [reinjected]" },
	{ "kvm", "kvm_set_irq", "gsi u;level u;irq_source_id u source " },
	{ "kvm", "kvm_msi_set_irq", "address D dst ;data u vec " },
	{ "kvm", "kvm_apic_ipi", "dest_id x dst ;icr_low u vec " },
	{ "kvm", "kvm_apic_accept_irq|kvm_apicv_accept_irq", "apicid x;vec u;" DM },
	{ "kvm", "kvm_eoi|kvm_pv_eoi", "apicid x;vector u" },
	{ "kvm", "vgic_update_irq_pending", "vcpu_id u VCPU: ;irq u IRQ ;level u" },
	{ "kvm", "kvm_irq_line", "type u (;vcpu_idx u vcpu->idx: ;irq_num u num: ;level u" },
	{ "kvm", "kvm_write_tsc_offset", "vcpu_id u vcpu=;previous_tsc_offset u prev=;next_tsc_offset u next=" },
	{ "kvm", "kvm_track_tsc", "vcpu_id u;use_master_clock u masterclock " },
	{ "kvm", "kvm_update_master_clock", "use_master_clock u masterclock " },
	{ "kvm", "kvm_pvclock_update", "vcpu_id u;version u;tsc_timestamp x;system_time x;"
	  "tsc_to_system_mul x;tsc_shift s;flags x" },
	{ "kvm", "kvm_hv_timer_state", "vcpu_id x;hv_timer_in_use x hv_timer " },
	{ "kvm", "kvm_wait_lapic_expire", "vcpu_id u vcpu ;delta s" },
	{ "kvm", "kvm_unmap_hva_range", "start x range: ;end x -- " },
	{ "kvm", "kvm_try_async_get_page", "gva x gva = ;gfn x gfn = " },
	{ "kvm", "kvm_async_pf_completed", "gva x;address x" },
	{ "kvmmmu", "fast_page_fault", "vcpu_id u vcpu ;gva x;old_spte x old ;new_spte x new " },
	{ "kvmmmu", "kvm_tdp_mmu_spte_changed", "gfn x;level u;old_spte x;new_spte x" },
	{ "sched", "sched_switch", "prev_comm c;prev_pid u;prev_prio s;prev_state {R:0,R+:256,S:1,D:2,T:4,"
	  "t:8,X:16,Z:32,P:64,I:128,W:128};next_comm c;next_pid u;next_prio s" },
	{ "sched", "sched_waking|sched_wakeup|sched_wakeup_new", "comm c;pid u;prio s;target_cpu u" },
	{ "task", "task_newtask", "pid u;comm c;clone_flags x" },
	{ "block", "block_rq_issue", "dev d |;rwbs w @2;bytes u @3;sector u ) ;nr_sector u + " },
	{ "block", "block_rq_complete", "dev d |;rwbs w @2;sector u ) ;nr_sector u + " },
	{ "block", "block_bio_queue", "dev d |;rwbs w @2;sector u @3;nr_sector u + " },
	{ "irq", "irq_handler_entry", "irq u;name r" },
	{ "irq", "irq_handler_exit", "irq u;ret {handled:1,unhandled:0}" },
	{ "irq", "softirq_entry|softirq_exit|softirq_raise", "vec u" },
	{ "irq_vectors", VECTORS("entry") "|" VECTORS("exit"), "vector u" },
	{ "power", "cpu_idle", "state u;cpu_id u" },
	{ "timer", "hrtimer_start|hrtimer_cancel|hrtimer_expire_entry", "hrtimer x;function w;expires u;"
	  "softexpires u;now u" },
	{ "msr", "read_msr|write_msr", "msr x |;val x value " },
	{ "ftrace", "print", "buf r tracing_mark_write: |" },
	{ "kmem", "mm_page_alloc", "pfn x;order u" },
	{ "filemap", "mm_filemap_add_to_page_cache", "pfn x" },
	{ "vmscan", "mm_vmscan_write_folio", "pfn x" },
	{ "vmscan", "mm_vmscan_direct_reclaim_begin", "order u" },
	{ "compaction", "mm_compaction_begin", "zone_start x" },
	{ "migrate", "mm_migrate_pages", "succeeded u nr_succeeded=" },
	{ "raw_syscalls", "sys_enter", "id s NR " },
	{ "syscalls", "sys_enter_ioctl", "fd x;cmd x" },
	{ "net", "net_dev_queue|net_dev_start_xmit|net_dev_xmit|netif_receive_skb|netif_receive_skb_entry|"
	  "napi_gro_receive_entry", "name w dev=;queue_mapping u;skbaddr x;len u;rc s" },
	{ "napi", "napi_poll", "napi x struct ;dev_name w device ;work u;budget u" },
	{ "skb", "skb_copy_datagram_iovec|consume_skb|kfree_skb", "skbaddr x;len u" },
};
/* clang-format on */

/* ---- the list ---- */

struct tt_field {
	struct tt_word name, words; /* words: "a:1,b:2", or behind a name the next field */
	char type;
	uint8_t size;
	struct tt_word labels; /* "a|b" */
};

/* The field that f describes; what follows it, NULL: none. */
static const char *next_field(const char *f, struct tt_field *x)
{
	const char *end = f + strcspn(f, ";"), *at = f + strcspn(f, " ") + 1;

	if (f == end)
		return NULL;
	*x = (struct tt_field){ .name = { f, (size_t)(at - 1 - f) }, .type = *at, .size = 8 };
	if (strchr("vhpIE{", *at))
		x->size = 4;
	x->type = *at == 'v' ? 'u' : *at == 'h' ? 'x' : *at;
	at++;
	if (x->type == '{') {
		x->words = (struct tt_word){ at, strcspn(at, "}") };
		at += x->words.n + 1;
	}
	if (x->type == 'c')
		x->words = (struct tt_word){ end + 1, strcspn(end + 1, " ") };
	at += at < end;
	x->labels = (struct tt_word){ at, (size_t)(end - at) };
	return end + (*end != '\0');
}

/* The next of "a|b"; *list is moved behind it, and NULL after the last. */
static struct tt_word next_of(const char **list, const char *end)
{
	const char *s = *list, *bar = memchr(s, '|', (size_t)(end - s));

	*list = bar ? bar + 1 : NULL;
	return (struct tt_word){ s, (size_t)((bar ?: end) - s) };
}

const struct tt_event *tt_event_find(struct tt_word sys, struct tt_word name)
{
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		const char *n = events[i].name, *end = n + strlen(n);

		while (n && (!sys.n || tt_word_is(sys, events[i].sys))) {
			struct tt_word one = next_of(&n, end);

			if (one.n == name.n && !memcmp(one.s, name.s, one.n))
				return &events[i];
		}
	}
	return NULL;
}

/* ---- values ---- */

/* Behind a text in s that begins a word, and one of the characters `then`; NULL: nowhere. */
static const char *behind_label(const char *s, struct tt_word what, const char *then)
{
	const char *end = s + strlen(s), *p = s;

	for (; what.n && (p = memmem(p, (size_t)(end - p), what.s, what.n)); p++) {
		if (p > s && tt_in_word(*what.s) && tt_in_word(p[-1]))
			continue;
		if (!then || (p[what.n] && strchr(then, p[what.n])))
			return p + what.n + (then != NULL);
	}
	return NULL;
}

/* Where the field's value is, NULL: nowhere; *named: behind its name and '='. */
static const char *find_value(const char *text, const struct tt_field *x, bool *named)
{
	const char *list = x->labels.s, *p = NULL;
	bool first = false;

	while (list && !p) {
		struct tt_word label = next_of(&list, x->labels.s + x->labels.n);

		first |= !label.n && x->labels.n;
		if (label.n != 2 || *label.s != '@') {
			p = behind_label(text, label, NULL);
			continue;
		}
		p = text;
		for (char k = label.s[1]; k > '1'; k--)
			p += strcspn(p, " ") + strspn(p + strcspn(p, " "), " ");
	}
	*named = false;
	if (!p && x->type != 'p') {
		p = behind_label(text, x->name, " =:");
		*named = p && p[-1] == '=';
	}
	p = !p && first ? text : p;
	return p ? p + (x->type == 'c' ? 0 : strspn(p, " ")) : NULL; /* a name may be empty */
}

/* How many hex digits p begins with, of 16, and their value. */
static inline __attribute__((always_inline)) unsigned int hex_digits(const char *p, uint64_t *v)
{
	bytes16 c, is, is_letter;
	uint64_t stop;
	pairs16 pair;
	bytes8 byte;
	unsigned int n;

	memcpy(&c, p, sizeof(c));
	/* With a sign comparing is one instruction. */
	is_letter = (bytes16)((chars16)((c | 0x20) + (0x80 - 'a')) < -0x80 + 6);
	is = (bytes16)((chars16)(c + (0x80 - '0')) < -0x80 + 10) | is_letter;
	byte = __builtin_convertvector(((pairs16)is >> 4) & 0xff, bytes8); /* 4 bits of each */
	memcpy(&stop, &byte, sizeof(stop));
	stop = ~stop;
	n = stop ? (unsigned int)__builtin_ctzll(stop) / 4 : 16;
	pair = (pairs16)((c & 0xf) + (is_letter & 9));
	byte = __builtin_convertvector((pair << 4 | pair >> 8) & 0xff, bytes8);
	memcpy(v, &byte, sizeof(*v));
	*v = n ? __builtin_bswap64(*v) >> (64 - 4 * n) : 0;
	return n;
}

/* Hex, which it always is behind 0x, or decimal; no word goes on behind it, where *s is then. */
static inline __attribute__((always_inline)) bool read_plain(const char **s, bool hex, uint64_t *v)
{
	const char *p = *s;
	const size_t mark = p[0] == '0' && (p[1] | 0x20) == 'x' ? 2 : 0;
	unsigned int n;

	p += mark;
	if (hex || mark)
		p += n = hex_digits(p, v);
	else
		n = tt_digits(&p, v);
	if (!n || tt_in_word(*p))
		return false;
	*s = p;
	return true;
}

/* The same of what begins with 0x. */
static inline __attribute__((always_inline)) bool read_0x(const char **s, uint64_t *v)
{
	const char *p = *s + 2;
	unsigned int n;

	if (**s != '0' || p[-1] != 'x')
		return false;
	n = hex_digits(p, v);
	if (!n || tt_in_word(p[n]))
		return false;
	*s = p + n;
	return true;
}

/*
 * Whether a number begins there: with a digit; or hex without 0x with a letter, as long as no label
 * is that looks like one ("a0").
 */
static inline bool number_at(const char *s)
{
	const char *p = s;
	bool digit = false;

	if (tt_is_digit(*s))
		return true;
	for (; tt_class[(uint8_t)*p] - 1u < 2; p++)
		digit |= tt_is_digit(*p);
	return digit && p - s > 2 && !tt_in_word(*p);
}

static bool read_number(const char **s, bool hex, uint64_t *v)
{
	const char *p = *s + (**s == '-');

	if (!read_plain(&p, hex, v))
		return false;
	*v = **s == '-' ? -*v : *v;
	*s = p;
	return true;
}

/* The longest of "a:1,b:2" that p begins with. */
static bool word_value(const char *p, struct tt_word words, uint64_t *v)
{
	size_t best = 0;

	for (const char *w = words.s, *end = w + words.n; w < end; w += strcspn(w, ",}") + 1) {
		size_t n = strcspn(w, ":");

		if (n > best && !strncmp(p, w, n) && !tt_in_word(p[n])) {
			best = n;
			*v = strtoull(w + n + 1, NULL, 10);
		}
	}
	return best || (tt_is_digit(*p) && read_number(&p, false, v));
}

/* ---- exits ---- */

/* clang-format off */
static const struct exit_entry vmx[] = {
	VMX_EXIT_CODES, { 7, "PENDING_INTERRUPT" }, { 33, "INVALID_GUEST_STATE" },
};
/* And the names that trace-cmd and perf have for them, without EXIT_. */
static const struct exit_entry svm[] = {
	SVM_EXIT_CODES, { 0x60, "intr" }, { 0x66, "idtr_read" }, { 0x67, "gdtr_read" },
	{ 0x68, "ldtr_read" }, { 0x69, "tr_read" }, { 0x6a, "idtr_write" }, { 0x6b, "gdtr_write" },
	{ 0x6c, "ldtr_write" }, { 0x6d, "tr_write" }, { 0x7b, "ioio" }, { 0x81, "vmmcall" },
	{ 0x8c, "mwait_cond" }, { 0xffffffff, "err" },
	{ 0x40, "excp_de" }, { 0x41, "excp_db" }, { 0x43, "excp_bp" }, { 0x44, "excp_of" },
	{ 0x45, "excp_br" }, { 0x46, "excp_ud" }, { 0x47, "excp_nm" }, { 0x48, "excp_df" },
	{ 0x4a, "excp_ts" }, { 0x4b, "excp_np" }, { 0x4c, "excp_ss" }, { 0x4d, "excp_gp" },
	{ 0x4e, "excp_pf" }, { 0x50, "excp_mf" }, { 0x51, "excp_ac" }, { 0x52, "excp_mc" },
};
/* clang-format on */

static bool has_name(const char *p, const struct exit_entry *t, size_t n,
		     int (*cmp)(const char *, const char *, size_t), uint64_t *v)
{
	for (size_t i = 0, len; i < n; i++) {
		if ((*p ^ *t[i].name) & 0x1f) /* in neither case */
			continue;
		len = strlen(t[i].name);
		if (cmp(p, t[i].name, len) || tt_in_word(p[len]))
			continue;
		*v = t[i].reason;
		return true;
	}
	return false;
}

static bool text_exit_reason(const char *p, uint64_t *isa, uint64_t *v)
{
	bool amd;

	p += str_starts(p, "EXIT_REASON_") ? 12 : 0;
	if (has_name(p, vmx, ARRAY_SIZE(vmx), strncmp, v)) {
		*isa = 1;
		*v |= strstr(p, " FAILED_VMENTRY") ? 1u << 31 : 0;
		return true;
	}
	p += str_starts(p, "EXIT_") ? 5 : 0;
	amd = has_name(p, svm, ARRAY_SIZE(svm), strncasecmp, v);
	if (amd || has_name(p, vmx, ARRAY_SIZE(vmx), strncasecmp, v)) { /* in small letters: 2010 */
		*isa = 1 + amd;
		return true;
	}
	p += str_starts(p, "UNKNOWN (") ? 9 : 0; /* trace-cmd's */
	return read_number(&p, false, v);
}

/* ---- tasks ---- */

/* "comm:pid [prio]", as the kernel prints it; behind the bracket, NULL: it is not. */
static const char *plugin_task(const char *s, const char *prefix, struct sbuf *b)
{
	const char *colon = NULL, *behind = NULL;
	int pid = 0, prio = 0, p, q;

	/* What looks like that before it is in the name. */
	for (const char *c = s; *c && c - s <= TASK_COMM; c++) {
		int n = 0;

		if (*c != ':' || sscanf(c, ":%d [%d]%n", &p, &q, &n) != 2 || !n)
			continue;
		colon = c;
		behind = c + n;
		pid = p;
		prio = q;
	}
	if (behind)
		sbuf_addf(b, "%scomm=%.*s %spid=%d %sprio=%d ", prefix, (int)(colon - s), s, prefix,
			  pid, prefix, prio);
	return behind;
}

/* What trace-cmd's and perf's plugin makes of scheduler events, as the kernel prints it. */
static const char *plugin_text(const struct tt_line *l, struct sbuf *b)
{
	const bool turn = tt_word_is(l->name, "sched_switch");
	const char *s = l->text.s, *last, *arrow, *p;

	if (!(last = strrchr(s, ' ')) || strchr(last, '=') || !tt_event_find(l->sys, l->name))
		return s;
	sbuf_reset(b);
	p = plugin_task(s, turn ? "prev_" : "", b);
	if (p && turn && (arrow = strstr(p, " ==> "))) {
		sbuf_addf(b, "prev_state=%.*s ", (int)MAX(arrow - p - 1, 0), p + 1);
		p = plugin_task(arrow + 5, "next_", b);
	} else if (p && (p = strstr(p, "CPU:"))) {
		sbuf_addf(b, "target_cpu=%.3s", p + 4);
	}
	return p && sbuf_room(b, TT_SLACK) ? b->s : s;
}

/* ---- all of an event ---- */

/*
 * A task's name may look like fields: it ends at the last place, in its 15 bytes, where the next
 * one begins.
 */
static size_t task_name(const char *p, struct tt_word next)
{
	size_t n = strlen(p);

	for (size_t i = 0; i <= TASK_COMM && p[i]; i++)
		if (p[i] == ' ' && !strncmp(p + i + 1, next.s, next.n) && p[i + 1 + next.n] == '=')
			n = i;
	return n;
}

static struct tt_word tt_string(const char *p, const struct tt_place *x)
{
	size_t n = x->type == 'w' ? strcspn(p, " ,;)") : strlen(p);

	if (x->type == 'c')
		n = task_name(p, x->words);
	return (struct tt_word){ p, MIN(n, (size_t)TT_STRING_MAX) };
}

static bool tt_value(const char *text, const char *p, const struct tt_place *x, uint64_t *isa,
		     uint64_t *v)
{
	uint64_t minor;
	bool is;

	*v = 0;
	if (x->type == 'p')
		return *v = p != NULL, true;
	if (x->type == 'I' && !p)
		return *v = *isa, *isa != 0;
	if (!p)
		return false;
	switch (x->type) {
	case '{': return word_value(p, x->words, v);
	case 'E': return text_exit_reason(p, isa, v);
	case 'd':
		if (!take_u64(&p, UINT32_MAX >> 20, v) || *p++ != ',' ||
		    !read_number(&p, false, &minor))
			return false;
		*v = *v << 20 | (minor & 0xfffff);
		return true;
	default: break;
	}
	is = read_number(&p, x->type == 'x' || x->type == 'D', v);
	if (is && !x->named && x->type == 'D')
		*v = 0xfee00000u | (*v & 0xff) << 12 | (*v & 0xffffff00u) << 32;
	if (is && !x->named && x->type == 'e') /* "restart (4)", "error (22)", else the reason */
		*v = strstr(text, " KVM_EXIT_") ? 0 : -*v;
	return is;
}

static bool is_string(char type)
{
	return type == 'c' || type == 'w' || type == 'r';
}

/* ---- shapes ---- */

#define SLOTS_LOG   10
#define GUESSES_LOG 13
#define BEGINNING   48u /* bytes of an event that its shape is guessed by */

/* What is before the text, and that with '\n' for each number: how long; 0: too long. */
static size_t read_skeleton(struct tt_shapes *all, const struct tt_line *l, char *skeleton)
{
	char *to = skeleton, *end = skeleton + sizeof(all->slot->skeleton) - TT_SLACK;
	const char *s = all->text;
	uint8_t class, before = 0;

	all->n = 1;
	all->end[0] = s;
	if ((size_t)(l->text.s - l->what) >= (size_t)(end - to))
		return 0;
	to = mempcpy(to, l->what, (size_t)(l->text.s - l->what));
	for (; *s && to < end; s++, before = class) {
		class = tt_class[(uint8_t)*s];
		if (before || all->n == TT_NUMBERS || !number_at(s)) {
			*to++ = *s;
			continue;
		}
		*to++ = '\n';
		while (tt_in_word(s[1]))
			s++;
		all->end[all->n++] = s + 1;
	}
	memset(to, 0, TT_SLACK);
	return to < end ? (size_t)(to - skeleton) : 0;
}

/* No label has a number in it, so the same skeleton has them in the same places. */
static void find_places(const struct tt_shapes *all, struct tt_shape *s)
{
	const char *f = s->e ? s->e->fields : "", *p, *from = all->text;
	struct tt_field x;

	s->n = 0;
	s->size = 16;
	for (uint32_t bit = 1; (f = next_field(f, &x)); bit <<= 1) {
		struct tt_place *at = &s->at[s->n];
		char *wanted;

		*at = (struct tt_place){ .type = x.type, .size = x.size, .bit = bit };
		at->words = x.words;
		p = find_value(from, &x, &at->named);
		from = p && x.type == 'c' ? p + task_name(p, x.words) : from;
		if (!p && x.type != 'p' && x.type != 'I')
			continue;
		s->n++;
		s->size += x.size;
		at->there = p != NULL;
		at->fixed = x.type == 'p' ||
			    (p && (x.type == '{' || x.type == 'E') && isalpha((unsigned char)*p) &&
			     !number_at(p) && !str_starts(p, "UNKNOWN ("));
		if (at->fixed)
			at->known = tt_value(all->text, p, at, &at->isa, &at->v);
		while (p && at->number + 1 < all->n && all->end[at->number + 1] <= p)
			at->number++;
		at->skip = p ? (uint32_t)(p - all->end[at->number]) : 0;
		if (!p || !s->len || at->number + 1 == all->n || !strchr("usx", x.type) ||
		    !number_at(p) || (p > all->text && tt_in_word(p[-1])))
			continue;
		wanted = &s->step[at->number].wanted;
		*wanted = *wanted ?: x.type == 'x' ? 'x' : 'u';
		at->plain = (*wanted == 'x') == (x.type == 'x');
		if (x.size == 4)
			s->step[at->number].over = UINT64_MAX << 32;
	}
}

/* Whether the text behind its head has that shape; then its numbers are read. */
static inline __attribute__((always_inline)) bool has_text(struct tt_shapes *all,
							   const struct tt_shape *s)
{
	const char *p = all->text;
	const struct tt_step *x = s->step;
	uint64_t known = UINT64_MAX; /* and those that are not wanted */

	all->end[0] = p;
	all->n = s->numbers;
	for (uint32_t i = 1;; i++, x++) {
		if (((load_u64(p) ^ x->word[0]) & x->mask[0]) |
		    ((load_u64(p + 8) ^ x->word[1]) & x->mask[1]))
			return false;
		if (x->n > 16 && !tt_same(p + 16, s->skeleton + x->at + 16, x->n - 16u))
			return false;
		if (i == s->numbers)
			break;
		p += x->n;
		if (x->wanted != 'x' || !read_0x(&p, &all->v[i])) {
			if (!number_at(p))
				return false;
			if (!x->wanted || !read_plain(&p, x->wanted == 'x', &all->v[i])) {
				known &= ~((uint64_t)!!x->wanted << i);
				while (tt_in_word(*p))
					p++;
			}
		}
		if (all->v[i] & x->over)
			known &= ~(1ull << i);
		all->end[i] = p;
	}
	all->known = known;
	return true;
}

static __attribute__((noinline)) bool has_shape(struct tt_shapes *all, const struct tt_line *l,
						const struct tt_shape *s)
{
	return s->len && (size_t)(l->text.s - l->what) == s->head &&
	       tt_same(l->what, s->skeleton, s->head) && has_text(all, s);
}

static void set_shape(struct tt_shapes *all, const struct tt_line *l, struct tt_shape *s,
		      const char *skeleton, size_t len)
{
	size_t begin = (size_t)(l->text.s - l->what), end;

	memcpy(s->skeleton, skeleton, sizeof(s->skeleton));
	memset(s->step, 0, sizeof(s->step));
	s->len = len;
	s->head = begin;
	s->sys = l->sys.n;
	s->name = l->name.n;
	s->headed = len && s->head > s->name && strchr(" \t", l->what[s->head - 1]) &&
		    l->name.s == l->what + (s->sys ? s->sys + 1 : 0);
	s->id = 0;
	s->quick = false;
	s->numbers = all->n;
	for (struct tt_step *x = s->step; x < s->step + all->n && len; x++, begin = end + 1) {
		end = begin + strcspn(s->skeleton + begin, "\n");
		x->at = (uint16_t)begin;
		x->n = (uint16_t)(end - begin + (end == len)); /* the last one with its NUL */
		memset(x->mask, 0xff, MIN(x->n, sizeof(x->mask)));
		memcpy(x->word, s->skeleton + begin, MIN(x->n, sizeof(x->word)));
	}
	s->e = tt_event_find(l->sys, l->name);
	all->set++;
	find_places(all, s);
}

/* Of events that begin alike, but for digits and what may be some. */
uint16_t *tt_guess(const struct tt_shapes *all, const char *what, const char *end)
{
	static const int8_t within[2 * BEGINNING] = { [0 ... BEGINNING - 1] = -1 };
	const int8_t *mask = within + BEGINNING - MIN((size_t)(end - what), (size_t)BEGINNING);
	bytes16 sum = { 0 };
	uint64_t v[2];

	for (size_t i = 0; i < BEGINNING; i += sizeof(sum)) {
		chars16 c, is;

		memcpy(&c, what + i, sizeof(c));
		memcpy(&is, mask + i, sizeof(is));
		c &= is & (chars16)((c | 0x20) > 'f');
		sum = (bytes16)((pairs16)sum << 2) + (bytes16)c;
	}
	memcpy(v, &sum, sizeof(v));
	v[0] = v[0] * 0x9e3779b97f4a7c15u + v[1] * 0xc2b2ae3d27d4eb4fu;
	return &all->guess[(v[0] ^ v[0] >> 29) * 0x9e3779b97f4a7c15u >> (64 - GUESSES_LOG)];
}

/* That of a line. */
static __attribute__((noinline)) struct tt_shape *shape_of(struct tt_shapes *all,
							   const struct tt_line *l)
{
	char skeleton[sizeof(all->slot->skeleton)];
	struct tt_shape *s;
	uint16_t *guess;
	uint64_t hash = 0;
	size_t len;

	all->slot = all->slot ?: xcalloc(1u << SLOTS_LOG, sizeof(*s));
	all->guess = all->guess ?: xcalloc(1u << GUESSES_LOG, sizeof(*guess));
	guess = tt_guess(all, l->what, l->text.s + l->text.n);
	if (has_shape(all, l, &all->slot[*guess]))
		return &all->slot[*guess];
	len = read_skeleton(all, l, skeleton);
	for (size_t i = 0; i < len; i += 8)
		hash = (hash ^ load_u64(skeleton + i)) * 0x9e3779b97f4a7c15u, hash ^= hash >> 32;
	*guess = hash & ((1u << SLOTS_LOG) - 1);
	/* Two that belong into one place are often of the same events. */
	*guess ^= all->slot[*guess].len && !has_shape(all, l, &all->slot[*guess]);
	s = &all->slot[*guess];
	if (!has_shape(all, l, s)) {
		len = read_skeleton(all, l, skeleton); /* another shape's numbers were looked for */
		set_shape(all, l, s, skeleton, len);
		has_shape(all, l, s);
	}
	return s;
}

/* ---- its format and record ---- */

#define FIELD "\tfield:%s %.*s;\toffset:%u;\tsize:%u;\tsigned:%u;\n"

/* All fields have 8 bytes or 4, then the text, and strings. */
void tt_format(const struct tt_event *e, uint32_t have, const char *name, uint16_t id,
	       struct sbuf *b)
{
	const char *f = e ? e->fields : "", *const text = "__data_loc char[]", *type;
	struct tt_field x;
	uint32_t at = 8;

	sbuf_addf(b, "name: %s\nID: %u\nformat:\n", name, id);
	sbuf_addf(b, FIELD FIELD FIELD FIELD "\n", "unsigned short", 11, "common_type", 0, 2, 0,
		  "unsigned char", 12, "common_flags", 2, 1, 0, "unsigned char", 20,
		  "common_preempt_count", 3, 1, 0, "int", 10, "common_pid", 4, 4, 1);
	for (; (f = next_field(f, &x)); have >>= 1) {
		type = is_string(x.type) ? text : x.type == 's' ? "s64" : x.size == 4 ? "u32" : "u64";
		if (!(have & 1))
			continue;
		sbuf_addf(b, FIELD, type, (int)x.name.n, x.name.s, at, type == text ? 4 : x.size,
			  x.type == 's');
		at += x.size;
	}
	sbuf_addf(b, FIELD "\nprint fmt: \"%%s\", __get_str(text)\n", text, 4, "text", at, 4, 0);
}

uint32_t tt_put_string(uint8_t *buf, uint8_t *slot, uint32_t at, struct tt_word w)
{
	uint32_t loc = (uint32_t)(w.n + 1) << 16 | at;

	memcpy(slot, &loc, sizeof(loc));
	memcpy(buf + at, w.s, w.n);
	buf[at + w.n] = '\0';
	return at + (uint32_t)w.n + 1;
}

/* Of the line that was read; kept, if the next of its shape differ in plain numbers alone. */
static uint32_t make_record(struct tt_shapes *all, struct tt_shape *s, uint64_t *isa)
{
	uint32_t at = s->size;
	uint8_t *buf = all->record, *slot = buf + 8;

	memset(buf, 0, at);
	memset(s->to, 0, sizeof(s->to));
	s->bits = 0;
	s->isa = 0;
	s->quick = true;
	for (const struct tt_place *x = s->at; x < s->at + s->n; x++) {
		const char *p = x->there ? all->end[x->number] + x->skip : NULL;
		bool known = x->known;
		uint64_t v = x->v;

		if (x->plain) {
			known = all->known >> (x->number + 1) & 1;
			v = all->v[x->number + 1];
			s->quick &= known && !s->to[x->number + 1];
			s->to[x->number + 1] = (uint8_t)((slot - buf) | (x->size == 4));
		} else if (is_string(x->type)) {
			known = true;
			s->quick = false;
			at = tt_put_string(buf, slot, at, tt_string(p, x));
			memcpy(&v, slot, sizeof(v));
		} else if (!x->fixed) {
			s->quick &= x->type == 'I' && !x->there && s->isa;
			known = tt_value(all->text, p, x, isa, &v) && (x->size == 8 || !(v >> 32));
		} else {
			s->isa = x->isa ?: s->isa;
			*isa = x->isa ?: *isa;
		}
		if (!known)
			continue;
		memcpy(slot, &v, x->size);
		slot += x->size;
		s->bits |= x->bit;
	}
	s->slot = (uint32_t)(slot - buf);
	if (s->quick)
		memcpy(s->record, buf, at);
	s->known = all->known;
	return at;
}

uint32_t tt_record(struct tt_shapes *all, const struct tt_line *l, uint64_t *isa,
		   struct tt_shape **shape)
{
	struct tt_shape *s = l->guess;

	all->text = *l->name.s == 's' && l->name.n > 6 && !memcmp(l->name.s, "sched_", 6)
			    ? plugin_text(l, &all->plain)
			    : l->text.s;
	if (!s || l->set != all->set || !has_text(all, s))
		s = shape_of(all, l);
	*shape = s;
	if (!s->quick || all->known != s->known)
		return make_record(all, s, isa);
	*isa = s->isa ?: *isa;
	return s->size;
}

void tt_put_record(const struct tt_shapes *all, const struct tt_shape *s, uint8_t *to, uint32_t n)
{
	const uint32_t numbers = s->quick ? s->numbers : 0;

	memcpy(to, s->quick ? s->record : all->record, n);
	for (uint32_t i = 1; i < numbers; i++) /* others to 0, where more follows */
		if (s->to[i] & 1)
			memcpy(to + s->to[i] - 1, &all->v[i], 4);
		else
			memcpy(to + s->to[i], &all->v[i], 8);
}
