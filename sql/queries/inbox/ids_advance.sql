-- The tables whose ids were about to be given away again: see belfry.advance_ids.
SELECT belfry.advance_ids()
