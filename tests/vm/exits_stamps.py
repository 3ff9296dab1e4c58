# SPDX-License-Identifier: GPL-2.0-or-later
#
# exits_stamps.py JSON DIR: `kvmft exits --latency --format json` against the events that the kernel recorded beside it
# in the same instance, so with the stamps that its triggers had. Counts are equal, and sums and buckets but for very few:
# if an interrupt makes an event while one is being stamped, that one has the stamp of the event before in the ring, and
# its own for triggers (__rb_reserve_next() and ring_buffer_event_time_stamp() in kernel/trace/ring_buffer.c). DIR:
# raw.CPU, NAME.format; or a file NAME.hist with sums that the kernel made by triggers of the same instance.
import glob
import re
import struct
import sys

from exits_rows import HALT, Rows, of_json, same_counts


def check(one, other):
    """Lists of count, sum, and perhaps buckets, by reason."""
    assert other
    same_counts(one, other)
    all_of = sum(v[0] for v in other.values())
    total = sum(v[1] for v in other.values())
    unlike = [k for k in other if one[k][:2] != other[k][:2]]
    moved = sum(abs(one[k][2].get(b, 0) - other[k][2].get(b, 0))
                for k in other if len(other[k]) > 2 for b in set(one[k][2]) | set(other[k][2])) // 2
    off = sum(abs(one[k][1] - other[k][1]) for k in other)
    print(f"{all_of} in {len(other)} rows: {len(unlike)} rows with another sum, {off} ns of {total}; {moved} in another bucket")
    assert len(unlike) * 3 <= len(other) and off * 500 <= total and moved * 1000 <= all_of, unlike


path, where = sys.argv[1:]
if where.endswith(".hist"):
    told = [(int(n), int(lat)) for n, lat in
            re.findall(r"hitcount: +(\d+) +lat: +(\d+)", open(where, encoding="utf-8").read())]
    have = [tuple(row[:2]) for reason, row in of_json(path).items() if reason[0] != "("]
    # Which number is which reason does not matter.
    check(dict(enumerate(sorted(have))), dict(enumerate(sorted(told))))
    sys.exit(0)


def read_format(name):
    text = open(f"{where}/{name}.format", encoding="utf-8").read()
    fields = {m.group(1): (int(m.group(2)), int(m.group(3)))
              for m in re.finditer(r"(\w+);\s+offset:(\d+);\s+size:(\d+);", text)}
    names = {int(v, 0): n for v, n in re.findall(r'\{ ?(0x[0-9a-f]+|\d+), "(\w+)" \}', text)}
    return int(re.search(r"^ID: (\d+)", text, re.M).group(1)), fields, names


def events(data):
    """(stamp, record) of the sub-buffers of a CPU."""
    for at in range(0, len(data), 4096):
        stamp, commit = struct.unpack_from("<QQ", data, at)
        end, pos = at + 16 + (commit & 0xfffff), at + 16
        assert not commit >> 30 & 3, "events were lost"
        while pos < end:
            head, = struct.unpack_from("<I", data, pos)
            kind, delta = head & 31, head >> 5
            pos += 4
            if kind == 29:
                if not delta:
                    break
                stamp += delta
                pos += struct.unpack_from("<I", data, pos)[0]
            elif kind == 30:
                stamp += (struct.unpack_from("<I", data, pos)[0] << 27) + delta
                pos += 4
            elif kind == 31:
                stamp = (stamp & ~((1 << 59) - 1)) | (struct.unpack_from("<I", data, pos)[0] << 27) + delta
                pos += 4
            else:
                stamp += delta
                size = 4 * kind if kind else struct.unpack_from("<I", data, pos)[0]
                skip = 0 if kind else 4
                yield stamp, data[pos + skip:pos + size]
                pos += size


formats = {name: read_format(name) for name in ("kvm_exit", "kvm_entry", "kvm_vcpu_wakeup", "sched_waking")}
by_id = {f[0]: (name, f[1]) for name, f in formats.items()}
reasons = formats["kvm_exit"][2]
found = []
for raw in glob.glob(f"{where}/raw.*"):
    found += [(t, r) for t, r in events(open(raw, "rb").read()) if struct.unpack_from("<H", r)[0] in by_id]
found.sort(key=lambda x: x[0])


def field(fields, rec, name):
    offset, size = fields[name]
    return int.from_bytes(rec[offset:offset + size], "little")


want = Rows()
for t, rec in found:
    name, fields = by_id[struct.unpack_from("<H", rec)[0]]
    tid = field(fields, rec, "common_pid")
    if name == "kvm_exit":
        reason = field(fields, rec, "exit_reason")
        want.exit(tid, t, reasons.get(reason, hex(reason)))
    elif name == "kvm_entry":
        want.entry(tid, t)
    elif name == "kvm_vcpu_wakeup":
        want.add(HALT, field(fields, rec, "ns"))
    else:
        want.waking(field(fields, rec, "pid"), t)
have = of_json(path)
for reason in sorted(set(have) | set(want)):
    h, w = have.get(reason), want.get(reason)
    print(f"{reason}: {h[0] if h else None} of {w[0] if w else None}, sums {h[1] if h else None} and {w[1] if w else None}")
check(have, want)
