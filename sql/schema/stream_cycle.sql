-- Rows that cycles of streams lock. The cycles of a stream in a partition lock the same row.
CREATE TABLE belfry.stream_cycle (
    stripe integer PRIMARY KEY -- A hash of the stream and the partition. Cycles insert what is missing.
);
