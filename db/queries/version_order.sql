-- The builds of a track, oldest first. $track: the track.
SELECT version FROM version_rank WHERE track = $track ORDER BY rank;
