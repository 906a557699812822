DROP FUNCTION belfry.await(text, text, text);
