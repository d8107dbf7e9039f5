#!/bin/sh
# Make the secrets of a cluster deployment: a password for each role of PostgreSQL, the libpq service files from which
# processes take them, and the keys of the S3 server. What is there already stays, so a second run adds what is missing.
# Each file is written beside its place and renamed: one that has its name is whole, whenever this is killed.
#
#   deploy/secrets.sh FOLDER DATABASE_HOST [DATABASE_PORT]
#
# STIRRED_SSL holds further lines of each service, such as "sslmode=verify-full sslrootcert=/etc/stirred/ca.pem". It must name
# an sslmode, unless the host is this machine or the service `database` of the compose file: by default, libpq goes on
# without TLS if the server offers none, and says nothing.
# Nobody but the owner can enter the folder. The files in it are readable, because containers mount single files, whose
# users are others. libpq asks for no mode of a service file, as it does for PGPASSFILE.
set -eu
umask 077
folder=$1 host=$2 port=${3:-5432}
case $host in
localhost | 127.0.0.1 | ::1 | /* | database) ;;
*)
    given=
    for word in ${STIRRED_SSL:-}; do
        case $word in
        sslmode=require | sslmode=verify-ca | sslmode=verify-full) given=yes ;;
        sslmode=*) given= && break ;;
        esac
    done
    if [ -z "$given" ]; then
        echo "$host is another machine: set STIRRED_SSL, such as \"sslmode=verify-full sslrootcert=/etc/stirred/ca.pem\"," \
            "as libpq goes on without TLS otherwise. Nothing was made" >&2
        exit 1
    fi
    ;;
esac
new=$folder/.new
mkdir -p "$folder"
# Of two at once, the second one waits, and keeps the passwords of the first one; macOS has no flock.
exec 9<"$folder"
command -v flock >/dev/null && flock 9
rm -rf "$new"
mkdir -p "$folder/passwords" "$folder/services" "$new/services"

keep() { # ROLE
    if [ ! -s "$folder/passwords/$1" ]; then
        od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$new/password"
        chmod 0444 "$new/password"
        mv -f "$new/password" "$folder/passwords/$1"
    fi
    cat "$folder/passwords/$1"
}
service() { # FILE SERVICE ROLE
    {
        printf '[%s]\nhost=%s\nport=%s\ndbname=%s\nuser=%s\npassword=' "$2" "$host" "$port" "$2" "$3"
        keep "$3"
        printf '\n'
        # By default, libpq waits for a server that is gone without a word for two hours.
        printf 'connect_timeout=10\nkeepalives_idle=60\nkeepalives_interval=10\nkeepalives_count=3\ntcp_user_timeout=60000\n'
        for line in ${STIRRED_SSL:-}; do printf '%s\n' "$line"; done
    } >>"$new/services/$1"
}

keep postgres >/dev/null
# The webserver and the daemon have this file alone: neither a zone nor the ledger.
service dagster stirred_dagster stirred_dagster
# The code location and its runs.
service runs stirred_dagster stirred_dagster
service runs stirred_ledger stirred_office
service runs stirred_confidential stirred_confidential
service runs stirred_public stirred_public
# Whoever migrates the ledger, auditors, and readers of public tables.
service owner stirred_ledger stirred_ledger_owner
service auditor stirred_ledger stirred_auditor
service reader stirred_public stirred_reader

runs=$(keep s3_runs)
reader=$(keep s3_reader)
printf 'AWS_ACCESS_KEY_ID=stirred_runs\nAWS_SECRET_ACCESS_KEY=%s\n' "$runs" >"$new/runs.env"
printf 'AWS_ACCESS_KEY_ID=stirred_reader\nAWS_SECRET_ACCESS_KEY=%s\n' "$reader" >"$new/reader.env"
cat >"$new/s3.json" <<S3
{"identities": [
  {"name": "runs", "credentials": [{"accessKey": "stirred_runs", "secretKey": "$runs"}],
   "actions": ["Read:confidential", "Write:confidential", "List:confidential",
               "Read:public", "Write:public", "List:public"]},
  {"name": "reader", "credentials": [{"accessKey": "stirred_reader", "secretKey": "$reader"}],
   "actions": ["Read:public", "List:public"]}
]}
S3
chmod 0444 "$new"/*.* "$new"/services/* "$folder"/passwords/*
mv -f "$new"/services/* "$folder/services"
mv -f "$new"/*.* "$folder"
rmdir "$new/services" "$new"
chmod 0755 "$folder/passwords" "$folder/services"
chmod 0700 "$folder"
