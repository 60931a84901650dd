-- What a run must know of each cell before it decides what to do: kept here, because going through a million
-- observations each time would take longer than a run that has nothing to do may take.

CREATE TABLE known_cell (
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, suite VARCHAR NOT NULL, case_id VARCHAR NOT NULL,
    adapter VARCHAR NOT NULL, machine VARCHAR NOT NULL, suite_digest VARCHAR NOT NULL,
    state VARCHAR NOT NULL, reason VARCHAR NOT NULL, environment VARCHAR NOT NULL,
    attempts BIGINT NOT NULL, last_at TIMESTAMP NOT NULL
);
