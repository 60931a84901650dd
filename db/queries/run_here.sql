-- The versions of a track that have any result of a machine. $track, $machine.
SELECT DISTINCT version FROM build_state WHERE track = $track AND machine = $machine;
