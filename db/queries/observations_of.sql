-- Every observation of a cell, oldest first, with the evidence. $track, $version, $case_id: the cell; $adapter,
-- $machine, $suite_digest: narrower, or NULL for all.
SELECT * FROM observation
WHERE track = $track AND version = $version AND case_id = $case_id
    AND ($adapter IS NULL OR adapter = $adapter) AND ($machine IS NULL OR machine = $machine)
    AND ($suite_digest IS NULL OR suite_digest = $suite_digest)
ORDER BY logged_at, segment, seq;
