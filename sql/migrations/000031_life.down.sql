DROP FUNCTION belfry.life();
