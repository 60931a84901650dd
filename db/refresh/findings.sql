-- Fold the findings of each cell into a list for the judge: equal ones once, at the place of the latest, with
-- how often they were seen. What a list means is not decided here.

CREATE OR REPLACE TEMP TABLE folded AS
WITH finding AS (
    SELECT
        track, version, suite, case_id, adapter, machine, suite_digest, state, reason, message,
        count(*) AS times, max(logged_at) AS last_at, max((logged_at, segment, seq)) AS place
    FROM observation /* narrow */
    GROUP BY ALL
)
SELECT
    track, version, suite, case_id, adapter, machine, suite_digest, max(last_at) AS last_at,
    to_json(list({state: state, reason: reason, message: message, times: times} ORDER BY place))::VARCHAR AS findings
FROM finding
GROUP BY ALL;
