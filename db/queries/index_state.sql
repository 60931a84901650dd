-- The latest record of each build, one row per file (one without a file for a build that is gone): enough to
-- make model.Build again. $track: a track, or NULL for all.
SELECT
    b.track, b.version, b.uploaded,
    f.filename, f.url, f.sha256, f.size, f.uploaded AS file_uploaded, f.requires_python, f.yanked
FROM build AS b
LEFT JOIN version_rank AS r USING (track, version)
LEFT JOIN build_file AS f USING (track, version)
WHERE $track IS NULL OR b.track = $track
ORDER BY b.track, r.rank, f.position;
