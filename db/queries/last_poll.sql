-- The latest poll of each track, and the latest that got a usable answer. $track: a track, or NULL for all.
SELECT
    track,
    max(logged_at) AS polled_at,
    max(logged_at) FILTER (WHERE error IS NULL) AS answered_at,
    arg_max(index_url, (logged_at, segment, seq)) AS index_url,
    arg_max(builds, (logged_at, segment, seq)) AS builds,
    arg_max(changes, (logged_at, segment, seq)) AS changes,
    arg_max(not_modified, (logged_at, segment, seq)) AS not_modified,
    max_by(error, (logged_at, segment, seq)) AS error,
    arg_max(warnings, (logged_at, segment, seq)) AS warnings
FROM poll
WHERE $track IS NULL OR track = $track
GROUP BY track
ORDER BY track;
