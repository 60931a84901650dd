-- Every table is derived from the journal. db/README.md says what each column means.

CREATE TABLE meta (schema_version INTEGER NOT NULL, judge VARCHAR NOT NULL);

CREATE TABLE segment (
    name VARCHAR NOT NULL, bytes BIGINT NOT NULL,
    lines BIGINT NOT NULL, damaged BIGINT NOT NULL, unknown BIGINT NOT NULL
);

CREATE TABLE event (
    segment VARCHAR NOT NULL, seq BIGINT NOT NULL, logged_at TIMESTAMP NOT NULL,
    kind VARCHAR NOT NULL, body JSON NOT NULL
);

CREATE TABLE version_rank (track VARCHAR NOT NULL, version VARCHAR NOT NULL, rank INTEGER NOT NULL);

CREATE TABLE build (
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, uploaded TIMESTAMP,
    files INTEGER NOT NULL, yanked BOOLEAN NOT NULL, yank_reason VARCHAR, gone BOOLEAN NOT NULL,
    first_seen TIMESTAMP NOT NULL, changed_at TIMESTAMP NOT NULL
);

CREATE TABLE build_file (
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, position INTEGER NOT NULL,
    filename VARCHAR NOT NULL, url VARCHAR, sha256 VARCHAR, size BIGINT, uploaded TIMESTAMP,
    requires_python VARCHAR, yanked VARCHAR, python VARCHAR
);

CREATE TABLE index_change (
    segment VARCHAR NOT NULL, seq BIGINT NOT NULL, logged_at TIMESTAMP NOT NULL,
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, kind VARCHAR NOT NULL, subject VARCHAR NOT NULL
);

CREATE TABLE poll (
    segment VARCHAR NOT NULL, seq BIGINT NOT NULL, logged_at TIMESTAMP NOT NULL,
    track VARCHAR NOT NULL, index_url VARCHAR, builds INTEGER, changes INTEGER,
    not_modified BOOLEAN, error VARCHAR, warnings VARCHAR[]
);

CREATE TABLE wheel (
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, filename VARCHAR NOT NULL, sha256 VARCHAR,
    platform VARCHAR, python VARCHAR, abi VARCHAR, platform_tags VARCHAR[],
    size BIGINT, unpacked_size BIGINT, requires VARCHAR[], requires_python VARCHAR,
    directml_name VARCHAR, directml_version VARCHAR, directml_size BIGINT, directml_sha256 VARCHAR,
    native_name VARCHAR, native_size BIGINT, native_sha256 VARCHAR,
    top_level VARCHAR[], directml_build VARCHAR NOT NULL, logged_at TIMESTAMP NOT NULL
);

CREATE TABLE wheel_operator (
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, filename VARCHAR NOT NULL, operator VARCHAR NOT NULL
);

CREATE TABLE wheel_api (
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, filename VARCHAR NOT NULL,
    name VARCHAR NOT NULL, signature VARCHAR NOT NULL
);

CREATE TABLE environment (
    recipe VARCHAR NOT NULL, track VARCHAR NOT NULL, version VARCHAR NOT NULL, python VARCHAR,
    requirements VARCHAR[], packages VARCHAR[], hashes VARCHAR[], ready BOOLEAN NOT NULL,
    reason VARCHAR, message VARCHAR, size BIGINT, seconds DOUBLE, wheel VARCHAR NOT NULL,
    logged_at TIMESTAMP NOT NULL
);

CREATE TABLE machine (
    fingerprint VARCHAR NOT NULL, system VARCHAR, release VARCHAR, arch VARCHAR, cpu VARCHAR,
    cores INTEGER, memory BIGINT, directx VARCHAR, tracker VARCHAR, logged_at TIMESTAMP NOT NULL
);

CREATE TABLE observation (
    segment VARCHAR NOT NULL, seq BIGINT NOT NULL, logged_at TIMESTAMP NOT NULL,
    run VARCHAR NOT NULL, worker VARCHAR NOT NULL,
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, suite VARCHAR NOT NULL, case_id VARCHAR NOT NULL,
    adapter VARCHAR NOT NULL, machine VARCHAR NOT NULL, suite_digest VARCHAR NOT NULL,
    environment VARCHAR NOT NULL, started TIMESTAMP, seconds DOUBLE, attempt INTEGER NOT NULL,
    state VARCHAR NOT NULL, reason VARCHAR NOT NULL, message VARCHAR NOT NULL, judge VARCHAR NOT NULL,
    outcome JSON NOT NULL, measures JSON USING COMPRESSION zstd NOT NULL, log VARCHAR NOT NULL
);

CREATE TABLE verdict (
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, suite VARCHAR NOT NULL, case_id VARCHAR NOT NULL,
    adapter VARCHAR NOT NULL, machine VARCHAR NOT NULL, suite_digest VARCHAR NOT NULL,
    state VARCHAR NOT NULL, reason VARCHAR NOT NULL, message VARCHAR NOT NULL, confidence VARCHAR NOT NULL,
    observations BIGINT NOT NULL, last_at TIMESTAMP NOT NULL
);

-- Counted when the verdicts change, because a listing of builds must not count a million of them each time.
CREATE TABLE build_state (
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, state VARCHAR NOT NULL, cells BIGINT NOT NULL
);

CREATE TABLE census (
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, machine VARCHAR NOT NULL, case_id VARCHAR NOT NULL,
    logged_at TIMESTAMP NOT NULL, absent_keys VARCHAR[]
);

CREATE TABLE kernel (
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, machine VARCHAR NOT NULL,
    dispatch_key VARCHAR NOT NULL, operator VARCHAR NOT NULL
);

CREATE TABLE api (
    track VARCHAR NOT NULL, version VARCHAR NOT NULL, machine VARCHAR NOT NULL,
    name VARCHAR NOT NULL, signature VARCHAR NOT NULL
);
