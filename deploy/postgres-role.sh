#!/bin/sh
# Makes an ordinary role and its database: row-level security does not apply to a superuser.
set -eu
psql --no-psqlrc --set=ON_ERROR_STOP=1 --set=password="$OMSGRAIN_PASSWORD" <<'SQL'
CREATE ROLE omsgrain LOGIN PASSWORD :'password' NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;
CREATE DATABASE memory OWNER omsgrain;
REVOKE CONNECT ON DATABASE memory FROM PUBLIC;
SQL
