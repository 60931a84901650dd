-- The machines that a build of a track has verdicts of. $track, $version.
SELECT DISTINCT machine FROM verdict WHERE track = $track AND version = $version ORDER BY machine;
