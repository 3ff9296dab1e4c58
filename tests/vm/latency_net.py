# SPDX-License-Identifier: GPL-2.0-or-later
#
# Holds what `kvmft latency net --format json --worst 100000` says against what programs of both sides say.
#
#   latency_net.py numbers JSON TABLE SENT RECEIVED OFFSET PERCENT [FLOW]
#
# SENT and RECEIVED are lines of tests/tools/udpnum; OFFSET is what the guest's TSC is ahead of the host's. A packet of
# the result that udpnum read in a call of recv() must begin in the call of send() that had the same number, and have
# that length, once; PERCENT or more of all packets that were sent must be there. Others that begin in a call of send() are
# not of udpnum, though they may be as long. FLOW, a regular expression, must be in each of its packets.
#
#   latency_net.py forwarded JSON TABLE SENT RECEIVED OFFSET PERCENT
#
# The same behind a NIC of the host, where udpnum ran at its other end: the guest's call has the number. The NIC had the
# packets in the order in which they were received, after they were sent there, or before they were received.
#
#   latency_net.py ping JSON TABLE LOG BEGIN END KHZ PERCENT OWN TIMELINE [QDISC_MS]
#
# LOG is ping's; it ran from BEGIN to END (host TSC), its requests are in TABLE. The stages of all requests and answers
# must be PERCENT or more of the sum of what ping shows, without the worst one in 15: between its clock and its system
# calls ping may lose its CPU. What it computes there is its own and no stage: OWN is its log of pings of its own machine,
# TIMELINE has its system calls in host TSC; half of what these pings show beyond the calls is taken off each. Half of the
# packets to the guest took QDISC_MS to QDISC_MS + 50 % in the queue.
#
#   latency_net.py stream JSON TABLE SENT RECEIVED OFFSET KHZ PERCENT TIMELINE
#
# The same of a TCP connection; TIMELINE has net_dev_queue, net_dev_start_xmit and tcp_retransmit_skb of both sides in
# host TSC. The packets that the sender's device was given, one after the other, are the bytes of the connection, but for
# those that were sent again. The call that read first of a packet must have got the first of its bytes.
import bisect
import json
import re
import sys

MASK = (1 << 64) - 1
PING_BYTES = " 98 bytes"
PING_EVERY_MS = 200  # both.sh
UDP_HEADERS = 14 + 20 + 8
TCP_HEADERS = 14 + 20 + 32


def calls(path, off):
    with open(path, encoding="ascii") as f:
        rows = [tuple(map(int, line.split())) for line in f]
    rows = [(before - off & MASK, after - off & MASK, number, size) for number, before, after, size in rows]
    return rows, [r[0] for r in rows]


def at(of, t):
    rows, begins = of
    i = bisect.bisect_right(begins, t) - 1
    return rows[i][2] if i >= 0 and t <= rows[i][1] else None


def numbers(doc, table, sent, received, offset, percent, flow=""):
    to_guest = table == "net-rx"
    sent = calls(sent, 0 if to_guest else int(offset))
    received = calls(received, int(offset) if to_guest else 0)
    lengths = {row[2]: f" {row[3] + UDP_HEADERS} bytes," for row in sent[0]}
    wrong = others = 0
    found = set()
    for case in doc[table]["worst"]:
        number = at(sent, case["begin_host_tsc"])
        end = at(received, case["end_host_tsc"]) if ", by udpnum-" in case["what"] else None
        if end is None:
            others += number is not None
        elif (end == number and number not in found and lengths[number] in case["what"] and
              re.search(flow, case["what"])):
            found.add(number)
        else:
            wrong += 1
    print(f"{len(sent[0])} sent, {len(found)} paired rightly, {wrong} wrongly; {others} others meanwhile")
    assert len(sent[0]) and not wrong, "pairs are wrong"
    assert len(found) * 100 >= len(sent[0]) * int(percent), "too few pairs"


def forwarded(doc, table, sent, received, offset, percent):
    to_guest = table == "net-rx"
    sent = calls(sent, 0 if to_guest else int(offset))
    received = calls(received, int(offset) if to_guest else 0)
    near, far = (received, sent) if to_guest else (sent, received)
    rows = {row[2]: row for row in far[0]}
    found = {}
    wrong = 0
    for case in doc[table]["worst"]:
        guest, nic = case["begin_host_tsc"], case["end_host_tsc"]
        if to_guest:
            guest, nic = nic, guest
        number = at(near, guest)
        if number is None or "forward" not in case["stages_ns"]:
            continue
        if number not in rows:
            continue  # lost behind the NIC
        before, after, _, length = rows[number]
        if f" {length + UDP_HEADERS} bytes" not in case["what"]:
            continue  # another one, while a call waited
        wrong += number in found or not (nic >= before if to_guest else nic <= after)
        found[number] = nic
    order = [found[row[2]] for row in received[0] if row[2] in found]
    wrong += sum(a >= b for a, b in zip(order, order[1:]))
    print(f"{len(sent[0])} sent, {len(found)} paired and seen at the NIC, {wrong} wrongly")
    assert len(sent[0]) and not wrong, "pairs are wrong"
    assert len(found) * 100 >= len(sent[0]) * int(percent), "too few pairs"


# What one side's device was given of a connection: when, first byte (None: a retransmission), length. The device gets
# the bytes in the order of its queue, a large packet perhaps in pieces. A CPU reports a retransmission right after it has
# queued that packet. Packets other than IPv4 are told apart as soon as the device gets them.
def given(timeline, to_guest, begin, end):
    queue, last, packets = [], {}, []  # of queue: its address, bytes that are left, are they new
    place = 0
    with open(timeline, encoding="ascii", errors="replace") as f:
        rows = [re.match(r"(\S+) .*\[(\S+)\]  *(\d+)  (?:net|tcp):(net_dev_queue|net_dev_start_xmit|tcp_retransmit_skb):"
                         r" (?:dev=(\S+) .*skbaddr=(\S+) .*\blen=(\d+)|)", line) for line in f]
    for m in rows:
        if not m or (m[1] == "host") != to_guest or not begin <= int(m[3]) <= end:
            continue
        if m[4] == "tcp_retransmit_skb":
            last[m[2]][2] = False
            continue
        if not m[5].startswith("tap" if to_guest else "e") or int(m[7]) <= TCP_HEADERS:
            continue
        if m[4] == "net_dev_queue":
            last[m[2]] = [m[6], int(m[7]) - TCP_HEADERS, True]
            queue.append(last[m[2]])
        elif "protocol=0x0800 " in m.string:
            packets.append((int(m[3]), int(m[7])))
        else:
            queue.remove(next(q for q in reversed(queue) if q[0] == m[6]))
    places = []
    for time, size in packets:
        places.append((time, place if queue[0][2] else None, size))
        place += size - TCP_HEADERS if queue[0][2] else 0
        queue[0][1] -= size - TCP_HEADERS
        assert queue[0][1] >= 0, "not in the order of the queue"
        if not queue[0][1]:
            queue.pop(0)
    return places, place


def stream(doc, table, sent, received, offset, khz, percent, timeline):
    to_guest = table == "net-rx"
    sent = calls(sent, 0 if to_guest else int(offset))[0]
    received, begins = calls(received, int(offset) if to_guest else 0)
    length = sent[-1][2] + sent[-1][3]
    packets, place = given(timeline, to_guest, sent[0][0], received[-1][1])
    again = sum(p[1] is None for p in packets)
    assert place == length, f"{length} bytes were sent, {place} by the device, and {again} packets again"
    times = [p[0] for p in packets]
    paired = right = wrong = 0
    for case in doc[table]["worst"]:
        stages = case["stages_ns"]
        start = case["begin_host_tsc"] + sum(stages.get(s, 0) for s in ("send", "forward", "qdisc")) * int(khz) // 10**6
        i = bisect.bisect_left(times, start - int(khz) // 10**4)
        if i == len(times) or abs(times[i] - start) > int(khz) // 10**4 or f" {packets[i][2]} bytes" not in case["what"]:
            continue
        paired += 1
        if "read" not in stages or packets[i][1] is None:
            continue
        end = case["end_host_tsc"] - stages.get("return", 0) * int(khz) // 10**6
        call = bisect.bisect_right(begins, end) - 1
        if received[call][2] <= packets[i][1] < received[call][2] + received[call][3]:
            right += 1
        else:
            wrong += 1
    print(f"{length} bytes in {len(packets)} packets up to {max(p[2] for p in packets)}: {paired} paired, "
          f"{right} read by the right call, {wrong} by another one")
    assert not wrong and right, "pairs are wrong"
    assert paired * 100 >= len(packets) * int(percent), "too few pairs"


def trips_of(log):
    with open(log, encoding="ascii") as f:
        return [float(m) for m in re.findall(r"time=([0-9.]+) ms", f.read())]


# What ping needs beyond its system calls, in ms. A raw socket receives the request as well: the answer is the last one.
# At first ping may still have the name of the program that started it.
def ping_own(log, timeline, side, khz):
    trips = trips_of(log)
    lines = []
    with open(timeline, encoding="ascii", errors="replace") as f:
        for line in f:
            m = re.match(r"(\S+) +(.*)-(\d+) +\[\S+\] +(\d+) +syscalls:sys_(enter_sendto|exit_recvfrom): (\S+)", line)
            if m and (m[1] == "host") == (side == "host"):
                lines.append(m)
    tid = next(m[3] for m in lines if m[2] == "busybox")
    spans = []
    for m in lines:
        if m[3] != tid:
            continue
        if m[5] == "enter_sendto":
            spans.append([int(m[4]), None])
        elif spans and int(m[6], 16) < 1 << 63:
            spans[-1][1] = int(m[4])
    assert len(trips) == len(spans), (len(trips), len(spans))
    # One that took longer than from ping to ping was answered after the next one was sent.
    own = sorted(trip - (end - begin) / int(khz) for trip, (begin, end) in zip(trips, spans) if trip < PING_EVERY_MS)
    assert len(own) * 3 >= len(trips), "hardly one was answered before the next one was sent"
    assert own[0] > 0, "less than its system calls"
    return own[len(own) // 2]


def ping(doc, table, log, begin, end, khz, percent, own_log, timeline, qdisc=None):
    def cases(of):
        return sorted((c for c in doc[of]["worst"] if PING_BYTES in c["what"] and
                       int(begin) <= c["begin_host_tsc"] <= int(end)), key=lambda c: c["begin_host_tsc"])

    trips = trips_of(log)
    own = ping_own(own_log, timeline, "host" if table == "net-rx" else "guest", khz)
    requests = cases(table)
    answers = cases("net-tx" if table == "net-rx" else "net-rx")
    assert len(trips) == len(requests), (len(trips), len(requests))
    tolds = []  # share, by ping, in stages
    unread = 0
    # They are answered in their order, on a busy machine after the next ones were sent.
    assert len(answers) == len(requests), (len(answers), len(requests))
    for trip, request, answer in zip(trips, requests, answers):
        assert request["begin_host_tsc"] < answer["begin_host_tsc"], (trip, "answered before it was sent")
        gap = max(0, answer["begin_host_tsc"] - request["end_host_tsc"])
        took = (answer["end_host_tsc"] - request["begin_host_tsc"] - gap) / int(khz)
        assert took < trip + 0.1, "more than ping shows"
        # Who read it is not known where several were read at once: how long that took is in no stage.
        if ", by " in answer["what"]:
            tolds.append((took / trip, trip, took))
        else:
            unread += 1
    assert unread * 4 <= len(trips), (len(trips), unread)
    tolds.sort()
    shown, found = (sum(t[i] for t in tolds) for i in (1, 2))
    print(f"{len(tolds)} pings: {shown:.3f} ms by ping, {found:.3f} ms in stages, {100 * found / shown:.2f} %; "
          f"the worst {100 * tolds[0][0]:.1f} %; {unread} more without a reader")
    # On a busy machine ping loses its CPU between its clock and its calls: a third of them may.
    tolds = tolds[len(tolds) // 3:]
    shown, found = (sum(t[i] for t in tolds) for i in (1, 2))
    rest = shown - own * len(tolds)
    print(f"without the worst third: {100 * found / shown:.2f} %; of what is not ping's own, "
          f"{own * 1000:.1f} us each: {100 * found / rest:.2f} %")
    assert found * 100 >= rest * float(percent), "the stages are not what ping shows"
    assert found <= rest * 1.02, "more than there is"
    if qdisc:
        to_guest = requests if table == "net-rx" else answers
        half = sorted(c["stages_ns"]["qdisc"] for c in to_guest)[len(to_guest) // 2] / 1000000
        print(f"half of them up to {half:.3f} ms in the queue")
        assert float(qdisc) <= half + 1 and half <= float(qdisc) * 1.5, "the queue was slower, or not at all"


with open(sys.argv[2], encoding="utf-8") as json_file:
    document = json.load(json_file)
{"numbers": numbers, "forwarded": forwarded, "ping": ping, "stream": stream}[sys.argv[1]](document, *sys.argv[3:])
