SET enable_progress_bar = false;
LOAD {{ extension }};
-- The extension is loaded only for its cipher; no session uses the network.
SET disabled_filesystems = 'HTTPFileSystem,S3FileSystem,HuggingFaceFileSystem'
