-- The verdicts of two builds on one machine, by the latest state of each suite, without the cells of which both have
-- the same state, confidence and suite files, where that says nothing: $quiet lists these pairs as 'state confidence'.
-- $track, $old, $new: the builds. $machine.
WITH latest AS (
    SELECT * FROM verdict
    WHERE track = $track AND version IN ($old, $new) AND machine = $machine
    QUALIFY row_number() OVER (
        PARTITION BY version, suite, case_id, adapter ORDER BY last_at DESC, suite_digest DESC) = 1
),
alike AS (
    SELECT suite, case_id, adapter FROM latest
    GROUP BY suite, case_id, adapter, suite_digest, state, confidence
    HAVING count(*) = 2 AND list_contains($quiet, concat(state, ' ', confidence))
)
SELECT
    track, version, suite, case_id, adapter, machine, suite_digest,
    state, reason, message, confidence, observations
FROM latest ANTI JOIN alike USING (suite, case_id, adapter)
ORDER BY version, suite, case_id, adapter;
