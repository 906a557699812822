-- A redrive that the instances run until its end. The instance that runs it has a lease. See pkg/engine/redrivejob.
CREATE TABLE belfry.redrive_job (
    id             uuid PRIMARY KEY, -- The id of its row in belfry.audit.
    queue          text NOT NULL,
    consumer_group text NOT NULL,
    -- The other filters, each NULL if it selects all. No dead letter is redriven that failed after failed_to.
    partition      text,
    transaction_id text,
    error          text,
    failed_from    timestamptz,
    failed_to      timestamptz NOT NULL,
    rate           bigint NOT NULL, -- Messages per second at most; 0: no limit.
    matched        bigint NOT NULL, -- The job redrives at most this number of dead letters.
    snapshot       pg_snapshot NOT NULL, -- Of the count. No dead letter is redriven that came later.
    counted_at     timestamptz NOT NULL,
    epoch          bigint NOT NULL, -- In another epoch the snapshot is not valid, and the job counts again.
    redriven       bigint NOT NULL DEFAULT 0, -- Written in the transaction of each page.
    subject        text,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at       timestamptz,
    state          text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'stopped', 'failed')),
    failure        text,
    lease_id       uuid,
    lease_until    timestamptz,
    instance       text
);
CREATE INDEX redrive_job_created ON belfry.redrive_job (created_at, id);
CREATE INDEX redrive_job_running ON belfry.redrive_job (lease_until) WHERE state = 'running';
