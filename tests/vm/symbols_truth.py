#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
symbols_truth.py: what the addresses in a time line are, by a guest's whole /proc/kallsyms.

  symbols_truth.py check KALLSYMS MERGE.json   each rip of the host's events is called as it should be
  symbols_truth.py count KALLSYMS MERGE.json FUNCTION REASON
                                               exits in it, and those of user space for FUNCTION user
  symbols_truth.py elf KALLSYMS SLIDE OUT      an ELF file of its functions, SLIDE bytes further down

An address without a name is right where no function is near: only the last one before a hole ends where nobody
knows.
"""
import bisect, json, struct, sys


def load(path):
    rows = []
    for line in open(path):
        w = line.split()
        rows.append((int(w[0], 16), w[1], w[2], w[3].strip('[]') if len(w) > 3 else ''))
    rows.sort(key=lambda r: r[0])
    return rows


rows = load(sys.argv[2])
addrs = [r[0] for r in rows]


def at(rip):
    """The symbols that begin last at or before rip."""
    i = bisect.bisect_right(addrs, rip) - 1
    return [r for r in rows[max(0, i - 8):i + 1] if r[0] == addrs[i]] if i >= 0 else []


def events(path):
    for line in open(path):
        e = json.loads(line)
        if e['kind'] == 'event' and e['side'] == 'host' and e['event'].startswith('kvm:'):
            f = e['fields']
            rip = f.get('guest_rip', f.get('rip'))
            rip = int(rip, 16) if rip else None
            if rip is not None and 'nested' not in e['event']:
                yield e, rip


def check(path):
    n = named = user = none = wrong = 0
    for e, rip in events(path):
        n += 1
        got = e.get('rip_symbol', 'missing')
        if rip < 1 << 47:
            want = 'user' if rip >= 1 << 20 else None
            user += got == 'user'
            ok = got == want
        elif got is None:
            none += 1
            ok = not any(s[1] in 'tTwW' and not s[3] for s in at(rip)) or rip - at(rip)[0][0] > 4096
        else:
            named += 1
            ok = got in ['%s+0x%x%s' % (s[2], rip - s[0], ' [%s]' % s[3] if s[3] else '')
                         for s in at(rip) if s[1] in 'tTwW']
        if not ok:
            wrong += 1
            if wrong < 5:
                print('# %x is called %s, near %s' % (rip, got, at(rip)))
    print('rips=%d named=%d user=%d none=%d wrong=%d' % (n, named, user, none, wrong))


def count(path, function, reason):
    n = 0
    for e, rip in events(path):
        if e['event'] != 'kvm:kvm_exit' or e['reason'].lower() != reason:
            continue
        inside = any(s[2] == function for s in at(rip))
        n += rip < 1 << 47 if function == 'user' else inside
    print(n)


def elf(slide, out):
    funcs = [r for r in rows if r[1] in 'tTwW' and not r[3] and r[0] >> 63]
    names, syms = b'\0', struct.pack('<IBBHQQ', 0, 0, 0, 0, 0, 0)
    for r in funcs:
        syms += struct.pack('<IBBHQQ', len(names), 2, 0, 1, r[0] - slide, 0)
        names += r[2].encode() + b'\0'
    sections = b'\0.symtab\0.strtab\0.shstrtab\0'
    at = 64
    head = b'\x7fELF\x02\x01\x01' + bytes(9) + struct.pack(
        '<HHIQQQIHHHHHH', 2, 62, 1, 0, 0, at + len(syms) + len(names) + len(sections), 0, 64, 56, 0, 64, 4, 3)
    sec = lambda name, kind, off, size: struct.pack('<IIQQQQIIQQ', name, kind, 0, 0, off, size, 0, 0, 0, 0)
    with open(out, 'wb') as f:
        f.write(head + syms + names + sections + bytes(64))
        f.write(sec(1, 2, at, len(syms)) + sec(9, 3, at + len(syms), len(names)) +
                sec(17, 3, at + len(syms) + len(names), len(sections)))


if sys.argv[1] == 'check':
    check(sys.argv[3])
elif sys.argv[1] == 'count':
    count(sys.argv[3], sys.argv[4], sys.argv[5])
else:
    elf(int(sys.argv[3], 0), sys.argv[4])
