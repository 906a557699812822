-- Reads the text $1. The statement fails if the encoding of the database does not have a character of the text.
SELECT $1::text IS NOT NULL AS stored
