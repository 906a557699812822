-- The owner of partitions of a queue, such as a customer. A push that creates a partition may name it, or the name of
-- the partition contains it; see belfry.open_tenants. It is deleted with the last partition that has it.
CREATE TABLE belfry.tenant (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id bigint NOT NULL REFERENCES belfry.queue (id),
    name     text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),
    UNIQUE (queue_id, name)
);
