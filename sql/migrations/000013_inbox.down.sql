-- Whatever still waits in the inbox, or was rejected, goes with it.
DROP FUNCTION belfry.push_many(text, json[], text[], text[], interval, uuid, timestamptz);
DROP FUNCTION belfry.push(text, text, text, text, interval, uuid, timestamptz);
DROP FUNCTION belfry.push(text, jsonb, text, text, interval, uuid, timestamptz);
DROP FUNCTION belfry.push(text, json, text, text, interval, uuid, timestamptz);
DROP FUNCTION belfry.push_check(text, interval, timestamptz);
DROP FUNCTION belfry.new_id();
DROP FUNCTION belfry.inbox_retry(bigint[]);
DROP FUNCTION belfry.inbox_take(bigint[]);
DROP FUNCTION belfry.wake();
DROP TABLE belfry.inbox_rejected;
DROP TABLE belfry.inbox;
DROP FUNCTION belfry.inbox_notify();
