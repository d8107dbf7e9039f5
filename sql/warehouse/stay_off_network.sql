-- The extension `httpfs` is loaded only for its cipher; this session uses no network.
SET disabled_filesystems = 'HTTPFileSystem,S3FileSystem,HuggingFaceFileSystem'
