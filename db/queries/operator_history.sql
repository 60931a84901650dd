-- Where an operator is registered: one row per build of the track, machine, operator that matches, and dispatch
-- key it is registered for. Oldest build first.
-- registered: true, false (the build was measured, the operator is not there), NULL (never measured).
-- $track: the track. $operator: a name, with or without "aten::", exact or a LIKE pattern.
WITH matching AS (
    SELECT * FROM kernel
    WHERE track = $track AND (operator LIKE $operator OR operator LIKE 'aten::' || $operator)
),
operators AS (SELECT DISTINCT operator FROM matching),
measured AS (SELECT DISTINCT track, version, machine FROM census WHERE case_id = 'census/kernels'),
everywhere AS (
    SELECT b.track, b.version, m.machine, m.machine IS NOT NULL AS measured
    FROM (SELECT track, version FROM version_rank WHERE track = $track) AS b
    LEFT JOIN measured AS m USING (track, version)
)
SELECT
    e.track, e.version, b.uploaded, e.machine, o.operator, k.dispatch_key,
    CASE WHEN e.measured THEN k.dispatch_key IS NOT NULL END AS registered
FROM everywhere AS e
LEFT JOIN operators AS o ON e.measured
LEFT JOIN matching AS k
    ON (k.version, k.machine, k.operator) = (e.version, e.machine, o.operator)
LEFT JOIN build AS b ON (b.track, b.version) = (e.track, e.version)
LEFT JOIN version_rank AS r ON (r.track, r.version) = (e.track, e.version)
ORDER BY r.rank, e.machine, o.operator, k.dispatch_key;
