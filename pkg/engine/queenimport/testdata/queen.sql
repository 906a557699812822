-- The tables of Queen MQ 0.15 that an import reads.
CREATE SCHEMA queen;
CREATE TABLE queen.queues (id uuid PRIMARY KEY, name varchar(255) UNIQUE, namespace varchar(255), task varchar(255), priority int, lease_time int,
    retry_limit int, retry_delay int, ttl int, dead_letter_queue boolean, dlq_after_max_retries boolean, delayed_processing int, window_buffer int,
    retention_seconds int, completed_retention_seconds int, retention_enabled boolean, encryption_enabled boolean, max_wait_time_seconds int,
    max_queue_size int, created_at timestamptz);
CREATE TABLE queen.partitions (id uuid PRIMARY KEY, queue_id uuid, name varchar(255) DEFAULT 'Default', created_at timestamptz, last_activity timestamptz,
    UNIQUE (queue_id, name));
CREATE TABLE queen.messages (id uuid PRIMARY KEY, transaction_id varchar(255), trace_id uuid, partition_id uuid, payload jsonb, created_at timestamptz,
    is_encrypted boolean, producer_sub text, UNIQUE (partition_id, transaction_id));
CREATE TABLE queen.partition_consumers (partition_id uuid, consumer_group varchar(255) DEFAULT '__QUEUE_MODE__', last_consumed_id uuid,
    last_consumed_created_at timestamptz, total_messages_consumed bigint, lease_expires_at timestamptz, worker_id varchar(255), batch_size int,
    acked_count int, batch_retry_count int, UNIQUE (partition_id, consumer_group));
CREATE TABLE queen.consumer_groups_metadata (consumer_group varchar(255), queue_name varchar(255), partition_name varchar(255), namespace varchar(255),
    task varchar(255), subscription_mode varchar(255), subscription_timestamp timestamptz);
CREATE TABLE queen.dead_letter_queue (message_id uuid, partition_id uuid, consumer_group varchar(255), error_message text, retry_count int,
    original_created_at timestamptz, failed_at timestamptz);
CREATE SCHEMA queen_streams;
CREATE TABLE queen_streams.queries (id uuid PRIMARY KEY, name text UNIQUE, source_queue text, sink_queue text, config_hash text, created_at timestamptz,
    updated_at timestamptz);
CREATE TABLE queen_streams.state (query_id uuid, partition_id uuid, key text, value jsonb, updated_at timestamptz, PRIMARY KEY (query_id, partition_id, key));
