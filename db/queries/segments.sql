-- The files of the journal as far as they were read, with the lines that could not be.
SELECT name, bytes, lines, damaged, unknown FROM segment ORDER BY name;
