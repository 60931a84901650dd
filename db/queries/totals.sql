-- How much is on record, over all tracks.
SELECT (SELECT count(*) FROM observation) AS observations, (SELECT count(*) FROM build) AS builds;
