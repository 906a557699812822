-- Creates or replaces the schedule $1; see belfry.schedule. $5, $10 and $13 are microseconds.
SELECT belfry.schedule($1::text, $2::text, $3::text::json, $4::text, $5::bigint * interval '1 microsecond', $6::timestamptz, $7::text,
                       $8::text, $9::text::json, $10::bigint * interval '1 microsecond', $11::timestamptz, $12::timestamptz,
                       $13::bigint * interval '1 microsecond', $14::text, $15::text)
