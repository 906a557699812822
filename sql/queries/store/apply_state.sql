-- See belfry.apply_state.
SELECT belfry.apply_state($1::uuid, $2::uuid, $3::text[], $4::text[], $5::float8[])
