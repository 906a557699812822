DROP TABLE belfry.inbox;
