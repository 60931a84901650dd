-- What torch itself gave for some cases on the CPU of a machine, by the latest state of the suite: the baseline of the
-- builds that use it.
-- $machine. $versions (of torch), $cases: lists.
SELECT version, case_id, state, reason, message, confidence, observations
FROM verdict
WHERE track = 'torch' AND adapter = 'cpu' AND machine = $machine
    AND list_contains($versions, version) AND list_contains($cases, case_id)
QUALIFY row_number() OVER (PARTITION BY version, case_id ORDER BY last_at DESC, suite_digest DESC) = 1
ORDER BY version, case_id;
