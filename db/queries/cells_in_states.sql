-- The cells that have an observation in one of the states. $states: a list of states; which of them need not
-- be run again is decided by who asks. $track, $machine: one, or NULL for all.
SELECT DISTINCT track, version, suite, case_id, adapter, machine, suite_digest
FROM observation
WHERE list_contains($states, state)
    AND ($track IS NULL OR track = $track) AND ($machine IS NULL OR machine = $machine)
ORDER BY ALL;
