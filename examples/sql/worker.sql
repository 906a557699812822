-- A worker in SQL: it counts the orders of each customer. worker.sh runs it in psql, and calls the procedure whenever
-- there may be a message.
\set ON_ERROR_STOP on

CREATE TABLE IF NOT EXISTS customer_orders (customer text PRIMARY KEY, orders bigint NOT NULL);

-- Registers the group in a transaction of its own: it locks the queue until the commit.
SELECT belfry.subscribe('orders', 'counter');

-- Handles all messages that are ready, then asks for a notification. Each pop has a transaction of its own. The pop, the
-- change and the ack commit together, so each order counts once. If a message fails, it and those that follow it in its
-- partition are delivered again after a second. When the retries of the queue are used up, it becomes a dead letter.
CREATE OR REPLACE PROCEDURE count_orders() LANGUAGE plpgsql AS $$
DECLARE
    m record;
    empty boolean;
    failed boolean;
BEGIN
    LOOP
        empty := true;
        failed := false;
        FOR m IN SELECT * FROM belfry.pop('orders', 'counter', 100) ORDER BY seq LOOP
            empty := false;
            CONTINUE WHEN failed;
            BEGIN -- a savepoint
                INSERT INTO customer_orders AS c VALUES (m.payload ->> 'customer', 1)
                ON CONFLICT (customer) DO UPDATE SET orders = c.orders + 1;
                PERFORM belfry.ack(m.lease, ARRAY[m.message_id]);
                RAISE NOTICE 'counted %', m.payload;
            EXCEPTION WHEN OTHERS THEN
                failed := true;
                PERFORM belfry.ack(m.lease, ARRAY[m.message_id], status => 'failed', error => SQLERRM, retry_after => '1 second');
                RAISE NOTICE 'failed %: %', m.payload, SQLERRM;
            END;
        END LOOP;
        IF empty THEN
            PERFORM belfry.await('orders', 'counter');
            RETURN;
        END IF;
        COMMIT;
    END LOOP;
END $$;
