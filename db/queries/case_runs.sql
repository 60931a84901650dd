-- The runs of some cases on a machine, oldest first. Rounds that only measure speed do not count.
-- $track, $machine. $cases: a list. $versions: a list of builds, or NULL for all.
SELECT version, case_id, adapter, suite_digest, environment, attempt, state, reason, logged_at
FROM observation
WHERE track = $track AND machine = $machine AND list_contains($cases, case_id) AND attempt < 100
    AND ($versions IS NULL OR list_contains($versions, version))
ORDER BY logged_at, segment, seq;
