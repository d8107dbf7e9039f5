-- The states of a lake that were followed by another one longer than `age` seconds ago.
SELECT snapshot_id
FROM ducklake_snapshots({{ zone }})
WHERE snapshot_id < (
    SELECT max(snapshot_id) FROM ducklake_snapshots({{ zone }}) WHERE snapshot_time <= now() - to_seconds($age)
)
ORDER BY snapshot_id
