-- Every observation of the cases whose id contains a text, oldest build first. $track: the track. $text: part of
-- a case id. $version: one build, or NULL for all. outcome has every field of model.Outcome, as the journal leaves
-- out those that have their default.
SELECT
    o.version, o.case_id, o.adapter, o.machine, o.suite_digest, o.environment, o.run, o.attempt, o.started, o.seconds,
    o.state, o.reason, o.message,
    json_merge_patch(
        '{"ending": "", "exit_code": null, "error_type": "", "error_message": "", "traceback": "",
          "oom_killed": false, "warnings": []}', o.outcome) AS outcome,
    o.log, v.state AS verdict, v.confidence
FROM observation AS o
LEFT JOIN verdict AS v USING (track, version, suite, case_id, adapter, machine, suite_digest)
LEFT JOIN version_rank AS r ON (r.track, r.version) = (o.track, o.version)
WHERE o.track = $track AND contains(o.case_id, $text) AND ($version IS NULL OR o.version = $version)
ORDER BY r.rank, o.case_id, o.adapter, o.logged_at, o.segment, o.seq;
