-- What befell the queue of a machine, oldest first. $machine.
SELECT logged_at, kind, body::VARCHAR AS body
FROM event
WHERE kind IN ('job_queued', 'job_started', 'job_ended', 'queue_paused')
    AND json_extract_string(body, '$.machine') = $machine
ORDER BY logged_at, segment, seq;
