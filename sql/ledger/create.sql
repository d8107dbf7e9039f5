-- The constraints prevent a second charge or settlement of a draw, even by a program that does not check.
CREATE TABLE IF NOT EXISTS {{ table }} (
    sequence BIGINT NOT NULL PRIMARY KEY,
    kind VARCHAR NOT NULL,
    dataset VARCHAR NOT NULL,
    release VARCHAR NOT NULL,
    draw_id VARCHAR NOT NULL,
    specification VARCHAR,
    commitment VARCHAR NOT NULL,
    output_version VARCHAR,
    recorded_at VARCHAR NOT NULL,
    previous_hash VARCHAR NOT NULL,
    hash VARCHAR NOT NULL,
    details VARCHAR,
    UNIQUE (kind, draw_id)
)
