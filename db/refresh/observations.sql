-- Append the observations among the journal lines. A line that lacks what an observation must have is damaged:
-- it is left out here, and counted as the difference.

INSERT INTO observation BY NAME
SELECT
    parse_filename(filename, true) AS segment, seq, "at" AS logged_at, o.run, o.worker,
    o.cell.track, o.cell.version, o.cell.suite, o.cell."case" AS case_id,
    o.cell.adapter, o.cell.machine, o.cell.suite_digest,
    o.environment, o.started, o.seconds, coalesce(o.attempt, 1) AS attempt,
    o.finding.state, coalesce(o.finding.reason, '') AS reason, coalesce(o.finding.message, '') AS message,
    coalesce(o.finding.judge, '') AS judge,
    o.outcome, coalesce(o.measures, '{}') AS measures, coalesce(o.log, '') AS log
FROM (SELECT filename, seq, "at", observation AS o FROM journal_lines)
WHERE seq IS NOT NULL AND "at" IS NOT NULL
    AND o.run IS NOT NULL AND o.worker IS NOT NULL
    AND o.cell.track IS NOT NULL AND o.cell.version IS NOT NULL AND o.cell.suite IS NOT NULL
    AND o.cell."case" IS NOT NULL AND o.cell.adapter IS NOT NULL AND o.cell.machine IS NOT NULL
    AND o.cell.suite_digest IS NOT NULL
    AND o.environment IS NOT NULL AND o.started IS NOT NULL AND o.seconds IS NOT NULL
    AND o.finding.state IS NOT NULL AND o.outcome IS NOT NULL;
