-- SPDX-License-Identifier: GPL-2.0-or-later
--
-- How long interrupts took from the host to the guest's handler: kvmft's arrows lead from where the
-- vCPU's APIC accepts one, or KVM injects it, to the handler's slice.

WITH
  arrow AS (
    SELECT
      root.ts AS accepted,
      handler.ts AS handled,
      handler.name,
      cpu.name AS cpu,
      guest.name AS guest
    FROM slice AS handler
    JOIN track AS cpu ON cpu.id = handler.track_id
    JOIN track AS guest ON guest.id = cpu.parent_id
    JOIN (
      SELECT f.slice_in AS handler_id, min(root.id) AS root_id
      FROM flow AS f, preceding_flow(f.slice_in) AS p
      JOIN slice AS root ON root.id = p.slice_out
      GROUP BY f.slice_in
    ) AS way ON way.handler_id = handler.id
    JOIN slice AS root ON root.id = way.root_id
    WHERE guest.name GLOB 'guest *'
  )
SELECT
  substr(guest, length('guest ') + 1) AS vm,
  name AS interrupt,
  count() AS n,
  min(handled - accepted) AS min_ns,
  CAST(avg(handled - accepted) AS INT) AS avg_ns,
  max(handled - accepted) AS max_ns
FROM arrow
GROUP BY vm, interrupt
ORDER BY max_ns DESC;
