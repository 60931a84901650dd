-- The public Python API of a build as it was when imported, by machine. $track, $version: the build.
-- $machine: one, or NULL for all.
SELECT machine, name, signature
FROM api
WHERE track = $track AND version = $version AND ($machine IS NULL OR machine = $machine)
ORDER BY ALL;
