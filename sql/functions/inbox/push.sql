-- Pushes a message when the calling transaction commits. Returns the transaction id, which is
-- transaction_id or a new one. If the partition has a message with this transaction id, none is added.
-- headers is an object of texts; see check_headers. If the message creates the partition, tenant is its tenant.
CREATE FUNCTION belfry.push(
    queue text, payload json, partition text DEFAULT 'Default', transaction_id text DEFAULT NULL,
    delay interval DEFAULT NULL, trace_id uuid DEFAULT NULL, visible_at timestamptz DEFAULT NULL,
    headers json DEFAULT NULL, tenant text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_at timestamptz := belfry.check_push(queue, delay, visible_at);
    v_id text := coalesce(nullif(transaction_id, ''), belfry.uuid_v7()::text);
BEGIN
    IF payload IS NULL THEN
        RAISE EXCEPTION 'belfry.push: the payload is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'For the JSON value null write ''null''. To make JSON from a row write to_json(row).';
    ELSIF octet_length(partition) > 255 OR partition IN ('.', '..') THEN
        RAISE EXCEPTION 'belfry.push: the name of the partition is %', CASE WHEN partition IN ('.', '..') THEN partition ELSE octet_length(partition) || ' bytes long' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has at most 255 bytes, and is not . or .., because clients remove these from paths.';
    ELSIF char_length(v_id) > 255 THEN
        RAISE EXCEPTION 'belfry.push: the transaction id is % characters long', char_length(v_id)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'At most 255 characters are allowed. Use a hash of the id instead.';
    END IF;
    INSERT INTO belfry.inbox (queue, partition, payload, transaction_id, trace_id, visible_at, headers, tenant)
    VALUES (queue, coalesce(partition, 'Default'), payload, v_id, trace_id, v_at, belfry.check_headers(headers), belfry.check_tenant(tenant));
    RETURN v_id;
END $$;

-- Pushes a jsonb payload; see the first belfry.push.
CREATE FUNCTION belfry.push(
    queue text, payload jsonb, partition text DEFAULT 'Default', transaction_id text DEFAULT NULL,
    delay interval DEFAULT NULL, trace_id uuid DEFAULT NULL, visible_at timestamptz DEFAULT NULL,
    headers jsonb DEFAULT NULL, tenant text DEFAULT NULL
) RETURNS text LANGUAGE sql AS $$
    SELECT belfry.push($1, $2::json, $3, $4, $5, $6, $7, $8::json, $9)
$$;

-- Pushes JSON text. Postgres chooses this function for a quoted payload without a type.
CREATE FUNCTION belfry.push(
    queue text, payload text, partition text DEFAULT 'Default', transaction_id text DEFAULT NULL,
    delay interval DEFAULT NULL, trace_id uuid DEFAULT NULL, visible_at timestamptz DEFAULT NULL,
    headers json DEFAULT NULL, tenant text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_payload json;
BEGIN
    BEGIN
        v_payload := payload::json;
    EXCEPTION WHEN invalid_text_representation THEN
        RAISE EXCEPTION 'belfry.push: the payload is not valid JSON: %', left(payload, 80)
            USING ERRCODE = 'invalid_text_representation',
                  HINT = 'Make a JSON string from a text with to_json(x::text), and an object from a row with to_json(row).';
    END;
    RETURN belfry.push(queue, v_payload, partition, transaction_id, delay, trace_id, visible_at, headers, tenant);
END $$;
