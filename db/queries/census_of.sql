-- Which census cases have been measured, and the dispatch keys that the build's torch does not have.
-- $track, $version: the build, or NULL for all.
SELECT track, version, machine, case_id, logged_at, absent_keys
FROM census
LEFT JOIN version_rank AS r USING (track, version)
WHERE ($track IS NULL OR track = $track) AND ($version IS NULL OR version = $version)
ORDER BY track, r.rank, machine, case_id;
