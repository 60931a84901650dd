-- One row per build, oldest first: what the index says, what its wheels say, what was measured.
-- kernels: how many the build itself registers on $machine, or where that one has no census of it (or is NULL), on
-- the first machine that has, and kernels_from which machine that is. verdicts: of every machine but the reference.
-- $track: a track, or NULL for all. $hidden: machines whose census does not count.
WITH wheels AS (
    -- All wheels of a platform hold the same libraries; the last one read speaks for them.
    SELECT * FROM wheel
    QUALIFY row_number() OVER (PARTITION BY track, version, platform ORDER BY logged_at DESC, filename DESC) = 1
),
pythons AS (
    SELECT track, version, list_sort(list(DISTINCT python)) AS pythons
    FROM build_file WHERE python <> '' GROUP BY ALL
),
states AS (
    SELECT track, version, map_from_entries(list((state, cells) ORDER BY state)) AS verdicts
    FROM (
        SELECT track, version, state, CAST(sum(cells) AS BIGINT) AS cells
        FROM build_state WHERE machine <> 'reference' GROUP BY ALL)
    GROUP BY ALL
),
measured AS (
    SELECT track, version, coalesce(any_value(machine) FILTER (WHERE machine = $machine), min(machine)) AS machine
    FROM census
    WHERE case_id = 'census/kernels' AND NOT coalesce(list_contains($hidden, machine), false)
    GROUP BY ALL
),
kernels AS (
    -- The device's own keys only: autograd and autocast registrations are not computations of their own.
    SELECT c.track, c.version, any_value(c.machine) AS kernels_from, count(DISTINCT k.operator) AS kernels
    FROM measured AS c
    LEFT JOIN kernel AS k
        ON (k.track, k.version, k.machine) = (c.track, c.version, c.machine)
        AND NOT starts_with(k.dispatch_key, 'Auto')
    GROUP BY ALL
)
SELECT
    b.track, b.version, b.uploaded, b.yanked, b.yank_reason, b.gone, b.files,
    coalesce(list_transform(
        list_sort(list_transform(
            list_filter(p.pythons, lambda v: regexp_full_match(v, '\d{1,3}(\.\d{1,3})*')),
            lambda v: list_transform(string_split(v, '.'), lambda n: CAST(n AS INTEGER)))),
        lambda v: array_to_string(v, '.')), []) AS pythons,
    coalesce(win.requires, linux.requires, other.requires) AS requires,
    win.requires AS win_requires, linux.requires AS linux_requires,
    win.directml_version AS win_directml_version, win.directml_size AS win_directml_size,
    linux.directml_version AS linux_directml_version, linux.directml_size AS linux_directml_size,
    k.kernels, k.kernels_from,
    coalesce(s.verdicts, MAP {}) AS verdicts
FROM build AS b
LEFT JOIN version_rank AS r USING (track, version)
LEFT JOIN pythons AS p USING (track, version)
LEFT JOIN kernels AS k USING (track, version)
LEFT JOIN states AS s USING (track, version)
LEFT JOIN (FROM wheels WHERE platform = 'win') AS win USING (track, version)
LEFT JOIN (FROM wheels WHERE platform = 'linux') AS linux USING (track, version)
LEFT JOIN (FROM wheels WHERE platform = 'any') AS other USING (track, version)
WHERE $track IS NULL OR b.track = $track
ORDER BY b.track, r.rank;
