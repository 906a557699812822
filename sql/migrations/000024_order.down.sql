ALTER INDEX belfry.partition_id RESET (deduplicate_items);
ALTER INDEX belfry.cursor_place RESET (deduplicate_items);
