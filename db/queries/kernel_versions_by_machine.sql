-- Per operator, dispatch key and machine: the builds of a track in which it is registered there, so that a kernel
-- of another platform counts as native nowhere else. $track: the track. $machine: one, or NULL for all.
SELECT operator, dispatch_key, machine, list_sort(list(version)) AS versions
FROM kernel
WHERE track = $track AND ($machine IS NULL OR machine = $machine)
GROUP BY ALL
ORDER BY ALL;
