-- A vacuum that finds the end of a table empty gives it back to the file system, and
-- keeps everybody out of the table meanwhile. In one of 40 runs of belfry bench pushes
-- waited 270 ms for such a lock, which nothing else takes. What retention frees is for
-- the messages that come next. As for the inbox (000013), whose rows may have long
-- values as well.
ALTER TABLE belfry.message SET (vacuum_truncate = false, toast.vacuum_truncate = false);
ALTER TABLE belfry.partition SET (vacuum_truncate = false, toast.vacuum_truncate = false);
ALTER TABLE belfry.cursor SET (vacuum_truncate = false, toast.vacuum_truncate = false);
ALTER TABLE belfry.redrive SET (vacuum_truncate = false);
ALTER TABLE belfry.dead_letter SET (vacuum_truncate = false, toast.vacuum_truncate = false);
ALTER TABLE belfry.trace SET (vacuum_truncate = false, toast.vacuum_truncate = false);
ALTER TABLE belfry.trace_name SET (vacuum_truncate = false, toast.vacuum_truncate = false);
ALTER TABLE belfry.inbox SET (toast.vacuum_truncate = false);
