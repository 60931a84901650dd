-- What is known of each cell of a track on a machine: its last observation, and how many observations there are
-- in the environment of that one. $track, $machine.
SELECT
    track, version, suite, case_id, adapter, machine, suite_digest, state, reason, environment, attempts, last_at
FROM known_cell
WHERE track = $track AND machine = $machine
ORDER BY version, suite, case_id, adapter, suite_digest;
