-- Rows that cycles of streams lock. All cycles of one stream in one partition lock the same row.
CREATE TABLE belfry.stream_cycle (
    stripe integer PRIMARY KEY -- A hash of the stream and the partition. A cycle inserts a missing row.
);
