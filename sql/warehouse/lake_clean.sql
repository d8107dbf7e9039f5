FROM ducklake_cleanup_old_files({{ zone }}, cleanup_all => true)
