CALL postgres_execute(
    {{ catalog }},
    'VACUUM FULL ducklake_data_file, ducklake_file_column_stats, ducklake_table_column_stats',
    use_transaction => false
)
