-- Returns the statements that attach.sql would run with the same parameters.
SELECT belfry.attach_sql($1::text::regclass, $2::text, $3::text[], $4::text[], $5::text, $6::text, $7::text[], $8::boolean, $9::text) AS statements
