-- What the results of a machine rested on when that last changed. $machine.
SELECT json_extract(body, '$.facts')::VARCHAR AS facts
FROM event
WHERE kind = 'host_seen' AND json_extract_string(body, '$.machine') = $machine
ORDER BY logged_at DESC, segment DESC, seq DESC
LIMIT 1;
