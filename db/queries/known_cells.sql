-- What is known of each cell of a track on a machine: its last observation, and how many observations there are
-- in the environment of that one. $track, $machine.
WITH seen AS (
    SELECT
        track, version, suite, case_id, adapter, machine, suite_digest,
        state, reason, environment, logged_at,
        first_value(environment) OVER latest AS last_environment,
        row_number() OVER latest AS place
    FROM observation
    WHERE track = $track AND machine = $machine
    WINDOW latest AS (
        PARTITION BY version, suite, case_id, adapter, suite_digest ORDER BY logged_at DESC, segment DESC, seq DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
)
SELECT
    track, version, suite, case_id, adapter, machine, suite_digest,
    any_value(state) FILTER (WHERE place = 1) AS state,
    any_value(reason) FILTER (WHERE place = 1) AS reason,
    any_value(environment) FILTER (WHERE place = 1) AS environment,
    count(*) FILTER (WHERE environment = last_environment) AS attempts,
    max(logged_at) AS last_at
FROM seen
GROUP BY ALL
ORDER BY ALL;
