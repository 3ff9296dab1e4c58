-- SPDX-License-Identifier: GPL-2.0-or-later
--
-- Exits of each VM by their reason, in slices of 100 ms: how many, and how long the guest was not
-- in its vCPU because of them.

SELECT
  substr(vm.name, length('vCPUs of ') + 1) AS vm,
  (s.ts - trace_start()) / 100000000 * 100 AS from_ms,
  s.name AS reason,
  count() AS exits,
  sum(max(s.dur, 0)) AS time_ns,
  max(s.dur) AS longest_ns
FROM slice AS s
JOIN track AS t ON t.id = s.track_id
JOIN track AS vm ON vm.id = t.parent_id
WHERE vm.name GLOB 'vCPUs of *' AND t.name GLOB 'vCPU *' AND s.depth = 0 AND s.name != 'guest' AND s.name NOT GLOB '[a-z]*:*' AND s.name NOT GLOB 'EPOCH:*'
  AND s.name NOT IN ('blocked', 'preempted', 'waiting for a CPU') -- out of no guest: before the first entry
GROUP BY vm, from_ms, reason
ORDER BY vm, from_ms, time_ns DESC;
