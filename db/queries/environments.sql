-- Environments as they were last made, or why they were not. $track, $version: one, or NULL for all.
SELECT e.*
FROM environment AS e
LEFT JOIN version_rank AS r USING (track, version)
WHERE ($track IS NULL OR track = $track) AND ($version IS NULL OR version = $version)
ORDER BY track, r.rank, recipe;
