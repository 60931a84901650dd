-- The verdicts of one build, by the latest state of each suite. Worst things are not sorted first: states have
-- their order in model.State. $track, $version: the build. $suite, $machine: one, or NULL for all.
SELECT * FROM verdict
WHERE track = $track AND version = $version
    AND ($suite IS NULL OR suite = $suite) AND ($machine IS NULL OR machine = $machine)
QUALIFY row_number() OVER (
    PARTITION BY suite, case_id, adapter, machine ORDER BY last_at DESC, suite_digest DESC) = 1
ORDER BY suite, case_id, adapter, machine;
