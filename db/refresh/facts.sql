-- Remake the small tables from the events, wholly: the latest record of each thing counts. They hold what an
-- index, a wheel or a host said, a few thousand rows, so there is no need to do it in steps.

DELETE FROM build_file;
DELETE FROM build;

INSERT INTO build BY NAME
WITH record AS (
    SELECT logged_at, segment, seq,
        from_json(body, '{"track": "VARCHAR", "version": "VARCHAR", "uploaded": "TIMESTAMP", "files": ["JSON"]}') AS b
    FROM event WHERE kind = 'build'
),
latest AS (
    SELECT
        b.track, b.version, b.uploaded, b.files,
        min(logged_at) OVER (PARTITION BY b.track, b.version) AS first_seen,
        logged_at AS changed_at
    FROM record
    WHERE b.track IS NOT NULL AND b.version IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY b.track, b.version ORDER BY logged_at DESC, segment DESC, seq DESC) = 1
)
SELECT
    track, version, uploaded,
    coalesce(len(files), 0) AS files,
    coalesce(len(files), 0) > 0 AND len(list_filter(files, lambda f: f->>'yanked' IS NULL)) = 0 AS yanked,
    CASE WHEN yanked
        THEN coalesce(list_filter(list_transform(files, lambda f: f->>'yanked'), lambda y: y <> '')[1], '')
    END AS yank_reason,
    coalesce(len(files), 0) = 0 AS gone,
    first_seen, changed_at
FROM latest;

INSERT INTO build_file BY NAME
WITH record AS (
    SELECT logged_at, segment, seq,
        from_json(body, '{"track": "VARCHAR", "version": "VARCHAR", "files": [{
            "filename": "VARCHAR", "url": "VARCHAR", "sha256": "VARCHAR", "size": "BIGINT",
            "uploaded": "TIMESTAMP", "requires_python": "VARCHAR", "yanked": "VARCHAR"}]}') AS b
    FROM event WHERE kind = 'build'
),
latest AS (
    SELECT b.track, b.version, b.files
    FROM record
    WHERE b.track IS NOT NULL AND b.version IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY b.track, b.version ORDER BY logged_at DESC, segment DESC, seq DESC) = 1
),
file AS (
    SELECT track, version, generate_subscripts(files, 1) AS position, unnest(files) AS f FROM latest
)
SELECT
    track, version, position, f.filename, f.url, f.sha256, f.size, f.uploaded, f.requires_python, f.yanked,
    rtrim(regexp_replace(
        regexp_extract(f.filename, '-([^-]+)-[^-]+-[^-]+\.whl$', 1), '^(?:cp|py)(\d)(\d*)$', '\1.\2'), '.'
    ) AS python
FROM file
WHERE f.filename IS NOT NULL;

DELETE FROM index_change;
INSERT INTO index_change BY NAME
WITH record AS (
    SELECT *, from_json(body, '{
        "track": "VARCHAR", "version": "VARCHAR", "kind": "VARCHAR", "subject": "VARCHAR"}') AS c
    FROM event WHERE kind = 'index_change'
)
SELECT segment, seq, logged_at, c.track, c.version, c.kind, coalesce(c.subject, '') AS subject
FROM record
WHERE c.track IS NOT NULL AND c.version IS NOT NULL AND c.kind IS NOT NULL;

DELETE FROM poll;
INSERT INTO poll BY NAME
WITH record AS (
    SELECT *, from_json(body, '{
        "track": "VARCHAR", "index": "VARCHAR", "builds": "INTEGER", "changes": "INTEGER",
        "not_modified": "BOOLEAN", "error": "VARCHAR", "warnings": ["VARCHAR"]}') AS p
    FROM event WHERE kind = 'poll'
)
SELECT
    segment, seq, logged_at, p.track, p.index AS index_url, p.builds, p.changes,
    coalesce(p.not_modified, false) AS not_modified, p.error, coalesce(p.warnings, []) AS warnings
FROM record
WHERE p.track IS NOT NULL;

DELETE FROM wheel_operator;
DELETE FROM wheel_api;
DELETE FROM wheel;

CREATE OR REPLACE TEMP TABLE wheel_record AS
WITH record AS (
    SELECT logged_at, segment, seq, from_json(body, '{
        "track": "VARCHAR", "version": "VARCHAR", "filename": "VARCHAR", "sha256": "VARCHAR",
        "platform": "VARCHAR", "python": "VARCHAR", "abi": "VARCHAR", "platform_tags": ["VARCHAR"],
        "size": "BIGINT", "unpacked_size": "BIGINT", "requires": ["VARCHAR"], "requires_python": "VARCHAR",
        "directml_name": "VARCHAR", "directml_version": "VARCHAR", "directml_size": "BIGINT",
        "directml_sha256": "VARCHAR", "native_name": "VARCHAR", "native_size": "BIGINT",
        "native_sha256": "VARCHAR", "top_level": ["VARCHAR"], "directml_build": "VARCHAR", "operators": ["VARCHAR"],
        "api": [{"name": "VARCHAR", "signature": "VARCHAR"}]}') AS w
    FROM event WHERE kind = 'wheel'
)
SELECT w, logged_at
FROM record
WHERE w.track IS NOT NULL AND w.version IS NOT NULL AND w.filename IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY w.track, w.version, w.filename ORDER BY logged_at DESC, segment DESC, seq DESC) = 1;

INSERT INTO wheel BY NAME
SELECT w.* EXCLUDE (operators, api) REPLACE (coalesce(w.directml_build, '') AS directml_build), logged_at
FROM wheel_record;

INSERT INTO wheel_operator BY NAME
SELECT DISTINCT w.track, w.version, w.filename, unnest(w.operators) AS operator FROM wheel_record;

INSERT INTO wheel_api BY NAME
WITH entry AS (SELECT w.track, w.version, w.filename, unnest(w.api) AS e FROM wheel_record)
SELECT DISTINCT track, version, filename, e.name, coalesce(e.signature, '') AS signature
FROM entry
WHERE e.name IS NOT NULL;

DROP TABLE wheel_record;

DELETE FROM environment;
INSERT INTO environment BY NAME
WITH record AS (
    SELECT logged_at, segment, seq, from_json(body, '{
        "recipe": "VARCHAR", "track": "VARCHAR", "version": "VARCHAR", "python": "VARCHAR",
        "requirements": ["VARCHAR"], "freeze": ["VARCHAR"], "hashes": ["VARCHAR"], "ready": "BOOLEAN",
        "reason": "VARCHAR", "message": "VARCHAR", "size": "BIGINT", "seconds": "DOUBLE",
        "wheel": "VARCHAR"}') AS e
    FROM event WHERE kind = 'environment'
)
SELECT
    e.recipe, e.track, e.version, e.python,
    coalesce(e.requirements, []) AS requirements, coalesce(e."freeze", []) AS packages,
    coalesce(e.hashes, []) AS hashes, coalesce(e.ready, false) AS ready,
    coalesce(e.reason, '') AS reason, coalesce(e.message, '') AS message,
    coalesce(e.size, 0) AS size, coalesce(e.seconds, 0) AS seconds,
    coalesce(e.wheel, '') AS wheel, logged_at
FROM record
WHERE e.recipe IS NOT NULL AND e.track IS NOT NULL AND e.version IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY e.track, e.version, e.recipe ORDER BY logged_at DESC, segment DESC, seq DESC) = 1;

DELETE FROM machine;
INSERT INTO machine BY NAME
WITH record AS (
    SELECT logged_at, segment, seq, from_json(body, '{
        "fingerprint": "VARCHAR", "system": "VARCHAR", "release": "VARCHAR", "arch": "VARCHAR",
        "cpu": "VARCHAR", "cores": "INTEGER", "memory": "BIGINT", "directx": "VARCHAR",
        "tracker": "VARCHAR"}') AS m
    FROM event WHERE kind = 'machine'
)
SELECT m.*, logged_at
FROM record
WHERE m.fingerprint IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY m.fingerprint ORDER BY logged_at DESC, segment DESC, seq DESC) = 1;
