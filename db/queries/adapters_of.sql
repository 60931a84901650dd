-- The adapters that a machine was last seen to have by a track's builds, unless one of them was missed since.
-- $track, $machine, $kind (of device: the builds of torch have several).
WITH listed AS (
    SELECT CAST(json_extract(measures, '$.adapters') AS VARCHAR) AS adapters, logged_at
    FROM observation
    WHERE track = $track AND machine = $machine AND case_id = 'census/adapters' AND state = 'pass'
        AND json_extract_string(measures, '$.kind') = $kind
    ORDER BY logged_at DESC
    LIMIT 1
)
SELECT adapters, logged_at
FROM listed
WHERE NOT EXISTS (
    FROM observation AS o
    WHERE o.track = $track AND o.machine = $machine
        AND o.reason IN ('adapter-missing', 'no-adapter') AND o.logged_at > listed.logged_at
)
ORDER BY logged_at;
