-- A worker in SQL: it counts the orders of each customer. worker.sh runs it in psql, and calls the procedure whenever
-- there may be a message.

CREATE TABLE IF NOT EXISTS customer_orders (customer text PRIMARY KEY, orders bigint NOT NULL);

-- Registers the group in a transaction of its own: it locks the queue until the commit. The queue has to exist.
SELECT belfry.subscribe('orders', 'counter');

-- Handles the messages that are ready, then asks for a notification. The pop, the change and the ack of a message commit
-- together, so each order counts once. A failed message is delivered again after a second, and its partition waits. When
-- the retries of the queue are used up, the message becomes a dead letter.
CREATE OR REPLACE PROCEDURE count_orders() LANGUAGE plpgsql AS $$
DECLARE
    m record;
BEGIN
    LOOP
        SELECT * INTO m FROM belfry.pop('orders', 'counter');
        IF NOT FOUND THEN
            PERFORM belfry.await('orders', 'counter');
            RETURN;
        END IF;
        BEGIN -- a savepoint
            INSERT INTO customer_orders AS c VALUES (m.payload ->> 'customer', 1)
            ON CONFLICT (customer) DO UPDATE SET orders = c.orders + 1;
            PERFORM belfry.ack(m.lease);
            RAISE NOTICE 'counted %', m.payload;
        EXCEPTION WHEN OTHERS THEN
            PERFORM belfry.ack(m.lease, status => 'failed', error => SQLERRM, retry_after => '1 second');
            RAISE NOTICE 'failed %: %', m.payload, SQLERRM;
        END;
        COMMIT;
    END LOOP;
END $$;
