ALTER TABLE belfry.message ALTER COLUMN transaction_id TYPE text;
DROP FUNCTION belfry.append(
    bigint[], bigint[], timestamptz[], bigint[], integer[], integer[], uuid[], text[], text[],
    uuid[], text[], timestamptz[], boolean[], boolean);
