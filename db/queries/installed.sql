-- What each environment of a track was made of, from its record: the recipe, the sha256 of the build's wheel, and
-- the requirements beside the build. $track.
SELECT DISTINCT
    body ->> 'version' AS version, body ->> 'recipe' AS recipe, body ->> 'wheel' AS wheel,
    CAST(body -> 'requirements' AS VARCHAR[]) AS requirements
FROM event
WHERE kind = 'environment' AND body ->> 'track' = $track AND CAST(body ->> 'ready' AS BOOLEAN)
ORDER BY ALL;
