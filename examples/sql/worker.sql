-- A worker in SQL that counts the orders of each customer. worker.sh runs this file in psql. It calls the procedure
-- whenever the queue may have a message.

CREATE TABLE IF NOT EXISTS customer_orders (customer text PRIMARY KEY, orders bigint NOT NULL);

-- Registers the group in a separate transaction, which locks the queue until its commit. The queue must exist.
SELECT belfry.subscribe('orders', 'counter');

-- Handles the messages that are ready, then asks for a notification. The pop, the change and the ack of a message
-- commit together, so each order counts once. A failed message is delivered again after 1 second, and its partition
-- waits. After the last retry of the queue, the message becomes a dead letter.
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
