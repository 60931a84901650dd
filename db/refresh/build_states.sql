-- Count again the cells of each build in each state, per machine; only of builds that the table changed names.

DELETE FROM build_state WHERE (track, version) IN (SELECT (track, version) FROM changed);

INSERT INTO build_state BY NAME
WITH latest AS (
    SELECT track, version, machine, state FROM verdict SEMI JOIN changed USING (track, version)
    QUALIFY row_number() OVER (
        PARTITION BY track, version, suite, case_id, adapter, machine ORDER BY last_at DESC, suite_digest DESC) = 1
)
SELECT track, version, machine, state, count(*) AS cells FROM latest GROUP BY ALL;
