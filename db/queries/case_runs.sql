-- The runs of some cases on a machine, oldest first. Rounds that only measure speed do not count.
-- $track, $machine. $cases: a list. $versions: a list of builds, or NULL for all. $alone: only of builds with at least
-- so many runs of the case alone in a fresh process, or NULL.
SELECT version, case_id, adapter, suite_digest, environment, attempt, state, reason, logged_at
FROM observation
WHERE track = $track AND machine = $machine AND list_contains($cases, case_id) AND attempt < 100
    AND ($versions IS NULL OR list_contains($versions, version))
QUALIFY $alone IS NULL OR $alone <= count(*) FILTER (WHERE attempt = 2) OVER (
    PARTITION BY version, case_id, adapter, suite_digest)
ORDER BY logged_at, segment, seq;
