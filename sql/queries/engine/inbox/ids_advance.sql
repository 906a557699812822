-- Returns the tables whose next ids were already in use; see belfry.advance_ids.
SELECT belfry.advance_ids()
