-- Fold the findings of each cell into a text for the judge: the ids of the distinct findings, equal ones once, at
-- the place of the latest, each with how often it was seen: "3x1 1x12". What a list means is not decided here.
-- Only the latest environment of a cell counts: what another wheel or other pins gave is history. An empty
-- environment is none: nothing was run in it.

CREATE OR REPLACE TEMP TABLE seen AS
WITH grouped AS (
    SELECT
        track, version, suite, case_id, adapter, machine, suite_digest, environment, state, reason, message,
        count(*) AS times, max(logged_at) AS last_at, max((logged_at, segment, seq)) AS place
    FROM observation /* narrow */
    GROUP BY ALL
),
latest AS (
    SELECT
        track, version, suite, case_id, adapter, machine, suite_digest,
        coalesce(arg_max(environment, place) FILTER (WHERE environment <> ''), '') AS environment
    FROM grouped
    GROUP BY ALL
)
SELECT grouped.* EXCLUDE (environment)
FROM grouped
JOIN latest USING (track, version, suite, case_id, adapter, machine, suite_digest, environment);

CREATE OR REPLACE TEMP TABLE finding AS
SELECT row_number() OVER () AS id, * FROM (SELECT DISTINCT state, reason, message FROM seen);

CREATE OR REPLACE TEMP TABLE folded AS
SELECT
    track, version, suite, case_id, adapter, machine, suite_digest, max(last_at) AS last_at,
    string_agg(concat(id, 'x', times), ' ' ORDER BY place) AS findings
FROM seen JOIN finding USING (state, reason, message)
GROUP BY ALL;

DROP TABLE seen;
