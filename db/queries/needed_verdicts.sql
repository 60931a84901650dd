-- The verdicts of all builds of a track on a machine, of the suites, operators and cases that a person needs, by the
-- latest state of each part of the suites.
-- $track, $machine. $suites, $operators (names as in operators/<name>/...), $cases: lists.
WITH wanted AS (
    SELECT version, suite, case_id, adapter, suite_digest, state, last_at FROM verdict
    WHERE track = $track AND machine = $machine AND (
        list_contains($suites, suite) OR list_contains($cases, case_id)
        OR (suite = 'operators' AND list_contains($operators, split_part(case_id, '/', 2))))
),
latest AS (
    SELECT case_id, adapter, arg_max(suite_digest, last_at) AS suite_digest FROM wanted GROUP BY case_id, adapter
)
SELECT version, suite, case_id, adapter, state
FROM wanted SEMI JOIN latest USING (case_id, adapter, suite_digest)
ORDER BY case_id, adapter, version;
