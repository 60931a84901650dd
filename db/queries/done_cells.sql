-- The cells of a machine that have an observation which was not our own fault or stop: no need to run them.
-- $machine: its fingerprint. $track: a track, or NULL for all.
SELECT DISTINCT track, version, suite, case_id, adapter, suite_digest, environment
FROM observation
WHERE machine = $machine AND ($track IS NULL OR track = $track) AND state NOT IN ('infra', 'skipped', 'not-run')
ORDER BY ALL;
