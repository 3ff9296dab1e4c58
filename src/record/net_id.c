/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * net_id.c: -e net-id, what tells one packet from another: the first words of its IP header.
 *
 * Probes at the events of net by which a packet leaves one kernel and enters the other read them
 * where the packet's data begin, which only the kernel's own description of struct sk_buff tells.
 * Each has the packet's address, as those events do. What they read ends with the ports; of a later
 * fragment, which has none, nothing is recorded. They are made before the instance, enabled only in
 * it, and removed after it. In the capture they are kvmft:net_*.
 */
#include "record.h"

#include <fcntl.h>

#include "kvmft/btf.h"

#define BTF_FILE "/sys/kernel/btf/vmlinux"
#define BTF_MAX	 (64u << 20)
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

static int data_offset(struct kvmft_err *err, uint32_t *offset)
{
	static const char *const member[] = { "data" };
	_cleanup_free_ char *btf = NULL;
	ssize_t n = file_read_all(AT_FDCWD, BTF_FILE, BTF_MAX, &btf);
	int ret;

	if (n < 0)
		return err_why(err, (int)n, "cannot read " BTF_FILE " (CONFIG_DEBUG_INFO_BTF)");
	ret = btf_offsets(btf, (size_t)n, "sk_buff", member, 1, offset);
	return ret ? err_why(err, ret, BTF_FILE " does not tell where a packet's data are") : 0;
}

static int probe_add(struct record *r, const struct place *p, const struct family *f,
		     const char *name, uint32_t offset)
{
	_cleanup_(sbuf_free) struct sbuf args = { 0 };

	sbuf_addf(&args,
		  "skbaddr=$skbaddr:x64 len=$len:u32 data_len=$data_len:u32 "
		  "head=+%u(+%u($skbaddr)):%s",
		  p->before, offset, f->head);
	if (f->filter)
		sbuf_addf(&args, " at=+%u(+%u($skbaddr)):x16", p->before + 6, offset);
	sbuf_addf(&args, " if protocol == %s%s", f->protocol, p->plain);
	return args.error ?: eprobe_add(r->net_id, name, "net", p->event, args.s, r->err);
}

/* offset NULL: they are made, and are to be recorded. */
static int each_probe(struct record *r, const uint32_t *offset)
{
	int ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(places) * ARRAY_SIZE(families) && !ret; i++) {
		const struct place *p = &places[i / ARRAY_SIZE(families)];
		const struct family *f = &families[i % ARRAY_SIZE(families)];
		char name[32];

		if (!(p->sides & r->side) || !kevent_exists(r->t, "net", p->event))
			continue;
		snprintf(name, sizeof(name), "net_%s_%s", f->name, p->name);
		ret = offset ? probe_add(r, p, f, name, *offset)
			     : kevent_list_add(&r->events, kprobes_group(r->net_id), name,
					       f->filter);
	}
	return ret;
}

static int probes_add(struct record *r)
{
	uint32_t offset;
	int ret = eprobes_open(r->t, &r->net_id, r->err);

	ret = ret ?: data_offset(r->err, &offset);
	ret = ret ?: each_probe(r, &offset);
	return ret ?: each_probe(r, NULL);
}

static int net_id_end(struct record *r)
{
	int ret = r->net_id ? kprobes_close(r->net_id) : 0;

	r->net_id = NULL;
	if (ret)
		r->note("cannot remove the probes of net-id: %s (kvmft reset removes them later)",
			strerror(-ret));
	return 0;
}

/* Without them the packets are recorded as with net. */
static int net_id_start(struct record *r)
{
	int ret = r->want_net_id ? probes_add(r) : 0;

	if (!ret || ret == -ENOMEM)
		return ret;
	r->note("net-id: packets are recorded without addresses and ports: %s", r->err->text);
	*r->err = (struct kvmft_err){ .text = "" };
	return net_id_end(r);
}

/* Our group has a process id in its name. */
static int net_id_name(const struct record *r, const struct kevent *e, const char **sys,
		       const char **name, char **format)
{
	(void)name;
	(void)format;
	if (r->net_id && !strcmp(e->sys, kprobes_group(r->net_id)))
		*sys = "kvmft";
	return 0;
}

const struct record_extra record_net_id = {
	.start = net_id_start, .name = net_id_name, .end = net_id_end,
};
