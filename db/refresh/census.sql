-- Remake what the census cases measured, from the latest passing observation per build and machine; only where the
-- table measured names the build and machine.

DELETE FROM kernel WHERE (track, version, machine) IN (SELECT (track, version, machine) FROM measured);
DELETE FROM api WHERE (track, version, machine) IN (SELECT (track, version, machine) FROM measured);
DELETE FROM census WHERE (track, version, machine) IN (SELECT (track, version, machine) FROM measured);

CREATE OR REPLACE TEMP TABLE taken AS
SELECT track, version, machine, case_id, logged_at, measures
FROM observation SEMI JOIN measured USING (track, version, machine)
WHERE suite = 'census' AND case_id IN ('census/kernels', 'census/api') AND state = 'pass'
QUALIFY row_number() OVER (
    PARTITION BY track, version, machine, case_id ORDER BY logged_at DESC, segment DESC, seq DESC) = 1;

INSERT INTO census BY NAME
SELECT
    track, version, machine, case_id, logged_at,
    coalesce(from_json(measures, '{"absent": ["VARCHAR"]}').absent, []) AS absent_keys
FROM taken;

INSERT INTO kernel BY NAME
WITH dispatch AS (
    SELECT track, version, machine,
        unnest(map_entries(TRY_CAST(measures->'keys' AS MAP(VARCHAR, VARCHAR[])))) AS entry
    FROM taken WHERE case_id = 'census/kernels'
),
operator AS (
    SELECT track, version, machine, entry.key AS dispatch_key, unnest(entry.value) AS operator FROM dispatch
)
SELECT DISTINCT * FROM operator WHERE operator IS NOT NULL;

INSERT INTO api BY NAME
WITH entry AS (
    SELECT track, version, machine,
        unnest(from_json(measures, '{"api": [{"name": "VARCHAR", "signature": "VARCHAR"}]}').api) AS e
    FROM taken WHERE case_id = 'census/api'
)
SELECT DISTINCT track, version, machine, e.name, coalesce(e.signature, '') AS signature
FROM entry
WHERE e.name IS NOT NULL;

DROP TABLE taken;
