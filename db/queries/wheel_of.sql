-- What the wheels of a build say of themselves, with the fields of model.WheelFacts.
-- $track, $version: the build.
SELECT
    w.*,
    coalesce((SELECT list(o.operator ORDER BY o.operator) FROM wheel_operator AS o
        WHERE (o.track, o.version, o.filename) = (w.track, w.version, w.filename)), []) AS operators,
    coalesce((SELECT list({name: a.name, signature: a.signature} ORDER BY a.name, a.signature) FROM wheel_api AS a
        WHERE (a.track, a.version, a.filename) = (w.track, w.version, w.filename)), []) AS api
FROM wheel AS w
WHERE w.track = $track AND w.version = $version
ORDER BY w.filename;
