ALTER TABLE belfry.message RESET (vacuum_truncate, toast.vacuum_truncate);
ALTER TABLE belfry.partition RESET (vacuum_truncate, toast.vacuum_truncate);
ALTER TABLE belfry.cursor RESET (vacuum_truncate, toast.vacuum_truncate);
ALTER TABLE belfry.redrive RESET (vacuum_truncate);
ALTER TABLE belfry.dead_letter RESET (vacuum_truncate, toast.vacuum_truncate);
ALTER TABLE belfry.trace RESET (vacuum_truncate, toast.vacuum_truncate);
ALTER TABLE belfry.trace_name RESET (vacuum_truncate, toast.vacuum_truncate);
ALTER TABLE belfry.inbox RESET (toast.vacuum_truncate);
