-- The cases of two builds that sent times on a machine, each with the environment that did so last. $track, $machine.
-- $old, $new: the builds.
SELECT version, suite, case_id, arg_max(environment, (logged_at, segment, seq)) AS environment
FROM observation
WHERE track = $track AND machine = $machine AND version IN ($old, $new)
    AND environment <> '' AND json_exists(measures, '$.timing.each')
GROUP BY ALL
ORDER BY ALL;
