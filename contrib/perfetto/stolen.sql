-- SPDX-License-Identifier: GPL-2.0-or-later
--
-- Time stolen from each task of a guest: it ran on a vCPU whose thread on the host wanted a CPU and
-- had none. Needs sched_switch (and sched_waking or sched_wakeup) of host and guest.

DROP VIEW IF EXISTS kvmft_vcpu_off;
DROP VIEW IF EXISTS kvmft_guest_running;
DROP TABLE IF EXISTS kvmft_stolen;

-- When a vCPU could have run: slices of kvmft's own track of it, "vCPU N, thread TID".
CREATE VIEW kvmft_vcpu_off AS
SELECT
  s.ts,
  s.dur,
  m.id * 65536 + CAST(substr(t.name, 6) AS INT) AS lane
FROM slice AS s
JOIN track AS t ON t.id = s.track_id
JOIN track AS vm ON vm.id = t.parent_id
JOIN machine AS m ON vm.name = 'vCPUs of ' || m.name
WHERE s.name IN ('preempted', 'waiting for a CPU') AND s.dur > 0;

-- Tasks of guests on their CPUs. A CPU's number is taken for the vCPU's, as Linux guests have it
-- where APIC ids have no gaps.
CREATE VIEW kvmft_guest_running AS
SELECT
  sched.ts,
  sched.dur,
  sched.utid,
  m.id * 65536 + cpu.cpu AS lane
FROM sched
JOIN cpu USING (ucpu)
JOIN machine AS m ON m.id = cpu.machine_id
WHERE m.raw_id != 0 AND sched.dur > 0;

CREATE VIRTUAL TABLE kvmft_stolen
USING SPAN_JOIN(kvmft_vcpu_off PARTITIONED lane, kvmft_guest_running PARTITIONED lane);

SELECT
  m.name AS vm,
  thread.tid,
  CASE thread.tid WHEN 0 THEN '<idle>' ELSE thread.name END AS task,
  count() AS times,
  sum(s.dur) AS stolen_ns,
  max(s.dur) AS longest_ns
FROM kvmft_stolen AS s
JOIN thread USING (utid)
JOIN machine AS m ON m.id = thread.machine_id
GROUP BY m.name, thread.tid, task
ORDER BY stolen_ns DESC;
