/* SPDX-License-Identifier: GPL-2.0-or-later */
/* net_table.c: packets to and from the guest, by the devices at both ends. */
#include "net.h"

/* Stages of packets to the guest, and from it: after the total, in the order of the way. */
enum {
	RX_TOTAL, RX_SEND, RX_FORWARD, RX_QDISC, RX_WAKE, RX_TAKE, RX_NOTIFY, RX_DELIVER,
	RX_NAPI, RX_STACK, RX_RUN, RX_ASK, RX_READ,
	RX_RETURN
};
enum {
	TX_TOTAL, TX_SEND, TX_QDISC, TX_DOORBELL, TX_WAKE, TX_TAKE, TX_STACK, TX_RUN,
	TX_ASK, TX_READ, TX_RETURN,
	TX_FORWARD
};

const struct lat_desc lat_desc_net_rx = {
	.name = "net-rx",
	.kind = LAT_NET,
	.title = "packets to the guest, and where their time went",
	.key = "From, to",
	.stage = { "total", "send", "forward", "qdisc", "wake", "take", "notify", "deliver",
		   "napi", "stack", "run", "ask", "read", "return" },
	.stage_help = {
		"from where the host first had it until a task of the guest, or its kernel, was done with it",
		"in the system call of the host's task that sent it, up to the queue of the tap",
		"from the host's NIC, or another device, to the tap",
		"in the tap's queueing discipline",
		"in the tap, until the thread of vhost or the VMM that takes it had a CPU",
		"until that thread took it",
		"until the interrupt's source",
		"until the interrupt's handler in the guest",
		"until the guest's NAPI had it",
		"in the guest's network stack, up to the wake-up of the task that reads",
		"until that task had a CPU",
		"until its system call to receive, if it came for it later",
		"until it read the packet",
		"until it was back from that call",
	},
	.parts = (1u << (RX_RETURN + 1)) - 2,
	.crosses = 1u << RX_TOTAL | 1u << RX_DELIVER | 1u << RX_NAPI,
	.cause_is_stage = true,
	.cause = (const char *const[LAT_CAUSES]){ "", "host_call: in the host's system call",
		   "host_before_tap: on the host before the tap", "tap_queue: in the tap's queue",
		   "vmm_no_cpu: the VMM's thread had no CPU",
		   "vmm_take: the VMM was late to take it",
		   "vmm_notify: the VMM was late to notify", "interrupt: interrupt delivery",
		   "guest_poll: the guest was late to poll", "guest_stack: in the guest's stack",
		   "task_no_cpu: the guest's task had no CPU",
		   "task_ask: the guest's task was late to ask for it",
		   "task_read: the guest's task was late to read",
		   "task_return: the guest's task was late to return" },
	.count = { "sent", "measured", "not_paired: not paired, as order and number prove nothing",
		   "cut: cut by lost events", "open: open at the end", "dropped" },
};

const struct lat_desc lat_desc_net_tx = {
	.name = "net-tx",
	.kind = LAT_NET,
	.title = "packets from the guest, and where their time went",
	.key = "From, to",
	.stage = { "total", "send", "qdisc", "doorbell", "wake", "take", "stack", "run", "ask",
		   "read", "return", "forward" },
	.stage_help = {
		"from where the guest sent it until a task of the host read it or a device sent it",
		"in the system call of the guest's task that sent it, up to the queue of its device",
		"in the queueing discipline of the guest's device",
		"until the exit of the doorbell's write",
		"until the thread of vhost or the VMM that takes it had a CPU",
		"until that thread handed it to the host",
		"in the host's network stack, up to the wake-up of the task that reads",
		"until that task had a CPU",
		"until its system call to receive, if it came for it later",
		"until it read the packet",
		"until it was back from that call",
		"... or until another device of the host sent it",
	},
	.parts = (1u << (TX_FORWARD + 1)) - 2,
	.crosses = 1u << TX_TOTAL | 1u << TX_DOORBELL | 1u << TX_TAKE,
	.cause_is_stage = true,
	.cause = (const char *const[LAT_CAUSES]){ "", "guest_call: in the guest's system call",
		   "device_queue: in the queue of the guest's device",
		   "guest_before: in the guest before the doorbell",
		   "vmm_no_cpu: the VMM's thread had no CPU",
		   "vmm_take: the VMM was late to take it", "host_stack: in the host's stack",
		   "task_no_cpu: the host's task had no CPU",
		   "task_ask: the host's task was late to ask for it",
		   "task_read: the host's task was late to read",
		   "task_return: the host's task was late to return",
		   "host_after_tap: on the host behind the tap" },
	.count = { "sent", "measured", "not_paired: not paired, as order and number prove nothing",
		   "cut: cut by lost events", "open: open at the end", "dropped" },
};

/* The stage that ends at a point; that of NP_END depends on how it ended. */
static const uint8_t stage_rx[NP_POINTS] = {
	[NP_QUEUE] = RX_FORWARD, [NP_START] = RX_QDISC,	  [NP_RAN] = RX_WAKE,
	[NP_TAKEN] = RX_TAKE,	 [NP_SOURCE] = RX_NOTIFY, [NP_HANDLER] = RX_DELIVER,
	[NP_NAPI] = RX_NAPI,	 [NP_STACK] = RX_STACK,	  [NP_WOKEN] = RX_STACK,
	[NP_RUN] = RX_RUN,	 [NP_ASK] = RX_ASK,	  [NP_END] = RX_READ,
	[NP_BACK] = RX_RETURN,
};
static const uint8_t stage_tx[NP_POINTS] = {
	[NP_START] = TX_QDISC, [NP_BELL] = TX_DOORBELL, [NP_RAN] = TX_WAKE,
	[NP_TAKEN] = TX_TAKE,  [NP_WOKEN] = TX_STACK,	[NP_RUN] = TX_RUN,
	[NP_ASK] = TX_ASK,     [NP_END] = TX_READ,	[NP_BACK] = TX_RETURN,
};

static uint8_t stage_of(bool out, unsigned int point, enum net_end end)
{
	if (point != NP_END || end == NET_READ)
		return out ? stage_tx[point] : stage_rx[point];
	if (!out)
		return RX_STACK;
	return end == NET_FORWARDED ? TX_FORWARD : TX_STACK;
}

/*
 * From point to point. What happened before the point behind it, or after one ahead that every
 * packet passes, was not for this packet: a thread that ran already, a poll that went on.
 */
static void net_stages(struct lat *l, bool out, const struct net_half *s, const struct net_half *g,
		       struct lat_case *k)
{
	uint64_t t[NP_POINTS], last = 0, must = 0;
	uint64_t time[LAT_STAGES] = { 0 };

	for (unsigned int p = 0; p < NP_POINTS; p++)
		t[p] = s->t[p] ? s->t[p] : g->t[p];
	for (unsigned int p = NP_POINTS; p--;) {
		bool always = p == NP_START || p == NP_TAKEN || p == NP_NAPI;

		if (t[p] && always)
			must = t[p];
		else if (must && t[p] > must)
			t[p] = 0;
	}
	for (unsigned int p = 0; p < NP_POINTS; p++) {
		uint8_t stage = p == NP_QUEUE && s->t[NP_CALL] ? (out ? TX_SEND : RX_SEND)
							       : stage_of(out, p, g->end);

		if (!t[p] || t[p] < last)
			continue;
		if (!last)
			k->begin = t[p];
		else
			time[stage] += t[p] - last;
		k->known |= last ? 1u << stage : 0;
		last = t[p];
	}
	k->end = last;
	for (unsigned int i = 1; i < LAT_STAGES; i++)
		k->stage_time[i] = lat_span(l, time[i]);
	k->time = lat_span(l, k->end - k->begin);
	for (unsigned int i = 1; i < LAT_STAGES; i++)
		if (k->stage_time[i] > k->time / 2)
			k->cause = i;
}

static void name_queue(char *buf, size_t size, const struct lat_net *m, const struct net_queue *q)
{
	if (q->number)
		snprintf(buf, size, "%.15s.%u", m->dev[q->dev].name, q->number);
	else
		snprintf(buf, size, "%s", m->dev[q->dev].name);
}

void net_measured(struct lat *l, const struct net_queue *from, const struct net_queue *to,
		  const struct net_half *s, const struct net_half *g)
{
	enum lat_table_id id = from->out ? LAT_T_NET_TX : LAT_T_NET_RX;
	struct lat_case k = {
		.vm = (int64_t)from->vm, .vcpu = from->out ? s->vcpu : g->vcpu,
	};
	struct lat_group *group;
	char a[32], b[32], way[LAT_NAME];

	if (!lat_wanted(l, k.vm, k.vcpu))
		return;
	group = lat_group_get(
		l, id, k.vm,
		(uint64_t)(from - l->net->queue) << 16 | (uint64_t)(to - l->net->queue), &k.group);
	if (!group->name[0] || group->others) {
		name_queue(a, sizeof(a), l->net, from);
		name_queue(b, sizeof(b), l->net, to);
		snprintf(group->name, sizeof(group->name), "%.22s > %.22s%s", a, b,
			 (from->out ? to : from)->vhost ? ", vhost" : "");
	}
	net_stages(l, from->out, s, g, &k);
	snprintf(way, sizeof(way), "%s", group->name);
	if (lat_case_told(l, id, k.time)) {
		const struct tl_source *src = from->out ? tl_source(l->t, 0) : l->guest[k.vm].src;
		size_t n = (size_t)snprintf(k.what, sizeof(k.what), "%.32s, %u bytes", way, s->len);
		char flow[LAT_WHAT / 2 + 16];

		if (g->end == NET_READ)
			n += (size_t)snprintf(k.what + n, sizeof(k.what) - n, ", by %.15s-%d",
					      tl_comm(src, g->tid), g->tid);
		net_flow_name(l->net, s->ident.flow, flow, sizeof(flow));
		if (*flow)
			snprintf(k.what + n, sizeof(k.what) - n, ", %s", flow);
	}
	lat_case_add(l, id, group, &k);
}
