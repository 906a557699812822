-- Gives the role $2 a grant of the kind $1 for the queues $3 and the groups $4, or revokes it if $5 is true.
SELECT belfry.change_grant($1::text, $2::name, $3::text, $4::text, $5::boolean)::text
