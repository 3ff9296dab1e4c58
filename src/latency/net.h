/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * net.h: what the files of the network analysis share.
 *
 *   net.c        events of both sides become halves of packets: sent here, received there; and
 *                the tables of those that belong together
 *   net_link.c   which half belongs to which: by order and number, as far as these are proved
 *   net_id.c     what the recorded headers of packets say about that
 */
#pragma once

#include "priv.h"

/* Where a packet was, in the order of its way. Those of the sender come before NP_TAKEN. */
enum net_point {
	NP_CALL,   /* the system call of the task that sends it */
	NP_FIRST,  /* to the guest: the host got it from another device, and passed it on */
	NP_QUEUE,  /* net_dev_queue */
	NP_START,  /* net_dev_start_xmit */
	NP_BELL,   /* from the guest: the exit of the doorbell's write */
	NP_RAN,	   /* the thread that takes it got a CPU */
	NP_TAKEN,  /* to the guest: out of the tap; from the guest: netif_receive_skb of the tap */
	NP_SOURCE, /* to the guest: of the interrupt */
	NP_HANDLER,
	NP_NAPI,
	NP_STACK, /* netif_receive_skb of the guest */
	NP_WOKEN, /* the task that reads it */
	NP_RUN,
	NP_ASK, /* its system call, if it did not sleep in it */
	NP_END,
	NP_BACK, /* from that call */
	NP_POINTS
};

enum net_end { NET_IN_STACK, NET_READ, NET_FORWARDED }; /* how it ended, as far as it was seen */

/* Of its header. */
struct net_ident {
	uint64_t id;   /* packets with different ones are not the same; 0: not known */
	uint32_t flow; /* its number + 1 */
	bool strong;   /* no other packet of the flow has it at that time */
};

/* What one side saw of a packet. */
struct net_half {
	uint64_t t[NP_POINTS]; /* host TSC; 0: not seen */
	uint32_t len;	       /* with the Ethernet header if it was sent, without if received */
	uint32_t vcpu;	       /* of the guest */
	int32_t tid;	       /* received: by which thread; then: who read it */
	enum net_end end;
	bool alone;	  /* proved to have no other half, or not proved which one */
	bool ended, woke; /* woke: the kernel is done with it, but the task that it woke may not
			   * be */
	bool reading;	  /* its reader has it, and is still in the system call */
	bool twin;	  /* sent: another one with that identity is on its way as well */
	bool sure;	  /* sent: its header says which one it is */
	uint8_t unless;	  /* proved, unless NET_LOSS or NET_FOREIGN is shown */
	struct net_ident ident;
	uint64_t chain; /* sent: number + 1 of the next one in its bucket */
};

/* Halves in order; they keep their numbers while others are taken out in front. */
struct net_fifo {
	struct net_half *h;
	size_t cap; /* a power of two */
	uint64_t first, next;
};

#define NET_LOSS      1u
#define NET_FOREIGN   2u
#define NET_PUBLISHED 16
#define NET_LINKS     16
#define NET_LOAD      64

/* What goes through a queue of a device, one way, as one side sees it. */
struct net_queue {
	size_t vm;
	uint32_t dev, number;
	bool out;     /* from the guest */
	bool sent;    /* by this side; otherwise received */
	uint32_t gen; /* changes when the halves are forgotten */
	struct net_fifo q;
	uint32_t link[NET_LINKS], nlink;
	/* of a tap that sends: the thread that takes; what was in the guest's ring by when */
	int32_t taker;
	uint32_t also; /* the next queue (+ 1) of that thread */
	struct {
		uint64_t t, n;
	} published[NET_PUBLISHED];
	uint64_t npublished;
	uint64_t past;	  /* of one that sends: those before are not on their way any more */
	uint64_t cut;	  /* ... were counted as cut by lost events */
	uint32_t load;	  /* buffers of the ring that may be in use, up to NET_LOAD */
	uint64_t rung;	  /* of a guest's that sends: up to this one a doorbell is known */
	bool vhost;	  /* of a tap */
	uint64_t *bucket; /* of one that sends: number + 1 of the last half by its identity */
};

/* Whether, of those not proved yet, the first received is the first sent. */
enum net_start {
	NET_UNKNOWN,
	NET_SUPPOSED, /* ... unless as many were lost as were on their way before */
	NET_FIRM,
	NET_LOST /* not known, until nothing is on its way */
};

/* Two queues that may be the ends of one. */
struct net_link {
	uint32_t sender, receiver;  /* indices of queues */
	uint32_t pair;		    /* of devices */
	uint64_t proven, proven_at; /* of what was sent, and received: up to here it is known */
	uint64_t told, told_at;	    /* ... and was told */
	uint64_t compared;	    /* so many from there on agree, in their order */
	uint64_t trial;		    /* when so many are not proved, their lengths are compared */
	enum net_start start;
	bool broken; /* they are not the same: something was lost, or is from elsewhere */
};

/* By two devices, both ways and in all queues. */
struct net_pair {
	uint64_t wrong; /* how often order and number disagreed */
	/* what was sent before: packets were lost, or came from elsewhere; or both happened */
	uint64_t until[2], both;
};

/* A half, unless its queue forgot it. */
struct net_ref {
	uint32_t queue, gen; /* queue: index + 1; 0: none */
	uint64_t n;
};

enum net_skb_state { SKB_NONE, SKB_QUEUED, SKB_SENT, SKB_IN };

/* A packet of one kernel, by its address there. */
struct net_skb {
	enum net_skb_state state;
	bool stacked; /* SKB_IN: netif_receive_skb was seen */
	bool up;      /* ... of another device before this one */
	uint32_t dev, gen, len, cpu, queue;
	int32_t context; /* the thread that received it; -1: an interrupt */
	uint64_t first;	 /* received; once sent: from another device, or 0 */
	uint64_t queued, start, epoch;
	uint64_t call; /* in which it is sent, or 0 */
	struct net_ref ref;
	struct net_ident ident;
};

struct net_dev {
	char name[16];
	size_t side;
	size_t vm;  /* + 1: of its first queue */
	bool end;   /* of a way: a tap, or a device of a guest that is polled */
	bool early; /* its packets are seen before netif_receive_skb */
};

#define NET_CPUS 64
#define NET_RAW	 4

struct net_task {
	uint64_t woken, ran;
	uint64_t call;	      /* a system call to send or to receive, that goes on */
	bool sends, sent;     /* in this call */
	struct net_ref reads; /* the last one in this call */
	uint32_t fd, len;     /* of the call */
	struct net_ref by;    /* woken while the kernel handled it, or awake and to read it */
	uint32_t by_len;
	bool by_woken;
	/* a raw socket of IPv4 (fd + 1), length of its answers, how many since it was empty */
	uint32_t raw, expect, came;
	uint32_t takes; /* the first queue (+ 1) of a tap that it takes from; VMM or vhost */
	uint32_t gen;
};

/* On a CPU: the last packet that was sent or received, or whose header came before it. */
struct net_told {
	uint64_t address;
	uint32_t cpu, len;
	bool seen;
	struct net_ident ident;
};

/* One kernel: the host, or a guest. */
struct net_side {
	struct u64map at; /* address → index of skb */
	struct net_skb *skb;
	size_t cap;
	uint32_t gen;	 /* after a gap nothing is known of any */
	uint32_t nqueue; /* of a guest's VM: queues */
	uint32_t dev;	 /* the last one named */
	struct u64map task_at;
	struct net_task *task;
	size_t task_cap;
	int32_t raw[NET_RAW]; /* tasks that sent by raw sockets last */
	uint32_t nraw;
	/* by the CPU's low bits: what its kernel received last, and is busy with */
	struct net_busy {
		struct net_ref ref;
		uint32_t cpu, len;
		int32_t context;
		bool several; /* at once: not known which one */
	} busy[NET_CPUS];
	struct net_told told[NET_CPUS];
};

/* What a vCPU's NAPI does. */
struct net_vcpu {
	uint64_t begin;		  /* no later than the poll that goes on */
	uint64_t source, handler; /* of the interrupt that asked for it */
	uint32_t polled, queue;	  /* received in this poll, by which queue (+ 1) */
	struct net_ref sends;	  /* net_dev_start_xmit goes on */
	uint32_t gen;		  /* of the host and its VM together */
};

struct net_flow;

struct lat_net {
	struct net_side *side; /* 0: the host; 1 + VM */
	struct hash_key key;
	struct u64map dev_at;
	struct net_dev *dev;
	size_t dev_cap;
	struct u64map queue_at;
	struct net_queue *queue;
	size_t queue_cap;
	struct net_link *link;
	size_t nlink, link_cap;
	struct u64map pair_at;
	struct net_pair *pair;
	size_t pair_cap;
	uint64_t doubt; /* cycles that a loss, or one from elsewhere, is reckoned with */
	struct u64map vcpu_at;
	struct net_vcpu *vcpu;
	size_t vcpu_cap;
	struct u64map flow_at;
	struct net_flow *flow;
	size_t flow_cap;
	uint64_t epoch[NET_CPUS]; /* polls of the host's CPUs, by their low bits */
	uint64_t sent[2], measured[2], cut[2], open[2], dropped[2]; /* [1]: from the guest */
};

enum { NET_SENT, NET_MEASURED, NET_UNPAIRED, NET_CUT, NET_OPEN, NET_DROPPED };

static inline struct net_half *net_fifo_at(const struct net_fifo *f, uint64_t n)
{
	return &f->h[n & (f->cap - 1)];
}

/* Which of the kernels: the host, or 1 + VM. */
static inline size_t net_side_of(const struct lat_in *in)
{
	return in->i->src->guest ? (size_t)in->i->vm + 1 : 0;
}

/* The thread that made the event; -1: an interrupt did. */
static inline int32_t net_context(const struct lat_in *in)
{
	return lat_in_interrupt(in) ? -1 : in->i->tid;
}

/* net_link.c */
/* A device's queue of that VM, made if new; NULL if it has too many: its packets have no pairs. */
struct net_queue *net_queue_get(struct lat *l, size_t vm, uint32_t dev, uint32_t number, bool out,
				bool sent);
/* The device may be an end of the way: its packets may be those of other devices. */
void net_dev_ends(struct lat *l, uint32_t dev);
/* Adds a half. *ref names it. */
void net_add(struct lat *l, struct net_queue *q, const struct net_half *h, struct net_ref *ref);
/* NULL: it was forgotten. */
struct net_half *net_half_of(const struct lat *l, const struct net_ref *ref);
/* Those that the queue sent up to number n have arrived by now. */
void net_arrived(struct lat *l, struct net_queue *q, uint64_t n);
void net_identified(struct lat *l, const struct net_ref *ref); /* the identity of a half is known */
void net_unsent(struct lat *l, const struct net_ref *ref); /* it was not sent, after all */
/* A packet that dev was to send was dropped. */
void net_dropped(struct lat *l, uint32_t dev, bool out);
/* A received one ended: what is proved may be shown. */
void net_tell(struct lat *l, struct net_queue *q);
/* Events of a VM were lost; vm -1: of all. */
void net_cut(struct lat *l, int64_t vm);
void net_finish(struct lat *l);
void net_links_free(struct lat_net *m);

/* net_id.c */
/* A header was recorded; k: the packet at that address, or NULL. */
void net_id_event(struct lat *l, struct net_skb *k, const struct lat_in *in);
/* A packet was sent or received where such a probe may be. */
void net_id_seen(struct lat *l, struct net_skb *k, const struct lat_in *in);
/* "udp 10.0.0.1:7000 > 10.0.0.2:7000"; empty for flow 0. */
void net_flow_name(const struct lat_net *m, uint32_t flow, char *buf, size_t size);
/* Adds number n of a queue that sends to the index of identities; takes it back. */
void net_index_add(struct net_queue *q, uint64_t n);
void net_index_drop(struct net_queue *q, uint64_t n);
/* The last one with that identity, and its number; NULL: none. */
struct net_half *net_index_find(struct net_queue *q, uint64_t id, uint64_t *n);

/* net.c */
void net_measured(struct lat *l, const struct net_queue *from, const struct net_queue *to,
		  const struct net_half *s, const struct net_half *g);
