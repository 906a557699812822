-- Reads the text $1. It fails if the encoding of the database lacks one of its characters.
SELECT $1::text IS NOT NULL AS stored
