-- What is known of each cell of a track on a machine: its last observation, and how many observations there are
-- in the environment of that one. $track, $machine.
WITH part AS (
    SELECT
        track, version, suite, case_id, adapter, machine, suite_digest, environment, state, reason,
        count(*) AS times, max(logged_at) AS last_at, max((logged_at, segment, seq)) AS place
    FROM observation
    WHERE track = $track AND machine = $machine
    GROUP BY ALL
),
cell AS (
    -- Grouping twice is twice as fast as numbering a million observations in a window.
    SELECT
        track, version, suite, case_id, adapter, machine, suite_digest,
        arg_max({state: state, reason: reason, environment: environment}, place) AS last,
        list({environment: environment, times: times}) AS counts, max(last_at) AS last_at
    FROM part
    GROUP BY ALL
)
SELECT
    track, version, suite, case_id, adapter, machine, suite_digest, last.state, last.reason, last.environment,
    CAST(list_sum(list_transform(
        list_filter(counts, lambda c: c.environment = last.environment), lambda c: c.times)) AS BIGINT) AS attempts,
    last_at
FROM cell
ORDER BY ALL;
