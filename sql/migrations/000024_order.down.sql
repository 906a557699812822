ALTER INDEX belfry.partition_id RESET (deduplicate_items);
