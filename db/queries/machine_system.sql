-- The operating system of a machine. $machine.
SELECT system FROM machine WHERE fingerprint = $machine ORDER BY system;
