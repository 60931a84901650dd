-- The cells that a run observed, however they ended. $run: its id.
SELECT DISTINCT track, version, suite, case_id, adapter, machine, suite_digest
FROM observation
WHERE run = $run
ORDER BY ALL;
