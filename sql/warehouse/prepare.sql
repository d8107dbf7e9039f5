SET enable_progress_bar = false;
LOAD {{ extension }};
-- The extension is loaded for its cipher; nothing of a session goes over the network.
SET disabled_filesystems = 'HTTPFileSystem,S3FileSystem,HuggingFaceFileSystem'
