-- Deletes the schedule $1; see belfry.unschedule.
SELECT belfry.unschedule($1::text)
