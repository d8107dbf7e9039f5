-- Deletes files that no catalog has an entry of and that are older than `age` seconds.
FROM ducklake_delete_orphaned_files({{ zone }}, older_than => now() - to_seconds($age))
