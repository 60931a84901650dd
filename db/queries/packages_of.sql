-- What is installed in the latest environment of each of two builds, as 'name==version'.
-- $track, $old, $new.
SELECT version, packages
FROM environment
WHERE track = $track AND version IN ($old, $new) AND ready
QUALIFY row_number() OVER (PARTITION BY version ORDER BY logged_at DESC, recipe DESC) = 1
ORDER BY version;
