-- The place of every version in its track; it grows with the version.
SELECT track, version, rank FROM version_rank;
