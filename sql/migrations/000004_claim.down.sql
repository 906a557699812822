-- The function has the signature of version 3 and does the same: it may stay.
SELECT 1;
