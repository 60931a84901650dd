-- The verdicts of the operator cases whose operator has a text in its name, of the latest state of the suite on each
-- adapter and machine.
-- $track. $text: a part of the operator's name, in small letters.
WITH found AS (
    SELECT version, case_id, adapter, machine, suite_digest, state, confidence, last_at
    FROM verdict
    WHERE track = $track AND suite = 'operators' AND contains(lower(split_part(case_id, '/', 2)), $text)
),
latest AS (
    SELECT adapter, machine, arg_max(suite_digest, last_at) AS suite_digest FROM found GROUP BY adapter, machine
)
SELECT version, case_id, adapter, machine, state, confidence
FROM found SEMI JOIN latest USING (adapter, machine, suite_digest)
ORDER BY machine, adapter, case_id, version;
