-- What was observed of a case at each build, in each lane that results may be compared in: the verdict, and how often
-- each state came out, first and last. Rounds that only measure speed do not count.
-- $track, $case: a whole id.
WITH counted AS (
    SELECT version, adapter, machine, suite_digest, state, count(*) AS times, min(logged_at) AS first_at
    FROM observation
    WHERE track = $track AND case_id = $case AND attempt < 100
    GROUP BY ALL
),
folded AS (
    SELECT
        version, adapter, machine, suite_digest, min(first_at) AS first_at,
        map_from_entries(list((state, times) ORDER BY state)) AS states
    FROM counted
    GROUP BY ALL
)
SELECT
    version, adapter, machine, suite_digest, v.state, v.reason, v.message, v.confidence,
    f.states, f.first_at, v.last_at
FROM verdict AS v JOIN folded AS f USING (version, adapter, machine, suite_digest)
WHERE v.track = $track AND v.case_id = $case
ORDER BY machine, adapter, suite_digest, v.last_at, version;
