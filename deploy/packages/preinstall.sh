#!/bin/sh
# Creates the user of the service. Runs before the files are unpacked, because some belong to the group.
set -e
getent group belfry >/dev/null || groupadd --system belfry
getent passwd belfry >/dev/null || useradd --system --gid belfry --no-create-home --home-dir /var/lib/belfry \
  --shell /usr/sbin/nologin --comment 'Belfry' belfry
