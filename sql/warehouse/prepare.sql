-- Up to the size of the buffer, threads compute a result ahead of the one that reads it.
SET enable_progress_bar = false;
SET streaming_buffer_size = '128MB'
