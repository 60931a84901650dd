-- The state of every cell of a track that has a verdict on a machine. $track, $machine.
SELECT track, version, suite, case_id, adapter, machine, suite_digest, state
FROM verdict
WHERE track = $track AND machine = $machine
ORDER BY version, suite, case_id, adapter, suite_digest;
