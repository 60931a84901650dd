-- What each case took on a machine, as the median of all times that it came to its end there, whatever the build.
-- $track. $machine.
SELECT case_id, median(seconds) AS seconds
FROM observation
WHERE track = $track AND machine = $machine AND attempt = 1 AND state NOT IN ('skipped', 'infra', 'uninstallable')
GROUP BY case_id
ORDER BY case_id;
