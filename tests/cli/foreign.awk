# SPDX-License-Identifier: GPL-2.0-or-later
#
# foreign.awk: texts for mkcap of a host and its guests that never were, of which nothing is written down but their
# events. Each vCPU thread has a CPU of the host for itself.
#
#	awk -f foreign.awk -v dir=DIR -v seed=N -v vms="NAME:OFFSET:TID,TID[:FROM:TO[:JUMP]] ..." [-v wakes=1]
#		[-v windows=N] [-v regular=1] [-v comm=1] [-v lossy=1] [-v vague=1]
#
# writes DIR/host.txt and DIR/NAME.txt. A VM lives from window FROM to TO; half-way vCPU 0's TSC is moved by JUMP.
# Guest events are in their windows by at least 300 cycles on either side. regular: all windows alike. lossy: for
# 100 windows vCPU 0 moves to and fro between its CPU, whose events are lost, and another one, whose are not. vague:
# TSC is moved when three quarters have passed, and from then on all windows of vCPU 0 are alike.

function rnd(from, to) { return from + int(rand() * (to - from + 1)) }

function host_of(cpu, text) {
	if (cpu >= 0)
		host(cpu " " text)
}

function host(text) { print text >(dir "/host.txt") }

# One window of vCPU v of the VM, which begins at t; where it ends.
function window(name, offset, cpu, v, tid, t,   n, k, at) {
	host_of(cpu, sprintf("%.0f %d kvm_entry vcpu_id=%d", t, tid, v))
	at = t + 300
	n = regular ? 2 : rnd(0, 3)
	for (k = 0; k < n; k++) {
		if (k)
			at += regular ? 3000 : rnd(200, 6000)
		printf "%d %.0f %d irq:softirq_raise vec=%d\n", v, at + offset, 100 + v, k >(dir "/" name ".txt")
	}
	t = at + 300 + (regular ? 0 : rnd(0, 500))
	host_of(cpu, sprintf("%.0f %d kvm_exit exit_reason=12 isa=1", t, tid))
	return t
}

# Where window i of vCPU v is seen: on no CPU if it is lost.
function seen_on(cpu, v, i) {
	if (lossy && !v && i == 200)
		host(cpu " gap 200")
	return !lossy || v || i < 100 || i >= 200 ? cpu : i % 2 ? 15 : -1
}

function vm(spec, cpu,   f, tid, n, v, i, t, offset, from, to) {
	split(spec, f, ":")
	n = split(f[3], tid, ",")
	from = f[4] == "" ? 0 : f[4]
	to = f[5] == "" ? windows : f[5]
	for (v = 0; v < n; v++) {
		offset = f[2]
		t = 20000000000 + from * 40000 + v * 1000
		for (i = from; i < to; i++) {
			if (f[6] != "" && v == 0 && i == int(from + (to - from) * at)) {
				offset += f[6]
				regular = vague
			}
			t = window(f[1], offset, seen_on(cpu + v, v, i), v, tid[v + 1], t)
			if (wakes && n > 1 && i % 5 == 0)
				host(sprintf("%d %.0f %d sched:sched_waking pid=%d", cpu + v, t + 50, tid[v + 1],
					     tid[(v + 1) % n + 1]))
			t += regular ? 30000 : rnd(1, 8) == 1 ? rnd(60000, 300000) : rnd(2000, 15000)
		}
		regular = regular && !vague
	}
	return n
}

BEGIN {
	srand(seed)
	windows = windows ? windows : 400
	at = vague ? 0.75 : 0.5
	count = split(vms, spec, " ")
	cpu = 0
	for (s = 1; s <= count; s++)
		cpu += vm(spec[s], cpu)
}
