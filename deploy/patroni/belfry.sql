-- Run this once on the primary, as the superuser: psql -h 10.0.0.11 -U postgres -f belfry.sql
CREATE ROLE belfry LOGIN PASSWORD 'change-me-belfry';
CREATE DATABASE belfry OWNER belfry;
