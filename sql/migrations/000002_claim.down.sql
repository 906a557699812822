DROP FUNCTION belfry.claim(bigint, bigint, bigint, bigint, uuid);
