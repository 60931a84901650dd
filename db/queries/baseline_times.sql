-- The last times of each case that torch itself took on one kind of device of a machine, as a JSON list of seconds.
-- $machine. $kind: cuda or cpu.
SELECT
    case_id, arg_max(version, (logged_at, segment, seq)) AS version,
    arg_max(measures -> '$.timing.each', (logged_at, segment, seq)) AS seconds
FROM observation
WHERE track = 'torch' AND machine = $machine AND state IN ('pass', 'slow', 'fallback')
    AND measures ->> '$.device.kind' = $kind AND json_exists(measures, '$.timing.each')
GROUP BY case_id
ORDER BY case_id;
