CALL ducklake_expire_snapshots({{ zone }}, versions => {{ versions }})
