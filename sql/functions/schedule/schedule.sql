-- Creates a schedule, or replaces the schedule of this name, when the calling transaction commits. It
-- pushes the payload to the queue at each instant of cron, of every, or once at an instant. Returns
-- whether the schedule is new. The role needs the right to push to the queue.
--
-- In texts of payload and headers, {{schedule}} is the name and {{scheduled_at}} the instant. A
-- schedule that is replaced stays paused if it was paused. If its instants are the same as before, no
-- instant is lost or repeated.
CREATE FUNCTION belfry.schedule(
    name text, queue text, payload json, cron text DEFAULT NULL, every interval DEFAULT NULL, at timestamptz DEFAULT NULL,
    zone text DEFAULT 'UTC', partition text DEFAULT 'Default', headers json DEFAULT NULL, delay interval DEFAULT NULL,
    starts timestamptz DEFAULT NULL, ends timestamptz DEFAULT NULL, jitter interval DEFAULT NULL,
    missed text DEFAULT 'one', overlap_group text DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    v_old belfry.schedule;
    v_new belfry.schedule;
    v_now timestamptz;
BEGIN
    PERFORM belfry.check_schedule(name, partition, payload, cron, every, at, zone, starts, ends, jitter, missed, overlap_group);
    PERFORM belfry.check_push(queue, delay, NULL);
    PERFORM belfry.check_scheduler(ARRAY[queue]);
    LOOP
        SELECT * INTO v_old FROM belfry.schedule s WHERE s.name = name FOR NO KEY UPDATE;
        PERFORM belfry.check_scheduler(ARRAY[v_old.queue]) WHERE v_old.id IS NOT NULL;
        v_now := clock_timestamp();
        v_new := v_old;
        v_new.name := name; v_new.queue := queue; v_new.partition := coalesce(partition, 'Default'); v_new.payload := payload;
        v_new.cron := trim(cron); v_new.every_seconds := extract(epoch FROM every); v_new.at := at; v_new.zone := zone;
        v_new.starts := starts; v_new.ends := ends; v_new.jitter := coalesce(jitter, '0'); v_new.missed := missed;
        v_new.overlap_group := overlap_group; v_new.headers := belfry.check_headers(headers); v_new.delay := coalesce(delay, '0');
        v_new.scheduled_by := quote_ident(belfry.calling_role())::regrole;
        IF v_old.error IS NOT NULL
           OR (v_new.cron, v_new.every_seconds, v_new.at, v_new.zone, v_new.starts, v_new.ends, v_new.jitter) IS DISTINCT FROM
              (v_old.cron, v_old.every_seconds, v_old.at, v_old.zone, v_old.starts, v_old.ends, v_old.jitter) THEN
            IF at <= v_now THEN
                RAISE EXCEPTION 'belfry.schedule: the instant % is in the past', at
                    USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a later instant. To send a message now, call belfry.push.';
            END IF;
            v_new.handled_to := greatest(v_old.handled_to, v_now);
            v_new.next_at := NULL;
            v_new.due_at := CASE WHEN v_old.paused IS NOT TRUE THEN '-infinity'::timestamptz END;
        END IF;
        IF (queue, v_new.partition) IS DISTINCT FROM (v_old.queue, v_old.partition) THEN
            v_new.last_transaction_id := NULL; -- overlap_group cannot find the message any more
            v_new.last_inbox_id := NULL;
        END IF;
        IF v_old.id IS NULL THEN
            INSERT INTO belfry.schedule (name, queue, partition, cron, every_seconds, at, zone, starts, ends, jitter, missed, overlap_group,
                                         payload, headers, delay, scheduled_by, handled_to)
            VALUES (v_new.name, v_new.queue, v_new.partition, v_new.cron, v_new.every_seconds, v_new.at, v_new.zone, v_new.starts, v_new.ends,
                    v_new.jitter, v_new.missed, v_new.overlap_group, v_new.payload, v_new.headers, v_new.delay, v_new.scheduled_by, v_new.handled_to)
            ON CONFLICT ON CONSTRAINT schedule_name_key DO NOTHING;
            IF FOUND THEN
                RETURN true;
            END IF; -- else another transaction has just created the schedule
        ELSE
            UPDATE belfry.schedule s
               SET queue = v_new.queue, partition = v_new.partition, cron = v_new.cron, every_seconds = v_new.every_seconds, at = v_new.at,
                   zone = v_new.zone, starts = v_new.starts, ends = v_new.ends, jitter = v_new.jitter, missed = v_new.missed,
                   overlap_group = v_new.overlap_group, payload = v_new.payload, headers = v_new.headers, delay = v_new.delay,
                   handled_to = v_new.handled_to, next_at = v_new.next_at, due_at = v_new.due_at, last_transaction_id = v_new.last_transaction_id,
                   last_inbox_id = v_new.last_inbox_id, error = NULL, scheduled_by = v_new.scheduled_by, changed_at = clock_timestamp()
             WHERE s.id = v_old.id;
            RETURN false;
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION belfry.schedule(text, text, json, text, interval, timestamptz, text, text, json, interval, timestamptz, timestamptz, interval, text, text) FROM PUBLIC;
