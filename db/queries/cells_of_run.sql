-- The cells that a run observed, however they ended, with the number of the attempt. $run: its id.
SELECT DISTINCT track, version, suite, case_id, adapter, machine, suite_digest, attempt
FROM observation
WHERE run = $run
ORDER BY ALL;
