-- Per operator and dispatch key: the builds of a track in which it is registered, on any machine. $track: the track.
SELECT operator, dispatch_key, list_sort(list(DISTINCT version)) AS versions
FROM kernel
WHERE track = $track
GROUP BY ALL
ORDER BY ALL;
