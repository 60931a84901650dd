-- The kernels that a build registers, by machine. Without any row it was not measured, or registers none: the
-- table census tells. $track, $version: the build. $machine: one, or NULL for all.
SELECT machine, dispatch_key, operator
FROM kernel
WHERE track = $track AND version = $version AND ($machine IS NULL OR machine = $machine)
ORDER BY ALL;
