-- How often a machine went down while a case was in flight, per cell. $track, $machine.
WITH attempt AS (
    -- The arrow binds weaker than a comparison, hence the functions.
    SELECT
        json_extract(body, '$.cell') AS cell, json_extract_string(body, '$.host_died') AS host_died,
        json_extract_string(body, '$.run') AS run, json_extract_string(body, '$.worker') AS worker
    FROM event WHERE kind = 'attempt'
)
SELECT
    json_extract_string(cell, '$.track') AS track, json_extract_string(cell, '$.version') AS version,
    json_extract_string(cell, '$.suite') AS suite, json_extract_string(cell, '$.case') AS case_id,
    json_extract_string(cell, '$.adapter') AS adapter, json_extract_string(cell, '$.machine') AS machine,
    json_extract_string(cell, '$.suite_digest') AS suite_digest, count(DISTINCT (run, worker)) AS deaths
FROM attempt
WHERE host_died = 'true'
    AND json_extract_string(cell, '$.track') = $track AND json_extract_string(cell, '$.machine') = $machine
GROUP BY ALL
ORDER BY ALL;
