# SPDX-License-Identifier: GPL-2.0-or-later
#
# Packets of a guest with two queues, as two captures (tests/tools/mkcap.c), and what became of each of them.
#
#   latency_net.py make SEED PACKETS LOSE HOST GUEST TRUTH [busy] [ids] [WHAT=N]...
#   latency_net.py check JSON TRUTH PERCENT
#
# Both ways, in batches, some of which wait until the next round; with few lengths, some as long as a GSO packet may be.
# The guest's GRO merges some of those that it receives. One in LOSE packets is lost on its way (0: none).
# busy: there is always a packet on its way. ids: headers of most packets are recorded. WHAT happens to one in N packets:
# foreign (another one comes from elsewhere, and nothing shows who sent it), again (the guest's device is busy, and is
# given it once more), drop (its device, or the tap, drops it). TRUTH has, for each that arrived, when it began and ended.
# At least PERCENT of all that were sent must be paired, and none with another packet.
import json
import random
import struct
import sys

LENGTHS = (66, 98, 98, 1514, 1514, 65226)
ETH = 14
SOFTIRQ = " common_flags=0x10"


class Maker:
    def __init__(self, seed, lose, ids, rates):
        self.ids, self.rates = ids, rates
        self.number = 0
        self.random = random.Random(seed)
        self.lose = lose
        self.now = 2000
        self.lines = {"h": [], "g": []}
        self.truth = []
        self.sent = 0
        self.free = {"h": list(range(0xa00, 0xa00 + 64)), "g": list(range(0x1a00, 0x1a00 + 64))}

    def event(self, side, cpu, tid, text):
        self.now += self.random.randint(1, 40)
        self.lines[side].append(f"{cpu} {self.now} {tid} {text}")
        return self.now

    # An address, often one that was used a moment ago.
    def address(self, side):
        return self.free[side].pop(self.random.choice((-1, -1, 0)))

    # The header of an IPv4 packet, in hex, of one of three flows: one numbers its packets, one does not, and one (never
    # from elsewhere) uses a few numbers again and again. None: no IPv4 packet.
    def header(self, queue, size, foreign=False):
        flow = self.random.randrange(3 if foreign else 4) if self.ids else 0
        if not flow:
            return None
        self.number += 1
        number = self.number if flow == 1 else 0 if flow == 2 else self.random.randint(1, 40)
        return struct.pack(">BBHHHBBH4s4sHH", 0x45, 0, (size - ETH) & 0xffff, number, 0x4000, 64, 17, 0,
                           bytes((10, 0, queue.number, 1)), bytes((10, 0, queue.number, 2)), 1000 + flow,
                           7000 + queue.out).hex()

    # What a probe adds to the event of that packet.
    def head(self, side, cpu, tid, where, skb, size, header, more=""):
        if header:
            self.event(side, cpu, tid,
                       f"kvmft:net_ip4_{where} skbaddr={skb:#x} len={size} data_len=0 head={header}{more}")

    def lost(self):
        return self.lose and self.random.randrange(self.lose) == 0

    def happens(self, what):
        return what in self.rates and self.random.randrange(self.rates[what]) == 0


# What is on its way through one queue, one way: to the guest, or from it.
class Queue:
    def __init__(self, maker, number, out, busy):
        self.m, self.number, self.out, self.busy = maker, number, out, busy
        self.waiting, self.ring = [], []
        self.late = []  # taken, but not yet in the ring
        self.held = []  # sent by the guest, not yet freed

    def send(self):
        m, n = self.m, self.number
        side, tid, dev = ("g", 70 + n, "eth0") if self.out else ("h", 50 + n, "tap0")
        for _ in range(m.random.choice((1, 1, 2, 3, 8))):
            size, skb = m.random.choice(LENGTHS), m.address(side)
            if m.happens("foreign"):
                self.waiting.append((None, size, None, m.header(self, size, True)))
            header = m.header(self, size)
            begin = m.event(side, n, tid, f"net:net_dev_queue skbaddr={skb:#x} len={size} name={dev}")
            if self.out and m.happens("again"):
                m.event(side, n, tid,
                        f"net:net_dev_start_xmit skbaddr={skb:#x} len={size} queue_mapping={n} name={dev}")
                m.head(side, n, tid, "start", skb, size, header)
                m.event(side, n, tid, f"net:net_dev_xmit skbaddr={skb:#x} len={size} rc=16 name={dev}")
            m.event(side, n, tid,
                    f"net:net_dev_start_xmit skbaddr={skb:#x} len={size} queue_mapping={n} name={dev}")
            m.head(side, n, tid, "start", skb, size, header)
            drop = m.happens("drop")
            if drop:
                m.event(side, n, tid, f"skb:kfree_skb skbaddr={skb:#x}")
                m.free[side].append(skb)
            if self.out:
                m.event(side, n, tid, f"net:net_dev_xmit skbaddr={skb:#x} len={size} rc=0 name={dev}")
            if not drop:
                self.waiting.append((begin, size, skb, header))
            m.sent += 1

    # A thread of vhost's for each queue and way
    def move(self):
        m, tid, cpu = self.m, 111 + 2 * self.number + self.out, self.number
        count = m.random.choice((0, 1, 100, 100))
        if self.busy and self.out:
            count = max(0, min(count, len(self.waiting) - 1))
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        sleeps = self.out or not self.busy  # and what it took is in the ring by then
        if sleeps:
            m.event("h", cpu, 0, f"sched:sched_switch prev_pid=0 prev_state=0 next_pid={tid}")
        self.ring, self.late = self.ring + self.late, []
        for i, (begin, size, skb, header) in enumerate(taken):
            if self.busy and not self.out and i + 1 == len(taken):
                m.event("h", cpu, tid, "kvm_msi_set_irq address=0xfee00000 data=0x41")
            if self.out:
                self.receive_out(begin, size, skb, header, cpu, tid)
                continue
            if skb:
                m.event("h", cpu, tid, f"skb:skb_copy_datagram_iovec skbaddr={skb:#x} len={size}")
                m.event("h", cpu, tid, f"skb:consume_skb skbaddr={skb:#x}")
                m.free["h"].append(skb)
            if not m.lost():
                (self.late if self.busy and i + 1 == len(taken) else self.ring).append((begin, size, header))
        if taken and not self.out and not self.busy:
            m.event("h", cpu, tid, "kvm_msi_set_irq address=0xfee00000 data=0x41")
        if sleeps:
            m.event("h", cpu, tid, f"sched:sched_switch prev_pid={tid} prev_state=1 next_pid=0")

    def receive_out(self, begin, size, skb, header, cpu, tid):
        m = self.m
        if skb:
            self.held.append(skb)
        if m.lost():
            return
        mine = m.address("h")
        m.event("h", cpu, tid, f"net:netif_receive_skb_entry skbaddr={mine:#x} len={size - ETH} "
                f"queue_mapping={self.number + 1} name=tap0")
        m.head("h", cpu, tid, "entry", mine, size - ETH, header)
        m.event("h", cpu, tid, f"net:netif_receive_skb skbaddr={mine:#x} len={size - ETH} name=tap0")
        m.truth.append((begin, m.event("h", cpu, tid, f"skb:consume_skb skbaddr={mine:#x}")))
        m.free["h"].append(mine)

    # The guest's NAPI, or what it frees of what it sent.
    def poll(self):
        m, cpu = self.m, self.number
        m.event("g", cpu, 0, "irq:softirq_entry vec=3" + SOFTIRQ)
        for skb in self.held:
            m.event("g", cpu, 0, f"skb:consume_skb skbaddr={skb:#x}" + SOFTIRQ)
            m.free["g"].append(skb)
        self.held = []
        got, self.ring = self.ring, []
        heads = []
        for begin, size, header in got:
            skb = m.address("g")
            m.event("g", cpu, 0, f"net:napi_gro_receive_entry skbaddr={skb:#x} len={size - ETH} "
                    f"queue_mapping={self.number + 1} name=eth0" + SOFTIRQ)
            m.head("g", cpu, 0, "gro", skb, size - ETH, header, SOFTIRQ)
            if heads and m.random.randrange(3) == 0:
                heads[-1][2] += size - ETH
                m.event("g", cpu, 0, f"skb:consume_skb skbaddr={skb:#x}" + SOFTIRQ)
                m.truth.append((begin, m.now))
                m.free["g"].append(skb)
            else:
                heads.append([begin, skb, size - ETH])
        for begin, skb, size in heads:
            m.event("g", cpu, 0, f"net:netif_receive_skb skbaddr={skb:#x} len={size} name=eth0" + SOFTIRQ)
            m.truth.append((begin, m.event("g", cpu, 0, f"skb:consume_skb skbaddr={skb:#x}" + SOFTIRQ)))
            m.free["g"].append(skb)
        m.event("g", cpu, 0,
                f"napi:napi_poll napi={self.number + 1} work={len(got)} budget=64 dev_name=eth0" + SOFTIRQ)
        m.event("g", cpu, 0, "irq:softirq_exit vec=3" + SOFTIRQ)


def make(seed, packets, lose, host, guest, truth, *options):
    rates = dict(option.split("=") for option in options if "=" in option)
    m = Maker(int(seed), int(lose), "ids" in options, {what: int(n) for what, n in rates.items()})
    queues = [Queue(m, n, out, "busy" in options) for n in (0, 1) for out in (False, True)]
    while m.sent < int(packets):
        for q in queues:
            step = m.random.choice((q.send, q.send, q.move, q.move, q.poll))
            if step != q.send or len(q.waiting) + len(q.ring) + len(q.held) < 12:
                step()
    for _ in range(20):
        for q in queues:
            q.move()
            q.poll()
    end = m.now + 1000
    formats = sys.stdin.read()
    with open(host, "w", encoding="ascii") as f:
        f.write("meta vm id=100-12 pid=100 fd=12 name=one\nmeta task tid=100 tgid=100 comm=qemu\n")
        for n in (0, 1):
            f.write(f"meta vcpu vm=100-12 id={n} tid={101 + 2 * n} offset=0 ratio=0 frac=48\n"
                    f"meta task tid={101 + 2 * n} tgid=100 comm=CPU%20{n}/KVM\n"
                    f"meta task tid={111 + 2 * n} tgid={111 + 2 * n} comm=vhost-100\n"
                    f"meta task tid={112 + 2 * n} tgid={112 + 2 * n} comm=vhost-100\n")
        f.write(formats)
        f.writelines(f"{n} {900 + n} {101 + 2 * n} kvm_entry vcpu_id={n}\n" for n in (0, 1))
        f.writelines(line + "\n" for line in m.lines["h"])
        f.writelines(f"{n} {end + n} {101 + 2 * n} kvm_exit exit_reason=0xc isa=1\n" for n in (0, 1))
    with open(guest, "w", encoding="ascii") as f:
        f.write("meta side name=guest\nmeta cpu n=0 apicid=0\nmeta cpu n=1 apicid=1\n" + formats)
        f.writelines(f"{n} {950 + n} 0 irq:softirq_exit vec=3\n" for n in (0, 1))
        f.writelines(line + "\n" for line in m.lines["g"])
        f.writelines(f"{n} {end - 100 + n} 0 irq:softirq_exit vec=3\n" for n in (0, 1))
    with open(truth, "w", encoding="ascii") as f:
        json.dump({"sent": m.sent, "pairs": [t for t in m.truth if t[0]]}, f)


def check(result, truth, percent):
    with open(result, encoding="utf-8") as f:
        doc = json.load(f)
    with open(truth, encoding="ascii") as f:
        known = json.load(f)
    pairs = dict(known["pairs"])
    found = [(c["begin_host_tsc"], c["end_host_tsc"]) for t in ("net-rx", "net-tx") for c in doc[t]["worst"]]
    wrong = [p for p in found if pairs.get(p[0]) != p[1]]
    print(f"{known['sent']} sent, {len(pairs)} arrived, {len(found)} paired, {len(wrong)} wrongly")
    assert not wrong, wrong[:10]
    assert len({p[0] for p in found}) == len(found), "some twice"
    assert len(found) * 100 >= known["sent"] * int(percent), "too few"


{"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])
