-- The changes that were recorded after the last poll that ended with an answer: those of one that was killed.
-- $track: a track, or NULL for all.
WITH finished AS (
    SELECT track, max(logged_at) AS logged_at FROM poll WHERE error IS NULL GROUP BY track
)
SELECT c.track, c.version, c.kind, c.subject
FROM index_change AS c
LEFT JOIN finished AS f USING (track)
WHERE ($track IS NULL OR c.track = $track) AND (f.logged_at IS NULL OR c.logged_at > f.logged_at)
ORDER BY c.track, c.logged_at, c.segment, c.seq;
