-- Say what is known of each cell, and fold its findings into a text for the judge: the ids of the distinct findings,
-- equal ones once per attempt, at the place of the latest, each with how often it was seen and at which attempt:
-- "3x1@2 1x12@1". What a list means is not decided here. Rounds that only measure speed do not count. Only the latest environment of a cell counts: what another wheel or other pins gave is history. An
-- empty environment is none: nothing was run in it.

CREATE OR REPLACE TEMP TABLE grouped AS
SELECT
    track, version, suite, case_id, adapter, machine, suite_digest, environment, state, reason, message,
    attempt, count(*) AS times, max((logged_at, segment, seq)) AS place
FROM observation /* narrow */
WHERE attempt < 100
GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE finding AS
SELECT row_number() OVER () AS id, * FROM (SELECT DISTINCT state, reason, message FROM grouped);

-- One pass over the text of the cells; what follows works on the few things seen of each, oldest first.
CREATE OR REPLACE TEMP TABLE history AS
WITH cell AS (
    SELECT
        track, version, suite, case_id, adapter, machine, suite_digest,
        list_sort(list({place: place, environment: environment, id: id, times: times, attempt: attempt})) AS seen
    FROM grouped JOIN finding USING (state, reason, message)
    GROUP BY ALL
),
ended AS (
    SELECT
        *, seen[-1] AS newest,
        coalesce(list_filter(seen, lambda s: s.environment <> '')[-1].environment, '') AS environment
    FROM cell
)
SELECT
    * EXCLUDE (seen), list_filter(seen, lambda s: s.environment = environment) AS counted,
    list_filter(seen, lambda s: s.environment = newest.environment) AS lately
FROM ended;

INSERT INTO known_cell BY NAME
SELECT
    track, version, suite, case_id, adapter, machine, suite_digest, f.state, f.reason, h.newest.environment,
    CAST(list_sum(list_transform(lately, lambda s: s.times)) AS BIGINT) AS attempts, h.newest.place[1] AS last_at
FROM history AS h JOIN finding AS f ON f.id = h.newest.id;

CREATE OR REPLACE TEMP TABLE folded AS
SELECT
    track, version, suite, case_id, adapter, machine, suite_digest, counted[-1].place[1] AS last_at,
    array_to_string(list_transform(counted, lambda s: concat(s.id, 'x', s.times, '@', s.attempt)), ' ') AS findings
FROM history;

DROP TABLE history;
DROP TABLE grouped;
