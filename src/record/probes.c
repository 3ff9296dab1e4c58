/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probes.c: events that are made for a recording: --sdt, markers of programs; -e net-id,
 * addresses and ports of packets; --guest-processes, the registers of guests. They are made before
 * the instance, enabled only in it, and removed after it.
 */
#include "record.h"

#include "kvmft/btf.h"
#include "kvmft/exit_names.h"
#include "kvmft/sdt.h"

#define BTF_FILE "/sys/kernel/btf/vmlinux"
#define BTF_MAX	 (64u << 20)

/* Where members of a structure are, which the file of a module may describe: NULL, the kernel. */
static int members_find(struct record *r, const char *file, const char *name,
			const char *const *member, size_t n, uint32_t *offset)
{
	_cleanup_free_ char *base = NULL, *more = NULL;
	ssize_t nbase = file_read_all(AT_FDCWD, BTF_FILE, BTF_MAX, &base), nmore = 0;

	if (nbase < 0)
		return err_why(r->err, (int)nbase,
			       "cannot read " BTF_FILE " (CONFIG_DEBUG_INFO_BTF)");
	if (file)
		nmore = file_read_all(AT_FDCWD, file, BTF_MAX, &more);
	if (nmore < 0 && nmore != -ENOENT)
		return err_why(r->err, (int)nmore, "cannot read %s", file);
	return btf_offsets(more ? &(struct btf_text){ more, (size_t)nmore }
				: &(struct btf_text){ base, (size_t)nbase },
			   more ? &(struct btf_text){ base, (size_t)nbase } : NULL, name, member, n,
			   offset);
}

/*
 * --guest-processes, which address space a guest was in when it exited.
 *
 * A probe where KVM begins to handle an exit reads it from the VMCB of the vCPU, which holds the
 * guest's registers then. Where KVM has the VMCB's address, its own description says; where the
 * fields are in it, AMD's manual (vol. 2, appendix B), the same for all: the control area from 0,
 * the state save area from 0x400. Nothing of the guest's memory is read. In the capture the event
 * is kvmft:guest_cr3.
 *
 * Nothing of that for Intel: there KVM reads CR3 out of the VMCS only when it needs it.
 */

#define AMD_BTF	   "/sys/kernel/btf/kvm_amd"
#define AMD_NPT	   "/sys/module/kvm_amd/parameters/npt"
#define AMD_HANDLE "svm_handle_exit"
#define CR3_EVENT  "guest_cr3"

static int cr3_start(struct record *r)
{
	static const char *const member[] = { "vcpu", "vmcb" };
	_cleanup_(sbuf_free) struct sbuf args = { 0 };
	uint32_t at[ARRAY_SIZE(member)];
	char npt[8];
	int ret;

	if (r->side && !(r->side & CAP_SIDE_HOST))
		return err_usage(r->err, "option --guest-processes: only of a host");
	if (exit_isa_of_vendor(r->tsc.vendor) != EXIT_ISA_SVM)
		return err_lack(r->err, ENOTSUP,
				"--guest-processes: only on AMD: on other CPUs KVM does not have a "
				"guest's CR3 at each exit");
	if (!file_read_line(AT_FDCWD, AMD_NPT, npt, sizeof(npt)) && npt[0] != 'Y' && npt[0] != '1')
		return err_lack(r->err, ENOTSUP,
				"--guest-processes: kvm_amd runs with npt=0, where CR3 is KVM's own");
	ret = members_find(r, AMD_BTF, "vcpu_svm", member, ARRAY_SIZE(member), at);
	if (ret && !r->err->text[0])
		err_set(r->err, -ret, "%s",
			ret == -ENOENT ? AMD_BTF " does not say where a vCPU's VMCB is: is kvm_amd "
					 "loaded (modprobe kvm), and has its kernel "
					 "CONFIG_DEBUG_INFO_BTF_MODULES?"
				       : AMD_BTF " is damaged, or of a newer kind");
	if (!ret && at[1] < at[0])
		ret = err_set(r->err, EPROTO, AMD_BTF ": a VMCB before its vCPU");
	ret = ret ?: kprobes_open(r->t, &r->cr3, r->err);
	if (ret)
		return err_lack(r->err, ret, "--guest-processes: %s", r->err->text);
	at[1] -= at[0];
	sbuf_addf(&args,
		  "cr3=+0x550(+%u(%%di)):x64 rip=+0x578(+%u(%%di)):x64 rsp=+0x5d8(+%u(%%di)):x64 "
		  "cpl=+0x4cb(+%u(%%di)):u8 code=+0x70(+%u(%%di)):x64 modes=+0x90(+%u(%%di)):x64 "
		  "fs=+0x448(+%u(%%di)):x64",
		  at[1], at[1], at[1], at[1], at[1], at[1], at[1]);
	ret = args.error ?: kprobe_add(r->cr3, CR3_EVENT, AMD_HANDLE, args.s, r->err);
	ret = ret ?: kevent_list_add(&r->events, kprobes_group(r->cr3), CR3_EVENT, NULL);
	return ret == -ENOMEM ? err_set(r->err, ENOMEM, "out of memory") : ret;
}

/*
 * -e net-id, what tells one packet from another: the first words of its IP header.
 *
 * Probes at the events of net by which a packet leaves one kernel and enters the other read them
 * where the packet's data begin, which only the kernel's own description of struct sk_buff tells.
 * Each has the packet's address, as those events do. What they read ends with the ports; of a later
 * fragment, which has none, nothing is recorded. In the capture they are kvmft:net_*.
 */

#define LATER	 "!(at & 0xff1f)" /* the fragment's offset, as it is in memory */

/* Where a packet is seen; the IP header is so far behind the beginning of its data. */
static const struct place {
	const char *event, *name;
	unsigned int sides, before;
	const char *plain; /* ... if this holds */
} places[] = {
	{ "net_dev_start_xmit", "start", CAP_SIDE_BOTH, 14, " && network_offset == 14" },
	{ "netif_receive_skb_entry", "entry", CAP_SIDE_HOST, 0, "" },
	{ "napi_gro_receive_entry", "gro", CAP_SIDE_GUEST, 0, "" },
};

static const struct family {
	const char *name, *protocol, *head;
	const char *filter; /* NULL: none; it needs the two bytes at 6 */
} families[] = {
	{ "ip4", "0x800", "x64[3]", LATER },
	{ "ip6", "0x86dd", "x32[11]", NULL },
};

/* offset NULL: they are made, and are to be recorded. */
static int each_probe(struct record *r, const uint32_t *offset)
{
	int ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(places) * ARRAY_SIZE(families) && !ret; i++) {
		const struct place *p = &places[i / ARRAY_SIZE(families)];
		const struct family *f = &families[i % ARRAY_SIZE(families)];
		_cleanup_(sbuf_free) struct sbuf args = { 0 };
		char name[32];

		if (!(p->sides & r->side) || !kevent_exists(r->t, "net", p->event))
			continue;
		snprintf(name, sizeof(name), "net_%s_%s", f->name, p->name);
		if (!offset) {
			ret = kevent_list_add(&r->events, kprobes_group(r->net_id), name,
					      f->filter);
			continue;
		}
		sbuf_addf(&args,
			  "skbaddr=$skbaddr:x64 len=$len:u32 data_len=$data_len:u32 "
			  "head=+%u(+%u($skbaddr)):%s",
			  p->before, *offset, f->head);
		if (f->filter)
			sbuf_addf(&args, " at=+%u(+%u($skbaddr)):x16", p->before + 6, *offset);
		sbuf_addf(&args, " if protocol == %s%s", f->protocol, p->plain);
		ret = args.error ?: eprobe_add(r->net_id, name, "net", p->event, args.s, r->err);
	}
	return ret;
}

static void kprobes_end(struct record *r, struct kprobes **p, const char *of)
{
	int ret = kprobes_close(*p);

	*p = NULL;
	if (ret)
		r->note("cannot remove the probes of %s: %s (kvmft reset removes them later)", of,
			strerror(-ret));
}

/*
 * --sdt, the static markers of programs as events of the recording.
 *
 * The kernel's events are in the group kvmft_PID_STARTTIME, which `kvmft reset` knows; in the
 * capture they have the names that `perf` would use, sdt_PROVIDER:MARKER.
 */

#define MAX_EVENTS 1000 /* each takes the kernel a while to switch on */

/* What is kept of a recording's markers; the i-th event of the plan is the i-th of kname. */
struct record_sdt {
	struct kprobes *probes;
	unsigned int can; /* enum kuprobe_can */
	struct sdt_spec *spec;
	size_t nspec;
	struct sdt_plan plan;
	char (*kname)[64];
};

/* ---- which markers ---- */

static bool probe_file_same(const struct sdt_spec *a, const struct sdt_spec *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

/* Everything said about the file of the i-th option, unless an earlier one named it already. */
static int probes_plan_file(struct record *r, struct record_sdt *s, size_t i)
{
	const struct sdt_spec *spec = &s->spec[i];
	struct sdt_hints h = { 0 };
	struct sdt_file f = { 0 };
	size_t n;
	int ret;

	for (size_t k = 0; k < i; k++)
		if (probe_file_same(&s->spec[k], spec))
			return 0;
	ret = sdt_hints_ask(spec, s->nspec, &f, &h, r->err);
	n = h.n;
	for (size_t k = i; k < s->nspec && !ret; k++) {
		if (!probe_file_same(&s->spec[k], spec))
			continue;
		h.want[n++] = s->spec[k].want;
		ret = sdt_spec_check(&s->spec[k], &f, r->err);
	}
	if (!ret && f.arch == SDT_ARCH_OTHER)
		ret = err_set(r->err, ENOTSUP, "%s: not a program for x86", spec->path);
	if (!ret) {
		ret = sdt_plan_add(&s->plan, &f, i, h.want, n, MAX_EVENTS);
		if (ret == -E2BIG)
			err_set(r->err, E2BIG,
				"%s: more than %d markers: name some, as in %s:PROVIDER:a* "
				"(kvmft qemu sdt lists them)",
				spec->path, MAX_EVENTS, spec->path);
		else if (ret)
			err_why(r->err, ret, "%s", spec->path);
	}
	sdt_hints_free(&h);
	sdt_free(&f);
	return ret;
}

/* What will be missing is reported before the recording, unless it is quiet. */
static int plan_check(struct record *r, const struct record_sdt *s)
{
	const struct sdt_plan *p = &s->plan;

	if (p->unfit && !p->n)
		return err_set(r->err, EINVAL, "%s: no such marker can be probed: %s",
			       s->spec[0].path, p->why_unfit);
	if (p->unfit && !r->c->quiet)
		r->note("%zu places of markers cannot be probed: %s", p->unfit, p->why_unfit);
	for (size_t i = 0; i < p->n; i++) {
		const struct sdt_event *e = &p->v[i];

		if (e->guarded && !(s->can & KUPROBE_GUARD))
			return err_lack(r->err, ENOTSUP,
					"%s:%s: this marker is guarded by a semaphore, which "
					"the kernel raises since Linux 4.20",
					e->provider, e->marker);
		if (*e->left_out && !r->c->quiet)
			r->note("%s:%s is recorded without %s", e->provider, e->marker,
				e->left_out);
	}
	return 0;
}

static int sdt_start(struct record *r)
{
	const struct str_list *list = &r->c->sdt;
	struct record_sdt *s;
	int ret = 0;

	s = r->sdt = calloc(1, sizeof(*s));
	if (s)
		s->spec = calloc(list->n, sizeof(*s->spec));
	if (!s || !s->spec)
		return err_set(r->err, ENOMEM, "out of memory");
	for (size_t i = 0; i < list->n && !ret; i++) {
		ret = sdt_spec_parse(list->v[i], &s->spec[i], r->err);
		s->nspec += !ret;
	}
	ret = ret ?: uprobes_open(r->t, &s->probes, &s->can, r->err);
	if (ret)
		return ret;
	s->plan.flags = (s->can & KUPROBE_CONSTANT ? 0 : SDT_NO_CONSTANTS) |
			(s->can & KUPROBE_APPEND ? 0 : SDT_ONE_PLACE);
	for (size_t i = 0; i < s->nspec && !ret; i++)
		ret = probes_plan_file(r, s, i);
	ret = ret ?: plan_check(r, s);
	if (ret)
		return ret;
	s->kname = calloc(s->plan.n, sizeof(*s->kname));
	if (!s->kname)
		return err_set(r->err, ENOMEM, "out of memory");
	for (size_t i = 0; i < s->plan.n && !ret; i++) {
		const struct sdt_event *e = &s->plan.v[i];

		snprintf(s->kname[i], sizeof(s->kname[i]), "%.50s_%u", e->name, (unsigned int)i);
		for (size_t k = 0; k < e->n && !ret; k++) {
			const struct sdt_place *place = &e->place[k];
			const struct sdt_spec *spec = &s->spec[place->file];
			const struct kuprobe u = {
				.name = s->kname[i], .fd = spec->fd, .path = spec->path,
				.offset = place->offset, .guard = place->semaphore,
				.args = place->args, .again = k > 0,
			};

			ret = uprobe_add(s->probes, &u, r->err);
		}
		if (!ret && kevent_list_add(&r->events, kprobes_group(s->probes), s->kname[i],
					    e->filter))
			ret = err_set(r->err, ENOMEM, "out of memory");
	}
	return ret;
}

/* ---- in the capture ---- */

/* Our groups have a process id in their names. */
static int probes_name(const struct record *r, const struct kevent *e, const char **sys,
		       const char **name, char **format)
{
	const struct record_sdt *s = r->sdt;
	const struct sdt_event *ours;
	struct sbuf b = { 0 };
	size_t i = 0;
	char *text;

	if ((r->net_id && !strcmp(e->sys, kprobes_group(r->net_id))) ||
	    (r->cr3 && !strcmp(e->sys, kprobes_group(r->cr3))))
		*sys = "kvmft";
	if (!s || strcmp(e->sys, kprobes_group(s->probes)))
		return 0;
	while (i < s->plan.n && strcmp(s->kname[i], e->name))
		i++;
	if (i == s->plan.n)
		return 0;
	ours = &s->plan.v[i];
	/* The first line of a format text is "name: KNAME". */
	sbuf_addf(&b, "name: %s%s", ours->name, *format + strcspn(*format, "\n"));
	text = sbuf_take(&b);
	if (!text)
		return -ENOMEM;
	free(*format);
	*format = text;
	*sys = ours->sys;
	*name = ours->name;
	return 0;
}

static int probes_facts(struct record *r)
{
	const struct record_sdt *s = r->sdt;
	int ret = 0;

	for (size_t i = 0; s && i < s->plan.n && !ret; i++) {
		const struct sdt_event *e = &s->plan.v[i];

		meta_begin(&r->line, "sdt");
		meta_str(&r->line, "sys", e->sys);
		meta_str(&r->line, "name", e->name);
		meta_str(&r->line, "provider", e->provider);
		meta_str(&r->line, "marker", e->marker);
		meta_str(&r->line, "binary", s->spec[e->place[0].file].path);
		meta_u64(&r->line, "places", e->n);
		meta_str(&r->line, "left_out", *e->left_out ? e->left_out : NULL);
		ret = record_put(r);
	}
	return ret;
}

static int probes_start(struct record *r)
{
	int ret = r->c->sdt.n ? sdt_start(r) : 0;
	static const char *const member[] = { "data" };
	uint32_t offset;

	if (!ret && r->c->guest_processes)
		ret = cr3_start(r);
	if (ret || !r->want_net_id)
		return ret;
	ret = eprobes_open(r->t, &r->net_id, r->err);
	ret = ret ?: members_find(r, NULL, "sk_buff", member, 1, &offset);
	if (ret && !r->err->text[0])
		err_why(r->err, ret, BTF_FILE " does not say where the data of a packet are");
	ret = ret ?: each_probe(r, &offset);
	ret = ret ?: each_probe(r, NULL);
	if (!ret || ret == -ENOMEM)
		return ret;
	/* Without them the packets are recorded as with net. */
	r->note("net-id: packets are recorded without addresses and ports: %s", r->err->text);
	*r->err = (struct kvmft_err){ .text = "" };
	kprobes_end(r, &r->net_id, "net-id");
	return 0;
}

/* After the instance: an event that is enabled somewhere cannot be removed. */
static int probes_end(struct record *r)
{
	struct record_sdt *s = r->sdt;
	int ret;

	kprobes_end(r, &r->net_id, "net-id");
	kprobes_end(r, &r->cr3, "--guest-processes");
	if (!s)
		return 0;
	ret = kprobes_close(s->probes);
	if (ret)
		r->note("cannot remove the uprobes of the markers: %s (kvmft reset removes them later)",
			strerror(-ret));
	for (size_t i = 0; i < s->nspec; i++)
		sdt_spec_free(&s->spec[i]);
	sdt_plan_free(&s->plan);
	free(s->spec);
	free(s->kname);
	free(s);
	r->sdt = NULL;
	return 0;
}

const struct record_extra record_probes = {
	.start = probes_start,
	.name = probes_name,
	.facts = probes_facts,
	.end = probes_end,
};
