-- When the index last changed the record of each build of a track. $track.
SELECT version, changed_at FROM build WHERE track = $track ORDER BY version;
